"""Runs of benchmarks beside each other: effects with their intervals, values in the order of the runs, a sweep of loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.analyse.bench.drift import starts_of
from kit.analyse.bench.findings import change, share
from kit.analyse.bench.judge import BETTER, EQUIVALENT, WORSE
from kit.plot.benchmarks import NAME, groups_of
from kit.plot.samples import named_list
from kit.plot.style import BLUE, FONT_PT, GREEN, GREY, INK, SERIES, STATE_PAINT, VERMILION, begin, dress, legend_beside, plain
from kit.words import count_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kit.analyse.bench.compare import BenchComparison
    from kit.analyse.bench.judge import JudgedMetric
    from kit.analyse.bench.results import Benchmarks

VERDICT_COLOUR = {BETTER: GREEN, WORSE: VERMILION, EQUIVALENT: BLUE}
ROWS = 24
"""Most metrics of a forest; those that decide stay, and the title says N of M."""
FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Ticks of a forest, candidate to base."""
NEAR, FAR = (0.8, 1.25), 8.0
"""Ticks that an axis of more than so many factors has no room for."""
SIDES = {"base": BLUE, "cand": VERMILION}
LOADS = {"max_concurrency": "requests at a time", "request_rate": "requests sent a second"}
TAIL = "p99"
NO_EFFECT = "No effect to draw: no metric of both sides may be divided."
NO_SWEEP = "No sweep to draw: it takes runs that differ in `max_concurrency` or `request_rate`, with a throughput and {}."


def _effects(comparison: BenchComparison) -> pd.DataFrame:
    """Metrics with an effect, those that decide first."""
    table = comparison.table
    return table[table["effect"].notna()].sort_values("primary", ascending=False, kind="stable")


def plot_forest(comparison: BenchComparison, ax: Axes | None = None, *, rows: int = ROWS) -> Axes:
    """Draw the effect of each metric with its interval: a row a metric, candidate to base on a logarithmic axis.

    Filled are the metrics that decide, hollow those that only explore. An interval that crosses the line leaves open whether
    anything changed; one within the grey margin says that nothing worth naming did. Without runs enough there is no interval.

    Parameters
    ----------
    comparison : BenchComparison
        What `kit.bench` returned.
    rows : int
        Most metrics to draw.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("bench/serve")
    >>> found = kit.bench(sorted(folder.glob("eager-?-1.json")), sorted(folder.glob("compiled-?-1.json")))
    >>> plot_forest(found).get_yticklabels()[0].get_text()
    'output_throughput.run ↑'
    """
    table = _effects(comparison)
    drawn = table.head(rows)
    ax, _ = begin(ax, 0.9 + 0.2 * max(len(drawn), 3), lambda: describe_forest(comparison), len(drawn) > 0)
    if not len(drawn):
        return ax
    better = {entry.metric.key: entry.metric.direction for entry in [*comparison.judged, *comparison.quotes]}
    margin = comparison.rules.margin
    ax.axvspan(1 / (1 + margin), 1 + margin, color=STATE_PAINT["S"], zorder=0, linewidth=0)
    ax.axvline(1.0, color=INK, linewidth=0.8, zorder=1)
    ends = np.concatenate([drawn[one].dropna().to_numpy(float) for one in ("effect", "low", "high")]) + 1
    low, high = max(min(ends.min(), 0.8) / 1.15, FACTORS[0]), min(max(ends.max(), 1.25) * 1.15, FACTORS[-1])
    for row, entry in enumerate(drawn.itertuples()):
        colour = VERDICT_COLOUR.get(entry.verdict, GREY)
        if entry.low == entry.low:
            ax.plot(np.clip([1 + entry.low, 1 + entry.high], low, high), [row, row], color=colour, linewidth=1.6, zorder=2)
        filled = colour if entry.primary else "white"
        ax.plot([np.clip(1 + entry.effect, low, high)], [row], "o", color=colour, markerfacecolor=filled, markersize=5, zorder=3)
        said = f"{_effect(entry)}  {entry.verdict}"
        ax.annotate(said, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=FONT_PT - 1, color=INK)
    arrows = {"higher_is_better": " ↑", "lower_is_better": " ↓"}
    ax.set_yticks(range(len(drawn)), [plain(f"{key}{arrows.get(better.get(key), '')}") for key in drawn["key"]])
    ax.set_ylim(len(drawn) - 0.5, -0.5)
    ax.set_xscale("log")
    close = high / low > FAR
    ax.set_xticks([tick for tick in FACTORS if low <= tick <= high and not (close and tick in NEAR)], minor=False)
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter(lambda tick, _: change(tick - 1))
    ax.set_xlim(low, high)
    n = f" ({len(drawn)} of {len(table)} metrics)" if len(drawn) < len(table) else ""
    level = f"{share(comparison.rules.confidence)} intervals over runs"
    key = f"grey: margin of {share(margin)}; ↑ ↓: better; filled: primary"
    dress(ax, plain(f"Change from base to candidate{n}, {level}; {key}"), x_label="change from base to candidate")
    return ax


