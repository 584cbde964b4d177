"""Ready or not: ready line, health, an answered request, the port and who holds it, tokens, requests that do not end."""

from __future__ import annotations

import itertools

from kit.analyse.verdict.deltas import deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.facts_process import unanswered
from kit.analyse.verdict.failures import FAREWELL_S, cause, moment, worked_after
from kit.analyse.verdict.log_digest import STEPS, Mark
from kit.analyse.verdict.phases import at_rest, was_up
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.signs.gpu import at_work, idle_gpus, newest
from kit.analyse.verdict.signs.two_samples import compilers_work
from kit.clock import NS, show_duration
from kit.parse.grammar import metric_names
from kit.schema import Row
from kit.words import count_of, short

PROXIES = (
    *("docker-proxy", "rootlessport", "rootlesskit", "kube-proxy", "kubectl", "slirp4netns"),
    *("nginx", "envoy", "haproxy", "traefik", "caddy", "socat"),
)
"""Programs that hold a port for a server in another namespace or behind them."""


FAILING, UNAVAILABLE = 3, 503
"""Errors in a row that are no client's time-out; the status by which a server says that it does not serve."""
LEAST_FRAMES = 3
"""Records of a log's end: a bar that stands further up was left behind."""


def _unseen(scene: Scene) -> set[str]:
    """Logs that only exist as a deleted file that the server still writes to."""
    return {capture.file for capture in scene.evidence.run.captures if capture.deleted}


def _ready_lines(scene: Scene) -> list[Mark]:
    marks = scene.log.marks
    return [
        mark
        for mark in marks
        if mark.phase in ("ready", "serving") and mark.code not in ("probe_request", "train_step", "bar_full")
    ]


@rule("ready_line", "ready_line_unseen", "no_ready_line", needs=("log|fds",))
def ready_line(scene: Scene) -> Signs:
    """The log says ready, says so where nobody can read it, or does not say so."""
    ready, bind, unseen = _ready_lines(scene), scene.log.last("bind_error"), _unseen(scene)
    if ready and all(mark.capture in unseen for mark in ready):
        claim = f"the ready line is only in the deleted file that the server writes to: {short(ready[0].text, 80)}"
        yield Sign("ready_line_unseen", claim, [ready[0].ref])
        yield Sign("no_ready_line", "no ready line in the visible log", scene.facts.refs("last_line"))
    elif ready and not (bind and bind.order > ready[-1].order):
        yield Sign("ready_line", f"the log says ready: {short(ready[0].text, 100)}", [ready[0].ref])
    elif rests := at_rest(scene.evidence):
        yield Sign("ready_line", "it answers, and loads a model when one is asked for", [rests])
    elif was_up(scene.log):
        return  # it begins in the middle, when it was up
    elif (scene.log.records and scene.log.known) or scene.fact("log_deleted"):
        yield Sign("no_ready_line", "no ready line in the log", scene.facts.refs("last_line"))


OTHER_SOURCES = "stacks|processes|threads|gpus|syscalls"
"""What people collect of a job that may hang; where there is none of it, the end of the log is all there is."""


