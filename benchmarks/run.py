"""All ratios of docs/performance.md that one machine can give, side by side in one run, with the limits of the machine.

    .venv/bin/python benchmarks/run.py [-o FILE] [--mb 64] [--repeats 5]

Each thing is run so many times, in turn with the others, so that a busy machine is busy for all. Figures are CPU seconds, which
it changes less than wall time; ratios are to the same number of megabytes read by `wc -l` and by Python's line loop. FILE is
written as hyperfine exports it (with CPU times): of two commits, `kit bench BEFORE.json --vs AFTER.json` says what changed.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import logs
import scale

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
COPY = "import sys; data = open(sys.argv[1], 'rb').read(); [bytearray(data) for _ in range(8)]"
READ = """import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
while os.read(file, 1 << 20): pass"""
LOOP = "import sys\nfor line in open(sys.argv[1], 'rb'): pass"
FRAME = "import sys, kit; kit.open_run(sys.argv[1]).frame(sys.argv[2])"


@dataclass(frozen=True)
class Measured:
    """One line of the table: the command, and the file that it reads."""

    name: str
    command: list[str]
    reads: Path
    cached: bool = False
    """Whether it finds what it left the last time."""


def things(folder: Path, mb: int) -> list[Measured]:
    """What is measured, on evidence that is made in a folder."""
    log, nccl = folder / "busy.log", folder / "nccl.log"
    log.write_text("\n".join(logs.busy(mb * 1_000_000)) + "\n", encoding="utf-8")
    logs.make(nccl, mb)
    recording, trace = folder / "recording", folder / "trace"
    scale.samples(recording, mb / 54)  # an hour of 2,000 threads takes 54 MB
    scale.strace(trace, mb * 1_000_000)
    raw, calls = recording / "raw" / "sampler.jsonl", trace / "raw" / "strace.txt"
    kit = [PYTHON, "-m", "kit"]
    return [
        Measured("limit: wc -l", ["wc", "-l", str(log)], log),
        Measured("limit: memory copy, 8 times", [PYTHON, "-c", COPY, str(log)], log),
        Measured("limit: disk read", [PYTHON, "-c", READ, str(log)], log),
        Measured("limit: Python's line loop", [PYTHON, "-c", LOOP, str(log)], log),
        Measured("start: import kit", [PYTHON, "-c", "import kit"], HERE / "run.py"),
        Measured("start: verdict of a bundled run", [*kit, "verdict", str(scale.RUN)], scale.RUN / "raw" / "server.log"),
        Measured("verdict of a busy server's log", [*kit, "verdict", str(log)], log),
        Measured("verdict of 64 ranks' NCCL log", [*kit, "verdict", str(nccl)], nccl),
        Measured("verdict of a long recording", [*kit, "verdict", str(recording)], raw),
        Measured("frames of a long recording", [PYTHON, "-c", FRAME, str(recording), "samples"], raw),
        Measured("its memory, from the cache", [PYTHON, "-c", FRAME, str(recording), "processes"], raw, cached=True),
        Measured("verdict of a trace of strace", [*kit, "verdict", str(trace)], calls),
    ]


def cpu_s(command: list[str], environment: dict[str, str]) -> float:
    """CPU of a command with all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(found: list[Measured], scratch: Path, repeats: int, progress: Callable[[str], None]) -> dict[str, list[float]]:
    """Times of each, taken in turn; one round before the first is not counted, as it compiles."""
    times: dict[str, list[float]] = {one.name: [] for one in found}
    for turn in range(repeats + 1):
        for one in found:
            progress(f"{turn}/{repeats} {one.name}")
            if not one.cached:
                shutil.rmtree(scratch / "cache", ignore_errors=True)
                shutil.rmtree(scratch / "recording" / "frames", ignore_errors=True)
            used = cpu_s(one.command, {"XDG_CACHE_HOME": str(scratch / "cache"), "NUMBA_CACHE_DIR": str(scratch / "numba")})
            times[one.name] += [used] * bool(turn)
    return times


def table(found: list[Measured], times: dict[str, list[float]]) -> str:
    """All ratios side by side."""
    per_mb = {one.name: statistics.median(times[one.name]) / one.reads.stat().st_size * 1e6 for one in found}
    wc, loop = per_mb["limit: wc -l"], per_mb["limit: Python's line loop"]
    lines = [f"{'':34} {'CPU':>9} {'MB':>7} {'ms/MB':>9} {'x wc -l':>9} {'x loop':>8}"]
    for one in found:
        size, each = one.reads.stat().st_size / 1e6, per_mb[one.name]
        own = f"{each * 1e3:9.1f} {each / max(wc, 1e-9):9.0f} {each / max(loop, 1e-9):8.1f}" if size > 1 else ""
        lines.append(f"{one.name:34} {statistics.median(times[one.name]):7.2f} s {size:7.1f} {own}".rstrip())
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
    parser.add_argument("--mb", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="stallkit-bench-") as folder:
        found = things(Path(folder), args.mb)
        tty = sys.stderr.isatty()
        times = measure(found, Path(folder), args.repeats, lambda text: tty and print(f"\r\x1b[K{text}", end="", file=sys.stderr))
        took_s = time.perf_counter() - began
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, medians of {args.repeats}, {took_s:.0f} s")
        print(table(found, times))
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(as_hyperfine(times), indent=1))
        print(f"{args.output}; after a change: kit bench {args.output} --vs AFTER.json")


if __name__ == "__main__":
    main()
