"""Evidence for the rules on stacks, ranks, collectives and two samples."""

from __future__ import annotations

from tests.analyse.verdict.scenes import BEGIN, NS, bar, error, gpu, line, ps, row, shown, stack, twice, worker, workers

CC1PLUS = {"pid": 20, "tool": "sampler", "comm": "cc1plus", "cmdline": "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet"}
REDUCE = "all_reduce (torch/distributed/distributed_c10d.py)"
GATHER = "all_gather (torch/distributed/distributed_c10d.py)"
SYNC = "synchronize (torch/cuda/streams.py)"
COMPILE = "compile (triton/compiler/compiler.py)"
SAVE = "save_file (safetensors/torch.py)"
FORWARD = "forward (sglang/srt/layers/x.py)"
TWO, THREE = workers(2), workers(3)


UP = line("ready", kind="ready", phase="ready", at=600)


def spins(moment: int, place: str = "schedule (core/sched.py)") -> list:
    """A dump of an engine that computes."""
    return stack(10, place, moment=moment, process="VLLM::EngineCore", thread_state="active")


def entry(rank: int, operation: str, count: int = 7) -> tuple:
    """What a rank's flight recorder says of the collective that stands."""
    named = {"source": "flight_recorder", "communicator": "0:default_pg", "state": "started", "text": operation}
    return row("collectives", rank=rank, operation=operation, count=count, **named)


def both(*frames: str) -> list:
    """Two ranks in one place."""
    return [*stack(10, *frames), *stack(11, *frames)]


def main_threads(*calls: str, gap_s: int = 6) -> list:
    """Main threads of ranks in the same call for so long."""
    times = (BEGIN, BEGIN + gap_s * NS)
    return [row("threads", pid=10 + n, tid=10 + n, time=at, syscall=name) for n, name in enumerate(calls) for at in times]


