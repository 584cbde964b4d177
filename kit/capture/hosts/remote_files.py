"""Files held open on a remote host by shells that stay open there.

A POSIX shell names descriptors by one digit, so a shell holds seven files (3 to 9); more files take more shells. What a
descriptor of a shell refers to is read through /proc/PID/fd, so a deleted file stays readable.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kit.capture.hosts.host import ANSWER_S, FileStat, HostFile, HostLost, Shell

if TYPE_CHECKING:
    from kit.capture.hosts.remote import RemoteHost

DESCRIPTORS = range(3, 10)
BLOCK_BYTES = 4096
ANSWER_BYTES = 1 << 17
"""Most that one small read brings; more comes faster over a channel of its own (`stream`)."""
STREAM_BLOCK_BYTES = 1 << 16
_STATED = re.compile(rb"\s*" + rb"\s+".join([rb"([0-9]{1,19})"] * 4) + rb"\s*")
LEAST_BYTES, LEAST_IN_S = 60_000, 60.0
"""A stream that brings less in that time is given up: it would never end."""
OPEN = "command exec {number}<{path}"
STAT = "stat -L -c '%d %i %s %h' {path}"
READ = "dd bs={block} skip={first} count={count} <{file}"
"""What a log is read by. A dry run prints them."""


def stat_script(path: str) -> str:
    """Shell text that prints device, inode, size and names of what stands at a (quoted) path; device 0 where there is no `stat`.

    Examples
    --------
    >>> stat_script("/x").split(" || ")[0]
    "stat -L -c '%d %i %s %h' /x"
    """
    return (
        f'{STAT.format(path=path)} || {{ found=$(ls -iLnd {path}) && set -f && set -- $found && set +f && echo "0 $1 $6 $3"; }}'
    )


class FileShell:
    """A shell on the host that holds up to seven files open."""

    def __init__(self, shell: Shell):
        self.shell = shell
        self.pid = 0  # known with the first file that it holds
        self.free = set(DESCRIPTORS)

    def open(self, path: str) -> tuple[int, str, int]:
        """Open a file: (0 or a failure's status, what the shell said, its descriptor)."""
        number, quoted = min(self.free), shlex.quote(path)
        # `command` keeps the shell alive where the file cannot be opened; a pipe would block it.
        status, said = self.shell.ask(
            f"if [ -d {quoted} ]; then echo Is a directory; false; elif [ -p {quoted} ]; then echo Illegal seek; false\n"
            f"else {{ {OPEN.format(number=number, path=quoted)}; }} 2>&1 && echo $$; fi"
        )
        if not status and (pid := re.fullmatch(rb"\s*([0-9]{1,7})\s*", said)):
            self.free.discard(number)
            self.pid = int(pid[1])
        elif not status:
            status = 255
        return status, said.decode("utf-8", "replace"), number

    def close(self, number: int) -> None:
        """Let go of a descriptor."""
        try:
            self.shell.ask(f"exec {number}<&-")
        except HostLost:
            return  # the files of a shell that is gone are closed
        self.free.add(number)


class RemoteFile(HostFile):
    """A file held open on a remote host. After the connection was lost it raises HostLost; open it anew then."""

    def __init__(self, host: RemoteHost, held: FileShell, number: int, path: str):
        self.path, self._host, self._held, self._number = path, host, held, number
        self._closed = False

    def stat(self) -> FileStat:
        found = self._stat(f"/proc/$$/fd/{self._number}")
        if found is None:
            raise OSError(f"the open file {self.path} cannot be looked at")
        return found

    def stat_path(self) -> FileStat | None:
        return self._stat(shlex.quote(self.path))

    def _stat(self, path: str) -> FileStat | None:
        status, text = self._held.shell.ask(stat_script(path))
        found = _STATED.fullmatch(text)
        return FileStat(*map(int, found.groups())) if not status and found else None

    def read(self, offset: int, most: int) -> bytes:
        first, skip = divmod(offset, BLOCK_BYTES)
        most = min(most, ANSWER_BYTES)
        count = -(-(skip + most) // BLOCK_BYTES)
        script = READ.format(block=BLOCK_BYTES, first=first, count=count, file=f"/proc/$$/fd/{self._number}")
        status, data = self._held.shell.ask(script)
        if status and not data and self.stat().size > offset:
            raise OSError(f"{self.path} cannot be read from byte {offset}")
        return data[skip : skip + most]

    def stream(self, offset: int, most: int) -> Iterator[bytes]:
        first, skip = divmod(offset, STREAM_BLOCK_BYTES)
        count = -(-(skip + most) // STREAM_BLOCK_BYTES)
        path = f"/proc/{self._held.pid}/fd/{self._number}"
        stream = self._host.start_shell(f"exec {READ.format(block=STREAM_BLOCK_BYTES, first=first, count=count, file=path)}\n")
        came, since = 0, time.monotonic()
        try:
            stream.end_input()
            while most > 0 and (piece := stream.read(ANSWER_S)):
                came += len(piece)
                if time.monotonic() - since > LEAST_IN_S:
                    if came < LEAST_BYTES:
                        raise TimeoutError
                    came, since = 0, time.monotonic()
                if skip:
                    skip, piece = max(skip - len(piece), 0), piece[skip:]
                piece = piece[:most]
                most -= len(piece)
                if piece:
                    yield piece
        except TimeoutError:
            why = f"nothing came for {ANSWER_S:g} s, or too little"
            raise HostLost(f"{self._host.name} does not answer", why, "connect again") from None
        finally:
            stream.stop()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._held.close(self._number)
