r"""Large logs: lines that repeat what was read before, with other numbers, are counted instead of read.

A launch with `NCCL_DEBUG=TRACE` prints millions of lines of a few hundred shapes. A line's shape is what is left of it
without digits and the letters a to f (ranks, addresses, counters). The first lines of each shape are read with care
(`kit.parse.log`); once it is certain that a shape moves nothing (no error, no bar, no state of the launch, no milestone
that is still wanted), its lines are only counted. Everything else is read as in a small log.

Exact are: all milestones up to `MARKS` of a code, bars, errors, restarts, tracebacks, the number of lines and records, the
number of records of each kind, server and code, the last lines, the time that lines without a stamp take over, and the
earliest and the latest stamp. Not kept are the texts of the lines that were counted.

Examples
--------
>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "nccl.log"
>>> lines = [f"n1:70{i % 8}:812 [{i % 8}] NCCL INFO Ring {i % 16:02d} : {i} -> {i + 1}" for i in range(9000)]
>>> _ = path.write_text("\n".join(lines) + "\n")
>>> report, kept, counted = Report(), 0, 0
>>> for frame, row in skim(LineReader(path), Source("nccl.log"), report):
...     kept += frame == "log" and not row.get("skimmed")
...     counted += row["records"] if frame == SKIPPED else 0
>>> report.records, report.facts["newlines"], kept < 3000
(9000, 9000, True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from kit import compiled
from kit.parse import log_lines
from kit.parse.base import Report, Rows, Source
from kit.parse.log import HEAD_LINES, Reading
from kit.parse.log_shapes import LATEST, Judge, Name, Shape
from kit.parse.records import ANSI
from kit.parse.text import LineReader
from kit.schema import Row

SKIPPED = "log_skipped"
"""Name under which counted lines are handed on: `records` come before the next row, `of` says of which kinds; at the end `kinds`,
`servers`, `codes` of all."""
FROM_BYTES = 4 << 20
"""Size from which a log is skimmed; the largest launch logs without NCCL's own lines have about 2 MB."""
BLOCK_BYTES = 1 << 19
"""Lines are looked at in blocks that fit a core's second-level cache."""
SETTLE_BYTES, MOST_SETTLED = 1 << 20, 128
"""What was counted is handed on after so many bytes, so that it has a place and a time; of a large log so many times."""
TAIL_BYTES = 1 << 16
"""The end of a log is read with care in any case: it tells where the launch stands."""
MARKS = 400
"""Records of one milestone that are always read: what the digest of a log keeps."""
SIGHTINGS = 3
"""Lines of a shape that are read before it is judged: most shapes come once."""
MOST_KNOWN = 40_000
"""Bound of memory: beyond it what was learned is forgotten, and learned anew."""

_COLOUR = re.compile(ANSI.pattern.encode())


def _lines(fast: bool, number: int = 0) -> Any:
    """Lines with nothing known of their shapes."""
    if fast:
        from kit.parse import log_table

        return log_table.Lines(number)
    return log_lines.Lines(number)


def _bare(fast: bool) -> Callable[[bytes], bytes]:
    """What takes colours off whole lines."""
    if fast:
        from kit.intake import colours_compiled

        return colours_compiled.bare
    return lambda block: _COLOUR.sub(b"", block)


