"""Calls of a chunk of a capture of strace: columns of numbers, and texts one behind the other; as an Arrow table, or a frame.

What pandas holds of texts takes more memory than the capture's own, and memory that is new costs more time than reading. So a
frame keeps the texts as they are, with their sizes, and makes a column of them when it is first looked at.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np
import pandas as pd
import pyarrow as pa

from kit.clock import NS
from kit.frames import FRAMES
from kit.mapped import numbers_of
from kit.parse import strace_columns as columns_of
from kit.parse import strace_join as calls_of
from kit.parse.strace_bytes import hash_of
from kit.parse.strace_chunks import Chunk
from kit.parse.strace_rows import UNRETURNED, Wanted

_UNRETURNED = tuple(calls_of.STATES.index(state) for state in UNRETURNED)
_STATES = pa.array(calls_of.STATES, pa.large_string())
_AT_ONCE = getattr(mmap, "MAP_POPULATE", 0)
"""Memory that the system gives at once: giving it page by page, as each is first written to, takes longer."""
_NEEDS = {"ret": "result", "errno": "result"}
"""Texts that lie in another."""


def frames_of(stack: str) -> list[str]:
    """Frames of a stack without blanks, and without the bytes that -e read and -e write print between them."""
    return [line.strip() for line in stack.split("\n") if line.strip().startswith("> ")]


def _kept(count: int, kind: str, flags: int = 0) -> np.ndarray:
    """Memory of the system; numpy would ask it for pages of 2 MiB, which may take a second where it has to make some."""
    flags |= mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, max(1, count) * np.dtype(kind).itemsize, flags=flags), kind)


class Room:
    """Memory for the calls of chunks. `ahead`: bytes of a capture that are to come whose calls are all kept; else 0.

    Where they are kept, each chunk takes its rows of one column of numbers, so that this need not be put together. Where they are
    not, numpy gives them what it had before.
    """

    def __init__(self, ahead: int = 0):
        self.keeps, self.ahead, self.left, self.columns = ahead > 0, ahead, 0, {}

    def new(self, count: int, kind: str, flags: int = 0) -> np.ndarray:
        """Memory; marks ("?") are not set."""
        if not self.keeps:
            return np.zeros(count, kind) if kind == "?" else np.empty(count, kind)
        return _kept(count, kind, flags)

    def take(self, count: int, size: int) -> dict[str, np.ndarray]:
        """Rows for the calls of a chunk of some bytes; there is room for twice as many ahead: it costs nothing."""
        if count > self.left or not self.columns or not self.keeps:
            self.left = max(count, 2 * count * self.ahead // max(1, size))
            kinds = (
                dict.fromkeys(columns_of.NUMBERS, "i8") | {"duration_s": "f8"} | {f"{name}?": "?" for name in columns_of.MISSING}
            )
            self.columns = {name: self.new(self.left, kind) for name, kind in kinds.items()}
        taken = {name: column[len(column) - self.left :][:count] for name, column in self.columns.items()}
        self.left, self.ahead = self.left - count, max(0, self.ahead - size)
        return taken


class Calls:
    """Calls of a chunk. `numbers`: columns, and marks of what is missing; `sizes`: of the texts in `texts`; `states`: codes."""

    def __init__(
        self,
        chunk: Chunk,
        ready: np.ndarray,
        room: Room,
        rows: dict[str, np.ndarray],
        first_line: int,
        first_pid: int | None,
        wanted: Wanted,
        capture: str,
    ):
        ready = np.ascontiguousarray(ready)  # else numba compiles once more for what is a slice
        count = ready.shape[1]
        self.numbers, self.states, sizes = rows, np.empty(count, np.uint8), chunk.scratch(count, len(columns_of.SIZES))
        columns_of.describe(
            *(chunk.lines, chunk.kept, ready, chunk.count, first_line, -1 if first_pid is None else first_pid),
            *(*rows.values(), self.states, sizes),
        )
        if wanted.calls is not None or wanted.window is not None:
            takes = self._chosen(chunk, ready, wanted)
            self.numbers, self.states = {name: column[takes] for name, column in rows.items()}, self.states[takes]
            ready, sizes = np.ascontiguousarray(ready[:, takes]), np.ascontiguousarray(sizes[:, takes])
        self.count, self.capture, asked = ready.shape[1], capture, {_NEEDS.get(name, name) for name in wanted.columns}
        most = zip(columns_of.SIZES, sizes, sizes.max(axis=1, initial=columns_of.NONE).tolist(), strict=True)
        self.sizes = {name: _narrow(row, high) for name, row, high in most if high >= 0 and _NEEDS.get(name, name) in asked}
        self.pieces = [name for name in columns_of.PIECES if name in self.sizes]
        if self.pieces:
            flags = np.array([name in self.sizes for name in columns_of.PIECES])
            size = int(np.maximum(sizes[: len(flags)], 0).sum(axis=1)[flags].sum())
            self.texts = room.new(size + columns_of.SLACK, "u1", _AT_ONCE)
            columns_of.gather(chunk.base, chunk.lines, ready, sizes, flags, self.texts.ctypes.data)

    def __len__(self) -> int:
        return self.count

    def _chosen(self, chunk: Chunk, ready: np.ndarray, wanted: Wanted) -> np.ndarray:
        """Which calls are wanted."""
        takes = np.ones(ready.shape[1], bool)
        if wanted.calls is not None:
            hashes = np.array([hash_of(name) for name in wanted.calls], np.uint64)
            takes &= np.isin(chunk.lines["name"][np.where(ready[0] == calls_of.NO_TOKEN, ready[1], ready[0])], hashes)
        if wanted.window is not None:
            begin, took = self.numbers["time"], np.nan_to_num(self.numbers["duration_s"]) * NS
            lasts = np.isin(self.states, _UNRETURNED)
            takes &= (begin <= wanted.window[1]) & (lasts | (begin + took >= wanted.window[0])) & (begin != calls_of.NO_TIME)
        return takes

    def columns(self, names: list[str]) -> list[pa.Array]:
        """Columns of texts."""
        widths = [np.maximum(self.sizes[piece], 0, dtype=np.int32) for piece in self.pieces]
        begins, at = {}, np.cumsum(total := sum(widths), dtype=np.int32) - total
        for piece, width in zip(self.pieces, widths, strict=True):
            begins[piece], at = at, at + width
        return [self._column(name, begins) for name in names]

    def _column(self, name: str, begins: dict[str, np.ndarray]) -> pa.Array:
        if name == "state":
            return pa.DictionaryArray.from_arrays(self.states, _STATES).dictionary_decode()
        known = self.sizes.get(name)
        if known is None:
            value = self.capture if name == "capture" else None
            return _same(value, 1 << self.count.bit_length()).slice(0, self.count)
        begin, ends = begins[_NEEDS.get(name, name)], np.zeros(self.count + 1, np.int64)
        if name == "errno":
            begin = begin + self.sizes["ret"] + np.int32(1)
        np.maximum(known, 0).cumsum(out=ends[1:])
        out = np.empty(int(ends[-1]) + columns_of.SLACK, np.uint8)
        columns_of.column(self.texts.ctypes.data, begin, ends, out.ctypes.data)
        marks = pa.py_buffer(np.packbits(known >= 0, bitorder="little")) if known.min() < 0 else None
        texts = pa.Array.from_buffers(pa.large_string(), self.count, [marks, pa.py_buffer(ends), pa.py_buffer(out)])
        if name == "stack":
            return pa.array([stack and "\n".join(frames_of(stack)) for stack in texts.to_pylist()], texts.type)
        return texts


def _narrow(sizes: np.ndarray, high: int) -> np.ndarray:
    """The same numbers in as few bytes as hold the largest."""
    return sizes.astype(np.int8 if high < 1 << 7 else np.int16 if high < 1 << 15 else np.int32)


# --- a table ---------------------------------------------------------------------------------------------------------


def table_of(calls: Calls, wanted: Wanted) -> pa.Table:
    """Calls as a table."""
    schema, numbers = _schema(wanted.columns), calls.numbers
    names = [field.name for field in schema if field.type == pa.large_string()]
    columns = dict(zip(names, calls.columns(names), strict=True))

    def number(name: str, kind: pa.DataType) -> pa.Array:
        if name not in numbers:
            return pa.nulls(calls.count, kind)
        values = (
            numbers[name].view("M8[ns]") if name == "time" else numbers[name]
        )  # numpy's number for no time is that of the calls
        return pa.array(values, kind, mask=numbers.get(f"{name}?"), from_pandas=True)

    return pa.Table.from_arrays(
        [columns[name] if name in columns else number(name, schema.field(name).type) for name in schema.names], schema=schema
    )


@lru_cache(maxsize=16)
def _same(value: str | None, count: int) -> pa.Array:
    """A column with one text only: all chunks share it."""
    return pa.repeat(pa.scalar(value, pa.large_string()), count)


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    """Arrow's types of some columns, as pandas writes and reads them."""
    return pa.Schema.from_pandas(FRAMES["syscalls"].empty()[list(columns)], preserve_index=False)


