"""What a second of collecting costs the target, beside psutil and Procpath: CPU, bytes on the wire, lateness, exactness.

    python benchmarks/collect.py [--samples 300] [--procpath PROGRAM]

Starts a target of 9 processes with 1,845 threads (benchmarks/many_threads.py) and samples it over a private sshd on the
loopback, through a proxy that counts the bytes of the connection both ways. Each of the others runs before and after the kit,
and its better figure counts.

The CPU is that of all samples, key frames, descriptors and sockets included, as the kernel counts it for the sampler and its
shell. The typical sample is the median: threads, stat, status and io of processes, and the host; psutil is set to read the
same, as far as it can. Procpath is used where it is installed; an environment of its own is the place for it:
`python -m venv E && E/bin/pip install procpath`, then `--procpath E/bin/procpath`. Exit code 1: a bound is not held.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

from kit.capture.hosts.targets import open_host  # noqa: E402
from kit.capture.manifest import Manifest, make_folder  # noqa: E402
from kit.capture.sampler.sampling import Sampling  # noqa: E402
from kit.capture.sampler.threads import thread_row  # noqa: E402
from tests.sshd import Proxy, Sshd  # noqa: E402

INTERVAL_S, WARM = 1.0, 3
"""The first samples, that of every thread and the one after, are no steady state."""
MOST_CPU_MS, MOST_WIRE_BYTES, MOST_LATE_S, MOST_OF_PSUTIL, MOST_OF_PROCPATH = 20.0, 2500.0, 0.2, 1 / 4, 1 / 50
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


class Counting(Proxy):
    """A proxy that counts what it forwards, both ways."""

    bytes = 0

    def _receive(self, one, selector, queues) -> None:
        super()._receive(one, selector, queues)
        self.bytes += len(queues[one][1][-1][1]) if queues[one][1] else 0


@contextmanager
def target() -> Iterator[list[int]]:
    """Pids of the target's processes."""
    command = [sys.executable, str(ROOT / "benchmarks/many_threads.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield [int(word) for word in process.stdout.readline().split()]
        process.stdin.close()


def cpu_ms(pid: int) -> float:
    """CPU time of a process and of children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) * TICK_MS


def sampled(server: Sshd, pid: int, samples: int, python: bool) -> dict[str, float]:
    """Figures of the kit's sampler over the connection."""
    with Counting(server.port) as proxy, tempfile.TemporaryDirectory() as folder:
        server.know(proxy.port)
        with open_host(f"ssh://{server.user}@127.0.0.1:{proxy.port}", **server.options()) as host:
            before = {process.pid for process in server.children()}
            if not python:
                host.abilities.python = None
            run = Path(folder) / "run"
            make_folder(run)
            manifest = Manifest(run, "benchmark", host.name, host.abilities)
            one = Sampling(manifest, {"roots": [pid], "interval_s": INTERVAL_S, "samples": samples}, host)
            raw = run / "raw/sampler.jsonl"
            while raw.read_bytes().count(b'"k":"done"') < WARM and not one.ended.wait(0.02):
                pass
            workers = [one.pid for one in server.children() if one.pid not in before and one.name() not in ("sleep", "printf")]
            began, wire = {worker: cpu_ms(worker) for worker in workers}, proxy.bytes
            ended = dict(began)
            while not one.ended.wait(INTERVAL_S / 5):
                ended.update({worker: cpu_ms(worker) for worker in workers if psutil.pid_exists(worker)})
            wire = proxy.bytes - wire
            one.finish()
            entries = [json.loads(line) for line in raw.read_text().splitlines()]
            times = [entry for entry in entries if entry["k"] == "sample"]
    count = max(len(times) - WARM, 1)
    costs = [entry["cpu_s"] * 1000 for entry in entries if entry["k"] == "done" and "cpu_s" in entry][WARM:]
    late = [(entry["mono_ns"] - times[0]["mono_ns"]) / 1e9 - (entry["n"] - times[0]["n"]) * INTERVAL_S for entry in times]
    return {
        "cpu_ms": sum(ended[worker] - began[worker] for worker in workers) / count,
        "typical_ms": statistics.median(costs) if costs else float("nan"),
        "wire_bytes": wire / count,
        "late_s": max(late),
        "left_out": samples - len(times),
    }


def psutil_ms(pid: int, samples: int = 15) -> float:
    """CPU of one look by psutil at all processes with their threads, once a second as the kit tests."""
    code = (
        "import psutil, sys, time\n"
        "root = psutil.Process(int(sys.argv[1]))\n"
        "names = ['status', 'cpu_times', 'memory_info', 'io_counters', 'num_ctx_switches', 'num_fds', 'uids', 'threads']\n"
        "look = lambda: [one.as_dict(names) for one in (root, *root.children(recursive=True))]\n"
        "look(); took = 0\n"
        f"for _ in range({samples}):\n"
        "    time.sleep(1); begin = time.process_time(); look(); took += time.process_time() - begin\n"
        f"print(took / {samples} * 1000)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(pid)], capture_output=True, text=True, check=True)
    return float(ran.stdout)


def procpath_ms(program: str, pid: int, samples: int = 3) -> float:
    """CPU of one recording by Procpath of all threads, its start taken off."""
    took = []
    for count in (1, 1 + samples):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as folder:
            command = [program, "record", "-i", "1", "-r", str(count), "-d", f"{folder}/a.sqlite", "-f", "stat,cmdline,io,status"]
            command += ["--procfs-target", "thread", f"$..children[?(@.stat.pid == {pid})]"]
            subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return (took[1] - took[0]) / samples


def exactness(pids: list[int], rounds: int = 10, pause_s: float = 0.5) -> tuple[int, int, int]:
    """Full reads of all threads, again and again: how many threads had the schedstat of the read before, how many of those
    differed in any field, how many ran."""
    same = different = ran = 0
    before: dict[int, list] = {}
    for _ in range(rounds):
        now: dict[int, list] = {}
        for pid in pids:
            for tid in map(int, os.listdir(f"/proc/{pid}/task")):
                base = f"/proc/{pid}/task/{tid}/"
                schedstat = Path(base + "schedstat").read_bytes()
                row = thread_row(tid, base, schedstat)
                if schedstat == Path(base + "schedstat").read_bytes():
                    now[tid] = row
        for tid, row in now.items():
            if tid in before and all(one[1] == "S" and one[5] for one in (row, before[tid])):  # none was woken while it was read
                unchanged = before[tid][9:] == row[9:]
                same, ran = same + unchanged, ran + (not unchanged)
                different += unchanged and before[tid] != row
        before = now
        time.sleep(pause_s)
    return same, different, ran


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--procpath", default=shutil.which("procpath"), metavar="PROGRAM")
    chosen = parser.parse_args()
    with target() as pids, tempfile.TemporaryDirectory() as folder:
        threads = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
        fds = len(os.listdir(f"/proc/{pids[-1]}/fd"))
        print(f"{len(pids)} processes, {threads:,} threads, {fds} descriptors each", flush=True)
        others = {"psutil with threads": lambda: psutil_ms(pids[0])}
        if chosen.procpath:
            others["Procpath, threads"] = lambda: procpath_ms(chosen.procpath, pids[0])
        else:
            print("Procpath is not installed: its ratio is left out (see the head of this file)")
        costs = {name: measure() for name, measure in others.items()}
        server = Sshd(shutil.which("sshd") or "/usr/sbin/sshd", Path(folder) / "sshd").start()
        try:
            ours = sampled(server, pids[0], chosen.samples, python=True)
            awk = sampled(server, pids[0], min(chosen.samples, 30), python=False)
        finally:
            server.stop()
        costs = {name: min(costs[name], measure()) for name, measure in others.items()}
        same, different, ran = exactness(pids)
    return report(ours, awk, costs, (same, different, ran), chosen.samples)


def report(ours: dict, awk: dict, costs: dict[str, float], exact: tuple[int, int, int], samples: int) -> int:
    """Print the table; 1 where a bound is not held."""
    print(f"{'a sample':20}{'CPU ms':>8}{'typical':>9}{'wire bytes':>12}{'latest s':>10}{'left out':>10}")
    for name, one in (("kit, Python", ours), ("kit, awk", awk)):
        print(
            f"{name:20}{one['cpu_ms']:8.1f}{one['typical_ms']:9.1f}{one['wire_bytes']:12,.0f}{one['late_s']:10.3f}"
            f"{one['left_out']:10}"
        )
    for name, cost in costs.items():
        ratios = f"kit: 1/{cost / ours['cpu_ms']:.1f} of it, a typical sample 1/{cost / ours['typical_ms']:.1f}"
        print(f"{name:20}{cost:8.1f}{'':41}   {ratios}")
    print(f"exactness: {exact[0]:,} threads with the schedstat of the read before, {exact[1]} differ; {exact[2]:,} ran")
    bounds = {
        f"CPU at most {MOST_CPU_MS:g} ms": ours["cpu_ms"] <= MOST_CPU_MS,
        f"wire at most {MOST_WIRE_BYTES:g} bytes": ours["wire_bytes"] <= MOST_WIRE_BYTES,
        f"{samples} samples, none late by more than {MOST_LATE_S:g} s": ours["late_s"] <= MOST_LATE_S and not ours["left_out"],
        "typical sample at most a quarter of psutil": ours["typical_ms"] <= MOST_OF_PSUTIL * costs["psutil with threads"],
        "unchanged threads are as read in full": exact[1] == 0 and exact[0] > 0,
    }
    if "Procpath, threads" in costs:
        bounds["CPU at most a fiftieth of Procpath"] = ours["cpu_ms"] <= MOST_OF_PROCPATH * costs["Procpath, threads"]
    for name, held in bounds.items():
        print(f"{'held' if held else 'NOT HELD':9} {name}")
    return 0 if all(bounds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
