"""The sampler on real processes: what it says is what /proc says, and nothing hangs, lies or stays behind."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.capture import sampler_program
from kit.capture.hosts.targets import open_host
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.manifest import Manifest, make_folder
from kit.capture.sampler import sampling
from kit.capture.sampler.sampling import Sampling
from kit.capture.sampler.threads import thread_row
from kit.capture.waiting import CLOCK, Clock
from kit.frames import FRAMES
from kit.parse.base import Report, Source
from kit.parse.sampler import parse
from kit.tool_table import table
from tests.sshd import READY_S, Proxy, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sampler reads /proc")
ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False
SECRET = "sk-pLaNtEd0123456789"
TARGET = """
import sys, threading, time
threads = {}
def body(event, busy):
    while not event.wait(0.01 if busy else 60):
        sum(range(2000))
def start(busy):
    event = threading.Event()
    thread = threading.Thread(target=body, args=(event, busy), daemon=True)
    thread.start()
    threads[thread.native_id] = (event, thread)
    return thread.native_id
for number in range(6):
    start(number < 2)
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("+"):
        print(start(False), flush=True)
    else:
        event, thread = threads.pop(int(line[1:]))
        event.set()
        thread.join()
        print("ended", flush=True)
"""


@contextmanager
def target(*arguments: str, code: str = TARGET) -> Iterator[subprocess.Popen]:
    """A process with six sleeping or waking threads; starts and ends more where told on its input."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen, line: str) -> str:
    process.stdin.write(line + "\n")
    return process.stdout.readline().strip()


def raw_lines(
    pid: int,
    user: int | None = None,
    path: Path | None = None,
    enough: Callable[[list[str]], bool] = lambda lines: False,
    **parameters: object,
) -> list[str]:
    """Lines of a run of the sampler's text, which is told to end once they are enough."""
    tools = [[tool.program, [tool.command, *tool.more]] for tool in table().sampled()]
    text = sampler_program({"roots": [pid], "interval_s": 0.1, "samples": 4, "nice": 0, "tools": tools, **parameters})
    environ = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    program, lines = sys.executable if user is None else _any_python(), []
    command, pipes = [program, "-S", "-I", "-"], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, user=user, env=environ, **pipes) as process:
        process.stdin.write(text)
        process.stdin.close()
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if enough(lines):
                process.terminate()
        assert not process.stderr.read()
    assert not process.returncode
    return lines


def read(lines: list[str]) -> tuple[dict[str, list[dict]], Report]:
    """Rows by frame, each checked against its declaration."""
    report, rows = Report(), {name: [] for name in FRAMES}
    for frame, row in parse(lines, Source("raw/sampler.jsonl"), report):
        FRAMES[frame].check({**row, "capture": "raw/sampler.jsonl"})
        rows[frame].append(row)
    return rows, report


@contextmanager
def sampling_of(folder: Path, host: LocalHost, pid: int, clock: Clock = CLOCK, **parameters: object) -> Iterator[Sampling]:
    make_folder(folder)
    manifest = Manifest(folder, "0", host.name, host.abilities)
    one = Sampling(manifest, {"roots": [pid], "interval_s": 0.1, "samples": 1000, **parameters}, host, clock)
    try:
        yield one
    finally:  # closed where the test failed too: a file that is left open fails the next one
        one.finish()
        manifest.finish(manifest.now_ns())


def count(folder: Path, kind: str = "done") -> int:
    return (folder / "raw/sampler.jsonl").read_bytes().count(f'"k":"{kind}"'.encode())


def full_reads(pid: int, until: Callable[[dict[tuple, list]], bool]) -> dict[tuple, list]:
    """Rows read in full between two equal readings of schedstat, by thread and schedstat.

    Only of threads that sleep: one that is woken while it is read has some files of before and some of after.
    """
    found: dict[tuple, list] = {}
    while not until(found):
        for tid in os.listdir(f"/proc/{pid}/task"):
            base = f"/proc/{pid}/task/{tid}/"
            before = Path(base + "schedstat").read_bytes()
            row = thread_row(int(tid), base, before)
            if before == Path(base + "schedstat").read_bytes() and row[1] == "S" and row[5]:
                found[int(tid), *row[9:]] = row
        time.sleep(0.01)
    return found


