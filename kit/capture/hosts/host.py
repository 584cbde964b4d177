"""Where evidence is: one interface to this machine and to hosts over SSH.

A host starts two programs only, `/bin/sh -s` and `python3 -S -I -`, with the script on standard input: that works whatever the
login shell is, and nothing is written on the host's disk. Everything else is built on these two.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kit.capture.hosts.process_source import ANSWER_S, ProcessSource, ProcFiles
from kit.capture.logs.scrub import BLOCK_FROM_BYTES, Scrubber
from kit.errors import EvidenceError
from kit.redact import scrub_text

MOST_OUTPUT_BYTES = 16 << 20
"""Of one program's output; `ps` of 100,000 threads prints 10 MB."""
MOST_ANSWER_BYTES = 64 << 20
"""Of one answer of the shell that stays open; /proc/PID/stat of 200,000 processes has so much."""
LEAST_S = 2.0
"""A request that has begun gets so long at least, also where the time that all may take together is over."""
KILL_AFTER_S = 2.0
"""A program that outlives its time limit gets SIGTERM, and SIGKILL so much later."""
ERRORS_KEPT_BYTES = 65_536


class HostLost(EvidenceError):
    """The connection to a host is gone or does not answer."""


@dataclass
class Ran:
    """What a program printed, scrubbed."""

    command: list[str]
    code: int | None
    text: str
    errors: str
    timed_out: bool = False
    cut: bool = False

    @property
    def failure(self) -> str:
        """Why it failed, in its own words."""
        if self.cut:
            return f"it printed more than {MOST_OUTPUT_BYTES:,} bytes and was ended"
        if self.timed_out:
            return "it did not answer within its time limit and was ended"
        return self.errors.strip().split("\n")[-1] or f"exit code {self.code}"


def scrubbed(output: bytes) -> str:
    """What a program printed as text, scrubbed: by lines where it is long, for that is quicker."""
    if len(output) < BLOCK_FROM_BYTES:
        return scrub_text(output.decode("utf-8", "replace"))
    scrubber = Scrubber()
    return (scrubber.take(output) + scrubber.rest()).decode("utf-8", "replace")


@dataclass(frozen=True)
class FileStat:
    """Identity and size of a file: device, inode, size in bytes, names it has (0: deleted)."""

    device: int
    inode: int
    size: int
    links: int

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


@dataclass
class Abilities:
    """What a host has, found once after it was connected."""

    python: str | None = None  # a python3 of 3.6 or later
    programs: dict[str, str] = field(default_factory=dict)  # path by name, of those of the table of tools
    system: str = "linux"
    proc: bool = True
    uid: int = 0
    kernel: str = ""
    machine: str = ""
    boot_ns: int | None = None  # when it was booted, by its own wall clock
    # `offset_ns`, `offset_error_ns`: the host's wall clock minus ours, and how far that may be off (half the way there and back)
    offset_ns: int = 0
    offset_error_ns: int = 0
    utc_offset_s: int = 0


class Stream(ABC):
    """A program that runs on a host."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write to its standard input; HostLost where it is gone."""

    @abstractmethod
    def end_input(self) -> None:
        """Close its standard input."""

    @abstractmethod
    def read(self, timeout_s: float | None = None) -> bytes:
        """Some bytes of its output, b"" at the end; TimeoutError where none come in time."""

    @property
    @abstractmethod
    def errors(self) -> str:
        """What it wrote to standard error so far, the last 64 KiB, scrubbed."""

    @abstractmethod
    def wait(self, timeout_s: float) -> int | None:
        """Exit code, None where it still runs or the code is not known."""

    @abstractmethod
    def stop(self) -> None:
        """End it where it still runs, and let go of everything."""

    def gather(self, timeout_s: float, most: int | None = None) -> tuple[bytes, str]:
        """Its output to the end, and why that is not all of it: `time`, `size`, or nothing."""
        most = MOST_OUTPUT_BYTES if most is None else most
        deadline, pieces, size = time.monotonic() + timeout_s, [], 0
        while (left := deadline - time.monotonic()) > 0:
            try:
                piece = self.read(left)
            except TimeoutError:
                break
            pieces.append(piece[: most - size])
            size += len(piece)
            if not piece or size > most:
                return b"".join(pieces), "size" if piece else ""
        return b"".join(pieces), "time"


class HostFile(ABC):
    """A file held open on a host, so that its deletion loses nothing."""

    path: str

    @abstractmethod
    def stat(self) -> FileStat:
        """Of the open file."""

    @abstractmethod
    def stat_path(self) -> FileStat | None:
        """Of what stands at the path now, None where nothing does."""

    @abstractmethod
    def read(self, offset: int, most: int) -> bytes:
        """Some bytes from there, at most so many, for small requests; b"" at the end."""

    @abstractmethod
    def stream(self, offset: int, most: int) -> Iterator[bytes]:
        """All bytes from there to the end, at most so many, in pieces, as fast as the connection can; HostLost where it ends."""

    @abstractmethod
    def close(self) -> None: ...


