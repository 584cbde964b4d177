"""Distributions of benchmark results: one curve a run, failed requests counted in words and never drawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from kit.analyse.bench.where import samples as request_samples
from kit.parse.bench.base import METRICS, SECONDS
from kit.plot.style import FONT_PT, GREY, INK, SERIES, begin, dress, legend_beside, plain
from kit.words import count_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kit.analyse.bench.results import Benchmarks

NAME = {
    "ttft": "Time to first token",
    "itl": "Gap between tokens",
    "tpot": "Time per output token",
    "e2el": "Latency of a request",
    "client_queue_time": "Wait in the client",
    "wall_time": "Wall time",
    "time_per_call": "Time per call",
    "real_time": "Real time",
    "time_per_op": "Time per operation",
}
POINTS = 400
"""Most points of a curve. The ends are always among them, so the extremes stay."""
CURVES = 16
"""Most runs with a line of their own in the legend."""
BANDS = 12
"""More curves than these become bands, a group each: lines would hide each other."""
LOG_FROM = 8.0
"""The axis is logarithmic where the largest value is this many times the middle one: the tail would squeeze the rest."""
QUANTILE = {"min": 0.0, "p10": 0.1, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


class _Curve(NamedTuple):
    run: str
    name: str | None
    values: np.ndarray
    shares: np.ndarray
    requests: int | None
    failed: int | None
    single: bool
    unit: str
    means: bool

    @property
    def label(self) -> str:
        head = self.run if self.name is None else f"{self.run} {self.name}"
        words = [f"median {_middle(self):.4g} {self.unit}"]
        words += [f"n {self.requests}{' request means' if self.means else ''}"] if self.requests is not None else []
        words += ["failures unknown"] if self.failed is None else [f"{self.failed} failed"] if self.failed else []
        return f"{head}: {', '.join(words)}"


def _middle(curve: _Curve) -> float:
    return float(np.median(curve.values) if curve.single else np.interp(0.5, curve.shares, curve.values))


def _scale(metric: str) -> tuple[str, float]:
    unit = METRICS.get(metric, ("s", None))[0]
    return unit, 1.0 / SECONDS.get(unit, 1.0)


def _curves(bench: Benchmarks, metric: str) -> list[_Curve]:
    """Return a curve a run and benchmark that holds the metric: of its samples, else of the tool's own quantiles."""
    values = bench.values[(bench.values["metric"] == metric) & bench.values["value"].notna()]
    failed = bench.runs.set_index("run")["failed"]
    found = []
    for (run, name), figures in values.groupby(["run", "name"], sort=False, dropna=False):
        name = None if pd.isna(name) else str(name)
        lost = None if pd.isna(failed[run]) else int(failed[run])
        of_run = bench.requests["run"] == run
        # vllm bench startup has one nameless figure a metric, and its repetitions under the metric's name
        of_name = bench.requests["name"].fillna(metric) == metric if name is None else bench.requests["name"] == name
        mine = bench.requests[of_run & of_name]
        good = mine[mine["ok"].fillna(False).astype(bool) & (mine["kind"] != "warmup")]
        if len(mine) and (mine["kind"] == "repetition").all():
            lost = int((~mine["ok"].fillna(True).astype(bool)).sum())
        means = metric == "itl" and figures["definition"].fillna("").str.startswith("request_means").any()
        samples = request_samples(good, metric, means) * _scale(metric)[1]
        fits = METRICS.get(metric, ("",))[0] in SECONDS
        if fits and len(samples):
            found.append(
                _Curve(
                    run,
                    name,
                    samples,
                    (np.arange(len(samples)) + 1) / len(samples),
                    len(samples),
                    lost,
                    True,
                    _scale(metric)[0],
                    means,
                )
            )
            continue
        stats = figures.set_index("stat")["value"]
        known = [(share, float(stats[stat])) for stat, share in QUANTILE.items() if stat in stats]
        if len(known) >= 2:
            shares, points = map(np.asarray, zip(*known, strict=True))
            n = figures["n"].dropna()
            found.append(
                _Curve(run, name, points, shares, int(n.iloc[0]) if len(n) else None, lost, False, _scale(metric)[0], means)
            )
    return _readable(found)


