"""Stacks: what the threads work on, and where the ranks stand beside each other."""

from __future__ import annotations

import re

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.processes import Process, frozen
from kit.analyse.verdict.rank_groups import named_ranks
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.gpu import all_busy, at_work
from kit.analyse.verdict.stacks import Stack, all_stacks, main_stacks, odd_ranks, places, worker_stacks
from kit.clock import NS
from kit.schema import Row
from kit.words import count_of, named, short

AT_WORK = ("compile", "load", "save", "post_load", "sleep", None, "output", "queue", "idle")
"""What an odd rank does while the others wait for it."""
WAITING = ("collective", "rendezvous", "device_sync", "queue")
STANDS_IN = ("collective", "device_sync", "lock", "queue")
"""Waits that end within a step where all is well: who is in one at two moments stands."""
AT_REST = ("idle", "sleep")
SERVES = ("ready", "serving")
NCCL_FRAMES = "nccl|custom_all_reduce|parallel_state|distributed"
WAITS_FOR_OTHERS = re.compile(r"futex|epoll|poll|recv|select|read")
"""Calls in which a rank waits for another one: a condition variable, a socket, a pipe."""
CROWD = 3
"""So many ranks are not in one place by chance."""
MOST_PLACES = 4
"""Places that are told: ranks in more of them are told by the table of stacks."""
LOOKUP = re.compile(r"^(?:getaddrinfo|gethostbyname\w*|__?res_\w+)\b")
"""Functions that ask a name server; glibc asks again after 5 s, and an answer takes less than a second."""
SLEEPS = re.compile(r"nanosleep")


@rule("compile_frames", "load_frames", "post_load_frames", "download_frames", needs=("stacks",))
def work(scene: Scene) -> Signs:
    """What the threads are busy with."""
    words = {"compile": "compiling", "load": "loading", "post_load": "working on loaded weights", "download": "downloading"}
    for stack in all_stacks(scene.evidence):
        if stack.category in words:
            claim = f"pid {stack.pid} is {words[stack.category]} in {stack.place}"
            yield Sign(f"{stack.category}_frames", claim, [stack.ref], scene.ranks_of([stack.pid]))


@rule("same_collective_frames", "part_in_collective", "same_device_frames", "device_frames", needs=("stacks",))
def same_place(scene: Scene) -> Signs:
    """All ranks wait in one place, or one of them for the GPU."""
    mains = main_stacks(scene.evidence, scene.processes)
    on_device = [rank for rank, stack in mains.items() if stack.category == "device_sync"]
    waiting = all(stack.category in ("device_sync", "collective") for stack in mains.values())
    if mains and waiting and len(set(places(mains).values())) == 1:
        stack = next(iter(mains.values()))
        refs = [stack.ref for stack in mains.values()][:3]
        who = "the only rank is" if len(mains) == 1 else f"all {len(mains)} ranks are"
        if all(stack.category == "collective" or stack.within(NCCL_FRAMES) for stack in mains.values()):
            seen, world = len(mains), scene.processes.world_size
            # Whom the others wait for may be among those that nobody looked at.
            part = seen <= (world or 0) / 2 or seen == 1 and world is None
            if part or seen < (world or 0):
                of = f" of {world}" if world else ""
                who = f"the one rank{of} that was looked at is" if seen == 1 else f"the {seen}{of} ranks that were looked at are"
            code = "part_in_collective" if part else "same_collective_frames"
            yield Sign(code, f"{who} in the same collective: {stack.place}", refs)
        else:
            yield Sign("same_device_frames", f"{who} waiting for the GPU in the same place: {stack.place}", refs)
    elif on_device:
        stack = mains[on_device[0]]
        yield Sign("device_frames", f"rank {on_device[0]} is waiting for the GPU in {stack.place}", [stack.ref])


@rule("ranks_at", needs=("stacks",))
def where_they_stand(scene: Scene) -> Signs:
    """Where the main threads of all ranks stand, in words; of workers whose ranks nothing tells, of how many."""
    mains, who = main_stacks(scene.evidence, scene.processes), "rank"
    if not mains:
        mains, who = worker_stacks(scene.evidence, scene.processes), "worker"
    at: dict[str, list[int]] = {}
    for number, stack in mains.items():
        at.setdefault(stack.place, []).append(number)
    groups = sorted(at.items(), key=lambda group: -len(group[1]))[:MOST_PLACES]
    words = [
        f"{named_ranks(numbers, scene.processes)} in {place}"
        if who == "rank" and place != groups[0][0]
        else f"{len(numbers)} of {count_of(len(mains), who)} in {place}"
        for place, numbers in groups
    ]
    if words:
        yield Sign("ranks_at", "where they stand: " + ", ".join(words), [mains[numbers[0]].ref for _, numbers in groups])


