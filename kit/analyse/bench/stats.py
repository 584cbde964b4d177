"""Tests on values of runs: Welch's interval on logarithms, an exact permutation test, Holm, runs needed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

POWER = 0.8
"""Power that `runs_needed` aims at: the customary four in five."""
EXACT = 9_999
"""Most regroupings that are all looked at (7 v 7 has 3,432); beyond, as many are drawn with a fixed seed. SciPy's default."""
ROUNDING = 1e-9
"""Share by which two differences of means may differ and be the same: their values are summed in another order."""
MOST_RUNS = 1000
"""Where more runs a side than this were needed, that is said and no number."""


@dataclass(frozen=True)
class Estimate:
    """A difference of means of logarithms, candidate minus base."""

    difference: float  # `exp` of it is the ratio of geometric means
    error: float | None  # standard error; None where the noise is not known
    freedom: float  # degrees of freedom of the error
    sd: float | None  # pooled standard deviation of a run's value

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
    """Compare two samples of logarithms, two or more per side, whose spread may differ (Welch 1947).

    Examples
    --------
    >>> found = welch([0.00, 0.01, -0.01], [0.05, 0.06, 0.04])
    >>> round(found.difference, 3), round(found.freedom, 1), round(found.p, 4)
    (0.05, 4.0, 0.0036)
    >>> [round(limit, 4) for limit in found.interval(0.95)]
    [0.0273, 0.0727]
    """
    parts = [_squares(side) / (len(side) - 1) / len(side) for side in (base, cand)]
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
    squares = sum(_squares(group) for group in groups if len(group) > 1)
    return math.sqrt(squares / freedom), freedom


def _squares(values: Sequence[float]) -> float:
    """Sum of squared distances from the mean: `statistics.variance` reckons with fractions, a tenth of a comparison's time."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


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

    Exact up to `EXACT` regroupings; beyond, as many are drawn with a fixed seed, and the p-value counts the observed one.

    Examples
    --------
    >>> permutation_p([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    0.1
    """

    def distance(x, y, axis):
        return abs(np.mean(x, axis=axis) - np.mean(y, axis=axis))

    if math.comb(len(base) + len(cand), len(base)) <= EXACT:
        values = np.array([*base, *cand])
        chosen, left = _regroupings(len(base), len(cand))
        found = distance(values[chosen], values[left], axis=1)
        return float(np.mean(found >= found[0] * (1 - ROUNDING)))
    from scipy.stats import permutation_test

    result = permutation_test(
        (base, cand), distance, vectorized=True, n_resamples=EXACT, alternative="greater", rng=np.random.default_rng(0)
    )
    return float(result.pvalue)


@cache
def _regroupings(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of all groups of n of n + m values, as they stand first, and of those that are left of each."""
    chosen = np.array(list(itertools.combinations(range(n + m), n)))
    left = np.array(list(itertools.combinations(range(n + m), m)))[::-1]  # in the opposite order each is the rest of the other
    return chosen, left


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
    from scipy.stats import false_discovery_control

    adjusted = iter(false_discovery_control([p for p in p_values if p is not None]).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def runs_needed(sd: float, difference: float, alpha: float = 0.05) -> int | None:
    """Return the runs a side with which a difference is found four times in five.

    `sd` is that of the logarithm of a run's value (of the run's statistic, not of its requests), `difference` the logarithm of
    the ratio to be found. At least 3; None above `MOST_RUNS`. About 2 (2.8 sd / difference)² + 1.

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
    """Return the distribution function of Student's t."""
    from scipy.special import stdtr

    return float(stdtr(freedom, t))


def t_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))
