"""What threads do over and over: ticks with a period, polls that time out, spins; and errors that come in storms."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kit.analyse.calls.arguments import LOOKS, READS, WAITS, WRITES, split, string
from kit.analyse.calls.blocked import Waits, plain
from kit.analyse.calls.descriptors import Descriptors, kind_of
from kit.clock import show_seconds
from kit.schema import table_of
from kit.words import count_of

LEAST = 5
"""Rounds that make a loop."""
SPIN_S, SPIN_LEAST = 0.005, 50
"""A loop with shorter rounds that moves nothing spins, once there are so many: strace makes each round 10 to 100 times longer."""
STEADY = 0.1
"""Median deviation of the rounds, as a share of the period, below which it is a timer's."""
MOTIF, TAIL = 12, 2000
"""Longest round in calls, and the calls at a thread's end in which one is looked for."""
MARKS = 600
"""Begins of rounds that are kept, to be drawn."""
CONTENDED_PER_S = 1000
"""Failures of futex a second that are no contention any more: Python's interpreter lock alone makes some tens."""
UNTOLD = ("mmap", "munmap", "mprotect", "brk", "futex", "rt_sigaction")
"""Calls whose repetition among others tells nothing."""
STORM = 20
"""Equal failures that make a storm."""


@dataclass(frozen=True)
class Loop:
    """What a thread does over and over."""

    pid: int
    thread: str
    # ticks (a timer's period), polls (waits that time out), spins (no time between, nothing done), moves data, goes round
    kind: str
    calls: str  # a round in words: `write to pipe 7, clock_nanosleep`
    rounds: int
    # `period_s`, `spread`: median length of a round, and its median deviation as a share of it
    period_s: float | None
    spread: float | None
    things: tuple[str, ...]  # what it is on
    others: str  # who is at the other end
    goes_on: bool  # it was still going on when the trace ended
    line: int
    capture: str
    at_s: tuple[float, ...] = ()
    """Begins of its rounds, the last few hundred."""

    @property
    def claim(self) -> str:
        """The loop as a sentence."""
        return f"{self.thread} {self.what}"

    @property
    def what(self) -> str:
        """The loop as a sentence's end."""
        every = f" every {show_seconds(self.period_s)}" if self.period_s is not None else ""
        spread = (
            f", give or take {max(self.spread, 0.001):.1%}".replace("%", " %")
            if self.kind == "ticks" and self.spread is not None
            else ""
        )
        what = {
            "ticks": "goes round",
            "polls": "polls and times out",
            "spins": "spins",
            "moves data": "moves data",
            "goes round": "goes round",
        }[self.kind]
        others = f"; at the other end: {self.others}" if self.others else ""
        return f"{what}{every}{spread}, {self.rounds:,} times: {self.calls}{others}"


def loops(found: Descriptors) -> list[Loop]:
    """What each thread does over and over at its end, or did for most of its calls; the shortest period first of those that spin.

    A round is the shortest sequence of calls, on the same things and with the same kind of outcome, that a thread's last calls
    repeat. Where they repeat none, single calls that come back at a steady pace are looked for.
    """
    trace, things = found.trace, found.things
    path = trace.rows["args"].str.extract(r'"((?:[^"\\]|\\.)*)"', expand=False).where(trace.rows["syscall"].isin(LOOKS))
    marks = things.reindex(trace.rows.index).fillna(path)
    made: list[Loop] = []
    for pid, own in trace.by_thread.items():
        tail = own[~own["unreturned"]].iloc[-TAIL:]
        if len(tail) < LEAST or trace.threads[pid].end:
            continue
        outcome = map(_outcome, tail["syscall"], tail["ret"], tail["errno"])
        tokens = list(zip(tail["syscall"], marks.loc[tail.index].fillna(""), outcome, strict=True))
        size, rounds = motif(tokens)
        if size:
            made.append(_loop(found, pid, tail.iloc[len(tail) - size * rounds :], size, rounds, things))
        else:
            made += _steady(found, pid, tail, tokens, things)
    order = ("spins", "ticks", "goes round", "polls", "moves data")
    return sorted(made, key=lambda loop: (order.index(loop.kind), -loop.rounds))


