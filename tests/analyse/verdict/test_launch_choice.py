"""Evidence of several launches: which one is judged, and what is said of the others."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

import kit
from kit.cli import main
from kit.errors import UsageError
from tests.analyse.verdict.scenes import line, listen, ps, scene

SERVER = (
    "[2025-10-09 08:{minute:02}:00] server_args=ServerArgs(model_path='/m', port={port}, tp_size=1)\n"
    "[2025-10-09 08:{minute:02}:20] Load weight begin. avail mem=78.00 GB\n"
)
FAILS = "[2025-10-09 08:{minute:02}:30] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
SERVES = (
    "[2025-10-09 08:{minute:02}:40] INFO:     Uvicorn running on http://0.0.0.0:{port} (Press CTRL+C to quit)\n"
    "[2025-10-09 08:{minute:02}:41] The server is fired up and ready to roll!\n"
)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two servers on one host: that of port 30000 failed, that of port 30001 came up later."""
    (tmp_path / "a.log").write_text((SERVER + FAILS).format(minute=10, port=30000))
    (tmp_path / "b.log").write_text((SERVER + SERVES).format(minute=20, port=30001))
    return tmp_path


def test_the_newest_log_is_judged_and_the_other_is_said(two: Path) -> None:
    verdict = kit.verdict(two)
    assert (verdict.state, verdict.facts.value("port"), verdict.facts.value("first_error")) == ("ready", 30001, None)
    (said,) = verdict.findings
    assert said["code"] == "not_of_this_launch"
    assert "a.log is of another launch (port 30000), b.log is the newest and is judged" in said["claim"]


def test_a_port_names_the_launch(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = kit.verdict(two, port=30000)
    assert (verdict.state, verdict.klass) == ("failed", "gpu_oom") and "b.log is of another" in verdict.findings[0]["claim"]
    assert kit.verdict(two).state == "ready", "what was asked is not kept"
    main(["verdict", str(two), "--port", "30000", "--brief"])
    assert "the GPU ran out of memory" in capsys.readouterr().out


def test_what_nothing_names_is_refused(two: Path) -> None:
    with pytest.raises(UsageError, match="nothing in the evidence is of port 8000") as refused:
        kit.verdict(two, port=8000)
    assert "30000, 30001" in str(refused.value)
    with pytest.raises(UsageError, match="of pid 77"):
        kit.verdict(two, pid=77)


def test_a_server_that_was_started_again_is_another_launch(tmp_path: Path) -> None:
    (tmp_path / "run1.log").write_text((SERVER + FAILS).format(minute=10, port=30000))
    (tmp_path / "run2.log").write_text((SERVER + SERVES).format(minute=20, port=30000))
    assert kit.verdict(tmp_path).state == "ready"


def test_logs_of_nodes_are_one_launch(tmp_path: Path) -> None:
    for node, minute in ((0, 10), (1, 12)):
        (tmp_path / f"server.node{node}.log").write_text(SERVER.format(minute=minute, port=30000 + node))
    assert not kit.verdict(tmp_path).findings


def test_the_launch_before_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "previous.log").write_text((SERVER + FAILS).format(minute=20, port=30000))
    (tmp_path / "server.log").write_text((SERVER + SERVES).format(minute=20, port=30000))
    assert kit.verdict(tmp_path).state == "ready"


