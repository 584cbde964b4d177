"""Fewer points, the same picture: resampling that keeps extremes and minorities."""

from __future__ import annotations

import numpy as np

POINTS = 2_000
"""Most points a drawn line needs: about twice the pixels of a figure's width, a minimum and a maximum for each."""


def min_max(values: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Choose the points of a series that a plot of it needs.

    Returns ascending positions: each of points/2 equal buckets keeps its minimum and its maximum, and the first and the last
    point stay; NaN is never an extreme. All positions where there are no more than `points`.

    Examples
    --------
    >>> values = np.zeros(10_000); values[1234] = 9.0
    >>> kept = min_max(values, 100)
    >>> 1234 in kept, len(kept) <= 102
    (True, True)
    """
    values = np.asarray(values, dtype=float)
    if len(values) <= points:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), max(points // 2, 1) + 1).astype(int)
    number, kept = np.repeat(np.arange(len(edges) - 1), np.diff(edges)), [np.array([0, len(values) - 1])]
    for extreme in (np.fmin, np.fmax):
        found = np.flatnonzero(values == extreme.reduceat(values, edges[:-1])[number])
        kept.append(found[np.unique(number[found], return_index=True)[1]])
    return np.unique(np.concatenate(kept))


def buckets(n: int, columns: int) -> np.ndarray:
    """First position of each of at most so many equal buckets of n things.

    Examples
    --------
    >>> buckets(10, 4).tolist(), buckets(2, 4).tolist()
    ([0, 2, 5, 7], [0, 1])
    """
    return np.linspace(0, n, columns, endpoint=False).astype(int) if n > columns else np.arange(n)


def rarest(codes: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the columns of a table of codes; in each bucket the code that is rarest over the whole table wins.

    Codes count from 0; negative means nothing was seen. Returns the reduced table, with at most `columns` columns, and the first
    column of each bucket.

    Examples
    --------
    >>> codes = np.zeros((1, 1000), dtype=int); codes[0, 77] = 3
    >>> reduced, begins = rarest(codes, 10)
    >>> reduced.tolist(), begins.tolist()[:2]
    ([[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]], [0, 100])
    """
    rows, n = codes.shape
    if n <= columns:
        return codes, np.arange(n)
    seen, counts = np.unique(codes[codes >= 0], return_counts=True)
    by_rarity = seen[np.argsort(counts, kind="stable")]
    edges = np.append(buckets(n, columns), n)
    reduced = np.full((rows, columns), -1, dtype=codes.dtype)
    for column, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        bucket = codes[:, begin:end]
        for code in by_rarity[::-1]:
            reduced[(bucket == code).any(axis=1), column] = code
    return reduced, edges[:-1]
