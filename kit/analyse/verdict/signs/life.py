"""Signs of death, readiness and of who holds the port."""

from __future__ import annotations

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.failures import errors as failures
from kit.analyse.verdict.failures import first_error
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.clock import NS, show_duration
from kit.parse.grammar import codes

HARDWARE_XIDS = {48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 122, 123, 136, 140, 143, 154}
"""Xids of the device, its memory, its link or its firmware (NVIDIA's Xid catalogue)."""
APPLICATION_XIDS = {8, 13, 31, 32, 43, 45, 46, 61, 69}
"""Xids that a program, a driver or a faulty device may cause."""


def deaths(scene: Scene) -> Signs:
    """Kernel kills, memory exhaustion, dead ranks, signals."""
    e, facts = scene.evidence, scene.facts
    own = set(scene.processes.by_pid)
    killed = [row for row in e.kernel_log if row.get("kind") == "oom_kill"]
    mine = [row for row in killed if row.get("pid") in own or _server_name(row.get("process"))] or (killed if not own else [])
    if mine:
        yield Sign(
            "kernel_oom_kill",
            f"the kernel's OOM killer ended pid {', '.join(str(row.get('pid')) for row in mine)}",
            [ref(row, row["text"]) for row in mine[:3]],
            [r for row in mine if (r := scene.processes.rank_of(row.get("pid"))) is not None],
        )
    for row in e.counters:
        if row["name"] == "oom_kill" and row["source"] == "cgroup" and row["value"] > 0:
            yield Sign(
                "cgroup_oom_kill", f"the cgroup counts {row['value']:g} OOM kill(s)", [ref(row, f"oom_kill {row['value']:g}")]
            )
    signal = facts.value("signal")
    if signal == 9:
        yield Sign("signal_9", "a rank or the launch was ended by signal 9", facts.refs("signal"))
    if e.log.of("host_oom"):
        yield Sign("host_oom_line", f"the log says: {e.log.first('host_oom').text[:120]}", [e.log.first("host_oom").ref])
    if e.log.of("gpu_oom"):
        yield Sign("gpu_oom_error", "the log holds an out-of-memory error of the GPU", [e.log.first("gpu_oom").ref])
    dead = facts.value("ranks_dead")
    if dead:
        yield Sign("ranks_dead", f"rank {', '.join(map(str, dead))} is dead", facts.refs("ranks_dead"), dead)
    seen = [process for process in scene.processes.workers if process.states]
    if seen and not any(process.dead for process in seen) and not dead:
        yield Sign("workers_alive", f"all {len(seen)} rank(s) that were looked at are alive", [])
    if scene.processes.alive:
        yield Sign("processes_alive", "processes of the server are alive", [])
    if facts.value("exited"):
        yield Sign("exited", "the launch has ended", facts.refs("exited"))
    free = {row["name"]: row["value_bytes"] for row in e.host_memory}
    if free.get("available") and free.get("total") and free["available"] > 0.2 * free["total"] and not mine:
        yield Sign(
            "memory_available",
            f"{free['available'] / 2**30:,.0f} of {free['total'] / 2**30:,.0f} GiB of host memory are available",
            [ref(e.host_memory[0])],
        )


def _server_name(name: str | None) -> bool:
    return any(
        word in (name or "").lower() for word in ("python", "sglang", "vllm", "ray::", "text-gen", "llama", "trtllm", "pt_main")
    )


def errors(scene: Scene) -> Signs:
    """Errors that the log shows, the first by time; errors that only follow are told apart."""
    e = scene.evidence
    first = first_error(e.log)
    explained = codes("explained", e.log.server, e.run.knowledge)
    cause = _unexplained(scene, explained)
    if cause is not None:
        rank = [cause.rank] if cause.rank is not None else []
        yield Sign("unexplained_error", f"the first error that names a cause is: {cause.text[:160]}", [cause.ref], rank)
    if fault := (e.log.first("segfault") or e.log.first("abort")):
        yield Sign("crash_signal", f"a process crashed: {fault.text[:120]}", [fault.ref])
    segfaults = [row for row in e.kernel_log if row.get("kind") == "segfault"]
    if segfaults:
        yield Sign(
            "crash_signal", f"the kernel saw a crash: {segfaults[0]['text'][:120]}", [ref(segfaults[0], segfaults[0]["text"])]
        )
    worker = e.log.first("worker_died")
    if worker:
        yield Sign("worker_died_line", f"the log reports a dead worker: {worker.text[:140]}", [worker.ref])
    if worker and cause is None and not fault and not any(mark.code in explained for mark in e.log.marks):
        yield Sign("silent_death", "a worker died, and no error tells why", [worker.ref])
    if scene.facts.value("ready") and first is not None:
        ready = [mark for mark in e.log.marks if mark.phase in ("ready", "serving")]
        if ready and first.order > ready[0].order:
            yield Sign("error_after_ready", f"after it was ready: {first.text[:140]}", [first.ref])
    if first is None and e.log.records:
        yield Sign("no_error_in_log", "the log holds no error", [])


