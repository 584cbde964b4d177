"""Wall time, CPU and peak memory of the kit on evidence of 1, 4 and 16 times a size: cost is linear, memory bounded.

    .venv/bin/python benchmarks/scale.py [--what samples strace log] [--times 1 4 16] [--share 1] [--budget 6G] [--json FILE]

Each size is generated into a temporary folder, measured, and removed before the next. At 16 times, and a share of 1: `samples` is
a recording of six hours of 2,000 threads at 1 Hz, `strace` a capture of 10 GB, `log` one of 5 GB. Each command runs by itself;
memory is RssAnon summed over all of its processes, read each 50 ms from /proc/PID/status. `waited` is how long its main thread
was ready and got no core (/proc/PID/schedstat): other work on the machine, no cost of the command. The report is made before
the plot: it finds nothing in the cache of frames but what the verdict left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from kit.store import checksum

HERE = Path(__file__).resolve().parent
RUN = HERE.parent / "data" / "pipe-ticker"
MOST = 16
HOURS, THREADS, PROCESSES, DESCRIPTORS = 6.0, 2_000, 9, 300
STRACE_BYTES, LOG_BYTES = 10_000_000_000, 5_000_000_000
EVERY_S = 0.05
NS = 1_000_000_000
KEY_EVERY, FDS_EVERY = 30, 10
BUSY, TICKING = 2, 4
"""Threads of each process that run in every sample, and in every eighth."""


# the evidence


def samples(folder: Path, hours: float, threads: int = THREADS) -> None:
    """A run with a recording of so many hours: the log of a real stalled launch, and what the sampler prints of it."""
    (folder / "raw").mkdir(parents=True)
    manifest = json.loads((RUN / "run.json").read_text())
    kept = {"raw/server.log": "server.log", "raw/sampler.jsonl": "sampler.jsonl"}
    manifest["captures"] = [one for one in manifest["captures"] if one["file"] in kept]
    shutil.copy(RUN / "raw" / "server.log", folder / "raw")
    began, seconds = 1_795_978_613 * NS, int(hours * 3600)
    path = folder / "raw" / "sampler.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for line in sampler_lines(began, seconds, threads, manifest["launch"]["pid"]):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began // NS + seconds))
    manifest["ended_at"] = ended
    manifest["captures"][-1].update(captured_at=ended, size=path.stat().st_size, sha256=checksum(path))
    (folder / "run.json").write_text(json.dumps(manifest))


def sampler_lines(began: int, seconds: int, threads: int, root: int) -> Iterator[dict]:
    """What the sampler prints of a launch of `PROCESSES` processes: all at first and every 30 s, else what changed."""
    rng = random.Random(threads)
    pids = [root + 40 * number for number in range(PROCESSES)]
    each = threads // PROCESSES
    ran = {pid: [0] * each for pid in pids}
    yield {"k": "head", "format": "stallkit-sampler", "version": 2, "wall_ns": began, "mono_ns": 0, "boottime_ns": 5 * NS}
    for n in range(seconds):
        yield {"k": "sample", "n": n, "wall_ns": began + n * NS + rng.randrange(2_000_000), "mono_ns": n * NS}
        for number, pid in enumerate(pids):
            whole = n == 0 or (n + pid) % KEY_EVERY == 0
            yield _process(n, number, pid, pids[0], each, whole)
            moved = set(range(BUSY)) | ({t for t in range(BUSY, BUSY + TICKING)} if (n + number) % 8 == 0 else set())
            moved |= {rng.randrange(each)} if rng.random() < 0.2 else set()
            for thread in moved:
                ran[pid][thread] += 700_000_000 if thread < BUSY else 60_000
            rows = [_thread(pid, thread, ran[pid][thread], rng) for thread in (range(each) if whole else sorted(moved))]
            for at in range(0, len(rows), 256):
                yield {"k": "threads", "n": n, "pid": pid, "all": whole and at == 0, "rows": rows[at : at + 256]}
        if n % FDS_EVERY == 0:
            yield {"k": "sockets", "n": n, "rows": [_socket(pid, port) for pid in pids for port in range(8)]}
            for pid in pids:
                if n == 0 or (n // FDS_EVERY + pid) % 3 == 0:
                    for at in range(0, DESCRIPTORS, 256):
                        numbers = range(at, min(at + 256, DESCRIPTORS))
                        rows = [[fd, "rw", f"socket:[{pid * 1000 + fd}]"] for fd in numbers]
                        yield {"k": "fds", "n": n, "pid": pid, "all": at == 0, "rows": rows}
                else:
                    yield {"k": "fds", "n": n, "pid": pid, "same": True}
            yield {"k": "counters", "n": n, "rows": [["vmstat", "pgmajfault", None, 40_000 + n], ["vmstat", "oom_kill", None, 0]]}
        yield {"k": "host", "n": n, "memory": {"MemTotal": 1 << 40, "MemAvailable": (1 << 39) - 4096 * n}}
        yield {"k": "done", "n": n, "took_s": 0.006, "cpu_s": 0.005}
    yield {"k": "end", "why": "time"}


def _process(n: int, number: int, pid: int, root: int, threads: int, whole: bool) -> dict:
    """The line of a process."""
    line: dict = {"k": "proc", "n": n, "pid": pid, "utime": 70 * n, "stime": n, "rss": (60 << 30) + 4096 * n}
    line |= {"status": {"RssAnon": (50 << 30) + 4096 * n, "voluntary_ctxt_switches": 3 * n}}
    if whole:
        title = ["python", "-m", "vllm", "serve"] if number == 0 else [f"VLLM::Worker_TP{number - 1}"]
        line |= {"ppid": 1 if number == 0 else root, "sid": root, "state": "S", "comm": title[0][:15], "threads": threads}
        line |= {
            "start": 1_000 + number,
            "vsize": 1 << 40,
            "wchan": "futex_do_wait",
            "fds": DESCRIPTORS,
            "cgroup": "/",
            "all": True,
        }
        line["status"] |= {"TracerPid": 0, "Uid": "0 0 0 0", "RssFile": 1 << 30, "RssShmem": 1 << 33}
        line |= {"io": {"rchar": n, "wchar": n, "syscr": n, "syscw": n, "read_bytes": 1 << 36, "write_bytes": n}}
        line |= {"cmd": title} if n == 0 else {}
    return line


def _thread(pid: int, thread: int, ran: int, rng: random.Random) -> list:
    """Row of a thread: the first of a process spin, the others sleep in one of three ways."""
    if thread < BUSY:
        return [pid + thread * 1000, "R", ran // 10_000_000, 3, 0, None, "running", None, "python", ran, 7, ran // 1_000_000]
    wchan, call, name = (
        ("futex_do_wait", "202", "python"),
        ("do_epoll_wait", "232", "ZMQbg/IO/0"),
        ("poll_schedule_timeout.constprop.0", "7", "cuda-EvtHandlr"),
    )[thread % 3]
    state = "D" if rng.random() < 0.0005 else "S"
    arguments = f"0x7f{pid + thread:010x} 0x80 0x0 0x0 0x0 0x0"
    return [pid + thread * 1000, state, 1, 0, thread % 64, wchan, call, arguments, name, 900 + ran, 10, 3 + ran // 60_000]


def _socket(pid: int, port: int) -> list:
    """Row of a socket."""
    state, peer = ("LISTEN", 0) if port == 0 else ("ESTAB", 29_500)
    return ["tcp", state, 0, 0, "127.0.0.1", 40_000 + pid % 1000 * 8 + port, "127.0.0.1", peer, pid, port, "python"]


def strace(folder: Path, size: int) -> None:
    """A capture of strace of about a size: that of a bundled run again and again, its clock moving on."""
    sys.path.insert(0, str(HERE))
    from strace import grow

    (folder / "raw").mkdir(parents=True)
    shutil.copy(RUN / "raw" / "server.log", folder / "raw")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as whole:
        whole.writelines(_STAMP.sub(_epoch, line) for line in (RUN / "raw" / "strace.txt").read_text("utf-8").splitlines(True))
        whole.flush()
        grow(Path(whole.name), folder / "raw" / "strace.txt", size)


_STAMP = re.compile(r"^(\d+) (\d\d):(\d\d):(\d\d)(?=\.)")


def _epoch(found: re.Match) -> str:
    """A stamp of strace -tt as -ttt prints it, on the day of the bundled run."""
    return f"{found[1]} {1_795_910_400 + 3600 * int(found[2]) + 60 * int(found[3]) + int(found[4])}"


def log(folder: Path, size: int) -> None:
    """A log of a vLLM launch on 64 ranks under NCCL_DEBUG=TRACE, of about a size."""
    sys.path.insert(0, str(HERE))
    from logs import make

    (folder / "raw").mkdir(parents=True)
    with tempfile.NamedTemporaryFile() as once:
        made = min(size, LOG_BYTES // MOST)
        make(Path(once.name), made // 1_000_000)
        with open(folder / "raw" / "server.log", "wb") as file:
            for own, lines in groupby(once, lambda line: b" NCCL " not in line or b"ncclCommInitRank" in line):
                file.write(b"".join(lines) * (1 if own else size // made))  # of larger ones, what NCCL prints comes again


# measuring


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process and of all that it started, in bytes."""
    total = 0
    with suppress(OSError, IndexError):
        total += int(Path(f"/proc/{pid}/status").read_text().split("RssAnon:")[1].split()[0]) * 1024
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                total += anonymous_bytes(int(child))
    return total


