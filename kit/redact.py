"""Secrets in command lines, environments and text: found by name or by shape, and replaced.

The functions are pure. The module imports nothing of the kit and keeps to the syntax of Python 3.6, because its text
goes in front of the sampler (`kit.capture.sampler_program`), which may run on an old host.

Names decide first (`HF_TOKEN=…`, `--api-key …`, `"password": …`), then shapes (`hf_…`, `sk-…`, `AKIA…`, bearer headers,
URLs with a password). Words that only look like it are kept, for analysis needs them: `max_tokens=512`,
`tokenizer='…'`, `eos_token_id=2`, `api_key=None`.
"""

import re

MARK = "[redacted]"
"""What stands in place of a secret."""

ENVIRON_PREFIXES = tuple(
    """
    CUDA_ CUBLAS_ CUDNN_ DG_ FI_ FLASHINFER_ GGML_ GLOO_ GPU_ HF_HUB_ HF_DATASETS_ HIP_ HSA_ KMP_ LLAMA_ LMCACHE_ MKL_
    MOONCAKE_ NCCL_ NUMEXPR_ NVIDIA_ NVSHMEM_ OMP_ OPENBLAS_ PYTHON PYTORCH_ RCCL_ ROCM_ ROCR_ SGL_ SGLANG_ TLLM_ TOKENIZERS_
    TORCH_ TORCHINDUCTOR_ TORCHELASTIC_ TRANSFORMERS_ TRITON_ TRTLLM_ UCX_ VLLM_ XLA_
    """.split()
)
"""Environment variables whose values explain a launch. Of all others only the name is recorded."""
ENVIRON_NAMES = frozenset(
    """
    GROUP_RANK HF_ENDPOINT HF_HOME LANG LC_ALL LD_LIBRARY_PATH LD_PRELOAD LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
    MAX_JOBS NODE_RANK NO_PROXY RANK ROLE_RANK SLURM_JOB_NUM_NODES SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_PROCID TZ
    WORLD_SIZE no_proxy
    """.split()
)

_WORDS = frozenset(
    """
    token secret secrets password passwd passphrase pass pwd apikey credential credentials authtoken accesstoken secretkey
    accesskey privatekey hftoken signature
    """.split()
)
_STRICT = frozenset(("secret", "secrets", "password", "passwd", "passphrase", "pwd"))
_BEFORE_KEY = frozenset(
    """
    api access secret private signing encryption auth ssh account master service shared admin client license
    """.split()
)
_NOT_TOKEN = frozenset(
    """
    bos eos pad unk sep cls mask image video audio special next last first stop per each draft cache
    """.split()
)
"""Words that make a `…_token` one of a vocabulary."""
_PLAIN = re.compile(r"(?:none|null|nil|true|false|auto|unset|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\Z", re.IGNORECASE)