def _effect(entry) -> str:
    known = entry.low == entry.low
    return change(entry.effect) + (f" ({change(entry.low)} to {change(entry.high)})" if known else " (no interval)")


def describe_forest(comparison: BenchComparison) -> str:
    """Say in words what `plot_forest` draws: the metrics that decide, with effect, interval and verdict.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("bench/serve")
    >>> describe_forest(kit.bench(folder / "eager-1-1.json", folder / "compiled-1-1.json"))[:66]
    'Change from base to candidate: output_throughput.run +59.6 % (no i'
    """
    table = _effects(comparison)
    if not len(table):
        return NO_EFFECT
    first = table[table["primary"]] if table["primary"].any() else table.head(4)
    said = "; ".join(f"{entry.key} {_effect(entry)}, {entry.verdict}" for entry in first.itertuples())
    return f"Change from base to candidate: {said}."


def _ordered(comparison: BenchComparison, key: str) -> tuple[JudgedMetric | None, pd.DataFrame, bool]:
    """A metric, its value in each run in the order in which they began, and whether that is known."""
    entry = next((one for one in comparison.judged if not key or one.metric.key == key), None)
    if entry is None or any(len(entry.metric.of(side)) != len(entry.metric.group.of(side)) for side in SIDES):
        return entry, pd.DataFrame(columns=["run", "side", "value"]), False
    found = [
        (run, side, value)
        for side in SIDES
        for run, value in zip(entry.metric.group.of(side), entry.metric.of(side), strict=True)
    ]
    starts = starts_of(comparison.inputs)
    known = all(run in starts for run, _, _ in found)
    ordered = sorted(found, key=lambda row: starts[row[0]]) if known else found
    return entry, pd.DataFrame(ordered, columns=["run", "side", "value"]), known


