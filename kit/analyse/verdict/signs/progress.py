"""Signs of progress and of its absence. Rates need two samples; CPU time alone is not progress."""

from __future__ import annotations

import itertools
import re
import statistics

from kit.analyse.launches.templates import template
from kit.analyse.verdict.deltas import bytes_read, cpu_s, deltas, span_s
from kit.analyse.verdict.eta import eta
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.log_digest import Bar
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.motion import is_compile_cache
from kit.clock import NS, show_duration

RECENT_S = 60.0
"""A progress record is recent for this long where the log's own cadence says nothing."""
CADENCE = 5.0
"""A bar stands still after this many times its own time for an item, and not before `RECENT_S`."""
LONG_S = 300.0
"""Silence that needs a reason: SGLang's load barrier and NCCL's store time out at 300 s or later."""
COMPILING = ("post_load", "compile", "graph_capture")
"""Phases in which a launch compiles."""
BUSY_CORES = 0.5
FLAT_CORES = 0.05
"""Cores that a process burns at least to count as busy, at most to count as idle."""
MOVED_BYTES = 1 << 20
RSS_MOVED_SHARE = 0.0005
RSS_MOVED_BYTES = 32 << 20
"""Resident memory has moved where it changed by more than 32 MiB, or by 0.05 % of a small process but at least 1 MiB: page
reclaim and malloc trimming move less (the idle servers of the bundled runs: below 4 MiB in 30 s)."""
READ_PER_S = 1 << 20
LEAST_STEPS = 4
"""A milestone that came with so many different texts is a series of steps, whose pace is known."""
STEP_KINDS = {"weights": "weights", "graph_capture": "graph", "compile": "jit", "post_load": "jit", "warmup": "jit"}
DONE = re.compile(r"print_timing|\brelease|stop processing|eval time")
"""Words of llama.cpp at the end of a request."""


def cadence_s(bar: Bar) -> float | None:
    """Seconds that an item of a bar takes: as printed, else elapsed time by items."""
    if bar.s_per_item:
        return bar.s_per_item
    return bar.elapsed_s / bar.n if bar.elapsed_s and bar.n else None


def bars(scene: Scene) -> Signs:
    """Bars that stand, bars that moved a moment ago."""
    e, now = scene.evidence, scene.evidence.run.captured_ns
    latest = max(e.log.bars, key=lambda bar: bar.order, default=None)
    for kind in ("weights", "graph", "download", "jit"):
        bar = e.log.last_bar(kind)
        if bar is None or bar.done:
            continue
        # A bar of an earlier phase that was left behind is no evidence of a stall.
        if (
            scene.progression.phase
            not in {
                "weights": ("weights",),
                "graph": ("graph_capture",),
                "download": ("download",),
                "jit": ("compile", "graph_capture", "warmup", "post_load"),
            }[kind]
            or bar is not latest
        ):
            continue
        item = cadence_s(bar)
        count = f"{bar.n:g}/{bar.total:g}" if bar.total else f"{bar.n:g}"
        later = _last_time(scene)
        reference = now if now is not None and e.run.captured_by != "file time" else later
        still = (reference - bar.moved_time) / NS if reference is not None and bar.moved_time is not None else scene.silence_s
        if still is None:
            continue
        limit = max(RECENT_S, CADENCE * (item if kind != "download" and item else 0.0))
        if still > limit and not bar.n:
            yield Sign(
                f"{kind}_bar_never_moved", f"the {kind} bar was begun {show_duration(still)} ago and stands at {count}", [bar.ref]
            )
        elif still > limit:
            pace = f"; before, an item took {show_duration(item)}" if item and kind != "download" else ""
            yield Sign(f"{kind}_bar_stands", f"the {kind} bar stands at {count} for {show_duration(still)}{pace}", [bar.ref])
        else:
            left = _left(bar)
            yield Sign(
                f"{kind}_bar_moves", f"the {kind} bar was at {count} {show_duration(still)} before the capture{left}", [bar.ref]
            )


