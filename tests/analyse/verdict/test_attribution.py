"""A shared machine's kernel log: what is about this launch, what is about another, and what nothing ties to either."""

from __future__ import annotations

import pytest

from kit.analyse.verdict.attribution import finding, foreign
from kit.analyse.verdict.rules import all_signs
from kit.analyse.verdict.verdict import weigh
from tests.analyse.verdict.scenes import BEGIN, NS, Part, counter, error, gpu, kernel, line, listen, ps, row, scene, workers

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
    """Why a row is set aside in a scene."""
    return next((item.why for item in foreign(scene(part, *others)) if item.row is part[1]), None)


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
    (found,) = finding(scene(*rows, SERVER))
    assert "1 OOM kill, 1 crash, 1 Xid, 1 hung task" in found["claim"] and "pid 13681" in found["claim"]
    assert found["claim"].endswith("8 min 0 s before the launch began") and len(found["evidence"]) == 3
    assert not list(finding(scene(kernel("oom_kill", time=DURING, **FOREIGN), SERVER)))


def test_an_unknown_zone_sets_nothing_aside_by_hours() -> None:
    assert not list(finding(scene(kernel("oom_kill", time=BEFORE, **FOREIGN), SERVER, offset_known=False)))


@pytest.mark.parametrize(
    ("told_s", "killed_s", "sign"),
    [
        (900, 890, "kernel_oom_kill"),
        (900, 4490, "kernel_oom_kill"),
        (900, 700, "oom_kill_untied"),
        (900, 4200, "oom_kill_untied"),
    ],
)
def test_clocks_of_unknown_zones_differ_by_quarters_of_an_hour(told_s: int, killed_s: int, sign: str) -> None:
    death = error("worker_died", role="cascade", at=told_s)
    kill = kernel("oom_kill", time=BEGIN + killed_s * NS, **FOREIGN)
    assert sign in weigh(scene(death, kill, offset_known=False)).signs


@pytest.mark.parametrize(("process", "klass"), [("VLLM::EngineCor", "host_oom_kill"), ("python3", "undetermined")])
def test_a_kernel_log_alone_tells_of_a_server_where_it_names_its_engine(process: str, klass: str) -> None:
    assert weigh(scene(kernel("oom_kill", pid=99, process=process, time=BEGIN))).klass == klass


def test_a_death_told_without_a_stamp_has_no_moment() -> None:
    death, kill = error("worker_died", role="cascade", at=900), kernel("oom_kill", time=BEGIN + 1200 * NS, **FOREIGN)
    death[1]["time_source"] = "carried"
    assert "kernel_oom_kill" in weigh(scene(death, kill)).signs


def test_the_earliest_word_on_the_begin_counts() -> None:
    started = ps(10, "python3 -m sglang.launch_server", time=BEGIN, elapsed_s=900)
    assert why(kernel("oom_kill", time=BEFORE, **FOREIGN), started) is None


def test_an_oom_kill_of_a_neighbour_does_not_explain_a_mistyped_flag() -> None:
    flag = error("usage_error", "launch_server.py: error: unrecognized arguments: --tp-sise 2")
    verdict = weigh(scene(kernel("oom_kill", time=BEFORE, **FOREIGN), line("args", at=0), flag))
    assert verdict.klass == "worker_crashed" and verdict.findings[0]["code"] == "not_of_this_launch"


def environ(value: str, pid: int = 10) -> Part:
    """An environment that leaves a process some GPUs."""
    return row("host", source="environ", pid=pid, key="CUDA_VISIBLE_DEVICES", value=value)


FOUR_GPUS = [gpu(number, 100 if number > 1 else 0, bus_id=f"00000000:{number + 1}0:00.0") for number in range(4)]


