"""Follow a log from its start: by its open file, so that deletion and rotation lose nothing, scrubbed line by line."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from kit.capture.manifest import Manifest, RawFile
from kit.redact import scrub_text

POLL_S = 0.2
CHUNK_BYTES = 1 << 20
MOST_BYTES = 512 << 20
"""Of a larger log the first `HEAD_BYTES` and the end are copied, and the manifest says what was left out."""
HEAD_BYTES = 16 << 20
LONGEST_LINE = 1 << 20
"""A piece without a line end is written out when it grows beyond this."""
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")


def scrub_bytes(data: bytes) -> bytes:
    r"""Scrub a piece of a log; bytes that are no UTF-8 pass unchanged, UTF-16 is looked into.

    Examples
    --------
    >>> scrub_bytes(b"HF_TOKEN=abc\xff\n")
    b'HF_TOKEN=[redacted]\n'
    >>> scrub_bytes("a=1".encode("utf-16-le"))
    b'a\x00=\x001\x00'
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\0" in text:
        plain = text.replace("\0", "")
        scrubbed = scrub_text(plain)
        return data if scrubbed == plain else scrubbed.encode("utf-8", "surrogateescape")
    return scrub_text(text).encode("utf-8", "surrogateescape")


class LogFollower(threading.Thread):
    """Copies one log, from its start until `finish`.

    Parameters
    ----------
    manifest : Manifest
        Where the copy is entered.
    opened : str or Path
        What to open: the path, or /proc/PID/fd/N for a file that has no path any more.
    path : str
        The path that people know it by.
    name : str
        Name of the copy.

    Raises
    ------
    OSError
        Where it cannot be opened.
    """

    def __init__(
        self, manifest: Manifest, opened: str | Path, path: str, name: str, pid: int | None = None, note: str | None = None
    ):
        super().__init__(daemon=True, name=f"follow {name}")
        self.path, self.name_of_copy = path, name
        self._manifest, self._stop_asked, self._pending = manifest, threading.Event(), b""
        self._file = open(opened, "rb", buffering=0)
        stat = os.fstat(self._file.fileno())
        self.identity = (stat.st_dev, stat.st_ino)
        self.moved = False
        self.raw: RawFile = manifest.open(name, "log", path, pid=pid, note=note)
        self.raw.entry.update(deleted=stat.st_nlink == 0, at_path=self._at_path())
        self._skip_to = stat.st_size - (MOST_BYTES - HEAD_BYTES) if stat.st_size > MOST_BYTES else 0
        self._whole = True

    def run(self) -> None:
        while not self._stop_asked.wait(POLL_S) and not self._manifest.full.is_set():
            self._copy()
            self._watch_path()

    def finish(self) -> None:
        """Copy what has come, the last partial line too, and end the capture."""
        self._stop_asked.set()
        self.join()
        self._copy()
        self._watch_path()
        self.raw.write(scrub_bytes(self._pending))
        self._file.close()
        self.raw.close(self._whole)

    def _copy(self) -> None:
        try:
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                self.raw.note(f"the log was truncated after {self._file.tell():,} bytes and read again from its start")
                self._file.seek(0)
            while chunk := self._file.read(CHUNK_BYTES):
                self._take(chunk)
                if self._skip_to and self._file.tell() >= HEAD_BYTES:
                    self._leave_out()
                if self._manifest.full.is_set():
                    return
        except OSError as error:
            self._whole = False
            self.raw.note(f"reading failed: {error.strerror}")
            self._stop_asked.set()

    def _leave_out(self) -> None:
        left_out = self._skip_to - self._file.tell()
        self._skip_to, self._whole = 0, False
        self.raw.note(
            f"{left_out:,} bytes after the first {self._file.tell():,} were left out: the log is larger than {MOST_BYTES:,}"
        )
        self._file.seek(left_out, os.SEEK_CUR)
        self._pending += b"\n"

    def _take(self, chunk: bytes) -> None:
        data, end, out = self._pending + chunk, 0, []
        for piece in _PIECES.finditer(data):
            end = piece.end()
            out.append(scrub_bytes(piece.group()))
        self._pending = data[end:]
        if len(self._pending) > LONGEST_LINE:
            out.append(scrub_bytes(self._pending))
            self._pending = b""
        if out:
            self.raw.write(b"".join(out))

    def _at_path(self) -> bool:
        try:
            stat = os.stat(self.path)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self.identity

    def _watch_path(self) -> None:
        """Say once when the file left its path: people read another file then, or none, while this one goes on."""
        if self.moved or not self.raw.entry["at_path"] or self._at_path():
            return
        self.moved = True
        deleted = os.fstat(self._file.fileno()).st_nlink == 0
        self.raw.entry.update(at_path=False, deleted=deleted)
        another = "another file stands at the path now" if os.path.exists(self.path) else "nothing stands at the path now"
        self.raw.note(
            f"the file at this path was {'deleted' if deleted else 'moved'} during the recording and is followed on; {another}"
        )