@rule("odd_rank_elsewhere", needs=("stacks",))
def odd_rank(scene: Scene) -> Signs:
    """One or a few ranks work or wait elsewhere while the others wait for them."""
    mains = main_stacks(scene.evidence, scene.processes)
    if any(stack.category == "lock" for stack in mains.values()):
        return
    odd = odd_ranks(mains)
    working = [rank for rank in odd if mains[rank].category in AT_WORK]
    rest = {rank: stack for rank, stack in mains.items() if rank not in odd}
    waiting = [rank for rank, stack in rest.items() if stack.category in WAITING] or _crowd(rest, scene)
    if working and waiting:
        verb = "is" if len(working) == 1 else "are"
        others = "the other waits" if len(waiting) == 1 else f"{len(waiting)} others wait"
        who = named_ranks(working, scene.processes)
        claim = f"{who} {verb} in {mains[working[0]].place} while {others} in {mains[waiting[0]].place}"
        yield Sign("odd_rank_elsewhere", claim, [mains[working[0]].ref, mains[waiting[0]].ref], working)


def _crowd(mains: dict[int, Stack], scene: Scene) -> list[int]:
    """Ranks that all stand in one place while all GPUs are busy: they wait there, whatever the place is called."""
    alike = len(mains) >= CROWD and len(set(places(mains).values())) == 1
    return list(mains) if alike and all_busy(scene) else []


@rule("different_collectives", needs=("stacks",))
def different_collectives(scene: Scene) -> Signs:
    """Ranks stand in different collectives; so may workers whose ranks nothing tells."""
    stacks, who = list(main_stacks(scene.evidence, scene.processes).values()), "ranks"
    if len(stacks) < 2:
        stacks, who = list(worker_stacks(scene.evidence, scene.processes).values()), "workers"
    inside = [stack for stack in stacks if stack.category == "collective"]
    keys = sorted({stack.key for stack in inside})
    if len(keys) > 1:
        claim = f"{who} are in different collectives: {short(', '.join(keys), 160)}"
        yield Sign("different_collectives", claim, [stack.ref for stack in inside[:3]])


def _dumps(scene: Scene) -> dict[int, dict[int, tuple[str, Row]]]:
    """By pid and moment: the top of the main thread's stack as py-spy dumped it, and its first row."""
    seen: dict[int, dict[int, tuple[str, Row]]] = {}
    for row in scene.evidence.stacks:
        dumped = row.get("tool") == "pyspy" and row.get("pid") is not None and row.get("moment") is not None
        if dumped and row.get("depth", 0) < 4 and (row.get("thread") == "MainThread" or row.get("tid") == row["pid"]):
            place = f"{row.get('function')} ({row.get('file')})"
            text, first = seen.setdefault(row["pid"], {}).get(row["moment"], ("", row))
            seen[row["pid"]][row["moment"]] = (f"{text} < {place}", first)
    return seen


@rule("stacks_move", needs=("stacks",), moving=True)
def moving(scene: Scene) -> Signs:
    """Stacks of the main threads at two moments: another place is life."""
    for pid, moments in _dumps(scene).items():
        process = scene.processes.by_pid.get(pid)
        if len(moments) > 1 and process is not None and process.role in ("worker", "engine"):
            (before, _), (after, where) = moments[min(moments)], moments[max(moments)]
            if before != after:
                yield Sign("stacks_move", f"the main thread of pid {pid} moved between two stack dumps", [ref(where)])
                return


@rule("wait_stays", "lookup_stays", "leader_spins", "spins_in_place", "waits_on_busy_gpu", needs=("stacks",))
def standing(scene: Scene) -> Signs:
    """A main thread that waits for another thread, another rank, the GPU or a name server, in the same place at two moments.

    Or it computes there: who leads workers that all wait for an order, or a server that has come up, and says nothing.
    """
    ordered = worker_stacks(scene.evidence, scene.processes).values()
    led = bool(ordered) and all(stack.category == "idle" for stack in ordered)
    leaders = {process.pid for process in scene.processes.of_role("engine", "frontend") if led}
    now = {stack.pid: stack for stack in all_stacks(scene.evidence) if stack.main}
    silent = (scene.silence_s or 0) > scene.limits["long_silence_s"]
    busy = silent and all_busy(scene) and not at_work(scene)
    mute = silent and scene.phase in SERVES
    for pid, moments in _dumps(scene).items():
        if len(moments) < 2 or pid not in now or len({text for text, _ in moments.values()}) > 1:
            continue
        place, computes = now[pid].place, all("active" in (row.get("thread_state") or "") for _, row in moments.values())
        if LOOKUP.search(place):
            code, what = "lookup_stays", "waits for a name server"
        elif now[pid].category in STANDS_IN:
            code, what = "wait_stays", "waits"
        elif pid in leaders and computes and now[pid].category is None:
            code, what = "leader_spins", "leads workers that wait for an order, and computes"
        elif mute and computes and now[pid].category not in AT_REST:
            code, what = "spins_in_place", "computes"
        elif busy and computes and now[pid].category is None:
            code, what = "waits_on_busy_gpu", "does not come back from its GPU, which is busy,"
        else:
            continue
        claim = f"the main thread of pid {pid} {what} in {place} in all of {len(moments)} stack dumps"
        yield Sign(code, claim, [ref(moments[max(moments)][1])])
        return