@pytest.mark.parametrize(
    "tie",
    [
        environ("0,1"),
        row("commands", text="CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --tp 2", program="sglang.launch_server"),
        row("commands", text="docker run --gpus '\"device=0,1\"' image", program="docker"),
        [row("gpu_processes", gpu=number, pid=10 + number) for number in range(2)],
    ],
)
def test_gpus_that_the_launch_does_not_use_say_nothing(tie: Part | list[Part]) -> None:
    ours, all_of_them = scene(workers(2), FOUR_GPUS, tie), scene(workers(2), FOUR_GPUS)
    assert "gpu_idle" in all_signs(ours) and "gpu_idle" not in all_signs(all_of_them)
    assert "gpu_all_busy" not in all_signs(ours) and [item.row["gpu"] for item in foreign(ours)] == [2, 3]
    assert "2 GPU samples; the launch has GPUs 0, 1 by " in next(finding(ours))["claim"]


@pytest.mark.parametrize("value", ["4,5", "", "all", "GPU-8f2c", "0", "0,1,2,3"])
def test_gpu_numbers_that_do_not_fit_part_nothing(value: str) -> None:
    assert not foreign(scene(workers(2), FOUR_GPUS, environ(value)))


def test_an_xid_of_a_gpu_that_is_not_used_is_another_launchs() -> None:
    mine, other, unlisted = (kernel("xid", time=DURING, xid=79, bus_id=f"0000:{bus}:00") for bus in (10, 40, 70))
    rows = (workers(2), FOUR_GPUS, environ("0,1"))
    assert why(other, *rows) == "about GPU 3, which the launch does not use"
    assert why(mine, *rows) is None and why(unlisted, *rows) is None
    assert scene(other, *rows).fact("xids") is None


def test_seconds_since_boot_are_compared_with_the_start_of_the_process() -> None:
    own = ps(10, "python3 -m sglang.launch_server", start_ticks=100_000)
    assert why(kernel("oom_kill", uptime_s=700.0, **FOREIGN), own) == "5 min 0 s before the launch began"
    assert why(kernel("oom_kill", uptime_s=1100.0, **FOREIGN), own) is None


def test_a_process_of_the_host_is_none_of_the_launch() -> None:
    host = [ps(900, "/usr/sbin/backupd", ppid=1), ps(901, "tar", ppid=900), ps(11, "cc1plus", ppid=10)]
    kill = kernel("segfault", time=DURING, pid=901, process="tar")
    assert why(kill, SERVER, host) == "tar, a program that is not a server's"
    assert why(kernel("segfault", time=DURING, pid=11, process="cc1plus"), SERVER, host) is None


def test_a_hung_task_of_another_counts_only_where_the_launch_is_stuck_too() -> None:
    hung = kernel("hung_task", time=DURING, pid=900, process="backupd")
    stuck = ps(10, "python3 -m sglang.launch_server", "D")
    assert why(hung, SERVER) == "backupd, and nothing of the launch is in state D" and why(hung, stuck) is None


def test_memory_events_of_another_control_group() -> None:
    own = ps(10, "python3 -m sglang.launch_server", cgroup="/docker/cafe")
    files = [f"/sys/fs/cgroup/docker/{name}/memory.events" for name in ("beef", "cafe")]
    other, mine = (counter("oom_kill", 1, "cgroup", labels=name) for name in files)
    assert why(other, own) == "in control group /docker/beef" and why(mine, own) is None
    assert "cgroup_oom_kill" in all_signs(scene(mine, own)) and "cgroup_oom_kill" not in all_signs(scene(other, own))


def pod(name: str, reason: str, age_s: float) -> Part:
    """An event of a pod."""
    return row("events", source="kubernetes", reason=reason, object=f"pod/{name}", text=reason, age_s=age_s)


OLD, NEW = "llama-8b-6d4cf56db6-abcde", "llama-8b-7f9c8d5b4c-fghij"


def test_events_of_the_rollout_before() -> None:
    killed, pulled = pod(OLD, "OOMKilled", 3600), pod(NEW, "Pulled", 60)
    assert why(killed, pulled) == f"of pod {OLD}, of the rollout before" and why(pulled, killed) is None
    assert "cgroup_oom_kill" not in all_signs(scene(killed, pulled, line("args")))
    assert why(killed, pod("postgres-0", "Pulled", 60)) is None  # nothing tells which of them it is


