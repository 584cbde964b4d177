"""Two traces compared: threads matched by role, what differs from launch to launch made neutral, and where they part."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import pandas as pd

from kit.analyse.calls.arguments import LOOKS, READS, WRITES, class_of
from kit.analyse.calls.budget import OUTSIDE, budget
from kit.analyse.calls.trace import Trace
from kit.schema import table_of

NOISE = ("memory", "lock")
"""Classes of calls whose order and number chance decides."""
NOISE_CALLS = frozenset(
    "sched_yield getpid gettid getppid getrandom clock_gettime gettimeofday rt_sigprocmask rt_sigaction set_robust_list rseq"
    " getrusage restart_syscall arch_prctl set_tid_address prlimit64 sched_getaffinity".split()
)
_TO_PATH = re.compile(r'[^"]*"(?:[^"\\]|\\.)*"')
MOST = 4000
"""Calls of a role that are matched one by one, once its equal beginning is gone."""
_NEUTRAL = (
    (re.compile(r"0x[0-9a-f]{5,}"), "ADDRESS"),
    (re.compile(r"\[\d+(?:->\d+)?"), "[INODE"),
    (re.compile(r"/proc/\d+"), "/proc/PID"),
    (re.compile(r"(?<=[/_.-])tmp\w{6,8}|(?<=/)[0-9a-f]{16,64}\b"), "RANDOM"),
    (re.compile(r"htons\((?:3[2-9]|[4-6]\d)\d{3}\)|(?<=:)(?:3[2-9]|[4-6]\d)\d{3}(?=[\]\-])"), "PORT"),
    (re.compile(r"tv_(?:sec|nsec|usec)=\d+"), "TIME"),
    (re.compile(r"\b\d{4,}\b"), "N"),
)
"""What differs between launches that do the same: addresses, inodes, pids, names by chance, times, and
ephemeral ports (from 32,768)."""


@dataclass(frozen=True)
class Parting:
    """Where one role's calls part."""

    role: str
    common: int  # calls in their order that both made
    last: str  # the last of those, neutral
    # `here`, `there`: what followed in this trace and in the other; empty where nothing did
    here: str
    there: str
    # `rest_here`, `rest_there`: calls after that
    rest_here: int
    rest_there: int
    at_s: float | None  # second of this trace at which they part
    # `line`, `other_line`: lines of `here` and `there` in their captures
    line: int | None
    other_line: int | None
    capture: str = ""

    @property
    def claim(self) -> str:
        """The parting as a sentence."""
        then = f"does {self.here}" if self.here else "makes no other call"
        repeated = f" ({self.rest_here:,} calls of which the other trace has none)" if self.rest_here > 1 else ""
        other = f"the other does {self.there}" if self.there else "the other makes no other call"
        return f"{self.role} parts from the other trace after {self.last or 'its begin'}: this one {then}{repeated}, {other}"


def roles(trace: Trace) -> dict[int, str]:
    """What each thread is, under a name that does not change from launch to launch: program, name, and a number among equals."""
    seen: Counter[str] = Counter()
    named: dict[int, str] = {}
    for pid, thread in trace.threads.items():
        leader = trace.threads.get(thread.process, thread)
        program = leader.name or "process"
        name = program if pid == thread.process else f"{program}/{thread.name or 'thread'}"
        seen[name] += 1
        named[pid] = name if seen[name] == 1 else f"{name} {seen[name]}"
    return named


def token(row: Any) -> tuple[str, str]:
    """A call without what differs from launch to launch, and whether it worked."""
    text = row.args
    for pattern, word in _NEUTRAL:
        text = pattern.sub(word, text)
    outcome = row.errno if isinstance(row.errno, str) else "0" if row.ret == "0" and row.syscall in (*READS, *LOOKS) else ""
    if row.syscall in (*READS, *WRITES):
        text = text.partition(",")[0]
    elif row.syscall in LOOKS and (path := _TO_PATH.match(text)):
        text = path.group()
    return f"{row.syscall}({text[:120]})", outcome


def in_words(one: tuple[str, str]) -> str:
    """A neutral call as sentences show it."""
    return f"{one[0]}{' = ' + one[1] if one[1] else ''}"


