"""Facts of logs and of ports, each rule on the evidence that shows it and on what looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.rules import all_signs
from kit.reading import Capture
from tests.analyse.verdict.scenes import BEGIN, NOW_S, NS, error, line, row, scene, stack, twice

FRONT = row("processes", pid=7, state="S", cmdline="vllm serve org/m --port 8000")
LISTENS = row("sockets", state="LISTEN", local_port=8000, pid=7, process="python3")


@pytest.mark.parametrize(
    ("parts", "exited"),
    [
        ([line("shutdown", role="ending", kind="symptom")], True),
        ([line("closing_workers", role="teardown", kind="symptom")], True),
        ([line("shutdown", role="ending", kind="symptom"), FRONT, LISTENS], False),
        ([line("shutdown", role="ending", kind="symptom"), [line("request", kind="request", at=0)] * 20], None),
        ([line("worker_died", role="cascade", kind="error", server="vllm")], True),
        ([line("worker_died", role="cascade", kind="error", server="sglang")], None),
        ([line("device_error", kind="error", server="sglang")], None),
        ([line("weights_mismatch", kind="error", server="sglang")], True),
        ([line("weights_begin"), FRONT], False),
        ([row("processes", pid=7, state="Z", cmdline="vllm serve org/m")], True),
        ([line("weights_begin", at=0)], None),
        ([line("weights_begin", at=0), stack(7, "load (x.py)")], False),
        ([line("weights_begin")], False),
        ([line("weights_begin", at=0), twice("sizes", "size_bytes", 10, 30, path="/c")], False),
        ([line("weights_begin", at=0), twice("sizes", "size_bytes", 30, 30, path="/c")], None),
    ],
    ids=["ending", "teardown", "a front end still listens", "it went on", "ends with its worker", "does not", "may live on",
         "cannot live on", "alive", "dead", "unknown",
         "a stack was taken", "it spoke a moment ago", "its files grow", "its files do not"],
)  # fmt: skip
def test_exited(parts: list, exited: bool | None) -> None:
    assert scene(*parts).facts.value("exited") is exited


def test_the_output_that_is_a_full_pipe_is_the_one_that_blocks() -> None:
    sleeps = row("threads", pid=7, tid=7, tool="wchan", wchan="pipe_write")
    one, other = (row("fds", pid=7, fd=2, target=f"pipe:[{number}]") for number in (5, 6))
    out = row("fds", pid=7, fd=1, target="pipe:[5]")
    assert scene(FRONT, sleeps, out, one).facts.value("blocked_fd") == 1
    assert scene(FRONT, sleeps, out, other).facts.value("blocked_fd") is None, "either may be full"


def test_times_that_the_log_tells() -> None:
    read, end = line("weights_read", elapsed_s=41.8), line("weights_end", elapsed_s=43.9)
    assert scene(read, end).facts.value("weights_s") == 41.8
    assert scene(end).facts.value("weights_s") == 43.9
    late = scene(error("socket_timeout", timeout_s=600, host="10.0.0.7", port=29500))
    assert [late.facts.value(name) for name in ("timeout_ms", "timeout_s", "peer")] == [600_000, 600, "10.0.0.7:29500"]
    assert scene(error("watchdog", timeout_s=300)).facts.value("peer") is None


@pytest.mark.parametrize(
    ("parts", "port", "listening"),
    [
        ([FRONT, LISTENS], 8000, True),
        ([FRONT, row("sockets", state="LISTEN", local_port=22, pid=1, process="sshd")], 8000, False),
        ([FRONT], 8000, None),
        ([row("probes", port=9000, error="connection refused")], 9000, False),
        ([row("probes", port=9000, url="http://localhost:9000/health", http_status=503)], 9000, True),
        ([row("sockets", state="LISTEN", local_port=9000, pid=5, process="python3")], 9000, True),
        ([row("sockets", state="LISTEN", local_port=5432, pid=5, process="postgres")], None, False),
        ([line("http_address", port=8123)], 8123, None),
    ],
    ids=[
        "asked for",
        "another listens",
        "nobody looked",
        "refused",
        "answered",
        "listens like a server",
        "a stranger",
        "the log",
    ],
)
def test_the_port_and_whether_it_listens(parts: list, port: int | None, listening: bool | None) -> None:
    facts = scene(*parts).facts
    assert (facts.value("port"), facts.value("port_listening")) == (port, listening)


@pytest.mark.parametrize(
    ("fields", "signal"), [({"exit_code": -9}, 9), ({"exit_code": 137}, 9), ({"exit_code": 1}, None), ({"signal": 11}, 11)]
)
def test_the_signal_of_an_exit(fields: dict, signal: int | None) -> None:
    assert scene(line("worker_died", kind="error", role="cascade", fields=fields)).facts.value("signal") == signal


def test_the_signal_of_a_killed_rank_is_that_of_its_zombie() -> None:
    """The parent has not taken its exit status; what the launcher then ends by SIGTERM is not the cause, nor is a helper."""
    engine = row("processes", pid=7, state="S", cmdline="VLLM::EngineCore", ppid=1)
    rank = row("processes", pid=9, state="Z", cmdline="VLLM::Worker_TP1", ppid=7, exit_status=9, time=2)
    ended = row("processes", pid=8, state="Z", cmdline="VLLM::Worker_TP0", ppid=7, exit_status=15, time=1)
    helper = row("processes", pid=5, state="Z", cmdline="bash", ppid=1, exit_status=11, time=0)
    facts = scene(engine, ended, rank, helper).facts
    assert (facts.value("signal"), facts.value("ranks_dead")) == (9, [0, 1])
    assert facts.refs("signal")[0]["text"] == "pid 9 (rank 1) ended by signal 9"
    assert scene(engine, ended).facts.value("signal") == 15
    assert (
        scene(engine, row("processes", pid=9, state="Z", cmdline="VLLM::Worker_TP1", exit_status=0)).facts.value("signal") is None
    )


@pytest.mark.parametrize(
    ("command", "world"),
    [
        ("+ torchrun --nproc_per_node=4 --nnodes=2 train.py", 8),
        ("+ NNODES=2 NPROC_PER_NODE=4 swift sft --model m", 8),
        ("overrides: ['trainer.n_gpus_per_node=8', 'trainer.nnodes=1']", 8),
    ],
)
@pytest.mark.parametrize(("code", "dead"), [(-9, [3]), (-15, None), (-6, None), (1, None)])
def test_torchruns_table_names_the_rank_that_was_killed(
    tmp_path: Path, command: str, world: int, code: int, dead: list[int] | None
) -> None:
    failed = f"""{command}
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 3)
  exitcode  : {code} (pid: 1760)
  traceback : None
