"""Launches on one axis: the phases of all above the memory of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from kit.analyse.verdict.phase_table import REACHED
from kit.clock import show_duration
from kit.plot.benchmarks import group_of
from kit.plot.decimate import min_max
from kit.plot.phases import LABEL_SHARE, phase_bar, phase_name, phase_patches
from kit.plot.style import (
    BLUE,
    EMPTY_IN,
    FONT_PT,
    INK,
    SERIES,
    VERMILION,
    bytes_unit,
    dress,
    figure_alt,
    human_bytes,
    legend_beside,
    new_figure,
    plain,
    say_empty,
)
from kit.plot.timeaxis import TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kit.analyse.launches.compare import Comparison

ALONE = 3
"""Up to so many launches each have a colour of their own; more share one where their names differ in numbers only."""
RUN_COLOURS = (BLUE, VERMILION, *(colour for colour in SERIES if colour not in (BLUE, VERMILION)))
"""Colours of the runs a, b, …; beyond eight they come again, and the legend tells."""
ROLE_DASH: dict[str, Any] = {"rank": "-", "engine": "--", "frontend": ":"}
NO_PHASES = "Phases: no record of either log shows a phase begun at a known time."
NO_MEMORY = "Memory: no sample of either run holds the resident memory of its server at a known time."


def plot_comparison(comparison: Comparison, ax: Axes | None = None) -> Figure:
    """Draw phases and memory of launches on one time axis.

    Parameters
    ----------
    comparison : kit.analyse.launches.compare.Comparison
    ax : matplotlib.axes.Axes, optional
        Draw the phases alone, there; without it a new figure with both, its alternative text set.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import kit
    >>> from kit.plot.style import figure_alt
    >>> figure = plot_comparison(kit.compare(kit.sample("sg01-capture-hang"), kit.sample("sg02-one-snapshot")))
    >>> figure_alt(figure)[:52]
    'Phases of a (sg01-capture-hang): launch 14 s, dist_i'
    """
    bands, memory = _bands(comparison), _memory(comparison)
    axis = _axis(bands, memory)
    if ax is not None:
        _draw_phases(comparison, bands, ax, axis)
        return ax.get_figure(root=True)
    heights = [0.5 * len(comparison.names) if len(bands) else EMPTY_IN, 2.6 if len(memory) else EMPTY_IN]
    figure = new_figure(sum(heights) + 0.7)
    above, below = figure.subplots(2, 1, sharex=bool(len(bands) and len(memory)), gridspec_kw={"height_ratios": heights})
    _draw_phases(comparison, bands, above, axis)
    _draw_memory(_groups(comparison), memory, below, axis)
    lowest = below if len(memory) else above
    zero = "launch" if comparison.align == "launch" else f"the begin of {comparison.align}"
    lowest.set_xlabel(
        f"seconds since {zero}" + (", compressed at the right" if axis.compressed else ""), fontsize=FONT_PT, color=INK
    )
    figure_alt(figure, describe_comparison(comparison))
    return figure


def _bands(comparison: Comparison) -> pd.DataFrame:
    """Phases with a begin; one without an end reaches to the last that is known."""
    rows = comparison.bands[comparison.bands["begin_s"].notna()]
    last = pd.concat([rows["begin_s"], rows["end_s"]]).max()
    return rows.assign(end_s=rows["end_s"].fillna(last))


def _memory(comparison: Comparison) -> pd.DataFrame:
    """Samples of ranks, engine and front end with a time: the anonymous part where all runs know it, else the whole."""
    rows = comparison.series[comparison.series["t_s"].notna()]
    rows = rows.assign(role=rows["process"].str.split(" ").str[0])
    rows = rows[rows["role"].isin(ROLE_DASH)]
    split = rows.groupby("run")["rss_anon_bytes"].apply(lambda part: part.notna().any())
    column = "rss_anon_bytes" if len(split) and split.all() else "rss_bytes"
    rows = rows.assign(value=rows[column].astype(float), part="anonymous" if column == "rss_anon_bytes" else "resident")
    return rows[rows["value"].notna()]


def _axis(bands: pd.DataFrame, memory: pd.DataFrame) -> TimeAxis:
    """Linear; where one run waits long in its last phase, what came before keeps most of the width."""
    if not len(bands) and not len(memory):
        return TimeAxis(0.0, 1.0)
    begin = min(0.0, bands["begin_s"].min() if len(bands) else 0.0)
    end = max(bands["end_s"].max() if len(bands) else 0.0, memory["t_s"].max() if len(memory) else 0.0)
    knee = bands.groupby("run")["begin_s"].max().max() if len(bands) else None
    return TimeAxis(begin, end if end > begin else begin + 1.0, knee)


def _draw_phases(comparison: Comparison, bands: pd.DataFrame, ax: Axes, axis: TimeAxis) -> None:
    if not len(bands):
        say_empty(ax, NO_PHASES)
        return
    for number, run in enumerate(comparison.labels):
        for band in bands[bands["run"] == run].itertuples():
            still = band.open and band.phase not in REACHED
            phase_bar(ax, number, band.phase, band.begin_s, band.end_s, open_=still)
            if axis.share(band.end_s) - axis.share(band.begin_s) > LABEL_SHARE:
                phase_name(ax, number, band.phase, band.begin_s)
    names = [plain(f"{run}: {_short(name)}") for run, name in zip(comparison.labels, comparison.names, strict=True)]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    legend_beside(ax, phase_patches(bands))
    dress(ax, "Phases of the rank furthest behind (hatched: the launch is still in it)")
    ax.grid(axis="y", visible=False)
    axis.apply(ax)


def _groups(comparison: Comparison) -> dict[str, str]:
    """What each run is one of: its letter, or among many the name that it shares with others."""
    kinds = [group_of(name) for name in comparison.names]
    together = len(kinds) > ALONE and 1 < len(set(kinds)) < len(kinds)
    return dict(zip(comparison.labels, kinds if together else comparison.labels, strict=True))


def _draw_memory(groups: dict[str, str], memory: pd.DataFrame, ax: Axes, axis: TimeAxis) -> None:
    if not len(memory):
        say_empty(ax, NO_MEMORY)
        return
    from matplotlib.lines import Line2D

    order = list(dict.fromkeys(groups.values()))
    colours = {group: RUN_COLOURS[number % len(RUN_COLOURS)] for number, group in enumerate(order)}
    divisor, unit = bytes_unit(float(memory["value"].max()))
    for (run, _), samples in memory.groupby(["run", "process"], sort=False):
        values = samples["value"].to_numpy() / divisor
        kept = min_max(values)
        ax.plot(
            samples["t_s"].to_numpy()[kept],
            values[kept],
            ROLE_DASH[samples["role"].iloc[0]],
            color=colours[groups[run]],
            linewidth=1.2,
            marker="o" if len(kept) < 3 else None,
            markersize=3.5,
        )
    ax.set_ylim(bottom=0)
    shown = {groups[run] for run in memory["run"].unique()}
    handles = [Line2D([], [], color=colours[group], label=plain(_short(group))) for group in order if group in shown]
    present = set(memory["role"])
    names = {"rank": "a rank", "engine": "engine", "frontend": "front end"}
    handles += [
        Line2D([], [], color=INK, linestyle=dash, label=names[role]) for role, dash in ROLE_DASH.items() if role in present
    ]
    legend_beside(ax, handles)
    part = memory["part"].iloc[0]
    what = "Anonymous memory" if part == "anonymous" else "Resident memory, shared pages included,"
    dress(ax, f"{what} of each process (not summed)", y_label=unit)
    axis.apply(ax)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def describe_comparison(comparison: Comparison) -> str:
    """Say in words what `plot_comparison` draws.

    Examples
    --------
    >>> import kit
    >>> describe_comparison(kit.compare(kit.sample("sg01-capture-hang"), kit.sample("sg02-one-snapshot")))[-58:]
    'Anonymous memory of b at its last sample: rank 0 25.2 GiB.'
    """
    bands, memory = _bands(comparison), _memory(comparison)
    said = []
    for run, name in zip(comparison.labels, comparison.names, strict=True):
        own = bands[bands["run"] == run]
        words = [f"{band.phase} {show_duration(band.end_s - band.begin_s)}" for band in own.itertuples()]
        last = own.iloc[-1]["phase"] if len(own) else None
        said.append(
            f"Phases of {run} ({name}): {', '.join(words)}; it is in {last}." if words else f"{run} ({name}) shows no phases."
        )
    for run in comparison.labels:
        own = memory[memory["run"] == run]
        if len(own):
            last = own.groupby("process", sort=False)["value"].last()
            said.append(
                f"{str(own['part'].iloc[0]).capitalize()} memory of {run} at its last sample: "
                + ", ".join(f"{process} {human_bytes(value)}" for process, value in last.items())
                + "."
            )
    return " ".join(said if len(memory) else [*said, NO_MEMORY])
