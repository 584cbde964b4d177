"""All ratios of docs/performance.md that one machine can give, side by side in one run, with the limits of the machine.

    .venv/bin/python benchmarks/run.py [-o FILE] [--full] [--mb 16] [--repeats 3] [--only WORD ...]

Each thing is run so many times, in turn with the others, so that a busy machine is busy for all. Figures are CPU seconds, which
it changes less than wall time; ratios are to the same number of megabytes read by `wc -l` and by Python's line loop. FILE is
written as hyperfine exports it (with CPU times): of two commits, `kit bench BEFORE.json --vs AFTER.json` says what changed.
The quick size takes some five minutes, `--full` (256 MB, five repeats) an hour.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import collect
import logs
import pull
import reads
import scale

from kit.doctor import find_program

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
COPY = "import sys; data = open(sys.argv[1], 'rb').read(); [bytearray(data) for _ in range(8)]"
READ = """import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
while os.read(file, 1 << 20): pass"""
LOOP = "import sys\nfor line in open(sys.argv[1], 'rb'): pass"
FRAME = "import sys, kit; kit.open_run(sys.argv[1]).frame(sys.argv[2])"
CUT = """import sys
from pathlib import Path
from kit import parse
from kit.intake import segments
for one in segments(Path(sys.argv[1]), lambda name, head: parse.recognise(name, head)[0]): pass"""
CALLS = "import sys; from kit.parse.strace import read; read(sys.argv[1], sys.argv[2].split(',') if sys.argv[2:] else None)"
MATCH = """import re, sys
pattern = re.compile(rb"^(\\d+)\\s+(\\d+\\.\\d+)\\s+(\\w+)\\((.*)\\)\\s+= (\\S+)(.*?)(?: <([\\d.]+)>)?$")
for line in open(sys.argv[1], "rb"): pattern.match(line.rstrip())"""
SAMPLES = 10
QUICK, FULL = (16, 3), (256, 5)
"""Megabytes and repeats."""


@dataclass(frozen=True)
class Measured:
    """One line of the table: what is run, and the file that it reads."""

    name: str
    run: list[str] | Callable[[], float | None]
    """A command; or a function, whose own CPU and that of what it starts counts, where it gives no seconds."""
    reads: Path | None = None
    cached: bool = False
    """Whether it finds what it left the last time."""


def things(folder: Path, mb: int) -> list[Measured]:
    """What is measured without another host, on evidence that is made in a folder."""
    files = {form: folder / f"{form}.log" for form in ("busy", "docker", "json", "nccl")}
    for form, path in files.items():
        logs.write(path, form, mb)
    busy, packed = files["busy"], folder / "packed.log.gz"
    packed.write_bytes(gzip.compress(busy.read_bytes(), 6))
    recording, trace, empty = folder / "recording", folder / "trace", folder / "empty.ipynb"
    scale.samples(recording, mb / 54)  # an hour of 2,000 threads takes 54 MB
    scale.strace(trace, mb * 1_000_000)
    cell = {"cell_type": "code", "id": "a", "source": "pass", "metadata": {}, "outputs": [], "execution_count": None}
    empty.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    raw, calls, bundled = recording / "raw" / "sampler.jsonl", trace / "raw" / "strace.txt", scale.RUN / "raw" / "server.log"
    kit, page = [PYTHON, "-m", "kit"], str(folder / "report.html")
    return [
        Measured("limit: wc -l", ["wc", "-l", str(busy)], busy),
        Measured("limit: memory copy, 8 times", [PYTHON, "-c", COPY, str(busy)], busy),
        Measured("limit: disk read", [PYTHON, "-c", READ, str(busy)], busy),
        Measured("limit: Python's line loop", [PYTHON, "-c", LOOP, str(busy)], busy),
        Measured("start: import kit", [PYTHON, "-c", "import kit"]),
        Measured("start: verdict of a bundled run", [*kit, "verdict", str(scale.RUN)], bundled),
        Measured("post-mortem: report of it", [*kit, "report", str(scale.RUN), "-o", page], bundled),
        Measured("post-mortem: an empty notebook", [PYTHON, "-c", reads.EMPTY, str(empty)]),
        Measured("intake: a log", [PYTHON, "-c", CUT, str(busy)], busy),
        Measured("intake: under docker logs -t", [PYTHON, "-c", CUT, str(files["docker"])], files["docker"]),
        Measured("intake: gzip", [PYTHON, "-c", CUT, str(packed)], busy),
        Measured("log: verdict, a busy server", [*kit, "verdict", str(busy)], busy),
        Measured("log: verdict, docker logs -t", [*kit, "verdict", str(files["docker"])], files["docker"]),
        Measured("log: verdict, JSON lines", [*kit, "verdict", str(files["json"])], files["json"]),
        Measured("log: verdict, NCCL of 64 ranks", [*kit, "verdict", str(files["nccl"])], files["nccl"]),
        Measured("strace: all columns", [PYTHON, "-c", CALLS, str(calls)], calls),
        Measured("strace: four columns", [PYTHON, "-c", CALLS, str(calls), "time,pid,syscall,duration_s"], calls),
        Measured("strace: Python re, no join", [PYTHON, "-c", MATCH, str(calls)], calls),
        Measured("strace: verdict", [*kit, "verdict", str(trace)], calls),
        Measured("strace: report", [*kit, "report", str(trace), "-o", page], calls),
        Measured("recording: verdict", [*kit, "verdict", str(recording)], raw),
        Measured("recording: frames", [PYTHON, "-c", FRAME, str(recording), "samples"], raw),
        Measured("recording: memory, from the cache", [PYTHON, "-c", FRAME, str(recording), "processes"], raw, cached=True),
        Measured("recording: report", [*kit, "report", str(recording), "-o", page], raw),
    ]


def over_ssh(folder: Path, mb: int, stack: ExitStack) -> list[Measured]:
    """What is measured over a private sshd on the loopback; nothing where there is none."""
    program = find_program("sshd")
    if program is None:
        return []
    log = folder / "pulled.log"
    pull.write_log(log, mb)
    server = collect.Sshd(program, folder / "sshd").start()
    stack.callback(server.stop)
    pids = stack.enter_context(collect.target())
    ways = pull.ways(server, server.port, log, folder)
    return [
        *(Measured(f"pull: {name}", way, log) for name, way in ways.items()),
        Measured("collect: a sample by the kit", lambda: collect.sampled(server, pids[0], SAMPLES, True)["cpu_ms"] / 1000),
        Measured("collect: a look by psutil", lambda: collect.psutil_ms(pids[0], 3) / 1000),
    ]


def used_s() -> float:
    """CPU of this process and of all that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def cpu_s(run: list[str] | Callable[[], float | None], environment: dict[str, str]) -> float:
    """CPU of a command with all that it starts, or what a function says."""
    before = used_s()
    if not callable(run):
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
        return used_s() - before
    told = run()
    return used_s() - before if told is None else told


