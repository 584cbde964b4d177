"""Progress that the log shows, and its absence: bars, steps, silence, heartbeats, the phase itself."""

from __future__ import annotations

import itertools
import re
import statistics

from kit.analyse.launches.templates import template
from kit.analyse.verdict.eta import eta
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.log_digest import Bar, Mark
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.serving import OTHER_SOURCES
from kit.clock import NS, show_duration
from kit.parse.grammar import libraries
from kit.parse.grammar_file import PHASES
from kit.schema import Row
from kit.words import count_of, short

COMPILING = ("post_load", "compile", "graph_capture")
"""Phases in which a launch compiles."""
PHASES_OF_BAR = {
    "weights": ("weights",),
    "graph": ("graph_capture",),
    "download": ("download",),
    "jit": ("compile", "graph_capture", "warmup", "post_load", "serving"),
    "data": ("data_prep",),
}
"""Phases in which a bar of each kind counts: one of an earlier phase that was left behind is no evidence of a stall.

A request of a new shape compiles while it is served.
"""
STEP_KINDS = {
    **{"download": "download", "weights": "weights", "graph_capture": "graph"},
    **{"compile": "jit", "post_load": "jit", "warmup": "jit", "data_prep": "data"},
}
MOVES = tuple(f"{kind}_bar_moves" for kind in PHASES_OF_BAR)
STANDS = tuple(f"{kind}_bar_stands" for kind in PHASES_OF_BAR)
WEIGHED_PHASES = (
    *("launch", "download", "dist_init", "weights", "post_load", "compile", "graph_capture", "warmup", "serving"),
    *("data_prep", "train_step"),
)
"""Phases that speak for or against a class."""


MOST_AT_ONCE = 16
"""Files that are fetched side by side, each with a bar of its own (huggingface_hub: 8 threads)."""
LEAST_FRAMES = 3
"""Frames of a bar without a stamp, at the log's end, that show it moving."""


def _item_s(bar: Bar) -> float | None:
    """Seconds that an item of a bar takes: as printed, else elapsed time by items; a download's are not alike."""
    if bar.kind == "download":
        return None
    return bar.s_per_item or (bar.elapsed_s / bar.n if bar.elapsed_s and bar.n else None)


def _still_s(bar: Bar, scene: Scene) -> float | None:
    """Seconds for which a bar has not moved, None where no clock tells."""
    now = scene.evidence.run.captured_ns if scene.evidence.run.captured_known else scene.log.last_time
    still = (now - bar.moved_time) / NS if now is not None and bar.moved_time is not None else scene.silence_s
    at_end = scene.log.records - bar.order <= LEAST_FRAMES
    if bar.elapsed_s is None or not bar.points:
        return still if still is not None or bar.moves + 1 < LEAST_FRAMES or not at_end else 0.0
    own = bar.elapsed_s - bar.points[-1][1]  # a bar has a clock of its own
    frames = sum(len(other.points) for other in scene.log.bars[-MOST_AT_ONCE:] if other.kind == bar.kind == "download")
    drawn = max(frames, len(bar.points)) >= LEAST_FRAMES and at_end
    return max(still, own) if still is not None else own if drawn or own > scene.limits["recent_s"] else None


@rule(*MOVES, *STANDS, "graph_bar_never_moved", "first_request_compiles", needs=("log",), moving=MOVES)
def bars(scene: Scene) -> Signs:
    """The bar that was drawn last moved a moment ago, or stands for many times its own pace."""
    bar = max(scene.log.bars, key=lambda bar: bar.order, default=None)
    if bar is None or bar.done:
        return
    kind = "data" if bar.kind == "other" and bar.phase == "data_prep" else bar.kind
    if scene.phase not in PHASES_OF_BAR.get(kind, ()):
        return
    still, item = _still_s(bar, scene), _item_s(bar)
    if still is None or not bar.n and not scene.evidence.run.captured_known:
        return  # where a bar begins is no sign of its moving
    count = _count(bar)
    if still <= max(scene.limits["recent_s"], scene.limits["bar_cadence"] * (item or 0.0)):
        when = (
            f"was at {count} {show_duration(still)} before the capture"
            if scene.evidence.run.captured_known and still >= 0
            else f"at {count} is the log's last word"
        )
        claim = f"the {kind} bar {when}{_left(bar)}"
        yield Sign(f"{kind}_bar_moves", claim, [bar.ref])
        if scene.phase == "serving":
            yield Sign("first_request_compiles", "a request of a new shape waits for its kernels", [bar.ref])
    elif bar.n:
        pace = f"; an item took {show_duration(item)} before" if item else ""
        claim = f"the {kind} bar has been at {count} for {show_duration(still)}{pace}"
        yield Sign(f"{kind}_bar_stands", claim, [bar.ref])
    elif bar.kind == "graph" and not scene.fact("compilers_running"):  # else the first graph waits for its kernels
        claim = f"the graph bar began {show_duration(still)} ago and is still at {count}"
        yield Sign("graph_bar_never_moved", claim, [bar.ref])


