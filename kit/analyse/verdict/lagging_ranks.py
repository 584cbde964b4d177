"""Which ranks are behind. The ranks that time out are not the guilty ones: they wait for these."""

from __future__ import annotations

from collections import Counter

from kit.analyse.verdict.collective_counts import counts, settled
from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.flight_recorder import fault
from kit.analyse.verdict.phases import Progression, rank_of
from kit.analyse.verdict.processes import Processes
from kit.analyse.verdict.rank_counters import apart, stood_with
from kit.analyse.verdict.rank_durations import slow
from kit.analyse.verdict.stacks import all_stacks, main_stacks, odd_ranks
from kit.untrusted import ranks_in, whole_number
from kit.words import short

OWN_WORK = ("checkpoint", "evaluation")
"""Codes of what one rank does for all."""
Found = tuple[list[int], list[dict]]


def lagging_ranks(evidence: Evidence, processes: Processes, found: Progression) -> Found:
    """Ranks that are behind, or work while the others wait for them.

    Returns ranks, ascending, and the evidence. The first source that names some ranks, but not all, decides: a desync report, a
    barrier that blames the waiters, a stopped process, the odd stack, lower counts, missing milestones.
    """
    for source in (
        _recorder,
        _desync,
        _barrier,
        _stopped,
        _odd_stack,
        _counts,
        _counters,
        _slow,
        _silent_in_timeout,
        _busy,
        _not_begun,
    ):
        ranks, refs = source(evidence, processes)
        if source is _odd_stack and ranks and set(ranks) < set(found.lagging):
            break  # dumps of some of the late ranks: the milestones name them all
        if ranks and (processes.world_size is None or len(ranks) < processes.world_size):
            return sorted(ranks), refs
    if found.lagging:
        return sorted(found.lagging), [found.lag_ref] if found.lag_ref else []
    return [], []


def _recorder(evidence: Evidence, processes: Processes) -> Found:
    """Flight recorders of all ranks: whose host or device stopped."""
    found = fault(evidence)
    return (found.ranks, found.refs) if found else ([], [])


def _desync(evidence: Evidence, processes: Processes) -> Found:
    ranks: set[int] = set()
    refs = []
    for mark in evidence.log.of("desync_lagging"):
        ranks.update(ranks_in(str(mark.fields.get("ranks", ""))))
        refs.append(mark.ref)
    return sorted(ranks), refs[:3]


def _barrier(evidence: Evidence, processes: Processes) -> Found:
    """A barrier that timed out: the ranks that complain had arrived; the others are late."""
    marks = evidence.log.of("barrier_timeout")
    waiters = {whole_number(mark.fields.get("rank", rank_of(mark, processes))) for mark in marks} - {None}
    named = set()
    for mark in [*marks, *evidence.log.of("barrier_missing")]:
        named.update(ranks_in(str(mark.fields.get("missing", ""))))
    if named:
        return sorted(named), [mark.ref for mark in [*marks, *evidence.log.of("barrier_missing")][:3]]
    if not waiters or not processes.world_size:
        return [], []
    return sorted(set(range(processes.world_size)) - waiters), [mark.ref for mark in marks[:3]]


def _stopped(evidence: Evidence, processes: Processes) -> Found:
    """A stopped process (state T) and, while others wait, one that a debugger holds (t)."""
    stopped = [p for p in processes.workers if p.states and p.states[-1] in ("T", "t")]
    if len(stopped) == len(processes.workers):
        return [], []
    return [p.rank for p in stopped], [
        ref(p.rows[-1], f"rank {p.rank}, pid {p.pid}: state {p.states[-1]}, stopped") for p in stopped
    ]


def _odd_stack(evidence: Evidence, processes: Processes) -> Found:
    mains = main_stacks(evidence, processes)
    odd = odd_ranks(mains)
    locked = [rank for rank, stack in mains.items() if stack.category == "lock"]
    if locked:  # the waiters for a lock are no stragglers, nor is its holder
        return [], []
    if odd and all(mains[rank].category == "collective" for rank in mains):
        return [], []  # all are in a collective, in different ones: that is a desync, not a lag
    return odd, [mains[rank].ref for rank in odd]


