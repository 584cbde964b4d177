"""Texts and parts of them as byte streams that parsers read like files, each line with its number in the original file."""

from __future__ import annotations

import io
import os
import re
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from kit.untrusted import short_digits

MEMORY_BYTES = 8 << 20
"""What is unpacked or decoded stays in memory up to this size, and goes to a temporary file beyond it."""
BLOCK_BYTES = 1 << 18
"""Bytes that are read at once: they stay in a core's second-level cache."""
KEPT_BYTES = 16 << 20
"""Once so much was taken and given back, malloc (glibc's) keeps what is given back of smaller blocks: pages that are new for each
block take as long as reading it."""
FILE_BYTES = 1 << 20
"""Bytes that are written at once: the system keeps them in larger pages, which takes two thirds of the time."""
LONGEST_LINE = 4 << 20
"""A longer line comes in pieces of this size."""


class Numbers:
    """Line numbers of a decoded text in its original, as runs; nothing is kept for a text whose lines are the original's.

    Examples
    --------
    >>> numbers = Numbers()
    >>> numbers.add(2, first=1), numbers.add(3, first=5, step=0), numbers.add(1, first=9)
    (None, None, None)
    >>> [numbers.original(line) for line in range(1, 7)]
    [1, 2, 5, 5, 5, 9]
    """

    def __init__(self) -> None:
        self.lines = 0
        self.begins, self.firsts, self.steps = array("q", [0]), array("q", [1]), bytearray([1])

    def add(self, lines: int, first: int, step: int = 1) -> None:
        """Say that the next lines stand at `first` and after it, or, with step 0, all at `first`."""
        if lines and not (step and self.steps[-1] and first == self.firsts[-1] + self.lines - self.begins[-1]):
            self.begins.append(self.lines)
            self.firsts.append(first)
            self.steps.append(step)
        self.lines += lines

    def original(self, line: int) -> int:
        """Number in the original of a line, both from 1."""
        at = bisect_right(self.begins, line - 1) - 1
        return self.firsts[at] + self.steps[at] * (line - 1 - self.begins[at])


class Spool:
    """Bytes that were unpacked or decoded: in memory, or in a temporary file that goes with the object."""

    def __init__(self, pieces: Iterable[bytes] = (), memory: int | None = None):
        self.size = 0
        self._memory = MEMORY_BYTES if memory is None else memory
        self._kept = io.BytesIO()
        self._path: str | None = None
        self._file: BinaryIO | None = None
        try:
            for piece in pieces:
                self.write(piece)
        finally:
            if pieces:
                self.close()

    def write(self, piece: bytes) -> None:
        """Add to it, until it is closed."""
        self.size += len(piece)
        if self._file is None and self.size > self._memory:
            descriptor, self._path = tempfile.mkstemp(prefix="stallkit-")
            weakref.finalize(self, Path(self._path).unlink, missing_ok=True)
            self._file = os.fdopen(descriptor, "wb", FILE_BYTES)
            self._file.write(self._kept.getbuffer())
            self._kept = io.BytesIO()
        (self._file or self._kept).write(piece)

    def close(self) -> None:
        """End writing."""
        if self._file is not None:
            self._file.close()

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open for reading."""
        return io.BytesIO(self._kept.getvalue()) if self._path is None else Path(self._path).open("rb")


@dataclass
class Text:
    """A text in UTF-8, or a file as it lies on the disk."""

    name: str  # path as a person would find it: relative to the folder that was opened, members of archives behind their archive
    data: Path | Spool  # where the bytes are
    size: int  # bytes
    numbers: Numbers | None = None  # line numbers in the original; None where they are the same
    mtime_ns: int | None = None  # when the original was written
    form: str | None = None  # what was taken off: `journal`, `html`, `terminal`, …; None where nothing was
    unsearched: bool = False  # whether control of a terminal may be in it: who reads it first looks (`terminal.Steered`)
    stream: str | None = None  # service whose lines these are, where those of several stood in one text

    @property
    def title(self) -> str:
        """Name that a file with it would bear."""
        return self.name.rsplit("/", 1)[-1] if self.stream is None else self.stream.rsplit("/", 1)[-1] + ".log"

    def original(self, line: int) -> int:
        """Number in the original file of a line."""
        return line if self.numbers is None else self.numbers.original(line)

    def head(self, size: int) -> bytes:
        """First bytes."""
        with self.data.open("rb") as file:
            return file.read(size)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines in blocks, each with its offset; a very long line comes in pieces."""
        bytes(KEPT_BYTES if self.size > KEPT_BYTES else 0)
        with self.data.open("rb") as file:
            offset, pending, waiting = 0, [], 0
            while chunk := file.read(BLOCK_BYTES):
                end = chunk.rfind(b"\n") + 1
                if end or waiting >= LONGEST_LINE:
                    block = b"".join((*pending, memoryview(chunk)[:end]))
                    yield offset, block
                    offset += len(block)
                    pending, waiting, chunk = [], 0, chunk[end:]
                if chunk:
                    pending.append(chunk)
                    waiting += len(chunk)
            if pending:
                yield offset, b"".join(pending)