CROWD = [part for rank in (1, 2, 3) for part in stack(10 + rank, "has_overflow (b.py)")]
BUSY = [gpu(number, 100) for number in range(4)]
STACKS = [
    shown("compile_frames", stack(10, COMPILE), unlike=stack(10, "compile (re.py)")),
    shown("load_frames", stack(10, "get_tensor (safetensors/__init__.py)"), unlike=stack(10, "get (dict.py)")),
    shown("post_load_frames", stack(10, "repack (marlin.py)"), unlike=stack(10, "pack (struct.py)")),
    shown("download_frames", stack(10, "http_get (huggingface_hub/file_download.py)"), unlike=stack(10, "get (http.py)")),
    shown("same_collective_frames", *TWO, *both(REDUCE, FORWARD), unlike=[*TWO, *both(SYNC, FORWARD)]),
    shown("same_collective_frames", *TWO, *both(REDUCE), unlike=[*TWO, *stack(10, REDUCE), *stack(11, FORWARD)]),
    # Of eight ranks two were looked at: the others may be elsewhere.
    shown("part_in_collective", *workers(8), *both(REDUCE), unlike=[*TWO, *both(REDUCE)]),
    shown(  # nothing tells how many there are
        "part_in_collective",
        *(ps(10, "python train.py --local_rank=1"), *stack(10, REDUCE)),
        unlike=[ps(10, "python train.py --local_rank=1"), *stack(10, SYNC)],
    ),
    shown("part_in_collective", *workers(4), *both(REDUCE), unlike=[*workers(3), *both(REDUCE)]),
    shown("same_collective_frames", *workers(3), *both(REDUCE), unlike=[*workers(8), *both(REDUCE)]),
    shown("same_device_frames", *TWO, *both(SYNC, FORWARD), unlike=[*TWO, *both(SYNC, "x (pynccl.py)")]),
    shown("ranks_at", *TWO, *stack(10, "cuModuleLoadData (libcuda.so)"), unlike=[*TWO, *stack(99, "f (a.py)")]),
    shown("compile_frames", stack(10, COMPILE), unlike=stack(10, "_recv_msg (torch/_inductor/compile_worker/subproc_pool.py)")),
    shown("device_frames", *TWO, *stack(10, SYNC), *stack(11, FORWARD), unlike=[*TWO, *both(FORWARD)]),
    shown(
        "odd_rank_elsewhere",
        *TWO,
        *stack(10, REDUCE),
        *stack(11, COMPILE),
        unlike=[*TWO, *stack(10, REDUCE), *stack(11, "wait (torch/utils/file_baton.py)")],
    ),
    shown("odd_rank_elsewhere", *TWO, *stack(10, REDUCE), *stack(11, COMPILE), unlike=[*TWO, *both(COMPILE)]),
    shown(  # where so many stand with their GPUs busy, they wait, whatever the place is called
        "odd_rank_elsewhere",
        *(*workers(4), *stack(10, "backward (a.py)"), *CROWD, *BUSY),
        unlike=[*workers(4), *stack(10, "backward (a.py)"), *CROWD, *BUSY[1:], gpu(0, 0, 90)],
    ),
    shown("different_collectives", *TWO, *stack(10, REDUCE), *stack(11, GATHER), unlike=[*TWO, *both(REDUCE)]),
    shown(
        "different_collectives",
        *(ps(pid, "ray::RayWorkerWrapper") for pid in (10, 11, 12)),
        *stack(10, REDUCE),
        *stack(11, GATHER),
        unlike=[ps(10, "python3 a.py"), ps(11, "python3 b.py"), *stack(10, REDUCE), *stack(11, GATHER)],
    ),
    shown(
        "stacks_move",
        worker(0),
        *stack(10, "load (a.py)"),
        *stack(10, "pack (a.py)", moment=1),
        unlike=[worker(0), *stack(10, "load (a.py)"), *stack(10, "load (a.py)", moment=1)],
    ),
    shown(
        "wait_stays",
        worker(0),
        *stack(10, REDUCE),
        *stack(10, REDUCE, moment=1),
        unlike=[worker(0), *stack(10, "poll (zmq.py)"), *stack(10, "poll (zmq.py)", moment=1)],  # it waits for requests
    ),
    shown("spins_in_place", UP, *spins(0), *spins(1), unlike=[UP, *spins(0), *spins(1, "update (core/sched.py)")]),
    shown("spins_in_place", UP, *spins(0), *spins(1), unlike=[line("ready", kind="ready", phase="ready"), *spins(0), *spins(1)]),
    shown(  # in a launch that says nothing, while its GPU shows use without the power of work
        "waits_on_busy_gpu",
        *(line("args", at=0), worker(0), *spins(0), *spins(1), gpu(0, 100, 150)),
        unlike=[line("args", at=0), worker(0), *spins(0), *spins(1), gpu(0, 100, 650)],
    ),
    shown("wait_stays", worker(0), *stack(10, REDUCE), *stack(10, REDUCE, moment=1), unlike=[worker(0), *stack(10, REDUCE)]),
    shown(  # an answer takes a moment
        "lookup_stays",
        *(*stack(10, "getaddrinfo (socket.py)"), *stack(10, "getaddrinfo (socket.py)", moment=1)),
        unlike=[*stack(10, "getaddrinfo (socket.py)")],
    ),
    shown(  # another thread's wait is not the main one's
        "wait_stays",
        worker(0),
        *stack(10, REDUCE),
        *stack(10, REDUCE, moment=1),
        unlike=[
            worker(0),
            *stack(10, "run (a.py)"),
            *stack(10, "run (a.py)", moment=1),
            *stack(10, REDUCE, thread="Thread-1", moment=1),
        ],
    ),
    shown(
        "odd_rank_stays",
        *TWO,
        *stack(10, REDUCE),
        *stack(11, "index (plugin.py)"),
        *stack(11, "index (plugin.py)", moment=1),
        unlike=[*TWO, *stack(10, REDUCE), *stack(11, COMPILE), *stack(11, "load (a.py)", moment=1)],
    ),
    shown(  # other threads come and go
        "stacks_move",
        worker(0),
        *stack(10, "load (a.py)"),
        *stack(10, "pack (a.py)", moment=1),
        unlike=[worker(0), *stack(10, "load (a.py)", thread="T1"), *stack(10, "pack (a.py)", thread="T1", moment=1)],
    ),
    shown(
        "odd_rank_sleeps",
        *THREE,
        *main_threads("clock_nanosleep", "futex", "recvfrom"),
        unlike=[*THREE, *main_threads("clock_nanosleep", "futex", "recvfrom", gap_s=2)],
    ),
    shown(
        "odd_rank_sleeps",
        *TWO,
        *main_threads("clock_nanosleep", "futex"),
        unlike=[*TWO, *main_threads("clock_nanosleep", "clock_nanosleep")],
    ),
    shown("rank_stopped", worker(0), worker(1, "T"), unlike=[worker(0), worker(1, "S")]),
    shown("rank_stopped", worker(0), worker(1, "t"), unlike=[worker(0, "T"), worker(1, "T")]),
    shown("launch_stopped", worker(0, "T"), worker(1, "T"), unlike=[worker(0), worker(1, "T")]),
    shown(
        "launch_stopped", ps(9, "VLLM::EngineCore", "T"), worker(0), unlike=[ps(9, "VLLM::EngineCore"), worker(0, "T"), worker(1)]
    ),
    shown("launch_stopped", ps(9, "vllm serve m", "T"), worker(0), unlike=[ps(9, "bash", "T"), worker(0)]),
    shown(  # a debugger holds it; a tracer does so for a moment
        "launch_stopped",
        *twice("processes", "state", "t", "t", pid=9, cmdline="VLLM::EngineCore", tool="ps"),
        unlike=twice("processes", "state", "S", "t", pid=9, cmdline="VLLM::EngineCore", tool="ps"),
    ),
    shown("launch_frozen", worker(0, "D", wchan="__refrigerator"), unlike=[worker(0, "D", wchan="folio_wait_bit_common")]),
    shown(
        "launch_frozen",
        worker(0),
        row("threads", pid=10, tid=11, moment=1, wchan="do_freezer_trap"),
        unlike=[
            worker(0),
            *(row("threads", pid=10, tid=11, moment=n, wchan=at) for n, at in enumerate(("do_freezer_trap", "ep_poll"))),
        ],
    ),
]

