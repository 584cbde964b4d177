"""`kit.triage`: observe a live launch, test the hypotheses one after the other, say what holds and how the answer came about."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kit.analyse.verdict import belief_log
from kit.analyse.verdict.belief_log import entry
from kit.analyse.verdict.scene import scene_of_run
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.capture.find import Launch, find_launch, look_up
from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.manifest import make_folder, utc_text
from kit.capture.options import Connection, Options, takes
from kit.capture.processes import writer_of
from kit.capture.recording import Recording
from kit.capture.waiting import CLOCK, Clock
from kit.document import Document, Shown, percent
from kit.errors import EvidenceError
from kit.knowledge_paths import folders
from kit.live.judging import FLAT_S, PAUSE_S, QuietTimer, judge_so_far, listens_itself
from kit.live.options import TriageOptions
from kit.live.triage_tests import TriageTests
from kit.open import open_run
from kit.tool_table import Tool, steps

FIRST_S = 2.3
"""The first answer waits for two samples of the sampler, which needs some tenths of a second to start."""
LOG_S = 0.6
"""The same without a process: the log is read within two of its polls."""
AFTER_END_S = 3.0
"""After the end of the launched process its log may still be written."""
IDLE_S = 30.0
"""With nothing left to test and nothing moving for so long, more seconds are not worth waiting for."""
RESERVE_S = 6.0
"""Kept of the time for ending the recording and the last judgement."""
STRACE_RESERVE_S = 12.0
MOVED_SHARE = 0.1
"""Waiting is worth a line of the ledger where it moved the leading share by so much."""
FIRST_LOOK = {
    "what": "first look",
    "why": "log, processes, sockets, health: what costs nothing",
    "command": "tail -n 50 LOG; ps; ss -tanp; curl localhost:PORT/health; curl localhost:PORT/v1/models; two samples of /proc",
    "cost_s": 0.1,
}
WATCH = {"what": "watching", "why": "log and samples go on", "command": "", "cost_s": 0.01}
PORT_OPENED = {
    "what": "health of the opened port",
    "why": "the launch has begun to listen",
    "command": "curl localhost:PORT/health; curl localhost:PORT/v1/models",
    "cost_s": 0.02,
}


@dataclass(frozen=True, repr=False)
class TriageResult(Shown):
    """What a triage found out.

    Attributes
    ----------
    verdict : Verdict
        The last judgement.
    ledger : list of dict
        How belief changed: `t_s test why command cost outcome leading state for against changed because`.
    path : pathlib.Path or None
        The run with the evidence, where it was kept.
    """

    verdict: Verdict
    ledger: list[dict]
    path: Path | None = None

    def document(self, brief: bool = False) -> Document:
        """The verdict, and the ledger below it."""
        own = self.verdict.document(brief)
        log = belief_log.document(self.ledger)
        return own if brief else replace(own, sections=[*own.sections, *log.sections])

    def to_dict(self) -> dict:
        """Plain data: the verdict's, with `ledger`, and `path` where the evidence was kept."""
        path = {"path": str(self.path)} if self.path is not None else {}
        return {**self.verdict.to_dict(), **path, "ledger": self.ledger}

    def __repr__(self) -> str:
        return f"TriageResult({self.verdict.state}: {self.verdict.klass}, {len(self.ledger)} steps)"