def measure(
    found: list[Measured], scratch: Path, repeats: int, progress: Callable[[str], None]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """CPU times of each, taken in turn, and its shortest wall time; one round before the first is not counted, as it compiles."""
    times: dict[str, list[float]] = {one.name: [] for one in found}
    walls = {one.name: float("inf") for one in found}
    for turn in range(repeats + 1):
        for one in found:
            progress(f"{turn}/{repeats} {one.name}")
            if not one.cached:
                shutil.rmtree(scratch / "cache", ignore_errors=True)
                for folder in scratch.glob("*/frames"):
                    shutil.rmtree(folder, ignore_errors=True)
            began, environment = time.perf_counter(), {"XDG_CACHE_HOME": str(scratch / "cache"), "MPLBACKEND": "agg"}
            kept = {"NUMBA_CACHE_DIR": str(scratch / "numba"), "MPLCONFIGDIR": str(scratch / "matplotlib")}
            used = cpu_s(one.run, {**environment, **kept})
            walls[one.name] = min(walls[one.name], time.perf_counter() - began)
            times[one.name] += [used] * bool(turn)
    return times, walls


def table(found: list[Measured], times: dict[str, list[float]], walls: dict[str, float]) -> str:
    """All ratios side by side."""
    size = {one.name: one.reads.stat().st_size / 1e6 for one in found if one.reads is not None}
    per_mb = {name: statistics.median(times[name]) / mb for name, mb in size.items() if mb > 1}
    wc, loop = (per_mb.get(name) for name in ("limit: wc -l", "limit: Python's line loop"))
    lines = [f"{'':34} {'CPU':>10} {'wall':>9} {'MB':>7} {'ms/MB':>9} {'x wc -l':>9} {'x loop':>8}"]
    for one in found:
        each = per_mb.get(one.name)
        own = "" if each is None else f"{size[one.name]:7.1f} {each * 1e3:9.2f}"
        own += "" if not (each and wc and loop) else f" {each / wc:9.0f} {each / loop:8.1f}"
        lines.append(f"{one.name:34} {statistics.median(times[one.name]):8.3f} s {walls[one.name]:7.2f} s {own}".rstrip())
    return "\n".join(lines)


def as_hyperfine(times: dict[str, list[float]]) -> dict:
    """The times as hyperfine exports them."""
    results = [
        {
            "command": name,
            "mean": statistics.mean(own),
            "stddev": statistics.stdev(own) if len(own) > 1 else None,
            "median": statistics.median(own),
            "user": statistics.mean(own),
            "system": 0.0,
            "min": min(own),
            "max": max(own),
            "times": own,
            "exit_codes": [0] * len(own),
        }
        for name, own in times.items()
    ]
    return {"results": results}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--full", action="store_true", help=f"{FULL[0]} MB, {FULL[1]} repeats")
    parser.add_argument("--mb", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="things whose name begins so; limits always")
    args = parser.parse_args()
    mb, repeats = FULL if args.full else QUICK
    mb, repeats, began = args.mb or mb, args.repeats or repeats, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="stallkit-bench-") as folder, ExitStack() as stack:
        found = things(Path(folder), mb) + over_ssh(Path(folder), mb, stack)
        wanted = ("limit", *(args.only or [one.name for one in found]))
        found = [one for one in found if one.name.startswith(wanted)]
        tty = sys.stderr.isatty()
        times, walls = measure(
            found, Path(folder), repeats, lambda text: tty and print(f"\r\x1b[K{text}", end="", file=sys.stderr)
        )
        took_s = time.perf_counter() - began
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, medians of {repeats}, {took_s:.0f} s")
        print(table(found, times, walls))
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(as_hyperfine(times), indent=1))
        print(f"{args.output}; after a change: kit bench {args.output} --vs AFTER.json")


if __name__ == "__main__":
    main()
