"""Log records over time, a lane a kind, heartbeats apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.clock import show_seconds
from kit.plot.style import FONT_PT, GREY, INK, KIND_COLOUR, begin, dress
from kit.plot.timeaxis import label_time
from kit.thread_history import seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 160
NOTHING = "Log: no record. `kit collect local --log FILE`, or a copy of the server's output, would show them."
NO_TIME = "Log: its records carry no time, so no rate can be drawn."


def _binned(log: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Return records with a position and a kind, the edges of the bins, the kinds present (heartbeats last)."""
    kinds = log["kind"].where(log["kind"].isin(list(KIND_COLOUR)), "other")
    rows = log.assign(x=seconds(log), kind=kinds, n=_records(log)).dropna(subset=["x"])
    if not len(rows):
        return rows, np.empty(0), []
    begin, end = float(rows["x"].min()), float(rows["x"].max())
    present = set(rows["kind"])
    return (
        rows,
        np.linspace(begin, end if end > begin else begin + 1, BINS + 1),
        [kind for kind in KIND_COLOUR if kind in present],
    )


def _records(log: pd.DataFrame) -> pd.Series:
    """Records that each row stands for: more than one in a condensed log."""
    return log["records"].fillna(1).astype(int) if "records" in log else pd.Series(1, index=log.index)


def plot_log_rate(log: pd.DataFrame, ax: Axes | None = None, *, edges: np.ndarray | None = None) -> Axes:
    """Draw records per bin of time, a lane a kind; bars grow with the logarithm, so that a single record is seen.

    Parameters
    ----------
    edges : array of float, optional
        Edges of the bins, in seconds since launch; equal ones without it.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_log_rate(FRAMES["log"].empty()).texts[0].get_text()
    "Log: no record. `kit collect local --log FILE`, or a copy of the server's output, would show them."
    """
    rows, equal, kinds = _binned(log)
    ax, new = begin(ax, 0.8 + 0.26 * max(len(kinds), 3), lambda: describe_log_rate(log), len(rows) > 0)
    if not len(rows):
        return ax
    edges = equal if edges is None else edges
    by_kind = {kind: rows[rows["kind"] == kind] for kind in kinds}
    counts = {kind: np.histogram(own["x"], edges, weights=own["n"])[0].astype(int) for kind, own in by_kind.items()}
    largest = max(int(count.max()) for count in counts.values())
    busiest = int(np.max([count.argmax() for count in counts.values() if count.max() == largest]))
    width = np.diff(edges)
    for lane, kind in enumerate(kinds):
        _lane(ax, len(kinds) - 1 - lane, kind, edges, counts[kind], largest)
    if "heartbeat" in kinds and len(kinds) > 1:
        ax.axhline(1, color=GREY, linewidth=0.7)
    ax.set_yticks([len(kinds) - 0.5 - lane for lane in range(len(kinds))], [f"{kind} {counts[kind].sum():,}" for kind in kinds])
    ax.set_ylim(0, len(kinds))
    dress(
        ax, f"Log records by kind ({rows['n'].sum():,}; highest bar {largest:,} in {show_seconds(width[busiest])}, log heights)"
    )
    if new:
        label_time(ax, log)
    ax.grid(axis="y", visible=False)
    total = int(_records(log).sum())
    without = total - int(rows["n"].sum())
    if without:
        text = f"{without:,} of {total:,} records\nwithout a time"
        ax.text(1.003, 0, text, transform=ax.transAxes, fontsize=FONT_PT - 1, color=INK, va="bottom")
    return ax


def _lane(ax: Axes, floor: int, kind: str, edges: np.ndarray, counts: np.ndarray, largest: int) -> None:
    """Draw the bars of one kind; their heights are logarithmic."""
    filled = counts > 0
    ax.bar(
        edges[:-1][filled],
        (0.2 + 0.62 * np.log1p(counts) / np.log1p(max(largest, 1)))[filled],
        np.diff(edges)[filled],
        bottom=floor + 0.06,
        align="edge",
        color=KIND_COLOUR[kind],
        edgecolor=GREY if kind == "noise" else KIND_COLOUR[kind],
        linewidth=0.5,
    )


def describe_log_rate(log: pd.DataFrame) -> str:
    """Say in words what `plot_log_rate` draws.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_log_rate(FRAMES["log"].build([
    ...     {"record": n, "t_s": 10.0 * n, "kind": kind, "text": "x", "raw": "x", "capture": "a"}
    ...     for n, kind in enumerate(["progress", "progress", "heartbeat"])]))
    'Log of 3 records over 20 s: progress 2, last at 10 s; heartbeat 1, last at 20 s.'
    """
    rows, _, kinds = _binned(log)
    if not len(rows):
        return NO_TIME if len(log) else NOTHING
    said = []
    for kind in kinds:
        own = rows[rows["kind"] == kind]
        said.append(f"{kind} {own['n'].sum():,}, last at {own['x'].max():,.0f} s")
    return f"Log of {rows['n'].sum():,} records over {rows['x'].max() - rows['x'].min():,.0f} s: {'; '.join(said)}."
