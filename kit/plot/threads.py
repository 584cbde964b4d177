"""Threads over time: how many in each state, and a strip with a row a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from kit.plot.decimate import buckets, rarest
from kit.plot.samples import named_list
from kit.plot.style import OTHER_STATE, STATE_NAME, STATE_PAINT, begin, dress, legend_beside, patches, plain
from kit.plot.timeaxis import label_time
from kit.thread_history import ThreadHistory, of_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATES = ("R", "D", "T", "t", "Z", "X", OTHER_STATE, "I", "S")
"""Order of the stack from below: what is rare and telling first, sleepers on top."""
SLEEPING = ("S", "I")
ROWS = 96
"""Most threads in a strip: about three pixels a row at the height it is drawn."""
COLUMNS = 800
"""Most moments in a strip: one a pixel."""
NOT_SEEN = 127
NOTHING = (
    "Threads: no sample holds thread states. `ps -eLo pid,tid,stat,wchan:32,comm`, or a recording with "
    "`kit collect`, would show them."
)


@dataclass
class Strip:
    """Threads as a table of state codes (positions in `STATES`, -1 where a thread was not seen)."""

    codes: np.ndarray
    x: np.ndarray  # seconds of each moment
    threads: pd.DataFrame  # columns `pid`, `tid`, `comm`; a row a row of `codes`
    total: int  # threads before the choice of rows
    odd: int  # how many of all were ever seen in another state than sleeping


Threads: TypeAlias = pd.DataFrame | ThreadHistory


def _history(threads: Threads) -> ThreadHistory:
    """What was seen of threads in a state, as stretches of samples."""
    history = threads if isinstance(threads, ThreadHistory) else of_rows(threads)
    known = history.changes["state"].notna() & history.changes["tid"].notna()
    return history if known.all() else ThreadHistory(history.changes[known], history.samples)


def state_codes(states: pd.Series) -> np.ndarray:
    """Position in `STATES` of each state."""
    numbers, letters = pd.factorize(states)
    codes = [STATES.index(str(word)[0]) if str(word)[0] in STATES else STATES.index(OTHER_STATE) for word in letters]
    return np.array(codes, dtype=np.int8)[numbers] if len(codes) else np.empty(0, np.int8)


def state_table(history: ThreadHistory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Code of each thread in each sample, a byte each, -1 where it was not seen; pids (-1: not known) and tids of the rows."""
    changes = history.changes
    pids = changes["pid"].fillna(-1).to_numpy(np.int64)
    known, row = np.unique((pids << 32) + changes["tid"].to_numpy(np.int64), return_inverse=True)
    codes = np.full((len(known), len(history.samples)), NOT_SEEN, dtype=np.int8)
    first, last = (changes[name].to_numpy(np.int64) for name in ("first_sample", "last_sample"))
    code, single = state_codes(changes["state"]), first == last
    np.minimum.at(codes, (row[single], first[single]), code[single])  # of two rows of a moment the rarer state stays
    for thread, at, end, one in zip(row[~single], first[~single], last[~single] + 1, code[~single], strict=True):
        codes[thread, at:end] = one
    codes[codes == NOT_SEEN] = -1
    return codes, known >> 32, known & 0xFFFFFFFF


def strip_of(threads: Threads, *, rows: int = ROWS) -> Strip:
    """Turn samples of threads into a table of states with at most `rows` rows; those ever seen awake go first.

    `rows`: most rows to keep. Odd threads (ever in a state other than sleeping) are kept first, those with the rarest states
    before the others; what is left is spread evenly over the processes.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> frame = FRAMES["threads"].build([{"pid": 1, "tid": tid, "state": "D" if tid == 77 else "S", "t_s": 0.0, "capture": "a"}
    ...                                  for tid in range(500)])
    >>> strip = strip_of(frame, rows=20)
    >>> 77 in set(strip.threads["tid"]), strip.total, strip.odd
    (True, 500, 1)
    """
    history = _history(threads)
    if not len(history.changes):
        return Strip(np.empty((0, 0), int), np.empty(0), pd.DataFrame(columns=["pid", "tid", "comm"]), 0, 0)
    codes, pids, tids = state_table(history)
    sleeping = [STATES.index(letter) for letter in SLEEPING]
    odd = _any(codes, [number for number in range(len(STATES)) if number not in sleeping])
    chosen = _choose(codes, pids, odd, rows)
    comm = history.changes.groupby(["pid", "tid"], dropna=False)["comm"].last()
    comm.index = [(-1 if pd.isna(pid) else int(pid), int(tid)) for pid, tid in comm.index]
    kept = pd.DataFrame({"pid": pids[chosen], "tid": tids[chosen]})
    kept["comm"] = [comm.get(key) for key in zip(kept["pid"], kept["tid"], strict=True)]
    x = history.samples["t_s"].to_numpy(float)
    return Strip(codes[chosen].astype(int), np.nan_to_num(x), kept, len(codes), int(odd.sum()))


def _any(codes: np.ndarray, numbers: list[int]) -> np.ndarray:
    """Rows of a table that hold one of some codes."""
    found = np.zeros(len(codes), dtype=bool)
    for number in numbers:
        found |= (codes == number).any(axis=1)
    return found