def steps(scene: Scene) -> Signs:
    """A milestone that comes again and again with another number is a bar without a drawing: it moves, or it stands."""
    e, last = scene.evidence, scene.evidence.log.last_progress
    kind = STEP_KINDS.get(scene.progression.phase or "")
    if kind is None or scene.silence_s is None or last is None or last.get("bar_kind") or not last.get("milestone"):
        return
    marks = [
        mark
        for mark in e.log.of(last["milestone"])
        if mark.time is not None and mark.label == last.get("rank_label") and mark.phase == scene.progression.phase
    ]
    if len({mark.text for mark in marks}) < LEAST_STEPS:
        return
    times = [mark.time for mark in marks]
    pace = statistics.median((after - before) / NS for before, after in itertools.pairwise(times))
    words = f"{len(marks)} steps “{template(marks[-1].text)[:60]}”, one in {show_duration(pace)}"
    quiet, where = show_duration(scene.silence_s), [marks[-1].ref]
    if scene.silence_s <= max(RECENT_S, CADENCE * pace):
        yield Sign(f"{kind}_bar_moves", f"{words}; the last came {quiet} before the capture", where)
    else:
        yield Sign(f"{kind}_bar_stands", f"{words}; none for {quiet}", where)


def _left(bar: Bar) -> str:
    """Words for the remaining time of a bar."""
    found = eta(bar)
    if found is None:
        return ""
    spread = f" ({show_duration(found.low)} to {show_duration(found.high)})" if found.high > 1.05 * found.low else ""
    return f"; at this pace {show_duration(found.seconds)} remain{spread}"


def _last_time(scene: Scene) -> int | None:
    times = [t for t in (scene.evidence.log.last_time,) if t is not None]
    return max(times, default=None)


def silence(scene: Scene) -> Signs:
    """How long the log is without progress, and whether heartbeats are all that it still says."""
    e, quiet = scene.evidence, scene.silence_s
    beats = scene.facts.value("heartbeats") or 0
    if quiet is not None and quiet > LONG_S:
        yield Sign("long_silence", f"no progress in the log for {show_duration(quiet)}", scene.facts.refs("silence_s"))
    elif quiet is not None and quiet > RECENT_S:
        yield Sign(
            "short_silence",
            f"no progress in the log for {show_duration(quiet)}, which is not yet long",
            scene.facts.refs("silence_s"),
        )
    elif quiet is not None:
        yield Sign(
            "recent_progress", f"the last progress in the log is {show_duration(quiet)} old", scene.facts.refs("silence_s")
        )
    last = e.log.last_progress
    if beats and last is not None:
        first = e.log.first("shm_wait", "shard_wait", "engine_wait") or next(
            (mark for mark in e.log.marks if mark.kind == "heartbeat"), None
        )
        after = [mark for mark in e.log.marks if mark.kind == "progress" and first and mark.order > first.order]
        if after and scene.phase in COMPILING:
            yield Sign(
                "milestones_between_heartbeats",
                f"{len(after)} milestone(s) arrived after the first heartbeat, the last: {after[-1].text[:90]}",
                [after[-1].ref],
            )
        elif beats >= 3 and not after:
            yield Sign("heartbeats_only", f"{beats} heartbeats, and nothing else after the first", scene.facts.refs("heartbeats"))


