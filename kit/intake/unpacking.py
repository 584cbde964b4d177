"""Files to members: compression and archives taken off, bounded in depth, number and size; nothing is written beside a spool.

What cannot or must not be unpacked becomes a `Note` with a sentence: a link, a path that leaves the folder, an archive in an
archive in an archive, more than was allowed, a damaged end.
"""

from __future__ import annotations

import binascii
import bz2
import gzip
import io
import lzma
import math
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from kit.intake import markup, office
from kit.intake.content import BLOCK_BYTES, Spool, Text

MOST_DEPTH = 3
"""Archives within archives: a support bundle that holds one archive a host whose logs are gzipped has three."""
MOST_MEMBERS = 2000
"""As many as a folder of evidence may hold files."""
MOST_BYTES = 4 << 30
"""Unpacked size of all that one file may become: four times the largest paste that was asked for."""
MAIL_BYTES = 1 << 16
"""Where a mail's fields are looked for."""
MOST_RATIO, RATIO_FROM = 1100, 64 << 20
"""Deflate reaches 1032 : 1 on nothing but zeros; a log of 64 MiB that is packed better than that by xz is no log."""
_UNSAFE = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError,
           RuntimeError, ValueError, ArithmeticError, struct.error, IndexError)  # fmt: skip


@dataclass(frozen=True)
class Note:
    """What was not understood or is no evidence: file, reason, and the line where it is a part of the file only."""

    file: str
    reason: str
    line: int | None = None
    sample: str | None = None
    lines: int | None = None


@dataclass
class _Budget:
    """What one file may still become."""

    bytes: int = MOST_BYTES
    members: int = MOST_MEMBERS


class _TooLarge(Exception):
    """More was unpacked than is allowed."""


def _zstd(file: BinaryIO) -> BinaryIO:
    import pyarrow  # Python's own codec comes with 3.14

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")


class _Base64(io.RawIOBase):
    """What lines of base64 hold."""

    def __init__(self, file: BinaryIO):
        self._file, self._rest = file, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while chunk := self._file.read(len(buffer)):
            signs = self._rest + chunk.translate(None, b"\r\n")
            whole = len(signs) // 4 * 4
            self._rest = signs[whole:]
            if data := binascii.a2b_base64(signs[:whole]):
                buffer[: len(data)] = data
                return len(data)
        return 0


