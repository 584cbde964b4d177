"""This machine where it has no /proc, as a Mac: collect, watch and triage with what psutil gives, on real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.capture.collect import collect_from
from kit.capture.find import find_launch
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.options import Options
from kit.capture.processes import tree_of
from kit.errors import UsageError
from kit.live.triage import triage
from kit.live.watch import Watch
from kit.open import open_run
from tests.live.launches import OwnTime
from tests.sshd import free_port

LAUNCH = """
import socket, subprocess, sys, threading, time
listener = socket.create_server(("127.0.0.1", 0))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(f"INFO 02-18 02:11:52 [x.py:1] Starting to load model tiny... port {listener.getsockname()[1]}", flush=True)
time.sleep(600)
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, Path, int, str]]:
    """A launch with a child, a listener, a log, and a word in its command line that no other process has."""
    log, word = tmp_path / "server.log", f"launch-{uuid.uuid4().hex}"
    with open(log, "wb") as out:
        process = subprocess.Popen([sys.executable, "-c", LAUNCH, word], stdout=out, stderr=subprocess.STDOUT)
    while not log.read_bytes().endswith(b"\n"):
        assert process.poll() is None
        time.sleep(0.01)
    yield process, log, int(log.read_text().split()[-1]), word
    with LocalHost() as host:
        for pid in reversed(tree_of(host, process.pid)):
            os.kill(pid, 9)
    process.wait()


@pytest.mark.parametrize("proc", [False, None], ids=["psutil alone", "as it is"])
def test_a_launch_is_found_by_pid_port_log_or_name(launch, proc) -> None:
    process, log, port, word = launch
    with LocalHost(proc=proc) as host:
        ways = {"pid": process.pid}, {"pid": None, "port": port}, {"pid": None, "log": str(log)}, {"pid": None, "name": word}
        assert {find_launch(host, **way).pid for way in ways} == {process.pid}
        assert len(tree_of(host, process.pid)) == 2
        table = host.processes.table()
        assert table[process.pid].rss_bytes > 1 << 20 and table[process.pid].threads >= 2
        assert host.processes.listeners(process.pid)[port] == process.pid
        assert host.processes.interpreters([process.pid]) == [process.pid]
        assert abs(host.processes.started_ns(table[process.pid]) - time.time_ns()) < 600e9


def test_a_launch_that_does_not_listen_yet_is_found_by_the_port_that_it_asks_for(launch) -> None:
    """As is one that lost its port to another: the listener is looked at, the other is named."""
    process, _, taken, _ = launch
    free = free_port()
    wait = [sys.executable, "-c", "import time; time.sleep(60)"]
    asks = [[*wait, "--port", str(free)], [*wait, "--port", str(taken)], [*wait, "kit", "watch", f"--port={free}"]]
    asking = [subprocess.Popen(command) for command in asks]
    try:
        with LocalHost() as host:
            assert find_launch(host, None, port=free).pid == asking[0].pid
            found = find_launch(host, None, port=taken)
            assert sys.executable in found.remarks[0]  # it may be another program than expected
            assert (found.pid, found.remarks[1:]) == (
                process.pid,
                [f"also asks for port {taken}, and does not have it: --pid {asking[1].pid}"],
            )
    finally:
        for one in asking:
            one.kill()
            one.wait()


def test_two_launches_of_one_name_are_told_apart_by_the_user(launch) -> None:
    *_, word = launch
    twin = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", word])
    try:
        with LocalHost() as host, pytest.raises(UsageError, match=f"2 launches match '{word}'"):
            find_launch(host, None, name=word)
    finally:
        twin.kill()
        twin.wait()


def test_psutil_and_proc_agree_about_processes(launch) -> None:
    from kit.capture.hosts.process_source import ProcFiles

    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc to compare with")
    process, *_ = launch
    with LocalHost() as host:
        by_psutil, by_proc = host.processes.table()[process.pid], ProcFiles(host).table()[process.pid]
        assert (by_psutil.parent, by_psutil.start_ticks, by_psutil.threads) == (
            by_proc.parent,
            by_proc.start_ticks,
            by_proc.threads,
        )
        writes = {(one.fd, one.target) for one in host.processes.descriptors(process.pid) if one.writes}
        assert writes == {(one.fd, one.target) for one in ProcFiles(host).descriptors(process.pid) if one.writes}


def test_it_is_recorded(launch, tmp_path: Path) -> None:
    process, log, port, _ = launch
    run = collect_from([LocalHost(proc=False)], tmp_path / "run", Options(0.6, 0.2), process.pid, port=port)
    manifest = json.loads((run / "run.json").read_text())
    assert all(entry["whole"] for entry in manifest["captures"]), manifest["captures"]
    assert manifest["launch"]["pid"] == process.pid and manifest["launch"]["command"][1] == "-c"
    opened = open_run(run)
    sampled = [row for row in opened.rows("processes") if row["tool"] == "sampler"]
    assert len({row["pid"] for row in sampled}) == 2 and {0} <= {row["moment"] for row in sampled} <= {0, 1, 2, 3}
    assert {row["pid"] for row in opened.rows("threads")} >= {process.pid}
    listeners = {row["local_port"] for row in opened.rows("sockets") if row["state"] == "LISTEN"}
    assert port in listeners and opened.rows("host_memory")
    assert (run / "raw" / "server.log").read_text() == log.read_text(), "the log is found by its open file"
    assert not [row for row in opened.rows("tool_errors") if row["tool"] == "sampler"]


def test_it_ends_with_the_launch(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def end_it() -> bool:
        if (tmp_path / "run/raw/sampler.jsonl").read_bytes().count(b'"k":"done"') >= 2 and process.poll() is None:
            process.communicate(b"\n")
        return False

    run = collect_from([LocalHost(proc=False)], tmp_path / "run", Options(60.0, 0.1), process.pid, until=end_it)
    assert "ended during the recording" in (run / "run.json").read_text()


def test_it_is_watched(launch) -> None:
    process, log, *_ = launch
    watch = Watch(LocalHost(proc=False), pid=process.pid, log=log, clock=OwnTime(4))
    statuses = watch.boards()
    found = next(statuses)
    watch.stop()
    assert list(statuses) and found.phase == "weights"
    assert {row["pid"] for row in found.rows} >= {process.pid}


def test_triage_answers(launch) -> None:
    process, log, *_ = launch
    found = triage(LocalHost(proc=False), pid=process.pid, log=log, limit_s=9, progress=print, clock=OwnTime())
    assert found.verdict.phase == "weights" and found.verdict.state in ("unknown", "progressing")
    assert found.ledger[0]["test"] == "first look" and repr(found).startswith("TriageResult(")


def test_a_port_of_nobody_is_said(tmp_path: Path) -> None:
    free = free_port()
    with LocalHost(proc=False) as host, pytest.raises(Exception, match=f"no visible process listens on port {free}"):
        find_launch(host, None, port=free)