def cpu_and_memory(scene: Scene) -> Signs:
    """CPU, resident memory and I/O of the workers between two samples."""
    e = scene.evidence
    rows = [row for row in e.processes if not _is_compiler(scene, row)]
    cpu = deltas(rows, "pid", cpu_s)
    rss = deltas(rows, "pid", lambda row: row.get("rss_bytes"))
    read = deltas((row for row in e.io if not _is_compiler(scene, row)), "pid", bytes_read)
    written = deltas(e.io, "pid", lambda row: row.get("wchar_bytes"))
    own = {p.pid for p in scene.processes.of_role("worker", "engine", "frontend", "other")}
    workers = {p.pid for p in scene.processes.workers} or own
    if cpu:
        yield from _cpu(cpu, workers, scene)
    if rss:
        moved = [
            d for d in rss.values() if abs(d.change) > max(MOVED_BYTES, min(RSS_MOVED_BYTES, RSS_MOVED_SHARE * max(d.first, 1)))
        ]
        if moved:
            most = max(moved, key=lambda d: abs(d.change))
            if most.change > RSS_MOVED_BYTES:
                yield Sign("rss_grows", f"resident memory of pid {most.key} grows", [ref(most.rows[1])])
            yield Sign(
                "rss_moves",
                f"resident memory of pid {most.key} moved by {most.change / 2**20:+,.0f} MiB between two samples",
                [ref(most.rows[1])],
            )
        else:
            yield Sign(
                "rss_flat",
                f"resident memory did not move in {len(rss)} process(es) between two samples",
                [ref(_any(rss).rows[1])],
            )
    if read:
        total = sum(max(0, d.change) for d in read.values())
        moving = [d for d in read.values() if d.per_s > READ_PER_S]
        if moving:
            yield Sign(
                "reads_move",
                f"{total / 2**30:,.2f} GiB were read between two samples"
                + (f" ({total / span_s(read) / 2**20:,.0f} MiB/s)" if _any(read).gap_known else ""),
                [ref(moving[0].rows[1])],
                [r for d in moving if (r := scene.processes.rank_of(d.key)) is not None],
            )
        elif not any(d.change > RSS_MOVED_BYTES for d in rss.values()):  # mapped files are read without a call that counts
            yield Sign("reads_flat", "no file was read between two samples", [ref(_any(read).rows[1])])
    if written and all(d.change == 0 for d in written.values()):
        yield Sign("writes_flat", "nothing was written between two samples", [ref(_any(written).rows[1])])
    if not cpu and not rss and not read and not scene.evidence.sizes:
        yield Sign("one_sample", "there is one sample only: take a second one, at least 10 s later", [])


def _is_compiler(scene: Scene, row) -> bool:
    process = scene.processes.by_pid.get(row.get("pid"))
    return process is not None and process.role in ("compiler", "helper")


def _any(found: dict):
    return next(iter(found.values()))


def _cpu(cpu: dict, workers: set, scene: Scene) -> Signs:
    chosen = {pid: d for pid, d in cpu.items() if pid in workers} or cpu
    busy = [d for d in chosen.values() if d.per_s >= BUSY_CORES]
    share = max(d.per_s for d in chosen.values())
    where = [ref(d.rows[1]) for d in list(chosen.values())[:2]]
    gap = "" if _any(chosen).gap_known else ", if 30 s lie between the samples"
    if busy:
        yield Sign(
            "cpu_busy",
            f"{len(busy)} of {len(chosen)} process(es) burn CPU, up to {share:.2f} cores{gap}",
            where,
            [r for d in busy if (r := scene.processes.rank_of(d.key)) is not None],
        )
    if all(d.per_s <= FLAT_CORES for d in cpu.values()):
        yield Sign(
            "cpu_flat",
            f"all of {len(cpu)} process(es) are nearly without CPU time between two samples ({share:.3f} cores{gap})",
            where,
        )


def sizes(scene: Scene) -> Signs:
    """Folders that ought to grow."""
    rows = [row for row in scene.evidence.sizes if not is_compile_cache(row["path"])]
    grown = deltas(rows, "path", lambda row: row.get("size_bytes"))
    if not grown:
        return
    most = max(grown.values(), key=lambda d: d.change)
    if most.change > 0:
        yield Sign("size_grows", f"{most.key} grew by {most.change / 2**20:,.0f} MiB between two samples", [ref(most.rows[1])])
    else:
        yield Sign(
            "size_flat", f"{most.key} did not grow between two samples ({most.last / 2**20:,.0f} MiB)", [ref(most.rows[1])]
        )


