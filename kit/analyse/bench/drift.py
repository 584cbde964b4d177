"""Order in time: whether runs of both sides took turns, and whether values drift from run to run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kit.analyse.bench import stats as stats
from kit.analyse.bench.inputs import BASE, CAND, Cell, Sides
from kit.analyse.bench.judge import Judged

ONE_SIDED = 0.8
"""A run of one side began before one of the other in at most this share of pairs, where they took turns. All in turn gives
0.5 to 0.7 from three a side on; one block after the other gives 1."""
LEAST = 6
"""Runs in all for a trend: below, its test finds nothing."""


def starts_of(sides: Sides) -> dict[str, float]:
    """Begin of each run in seconds since the epoch, where it is known."""
    import pandas as pd

    rows = sides.bench.runs[["run", "started"]]
    return {row.run: row.started.timestamp() for row in rows.itertuples() if pd.notna(row.started)}


def order_warning(cell: Cell, starts: dict[str, float]) -> str | None:
    """Say that the runs did not take turns, or that this cannot be known; None where they did."""
    if min(len(cell.base), len(cell.cand)) < 2:
        return None
    if any(run not in starts for run in (*cell.base, *cell.cand)):
        return (
            "when the runs began is not known of all: a drift of the machine between base and cand cannot be told from an effect"
        )
    share = first_share([starts[run] for run in cell.base], [starts[run] for run in cell.cand])
    if ONE_SIDED >= share >= 1 - ONE_SIDED:
        return None
    whole = share in (0.0, 1.0)
    first, second = (BASE, CAND) if share > 0.5 else (CAND, BASE)
    return (
        f"the runs did not take turns: {'all' if whole else 'most'} of {first} came before {second}; a drift of the machine in "
        "that time looks the same as an effect: record them in turn"
    )


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

    Parameters
    ----------
    groups : sequence of (positions, logarithms)
        One a side; a difference between sides is no trend.

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
    if len(x) < LEAST or freedom < 1 or not spread:
        return None
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / spread
    left = sum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True)) / freedom
    if left <= 0:
        return (slope, 0.0) if slope else None
    return slope, 2 * stats.t_cdf(-abs(slope) / math.sqrt(left / spread), freedom)


def trend_warnings(judged: Sequence[Judged], starts: dict[str, float], alpha: float) -> list[str]:
    """Name the primary figures that rise or fall from run to run within the sides (Holm over them)."""
    tried = []
    for one in judged:
        cell = one.figure.cell
        runs = {BASE: cell.base, CAND: cell.cand}
        whole = all(len(one.figure.of(side)) == len(names) for side, names in runs.items())
        if not one.figure.primary or not whole or any(run not in starts for names in runs.values() for run in names):
            continue
        order = {run: place for place, run in enumerate(sorted((*cell.base, *cell.cand), key=starts.__getitem__))}
        found = trend(
            [([order[run] for run in names], [math.log(v) for v in one.figure.of(side)]) for side, names in runs.items()]
        )
        if found:
            tried.append((one.figure.key, *found))
    adjusted = stats.holm([p for _, _, p in tried])
    return [
        f"{key} drifts by {math.expm1(slope):+.1%} from run to run within the sides (p = {p:.2g}): the machine or the server "
        "changed while it was measured"
        for (key, slope, _), p in zip(tried, adjusted, strict=True)
        if p is not None and p <= alpha
    ]
