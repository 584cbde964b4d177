"""strace on processes of a launch: attached for some seconds, ended on the host itself, its output scrubbed as it comes."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterable

from kit.capture.hosts.host import Host, HostLost, Stream
from kit.capture.logs.scrub import Scrubber
from kit.capture.manifest import RawFile

STRACE_MOST_BYTES = 64 << 20
LONGEST_LINE = 1 << 20


def attach_words(pids: Iterable[int | str]) -> list[str]:
    """Words that attach strace to processes.

    Examples
    --------
    >>> attach_words([7, 8])
    ['-p', '7', '-p', '8']
    """
    return [word for pid in pids for word in ("-p", str(pid))]


def tracers_of(host: Host, pids: Iterable[int]) -> dict[int, int]:
    """Tracer by traced process: only one fits a process."""
    files = " ".join(f"/proc/{pid}/status" for pid in pids)
    _, out = host.ask(f"grep -H '^TracerPid:' {files} /dev/null")
    found = re.findall(rb"/proc/([0-9]{1,7})/status:TracerPid:\s+([1-9][0-9]{0,6})\b", out)
    return {int(pid): int(tracer) for pid, tracer in found}


class Strace:
    """strace on some processes for some seconds, ended on the host itself by `timeout`; its output scrubbed, with a size cap."""

    def __init__(self, host: Host, words: list[str], raw: RawFile):
        self.raw, self.host, self.cut, self.lost = raw, host, False, False
        # Its pid is told first, so that it can be ended early. `head` is the size cap; it makes /dev/stdout a pipe, too,
        # which a session of sshd may not be.
        command = ["/bin/sh", "-c", 'echo "strace is $$" >&2; exec "$@"', "sh", *words]
        self._stream: Stream = host.start_shell(
            f"LC_ALL=C; export LC_ALL\n{shlex.join(command)} </dev/null | head -c {STRACE_MOST_BYTES}\nexit 0\n"
        )
        self._reader = threading.Thread(target=self._copy, daemon=True, name="strace")
        self._reader.start()

    def _copy(self) -> None:
        size, scrubber = 0, Scrubber()
        try:
            while piece := self._stream.read():
                size += len(piece)
                self.raw.write(scrubber.take(piece))
                if size > STRACE_MOST_BYTES:
                    break
        except (HostLost, OSError, ValueError):
            self.lost = True
        self.raw.write(scrubber.rest())
        self.cut = size >= STRACE_MOST_BYTES

    def finish(self, patience_s: float = 0.0) -> str | None:
        """Wait for its end (at most `patience_s`), end it, close the capture; return the error where it traced nothing."""
        self._reader.join(patience_s)
        errors = self._stream.errors
        if self._reader.is_alive() and (pid := re.search(r"strace is (\d+)", errors)):
            try:
                self.host.ask(f"kill -INT {pid[1]}")
            except HostLost:
                self.lost = True  # it ends there by its own time limit
            self._reader.join(4)
        self._stream.stop()
        self._reader.join(5)
        said = [line for line in self._stream.errors.splitlines() if not re.search("strace is|attached|detached", line)]
        failure = None
        if self.raw.size == 0 and said:
            failure = said[0]
            self.raw.write("".join(line + "\n" for line in said).encode())
        if self.cut:
            self.raw.note(f"ended at {STRACE_MOST_BYTES:,} bytes")
        if self.lost:
            self.raw.note("the connection was lost: the calls after it are missing")
        self.raw.close(whole=not self.cut and not self.lost)
        return failure
