"""A launch held against one that worked: what that one printed too is harmless, and how long it took is the measure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kit.analyse.verdict.evidence import Evidence, Foreign
from kit.analyse.verdict.log_digest import LIFE, Mark
from kit.analyse.verdict.phases import Progression
from kit.analyse.verdict.settings import Setting, Settings, differences, direct, settings_of
from kit.clock import NS

if TYPE_CHECKING:
    from kit.analyse.verdict.scene import Scene

TROUBLE = ("error", "symptom")
"""Kinds of records that say that something is wrong; those of a launch that worked do not."""
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|(?<![\w.])(?:~|\.{1,2})?/\S+|\d[\d.,:]*|(['\"]).*?\1")


@dataclass(frozen=True)
class GoodRun:
    """What a launch that worked gives to hold another against."""

    name: str
    shapes: frozenset[tuple[str, str]]
    marks: tuple[Mark, ...]
    seconds: dict[str, float]
    settings: Settings

    def printed(self, mark: Mark) -> bool:
        """Whether it printed the same, other numbers and paths aside."""
        return shape(mark) in self.shapes


def shape(mark: Mark) -> tuple[str, str]:
    """A record without what changes from launch to launch."""
    return mark.code, _CHANGING.sub("#", mark.text)[:200]


def good_run(scene: Scene) -> GoodRun | None:
    """What a launch gives to hold another against; None where it did not work."""
    if not scene.fact("ready"):
        return None
    last = max((mark.order for mark in scene.log.marks if mark.phase in LIFE and mark.kind != "error"), default=-1)
    marks = [mark for mark in scene.log.marks if mark.order <= last]  # what came after it had worked proves nothing harmless
    return GoodRun(
        name=scene.evidence.run.name,
        shapes=frozenset(shape(mark) for mark in marks),
        marks=tuple(mark for mark in marks if mark.kind == "progress" and not mark.fields.get("start")),
        seconds=_seconds(scene.progression),
        settings=settings_of(scene.evidence),
    )


def _seconds(found: Progression) -> dict[str, float]:
    """The longest that a rank was in each phase."""
    taken: dict[str, float] = {}
    for steps in found.by_rank.values():
        for step, after in pairwise(steps):
            if step.time is not None and after.time is not None:
                taken[step.phase] = max(taken.get(step.phase, 0.0), (after.time - step.time) / NS)
    return taken


def set_harmless_aside(evidence: Evidence, good: GoodRun) -> None:
    """Take errors and symptoms that the good run printed too out of the log."""
    harmless = [mark for mark in evidence.log.marks if mark.kind in TROUBLE and good.printed(mark)]
    orders = {mark.order for mark in harmless}
    evidence.log.marks = [mark for mark in evidence.log.marks if mark.order not in orders]
    evidence.foreign += [Foreign("errors", mark.ref, f"printed by {good.name} too, which worked") for mark in harmless]


def changed(scene: Scene) -> list[Setting]:
    """Settings that differ and may matter, those that somebody chose first."""
    if scene.good is None:
        return []
    found = differences(scene.good.settings, settings_of(scene.evidence))
    differing = [one for one in found if one.same is False and one.unlikely is None]
    return [one for one in differing if direct(one.source, one.name)] or differing


def in_phase_s(scene: Scene) -> tuple[float, float] | None:
    """Seconds that this launch is in its phase, and that the good run was in it; None where one of them is not known."""
    phase, now = scene.phase, scene.evidence.run.captured_ns
    began = [
        steps[-1].time for steps in scene.progression.by_rank.values() if steps and steps[-1].phase == phase and steps[-1].time
    ]
    usual = scene.good.seconds.get(phase or "") if scene.good else None
    if usual is None or not began or now is None or not scene.evidence.run.captured_known:
        return None
    return (now - min(began)) / NS, usual
