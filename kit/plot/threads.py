"""Threads over time: how many in each state, and a strip with a row a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.plot.decimate import rarest
from kit.plot.samples import named_list, sampled_by_one_tool, seconds, time_label
from kit.plot.style import OTHER_STATE, STATE_COLOUR, STATE_NAME, begin, dress, legend_beside, patches, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATES = ("R", "D", "T", "t", "Z", "X", OTHER_STATE, "I", "S")
"""Order of the stack from below: what is rare and telling first, sleepers on top."""
SLEEPING = ("S", "I")
ROWS = 96
"""Most threads in a strip: about three pixels a row at the height it is drawn."""
COLUMNS = 800
"""Most moments in a strip: one a pixel."""
NOTHING = (
    "Threads: no sample holds thread states. `ps -eLo pid,tid,stat,wchan:32,comm`, or a recording with "
    "`kit collect`, would show them."
)


@dataclass
class Strip:
    """Threads as a table of state codes (positions in `STATES`, -1 where a thread was not seen).

    Attributes
    ----------
    codes : array of int, shape (threads, moments)
    x : array of float
        Seconds of each moment.
    threads : pandas.DataFrame
        Columns `pid`, `tid`, `comm`; a row a row of `codes`.
    total : int
        Threads before the choice of rows.
    odd : int
        How many of all were ever seen in another state than sleeping.
    """

    codes: np.ndarray
    x: np.ndarray
    threads: pd.DataFrame
    total: int
    odd: int


def _sampled(threads: pd.DataFrame) -> pd.DataFrame:
    """Return rows with a state, of one tool, with the columns `x` (seconds), `column` (moment) and `code`."""
    rows = threads[threads["state"].notna() & threads["tid"].notna()]
    rows = sampled_by_one_tool(rows, ["tid"])
    if not len(rows):
        return rows.assign(x=0.0, column=0, code=0)
    x = seconds(rows)
    column = rows["moment"].astype("Float64").fillna(-1).astype(float) if rows["moment"].nunique() > 1 else x.round(3)
    letters = rows["state"].str[0]
    code = letters.map({letter: number for number, letter in enumerate(STATES)}).fillna(STATES.index(OTHER_STATE)).astype(int)
    rows = rows.assign(x=x, column=column.fillna(0.0), code=code)
    return rows.assign(x=rows.groupby("column")["x"].transform("min"))


def strip_of(threads: pd.DataFrame, *, rows: int = ROWS) -> Strip:
    """Turn samples of threads into a table of states with at most `rows` rows; those ever seen awake go first.

    Parameters
    ----------
    rows : int
        Most rows to keep. Odd threads (ever in a state other than sleeping) are kept first, those with the rarest states
        before the others; what is left is spread evenly over the processes.

    Returns
    -------
    Strip

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> frame = FRAMES["threads"].build([{"pid": 1, "tid": tid, "state": "D" if tid == 77 else "S", "t_s": 0.0, "capture": "a"}
    ...                                  for tid in range(500)])
    >>> strip = strip_of(frame, rows=20)
    >>> 77 in set(strip.threads["tid"]), strip.total, strip.odd
    (True, 500, 1)
    """
    sampled = _sampled(threads)
    sampled = sampled.assign(pid=sampled["pid"].fillna(-1).astype(int), tid=sampled["tid"].astype(int))
    table = sampled.pivot_table(index=["pid", "tid"], columns="column", values="code", aggfunc="min").sort_index()
    if not len(table):
        return Strip(np.empty((0, 0), int), np.empty(0), pd.DataFrame(columns=["pid", "tid", "comm"]), 0, 0)
    codes = table.fillna(-1).to_numpy().astype(int)
    x = sampled.groupby("column")["x"].min().reindex(table.columns).to_numpy(float)
    sleeping = [STATES.index(letter) for letter in SLEEPING]
    odd = ((codes >= 0) & ~np.isin(codes, sleeping)).any(axis=1)
    chosen = _choose(codes, table.index.get_level_values("pid").to_numpy(), odd, rows)
    comm = sampled.groupby(["pid", "tid"])["comm"].last()
    kept = table.index[chosen].to_frame(index=False)
    kept["comm"] = comm.reindex(table.index[chosen]).to_numpy()
    return Strip(codes[chosen], np.nan_to_num(x), kept, len(table), int(odd.sum()))


def _choose(codes: np.ndarray, pids: np.ndarray, odd: np.ndarray, rows: int) -> np.ndarray:
    """Positions of the threads to draw, by process; within a process the odd ones first, the rarest state on top."""
    share = np.bincount(codes[codes >= 0], minlength=len(STATES)).astype(float)
    rarity = np.array([min((share[code] for code in set(row) if code >= 0), default=np.inf) for row in codes])
    sleeping = [STATES.index(letter) for letter in SLEEPING]
    awake = ((codes >= 0) & ~np.isin(codes, sleeping)).sum(axis=1)
    order = np.lexsort((-awake, rarity))
    turn = np.empty(len(codes), dtype=int)  # n-th of its process, so that equally odd threads of all processes take turns
    for pid in np.unique(pids):
        own = order[pids[order] == pid]
        turn[own] = np.arange(len(own))
    order = np.lexsort((turn, -awake, rarity))
    kept = [position for position in order if odd[position]][:rows]
    spare = rows - len(kept)
    ordinary = [np.flatnonzero((pids == pid) & ~odd) for pid in np.unique(pids)]
    for left, members in zip(range(len(ordinary), 0, -1), sorted(ordinary, key=len), strict=True):
        take = min(len(members), spare // left)
        kept += list(members[np.linspace(0, len(members) - 1, take).astype(int)]) if take else []
        spare -= take
    chosen = np.array(kept, dtype=int)
    return chosen[np.lexsort((-awake[chosen], rarity[chosen], ~odd[chosen], pids[chosen]))]


def _edges(x: np.ndarray, least_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return column edges and, for each column between them, its moment; -1 where a gap in the samples lies."""
    steps = np.diff(x)
    step = max(float(np.median(steps)) if len(x) > 2 and np.median(steps) > 0 else 0.0, least_s)
    edges, moments = [float(x[0])], []
    for number, moment in enumerate(x):
        end = x[number + 1] if number + 1 < len(x) else moment + step
        if end - moment > 3 * step:
            edges += [moment + step, end]
            moments += [number, -1]
        else:
            edges.append(max(end, edges[-1] + 1e-6))
            moments.append(number)
    return np.array(edges), np.array(moments)


