"""Large captures of strace as tables: the mapped file in chunks, scanned in threads, joined in turn, made columns in threads.

`kit.parse.strace_compiled` reads the lines that strace prints whole, `kit.parse.strace_join` joins them. From a line that they
leave, the careful reader (`kit.parse.strace_events`) goes on, with the calls that are open, until strace's lines are whole
again. So both give the same calls in the same order, and what is in memory is a few chunks, however large the file is.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import IO

import numpy as np
import pyarrow as pa

from kit.clock import NS
from kit.frames import FRAMES
from kit.parse import strace_compiled as lines_of
from kit.parse import strace_join as calls_of
from kit.parse.base import Report, Source
from kit.parse.strace_bytes import count_lines, hash_of
from kit.parse.strace_events import Event, Joiner
from kit.parse.strace_rows import FD_FIRST, UNRETURNED, CallRows, Clock, Wanted
from kit.parse.strace_scan import shown_text
from kit.parse.text import LINE_LIMIT, LineReader
from kit.schema import Row

CHUNK_BYTES = 4 << 20
"""Bytes that are scanned at once: tokens and calls of a chunk take five times as much."""
WORKERS = min(4, os.cpu_count() or 1)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_BELOW = (b" > ", b" | ", b" * ", b"\n", b"\r\n")
"""What a line begins with that belongs to the call before it: no chunk begins with one."""
_UNRETURNED = tuple(calls_of.STATES.index(state) for state in UNRETURNED)


def tables(
    lines: LineReader, source: Source, report: Report, wanted: Wanted | None = None
) -> Iterator[tuple[str, Row | pa.Table]]:
    """Tables of frame `syscalls`, and rows of the other frames that a capture gives, in bounded memory.

    `lines`: the capture: a file as it lies on the disk, its bytes below 128 ASCII. `source`, `report`: as for every parser; the
    report is complete once the tables are used up. `wanted`: all columns of all calls where it is not given.
    """
    with lines.path.open("rb") as file, tempfile.TemporaryFile() as scratch:
        head = file.read(1 << 20)
        plain = _without_colour(file, scratch) if _ANSI.search(head) else file
        if not os.fstat(plain.fileno()).st_size:
            return
        mapped = mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ)
        yield from _Pass(mapped, lines, source, report, wanted or Wanted()).run()


def _without_colour(file: IO[bytes], scratch: IO[bytes]) -> IO[bytes]:
    """The file without the codes of --color."""
    file.seek(0)
    pending = b""
    while block := file.read(CHUNK_BYTES):
        whole, newline, rest = block.rpartition(b"\n")
        scratch.write(_ANSI.sub(b"", pending + whole) + newline if newline else b"")
        pending = rest if newline else pending + rest
    scratch.write(_ANSI.sub(b"", pending))
    scratch.flush()
    return scratch


def _names(names: frozenset[str]) -> np.ndarray:
    """A table that holds the hash of each name at the place that its lowest bits tell."""
    hashes, size = [hash_of(name) for name in names], 64
    while len({value % size for value in hashes}) < len(hashes):
        size *= 2
    table = np.zeros(size, np.uint64)
    for value in hashes:
        table[value % size] = value
    return table


class _Pass:
    """One reading of a capture.

    `slots`, `opens`: index of the open call of each pid, from 1; the open calls in the order of their places. `kept`: open calls
    that the careful reader made, by index: their texts lie in `extra`. `lent`: while the careful reader is at work: the calls
    that it was given, by the id of their event. `after`: line at which the careful reader last gave back. `patience`: lines that
    it takes at least before it does: handing over costs as much as some lines do.
    """

    def __init__(self, mapped: mmap.mmap, lines: LineReader, source: Source, report: Report, wanted: Wanted):
        self.mapped, self.lines, self.report, self.wanted = mapped, lines, report, wanted
        self.source, self.size = source, len(mapped)
        self.data = np.frombuffer(mapped, np.uint8)
        self.words = self.data[: self.size & ~7].view(np.uint64)
        self.first_arguments = _names(FD_FIRST)
        self.clock, self.rows = Clock(source), CallRows(source, report)
        self.joiner = Joiner(None, self.clock.ns)
        self.others: list[tuple[str, Row]] = []
        self.slots = np.zeros(calls_of.NO_PID + 1, np.int32)
        self.opens = np.empty(calls_of.NO_PID + 1, np.int32)
        self.state = np.zeros(calls_of.STATE_SIZE, np.int64)
        self.state[calls_of.LATEST], self.state[calls_of.FIRST_LINE] = calls_of.AT_START, 1
        self.state[calls_of.DATED], self.state[calls_of.OFFSET] = source.captured_ns is not None, source.offset_s * NS
        self.kept: dict[int, Event] = {}
        self.lent: dict[int, tuple[int, int, Event]] | None = None
        self.after, self.patience, self.by_hand = 0, 1, 0
        self.carried = np.empty(0, calls_of.CALL)
        self.encoding = lines.encoding.removesuffix("-sig")
        lines.bad_bytes = lines.nul_bytes = lines.long_lines = 0

    def run(self) -> Iterator[tuple[str, Row | pa.Table]]:
        """Chunks through scan, join and columns; a few are on their way at a time."""
        scanned: deque = deque()
        made: deque = deque()
        with ThreadPoolExecutor(WORKERS) as pool:
            for stretch in self._stretches():
                scanned.append(pool.submit(self._scan, *stretch))
                if len(scanned) > WORKERS:
                    made.append(self._join(scanned.popleft().result(), pool))
                if len(made) > WORKERS:
                    yield from self._give(made.popleft().result())
            while scanned:
                made.append(self._join(scanned.popleft().result(), pool, last=not scanned))
            while made:
                yield from self._give(made.popleft().result())
        self.rows.finish()
        self.lines.ends_open = self.mapped[self.size - 1] != 10
        self.lines.newlines = self.report.lines - self.lines.ends_open

    def _give(self, table: pa.Table) -> Iterator[tuple[str, Row | pa.Table]]:
        yield from sorted(self.others, key=lambda pair: pair[1]["line"] or 0)
        self.others.clear()
        if table.num_rows:
            yield "syscalls", table

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each chunk, at ends of lines."""
        begin = 3 if self.mapped[:3] == b"\xef\xbb\xbf" else 0
        while begin < self.size:
            end = self._after_line(begin + CHUNK_BYTES)
            most = end + CHUNK_BYTES
            while end < most and self.mapped[end : end + 3].startswith(_BELOW):
                end = self._after_line(end)
            yield begin, end
            begin = end

    def _after_line(self, at: int) -> int:
        return (self.mapped.find(b"\n", at) + 1 if at < self.size else 0) or self.size

    def _scan(self, begin: int, end: int) -> np.ndarray:
        lines = np.empty(count_lines(self.data, begin, end), lines_of.LINE)
        lines_of.scan(self.data, self.words, begin, end, lines, self.first_arguments)
        return lines

    # --- join ---------------------------------------------------------------------------------------------------------

    def _join(self, lines: np.ndarray, pool: ThreadPoolExecutor, last: bool = False) -> Future[pa.Table]:
        """Join a chunk's lines to calls; gives the table that is being made of them."""
        count, state = len(lines), self.state
        self._begin(count)
        at = 0
        while at < count:
            if self.lent is None:
                reached = self._compiled(lines, at)
                if reached - at > 4 * self.patience:
                    self.patience = max(1, self.patience // 2)
                at = reached
            if at < count:
                at = self._carefully(lines, at)
        if last:
            self._finish()
        self._count_said(lines)
        ready = self.ready[: state[calls_of.READY]]
        self.report.lines += count
        self.report.records += len(ready) - self.by_hand
        self.rows.seen |= bool(len(ready))
        state[calls_of.FIRST_LINE] += count
        self.after -= count
        self._leave()
        return pool.submit(_table, self.data, self.extra, self.calls, ready, self.wanted, self.source, self.rows.first_pid)

    def _begin(self, count: int) -> None:
        """Begin a chunk with the calls that were open at the end of the one before."""
        room, carried = 2 * (count + len(self.carried)) + 16, len(self.carried)
        self.calls, self.ready, self.said = np.empty(room, calls_of.CALL), np.empty(room, np.int32), np.empty(count, np.int32)
        self.state[[calls_of.READY, calls_of.SAID]] = self.by_hand = 0
        self.state[calls_of.CALLS] = carried
        self.calls[:carried] = self.carried
        self.opens[:carried] = np.arange(carried)
        self.slots[self.carried["slot"]] = np.arange(carried) + 1
        self.extra, self.used = np.empty(1 << 12, np.uint8), 0
        for index, event in self.kept.items():
            self._put(event, index)

    def _leave(self) -> None:
        """Set the open calls of a chunk aside for the next."""
        indexes = self.opens[: self.state[calls_of.OPEN]]
        self.carried = self.calls[indexes]
        self.carried["place"] = np.arange(len(indexes))
        self.kept = {place: self.kept[index] for place, index in enumerate(indexes.tolist()) if index in self.kept}
        latest = self.state[calls_of.LATEST]
        self.state[calls_of.LATEST] = latest if latest == calls_of.AT_START else calls_of.ELSEWHERE
        if self.lent is not None:
            self.lent = {}

    def _compiled(self, lines: np.ndarray, at: int) -> int:
        return calls_of.join(
            self.data, self.extra, lines, at, len(lines), self.calls, self.ready, self.said, self.slots, self.opens, self.state
        )

    def _finish(self) -> None:
        if self.lent is None:
            left = self.opens[: self.state[calls_of.OPEN]]  # sorted here: numba takes seconds to compile a sort
            left = left[np.argsort(self.calls["line"][left], kind="stable")]
            calls_of.give_up_all(self.data, self.extra, self.calls, self.ready, self.slots, self.opens, self.state, left)
        else:
            for event in self.joiner.finish():
                self._take(event)

    def _count_said(self, lines: np.ndarray) -> None:
        """Rows of signals and ends that the careful reader did not take."""
        first, now = int(self.state[calls_of.FIRST_LINE]), {}
        joiner = Joiner(None, lambda *_: now["ns"])
        for at in self.said[: self.state[calls_of.SAID]].tolist():
            ns = int(lines[at]["clock"])
            now["ns"] = None if ns == calls_of.NO_TIME else ns
            for event in [*joiner.feed(first + at, self._text_of(lines[at])), *joiner.give()]:
                self.others.append(("signals", self.rows.signal(event)))

    # --- the careful reader -------------------------------------------------------------------------------------------

    def _carefully(self, lines: np.ndarray, at: int) -> int:
        """Go on with the careful reader, at least over one line; returns where the compiled pass may go on."""
        self.rows.seen |= bool(self.state[calls_of.READY])
        if self.lent is None:
            self._lend(at)
        begin, kinds, first = at, lines["kind"], int(self.state[calls_of.FIRST_LINE])
        while at < len(lines):
            for event in self.joiner.feed(first + at, self._text_of(lines[at])):
                self._take(event)
            at += 1
            if at - begin >= self.patience and self._is_quiet() and at < len(lines) and kinds[at] >= lines_of.DONE:
                break
        if self._is_quiet() and (at < len(lines) or not self.joiner.ready):  # the next chunk's first line may belong to the last
            for event in self.joiner.give():
                self._take(event)
            self._take_back()
            self.after, self.patience = at, min(2 * self.patience, 1 << 16)
        return at

    def _is_quiet(self) -> bool:
        joiner = self.joiner
        return joiner.partial is None and joiner.table is None and all((pid or 0) < calls_of.NO_PID for pid in joiner.open)

    def _text_of(self, line: np.void) -> str:
        """A line's text, as `LineReader` gives it."""
        at, size = int(line["at"]), int(line["size"])
        raw = self.mapped[at : at + min(size, 4 * LINE_LIMIT)]
        if raw.isascii() and size <= LINE_LIMIT and 0 not in raw:
            return raw.decode("ascii")
        text = raw.decode(self.encoding, "replace")
        self.lines.bad_bytes += text.count("\ufffd")
        self.lines.nul_bytes += text.count("\0")
        text = text.replace("\0", "")
        self.lines.long_lines += len(text) > LINE_LIMIT
        return text[:LINE_LIMIT]

    def _lend(self, at: int) -> None:
        """Hand the open calls and the clock to the careful reader."""
        state, joiner = self.state, self.joiner
        self.clock.day = int(state[calls_of.DAY]) if state[calls_of.DAY_KNOWN] else None
        self.clock.last = int(state[calls_of.LAST])
        self.lent = {}
        indexes = self.opens[: state[calls_of.OPEN]]
        for index in indexes[np.argsort(self.calls["opened"][indexes])].tolist():
            call = self.calls[index]
            event = self.kept.get(index) or self._event(call)
            slot = int(call["slot"])
            joiner.open[slot if slot < calls_of.NO_PID else None] = event
            self.lent[id(event)] = index, len(event["lines"]), event
            self.slots[slot] = 0
        state[[calls_of.OPEN, calls_of.SHOWING]] = 0
        if self.after != at and state[calls_of.LATEST] != calls_of.AT_START:
            joiner.latest = {"kind": "call", "lines": []}

    def _take_back(self) -> None:
        """Take the open calls and the clock from the careful reader."""
        state, kept = self.state, self.kept
        self.kept = {}
        for pid, event in self.joiner.open.items():
            index, size, _ = self.lent.get(id(event), (-1, 0, None))
            if index in kept or size != len(event["lines"]):
                index = index if index in kept and size == len(event["lines"]) else self._new()
                self._put(event, index)
                self.kept[index] = event
            slot = calls_of.NO_PID if pid is None else pid
            calls_of.put_open(self.calls, self.slots, self.opens, state, slot, index)
        self.joiner.open.clear()
        self.lent = None
        state[calls_of.DAY_KNOWN], state[calls_of.DAY] = self.clock.day is not None, self.clock.day or 0
        state[calls_of.LAST], state[calls_of.LATEST] = self.clock.last, calls_of.ELSEWHERE

    def _take(self, event: Event) -> None:
        for frame, row in self.rows.take(event):
            if frame == "syscalls":
                index = self._new()
                self._put(event, index)
                self.ready[self.state[calls_of.READY]] = index
                self.state[calls_of.READY] += 1
                self.by_hand += 1
            else:
                self.others.append((frame, row))

    def _new(self) -> int:
        self.state[calls_of.CALLS] += 1
        return int(self.state[calls_of.CALLS]) - 1

    def _event(self, call: np.void) -> Event:
        """An open call as the careful reader keeps it."""
        begin, pid = int(call["begin"]), int(call["pid"])
        event = {
            "lines": [int(call["line"])],
            "kind": "syscall",
            "pid": pid if pid >= 0 else None,
            "comm": self._span(call["comm_at"], call["comm_size"]),
            "ts": None,
            "ns": begin if begin != calls_of.NO_TIME else None,
            "syscall": self._span(call["name_at"], call["name_size"]),
            "args": self._span(call["args_at"], call["args_size"]),
            "state": "open",
            **dict.fromkeys(("result", "ret", "errno", "duration")),
            "depth": 0,
            "order": (int(call["line"]), 0),
        }
        if call["stack_size"]:
            event["stack"] = _frames(self._span(call["stack_at"], call["stack_size"]))
        return event

    def _span(self, at: int, size: int) -> str | None:
        return self.mapped[at : at + size].decode("ascii") if size >= 0 else None

    def _put(self, event: Event, index: int) -> None:
        """Enter a call of the careful reader among the compiled ones."""
        row, call = self.rows.row(event), self.calls[index]
        call["begin"] = calls_of.NO_TIME if row["time"] is None else row["time"]
        call["end"] = calls_of.NO_TIME
        call["duration"] = np.nan if row["duration_s"] is None else row["duration_s"]
        call["pid"] = -1 if event["pid"] is None else event["pid"]
        call["fd"] = -1 if row["fd"] is None else row["fd"]
        call["line"], call["end_line"], call["name"] = row["line"], row["end_line"] or 0, hash_of(row["syscall"])
        call["state"] = calls_of.STATES.index(row["state"])
        call["careful"], call["fd_ends_args"] = bool(event.get("depth")) or "ts_end" in event, 1
        call["more_size"] = 0
        shown = shown_text(row["syscall"], row["args"]) if row["state"] == "open" else None
        call["shows"] = shown is not None
        texts = {name: row[name] for name in ("comm", "args", "result", "stack")}
        for name, text in {**texts, "name": row["syscall"], "shown": shown[0][:16] if shown else None}.items():
            at, size = self._store(text)
            call[f"{name}_at"], call[f"{name}_size"] = at, size
        call["stack_size"] = max(0, call["stack_size"])
        for name in ("ret", "errno"):
            call[f"{name}_size"] = -1 if row[name] is None else len(row[name].encode())

    def _store(self, text: str | None) -> tuple[int, int]:
        """Put a text into `extra`; its place, which is below 0, and its size."""
        if text is None:
            return -1, -1
        raw = text.encode("utf-8", "replace")
        while self.used + len(raw) > len(self.extra):
            self.extra = np.concatenate([self.extra, np.empty_like(self.extra)])
        self.extra[self.used : self.used + len(raw)] = np.frombuffer(raw, np.uint8)
        self.used += len(raw)
        return len(raw) - self.used - 1, len(raw)


# --- columns -------------------------------------------------------------------------------------------------------------


def _frames(stack: str) -> list[str]:
    """Frames of a stack without blanks, and without the bytes that -e read and -e write print between them."""
    return [line.strip() for line in stack.split("\n") if line.strip().startswith("> ")]


def _chosen(calls: np.ndarray, ready: np.ndarray, wanted: Wanted) -> np.ndarray:
    """Of the calls that are ready, those that are wanted."""
    if wanted.calls is not None:
        hashes = np.array([hash_of(name) for name in wanted.calls], np.uint64)
        ready = ready[np.isin(calls["name"][ready], hashes)]
    if wanted.window is not None:
        begin, duration = calls["begin"][ready], calls["duration"][ready]
        took = np.where(np.isnan(duration), 0.0, duration * NS)
        lasts = np.isin(calls["state"][ready], _UNRETURNED)
        inside = (begin <= wanted.window[1]) & (lasts | (begin + took >= wanted.window[0])) & (begin != calls_of.NO_TIME)
        ready = ready[inside]
    return ready


def _table(
    data: np.ndarray,
    extra: np.ndarray,
    calls: np.ndarray,
    ready: np.ndarray,
    wanted: Wanted,
    source: Source,
    first_pid: int | None,
) -> pa.Table:
    """The table of some calls. Each text is copied once, from the file to its place in its column."""
    chosen = _chosen(calls, ready, wanted)
    names, count = [name for name in calls_of.TEXTS if name in wanted.columns], len(chosen)
    texts = np.array([calls_of.TEXTS.index(name) for name in names], np.int64)
    offsets, known = np.empty((len(names), count + 1), np.int64), np.zeros((len(names), (count + 7) // 8), np.uint8)
    numbers, durations = np.empty((len(calls_of.NUMBERS), count), np.int64), np.empty(count)
    states = np.empty(count, np.int8)
    calls_of.measure(calls, chosen, texts, offsets, known, numbers, durations, states)
    bases = np.concatenate([[0], np.cumsum(offsets[:, -1])])
    out = np.empty(bases[-1], np.uint8)
    calls_of.gather(data, extra, calls, chosen, texts, offsets, bases, out)
    made = dict(zip(calls_of.NUMBERS, numbers, strict=True))
    if first_pid is not None:
        made["pid"][made["pid"] < 0] = first_pid
    columns = {
        "time": _known(made["time"], calls_of.NO_TIME).cast(pa.timestamp("ns", tz="UTC")),
        "pid": _known(made["pid"], -1),
        "fd": _known(made["fd"], -1),
        "line": pa.array(made["line"]),
        "end_line": _known(made["end_line"], 0),
        "duration_s": pa.array(durations, from_pandas=True),
    }
    if "state" in wanted.columns:
        columns["state"] = pa.DictionaryArray.from_arrays(states, calls_of.STATES).cast(pa.large_string())
    if "capture" in wanted.columns:
        columns["capture"] = pa.repeat(pa.scalar(source.name, pa.large_string()), count)
    for number, name in enumerate(names):
        texts_of = out[bases[number] : bases[number + 1]]
        buffers = [pa.py_buffer(known[number]), pa.py_buffer(offsets[number]), pa.py_buffer(texts_of)]
        columns[name] = pa.Array.from_buffers(pa.large_string(), count, buffers)
    if "stack" in columns and columns["stack"].null_count < count:
        stacks = columns["stack"].to_pylist()
        columns["stack"] = pa.array([text and "\n".join(_frames(text)) for text in stacks], pa.large_string())
    schema = _schema(wanted.columns)
    rest = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema]
    return pa.Table.from_arrays(rest, schema=schema)


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    """Arrow's types of some columns, as pandas writes and reads them."""
    return pa.Schema.from_pandas(FRAMES["syscalls"].empty()[list(columns)], preserve_index=False)


def _known(values: np.ndarray, missing: int) -> pa.Array:
    return pa.array(values, mask=values == missing)