class Host(ABC):
    """A machine that holds evidence."""

    def __init__(self, name: str):
        self.name, self.abilities = name, Abilities()
        self.processes: ProcessSource = ProcFiles(self)
        self._shell: Shell | None = None
        self._asking = threading.RLock()
        self._limits = threading.local()

    @abstractmethod
    def start_shell(self, script: str = "") -> Stream:
        """Start `/bin/sh -s` and send it a script; its input stays open."""

    @abstractmethod
    def start_python(self, script: str) -> Stream:
        """Start `python3 -S -I -` with a script and close its input; only where `abilities.python`."""

    @abstractmethod
    def connect(self) -> None:
        """Connect, or connect again after it was lost, and fill `abilities`. HostLost where it cannot be reached."""

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let all that is asked meanwhile take so long together at most: a host may hang, or never stop to answer."""
        before = getattr(self._limits, "until", math.inf)
        self._limits.until = min(before, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._limits.until = before

    @property
    def left_s(self) -> float:
        """What is left of the time that all that this thread asks may take."""
        return getattr(self._limits, "until", math.inf) - time.monotonic()

    def limit_s(self, seconds: float) -> float:
        """Time limit of one request: as it is, or what is left of the time that all may take together."""
        return min(seconds, max(LEAST_S, self.left_s))

    def close(self) -> None:
        """Let go of the shell that stays open. A host closes its connection after it."""
        with self._asking:
            shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()

    def ask(self, script: str, timeout_s: float = ANSWER_S) -> tuple[int, bytes]:
        """Run shell text in a shell that stays open; (exit status, output). HostLost where no answer comes in time."""
        with self._asking:
            try:
                if self._shell is None:
                    self._shell = Shell(self.start_shell(), self.limit_s(timeout_s))
                return self._shell.ask(script, self.limit_s(timeout_s))
            except HostLost:
                Host.close(self)
                raise

    def ask_python(self, script: str, timeout_s: float) -> bytes:
        """Output of a Python script; only where `abilities.python`. HostLost where it does not end in time."""
        stream, timeout_s = self.start_python(script), self.limit_s(timeout_s)
        try:
            data, cut = stream.gather(timeout_s)
        finally:
            stream.stop()
        if cut:
            why = f"a script did not end within {timeout_s:.3g} s" if cut == "time" else "a script's answer does not end"
            raise HostLost(f"{self.name} does not answer", why, "look whether it is up: ping, ssh")
        return data

    def now_ns(self) -> int:
        """The present on its wall clock, UTC nanoseconds."""
        return time.time_ns() + self.abilities.offset_ns

    @abstractmethod
    def open_file(self, path: str) -> HostFile:
        """Hold a file open. OSError as open() raises it (FileNotFoundError, PermissionError, IsADirectoryError)."""

    @abstractmethod
    def read_file(self, path: str, most: int = 1 << 20) -> bytes:
        """A small file, of /proc for example. OSError as open() raises it."""

    @abstractmethod
    def run(self, command: Sequence[str], timeout_s: float, first: int = signal.SIGTERM) -> Ran:
        """Run a program within a time limit that holds on the host itself, also when the connection is lost."""

    def run_each(self, commands: Mapping[int, Sequence[str]], timeout_s: float) -> dict[int, Ran]:
        """Run one command for each process, all started at the same moment, in one session on the host.

        Examples
        --------
        >>> from kit.capture.hosts.this_machine import LocalHost
        >>> with LocalHost() as host:
        ...     {pid: (ran.code, ran.text) for pid, ran in host.run_each({7: ["echo", "a b"], 8: ["false"]}, 5).items()}
        {7: (0, 'a b\\n'), 8: (1, '')}
        """
        boxes = [
            # Each line is printed by one write that a pipe takes whole, so that those of several processes do not mix.
            f"{{ ({boxed_script(command, timeout_s)}) 2>&1; printf '\\nexit %s\\n' $?; }} | "
            f"while IFS= read -r line; do printf '%s %s\\n' {key} \"$line\"; done &\n"
            for key, command in commands.items()
        ]
        stream = self.start_shell("{ " + "".join(boxes) + "wait; } | cat\nexit 0\n")
        texts: dict[str, list[str]] = {str(key): [] for key in commands}
        try:  # what came is kept; a command without its exit code was not ended
            data, _ = stream.gather(self.limit_s(timeout_s) + 10)
        finally:
            stream.stop()
        for line in data.decode("utf-8", "replace").splitlines():
            key, _, text = line.partition(" ")
            if key in texts:
                texts[key].append(text)
        return {key: _ran(list(commands[key]), texts[str(key)]) for key in commands}

    def has(self, program: str) -> bool:
        """Whether a program of the table of tools is there."""
        return program in self.abilities.programs

    def real_path(self, path: str) -> str:
        """A path with its links followed."""
        return self.ask(f"readlink -f {shlex.quote(path)}")[1].decode("utf-8", "surrogateescape").strip("\n") or path

    def __enter__(self) -> Host:
        self.connect()
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


def _ran(command: list[str], lines: list[str]) -> Ran:
    ended = re.match(r"exit (\d{1,3})$", lines[-1]) if lines else None
    code = int(ended[1]) if ended else None
    shown = lines[:-1] if ended else lines
    if ended and shown and not shown[-1]:
        shown = shown[:-1]  # the line end before the exit code, for output that ended in the middle of a line
    text = scrubbed("".join(line + "\n" for line in shown).encode())
    return Ran(command, code, text, text if code else "", code is None or code in (124, 137))


def boxed_script(command: Sequence[str], timeout_s: float, first: int = signal.SIGTERM) -> str:
    """Shell text that runs a program with a time limit: by `timeout` where it is there, else by a watching subshell.

    Examples
    --------
    >>> print(boxed_script(["ps", "-p", "7"], 5))  # doctest: +ELLIPSIS
    LC_ALL=C; export LC_ALL
    if timeout -k 2 1 true 2>/dev/null; then exec timeout -s TERM -k 2 5 ps -p 7 </dev/null; fi
    ...
    """
    name = signal.Signals(first).name[3:]
    words, limit = shlex.join(command), f"{timeout_s:g}"
    return (
        "LC_ALL=C; export LC_ALL\n"
        f"if timeout -k {KILL_AFTER_S:g} 1 true 2>/dev/null; then exec timeout -s {name} -k {KILL_AFTER_S:g} {limit} {words} "
        "</dev/null; fi\n"
        f"{words} </dev/null & p=$!\n"
        f"(sleep {limit}; kill -{name} $p; sleep {KILL_AFTER_S:g}; kill -9 $p) >/dev/null 2>&1 </dev/null & w=$!\n"
        "wait $p; c=$?; kill $w 2>/dev/null; [ $c -gt 128 ] && c=124; exit $c\n"
    )


class Shell:
    """A shell that stays open: one small request takes a way there and back, not a new session. One request at a time."""

    def __init__(self, stream: Stream, timeout_s: float = ANSWER_S):
        self._stream, self._lock, self._kept = stream, threading.Lock(), b""
        try:
            self.noise = self._ask("true", timeout_s)[1].decode("utf-8", "replace")
        except BaseException:
            stream.stop()
            raise

    def ask(self, script: str, timeout_s: float = ANSWER_S) -> tuple[int, bytes]:
        """Run shell text in the same shell; (exit status, output). HostLost where no answer comes in time."""
        status, _, out = self._ask(script, timeout_s)
        return status, out

    def _ask(self, script: str, timeout_s: float = ANSWER_S) -> tuple[int, bytes, bytes]:
        nonce = secrets.token_hex(8)
        begin, end = f"B-{nonce}-".encode(), f"E-{nonce}-".encode()
        # The marks are printed in two pieces: a terminal that echoes its input must not look like an answer.
        text = (
            f"printf '%s%s' 'B-' '{nonce}-'\n{{ {script}\n}} 2>/dev/null </dev/null\nprintf '%s%s%s\\n' 'E-' '{nonce}-' \"$?\"\n"
        )
        with self._lock:
            self._stream.send(text.encode("utf-8", "surrogateescape"))
            deadline, data, seen = time.monotonic() + timeout_s, bytearray(self._kept), 0
            while (at := data.find(end, seen)) < 0 or b"\n" not in data[at:]:
                seen = max(0, len(data) - len(end)) if at < 0 else at
                self._more(data, deadline, timeout_s)
            noise, _, rest = bytes(data).partition(begin)
            out, _, rest = rest.partition(end)
            status, _, self._kept = rest.partition(b"\n")
        return int(status) if re.fullmatch(rb"\d{1,3}", status) else 255, noise, out

    def _more(self, data: bytearray, deadline: float, timeout_s: float) -> None:
        """Add what comes next; HostLost where it comes too late, or there is no end of it."""
        what, do = "the host does not answer", "look whether it is up: ping, ssh"
        try:
            left = deadline - time.monotonic()
            if left < 0 and data:
                raise TimeoutError
            piece = self._stream.read(max(left, 0.01))
        except TimeoutError:
            raise HostLost(what, f"no answer within {timeout_s:.3g} s", do) from None
        if not piece:
            said = self._stream.errors.strip().split("\n")[-1]
            raise HostLost("the shell on the host ended", said or "the connection was closed", "connect again")
        data += piece
        if len(data) > MOST_ANSWER_BYTES:
            raise HostLost(what, f"its answer is longer than {MOST_ANSWER_BYTES:,} bytes", do)

    def close(self) -> None:
        self._stream.stop()
