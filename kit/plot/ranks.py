"""Where the ranks of a launch stand: their stacks merged into one tree, and what their main threads wait in over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.plot.decimate import rarest
from kit.plot.style import FONT_PT, GREEN, GREY, INK, SERIES, STATE_PAINT, begin, dress, legend_beside, patches, plain
from kit.plot.threads import COLUMNS, column_edges
from kit.plot.timeaxis import label_time
from kit.thread_history import ThreadHistory, of_rows
from kit.words import count_of, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kit.run import Run

Stacks = Mapping[int, Sequence[str]]
FRAMES = 4
"""Most frames that are written of a stretch which the same ranks share: its first, its last, and how many lie between."""
CHARACTERS = 128
"""Characters of a frame that fit into the width of the figure."""
LEAST_SHARE = 0.02
"""Narrowest that a place is drawn, as a share of the width: one rank of 512 is less than two pixels."""
SHEER = "66"
"""How much of a page a block lets through, so that letters are read on it, light or dark."""
GROUPS = len(SERIES)
"""Most places with a colour of their own."""
RUNNING = "R running"
PAINT = tuple(colour for colour in SERIES if colour != GREEN)
"""Colours of the places after the most common one; green is who runs."""
LABELS = 16
"""Most ranks that are named beside the matrix."""
NO_STACKS = (
    "Stacks: no main thread of a rank was dumped. `py-spy dump --pid PID` of each rank, or `kit collect local --pid PID`, would."
)
NO_SAMPLES = "Waits of the ranks: no main thread of a rank was sampled. A recording with `kit collect` would show them."


@dataclass(frozen=True)
class Block:
    """Frames that the same ranks share, outermost first, where they lie in the figure, and whether stacks end in it."""

    frames: tuple[str, ...]
    ranks: tuple[int, ...]
    left: float
    width: float
    top: int
    ends: bool


def rank_list(ranks: Sequence[int], most: int = 6) -> str:
    """Ranks as text, neighbours joined.

    Examples
    --------
    >>> rank_list([0, 1, 2, 5]), rank_list([7]), rank_list(range(0, 40, 2), 3)
    ('ranks 0-2, 5', 'rank 7', 'ranks 0, 2, 4, … (20 ranks)')
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    said = ", ".join("-".join(map(str, run)) for run in runs[:most])
    return f"rank{'s' * (len(ranks) != 1)} {said}" + (f", … ({len(ranks):,} ranks)" if len(runs) > most else "")


def _of_run(run: Run | Stacks) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """Frames of the main thread of each rank, outermost first, and what it does where that is known."""
    if isinstance(run, Mapping):
        return {rank: tuple(frames) for rank, frames in run.items() if len(frames)}, {}
    from kit.analyse.verdict.scene import scene_of_run
    from kit.analyse.verdict.stacks import main_stacks

    scene = scene_of_run(run)
    stacks = main_stacks(scene.evidence, scene.processes)
    frames = {
        rank: tuple(f"{row['function'] or '?'} ({(row.get('file') or '').rsplit('/', 1)[-1]})" for row in reversed(stack.rows))
        for rank, stack in stacks.items()
    }
    return frames, {rank: stack.category or "" for rank, stack in stacks.items()}


