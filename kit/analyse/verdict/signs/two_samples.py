"""What two samples show: CPU time, resident memory, bytes, folders. CPU time alone is not progress."""

from __future__ import annotations

import re

from kit.analyse.verdict.deltas import Delta, bytes_read, cpu_s, deltas, span_s
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.schema import Row
from kit.words import count_of, short

MIB = 1 << 20
COMPILE_CACHE = re.compile(
    r"torch_compile_cache|inductor|triton|flashinfer|deep_?gemm|tvm|ComputeCache|cubin|jit|(?:cache|vllm|sglang)$"
)
"""Folders that compilers and tuners write their results to."""
DOWNLOADS = re.compile(r"huggingface|modelscope|hub|models?$|download")


def _of_server(rows: list[Row], scene: Scene) -> list[Row]:
    """Rows of processes other than compilers and helpers."""
    aside = {process.pid for process in scene.processes.of_role("compiler", "helper")}
    return [row for row in rows if row.get("pid") not in aside]


def _memory(scene: Scene) -> dict[object, Delta]:
    return deltas(_of_server(scene.evidence.processes, scene), "pid", lambda row: row.get("rss_bytes"))


def _read(scene: Scene) -> dict[object, Delta]:
    return deltas(_of_server(scene.evidence.io, scene), "pid", bytes_read)


def _cpu(scene: Scene) -> dict[object, Delta]:
    return deltas(_of_server(scene.evidence.processes, scene), "pid", cpu_s)


@rule("cpu_busy", "cpu_flat", needs=("processes",))
def cpu(scene: Scene) -> Signs:
    """Processes that compute, or none that does."""
    every = _cpu(scene)
    if not every:
        return
    own = scene.processes.workers or scene.processes.of_role("worker", "engine", "frontend", "other")
    pids = {process.pid for process in own}
    chosen = {pid: delta for pid, delta in every.items() if pid in pids} or every
    busy = [delta for delta in chosen.values() if delta.per_s >= scene.limits["busy_cores"]]
    most = max(delta.per_s for delta in chosen.values())
    where = [ref(delta.rows[1]) for delta in list(chosen.values())[:2]]
    gap = "" if next(iter(chosen.values())).gap_known else ", if the samples are 30 s apart"
    if busy:
        claim = f"{len(busy)} of {count_of(len(chosen), 'process')} using CPU, up to {most:.2f} cores{gap}"
        yield Sign("cpu_busy", claim, where, scene.ranks_of(delta.key for delta in busy))
    if all(delta.per_s <= scene.limits["flat_cores"] for delta in every.values()) and not compilers_work(scene):
        claim = f"almost no CPU time used between two samples by {count_of(len(every), 'process')} ({most:.3f} cores{gap})"
        yield Sign("cpu_flat", claim, where)


@rule("cpu_short", needs=("threads",))
def waits_for_cpu(scene: Scene) -> Signs:
    """A main thread that computes and gets no CPU for most of the time: other programs have them, or a quota takes them."""
    mains = [row for row in _of_server(scene.evidence.threads, scene) if row.get("pid") == row.get("tid")]
    waited = deltas(mains, "pid", lambda row: row.get("wait_s"))
    most = max(waited.values(), key=lambda delta: delta.per_s, default=None)
    if most is not None and most.gap_known and most.per_s >= scene.limits["busy_cores"]:
        claim = f"the main thread of pid {most.key} is ready to run and waits for a CPU {min(most.per_s, 1):.0%} of the time"
        yield Sign("cpu_short", claim, [ref(most.rows[1])])


@rule("rss_grows", "rss_moves", "rss_flat", needs=("processes",), moving=("rss_moves",))
def memory(scene: Scene) -> Signs:
    """Resident memory that moves, more than page reclaim and malloc trimming move it, or does not."""
    changes, limits = _memory(scene), scene.limits
    if not changes:
        return
    least, most = limits["rss_least_mib"] * MIB, limits["rss_moved_mib"] * MIB
    moved = [
        delta
        for delta in changes.values()
        if abs(delta.change) > max(least, min(most, limits["rss_moved_share"] * max(delta.first, 1)))
    ]
    if not moved:
        claim = f"RSS unchanged in {count_of(len(changes), 'process')} between two samples"
        yield Sign("rss_flat", claim, [ref(next(iter(changes.values())).rows[1])])
        return
    delta = max(moved, key=lambda delta: abs(delta.change))
    where = [ref(delta.rows[1])]
    if delta.change > most:
        yield Sign("rss_grows", f"RSS of pid {delta.key} is growing", where)
    yield Sign("rss_moves", f"RSS of pid {delta.key} changed by {delta.change / MIB:+,.0f} MiB between two samples", where)