WORLD4 = line("args", tp_size=4, at=0)


def timed_out(rank: int, seq: int = 400, op: str = "ALLREDUCE") -> tuple:
    """A rank's collective that timed out."""
    frame, content = error("collective_timeout", seq=seq, op=op, timeout_ms=600000, rank=rank)
    return frame, content


def ras(rank: int, count: int, moment: int = 0, **columns: object) -> tuple:
    """What NCCL RAS says of a rank."""
    given = {"source": "ncclras", "communicator": "0x1", "operation": "AllReduce", "text": f"rank {rank}"}
    return row("collectives", rank=rank, count=count, moment=moment, **given, **columns)


def counts(*moments: tuple[int, ...]) -> list:
    """Counts of all ranks at some moments."""
    return [ras(rank, count, moment) for moment, ranks in enumerate(moments) for rank, count in enumerate(ranks)]


def recorder(rank: int, pending: int, *completed: int) -> list:
    """What the flight recorder of a rank says: collectives pending, and the last completed one of each group."""
    given = {"source": "recorder_status", "rank": rank}
    groups = [
        row("collectives", operation="last completed", communicator=str(n), count=c, **given) for n, c in enumerate(completed)
    ]
    return [row("collectives", operation="pending", communicator="", count=pending, **given), *groups]


