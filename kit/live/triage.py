"""`kit.triage`: observe a live launch, test the hypotheses one after the other, say what holds and how the answer came about."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

from kit.analyse.verdict.belief_log import entry
from kit.analyse.verdict.hypotheses import captures
from kit.analyse.verdict.scene import scene_of_run
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.capture.find import Launch, find_launch, look_up
from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.manifest import make_folder, utc_text
from kit.capture.processes import process_table, writer_of
from kit.capture.recording import Options, Recording
from kit.errors import EvidenceError, UsageError
from kit.live.judging import FLAT_S, PAUSE_S, SURE, QuietTimer, judge_so_far, listens_itself
from kit.live.triage_tests import CONSENT, TriageTests
from kit.open import open_run

ALLOWED = frozenset(program for programs in CONSENT.values() for program in programs) | {"request"}
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


def triage(
    target: str = "local",
    *,
    pid: int | None = None,
    log: str | Path | None = None,
    port: int | None = None,
    out: str | Path | None = None,
    limit_s: float = 60.0,
    sure: float = SURE,
    allow: Collection[str] = (),
    transport: str = "paramiko",
    accept_new: bool = False,
    sudo: bool = False,
    progress: Callable[[str], None] = print,
) -> tuple[Verdict, list[dict]]:
    """Find out what a launch is doing: look, weigh the hypotheses, run the cheapest test that separates them, again.

    Only tests that harm nothing are run: they read, each within a time limit. A request for one token is sent at most once,
    and only where the launch's own process listens on the port. A launch in which anything advances is not called stalled.

    Parameters
    ----------
    target : str
        Where it runs: `local`, this machine (Linux), or `ssh://[user@]host[:port]`.
    pid, log, port : int, path, int, optional
        The launched process, its log, its port; one of them suffices, the others are found where they can be.
    out : str or path, optional
        Folder to keep the evidence in, as a run; without it nothing is kept.
    limit_s : float
        Time limit in seconds.
    sure : float
        Share of belief that ends the search, where two judgements in a row agree and more seconds cannot change the state.
    allow : collection of str
        Programs that may slow the launch: `py-spy`, `gdb`, `strace`; `request`: a real request to a port whose owner
        cannot be told.
    transport, accept_new, sudo : str, bool, bool
        How the host is reached, as in `kit.collect`.
    progress : callable
        Receives progress messages.

    Returns
    -------
    tuple of (Verdict, list of dict)
        The last verdict, and the ledger: `t_s test why command cost outcome leading state for against changed because`.

    Raises
    ------
    UsageError
        Where the target is another, nothing names the launch, or a program of `allow` is not known.
    EvidenceError
        Where there is neither process nor log, or the folder cannot be made.

    Examples
    --------
    >>> triage(pid=1, allow=["rm"])
    Traceback (most recent call last):
    kit.errors.UsageError: rm cannot be allowed: no test uses it. Choose from: --allow gdb,py-spy,request,strace
    """
    if unknown := sorted(set(allow) - ALLOWED):
        raise UsageError(
            f"{', '.join(unknown)} cannot be allowed", "no test uses it", f"choose from: --allow {','.join(sorted(ALLOWED))}"
        )
    if not 5 <= limit_s <= 3600:
        raise UsageError(f"invalid time limit {limit_s:g} s", "--for must be between 5 s and 1 h", "for example: --for 60s")
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="kit-triage-") as scratch,
        open_host(target, transport=transport, accept_new=accept_new, sudo=sudo) as host,
    ):
        launch, ended = _find(host, pid, str(log) if log is not None else None, port)
        for said in launch.said:
            progress(said)
        folder = Path(out) if out is not None else Path(scratch) / "triage"
        make_folder(folder)
        return _Triage(host, folder, launch, ended, limit_s, sure, allow, progress, began).run()


def _find(host: Host, pid: int | None, log: str | None, port: int | None) -> tuple[Launch, bool]:
    """The launch, and whether its process has ended already: then its log is what is left of it."""
    if pid is None or pid in process_table(host):
        return find_launch(host, pid, log, port), False
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
        host: Host,
        folder: Path,
        launch: Launch,
        ended: bool,
        limit_s: float,
        sure: float,
        allow: Collection[str],
        progress: Callable[[str], None],
        began: float,
    ):
        self.folder, self.limit_s, self.sure, self.progress, self.began = folder, limit_s, sure, progress, began
        self.recording = Recording(host, folder, launch, Options(limit_s))
        self.tests = TriageTests(self.recording, allow)
        self.probes = {source["name"]: source.get("probe") for source in captures()}
        self.ledger: list[dict] = []
        self.verdict: Verdict | None = None
        self.agreed = 0
        self.quiet_timer = QuietTimer()
        self.asked_health = False
        self.ended_at: float | None = None
        if ended:
            self._launch_is_over()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self.began

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
        last = weigh(scene_of_run(open_run(self.folder)))
        self._enter(WATCH, last, always=not self.ledger)
        return last, self.ledger

    def _search(self) -> None:
        self.recording.begin()
        self.asked_health = listens_itself(self.recording)  # the first look asked
        time.sleep(max(FIRST_S - self.passed_s, 0.0) if self.recording.sampler is not None else LOG_S)
        self._judge(FIRST_LOOK)
        while self.left_s > 0 and not self._final():
            self._watch_process()
            step = self._next_test()
            if step is None:
                time.sleep(min(PAUSE_S, max(0.0, self.left_s)))
                self._judge(WATCH)
            elif self._perform(step):
                self._judge(step)

    # one step

    def _perform(self, step: dict) -> bool:
        if step is PORT_OPENED:
            self.asked_health = self.tests.health()
            return True
        name = self.probes[step["what"]]
        if name == "one_request":
            self.tests.times[name] += 1
            return self.tests.one_request(0, self.left_s)
        return self.tests.run(name)

    def _next_test(self) -> dict | None:
        """A real request as soon as it can be sent, else the most useful test for its price that can be run here."""
        if not self.asked_health and listens_itself(self.recording):
            return PORT_OPENED
        for step in self.verdict.next:
            name = self.probes.get(step["what"])
            if name == "one_request" and not self.asked_health:
                continue
            if name == "system_calls" and self.left_s < STRACE_RESERVE_S:
                continue
            if self.tests.can_run(name):
                return step
        for what, name in self.probes.items():  # the second look of a test, whatever is thought by then
            if self.tests.waits(name) and self.tests.can_run(name):
                return next(source | {"what": what} for source in captures() if source["name"] == what)
        return None

    def _watch_process(self) -> None:
        """Enter the end of the launched process as soon as it is seen."""
        sampler = self.recording.sampler
        if sampler is not None and sampler.root_gone and self.ended_at is None:
            self.ended_at = time.monotonic()
            self.recording.launch_ended(sampler)

    def _launch_is_over(self) -> None:
        self.ended_at = time.monotonic()
        manifest = self.recording.manifest
        manifest.update(launch={**manifest.data["launch"], "ended_at": utc_text(manifest.now_ns())})
        manifest.lacks("samples of the processes", "the launch had ended before", "look at the next launch while it runs")

    # judging

    def _judge(self, step: dict) -> None:
        judged = judge_so_far(self.recording, most_steps=len(self.probes))
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
        self.progress(f"         → {line['state']}: {found.klass}, {found.confidence:.0%}{early}")
        if line["because"]:
            self.progress(f"           {line['because']}")

    def _final(self) -> bool:
        """Whether more tests or seconds would change nothing."""
        if self.recording.manifest.full.is_set():
            return True
        state = self.verdict.state
        if self.agreed >= 2 and (state in ("ready", "failed") or state == "stalled" and self.quiet_timer.seconds >= FLAT_S):
            return True
        waiting = any(self.tests.waits(name) for name in self.probes.values())
        if self._next_test() is not None or waiting:
            return False
        over = self.recording.launch.pid is None or self.ended_at is not None and time.monotonic() - self.ended_at >= AFTER_END_S
        return over or self.quiet_timer.seconds >= IDLE_S and state != "progressing" and "cpu_flat" in self.verdict.signs
