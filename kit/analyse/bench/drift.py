"""Order in time: whether runs of both sides were interleaved, and whether values drift from run to run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kit.analyse.bench import stats
from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.inputs import BASE, CAND, BenchInputs, LoadGroup
from kit.analyse.bench.judge import JudgedMetric

ONE_SIDED = 0.8
"""A run of one side began before one of the other in at most this share of pairs, where they were interleaved. Strict turns give
0.5 to 0.7 from three a side on; one block after the other gives 1."""
MIN_RUNS_FOR_TREND = 6
"""Runs in all for a trend: below, its test finds nothing."""


def starts_of(inputs: BenchInputs) -> dict[str, float]:
    """Begin of each run in seconds since the epoch, where it is known."""
    rows = inputs.bench.runs[["run", "started"]].dropna()
    return {row.run: row.started.timestamp() for row in rows.itertuples()}


def order_finding(group: LoadGroup, starts: dict[str, float]) -> Finding | None:
    """Runs that were not interleaved, or of which that is not known; None where they were."""
    if min(len(group.base), len(group.cand)) < 2:
        return None
    if any(run not in starts for run in group.runs):
        return finding("start_unknown")
    share = first_share([starts[run] for run in group.base], [starts[run] for run in group.cand])
    if ONE_SIDED >= share >= 1 - ONE_SIDED:
        return None
    first, second = (BASE, CAND) if share > 0.5 else (CAND, BASE)
    return finding("not_interleaved", share="all" if share in (0.0, 1.0) else "most", first=first, second=second)


def first_share(base: Sequence[float], cand: Sequence[float]) -> float:
    """Share of pairs in which the run of base began first.

    Examples
    --------
    >>> first_share([1, 2, 3], [4, 5, 6]), first_share([1, 3], [2, 4])
    (1.0, 0.75)
    """
    return sum((b < c) + 0.5 * (b == c) for b in base for c in cand) / (len(base) * len(cand))


def trend(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float] | None:
    """Slope of logarithms over the order of the runs, common to all groups, and its p-value; None with too few runs.

    A group is the positions and logarithms of one side; a difference between sides is not a trend.

    Examples
    --------
    >>> slope, p = trend([([0, 2, 4], [0.0, 0.021, 0.040]), ([1, 3, 5], [0.110, 0.131, 0.149])])
    >>> round(slope, 3), p < 0.01
    (0.01, True)
    """
    x, y = [], []
    for positions, logs in groups:
        mean_x, mean_y = statistics.fmean(positions), statistics.fmean(logs)
        x += [value - mean_x for value in positions]
        y += [value - mean_y for value in logs]
    spread, freedom = sum(value * value for value in x), len(x) - len(groups) - 1
    if len(x) < MIN_RUNS_FOR_TREND or freedom < 1 or not spread:
        return None
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / spread
    left = sum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True)) / freedom
    if left <= 0:
        return (slope, 0.0) if slope else None
    return slope, 2 * stats.t_cdf(-abs(slope) / math.sqrt(left / spread), freedom)


def trend_findings(judged: Sequence[JudgedMetric], starts: dict[str, float], alpha: float) -> list[Finding]:
    """The primary metrics that rise or fall from run to run within the sides (Holm over them)."""
    tried = []
    for metric in (entry.metric for entry in judged if entry.metric.primary):
        group = metric.group
        whole = all(len(metric.of(side)) == len(group.of(side)) for side in (BASE, CAND))
        if not whole or any(run not in starts for run in group.runs):
            continue
        order = {run: place for place, run in enumerate(sorted(group.runs, key=starts.__getitem__))}
        slope_and_p = trend([([order[run] for run in group.of(s)], [math.log(v) for v in metric.of(s)]) for s in (BASE, CAND)])
        if slope_and_p:
            tried.append((metric.key, *slope_and_p))
    adjusted = stats.holm([p for _, _, p in tried])
    return [
        finding("drift", metric=key, slope=math.expm1(slope), p=p)
        for (key, slope, _), p in zip(tried, adjusted, strict=True)
        if p is not None and p <= alpha
    ]