def _unexplained(scene: Scene, explained: frozenset[str]):
    """The first error that names a cause; None where it is the mark of a class of its own, or where the launch was ended."""
    marks = sorted(failures(scene.evidence.log), key=lambda mark: mark.order)
    cause = next((mark for mark in marks if mark.role in ("initiating", "ending")), None)
    return None if cause is None or cause.code in explained or cause.role == "ending" else cause


def no_death(scene: Scene) -> Signs:
    """Nothing that speaks of a death, for classes that need one."""
    e = scene.evidence
    codes = ("worker_died", "segfault", "abort", "killed", "sigquit", "watchdog_exit")
    killed = any(row.get("kind") in ("oom_kill", "segfault") for row in e.kernel_log)
    if not scene.facts.value("ranks_dead") and not e.log.of(*codes) and not killed and (e.log.records or e.processes):
        yield Sign("no_death_seen", "nothing in the evidence speaks of a dead process", [])


def hardware(scene: Scene) -> Signs:
    """Xids, lost devices, ECC and remapped rows, a driver tool that hangs."""
    e = scene.evidence
    xids = [row for row in e.kernel_log if row.get("xid") is not None]
    hard = [row for row in xids if row["xid"] in HARDWARE_XIDS]
    soft = [row for row in xids if row["xid"] in APPLICATION_XIDS]
    for code, rows in (("xid_hardware", hard), ("xid_application", soft)):
        if rows:
            numbers = ", ".join(str(number) for number in dict.fromkeys(row["xid"] for row in rows))
            buses = {row["bus_id"] for row in rows if row.get("bus_id")}
            place = f" on {', '.join(sorted(buses))}" if buses else ""
            yield Sign(
                code, f"the kernel logged Xid {numbers}{place}, {len(rows)} time(s)", [ref(row, row["text"]) for row in rows[:3]]
            )
    lost = [row for row in e.kernel_log if row.get("kind") in ("gpu_lost", "ecc", "gpu_reset")]
    if lost:
        yield Sign("gpu_lost", f"the kernel says: {lost[0]['text'][:120]}", [ref(lost[0], lost[0]["text"])])
    broken = [row for row in e.gpus if row.get("error")]
    if broken:
        yield Sign("gpu_error_state", f"nvidia-smi shows {broken[0]['error']} for GPU {broken[0]['gpu']}", [ref(broken[0])])
    failed = [
        row for row in e.tool_errors if row["tool"] in ("nvidia-smi", "rocm-smi") and row.get("error") not in ("not_found",)
    ]
    if failed:
        yield Sign(
            "gpu_tool_failed", f"{failed[0]['tool']} failed: {failed[0]['text'][:120]}", [ref(failed[0], failed[0]["text"])]
        )
    remapped = [
        row
        for row in e.counters
        if row["source"] == "gpu"
        and row["value"] > 0
        and any(word in row["name"].lower() for word in ("uncorrectable", "failure", "pending"))
    ]
    if remapped:
        yield Sign("gpu_rows_remapped", f"{remapped[0]['name']}: {remapped[0]['value']:g}", [ref(remapped[0])])


