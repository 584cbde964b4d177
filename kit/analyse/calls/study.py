"""`kit.calls`: what the system calls of a launch tell, from a capture of strace, a run, or a frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from kit.analyse.calls import against as compared
from kit.analyse.calls import transfers as moves
from kit.analyse.calls.blocked import Waits, blocked
from kit.analyse.calls.budget import Rates, budget, rates
from kit.analyse.calls.descriptors import Descriptors, replay
from kit.analyse.calls.loops import Loop, errors, loops
from kit.analyse.calls.trace import Trace
from kit.analyse.calls.waits import WaitGraph, wait_graph
from kit.analyse.text_blocks import records
from kit.clock import NS, parse_time
from kit.document import Shown
from kit.errors import EvidenceError, UsageError
from kit.open import open_run
from kit.run import Run
from kit.schema import table_of

RECORD = "timeout -s INT 10 strace -f -tt -T -yy -s 64 -o strace.txt -p PID"


class Calls(Shown):
    """What the system calls of one trace tell. Make it with `kit.calls`; each part is made when it is asked for.

    Attributes
    ----------
    name : str
    trace : kit.analyse.calls.trace.Trace
    against : Calls or None
        The trace that it is compared with.
    """

    told_in = "kit.analyse.calls.text"

    def __init__(self, name: str, trace: Trace, against: Calls | None = None, cut: bool = False):
        self.name, self.trace, self.against, self.cut = name, trace, against, cut

    @cached_property
    def descriptors(self) -> Descriptors:
        """Descriptor tables; `descriptors.table(at_s)` is that of a moment."""
        return replay(self.trace)

    @cached_property
    def _waits(self) -> Waits:
        return Waits(self.descriptors)

    @cached_property
    def blocked(self) -> pd.DataFrame:
        """Calls that had not come back, see `kit.analyse.calls.blocked.blocked`."""
        return blocked(self._waits)

    @cached_property
    def transfers(self) -> pd.DataFrame:
        """Bytes by thing and thread."""
        return moves.transfers(self.descriptors)

    @cached_property
    def graph(self) -> WaitGraph:
        """Who waits for whom, and who is behind it."""
        return wait_graph(
            self._waits, self.blocked, self.transfers, {loop.pid: loop.calls for loop in self.loops if loop.goes_on}
        )

    @cached_property
    def unread(self) -> pd.DataFrame:
        """What was written and never read."""
        return moves.unread(self.descriptors, self.transfers)

    @cached_property
    def files(self) -> pd.DataFrame:
        """Files by bytes and time."""
        return moves.files(self.descriptors)

    @cached_property
    def loops(self) -> list[Loop]:
        """What threads do over and over."""
        return loops(self.descriptors)

    @cached_property
    def errors(self) -> pd.DataFrame:
        """Calls that failed."""
        return errors(self.descriptors)

    @cached_property
    def budget(self) -> pd.DataFrame:
        """Seconds of each thread by class of call."""
        return budget(self.trace)

    @cached_property
    def rates(self) -> Rates | None:
        """Calls of each thread over time."""
        return rates(self.trace)

    @cached_property
    def tree(self) -> pd.DataFrame:
        """Threads and processes.

        `pid`, `process`, `parent`, `name`, `depth` (in the tree), `begin_s`, `end_s`, `end` (how it ended), `programs` (that it
        ran, one a line), `calls`; children below their parents.
        """
        threads, made = self.trace.threads, []
        below: dict[int | None, list[int]] = {}
        for pid, thread in threads.items():
            parent = thread.parent if thread.parent is not None else thread.process if thread.process != pid else None
            below.setdefault(parent if parent in threads else None, []).append(pid)
        todo = [(pid, 0) for pid in reversed(below.get(None, []))]
        while todo:
            pid, depth = todo.pop()
            one = threads[pid]
            programs = "\n".join(program for _, program in one.programs)
            calls = len(self.trace.by_thread.get(pid, ()))
            made.append((pid, one.process, one.parent, one.name, depth, one.begin_s, one.end_s, one.end, programs, calls))
            todo += [(child, depth + 1) for child in reversed(below.get(pid, []))]
        names = ["pid", "process", "parent", "name", "depth", "begin_s", "end_s", "end", "programs", "calls"]
        return table_of(made, names, {"parent": "Int64", "begin_s": "float64", "end_s": "float64"})

    @cached_property
    def partings(self) -> list[compared.Parting]:
        """Where the calls of each role part from those of the other trace."""
        return compared.partings(self.trace, self.against.trace) if self.against else []

    @cached_property
    def divergence(self) -> compared.Parting | None:
        """The first of these at which the other trace goes on."""
        return compared.first_divergence(self.partings)

    @cached_property
    def side_by_side(self) -> pd.DataFrame | None:
        """Calls and seconds by role and class, here and there."""
        return compared.side_by_side(self.trace, self.against.trace) if self.against else None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types: each frame as a list of rows, missing values as None."""
        frames = {
            name: getattr(self, name) for name in ("blocked", "budget", "unread", "files", "errors", "tree", "side_by_side")
        }
        frames |= {"edges": self.graph.frame(), "descriptors": self.descriptors.table()}
        found: dict[str, Any] = {
            "name": self.name,
            "answer": self.document().title,
            "calls": len(self.trace.rows),
            "threads": len(self.trace.threads),
            "span_s": self.trace.span_s,
            "suspects": [vars(one) | {"pids": list(one.pids)} for one in self.graph.suspects],
            "loops": [vars(one) | {"claim": one.claim, "things": list(one.things), "at_s": list(one.at_s)} for one in self.loops],
            "divergence": vars(self.divergence) | {"claim": self.divergence.claim} if self.divergence else None,
        }
        return found | {name: records(frame) for name, frame in frames.items() if frame is not None}

    def __repr__(self) -> str:
        return f"<Calls {self.name}: {len(self.trace.rows):,} calls of {len(self.trace.threads)} threads>"


