"""What every plot owes: it draws what is there, says what is not, leaves its input alone, tells it in words."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from kit import plot
from kit.frames import FRAMES
from kit.plot.style import STATE_COLOUR
from kit.plot.threads import strip_of

# As in conftest.py, which cannot be imported.
ODD_PID, STOPPED_TID, SPINNING_TID = 4405, 440_707, 440_503
PLOTS = {
    "memory": "processes",
    "cpu": "processes",
    "thread_states": "threads",
    "thread_strip": "threads",
    "syscall_rate": "syscalls",
    "syscall_time": "syscalls",
    "log_rate": "log",
}


def has_colour(pixels: np.ndarray, colour: str) -> bool:
    return bool((np.abs(pixels.astype(int) - np.round(np.array(to_rgb(colour)) * 255)).max(axis=-1) <= 2).any())


@pytest.mark.parametrize("name", PLOTS)
def test_input_is_not_changed(name, frames):
    frame = frames[PLOTS[name]]
    before = frame.copy(deep=True)
    getattr(plot, f"plot_{name}")(frame)
    assert frame.equals(before)
    assert list(frame.columns) == list(before.columns)


@pytest.mark.parametrize("name", PLOTS)
def test_empty_frame_gives_a_sentence_that_says_how_to_get_it(name):
    axes = getattr(plot, f"plot_{name}")(FRAMES[PLOTS[name]].empty())
    said = axes.texts[0].get_text().replace("\n", " ")
    assert "kit collect" in said
    assert plot.figure_alt(axes.figure) == getattr(plot, f"describe_{name}")(FRAMES[PLOTS[name]].empty()) == said


@pytest.mark.parametrize("name", PLOTS)
def test_draws_into_the_axes_it_is_given(name, frames):
    figure = Figure()
    axes = figure.add_subplot()
    assert getattr(plot, f"plot_{name}")(frames[PLOTS[name]], axes) is axes
    assert axes.has_data()
    assert plot.figure_alt(figure) == ""


EMPTY = {
    "cpu": ("no process was sampled twice",) * 3,
    "thread_states": ("Threads by state at 1 moment: R running 1, S sleeping 1,599",) * 2 + (None,),
    "thread_strip": ("Strip of 96 of 1600 threads at 1 moment",) * 2 + (None,),
    "syscall_rate": (None, "the trace has no time stamps", "the trace has no time stamps"),
    "log_rate": (None, "its records carry no time", "its records carry no time"),
}
"""What cannot be drawn of one moment, of one moment without time, of many without time: the figure says why."""


@pytest.mark.parametrize("name", PLOTS)
def test_one_moment_and_no_time_still_draw(name, frames, untimed, rgb):
    frame = frames[PLOTS[name]]
    single = frame[frame["t_s"] == frame["t_s"].min()]
    for given, reason in zip((single, untimed(single), untimed(frame)), EMPTY.get(name, (None,) * 3), strict=True):
        axes = getattr(plot, f"plot_{name}")(given)
        assert axes.has_data() is (reason is None)
        assert reason is None or reason in plot.figure_alt(axes.figure)
        assert rgb(axes.figure).std() > 0


def test_no_figure_is_registered(frames):
    plot.plot_timeline(frames)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_memory_names_the_odd_rank_and_never_sums(processes):
    axes = plot.plot_memory(processes)
    assert [text.get_text() for text in axes.texts] == [f"TP5[{ODD_PID}]: 20.0 GiB, median of its peers 40.0 GiB"]
    highest = max(line.get_ydata().max() for line in axes.lines)
    assert highest == pytest.approx(40.0)
    alt = plot.figure_alt(axes.figure)
    assert "8 processes" in alt and "20.0 GiB" in alt and "RssShmem 4.0 GiB" in alt


def test_memory_bars_at_one_moment_keep_the_odd_rank(processes):
    last = processes[processes["moment"] == 19]
    many = [
        last.assign(
            pid=last["pid"] + 100 * n,
            cmdline="sglang::scheduler_TP" + (last["pid"] - 4400 + 8 * n).astype(str),
            rss_anon_bytes=40 * 2**30,
        )
        for n in range(1, 5)
    ]
    import pandas as pd

    axes = plot.plot_memory(pd.concat([last, *many]))
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert f"TP5[{ODD_PID}]" in labels
    assert "24 of 40" in axes.get_title(loc="left")
    assert any("odd" in text.get_text() for text in axes.texts)


def test_equal_ranks_have_no_odd_one(processes):
    equal = processes[processes["pid"] != ODD_PID]
    assert "stands apart" not in plot.describe_memory(equal)


def test_cpu_is_the_slope_not_the_level(processes):
    alt = plot.describe_cpu(processes)
    assert f"TP5[{ODD_PID}] used 1.00 cores in the mean" in alt
    reused = processes.assign(start_ticks=processes["moment"])
    assert plot.describe_cpu(reused).startswith("CPU: no process was sampled twice")


def test_minority_threads_survive_the_choice_of_rows(threads):
    strip = strip_of(threads, rows=16)
    assert len(strip.codes) == 16 and strip.total == 1600 and strip.odd == 2
    assert {SPINNING_TID, STOPPED_TID} <= set(strip.threads["tid"])
    assert strip.threads["pid"].nunique() == 8


def test_minority_threads_are_seen_in_the_picture(threads, rgb):
    pixels = rgb(plot.plot_thread_strip(threads, rows=40).figure)
    body = pixels[:, : int(pixels.shape[1] * 0.82)]  # without the legend, which shows every colour
    assert has_colour(body, STATE_COLOUR["T"])
    assert has_colour(body, STATE_COLOUR["R"])
    only_asleep = rgb(plot.plot_thread_strip(threads[threads["state"] == "S"], rows=40).figure)
    assert not has_colour(only_asleep, STATE_COLOUR["T"])


def test_one_running_thread_of_a_thousand_is_seen_in_the_stack(threads, rgb):
    axes = plot.plot_thread_states(threads)
    assert "logarithmic" in axes.get_title(loc="left")
    pixels = rgb(axes.figure)
    assert has_colour(pixels[:, : int(pixels.shape[1] * 0.82)], STATE_COLOUR["T"])


def test_thread_alt_names_the_odd_threads(threads):
    alt = plot.describe_thread_strip(threads)
    assert "96 of 1600 threads at 20 moments" in alt
    assert f"tid {STOPPED_TID} of 4407): T" in alt and f"tid {SPINNING_TID} of 4405): R" in alt
    assert "T stopped 0–1, S sleeping 1,598–1,599" in plot.describe_thread_states(threads)


def test_two_tools_are_not_mixed(threads):
    import pandas as pd

    ps = threads[threads["moment"] == 0].assign(tool="ps", state="R", moment=0)
    assert plot.describe_thread_states(pd.concat([threads, ps])) == plot.describe_thread_states(threads)


def test_unreturned_calls_come_first(syscalls):
    axes = plot.plot_syscall_time(syscalls)
    assert [label.get_text() for label in axes.get_yticklabels()][0] == "futex"
    assert "1 never returned" in plot.figure_alt(axes.figure)
    assert "301 system calls over 3 s" in plot.describe_syscall_rate(syscalls)


def test_heartbeats_have_a_lane_apart_and_one_error_is_seen(log):
    axes = plot.plot_log_rate(log)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["progress 51", "error 1", "heartbeat 3"]
    assert "heartbeat 3, last at 80 s" in plot.figure_alt(axes.figure)


def test_dollar_signs_are_drawn_as_they_stand(processes, rgb):
    odd = processes.assign(cmdline="$x^{$")
    for figure in (plot.plot_memory(odd).figure, plot.plot_timeline({"processes": odd})):
        rgb(figure)
        assert any("x^{" in text.get_text() for text in figure.findobj(Text))
