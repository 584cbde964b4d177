"""Phases of each rank from milestones and bars; which rank is behind, and by how much."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict import reporter
from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.failures import cause, survived
from kit.analyse.verdict.flight_recorder import analysed
from kit.analyse.verdict.log_digest import Bar, LogDigest, Mark
from kit.analyse.verdict.processes import Processes
from kit.analyse.verdict.stacks import phase_of_frames
from kit.analyse.verdict.thresholds import thresholds
from kit.clock import NS
from kit.parse.grammar import codes, libraries, metric_names, traits
from kit.parse.grammar_file import PHASES
from kit.parse.records import global_rank
from kit.schema import Row
from kit.untrusted import whole_number

ORDER = {phase: number for number, phase in enumerate(PHASES)}
INTERLEAVED = frozenset(("weights", "post_load", "compile", "graph_capture"))
"""Phases that alternate, and that draft models repeat: among them a launch may go back, elsewhere it may not."""
BAR_PHASE = {"weights": "weights", "graph": "graph_capture", "download": "download", "jit": "compile"}

LOADING = re.compile(r"(?i)loading model|model \S* ?is (?:currently |still )?loading")
"""What llama.cpp's server and Hugging Face's endpoints answer with 503 until the weights are read."""

TRAINS = re.compile(r"(?i)optimizer|data_parallel|fsdp")
"""Groups that only training has: gradients and parameters are gathered there (Megatron-LM, FSDP)."""


BY_WORD_OF_MOUTH = {("ready", "serving"), *(("launch", phase) for phase in ORDER)}
"""Phases that the evidence shows, with those that the reporter may name instead: what it is silent about."""


@dataclass
class Step:
    """Entry to a phase."""

    phase: str
    order: int
    time: int | None
    ref: dict


@dataclass
class Progression:
    """Phases of all ranks."""

    # entries to phases, in the order of the log; key None holds those that concern all ranks
    by_rank: dict[int | None, list[Step]] = field(default_factory=dict)
    phase: str | None = None  # phase of the rank that is furthest behind
    lagging: dict[int, str] = field(default_factory=dict)  # ranks that are behind the others, with the phase each is in
    lag_s: float | None = None  # how long ago the others passed the milestone that the laggards lack
    lag_ref: dict | None = None  # the milestone of the others
    source: str = "none"  # `log`, `stacks`, `probe`, `counters` or `none`


def progression(evidence: Evidence, processes: Processes) -> Progression:
    """Work out the phases of each rank."""
    found = Progression()
    marks = _since_restart(evidence.log.marks)
    begin = marks[0].order if marks and len(marks) < len(evidence.log.marks) else 0  # what stands before a restart is over
    reason = cause(evidence.log)
    if reason is not None and reason.role == "initiating":  # what a start script calls done after it was not
        marks = [mark for mark in marks if mark.role != "finished" or mark.order < reason.order]
    ranks = sorted(_ranks_seen(marks, processes))
    steps = _steps(
        marks,
        [bar for bar in evidence.log.bars if bar.order >= begin],
        ranks,
        processes,
        _own_codes(marks, ranks, processes, evidence),
        _only_probed(marks, evidence),
    )
    failed = _failed_at(marks, processes, evidence)
    for rank in ranks or [None]:
        until = failed.get(rank, evidence.log.records)
        found.by_rank[rank] = _walk([step for owner, step in steps if owner == rank or owner is None and step.order < until])
    if any(found.by_rank.values()):
        found.source = "log"
        current = {rank: walked[-1].phase for rank, walked in found.by_rank.items() if walked}
        found.phase = min(current.values(), key=ORDER.__getitem__)
        if ORDER[found.phase] < ORDER["ready"] and _answers(evidence) and not evidence.log.of("bind_error"):
            found.phase, found.source = "ready", "probe"
        if found.phase == "launch" and at_rest(evidence):
            found.phase = "ready"
        elif (failed_in := _failed_in(evidence)) and ORDER[found.phase] < min(ORDER[failed_in], ORDER["ready"]):
            found.phase = failed_in
        if says_it_works(evidence):
            found.phase = "ready"
        if found.phase in ("launch", "compile") and _by_collective(evidence) == "dist_init" and _trains(evidence):
            found.phase = "dist_init"  # a training builds its kernels before its ranks meet
        if found.phase == "compile" and _captures(evidence.log.bars, begin):
            found.phase = "graph_capture"
        _lag(found, evidence, marks, ranks, processes)
    else:
        found.phase, found.source = _without_log(evidence)
    if (said := reporter.place(evidence)) and (found.phase, said["phase"]) in BY_WORD_OF_MOUTH:
        found.phase, found.source = said["phase"], "words"
    return found


def _captures(bars: list[Bar], begin: int) -> bool:
    """Whether a capture of graphs is drawn that was begun and not finished, and a bar of its kernels was drawn within it."""
    graph = next((bar for bar in reversed(bars) if bar.kind == "graph" and bar.order >= begin), None)
    return graph is not None and not graph.done and any(bar.kind == "jit" and bar.first_order > graph.first_order for bar in bars)


def _since_restart(marks: list[Mark]) -> list[Mark]:
    """Marks of the last start only: a restart loop begins anew."""
    again = [number for number, mark in enumerate(marks) if mark.fields.get("start")]
    return marks[again[-1] :] if again else marks


def _failed_at(marks: list[Mark], processes: Processes, evidence: Evidence) -> dict[int | None, int]:
    """Where ranks hit an exception that they did not survive: what others print for all after that is not about them."""
    hit = [mark for mark in marks if mark.role == "header" and mark.code != "traceback" and not survived(evidence.log, mark)]
    return {rank: mark.order for mark in reversed(hit) if (rank := rank_of(mark, processes)) is not None}


def rank_of(mark: Mark, processes: Processes) -> int | None:
    """Global rank of a mark, by its number, its label or its pid."""
    if mark.rank is not None:
        return mark.rank
    if mark.label:
        rank = global_rank(mark.label, processes.sizes)
        if rank is not None:
            return rank
    return processes.rank_of(mark.pid)


def _ranks_seen(marks: list[Mark], processes: Processes) -> set[int]:
    return {rank for mark in marks if (rank := rank_of(mark, processes)) is not None}


def _steps(
    marks: list[Mark], bars: list[Bar], ranks: list[int], processes: Processes, own: set[str], probed: bool
) -> list[tuple[int | None, Step]]:
    """Entries to phases with the rank that each concerns; None where it concerns all."""
    steps: list[tuple[int | None, Step]] = []
    bind_error = max((mark.order for mark in marks if mark.code == "bind_error"), default=-1)
    for mark in marks:
        phase = mark.phase
        if phase not in ORDER or mark.code == "probe_request":
            continue
        if phase in ("ready", "serving") and mark.order < bind_error:
            phase = "warmup"  # "Application startup complete." before the bind failed: it never served
        if phase == "serving" and probed:
            phase = "ready"
        owner = rank_of(mark, processes) if mark.code in own else None
        steps.append((owner, Step(phase, mark.order, mark.time, mark.ref)))
    weights_end = any(mark.code == "weights_end" and mark.code in own for mark in marks)
    for bar in bars:
        phase = BAR_PHASE.get(bar.kind, bar.phase)
        if phase in ORDER:
            steps.append((None, Step(phase, bar.first_order, bar.time, bar.ref)))
        if bar.kind == "weights" and bar.done and not weights_end:
            steps.append((None, Step("post_load", bar.order, bar.time, bar.ref)))
    return sorted(steps, key=lambda pair: pair[1].order)


def _only_probed(marks: list[Mark], evidence: Evidence) -> bool:
    """Whether the observer's own probes are all the requests that the server has seen: then it is ready, not yet serving."""
    answered = sum(1 for row in evidence.probes if row.get("purpose") == "generate" and row.get("http_status"))
    asked = sum(1 for mark in marks if mark.code == "request" and "status" in mark.fields)
    return 0 < asked <= answered