_QUICK = re.compile(
    r"token|key|secret|pass|pwd|credential|auth|bearer|://|cookie|sig|hf_|sk-|rk-|AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|"
    r"xox[a-z]-|nvapi-|AIza|eyJ|dckr_pat_|npm_|pypi-|PRIVATE KEY",
    re.IGNORECASE,
)
"""Text without any of these holds nothing to scrub: one cheap search for most log lines."""

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[A-Za-z0-9]*[A-Z0-9])[A-Za-z0-9]{8,}"  # Hugging Face
    r"|api_org_[A-Za-z0-9]{20,}"
    r"|[sr]k-(?=[A-Za-z0-9_-]*[A-Z0-9])[A-Za-z0-9_-]{8,}"  # OpenAI, Anthropic and those who copy them
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}"  # AWS access key id
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|nvapi-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}"
    r"|dckr_pat_[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"  # JSON web token
    r")"
)
_PEM = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:.*?(-----END [A-Z ]*PRIVATE KEY-----)|.*)", re.DOTALL)
_URL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"<>]*:[^\s'\"<>/]*@(?=[^\s@])")
_HTTP_USER = re.compile(r"(?i)(\bhttps?://)[^\s/:@'\"<>]+@(?=[^\s@])")
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|x-api-key|api-key|cookie|set-cookie)(['\"]?\s*[:=]\s*['\"]?)"
    r"(?!(?:\w+\s+)?\[redacted\])((?:bearer|basic|token|digest)\s+)?([^\s'\",;\\]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)(?!\[redacted\])(?=[^\s'\",;]*[0-9A-Z._-])([A-Za-z0-9._~+/=-]{6,})")
_SIGNED = re.compile(r"([?&](?:sig|code)=)(?!\[redacted\])[^&\s'\"]{6,}")
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\[[^\]]*\]|\\?[\"'][^\"'\\]*|[^\s,;&)}\]'\"]+)"
_ASSIGN = re.compile(r"(?<![A-Za-z0-9_.])(-{0,2})(" + _NAME + r")(\\?['\"]?\s?[:=]\s?)(" + _VALUE + ")")
_FLAG = re.compile(r"(?<![\w-])(--?)(" + _NAME + r")((?:['\"],)?\s+)(?!-)(" + _VALUE + ")")


def secret_name(name, flag=False):
    """Tell whether a variable, key or flag of this name holds a secret.

    Parameters
    ----------
    name : str
        Name without leading dashes.
    flag : bool
        It is a command-line flag: there a plain `key` counts too.

    Returns
    -------
    bool

    Examples
    --------
    >>> [secret_name(n) for n in ("HF_TOKEN", "api_key", "dbPassword", "MY_KEY")]
    [True, True, True, True]
    >>> [secret_name(n) for n in ("max_tokens", "tokenizer", "eos_token_id", "TOKENIZERS_PARALLELISM", "pass_config")]
    [False, False, False, False, False]
    """
    if name.isupper():
        bare = re.sub(r"TOKENS\b|TOKENIZERS?|MONKEY|KEYBOARD|PASS_CONFIG|BYPASS|PASSES|PASSED|_TOKEN_(?:IDS?|LEN\w*)\b", "", name)
        return re.search(r"TOKEN|KEY|SECRET|PASS|PWD|CREDENTIAL|_SIG\b", bare) is not None
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    for position, word in enumerate(words):
        if word == "token" and (position + 1 < len(words) or _NOT_TOKEN.intersection(words)):
            continue  # `multi_token_prediction`, `eos_token`
        if word == "pass" and position + 1 < len(words):
            continue  # `pass_config`, `pass_manager`
        if word in _WORDS:
            return True
        if word == "key" and (flag and len(words) == 1 or position and words[position - 1] in _BEFORE_KEY):
            return True
    return False


def _strict(name):
    """Names whose values are secret even where they are plain numbers."""
    return name.isupper() or any(word in _STRICT for word in re.split(r"[^a-z]+", name.lower()))


def _quoted(value):
    """Put the mark in place of a value and keep its quotes, so that JSON and Python literals stay readable."""
    escaped = value[:1] == "\\"
    quote = value[escaped : escaped + 1]
    if quote in ("'", '"') and len(value) > escaped + 1:
        closed = value.endswith(quote)
        return ("\\" if escaped else "") + quote + MARK + (quote if closed else "")
    return MARK


def _assignment(found):
    dashes, name, between, value = found.groups()
    bare = value.strip("\\'\"[] ")
    if not bare or bare == "redacted" or bare.startswith("<") or not secret_name(name, bool(dashes)):
        return found.group(0)
    if _PLAIN.match(bare) and not (_strict(name) and bare[:1].isdigit()):
        return found.group(0)
    return dashes + name + between + _quoted(value)


def scrub_text(text):
    """Replace the secrets in text: log lines, command lines joined by spaces, answers of a server.

    Parameters
    ----------
    text : str
        One or more lines.

    Returns
    -------
    str
        The same with `[redacted]` in place of each secret; scrubbing it again changes nothing.

    Examples
    --------
    >>> scrub_text("vllm serve m --api-key abc --max-num-batched-tokens 2048")
    'vllm serve m --api-key [redacted] --max-num-batched-tokens 2048'
    >>> scrub_text("ServerArgs(api_key=None, hf_token='hf_aBcDeFgH1234', tokenizer='m')")
    "ServerArgs(api_key=None, hf_token='[redacted]', tokenizer='m')"
    >>> scrub_text("GET http://ada:hunter2@proxy:3128/ Authorization: Bearer abc.def")
    'GET http://[redacted]@proxy:3128/ Authorization: Bearer [redacted]'
    """
    if not _QUICK.search(text):
        return text
    text = _PEM.sub(lambda found: found.group(1) + MARK + (found.group(2) or ""), text)
    text = _URL.sub(r"\1" + MARK + "@", text)
    text = _HTTP_USER.sub(lambda found: found.group(0) if MARK in found.group(0) else found.group(1) + MARK + "@", text)
    text = _HEADER.sub(
        lambda found: (
            found.group(1) + found.group(2) + (found.group(3) or "") + MARK
            if not _PLAIN.match(found.group(4))
            else found.group(0)
        ),
        text,
    )
    text = _BEARER.sub(r"\1" + MARK, text)
    text = _SIGNED.sub(r"\1" + MARK, text)
    text = _FLAG.sub(_assignment, text)
    text = _ASSIGN.sub(_assignment, text)
    return _SHAPES.sub(MARK, text)


def scrub_argv(argv):
    """Replace the secrets in a command line.

    Parameters
    ----------
    argv : list of str
        Words of the command.

    Returns
    -------
    list of str
        As many words. After `--api-key` every word up to the next flag goes, for vLLM takes several keys there.

    Examples
    --------
    >>> scrub_argv(["vllm", "serve", "m", "--api-key", "k1", "k2", "--port", "8000", "--hf-token=x"])
    ['vllm', 'serve', 'm', '--api-key', '[redacted]', '[redacted]', '--port', '8000', '--hf-token=[redacted]']
    """
    scrubbed, hiding = [], None
    for word in argv:
        if word.startswith("-") and len(word) > 1:
            name = word.lstrip("-")
            hiding = name if "=" not in name and secret_name(name, flag=True) else None
            scrubbed.append(_whole_word(word))
        elif hiding is not None:
            scrubbed.append(MARK)
            hiding = hiding if hiding.lower().replace("_", "-").endswith("api-key") else None
        else:
            scrubbed.append(_whole_word(word))
    return scrubbed


def _whole_word(word):
    """Scrub one word: an assignment goes to the word's end, blanks included."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("-")
    if (
        equals
        and value
        and re.match(_NAME + r"\Z", bare)
        and secret_name(bare, flag=name != bare)
        and not (_PLAIN.match(value) and not _strict(bare))
    ):
        return name + equals + MARK
    return scrub_text(word)


def scrub_environ(environ):
    """Keep the names of all environment variables and the values of those that explain a launch.

    Parameters
    ----------
    environ : dict of str to str

    Returns
    -------
    dict of str to (str or None)
        Sorted by name; None where the value is not recorded.

    Examples
    --------
    >>> scrub_environ({"NCCL_DEBUG": "INFO", "VLLM_API_KEY": "abc", "HOME": "/home/ada"})
    {'HOME': None, 'NCCL_DEBUG': 'INFO', 'VLLM_API_KEY': None}
    """
    kept = {}
    for name in sorted(environ):
        allowed = name in ENVIRON_NAMES or name.startswith(ENVIRON_PREFIXES)
        kept[name] = scrub_text(environ[name]) if allowed and not secret_name(name) else None
    return kept
