"""System calls of a trace: how often, how long, and which never returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.call_history import UNRETURNED, weights
from kit.clock import show_seconds
from kit.plot.samples import named_list
from kit.plot.style import FONT_PT, GREY, INK, SERIES, begin, dress, legend_beside, patches, plain
from kit.plot.timeaxis import label_time
from kit.thread_history import seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CALLS = 7
"""Calls with a colour of their own; the rest is drawn together, and named as such."""
COLUMNS = ["time", "t_s", "pid", "syscall", "duration_s", "errno", "state"]
"""What the figures need of system calls."""
BINS = 80
NOTHING = "System calls: no trace. `timeout 5 strace -f -tt -T -p PID`, or `kit collect local --strace 5s`, would take one."
NO_TIME = "System calls: the trace has no time stamps. `strace -tt` or `-ttt` would print them."


def _calls(syscalls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls with their main names: those with a colour keep theirs, the others become `other`."""
    rows = syscalls.assign(x=seconds(syscalls))
    common = counts(rows)
    longest = rows.groupby("syscall")["duration_s"].sum().sort_values(ascending=False)
    main = list(dict.fromkeys([*common.index[:4], *longest.index[:3], *common.index]))[:CALLS]
    return rows.assign(call=rows["syscall"].where(rows["syscall"].isin(main), "other"))


def counts(rows: pd.DataFrame, by: str = "syscall") -> pd.Series:
    """Calls of each name, the most first."""
    return weights(rows).groupby(rows[by], sort=False).sum().sort_values(ascending=False, kind="stable")


def plot_syscall_rate(syscalls: pd.DataFrame, ax: Axes | None = None, *, least_s: float = 0.0) -> Axes:
    """Draw system calls per second, stacked by call.

    Parameters
    ----------
    least_s : float
        Narrowest bar to draw, in seconds: on the axis of a long run a short trace becomes one bar of this width.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_syscall_rate(FRAMES["syscalls"].empty()).texts[0].get_text()[:24]
    'System calls: no trace. '
    """
    rows = _calls(syscalls)
    known = rows["x"].notna().any()
    ax, new = begin(ax, 2.2, lambda: describe_syscall_rate(syscalls), known)
    if not known:
        return ax
    rows = rows.dropna(subset=["x"])
    first, last = float(rows["x"].min()), float(rows["x"].max())
    span = last - first if last > first else 1.0
    bins = max(1, min(BINS, int(span / least_s))) if least_s else BINS
    edges = np.linspace(first, first + span, bins + 1)
    below, colours = np.zeros(bins), {}
    many, weight = counts(rows, "call"), weights(rows)
    calls = [call for call in many.index if call != "other"]
    for number, call in enumerate([*calls, *["other"] * bool((rows["call"] == "other").any())]):
        own = rows["call"] == call
        rate = np.histogram(rows.loc[own, "x"], edges, weights=weight[own])[0] / (span / bins)
        colour = GREY if call == "other" else SERIES[number % len(SERIES)]
        ax.bar(edges[:-1], rate, max(span / bins, least_s), bottom=below, align="edge", color=colour, linewidth=0)
        below += rate
        colours[f"{call} {many[call]:,}"] = colour
    legend_beside(ax, patches(colours))
    title = f"System calls ({weight.sum():,} in {last - first:.3g} s of tracing)"
    if new:
        label_time(ax, syscalls)
    return dress(ax, title, y_label="calls/s")


def by_call(syscalls: pd.DataFrame) -> pd.DataFrame:
    """Sum up a trace by call.

    Index `syscall`; columns `calls`, `errors`, `unreturned` (int), `total_s`, `longest_s`. Longest total time first;
    calls that never returned before all others, since their time is not known.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> frame = FRAMES["syscalls"].build([{"syscall": "read", "duration_s": 0.5, "state": "done", "capture": "a"},
    ...                                   {"syscall": "futex", "state": "open", "capture": "a"}])
    >>> by_call(frame)[["calls", "unreturned", "total_s"]].values.tolist()
    [[1.0, 1.0, 0.0], [1.0, 0.0, 0.5]]
    """
    weight, longest = weights(syscalls), syscalls.get("longest_s", syscalls["duration_s"]).fillna(syscalls["duration_s"])
    error, unreturned = weight.where(syscalls["errno"].notna(), 0), weight.where(syscalls["state"].isin(UNRETURNED), 0)
    rows = syscalls.assign(weight=weight, error=error, unreturned=unreturned, longest=longest)
    table = rows.groupby("syscall").agg(
        calls=("weight", "sum"),
        errors=("error", "sum"),
        unreturned=("unreturned", "sum"),
        total_s=("duration_s", "sum"),
        longest_s=("longest", "max"),
    )
    table["pending"] = table["unreturned"] > 0
    return table.sort_values(["pending", "total_s", "calls"], ascending=False, kind="stable").drop(columns="pending")


