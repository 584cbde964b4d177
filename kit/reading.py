"""Reading captures, and keeping what was read: small ones in memory, the frames of large ones in the Parquet cache.

A capture is known by what it is (`kit.store.fingerprint`) and by how it is read, so that one that changed is read again, and
that it changed is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from kit import knowledge_paths, parse, store
from kit.frames import FRAMES
from kit.intake import Chain, Content
from kit.intake.content import as_text
from kit.multi_host import Place
from kit.parse import log_fast
from kit.parse.base import Source
from kit.parse.text import HEAD_BYTES
from kit.schema import Row, rows_of
from kit.untrusted import WRONG_FORM

FAILED = "the rest was not read, for its reader failed: report this with the file"
"""How a note begins on a file that its reader does not stand; the fuzz takes it for a failure."""
Pairs = Iterator[tuple[str, Row]]
"""Frame names with a row each."""


@dataclass
class Capture:
    """One raw file: what, from where, when, and whether it is whole."""

    file: str  # path relative to the run
    path: Path  # where it lies
    kind: str | None  # kind of parser, None where nothing recognises it
    promised: str | None = None  # kind that the file's name promised where its content is of another
    captured_ns: int | None = None  # when it was taken, UTC nanoseconds
    grew_ns: int | None = None  # when a log that was recorded got its last lines
    # `moment`, `pid`, `node`: number of the sample, process and node it is about
    moment: int | None = None
    pid: int | None = None
    node: int | None = None
    whole: bool = True  # false where the capture was cut
    deleted: bool = False  # true for a log that has no path any more: the process writes to it, and nobody can read it there
    # `source`, `note`, `sha256`: path or command it came from; remark; checksum taken at capture
    source: str | None = None
    note: str | None = None
    sha256: str | None = None
    host: str | None = None  # host it was taken from, in a run with several
    growing: bool = False  # it is being recorded right now: that it changes is no news
    # what is read of the file where that is not the file as it lies: a segment of a text, a member of an archive
    content: Content | Chain | None = None
    name: str | None = None  # name that a file with this content would bear, where that is not the file's own
    rank: int | None = None  # rank that wrote it, where its name says so
    stream: str | None = None  # service whose lines it holds, where those of several stood in one file
    compared: bool = False  # a log that stands in a text for comparison, by the words before it

    @property
    def id(self) -> str:
        """What it is known by in its run: its file, with line and kind where a file holds several."""
        kind = f" ({self.kind})" if self.kind else ""
        return self.file if self.content is None else f"{self.file}:{self.content.place(1)[1]}{kind}"

    @property
    def title(self) -> str:
        """Name without folders."""
        return self.name or self.file.rsplit("/", 1)[-1]

    def lines(self) -> parse.LineReader:
        """Its lines: the one place where the text of a capture is opened to be parsed."""
        return parse.LineReader(self.path if self.content is None else self.content)

    def head(self) -> str:
        """Its first 64 KiB."""
        if self.content is None:
            return parse.head_of(self.path)
        return as_text(self.content.head(HEAD_BYTES))

    @property
    def size_bytes(self) -> int:
        """Its size; 0 where the file is gone."""
        if self.content is not None:
            return self.content.size
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def newlines_of_file(self) -> int | None:
        """Newlines of the whole file that this is a part of; None where it is not cut out of one."""
        if self.content is None or isinstance(self.content, Chain) or len(self.content.parts) < 2:
            return None
        with self.content.text.data.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))

    @property
    def frames(self) -> tuple[str, ...]:
        """Frames that it may give rows of."""
        return parse.formats()[self.kind].frames if self.kind is not None else ()


@dataclass
class Kept:
    """Rows of a capture, and what the capture was when they were read."""

    key: str
    rows: list[tuple[str, Row]] | None
    """None: they lie in the Parquet cache."""


class Reading:
    """The captures of a run on their way to rows: `reports` and `reads` by file, `first` stamps of logs, files that `changed`."""

    def __init__(
        self,
        source: Callable[[Capture], Source],
        path: Path,
        recorded: bool,
        places: dict[str, Place],
        knowledge: tuple[Path, ...],
    ):
        self.source, self.path, self.recorded, self.places, self.knowledge = source, path, recorded, places, knowledge
        self.reports: dict[str, parse.Report] = {}
        self.reads: Counter[str] = Counter()
        self.first: dict[str, int | None] = {}
        self.changed: dict[str, None] = {}
        self._kept: dict[str, Kept] = {}
        self._held = 0
        self._seen: dict[str, str] = {}

    def key(self, capture: Capture) -> str:
        """What a capture is now, and how it is read. That it is not what it was when it was read is remembered."""
        settings = f"{self.source(capture)} {capture.kind} {capture.captured_ns} {self.places.get(capture.host or '')}"
        if capture.content is not None:
            settings += f" {capture.id} {capture.size_bytes}"
        if capture.kind == "log":
            settings += knowledge_paths.version(self.knowledge)
        key = store.cache_key(capture.path, settings)
        if self._seen.get(capture.id, key) != key and not capture.growing:
            self.changed[capture.id] = None
        return key

    def _read(
        self,
        capture: Capture,
        key: str,
        skim: bool = False,
        threads_from_ns: int | None = None,
        tables: bool = False,
        series: str = "all",
        edges_until_ns: int | None = None,
    ) -> Pairs:
        """Parse a capture. Only `rows` and `keep` call this: they ask first whether it was read before."""
        source, place = self.source(capture), self.places.get(capture.host or "")
        source.series = series
        if threads_from_ns is not None:
            source.threads_from_ns = threads_from_ns + (place.ahead_ns if place else 0)
        if series == "edges" and edges_until_ns is not None:
            source.edges_until_ns = edges_until_ns + (place.ahead_ns if place else 0)
        self._seen[capture.id] = key
        report, stamped = parse.Report(), capture.kind != "log"
        try:
            lines = capture.lines()
            skimmed = parse.skim(lines, source, self.knowledge) if skim and capture.kind == "log" else None
            fast = parse.tables(lines, capture.kind, source)
            report, rows = skimmed or fast or parse.read(lines, capture.kind, source, self.knowledge)
            if (fast or series == "changes") and not (tables and place is None):
                rows = _without_tables(rows)
            self.reports[capture.id] = report
            for frame, row in rows:
                if not isinstance(row, dict):
                    yield frame, row
                    continue
                if capture.content is not None:
                    _place(row, capture.content)
                    if capture.kind == "log":
                        row["log"] = capture.id
                if capture.moment is not None:
                    row.setdefault("moment", capture.moment)
                declared = FRAMES.get(frame)
                if declared is not None:
                    if self.recorded and declared.snapshot and row.get("time") is None:
                        row["time"] = capture.captured_ns
                    if "moment" in row and not declared.snapshot:
                        del row["moment"]
                if place is not None:
                    place.put(frame if declared is not None else "log", row)
                if not stamped and row.get("time_source") == "own" and row.get("time") is not None:
                    self.first[capture.id], stamped = row["time"], True
                yield frame, row
        except OSError as error:
            self.reports[capture.id] = report
            report.odd(f"could not be read to its end: {error.strerror}", "")
        except WRONG_FORM as error:  # a file that a reader fails on must not hide the others
            self.reports[capture.id] = report
            report.odd(f"{FAILED}: {type(error).__name__}: {error}"[:200], "")
        if not stamped:
            self.first[capture.id] = None
        if report.facts.get("cut") and report.facts.get("ends_open"):
            capture.whole = False
        self.reads[capture.id] += 1
        self.key(capture)

    def _skims(self, capture: Capture, skim: bool) -> bool:
        return skim and capture.kind == "log" and capture.size_bytes >= log_fast.FROM_BYTES

    def room(self, capture: Capture, skim: bool = False) -> int:
        """Rows of a capture that there is room for in memory."""
        if capture.size_bytes >= store.CACHE_FROM_BYTES and not self._skims(capture, skim):
            return 0
        return max(0, store.CHUNK_ROWS - self._held)

    def _hold(self, name: str, kept: Kept) -> Kept:
        before = self._kept.get(name)
        self._held += len(kept.rows or ()) - len(before.rows or () if before else ())
        self._kept[name] = kept
        return kept

    def rows(
        self,
        capture: Capture,
        skim: bool = False,
        threads_from_ns: int | None = None,
        tables: bool = False,
        edges_until_ns: int | None = None,
    ) -> Pairs:
        """Rows of a capture: those in memory, else as they are read; the few of a small capture or a skimmed log are kept.

        With `tables`, those of a large capture may come as Arrow tables; with `edges_until_ns`, those of a large recording's
        threads, descriptors and sockets are those of its first and last samples up to then.
        """
        name, key = f"{capture.id}{' skimmed' * self._skims(capture, skim)}", self.key(capture)
        kept = self._kept.get(name)
        if kept is not None and kept.rows is not None and kept.key == key:
            yield from kept.rows
            return
        partly = threads_from_ns is not None and "threads" in capture.frames
        room = 0 if partly else self.room(capture, skim)
        held: list[tuple[str, Row]] | None = [] if room else None
        series = "edges" if edges_until_ns is not None and capture.size_bytes >= store.CACHE_FROM_BYTES else "all"
        for pair in self._read(capture, key, skim, threads_from_ns, tables, series, edges_until_ns):
            if held is not None:
                held.append(pair)
                held = held if len(held) <= room else None
            yield pair
        if held is not None:
            self._hold(name, Kept(key, held))

    def condensed(self, capture: Capture) -> Iterator[Row]:
        """Rows of a log; records of a large one that only repeat others are one row a kind and stretch."""
        waiting: list[tuple[str, int]] = []
        place: Row = {"capture": capture.file, "record": -1}
        for frame, row in self.rows(capture, skim=True):
            if frame == log_fast.SKIPPED:
                waiting += row.get("of", {}).items()
            elif frame == "log":
                place = {name: row.get(name) for name in ("time", "line", "record", "capture")}
                yield from _repeats(waiting, place)
                waiting = []
                yield row
        yield from _repeats(waiting, place)

    def keep(self, capture: Capture) -> Kept | None:
        """Rows of all frames of a capture, in memory or in the Parquet cache; None where neither has room for them."""
        key = self.key(capture)
        kept, place = self._kept.get(capture.id), self.place_of(capture, key)
        if kept is not None and kept.key == key and (kept.rows is not None or _is_there(place)):
            return kept
        room, held = self.room(capture), None
        report = store.sound(place) if _is_there(place) else None
        if report is not None:
            self.reports.setdefault(capture.id, _report(report))
        else:
            rows = self._read(capture, key, tables=True, series="all" if room else "changes")
            held = list(islice(rows, room + 1)) if room else []
            if not room or len(held) > room:
                try:
                    store.save(place, chain(held, rows), lambda: vars(self.reports[capture.id]))
                except OSError:  # no room or no right to write: the cache is a convenience, the frame is not
                    return None
                held = None
        return self._hold(capture.id, Kept(key, held))

    def first_stamp(self, captures: Iterable[Capture]) -> int | None:
        """First stamp of the logs among some captures; one that was read already is not opened again."""
        logs = [capture for capture in captures if capture.kind == "log"]
        for capture in logs:
            if capture.id not in self.first:
                for _ in self.rows(capture, skim=True):
                    if capture.id in self.first and not self.room(capture):
                        break  # the rest of a log that is not kept is read when it is needed
        stamps = [self.first.get(capture.id) for capture in logs]
        return min((stamp for stamp in stamps if stamp is not None), default=None)

    def place_of(self, capture: Capture, key: str) -> Path:
        """Where the frames of a capture lie in the cache."""
        return store.place(store.cache_folder(self.path, self.recorded), capture.id, key)


def _without_tables(items: Iterable[tuple[str, Any]]) -> Pairs:
    """Rows in place of the tables."""
    for frame, item in items:
        yield from ((frame, item),) if isinstance(item, dict) else ((frame, row) for row in rows_of(item))


def _repeats(counts: list[tuple[str, int]], place: Row) -> Iterator[Row]:
    """Rows for counted records, by kind; they stand before the row at `place`, and take its time."""
    for kind, count in counts:
        text = f"{count:,} records that repeat others"
        yield {**place, "kind": kind, "records": count, "time_source": "carried", "text": text, "raw": text}


def _place(row: Row, content: Content | Chain) -> None:
    """Where a row stands in the original file."""
    if row.get("line") is not None:
        file, row["line"] = content.place(row["line"])
        row["capture"] = file if isinstance(content, Chain) else row["capture"]
    if row.get("end_line") is not None:
        row["end_line"] = content.place(row["end_line"])[1]


def _is_there(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a folder that may not be entered
        return False


def _report(about: dict) -> parse.Report:
    """The report of a capture as the cache has it."""
    found = parse.Report()
    for key, value in about.items():
        if isinstance(value, type(getattr(found, key, None))):
            setattr(found, key, value)
    return found
