"""Collective operations: time-outs, sequence numbers, desync reports, counts that NCCL RAS shows."""

from __future__ import annotations

import re

from kit.analyse.verdict.collective_counts import largest, moves
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.failures import cause, moment, worked_after
from kit.analyse.verdict.flight_recorder import fault, other_work
from kit.analyse.verdict.lagging_ranks import busy_meanwhile
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.phases import rank_of
from kit.analyse.verdict.rank_counters import all_joined, apart, stood_with, together
from kit.analyse.verdict.rank_durations import outlasting
from kit.analyse.verdict.rank_groups import named_ranks
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.clock import show_duration
from kit.words import count_of, named, short

APART = ("mismatch", "missing", "unresponsive", "incomplete")
"""States by which NCCL RAS says that ranks differ."""

MISMATCHES = re.compile(r"Input/output mismatch|Mismatch in collective|SIZE_OR_SYNTAX|COLLECTIVE_TYPE|COLLECTIVE_DTYPE")
"""Words of the flight recorder's analysis for ranks that called something else; another state alone is a rank that is late."""

OWN_FAILURES = ("exception", "traceback", "device_error", "gpu_oom", "segfault", "abort")
"""Errors by which a process ends, as others that wait for it do not."""


@rule("collective_timeout", "timeout_lacks_ranks", "absent_rank_works", needs=("log",))
def timeouts(scene: Scene) -> Signs:
    """A collective timed out, on most ranks but not on all."""
    lines = scene.log.of("collective_timeout")
    if not lines or _waits_for_the_dead(scene, lines[0]):
        return
    operation, sequence = scene.fact("op") or "unknown operation", scene.fact("seq")
    number = f" #{sequence}" if sequence is not None else ""
    limit = scene.fact("timeout_ms")
    after = f" after {limit / 1000:g} s" if limit else ""
    yield Sign("collective_timeout", f"a collective timed out: {operation}{number}{after}", scene.facts.refs("seq")[:2])
    world = scene.processes.world_size or 0
    waited = {rank for mark in lines if (rank := rank_of(mark, scene.processes)) is not None}
    waited |= stood_with(scene.evidence, scene.processes)
    absent = sorted(set(range(world)) - waited)
    if len(waited) >= 2 and 0 < len(absent) <= len(waited) / 2 and scene.fact("ranks_same_seq") is not False:
        verb = "was" if len(absent) == 1 else "were"
        claim = (
            f"{len(waited)} of {world} ranks timed out in the collective; {named_ranks(absent, scene.processes)} {verb} not in it"
        )
        yield Sign("timeout_lacks_ranks", claim, [lines[0].ref], absent)
        works = next((bar for bar in reversed(scene.log.bars) if bar.rank in absent and not bar.done), None)
        if works:
            claim = f"{named('rank', [works.rank])} was at work meanwhile: {short(works.text, 120)}"
            yield Sign("absent_rank_works", claim, [works.ref], absent)


def _waits_for_the_dead(scene: Scene, timeout: Mark) -> bool:
    """Whether a process had failed by an error of its own before: the others only waited for it."""
    began = cause(scene.log)
    return (
        began is not None and began.code in OWN_FAILURES and moment([began, timeout])(began) < moment([began, timeout])(timeout)
    )


@rule("absent_rank_works", needs=("log",))
def saves(scene: Scene) -> Signs:
    """Others gave up on a rank that wrote a checkpoint or evaluated."""
    if found := busy_meanwhile(scene.evidence, scene.processes):
        ranks, where, what = found
        claim = f"{what} while other ranks waited in a collective, and they gave up"
        yield Sign("absent_rank_works", claim, where, ranks)


@rule("absent_rank_works", needs=("log",))
def outlasted(scene: Scene) -> Signs:
    """Ranks that are not among those that timed out were at work of their own for longer than a collective may take."""
    lines, limit = scene.log.of("collective_timeout"), scene.fact("timeout_ms")
    waited = {rank_of(mark, scene.processes) for mark in lines}
    if took := outlasting(scene.evidence, limit / 1000, waited) if lines and limit else {}:
        rank = max(took, key=lambda rank: took[rank][0])
        claim = f"{named_ranks(took, scene.processes)} spent up to {show_duration(took[rank][0])} on work of their own"
        where = [ref(row, row["raw"][:300]) for _, row in took.values()][:3]
        yield Sign(
            "absent_rank_works", f"{claim}, and a collective gave up after {show_duration(limit / 1000)}", where, sorted(took)
        )


@rule("all_ranks_joined", needs=("log",))
def everybody(scene: Scene) -> Signs:
    """Every rank is in one collective that does not end: none is late, and none is elsewhere."""
    if found := all_joined(scene.evidence, scene.processes):
        yield Sign("all_ranks_joined", found[0], [mark.ref for mark in found[1][:2]])


@rule("desync_report", needs=("log",))
def desync(scene: Scene) -> Signs:
    """PyTorch or Horovod compared the ranks, some have not joined, or not finished what the others have, and no work follows."""
    if all_joined(scene.evidence, scene.processes):
        return
    marks = scene.log.of("desync_lagging", "ranks_awaited")
    if mark := next((mark for mark in marks if not worked_after(scene.log, mark)), None):
        ranks = scene.fact("lagging_ranks") or []
        yield Sign("desync_report", f"ranks that others wait for: {short(mark.text, 150)}", [mark.ref], ranks)


@rule("desync_report", needs=("log",))
def fingerprints(scene: Scene) -> Signs:
    """PyTorch compared what the ranks were about to do."""
    if mark := scene.log.first("collective_mismatch"):
        yield Sign("desync_report", f"PyTorch found different collectives on the ranks: {short(mark.text, 150)}", [mark.ref])


