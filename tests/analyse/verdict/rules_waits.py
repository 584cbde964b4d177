"""Evidence for the rules on GPUs, fabric, locks, peers, output, the kernel and threads."""

from __future__ import annotations

from tests.analyse.verdict.scenes import (
    BEGIN,
    NS,
    call,
    error,
    event,
    gpu,
    kernel,
    line,
    ps,
    row,
    shown,
    stack,
    twice,
    worker,
    workers,
)

MIRROR = row("host", source="environ", key="HF_ENDPOINT", value="http://127.0.0.1:8080", pid=10)


def to_hub(address: str = "203.0.113.7", port: int = 443) -> tuple:
    """A connection to where model files come from."""
    return row("sockets", state="ESTAB", pid=10, fd=13, peer_address=address, peer_port=port)


def receives(*descriptors: str) -> list[tuple]:
    """The main thread in a call that receives, one descriptor a sample."""
    call_of = {"pid": 10, "tid": 10, "syscall": "recvfrom", "state": "S"}
    return [row("threads", moment=n, syscall_args=f"{fd} 0x55 0x100", **call_of) for n, fd in enumerate(descriptors)]


GPU = [
    shown("gpu_busy_low_power", gpu(0, 100, 150), gpu(1, 98, 140), unlike=[gpu(0, 100, 600), gpu(1, 98, 140)]),
    shown("gpu_busy_low_power", gpu(0, 100, 150), unlike=[gpu(0, 100, 150), gpu(1, 0, 90), gpu(2, 0, 90)]),
    shown("gpu_working", gpu(0, 100, 600), unlike=[gpu(0, 100, 150)]),
    shown("gpu_working", gpu(0, 100, power_w=371.0), unlike=[gpu(0, 100, power_w=118.0)]),  # the limit is not told
    shown("gpu_working", gpu(0, 100, 600), unlike=[gpu(0, 100, 150), gpu(1, 0, 90), gpu(2, 0, 90)]),
    # what a spinning kernel does not do: it reads and writes the memory
    shown("gpu_working", gpu(0, 97, mem_util_percent=43.0), unlike=[gpu(0, 97, mem_util_percent=1.0)]),
    shown("gpu_busy_low_power", gpu(0, 100, 150, mem_util_percent=1.0), unlike=[gpu(0, 100, 150, mem_util_percent=44.0)]),
    shown("gpu_use_differs", *workers(2), gpu(0, 100), gpu(1, 0), unlike=[*workers(2), gpu(0, 100), gpu(1, 50)]),
    shown("gpu_use_differs", *workers(2), gpu(0, 100), gpu(1, 0), unlike=[gpu(0, 100), gpu(1, 0)]),
    shown("gpu_use_uneven", gpu(0, 100), gpu(1, 99), gpu(2, 0), unlike=[gpu(0, 100), gpu(1, 0), gpu(2, 0)]),
    shown("gpu_all_busy", gpu(0, 100), gpu(1, 99), unlike=[gpu(0, 100, 600), gpu(1, 99, 600)]),
    shown("gpu_all_busy", gpu(0, 100), unlike=[gpu(0, 100, mem_util_percent=60.0)]),
    shown("gpu_idle", gpu(0, 0), gpu(1, 3), unlike=[gpu(0, 0), gpu(1, 30)]),
    shown(  # the last look counts
        "gpu_idle", gpu(0, 100, moment=0), gpu(0, 0, moment=1), unlike=[gpu(0, 0, moment=0), gpu(0, 100, moment=1)]
    ),
    shown("gpu_context_only", gpu(0, 0, mem=600), unlike=[gpu(0, 0, mem=600), gpu(1, 0, mem=20000)]),
    shown("gpu_context_only", gpu(0, 0, mem=600), unlike=[gpu(0, 0, mem=600), line("shutdown", role="ending")]),
    shown(
        "gpu_memory_grows", twice("gpus", "mem_used_mib", 600, 5000, gpu=0), unlike=twice("gpus", "mem_used_mib", 600, 602, gpu=0)
    ),
]

