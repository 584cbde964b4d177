"""Signs of waiting: for the GPU, a lock, a peer, resources, a pipe, the kernel, another thread."""

from __future__ import annotations

import re

from kit.analyse.verdict.deltas import bytes_read, deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import all_stacks
from kit.clock import NS

BUSY_UTIL = 90.0
LOW_POWER = 0.40
"""A GPU that shows at least 90 % use at less than 40 % of its power limit spins in a kernel that does no work. Wedged GB10
boards drew 16 to 27 W at 96 % where healthy load drew 45 to 90 W; low power is the test, use is not."""
CONTEXT_MIB = 1000.0
"""Memory of a CUDA and NCCL context alone is 400 to 900 MiB a rank: nothing was loaded yet."""
SHM_FULL = 90.0
KERNEL_STUCK = re.compile(
    r"nvidia|uvm|amdgpu|kfd|nfs|rpc_|lustre|cl_|ceph|fuse|gpfs|wait_on_page|folio_wait|io_schedule|nvme|blk_"
)
POLLING_PERCENT = 50.0
TICKS_PER_S = 20.0
"""Fewer small writes a second than this are a tick; busy event loops make hundreds (healthy server of the bundled runs)."""
BUNDLE = re.compile(r"\{([^{}]*)\}(?: \* (\d+))?")
RESOURCE = re.compile(r"'([^']+)': ([\d.]+)")
FUTEX_WCHAN = re.compile(r"futex")


def gpu(scene: Scene) -> Signs:
    """Utilisation against power, memory of a mere context."""
    rows = [row for row in scene.evidence.gpus if row.get("util_percent") is not None]
    newest = max((row.get("moment") or 0 for row in rows), default=0)
    rows = [row for row in rows if (row.get("moment") or 0) == newest]
    if rows:
        busy = [row for row in rows if row["util_percent"] >= BUSY_UTIL]
        powered = [row for row in busy if row.get("power_w") and row.get("power_limit_w")]
        low = [row for row in powered if row["power_w"] / row["power_limit_w"] < LOW_POWER]
        if powered and len(low) == len(powered) and 2 * len(busy) >= len(rows):
            share = max(row["power_w"] / row["power_limit_w"] for row in low)
            yield Sign(
                "gpu_busy_low_power",
                f"{len(low)} of {len(rows)} GPU(s) show ≥ {BUSY_UTIL:.0f} % use at no more than "
                f"{share:.0%} of the power limit: they spin, they do not work",
                [ref(row) for row in low[:2]],
            )
        elif powered:
            yield Sign("gpu_working", f"{len(powered) - len(low)} GPU(s) are busy at high power", [ref(powered[0])])
        world = scene.processes.world_size
        if busy and any(row["util_percent"] <= 5 for row in rows) and world and world == len(rows):
            yield Sign(
                "gpu_use_differs",
                f"{len(busy)} of {len(rows)} GPU(s) are busy, others idle: the ranks are not in one place",
                [ref(row) for row in rows[:2]],
            )
        if busy and len(busy) < len(rows):
            idle = [row["gpu"] for row in rows if row["util_percent"] <= 5]
            if idle and len(idle) < len(busy):
                yield Sign(
                    "gpu_use_uneven",
                    f"GPU {', '.join(map(str, idle))} idle while {len(busy)} other(s) show ≥ {BUSY_UTIL:.0f} % use",
                    [ref(row) for row in rows[:2]],
                    idle,
                )
        if busy and len(busy) == len(rows) and not powered:
            yield Sign("gpu_all_busy", f"all {len(rows)} GPU(s) show ≥ {BUSY_UTIL:.0f} % use", [ref(busy[0])])
        if all(row["util_percent"] <= 5 for row in rows):
            yield Sign("gpu_idle", f"all {len(rows)} GPU(s) show no use", [ref(rows[0])])
    used = [row["mem_used_mib"] for row in scene.evidence.gpus if row.get("mem_used_mib") is not None]
    if used and max(used) < CONTEXT_MIB:
        yield Sign(
            "gpu_context_only",
            f"GPU memory is at most {max(used):,.0f} MiB: a context, nothing loaded",
            scene.facts.refs("gpu_mem_mib_max"),
        )
    memory = deltas(scene.evidence.gpus, "gpu", lambda row: row.get("mem_used_mib"))
    if memory and max(d.change for d in memory.values()) > 16:
        yield Sign(
            "gpu_memory_grows", f"GPU memory grew by {max(d.change for d in memory.values()):,.0f} MiB between two samples", []
        )


