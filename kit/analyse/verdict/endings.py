"""Whether a launch was ended in order: it finished, or somebody told it to end before any error of its own.

An error that comes after the order to end is its echo (`EngineDeadError`, exit code -15); one that comes before and was not
survived is the cause of the end, however orderly the shutdown looks that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.failures import ENDING, cause, closes, final_end
from kit.analyse.verdict.log_digest import LogDigest, Mark
from kit.analyse.verdict.processes import Processes, Titles, titles_of
from kit.analyse.verdict.thresholds import thresholds
from kit.clock import NS
from kit.schema import Row
from kit.words import short


@dataclass(frozen=True)
class Ending:
    """How it ended: `finished` by itself, `told` by somebody, or `gone`: only what a process tree leaves behind shows it."""

    how: str
    mark: Mark

    @property
    def claim(self) -> str:
        """A sentence with the line that shows it."""
        text = short(self.mark.text, 140)
        if self.mark.code == "restart_asked":
            return f"it ended with an exit code that asks to be started again: {text}"
        if self.how == "finished":
            return f"it finished its work: {text}"
        if self.how == "gone":
            return f"its processes are gone: {text}"
        who = "somebody interrupted it (SIGINT)" if self.mark.code == "interrupted" else "it was told to end"
        return f"{who}, before any error of its own: {text}"


def ending(log: LogDigest) -> Ending | None:
    """The orderly end of the launch; None while it lives, and where an error of its own ended it."""
    ends = [mark for mark in log.marks if mark.role in ENDING or mark.code == "tree_gone"]
    ends += [mark for mark in log.marks if mark.kind != "error" and closes(log, mark)]
    last = max(ends, key=lambda mark: mark.order, default=None)
    if last is None or log.last_life.get(last.log, -1) > last.order:
        return None
    final = final_end(log, last.log)
    begun = min((mark.order for mark in final), default=last.order)
    reason = cause(log)
    if reason is not None and reason.role == "initiating" and (reason.order < begun or reason.code == "collective_timeout"):
        return None  # a collective that ranks wait in after the work is done is no order either
    if any(mark.order < begun for mark in log.of("worker_died")):
        return None  # it shut down since somebody had died, whose last words are not here
    finished = next((mark for mark in final if mark.role == "finished"), None)
    if finished is not None:
        return Ending("finished", finished)
    if final:
        by_hand = next((mark for mark in final if mark.code == "interrupted"), final[0])  # what it passed on stands before it
        return Ending("told" if final[0].role == "ending" else "finished", by_hand)
    return None if log.of("worker_died", "exit_failed", "killed", "segfault", "abort") else Ending("gone", last)


def outliving(evidence: Evidence, processes: Processes) -> tuple[Row, str] | None:
    """An engine or a worker that was seen alive well after its log had ended: its row, and words for it; None without one.

    A front end tells the end for all; what it could not end stays. One that another front end has started since is none.
    """
    ended, titles = evidence.log.last_time, titles_of(evidence)
    if any(not process.dead and process.states for process in processes.of_role("frontend")):
        return None
    looked = evidence.run.captured_ns if evidence.run.captured_known else None
    after = ended + int(thresholds(evidence.run.knowledge)["recent_s"] * NS) if ended is not None else None
    alive = [process.rows[-1] for process in processes.of_role("engine", "worker") if process.states and not process.dead]
    held = [row for row in evidence.gpu_processes if titles.role(row.get("process") or "") in ("engine", "worker")]
    for row in [*alive, *held]:
        late = after is not None and (row.get("time") or looked or 0) > after
        if late or row.get("ppid") == 1 and _orphan(row["pid"], evidence, titles):
            name = row.get("process") or row.get("cmdline") or row.get("comm") or ""
            return row, f"{name} (pid {row['pid']})".strip()
    return None


def _orphan(pid: int, evidence: Evidence, titles: Titles) -> bool:
    """Whether a child of init, which takes those whose parent has ended, had another parent: the front end that wrote the log."""
    fronts = {writer for name, pids in evidence.log.writers.items() if titles.role(name) == "frontend" for writer in pids}
    return bool(fronts) and not fronts & {1, pid}
