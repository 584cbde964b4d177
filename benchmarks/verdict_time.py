"""Time of `kit verdict` against `python -c "import pandas"`, interleaved in one run. Prints a ratio for each folder.

.venv/bin/python benchmarks/verdict_time.py [--against TREE] [FOLDER ...]

`--against` names a checkout of another commit: its verdict is the other command then, and CPU is compared, which a busy machine
changes less than wall time.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 7
DATA = Path(__file__).resolve().parent.parent / "data"


def cost(command: list[str], tree: Path | None = None) -> tuple[float, float]:
    """Wall time and CPU time of a command, run in a tree."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=tree)  # -m and -c look for modules here first
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--against", type=Path, metavar="TREE")
    ask.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    args = ask.parse_args()
    folders = args.folders or sorted(path.parent for path in DATA.glob("*/run.json"))
    other = "other" if args.against else "pandas"
    what = "CPU" if args.against else "wall time"
    print(f"{'folder':24} {'verdict s':>10} {other + ' s':>10} {'ratio':>6}   (medians of {REPEATS}, interleaved, {what})")
    for folder in folders:
        verdict = [sys.executable, "-m", "kit", "verdict", str(folder.resolve())]
        theirs = verdict if args.against else [sys.executable, "-c", "import pandas"]
        pairs = [(cost(verdict, DATA.parent), cost(theirs, args.against)) for _ in range(REPEATS)]
        ours, others = (statistics.median(pair[side][bool(args.against)] for pair in pairs) for side in (0, 1))
        print(f"{folder.name:24} {ours:10.2f} {others:10.2f} {ours / others:6.2f}", flush=True)


if __name__ == "__main__":
    main()