NETWORK = line("nccl_network", "NET/IB : No device found.", kind="other")


CONNECTED = line("nccl_connected", "Connected all rings", phase="dist_init")


def complete(rank: int) -> tuple:
    """A rank's `Init COMPLETE`, which names the rank in its text."""
    return line("nccl_init_complete", phase="dist_init", nranks=2, rank=rank, fields={"rank": rank})


def begun(rank: int) -> tuple:
    """The line by which a rank begins to join a communicator."""
    return line("nccl_init_start", phase="dist_init", nranks=2, rank=rank, fields={"rank": rank})


IN_INIT = stack(10, "ncclCommInitRank (pynccl_wrapper.py)")
FABRIC = [
    shown("iommu_faults", kernel("io_page_fault"), unlike=[kernel("oom_kill")]),
    shown(
        "acs_on",
        row("host", source="lspci", value="ACSCtl: SrcValid+ TransBlk- ReqRedir+"),
        unlike=[row("host", source="lspci", value="ACSCtl: SrcValid- TransBlk- ReqRedir-")],
    ),
    shown(
        "shm_full",
        row("filesystems", mount="/dev/shm", used_percent=99),
        unlike=[row("filesystems", mount="/dev/shm", used_percent=50), row("filesystems", mount="/", used_percent=99)],
    ),
    shown("nccl_socket_only", NETWORK, line("nccl_network", "NET/Socket : Using eth0", kind="other"), unlike=[NETWORK]),
    shown("nccl_complete", complete(0), complete(1), unlike=[complete(0)]),
    shown(
        "silent_after_nccl", complete(0), complete(1), unlike=[complete(0), complete(1), line("weights_begin", phase="weights")]
    ),
    shown("nccl_init_stands", CONNECTED, unlike=[CONNECTED, complete(0), complete(1)]),
    shown("nccl_init_stands", begun(0), begun(1), CONNECTED, complete(0), unlike=[begun(0), CONNECTED, complete(0)]),
    shown("nccl_warns", error("nccl_warn", "NCCL WARN"), unlike=[NETWORK]),
]

BATON = line("lock_wait", "waiting for baton release at /x/jit/build/lock_fmha", kind="symptom")
WAITING = line("lock_wait", "waiting for /tmp/x/lock", kind="symptom", path="/tmp/x/lock")
HELD = row("locks", path="/tmp/x/lock", pid=10)
NINJA = ps(10, "python3 -m sglang.launch_server")

