"""Memory and threads of launches at the same second: kept in bounded memory while a run is read, matched by rank or role."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.schema import Row, table_of

if TYPE_CHECKING:
    import pandas

    from kit.analyse.launches.compared_launch import ComparedLaunch

PARTS = ("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "rss_bytes")
ROLES = ("worker", "frontend", "engine", "compiler", "helper", "other")
ANY = "any"
"""State under which the number of threads stands that a process tells of itself."""
MOST_SAMPLES = 2000
"""Moments kept of a run: more are thinned to every second one, and again, so that memory does not grow with its length."""
MOMENT_NS = 100_000_000
"""Rows of one moment are at most this far apart."""
MOST_CALLS = 3
"""System calls named of a group of threads."""
Thread = tuple[str, str, str | None]
"""(name without numbers, state, system call)"""


@dataclass
class Samples:
    """Samples of one launch by moment."""

    # by time (UTC nanoseconds, None: not known), then by pid: bytes of each part
    memory: dict[int | None, dict[int, dict[str, int]]] = field(default_factory=dict)
    # by time, then pid, then tool: threads by name, state and system call
    threads: dict[int | None, dict[int, dict[str, Counter]]] = field(default_factory=dict)
    pid_of: dict[int, int] = field(default_factory=dict)  # process of each thread

    def add_process(self, row: Row) -> None:
        """Take one row of frame `processes`."""
        parts = {part: row[part] for part in PARTS if row.get(part) is not None}
        at = _moment(row)
        if parts:
            own = self.memory.setdefault(at, {}).setdefault(row["pid"], {})
            own.update(parts if len(parts) > 1 or not own else {})
            _thin(self.memory)
        if row.get("threads") is not None:
            self.threads.setdefault(at, {}).setdefault(row["pid"], {})["own"] = Counter({("", ANY, None): row["threads"]})

    def whole_memory(self) -> dict[int | None, dict[int, dict[str, int]]]:
        """Memory by its parts; what `ps` says, the sum alone, counts only for processes whose parts nobody read."""
        parted = {pid for pids in self.memory.values() for pid, parts in pids.items() if len(parts) > 1}
        return {
            at: {pid: parts for pid, parts in pids.items() if len(parts) > 1 or pid not in parted}
            for at, pids in self.memory.items()
        }

    def add_thread(self, row: Row) -> None:
        """Take one row of frame `threads`."""
        if row.get("pid") is None:
            return
        self.pid_of[row["tid"]] = row["pid"]
        if row.get("state"):
            by_tool = self.threads.setdefault(_moment(row), {}).setdefault(row["pid"], {})
            thread = (thread_name(row.get("comm")), row["state"], row.get("syscall"))
            by_tool.setdefault(row.get("tool") or "", Counter())[thread] += 1
            _thin(self.threads)


def thread_name(name: str | None) -> str:
    """Name of a thread without its numbers, so that those of one purpose count together.

    Examples
    --------
    >>> thread_name("cuda00002400018"), thread_name("ZMQbg/IO/0"), thread_name(None)
    ('cuda#', 'ZMQbg/IO/#', '')
    """
    return re.sub(r"\d+", "#", name or "")


def _moment(row: Row) -> int | None:
    return None if row.get("time") is None else row["time"] // MOMENT_NS * MOMENT_NS


def _thin(by_time: dict) -> None:
    if len(by_time) > MOST_SAMPLES:
        for at in [at for at in by_time if at is not None][1:-1:2]:
            del by_time[at]


@dataclass
class _Placed:
    """Samples of one launch on the common axis, by rank or role."""

    launch: ComparedLaunch
    samples: Samples

    def timed(self, by_time: dict) -> dict[float | None, dict[int, Any]]:
        """By seconds; what has no time of its own was taken when the capture was."""
        known = self.launch.run.captured_known
        found: dict[float | None, dict] = {}
        for at, pids in by_time.items():
            seconds = self.launch.seconds(at if at is not None else self.launch.end_ns if known else None)
            found.setdefault(None if seconds is None else round(seconds, 1), {}).update(pids)
        return found

    def near(self, by_time: dict[float | None, dict], second: float | None) -> dict[str, tuple[float | None, list]]:
        """For each rank or role the samples of its processes nearest to a second: (time, samples)."""
        order = sorted(
            by_time, key=lambda at: (at is None, abs(at - second) if at is not None and second is not None else -(at or 0))
        )
        found: dict[str, tuple[float | None, list]] = {}
        for at in order:
            here: dict[str, list] = {}
            for pid, sample in by_time[at].items():
                here.setdefault(self.launch.process(pid), []).append(sample)
            for name, samples in here.items():
                found.setdefault(name, (at, samples))
        return found


Placed = list[_Placed]


def place(launches: list[ComparedLaunch], samples: list[Samples]) -> Placed:
    """Put samples on the common axis."""
    return [_Placed(launch, one) for launch, one in zip(launches, samples, strict=True)]


def _shared_end(by_times: list[dict]) -> float | None:
    """The last second of which all that were sampled have samples."""
    ends = [max((at for at in by_time if at is not None), default=None) for by_time in by_times if by_time]
    return min(ends) if ends and None not in ends else None


def order(names: set[str]) -> list[str]:
    """Ranks by number, then roles."""
    return sorted(names, key=lambda name: (0, int(name.split()[1])) if name.startswith("rank ") else (1, ROLES.index(name)))


def _same_second(placed: Placed, by_times: list[dict]) -> Iterator[tuple[str, list[tuple[float | None, list]]]]:
    """Each rank or role with its samples in every launch, nearest to the last second that all were sampled."""
    second = _shared_end(by_times)
    found = [one.near(by_time, second) for one, by_time in zip(placed, by_times, strict=True)]
    for name in order(set().union(*found)):
        yield name, [own.get(name, (None, [])) for own in found]


def memory(placed: Placed) -> pandas.DataFrame:
    """Memory of the launches at the last second that all were sampled; of several processes of a role the largest."""
    rows = []
    for name, own in _same_second(placed, [one.timed(one.samples.whole_memory()) for one in placed]):
        row: dict[str, Any] = {"process": name}
        for one, (at, here) in zip(placed, own, strict=True):
            label = one.launch.label
            largest = max(here, key=lambda parts: parts.get("rss_anon_bytes", parts.get("rss_bytes", 0)), default={})
            row |= {f"{label}_{part}": largest.get(part) for part in PARTS}
            row |= {f"{label}_t_s": at, f"{label}_processes": len(here)}
        rows.append(row)
    labels = [one.launch.label for one in placed]
    columns = ["process", *(f"{label}_{what}" for what in (*PARTS, "t_s", "processes") for label in labels)]
    types = {name: "Int64" for name in columns} | {f"{label}_t_s": float for label in labels} | {"process": "str"}
    return table_of(rows, columns, types)


def _counted(here: list[dict[str, Counter]]) -> Counter:
    """Threads of the processes of a role; of several tools the one that saw most."""
    return sum((max(by_tool.values(), key=lambda seen: seen.total()) for by_tool in here), Counter())


def threads(placed: Placed) -> pandas.DataFrame:
    """Threads by state at the last second that all were sampled."""
    rows = []
    for own_count in (False, True):
        for name, own in _same_second(placed, [one.timed(_only(one.samples.threads, own_count)) for one in placed]):
            counts = []
            for _, here in own:
                by_state: Counter = Counter()
                for (_, state, _), number in _counted(here).items():
                    by_state[state] += number
                counts.append(by_state)
            for state in sorted(set().union(*counts)):
                row = {"process": name, "state": state}
                for one, (at, here), count in zip(placed, own, counts, strict=True):
                    row |= {one.launch.label: count.get(state, 0) if here else None, f"{one.launch.label}_t_s": at}
                rows.append(row)
    labels = [one.launch.label for one in placed]
    columns = ["process", "state", *labels, *(f"{label}_t_s" for label in labels)]
    types = {name: float for name in columns} | dict.fromkeys(labels, "Int64") | {"process": "str", "state": "str"}
    return table_of(rows, columns, types)


def thread_names(placed: Placed) -> pandas.DataFrame:
    """Threads by name, and the system calls they were in, at the last second that all were sampled."""
    rows = []
    for name, own in _same_second(placed, [one.timed(_only(one.samples.threads, False)) for one in placed]):
        counts = [_counted(here) for _, here in own]
        for thread in sorted({thread for count in counts for thread, _, _ in count}):
            row: dict[str, Any] = {"process": name, "thread": thread or "(no name)"}
            for one, (at, here), count in zip(placed, own, counts, strict=True):
                calls: Counter = Counter()
                for (found, _, call), number in count.items():
                    if found == thread:
                        calls[call] += number
                label = one.launch.label
                named = [f"{call} {number}" for call, number in calls.most_common(MOST_CALLS) if call is not None]
                row |= {label: calls.total() if here else None, f"{label}_calls": ", ".join(named) or None, f"{label}_t_s": at}
            rows.append(row)
    labels = [one.launch.label for one in placed]
    columns = ["process", "thread", *labels, *(f"{label}_{what}" for what in ("calls", "t_s") for label in labels)]
    types = dict.fromkeys(columns, "str") | dict.fromkeys(labels, "Int64") | {f"{label}_t_s": float for label in labels}
    return table_of(rows, columns, types)


def _only(by_time: dict, own_count: bool) -> dict:
    """Samples of single threads, or of the numbers that processes tell."""
    found: dict = {}
    for at, pids in by_time.items():
        for pid, by_tool in pids.items():
            kept = {tool: seen for tool, seen in by_tool.items() if (tool == "own") == own_count}
            if kept:
                found.setdefault(at, {})[pid] = kept
    return found


def series(placed: Placed) -> pandas.DataFrame:
    """Memory over time, a row a moment and rank or role: the process with the most resident memory."""
    rows = []
    for one in placed:
        for at, pids in one.timed(one.samples.whole_memory()).items():
            largest: dict[str, dict[str, int]] = {}
            for pid, parts in pids.items():
                name = one.launch.process(pid)
                if parts.get("rss_bytes", 0) >= largest.get(name, {}).get("rss_bytes", 0):
                    largest[name] = parts
            rows += [{"run": one.launch.label, "process": name, "t_s": at, **parts} for name, parts in largest.items()]
    frame = table_of(rows, ["run", "process", "t_s", *PARTS])
    frame = frame.astype({"run": "str", "process": "str", "t_s": float, **dict.fromkeys(PARTS, "Int64")})
    return frame.sort_values(["run", "process", "t_s"], kind="stable", ignore_index=True)
