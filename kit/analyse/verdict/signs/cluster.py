"""What a cluster or a supervisor did to the launch, and what it has no room for."""

from __future__ import annotations

import re

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.schema import Row
from kit.words import count_of, short

PROBE_KILL = re.compile(r"probe|unhealthy")
"""What the kubelet says of a container that it ends for its health; of one that is deleted or moved it says only so."""
BUNDLE = re.compile(r"\{([^{}]*)\}(?: \* (\d+))?")
PENDING_JOB = re.compile(r" (?:PD|PENDING|CF|CONFIGURING) ")
"""States in which squeue shows a job that was not begun."""
RESOURCE = re.compile(r"'([^']+)': ([\d.]+)")


def _by_reason(scene: Scene) -> dict[str, Row]:
    """The last event of each reason."""
    return {row["reason"]: row for row in scene.evidence.events if row.get("reason")}


@rule("probe_killed", "probe_fails", "probe_pending", needs=("events",))
def probes(scene: Scene) -> Signs:
    """A probe of the orchestrator fails, and the orchestrator kills for it; or it has killed nothing yet, or never does."""
    killing = _by_reason(scene).get("Killing")
    failed = [row for row in scene.evidence.events if row.get("reason") == "Unhealthy"]
    deadly = [row for row in failed if "Readiness probe" not in row["text"]]  # who is not ready gets no requests, and lives
    if killing and (deadly or PROBE_KILL.search(killing["text"])):
        row = (deadly or [killing])[-1]
        again = scene.fact("ready") and _undone(killing, _by_reason(scene), ("Started",))
        code, claim = (
            ("probe_fails", "a container of it was killed, and it came up since")
            if again
            else ("probe_killed", "the orchestrator killed it")
        )
        yield Sign(code, f"{claim}: {short(row['text'], 140)}", [ref(row, row["text"]), ref(killing)])
    elif failed and (not deadly or _first_container_lives(scene)):
        claim = "nothing is killed for a readiness probe" if not deadly else "its first container runs on"
        yield Sign(
            "probe_pending", f"a probe is not passed yet, and {claim}: {short(failed[-1]['text'], 100)}", [ref(failed[-1])]
        )
    elif deadly:
        yield Sign("probe_fails", f"a probe of the orchestrator fails: {short(deadly[-1]['text'], 120)}", [ref(deadly[-1])])


def _first_container_lives(scene: Scene) -> bool:
    """Whether the orchestrator shows a container that was never started again, and of no end."""
    shown = any(row.get("reason") in ("State", "RestartCount", "Running") for row in scene.evidence.events)
    return shown and scene.fact("restarts") == 0 and not scene.fact("exited")


@rule("unschedulable", needs=("events",))
def unschedulable(scene: Scene) -> Signs:
    """The scheduler has no place for it."""
    events = _by_reason(scene)
    for reason in ("FailedScheduling", "Unschedulable", "PendingDemand"):
        if (row := events.get(reason)) and not _undone(row, events, ("Scheduled",)):
            yield Sign("unschedulable", f"it cannot be scheduled: {short(row['text'], 140)}", [ref(row, row["text"])])
    row = events.get("Pending")
    if row and row["source"] == "kubernetes":
        yield Sign("unschedulable", f"the pod is pending: {short(row['text'], 120)}", [ref(row)])
    waits = [row for row in events.values() if row["source"] == "slurm" and PENDING_JOB.search(row["text"])]
    if waits:
        yield Sign("unschedulable", f"the job is pending: {short(waits[-1]['text'], 120)}", [ref(waits[-1])])


BLOCKS = {
    "FailedMount": "a volume cannot be mounted",
    "FailedAttachVolume": "a volume cannot be attached",
    "ProvisioningFailed": "a volume cannot be provisioned",
    "FailedBinding": "a volume claim is not bound",
    "FailedCreatePodSandBox": "its sandbox cannot be created",
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the node",
    "InvalidImageName": "its image has no valid name",
    "CreateContainerConfigError": "its configuration is not complete",
    "CreateContainerError": "its container cannot be created",
}
"""Reasons of Kubernetes for a pod whose containers do not begin, and what they mean."""


@rule("container_blocked", needs=("events",))
def blocked(scene: Scene) -> Signs:
    """Kubernetes cannot begin the container: its volume, image or sandbox is not there."""
    events = _by_reason(scene)
    failed = events.get("Failed")
    if failed and (named := next((reason for reason in BLOCKS if reason in failed["text"]), None)):
        events.setdefault(named, {**failed, "reason": named})  # the kubelet's word for several reasons
    rows = [row for reason in BLOCKS if (row := events.get(reason)) and not _undone(row, events, ("Started", "Created"))]
    if rows:
        claim = f"the container was not started: {BLOCKS[rows[0]['reason']]} ({rows[0]['reason']}: {short(rows[0]['text'], 120)})"
        yield Sign("container_blocked", claim, [ref(row, row["text"]) for row in rows[:2]])


@rule("probe_killed", needs=("log",))
def ended_unanswered(scene: Scene) -> Signs:
    """Who runs the container says in its log that it ended it, since no probe was answered."""
    if (mark := scene.log.last("probe_killed")) and not scene.fact("ready"):
        yield Sign("probe_killed", f"the orchestrator ended it: {short(mark.text, 140)}", [mark.ref])