def _own_codes(marks: list[Mark], ranks: list[int], processes: Processes, evidence: Evidence) -> set[str]:
    """Codes that each rank prints for itself in this log.

    The grammar says which those are in general; where rank 0 alone prints one among three or more ranks, this version of
    the server prints it once, and it speaks for all. Newer vLLM does so with any number of ranks.
    """
    least = traits(evidence.log.server, evidence.run.knowledge).once_from_ranks
    known = codes("per_rank", evidence.log.server, evidence.run.knowledge)
    printed: dict[str, set] = {}
    for mark in marks:
        printed.setdefault(mark.code, set()).add(rank_of(mark, processes))
    return {
        code
        for code, owners in printed.items()
        if code in known and None not in owners and not (owners == {min(ranks, default=0)} and len(ranks) >= least)
    }


def _walk(steps: list[Step]) -> list[Step]:
    """Keep the steps that change the phase in a way a launch can go."""
    walked: list[Step] = []
    for step in steps:
        if not walked:
            walked.append(step)
            continue
        now = walked[-1].phase
        if step.phase == now:
            continue
        back = step.phase in INTERLEAVED and now in INTERLEAVED
        # vLLM says "Starting to load model" first, and fetches the files within the loading.
        fetches = (now, step.phase) == ("weights", "download")
        if ORDER[step.phase] > ORDER[now] or back or fetches:
            walked.append(step)
    return walked