def fabric(scene: Scene) -> Signs:
    """The data path between GPUs: IOMMU, ACS, shared memory, network of NCCL."""
    e = scene.evidence
    faults = [row for row in e.kernel_log if row.get("kind") == "io_page_fault"]
    if faults:
        yield Sign(
            "iommu_faults",
            f"the kernel logged {len(faults)} IO_PAGE_FAULT(s): the IOMMU refuses transfers between devices",
            [ref(row, row["text"]) for row in faults[:2]],
        )
    acs = [row for row in e.host if row["source"] == "lspci" and re.search(r"ACSCtl:.*(?:SrcValid\+|ReqRedir\+)", row["value"])]
    if acs:
        yield Sign(
            "acs_on",
            "PCIe access control (ACS) is on at a bridge: transfers between GPUs go by the root complex",
            [ref(acs[0], acs[0]["value"])],
        )
    shm = [row for row in e.filesystems if row.get("mount") == "/dev/shm" and row.get("used_percent") is not None]
    if shm and shm[0]["used_percent"] >= SHM_FULL:
        yield Sign("shm_full", f"/dev/shm is {shm[0]['used_percent']:.0f} % full", [ref(shm[0])])
    sockets = e.log.of("nccl_network")
    if (
        sockets
        and any("Socket" in mark.text for mark in sockets)
        and any("IB" in mark.text and "No device" in mark.text for mark in sockets)
    ):
        yield Sign("nccl_socket_only", "NCCL found no InfiniBand and uses sockets", [sockets[-1].ref])
    complete = {rank for mark in e.log.of("nccl_init_complete") if (rank := mark.fields.get("rank")) is not None}
    world = scene.processes.world_size
    if complete and world and len(complete) >= world:
        first = e.log.of("nccl_init_complete")[-1]
        yield Sign("nccl_complete", f"all {world} ranks finished NCCL's init (Init COMPLETE)", [first.ref])
        last = e.log.last_progress
        if last is not None and last.get("milestone") in ("nccl_init_complete", "nccl_timings"):
            yield Sign("silent_after_nccl", "and nothing followed: the first data-bearing operation does not end", [first.ref])
    errors = e.log.of("nccl_error", "nccl_warn")
    if errors:
        yield Sign("nccl_warns", f"NCCL says: {errors[0].text[:120]}", [errors[0].ref])


