"""PyTorch's desync report (`TORCH_NCCL_DESYNC_DEBUG=1`) in a file of its own; inside a log it is the log reader's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import body_lines, titled
from kit.untrusted import MOST_RANKS, ranks_in

_DESYNC = (
    ("timed_out", re.compile(r"- \[(?P<ranks>[\d, -]+)\] Timeout at collective: (?P<operation>[\w:]+), #(?P<count>\d+)")),
    ("missing", re.compile(r"- \[(?P<ranks>[\d, -]+)\] finished collective #(?P<count>\d+), but didn't join collective #\d+")),
    ("started", re.compile(r"- \[(?P<ranks>[\d, -]+)\] joined but didn't finish collective #(?P<count>\d+)")),
)
_SNAPSHOT = re.compile(r"^\s*#(?P<count>\d+) (?P<state>started|finished) ranks:")
_IN_SNAPSHOT = re.compile(r"^\s*\[(?P<ranks>[\d, -]+)\] (?:started|finished) (?P<operation>[\w:]+)")
_DESYNC_TITLE = re.compile(
    r"the lagging/dead/mismatched ranks that caused the desync|Snapshot of ranks' latest states|^\s*Rank \d+\s*$"
)


def parse_desync(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read PyTorch's desync report (`TORCH_NCCL_DESYNC_DEBUG=1`) where it stands in a file of its own.

    Examples
    --------
    >>> sample = [" - [7] finished collective #180, but didn't join collective #181 (count from 1)", "   #311 started ranks:",
    ...     "     [0, 1] started ALLREDUCE"]
    >>> [(row["rank"], row["count"], row["state"]) for _, row in parse_desync(sample, Source("desync.txt"), Report())]
    [(7, 180, 'missing'), (0, 311, 'started'), (1, 311, 'started')]
    """
    snapshot: re.Match[str] | None = None
    for line in titled(lines, source, report):
        state, found = next(((state, hit) for state, pattern in _DESYNC if (hit := pattern.search(line.text))), (None, None))
        if begins := _SNAPSHOT.match(line.text):
            snapshot = begins
            continue
        count = found.groupdict().get("count") if found else None
        if not found and snapshot and (found := _IN_SNAPSHOT.match(line.text)):
            state, count = snapshot["state"], snapshot["count"]
        if not found:
            if line.text.strip() and not _DESYNC_TITLE.search(line.text):
                report.odd("no line of a desync report", line.text)
            continue
        for rank in ranks_in(found["ranks"], MOST_RANKS - report.records):
            report.records += 1
            row = {"source": "desync", "rank": rank, "count": int(count), "state": state, "text": line.text.strip()}
            row["operation"] = found.groupdict().get("operation")
            yield "collectives", row | {**line.at, "moment": source.moment}


def looks_like_desync(head: str) -> float:
    """Score of a head as a desync report and little else: inside a log it is the log's."""
    lines = body_lines(head)
    known = [line for line in lines if any(pattern.search(line) for _, pattern in _DESYNC) or _SNAPSHOT.match(line)
             or _IN_SNAPSHOT.match(line) or _DESYNC_TITLE.search(line)]  # fmt: skip
    return 0.95 if len(known) >= 2 and len(known) >= 0.7 * len(lines) else 0.0


FORMATS = (Format("desync", r"desync", looks_like_desync, parse_desync, frames=("collectives",)),)