LOCKS = [
    shown("lock_line", WAITING, unlike=[line("args", "lock")]),
    shown("lock_served", BATON, ps(20, "/usr/bin/ptxas -v"), unlike=[BATON]),
    shown(  # whatever it protects, but for a download
        "lock_served",
        line("lock_wait", "[vocoder] waiting for startup lock /tmp/gpu0.lock", kind="symptom"),
        ps(20, "/usr/bin/ptxas -v"),
        unlike=[line("lock_wait", "waiting for lock /h/hub/.locks/m.lock", kind="symptom"), ps(20, "/usr/bin/ptxas -v")],
    ),
    shown("lock_line", BATON, unlike=[BATON, ps(20, "/usr/bin/ptxas -v")]),
    shown("lock_line", BATON, unlike=[BATON, line("build_end", module="norm")]),
    shown(  # another rank of the same log builds it
        "lock_served",
        *(line("build_begin", module="norm", pid=9), line("lock_wait", "baton at /j/lock_norm", kind="symptom", pid=10)),
        unlike=[
            line("build_begin", module="norm", pid=9),
            line("build_end", module="norm", pid=9),
            line("lock_wait", "baton at /j/lock_norm", kind="symptom", pid=10),
        ],
    ),
    shown("lock_frames", stack(10, "wait (torch/utils/file_baton.py)"), unlike=stack(10, "wait (threading.py)")),
    shown(  # another rank builds what the lock protects
        "lock_served",
        *stack(10, "wait (torch/utils/file_baton.py)"),
        ps(20, "/usr/bin/ptxas -v"),
        unlike=[*stack(10, "_poll (filelock/_api.py)"), ps(20, "/usr/bin/ptxas -v")],
    ),
    shown(
        "lock_served",
        *call("flock", "7</tmp/torchinductor_me/x.lock>, LOCK_EX|LOCK_NB", errno="EAGAIN"),
        ps(20, "g++ -c x.cpp"),
        unlike=call("flock", "7</tmp/torchinductor_me/x.lock>, LOCK_EX|LOCK_NB", errno="EAGAIN"),
    ),
    shown("lock_polling", call("newfstatat", '"/tmp/x/lock"', 3), unlike=call("newfstatat", '"/tmp/x/lock"', 2)),
    shown("lock_polling", call("stat", '"/tmp/x/lock"', 3), unlike=call("stat", '"/tmp/x/model"', 3)),
    shown("lock_refused", call("flock", "7, LOCK_EX|LOCK_NB", errno="EAGAIN"), unlike=call("flock", "7, LOCK_EX|LOCK_NB")),
    shown("lock_refused", call("flock", "7, LOCK_EX", state="open"), unlike=call("read", "7", state="open")),
    shown("lock_unserved", WAITING, NINJA, unlike=[WAITING, NINJA, ps(11, "/usr/bin/ptxas -v")]),
    shown("lock_unserved", WAITING, NINJA, unlike=[NINJA]),
    shown(
        "lock_cycle",
        WAITING,
        HELD,
        worker(0),
        *stack(10, "all_reduce (torch/distributed/distributed_c10d.py)"),
        unlike=[WAITING, HELD, worker(0), *stack(10, "compile (triton/compiler/compiler.py)")],
    ),
    shown("lock_stale", WAITING, HELD, ps(99, "python3"), unlike=[WAITING, HELD, ps(10, "python3")]),
    shown("lock_stale", WAITING, row("locks", path="/tmp/x/lock", checked=True), unlike=[WAITING]),
    shown(
        "lock_old",
        WAITING,
        row("locks", path="/tmp/x/lock", mtime=BEGIN - NS),
        unlike=[WAITING, row("locks", path="/tmp/x/lock", mtime=BEGIN + 3599 * NS)],
    ),
]

SYN = row("sockets", state="SYN-SENT", peer_address="10.0.0.9", peer_port=29500)
CONNECT = '3, {sa_family=AF_INET, sin_port=htons(29500), sin_addr=inet_addr("10.0.0.9")}, 16'
TP2 = line("args", phase="launch", tp_size=2, at=0)

