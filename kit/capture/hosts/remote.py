"""A host that is reached over a connection: all that SSH hosts share, whoever speaks SSH.

Every program is started by one command line that any login shell understands (sh, bash, fish, csh, tcsh, busybox):
`exec /bin/sh -c 'echo MARK; PATH=...; exec PROGRAM'`, with `sudo` before it where that was asked for. What comes before the mark
is noise of the login and no output.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from kit.capture.hosts.host import ANSWER_S, KILL_AFTER_S, Abilities, Host, HostLost, Ran, Shell, Stream, boxed_script, scrubbed
from kit.capture.hosts.remote_files import FileShell, RemoteFile
from kit.errors import EvidenceError
from kit.redact import scrub_text
from kit.tool_table import table

SUDO_S = 30.0
"""How long sudo may take to ask or to let us in: it may look users up in a directory on the network."""
POLL_S = 0.05
CLOCK_ASKED_LEAST, CLOCK_ASKED_MOST, CLOCK_S = 3, 8, 0.1
"""How often the clock is asked, more often where that takes no longer than so; the answer that came quickest is the surest."""
NOISE_KEPT_BYTES = 65_536

_PYTHONS = "python3 /usr/bin/python3 /usr/local/bin/python3 /usr/libexec/platform-python /opt/conda/bin/python3 python".split()
_PYTHON_CLOCK = "import time; print(int(time.time() * 1e9))"


def prepare() -> str:
    """Shell text before every program: where a login that is not a login shell does not look (table of tools)."""
    return f'LC_ALL=C; PATH="$PATH:{":".join(table().paths)}:$HOME/.local/bin"; export LC_ALL PATH'


def abilities_script(pythons: Sequence[str] = _PYTHONS) -> str:
    """Shell text that prints what a host has."""
    return (
        "echo uid $(id -u); echo kernel $(uname -r); echo machine $(uname -m); echo zone $(date +%z)\n"
        'read up rest </proc/uptime && echo uptime "$up"\n'
        f"for p in {' '.join(table().programs)}; do x=$(command -v $p) && echo program $p $x; done\n"
        f"for p in {' '.join(pythons)}; do\n"
        "x=$($p -S -I -c 'import sys, zlib; print(sys.executable if sys.version_info >= (3, 6) else \"\")')"
        ' && [ -n "$x" ] && echo python $x && break\ndone; true'
    )


# What strerror() says in the C locale, lower case for busybox.
_REASONS = {
    "no such file": errno.ENOENT,
    "permission denied": errno.EACCES,
    "is a directory": errno.EISDIR,
    "not a directory": errno.ENOTDIR,
    "directory nonexistent": errno.ENOENT,
    "no such process": errno.ESRCH,
    "operation not permitted": errno.EPERM,
    "illegal seek": errno.ESPIPE,
    "stale file handle": errno.ESTALE,
    "no such device": errno.ENXIO,
    "invalid argument": errno.EINVAL,
    "too many": errno.ELOOP,
}


def os_error(said: str, path: str) -> OSError:
    """The OSError that open() would have raised, from what a shell or a program said in the C locale.

    Examples
    --------
    >>> os_error("sh: 1: cannot open /x: No such file", "/x")
    FileNotFoundError(2, 'No such file or directory')
    """
    text = said.strip().split("\n")[-1]
    for words, code in _REASONS.items():
        if words in text.lower():
            return OSError(code, os.strerror(code), path)
    return OSError(errno.EIO, text or os.strerror(errno.EIO), path)


LAST_WORDS_S = 1.0
"""What a program wrote before it ended is here already."""


class MarkedStream(Stream):
    """A stream whose output begins after a mark; what was before it is kept as `noise`."""

    def __init__(self, inner: Stream, mark: bytes, hidden: Mapping[str, str]):
        self._inner, self._mark, self._hidden = inner, mark, hidden
        self._head = b""
        self.noise = ""

    def begun(self, timeout_s: float) -> bool:
        """Whether the mark was seen; waits for it so long. HostLost where the program ends before."""
        deadline = time.monotonic() + timeout_s
        while self._mark:
            try:
                piece = self._inner.read(max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                return False
            if not piece:
                raise HostLost("the program did not start", self._last_words(), "try the same with: ssh")
            self._head += piece
            before, found, rest = self._head.partition(self._mark)
            if found:
                self.noise, self._head, self._mark = before.decode("utf-8", "replace"), rest, b""
                break
            if len(self._head) > NOISE_KEPT_BYTES:
                self._head = self._head[-NOISE_KEPT_BYTES // 2 :]
            if time.monotonic() > deadline:  # a login that prints without an end never lets a read wait so long
                return False
        return True

    def _last_words(self) -> str:
        said = (self.errors.strip() or self._head.decode("utf-8", "replace").strip()).split("\n")[-1]
        return scrub_text(said) or "the login ended at once"

    def read(self, timeout_s: float | None = None) -> bytes:
        started = time.monotonic()
        if self._mark and not self.begun(3600.0 if timeout_s is None else timeout_s):
            raise TimeoutError
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._inner.read(None if timeout_s is None else max(timeout_s - (time.monotonic() - started), 0.001))

    def send(self, data: bytes) -> None:
        try:
            self._inner.send(data)
        except HostLost:
            if self._mark:
                self.begun(LAST_WORDS_S)  # what it said before it ended tells why it takes no input: HostLost with these words
            raise

    def end_input(self) -> None:
        self._inner.end_input()

    @property
    def errors(self) -> str:
        said = self._inner.errors
        for word, instead in self._hidden.items():
            said = said.replace(word, instead)
        return said

    def count_errors(self, word: str) -> int:
        """How often a word stands in standard error, hidden or not."""
        return self._inner.errors.count(word)

    def wait(self, timeout_s: float) -> int | None:
        return self._inner.wait(timeout_s)

    def stop(self) -> None:
        self._inner.stop()


class RemoteHost(Host):
    """What SSH hosts share. A subclass connects (`_dial`), hangs up (`_hang_up`) and starts a command line (`_execute`)."""

    def __init__(self, name: str, ask: Callable[[str], str], sudo: bool = False):
        super().__init__(name)
        self._prompt, self._wants_sudo, self.pythons = ask, sudo, _PYTHONS
        self.notes: list[str] = []
        self._sudo: list[str] = []
        self._secret = ""
        self._file_shells: list[FileShell] = []
        self._lock = threading.RLock()

    @abstractmethod
    def _dial(self) -> None:
        """Connect and authenticate."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Let go of the connection; never raises."""

    @abstractmethod
    def _execute(self, line: str) -> Stream:
        """Start a command line by the user's login shell."""

    # connecting

    def connect(self) -> None:
        self.close()
        self.notes = []
        self._dial()
        try:
            if self._wants_sudo:
                self._find_sudo()
            self._shell = self._new_shell()
            self.abilities = self._find_abilities()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._lock:
            held, self._file_shells, self._sudo = self._file_shells, [], []
        for one in held:
            one.shell.close()
        super().close()
        self._hang_up()

    def _new_shell(self) -> Shell:
        stream = self._start("/bin/sh -s")
        shell = Shell(stream)
        self.note(stream.noise)
        return shell

    def note(self, text: str) -> None:
        """Keep a remark once, without secrets."""
        text = scrub_text(text.strip())
        if text and text not in self.notes:
            self.notes.append(text)

    def _find_sudo(self) -> None:
        """How to become root there: not at all where we are, without a password where sudo wants none, else by asking for it."""
        shell = self._new_shell()
        try:
            if shell.ask("[ $(id -u) = 0 ]")[0] == 0:
                return
            if shell.ask("sudo -k -n /bin/sh -c true", SUDO_S)[0] == 0:
                self._sudo = ["sudo", "-k", "-n"]
                return
        finally:
            shell.close()
        if not self._secret:
            self._secret = self._prompt(f"[sudo] password for {self.name}: ")
        self._sudo = ["sudo", "-k", "-S", "-p", f"P-{secrets.token_hex(8)}:"]

    # programs

    def _start(self, program: str) -> MarkedStream:
        mark = f"B-{secrets.token_hex(8)}"
        sudo = " ".join([*self._sudo, ""])
        line = f"exec {sudo}/bin/sh -c " + shlex.quote(f"echo {mark}; {prepare()}; exec {program}")
        hidden = {self._secret: "[redacted]", self._sudo[-1]: ""} if self._secret and self._sudo else {}
        stream = MarkedStream(self._execute(line), f"{mark}\n".encode(), hidden)
        if self._sudo:
            try:
                self._unlock(stream)
            except BaseException:
                stream.stop()
                raise
        return stream

    def _unlock(self, stream: MarkedStream) -> None:
        """Answer sudo when it asks, not before: input that is there too early is dropped or reaches the program."""
        prompt, answered, deadline = self._sudo[-1], False, time.monotonic() + SUDO_S
        try:
            while not stream.begun(POLL_S):
                asked = stream.count_errors(prompt)
                if asked and not answered:
                    stream.send(self._secret.encode() + b"\n")
                    answered = True
                elif asked > 1:
                    self._secret = ""
                    raise EvidenceError("sudo refused the password", "it asked again", "try again; check with: sudo -k -v")
                elif time.monotonic() > deadline:
                    raise HostLost("sudo does not answer", f"no answer within {SUDO_S:g} s", "try the same with: ssh")
        except HostLost as error:
            raise EvidenceError("sudo refused", error.why, "see what is allowed with: sudo -l") from error

    def start_shell(self, script: str = "") -> MarkedStream:
        stream = self._start("/bin/sh -s")
        if script:
            stream.send(script.encode("utf-8", "surrogateescape"))
        return stream

    def start_python(self, script: str) -> MarkedStream:
        if not self.abilities.python:
            raise EvidenceError(f"no python3 on {self.name}", "none of 3.6 or later was found", "use the shell instead")
        stream = self._start(f"{shlex.quote(self.abilities.python)} -S -I -")
        stream.send(script.encode())
        stream.end_input()
        return stream

    def run(self, command: Sequence[str], timeout_s: float, first: int = signal.SIGTERM) -> Ran:
        timeout_s = self.limit_s(timeout_s)
        stream = self.start_shell(boxed_script(command, timeout_s, first))
        started = time.monotonic()
        try:
            stream.end_input()
            data, cut = stream.gather(timeout_s + KILL_AFTER_S + self.limit_s(ANSWER_S))
            # Its own limit has passed: either a grandchild holds the output open, or nobody is there.
            if cut == "time" and not data and stream.wait(0) is None:
                why = "a program's time limit passed without a sign"
                raise HostLost(f"{self.name} does not answer", why, "connect again")
            code = stream.wait(self.limit_s(ANSWER_S)) if not cut else None
            errors = stream.errors
        finally:
            stream.stop()
        over = time.monotonic() - started >= timeout_s and code in (None, 128 + first, 128 + signal.SIGKILL)
        text = scrubbed(data)
        return Ran(list(command), code, text, errors, code in (124, 137) or over, cut == "size")

    # small requests

    def _request(self, script: str) -> tuple[int, bytes]:
        """Ask about a file. A request that hangs alone (a dead mount) costs its shell, not the connection."""
        try:
            return self.ask(script)
        except HostLost:
            self.ask("true")  # HostLost again where the host is gone
            raise TimeoutError(errno.ETIMEDOUT, "no answer in time, though the host answers") from None

    def read_file(self, path: str, most: int = 1 << 20) -> bytes:
        quoted = shlex.quote(path)
        status, data = self._request(f"[ ! -d {quoted} ] && head -c {most} <{quoted}")
        if status:
            raise self._reason(quoted, path)
        return data

    def _reason(self, quoted: str, path: str) -> OSError:
        script = f"if [ -d {quoted} ]; then echo Is a directory; else {{ head -c 1 <{quoted} >/dev/null; }} 2>&1; fi"
        return os_error(self._request(script)[1].decode("utf-8", "replace"), path)

    def open_file(self, path: str) -> RemoteFile:
        with self._lock:
            held = next((held for held in self._file_shells if held.free), None)
            if held is None:
                held = FileShell(self._new_shell())
                self._file_shells.append(held)
            status, said, number = held.open(path)
        if status:
            raise os_error(said, path)
        return RemoteFile(self, held, number, path)

    # what is there

    def _find_abilities(self) -> Abilities:
        found, lines = (
            Abilities(),
            self.ask(abilities_script(self.pythons), 3 * ANSWER_S)[1].decode("utf-8", "replace").split("\n"),
        )
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "program":
                name, _, path = rest.partition(" ")
                found.programs[name] = path
            elif word == "uid" and re.fullmatch(r"[0-9]{1,10}", rest):
                found.uid = int(rest)
            elif word == "uptime":
                if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", rest):
                    found.boot_ns = time.time_ns() - int(float(rest) * 1e9)
            elif word == "zone" and (match := re.fullmatch(r"([+-])(\d\d)(\d\d)", rest)):
                sign, hours, minutes = match.groups()
                found.utc_offset_s = int(f"{sign}1") * (int(hours) * 3600 + int(minutes) * 60)
            elif word in ("python", "kernel", "machine"):
                setattr(found, word, rest)
        found.offset_ns, found.offset_error_ns = self._find_offset(found.python)
        found.boot_ns = None if found.boot_ns is None else found.boot_ns + found.offset_ns
        return found

    def _find_offset(self, python: str | None) -> tuple[int, int]:
        """Their wall clock minus ours, and half the way there and back of the quickest of some requests."""
        ways = [("date +%s%N", 1), ("date +%s", 10**9)]
        if python:
            ways.insert(1, (f"{shlex.quote(python)} -S -I -c '{_PYTHON_CLOCK}'", 1))
        return next((found for script, grain_ns in ways if (found := self._ask_clock(script, grain_ns))), (0, 0))

    def _ask_clock(self, script: str, grain_ns: int) -> tuple[int, int] | None:
        """Offset and its error by one way to ask; None where it gives no time, as a `date` that knows no %N."""
        best, begun = None, time.monotonic()
        for number in range(CLOCK_ASKED_MOST):
            if number >= CLOCK_ASKED_LEAST and time.monotonic() - begun > CLOCK_S:
                break
            before = time.time_ns()
            text = self.ask(script)[1].strip()
            after = time.time_ns()
            if not text.isdigit() or len(text) + len(str(grain_ns)) != 20:
                return None
            offset = int(text) * grain_ns + grain_ns // 2 - (before + after) // 2
            found = (after - before + grain_ns) // 2, offset
            best = min(best or found, found)
        return best[1], best[0]
