"""Calls of a chunk of a capture of strace as an Arrow table."""

from __future__ import annotations

import mmap
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

from kit.clock import NS
from kit.frames import FRAMES
from kit.parse import strace_columns as columns_of
from kit.parse import strace_join as calls_of
from kit.parse.strace_bytes import hash_of
from kit.parse.strace_chunks import Chunk
from kit.parse.strace_rows import UNRETURNED, Wanted

_UNRETURNED = tuple(calls_of.STATES.index(state) for state in UNRETURNED)
_SIZES = np.array([len(state) for state in calls_of.STATES])
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
"""Memory that the system gives at once, for giving it page by page, as each is first written to, takes twice as long."""


def frames_of(stack: str) -> list[str]:
    """Frames of a stack without blanks, and without the bytes that -e read and -e write print between them."""
    return [line.strip() for line in stack.split("\n") if line.strip().startswith("> ")]


class _Memory:
    """New memory, of which arrays are taken one behind the other."""

    def __init__(self, size: int):
        self.block, self.used = np.frombuffer(mmap.mmap(-1, size + 1024, flags=_FLAGS), np.uint8), 0

    def take(self, kind: type, *shape: int) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        taken = self.block[self.used : self.used + size]
        self.used += -(-size // 64) * 64
        return taken.view(kind).reshape(shape)


class _Columns:
    """Calls of a chunk as columns; a text is copied once, from the chunk to its place in its column."""

    def __init__(self, chunk: Chunk, ready: np.ndarray, first_line: int, first_pid: int | None, wanted: Wanted):
        count, numbers, known = ready.shape[1], len(columns_of.NUMBERS), len(columns_of.KNOWN)
        self.chunk, self.count = chunk, count
        self.ready = np.ascontiguousarray(ready)  # else numba compiles once more for what is a slice
        self.texts = [name for name in columns_of.TEXTS if name in wanted.columns]
        memory = _Memory((numbers + 1) * 8 * count + known * (count // 8 + 1))
        self.values, self.durations = memory.take(np.int64, numbers, count), memory.take(np.float64, count)
        self.known = memory.take(np.uint8, known, (count + 7) // 8)
        self.states, self.ends = chunk.scratch(count, len(columns_of.TEXTS) if self.texts else 0)
        columns_of.describe(
            *(chunk.lines, chunk.kept, self.ready, chunk.count, first_line, -1 if first_pid is None else first_pid),
            *(_SIZES, self.values, self.durations, self.states, self.known, self.ends),
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
        """The columns that hold anything."""
        values = dict(zip(columns_of.NUMBERS, self.values, strict=True))
        found = {name: self._array(name, pa.int64(), column) for name, column in values.items()}
        found["time"] = self._array("time", pa.timestamp("ns", tz="UTC"), values["time"])
        found["duration_s"] = self._array("duration_s", pa.float64(), self.durations)
        texts = {name: ends for name, ends in zip(columns_of.TEXTS, self.ends, strict=False) if self._holds(name)}
        memory = _Memory(sum(ends.nbytes + int(ends[-1]) + columns_of.SLACK + 128 for ends in texts.values()))
        targets = np.zeros(len(columns_of.TEXTS), np.int64)
        for name, ends in texts.items():
            kept, out = memory.take(np.int64, len(ends)), memory.take(np.uint8, int(ends[-1]) + columns_of.SLACK)
            kept[:], targets[columns_of.TEXTS.index(name)] = ends, out.ctypes.data
            found[name] = self._array(name, pa.large_string(), kept, out)
        if texts:
            columns_of.gather(self.chunk.base, self.chunk.lines, self.ready, self.states, self.ends, targets)
        return found

    def _holds(self, name: str) -> bool:
        """Whether a column of texts is wanted and has any."""
        return name in self.texts and (name not in columns_of.KNOWN or bool(self._known(name).any()))

    def _known(self, name: str) -> np.ndarray:
        return self.known[columns_of.KNOWN.index(name)]

    def _array(self, name: str, kind: pa.DataType, *buffers: np.ndarray) -> pa.Array:
        """A column over memory as it is."""
        known = pa.py_buffer(self._known(name)) if name in columns_of.KNOWN else None
        return pa.Array.from_buffers(kind, self.count, [known, *map(pa.py_buffer, buffers)])


def table_of(chunk: Chunk, ready: np.ndarray, first_line: int, first_pid: int | None, wanted: Wanted, capture: str) -> pa.Table:
    """The table of some calls.

    `ready`: first and second halves of the calls; `first_line`: number of the chunk's first line; `first_pid`: pid of those that
    have none.
    """
    made = _Columns(chunk, ready, first_line, first_pid, wanted)
    if wanted.calls is not None or wanted.window is not None:
        made = _Columns(chunk, made.chosen(wanted), first_line, first_pid, wanted)
    columns, schema = made.arrays(), _schema(wanted.columns)
    if "stack" in columns:
        stacks = columns["stack"].to_pylist()
        columns["stack"] = pa.array([text and "\n".join(frames_of(text)) for text in stacks], pa.large_string())
    room = 1 << made.count.bit_length()
    columns["capture"] = _same(capture, pa.large_string(), room).slice(0, made.count)
    rest = [
        columns[field.name] if field.name in columns else _same(None, field.type, room).slice(0, made.count) for field in schema
    ]
    return pa.Table.from_arrays(rest, schema=schema)


@lru_cache(maxsize=16)
def _same(value: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """A column with one value only: all chunks share it."""
    return pa.repeat(pa.scalar(value, kind), count)


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    """Arrow's types of some columns, as pandas writes and reads them."""
    return pa.Schema.from_pandas(FRAMES["syscalls"].empty()[list(columns)], preserve_index=False)
