"""Roles of failure lines: which error is the cause, which follows, which ends what is left."""

from __future__ import annotations

import pytest

from kit.analyse.verdict.failures import cause, first_error
from kit.analyse.verdict.log_digest import LogDigest
from kit.parse.base import Report, Source
from kit.parse.log import parse

OPENS = "Traceback (most recent call last):"
FRAME = '  File "serve.py", line 7, in load'


def digest(*lines: str) -> LogDigest:
    """The digest of a log of these lines."""
    log = LogDigest()
    for _, row in parse(lines, Source("server.log"), Report()):
        log.add({**row, "capture": "server.log"})
    return log


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["ValueError: no such layer", "RuntimeError: no such shard"], "ValueError: no such layer"),
        (["RuntimeError: Engine core initialization failed.", "ValueError: bad scale"], "ValueError: bad scale"),
        (["Signal 9 (SIGKILL) received by PID 41", "torch.OutOfMemoryError: full"], "torch.OutOfMemoryError: full"),
        (["Sending process 41 closing signal SIGTERM", "exitcode  : -9 (pid: 42)"], "exitcode  : -9 (pid: 42)"),
        (["Sending process 41 closing signal SIGTERM"], None),
        (["ERROR 01-02 03:04:05 [core.py:7] the worker hit an exception", OPENS, FRAME, "KeyError: 'q'"], "KeyError: 'q'"),
        (["ERROR 01-02 03:04:05 [core.py:7] disk quota exceeded", "KeyError: 'q'"], "disk quota exceeded"),
        ([OPENS, FRAME], OPENS),
        (["Received SIGTERM"], None),
        ([OPENS, FRAME, "KeyboardInterrupt: terminated"], None),
        ([OPENS, FRAME, "api.SignalException: Process 77 got signal: 15"], None),
    ],
    ids=["first of two", "cascade before", "report before", "teardown before", "teardown alone", "header", "no header",
         "cut traceback", "ending alone", "interrupt", "a signal that was raised"],
)  # fmt: skip
def test_the_first_error_is_the_first_that_began_something(lines: list[str], wanted: str | None) -> None:
    first = first_error(digest(*lines))
    assert (first.text if first else None) == wanted


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", "initiating"),
        ("worker exited with code -15", "cascade"),
        ("Finished server process [12]", "ending"),
        ("Received sigquit from a child process", "teardown"),
        (OPENS, "header"),
        ("ERROR 01-02 03:04:05 [x.py:1] TCPStore is gone", "cascade"),
        ("ERROR 01-02 03:04:05 [x.py:1] this is not tested and could result in errors", "noise"),
        ("Load weight begin.", None),
        ("WARNING 01-02 03:04:05 [x.py:1] CUDA out of memory, the next candidate is tried", "recovered"),
        ("./ask.sh: line 4:  771 Killed    python3 ask.py --url http://127.0.0.1:8000", "client"),
        ("./run.sh: line 4:  771 Killed    vllm serve org/m", "teardown"),
    ],
)
def test_each_failure_line_has_a_role(line: str, role: str | None) -> None:
    rows = [row for _, row in parse(["[2026-01-02 03:04:05 TP0] Init torch distributed begin.", line], Source("a"), Report())]
    assert rows[-1]["role"] == role


READY = "The server is fired up and ready to roll!"
BEGUN = "[2026-01-02 03:04:05 TP0] Init torch distributed begin."
SERVED = 'INFO:     10.0.0.7:1234 - "POST /v1/completions HTTP/1.1" 200 OK'
REFUSED = 'INFO:     10.0.0.7:1234 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
ERROR = "ValueError: no such layer"
ARGS = "server_args=ServerArgs(model_path='/m/x', tp_size=1)"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([BEGUN, ERROR, READY], None),
        ([BEGUN, READY, ERROR, SERVED], None),
        ([BEGUN, READY, ERROR, REFUSED, "Finished server process [12]"], ERROR),
        ([ARGS, ERROR, ARGS, BEGUN], None),
        ([BEGUN, ERROR, READY, "KeyError: 'q'"], "KeyError: 'q'"),
        ([BEGUN, ERROR, "iteration 12/ 900 | loss: 2.0"], ERROR),
        ([BEGUN, "Received SIGTERM", ERROR], "Received SIGTERM"),
    ],
    ids=["ready after it", "served after it", "died in its first request", "started again", "the second", "other server's words",
         "ended from outside"],
)  # fmt: skip
def test_an_error_that_the_launch_survived_is_no_cause(lines: list[str], wanted: str | None) -> None:
    found = cause(digest(*lines))
    assert (found.text if found else None) == wanted