@takes(options=TriageOptions, connection=Connection)
def triage(
    target: str | Host = "local",
    *,
    pid: int | None = None,
    log: str | Path | None = None,
    port: int | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    options: TriageOptions,
    connection: Connection,
    progress: Callable[[str], None] = print,
    clock: Clock = CLOCK,
) -> TriageResult:
    """Find out what a launch is doing: look, weigh the hypotheses, run the cheapest test that separates them, again.

    Only tests that harm nothing are run: they read, each within a time limit. A request for one token is sent at most once,
    and only where the launch's own process listens on the port. A launch in which anything advances is not called stalled.

    Parameters
    ----------
    target : str
        Where it runs: `local`, this machine, or `ssh://[user@]host[:port]`.
    pid, log, port, name : int, path, int, str, optional
        The launched process, its log, its port, a word of its command line; any one is enough, the rest is discovered.
    out : str or path, optional
        Folder to keep the evidence in, as a run; without it nothing is kept.
    knowledge : path or paths, optional
        Folders with knowledge of your own, as for `kit.open_run`.
    {fields}
    progress : callable
        Receives progress messages.

    Raises
    ------
    UsageError
        Where the target is another, nothing names the launch, or a word of `allow` is not known.
    EvidenceError
        Where there is neither process nor log, or the folder cannot be made.

    Examples
    --------
    >>> triage(pid=1, allow=["rm"])
    Traceback (most recent call last):
    kit.errors.UsageError: rm cannot be allowed: no test uses it. Choose from: --allow gdb,py-spy,request,strace
    """
    began, known = clock.monotonic(), folders(knowledge)
    with tempfile.TemporaryDirectory(prefix="kit-triage-") as scratch, open_host(target, connection=connection) as host:
        launch, ended = _find(host, pid, str(log) if log is not None else None, port, name)
        for remark in launch.remarks:
            progress(remark)
        folder = Path(out) if out is not None else Path(scratch) / "triage"
        make_folder(folder)
        recording = Recording(host, folder, launch, Options(options.limit_s), clock=clock)
        verdict, ledger = _Triage(recording, ended, options, known, progress, began).run()
        return TriageResult(verdict, ledger, Path(out) if out is not None else None)


def _find(host: Host, pid: int | None, log: str | None, port: int | None, name: str | None) -> tuple[Launch, bool]:
    """The launch, and whether its process has ended already: then its log is what is left of it."""
    if pid is None or pid in host.processes.table():
        return find_launch(host, pid, log, port, name), False
    path, exists = look_up(host, log) if log is not None else (None, False)
    if not exists:
        raise EvidenceError(
            f"no process {pid}",
            "it has ended, or the pid belongs to another host or container",
            "name its log, which may say why: --log FILE",
        )
    return Launch(None, port, path, [f"process {pid} has ended: its log is judged"]), writer_of(host, path) is None


