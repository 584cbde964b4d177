"""Which group some ranks are: a node, a pipeline stage, a replica, a tensor-parallel group. What they share is where to look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kit.analyse.verdict.processes import Processes
from kit.words import named


def named_ranks(ranks: Iterable[int], processes: Processes) -> str:
    """Ranks by number, and the groups that they are exactly.

    Examples
    --------
    >>> four = Processes({}, {}, {"tp": 2, "pp": 2, "nnodes": 2}, 4)
    >>> named_ranks([2, 3], four), named_ranks([3], four)
    ('ranks 2, 3 (all of node 1, of pipeline stage 1, of tensor-parallel group 1)', 'rank 3')
    """
    wanted = sorted(ranks)
    groups = [name for name, members in _groups(processes.sizes, processes.world_size or 0) if members == wanted]
    return named("rank", wanted) + (f" (all of {', of '.join(groups)})" if groups else "")


def _groups(sizes: dict[str, int], world: int) -> Iterator[tuple[str, list[int]]]:
    """Groups of two ranks or more with their members, numbered as by `kit.parse.records.global_rank`: TP within PP within DP."""
    tp, pp, nodes = (max(sizes.get(name, 1), 1) for name in ("tp", "pp", "nnodes"))
    replica = tp * pp
    if nodes > 1 and world % nodes == 0:
        yield from _blocks("node", world // nodes, world)
    if pp > 1 and world % replica == 0:
        for stage in range(pp):
            yield f"pipeline stage {stage}", [rank for rank in range(world) if rank % replica // tp == stage]
    if 1 < replica < world and world % replica == 0 and "dp" in sizes and not sizes.get("dp_attention"):
        yield from _blocks("data-parallel replica", replica, world)
    if pp > 1 and 1 < tp < world and world % tp == 0:
        yield from _blocks("tensor-parallel group", tp, world)


def _blocks(name: str, size: int, world: int) -> Iterator[tuple[str, list[int]]]:
    """Ranks one after the other, so many each."""
    if size > 1:
        yield from ((f"{name} {first // size}", list(range(first, first + size))) for first in range(0, world, size))
