"""Triage of small real launches: what it says, what it does to them, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.analyse.verdict.belief_log import document, ledger_of
from kit.analyse.verdict.evidence import gather
from kit.capture.manifest import Manifest, utc_text
from kit.cli import main
from kit.document.text import render
from kit.errors import EvidenceError, UsageError
from kit.live.triage import triage
from kit.open import open_run
from kit.run import Run
from tests.live.launches import OwnTime
from tests.sshd import READY_S, free_port, wait_for

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc"),
    pytest.mark.usefixtures("quiet_kernel_log"),
]

SERVER = """
import http.server, json, sys, time
port, stamp = int(sys.argv[1]), time.strftime("%m-%d %H:%M:%S")
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        self.answer(b'{"object":"list","data":[{"id":"tiny"}]}' if self.path == "/v1/models" else b"ok")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        print(f"asked {self.path}", file=open(sys.argv[2], "a"), flush=True)
        self.answer(json.dumps({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}}).encode())
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", port), Handler)
print(f"(APIServer pid=1) INFO {stamp} [launcher.py:37] Available routes are:", flush=True)
print("INFO:     Application startup complete.", flush=True)
server.serve_forever()
"""
QUIET = """
import sys, time
print(f"INFO {time.strftime('%m-%d %H:%M:%S')} [gpu_model_runner.py:3100] Starting to load model tiny...", flush=True)
time.sleep(600)
"""
GROWS = """
import sys, time
print(f"INFO {time.strftime('%m-%d %H:%M:%S')} [gpu_model_runner.py:3100] Starting to load model tiny...", flush=True)
kept, end = [], time.time() + 600
while time.time() < end:
    kept.append(bytearray(b"x") * (8 << 20)); sum(range(300000)); time.sleep(0.2)