def blocks_of(stacks: Mapping[int, tuple[str, ...]]) -> list[Block]:
    """The tree of some stacks: below each block those that go on from it, the one of most ranks first.

    Examples
    --------
    >>> [(one.frames[0], one.ranks, one.left, one.top) for one in blocks_of({0: ("f", "g"), 1: ("f", "h"), 2: ("f", "h")})]
    [('f', (0, 1, 2), 0.0, 0), ('h', (1, 2), 0.0, 1), ('g', (0,), 2.0, 1)]
    """
    alike = Counter(stacks.values())
    width = {rank: max(1.0, LEAST_SHARE * len(stacks) / alike[stack]) for rank, stack in stacks.items()}
    found: list[Block] = []
    todo = [(tuple(sorted(stacks)), 0, 0.0, 0)] if stacks else []
    while todo:
        ranks, depth, left, top = todo.pop()
        first, end = stacks[ranks[0]], depth
        while end < len(first) and all(stacks[rank][end : end + 1] == first[end : end + 1] for rank in ranks):
            end += 1
        frames = first[depth:end]
        if frames:
            ends = any(len(stacks[rank]) == end for rank in ranks)
            found.append(Block(frames, ranks, left, sum(width[rank] for rank in ranks), top, ends))
            top += min(len(frames), FRAMES)
        following: dict[str, list[int]] = {}
        for rank in ranks:
            if len(stacks[rank]) > end:
                following.setdefault(stacks[rank][end], []).append(rank)
        for group in sorted(following.values(), key=lambda group: (-len(group), group)):
            todo.append((tuple(group), end, left, top))
            left += sum(width[rank] for rank in group)
    return sorted(found, key=lambda block: (block.top, block.left))


def _lines(frames: Sequence[str]) -> list[str]:
    """What is written of the frames of a block."""
    if len(frames) <= FRAMES:
        return list(frames)
    return [frames[0], f"… {len(frames) - FRAMES + 1} more frames", *frames[-(FRAMES - 2) :]]


def _ends(blocks: list[Block], stacks: Mapping[int, tuple[str, ...]], doing: Mapping[int, str]) -> list[tuple[Block, tuple, str]]:
    """Blocks in which stacks end, the one of most ranks first, with those ranks and a sentence."""
    found = []
    for block in blocks:
        if block.ends:
            here = min((stacks[rank] for rank in block.ranks), key=len)
            ranks = tuple(rank for rank in block.ranks if stacks[rank] == here)
            what = {doing.get(rank, "") for rank in ranks}
            said = f"{rank_list(ranks)}: {short(block.frames[-1], 44)}"
            found.append((block, ranks, f"{said}, {what.pop()}" if len(what) == 1 and "" not in what else said))
    return sorted(found, key=lambda end: -len(end[1]))


def plot_stack_tree(run: Run | Stacks, ax: Axes | None = None) -> Axes:
    """Draw the stacks of all ranks as one tree: outermost frame on top, each block as wide as the ranks that are in it.

    Where ranks part, the odd one is a narrow branch, never too narrow to be seen; the legend names its ranks. Frames that the
    same ranks share are written as the first, the last two and their number.

    Parameters
    ----------
    run : Run or mapping of int to sequence of str
        A run with stack dumps; or the frames of each rank, outermost first.

    Examples
    --------
    >>> axes = plot_stack_tree({0: ["main", "load"], 1: ["main", "barrier"], 2: ["main", "barrier"]})
    >>> axes.get_title(loc="left")
    'Stacks of 3 ranks, merged: they stand in 2 places'
    """
    stacks, doing = _of_run(run)
    blocks = blocks_of(stacks)
    rows = max([4, *(block.top + min(len(block.frames), FRAMES) for block in blocks)])
    ax, _ = begin(ax, 0.6 + 0.2 * rows, lambda: describe_stack_tree(run), bool(blocks))
    if not blocks:
        return ax
    ends = _ends(blocks, stacks, doing)
    colours = {id(block): f"{SERIES[number]}{SHEER}" for number, (block, _, _) in enumerate(ends[:GROUPS])}
    total = max(block.left + block.width for block in blocks)
    goes_on = {id(block) for block, ranks, _ in ends if ranks != block.ranks}
    for block in blocks:
        lines = _lines(block.frames)
        own = [colours.get(id(block), f"{GREY}{SHEER}")] * len(lines)
        if id(block) in goes_on:  # of frames that others go on from, only the last is where somebody stands
            own[:-1] = [f"{GREY}{SHEER}"] * (len(lines) - 1)
        rows_of = np.arange(block.top, block.top + len(lines))
        ax.barh(rows_of, block.width, left=block.left, height=0.94, color=own, edgecolor="white", linewidth=0.5)
        room = int(block.width / total * CHARACTERS)
        for row, text in zip(rows_of, lines, strict=True) if room > 6 else ():
            said, at = plain(short(text, room)), (block.left, row)
            ax.annotate(said, at, (3, 0), textcoords="offset points", va="center", fontsize=FONT_PT - 1, color=INK)
    ax.set_xlim(0, total)
    ax.set_ylim(rows - 0.5, -0.5)
    handles = {said: colours[id(block)] for block, _, said in ends[:GROUPS]}
    if len(ends) > GROUPS:
        handles[f"{len(ends) - GROUPS} more places"] = f"{GREY}{SHEER}"
    legend_beside(ax, patches(handles))
    places = f"they stand in {len(ends)} places" if len(ends) > 1 else "they stand in one place"
    dress(ax, f"Stacks of {count_of(len(stacks), 'rank')}, merged: {places}")
    ax.grid(visible=False)
    ax.set_axis_off()
    return ax


