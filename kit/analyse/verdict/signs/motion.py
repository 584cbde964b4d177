"""Signs that need a series of samples or two dumps: caches of compilers, stacks that move, main threads that differ for long."""

from __future__ import annotations

import re

from kit.analyse.verdict.deltas import deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.processes import Process
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.clock import NS
from kit.schema import Row

COMPILE_CACHE = re.compile(
    r"torch_compile_cache|inductor|triton|flashinfer|deep_?gemm|tvm|ComputeCache|cubin|jit|(?:cache|vllm|sglang)$"
)
"""Folders that compilers and tuners write their results to."""
DOWNLOADS = re.compile(r"huggingface|modelscope|hub|models?$|download")
HELD_S = 5.0
"""Main threads differ for good where they did so in all samples over this time: a step of a launch that ranks take one after
the other is shorter, or its rank computes."""
WAITS_FOR_OTHERS = re.compile(r"futex|epoll|poll|recv|select|read")
"""Calls in which a rank waits for another one: a condition variable, a socket, a pipe."""
SLEEPS = re.compile(r"nanosleep")


def caches(scene: Scene) -> Signs:
    """A compiler's cache that grows."""
    rows = [row for row in scene.evidence.sizes if is_compile_cache(row["path"])]
    grown = deltas(rows, "path", lambda row: row.get("size_bytes"))
    most = max(grown.values(), key=lambda delta: delta.change, default=None)
    if most is not None and most.change > 0:
        yield Sign(
            "compile_cache_grows",
            f"the compile cache {most.key} grew by {most.change / 2**20:,.1f} MiB between two samples",
            [ref(most.rows[1])],
        )


def is_compile_cache(path: str) -> bool:
    """Whether a folder is where compilers put their results, by its name.

    Examples
    --------
    >>> [is_compile_cache(path) for path in ("~/.cache/vllm", "~/.cache/huggingface", "cache/torchinductor_me")]
    [True, False, True]
    """
    return bool(COMPILE_CACHE.search(path)) and not DOWNLOADS.search(path)


def moving_stacks(scene: Scene) -> Signs:
    """Stacks of the main threads at two moments: another place is life."""
    seen: dict[object, dict[int, tuple[str, Row]]] = {}
    for row in scene.evidence.stacks:
        main = row.get("thread") == "MainThread" or row.get("tid") == row.get("pid")
        if row.get("tool") == "pyspy" and main and row.get("moment") is not None and row.get("depth", 0) < 4:
            place = f"{row.get('function')} ({row.get('file')})"
            text, first = seen.setdefault(row.get("pid"), {}).get(row["moment"], ("", row))
            seen[row.get("pid")][row["moment"]] = (f"{text} < {place}", first)
    for pid, moments in seen.items():
        if len(moments) > 1 and scene.processes.by_pid.get(pid) and scene.processes.by_pid[pid].role in ("worker", "engine"):
            (before, _), (after, where) = moments[min(moments)], moments[max(moments)]
            if before != after:
                yield Sign("stacks_move", f"the main thread of pid {pid} was at another place in the second dump", [ref(where)])
                return


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
    ranks = ", ".join(str(process.rank) for process in asleep)
    yield Sign(
        "odd_rank_sleeps",
        f"the main thread of rank {ranks} sleeps on a timer ({calls[asleep[0].rank]}) in all samples, "
        f"those of {len(waiting)} other(s) wait in {calls[waiting[0].rank]}",
        [ref(process.rows[-1], f"pid {process.pid}: {calls[process.rank]}") for process in (asleep[0], waiting[0])],
        [process.rank for process in asleep],
    )


def _call(process: Process, scene: Scene) -> str | None:
    """System call of the main thread where it was the same in all samples over `HELD_S`, else None."""
    rows = [
        row
        for row in scene.evidence.threads
        if row.get("pid") == process.pid and row.get("tid") == process.pid and row.get("time") is not None
    ]
    found = {row.get("syscall") or row.get("wchan") for row in rows}
    if len(found) != 1 or rows[-1]["time"] - rows[0]["time"] < HELD_S * NS:
        return None
    return found.pop()


def stopped_launch(scene: Scene) -> Signs:
    """A launch whose engine is stopped, or that is stopped as a whole."""
    own = [process for process in scene.processes.of_role("frontend", "engine", "worker", "other") if process.states]
    held = [process for process in own if process.states[-1] == "T"]
    if held and (len(held) == len(own) or any(process.role == "engine" for process in held)):
        pids = ", ".join(str(process.pid) for process in held)
        where = [ref(process.rows[-1], f"pid {process.pid}: state T") for process in held[:3]]
        yield Sign("launch_stopped", f"pid {pids} is stopped (state T): it waits for SIGCONT", where)


MAKERS = (caches, moving_stacks, main_threads, stopped_launch)
