"""Follow a log on a host from its start: by its open file, so that deletion and rotation lose nothing, scrubbed on the way."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from kit.capture.hosts.host import Host, HostFile, HostLost
from kit.capture.logs.scrub import Scrubber
from kit.capture.manifest import Manifest, RawFile
from kit.capture.waiting import CLOCK, Clock

POLL_S = 0.2
"""Time between two looks at a log of this machine."""
REMOTE_POLL_S = 1.0
"""And of another host, where each look costs a way there and back."""
CHUNK_BYTES = 1 << 20
STREAM_FROM_BYTES = 1 << 18
"""So much is worth a channel of its own: a small request brings 128 KiB, and takes a way there and back."""
MOST_BYTES = 512 << 20
"""Of a larger log the first `HEAD_BYTES` and the end are copied, and the manifest says what was left out."""
MOST_COPIED_BYTES = 2 * MOST_BYTES
"""A log that grows beyond this while it is followed is followed no further."""
HEAD_BYTES = 16 << 20
TAIL_BYTES = 4096
"""So many bytes before the offset must still be the same: a file that was truncated and has grown again is told by them."""
GROWN_BYTES = 16 << 20
END_S = 5.0
"""The last lines of a log may take so long once a recording ends: a log may grow without an end, or come in drops."""
ALIKE_BYTES = 64
"""A copy that ends before the offset must share so many bytes at least."""
MOST_OPEN = 4
"""A file that left the path may be written to for long. Of several, the latest are watched."""
MOST_CANDIDATES = 20


def list_command(folder: str) -> list[str]:
    """The command that lists a folder, newest first."""
    return ["ls", "-1at", folder]


def rotated_copies(host: Host, path: str) -> list[str]:
    """Files that a log may have been renamed or copied to: those of its folder whose name begins with its own, newest first.

    Examples
    --------
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> rotated_copies(LocalHost(), "/no/such/folder/server.log")
    []
    """
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    ran = host.run(list_command(folder), 10)
    names = [found for found in ran.text.split("\n") if found.startswith(name) and found != name and "/" not in found]
    return [str(PurePosixPath(folder) / found) for found in names][:MOST_CANDIDATES]


def generation(path: str, copy: str) -> bool:
    """Whether a file's name says that it is an earlier generation of a log, as logrotate and Python's handlers name them.

    Examples
    --------
    >>> [generation("a.log", copy) for copy in ("a.log.1", "a.log-20260218", "a.log.2026-02-18_02", "a.log.lock", "a.log.1.gz")]
    [True, True, True, False, False]
    """
    return re.fullmatch(r"[.-]\d[\d._:T-]*", copy.removeprefix(path)) is not None


def opened_or_none(host: Host, path: str) -> HostFile | None:
    """A file held open, None where it cannot be."""
    try:
        return host.open_file(path)
    except HostLost:
        raise
    except OSError:
        return None


def let_go(file: HostFile) -> None:
    """Close a file, also one of a connection that is gone."""
    try:
        file.close()
    except HostLost:
        pass


def blocks(
    file: HostFile, offset: int, size: int, ended: Callable[[], bool] = lambda: False, beyond: int | None = None
) -> Iterator[bytes]:
    """A file's bytes from an offset to its end, a MiB at a time; its size tells whether a stream is worth its start.

    A file that grows meanwhile is read so far beyond its size at most (`GROWN_BYTES`), for it may grow faster than it is read,
    and a host may tell any size; `ended` says that there is no more time.
    """
    most = size + (GROWN_BYTES if beyond is None else beyond)
    pieces: list[bytes] = []
    for piece in file.stream(offset, size - offset) if size - offset > STREAM_FROM_BYTES else ():
        pieces.append(piece)
        offset += len(piece)
        if sum(map(len, pieces)) >= CHUNK_BYTES:
            yield b"".join(pieces)
            pieces = []
        if ended():
            break
    if pieces:
        yield b"".join(pieces)
    while not ended() and offset < most and (block := file.read(offset, min(CHUNK_BYTES, most - offset))):
        offset += len(block)
        yield block


class FollowedFile:
    """One file that is, or was, at the path: held open, and copied up to `offset`."""

    def __init__(self, host: Host, file: HostFile, raw: RawFile, path: str):
        self.file, self.raw, self.path = file, raw, path
        self.offset, self.tail, self.whole = 0, b"", True
        self._host, self._scrubber = host, Scrubber()
        self._sure, self._grew_back_from = True, 0
        self._first = True
        """What stood there already says not when it was written."""
        stat = file.stat()
        self.identity = stat.identity
        self._skip_to = stat.size - (MOST_BYTES - HEAD_BYTES) if stat.size > MOST_BYTES else 0

    def copy(self, ended: Callable[[], bool]) -> None:
        """Copy what has come since the last time, until there is no more room or time."""
        size = self.file.stat().size
        if size == self.offset and self._sure:
            return
        if size < self.offset or self.file.read(self.offset - len(self.tail), len(self.tail)) != self.tail:
            self._truncated()
            size = self.file.stat().size
        self._sure = True
        first = self._first
        self._first = False
        # No further than it was when its tail was compared: what stands behind that may be of a file that was truncated since.
        for block in blocks(self.file, self.offset, size, ended, beyond=0):
            if not first:
                self.raw.grew()
            if self._grew_back_from and self.offset == 0 and block[:1] == b"\0":
                self._skip_hole()
                return self.copy(ended)
            self._take(block)
            if self._skip_to and self.offset >= HEAD_BYTES:
                self._leave_out()
                return self.copy(ended)
            if ended() or self.raw.size > MOST_COPIED_BYTES:
                return

    def adopt(self, file: HostFile) -> None:
        """Go on with the same file, opened anew; what was read of it is compared first."""
        let_go(self.file)
        self.file, self._sure, self.identity = file, False, file.stat().identity

    def holds_the_same(self, file: HostFile) -> bool:
        """Whether a file has what was read last at the same place, or ends before that and is the same up to there."""
        there = file.read(self.offset - len(self.tail), len(self.tail))
        return len(there) >= min(len(self.tail), ALIKE_BYTES) and self.tail.startswith(there)

    def end(self) -> None:
        """Write the last line, which has no end, and close."""
        self.raw.write(self._scrubber.rest())
        let_go(self.file)
        self.raw.close(self.whole)

    def lacks(self, text: str) -> None:
        """Say that something is missing."""
        self.whole = False
        self.raw.note(text)

    def _take(self, block: bytes) -> None:
        self.offset += len(block)
        self.tail = (self.tail + block[-TAIL_BYTES:])[-TAIL_BYTES:]
        self.raw.write(self._scrubber.take(block))

    def _leave_out(self) -> None:
        left_out = self._skip_to - self.offset
        self.lacks(f"{left_out:,} bytes after the first {self.offset:,} were left out: the log is larger than {MOST_BYTES:,}")
        self.offset, self._skip_to = self._skip_to, 0
        self.tail = self.file.read(self.offset - TAIL_BYTES, TAIL_BYTES)
        self.raw.write(self._scrubber.end_line())

    def _truncated(self) -> None:
        """Read again from the start, after what copies hold that were made before (`copytruncate` of logrotate)."""
        before, said = self.offset, f"the log was truncated after {self.offset:,} bytes and read again from its start"
        copies = self._copies_since()
        for copy in copies:
            for block in blocks(copy, self.offset, copy.stat().size):
                self._take(block)
            copy.close()
            self.offset, self.tail = 0, b""
        if copies:
            names = ", ".join(copy.path for copy in copies)
            self.raw.note(f"{said}; what was not read is from {names}; what was written between copy and truncation is in none")
        else:
            self.lacks(f"{said}; what was written between the last look and the truncation is missing, for no copy holds it")
            if self._scrubber.pending:
                self.raw.write(self._scrubber.end_line())
        self.offset, self.tail, self._grew_back_from = 0, b"", before

    def _copies_since(self) -> list[HostFile]:
        """The copy that goes on where we are, and the generations after it, oldest first."""
        found: list[HostFile] = []
        for path in rotated_copies(self._host, self.path):
            copy = opened_or_none(self._host, path)
            if copy is None:
                continue
            if copy.stat().identity != self.identity and self.holds_the_same(copy):
                return [copy, *reversed(found)]
            if generation(self.path, path):
                found.append(copy)
            else:
                copy.close()
        for copy in found:
            copy.close()
        return []

    def _skip_hole(self) -> None:
        """A writer that does not append goes on at its old place: the file begins with zeros that nobody wrote."""
        self.offset, self._grew_back_from = self._grew_back_from, 0
        while block := self.file.read(self.offset, CHUNK_BYTES):
            left = block.lstrip(b"\0")
            self.offset += len(block) - len(left)
            if left:
                break
        self.raw.note(f"after the truncation the file begins with {self.offset:,} zero bytes, which were left out")


class LogFollower(threading.Thread):
    """Copies one log, from its start until `finish`.

    The file is held open, so that a log that is deleted or renamed is copied to its end. Where another file comes to its
    path, that one is followed too, as a capture of its own (`NAME.path.log`, `NAME.path2.log`).

    A lost connection does not end it. It looks at every turn whether the host answers again, which it does once somebody has
    called `Host.connect`, and goes on where it was: with the same inode when the last `TAIL_BYTES` that were read still stand
    before the offset, else with the renamed or copied file that holds them.

    Parameters
    ----------
    manifest : Manifest
        Where the copy is entered.
    host : Host
        Where the log is.
    opened : str or Path
        What to open: the path, or /proc/PID/fd/N for a file that has no path any more.
    path : str
        The path that people know it by.
    name : str
        Name of the copy.
    may_come : bool
        Wait for a file that is not there yet.
    """

    def __init__(
        self,
        manifest: Manifest,
        host: Host,
        opened: str | Path,
        path: str,
        name: str,
        pid: int | None = None,
        note: str | None = None,
        may_come: bool = False,
        clock: Clock = CLOCK,
    ):
        self._clock = clock
        super().__init__(daemon=True, name=f"follow {name}")
        self.path, self.name_of_copy, self.lost = path, name, False
        self._manifest, self._host, self._opened = manifest, host, str(opened)
        self._stop_asked = threading.Event()
        self._end_by = math.inf
        self._parts: list[FollowedFile] = []
        self._others = 0
        try:
            file = self._open()
        except FileNotFoundError:
            if not may_come:
                raise
            file = None
        self.raw: RawFile = manifest.open(name, "log", path, pid=pid, note=note)
        self.raw.entry.update(deleted=False, at_path=False)
        self.identity: tuple[int, int] | None = None
        self._watches_path = file is None or file.path == path
        if file is not None:
            self._begin(file)

    def run(self) -> None:
        poll_s = POLL_S if self._host.name == "local" else REMOTE_POLL_S
        while not self._clock.wait(self._stop_asked, poll_s) and not self._manifest.full.is_set():
            self._look()

    def finish(self) -> None:
        """Copy what has come, the last partial line too, and end the captures."""
        self._end_by = time.monotonic() + END_S
        self._stop_asked.set()
        if self.is_alive():
            self.join()
        with self._host.within(END_S):
            self._look()
        for part in self._parts if self._out_of_time() else ():
            part.lacks(f"the recording ended before the log did: what was written after byte {part.offset:,} is missing")
        if self.lost:
            for part in self._parts:
                part.lacks(f"the connection to the host was lost: what was written after byte {part.offset:,} is missing")
        if not self._parts and self.identity is None:
            self._manifest.lacks(f"the log {self.path}", "no such file came", f"look for it: ls -l {self.path}")
            self.raw.close(False)
        for part in self._parts:
            part.end()
        self._parts.clear()

    def _look(self) -> None:
        """One turn: go on with the files that are open, and see what stands at the path."""
        try:
            if self.lost:
                self._resume()
                self.lost = False
            for part in list(self._parts):
                self._copy(part)
            if self._watches_path:
                self._watch_path()
        except HostLost:
            self.lost = True

    def _out_of_time(self) -> bool:
        return time.monotonic() > self._end_by

    def _copy(self, part: FollowedFile) -> None:
        try:
            part.copy(lambda: self._manifest.full.is_set() or self._out_of_time())
            if part.raw.size > MOST_COPIED_BYTES:
                part.lacks(f"it was followed no further than {part.raw.size:,} bytes")
                self._end(part)
        except HostLost:
            raise
        except OSError as error:
            part.lacks(f"reading failed: {error.strerror}")
            self._end(part)

    def _end(self, part: FollowedFile) -> None:
        self._parts.remove(part)
        part.end()

    # which files

    def _open(self) -> HostFile:
        """The file to follow; by its path where that leads to the same, for such a one says what stands at the path later."""
        file = self._host.open_file(self._opened)
        if self._opened == self.path:
            return file
        at_path = opened_or_none(self._host, self.path)
        if at_path is not None and at_path.stat().identity == file.stat().identity:
            file, at_path = at_path, file
        if at_path is not None:
            at_path.close()
        return file

    def _begin(self, file: HostFile, note: str | None = None) -> None:
        """Follow a file: the first into the capture that stands there already, each other into one of its own."""
        raw = self.raw
        if self.identity is not None:
            self._others += 1
            number = self._others if self._others > 1 else ""
            raw = self._manifest.open(f"{PurePosixPath(self.path).name}.path{number}.log", "log", self.path, note=note)
        part = FollowedFile(self._host, file, raw, self.path)
        raw.entry.update(deleted=file.stat().links == 0, at_path=file.path == self.path)
        self.identity = self.identity or part.identity
        self._parts.append(part)
        if len(self._parts) > MOST_OPEN:
            oldest = self._parts[0]
            self._copy(oldest)
            if oldest in self._parts:
                oldest.raw.note(f"it was not followed beyond this: {MOST_OPEN} newer files came to the path")
                self._end(oldest)

    def _watch_path(self) -> None:
        """Follow another file that came to the path, and say when the one before has left it: people read another then."""
        known = {part.identity for part in self._parts}
        by_path = next((part.file for part in reversed(self._parts) if part.file.path == self.path), None)
        there = by_path.stat_path() if by_path is not None else None
        if there is not None and there.identity in known:
            return
        file = opened_or_none(self._host, self.path) if there is not None or by_path is None else None
        if file is None:
            self._left("the path is now empty" if there is None else "the file now at the path cannot be opened")
        elif file.stat().identity in known:
            file.close()
        else:
            if any(part.raw.entry["at_path"] for part in self._parts):
                self._left("the file now at the path is followed too")
            elif self._parts:  # the path was empty in between
                self._parts[-1].raw.note("a file that came to the path later is followed too")
            first = self.identity is None
            self._begin(file, "this file came to the path during the recording")
            self._copy(self._parts[-1])
            if first:
                self.raw.note("the file came during the recording")

    def _left(self, now: str) -> None:
        for part in self._parts:
            if part.raw.entry["at_path"]:
                deleted = part.file.stat().links == 0
                part.raw.entry.update(at_path=False, deleted=deleted)
                what = "deleted" if deleted else "moved"
                part.raw.note(f"the file at this path was {what} during the recording and is still followed; {now}")

    # after a break

    def _resume(self) -> None:
        """Open again what was open when the connection was lost."""
        copies = rotated_copies(self._host, self.path)
        for part in list(self._parts):
            file = self._find(part, copies)
            if file is None:
                part.lacks(
                    f"the connection was lost, and after it no file here was this one: what was written to it after byte "
                    f"{part.offset:,} is missing (look for it: ls -lt {self.path}*)"
                )
                self._end(part)
                continue
            part.adopt(file)
            part.raw.note(f"the connection was lost after byte {part.offset:,}; copied on from there")
        self._between(copies)

    def _find(self, part: FollowedFile, copies: list[str]) -> HostFile | None:
        """The file that was open: best the same inode with what was read last, else what was read last, else the same inode."""
        best, best_rank = None, 0
        for path in dict.fromkeys((self.path, self._opened, *copies)):
            file = opened_or_none(self._host, path)
            if file is None:
                continue
            stat = file.stat()
            alike = stat.size >= part.offset and part.holds_the_same(file)
            rank = 2 * (alike and bool(part.tail)) + (stat.identity == part.identity)
            if rank > best_rank:
                file, best, best_rank = best, file, rank
            if file is not None:
                file.close()
            if best_rank == 3:
                break
        return best

    def _between(self, copies: list[str]) -> None:
        """Generations that came and went during the break: those newer than the file that was followed."""
        newest = self._parts[-1].file.path if self._parts else None
        if newest not in copies:
            return
        for path in reversed(copies[: copies.index(newest)]):
            file = opened_or_none(self._host, path) if generation(self.path, path) else None
            if file is not None:
                self._begin(file, f"this file came to the path and left it, to {path}, while the connection was lost")
