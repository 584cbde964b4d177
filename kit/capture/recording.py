"""The recording of a launch on a host.

The sampler runs as a program of its own, fed through standard input, on this machine exactly as on another. Logs are followed
by their open files. Tools that cost something run only when asked, with a time limit that holds on the host itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kit import __version__
from kit.capture.find import Launch, launch_entry
from kit.capture.hosts.host import Host, HostLost
from kit.capture.logs.streams import Logs
from kit.capture.manifest import Manifest, utc_text
from kit.capture.options import STRACE_AT_S, Options
from kit.capture.sampler.sampling import Sampling
from kit.capture.tools.intrusive import IntrusiveTools
from kit.capture.tools.snapshots import Snapshots
from kit.capture.waiting import CLOCK, Clock
from kit.errors import EvidenceError, KitError
from kit.tool_table import table

WAIT_S = 0.2
DEFAULTS = Options()
LOOK_S = (6.0, 60.0)
"""Most that one look at the host may take, for a short recording and a long one: a program there may hang, each within its own
limit, or print without an end."""
AGAIN_S = (0.5, 10.0)
"""First and longest pause between attempts to connect again."""


class Recording:
    """One recording of a launch, from its first capture to its last: `record`, or step by step `begin`, `end`,
    `leave_nothing_behind`.
    """

    def __init__(
        self,
        host: Host,
        folder: Path,
        launch: Launch,
        options: Options = DEFAULTS,
        progress: Callable[[str], None] = lambda text: None,
        until: Callable[[], bool] | None = None,
        clock: Clock = CLOCK,
    ):
        self.clock = clock
        self.host, self.folder, self.launch, self.options, self.progress = host, folder, launch, options, progress
        self.duration_s, self.interval_s = options.whole_s, options.interval_s
        self.until = until or (lambda: False)
        self.manifest = Manifest(folder, __version__, host.name, host.abilities)
        self.manifest.update(launch=launch_entry(host, launch))
        self.logs = Logs(host, self.manifest, launch, clock)
        self.snapshots = Snapshots(host, self.manifest, launch, options.probe_generate)
        self.intrusive = IntrusiveTools(host, self.manifest, launch.pid, progress)
        self.sampler: Sampling | None = None
        self.began = self.clock.monotonic()
        self._lost: HostLost | None = None
        self._pause_s = AGAIN_S[0]

    def record(self) -> Path:
        """Everything from begin to end; returns the folder.

        Raises
        ------
        EvidenceError
            Where the disk filled up: what was recorded before is kept.
        """
        try:
            try:
                self.begin()
                self._wait()
            except KeyboardInterrupt:
                done = self.clock.monotonic() - self.began
                self.progress(f"interrupted after {done:.0f} s: ending the recording (press Ctrl-C again to leave at once)")
                self.manifest.lacks(
                    "the rest of the recording", f"it was interrupted after {done:.0f} of {self.duration_s:g} s", "record again"
                )
            self.end()
        finally:
            self.leave_nothing_behind()
        for entry in self.manifest.data["missing"]:
            self.progress(f"missing: {entry['what']}: {entry['why']}")
        if self.manifest.full.is_set():
            raise EvidenceError(
                f"the recording ended early; {self.folder} holds what was recorded before",
                self.manifest.why,
                "make room, or choose another folder with -o, and record again",
            )
        return self.folder

    def begin(self) -> None:
        """Follow the logs, start the sampler, take the first look."""
        self._connected("the beginning of the logs", self._in_time(self.logs.begin))
        if self.launch.pid is not None:
            self._connected("the first samples", self._in_time(self._start_sampler))
        self.look(0)
        self._run_intrusive(0)

    def _start_sampler(self) -> None:
        parameters = {
            "roots": [self.launch.pid],
            "port": self.launch.port,
            "interval_s": self.clock.real(self.interval_s),
            "samples": int(self.duration_s / self.interval_s + 1e-9) + 1,
            "exclude": [os.getpid()] if self.host.name == "local" else [],
        }
        if not (self.host.abilities.python or self.host.has("awk")):
            self.manifest.lacks("samples of the processes", f"{self.host.name} has neither Python 3 nor awk", "install one there")
            return
        self.sampler = Sampling(self.manifest, parameters, self.host, self.clock)

    def _wait(self) -> None:
        """Until the time is over, the launch is gone, the disk is full or somebody says so."""
        traced = self.options.strace_s is None or self.launch.pid is None
        while not self.manifest.full.is_set() and not self.until():
            passed = self.clock.monotonic() - self.began
            if not traced and passed >= STRACE_AT_S:  # also where the first look took all the time
                traced = True
                self._connected(
                    "system calls", lambda: self.intrusive.start_strace(self.options.strace_s, self.options.strace_pid)
                )
            if self.sampler is not None and self.sampler.ended.is_set() and (passed >= self.duration_s or self.sampler.root_gone):
                return
            if self.sampler is None and passed >= self.duration_s:
                return
            if passed > self.duration_s + 10 * self.interval_s + 5:  # the sampler hangs: it reads a kernel that does not answer
                return
            self.keep_going()
            self.clock.sleep(WAIT_S)

    @property
    def is_lost(self) -> bool:
        """Whether the connection or the sampler is gone."""
        return self._lost is not None or self.sampler is not None and self.sampler.lost

    def keep_going(self) -> None:
        """Where the connection or the sampler is gone and time is left: connect again, and sample on."""
        if self.is_lost and self.clock.monotonic() - self.began < self.duration_s:
            self._go_on()

    def _go_on(self) -> None:
        """Connect again where the connection is lost, with growing pauses until the time is over; then sample on."""
        if not self._answers():
            self.progress(f"the connection to {self.host.name} was lost, reconnecting")
            since = self.manifest.now_ns()
            while self._lost and self.clock.monotonic() - self.began < self.duration_s and not self.until():
                try:
                    self.host.connect()
                    self._lost = None
                    self.progress(f"reconnected to {self.host.name}")
                except KitError as error:
                    self._lost = HostLost(error.what, error.why, error.do)
                    self._pause()
            if self.sampler is None:
                self.manifest.gap(since, self.manifest.now_ns(), "the connection was lost")
            if self._lost:
                self.manifest.lacks("what came after the connection was lost", self._lost.why, self._lost.do)
                return
        self._pause()
        if self.launch.pid is not None:
            self._connected("further samples", self._sample_on)

    def _sample_on(self) -> None:
        """Sample again, where the launched process is still the one that it was."""
        found, before = self.host.processes.table().get(self.launch.pid), self.manifest.data["launch"].get("start_ticks")
        if found is None or found.start_ticks != before:
            self.manifest.lacks(
                "samples after the end of the launch",
                f"process {self.launch.pid} ended while the connection was lost",
                "ask whoever started it for its exit code, where the log has none: echo $?, docker inspect, journalctl",
            )
            self.duration_s = min(self.duration_s, self.clock.monotonic() - self.began)
        elif self.sampler is None:
            self._start_sampler()
        else:
            self.sampler.go_on()

    def _answers(self) -> bool:
        """Whether the host answers: a sampler may end for other reasons too."""
        try:
            self.host.ask("true")
        except HostLost as error:
            self._lost = error
        return self._lost is None

    def _pause(self) -> None:
        self.clock.sleep(max(0.0, min(self._pause_s, self.began + self.duration_s - self.clock.monotonic())))
        self._pause_s = min(2 * self._pause_s, AGAIN_S[1])

    def end(self, last_look: bool = True) -> None:
        """Second look, then stop what runs. On a full disk nothing more is looked at."""
        self.intrusive.end_strace(2.0 if self.sampler and self.sampler.root_gone else self.options.strace_s or 0)
        if last_look and not self.manifest.full.is_set():
            self._run_intrusive(1)
            self.look(1)
        ended_ns = self.manifest.now_ns()
        if self.sampler is not None:
            self.sampler.finish()
            if self.sampler.root_gone:
                self.launch_ended(self.sampler)
            if self.sampler.denied:
                self.manifest.lacks(
                    ", ".join(self.sampler.denied) + " of the processes",
                    "the processes belong to another user, or ptrace is restricted",
                    f"record as their owner or as root: kit collect {self.host.name} --sudo …",
                )
        if self._lost:
            self.host.close()  # so that nothing waits for an answer any more
        self.logs.end()
        self.manifest.finish(ended_ns)

    def launch_ended(self, sampler: Sampling) -> None:
        """Enter the end of the launched process."""
        status = sampler.exit_status
        ended = {"ended_at": utc_text(sampler.root_gone_ns), "exit_code": None, "exit_signal": None}
        if status is not None:
            ended["exit_code"], ended["exit_signal"] = (None, status & 127) if status & 127 else (status >> 8, None)
        self.manifest.update(launch={**self.manifest.data["launch"], **ended})
        self.manifest.lacks(
            "samples after the end of the launch",
            f"process {self.launch.pid} ended during the recording",
            "ask whoever started it for its exit code, where the log has none: echo $?, docker inspect, journalctl",
        )

    def leave_nothing_behind(self) -> None:
        """Whatever happened: no tracer, no sampler stays."""
        self.intrusive.end_strace(0)
        if self.sampler is not None:
            self.sampler.kill()
        self.manifest.let_go()

    # what is taken at a moment; a lost connection ends the one thing, not the recording

    def _connected(self, what: str, act: Callable[[], None]) -> None:
        """Do what needs the host, and say what is missing where the connection is lost meanwhile."""
        try:
            if self._lost:
                raise self._lost
            act()
        except HostLost as error:
            self._lost = error
            self.manifest.lacks(what, f"the connection to {self.host.name} was lost: {error.why}", "record again")

    def look(self, moment: int) -> None:
        """Process table, sockets, GPUs, health: at the beginning (moment 0), at the end (1)."""
        look = self._in_time(lambda: self.snapshots.look(moment))
        self._connected(f"a part of the {'last' if moment else 'first'} look", look)

    def _in_time(self, act: Callable[[], None]) -> Callable[[], None]:
        """The same within the time that a look at the host may take."""

        def bounded() -> None:
            with self.host.within(min(max(LOOK_S[0], self.duration_s / 2), LOOK_S[1])):
                act()

        return bounded

    def _run_intrusive(self, moment: int) -> None:
        """The tools that an option asks for, of those that look at this moment."""
        if self.launch.pid is None:
            return
        for tool in table().looked_at("end" if moment else "begin", self.host.abilities.system):
            if tool.each and getattr(self.options, tool.option, False):
                self._connected(tool.what, partial(self.intrusive.take_each, tool, moment))
