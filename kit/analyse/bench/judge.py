"""From metrics to verdicts: interval first, then better, worse, equivalent or inconclusive with the runs still needed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.bench import stats
from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.inputs import BASE, CAND
from kit.analyse.bench.metrics import DECIDING_REPLICATES, MIN_RUNS, Metric
from kit.errors import UsageError

BETTER, WORSE, EQUIVALENT, INCONCLUSIVE, WITHHELD = "better", "worse", "equivalent", "inconclusive", "withheld"
NOISE_OF_RUNS, NOISE_OF_AA, NOISE_OF_ONE_SIDE, NOISE_POOLED, NOISE_UNKNOWN = (
    "these runs",
    "A/A runs",
    "one side",
    "pooled",
    "unknown",
)
"""Where the noise of a run was taken from."""
VETO_FACTOR = 2.0
"""The exact test vetoes a verdict where its p-value is more than this many times the level. Asking both tests to pass the level
itself would cost 5 points of power at 5 v 5 and lower no error rate that is not kept already."""
FAILED_SHARE = 0.01
"""From this share of failed requests on, those that succeeded are other work than what was asked for."""


@dataclass(frozen=True)
class Rules:
    """What the user chose."""

    margin: float = 0.05  # relative change that is called none
    confidence: float = 0.95  # of the interval; 1 minus it is the level of the family
    # metric and statistic to (standard deviation of the logarithm, degrees of freedom), of A/A runs
    noise: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        """Level of the family."""
        return 1 - self.confidence

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1 or not 0 < self.margin < 1:
            raise UsageError(
                f"margin {self.margin:g} and confidence {self.confidence:g} cannot be used",
                "a margin must be between 0 and 1, a confidence between 0.5 and 1",
                "compare with margin=0.05, confidence=0.95",
            )


@dataclass
class JudgedMetric:
    """A metric with what its runs say."""

    metric: Metric
    verdict: str = INCONCLUSIVE  # better, worse, equivalent, inconclusive, withheld
    effect: float | None = None  # candidate to base, minus 1, of geometric means
    interval: tuple[float, ...] | None = None  # of the effect; None where the noise is not known
    noise: str = NOISE_UNKNOWN  # where the noise was taken from: `these runs`, `A/A runs`, `one side`, `pooled`, `unknown`
    estimate: stats.Estimate | None = None
    # `p`, `p_adjusted`, `p_permutation`: Welch; after Holm (primary) or Benjamini and Hochberg (exploratory); exact test without
    # a model of the noise
    p: float | None = None
    p_adjusted: float | None = None
    p_permutation: float | None = None
    runs_needed: int | None = None  # runs per side that find the effect, or the margin where that is larger, with 80 % power
    notes: list[Finding] = field(default_factory=list)

    @property
    def confirmed(self) -> bool:
        """Whether the verdict is that something changed."""
        return self.verdict in (BETTER, WORSE)

    @property
    def runs(self) -> tuple[int, int]:
        """Measurements of base and candidate."""
        return len(self.metric.base), len(self.metric.cand)

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        metric = self.metric
        return {
            "verdict": self.verdict,
            "primary": metric.primary,
            "effect": self.effect,
            "interval": None if self.interval is None else list(self.interval),
            "base": middle(metric.base),
            "cand": middle(metric.cand),
            "unit": metric.unit,
            "direction": metric.direction,
            "n": dict(zip((BASE, CAND), self.runs, strict=True)),
            "replicate": metric.replicate,
            "noise": self.noise,
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "p_permutation": self.p_permutation,
            "runs_needed": self.runs_needed,
            "definition": metric.definition,
            "notes": [str(note) for note in (*metric.notes, *self.notes)],
        }


def middle(values: Sequence[float]) -> float | None:
    """Geometric mean, which the ratio is made of.

    Examples
    --------
    >>> round(middle([2.0, 8.0]), 6), middle([])
    (4.0, None)
    """
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def judge(metrics: Sequence[Metric], rules: Rules) -> list[JudgedMetric]:
    """Judge all metrics, in their order; primary ones (marked so) are one family, the others another."""
    judged = [_estimated(metric, rules) for metric in metrics]
    for primary, adjust in ((True, stats.holm), (False, stats.benjamini_hochberg)):
        family = [entry for entry in judged if entry.metric.primary is primary]
        for entry, p in zip(family, adjust([entry.p if _decides(entry) else None for entry in family]), strict=True):
            entry.p_adjusted = p
    for entry in judged:
        if entry.verdict != WITHHELD and entry.effect is not None:
            _decide(entry, rules)
            _survivors(entry)
    return judged


def _estimated(metric: Metric, rules: Rules) -> JudgedMetric:
    judged = JudgedMetric(metric)
    if metric.refused:
        judged.verdict = WITHHELD
        judged.notes.append(metric.refused)
        return judged
    if not metric.base or not metric.cand:
        judged.notes.append(finding("no_data", side=BASE if not metric.base else CAND))
        return judged
    base, cand = ([math.log(value) for value in values] for values in (metric.base, metric.cand))
    judged.estimate = estimate = _noise(judged, base, cand, rules)
    judged.effect = math.expm1(estimate.difference)
    limits = estimate.interval(rules.confidence)
    judged.interval = None if limits is None else tuple(math.expm1(min(limit, 700.0)) for limit in limits)
    judged.p = estimate.p
    if min(judged.runs) >= MIN_RUNS:
        judged.p_permutation = stats.permutation_p(base, cand)
    if estimate.sd:
        change = max(abs(estimate.difference), math.log1p(rules.margin))
        judged.runs_needed = stats.runs_needed(estimate.sd, change, rules.alpha)
    if estimate.error == 0:
        judged.p = judged.p_permutation if estimate.difference else 1.0
    return judged


def _noise(judged: JudgedMetric, base: list[float], cand: list[float], rules: Rules) -> stats.Estimate:
    """Choose where the noise of a run comes from, and note it."""
    metric = judged.metric
    if min(judged.runs) >= MIN_RUNS:
        judged.noise = NOISE_OF_RUNS
        if metric.replicate not in ("run", "launch"):
            judged.notes.append(finding("noise_within_session", replicate=metric.replicate))
        return stats.welch(base, cand)
    known = rules.noise.get(f"{metric.quantity}.{metric.stat}")
    sd, freedom = known or stats.pooled_sd([base, cand])
    if known:
        judged.noise = NOISE_OF_AA
        judged.notes.append(finding("noise_of_aa", sd=sd, freedom=freedom))
    elif sd is not None and min(judged.runs) == 1:
        judged.noise = NOISE_OF_ONE_SIDE
        judged.notes.append(finding("noise_of_one_side", runs=max(judged.runs), side=BASE if len(base) > 1 else CAND))
    elif sd is not None:
        judged.noise = NOISE_POOLED
        judged.notes.append(finding("noise_pooled"))
    return stats.with_noise(base, cand, sd, freedom)


def _decides(judged: JudgedMetric) -> bool:
    """Whether there are measurements enough, of the right kind, for a verdict."""
    if judged.p is None or judged.metric.replicate not in DECIDING_REPLICATES:
        return False
    return max(judged.runs) >= MIN_RUNS or judged.noise == NOISE_OF_AA


def _decide(judged: JudgedMetric, rules: Rules) -> None:
    if not _decides(judged):
        judged.notes.append(_why_undecided(judged))
        return
    metric, alpha, estimate = judged.metric, rules.alpha, judged.estimate
    assert estimate is not None and judged.effect is not None and judged.p is not None and judged.p_adjusted is not None
    permutation = judged.p_permutation if min(judged.runs) >= MIN_RUNS and stats.least_p(*judged.runs) <= alpha else None
    significant = judged.p_adjusted <= alpha
    vetoed = permutation is not None and permutation > VETO_FACTOR * alpha
    if significant and not vetoed:
        judged.verdict = BETTER if (judged.effect > 0) == (metric.direction == "higher_is_better") else WORSE
        if estimate.within(rules.margin, alpha):
            judged.notes.append(finding("below_margin", margin=rules.margin))
    elif estimate.within(rules.margin, alpha):
        if metric.step > rules.margin * min(*metric.base, *metric.cand):
            judged.notes.append(finding("clock_step", step=metric.step, unit=metric.unit, margin=rules.margin))
        else:
            judged.verdict = EQUIVALENT
    elif significant:
        judged.notes.append(finding("permutation_disagrees", p=permutation))
    elif judged.p <= alpha:
        judged.notes.append(finding("family_too_large", p=judged.p, p_adjusted=judged.p_adjusted))
    if estimate.error == 0 and judged.verdict == INCONCLUSIVE:
        judged.notes.append(finding("no_spread"))
    if judged.confirmed and permutation is not None and permutation > alpha:
        judged.notes.append(finding("permutation_weak", p=permutation))
    if judged.confirmed and permutation is None and judged.noise != NOISE_OF_AA:
        judged.notes.append(finding("permutation_impossible"))


def _why_undecided(judged: JudgedMetric) -> Finding:
    if judged.metric.replicate not in DECIDING_REPLICATES:
        return finding("one_session", runs=MIN_RUNS)
    base, cand = judged.runs
    return finding("noise_unknown" if judged.noise == NOISE_UNKNOWN else "too_few_runs", base=base, cand=cand)


def _survivors(judged: JudgedMetric) -> None:
    """Take a verdict back where the side that it favours is the one whose requests failed."""
    failed = judged.metric.group.failed
    good, other = (CAND, BASE) if judged.verdict == BETTER else (BASE, CAND)
    excess = failed.get(good, 0.0) - failed.get(other, 0.0)
    if judged.confirmed and excess >= FAILED_SHARE:
        judged.verdict = INCONCLUSIVE
        judged.notes.append(finding("survivors", share=failed[good], side=good))


def noise_of(groups: Sequence[dict[str, list[float]]]) -> dict[str, tuple[float, int]]:
    """Noise of a run from groups of runs of one setting: metric and statistic to (standard deviation, degrees of freedom).

    Examples
    --------
    >>> noise_of([{"ttft.median": [36.0, 36.4, 35.6]}])["ttft.median"][1]
    2
    """
    noise = {}
    for key in dict.fromkeys(key for group in groups for key in group):
        logs = [[math.log(value) for value in group.get(key, []) if value > 0] for group in groups]
        sd, freedom = stats.pooled_sd(logs)
        if sd and freedom >= MIN_RUNS - 1:
            noise[key] = (sd, freedom)
    return noise
