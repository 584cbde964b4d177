"""Large captures of strace as tables: chunks of bytes, scanned in threads, joined in turn, made columns in threads.

`kit.parse.strace_compiled` reads the lines that strace prints whole, `kit.parse.strace_join` joins them,
`kit.parse.strace_columns` makes columns. From a line that they leave, the careful reader (`kit.parse.strace_events`) goes on,
with the calls that are open, until strace's lines are whole again. So both give the same calls in the same order, and what is in
memory is a few chunks, however large the file is.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import IO, BinaryIO

import numpy as np
import pyarrow as pa

from kit.clock import NS
from kit.frames import FRAMES
from kit.parse import strace_columns as columns_of
from kit.parse import strace_compiled as lines_of
from kit.parse import strace_join as calls_of
from kit.parse.base import Report, Source
from kit.parse.strace_bytes import PAD, count_lines, hash_of
from kit.parse.strace_events import Event, Joiner
from kit.parse.strace_rows import UNRETURNED, CallRows, Clock, Wanted
from kit.parse.strace_scan import shown_text
from kit.parse.text import LINE_LIMIT, LineReader
from kit.schema import Row

CHUNK_BYTES = 2 << 20
"""Bytes that are scanned at once: with tokens and columns they stay in the cache of a processor."""
WORKERS = min(4, os.cpu_count() or 1)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_BELOW = (b" > ", b" | ", b" * ", b"\n", b"\r\n")
"""What a line begins with that belongs to the call before it: no chunk begins with one."""
_UNRETURNED = tuple(calls_of.STATES.index(state) for state in UNRETURNED)
_FRONT = b"".join(state.encode().ljust(columns_of.STATE_ROOM, b"\0") for state in calls_of.STATES).ljust(2 * PAD, b"\0")
"""What a chunk begins with: the names of the states; and bytes that may be looked at before its first."""
_NUMBERS = len(columns_of.NUMBERS)


def tables(
    lines: LineReader, source: Source, report: Report, wanted: Wanted | None = None
) -> Iterator[tuple[str, Row | pa.Table]]:
    """Tables of frame `syscalls`, and rows of the other frames that a capture gives, in bounded memory.

    `lines`: the capture, its bytes below 128 ASCII. `source`, `report`: as for every parser; the report is complete once the
    tables are used up. `wanted`: all columns of all calls where it is not given.
    """
    with lines.path.open("rb") as file, tempfile.TemporaryFile() as scratch:
        coloured = _ANSI.search(file.read(1 << 20)) is not None
        file.seek(0)
        if coloured:
            _without_colour(file, scratch)
        yield from _Pass(scratch if coloured else file, lines, source, report, wanted or Wanted()).run()


def _without_colour(file: IO[bytes], scratch: IO[bytes]) -> None:
    """Write the file without the codes of --color."""
    pending = b""
    while block := file.read(CHUNK_BYTES):
        whole, newline, rest = block.rpartition(b"\n")
        scratch.write(_ANSI.sub(b"", pending + whole) + newline if newline else b"")
        pending = rest if newline else pending + rest
    scratch.write(_ANSI.sub(b"", pending))
    scratch.seek(0)


class _Chunk:
    """Whole lines of a capture, from `begin` to `end` of `raw`, and behind them, up to `used`, texts of calls from elsewhere.

    `lines`: tokens of its `count` lines, and of calls from elsewhere, whose further values are in `kept`. `ready`: first and
    second halves of its calls. `said`: lines of signals and ends. Chunks are used again: memory that is new costs time.
    """

    def __init__(self) -> None:
        self.raw, self.begin, self.end, self.used, self.count, self.tokens = bytearray(), 0, 0, 0, 0, 0
        self.lines, self.kept = np.empty(0, lines_of.LINE), np.empty(0, calls_of.KEPT)
        self.ready, self.said = np.empty((2, 0), np.int32), np.empty(0, np.int32)

    def make_room(self, size: int) -> None:
        """Have room for so many bytes, and some more."""
        if len(self.raw) < size + 2 * PAD:
            larger = bytearray(size + size // 8 + 4 * PAD)
            larger[: len(self.raw)] = self.raw or _FRONT
            self.raw = larger
            self.data = np.frombuffer(larger, np.uint8)
            self.base = self.data.ctypes.data

    def scan(self) -> _Chunk:
        """Lines to tokens."""
        base, begin, end = self.base, self.begin, self.end
        self.raw[end : end + PAD] = bytes(PAD)
        self.used, self.count = end + PAD, count_lines(base + begin, base + end) if begin < end else 0
        if len(self.lines) < self.count + 256:
            self.lines = np.empty(self.count * 9 // 8 + 1024, lines_of.LINE)
            self.said = np.empty(len(self.lines), np.int32)
        lines_of.scan(base, begin, end, self.lines, lines_of.HAS_DESCRIPTOR.ctypes.data)
        return self

    def take_over(self, before: _Chunk, opens: np.ndarray, state: np.ndarray) -> None:
        """Put in the calls that were open at the end of the chunk before."""
        held = int(state[calls_of.OPEN])
        self.tokens = self.count + held
        if len(self.lines) < self.tokens + 64:
            self.lines = np.concatenate([self.lines, np.empty(held + 64, lines_of.LINE)])
        if len(self.kept) < len(self.lines) - self.count:
            self.kept = np.empty(len(self.lines) - self.count, calls_of.KEPT)
        room = 2 * self.tokens + 16
        if self.ready.shape[1] < room:
            self.ready = np.empty((2, room), np.int32)
        first = int(state[calls_of.FIRST_LINE]) - before.count
        source = (before.base, before.lines, before.kept, first, opens, state, before.count)
        target = (self.lines, self.kept, self.count, self.used)
        self.make_room(calls_of.carry(*source, 0, *target))
        self.used = calls_of.carry(*source, self.base, *target)

    def new(self) -> int:
        """A token more; its number."""
        if self.tokens == len(self.lines):
            self.lines = np.concatenate([self.lines, np.empty_like(self.lines)])
            self.kept = np.concatenate([self.kept, np.empty(len(self.lines) // 2, calls_of.KEPT)])
        self.tokens += 1
        return self.tokens - 1

    def store(self, text: str | None) -> tuple[int, int]:
        """Put in a text; its place and its size."""
        if text is None:
            return 0, -1
        raw, at = text.encode("utf-8", "replace"), self.used
        self.make_room(at + len(raw))
        self.raw[at : at + len(raw)] = raw
        self.used += len(raw)
        return at, len(raw)

    def number(self, index: int, first_line: int) -> int:
        """Number in the file of a token's line."""
        return first_line + index if index < self.count else int(self.kept["line"][index - self.count])

    def text(self, at: int, size: int) -> str | None:
        return self.raw[at : at + size].decode("ascii") if size >= 0 else None