def agreement(rows: dict[str, list[dict]], full: dict[tuple, list]) -> tuple[int, int]:
    """How many rows of sleeping threads were read in full too, and agree; how many of these were carried on."""
    compared = carried = 0
    lines = {row["moment"]: row["line"] for row in rows["processes"]}
    for row in rows["threads"]:
        key = row["tid"], round(row["run_s"] * 1e9), round(row["wait_s"] * 1e9), row["slices"]
        if key in full and row["state"] == "S" and row["wchan"]:
            expected = full[key]
            told = [row[name] for name in ("state", "utime_s", "stime_s", "processor", "wchan", "syscall_args", "comm")]
            assert told == [*expected[1:2], expected[2] / 100, expected[3] / 100, *expected[4:6], *expected[7:9]]
            compared, carried = compared + 1, carried + (row["line"] < lines[row["moment"]])
    return compared, carried


def local(**changed: object) -> LocalHost:
    """This machine, as one that lacks some things."""
    host = LocalHost()
    host.connect()
    for name, value in changed.items():
        setattr(host.abilities, name, value)
    return host


WAYS = {
    "python": lambda tool: local(),
    "mawk": lambda tool: local(python=None, programs={"awk": tool("mawk")}),
    "gawk": lambda tool: local(python=None, programs={"awk": tool("gawk")}),
    "broken python": lambda tool: local(python="/bin/false", programs={"awk": tool("awk")}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_whose_schedstat_is_unchanged_is_as_a_full_read_gives_it(tmp_path, tool, way):
    run = tmp_path / "run"
    looked = 0

    def enough(full: dict[tuple, list]) -> bool:
        """A busy machine leaves moments out, and after a gap all is read again: as many as it takes."""
        nonlocal looked
        if one.ended.is_set() or count(run) < looked + 5:
            return one.ended.is_set()
        looked = count(run)
        compared, carried = agreement(read((run / "raw/sampler.jsonl").read_text().splitlines()[:-1])[0], full)
        return compared > 20 and carried > 10

    with target("--api-key", SECRET) as process, sampling_of(run, WAYS[way](tool), process.pid, interval_s=0.1) as one:
        full = full_reads(process.pid, enough)
    text = (run / "raw/sampler.jsonl").read_text()
    rows, report = read(text.splitlines())
    compared, carried = agreement(rows, full)
    assert compared > 20 and carried > 10 and not report.reasons
    assert SECRET not in text and "[redacted]" in text
    assert {row["fd"] for row in rows["fds"]} >= {0, 1, 2} and rows["host_memory"] and rows["io"]


def test_busybox_awk_does_it_too(tmp_path, tool):
    awk = tmp_path / "awk"
    awk.symlink_to(tool("busybox"))
    run = tmp_path / "run"
    with target() as process, sampling_of(run, local(python=None, programs={"awk": str(awk)}), process.pid) as one:
        assert wait_for(lambda: one.ended.is_set() or count(run) >= 3)
    rows, report = read((run / "raw/sampler.jsonl").read_text().splitlines())
    assert len({row["tid"] for row in rows["threads"]}) == 7 and not report.reasons and report.facts["end"] == "stopped"


def test_threads_come_and_go(tmp_path):
    run = tmp_path / "run"
    with target() as process, sampling_of(run, local(), process.pid):
        seen: list[int] = []
        assert wait_for(lambda: count(run) >= 1)
        for _ in range(2):
            seen.append(int(tell(process, "+")))
            at = count(run)
            assert wait_for(lambda at=at: count(run) >= at + 2)
        tell(process, f"-{seen[0]}")
        at = count(run)
        assert wait_for(lambda: count(run) >= at + 2)
    rows, report = read((run / "raw/sampler.jsonl").read_text().splitlines())
    last = max(row["moment"] for row in rows["threads"])
    moments = {tid: {row["moment"] for row in rows["threads"] if row["tid"] == tid} for tid in seen}
    assert moments[seen[0]] and last not in moments[seen[0]] and last in moments[seen[1]] and 0 not in moments[seen[1]]
    numbers = {row["moment"]: row["threads"] for row in rows["processes"]}
    assert numbers[0] == 7 and numbers[last] == 8 and not report.reasons


REUSE = """
import json, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
sampler = subprocess.Popen([sys.executable, "-S", "-I", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
sampler.stdin.write(open(sys.argv[1]).read()); sampler.stdin.close()
def see(samples):
    began = time.monotonic_ns()
    for line in sampler.stdout:
        print(line, end="")
        entry = json.loads(line)
        samples -= entry["k"] == "sample" and entry["mono_ns"] > began
        if samples <= 0 and entry["k"] == "done":
            return
see(2)
child.kill(); child.wait()
open("/proc/sys/kernel/ns_last_pid", "w").write(str(child.pid - 1))
again = subprocess.Popen(["sleep", "600"])
assert again.pid == child.pid
see(2)
sampler.terminate()
see(10_000)
again.kill(); again.wait()
"""


@pytest.mark.skipif(not ROOT, reason="a namespace of process ids needs root")
def test_a_reused_pid_is_another_process(tmp_path, tool):
    how = {"roots": [1], "interval_s": 0.1, "samples": 10_000, "key_every": 10_000, "nice": 0}
    (tmp_path / "sampler.py").write_text(sampler_program(how))
    command = [tool("unshare"), "--pid", "--fork", "--mount-proc", sys.executable, "-c", REUSE, str(tmp_path / "sampler.py")]
    ran = subprocess.run(command, capture_output=True, text=True)
    if "ns_last_pid" in ran.stderr or "unshare" in ran.stderr:
        pytest.skip("this kernel does not let the next pid be chosen")
    assert ran.returncode == 0, ran.stderr
    rows, report = read(ran.stdout.splitlines())
    gone = [row for row in rows["processes"] if row["state"] == "X" and row["comm"] == "sleep"]
    assert len(gone) == 1
    starts = [row["start_ticks"] for row in rows["processes"] if row["pid"] == gone[0]["pid"] and row["state"] != "X"]
    assert len(set(starts)) == 2 and report.facts["end"] == "stopped"


@pytest.mark.skipif(not ROOT, reason="a namespace of process ids needs root")
def test_pids_inside_a_container_are_told(tool):
    command = [tool("unshare"), "--pid", "--fork", "sleep", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert wait_for(
                lambda: (
                    process.poll() is not None
                    or os.listdir(f"/proc/{process.pid}/task/{process.pid}")
                    and (Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip())
                )
            )
            if process.poll() is not None:
                pytest.skip("no namespace of process ids here")
            rows, _ = read(raw_lines(process.pid))
        finally:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), 9)
            process.kill()
    assert {row["container_pid"] for row in rows["processes"]} == {None, 1}


@pytest.mark.skipif(not ROOT, reason="only root can be another user")
def test_what_another_user_may_not_see_is_unknown_and_no_fact():
    with target() as process:
        rows, report = read(raw_lines(process.pid, user=65534))
    assert {(row["wchan"], row["syscall"]) for row in rows["threads"]} == {(None, None)}
    assert not rows["io"] and not rows["fds"] and {row["state"] for row in rows["threads"]} <= {"S", "R"}
    assert report.facts["denied"] == ["fd", "io", "syscall", "wchan"]
    assert [row["error"] for row in rows["tool_errors"]] == ["permission"]


@pytest.mark.skipif(not ROOT, reason="mounting /proc needs root")
def test_hidden_processes_are_not_said_to_have_ended(tool):
    with target() as process:
        text = sampler_program({"roots": [process.pid], "interval_s": 0.1, "samples": 2, "nice": 0})
        nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
        inside = f"mount -t proc -o hidepid=2 proc /proc && exec {nobody} {_any_python()} -S -I -"
        ran = subprocess.run([tool("unshare"), "-m", "sh", "-c", inside], input=text, capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"no mount here: {ran.stderr.strip()[-80:]}")
    rows, report = read(ran.stdout.splitlines())
    assert not rows["processes"] and report.facts["samples_read"] in (1, 2) and report.facts["end"] == "all samples taken"


def _any_python() -> str:
    """An interpreter that every user may run."""
    return shutil.which("python3", path="/usr/bin:/bin") or sys.executable


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet taken by its parent does not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def stand_in(folder: Path, name: str, script: str) -> Path:
    """A program of our own on the path, in place of one that this machine lacks."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + script)
    (folder / name).chmod(0o755)
    return folder


NVIDIA = """case "$1" in
--query-gpu=*) cat <<'END'
index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], power.limit [W], pstate
0, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, 100 %, 76188 MiB, 81559 MiB, 118.32 W, 700.00 W, P0
1, NVIDIA H100 80GB HBM3, 00000000:43:00.0, 0 %, 76188 MiB, 81559 MiB, 71.10 W, 700.00 W, P0
END
;;
*) cat <<'END'
gpu_bus_id, pid, process_name, used_gpu_memory [MiB]
00000000:1B:00.0, 4412, sglang::scheduler_TP0, 76178 MiB
END
esac
"""
ROCM = """cat <<'END'

