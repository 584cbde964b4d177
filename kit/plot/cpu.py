"""CPU time spent by each process between its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.plot.decimate import min_max
from kit.plot.samples import legend_of, odd_one, process_colours, process_names
from kit.plot.style import GREY, begin, dress, legend_beside, note
from kit.plot.timeaxis import label_time
from kit.thread_history import sampled_by_one_tool, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = (
    "CPU: no process was sampled twice with its CPU time. Two samples of /proc/PID/stat some seconds apart, or a "
    "recording with `kit collect`, would show it."
)


def cores(processes: pd.DataFrame) -> pd.DataFrame:
    """Resample CPU time to cores in use between consecutive samples of a process.

    Returns columns `pid`, `begin` and `end` (seconds on the time axis), `cores`; a row a pair of samples. A pid that was reused
    (another start time) gives no pair across the two lives.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> frame = FRAMES["processes"].build([{"pid": 7, "t_s": 0.0, "cpu_s": 3.0, "capture": "a"},
    ...                                    {"pid": 7, "t_s": 2.0, "cpu_s": 7.0, "capture": "a"}])
    >>> cores(frame)[["begin", "end", "cores"]].values.tolist()
    [[0.0, 2.0, 2.0]]
    """
    spent = processes["cpu_s"].astype(float)
    spent = spent.fillna(processes["utime_s"].astype(float) + processes["stime_s"].astype(float))
    rows = processes.assign(x=seconds(processes), spent=spent).dropna(subset=["x", "spent", "pid"])
    rows = sampled_by_one_tool(rows, ["pid"]).sort_values(["pid", "x"], kind="stable")
    life = rows["start_ticks"].fillna(-1)
    same = (rows["pid"] == rows["pid"].shift()) & (life == life.shift())
    pairs = pd.DataFrame({"pid": rows["pid"], "begin": rows["x"].shift(), "end": rows["x"], "spent": rows["spent"].diff()})[
        same.fillna(False)
    ]
    pairs = pairs[pairs["end"] > pairs["begin"]]
    pairs["cores"] = pairs["spent"] / (pairs["end"] - pairs["begin"])
    return pairs[["pid", "begin", "end", "cores"]].reset_index(drop=True)


def plot_cpu(
    processes: pd.DataFrame,
    ax: Axes | None = None,
    *,
    names: Mapping[int, str] | None = None,
    colours: Mapping[int, str] | None = None,
) -> Axes:
    """Draw how many cores each process used between its samples.

    Parameters
    ----------
    names : mapping of int to str, optional
        Name of each pid.
    colours : mapping of int to str, optional
        Colour of each pid, so that figures agree; chosen here without it.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_cpu(FRAMES["processes"].empty()).texts[0].get_text()[:30]
    'CPU: no process was sampled tw'
    """
    pairs = cores(processes)
    ax, new = begin(ax, 2.2, lambda: describe_cpu(processes, names=names), len(pairs) > 0)
    if not len(pairs):
        return ax
    names = names or process_names(processes)
    busy = pairs.groupby("pid")["cores"].max().sort_values(ascending=False, kind="stable")
    colours = colours or process_colours([int(pid) for pid in busy.index])
    for pid, rows in pairs.groupby("pid"):
        values, colour = rows["cores"].to_numpy(), colours.get(int(pid), GREY)
        kept = min_max(values)
        x, y = np.append(rows["begin"].to_numpy()[kept], rows["end"].iloc[-1]), np.append(values[kept], values[-1])
        ax.step(x, y, where="post", color=colour, linewidth=1.2, zorder=1 if colour == GREY else 2)
    ax.set_ylim(0, max(float(busy.max()) * 1.25, 0.1))
    odd = odd_one(_mean(pairs)["mean"].to_dict(), names)
    if odd:
        text = f"{names.get(odd[0], odd[0])}: {odd[1]:.2f} cores in the mean, median of its peers {odd[2]:.2f}"
        note(ax, text, float(pairs.loc[pairs["pid"] == odd[0], "end"].max()), odd[1])
    legend_beside(ax, legend_of({int(pid): colours.get(int(pid), GREY) for pid in busy.index}, names))
    if new:
        label_time(ax, processes)
    return dress(ax, f"CPU of each process ({len(busy)})", y_label="cores")


def _mean(pairs: pd.DataFrame) -> pd.DataFrame:
    """Mean and largest use of each pid over all its pairs of samples."""
    spent = pairs.assign(spent=pairs["cores"] * (pairs["end"] - pairs["begin"]), length=pairs["end"] - pairs["begin"])
    by_pid = spent.groupby("pid").agg(spent=("spent", "sum"), length=("length", "sum"), most=("cores", "max"))
    return by_pid.assign(mean=by_pid["spent"] / by_pid["length"])


def describe_cpu(processes: pd.DataFrame, *, names: Mapping[int, str] | None = None) -> str:
    """Say in words what `plot_cpu` draws: the mean use of the busiest and of the idlest process.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_cpu(FRAMES["processes"].build([{"pid": 7, "comm": "server", "t_s": t, "cpu_s": 2 * t, "capture": "a"}
    ...                                         for t in (0.0, 2.0)]))
    'CPU of 1 process over 2 s: server[7] used 2.00 cores in the mean, 2.00 at most.'
    """
    pairs = cores(processes)
    if not len(pairs):
        return NOTHING
    names = names or process_names(processes)
    by_pid = _mean(pairs)
    mean = by_pid["mean"].sort_values(ascending=False, kind="stable")
    high, low = mean.index[0], mean.index[-1]
    text = f"CPU of {len(mean)} process{'es' * (len(mean) != 1)} over {pairs['end'].max() - pairs['begin'].min():.0f} s: "
    text += f"{names.get(high, high)} used {mean[high]:.2f} cores in the mean, {by_pid.loc[high, 'most']:.2f} at most"
    odd = odd_one(mean.to_dict(), names)
    if odd:
        return f"{text}. {names.get(odd[0], odd[0])} stands apart: {odd[1]:.2f} in the mean, its peers {odd[2]:.2f}."
    return text + (f"; the least, {names.get(low, low)}, {mean[low]:.2f}." if len(mean) > 1 else ".")
