"""A run: the evidence of one launch. Its captures are read when something of them is asked for, and what was read is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kit import call_history, inventory, moment, progress, store
from kit import multi_host as hosts
from kit import thread_history as threads
from kit.as_of import Cursor
from kit.clock import LATEST_NS, NS, parse_time, show_time
from kit.document import Document, Item, Section, Shown, Table
from kit.errors import UsageError
from kit.frames import FRAMES
from kit.intake import Note
from kit.parse.base import Source
from kit.reading import Capture, Reading
from kit.schema import PANDAS_DTYPE, Frame, Row

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class Run(Shown):
    """The evidence of one launch. Make it with `kit.open_run`.

    Attributes
    ----------
    path : pathlib.Path
        Folder or file that was opened.
    name : str
        Its name.
    captures : list of Capture
        Raw files, ordered by name.
    missing : list of dict
        What the recording lacks: `what`, `why`, `do`.
    captured_ns : int or None
        Moment that the evidence speaks of: as asked, else of the manifest, else of the newest file.
    captured_by : str
        Where that moment comes from: `given`, `manifest`, `stamp in FILE`, `file times, which agree with the log's last stamp`,
        or `file time`, which proves nothing.
    offset_s : int
        UTC offset of the host's local time; `offset_known` tells whether it is more than an assumption.
    reports : dict of str to kit.parse.Report
        What each parser read and did not understand, once the file was read; by `Capture.id`.
    notes_taken : tuple of kit.intake.Note
        What was not read at all: no evidence, not recognised, packed too deep.
    doubts : list of dict
        Rows of the frame `notes` about facts that a verdict left out, as they cannot be; empty before there was one.
    reads : collections.Counter
        How often each capture was read to its end. Once or twice: small captures are kept in memory, the frames of large ones
        in the Parquet cache; a verdict reads a large one for itself, in bounded memory.
    knowledge : tuple of pathlib.Path
        Folders of the user's knowledge, see `kit.knowledge_paths`.
    """

    def __init__(
        self,
        path: Path,
        captures: list[Capture],
        manifest: dict | None,
        captured_at: str | None,
        knowledge: tuple[Path, ...] = (),
        notes: tuple[Note, ...] = (),
    ):
        self.path = path
        self.notes_taken = notes
        self.knowledge = knowledge
        self.name = (manifest or {}).get("name") or path.resolve().name
        self.captures = captures
        self.manifest = manifest or {}
        self.recorded = manifest is not None
        self.missing: list[dict] = list(self.manifest.get("missing") or [])
        self.as_of_ns: int | None = None
        self.cursor: Cursor | None = None
        self.doubts: list[Row] = []
        self._derived: dict[Callable, Any] = {}
        self._derived_of: dict[str, str] = {}
        self._places = hosts.places(self.manifest)
        self.offset_s = int(self.manifest.get("utc_offset_s") or 0)
        self.offset_known = "utc_offset_s" in self.manifest
        if not self.offset_known and (offset_s := moment.zone_of_stamps(captures)) is not None:
            self.offset_s, self.offset_known = offset_s, True
        self._near_ns: int | None = None
        self.captured_ns, self.captured_by = self._captured(captured_at)
        self._reading = Reading(self.source, path, self.recorded, self._places, knowledge)
        self.reports, self.reads = self._reading.reports, self._reading.reads

    def as_of(self, at: str) -> Run:
        """The run as it was known at a moment: facts, frames, tables and figures leave later rows out.

        Raises
        ------
        UsageError
            Where the launch had not begun, or the evidence ends before.
        """
        ns, _ = parse_time(at, self.offset_s)
        began, ended = self.launch_zero_ns, self.captured_ns
        for known, beyond, why in (
            (began, began is not None and ns < began, "the launch began at"),
            (ended, ended is not None and ns > ended, "the evidence ends at"),
        ):
            if beyond:
                moment = show_time(known, self.offset_s)
                raise UsageError(
                    f"nothing is known of {at}", f"{why} {moment}", "give a moment of the launch, local time of its host"
                )
        earlier = copy(self)
        earlier.captured_ns, earlier.captured_by, earlier.as_of_ns = ns, "asked with --at", ns
        earlier._derived, earlier.doubts = {}, []
        earlier.cursor = Cursor(ns, earlier.known_from())
        launch = dict(self.manifest.get("launch") or {})
        ended_at = launch.get("ended_at")
        if ended_at and parse_time(ended_at)[0] > ns:
            launch = {key: value for key, value in launch.items() if key not in ("ended_at", "exit_code", "exit_signal")}
        later = ("judged_from", "ledger", "solved")
        earlier.manifest = {key: value for key, value in self.manifest.items() if key not in later} | {"launch": launch}
        return earlier

    def is_later(self, capture: Capture) -> bool:
        """Whether a capture of one moment was taken after the moment that the run is looked at."""
        taken = capture.captured_ns if capture.moment is not None else None
        return self.as_of_ns is not None and taken is not None and taken > self.as_of_ns

    def known_from(self) -> dict[str, int | None]:
        """When rows without a time were known, by capture: a log's at its first stamp, others' when they were captured."""
        return {
            capture.file: (self._reading.first_stamp([capture]) if capture.kind == "log" else None)
            or self._reading.source(capture).captured_ns
            for capture in self.captures
            if capture.kind is not None
        }

    def _captured(self, captured_at: str | None) -> tuple[int | None, str]:
        if captured_at is not None:
            ns, offset_s = parse_time(captured_at, self.offset_s)
            if offset_s is not None:
                self.offset_s, self.offset_known = offset_s, True
            return ns, "given"
        if self.manifest.get("ended_at"):
            return parse_time(self.manifest["ended_at"])[0], "manifest"
        found = moment.of(self.captures, self.offset_s, self.offset_known)
        self._near_ns = found.near_ns
        if found.offset_s is not None:
            self.offset_s, self.offset_known = found.offset_s, True
        return found.captured_ns, found.by

    @property
    def captured_known(self) -> bool:
        """Whether the moment of the capture is known: the time of a file may be that of its copy, months later."""
        return self.captured_by != moment.FILE_TIME

    def source(self, capture: Capture) -> Source:
        """What the parser of a capture is told."""
        captured = capture.captured_ns if self.recorded else self.captured_ns
        place = self._places.get(capture.host or "")
        own = (self.offset_s, capture.node, (self.manifest.get("clock") or {}).get("boot_ns"))
        offset_s, node, boot_ns = (place.utc_offset_s, place.number, place.boot_ns) if place else own
        near_ns = self._near_ns
        return Source(capture.file, captured, offset_s, capture.moment, capture.pid, node, capture.rank, boot_ns, near_ns=near_ns)

    def scan(self, consumers: dict[str, Callable[[Row], None]], threads_from_ns: int | None = None, edges: bool = False) -> None:
        """Read every capture once and hand each row to the consumer of its frame: the way in bounded memory.

        Parameters
        ----------
        consumers : dict of str to callable
            By frame name; they must not change the rows. A capture that can give none of these frames is not read; one that
            cannot be read is reported, never raised.
            Where `log_skipped` has a consumer too, lines of large logs that only repeat others are counted for it instead
            of being made rows (`kit.parse.log_fast`). Where `syscall_tables` has one, it is handed the calls of large captures as
            Arrow tables (`kit.parse.strace_table`).
        threads_from_ns : int, optional
            The sampler's rows of threads from before this are not wanted.
        edges : bool
            Of long recordings, the threads, descriptors and sockets of the first and last samples alone are wanted.
        """
        if self.cursor is not None:  # lines are not skimmed then, as that loses their times
            self.cursor.later = 0
            consumers = {name: self.cursor.filtered(take) for name, take in consumers.items() if name != "log_skipped"}
        until = (self.as_of_ns or LATEST_NS) if edges else None
        tables, skim = consumers.get("syscall_tables"), "log_skipped" in consumers
        wanted = [capture for capture in self.captures if not consumers.keys().isdisjoint(capture.frames)]
        progress.expect(sum(capture.size_bytes for capture in wanted if not self.reads[capture.id]))
        for capture in wanted:
            for frame, row in self._reading.rows(capture, skim, threads_from_ns, tables is not None, until):
                if tables is not None and not isinstance(row, dict):
                    tables(row)
                    continue
                if frame == "threads" and threads_from_ns is not None and _is_old_sample(row, threads_from_ns):
                    continue  # rows that were kept hold all
                consume = consumers.get(frame)
                if consume is not None:
                    consume(row)
        for name, rows in (("gaps", self.gap_rows), ("notes", self.note_rows)):
            for row in rows() if name in consumers else ():
                consumers[name](row)

    def rows(self, frame: str) -> list[Row]:
        """All rows of one frame, as plain dicts with times in nanoseconds."""
        inventory.declared(frame)
        rows: list[Row] = []
        self.scan({frame: lambda row: rows.append(dict(row))})
        return rows

    def gap_rows(self) -> Iterator[Row]:
        """Stretches without samples, as the manifest notes them."""
        for gap in self.manifest.get("gaps") or ():
            begin, end = (parse_time(gap[key])[0] for key in ("from", "to"))
            if self.as_of_ns is not None and begin > self.as_of_ns:
                continue
            row = {"time": begin, "end": end, "duration_s": (end - begin) / NS, "why": gap["why"], "capture": "run.json"}
            if gap.get("host") in self._places:
                row["capture"] = f"{gap['host']}/run.json"
                self._places[gap["host"]].put("gaps", row)
            yield row

    def note_rows(self) -> Iterator[Row]:
        """What the parsers did not understand."""
        for capture in self.captures:
            if capture.kind is not None and capture.id not in self.reports:
                self._reading.keep(capture)
        for note in self.notes_taken:
            yield {"reason": note.reason, "count": note.lines, "text": note.sample, "capture": note.file, "line": note.line}
        for capture in self.captures:
            if capture.kind is None and capture.size_bytes:
                yield {"reason": "the file was not recognised", "capture": capture.file}
            report = self.reports.get(capture.id)
            for reason, count in report.reasons.items() if report else ():
                sample = next(iter(report.samples[reason]), None)
                yield {"reason": reason, "count": count, "text": sample, "capture": capture.file, "line": None}
        yield from self.doubts

    def derived(self, make: Callable[[Run], T]) -> T:
        """What an analysis makes of the run: made once, and kept until a capture changes.

        Examples
        --------
        >>> import kit
        >>> run = kit.open_run(kit.sample_path("sg02-one-snapshot"))
        >>> run.derived(lambda run: len(run.rows("gpus")))
        8
        """
        state = {capture.id: self._reading.key(capture) for capture in self.captures if capture.kind is not None}
        if state != self._derived_of:
            self._derived, self._derived_of = {}, state
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]

    def frame(
        self, name: str, columns: list[str] | None = None, window: tuple[float | None, float | None] | None = None
    ) -> pandas.DataFrame:
        """One frame of the run. Only captures that can give it are read, and all their frames are kept.

        Parameters
        ----------
        name : str
            Name of a frame (`kit.frames.FRAMES`, docs/columns.md). `run.gpus` is `run.frame("gpus")`.
        columns : list of str, optional
            Load these columns only.
        window : (float, float), optional
            Rows from the first to before the second, in seconds since launch zero; None is open.

        Returns
        -------
        pandas.DataFrame
            With all declared columns; empty where the run holds no such evidence.

        Raises
        ------
        UsageError
            Where there is no such frame, or where it would take more memory than `kit.budget.memory_budget()`.

        Examples
        --------
        >>> import kit
        >>> kit.open_run(kit.sample_path("sg01-capture-hang")).frame("gpus")["util_percent"].max().item()
        100.0
        """
        import pandas as pd

        declared = inventory.declared(name)
        wanted = list(columns if columns is not None else declared.by_name)
        read = [*wanted, "time"] if ("t_s" in wanted or window) and "time" not in wanted else wanted
        parts = [part for part in self._parts(declared, read, self._window_ns(window)) if len(part)]
        frame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0] if parts else declared.empty()
        frame = self._timed(frame) if "t_s" in wanted else frame
        return frame if list(frame.columns) == wanted else frame[wanted]

    def condensed_log(self) -> pandas.DataFrame:
        """The frame `log`; records of large logs that repeat others with other numbers are counted, not listed.

        Returns
        -------
        pandas.DataFrame
            Columns of the frame `log`. A row with a number in `records` stands for so many records of its `kind` before its
            `line`. A log of 200 MB takes seconds and some thousand rows, `frame("log")` minutes and a row a record.
        """
        import pandas as pd

        if self.cursor is not None:  # what was counted instead of read has no times
            return self.frame("log")
        rows = (row for capture in self.captures if "log" in capture.frames for row in self._reading.condensed(capture))
        parts = [FRAMES["log"].build(chunk) for chunk in store.chunks(rows)]
        return self._timed(pd.concat(parts, ignore_index=True) if parts else FRAMES["log"].empty())

    def condensed_calls(self, columns: list[str]) -> pandas.DataFrame:
        """The frame `syscalls`; most calls of a large trace are counted in `calls`, not listed (`kit.call_history`)."""
        return call_history.of_run(self, self._reading, columns, self._timed)

    def _timed(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        """A frame with the seconds since launch zero filled in."""
        import pandas as pd

        if self.launch_zero_ns is None:
            return frame
        zero = pd.Timestamp(self.launch_zero_ns, unit="ns", tz="UTC")
        return frame.assign(t_s=(frame["time"] - zero).dt.total_seconds())

    def _window_ns(self, window: tuple[float | None, float | None] | None) -> store.Window:
        """A window in seconds since launch zero as times."""
        if window is None:
            return None
        zero = self.launch_zero_ns
        if zero is None:
            raise UsageError(
                "a window needs launch zero", "neither run.json nor a log says when the launch began", "leave it out"
            )
        begin, end = (None if at is None else zero + int(at * NS) for at in window)
        return begin, end

    def thread_history(self) -> threads.ThreadHistory:
        """Threads as stretches of samples without a change: what hours of thousands of threads are drawn from.

        Returns
        -------
        ThreadHistory
            Of the tool that took the most samples of each thread.

        Examples
        --------
        >>> import kit
        >>> history = kit.open_run(kit.sample_path("stopped-rank")).thread_history()
        >>> len(history.samples), len(history), len(history.changes) <= len(history)
        (41, 4633, True)
        """
        columns, parts = list(threads.COLUMNS), []
        for capture in self.captures:
            kept = self._reading.keep(capture) if "thread_changes" in capture.frames else None
            if kept is not None and kept.rows is None:
                place = self._reading.place_of(capture, kept.key)
                parts.append(threads.stored(place, columns, self._timed, self.cursor, capture.file))
        found = [part for part in parts if part is not None]
        return threads.joined(found) if found else threads.of_rows(self.frame("threads", columns))

    def _parts(self, declared: Frame, columns: list[str], window: store.Window) -> Iterator[pandas.DataFrame]:
        """A frame in parts, in the order of the captures; neighbours that are in memory are one part."""
        rows: list[Row] = list(
            self.gap_rows() if declared.name == "gaps" else self.note_rows() if declared.name == "notes" else ()
        )

        def wanted(pairs: Iterable[tuple[str, Row]]) -> Iterator[Row]:
            for frame, row in pairs:
                if frame == declared.name and (not self.cursor or self.cursor.holds(row)) and _is_within(row, window):
                    yield row

        for capture in self.captures:
            if declared.name not in capture.frames:
                continue
            kept = self._reading.keep(capture)
            if kept is None or kept.rows is not None:
                rows += wanted(self._reading.rows(capture) if kept is None else kept.rows)
                continue
            yield declared.build(rows)[columns]
            rows = []
            try:
                part = self._stored(self._reading.place_of(capture, kept.key), declared, columns, window, capture.file)
                if part is not None:
                    yield part
            except store.Damaged:  # read it again; the next time it is made anew
                again = wanted(self._reading.rows(capture))
                yield from (declared.build(chunk)[columns] for chunk in store.chunks(again))
        yield declared.build(rows)[columns]

    def _stored(
        self, place: Path, declared: Frame, columns: list[str], window: store.Window, file: str
    ) -> pandas.DataFrame | None:
        """A frame of a capture from the cache."""
        history = threads.stored(place, columns, self._timed, self.cursor, file) if declared.name == "threads" else None
        if history is not None:
            store.afford(declared, columns, history.count(window))
            return history.rows(columns, window).astype({name: PANDAS_DTYPE[declared.by_name[name].type] for name in columns})
        timed = list(dict.fromkeys([*columns, *(["time"] if self.cursor and "time" in declared.by_name else [])]))
        part = store.load(place, declared, timed, window)
        return self.cursor.part(part, file)[columns] if self.cursor and part is not None else part

    def frames(self) -> pandas.DataFrame:
        """Frames that the run has rows of.

        Returns
        -------
        pandas.DataFrame
            Columns `frame`, `rows`, `files` (captures they come from), `meaning`. Reads what was not read yet.
        """
        return inventory.frames(self, self._reading)

    def captures_table(self) -> pandas.DataFrame:
        """Captures with what was read of each.

        Returns
        -------
        pandas.DataFrame
            Columns `file`, `kind`, `size_bytes`, `captured` (UTC), `moment`, `host`, `whole`, `source`, `note`, and, once the
            capture was read, `lines`, `records` and `not_understood` (how many lines, and why).
        """
        return inventory.captures(self)

    def phases(self) -> pandas.DataFrame:
        """Phases of each rank with begin, end and duration (`kit.phase_table`)."""
        import kit  # the façade knows the analyses, this module does not

        return kit.phase_table(self)

    @property
    def judged_from_ns(self) -> int | None:
        """Begin of the samples that a verdict looks at, where a triage set one: rates of the last seconds, not of all."""
        moment = self.manifest.get("judged_from")
        return parse_time(moment)[0] if moment else None

    @property
    def launch_zero_ns(self) -> int | None:
        """Launch zero: start of the launched process where the manifest knows it, else the first stamp of the logs."""
        started = (self.manifest.get("launch") or {}).get("started_at")
        if started:
            return parse_time(started)[0]
        return self._reading.first_stamp(self.captures)

    def unread(self) -> list[str]:
        """One sentence for each file that is not what it seems, empty, cut, or partly not understood."""
        remarks = [f"{note.file}{f':{note.line}' if note.line else ''} {note.reason}" for note in self.notes_taken]
        for capture in self.captures:
            if capture.size_bytes == 0:
                remarks.append(f"{capture.id} is empty")
            elif capture.kind is None:
                remarks.append(
                    f"{capture.id} was not recognised" + (f" (its name promises {capture.promised})" if capture.promised else "")
                )
            elif capture.promised:
                remarks.append(f"{capture.id} holds {capture.kind}, not {capture.promised} as its name says")
            if not capture.whole:
                remarks.append(f"{capture.id} is cut: {capture.note or 'its last line is not whole'}")
            if capture.id in self._reading.changed:
                remarks.append(f"{capture.id} changed while it was read: what was made of it before and after may differ")
            report = self.reports.get(capture.id)
            for reason, count in (report.reasons if report else {}).items():
                remarks.append(f"{capture.id}: {count} × {reason}")
        return remarks

    def document(self, brief: bool = False) -> Document:
        """What was captured, and what is missing."""
        rows = [(c.file, c.kind or "not recognised", f"{c.size_bytes:,}", c.note or "") for c in self.captures]
        missing = [Item(f"{entry.get('what')}: {entry.get('why')}", "·") for entry in self.missing]
        moment = show_time(self.captured_ns, self.offset_s)
        return Document(
            title=f"run {self.name}: {len(rows)} captures, as of {moment} ({self.captured_by})",
            sections=[
                Section("", [Table(("file", "kind", "bytes", "note"), rows, numeric={"bytes"})]),
                Section("missing", missing),
            ],
        )

    def __repr__(self) -> str:
        moment = show_time(self.captured_ns, self.offset_s)
        return f"<Run {self.name}: {len(self.captures)} captures, as of {moment}>"


def _is_within(row: Row, window: store.Window) -> bool:
    """Whether a row's time is in a window."""
    at = row.get("time")
    begin, end = window or (None, None)
    return window is None or at is not None and (begin is None or at >= begin) and (end is None or at < end)


def _is_old_sample(row: Row, from_ns: int) -> bool:
    return row.get("tool") == "sampler" and row["time"] is not None and row["time"] < from_ns


def _frame_property(name: str) -> property:
    return property(lambda run: run.frame(name), doc=f"{FRAMES[name].meaning} The same as `frame({name!r})`.")


for _name, _declared in FRAMES.items():
    if "time" in _declared.by_name:  # results of benchmarks are no frames of a run
        setattr(Run, _name, _frame_property(_name))
