"""Counters of the ranks in log lines: what each has enqueued last, and what it works on. They decide who is apart.

NCCL prints the count and kind of each operation (`opCount`), PyTorch's watchdog the numbers of the work that was enqueued and
completed, SGLang's watchdog the size of the batch. Each rank's last line counts; an order of pids never makes a rank.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.log_digest import LogDigest, Mark
from kit.analyse.verdict.phases import rank_of
from kit.analyse.verdict.processes import Processes
from kit.untrusted import ranks_in, whole_number
from kit.words import count_of, named

_GROUP = re.compile(r"PG (?:ID \d+ )?(?:PG )?GUID (?P<group>\S+?)(?:\(| )")


@dataclass(frozen=True)
class Apart:
    """Ranks whose counters are not those of the others: `differ` (other work) or `behind` (less of it)."""

    how: str
    ranks: list[int]
    claim: str
    marks: list[Mark]


def apart(evidence: Evidence, processes: Processes) -> Apart | None:
    """The ranks that stand apart by the last counters in the logs; None where all agree or nothing is counted."""
    found = (_compare(kind[0], marks) for kind, marks in _by_group(evidence, processes))
    return next((entry for entry in found if entry is not None), None)


def together(evidence: Evidence, processes: Processes) -> tuple[str, list[Mark]] | None:
    """That all ranks of the launch have enqueued and completed the same work, by their watchdogs; None where not all agree."""
    for kind, marks in _by_group(evidence, processes):
        at = {(mark.fields.get("last_enqueued"), mark.fields.get("last_completed")) for mark in marks.values()}
        if kind[0] == "work" and len(at) == 1 and 2 <= len(marks) == processes.world_size and None not in (last := at.pop()):
            claim = f"all {len(marks)} ranks have enqueued work up to {last[0]} and completed it up to {last[1]}"
            return claim, list(marks.values())
    return None


def all_joined(evidence: Evidence, processes: Processes) -> tuple[str, list[Mark]] | None:
    """That every rank of the launch has entered one collective and none came out, by watchdogs or PyTorch's desync report.

    A rank that is late, or elsewhere, waits in none, and its own watchdog is silent.
    """
    log, reported = evidence.log, evidence.log.of("desync_lagging")
    started = {mark.fields["op"] for mark in log.of("desync_ranks") if mark.fields["state"] == "started"}
    if reported:
        ranks = {rank for mark in reported for rank in ranks_in(str(mark.fields["ranks"]))}
        at, how = {mark.fields.get("missing") if mark.fields.get("joined") else mark.order for mark in reported}, "joined"
        at |= started if len(started) > 1 else set()
    else:
        reported, how = log.of("collective_timeout"), "timed out in"
        ranks = {rank for mark in reported if (rank := rank_of(mark, processes)) is not None}
        at = {tuple(mark.fields.get(name) for name in ("seq", "op", "numel_in")) for mark in reported}
        ranks |= stood_with(evidence, processes)
    if not reported or len(at) != 1 or not 2 <= len(ranks) == processes.world_size:
        return None
    return f"all {len(ranks)} ranks {how} the same collective, and none came out of it", reported


def stood_with(evidence: Evidence, processes: Processes) -> set[int]:
    """Ranks that stood at the one work that timed out, by the next line of their watchdogs, where the first was lost."""
    log = evidence.log
    numbers = {mark.fields.get("seq") for mark in log.of("collective_timeout")}
    stuck = (mark for mark in log.of("work_status") if len(numbers) == 1 and mark.fields.get("seq") in numbers - {None})
    return {rank for mark in stuck if (rank := rank_of(mark, processes)) is not None}


def _by_group(evidence: Evidence, processes: Processes) -> list[tuple[tuple, dict[int, Mark]]]:
    """The last counter of each rank in each group, the largest group first."""
    log = evidence.log
    by_rank: dict[tuple, dict[int, Mark]] = defaultdict(dict)
    communicators = _communicators(log)
    for mark in log.latest("nccl_op"):
        rank = rank_of(mark, processes)
        if rank is not None:
            by_rank["nccl_op", mark.fields["nranks"], communicators[mark.pid, mark.fields["comm"]]][rank] = mark
    for mark in log.latest("watchdog_failure", "work_status"):
        rank, group = whole_number(mark.fields.get("rank", mark.rank)), _GROUP.search(mark.raw)
        if rank is not None and whole_number(mark.fields.get("last_enqueued")) is not None:
            by_rank["work", group["group"] if group else ""][rank] = mark
    for mark in log.latest("batch_size"):
        if (rank := rank_of(mark, processes)) is not None:
            by_rank["batch",][rank] = mark
    return sorted(by_rank.items(), key=lambda entry: -len(entry[1]))


def _communicators(log: LogDigest) -> dict[tuple, object]:
    """What ranks share of each communicator of a process: its id, else its place among those of its size."""
    ids = {
        (mark.pid, mark.fields.get("comm")): mark.fields["comm_id"]
        for mark in log.of("nccl_init_start", "nccl_init_complete")
        if "comm_id" in mark.fields
    }
    names: dict[tuple, object] = {}
    places: Counter = Counter()
    for mark in log.latest("nccl_op"):
        key, size = (mark.pid, mark.fields["comm"]), (mark.pid, mark.fields["nranks"])
        names[key] = ids.get(key, places[size])
        places[size] += 1
    return names


def _compare(kind: str, marks: dict[int, Mark]) -> Apart | None:
    """One group of ranks."""
    if len(marks) < 2:
        return None
    if kind == "batch":
        return _odd(marks, lambda mark: mark.fields["batch"], "ranks work on batches of different sizes")
    if kind == "work":
        return _behind({rank: int(mark.fields["last_enqueued"]) for rank, mark in marks.items()}, marks)
    counts = {rank: int(str(mark.fields["count"]), 16) for rank, mark in marks.items()}
    if len(set(counts.values())) > 1:
        return _behind(counts, marks)
    count = next(iter(marks.values())).fields["count"]
    return _odd(marks, lambda mark: mark.fields["op"], f"ranks are in different operations at opCount {count}")


def _behind(counts: dict[int, int], marks: dict[int, Mark]) -> Apart | None:
    common, times = Counter(counts.values()).most_common(1)[0]
    late = sorted(rank for rank, count in counts.items() if count < common)
    if not late or times < len(late):
        return None
    fewest = min(counts[rank] for rank in late)
    claim = (
        f"{named('rank', late)} enqueued {fewest if len(late) == 1 else f'at most {max(counts[rank] for rank in late)}'} "
        f"{'operations' if fewest != 1 else 'operation'}, {count_of(times, 'other')} {common}"
    )
    return Apart("behind", late, claim, [marks[late[0]], *_first(marks, late)])


def _odd(marks: dict[int, Mark], value: Callable[[Mark], object], what: str) -> Apart | None:
    values = {rank: value(mark) for rank, mark in marks.items()}
    common, times = Counter(values.values()).most_common(1)[0]
    if times == len(values):
        return None
    odd = sorted(rank for rank, own in values.items() if own != common)
    groups = [(own, sorted(rank for rank in values if values[rank] == own)) for own in dict.fromkeys(values.values())]
    words = ", ".join(f"{own} on {named('rank', ranks)}" for own, ranks in groups)
    return Apart("differ", odd if 2 * len(odd) < len(values) else [], f"{what}: {words}", [marks[odd[0]], *_first(marks, odd)])


def _first(marks: dict[int, Mark], without: Iterable[int]) -> list[Mark]:
    """A mark of the ranks that agree."""
    return [mark for rank, mark in sorted(marks.items()) if rank not in without][:1]
