"""`kit guard`: start a launch and capture diagnostics if it stalls.

The guard starts the command, records it from the first moment, and passes its output on. When nothing advances for a
while it takes by itself what an engineer would: two snapshots, the Python stacks of all ranks, a short strace. It then
says what holds, and goes on or ends the launch. A launch that became ready or that ended is recorded to that point.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from kit.analyse.verdict.verdict import Verdict, verdict
from kit.analyse.verdict.verdict_text import headline
from kit.capture.find import find_launch
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.logs.streams import Logs
from kit.capture.manifest import make_folder, utc_text
from kit.capture.options import Options, takes
from kit.capture.recording import Recording
from kit.capture.tools import probe
from kit.capture.waiting import CLOCK, Clock
from kit.clock import show_duration
from kit.errors import TROUBLE, EvidenceError, KitError, UsageError
from kit.folder import write_whole
from kit.live.judging import WINDOW_S, Snapshot, judge_so_far, listens_itself
from kit.live.launch import GRACE_S, LogKeeper, StartedCommand
from kit.live.options import GuardOptions
from kit.live.triage_tests import SECOND_LOOK_S, TriageTests
from kit.tool_table import tool

WAIT_S = 0.2
FIRST_S = 3.0
"""The first judgement has two samples."""
WINDOW_GUARD_S = 15.0
"""Rates are taken over less than in a triage: what moved so long ago delays the capture by as much."""
MOST_CAPTURES = 3
AGAIN = 2.0
"""Where a capture did not decide, the next follows after this many times the quiet time."""
DRAIN_S = 3.0
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Signals that end a launch: the recording ends first, so that the way out of a launch is no evidence of its trouble."""
ONLY_PASSED_ON = ("SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
KILL_AT = 3
"""The third request to end is a SIGKILL."""


class TerminationRequested(BaseException):
    """A signal that asks for the end of the launch."""

    def __init__(self, number: int):
        self.number = number


@takes(options=GuardOptions)
def guard(
    command: Sequence[str],
    *,
    out: str | Path | None = None,
    options: GuardOptions,
    progress: Callable[[str], None] = print,
    clock: Clock = CLOCK,
) -> int:
    """Start a launch and capture diagnostics if it stalls (Linux).

    Parameters
    ----------
    command : sequence of str
        The launch: program and arguments.
    out : str or path, optional
        Run folder to make; `guard-DATE-TIME` without it.
    {fields}
    progress : callable
        Receives messages about what the guard does.

    Returns
    -------
    int
        Exit code of the launch.
    """
    if not sys.platform.startswith("linux"):
        raise EvidenceError("cannot guard here", "it needs /proc, which only Linux has", "run it on the host of the server")
    folder = Path(out) if out is not None else Path(time.strftime("guard-%Y%m%d-%H%M%S"))
    return Guard(list(command), folder, options, progress, clock).run()


class _OwnOutput(Logs):
    """No log to follow: what the launch prints comes to us."""

    def begin(self) -> None:
        pass


class Guard:
    """One launch under guard; `run` returns its exit code."""

    def __init__(
        self, command: Sequence[str], folder: Path, options: GuardOptions, say: Callable[[str], None], clock: Clock = CLOCK
    ):
        self.clock = clock
        self.command, self.folder, self.options, self.say = command, folder, options, say
        self.story: dict = {"ready_s": None, "captures": [], "ended_by": None, "left_behind": []}
        self.verdict: Verdict | None = None
        self.requests = 0
        self.recorded = False
        self._watching = False
        self._asked: int | None = None

    def run(self) -> int:
        if shutil.which(self.command[0]) is None:
            raise UsageError(f"cannot start {self.command[0]}", "no such program", "check its name and PATH")
        make_folder(self.folder)
        self._install_handlers()
        self.began = self.moved_at = self.clock.monotonic()
        with LocalHost() as self.host:
            self.child = StartedCommand(self.command)
            try:
                self._attach()
            except BaseException:
                self.child.signal(signal.SIGKILL)
                self.child.let_go()
                raise
            try:
                return self._guard()
            finally:
                self.recording.leave_nothing_behind()

    def _attach(self) -> None:
        launch = find_launch(self.host, self.child.pid, None, None)
        self.recording = Recording(self.host, self.folder, launch, Options(self.options.limit_s), clock=self.clock)
        self.recording.logs = _OwnOutput(self.host, self.recording.manifest, launch, self.clock)
        raw = self.recording.manifest.open("server.log", "log", "standard output and error of the launch", pid=self.child.pid)
        self.keeper = LogKeeper(raw)
        self.child.pass_on(self.keeper.take)
        self.tests = TriageTests(self.recording)

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic() - self.began

    def _guard(self) -> int:
        code = None
        try:
            self._watching = True
            try:
                self.recording.begin()
                code = self._watch()
                while code is None:
                    code = self.child.poll()
                    self._pause()
            finally:
                self._watching = False
        except TerminationRequested as told:
            try:
                self._end_recording(signal.Signals(told.number).name)
            finally:
                self.child.signal(told.number)
            code = self._wait_for_end()
        except Exception as error:  # whatever goes wrong here, the launch is not to suffer from it
            if isinstance(error, KitError):
                self.say(f"{error}; recording stopped, the launch continues")
            else:
                self.say(f"recording stopped, the launch continues:\n{traceback.format_exc()}")
            code = self._wait_for_end()
        return self._finish(code)

    # signals

    def _install_handlers(self) -> None:
        """Take the signals that are not ignored: under nohup a hang-up is nobody's concern."""
        for name in (*PASSED_ON, *ONLY_PASSED_ON):
            number = getattr(signal, name)
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._pass_on if name in ONLY_PASSED_ON else self._on_termination_signal)

    def _pass_on(self, number: int, frame: object) -> None:
        if number == signal.SIGWINCH:
            self.child.resize()
        self.child.signal(number)

    def _on_termination_signal(self, number: int, frame: object) -> None:
        self.requests += 1
        if self._watching:
            self._watching, self._asked = False, number
            raise TerminationRequested(number)
        self.child.signal(signal.SIGKILL if self.requests >= KILL_AT else number)

    def _pause(self) -> None:
        """Wait a little; a `TerminationRequested` that was raised inside a destructor, where Python drops it, is raised again."""
        self.clock.sleep(WAIT_S)
        if self._asked is not None:
            raise TerminationRequested(self._asked)

    def _wait_for_end(self) -> int:
        while (code := self.child.wait(WAIT_S)) is None:
            pass
        return code

    # watching

    def _watch(self) -> int | None:
        """Until the launch ends (its exit code), is ready, was ended, or the time is over (None)."""
        next_at, life, quiet = self.began + FIRST_S, -1, None
        while (code := self.child.poll()) is None:
            now = self.clock.monotonic()
            if self.passed_s > self.options.limit_s or self.recording.manifest.full.is_set():
                why = self.recording.manifest.why or "its time limit is reached"
                self.say(f"recording stopped: {why}")
                self._end_recording(None)
                return None
            if now >= next_at:
                self.recording.keep_going()
                judged = judge_so_far(self.recording, self._window_s)
                next_at = self.clock.monotonic() + min(judged.pause_s, max(1.0, self.options.quiet_s or judged.pause_s))
                if self._is_ready(judged.verdict):
                    self._say_ready()
                    return None
                if judged.life != life or judged.moves:
                    life, quiet, self.moved_at = judged.life, None, now
                elif now - self.moved_at >= self._patience_s(judged, quiet):
                    quiet = self._capture(now - self.moved_at, judged)
                    if self.options.then == "end" and _may_end(quiet, self.story["captures"]):
                        return self._end_launch(quiet)
                    if quiet.state != "progressing" and len(self.story["captures"]) < MOST_CAPTURES:
                        self.say("still guarding")
            self._pause()
        return code

    @property
    def _window_s(self) -> float:
        return min(WINDOW_GUARD_S, max(5.0, self.options.quiet_s or WINDOW_S))

    def _patience_s(self, judged: Snapshot, quiet: Verdict | None) -> float:
        """Seconds of quiet after which to capture: never again where a capture of this silence has decided."""
        patience = self.options.patience_s(judged.verdict.phase)
        if len(self.story["captures"]) >= MOST_CAPTURES or quiet is not None and quiet.state in ("stalled", "failed"):
            return float("inf")
        return patience if quiet is None else self.story["captures"][-1]["quiet_s"] + AGAIN * patience

    def _is_ready(self, found: Verdict) -> bool:
        """Whether its own port names a model or says health, or its log says ready and nothing speaks against it."""
        launch = self.recording.launch
        port = found.facts.value("port")
        if launch.port is None and port is not None:
            launch.port = port
        if listens_itself(self.recording):
            answers = [probe.request(self.host, launch.port, path) for path in ("/v1/models", "/health")]
            return found.state == "ready" or probe.first_model(answers[0]) is not None and answers[1].status in (200, 404)
        return found.state == "ready" and launch.port is None

    def _say_ready(self) -> None:
        self.story["ready_s"] = round(self.passed_s, 1)
        self._end_recording(None, last_look=True)
        port = f" on port {self.recording.launch.port}" if self.recording.launch.port else ""
        self.say(f"ready after {self.story['ready_s']:.0f} s{port}; recorded in {self.folder}, only its log is kept from now on")

    # capturing

    def _capture(self, quiet_s: float, judged: Snapshot) -> Verdict:
        """Take what tells a stall from slow work, and judge it over the whole silence."""
        began, number, stacks = self.clock.monotonic(), len(self.story["captures"]), self._stacks()
        more = [*([f"stacks by {stacks}"] if stacks else []), *([] if self.options.no_strace else ["a short strace"])]
        quiet = f"quiet for {show_duration(quiet_s)} in phase {judged.verdict.phase}"
        self.say(f"{quiet}: taking {', '.join(['two snapshots', *more])}")
        if number == 0:
            self.tests.run(tool("kernel"))
        for moment in (2 + 2 * number, 3 + 2 * number):
            self.recording.snapshots.look(moment)
            if stacks == "py-spy":
                self.recording.intrusive.take_each(tool("pyspy"), moment)
            elif stacks == "gdb":
                self.recording.intrusive.take_each(tool("gdb"), moment)
            if moment % 2 == 0:
                self._strace()
                self.clock.sleep(max(0.0, began + SECOND_LOOK_S - self.clock.monotonic()))
        found = judge_so_far(self.recording, quiet_s + self.clock.monotonic() - began).verdict
        self.verdict = found
        self.story["captures"].append(
            {
                "after_s": round(self.passed_s, 1),
                "quiet_s": round(quiet_s, 1),
                "state": found.state,
                "class": found.klass,
                "ranks": found.ranks,
                "phase": found.phase,
                "confidence": round(found.confidence, 3),
            }
        )
        self.recording.manifest.update(guard=self.story)
        self.say(headline(found))
        for claim in list(dict.fromkeys(entry["claim"] for entry in found.evidence))[:4]:
            self.say(f"  • {claim}")
        return found

    def _stacks(self) -> str | None:
        """Program that takes the stacks."""
        if self.options.no_stacks:
            return None
        return "py-spy" if self.host.has("py-spy") else "gdb" if "gdb" in self.options.allow and self.host.has("gdb") else None

    def _strace(self) -> None:
        if not self.options.no_strace:
            self.tests.run(tool("strace"))

    # ends

    def _end_launch(self, found: Verdict) -> int | None:
        self.say(f"ending the launch (--then end): SIGTERM, then SIGKILL after {GRACE_S:g} s")
        self._end_recording("kit guard")
        return self.child.end(GRACE_S)

    def _end_recording(self, by: str | None, last_look: bool = False) -> None:
        """End the recording while the launch still stands as it stood; a log that ends by itself is kept to its end."""
        if by is not None:
            self.story["ended_by"] = by
            self.keeper.divert(self.folder / "after.log")
        if not self.recorded:
            self.recorded = True
            self.recording.end(last_look)
            if not (self.story["captures"] and by):  # a capture of a silence that lasts is the better judgement
                self.verdict = judge_so_far(self.recording, self._window_s).verdict

    def _finish(self, code: int | None) -> int:
        if code is None:
            self.say("the launch cannot be killed: it is blocked in the kernel")
            code = -signal.SIGKILL
        left = self.child.drain(DRAIN_S)
        self.story.update(left_behind=left, exit_code=code if code >= 0 else None, exit_signal=-code if code < 0 else None)
        try:
            self.keeper.close()
            self._enter_end(code)
        except (OSError, KitError) as error:
            self.say(f"the recording is incomplete: {error}")
        if left:
            processes = "process" if len(left) == 1 else "processes"
            self.say(f"{len(left)} {processes} of the launch still running: {', '.join(map(str, left))}")
        self.say(self._closing_message(code))
        if self.verdict is not None:
            self.say(f"\n{self.verdict}\n")
        self.say(f"run kept in {self.folder}; look at it: kit verdict {self.folder}")
        shown = 128 - code if code < 0 else code
        return shown or (TROUBLE if self.story["ended_by"] == "kit guard" else 0)

    def _enter_end(self, code: int) -> None:
        """Enter how the launch ended, and judge what it did last where it ended by itself."""
        manifest, own = self.recording.manifest, self.story["ended_by"] is None
        if not self.recorded:
            self.recorded = True
            if code != 0:
                self.tests.run(tool("kernel"))
            self.recording.end(last_look=False)
        if own:
            now, ended = utc_text(manifest.now_ns()), {key: self.story[key] for key in ("exit_code", "exit_signal")}
            manifest.update(launch={**manifest.data["launch"], "ended_at": now, **ended}, ended_at=now)
        manifest.update(guard=self.story)
        if own:
            self.verdict = verdict(self.folder)
        told = {**self.verdict.to_dict(), "guard": self.story}
        write_whole(self.folder / "verdict.json", json.dumps(told, ensure_ascii=False, indent=1) + "\n")

    def _closing_message(self, code: int) -> str:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        ready = f", ready after {self.story['ready_s']:.0f} s" if self.story["ready_s"] is not None else ""
        by = f", ended by {self.story['ended_by']}" if self.story["ended_by"] else ""
        return f"the launch ended after {show_duration(self.passed_s)} with {how}{by}{ready}"


def _may_end(found: Verdict, captures: list[dict]) -> bool:
    """Whether a launch may be ended on a verdict: on a stall at once, on doubt after two captures, never while it advances."""
    if found.state in ("stalled", "failed"):
        return True
    return found.state == "unknown" and len(captures) >= 2
