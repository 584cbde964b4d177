"""Counts of collective operations by communicator and moment, from NCCL RAS, flight recorders and desync reports.

Some sources name each rank, others only say how many ranks stand at which count; both end in one table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict.evidence import Evidence
from kit.schema import Row

_MANY = re.compile(r"^\s*(\d+) ranks? ha(?:s|ve) launched up to")


@dataclass
class Counts:
    """One communicator at one moment."""

    ranks_at: dict[int, int] = field(default_factory=dict)  # number of ranks by count
    of_rank: dict[int, int] = field(default_factory=dict)  # count by rank, for the ranks that are named
    rows: list[Row] = field(default_factory=list)  # where it stands

    @property
    def size(self) -> int:
        """Ranks counted."""
        return max(sum(self.ranks_at.values()), len(self.of_rank))

    @property
    def common(self) -> int:
        """Count at which most ranks stand, the highest of equals."""
        return max(self.distinct, key=lambda count: (self.distinct[count], count))

    @property
    def distinct(self) -> dict[int, int]:
        """Number of ranks by count, whichever source tells more."""
        named: dict[int, int] = {}
        for count in self.of_rank.values():
            named[count] = named.get(count, 0) + 1
        return self.ranks_at if sum(self.ranks_at.values()) >= len(self.of_rank) else named

    @property
    def behind(self) -> list[int]:
        """Named ranks below the common count."""
        return sorted(rank for rank, count in self.of_rank.items() if count < self.common)


def counts(evidence: Evidence) -> dict[tuple[str, str], list[Counts]]:
    """Table of counts: for each communicator and operation its moments in order, those without any count left out."""
    found: dict[tuple[str, str], dict[int, Counts]] = {}
    for row in evidence.collectives:
        if row.get("count") is None or row["source"] == "recorder_status":
            continue
        moments = found.setdefault((row.get("communicator") or "", row.get("operation") or ""), {})
        entry = moments.setdefault(row.get("moment") or 0, Counts())
        entry.rows.append(row)
        many = _MANY.match(row.get("text") or "")
        if row.get("rank") is not None:
            entry.of_rank[row["rank"]] = row["count"]
        elif many:
            entry.ranks_at[row["count"]] = entry.ranks_at.get(row["count"], 0) + int(many.group(1))
    return {name: [moments[key] for key in sorted(moments)] for name, moments in found.items()}


def moves(moments: list[Counts]) -> bool:
    """Whether the counts grew between the first and the last moment: then a difference between ranks is healthy."""
    return len(moments) >= 2 and max(moments[-1].distinct) > max(moments[0].distinct)


def settled(moments: list[Counts]) -> bool:
    """Whether a difference between ranks means something: seen twice without movement, or written at the end of a run.

    One query of NCCL RAS shows ranks that work at different counts; a flight recorder or a desync report is written when a
    collective has timed out.
    """
    once = len(moments) < 2 and any(row["source"] == "ncclras" for row in moments[-1].rows)
    return not once and not moves(moments)


def largest(evidence: Evidence) -> list[Counts]:
    """Moments of the communicator with the most ranks, of the operation in which they differ; empty without any."""
    return max(counts(evidence).values(), key=lambda moments: (moments[-1].size, len(moments[-1].distinct)), default=[])
