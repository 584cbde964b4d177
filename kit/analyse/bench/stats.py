"""Tests on values of runs: Welch's interval on logarithms, an exact permutation test, Holm, runs needed.

Student's t comes from the regularised incomplete beta function, by the continued fraction of Press et al., *Numerical
Recipes* (3rd ed., 6.4), so that no further package is needed for one distribution.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

POWER = 0.8
"""Power that `runs_needed` aims at: the customary four in five."""
EXACT = 20_000
"""Most regroupings that are all looked at (8 v 8 has 12,870); beyond, as many are drawn with a fixed seed."""
MOST_RUNS = 1000
"""Where more runs a side than this were needed, that is said and no number."""
_TINY = 1e-300


@dataclass(frozen=True)
class Estimate:
    """A difference of means of logarithms, candidate minus base.

    Attributes
    ----------
    difference : float
        `exp` of it is the ratio of geometric means.
    error : float or None
        Standard error; None where the noise is not known.
    freedom : float
        Degrees of freedom of the error.
    sd : float or None
        Pooled standard deviation of a run's value.
    """

    difference: float
    error: float | None
    freedom: float
    sd: float | None

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """Interval of the difference; None where the noise is not known."""
        if self.error is None:
            return None
        half = t_quantile(0.5 + confidence / 2, self.freedom) * self.error
        return self.difference - half, self.difference + half

    @property
    def p(self) -> float | None:
        """Two-sided p-value of no difference; None where the noise is not known, or no spread was seen."""
        if not self.error:
            return None
        return 2 * t_cdf(-abs(self.difference) / self.error, self.freedom)

    def within(self, margin: float, alpha: float) -> bool:
        """Whether two one-sided tests (Schuirmann 1987) put the ratio between 1/(1 + margin) and 1 + margin."""
        limits = self.interval(1 - 2 * alpha)
        return limits is not None and max(abs(limit) for limit in limits) < math.log1p(margin)


def welch(base: Sequence[float], cand: Sequence[float]) -> Estimate:
    """Compare two samples of logarithms whose spread may differ (Welch 1947).

    Parameters
    ----------
    base, cand : sequence of float
        Logarithms of the runs' values, two or more a side.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> found = welch([0.00, 0.01, -0.01], [0.05, 0.06, 0.04])
    >>> round(found.difference, 3), round(found.freedom, 1), round(found.p, 4)
    (0.05, 4.0, 0.0036)
    >>> [round(limit, 4) for limit in found.interval(0.95)]
    [0.0273, 0.0727]
    """
    parts = [statistics.variance(side) / len(side) for side in (base, cand)]
    total = sum(parts)
    freedom = (
        total**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (base, cand), strict=True))
        if total > 0
        else len(base) + len(cand) - 2.0
    )
    return Estimate(
        statistics.fmean(cand) - statistics.fmean(base), math.sqrt(total), freedom, pooled_sd([list(base), list(cand)])[0]
    )


def with_noise(base: Sequence[float], cand: Sequence[float], sd: float | None, freedom: float) -> Estimate:
    """Compare two samples of logarithms, the noise of a run being taken from elsewhere (None: not known).

    Examples
    --------
    >>> found = with_noise([0.0], [0.05], 0.02, 4)
    >>> round(found.error, 4), [round(limit, 3) for limit in found.interval(0.95)]
    (0.0283, [-0.029, 0.129])
    """
    error = None if sd is None else sd * math.sqrt(1 / len(base) + 1 / len(cand))
    return Estimate(statistics.fmean(cand) - statistics.fmean(base), error, freedom, sd)


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """Return the pooled standard deviation of groups, and its degrees of freedom (None, 0 where no group has two values).

    Examples
    --------
    >>> pooled_sd([[1.0, 3.0], [5.0]])
    (1.4142135623730951, 1)
    """
    freedom = sum(len(group) - 1 for group in groups if len(group) > 1)
    if not freedom:
        return None, 0
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups if len(group) > 1)
    return math.sqrt(squares / freedom), freedom


def least_p(n: int, m: int) -> float:
    """Return the smallest p-value that a permutation test of n against m values can reach.

    Examples
    --------
    >>> least_p(3, 3), round(least_p(5, 5), 4)
    (0.1, 0.0079)
    """
    return (2 if n == m else 1) / math.comb(n + m, n)


def permutation_p(base: Sequence[float], cand: Sequence[float]) -> float:
    """Return the p-value of the permutation test of the difference of means: no shape of the noise is assumed.

    Exact up to `EXACT` regroupings; beyond, as many are drawn with a fixed seed, and the p-value holds the observed one.

    Examples
    --------
    >>> permutation_p([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    0.1
    """
    import numpy as np

    values = np.asarray([*base, *cand], dtype=float)
    values = values - values.mean()
    n, total = len(base), len(values)
    seen = abs(values[:n].sum())
    slack = 1e-9 * (abs(values).sum() + _TINY)
    if math.comb(total, n) <= EXACT:
        return float((abs(values[_regroupings(total, n)].sum(axis=1)) >= seen - slack).mean())
    rng = np.random.default_rng(0)
    drawn = rng.permuted(np.broadcast_to(values, (EXACT, total)), axis=1)[:, :n].sum(axis=1)
    return float(((abs(drawn) >= seen - slack).sum() + 1) / (EXACT + 1))


@cache
def _regroupings(total: int, n: int):
    import numpy as np

    return np.asarray(list(itertools.combinations(range(total), n)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted so that a family has at most a chance of α for any false alarm at all (Holm 1979).

    Missing ones were not tested and are no members of the family.

    Examples
    --------
    >>> holm([0.01, 0.04, None])
    [0.02, 0.04, None]
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        found[i] = highest
    return found


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to bound the share of false ones among those called (Benjamini and Hochberg 1995).

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, None])
    [0.02, 0.04, None]
    """
    known = sorted(((p, i) for i, p in enumerate(p_values) if p is not None), reverse=True)
    found: list[float | None] = [None] * len(p_values)
    lowest = 1.0
    for back, (p, i) in enumerate(known):
        lowest = min(lowest, p * len(known) / (len(known) - back))
        found[i] = lowest
    return found


def runs_needed(sd: float, difference: float, alpha: float = 0.05) -> int | None:
    """Return the runs a side with which a difference is found four times in five.

    Parameters
    ----------
    sd : float
        Standard deviation of the logarithm of a run's value: of the run's statistic, not of its requests.
    difference : float
        Logarithm of the ratio to be found.
    alpha : float
        Two-sided level.

    Returns
    -------
    int or None
        At least 3; None where it were more than `MOST_RUNS`. About 2 (2.8 sd / difference)² + 1.

    Examples
    --------
    >>> runs_needed(0.033, 0.0488), runs_needed(0.024, 0.0488), runs_needed(1.0, 0.001)
    (9, 5, None)
    """
    if not difference:
        return None
    if sd / abs(difference) > math.sqrt(MOST_RUNS):
        return None
    for n in range(3, MOST_RUNS + 1):
        freedom = 2 * n - 2
        if n >= 2 * ((t_quantile(1 - alpha / 2, freedom) + t_quantile(POWER, freedom)) * sd / difference) ** 2:
            return n
    return None


def t_cdf(t: float, freedom: float) -> float:
    """Return the distribution function of Student's t.

    Examples
    --------
    >>> round(t_cdf(2.570582, 5), 6), round(t_cdf(-1.0, 1), 6), t_cdf(0.0, 3)
    (0.975, 0.25, 0.5)
    """
    if math.isinf(freedom):
        return statistics.NormalDist().cdf(t)
    tail = 0.5 * _beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return tail if t < 0 else 1 - tail


@lru_cache(4096)
def t_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t, by bisection of `t_cdf`.

    Examples
    --------
    >>> round(t_quantile(0.975, 4), 6), round(t_quantile(0.975, 1), 4), round(t_quantile(0.05, 8), 6)
    (2.776445, 12.7062, -1.859548)
    """
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < p and high < 1e12:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < p else (low, middle)
    return (low + high) / 2


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + step * d)
            c = _away(1 + step / c)
            found *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return found


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