def describe_stack_tree(run: Run | Stacks) -> str:
    """Say in words what `plot_stack_tree` draws.

    Examples
    --------
    >>> describe_stack_tree({0: ["main", "load"], 1: ["main", "barrier"], 2: ["main", "barrier"]})
    'Stacks of 3 ranks share main. ranks 1-2: barrier. rank 0: load.'
    """
    stacks, doing = _of_run(run)
    blocks = blocks_of(stacks)
    if not blocks:
        return NO_STACKS
    trunk = blocks[0] if blocks[0].ranks == tuple(sorted(stacks)) else None
    shared = "share nothing" if trunk is None else f"share {trunk.frames[-1]}"
    if trunk is not None and len(trunk.frames) > 1:
        shared += f" and {len(trunk.frames) - 1} frames around it"
    ends = _ends(blocks, stacks, doing)
    more = f" And {len(ends) - GROUPS} more places." if len(ends) > GROUPS else ""
    return f"Stacks of {count_of(len(stacks), 'rank')} {shared}. " + " ".join(f"{said}." for *_, said in ends[:GROUPS]) + more


@dataclass
class Waits:
    """Places of the main threads: a row a rank, a column a sample; codes are positions in `places`, -1: not seen."""

    codes: np.ndarray
    ranks: list[int]
    places: list[str]
    samples: pd.DataFrame

    def last(self) -> list[tuple[str, list[int]]]:
        """Where each rank was seen last, the place of most ranks first."""
        found: dict[str, list[int]] = {}
        for rank, row in zip(self.ranks, self.codes, strict=True):
            seen = row[row >= 0]
            if len(seen):
                found.setdefault(self.places[seen[-1]], []).append(rank)
        return sorted(found.items(), key=lambda item: -len(item[1]))


def waits_of(threads: Run | pd.DataFrame | ThreadHistory, ranks: Mapping[int, int] | None = None) -> Waits:
    """Where the main thread of each rank was at each sample: kernel function or system call, else its state."""
    if isinstance(threads, pd.DataFrame | ThreadHistory):
        history = threads if isinstance(threads, ThreadHistory) else of_rows(threads)
    else:
        from kit.analyse.verdict.scene import scene_of_run

        history = threads.thread_history()
        ranks = {pid: rank for rank, pid in scene_of_run(threads).processes.rank_pid.items()}
    ranks = ranks or {}
    rows = history.changes[history.changes["tid"].isin(list(ranks))]
    words = rows.reindex(columns=["state", "wchan", "syscall"]).astype("object")
    words = words.where(words.notna() & ~words.isin(["0", "-", ""]), None)
    where = words["wchan"].fillna(words["syscall"]).fillna("")
    place = (words["state"].fillna("?") + " " + where).str.strip().where(words["state"] != "R", RUNNING)
    spent = (rows["last_sample"] - rows["first_sample"] + 1).groupby(place).sum().sort_values(ascending=False, kind="stable")
    places = [str(one) for one in spent.index]
    order = sorted({ranks[int(tid)] for tid in rows["tid"]})
    codes = np.full((len(order), len(history.samples)), -1, dtype=np.int16)
    row_of = {rank: row for row, rank in enumerate(order)}
    number = {one: code for code, one in enumerate(places)}
    for tid, one, first, last in zip(rows["tid"], place, rows["first_sample"], rows["last_sample"], strict=True):
        codes[row_of[ranks[int(tid)]], int(first) : int(last) + 1] = number[one]
    return Waits(codes, order, places, history.samples)


