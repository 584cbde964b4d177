"""Threads of a recording, stored as changes: the same rows, counts and figures as the rows themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kit
from kit import store
from kit.errors import UsageError
from kit.plot.threads import describe_thread_states, state_counts, state_table, strip_of

COLUMNS = ["time", "t_s", "moment", "pid", "tid", "comm", "state", "wchan", "syscall", "cpu_s", "run_s"]
KEYS = ["moment", "pid", "tid"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recorded run with one sample cut, one process gone and come back, one thread ended."""
    folder = tmp_path / "run"
    shutil.copytree(kit.sample_path("stopped-rank"), folder)
    path = folder / "raw" / "sampler.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    pid = next(line["pid"] for line in reversed(lines) if line["k"] == "threads")
    rows = next(line["rows"] for line in lines if line["k"] == "threads" and line["pid"] == pid)
    dropped = {("done", 5), ("proc", 9, pid)}
    lines = [line for line in lines if (line["k"], line.get("n")) not in dropped]
    lines = [line for line in lines if (line["k"], line.get("n"), line.get("pid")) not in dropped]
    at = next(number for number, line in enumerate(lines) if line["k"] == "done" and line["n"] == 14)
    lines.insert(at, {"k": "threads", "n": 14, "pid": pid, "all": False, "rows": [], "ended": [rows[-1][0]]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def as_rows(recording: Path) -> pd.DataFrame:
    """Rows as the parser makes them."""
    return kit.open_run(recording).frame("threads", COLUMNS)


@pytest.fixture
def long(recording: Path, as_rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> kit.run.Run:
    """The same run, its recording taken for a large one."""
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 1000)
    run = kit.open_run(recording)
    run.frame("samples")
    places = list((recording / "frames").iterdir())
    assert any((place / "thread_changes.parquet").exists() for place in places)
    assert not any((place / "threads.parquet").exists() and (place / "samples.parquet").exists() for place in places)
    return run


def test_the_rows_are_those_of_the_parser(long: kit.run.Run, as_rows: pd.DataFrame) -> None:
    found = long.frame("threads", COLUMNS)
    assert len(found) == len(as_rows) > 1000
    assert len(long.thread_history().changes) < len(as_rows) / 2
    pd.testing.assert_frame_equal(*(one.sort_values(KEYS, ignore_index=True) for one in (found, as_rows)))


def test_a_window_and_a_moment_leave_out_what_the_rows_leave_out(long: kit.run.Run, as_rows: pd.DataFrame) -> None:
    at = sorted(as_rows["t_s"].unique())
    wanted = as_rows[(as_rows["t_s"] >= at[3]) & (as_rows["t_s"] < at[7])]
    found = long.frame("threads", COLUMNS, window=(at[3] - 1e-4, at[7] - 1e-4))
    assert sorted(map(tuple, found[KEYS].to_numpy(int))) == sorted(map(tuple, wanted[KEYS].to_numpy(int)))
    early = long.as_of(f"{as_rows['time'].sort_values().iloc[len(as_rows) // 2]:%Y-%m-%d %H:%M:%S}")
    until = pd.Timestamp(early.as_of_ns, unit="ns", tz="UTC")
    assert len(early.frame("threads")) == len(early.thread_history()) == int((as_rows["time"] <= until).sum()) < len(as_rows)


def test_descriptors_that_did_not_change_are_stored_as_the_rows_that_they_are(recording: Path, long: kit.run.Run) -> None:
    run = kit.open_run(recording)
    rows = pd.DataFrame(run.rows("fds"))
    found = long.frame("fds")
    keys = ["moment", "pid", "fd"]
    own = ["moment", "pid", "fd", "mode", "target", "deleted", "line", "capture"]
    assert len(found) == len(rows) > 100
    one, other = (frame.sort_values(keys)[own].astype(str).to_numpy().tolist() for frame in (found, rows))
    assert one == other


def test_figures_of_changes_are_those_of_rows(long: kit.run.Run, recording: Path, as_rows: pd.DataFrame) -> None:
    rows = long.frame("threads")
    rows = rows[rows["tool"] == "sampler"]
    history = long.thread_history()
    pd.testing.assert_frame_equal(state_counts(history), state_counts(rows), check_exact=True)
    one, other = strip_of(history, rows=20), strip_of(rows, rows=20)
    assert (one.codes == other.codes).all() and (one.total, one.odd) == (other.total, other.odd)
    assert one.threads.to_dict("list") == other.threads.to_dict("list")
    assert describe_thread_states(history) == describe_thread_states(rows)
    codes, pids, _ = state_table(history)
    assert (codes == -1).any() and len(np.unique(pids)) == rows["pid"].nunique()
    counted = history.places().set_index(["pid", "state", "wchan", "syscall"])["samples"]
    assert counted.sum() == len(rows)


def test_a_verdict_on_edges_is_that_on_all_rows(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kit.verdict(kit.open_run(recording)).to_dict()
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 1000)
    run = kit.open_run(recording)
    made: list[str] = []
    run.scan({name: lambda row, name=name: made.append(name) for name in ("threads", "fds", "sockets")}, edges=True)
    assert 0 < made.count("threads") < 700
    assert kit.verdict(kit.open_run(recording)).to_dict() == whole


def test_what_is_larger_than_the_budget_is_refused_with_what_to_do(long: kit.run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_MEMORY", "300k")
    with pytest.raises(UsageError, match=r"rows of threads would take about .* MB of memory.*KIT_MEMORY"):
        long.frame("threads")
    monkeypatch.setenv("KIT_MEMORY", "lots")
    with pytest.raises(UsageError, match="invalid KIT_MEMORY 'lots'"):
        long.frame("threads")


def test_the_measure_of_scale_runs_at_a_small_size() -> None:
    command = [
        sys.executable,
        "benchmarks/scale.py",
        "--what",
        "samples",
        "--share",
        "0.002",
        "--times",
        "16",
        "--command",
        "verdict",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."})
    lines = done.stdout.splitlines()[2:]
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in lines] == ["samples"]
    assert all("exit" not in line and float(line.split()[-2].replace(",", "")) > 10 for line in lines)
