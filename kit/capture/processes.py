"""Processes of a host, from /proc: who is whose parent, who listens on a port, who writes to a file, with which command.

Each function asks the shell that stays open on the host, with programs that busybox has too. The same is read on this machine.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from kit.capture.hosts.host import ANSWER_S, Host
from kit.redact import scrub_argv

SEARCH_S = 30.0
"""Time limit for reading the descriptors of every process of a host: some microseconds each, and there may be a million."""
COMMANDS_S = 10.0
_STAT = re.compile(r"^(\d+) \((.*?)\) (\S) ((?:-?\d+ ?){20,})$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"^l(\S{9})\S* .* (\S+) -> (.*)$")
_COMMANDS = """
import json, signal
signal.alarm({limit})
found = {{}}
for pid in {pids}:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read().decode("utf-8", "replace").rstrip("\\0 ").split("\\0")
    except OSError:
        continue
    found[pid] = scrub_argv(words if words != [""] else [])
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Process:
    """One line of the process table: pid of its parent, state, number of threads, start since boot in ticks, resident pages."""

    pid: int
    name: str
    state: str
    parent: int
    threads: int
    start_ticks: int
    rss_pages: int


@dataclass(frozen=True)
class Descriptor:
    """An open descriptor of a process and what it leads to; `writes` where it is open for writing."""

    pid: int
    fd: int
    target: str
    writes: bool


def process_table(host: Host) -> dict[int, Process]:
    """All processes that may be seen, by pid.

    Examples
    --------
    >>> import os
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> with LocalHost() as host:
    ...     process_table(host)[os.getpid()].parent == os.getppid()
    True
    """
    return _parse_stat(_text(host, "cat /proc/[0-9]*/stat", SEARCH_S))


def _parse_stat(text: str) -> dict[int, Process]:
    r"""Lines of /proc/PID/stat.

    Examples
    --------
    >>> line = "7 (a) b\n) S 1 7 7 0 -1 4194560 1 0 0 0 2 1 0 0 20 0 5 0 900 4096 33 18446744073709551615\n"
    >>> _parse_stat(line)[7]
    Process(pid=7, name='a) b\n', state='S', parent=1, threads=5, start_ticks=900, rss_pages=33)
    """
    table = {}
    for found in _STAT.finditer(text):
        rest = found[4].split()
        pid = int(found[1])
        table[pid] = Process(pid, found[2], found[3], int(rest[0]), int(rest[16]), int(rest[18]), int(rest[20]))
    return table


def tree_of(host: Host, pid: int | None) -> list[int]:
    """The process and all its descendants, lowest pid of each generation first; empty where it is gone."""
    return descendants(process_table(host), pid) if pid is not None else []


def descendants(table: dict[int, Process], pid: int) -> list[int]:
    """The process and all its descendants in a process table.

    Examples
    --------
    >>> table = {pid: Process(pid, "a", "S", parent, 1, pid, 1) for pid, parent in ((5, 1), (6, 5), (7, 6), (8, 1))}
    >>> descendants(table, 5), descendants(table, 9)
    ([5, 6, 7], [])
    """
    if pid not in table:
        return []
    found = [pid]
    for one in found:
        began = table[one].start_ticks  # a child that is older has a parent that took over the number
        found += sorted(p.pid for p in table.values() if p.parent == one != p.pid and p.start_ticks >= began)
    return found


def ancestors(table: dict[int, Process], pid: int) -> list[int]:
    """Parents of a process, nearest first."""
    found: list[int] = []
    while pid in table and (pid := table[pid].parent) > 0 and pid not in found:
        found.append(pid)
    return found


def launch_root(host: Host, pid: int) -> int:
    """Climb from a process to the one that was launched: as long as the parent runs the same program and is not ours."""
    table = process_table(host)
    ours = _text(host, "echo $$").split()
    not_launched = {1, *(int(own) for own in ours), *(parent for own in ours for parent in ancestors(table, int(own)))}
    line = [pid, *ancestors(table, pid)]
    links = " ".join(f"/proc/{one}/exe" for one in line)
    exes = {found[2]: found[3] for found in map(_LINK.match, _text(host, f"ls -l {links}").splitlines()) if found}
    for child, parent in zip(line, line[1:], strict=False):
        same = exes.get(f"/proc/{parent}/exe") == exes.get(f"/proc/{child}/exe", "")
        if parent in not_launched or not same:
            return child
    return line[-1]


