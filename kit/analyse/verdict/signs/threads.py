"""Threads that sleep, wait for one another, poll, or burn a core in the front end."""

from __future__ import annotations

import re

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.processes import titles_of
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import Stack, all_stacks, worker_stacks
from kit.clock import NS
from kit.words import count_of, short

ASLEEP_WCHAN = re.compile(r"futex|^(?:do_wait|pipe_read|anon_pipe_read)$")
OTHER_WAITS = ("collective", "device_sync", "lock", "compile", "load", "download", "post_load")
"""What a stack does where its process does not wait for another thread of its own."""
TEXT_WORK = re.compile(r"token|jinja|template|grammar|outlines|xgrammar", re.IGNORECASE)
STACK_TOOLS = ("pyspy", "py-spy", "gdb", "strace")
NATIVE_LOCK = r"__lll_lock_wait|pthread_mutex_lock|gomp_(?:team|mutex|barrier)"
"""Frames of a wait for a lock below Python, which its queues and events never show (theirs are semaphores)."""
FORKED = r"(?:multiprocess|multiprocessing|billiard)/(?:pool|popen_fork|process)|popen_fork"
"""Frames of a child that has not run a program of its own."""
AWAITS_ANSWER = r"\b_?(?:get|wait_for|recv|await)_?(?:response|answer|reply|result)s?\b|\bcollective_rpc\b"
"""Frames in which who gave an order waits for what comes of it."""
NOT_BY_FORK = r"spawn|forkserver|libcuda|nccl|rccl|hsa"
"""Frames of a child that runs a program of its own, and of a driver's lock, which its own threads hold."""


COMPUTES = (None, "tokenizer")
"""What a stack does where nothing in it waits."""
OUTSIDE = re.compile(r"^\w*(?:recv|read|write|select|poll|wait|sleep|accept|connect|acquire|get|join)\w*$", re.IGNORECASE)
"""Functions in which even who has just begun may sleep for something outside."""


@rule("all_futex", needs=("threads",))
def all_futex(scene: Scene) -> Signs:
    """All threads sleep in futex."""
    rows = [row for row in scene.evidence.threads if row.get("wchan")]
    if len(rows) >= 2 and all(ASLEEP_WCHAN.search(row["wchan"]) for row in rows):
        yield Sign("all_futex", f"all {len(rows)} threads that were checked sleep in futex", [ref(rows[0])])


@rule("all_asleep", needs=("processes",))
def all_asleep(scene: Scene) -> Signs:
    """All processes sleep."""
    rows = [row for row in scene.evidence.processes if row.get("state")]
    if rows and all(row["state"] in ("S", "I", "T", "Z") for row in rows):
        number = len({row["pid"] for row in rows})
        yield Sign("all_asleep", "the process sleeps" if number == 1 else f"all {number} processes sleep", [ref(rows[0])])


def _asleep_since_fork(stack: Stack, scene: Scene) -> bool:
    """Whether a main thread sleeps in a computation, and took no CPU time in its life: what it waits for is below Python."""
    process = scene.processes.by_pid.get(stack.pid) if stack.pid is not None else None
    last = process.rows[-1] if process is not None and process.rows else {}
    used = last.get("cpu_s", last.get("cpu_percent") if last.get("tool") == "ps" else None)  # ps takes its percent over a life
    asleep = stack.main and last.get("state") == "S" and used == 0
    return asleep and stack.category in COMPUTES and not OUTSIDE.match(stack.rows[0]["function"] or "")


@rule("forked_lock", needs=("stacks",))
def forked(scene: Scene) -> Signs:
    """A forked process waits for a native lock: the thread that held it at the fork is not in it, and never lets go."""
    for stack in all_stacks(scene.evidence):
        if not stack.within(FORKED) or stack.within(NOT_BY_FORK):
            continue
        if stack.within(NATIVE_LOCK, 4):
            claim = f"pid {stack.pid}, a forked worker, waits for a lock that no thread of its own can hold: {stack.place}"
        elif _asleep_since_fork(stack, scene):
            claim = f"pid {stack.pid}, a forked worker, sleeps in {stack.place} and used no CPU time since the fork"
        else:
            continue
        yield Sign("forked_lock", claim, [stack.ref])
        return


@rule("queue_frames", needs=("stacks",))
def queues(scene: Scene) -> Signs:
    """Threads wait for each other in queues or locks, and nobody for anything else."""
    stacks = all_stacks(scene.evidence)
    waiting = [stack for stack in stacks if stack.category == "queue"]
    if waiting and not any(stack.category in OTHER_WAITS for stack in stacks):
        pids = {stack.pid for stack in waiting}
        threads = f"{count_of(len(waiting), 'thread')} of {count_of(len(pids), 'process')}"
        claim = f"{threads} waiting for another thread in {waiting[0].place}"
        yield Sign("queue_frames", claim, [stack.ref for stack in waiting[:3]])