def lock(scene: Scene) -> Signs:
    """Lock files: who waits, who holds, is it alive."""
    e, facts = scene.evidence, scene.facts
    lines = e.log.of("lock_wait")
    if lines:
        yield Sign("lock_line", f"the log says that it waits for a lock: {lines[-1].text[:120]}", [lines[-1].ref])
    stacks = [stack for stack in all_stacks(e) if stack.category == "lock"]
    ranks = sorted({r for stack in stacks if (r := scene.processes.rank_of(stack.pid)) is not None})
    if stacks:
        yield Sign(
            "lock_frames", f"{len(stacks)} thread(s) wait in {stacks[0].place}", [stack.ref for stack in stacks[:3]], ranks
        )
    loop = [
        row
        for row in e.syscalls.samples.values()
        if row["syscall"] in ("stat", "newfstatat", "statx", "access", "flock", "openat")
        and re.search(r"lock", row.get("args") or "")
    ]
    if loop and e.syscalls.by_thread[loop[0].get("pid")][loop[0]["syscall"]] >= 3:
        yield Sign(
            "lock_polling",
            f"a thread asks for a lock file over and over: {loop[0]['syscall']}({loop[0]['args'][:80]})",
            [ref(loop[0])],
        )
    refused = [
        row
        for row in e.syscalls.samples.values()
        if row["syscall"] in ("flock", "fcntl") and row.get("errno") in ("EAGAIN", "EACCES")
    ]
    refused += [row for row in e.syscalls.open.values() if row["syscall"] == "flock" or "F_SETLKW" in (row.get("args") or "")]
    if refused:
        yield Sign(
            "lock_refused",
            f"a lock is refused: {refused[0]['syscall']}({(refused[0].get('args') or '')[:60]}) "
            f"{refused[0].get('errno') or 'does not return'}; {facts.value('lock_path') or 'its file is not named'}",
            [ref(refused[0])],
        )
    waits = bool(lines or stacks or loop or refused)
    if waits and facts.value("compilers_running") == 0:
        yield Sign("lock_unserved", "and no compiler is alive that would do the work behind the lock", [])
    holder = facts.value("lock_holder")
    if waits and holder is not None:
        held = scene.processes.by_pid.get(holder)
        holding = [
            stack for stack in all_stacks(e) if stack.pid == holder and stack.category in ("collective", "device_sync", "lock")
        ]
        if holding:
            yield Sign(
                "lock_cycle",
                f"the holder (pid {holder}) itself waits in {holding[0].place} for the ranks that wait for the lock",
                [holding[0].ref, *facts.refs("lock_holder")],
            )
        elif held is None and e.processes:
            yield Sign(
                "lock_stale", f"the lock is held by pid {holder}, which is not among the processes", facts.refs("lock_holder")
            )
    elif waits and any(row.get("checked") for row in e.locks):
        yield Sign("lock_stale", f"nobody holds {facts.value('lock_path')}: the lock is stale", facts.refs("lock_path"))
    old = [row for row in e.locks if row.get("mtime") and e.log.first_time and row["mtime"] < e.log.first_time]
    if waits and old:
        yield Sign("lock_old", "the lock file is older than the launch", [ref(old[0], old[0]["path"])])


def peers(scene: Scene) -> Signs:
    """Peers that have not joined."""
    e, processes = scene.evidence, scene.processes
    syn = [row for row in e.sockets if row.get("state") in ("SYN-SENT", "SYN_SENT")]
    if syn:
        yield Sign(
            "syn_sent",
            f"{len(syn)} socket(s) try to connect to {syn[0].get('peer_address')}:{syn[0].get('peer_port')} without an answer",
            [ref(syn[0])],
        )
    connects = [
        row
        for row in e.syscalls.samples.values()
        if row["syscall"] == "connect"
        and row.get("errno") in ("EINPROGRESS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH")
    ]
    if connects and not syn and re.search(r"AF_INET", connects[0].get("args") or ""):
        yield Sign(
            "connect_fails",
            f"connect() does not succeed: {connects[0]['args'][:100]} {connects[0].get('errno')}",
            [ref(connects[0])],
        )
    lines = e.log.of("socket_timeout", "socket_retry", "gloo_failed", "rendezvous_timeout", "store_barrier_timeout")
    if lines:
        yield Sign(
            "connect_lines",
            f"the log says that a peer does not answer: {lines[-1].text[:140]}",
            [lines[0].ref, lines[-1].ref][: len(lines)],
        )
    for mark in reversed(e.log.of("store_barrier")):
        count, world = mark.fields.get("worker_count"), mark.fields.get("world_size")
        if count is not None and world is not None and int(count) < int(world):
            yield Sign("store_barrier_short", f"{count} of {world} workers arrived at the store barrier", [mark.ref])
        break
    if processes.world_size and scene.phase in ("launch", "dist_init"):
        begun = {
            r
            for mark in e.log.of("dist_begin", "nccl_init_start")
            if (r := mark.rank if mark.rank is not None else mark.fields.get("rank")) is not None
        }
        ended = e.log.of("dist_end", "nccl_init_complete")
        if begun and not ended and len(begun) < processes.world_size:
            yield Sign("ranks_not_begun", f"{len(begun)} of {processes.world_size} ranks began to join in these logs", [])
    engines = e.log.last("engine_wait")
    if engines and int(engines.fields.get("remote") or 0) > 0 and not e.log.of("http_start"):
        yield Sign(
            "remote_engines_missing",
            f"the front end waits for {engines.fields['remote']} engine(s) of other nodes",
            [engines.ref],
        )
    stacks = [stack for stack in all_stacks(e) if stack.category == "rendezvous"]
    if stacks:
        yield Sign("rendezvous_frames", f"{len(stacks)} thread(s) wait for peers in {stacks[0].place}", [stacks[0].ref])
    loopback = e.log.of("gloo_loopback")
    if loopback:
        yield Sign(
            "hostname_loopback", "the host name resolves to no local address; the loopback address is used", [loopback[0].ref]
        )


