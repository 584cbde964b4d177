"""What each thread stands in at the end of a trace: since when, until when, and for what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from kit.analyse.calls.arguments import READS, WAITS, WRITES, descriptors, seconds, split, string
from kit.analyse.calls.descriptors import Descriptors, kind_of
from kit.clock import NS
from kit.schema import table_of

_RESUMES = re.compile(r"<\.\.\. resuming interrupted (?P<call>\S+) \.\.\.>")
_CHILD = {"wait4": 0, "waitpid": 0, "waitid": 1}
_CONNECTING = ("connect", "accept", "accept4")
_MILLISECONDS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
_TIMESPECS = {
    "ppoll": 2,
    "select": 4,
    "pselect6": 4,
    "epoll_pwait2": 3,
    "nanosleep": 0,
    "clock_nanosleep": 2,
    "rt_sigtimedwait": 2,
    "io_getevents": 4,
    "semtimedop": 3,
}
"""Place of the time limit among the arguments."""
COLUMNS = (
    *("pid", "thread", "process", "syscall", "begin_s", "age_s", "at_least", "timeout_s", "left_s", "for_ever", "kind"),
    *("waits_for", "things", "targets", "remark", "stack", "line", "capture"),
)
SYSCALL_FILE = "cat /proc/{pid}/task/{tid}/syscall /proc/{pid}/task/{tid}/wchan"
STACKS = "py-spy dump --native --pid {pid}"


@dataclass(frozen=True)
class Wait:
    """What a call waits for."""

    kind: str  # thread, child, lock, bytes, room, ready, connection, file lock, sleep, other
    things: tuple[str, ...] = ()  # what it waits on: futex address, pipe, socket, file
    targets: tuple[int, ...] = ()  # threads or processes that it waits for by name: a join, a child
    timeout_s: float | None = None  # how long the call waits at most, as asked
    # second of the trace at which it gives up; known where `timeout_s` or a moment on a known clock was given
    until_s: float | None = None
    for_ever: bool | None = None  # it has no time limit; None where strace does not tell
    remark: str = ""  # what strace does not tell, with what would


class Waits:
    """Reads calls as waits, on the clocks and descriptors of one trace."""

    def __init__(self, found: Descriptors):
        self.found, self.trace = found, found.trace

    @cached_property
    def monotonic_ahead_s(self) -> float | None:
        """Second 0 of the trace on the monotonic clock: waits until a moment on it that timed out tell it, the promptest best."""
        rows = self.trace.rows
        slept = rows["args"].str.startswith("CLOCK_MONOTONIC, TIMER_ABSTIME") & rows["ret"].eq("0")
        timed = rows["args"].str.contains("FUTEX_WAIT_BITSET", regex=False) & rows["errno"].eq("ETIMEDOUT")
        timed &= ~rows["args"].str.contains("CLOCK_REALTIME", regex=False)
        ahead = [
            moment - row.end_s
            for row in rows[(slept | timed) & rows["took_s"].notna() & rows["begin_s"].notna()].itertuples()
            if (moment := seconds(row.args)) is not None
        ]
        return max(ahead, default=None)

    @cached_property
    def receive_limits(self) -> dict[tuple[str, str], float]:
        """SO_RCVTIMEO and SO_SNDTIMEO that were set, in seconds, by socket and direction."""
        rows, things = self.trace.rows, self.found.things
        limits: dict[tuple[str, str], float] = {}
        for row in rows[rows["syscall"].eq("setsockopt") & rows["args"].str.contains(r"SO_(?:RCV|SND)TIMEO")].itertuples():
            words = split(row.args)
            value = string(words[3]) if len(words) > 3 else None
            limit = seconds(words[3]) if len(words) > 3 else None
            if value is not None:
                raw = value.encode("latin-1", "replace").ljust(16, b"\0")
                limit = int.from_bytes(raw[:8], "little") + int.from_bytes(raw[8:16], "little") / 1e6
            if limit and row.Index in things.index:
                limits[things[row.Index], "r" if "RCV" in words[2] else "w"] = limit
        return limits

    def read(self, row: Any) -> Wait:
        """What a call waits for, by its arguments."""
        words, call = split(row.args), row.syscall
        if resumed := _RESUMES.search(row.args):
            return Wait(
                "other",
                remark=f"strace was attached inside of {resumed['call']} and prints no arguments; the name may be wrong, too",
            )
        if call.startswith("futex"):
            return self._futex(row, words)
        if call in _CHILD:
            place = _CHILD[call]
            number = words[place] if len(words) > place else "-1"
            own = [
                one.pid for one in self.trace.threads.values() if one.parent == row.pid and one.pid == one.process and not one.end
            ]
            return Wait("child", targets=(int(number),) if number.isdecimal() and number != "0" else tuple(own), for_ever=True)
        if call in ("nanosleep", "clock_nanosleep"):
            return self._timed(row, words, "sleep")
        if call in WAITS or call in ("rt_sigtimedwait", "io_getevents", "semtimedop"):
            return self._timed(row, words, "ready", self.watched(row, words))
        thing = self.found.things.get(row.Index)
        name = (thing,) if isinstance(thing, str) else ()
        if call == "flock" or call == "fcntl" and "SETLKW" in row.args:
            return Wait("file lock", name, for_ever=True)
        if call in READS or call in WRITES or call in _CONNECTING:
            kind = "connection" if call in _CONNECTING else "bytes" if call in READS else "room"
            limit = self.receive_limits.get((name[0], "w" if call in WRITES else "r")) if name else None
            remark = "" if name else "strace does not say what the descriptor is; with -yy it would, and ls -l /proc/PID/fd does"
            return Wait(kind, name, timeout_s=limit, until_s=self._until(row, limit), for_ever=limit is None, remark=remark)
        return Wait("other", name)

    def _until(self, row: Any, limit: float | None) -> float | None:
        return row.begin_s + limit if limit is not None and row.begin_s == row.begin_s else None

    def watched(self, row: Any, words: list[str]) -> tuple[str, ...]:
        """Things that a poll or an epoll set watches."""
        process = self.trace.threads[row.pid].process
        if row.syscall.startswith("epoll"):
            held = self.found.find(process, int(row.fd), row.Index) if pd.notna(row.fd) else None
            return tuple(self.found.watched.get(held.thing, {}).values()) if held else ()
        text = words[0] if row.syscall in ("poll", "ppoll") and words else (words[1] if len(words) > 1 else "")
        numbers = descriptors(text) if "=" in text else [(int(fd), None) for fd in re.findall(r"\d{1,9}", text)]
        held_all = [self.found.find(process, fd, row.Index) for fd, _ in numbers]
        return tuple(held.thing if held else f"descriptor {fd}" for (fd, _), held in zip(numbers, held_all, strict=True))

    def _timed(self, row: Any, words: list[str], kind: str, things: tuple[str, ...] = ()) -> Wait:
        """A wait whose time limit is an argument."""
        call = row.syscall
        place = _MILLISECONDS.get(call, _TIMESPECS.get(call, 99))
        if len(words) <= place or row.unreturned and call.startswith("epoll"):
            before = self.trace.by_thread[row.pid].tail(100)
            before = before[(before["syscall"] == call) & ~before["unreturned"] & (before["fd"] == row.fd)]
            usual = (
                sorted({split(args)[place] for args in before["args"] if len(split(args)) > place})
                if call in _MILLISECONDS
                else []
            )
            said = f"; its waits before had {', '.join(usual[:3])} ms" if usual else ""
            where = SYSCALL_FILE.format(pid=self.trace.threads[row.pid].process, tid=row.pid)
            return Wait(kind, things, remark=f"strace prints the time limit of {call} when it returns{said}; now: {where}")
        limit = words[place]
        if call in _MILLISECONDS:
            given = int(limit) / 1e3 if re.fullmatch(r"-?\d{1,10}", limit) else None
            for_ever, given = ((given is not None and given < 0), (given if given is not None and given >= 0 else None))
        else:
            given, for_ever = seconds(limit), limit == "NULL"
        if call == "clock_nanosleep" and "TIMER_ABSTIME" in row.args and given is not None:
            until, remark = self._moment(given, "REALTIME" in words[0])
            asked = until - row.begin_s if until is not None and row.begin_s == row.begin_s else None
            return Wait(kind, things, timeout_s=asked, until_s=until, for_ever=False, remark=remark)
        return Wait(kind, things, timeout_s=given, until_s=self._until(row, given), for_ever=for_ever)

    def _moment(self, moment: float, wall: bool) -> tuple[float | None, str]:
        """Second of the trace of a moment on the wall clock or the monotonic one."""
        if wall:
            return (moment - self.trace.began_ns / NS, "") if self.trace.began_ns is not None else (None, "")
        if self.monotonic_ahead_s is None:
            return (None, "its time limit is a moment on the monotonic clock, which strace does not print; /proc/uptime does")
        return moment - self.monotonic_ahead_s, ""

    def _futex(self, row: Any, words: list[str]) -> Wait:
        """A wait at a futex: for the end of a thread, or for somebody who wakes."""
        address, operation = (words[0] if words else "", words[1] if len(words) > 1 else "")
        process = self.trace.threads[row.pid].process
        joined = next(
            (
                one
                for one in self.trace.threads.values()
                if one.child_tid == address and one.process == process and one.pid != row.pid and "PRIVATE" not in operation
            ),
            None,
        )
        number = words[2] if len(words) > 2 else ""
        known = int(number) if number.isdecimal() and len(number) < 9 and "PRIVATE" not in operation else -1
        if joined is None and known > 0 and known != row.pid and known in self.trace.threads:
            joined = self.trace.threads[known]
        limit = words[3] if len(words) > 3 else "NULL"
        given, until, remark = seconds(limit), None, ""
        if given is not None and "BITSET" in operation:
            until, remark = self._moment(given, "REALTIME" in operation)
            given = until - row.begin_s if until is not None and row.begin_s == row.begin_s else None
        elif given is not None:
            until = self._until(row, given)
        for_ever = limit == "NULL"
        if joined is not None:
            return Wait("thread", (address,), (joined.pid,), given, until, for_ever, remark)
        return Wait(
            "lock", (f"{address} of {process}" if "PRIVATE" in operation else address,), (), given, until, for_ever, remark
        )


def blocked(waits: Waits) -> pd.DataFrame:
    """Calls that had not come back at the end of a trace, the oldest first.

    A call that was interrupted and went on (ERESTART…) counts from its first begin. strace prints nothing while all threads
    wait, so the end of the trace may be long after its last line: ages are the least that they can be.

    Columns: `pid`, `thread`, `process`, `syscall`, `begin_s`, `age_s` (since then, at the last line of the trace), `at_least`
    (the call was entered before the trace began), `timeout_s`, `left_s` (until it gives up), `for_ever` (null: not told), `kind`,
    `waits_for` (in words), `things`, `targets`, `remark`, `stack`, `line`, `capture`.
    """
    trace, made = waits.trace, []
    for row in trace.lasting.itertuples():
        wait = waits.read(row)
        begin, restarted = _first_begin(trace.by_thread[row.pid], row)
        thread = trace.threads[row.pid]
        made.append(
            {
                "pid": row.pid,
                "thread": thread.label,
                "process": thread.process,
                "syscall": row.syscall,
                "begin_s": begin,
                "age_s": trace.span_s - begin if trace.span_s is not None and begin == begin else None,
                "at_least": not thread.born and len(trace.by_thread[row.pid]) == 1 + restarted,
                "timeout_s": wait.timeout_s,
                "left_s": wait.until_s - trace.span_s if wait.until_s is not None and trace.span_s is not None else None,
                "for_ever": wait.for_ever,
                "kind": wait.kind,
                "waits_for": in_words(waits, wait),
                "things": wait.things,
                "targets": wait.targets,
                "remark": wait.remark,
                "stack": row.stack if isinstance(row.stack, str) else "",
                "line": row.line,
                "capture": row.capture,
            }
        )
    types = {"begin_s": "float64", "age_s": "float64", "timeout_s": "float64", "left_s": "float64", "for_ever": "boolean"}
    return table_of(made, list(COLUMNS), types).sort_values(["begin_s", "line"], kind="stable", ignore_index=True)


def _first_begin(own: pd.DataFrame, last: Any) -> tuple[float, int]:
    """Begin of a call that signals interrupted and that went on, and how often that was."""
    begin, times = last.begin_s, 0
    place = own.index.get_loc(last.Index) - 1
    while place >= 0:
        errno, call = own["errno"].iat[place], own["syscall"].iat[place]
        if not isinstance(errno, str) or not errno.startswith("ERESTART") or last.syscall not in (call, "restart_syscall"):
            break
        begin, times, place = own["begin_s"].iat[place], times + 1, place - 1
    return begin, times


def in_words(waits: Waits, wait: Wait) -> str:
    """What a call waits for, as a sentence says it."""
    trace = waits.trace
    if wait.kind == "thread":
        return f"the end of thread {trace.label(wait.targets[0])}"
    if wait.kind == "child":
        return f"the end of {' or '.join(f'process {trace.label(pid)}' for pid in wait.targets[:4]) or 'a child'}"
    if wait.kind == "lock":
        return f"a wake-up at {wait.things[0].partition(' ')[0]} (a lock, a condition, a semaphore)"
    if wait.kind == "sleep":
        return "its own time to come"
    things = ", ".join(map(plain, wait.things[:4])) + (f" and {len(wait.things) - 4} more" if len(wait.things) > 4 else "")
    said = {
        "bytes": "bytes of {}",
        "room": "room in {}",
        "ready": "something to happen on {}",
        "connection": "a connection on {}",
        "file lock": "the lock on {}",
    }.get(wait.kind, "")
    return said.format(things or "a descriptor") if said else "it is not known what"


def plain(thing: str) -> str:
    """A thing as sentences name it.

    Examples
    --------
    >>> plain("pipe:[7]"), plain("socket a of line 3"), plain("/srv/a"), plain("TCP:[10.0.0.1:5->10.0.0.2:80]")
    ('pipe 7', 'socket a of line 3', '/srv/a', 'TCP 10.0.0.1:5->10.0.0.2:80')
    """
    found = re.fullmatch(r"(\w[\w-]*):\[(.*)\]", thing)
    return f"{found.group(1)} {found.group(2)}" if found and kind_of(thing) != "file" else thing