def calls(
    source: str | Path | Sequence[str | Path] | Run | pd.DataFrame,
    against: str | Path | Run | pd.DataFrame | None = None,
    at: str | float | None = None,
) -> Calls:
    """Say what the system calls of a launch tell: who waits for whom, since when, what goes round, what nobody reads.

    Parameters
    ----------
    source : path, Run or pandas.DataFrame
        A capture of strace, a folder or a run that holds one, or the frame `syscalls`.
    against : path, Run or pandas.DataFrame, optional
        A trace of a launch that worked: threads are matched by role, and where they part is found.
    at : str or float, optional
        Take the trace to end here: seconds since its first line, or a time of day as `kit.open_run` takes it.

    Returns
    -------
    Calls
        Shows itself; its parts are frames: `blocked`, `graph`, `loops`, `unread`, `budget`, `rates`, `files`, `errors`, `tree`,
        `descriptors`, and with `against` `partings`, `divergence`, `side_by_side`.

    Raises
    ------
    EvidenceError
        Where there is no system call.
    UsageError
        Where `at` is no moment of the trace.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> row = {"pid": 7, "syscall": "read", "args": "3<pipe:[9]>, ", "fd": 3, "state": "open", "capture": "a"}
    >>> calls(FRAMES["syscalls"].build([row])).blocked[["pid", "waits_for"]].values.tolist()
    [[7, 'bytes of pipe 9']]
    """
    other = calls(against) if against is not None else None
    if not isinstance(source, (str, Path, Run, Sequence)):
        return Calls("frame", Trace(source, until_s=_moment(at, source, 0)), other, at is not None)
    run = source if isinstance(source, Run) else open_run(source)
    rows, threads = (run.frame("syscalls"), run.frame("threads", ["pid", "tid", "comm"]).dropna().drop_duplicates("tid"))
    if not len(rows):
        only = " (a summary of strace -c has no single calls)" if len(run.frame("syscall_totals")) else ""
        raise EvidenceError(f"no system calls in {run.name}", f"no file is output of strace{only}", f"record it: {RECORD}")
    known = {int(row.tid): (int(row.pid), row.comm) for row in threads.itertuples()}
    trace = Trace(rows, run.frame("signals"), known, _moment(at, rows, run.offset_s))
    return Calls(run.name, trace, other, at is not None)


def _moment(at: str | float | None, rows: pd.DataFrame, offset_s: int) -> float | None:
    """Second of a trace that was asked for."""
    if at is None:
        return None
    times = rows["time"].dropna()
    if not len(times):
        raise UsageError(f"nothing is known of {at}", "the trace has no clock", "record it with strace -tt")
    span = (times.max() - times.min()).total_seconds()
    try:
        asked = float(at)
    except ValueError:
        asked = (parse_time(str(at), offset_s)[0] - times.min().value) / NS
    if not 0 <= asked <= span + 1:
        raise UsageError(
            f"nothing is known of {at}", f"the trace lasts {span:.3f} s", "give a second of it, or a time of day in it"
        )
    return asked
