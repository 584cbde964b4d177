"""Both readers of strace on captures that are broken in every way: no exception, no hang, the same calls.

    .venv/bin/python benchmarks/strace_fuzz.py MINUTES [FOLDER ...]

The captures of tests/data/strace (and of further folders) are the seeds. An input that fails is kept in the working folder.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.frames import FRAMES
from kit.parse import strace_chunks, strace_table
from kit.parse.base import Report, Source
from kit.parse.strace import looks_like_strace, parse_strace
from kit.parse.strace_rows import is_relative
from kit.parse.text import LineReader
from kit.schema import rows_of

OWN = Path(__file__).resolve().parent.parent / "tests" / "data" / "strace"
MOST_SECONDS = 30
"""An input of a few dozen lines that takes longer hangs."""
TOKENS = (
    b'<unfinished ...>|<... read resumed>|) = ?|) = -1 EAGAIN (x)|"\\|"|(|)|<|>|/*|*/|strace: |[pid 7] |^C|\r|\0|\xff|'
    b"\x1b[31m| |,|=|9999999999"
).split(b"|")
SPAN = 40


def changed(rng: random.Random, line: bytes, other: bytes) -> bytes:
    """A line that was cut, spliced, doubled, or that something was written into."""
    place = rng.randrange(len(line) + 1)
    before, after = line[:place], line[place:]
    return rng.choice(
        (
            before,
            after,
            before + rng.choice(TOKENS) + after,
            before + bytes([rng.randrange(256)]) + after[1:],
            before + other[place:],
            line + line,
            other,
            before + b"\n" + after,
            before + after * rng.randrange(2, 9),
        )
    )


def broken(rng: random.Random, seeds: list[list[bytes]]) -> bytes:
    """Lines of one or two captures, with some of them changed."""
    lines = []
    for _ in range(rng.randrange(1, 3)):
        seed = rng.choice(seeds)
        begin = rng.randrange(max(1, len(seed) - SPAN // 2))
        lines += seed[begin : begin + rng.randrange(1, SPAN)]
    if rng.random() < 0.3:
        rng.shuffle(lines)
    for _ in range(rng.randrange(8)):
        at = rng.randrange(len(lines))
        lines[at] = changed(rng, lines[at], rng.choice(lines))
    return b"\n".join(lines) + rng.choice((b"\n", b""))


def read(path: Path, tables: bool) -> list:
    """Rows and accounts of a capture. What stands in a last line of NUL or broken bytes only is counted differently."""
    report, lines = Report(), LineReader(path)
    source = Source("a.strace", captured_ns=1_795_956_512 * 10**9)
    found = []
    for frame, item in strace_table.tables(lines, source, report) if tables else parse_strace(lines, source, report):
        for row in (item,) if isinstance(item, dict) else rows_of(item):
            row = {"capture": "a.strace"} | row
            FRAMES[frame].check({name: value for name, value in row.items() if value is not None})
            found.append((frame, sorted((name, value) for name, value in row.items() if value is not None)))
    lines.tell(report)
    facts = {name: value for name, value in report.facts.items() if name not in ("newlines", "ends_open")}
    reasons = {reason: count for reason, count in report.reasons.items() if "bytes" not in reason}
    return [sorted(found, key=lambda pair: pair[0]), report.records, reasons, facts]


def hangs(*_: object) -> None:
    """Take the alarm."""
    raise TimeoutError(f"took more than {MOST_SECONDS} s")


def main() -> None:
    """Break, read, compare, until the time is up."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("minutes", type=float)
    asked.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="more captures to begin from")
    given = asked.parse_args()
    seeds = [path.read_bytes().split(b"\n") for folder in (OWN, *given.folders) for path in sorted(folder.glob("*.strace*"))]
    end, inputs, number = time.monotonic() + 60 * given.minutes, 0, time.time_ns()
    strace_chunks.CHUNK_BYTES = 700
    for path in OWN.glob("*.strace"):
        read(path, tables=True)  # compiles
    signal.signal(signal.SIGALRM, hangs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.strace"
        while time.monotonic() < end:
            rng = random.Random(number + inputs)
            path.write_bytes(broken(rng, seeds))
            signal.alarm(MOST_SECONDS)
            tables = not is_relative(LineReader(path))  # such a capture has no compiled pass
            try:
                careful, fast = read(path, False), read(path, tables)
                looks_like_strace(path.read_text("utf-8", "replace"))
                if careful != fast:
                    raise AssertionError("the readers differ")
            except BaseException as error:
                Path(f"fuzz-{number + inputs}.strace").write_bytes(path.read_bytes())
                print(f"input {inputs}: {error!r}", flush=True)
                if isinstance(error, KeyboardInterrupt):
                    raise
            signal.alarm(0)
            inputs += 1
    print(f"{inputs:,} inputs in {given.minutes:g} minutes")


if __name__ == "__main__":
    main()