@rule("desync_report", "recorder_lacks_ranks", needs=("collectives",))
def analysis(scene: Scene) -> Signs:
    """The analysis of flight recorders finds that ranks called other collectives, or that few of them did not call one."""
    rows = [row for row in scene.evidence.collectives if row["source"] == "flight_recorder"]
    differ = [row for row in rows if row.get("state") == "mismatch" and MISMATCHES.search(row.get("text") or "")]
    ranks = sorted({row["rank"] for row in differ if row.get("rank") is not None})
    if differ:
        claim = f"the flight recorders of the ranks differ: {short(differ[0]['text'], 150)}"
        yield Sign("desync_report", claim, [ref(differ[0], differ[0]["text"])], ranks)
    lacking = {row["rank"]: row for row in rows if row.get("state") == "missing" and row.get("rank") is not None}
    if lacking and not differ and 2 * len(lacking) < (scene.processes.world_size or 0):
        ranks, row = sorted(lacking), next(iter(lacking.values()))
        claim = f"all ranks but {named('rank', ranks)} are in a collective: {short(row['text'], 120)}"
        yield Sign("recorder_lacks_ranks", claim, [ref(row, row["text"])], ranks)


@rule("ops_differ", "ops_behind", "ops_same", needs=("log",))
def counters(scene: Scene) -> Signs:
    """By the last counters in the logs, ranks do different work, or some have enqueued less, or all have done the same."""
    if found := apart(scene.evidence, scene.processes):
        yield Sign(f"ops_{found.how}", found.claim, [mark.ref for mark in found.marks], found.ranks)
    elif (same := together(scene.evidence, scene.processes)) and scene.fact("ranks_same_seq") is not False:
        yield Sign("ops_same", same[0], [mark.ref for mark in same[1][:2]])


@rule("ops_differ", needs=("collectives",))
def recorded(scene: Scene) -> Signs:
    """Flight recorders name different work under the same number of a group."""
    if rows := other_work(scene.evidence):
        told = ", ".join(f"rank {row['rank']} in {row['operation']}" for row in rows[:4])
        claim = f"at #{rows[0]['count']} of group {rows[0]['communicator']} the flight recorders have {told}"
        yield Sign("ops_differ", claim, [ref(row, row["text"]) for row in rows[:2]])


@rule("recorder_host_stopped", "recorder_device_stopped", needs=("collectives",))
def recorders(scene: Scene) -> Signs:
    """Flight recorders of all ranks single some out."""
    found = fault(scene.evidence)
    if found is None:
        return
    ranks, others = named("rank", found.ranks), count_of(found.waiting, "other")
    if found.kind == "host":
        claim = f"{ranks} {'has' if len(found.ranks) == 1 else 'have'} nothing pending in the flight recorder while {others} wait"
        yield Sign("recorder_host_stopped", f"{claim}: the host stopped there", found.refs, found.ranks)
    else:
        claim = f"{ranks} did not complete collectives that other members of their groups completed: the device stopped there"
        yield Sign("recorder_device_stopped", claim, found.refs, found.ranks)


@rule("seq_differs", "seq_same", needs=("log|collectives",))
def sequence(scene: Scene) -> Signs:
    """All ranks stand at one collective, or at different ones."""
    same, refs = scene.fact("ranks_same_seq"), scene.facts.refs("ranks_same_seq")
    if same is False:
        yield Sign("seq_differs", "ranks are at different collectives (sequence number or operation)", refs)
    elif same is True:
        yield Sign("seq_same", f"all ranks are at the same collective #{scene.fact('seq')}", refs)


@rule("first_collective", "late_collective", needs=("log|collectives",))
def how_early(scene: Scene) -> Signs:
    """Whether the data path was ever seen to work before the collective that stands."""
    number, timed_out = scene.fact("seq"), bool(scene.log.of("collective_timeout"))
    if not isinstance(number, int) or not (timed_out or scene.evidence.collectives):
        return
    if 0 <= number <= scene.limits["first_collectives"]:
        yield Sign("first_collective", f"the collective is one of the first (#{number})", scene.facts.refs("seq"))
    elif timed_out:
        claim = f"the collective that stands is #{number:,}: the data path worked for those before it"
        yield Sign("late_collective", claim, scene.facts.refs("seq"))


@rule("ras_mismatch", "ras_mismatch_once", needs=("collectives",))
def ras_report(scene: Scene) -> Signs:
    """NCCL RAS says that ranks differ. One query alone says little: of ranks that work, some are always one operation ahead."""
    moments = largest(scene.evidence)
    rows = [row for row in scene.evidence.collectives if row["source"] == "ncclras" and row.get("state") in APART]
    if rows and not moves(moments):
        code = "ras_mismatch" if len(moments) >= 2 else "ras_mismatch_once"
        yield Sign(code, f"NCCL RAS reports: {short(rows[0].get('text') or rows[0]['state'], 140)}", [ref(rows[0])])


@rule("ras_moves", "ras_stays_apart", "ras_stands", needs=("collectives",))
def ras_twice(scene: Scene) -> Signs:
    """Counts at two moments: those that differ and stay are a desync, those that move are work."""
    moments = largest(scene.evidence)
    if len(moments) < 2:
        return
    where = [ref(row, row.get("text")) for row in moments[-1].rows[:2]]
    if moves(moments):
        yield Sign("ras_moves", "counts of collectives grew between two queries", where)
    elif len(moments[-1].distinct) > 1:
        yield Sign("ras_stays_apart", "counts of collectives differ between ranks, unchanged over two queries", where)
    else:
        yield Sign("ras_stands", "counts of collectives are equal on all ranks and unchanged over two queries", where)