# --- a frame ---------------------------------------------------------------------------------------------------------


class _Later(pd.arrays.ArrowStringArray):
    """Texts that are made when they are first looked at.

    pandas has no public way to hold a column back: `_pa_array`, where its own class keeps the texts, is filled at the first look.
    """

    @classmethod
    def of(cls, make: Callable[[], pa.ChunkedArray], size: int, dtype: pd.StringDtype) -> _Later:
        later = cls.__new__(cls)
        later._make, later._size, later._dtype, later._cache = make, size, dtype, {}
        return later

    def __getattr__(self, name: str) -> pa.ChunkedArray:
        make = self.__dict__.pop("_make", None) if name == "_pa_array" else None
        if make is None:
            raise AttributeError(name)
        self._pa_array = make()
        return self._pa_array

    def __len__(self) -> int:
        return self._size if "_make" in self.__dict__ else super().__len__()

    def __reduce__(self) -> tuple:
        return partial(pd.arrays.ArrowStringArray, dtype=self._dtype), (self._pa_array,)


def frame_of(parts: list[Calls], wanted: Wanted) -> pd.DataFrame:
    """Calls of all chunks as a frame."""
    count, declared, dtype = sum(map(len, parts)), FRAMES["syscalls"], pd.StringDtype("pyarrow", np.nan)

    def column(name: str) -> object:
        kind = declared.by_name[name].type
        if kind == "text":
            return _Later.of(lambda: pa.chunked_array([part.columns([name])[0] for part in parts]), count, dtype)
        if name in parts[0].numbers:
            return numbers_of(kind, *(_whole(parts, one) for one in (name, f"{name}?") if one in parts[0].numbers))
        missing = _kept(count, "f8", _AT_ONCE)
        missing[:] = np.nan
        return missing

    return pd.DataFrame({name: column(name) for name in wanted.columns}, copy=False)


def _whole(parts: list[Calls], name: str) -> np.ndarray:
    """A column of numbers: where the parts of all chunks lie behind each other, they are it."""
    found = [part.numbers[name] for part in parts]
    base = found[0].base
    return base[: sum(map(len, found))] if base is not None and all(one.base is base for one in found) else np.concatenate(found)