class _Triage:
    """One search from the first look to the last judgement."""

    def __init__(
        self,
        recording: Recording,
        ended: bool,
        options: TriageOptions,
        knowledge: tuple[Path, ...],
        progress: Callable[[str], None],
        began: float,
    ):
        self.knowledge = knowledge
        self.folder, self.limit_s, self.sure, self.progress = recording.folder, options.limit_s, options.sure, progress
        self.recording, self.clock, self.began = recording, recording.clock, began
        self.tests = TriageTests(self.recording, options.allow, knowledge)
        self.steps = {step["name"]: step for step in steps()}
        self.ledger: list[dict] = []
        self.verdict: Verdict | None = None
        self.agreed = 0
        self.quiet_timer = QuietTimer(self.clock)
        self.asked_health = False
        self.ended_at: float | None = None
        if ended:
            self._launch_is_over()

    @property
    def passed_s(self) -> float:
        return self.clock.monotonic() - self.began

    @property
    def left_s(self) -> float:
        return self.limit_s - RESERVE_S - self.passed_s

    def run(self) -> tuple[Verdict, list[dict]]:
        try:
            try:
                self._search()
            except KeyboardInterrupt:
                self.progress(f"interrupted after {self.passed_s:.0f} s: the answer so far")
            self.recording.end(last_look=False)
        finally:
            self.recording.leave_nothing_behind()
        last = weigh(scene_of_run(open_run(self.folder, knowledge=self.knowledge)))
        self._enter(WATCH, last, always=not self.ledger)
        return last, self.ledger

    def _search(self) -> None:
        self.recording.begin()
        self.asked_health = listens_itself(self.recording)  # the first look asked
        self.clock.sleep(max(FIRST_S - self.passed_s, 0.0) if self.recording.sampler is not None else LOG_S)
        self._judge(FIRST_LOOK)
        while self.left_s > 0 and not self._final():
            self._watch_process()
            step = self._next_test()
            if step is None:
                self.clock.sleep(min(PAUSE_S, max(0.0, self.left_s)))
                self._judge(WATCH)
            elif self._perform(step):
                self._judge(step)

    # one step

    def _perform(self, step: dict) -> bool:
        if step is PORT_OPENED:
            self.asked_health = self.tests.health()
            return True
        tool = self._tool(step["what"])
        if tool.name == "generate":
            self.tests.times[tool.name] += 1
            return self.tests.one_request(tool, 0, self.left_s / 2)
        return self.tests.run(tool)

    def _tool(self, what: str) -> Tool | None:
        """The row of the table that takes a step here."""
        return self.tests.tool_of(self.steps[what])

    def _next_test(self) -> dict | None:
        """A real request as soon as it can be sent, else the most useful test for its price that can be run here."""
        if not self.asked_health and listens_itself(self.recording):
            return PORT_OPENED
        for step in self.verdict.next:
            tool = self._tool(step["what"])
            if tool is not None and tool.name == "generate" and not self.asked_health:
                continue
            if tool is not None and tool.name == "strace" and self.left_s < STRACE_RESERVE_S:
                continue
            if self.tests.can_run(tool):
                return step
        for what, step in self.steps.items():  # the second look of a test, whatever is thought by then
            tool = self._tool(what)
            if self.tests.waits(tool) and self.tests.can_run(tool):
                return {**step, "what": what, "command": shlex.join(tool.words())}
        return None

    def _watch_process(self) -> None:
        """Enter the end of the launched process as soon as it is seen."""
        sampler = self.recording.sampler
        if sampler is not None and sampler.root_gone and self.ended_at is None:
            self.ended_at = self.clock.monotonic()
            self.recording.launch_ended(sampler)

    def _launch_is_over(self) -> None:
        self.ended_at = self.clock.monotonic()
        manifest = self.recording.manifest
        manifest.update(launch={**manifest.data["launch"], "ended_at": utc_text(manifest.now_ns())})
        manifest.lacks("samples of the processes", "the launch had ended before", "look at the next launch while it runs")

    # judging

    def _judge(self, step: dict) -> None:
        judged = judge_so_far(self.recording, most_steps=len(self.steps), knowledge=self.knowledge)
        found = judged.verdict
        before = self.verdict
        self._enter(step, found, always=step is not WATCH)
        self.agreed = self.agreed + 1 if before and before.klass == found.klass and found.confidence >= self.sure else 0
        if found.confidence >= self.sure and self.agreed == 0:
            self.agreed = 1
        self.quiet_timer.take(judged)

    def _enter(self, step: dict, found: Verdict, always: bool) -> None:
        """Write a line of the ledger, where there is something to say."""
        before, self.verdict = self.verdict, found
        moved = before is None or before.klass != found.klass or abs(before.confidence - found.confidence) >= MOVED_SHARE
        if not always and not moved:
            return
        line = entry(before, found, step, self.passed_s)
        if self.quiet_timer.too_early(found, self.sure):
            line["state"] = "unknown"
        self.ledger.append(line)
        self.recording.manifest.update(ledger=self.ledger)
        self.progress(f"{line['t_s']:5.1f} s  {line['test']}: {'; '.join(line['outcome'][:3])}")
        early = " (too early to call it stalled)" if self.quiet_timer.too_early(found, self.sure) else ""
        self.progress(f"         → {line['state']}: {found.klass}, {percent(found.confidence)}{early}")
        if line["because"]:
            self.progress(f"           {line['because']}")

    def _final(self) -> bool:
        """Whether more tests or seconds would change nothing."""
        if self.recording.manifest.full.is_set():
            return True
        state = self.verdict.state
        if self.agreed >= 2 and (state in ("ready", "failed") or state == "stalled" and self.quiet_timer.seconds >= FLAT_S):
            return True
        waiting = any(self.tests.waits(self._tool(what)) for what in self.steps)
        if self._next_test() is not None or waiting:
            return False
        over = (
            self.recording.launch.pid is None
            or self.ended_at is not None
            and self.clock.monotonic() - self.ended_at >= AFTER_END_S
        )
        return over or self.quiet_timer.seconds >= IDLE_S and state != "progressing" and "cpu_flat" in self.verdict.signs
