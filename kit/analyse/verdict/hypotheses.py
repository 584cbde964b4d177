"""Hypotheses: each class with the signs for and against it, its share of belief, and the test that would settle it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kit.analyse.verdict.classes import UNDETERMINED, StallClass, classes
from kit.analyse.verdict.rules import RULES
from kit.analyse.verdict.scene import Scene, Sign, present
from kit.analyse.verdict.surroundings import Surroundings
from kit.tool_table import step_command, steps

RIVAL = 0.5
"""A class with at least this part of the leader's belief shares it: twice as likely is no answer yet."""


NOT_BEGUN = frozenset(("unschedulable", "container_blocked"))
"""Signs that no process of the launch is there yet that could be looked at."""


@dataclass
class Hypothesis:
    """One class with what speaks for and against it."""

    klass: StallClass
    score: float  # sum of the weights
    share: float = 0.0  # share of belief among all classes, 0 to 1
    # `supporting`, `opposing`: sign, weight, reason
    supporting: list[tuple[Sign, float, str]] = field(default_factory=list)
    opposing: list[tuple[Sign, float, str]] = field(default_factory=list)
    # signs that are not known yet and would move it most: `sign`, `weight`, `reason`, and the cheapest capture that can give it:
    # `capture`, `cost_s`, `consent`
    settled_by: list[dict] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.klass.name

    @property
    def meaning(self) -> str:
        """What the class means."""
        return self.klass.meaning

    def to_dict(self) -> dict:
        """Plain types."""
        return {
            "class": self.name,
            "meaning": self.meaning,
            "score": round(self.score, 2),
            "share": round(self.share, 3),
            "for": [_said(*entry) for entry in self.supporting],
            "against": [_said(*entry) for entry in self.opposing],
            "settled_by": self.settled_by,
        }


def _said(sign: Sign, weight: float, reason: str) -> dict:
    return {"sign": sign.code, "claim": sign.claim, "weight": weight, "reason": reason, "evidence": sign.refs}


def judge(scene: Scene, signs: dict[str, Sign]) -> list[Hypothesis]:
    """Weigh all classes by the signs that hold, the likeliest first; what no sign speaks for is not believed at all."""
    hypotheses = []
    for known in classes(scene.evidence.run.knowledge).values():
        hypothesis = Hypothesis(klass=known, score=known.prior)
        for code, (weight, reason) in known.signs.items():
            if code in signs:
                hypothesis.score += weight
                (hypothesis.supporting if weight > 0 else hypothesis.opposing).append((signs[code], weight, reason))
        hypothesis.supporting.sort(key=lambda entry: -entry[1])
        hypothesis.opposing.sort(key=lambda entry: entry[1])
        hypotheses.append(hypothesis)
    possible = [found for found in hypotheses if found.name == UNDETERMINED or found.score >= scene.limits["least_score"]]
    top = max(hypothesis.score for hypothesis in possible)
    odds = [math.exp((hypothesis.score - top) / scene.limits["temperature"]) for hypothesis in possible]
    for hypothesis, share in zip(possible, odds, strict=True):
        hypothesis.share = share / sum(odds)
    return sorted(hypotheses, key=lambda hypothesis: (-hypothesis.share, -hypothesis.score))


def next_steps(found: list[Hypothesis], scene: Scene, signs: dict[str, Sign], where: Surroundings, most: int = 4) -> list[dict]:
    """The cheapest captures that separate the leading hypotheses.

    A capture is worth how far its signs move the leading classes apart; its cost and the need for consent count against it.

    Returns `what`, `why`, `command`, `cost_s`, `consent`, `separates`; the most useful first.
    """
    least = scene.limits["leading_share"]
    likely = [hypothesis for hypothesis in found if hypothesis.share >= least and hypothesis.name != UNDETERMINED]
    leading = likely[:5] or found[:3]
    chosen = _separating(leading, scene, signs, where)[:most]
    if second := rival(found[0], found):
        parting = _separating([found[0], second], scene, signs, where, parting=True)[:1]
        chosen = [*parting, *(step for step in chosen if step["what"] != parting[0]["what"])][:most] if parting else chosen
    return chosen


def rival(best: Hypothesis, found: list[Hypothesis]) -> Hypothesis | None:
    """The class that shares the belief with the named one: it has at least half as much."""
    others = (other for other in found if other is not best and other.name != UNDETERMINED)
    second = max(others, key=lambda other: other.share)
    return second if best.name != UNDETERMINED and second.share >= RIVAL * best.share else None


