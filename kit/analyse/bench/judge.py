"""From figures to verdicts: interval first, then better, worse, equivalent or inconclusive with the runs still needed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.bench import stats as stats
from kit.analyse.bench.inputs import BASE, CAND
from kit.analyse.bench.metrics import DECIDES, ENOUGH, Figure

BETTER, WORSE, EQUIVALENT, INCONCLUSIVE, WITHHELD = "better", "worse", "equivalent", "inconclusive", "withheld"
NOISE_RUNS, NOISE_UNKNOWN = "of these runs", "unknown"
DISAGREES = 2.0
"""The exact test vetoes a verdict where its p-value is more than this many times the level. Asking both tests to pass the level
itself would cost 5 points of power at 5 v 5 and lower no error rate that is not kept already."""
FAILED_SHARE = 0.01
"""From this share of failed requests on, those that succeeded are other work than what was asked for."""


@dataclass(frozen=True)
class Rules:
    """What the user chose.

    Attributes
    ----------
    margin : float
        Relative change that is called none.
    confidence : float
        Of the interval; 1 minus it is the level of the family.
    noise : dict
        Figure key without load and name to (standard deviation of the logarithm, degrees of freedom), of A/A runs.
    """

    margin: float = 0.05
    confidence: float = 0.95
    noise: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        """Level of the family."""
        return 1 - self.confidence


@dataclass
class Judged:
    """A figure with what its runs say.

    Attributes
    ----------
    verdict : str
        better, worse, equivalent, inconclusive, withheld.
    effect : float or None
        Candidate to base, minus 1, of geometric means.
    interval : tuple of float or None
        Of the effect; None where the noise is not known.
    noise : str
        Where the noise was taken from.
    p, p_adjusted, p_permutation : float or None
        Welch; after Holm (primary) or Benjamini and Hochberg (exploratory); exact test without a model of the noise.
    runs_needed : int or None
        Runs a side with which the effect, or the margin where that is larger, is found four times in five.
    """

    figure: Figure
    verdict: str = INCONCLUSIVE
    effect: float | None = None
    interval: tuple[float, float] | None = None
    noise: str = NOISE_UNKNOWN
    estimate: stats.Estimate | None = None
    p: float | None = None
    p_adjusted: float | None = None
    p_permutation: float | None = None
    runs_needed: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def confirmed(self) -> bool:
        """Whether it says that something changed."""
        return self.verdict in (BETTER, WORSE)

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        one = self.figure
        return {
            "verdict": self.verdict,
            "primary": one.primary,
            "effect": self.effect,
            "interval": None if self.interval is None else list(self.interval),
            "base": middle(one.base),
            "cand": middle(one.cand),
            "unit": one.unit,
            "direction": one.direction,
            "n": {BASE: len(one.base), CAND: len(one.cand)},
            "replicate": one.replicate,
            "noise": self.noise,
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "p_permutation": self.p_permutation,
            "runs_needed": self.runs_needed,
            "definition": one.definition,
            "notes": [*one.notes, *self.notes],
        }


def middle(values: Sequence[float]) -> float | None:
    """Geometric mean, which the ratio is made of.

    Examples
    --------
    >>> round(middle([2.0, 8.0]), 6), middle([])
    (4.0, None)
    """
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def judge(figures: Sequence[Figure], rules: Rules, failed: dict[int, dict[str, float]] | None = None) -> list[Judged]:
    """Judge all figures; primary ones are one family, the others another.

    Parameters
    ----------
    figures : sequence of Figure
        With `primary` set.
    rules : Rules
        Margin, confidence, noise of A/A runs.
    failed : dict, optional
        Share of failed requests, by `id` of the cell and by side.

    Returns
    -------
    list of Judged
        In the order given.
    """
    found = [_estimate(one, rules) for one in figures]
    for primary, adjust in ((True, stats.holm), (False, stats.benjamini_hochberg)):
        family = [one for one in found if one.figure.primary is primary]
        for one, p in zip(family, adjust([one.p if _decides(one) else None for one in family]), strict=True):
            one.p_adjusted = p
    for one in found:
        _decide(one, rules)
        _survivors(one, (failed or {}).get(id(one.figure.cell), {}))
    return found


def _estimate(one: Figure, rules: Rules) -> Judged:
    found = Judged(one)
    if one.refused:
        found.verdict = WITHHELD
        found.notes.append(one.refused)
        return found
    if not one.base or not one.cand:
        found.notes.append(f"{BASE if not one.base else CAND} has no value")
        return found
    base, cand = ([math.log(value) for value in values] for values in (one.base, one.cand))
    found.estimate, found.noise = _noise(one, base, cand, rules)
    found.effect = math.expm1(found.estimate.difference)
    limits = found.estimate.interval(rules.confidence)
    found.interval = None if limits is None else tuple(math.expm1(min(limit, 700.0)) for limit in limits)
    found.p = found.estimate.p
    if min(len(base), len(cand)) >= ENOUGH:
        found.p_permutation = stats.permutation_p(base, cand)
    if found.estimate.sd:
        change = max(abs(found.estimate.difference), math.log1p(rules.margin))
        found.runs_needed = stats.runs_needed(found.estimate.sd, change, rules.alpha)
    if found.estimate.error == 0:
        found.p = found.p_permutation if found.estimate.difference else 1.0
    return found


def _noise(one: Figure, base: list[float], cand: list[float], rules: Rules) -> tuple[stats.Estimate, str]:
    """Choose where the noise of a run comes from."""
    counts = sorted((len(base), len(cand)))
    if counts[0] >= ENOUGH:
        inner = "" if one.replicate in ("run", "launch") else f", each a {one.replicate} of one session"
        return stats.welch(base, cand), NOISE_RUNS + inner
    known = rules.noise.get(f"{one.metric}.{one.stat}")
    if known:
        return stats.with_noise(
            base, cand, *known
        ), f"of A/A runs (standard deviation {known[0]:.1%}, {known[1]} degrees of freedom)"
    sd, freedom = stats.pooled_sd([base, cand])
    if sd is None:
        return stats.with_noise(base, cand, None, 0), NOISE_UNKNOWN
    if counts[0] == 1:
        side = BASE if len(base) > 1 else CAND
        return stats.with_noise(
            base, cand, sd, freedom
        ), f"of the {counts[1]} runs of {side}, taken to be that of the single run too"
    return stats.with_noise(base, cand, sd, freedom), "pooled from both sides"


def _decides(one: Judged) -> bool:
    """Whether there are measurements enough, of the right kind, for a verdict."""
    figure = one.figure
    if one.p is None or figure.replicate not in DECIDES:
        return False
    return max(len(figure.base), len(figure.cand)) >= ENOUGH or "A/A" in one.noise


def _decide(one: Judged, rules: Rules) -> None:
    if one.verdict == WITHHELD or one.effect is None:
        return
    figure, alpha = one.figure, rules.alpha
    if not _decides(one):
        one.notes.append(_why_not(one))
        return
    reachable = min(len(figure.base), len(figure.cand)) >= ENOUGH and stats.least_p(len(figure.base), len(figure.cand)) <= alpha
    agrees = not reachable or one.p_permutation <= DISAGREES * alpha
    if one.p_adjusted <= alpha and agrees:
        up = one.effect > 0
        one.verdict = BETTER if up == (figure.direction == "higher_is_better") else WORSE
        if one.estimate.within(rules.margin, alpha):
            one.notes.append(f"a change, but of less than the margin of {rules.margin:.0%}")
    elif one.estimate.within(rules.margin, alpha):
        if figure.step > rules.margin * min(*figure.base, *figure.cand):
            one.notes.append(f"its clock has steps of {figure.step:g} {figure.unit}: more than the margin of {rules.margin:.0%}")
        else:
            one.verdict = EQUIVALENT
    elif one.p_adjusted <= alpha:
        one.notes.append(
            f"the exact permutation test does not agree (p = {one.p_permutation:.2g}): the noise is not as Welch's test takes it"
        )
    elif one.p <= alpha:
        one.notes.append(
            f"alone it would pass (p = {one.p:.2g}), among the figures of its family it does not (p = {one.p_adjusted:.2g})"
        )
    if one.estimate.error == 0 and one.verdict == INCONCLUSIVE:
        one.notes.append("all runs of a side have the same value: their noise is less than a digit shows")
    if one.confirmed and reachable and one.p_permutation > alpha:
        one.notes.append(f"the exact permutation test alone does not reach the level (p = {one.p_permutation:.2g})")
    if one.confirmed and not reachable and "A/A" not in one.noise:
        one.notes.append("too few runs for the permutation test to confirm it")


def _why_not(one: Judged) -> str:
    figure = one.figure
    if figure.replicate not in DECIDES:
        return (
            "the interval holds what varies within one session; the noise between sessions is unknown: record "
            f"{ENOUGH} or more files a side"
        )
    counts = f"{len(figure.base)} v {len(figure.cand)}"
    if one.noise == NOISE_UNKNOWN:
        return f"{counts}: run-to-run noise unknown"
    return f"{counts} runs are too few for a test"


def _survivors(one: Judged, failed: dict[str, float]) -> None:
    """Take a verdict back where the side that it favours is the one whose requests failed."""
    if not failed or max(failed.values()) < FAILED_SHARE or not one.confirmed:
        return
    good = CAND if one.verdict == BETTER else BASE
    other = BASE if good == CAND else CAND
    if failed.get(good, 0.0) - failed.get(other, 0.0) >= FAILED_SHARE:
        one.verdict = INCONCLUSIVE
        one.notes.append(
            f"{failed[good]:.1%} of the requests of {good} failed: what succeeded is other work, and not called faster"
        )


def noise_of(groups: Sequence[dict[str, list[float]]]) -> dict[str, tuple[float, int]]:
    """Return the noise of a run from groups of runs of one setting: figure to (standard deviation, degrees of freedom).

    Examples
    --------
    >>> noise_of([{"ttft.median": [36.0, 36.4, 35.6]}])["ttft.median"][1]
    2
    """
    keys = dict.fromkeys(key for group in groups for key in group)
    found = {}
    for key in keys:
        logs = [[math.log(value) for value in group.get(key, []) if value > 0] for group in groups]
        sd, freedom = stats.pooled_sd(logs)
        if sd and freedom >= ENOUGH - 1:
            found[key] = (sd, freedom)
    return found
