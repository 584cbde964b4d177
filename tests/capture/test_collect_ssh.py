"""Recordings over a real sshd: what is recorded, which faults they survive, and that no secret is in them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kit.capture.collect import collect_from
from kit.capture.hosts import remote
from kit.capture.hosts.targets import open_host
from kit.capture.options import Options
from kit.capture.sampler import sampling
from kit.capture.waiting import Clock
from kit.errors import EvidenceError
from kit.live.triage import triage
from kit.open import open_run
from tests.live.launches import OwnTime
from tests.sshd import READY_S, Proxy, Sshd, wait_for
from tools.anonymise import anonymise_run

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a target is a Linux host"),
    pytest.mark.needs_tool("sshd"),
]

TOKENS = {
    "hf": "hf_PlantedTokenAbCdEf0123456789",
    "openai": "sk-planted0123456789ABCDEF",
    "aws": "AKIAPLANTED012345678",
    "github": "ghp_PlantedTokenAbCdEf0123456789abcd",
    "bearer": "Planted.Bearer-0123456789",
    "url": "plantedurlpass77",
    "flag": "plantedflagvalue77",
    "password": "plantedpassword77",
}
LAUNCH = f"""
import subprocess, sys, threading, time
for _ in range(2): threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
n = 0
while True:
    print("step", n, "{TOKENS["hf"]} {TOKENS["aws"]} {TOKENS["github"]} Authorization: Bearer {TOKENS["bearer"]}", flush=True)
    print("env OPENAI_API_KEY={TOKENS["openai"]} http://ada:{TOKENS["url"]}@h/ PASSWORD={TOKENS["password"]}", flush=True)
    n += 1; time.sleep(0.1)
