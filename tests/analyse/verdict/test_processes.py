"""Who is who: roles and ranks that titles tell, ranks of processes, and what the launch asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.analyse.verdict.processes import Titles
from kit.analyse.verdict.verdict import verdict
from kit.parse import grammar
from tests.analyse.verdict.scenes import line, row, scene

TITLES = Titles(grammar.load().matcher(None).processes)


@pytest.mark.parametrize(
    ("title", "role", "rank"),
    [
        ("python3 -m sglang.launch_server --tp 2", "frontend", None),
        ("sglang::scheduler_TP1", "worker", 1),
        ("sglang::schedul", "worker", None),
        ("sglang::detokenizer", "helper", None),
        ("VLLM::EngineCore", "engine", None),
        ("VLLM::Worker_TP3", "worker", 3),
        ("VLLM::DPCoordinator", "helper", None),
        ("text-generation-server serve --rank 2", "worker", 2),
        ("/opt/conda/bin/torchrun train.py", "frontend", None),
        ("python -m torch.distributed.launch --node_rank=1 train.py", "frontend", None),
        ("python train.py RANK=3", "other", 3),
        ("NODE_RANK=3 python train.py", "other", None),
        ("/usr/local/cuda/bin/cicc -arch sm_90a", "compiler", None),
        ("tritonserver --model-repository=/m", "frontend", None),
        ("bash -c 'vllm serve org/m'", "helper", None),
        ("postgres", "other", None),
    ],
)
def test_titles_tell_role_and_rank(title: str, role: str, rank: int | None) -> None:
    assert (TITLES.role(title), TITLES.rank(title, {"tp": 8})) == (role, rank)


def launched_by_torchrun() -> list:
    """An agent with two ranks, and a loader that has inherited the variable of one."""
    tree = [(41, 1, None), (42, 41, 3), (43, 41, 2), (44, 43, 2)]
    listed = [row("processes", pid=pid, ppid=ppid, state="S", cmdline="python train.py") for pid, ppid, _ in tree]
    return listed + [row("host", source="environ", key="RANK", value=str(rank), pid=pid) for pid, _, rank in tree if rank]


@pytest.mark.parametrize(
    ("parts", "ranks"),
    [
        ([line("dist_begin", rank=1, pid=41), line("dist_begin", rank=0, pid=42)], {41: 1, 42: 0}),
        ([row("processes", pid=41, state="S", cmdline="sglang::scheduler_TP1")], {41: 1}),
        ([row("processes", pid=41, state="S", cmdline="llama-server -m x")], {41: 0}),
        ([row("processes", pid=pid, state="S", cmdline=f"VLLM::EngineCore_DP{pid - 41}") for pid in (41, 42)], {41: 0, 42: 1}),
        (
            [
                row("processes", pid=41, state="S", cmdline="python -m torch.distributed.launch --node_rank=0 a.py"),
                row("processes", pid=42, state="S", cmdline="python a.py --local_rank=0"),
                row("processes", pid=43, state="S", cmdline="python a.py --local_rank=1"),
            ],
            {42: 0, 43: 1},
        ),
        ([row("processes", pid=41, state="S", cmdline="postgres"), row("processes", pid=42, state="S", cmdline="cron")], {}),
        (launched_by_torchrun(), {42: 3, 43: 2}),
    ],
    ids=["log before order of pids", "title", "the one process", "engines", "a launcher", "strangers", "environment"],
)
def test_ranks_come_from_what_names_them(parts: list, ranks: dict[int, int]) -> None:
    processes = scene(*parts).processes
    assert {pid: process.rank for pid, process in processes.by_pid.items() if process.rank is not None} == ranks


@pytest.mark.parametrize(
    ("signed", "rank"), [(None, 0), (41, None)], ids=["V0: the front end is rank 0", "V1: it signs as APIServer"]
)
def test_a_front_end_that_signs_its_lines_is_no_rank(signed: int | None, rank: int | None) -> None:
    begun = line("args", tp_size=2, server="vllm", process="APIServer" if signed else None, pid=signed)
    front = row("processes", pid=41, state="S", cmdline="vllm serve org/m", tool="ps")
    assert scene(begun, front).processes.by_pid[41].rank == rank


def test_a_dead_child_of_the_server_was_a_worker() -> None:
    front = row("processes", pid=7, state="S", cmdline="vllm serve org/m", ppid=1)
    processes = scene(front, row("processes", pid=8, state="Z", comm="python3", ppid=7)).processes
    assert (processes.by_pid[8].role, processes.by_pid[8].dead) == ("worker", True)


@pytest.mark.parametrize(
    ("server", "world"), [("sglang", 8), ("trtllm", 4)], ids=["data parallel multiplies", "data parallel shares the ranks"]
)
def test_world_size_of_data_parallel_servers(server: str, world: int) -> None:
    assert scene(line("args", tp_size=4, dp_size=2, server=server)).processes.world_size == world


def recorded(folder: Path, seconds: int, died_at: int) -> Path:
    """A run of a second a sample: a worker is killed in the midst, its parent takes the exit status two samples later."""
    begin, pid = 1_760_000_000_000_000_000, 9
    lines = [{"k": "head", "format": "stallkit-sampler", "version": 2, "hz": 100, "wall_ns": begin, "roots": [7]}]
    for n in range(seconds):
        lines.append({"k": "sample", "n": n, "wall_ns": begin + n * 10**9, "mono_ns": n * 10**9})
        one = {"k": "proc", "n": n, "all": True, "ppid": 1, "comm": "vllm", "utime": 5, "stime": 1, "start": 1}
        lines.append({**one, "pid": 7, "state": "S", "cmd": ["vllm", "serve", "m", "-tp", "2"]})
        if n < died_at:
            lines.append({**one, "pid": pid, "ppid": 7, "state": "S", "cmd": ["VLLM::Worker_TP1"]})
        elif n < died_at + 2:
            lines.append({**one, "pid": pid, "ppid": 7, "state": "Z", "exit": 9})
        elif n == died_at + 2:
            lines.append({"k": "gone", "n": n, "pid": pid, "comm": "vllm", "was": "Z"})
        if n % 10 == 0:
            lines.append({"k": "counters", "n": n, "rows": [["vmstat", "oom_kill", None, 3]]})
        lines.append({"k": "done", "n": n})
    folder.mkdir()
    (folder / "sampler.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return folder


def test_the_death_of_a_rank_in_the_midst_of_a_long_recording_is_kept(tmp_path: Path) -> None:
    found = verdict(recorded(tmp_path / "run", seconds=60, died_at=25))
    assert (found.facts.value("signal"), found.klass, found.ranks) == (9, "worker_crashed", [1])
    assert any("the kernel counts no kill for memory" in entry["claim"] for entry in found.evidence)
