"""What `kit.calls` found, as a document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd

from kit.analyse.calls.arguments import classes
from kit.analyse.calls.blocked import STACKS, plain
from kit.analyse.calls.budget import OUTSIDE
from kit.analyse.calls.trace import NO_PID
from kit.analyse.text_blocks import named
from kit.clock import show_seconds
from kit.document import Block, Command, Document, Item, Section, Table
from kit.words import count_of

if TYPE_CHECKING:
    from kit.analyse.calls.loops import Loop
    from kit.analyse.calls.study import Calls

SHOWN = 12
"""Rows of a table in the document; the frames have all."""
CLASSES = 5
"""Classes of calls in the table of time; the frame has all."""
SURE = ("stopped", "circle", "dead")
"""Kinds of suspects that hold a launch up whatever else is so."""
CALL_SHOWN = 90
"""Characters of a call."""


def document(calls: Calls, brief: bool = False) -> Document:
    """All sections; `brief` has the suspects alone."""
    trace = calls.trace
    lasted = f" in {show_seconds(trace.span_s)}" if trace.span_s else ", without times"
    lasted = lasted if trace.span_s != 0 else ", within one step of its clock"
    ends = "taken to end there" if calls.cut else ""
    subtitle = ", ".join(
        filter(
            None,
            (
                f"{calls.name}: {count_of(len(trace.rows), 'system call')} of {count_of(len(trace.threads), 'thread')}{lasted}",
                ends,
            ),
        )
    )
    sections = [Section("who is behind it", _suspects(calls))]
    if calls.against is not None:
        sections.append(Section(f"against {calls.against.name}", _against(calls)))
    if not brief:
        turning = [loop for loop in calls.loops if loop.goes_on or loop.kind == "spins"]
        sections += [
            Section("calls that did not come back", _blocked(calls)),
            Section("over and over", _turning(turning)),
            Section("written and never read", _unread(calls)),
            Section("time by thread", _budget(calls)),
            Section("files", _files(calls)),
            Section("errors", _errors(calls)),
            Section("processes and threads", _tree(calls), folded=True),
            Section("descriptors at the end", _descriptors(calls), folded=True),
            Section("what this trace does not tell", _untold(calls)),
        ]
    stands = any(one.kind in SURE for one in calls.graph.suspects)
    return Document(answer(calls), sections, subtitle, tone="stalled" if stands else "unknown")


def answer(calls: Calls) -> str:
    """The first line."""
    first = next(iter(calls.graph.suspects), None)
    names = ", ".join(calls.trace.label(pid) for pid in first.pids[:4]) if first else ""
    if first and first.kind == "circle":
        return f"{count_of(len(first.pids), 'thread')} wait for each other: {names}"
    if first and first.kind == "stopped":
        return first.claim.partition(": it does")[0]
    if first and first.kind == "dead":
        thread = calls.trace.threads[first.pids[0]]
        ended = f"{'was ' * thread.end.startswith('killed')}{thread.end}"
        return (
            f"{thread.label} {ended}, and {count_of(first.waiters, 'thread')} {'waits' if first.waiters == 1 else 'wait'} for it"
        )
    if calls.divergence is not None:
        one = calls.divergence
        return (
            f"{one.role} parts from {calls.against.name if calls.against else 'the other'} after {cut(one.last or 'its begin')}"
        )
    mains = {thread.process for thread in calls.trace.threads.values()}
    turning = [
        loop for loop in calls.loops if loop.goes_on and (loop.kind == "spins" or loop.pid in mains and loop.kind != "moves data")
    ]
    if turning:
        return f"{turning[0].thread} {turning[0].what.partition(';')[0]}"
    if first and first.waiters:
        return cut(first.claim, 160)
    span = calls.trace.span_s
    unread = calls.unread
    if span is not None:  # what was written last may be on its way
        unread = unread[unread["last_write_s"] < span / 2]
    if len(unread):
        return f"{_left(unread.iloc[0])} {plain(unread.iloc[0]['thing'])} never read"
    if first:
        return cut(first.claim, 160)
    return "no thread is seen to wait for another"


def _left(row) -> str:
    if row["kind"] == "eventfd":
        return f"a count of {row['left_bytes']:,} in"
    return f"{count_of(int(row['left_bytes']), 'byte')} in"


def cut(text: str, most: int = CALL_SHOWN) -> str:
    """Text that ends at a length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _suspects(calls: Calls) -> list[Block]:
    blocks: list[Block] = []
    for one in calls.graph.suspects[:6]:
        where = f"{one.capture}:{one.line}" if one.line is not None else ""
        blocks.append(Item(one.claim, "!" if one.kind in SURE else "•", where))
        if one.next:
            blocks.append(Command(one.next))
    return blocks


