"""Stacks of all ranks side by side: what each thread does, same place or odd one out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.processes import Processes, titles_of
from kit.knowledge_paths import entries, load
from kit.parse.grammar_file import PHASES
from kit.schema import Row
from kit.tomlfile import Table, TomlFile

NEAR = 4
"""Frames around a device wait that tell what it waits for."""
TAKES = r"\bget \((?:queue|multiprocessing/queues)\.py"
"""How a thread takes the next piece of work."""
PLUMBING = re.compile(
    r"^(wait|acquire|__enter__|select|(?:__GI___)?poll|sleep|sched_yield|_wait|wait_for|read|recv|run|__call__|wrapper|_fn|inner|"
    r"0x[0-9a-f]+|\?+|)$"
)
"""Functions that tell nothing of the place, and addresses, which differ from process to process: the frame around them does."""


_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib(?:64)?/python\d(?:\.\d+)?)/")
"""Where a library lies, which tells nothing of what it does: py-spy leaves it out, a traceback does not."""


@dataclass
class Stack:
    """One thread's stack, innermost frame first."""

    pid: int | None
    tid: int | None
    thread: str
    process: str
    active: bool
    rows: list[Row]
    folders: Sequence[Path] = ()
    """Folders of the user's knowledge."""

    @property
    def main(self) -> bool:
        """Whether it is of the process's main thread."""
        return self.thread == "MainThread" or (self.tid is not None and self.tid == self.pid)

    @property
    def category(self) -> str | None:
        """What the thread does, by its innermost telling frame; a thread beside the main one gets its work from a queue."""
        found = category(self.rows, self.folders)
        beside = not self.main and bool(self.thread or self.tid)
        return "idle" if found == "queue" and beside and self.within(TAKES, NEAR) else found

    @property
    def place(self) -> str:
        """Innermost frame that tells a place, as `function (file)`; a qualified name counts by its last part."""
        for row in self.rows:
            if not PLUMBING.match((row["function"] or "").rsplit(".", 1)[-1]):
                return _frame(row)
        return _frame(self.rows[0]) if self.rows else ""

    @property
    def key(self) -> str:
        """What two ranks must share to be in one place: the telling frame, and the first one around it outside of PyTorch.

        All collectives end in the same function; who called it tells them apart.
        """
        caller = next((_frame(row) for row in self.rows[1:] if not re.match(r"(?:.*/)?torch/", row.get("file") or "torch/")), "")
        return f"{self.place} < {caller}"

    def within(self, pattern: str, depth: int | None = None) -> bool:
        """Whether any frame matches, or any of so many innermost ones."""
        return any(re.search(pattern, _frame(row)) for row in self.rows[:depth])

    @property
    def ref(self) -> dict:
        """Where its innermost frame stands."""
        row = self.rows[0]
        text = " < ".join(_frame(entry) for entry in self.rows[:3])
        return {"capture": row["capture"], "line": row.get("line"), "text": f"pid {self.pid} {self.thread}: {text}"}


def _frame(row: Row) -> str:
    file = _INSTALLED.sub("", re.sub(r":\d+$", "", row.get("file") or ""))
    return f"{row.get('function') or '?'} ({file})"


@dataclass(frozen=True, eq=False)
class Frames:
    """What frames say: categories with their pattern and how far out a frame may be; phases and parts of the kernel."""

    categories: tuple[tuple[str, re.Pattern[str], float], ...]
    phases: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...]
    kernel: tuple[tuple[str, str, re.Pattern[str]], ...]

    def kernel_part(self, function: str | None) -> tuple[str, str] | None:
        """The part of the kernel that a function of its belongs to, and what that is in words; None where it tells of none."""
        return next(((name, words) for name, words, pattern in self.kernel if pattern.search(function or "")), None)


def _read(files: list[TomlFile]) -> Frames:
    categories, phases, kernel = [], [], []
    for table in entries(files, "category"):
        table.known(("name", "meaning", "patterns", "depth"))
        name = table.text("name", needed=True)
        categories.append((name, _any(table), table.number("depth", 1000)))
    for table in entries(files, "phase"):
        table.known(("name", "patterns", "code"))
        phases.append((table.text("name", PHASES, needed=True), _any(table), _any(table, "code")))
    for table in entries(files, "kernel"):
        table.known(("name", "meaning", "patterns"))
        kernel.append((table.text("name", needed=True), table.text("meaning", needed=True), _any(table)))
    return Frames(tuple(categories), tuple(phases), tuple(kernel))


def _any(table: Table, key: str = "patterns") -> re.Pattern[str]:
    """One expression for all patterns of a table."""
    return re.compile("|".join(f"(?:{table.expression(key, text).pattern})" for text in table.strings(key)) or "(?!)")


def frames(folders: Sequence[Path] = ()) -> Frames:
    """What `kit/knowledge/stacks.toml` and the user's folders say of frames."""
    return load("stacks", _read, folders)


def phase_of_frames(rows: Iterable[Row], folders: Sequence[Path] = ()) -> str | None:
    """The phase that frames speak of, or the statements in them, those of helper threads aside; None where none does."""
    known = frames(folders)
    helper = dict((name, pattern) for name, pattern, _ in known.categories).get("idle_helper")
    seen = [(_frame(row), row.get("statement") or "") for row in rows]
    seen = [pair for pair in seen if not (helper and helper.search(pair[0]))]
    for phase, pattern, code in known.phases:
        if any(pattern.search(text) or code.search(statement) for text, statement in seen):
            return phase
    return None


