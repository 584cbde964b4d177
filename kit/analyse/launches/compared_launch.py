"""One launch as a comparison sees it: everything that is held against other launches, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.phases import ORDER, Progression, Step
from kit.analyse.verdict.processes import Processes
from kit.analyse.verdict.scene import Scene, scene_of_run
from kit.analyse.verdict.settings import COMMAND, Settings, settings_of
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.clock import NS
from kit.open import open_run
from kit.run import Run

MILESTONE_KINDS = frozenset(("progress", "symptom", "error", "other"))
"""Kinds of records that count as milestones of a launch; requests and heartbeats are none."""
GOOD, BAD = "ready", ("stalled", "failed")
"""States of launches that worked, and of those that did not; one that is progressing or undecided is neither yet."""


@dataclass
class ComparedLaunch:
    """One of the launches, with everything that a comparison asks of it."""

    label: str  # `a`, `b`, …
    run: Run
    evidence: Evidence
    processes: Processes
    found: Progression
    verdict: Verdict
    settings: Settings
    origin_ns: int | None  # zero of its time axis: launch zero, or the begin of the phase at which the runs are aligned
    end_ns: int | None  # end of the evidence: the capture's time, or the last stamp of the log where only a file's time is known

    @property
    def good(self) -> bool | None:
        """Whether the launch worked; None where that is open. One that crashed once it was ready did work."""
        if self.verdict.state == GOOD or self.ended or self.verdict.state == "ended" and self._worked:
            return True
        return False if self.verdict.state in BAD else None

    @property
    def ended(self) -> bool:
        """Whether it crashed after it was ready: servers that are stopped by hand leave such logs."""
        return self.verdict.hypothesis.klass.crash and self._worked

    @property
    def _worked(self) -> bool:
        return any(step.phase in ("ready", "serving", "train_step") for step in self.steps)

    @property
    def behind(self) -> int | None:
        """Rank that is furthest behind; None where the log names no ranks."""
        known = {rank: steps for rank, steps in self.found.by_rank.items() if steps}
        return min(known, key=lambda rank: (ORDER[known[rank][-1].phase], rank if rank is not None else -1), default=None)

    @property
    def steps(self) -> list[Step]:
        """Phases that the rank furthest behind went through."""
        return self.found.by_rank.get(self.behind, [])

    @property
    def spans(self) -> list[tuple[Step, int | None, bool]]:
        """Each of these phases with its end, and whether the launch stands in it."""
        ends = [step.time for step in self.steps[1:]]
        return [
            (step, ends[number] if number < len(ends) else self.end_ns, number == len(ends))
            for number, step in enumerate(self.steps)
        ]

    @property
    def marks(self) -> list[Mark]:
        """Milestones of the last start: a restart loop begins anew."""
        marks = self.evidence.log.marks
        start = max((number for number, mark in enumerate(marks) if mark.fields.get("start")), default=0)
        return [mark for mark in marks[start:] if mark.kind in MILESTONE_KINDS]

    def seconds(self, ns: int | None) -> float | None:
        """Position on its time axis."""
        return None if ns is None or self.origin_ns is None else (ns - self.origin_ns) / NS

    def begin_of(self, phase: str) -> int | None:
        """When its rank furthest behind entered a phase first."""
        return next((step.time for step in self.steps if step.phase == phase and step.time is not None), None)

    @property
    def ready_s(self) -> float | None:
        """Seconds to ready on its time axis; None where it is not, or not at a known time."""
        return self.seconds(self.begin_of("ready"))

    def process(self, pid: int | None) -> str:
        """What matches processes of several launches: the rank, else the role."""
        found = self.processes.by_pid.get(pid) if pid is not None else None
        return "other" if found is None else f"rank {found.rank}" if found.rank is not None else found.role


def read_launch(
    label: str,
    given: str | Path | Run,
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    scene_of: Callable[[Run], Scene] = scene_of_run,
) -> ComparedLaunch:
    """Read a launch once.

    `captured_at`: when the evidence was taken, local time of the host. Raises EvidenceError where it cannot be
    read.
    """
    run = given if isinstance(given, Run) else open_run(given, captured_at, knowledge)
    scene = scene_of(run)
    evidence = scene.evidence
    end = run.captured_ns if run.captured_known else evidence.log.last_time
    return ComparedLaunch(
        label=label,
        run=run,
        evidence=evidence,
        processes=scene.processes,
        found=scene.progression,
        verdict=weigh(scene),
        settings=settings_of(evidence),
        origin_ns=run.launch_zero_ns,
        end_ns=end,
    )


def same_launch(a: ComparedLaunch, b: ComparedLaunch) -> bool:
    """Whether both are evidence of one launch: one folder, or the same milestones of the same processes at the same times."""
    typed = [launch.settings.of(COMMAND) for launch in (a, b)]
    if all(typed) and typed[0] != typed[1]:
        return False
    logs = [[(mark.code, mark.time, mark.pid, mark.text) for mark in launch.evidence.log.marks] for launch in (a, b)]
    dated = any(time is not None or pid is not None for _, time, pid, _ in logs[0])
    return a.run.path.resolve() == b.run.path.resolve() or (dated and logs[0] == logs[1])
