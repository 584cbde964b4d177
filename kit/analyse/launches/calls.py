"""Stacks and system calls of launches, matched by rank or role."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.analyse.launches.samples import Samples, order, thread_name
from kit.analyse.verdict.stacks import Stack, all_stacks
from kit.clock import NS
from kit.schema import Row, table_of

if TYPE_CHECKING:
    import pandas

    from kit.analyse.launches.compared_launch import ComparedLaunch

MAIN = "main thread"


@dataclass
class Calls:
    """System calls of one launch as strace showed them, by thread."""

    # `number`, `seconds`: by thread and call: calls made, and time in those whose time was recorded
    number: dict[int | None, Counter] = field(default_factory=dict)
    seconds: dict[int | None, defaultdict[str, float]] = field(default_factory=dict)
    standing: dict[int | None, str] = field(default_factory=dict)  # by thread: the call that had not come back
    # `first`, `last`: UTC nanoseconds of the first and the last call with a time
    first: int | None = None
    last: int | None = None

    def add(self, row: Row) -> None:
        """Take one row of frame `syscalls`."""
        tid, call = row.get("pid"), row["syscall"]
        self.number.setdefault(tid, Counter())[call] += 1
        if (took := row.get("duration_s")) is not None:
            self.seconds.setdefault(tid, defaultdict(float))[call] += took
        if row.get("state") in ("open", "cut", "detached"):
            self.standing[tid] = call
        else:
            self.standing.pop(tid, None)
        if row.get("time") is not None:
            self.first = row["time"] if self.first is None else min(self.first, row["time"])
            self.last = row["time"] if self.last is None else max(self.last, row["time"])

    @property
    def span_s(self) -> float | None:
        """Seconds from the first to the last call."""
        return (self.last - self.first) / NS if self.first is not None and self.last > self.first else None

    def by_process(self, launch: ComparedLaunch, samples: Samples) -> dict[str, dict[str, dict[str, Any]]]:
        """By rank or role, then by call: `calls`, `s` (None where no time was recorded), `standing`."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for tid, numbers in self.number.items():
            name = launch.process(tid if tid in launch.processes.by_pid else samples.pid_of.get(tid))
            for call, number in numbers.items():
                own = found.setdefault(name, {}).setdefault(call, {"calls": 0, "s": None, "standing": 0})
                own["calls"] += number
                if (took := self.seconds.get(tid, {}).get(call)) is not None:
                    own["s"] = (own["s"] or 0.0) + took
                own["standing"] += self.standing.get(tid) == call
        return found


def syscalls(launches: list[ComparedLaunch], samples: list[Samples], calls: list[Calls]) -> pandas.DataFrame:
    """System calls by rank or role: how many a second, how long, and threads that stand in one; those that take longest first."""
    found = [one.by_process(launch, own) for launch, own, one in zip(launches, samples, calls, strict=True)]
    rows = []
    for name in order(set().union(*found)):
        own = [one.get(name, {}) for one in found]
        names = sorted(set().union(*own), key=lambda call: (-max(one.get(call, {}).get("s") or 0.0 for one in own), call))
        for call in names:
            row: dict[str, Any] = {"process": name, "syscall": call}
            for launch, one, here in zip(launches, calls, own, strict=True):
                seen = here.get(call, {"calls": 0, "s": 0.0, "standing": 0} if here else {})
                row |= {f"{launch.label}_{what}": seen.get(what) for what in ("calls", "s", "standing")}
                row[f"{launch.label}_per_s"] = seen["calls"] / one.span_s if seen and one.span_s else None
            rows.append(row)
    labels = [launch.label for launch in launches]
    columns = ["process", "syscall", *(f"{label}_{what}" for label in labels for what in ("calls", "per_s", "s", "standing"))]
    types = {name: float if name.endswith("_s") else "Int64" for name in columns} | {"process": "str", "syscall": "str"}
    return table_of(rows, columns, types)


def stacks(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    """Place of each thread by rank or role and thread name: the main thread first; of several of one name the commonest place."""
    found = [_by_thread(launch) for launch in launches]
    keys = set().union(*found)
    names = order({process for process, _ in keys})
    rows = []
    for process, thread in sorted(keys, key=lambda key: (names.index(key[0]), key[1] != MAIN, key[1])):
        here = [own.get((process, thread), []) for own in found]
        row: dict[str, Any] = {"process": process, "thread": thread}
        common = [Counter(stack.key for stack in stacks).most_common(1)[0][0] if stacks else None for stacks in here]
        for launch, stacks_here, key in zip(launches, here, common, strict=True):
            first = next((stack for stack in stacks_here if stack.key == key), None)
            row |= {
                launch.label: first.place if first else None,
                f"{launch.label}_does": first.category if first else None,
                f"{launch.label}_threads": len(stacks_here) or None,
                f"{launch.label}_where": f"{first.rows[0]['capture']}:{first.rows[0].get('line')}" if first else None,
            }
        known = [key for key in common if key is not None]
        row["same"] = None if len(known) < 2 else len(set(known)) == 1
        rows.append(row)
    labels = [launch.label for launch in launches]
    columns = [
        "process",
        "thread",
        *labels,
        "same",
        *(f"{label}_{what}" for what in ("does", "threads", "where") for label in labels),
    ]
    types = dict.fromkeys(columns, "str") | {"same": "boolean"} | {f"{label}_threads": "Int64" for label in labels}
    return table_of(rows, columns, types)


def _by_thread(launch: ComparedLaunch) -> dict[tuple[str, str], list[Stack]]:
    found: dict[tuple[str, str], list[Stack]] = {}
    for stack in all_stacks(launch.evidence):
        if stack.rows:
            main = stack.thread == "MainThread" or (stack.tid is not None and stack.tid == stack.pid)
            thread = MAIN if main else thread_name(stack.thread) or "(no name)"
            found.setdefault((launch.process(stack.pid), thread), []).append(stack)
    return found
