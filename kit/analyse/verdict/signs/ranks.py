"""Signs that compare ranks: same place or odd one out, desync, a rank that swallowed its error."""

from __future__ import annotations

from kit.analyse.verdict.collective_counts import largest, moves
from kit.analyse.verdict.deltas import bytes_read, deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.phases import rank_of
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import main_stacks, odd_ranks, places, worker_stacks

READ_BYTES = 1 << 20
"""A rank reads where it read more than this between two samples; logging and polling read less."""
FIRST_COLLECTIVES = 10
"""A collective with a sequence number up to this one is among the first: the data path was never seen to work."""


def stacks(scene: Scene) -> Signs:
    """Stacks of the ranks side by side."""
    mains = main_stacks(scene.evidence, scene.processes)
    if len(mains) < 2:
        yield from _nameless(scene)
    kinds = {rank: stack.category for rank, stack in mains.items()}
    refs = [stack.ref for stack in mains.values()][:3]
    if mains and all(kind in ("device_sync", "collective") for kind in kinds.values()) and len(set(places(mains).values())) == 1:
        place = next(iter(mains.values())).place
        if all(
            kind == "collective" or stack.within("nccl|custom_all_reduce|parallel_state|distributed")
            for kind, stack in zip(kinds.values(), mains.values(), strict=True)
        ):
            yield Sign("same_collective_frames", f"all {len(mains)} rank(s) stand in the same collective: {place}", refs)
        else:
            yield Sign("same_device_frames", f"all {len(mains)} rank(s) wait for the GPU in the same place: {place}", refs)
    elif any(kind == "device_sync" for kind in kinds.values()):
        stack = next(stack for stack in mains.values() if stack.category == "device_sync")
        yield Sign("device_frames", f"rank {scene.processes.rank_of(stack.pid)} waits for the GPU in {stack.place}", [stack.ref])
    odd = odd_ranks(mains)
    if odd and not any(kind == "lock" for kind in kinds.values()):
        working = [
            rank for rank in odd if kinds[rank] in ("compile", "load", "post_load", "sleep", None, "output", "queue", "idle")
        ]
        others = [rank for rank in mains if rank not in odd]
        waiting = [rank for rank in others if kinds[rank] in ("collective", "rendezvous", "device_sync", "queue")]
        if working and waiting:
            yield Sign(
                "odd_rank_elsewhere",
                f"rank {', '.join(map(str, working))} is in {mains[working[0]].place} while "
                f"{len(waiting)} other(s) wait in {mains[waiting[0]].place}",
                [mains[working[0]].ref, mains[waiting[0]].ref],
                working,
            )
    collectives = {rank: mains[rank].key for rank, kind in kinds.items() if kind == "collective"}
    if len(set(collectives.values())) > 1:
        yield Sign(
            "different_collectives",
            f"ranks are in different collectives: {', '.join(sorted(set(collectives.values())))[:160]}",
            [mains[rank].ref for rank in list(collectives)[:3]],
        )


def _nameless(scene: Scene) -> Signs:
    """Stacks of workers whose ranks nothing tells: still, they may be in different collectives."""
    found = worker_stacks(scene.evidence, scene.processes)
    collectives = {pid: stack.key for pid, stack in found.items() if stack.category == "collective"}
    if len(set(collectives.values())) > 1:
        yield Sign(
            "different_collectives",
            f"workers are in different collectives: {', '.join(sorted(set(collectives.values())))[:160]}",
            [found[pid].ref for pid in list(collectives)[:3]],
        )


def stopped(scene: Scene) -> Signs:
    """A rank whose process is stopped."""
    held = [p for p in scene.processes.workers if p.states and p.states[-1] in ("T", "t")]
    if held and len(held) < max(len(scene.processes.workers), scene.processes.world_size or 0):
        yield Sign(
            "rank_stopped",
            f"rank {', '.join(str(p.rank) for p in held)} is stopped (state T): it waits for SIGCONT",
            [ref(p.rows[-1], f"pid {p.pid}: state {p.states[-1]}") for p in held],
            [p.rank for p in held],
        )


