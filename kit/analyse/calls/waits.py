"""Who waits for whom: threads, children, locks, pipes, sockets; who is behind a standstill."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kit.analyse.calls.arguments import split
from kit.analyse.calls.blocked import STACKS, SYSCALL_FILE, Waits, plain
from kit.analyse.calls.descriptors import kind_of
from kit.schema import table_of
from kit.words import count_of

LONG_S = 5.0
"""A wait that gives up sooner goes round in a loop; it is no member of a standstill."""
MUTEX = "FUTEX_WAIT"
"""Locks of glibc, of Rust and of musl wait with this and the value 2, their word for "held, and somebody waits"."""


@dataclass(frozen=True)
class Edge:
    """A thread waits for another."""

    # `waiter`, `target`: threads; the target is None where it is not in the trace, or ended
    waiter: int
    target: int | None
    kind: str
    thing: str
    # exact (the call names it), only (nobody else can), held (it took the lock after a wait and woke nobody since), before (it
    # was the one who woke or wrote before)
    sure: str
    why: str  # a sentence's end: what it waits for, and why of this thread


@dataclass(frozen=True)
class Suspect:
    """Threads behind a standstill: who they are, what is known, how many wait for them, and what would tell more."""

    pids: tuple[int, ...]
    kind: str
    claim: str
    waiters: int
    line: int | None = None
    capture: str = ""
    next: str = ""


@dataclass(frozen=True)
class WaitGraph:
    """Who waits for whom at the end of a trace: `edges` and `suspects`, the likeliest first."""

    edges: tuple[Edge, ...]
    suspects: tuple[Suspect, ...]

    def frame(self) -> pd.DataFrame:
        """Edges as a frame: `waiter`, `target` (null where it is not in the trace), `kind`, `thing`, `sure`, `why`."""
        names = ["waiter", "target", "kind", "thing", "sure", "why"]
        rows = [tuple(getattr(edge, name) for name in names) for edge in self.edges]
        return table_of(rows, names, {"waiter": "Int64", "target": "Int64"})


def wait_graph(waits: Waits, standing: pd.DataFrame, moved: pd.DataFrame, rounds: dict[int, str] | None = None) -> WaitGraph:
    """Find who waits for whom, and who is behind it.

    `standing`: what `blocked` gives. `moved`: what `transfers` gives: who wrote into what before is who is waited for. `rounds`:
    what threads do over and over, in words.
    """
    builder = _Builder(waits, standing, moved, rounds or {})
    edges = tuple(edge for row in standing.itertuples() for edge in builder.edges(row))
    return WaitGraph(edges, tuple(_suspects(builder, edges)))


class _Builder:
    """Edges of one trace."""

    def __init__(self, waits: Waits, standing: pd.DataFrame, moved: pd.DataFrame, rounds: dict[int, str]):
        self.waits, self.trace, self.found = waits, waits.trace, waits.found
        self.standing, self.moved, self.rounds = standing, moved, rounds
        self.wakers, self.owners = self._futexes()

    def _futexes(self) -> tuple[dict[str, Counter[int]], dict[str, int]]:
        """Who woke somebody at each address, how often; and who took a lock there after a wait and woke nobody since."""
        wakers: dict[str, Counter[int]] = defaultdict(Counter)
        owners: dict[str, int] = {}
        rows = self.trace.rows
        asked = {name for things in self.standing["things"] for name in things if name.startswith("0x")}
        for row in rows[rows["syscall"].eq("futex") & ~rows["unreturned"]].itertuples() if asked else ():
            address, _, rest = row.args.partition(", ")
            name = f"{address} of {self.trace.threads[row.pid].process}" if "_PRIVATE" in rest[:40] else address
            if name not in asked:
                continue
            if rest.startswith("FUTEX_WAKE"):
                if owners.get(name) == row.pid:
                    del owners[name]
                if row.ret.isdecimal() and int(row.ret) > 0:
                    wakers[name][row.pid] += 1
            elif (
                rest.startswith(MUTEX)
                and row.ret == "0"
                and split(rest)[0] in (MUTEX, f"{MUTEX}_PRIVATE")
                and split(rest)[1] == "2"
            ):
                owners[name] = row.pid
        return wakers, owners

    def edges(self, row: Any) -> list[Edge]:
        """Whom one thread waits for."""
        if row.kind in ("thread", "child"):
            return [
                Edge(
                    row.pid,
                    pid if pid in self.trace.threads else None,
                    row.kind,
                    row.things[0] if row.things else "",
                    "exact",
                    row.waits_for,
                )
                for pid in row.targets
            ]
        if row.kind == "lock":
            return self._lock(row, row.things[0])
        if row.kind == "file lock" and row.things:
            return self._file_lock(row, row.things[0])
        if row.kind in ("bytes", "room", "ready"):
            return [edge for name in row.things for edge in self._bytes(row, name)]
        return []

    def _lock(self, row: Any, name: str) -> list[Edge]:
        address, owner = name.partition(" ")[0], self.owners.get(name)
        if owner is not None and owner != row.pid:
            why = f"the lock at {address}, which {self.trace.label(owner)} took after a wait and has not given back since"
            return [Edge(row.pid, owner, "lock", name, "held", why)]
        woke = [(pid, n) for pid, n in self.wakers[name].most_common() if pid != row.pid]
        return [
            Edge(
                row.pid,
                pid,
                "lock",
                name,
                "before",
                f"a wake-up at {address}; {self.trace.label(pid)} woke there {n} times before",
            )
            for pid, n in woke[:3]
        ]

    def _file_lock(self, row: Any, name: str) -> list[Edge]:
        rows = self.trace.rows
        things = self.found.things
        held: dict[int, int] = {}
        for one in rows.loc[things.index[things == name]].itertuples():
            asked = one.syscall == "flock" or one.syscall == "fcntl" and "SETLK" in one.args
            if asked and one.ret == "0":
                process = self.trace.threads[one.pid].process
                held.pop(process, None)
                if "UN" not in one.args:
                    held[process] = one.pid
        return [
            Edge(row.pid, pid, "file lock", name, "held", f"the lock on {name}, which {self.trace.label(pid)} holds")
            for process, pid in held.items()
            if process != row.process
        ]

    def _bytes(self, row: Any, name: str) -> list[Edge]:
        """Whose bytes, or whose reading, a thread waits for."""
        kind, room = kind_of(name), row.kind == "room"
        if kind not in ("pipe", "socket", "eventfd"):
            return []
        other = name if kind != "socket" else self.found.peers.get(name)
        if other is None:
            return [Edge(row.pid, None, kind, name, "exact", f"{plain(name)}, whose other end is not in the trace")]
        column = "read_bytes" if room else "written_bytes"
        before = self.moved[(self.moved["thing"] == other) & (self.moved[column] > 0)]
        does, did = ("read", "it") if room else ("write", "into it")
        alive = [pid for pid in before["pid"].tolist() if not self.trace.threads[pid].end and pid != row.pid]
        what = f"{'room in' if room else 'bytes of'} {plain(name)}"
        if alive:
            sure = "only" if len(alive) == 1 and not self._others(row, other, room, alive[0]) else "before"
            past = "read" if room else "wrote"
            return [
                Edge(row.pid, pid, kind, name, sure, f"{what}; {self.trace.label(pid)} {past} {did} before") for pid in alive[:4]
            ]
        able = [pid for pid in self._others(row, other, room, None) if pid != row.pid]
        gone = [self.trace.threads[pid] for pid in before["pid"].tolist() if self._is_gone(pid)]
        if gone:
            last = gone[-1]
            ended = f"{'was ' * last.end.startswith('killed')}{last.end}"
            why = f"{what}; {last.label}, which {'read' if room else 'wrote'} {did}, {ended}"
            return [Edge(row.pid, last.pid, kind, name, "before" if able else "only", why)]
        if len(able) != 1:  # any of several may: a guess would hide what is known
            return []
        return [Edge(row.pid, able[0], kind, name, "only", f"{what}; {self.trace.label(able[0])} can {does} {did}")]

    def _is_gone(self, pid: int) -> bool:
        """Whether a thread was killed, or its whole process ended: one of a living process may have done its part."""
        thread = self.trace.threads[pid]
        leader = self.trace.threads.get(thread.process, thread)
        return bool(thread.end) and (bool(leader.end) or thread.end.startswith("killed"))

    def _others(self, row: Any, name: str, room: bool, without: int | None) -> list[int]:
        """Threads of the processes that hold the other end."""
        holders = {one.process for one in self.found.holders(name, "r" if room else "w")}
        return sorted(pid for process in holders for pid in self.trace.members(process) if pid not in (row.pid, without))


# --- suspects -------------------------------------------------------------------------------------------------------------


def _suspects(builder: _Builder, edges: tuple[Edge, ...]) -> list[Suspect]:
    """Stopped processes and circles first, then what nobody can end, then those that most wait for, and silent locks."""
    rows = {row.pid: row for row in builder.standing.itertuples()}
    lasting = tuple(edge for edge in edges if _lasts(rows[edge.waiter]))
    waiters = _waiters(lasting)
    found = [*_stopped(builder, waiters), *_circles(builder, lasting), *_dead(builder, lasting, waiters)]
    seen = {pid for one in found for pid in one.pids}
    silent = builder.standing[(builder.standing["kind"] == "lock") & builder.standing["for_ever"].fillna(True)]
    silent = silent[~silent["pid"].isin({edge.waiter for edge in edges}) & ~silent["pid"].isin(seen)]
    rest = [_unwoken(builder, silent, waiters)] if len(silent) else []
    seen |= {pid for one in rest for pid in one.pids}
    rest += [one for one in _roots(builder, lasting, waiters) if not set(one.pids) <= seen]
    return found + sorted(rest, key=lambda one: -one.waiters)


def _waiters(edges: tuple[Edge, ...]) -> dict[int, set[int]]:
    """Threads that wait for each, themselves or by others."""
    direct: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        if edge.target is not None:
            direct[edge.target].add(edge.waiter)
    found = {}
    for pid in direct:
        todo, reached = [pid], set()
        while todo:
            for waiter in direct.get(todo.pop(), ()):
                if waiter not in reached:
                    reached.add(waiter)
                    todo.append(waiter)
        found[pid] = reached - {pid}
    return found


def _lasts(row: Any) -> bool:
    """Whether a wait is long enough to be a part of a standstill."""
    return not (row.timeout_s == row.timeout_s and row.timeout_s is not None and row.timeout_s < LONG_S)


def _circles(builder: _Builder, edges: tuple[Edge, ...]) -> list[Suspect]:
    """Threads of which each waits for others that wait too, and for nobody else: none of them can go on."""
    rows = {row.pid: row for row in builder.standing.itertuples() if _lasts(row)}
    targets: dict[int, set[int | None]] = defaultdict(set)
    for edge in edges:
        targets[edge.waiter].add(edge.target if edge.sure != "before" else None)
    for pid, row in rows.items():
        if row.kind == "ready" and len({edge.thing for edge in edges if edge.waiter == pid}) < len(set(row.things)):
            targets[pid].add(None)  # something else that it watches may wake it
    stuck = {pid for pid in rows if targets[pid]}
    while free := {pid for pid in stuck if any(target not in stuck for target in targets[pid])}:
        stuck -= free
    found, left = [], set(stuck)
    while left:
        circle = _circle(min(left), targets)
        left -= {pid for pid in left if _reaches(pid, set(circle), targets)} | set(circle)
        why = {edge.waiter: edge.why for edge in edges if edge.target in circle}
        told = "; ".join(f"{builder.trace.label(pid)} waits for {why[pid]}" for pid in circle)
        limits = [row.left_s for pid in circle if (row := rows[pid]).left_s == row.left_s]
        until = f"; one of them gives up in {min(limits):,.0f} s" if limits else ""
        row = rows[circle[0]]
        claim = f"{count_of(len(circle), 'thread')} wait for each other: {told}{until}"
        found.append(
            Suspect(
                tuple(circle), "circle", claim, len(stuck) - len(circle), row.line, row.capture, STACKS.format(pid=row.process)
            )
        )
    return found


def _circle(begin: int, targets: dict) -> list[int]:
    path = [begin]
    while (following := min(targets[path[-1]])) not in path:
        path.append(following)
    return path[path.index(following) :]


def _reaches(pid: int, goal: set[int], targets: dict) -> bool:
    seen: set[int] = set()
    todo = [pid]
    while todo:
        one = todo.pop()
        if one in goal:
            return True
        if one not in seen:
            seen.add(one)
            todo += [target for target in targets.get(one, ()) if target is not None]
    return False


def _stopped(builder: _Builder, waiters: dict[int, set[int]]) -> Iterator[Suspect]:
    """Processes that a signal stopped, and that made no call since."""
    by_process: dict[int, list[int]] = defaultdict(list)
    for thread in builder.trace.threads.values():
        if thread.stopped and not thread.end:
            by_process[thread.process].append(thread.pid)
    for process, pids in by_process.items():
        signal = builder.trace.threads[pids[0]].stopped
        claim = (
            f"{builder.trace.label(process)} is stopped by {signal} ({count_of(len(pids), 'thread')}): it does nothing until "
            "SIGCONT comes, and who needs it waits"
        )
        others = set().union(*(waiters.get(pid, set()) for pid in pids)) - set(pids)
        look = f"grep -E 'State|TracerPid' /proc/{process}/status  # T: stopped; kill -CONT {process} lets it go on"
        yield Suspect(tuple(pids), "stopped", claim, len(others), next=look)


def _dead(builder: _Builder, edges: tuple[Edge, ...], waiters: dict[int, set[int]]) -> list[Suspect]:
    """Ended threads that somebody still waits for."""
    found = []
    for edge in edges:
        thread = builder.trace.threads.get(edge.target) if edge.target is not None else None
        if thread is None or not thread.end or edge.kind in ("thread", "child"):
            continue
        row = next(row for row in builder.standing.itertuples() if row.pid == edge.waiter)
        claim = f"{builder.trace.label(edge.waiter)} waits for {edge.why}"
        holders = sorted({one.process for one in builder.found.holders(edge.thing, "w")}) if edge.kind == "pipe" else []
        if holders:
            own = " and ".join(builder.trace.label(pid) for pid in holders)
            claim += f"; its end never comes, for {own} {'holds' if len(holders) == 1 else 'hold'} the end for writing open"
        more = len(waiters.get(edge.waiter, ()))
        found.append(
            Suspect(
                (thread.pid,),
                "dead",
                claim,
                1 + more,
                row.line,
                row.capture,
                f"ls -l /proc/{holders[0] if holders else row.process}/fd",
            )
        )
    return found


def _roots(builder: _Builder, edges: tuple[Edge, ...], waiters: dict[int, set[int]]) -> list[Suspect]:
    """Threads that others wait for and that themselves wait for none: most waiters first."""
    waiting = {edge.waiter for edge in edges if edge.target is not None and edge.target != edge.waiter}
    rows = {row.pid: row for row in builder.standing.itertuples()}
    found = []
    for pid, others in sorted(waiters.items(), key=lambda pair: -len(pair[1])):
        thread = builder.trace.threads.get(pid)
        if pid in waiting or thread is None or thread.end or not others:
            continue
        row = rows.get(pid)
        who = f"{count_of(len(others), 'thread')} {'waits' if len(others) == 1 else 'wait'} for {thread.label}"
        if row is None:
            claim = f"{who}, which is in no call: it computes, or runs in a call that the trace leaves out"
            found.append(Suspect((pid,), "busy", claim, len(others), next=STACKS.format(pid=thread.process)))
        else:
            goes = builder.rounds.get(pid)
            claim = f"{who}, which goes round: {goes}" if goes else f"{who}, which waits in {row.syscall} for {row.waits_for}"
            found.append(
                Suspect((pid,), "root", claim, len(others), row.line, row.capture, SYSCALL_FILE.format(pid=row.process, tid=pid))
            )
    return found


def _unwoken(builder: _Builder, silent: pd.DataFrame, waiters: dict[int, set[int]]) -> Suspect:
    """Threads that wait for wake-ups that nobody gave in the whole trace: strace does not see who holds a lock."""
    addresses = {name for things in silent["things"] for name in things}
    names = ", ".join(map(builder.trace.label, silent["pid"].tolist()[:4])) + (" …" if len(silent) > 4 else "")
    verb, where = (("waits" if len(silent) == 1 else "wait"), count_of(len(addresses), "address", "addresses"))
    claim = (
        f"{count_of(len(silent), 'thread')} ({names}) {verb} without a time limit at {where} where nobody woke anybody in this "
        "trace; strace does not show who holds a lock"
    )
    others = set().union(*(waiters.get(pid, set()) for pid in silent["pid"]))
    if others:
        claim += f"; {count_of(len(others), 'other')} {'waits' if len(others) == 1 else 'wait'} for them"
    row = next(silent.itertuples())
    next_ = STACKS.format(pid=row.process)
    return Suspect(tuple(silent["pid"].tolist()), "unwoken", claim, len(others), row.line, row.capture, next_)
