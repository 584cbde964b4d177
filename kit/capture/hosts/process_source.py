"""Where the processes of a host are read: from its /proc by the shell that stays open there, or by psutil on this machine.

Both give the same: the process table, open descriptors, who listens, command lines. What follows from these (the tree of a
launch, its root, who writes to a log) is in `kit.capture.processes`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.capture import redaction
from kit.redact import scrub_argv
from kit.untrusted import LARGEST_PID

if TYPE_CHECKING:
    from kit.capture.hosts.host import Host

ANSWER_S = 10.0
"""Time limit of one request on the shell that stays open, the time on the network included."""
SEARCH_S = 30.0
"""Time limit for reading the descriptors of every process of a host: some microseconds each, and there may be a million."""
READS = {
    "process table": "cat /proc/[0-9]*/stat",
    "page size and ticks": "getconf PAGESIZE || echo 4096; getconf CLK_TCK || echo 100; cat /proc/uptime",
    "descriptors": "ls -l /proc/{pid}/fd",
    "whose file or socket": "ls -l /proc/[0-9]*/fd | grep -F -e /fd: -e {part}",
    "listeners": "grep -h ' 0A ' {net}/tcp {net}/tcp6",
    "programs": "ls -l {links}",
    "our shell": "echo $$",
    "interpreters": (
        "for p in {pids}; do case $(readlink /proc/$p/exe) in */python*|*/pypy*) echo $p;; "
        "*) grep -q libpython /proc/$p/maps 2>/dev/null && echo $p;; esac; done; true"
    ),
}
"""What the shell is asked for on another host. A dry run prints them."""
_STAT = re.compile(r"^([0-9]{1,7}) \((.{0,64}?)\) (\S) ((?:-?[0-9]{1,20} ){20,60}-?[0-9]{1,20}) ?$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"[0-9A-F]{1,32}:([0-9A-F]{4})")
_EXE = re.compile(r"/proc/([0-9]{1,7})/exe")
_CONSTANTS = re.compile(r"\s*([1-9]\d{0,8})\s+([1-9]\d{0,8})\s+(\d{1,12}(?:\.\d{1,9})?)\s")
_LINK = re.compile(r"^l(\S{9})\S* .* (\S+) -> (.*)$")
_COMMANDS = """
import json, signal
signal.alarm({limit})
commands = {{}}
for pid in {pids}:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read().decode("utf-8", "replace").rstrip("\\0 ").split("\\0")
    except OSError:
        continue
    commands[pid] = scrub_argv(words if words != [""] else [])
print(json.dumps(commands))
"""


@dataclass(frozen=True)
class Process:
    """One line of the process table; `start_ticks` since boot tell a pid that was used again."""

    pid: int
    name: str
    state: str
    parent: int
    threads: int
    start_ticks: int
    rss_bytes: int


@dataclass(frozen=True)
class Descriptor:
    """An open descriptor of a process and what it leads to; `writes` where it is open for writing."""

    pid: int
    fd: int
    target: str
    writes: bool


class ProcessSource(ABC):
    """The processes of one host."""

    @abstractmethod
    def table(self) -> dict[int, Process]:
        """All processes that may be seen, by pid."""

    @abstractmethod
    def descriptors(self, pid: int) -> list[Descriptor]:
        """Open descriptors of a process; empty where they may not be seen."""

    @abstractmethod
    def descriptors_to(self, part: str) -> list[Descriptor]:
        """Open descriptors of all processes whose target holds some text, by pid."""

    @abstractmethod
    def listeners(self, pid: int | None = None) -> dict[int, int | None]:
        """Owner by TCP port that is listened on, where a process is or on the host; None for one that may not be seen."""

    @abstractmethod
    def commands(self, pids: list[int]) -> dict[int, list[str]]:
        """Scrubbed command lines by pid."""

    @abstractmethod
    def programs(self, pids: list[int]) -> dict[int, str]:
        """Paths of the running programs by pid, of those that may be seen."""

    @abstractmethod
    def interpreters(self, pids: Iterable[int]) -> list[int]:
        """Those that run a Python interpreter: by their program, else by a mapped libpython."""

    @abstractmethod
    def started_ns(self, process: Process) -> int | None:
        """Start of a process on the host's wall clock, UTC nanoseconds."""

    @abstractmethod
    def own(self) -> set[int]:
        """Our own processes there."""

    @abstractmethod
    def same_file(self, descriptors: list[Descriptor], path: str) -> list[int]:
        """Processes of those descriptors that lead to the file at a path."""


