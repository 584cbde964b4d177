"""Who waits for whom, processes, descriptors, and where two traces part: what `kit.calls` gives, drawn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kit.analyse.calls.blocked import plain as name_of_thing
from kit.analyse.calls.text import cut
from kit.clock import show_seconds
from kit.plot.calls import LABEL, NO_CLOCK, ROWS, THING_COLOUR, TIME, count_rows, name_rows, pick, write_beside
from kit.plot.samples import named_list
from kit.plot.style import BLUE, FONT_PT, GREY, INK, PALE, PURPLE, SKY, VERMILION, begin, dress, legend_beside, patches, plain
from kit.words import count_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

    from kit.analyse.calls.descriptors import Held
    from kit.analyse.calls.study import Calls

SURE = {"exact": "solid", "held": "solid", "only": "solid", "before": (0, (4, 3))}
"""Lines of edges: those that only the past suggests are dashed."""


def _layers(calls: Calls) -> dict[int, int]:
    """Steps of each thread from those that wait for none, or for each other."""
    targets: dict[int, set[int]] = defaultdict(set)
    for edge in calls.graph.edges:
        if edge.target is not None and edge.target != edge.waiter:
            targets[edge.waiter].add(edge.target)
    nodes = {*targets, *(pid for own in targets.values() for pid in own)}
    circle = {pid for one in calls.graph.suspects if one.kind == "circle" for pid in one.pids}
    layer = {pid: 0 for pid in nodes if pid in circle or not targets[pid]}
    while left := nodes - layer.keys():
        ready = {pid for pid in left if targets[pid] & layer.keys()} or left
        layer |= {pid: 1 + max((layer[one] for one in targets[pid] if one in layer), default=0) for pid in ready}
    return layer


def plot_wait_graph(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw who waits for whom: arrows lead to the right, to those behind it; members of a circle are red, ended threads black.

    Parameters
    ----------
    calls : kit.Calls
        What `kit.calls` gives.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_wait_graph(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Who waits for whom: no thread is seen to wait for another.'
    """
    layer = _layers(calls)
    columns: dict[int, list[int]] = defaultdict(list)
    for pid, step in layer.items():
        columns[step].append(pid)
    shown = {pid for own in columns.values() for pid in sorted(own)[:ROWS]}
    tallest = min(max(map(len, columns.values()), default=1), ROWS)
    ax, _ = begin(ax, 0.8 + 0.62 * max(tallest, 2), lambda: describe_wait_graph(calls), bool(layer))
    if not layer:
        return ax
    circle = {pid for one in calls.graph.suspects if one.kind == "circle" for pid in one.pids}
    place: dict[int, tuple[float, float]] = {}
    for step, own in columns.items():
        own = sorted(own)[:ROWS]
        for number, pid in enumerate(own):
            place[pid] = (-step, (number - (len(own) - 1) / 2) * tallest / len(own))
    boxes: dict[int, Text] = {}
    for pid, (x, y) in place.items():
        thread = calls.trace.threads.get(pid)
        ended = thread is not None and bool(thread.end)
        colour = VERMILION if pid in circle else INK if ended else BLUE
        name = cut(thread.label if thread else str(pid), 26) + (f"\n{thread.end}" if thread is not None and ended else "")
        box: dict[str, Any] = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour, "linewidth": 1.4}
        boxes[pid] = ax.text(x, y, plain(name), ha="center", va="center", fontsize=FONT_PT, color=INK, bbox=box, zorder=4)
    _arrows(ax, calls, place, circle, boxes)
    ax.set_xlim(-max(columns) - 0.45, 0.75)
    ax.set_ylim(tallest / 2 + 0.1, -tallest / 2 - 0.1)
    more = f" ({len(shown)} of {len(layer)} threads)" if len(shown) < len(layer) else ""
    dress(
        ax, f"Who waits for whom{more}: an arrow leads to the thread that is waited for; dashed where only the past suggests it"
    )
    ax.set_axis_off()
    ax.title.set_visible(True)
    return ax