@rule("probe_killed", "cgroup_oom_kill", needs=("events",))
def evicted(scene: Scene) -> Signs:
    """The node or the scheduler sent it away."""
    events = _by_reason(scene)
    if row := events.get("Evicted") or events.get("Preempted") or events.get("Preempting"):
        memory = re.search(r"resource: memory|MemoryPressure", row["text"] or "")
        claim = f"it was sent away ({row['reason']}): {short(row['text'], 120)}"
        yield Sign("cgroup_oom_kill" if memory else "probe_killed", claim, [ref(row, row["text"])])


def _undone(row: Row, events: dict[str, Row], by: tuple[str, ...]) -> bool:
    """Whether an event that came after it shows that it is over: of two ages the smaller is later, else the later line."""
    return any(_moment(later) > _moment(row) for reason in by if (later := events.get(reason)))


def _moment(row: Row) -> tuple[float, int]:
    return -(row.get("age_s") or 0.0), row.get("line") or 0


@rule("terminated_line")
def terminated(scene: Scene) -> Signs:
    """It was asked to end from outside; what an interrupt passed on to its own is none."""
    if scene.log.of("interrupted"):
        return
    if mark := scene.log.last("terminated") or scene.log.last("sigterm"):
        yield Sign("terminated_line", f"it was told to terminate: {short(mark.text, 100)}", [mark.ref])
    elif scene.fact("signal") in (15, 143):
        yield Sign("terminated_line", "the launch got signal 15 from outside", scene.facts.refs("signal"))


@rule("restarts", "restart_loop")
def restarts(scene: Scene) -> Signs:
    """The launch was started again; again and again, and never came up."""
    if times := scene.fact("restarts"):
        yield Sign("restarts", f"restarted {count_of(times, 'time')}", scene.facts.refs("restarts"))
        if times >= scene.limits["restart_loop"] and not scene.fact("ready"):
            claim = f"it was started again {count_of(times, 'time')} and is not ready: each start fails"
            yield Sign("restart_loop", claim, scene.facts.refs("restarts"))


@rule("placement_wait", "resources_short_line", "queue_line", needs=("log",))
def waits_for_resources(scene: Scene) -> Signs:
    """The log says that something waits for resources."""
    if mark := scene.log.last("placement_wait"):
        yield Sign("placement_wait", f"Ray waits for a placement group: {short(mark.text, 120)}", [mark.ref])
    scarce = scene.log.of("insufficient_resources")
    scarce += [mark for mark in scene.log.of("replica_wait") if mark.fields.get("stage") == "scheduled"]
    queued = scene.log.last("queued")
    if scarce:
        yield Sign("resources_short_line", f"insufficient resources: {short(scarce[-1].text, 140)}", [scarce[-1].ref])
    elif queued and scene.log.records_after(queued) <= STILL_QUEUED:
        yield Sign("queue_line", f"the log ends on its place in a queue: {short(queued.text, 140)}", [queued.ref])


STILL_QUEUED = 3
"""Records of a log's end: what is said of a queue further up is over."""


@rule("demand_pending", "demand_over_supply", needs=("counters",))
def ray_demand(scene: Scene) -> Signs:
    """A Ray cluster with demands that it cannot place, and with less free of something than is asked for."""
    evidence = scene.evidence
    rows = [row for row in evidence.counters if row["source"] == "ray"]
    if not rows:
        return
    amounts = {row["name"]: row["value"] for row in rows}
    asked = [
        (row["text"], ref(row)) for row in evidence.events if row["source"] == "ray" and row.get("reason") == "PendingDemand"
    ]
    if mark := scene.log.last("placement_wait"):
        asked.append((mark.text, mark.ref))
    for text, where in asked:
        yield Sign("demand_pending", f"Ray cannot place: {short(text, 120)}", [where])
        if lacks := _short_of(text, amounts):
            yield Sign("demand_over_supply", lacks, [where, ref(rows[0])])
            return


def _short_of(text: str, amounts: dict[str, float]) -> str | None:
    """What a demand asks for beyond what is free, as a sentence."""
    kinds_listed = any(name.startswith("accelerator_type:") for name in amounts)
    for name, need in demand(text).items():
        if name.startswith("node:") or name.startswith("accelerator_type:") and not kinds_listed:
            continue  # `ray status` shows no amounts of these
        total = amounts.get(f"{name.lower()}_total", 0.0)
        free = total - amounts.get(f"{name.lower()}_used", 0.0)
        if free < need:
            return f"{need:g} {name} requested, {free:g} of {total:g} free in the Ray cluster"
    return None


def demand(text: str) -> dict[str, float]:
    """Resources that a demand of Ray sums up to, by name.

    Examples
    --------
    >>> demand("{'CPU': 1.0, 'GPU': 1.0} * 1, {'GPU': 1.0} * 3 (STRICT_PACK): 1+ pending placement groups")
    {'CPU': 1.0, 'GPU': 4.0}
    """
    needs: dict[str, float] = {}
    for bundle, times in BUNDLE.findall(text):
        for name, value in RESOURCE.findall(bundle):
            needs[name] = needs.get(name, 0.0) + float(value) * int(times or 1)
    return needs
