"""What flight recorders of all ranks say together: whose host stopped, whose device no longer completes.

The rule: a rank whose recorder has nothing pending while its peers' have stopped on the host. Else, over the groups that two
ranks or more report, a rank whose last *completed* number is below its group's highest in several groups has a device
that stopped. Groups of sends and receives are left out: each pair counts for itself. Checked on runs with injected faults,
where "who is missing in the first collective that stands" alone misses ranks that had enqueued it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from kit.analyse.verdict.evidence import Evidence, ref
from kit.schema import Row

LEAST_GROUPS = 2
"""A device is behind where it is in so many groups; in one group a healthy rank may be between two collectives."""


@dataclass(frozen=True)
class Fault:
    """Ranks at fault and why: `host` stopped, or `device` no longer completes."""

    kind: str
    ranks: list[int]
    rows: list[Row]
    waiting: int

    @property
    def refs(self) -> list[dict]:
        """Where it stands."""
        return [ref(row, row.get("text")) for row in self.rows[:3]]


def fault(evidence: Evidence) -> Fault | None:
    """The ranks that the recorders of all others wait for; None where they do not single out a minority."""
    rows = [row for row in evidence.collectives if row["source"] == "recorder_status" and row.get("rank") is not None]
    pending = {row["rank"]: row for row in rows if row["operation"] == "pending"}
    if len(pending) < 2:
        return None
    stopped = sorted(rank for rank, row in pending.items() if not row["count"])
    waiting = len(pending) - len(stopped)
    if stopped and waiting > len(stopped):
        return Fault("host", stopped, [pending[rank] for rank in stopped], waiting)
    behind = _behind(rows)
    most = max((len(found) for found in behind.values()), default=0)
    late = sorted(rank for rank, found in behind.items() if len(found) > most / 2)
    if most >= LEAST_GROUPS and 2 * len(late) < len(pending):
        return Fault("device", late, [row for rank in late for row in behind[rank][:1]], len(pending) - len(late))
    return None


def _behind(rows: list[Row]) -> dict[int, list[Row]]:
    """By rank its counters of completed collectives that are below the highest of their group."""
    pairwise = {row.get("communicator") for row in rows if row.get("state") == "p2p"}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["operation"] == "last completed" and row.get("communicator") not in pairwise:
            groups[row["communicator"]].append(row)
    behind: dict[int, list[Row]] = defaultdict(list)
    for members in groups.values():
        highest = max(row["count"] for row in members)
        for row in members:
            if row["count"] < highest:
                behind[row["rank"]].append(row)
    return behind


def other_work(evidence: Evidence) -> list[Row]:
    """Entries of the same number in the same group in which ranks are in different operations, one of each; empty without any."""
    at: dict[tuple, dict[str, Row]] = defaultdict(dict)
    for row in evidence.collectives:
        told = row["source"] == "flight_recorder" and row.get("rank") is not None and row.get("count") is not None
        if told and row.get("state") != "completed":
            at[row.get("moment"), row["communicator"], row["count"]].setdefault(row["operation"], row)
    return next((list(rows.values()) for rows in at.values() if len(rows) > 1), [])


def analysed(evidence: Evidence) -> Row | None:
    """The first collective that the analysis of dumps finds at fault."""
    return next(
        (
            row
            for row in evidence.collectives
            if row["source"] == "flight_recorder" and row.get("rank") is None and row.get("state") in ("mismatch", "missing")
        ),
        None,
    )


def world_size(evidence: Evidence) -> int | None:
    """Number of ranks of the default process group, as most dumps tell it."""
    told = Counter(row["count"] for row in evidence.collectives if row.get("operation") == "world size")
    return told.most_common(1)[0][0] if told else None