def _arrows(ax: Axes, calls: Calls, place: dict[int, tuple[float, float]], circle: set[int], boxes: dict[int, Text]) -> None:
    """Edges with what is waited for; the two of a pair are bent apart."""
    drawn = set()
    pairs = {(edge.waiter, edge.target) for edge in calls.graph.edges}
    for edge in calls.graph.edges:
        key = (edge.waiter, edge.target)
        if edge.target not in place or edge.waiter not in place or key in drawn or edge.waiter == edge.target:
            continue
        drawn.add(key)
        (x, y), (to_x, to_y) = place[edge.waiter], place[edge.target]
        inside = edge.waiter in circle and edge.target in circle
        same = x == to_x
        bend = 0.55 if same else 0.25 if (edge.target, edge.waiter) in pairs else 0.0
        arrow: dict[str, Any] = {
            "arrowstyle": "-|>",
            "color": VERMILION if inside else INK,
            "linestyle": SURE[edge.sure],
            "linewidth": 1.3,
            "shrinkA": 1,
            "shrinkB": 2,
            "patchA": boxes[edge.waiter].get_bbox_patch(),
            "patchB": boxes[edge.target].get_bbox_patch(),
            "connectionstyle": f"arc3,rad={bend}",
        }
        ax.annotate("", (to_x, to_y), (x, y), arrowprops=arrow, zorder=3)
        side = 0.026 * (1.2 + max(-at for at, _ in place.values())) * (1 if to_y < y else -1) if same else 0.0
        words = {"thread": "joins", "child": "child", "lock": "lock", "file lock": "file lock"}.get(edge.kind, edge.kind)
        thing = name_of_thing(edge.thing.rsplit("/", 1)[-1]).partition(" of ")[0]
        what = thing if edge.kind not in ("thread", "child") else ""
        words = "" if what.startswith(edge.kind) else words
        at_x, at_y = (x + to_x) / 2 + side, (y + to_y) / 2 - (0 if same else 0.16)
        aligned = "left" if side > 0 else "right" if side < 0 else "center"
        label: dict[str, Any] = {"ha": aligned, "va": "center", "fontsize": FONT_PT - 1, "color": INK, "zorder": 5}
        ax.text(
            at_x,
            at_y,
            plain(cut(f"{words} {what}".strip(), 30)),
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            **label,
        )


def describe_wait_graph(calls: Calls) -> str:
    """Say in words what `plot_wait_graph` draws."""
    said = [f"{calls.trace.label(edge.waiter)} waits for {edge.why}" for edge in calls.graph.edges]
    return f"Who waits for whom: {named_list(said)}." if said else "Who waits for whom: no thread is seen to wait for another."


def plot_process_tree(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw threads and processes over time, children below their parents; marks are programs that began, crosses ends.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_process_tree(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()[:44]
    'Processes: the trace has no clock. `strace -'
    """
    tree, span = calls.tree, calls.trace.span_s
    ax, _ = begin(ax, 0.9 + 0.24 * max(min(len(tree), ROWS), 2), lambda: describe_process_tree(calls), span is not None)
    if span is None:
        return ax
    drawn = tree.iloc[pick([f"{row.process} {row.name} (" for row in tree.itertuples()])]
    for row, one in enumerate(drawn.itertuples()):
        begins = one.begin_s if one.begin_s == one.begin_s else 0.0
        ends = one.end_s if one.end_s == one.end_s else span
        ax.barh(row, max(ends - begins, span / 400), left=begins, color=BLUE if one.pid == one.process else SKY, height=0.5)
        for at, _ in calls.trace.threads[one.pid].programs:
            if at is not None:
                ax.plot(at, row, marker="|", color=INK, markersize=9, markeredgewidth=1.6)
        if one.end:
            colour = VERMILION if one.end.startswith("killed") else INK
            ax.plot(ends, row, marker="x", color=colour, markersize=6, markeredgewidth=1.6)
        write_beside(
            ax,
            span * 1.01,
            row,
            ", ".join(filter(None, (one.programs.replace("\n", "; "), one.end, count_of(one.calls, "call")))),
        )
    ax.set_xlim(0, span * 1.75 or 1)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= span])
    name_rows(ax, [f"{'   ' * row.depth}{row.name or '?'} ({row.pid})" for row in drawn.itertuples()])
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
    ax.tick_params(axis="y", pad=150)
    legend_beside(ax, patches({"process": BLUE, "thread": SKY}))
    return dress(
        ax, f"Processes and threads ({count_rows(len(drawn), len(tree), 'thread')}); | runs a program, × ends", x_label=TIME
    )


def describe_process_tree(calls: Calls) -> str:
    """Say in words what `plot_process_tree` draws."""
    if calls.trace.span_s is None:
        return f"Processes: {NO_CLOCK}"
    said = [
        f"{row.name or '?'} ({row.pid}), {'process' if row.pid == row.process else 'thread'}{', ' + row.end if row.end else ''}"
        for row in calls.tree.itertuples()
    ]
    return f"Processes: {named_list(said)}."


def _told(calls: Calls) -> list[Held]:
    """Descriptors worth a row: of what is waited on first, then pipes, sockets and the like, then those held longest."""
    from kit.analyse.calls.descriptors import kind_of

    waited = {name for things in calls.blocked["things"] for name in things}
    order = sorted(
        calls.descriptors.held, key=lambda one: (one.thing not in waited, kind_of(one.thing) == "file", one.until >= 0)
    )
    return sorted(order[:ROWS], key=lambda one: (one.process, one.fd, one.begin))


def plot_descriptors(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw which descriptors each process held when, by what they are; those that somebody waits on are framed.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_descriptors(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()[:46]
    'Descriptors: the trace has no clock. `strace -'
    """
    from kit.analyse.calls.descriptors import kind_of

    span, rows = calls.trace.span_s, calls.trace.rows
    told = _told(calls) if span is not None else []
    keys = list(dict.fromkeys((one.process, one.fd) for one in told))
    ax, _ = begin(ax, 0.9 + 0.24 * max(len(keys), 2), lambda: describe_descriptors(calls), bool(told))
    if not told or span is None:
        return ax
    waited = {name for things in calls.blocked["things"] for name in things}
    ends = rows["end_s"].fillna(span)
    for one in told:
        begins = 0.0 if one.how == "seen" else float(rows["begin_s"].iloc[one.begin])
        until = span if one.until < 0 or one.until >= len(rows) else float(ends.iloc[one.until])
        frame: dict[str, Any] = {"edgecolor": VERMILION, "linewidth": 1.6} if one.thing in waited else {}
        row = keys.index((one.process, one.fd))
        ax.barh(
            row,
            max(until - begins, span / 400),
            left=begins,
            color=THING_COLOUR.get(kind_of(one.thing), GREY),
            height=0.6,
            **frame,
        )
    last = {(one.process, one.fd): one for one in told}
    for row, key in enumerate(keys):
        end = {"r": ", to read", "w": ", to write"}.get(last[key].end, "")
        write_beside(ax, span * 1.01, row, f"{last[key].thing}{end} ({last[key].how})")
    ax.set_xlim(0, span * 1.75 or 1)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= span])
    name_rows(ax, [f"{cut(calls.trace.label(process), LABEL - 6)} fd {fd}" for process, fd in keys])
    kinds = dict.fromkeys(kind_of(one.thing) for one in told)
    legend_beside(ax, patches({kind: THING_COLOUR.get(kind, GREY) for kind in kinds}))
    count = count_rows(len(told), len(calls.descriptors.held), "descriptor")
    return dress(ax, f"Descriptors over time ({count}); framed: somebody waits on it", x_label=TIME)