def test_earlier_lines_of_the_same_log_are_no_cause(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text((SERVER + FAILS).format(minute=10, port=30000) + SERVER.format(minute=20, port=30000))
    verdict = kit.verdict(tmp_path, captured_at="2025-10-09 08:20:25")
    assert verdict.klass != "gpu_oom" and verdict.state != "failed"


ANOTHER = (
    "INFO 10-09 08:40:01 [api_server.py:1755] vLLM API server version 0.10.0\n"
    "INFO 10-09 08:40:02 [cli_args.py:261] non-default args: {'model': 'org/n', 'port': 8000}\n"
    "(EngineCore_0 pid=512) INFO 10-09 08:40:20 [gpu_model_runner.py:1843] Starting to load model org/n...\n"
)
UP = "INFO:     Started server process [501]\nINFO:     Application startup complete.\n"
NATIVE = (
    "build: 6121 (e54d41be) with cc (GCC) 13.2.0 for x86_64-linux-gnu\nmain: loading model\n"
    "main: server is listening on http://0.0.0.0:8080 - starting the main loop\n"
)
FIRST = SERVER.format(minute=10, port=30000)
GATEWAY = "Acme inference gateway v3 starting\nloading engine from /models/a\n"


@pytest.mark.parametrize(
    ("log", "state", "said"),
    [
        (FIRST + FAILS.format(minute=10) + ANOTHER + UP, "ready", "1 error; before the launch that is judged in its log"),
        (FIRST + FAILS.format(minute=10) + NATIVE, "ready", "1 error; before the launch"),
        (FIRST + FAILS.format(minute=10) + ANOTHER, "unknown", "1 error; before the launch"),
        (FIRST + SERVES.format(minute=10, port=30000) + ANOTHER, "unknown", "1 launch; before the launch"),
        (FIRST + SERVES.format(minute=10, port=30000) + SERVER.format(minute=30, port=30000), "unknown", "1 launch; before"),
        (ANOTHER + UP + FIRST + FAILS.format(minute=10), "failed", "1 launch; before the launch"),
        (
            FIRST + SERVES.format(minute=10, port=30000) + "supervisor: server exited with code 1\n" + ANOTHER + UP,
            "ready",
            "1 error; before",
        ),
        (
            GATEWAY + "engine: MemoryError: full\nMemoryError: full\n" + GATEWAY + "Server listening on port 9000\n",
            "ready",
            "1 error",
        ),
        (GATEWAY + GATEWAY + "MemoryError: full\n", "failed", ""),
    ],
)
def test_the_last_launch_of_a_log_is_judged_whatever_server_it_is(log: str, state: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(log)
    verdict = kit.verdict(tmp_path)
    assert verdict.state == state and said in "".join(found["claim"] for found in verdict.findings)


def test_a_port_names_a_launch_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(FIRST + FAILS.format(minute=10) + ANOTHER + UP)
    asked = {port: kit.verdict(tmp_path, port=port) for port in (30000, 8000)}
    assert [found.klass for found in asked.values()] == ["gpu_oom", "ready"]
    assert "after the launch that is judged in its log" in asked[30000].findings[0]["claim"]


def test_what_a_server_prints_of_others_begins_no_launch(tmp_path: Path) -> None:
    told = "[2025-10-09 08:10:30] unlike vLLM API server version 1, build: 7 and Args { are no first lines\n"
    (tmp_path / "server.log").write_text(FIRST + told + SERVES.format(minute=10, port=30000))
    assert kit.verdict(tmp_path).state == "ready" and not kit.verdict(tmp_path).findings


def test_a_log_copied_months_later(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text((SERVER + SERVES).format(minute=10, port=30000))
    verdict = kit.verdict(tmp_path)
    assert verdict.state == "ready" and verdict.facts.value("silence_s") is None


def test_processes_of_another_server() -> None:
    ours = [ps(10, "python3 -m sglang.launch_server --port 30000", ppid=1), ps(11, "sglang::scheduler_TP0", "S", ppid=10)]
    theirs = [ps(20, "python3 -m sglang.launch_server --port 30001", ppid=1), ps(21, "sglang::scheduler_TP1", "Z", ppid=20)]
    judged = scene(line("args", port=30000, tp_size=1, at=0), theirs, ours, listen(30000, 10))
    assert sorted(judged.processes.by_pid) == [10, 11] and judged.fact("ranks_dead") is None
    assert [item.why for item in judged.evidence.foreign] == ["another server on port 30001 (2 of the processes listed)"]
    unknown = scene(line("args", tp_size=1, at=0), theirs, ours)
    assert len(unknown.processes.by_pid) == 4, "nothing tells which of them it is"


def test_an_old_log_is_of_another_launch_where_the_newer_lost_its_begin(tmp_path: Path) -> None:
    (tmp_path / "run1.log").write_text((SERVER + FAILS).format(minute=10, port=30000).replace("2025-10-09", "2025-10-02"))
    (tmp_path / "tail.log").write_text("".join(SERVES.format(minute=20, port=30000).splitlines(keepends=True)[1:]))
    found = kit.verdict(tmp_path)
    assert (found.state, found.facts.value("first_error")) == ("ready", None)


@pytest.mark.parametrize(("file_time", "state"), [("2025-10-02", "ready"), ("2025-10-09", "failed")])
def test_a_log_without_stamps_is_the_newer_where_file_times_were_kept(tmp_path: Path, file_time: str, state: str) -> None:
    """Of files that were copied all times are of one day: then nothing tells which log is the older."""
    (tmp_path / "run1.log").write_text((SERVER + FAILS).format(minute=10, port=30000).replace("2025-10-09", "2025-10-02"))
    (tmp_path / "nohup.out").write_text("INFO:     Started server process [77]\nINFO:     Application startup complete.\n")
    for file, day in (("run1.log", file_time), ("nohup.out", "2025-10-09")):
        at = datetime.fromisoformat(f"{day} 08:30:00+00:00").timestamp()
        os.utime(tmp_path / file, (at, at))
    assert kit.verdict(tmp_path).state == state


def test_a_log_of_another_model_is_of_another_launch(tmp_path: Path) -> None:
    """It goes on while the one that is judged begins, and its lines hold no port."""
    own, other = (SERVER + FAILS).format(minute=10, port=30000), (SERVER + SERVES).format(minute=9, port=30000)
    (tmp_path / "a.log").write_text(own)
    (tmp_path / "b.log").write_text(other.replace("model_path='/m'", "model_path='/n'"))
    assert kit.verdict(tmp_path).klass == "gpu_oom"


TAIL = (
    "[2025-10-09 07:{minute:02}:20] Load weight begin. avail mem=78.00 GB\n"
    "[2025-10-09 07:{minute:02}:30] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
GATEWAY = "INFO:     Started server process [9]\nINFO:     Uvicorn running on http://0.0.0.0:9000 (Press CTRL+C to quit)\n"
OTHER_MODEL = (
    "INFO 10-09 08:11:00 [gpu_model_runner.py:1953] Starting to load model /n...\n"
    "ERROR 10-09 08:11:20 [core.py:632] torch.OutOfMemoryError: CUDA out of memory.\n"
)
OTHER_PROGRAM = OTHER_MODEL.replace(" /n...", "")
CONTROLLER = (
    "2025-10-09 08:20:05 | INFO | stdout | INFO:     Uvicorn running on http://0.0.0.0:21001 (Press CTRL+C to quit)\n"
    "2025-10-09 08:20:41 | INFO | controller | Register a new worker: http://localhost:30000\n"
    "2025-10-09 08:20:48 | INFO | controller | Remove stale worker: http://localhost:30000\n"
)
PIDS = (
    "(APIServer pid={0}) INFO 10-09 08:20:00 [api_server.py:1134] vLLM API server version 0.11.0\n"
    "(APIServer pid={0}) INFO:     Application startup complete.\n"
)
PLAIN = "".join(f"2025-10-09 08:20:{10 * n} step {n}/900 loss=1.{n}\n" for n in range(1, 5))
PS = """\
UID          PID    PPID  C STIME TTY          TIME CMD
root          10       1  0 08:10 ?        00:00:01 python3 -m sglang.launch_server --model-path /m --port 30000
"""


@pytest.mark.parametrize(
    ("files", "klass"),
    [
        pytest.param({"a.log": TAIL.format(minute=10), "b.log": SERVER + SERVES}, "ready", id="ended an hour before, begin lost"),
        pytest.param(
            {"a.log": TAIL.format(minute=50), "b.log": SERVER + SERVES}, "gpu_oom", id="a part of it, half an hour at most"
        ),
        pytest.param({"a.log": OTHER_MODEL, "b.log": SERVER + SERVES}, "ready", id="another model, begin lost"),
        pytest.param({"a.log": OTHER_PROGRAM, "b.log": SERVER.split("\n")[1] + "\n" + SERVES}, "ready", id="another program"),
        pytest.param({"a.log": SERVER + FAILS, "b.log": GATEWAY}, "gpu_oom", id="a gateway before it loads nothing"),
        pytest.param({"a.log": TAIL.format(minute=10) + SERVER + SERVES}, "ready", id="an hour before in the same log"),
        pytest.param(
            {"a.log": SERVER.format(minute=14, port=30007) + FAILS.format(minute=15), "b.log": PLAIN},
            "ready",
            id="failed minutes before, the later without a begin",
        ),
        pytest.param(
            {"a.log": SERVER + SERVES, "c.log": CONTROLLER}, "zombie_server", id="a controller that names the port of its worker"
        ),
        pytest.param(
            {"a.log": SERVER.format(minute=10, port=30007) + FAILS.format(minute=20), "b.log": SERVER + SERVES, "ps.txt": PS},
            "ready",
            id="failed last, while processes live",
        ),
        pytest.param(
            {"a.log": PIDS.format(9), "b.log": PIDS.format(10) + OTHER_PROGRAM, "ps.txt": PS}, "gpu_oom", id="pids live"
        ),
        pytest.param({"a.log": PIDS.format(10), "b.log": PIDS.format(9) + OTHER_PROGRAM, "ps.txt": PS}, "ready", id="other pids"),
        pytest.param({"a.log": TAIL.format(minute=10) + SERVER.split("\n")[1] + "\n"}, "undetermined", id="both begins lost"),
    ],
)
def test_which_of_two_launches_is_judged(files: dict[str, str], klass: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text.format(minute=20, port=30000))
    found = kit.verdict(tmp_path, captured_at="2025-10-09 08:20:50")
    assert found.klass == klass, found.hypotheses[:3]


DUMP = """\
Process 77: /envs/sglang/bin/python {program}
Python v3.12.3 (/envs/sglang/bin/python3.12)

Thread 77 (idle): "MainThread"
    wait (threading.py:359)
    {frame}
"""


@pytest.mark.parametrize(
    ("log", "program", "frame", "aside"),
    [
        pytest.param(SERVER + SERVES, "-m vllm.entrypoints.openai.api_server", "run (vllm/v1/core.py:7)", True, id="a server"),
        pytest.param(SERVER + SERVES, "train.py", "step (deepspeed/runtime/engine.py:7)", True, id="a training"),
        pytest.param(SERVER + SERVES, "app.py", "run (sglang/srt/engine.py:7)", False, id="a script that loads it"),
        pytest.param(SERVER + SERVES, "app.py", "run (app.py:7)", False, id="a program that nobody knows"),
        pytest.param(SERVER + SERVES, "-m sglang.launch_server --port 30009", "run (asyncio/runners.py:7)", True, id="a port"),
        pytest.param(PLAIN, "-m sglang.launch_server", "run (sglang/srt/engine.py:7)", True, id="the log of a training"),
    ],
)
def test_a_log_beside_stacks_of_another_program(log: str, program: str, frame: str, aside: bool, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(log.format(minute=20, port=30000))
    (tmp_path / "pyspy.txt").write_text(DUMP.format(program=program, frame=frame))
    found = kit.verdict(tmp_path, captured_at="2025-10-09 08:20:50")
    assert [item.frame for item in found.scene.evidence.foreign] == ["log"] * aside
    assert (found.klass == "ready") is not aside


def test_an_old_log_beside_a_server_of_another_port(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text((SERVER + FAILS).format(minute=10, port=30007))
    (tmp_path / "ps.txt").write_text(PS)
    found = kit.verdict(tmp_path, captured_at="2025-10-09 11:20:50")
    assert (found.klass, found.state) == ("undetermined", "unknown")
    assert "the server that runs is of another port" in found.findings[0]["claim"]


PODS = (
    "$ kubectl get pods -A\nNAMESPACE     NAME                         READY   STATUS    RESTARTS   AGE\n"
    "default       llama-8b-6d4cf56db6-abcde    0/1     Pending   0          41m\n"
    "kube-system   nvidia-device-plugin-9hk2x   1/1     Running   0          2d\ndefault       embedder-0                   1/1"
    "     Running   0          2d\n"
)
DESCRIBED = (
    "$ kubectl describe pod llama-8b-6d4cf56db6-abcde\nName:             llama-8b-6d4cf56db6-abcde\nNamespace:        default\n"
    "Status:           Pending\nVolumes:\n  token:\n    Type:       Projected (a volume that contains injected data)\nEvents:\n"
    "  Type     Reason            Age   From               Message\n  ----     ------            ----  ----               ----\n"
    "  Warning  FailedScheduling  41m   default-scheduler  0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\n"
)


@pytest.mark.parametrize(
    ("pod", "log"),
    [
        ("nvidia-device-plugin-9hk2x", "E0804 05:12:40.118933       1 factory.go:115] Incompatible platform detected\n"),
        ("embedder-0", ANOTHER + UP),
    ],
)
@pytest.mark.parametrize("last", [0, 1])
def test_the_log_of_a_pod_beside_the_one_that_waits_is_not_the_launchs(pod: str, log: str, last: int, tmp_path: Path) -> None:
    parts = [DESCRIBED, f"$ kubectl logs {pod}\n{log}"]
    (tmp_path / "paste.txt").write_text(PODS + parts[last] + parts[1 - last])
    verdict = kit.verdict(tmp_path)
    assert verdict.klass == "resource_wait" and verdict.state == "stalled"
    assert f"of pod {pod}, the launch is llama-8b-6d4cf56db6-abcde" in verdict.findings[0]["claim"]


@pytest.mark.parametrize("commands", [("logs llm-0 --previous", "logs llm-0"), ("logs llm-0", "logs -p llm-0")])
def test_the_log_before_by_the_command_that_printed_it(commands: tuple[str, str], tmp_path: Path) -> None:
    logs = {True: FIRST + FAILS.format(minute=10), False: ANOTHER + UP}
    texts = [f"$ kubectl {command}\n{logs['-p' in command]}" for command in commands]
    (tmp_path / "paste.txt").write_text("".join(texts))
    assert kit.verdict(tmp_path).state == "ready"


INSPECTED = """$ docker inspect {name}
[
    {{
        "Id": "2f2e",
        "State": {{
            "Status": "exited",
            "OOMKilled": true,
            "ExitCode": 137
        }},
        "Name": "/{name}",
        "RestartCount": 2
    }}
]
"""


@pytest.mark.parametrize(("name", "state"), [("redis", "ready"), ("app-postgres-1", "ready"), ("vllm", "failed")])
def test_a_container_of_another_service_is_not_the_launchs(name: str, state: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(ANOTHER + UP)
    (tmp_path / "inspect.txt").write_text(INSPECTED.format(name=name))
    found = kit.verdict(tmp_path)
    assert found.state == state and {row["object"] for row in found.scene.evidence.events} <= {name}