RECORDERS = [
    shown(
        "recorder_host_stopped",
        *(recorder(rank, pending) for rank, pending in enumerate((1, 1, 0))),
        unlike=[part for rank in range(3) for part in recorder(rank, 1)],
    ),
    shown(
        "recorder_device_stopped",
        *(recorder(rank, 1, *completed) for rank, completed in enumerate(((9, 9), (9, 9), (4, 4)))),
        unlike=[part for rank, own in enumerate(((9, 9), (9, 9), (8, 9))) for part in recorder(rank, 1, *own)],
    ),
]


def enqueued(rank: int, op: str, count: str, **columns: object) -> tuple:
    """NCCL's line of a rank's last operation."""
    return line("nccl_op", kind="other", rank=rank, pid=10 + rank, op=op, count=count, comm=f"0x{rank}", nranks=3, **columns)


def ops(*ranks: tuple[str, str]) -> list:
    """The last operation of each rank."""
    return [enqueued(rank, op, count) for rank, (op, count) in enumerate(ranks)]


def queue(*numbers: int) -> list:
    """What PyTorch's watchdog says was enqueued last on each rank."""
    return [line("work_status", kind="symptom", fields={"rank": rank, "last_enqueued": n}) for rank, n in enumerate(numbers)]


def status(*numbers: tuple[int, int]) -> list:
    """What it says was enqueued and completed last on each rank."""
    fields = [{"rank": rank, "last_enqueued": begun, "last_completed": done} for rank, (begun, done) in enumerate(numbers)]
    return [line("work_status", kind="symptom", fields=one) for one in fields]


def batches(*sizes: int) -> list:
    """The batch of each rank."""
    return [line("batch_size", kind="symptom", rank=rank, batch=size) for rank, size in enumerate(sizes)]


SUM, GATHER_OP = ("AllReduce", "1f"), ("AllGather", "1f")
COUNTERS = [
    shown("ops_differ", *THREE, *ops(SUM, SUM, GATHER_OP), unlike=[*THREE, *ops(SUM, SUM, SUM)]),
    shown("ops_differ", entry(0, "nccl:all_reduce"), entry(1, "nccl:broadcast"), unlike=[entry(0, "x"), entry(1, "x")]),
    shown("ops_differ", entry(0, "x"), entry(1, "y"), unlike=[entry(0, "x"), entry(1, "y", count=8)]),
    shown("ops_differ", *THREE, *batches(24, 24, 25), unlike=[*THREE, *batches(24, 24, 24)]),
    shown("ops_behind", *THREE, *ops(SUM, SUM, ("AllReduce", "1e")), unlike=[*THREE, *ops(SUM)]),
    shown("ops_behind", *THREE, *queue(78, 77, 78), unlike=[*THREE, *queue(78, 78, 78)]),
    shown("ops_same", *workers(2), *status((9, 7), (9, 7)), unlike=[*workers(2), *status((9, 7), (9, 8))]),
    shown("ops_same", *workers(2), *status((9, 7), (9, 7)), unlike=[*workers(3), *status((9, 7), (9, 7))]),
    shown("desync_report", error("collective_mismatch"), unlike=[error("collective_timeout")]),
]


def joined(ranks: str) -> tuple:
    """PyTorch's report of ranks that entered a collective and did not come out."""
    return line("desync_lagging", f"[{ranks}] joined but didn't finish", kind="symptom", ranks=ranks, joined="joined", missing=9)


def started(rank: int, op: str) -> tuple:
    """What PyTorch's report says of a rank's latest state."""
    return line("desync_ranks", f"[{rank}] started {op}", kind="symptom", ranks=str(rank), state="started", op=op)


def lacking(*ranks: int) -> list[tuple]:
    """Ranks that the analysis of flight recorders does not find in a collective."""
    told = {
        "source": "flight_recorder",
        "state": "missing",
        "text": "Not all ranks joining collective",
        "operation": "all_reduce",
    }
    return [row("collectives", communicator="0:default_pg", rank=rank, **told) for rank in ranks]