def collectives(scene: Scene) -> Signs:
    """Time-outs, sequence numbers, desync reports."""
    e, facts = scene.evidence, scene.facts
    timeouts = e.log.of("collective_timeout")
    if timeouts:
        yield Sign(
            "collective_timeout",
            f"a collective timed out: {facts.value('op') or 'unknown'} #{facts.value('seq')} after "
            f"{(facts.value('timeout_ms') or 0) / 1000:g} s",
            facts.refs("seq")[:2],
        )
    waited = {rank for mark in timeouts if (rank := rank_of(mark, scene.processes)) is not None}
    absent = sorted(set(range(scene.processes.world_size or 0)) - waited)
    if len(waited) >= 2 and 0 < len(absent) <= len(waited) / 2 and facts.value("ranks_same_seq") is not False:
        yield Sign(
            "timeout_lacks_ranks",
            f"{len(waited)} of {scene.processes.world_size} ranks timed out in it; "
            f"rank {', '.join(map(str, absent))} was not in it",
            [timeouts[0].ref],
            absent,
        )
    lag = e.log.of("desync_lagging")
    if lag:
        yield Sign(
            "desync_report", f"PyTorch's desync report: {lag[0].text[:150]}", [lag[0].ref], facts.value("lagging_ranks") or []
        )
    if facts.value("ranks_same_seq") is False:
        yield Sign(
            "seq_differs", "ranks stand at different collectives (sequence number or operation)", facts.refs("ranks_same_seq")
        )
    if facts.value("ranks_same_seq") is True:
        yield Sign("seq_same", f"all ranks stand at the same collective #{facts.value('seq')}", facts.refs("ranks_same_seq"))
    seq = facts.value("seq")
    if isinstance(seq, int) and 0 <= seq <= FIRST_COLLECTIVES and (timeouts or e.collectives):
        yield Sign("first_collective", f"it is one of the first collectives (#{seq})", facts.refs("seq"))
    elif isinstance(seq, int) and timeouts:
        yield Sign("late_collective", f"{seq} collectives went before it: the data path did work", facts.refs("seq"))
    yield from _ras(scene)


def _ras(scene: Scene) -> Signs:
    """NCCL RAS asked twice: counts that differ and stay are a desync, counts that move are work."""
    rows = scene.evidence.collectives
    moments = largest(scene.evidence)
    moving = moves(moments)
    states = ("mismatch", "missing", "unresponsive", "incomplete")
    mismatch = [row for row in rows if row["source"] == "ncclras" and row.get("state") in states]
    if mismatch and not moving:
        # One query alone says little: of ranks that work, some are always one operation ahead.
        code = "ras_mismatch" if len(moments) >= 2 else "ras_mismatch_once"
        yield Sign(code, f"NCCL RAS reports: {(mismatch[0].get('text') or mismatch[0]['state'])[:140]}", [ref(mismatch[0])])
    if len(moments) < 2:
        return
    where = [ref(row, row.get("text")) for row in moments[-1].rows[:2]]
    if moving:
        yield Sign("ras_moves", "the counts of collectives grew between two queries", where)
    elif len(moments[-1].distinct) > 1:
        yield Sign("ras_stays_apart", "the counts of collectives differ between ranks and stay so over two queries", where)
    else:
        yield Sign("ras_stands", "the counts of collectives are equal and did not move between two queries", where)


def lag(scene: Scene) -> Signs:
    """Ranks that lack what the others have passed."""
    e, facts = scene.evidence, scene.facts
    barrier = e.log.of("barrier_timeout")
    if barrier:
        late = facts.value("lagging_ranks") or []
        named = f": rank {', '.join(map(str, late))} had not arrived" if late else ""
        yield Sign(
            "barrier_timeout", f"a barrier timed out on {len(barrier)} rank(s), which only waited{named}", [barrier[0].ref], late
        )
    ranks = sorted(scene.progression.lagging)
    if ranks and not barrier:
        behind = scene.progression.lag_s
        since = f" {behind:,.0f} s ago" if behind else ""
        yield Sign(
            "ranks_behind",
            f"rank {', '.join(map(str, ranks))} lacks a milestone that the others passed{since}",
            [scene.progression.lag_ref] if scene.progression.lag_ref else [],
            ranks,
        )
    moving = [rank for rank in facts.value("lagging_ranks") or [] if rank in _reading(scene)]
    if moving:
        yield Sign(
            "laggard_reads",
            f"rank {', '.join(map(str, moving))} still read files while others did not: late, but working",
            [],
            moving,
        )


def _reading(scene: Scene) -> set[int]:
    read = deltas(scene.evidence.io, "pid", bytes_read)
    return {
        rank for pid, delta in read.items() if delta.change > READ_BYTES and (rank := scene.processes.rank_of(pid)) is not None
    }


def masked(scene: Scene) -> Signs:
    """A rank whose error was swallowed."""
    e = scene.evidence
    zero = [mark for mark in e.log.of("graph_addresses") if str(mark.fields.get("count")) == "0"]
    if zero:
        yield Sign(
            "zero_graph_addresses",
            "a rank registered 0 graph addresses during capture: an error in the capture was swallowed",
            [zero[0].ref],
            [zero[0].rank] if zero[0].rank is not None else [],
        )
    missing = sorted(scene.progression.lagging)
    if missing and len(missing) == 1 and scene.progression.lag_ref and scene.phase in ("graph_capture", "compile", "post_load"):
        idle = [row["gpu"] for row in e.gpus if (row.get("util_percent") or 0) <= 5]
        busy = [row["gpu"] for row in e.gpus if (row.get("util_percent") or 0) >= 90]
        if idle == missing and len(busy) >= 1:
            yield Sign(
                "silent_rank_idle_gpu",
                f"rank {missing[0]} is missing from a set of lines, its GPU idles and the others spin",
                [scene.progression.lag_ref],
                missing,
            )


MAKERS = (stacks, stopped, collectives, lag, masked)