def _readable(curves: list[_Curve]) -> list[_Curve]:
    """Give times in seconds the unit in which the middle run reads best."""
    if not curves or curves[0].unit != "s":
        return curves
    middle = float(np.median([_middle(curve) for curve in curves]))
    unit, factor = next(
        ((unit, factor) for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if middle * factor >= 1.0), ("ns", 1e9)
    )
    return [curve._replace(values=curve.values * factor, unit=unit) for curve in curves]


def group_of(name: str) -> str:
    """What a run is one of, by its name without numbers and endings.

    Examples
    --------
    >>> group_of("eager-1-1.json"), group_of("eager-2-1.json:3"), group_of("7.json")
    ('eager', 'eager', 'runs')
    """
    stem = re.sub(r"(\.\w{1,80}){1,8}(:\d+)?$", "", name.rsplit("/", 1)[-1])
    return re.sub(r"(?<![-_. ])[-_. ]*\d+", "", stem).strip("-_. ") or "runs"


def groups_of(runs: pd.DataFrame) -> dict[str, str]:
    """What each run is one of: the label that it shares with another, else its name without numbers."""
    labels = runs["label"].where(runs["label"].duplicated(keep=False))
    return {run: group_of(run) if pd.isna(label) else str(label) for run, label in zip(runs["run"], labels, strict=True)}


def _groups(bench: Benchmarks, curves: list[_Curve]) -> list[str]:
    """The group of each curve; of named benchmarks, and where nothing would be told apart, each curve is its own."""
    known = groups_of(bench.runs)
    keys = [known[curve.run] if curve.name is None else f"{curve.run} {curve.name}" for curve in curves]
    return keys if len(set(keys)) > 1 or len(curves) > BANDS else [f"{curve.run} {curve.name}" for curve in curves]


def _colours(groups: list[str]) -> dict[str, str]:
    """Curves of one group share a colour, so that base and candidate stand apart."""
    order = list(dict.fromkeys(groups))
    return {key: SERIES[place % len(SERIES)] if place < CURVES else GREY for place, key in enumerate(order)}


def plot_benchmarks(bench: Benchmarks, metric: str = "ttft", ax: Axes | None = None) -> Axes:
    """Draw the distribution of a metric over the successful requests of each run.

    A curve goes up by one step a value (for `itl` a value is a single gap); its ends are the smallest and the largest. Runs of
    one label, or whose files differ in numbers only, share a colour; more than a dozen curves become a band a group.
    Where a file holds no single requests, the quantiles that the tool wrote are points on a broken line. Failed requests
    are in no curve; the legend counts them.

    Parameters
    ----------
    bench : Benchmarks
        What `kit.benchmarks` returned.
    metric : str
        A time: `ttft`, `itl`, `tpot`, `e2el`, `wall_time`, `time_per_call`, …

    Examples
    --------
    >>> from kit.analyse.bench.results import Benchmarks
    >>> plot_benchmarks(Benchmarks([])).texts[0].get_text()
    'No run holds the distribution of ttft.'
    """
    curves = _curves(bench, metric)
    ax, _ = begin(
        ax, 3.0 + 0.13 * max(0, min(len(curves), CURVES) - 10), lambda: describe_benchmarks(bench, metric), bool(curves)
    )
    if not curves:
        return ax
    groups = _groups(bench, curves)
    colours, banded = _colours(groups), len(curves) > BANDS and len(set(groups)) <= len(curves) / 2
    handles = []
    for i, (curve, group) in enumerate(zip(curves, groups, strict=True)):
        if banded:
            own = [one for one, other in zip(curves, groups, strict=True) if other == group]
            handles += [_band(ax, own, group, colours[group])] if own[0] is curve else []
            continue
        line = _draw(ax, curve, colours[group], groups[:i].count(group))
        if i < CURVES:
            line.set_label(plain(curve.label))
            handles.append(line)
    _axis(ax, curves)
    unit = curves[0].unit
    shown = f", {CURVES} of {len(curves)} runs named" if len(curves) > CURVES and not banded else ""
    shown = "; a band from the fastest run to the slowest, its middle run as a line" if banded else shown
    ax.axhline(0.5, color=GREY, linewidth=0.6, linestyle=(0, (4, 4)), zorder=1)
    dress(
        ax,
        f"{NAME.get(metric, metric)}: share {'' if metric == 'itl' else 'of requests '}at most this long, "
        f"successful requests only{shown}"
        if METRICS.get(metric, ("ms",))[0] == "ms"
        else f"{NAME.get(metric, metric)}: share of repetitions at most this long{shown}",
        x_label=f"{metric} ({unit})",
        y_label="share",
    )
    ax.set_ylim(-0.03, 1.03)
    legend_beside(ax, handles)
    return ax


