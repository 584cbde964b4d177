"""PyTorch's desync report in a file of its own."""

from __future__ import annotations

from pathlib import Path

from kit.parse.desync import FORMATS, looks_like_desync

REPORT = """\t - [0] Timeout at collective: ALLREDUCE, #311
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t   - [7] finished collective #180, but didn't join collective #181 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #180 finished ranks:
\t     [7] finished ALLREDUCE
\t   #311 started ranks:
\t     [0, 1, 2] started ALLREDUCE
\t   #313 started ranks:
\t     [3-6] started _ALLGATHER_BASE
"""


def test_ranks_and_counts(snapshot):
    rows, report = snapshot(FORMATS, "desync", REPORT)
    found = [(row["rank"], row["count"], row["state"], row["operation"]) for row in rows["collectives"]]
    assert found[:3] == [(0, 311, "timed_out", "ALLREDUCE"), (7, 180, "missing", None), (7, 180, "finished", "ALLREDUCE")]
    assert found[3:] == [(rank, 311, "started", "ALLREDUCE") for rank in (0, 1, 2)] + [
        (rank, 313, "started", "_ALLGATHER_BASE") for rank in (3, 4, 5, 6)
    ]
    assert report.reasons == {}


def test_a_log_that_holds_a_report_stays_a_log():
    assert looks_like_desync(REPORT) > 0.9
    log = Path(__file__).resolve().parent.parent / "data" / "logs" / "desync.log"
    assert looks_like_desync(log.read_text()) == 0.0
