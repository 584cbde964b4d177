"""Record the launch of several hosts at once: each into a folder of its own, which together open as one run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kit import __version__
from kit.capture.find import FIND_S, Launch, find_launch
from kit.capture.hosts.host import Host
from kit.capture.manifest import Manifest, make_folder
from kit.capture.options import Options
from kit.capture.recording import Recording
from kit.errors import UsageError

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
    """Record several hosts at the same time."""
    names = folder_names([host.name for host in hosts])
    with ExitStack() as stack:
        found: list[Launch] = []
        for host, name, given in zip(hosts, names, launches, strict=True):
            stack.enter_context(host)
            with host.within(FIND_S):
                found.append(find_launch(host, *given))
            for remark in found[-1].remarks:
                progress(f"{name}: {remark}")
        make_folder(out)
        manifest = Manifest(out, __version__, ", ".join(host.name for host in hosts), hosts[0].abilities)
        manifest.update(hosts=[{"name": name, "target": host.name} for host, name in zip(hosts, names, strict=True)])
        stop = threading.Event()
        recordings = []
        for host, name, launch in zip(hosts, names, found, strict=True):
            make_folder(out / name)
            say = _with_name(name, progress)
            recordings.append(Recording(host, out / name, launch, options, say, stop.is_set))
        try:
            _record_all(recordings, stop, manifest, until or (lambda: False), progress)
            manifest.finish(manifest.now_ns())
        finally:
            manifest.let_go()
    return out


def _with_name(name: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: progress(f"{name}: {text}")


def _record_all(
    recordings: list[Recording],
    stop: threading.Event,
    manifest: Manifest,
    until: Callable[[], bool],
    progress: Callable[[str], None],
) -> None:
    """Each in a thread of its own; the first failure is raised once all have ended."""
    failures: list[BaseException] = []

    def record(recording: Recording) -> None:
        try:
            recording.record()
        except BaseException as error:  # handed on to the caller below
            failures.append(error)

    threads = [threading.Thread(target=record, args=(one,), daemon=True, name=f"record {one.host.name}") for one in recordings]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            if until():
                stop.set()
            time.sleep(WAIT_S)
    except KeyboardInterrupt:
        done = time.monotonic() - began
        progress(f"interrupted after {done:.0f} s: ending the recordings (press Ctrl-C again to leave at once)")
        manifest.lacks("the rest of the recordings", f"they were interrupted after {done:.0f} s", "record again")
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