def _counts(evidence: Evidence, processes: Processes) -> Found:
    """Ranks whose count of collectives is below that of the others, or that do not answer."""
    missing = [
        row for row in evidence.collectives if row.get("state") in ("missing", "unresponsive") and row.get("rank") is not None
    ]
    if missing:
        return sorted({row["rank"] for row in missing}), [ref(row, row.get("text")) for row in missing[:3]]
    for moments in counts(evidence).values():
        last = moments[-1]
        if last.behind and settled(moments):
            return last.behind, [ref(row, row.get("text")) for row in last.rows if row.get("rank") in last.behind][:3]
    return [], []


def _counters(evidence: Evidence, processes: Processes) -> Found:
    """Ranks that stand apart by the last counters in the logs."""
    found = apart(evidence, processes)
    return (found.ranks, [mark.ref for mark in found.marks]) if found else ([], [])


def _slow(evidence: Evidence, processes: Processes) -> Found:
    """Ranks that took many times as long for what all did."""
    found = slow(evidence)
    return (sorted(found.took), [ref(row, row["text"]) for row in found.rows.values()][:3]) if found else ([], [])


def _silent_in_timeout(evidence: Evidence, processes: Processes) -> Found:
    """Of a collective that timed out on most ranks: the few that never waited in it, or waited in an earlier one."""
    pending: dict[int, int] = {}
    for mark in evidence.log.of("collective_timeout"):
        rank = rank_of(mark, processes)
        rank = whole_number(mark.fields.get("rank")) if rank is None else rank
        seq = whole_number(mark.fields.get("seq"))
        if rank is not None and seq is not None:
            pending.setdefault(rank, seq)
    if not pending or not processes.world_size or len(pending) < 2:
        return [], []
    refs = [mark.ref for mark in evidence.log.of("collective_timeout")[:2]]
    absent = sorted(set(range(processes.world_size)) - set(pending) - stood_with(evidence, processes))
    if absent and len(absent) <= len(pending) / 2:
        return absent, refs
    common, times = Counter(pending.values()).most_common(1)[0]
    behind = sorted(rank for rank, seq in pending.items() if seq < common)
    if len(pending) == 2 and len(set(pending.values())) == 2:  # of two ranks the one that waits in the earlier one
        return [min(pending, key=pending.__getitem__)], refs
    return (behind, refs) if times > len(pending) / 2 else ([], [])


def _busy(evidence: Evidence, processes: Processes) -> Found:
    """The rank that did work of its own while others gave up on it."""
    found = busy_meanwhile(evidence, processes)
    return found[:2] if found else ([], [])


def busy_meanwhile(evidence: Evidence, processes: Processes) -> tuple[list[int], list[dict], str] | None:
    """Ranks, evidence and words for who wrote a checkpoint or evaluated when others gave up on a collective.

    Trainers let rank 0 do that for all: who does it and says of no rank is rank 0, unless that one gave up too.
    """
    timeouts = evidence.log.of("collective_timeout")
    waited = {rank_of(mark, processes) for mark in timeouts} - {None}
    if not waited:
        return None
    for stack in all_stacks(evidence):
        rank = processes.rank_of(stack.pid) or 0
        if stack.category == "save" and rank not in waited:
            return [rank], [stack.ref], f"pid {stack.pid} was writing a checkpoint in {stack.place}"
    marks = [mark for mark in evidence.log.marks if mark.phase or mark.code in OWN_WORK]
    last = max((mark for mark in marks if mark.order < timeouts[0].order), key=lambda mark: mark.order, default=None)
    if last is not None and last.code in OWN_WORK and (last.rank or 0) not in waited:
        return [last.rank or 0], [last.ref], f"the last word before was “{short(last.text, 80)}”"
    return None


def _not_begun(evidence: Evidence, processes: Processes) -> Found:
    """Ranks that never began to join: no NCCL `Init START` while others have one."""
    begun = {whole_number(mark.fields.get("rank")) for mark in evidence.log.of("nccl_init_start")} - {None}
    complete = evidence.log.of("nccl_init_complete")
    if not begun or complete or not processes.world_size or processes.sizes.get("nnodes", 1) > 1:
        return [], []
    absent = sorted(set(range(processes.world_size)) - begun)
    return (absent, [evidence.log.of("nccl_init_start")[0].ref]) if len(absent) <= len(begun) else ([], [])