"""


@contextlib.contextmanager
def launched(folder: Path, program: str = LAUNCH, user: int | None = None):
    """A launch with a child, a log, and secrets in its command line, environment and log."""
    log = folder / "server.log"
    environ = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": TOKENS["openai"],
        "PASSWORD": TOKENS["password"],
        "VLLM_URL": f"http://u:{TOKENS['url']}@h",
    }
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [shutil.which("python3"), "-c", program, "--api-key", TOKENS["flag"], "--hf-token", TOKENS["hf"]],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
            user=user,
            cwd="/",
        )
    try:
        assert wait_for(lambda: log.stat().st_size > 0)
        yield process, log
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def record(
    server: Sshd, folder: Path, process, log, options: Options, until=None, port: int | None = None, pythons=None, **about
) -> Path:
    """A recording over SSH, through another port where a proxy stands before the server."""
    target = server.target.replace(str(server.port), str(port or server.port))
    host = open_host(target, **server.options())
    host.pythons = pythons or host.pythons
    return collect_from([host], folder / "run", options, process and process.pid, log and str(log), None, until=until, **about)


def missing(run: Path) -> str:
    return "\n".join(f"{entry['what']}: {entry['why']}" for entry in manifest_of(run)["missing"])


def manifest_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def samples(run: Path) -> int:
    file = run / "raw/sampler.jsonl"
    return file.read_bytes().count(b'"k":"done"') if file.exists() else 0


def moments(run: Path) -> list[int]:
    return sorted({row["moment"] for row in open_run(run).rows("processes") if row["tool"] == "sampler"})


def steps(run: Path) -> list[int]:
    return [int(number) for number in re.findall(rb"(?m)^step (\d+) ", (run / "raw/server.log").read_bytes())]


@pytest.mark.parametrize("python", [True, False])
def test_whole_recording_without_any_secret(sshd, tmp_path, python):
    pythons = None if python else ["no-such-python"]
    with launched(tmp_path) as (process, log):
        run = tmp_path / "run"

        def enough() -> bool:
            traced = run / "raw/strace.txt"
            return samples(run) >= 3 and len(steps(run)) > 10 and traced.exists() and b"write(1" in traced.read_bytes()

        options = Options(120.0, 0.5, strace_s=0.5, gdb=True, smaps_rollup=True)
        record(sshd, tmp_path, process, log, options, enough, pythons=pythons)
        assert process.poll() is None
    manifest = manifest_of(run)
    assert all(entry["whole"] for entry in manifest["captures"]), manifest["captures"]
    assert manifest["launch"]["pid"] == process.pid and manifest["target"] == sshd.target
    opened = open_run(run)
    assert len({row["pid"] for row in opened.rows("threads")}) == 2 and len(moments(run)) >= 3
    assert steps(run) == list(range(len(steps(run)))) and len(steps(run)) > 10
    written = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert not {name for name, token in TOKENS.items() if token.encode() in written}
    environ = {row["key"]: row["value"] for row in opened.rows("host") if row["source"] == "environ"}
    assert environ["OPENAI_API_KEY"] == "[not recorded]" and "write(1" in (run / "raw/strace.txt").read_text()


def test_a_server_that_is_killed_and_comes_back(make_sshd, tmp_path):
    server = make_sshd()
    with launched(tmp_path) as (process, log):
        phase = []

        def until() -> bool:
            run = tmp_path / "run"
            if not phase and samples(run) >= 3:
                server.stop()
                phase.append(steps(run)[-1])
                threading.Timer(1.0, server.start).start()
            elif phase and len(phase) == 1 and samples(run) >= 3 and server._process is not None:
                phase.append(samples(run))
            return len(phase) == 2 and samples(run) >= phase[1] + 3 and steps(run)[-1] > phase[0] + 10

        run = record(server, tmp_path, process, log, Options(600.0, 0.5), until)
    assert manifest_of(run)["gaps"] and steps(run) == list(range(len(steps(run)))) and steps(run)[-1] > phase[0] + 10
    assert moments(run) == sorted(set(moments(run))) and any("lost" in gap["why"] for gap in manifest_of(run)["gaps"])


def test_a_black_hole_ends_the_recording_in_order(make_sshd, tmp_path, monkeypatch):
    server, said = make_sshd(), []
    monkeypatch.setattr(sampling, "PATIENCE_S", 16.0)
    with launched(tmp_path) as (process, log), Proxy(server.port) as proxy:
        server.know(proxy.port)
        run = tmp_path / "run"

        def until() -> bool:
            if samples(run) >= 3:
                proxy.black_hole()
                monkeypatch.setattr(sampling, "SILENT_S", 2.0)
            return any("was lost, reconnecting" in text for text in said)

        how = {"port": proxy.port, "clock": Clock(4), "progress": said.append}
        record(server, tmp_path, process, log, Options(600.0, 1.0), until, **how)
        assert wait_for(lambda: not [one for one in server.children() if "python" in one.name()])
    said = missing(run)
    assert "after the connection was lost" in said and len(moments(run)) >= 3 and manifest_of(run)["ended_at"]


def test_a_process_that_is_replaced_during_a_break(make_sshd, tmp_path):
    server = make_sshd()
    with launched(tmp_path) as (process, log):
        stopped = []

        def until() -> bool:
            if not stopped and samples(tmp_path / "run") >= 2:
                server.stop()
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                stopped.append(threading.Timer(0.5, server.start))
                stopped[0].start()
            return False

        run = record(server, tmp_path, process, log, Options(600.0, 0.5), until)
    assert f"process {process.pid} ended while the connection was lost" in missing(run)
    assert moments(run)


def test_a_wrong_host_key_writes_nothing(make_sshd, tmp_path):
    server = make_sshd()
    server.stop()
    server.new_host_key(known=False)
    server.start()
    with launched(tmp_path) as (process, log), pytest.raises(EvidenceError, match="key"):
        record(server, tmp_path, process, log, Options(1.0, 0.5))
    assert not (tmp_path / "run").exists()


def test_a_clock_that_is_ahead_yields_the_right_seconds(sshd, tmp_path, monkeypatch):
    """The clock of the test's own side is set back: no other clock can be had without harm."""
    real = time.time_ns
    with launched(tmp_path) as (process, log):
        for module in ("hosts.remote", "manifest", "hosts.host"):
            monkeypatch.setattr(f"kit.capture.{module}.time", _Clock(real, -90_000_000_000))
        run = record(sshd, tmp_path, process, log, Options(1.5, 0.5))
        monkeypatch.undo()
    manifest = manifest_of(run)
    assert abs(manifest["clock"]["offset_ns"] - 90e9) < 1e9
    opened = open_run(run)
    sampled = [row["time"] for row in opened.rows("processes") if row["tool"] == "sampler"]
    looked = [row["time"] for row in opened.rows("processes") if row["tool"] == "ps"]
    assert abs(min(looked) - min(sampled)) < 30e9 and abs(opened.captured_ns - max(sampled)) < 30e9
    assert abs(opened.launch_zero_ns - min(sampled)) < 60e9