def resources(scene: Scene) -> Signs:
    """Schedulers that have nothing to give."""
    e = scene.evidence
    waits = e.log.of("placement_wait")
    if waits:
        yield Sign("placement_wait", f"Ray waits for a placement group: {waits[-1].text[:120]}", [waits[-1].ref])
    short = e.log.of("insufficient_resources") + [
        mark for mark in e.log.of("replica_wait") if mark.fields.get("stage") == "scheduled"
    ]
    if short:
        yield Sign("resources_short_line", f"the log says that resources lack: {short[-1].text[:140]}", [short[-1].ref])
    yield from _lacking(scene)
    pending = [row for row in e.events if row["source"] == "kubernetes" and row.get("reason") == "Pending"]
    if pending:
        yield Sign("unschedulable", f"the pod is pending: {pending[0]['text'][:120]}", [ref(pending[0])])


def _lacking(scene: Scene) -> Signs:
    """A Ray cluster that has less free of something than is asked for."""
    e = scene.evidence
    rows = [row for row in e.counters if row["source"] == "ray"]
    values = {row["name"]: row["value"] for row in rows}
    if not rows:
        return
    wanted = e.log.last("placement_wait")
    asked = [(row["text"], ref(row)) for row in e.events if row["source"] == "ray" and row.get("reason") == "PendingDemand"]
    asked += [(wanted.text, wanted.ref)] if wanted else []
    kinds = any(name.startswith("accelerator_type:") for name in values)
    for text, where in asked:
        yield Sign("demand_pending", f"Ray lists what it cannot place: {text[:120]}", [where])
        for name, need in demand(text).items():
            if name.startswith("node:") or name.startswith("accelerator_type:") and not kinds:
                continue  # `ray status` shows no amounts of these
            total = values.get(f"{name.lower()}_total", 0.0)
            free = total - values.get(f"{name.lower()}_used", 0.0)
            if free < need:
                yield Sign(
                    "demand_over_supply",
                    f"{need:g} of {name} are asked for, {free:g} of {total:g} are free in the Ray cluster",
                    [where, ref(rows[0])],
                )
                return


def demand(text: str) -> dict[str, float]:
    """Resources that a demand of Ray sums up to, by name.

    Examples
    --------
    >>> demand("{'CPU': 1.0, 'GPU': 1.0} * 1, {'GPU': 1.0} * 3 (STRICT_PACK): 1+ pending placement groups")
    {'CPU': 1.0, 'GPU': 4.0}
    """
    needs: dict[str, float] = {}
    for bundle, times in BUNDLE.findall(text):
        for name, value in RESOURCE.findall(bundle):
            needs[name] = needs.get(name, 0.0) + float(value) * int(times or 1)
    return needs


def output(scene: Scene) -> Signs:
    """Blocked on its own output."""
    e, facts = scene.evidence, scene.facts
    if facts.value("wchan") in ("pipe_write", "anon_pipe_write", "pipe_wait_writable", "n_tty_write", "tty_wait_until_sent"):
        yield Sign(
            "wchan_pipe_write", f"it sleeps in {facts.value('wchan')}: a write to a pipe that nobody drains", facts.refs("wchan")
        )
    blocked = facts.value("blocked_fd")
    if blocked is not None:
        target = next((row.get("target") for row in e.fds if row["fd"] == blocked), None)
        kind = f" ({target})" if target else ""
        if blocked in (1, 2) or (target or "").startswith("pipe:"):
            yield Sign("write_unfinished", f"write() to descriptor {blocked}{kind} does not return", facts.refs("blocked_fd"))
    stacks = [stack for stack in all_stacks(e) if stack.category == "output"]
    if stacks:
        yield Sign("output_frames", f"{len(stacks)} thread(s) stand in {stacks[0].place}", [stacks[0].ref])