def _sequence(rows: pd.DataFrame) -> tuple[list[tuple[str, str]], list[Any]]:
    """Neutral calls of a thread, repeated ones once, each with its first row."""
    kinds = class_of()
    tokens: list[tuple[str, str]] = []
    kept: list[Any] = []
    for row in rows.itertuples():
        if row.syscall in NOISE_CALLS or kinds.get(row.syscall) in NOISE:
            continue
        one = token(row)
        if not tokens or tokens[-1] != one:
            tokens.append(one)
            kept.append(row)
    return tokens, kept


def partings(here: Trace, there: Trace) -> list[Parting]:
    """Where the calls of each role part; those that lack most of the other's first, and of these the earliest."""
    mine, theirs = roles(here), {role: pid for pid, role in roles(there).items()}
    found = []
    for pid, role in mine.items():
        other = theirs.get(role)
        if other is None or pid not in here.by_thread or other not in there.by_thread:
            continue
        found.append(_parting(role, _sequence(here.by_thread[pid]), _sequence(there.by_thread[other])))
    infinite = float("inf")
    return sorted(found, key=lambda one: (not (one.here or one.there), one.at_s if one.at_s is not None else infinite))


def _parting(role: str, here: tuple, there: tuple) -> Parting:
    (mine, rows), (theirs, other_rows) = here, there
    same = 0
    while same < min(len(mine), len(theirs)) and mine[same] == theirs[same]:
        same += 1
    a, b = mine[same : same + MOST], theirs[same : same + MOST]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    common = same + sum(block.size for block in blocks)
    last = next((block for block in reversed(blocks) if block.size), None)
    at, other_at = (same + last.a + last.size, same + last.b + last.size) if last else (same, same)
    row, other = ((rows[at] if at < len(rows) else None), (other_rows[other_at] if other_at < len(other_rows) else None))
    before = rows[at - 1] if at else None
    when = row.begin_s if row is not None else before.end_s if before is not None else float("nan")
    return Parting(
        role,
        common,
        in_words(mine[at - 1]) if at else "",
        in_words(mine[at]) if row is not None else "",
        in_words(theirs[other_at]) if other is not None else "",
        len(mine) - at,
        len(theirs) - other_at,
        float(when) if when == when else None,
        int(row.line) if row is not None else None,
        int(other.line) if other is not None else None,
        str(rows[0].capture) if rows else "",
    )


def first_divergence(found: list[Parting]) -> Parting | None:
    """Of all partings the one at which the other trace goes on and this one does something else, or nothing; the earliest."""
    lacking = [one for one in found if one.there]
    return min(lacking, key=lambda one: (one.at_s is None, one.at_s or 0.0), default=None)


def side_by_side(here: Trace, there: Trace) -> pd.DataFrame:
    """Calls and seconds of each role and class, here and there.

    Columns: `role`, `kind`, `calls_here`, `calls_there`, `s_here`, `s_there`; roles that only one trace has, have zeros on the
    other side. Largest difference in seconds first.
    """
    sides: dict[str, dict[tuple[str, str], list[float]]] = {}
    for side, trace in (("here", here), ("there", there)):
        named, sums = roles(trace), defaultdict(lambda: [0.0, 0.0])
        for (pid, kind), count in trace.rows.groupby(["pid", "kind"]).size().items():
            sums[named[pid], kind][0] += count
        spent = budget(trace)
        for row in spent.to_dict("records"):
            for kind in [*(name for name in spent.columns[4:-2])]:
                if row[kind] == row[kind] and (row[kind] > 0 or kind == OUTSIDE):
                    sums[named[row["pid"]], kind][1] += row[kind]
        sides[side] = sums
    keys = sorted({*sides["here"], *sides["there"]})
    rows = [
        (
            *key,
            int(sides["here"].get(key, (0, 0))[0]),
            int(sides["there"].get(key, (0, 0))[0]),
            sides["here"].get(key, (0, 0.0))[1],
            sides["there"].get(key, (0, 0.0))[1],
        )
        for key in keys
    ]
    frame = table_of(rows, ["role", "kind", "calls_here", "calls_there", "s_here", "s_there"])
    return frame.loc[(frame["s_here"] - frame["s_there"]).abs().sort_values(ascending=False, kind="stable").index].reset_index(
        drop=True
    )
