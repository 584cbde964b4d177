"""Bytes of a capture to lines of text: encodings, NUL bytes, endless lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from kit import progress
from kit.intake import Chain, Content, encoding_of
from kit.intake.content import KEPT_BYTES
from kit.parse.base import Report
from kit.untrusted import MOST_DIGITS, may_hold_long_number, short_digits

HEAD_BYTES = 65_536
"""How much of a file is looked at to tell its kind."""
LINE_LIMIT = 262_144
"""Longest line that is handed to a parser, in characters. The longest honest line seen is SGLang's server_args (about
10 kB) or a whole weight load drawn as one line of bar frames (about 100 kB); the rest of a longer one is noted."""
CHUNK_BYTES = 1 << 20


def head_of(path: Path) -> str:
    """Return the first `HEAD_BYTES` of a file as text; bytes that do not decode become U+FFFD, NUL bytes go."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    return short_digits(head.decode(encoding_of(head), errors="replace").replace("\0", ""))[0]


class LineReader:
    r"""Lines of a file, one at a time, in bounded memory.

    Lines end at ``\n`` alone: a carriage return is a matter of the format. After iteration `newlines` holds the number
    of newline characters (what ``wc -l`` prints), `ends_open` whether the last line lacks its end, `long_lines` how many
    were cut at `LINE_LIMIT`, `long_numbers` how many numbers were cut, `bad_bytes` how many characters did not decode,
    `nul_bytes` how many were dropped.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.log"
    >>> _ = path.write_bytes(b"one\ntwo")
    >>> reader = LineReader(path)
    >>> list(reader), reader.newlines, reader.ends_open
    (['one', 'two'], 1, True)
    """

    def __init__(self, path: Path | Content | Chain):
        self.path = path
        self.newlines = self.long_lines = self.long_numbers = self.bad_bytes = self.nul_bytes = 0
        self.ends_open = False

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.path.stat().st_size if isinstance(self.path, Path) else self.path.size

    @property
    def encoding(self) -> str:
        """Encoding, as the first bytes tell it."""
        with self.path.open("rb") as file:
            return encoding_of(file.read(HEAD_BYTES))

    def __iter__(self) -> Iterator[str]:
        self.newlines = self.long_lines = self.long_numbers = self.bad_bytes = self.nul_bytes = 0
        self.ends_open = False
        with self.path.open("rb") as file:
            head = file.read(CHUNK_BYTES)
            decoder = codecs.getincrementaldecoder(encoding_of(head[:HEAD_BYTES]))(errors="replace")
            pending, length = [], 0
            chunk = head
            while chunk:
                progress.read(len(chunk))
                text = decoder.decode(chunk, final=False)
                self.bad_bytes += text.count("\ufffd")
                if "\0" in text:
                    self.nul_bytes += text.count("\0")
                    text = text.replace("\0", "")
                pieces = self._short(text).split("\n")
                for piece in pieces[:-1]:
                    self.newlines += 1
                    yield self._join(pending, length, piece)
                    pending, length = [], 0
                if pieces[-1]:
                    if length < LINE_LIMIT:
                        pending.append(pieces[-1])
                    length += len(pieces[-1])
                chunk = file.read(CHUNK_BYTES)
            rest = decoder.decode(b"", final=True)
            if pending or rest:
                self.ends_open = True
                yield self._join(pending, length, rest)

    def _join(self, pending: list[str], length: int, piece: str) -> str:
        if length + len(piece) > LINE_LIMIT:
            self.long_lines += 1
            return self._short("".join(pending + [piece])[:LINE_LIMIT])
        return self._short("".join(pending) + piece) if pending else piece

    def _short(self, text: str) -> str:
        text, cut = short_digits(text)
        self.long_numbers += cut
        return text

    def content(self) -> Iterator[bytes]:
        """The bytes of the file as they are, a block at a time, for formats that are no text."""
        self.newlines = self.long_lines = self.long_numbers = self.bad_bytes = self.nul_bytes = 0
        with self.path.open("rb") as file:
            while block := file.read(CHUNK_BYTES):
                yield block

    def blocks(self, size: int, tail_from: int) -> Iterator[tuple[bytes, bool]]:
        r"""Whole lines of a UTF-8 file, many at a time, as bytes without the last newline; NUL bytes are dropped.

        Who takes the lines apart has to count them: `newlines` stays 0.

        Yields the lines, and whether they reach beyond the byte `tail_from`.
        """
        self.newlines = self.long_lines = self.long_numbers = self.bad_bytes = self.nul_bytes = 0
        self.ends_open = False
        most = 4 * LINE_LIMIT  # bytes of the longest line, where each character takes four
        bytes(KEPT_BYTES)
        with self.path.open("rb") as file:
            pending, at = b"", 0  # parts of a file, joined, do not tell where they are
            while chunk := file.read(min(size, max(tail_from - at, 0) or size)):
                at += len(chunk)
                progress.read(len(chunk))
                if at == len(chunk):
                    chunk = chunk.removeprefix(codecs.BOM_UTF8)
                if 0 in chunk:
                    self.nul_bytes += chunk.count(0)
                    chunk = chunk.replace(b"\0", b"")
                first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
                if last < 0:
                    pending += chunk if len(pending) <= most else b""
                    continue
                if len(pending) + first > LINE_LIMIT:
                    whole = self._cut(pending + chunk[:first]) + chunk[first:last]
                else:
                    whole = b"".join((pending, memoryview(chunk)[:last]))
                pending = chunk[last + 1 :]
                yield self._checked(whole), at > tail_from
            if pending:
                self.ends_open = True
                yield self._checked(self._cut(pending)), True

    def _checked(self, block: bytes) -> bytes:
        if block.isascii() and not may_hold_long_number(block):
            return block
        text = block.decode("utf-8", "replace")
        if not block.isascii():
            self.bad_bytes += text.count("\ufffd")
        short = self._short(text)
        return block if short is text else short.encode()

    def _cut(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "replace")
        if len(text) <= LINE_LIMIT:
            return line
        self.long_lines += 1
        return text[:LINE_LIMIT].encode()

    def tell(self, report: Report) -> None:
        """Put what was counted into the accounts of a parse."""
        report.facts["newlines"] = self.newlines
        report.facts["ends_open"] = self.ends_open
        if self.long_lines:
            report.odd("line longer than 256 KiB, its rest was not read", "", self.long_lines)
        if self.long_numbers:
            report.odd(f"number of more than {MOST_DIGITS} digits, its rest was not read", "", self.long_numbers)
        if self.bad_bytes:
            report.odd("bytes that are no text in the file's encoding", "", self.bad_bytes)
        if self.nul_bytes:
            report.odd("NUL bytes, dropped", "", self.nul_bytes)
