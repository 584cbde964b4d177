"""A launch that we start ourselves: its output is passed on as it comes, and kept line by line, scrubbed.

The launch gets a session of its own, so that a signal of the terminal reaches us first. Where our output is a terminal it
gets one too, and behaves as it would without us; else it gets a pipe. Standard output and error that go to one place
share one, so that their order is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

import psutil

from kit.capture.logs.scrub import Scrubber
from kit.capture.manifest import RawFile
from kit.errors import UsageError
from kit.folder import private

READ_BYTES = 1 << 16
POLL_MS = 200


class LogKeeper:
    """Writes what a launch prints to a raw file, whole lines only, scrubbed. Used by several threads."""

    def __init__(self, raw: RawFile):
        self._raw, self._lock = raw, threading.Lock()
        self._aside: FileIO | None = None
        self._scrubbers: dict[int, Scrubber] = {}

    def take(self, channel: int, chunk: bytes) -> None:
        """Take what came on a channel."""
        with self._lock:
            self._write(self._scrubbers.setdefault(channel, Scrubber()).take(chunk))

    def divert(self, path: Path) -> None:
        """End the capture. What is printed from now on is the launch's way out, and is kept beside the evidence."""
        with self._lock:
            if self._raw is None:
                return
            self._flush()
            self._raw.close()
            self._raw = None
            with contextlib.suppress(OSError):
                self._aside = open(path, "ab", buffering=0, opener=private)

    def close(self) -> None:
        """Write the last partial lines and end."""
        with self._lock:
            self._flush()
            if self._raw is not None:
                self._raw.close()
                self._raw = None
            if self._aside is not None:
                self._aside.close()
                if os.path.getsize(self._aside.name) == 0:
                    os.unlink(self._aside.name)
                self._aside = None

    def _flush(self) -> None:
        self._write(b"".join(scrubber.rest() for scrubber in self._scrubbers.values()))

    def _write(self, data: bytes) -> None:
        if not data:
            return
        if self._raw is not None:
            self._raw.write(data)
        elif self._aside is not None:
            with contextlib.suppress(OSError):  # no room for it
                self._aside.write(data)


WATCH = 'read -r word && exit; kill -TERM "-$1"; sleep "$2"; kill -KILL "-$1"'
"""What ends a launch whose guard was killed: its input ends then, and says a word where the guard ends in order."""
GRACE_S = 15.0
"""Between SIGTERM and SIGKILL."""


class StartedCommand:
    """A started command. Its process group does not outlive us unasked, not even where we are killed."""

    def __init__(self, command: Sequence[str], out: int = 1, errors: int = 2):
        self._threads: list[threading.Thread] = []
        self._stop, self._dead = threading.Event(), set()
        self._channels: list[tuple[int, int]] = []
        self._terminals: list[tuple[int, int]] = []
        ends = {out: self._channel(out)}
        ends[errors] = ends[out] if _same(out, errors) else self._channel(errors)
        environ = dict(os.environ)
        if len(self._terminals) < len(self._channels):  # Python holds back what it prints into a pipe
            environ.setdefault("PYTHONUNBUFFERED", "1")
        try:
            self._process = subprocess.Popen(
                list(command), stdout=ends[out], stderr=ends[errors], env=environ, start_new_session=True
            )
        except OSError as error:
            for _, read_from in self._channels:
                os.close(read_from)
            raise UsageError(
                f"cannot start {command[0]}", error.strerror or str(error), "give the command as a shell would find it"
            ) from error
        finally:
            for end in set(ends.values()):
                os.close(end)
        watch = ["/bin/sh", "-c", WATCH, "kit-guard", str(self.pid), f"{GRACE_S:g}"]
        null = subprocess.DEVNULL
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True, bufsize=0)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _channel(self, to: int) -> int:
        """Open a terminal or a pipe for what is passed on to a descriptor; return the end for the launch."""
        if os.isatty(to):
            read_from, end = os.openpty()
            modes = termios.tcgetattr(end)
            modes[1] &= ~termios.OPOST  # our own terminal turns \n into \r\n, the log wants none
            termios.tcsetattr(end, termios.TCSANOW, modes)
            self._terminals.append((to, read_from))
            self.resize()
        else:
            read_from, end = os.pipe()
        self._channels.append((to, read_from))
        return end

    def resize(self) -> None:
        """Give its terminals the size of ours."""
        for ours, its in self._terminals:
            with contextlib.suppress(OSError):
                fcntl.ioctl(its, termios.TIOCSWINSZ, fcntl.ioctl(ours, termios.TIOCGWINSZ, b"\0" * 8))

    def pass_on(self, keep: Callable[[int, bytes], None]) -> None:
        """Begin to pass its output on, and to hand it to `keep(channel, bytes)`."""
        for to, read_from in self._channels:
            thread = threading.Thread(target=self._copy, args=(to, read_from, keep), daemon=True, name=f"output {to}")
            thread.start()
            self._threads.append(thread)

    def _copy(self, to: int, read_from: int, keep: Callable[[int, bytes], None]) -> None:
        poll = select.poll()
        poll.register(read_from, select.POLLIN | select.POLLHUP)
        while True:
            if not poll.poll(POLL_MS):
                if self._stop.is_set():
                    return
                continue
            try:
                chunk = os.read(read_from, READ_BYTES)
            except OSError:  # a terminal says so when its last writer is gone
                return
            if not chunk:
                return
            keep(to, chunk)
            self._show(to, chunk)

    def _show(self, to: int, chunk: bytes) -> None:
        """Write to our own output; where nobody reads it any more, go on without."""
        while chunk and to not in self._dead:
            try:
                chunk = chunk[os.write(to, chunk) :]
            except BlockingIOError:
                select.select([], [to], [], 1)
            except OSError:
                self._dead.add(to)

    def signal(self, number: int) -> None:
        """Send a signal to the launch and to all that it started in its group, as a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end; None where it still runs after that time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def drain(self, patience_s: float) -> list[int]:
        """After its end: pass on what is still printed; return the processes that it left behind."""
        end = time.monotonic() + patience_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        left = self.left_behind()
        self.let_go()
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for _, read_from in self._channels:
            os.close(read_from)
        return left

    def let_go(self) -> None:
        """It has ended: what it left behind is told, and lives."""
        told = self._watch.stdin
        if told is not None and not told.closed:
            with contextlib.suppress(OSError):
                told.write(b"done\n")
            told.close()
            self._watch.wait()

    def left_behind(self) -> list[int]:
        """Processes of its session that still run."""
        found = []
        for process in psutil.process_iter(["status"]):
            with contextlib.suppress(OSError):
                ended = process.info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
                if process.pid != self.pid and not ended and os.getsid(process.pid) == self.pid:
                    found.append(process.pid)
        return sorted(found)

    def end(self, patience_s: float) -> int | None:
        """SIGTERM to its group, after a time SIGKILL; None where even that did not end it."""
        self.signal(signal.SIGTERM)
        end = time.monotonic() + patience_s
        while (self.poll() is None or self.left_behind()) and time.monotonic() < end:
            time.sleep(0.1)
        self.signal(signal.SIGKILL)
        return self.wait(5)


def _same(one: int, other: int) -> bool:
    """Whether two descriptors go to one place."""
    try:
        a, b = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