_CODECS: dict[bytes, tuple[str, Callable[[BinaryIO], Any]]] = {
    b"\x1f\x8b": (".gz .tgz", lambda file: gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ\0": (".xz .txz", lzma.LZMAFile),
    b"BZh": (".bz2 .tbz2 .tbz", bz2.BZ2File),
    b"\x28\xb5\x2f\xfd": (".zst .tzst", _zstd),
    **dict.fromkeys(
        (b"H4sI", b"/Td6", b"Qlpo", b"KLUv/", b"UEsDB"), (".b64 .base64", _Base64)
    ),  # the first signs of those, and of zip
}
_NO_TEXT = {
    b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture", b"%PDF": "a PDF: copy its text into a file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first (7z x)", b"Rar!": "a RAR archive: unpack it first",
    b"\x7fELF": "a program or a core dump", b"SQLite format 3": "a database", b"PAR1": "a Parquet table",
}  # fmt: skip


def unpack(path: Path, name: str) -> Iterator[Text | Note]:
    """Texts of a file: itself, or what is in it, however it is packed.

    `name`: its name in the evidence; members of archives are named `name/member`.
    """
    stat = path.stat()
    yield from _unpack(Text(name, path, stat.st_size, mtime_ns=stat.st_mtime_ns), _Budget(), 0)


def _unpack(text: Text, budget: _Budget, depth: int) -> Iterator[Text | Note]:
    head = text.head(512)
    codec = next((codec for magic, codec in _CODECS.items() if head.startswith(magic)), None)
    packed = codec or head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar"
    if not packed and head.startswith(b"{\\rtf") and text.size <= office.MOST_BYTES:
        yield _text(text.name, office.of_rtf(text.head(text.size).decode("cp1252", "replace")), text.mtime_ns)
    elif not packed:
        why = next((why for magic, why in _NO_TEXT.items() if head.startswith(magic)), None)
        yield Note(text.name, f"is {why}") if why else text
        if why is None and markup.is_mail(text.head(MAIL_BYTES)) and text.size <= markup.MOST_BYTES:
            yield from _attached(text, budget, depth)
    elif depth >= MOST_DEPTH:
        yield Note(text.name, f"is packed more than {MOST_DEPTH} times over, and was left packed")
    elif codec:
        yield from _decompressed(text, *codec, budget, depth)
    else:
        yield from _archive(text, budget, depth, "zip" if head.startswith(b"PK") else "tar")


def _text(name: str, shown: str, mtime_ns: int | None) -> Text:
    spool = Spool([shown.encode("utf-8", "replace")])
    return Text(name, spool, spool.size, mtime_ns=mtime_ns)


def _attached(text: Text, budget: _Budget, depth: int) -> Iterator[Text | Note]:
    """What is attached to a mail, but for the texts, which are read with it."""
    if depth >= MOST_DEPTH:
        return
    for name, data in markup.attachments(text.head(text.size)):
        budget.members -= 1
        if budget.members < 0:
            return
        spool = Spool([data])
        yield from _unpack(Text(f"{text.name}/{name}", spool, spool.size, mtime_ns=text.mtime_ns), budget, depth + 1)


def _decompressed(
    text: Text, suffixes: str, open_codec: Callable[[BinaryIO], Any], budget: _Budget, depth: int
) -> Iterator[Text | Note]:
    suffix = next((suffix for suffix in suffixes.split() if text.name.lower().endswith(suffix)), "")
    broken: list[str] = []
    with text.data.open("rb") as file:
        try:
            spool = Spool(_metered(open_codec(file), budget, text.size, broken))
        except _TooLarge as error:
            yield Note(text.name, str(error))
            return
    name = text.name[: -len(suffix)] + (".tar" if suffix.startswith(".t") else "") if suffix else text.name
    if broken:
        yield Note(text.name, f"is damaged and was read as far as it goes: {broken[0]}")
    if spool.size or not broken:
        inner = Text(name, spool, spool.size, mtime_ns=text.mtime_ns)
        if spool.size > 262 and inner.head(512)[257:262] == b"ustar":
            inner.name = text.name  # bundle.tgz/member, not bundle.tar/member
        yield from _unpack(inner, budget, depth if inner.name == text.name else depth + 1)


def _metered(stream: Any, budget: _Budget, packed: int, broken: list[str]) -> Iterator[bytes]:
    """Blocks of a stream, counted against the budget; an error ends it and is noted in `broken`."""
    size = 0
    read = getattr(stream, "read1", stream.read)  # gives what there is before a damaged end
    try:
        while piece := read(BLOCK_BYTES):
            size += len(piece)
            budget.bytes -= len(piece)
            if size > RATIO_FROM and size > MOST_RATIO * max(packed, 1):
                raise _TooLarge(f"unpacks to more than {MOST_RATIO} times its size, as a bomb does, and was left packed")
            if budget.bytes < 0:
                raise _TooLarge(f"unpacks to more than {MOST_BYTES >> 30} GiB, and was left packed")
            yield piece
    except _UNSAFE as error:
        broken.append(str(error) or type(error).__name__)


def _archive(text: Text, budget: _Budget, depth: int, form: str) -> Iterator[Text | Note]:
    with text.data.open("rb") as file:
        try:
            document = office.texts(zipfile.ZipFile(file)) if form == "zip" else None
            for part, shown in document or ():
                yield _text(f"{text.name}/{part}.csv" if part else text.name, shown, text.mtime_ns)
            if document is not None:
                return
            file.seek(0)
            for name, size, when, read in _MEMBERS[form](file):
                budget.members -= 1
                if budget.members < 0:
                    yield Note(text.name, f"holds more than {MOST_MEMBERS} files; the rest was not read")
                    return
                shown = f"{text.name}/{name.removeprefix('./')}"
                if isinstance(read, str):
                    yield Note(shown, read)
                    continue
                broken: list[str] = []
                try:
                    spool = Spool(_metered(read(), budget, size, broken))
                except _TooLarge as error:
                    yield Note(shown, str(error))
                    continue
                if broken:
                    yield Note(shown, f"is damaged and was read as far as it goes: {broken[0]}")
                yield from _unpack(Text(shown, spool, spool.size, mtime_ns=when), budget, depth + 1)
        except _UNSAFE as error:
            yield Note(text.name, f"is a damaged {form} archive: {error}")


def _refusal(name: str) -> str | None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0][1:2]:
        return "leaves the folder of its archive by its path, and was not read"
    return None


def _hidden(name: str) -> bool:
    return any(part.startswith(("._", "__MACOSX")) for part in PurePosixPath(name).parts)


def _zip_members(file: BinaryIO) -> Iterator[tuple[str, int, int | None, Callable[[], Any] | str]]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.is_dir() or _hidden(info.filename):
                continue
            link = (info.external_attr >> 16) & 0o170000 == 0o120000
            why = "is a link, and was not followed" if link else _refusal(info.filename)
            why = why or ("is encrypted: unpack it first" if info.flag_bits & 1 else None)
            try:
                when = int(datetime(*info.date_time, tzinfo=UTC).timestamp()) * 10**9
            except ValueError:
                when = None
            yield info.filename, info.compress_size, when, why or partial(archive.open, info)


def _tar_members(file: BinaryIO) -> Iterator[tuple[str, int, int | None, Callable[[], Any] | str]]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for info in archive:
            if info.isdir() or _hidden(info.name):
                continue
            why = _refusal(info.name)
            if not info.isreg():
                why = "is a link, and was not followed" if info.issym() or info.islnk() else "is not a regular file"
            when = int(info.mtime) * 10**9 if math.isfinite(info.mtime) else None
            yield info.name, info.size, when, why or partial(archive.extractfile, info)


_MEMBERS = {"zip": _zip_members, "tar": _tar_members}