def kernel(scene: Scene) -> Signs:
    """Uninterruptible sleep, hung tasks, dead network file systems, a SIGKILL that does nothing."""
    e = scene.evidence
    pids = scene.facts.value("d_state_pids") or []
    if pids:
        samples = deltas(
            [{**row, "d": row.get("state") == "D"} for row in e.processes if row["pid"] in pids],
            "pid",
            lambda row: float(row["d"]),
        )
        always = any(d.first and d.last for d in samples.values())
        yield Sign(
            "d_state",
            f"pid {', '.join(map(str, pids[:8]))} sleeps uninterruptibly (state D)" + (" in both samples" if always else ""),
            scene.facts.refs("d_state_pids"),
            [r for pid in pids if (r := scene.processes.rank_of(pid)) is not None],
        )
        if always:
            yield Sign("d_state_twice", "and did so in two samples", scene.facts.refs("d_state_pids"))
        read = deltas((row for row in e.io if row.get("pid") in (*pids, None)), "pid", bytes_read)
        if read and all(delta.change == 0 for delta in read.values()):
            yield Sign("d_state_no_io", "and reads nothing between two samples", scene.facts.refs("d_state_pids"))
    hung = [row for row in e.kernel_log if row.get("kind") == "hung_task"]
    if hung:
        yield Sign("hung_task", f"the kernel says: {hung[0]['text'][:120]}", [ref(hung[0], hung[0]["text"])])
    frames = [row for row in e.stacks if row.get("tool") == "kernel" and KERNEL_STUCK.search(row.get("function") or "")]
    if frames:
        yield Sign("kernel_frames", f"its kernel stack stands in {frames[0]['function']}", [ref(frames[0])])
    wchan = scene.facts.value("wchan")
    if wchan and KERNEL_STUCK.search(wchan) and pids:
        yield Sign("wchan_driver", f"it sleeps in {wchan}", scene.facts.refs("wchan"))
    nfs = [row for row in e.kernel_log if row.get("kind") == "nfs" and "not responding" in row["text"]]
    if nfs and not any(
        row.get("kind") == "nfs" and "OK" in row["text"] and (row.get("line") or 0) > (nfs[-1].get("line") or 0)
        for row in e.kernel_log
    ):
        yield Sign("nfs_dead", f"the kernel says: {nfs[-1]['text'][:120]}", [ref(nfs[-1], nfs[-1]["text"])])
    killed = [row for row in e.events if row["source"] == "shell" and row.get("reason") == "Kill"]
    alive = {p.pid for p in scene.processes.by_pid.values() if p.states and p.states[-1] not in ("Z", "X")}
    ignored = [
        row
        for row in killed
        if re.search(r"-(?:9|KILL|SIGKILL)\b", row["text"]) and alive & set(map(int, re.findall(r"\b\d{2,}\b", row["text"])))
    ]
    if ignored:
        yield Sign("sigkill_ignored", f"SIGKILL did nothing: {ignored[0]['text'][:80]}", [ref(ignored[0], ignored[0]["text"])])


