"""Whose evidence it is: rows about another process, container, GPU, pod or moment are set aside, with the reason.

`set_aside` moves them out of the gathered evidence before any fact or sign is made of it; what nothing ties or parts stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.analyse.verdict import devices, pods, reporter
from kit.analyse.verdict.evidence import Evidence, Foreign, ref
from kit.analyse.verdict.failures import cause
from kit.analyse.verdict.gpu_generation import xids
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.processes import SERVING_ROLES, Processes, Titles, started, titles_of
from kit.analyse.verdict.thresholds import thresholds
from kit.clock import NS, show_duration
from kit.parse.procfs import TICKS_PER_S
from kit.parse.script import is_launch
from kit.schema import Row
from kit.words import count_of, named

if TYPE_CHECKING:
    from kit.analyse.verdict.scene import Scene

TASK_GROUP = re.compile(r"\btask_memcg=([^,\s]+)")
"""Control group of the process that the OOM killer chose."""
GROUP_FILE = re.compile(r"/sys/fs/cgroup(?:/memory)?(/\S+)/[\w.]+$")
WORDS = {
    **{
        "oom_kill": "OOM kill",
        "segfault": "crash",
        "xid": "Xid",
        "hung_task": "hung task",
        "d_state": "task in state D",
        "gpu_lost": "lost GPU",
    },
    "gpu_job_timeout": "GPU timeout",
    **{"ecc": "memory error", "gpus": "GPU sample", "gpu_processes": "GPU process", "events": "event", "counters": "counter"},
    **{"processes": "server", "log": "log", "errors": "error", "attempts": "launch", "statements": "claim"},
}
"""What is counted as set aside: kinds of kernel lines, else frames."""
PLURALS = {"crash": "crashes", "GPU process": "GPU processes", "launch": "launches"}
HOST_PIDS = "pid:[4026531836]"
"""Pid namespace of the host itself (PROC_PID_INIT_INO of include/linux/proc_ns.h): pids there are those of the kernel's log."""
HALF_HOUR_S, DAY_S = 1800, 86400


@dataclass(frozen=True)
class Ties:
    """What ties evidence to the launch; what is not known is None or empty."""

    pids: set[int]
    began: int | None
    began_uptime_s: float | None
    before_s: float
    before_exact_s: float
    groups: set[str]
    group_of: dict[int, str]
    stuck: bool
    titles: Titles
    devices: devices.Devices
    pods: pods.Pods
    lists: set[str]
    others_from: dict[str, int]
    program_xids: frozenset[int]
    known: bool
    """A grammar knows the server, and so the names of its programs."""


def set_aside(evidence: Evidence, processes: Processes) -> None:
    """Move rows that are not about the launch to `evidence.foreign`."""
    _earlier_errors(evidence)
    ties = _ties(evidence, processes)
    for frame, reason in REASONS.items():
        kept = []
        for row in evidence.rows[frame]:
            why = reason(row, ties)
            if why is None:
                kept.append(row)
            else:
                evidence.foreign.append(Foreign(frame, row, why))
        evidence.rows[frame] = kept


def _earlier_errors(evidence: Evidence) -> None:
    """Errors from before the last start in the same log are those of the launch before, once the last one has come further."""
    log, begun = evidence.log, _last_starts(evidence)
    come = {mark.log for mark in log.marks if mark.kind == "progress" and mark.order > begun.get(mark.log, mark.order)}
    early = [mark for mark in log.marks if mark.kind == "error" and mark.log in come and mark.order <= begun[mark.log]]
    if early:
        orders = {mark.order for mark in early}
        log.marks = [mark for mark in log.marks if mark.order not in orders]
        evidence.foreign += [Foreign("errors", mark.ref, "before the last start in the same log") for mark in early]


def _last_starts(evidence: Evidence) -> dict[str, int]:
    """By log, the place of its last start: as it says, after the last command in its file that starts something, or where it
    goes on half an hour after an error, when all that the error ended has ended."""
    typed = {row["capture"]: row["line"] for row in evidence.commands if is_launch(row["text"])}
    begun: dict[str, int] = {}
    failed: dict[str, Mark] = {}
    for mark in evidence.log.marks:
        last = failed.get(mark.log)
        if "start" in mark.fields:
            begun[mark.log] = mark.order
        elif mark.kind == "error":
            failed[mark.log] = mark
        elif last is not None and (_half_an_hour(last, mark) or last.line < typed.get(mark.capture, 0) < mark.line):
            begun[mark.log] = failed.pop(mark.log).order
    return begun


def _half_an_hour(one: Mark, other: Mark) -> bool:
    """Whether work comes so long after an error."""
    timed = other.kind == "progress" and None not in (one.time, other.time)
    return timed and other.time - one.time > HALF_HOUR_S * NS


