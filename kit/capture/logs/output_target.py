"""Where a process's standard output and error really go, and how to get at what is there."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from kit.capture.hosts.host import Host
from kit.capture.logs.sources import TextSource
from kit.capture.processes import ancestors

CHAIN_MOST = 5
"""Programs in a pipeline that are looked through, as in `launch | sed | tee FILE`."""
HOLDERS = ("tmux", "screen", "sshd", "script", "containerd-shim")
"""Programs that give terminals to others, as their names begin."""
TMUX_S = 5.0
_CONTAINER = re.compile(r"(?:docker[-/]|cri-containerd-|crio-|libpod-|/kubepods[^\n]*/)([0-9a-f]{64})")
_UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
_TERMINAL = re.compile(r"/dev/(?:pts/\d+|tty\w*|console)$")


@dataclass
class Destination:
    """Where one descriptor goes."""

    pid: int
    fd: int
    kind: str
    target: str
    files: list[tuple[str, str]] = field(default_factory=list)
    source: TextSource | None = None
    said: str = ""
    do: str = ""


def destination(host: Host, pid: int, fd: int) -> Destination | None:
    """Find where a descriptor goes; None where it is closed or may not be seen.

    Examples
    --------
    >>> import subprocess
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> process = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    >>> with LocalHost() as host:
    ...     destination(host, process.pid, 1).said
    'to /dev/null: nobody keeps it'
    >>> process.kill(), process.wait()
    (None, -9)
    """
    target = next((one.target for one in host.processes.descriptors(pid) if one.fd == fd), None)
    if target is None:
        return None
    found = Destination(pid, fd, _kind(host, pid, fd, target), target)
    finish = {"pipe": _pipe, "socket": _socket, "terminal": _terminal}.get(found.kind)
    if finish is not None:
        finish(host, found)
    elif found.kind == "null":
        found.said, found.do = "to /dev/null: nobody keeps it", "start the launch with its output in a file"
    elif found.kind == "other":
        found.said, found.do = f"to {target}", "look what reads it"
    else:
        path = target.removesuffix(" (deleted)")
        found.files = [(f"/proc/{pid}/fd/{fd}" if host.abilities.proc else path, path)]
        found.said = f"to the {found.kind} {found.files[0][1]}"
    return found


def _kind(host: Host, pid: int, fd: int, target: str) -> str:
    if target.startswith(("pipe:", "socket:")):
        return target.partition(":")[0]
    if target == "/dev/null":
        return "null"
    if _TERMINAL.match(target):
        return "terminal"
    if not host.abilities.proc:  # psutil names regular files alone
        return "file"
    if host.ask(f"[ -p /proc/{pid}/fd/{fd} ]")[0] == 0:
        return "pipe"  # one with a name: containerd's, mkfifo
    if host.ask(f"[ -f /proc/{pid}/fd/{fd} ]")[0] == 0:
        return "deleted file" if target.endswith(" (deleted)") else "file"
    return "other"


def _pipe(host: Host, found: Destination) -> None:
    """The programs that read it, one after the other; `tee` and its like write files that can be followed."""
    table, target, writers, names = host.processes.table(), found.target, {found.pid}, []
    for _ in range(CHAIN_MOST):
        readers = [one.pid for one in host.processes.descriptors_to(target) if one.target == target and not one.writes]
        reader = next((one for one in readers if one not in writers), None)
        if reader is None:
            break
        name = table[reader].name if reader in table else "a process"
        names.append(f"{name} (process {reader})")
        writers.add(reader)
        opened = host.processes.descriptors(reader)
        # A reader's standard error is no copy, and files that other programs than tee have open may be anything.
        copies = [one for one in opened if one.writes and (one.fd == 1 or one.fd > 2 and name == "tee")]
        files = [one for one in copies if _kind(host, reader, one.fd, one.target) in ("file", "deleted file")]
        found.files += [(f"/proc/{reader}/fd/{one.fd}", one.target.removesuffix(" (deleted)")) for one in files]
        target = next((one.target for one in opened if one.fd == 1), "")
        if files or not target.startswith("pipe:"):
            break
    if found.files:
        found.said = f"to a pipe that {' → '.join(names)} reads and writes to {', '.join(path for _, path in found.files)}"
        return
    found.said = f"to a pipe that {' → '.join(names)} reads" if names else "to a pipe of which no reader can be seen"
    _container_or_unit(host, found)
    if not found.do:
        found.do = f"look where {names[-1]} keeps it" if names else "look as root for the reader: lsof -E"
        if names and (end := target if _TERMINAL.match(target) else ""):
            found.said += f" and shows on {end}"


def _socket(host: Host, found: Destination) -> None:
    """A service's output goes to journald over a socket."""
    _container_or_unit(host, found)
    found.said = f"to a socket, that of journald for {found.source.name}" if found.source else "to a socket"
    found.do = found.do or "look who holds its other end: ss -xp"


def _container_or_unit(host: Host, found: Destination) -> None:
    """The control group tells the container or the unit, and so the command that prints its log."""
    try:
        group = host.read_file(f"/proc/{found.pid}/cgroup").decode("utf-8", "replace")
    except OSError:
        return
    container, unit = _CONTAINER.search(group), _UNIT.search(group)
    if container and ("kubepods" in group or "cri-containerd" in group or "crio" in group):
        pod = _host_name(host, found.pid)
        found.do = f"kubectl logs --timestamps {pod or 'POD'}, or on the node: crictl logs {container[1][:13]}"
        found.source = TextSource("kubectl", pod) if pod else None
    elif container:
        program = "podman" if "libpod" in group else "docker"
        found.do = f"{program} logs --timestamps {container[1][:12]}"
        found.source = TextSource("docker", container[1][:12]) if program == "docker" else None
    elif unit and found.kind == "socket":
        found.source = TextSource("journal", unit[1])
        found.do = shlex.join(found.source.command(follow=False))


def _host_name(host: Host, pid: int) -> str:
    """A pod bears its name as its host name."""
    its_root = f"/proc/{pid}/root"
    try:
        return host.read_file(f"{its_root}/etc/hostname").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _terminal(host: Host, found: Destination) -> None:
    """Who holds the other end: the nearest parent that gives terminals to others."""
    table = host.processes.table()
    names = [table[pid].name.lower() for pid in ancestors(table, found.pid) if pid in table]
    holder = next((one for name in names for one in HOLDERS if name.startswith(one)), "")
    found.said, found.do = f"to the terminal {found.target}", "copy the terminal's scroll-back into a file"
    if holder == "tmux":
        pane = _tmux_pane(host, found.target)
        found.said += f" in tmux{f', pane {pane}' if pane else ''}"
        found.do = f"tmux capture-pane -p -J -S - -t {shlex.quote(pane or 'SESSION')} > server.log"
    elif holder == "screen":
        found.said += " in screen"
        found.do = "screen -X hardcopy -h /tmp/server.log"
    elif holder == "containerd-shim":
        _container_or_unit(host, found)
        found.said += " of a container"
    elif holder == "script":
        found.said += " that `script` records"
        found.do = "copy the file of `script` (typescript, or as named)"
    elif holder == "sshd":
        found.said += " of an SSH login"


def _tmux_pane(host: Host, terminal: str) -> str:
    """Name of the pane with a terminal, as `-t` takes it."""
    if not host.has("tmux"):
        return ""
    ran = host.run(["tmux", "list-panes", "-a", "-F", "#{pane_tty} #{session_name}:#{window_index}.#{pane_index}"], TMUX_S)
    return next((line.partition(" ")[2] for line in ran.text.splitlines() if line.partition(" ")[0] == terminal), "")
