"""Descriptor tables, replayed: what each descriptor of each process was at any moment, who holds it, what epoll sets watch."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from kit.analyse.calls.arguments import DESCRIPTOR, KNOWLEDGE, OPENS, READS, WRITES, descriptors, other_end, split, string, thing
from kit.analyse.calls.trace import BIRTHS, Trace, number_of
from kit.schema import table_of

PAIRS = ("pipe", "pipe2", "socketpair")
MAKES: dict[str, str] = KNOWLEDGE["makes"]
CHANGES = (*PAIRS, *MAKES, *OPENS, *BIRTHS, *"dup dup2 dup3 fcntl close close_range execve epoll_ctl epoll_pwait".split())


def kind_of(name: str) -> str:
    """What kind of thing a thing is, by its name.

    Examples
    --------
    >>> kind_of("pipe:[7]"), kind_of("/srv/a"), kind_of("TCP:[1.2.3.4:5->6.7.8.9:0]")
    ('pipe', 'file', 'socket')
    """
    return next((kind for begin, kind in KNOWLEDGE["things"].items() if name.startswith(begin)), "file")


@dataclass
class Held:
    """A descriptor of a process, from one moment to another."""

    process: int
    fd: int
    thing: str
    end: str = ""  # `r` or `w` for the ends of a pipe, where that is known
    cloexec: bool = False
    # `begin`, `until`: numbers of the rows of the trace at which it came and went; `until` is -1 where it stayed
    begin: int = 0
    until: int = -1
    how: str = ""  # call that made it; `inherited` by a child, `seen` where it was there before the trace
    line: int | None = None

    def at(self, row: int) -> bool:
        """Whether it is held when a row takes effect."""
        return self.begin <= row and (self.until < 0 or row < self.until)


@dataclass
class Descriptors:
    """What was held, by whom; made by `replay`."""

    trace: Trace
    held: list[Held] = field(default_factory=list)
    peers: dict[str, str] = field(default_factory=dict)
    watched: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """Descriptors that an epoll set watches, by the set."""
    now: dict[int, dict[int, Held]] = field(default_factory=lambda: defaultdict(dict))

    @cached_property
    def by_number(self) -> dict[tuple[int, int], list[Held]]:
        """What a number of a process was, in order."""
        found: dict[tuple[int, int], list[Held]] = defaultdict(list)
        for one in self.held:
            found[one.process, one.fd].append(one)
        return found

    def find(self, process: int, fd: int, row: int) -> Held | None:
        """What a descriptor is when a row takes effect."""
        own = self.by_number.get((process, fd), [])
        at = bisect_right(own, row, key=lambda one: one.begin) - 1
        return own[at] if at >= 0 and (own[at].until < 0 or row <= own[at].until) else None

    @cached_property
    def things(self) -> pd.Series:
        """Thing that each row's first argument is; missing where it is no descriptor, or one that is not known."""
        rows = self.trace.rows
        own = rows[rows["fd"].notna()]
        processes = {pid: thread.process for pid, thread in self.trace.threads.items()}
        found, known = [], {}
        for row, pid, fd, args in zip(own.index, own["pid"], own["fd"], own["args"], strict=True):
            text = (args or "").partition(",")[0] if not (args or "").startswith("{") else ""
            if "<" in text:
                text = (DESCRIPTOR.match(args) or [""])[0]
                if text not in known:
                    known[text] = thing(text.partition("<")[2].removesuffix("(deleted)").removesuffix(">"))
                if known[text] is not None:
                    found.append(known[text])
                    continue
            held = self.find(processes[pid], int(fd), row)
            found.append(held.thing if held else None)
        return pd.Series(found, index=own.index, dtype=object)

    def holders(self, name: str, end: str = "", row: int | None = None) -> list[Held]:
        """Who holds a thing; of a pipe those who hold an end, as far as that is known."""
        row = len(self.trace.rows) if row is None else row
        ends = ("", end) if end else ("", "r", "w")
        return [one for one in self.held if one.thing == name and one.end in ends and one.at(row)]

    def table(self, at_s: float | None = None) -> pd.DataFrame:
        """Descriptors at a moment of the trace, or at its end.

        Columns: `process`, `fd`, `thing`, `kind`, `end`, `how`, `since_s`, `line`.
        """
        rows = self.trace.rows
        row = len(rows) if at_s is None else int((rows["end_s"].fillna(float("inf")) <= at_s).sum())
        begins = rows["begin_s"]
        kept = [one for one in self.held if one.at(row)]
        made = [
            {
                "process": one.process,
                "fd": one.fd,
                "thing": one.thing,
                "kind": kind_of(one.thing),
                "end": one.end,
                "how": one.how,
                "since_s": float(begins.iloc[one.begin]) if one.how != "seen" and one.begin < len(rows) else None,
                "line": one.line,
            }
            for one in sorted(kept, key=lambda one: (one.process, one.fd))
        ]
        types = {"process": "int64", "fd": "int64", "since_s": "float64", "line": "Int64"}
        names = ["process", "fd", "thing", "kind", "end", "how", "since_s", "line"]
        return table_of(made, names, types)

    # --- replay ---------------------------------------------------------------------------------------------------------

    def hold(self, at: int, row: Any, process: int, fd: int, name: str, **more: Any) -> None:
        """Note that a process has a descriptor from now on."""
        self.drop(at, process, fd)
        self.now[process][fd] = Held(process, fd, name, begin=at, **({"how": row.syscall, "line": row.line} | more))
        self.held.append(self.now[process][fd])

    def drop(self, at: int, process: int, fd: int) -> None:
        """Note that it has it no more."""
        if one := self.now[process].pop(fd, None):
            one.until = at