def descriptors(host: Host, pid: int) -> list[Descriptor]:
    """Open descriptors of a process; empty where they may not be seen."""
    return _parse_descriptors(f"/proc/{pid}/fd:\n" + _text(host, f"ls -l /proc/{pid}/fd", SEARCH_S))


def descriptors_to(host: Host, part: str) -> list[Descriptor]:
    """Open descriptors of all processes whose target holds some text, by pid."""
    listing = f"ls -l /proc/[0-9]*/fd | grep -F -e /fd: -e {shlex.quote(part)}"
    return sorted(_parse_descriptors(_text(host, listing, SEARCH_S)), key=lambda one: (one.pid, one.fd))


def _parse_descriptors(listing: str) -> list[Descriptor]:
    """Output of `ls -l` on folders of descriptors.

    Examples
    --------
    >>> _parse_descriptors("/proc/7/fd:\\ntotal 0\\nl-wx------ 1 a b 64 Nov 29 17:00 1 -> /srv/my log")
    [Descriptor(pid=7, fd=1, target='/srv/my log', writes=True)]
    """
    found, pid = [], None
    for line in listing.splitlines():
        folder = re.match(r"/proc/(\d+)/fd:$", line)
        if folder:
            pid = int(folder[1])
        elif pid is not None and (link := _LINK.match(line)) and link[2].isdigit():
            found.append(Descriptor(pid, int(link[2]), link[3], link[1][1] == "w"))
    return found


def writer_of(host: Host, log: str) -> int | None:
    """Process that has a file open for writing, the one with the lowest pid where there are several."""
    real = _text(host, f"readlink -f {shlex.quote(log)}").strip("\n") or log
    open_for_writing = [one for one in descriptors_to(host, real.rsplit("/", 1)[-1]) if one.writes]
    tests = [f"[ /proc/{one.pid}/fd/{one.fd} -ef {shlex.quote(log)} ] && echo {one.pid}" for one in open_for_writing]
    found = _text(host, "\n".join(tests), SEARCH_S).split() if tests else []
    return min(map(int, found)) if found else None


def listening(host: Host, pid: int | None = None) -> dict[int, str]:
    """Socket inode by TCP port that is listened on, in the network namespace of a process or in that of the host."""
    folder = f"/proc/{pid}/net" if pid is not None else "/proc/net"
    found = {}
    for line in _text(host, f"grep -h ' 0A ' {folder}/tcp {folder}/tcp6", SEARCH_S).splitlines():
        words = line.split()
        if len(words) > 9 and words[3] == "0A":
            found.setdefault(int(words[1].rpartition(":")[2], 16), words[9])
    return found


def listener_of(host: Host, port: int, pid: int | None = None) -> int | None:
    """Process that listens on a TCP port, None where nobody does or where its owner may not be seen."""
    inode = listening(host, pid).get(port)
    owners = descriptors_to(host, f"socket:[{inode}]") if inode else []
    return owners[0].pid if owners else None


def ports_of(host: Host, pid: int) -> list[int]:
    """TCP ports that a process listens on, lowest first."""
    sockets = {one.target for one in descriptors(host, pid)}
    return sorted(port for port, inode in listening(host, pid).items() if f"socket:[{inode}]" in sockets)


def commands_of(host: Host, pids: list[int]) -> dict[int, list[str]]:
    """Scrubbed command lines by pid: scrubbed on the host where it has Python, else here before they are written."""
    if host.abilities.python:
        redact = (Path(__file__).resolve().parent.parent / "redact.py").read_text(encoding="utf-8")
        out = host.ask_python(redact + _COMMANDS.format(pids=pids, limit=int(COMMANDS_S)), COMMANDS_S)
        try:
            return {int(pid): words for pid, words in json.loads(out).items()}
        except ValueError:
            return {}
    found = {}
    for pid in pids:
        try:
            words = host.read_file(f"/proc/{pid}/cmdline").decode("utf-8", "replace").rstrip("\0 ").split("\0")
        except OSError:
            continue
        found[pid] = scrub_argv(words if words != [""] else [])
    return found


def started_ns(host: Host, start_ticks: int) -> int | None:
    """Start of a process on the host's wall clock, UTC nanoseconds, from its start ticks since boot."""
    words = _text(host, "cat /proc/uptime; getconf CLK_TCK || echo 100").split()
    if len(words) < 3:
        return None
    return host.now_ns() - int(float(words[0]) * 1e9) + start_ticks * 10**9 // int(words[2])


def _text(host: Host, script: str, timeout_s: float = ANSWER_S) -> str:
    return host.ask(script, timeout_s)[1].decode("utf-8", "replace")
