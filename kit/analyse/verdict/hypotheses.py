"""Hypotheses: each class with the signs for and against it, its share of belief, and the test that would settle it."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kit.analyse.verdict.scene import Scene, Sign

KNOWLEDGE = Path(__file__).parents[2] / "knowledge"
STATES = {
    "ready": "ready",
    "log_lost_server_ready": "ready",
    "downloading": "progressing",
    "slow_weights": "progressing",
    "slow_post_load": "progressing",
    "slow_compile": "progressing",
    "undetermined": "unknown",
}
FAILED = frozenset(("gpu_oom", "host_oom_kill", "worker_crashed", "port_in_use", "killed_by_probe", "gpu_fault"))
"""Classes whose state is `failed`; so is every class once the launch has exited. All others are `stalled`."""
TEMPERATURE = 1.3
"""Divides the scores before the shares of belief are taken: weights are guesses, and belief should not outrun them."""


@dataclass
class Hypothesis:
    """One class with what speaks for and against it.

    Attributes
    ----------
    name : str
        Class.
    meaning : str
    score : float
        Sum of the weights.
    share : float
        Share of belief among all classes, 0 to 1.
    supporting, opposing : list of (Sign, float, str)
        Sign, weight, reason.
    settled_by : list of dict
        Signs that are not known yet and would move it most: `sign`, `weight`, `reason`, and the cheapest capture that can
        give it: `capture`, `cost_s`, `consent`.
    """

    name: str
    meaning: str
    score: float
    share: float = 0.0
    supporting: list[tuple[Sign, float, str]] = field(default_factory=list)
    opposing: list[tuple[Sign, float, str]] = field(default_factory=list)
    settled_by: list[dict] = field(default_factory=list)

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


@cache
def classes() -> list[dict]:
    """The classes with their weights."""
    return tomllib.loads((KNOWLEDGE / "classes.toml").read_text(encoding="utf-8"))["class"]


@cache
def captures() -> list[dict]:
    """What can be collected."""
    return tomllib.loads((KNOWLEDGE / "captures.toml").read_text(encoding="utf-8"))["capture"]


LEADING_SHARE = 0.02
"""Classes with at least this share of belief are worth separating."""
URGENT = 4.0
"""Worth of a capture that the evidence itself asks for, as one snapshot asks for a second."""


def judge(signs: dict[str, Sign]) -> list[Hypothesis]:
    """Weigh all classes, the likeliest first.

    Parameters
    ----------
    signs : dict of str to Sign
        Signs that hold.

    Returns
    -------
    list of Hypothesis
        All classes, by share of belief, falling.
    """
    found = []
    for entry in classes():
        hypothesis = Hypothesis(entry["name"], entry["meaning"], entry.get("prior", 0.0))
        for code, weight, reason in entry["signs"]:
            sign = signs.get(code)
            if sign is None or weight == 0:
                continue
            hypothesis.score += weight
            (hypothesis.supporting if weight > 0 else hypothesis.opposing).append((sign, weight, reason))
        hypothesis.supporting.sort(key=lambda entry: -entry[1])
        hypothesis.opposing.sort(key=lambda entry: entry[1])
        found.append(hypothesis)
    top = max(hypothesis.score for hypothesis in found)
    total = sum(math.exp((hypothesis.score - top) / TEMPERATURE) for hypothesis in found)
    for hypothesis in found:
        hypothesis.share = math.exp((hypothesis.score - top) / TEMPERATURE) / total
    return sorted(found, key=lambda hypothesis: -hypothesis.share)


def state_of(name: str, exited: bool) -> str:
    """State that follows from a class.

    Examples
    --------
    >>> state_of("device_hang", False), state_of("device_hang", True), state_of("undetermined", False)
    ('stalled', 'failed', 'unknown')
    """
    if name in FAILED or (exited and name != "undetermined"):
        return "failed"
    return STATES.get(name, "stalled")


def next_steps(found: list[Hypothesis], scene: Scene, signs: dict[str, Sign], most: int = 4) -> list[dict]:
    """The cheapest captures that separate the leading hypotheses.

    A capture is worth how far its signs move the leading classes apart; its cost and the need for consent count against it.

    Returns
    -------
    list of dict
        `what`, `why`, `command`, `cost_s`, `consent`, `separates`; the most useful first.
    """
    leading = [hypothesis for hypothesis in found if hypothesis.share >= LEADING_SHARE and hypothesis.name != "undetermined"][
        :5
    ] or found[:3]
    weights = {entry["name"]: {code: weight for code, weight, _ in entry["signs"]} for entry in classes()}
    ranked = []
    for capture in captures():
        if not _wanted(capture, scene, signs):
            continue
        worth = 0.0
        for code in capture["signs"]:
            if code in signs:
                continue
            given = [weights[hypothesis.name].get(code, 0.0) for hypothesis in leading]
            worth = max(worth, max(given + [0.0]) - min(given + [0.0]))
        worth += URGENT * any(code in signs for code in capture.get("urgent", ()))
        if worth >= 1.0:
            price = 1.0 + math.log10(1.0 + 20.0 * capture["cost_s"]) + (0.5 if capture.get("consent") else 0.0)
            ranked.append((worth / price, capture))
    ranked.sort(key=lambda pair: -pair[0])
    return [_step(capture, scene, leading) for _, capture in ranked[:most]]


def settling(hypothesis: Hypothesis, scene: Scene, signs: dict[str, Sign], most: int = 3) -> list[dict]:
    """Signs that would settle a hypothesis, with the cheapest capture that can give each.

    Returns
    -------
    list of dict
        As `Hypothesis.settled_by`, the weightiest sign first; captures that were taken already are left out.
    """
    offered: dict[str, dict] = {}
    for capture in sorted(captures(), key=lambda entry: entry["cost_s"]):
        if _wanted(capture, scene, signs):
            for code in capture["signs"]:
                offered.setdefault(code, capture)
    weights = next(entry["signs"] for entry in classes() if entry["name"] == hypothesis.name)
    unknown = [entry for entry in weights if entry[0] not in signs and entry[0] in offered]
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


def _wanted(capture: dict, scene: Scene, signs: dict[str, Sign]) -> bool:
    if any(code in signs for code in capture.get("unless", ())):
        return False
    if "when" in capture and not any(code in signs for code in capture["when"]):
        return False
    evidence = scene.evidence
    taken = evidence.has(*[name for name in capture["have"] if name != "syscalls"]) or (
        "syscalls" in capture["have"] and evidence.syscalls.calls > 0
    )
    if not capture.get("twice"):
        return not taken
    return not set(capture["signs"]) & set(signs)


def _step(capture: dict, scene: Scene, leading: list[Hypothesis]) -> dict:
    workers = [process.pid for process in scene.processes.workers] or sorted(scene.processes.by_pid)
    names = {
        "pid": str(workers[0]) if workers else "PID",
        "pids": " ".join(map(str, workers)) or "PID",
        "port": str(scene.facts.value("port") or "PORT"),
        "lock": scene.facts.value("lock_path") or "LOCK",
        "log": "LOG",
    }
    command = capture["command"]
    for name, value in names.items():
        command = command.replace("{" + name + "}", value)
    return {
        "what": capture["name"],
        "why": capture["why"],
        "command": command,
        "cost_s": capture["cost_s"],
        "consent": bool(capture.get("consent")),
        "separates": [hypothesis.name for hypothesis in leading],
    }