def threads(scene: Scene) -> Signs:
    """All asleep in futex, queues that wait for one another, a front end that burns CPU."""
    e = scene.evidence
    named = [row for row in e.threads if row.get("wchan")]
    if (
        named
        and all(FUTEX_WCHAN.search(row["wchan"]) or row["wchan"] in ("do_wait", "pipe_read", "anon_pipe_read") for row in named)
        and len(named) >= 2
    ):
        yield Sign("all_futex", f"all {len(named)} threads that were seen sleep in futex", [ref(named[0])])
    sleeping = [row for row in e.processes if row.get("state")]
    if sleeping and all(row["state"] in ("S", "I", "T", "Z") for row in sleeping):
        yield Sign("all_asleep", f"all {len({row['pid'] for row in sleeping})} process(es) sleep", [ref(sleeping[0])])
    stacks = all_stacks(e)
    queues = [stack for stack in stacks if stack.category == "queue"]
    others = [
        stack
        for stack in stacks
        if stack.category in ("collective", "device_sync", "lock", "compile", "load", "download", "post_load")
    ]
    if queues and not others:
        pids = {stack.pid for stack in queues}
        yield Sign(
            "queue_frames",
            f"{len(queues)} thread(s) of {len(pids)} process(es) wait for each other in {queues[0].place}",
            [stack.ref for stack in queues[:3]],
        )
    front = [
        stack
        for stack in stacks
        if stack.category == "tokenizer"
        and scene.processes.by_pid.get(stack.pid) is not None
        and scene.processes.by_pid[stack.pid].role != "worker"
    ]
    shares = [row for row in e.stacks if row.get("tool") == "pyspy-top" and (row.get("share_percent") or 0) >= 50]
    top = [
        row
        for row in shares
        if re.search(r"token|jinja|template|grammar|outlines|xgrammar", f"{row.get('function')} {row.get('file')}", re.IGNORECASE)
    ]
    if front or top:
        where = front[0].place if front else f"{top[0].get('function')} ({top[0].get('file')})"
        yield Sign("frontend_frames", f"the front end works in {where}", [front[0].ref if front else ref(top[0])])
    burning = [
        p
        for p in scene.processes.of_role("frontend", "helper", "other")
        for row in p.rows[-1:]
        if (row.get("cpu_percent") or 0) >= 90
    ]
    if burning:
        yield Sign(
            "frontend_burns",
            f"pid {burning[0].pid} ({burning[0].title[:50]}) takes {burning[0].rows[-1]['cpu_percent']:.0f} % CPU",
            [ref(burning[0].rows[-1], burning[0].title[:100])],
        )
    if e.tool_errors and not e.stacks:
        failed = [row for row in e.tool_errors if row["tool"] in ("pyspy", "py-spy", "gdb", "strace")]
        if failed:
            yield Sign(
                "stack_tool_failed",
                f"{failed[0]['tool']} could not look: {failed[0]['text'][:100]}",
                [ref(failed[0], failed[0]["text"])],
            )


def ticking(scene: Scene) -> Signs:
    """Small steady noises that look like life and are none: a polling thread, a byte on an event pipe now and then."""
    e = scene.evidence
    shares = [row for row in e.threads if row.get("cpu_percent") is not None]
    busy = [row for row in shares if row["cpu_percent"] >= POLLING_PERCENT]
    if (
        len(busy) == 1
        and len(shares) >= 4
        and sum(row["cpu_percent"] for row in shares if row is not busy[0]) < POLLING_PERCENT / 5
    ):
        yield Sign(
            "one_thread_polls",
            f"one of {len(shares)} threads (tid {busy[0]['tid']}) takes {busy[0]['cpu_percent']:.0f} % CPU, "
            "the others sleep: a thread that polls, no work",
            [ref(busy[0], busy[0].get("comm"))],
        )
    calls = e.syscalls
    if (
        calls.small_writes
        and calls.first is not None
        and calls.last is not None
        and calls.last - calls.first >= 2 * NS
        and not calls.file_reads
    ):
        pid, count = max(calls.small_writes.items(), key=lambda pair: pair[1])
        rate = count / ((calls.last - calls.first) / NS)
        if count >= 3 and rate < TICKS_PER_S:
            yield Sign(
                "event_ticks",
                f"in {calls.calls} system calls no file is read; thread {pid} writes a few bytes {rate:.1f} times a "
                "second: a timer or an event pipe, no work",
                [ref(calls.samples[pid, "write"], "write of a few bytes")],
            )


def work(scene: Scene) -> Signs:
    """What the stacks of the workers are busy with."""
    claims = {"compile": "compile_frames", "load": "load_frames", "post_load": "post_load_frames", "download": "download_frames"}
    for stack in all_stacks(scene.evidence):
        code = claims.get(stack.category or "")
        if code:
            rank = scene.processes.rank_of(stack.pid)
            yield Sign(
                code,
                f"pid {stack.pid} {'works' if stack.active else 'stands'} in {stack.place}",
                [stack.ref],
                [] if rank is None else [rank],
            )


MAKERS = (gpu, fabric, lock, peers, resources, output, kernel, threads, ticking, work)