def _against(calls: Calls) -> list[Block]:
    blocks: list[Block] = []
    if calls.divergence is not None:
        where = f"{calls.divergence.capture}:{calls.divergence.line}" if calls.divergence.line else ""
        blocks.append(Item(calls.divergence.claim, "!", where))
    else:
        blocks.append(Item("no thread lacks what the other trace's went on to do"))
    blocks += [
        Item(one.claim, where=f"{one.capture}:{one.line or ''}")
        for one in calls.partings[:5]
        if one is not calls.divergence and (one.here or one.there)
    ]
    frame = calls.side_by_side
    if frame is not None:
        rows = [
            (
                row.role,
                row.kind,
                f"{row.calls_here:,}",
                f"{row.calls_there:,}",
                show_seconds(row.s_here),
                show_seconds(row.s_there),
            )
            for row in frame.head(SHOWN).itertuples()
        ]
        heads = ("role", "kind", "calls here", "there", "time here", "time there")
        blocks.append(Table(heads, rows, len(frame), "time and calls by role", numeric=set(heads[2:])))
    return blocks


def loops_alike(turning: list[Loop]) -> list[list[Loop]]:
    """Loops of threads that do the same at the same pace, together."""
    alike: dict[tuple, list[Loop]] = {}
    for loop in turning:
        period = f"{loop.period_s:.1g}" if loop.period_s is not None else ""
        alike.setdefault((loop.kind, re.sub(r"\d+", "", loop.calls), period), []).append(loop)
    return list(alike.values())


def waits_alike(frame: pd.DataFrame) -> list[list]:
    """Rows of `Calls.blocked`, main threads and named waits first; threads of a process that wait alike, together."""
    weak = frame["kind"].isin(["lock", "sleep"]) | frame["pid"].ne(frame["process"])
    alike: dict[tuple, list] = {}
    for row in frame.loc[weak.sort_values(kind="stable").index].itertuples():
        name = "" if row.at_least else row.thread.rpartition(" (")[0]
        key = (row.process, row.syscall, row.kind, str(row.for_ever), row.at_least, name)
        alike.setdefault(key if row.kind in ("lock", "ready") else (row.pid,), []).append(row)
    return list(alike.values())


def _turning(turning: list[Loop]) -> list[Block]:
    """Loops, those of threads that do the same as one."""
    blocks: list[Block] = []
    for same in loops_alike(turning):
        first = same[0]
        more = (
            f"; {count_of(len(same) - 1, 'other thread')} alike: {named([one.thread for one in same[1:]], 3)}"
            if len(same) > 1
            else ""
        )
        blocks.append(Item(f"{first.claim}{more}", where=f"{first.capture}:{first.line}"))
    return blocks[:SHOWN]


def _blocked(calls: Calls) -> list[Block]:
    """Calls that did not come back."""
    alike = waits_alike(calls.blocked)
    rows = [
        (
            named([one.thread for one in same], 1),
            row.syscall,
            (">" if row.at_least else "") + show_seconds(row.age_s)
            if row.age_s
            else "not known"
            if row.at_least
            else "just begun",
            cut(row.waits_for),
            "no limit" if str(row.for_ever) == "True" else show_seconds(row.left_s) or show_seconds(row.timeout_s) or "not told",
        )
        for same in alike[: 2 * SHOWN]
        if (row := same[0])
    ]
    table = Table(("thread", "call", "for", "waits for", "gives up in"), rows, len(alike), numeric={"for"})
    return [table] if rows else []


def _unread(calls: Calls) -> list[Block]:
    blocks: list[Block] = []
    for _, row in calls.unread.head(SHOWN).iterrows():
        readers = f"read before by {row['readers']}" if row["readers"] else "never read"
        since = "" if row["made_in_trace"] else "; more may lie in it from before the trace"
        holders = sorted({one.process for one in calls.descriptors.holders(row["thing"], "r" if row["kind"] == "pipe" else "")})
        held = f", held by {', '.join(map(calls.trace.label, holders[:3]))}" if holders else ""
        blocks.append(Item(f"{_left(row)} {plain(row['thing'])}: written by {row['writers']}, {readers}{held}{since}"))
    return blocks


def _budget(calls: Calls) -> list[Block]:
    frame = calls.budget
    if not len(frame):
        return []
    told = sorted(classes(), key=lambda name: -frame[name].sum())[:CLASSES]
    names = [name for name in [*classes(), "other", OUTSIDE] if frame[name].sum() > 0.001 * frame["life_s"].sum()]
    rest = [name for name in names if name not in (*told, "other", OUTSIDE)]
    frame = frame.assign(other=frame["other"] + frame[rest].sum(axis=1))
    names = [name for name in names if name not in rest]
    shown = frame.sort_values("life_s", ascending=False, kind="stable").head(SHOWN)
    rows = [
        (row["thread"], *(show_seconds(row[name]) if row[name] > 0 else "" for name in ("life_s", *names)))
        for _, row in shown.iterrows()
    ]
    heads = ("thread", "life", *names)
    return [Table(heads, rows, len(frame), numeric=set(heads[1:]))]


