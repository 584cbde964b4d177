"""NCCL RAS and the flight recorder."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from kit.errors import EvidenceError
from kit.frames import FRAMES
from kit.parse import recognise
from kit.parse.collectives import FORMATS, read_flight_recorder

DATA = Path(__file__).resolve().parent.parent / "data" / "collectives"
ENTRIES = [
    {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": n,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "record_id": n,
        "state": state,
        "is_p2p": False,
        "time_created_ns": 1724779239936775119 + n,
    }
    for n, state in ((4, "completed"), (5, "started"), (6, "scheduled"))
]
DUMP = {"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "entries": ENTRIES}


def test_a_mismatch_names_the_rank_behind_and_the_others(snapshot) -> None:
    text = (DATA / "ras-mismatch.txt").read_text()
    rows, report = snapshot(FORMATS, "ncclras", text)
    counts = {row["rank"]: (row["operation"], row["count"]) for row in rows["collectives"] if row["rank"] is not None}
    assert counts == {rank: ("AllReduce", 60 if rank == 7 else 64) for rank in range(8)}
    assert [row["state"] for row in rows["collectives"] if row["communicator"] == "group 0"] == ["mismatch"]
    assert not report.reasons and recognise("x", text)[0] == "ncclras"


def test_two_queries_are_two_moments(snapshot) -> None:
    text = (DATA / "ras-mismatch.txt").read_text()
    rows, _ = snapshot(FORMATS, "ncclras", text + text.replace("64", "70"))
    last = [(row["moment"], row["count"]) for row in rows["collectives"] if row["rank"] == 0]
    assert last == [(0, 64), (1, 70)]


def test_missing_and_dead_processes(snapshot) -> None:
    text = (
        "Communicators... (2.05s)\n=============\n\nErrors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via "
        "the RAS network)\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n  The missing rank: 21\n"
    )
    rows, report = snapshot(FORMATS, "ncclras", text)
    assert [(row["rank"], row["state"]) for row in rows["collectives"]] == [
        (None, "unresponsive"),
        (None, "missing"),
        (21, "missing"),
    ]
    assert not report.reasons


def test_json_without_a_comma_and_cut(snapshot) -> None:
    text = (DATA / "ras.json").read_text()
    rows, _ = snapshot(FORMATS, "ncclras", text)
    assert [(row["rank"], row["state"], row.get("count")) for row in rows["collectives"]] == [
        (None, "missing", None),
        (0, "mismatch", 12),
        (1, "mismatch", 11),
        (2, "unresponsive", None),
    ]
    assert recognise("x", text)[0] == "ncclras"
    rows, _ = snapshot(FORMATS, "ncclras", text[: text.index('"missing_ranks":')])
    assert {row["rank"]: row["count"] for row in rows["collectives"]} == {0: 12, 1: 11}


def test_analyses_of_old_and_new_versions(snapshot) -> None:
    new = (
        "Not all ranks joining collective, sequence number: 4\ninternal record id: 3\ngroup info: 0:default_pg\n"
        "collective: nccl:all_reduce\nmissing ranks: {1, 2}\ncollective state: scheduled\n"
        "Collective sequence number: 9 has errors\ncollective: nccl:barrier\nerror msg: Culprit rank 3; Error type: "
        "COLLECTIVE_TYPE_MISMATCH\n"
    )
    rows, report = snapshot(FORMATS, "fr_analysis", new)
    assert [(row["rank"], row["state"], row["count"], row["operation"]) for row in rows["collectives"]] == [
        (None, "missing", 4, "nccl:all_reduce"),
        (1, "missing", None, "nccl:all_reduce"),
        (2, "missing", None, "nccl:all_reduce"),
        (None, "mismatch", 9, "nccl:barrier"),
        (3, "mismatch", 9, "nccl:barrier"),
    ]
    assert not report.reasons and recognise("x", new)[0] == "fr_analysis"
    old = "Not all ranks joining collective for group 0:default_pg collective nccl:all_reduce Missing ranks are {1}\n"
    rows, _ = snapshot(FORMATS, "fr_analysis", old)
    assert [(row["rank"], row["communicator"]) for row in rows["collectives"]] == [(None, "0:default_pg"), (1, "0:default_pg")]


def test_a_recorder_dump_gives_the_first_that_waits_and_the_last(snapshot, tmp_path: Path) -> None:
    text = json.dumps(DUMP, indent=1)
    rows, _ = snapshot(FORMATS, "fr_json", text, name="nccl_trace_rank_3.json")
    found = [(row["rank"], row["count"], row["state"]) for row in rows["collectives"]]
    assert found == [(3, 5, "started"), (3, 6, "scheduled")] and recognise("x", text)[0] == "fr_json"
    path = tmp_path / "nccl_trace_rank_3"
    path.write_bytes(pickle.dumps(DUMP))
    again = [row for _, row in read_flight_recorder(path)]
    assert [(row["rank"], row["count"], row["state"]) for row in again] == found
    for row in again:
        FRAMES["collectives"].check(row)


class _Evil:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_a_dump_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": [_Evil(tmp_path / "made")]}))
    with pytest.raises(EvidenceError, match="mkdir"):
        list(read_flight_recorder(path))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps(DUMP)[:50]])
def test_a_broken_dump_is_an_error_that_speaks(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(content)
    with pytest.raises(EvidenceError):
        list(read_flight_recorder(path))
