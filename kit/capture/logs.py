"""The logs of a launch: the one that is named, and the files behind the process's standard output and error."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

from kit.capture.find import Target
from kit.capture.follow import LogFollower
from kit.capture.host import Host
from kit.capture.manifest import Manifest
from kit.capture.processes import descriptors


class Logs:
    """Follows the logs of a launch into a recording.

    Parameters
    ----------
    host : Host
        Where it runs.
    manifest : Manifest
        Of the recording.
    target : Target
        The launch.
    """

    def __init__(self, host: Host, manifest: Manifest, target: Target):
        self.host, self.manifest, self.target = host, manifest, target
        self.followers: list[LogFollower] = []
        self._seen: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """Open and follow what there is; say what is no file."""
        pid, log = self.target.pid, self.target.log
        if log is not None:
            self._follow(log, log, PurePosixPath(log).name, None)
        opened = {one.fd: one.target for one in descriptors(self.host, pid)} if pid is not None else {}
        for fd in (1, 2):
            path = opened.get(fd)
            if path is None:
                continue
            plain = path.removesuffix(" (deleted)")
            if self.host.ask(f"[ -f /proc/{pid}/fd/{fd} ]")[0] == 0:
                name = PurePosixPath(plain).name
                name = f"{name}.fd{fd}.log" if log else name
                if self._follow(f"/proc/{pid}/fd/{fd}", plain, name, pid) and plain == log:
                    self.followers[0].raw.note(f"process {pid} does not write to this file: its descriptor {fd} goes to {path}")
            elif log is None and path != "/dev/null":
                self.manifest.lacks(
                    f"what process {pid} writes to descriptor {fd}",
                    f"it goes to {path}, not to a file",
                    "add what its reader kept: docker logs, journalctl -u, kubectl logs, the terminal's scroll-back",
                )

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
            follower = LogFollower(self.manifest, self.host, opened, path, name, pid, note)
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
