"""What system calls tell, drawn: takes what `kit.calls` gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.analyse.calls.arguments import classes
from kit.analyse.calls.budget import OUTSIDE
from kit.analyse.calls.text import cut, loops_alike, waits_alike
from kit.clock import show_seconds
from kit.plot.samples import named_list
from kit.plot.style import (
    BLUE,
    FONT_PT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    begin,
    dress,
    human_bytes,
    legend_beside,
    patches,
    plain,
)
from kit.words import count_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kit.analyse.calls.study import Calls

ROWS = 24
"""Most rows of a figure; titles say of how many."""
LABEL = 30
"""Characters of a row's name."""
CLASS_COLOUR = {
    "lock": VERMILION,
    "wait": SKY,
    "sleep": PALE,
    "child": PURPLE,
    "file lock": "#8C6D1F",
    "network": GREEN,
    "read and write": BLUE,
    "file": ORANGE,
    "memory": "#8FD0BC",
    "start": "#5F5F5F",
    "other": GREY,
    OUTSIDE: "#FFFFFF",
}
"""Fixed, so that a class looks the same in every figure; time outside of calls is an empty box."""
WAIT_COLOUR = {
    "thread": PURPLE,
    "child": "#8E5A7C",
    "lock": VERMILION,
    "file lock": "#8C6D1F",
    "bytes": BLUE,
    "room": SKY,
    "ready": GREEN,
    "connection": ORANGE,
    "sleep": PALE,
    "other": GREY,
}
THING_COLOUR = {"pipe": BLUE, "socket": GREEN, "eventfd": ORANGE, "epoll": PURPLE, "file": GREY, "device": PALE}
TIME = "seconds of the trace"
NO_CLOCK = "the trace has no clock. `strace -tt` or `-ttt` would give one."


def _start(ax: Axes | None, rows: int, describe: Callable[[], str], drawn: bool) -> tuple[Axes, bool]:
    return begin(ax, 0.9 + 0.24 * max(min(rows, ROWS), 2), describe, drawn)


def pick(labels: list[str], most: int = ROWS) -> list[int]:
    """Places of the rows to draw, in their order: where there are too many, some of each name before more of one.

    Examples
    --------
    >>> pick(["a (1)", "a (2)", "a (3)", "a (4)", "b (5)"], 4)
    [0, 1, 2, 4]
    """
    seen: Counter[str] = Counter()
    turns = []
    for place, label in enumerate(labels):
        name = label.rpartition(" (")[0]
        turns.append((seen[name], place))
        seen[name] += 1
    return sorted(place for _, place in sorted(turns)[:most])


def name_rows(ax: Axes, names: list[str]) -> None:
    """Names at the rows, the first at the top."""
    ax.set_yticks(range(len(names)), [plain(cut(name, LABEL)) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)


def with_others(labels: list[str]) -> str:
    """The first of some threads, and how many more."""
    return f"{cut(labels[0].rpartition(' (')[0], LABEL - 13)} and {len(labels) - 1} more" if len(labels) > 1 else labels[0]


def whole_numbers(ax: Axes) -> None:
    """Ticks at whole numbers: there is no half of a call."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def write_beside(ax: Axes, x: float, row: float, text: str) -> None:
    """Write what a row is about beside its bar."""
    ax.text(x, row, "  " + plain(cut(text, 80)), va="center", fontsize=FONT_PT - 1, color=INK, clip_on=False)


def count_rows(shown: int, total: int, what: str) -> str:
    """Rows with their noun; of how many, where not all are shown."""
    return f"{shown} of {total:,} {what}s" if shown < total else count_of(total, what)


# --- blocked --------------------------------------------------------------------------------------------------------------


def plot_blocked_calls(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw the calls that had not come back, from their begin to the end of the trace, and pale to the time they give up.

    Parameters
    ----------
    calls : kit.Calls
        What `kit.calls` gives.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_blocked_calls(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Calls that did not come back: none.'
    """
    frame, span = calls.blocked, calls.trace.span_s
    alike = waits_alike(frame)[:ROWS]
    ax, _ = _start(ax, len(alike), lambda: describe_blocked_calls(calls), len(frame) > 0 and span is not None)
    if not len(frame) or span is None:
        return ax
    edge = max(span, 1e-6)
    for row, one in enumerate(same[0] for same in alike):
        colour = WAIT_COLOUR.get(one.kind, GREY)
        ax.barh(row, max(edge - one.begin_s, edge / 300), left=min(one.begin_s, edge * (1 - 1 / 300)), color=colour, height=0.68)
        until = one.left_s if one.left_s == one.left_s else 0.0
        if until > 0:
            ax.barh(row, min(until, edge * 0.06), left=edge, color=colour, alpha=0.3, height=0.68)
        gives_up = (
            "no limit"
            if str(one.for_ever) == "True"
            else f"gives up in {show_seconds(one.left_s)}"
            if one.left_s == one.left_s
            else ""
        )
        write_beside(ax, edge * 1.07, row, f"{one.syscall}: {cut(one.waits_for, 46)}{', ' + gives_up if gives_up else ''}")
    ax.axvline(edge, color=INK, linewidth=0.8)
    ax.set_xlim(0, edge * 2.3)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= edge])
    name_rows(ax, [with_others([one.thread for one in same]) for same in alike])
    kinds = dict.fromkeys(same[0].kind for same in alike)
    legend_beside(ax, patches({kind: WAIT_COLOUR.get(kind, GREY) for kind in kinds}), title="waits for")
    return dress(
        ax,
        f"Calls that did not come back ({count_rows(sum(map(len, alike)), len(frame), 'thread')}), to the end of the trace",
        x_label=TIME,
    )


