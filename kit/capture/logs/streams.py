"""The logs of a launch: the one that is named, and the files behind the process's standard output and error."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

from kit.capture.find import Launch
from kit.capture.hosts.host import Host
from kit.capture.logs.follow import LogFollower
from kit.capture.logs.output_target import Destination, destination
from kit.capture.logs.sources import SourceFollower, TextSource, parse_source
from kit.capture.manifest import Manifest
from kit.capture.waiting import CLOCK, Clock
from kit.clock import NS

BEFORE_NS = 60 * NS
"""What a container or unit printed so long before the launched process began belongs to the launch: its start script."""


class Logs:
    """Follows the logs of a launch into a recording."""

    def __init__(self, host: Host, manifest: Manifest, launch: Launch, clock: Clock = CLOCK):
        self.clock = clock
        self.host, self.manifest, self.launch = host, manifest, launch
        self.followers: list[LogFollower | SourceFollower] = []
        self._seen: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """Open and follow what there is; say what is no file."""
        pid, log = self.launch.pid, self.launch.log
        source = parse_source(log) if log is not None else None
        if source is not None:
            self._print(source)
        elif log is not None:
            self._follow(log, log, PurePosixPath(log).name, None)
        for found in [destination(self.host, pid, fd) for fd in (1, 2)] if pid is not None else []:
            if found is not None:
                self._follow_destination(found, log)

    def _follow_destination(self, found: Destination, log: str | None) -> None:
        for opened, path in found.files:
            name = PurePosixPath(path).name
            name = f"{name}.fd{found.fd}.log" if log else name
            if self._follow(opened, path, name, found.pid) and path == log:
                self.followers[0].raw.note(
                    f"process {found.pid} does not write to this file: its descriptor {found.fd} goes to {found.target}"
                )
        if found.files or log is not None or found.kind == "null":
            return
        if found.source is not None and self.host.has(found.source.program):
            self._print(found.source)
        else:
            self.manifest.lacks(f"what process {found.pid} writes to descriptor {found.fd}", f"it goes {found.said}", found.do)

    def _print(self, source: TextSource) -> None:
        """Follow what a command prints, from a minute before the launch began."""
        if source.file in {follower.name_of_copy for follower in self.followers}:
            return
        if not self.host.has(source.program):
            self.manifest.lacks(
                f"the log of {source.name}", f"{self.host.name} has no {source.program}", f"record where {source.program} is"
            )
            return
        process = self.host.processes.table().get(self.launch.pid) if self.launch.pid is not None else None
        began_ns = self.host.processes.started_ns(process) if process is not None else None
        since_ns = began_ns - BEFORE_NS if began_ns is not None else None
        follower = SourceFollower(self.manifest, self.host, source, since_ns, self.clock)
        self.followers.append(follower)
        follower.start()

    def _follow(self, opened: str, path: str, name: str, pid: int | None) -> bool:
        """Follow a file; False where it cannot be read or is followed already."""
        note = f"followed through descriptor {opened.rsplit('/', 1)[-1]} of process {pid}" if pid is not None else None
        if path.endswith(".jsonl") or name in {follower.name_of_copy for follower in self.followers}:
            name += ".log"
        try:
            with closing(self.host.open_file(opened)) as file:
                identity = file.stat().identity
            if identity in self._seen:
                return False
            follower = LogFollower(self.manifest, self.host, opened, path, name, pid, note, clock=self.clock)
        except OSError as error:
            self.manifest.lacks(f"the log {path}", f"it cannot be read: {error.strerror}", f"look at it: ls -l {path}")
            return False
        self._seen.add(identity)
        self.followers.append(follower)
        if follower.raw.entry["deleted"]:
            follower.raw.note("this file is deleted: it has no path any more, the process still writes to it")
        follower.start()
        return True

    def end(self) -> None:
        """Take the last lines."""
        for follower in self.followers:
            follower.finish()