def plot_thread_strip(
    threads: pd.DataFrame,
    ax: Axes | None = None,
    *,
    names: Mapping[int, str] | None = None,
    rows: int = ROWS,
    least_s: float = 1.0,
) -> Axes:
    """Draw a row a thread and a column a moment, coloured by state, rows grouped by process.

    Where there are more threads than rows, those ever seen in a state other than sleeping stay, and the title says how
    many of how many are shown. Where there are more moments than pixels, the rarest state in a pixel wins.

    Parameters
    ----------
    names : mapping of int to str, optional
        Name of each pid.
    rows : int
        Most threads to draw.
    least_s : float
        Narrowest that a lone moment is drawn, in seconds.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_thread_strip(FRAMES["threads"].empty()).texts[0].get_text()[:26]
    'Threads: no sample holds t'
    """
    strip = strip_of(threads, rows=rows)
    empty = "" if len(strip.codes) else NOTHING
    height = 0.9 + 2.5 * min(1.0, len(strip.codes) / 40)
    ax, new = begin(ax, height, lambda: describe_thread_strip(threads, names=names, rows=rows), empty)
    if empty:
        return ax
    present = _cells(ax, strip, least_s)
    _group_labels(ax, strip.threads["pid"].to_numpy(), names or {})
    legend_beside(ax, patches({f"{letter} {STATE_NAME[letter]}": STATE_COLOUR[letter] for letter in present}))
    drawn = len(strip.codes)
    count = f"{drawn:,} of {strip.total:,} threads, those ever awake first" if drawn < strip.total else f"all {strip.total:,}"
    once = " at one moment" if len(strip.x) == 1 else ""
    dress(ax, f"State of each thread{once} ({count})", x_label=time_label(threads) if new and not once else "")
    if new and once:
        ax.set_xticks([])
    ax.grid(visible=False)
    return ax