class _Clock:
    """The module `time` with another wall clock."""

    def __init__(self, real, ahead_ns: int):
        self._real, self._ahead_ns = real, ahead_ns

    def time_ns(self) -> int:
        return self._real() + self._ahead_ns

    def __getattr__(self, name: str):
        return getattr(time, name)


@pytest.mark.needs_tool("strace")
def test_a_process_that_is_traced_already_is_said(sshd, tmp_path):
    with launched(tmp_path) as (process, log):
        other = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(process.pid)], stderr=subprocess.PIPE)
        try:
            if not wait_for(lambda: b"TracerPid:\t0" not in Path(f"/proc/{process.pid}/status").read_bytes(), 20):
                pytest.skip("ptrace is not permitted here")
            run = record(sshd, tmp_path, process, log, Options(0.5, 0.5, strace_s=0.3, strace_pid=process.pid))
            assert f"process {other.pid} already traces it" in missing(run) and other.poll() is None
        finally:
            other.terminate()
            other.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have another user")
def test_another_users_process_is_said_and_no_zero_is_a_fact(sshd, tmp_path, monkeypatch):
    """The host's programs are those of a user who owns nothing: the shell that answers gives its rights away."""
    nobody = shutil.which("setpriv")
    if nobody is None:
        pytest.skip("no setpriv")
    start = remote.RemoteHost._start
    inner = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    monkeypatch.setattr(remote.RemoteHost, "_start", lambda self, program: start(self, f"{inner} {program}"))
    tmp_path.chmod(0o755)
    with launched(tmp_path) as (process, log):
        log.chmod(0o600)
        run = record(sshd, tmp_path, process, log, Options(1.0, 0.5, strace_s=0.3))
    said = missing(run)
    assert "it cannot be read" in said and "belong to another user" in said and "system calls" in said
    rows = open_run(run).rows("threads")
    assert rows and not [row for row in rows if row["wchan"] == "0"]