COLLECTIVES = [
    *COUNTERS,
    shown("collective_timeout", timed_out(0), unlike=[error("barrier_timeout")]),
    shown("timeout_lacks_ranks", WORLD4, *map(timed_out, (0, 1, 2)), unlike=[WORLD4, *map(timed_out, (0, 1, 2, 3))]),
    shown("timeout_lacks_ranks", WORLD4, *map(timed_out, (0, 1, 2)), unlike=[WORLD4, *map(timed_out, (0, 1))]),
    shown(  # a barrier of gloo: who writes for all is rank 0
        "absent_rank_works",
        *(error("collective_timeout", rank=2, timeout_ms=1800000), *stack(77, SAVE)),
        unlike=[error("collective_timeout", rank=0, timeout_ms=1800000), *stack(77, SAVE)],
    ),
    shown(
        "absent_rank_works",
        *(line("train_step", phase="train_step", step=9), line("checkpoint"), *map(timed_out, (1, 2))),
        unlike=[line("checkpoint"), line("train_step", phase="train_step", step=9), *map(timed_out, (1, 2))],
    ),
    shown("collective_timeout", timed_out(1), error("exception", at=3600), unlike=[error("exception", at=60), timed_out(1)]),
    shown("odd_rank_elsewhere", *TWO, *stack(10, REDUCE), *stack(11, SAVE), unlike=[*TWO, *both(SAVE)]),
    shown(
        "absent_rank_works",
        *(WORLD4, *map(timed_out, (0, 1, 2)), bar("data", 9, 100, 3590, rank=3)),
        unlike=[WORLD4, *map(timed_out, (0, 1, 2)), bar("data", 9, 100, 3590, rank=1)],
    ),
    shown(
        "desync_report", line("desync_lagging", "[1] joined but didn't finish", kind="symptom", ranks="1"), unlike=[line("args")]
    ),
    shown("all_ranks_joined", WORLD4, *map(timed_out, range(4)), unlike=[WORLD4, *map(timed_out, range(3))]),
    shown("all_ranks_joined", WORLD4, joined("0, 1, 2, 3"), unlike=[WORLD4, joined("0, 1, 3")]),
    shown("all_ranks_joined", joined("0, 1"), unlike=[joined("0, 1"), started(0, "ALLREDUCE"), started(1, "BROADCAST")]),
    shown("desync_report", joined("2"), WORLD4, unlike=[joined("0, 1, 2, 3"), WORLD4]),
    shown("recorder_lacks_ranks", WORLD4, *lacking(3), unlike=[WORLD4, *lacking(1, 2, 3)]),
    shown("seq_differs", timed_out(0), timed_out(1, 399), unlike=[timed_out(0), timed_out(1)]),
    shown("seq_differs", counts((5, 6), (5, 6)), unlike=counts((5, 6))),
    shown("seq_same", timed_out(0), timed_out(1), unlike=[timed_out(0), timed_out(1, 399)]),
    shown("seq_same", counts((5, 5)), unlike=counts((5, 6), (5, 6))),
    shown("first_collective", timed_out(0, seq=1), unlike=[timed_out(0, seq=400)]),
    shown("late_collective", timed_out(0, seq=400), unlike=[timed_out(0, seq=1)]),
    shown("ras_mismatch_once", ras(0, 5, state="mismatch"), ras(1, 6), unlike=[ras(0, 5), ras(1, 6)]),
    shown(
        "ras_mismatch",
        *counts((5, 6), (5, 6)),
        ras(0, 5, 1, state="mismatch"),
        unlike=[*counts((5, 6), (8, 9)), ras(0, 8, 1, state="mismatch")],
    ),
    shown("ras_moves", counts((5, 5), (9, 9)), unlike=counts((5, 5), (5, 5))),
    shown("ras_stays_apart", counts((5, 6), (5, 6)), unlike=counts((5, 6), (9, 9))),
    shown("ras_stands", counts((5, 5), (5, 5)), unlike=counts((5, 5))),
]