PEERS = [
    shown("syn_sent", SYN, unlike=[row("sockets", state="ESTAB", peer_address="10.0.0.9", peer_port=29500)]),
    shown("hub_silent", receives("0xd"), to_hub(), unlike=[*receives("0x5"), to_hub()]),
    shown("hub_silent", receives("0x3", *["0xd"] * 3), to_hub(), to_hub(), unlike=[*receives("0x3", *["0xd"] * 3), to_hub()]),
    shown("hub_silent", receives("0xd"), to_hub(), unlike=[*receives("0xd", "0x9"), to_hub()]),
    shown("hub_silent", receives("0xd"), to_hub(), unlike=[line("weights_begin", phase="weights"), *receives("0xd"), to_hub()]),
    shown(
        "hub_silent",
        MIRROR,
        receives("0xd"),
        to_hub("127.0.0.1", 8080),
        unlike=[MIRROR, *receives("0xd"), to_hub("127.0.0.1", 9)],
    ),
    shown(
        "hub_retried",
        line("hub_retry", kind="heartbeat"),
        unlike=[line("hub_retry", kind="heartbeat"), line("ready", phase="ready")],
    ),
    shown(
        "hub_unreached", line("hub_retry", kind="heartbeat"), error("hub_unreached"), unlike=[line("hub_retry", kind="heartbeat")]
    ),
    shown("connect_fails", call("connect", CONNECT, errno="ETIMEDOUT"), unlike=call("connect", CONNECT)),
    shown(
        "connect_fails",
        call("connect", CONNECT, errno="ETIMEDOUT"),
        unlike=call("connect", '3, {sa_family=AF_UNIX, sun_path="/run/x"}', errno="ECONNREFUSED"),
    ),
    shown("connect_lines", error("socket_timeout"), unlike=[error("collective_timeout")]),
    shown("connect_lines", error("socket_timeout"), unlike=[error("socket_timeout"), line("weights_begin", phase="weights")]),
    shown(
        "connect_lines",
        [line("peer_asked", kind="heartbeat", phase="dist_init")] * 3,
        unlike=[*[line("peer_asked", kind="heartbeat", phase="dist_init")] * 3, line("weights_begin", phase="weights")],
    ),
    shown(
        "store_barrier_short",
        line("store_barrier", worker_count=1, world_size=2),
        unlike=[line("store_barrier", worker_count=1, world_size=2), line("store_barrier", worker_count=2, world_size=2)],
    ),
    shown(
        "ranks_not_begun",
        TP2,
        line("dist_begin", phase="dist_init", rank=0),
        unlike=[TP2, *(line("dist_begin", phase="dist_init", rank=rank) for rank in range(2))],
    ),
    shown(
        "joins_no_more", line("dist_begin", phase="dist_init", at=100), unlike=[line("dist_begin", phase="dist_init", at=3400)]
    ),
    shown("remote_engines_missing", line("engine_wait", remote=2), unlike=[line("engine_wait", remote=0)]),
    shown("remote_engines_missing", line("engine_wait", remote=2), unlike=[line("engine_wait", remote=2), line("http_start")]),
    shown("rendezvous_frames", stack(10, "_store_based_barrier (c10d)"), unlike=stack(10, "poll (selectors.py)")),
    shown("rendezvous_frames", begun(0), IN_INIT, unlike=[begun(0), CONNECTED, IN_INIT]),  # connected: they have met
    shown("hostname_loopback", line("gloo_loopback", kind="symptom"), unlike=[line("args")]),
]

OUTPUT = [
    shown("wchan_pipe_write", worker(0, wchan="pipe_write"), unlike=[worker(0, wchan="pipe_read")]),
    shown("write_unfinished", call("write", "1, ...", fd=1, state="open"), unlike=call("write", "1, ...", fd=1, ret="9")),
    shown(  # open for long when the trace ended, and not by chance
        "write_unfinished",
        *call("write", "1, ...", fd=1, ret="9"),
        *call("write", "1, ...", fd=1, state="open"),
        *call("futex", "0x1", pid=11, times=3),
        unlike=[
            *call("write", "1, ...", fd=1, ret="9"),
            *call("write", "1, ...", fd=1, state="open"),
            *call("futex", "0x1", pid=11),
        ],
    ),
    shown(  # the descriptors are those of the process that writes
        "write_unfinished",
        call("write", "7<pipe:[5]>, ...", fd=7, state="open"),
        unlike=[*call("write", "7<socket:[5]>, ...", fd=7, state="open"), row("fds", pid=10, fd=7, target="pipe:[123]")],
    ),
    shown(
        "write_unfinished",
        call("write", "7, ...", fd=7, state="open"),
        row("fds", pid=10, fd=7, target="pipe:[123]"),
        row("fds", pid=12, fd=7, target="socket:[9]"),
        unlike=[
            *call("write", "7, ...", fd=7, state="open"),
            row("fds", pid=12, fd=7, target="pipe:[123]"),
            row("fds", pid=10, fd=7, target="socket:[9]"),
        ],
    ),
    shown(
        "write_unfinished",
        call("write", "7, ...", fd=7, state="open"),
        row("fds", fd=7, target="pipe:[123]"),
        unlike=[*call("write", "7, ...", fd=7, state="open"), row("fds", fd=7, target="/data/out")],
    ),
    shown("output_frames", stack(10, "flush (logging/__init__.py)"), unlike=stack(10, "flush (zipfile.py)")),
]

