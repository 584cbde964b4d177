"""The timeline: one axis, a mark, shading, and a word on what is missing."""

from __future__ import annotations

from copy import copy

import numpy as np
import pandas as pd
import pytest

from kit import plot
from kit.plot.timeaxis import TimeAxis
from kit.samples import sample_names


def titles(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def shaded(figure) -> bool:
    return any(patch.get_zorder() == 0 for axes in figure.axes for patch in axes.patches)


def test_all_rows_share_one_axis(frames):
    figure = plot.plot_timeline(frames)
    assert len(figure.axes) == 6  # no phases were given
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    low, high = figure.axes[0].get_xlim()
    assert low <= 0 and high >= 80


def test_the_last_progress_is_marked_and_heartbeats_do_not_move_it(frames):
    figure = plot.plot_timeline(frames)
    for axes in figure.axes:
        assert any(list(line.get_xdata()) == [50.0, 50.0] for line in axes.lines)
    assert shaded(figure)
    assert "Last progress at 50 s (dashed line), then none for 30 s (shaded)." in plot.figure_alt(figure)
    assert "last progress at 50 s" in figure.get_suptitle()


def test_a_ready_server_is_not_shaded(frames):
    from types import SimpleNamespace

    ready = SimpleNamespace(state="ready", facts=SimpleNamespace(value=lambda name: None))
    assert not shaded(plot.plot_timeline(frames, verdict=ready))


def test_missing_frames_are_named_not_drawn_empty(frames):
    figure = plot.plot_timeline({"log": frames["log"]})
    assert len(figure.axes) == 1
    for row in ("Memory:", "CPU:", "Threads:", "System calls:", "Phases:"):
        assert row in figure.get_supxlabel()
        assert row in plot.figure_alt(figure)


def test_frames_without_any_time_are_named(frames, untimed):
    figure = plot.plot_timeline({"log": frames["log"], "threads": untimed(frames["threads"])})
    assert "none of the 32,000 rows of the frame `threads` carries a time" in figure.get_supxlabel()


def test_frames_that_lack_seconds_are_placed_by_their_time(frames):
    placed = {**frames, "syscalls": frames["syscalls"].assign(t_s=np.nan)}
    figure = plot.plot_timeline(placed, show=["log", "syscalls"])
    bars = [patch for patch in figure.axes[1].patches if patch.get_zorder() > 0]
    assert min(bar.get_x() for bar in bars) == pytest.approx(70.0, abs=0.5)


def test_frames_are_not_changed(frames):
    before = {name: frame.copy(deep=True) for name, frame in frames.items()}
    plot.plot_timeline(frames)
    assert all(frames[name].equals(before[name]) for name in frames)


def test_a_long_silence_is_compressed_and_said(frames):
    late = frames["processes"].assign(
        t_s=frames["processes"]["t_s"] + 5000, time=frames["processes"]["time"] + pd.Timedelta("5000s")
    )
    figure = plot.plot_timeline({"log": frames["log"], "processes": late})
    axes = figure.axes[0]
    figure.canvas.draw()
    share = axes.transAxes.inverted().transform(axes.transData.transform((50.0, 0.0)))[0]
    assert share == pytest.approx(0.6, abs=0.01)
    assert "compressed" in figure.axes[-1].get_xlabel()


def test_what_was_seen_at_one_moment_is_told_in_a_line(frames):
    late = frames["processes"].query("moment == 0")
    figure = plot.plot_timeline({"log": frames["log"], "processes": late, "syscalls": frames["syscalls"]})
    assert [title.split(" (")[0] for title in titles(figure)] == ["Log records by kind", "System calls"]
    assert "At 60 s, 00:29:04: Resident memory of 8 processes" in figure.get_supxlabel()
    alone = plot.plot_timeline({"processes": late})
    assert alone.axes[0].texts[0].get_text().startswith("At 60 s, 00:29:04: Resident memory")


def test_the_clock_stands_below_the_seconds(frames, opened):
    def ticks(figure):
        figure.canvas.draw()
        return [label.get_text() for label in figure.axes[-1].get_xticklabels()]

    assert "20\n00:28:24" in ticks(plot.plot_timeline(frames))
    assert "the clock (UTC)" in plot.plot_log_rate(frames["log"]).get_xlabel()
    run = copy(opened("pipe-ticker"))
    run.offset_s = 19_800
    figure = plot.plot_timeline(run)
    assert "20\n00:26:24" in ticks(figure) and "UTC+05:30" in figure.axes[-1].get_xlabel()


def test_a_phase_without_an_end_is_hatched(opened):
    def hatched(name):
        table = opened(name).phases()
        bars = plot.plot_phases(table).patches
        return [bool(bar.get_hatch()) for bar in bars] == table["open"].tolist(), int(table["open"].sum())

    assert hatched("sg01-capture-hang") == (True, 8) and hatched("healthy-tp2") == (True, 0)
    given = pd.DataFrame({"rank": [0, 0], "phase": ["launch", "weights"], "begin_t_s": [0.0, 4.0], "end_t_s": [4.0, np.nan]})
    assert [bool(bar.get_hatch()) for bar in plot.plot_phases(given).patches] == [False, True]


def test_axis_goes_there_and_back():
    axis = TimeAxis(-2.0, 5000.0, 80.0)
    seconds = np.array([-2.0, 0.0, 80.0, 81.0, 4999.0])
    assert axis.compressed
    assert axis.seconds(axis.share(seconds)) == pytest.approx(seconds)
    assert (np.diff(axis.edges(50)) > 0).all()


def test_phases_of_ranks_and_the_odd_one_first():
    rows = [
        {"rank": rank, "phase": "compile" if rank == 41 else "graph_capture", "begin_t_s": 1.0, "end_t_s": 9.0, "duration_s": 8.0}
        for rank in range(64)
    ]
    table = pd.DataFrame(rows)
    axes = plot.plot_phases(table)
    assert "16 of 64" in axes.get_title(loc="left")
    assert "41" in [label.get_text() for label in axes.get_yticklabels()]
    assert "compile (ranks 41)" in plot.describe_phases(table)


def test_unknown_row_is_refused(frames):
    with pytest.raises(ValueError, match="there is no row 'gpu'; those there are: phases, log"):
        plot.plot_timeline(frames, show=["log", "gpu"])


def test_all_bundled_runs(opened):
    import kit

    for name in sample_names():
        alt = plot.figure_alt(plot.plot_timeline(opened(name), verdict=kit.verdict(opened(name))))
        assert alt.startswith(f"Timeline of {name}"), alt
