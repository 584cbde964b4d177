"""Signs: what the facts mean, each a sentence with its numbers and its evidence.

A sign either holds, does not hold, or is unknown (then it is absent). `kit/knowledge/classes.toml` says how much each
sign speaks for or against each class, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.facts import Facts, derive
from kit.analyse.verdict.phases import Progression, progression
from kit.analyse.verdict.processes import Processes, find_ranks


@dataclass
class Sign:
    """One sign that holds.

    Attributes
    ----------
    code : str
    claim : str
        A sentence with the numbers in it.
    refs : list of dict
        Evidence: `capture`, `line`, `text`.
    ranks : list of int
        Ranks that it is about.
    """

    code: str
    claim: str
    refs: list[dict] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)


@dataclass
class Scene:
    """What the sign functions look at."""

    evidence: Evidence
    processes: Processes
    progression: Progression
    facts: Facts

    @property
    def silence_s(self) -> float | None:
        """Seconds since the last progress record, None where unknown."""
        return self.facts.value("silence_s")

    @property
    def phase(self) -> str | None:
        """Phase of the rank furthest behind."""
        return self.progression.phase


def scene_of(evidence: Evidence) -> Scene:
    """What the sign functions look at, derived from gathered evidence."""
    processes = find_ranks(evidence)
    steps = progression(evidence, processes)
    return Scene(evidence, processes, steps, derive(evidence, processes, steps))


def all_signs(scene: Scene) -> dict[str, Sign]:
    """All signs that hold, by code."""
    from kit.analyse.verdict.signs import life as signs_life
    from kit.analyse.verdict.signs import motion as signs_motion
    from kit.analyse.verdict.signs import progress as signs_progress
    from kit.analyse.verdict.signs import ranks as signs_ranks
    from kit.analyse.verdict.signs import wait as signs_wait

    found: dict[str, Sign] = {}
    for module in (signs_life, signs_progress, signs_wait, signs_ranks, signs_motion):
        for maker in module.MAKERS:
            for sign in maker(scene) or ():
                found.setdefault(sign.code, sign)
    return found


Signs = Iterator[Sign]
