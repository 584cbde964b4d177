r"""Large logs: lines that repeat what was read before, with other numbers, are counted instead of read.

A launch with `NCCL_DEBUG=TRACE` prints millions of lines of a few hundred shapes. A line's shape is what is left of it
without digits and the letters a to f (ranks, addresses, counters). The first lines of each shape are read with care
(`kit.parse.log`); once it is certain that a shape moves nothing (no error, no bar, no state of the launch, no milestone
that is still wanted), its lines are only counted. Everything else is read as in a small log.

Exact are: all milestones up to `MARKS` of a code, bars, errors, restarts, tracebacks, the number of lines and records, the
number of records of each kind, server and code, the last lines, the time that lines without a stamp take over, and the
first and last stamp. Not kept are the texts of the lines that were counted.

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
from collections.abc import Generator
from itertools import chain
from pathlib import Path

from kit.parse.base import Report, Rows, Source
from kit.parse.log import HEAD_LINES, Reading
from kit.parse.log_shapes import LATEST, MOST_FREE, MOST_STARTS, Judge, Shape, fine_shape_of, shape_of
from kit.parse.records import ANSI
from kit.parse.text import LineReader
from kit.schema import Row

SKIPPED = "log_skipped"
"""Name under which counted lines are handed on: `records` come before the next row, `of` says of which kinds; at the end `kinds`,
`servers`, `codes` of all."""
FROM_BYTES = 4 << 20
"""Size from which a log is skimmed; the largest launch logs without NCCL's own lines have about 2 MB."""
BLOCK_BYTES = 1 << 16
"""Lines are looked at in blocks that fit a core's second-level cache: larger ones take a quarter more time."""
SETTLE_BLOCKS = 16
"""What was counted is handed on after so many blocks at the latest (1 MiB), so that it has a place and a time."""
TAIL_BYTES = 1 << 16
"""The end of a log is read with care in any case: it tells where the launch stands."""
MARKS = 400
"""Records of one milestone that are always read: what the digest of a log keeps."""
SIGHTINGS = 3
"""Lines of a shape that are read before it is judged: most shapes come once."""
MOST_SHAPES = 20_000
MOST_WRITERS = 100_000
"""Bounds of memory: beyond them what was learned is forgotten, and learned anew."""

_COLOUR = re.compile(ANSI.pattern.encode())


