"""Time of `kit verdict` against `python -c "import pandas"`, interleaved in one run. Prints a ratio for each folder.

.venv/bin/python benchmarks/verdict_time.py [FOLDER ...]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 7
DATA = Path(__file__).resolve().parent.parent / "data"


def seconds(command: list[str]) -> float:
    """Wall time of a command."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    folders = [Path(name) for name in sys.argv[1:]] or sorted(path.parent for path in DATA.glob("*/run.json"))
    pandas = [sys.executable, "-c", "import pandas"]
    print(f"{'folder':24} {'verdict s':>10} {'pandas s':>10} {'ratio':>6}   (medians of {REPEATS}, interleaved)")
    for folder in folders:
        verdict = [sys.executable, "-m", "kit", "verdict", str(folder)]
        pairs = [(seconds(verdict), seconds(pandas)) for _ in range(REPEATS)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{folder.name:24} {ours:10.2f} {theirs:10.2f} {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()