def _count(bar: Bar) -> str:
    """Where a bar stands: items, or gibibytes where it counts bytes by the hundred million."""
    scale, unit = (2**30, " GiB") if max(bar.n, bar.total or 0) >= 1e8 else (1, "")
    done = f"{bar.n / scale:.3g}" if unit else f"{bar.n:g}"
    return (
        f"{done}/{bar.total / scale:.3g}{unit}" if bar.total and unit else f"{done}/{bar.total:g}" if bar.total else done + unit
    )


def _left(bar: Bar) -> str:
    """Words for the remaining time of a bar."""
    rest = eta(bar)
    if rest is None:
        return ""
    spread = f" ({show_duration(rest.low)} to {show_duration(rest.high)})" if rest.high > 1.05 * rest.low else ""
    return f"; at this pace {show_duration(rest.seconds)} remain{spread}"


@rule(*MOVES, *STANDS, needs=("log",), moving=MOVES)
def steps(scene: Scene) -> Signs:
    """A milestone that comes again and again with another number is a bar without a drawing: it moves, or it stands."""
    last, run = scene.log.last_progress, scene.evidence.run
    if last is None or last.get("bar_kind") or not last.get("milestone"):
        return
    # A warm-up that builds or tunes kernels does so in steps of that work.
    phase = last.get("phase") if scene.phase == "warmup" else scene.phase
    kind = STEP_KINDS.get(phase or "")
    marks = [mark for mark in scene.log.of(last["milestone"]) if kind and mark.label == last.get("rank_label")]
    marks = [mark for mark in marks if mark.phase == phase]
    counted = marks[-1].fields.get("items") if marks else None
    if len({mark.text for mark in marks}) < (LEAST_FRAMES if counted else scene.limits["least_steps"]):
        return
    if counted and marks[-1].fields.get("item") == counted:
        return  # it is through
    words = f"{len(marks)} steps “{short(template(marks[-1].text), 60)}”"
    said = _said_alike(marks)
    moved = len(said) > 1 and len(said[-1]) <= (LEAST_FRAMES - 1) * statistics.median(map(len, said[:-1]))
    if scene.silence_s is None and not run.captured_known and moved and scene.log.records - marks[-1].order <= LEAST_FRAMES:
        yield Sign(f"{kind}_bar_moves", f"{words}; the last is the log's last word", [marks[-1].ref])
    times = [mark.time for mark, *_ in said if mark.time is not None]
    if scene.silence_s is not None and not times and scene.silence_s <= scene.limits["recent_s"]:
        yield Sign(f"{kind}_bar_moves", f"{words}; the last came while it was recorded", [marks[-1].ref])
    if scene.silence_s is None or len(times) < LEAST_FRAMES or times[0] == times[-1]:
        return  # of one time they have it from a line far above, which tells nothing of when they came
    pace = statistics.median((after - before) / NS for before, after in itertools.pairwise(times))
    still = scene.silence_s + ((marks[-1].time or times[-1]) - times[-1]) / NS
    words, quiet = f"{words}, one in {show_duration(pace)}", show_duration(still)
    if still <= max(scene.limits["recent_s"], scene.limits["bar_cadence"] * pace):
        yield Sign(f"{kind}_bar_moves", f"{words}; the last came {quiet} before the capture", [marks[-1].ref])
    else:
        yield Sign(f"{kind}_bar_stands", f"{words}; none for {quiet}", [marks[-1].ref])


def _said_alike(marks: list[Mark]) -> list[list[Mark]]:
    """Marks in runs of one number each: a number that is said again is no step."""
    numbers = len({str(mark.fields) for mark in marks}) > 1
    runs = itertools.groupby(marks, key=lambda mark: str(mark.fields) if numbers else mark.text)
    return [list(same) for _, same in runs]


@rule("long_silence", "short_silence", "recent_progress", needs=("log",))
def silence(scene: Scene) -> Signs:
    """How long the log is without progress."""
    seconds, refs = scene.silence_s, scene.facts.refs("silence_s")
    if seconds is None:
        return
    quiet = show_duration(seconds)
    if seconds > scene.limits["long_silence_s"]:
        yield Sign("long_silence", f"no progress in the log for {quiet}", refs)
    elif seconds > scene.limits["recent_s"]:
        yield Sign("short_silence", f"no progress in the log for {quiet}, which is not yet long", refs)
    else:
        yield Sign("recent_progress", f"the last progress in the log is {quiet} old", refs)


