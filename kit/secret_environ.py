"""Which values of environment variables are recorded.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re

from kit.redact import scrub_text
from kit.secret_names import ABOUT, REFERENCE, hides_word, is_path, secret_name, words_of

ENVIRON_PREFIXES = tuple(
    """
    CUDA_ CUBLAS_ CUDNN_ DG_ FI_ FLASHINFER_ GGML_ GLOO_ GPU_ HF_HUB_ HF_DATASETS_ HIP_ HSA_ KMP_ LLAMA_ LMCACHE_ MKL_
    MOONCAKE_ NCCL_ NUMEXPR_ NVIDIA_ NVSHMEM_ OMP_ OPENBLAS_ PYTHON PYTORCH_ RCCL_ ROCM_ ROCR_ SGL_ SGLANG_ TLLM_ TOKENIZERS_
    TORCH_ TORCHINDUCTOR_ TORCHELASTIC_ TRANSFORMERS_ TRITON_ TRTLLM_ UCX_ VLLM_ XLA_
    """.split()
)
"""Environment variables whose values explain a launch. Of others only those values are recorded that can be no secret."""
ENVIRON_NAMES = frozenset(
    """
    ASCEND_RT_VISIBLE_DEVICES ASCEND_VISIBLE_DEVICES HABANA_VISIBLE_DEVICES ZE_AFFINITY_MASK
    GROUP_RANK HF_ENDPOINT HF_HOME LANG LC_ALL LD_LIBRARY_PATH LD_PRELOAD LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
    MAX_JOBS NODE_RANK NO_PROXY RANK ROLE_RANK SLURM_JOB_NUM_NODES SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_PROCID TZ
    TERM WORLD_SIZE no_proxy
    """.split()
)
_SWITCH = re.compile(r"(?:0|1|true|false|yes|no|on|off|none)?\Z", re.IGNORECASE)
_PLAIN = re.compile(
    r"-?\d{1,12}(?:\.\d{1,12})?\Z|/\Z|[a-z][a-z0-9+]{1,20}://(?:[a-z]{1,20}@)?[\w.:-]{1,200}(?:/[A-Za-z.]{0,40}|/\d{1,3}){0,6}\Z"
)
"""A number, or a URL in which nothing is hidden."""


def _shown(name, value):
    """Whether the value of any variable may be shown: its form tells that it is no secret, or the end of the name does."""
    if _SWITCH.match(value) or REFERENCE.match(value) or is_path(value):
        return True
    if secret_name(name, flag=True) or name.endswith("_ACCESS"):
        return False
    words = words_of(name)
    return (
        _PLAIN.match(value) is not None
        or words[-1:]
        and words[-1] in ABOUT
        and not (words[-1] == "id" and hides_word(words[:-1]))
    )


def scrub_environ(environ):
    """Keep the names of all environment variables, and the values that explain a launch or that can be no secret.

    Sorted by name; None where the value is not recorded. Paths, numbers, switches and references such as `$HF_TOKEN` are
    shown, whatever the name; of other variables the value is shown where the name's last word says that it is about
    something: an address, a version, a job.

    Examples
    --------
    >>> scrub_environ({"NCCL_DEBUG": "INFO", "VLLM_API_KEY": "abc", "HOME": "/home/ada", "GREETING": "hello"})
    {'GREETING': None, 'HOME': '/home/ada', 'NCCL_DEBUG': 'INFO', 'VLLM_API_KEY': None}
    """
    kept = {}
    for name in sorted(environ):
        value = environ[name]
        known = name in ENVIRON_NAMES or name.startswith(ENVIRON_PREFIXES)
        known = known and not secret_name(name, flag=True) and not name.endswith("_ACCESS")
        kept[name] = scrub_text(value) if known or _shown(name, value) else None
    return kept