def test_events_of_a_pod_that_is_not_named() -> None:
    killed, command = pod("postgres-0", "OOMKilled", 60), row("commands", text=f"kubectl logs {NEW}", program="kubectl")
    assert why(killed, pod(NEW, "Pulled", 600), command) == f"of pod postgres-0, the launch is {NEW}"


def test_a_kill_of_another_pid_than_the_dead_ranks_is_none_of_theirs() -> None:
    kill = kernel("oom_kill", time=DURING, **FOREIGN)
    dead = [line("args", phase="launch", tp_size=2, at=0), ps(10, "sglang::scheduler_TP0"), ps(11, "sglang::scheduler_TP1", "Z")]
    dead.append(line("weights_begin", rank=1, pid=11, process="TP1", at=1))
    host = row("host", source="uname", key="pid_ns", value="pid:[4026531836]")
    assert "kernel_oom_kill" in all_signs(scene(kill, dead))
    assert "oom_kill_untied" in all_signs(scene(kill, dead, host))
    assert "kernel_oom_kill" in all_signs(scene(kernel("oom_kill", time=DURING, pid=11, process="python3"), dead, host))
    assert "oom_kill_untied" in all_signs(scene(kill, dead, line("weights_begin", rank=1, pid=11)))  # it wrote after that kill


def test_a_launch_that_never_began_was_not_killed() -> None:
    flag = error("usage_error", "vllm: error: unrecognized arguments: --no-such-flag", at=None)
    verdict = weigh(scene(kernel("oom_kill", uptime_s=7000.0, **FOREIGN), flag, launch_zero_ns=None))
    assert verdict.klass == "worker_crashed" and "oom_kill_untied" in verdict.signs


def test_the_start_of_a_recorded_launch_is_exact() -> None:
    started = {"launch": {"pid": 10, "started_at": "2025-10-09T08:53:20Z", "start_ticks": 100_000}}
    kill = kernel("oom_kill", uptime_s=995.0, **FOREIGN)
    recorded = scene(kill, SERVER, manifest=started)
    assert [item.why for item in foreign(recorded)] == ["5.0 s before the launch began"]
    assert not foreign(scene(kill, ps(10, "python3 -m sglang.launch_server", start_ticks=100_000)))


@pytest.mark.parametrize("name", ["docker-proxy", "nginx: worker"])
def test_a_proxy_on_the_port_is_no_stranger_unless_the_server_could_not_bind(name: str) -> None:
    held = [SERVER, line("args", port=30000, at=0), listen(30000, 77, name)]
    assert {"proxy_listens"} == {"proxy_listens", "foreign_listener"} & all_signs(scene(held)).keys()
    failed = all_signs(scene(held, error("bind_error", "address already in use")))
    assert {"foreign_listener"} == {"proxy_listens", "foreign_listener"} & failed.keys()


def test_an_error_of_its_own_explains_an_end_better_than_a_kill_that_nothing_ties() -> None:
    kill = kernel("oom_kill", **FOREIGN)
    assert "kernel_oom_kill" in all_signs(scene(kill, SERVER, error("worker_died", role="cascade")))
    assert "kernel_oom_kill" not in all_signs(scene(kill, SERVER, error("bind_error"), error("worker_died", role="cascade")))


@pytest.mark.parametrize("listed", ["GPU-aa11", "GPU-aa11,GPU-bb2", "1"])
def test_visible_gpus_are_named_by_number_or_uuid(listed: str) -> None:
    gpus = [
        row("gpus", gpu=number, uuid=uuid, util_percent=0.0) for number, uuid in enumerate(("GPU-cc33", "GPU-aa11", "GPU-bb22"))
    ]
    visible = row("host", source="environ", key="NVIDIA_VISIBLE_DEVICES", value=listed)
    shown = scene(*gpus, visible, line("args", phase="launch"))
    assert 0 not in {found["gpu"] for found in shown.evidence.gpus}
    unknown = row("host", source="environ", key="NVIDIA_VISIBLE_DEVICES", value="GPU-dd44")
    assert len(scene(*gpus, unknown, line("args", phase="launch")).evidence.gpus) == 3