STUCK = twice("processes", "state", "D", "D", pid=10, cmdline="sglang::scheduler_TP0", tool="stat")
KILL = event("Kill", "kill -9 10", "shell")
KILLED = row("events", reason="Kill", text="sudo kill -9 10", source="shell", capture="copy.txt", line=5)
BEFORE, AFTER = worker(0, capture="copy.txt", line=2), stack(10, "uvm_spin_loop", tool="kernel", capture="copy.txt", line=7)

KERNEL = [
    shown("d_state", worker(0, "D"), unlike=[worker(0, "S")]),
    shown(
        "d_state", worker(0, "D", elapsed_s=900.0), unlike=[worker(0, "D", elapsed_s=0.0)]
    ),  # who has just begun reads its program
    shown(  # of readers each works between two reads
        "d_state_idle",
        *(worker(rank, "D", cpu_percent=0.0) for rank in range(2)),
        unlike=[worker(0, "D", cpu_percent=0.0), worker(1, "D", cpu_percent=3.1)],
    ),
    shown("d_state_idle", *(worker(n, "D", cpu_percent=0.0) for n in range(2)), unlike=[worker(0, "D", cpu_percent=0.0)]),
    shown("d_state_twice", STUCK, unlike=twice("processes", "state", "D", "S", pid=10, cmdline="x", tool="stat")),
    shown(
        "d_state_no_io",
        worker(0, "D"),
        *twice("io", "read_bytes", 5, 5, pid=10),
        unlike=[worker(0, "D"), *twice("io", "read_bytes", 5, 9, pid=10)],
    ),
    shown("hung_task", kernel("hung_task", "blocked for more than 120 seconds"), unlike=[kernel("oom_kill")]),
    shown("kernel_frames", stack(10, "nfs_wait_bit_killable", tool="kernel"), unlike=stack(10, "do_epoll_wait", tool="kernel")),
    shown("wchan_driver", worker(0, "D", wchan="nv_nfs_wait"), unlike=[worker(0, "S", wchan="nv_nfs_wait")]),
    shown("wchan_driver", worker(0, "D", wchan="rpc_wait_bit"), unlike=[worker(0, "D", wchan="futex_wait")]),
    shown("wchan_driver", worker(0, "D", wchan="xfs_ilock"), unlike=[worker(0, "D", wchan="uvm_va_space_down_read")]),
    shown("wchan_gpu", worker(0, "D", wchan="os_acquire_rwlock_write"), unlike=[worker(0, "D", wchan="btrfs_lock_root_node")]),
    shown(
        "nfs_dead",
        kernel("nfs", "nfs: server a not responding, still trying", line=1),
        unlike=[kernel("nfs", "nfs: server a not responding", line=1), kernel("nfs", "nfs: server a OK", line=2)],
    ),
    shown(
        "nfs_dead",
        kernel("nfs", "Lustre: OST4-osc: Connection to OST4 (at 10.2.2.4@o2ib) was lost", line=1),
        unlike=[
            kernel("nfs", "Lustre: OST4-osc: Connection to OST4 (at 10.2.2.4@o2ib) was lost", line=1),
            kernel("nfs", "Lustre: OST4-osc: Connection restored to 10.2.2.4@o2ib", line=2),
        ],
    ),
    shown("cpu_lockup", kernel("lockup", "rcu: INFO: rcu_sched self-detected stall on CPU"), unlike=[kernel("hung_task")]),
    shown("sigkill_ignored", worker(0, "R", sigkill_pending=True), unlike=[worker(0, "Z", sigkill_pending=True)]),
    shown("sigkill_ignored", KILL, worker(0), unlike=[KILL, worker(1)]),
    shown("sigkill_ignored", KILLED, BEFORE, AFTER, unlike=[KILLED, BEFORE]),  # a table that was printed before it tells nothing
    shown("sigkill_ignored", KILL, worker(0), unlike=[event("Kill", "kill -15 10", "shell"), worker(0)]),
]


