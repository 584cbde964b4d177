"""A capture of strace in chunks: whole lines, read into memory that is used again, scanned to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from kit.compiled_vectors import PAD
from kit.parse import strace_compiled as lines_of
from kit.parse import strace_join as calls_of
from kit.parse.strace_bytes import count_lines
from kit.parse.text import LINE_LIMIT

CHUNK_BYTES = 2 << 20
"""Bytes that are scanned at once: with tokens and columns they stay in the cache of a processor."""
ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_BELOW = (b" > ", b" | ", b" * ", b"\n", b"\r\n")
"""What a line begins with that belongs to the call before it: no chunk begins with one."""
_FRONT = bytes(PAD)
"""What a chunk begins with: bytes that may be looked at before its first."""


def without_colour(file: IO[bytes], scratch: IO[bytes]) -> None:
    """Write the file without the codes of --color."""
    pending = b""
    while block := file.read(CHUNK_BYTES):
        whole, newline, rest = block.rpartition(b"\n")
        scratch.write(ANSI.sub(b"", pending + whole) + newline if newline else b"")
        pending = rest if newline else pending + rest
    scratch.write(ANSI.sub(b"", pending))
    scratch.seek(0)


class Chunk:
    """Whole lines of a capture, from `begin` to `end` of `raw`, and behind them, up to `used`, texts of calls from elsewhere.

    `lines`: tokens of its `count` lines, and of calls from elsewhere, whose further values are in `kept`. `ready`: first and
    second halves of its calls. `said`: lines of signals and ends. Chunks are used again: memory that is new costs time.
    """

    def __init__(self) -> None:
        self.raw, self.begin, self.end, self.used, self.count, self.tokens = bytearray(), 0, 0, 0, 0, 0
        self.lines, self.kept = np.empty(0, lines_of.LINE), np.empty(0, calls_of.KEPT)
        self.ready, self.said = np.empty((2, 0), np.int32), np.empty(0, np.int32)
        self._scratch = np.empty(0, np.int32)

    def make_room(self, size: int) -> None:
        """Have room for so many bytes, and some more."""
        if len(self.raw) < size + 2 * PAD:
            larger = bytearray(size + size // 8 + 4 * PAD)
            larger[: len(self.raw)] = self.raw or _FRONT
            self.raw = larger
            self.data = np.frombuffer(larger, np.uint8)
            self.base = self.data.ctypes.data

    def scan(self) -> Chunk:
        """Lines to tokens."""
        base, begin, end = self.base, self.begin, self.end
        self.raw[end : end + PAD] = bytes(PAD)
        self.used, self.count = end + PAD, count_lines(base + begin, base + end) if begin < end else 0
        if len(self.lines) < self.count + 256:
            self.lines = np.empty(self.count * 9 // 8 + 1024, lines_of.LINE)
            self.said = np.empty(len(self.lines), np.int32)
        lines_of.scan(base, begin, end, self.lines, lines_of.HAS_DESCRIPTOR.ctypes.data)
        return self

    def take_over(self, before: Chunk, opens: np.ndarray, state: np.ndarray) -> None:
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

    def scratch(self, count: int, rows: int) -> np.ndarray:
        """Room for rows of the sizes of so many texts."""
        if len(self._scratch) < rows * count:
            self._scratch = np.empty(rows * count * 9 // 8, np.int32)
        return self._scratch[: rows * count].reshape(rows, count)

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


class Chunks:
    """A file in chunks that end with lines. `free`: chunks to be used again; `ends_open`: the file's last line has no end."""

    def __init__(self, file: IO[bytes]):
        self.file, self.free, self.ends_open = file, [], False

    def __iter__(self) -> Iterator[Chunk]:
        rest, ended, begin = self.file.read(3), False, len(_FRONT)
        rest = b"" if rest == b"\xef\xbb\xbf" else rest
        while not ended:
            chunk, have, size = self.free.pop() if self.free else Chunk(), begin + len(rest), CHUNK_BYTES
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

    def _fill(self, chunk: Chunk, have: int, most: int) -> tuple[int, bool]:
        """Read up to a size; where the bytes end, and whether the file does."""
        chunk.make_room(most)
        room = memoryview(chunk.raw)
        while have < most:
            count = self.file.readinto(room[have:most])  # type: ignore[attr-defined]
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