def plot_run_order(comparison: BenchComparison, key: str = "", ax: Axes | None = None) -> Axes:
    """Draw a metric of each run in the order in which the runs began: what drifts, and whether the sides took turns.

    Parameters
    ----------
    comparison : BenchComparison
        What `kit.bench` returned.
    key : str
        Metric and statistic, such as `ttft.median`; the first of the comparison without it.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("bench/serve")
    >>> found = kit.bench(sorted(folder.glob("eager-?-1.json")), sorted(folder.glob("compiled-?-1.json")))
    >>> plot_run_order(found, "e2el.median").get_xlabel()
    'runs in the order in which they began'
    """
    entry, rows, known = _ordered(comparison, key)
    ax, _ = begin(ax, 2.6, lambda: describe_run_order(comparison, key), len(rows) > 0)
    if entry is None or not len(rows):
        return ax
    for side, colour in SIDES.items():
        own = rows[rows["side"] == side]
        ax.plot(
            own.index + 1, own["value"], "o" if side == "base" else "s", color=colour, markersize=5, label=f"{side}, n {len(own)}"
        )
        ax.axhline(float(np.exp(np.log(own["value"]).mean())), color=colour, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    ax.set_xlim(0.4, len(rows) + 0.6)
    ax.set_ylim(0, float(rows["value"].max()) * 1.12)
    if len(rows) <= ROWS:
        ax.set_xticks(range(1, len(rows) + 1))
    legend_beside(ax, ax.get_legend_handles_labels()[0])
    order = "runs in the order in which they began" if known else "runs as they were given: when they began is not known"
    title = f"{entry.metric.key} of each run; dashed: geometric mean of a side"
    dress(ax, plain(title), x_label=order, y_label=plain(entry.metric.unit or ""))
    return ax


def describe_run_order(comparison: BenchComparison, key: str = "") -> str:
    """Say in words what `plot_run_order` draws.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("bench/serve")
    >>> describe_run_order(kit.bench(folder / "eager-1-1.json", folder / "compiled-1-1.json"), "none.such")
    'No value to draw: none.such is no metric of this comparison.'
    """
    entry, rows, known = _ordered(comparison, key)
    if entry is None:
        return f"No value to draw: {key or 'there'} is no metric of this comparison."
    if not len(rows):
        return f"No value to draw: some run lacks {entry.metric.key}."
    said = [
        f"{side} {own['value'].min():.4g} to {own['value'].max():.4g} {entry.metric.unit or ''} in {count_of(len(own), 'run')}"
        for side, own in rows.groupby("side", sort=False)
    ]
    turns = "".join(rows["side"].str[0].str.upper())
    order = f"Order: {turns} (B base, C candidate)." if known else "When the runs began is not known."
    return f"{entry.metric.key} run by run: {'; '.join(said)}. {order}"


def _sweep(bench: Benchmarks, latency: str, throughput: str) -> tuple[pd.DataFrame, str]:
    """Throughput, median and tail of each run under its load, and the name of the load; empty without two loads."""
    table = bench.values[bench.values["metric"].isin([latency, throughput]) & bench.values["value"].notna()]
    pick = {"throughput": (throughput, ("run", "mean", "median")), "middle": (latency, ("median",)), "tail": (latency, (TAIL,))}
    found = bench.runs[["run", *LOADS]].copy()
    for name, (metric, stats) in pick.items():
        own = table[(table["metric"] == metric) & table["stat"].isin(stats)]
        found[name] = found["run"].map(own.drop_duplicates("run").set_index("run")["value"]).astype(float)
    found = found.dropna(subset=["throughput", "middle"])
    load = next((one for one in LOADS if found[one].replace(np.inf, np.nan).nunique() > 1), "")
    if not load:
        return found.head(0), ""
    found = found.assign(load=found[load], group=found["run"].map(groups_of(bench.runs)))
    return found.replace({"load": np.inf}, np.nan).dropna(subset=["load"]), load


def plot_sweep(bench: Benchmarks, latency: str = "ttft", throughput: str = "output_throughput", ax: Axes | None = None) -> Axes:
    """Draw latency against throughput over a sweep of loads: the median as a line, the 99th percentile broken, a number a load.

    Where the line turns up and hardly goes on to the right, the server has no more to give: further requests wait.

    Parameters
    ----------
    bench : Benchmarks
        What `kit.benchmarks` returned, of runs that differ in `max_concurrency` or `request_rate`.
    latency, throughput : str
        Metrics.

    Examples
    --------
    >>> import kit
    >>> plot_sweep(kit.benchmarks(kit.sample_path("bench") / "sweep.csv")).get_ylabel()
    'ttft (ms)'
    """
    rows, load = _sweep(bench, latency, throughput)
    ax, _ = begin(ax, 3.2, lambda: describe_sweep(bench, latency, throughput), bool(load))
    if not load:
        return ax
    units = bench.values.drop_duplicates("metric").set_index("metric")["unit"].fillna("")
    for number, (group, own) in enumerate(rows.groupby("group", sort=False)):
        colour, middle = SERIES[number % len(SERIES)], own.groupby("load")[["throughput", "middle", "tail"]].median()
        named = group if rows["group"].nunique() > 1 else "median"
        each = plain("each run" if named == "median" else f"{named}, each run")
        ax.scatter(own["throughput"], own["middle"], s=12, color=colour, alpha=0.7, linewidths=0, label=each)
        ax.plot(middle["throughput"], middle["middle"], "-o", color=colour, linewidth=1.4, markersize=4, label=plain(named))
        if middle["tail"].notna().any():
            ax.plot(
                middle["throughput"],
                middle["tail"],
                ":",
                color=colour,
                linewidth=1.2,
                label=plain(f"{named}, {TAIL}" if named != "median" else TAIL),
            )
        for at, point in middle.iterrows():
            spot = (point["throughput"], point["middle"])
            ax.annotate(f"{at:g}", spot, (4, -9), textcoords="offset points", fontsize=FONT_PT - 1, color=INK)
    if rows[["middle", "tail"]].max().max() > 8 * rows["middle"].median() and (rows["middle"] > 0).all():
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    legend_beside(ax, ax.get_legend_handles_labels()[0])
    title = f"{NAME.get(latency, latency)} against {throughput.replace('_', ' ')}; numbers: {LOADS[load]}"
    dress(
        ax, plain(title), x_label=f"{throughput} ({units.get(throughput, '')})", y_label=f"{latency} ({units.get(latency, '')})"
    )
    return ax


def describe_sweep(bench: Benchmarks, latency: str = "ttft", throughput: str = "output_throughput") -> str:
    """Say in words what `plot_sweep` draws.

    Examples
    --------
    >>> from kit.analyse.bench.results import Benchmarks
    >>> describe_sweep(Benchmarks([]))[:18]
    'No sweep to draw: '
    """
    rows, load = _sweep(bench, latency, throughput)
    if not load:
        return NO_SWEEP.format(latency)
    said = []
    for group, own in rows.groupby("group", sort=False):
        middle = own.groupby("load")[["throughput", "middle"]].median()
        steps = [f"{at:g}: {point['middle']:.4g} at {point['throughput']:.4g}" for at, point in middle.iterrows()]
        said.append((f"{group}: " if rows["group"].nunique() > 1 else "") + named_list(steps, 10))
    return f"Median {latency} at its {throughput}, by {LOADS[load]}. {'. '.join(said)}."