def describe_blocked_calls(calls: Calls) -> str:
    """Say in words what `plot_blocked_calls` draws."""
    frame = calls.blocked
    if not len(frame):
        return "Calls that did not come back: none."
    said = [
        f"{row.thread} in {row.syscall} for {show_seconds(row.age_s) or 'an unknown time'}, waits for {row.waits_for}"
        for row in frame.itertuples()
    ]
    return f"Calls that did not come back: {named_list(said)}."


# --- time -----------------------------------------------------------------------------------------------------------------


def plot_time_budget(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw where each thread's time went: a bar a thread, stacked by class of call.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_time_budget(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()[:42]
    'Time by thread: the trace has no clock. `s'
    """
    frame = calls.budget
    ax, _ = _start(ax, len(frame), lambda: describe_time_budget(calls), len(frame) > 0)
    if not len(frame):
        return ax
    frame = frame.sort_values("life_s", ascending=False, kind="stable")
    drawn = frame.iloc[pick(frame["thread"].tolist())]
    left = np.zeros(len(drawn))
    factor, unit = (1e3, "ms") if drawn["life_s"].max() < 1 else (1.0, "s")
    shown = [name for name in [*classes(), "other", OUTSIDE] if drawn[name].sum() > 0.002 * drawn["life_s"].sum()]
    for name in shown:
        width = drawn[name].fillna(0.0).to_numpy(float) * factor
        edge: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.6} if name == OUTSIDE else {}
        ax.barh(range(len(drawn)), width, left=left, color=CLASS_COLOUR[name], height=0.68, **edge)
        left += width
    ax.set_xlim(0, float(drawn["life_s"].max()) * factor * 1.02 or 1.0)
    name_rows(ax, drawn["thread"].tolist())
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=CLASS_COLOUR[name], edgecolor=GREY, linewidth=0.5, label=name) for name in shown]
    legend_beside(ax, handles, title="class of call")
    dress(ax, f"Time by thread and class of call ({count_rows(len(drawn), len(frame), 'thread')})", x_label=f"time ({unit})")
    ax.grid(axis="y", visible=False)
    return ax


def describe_time_budget(calls: Calls) -> str:
    """Say in words what `plot_time_budget` draws."""
    frame = calls.budget
    if not len(frame):
        return f"Time by thread: {NO_CLOCK}"
    said = []
    for row in frame.to_dict("records"):
        most = max([*classes(), "other", OUTSIDE], key=lambda name: row[name] if row[name] == row[name] else 0.0)
        said.append(f"{row['thread']} {show_seconds(row['life_s'])}, most in {most} ({show_seconds(row[most])})")
    return f"Time by thread: {named_list(said)}."


def plot_call_rates(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw how often each thread calls over time: threads by time, darker where there are more calls a second.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_call_rates(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()[:40]
    'Calls over time: the trace has no clock.'
    """
    rates = calls.rates
    ax, _ = _start(ax, len(rates.pids) if rates else 0, lambda: describe_call_rates(calls), rates is not None)
    if rates is None:
        return ax
    from matplotlib.colors import LogNorm

    labels = [calls.trace.label(pid) for pid in rates.pids]
    chosen = pick(labels)
    drawn = rates.calls[chosen] / (rates.edges[1] - rates.edges[0])
    least, most = (float(drawn[drawn > 0].min()), float(drawn.max())) if drawn.any() else (1.0, 2.0)
    mesh = ax.pcolormesh(
        rates.edges,
        np.arange(len(drawn) + 1) - 0.5,
        np.ma.masked_equal(drawn, 0),
        cmap="viridis_r",
        norm=LogNorm(min(least, most / 10), most),
    )
    names = [labels[place] for place in chosen]
    name_rows(ax, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.01, fraction=0.03)
    bar.ax.tick_params(labelsize=FONT_PT - 1, which="both")
    bar.set_label("calls/s", fontsize=FONT_PT - 1)
    dress(
        ax, f"Calls over time ({count_rows(len(names), len(rates.pids), 'thread')}, most calls first; blank: none)", x_label=TIME
    )
    ax.grid(visible=False)
    return ax


def describe_call_rates(calls: Calls) -> str:
    """Say in words what `plot_call_rates` draws."""
    rates = calls.rates
    if rates is None:
        return f"Calls over time: {NO_CLOCK}"
    said = []
    for pid, row in zip(rates.pids, rates.calls, strict=True):
        quiet = int((row == 0).sum())
        said.append(f"{calls.trace.label(pid)} {int(row.sum()):,} calls, none in {quiet} of {len(row)} stretches")
    return f"Calls over time: {named_list(said)}."


def plot_loops(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw what threads do over and over: a mark a round.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_loops(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Over and over: no thread repeats its calls.'
    """
    found = [loop for loop in calls.loops if loop.at_s]
    alike = loops_alike(found)[:ROWS]
    ax, _ = _start(ax, len(alike), lambda: describe_loops(calls), bool(found))
    if not found:
        return ax
    colours = {"spins": VERMILION, "ticks": BLUE, "goes round": PURPLE, "polls": SKY, "moves data": GREEN}
    span = calls.trace.span_s or 1.0
    drawn = [same[0] for same in alike]
    ax.eventplot([loop.at_s for loop in drawn], colors=[colours[loop.kind] for loop in drawn], linelengths=0.68, linewidths=1.0)
    for row, loop in enumerate(drawn):
        every = f"every {show_seconds(loop.period_s)}: " if loop.period_s is not None else ""
        write_beside(ax, span * 1.02, row, cut(every + loop.calls, 68))
    ax.set_xlim(0, span * 2.1)
    ax.axvline(span, color=INK, linewidth=0.8)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= span])
    name_rows(ax, [with_others([loop.thread for loop in same]) for same in alike])
    legend_beside(ax, patches({kind: colours[kind] for kind in dict.fromkeys(loop.kind for loop in drawn)}))
    return dress(ax, f"Over and over ({count_rows(sum(map(len, alike)), len(found), 'thread')}): a mark a round", x_label=TIME)


def describe_loops(calls: Calls) -> str:
    """Say in words what `plot_loops` draws."""
    return (
        f"Over and over: {named_list([loop.claim for loop in calls.loops])}."
        if calls.loops
        else "Over and over: no thread repeats its calls."
    )


# --- bytes, files, errors -------------------------------------------------------------------------------------------------


def plot_unread_bytes(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw what was written into pipes, sockets and eventfds, and what of it was read.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_unread_bytes(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Written and never read: nothing that the trace shows.'
    """
    frame = calls.unread
    ax, _ = _start(ax, len(frame), lambda: describe_unread_bytes(calls), len(frame) > 0)
    if not len(frame):
        return ax
    drawn = frame.head(ROWS)
    rows = np.arange(len(drawn))
    ax.barh(rows - 0.18, drawn["written_bytes"], height=0.34, color=VERMILION)
    ax.barh(rows + 0.18, drawn["read_bytes"], height=0.34, color=BLUE)
    for row, one in enumerate(drawn.itertuples()):
        left = f"a count of {one.left_bytes:,} is left" if one.kind == "eventfd" else f"{count_of(one.left_bytes, 'byte')} left"
        write_beside(ax, one.written_bytes, row, f"{left}; written by {one.writers}")
    ax.set_xlim(0, float(drawn["written_bytes"].max()) * 2)
    whole_numbers(ax)
    name_rows(ax, drawn["thing"].tolist())
    legend_beside(ax, patches({"written": VERMILION, "read": BLUE}))
    return dress(ax, "Written and never read", x_label="bytes")


def describe_unread_bytes(calls: Calls) -> str:
    """Say in words what `plot_unread_bytes` draws."""
    said = [f"{row.thing}: {row.written_bytes:,} bytes written, {row.read_bytes:,} read" for row in calls.unread.itertuples()]
    return f"Written and never read: {named_list(said)}." if said else "Written and never read: nothing that the trace shows."


def plot_file_bytes(calls: Calls, ax: Axes | None = None, *, rows: int = 14) -> Axes:
    """Draw files by bytes read, written and mapped, with the time in their calls.

    Parameters
    ----------
    rows : int
        Most files to draw.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_file_bytes(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Files: none was read, written or mapped.'
    """
    frame = calls.files
    frame = frame[frame["read_bytes"] + frame["written_bytes"] + frame["mapped_bytes"] > 0]
    ax, _ = _start(ax, min(len(frame), rows), lambda: describe_file_bytes(calls), len(frame) > 0)
    if not len(frame):
        return ax
    drawn, left = frame.head(rows), np.zeros(min(len(frame), rows))
    kinds = {"read_bytes": BLUE, "written_bytes": VERMILION, "mapped_bytes": PALE}
    for name, colour in kinds.items():
        ax.barh(range(len(drawn)), drawn[name] / 2**20, left=left, color=colour, height=0.68)
        left = left + drawn[name].to_numpy() / 2**20
    for row, (one, end) in enumerate(zip(drawn.itertuples(), left, strict=True)):
        said = ", ".join(f"{human_bytes(getattr(one, name))} {name.partition('_')[0]}" for name in kinds if getattr(one, name))
        write_beside(
            ax, end, row, f"{said} in {count_of(one.calls, 'call')}, {show_seconds(one.took_s) or 'durations not recorded'}"
        )
    ax.set_xlim(0, float(left.max()) * 1.9)
    names = [path if len(path) <= LABEL else "…" + path[1 - LABEL :] for path in drawn["path"]]
    name_rows(ax, names)
    legend_beside(ax, patches({"read": BLUE, "written": VERMILION, "mapped": PALE}))
    return dress(ax, f"Files by bytes ({count_rows(len(drawn), len(frame), 'file')})", x_label="MiB")


def describe_file_bytes(calls: Calls) -> str:
    """Say in words what `plot_file_bytes` draws."""
    frame = calls.files
    frame = frame[frame["read_bytes"] + frame["written_bytes"] + frame["mapped_bytes"] > 0]
    said = [
        f"{row.path} {human_bytes(row.read_bytes)} read, {human_bytes(row.written_bytes)} written" for row in frame.itertuples()
    ]
    return f"Files: {named_list(said)}." if said else "Files: none was read, written or mapped."


def plot_call_errors(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw calls that failed, by thread, call and error; storms are red.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_call_errors(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Errors: no call failed.'
    """
    frame = calls.errors
    ax, _ = _start(ax, len(frame), lambda: describe_call_errors(calls), len(frame) > 0)
    if not len(frame):
        return ax
    drawn = frame.head(ROWS)
    ax.barh(range(len(drawn)), drawn["calls"], color=[VERMILION if storm else GREY for storm in drawn["storm"]], height=0.68)
    for row, one in enumerate(drawn.itertuples()):
        rate = f", {one.per_s:,.0f} a second" if one.storm and one.per_s == one.per_s else ""
        sought = f", {one.paths} paths{f' for {one.file}' if one.file else ''}" if one.paths > 1 else ""
        write_beside(ax, one.calls, row, f"{one.syscall} {one.errno} × {one.calls:,}{sought}{rate}")
    ax.set_xlim(0, float(drawn["calls"].max()) * 1.9)
    name_rows(ax, drawn["thread"].tolist())
    whole_numbers(ax)
    legend_beside(ax, patches({"storm": VERMILION, "else": GREY}))
    return dress(ax, "Calls that failed", x_label="calls")


def describe_call_errors(calls: Calls) -> str:
    """Say in words what `plot_call_errors` draws."""
    said = [f"{row.thread} {row.syscall} {row.errno} {row.calls:,} times" for row in calls.errors.itertuples()]
    return f"Errors: {named_list(said)}." if said else "Errors: no call failed."
