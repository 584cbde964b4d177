"""Memory of processes: anonymous, file-backed and shared pages apart, never summed over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from kit.plot.decimate import min_max
from kit.plot.samples import legend_of, named_list, odd_one, process_colours, process_names
from kit.plot.style import (
    BLUE,
    FONT_PT,
    GREY,
    INK,
    ORANGE,
    SKY,
    begin,
    bytes_unit,
    dress,
    human_bytes,
    legend_beside,
    note,
    patches,
    plain,
)
from kit.plot.timeaxis import label_time
from kit.thread_history import seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {
    "rss_anon_bytes": ("RssAnon", "-", ORANGE),
    "rss_file_bytes": ("RssFile", "--", SKY),
    "rss_shmem_bytes": ("RssShmem", ":", BLUE),
}
WHOLE = {"rss_bytes": ("RSS, shared pages included", "-", GREY)}
BARS = 24
"""Most processes in the bar form; more would not be legible. The largest stay, and the title says N of M."""
NOTHING = "Memory: no sample holds resident memory. /proc/PID/status, ps or a recording with `kit collect` would show it."


def _measured(processes: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Return the rows with memory in them, and the columns to draw: the three parts where known, else the whole."""
    split = processes[processes[list(PARTS)].notna().any(axis=1)]
    if len(split):
        return split.assign(x=seconds(split)), PARTS
    whole = processes[processes["rss_bytes"].notna()]
    return whole.assign(x=seconds(whole)), WHOLE