class _Skimmer:
    """State of one skimmed log."""

    def __init__(self, head: list[bytes], source: Source, report: Report, folders: tuple[Path, ...]):
        lines = [line.decode("utf-8", "replace") for block in head for line in block.split(b"\n")]
        self.reading = Reading(lines[:HEAD_LINES], source, report, folders)
        self.source, self.report = source, report
        self.matcher = self.reading.reader.matcher
        self.shapes: dict[str, dict[bytes, Shape | None]] = {}
        self.plain: dict[tuple[str, str], set[bytes]] = {}
        self.timed: dict[tuple[str, str], set[bytes]] = {}
        self.judge = Judge(self.matcher, source)
        self.latest: dict[tuple[bytes, bytes], tuple[int, bytes, Shape]] = {}
        self.free: dict[str, dict[bytes, tuple[bytes, list[bytes]]]] = {}
        self.sightings: Counter[tuple[str, bytes]] = Counter()
        self.codes: Counter[str] = Counter()
        self.totals: dict[str, Counter[str]] = {"kinds": Counter(), "servers": Counter(), "codes": Counter()}
        self.number = 0
        self.skipped = 0
        self.of: Counter[str] = Counter()
        self.stamped: tuple[int, bytes, Shape] | None = None
        self.peak: tuple[int, bytes, Shape] | None = None
        self.moved: tuple[int, bytes, Shape] | None = None

    # --- blocks ---

    @property
    def state(self) -> tuple[str, str, bool]:
        """What decides how a line is read, besides the line: stage of the launch, open tracebacks, an open block.

        An open traceback may go on in lines of its own writer, and in lines that name none. NCCL's lines name a process;
        no traceback comes with NCCL's prefix, but one may come with another that names a process and nothing else.
        """
        reader = self.reading.reader
        opened = "none"
        if reader.open:
            opened = "any" if any(key[::2] == (None, None) and key[1] is not None for key in reader.open) else "some"
        return reader.stage, opened, self.reading.inside

    def block(self, block: bytes, careful: bool) -> Rows:
        """Rows of a block of whole lines, without the last newline."""
        if careful and self.latest:
            yield from self.settle()
            for number, line, _ in sorted(self.latest.values(), key=lambda told: told[0]):
                yield from self.reading.line(number, line.decode("utf-8", "replace"))
            self.latest.clear()
        shapes = shape_of(block).split(b"\n")
        lines: list[bytes] = []
        begin = 0
        while begin < len(shapes):
            stage, opened, inside = self.state
            known = self.shapes.setdefault(stage, {})
            if len(known) >= MOST_SHAPES:
                self._forget(known)
            plain = set() if careful or inside else self.plain.setdefault((stage, opened), set())  # of "any" it stays empty
            counts = Counter(shapes[begin:] if begin else shapes)
            if not lines and counts.keys() <= plain and known[shapes[-1]].moving:
                self._count(known, counts, len(shapes) - begin)
                self.moved = self.number + len(shapes), block[block.rfind(b"\n") + 1 :], known[shapes[-1]]
                break
            lines = lines or block.split(b"\n")
            quick = set() if careful or inside else plain | self.timed.get((stage, opened), set())
            begin = yield from self._mixed(lines, shapes, begin, {} if careful or inside else known, quick)
        self.number += len(shapes)

    def _count(self, known: dict[bytes, Shape | None], counts: Counter[bytes], total: int) -> None:
        for shape, count in counts.items():
            known[shape].count += count
            self.of[known[shape].row["kind"]] += count
        self.skipped += total

    def _mixed(
        self, lines: list[bytes], shapes: list[bytes], begin: int, known: dict[bytes, Shape | None], quick: set[bytes]
    ) -> Generator[tuple[str, Row], None, int]:
        """Lines from `begin` to where the state changes; returns where that is."""
        state, before = self.state, begin
        for at in [at for at in range(begin, len(shapes)) if shapes[at] not in quick]:
            self._run(lines, shapes, before, at, known)
            before = at + 1
            line, name = lines[at], shapes[at]
            shape = known.get(name)
            if shape is None and known:
                name = self._finer(known, name, line, state[0])
                shape = known.get(name)
            if shape is not None and self._repeats(shape, line, self.number + at + 1):
                continue
            if not line or line.isspace():
                continue
            yield from self._careful(line, name, self.number + at + 1, state[0])
            if self.state != state:
                return before
        self._run(lines, shapes, before, len(shapes), known)
        return len(shapes)

    def _finer(self, known: dict[bytes, Shape | None], shape: bytes, line: bytes, stage: str) -> bytes:
        """Name of a line whose shape does not tell what it means: its finer shape, or its begin where what follows is free."""
        if shape in known:
            return fine_shape_of(line, shape)
        begin = next((begin for begin in self.free.get(stage, ()) if shape.startswith(begin)), None)
        if begin is None:
            return shape
        part, signs = self.free[stage][begin]
        rest = line.partition(part)[2]
        return shape if any(sign in rest for sign in signs) else b"\1" + begin

    def _run(self, lines: list[bytes], shapes: list[bytes], begin: int, end: int, known: dict[bytes, Shape | None]) -> None:
        """Count lines; of those that are progress the last is remembered, of those that begin with a stamp last and latest."""
        if begin == end:
            return
        counts = Counter(shapes[begin:end])
        self._count(known, counts, end - begin)
        moving = {shape for shape in counts if known[shape].moving}
        last = next((at for at in range(end - 1, begin - 1, -1) if shapes[at] in moving), None)
        if last is not None:
            self.moved = self.number + last + 1, lines[last], known[shapes[last]]
        timed = {shape for shape in counts if known[shape].timed}
        if timed:
            places = [at for at in range(begin, end) if shapes[at] in timed]
            self.stamped = self.number + places[-1] + 1, lines[places[-1]], known[shapes[places[-1]]]
            latest = max(places, key=lines.__getitem__)  # stamps of one form sort as text
            if self.peak is None or lines[latest] > self.peak[1]:
                self.peak = self.number + latest + 1, lines[latest], known[shapes[latest]]

    # --- lines ---

    def _repeats(self, shape: Shape, line: bytes, number: int) -> bool:
        """Whether a line of a judged shape can be counted; if so, it is."""
        opened = self.reading.reader.open
        if shape.head is not None and (shape.stamped or opened or not line.startswith(shape.head.starts)):
            found = shape.head.match(line)
            if found is None:
                return False
            groups = found.groups()
            writer = shape.head.writers.get(groups[::2])
            if writer is None or writer in opened:
                return False
            if shape.stamped:
                self.stamped = number, line, shape
                if groups[1::2] >= shape.head.latest:
                    shape.head.latest, shape.head.latest_line = groups[1::2], self.stamped
        elif opened and shape.head is None:
            return False  # those that may be counted beside a traceback are plain then
        if shape.about is not None:
            if len(self.latest) >= MOST_WRITERS:
                return False
            whose = _whose(line, shape.about)
            before, self.latest[whose] = self.latest.get(whose), (number, line, shape)
            if before is None:
                return True
        self._one(shape)
        if shape.moving:
            self.moved = number, line, shape
        return True

    def _one(self, shape: Shape) -> None:
        """Count a line."""
        shape.count += 1
        self.of[shape.row["kind"]] += 1
        self.skipped += 1

    def _careful(self, line: bytes, shape: bytes, number: int, stage: str) -> Rows:
        """Read a line as the parser does, after what was counted before it."""
        yield from self.settle()
        text = line.decode("utf-8", "replace")
        rows = list(self.reading.line(number, text))
        yield from rows
        only = rows[0][1] if len(rows) == 1 and rows[0][0] == "log" else None
        if only is None:
            return
        if only["milestone"]:
            self.codes[only["milestone"]] += 1
            if only["milestone"] in LATEST:
                before = self.latest.pop(_whose(line, LATEST[only["milestone"]]), None)
                if before is not None:
                    self._one(before[2])
        known = self.shapes[stage]
        if shape not in known:
            self._begins_free(line, only, stage)
            if len(self.sightings) >= MOST_SHAPES:
                self.sightings.clear()
            self.sightings[stage, shape] += 1
            if self.sightings[stage, shape] >= SIGHTINGS:
                self._judge(text, shape, only, stage)
        judged = known.get(shape)
        if judged is not None and judged.head is not None and (found := judged.head.match(line)) is not None:
            if len(judged.head.writers) >= MOST_WRITERS:
                judged.head.writers.clear()
            judged.head.starts = (found[0], *judged.head.starts[: MOST_STARTS - 1])
            judged.head.writers[found.groups()[::2]] = only["process"], only["pid"], only["rank_label"]

    def settle(self) -> Rows:
        """Hand on what was counted, then the lines of it that tell the time, and the last that is progress."""
        if not self.skipped:
            return
        tell = {told[0]: told for told in (self.stamped, self.peak) if told is not None}
        for head in self.judge.heads.values() if self.stamped else ():
            if head.latest_line is not None:
                tell.setdefault(head.latest_line[0], head.latest_line)
                head.latest_line = None
        moved = self.moved if self.moved is not None and self.moved[0] not in tell else None
        count = self.skipped - len(tell) - (moved is not None)
        of = self.of
        for _, _, shape in [*tell.values(), *([moved] if moved else [])]:
            of[shape.row["kind"]] -= 1
        self.skipped, self.of, self.stamped, self.peak, self.moved = 0, Counter(), None, None, None
        self.report.records += count
        yield SKIPPED, {"records": count, "of": dict(+of)}
        for number in sorted([*tell, *([moved[0]] if moved else [])]):
            for frame, row in (
                self.reading.line(number, tell[number][1].decode("utf-8", "replace"))
                if number in tell
                else (self._light(*moved),)
            ):
                self._total(row, -1)  # it is counted where it goes
                yield frame, row

    def _light(self, number: int, line: bytes, shape: Shape) -> tuple[str, Row]:
        """Row of a counted line: as the row of its shape, at its own place and time."""
        text = line.decode("utf-8", "replace").strip()
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
        yield from self.settle()
        yield from self.reading.close()
        for known in self.shapes.values():
            for shape in known.values():
                if shape is not None:
                    self._total(shape.row, shape.count)
        yield SKIPPED, {"records": 0, **self.totals}

    # --- judging shapes ---

    def _judge(self, line: str, shape: bytes, row: Row, stage: str) -> None:
        """Decide, once, whether the lines of a shape are counted; a milestone that is still wanted is judged later."""
        if row["milestone"] is not None and row["kind"] != "error" and self.codes[row["milestone"]] <= MARKS:
            return
        found = None if self.reading.inside else self.judge.harmless(line, row, stage, shape[:1] == b"\0")
        self.shapes[stage][shape] = found
        if (
            found is not None
            and found.about is None
            and not shape.startswith((b"\0", b"\1"))
            and (found.head is None or found.timed)
        ):
            for opened in ("none", "some") if found.named else ("none",):
                (self.timed if found.timed else self.plain).setdefault((stage, opened), set()).add(shape)

    def _begins_free(self, line: bytes, row: Row, stage: str) -> None:
        """Learn how lines begin that mean the same whatever follows."""
        free = self.free.setdefault(stage, {})
        if (
            row["kind"] != "request"
            or self.codes[row["milestone"] or ""] <= MARKS
            or len(free) >= MOST_FREE
            or self.reading.inside
        ):
            return
        found = self.judge.beginning(line, row, stage)
        if found is not None and found[0] not in free:
            begin, part, signs, shape = found
            self.shapes[stage][b"\1" + begin] = shape
            free[begin] = part, signs

    def _forget(self, known: dict[bytes, Shape | None]) -> None:
        for shape in known.values():
            if shape is not None:
                self._total(shape.row, shape.count)
        known.clear()
        self.plain.clear()
        self.timed.clear()
        self.judge.heads.clear()
        self.free.clear()


