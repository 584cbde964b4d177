"""Evidence for the rules on deaths, errors, hardware and clusters."""

from __future__ import annotations

from tests.analyse.verdict.scenes import (
    BEGIN,
    NS,
    call,
    counter,
    error,
    event,
    gpu,
    kernel,
    line,
    listen,
    ps,
    row,
    shown,
    stack,
    twice,
    worker,
    workers,
)

SERVER = ps(10, "python3 -m sglang.launch_server --port 30000")
DEMAND = "{'GPU': 4.0} * 1 (PACK): 1+ pending placement groups"
RAY = [counter("gpu_total", 8.0, "ray"), counter("gpu_used", 6.0, "ray")]
MEMORY = [row("host_memory", name="total", value_bytes=100 << 30)]


ENGINE = ps(8, "VLLM::EngineCore")
FRONT_AND_ENGINE = [
    line("ready", process="APIServer", pid=7, at=100),
    line("engine_stats", process="EngineCore", pid=8, at=110),
    error("worker_died", "EngineCore encountered a fatal error", process="EngineCore", pid=8, role="cascade"),
]


def free(gib: int) -> tuple:
    """Host memory that is available."""
    return row("host_memory", name="available", value_bytes=gib << 30)


ENDED = line("shutdown", "Shutting down", role="ending", at=100)
TOLD, TOLD_BY_1 = (
    line("shutdown", "Shutting down", role="ending", at=None, process="APIServer", pid=pid, server="vllm") for pid in (7, 1)
)
LEFT, OTHER = (
    row("gpu_processes", gpu=0, pid=8, process=name, time=BEGIN + 900 * NS) for name in ("VLLM::EngineCore", "python3")
)

