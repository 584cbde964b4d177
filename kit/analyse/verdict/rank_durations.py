"""How long the same work took each rank, by what the ranks print of it: a few that took many times as long held up the others."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.thresholds import thresholds
from kit.schema import Row

_TOOK = re.compile(r"\b(?:after|took|in|elapsed|time)\b[ =:(]*(?P<count>\d+(?:\.\d+)?) ?(?P<unit>ms|s|secs?|seconds?|min)\b")
_SECONDS = {"ms": 0.001, "min": 60.0}


@dataclass(frozen=True)
class Slow:
    """Ranks that took many times as long: seconds and the record of each, the number of the others and what they took."""

    took: dict[int, float]
    rows: dict[int, Row]
    others: int
    usual_s: float


def slow(evidence: Evidence) -> Slow | None:
    """The few ranks that took many times as long as the others for the same; None where none stands out."""
    limits = thresholds(evidence.run.knowledge)
    for rows in evidence.log.of_ranks.values():
        took = {rank: seconds for rank, row in rows.items() if (seconds := _took(row["text"])) is not None}
        if len(took) < limits["least_ranks_timed"]:
            continue
        usual = statistics.median(took.values())
        least = max(limits["slow_rank_times"] * usual, usual + limits["lag_s"])
        late = {rank: seconds for rank, seconds in sorted(took.items()) if seconds > least}
        if late and 4 * len(late) <= len(took):
            return Slow(late, {rank: rows[rank] for rank in late}, len(took) - len(late), usual)
    return None


def outlasting(evidence: Evidence, seconds: float, but: set[int | None]) -> dict[int, tuple[float, Row]]:
    """Ranks that say that one thing took them longer than that, but for some: the seconds and the record of each."""
    found: dict[int, tuple[float, Row]] = {}
    for rows in evidence.log.of_ranks.values():
        for rank, row in rows.items():
            took = _took(row["text"]) or 0.0
            if rank not in but and took > max(seconds, found.get(rank, (0.0, row))[0]):
                found[rank] = took, row
    return found


def _took(text: str) -> float | None:
    """Seconds that a record says something took."""
    found = _TOOK.search(text)
    return float(found["count"]) * _SECONDS.get(found["unit"], 1.0) if found else None
