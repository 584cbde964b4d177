"""`kit.watch`, `kit watch`: see what a launch is doing, rank by rank, while it does it.

Only what costs nothing to speak of is looked at: the sampler, the log, and the server's health once it listens.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.live_status import History, LogActivity, Status, status_of
from kit.analyse.verdict.scene import scene_of
from kit.analyse.verdict.verdict import weigh
from kit.capture.find import find_launch
from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.manifest import make_folder
from kit.capture.options import Connection, Options, takes
from kit.capture.recording import Recording
from kit.capture.waiting import CLOCK, Clock
from kit.errors import UsageError
from kit.live.judging import DUTY, QuietTimer, judge_so_far, listens_itself
from kit.live.triage_tests import TriageTests
from kit.open import open_run
from kit.run import Run

if TYPE_CHECKING:
    from kit.show.explorer.widget import Explorer

FIRST_S = 2.3
"""The first board has two samples."""
AFTER_END_S = 3.0
"""After the end of the launched process its log may still be written."""
AT_EXIT_S = 5.0
"""A kernel that is shut down waits so long for the recording to end in order."""
LIMIT_S = 86400.0
WINDOW_S = 10.0
"""Rates are those of the last seconds: a person looks at them now."""


def watch_frame(run: Run | str | Path) -> Status:
    """The board of a recorded run: what a live view would have shown at its end.

    Examples
    --------
    >>> import kit
    >>> watch_frame(kit.sample("log-lost")).klass
    'log_lost_server_ready'
    """
    run = run if isinstance(run, Run) else open_run(run)
    activity = LogActivity(run.captured_ns)
    return status_of(weigh(scene_of(gather(run, also={"log": activity.add}))), activity)


class Watch:
    """A launch that is watched: `boards` gives one board after the other until it ends, the time is over, or `stop`.

    `run` holds what was recorded by the last board.
    """

    @takes(connection=Connection)
    def __init__(
        self,
        target: str | Host = "local",
        *,
        pid: int | None = None,
        log: str | Path | None = None,
        port: int | None = None,
        out: str | Path | None = None,
        limit_s: float | None = None,
        name: str | None = None,
        say: Callable[[str], None] = lambda text: None,
        connection: Connection,
        clock: Clock = CLOCK,
    ):
        self.clock = clock
        self.run: Run | None = None
        self.out, self.limit_s, self._stop = out, limit_s if limit_s is not None else LIMIT_S, threading.Event()
        self.host = open_host(target, connection=connection)
        self.host.connect()
        try:
            self.launch = find_launch(self.host, pid, str(log) if log is not None else None, port, name)
        except BaseException:
            self.host.close()
            raise
        of = f"process {self.launch.pid}" if self.launch.pid is not None else str(self.launch.log)
        self.name = f"{self.host.name}, {of}"
        self._history = History()
        for remark in self.launch.remarks:
            say(remark)

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()

    def boards(self) -> Generator[Status, None, None]:
        """Record, judge, and give a board every few seconds; the last one when all has been recorded."""
        with tempfile.TemporaryDirectory(prefix="kit-watch-") as scratch, closing(self.host):
            folder = Path(self.out) if self.out is not None else Path(scratch) / "watch"
            make_folder(folder)
            recording = Recording(
                self.host, folder, self.launch, Options(self.limit_s), until=self._stop.is_set, clock=self.clock
            )
            quiet_timer = QuietTimer(self.clock)
            try:
                recording.begin()
                yield from self._judge(recording, quiet_timer)
                recording.end(last_look=False)
            except (GeneratorExit, KeyboardInterrupt):
                recording.end(last_look=False)
                raise
            finally:
                recording.leave_nothing_behind()
            self.run = open_run(folder)
            yield self._named(watch_frame(self.run), quiet_timer)

    def _named(self, board: Status, quiet_timer: QuietTimer) -> Status:
        """The board under the name of what is watched, with its history; a stall that is believed in too early is none yet."""
        early = quiet_timer.too_early(board)
        board = replace(board, name=self.name, early=early, state="unknown" if early else board.state)
        return self._history.take(board)

    def _judge(self, recording: Recording, quiet_timer: QuietTimer) -> Iterator[Status]:
        tests, asked = TriageTests(recording), listens_itself(recording)
        board, ended_at, pause_s = None, None, FIRST_S
        while not (self.clock.wait(self._stop, pause_s) or _time_left(recording) <= 0 or recording.manifest.full.is_set()):
            if recording.is_lost:
                if board is not None:
                    yield replace(board, name=f"{self.name} (the connection is lost: it is tried again)")
                recording.keep_going()
            sampler = recording.sampler
            if sampler is not None and sampler.root_gone and ended_at is None:
                ended_at = self.clock.monotonic()
                recording.launch_ended(sampler)
            if not asked and listens_itself(recording):
                asked = tests.health()
            judged = judge_so_far(recording, WINDOW_S)
            self.run = judged.verdict.scene.evidence.run
            quiet_timer.take(judged)
            board = self._named(judged.board, quiet_timer)
            yield board
            pause_s = min(judged.pause_s, max(0.0, _time_left(recording)))
            if ended_at is not None and self.clock.monotonic() - ended_at > AFTER_END_S:
                return


def _time_left(recording: Recording) -> float:
    return recording.duration_s - (recording.clock.monotonic() - recording.began)


class LiveView:
    """A watch that goes on in a thread, shown in a notebook. Make it with `kit.watch`."""

    def __init__(self, watch: Watch):
        from kit.show.watch import StatusView

        self._watch = watch
        self.board: Status | None = None
        self.error: Exception | None = None
        self._explorer: Explorer | None = None
        self._explored = 0.0
        self.view = StatusView(watch.name, self.stop)
        self._thread = threading.Thread(target=self._run, daemon=True, name="watch")
        self._thread.start()
        atexit.register(self.stop, AT_EXIT_S)

    def _run(self) -> None:
        try:
            for board in self._watch.boards():
                self.board = board
                self.view.update(board)
                self._feed()
        except Exception as error:  # what a thread raises is seen by nobody
            self.error = error
            self.view.failed(error)
        atexit.unregister(self.stop)
        self.view.ended(f"kept in {self._watch.out}" if self._watch.out is not None else "nothing was kept")

    def explore(self) -> Explorer:
        """The explorer of what was recorded so far; it follows until the watch ends.

        Raises
        ------
        UsageError
            Before the first board.
        """
        from kit.show.explorer.widget import Explorer

        if self._watch.run is None:
            raise UsageError("nothing was recorded yet", "the first board comes after two samples", "wait for it, then try again")
        self._explorer = Explorer(self._watch.run)
        return self._explorer

    def _feed(self) -> None:
        """Hand the explorer what is new; packing it takes a fifth of one processor at most."""
        began = time.monotonic()
        if self._explorer is None or self._watch.run is None or began < self._explored:
            return
        self._explorer.update(self._watch.run)
        self._explored = began + DUTY * (time.monotonic() - began)

    @property
    def running(self) -> bool:
        """Whether it still watches."""
        return self._thread.is_alive()

    def stop(self, timeout_s: float | None = None) -> None:
        """Ask for the end; with a time, wait for it."""
        self._watch.stop()
        if timeout_s is not None:
            self._thread.join(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        self._thread.join(timeout_s)
        return not self.running

    def __repr__(self) -> str:
        return repr(self.view)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return self.view._repr_mimebundle_(include, exclude)

    def _ipython_display_(self) -> None:
        self.view._ipython_display_()


@takes(connection=Connection)
def watch(
    target: str | Host = "local",
    *,
    pid: int | None = None,
    log: str | Path | None = None,
    port: int | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    limit_s: float | None = None,
    connection: Connection,
) -> LiveView:
    """Watch a launch in a notebook: a table of its ranks that is redrawn every few seconds, with a button to stop.

    Parameters
    ----------
    target : str
        Where it runs: `local`, this machine, or `ssh://[user@]host[:port]`.
    pid, log, port : int, path, int, optional
        The launched process, its log there, its port; one of them suffices, the others are found where they can be.
    out : str or path, optional
        Folder to keep the evidence in, as a run; without it nothing is kept.
    limit_s : float, optional
        Longest time to watch, in seconds; until the launch ends or `stop` without it, a day at most.
    {fields}

    Returns
    -------
    LiveView
        Last value of a cell. `board` holds what was seen last, `stop()` ends it.

    Raises
    ------
    UsageError
        Where the target is another, or nothing names the launch.
    EvidenceError
        Where there is neither process nor log.

    Examples
    --------
    >>> watch()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kit.errors.UsageError: nothing to record: no process, log or port was given. Name one: ...
    """
    return LiveView(Watch(target, pid=pid, log=log, port=port, name=name, out=out, limit_s=limit_s, connection=connection))