def compiling(scene: Scene) -> Signs:
    """Compilers at work."""
    running = scene.processes.of_role("compiler")
    if running:
        yield Sign(
            "compilers_run",
            f"{len(running)} compiler process(es) run: {running[0].title[:60]}",
            [ref(p.rows[-1], p.title[:120]) for p in running[:2] if p.rows],
        )
    elif scene.facts.value("compilers_running") == 0:
        yield Sign("no_compilers", "no compiler process is alive", [])


def metrics(scene: Scene) -> Signs:
    """Serving: tokens that stand still while requests run."""
    counters = [row for row in scene.evidence.counters if row["source"] == "metrics"]
    tokens = deltas(
        [
            row
            for row in counters
            if "generation_tokens_total" in row["name"]
            or "tokens_predicted_total" in row["name"]
            or "tgi_request_generated_tokens_sum" in row["name"]
        ],
        "name",
        lambda row: row["value"],
    )
    running = [
        row
        for row in counters
        if any(
            word in row["name"]
            for word in ("num_requests_running", "num_running_reqs", "requests_processing", "tgi_batch_current_size")
        )
    ]
    active = max((row["value"] for row in running), default=0)
    if not tokens:
        return
    most = max(tokens.values(), key=lambda d: d.change)
    if most.change > 0:
        yield Sign("tokens_grow", f"generated tokens grew by {most.change:g} between two samples", [ref(most.rows[1])])
    elif active > 0:
        yield Sign(
            "tokens_frozen", f"{active:g} request(s) run, and no token was generated between two samples", [ref(most.rows[1])]
        )


def phase(scene: Scene) -> Signs:
    """The phase itself, as a weak sign."""
    if scene.phase:
        yield Sign(f"phase_{scene.phase}", f"the launch is in phase {scene.phase}", [])
    if scene.progression.source == "none":
        yield Sign("phase_unknown", "no log or stack tells the phase", [])


def requests(scene: Scene) -> Signs:
    """A request that was taken and never finished."""
    e = scene.evidence
    for code, name, said in (
        ("rpc_timeout", "rpc_timeout", "the engine waited for its workers in vain"),
        ("watchdog", "engine_watchdog", "the server's watchdog fired"),
        ("hang_detected", "engine_watchdog", "the server says that it hangs"),
    ):
        if mark := e.log.last(code):
            yield Sign(name, f"{said}: {mark.text[:120]}", [mark.ref])
    taken = e.log.of("request", "prefill_batch")
    stats = e.log.of("engine_stats", "decode_batch")
    finished = [mark for mark in taken if "status" in mark.fields or DONE.search(mark.text)]
    finished += [mark for mark in stats if (mark.fields.get("tokens_per_s") or 0) > 0]
    started = [mark for mark in taken if mark not in finished]
    idle = [mark for mark in stats if mark.fields.get("running") and mark.fields.get("tokens_per_s") == 0]
    last = stats[-1] if stats else None
    answered = max((mark.order for mark in taken if "status" in mark.fields), default=-1)
    if last and (last.fields.get("running") or 0) > 0 and last.order > answered and (scene.silence_s or 0) > LONG_S:
        yield Sign(
            "request_stuck",
            f"{last.fields['running']} request(s) ran in the last line that counts them, "
            f"{show_duration(scene.silence_s)} ago, and none was answered since",
            [last.ref],
        )
        return
    if len(idle) >= 2 and idle[-1].order > max((mark.order for mark in finished), default=-1):
        yield Sign("request_stuck", f"requests run and no token comes: {idle[-1].text[:120]}", [idle[-1].ref])
        return
    if started and started[-1].order > max((mark.order for mark in finished), default=-1):
        quiet = scene.silence_s
        if quiet is None or quiet > RECENT_S:
            after = f", {show_duration(quiet)} ago" if quiet is not None else ""
            yield Sign(
                "request_stuck", f"a request was taken{after} and did not finish: {started[-1].text[:100]}", [started[-1].ref]
            )


MAKERS = (bars, steps, silence, cpu_and_memory, sizes, compiling, metrics, phase, requests)