def _last(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values("x", kind="stable", na_position="first").groupby("pid").last()


def plot_memory(
    processes: pd.DataFrame,
    ax: Axes | None = None,
    *,
    names: Mapping[int, str] | None = None,
    colours: Mapping[int, str] | None = None,
    over_time: bool | None = None,
) -> Axes:
    """Draw the resident memory of each process: lines where it was sampled over time, bars where once.

    Parts of one process are drawn apart (`RssAnon`, `RssFile`, `RssShmem`), and nothing is summed over processes: file
    and shared pages are counted in each of them. The process that departs from its peers is named.

    Parameters
    ----------
    names : mapping of int to str, optional
        Name of each pid; made from titles without it.
    colours : mapping of int to str, optional
        Colour of each pid, so that figures agree; chosen here without it.
    over_time : bool, optional
        Force lines (True) or bars (False).

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> axes = plot_memory(FRAMES["processes"].empty())
    >>> axes.texts[0].get_text()[:20]
    'Memory: no sample ho'
    """
    rows, parts = _measured(processes)
    names = names or process_names(processes)
    lines = rows["x"].nunique() > 1 if over_time is None else over_time
    height = 2.6 if lines else 0.9 + 0.22 * min(rows["pid"].nunique(), BARS)
    ax, new = begin(ax, height, lambda: describe_memory(processes, names=names), len(rows) > 0)
    if not len(rows):
        return ax
    if not lines:
        return _bars(_last(rows), parts, ax, names)
    if new:
        label_time(ax, processes)
    return _lines(rows, parts, ax, names, colours)


def _lines(rows: pd.DataFrame, parts: dict, ax: Axes, names: Mapping[int, str], colours: Mapping[int, str] | None) -> Axes:
    from matplotlib.lines import Line2D

    main = next(iter(parts))
    last = _last(rows)
    odd = odd_one(last[main].astype(float).to_dict(), names)
    telling = [odd[0]] if odd else []
    telling += [int(pid) for pid in last[main].sort_values(ascending=False, kind="stable").index if pid not in telling]
    colours = colours or process_colours(telling)
    divisor, unit = bytes_unit(float(rows[list(parts)].max().max()))
    for pid, samples in rows.sort_values("x", kind="stable").groupby("pid"):
        for column, (_, dash, _) in parts.items():
            values = samples[column].astype(float).to_numpy() / divisor
            kept = min_max(values)
            ax.plot(
                samples["x"].to_numpy()[kept],
                values[kept],
                dash,
                color=colours.get(int(pid), GREY),
                linewidth=1.2,
                zorder=1 if colours.get(int(pid), GREY) == GREY else 2,
                marker="o" if len(kept) < 3 else None,
                markersize=3,
            )
    if odd:
        pid, value, median = odd
        text = f"{names.get(pid, pid)}: {human_bytes(value)}, median of its peers {human_bytes(median)}"
        note(ax, text, float(last.loc[pid, "x"]), value / divisor)
    ax.set_ylim(bottom=0)
    handles = [Line2D([], [], color=INK, linestyle=dash, label=label) for label, dash, _ in parts.values()]
    handles += legend_of({pid: colours.get(pid, GREY) for pid in telling}, names)
    legend_beside(ax, handles)
    return dress(
        ax, f"Resident memory of each process ({len(last)}; not summed: file and shared pages count in each)", y_label=unit
    )


def _bars(last: pd.DataFrame, parts: dict, ax: Axes, names: Mapping[int, str]) -> Axes:
    main = next(iter(parts))
    odd = odd_one(last[main].astype(float).to_dict(), names)
    total = last[list(parts)].astype(float).sum(axis=1)
    drawn = total.sort_values(ascending=False, kind="stable").index[:BARS]
    if odd and odd[0] not in drawn:
        drawn = drawn[:-1].append(pd.Index([odd[0]]))
    drawn = sorted(drawn)
    divisor, unit = bytes_unit(float(total.max()))
    ends = pd.Series(0.0, index=drawn)
    for column, (_, _, colour) in parts.items():
        width = last.loc[drawn, column].astype(float).fillna(0.0) / divisor
        ax.barh(range(len(drawn)), width, left=ends, color=colour, height=0.72)
        ends = ends + width
    for row, pid in enumerate(drawn):
        peers = f"  odd: peers have {main.split('_')[1].replace('bytes', 'RSS')} {human_bytes(odd[2])}" if odd else ""
        text = f" {ends[pid]:,.1f}{peers if odd and pid == odd[0] else ''}"
        ax.text(float(ends[pid]), row, text, va="center", fontsize=FONT_PT - 1, color=INK)
    ax.set_yticks(range(len(drawn)), [plain(names.get(int(pid), str(pid))) for pid in drawn])
    ax.set_xlim(0, float(ends.max()) * 1.25 or 1)
    ax.invert_yaxis()
    legend_beside(ax, patches({label: colour for label, _, colour in parts.values()}))
    count = f"{len(drawn)} of {len(last)}" if len(drawn) < len(last) else f"{len(last)}"
    dress(ax, f"Resident memory of each process at one moment ({count}; not summed over ranks)", x_label=unit)
    ax.grid(axis="y", visible=False)
    return ax


def describe_memory(processes: pd.DataFrame, *, names: Mapping[int, str] | None = None) -> str:
    """Say in words what `plot_memory` draws.

    Parameters
    ----------
    names : mapping of int to str, optional
        Name of each pid.

    Returns
    -------
    str
        Numbers of the last sample, the change since the first, the odd process.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_memory(FRAMES["processes"].build([{"pid": 7, "comm": "server", "rss_bytes": 407 * 2**30, "capture": "ps.txt"}]))
    'Resident memory of 1 process: RSS, shared pages included 407 GiB (server[7]).'
    """
    rows, parts = _measured(processes)
    if not len(rows):
        return NOTHING
    names = names or process_names(processes)
    last, first = _last(rows), rows.sort_values("x", kind="stable").groupby("pid").first()
    said = []
    for column, (label, _, _) in parts.items():
        values = last[column].dropna().astype(float)
        if not len(values):
            continue
        low, high = values.idxmin(), values.idxmax()
        span = (
            human_bytes(values[high])
            if len(values) == 1
            else f"{human_bytes(values[low])} ({names.get(low, low)}) to {human_bytes(values[high])}"
        )
        said.append(f"{label} {span} ({names.get(high, high)})")
    text = f"Resident memory of {len(last)} process{'es' * (len(last) != 1)}: {named_list(said)}."
    main = next(iter(parts))
    if rows["x"].nunique() > 1:
        change = (last[main].astype(float) - first[main].astype(float)).abs()
        if change.notna().any():
            span, most = rows["x"].max() - rows["x"].min(), change.idxmax()
            text += f" Largest change of {parts[main][0]} over {span:.0f} s: "
            text += f"{human_bytes(change[most])} ({names.get(most, most)})."
    odd = odd_one(last[main].astype(float).to_dict(), names)
    if odd:
        text += f" {names.get(odd[0], odd[0])} stands apart: {human_bytes(odd[1])}, its peers {human_bytes(odd[2])}."
    return text
