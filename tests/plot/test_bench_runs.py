"""Figures of benchmarks: effects with intervals, runs in their order, sweeps, bands of many curves; bad input says why."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from kit import plot
from kit.analyse.bench.results import Benchmarks
from kit.analyse.bench.where import samples
from kit.plot.benchmarks import BANDS

SERVE = kit.sample_path("bench/serve")


@pytest.fixture(scope="module")
def compared():
    return kit.bench(sorted(SERVE.glob("eager-?-1.json")), sorted(SERVE.glob("compiled-?-1.json")))


def test_a_forest_has_the_deciding_metrics_first_with_their_intervals(compared):
    axes = plot.plot_forest(compared, rows=6)
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["output_throughput.run ↑", "ttft.median ↓"]
    effect = compared["ttft.median"]
    lines = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_ydata()[0] == 1]
    assert lines[0] == pytest.approx([1 + effect.interval[0], 1 + effect.interval[1]])
    assert "6 of 28 metrics" in axes.get_title(loc="left") and axes.get_xscale() == "log"
    one = kit.bench(SERVE / "eager-1-1.json", SERVE / "compiled-1-1.json")
    assert "(no interval)" in plot.describe_forest(one) and plot.plot_forest(one).has_data()


def test_runs_stand_in_the_order_in_which_they_began(compared):
    axes = plot.plot_run_order(compared, "ttft.median")
    assert plot.figure_alt(axes.figure).endswith("Order: BCCBBCCBBC (B base, C candidate).")
    base = next(line for line in axes.lines if line.get_label() == "base, n 5")
    assert list(base.get_xdata()) == [1, 4, 5, 8, 9]
    assert plot.plot_run_order(compared, "none").texts[0].get_text() == "No value to draw: none is no metric of this comparison."


def table(tmp_path, text: str):
    (tmp_path / "sweep.csv").write_text(text)
    return kit.benchmarks(tmp_path / "sweep.csv")


def test_a_sweep_is_ordered_by_its_load(tmp_path):
    rows = "run,concurrency,output_throughput,median_ttft_ms,p99_ttft_ms\n"
    rows += "".join(f"a$x$-{load},{load},{100 * load},{10 + load},{20 + load}\n" for load in (4, 1, 2))
    axes = plot.plot_sweep(table(tmp_path, rows))
    assert axes.lines[0].get_xdata().tolist() == [100, 200, 400] and axes.lines[1].get_label() == "p99"
    assert [text.get_text() for text in axes.texts] == ["1", "2", "4"]
    two = rows + "b-1,1,50,9,\nb-2,2,80,11,\n"
    assert plot.describe_sweep(table(tmp_path, two)).count(": 1: ") == 2


def test_what_is_no_sweep_says_so(tmp_path):
    alike = table(tmp_path, "run,concurrency,output_throughput,median_ttft_ms\na,2,10,5\nb,2,11,6\n")
    for bench in (alike, Benchmarks([])):
        assert plot.plot_sweep(bench).texts[0].get_text().replace("\n", " ").startswith("No sweep to draw: it takes runs")


def test_twenty_curves_are_bands_and_ten_share_two_colours(rgb):
    ten = plot.plot_benchmarks(kit.benchmarks([*SERVE.glob("eager-?-1.json"), *SERVE.glob("compiled-?-1.json")]), "e2el")
    assert len({line.get_color() for line in ten.lines if len(line.get_xdata()) > 2}) == 2
    many = kit.benchmarks([*SERVE.glob("eager-?-?.json"), *SERVE.glob("compiled-?-1.json")])
    axes = plot.plot_benchmarks(many, "e2el")
    assert len(many.runs) > BANDS and len(axes.collections) == 2
    assert {text.get_text().split(",")[0] for text in axes.get_legend().get_texts()} == {"compiled: 5 runs", "eager: 20 runs"}
    lowest = min(path.vertices[:, 0].min() for band in axes.collections for path in band.get_paths())
    assert lowest == pytest.approx(float(samples(many.requests, "e2el", False).min()) * 1e3) and rgb(axes.figure).std() > 0
    assert all(np.isfinite(path.vertices).all() for band in axes.collections for path in band.get_paths())


def test_ten_launches_are_coloured_by_what_they_are_one_of():
    folder = kit.sample_path("launches")
    figure = plot.plot_comparison(kit.compare(*sorted(folder.glob("eager-[12]")), *sorted(folder.glob("compiled-[12]"))))
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()][:2] == ["eager", "compiled"]
