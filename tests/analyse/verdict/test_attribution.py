"""A shared machine's kernel log: what is about this launch, what is about another, and what nothing ties to either."""

from __future__ import annotations

import pytest

from kit.analyse.verdict.attribution import not_of_launch, set_aside
from kit.analyse.verdict.rules import all_signs
from kit.analyse.verdict.verdict import weigh
from tests.analyse.verdict.scenes import BEGIN, NS, Part, error, kernel, line, ps, scene, workers

FOREIGN = {"pid": 13681, "process": "python3"}
BEFORE, DURING = BEGIN - 480 * NS, BEGIN + 480 * NS
GROUP = "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/docker/beef,task=python3,pid=13681"
SERVER = ps(10, "python3 -m sglang.launch_server --port 30000")
KINDS = [
    ("oom_kill", {}, "kernel_oom_kill"),
    ("segfault", {}, "crash_signal"),
    ("xid", {"xid": 79}, "xid_hardware"),
    ("hung_task", {}, "hung_task"),
]


def why(part: Part, *others: Part | list[Part]) -> str | None:
    """Why a line is set aside in a scene."""
    return not_of_launch(part[1], scene(part, *others))


@pytest.mark.parametrize(("kind", "columns", "code"), KINDS)
def test_what_came_before_the_launch_is_set_aside(kind: str, columns: dict, code: str) -> None:
    early, later = (kernel(kind, time=time, **FOREIGN, **columns) for time in (BEFORE, DURING))
    assert code not in all_signs(scene(early, SERVER))
    assert why(early, SERVER) == "8 min 0 s before the launch began"
    assert why(later, SERVER) is None


@pytest.mark.parametrize(("kind", "columns", "code"), KINDS)
def test_what_names_a_process_of_the_launch_counts(kind: str, columns: dict, code: str) -> None:
    assert code in all_signs(scene(kernel(kind, time=DURING, pid=10, process="python3", **columns), SERVER))


def test_another_control_group_is_another_container() -> None:
    own = ps(10, "python3 -m sglang.launch_server", cgroup="/docker/cafe")
    assert why(kernel("oom_kill", GROUP, **FOREIGN), own) == "in control group /docker/beef"
    assert why(kernel("oom_kill", GROUP.replace("beef", "cafe"), **FOREIGN), own) is None


def test_a_kill_that_nobody_of_the_launch_died_of_is_set_aside() -> None:
    kill = kernel("oom_kill", time=DURING, **FOREIGN)
    assert why(kill, *workers(2)) == "all ranks of the launch are alive"
    assert why(kill, *workers(2), error("worker_died", role="cascade")) is None


def test_without_a_tie_it_weighs_little() -> None:
    kill = kernel("oom_kill", **FOREIGN)
    untied, tied = weigh(scene(kill, SERVER)), weigh(scene(kernel("oom_kill", pid=10, process="python3"), SERVER))
    assert untied.klass == "undetermined" and "nothing ties to this launch" in untied.signs["oom_kill_untied"].claim
    assert tied.klass == "host_oom_kill" and tied.confidence > 0.9


def test_what_is_set_aside_is_counted() -> None:
    rows = [kernel(kind, time=BEFORE, **FOREIGN, **columns) for kind, columns, _ in KINDS]
    (found,) = set_aside(scene(*rows, SERVER))
    assert "1 OOM kill, 1 crash, 1 Xid, 1 hung task" in found["claim"] and "pid 13681" in found["claim"]
    assert found["claim"].endswith("8 min 0 s before the launch began") and len(found["evidence"]) == 3
    assert not list(set_aside(scene(kernel("oom_kill", time=DURING, **FOREIGN), SERVER)))


def test_an_unknown_zone_sets_nothing_aside_by_hours() -> None:
    before = scene(kernel("oom_kill", time=BEFORE, **FOREIGN), SERVER)
    before.evidence.run.offset_known = False
    assert not list(set_aside(before))


def test_the_earliest_word_on_the_begin_counts() -> None:
    started = ps(10, "python3 -m sglang.launch_server", time=BEGIN, elapsed_s=900)
    assert why(kernel("oom_kill", time=BEFORE, **FOREIGN), started) is None


def test_an_oom_kill_of_a_neighbour_does_not_explain_a_mistyped_flag() -> None:
    flag = error("usage_error", "launch_server.py: error: unrecognized arguments: --tp-sise 2")
    verdict = weigh(scene(kernel("oom_kill", time=BEFORE, **FOREIGN), line("args", at=0), flag))
    assert verdict.klass == "worker_crashed" and verdict.findings[0]["code"] == "not_of_this_launch"
