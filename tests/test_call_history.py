"""System calls of a large trace: what is counted in place of being listed sums up to the whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import kit
from kit import call_history, store
from kit.plot.syscalls import COLUMNS, by_call, counts, plot_syscall_rate
from kit.run import Run
from kit.show.explorer.tracks import CALLS


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose trace counts as a large one."""
    shutil.copytree(kit.sample_path("stopped-rank"), tmp_path / "run", ignore=shutil.ignore_patterns("frames"))
    for module, name, value in ((store, "CACHE_FROM_BYTES", 0), (call_history, "MOST", 400), (call_history, "BATCH", 1000)):
        monkeypatch.setattr(module, name, value)
    return kit.open_run(tmp_path / "run")


def test_counted_calls_sum_up_to_all(large: Run) -> None:
    whole, condensed = large.frame("syscalls"), large.condensed_calls(CALLS)
    listed = condensed[condensed["calls"].isna()]
    assert len(whole) > 5_000 and len(listed) < 2 * call_history.MOST and call_history.weights(condensed).sum() == len(whole)
    pd.testing.assert_frame_equal(by_call(condensed), by_call(whole), check_dtype=False)
    assert counts(condensed).to_dict() == counts(whole).to_dict()
    assert plot_syscall_rate(condensed).get_title(loc="left").startswith(f"System calls ({len(whole):,} in ")
    assert (whole["state"] == "open").sum() == (listed["state"] == "open").sum() > 0
    assert listed["duration_s"].max() == whole["duration_s"].max() and listed["args"].str.len().max() <= call_history.LETTERS
    seen = whole.merge(listed.drop_duplicates(), on=["time", "pid", "syscall", "duration_s"], suffixes=("", "_listed"))
    assert len(seen) >= len(listed.drop_duplicates()) and (seen["t_s"] == seen["t_s_listed"]).all()


def test_a_run_as_of_a_moment_and_one_without_a_large_trace_are_read_as_they_are(large: Run, tmp_path: Path) -> None:
    calls = large.frame("syscalls", COLUMNS)
    middle = kit.open_run(tmp_path / "run", at=str(calls["time"].iloc[len(calls) // 2]))
    pd.testing.assert_frame_equal(middle.condensed_calls(COLUMNS), middle.frame("syscalls", COLUMNS))
    pd.testing.assert_frame_equal(large.condensed_calls(COLUMNS).iloc[:0][COLUMNS], calls.iloc[:0], check_index_type=False)
    (large.path / "raw" / "strace.txt").write_text("")
    assert len(kit.open_run(large.path).condensed_calls(COLUMNS)) == 0
