"""Dumps of PyTorch's flight recorder: what each says, what all say together, and that nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path

import pytest

import kit
from kit.parse import formats, recognise
from kit.parse.base import Report, Source

TENSOR, PIPE = ("35", "TENSOR_MODEL_PARALLEL_GROUP"), ("43", "PIPELINE_MODEL_PARALLEL_GROUP")


def entry(group: tuple[str, str] = TENSOR, number: int = 5, state: str = "scheduled", **more) -> dict:
    base = {"pg_id": 1, "process_group": group, "collective_seq_id": number, "profiling_name": "nccl:all_reduce", "state": state}
    return base | {"time_created_ns": 1_771_378_393_000_000_000, "is_p2p": False} | more


def dump(entries: list[dict], enqueued: dict[str, int], completed: dict[str, int], ranks: int = 4) -> dict:
    """A rank in the default group and one group for each counter; ids count in the order of the names."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    config |= {name: {"name": name, "desc": f"GROUP_{name}", "ranks": ""} for name in enqueued}
    status = {"0": {"last_enqueued_collective": 1, "last_started_collective": -1, "last_completed_collective": 1}}
    for place, name in enumerate(sorted(enqueued, key=int), 1):
        status[str(place)] = {"last_enqueued_collective": enqueued[name], "last_completed_collective": completed[name]}
    return {"version": "2.9", "nccl_version": "2.27.3", "pg_config": config, "pg_status": status, "entries": entries}


def write(folder: Path, dumps: dict[int, dict], protocol: int = 2, name: str = "_dump_{}") -> kit.Run:
    for rank, content in dumps.items():
        (folder / name.format(rank)).write_bytes(pickle.dumps(content, protocol=protocol))
    return kit.open_run(folder)


COUNTS = {"35": 100, "41": 50, "55": 20}


def waiting(groups: dict[str, int] = COUNTS) -> dict:
    return dump([entry()], groups, groups)


@pytest.mark.parametrize(("protocol", "name"), [(2, "_dump_{}"), (4, "nccl_trace_rank_{}"), (5, "job.fr_rank_{}.pkl")])
def test_the_rank_without_anything_pending_stopped_on_its_host(tmp_path: Path, protocol: int, name: str) -> None:
    run = write(tmp_path, {rank: waiting() if rank != 2 else dump([], COUNTS, COUNTS) for rank in range(4)}, protocol, name)
    verdict = kit.verdict(run)
    assert (verdict.state, verdict.klass, verdict.ranks) == ("stalled", "rank_straggler", [2])
    assert (verdict.facts["lagging_ranks"].value, verdict.facts["world_size"].value) == ([2], 4)


def test_the_rank_that_completes_less_in_several_groups_has_a_device_that_stopped(tmp_path: Path) -> None:
    behind = {name: count - 3 for name, count in COUNTS.items()}
    run = write(tmp_path, {rank: waiting() if rank != 1 else dump([entry()] * 20, COUNTS, behind) for rank in range(4)})
    verdict = kit.verdict(run)
    assert verdict.ranks == [1]
    assert "recorder_device_stopped" in {line["sign"] for line in verdict.evidence}


def test_pairs_of_a_pipeline_count_for_themselves(tmp_path: Path) -> None:
    send = entry(PIPE, 7, is_p2p=True, p2p_seq_id=7, pg_id=2)
    dumps = {}
    for rank in range(4):
        groups = {"35": 100, "43": 50 - 10 * rank}
        dumps[rank] = dump([entry(), send], groups, groups)
    assert kit.verdict(write(tmp_path, dumps)).ranks == []


def test_a_dump_that_is_cut_or_missing_is_not_a_rank_that_stopped(tmp_path: Path) -> None:
    run = write(tmp_path, {rank: waiting() for rank in range(3)})
    (tmp_path / "_dump_3").write_bytes(pickle.dumps(waiting(), protocol=2)[:-40])
    run = kit.open_run(tmp_path)
    verdict = kit.verdict(run)
    assert verdict.ranks == []
    assert any("_dump_3" in said and "cut or broken" in said for said in verdict.missing)


def test_json_and_pickle_say_the_same() -> None:
    content = dump([entry(number=5, state="started"), entry(number=6)], COUNTS, COUNTS)
    found = {}
    for kind, data in (("fr_json", json.dumps(content).splitlines()), ("fr_pickle", [pickle.dumps(content)])):
        rows = [row for _, row in formats()[kind].parse(data, Source("nccl_trace_rank_3"), Report())]
        found[kind] = [(row["rank"], row.get("communicator"), row["operation"], row["count"], row.get("state")) for row in rows]
    assert found["fr_json"] == found["fr_pickle"]
    assert [row[3:] for row in found["fr_pickle"][:2]] == [(5, "started"), (6, "scheduled")]
    assert recognise("x", json.dumps(content, indent=1))[0] == "fr_json"


class _Evil:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


HUGE_MEMO = b"\x80\x02}r\xff\xff\xff\x7fX\x07\x00\x00\x00entriesX\x09\x00\x00\x00pg_config."
HUGE_TEXT = b"\x80\x04}\x8d\xff\xff\xff\xff\xff\xff\xff\x7fentriespg_config."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps({"entries": [1], "pg_config": _Evil(Path("made"))}, protocol=2), "mkdir"),
        (pickle.dumps({"entries": [1], "pg_config": _Evil(Path("made"))}, protocol=4), "mkdir"),
        (HUGE_MEMO, "memory"),
        (HUGE_TEXT, "cut or broken"),
        (pickle.dumps({"entries": bytearray(9), "pg_config": 1}, protocol=5), "BYTEARRAY8"),
        (pickle.dumps([{"entries": 1, "pg_config": 2}], protocol=2), "no dict"),
    ],
    ids=["class", "class, newer protocol", "memo", "text", "bytearray", "list"],
)
def test_a_dump_that_wants_more_than_to_be_read_is_refused(tmp_path: Path, content: bytes, reason: str, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = Report()
    assert list(formats()["fr_pickle"].parse([content], Source("nccl_trace_rank_0"), report)) == []
    assert [said for said in report.reasons if reason in said], report.reasons
    assert not (tmp_path / "made").exists()


def test_a_graph_that_doubles_itself_is_not_written_out(tmp_path: Path) -> None:
    nested: list = ["x"]
    for _ in range(60):
        nested = [nested, nested]
    content = dump([entry(group=nested, profiling_name="n")], COUNTS, COUNTS)  # type: ignore[arg-type]
    begun = time.process_time()
    rows = list(formats()["fr_pickle"].parse([pickle.dumps(content)], Source("_dump_0"), Report()))
    assert rows[0][1]["communicator"] == ""
    assert time.process_time() - begun < 5
