"""Large captures of strace as tables: chunks of bytes, scanned in threads, joined in turn, made columns in threads.

`kit.parse.strace_compiled` reads the lines that strace prints whole, `kit.parse.strace_join` joins them,
`kit.parse.strace_columns`
makes columns. From a line that they leave, the careful reader (`kit.parse.strace_events`) goes on,
with the calls that are open, until strace's lines are whole again. So both give the same calls in the same order, and what is in
memory is a few chunks, however large the file is.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kit.clock import NS
from kit.frames import FRAMES
from kit.parse import strace_compiled as lines_of
from kit.parse import strace_join as calls_of
from kit.parse.base import Report, Source
from kit.parse.strace_arrow import Calls, Room, frame_of, frames_of, table_of
from kit.parse.strace_bytes import hash_of
from kit.parse.strace_chunks import ANSI, Chunk, Chunks, without_colour
from kit.parse.strace_events import Event, Joiner, ending
from kit.parse.strace_rows import CallRows, Clock, Wanted
from kit.parse.strace_scan import shown_text
from kit.parse.text import LINE_LIMIT, LineReader
from kit.schema import Row

WORKERS = min(4, os.cpu_count() or 1)


def tables(
    lines: LineReader, source: Source, report: Report, wanted: Wanted | None = None
) -> Iterator[tuple[str, Row | pa.Table]]:
    """Tables of frame `syscalls`, and rows of the other frames that a capture gives, in bounded memory.

    `lines`: the capture, its bytes below 128 ASCII. `source`, `report`: as for every parser; the report is complete once the
    tables are used up. `wanted`: all columns of all calls where it is not given.
    """
    wanted = wanted or Wanted()
    return _read(lines, source, report, wanted, Room(), partial(table_of, wanted=wanted))


def frame(lines: LineReader, source: Source, report: Report, wanted: Wanted) -> pd.DataFrame:
    """The same as a frame, without the rows of other frames."""
    room = Room(lines.size if wanted.calls is None and wanted.window is None else 0)
    parts = [item for name, item in _read(lines, source, report, wanted, room, None) if name == "syscalls"]
    return frame_of(parts, wanted) if parts else FRAMES["syscalls"].empty()[list(wanted.columns)]


def _read(
    lines: LineReader, source: Source, report: Report, wanted: Wanted, room: Room, make: Callable[[Calls], Any] | None
) -> Iterator[tuple[str, Any]]:
    """What is made of the calls of each chunk, and rows of other frames; without `make` the calls themselves, alone."""
    with lines.path.open("rb") as file, tempfile.TemporaryFile() as scratch:
        coloured = ANSI.search(file.read(1 << 20)) is not None
        file.seek(0)
        if coloured:
            without_colour(file, scratch)
        yield from _Pass(scratch if coloured else file, lines, source, report, wanted, room, make).run()


class _Pass:
    """One reading of a capture.

    `slots`, `opens`: place of the open call of each pid among the open ones, from 1; those. `kept`: open calls that the careful
    reader made, by token. `lent`: while the careful reader is at work: the calls that it was given, by the id of their event.
    `after`: line at which the careful reader last gave back. `patience`: lines that it takes at least before it does: handing
    over costs as much as some lines do. `chunk`: the one that
    is joined.
    """

    def __init__(
        self,
        file: IO[bytes],
        lines: LineReader,
        source: Source,
        report: Report,
        wanted: Wanted,
        room: Room,
        make: Callable[[Calls], Any] | None,
    ):
        self.chunks, self.lines, self.report, self.wanted, self.room, self.make = Chunks(file), lines, report, wanted, room, make
        self.clock, self.rows, self.capture = Clock(source), CallRows(source, report), source.name
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
        self.chunk = Chunk()
        self.chunk.make_room(0)
        self.encoding = lines.encoding.removesuffix("-sig")
        lines.bad_bytes = lines.nul_bytes = lines.long_lines = 0

    def run(self) -> Iterator[tuple[str, Any]]:
        """Chunks through scan, join and columns; a few are on their way at a time."""
        scanned: deque[Future[Chunk]] = deque()
        made: deque[tuple[Chunk, Future]] = deque()
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

    def _give(self, chunk: Chunk, made: Future) -> Iterator[tuple[str, Any]]:
        calls = made.result()
        self.chunks.free.append(chunk)
        yield from sorted(self.others, key=lambda pair: pair[1]["line"] or 0)
        self.others.clear()
        if len(calls):
            yield "syscalls", calls

    # --- join ---------------------------------------------------------------------------------------------------------

    def _join(self, chunk: Chunk, pool: ThreadPoolExecutor, last: bool = False) -> tuple[Chunk, Future]:
        """Join a chunk's lines to calls; gives what is being made of them."""
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
        self.rows.seen |= bool(ready.shape[1] or state[calls_of.SAID])
        first_line = int(state[calls_of.FIRST_LINE])
        state[calls_of.FIRST_LINE] += count
        self.after -= count
        rows = self.room.take(ready.shape[1], chunk.end - chunk.begin)
        return chunk, pool.submit(self._made, chunk, ready, rows, first_line)

    def _made(self, chunk: Chunk, ready: np.ndarray, rows: dict[str, np.ndarray], first_line: int) -> Any:
        calls = Calls(chunk, ready, self.room, rows, first_line, self.rows.first_pid, self.wanted, self.capture)
        return self.make(calls) if self.make else calls

    def _begin(self, chunk: Chunk) -> None:
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

    def _compiled(self, chunk: Chunk, at: int) -> int:
        return calls_of.join(chunk.base, chunk.lines, chunk.kept, at, chunk.ready, chunk.said, self.slots, self.opens, self.state)

    def _finish(self, chunk: Chunk) -> None:
        if self.lent is None:
            left = self.opens[: self.state[calls_of.OPEN]]  # sorted here: numba takes seconds to compile a sort
            numbers = [chunk.number(index, int(self.state[calls_of.FIRST_LINE])) for index in left["index"].tolist()]
            slots = left["slot"][np.argsort(numbers, kind="stable")]
            calls_of.give_up_all(chunk.base, chunk.lines, chunk.ready, self.slots, self.opens, self.state, slots)
        else:
            for event in self.joiner.finish():
                self._take(event)

    def _count_said(self, chunk: Chunk) -> None:
        """Rows of signals and ends that the careful reader did not take."""
        said = chunk.said[: self.state[calls_of.SAID] if self.make else 0]
        numbers = said + self.state[calls_of.FIRST_LINE]
        places = (chunk.lines[name][said].tolist() for name in ("args_at", "args_size", "clock", "pid"))
        for number, begin, size, ns, pid in zip(numbers.tolist(), *places, strict=True):
            about = {"lines": [number], "ns": None if ns == calls_of.NO_TIME else ns, "pid": pid if pid >= 0 else None}
            self.others.append(("signals", self.rows.signal((ending(chunk.text(begin, size)) or {}) | about)))

    # --- the careful reader -------------------------------------------------------------------------------------------

    def _carefully(self, chunk: Chunk, at: int) -> int:
        """Go on with the careful reader, at least over one line; returns where the compiled pass may go on."""
        self.rows.seen |= bool(self.state[calls_of.READY] or self.state[calls_of.SAID])
        latest = self._lend(at) if self.lent is None else None
        begin, lines, count, first = at, chunk.lines, chunk.count, int(self.state[calls_of.FIRST_LINE])
        while at < count:
            for event in self.joiner.feed(first + at, self._text_of(lines[at])):
                self._take(event)
            at += 1
            if at - begin >= self.patience and self._is_quiet() and at < count and lines[at]["kind"] >= lines_of.DONE:
                break
        self._take_stack(latest)
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

    def _lend(self, at: int) -> Event | None:
        """Hand the open calls and the clock to the careful reader; gives what the next lines may hold more of the stack of."""
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
            joiner.latest = self._latest(int(state[calls_of.LATEST]))
        return joiner.latest

    def _latest(self, index: int) -> Event:
        """The call before: an open one as it was lent, or what takes the stack of another."""
        for own, _, event in self.lent.values():
            if own == index:
                return event
        call = self.chunk.lines[max(index, 0)]
        stack = self.chunk.text(call["stack_at"], call["stack_size"]) if index >= 0 and call["stack_size"] else ""
        return {"kind": "call", "lines": [], "stack": frames_of(stack)}

    def _take_stack(self, latest: Event | None) -> None:
        """Give the call before what the careful reader read of its stack."""
        index = int(self.state[calls_of.LATEST])
        if latest and latest["kind"] == "call" and latest["lines"] and index >= 0:
            call = self.chunk.lines[index]
            call["stack_at"], call["stack_size"] = self.chunk.store("\n".join(latest["stack"]))

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
            event["stack"] = frames_of(chunk.text(call["stack_at"], call["stack_size"]))
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