def _outcome(call: str, ret: str, errno: object) -> str:
    """What tells one round's outcome from another's: the error, nothing, or something."""
    if isinstance(errno, str):
        return errno
    return "0" if ret == "0" and call in (*READS, *WAITS) else ""


def motif(tokens: list[tuple]) -> tuple[int, int]:
    """Length of the shortest round that the last tokens repeat, and how often they do; (0, 0) where they repeat none.

    Examples
    --------
    >>> motif([("x",)] + [("write",), ("sleep",)] * 6)
    (2, 6)
    >>> motif([("a",), ("b",), ("c",)])
    (0, 0)
    """
    for size in range(1, MOTIF + 1):
        same = 0
        while same + size < len(tokens) and tokens[-1 - same] == tokens[-1 - same - size]:
            same += 1
        if same >= (LEAST - 1) * size:
            return size, same // size + 1
    return 0, 0


def _steady(found: Descriptors, pid: int, rows: pd.DataFrame, tokens: list[tuple], things: pd.Series) -> list[Loop]:
    """Calls of a thread that come back at a steady pace among others, or that most of a stretch of its calls are."""
    places: dict[tuple, list[int]] = defaultdict(list)
    for place, token in enumerate(tokens):
        places[token].append(place)
    made, begins = [], rows["begin_s"].to_numpy()
    for (call, _, outcome), own in places.items():
        if len(own) < LEAST or call in UNTOLD:
            continue
        period, spread = _period(begins[own])
        steady = period is not None and period >= SPIN_S and spread is not None and spread < STEADY
        most = len(own) >= SPIN_LEAST and len(own) >= (own[-1] - own[0] + 1) / 2
        if steady or most or call in WAITS and outcome == "0":
            made.append(_loop(found, pid, rows.iloc[own], 1, len(own), things))
    kept = [loop for loop in made if loop.kind in ("ticks", "spins", "polls")]
    return sorted(kept, key=lambda loop: -loop.rounds)[:2]


def _loop(found: Descriptors, pid: int, rows: pd.DataFrame, size: int, rounds: int, things: pd.Series) -> Loop:
    """A loop of some rows, whose rounds have `size` calls each."""
    trace = found.trace
    period, spread = _period(rows["begin_s"].to_numpy()[::size])
    one = rows.iloc[-size:]
    names = [things.get(row) if isinstance(things.get(row), str) else "" for row in one.index]
    calls = [_in_words(rows, *each) for each in zip(one["syscall"], names, one["args"], one["ret"], one["errno"], strict=True)]
    watched = [name for row in one.itertuples() if row.syscall in WAITS for name in Waits(found).watched(row, split(row.args))]
    kept = tuple(dict.fromkeys([*filter(None, names), *watched]))
    last = rows.iloc[-1]
    ended = trace.span_s is None or period is None or trace.span_s - last["end_s"] <= 3 * period
    kind = _kind(rows, period, spread, rounds)
    return Loop(
        pid,
        trace.label(pid),
        kind,
        " → ".join(calls),
        rounds,
        period,
        spread,
        kept,
        _others(found, pid, kept),
        bool(ended),
        int(one.iloc[0]["line"]),
        str(last["capture"]),
        tuple(begin for begin in rows["begin_s"].tolist()[::size][-MARKS:] if begin == begin),
    )


def _in_words(rows: pd.DataFrame, call: str, name: str, args: str, ret: str, errno: object) -> str:
    """A call of a round; with its bytes where each round moves as many, and the path that it names."""
    name = name or next((text for word in split(args)[:2] if call in LOOKS and (text := string(word))), "")
    if isinstance(errno, str) or call not in (*READS, *WRITES) or not ret.isdecimal():
        return f"{call}{' of ' + plain(name) if name else ''}{f' = {errno}' if isinstance(errno, str) else ''}"
    same = rows.loc[rows["syscall"] == call, "ret"].nunique() == 1
    way = "from" if call in READS else "to"
    return f"{call} {count_of(int(ret), 'byte') if same else 'bytes'}{f' {way} {plain(name)}' if name else ''}"