def _lag(found: Progression, evidence: Evidence, marks: list[Mark], ranks: list[int], processes: Processes) -> None:
    """Find ranks that lack a milestone which the others passed some time ago."""
    if len(ranks) < 2:
        return
    repeated = evidence.log.servers.get("ray", 0) and any("repeated" in row["raw"] for row in evidence.log.tail)
    own = _own_codes(marks, ranks, processes, evidence)
    seen_by_code: dict[str, dict[int, list[Mark]]] = {}
    placed = [(mark, rank_of(mark, processes)) for mark in marks if mark.phase in ORDER]
    for mark, rank in placed:
        if mark.code in own and rank is not None:
            seen_by_code.setdefault(mark.code, {}).setdefault(rank, []).append(mark)
    now = evidence.run.captured_ns if evidence.run.captured_known else evidence.log.last_time
    # A server that says ready has waited for all its ranks: who wrote less before that is not late.
    ready = max((mark.order for mark in marks if mark.phase == "ready"), default=-1)
    # A log that ends within a record was cut there: it may lack what other ranks wrote of its last milestone.
    end = evidence.log.tail[-1] if evidence.log.tail else None
    cut = end is not None and not end["text"].strip() and not end.get("bar_kind")
    latest = max((mark.order for mark in marks), default=-1)
    for seen in reversed(list(seen_by_code.values())):
        most = max(len(found_marks) for found_marks in seen.values())
        ahead = [rank for rank in ranks if len(seen.get(rank, ())) == most]
        last = max(mark.order for found_marks in seen.values() for mark in found_marks)
        place = ORDER[seen[ahead[0]][-1].phase]
        beyond = {rank for mark, rank in placed if mark.order > last and ORDER[mark.phase] > place}
        behind = [rank for rank in ranks if len(seen.get(rank, ())) < most and rank not in beyond]
        if not behind or len(ahead) < len(behind) or repeated or last < ready or (cut and last == latest):
            continue
        passed = max((mark.time for rank in ahead for mark in seen[rank] if mark.time is not None), default=None)
        since = (now - passed) / NS if now is not None and passed is not None else None
        if since is not None and since < thresholds(evidence.run.knowledge)["lag_s"]:
            continue
        found.lagging = {rank: found.by_rank[rank][-1].phase if found.by_rank.get(rank) else "launch" for rank in behind}
        found.lag_s, found.lag_ref = since, seen[ahead[-1]][-1].ref
        return


HEALTH = re.compile(r"/(?:v\d/)?(?:health(?:z|_generate|/ready|/live)?|readyz?|ping|is_ready)/?$")


def answered_probes(log: LogDigest) -> list[Mark]:
    """Questions after its health that a server answered with 200, by its own log."""
    return [
        mark
        for mark in log.of("probe_request")
        if mark.fields.get("status") == 200 and HEALTH.search(str(mark.fields.get("path", "")))
    ]


def was_up(log: LogDigest) -> list[Mark]:
    """What shows that a log begins in the middle, of a server that was up: its probes are answered from the first line on."""
    answered = answered_probes(log)
    begun = min((mark.order for mark in log.marks if mark.phase in ORDER or mark.kind == "error"), default=log.records)
    moved = log.bars and log.bars[0].first_order < answered[0].order if answered else True
    return [] if moved or answered[0].order > min(begun, LEADING) else answered[:1]