def thread(tid: int, **columns: object) -> tuple:
    """A thread of process 10."""
    return row("threads", pid=10, tid=tid, **columns)


SPINS = (ps(9, "VLLM::EngineCore"), worker(0), *stack(10, "acquire_read (shm_broadcast.py)"))
LEADER = stack(9, "acquire_read (shm_broadcast.py)", "get_response (multiproc_executor.py)")
IDLE = [thread(tid, cpu_percent=0.1) for tid in (11, 12, 13)]
PIPE = [
    call("pipe2", "[3<pipe:[7]>, 4<pipe:[7]>], 0", ret="0"),
    *(call("clone", "child_stack=NULL, flags=SIGCHLD", ret=str(pid), result=str(pid)) for pid in (11, 12)),
]
"""A pipe that two children inherit."""
PAIR = [
    call("socketpair", "AF_UNIX, SOCK_STREAM, 0, [3<socket:[7]>, 4<socket:[8]>]", ret="0"),
    call("clone", "child_stack=NULL, flags=SIGCHLD", ret="11", result="11"),
    call("close", "4<socket:[8]>", fd=4, ret="0"),
    call("close", "3<socket:[7]>", pid=11, fd=3, ret="0"),
    call("read", "3<socket:[7]>, ", fd=3, state="open"),
]
TICKS = call("write", "5, ..., 1", 4, ret="1")