def test_two_hosts_are_one_run(make_sshd, tmp_path, monkeypatch):
    servers, folders = [make_sshd(), make_sshd()], [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with launched(folders[0]) as (first, log_a), launched(folders[1]) as (second, log_b):
        hosts = [open_host(server.target, **server.options()) for server in servers]
        found = remote.RemoteHost._find_offset
        monkeypatch.setattr(
            hosts[1], "_find_offset", lambda python: (found(hosts[1], python)[0] + 90_000_000_000, 1), raising=False
        )
        run = collect_from(hosts, tmp_path / "run", Options(1.0, 0.5), [first.pid, second.pid], [log_a, log_b])
    opened = open_run(run)
    processes = [row for row in opened.rows("processes") if row["tool"] == "sampler"]
    names = {row["host_name"] for row in processes}
    assert names == {"127.0.0.1", "127.0.0.1-2"}
    pids = {name: {row["pid"] for row in processes if row["host_name"] == name} for name in names}
    assert first.pid in pids["127.0.0.1"] and second.pid + 10_000_000 in pids["127.0.0.1-2"]
    assert not pids["127.0.0.1"] & pids["127.0.0.1-2"]
    times = {name: min(row["time"] for row in processes if row["host_name"] == name) for name in names}
    assert 60e9 < times["127.0.0.1"] - times["127.0.0.1-2"] < 120e9, "the second clock is taken for 90 s ahead"
    assert {row["node"] for row in opened.rows("log")} == {0, 1}
    assert {row["host_name"] for row in opened.frame("threads").to_dict("records")} == names
    alone = open_run(run / "127.0.0.1-2")
    assert second.pid in {row["pid"] for row in alone.rows("processes")}
    clean = anonymise_run(run, tmp_path / "clean", {})
    assert len(open_run(clean).rows("processes")) and b"ssh://root@" not in (clean / "run.json").read_bytes()
    assert (clean / "host2/run.json").exists() and servers[0].target.encode() not in (clean / "host1/run.json").read_bytes()


def test_triage_over_ssh(sshd, tmp_path):
    host = open_host(sshd.target, **sshd.options())
    with launched(tmp_path) as (process, log):
        found = triage(host, pid=process.pid, log=log, limit_s=12, progress=print, out=tmp_path / "run", clock=OwnTime())
    assert found.ledger[0]["test"] == "first look" and found.verdict.state in ("progressing", "ready", "unknown")
    assert open_run(tmp_path / "run").rows("threads")


def collector(server: Sshd, folder: Path, pid: int, before: str = "") -> subprocess.Popen:
    """A collector in a process of its own, so that it can be killed."""
    code = f"""
import resource; from pathlib import Path
from kit.capture.collect import collect_from
from kit.capture.options import Options
from kit.capture.hosts.targets import open_host
from kit.capture.sampler import sampling
sampling.NICE = 0
{before}
host = open_host({server.target!r}, config={str(server.config)!r}, known_hosts={str(server.known_hosts)!r})
collect_from([host], Path({str(folder / "run")!r}), Options(600.0, 0.2), {pid})
"""
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])


def test_a_killed_collector_leaves_nothing_running_there(make_sshd, tmp_path):
    server = make_sshd()
    with launched(tmp_path) as (process, log):
        recording = collector(server, tmp_path, process.pid)
        try:
            assert wait_for(lambda: samples(tmp_path / "run") >= 2)
            assert server.children()
        finally:
            recording.kill()
            recording.wait()
        assert wait_for(lambda: not server.children())
    unfinished = {entry["file"] for entry in manifest_of(tmp_path / "run")["captures"] if not entry["whole"]}
    assert {"raw/sampler.jsonl", "raw/server.log"} <= unfinished
    assert len(moments(tmp_path / "run")) >= 2 and open_run(tmp_path / "run").unread()


def test_a_full_disk_here_ends_the_recording_and_is_said(make_sshd, tmp_path):
    server = make_sshd()
    with launched(tmp_path) as (process, log):
        limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))"
        recording = collector(server, tmp_path, process.pid, limit)
        assert recording.wait(READY_S) != 0, "what was asked for was not recorded to its end"
        assert wait_for(lambda: not server.children())
    assert "no room to write" in missing(tmp_path / "run") and open_run(tmp_path / "run").rows("log")


def test_a_host_without_strace_is_said(sshd, tmp_path, monkeypatch):
    monkeypatch.setenv("KIT_KNOWLEDGE", str(tmp_path))
    (tmp_path / "tools.toml").write_text(
        '[[tool]]\nname = "strace"\nwhat = "system calls"\noption = "strace_s"\ncommand = ["strace-not-here", "{attach}"]\n'
    )
    with launched(tmp_path) as (process, log):
        run = record(sshd, tmp_path, process, log, Options(0.4, 0.4, strace_s=0.2, py_spy=True))
    assert "system calls: strace-not-here is not installed" in missing(run) and open_run(run).rows("threads")
    assert not (run / "raw/strace.txt").exists()
