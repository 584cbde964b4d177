"""Facts that the logs tell."""

from __future__ import annotations

import re
import signal

from kit.analyse.verdict import orchestrator_ends
from kit.analyse.verdict.collective_counts import largest, settled
from kit.analyse.verdict.deltas import deltas
from kit.analyse.verdict.endings import outliving
from kit.analyse.verdict.eta import eta
from kit.analyse.verdict.evidence import Evidence, ref
from kit.analyse.verdict.failures import ENDING, cause, closes, first_error, of_a_client, over_time, worked_after
from kit.analyse.verdict.flight_recorder import analysed
from kit.analyse.verdict.log_digest import STEPS, Bar, log_of
from kit.analyse.verdict.phases import Progression, answered_probes, at_rest, rank_of, says_it_works, served, was_up
from kit.analyse.verdict.processes import Processes, argument_fields
from kit.analyse.verdict.rank_counters import all_joined
from kit.analyse.verdict.thresholds import thresholds
from kit.clock import NS
from kit.parse.grammar import lives_on, traits
from kit.reading import Capture
from kit.schema import Row
from kit.untrusted import signal_of, whole_number

CLOSING_RECORDS = 12
"""Records after an ending that still belong to it: exit handlers, resource warnings, the last worker's farewell."""
FAREWELL_RECORDS = 40
"""Records that a program may print after the word that its work is done: it tries what it trained, and sums up."""
SERVING = ("serving", "ready")
BY_A_PROXY = (502, 503, 504)
"""What a proxy answers for a server that is gone."""
UNPRINTABLE = "<exception str() failed>"
"""What Python prints in place of a message that cannot be printed: the error's type says more."""
SYN_STATES = ("SYN-SENT", "SYN_SENT")
"""A socket that waits for the answer to its SYN, as `ss` and /proc spell it."""
PEER_LINES = (
    *("peer_unreachable", "gcs_wait", "socket_timeout", "socket_retry"),
    *("gloo_failed", "rendezvous_timeout", "store_barrier_timeout"),
)
"""Codes of lines by which a peer does not answer."""
THROWN = "ray.exceptions."
"""How the error begins by which the program that asked Ray's actors ends."""
GIVES_UP = "Terminating process because"
"""What JAX's client says before it ends its own process: others did not come."""
STORE_TIMES = {"timeout_ms", "timeout_s"}
NO_ERRORS = ("client", "noise", "recovered")
ALIVE = ("progress", "heartbeat", "ready", "request")
"""Kinds of records that only who lives writes."""
LIVE_TOOLS = ("pyspy", "gdb")
"""Tools that take the stacks of a process that lives."""
SIGNALS = {"terminated": 15, "sigterm": 15, "interrupted": 2, "segfault": 11, "killed": 9}
"""Signals that records tell in words."""


def primary(evidence: Evidence) -> Capture | None:
    """The log that people mean by "the log": `server.log` where there is one, else the first by node and name."""
    others = {item.row["capture"] for item in evidence.foreign if item.frame == "log"}
    logs = [capture for capture in evidence.run.captures if capture.kind == "log" and capture.id not in others]
    if not logs:
        return None
    return min(logs, key=lambda c: (c.title != "server.log", c.node or 0, -c.size_bytes, c.file))


