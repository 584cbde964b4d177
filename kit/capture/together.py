"""Record the launch of several hosts at once: each into a folder of its own, which together open as one run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kit import __version__
from kit.capture.find import FIND_S, find_launch
from kit.capture.hosts.host import Host, HostLost
from kit.capture.manifest import Manifest, make_folder
from kit.capture.options import Options
from kit.capture.recording import Recording
from kit.errors import KitError, UsageError

WAIT_S = 0.2


def folder_names(targets: Sequence[str]) -> list[str]:
    """Name of each host's folder in the run: its name in the target, with a number where two are the same.

    Examples
    --------
    >>> folder_names(["ssh://ada@gpu1:22", "ssh://gpu2", "ssh://gpu1:23", "local"])
    ['gpu1', 'gpu2', 'gpu1-2', 'local']
    """
    names: list[str] = []
    for target in targets:
        host = re.sub(r"[^\w.-]", "_", urlsplit(target).hostname or target)
        same = sum(name == host or name.startswith(f"{host}-") for name in names)
        names.append(f"{host}-{same + 1}" if same else host)
    return names


def one_each(value: Any, count: int, option: str) -> list[Any]:
    """A value for each host, from one for all or one for each.

    Examples
    --------
    >>> one_each(7, 2, "pid"), one_each([7, 8], 2, "pid"), one_each(None, 1, "pid")
    ([7, 7], [7, 8], [None])
    """
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(values) == 1:
        return values * count
    if len(values) != count:
        what, why = f"--{option} was given {len(values)} times for {count} hosts", "it must be given once, or once per host"
        raise UsageError(what, why, "give them in the order of the hosts")
    return values


def collect_together(
    hosts: Sequence[Host],
    out: Path,
    options: Options,
    launches: Sequence[tuple[int | None, str | None, int | None, str | None]],
    progress: Callable[[str], None],
    until: Callable[[], bool] | None = None,
) -> Path:
    """Record several hosts at the same time, each from the moment that it answers; those that cannot be reached are said."""
    together = _Together(out, folder_names([host.name for host in hosts]), options, progress)
    try:
        together.record(dict(zip(together.names, zip(hosts, launches, strict=True), strict=True)), until or (lambda: False))
    finally:
        together.let_go()
    return out


class _Together:
    """Recordings of several hosts, each in a thread of its own, and the manifest of all, made by the first host that answers."""

    def __init__(self, out: Path, names: list[str], options: Options, progress: Callable[[str], None]):
        self.out, self.names, self.options, self.progress = out, names, options, progress
        self.manifest: Manifest | None = None
        self.found: dict[str, Host] = {}
        self.failed: dict[str, KitError] = {}
        self.failures: list[BaseException] = []
        self.stop, self.lock = threading.Event(), threading.Lock()

    def record(self, work: dict[str, tuple[Host, tuple]], until: Callable[[], bool]) -> None:
        """All hosts from begin to end; the first failure is raised once all have ended."""
        threads = {
            name: threading.Thread(target=self._one, args=(name, *given), daemon=True, name=f"record {name}")
            for name, given in work.items()
        }
        began = time.monotonic()
        for thread in threads.values():
            thread.start()
        try:
            while self._wait_for(threads):
                if until():
                    self.stop.set()
                time.sleep(WAIT_S)
        except KeyboardInterrupt:
            done = time.monotonic() - began
            self.progress(f"interrupted after {done:.0f} s: ending the recordings (press Ctrl-C again to leave at once)")
            if self.manifest is not None:
                why = f"they were interrupted after {done:.0f} s"
                self.manifest.lacks("the rest of the recordings", why, "record again")
            self.stop.set()
            while self._wait_for(threads):
                time.sleep(WAIT_S)
        with self.lock:
            for name in [name for name in self.names if name not in self.found and name not in self.failed]:
                self.failed[name] = HostLost(f"{name} did not answer", "the recording ended before", "record it again")
            self._say_failed()
        if self.failures or self.manifest is None:
            raise self.failures[0] if self.failures else next(iter(self.failed.values()))
        self.manifest.finish(self.manifest.now_ns())

    def _wait_for(self, threads: dict[str, threading.Thread]) -> bool:
        """Whether somebody is still at work; once all is to end, a host that has not yet answered is not waited for."""
        return any(thread.is_alive() for name, thread in threads.items() if name in self.found or not self.stop.is_set())

    def _one(self, name: str, host: Host, given: tuple) -> None:
        """Connect a host, find its launch, record it."""
        try:
            try:
                host.connect()
                with host.within(FIND_S):
                    launch = find_launch(host, *given)
            except KitError as error:
                with self.lock:
                    self.failed[name] = error
                    self._say_failed()
                self.progress(f"{name}: not recorded: {error}")
                return
            say = _with_name(name, self.progress)
            for remark in launch.remarks:
                say(remark)
            if self._joins(name, host):
                Recording(host, self.out / name, launch, self.options, say, self.stop.is_set).record()
        except BaseException as error:  # raised by `record`, which waits for all
            self.failures.append(error)
        finally:
            host.close()

    def _joins(self, name: str, host: Host) -> bool:
        """Make the host's folder, and name it in the manifest of all; not where all is to end."""
        with self.lock:
            if self.stop.is_set():
                return False
            if self.manifest is None:
                make_folder(self.out)
                self.manifest = Manifest(self.out, __version__, "", host.abilities)
            make_folder(self.out / name)
            self.found[name] = host
            order = [(one, self.found[one].name) for one in self.names if one in self.found]
            hosts = [{"name": one, "target": target} for one, target in order]
            self.manifest.update(hosts=hosts, target=", ".join(target for _, target in order))
            self._say_failed()
        return True

    def _say_failed(self) -> None:
        """Name in the manifest of all, once there is one, what could not be reached."""
        for name, error in self.failed.items() if self.manifest is not None else ():
            self.manifest.lacks(f"the evidence of {name}", str(error), "record it again")

    def let_go(self) -> None:
        """Let others write to the folder."""
        if self.manifest is not None:
            self.manifest.let_go()


def _with_name(name: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: progress(f"{name}: {text}")
