"""Uninterruptible in the kernel: state D, hung tasks, dead network file systems, a SIGKILL that does nothing."""

from __future__ import annotations

import re

from kit.analyse.verdict.attribution import kernel_rows
from kit.analyse.verdict.deltas import bytes_read, deltas
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import frames
from kit.schema import Row
from kit.words import named, short

NO_WORD = re.compile(r"not respond|\blost\b|\bhung\b|\bdown\b|timed out|unreachable")
BACK = re.compile(r"\bOK\b|restored|established|reconnected|recovered")
"""What the kernel says of a file server that does not answer, and of one that does again."""
SIGKILL = re.compile(r"-(?:9|KILL|SIGKILL)\b")


def _asleep(scene: Scene) -> list[int]:
    """The pids in state D that may be stuck there: a process that has just begun reads its own program."""
    ages = {row["pid"]: row.get("elapsed_s") for row in scene.evidence.processes}
    return [pid for pid in scene.fact("d_state_pids") or [] if (age := ages.get(pid)) is None or age >= scene.limits["recent_s"]]


@rule("d_state", "d_state_twice", "d_state_idle", needs=("processes|threads|kernel_log",))
def uninterruptible(scene: Scene) -> Signs:
    """Processes in state D, and those that stay in it."""
    pids = _asleep(scene)
    if not pids:
        return
    rows = [{**row, "stuck": row.get("state") == "D"} for row in scene.evidence.processes if row["pid"] in pids]
    stays = [delta.key for delta in deltas(rows, "pid", lambda row: float(row["stuck"])).values() if delta.first and delta.last]
    refs = scene.facts.refs("d_state_pids")
    yield Sign("d_state", f"{named('pid', pids[:8])} in uninterruptible sleep (state D)", refs, scene.ranks_of(pids))
    used = [row["cpu_percent"] for row in rows if row["stuck"] and row.get("cpu_percent") is not None]
    if len(used) > 1 and not any(used):  # who reads a file sleeps in D as well, and works in between
        yield Sign("d_state_idle", f"none of the {len(used)} processes in state D has used the CPU since it was started", refs)
    if stays:
        yield Sign("d_state_twice", f"{named('pid', stays[:8])} in state D in both samples", refs)


@rule("d_state_no_io", needs=("processes", "io"))
def no_io(scene: Scene) -> Signs:
    """What sleeps in state D reads nothing."""
    pids = _asleep(scene)
    read = deltas((row for row in scene.evidence.io if row.get("pid") in (*pids, None)), "pid", bytes_read)
    if pids and read and all(delta.change == 0 for delta in read.values()):
        claim = f"{named('pid', pids[:8])} in state D read nothing between two samples"
        yield Sign("d_state_no_io", claim, scene.facts.refs("d_state_pids"))


@rule("hung_task", needs=("kernel_log",))
def hung_task(scene: Scene) -> Signs:
    """The kernel reports a task blocked for minutes."""
    for row in kernel_rows(scene, "hung_task"):
        yield Sign("hung_task", f"the kernel reports a hung task: {short(row['text'], 120)}", [ref(row, row["text"])])


@rule("kernel_frames", needs=("stacks",))
def kernel_stack(scene: Scene) -> Signs:
    """A kernel stack that stands in a driver or file system."""
    known = frames(scene.evidence.run.knowledge)
    for row in scene.evidence.stacks:
        if row.get("tool") == "kernel" and (part := known.kernel_part(row.get("function"))):
            yield Sign("kernel_frames", f"in the kernel function {row['function']}, {part[1]}", [ref(row)])


@rule("wchan_driver", "wchan_gpu", needs=("processes|threads",))
def wchan_driver(scene: Scene) -> Signs:
    """A process in state D sleeps in a driver or file system; a GPU's driver reads no file."""
    wchan = scene.fact("wchan")
    part = frames(scene.evidence.run.knowledge).kernel_part(wchan)
    if part and _asleep(scene):
        code = "wchan_gpu" if part[0] == "gpu" else "wchan_driver"
        yield Sign(code, f"sleeping in the kernel function {wchan}, {part[1]}", scene.facts.refs("wchan"))


@rule("nfs_dead", needs=("kernel_log",))
def nfs_dead(scene: Scene) -> Signs:
    """The file server does not answer, and has not come back."""
    rows = [row for row in scene.evidence.kernel_log if row.get("kind") == "nfs"]
    silent = [row for row in rows if NO_WORD.search(row["text"])]
    if silent and not any(BACK.search(row["text"]) and (row.get("line") or 0) > (silent[-1].get("line") or 0) for row in rows):
        claim = f"the file server does not respond: {short(silent[-1]['text'], 120)}"
        yield Sign("nfs_dead", claim, [ref(silent[-1], silent[-1]["text"])])


@rule("cpu_lockup", needs=("kernel_log",))
def lockup(scene: Scene) -> Signs:
    """The kernel reports a CPU that runs its own code and does not come back."""
    for row in kernel_rows(scene, "lockup")[:1]:
        yield Sign(
            "cpu_lockup",
            f"the kernel reports a CPU that does not leave its code: {short(row['text'], 120)}",
            [ref(row, row["text"])],
        )


@rule("sigkill_ignored", needs=("processes",))
def sigkill_ignored(scene: Scene) -> Signs:
    """A process outlives SIGKILL: it was sent and is pending, or the process is seen alive after it."""
    for row in scene.evidence.processes:
        if row.get("sigkill_pending") and row.get("state") not in ("Z", "X"):
            yield Sign("sigkill_ignored", f"SIGKILL is pending for pid {row['pid']}, and does not end it", [ref(row)])
    for row in scene.evidence.events:
        if row["source"] == "shell" and row.get("reason") == "Kill" and SIGKILL.search(row["text"]):
            if any(_seen_after(int(pid), row, scene) for pid in re.findall(r"\b\d{2,}\b", row["text"])):
                yield Sign("sigkill_ignored", f"SIGKILL had no effect: {short(row['text'], 80)}", [ref(row, row["text"])])


def _seen_after(pid: int, kill: Row, scene: Scene) -> bool:
    """Whether a process was seen alive after somebody killed it; what stands in another file than the kill is saved after it."""
    process = scene.processes.by_pid.get(pid)
    if process is None or process.dead:
        return False
    looks = [*process.rows, *(row for row in scene.evidence.stacks if row.get("pid") == pid)]
    return any(row["capture"] != kill["capture"] or (row.get("line") or 0) > (kill.get("line") or 0) for row in looks)