def says_it_works(evidence: Evidence, claim: str = "starts") -> Row | None:
    """The claim that it started, or works, where nothing recorded stands against it: no error, no phase before the last ones."""
    phases = [*(mark.phase for mark in evidence.log.marks), *(bar.phase for bar in evidence.log.bars)]
    furthest = max((ORDER[phase] for phase in phases if phase in ORDER), default=None)
    against = claim == "starts" and furthest is not None and furthest not in range(ORDER["graph_capture"], ORDER["ready"])
    errors = claim == "starts" and any(mark.kind == "error" for mark in evidence.log.marks)
    return None if against or errors else reporter.claims(evidence).get(claim)


LEADING = 3
"""Lines of a log among which an answered probe shows that it begins in the middle."""


def at_rest(evidence: Evidence) -> dict | None:
    """The line that shows a server ready which loads a model only when it is asked for one, and has not been asked yet."""
    log = evidence.log
    if not traits(log.server, evidence.run.knowledge).rests:
        return None
    busy = any(ORDER.get(mark.phase or "", 0) > 0 for mark in log.marks) or log.bars or log.of("bind_error")
    answers = [mark for mark in log.of("probe_request") if "status" in mark.fields]
    served = answers or log.of("port_open") and log.of("serve_begin")
    return served[0].ref if served and not busy else None


def _answers(evidence: Evidence) -> bool:
    """Whether a real request was answered: the launch is over then, whatever a log that broke off says."""
    return any(row.get("purpose") == "generate" and row.get("tokens") for row in evidence.probes)


def _without_log(evidence: Evidence) -> tuple[str | None, str]:
    """Phase where no log speaks: from an answered request, else from stacks."""
    if _answers(evidence):
        return "ready", "probe"
    if served(evidence):
        return "serving", "counters"
    if was_up(evidence.log) and not at_rest(evidence):
        return "serving", "log"
    phase = phase_of_frames(evidence.stacks, evidence.run.knowledge) or _failed_in(evidence) or _by_collective(evidence)
    if phase is None and (fired := evidence.log.first("watchdog")) and not fired.fields.get("soft"):
        phase = "serving"  # it watches over batches alone
    if phase is not None:
        return phase, "stacks"
    if any(row["source"] == "flight_recorder" and TRAINS.search(row["communicator"] or "") for row in evidence.collectives):
        return "train_step", "counters"
    if any(row.get("reason") == "Unhealthy" and re.search(r"statuscode: 4\d\d", row["text"]) for row in evidence.events):
        return "serving", "probe"  # it answers, only not on that path
    if any(row.get("http_status") == 503 and LOADING.search(row.get("body") or "") for row in evidence.probes):
        return "weights", "probe"
    if any(row.get("purpose") in ("health", "models") and row.get("http_status") == 200 for row in evidence.probes):
        return "ready", "probe"
    return "launch", "none"


def _failed_in(evidence: Evidence) -> str | None:
    """Phase that the traceback of the first failure tells, else the last traceback; a server does no training."""
    began = cause(evidence.log)
    frames = evidence.log.traces.get(began.order) if began is not None else None
    phase = phase_of_frames(frames or evidence.log.traced, evidence.run.knowledge)
    return phase if _trains(evidence) or phase not in ("train_step", "data_prep") else None


def _by_collective(evidence: Evidence) -> str | None:
    """Phase that a collective which timed out tells: ranks join by the first ones, the later ones are those of work."""
    mark, broken = evidence.log.first("collective_timeout"), analysed(evidence)
    number = whole_number(mark.fields.get("seq") if mark else broken and broken["count"])
    if number is None or number < 0:
        return None
    if number <= thresholds(evidence.run.knowledge)["first_collectives"]:
        return "dist_init"
    return "train_step" if _trains(evidence) else "serving"


def _trains(evidence: Evidence) -> bool:
    """Whether no server wrote the log."""
    return evidence.log.server is None or evidence.log.server in libraries()


def served(evidence: Evidence) -> dict | None:
    """Where the server's own counters show that it has served: tokens were generated, requests run; None where nothing does."""
    words = [name for what in ("tokens", "running") for name in metric_names(what, evidence.run.knowledge)]
    for row in evidence.counters:
        if row["source"] == "metrics" and row["value"] > 0 and any(word in row["name"] for word in words):
            return ref(row, f"{row['name']} {row['value']:g}")
    return None