def lines(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`log_lines`, `last_line`, `heartbeats`."""
    capture = primary(evidence)
    if capture is None:
        return {}
    facts = evidence.run.reports[capture.id].facts
    if evidence.run.as_of_ns is not None:  # what the file holds by now was not there
        tail = [row for row in evidence.log.tail if log_of(row) == capture.id]
        facts = {"last_line": tail[-1]["raw"].strip()} if tail else {}
    line = whole_number(facts.get("newlines"))
    line = line if line is None or capture.content is None else capture.content.place(line)[1]
    where = [{"capture": capture.file, "line": line, "text": facts.get("last_line")}]
    return {
        "log_lines": (capture.newlines_of_file or facts.get("newlines"), where),
        "last_line": (facts.get("last_line"), where),
        "heartbeats": (evidence.log.kinds.get("heartbeat", 0), _marks(evidence, "heartbeat")),
    }


def _marks(evidence: Evidence, kind: str) -> list[dict]:
    found = [mark.ref for mark in evidence.log.marks if mark.kind == kind]
    return found[:1] + found[-1:] if len(found) > 1 else found


def bars(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`weights_done`, `weights_s`, `weights_elapsed_s`, `s_per_shard`, `graph_done`, `graph_s`, `jit_done`, `download_done`."""
    log = evidence.log
    given: dict = {}
    for kind in ("weights", "graph", "jit", "download"):
        bar = log.last_bar(kind)
        if bar is not None and bar.total:
            given[f"{kind}_done"] = ([_number(bar.n), _number(bar.total)], [bar.ref])
    weights = log.last_bar("weights")
    if weights is not None:
        if weights.done:
            given["weights_s"] = (weights.elapsed_s, [weights.ref])
        else:
            given["weights_elapsed_s"] = (weights.elapsed_s, [weights.ref])
            given["s_per_shard"] = (weights.s_per_item, [weights.ref])
    given |= _remaining(log)
    if "weights_s" not in given and weights is None:
        read = _elapsed(evidence, "weights_read")  # the end of the loading counts what follows the reading, too
        given["weights_s"] = read if read[0] is not None else _elapsed(evidence, "weights_end")
    given["graph_s"] = _elapsed(evidence, "graph_end")
    graph = log.last_bar("graph")
    if given["graph_s"][0] is None and graph is not None and graph.done:
        given["graph_s"] = (graph.elapsed_s, [graph.ref])
    return given


def _remaining(log) -> dict:
    """`eta_s`, `eta_range_s`: remaining time of the bar that was drawn last, as of its last frame."""
    bar = max(log.bars, key=lambda bar: bar.order, default=None)
    found = eta(bar) if bar is not None and bar.kind != "other" else None
    if found is None:
        return {}
    return {
        "eta_s": (round(found.seconds, 1), [bar.ref]),
        "eta_range_s": ([round(found.low, 1), round(found.high, 1)], [bar.ref]),
    }


def _elapsed(evidence: Evidence, code: str) -> tuple:
    for mark in reversed(evidence.log.of(code)):
        if mark.fields.get("elapsed_s"):
            return float(mark.fields["elapsed_s"]), [mark.ref]
    return None, []


def _number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def silence(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`silence_s`: from the last progress record to the moment of the capture."""
    row, now = evidence.log.last_progress, evidence.run.captured_ns
    if row is None:
        return {}
    where = [{"capture": row["capture"], "line": row.get("line"), "text": row["raw"][:300]}]
    if row.get("time") is not None and now is not None and evidence.run.captured_known:
        return {"silence_s": (max(0.0, (now - row["time"]) / NS), where)}
    arrived = _silence_by_arrival(evidence, row)
    return {"silence_s": (_silence_by_age(evidence) if arrived is None else arrived, where)}


def _silence_by_arrival(evidence: Evidence, last: Row) -> float | None:
    """Silence of a log without times whose last line is progress: it came while the log was being recorded."""
    run = evidence.run
    grew = next((capture.grew_ns for capture in run.captures if capture.file == last["capture"]), None)
    if grew is None or run.captured_ns is None or evidence.log.tail[-1] is not last:
        return None
    return max(0.0, (run.captured_ns - grew) / NS)


def _silence_by_age(evidence: Evidence) -> float | None:
    """Silence of a log that counts from its own start: age of the process by ps, less the last counter."""
    last = None
    for row in evidence.log.tail:
        if row.get("time_source") == "start" and row.get("kind") == "progress":
            found = re.search(r'"uptime_s": ?([\d.]+)', row.get("fields") or "")
            last = float(found.group(1)) if found else last
    ages = [row["elapsed_s"] for row in evidence.processes if row.get("elapsed_s") is not None]
    return max(ages) - last if ages and last is not None else None


def life(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`ready`, `exited`, `signal`, `restarts`, `world_size`."""
    log = evidence.log
    given: dict = {"world_size": (processes.world_size, [])}
    ready = [mark for mark in log.marks if mark.phase in SERVING and mark.code != "probe_request"] or was_up(log)
    bind = log.last("bind_error")
    if ready and not (bind and bind.order > ready[-1].order):
        given["ready"] = (True, [ready[0].ref])
    elif stepped := log.of(*STEPS):
        given["ready"] = (True, [stepped[-1].ref])
    elif moved := [bar for bar in log.bars if bar.phase == "serving" and bar.n >= 1]:
        given["ready"] = (True, [moved[-1].ref])
    elif answered := [row for row in evidence.probes if row.get("purpose") == "generate" and row.get("tokens")]:
        given["ready"] = (
            True,
            [{"capture": answered[0]["capture"], "line": answered[0].get("line"), "text": answered[0].get("body")}],
        )
    elif working := served(evidence) or at_rest(evidence):
        given["ready"] = (True, [working])
    elif said := says_it_works(evidence):
        given["ready"] = (True, [ref(said, f"the reporter says: {said['text'][:200]}")])
    elif log.records or evidence.probes or evidence.sockets or evidence.events:
        given["ready"] = (False, [])
    given["exited"] = exited(evidence, processes)
    given["signal"] = _signal(evidence, processes)
    starts = [mark for mark in log.marks if "start" in mark.fields]
    if starts:
        again = [mark for mark in starts if mark.fields["start"]]
        given["restarts"] = (max(mark.fields["start"] for mark in starts), [mark.ref for mark in again[:3]])
    # A log that shows starts counts them itself, one of the last container alone shows none; a unit's counter stands in the log.
    if (told := orchestrator_ends.restarts(evidence)) and (
        not given.get("restarts", (0, []))[0] or log.of("unit_restarted") and told[0] > given["restarts"][0]
    ):
        given["restarts"] = told
    return given


def exited(evidence: Evidence, processes: Processes) -> tuple[bool | None, list[dict]]:
    """Whether the launch has ended: its log closes with an ending, or none of its processes lives."""
    launch = evidence.run.manifest.get("launch") or {}
    if launch.get("ended_at"):
        code = launch.get("exit_signal") or launch.get("exit_code")
        return True, [{"capture": "run.json", "line": None, "text": f"the launched process ended during the recording ({code})"}]
    bind = evidence.log.last("bind_error")
    if bind and evidence.log.records - bind.order <= CLOSING_RECORDS and not worked_after(evidence.log, bind):
        return True, [bind.ref]  # the processes that live may be those of the server that holds the port
    began = cause(evidence.log)
    if began is not None and began.code == "usage_error":
        return True, [began.ref]
    alive = processes.alive
    if alive is None and (gone := _container_gone(evidence)):
        return True, [gone]
    if alive is False:
        return True, []
    if alive is None and (told := orchestrator_ends.ended(evidence)):
        return True, [told]
    alive_until, worked_until = evidence.log.last_life, evidence.log.last_token
    answered = max((mark.order for mark in answered_probes(evidence.log)), default=-1)
    endings = [
        mark
        for mark in evidence.log.marks
        if mark.role == "teardown"
        and mark.order > max(worked_until.get(mark.log, -1), answered)
        or mark.role in ENDING
        and mark.order > alive_until.get(mark.log, -1)
    ]
    most = {"finished": FAREWELL_RECORDS}
    closing = [mark for mark in endings if evidence.log.records_after(mark) <= most.get(mark.role or "", CLOSING_RECORDS)]
    closing += [mark for mark in evidence.log.marks if not alive and closes(evidence.log, mark)]
    if closing and (left := outliving(evidence, processes)):
        return False, [ref(left[0], f"{left[1]} lives on after the end that the log tells")]
    if closing and not (alive and _front_listens(evidence, processes)):
        return True, [closing[-1].ref]
    last = (_last_words(evidence) or _uncaught(evidence) or _aborted(evidence)) if alive is None else None
    return (True, [last]) if last else _lives(evidence, processes) if alive is None else (False, [])


def _lives(evidence: Evidence, processes: Processes) -> tuple[bool | None, list[dict]]:
    """What shows life where no process table does: a stack that could be taken, a log or a download that moves at the capture."""
    if dumped := [row for row in evidence.stacks if row.get("tool") in LIVE_TOOLS and row.get("pid") in processes.by_pid]:
        return False, [ref(dumped[0], f"a stack of pid {dumped[0]['pid']} was taken: it lives")]
    answers = [row for row in evidence.probes if row.get("http_status") and row["http_status"] not in BY_A_PROXY]
    if answers:
        return False, [ref(answers[-1], f"it answers a request: {answers[-1]['http_status']}")]
    last, died = evidence.log.last_progress or {}, cause(evidence.log) or evidence.log.of("worker_died")
    quiet, where = silence(evidence, processes, Progression()).get("silence_s", (None, []))
    told = quiet is not None and not died and (last.get("milestone") or last.get("bar_kind"))
    if told and quiet <= thresholds(evidence.run.knowledge)["recent_s"]:
        return False, where
    if hung := [row for row in evidence.kernel_log if row.get("kind") in ("d_state", "hung_task")]:
        return False, [ref(hung[-1], hung[-1]["text"])]
    grown = deltas(evidence.sizes, "path", lambda row: row.get("size_bytes"))
    return next(((False, [ref(delta.rows[1], f"{delta.key} grows")]) for delta in grown.values() if delta.change > 0), (None, []))


def _container_gone(evidence: Evidence) -> dict | None:
    """Where compose says that the container which wrote a server's lines has exited, and was not started again."""
    for mark in evidence.log.of("container_exited"):
        own = [other for other in evidence.log.marks if other.raw.startswith(f"{mark.fields['service']} ") and other.phase]
        if own and own[-1].order < mark.order:
            return mark.ref
    return None


def _last_words(evidence: Evidence) -> dict | None:
    """The death of a worker, or an error that no process survives, on which a log closes; None where it closes on neither."""
    log, folders = evidence.log, evidence.run.knowledge
    mark = log.marks[-1] if log.marks else None
    reports = mark is not None and mark.code in ("worker_died", "failed_rank") and log.records - mark.order <= 3
    if reports and (traits(log.server, folders).ends_with_worker or mark.text.startswith(THROWN)):
        return mark.ref
    if mark is not None and of_a_client(log, mark):
        return None
    tail = [row for row in log.tail if row.get("kind") != "noise"][-1:]
    last = tail[0] if tail and tail[0].get("kind") == "error" else {}
    if last.get("milestone") not in (None, "worker_died") and not lives_on(last, log.server, folders):  # its own, no worker's
        return {"capture": tail[0]["capture"], "line": tail[0].get("line"), "text": tail[0]["raw"][:300]}
    return None


def _aborted(evidence: Evidence) -> dict | None:
    """The word of a training's rank that it aborts, with no sign of life after it: its launcher ends the others."""
    log = evidence.log
    together = log.server is None or traits(log.server, evidence.run.knowledge).ends_with_worker
    told = log.of("abort", "watchdog_exit") if together else []
    told += [mark for mark in log.of(*PEER_LINES) if mark.text.startswith(GIVES_UP)]
    last = max(told, key=lambda mark: mark.order, default=None)
    alive = [mark.order for mark in log.marks if mark.kind in ALIVE] + [bar.order for bar in log.bars]
    return None if last is None or max(alive, default=-1) > last.order else last.ref


def _uncaught(evidence: Evidence) -> dict | None:
    """An error that left the main program, by the first frame of its traceback, with no sign of life in any log after it."""
    log = evidence.log
    for mark in log.marks:
        frames = log.traces.get(mark.order)
        if frames and frames[0]["function"] == "<module>" and mark.role not in NO_ERRORS and not of_a_client(log, mark):
            later = [other for other in log.marks if other.order > mark.order and other.kind in ALIVE]
            if not later and not any(bar.order > mark.order for bar in log.bars):
                return mark.ref
    return None


def _front_listens(evidence: Evidence, processes: Processes) -> bool:
    return any(row.get("state") == "LISTEN" and row.get("pid") in processes.by_pid for row in evidence.sockets)


def _signal(evidence: Evidence, processes: Processes) -> tuple[int | None, list[dict]]:
    """The signal that ended the launch or a rank; a SIGTERM, by which a launcher ends what is left, only where none else did."""
    recorded = whole_number((evidence.run.manifest.get("launch") or {}).get("exit_signal"))
    root = (recorded, [{"capture": "run.json", "line": None, "text": f"ended by signal {recorded}"}]) if recorded else None
    found = [told for told in (root, _of_zombies(processes), _in_log(evidence), _of_kernel(evidence, processes)) if told]
    if not found and (last := orchestrator_ends.exit_signal(evidence)):
        return last
    return min(found, key=lambda told: told[0] == signal.SIGTERM, default=(None, []))


def _of_zombies(processes: Processes) -> tuple[int, list[dict]] | None:
    """The signal of the process that a signal ended first, by the exit status that its parent had not taken yet."""
    own = processes.first_dead or processes.of_role("frontend", "engine", "worker")
    dead = [row for process in own for row in process.rows if (row.get("exit_status") or 0) & 127]
    if not dead:
        return None
    first = min(dead, key=lambda row: (row["exit_status"] & 127 == signal.SIGTERM, row.get("time") or 0))
    number, rank = first["exit_status"] & 127, processes.rank_of(first["pid"])
    who = f"pid {first['pid']}" + (f" (rank {rank})" if rank is not None else "")
    return number, [ref(first, f"{who} ended by signal {number}")]


def _in_log(evidence: Evidence) -> tuple[int, list[dict]] | None:
    """The signal that the log tells of, by exit codes (-9, 137) and by words."""
    began = cause(evidence.log)
    told = began is not None and began.role == "ending"  # then "Killed" is how what is left was ended
    late = ("closing_workers", "killed") if told else ("closing_workers",)
    failed = began is not None and began.role == "initiating"  # then the launcher ends what an error of its own has left
    marks = [mark for mark in evidence.log.marks if not (failed and mark.code == "closing_workers")]
    # What an interrupt passed on stands before it.
    for mark in sorted(marks, key=lambda mark: (mark.code in late, told and mark.code != "interrupted")):
        if (sent := whole_number(mark.fields.get("signal"))) is not None:
            return sent, [mark.ref]
        code = whole_number(mark.fields.get("exit_code"))
        if code is not None and (sent := signal_of(code)) is not None:
            return sent, [mark.ref]
        if mark.code in SIGNALS:
            return SIGNALS[mark.code], [mark.ref]
    return None


def _of_kernel(evidence: Evidence, processes: Processes) -> tuple[int, list[dict]] | None:
    """The signal that the kernel's log shows for a process of the launch: SIGKILL of the OOM killer, SIGSEGV."""
    own = set(processes.by_pid) | {pid for pids in evidence.log.writers.values() for pid in pids}
    for row in evidence.kernel_log:
        if row.get("kind") in ("oom_kill", "segfault") and row.get("pid") in own:
            return (9 if row["kind"] == "oom_kill" else 11), [ref(row, row["text"])]
    return None


def training(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`step`: the last training step that finished."""
    marks = [mark for mark in evidence.log.of("train_step", "train_stage") if {"step", "step_begun"} & mark.fields.keys()]
    mark = max(marks, key=lambda mark: mark.order, default=None)
    step = whole_number(mark.fields.get("step")) if mark else None
    if mark and "step_begun" in mark.fields:
        step = (whole_number(mark.fields["step_begun"]) or 1) - 1
    return {"step": (step, [mark.ref])} if step is not None else {}


def errors(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`first_error`: text of the first error by time; of a traceback its last line."""
    first = first_error(evidence.log) or over_time(evidence.log)
    if first is None:
        return {}
    text = str(first.fields.get("message") or "") if first.code in ("exception", "traceback") else ""
    if text == UNPRINTABLE:
        text = first.text.strip()
    after = traits(evidence.log.server, evidence.run.knowledge).message_after
    if after is not None and not text:
        text = after.sub("", first.text.strip(), count=1)
    spoken = re.search(r"\[Rank \d+\]\s+(?=" + re.escape(first.text.strip()[:60]) + ")", first.raw)
    if spoken and not text:  # c10d's message begins with the rank that it is about; the rank before it is the launcher's
        text = spoken.group(0) + first.text.strip()
    if first.code == "usage_error" and not text:  # argparse's own prefix: the program and its subcommands
        text = re.sub(r"^[\w./-]+(?: [\w-]+){0,3}: error: ", "", first.text.strip())
    text = text or re.sub(r"^(?:[\w.]+(?:Error|Exception|Interrupt|Exit|Failure|Warning)): ", "", first.text.strip())
    if len(text) > 2 and text[0] == text[-1] == '"':  # structured logs quote a message
        text = text[1:-1].replace('\\"', '"')
    return {"first_error": (text or first.text.strip(), [first.ref])}


def collective(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`seq`, `op`, `timeout_ms`, `ranks_same_seq`: the collective that timed out or stands."""
    timeouts = evidence.log.of("collective_timeout")
    given: dict = {}
    if timeouts:
        first = timeouts[0]
        given["seq"] = (whole_number(first.fields.get("seq")), [first.ref])
        given["op"] = (first.fields.get("op"), [first.ref])
        given["timeout_ms"] = (whole_number(first.fields.get("timeout_ms")), [first.ref])
        pending = {}
        for mark in timeouts:
            pending.setdefault(rank_of(mark, processes), (mark.fields.get("seq"), mark.fields.get("op")))
        if len(pending) >= 2 and (len(set(pending.values())) > 1 or len(pending) >= (processes.world_size or 0)):
            given["ranks_same_seq"] = (len(set(pending.values())) == 1, [mark.ref for mark in timeouts[:3]])
        if joined := all_joined(evidence, processes):
            given["ranks_same_seq"] = (True, [mark.ref for mark in joined[1][:3]])
    elif gave_up := [mark for mark in evidence.log.of("socket_timeout", "store_timeout") if STORE_TIMES & mark.fields.keys()]:
        given["timeout_ms"] = (_milliseconds(gave_up[0].fields), [gave_up[0].ref])
    if broken := analysed(evidence):
        where = [ref(broken, broken["text"])]
        name = (broken.get("operation") or "").rpartition(":")[2].replace("_", "").upper()
        given |= {key: (value, where) for key, value in (("seq", broken.get("count")), ("op", name or None)) if key not in given}
    moments = largest(evidence)
    if moments and moments[-1].size >= 2 and (settled(moments) or len(moments[-1].distinct) == 1):
        last = moments[-1]
        where = [ref(row, row.get("text")) for row in last.rows[:2]]
        given.setdefault("ranks_same_seq", (len(last.distinct) == 1, where))
        given.setdefault("seq", (last.common if len(last.distinct) == 1 else None, where))
    return given


def waited(evidence: Evidence, processes: Processes, found: Progression) -> dict:
    """`timeout_s`, `peer`: how long a watchdog or a connection waited before it gave up, and for whom."""
    given: dict = {}
    for mark in evidence.log.marks:
        limit, host, port = (mark.fields.get(name) for name in ("timeout_s", "host", "port"))
        if limit is not None:
            given.setdefault("timeout_s", (limit, [mark.ref]))
        if host and port and mark.code in PEER_LINES:
            given["peer"] = (f"{host}:{port}", [mark.ref])  # the last line is the one that gave up; a host has several names
    for row in evidence.sockets:
        if row.get("state") in SYN_STATES and "peer" not in given:
            given["peer"] = (f"{row.get('peer_address')}:{row.get('peer_port')}", [ref(row)])
    return given


def _milliseconds(fields: dict) -> int | None:
    limit, seconds = whole_number(fields.get("timeout_ms")), whole_number(fields.get("timeout_s"))
    return limit if limit is not None else None if seconds is None else 1000 * seconds


def asked_port(evidence: Evidence) -> tuple[int | None, list[dict]]:
    """The port that the launch asked for, from its command line or from the arguments that the server printed."""
    for fields in argument_fields(evidence):
        port = whole_number(fields.get("port")) or 0
        if port > 0:
            return port, [mark.ref for mark in evidence.log.marks if mark.fields is fields]
    return None, []


def unfinished(bar: Bar | None) -> bool:
    """Whether a bar was begun and stands before its total."""
    return bar is not None and not bar.done