"""
TAKEN = """
import socket, sys
listener = socket.socket()
try:
    listener.bind(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    print(f"OSError: {error}", flush=True); sys.exit(1)
"""


@contextlib.contextmanager
def launched(log: Path, program: str, *arguments: object):
    """A program with a log, ended with all its children."""
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        assert wait_for(lambda: log.stat().st_size)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_is_ready_once_it_gave_a_token(tmp_path: Path) -> None:
    port, asked = free_port(), tmp_path / "asked"
    with launched(tmp_path / "server.log", SERVER, port, asked) as process:
        said: list[str] = []
        found = triage(pid=process.pid, port=port, out=tmp_path / "run", limit_s=60, progress=said.append, clock=OwnTime())
    ledger = found.ledger
    assert found.path == tmp_path / "run" and found.to_dict()["ledger"] == ledger
    assert (found.verdict.state, found.verdict.klass, found.verdict.ranks) == ("ready", "ready", [])
    assert asked.read_text() == "asked /v1/completions\n", "one real request, no more"
    assert any("a real request was answered" in step["outcome"] for step in ledger)
    assert ledger[0]["t_s"] < 15 and ledger[0]["test"] == "first look"
    assert any("one real request" in text for text in said)
    run = open_run(tmp_path / "run")
    assert run.manifest["ledger"] == ledger == ledger_of(run)
    assert all(entry["whole"] for entry in run.manifest["captures"])


def test_the_port_of_another_process_is_not_asked(tmp_path: Path) -> None:
    port, asked = free_port(), tmp_path / "asked"
    with launched(tmp_path / "other.log", SERVER, port, asked), launched(tmp_path / "server.log", QUIET) as process:
        found = triage(pid=process.pid, port=port, limit_s=7, progress=print, clock=OwnTime(2))
    assert not asked.exists()
    assert found.verdict.state != "ready"


def test_what_grows_is_not_called_stalled(tmp_path: Path) -> None:
    with launched(tmp_path / "server.log", GROWS) as process:
        found = triage(pid=process.pid, log=tmp_path / "server.log", limit_s=13, progress=print, clock=OwnTime())
    assert found.verdict.state == "progressing"
    assert {step["state"] for step in found.ledger} <= {"progressing", "unknown"}


FLAG = """
import sys
sys.exit("usage: vllm [-h]\\nvllm: error: unrecognized arguments: --no-such-flag")
"""
KILLED_RANK = """
import os, signal, subprocess, sys, time
say = lambda text, who="": print(f"{who}INFO {time.strftime('%m-%d %H:%M:%S')} {text}", flush=True)
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
ranks = [subprocess.Popen([*sleep, f"VLLM::Worker_TP{n}"]) for n in range(2)]
say("[arg_utils.py:1] tensor_parallel_size=2")
for n, rank in enumerate(ranks):
    say("[gpu_model_runner.py:3100] Starting to load model tiny...", f"(Worker_TP{n} pid={rank.pid}) ")
os.kill(ranks[1].pid, signal.SIGKILL)
time.sleep(600)
"""
HEALTHY = "import time; print('here', flush=True); time.sleep(600)"


@pytest.mark.parametrize(
    ("program", "state"),
    [(FLAG, {"failed"}), (KILLED_RANK, {"failed"}), (HEALTHY, {"unknown"})],
    ids=["flag", "killed-rank", "healthy"],
)
@pytest.mark.parametrize("minutes", [8, 0.1])
def test_the_oom_kill_of_a_neighbour_is_not_this_launchs(
    tmp_path: Path, quiet_kernel_log: Path, program: str, state: set[str], minutes: float
) -> None:
    then = float(Path("/proc/uptime").read_text().split()[0]) - 60 * minutes
    killed = "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/neighbour9,task=python3,pid=3999999,uid=0"
    (quiet_kernel_log / "dmesg").write_text(f"#!/bin/sh\necho '[{then:.6f}] {killed}'\n")
    with launched(tmp_path / "server.log", program) as process:
        if program is FLAG:
            process.wait(READY_S)
        found = triage(pid=process.pid, log=tmp_path / "server.log", limit_s=13, progress=print, clock=OwnTime()).verdict
    assert found.state in state and found.hypotheses[0].name != "host_oom_kill"
    aside = [item.row["pid"] for item in found.scene.evidence.foreign]
    assert program is FLAG or aside == [3999999], "what was set aside is said"
    assert program is not KILLED_RANK or (found.klass, found.ranks, found.facts.value("signal")) == ("worker_crashed", [1], 9)


def test_some_flat_seconds_are_no_stall(tmp_path: Path) -> None:
    with launched(tmp_path / "server.log", QUIET) as process:
        found = triage(pid=process.pid, log=tmp_path / "server.log", limit_s=13, progress=print, clock=OwnTime())
    assert found.verdict.klass in ("undetermined", "slow_weights")
    assert {step["state"] for step in found.ledger} <= {"progressing", "unknown"}


def test_a_stopped_process_stays_stopped_and_nothing_is_left(tmp_path: Path) -> None:
    with launched(tmp_path / "server.log", QUIET) as process:
        os.kill(process.pid, signal.SIGSTOP)
        found = triage(pid=process.pid, log=tmp_path / "server.log", limit_s=9, progress=print, clock=OwnTime())
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    assert (found.verdict.state, found.verdict.klass) == ("stalled", "rank_straggler")
    assert any("is stopped (state T)" in entry["claim"] for entry in found.verdict.evidence)


def test_a_taken_port_is_a_failure(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port, log = holder.getsockname()[1], tmp_path / "server.log"
        with launched(log, TAKEN, port) as process:
            process.wait(READY_S)
            found = triage(pid=process.pid, log=log, port=port, limit_s=10, progress=print, clock=OwnTime())
    assert (found.verdict.state, found.verdict.klass) == ("failed", "port_in_use")
    assert "the launch has ended" in found.ledger[0]["outcome"]


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with launched(tmp_path / "server.log", QUIET) as process:
        triage(pid=process.pid, log=tmp_path / "server.log", limit_s=8, progress=print, clock=OwnTime())
    assert list((tmp_path / "scratch").iterdir()) == []


def test_command_line_gives_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with launched(tmp_path / "server.log", SERVER, port, tmp_path / "asked") as process:
            code = main(["triage", "local", "--pid", str(process.pid), "--port", str(port), "--for", "14s", "--json"])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert code == 0 and (answer["state"], answer["class"]) == ("ready", "ready")
    assert {"t_s", "test", "outcome", "leading", "changed", "because"} <= answer["ledger"][0].keys()
    assert "→ ready: ready" in err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, UsageError),
        ({"target": "host", "pid": 1}, UsageError),
        ({"pid": 1, "allow": ["rm"]}, UsageError),
        ({"pid": 1, "limit_s": 0.5}, UsageError),
        ({"pid": 2**30}, EvidenceError),
    ],
)
def test_wrong_calls_are_refused(arguments: dict, error: type) -> None:
    with pytest.raises(error):
        triage(**arguments)


def test_a_ledger_is_derived_where_none_was_recorded(opened: Callable[[str], Run]) -> None:
    ledger = ledger_of(opened("sg01-capture-hang"))
    refuting = next(step for step in ledger if "only the log was lost" in step["because"])
    assert refuting["test"] == "listeners"
    assert ledger[0]["leading"][0][0] == "undetermined" and ledger[-1]["leading"][0][0] == "device_hang"
    assert sum(step["changed"] for step in ledger) == 1
    stacks = [step["test"] for step in ledger_of(opened("pipe-ticker")) if "stacks" in step["test"]]
    assert stacks == ["stacks of all ranks"], "a step for a Mac tells nothing of Linux"
    text = render(document(ledger))
    assert max(map(len, text.splitlines())) <= 110 and "device_hang instead of undetermined" in text


def test_an_interrupted_search_has_a_ledger_so_far(tmp_path: Path) -> None:
    (tmp_path / "run" / "raw").mkdir(parents=True)
    manifest = Manifest(tmp_path / "run", "0")
    manifest.save("server.log", "log", "server.log", "INFO 02-18 00:28:26 [x.py:1] Starting to load model tiny...\n")
    step = {
        "t_s": 2.0,
        "test": "first look",
        "outcome": [],
        "leading": [["slow_weights", 0.5]],
        "state": "unknown",
        "because": "",
    }
    manifest.update(ledger=[step])
    assert ledger_of(open_run(tmp_path / "run")) == [step]


def test_rates_are_those_of_the_judged_window(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "pipe-ticker", tmp_path / "run")
    whole = gather(open_run(tmp_path / "run"))
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    times = sorted({row["time"] for row in whole.rows["processes"] if row.get("tool") == "sampler"})
    manifest["judged_from"] = utc_text(times[-2])
    (tmp_path / "run" / "run.json").write_text(json.dumps(manifest))
    window = gather(open_run(tmp_path / "run"))
    assert min(row["time"] for row in window.rows["processes"]) >= times[-2] - 1000 > times[0]
    assert window.log.records == whole.log.records and len(window.rows["sockets"]) == len(whole.rows["sockets"])
