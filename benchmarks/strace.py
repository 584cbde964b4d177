"""Time and memory of reading a large capture of strace, beside a loop over its lines and other readers, in one run.

    .venv/bin/python benchmarks/strace.py [MEGABYTES] [--peers FOLDER] [--capture FILE]

Records `strace_workload.py` with strace and grows the capture to the size (237 by default), or takes FILE. Each reader runs in
a process of its own; times are those of the reading, without the start of the interpreter and its imports. Slow readers get
the first 20 MB. FOLDER holds other tools (`pip install --target FOLDER stracetools flametrace polars`); without it they are
left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SLOW_BYTES = 20_000_000
MEASURE = """
import json, os, sys, threading, time
def anon():
    with open("/proc/self/status") as file:
        return int(file.read().split("RssAnon:")[1].split()[0]) / 1024
path, most, done = sys.argv[1], [0.0], threading.Event()
def watch():
    while not done.wait(0.01):
        most[0] = max(most[0], anon())
{prepare}
before, watcher = anon(), threading.Thread(target=watch, daemon=True)
watcher.start()
wall, cpu = time.perf_counter(), sum(os.times()[:4])
calls = None
{read}
wall, cpu = time.perf_counter() - wall, sum(os.times()[:4]) - cpu
most[0] = max(most[0], anon())
done.set()
print(json.dumps(dict(wall=wall, cpu=cpu, anon=most[0], before=before, calls=calls)))
"""
"""Runs one reader; RssAnon is the memory that is not the mapped file."""
PATTERN = r"^(\d+)\s+(\d+\.\d+)\s+(\w+)\((.*)\)\s+= (\S+)(.*?)(?: <([\d.]+)>)?$"
NAMED = r"^(?P<pid>\d+)\s+(?P<time>\d+\.\d+)\s+(?P<call>\w+)\((?P<args>.*)\)\s+= (?P<result>.*)$"
"""Greedy, and without the duration: the form that such engines are quickest with."""
KIT = f"sys.path.insert(0, {str(HERE.parent)!r})\nfrom kit.parse.strace import read\n"
WARM = KIT + "read(sys.argv[3])"
CACHED = KIT + "import kit\nkit.open_run(path).frame('syscalls', ['pid'])\nrun = kit.open_run(path)"
LINES = "lines = open(path).read().split('\\n')\n"
NOT_TEXT = ["time", "pid", "duration_s", "fd", "line", "end_line"]
FOUR = ["time", "pid", "syscall", "duration_s"]
READERS: dict[str, tuple[bool, str, str]] = {
    "wc -l": (False, "import subprocess", "subprocess.run(['wc', '-l', path], stdout=subprocess.DEVNULL)"),
    "for line in f, bytes": (False, "", "for line in open(path, 'rb'): pass"),
    "this reader, no text columns": (False, WARM, f"calls = len(read(path, {NOT_TEXT}))"),
    "this reader, all columns joined": (False, WARM, "frame = read(path); calls = len(frame)"),
    "the same, all its texts made too": (False, WARM, "for name, found in read(path).items(): found.count()"),
    "first read of a process, with imports": (False, "", KIT + "calls = len(read(path))"),
    "from the cache, all columns": (False, CACHED, "calls = len(run.frame('syscalls'))"),
    "from the cache, four columns": (False, CACHED, f"calls = len(run.frame('syscalls', {FOUR}))"),
    "pyarrow, one pattern, no join": (
        True,
        "import pyarrow, pyarrow.compute",
        f"{LINES}pyarrow.compute.extract_regex(pyarrow.array(lines), {NAMED!r})",
    ),
    "polars, one pattern, no join": (
        True,
        "import polars",
        f"{LINES}polars.DataFrame({{'line': lines}}).select(polars.col('line').str.extract_groups({NAMED!r}))",
    ),
    "Python re, a line at a time, no join": (
        True,
        f"import re; pattern = re.compile({PATTERN!r}.encode())",
        "for line in open(path, 'rb'): pattern.match(line.rstrip())",
    ),
    "flametrace, its parser": (
        True,
        "from flametrace.core import StraceParser",
        "calls = sum(1 for _ in StraceParser().parse(open(path)))",
    ),
    "stracetools, its parser": (
        True,
        "import logging; logging.disable(); sys.path.insert(0, sys.argv[2] + '/stracetools'); from parser import StraceParser",
        "calls = len(StraceParser().parse_file(sys.argv[3]))",
    ),
    "this reader without numba": (
        True,
        KIT + "import kit.parse.strace; kit.parse.strace.TABLES_FROM_BYTES = 1 << 60",
        "calls = len(read(path))",
    ),
}
"""By name: whether it gets the first part of the capture only, what is done before the clock runs, what is measured."""


def record(path: Path, seconds: int) -> None:
    """Trace the workload."""
    command = [
        "strace",
        "-f",
        "-ttt",
        "-T",
        "-y",
        "-o",
        str(path),
        sys.executable,
        str(HERE / "strace_workload.py"),
        str(seconds),
    ]
    subprocess.run(command, check=True)


def grow(source: Path, target: Path, size: int) -> None:
    """Copy a capture until it has a size; the clock moves on with each copy."""
    import numpy as np

    clock = re.compile(rb"^\d+ +(\d{10})\.\d{6} ", re.MULTILINE)
    data = np.frombuffer(source.read_bytes(), np.uint8).copy()
    at = np.array([found.start(1) for found in clock.finditer(data.tobytes())])
    tens = 10 ** np.arange(9, -1, -1)
    stamps = at[:, None] + np.arange(10)
    seconds = (data[stamps] - ord("0")) @ tens
    span = int(seconds[-1] - seconds[0]) + 2
    with open(target, "wb") as file:
        while file.tell() < size:
            file.write(data)
            seconds += span
            data[stamps] = seconds[:, None] // tens % 10 + ord("0")


def beginning(source: Path, target: Path) -> None:
    """The first part of a capture, once more with times of day for tools that know no other."""
    data = source.read_bytes()[:SLOW_BYTES]
    target.write_bytes(data[: data.rindex(b"\n") + 1])
    of_day = re.sub(rb"(?m)^(\d+ +)\d{10}(\.\d{6} )", rb"\g<1>12:00:00\2", target.read_bytes())
    target.with_suffix(".of-day").write_bytes(of_day)


def measure(name: str, path: Path, small: Path, peers: str) -> dict | str:
    """Time and memory of a reader, or why it was left out."""
    slow, prepare, read = READERS[name]
    code = MEASURE.replace("{prepare}", prepare).replace("{read}", read)
    arguments = [str(small if slow else path), peers, str(small.with_suffix(".of-day"))]
    environment = {**os.environ, "PYTHONPATH": peers, "XDG_CACHE_HOME": str(small.parent / "cache")}
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        return f"left out: {(done.stderr.strip() or 'no word').splitlines()[-1]}"
    return json.loads(done.stdout) | {"mb": (small if slow else path).stat().st_size / 1e6}


def main() -> None:
    """Make the capture, measure, print."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("megabytes", nargs="?", type=float, default=237)
    asked.add_argument("--peers", default="", metavar="FOLDER", help="other tools")
    asked.add_argument("--capture", type=Path, help="use this capture")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, small = given.capture or Path(folder) / "big.strace", Path(folder) / "part.strace"
        if given.capture is None:
            record(Path(folder) / "base.strace", 15)
            grow(Path(folder) / "base.strace", path, int(given.megabytes * 1e6))
        beginning(path, small)
        print(f"{path.stat().st_size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"{'':40} {'MB':>5} {'wall s':>7} {'CPU s':>6} {'MB/s':>6} {'x wall':>6} {'x CPU':>6} {'RssAnon':>7} {'calls':>9}")
        loop: dict = {}
        for name in READERS:
            found = measure(name, path, small, given.peers)
            if isinstance(found, str):
                print(f"{name:40} {found}")
                continue
            loop = found if name.startswith("for line") else loop
            a_mb = {key: found[key] / found["mb"] / (loop[key] / loop["mb"]) if loop else float("nan") for key in ("wall", "cpu")}
            print(
                f"{name:40} {found['mb']:5.0f} {found['wall']:7.2f} {found['cpu']:6.2f} {found['mb'] / found['cpu']:6.0f} "
                f"{a_mb['wall']:6.1f} {a_mb['cpu']:6.1f} {found['anon']:7.0f} {found['calls'] or '':>9}",
                flush=True,
            )


if __name__ == "__main__":
    main()
