"""A trace: the frame of `syscalls` on one clock, with its threads, their processes, names, births and ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from kit.analyse.calls.arguments import UNRETURNED, class_of, split, string
from kit.clock import NS

KEPT = (
    *("pid", "comm", "syscall", "args", "result", "ret", "errno", "fd", "line", "capture", "stack"),
    *("begin_s", "end_s", "took_s", "kind", "unreturned"),
)
"""Columns of a trace."""
BIRTHS = ("clone", "clone3", "fork", "vfork")
NO_PID = -1
TELLS_PID = ("set_tid_address", "gettid", "getpid")
"""Calls whose result is the id of a process that has one thread."""
_ELSEWHERE = re.compile(r"/\* (\d{1,10}) in strace's PID NS \*/")
_CHILD_TID = re.compile(r"child_tid(?:ptr)?=(0x[0-9a-f]+)")
_PRIVATE = re.compile(r"(0x[0-9a-f]+), \w+_PRIVATE")
_MOST_SHARED = 64
"""Threads that one futex address may join into a process; of more, it is an address that many processes have."""


@dataclass
class Thread:
    """A thread of a trace."""

    # `pid`, `process`, `parent`: its id, that of its process (the thread that began it), and the thread that made it
    pid: int
    process: int
    parent: int | None = None
    name: str = ""  # as it named itself last, else its program's
    # `begin_s`, `end_s`: seconds of the trace; None where it was there before, or did not end
    begin_s: float | None = None
    end_s: float | None = None
    end: str = ""  # how it ended: `exited with 0`, `killed by SIGKILL`; empty where it did not
    stopped: str = ""  # signal that stopped it (SIGSTOP, SIGTSTP, SIGTTIN), where it made no call since
    programs: list[tuple[float | None, str]] = field(default_factory=list)  # programs that it ran (execve), with when
    child_tid: str | None = None  # address at which its end is told to those who join it
    born: bool = False  # its begin is in the trace

    @property
    def label(self) -> str:
        """Name and id, as sentences need them.

        Examples
        --------
        >>> Thread(7, 7, name="worker").label, Thread(8, 7).label
        ('worker (7)', '8')
        """
        if self.pid == NO_PID:
            return self.name or "no pid printed"
        return f"{self.name} ({self.pid})" if self.name else str(self.pid)


def number_of(result: str | None) -> int | None:
    """Id of a process or thread that a call returned, as strace itself knows it.

    Examples
    --------
    >>> number_of("3<sh> /* 22830 in strace's PID NS */"), number_of("41"), number_of("-1 EAGAIN (Try again)")
    (22830, 41, None)
    """
    found = _ELSEWHERE.search(result or "") or re.match(r"(\d{1,10})(?=[<\s]|$)", result or "")
    return int(found.group(1)) if found else None


class Trace:
    """Calls of one capture, or of several that belong together.

    Parameters
    ----------
    calls : pandas.DataFrame
        Frame `syscalls`.
    signals : pandas.DataFrame, optional
        Frame `signals`: how threads ended.
    known : dict, optional
        Process and name by thread, where something else than the trace knows them.
    until_s : float, optional
        Second at which the trace is taken to end: what came later is left out, calls that came back later had not.

    `rows`: the calls in the order in which they took effect: columns `KEPT`: of the frame, `pid` being `NO_PID` where
    it is not known, and `begin_s`, `end_s` (seconds of the trace), `took_s`, `kind` (class of call), `unreturned`. `span_s`:
    from the first to the last clock of the trace; None without a clock. `began_ns`: UTC nanoseconds of its first clock.
    """

    def __init__(
        self,
        calls: pd.DataFrame,
        signals: pd.DataFrame | None = None,
        known: dict[int, tuple[int, str]] | None = None,
        until_s: float | None = None,
    ):
        rows = calls.assign(**{name: calls[name].fillna("") for name in ("args", "ret", "result")})
        self.began_ns = int(rows["time"].min().value) if len(rows) and rows["time"].notna().any() else None
        rows["begin_s"] = (rows["time"] - rows["time"].min()).dt.total_seconds() if self.began_ns is not None else np.nan
        rows["pid"] = rows["pid"].fillna(NO_PID).astype("int64")
        rows["unreturned"] = rows["state"].isin(UNRETURNED)
        rows["took_s"] = rows["duration_s"].where(~rows["unreturned"])
        rows["end_s"] = rows["begin_s"] + rows["took_s"].fillna(0.0)
        if until_s is not None:
            rows = rows[rows["begin_s"] <= until_s]
            later = ~(rows["end_s"] <= until_s)
            rows.loc[later, ["took_s", "ret", "result", "errno"]] = [np.nan, "", "", None]
            rows.loc[later, "unreturned"] = True
            signals = signals[signals["time"] <= rows["time"].min() + pd.Timedelta(until_s, "s")] if signals is not None else None
        rows.loc[rows["unreturned"], "end_s"] = np.nan
        rows["kind"] = rows["syscall"].map(class_of()).fillna("other")
        ends = rows["end_line"].fillna(rows["line"]).astype("float")
        births = rows["syscall"].isin(BIRTHS)
        if self.began_ns is not None and rows["begin_s"].notna().all() and rows["capture"].nunique() > 1:
            order = rows["begin_s"].where(births, rows["end_s"].fillna(np.inf))
        else:
            order = rows["line"].astype("float").where(births, ends).where(~rows["unreturned"], np.inf)
        self.rows = rows.loc[order.sort_values(kind="stable").index, list(KEPT)].reset_index(drop=True)
        self.signals = signals
        if (self.rows["pid"] == NO_PID).any() and self.rows["capture"].nunique() == 1:
            self._name_the_first()
        self.known = known or {}
        clocks = [rows["begin_s"].max(), rows["end_s"].max()]
        if signals is not None and len(signals) and self.began_ns is not None and signals["time"].notna().any():
            clocks.append((signals["time"].max().value - self.began_ns) / NS)
        self.span_s = (float(np.nanmax(clocks)) if until_s is None else until_s) if self.began_ns is not None else None
        self.threads = _threads(self)

    def _name_the_first(self) -> None:
        """Give the lines that have no pid that of the process which strace started: it prints none while there is one alone.

        After that has ended they are another's.
        """
        rows, said = self.rows.sort_values("line"), self.signals
        bare = rows[rows["pid"] == NO_PID]
        born = set(rows.loc[rows["syscall"].isin(BIRTHS), "result"].map(number_of))
        seen = [*rows["pid"].tolist(), *(said["pid"].dropna().tolist() if said is not None else ())]
        others = [int(pid) for pid in seen if pid != NO_PID and pid not in born]
        told = bare.loc[bare["syscall"].isin(TELLS_PID), "result"].map(number_of).dropna()
        if rows["pid"].iloc[0] == NO_PID and others:
            first = others[0]
        elif len(told):
            first = int(told.iloc[0])
        else:
            return
        ends = said[(said["pid"] == first) & said["kind"].isin(["exited", "killed"])]["line"] if said is not None else ()
        last = min(ends, default=float("inf"))
        self.rows.loc[(self.rows["pid"] == NO_PID) & (self.rows["line"] <= last), "pid"] = first
        if said is not None:
            self.signals = said.assign(pid=said["pid"].where(said["pid"].notna() | (said["line"] > last), first))

    @cached_property
    def by_thread(self) -> dict[int, pd.DataFrame]:
        """Rows of each thread, in the order in which they began."""
        return {int(pid): own for pid, own in self.rows.groupby("pid", sort=False)}

    @cached_property
    def lasting(self) -> pd.DataFrame:
        """Calls that had not come back when the trace ended, of threads that had not ended."""
        rows = self.rows[self.rows["unreturned"]].drop_duplicates("pid", keep="last")
        ended = [pid for pid, thread in self.threads.items() if thread.end]
        return rows[~rows["pid"].isin(ended)]

    def label(self, pid: int | None) -> str:
        """Name and id of a thread."""
        thread = self.threads.get(pid) if pid is not None else None
        return thread.label if thread else str(pid)

    def members(self, process: int) -> list[int]:
        """Threads of a process that have not ended."""
        return [thread.pid for thread in self.threads.values() if thread.process == process and not thread.end]


def _threads(trace: Trace) -> dict[int, Thread]:
    """Threads of a trace: from births, programs, names that they gave themselves, and ends."""
    rows = trace.rows
    threads = {pid: Thread(pid, *_known(trace, pid)) for pid in rows["pid"].unique().tolist()}
    telling = rows[rows["syscall"].isin([*BIRTHS, "execve", "execveat", "prctl", "exit_group", "exit"])]
    for row in telling.itertuples():
        thread = threads[row.pid]
        at = row.begin_s if row.begin_s == row.begin_s else None
        if row.syscall in BIRTHS and (number_of(row.result) or 0) > 0:
            _birth(threads, thread, row, at)
        elif row.syscall in ("execve", "execveat") and row.ret == "0":
            if (leader := threads.get(thread.process, thread)) is not thread:  # the caller goes on under the id of its process
                _end(threads, [thread], f"went on as {leader.pid}", at)
                thread = leader
            words = split(row.args or "")
            program = string(words[0]) if words else None
            argv = re.findall(r'"((?:[^"\\]|\\.)*)"', words[1]) if len(words) > 1 else []
            thread.programs.append((at, " ".join(argv) or program or ""))
            thread.name = (program or "").rsplit("/", 1)[-1][:15]
        elif row.syscall == "prctl" and (row.args or "").startswith("PR_SET_NAME"):
            thread.name = string(split(row.args)[-1]) or thread.name
        elif row.syscall == "exit_group":
            _end(threads, [one for one in threads.values() if one.process == thread.process], f"exited with {row.args}", at)
        elif row.syscall == "exit":
            _end(threads, [thread], f"exited with {row.args}", at)
    named = rows.dropna(subset=["comm"]).drop_duplicates("pid", keep="last")
    for pid, comm in zip(named["pid"].tolist(), named["comm"].tolist(), strict=True):
        threads[pid].name = comm
    _ends(trace, threads)
    _guess_processes(trace, threads)
    return threads


def _known(trace: Trace, pid: int) -> tuple[int, int | None, str]:
    process, name = trace.known.get(pid, (pid, ""))
    return process, None, name


def _birth(threads: dict[int, Thread], thread: Thread, row, at: float | None) -> None:
    child = number_of(row.result)
    same = "CLONE_THREAD" in (row.args or "")
    found = _CHILD_TID.search(row.args or "")
    threads[child] = Thread(
        child,
        thread.process if same else child,
        thread.pid,
        thread.name,
        at,
        child_tid=found.group(1) if found else None,
        born=True,
    )


def _end(threads: dict[int, Thread], ended: list[Thread], how: str, at: float | None) -> None:
    for one in ended:
        one.end, one.end_s = one.end or how, at if one.end_s is None else one.end_s


def _ends(trace: Trace, threads: dict[int, Thread]) -> None:
    """How threads ended, as strace prints it after their last call."""
    if trace.signals is None or not len(trace.signals):
        return
    said = trace.signals.assign(pid=trace.signals["pid"].fillna(NO_PID).astype("int64"))
    for row in said[said["kind"].isin(["exited", "killed"])].itertuples():
        thread = threads.get(row.pid)
        if thread is None:
            continue
        at = (row.time.value - trace.began_ns) / NS if trace.began_ns is not None and row.time == row.time else None
        thread.end = f"exited with {int(row.code)}" if row.kind == "exited" else f"killed by {row.signal}"
        thread.end_s = at
    last = trace.rows[~trace.rows["unreturned"]].groupby("pid")["line"].max()
    stops = said[said["kind"].eq("stopped") | said["signal"].eq("SIGCONT")]
    for row in stops.itertuples():
        thread = threads.setdefault(row.pid, Thread(row.pid, *_known(trace, row.pid)))  # it may make no call at all
        thread.stopped = row.signal if row.kind == "stopped" and last.get(thread.pid, 0) < row.line else ""


def _guess_processes(trace: Trace, threads: dict[int, Thread]) -> None:
    """Put threads that were there before the trace into one process where they use one private futex address."""
    strangers = {pid for pid, thread in threads.items() if not thread.born and pid not in trace.known}
    if len(strangers) < 2:
        return
    rows = trace.rows[(trace.rows["syscall"] == "futex") & trace.rows["pid"].isin(strangers)]
    address = rows["args"].str.extract(_PRIVATE, expand=False)
    pairs = rows.assign(address=address).dropna(subset=["address"]).drop_duplicates(["pid", "address"])
    of = {pid: pid for pid in strangers}

    def root(pid: int) -> int:
        while of[pid] != pid:
            pid = of[pid]
        return pid

    for _, pids in pairs.groupby("address")["pid"]:
        if 2 <= len(pids) <= _MOST_SHARED:
            first = min(root(pid) for pid in pids)
            for pid in pids:
                of[root(pid)] = first
    for pid in strangers:
        threads[pid].process = root(pid)
