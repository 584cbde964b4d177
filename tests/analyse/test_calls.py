"""What the calls tell: real traces whose answers were written down before (data/traces/README.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import kit
from kit.analyse.calls.against import roles
from kit.analyse.calls.study import Calls
from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES

DATA = Path(__file__).resolve().parents[2] / "data" / "traces"
NAMES = sorted(path.stem for path in DATA.glob("*.strace"))


@cache
def traced(name: str) -> Calls:
    return kit.calls(DATA / f"{name}.strace")


def name_of(calls: Calls, pid: int | None) -> str | None:
    return calls.trace.threads[pid].name if pid is not None else None


def edges(calls: Calls) -> set[tuple]:
    return {(name_of(calls, one.waiter), name_of(calls, one.target), one.kind, one.sure) for one in calls.graph.edges}


def suspects(calls: Calls) -> list[tuple[str, set]]:
    return [(one.kind, {name_of(calls, pid) for pid in one.pids}) for one in calls.graph.suspects]


def standing(calls: Calls, name: str) -> dict:
    rows = [row for row in calls.blocked.to_dict("records") if name_of(calls, row["pid"]) == name]
    assert len(rows) == 1
    return rows[0]


# --- who waits for whom ---------------------------------------------------------------------------------------------------


def test_two_locks_held_crosswise_are_a_circle():
    calls = traced("deadlock")
    assert edges(calls) == {
        ("scenes", "lock-ab", "thread", "exact"),
        ("lock-ab", "lock-ba", "lock", "held"),
        ("lock-ba", "lock-ab", "lock", "held"),
    }
    assert suspects(calls) == [("circle", {"lock-ab", "lock-ba"})]
    assert calls.graph.suspects[0].waiters == 1
    assert str(calls).startswith("2 threads wait for each other: lock-ab")


def test_of_locks_that_were_free_strace_shows_no_owner_and_the_kit_says_so():
    calls = traced("quiet-deadlock")
    assert edges(calls) == {("scenes", "lock-ab", "thread", "exact")}
    assert suspects(calls) == [("unwoken", {"lock-ab", "lock-ba"})]
    only = calls.graph.suspects[0]
    assert "2 addresses" in only.claim and "does not show who holds a lock" in only.claim
    assert only.next.startswith("py-spy dump --native")
    assert "? who holds a lock: taking one that is free makes no call" in str(calls)


@pytest.mark.parametrize("name", ["producer-died", "producer-died-bare"])
def test_a_consumer_waits_for_a_producer_that_was_killed(name):
    calls = traced(name)
    assert suspects(calls)[0] == ("dead", {"producer"})
    claim = calls.graph.suspects[0].claim
    assert "was killed by SIGKILL" in claim and "consumer" in claim.rpartition("its end never comes, for")[2]
    assert calls.graph.suspects[0].waiters == 2  # the consumer, and the parent that waits for it
    assert standing(calls, "consumer")["kind"] == "bytes"


@pytest.mark.parametrize("name", ["join", "join-k"])
def test_a_join_is_exact_and_the_joined_waits_for_the_joiner(name):
    calls = traced(name)
    assert edges(calls) == {("scenes", "receiver", "thread", "exact"), ("receiver", "scenes", "socket", "only")}
    assert suspects(calls) == [("circle", {"scenes", "receiver"})]


def test_stacks_of_k_stand_with_their_call():
    calls = traced("join-k").trace.rows
    assert "(receiver+0x" in calls.loc[calls["syscall"] == "prctl", "stack"].item()
    assert not calls.loc[calls["unreturned"], "stack"].notna().any()  # strace prints a stack when a call returns


@pytest.mark.parametrize("name", ["socket-pair", "socket-pair-bare"])
def test_both_ends_of_a_socket_pair_wait_and_one_gives_up_after_ten_minutes(name):
    calls = traced(name)
    assert {edge[:3] for edge in edges(calls)} == {("engine", "worker", "socket"), ("worker", "engine", "socket")}
    assert suspects(calls) == [("circle", {"engine", "worker"})]
    assert standing(calls, "worker")["timeout_s"] == 600.0
    assert standing(calls, "worker")["left_s"] == pytest.approx(600.0, abs=0.1)
    assert standing(calls, "engine")["for_ever"] is True
    assert "gives up in 600 s" in calls.graph.suspects[0].claim


def test_a_file_lock_has_its_holder():
    calls = traced("loader")
    assert edges(calls) == {("scenes", "compiler", "child", "exact"), ("compiler", "scenes", "file lock", "held")}
    assert suspects(calls) == [("circle", {"scenes", "compiler"})]


def test_a_thread_that_has_not_written_is_waited_for_where_nobody_else_can():
    calls = traced("launch-bad")
    assert suspects(calls) == [("root", {"worker-1"})]
    assert "goes round: clock_nanosleep → newfstatat of compile.lock" in calls.graph.suspects[0].claim


# --- blocked at the end ---------------------------------------------------------------------------------------------------


def test_ages_and_time_limits():
    calls = traced("ticker")
    main, loop, ticker = (standing(calls, name) for name in ("scenes", "event-loop", "ticker"))
    assert main["kind"] == "lock" and main["for_ever"] is True and main["age_s"] > 2.9
    assert loop["kind"] == "ready" and loop["timeout_s"] == 1.0 and loop["things"][0].startswith("pipe:[")
    assert ticker["kind"] == "sleep" and ticker["timeout_s"] == pytest.approx(0.2)
    assert 0 < ticker["left_s"] <= 0.2


def frame(rows: list[dict]):
    return FRAMES["syscalls"].build(
        {"state": "done", "capture": "a", "line": n + 1, "time": 1_700_000_000_000_000_000 + int(row.pop("at") * 1e9)} | row
        for n, row in enumerate(rows)
    )


def test_a_call_that_signals_interrupted_counts_from_its_first_begin():
    again = {"pid": 7, "syscall": "poll", "args": "[{fd=3, events=POLLIN}], 1, -1", "ret": "?"}
    rows = [
        {"at": 0.0, "duration_s": 4.0, "errno": "ERESTART_RESTARTBLOCK", **again},
        {"at": 4.0, "duration_s": 2.0, "errno": "ERESTART_RESTARTBLOCK", **again},
        {"at": 6.0, "pid": 7, "syscall": "restart_syscall", "args": "<... resuming interrupted poll ...>", "state": "open"},
        {"at": 9.0, "pid": 8, "syscall": "close", "args": "4", "ret": "0", "duration_s": 0.0},
    ]
    only = kit.calls(frame(rows)).blocked.iloc[0]
    assert (only["age_s"], only["at_least"]) == (9.0, True)
    assert "prints no arguments" in only["remark"]


def test_a_moment_on_the_monotonic_clock_is_known_once_one_like_it_has_timed_out():
    wait = "0x7f0, FUTEX_WAIT_BITSET_PRIVATE, 0, {tv_sec=%d, tv_nsec=0}, FUTEX_BITSET_MATCH_ANY"
    rows = [
        {"at": 0.0, "pid": 7, "syscall": "futex", "args": wait % 502, "ret": "-1", "errno": "ETIMEDOUT", "duration_s": 2.0},
        {"at": 3.0, "pid": 7, "syscall": "futex", "args": wait % 510, "state": "open"},
    ]
    assert kit.calls(frame(rows)).blocked.iloc[0]["left_s"] == pytest.approx(7.0)
    unknown = kit.calls(frame(rows[1:] and [{"at": 3.0, "pid": 7, "syscall": "futex", "args": wait % 510, "state": "open"}]))
    assert "monotonic clock" in unknown.blocked.iloc[0]["remark"]


def test_the_trace_may_be_taken_to_end_earlier():
    calls = kit.calls(DATA / "producer-died.strace", at=0.03)
    assert {name_of(calls, pid) for pid in calls.blocked["pid"]} == {"scenes", "consumer", "producer"}
    assert calls.graph.suspects[0].kind != "dead"
    with pytest.raises(UsageError, match="the trace lasts"):
        kit.calls(DATA / "producer-died.strace", at=60)
    with pytest.raises(UsageError, match="no clock"):
        kit.calls(DATA / "producer-died-bare.strace", at=0)


# --- loops, bytes, files, errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ticker", "ticker-r"])
def test_one_byte_each_200_ms(name):
    calls = traced(name)
    ticker = next(loop for loop in calls.loops if name_of(calls, loop.pid) == "ticker")
    assert ticker.kind == "ticks" and ticker.goes_on
    assert ticker.period_s == pytest.approx(0.2, abs=0.01) and ticker.spread < 0.02
    assert "write 1 byte to pipe" in ticker.calls and "event-loop" in ticker.others
    assert len(calls.unread) == 0  # every byte was read


def test_relative_times_alone_are_added_up_and_end_when_the_capture_was_made():
    run = kit.open_run(DATA / "ticker-r.strace")
    times = run.frame("syscalls")["time"]
    assert times.notna().all()
    last = DATA.joinpath("ticker-r.strace").stat().st_mtime_ns
    assert times.max().value == pytest.approx(last, abs=1e6)
    assert (times.max() - times.min()).total_seconds() == pytest.approx(3.035, abs=0.001)


def test_a_spin_and_its_storm_of_errors():
    calls = traced("spin")
    spin = calls.loops[0]
    assert (name_of(calls, spin.pid), spin.kind, spin.rounds) == ("spinner", "spins", 300)
    assert spin.period_s < 0.001 and "nobody used pipe" in spin.others
    storms = calls.errors[calls.errors["storm"]]
    assert storms[["syscall", "errno", "calls"]].values.tolist() == [["read", "EAGAIN", 300]]


def test_bytes_that_nobody_reads_and_polls_that_nobody_answers():
    calls = traced("unread")
    left = {row["kind"]: row for row in calls.unread.to_dict("records")}
    assert {kind: row["left_bytes"] for kind, row in left.items()} == {"pipe": 1, "eventfd": 3}
    assert left["pipe"]["writers"].startswith("poller")
    reactor, poller = calls.loops
    assert (name_of(calls, reactor.pid), reactor.kind, reactor.rounds) == ("reactor", "spins", 60)
    assert reactor.things[-1].startswith("pipe:[")  # what the epoll set watches
    assert (poller.kind, poller.period_s) == ("polls", pytest.approx(0.1, abs=0.01))
    assert "nobody used eventfd" in poller.others


def test_files_by_bytes_and_the_search_for_a_library():
    calls = traced("loader")
    files = calls.files.set_index("path")
    assert files.loc["/srv/app/shard-1.bin", ["read_bytes", "mapped_bytes"]].tolist() == [1 << 20, 0]
    assert files.loc["/srv/app/shard-2.bin", ["read_bytes", "mapped_bytes"]].tolist() == [2 << 20, 2 << 20]
    assert files.index[0] == "/srv/app/shard-2.bin"
    storm = calls.errors.iloc[0]
    assert storm[["syscall", "errno", "calls", "paths", "file"]].tolist() == ["openat", "ENOENT", 40, 40, "libkernels.so"]


# --- descriptors, tree, time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["producer-died", "producer-died-bare"])
def test_descriptor_tables_follow_children(name):
    calls = traced(name)
    held = {(name_of(calls, row["process"]), row["fd"], row["end"]) for row in calls.descriptors.table().to_dict("records")}
    assert held == {("scenes", 4, "w"), ("consumer", 3, "r"), ("consumer", 4, "w")}  # the producer's went with it


def test_the_table_of_a_moment():
    calls = traced("producer-died")
    then = calls.descriptors.table(0.05)
    names = {name_of(calls, pid) for pid in then["process"]}
    assert names == {"scenes", "consumer", "producer"}
    assert len(calls.descriptors.table(0.0005)) == 0


def test_threads_and_processes():
    tree = traced("producer-died").tree.set_index("name")
    assert tree.loc["producer", "end"] == "killed by SIGKILL" and tree.loc["producer", "depth"] == 1
    assert tree.loc["scenes", "programs"] == "/srv/app/scenes producer-died "
    threads = traced("deadlock").tree
    assert threads["process"].nunique() == 1 and len(threads) == 3


def test_time_of_each_thread_adds_up_to_its_life():
    calls = traced("ticker")
    for row in calls.budget.to_dict("records"):
        spent = sum(value for key, value in row.items() if key not in ("pid", "process", "life_s", "calls", "untimed", "thread"))
        assert spent == pytest.approx(row["life_s"], rel=0.02)
    main = calls.budget[calls.budget["thread"].str.startswith("scenes")].iloc[0]
    assert main["lock"] / main["life_s"] > 0.95


def test_rates_count_every_call_and_a_wait_fills_its_bins():
    calls = traced("ticker")
    assert calls.rates.calls.sum() == len(calls.trace.rows)
    main = calls.rates.pids.index(min(calls.trace.threads))
    assert calls.rates.share[main, 10:].min() == pytest.approx(1.0)
    assert traced("producer-died-bare").rates is None


# --- two traces -----------------------------------------------------------------------------------------------------------


def test_the_first_divergence_is_the_lock_file():
    calls = kit.calls(DATA / "launch-bad.strace", against=DATA / "launch-good.strace")
    found = calls.divergence
    assert found.role == "scenes/worker-1"
    assert found.last.startswith("close(") and "shard-1.bin" in found.last
    assert "compile.lock" in found.here and found.here.endswith("= 0")
    assert "compile.lock" in found.there and found.there.endswith("= ENOENT")
    assert {one.role for one in calls.partings if not (one.here or one.there)} == {"scenes/worker-0"}
    sums = calls.side_by_side.set_index(["role", "kind"])
    assert sums.loc[("scenes/worker-1", "sleep"), "s_here"] > 10 * sums.loc[("scenes/worker-1", "sleep"), "s_there"]
    assert "parts from launch-good.strace after close" in str(calls).splitlines()[0]


def test_a_trace_does_not_part_from_itself():
    calls = kit.calls(DATA / "launch-good.strace", against=DATA / "launch-good.strace")
    assert calls.divergence is None
    assert len(set(roles(calls.trace).values())) == len(calls.trace.threads)


# --- what it says ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_trace_has_a_document_in_every_form(name):
    calls = traced(name)
    assert calls.document().title and calls._repr_html_() and calls.to_markdown(brief=True)
    json.dumps(calls.to_dict(), allow_nan=False)


def test_a_real_launch_that_ticks():
    """Rank 0 of a vLLM server never leaves warm-up and writes one byte to a pipe once a second: strace was attached for 5 s."""
    calls = kit.calls(kit.sample("pipe-ticker"))
    ticker = calls.loops[0]
    assert (ticker.kind, ticker.rounds) == ("ticks", 5) and ticker.period_s == pytest.approx(1.0, abs=0.01)
    assert "write 1 byte to pipe" in ticker.calls
    assert str(calls).startswith("VLLM::Worker_TP (25402) goes round every 1 s")


def test_a_real_launch_one_of_whose_ranks_is_stopped():
    calls = kit.calls(kit.sample("stopped-rank"))
    first = calls.graph.suspects[0]
    assert first.kind == "stopped" and {calls.trace.threads[pid].process for pid in first.pids} == {15343}
    assert str(calls).startswith("VLLM::Worker_TP (15343) is stopped by SIGSTOP")


def test_what_strace_was_not_asked_for_is_named():
    said = str(traced("producer-died-bare"))
    assert "the trace has no clock" in said and "strace -yy" in said
    assert "the trace has no clock" not in str(traced("producer-died"))


def test_a_time_that_was_not_recorded_is_no_zero(tmp_path):
    lines = ('openat(AT_FDCWD, "/w", O_RDONLY) = 3', 'read(3, "abc", 3) = 3', "read(4,  <unfinished ...>")
    (tmp_path / "a.strace").write_text("".join(f"7  10:00:0{n} {line}\n" for n, line in enumerate(lines)))
    calls = kit.calls(tmp_path)
    json.dumps(calls.to_dict(), allow_nan=False)
    said = " ".join(str(calls).split())
    assert "/w 3 0 0 2 not recorded" in said and "7 read just begun" in said and "0 µs" not in said


ALONE = """10:00:01 execve("/bin/a", ["a"], 0x7f) = 0
10:00:02 set_tid_address(0x7f) = 40
10:00:03 +++ exited with 3 +++
"""
THREADS = """10:00:01 execve("/bin/a", ["a"], 0x7f) = 0
10:00:02 clone3({flags=CLONE_THREAD}, 88strace: Process 41 attached
 <unfinished ...>
[pid    41] 10:00:03 close(3) = 0
[pid    40] 10:00:03 <... clone3 resumed>) = 2<a> /* 41 in strace's PID NS */
[pid    41] 10:00:04 execve("/bin/b", ["b"], 0x7f <unfinished ...>
[pid    40] 10:00:05 +++ superseded by execve in pid 41 +++
10:00:05 <... execve resumed>) = 0
10:00:06 +++ exited with 3 +++
"""


@pytest.mark.parametrize(
    ("text", "ends"), [(ALONE, {40: ("a", "exited with 3")}), (THREADS, {40: ("b", "exited with 3"), 41: ("a", "went on as 40")})]
)
def test_lines_without_a_pid_are_of_the_process_that_strace_started(text, ends, tmp_path):
    (tmp_path / "a.strace").write_text(text)
    threads = kit.calls(tmp_path).trace.threads
    assert {pid: (thread.name, thread.end) for pid, thread in threads.items()} == ends


def test_no_calls_is_said_with_the_command_that_records_them(tmp_path):
    (tmp_path / "server.log").write_text("INFO 01-01 00:00:00 [a.py:1] hello\n")
    with pytest.raises(EvidenceError, match="strace -f -tt -T -yy"):
        kit.calls(tmp_path)
    empty = kit.calls(FRAMES["syscalls"].empty())
    assert empty.document().title == "no thread is seen to wait for another"


@pytest.mark.parametrize("call", ["epoll_wait", "epoll_pwait", "read", "poll", "select", "futex", "wait4", "connect", "fcntl"])
def test_a_call_that_is_cut_before_its_arguments(call, tmp_path):
    (tmp_path / "strace.txt").write_text(f"10 12:00:00.000001 {call}( <unfinished ...>\n11 12:00:01.000002 getpid() = 11\n")
    assert f"10 {call} >1 s" in " ".join(str(kit.calls(tmp_path / "strace.txt")).split())