@rule("odd_rank_stays", needs=("stacks",))
def odd_rank_stays(scene: Scene) -> Signs:
    """The ranks that the others wait for stand in the same place at two moments."""
    mains = main_stacks(scene.evidence, scene.processes)
    odd = [rank for rank in odd_ranks(mains) if mains[rank].category in AT_WORK]
    seen, pids = _dumps(scene), {process.rank: process.pid for process in scene.processes.workers}
    looks = [seen.get(pids.get(rank), {}) for rank in odd]
    if odd and all(len(moments) > 1 and len({text for text, _ in moments.values()}) == 1 for moments in looks):
        last = [moments[max(moments)][1] for moments in looks]
        who = named_ranks(odd, scene.processes)
        claim = f"{who} {'stands' if len(odd) == 1 else 'stand'} in the same place in {len(looks[0])} stack dumps"
        yield Sign("odd_rank_stays", claim, [ref(row) for row in last[:2]], odd)


@rule("odd_rank_sleeps", needs=("threads",))
def main_threads(scene: Scene) -> Signs:
    """A rank whose main thread sleeps on a timer in all samples, while those of all others wait for another one."""
    workers = scene.processes.workers
    calls = {process.rank: _call(process, scene) for process in workers}
    if len(workers) < 2 or None in calls.values():
        return
    asleep = [process for process in workers if SLEEPS.search(calls[process.rank] or "")]
    waiting = [process for process in workers if process not in asleep and WAITS_FOR_OTHERS.search(calls[process.rank] or "")]
    if not asleep or len(asleep) > len(waiting) or len(asleep) + len(waiting) < len(workers):
        return
    ranks = [process.rank for process in asleep]
    others = "that of the other rank is" if len(waiting) == 1 else f"those of {len(waiting)} others are"
    yield Sign(
        "odd_rank_sleeps",
        f"the main thread of {named('rank', ranks)} sleeps on a timer ({calls[ranks[0]]}) in all samples, "
        f"{others} in {calls[waiting[0].rank]}",
        [ref(process.rows[-1], f"pid {process.pid}: {calls[process.rank]}") for process in (asleep[0], waiting[0])],
        ranks,
    )


def _call(process: Process, scene: Scene) -> str | None:
    """System call of the main thread where it was the same in all samples for long enough, else None."""
    rows = [
        row
        for row in scene.evidence.threads
        if row.get("pid") == process.pid and row.get("tid") == process.pid and row.get("time") is not None
    ]
    calls = {row.get("syscall") or row.get("wchan") for row in rows}
    if len(calls) != 1 or rows[-1]["time"] - rows[0]["time"] < scene.limits["main_thread_held_s"] * NS:
        return None
    return calls.pop()


@rule("launch_frozen", needs=("processes|threads",))
def freezes(scene: Scene) -> Signs:
    """The freezer of a control group holds processes of the launch."""
    pids = frozen(scene.evidence)
    if held := [process for process in scene.processes.by_pid.values() if process.pid in pids]:
        who = named("pid", [process.pid for process in held[:8]])
        claim = f"{who} {_are(held)} frozen by the control group, as docker pause does it"
        yield Sign("launch_frozen", claim, [_state_ref(process) for process in held[:3] if process.states])


@rule("rank_stopped", "launch_stopped", needs=("processes",))
def stopped(scene: Scene) -> Signs:
    """A rank that is stopped while others are not; an engine, or the whole launch, that is stopped."""
    workers = scene.processes.workers
    held = [process for process in workers if process.states and process.states[-1] in ("T", "t")]
    if held and len(held) < max(len(workers), scene.processes.world_size or 0):
        ranks = [process.rank for process in held]
        claim = f"{named('rank', ranks)} {_are(held)} stopped (state T), waiting for SIGCONT"
        yield Sign("rank_stopped", claim, [_state_ref(process) for process in held], ranks)
    launch = [process for process in scene.processes.of_role("frontend", "engine", "worker", "other") if process.states]
    held = [process for process in launch if _halted(process)]
    if held and (len(held) == len(launch) or any(process.role in ("engine", "frontend") for process in held)):
        how = "stopped (state T), waiting for SIGCONT" if held[0].states[-1] == "T" else "held by a debugger (state t)"
        claim = f"{named('pid', (process.pid for process in held))} {_are(held)} {how}"
        yield Sign("launch_stopped", claim, [_state_ref(process) for process in held[:3]])


def _halted(process: Process) -> bool:
    """Whether it is stopped, or held by a tracer in all samples: strace and py-spy hold it for moments only."""
    return process.states[-1] == "T" or len(process.states) > 1 and set(process.states) == {"t"}


def _are(processes: list[Process]) -> str:
    return "is" if len(processes) == 1 else "are"


def _state_ref(process: Process) -> dict:
    return ref(process.rows[-1], f"pid {process.pid}: state {process.states[-1]}")
