"""How a container or job ended, as its orchestrator says: Kubernetes' states, docker's, Slurm's."""

from __future__ import annotations

import re
import signal

from kit.analyse.verdict.evidence import Evidence, ref
from kit.untrusted import signal_of

ENDED = {
    "kubernetes": frozenset(
        "Error Completed OOMKilled CrashLoopBackOff Evicted ContainerCannotRun DeadlineExceeded Failed".split()
    ),
    "docker": frozenset(("exited", "Exited", "die", "dead", "Dead", "oom")),
    "slurm": frozenset(
        "FAILED CANCELLED TIMEOUT COMPLETED OUT_OF_MEMORY OUT_OF_ME NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE".split()
    ),
}
"""Reasons and states that say that it is over: kubectl's REASON and STATUS, `docker ps` and `docker events`, sacct's State."""
_STATE = {"State": "Terminated", "Status": "exited"}
"""The same in `kubectl describe` and `docker inspect`."""
_RUNS = re.compile(r"(?i)\brunning\b|\bup\b|\bpending\b")
_RESTARTS = re.compile(r"^Restart ?Count:\s+(\d+)$|^(?:\S+ +)?\S+ +\d+/\d+ +[A-Z]\S+ +(\d+)(?: |$)")
"""`kubectl describe`, `docker inspect`; `kubectl get pods`: NAMESPACE NAME READY STATUS RESTARTS."""
_CODE = re.compile(r"(?i)\bexit ?-?code\W+(-?\d+)(?::(\d+))?|\bExited \((\d+)\)|\bexitCode=(\d+)")


def ended(evidence: Evidence) -> dict | None:
    """Where the orchestrator says that the launch is over; None where it runs, or where of several one does."""
    over: dict[str, dict | None] = {}
    for row in sorted(evidence.events, key=lambda row: (-(row.get("age_s") or 0.0), row.get("line") or 0)):
        reason, name = str(row.get("reason") or ""), str(row.get("object") or "").rpartition("/")[2].partition(".")[0]
        if reason in ENDED.get(row["source"], ()) or reason in _STATE and _STATE[reason] in row["text"]:
            over[name] = ref(row, row["text"])
        elif reason in _STATE and _RUNS.search(row["text"]) or row["source"] != "kubernetes" and _RUNS.fullmatch(reason):
            over[name] = None
    last = list(over.values())
    return last[-1] if last and None not in last else None


def restarts(evidence: Evidence) -> tuple[int, list[dict]] | None:
    """How often the orchestrator says that it started the container again: the container that was started most often counts."""
    told = [
        (int(found[1] or found[2]), ref(row, row["text"])) for row in evidence.events if (found := _RESTARTS.search(row["text"]))
    ]
    told += [(mark.fields["restarts"], mark.ref) for mark in evidence.log.of("unit_restarted")]
    told += [  # started twice is started again once
        (row["times"] - 1, ref(row, row["text"])) for row in evidence.events if row["reason"] == "Started" and row.get("times")
    ]
    most = max(told, key=lambda pair: pair[0], default=None)
    return (most[0], [most[1]]) if most else None


def exit_signal(evidence: Evidence) -> tuple[int, list[dict]] | None:
    """The signal in the last exit code that an orchestrator gives: 137 is 9, Slurm's 0:9 too."""
    for row in reversed(evidence.events):
        if row["source"] in ENDED and (found := _CODE.search(row["text"])) and (number := _signal(found)):
            return number, [ref(row, row["text"])]
    return None


def _signal(found: re.Match[str]) -> int:
    code = int(next(text for text in (found[1], found[3], found[4]) if text is not None))
    number = int(found[2] or 0) or signal_of(code) or 0
    return number if number <= signal.SIGRTMAX else 0  # Slurm says 0:125 of a job that was killed for memory


def failure(evidence: Evidence) -> dict | None:
    """Where the orchestrator says that the launch failed, or gives an exit code that is none of order; SIGTERM's is."""
    for row in reversed(evidence.events):
        found = _CODE.search(row["text"]) if row["source"] in ENDED else None
        code = next((text for text in (found[1], found[3], found[4]) if text is not None), "0") if found else "0"
        if row.get("reason") in ("FAILED", "NODE_FAIL", "BOOT_FAIL") or int(code) not in (
            0,
            128 + signal.SIGTERM,
            -signal.SIGTERM,
        ):
            return ref(row, row["text"])
    return None
