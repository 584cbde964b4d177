"""64 hosts recorded at once from here over a real sshd, two of them dead: lateness of the others' samples, memory, threads.

    .venv/bin/python benchmarks/targets.py [--hosts 64] [--seconds 120] [--interval 5]

All hosts are sessions of one private sshd on the loopback. One of the dead is a port that accepts and never answers, the other
a server of its own whose processes are stopped (SIGSTOP) once all hosts are sampled. The same is done before without the dead:
what is late there is late because 64 hosts share this machine. A sample is late by its own clock (when the host took it) and
here (when it had arrived); those before the last host was sampled are counted apart, for connecting and the first look at all
hosts run on this machine too. Exit code 1: with the dead, a sample of a live host came later than its interval, and not without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kit.capture.collect import collect_from  # noqa: E402
from kit.capture.hosts.targets import open_host  # noqa: E402
from kit.capture.options import Options  # noqa: E402
from kit.capture.sampler.sampling import Sampling  # noqa: E402
from kit.capture.together import folder_names  # noqa: E402
from kit.errors import KitError  # noqa: E402
from tests.sshd import Sshd  # noqa: E402

LAUNCH = """import os, threading, time
os.fork()
for _ in range(16): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
time.sleep(3600)"""
EVERY_S = 0.2
ROOM = "MaxSessions 100\nMaxStartups 1000\nLoginGraceTime 0"


@dataclass
class Seen:
    """What was seen of one recording."""

    arrived: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """By sampler: number, when it was taken, when it was here (UTC nanoseconds)."""
    anon_mb: float = 0.0
    threads: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    run: Path | None = None


@contextmanager
def arrivals(seen: Seen) -> Iterator[None]:
    """Note of each sample when it arrives."""
    before = Sampling._watch

    def watch(self: Sampling, entry: dict) -> None:
        if entry["k"] == "sample":
            seen.arrived.setdefault(id(self), []).append((entry["n"], entry["wall_ns"], time.time_ns()))
        before(self, entry)

    Sampling._watch = watch
    try:
        yield
    finally:
        Sampling._watch = before


@contextmanager
def launched() -> Iterator[int]:
    """A launch of two processes with threads that sleep."""
    with subprocess.Popen([sys.executable, "-c", LAUNCH], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def stop_server(server: Sshd) -> list[psutil.Process]:
    """Stop all processes of a server, as a machine that hangs; they are given back to be ended."""
    processes = [psutil.Process(server._process.pid), *server._below()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    return processes


def recorded(servers: list[Sshd], targets: list[str], pid: int, out: Path, options: Options, dead: Sshd | None) -> Seen:
    """Record all targets; the dead server is stopped once all the others have been sampled."""
    seen, own, over, stopped = Seen(), psutil.Process(), threading.Event(), []
    known = out.parent / "known_hosts"
    known.write_text("".join(server.known_hosts.read_text() for server in servers))
    living = len(targets) - 2 * (dead is not None)

    def look() -> None:
        while not over.wait(EVERY_S):
            seen.threads = max(seen.threads, threading.active_count())
            anon = Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]
            seen.anon_mb = max(seen.anon_mb, int(anon) / 1024)
            if dead is not None and not stopped and len(seen.arrived) > living:  # the one that is to die has a sample too
                stopped.extend(stop_server(dead))

    watcher = threading.Thread(target=look)
    began, cpu = time.perf_counter(), sum(own.cpu_times()[:2])
    watcher.start()
    try:
        with arrivals(seen):
            hosts = [open_host(target, **servers[0].options(known_hosts=known)) for target in targets]
            seen.run = collect_from(hosts, out, options, pid, progress=lambda text: None)
    except KitError as error:
        print(f"the recording failed: {error}")
    finally:
        over.set()
        watcher.join()
        for process in stopped:
            process.send_signal(signal.SIGCONT)
    seen.wall_s, seen.cpu_s = time.perf_counter() - began, sum(own.cpu_times()[:2]) - cpu
    return seen


def report(name: str, seen: Seen, living: int, interval_s: float) -> float:
    """Print what was seen; how late the latest sample of a live host was, in seconds, once all were sampled."""
    hosts = sorted(seen.arrived.values(), key=len, reverse=True)[:living]
    all_begun = max(rows[0][2] for rows in hosts)
    at_host, here, left_out, samples, before = 0.0, 0.0, 0, 0, 0
    for rows in hosts:
        steady = [row for row in rows if row[1] >= all_begun]
        before += len(rows) - len(steady)
        samples += len(steady)
        left_out += (steady[-1][0] - steady[0][0] + 1 - len(steady)) if steady else 0
        zero = min(taken - number * interval_s * 1e9 for number, taken, _ in rows)
        due = [zero + number * interval_s * 1e9 for number, _, _ in steady]
        at_host = max([at_host, *((row[1] - moment) / 1e9 for row, moment in zip(steady, due, strict=True))])
        here = max([here, *((row[2] - moment) / 1e9 for row, moment in zip(steady, due, strict=True))])
    late, used = [f"{at_host:.2f} s", f"{here:.2f} s"], [f"{seen.cpu_s:.1f} s", f"{seen.wall_s:.1f} s"]
    cells = [samples, left_out, *late, before, f"{seen.anon_mb:.0f} MB", seen.threads, *used]
    print(f"{name:24}" + "".join(f"{cell:>10}" for cell in cells), flush=True)
    return here + left_out * interval_s


def main() -> int:
    """Record without and with the dead, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--interval", type=float, default=5.0)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a stop by `timeout` ends the servers too
    options, living, late = Options(args.seconds, args.interval), args.hosts - 2, {}
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {living} live hosts, every {args.interval:g} s", end="; ")
    print(f"it takes twice {args.seconds:g} s, and about 15 s more each time")
    heads = ("samples", "left out", "there", "here", "before", "RssAnon", "threads", "CPU", "wall")
    print(f"{'':24}" + "".join(f"{head:>10}" for head in heads))
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    with (
        tempfile.TemporaryDirectory(prefix="stallkit-targets-") as scratch,
        launched() as pid,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        folder = Path(scratch)
        live, dying = (Sshd(program, folder / name, ROOM).start() for name in ("live", "dying"))
        shutil.copy(live.folder / "authorized_keys", dying.folder)
        try:
            targets = [live.target] * living
            seen = recorded([live], targets, pid, folder / "alone", options, None)
            late["alone"] = report("without the dead", seen, living, args.interval)
            targets[1:1] = [f"ssh://127.0.0.1:{silent.getsockname()[1]}", dying.target]
            seen = recorded([live, dying], targets, pid, folder / "with", options, dying)
            late["with"] = report("with a silent, a dying", seen, living, args.interval)
            for name in ("", folder_names(targets)[2]):
                for one in json.loads((folder / "with" / name / "run.json").read_text())["missing"]:
                    print(f"  {name or 'missing'}: {one['what']}: {one['why']}")
        finally:
            live.stop()
            dying.stop()
    held = late["with"] <= max(args.interval, late["alone"] + args.interval)
    print(f"{'held' if held else 'NOT HELD'}: no sample of a live host late by more than its interval because of a dead one")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