def waited_s(pid: int) -> float:
    """How long the main thread of a process was ready to run and did not."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / NS


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Wall time, CPU and peak RssAnon of a command with all that it starts."""
    before, began, most, waited = os.times(), time.perf_counter(), 0, 0.0
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **environment})
        while child.poll() is None:
            most = max(most, anonymous_bytes(child.pid))
            with suppress(OSError, IndexError):  # it has ended
                waited = max(waited, waited_s(child.pid))
            time.sleep(EVERY_S)
        said.seek(0)
        if child.returncode:
            sys.stderr.write(said.read().decode(errors="replace")[-2000:])
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    wall = time.perf_counter() - began
    return {"wall_s": wall, "waited_s": waited, "cpu_s": cpu, "anon_bytes": most, "exit": child.returncode}


FRAME = "import sys, kit; run = kit.open_run(sys.argv[1]); print(len(run.frame(sys.argv[2], sys.argv[3].split(','))))"
PLOT = """import sys, kit
from kit import plot
plot.plot_timeline(kit.open_run(sys.argv[1])).savefig(sys.argv[1] + "/../timeline.png")"""
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "verdict": lambda run: ["-m", "kit", "verdict", str(run)],
    "plot": lambda run: ["-c", PLOT, str(run)],
    "report": lambda run: ["-m", "kit", "report", str(run), "-o", str(run.parent / "report.html")],
}
MAKERS: dict[str, tuple[Callable[[Path, float], None], tuple[str, ...]]] = {
    "samples": (lambda folder, share: samples(folder, HOURS * share), ("verdict", "report", "plot")),
    "strace": (lambda folder, share: strace(folder, int(STRACE_BYTES * share)), ("verdict", "report", "plot")),
    "log": (lambda folder, share: log(folder, int(LOG_BYTES * share)), ("verdict", "report", "plot")),
}
"""What makes the evidence at a share of the full size, and what is measured on it, in this order: later ones find the cache."""