class ProcFiles(ProcessSource):
    """Processes from /proc, by programs that busybox has too."""

    def __init__(self, host: Host):
        self._host = host
        self._constants: tuple[int, int] | None = None

    def _read(self, what: str, timeout_s: float = SEARCH_S, **values: object) -> str:
        return self._host.ask(READS[what].format(**values), timeout_s)[1].decode("utf-8", "replace")

    def _page_and_ticks(self) -> tuple[int, int, float]:
        words = _CONSTANTS.match(self._read("page size and ticks", ANSWER_S))
        return (int(words[1]), int(words[2]), float(words[3])) if words else (4096, 100, 0.0)

    def table(self) -> dict[int, Process]:
        if self._constants is None:
            self._constants = self._page_and_ticks()[:2]
        return parse_stat(self._read("process table"), self._constants[0])

    def descriptors(self, pid: int) -> list[Descriptor]:
        return parse_descriptors(f"/proc/{pid}/fd:\n" + self._read("descriptors", pid=pid))

    def descriptors_to(self, part: str) -> list[Descriptor]:
        found = parse_descriptors(self._read("whose file or socket", part=shlex.quote(part)))
        return sorted(found, key=lambda descriptor: (descriptor.pid, descriptor.fd))

    def listeners(self, pid: int | None = None) -> dict[int, int | None]:
        inodes: dict[int, str] = {}
        for line in self._read("listeners", net=f"/proc/{pid}/net" if pid is not None else "/proc/net").splitlines():
            words = line.split()
            if len(words) > 9 and words[3] == "0A" and (port := _PORT.fullmatch(words[1])):
                inodes.setdefault(int(port[1], 16), words[9])
        owners = {descriptor.target: descriptor.pid for descriptor in reversed(self.descriptors_to("socket:["))} if inodes else {}
        return {port: owners.get(f"socket:[{inode}]") for port, inode in inodes.items()}

    def commands(self, pids: list[int]) -> dict[int, list[str]]:
        """Scrubbed on the host where it has Python, else here before they are written."""
        host = self._host
        if host.abilities.python:
            out = host.ask_python(redaction() + _COMMANDS.format(pids=pids, limit=int(ANSWER_S)), ANSWER_S)
            return parse_commands(out)
        commands = {}
        for pid in pids:
            try:
                words = host.read_file(f"/proc/{pid}/cmdline").decode("utf-8", "replace").rstrip("\0 ").split("\0")
            except OSError:
                continue
            commands[pid] = scrub_argv(words if words != [""] else [])
        return commands

    def programs(self, pids: list[int]) -> dict[int, str]:
        links = " ".join(f"/proc/{pid}/exe" for pid in pids)
        found = filter(None, map(_LINK.match, self._read("programs", ANSWER_S, links=links).splitlines()))
        return {int(place[1]): link[3] for link in found if (place := _EXE.fullmatch(link[2]))}

    def interpreters(self, pids: Iterable[int]) -> list[int]:
        return numbers(self._read("interpreters", ANSWER_S, pids=" ".join(map(str, pids))))

    def started_ns(self, process: Process) -> int | None:
        _, ticks, uptime_s = self._page_and_ticks()
        return self._host.now_ns() - int(uptime_s * 1e9) + process.start_ticks * 10**9 // ticks if uptime_s else None

    def own(self) -> set[int]:
        return set(numbers(self._read("our shell", ANSWER_S)))

    def same_file(self, descriptors: list[Descriptor], path: str) -> list[int]:
        tests = [f"[ /proc/{one.pid}/fd/{one.fd} -ef {shlex.quote(path)} ] && echo {one.pid}" for one in descriptors]
        return numbers(self._host.ask("\n".join(tests), SEARCH_S)[1].decode("ascii", "replace")) if tests else []