def _files(calls: Calls) -> list[Block]:
    frame = calls.files
    frame = frame[(frame["read_bytes"] + frame["written_bytes"] + frame["mapped_bytes"] > 0) | (frame["took_s"] > 0.01)]
    rows = [
        (
            row.path,
            f"{row.read_bytes:,}",
            f"{row.written_bytes:,}",
            f"{row.mapped_bytes:,}",
            f"{row.calls:,}",
            show_seconds(row.took_s) or "not recorded",
        )
        for row in frame.head(SHOWN).itertuples()
    ]
    heads = ("file", "read", "written", "mapped", "calls", "time")
    return [Table(heads, rows, len(frame), "bytes", numeric=set(heads[1:]))] if rows else []


def _errors(calls: Calls) -> list[Block]:
    blocks: list[Block] = []
    alike: dict[tuple, list] = {}
    for row in calls.errors[calls.errors["storm"]].itertuples():
        alike.setdefault((row.syscall, row.errno, row.file), []).append(row)
    for same in list(alike.values())[:SHOWN]:
        row, failed = same[0], sum(one.calls for one in same)
        rate = f", {row.per_s:,.0f} a second" if row.per_s == row.per_s and len(same) == 1 else ""
        sought = f", {row.paths:,} paths{f' for {row.file}' if row.file else ''}" if row.paths > 1 else ""
        who = named([one.thread for one in same], 3)
        blocks.append(Item(f"{who}: {row.syscall} failed {failed:,} times with {row.errno}{sought}{rate}", small=row.example))
    rest = calls.errors[~calls.errors["storm"]]
    if len(rest) and blocks:
        blocks.append(Item(f"{count_of(int(rest['calls'].sum()), 'other call')} failed, see .errors", "·"))
    return blocks


def _tree(calls: Calls) -> list[Block]:
    rows = [
        (
            f"{'  ' * row.depth}{row.name or '?'} ({row.pid})",
            "process" if row.pid == row.process else "thread",
            show_seconds(row.begin_s) or "before",
            row.end or "",
            cut(row.programs.replace("\n", "; ")),
        )
        for row in calls.tree.head(4 * SHOWN).itertuples()
    ]
    return [Table(("name", "is a", "began", "ended", "programs"), rows, len(calls.tree))]


def _descriptors(calls: Calls) -> list[Block]:
    frame = calls.descriptors.table()
    blocked = {(row.process, name) for row in calls.blocked.itertuples() for name in row.things}
    rows = [
        (calls.trace.label(row.process), str(row.fd), row.thing, {"r": "to read", "w": "to write"}.get(row.end, ""), row.how)
        for row in frame.head(4 * SHOWN).itertuples()
    ]
    odd = {number for number, row in enumerate(frame.head(4 * SHOWN).itertuples()) if (row.process, row.thing) in blocked}
    return [Table(("process", "fd", "is", "end", "from"), rows, len(frame), numeric={"fd"}, odd=odd)] if rows else []


def _untold(calls: Calls) -> list[Block]:
    """What strace cannot know, or was not asked for, with what would tell it."""
    trace, rows = calls.trace, calls.trace.rows
    pid = next((one.process for one in trace.threads.values() if one.process != NO_PID), "PID")
    done = rows[~rows["unreturned"]]
    blocks: list[Block] = []

    def say(when: bool, text: str, command: str) -> None:
        if when:
            blocks.extend((Item(text, "?"), Command(command)))

    say(trace.span_s is None, "when calls were made: the trace has no clock", "strace -tt …")
    say(
        trace.span_s is not None and done["took_s"].isna().mean() > 0.2,
        "how long most calls took: the trace has no durations",
        "strace -T …",
    )
    with_fd = rows[rows["fd"].notna()]
    say(
        len(with_fd) > 0 and not with_fd["args"].str.contains("<", regex=False).any(),
        "what descriptors are that were there before the trace, and who is at the other end of sockets",
        f"strace -yy …; for what runs now: ls -l /proc/{pid}/fd; ss -tnp; ss -xp",
    )
    say(
        bool((calls.blocked["kind"] == "lock").any()),
        "who holds a lock: taking one that is free makes no call",
        STACKS.format(pid=pid),
    )
    say(
        trace.span_s is not None,
        "whether time outside of calls was on a CPU, or waiting for one",
        f"grep . /proc/{pid}/task/*/schedstat  # twice; or: perf sched record -p {pid}",
    )
    say(
        bool(calls.files["mapped_bytes"].gt(1 << 20).any()) if len(calls.files) else False,
        "whether mapped files arrive: page faults make no calls",
        f"cat /proc/{pid}/io /proc/{pid}/smaps_rollup  # twice",
    )
    alike: dict[str, list] = {}
    for row in calls.blocked[calls.blocked["remark"].ne("")].itertuples():
        alike.setdefault(row.syscall, []).append(row)
    for same in alike.values():
        blocks.append(Item(f"{named([one.thread for one in same], 1)} in {same[0].syscall}: {same[0].remark}", "?"))
    return blocks