def _period(begins: np.ndarray) -> tuple[float | None, float | None]:
    """Median interval, and the median deviation from it as a share."""
    gaps = np.diff(begins)
    if not len(gaps) or np.isnan(gaps).any():
        return None, None
    median = float(np.median(gaps))
    return median, float(np.median(np.abs(gaps - median))) / median if median > 0 else 0.0


def _kind(rows: pd.DataFrame, period: float | None, spread: float | None, rounds: int) -> str:
    waits = rows[rows["syscall"].isin(WAITS)]
    if len(waits) and (waits["ret"] == "0").mean() > 0.8:
        return "polls"
    size = (
        rows["ret"].where(rows["syscall"].isin([*READS, *WRITES]) & rows["ret"].str.fullmatch(r"\d{1,15}"), "0").astype("int64")
    )
    if size.median() > 64 or size.sum() / max(rounds, 1) > 512:
        return "moves data"
    if rounds >= SPIN_LEAST and (period is None or period < SPIN_S) and not size.any():
        return "spins"
    return "ticks" if period is not None and period >= SPIN_S and spread is not None and spread < STEADY else "goes round"


def _others(found: Descriptors, pid: int, things: tuple[str, ...]) -> str:
    """Who is at the other end of what a loop is on."""
    said = []
    for name in things:
        kind = kind_of(name)
        other = found.peers.get(name) if kind == "socket" else name if kind in ("pipe", "eventfd") else None
        if other is None:
            continue
        used = found.trace.rows.loc[found.things.index[found.things == other]]
        users = [one for one in used["pid"].unique().tolist() if one != pid and one in found.trace.threads]
        if users:
            said.append(f"{found.trace.label(users[0])} at {plain(name)}")
        else:
            holders = sorted({one.process for one in found.holders(other)})
            held = ", ".join(found.trace.label(one) for one in holders[:3])
            said.append(f"nobody used {plain(name)} in this trace" + (f", {held} holds it" if held else ""))
    return "; ".join(dict.fromkeys(said))


def errors(found: Descriptors) -> pd.DataFrame:
    """Calls that failed, by thread, call and error; equal failures are storms from twenty on.

    Columns: `pid`, `thread`, `syscall`, `errno`, `calls`, `paths` (different paths that were asked for), `file` (the last part of
    the path, where most asked for the same one), `per_s`, `first_s`, `last_s`, `storm`, `example`, `line`. Most first.
    """
    rows = found.trace.rows
    failed = rows[rows["errno"].notna()]
    path = failed["args"].str.extract(r'"((?:[^"\\]|\\.)*)"', expand=False)
    made = []
    for (pid, call, errno), own in failed.groupby(["pid", "syscall", "errno"], sort=False):
        asked = path.loc[own.index].dropna()
        ends = Counter(text.rsplit("/", 1)[-1] for text in asked)
        common = next((text for text, n in ends.most_common(1) if n > 1 and n >= len(asked) / 2), "")
        span = own["begin_s"].max() - own["begin_s"].min()
        made.append(
            {
                "pid": pid,
                "thread": found.trace.label(pid),
                "syscall": call,
                "errno": errno,
                "calls": len(own),
                "paths": asked.nunique(),
                "file": common,
                "per_s": len(own) / span if span > 0 else None,
                "first_s": own["begin_s"].min(),
                "last_s": own["begin_s"].max(),
                "storm": len(own) >= (STORM if call != "futex" else max(STORM, CONTENDED_PER_S * span)),
                "example": f"{call}({own.iloc[-1]['args']})"[:160],
                "line": int(own.iloc[0]["line"]),
            }
        )
    names = "pid thread syscall errno calls paths file per_s first_s last_s storm example line".split()
    frame = table_of(made, names, {"per_s": "float64", "storm": "bool"})
    return frame.sort_values("calls", ascending=False, kind="stable", ignore_index=True)
