"""Find the launch on this machine: its process, log and port, from whichever of them is known."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from kit.capture.manifest import utc_text
from kit.clock import NS
from kit.errors import EvidenceError, UsageError
from kit.redact import scrub_argv

_PORT = re.compile(r"(?:^|\s)--?(?:http-)?port[=\s]+(\d{2,5})(?:\s|$)")
MOST_PARENTS = 10
PARENT_CHARACTERS = 400
"""Of a parent's command line so much is kept: it says who started the launch, and the manifest must fit in its reserve."""


@dataclass
class Target:
    """The launch that is to be recorded.

    Attributes
    ----------
    pid : int or None
        Process that was launched; None where only a log is known.
    port : int or None
        Port of its server.
    log : Path or None
        Log as given.
    said : list of str
        How the process and the port were found.
    """

    pid: int | None
    port: int | None
    log: Path | None
    said: list[str] = field(default_factory=list)


def find_target(pid: int | None, log: Path | None, port: int | None) -> Target:
    """Complete what is known of a launch.

    Raises
    ------
    UsageError
        Where nothing is given.
    EvidenceError
        Where the process is not there, or nothing that is given leads to something to record.
    """
    if pid is None and log is None and port is None:
        raise UsageError(
            "nothing to record",
            "neither a process nor a log nor a port is given",
            "say which: kit collect local --pid PID --log FILE --port PORT -o RUN",
        )
    if log is not None and log.is_dir():
        raise UsageError(f"{log} is a folder", "one log file is followed", f"choose one of its files: ls -t {log}")
    target = Target(pid, port, log)
    if pid is not None:
        if not Path(f"/proc/{pid}").is_dir():
            raise EvidenceError(
                f"process {pid} is not there",
                "it has ended, or the number is of another host or container",
                "look for it: ps -eo pid,args | grep -i -e vllm -e sglang",
            )
    else:
        _find_process(target)
    if target.pid is None and not (log is not None and log.exists()):
        raise EvidenceError(
            "there is nothing to record",
            " and ".join(target.said) or "neither the process nor the log is there",
            "look for the process: ps -eo pid,args",
        )
    if target.pid is not None and target.port is None:
        found = _PORT.search(" ".join(command_of(target.pid)))
        if found:
            target.port = int(found.group(1))
            target.said.append(f"port {target.port} is in the command line")
    return target


def _find_process(target: Target) -> None:
    if target.log is not None:
        writer = writer_of(target.log)
        if writer is not None:
            target.pid = launch_root(writer)
            target.said.append(f"process {target.pid}: it or a child of it writes to {target.log}")
            return
        target.said.append(f"no process that we may look at writes to {target.log}")
    if target.port is not None:
        owner = listener_of(target.port)
        if owner is not None:
            target.pid = launch_root(owner)
            target.said.append(f"process {target.pid}: it or a child of it listens on port {target.port}")
        else:
            target.said.append(f"no process that we may look at listens on port {target.port}")


def writer_of(log: Path) -> int | None:
    """Process that has a file open for writing, the one with the lowest pid where there are several."""
    try:
        wanted = os.stat(log)
    except OSError:
        return None
    for pid in _pids():
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = f"/proc/{pid}/fd/{fd}"
                stat = os.stat(link)
                if (stat.st_dev, stat.st_ino) == (wanted.st_dev, wanted.st_ino) and os.lstat(link).st_mode & 0o200:
                    return pid
        except OSError:
            continue
    return None


def listener_of(port: int) -> int | None:
    """Process that listens on a TCP port, None where nobody does or where its owner may not be seen."""
    import psutil

    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            return connection.pid
    return None


def launch_root(pid: int) -> int:
    """Climb from a process to the one that was launched: as long as the parent runs the same program and is not ours."""
    ours = {os.getpid(), *ancestors_of(os.getpid())}
    while True:
        parent = _parent(pid)
        if parent <= 1 or parent in ours or not _exe(pid) or _exe(parent) != _exe(pid):
            return pid
        pid = parent


def ancestors_of(pid: int) -> list[int]:
    """Parents of a process, nearest first."""
    found: list[int] = []
    while (pid := _parent(pid)) > 0:
        found.append(pid)
    return found


def tree_of(pid: int) -> list[int]:
    """The process and all its descendants, by psutil."""
    import psutil

    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def command_of(pid: int) -> list[str]:
    """Scrubbed command line, empty where it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0 ").split("\0")
    except OSError:
        return []
    return scrub_argv([word for word in words if word] if len(words) == 1 else words)


def launch_entry(target: Target) -> dict:
    """What the manifest says about the launch: command, start, and the parents above it (a shell, docker, slurm)."""
    entry: dict = {
        "pid": target.pid,
        "port": target.port,
        "log": str(target.log) if target.log else None,
        "command": [],
        "started_at": None,
        "parents": [],
        "found_by": target.said,
    }
    if target.pid is None:
        return entry
    entry["command"], entry["started_at"] = command_of(target.pid), utc_text(started_ns(target.pid))
    entry["parents"] = [{"pid": pid, "command": _short_command(pid)} for pid in ancestors_of(target.pid)[:MOST_PARENTS]]
    return entry


def _short_command(pid: int) -> str:
    text = " ".join(command_of(pid))
    return text if len(text) <= PARENT_CHARACTERS else f"{text[:PARENT_CHARACTERS]} … ({len(text):,} characters)"


def started_ns(pid: int) -> int | None:
    """Start of a process on the wall clock, from its start ticks since boot."""
    try:
        ticks = int(_stat(pid)[19])
    except (OSError, IndexError):
        return None
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ticks * NS // os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except (OSError, IndexError):
        return 0


def _exe(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