class _Skimmer:
    """State of one skimmed log."""

    def __init__(self, head: list[bytes], source: Source, report: Report, folders: tuple[Path, ...], fast: bool):
        lines = [line.decode("utf-8", "replace") for block in head for line in block.split(b"\n")]
        self.reading = Reading(lines[:HEAD_LINES], source, report, folders)
        self.report = report
        self.judge, self.outdated = Judge(self.reading.reader.matcher, source), False
        self.fast, self.lines = fast, _lines(fast)
        self.sightings: Counter[tuple[str, Name]] = Counter()
        self.codes: Counter[str] = Counter()
        self.totals: dict[str, Counter[str]] = {"kinds": Counter(), "servers": Counter(), "codes": Counter()}

    @property
    def any_open(self) -> bool:
        """Whether an open traceback may go on in lines that name no process.

        NCCL's lines name a process; no traceback comes with NCCL's prefix, but one may come with another that names a process
        and nothing else.
        """
        return any(key[::2] == (None, None) and key[1] is not None for key in self.reading.reader.tracebacks.open)

    def block(self, block: bytes, careful: bool) -> Rows:
        """Rows of a block of whole lines, without the last newline."""
        if careful or self.outdated or len(self.lines) >= MOST_KNOWN:
            yield from self._forget()
            self.outdated = False
        reader, lines = self.reading.reader, self.lines
        lines.begin(block)
        while True:
            stage, opened = reader.stage, None if careful or self.reading.inside else reader.tracebacks.open
            found = lines.next(stage, opened, bool(opened) and self.any_open)
            if found is None:
                break
            line, name = found
            yield from self._careful(line, name, stage)
        lines.end()

    def _careful(self, line: bytes, name: Name | None, stage: str) -> Rows:
        """Read a line as the parser does, after what was counted before it."""
        yield from self.settle()
        text = line.decode("utf-8", "replace")
        rows = list(self.reading.line(self.lines.number, text))
        yield from rows
        if self.judge.matcher is not self.reading.reader.matcher:  # another server has begun
            self.judge, self.outdated = Judge(self.reading.reader.matcher, self.judge.source), True
        only = rows[0][1] if len(rows) == 1 and rows[0][0] == "log" else None
        if only is None:
            return
        if only["milestone"]:
            self.codes[only["milestone"]] += 1
            if only["milestone"] in LATEST:
                self.lines.drop_latest(line, LATEST[only["milestone"]])
        if name is None:
            return
        if not self.lines.knows(stage, name):
            self._begins_free(line, only, stage)
            if len(self.sightings) >= MOST_KNOWN:
                self.sightings.clear()
            self.sightings[stage, name] += 1
            if self.sightings[stage, name] >= SIGHTINGS:
                self._judge(text, name, only, stage)
        self.lines.learn_writer(stage, name, line, (only["process"], only["pid"], only["rank_label"]))

    def settle(self) -> Rows:
        """Hand on what was counted, then the lines of it that tell the time, and the last that is progress."""
        count, of = self.lines.skipped, self.lines.kinds
        if not count:
            return
        timed, moved = self.lines.tell()
        tell = {told[0]: told for told in timed}
        if moved is not None and moved[0] in tell:
            moved = None
        for _, _, shape in [*tell.values(), *([moved] if moved else [])]:
            of[shape.row["kind"]] -= 1
            count -= 1
        self.report.records += count
        yield SKIPPED, {"records": count, "of": dict(+of), "attempt": self.reading.reader.attempt}
        for number, line, shape in sorted([*tell.values(), *([moved] if moved else [])], key=lambda told: told[0]):
            text = line.decode("utf-8", "replace")
            for frame, row in self.reading.line(number, text) if number in tell else (self._light(number, text, shape),):
                self._total(row, -1)  # it is counted where it goes
                yield frame, row

    def _light(self, number: int, line: str, shape: Shape) -> tuple[str, Row]:
        """Row of a counted line: as the row of its shape, at its own place and time."""
        text = line.strip()
        row = {**shape.row, "text": text, "raw": text, "line": number, "record": self.report.records, "skimmed": True}
        if row["time_source"] != "start":
            row["time"] = self.reading.reader.carried_ns
            row["time_source"] = "none" if row["time"] is None else "carried"
        self.report.records += 1
        return "log", row

    def _total(self, row: Row, count: int) -> None:
        for name, value in (("kinds", row["kind"]), ("servers", row["server"]), ("codes", row["milestone"])):
            if value is not None:
                self.totals[name][value] += count

    def close(self) -> Rows:
        """What was counted last, and the totals of all that was counted."""
        yield from self._forget()
        yield from self.reading.close()
        yield SKIPPED, {"records": 0, **self.totals, "attempt": self.reading.reader.attempt}

    def _forget(self) -> Rows:
        """Hand on all that was counted, and begin anew."""
        yield from self.settle()
        for number, line, _ in self.lines.latest_lines():
            yield from self.reading.line(number, line.decode("utf-8", "replace"))
        for shape, count in self.lines.counted():
            self._total(shape.row, count)
        number = self.lines.number
        self.lines = _lines(self.fast, number)

    # --- judging shapes ---

    def _judge(self, line: str, name: Name, row: Row, stage: str) -> None:
        """Decide, once, whether the lines of a shape are counted; a milestone that is still wanted is judged later."""
        if row["milestone"] is not None and row["kind"] != "error" and self.codes[row["milestone"]] <= MARKS:
            return
        found = None if self.reading.inside else self.judge.harmless(line, row, stage, name[0] == "fine")
        self.lines.learn(stage, name, found)

    def _begins_free(self, line: bytes, row: Row, stage: str) -> None:
        """Learn how lines begin that mean the same whatever follows."""
        if row["kind"] == "request" and self.codes[row["milestone"] or ""] > MARKS and not self.reading.inside:
            found = self.judge.beginning(line, row, stage)
            if found is not None:
                self.lines.learn_begin(stage, *found)


def skim(reader: LineReader, source: Source, report: Report, folders: tuple[Path, ...] = ()) -> Rows:
    """Read a large log in UTF-8; lines that repeat others with other numbers are counted.

    `source`, `report`, `folders`: as in `kit.parse.log.parse`; `report.facts` gets ``newlines`` and ``ends_open`` too. Yields
    ``log`` rows of the lines that were read, and ``log_skipped`` rows: `records` counted since the row before, the last one with
    `kinds`, `servers` and `codes` of all that were counted. A row with `skimmed` stands for a counted line.
    """
    fast = compiled.pays("log", reader.size)
    bare = _bare(fast)
    blocks = reader.blocks(BLOCK_BYTES, reader.size - TAIL_BYTES)
    head, lines = [], 0
    for block, tail in blocks:
        head.append((block, tail))
        lines += block.count(b"\n") + 1
        if lines >= HEAD_LINES:
            break
    skimmer = _Skimmer([block for block, _ in head], source, report, folders, fast)
    size, stretch = 0, max(SETTLE_BYTES, reader.size // MOST_SETTLED)
    for block, tail in chain(head, blocks):
        yield from skimmer.block(bare(block) if b"\x1b" in block else block, tail)
        size += len(block)
        if size >= stretch:
            yield from skimmer.settle()
            size = 0
    yield from skimmer.close()
    report.lines = skimmer.lines.number
    reader.newlines = skimmer.lines.number - reader.ends_open
    reader.tell(report)