"""
    (tmp_path / "run.log").write_text(failed)
    facts = kit.verdict(tmp_path).facts
    assert (facts.value("world_size"), facts.value("ranks_dead")) == (world, dead)


def test_what_dies_seconds_after_the_first_death_was_ended_with_the_rest() -> None:
    """The parent took the exit status of rank 1 before anybody looked; rank 0 did not heed SIGTERM, and was killed."""
    engine = row("processes", pid=7, state="S", cmdline="VLLM::EngineCore", ppid=1)
    workers = [
        row("processes", pid=8 + rank, state="R", cmdline=f"VLLM::Worker_TP{rank}", ppid=7, time=BEGIN) for rank in range(2)
    ]
    first = row("processes", pid=9, state="X", tool="sampler", time=BEGIN + 5 * NS)
    second = row("processes", pid=8, state="Z", exit_status=9, ppid=7, time=BEGIN + 14 * NS)
    here = scene(engine, *workers, first, second, error("worker_died", role="cascade"))
    signs = all_signs(here)
    assert (here.facts.value("ranks_dead"), here.facts.value("signal")) == ([0, 1], None)
    assert signs["ranks_dead"].claim == "ranks 0, 1 are dead, rank 1 first" and signs["ranks_dead"].ranks == [1]
    assert "silent_death" in signs and "signal_9" not in signs


def test_the_rank_that_died_in_silence_is_the_one_that_does_not_answer_the_end() -> None:
    wrote = [line("weights_begin", rank=rank, pid=20 + rank, server="vllm") for rank in range(2)]
    died = error("worker_died", "EngineCore failed to start.", role="cascade")
    answers = line("worker_exit", "Parent process exited, terminating worker queues", "other", rank=0, pid=20, role="teardown")
    assert scene(*wrote, answers, died).facts.value("ranks_dead") == [1]
    assert scene(*wrote, answers).facts.value("ranks_dead") is None
    assert scene(*wrote, died).facts.value("ranks_dead") is None


def test_shared_memory_without_a_resident_size_is_shown(tmp_path) -> None:
    (tmp_path / "status.t0.txt").write_text(
        "Name:\tpython3\nPid:\t7\nState:\tS (sleeping)\nRssShmem:\t  401000000 kB\nThreads:\t4\n"
    )
    assert "rss_shmem_kb" in str(kit.verdict(tmp_path))


def test_health_that_takes_a_token_is_health_too() -> None:
    asked = row("probes", path="/health_generate", http_status=200, url="http://localhost:8000/health_generate", port=8000)
    assert scene(asked).fact("health_http") == 200


def test_health_that_failed_before_a_request_was_answered_is_over() -> None:
    failed = line("health_failed", kind="symptom", phase="serving", path="/health", status=503, at=100)
    answered = line("request", kind="request", phase="serving", path="/v1/completions", status=200, at=130)
    assert scene(failed).fact("health_http") == scene(answered, failed).fact("health_http") == 503
    assert scene(failed, answered).fact("health_http") is None


ANALYSED = """Collective sequence number: 92 has errors
internal record id: 91
group info: 0:default_pg
collective: nccl:all_reduce
input sizes: [[8]]
output sizes: [[8]]
world size: 3
expected ranks: {{0, 1, 2}}
collective state: scheduled
error msg: Culprit rank 2; Error type: {error}, Expected input sizes: '[[8]]' does not match found input sizes: '[[6]]'
"""


@pytest.mark.parametrize(
    ("error", "klass"), [("SIZE_OR_SYNTAX_MISMATCH", "collective_desync"), ("COLLECTIVE_STATE_MISMATCH", "undetermined")]
)
def test_the_analysis_of_recorders_tells_size_and_collective(tmp_path: Path, error: str, klass: str) -> None:
    (tmp_path / "flight_recorder.txt").write_text(ANALYSED.format(error=error))
    verdict = kit.verdict(tmp_path)
    assert [verdict.facts.value(name) for name in ("world_size", "seq", "op")] == [3, 92, "ALLREDUCE"]
    assert (verdict.klass, verdict.phase) == (klass, "train_step")


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/home/ann/.cache/torch_extensions/py311", "/home/ann/.cache/torch_extensions/py311/utils/lock"),
        ("/scratch/torch_extensions", "~/.cache/torch_extensions/py311/utils/lock"),
    ],
    ids=["the log names the home", "it does not"],
)
def test_a_lock_at_home_has_the_path_that_the_log_names(root: str, path: str) -> None:
    listed = row("sizes", path="~/.cache/torch_extensions/py311/utils/lock", size_bytes=0)
    found = scene(line("extension_root", phase="compile", path=root), listed)
    assert found.facts.value("lock_path") == path


def test_a_moment_is_of_the_zone_that_logfmt_carries(tmp_path: Path) -> None:
    stamp = "2026-02-18T19:35:{:02}.2+02:00"
    said = [f'time={stamp.format(n)} level=DEBUG source=server.go:1 msg="model load progress 0.{70 + n}"\n' for n in range(9)]
    (tmp_path / "server.log").write_text("".join(said))
    verdict = kit.verdict(tmp_path, captured_at="2026-02-18 19:35:10")
    assert verdict.facts.value("silence_s") == pytest.approx(1.8)
    assert (verdict.klass, verdict.facts.value("exited")) == ("slow_weights", False)


def test_a_launcher_with_one_living_worker_has_not_exited(tmp_path: Path) -> None:
    (tmp_path / "ps.txt").write_text(
        "$ ps a --forest -o pid,comm\n    PID COMMAND\n   2780 slurm_script\n   2816  \\_ python3.11\n"
        "   2834      \\_ python3.11 <defunct>\n   2835      \\_ python3.11\n   2836      \\_ python3.11 <defunct>\n"
    )
    verdict = kit.verdict(tmp_path)
    assert verdict.facts.value("exited") is False


WATCHED = "[rank{n}]:[E321 02:07:08.352219780 ProcessGroupNCCL.cpp:"
TIMED_OUT = (
    WATCHED + "607] [Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=80, OpType=ALLREDUCE, NumelIn=46, "
    "NumelOut=46, Timeout(ms)=600000) ran for 600004 milliseconds before timing out.\n"
)
STOOD = (
    WATCHED + "1664] [PG 1 Rank {n}] Exception (either an error or timeout) detected by watchdog at work: {at}, last enqueued "
    "NCCL work: 82, last completed NCCL work: 79.\n"
)


@pytest.mark.parametrize(("at", "same"), [(80, True), (78, None)], ids=["at the same work", "at other work"])
def test_the_next_line_of_a_watchdog_tells_where_its_rank_stood(tmp_path: Path, at: int, same: bool | None) -> None:
    (tmp_path / "train.log").write_text(TIMED_OUT.format(n=0) + TIMED_OUT.format(n=1) + STOOD.format(n=2, at=at))
    facts = kit.verdict(tmp_path).facts
    assert (facts.value("ranks_same_seq"), facts.value("lagging_ranks")) == (same, None if same else [2])


@pytest.mark.parametrize(("last", "silence"), [("train_step", 5.0), ("other", None)], ids=["progress came last", "not known"])
def test_silence_of_a_log_without_times_is_since_its_last_lines_came(last: str, silence: float | None) -> None:
    steps = [line("train_step", step=n, phase="train_step", at=None) for n in range(3)]
    more = [] if last == "train_step" else [line(None, "and something else", "other", at=None)]
    grown = Capture(file="server.log", path=Path(__file__), kind="log", grew_ns=BEGIN + (NOW_S - 5) * NS)
    assert scene(*steps, *more, captures=[grown]).facts.value("silence_s") == silence
