"""NCCL RAS and the flight recorder."""

from __future__ import annotations

from pathlib import Path

from kit.parse import recognise
from kit.parse.collectives import FORMATS

DATA = Path(__file__).resolve().parent.parent / "data" / "collectives"


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
