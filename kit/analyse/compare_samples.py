"""Memory and threads of two launches at the same second: read once, in bounded memory, matched by rank or role."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.schema import Row

if TYPE_CHECKING:
    import pandas

    from kit.analyse.compare import Side

PARTS = ("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "rss_bytes")
ROLES = ("frontend", "engine", "compiler", "helper", "other")
ANY = "any"
"""State under which the number of threads stands that a process tells of itself."""
MOST_SAMPLES = 2000
"""Moments kept of a run: more are thinned to every second one, and again, so that memory does not grow with its length."""


@dataclass
class Samples:
    """Samples of one launch by moment.

    Attributes
    ----------
    memory : dict
        By time in seconds on the common axis (None: not known), then by pid: bytes of each part.
    threads : dict
        By time, then pid, then tool: threads by state.
    names : dict of int to str
        Rank or role of each pid.
    """

    label: str
    names: dict[int, str]
    memory: dict[float | None, dict[int, dict[str, int]]] = field(default_factory=dict)
    threads: dict[float | None, dict[int, dict[str, Counter]]] = field(default_factory=dict)


def read(side: Side) -> Samples:
    """Read the samples of one launch."""
    names = {
        pid: f"rank {process.rank}" if process.rank is not None else process.role for pid, process in side.cast.processes.items()
    }
    found = Samples(side.label, names)
    alone = side.end_ns if side.run.captured_by != "file time" else None

    def moment(row: Row) -> float | None:
        when = row.get("time") if row.get("time") is not None else alone
        seconds = side.seconds(when)
        return None if seconds is None else round(seconds, 1)

    def process(row: Row) -> None:
        parts = {part: row[part] for part in PARTS if row.get(part) is not None}
        at = moment(row)
        if parts:
            own = found.memory.setdefault(at, {}).setdefault(row["pid"], {})
            own.update(parts if len(parts) > 1 or not own else {})
            _thin(found.memory)
        if row.get("threads") is not None:
            found.threads.setdefault(at, {}).setdefault(row["pid"], {})["own"] = Counter({ANY: row["threads"]})

    def thread(row: Row) -> None:
        if row.get("state") and row.get("pid") is not None:
            by_tool = found.threads.setdefault(moment(row), {}).setdefault(row["pid"], {})
            by_tool.setdefault(row.get("tool") or "", Counter())[row["state"]] += 1
            _thin(found.threads)

    side.run.scan({"processes": process, "threads": thread})
    return found


def _thin(by_time: dict) -> None:
    if len(by_time) > MOST_SAMPLES:
        for at in [at for at in by_time if at is not None][1:-1:2]:
            del by_time[at]


def _shared_end(sides: list[dict]) -> float | None:
    """The last second of which both have samples."""
    ends = [max((at for at in by_time if at is not None), default=None) for by_time in sides]
    return min(ends) if None not in ends else None


def _at(
    by_time: dict[float | None, dict[int, Any]], second: float | None, names: dict[int, str]
) -> dict[str, tuple[float | None, list]]:
    """For each rank or role the samples of its processes nearest to a second: (time, samples)."""
    near = sorted(by_time, key=lambda at: (at is None, abs(at - second) if at is not None and second is not None else -(at or 0)))
    found: dict[str, tuple[float | None, list]] = {}
    for at in near:
        here: dict[str, list] = {}
        for pid, sample in by_time[at].items():
            here.setdefault(names.get(pid, "other"), []).append(sample)
        for name, samples in here.items():
            found.setdefault(name, (at, samples))
    return found


def _order(names: set[str]) -> list[str]:
    """Ranks by number, then roles."""
    return sorted(names, key=lambda name: (0, int(name.split()[1])) if name.startswith("rank ") else (1, ROLES.index(name)))


def memory(samples: list[Samples]) -> pandas.DataFrame:
    """Memory of both launches at the last second that both were sampled; of several processes of a role the largest."""
    import pandas as pd

    second = _shared_end([one.memory for one in samples])
    found = [_at(one.memory, second, one.names) for one in samples]
    rows = []
    for name in _order(set(found[0]) | set(found[1])):
        row: dict[str, Any] = {"process": name}
        for one, own in zip(samples, found, strict=True):
            at, here = own.get(name, (None, []))
            largest = max(here, key=lambda parts: parts.get("rss_anon_bytes", parts.get("rss_bytes", 0)), default={})
            row |= {f"{one.label}_{part}": largest.get(part) for part in PARTS} | {
                f"{one.label}_t_s": at,
                f"{one.label}_processes": len(here),
            }
        rows.append(row)
    columns = [
        "process",
        *(f"{label}_{part}" for part in PARTS for label in "ab"),
        "a_t_s",
        "b_t_s",
        "a_processes",
        "b_processes",
    ]
    types = {name: "Int64" for name in columns} | {"process": "str", "a_t_s": float, "b_t_s": float}
    return pd.DataFrame(rows, columns=columns).astype(types)


def threads(samples: list[Samples]) -> pandas.DataFrame:
    """Threads by state at the last second that both were sampled; of several tools the one that saw most."""
    import pandas as pd

    rows = []
    for wanted in ("states", ANY):
        parts = [_only(one.threads, wanted) for one in samples]
        second = _shared_end(parts)
        found = [_at(part, second, one.names) for part, one in zip(parts, samples, strict=True)]
        for name in _order(set(found[0]) | set(found[1])):
            own = [side.get(name, (None, [])) for side in found]
            counts = [
                sum((max(by_tool.values(), key=lambda seen: seen.total()) for by_tool in here), Counter()) for _, here in own
            ]
            for state in sorted(counts[0].keys() | counts[1].keys()):
                values = [count.get(state, 0) if here else None for count, (_, here) in zip(counts, own, strict=True)]
                rows.append(
                    {"process": name, "state": state, "a": values[0], "b": values[1], "a_t_s": own[0][0], "b_t_s": own[1][0]}
                )
    frame = pd.DataFrame(rows, columns=["process", "state", "a", "b", "a_t_s", "b_t_s"])
    return frame.astype({"process": "str", "state": "str", "a": "Int64", "b": "Int64", "a_t_s": float, "b_t_s": float})


def _only(by_time: dict, wanted: str) -> dict:
    """Samples of the states of single threads, or of the numbers that processes tell."""
    found: dict = {}
    for at, pids in by_time.items():
        for pid, by_tool in pids.items():
            kept = {tool: seen for tool, seen in by_tool.items() if (tool == "own") == (wanted == ANY)}
            if kept:
                found.setdefault(at, {})[pid] = kept
    return found


def series(samples: list[Samples]) -> pandas.DataFrame:
    """Memory over time, a row a moment and rank or role: the process with the most anonymous memory."""
    import pandas as pd

    rows = []
    for one in samples:
        for at, pids in one.memory.items():
            largest: dict[str, dict[str, int]] = {}
            for pid, parts in pids.items():
                name = one.names.get(pid, "other")
                if parts.get("rss_bytes", 0) >= largest.get(name, {}).get("rss_bytes", 0):
                    largest[name] = parts
            rows += [{"run": one.label, "process": name, "t_s": at, **parts} for name, parts in largest.items()]
    frame = pd.DataFrame(rows, columns=["run", "process", "t_s", *PARTS])
    frame = frame.astype({"run": "str", "process": "str", "t_s": float, **dict.fromkeys(PARTS, "Int64")})
    return frame.sort_values(["run", "process", "t_s"], kind="stable", ignore_index=True)