def _separating(
    leading: list[Hypothesis], scene: Scene, signs: dict[str, Sign], where: Surroundings, parting: bool = False
) -> list[dict]:
    """Captures that move the leading classes apart, the most useful first; but for `parting`, from all other classes too."""
    others, urgent = ([], 0.0) if parting else ([0.0], scene.limits["urgent_worth"])
    ranked = []
    for capture in steps(scene.evidence.run.knowledge):
        if not _wanted(capture, scene, signs, where):
            continue
        worth = 0.0
        for code in capture["signs"]:
            if code not in signs:
                weights = [*others, *(hypothesis.klass.weight(code) for hypothesis in leading)]
                worth = max(worth, max(weights) - min(weights))
        first = any(code in signs for code in capture.get("urgent", ())) or "first" in capture and where.fits(capture["first"])
        worth += urgent * first
        if worth >= 1.0:
            price = 1.0 + math.log10(1.0 + 20.0 * capture["cost_s"]) + (0.5 if capture.get("consent") else 0.0)
            ranked.append((worth / price, capture))
    ranked.sort(key=lambda pair: -pair[0])
    return [_step(capture, where, leading) for _, capture in ranked]


def settling(hypothesis: Hypothesis, scene: Scene, signs: dict[str, Sign], where: Surroundings, most: int = 3) -> list[dict]:
    """Signs that would settle a hypothesis, with the cheapest capture that can give each.

    In the form of `Hypothesis.settled_by`, the weightiest sign first; captures that were taken already are left out.
    """
    offered: dict[str, dict] = {}
    for capture in sorted(steps(scene.evidence.run.knowledge), key=lambda entry: entry["cost_s"]):
        if _wanted(capture, scene, signs, where):
            for code in capture["signs"]:
                offered.setdefault(code, capture)
    unknown = [(code, *entry) for code, entry in hypothesis.klass.signs.items() if code not in signs and code in offered]
    unknown.sort(key=lambda entry: (-abs(entry[1]), offered[entry[0]]["cost_s"]))
    return [
        {
            "sign": code,
            "weight": weight,
            "reason": reason,
            "capture": offered[code]["name"],
            "cost_s": offered[code]["cost_s"],
            "consent": bool(offered[code].get("consent")),
        }
        for code, weight, reason in unknown[:most]
    ]


def absent_sources(found: list[Hypothesis], scene: Scene, signs: dict[str, Sign], where: Surroundings) -> list[str]:
    """What the rules that bear on the likely classes need and nobody gave, each with the command that gets it."""
    least = scene.limits["leading_share"]
    likely = [hypothesis.klass for hypothesis in found if hypothesis.share >= least]
    bearing = {code for known in likely for code in known.signs if abs(known.weight(code)) >= 1}
    rules = [entry for entry in RULES if bearing.intersection(entry.codes)]
    needed = {name for entry in rules for need in entry.needs if not scene.has(need) for name in need.split("|")}
    sentences = []
    if "log" in needed:
        sentences.append("no log of the server: give its output, or the file that it was written to")
    for capture in sorted(steps(scene.evidence.run.knowledge), key=lambda entry: entry["cost_s"]):
        if needed.intersection(capture["have"]) and _wanted(capture, scene, signs, where):
            needed.difference_update(capture["have"])
            command = _step(capture, where, [])["command"]
            sentences.append(f"no {capture['name']}: {capture['why']}; get it with: {command}")
    return sentences


def _wanted(capture: dict, scene: Scene, signs: dict[str, Sign], where: Surroundings) -> bool:
    if not where.fits(capture.get("on", ())) or capture["tools"] and where.row(capture["tools"]) is None:
        return False
    if any(code in signs for code in capture.get("unless", ())):
        return False
    looks = "!over" in capture.get("on", ()) and "when" not in capture
    if looks and "kubernetes" in where.traits and NOT_BEGUN & signs.keys():
        return False
    if "when" in capture and not any(code in signs for code in capture["when"]):
        return False
    return not _taken(capture, scene, signs)


def _taken(capture: dict, scene: Scene, signs: dict[str, Sign]) -> bool:
    """Whether it was taken already, and be it that it showed nothing of the launch; what is taken twice, both times.

    A tool that could not look, as one that may not, has shown nothing.
    """
    failed = {row["tool"] for row in scene.evidence.tool_errors}
    able = [tool for tool in capture["tools"] if tool.name not in failed and not any(name in tool.command for name in failed)]
    kinds = {tool.kind for tool in able if capture["have"]}
    looks = {found.moment for found in scene.evidence.run.captures if found.kind in kinds}
    if capture.get("twice"):
        return len(looks) > 1 or not signs.keys().isdisjoint(capture["signs"])
    return bool(looks) or any(present(scene.evidence, name) for name in capture["have"])


def _step(capture: dict, where: Surroundings, leading: list[Hypothesis]) -> dict:
    return {
        "what": capture["name"],
        "why": where.filled(capture["why"]),
        "command": where.there(step_command(capture, where.row(capture["tools"]), **where.names)),
        "cost_s": capture["cost_s"],
        "consent": bool(capture.get("consent")),
        "separates": [hypothesis.name for hypothesis in leading],
    }