def plot_rank_waits(
    threads: Run | pd.DataFrame | ThreadHistory, ax: Axes | None = None, *, ranks: Mapping[int, int] | None = None
) -> Axes:
    """Draw a row a rank and a column a moment, coloured by what its main thread waits in; a lone moment is said in words.

    Where most ranks wait is pale, so that a rank which waits elsewhere, or works while the others wait, stands out.

    Parameters
    ----------
    threads : Run, pandas.DataFrame or ThreadHistory
        A run, or its threads.
    ranks : mapping of int to int, optional
        Rank of each pid; a run knows its own.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> plot_rank_waits(FRAMES["threads"].empty()).texts[0].get_text()[:42]
    'Waits of the ranks: no main thread of a ra'
    """
    waits = waits_of(threads, ranks)
    seen = np.flatnonzero((waits.codes >= 0).any(axis=0)) if len(waits.ranks) else np.array([], dtype=int)
    ax, new = begin(
        ax, 0.9 + min(0.2 * max(len(waits.ranks), 3), 3.2), lambda: describe_rank_waits(threads, ranks=ranks), len(seen) > 1
    )
    if len(seen) <= 1:
        return ax
    from matplotlib.colors import ListedColormap

    most = min(len(waits.places), len(PAINT) + 1)
    colours = [STATE_PAINT["S"], *PAINT][:most]
    colours = [GREEN if place == RUNNING else colour for place, colour in zip(waits.places, colours, strict=False)]
    colours += [GREY] * (most < len(waits.places))
    table, begins = rarest(np.minimum(waits.codes[:, seen], len(colours) - 1), COLUMNS)
    x = waits.samples["t_s"].to_numpy(float)[seen]
    edges, moments = column_edges((x if np.isfinite(x).all() else np.arange(len(x), dtype=float))[begins], 0.0)
    shown = np.ma.masked_less(np.where(moments >= 0, table[:, moments], -1), 0)
    y, paint, top = np.arange(len(table) + 1), ListedColormap(colours), len(colours) - 0.5
    ax.pcolormesh(edges, y, shown, cmap=paint, vmin=-0.5, vmax=top, rasterized=True)
    step = -(-len(waits.ranks) // LABELS)
    ax.set_yticks(np.arange(0, len(waits.ranks), step) + 0.5, [str(rank) for rank in waits.ranks[::step]])
    ax.set_ylim(len(waits.ranks), 0)
    others = [f"{len(waits.places) - most} more"] if most < len(waits.places) else []
    legend_beside(ax, patches(dict(zip([*waits.places[:most], *others], colours, strict=True))))
    if new:
        label_time(ax, waits.samples)
    dress(ax, f"Where the main thread of each rank waits ({count_of(len(waits.ranks), 'rank')})", y_label="rank")
    ax.grid(visible=False)
    return ax


def describe_rank_waits(threads: Run | pd.DataFrame | ThreadHistory, *, ranks: Mapping[int, int] | None = None) -> str:
    """Say in words what `plot_rank_waits` draws: where each rank was seen last.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> rows = [{"pid": pid, "tid": pid, "state": "S", "wchan": "futex_do_wait", "t_s": 1.0, "capture": "a"} for pid in (7, 8)]
    >>> describe_rank_waits(FRAMES["threads"].build(rows), ranks={7: 0, 8: 1})
    'Main threads of 2 ranks at 1 moment. Last seen: S futex_do_wait (ranks 0-1).'
    """
    waits = waits_of(threads, ranks)
    if not len(waits.ranks):
        return NO_SAMPLES
    moments = int((waits.codes >= 0).any(axis=0).sum())
    last = "; ".join(f"{place} ({rank_list(own)})" for place, own in waits.last()[:GROUPS])
    return f"Main threads of {count_of(len(waits.ranks), 'rank')} at {count_of(moments, 'moment')}. Last seen: {last}."
