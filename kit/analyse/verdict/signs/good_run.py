"""What the good run had and this one lacks, or the reverse: settings, lines, milestones, and the pace."""

from __future__ import annotations

from kit.analyse.verdict.good_run import TROUBLE, changed, in_phase_s
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.clock import show_duration
from kit.words import short

MOST_SETTINGS = 4


@rule("settings_changed")
def settings(scene: Scene) -> Signs:
    """Flags, variables and versions that differ from those of the good run."""
    if scene.good and (differing := changed(scene)):
        told = [f"{one.name} {one.values[1] or 'not given'} (there {one.values[0] or 'not given'})" for one in differing]
        more = f" and {len(told) - MOST_SETTINGS} more" if len(told) > MOST_SETTINGS else ""
        yield Sign("settings_changed", f"unlike {scene.good.name}, which worked: {', '.join(told[:MOST_SETTINGS])}{more}")


@rule("lines_new", needs=("log",))
def lines(scene: Scene) -> Signs:
    """Errors and warnings that the good run never printed."""
    if scene.good is None:
        return
    new = [mark for mark in scene.log.marks if mark.kind in TROUBLE and not scene.good.printed(mark)]
    if new:
        claim = f"{scene.good.name}, which worked, never printed: {short(new[0].text, 140)}"
        yield Sign("lines_new", claim, [mark.ref for mark in new[:2]])


@rule("milestone_missing", needs=("log",))
def milestone(scene: Scene) -> Signs:
    """The milestone to which the good run went on, and this launch did not."""
    if scene.good is None or scene.fact("ready"):
        return
    seen = {mark.code for mark in scene.log.marks}
    common = max((number for number, mark in enumerate(scene.good.marks) if mark.code in seen), default=None)
    rest = scene.good.marks[common + 1 :] if common is not None else ()
    missing = next((mark for mark in rest if mark.code not in seen), None)
    if common is not None and missing is not None:
        before = short(scene.good.marks[common].text, 60)
        claim = f"after “{before}” {scene.good.name} went on to “{short(missing.text, 80)}”, which this launch lacks"
        yield Sign("milestone_missing", claim, scene.facts.refs("last_line"))


@rule("beyond_good_pace", "within_good_pace", needs=("log",), moving=("within_good_pace",))
def pace(scene: Scene) -> Signs:
    """How long this launch is in its phase, and how long the good run was."""
    taken = in_phase_s(scene)
    if taken is None or scene.good is None or scene.fact("ready") or scene.fact("exited"):
        return
    here, there = taken
    words = f"in {scene.phase} for {show_duration(here)}; {scene.good.name}, which worked, needed {show_duration(there)}"
    if here > scene.limits["good_pace_times"] * max(there, scene.limits["recent_s"]):
        yield Sign("beyond_good_pace", words)
    elif here <= max(there, scene.limits["recent_s"]):
        yield Sign("within_good_pace", words)