def measure(what: str, share: float, only: list[str] | None, environment: dict[str, str]) -> Iterator[dict]:
    """Make evidence, measure the commands on it, remove it."""
    make, commands = MAKERS[what]
    with tempfile.TemporaryDirectory(prefix="stallkit-scale-") as scratch:
        run = Path(scratch) / what
        make(run, share)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        for name in only or commands:
            cache = {"XDG_CACHE_HOME": str(Path(scratch) / "cache"), "MPLBACKEND": "agg"}
            found = measured([sys.executable, *COMMANDS[name](run)], {**environment, **cache})
            yield {"what": what, "command": name, "share": share, "bytes": size, **found}


def main() -> None:
    """Measure each kind of evidence at each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--times", nargs="+", type=float, default=[1, 4, 16])
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size that 16 times stands for")
    parser.add_argument("--command", nargs="+", choices=list(COMMANDS), help="measure these only")
    parser.add_argument("--budget", help="KIT_MEMORY of the commands")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    environment = {"KIT_MEMORY": args.budget} if args.budget else {}
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'what':8} {'times':>5} {'size':>10} {'command':8} {'wall':>9} {'waited':>9} {'CPU':>9} {'peak RssAnon':>13}")
    figures = []
    for what in args.what:
        for times in args.times:
            for found in measure(what, args.share * times / MOST, args.command, environment):
                figures.append({"times": times, **found})
                wall, cpu, anon = found["wall_s"], found["cpu_s"], found["anon_bytes"] / 1e6
                failed = f"  exit {found['exit']}" if found["exit"] else ""
                size = f"{found['bytes'] / 1e6:,.0f} MB"
                print(
                    f"{what:8} {times:5g} {size:>10} {found['command']:8} {wall:7.1f} s {found['waited_s']:7.1f} s {cpu:7.1f} s "
                    f"{anon:10,.0f} MB{failed}",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps({"load": os.getloadavg()[0], "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
