"""How long still: remaining time of a progress bar, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles

from kit.analyse.verdict.log_digest import Bar

LEAST_POINTS = 4
"""Frames that a bar needs before its pace has a spread."""


@dataclass
class Eta:
    """Remaining time of something that advances."""

    seconds: float  # remaining items times the seconds an item took so far
    # `low`, `high`: the same at the pace of the fastest and of the slowest tenth of the stretches between two frames; equal to
    # `seconds` where too few frames were drawn to know a spread
    low: float
    high: float


def eta(bar: Bar) -> Eta | None:
    """Estimate the remaining time of a bar as of its last frame.

    `bar`: a bar that has advanced at least once. Returns None for a bar that is done, has no total, or has not advanced.

    Examples
    --------
    >>> bar = Bar("weights", "shards", 4, 8, 40.0, 10.0, 0, 4, None, None, "a.log", 1, "")
    >>> bar.points = [(0, 0.0), (1, 8.0), (2, 20.0), (3, 29.0), (4, 40.0)]
    >>> found = eta(bar)
    >>> found.seconds, round(found.low), round(found.high)
    (40.0, 33, 47)
    """
    if bar.done or not bar.total or not bar.n or not bar.elapsed_s:
        return None
    left = bar.total - bar.n
    mean = bar.elapsed_s / bar.n
    paces = [
        (t1 - t0) / (n1 - n0) for (n0, t0), (n1, t1) in zip(bar.points, bar.points[1:], strict=False) if n1 > n0 and t1 >= t0
    ]
    if len(paces) < LEAST_POINTS:
        return Eta(left * mean, left * mean, left * mean)
    tenths = quantiles(paces, n=10, method="inclusive")
    return Eta(left * mean, left * min(tenths[0], mean), left * max(tenths[-1], mean))
