"""Record the launch of several hosts at once: each into a folder of its own, which together open as one run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    """Record several hosts at the same time; those that cannot be reached are said, and the others are recorded."""
    with ExitStack() as stack:
        found, failed = _connected(hosts, launches, stack, progress)
        if not found:
            raise next(iter(failed.values()))
        make_folder(out)
        first = found[0][0]
        manifest = Manifest(out, __version__, ", ".join(host.name for host, _, _ in found), first.abilities)
        manifest.update(hosts=[{"name": name, "target": host.name} for host, name, _ in found])
        for name, error in failed.items():
            manifest.lacks(f"the evidence of {name}", str(error), "record it again")
        stop = threading.Event()
        recordings = []
        for host, name, launch in found:
            make_folder(out / name)
            say = _with_name(name, progress)
            recordings.append(Recording(host, out / name, launch, options, say, stop.is_set))
        try:
            _record_all(recordings, stop, manifest, until or (lambda: False), progress)
            manifest.finish(manifest.now_ns())
        finally:
            manifest.let_go()
    return out


def _connected(
    hosts: Sequence[Host],
    launches: Sequence[tuple[int | None, str | None, int | None, str | None]],
    stack: ExitStack,
    progress: Callable[[str], None],
) -> tuple[list[tuple[Host, str, Launch]], dict[str, KitError]]:
    """Hosts with their launches, all looked for at once; and why others have none, by name."""

    def connect(host: Host, given: tuple) -> Launch:
        host.connect()
        try:
            with host.within(FIND_S):
                return find_launch(host, *given)
        except BaseException:
            host.close()
            raise

    names = folder_names([host.name for host in hosts])
    found, failed = [], {}
    with ThreadPoolExecutor(len(hosts), thread_name_prefix="connect") as pool:
        tasks = [pool.submit(connect, host, given) for host, given in zip(hosts, launches, strict=True)]
    for host, name, task in zip(hosts, names, tasks, strict=True):
        try:
            launch = task.result()
        except KitError as error:
            failed[name] = error
            progress(f"{name}: not recorded: {error}")
            continue
        stack.callback(host.close)
        found.append((host, name, launch))
        for remark in launch.remarks:
            progress(f"{name}: {remark}")
    return found, failed


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
