"""What the rules look at, and what they say.

A *fact* (`facts.py`) is a value that can be read off the evidence: the port, the signal, the ranks that died. A *sign* is what
facts and rows mean: a claim that holds, speaks for or against classes of stalls, and stands alone with its numbers. A new
observation goes to the facts where others will print or compute with its value, and to a rule in `signs/` where it is weighed:
then it needs a weight and a reason in `kit/knowledge/classes.toml`. A sign that does not hold, or is unknown, is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.verdict.attribution import set_aside
from kit.analyse.verdict.evidence import Evidence, Foreign, gather
from kit.analyse.verdict.facts import Fact, Facts, derive
from kit.analyse.verdict.good_run import GoodRun, good_run, set_harmless_aside
from kit.analyse.verdict.launch_choice import (
    ANY,
    Asked,
    check_asked,
    judged_attempts,
    of_other_attempts,
    other_logs,
    set_other_servers_aside,
    without_ends_between,
)
from kit.analyse.verdict.log_digest import LogDigest
from kit.analyse.verdict.phases import Progression, progression
from kit.analyse.verdict.processes import Processes, find_ranks
from kit.analyse.verdict.thresholds import thresholds
from kit.errors import UsageError
from kit.run import Run
from kit.schema import Row


@dataclass
class Sign:
    """A sign that holds: its code, a sentence with the numbers in it, evidence (`capture`, `line`, `text`), ranks it is about."""

    code: str
    claim: str
    refs: list[dict] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)


Signs = Iterator[Sign]


@dataclass
class Scene:
    """What the rules look at."""

    evidence: Evidence
    processes: Processes
    progression: Progression
    facts: Facts
    limits: Mapping[str, float] = field(default_factory=thresholds)
    good: GoodRun | None = None
    """A launch that worked, which this one is held against."""

    @property
    def log(self) -> LogDigest:
        """Digest of the logs."""
        return self.evidence.log

    @property
    def silence_s(self) -> float | None:
        """Seconds since the last progress record, None where unknown."""
        return self.facts.value("silence_s")

    @property
    def phase(self) -> str | None:
        """Phase of the rank furthest behind."""
        return self.progression.phase

    def fact(self, name: str) -> Any:
        """Value of a fact, None where it is absent."""
        return self.facts.value(name)

    def ranks_of(self, pids: Iterable[int | None]) -> list[int]:
        """Ranks of those pids that are ranks, in their order."""
        return [rank for pid in pids if (rank := self.processes.rank_of(pid)) is not None]

    def has(self, frame: str) -> bool:
        """Whether the evidence holds anything for a frame, or for one of several: `sockets|probes`."""
        return any(present(self.evidence, name) for name in frame.split("|"))


def present(evidence: Evidence, frame: str) -> bool:
    """Whether the evidence holds anything for a frame."""
    if frame == "log":
        return evidence.log.records > 0
    return evidence.syscalls.calls > 0 if frame == "syscalls" else evidence.has(frame)


def scene_of(evidence: Evidence, asked: Asked = ANY, good: GoodRun | None = None) -> Scene:
    """What the rules look at, derived from gathered evidence, which may be held against a good run."""
    set_other_servers_aside(evidence, asked)
    if good is not None:
        set_harmless_aside(evidence, good)
    processes = find_ranks(evidence)
    set_aside(evidence, processes)
    steps = progression(evidence, processes)
    facts = derive(evidence, processes, steps)
    evidence.run.doubts = [_note(fact, why) for fact, why in facts.doubted]
    return Scene(evidence, processes, steps, facts, thresholds(evidence.run.knowledge), good)


def _note(fact: Fact, why: str) -> Row:
    """A row of the frame `notes` about a fact that was left out."""
    where = next(iter(fact.refs), {})
    text = f"{fact.name} {fact.value}: {where.get('text') or ''}"
    return {"reason": why, "count": 1, "text": text, "capture": where.get("capture") or "", "line": where.get("line")}


def scene_of_run(run: Run, asked: Asked = ANY, against: Run | None = None) -> Scene:
    """What the rules look at in a run: gathered and derived once, and kept with the run until a capture changes.

    `asked` names one of several launches, `against` a launch that worked; such a scene is not kept.
    """
    if against is not None and (good := good_run(scene_of_run(against))) is None:
        raise UsageError(f"{against.name} did not work", "its evidence shows no ready line and no step", "name a launch that did")
    return _gathered(run, asked, good) if against is not None else _gathered(run, asked) if asked else run.derived(_gathered)


def _gathered(run: Run, asked: Asked = ANY, good: GoodRun | None = None) -> Scene:
    evidence = gather(run)
    check_asked(evidence, asked)
    left_out: list[Foreign] = []
    if attempts := judged_attempts(evidence, asked):
        left_out = of_other_attempts(evidence, attempts)
        evidence = gather(run, attempts=attempts)
    if others := other_logs(evidence, asked):
        evidence = gather(run, without_logs=others, attempts=attempts)
        left_out += [Foreign("log", {"capture": name}, why) for name, why in others.items()]
    without_ends_between(evidence, attempts)
    evidence.foreign += left_out
    return scene_of(evidence, asked, good)
