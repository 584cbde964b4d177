"""Find the launch on a host: its process, log and port, from whichever of them is known."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from kit.capture.hosts.host import Host
from kit.capture.logs.sources import parse_source
from kit.capture.manifest import utc_text
from kit.capture.processes import ancestors, launch_root, named, tree_of, writer_of
from kit.errors import EvidenceError, UsageError
from kit.redact import scrub_text
from kit.words import short

_PORT = re.compile(r"(?:^|\s)--?(?:http-)?port[=\s]+(\d{2,5})(?:\s|$)")
_OURS = re.compile(r"(?:^|[/ ])kit (?:collect|guard|triage|watch)(?: |$)")
FIND_S = 45.0
"""Most that finding a launch on a host may take: descriptors of a million processes take half of it."""
MOST_PARENTS = 10
PARENT_CHARACTERS = 400
"""Of a parent's command line so much is kept: it says who started the launch, and the manifest must fit in its reserve."""


@dataclass
class Launch:
    """The launch that is to be recorded: its pid (None where only a log is known), port and log, and how these were found."""

    pid: int | None
    port: int | None
    log: str | None
    remarks: list[str] = field(default_factory=list)


def find_launch(host: Host, pid: int | None, log: str | None = None, port: int | None = None, name: str | None = None) -> Launch:
    """Complete what is known of a launch.

    Examples
    --------
    >>> import os
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> with LocalHost() as host:  # doctest: +ELLIPSIS
    ...     find_launch(host, os.getpid(), None, 8000)
    Launch(pid=..., port=8000, log=None, remarks=[])
    """
    if pid is None and log is None and port is None and name is None:
        raise UsageError(
            "nothing to record",
            "no process, log or port was given",
            f"name one: kit collect {host.name} --pid PID --log FILE --port PORT -o RUN",
        )
    if log is not None and parse_source(log) is not None:
        path, exists = log, True
    else:
        path, exists = look_up(host, log) if log is not None else (None, False)
    launch = Launch(pid, port, path)
    if pid is None:
        _find_process(host, launch, name)
    elif pid not in host.processes.table():
        raise EvidenceError(
            f"no process {pid}",
            "it has ended, the pid belongs to another host or container, or /proc hides it (hidepid)",
            "list processes as root: ps -eo pid,args | grep -i -e vllm -e sglang",
        )
    if launch.pid is None and not exists:
        raise EvidenceError(
            "nothing to record",
            " and ".join(launch.remarks) or "neither the process nor the log exists",
            "look for the process: ps -eo pid,args",
        )
    if launch.pid is not None and launch.port is None:
        found = _PORT.search(" ".join(host.processes.commands([launch.pid]).get(launch.pid, [])))
        if found:
            launch.port = int(found.group(1))
            launch.remarks.append(f"port {launch.port} is in the command line")
    return launch


def look_up(host: Host, log: str) -> tuple[str, bool]:
    """Absolute path of a log on a host, and whether something is there."""
    quoted = shlex.quote(log)
    _, out = host.ask(f"pwd; [ -d {quoted} ] && echo folder; [ -e {quoted} ] && echo there")
    here, *about = out.decode("utf-8", "surrogateescape").split("\n")
    if "folder" in about:
        raise UsageError(f"{log} is a directory", "--log takes one file", f"choose one of its files: ls -t {log}")
    return log if log.startswith("/") else f"{here}/{log}", "there" in about


def _find_process(host: Host, launch: Launch, name: str | None) -> None:
    if launch.log is not None and parse_source(launch.log) is None:
        writer = writer_of(host, launch.log)
        if writer is not None:
            launch.pid = launch_root(host, writer)
            launch.remarks.append(f"process {launch.pid}: it or a child of it writes to {launch.log}")
            return
        launch.remarks.append(f"no visible process writes to {launch.log}")
    if launch.port is not None:
        owner = host.processes.listeners().get(launch.port)
        if owner is not None:
            launch.pid = launch_root(host, owner)
            command = short(scrub_text(" ".join(host.processes.commands([launch.pid]).get(launch.pid, []))), 120)
            # Told with its command, for it may be another program than expected.
            launch.remarks.append(f"process {launch.pid} ({command}): it or a child of it listens on port {launch.port}")
            others = [str(pid) for pid in _asking(host, launch.port) if pid not in tree_of(host, launch.pid)]
            if others:
                launch.remarks.append(f"also asks for port {launch.port}, and does not have it: --pid {', --pid '.join(others)}")
            return
        launch.remarks.append(f"no visible process listens on port {launch.port}")
        asking = _asking(host, launch.port)
        if len(asking) == 1:  # a launch opens its port last
            launch.pid = asking[0]
            launch.remarks.append(f"process {launch.pid}: port {launch.port} is in its command line")
            return
        _refuse_several(host, asking, f"ask for port {launch.port}")
    if name is not None:
        _find_by_name(host, launch, name)


def _find_by_name(host: Host, launch: Launch, name: str) -> None:
    roots = named(host, lambda process, command: name in process.name or name in command)
    _refuse_several(host, roots, f"match {name!r}")
    if roots:
        launch.pid = roots[0]
        launch.remarks.append(f"process {roots[0]}: {name!r} is in its command line")
    else:
        launch.remarks.append(f"no visible process has {name!r} in its command line")


def _asking(host: Host, port: int) -> list[int]:
    """Roots of the launches whose command line asks for a port; another look by the kit is none."""
    return named(host, lambda process, command: f"{port}" in _PORT.findall(command) and not _OURS.search(command))


def _refuse_several(host: Host, roots: list[int], what: str) -> None:
    """One launch is recorded at a time: UsageError that lists them where there are more."""
    if len(roots) > 1:
        commands = host.processes.commands(roots)
        listed = "; ".join(f"{pid}: {_short(commands.get(pid, []))}" for pid in roots[:MOST_PARENTS])
        raise UsageError(f"{len(roots)} launches {what}", listed, "name one by --pid")


def launch_entry(host: Host, launch: Launch) -> dict:
    """What the manifest says about the launch: command, start, and the parents above it (a shell, docker, slurm)."""
    entry: dict = {
        "pid": launch.pid,
        "port": launch.port,
        "log": launch.log,
        "command": [],
        "started_at": None,
        "parents": [],
        "found_by": launch.remarks,
    }
    table = host.processes.table() if launch.pid is not None else {}
    if launch.pid not in table:
        return entry
    parents = ancestors(table, launch.pid)[:MOST_PARENTS]
    commands = host.processes.commands([launch.pid, *parents])
    entry["command"] = commands.get(launch.pid, [])
    entry["start_ticks"] = table[launch.pid].start_ticks
    entry["started_at"] = utc_text(host.processes.started_ns(table[launch.pid]))
    entry["parents"] = [{"pid": pid, "command": _short(commands.get(pid, []))} for pid in parents]
    return entry


def _short(command: list[str]) -> str:
    text = " ".join(command)
    return text if len(text) <= PARENT_CHARACTERS else f"{text[:PARENT_CHARACTERS]} … ({len(text):,} characters)"