THREADS = [
    shown(
        "all_futex",
        *(thread(tid, wchan="futex_wait_queue") for tid in (10, 11)),
        unlike=[thread(10, wchan="futex_wait_queue"), thread(11, wchan="do_epoll_wait")],
    ),
    shown("all_asleep", worker(0), worker(1), unlike=[worker(0), worker(1, "R")]),
    shown(
        "forked_lock",
        stack(10, "__lll_lock_wait (libc.so.6)", "GOMP_parallel (libgomp.so)", "worker (multiprocess/pool.py)"),
        unlike=[
            *stack(10, "__lll_lock_wait (libc.so.6)", "GOMP_parallel (libgomp.so)", "step (train.py)"),
            *stack(11, "__lll_lock_wait (libc.so.6)", "cuInit (libcuda.so)", "worker (multiprocessing/process.py)"),
        ],
    ),
    shown(  # below Python, where py-spy does not look
        "forked_lock",
        stack(10, "resize (torchvision/functional.py)", "worker (multiprocess/pool.py)"),
        ps(10, "python train.py", cpu_s=0.0),
        unlike=[
            *stack(10, "resize (torchvision/functional.py)", "worker (multiprocess/pool.py)"),
            *stack(11, "recv_into (socket.py)", "worker (multiprocess/pool.py)"),
            ps(10, "python train.py", cpu_s=3.0),
            ps(11, "python train.py", cpu_s=0.0),
        ],
    ),
    shown(  # of a whole life, as ps reckons it
        "forked_lock",
        stack(10, "resize (torchvision/functional.py)", "worker (multiprocess/pool.py)"),
        ps(10, "python train.py", cpu_percent=0.0),
        unlike=[
            *stack(10, "resize (torchvision/functional.py)", "worker (multiprocess/pool.py)"),
            ps(10, "python train.py", cpu_percent=2.0),
        ],
    ),
    shown(
        "answer_lost",
        LEADER,
        *(
            part
            for n in range(2)
            for part in (worker(n), *stack(10 + n, "acquire_read (shm_broadcast.py)", "worker_busy_loop (x.py)"))
        ),
        unlike=[
            *LEADER,
            *(part for n in range(2) for part in (worker(n), *stack(10 + n, ("acquire_read", "forward")[n] + " (x.py)"))),
        ],
    ),
    shown(
        "leader_spins",
        *(*SPINS, *(stack(9, "find_slot (core.py)", moment=n, thread_state="active+gil") for n in range(2))),
        unlike=[
            *SPINS,
            *(part for n in range(2) for part in stack(9, f"find_slot (core{n}.py)", moment=n, thread_state="active")),
        ],
    ),
    shown("queue_frames", stack(10, "get (queue.py)"), unlike=[*stack(10, "get (queue.py)"), *stack(11, "all_reduce (c10d)")]),
    shown(  # who holds the GIL sleeps, so nobody runs
        "queue_frames",
        stack(10, "futex_wait (libc.so.6)", "take_gil (ceval_gil.h)", "PyGILState_Ensure (pystate.c)", "fill (pool.so)"),
        unlike=stack(10, "futex_wait (libc.so.6)", "fill (pool.so)"),
    ),
    shown(  # the queue is the one that brings requests
        "queue_frames",
        stack(10, "get (queue.py)", "run (x.py)"),
        unlike=stack(10, "get (queue.py)", "recv_requests (scheduler.py)"),
    ),
    shown(  # a thread beside the main one waits for its next piece of work
        "queue_frames",
        stack(10, "put (queue.py)", "run (x.py)", thread="Thread-2"),
        unlike=stack(10, "wait (threading.py)", "get (queue.py)", "run (x.py)", thread="Thread-2"),
    ),
    shown(
        "frontend_frames",
        ps(10, "vllm serve"),
        *stack(10, "encode (tokenizers/__init__.py)"),
        unlike=[worker(0), *stack(10, "encode (tokenizers/__init__.py)")],
    ),
    shown(
        "frontend_frames",
        row("stacks", tool="pyspy-top", pid=10, share_percent=80, function="render", file="jinja2/environment.py", depth=0),
        unlike=[row("stacks", tool="pyspy-top", pid=10, share_percent=20, function="render", file="jinja2/x.py", depth=0)],
    ),
    shown(
        "frontend_burns",
        row("threads", pid=10, tid=10, comm="sglang::tokeniz", cpu_percent=99.0),
        unlike=[row("threads", pid=10, tid=10, comm="sglang::schedul", cpu_percent=99.0)],
    ),
    shown("frontend_burns", ps(10, "vllm serve", cpu_percent=99), unlike=[worker(0, cpu_percent=99)]),
    shown(
        "frontend_burns",
        *(ps(10, "vllm serve", cpu_percent=99), *stack(10, "poll (a.py)")),
        unlike=[ps(10, "vllm serve", cpu_percent=99), *stack(10, "cudaStreamSynchronize (libcudart.so)")],
    ),
    shown("one_thread_polls", thread(10, cpu_percent=99), *IDLE, unlike=[thread(10, cpu_percent=99), *IDLE[:2]]),
    shown(
        "one_thread_polls",
        thread(10, cpu_percent=99),
        *IDLE,
        unlike=[thread(10, cpu_percent=99), *IDLE, thread(14, cpu_percent=40)],
    ),
    shown(
        "calls_circle",
        *PAIR,
        call("read", "4<socket:[8]>, ", pid=11, fd=4, state="open"),
        unlike=[*PAIR, call("clock_nanosleep", "CLOCK_REALTIME, 0, {tv_sec=9, tv_nsec=0}, ", pid=11, state="open")],
    ),
    shown(
        "waits_for_killed",
        *PIPE,
        call("write", '4<pipe:[7]>, "x", 1', pid=12, fd=4, ret="1"),
        call("read", "3<pipe:[7]>, ", pid=11, fd=3, state="open"),
        call("wait4", "11, ", state="open"),
        row("signals", pid=12, kind="killed", signal="SIGKILL"),
        unlike=[
            *PIPE,
            call("write", '4<pipe:[7]>, "x", 1', pid=12, fd=4, ret="1"),
            call("read", "3<pipe:[7]>, ", pid=11, fd=3, state="open"),
            call("wait4", "11, ", state="open"),
        ],
    ),
    shown("event_ticks", TICKS, unlike=[*TICKS, *call("read", "9", ret="65536")]),
    shown("event_ticks", TICKS, unlike=call("write", "5, ..., 1", 2, ret="1")),
]

TABLE = [*GPU, *FABRIC, *LOCKS, *PEERS, *OUTPUT, *KERNEL, *THREADS]