def _draw(ax: Axes, curve: _Curve, colour: str, nth: int):
    """Draw one curve; those that share a colour differ in their dashes."""
    dash = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)))[nth % 4]
    if not curve.single:
        return ax.plot(
            curve.values, curve.shares, color=colour, linestyle=":", marker="o", markersize=4, linewidth=1.2, zorder=3
        )[0]
    kept = np.unique(np.linspace(0, len(curve.values) - 1, min(POINTS, len(curve.values))).round().astype(int))
    line = ax.plot(
        np.concatenate([curve.values[:1], curve.values[kept]]),
        np.concatenate([[0.0], curve.shares[kept]]),
        color=colour,
        linestyle=dash,
        linewidth=1.4,
        drawstyle="steps-post",
        zorder=3,
    )[0]
    ax.plot(curve.values[-1:], [1.0], "o", color=colour, markersize=4, zorder=4)
    ax.plot([_middle(curve)], [0.5], "|", color=colour, markersize=9, markeredgewidth=1.6, zorder=4)
    return line


def _band(ax: Axes, curves: list[_Curve], group: str, colour: str):
    """Draw the curves of a group as one band, with the middle of them as a line."""
    shares = np.linspace(0, 1, 101)
    table = np.array(
        [np.interp(shares, np.concatenate([[0.0], one.shares]), one.values[[0, *range(len(one.values))]]) for one in curves]
    )
    ax.fill_betweenx(shares, table.min(axis=0), table.max(axis=0), color=colour, alpha=0.18, linewidth=0, zorder=2)
    middles = [_middle(one) for one in curves]
    said = f"{group}: {count_of(len(curves), 'run')}, medians {min(middles):.4g} to {max(middles):.4g} {curves[0].unit}"
    lost = [one.failed for one in curves if one.failed]
    said += f", {sum(lost)} failed" if lost else ""
    return ax.plot(np.median(table, axis=0), shares, color=colour, linewidth=1.5, zorder=3, label=plain(said))[0]


def _axis(ax: Axes, curves: list[_Curve]) -> None:
    smallest, largest = min(c.values[0] for c in curves), max(c.values[-1] for c in curves)
    middle = float(np.median([_middle(c) for c in curves]))
    if smallest > 0 and largest > LOG_FROM * middle:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    worst = max(curves, key=lambda c: c.values[-1])
    ax.annotate(
        f"max {worst.values[-1]:.4g} {worst.unit}",
        (worst.values[-1], 1.0),
        xytext=(-3, -11),
        textcoords="offset points",
        ha="right",
        fontsize=FONT_PT - 1,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        zorder=5,
    )


def describe_benchmarks(bench: Benchmarks, metric: str = "ttft") -> str:
    """Say in words what `plot_benchmarks` draws.

    Parameters
    ----------
    bench : Benchmarks
        What `kit.benchmarks` returned.
    metric : str
        The metric of the chart.

    Returns
    -------
    str
        Median, smallest and largest value of each run, and its failed requests.

    Examples
    --------
    >>> from kit.analyse.bench.results import Benchmarks
    >>> describe_benchmarks(Benchmarks([]), "itl")
    'No run holds the distribution of itl.'
    """
    curves = _curves(bench, metric)
    if not curves:
        return f"No run holds the distribution of {metric}."
    unit = curves[0].unit
    said = []
    for curve in curves[:CURVES]:
        ends = (
            f"{curve.values[0]:.4g} to {curve.values[-1]:.4g} {unit}"
            if curve.single
            else f"quantiles of the tool from {curve.values[0]:.4g} to {curve.values[-1]:.4g} {unit}"
        )
        said.append(f"{curve.label}, {ends}")
    more = f" And {len(curves) - CURVES} more runs." if len(curves) > CURVES else ""
    runs = f"{len(curves)} run{'s' * (len(curves) != 1)}"
    return f"{NAME.get(metric, metric)} of {runs}, a cumulative curve each. {'; '.join(said)}.{more}"
