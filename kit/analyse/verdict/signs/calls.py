"""What a trace of system calls shows: threads that wait for each other, or for a process that was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.run import Run

if TYPE_CHECKING:
    from kit.analyse.calls.study import Calls

SIGNS = {"circle": "calls_circle", "dead": "waits_for_killed"}
"""Signs by the kind of suspect (`kit.analyse.calls.waits`)."""


@rule(*SIGNS.values(), needs=("syscalls",))
def waits(scene: Scene) -> Signs:
    """Calls that did not come back, of threads that wait for each other or for one that was killed."""
    digest = scene.evidence.syscalls
    standing = [row for row in digest.open.values() if row.get("state") != "cut"]
    if len(standing) < 2 or digest.calls > scene.limits["most_traced_calls"]:
        return
    for one in scene.evidence.run.derived(_studied).graph.suspects:
        if one.kind in SIGNS:
            yield Sign(SIGNS[one.kind], one.claim, [{"capture": one.capture, "line": one.line, "text": None}])


def _studied(run: Run) -> Calls:
    """The system calls of a run; its scenes share them."""
    from kit.analyse.calls.study import Calls  # pandas, which most verdicts do without
    from kit.analyse.calls.trace import Trace

    return Calls(run.name, Trace(run.frame("syscalls"), run.frame("signals")))