def replay(trace: Trace) -> Descriptors:
    """Follow the descriptors of all processes through a trace.

    With -y or -yy strace prints what a descriptor is; without, pipes, sockets and the like have a name made of the line that made
    them. What was there before the trace began is known from its first use, and only where strace printed what it is.
    """
    rows, found = trace.rows, Descriptors(trace)
    first = rows["args"].str.extract(r"^((?:[a-z]+=)?\d+<[^,]*)", expand=False)
    seen = rows.assign(first=first)[first.notna()].drop_duplicates(["pid", "first"]).index
    polled = rows[rows["syscall"].isin(["poll", "ppoll"]) & rows["args"].str.contains("<", regex=False, na=False)]
    polled = polled.drop_duplicates(["pid", "args"]).index
    wanted = rows.loc[sorted({*seen, *polled, *rows.index[rows["syscall"].isin(CHANGES)]})]
    ends = {one.process: one for one in trace.threads.values() if one.pid == one.process and one.end}
    for row in wanted.itertuples():
        process = trace.threads[row.pid].process
        _seen(found, row.Index, row, process)
        if row.errno is None or row.errno != row.errno:
            _change(found, row.Index, row, process)
    for process, one in ends.items():
        last = rows.index[rows["pid"] == one.pid].max() + 1
        for fd in list(found.now[process]):
            found.drop(last, process, fd)
    return found


def _seen(found: Descriptors, at: int, row: Any, process: int) -> None:
    """Take what strace prints of descriptors that are used."""
    used = descriptors(row.args or "") if row.syscall in ("poll", "ppoll") else []
    if (one := DESCRIPTOR.match(row.args or "")) and one["is"]:
        used.append((int(one["fd"]), one["is"]))
    for fd, decoration in used:
        if not decoration:
            continue
        name, held = thing(decoration), found.now[process].get(fd)
        if (peer := other_end(decoration)) and name:
            found.peers[name], found.peers[peer] = peer, name
        end = "w" if row.syscall in WRITES else "r" if row.syscall in (*READS, "poll", "ppoll") else ""
        if held is None or name is not None and held.thing != name:
            kind = next(
                (word for word in ("eventfd", "eventpoll", "timerfd", "signalfd", "inotify") if word in decoration), "descriptor"
            )
            kind = {"eventpoll": "epoll", "timerfd": "timer", "signalfd": "signals"}.get(kind, kind)
            name = name or f"{kind} {fd} of {process}"
            found.hold(at, row, process, fd, name, how="seen" if held is None else held.how)
        if name is not None and kind_of(name) == "pipe" and end:
            found.now[process][fd].end = found.now[process][fd].end or end