def _ties(evidence: Evidence, processes: Processes) -> Ties:
    run, pids = evidence.run, pids_of(evidence, processes)
    own = [row for row in evidence.processes if row["pid"] in pids]
    limits = thresholds(run.knowledge)
    launch = run.manifest.get("launch") or {}
    ticks = [row["start_ticks"] for row in [*own, launch] if row.get("start_ticks")]
    return Ties(
        pids=pids,
        began=_began(evidence, processes),
        began_uptime_s=min(ticks) / TICKS_PER_S if ticks else None,
        # Without the host's zone two clocks may differ by hours.
        before_s=limits["before_launch_s"] if run.offset_known else DAY_S,
        before_exact_s=limits["before_known_start_s"] if launch.get("started_at") else limits["before_launch_s"],
        groups={row["cgroup"] for row in own if row.get("cgroup") not in (None, "", "/")},
        group_of={
            row["pid"]: match[1] for row in evidence.kernel_log if row.get("pid") and (match := TASK_GROUP.search(row["text"]))
        },
        stuck=not own or any(row.get("state") == "D" for row in [*own, *evidence.threads]),
        titles=titles_of(evidence),
        devices=devices.devices(evidence, processes, pids),
        pods=pods.pods(evidence),
        lists=reporter.lists(evidence),
        others_from=reporter.others_from(evidence),
        program_xids=xids("application", run.knowledge),
        known=evidence.log.server is not None,
    )


def pids_of(evidence: Evidence, processes: Processes) -> set[int]:
    """Pids of the launch: its server's processes and what they started, and those that wrote to its log.

    Where nothing in a process table looks like a server, all of it counts.
    """
    table = processes.by_pid
    roots = {p.pid for p in table.values() if p.role in SERVING_ROLES or p.rank is not None or _sampled(p.rows)}
    roots |= {(evidence.run.manifest.get("launch") or {}).get("pid")} & table.keys()
    tree = set(roots) or set(table)
    while more := {p.pid for p in table.values() if p.ppid in tree} - tree:
        tree |= more
    tree |= _told_of(evidence)
    # Inside a container a process writes another pid than the host's kernel and tools know it by.
    inside = {row["container_pid"] for row in evidence.processes if row.get("container_pid")}
    return tree | {pid for writers in evidence.log.writers.values() for pid in writers} - inside


_PID = re.compile(r"\bpid(?:\(s\)|s)?\W{0,3}(\d+(?:, ?\d+)*)|\b(?:[Cc]hild|[Ww]orker|[Ss]ub)? ?[Pp]rocess\W{0,3}(\d{2,})\b")
"""How an error names the process that it tells of."""


def _told_of(evidence: Evidence) -> set[int]:
    """Pids of which errors in the log tell: a data loader's, a child's, that write nothing themselves."""
    errors = [mark.text for mark in evidence.log.marks if mark.kind == "error" and mark.code not in ("gpu_oom", "bind_error")]
    found = [match[1] or match[2] for text in errors for match in _PID.finditer(text)]
    return {int(pid) for pids in found for pid in re.findall(r"\d+", pids)}


def _sampled(rows: list[Row]) -> bool:
    """The sampler looks at the processes of the launch only."""
    return any(row.get("tool") == "sampler" for row in rows)


def _began(evidence: Evidence, processes: Processes) -> int | None:
    """When the launch began, the earliest that anything says."""
    run, pid = evidence.run, (evidence.run.manifest.get("launch") or {}).get("pid")
    starts = [
        at
        for process in processes.by_pid.values()
        if process.role in SERVING_ROLES or process.pid == pid
        for row in process.rows
        if (at := started(row)) is not None
    ]
    several = any(item.frame == "log" for item in evidence.foreign)  # the run's zero is that of the first of them
    zero = evidence.log.first_time if several else run.launch_zero_ns
    return min([*starts, zero] if zero is not None else starts, default=None)


def _kernel(row: Row, ties: Ties) -> str | None:
    """A line of the kernel log: by pid, moment, control group, GPU, and whether anything of the launch is stuck."""
    kind, pid, name = row.get("kind"), row.get("pid"), row.get("process")
    if kind not in WORDS or pid in ties.pids:
        return None
    early_s, least_s = None, ties.before_s
    if ties.began_uptime_s is not None and row.get("uptime_s") is not None:
        early_s, least_s = ties.began_uptime_s - row["uptime_s"], ties.before_exact_s
    elif ties.began is not None and row.get("time") is not None:
        early_s = (ties.began - row["time"]) / NS
    if early_s is not None and early_s > least_s:
        return f"{show_duration(early_s)} before the launch began"
    group = ties.group_of.get(pid) if pid else None
    if group and _another(group, ties):
        return f"in control group {group}"
    gpu = ties.devices.foreign_bus(row.get("bus_id"))
    if gpu is not None:
        return f"about GPU {gpu}, which the launch does not use"
    if kind in ("hung_task", "d_state") and not ties.stuck and not ties.titles.may_serve(name):
        return f"{name}, and nothing of the launch is in state D"
    whose = name and not name.startswith("<")  # NVRM: <unknown>
    programs = kind == "segfault" and pid and (ties.pids or ties.known) or row.get("xid") in ties.program_xids and whose
    if programs and not ties.titles.may_serve(name):
        return f"{name}, a program that is not a server's"
    return None