@rule("reads_move", "reads_flat", needs=("io",), moving=("reads_move",))
def reads(scene: Scene) -> Signs:
    """Bytes are read between two samples, or none; mapped files are read without a call that counts, so memory speaks first."""
    read = _read(scene)
    if not read:
        return
    moving = [delta for delta in read.values() if delta.per_s > scene.limits["read_mib_per_s"] * MIB]
    first = next(iter(read.values()))
    if moving:
        total = sum(max(0, delta.change) for delta in read.values())
        rate = f" ({total / span_s(read) / MIB:,.0f} MiB/s)" if first.gap_known else ""
        claim = f"{total / 2**30:,.2f} GiB read between two samples{rate}"
        yield Sign("reads_move", claim, [ref(moving[0].rows[1])], scene.ranks_of(delta.key for delta in moving))
    elif not any(delta.change > scene.limits["rss_moved_mib"] * MIB for delta in _memory(scene).values()):
        yield Sign("reads_flat", "no file was read between two samples", [ref(first.rows[1])])


@rule("writes_flat", needs=("io",))
def writes(scene: Scene) -> Signs:
    """Nothing is written."""
    written = deltas(scene.evidence.io, "pid", lambda row: row.get("wchar_bytes"))
    if written and all(delta.change == 0 for delta in written.values()):
        yield Sign("writes_flat", "nothing was written between two samples", [ref(next(iter(written.values())).rows[1])])


@rule("one_sample")
def one_sample(scene: Scene) -> Signs:
    """Nothing was looked at twice, of a launch that may live."""
    if not scene.fact("exited") and not scene.evidence.sizes and not _cpu(scene) and not _memory(scene) and not _read(scene):
        once = "there is only one sample: take a second one at least 10 s later"
        none = "no process was looked at: take two samples at least 10 s apart"
        yield Sign("one_sample", once if scene.evidence.processes or scene.evidence.io else none)


@rule("size_grows", "size_flat", needs=("sizes",), moving=("size_grows",))
def sizes(scene: Scene) -> Signs:
    """Folders that ought to grow."""
    grown = _sizes(scene, compile_caches=False)
    most = max(grown.values(), key=lambda delta: delta.change, default=None)
    if most is None:
        return
    if most.change > 0:
        claim = f"{most.key} grew by {most.change / MIB:,.0f} MiB between two samples"
        yield Sign("size_grows", claim, [ref(most.rows[1])])
    else:
        claim = f"{most.key} did not grow between two samples ({most.last / MIB:,.0f} MiB)"
        yield Sign("size_flat", claim, [ref(most.rows[1])])


@rule("compile_cache_grows", needs=("sizes",), moving=True)
def caches(scene: Scene) -> Signs:
    """A compiler's cache that grows."""
    most = max(_sizes(scene, compile_caches=True).values(), key=lambda delta: delta.change, default=None)
    if most is not None and most.change > 0:
        claim = f"the compile cache {most.key} grew by {most.change / MIB:,.1f} MiB between two samples"
        yield Sign("compile_cache_grows", claim, [ref(most.rows[1])])


def _sizes(scene: Scene, compile_caches: bool) -> dict[object, Delta]:
    rows = [row for row in scene.evidence.sizes if is_compile_cache(row["path"]) == compile_caches]
    return deltas(rows, "path", lambda row: row.get("size_bytes"))


def is_compile_cache(path: str) -> bool:
    """Whether a folder is where compilers put their results, by its name.

    Examples
    --------
    >>> [is_compile_cache(path) for path in ("~/.cache/vllm", "~/.cache/huggingface", "cache/torchinductor_me")]
    [True, False, True]
    """
    return bool(COMPILE_CACHE.search(path)) and not DOWNLOADS.search(path)


@rule("compilers_run", "compilers_work", "no_compilers", needs=("processes",), moving=("compilers_run", "compilers_work"))
def compilers(scene: Scene) -> Signs:
    """Compilers that are there, that get on with their work, or none."""
    running = scene.processes.of_role("compiler")
    if running:
        where = [ref(p.rows[-1], short(p.title, 120)) for p in running[:2] if p.rows]
        yield Sign("compilers_run", f"{count_of(len(running), 'compiler')} running: {short(running[0].title, 60)}", where)
        if compilers_work(scene):
            yield Sign("compilers_work", "compilers use CPU time, or new ones are started", where)
    elif scene.fact("compilers_running") == 0:
        yield Sign("no_compilers", "no compiler is running")


def compilers_work(scene: Scene) -> bool:
    """Whether compilers compute, or one was started after another was seen: what they compile for advances."""
    running = [process for process in scene.processes.of_role("compiler") if process.rows]
    used = deltas((row for process in running for row in process.rows), "pid", cpu_s)
    firsts = {process.rows[0].get("moment") for process in running} - {None}
    return len(firsts) > 1 or any(delta.per_s > scene.limits["flat_cores"] for delta in used.values())