def readiness(scene: Scene) -> Signs:
    """Ready line, listener, an answered request, and what speaks against each."""
    e, facts = scene.evidence, scene.facts
    ready = [
        mark for mark in e.log.marks if mark.phase in ("ready", "serving") and mark.code not in ("probe_request", "train_step")
    ]
    bind = e.log.last("bind_error")
    unseen = {capture.file for capture in e.run.captures if capture.deleted}
    if ready and all(mark.capture in unseen for mark in ready):
        yield Sign(
            "ready_line_unseen",
            f"the ready line stands only in the deleted file that the server writes to: {ready[0].text[:80]}",
            [ready[0].ref],
        )
        yield Sign("no_ready_line", "the log that people read has no ready line", facts.refs("last_line"))
    elif ready and not (bind and bind.order > ready[-1].order):
        yield Sign("ready_line", f"the log says ready: {ready[0].text[:100]}", [ready[0].ref])
    elif e.log.records or scene.facts.value("log_deleted"):
        yield Sign("no_ready_line", "the log has no ready line", facts.refs("last_line"))
    steps = e.log.of("train_step")
    if steps:
        yield Sign("training_steps", f"training has stepped, to step {facts.value('step')}", [steps[-1].ref])
        times = [mark.time for mark in steps if mark.time is not None]
        gaps = sorted((later - earlier) / NS for earlier, later in zip(times, times[1:], strict=False) if later > earlier)
        quiet = scene.silence_s
        if gaps and quiet is not None and quiet <= 3 * gaps[len(gaps) // 2]:
            yield Sign(
                "training_goes_on",
                f"the last step is {show_duration(quiet)} old, a step takes {show_duration(gaps[len(gaps) // 2])}",
                [steps[-1].ref],
            )
    works = facts.value("generate_works")
    says_ready = any(mark.capture not in unseen for mark in ready)
    answers = works or (facts.value("health_http") == 200 and _own_port(scene) and works is not False)
    if answers and not says_ready and (e.log.records or facts.value("log_deleted")):
        yield Sign(
            "serves_unlogged",
            "the server answers, and its log never said that it is ready",
            facts.refs("generate_works", "health_http", "last_line")[:3],
        )
    if works is True:
        yield Sign("generate_works", "a real request was answered", facts.refs("generate_works"))
    if works is False:
        yield Sign("generate_fails", "a real request got no answer", facts.refs("generate_works"))
    if facts.value("health_http") == 200:
        yield Sign("health_ok", "the health endpoint answers 200", facts.refs("health_http"))
    elif (facts.value("health_http") or 0) >= 500:
        yield Sign("health_bad", f"the health endpoint answers {facts.value('health_http')}", facts.refs("health_http"))
    failed = e.log.last("health_failed")
    if failed:
        yield Sign("health_failed_line", failed.text[:140], [failed.ref])
    if facts.value("port_listening") is False:
        yield Sign("port_closed", f"nobody listens on port {facts.value('port') or '(unknown)'}", facts.refs("port_listening"))
    if facts.value("log_deleted"):
        yield Sign("log_deleted", "the server's output goes to a deleted file", facts.refs("log_deleted"))
    if e.log.records and not e.log.marks and e.log.records <= 3 and not scene.facts.value("heartbeats"):
        yield Sign(
            "log_holds_nothing", f"the log holds {e.log.records} record(s) and no line of a server", facts.refs("last_line")
        )


def _own_port(scene: Scene) -> bool:
    owner = scene.facts.value("port_owner_pid")
    return owner is not None and owner in scene.processes.by_pid


def listener(scene: Scene) -> Signs:
    """Who holds the port: the server itself, a proxy, a stranger."""
    facts = scene.facts
    bind = scene.evidence.log.last("bind_error")
    if bind:
        yield Sign("bind_error", f"the server could not bind: {bind.text[:120]}", [bind.ref])
    owner = facts.value("port_owner_pid")
    rows = [
        row for row in scene.evidence.sockets if row.get("state") == "LISTEN" and row.get("local_port") == facts.value("port")
    ]
    if not rows:
        return
    name = rows[0].get("process") or ""
    if "docker-proxy" in name or "rootlessport" in name or "kube-proxy" in name:
        yield Sign(
            "proxy_listens", f"port {facts.value('port')} is held by {name}: open does not mean ready", [ref(rows[0], name)]
        )
        return
    own = set(scene.processes.by_pid) | {mark.fields.get("server_pid") for mark in scene.evidence.log.of("http_start")}
    own |= {mark.pid for mark in scene.evidence.log.marks if mark.pid}
    known = [pid for pid in own if pid]
    if owner in own or (owner is None and known):
        yield Sign("own_listener", f"port {facts.value('port')} is held by the server (pid {owner})", [ref(rows[0], name)])
    elif owner is not None and known and scene.processes.of_role("frontend", "engine", "worker") or bind:
        yield Sign(
            "foreign_listener",
            f"port {facts.value('port')} is held by {name} pid {owner}, no process of this launch",
            [ref(rows[0], name)],
        )
    elif facts.value("port_listening"):
        yield Sign("some_listener", f"{name} (pid {owner}) listens on port {facts.value('port')}", [ref(rows[0], name)])


def orchestrator(scene: Scene) -> Signs:
    """What a cluster or a supervisor did to the launch."""
    e = scene.evidence
    reasons = {row["reason"]: row for row in e.events if row.get("reason")}
    if "Killing" in reasons and ("Unhealthy" in reasons or "probe" in (reasons["Killing"]["text"] or "")):
        row = reasons.get("Unhealthy") or reasons["Killing"]
        yield Sign(
            "probe_killed", f"the orchestrator killed it: {row['text'][:140]}", [ref(row, row["text"]), ref(reasons["Killing"])]
        )
    elif "Unhealthy" in reasons:
        yield Sign(
            "probe_fails", f"a probe of the orchestrator fails: {reasons['Unhealthy']['text'][:120]}", [ref(reasons["Unhealthy"])]
        )
    for reason in ("FailedScheduling", "Unschedulable", "PendingDemand"):
        if reason in reasons:
            row = reasons[reason]
            yield Sign("unschedulable", f"the scheduler has no place for it: {row['text'][:140]}", [ref(row, row["text"])])
    for reason in ("OOMKilled", "OOMKilling"):
        if reason in reasons:
            yield Sign("cgroup_oom_kill", f"the orchestrator reports {reason}", [ref(reasons[reason], reasons[reason]["text"])])
    terminated = e.log.last("terminated") or e.log.last("sigterm")
    if terminated:
        yield Sign("terminated_line", f"the log ends on a termination from outside: {terminated.text[:100]}", [terminated.ref])
    if scene.facts.value("signal") in (15, 143) and not terminated:
        yield Sign("terminated_line", "the launch got signal 15 from outside", scene.facts.refs("signal"))
    if scene.facts.value("restarts"):
        yield Sign("restarts", f"the launch began anew {scene.facts.value('restarts')} time(s)", scene.facts.refs("restarts"))


MAKERS = (deaths, no_death, errors, hardware, readiness, listener, orchestrator)