def numbers(text: str) -> list[int]:
    """Pids in an answer; what is none is left out.

    Examples
    --------
    >>> numbers("7 x -1 99999999999 8")
    [7, 8]
    """
    return [int(word) for word in text.split() if re.fullmatch(r"[0-9]{1,7}", word) and int(word) <= LARGEST_PID]


def parse_commands(out: bytes) -> dict[int, list[str]]:
    """Command lines by pid, as the script of `commands` prints them; what has another form is left out.

    Examples
    --------
    >>> parse_commands(b'{"7": ["a", "b"], "x": ["c"], "8": 3}'), parse_commands(b"[" * 9999)
    ({7: ['a', 'b']}, {})
    """
    try:
        found = json.loads(out)
    except (ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    fits = {pid: words for pid, words in pairs if isinstance(words, list) and all(isinstance(word, str) for word in words)}
    return {number: words for pid, words in fits.items() for number in numbers(pid)}


def parse_stat(text: str, page_bytes: int = 4096) -> dict[int, Process]:
    r"""Lines of /proc/PID/stat.

    Examples
    --------
    >>> line = "7 (a) b\n) S 1 7 7 0 -1 4194560 1 0 0 0 2 1 0 0 20 0 5 0 900 4096 33 18446744073709551615\n"
    >>> parse_stat(line)[7]
    Process(pid=7, name='a) b\n', state='S', parent=1, threads=5, start_ticks=900, rss_bytes=135168)
    """
    processes = {}
    for line in _STAT.finditer(text):
        rest, pid = line[4].split(), int(line[1])
        parent, threads, start, pages = (int(rest[at]) for at in (0, 16, 18, 20))
        processes[pid] = Process(pid, line[2], line[3], parent, threads, start, pages * page_bytes)
    return processes


def parse_descriptors(listing: str) -> list[Descriptor]:
    """Output of `ls -l` on folders of descriptors.

    Examples
    --------
    >>> parse_descriptors("/proc/7/fd:\\ntotal 0\\nl-wx------ 1 a b 64 Nov 29 17:00 1 -> /srv/my log")
    [Descriptor(pid=7, fd=1, target='/srv/my log', writes=True)]
    """
    descriptors, pid = [], None
    for line in listing.splitlines():
        folder = re.match(r"/proc/([0-9]{1,7})/fd:$", line)
        if folder:
            pid = int(folder[1])
        elif pid is not None and (link := _LINK.match(line)) and re.fullmatch("[0-9]{1,9}", link[2]):
            descriptors.append(Descriptor(pid, int(link[2]), link[3], link[1][1] == "w"))
    return descriptors


class LocalProcesses(ProcessSource):
    """Processes of this machine by psutil, on Linux and macOS. Where there is a /proc, descriptors are all that are open."""

    def __init__(self, proc: bool):
        self.proc = proc

    def table(self) -> dict[int, Process]:
        import psutil

        processes = {}
        wanted = ["pid", "name", "status", "ppid", "num_threads", "create_time", "memory_info"]
        boot, ticks = psutil.boot_time(), os.sysconf("SC_CLK_TCK")
        for process in psutil.process_iter(wanted):
            info = process.info
            processes[process.pid] = Process(
                pid=process.pid,
                name=info["name"] or "",
                state=LETTERS.get(info["status"], "?"),
                parent=info["ppid"] or 0,
                threads=info["num_threads"] or 0,
                start_ticks=round(((info["create_time"] or boot) - boot) * ticks),
                rss_bytes=info["memory_info"].rss if info["memory_info"] else 0,
            )
        return processes

    def descriptors(self, pid: int) -> list[Descriptor]:
        return list(self._links(pid)) if self.proc else self._open_files(pid)

    @staticmethod
    def _links(pid: int) -> Iterable[Descriptor]:
        """By the links in /proc: pipes, sockets, terminals and deleted files too, which psutil leaves out."""
        folder = f"/proc/{pid}/fd"
        try:
            numbers = sorted(map(int, os.listdir(folder)))
        except OSError:
            return
        for fd in numbers:
            try:
                mode = os.lstat(f"{folder}/{fd}").st_mode
                yield Descriptor(pid, fd, os.readlink(f"{folder}/{fd}"), bool(mode & 0o200))
            except OSError:
                continue

    @staticmethod
    def _open_files(pid: int) -> list[Descriptor]:
        import psutil

        try:
            files = psutil.Process(pid).open_files()
        except (psutil.Error, OSError):
            return []
        return [Descriptor(pid, file.fd, file.path, getattr(file, "mode", "a") != "r") for file in files if file.fd >= 0]

    def descriptors_to(self, part: str) -> list[Descriptor]:
        import psutil

        return [found for pid in sorted(psutil.pids()) for found in self.descriptors(pid) if part in found.target]

    def listeners(self, pid: int | None = None) -> dict[int, int | None]:
        import psutil

        owners: dict[int, int | None] = {}
        try:
            sockets = psutil.net_connections("tcp")
        except psutil.AccessDenied:  # macOS shows those of all processes to root alone
            sockets = []
        found = [(socket.laddr.port, socket.pid) for socket in sockets if socket.status == psutil.CONN_LISTEN]
        for process in psutil.process_iter() if not sockets else [psutil.Process(pid)] if psutil.pid_exists(pid or -1) else []:
            try:
                own = process.net_connections("tcp")
            except psutil.Error:
                continue
            found += [(socket.laddr.port, process.pid) for socket in own if socket.status == psutil.CONN_LISTEN]
        for port, owner in found:
            owners[port] = owners.get(port) or owner
        return owners

    def _each(self, pids: Iterable[int], name: str) -> dict:
        """An attribute of psutil's processes by pid, of those that may be seen."""
        import psutil

        values = {}
        for pid in pids:
            try:
                values[pid] = getattr(psutil.Process(pid), name)()
            except (psutil.Error, OSError):
                continue
        return values

    def commands(self, pids: list[int]) -> dict[int, list[str]]:
        return {pid: scrub_argv(words) for pid, words in self._each(pids, "cmdline").items()}

    def programs(self, pids: list[int]) -> dict[int, str]:
        return {pid: path for pid, path in self._each(pids, "exe").items() if path}

    def interpreters(self, pids: Iterable[int]) -> list[int]:
        chosen = list(pids)
        programs = self.programs(chosen)
        return [pid for pid in chosen if re.search(r"/(python|pypy)[^/]*$", programs.get(pid, ""), re.I) or _maps_python(pid)]

    def started_ns(self, process: Process) -> int | None:
        started = self._each([process.pid], "create_time")
        return int(started[process.pid] * 1e9) if started else None

    def own(self) -> set[int]:
        return {os.getpid()}

    def same_file(self, descriptors: list[Descriptor], path: str) -> list[int]:
        pids = []
        for found in descriptors:
            opened = f"/proc/{found.pid}/fd/{found.fd}" if self.proc else found.target
            try:
                if os.path.samefile(opened, path):
                    pids.append(found.pid)
            except OSError:
                continue
        return pids


def _maps_python(pid: int) -> bool:
    try:
        return "libpython" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


LETTERS = {
    "running": "R",
    "sleeping": "S",
    "disk-sleep": "D",
    "stopped": "T",
    "tracing-stop": "t",
    "zombie": "Z",
    "dead": "X",
    "idle": "I",
    "parked": "P",
    "waiting": "S",
    "locked": "S",
}
"""psutil's words for a process's state, as the letters of ps."""
