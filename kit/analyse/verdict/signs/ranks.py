"""Ranks that lack what the others have passed, and a rank that swallowed its error."""

from __future__ import annotations

from kit.analyse.verdict.deltas import bytes_read, deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rank_durations import slow
from kit.analyse.verdict.rank_groups import named_ranks
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.gpu import busy_rows, idle_gpus
from kit.clock import show_duration
from kit.words import count_of, named, short

MOST_LISTED = 8
"""Ranks of which the pid is told: a node's."""


@rule("ranks_by_order", needs=("processes|stacks|log",))
def by_order(scene: Scene) -> Signs:
    """Ranks that nothing names: they have the order of their pids, as launchers start them."""
    taken = [process for process in scene.processes.workers if process.by_order]
    if taken:
        listed = ", ".join(f"{process.rank} is pid {process.pid}" for process in taken[:MOST_LISTED])
        more = f", and {len(taken) - MOST_LISTED} more" if len(taken) > MOST_LISTED else ""
        claim = f"nothing names the ranks, their numbers are those of the pids in order: {listed}{more}"
        yield Sign("ranks_by_order", claim)


@rule("barrier_timeout", needs=("log",))
def barrier(scene: Scene) -> Signs:
    """A barrier timed out; the ranks that complain only waited."""
    if lines := scene.log.of("barrier_timeout"):
        late = scene.fact("lagging_ranks") or []
        missing = f"; {named('rank', late)} had not arrived" if late else ""
        claim = f"a barrier timed out on {count_of(len(lines), 'rank')}{missing}"
        yield Sign("barrier_timeout", claim, [lines[0].ref], late)


@rule("ranks_behind", needs=("log",))
def behind(scene: Scene) -> Signs:
    """Ranks lack a milestone that the others passed."""
    steps, ranks = scene.progression, sorted(scene.progression.lagging)
    if ranks and not scene.log.of("barrier_timeout"):
        since = f" {show_duration(steps.lag_s)} ago" if steps.lag_s else ""
        verb = "has" if len(ranks) == 1 else "have"
        late = named_ranks(ranks, scene.processes)
        claim = f"{late} {verb} not reached a milestone that the others passed{since}"
        yield Sign("ranks_behind", claim, [steps.lag_ref] if steps.lag_ref else [], ranks)


@rule("rank_slow", needs=("log",))
def slow_ranks(scene: Scene) -> Signs:
    """The same work took a few ranks many times as long as the others."""
    if found := slow(scene.evidence):
        longest = max(found.took, key=found.took.__getitem__)
        up_to = "up to " if len(found.took) > 1 else ""
        who = named_ranks(found.took, scene.processes)
        claim = (
            f"{who} took {up_to}{show_duration(found.took[longest])} for what took {found.others} others "
            f"about {show_duration(found.usual_s)}: {short(found.rows[longest]['text'], 100)}"
        )
        yield Sign("rank_slow", claim, [ref(row, row["text"]) for row in found.rows.values()][:2], list(found.took))


@rule("laggard_reads", needs=("io",))
def still_reading(scene: Scene) -> Signs:
    """A rank that is behind still reads files, while others do not."""
    read = deltas(scene.evidence.io, "pid", bytes_read)
    reading = scene.ranks_of(pid for pid, delta in read.items() if delta.change > scene.limits["rank_read_bytes"])
    late = [rank for rank in scene.fact("lagging_ranks") or [] if rank in reading]
    if late:
        verb = "is" if len(late) == 1 else "are"
        yield Sign("laggard_reads", f"{named('rank', late)} {verb} still reading files: late, but working", [], late)


@rule("zero_graph_addresses", needs=("log",))
def zero_addresses(scene: Scene) -> Signs:
    """A rank whose capture failed registers no buffers."""
    for mark in scene.log.of("graph_addresses"):
        if str(mark.fields.get("count")) == "0":
            claim = "a rank registered 0 graph addresses during capture: an error in the capture was swallowed"
            yield Sign("zero_graph_addresses", claim, [mark.ref], [mark.rank] if mark.rank is not None else [])


@rule("silent_rank_idle_gpu", needs=("log", "gpus"))
def silent_rank(scene: Scene) -> Signs:
    """One rank is missing from a set of lines, and its GPU idles while others spin."""
    missing, rows = sorted(scene.progression.lagging), [row for row in scene.evidence.gpus if row.get("util_percent") is not None]
    where = scene.progression.lag_ref
    if len(missing) != 1 or not where or scene.phase not in ("graph_capture", "compile", "post_load"):
        return
    if idle_gpus(scene, rows) == missing and busy_rows(scene, rows):
        claim = f"rank {missing[0]} lacks a line that the others printed, its GPU is idle and the others are busy"
        yield Sign("silent_rank_idle_gpu", claim, [where], missing)
