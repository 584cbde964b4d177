"""Fewer points keep what is rare."""

from __future__ import annotations

import numpy as np

from kit.plot.decimate import min_max, rarest


def test_extremes_stay():
    rng = np.random.default_rng(3)
    values = rng.normal(size=100_000)
    values[[777, 54_321]] = -50, 60
    kept = min_max(values, 1000)
    assert len(kept) <= 1002
    assert {777, 54_321, 0, 99_999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_missing_values_are_no_extremes():
    values = np.full(5000, np.nan)
    values[4000] = 1.0
    assert 4000 in min_max(values, 100)


def test_short_series_stay_whole():
    assert min_max(np.arange(10.0), 100).tolist() == list(range(10))


def test_the_rarest_code_wins_its_bucket():
    codes = np.zeros((3, 1000), dtype=int)
    codes[1, ::2] = 1
    codes[1, 500] = 2
    codes[2] = -1
    reduced, begins = rarest(codes, 100)
    assert reduced.shape == (3, 100) and len(begins) == 100
    assert reduced[1, 50] == 2
    assert (reduced[2] == -1).all()