class _Chunks:
    """A file in chunks that end with lines. `free`: chunks to be used again; `ends_open`: the file's last line has no end."""

    def __init__(self, file: BinaryIO):
        self.file, self.free, self.ends_open = file, [], False

    def __iter__(self) -> Iterator[_Chunk]:
        rest, ended, begin = self.file.read(3), False, len(_FRONT)
        rest = b"" if rest == b"\xef\xbb\xbf" else rest
        while not ended:
            chunk, have, size = self.free.pop() if self.free else _Chunk(), begin + len(rest), CHUNK_BYTES
            chunk.make_room(have)
            chunk.raw[begin:have] = rest
            while True:
                have, ended = self._fill(chunk, have, begin + size)
                cut = have if ended else _cut(chunk.raw, begin, have, size < 2 * CHUNK_BYTES)
                if cut:
                    rest = bytes(memoryview(chunk.raw)[cut:have])
                    break
                if have - begin > 4 * LINE_LIMIT:
                    rest, ended = self._skip_line()
                    chunk.raw[have - 1], cut = 10 if not ended else 32, have
                    break
                size *= 2
            chunk.begin, chunk.end = begin, cut
            self.ends_open = ended and cut > begin and chunk.raw[cut - 1] != 10
            if cut > begin:
                yield chunk

    def _fill(self, chunk: _Chunk, have: int, most: int) -> tuple[int, bool]:
        """Read up to a size; where the bytes end, and whether the file does."""
        chunk.make_room(most)
        room = memoryview(chunk.raw)
        while have < most:
            count = self.file.readinto(room[have:most])
            if not count:
                return have, True
            have += count
        return have, False

    def _skip_line(self) -> tuple[bytes, bool]:
        """Leave out the rest of an endless line; what follows it, and whether the file ends."""
        while block := self.file.read(1 << 20):
            _, newline, rest = block.partition(b"\n")
            if newline:
                return rest, False
        return b"", True