def _whose(line: bytes, about: bytes) -> tuple[bytes, bytes]:
    """Who wrote a line of `LATEST` (or more than that), and what it is about."""
    before, _, after = line.partition(about)
    return before[: before.find(b"NCCL")], after.partition(b" ")[0]


def skim(reader: LineReader, source: Source, report: Report, folders: tuple[Path, ...] = ()) -> Rows:
    """Read a large log in UTF-8; lines that repeat others with other numbers are counted.

    Parameters
    ----------
    reader : LineReader
        The log.
    source, report, folders
        As in `kit.parse.log.parse`; `report.facts` gets ``newlines`` and ``ends_open`` too.

    Yields
    ------
    tuple of (str, dict)
        ``log`` rows of the lines that were read, and ``log_skipped`` rows: `records` counted since the row before, the last
        one with `kinds`, `servers` and `codes` of all that were counted. A row with `skimmed` stands for a counted line.
    """
    blocks = reader.blocks(BLOCK_BYTES, reader.size - TAIL_BYTES)
    head, lines = [], 0
    for block, tail in blocks:
        head.append((block, tail))
        lines += block.count(b"\n") + 1
        if lines >= HEAD_LINES:
            break
    skimmer = _Skimmer([block for block, _ in head], source, report, folders)
    for number, (block, tail) in enumerate(chain(head, blocks), 1):
        yield from skimmer.block(_COLOUR.sub(b"", block) if b"\x1b" in block else block, tail)
        if number % SETTLE_BLOCKS == 0:
            yield from skimmer.settle()
    yield from skimmer.close()
    report.lines = skimmer.number
    reader.newlines = skimmer.number - reader.ends_open
    reader.tell(report)


__all__ = ["FROM_BYTES", "SKIPPED", "skim"]
