"""Remedies need their mechanism: for each, evidence that shows it, and evidence of the same class that does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.signatures import remedies, signatures
from kit.analyse.verdict.surroundings import surroundings
from tests.analyse.verdict.scenes import Part, error, event, gpu, line, ps, row, scene, stack

NEW = ("download_stalled", "slow_post_load", "slow_compile", "driver_or_io_stuck", "frontend_cpu_bound", "collective_desync")


@dataclass
class Case:
    """A remedy, the class it is for, and what shows it: parts of the evidence and signs; `unlike` shows it not."""

    name: str
    klass: str
    parts: tuple[Part | list[Part], ...] = ()
    signs: tuple[str, ...] = ()
    unlike: tuple[Part | list[Part], ...] | None = None
    unlike_signs: tuple[str, ...] | None = None
    state: str = "stalled"


def log(text: str, server: str = "vllm", phase: str | None = None) -> Part:
    return line(None, text, "other", server=server, phase=phase)


def started(server: str) -> Part:
    return line("args", "args", phase="launch", server=server, at=0)


CASES = [
    Case(
        "xet-download-freezes",
        "download_stalled",
        (stack(10, "xet_get (huggingface_hub/file_download.py)"),),
        unlike=(stack(10, "http_get (huggingface_hub/file_download.py)"),),
    ),
    Case("download-apart-from-the-launch", "download_stalled", signs=("size_flat",), unlike_signs=("long_silence",)),
    Case(
        "experts-are-shuffled-for-the-kernel",
        "slow_post_load",
        (log("Shuffling MoE weights for the mxfp4 kernel (layer: 3), it might take a while", "sglang"),),
        unlike=(log("Shuffling the data set with seed 7", "sglang"),),
        state="progressing",
    ),
    Case(
        "weights-are-converted-at-each-start",
        "slow_post_load",
        (stack(10, "process_weights_after_loading (fp8.py)"),),
        unlike=(stack(10, "load_weights (loader.py)"),),
        state="progressing",
    ),
    Case(
        "deep-gemm-compiles-first",
        "slow_compile",
        (log("Entering DeepGEMM JIT Pre-Compile session. It may take long", "sglang"),),
        unlike=(log("DeepGEMM is enabled for this model", "sglang"),),
        state="progressing",
    ),
    Case(
        "kernel-cache-on-a-shared-filesystem",
        "slow_compile",
        (row("filesystems", mount="/shared", type="gpfs"),),
        ("compilers_run",),
        unlike=(row("filesystems", mount="/", type="ext4"),),
        state="progressing",
    ),
    Case(
        "torch-compile-without-a-kept-cache",
        "slow_compile",
        (line("dynamo", "Dynamo bytecode transform time: 9.1 s", phase="compile", server="vllm"),),
        unlike=(line("dynamo", "Dynamo bytecode transform time: 9.1 s", phase="compile", server="sglang"),),
        state="progressing",
    ),
    Case(
        "stuck-inside-the-gpu-driver",
        "driver_or_io_stuck",
        (gpu(0, 100, name="NVIDIA H100"),),
        ("wchan_driver",),
        unlike_signs=("wchan_driver", "nfs_dead"),
    ),
    Case(
        "storage-holds-a-task",
        "driver_or_io_stuck",
        (stack(10, "folio_wait_bit_common (kernel)"),),
        ("hung_task",),
        unlike=(stack(10, "uvm_ioctl (nvidia_uvm)"),),
    ),
    Case("odd-rank-stays", "rank_straggler", signs=("odd_rank_stays",), unlike_signs=("odd_rank_elsewhere",)),
    Case("storage-does-not-answer", "driver_or_io_stuck", signs=("nfs_dead",), unlike_signs=("wchan_driver",)),
    Case(
        "vllm-front-end-burns-in-requests",
        "frontend_cpu_bound",
        (started("vllm"), stack(10, "apply_chat_template (tokenization_utils_base.py)")),
        unlike=(started("vllm"), stack(10, "_poll_metrics (metrics.py)")),
    ),
    Case(
        "sglang-front-end-burns-in-requests",
        "frontend_cpu_bound",
        (started("sglang"), stack(10, "_tokenize_one_request (tokenizer_manager.py)")),
        unlike=(started("sglang"), stack(10, "handle_loop (router.py)")),
    ),
    Case("ranks-took-different-ways", "collective_desync", signs=("seq_differs",), unlike_signs=("collective_timeout",)),
    Case(
        "startup-probe-too-short",
        "killed_by_probe",
        (event("Unhealthy", "Startup probe failed"),),
        ("probe_killed",),
        unlike=(event("Exited", "Exited (143)", source="docker"),),
        state="failed",
    ),
    Case(
        "port-taken",
        "port_in_use",
        (error("bind", "OSError: [Errno 98] address already in use ('0.0.0.0', 8000)", server="vllm"),),
        unlike=(error("bind", "DistNetworkError: The server socket has failed to listen on port: 18121", server="vllm"),),
        state="failed",
    ),
    Case(
        "port-between-the-ranks-taken",
        "port_in_use",
        (error("bind", "DistNetworkError: The server socket has failed to listen on port: 18121", server="vllm"),),
        unlike=(error("bind", "OSError: [Errno 98] address already in use ('0.0.0.0', 8000)", server="vllm"),),
        state="failed",
    ),
    Case(
        "killed-from-outside", "worker_crashed", signs=("killed_from_outside",), unlike_signs=("died_unkilled",), state="failed"
    ),
    *(
        Case(name, "worker_crashed", (error("x", f"OSError: {says}"),), unlike=(error("x", f"OSError: {other}"),), state="failed")
        for name, says, other in (
            ("shared-memory-ran-out", "No space left on device: '/dev/shm/psm_1a2b'", "No space left on device: '/data/x'"),
            ("shared-memory-ran-out", "Insufficient space in /dev/shm: 160 MiB required", "cannot open /dev/shm/x"),
            ("disk-ran-out", "[Errno 28] No space left on device: '/data/x'", "No space left on device: '/dev/shm/x'"),
            ("disk-ran-out", "[Errno 122] Disk quota exceeded", "[Errno 5] Input/output error"),
            ("open-files-ran-out", "[Errno 24] Too many open files: '/proc/self/maps'", "[Errno 2] No such file"),
            ("threads-ran-out", "can't start new thread", "can't start new server"),
            ("threads-ran-out", "fork: retry: Resource temporarily unavailable", "fork: not found"),
        )
    ),
    Case(
        "peer-is-missing",
        "rendezvous_wait",
        (line("args", phase="launch", nnodes=2, at=0),),
        unlike=(line("args", phase="launch", nnodes=1, at=0),),
    ),
    Case(
        "vllm-eager",
        "device_hang",
        (line("capture", phase="graph_capture", server="vllm"),),
        unlike=(line("sampler", phase="warmup", server="vllm"),),
    ),
]


def named(case: Case, parts: tuple, signs: tuple[str, ...]) -> list[str]:
    here = scene(*parts)
    return [one["name"] for one in remedies(here, case.klass, signs, surroundings(here, case.klass, case.state))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_remedy_needs_its_mechanism(case: Case) -> None:
    assert case.name in named(case, case.parts, case.signs)
    unlike = case.parts if case.unlike is None else case.unlike
    assert case.name not in named(case, unlike, case.signs if case.unlike_signs is None else case.unlike_signs)


def test_each_class_has_a_remedy_from_a_report() -> None:
    for klass in NEW:
        known = [one for one in signatures() if any(wanted.pattern == f"^{klass}$" for wanted in one.when.get("class", ()))]
        assert known and all("https://" in one.source for one in known), klass


def test_names_in_a_remedy_are_those_of_the_evidence() -> None:
    here = scene(ps(10, "sglang::scheduler_TP0"), ps(11, "sglang::scheduler_TP1", state="T"))
    (found,) = (
        one
        for one in remedies(here, "rank_straggler", ["rank_stopped"], surroundings(here, "rank_straggler", "stalled"))
        if one["name"] == "stopped-rank"
    )
    assert found["do"].endswith("kill -CONT 11")


CRASH = """INFO 04-05 12:01:00 [core.py:50] Starting to load model org/m...
{before}
ERROR 04-05 12:02:00 [core.py:700] EngineCore failed to start.
ERROR 04-05 12:02:00 [core.py:700] Traceback (most recent call last):
ERROR 04-05 12:02:00 [core.py:700]   File "core.py", line 7, in run
ERROR 04-05 12:02:00 [core.py:700] ValueError: {cause}
"""


@pytest.mark.parametrize(
    ("cause", "quoted"),
    [
        ("None left. Try increasing `--num-gpu-blocks-override` first.", "“Try increasing `--num-gpu-blocks-override` first.”"),
        ("Every host has one address; set VLLM_HOST_IP to a unique one.", "“set VLLM_HOST_IP to a unique one.”"),
        ("No such model. Please file an issue and set VLLM_LOGGING_LEVEL.", None),
        ("The model has 7 heads.", None),
    ],
)
def test_the_advice_of_the_log_comes_first_with_its_line(tmp_path: Path, cause: str, quoted: str | None) -> None:
    (tmp_path / "server.log").write_text(CRASH.format(cause=cause, before="INFO 04-05 12:01:01 [x.py:1] loading"))
    found = kit.verdict(tmp_path).remedies
    given = [one["do"] for one in found if one["name"] == "advice-of-the-log"]
    assert given == ([quoted] if quoted else [])
    if quoted:
        assert found[0]["do"] == quoted and found[0]["source"] == "server.log, line 6"


def test_advice_far_from_the_cause_is_not_about_it(tmp_path: Path) -> None:
    before = "WARNING 04-05 12:01:01 [x.py:1] Consider reducing max_num_seqs.\n" + "\n".join(
        f"INFO 04-05 12:01:{n:02} [x.py:1] Loading part {n}" for n in range(2, 40)
    )
    (tmp_path / "server.log").write_text(CRASH.format(cause="The model has 7 heads.", before=before))
    assert "advice-of-the-log" not in [one["name"] for one in kit.verdict(tmp_path).remedies]