def describe_descriptors(calls: Calls) -> str:
    """Say in words what `plot_descriptors` draws."""
    if calls.trace.span_s is None:
        return f"Descriptors: {NO_CLOCK}"
    said = [f"{calls.trace.label(one.process)} fd {one.fd} is {one.thing}" for one in _told(calls)]
    return f"Descriptors: {named_list(said)}." if said else "Descriptors: the trace shows none."


def plot_partings(calls: Calls, ax: Axes | None = None) -> Axes:
    """Draw how far the calls of each role go together with those of the other trace, and what each did after that.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> plot_partings(kit.calls(FRAMES["syscalls"].empty())).texts[0].get_text()
    'Where two traces part: give the other one, kit.calls(bad, against=good).'
    """
    found = calls.partings
    ax, _ = begin(ax, 0.9 + 0.44 * max(min(len(found), ROWS), 2), lambda: describe_partings(calls), bool(found))
    if not found:
        return ax
    drawn = found[:ROWS]
    most = max(one.common + max(one.rest_here, one.rest_there) for one in drawn) or 1
    for row, one in enumerate(drawn):
        for offset, rest, colour, then in ((-0.2, one.rest_here, VERMILION, one.here), (0.2, one.rest_there, PURPLE, one.there)):
            ax.barh(row + offset, one.common, height=0.36, color=PALE)
            ax.barh(row + offset, rest, left=one.common, height=0.36, color=colour)
            words = then or ("no other call" if one.here or one.there else "the same to the end")
            write_beside(ax, one.common + rest, row + offset, cut(words, 74))
    ax.set_xlim(0, most * 2.4)
    name_rows(ax, [one.role for one in drawn])
    legend_beside(ax, patches({"the same calls": PALE, "this one, then": VERMILION, "the other, then": PURPLE}))
    title = f"Where the calls of each role part ({count_rows(len(drawn), len(found), 'role')})"
    first = calls.divergence
    if first is not None:
        title += f": first {first.role}" + (f" at {show_seconds(first.at_s)}" if first.at_s is not None else "")
    return dress(ax, title, x_label="calls, repeated ones once")


def describe_partings(calls: Calls) -> str:
    """Say in words what `plot_partings` draws."""
    said = [one.claim for one in calls.partings if one.here or one.there]
    if not calls.partings:
        return "Where two traces part: give the other one, kit.calls(bad, against=good)."
    return f"Where two traces part: {named_list(said)}." if said else "Where two traces part: nowhere."
