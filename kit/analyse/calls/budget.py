"""Where the time of each thread went, and how its calls spread over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kit.analyse.calls.arguments import classes
from kit.analyse.calls.trace import Trace

OTHER, OUTSIDE = "other", "outside calls"
BINS = 120


def budget(trace: Trace) -> pd.DataFrame:
    """Seconds of each thread by class of call.

    Time outside of calls is what is left of a thread's life: it computed, waited for a CPU, or strace held it up (some tens of
    microseconds a call); strace cannot tell these apart. Calls that had not come back count until the end of the trace.

    Columns: `pid`, `thread`, `process`, `life_s`, a column a class (`lock`, `wait`, `sleep`, …, `other`) in seconds, `outside
    calls`, `calls`, `untimed` (calls whose time is not known: strace ran without -T). Empty where the trace has no clock.
    """
    names = [*classes(), OTHER]
    columns = ["pid", "thread", "process", "life_s", *names, OUTSIDE, "calls", "untimed"]
    if trace.span_s is None:
        return pd.DataFrame(columns=columns)
    rows = trace.rows[["pid", "kind", "took_s", "unreturned", "begin_s"]]
    ends = {pid: thread.end_s for pid, thread in trace.threads.items() if thread.end_s is not None}
    until = rows["pid"].map(ends).fillna(trace.span_s)
    took = rows["took_s"].where(~rows["unreturned"], until - rows["begin_s"]).clip(lower=0)
    took = took.where(~trace.rows["syscall"].isin(["exit", "exit_group"]), 0.0)
    spent = took.groupby([rows["pid"], rows["kind"]]).sum().unstack(fill_value=0.0).reindex(columns=names, fill_value=0.0)
    first, calls, untimed = (
        rows.groupby("pid")["begin_s"].min(),
        rows.groupby("pid").size(),
        took.isna().groupby(rows["pid"]).sum(),
    )
    made = []
    for pid, own in spent.iterrows():
        thread = trace.threads[pid]
        begin = thread.begin_s if thread.begin_s is not None else float(first[pid]) if thread.born else 0.0
        life = max(0.0, (thread.end_s if thread.end_s is not None else trace.span_s) - begin)
        made.append(
            {
                "pid": pid,
                "thread": thread.label,
                "process": thread.process,
                "life_s": life,
                **own.to_dict(),
                OUTSIDE: max(0.0, life - float(own.sum())) if not untimed[pid] else float("nan"),
                "calls": int(calls[pid]),
                "untimed": int(untimed[pid]),
            }
        )
    return pd.DataFrame(made, columns=columns)


@dataclass(frozen=True)
class Rates:
    """Calls of each thread over time."""

    edges: np.ndarray  # seconds of the trace, one more than bins
    pids: tuple[int, ...]  # threads, those with most calls first
    calls: np.ndarray  # calls that began, shape (threads, bins)
    share: np.ndarray  # share of each bin that the thread was in calls, from 0 to 1, by overlap


def rates(trace: Trace, bins: int = BINS) -> Rates | None:
    """Calls of each thread over time; None where the trace has no clock, or one moment only."""
    if not trace.span_s:
        return None
    edges = np.linspace(0.0, trace.span_s, bins + 1)
    width = trace.span_s / bins
    rows = trace.rows.dropna(subset=["begin_s"])
    order = rows["pid"].value_counts()
    place = {pid: number for number, pid in enumerate(order.index)}
    thread = rows["pid"].map(place).to_numpy()
    begin = rows["begin_s"].to_numpy()
    end = np.where(rows["unreturned"], trace.span_s, begin + rows["took_s"].fillna(0.0).to_numpy())
    first = np.clip((begin / width).astype(int), 0, bins - 1)
    last = np.clip((end / width).astype(int), 0, bins - 1)
    calls = np.zeros((len(order), bins))
    np.add.at(calls, (thread, first), 1)
    share, whole = np.zeros((len(order), bins)), np.zeros((len(order), bins + 1))
    inside = first == last
    np.add.at(share, (thread[inside], first[inside]), (end - begin)[inside])
    over = ~inside
    np.add.at(share, (thread[over], first[over]), (edges[first + 1] - begin)[over])
    np.add.at(share, (thread[over], last[over]), (end - edges[last])[over])
    np.add.at(whole, (thread[over], first[over] + 1), width)
    np.add.at(whole, (thread[over], last[over]), -width)
    share += np.cumsum(whole, axis=1)[:, :bins]
    return Rates(edges, tuple(int(pid) for pid in order.index), calls, np.clip(share / width, 0.0, 1.0))