def plot_syscall_time(syscalls: pd.DataFrame, ax: Axes | None = None, *, rows: int = 14) -> Axes:
    """Draw the time spent in each call, with its count, its longest and the ones that never returned.

    Parameters
    ----------
    rows : int
        Most calls to draw.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_syscall_time(FRAMES["syscalls"].empty()).texts[0].get_text()[:24]
    'System calls: no trace. '
    """
    table = by_call(syscalls)
    ax, _ = begin(ax, 0.9 + 0.24 * max(min(len(table), rows), 2), lambda: describe_syscall_time(syscalls), len(table) > 0)
    if not len(table):
        return ax
    drawn = table.head(rows)
    ax.barh(range(len(drawn)), drawn["total_s"], color=SERIES[0], height=0.68)
    for row, (_, call) in enumerate(drawn.iterrows()):
        ax.text(call["total_s"], row, "  " + _in_words(call), va="center", fontsize=FONT_PT - 1, color=INK)
    ax.set_yticks(range(len(drawn)), [plain(call) for call in drawn.index])
    ax.set_xlim(0, float(drawn["total_s"].max()) * 1.6 or 1)
    ax.invert_yaxis()
    count = f"{len(drawn)} of {len(table)} calls" if len(drawn) < len(table) else f"{len(table)} calls"
    dress(ax, f"Time in system calls, summed over threads ({count})", x_label="seconds in calls")
    ax.grid(axis="y", visible=False)
    return ax


def _in_words(call: pd.Series) -> str:
    said = [f"{int(call['calls']):,} call{'' if call['calls'] == 1 else 's'}"]
    if call["unreturned"]:
        said.append(f"{int(call['unreturned']):,} never returned")
    if call["longest_s"] == call["longest_s"]:
        said.append(f"longest {show_seconds(call['longest_s'])}")
    if call["errors"]:
        said.append(f"{int(call['errors']):,} failed")
    return ", ".join(said)


def describe_syscall_rate(syscalls: pd.DataFrame) -> str:
    """Say in words what `plot_syscall_rate` draws.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_syscall_rate(FRAMES["syscalls"].build([
    ...     {"syscall": "write", "t_s": float(t), "capture": "a"} for t in range(6)]))
    'Rate of 6 system calls over 5 s, 1.2 a second: write 6.'
    """
    rows = _calls(syscalls)
    if not len(rows):
        return NOTHING
    many, total = [f"{call} {count:,}" for call, count in counts(rows).items()], weights(rows).sum()
    span = rows["x"].max() - rows["x"].min()
    if not span > 0:
        return f"{NO_TIME if rows['x'].isna().all() else 'System calls at one moment.'} {total:,} calls: {named_list(many)}."
    return f"Rate of {total:,} system calls over {span:.3g} s, {total / span:,.1f} a second: {named_list(many)}."


def describe_syscall_time(syscalls: pd.DataFrame) -> str:
    """Say in words what `plot_syscall_time` draws.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_syscall_time(FRAMES["syscalls"].build([{"syscall": "read", "duration_s": 0.5, "capture": "a"}]))
    'Time in system calls, summed over threads: read 500 ms (1 call, longest 500 ms).'
    """
    table = by_call(syscalls)
    if not len(table):
        return NOTHING
    said = [f"{call} {show_seconds(row['total_s'])} ({_in_words(row)})" for call, row in table.iterrows()]
    return f"Time in system calls, summed over threads: {named_list(said)}."