SCRIPT = [OPENS, '  File "/home/me/ask.py", line 12, in <module>', "    r.raise_for_status()"]
OWN = [OPENS, '  File "/opt/venv/bin/vllm", line 8, in <module>', "    sys.exit(main())"]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([BEGUN, READY, "requests.exceptions.HTTPError: 400 Client Error: Bad Request for url: http://x/"], None),
        ([BEGUN, READY, "openai.APITimeoutError: Request timed out."], None),
        ([BEGUN, READY, *SCRIPT, "KeyError: 'choices'"], None),
        ([BEGUN, READY, "ValueError: Initial test run failed - Please make sure benchmark arguments are correct"], None),
        ([BEGUN, "requests.exceptions.HTTPError: 401 Client Error: Unauthorized"], "requests.exceptions.HTTPError: 401 Client"),
        ([BEGUN, READY, *OWN, "KeyError: 'choices'"], "KeyError: 'choices'"),
        ([BEGUN, READY, "[2026-01-02 03:04:05 TP0] httpx.ReadTimeout: no answer"], "httpx.ReadTimeout: no answer"),
    ],
    ids=["a library that asks", "no answer", "a script", "a benchmark", "before it was ready", "the server's own", "a rank's"],
)
def test_an_error_of_who_asks_the_server_is_none_of_the_server(lines: list[str], wanted: str | None) -> None:
    for found in (cause(digest(*lines)), first_error(digest(*lines))):
        assert (found.text[: len(wanted or "")] if found else None) == wanted


WAITS = "25 seconds elapsed: Waiting for GCS to be ready."
CHECK = [WAITS, OPENS, FRAME, "ray.exceptions.RpcError: Timed out while waiting for GCS to become available."]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([*CHECK, *CHECK, WAITS], None),
        (CHECK, CHECK[-1]),
        ([*CHECK, *CHECK, "ValueError: no such head"], "ValueError: no such head"),
    ],
    ids=["asked again and again", "asked once", "another error at the end"],
)
def test_an_error_between_the_waits_of_a_repeated_check_is_no_cause(lines: list[str], wanted: str | None) -> None:
    first = cause(digest(*lines))
    assert (first.text if first else None) == wanted


@pytest.mark.parametrize(
    ("line", "code", "role"),
    [
        ("serve: error: unrecognized arguments: --max-modle-len", "usage_error", "initiating"),
        ("train.py: error: argument --lr: invalid float value: 'x'", "usage_error", "initiating"),
        ("Error: No such option: --tpp", "usage_error", "initiating"),
        ("│ No such option: --tpp (Possible options: --tp) │", "usage_error", "initiating"),
        ("Synapse detected a device critical error (hl: 4) 09:01:02 [No progress error]", "device_lost", "initiating"),
        ("RuntimeError: backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "device_lost", "initiating"),
        ("bash: line 3: serve: command not found", "program_missing", "initiating"),
        ("/bin/sh: 1: exec: serve: not found", "program_missing", "initiating"),
        ("python3: can't open file '/srv/t.py': [Errno 2] No such file or directory", "program_missing", "initiating"),
        ("libnccl-net.so: not found", None, None),
        ("thread 'main' panicked at 'no shard'", "panic", "initiating"),
        ("RuntimeError: HIP error: out of memory", "gpu_oom", "initiating"),
        ("ROCm error: invalid device function", "device_error", "initiating"),
        ("EL0004: [PID: 7] Failed to allocate memory.", "gpu_oom", "initiating"),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes", "gpu_oom", "initiating"),
        ("grpc: RESOURCE_EXHAUSTED: too many requests", None, None),
        ("XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: save::9", "barrier_timeout", "initiating"),
        ("XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait", "store_barrier_timeout", "initiating"),
        ("/job:worker/replica:0/task:17", "barrier_missing", None),
        ("Collectives differ in the following aspects: Sequence number: 3vs 7", "collective_mismatch", "initiating"),
        ("a.cu:4: f: block: [0,0,0], thread: [3,0,0] Assertion `i < n` failed.", "device_error", "initiating"),
        ("Stopping coordination service as cluster registration failed.", "store_barrier_timeout", "initiating"),
        ("[Compiling module jit_step] Very slow compile? If you want to file a bug, run with envvar X", "compile_slow", None),
        ("I0211 10:07:33.410082 139822 train.py:171] state initialized, starting training loop at step 0", None, None),
        ("FatalError: `Termination signal` is detected by the operating system.", "sigterm", "ending"),
    ],
)
def test_words_of_launchers_and_accelerators_have_a_role(line: str, code: str | None, role: str | None) -> None:
    row = next(row for _, row in parse([line], Source("a"), Report()))
    assert (row["milestone"], row["role"]) == (code, role)