@rule("training_steps", "training_goes_on", "training_stands", "log_ends_on_step", needs=("log",))
def training(scene: Scene) -> Signs:
    """A training job that has stepped, and does so still."""
    steps, quiet = sorted(scene.log.of(*STEPS), key=lambda mark: mark.order), _quiet_at_most(scene)
    if not steps:
        return
    step = scene.fact("step")
    claim = f"training reached step {step}" if step is not None else f"training has stepped: {short(steps[-1].text, 100)}"
    yield Sign("training_steps", claim, [steps[-1].ref])
    times = [mark.time for mark in steps if mark.time is not None]
    gaps = sorted((later - earlier) / NS for earlier, later in itertools.pairwise(times) if later > earlier)
    own = next((bar.s_per_item for bar in reversed(scene.log.bars) if bar.order == steps[-1].order), None)
    pace = gaps[len(gaps) // 2] if gaps else own
    # Somebody looked further than the log, and what that shows decides; GPUs that work show what the log does.
    looked_at = scene.has("stacks|processes|threads|syscalls") or scene.has("gpus") and not at_work(scene)
    if scene.fact("exited") is not True and not looked_at and scene.log.last_life.get(steps[-1].log, -1) <= steps[-1].order:
        behind, began = scene.log.records - steps[-1].order - 1, cause(scene.log)
        failed = began is not None and began.role == "initiating" and began.order > steps[-1].order
        failed = failed or any(mark.order > steps[-1].order for mark in scene.log.of("worker_died"))
        late = scene.log.seconds_after(steps[-1]) > max(FAREWELL_S, scene.limits["steps_missed"] * (pace or 0))
        if behind <= scene.limits["records_after_step"] and not failed and not late:
            yield Sign("log_ends_on_step", "the log ends on a training step", [steps[-1].ref])
    stood_s = quiet if quiet is not None else _notices_alone_s(scene, steps[-1])
    if pace is not None and stood_s > max(scene.limits["long_silence_s"], scene.limits["stood_steps"] * pace):
        claim = f"no step for {show_duration(stood_s)}, and a step takes {show_duration(pace)}"
        yield Sign("training_stands", claim, [steps[-1].ref])
    if pace is not None and quiet is not None and quiet <= scene.limits["steps_missed"] * pace:
        claim = f"the last step is at most {show_duration(quiet)} old, a step takes {show_duration(pace)}"
        yield Sign("training_goes_on", claim, [steps[-1].ref])
    elif pace is None and quiet is not None and quiet <= scene.limits["recent_s"]:
        claim = f"the last step came {show_duration(quiet)} before the end of the recording"
        yield Sign("training_goes_on", claim, [steps[-1].ref])


def _notices_alone_s(scene: Scene, step: Mark) -> float:
    """For how long a log goes on after its last step with notices alone, by its own stamps."""
    last, end = scene.log.last_progress or {}, scene.log.last_time
    alone = scene.log.tail[-1].get("kind") == "heartbeat" and last.get("time") == step.time
    return (end - step.time) / NS if alone and step.time is not None and end is not None else 0.0


def _quiet_at_most(scene: Scene) -> float | None:
    """Seconds since the last progress; where that has no stamp, as bars have none, since the last stamp before it."""
    run, stamped = scene.evidence.run, scene.log.last_time
    if scene.silence_s is not None or stamped is None or run.captured_ns is None or not run.captured_known:
        return scene.silence_s
    return max(0.0, (run.captured_ns - stamped) / NS)


@rule("generate_works", "requests_served", "first_request_compiles", "generate_fails")
def request(scene: Scene) -> Signs:
    """A real request was answered, or not, or not yet, for the first of a shape may wait for a compiler.

    What the server's own log tells of its clients is of some time ago.
    """
    works, refs = scene.fact("generate_works"), scene.facts.refs("generate_works")
    if works is True and any(where.get("capture") in scene.log.captures for where in refs):
        yield Sign("requests_served", "the log shows a client's request that was answered, and nothing wrong after it", refs)
    elif works is True:
        yield Sign("generate_works", "a real request was answered", refs)
    elif works is False and refs[0].get("text", "").endswith("timeout") and scene.fact("ready") and compilers_work(scene):
        yield Sign("first_request_compiles", "a real request is not answered yet, and compilers have begun to work", refs)
    elif works is False:
        yield Sign("generate_fails", "a real request got no answer", refs)


@rule("answers_fail", needs=("log",))
def failing_answers(scene: Scene) -> Signs:
    """The last requests in the log were all answered with an error of the server's."""
    failed = [mark for mark in scene.log.of("request_refused") if mark.order > scene.log.answered]
    failed = [mark for mark in failed if (mark.fields.get("status") or 0) >= 500]
    unavailable = [mark for mark in failed if mark.fields["status"] == UNAVAILABLE]
    if (len(failed) >= FAILING or len(unavailable) > 1) and not scene.fact("exited"):
        claim = f"its last {count_of(len(failed), 'answer')} were errors of its own: {short(failed[-1].text, 100)}"
        yield Sign("answers_fail", claim, [failed[-1].ref])


@rule("health_ok", "health_bad")
def health(scene: Scene) -> Signs:
    """Status of the health endpoint, of a launch that has not ended since."""
    status = scene.fact("health_http") or 0
    if not scene.fact("exited") and (status == 200 or status >= 500):
        code = "health_ok" if status == 200 else "health_bad"
        yield Sign(code, f"the health endpoint answers {status}", scene.facts.refs("health_http"))


@rule("health_unanswered")
def silent_health(scene: Scene) -> Signs:
    """The last question to the health endpoint was taken and not answered."""
    asked = [row for row in scene.evidence.probes if row.get("purpose") == "health"]
    if asked and asked[-1].get("error") in ("timeout", "empty reply"):
        took = asked[-1].get("duration_s")
        within = f" within {show_duration(took)}" if took else ""
        yield Sign(
            "health_unanswered", f"the health endpoint does not answer{within}", [ref(asked[-1], asked[-1].get("command"))]
        )


@rule("accept_queue_full", needs=("sockets",))
def backlog(scene: Scene) -> Signs:
    """More connections wait at the server's port than its backlog holds: nobody accepts them (`ss`: Recv-Q, Send-Q)."""
    for row in scene.evidence.sockets:
        waiting, most = row.get("recv_q") or 0, row.get("send_q") or 0
        if row.get("state") == "LISTEN" and row.get("local_port") == scene.fact("port") and waiting >= most > 0:
            claim = f"{waiting} connections wait to be accepted on port {row['local_port']}, whose backlog is {most}"
            yield Sign("accept_queue_full", claim, [ref(row)])


@rule("health_failed_line", needs=("log",))
def own_check(scene: Scene) -> Signs:
    """The server's own health check failed once it was up, and it answered nobody since."""
    if (mark := scene.log.last("health_failed")) and mark.order > scene.log.served:
        yield Sign("health_failed_line", f"the server's own health check failed: {short(mark.text, 140)}", [mark.ref])


@rule("serves_unlogged", needs=("log|fds",))
def serves_unlogged(scene: Scene) -> Signs:
    """The server answers, and its log never said that it is ready."""
    works, unseen = scene.fact("generate_works"), _unseen(scene)
    own_port = scene.fact("port_owner_pid") in scene.processes.by_pid
    answers = works or (works is None and scene.fact("health_http") == 200 and own_port)
    says_ready = any(mark.capture not in unseen for mark in _ready_lines(scene))
    if answers and not says_ready and (scene.log.records or scene.fact("log_deleted")):
        refs = scene.facts.refs("generate_works", "health_http", "last_line")[:3]
        yield Sign("serves_unlogged", "the server answers, and its log never said that it is ready", refs)


@rule("work_at_zero", needs=("log", "gpus"))
def not_begun(scene: Scene) -> Signs:
    """The log ends on a bar of work of which nothing is done, and no GPU works: it takes no requests, whatever stands above."""
    bar, rows = max(scene.log.bars, key=lambda bar: bar.order, default=None), newest(scene)
    if bar is None or bar.n or not bar.total or scene.log.records - bar.order > LEAST_FRAMES or not rows:
        return
    if len(idle_gpus(scene, rows)) == len(rows):
        claim = f"the log ends on work at 0 of {bar.total:,.0f}, and no GPU is in use: {short(bar.text, 80)}"
        yield Sign("work_at_zero", claim, [bar.ref, ref(rows[0])])


@rule("port_closed", needs=("sockets|probes|events",))
def port_closed(scene: Scene) -> Signs:
    """Nothing listens on the server's port."""
    if scene.fact("port_listening") is False:
        port = scene.fact("port")
        where = f"port {port}" if port else "the server's port, which is unknown"
        yield Sign("port_closed", f"nothing is listening on {where}", scene.facts.refs("port_listening"))


@rule("refuses_though_ready", needs=("probes",))
def refuses(scene: Scene) -> Signs:
    """The log said ready, and who asked after that got nothing back."""
    if (rows := unanswered(scene.evidence)) and scene.fact("ready") and scene.fact("port_listening") is not True:
        claim = f"the log said ready, and who asked got nothing back: {rows[-1]['error']}"
        yield Sign("refuses_though_ready", claim, [ref(rows[-1], rows[-1].get("command"))])


@rule("log_deleted", needs=("fds",))
def log_deleted(scene: Scene) -> Signs:
    """The server's output goes to a deleted file."""
    if scene.fact("log_deleted"):
        yield Sign("log_deleted", "the server's output goes to a deleted file", scene.facts.refs("log_deleted"))


@rule("log_holds_nothing", needs=("log",))
def empty_log(scene: Scene) -> Signs:
    """The file never got the server's lines."""
    log = scene.log
    if not log.marks and log.records <= scene.limits["empty_log_records"] and not scene.fact("heartbeats"):
        claim = f"the log has {count_of(log.records, 'line')}, none of them a server's"
        yield Sign("log_holds_nothing", claim, scene.facts.refs("last_line"))


@rule("bind_error", needs=("log",))
def bind_error(scene: Scene) -> Signs:
    """It could not bind."""
    if (mark := scene.log.last("bind_error")) and not worked_after(scene.log, mark):
        yield Sign("bind_error", f"the server could not bind: {short(mark.text, 120)}", [mark.ref])


@rule("own_listener", "foreign_listener", "proxy_listens", needs=("sockets",))
def listener(scene: Scene) -> Signs:
    """Who holds the port: the server itself, a proxy, a stranger."""
    port, owner = scene.fact("port"), scene.fact("port_owner_pid")
    row = next((r for r in scene.evidence.sockets if r.get("state") == "LISTEN" and r.get("local_port") == port), None)
    if row is None:
        return
    name, where = row.get("process") or "", [ref(row, row.get("process") or "")]
    if any(proxy in name for proxy in PROXIES) and not scene.log.of("bind_error"):
        yield Sign("proxy_listens", f"port {port} is held by {name}: open does not mean ready", where)
        return
    own = set(scene.processes.by_pid) | {mark.fields.get("server_pid") for mark in scene.log.of("http_start")}
    own = {pid for pid in own | {mark.pid for mark in scene.log.marks} if pid}
    if own and (owner is None or owner in own):
        holder = f" (pid {owner})" if owner is not None else ""
        yield Sign("own_listener", f"the server holds port {port}{holder}", where)
    elif owner is not None and own and scene.processes.of_role("frontend", "engine", "worker") or scene.log.of("bind_error"):
        claim = f"port {port} is held by {name} (pid {owner}), which is not a process of this launch"
        yield Sign("foreign_listener", claim, where)


@rule("tokens_grow", "tokens_frozen", "requests_wait", needs=("counters",), moving=("tokens_grow",))
def tokens(scene: Scene) -> Signs:
    """Tokens are generated between two samples, or stand still while requests run; or requests wait, and none runs."""
    rows = [row for row in scene.evidence.counters if row["source"] == "metrics"]
    folders = scene.evidence.run.knowledge
    generated = deltas(_named(rows, metric_names("tokens", folders)), "name", lambda row: row["value"])
    running = max((row["value"] for row in _named(rows, metric_names("running", folders))), default=0)
    queued = max(_named(rows, metric_names("waiting", folders)), key=lambda row: row["value"], default={"value": 0})
    most = max(generated.values(), key=lambda delta: delta.change, default=None)
    if most is not None and most.change > 0:
        claim = f"{count_of(int(most.change), 'token')} generated between two samples"
        yield Sign("tokens_grow", claim, [ref(most.rows[1])])
    elif most is not None and running > 0:
        claim = f"{count_of(int(running), 'request')} running, no token generated between two samples"
        yield Sign("tokens_frozen", claim, [ref(most.rows[1])])
    elif queued["value"] > running == 0:
        claim = f"{count_of(int(queued['value']), 'request')} waiting by the server's own gauge, none running"
        yield Sign("requests_wait", claim, [ref(queued, f"{queued['name']} {queued['value']:g}")])


def _named(rows: list[Row], words: tuple[str, ...]) -> list[Row]:
    return [row for row in rows if any(word in row["name"] for word in words)]


@rule("rpc_timeout", "engine_watchdog", needs=("log",))
def watchdogs(scene: Scene) -> Signs:
    """The server itself saw that a forward pass did not end."""
    for code, name, words in (
        ("rpc_timeout", "rpc_timeout", "the engine got no answer from its workers"),
        ("watchdog", "engine_watchdog", "the server's watchdog fired"),
        ("hang_detected", "engine_watchdog", "the server reports that it hangs"),
    ):
        if mark := scene.log.last(code):
            yield Sign(name, f"{words}: {short(mark.text, 120)}", [mark.ref])


@rule("handover_stuck", needs=("log",))
def handover(scene: Scene) -> Signs:
    """Requests wait in vain for the other server of a prefill/decode pair, and nothing was computed since."""
    failed, done = scene.log.of("handover_failed"), scene.log.of("prefill_batch", "decode_batch", "request_done")
    done += [mark for mark in scene.log.of("engine_stats") if mark.fields.get("tokens_per_s")]
    if not failed:
        return
    moments = moment([*failed, *done])
    last = max(failed, key=moments)
    if not done or moments(last) > max(map(moments, done)):
        waited = max(float(mark.fields.get("seconds") or 0) for mark in failed)
        claim = (
            f"{count_of(len(failed), 'request')} waited up to {show_duration(waited)} in vain for the other server of the "
            f"prefill/decode pair, and no batch was computed since: {short(last.text, 100)}"
        )
        yield Sign("handover_stuck", claim, [failed[0].ref, last.ref])


def _no_token_for(scene: Scene, idle: list[Mark]) -> Signs:
    """Statistics that show requests and neither a prompt nor a token for long: the log goes on, and the work does not."""
    times = [mark.time for mark in idle if mark.time is not None and not mark.fields.get("prompt_tokens_per_s")]
    if times and times[-1] - times[0] >= scene.limits["recent_s"] * NS:
        claim = f"no token and no prompt for {show_duration((times[-1] - times[0]) / NS)}, though requests run"
        yield Sign("tokens_stand", claim, [idle[0].ref, idle[-1].ref])


@rule("request_stuck", "tokens_stand", needs=("log",))
def stuck_request(scene: Scene) -> Signs:
    """A request was taken and did not finish."""
    log, quiet, limits = scene.log, scene.silence_s, scene.limits
    taken, counted = log.of("request", "prefill_batch"), log.of("engine_stats", "decode_batch")
    finished = [mark for mark in taken if "status" in mark.fields] + log.of("request_done")
    finished += [mark for mark in counted if (mark.fields.get("tokens_per_s") or 0) > 0]
    last_finished = max((mark.order for mark in finished), default=-1)
    answered = max((mark.order for mark in taken if "status" in mark.fields), default=-1)
    last_finished, answered = max(last_finished, log.answered), max(answered, log.answered)
    last = counted[-1] if counted else None
    running, queued = (last.fields.get(name) or 0 if last else 0 for name in ("running", "queued"))
    if last and running + queued > 0 and last.order > answered and (quiet or 0) > limits["long_silence_s"]:
        number = count_of(int(running or queued), "request")
        claim = f"{number} {'running' if running else 'waiting'} {show_duration(quiet)} ago, none answered since"
        yield Sign("request_stuck", claim, [last.ref])
        return
    beats = [mark for mark in log.of("shm_wait") if last and mark.order > max(last.order, last_finished)]
    if len(beats) >= 2 and last.fields.get("running") and last.fields.get("tokens_per_s") == 0:
        claim = f"requests run, no token comes, and the workers take nothing: {short(beats[-1].text, 100)}"
        yield Sign("request_stuck", claim, [last.ref, beats[-1].ref])
        return
    idle = [mark for mark in counted if mark.fields.get("running") and mark.fields.get("tokens_per_s") == 0]
    if len(idle) >= 2 and idle[-1].order > last_finished:
        yield Sign("request_stuck", f"requests run and no token comes: {short(idle[-1].text, 120)}", [idle[-1].ref])
        yield from _no_token_for(scene, [mark for mark in idle if mark.order > last_finished])
        return
    started = [mark for mark in taken if "status" not in mark.fields]
    fresh = quiet is None and log.records - last_finished <= limits["fresh_records"] and last_finished >= 0
    rests = max((mark.order for mark in log.of("idle")), default=-1)
    if started and started[-1].order > max(last_finished, rests) and not fresh and (quiet is None or quiet > limits["recent_s"]):
        since = f" {show_duration(quiet)} ago" if quiet is not None else ""
        claim = f"a request arrived{since} and did not finish: {short(started[-1].text, 100)}"
        yield Sign("request_stuck", claim, [started[-1].ref])
