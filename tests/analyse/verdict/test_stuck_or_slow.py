"""A process in state D: an ordinary slow read, or stuck in the kernel; and ranks in one place whose addresses differ."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.verdict import weigh
from tests.analyse.verdict.scenes import line, scene, twice, worker

LOADING = (
    "[2025-10-23 13:04:00 TP0] Load weight begin. avail mem=77.60 GB\n"
    "Loading safetensors checkpoint shards:  10% Completed | 4/40 [00:08<01:12,  2.00s/it]\n"
)
SHELL = """root@n3:/# date
Thu Oct 23 {clock} UTC 2025
root@n3:/# ps -eo pid,state,wchan:32,cmd | grep ' D '
   9120 D {wchan}  sglang::scheduler_TP0
"""
HUNG = "[Thu Oct 23 13:12:41 2025] INFO: task xfsaild:912 blocked for more than 241 seconds.\n"


@pytest.mark.parametrize(
    ("clock", "wchan", "kernel", "klass"),
    [
        ("13:04:15", "folio_wait_bit_common", "", "slow_weights"),
        ("13:15:30", "folio_wait_bit_common", HUNG, "driver_or_io_stuck"),
        ("13:15:30", "fuse_simple_request", "", "driver_or_io_stuck"),
        ("13:15:30", "uvm_va_space_down_read", "", "driver_or_io_stuck"),
    ],
    ids=["the bar moves", "a hung task, and the bar stands", "FUSE, and the bar stands", "the driver of a GPU"],
)
def test_what_else_moves_tells_a_slow_reader_from_a_stuck_one(
    tmp_path: Path, clock: str, wchan: str, kernel: str, klass: str
) -> None:
    (tmp_path / "server.log").write_text(LOADING)
    (tmp_path / "node.txt").write_text(SHELL.format(clock=clock, wchan=wchan))
    if kernel:
        (tmp_path / "dmesg.txt").write_text(kernel)
    found = kit.verdict(tmp_path)
    assert found.klass == klass


@pytest.mark.parametrize(("phase", "klass"), [("weights", "slow_weights"), ("compile", "slow_compile")])
def test_what_is_read_once_the_weights_are_in_is_the_compilers(phase: str, klass: str) -> None:
    grows = [*twice("io", "read_bytes", 0, 1 << 30, pid=10), *twice("processes", "rss_bytes", 1 << 30, 35 << 25, pid=10)]
    found = weigh(scene(line(phase, phase=phase), worker(0), *grows))
    assert (found.state, found.klass) == ("progressing", klass)


def test_a_stopped_engine_serves_nobody_though_the_front_end_answers(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("INFO:     Application startup complete.\n")
    (tmp_path / "health.txt").write_text("$ curl -i http://127.0.0.1:8000/health\nHTTP/1.1 200 OK\n")
    (tmp_path / "ps.txt").write_text(
        "  PID  PPID STAT COMMAND\n  700     1 Ssl  vllm serve m --port 8000\n  701   700 Tl   VLLM::EngineCore\n"
    )
    found = kit.verdict(tmp_path)
    assert (found.state, found.klass) == ("stalled", "rank_straggler")
    assert "kill -CONT 701" in str(found.remedy)


def test_addresses_that_differ_are_no_different_places(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2025-10-23 13:04:00] The server is fired up and ready to roll!\n")
    for rank in (0, 1):
        (tmp_path / f"pyspy{rank}.txt").write_text(
            f"Process {700 + rank}: sglang::scheduler_TP{rank}\nPython v3.12.3 (/usr/bin/python3.12)\n\n"
            f'Thread {700 + rank} (active): "MainThread"\n    0x7f{rank}c9d1a83f2 (libcuda.so.580)\n'
            "    cuGraphLaunch (libcuda.so.580)\n    replay (torch/cuda/graphs.py:147)\n    forward (sglang/srt/m.py:27)\n"
        )
    found = kit.verdict(tmp_path)
    assert found.facts.value("ranks_same_place") is True
    assert "same_device_frames" in found.signs


@pytest.mark.parametrize(
    ("question", "state"),
    [
        ("Do you wish to run the custom code? [y/N] ", "stalled"),
        ("node-2: Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "stalled"),
        ("wandb: Enter your choice: ", "stalled"),
        ("ops@node-2's password: ", "stalled"),
        ("(Pdb) ", "stalled"),
        ("wandb: Enter your choice: 3", "unknown"),
        ("Password: from the environment", "unknown"),
    ],
)
def test_who_is_asked_and_does_not_answer_keeps_it_waiting(tmp_path: Path, question: str, state: str) -> None:
    (tmp_path / "server.log").write_text(f"***** Running training *****\n  Num examples = 8,000\n{question}")
    assert kit.verdict(tmp_path).state == state


def test_the_address_of_a_thread_is_no_pid(tmp_path: Path) -> None:
    joins = "I0510 07:{0}:14.43{1} 13965{1}261397824 distributed_c10d.py:337] Waiting in store based barrier to initialize "
    joins += "process group for rank: {1}, key: store_based_barrier_key:2 (world_size=4, worker_count=3, timeout=0:30:00)\n"
    (tmp_path / "server.log").write_text("".join(joins.format(30 + n, rank) for n in range(4) for rank in (1, 2, 3)))
    found = kit.verdict(tmp_path)
    assert found.klass == "rendezvous_wait" and not any("13965" in step["command"] for step in found.next)