========================= ROCm System Management Interface =========================
GPU  Temp   AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
0    35.0c  30.0W   800Mhz   1600Mhz  0%   auto  300.0W   12%   99%
====================================================================================
END
"""


def test_gpus_by_the_tools_of_the_host(tmp_path):
    path = stand_in(tmp_path / "bin", "nvidia-smi", NVIDIA)
    stand_in(path, "rocm-smi", ROCM)
    with target() as process:
        answered = lambda lines: len({line for line in lines if '"k":"tool"' in line}) >= 2  # noqa: E731
        rows, report = read(raw_lines(process.pid, path=path, samples=10_000, gpu_every=3, program_s=60.0, enough=answered))
    nvidia = [row for row in rows["gpus"] if row.get("power_limit_w") == 700]
    assert {(row["gpu"], row["util_percent"]) for row in nvidia} == {(0, 100.0), (1, 0.0)}
    assert {(row["gpu"], row["pid"], row["mem_used_mib"]) for row in rows["gpu_processes"]} == {(0, 4412, 76178.0)}
    assert any(row["util_percent"] == 99.0 and row["power_w"] == 30.0 for row in rows["gpus"]) and not report.reasons


def test_a_gpu_tool_that_hangs_delays_nothing_and_does_not_stay(tmp_path):
    started = tmp_path / "pids"
    path = stand_in(tmp_path / "bin", "nvidia-smi", f"echo $$ >> {started}\nsleep 300 & echo $! >> {started}\nwait\n")
    again = lambda lines: any('"hung":true' in line for line in lines) and started.read_text().count("\n") >= 4  # noqa: E731
    with target() as process:
        lines = raw_lines(process.pid, path=path, samples=10_000, gpu_every=2, program_s=1.0, enough=again)
    entries = [json.loads(line) for line in lines]
    hung = [entry["n"] for entry in entries if entry["k"] == "tool"]
    before = [entry for entry in entries if entry["k"] == "done" and entry["n"] < hung[0]]
    rows, _ = read(lines)
    assert len(before) >= 2 and rows["tool_errors"][0]["tool"] == "nvidia-smi" and rows["tool_errors"][0]["error"] == "timeout"
    pids = list(map(int, started.read_text().split()))
    assert wait_for(lambda: not any(map(alive, pids)))


def test_locks_downloads_and_limits(tmp_path):
    lock = open(tmp_path / "model.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (tmp_path / "abc.incomplete").write_bytes(b"x" * 5000)
    code = (
        f"import resource, time; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); a = open({str(lock.name)!r});"
        f"b = open({str(tmp_path / 'abc.incomplete')!r}); print('ready', flush=True); time.sleep(60)"
    )
    with lock, target(code=code) as process:
        rows, _ = read(raw_lines(process.pid))
    assert [(row["path"], row["pid"], row["mode"], row["waits"]) for row in rows["locks"]] == [
        (lock.name, os.getpid(), "WRITE", False)
    ] and rows["locks"][0]["mtime"]
    assert [(row["path"], row["size_bytes"]) for row in rows["sizes"]] == [(str(tmp_path / "abc.incomplete"), 5000)]
    assert any((row["source"], row["key"], row["value"]) == ("limits", "Max core file size", "0 / 0") for row in rows["host"])
    assert {"vmstat", "process"} <= {row["source"] for row in rows["counters"]}
    assert "/dev/shm" in {row["mount"] for row in rows["filesystems"]}


def test_a_low_limit_of_open_files_is_no_hindrance():
    with target() as process:
        text = sampler_program({"roots": [process.pid], "interval_s": 0.1, "samples": 5, "nice": 0})
        limited = f"ulimit -n 100; exec {sys.executable} -S -I -"
        ran = subprocess.run(["sh", "-c", limited], input=text, capture_output=True, text=True, check=True)
    rows, report = read(ran.stdout.splitlines())
    last = max(row["moment"] for row in rows["threads"])
    assert len({row["tid"] for row in rows["threads"] if row["moment"] == last}) == 7 and not report.reasons


class Slow:
    """A sampler that a busy host gives no turn before its first sample."""

    errors = ""

    def __init__(self) -> None:
        self.sent, self.looks = b"", 0

    def send(self, data: bytes) -> None:
        self.sent += data

    def read(self, timeout_s: float | None = None) -> bytes:
        self.looks += 1
        if self.looks < 100:
            raise TimeoutError
        return b""

    def end_input(self) -> None: ...

    def stop(self) -> None: ...


def test_signs_of_life_are_given_before_the_first_sample_too(tmp_path, monkeypatch):
    host, slow = local(), Slow()
    monkeypatch.setattr(host, "start_shell", lambda text: slow)
    with sampling_of(tmp_path / "run", host, os.getpid(), Clock(1e6), interval_s=0.0) as one:
        assert one.ended.wait(READY_S) and one.lost
    assert len(slow.sent) > 50


def test_on_this_machine_a_sampler_may_wait_for_its_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "SILENT", 0)
    monkeypatch.setattr(sampling, "SILENT_S", 0.0)
    with target() as process, sampling_of(tmp_path / "run", local(), process.pid, Clock(1000)) as one:
        assert wait_for(lambda: one.lost or count(tmp_path / "run") >= 5) and not one.lost


# over SSH


def of_sampler(sshd) -> list[int]:
    return [process.pid for process in sshd.children()]


@pytest.mark.parametrize("way", ["python", "awk"])
def test_a_black_hole_ends_it_on_both_sides(tmp_path, sshd, way, monkeypatch):
    with Proxy(sshd.port) as proxy:
        sshd.know(proxy.port)
        name = f"ssh://{sshd.user}@127.0.0.1:{proxy.port}"
        with target() as process, open_host(name, **sshd.options()) as host:
            run, before = tmp_path / "run", of_sampler(sshd)
            if way == "awk":
                host.abilities.python = None
            with sampling_of(run, host, process.pid, Clock(5), patience_s=4.0) as one:
                assert wait_for(lambda: count(run) >= 3)
                running = [pid for pid in of_sampler(sshd) if pid not in before]
                assert len(running) >= 2
                proxy.black_hole()
                monkeypatch.setattr(sampling, "SILENT_S", 0.5)
                assert one.ended.wait(READY_S) and one.lost
                assert wait_for(lambda: not any(map(alive, running)))
    manifest = json.loads((run / "run.json").read_text())
    assert sum("nothing came" in gap["why"] for gap in manifest["gaps"]) == 1
    assert any("last samples" in entry["what"] for entry in manifest["missing"])


def test_it_goes_on_after_the_connection_was_lost(tmp_path, make_sshd):
    sshd = make_sshd()
    run = tmp_path / "run"
    with target() as process, open_host(sshd.target, **sshd.options()) as host:
        with sampling_of(run, host, process.pid) as one:
            assert wait_for(lambda: count(run) >= 3)
            sshd.stop()
            assert one.ended.wait(READY_S) and one.lost
            before = count(run)
            sshd.start()
            host.connect()
            one.go_on()
            assert wait_for(lambda: count(run) >= before + 3) and not one.lost
    rows, report = read((run / "raw/sampler.jsonl").read_text().splitlines())
    moments = [row["moment"] for row in rows["processes"]]
    assert moments == sorted(set(moments)) and count(run, "head") == 2 and report.facts["end"] == "stopped"
    gaps = json.loads((run / "run.json").read_text())["gaps"]
    assert sum("the connection was lost" in gap["why"] for gap in gaps) == 1


def test_noise_of_a_login_is_no_sample_and_the_wire_is_compressed(tmp_path, make_sshd):
    sshd = make_sshd(login='echo "Welcome to the cluster"; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    run = tmp_path / "run"
    with target() as process, open_host(sshd.target, **sshd.options()) as host:
        with sampling_of(run, host, process.pid) as one:
            assert wait_for(lambda: count(run) >= 5)
    raw = (run / "raw/sampler.jsonl").read_text()
    assert "Welcome" not in raw and not read(raw.splitlines())[1].reasons
    assert one.received < (run / "raw/sampler.jsonl").stat().st_size / 2
