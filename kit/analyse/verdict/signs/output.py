"""Blocked on its own output."""

from __future__ import annotations

from kit.analyse.verdict.facts_process import standing_write, written_to
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.analyse.verdict.stacks import all_stacks
from kit.words import count_of

PIPE_WRITES = ("pipe_write", "anon_pipe_write", "pipe_wait_writable", "n_tty_write", "tty_wait_until_sent")
"""Kernel functions in which a writer waits for room, under the names of several kernels."""


@rule("wchan_pipe_write")
def sleeps_in_write(scene: Scene) -> Signs:
    """It sleeps in the kernel's write to a pipe or terminal."""
    if (wchan := scene.fact("wchan")) in PIPE_WRITES:
        claim = f"a process sleeps in {wchan}: nothing reads the pipe that it writes to"
        yield Sign("wchan_pipe_write", claim, scene.facts.refs("wchan"))


@rule("write_unfinished", needs=("syscalls",))
def write_open(scene: Scene) -> Signs:
    """A write to its output, or to a pipe, does not return."""
    write = standing_write(scene.evidence)
    if write is None:
        return
    descriptor, target = write["fd"], written_to(scene.evidence, write)
    if descriptor in (1, 2) or (target or "").startswith("pipe:"):
        place = f" ({target})" if target else ""
        claim = f"write() to descriptor {descriptor}{place} does not return"
        yield Sign("write_unfinished", claim, scene.facts.refs("blocked_fd"))


@rule("output_frames", needs=("stacks",))
def output_stacks(scene: Scene) -> Signs:
    """Threads stand in writing output."""
    stacks = [stack for stack in all_stacks(scene.evidence) if stack.category == "output"]
    if stacks:
        claim = f"{count_of(len(stacks), 'thread')} writing output in {stacks[0].place}"
        yield Sign("output_frames", claim, [stacks[0].ref])
