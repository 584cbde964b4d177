"""Lock files: who waits, who holds, whether the holder lives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import Stack, all_stacks
from kit.schema import Row
from kit.words import count_of, short

FETCH = re.compile(r"(?i)hugging|\bhub\b|modelscope|download|snapshot|/\.locks/|filelock/")
"""Locks under which files are fetched: compilers that run release none of them."""
ASKING = ("stat", "newfstatat", "statx", "access", "flock", "openat")
"""System calls by which a library asks for a lock file over and over."""


def _wait(code: str, scene: Scene, claim: str, *where: dict, about: str, ranks: Sequence[int] = ()) -> Sign:
    """A sign of a wait for a lock; while compilers run, that the work that it protects is done, unless that is a download."""
    if scene.fact("compilers_running") and not FETCH.search(scene.fact("lock_path") or about):
        return Sign("lock_served", f"{claim}, and compilers are at work", list(where), list(ranks))
    return Sign(code, claim, list(where), list(ranks))


@rule("lock_line", "lock_served", needs=("log",))
def lock_line(scene: Scene) -> Signs:
    """The log says that it waits for a lock; where it tells of a build as well, whether that is done, and by whom it is done."""
    waits, built = scene.log.last("lock_wait"), scene.log.last("build_end")
    if waits is None or built is not None and built.order > waits.order:
        return
    begun = scene.log.last("build_begin")
    claim = f"waiting for a lock: {short(waits.text, 120)}"
    if begun is not None and (built is None or built.order < begun.order) and _named_by(begun, waits):
        yield Sign("lock_served", f"{claim}, for what another rank builds: {short(begun.text, 80)}", [waits.ref, begun.ref])
    else:
        yield _wait("lock_line", scene, claim, waits.ref, about=waits.text)


def _named_by(begun: Mark, waits: Mark) -> bool:
    """Whether a lock's path bears the name of what is built, and not by who waits."""
    module = str(begun.fields.get("module") or "")
    return len(module) > 0 and module in waits.text and (begun.label, begun.pid) != (waits.label, waits.pid) != (None, None)


def _waiting_stacks(scene: Scene) -> list[Stack]:
    return [stack for stack in all_stacks(scene.evidence) if stack.category == "lock"]


@rule("lock_frames", "lock_served", needs=("stacks",))
def lock_stacks(scene: Scene) -> Signs:
    """Threads stand in the acquisition of a lock file."""
    stacks = _waiting_stacks(scene)
    if stacks:
        verb = "waits" if len(stacks) == 1 else "wait"
        claim = f"{count_of(len(stacks), 'thread')} {verb} for a lock file in {stacks[0].place}"
        ranks = sorted(set(scene.ranks_of(stack.pid for stack in stacks)))
        about = " ".join(stack.place for stack in stacks)
        yield _wait("lock_frames", scene, claim, *(stack.ref for stack in stacks[:3]), about=about, ranks=ranks)


def _polls(scene: Scene) -> Row | None:
    """A system call that asks for a lock file again and again."""
    calls = scene.evidence.syscalls
    asking = [row for row in calls.samples.values() if row["syscall"] in ASKING and "lock" in (row.get("args") or "")]
    if not asking:
        return None
    often = calls.by_thread[asking[0].get("pid")][asking[0]["syscall"]] >= scene.limits["lock_polling_calls"]
    return asking[0] if often else None


@rule("lock_polling", "lock_served", needs=("syscalls",))
def lock_polling(scene: Scene) -> Signs:
    """A thread asks for a lock file over and over."""
    if row := _polls(scene):
        claim = f"a thread polls a lock file: {row['syscall']}({short(row['args'], 80)})"
        yield _wait("lock_polling", scene, claim, ref(row), about=row.get("args") or "")


def _refused(scene: Scene) -> Row | None:
    """A lock that is refused, or whose acquisition does not return."""
    calls = scene.evidence.syscalls
    for row in calls.samples.values():
        if row["syscall"] in ("flock", "fcntl") and row.get("errno") in ("EAGAIN", "EACCES"):
            return row
    held_up = (row for row in calls.open.values() if row["syscall"] == "flock" or "F_SETLKW" in (row.get("args") or ""))
    return next(held_up, None)


@rule("lock_refused", "lock_served", needs=("syscalls",))
def lock_refused(scene: Scene) -> Signs:
    """A lock is refused, or does not return."""
    if row := _refused(scene):
        outcome = row.get("errno") or "does not return"
        claim = f"a lock is refused: {row['syscall']}({short(row.get('args') or '', 60)}) {outcome}"
        path = scene.fact("lock_path")
        claim = f"{claim}; lock file {path}" if path else claim
        yield _wait("lock_refused", scene, claim, ref(row), about=row.get("args") or "")


def _waits(scene: Scene) -> bool:
    """Whether anything waits for a lock file."""
    asked = scene.log.of("lock_wait") or _waiting_stacks(scene)
    # A single look at a lock file is enough here: that the wait is one is told by what is known of the holder.
    calls = scene.evidence.syscalls.samples.values()
    looked = any(row["syscall"] in ASKING and "lock" in (row.get("args") or "") for row in calls)
    return bool(asked or looked or _refused(scene))


@rule("lock_unserved", needs=("processes",))
def unserved(scene: Scene) -> Signs:
    """Nobody does the work that the lock protects."""
    if scene.fact("compilers_running") == 0 and _waits(scene):
        yield Sign("lock_unserved", "no compiler is running that could release the lock", scene.facts.refs("lock_path"))


@rule("lock_cycle", "lock_stale", needs=("locks",))
def holder(scene: Scene) -> Signs:
    """The holder waits for the waiters, or lives no more."""
    pid = scene.fact("lock_holder")
    if not _waits(scene):
        return
    if pid is None:
        if any(row.get("checked") for row in scene.evidence.locks):
            claim = f"no process holds {scene.fact('lock_path')}: the lock is stale"
            yield Sign("lock_stale", claim, scene.facts.refs("lock_path"))
        return
    waits = ("collective", "device_sync", "lock")
    stack = next((stack for stack in all_stacks(scene.evidence) if stack.pid == pid and stack.category in waits), None)
    if stack is not None:
        claim = f"the lock's holder (pid {pid}) itself waits in {stack.place} for the ranks that wait for the lock"
        yield Sign("lock_cycle", claim, [stack.ref, *scene.facts.refs("lock_holder")])
    elif pid not in scene.processes.by_pid and scene.evidence.processes:
        name = next((f" ({row['process']})" for row in scene.evidence.locks if row.get("pid") == pid and row.get("process")), "")
        claim = f"the lock is held by pid {pid}{name}, which is not among the processes of this launch"
        yield Sign("lock_stale", claim, scene.facts.refs("lock_holder"))


@rule("lock_old", needs=("locks", "log"))
def old_lock(scene: Scene) -> Signs:
    """The lock file is older than the launch."""
    began = scene.log.first_time
    old = [row for row in scene.evidence.locks if row.get("mtime") and began and row["mtime"] < began]
    if old and _waits(scene):
        yield Sign("lock_old", "the lock file is older than the launch", [ref(old[0], old[0]["path"])])
