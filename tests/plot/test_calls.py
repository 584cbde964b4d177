"""Plots of what the calls tell: they draw the known answers of data/traces, and say what is missing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import kit
from kit import plot
from kit.frames import FRAMES
from kit.plot.style import VERMILION
from kit.render.calls import FIGURES, figures, write

TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"


@cache
def traced(name: str, against: str | None = None) -> kit.Calls:
    return kit.calls(TRACES / f"{name}.strace", against=TRACES / f"{against}.strace" if against else None)


@cache
def empty() -> kit.Calls:
    return kit.calls(FRAMES["syscalls"].empty())


def texts(axes) -> str:
    return "\n".join(text.get_text() for text in axes.texts)


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_to_draw_is_said(name):
    axes = getattr(plot, f"plot_{name}")(empty())
    said = axes.texts[0].get_text().replace("\n", " ")
    assert said and plot.figure_alt(axes.figure) == getattr(plot, f"describe_{name}")(empty()) == said


@pytest.mark.parametrize("name", FIGURES)
def test_draws_into_the_axes_it_is_given(name):
    axes = Figure().add_subplot()
    calls = traced("launch-bad", "launch-good") if name == "partings" else traced("unread")
    assert getattr(plot, f"plot_{name}")(calls, axes) is axes
    assert plot.figure_alt(axes.figure) == ""


def test_a_circle_is_red_and_names_its_locks():
    axes = plot.plot_wait_graph(traced("deadlock"))
    boxes = {text.get_text(): text.get_bbox_patch() for text in axes.texts}
    red = [name for name, box in boxes.items() if box and to_hex(box.get_edgecolor()) == VERMILION.lower()]
    assert sorted(name.partition(" (")[0] for name in red) == ["lock-ab", "lock-ba"]
    assert "joins" in texts(axes) and texts(axes).count("lock 0x") == 2


def test_an_ended_thread_says_how_it_ended():
    assert "killed by SIGKILL" in texts(plot.plot_wait_graph(traced("producer-died")))
    assert "killed by SIGKILL" in texts(plot.plot_process_tree(traced("producer-died")))


def test_blocked_calls_reach_to_the_end_of_the_trace():
    calls = traced("ticker")
    axes = plot.plot_blocked_calls(calls)
    bars = {round(bar.get_x() + bar.get_width(), 6) for bar in axes.patches if bar.get_alpha() is None}
    assert bars == {round(calls.trace.span_s, 6)}
    assert "no limit" in texts(axes) and "gives up in 1 s" in texts(axes)


def test_a_mark_a_round():
    axes = plot.plot_loops(traced("ticker"))
    marks = [len(line.get_positions()) for line in axes.collections]
    assert marks == [loop.rounds for loop in traced("ticker").loops]


def test_the_budget_of_a_thread_is_its_life():
    calls = traced("ticker")
    axes = plot.plot_time_budget(calls)
    ends = max(bar.get_x() + bar.get_width() for bar in axes.patches)
    assert ends == pytest.approx(calls.budget["life_s"].max(), rel=0.01)


def test_rates_have_a_row_a_thread():
    axes = plot.plot_call_rates(traced("ticker"))
    assert len(axes.get_yticklabels()) == 3 and axes.collections[0].get_array().shape == (3, 120)


def test_unread_bytes_files_and_errors_say_their_numbers():
    assert "a count of 3 is left" in texts(plot.plot_unread_bytes(traced("unread")))
    assert "2.0 MiB read, 2.0 MiB mapped" in texts(plot.plot_file_bytes(traced("loader")))
    assert "openat ENOENT × 40, 40 paths for libkernels.so" in texts(plot.plot_call_errors(traced("loader")))


def test_descriptors_that_are_waited_on_are_framed():
    axes = plot.plot_descriptors(traced("producer-died"))
    framed = [bar for bar in axes.patches if to_hex(bar.get_edgecolor()) == VERMILION.lower() and bar.get_linewidth() > 1]
    assert len(framed) == 6  # both ends in three processes


def test_partings_show_what_each_did():
    axes = plot.plot_partings(traced("launch-bad", "launch-good"))
    assert "first scenes/worker-1" in axes.get_title(loc="left")
    assert 'newfstatat(AT_FDCWD</srv/app>, "compile.lock") = ENOENT' in texts(axes)


def test_a_page_holds_the_answer_and_the_figures(tmp_path):
    shown = figures(traced("deadlock"))
    assert len(shown) >= 5 and all("aria-label=" in one for one in shown)
    page = write(traced("deadlock"), tmp_path / "calls.html").read_text()
    assert "2 threads wait for each other" in page and page.count("<figure") == len(shown)
