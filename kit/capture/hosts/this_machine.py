"""This machine as a host: child processes, open files."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from kit.capture.hosts.host import (
    ERRORS_KEPT_BYTES,
    MOST_OUTPUT_BYTES,
    Abilities,
    FileStat,
    Host,
    HostFile,
    HostLost,
    Ran,
    Stream,
    scrubbed,
)
from kit.capture.hosts.process_source import LocalProcesses
from kit.redact import scrub_text
from kit.tool_table import table

PATIENCE_S = 3.0
"""A program that was told to end gets so long."""


def utc_offset_s() -> int:
    """Seconds that this machine's local time is ahead of UTC."""
    offset = datetime.now().astimezone().utcoffset()
    return int(offset.total_seconds()) if offset else 0


def run_boxed(command: list[str], timeout_s: float, first: int = signal.SIGKILL) -> Ran:
    """Run a program in a process group of its own and end the whole group after a time.

    Examples
    --------
    >>> run_boxed(["echo", "--token", "abc"], 5).text
    '--token [redacted]\\n'
    >>> run_boxed(["sleep", "9"], 0.1).timed_out
    True
    """
    stream = LocalStream(command, environ=dict(os.environ, LC_ALL="C"))
    try:
        stream.end_input()
        data, cut = stream.gather(timeout_s)
        if cut:
            stream.signal(first)
            data += stream.gather(PATIENCE_S, max(MOST_OUTPUT_BYTES - len(data), 0))[0]
        code = stream.wait(0 if cut else PATIENCE_S)
    except BaseException:  # Ctrl-C too: nothing may stay behind
        stream.signal(first)
        raise
    finally:
        stream.stop()
    return Ran(command, code, scrubbed(data), stream.errors, cut == "time", cut == "size")


class LocalStream(Stream):
    """A child process with a session of its own."""

    def __init__(self, command: Sequence[str], script: bytes = b"", environ: dict[str, str] | None = None):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True, bufsize=0
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._errors = b""
        self._listener = threading.Thread(target=self._listen, daemon=True, name="stderr")
        self._listener.start()
        self._stopped = False
        if script:
            # A thread, for a long script may fill the pipe while the program already writes.
            threading.Thread(target=self._feed, args=(script,), daemon=True, name="script").start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _feed(self, script: bytes) -> None:
        try:
            self.send(script)
            self.end_input()
        except HostLost:
            pass  # its end is seen by whoever reads

    def _listen(self) -> None:
        try:
            while piece := self._process.stderr.read(65536):
                self._errors = (self._errors + piece)[-ERRORS_KEPT_BYTES:]
        except ValueError:
            pass  # closed by stop()

    def send(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except (OSError, ValueError) as error:
            raise HostLost("the program does not take its input", str(error), "record again") from error

    def end_input(self) -> None:
        self._process.stdin.close()

    def read(self, timeout_s: float | None = None) -> bytes:
        if not self._selector.select(timeout_s):
            raise TimeoutError
        return os.read(self._process.stdout.fileno(), 1 << 16)

    @property
    def errors(self) -> str:
        return scrub_text(self._errors.decode("utf-8", "replace"))

    def wait(self, timeout_s: float) -> int | None:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._listener.join(1)  # its last words may still be in the pipe
        return code

    def signal(self, number: int) -> None:
        """Send a signal to its process group."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # it sits in the kernel: nothing can be done but to leave its pipes
            self._process.wait(PATIENCE_S)
        self._listener.join(1)
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                pipe.close()
            except OSError:
                pass  # unsent input of a program that is gone


class LocalFile(HostFile):
    """An open file of this machine."""

    def __init__(self, path: str):
        self.path = path
        # what may be a pipe, or a file of the kernel that waits for its next line, is opened without waiting
        self._file = open(path, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))

    def stat(self) -> FileStat:
        return _file_stat(os.fstat(self._file.fileno()))

    def stat_path(self) -> FileStat | None:
        try:
            return _file_stat(os.stat(self.path))
        except OSError:
            return None

    def read(self, offset: int, most: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), most, offset)
        except BlockingIOError:  # /proc/kmsg, when all of it was read
            return b""

    def stream(self, offset: int, most: int) -> Iterator[bytes]:
        while most > 0 and (piece := self.read(offset, min(most, 1 << 20))):
            yield piece
            offset, most = offset + len(piece), most - len(piece)

    def close(self) -> None:
        self._file.close()


def _file_stat(found: os.stat_result) -> FileStat:
    return FileStat(found.st_dev, found.st_ino, found.st_size, found.st_nlink)


class LocalHost(Host):
    """This machine.

    Parameters
    ----------
    proc : bool, optional
        Whether to read /proc; by default where there is one. Without it (macOS) psutil gives what it can.
    """

    def __init__(self, proc: bool | None = None) -> None:
        super().__init__("local")
        self.proc = Path("/proc/self/stat").exists() if proc is None else proc
        self.processes = LocalProcesses(self.proc)

    def connect(self) -> None:
        uname = os.uname()
        beside = os.path.dirname(sys.executable)  # py-spy of the extra `stallkit[stacks]` lies there
        found = {name: shutil.which(name) or name == "py-spy" and shutil.which(name, path=beside) for name in table().programs}
        programs = {name: path for name, path in found.items() if path}
        up_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
        self.abilities = Abilities(
            python=sys.executable,
            programs=programs,
            system="linux" if self.proc else "darwin",
            proc=self.proc,
            uid=os.getuid(),
            kernel=uname.release,
            machine=uname.machine,
            boot_ns=None if up_ns is None else time.time_ns() - up_ns,
            utc_offset_s=utc_offset_s(),
        )

    def start_shell(self, script: str = "") -> LocalStream:
        stream = LocalStream(["/bin/sh", "-s"])
        if script:
            stream.send(script.encode("utf-8", "surrogateescape"))
        return stream

    def start_python(self, script: str) -> LocalStream:
        return LocalStream([sys.executable, "-S", "-I", "-"], script.encode())

    def open_file(self, path: str) -> LocalFile:
        return LocalFile(path)

    def read_file(self, path: str, most: int = 1 << 20) -> bytes:
        with open(path, "rb", buffering=0) as file:
            data = b""
            while len(data) < most and (piece := file.read(most - len(data))):
                data += piece
        return data

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def run(self, command: Sequence[str], timeout_s: float, first: int = signal.SIGTERM) -> Ran:
        return run_boxed(list(command), self.limit_s(timeout_s), first)
