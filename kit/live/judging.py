"""Judging a recording while it goes on: what `triage`, `watch` and `guard` have in common."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.live_status import LogActivity, Status, status_of
from kit.analyse.verdict.rules import moving_codes
from kit.analyse.verdict.scene import scene_of
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.capture.hosts.host import HostLost
from kit.capture.manifest import utc_text
from kit.capture.processes import tree_of
from kit.capture.recording import Recording
from kit.capture.waiting import CLOCK, Clock
from kit.clock import NS
from kit.live.options import SURE
from kit.open import open_run

WINDOW_S = 25.0
"""Rates are taken over the last seconds: what moved a minute ago may stand by now."""
PAUSE_S = 2.5
"""Least time between two judgements."""
DUTY = 4.0
"""A judgement reads the run from its start: the pause after it is this many times as long as it took."""
_AT_ONCE = threading.BoundedSemaphore(2)
"""A judgement holds its evidence in memory: with 64 launches, that of two at a time."""
FLAT_S = 20.0
"""Evidence must have been flat for so long before a launch is called stalled for good."""


@dataclass
class Snapshot:
    """What a recording says so far."""

    verdict: Verdict
    board: Status
    life: int  # records so far that show life: two judgements with the same number heard nothing new between them
    moves: bool  # a sign of progress holds: something is read, grows, compiles
    took_s: float  # how long the judging took

    @property
    def pause_s(self) -> float:
        """Time until the next judgement, so that judging takes a fifth of one processor at most."""
        return max(PAUSE_S, DUTY * self.took_s)


class QuietTimer:
    """How long nothing has moved, over the judgements of one recording."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._since: float | None = None

    def take(self, judged: Snapshot) -> None:
        """Take the next judgement."""
        if judged.moves:
            self._since = None
        elif self._since is None:
            self._since = self._clock.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since something moved, as far as it was watched."""
        return self._clock.monotonic() - self._since if self._since is not None else 0.0

    def too_early(self, found: Verdict | Status, sure: float = SURE) -> bool:
        """Whether a stall is believed in without enough flat evidence."""
        return found.state == "stalled" and found.confidence < sure and self.seconds < FLAT_S


def judge_so_far(
    recording: Recording, window_s: float = WINDOW_S, most_steps: int = 4, knowledge: Sequence[Path] = ()
) -> Snapshot:
    """Judge what a recording holds by now. Of many launches that are looked at from here, two are judged at a time."""
    with _AT_ONCE:
        return _judged(recording, window_s, most_steps, knowledge)


def _judged(recording: Recording, window_s: float, most_steps: int, knowledge: Sequence[Path]) -> Snapshot:
    clock = recording.clock
    began = clock.monotonic()
    if began - recording.began > window_s:
        recording.manifest.update(judged_from=utc_text(recording.manifest.now_ns() - int(clock.real(window_s) * NS)))
    run = open_run(recording.folder, _now_there(recording), knowledge)
    for capture in run.captures:
        if not capture.whole:  # it is being recorded: what it holds is as new as this moment
            capture.whole, capture.growing, capture.captured_ns = True, True, run.captured_ns
    activity = LogActivity(run.captured_ns)
    verdict = weigh(scene_of(gather(run, also={"log": activity.add})), most_steps)
    board = status_of(verdict, activity)
    moves = bool(verdict.signs.keys() & moving_codes())
    return Snapshot(verdict, board, activity.signs, moves, clock.real(clock.monotonic() - began))


def _now_there(recording: Recording) -> str:
    """The present in the host's local time, with its zone."""
    zone = timezone(timedelta(seconds=recording.manifest.data["utc_offset_s"]))
    return datetime.fromtimestamp(recording.manifest.now_ns() / NS, zone).isoformat()


def listens_itself(recording: Recording) -> bool:
    """Whether the launch itself listens on its port by now."""
    launch = recording.launch
    if launch.pid is None or launch.port is None:
        return False
    try:
        return recording.host.processes.listeners(launch.pid).get(launch.port) in tree_of(recording.host, launch.pid)
    except HostLost:
        return False