def _cut(raw: bytearray, begin: int, end: int, waits: bool) -> int:
    """Where the last line ends that is followed by one of its own, or, where no more is waited for, any line; 0 for nowhere."""
    at = end
    while (at := raw.rfind(b"\n", begin, at)) >= 0:
        if end - at > 3 and not raw.startswith(_BELOW, at + 1):
            return at + 1
    return 0 if waits else raw.rfind(b"\n", begin, end) + 1


class _Pass:
    """One reading of a capture.

    `slots`, `opens`: place of the open call of each pid among the open ones, from 1; those. `kept`: open calls that the careful
    reader made, by token. `lent`: while the careful reader is at work: the calls that it was given, by the id of their event.
    `after`: line at which the careful reader last gave back. `patience`: lines that it takes at least before it does: handing
    over costs as much as some lines do. `chunk`: the one that
    is joined.
    """

    def __init__(self, file: BinaryIO, lines: LineReader, source: Source, report: Report, wanted: Wanted):
        self.chunks, self.lines, self.report, self.wanted, self.source = _Chunks(file), lines, report, wanted, source
        self.clock, self.rows = Clock(source), CallRows(source, report)
        self.joiner = Joiner(None, self.clock.ns)
        self.others: list[tuple[str, Row]] = []
        self.slots = np.zeros(calls_of.NO_PID + 1, np.int32)
        self.opens = np.empty(1024, calls_of.OPEN_CALL)
        self.state = np.zeros(calls_of.STATE_SIZE, np.int64)
        self.state[calls_of.LATEST], self.state[calls_of.FIRST_LINE] = calls_of.AT_START, 1
        self.state[calls_of.DATED], self.state[calls_of.OFFSET] = source.captured_ns is not None, source.offset_s * NS
        self.kept: dict[int, Event] = {}
        self.lent: dict[int, tuple[int, int, Event]] | None = None
        self.after, self.patience, self.by_hand = 0, 1, 0
        self.chunk = _Chunk()
        self.chunk.make_room(0)
        self.encoding = lines.encoding.removesuffix("-sig")
        lines.bad_bytes = lines.nul_bytes = lines.long_lines = 0

    def run(self) -> Iterator[tuple[str, Row | pa.Table]]:
        """Chunks through scan, join and columns; a few are on their way at a time."""
        scanned: deque[Future[_Chunk]] = deque()
        made: deque[tuple[_Chunk, Future[pa.Table]]] = deque()
        with ThreadPoolExecutor(WORKERS) as pool:
            for chunk in self.chunks:
                scanned.append(pool.submit(chunk.scan))
                if len(scanned) > WORKERS:
                    made.append(self._join(scanned.popleft().result(), pool))
                if len(made) > WORKERS:
                    yield from self._give(*made.popleft())
            while scanned:
                made.append(self._join(scanned.popleft().result(), pool, last=not scanned))
            while made:
                yield from self._give(*made.popleft())
        self.rows.finish()
        self.lines.ends_open = self.chunks.ends_open
        self.lines.newlines = self.report.lines - self.lines.ends_open

    def _give(self, chunk: _Chunk, made: Future[pa.Table]) -> Iterator[tuple[str, Row | pa.Table]]:
        table = made.result()
        self.chunks.free.append(chunk)
        yield from sorted(self.others, key=lambda pair: pair[1]["line"] or 0)
        self.others.clear()
        if table.num_rows:
            yield "syscalls", table

    # --- join ---------------------------------------------------------------------------------------------------------

    def _join(self, chunk: _Chunk, pool: ThreadPoolExecutor, last: bool = False) -> tuple[_Chunk, Future[pa.Table]]:
        """Join a chunk's lines to calls; gives the table that is being made of them."""
        count, state = chunk.count, self.state
        self._begin(chunk)
        at = 0
        while at < count:
            if self.lent is None:
                reached = self._compiled(chunk, at)
                if reached - at > 4 * self.patience:
                    self.patience = max(1, self.patience // 2)
                at = reached
            if at < count:
                at = self._carefully(chunk, at)
        if last:
            self._finish(chunk)
        self._count_said(chunk)
        ready = chunk.ready[:, : state[calls_of.READY]]
        self.report.lines += count
        self.report.records += ready.shape[1] - self.by_hand
        self.rows.seen |= bool(ready.shape[1])
        first_line = int(state[calls_of.FIRST_LINE])
        state[calls_of.FIRST_LINE] += count
        self.after -= count
        return chunk, pool.submit(_table, chunk, ready, first_line, self.rows.first_pid, self.wanted, self.source.name)

    def _begin(self, chunk: _Chunk) -> None:
        """Begin a chunk with the calls that were open at the end of the one before."""
        state, before = self.state, self.chunk
        self.kept = {place: self.kept[index] for place, index in enumerate(self._open()) if index in self.kept}
        self.kept = {chunk.count + place: event for place, event in self.kept.items()}
        chunk.take_over(before, self.opens, state)
        self.chunk, self.by_hand = chunk, 0
        state[calls_of.READY] = state[calls_of.SAID] = 0
        state[calls_of.COUNT] = chunk.count
        if len(self.opens) < state[calls_of.OPEN] + chunk.count:
            self.opens = np.concatenate([self.opens, np.empty(chunk.count, calls_of.OPEN_CALL)])
        if state[calls_of.LATEST] != calls_of.AT_START:
            state[calls_of.LATEST] = calls_of.ELSEWHERE
        if self.lent is not None:
            self.lent = {}

    def _open(self) -> list[int]:
        """Tokens of the open calls, where the careful reader made some."""
        return self.opens["index"][: self.state[calls_of.OPEN]].tolist() if self.kept else []

    def _compiled(self, chunk: _Chunk, at: int) -> int:
        return calls_of.join(chunk.base, chunk.lines, chunk.kept, at, chunk.ready, chunk.said, self.slots, self.opens, self.state)

    def _finish(self, chunk: _Chunk) -> None:
        if self.lent is None:
            left = self.opens[: self.state[calls_of.OPEN]]  # sorted here: numba takes seconds to compile a sort
            numbers = [chunk.number(index, int(self.state[calls_of.FIRST_LINE])) for index in left["index"].tolist()]
            slots = left["slot"][np.argsort(numbers, kind="stable")]
            calls_of.give_up_all(chunk.base, chunk.lines, chunk.ready, self.slots, self.opens, self.state, slots)
        else:
            for event in self.joiner.finish():
                self._take(event)

    def _count_said(self, chunk: _Chunk) -> None:
        """Rows of signals and ends that the careful reader did not take."""
        first, now = int(self.state[calls_of.FIRST_LINE]), {}
        joiner = Joiner(None, lambda *_: now["ns"])
        for at in chunk.said[: self.state[calls_of.SAID]].tolist():
            ns = int(chunk.lines[at]["clock"])
            now["ns"] = None if ns == calls_of.NO_TIME else ns
            for event in [*joiner.feed(first + at, self._text_of(chunk.lines[at])), *joiner.give()]:
                self.others.append(("signals", self.rows.signal(event)))

    # --- the careful reader -------------------------------------------------------------------------------------------

    def _carefully(self, chunk: _Chunk, at: int) -> int:
        """Go on with the careful reader, at least over one line; returns where the compiled pass may go on."""
        self.rows.seen |= bool(self.state[calls_of.READY])
        if self.lent is None:
            self._lend(at)
        begin, lines, count, first = at, chunk.lines, chunk.count, int(self.state[calls_of.FIRST_LINE])
        while at < count:
            for event in self.joiner.feed(first + at, self._text_of(lines[at])):
                self._take(event)
            at += 1
            if at - begin >= self.patience and self._is_quiet() and at < count and lines[at]["kind"] >= lines_of.DONE:
                break
        if self._is_quiet() and (at < count or not self.joiner.ready):  # the next chunk's first line may belong to the last
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
        raw = bytes(self.chunk.raw[at : at + min(size, 4 * LINE_LIMIT)])
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
        opens = self.opens[: state[calls_of.OPEN]]
        for index, slot, _ in opens[np.argsort(opens["opened"])].tolist():
            event = self.kept.get(index) or self._event(index)
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
                index = index if index in kept and size == len(event["lines"]) else self.chunk.new()
                self._put(event, index)
                self.kept[index] = event
            slot = calls_of.NO_PID if pid is None else pid
            calls_of.put_open(self.chunk.lines, self.slots, self.opens, state, slot, index)
        self.joiner.open.clear()
        self.lent = None
        state[calls_of.DAY_KNOWN], state[calls_of.DAY] = self.clock.day is not None, self.clock.day or 0
        state[calls_of.LAST], state[calls_of.LATEST] = self.clock.last, calls_of.ELSEWHERE

    def _take(self, event: Event) -> None:
        for frame, row in self.rows.take(event):
            if frame == "syscalls":
                index, place = self.chunk.new(), int(self.state[calls_of.READY])
                self._put(event, index)
                if place == self.chunk.ready.shape[1]:
                    self.chunk.ready = np.concatenate([self.chunk.ready, np.empty_like(self.chunk.ready)], axis=1)
                self.chunk.ready[:, place] = index, calls_of.NO_TOKEN
                self.state[calls_of.READY] += 1
                self.by_hand += 1
            else:
                self.others.append((frame, row))

    def _event(self, index: int) -> Event:
        """An open call as the careful reader keeps it."""
        chunk, call = self.chunk, self.chunk.lines[index]
        begin, pid, line = int(call["clock"]), int(call["pid"]), chunk.number(index, int(self.state[calls_of.FIRST_LINE]))
        event = {
            "lines": [line],
            "kind": "syscall",
            "pid": pid if pid >= 0 else None,
            "comm": chunk.text(call["comm_at"], call["comm_size"]),
            "ts": None,
            "ns": begin if begin != calls_of.NO_TIME else None,
            "syscall": chunk.text(call["name_at"], call["name_size"]),
            "args": chunk.text(call["args_at"], call["args_size"]),
            "state": "open",
            **dict.fromkeys(("result", "ret", "errno", "duration")),
            "depth": 0,
            "order": (line, 0),
        }
        if call["stack_size"]:
            event["stack"] = _frames(chunk.text(call["stack_at"], call["stack_size"]))
        return event

    def _put(self, event: Event, index: int) -> None:
        """Enter a call of the careful reader among the compiled ones."""
        row, chunk = self.rows.row(event), self.chunk
        shown = shown_text(row["syscall"], row["args"]) if row["state"] == "open" else None
        texts = {name: row[name] for name in ("comm", "args", "result", "stack")}
        texts |= {"name": row["syscall"], "shown": shown and shown[0][:16]}
        places = {name: chunk.store(text) for name, text in texts.items()}
        call, kept = chunk.lines[index], chunk.kept[index - chunk.count]
        call["clock"] = calls_of.NO_TIME if row["time"] is None else row["time"]
        call["duration"] = np.nan if row["duration_s"] is None else row["duration_s"]
        call["pid"] = -1 if event["pid"] is None else event["pid"]
        call["fd"], call["fd_ends_args"] = -1 if row["fd"] is None else row["fd"], 1
        call["name"], call["shows"] = hash_of(row["syscall"]), shown is not None
        for name, (at, size) in places.items():
            call[f"{name}_at"], call[f"{name}_size"] = at, size
        call["stack_size"], call["shown_size"] = max(0, call["stack_size"]), max(0, call["shown_size"])
        for name in ("ret", "errno"):
            call[f"{name}_size"] = -1 if row[name] is None else len(row[name].encode())
        kept["line"], kept["end_line"], kept["state"] = row["line"], row["end_line"] or 0, calls_of.STATES.index(row["state"])
        kept["careful"] = bool(event.get("depth")) or "ts_end" in event


# --- columns -------------------------------------------------------------------------------------------------------------


def _frames(stack: str) -> list[str]:
    """Frames of a stack without blanks, and without the bytes that -e read and -e write print between them."""
    return [line.strip() for line in stack.split("\n") if line.strip().startswith("> ")]


class _Columns:
    """Calls of a chunk as columns; a text is copied once, from the chunk to its place in its column."""

    def __init__(self, chunk: _Chunk, ready: np.ndarray, first_line: int, first_pid: int | None, wanted: Wanted, capture: str):
        self.chunk, self.ready, self.count = chunk, ready, ready.shape[1]
        self.texts = [name for name in columns_of.TEXTS if name in wanted.columns]
        count, rows = self.count, len(columns_of.TEXTS) if self.texts else 0
        self.values, self.durations = np.empty((_NUMBERS, count), np.int64), np.empty(count)
        self.states, self.ends = np.empty(count, np.uint8), np.empty((rows, count + 1), np.int64)
        self.known = np.zeros((len(columns_of.KNOWN), (count + 7) // 8), np.uint8)
        self.capture, size = chunk.store(capture)
        columns_of.describe(
            *(chunk.lines, chunk.kept, ready, chunk.count, first_line, -1 if first_pid is None else first_pid),
            *(np.array([*map(len, calls_of.STATES), size]), self.values, self.durations, self.states, self.known, self.ends),
        )

    def chosen(self, wanted: Wanted) -> np.ndarray:
        """The calls that are wanted."""
        takes, ready = np.ones(self.count, bool), self.ready
        if wanted.calls is not None:
            hashes = np.array([hash_of(name) for name in wanted.calls], np.uint64)
            takes &= np.isin(self.chunk.lines["name"][np.where(ready[0] == calls_of.NO_TOKEN, ready[1], ready[0])], hashes)
        if wanted.window is not None:
            begin, took = self.values[0], np.where(np.isnan(self.durations), 0.0, self.durations * NS)
            lasts = np.isin(self.states, _UNRETURNED)
            takes &= (begin <= wanted.window[1]) & (lasts | (begin + took >= wanted.window[0])) & (begin != calls_of.NO_TIME)
        return np.ascontiguousarray(ready[:, takes])

    def arrays(self) -> dict[str, pa.Array]:
        """The columns."""
        values = dict(zip(columns_of.NUMBERS, self.values, strict=True))
        found = {name: self._array(name, pa.int64(), column) for name, column in values.items()}
        found["time"] = self._array("time", pa.timestamp("ns", tz="UTC"), values["time"])
        found["duration_s"] = self._array("duration_s", pa.float64(), self.durations)
        if self.texts:
            wanted = np.array([name in self.texts for name in columns_of.TEXTS])
            sizes = (self.ends[:, -1] + columns_of.SLACK) * wanted
            places = np.cumsum(sizes) - sizes
            out = np.empty(sizes.sum(), np.uint8)
            targets = (places + out.ctypes.data) * wanted
            chunk = self.chunk
            columns_of.gather(chunk.base, chunk.lines, self.ready, self.states, self.capture, self.ends, targets)
            for place, size, ends, name in zip(places, sizes, self.ends, columns_of.TEXTS, strict=True):
                if name in self.texts:
                    found[name] = self._array(name, pa.large_string(), ends, out[place : place + size])
        return found

    def _array(self, name: str, kind: pa.DataType, *buffers: np.ndarray) -> pa.Array:
        """A column over memory as it is."""
        known = pa.py_buffer(self.known[columns_of.KNOWN.index(name)]) if name in columns_of.KNOWN else None
        return pa.Array.from_buffers(kind, self.count, [known, *map(pa.py_buffer, buffers)])


def _table(chunk: _Chunk, ready: np.ndarray, first_line: int, first_pid: int | None, wanted: Wanted, capture: str) -> pa.Table:
    """The table of some calls."""
    made = _Columns(chunk, ready, first_line, first_pid, wanted, capture)
    if wanted.calls is not None or wanted.window is not None:
        made = _Columns(chunk, made.chosen(wanted), first_line, first_pid, wanted, capture)
    columns = made.arrays()
    if "stack" in columns and columns["stack"].null_count < made.count:
        stacks = columns["stack"].to_pylist()
        columns["stack"] = pa.array([text and "\n".join(_frames(text)) for text in stacks], pa.large_string())
    schema = _schema(wanted.columns)
    rest = [columns[field.name] if field.name in columns else pa.nulls(made.count, field.type) for field in schema]
    return pa.Table.from_arrays(rest, schema=schema)


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    """Arrow's types of some columns, as pandas writes and reads them."""
    return pa.Schema.from_pandas(FRAMES["syscalls"].empty()[list(columns)], preserve_index=False)