def passed(rank: int, at: float = 100) -> tuple:
    """A rank that has passed the end of the weights."""
    return line("weights_end", phase="post_load", rank=rank, rank_label=f"TP{rank}", server="sglang", at=at)


def loading(rank: int) -> tuple:
    """A rank that has begun with the weights."""
    return line("weights_begin", phase="weights", rank=rank, rank_label=f"TP{rank}", server="sglang", at=50)


def moved(*seconds: float) -> list:
    """Ranks that say how long they moved what they hold."""
    return [line(None, f"[w{rank}] moved 40 tensors in {took:.2f} s", rank=rank, at=100) for rank, took in enumerate(seconds)]


AGENTS = [line("args", phase="launch", tp_size=2, at=0), *(ps(pid, "python3 -m work.agent_worker") for pid in (31, 32))]
BEHIND = [*THREE, *map(loading, range(3)), passed(0), passed(1)]
CAPTURING = [
    *BEHIND,
    *(
        line("graph_begin", phase="graph_capture", rank=rank, rank_label=f"TP{rank}", server="sglang", at=120)
        for rank in range(3)
    ),
    *(line("graph_end", phase="warmup", rank=rank, rank_label=f"TP{rank}", server="sglang", at=200) for rank in range(2)),
]

RANKS = [
    shown("barrier_timeout", error("barrier_timeout", rank=0), unlike=[error("collective_timeout")]),
    shown("ranks_by_order", *AGENTS, unlike=[*AGENTS[:1], worker(0), worker(1)]),
    shown("rank_slow", *moved(4, 5, 4, 300, 4), unlike=moved(4, 5, 4, 30, 4)),
    shown("rank_slow", *moved(4, 5, 4, 300, 4), unlike=moved(4, 5, 400, 300, 4)),
    shown("ranks_behind", BEHIND, unlike=[*BEHIND, passed(2)]),
    shown("ranks_behind", BEHIND, unlike=[*THREE, *map(loading, range(3)), passed(0, 3590), passed(1, 3590)]),
    shown(
        "laggard_reads",
        *BEHIND,
        *twice("io", "read_bytes", 0, 9 << 20, pid=12),
        unlike=[*BEHIND, *twice("io", "read_bytes", 0, 9 << 20, pid=11)],
    ),
    shown("zero_graph_addresses", line("graph_addresses", count=0), unlike=[line("graph_addresses", count=12)]),
    shown(
        "silent_rank_idle_gpu",
        *CAPTURING,
        gpu(0, 100),
        gpu(1, 100),
        gpu(2, 0),
        unlike=[*CAPTURING, gpu(0, 100), gpu(1, 0), gpu(2, 100)],
    ),
]