def category(rows: list[Row], folders: Sequence[Path] = ()) -> str | None:
    """Category of a stack: that of its innermost frame that matches one.

    A wait is told by the innermost frames alone: every worker has its loop further out, whatever it does.
    """
    found = frames(folders)
    known = {name: pattern for name, pattern, _ in found.categories}
    for depth, row in enumerate(rows):
        for name, most in _told(found, _frame(row)):
            if depth <= most:
                around = rows[depth + 1 : depth + 1 + NEAR]
                if name == "device_sync" and any(known["collective"].search(_frame(near)) for near in around):
                    return "collective"  # the device waits for other ranks
                if name == "queue" and any(known["idle"].search(_frame(near)) for near in around[:1]):
                    return "idle"  # the queue is the one that brings requests
                if name == "idle" and any(known["rendezvous"].search(_frame(near)) for near in around[:3]):
                    return "rendezvous"  # it polls for a peer, not for work
                return "idle" if name == "idle_helper" else name
    return None


@lru_cache(maxsize=4096)  # ranks stand in the same frames, moment by moment
def _told(known: Frames, frame: str) -> tuple[tuple[str, float], ...]:
    """Categories that a frame matches, each with how far out it may be."""
    return tuple((name, most) for name, pattern, most in known.categories if pattern.search(frame))


SAMPLING = frozenset(("pyspy-top", "profile", "trace"))
"""Tools that say where time went, not where a thread stands."""


def all_stacks(evidence: Evidence) -> list[Stack]:
    """Stacks of the last moment, one a thread, from every tool but the sampling ones."""
    grouped: dict[tuple, list[Row]] = {}
    newest: dict[object, int] = {}
    for row in evidence.stacks:
        if row.get("tool") in SAMPLING:
            continue
        newest[row.get("pid")] = max(newest.get(row.get("pid"), 0), row.get("moment") or 0)
    for row in evidence.stacks:
        if row.get("tool") in SAMPLING or (row.get("moment") or 0) != newest[row.get("pid")]:
            continue
        grouped.setdefault((row["capture"], row.get("pid"), row.get("tid"), row.get("thread")), []).append(row)
    stacks = []
    for (_, pid, tid, thread), rows in grouped.items():
        rows.sort(key=lambda row: row["depth"])
        state = rows[0].get("thread_state") or ""
        process = rows[0].get("process") or ""
        stacks.append(Stack(pid, tid, thread or "", process, "active" in state, rows, evidence.run.knowledge))
    return stacks


WAITS = ("lock", "collective", "rendezvous", "device_sync", "queue")


def stopped_in_a_wait(evidence: Evidence) -> bool:
    """Whether all stacks are of a Ctrl-C that somebody pressed while it waited: that it ended then is not why it stood.

    Of several processes one has to wait for another, and none works.
    """
    stacks = all_stacks(evidence)
    told = bool(stacks) and all(stack.rows[0].get("tool") == "traceback" for stack in stacks)
    waits = told and any(stack.category in WAITS for stack in stacks)
    return waits and all(stack.category in (*WAITS, "idle", "sleep") for stack in stacks)


def main_stacks(evidence: Evidence, processes: Processes) -> dict[int, Stack]:
    """The main thread's stack of each rank, by rank."""
    found: dict[int, Stack] = {}
    titles = titles_of(evidence)
    for stack in all_stacks(evidence):
        # A dump that was cut below its head has no pid; the file's name may tell the rank.
        rank = processes.rank_of(stack.pid) if stack.pid is not None else titles.rank(stack.process, processes.sizes)
        if rank is None or not stack.rows:
            continue
        if rank not in found or (stack.main and not found[rank].main):
            found[rank] = stack
    return dict(sorted(found.items()))


def worker_stacks(evidence: Evidence, processes: Processes) -> dict[int, Stack]:
    """The main thread's stack of each worker by pid, also of those whose rank nothing tells."""
    workers = {process.pid for process in processes.of_role("worker")}
    return {stack.pid: stack for stack in all_stacks(evidence) if stack.pid in workers and stack.main and stack.rows}


def places(mains: dict[int, Stack]) -> dict[int, str]:
    """Place of each rank, as `Stack.key`."""
    return {rank: stack.key for rank, stack in mains.items()}


def odd_ranks(mains: dict[int, Stack]) -> list[int]:
    """Ranks whose place differs from that of a clear majority; of two, the one that is not in a wait.

    Waiting is what the others do: a collective, a barrier, the device, a queue.
    """
    where = places(mains)
    if len(set(where.values())) < 2:
        return []
    waiting = {rank for rank, stack in mains.items() if stack.category in ("collective", "device_sync", "rendezvous", "idle")}
    working = sorted(set(mains) - waiting)
    if working and waiting and len(working) <= len(waiting):
        return working
    common, count = Counter(where.values()).most_common(1)[0]
    others = sorted(rank for rank, place in where.items() if place != common)
    return others if count > len(mains) / 2 else []