def _change(found: Descriptors, at: int, row: Any, process: int) -> None:
    """Take what a call changes in its process's table."""
    call, args = row.syscall, row.args or ""
    result = DESCRIPTOR.match(row.result or "")
    if call in BIRTHS:
        if "CLONE_THREAD" not in args and (child := number_of(row.result)):
            for fd, one in list(found.now[process].items()):
                found.now[child][fd] = replace(one, process=child, begin=at, until=-1, how="inherited")
                found.held.append(found.now[child][fd])
    elif call == "execve":
        for fd in [fd for fd, one in found.now[process].items() if one.cloexec] if row.ret == "0" else ():
            found.drop(at, process, fd)
    elif call in PAIRS:
        _pair(found, at, row, process)
    elif call == "close":
        if closed := DESCRIPTOR.match(args):
            found.drop(at, process, int(closed["fd"]))
    elif call == "close_range":
        low, high = ((split(args) + ["", ""])[:2]) if args else ("", "")
        for fd in list(found.now[process]) if low.isdecimal() else ():
            if int(low) <= fd and (not high.isdecimal() or fd <= int(high)) and "CLOEXEC" not in args:
                found.drop(at, process, fd)
    elif call == "epoll_ctl":
        _watch(found, row, process, args)
    elif result:
        _made(found, at, row, process, result)


def _made(found: Descriptors, at: int, row: Any, process: int, result: Any) -> None:
    """A call whose result is a descriptor."""
    call, args, fd = row.syscall, row.args or "", int(result["fd"])
    cloexec = "CLOEXEC" in args
    name = thing(result["is"]) if result["is"] else None
    if result["is"] and name and (peer := other_end(result["is"])):
        found.peers[name], found.peers[peer] = peer, name
    if call in ("dup", "dup2", "dup3") or call == "fcntl" and "F_DUPFD" in args:
        old = DESCRIPTOR.match(args)
        one = found.now[process].get(int(old["fd"])) if old else None
        if one is not None and fd != one.fd:
            found.hold(at, row, process, fd, one.thing, end=one.end, cloexec=cloexec)
    elif call in OPENS:
        words = split(args)
        path = next((text for word in words[:2] if (text := string(word)) is not None), None)
        found.hold(at, row, process, fd, name or path or "a file", cloexec=cloexec)
    elif call in MAKES:
        found.hold(at, row, process, fd, name or f"{MAKES[call]} of line {row.line}", cloexec=cloexec)


def _pair(found: Descriptors, at: int, row: Any, process: int) -> None:
    """Both ends of a pipe, or a pair of sockets."""
    made = descriptors(row.args[row.args.find("[") :] if "[" in row.args else "")
    if len(made) < 2:
        return
    cloexec = "CLOEXEC" in row.args
    names = []
    for (fd, decoration), end, letter in zip(made[:2], ("r", "w"), ("a", "b"), strict=True):
        pipe = row.syscall != "socketpair"
        name = (thing(decoration) if decoration else None) or (
            f"pipe of line {row.line}" if pipe else f"socket {letter} of line {row.line}"
        )
        found.hold(at, row, process, fd, name, end=end if pipe else "", cloexec=cloexec)
        names.append(name)
    if row.syscall == "socketpair":
        found.peers[names[0]], found.peers[names[1]] = names[1], names[0]


def _watch(found: Descriptors, row: Any, process: int, args: str) -> None:
    """What an epoll set watches from now on."""
    words = split(args)
    numbers = [DESCRIPTOR.match(word) for word in (words[0], words[2])] if len(words) > 2 else []
    if len(numbers) < 2 or not all(numbers):
        return
    epoll, fd = (int(one["fd"]) for one in numbers if one)
    held, one = found.now[process].get(epoll), found.now[process].get(fd)
    if held is None:
        return
    if "EPOLL_CTL_DEL" in words[1]:
        found.watched[held.thing].pop(fd, None)
    else:
        decoration = numbers[1]["is"] if numbers[1] else None
        found.watched[held.thing][fd] = one.thing if one else (thing(decoration) if decoration else None) or f"descriptor {fd}"