RANK0 = {"pid": 10, "cmdline": "sglang::scheduler_TP0", "tool": "stat", "stime_s": 0.0}
MODEL, CACHE = {"path": "/models/llama"}, {"path": "~/.cache/vllm"}
SAMPLES = [
    shown("cpu_busy", twice("processes", "utime_s", 0, 9, **RANK0), unlike=twice("processes", "utime_s", 0, 1, **RANK0)),
    shown(  # another thread that waits for its turn says nothing of the launch
        "cpu_short",
        *twice("threads", "wait_s", 0.0, 8.0, pid=10, tid=10),
        unlike=twice("threads", "wait_s", 0.0, 8.0, pid=10, tid=12),
    ),
    shown("cpu_flat", twice("processes", "utime_s", 0, 0.1, **RANK0), unlike=twice("processes", "utime_s", 0, 1, **RANK0)),
    shown(  # what a compiler takes is not the server's
        "cpu_flat",
        twice("processes", "utime_s", 0, 0.1, **RANK0),
        unlike=[*twice("processes", "utime_s", 0, 9, **RANK0 | {"pid": 20, "cmdline": "ptxas -v"})],
    ),
    shown(
        "rss_grows",
        twice("processes", "rss_bytes", 1 << 30, 2 << 30, **RANK0),
        unlike=twice("processes", "rss_bytes", 2 << 30, 1 << 30, **RANK0),
    ),
    shown(
        "rss_moves",
        twice("processes", "rss_bytes", 2 << 30, 1 << 30, **RANK0),
        unlike=twice("processes", "rss_bytes", 1 << 40, (1 << 40) + (20 << 20), **RANK0),
    ),
    shown(
        "rss_flat",
        twice("processes", "rss_bytes", 1 << 30, 1 << 30, **RANK0),
        unlike=twice("processes", "rss_bytes", 1 << 30, 2 << 30, **RANK0),
    ),
    shown("reads_move", twice("io", "read_bytes", 0, 1 << 30, pid=10), unlike=twice("io", "read_bytes", 0, 1 << 20, pid=10)),
    shown("reads_move", twice("io", "rchar_bytes", 0, 1 << 30, pid=10), unlike=twice("io", "rchar_bytes", 0, 0, pid=10)),
    shown("reads_flat", twice("io", "read_bytes", 0, 0, pid=10), unlike=twice("io", "read_bytes", 0, 1 << 30, pid=10)),
    shown(  # mapped files are read without a call that counts
        "reads_flat",
        twice("io", "read_bytes", 0, 0, pid=10),
        unlike=[*twice("io", "read_bytes", 0, 0, pid=10), *twice("processes", "rss_bytes", 1 << 30, 2 << 30, **RANK0)],
    ),
    shown("writes_flat", twice("io", "wchar_bytes", 7, 7, pid=10), unlike=twice("io", "wchar_bytes", 7, 8, pid=10)),
    shown("one_sample", line("args"), unlike=[line("shutdown", role="ending")]),
    shown("one_sample", worker(0), unlike=twice("processes", "rss_bytes", 1, 1, **RANK0)),
    shown("size_grows", twice("sizes", "size_bytes", 1, 9, **MODEL), unlike=twice("sizes", "size_bytes", 1, 9, **CACHE)),
    shown("size_flat", twice("sizes", "size_bytes", 9, 9, **MODEL), unlike=twice("sizes", "size_bytes", 1, 9, **MODEL)),
    shown("compile_cache_grows", twice("sizes", "size_bytes", 1, 9, **CACHE), unlike=twice("sizes", "size_bytes", 9, 9, **CACHE)),
    shown("compilers_run", ps(20, "/usr/bin/ptxas -v"), unlike=[ps(20, "ninja -v")]),
    shown(
        "compilers_work",
        twice("processes", "utime_s", 0.1, 3.0, **CC1PLUS),
        unlike=twice("processes", "utime_s", 0.1, 0.1, **CC1PLUS),
    ),
    shown(
        "compilers_work",
        ps(20, "/usr/bin/ptxas -v", moment=0),
        ps(21, "/usr/bin/ptxas -v", moment=1),
        unlike=[ps(20, "/usr/bin/ptxas -v")],
    ),
    shown(  # whoever waits for a compiler that computes is not flat
        "cpu_flat",
        twice("processes", "utime_s", 5.0, 5.0, pid=10, tool="sampler", cmdline="sglang::scheduler_TP0"),
        unlike=[
            *twice("processes", "utime_s", 5.0, 5.0, pid=10, tool="sampler", cmdline="sglang::scheduler_TP0"),
            *twice("processes", "utime_s", 0.1, 3.0, **CC1PLUS),
        ],
    ),
    shown("no_compilers", worker(0), unlike=[worker(0), ps(20, "/usr/bin/ptxas -v")]),
]

TABLE = [*STACKS, *RECORDERS, *COLLECTIVES, *RANKS, *SAMPLES]
