"""The shift function of a comparison of benchmarks: how much longer the requests take, quantile by quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kit.analyse.bench.findings import change, share
from kit.analyse.bench.where import shift_finding
from kit.plot.benchmarks import NAME
from kit.plot.style import BLUE, FONT_PT, GREY, INK, STATE_PAINT, VERMILION, begin, dress, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kit.analyse.bench.compare import BenchComparison

ROOM = 3.0
"""Factor above and below the line that such an axis shows."""
FAR = 2.0
"""From a doubling on the axis counts factors, on a logarithmic scale."""


def plot_shift(comparison: BenchComparison, metric: str = "ttft", ax: Axes | None = None) -> Axes:
    """Draw the effect at each quantile of the requests with its pointwise band over runs.

    A level line is a change that all requests share; a line that leaves zero at the right only is a tail. With one run a side
    there is no band: the noise is not known.

    Parameters
    ----------
    comparison : BenchComparison
        What `kit.compare_benchmarks` returned.
    metric : str
        `ttft`, `itl`, `tpot`, `e2el`.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("sg01-capture-hang").parent / "bench"
    >>> found = kit.compare_benchmarks(folder / "vllm-base.json", folder / "vllm-candidate.json")
    >>> plot_shift(found, "ttft").get_ylabel()
    'change from base to cand (%)'
    """
    table = comparison.shift(metric)
    ax, _ = begin(ax, 3.0, lambda: describe_shift(comparison, metric), len(table) > 0)
    if not len(table):
        return ax
    far = bool((table["effect"] > FAR - 1).any())
    scale = (lambda values: 1 + values) if far else (lambda values: values * 100)
    x = table["quantile"] * 100
    margin = comparison.rules.margin
    ax.axhspan(scale(1 / (1 + margin) - 1), scale(margin), color=STATE_PAINT["S"], zorder=0, linewidth=0)
    ax.axhline(scale(0.0), color=INK, linewidth=0.8, zorder=1)
    banded = table["low"].notna().all()
    if banded:
        ax.fill_between(x, scale(table["low"]), scale(table["high"]), color=BLUE, alpha=0.18, linewidth=0, zorder=2)
    ax.plot(x, scale(table["effect"]), color=BLUE, linewidth=1.5, marker="o", markersize=4, zorder=3)
    _ends(ax, x, table["effect"], scale)
    if far:
        _factors(ax, scale(table["effect"]))
    level = f"{share(comparison.rules.confidence)} band, pointwise" if banded else "one run per side: no band"
    n = f"{table['n_base'].iloc[0]} and {table['n_cand'].iloc[0]} run{'' if table['n_cand'].iloc[0] == 1 else 's'}"
    title = (
        f"{NAME.get(metric, metric)}: change at each quantile, cand against base; {n}; {level}; grey: margin of {share(margin)}"
    )
    x_label = f"quantile of {'gaps' if metric == 'itl' else 'requests'} (%)"
    dress(ax, plain(title), x_label=x_label, y_label="cand / base" if far else "change from base to cand (%)")
    ax.set_xlim(0, 100)
    ax.margins(y=0.12)
    return ax


def _ends(ax: Axes, x, effect, scale) -> None:
    """Write the numbers of both ends and of the largest change."""
    for at in dict.fromkeys((0, int(np.argmax(np.abs(effect))), len(effect) - 1)):
        ax.annotate(
            change(effect.iloc[at]),
            (x.iloc[at], scale(effect.iloc[at])),
            xytext=(0, 6),
            textcoords="offset points",
            ha="left" if at == 0 else "right" if at == len(effect) - 1 else "center",
            fontsize=FONT_PT - 1,
            color=VERMILION if effect.iloc[at] > 0 else INK,
            zorder=4,
        )


def _factors(ax: Axes, factors) -> None:
    """Make the axis one of factors, as wide as the line needs: a band of few runs would squeeze it, and is cut."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    ax.set_yscale("log")
    low, high = min(factors.min(), 1.0) / ROOM, factors.max() * ROOM
    ax.set_ylim(low, high)
    ticks = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.axhline(1.0, color=GREY, linewidth=0.6, zorder=1)


def describe_shift(comparison: BenchComparison, metric: str = "ttft") -> str:
    """Say in words what `plot_shift` draws.

    Parameters
    ----------
    comparison : BenchComparison
        What `kit.compare_benchmarks` returned.
    metric : str
        The metric of the chart.

    Returns
    -------
    str
        At which quantiles the sides differ and by how much, or why nothing is drawn.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("sg01-capture-hang").parent / "bench"
    >>> found = kit.compare_benchmarks(folder / "vllm-base.json", folder / "sglang-base.jsonl")
    >>> describe_shift(found, "itl")
    'No change of itl is drawn: its ratio is withheld.'
    """
    table = comparison.shift(metric)
    if not len(table):
        if comparison.withheld(metric):
            return f"No change of {metric} is drawn: its ratio is withheld."
        return f"No change of {metric} is drawn: the files do not hold enough single values of both sides."
    points = ", ".join(f"p{row.quantile * 100:g} {change(row.effect)}" for row in table.itertuples())
    return f"Change at each quantile. {shift_finding(metric, table, comparison.rules.alpha)}. {points}."