def _cells(ax: Axes, strip: Strip, least_s: float) -> list[str]:
    """Draw the table of states, an empty row between processes, and return the states in it."""
    from matplotlib.colors import ListedColormap

    codes, begins = rarest(strip.codes, COLUMNS)
    edges, moments = _edges(strip.x[begins], least_s)
    pids = strip.threads["pid"].to_numpy()
    breaks = np.flatnonzero(np.diff(pids)) + 1
    table = np.insert(np.where(moments >= 0, codes[:, moments], -1), breaks, -1, axis=0)
    shown = np.ma.masked_less(table, 0)
    ax.pcolormesh(
        edges,
        np.arange(len(table) + 1),
        shown,
        cmap=ListedColormap([STATE_COLOUR[letter] for letter in STATES]),
        vmin=-0.5,
        vmax=len(STATES) - 0.5,
        rasterized=True,
    )
    return [letter for number, letter in enumerate(STATES) if (codes == number).any()]


def _group_labels(ax: Axes, pids: np.ndarray, names: Mapping[int, str]) -> None:
    """Label the middle of each process's rows, an empty row between two; a label without room is left out."""
    begins = np.append(0, np.flatnonzero(np.diff(pids)) + 1)
    ends = np.append(begins[1:], len(pids))
    height = len(pids) + len(begins) - 1
    at, words, free_from = [], [], -np.inf
    for number, (first, last) in enumerate(zip(begins, ends, strict=True)):
        middle = (first + last) / 2 + number
        if middle >= free_from:
            at.append(middle)
            words.append("no pid" if pids[first] < 0 else plain(names.get(int(pids[first]), str(pids[first]))))
            free_from = middle + height / 16
    ax.set_yticks(at, words)
    ax.set_ylim(height, 0)


def describe_thread_strip(threads: pd.DataFrame, *, names: Mapping[int, str] | None = None, rows: int = ROWS) -> str:
    """Say in words what `plot_thread_strip` draws: how many threads, which were awake.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_thread_strip(FRAMES["threads"].build([
    ...     {"pid": 1, "tid": tid, "state": "R" if tid == 2 else "S", "comm": "worker", "t_s": 0.0, "capture": "a"}
    ...     for tid in (1, 2, 3)]))
    'Strip of 3 threads at 1 moment. 1 was ever in a state other than sleeping: worker (tid 2 of 1): R.'
    """
    strip = strip_of(threads, rows=rows)
    if not strip.total:
        return NOTHING
    names = names or {}
    awake, asleep = [], [STATES.index(letter) for letter in SLEEPING]
    for number, thread in enumerate(strip.threads.itertuples()):
        letters = [STATES[code] for code in sorted(set(strip.codes[number])) if code >= 0 and STATES[code] not in SLEEPING]
        if letters:
            comm = thread.comm if isinstance(thread.comm, str) else "thread"
            moments = int(((strip.codes[number] >= 0) & ~np.isin(strip.codes[number], asleep)).sum())
            awake.append(
                (
                    letters == ["R"],
                    -moments,
                    f"{comm} (tid {thread.tid} of {names.get(thread.pid, thread.pid)}): {' '.join(letters)}",
                )
            )
    shown = (
        f"{len(strip.codes)} of {strip.total} threads"
        if len(strip.codes) < strip.total
        else f"{strip.total} thread{'s' * (strip.total != 1)}"
    )
    text = f"Strip of {shown} at {len(strip.x)} moment{'s' * (len(strip.x) != 1)}."
    if not strip.odd:
        return f"{text} All were sleeping whenever seen."
    said = named_list([words for *_, words in sorted(awake)])
    return f"{text} {strip.odd} {'was' if strip.odd == 1 else 'were'} ever in a state other than sleeping: {said}."


