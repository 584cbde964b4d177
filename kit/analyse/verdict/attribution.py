"""Whose evidence it is: lines of a shared machine's kernel log that are not about this launch are set aside, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.scene import Scene
from kit.clock import NS, show_duration
from kit.schema import Row
from kit.words import count_of, named

TASK_GROUP = re.compile(r"\btask_memcg=([^,\s]+)")
"""Control group of the process that the OOM killer chose."""
WORDS = {"oom_kill": "OOM kill", "segfault": "crash", "xid": "Xid", "hung_task": "hung task"}
"""Kinds of lines that name a process."""
PLURALS = {"crash": "crashes"}
SERVING_ROLES = ("frontend", "engine", "worker")
DAY_S = 86400


def kernel_rows(scene: Scene, *kinds: str) -> list[Row]:
    """Lines of the kernel log of some kinds, without those of something else."""
    rows = [row for row in scene.evidence.kernel_log if row.get("kind") in kinds]
    return [row for row in rows if not_of_launch(row, scene) is None]


def not_of_launch(row: Row, scene: Scene) -> str | None:
    """Why a line of the kernel log is not about the launch; None where it is, or may be."""
    pid, limits = row.get("pid"), scene.limits
    if pid is not None and pid in launch_pids(scene):
        return None
    began = _began(scene)
    if began is not None and row.get("time") is not None:
        early_s = (began - row["time"]) / NS
        # Without the host's zone two clocks may differ by hours.
        if early_s > (limits["before_launch_s"] if scene.evidence.run.offset_known else DAY_S):
            return f"{show_duration(early_s)} before the launch began"
    group, own = _group(row, scene), {p["cgroup"] for p in scene.evidence.processes if p.get("cgroup")}
    if group and own and not any(group.startswith(known) or known.startswith(group) for known in own):
        return f"in control group {group}"
    # Pids of a container are others on the host, so a pid alone parts nothing; that nobody of the launch has died does.
    if row["kind"] in ("oom_kill", "segfault") and _complete(scene):
        return "all ranks of the launch are alive"
    return None


def launch_pids(scene: Scene) -> set[int]:
    """Pids of the launch: of the process table, and of those that wrote to its log."""
    return set(scene.processes.by_pid) | {pid for pids in scene.log.writers.values() for pid in pids}


def _began(scene: Scene) -> int | None:
    """When the launch began, the earliest that anything says."""
    run, pid = scene.evidence.run, (scene.evidence.run.manifest.get("launch") or {}).get("pid")
    starts = [
        row["time"] - int(row["elapsed_s"] * NS)
        for process in scene.processes.by_pid.values()
        if process.role in SERVING_ROLES or process.pid == pid
        for row in process.rows
        if row.get("elapsed_s") is not None and row.get("time") is not None
    ]
    return min([*starts, *(zero for zero in (run.launch_zero_ns,) if zero is not None)], default=None)


def _group(row: Row, scene: Scene) -> str | None:
    """Control group of the process that a line names, by any line about it."""
    texts = (other["text"] for other in scene.evidence.kernel_log if other.get("pid") == row.get("pid") is not None)
    return next((match[1] for text in texts if (match := TASK_GROUP.search(text))), None)


def _complete(scene: Scene) -> bool:
    """Whether all ranks were seen alive, and nothing tells of an end."""
    seen = [process for process in scene.processes.workers if process.states]
    return len(seen) == scene.processes.world_size and not any(process.dead for process in seen) and not death_told(scene)


def death_told(scene: Scene) -> bool:
    """Whether anything of the launch itself tells of a death or an end."""
    marks = scene.log.of("worker_died", "segfault", "abort", "killed", "sigquit", "watchdog_exit")
    return bool(marks or scene.fact("ranks_dead") or scene.fact("exited") or scene.fact("signal"))


def set_aside(scene: Scene) -> Iterator[dict]:
    """A finding about what was set aside, counted by reason."""
    rows = [row for row in scene.evidence.kernel_log if row.get("kind") in WORDS]
    reasons = [(row, why) for row in rows if (why := not_of_launch(row, scene))]
    if reasons:
        row, why = reasons[-1]
        kinds = Counter(WORDS[other["kind"]] for other, _ in reasons)
        counted = ", ".join(count_of(number, kind, PLURALS.get(kind)) for kind, number in kinds.items())
        whom = f" of {named('pid', [row['pid']])}" if row.get("pid") is not None else ""
        yield {
            "code": "not_of_this_launch",
            "severity": "warning",
            "claim": f"set aside in the kernel log: {counted}; the last{whom}, not of this launch: {why}",
            "evidence": [ref(other, other["text"]) for other, _ in reasons[-3:]],
            "next": "nothing, unless that process was part of this launch after all",
        }
