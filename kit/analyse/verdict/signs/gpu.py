"""Use of the GPUs: utilisation against power, differences between GPUs, memory of a mere context."""

from __future__ import annotations

from kit.analyse.verdict.deltas import deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.schema import Row
from kit.words import count_of, named


def newest(scene: Scene) -> list[Row]:
    """Rows of the last look at the GPUs that show their use."""
    rows = [row for row in scene.evidence.gpus if row.get("util_percent") is not None]
    last = max((row.get("moment") or 0 for row in rows), default=0)
    return [row for row in rows if (row.get("moment") or 0) == last]


def busy_rows(scene: Scene, rows: list[Row]) -> list[Row]:
    """Rows of GPUs in use."""
    return [row for row in rows if row["util_percent"] >= scene.limits["gpu_busy_percent"]]


def all_busy(scene: Scene) -> bool:
    """Whether the last look shows all GPUs in use."""
    rows = newest(scene)
    return bool(rows) and len(busy_rows(scene, rows)) == len(rows)


def idle_gpus(scene: Scene, rows: list[Row]) -> list[int]:
    """Numbers of GPUs that are not in use."""
    return [row["gpu"] for row in rows if row["util_percent"] <= scene.limits["gpu_idle_percent"]]


@rule("gpu_busy_low_power", "gpu_working", needs=("gpus",))
def power(scene: Scene) -> Signs:
    """Use without the power that work takes is a kernel that spins."""
    rows, limits = newest(scene), scene.limits
    busy = busy_rows(scene, rows)
    shares, traffic = _shares(scene, busy), _traffic(scene, busy)
    low = [share for share in shares if share < limits["gpu_low_power_share"]]
    if traffic:
        least = min(row["mem_util_percent"] for row in traffic)
        claim = f"{count_of(len(traffic), 'GPU')} busy, with traffic of its memory {least:.0f} % of the time or more: computing"
        yield Sign("gpu_working", claim, [ref(traffic[0])])
    elif low and len(low) == len(shares) and 2 * len(busy) >= len(rows):
        claim = (
            f"{len(low)} of {count_of(len(rows), 'GPU')} at ≥ {limits['gpu_busy_percent']:.0f} % utilisation and at most "
            f"{100 * max(low):.0f} % of the power limit: busy-waiting, not computing"
        )
        yield Sign("gpu_busy_low_power", claim, [ref(row) for row in busy[:2]])
    elif len(low) < len(shares):
        working = len(shares) - len(low)
        yield Sign("gpu_working", f"{count_of(working, 'GPU')} busy at high power", [ref(busy[0])])


def _traffic(scene: Scene, busy: list[Row]) -> list[Row]:
    """Rows of GPUs whose memory is read or written as work does it; a kernel that spins on a flag leaves it alone."""
    return [row for row in busy if (row.get("mem_util_percent") or 0.0) >= scene.limits["gpu_traffic_percent"]]


def _shares(scene: Scene, busy: list[Row]) -> list[float]:
    """Shares of the power limit; where no limit is told, 1 for what no spinning kernel of any card takes."""
    most = scene.limits["gpu_spin_w"]
    drawn = [
        (row["power_w"], row.get("power_limit_w") or (row["power_w"] if row["power_w"] > most else None))
        for row in busy
        if row.get("power_w")
    ]
    return [power / limit for power, limit in drawn if limit]


def at_work(scene: Scene) -> bool:
    """Whether all busy GPUs take the power or have the memory traffic that work takes, and they are most of them."""
    rows = newest(scene)
    busy = busy_rows(scene, rows)
    shares, most = _shares(scene, busy), 2 * len(busy) > len(rows)
    powered = len(shares) == len(busy) and min(shares, default=0.0) >= scene.limits["gpu_low_power_share"]
    return most and (powered or len(_traffic(scene, busy)) == len(busy))


@rule("gpu_use_differs", "gpu_use_uneven", "gpu_all_busy", needs=("gpus",))
def differences(scene: Scene) -> Signs:
    """GPUs of one launch that are used alike, or not."""
    rows = newest(scene)
    busy, idle = busy_rows(scene, rows), idle_gpus(scene, rows)
    where, most = [ref(row) for row in rows[:2]], scene.limits["gpu_busy_percent"]
    if busy and idle and scene.processes.world_size == len(rows):
        claim = f"{len(busy)} of {count_of(len(rows), 'GPU')} busy, {len(idle)} idle: the ranks are not in one place"
        yield Sign("gpu_use_differs", claim, where)
    if idle and len(idle) < len(busy) < len(rows):
        claim = f"{named('GPU', idle)} idle while {len(busy)} others are at ≥ {most:.0f} % utilisation"
        yield Sign("gpu_use_uneven", claim, where, idle)
    if all_busy(scene) and not _shares(scene, busy) and not _traffic(scene, busy):
        drawn = sorted(row["power_w"] for row in busy if row.get("power_w"))
        span = " to ".join(f"{power:.0f}" for power in (drawn[:1] + drawn[1:][-1:]))
        power = f"{span} W of a limit that is not told" if drawn else "power unknown"
        yield Sign("gpu_all_busy", f"{_all(len(rows))} at ≥ {most:.0f} % utilisation, {power}", [ref(busy[0])])


@rule("gpu_idle", needs=("gpus",))
def idle(scene: Scene) -> Signs:
    """No GPU is in use."""
    rows = newest(scene)
    if rows and len(idle_gpus(scene, rows)) == len(rows):
        yield Sign("gpu_idle", f"{_all(len(rows))} idle", [ref(rows[0])])


def _all(number: int) -> str:
    return "the only GPU is" if number == 1 else f"all {number} GPUs are"


@rule("gpu_context_only", needs=("gpus",))
def context_only(scene: Scene) -> Signs:
    """GPU memory holds a context and nothing else; who has ended holds none."""
    used = [row["mem_used_mib"] for row in scene.evidence.gpus if row.get("mem_used_mib") is not None]
    if used and scene.fact("exited") is not True and max(used) < scene.limits["gpu_context_mib"]:
        claim = f"at most {max(used):,.0f} MiB of GPU memory in use: a context, nothing loaded"
        yield Sign("gpu_context_only", claim, scene.facts.refs("gpu_mem_mib_max"))


@rule("gpu_memory_grows", needs=("gpus",), moving=True)
def memory_grows(scene: Scene) -> Signs:
    """GPU memory fills between two samples."""
    memory = deltas(scene.evidence.gpus, "gpu", lambda row: row.get("mem_used_mib"))
    most = max(memory.values(), key=lambda delta: delta.change, default=None)
    if most is not None and most.change > scene.limits["gpu_memory_grown_mib"]:
        claim = f"memory of GPU {most.key} grew by {most.change:,.0f} MiB between two samples"
        yield Sign("gpu_memory_grows", claim, [ref(most.rows[1])])