def state_counts(threads: pd.DataFrame) -> pd.DataFrame:
    """Count the threads in each state at each moment.

    Returns
    -------
    pandas.DataFrame
        Index: seconds on the time axis; one column of int a state letter, in the order of `STATES`.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> state_counts(FRAMES["threads"].build([{"pid": 1, "tid": 1, "state": "S", "t_s": 0.0, "capture": "a"}])).to_dict()
    {'S': {0.0: 1}}
    """
    sampled = _sampled(threads)
    table = sampled.groupby(["x", "code"], dropna=False).size().unstack(fill_value=0) if len(sampled) else pd.DataFrame()
    return table.rename(columns=dict(enumerate(STATES))) if len(table) else table


def plot_thread_states(threads: pd.DataFrame, ax: Axes | None = None, *, least_s: float = 1.0) -> Axes:
    """Draw how many threads were in each state, stacked: rare states below, sleepers on top.

    Where sleepers outnumber the others by far, the axis is logarithmic above 10, so that one running thread of a
    thousand is still seen.

    Parameters
    ----------
    least_s : float
        Narrowest that a lone moment is drawn, in seconds.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_thread_states(FRAMES["threads"].empty()).texts[0].get_text()[:26]
    'Threads: no sample holds t'
    """
    counts = state_counts(threads)
    empty = "" if len(counts) else NOTHING
    ax, new = begin(ax, 2.2, lambda: describe_thread_states(threads), empty)
    if empty:
        return ax
    _stack(ax, counts, least_s)
    logarithmic = _count_axis(ax, counts)
    legend_beside(ax, patches({f"{letter} {_span(counts[letter])}": STATE_COLOUR[letter] for letter in counts.columns}))
    title = "Threads by state" + (" (logarithmic above 10)" if logarithmic else "")
    return dress(ax, title, y_label="threads", x_label=time_label(threads) if new else "")


def _stack(ax: Axes, counts: pd.DataFrame, least_s: float) -> None:
    """Draw the counts of each state above one another."""
    x = np.nan_to_num(counts.index.to_numpy(float))
    codes = np.arange(len(x))[None, :]
    kept = codes[0] if len(x) <= COLUMNS else rarest(codes, COLUMNS)[1]
    edges, moments = _edges(x[kept], least_s)
    below = np.zeros(len(moments))
    for letter in counts.columns:
        per_bucket = np.maximum.reduceat(counts[letter].to_numpy(), kept)
        height = np.where(moments >= 0, per_bucket[moments], 0).astype(float)
        ax.bar(edges[:-1], height, np.diff(edges), bottom=below, align="edge", color=STATE_COLOUR[letter], linewidth=0)
        below += height


def _count_axis(ax: Axes, counts: pd.DataFrame) -> bool:
    """Make the axis logarithmic where sleepers would hide the others; say whether it is."""
    total = counts.sum(axis=1).max()
    awake = (
        counts.drop(columns=[letter for letter in SLEEPING if letter in counts]).sum(axis=1).max() if len(counts.columns) else 0
    )
    logarithmic = total > 40 and awake < total / 4
    if logarithmic:
        ax.set_yscale("symlog", linthresh=10)
        ticks = [tick for tick in (0, 2, 5, 10, 100, 1_000, 10_000, 100_000) if tick <= total]
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.set_yticks([], minor=True)
    ax.set_ylim(0, total * (1.3 if logarithmic else 1.08))
    return bool(logarithmic)


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def describe_thread_states(threads: pd.DataFrame) -> str:
    """Say in words what `plot_thread_states` draws.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> describe_thread_states(FRAMES["threads"].build([
    ...     {"pid": 1, "tid": tid, "state": "R" if tid == 2 else "S", "t_s": 0.0, "capture": "a"} for tid in (1, 2, 3)]))
    'Threads by state at 1 moment: R running 1, S sleeping 2.'
    """
    counts = state_counts(threads)
    if not len(counts):
        return NOTHING
    said = [f"{letter} {STATE_NAME[letter]} {_span(counts[letter])}" for letter in counts.columns]
    return f"Threads by state at {len(counts)} moment{'s' * (len(counts) != 1)}: {', '.join(said)}."
