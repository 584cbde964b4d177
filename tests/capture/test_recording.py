"""Recording of real process trees: what is recorded, what is said to be missing, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kit.capture import sampler_program
from kit.capture.collect import collect
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.processes import tree_of
from kit.errors import EvidenceError, UsageError
from kit.open import open_run
from tests.sshd import READY_S, free_port
from tests.sshd import wait_for as came_true
from tools.anonymise import anonymise_run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc")

SECRETS = ("s3cr3tApiKey99", "hf_PlantedTokenAbCdEf0123456789", "hunter2pass", "sk-planted0123456789ABCDEF")
LAUNCH = """
import http.server, os, subprocess, sys, threading, time
port = int(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"object":"list","data":[{"id":"tiny"}]}' if self.path == "/v1/models" else b"ok"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
threading.Thread(target=http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever, daemon=True).start()
for _ in range(3): threading.Thread(target=threading.Event().wait, daemon=True).start()
ticker = "import os,time\\nr,w=os.pipe()\\nwhile True: os.write(w,b'x'); os.read(r,1); time.sleep(0.05)"
child = subprocess.Popen([sys.executable, "-c", ticker])
n = 0
while True:
    print(f"step {n} HF_TOKEN=hf_PlantedTokenAbCdEf0123456789 http://ada:hunter2pass@h/", flush=True); n += 1
    sys.stderr.write(f"half {n}"); sys.stderr.flush(); sys.stderr.write("\\n"); sys.stderr.flush()
    time.sleep(0.1)