@rule("heartbeats_only", "milestones_between_heartbeats", needs=("log",))
def heartbeats(scene: Scene) -> Signs:
    """Whether notices are all that the log still says."""
    log, beats = scene.log, scene.fact("heartbeats") or 0
    first = log.first("shm_wait", "shard_wait", "engine_wait") or next((m for m in log.marks if m.kind == "heartbeat"), None)
    if not beats or first is None or log.last_progress is None:
        return
    after = [mark for mark in log.marks if mark.kind == "progress" and mark.order > first.order]
    if after and scene.phase in COMPILING:
        claim = f"{count_of(len(after), 'milestone')} after the first heartbeat, the last: {short(after[-1].text, 90)}"
        yield Sign("milestones_between_heartbeats", claim, [after[-1].ref])
    elif (
        beats == 1
        and scene.phase in COMPILING
        and scene.silence_s is None
        and None not in (first.time, log.last_progress["time"])
    ):
        since = (first.time - log.last_progress["time"]) / NS
        if since <= scene.limits["recent_s"] and log.records_after(first) <= LEAST_FRAMES:
            claim = f"the log ends {show_duration(since)} after its last milestone, on the first heartbeat"
            yield Sign("milestones_between_heartbeats", claim, [first.ref])
    elif beats >= scene.limits["heartbeats_alone"] and not after:
        claim = f"{count_of(beats, 'heartbeat')}, and nothing else since the first"
        yield Sign("heartbeats_only", claim, scene.facts.refs("heartbeats"))


@rule("says_it_stands", needs=("log",))
def own_watchdog(scene: Scene) -> Signs:
    """The log ends on its own count of the time for which nothing has moved."""
    mark = scene.log.last("stands")
    if mark is None or scene.log.records_after(mark) > LEAST_FRAMES:
        return
    seconds = mark.fields.get("seconds") or 60 * (mark.fields.get("minutes") or 0)
    if seconds > scene.limits["long_silence_s"]:
        yield Sign("says_it_stands", f"it says itself that nothing moves: {short(mark.text, 120)}", [mark.ref])


@rule("asks", needs=("log",))
def question(scene: Scene) -> Signs:
    """The last that a process says is a question, and nobody answers it; others may wait for that process meanwhile."""
    mark = scene.log.last("asks")
    if mark is None:
        return
    since = [other for other in scene.log.marks if other.order > mark.order]
    waits = sum(other.kind == "heartbeat" for other in since)
    if not any(other.kind == "progress" for other in since) and scene.log.records_after(mark) - waits <= LEAST_FRAMES:
        yield Sign("asks", f"it asks, and nobody answers: {short(mark.text, 120)}", [mark.ref])


@rule(*(f"phase_{phase}" for phase in WEIGHED_PHASES), "phase_unknown")
def phase(scene: Scene) -> Signs:
    """The phase itself, as a weak sign; that nothing tells it decides what is asked for next."""
    if scene.phase in WEIGHED_PHASES:
        yield Sign(f"phase_{scene.phase}", f"the launch is in phase {scene.phase}")
    if scene.progression.source == "none":
        yield Sign("phase_unknown", "neither log nor stacks show the phase")


_RATE = re.compile(
    r"\b(?:[KMGT]?i?(?:B|bps|b)/s|[KMGT]?bps|(?:tokens?|tok|it|items|samples|steps|images|req(?:uest)?s?)/s|busbw|throughput)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
WORKING = ("ready", "serving", "train_step")
"""Phases in which a program does what it is for."""


@rule("figures_repeat", needs=("log",))
def figures(scene: Scene) -> Signs:
    """A program that no grammar knows prints rates again and again, new ones each time: a benchmark or a loop that works."""
    known = scene.log.server is not None and scene.log.server not in libraries() or scene.log.of("train_step")
    if known or scene.fact("exited") or scene.has(OTHER_SOURCES):
        return
    by_shape: dict[str, list[Row]] = {}
    for row in scene.log.tail:
        launching = row.get("phase") in PHASES and row["phase"] not in WORKING  # how fast weights arrive is no work yet
        told = row.get("milestone") == "work_item" or _RATE.search(row["text"])
        if not launching and told and any(float(figure) for figure in _FIGURE.findall(row["text"])):
            by_shape.setdefault(_FIGURE.sub("#", row["text"]), []).append(row)
    rows = max(by_shape.values(), key=len, default=[])
    if len({row["text"] for row in rows}) >= scene.limits["figures_repeated"]:
        claim = f"the log ends on rates that change from line to line, the last: {short(rows[-1]['text'], 100)}"
        yield Sign("figures_repeat", claim, [ref(rows[-1], rows[-1]["text"])])
