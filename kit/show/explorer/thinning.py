"""What is left out of a pack that would be too large, so that no spike, failure or odd state goes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kit.call_history import BUCKETS, MOST
from kit.plot.decimate import buckets, min_max

SERIES_POINTS = 20_000
"""Most samples of one line; past it each bucket keeps its lowest and its highest."""
CELLS = 12_000_000
"""Most cells of the thread table: 2,000 threads at 6,000 moments. A browser scans that in 50 ms."""
RECORDS = 20_000
TELLING = ("error", "symptom", "progress")
"""Kinds of records that are listed before all others."""


def points(values: np.ndarray) -> np.ndarray:
    """Positions of the samples of a line that are kept."""
    return min_max(values, SERIES_POINTS)


def columns(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the moments of a table of codes until it has at most `CELLS`: in each bucket the highest code stays.

    Examples
    --------
    >>> table = np.ones((2, 9), dtype=np.uint8); table[1, 4] = 7
    >>> reduced, begins = columns(table)
    >>> reduced.shape, begins.tolist() == list(range(9))
    ((2, 9), True)
    """
    rows, n = codes.shape
    most = max(CELLS // max(rows, 1), 1)
    begins = buckets(n, most)
    return np.maximum.reduceat(codes, begins, axis=1) if len(begins) < n else codes, begins


def _spread(positions: np.ndarray, most: int) -> np.ndarray:
    """At most so many of some positions, evenly spread."""
    if len(positions) <= most:
        return positions
    return positions[np.unique(np.linspace(0, len(positions) - 1, most).astype(int))] if most > 0 else positions[:0]


def records(log: pd.DataFrame, most: int = RECORDS) -> np.ndarray:
    """Which records are listed: errors, symptoms and progress first, then the first and the last, then evenly spread ones.

    Examples
    --------
    >>> log = pd.DataFrame({"kind": ["noise"] * 50 + ["error"] + ["noise"] * 49})
    >>> kept = records(log, 10)
    >>> int(kept.sum()), bool(kept[50]), bool(kept[0]), bool(kept[99])
    (10, True, True, True)
    """
    kept = np.full(len(log), len(log) <= most)
    if not kept.all():
        edge = most // 5
        kept[_spread(np.flatnonzero(log["kind"].isin(TELLING)), most // 2)] = True
        kept[:edge] = kept[-edge:] = True
        kept[_spread(np.flatnonzero(~kept), most - int(kept.sum()))] = True
    return kept


def calls(seconds: np.ndarray, telling: np.ndarray, most: int = MOST) -> np.ndarray:
    """Which calls are listed: those that failed or never returned (up to half), the longest, then evenly spread ones.

    Examples
    --------
    >>> seconds = np.full(100, 0.001); seconds[42] = 9.0
    >>> kept = calls(seconds, np.zeros(100, dtype=bool), 10)
    >>> bool(kept[42]), int(kept.sum()) <= 10
    (True, True)
    """
    kept = np.full(len(seconds), len(seconds) <= most)
    if not kept.all():
        kept[_spread(np.flatnonzero(telling), most // 2)] = True
        kept[np.argsort(-np.nan_to_num(seconds), kind="stable")[: most // 4]] = True
        kept[_spread(np.flatnonzero(~kept), most - int(kept.sum()))] = True
    return kept


def counted(seconds: np.ndarray, groups: np.ndarray, weights: np.ndarray, span: tuple[float, float]) -> tuple[np.ndarray, ...]:
    """Count what is not listed: time, group and number of each filled bucket, in the order of time."""
    begin, end = span
    width = (end - begin) / BUCKETS or 1.0
    bucket = np.clip(((seconds - begin) / width).astype(int), 0, BUCKETS - 1)
    table = pd.DataFrame({"bucket": bucket, "group": groups, "n": weights}).groupby(["bucket", "group"], sort=True)["n"].sum()
    table = table.reset_index()
    return begin + (table["bucket"].to_numpy() + 0.5) * width, table["group"].to_numpy(), table["n"].to_numpy()
