"""Processes of a launch: its tree, its root, who listens on its port, who writes to its log."""

from __future__ import annotations

import re
from collections.abc import Callable

from kit.capture.hosts.host import Host
from kit.capture.hosts.process_source import Process


def tree_of(host: Host, pid: int | None) -> list[int]:
    """The process and all its descendants, lowest pid of each generation first; empty where it is gone."""
    return descendants(host.processes.table(), pid) if pid is not None else []


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
    members = [pid]
    for member in members:
        began = table[member].start_ticks  # a child that is older has a parent that took over the number
        members += sorted(p.pid for p in table.values() if p.parent == member != p.pid and p.start_ticks >= began)
    return members


def ancestors(table: dict[int, Process], pid: int) -> list[int]:
    """Parents of a process, nearest first."""
    parents: list[int] = []
    while pid in table and (pid := table[pid].parent) > 0 and pid not in parents:
        parents.append(pid)
    return parents


def launch_root(host: Host, pid: int) -> int:
    """Climb from a process to the one that was launched: as long as the parent runs the same program and is not ours."""
    table = host.processes.table()
    own = host.processes.own()
    not_launched = {1, *own, *(parent for pid in own for parent in ancestors(table, pid))}
    line = [pid, *ancestors(table, pid)]
    programs = host.processes.programs(line)
    for child, parent in zip(line, line[1:], strict=False):
        if parent in not_launched or programs.get(parent) != programs.get(child, ""):
            return child
    return line[-1]


def writer_of(host: Host, log: str) -> int | None:
    """Process that has a file open for writing, the one with the lowest pid where there are several."""
    name = host.real_path(log).rsplit("/", 1)[-1]
    candidates = [descriptor for descriptor in host.processes.descriptors_to(name) if descriptor.writes]
    return min(host.processes.same_file(candidates, log), default=None)


_STORE = re.compile(r"--?(?:master|rdzv|nccl|dist|rpc|data-parallel|disaggregation|init)[\w-]*[= ]\S{0,200}?(\d{2,5})(?= |$)")
"""Options of torchrun, vLLM and SGLang for the address of a store, by which the ranks find each other."""


def ports_of(host: Host, pid: int) -> list[int]:
    """TCP ports that a process listens on for clients, lowest first: none that its command line names as that of a store."""
    found = sorted(port for port, owner in host.processes.listeners(pid).items() if owner == pid)
    line = " ".join(host.processes.commands([pid]).get(pid, [])) if found else ""
    stores = {int(port) for port in _STORE.findall(line)}
    return [port for port in found if port not in stores]


def named(host: Host, fits: Callable[[Process, str], bool]) -> list[int]:
    """Roots of the launches of which the process or its command line fits, ours left out."""
    table = host.processes.table()
    own = host.processes.own()
    spared = {*own, *(parent for pid in own for parent in ancestors(table, pid))}
    commands = host.processes.commands([pid for pid in table if pid not in spared])
    matching = {pid for pid, words in commands.items() if fits(table[pid], " ".join(words))}
    return sorted(pid for pid in matching if not matching.intersection(ancestors(table, pid)))