@rule("answer_lost", needs=("stacks",))
def lost_answer(scene: Scene) -> Signs:
    """Who leads the workers waits for their answer, and each of them waits for an order: a message between them is lost."""
    asking = next(
        (stack for stack in all_stacks(scene.evidence) if stack.category == "idle" and stack.within(AWAITS_ANSWER)), None
    )
    workers = worker_stacks(scene.evidence, scene.processes)
    idle = [
        stack
        for pid, stack in workers.items()
        if stack.category == "idle" and not stack.within(AWAITS_ANSWER) and asking and pid != asking.pid
    ]
    if asking and idle and len(idle) == max(len(workers), scene.processes.world_size or 0):
        claim = f"pid {asking.pid} waits for its workers' answer, and {len(idle)} of {len(idle)} workers wait for an order"
        yield Sign("answer_lost", claim, [asking.ref, idle[0].ref])


@rule("frontend_frames", needs=("stacks",))
def text_work(scene: Scene) -> Signs:
    """The front end works on text, templates or grammars."""
    for stack in all_stacks(scene.evidence):
        process = scene.processes.by_pid.get(stack.pid)
        if stack.category == "tokenizer" and process is not None and process.role != "worker":
            yield Sign("frontend_frames", f"the front end is working in {stack.place}", [stack.ref])
            return
    for row in scene.evidence.stacks:
        if row.get("tool") == "pyspy-top" and (row.get("share_percent") or 0) >= scene.limits["top_share_percent"]:
            place = f"{row.get('function')} ({row.get('file')})"
            if TEXT_WORK.search(place):
                yield Sign("frontend_frames", f"the front end is working in {place}", [ref(row)])
                return


@rule("frontend_burns", needs=("processes|threads",))
def burns(scene: Scene) -> Signs:
    """A process that is no worker takes a whole core, and not to poll its GPU until that is done."""
    spins = {stack.pid for stack in all_stacks(scene.evidence) if stack.main and stack.category == "device_sync"}
    for process in scene.processes.of_role("frontend", "helper", "other"):
        if process.pid in spins:
            continue
        share = process.rows[-1].get("cpu_percent") if process.rows else None
        if (share or 0) >= scene.limits["frontend_burns_percent"]:
            claim = f"pid {process.pid} ({short(process.title, 50)}) uses {share:.0f} % CPU"
            yield Sign("frontend_burns", claim, [ref(process.rows[-1], short(process.title, 100))])
            return
    titles = titles_of(scene.evidence)
    for row in scene.evidence.threads:  # `ps -L` alone: the main thread bears the process's name
        own = row.get("pid") == row.get("tid") and titles.role(row.get("comm") or "") in ("frontend", "helper")
        if own and (row.get("cpu_percent") or 0) >= scene.limits["frontend_burns_percent"]:
            claim = f"the main thread of pid {row['pid']} ({row['comm']}) uses {row['cpu_percent']:.0f} % CPU"
            yield Sign("frontend_burns", claim, [ref(row, row["comm"])])
            return


@rule("stack_tool_failed", needs=("tool_errors",))
def no_stacks(scene: Scene) -> Signs:
    """The tool that would show the stacks could not look."""
    for row in scene.evidence.tool_errors:
        if row["tool"] in STACK_TOOLS and not scene.evidence.stacks:
            yield Sign("stack_tool_failed", f"{row['tool']} failed: {short(row['text'], 100)}", [ref(row, row["text"])])


@rule("one_thread_polls", needs=("threads",))
def polls(scene: Scene) -> Signs:
    """One thread takes a core, the others sleep: it polls."""
    shares = [row for row in scene.evidence.threads if row.get("cpu_percent") is not None]
    least = scene.limits["polling_percent"]
    busy = [row for row in shares if row["cpu_percent"] >= least]
    rest = sum(row["cpu_percent"] for row in shares if row["cpu_percent"] < least)
    if len(busy) == 1 and len(shares) >= scene.limits["polling_threads"] and rest < least / 5:
        claim = (
            f"one of {len(shares)} threads (tid {busy[0]['tid']}) uses {busy[0]['cpu_percent']:.0f} % CPU, "
            "the others sleep: it polls"
        )
        yield Sign("one_thread_polls", claim, [ref(busy[0], busy[0].get("comm"))])


@rule("event_ticks", needs=("syscalls",))
def ticks(scene: Scene) -> Signs:
    """A few bytes on an event pipe now and then look like life, and are none."""
    calls = scene.evidence.syscalls
    if not calls.small_writes or calls.file_reads or calls.first is None or calls.last is None:
        return
    span_s = (calls.last - calls.first) / NS
    pid, count = max(calls.small_writes.items(), key=lambda pair: pair[1])
    if span_s >= 2 and count >= 3 and count / span_s < scene.limits["ticks_per_s"]:
        claim = (
            f"in {calls.calls:,} system calls no file is read; thread {pid} writes a few bytes {count / span_s:.1f} times a "
            "second: a timer or an event pipe"
        )
        yield Sign("event_ticks", claim, [ref(calls.samples[pid, "write"], "write of a few bytes")])