def _choose(codes: np.ndarray, pids: np.ndarray, odd: np.ndarray, rows: int) -> np.ndarray:
    """Positions of the threads to draw, by process; within a process the odd ones first, the rarest state on top."""
    each = np.stack([(codes == number).sum(axis=1) for number in range(len(STATES))])
    share = each.sum(axis=1, dtype=float)
    rarity = np.where(each > 0, share[:, None], np.inf).min(axis=0)
    awake = each.sum(axis=0) - each[[STATES.index(letter) for letter in SLEEPING]].sum(axis=0)
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


def column_edges(x: np.ndarray, least_s: float) -> tuple[np.ndarray, np.ndarray]:
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
    threads: Threads, ax: Axes | None = None, *, names: Mapping[int, str] | None = None, rows: int = ROWS, least_s: float = 1.0
) -> Axes:
    """Draw a row a thread and a column a moment, coloured by state, rows grouped by process; a lone moment is said in words.

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
    height = 0.9 + 2.5 * min(1.0, len(strip.codes) / 40)
    ax, new = begin(ax, height, lambda: describe_thread_strip(threads, names=names, rows=rows), len(strip.x) > 1)
    if len(strip.x) <= 1:
        return ax
    present = _cells(ax, strip, least_s)
    _group_labels(ax, strip.threads["pid"].to_numpy(), names or {})
    legend_beside(ax, patches({f"{letter} {STATE_NAME[letter]}": STATE_PAINT[letter] for letter in present}))
    drawn = len(strip.codes)
    count = f"{drawn:,} of {strip.total:,} threads, those ever awake first" if drawn < strip.total else f"all {strip.total:,}"
    if new:
        label_time(ax, _history(threads).samples)
    dress(ax, f"State of each thread ({count})")
    ax.grid(visible=False)
    return ax


def _cells(ax: Axes, strip: Strip, least_s: float) -> list[str]:
    """Draw the table of states, an empty row between processes, and return the states in it."""
    from matplotlib.colors import ListedColormap

    codes, begins = rarest(strip.codes, COLUMNS)
    edges, moments = column_edges(strip.x[begins], least_s)
    pids = strip.threads["pid"].to_numpy()
    breaks = np.flatnonzero(np.diff(pids)) + 1
    table = np.insert(np.where(moments >= 0, codes[:, moments], -1), breaks, -1, axis=0)
    shown = np.ma.masked_less(table, 0)
    ax.pcolormesh(
        edges,
        np.arange(len(table) + 1),
        shown,
        cmap=ListedColormap([STATE_PAINT[letter] for letter in STATES]),
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


def describe_thread_strip(threads: Threads, *, names: Mapping[int, str] | None = None, rows: int = ROWS) -> str:
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
            owner = f" of {names.get(thread.pid, thread.pid)}" if thread.pid >= 0 else ""
            moments = int(((strip.codes[number] >= 0) & ~np.isin(strip.codes[number], asleep)).sum())
            awake.append((letters == ["R"], -moments, f"{comm} (tid {thread.tid}{owner}): {' '.join(letters)}"))
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


def state_counts(threads: Threads) -> pd.DataFrame:
    """Count the threads in each state at each moment.

    Index: seconds on the time axis; one column of int a state letter, in the order of `STATES`.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> state_counts(FRAMES["threads"].build([{"pid": 1, "tid": 1, "state": "S", "t_s": 0.0, "capture": "a"}])).to_dict()
    {'S': {0.0: 1}}
    """
    history = _history(threads)
    if not len(history.changes):
        return pd.DataFrame()
    codes, shape = state_codes(history.changes["state"]), (len(STATES), len(history.samples) + 1)
    first, last = (history.changes[name].to_numpy(np.int64) for name in ("first_sample", "last_sample"))
    steps = np.zeros(shape, dtype=np.int64)
    np.add.at(steps, (codes, first), 1)
    np.add.at(steps, (codes, last + 1), -1)
    counts = np.cumsum(steps, axis=1)[:, :-1]
    x = history.samples["t_s"].to_numpy(float)
    seen = {letter: counts[number] for number, letter in enumerate(STATES) if counts[number].any()}
    return pd.DataFrame(seen, index=pd.Index(x, name="x"))


def plot_thread_states(threads: Threads, ax: Axes | None = None, *, least_s: float = 1.0) -> Axes:
    """Draw how many threads were in each state, stacked: rare states below, sleepers on top; a lone moment is said in words.

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
    ax, new = begin(ax, 2.2, lambda: describe_thread_states(threads), len(counts) > 1)
    if len(counts) <= 1:
        return ax
    _stack(ax, counts, least_s)
    logarithmic = _count_axis(ax, counts)
    legend_beside(ax, patches({f"{letter} {_span(counts[letter])}": STATE_PAINT[letter] for letter in counts.columns}))
    title = "Threads by state" + (" (logarithmic above 10)" if logarithmic else "")
    if new:
        label_time(ax, _history(threads).samples)
    return dress(ax, title, y_label="threads")


def _stack(ax: Axes, counts: pd.DataFrame, least_s: float) -> None:
    """Draw the counts of each state above one another."""
    x = np.nan_to_num(counts.index.to_numpy(float))
    kept = buckets(len(x), COLUMNS)
    edges, moments = column_edges(x[kept], least_s)
    below = np.zeros(len(moments))
    for letter in counts.columns:
        per_bucket = np.maximum.reduceat(counts[letter].to_numpy(), kept)
        height = np.where(moments >= 0, per_bucket[moments], 0).astype(float)
        ax.stairs(below + height, edges, baseline=below, fill=True, color=STATE_PAINT[letter], linewidth=0)
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


def describe_thread_states(threads: Threads) -> str:
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
