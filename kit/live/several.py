"""Many launches looked at from one machine: each in a thread of its own, so that a slow or dead host holds nobody up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kit.analyse.fleet import Fleet, FleetVerdict, HostFacts, facts_of
from kit.analyse.verdict.live_status import Status
from kit.capture.options import Connection
from kit.capture.together import folder_names
from kit.errors import KitError
from kit.live.options import TriageOptions
from kit.live.triage import triage
from kit.live.watch import Watch
from kit.show.hosts import CONNECTING

GRACE_S = 60.0
"""So much longer than its limit a triage may take, for connecting and for its last judgement; then its host is given up."""
Told = tuple[str, Any]
"""A host, and what it tells: a result, a board, None for its end, or the error that ended it."""


def _each(work: dict[str, Callable[[Callable[[Any], None]], None]]) -> queue.Queue[Told]:
    """Start all in threads that die with this process; what they tell comes in a queue, None when one has ended."""
    told: queue.Queue[Told] = queue.Queue()

    def run(name: str, one: Callable[[Callable[[Any], None]], None]) -> None:
        try:
            one(lambda value: told.put((name, value)))
        except Exception as error:  # told to who waits: what a thread raises is seen by nobody
            told.put((name, error))
        told.put((name, None))

    for name, one in work.items():
        threading.Thread(target=run, args=(name, one), daemon=True, name=f"look {name}").start()
    return told


def triage_each(
    targets: Sequence[str],
    *,
    launch: dict[str, Any],
    out: Path | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    options: TriageOptions,
    connection: Connection,
    progress: Callable[[str], None],
    grace_s: float = GRACE_S,
) -> FleetVerdict:
    """Triage launches on several hosts at once; the odd host is the first line of the answer.

    A host that cannot be reached, or does not answer in time, is said with the reason.
    """
    names = folder_names(targets)

    def look(name: str, target: str) -> Callable[[Callable[[Any], None]], None]:
        def one(tell: Callable[[Any], None]) -> None:
            how: dict[str, Any] = {**launch, "options": options, "connection": connection, "knowledge": knowledge}
            own = out / name if out is not None else None
            tell(triage(target, out=own, progress=lambda text: progress(f"{name}: {text}"), **how))

        return one

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    told = _each({name: look(name, target) for name, target in zip(names, targets, strict=True)})
    found: dict[str, HostFacts] = {}
    waiting, until = set(names), time.monotonic() + options.limit_s + grace_s
    while waiting and (left := until - time.monotonic()) > 0:
        try:
            name, value = told.get(timeout=left)
        except queue.Empty:
            break
        if value is None:
            waiting.discard(name)
        elif isinstance(value, Exception):
            found[name] = HostFacts(
                name, "", error=str(value) if isinstance(value, KitError) else f"{type(value).__name__}: {value}"
            )
        else:
            found[name] = facts_of(name, value.verdict, str(value.path or ""))
    late = f"it did not answer within {options.limit_s + grace_s:.0f} s"
    hosts = [found.get(name) or HostFacts(name, "", error=late) for name in names]
    return Fleet(out or Path("triage"), hosts).verdict()


class WatchEach:
    """Launches on several hosts that are watched at once: `boards` gives the board of whichever host has a new one."""

    def __init__(
        self,
        targets: Sequence[str],
        *,
        launch: dict[str, Any],
        out: Path | None = None,
        limit_s: float | None = None,
        say: Callable[[str, str], None],
        connection: Connection,
    ):
        self.names = folder_names(targets)
        self.shown: dict[str, Status | str] = dict.fromkeys(self.names, CONNECTING)  # the last board, or what was said
        self._targets = dict(zip(self.names, targets, strict=True))
        self._how = {**launch, "limit_s": limit_s, "connection": connection}
        self._out, self._say = out, say
        self._watches: list[Watch] = []
        self._told: queue.Queue[Told] = queue.Queue()
        self._waiting: set[str] = set()
        self._stop = threading.Event()

    def _look(self, name: str) -> Callable[[Callable[[Any], None]], None]:
        def one(tell: Callable[[Any], None]) -> None:
            own = self._out / name if self._out is not None else None
            watch = Watch(self._targets[name], out=own, say=lambda text: self._tell(name, text), **self._how)
            self._watches.append(watch)
            if self._stop.is_set():
                watch.stop()
            for board in watch.boards():
                tell(board)

        return one

    def boards(self) -> Iterator[tuple[str, Status]]:
        """Host and board, as they come; a host that fails is said, and the others go on."""
        if self._out is not None:
            self._out.mkdir(parents=True, exist_ok=True)
        self._told, self._waiting = _each({name: self._look(name) for name in self.names}), set(self.names)
        yield from self.rest()

    def rest(self) -> Iterator[tuple[str, Status]]:
        """The boards that are to come, after `boards` was interrupted."""
        while self._waiting:
            name, value = self._told.get()
            if value is None:
                self._waiting.discard(name)
            elif isinstance(value, Exception):
                self._tell(name, f"not watched: {value}")
            else:
                self.shown[name] = value
                yield name, value

    def _tell(self, name: str, said: str) -> None:
        """Say something of a host; it stands for its board where there is none."""
        if isinstance(self.shown[name], str):
            self.shown[name] = said
        self._say(name, said)

    def stop(self) -> None:
        """End all; `boards` goes on until each has ended in order."""
        self._stop.set()
        for watch in list(self._watches):
            watch.stop()