ENDINGS = [
    shown("outlives_end", ENDED, ENGINE, unlike=[ENDED, ps(8, "VLLM::EngineCore", "Z")]),
    # A child of init had a parent; where the front end is the container's first process, it is the parent.
    shown("outlives_end", TOLD, ps(8, "VLLM::EngineCore", ppid=1), unlike=[TOLD_BY_1, ps(8, "VLLM::EngineCore", ppid=1)]),
    shown("outlives_end", ENDED, LEFT, unlike=[ENDED, LEFT, ps(9, "vllm serve m")]),  # started again
    shown(
        "outlives_end", ENDED, LEFT, unlike=[ENDED, row("gpu_processes", gpu=0, pid=8, process="python3", time=BEGIN + 900 * NS)]
    ),
    shown(  # a data loader's worker, of which the error tells
        "kernel_oom_kill",
        line("train_step", phase="train_step", step=4),
        error("exception", "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly"),
        kernel("oom_kill", pid=77, process="pt_data_worker"),
        unlike=[
            line("train_step", phase="train_step", step=4),
            error("exception", "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly"),
            kernel("oom_kill", pid=78, process="pt_data_worker"),
        ],
    ),
    shown(
        "kernel_oom_kill",
        SERVER,
        kernel("oom_kill", pid=10, process="python3"),
        unlike=[SERVER, kernel("oom_kill", pid=99, process="chrome")],
    ),
    shown(
        "oom_kill_alike",
        line("args", at=100),
        kernel("oom_kill", pid=99, process="python3", time=BEGIN + 105 * NS),
        unlike=[line("args", at=900), kernel("oom_kill", pid=99, process="python3", time=BEGIN + 105 * NS)],
    ),
    shown(  # something like a server, and nothing ties it to this launch
        "oom_kill_untied",
        SERVER,
        kernel("oom_kill", pid=99, process="python3"),
        unlike=[SERVER, error("worker_died", role="cascade"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(  # it died of a signal that is no kill
        "oom_kill_untied",
        *(error("killed", signal=4, role="cascade"), kernel("oom_kill", pid=99, process="python3")),
        unlike=[error("killed", signal=9, role="cascade"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(  # a log of the kernel alone tells of nobody's launch
        "oom_kill_untied",
        kernel("oom_kill", pid=99, process="python3"),
        unlike=[line("args"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown("oom_kill_untied", kernel("oom_kill", pid=99, process="anything"), unlike=[kernel("hung_task", pid=99)]),
    shown(  # a server that listens was not killed
        "oom_kill_untied",
        *(line("args"), listen(8000, 10), kernel("oom_kill", pid=99, process="python3")),
        unlike=[line("args"), listen(22, 10, "sshd"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(
        "oom_kill_untied",
        *(line("args"), call("futex"), kernel("oom_kill", pid=99, process="python3")),
        unlike=[line("args"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(
        "oom_kill_alike",
        *(line("args"), kernel("oom_kill", pid=99, process="python3")),
        unlike=[line("args"), kernel("oom_kill", pid=99, process="java")],
    ),
    shown(
        "oom_kill_alike",
        *(line("args"), kernel("oom_kill", pid=99, process="python3")),
        unlike=[line("ready", phase="ready"), line("sigterm", role="ending"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown("memory_available", *MEMORY, free(50), unlike=[*MEMORY, free(5)]),
    shown("memory_available", *MEMORY, free(50), unlike=[*MEMORY, free(50), SERVER, kernel("oom_kill", pid=10)]),
    shown("memory_available", *MEMORY, free(50), unlike=[*MEMORY, free(50), line("shutdown", role="ending")]),
    shown(
        "cgroup_oom_kill",
        *(counter("oom_kill", 1, "cgroup"), line("exit_code", exit_code="-9")),
        unlike=[counter("oom_kill", 0, "cgroup"), line("exit_code", exit_code="-9")],
    ),
    shown("cgroup_oom_untied", counter("oom_kill", 1, "cgroup"), unlike=[counter("oom_kill", 0, "cgroup")]),
    shown("ended_badly", event("FAILED", "7 serve FAILED 1:0", "slurm"), unlike=[event("COMPLETED", "7 serve 0:0", "slurm")]),
    shown(
        "ended_badly",
        *(event("Error"), event("ExitCode", "Exit Code: 1")),
        unlike=[event("Completed"), event("ExitCode", "Exit Code: 0")],
    ),
    shown("cgroup_oom_kill", event("OOMKilled"), unlike=[event("Killing")]),
    shown("signal_9", line("exit_code", exit_code="-9"), unlike=[line("exit_code", exit_code="1")]),
    shown("signal_9", line("exit_code", exit_code="137"), unlike=[line("exit_code", exit_code="143")]),
    shown(
        "killed_from_outside",
        *[line("exit_code", exit_code="-9"), kernel("other")],
        unlike=[line("exit_code", exit_code="-9"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(
        "died_unkilled",
        *[error("worker_died", role="cascade"), kernel("other")],
        unlike=[error("worker_died", role="cascade"), kernel("oom_kill", pid=99, process="python3")],
    ),
    shown(  # one of a program that is no server's is another's
        "died_unkilled",
        *[error("worker_died", role="cascade"), kernel("oom_kill", pid=99, process="java")],
        unlike=[error("worker_died", role="cascade"), kernel("oom_kill", pid=99)],
    ),
    shown(  # a kill long after the death was told is another's
        "died_unkilled",
        *[error("worker_died", role="cascade", at=5), kernel("oom_kill", pid=99, process="python3", time=BEGIN + 90 * NS)],
        unlike=[error("worker_died", role="cascade", at=5), kernel("oom_kill", pid=99, process="python3", time=BEGIN + 4 * NS)],
    ),
    shown(  # a log of the kernel that was refused tells nothing
        "killed_from_outside",
        *[line("exit_code", exit_code="-9"), kernel("other")],
        unlike=[line("exit_code", exit_code="-9"), row("tool_errors", tool="dmesg", error="permission", text="not permitted")],
    ),
    shown(  # whoever may not read the kernel's log may read its count of such kills
        "killed_from_outside",
        *[line("exit_code", exit_code="-9", at=5), *twice("counters", "value", 1.0, 1.0, source="vmstat", name="oom_kill")],
        unlike=[line("exit_code", exit_code="-9", at=5), *twice("counters", "value", 1.0, 2.0, source="vmstat", name="oom_kill")],
    ),
    shown("host_oom_line", error("host_oom", "oom-kill"), unlike=[error("gpu_oom")]),
    shown("gpu_oom_error", error("gpu_oom", "CUDA out of memory"), unlike=[error("host_oom")]),
    shown("gpu_oom_error", error("gpu_oom", "CUDA out of memory"), unlike=[error("gpu_oom", "full", role="recovered")]),
    shown("ranks_dead", *workers(2), worker(2, "Z"), unlike=workers(3)),
    shown("ranks_dead", error("worker_died", fields={"rank": 1}), unlike=[error("worker_died")]),
    shown(  # one that was told to go has gone
        "child_killed",
        *(ps(10, "python serve.py"), ps(11, "python", "Z", ppid=10, exit_status=9)),
        unlike=[ps(10, "python serve.py"), ps(11, "python", "Z", ppid=10, exit_status=15)],
    ),
    shown("workers_alive", workers(2), unlike=[*workers(2), worker(1, "Z")]),
    shown("exited", line("shutdown", role="ending"), unlike=[line("shutdown", role="ending"), *workers(1), listen(30000, 10)]),
    shown(  # an error after the order is its echo, one before it the cause
        "ended_in_order",
        line("ready", phase="ready"),
        line("shutdown", role="ending"),
        error("worker_died", role="cascade"),
        unlike=[
            line("ready", phase="ready"),
            error("exception", "ValueError", role="initiating"),
            line("shutdown", role="ending"),
        ],
    ),
    shown(
        "told_before_ready",
        *(line("args", phase="launch"), line("sigterm", role="ending")),
        unlike=[line("ready", phase="ready"), line("sigterm", role="ending")],
    ),
    shown(  # what had stood for long may have been given up
        "interrupted_at_work",
        *(line("args", phase="launch", at=3000), line("interrupted", "KeyboardInterrupt", role="ending", at=3010)),
        unlike=[line("args", phase="launch", at=3000), line("interrupted", "KeyboardInterrupt", role="ending", at=3590)],
    ),
    shown(
        "told_before_ready",
        *[line("train_step", step=n, at=10 * n, phase="train_step") for n in range(5)],
        line("sigterm", role="ending", at=3000),
        unlike=[
            *[line("train_step", step=n, at=10 * n, phase="train_step") for n in range(5)],
            line("sigterm", role="ending", at=60),
        ],
    ),
    shown(
        "ended_in_order",
        line("train_end", role="finished"),
        unlike=[line("train_end", role="finished"), line("ready", phase="ready")],
    ),
    shown(
        "time_ran_out",
        *(line("args", phase="launch"), line("slurm_cancelled", "CANCELLED AT 3 DUE TO TIME LIMIT", role="ending")),
        unlike=[line("ready", phase="ready"), line("slurm_cancelled", "CANCELLED AT 3 DUE TO TIME LIMIT", role="ending")],
    ),
    shown(
        "tree_gone",
        line("tree_gone", role="teardown"),
        unlike=[error("gpu_oom", role="initiating"), line("tree_gone", role="teardown")],
    ),
    shown("exited", ps(10, "VLLM::EngineCore", "Z"), unlike=[ps(10, "VLLM::EngineCore")]),
    shown("crash_signal", error("segfault", "Segmentation fault"), unlike=[error("exception", "ValueError")]),
    shown("crash_signal", error("abort", "Fatal Python error"), unlike=[line("args")]),
    shown("crash_signal", kernel("segfault", "python3[10]: segfault"), unlike=[kernel("oom_kill")]),
    shown("no_death_seen", line("args"), unlike=[error("worker_died")]),
    shown("no_death_seen", ps(10, "python3"), unlike=[ps(10, "python3"), kernel("segfault")]),
]

ERRORS = [
    shown(
        "arguments_refused",
        error("usage_error", "vllm: error: unrecognized arguments: --tpp 2"),
        unlike=[error("usage_error", "vllm: error: unrecognized arguments: --tpp 2"), line("ready", phase="ready")],
    ),
    shown("unexplained_error", error("exception", "ValueError: no such model"), unlike=[error("bind_error", explained=True)]),
    shown("unexplained_error", error(None, "cannot read config"), unlike=[error("worker_died", role="cascade")]),
    shown(  # a cause after one that has a class of its own is a consequence
        "unexplained_error", error("exception"), error("bind_error"), unlike=[error("bind_error"), error("exception")]
    ),
    shown("engine_gone", *FRONT_AND_ENGINE, ps(7, "vllm serve m"), unlike=[*FRONT_AND_ENGINE, ps(7, "vllm serve m"), ENGINE]),
    shown("engine_gone", *FRONT_AND_ENGINE, ps(7, "vllm serve m"), unlike=[*FRONT_AND_ENGINE, ps(9, "vllm serve m")]),
    shown(
        "engine_gone",
        *(line("ready", phase="ready"), ps(7, "vllm serve m"), ps(8, "[VLLM::EngineCor] <defunct>", state="Z", ppid=7)),
        unlike=[line("ready", phase="ready"), ps(7, "vllm serve m"), ps(8, "[sh] <defunct>", state="Z", ppid=7)],
    ),
    shown(
        "unexplained_error",
        *(error("device_error", "RuntimeError: CUDA error: launch failure"), kernel("xid", xid=31)),
        unlike=[
            error("device_error", "RuntimeError: CUDA error: launch failure"),
            kernel("xid", xid=79),
        ],  # the GPU failed itself
    ),
    shown(
        "outlives_abort",
        *(error("watchdog_exit", role="cascade"), line("probe_request", phase="serving")),
        unlike=[line("probe_request", phase="serving"), error("watchdog_exit", role="cascade")],
    ),
    shown(
        "outlives_worker",
        line("backend_lost", "Remove stale worker: http://h:21002", kind="symptom"),
        unlike=[line("backend_lost", "Remove stale worker: http://h:21002", kind="symptom"), line("backend_joined")],
    ),
    shown("worker_died_line", error("worker_died", role="cascade"), unlike=[line("worker_exit")]),
    shown(
        "silent_death",
        error("worker_died", role="cascade"),
        unlike=[error("exception", "ValueError"), error("worker_died", role="cascade")],
    ),
    shown(
        "killed_line",
        error("killed", "job.sh: line 9: 41 Killed  python train.py", role="teardown"),
        unlike=[error("killed", "job.sh: line 9: 41 Killed  vllm serve m", role="teardown", server="vllm")],
    ),
    shown(
        "closing_error",
        error("program_error", "Error: no such model", role="closing"),
        unlike=[error("program_error", "Error: no such model", role="closing"), line("train_step", phase="train_step", step=1)],
    ),
    shown(
        "closing_error",
        *(line("ready", kind="ready", phase="ready"), error("worker_died", role="cascade")),
        unlike=[error("worker_died", role="cascade")],
    ),
    shown(
        "outlives_worker",
        *(line("ready", kind="ready", phase="ready"), error("loop_died", role="cascade")),
        unlike=[error("loop_died", role="cascade")],
    ),
    shown(
        "exit_code_line",
        error("exit_failed", "Process finished with exit code 1", role="closing", exit_code=1),
        unlike=[error("exit_failed", "Process finished with exit code 137", role="closing", exit_code=137)],
    ),
    shown("silent_death", error("worker_died", role="cascade"), unlike=[error("gpu_oom"), error("worker_died", role="cascade")]),
    shown(
        "error_after_ready",
        line("ready", kind="ready", phase="ready"),
        error("exception"),
        unlike=[error("exception"), line("ready", kind="ready", phase="ready")],
    ),
    shown("log_unknown", line(None, "a"), line(None, "b"), unlike=[line(None, "a"), line("args")]),
    shown("no_error_in_log", line("args"), unlike=[line(None, "a line that no grammar knows")]),
    shown("no_death_seen", line("args"), unlike=[line(None, "a line that no grammar knows")]),
    shown("no_error_in_log", line("args"), unlike=[line("args"), error("exception")]),
]

HARDWARE = [
    shown("xid_hardware", kernel("xid", xid=79, bus_id="0000:3b:00"), unlike=[kernel("xid", xid=31)]),
    shown("xid_application", kernel("xid", xid=31), unlike=[kernel("xid", xid=79)]),
    shown(
        "xid_untied",
        *(SERVER, kernel("xid", xid=31, pid=99)),
        unlike=[SERVER, kernel("xid", xid=31, pid=99), error("worker_died", role="cascade")],
    ),
    shown(  # of a device, before all that the log tells of a server that came up
        "xid_untied",
        *(line("ready", phase="ready", at=60), kernel("xid", xid=79, time=BEGIN)),
        unlike=[line("ready", phase="ready", at=60), kernel("xid", xid=79, time=BEGIN + 90 * NS)],
    ),
    shown(  # among the lines of a server, as a log viewer exports them; one that the server worked on after was none of its
        "xid_hardware",
        line("xid", "Xid (PCI:0000:ab:00): 79", "symptom", xid=79),
        unlike=[line("xid", "Xid (PCI:0000:ab:00): 79", "symptom", xid=79), line("request", kind="request", phase="serving")],
    ),
    shown("gpu_lost", kernel("gpu_lost", "GPU has fallen off the bus"), unlike=[kernel("xid", xid=31)]),
    shown("gpu_error_state", gpu(0, 0, error="ERR!"), unlike=[gpu(0, 0)]),
    shown(
        "gpu_lost",
        row("tool_errors", tool="nvidia-smi", error="failed", text="Unable to determine the device handle for GPU0000:03:00.0"),
        unlike=[row("tool_errors", tool="nvidia-smi", error="failed", text="couldn't communicate with the driver")],
    ),
    shown(
        "gpu_tool_failed",
        row("tool_errors", tool="nvidia-smi", error="failed", text="couldn't communicate with the driver"),
        unlike=[row("tool_errors", tool="nvidia-smi", error="not_found", text="command not found")],
    ),
    shown(
        "gpu_rows_remapped",
        counter("remapped_rows.uncorrectable", 1, "gpu"),
        unlike=[counter("remapped_rows.uncorrectable", 0, "gpu"), counter("remapped_rows.correctable", 3, "gpu")],
    ),
]

STARTUP, READINESS = event("Unhealthy", "Startup probe failed: 503"), event("Unhealthy", "Readiness probe failed: 503")
FIRST = [event("State", "State: Running"), event("RestartCount", "Restart Count: 0")]
STARTED = {"reason": "Started", "text": "Started container vllm", "source": "kubernetes"}
CLUSTER = [
    shown("probe_killed", event("Unhealthy"), event("Killing"), unlike=[event("Killing", "Stopping container")]),
    shown("probe_killed", event("Killing", "failed liveness probe, will be restarted"), unlike=[event("Unhealthy")]),
    shown(
        "probe_killed",
        line("probe_killed", "STARTUP HTTP probe failed", "error", role="ending"),
        unlike=[
            line("probe_killed", "STARTUP HTTP probe failed", "error", at=100, role="ending"),
            line("ready", phase="ready", at=200),
        ],
    ),
    shown(
        "load_given_up",
        line("load_timeout", "worker startup timed out", "error"),
        unlike=[line("load_timeout", "worker startup timed out", "error", at=100), line("ready", phase="ready", at=200)],
    ),
    shown("probe_killed", STARTUP, event("Killing", "Stopping"), unlike=[READINESS, event("Killing", "Stopping container")]),
    shown(  # killed, started again, and up
        "probe_fails",
        *(STARTUP, event("Killing", age_s=900), event("Started", age_s=890), line("ready", phase="ready")),
        unlike=[STARTUP, event("Killing", age_s=90), event("Started", age_s=890), line("ready", phase="ready")],
    ),
    shown("probe_fails", STARTUP, unlike=[STARTUP, *FIRST]),  # not passed yet: its first container runs
    shown("probe_fails", STARTUP, event("RestartCount", "Restart Count: 3"), unlike=[READINESS]),
    shown("probe_pending", STARTUP, *FIRST, unlike=[STARTUP, event("RestartCount", "Restart Count: 1")]),
    shown("probe_pending", READINESS, unlike=[READINESS, STARTUP]),
    shown("probe_pending", STARTUP, *FIRST, unlike=[STARTUP, *FIRST, event("CrashLoopBackOff")]),
    shown("restarts", row("events", **STARTED, times=2), unlike=[row("events", **STARTED, times=1), event("Created")]),
    shown("unschedulable", event("FailedScheduling", "0/3 nodes are available"), unlike=[event("Scheduled")]),
    shown(
        "unschedulable",
        *(event("Scheduled", age_s=600.0), event("FailedScheduling", age_s=60.0)),
        unlike=[event("FailedScheduling", age_s=600.0), event("Scheduled", age_s=60.0)],
    ),
    shown("container_blocked", event("FailedMount"), unlike=[event("FailedMount", age_s=90.0), event("Started", age_s=9.0)]),
    shown("container_blocked", event("ErrImagePull"), unlike=[event("Pulled")]),
    shown("probe_killed", event("Evicted", "The node was low on resource: ephemeral-storage"), unlike=[event("BackOff")]),
    shown("cgroup_oom_kill", event("Evicted", "The node was low on resource: memory"), unlike=[event("Evicted", "disk")]),
    shown("unschedulable", event("Pending"), unlike=[event("Pending", source="slurm")]),
    shown("terminated_line", line("terminated", role="ending"), unlike=[line("shutdown", role="ending")]),
    shown(  # its front end got the interrupt, and passed on another signal
        "terminated_line",
        line("sigterm", role="ending"),
        unlike=[line("sigterm", role="ending"), line("interrupted", role="ending")],
    ),
    shown("terminated_line", line("exit_code", exit_code="143"), unlike=[line("exit_code", exit_code="137")]),
    shown("restarts", line("args", start=0), line("args", start=1), unlike=[line("args", start=0)]),
    shown(
        "restart_loop",
        line("unit_restarted", kind="other", restarts=9),
        unlike=[line("unit_restarted", kind="other", restarts=9), line("ready", kind="ready", phase="ready")],
    ),
    shown("placement_wait", line("placement_wait", DEMAND), unlike=[line("dist_begin")]),
    shown("resources_short_line", line("insufficient_resources"), unlike=[line("placement_wait")]),
    shown("resources_short_line", line("replica_wait", stage="scheduled"), unlike=[line("replica_wait", stage="initialized")]),
    shown("queue_line", line("queued", kind="heartbeat"), unlike=[line("queued", kind="heartbeat"), *[line(None)] * 5]),
    shown("unschedulable", event("Priority", "7 t u PD 0:00 1", "slurm"), unlike=[event("n1", "7 t u R 0:09 1", "slurm")]),
    shown("demand_pending", *RAY, event("PendingDemand", DEMAND, "ray"), unlike=[*RAY]),
    shown(
        "demand_over_supply",
        *RAY,
        event("PendingDemand", DEMAND, "ray"),
        unlike=[*RAY, event("PendingDemand", "{'GPU': 2.0} * 1 (PACK)", "ray")],
    ),
]

# A stack tool that failed is a matter of threads; it stands here with the other tools.
TOOLS = [
    shown(
        "stack_tool_failed",
        row("tool_errors", tool="pyspy", error="permission", text="Permission denied"),
        unlike=[row("tool_errors", tool="pyspy", error="permission", text="Permission denied"), *stack(10, "f (a.py)")],
    )
]

TABLE = [*ENDINGS, *ERRORS, *HARDWARE, *CLUSTER, *TOOLS]
