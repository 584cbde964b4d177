"""Fuzz the readers, the intake, the run opener and the verdict with damaged evidence: `python tools/fuzz.py --minutes N`.

Seeds are the texts under data/ and tests/data; each input is one that was cut, doubled, spliced with another format, or given
huge numbers and odd characters. It prints inputs tried, what failed (anything but an error of the kit's own, or a reader that
gave up), the slowest, and the peak of memory; the inputs that failed are kept in the folder of `--keep`.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import kit
from kit import parse
from kit.errors import KitError
from kit.frames import FRAMES
from kit.parse.base import Report, Source
from kit.reading import FAILED

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 60_000
ODD = (
    b"9" * 5000, b"\xc2\xb2", b"-1", b"1e999", b"NaN", b"[" * 3000, b"\\ud800", b"\xff\xfe", b"\0", b"\x1b[2J", b"\xe2\x80\xae",
    b"99999999999999999999",
    b"0" * 40, b" " * 3000, b"\r", b"\n" * 50, b"71% Completed |", b"9999-12-31 23:59:59", b'"', b"{", b"%",
)  # fmt: skip


def seeds() -> list[tuple[str, bytes]]:
    """Names and beginnings of the cases of our own."""
    files = sorted(path for folder in ("data", "tests/data") for path in (ROOT / folder).rglob("*") if path.is_file())
    return [(path.name, path.read_bytes()[:MOST_BYTES]) for path in files if path.suffix not in (".md", ".py", ".parquet")]


def damaged(chance: random.Random, given: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    """A seed after some changes."""
    name, data = chance.choice(given)
    for _ in range(chance.randint(1, 6)):
        at, size = chance.randrange(len(data) + 1), chance.choice((1, 8, 200, 5000))
        change = chance.randrange(6)
        if change == 0:
            data = data[:at] + chance.choice(ODD) + data[at:]
        elif change == 1:
            data = data[:at]
        elif change == 2:
            data = data[:at] + data[at + size :]
        elif change == 3:
            data = data[:at] + data[at : at + size] * chance.choice((2, 20)) + data[at:]
        elif change == 4:
            lines = chance.choice(given)[1].splitlines(True)
            data = data[:at] + b"".join(chance.sample(lines, min(len(lines), 5))) + data[at:]
        else:
            data = data[:at] + bytes(chance.randrange(256) for _ in range(min(size, 8))) + data[at + size :]
    return name, data[: 4 * MOST_BYTES]


def attempt(folder: Path) -> None:
    """Open a folder in every way; AssertionError where a reader gave up."""
    for kind in _kinds(folder):
        list(kind)
    run = kit.open_run(folder)
    judged = kit.verdict(folder)
    assert str(judged) and judged.to_markdown() and judged._repr_html_()
    for name in FRAMES:
        run.frame(name)
    gave_up = [reason for reason in run.notes["reason"] if reason.startswith(FAILED)]
    assert not gave_up, gave_up
    kit.benchmarks(folder)


def _kinds(folder: Path):
    """Rows of each file by the reader that its content chooses, and by the one that its name does."""
    for path in folder.iterdir():
        for kind in {*parse.recognise(path.name, parse.head_of(path))} - {None}:
            entry, lines = parse.formats()[kind], parse.LineReader(path)
            yield entry.parse(lines.content() if entry.binary else lines, Source(path.name, 1_771_000_000 * 10**9), Report())


def fuzz(seconds: float, most: int, seed: int, keep: Path | None = None) -> tuple[int, list[str], float]:
    """Try inputs; return how many, what failed, and the CPU time of the slowest."""
    chance, given = random.Random(seed), seeds()
    tried, failed, slowest, until = 0, [], 0.0, time.monotonic() + seconds
    while tried < most and time.monotonic() < until:
        tried += 1
        folder = Path(tempfile.mkdtemp(prefix="stallkit-fuzz-"))
        for _ in range(chance.choice((1, 1, 2))):
            name, data = damaged(chance, given)
            (folder / name).write_bytes(data)
        began = time.process_time()
        try:
            attempt(folder)
        except KitError:
            pass
        except Exception as error:
            where = [frame for frame in traceback.extract_tb(error.__traceback__) if "/kit/" in frame.filename][-1:]
            failed.append(f"{type(error).__name__}: {error}"[:200] + "".join(f" at {one.filename}:{one.lineno}" for one in where))
            if keep is not None:
                shutil.copytree(folder, keep / f"{seed}-{tried}", dirs_exist_ok=True)
        slowest = max(slowest, time.process_time() - began)
        shutil.rmtree(folder, ignore_errors=True)
    return tried, failed, slowest


def main() -> int:
    """The command."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--minutes", type=float, default=1.0)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--keep", type=Path)
    given = words.parse_args()
    tried, failed, slowest = fuzz(given.minutes * 60, sys.maxsize, given.seed, given.keep)
    for line, count in sorted({line: failed.count(line) for line in failed}.items()):
        print(f"{count:5} {line}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"inputs {tried}, failed {len(failed)}, slowest {slowest:.1f} s of CPU, peak memory {peak:.0f} MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