def _another(group: str, ties: Ties) -> bool:
    """Whether a control group is neither one of the launch's, nor above or below one."""
    return bool(ties.groups) and not any(
        f"{group}/".startswith(f"{own}/") or f"{own}/".startswith(f"{group}/") for own in ties.groups
    )


def _counter(row: Row, ties: Ties) -> str | None:
    labels = row.get("labels") or ""
    if row["source"] == "cgroup" and (match := GROUP_FILE.search(labels)) and _another(match[1], ties):
        return f"in control group {match[1]}"
    number = re.match(r'gpu="(\d+)"', labels) if row["source"] == "gpu" else None
    return _gpu({"gpu": int(number[1])}, ties) if number else None


def _gpu(row: Row, ties: Ties) -> str | None:
    return ties.devices.source if ties.devices.foreign(row.get("gpu")) else None


REASONS: dict[str, Callable[[Row, Ties], str | None]] = {
    "kernel_log": _kernel,
    "gpus": _gpu,
    "gpu_processes": _gpu,
    "counters": _counter,
    "events": lambda row, ties: ties.pods.foreign(row),
    "statements": lambda row, ties: (
        "from a list of known errors"
        if row["capture"] in ties.lists
        else "by somebody whose launch is another"
        if row["line"] >= ties.others_from.get(row["capture"], row["line"] + 1)
        else None
    ),
}
"""Why a row of a frame is not about the launch; None where it is, or may be."""


def kernel_rows(scene: Scene, *kinds: str) -> list[Row]:
    """Lines of the kernel log of some kinds; kills and crashes only where somebody of the launch may have died of them."""
    rows = [row for row in scene.evidence.kernel_log if row.get("kind") in kinds]
    return [row for row in rows if not _nobody_died(row, scene)]


def _nobody_died(row: Row, scene: Scene) -> bool:
    # Pids of a container are others on the host, so a pid alone parts nothing; that nobody of the launch has died does.
    deadly = row.get("kind") in ("oom_kill", "segfault")
    return deadly and row.get("pid") not in launch_pids(scene) and all_alive(scene)


def launch_pids(scene: Scene) -> set[int]:
    """Pids of the launch."""
    return pids_of(scene.evidence, scene.processes)


def all_alive(scene: Scene) -> bool:
    """Whether all ranks were seen alive, and nothing tells of an end."""
    seen = [process for process in scene.processes.workers if process.states]
    return len(seen) == scene.processes.world_size and not any(process.dead for process in seen) and not death_told(scene)


def deaths_known(scene: Scene) -> bool:
    """Whether the dead ranks are known by the pids of the kernel's own log: a kill of another pid is none of theirs."""
    spaces = {row["value"] for row in scene.evidence.host if row.get("key") == "pid_ns"}
    dead = scene.fact("ranks_dead")
    return spaces == {HOST_PIDS} and bool(dead) and set(dead) <= scene.processes.rank_pid.keys()


def death_told(scene: Scene) -> bool:
    """Whether anything of the launch itself tells of a death or an end."""
    marks = scene.log.of("worker_died", "segfault", "abort", "killed", "sigquit", "watchdog_exit")
    return bool(marks or scene.fact("ranks_dead") or scene.fact("exited") or scene.fact("signal"))


def killed_silently(scene: Scene) -> bool:
    """Whether something of the launch died in a way that a kill for want of memory explains: by SIGKILL, or without an error."""
    if scene.fact("signal") not in (None, 9):
        return False
    return scene.fact("signal") == 9 or bool(scene.fact("ranks_dead")) and cause(scene.log) is None


def foreign(scene: Scene) -> list[Foreign]:
    """All that was set aside."""
    rows = [row for row in scene.evidence.kernel_log if _nobody_died(row, scene)]
    return [*scene.evidence.foreign, *(Foreign("kernel_log", row, "all ranks of the launch are alive") for row in rows)]


def finding(scene: Scene) -> Iterator[dict]:
    """A finding about what was set aside, counted by kind, with the last of each reason."""
    aside = foreign(scene)
    if aside:
        words = Counter(WORDS[item.row["kind"] if item.frame == "kernel_log" else item.frame] for item in aside)
        counted = ", ".join(count_of(number, word, PLURALS.get(word)) for word, number in words.items())
        last = list({item.why: item for item in aside}.values())[-3:]
        reasons = "; ".join(f"{_whom(item.row)}{item.why}" for item in last)
        yield {
            "code": "not_of_this_launch",
            "severity": "warning",
            "claim": f"set aside as not of this launch: {counted}; {reasons}",
            "evidence": [ref(item.row, item.row.get("text")) for item in aside[-3:]],
            "next": "nothing, unless that was part of this launch after all",
        }


def _whom(row: Row) -> str:
    return f"{named('pid', [row['pid']])}: " if row.get("pid") is not None else ""