@dataclass(frozen=True)
class Part:
    """A stretch of a text: bytes from `begin` to `end`, which begin in line `line`; `lead` is a line put before it."""

    begin: int
    end: int
    line: int
    lead: bytes = b""


@dataclass
class Content:
    """Parts of a text, read one after the other like a file (`open`, `size`); `strip` is taken off each line."""

    text: Text
    parts: tuple[Part, ...] = ()
    leads: bool = True
    strip: bytes = b""
    _lines: list[tuple[int, int, int]] = field(default_factory=list, repr=False)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.end - part.begin + (len(part.lead) + 1 if self.leads and part.lead else 0) for part in self.parts)

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open for reading; only binary reading is known."""
        whole = self.parts == (Part(0, self.text.size, 1),)
        if whole and not self.strip:
            return self.text.data.open("rb")
        stream = io.BufferedReader(_Joined(self), BLOCK_BYTES)
        if not self.strip:
            return stream
        with stream:  # a section within a log: as long as a tool's output
            return io.BytesIO(re.sub(rb"(?m)^" + self.strip, b"", stream.read()))

    def head(self, size: int) -> bytes:
        """First bytes."""
        with self.open() as file:
            return file.read(size)

    def original(self, line: int) -> int:
        """Number in the original file of a line of this content."""
        if len(self.parts) == 1 and not (self.leads and self.parts[0].lead):
            return self.text.original(self.parts[0].line + line - 1)
        if not self._lines:
            self._lines = list(self._count())
        at = max(bisect_right(self._lines, (line, 1 << 62, 0)) - 1, 0)
        first, original, lead = self._lines[at]
        return self.text.original(max(original + line - first - lead, 1))

    def place(self, line: int) -> tuple[str, int]:
        """File and number there of a line."""
        return self.text.name, self.original(line)

    def _count(self) -> Iterator[tuple[int, int, int]]:
        """First line of each part here, its line in the text, and whether a lead stands before it."""
        line = 1
        for part in self.parts:
            lead = int(bool(self.leads and part.lead))
            yield line, part.line, lead
            with self.text.data.open("rb") as file:
                file.seek(part.begin)
                left, last = part.end - part.begin, b"\n"
                while left and (chunk := file.read(min(left, BLOCK_BYTES))):
                    line += chunk.count(b"\n")
                    left -= len(chunk)
                    last = chunk[-1:]
            line += lead + (last != b"\n")


class _Joined(io.RawIOBase):
    """The parts of a content as one stream; a part without a newline at its end gets one before the next."""

    def __init__(self, content: Content):
        self._file = content.text.data.open("rb")
        self._parts = iter(content.parts)
        self._leads = content.leads
        self._ahead, self._left, self._last = b"", 0, b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ahead and not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._ahead = (b"" if self._last == b"\n" else b"\n") + (part.lead + b"\n" if self._leads and part.lead else b"")
            self._left, self._last = part.end - part.begin, b"\n"
            self._file.seek(part.begin)
        if self._ahead:
            piece, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
        else:
            piece = self._file.read(min(len(buffer), self._left))
            self._left = self._left - len(piece) if piece else 0
            self._last = piece[-1:] or b"\n"
        buffer[: len(piece)] = piece
        return len(piece) if piece else self.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass
class Chain:
    """Contents of several files read as one: a log that was rotated, its oldest part first."""

    contents: tuple[Content, ...]
    _begins: list[int] = field(default_factory=list, repr=False)

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(content.size for content in self.contents)

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open for reading."""
        return io.BufferedReader(_Chained(self.contents), BLOCK_BYTES)

    def head(self, size: int) -> bytes:
        """First bytes."""
        with self.open() as file:
            return file.read(size)

    def place(self, line: int) -> tuple[str, int]:
        """File and number there of a line."""
        if not self._begins:
            self._begins, total = [], 0
            for content in self.contents:
                self._begins.append(total)
                with content.open() as file:
                    total += sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(BLOCK_BYTES), b""))
        at = max(bisect_right(self._begins, line - 1) - 1, 0)
        return self.contents[at].place(line - self._begins[at])


class _Chained(io.RawIOBase):
    """Streams one after the other."""

    def __init__(self, contents: tuple[Content, ...]):
        self._left = list(contents)
        self._file: BinaryIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._file is not None or self._left:
            if self._file is None:
                self._file = self._left.pop(0).open()
            piece = self._file.read(len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
            self._file.close()
            self._file = None
        return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def as_text(head: bytes) -> str:
    """Beginning of a text as text: bytes that do not decode become U+FFFD, NUL bytes go, endless numbers end."""
    return short_digits(head.decode("utf-8", "replace").replace("\0", ""))[0]


def touching(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts in the order of the text, those that touch made one."""
    joined: list[Part] = []
    for part in sorted(parts, key=lambda part: part.begin):
        if joined and joined[-1].end == part.begin:
            joined[-1] = replace(joined[-1], end=part.end)
        else:
            joined.append(part)
    return tuple(joined)


def whole(text: Text) -> Content:
    """A text as one content."""
    return Content(text, (Part(0, text.size, 1),))