"""


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def launched(tmp_path: Path):
    """A launch with threads, a child that writes to a pipe, a server on loopback, and secrets in command, environment and log."""
    port, log = free_port(), tmp_path / "server.log"
    environ = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": SECRETS[3],
        "NCCL_DEBUG": "INFO",
        "VLLM_HTTP": f"http://u:{SECRETS[2]}@h",
    }
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(port), "--api-key", SECRETS[0], "--port", str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    try:
        wait_for(lambda: log.stat().st_size > 0)
        yield process, log, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition) -> None:
    assert came_true(condition), "the condition was not reached"


def manifest_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def missing(run: Path) -> str:
    return "\n".join(f"{entry['what']}: {entry['why']}" for entry in manifest_of(run)["missing"])


def tracer_of(pid: int) -> str:
    return re.findall(r"TracerPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]


def bytes_of(run: Path) -> bytes:
    return b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())


def test_whole_recording_by_pid(tmp_path):
    said: list[str] = []
    with launched(tmp_path) as (process, log, port):
        run = collect(
            pid=process.pid, log=log, port=port, duration_s=3.0, interval_s=0.5, out=tmp_path / "run", progress=said.append
        )
        assert process.poll() is None
    manifest = manifest_of(run)
    assert any("costs" in text for text in said)
    for capture in manifest["captures"]:
        data = (run / capture["file"]).read_bytes()
        assert capture["whole"] and hashlib.sha256(data).hexdigest() == capture["sha256"] and len(data) == capture["size"], (
            capture
        )
    assert manifest["launch"]["pid"] == process.pid and SECRETS[0] not in json.dumps(manifest["launch"])
    assert not (run / ".reserve").exists()
    for secret in SECRETS:
        assert secret.encode() not in bytes_of(run), secret
    lines = (run / "raw/server.log").read_bytes()
    assert lines.startswith(b"step 0 HF_TOKEN=[redacted] http://[redacted]@h/") and lines.count(b"\n") > 20
    opened = open_run(run)
    processes = [row for row in opened.rows("processes") if row["tool"] == "sampler"]
    head = json.loads((run / "raw/sampler.jsonl").read_text().splitlines()[0])
    assert (head["samples"], head["interval_s"]) == (7, 0.5) and len({row["pid"] for row in processes}) == 2
    assert {0} <= {row["moment"] for row in processes} <= set(range(7)), "a busy machine leaves moments out"
    threads = opened.rows("threads")
    assert max(sum(row["moment"] == n and row["pid"] == process.pid for row in threads) for n in range(7)) >= 5
    assert {"futex", "read", "clock_nanosleep", "poll", "select"} & {row["syscall"] for row in threads}
    assert any(row["target"] == str(log) for row in opened.rows("fds"))
    listeners = [row for row in opened.rows("sockets") if row["state"] == "LISTEN" and row["local_port"] == port]
    assert {row["pid"] for row in listeners} == {process.pid} and "raw/sampler.jsonl" in {row["capture"] for row in listeners}
    environ = {
        row["key"]: row["value"] for row in opened.rows("host") if row["source"] == "environ" and row["pid"] == process.pid
    }
    assert environ["NCCL_DEBUG"] == "INFO" and environ["OPENAI_API_KEY"] == "[not recorded]"
    curl = (run / "raw/curl.t1.txt").read_text()
    assert "HTTP/1.1 200 OK" in curl and '"id":"tiny"' in curl and "completions" not in curl


@pytest.mark.parametrize("known", ["log", "port"])
def test_process_is_found_by_log_or_port(tmp_path, known):
    with launched(tmp_path) as (process, log, port):
        wait_for(lambda: answers(port))
        run = collect(**{known: {"log": log, "port": port}[known]}, duration_s=0.6, interval_s=0.3, out=tmp_path / "run")
    assert manifest_of(run)["launch"]["pid"] == process.pid
    assert (run / "raw/server.log").stat().st_size > 0


def test_target_that_ends_during_the_recording(tmp_path):
    with launched(tmp_path) as (process, log, port):

        def end_it() -> bool:
            sampler = tmp_path / "run/raw/sampler.jsonl"
            if process.poll() is None and sampler.read_bytes().count(b'"k":"done"') >= 2:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return False

        run = collect(pid=process.pid, log=log, port=port, duration_s=60.0, interval_s=0.3, out=tmp_path / "run", until=end_it)
    assert "ended during the recording" in missing(run)
    gone = [row for row in open_run(run).rows("processes") if row["state"] == "X"]
    assert process.pid in {row["pid"] for row in gone}
    assert manifest_of(run)["launch"]["ended_at"] and "Connection refused" in (run / "raw/curl.t1.txt").read_text()


def test_log_deleted_during_the_recording_is_followed_and_said(tmp_path):
    with launched(tmp_path) as (process, log, port):
        taken = []

        def delete_it() -> bool:
            copy = tmp_path / "run/raw/server.log"
            if not taken and copy.stat().st_size:
                taken.append(copy.stat().st_size)
                log.unlink()
                log.write_text("what people read\n")
            return bool(taken) and copy.stat().st_size > taken[0] + 100

        run = collect(pid=process.pid, log=log, port=port, duration_s=20.0, interval_s=0.5, out=tmp_path / "run", until=delete_it)
    captures = {entry["file"]: entry for entry in manifest_of(run)["captures"]}
    assert captures["raw/server.log"]["deleted"] and not captures["raw/server.log"]["at_path"]
    assert "was deleted during the recording" in captures["raw/server.log"]["note"]
    assert (run / "raw/server.log.path.log").read_text() == "what people read\n"
    assert captures["raw/server.log"]["size"] > taken[0] + 100


def test_log_truncated_in_place_is_read_again(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("first line that is long enough\n")
    step = []

    def truncate() -> bool:
        copy = tmp_path / "run/raw/server.log"
        if not step and copy.stat().st_size:
            step.append(1)
            log.write_text("second\npartial")
        return copy.read_text().endswith("second\n")

    run = collect(log=log, duration_s=20.0, out=tmp_path / "run", until=truncate)
    assert (run / "raw/server.log").read_text() == "first line that is long enough\nsecond\npartial"
    assert "truncated" in manifest_of(run)["captures"][0]["note"]


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_strace_on_request_and_no_tracer_left(tmp_path):
    said: list[str] = []
    with launched(tmp_path) as (process, log, port):
        run = collect(
            pid=process.pid,
            log=log,
            port=port,
            duration_s=1.0,
            interval_s=0.5,
            strace_s=1.0,
            out=tmp_path / "run",
            progress=said.append,
        )
        assert tracer_of(process.pid) == "0"
    if "Operation not permitted" in missing(run):
        pytest.skip("ptrace is not permitted here")
    text = (run / "raw/strace.txt").read_text()
    assert re.search(r'^\d+ +\d\d:\d\d:\d\d\.\d{6} write\(\d+<pipe:\[\d+\]>, "x", 1\) += 1 <', text, re.MULTILINE)
    assert any("quarter of its speed" in text for text in said)


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_strace_ends_by_itself_when_the_collector_is_killed(tmp_path):
    with launched(tmp_path) as (process, log, _):
        recording = collector(tmp_path, process.pid, "--log", str(log), "--for", "600s", "--interval", "0.5", "--strace", "2s")
        try:
            wait_for(lambda: tracer_of(process.pid) != "0")
        except AssertionError:
            pytest.skip("ptrace is not permitted here")
        finally:
            recording.kill()
            recording.communicate()
        wait_for(lambda: tracer_of(process.pid) == "0")
        assert process.poll() is None


def test_tool_that_hangs_is_ended_and_said(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    hanging = tmp_path / "bin/nvidia-smi"
    hanging.write_text("#!/bin/sh\nsleep 61.25 & wait\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", f"{hanging.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KIT_KNOWLEDGE", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    row = '[[tool]]\nname = "nvidia_smi"\nwhat = "GPUs"\ncommand = ["nvidia-smi"]\nlimit_s = 0.5\nlook = ["begin", "end"]\n'
    (tmp_path / "mine" / "tools.toml").write_text(row)
    with launched(tmp_path) as (process, log, _):
        run = collect(pid=process.pid, log=log, duration_s=0.5, interval_s=0.5, out=tmp_path / "run")
    assert "output of nvidia-smi: it did not answer within its time limit" in missing(run)
    assert "61.25" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert open_run(run).rows("threads")


def test_py_spy_on_request(tmp_path):
    with launched(tmp_path) as (process, log, port):
        run = collect(pid=process.pid, log=log, port=port, duration_s=1.0, interval_s=0.5, py_spy=True, out=tmp_path / "run")
    if "Python stacks" in missing(run):
        pytest.skip(missing(run))
    assert f"Process {process.pid}:" in (run / "raw/pyspy.t0.txt").read_text() and (run / "raw/pyspy.t1.txt").exists()
    assert SECRETS[0].encode() not in bytes_of(run)


def test_without_strace_and_py_spy_the_rest_is_recorded(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    for name in ("cat", "getconf", "grep", "head", "ls", "readlink", "sleep", "tr"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python3"))
    with launched(tmp_path) as (process, log, port):
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        run = collect(
            pid=process.pid, log=log, port=port, duration_s=2.5, interval_s=0.5, strace_s=0.2, py_spy=True, out=tmp_path / "run"
        )
    said = missing(run)
    assert "strace is not installed" in said and "py-spy is not installed" in said and "ps" in said
    assert open_run(run).rows("threads") and "step 0" in (run / "raw/server.log").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_process_of_another_user_is_said(tmp_path):
    with launched(tmp_path) as (process, _, _):
        ran = subprocess.run(
            [
                "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable,
                "-S",
                "-I",
                "-",
                json.dumps({"roots": [process.pid], "samples": 2, "interval_s": 0.1}),
            ],
            input=sampler_program(),
            capture_output=True,
            text=True,
            user=65534,
            cwd="/",
        )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    first = next(line for line in lines if line["k"] == "proc")
    assert {"fd", "io"} <= set(first["denied"]) and first["wchan"] is None and lines[-1]["why"] == "all samples taken"


def collector(tmp_path: Path, pid: int, *options: str, before: str = "") -> subprocess.Popen:
    """A collector in a process of its own, run as the command line runs it."""
    code = f"import sys; {before}\nfrom kit.cli import main; from kit.capture.sampler import sampling; sampling.NICE = 0\n"
    code += "sys.exit(main(['collect', *sys.argv[1:]]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, "local", "--pid", str(pid), "-o", str(tmp_path / "run"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def sampled(tmp_path: Path, times: int = 2) -> bool:
    sampler = tmp_path / "run/raw/sampler.jsonl"
    return sampler.exists() and sampler.read_bytes().count(b'"k":"done"') >= times


def test_killed_collector_leaves_a_run_that_opens_and_nothing_running(tmp_path):
    with launched(tmp_path) as (process, log, _):
        recording = collector(tmp_path, process.pid, "--log", str(log), "--for", "600s", "--interval", "0.2")
        wait_for(lambda: sampled(tmp_path))
        with LocalHost() as host:
            sampler = tree_of(host, recording.pid)[-1]
        recording.kill()
        recording.communicate()
        wait_for(lambda: not Path(f"/proc/{sampler}").exists())
    manifest = manifest_of(tmp_path / "run")
    unfinished = {entry["file"] for entry in manifest["captures"] if not entry["whole"]}
    assert {"raw/sampler.jsonl", "raw/server.log"} <= unfinished and manifest["ended_at"] is None
    opened = open_run(tmp_path / "run")
    moments = {row["moment"] for row in opened.rows("processes")}
    assert 0 in moments and len(moments) > 1, "a busy machine skips moments"
    assert "raw/sampler.jsonl is cut" in " ".join(opened.unread())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_the_recording_properly(tmp_path, number):
    with launched(tmp_path) as (process, log, _):
        recording = collector(tmp_path, process.pid, "--log", str(log), "--for", "600s", "--interval", "0.2")
        wait_for(lambda: sampled(tmp_path))
        recording.send_signal(number)
        said, _ = recording.communicate(timeout=READY_S)
    assert recording.returncode == 0, (recording.returncode, said)
    manifest = manifest_of(tmp_path / "run")
    cut = [entry for entry in manifest["captures"] if not entry["whole"] and entry["kind"] in ("log", "sampler")]
    assert manifest["ended_at"] and not cut, "a tool of the first look may have been in the midst of its output"
    assert "interrupted" in missing(tmp_path / "run")


def test_a_parent_with_a_huge_command_line_does_not_fill_the_manifest(tmp_path):
    script = f": {'x' * 50_000}\n{sys.executable} -c 'import time; time.sleep(60)' & echo $!; wait"
    shell = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        run = collect(pid=int(shell.stdout.readline()), out=tmp_path / "run", duration_s=0.5, progress=lambda text: None)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
    (parent, *_) = manifest_of(run)["launch"]["parents"]
    assert len(parent["command"]) < 500 and parent["command"].endswith("characters)")


def test_full_disk_ends_the_recording_and_is_said(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000));"
    with launched(tmp_path) as (process, log, _):
        recording = collector(tmp_path, process.pid, "--log", str(log), "--for", "600s", "--interval", "0.1", before=limit)
        said, _ = recording.communicate(timeout=READY_S)
    assert recording.returncode == 3 and "the disk is full" in said and "Traceback" not in said, said
    manifest = manifest_of(tmp_path / "run")
    cut = next(entry for entry in manifest["captures"] if entry["file"] == "raw/sampler.jsonl")
    assert not cut["whole"] and cut["size"] == 30000 and "no room to write" in missing(tmp_path / "run")
    assert open_run(tmp_path / "run").rows("processes")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 30000


def test_usage_and_evidence_errors(tmp_path):
    with pytest.raises(EvidenceError, match="no process"):
        collect(pid=2**22 + 7, out=tmp_path / "run")
    with pytest.raises(UsageError, match="nothing to record"):
        collect(out=tmp_path / "run")
    with pytest.raises(EvidenceError, match="nothing to record"):
        collect(log=tmp_path / "no.log", out=tmp_path / "run")
    with pytest.raises(UsageError, match="invalid duration"):
        collect(pid=os.getpid(), duration_s=0, out=tmp_path / "run")
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        collect(pid=os.getpid(), out=tmp_path)
    assert not (tmp_path / "run").exists()


def test_anonymous_copy_names_nothing(tmp_path):
    host = socket.gethostname()
    run = tmp_path / "run"
    (run / "raw").mkdir(parents=True)
    text = f"{host}: {tmp_path}/model from 10.7.8.9 to 10.7.8.9 and 127.0.0.1 at 12:30:45, fe80::1, c10d::Store\n"
    (run / "raw/server.log").write_text(text)
    (run / "raw/dmesg.txt").write_text("x\n")
    captures = [
        {"file": f"raw/{name}", "kind": "log", "source": f"{tmp_path}/{name}", "whole": True}
        for name in ("server.log", "dmesg.txt")
    ]
    (run / "run.json").write_text(json.dumps({"format": "stallkit-run", "name": "run", "captures": captures, "missing": []}))
    copy = anonymise_run(run, tmp_path / "clean", {host: "host", str(tmp_path): "/srv"}, drop=("raw/dmesg.txt",))
    data = (copy / "raw/server.log").read_text()
    assert data == "host: /srv/model from 192.0.2.1 to 192.0.2.1 and 127.0.0.1 at 12:30:45, 2001:db8::1, c10d::Store\n"
    manifest = manifest_of(copy)
    assert manifest["captures"][0]["sha256"] == hashlib.sha256(data.encode()).hexdigest() and "raw/dmesg.txt" in missing(copy)
    assert str(tmp_path).encode() not in bytes_of(copy)


def test_sampler_runs_from_standard_input_on_old_pythons(tmp_path):
    """Syntax of Python 3.6 is checked by an old interpreter where there is one, else by the grammar of this one."""
    import ast

    ast.parse(sampler_program(), feature_version=(3, 6))
    ran = subprocess.run(
        [sys.executable, "-S", "-I", "-", json.dumps({"roots": [os.getpid()], "samples": 1})],
        input=sampler_program(),
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = [json.loads(line)["k"] for line in ran.stdout.splitlines()]
    assert kinds[:4] == ["head", "sample", "proc", "threads"] and kinds[-2:] == ["done", "end"]
