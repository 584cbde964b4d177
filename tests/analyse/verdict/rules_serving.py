"""Evidence for the rules on serving and progress."""

from __future__ import annotations

from kit.analyse.verdict.signs.reporter import CODES
from tests.analyse.verdict.scenes import bar, counter, error, gpu, line, listen, ps, row, shown, twice, worker

SERVER = [line("args", phase="launch", port=30000, at=0), ps(10, "python3 -m sglang.launch_server --port 30000")]
READY = line("ready", "The server is fired up", kind="ready", phase="ready")
DELETED = row("fds", fd=1, pid=10, target="/tmp/log", deleted=True)
STEPS = [line("train_step", step=n, at=3400 + 20 * n, phase="train_step") for n in range(8)]
STATS = {"kind": "request", "running": 3, "tokens_per_s": 0}


FAILED = line("health_failed", kind="symptom")
LEFT = [
    line("prefill_batch", kind="request", at=100),
    *(line("handover_failed", kind="symptom", at=at, seconds=300.2) for at in (700, 701)),
]


def client(kind: str) -> tuple:
    """An error of a library that asks servers."""
    return error("exception", f"{kind}: no answer", fields={"type": kind, "message": "no answer"})


def said(claim: str) -> tuple:
    """A claim of who sent the evidence."""
    return row("statements", claim=claim, text="It is so.")


def asked(path: str, status: int | None = None, **columns: object) -> tuple:
    """A request that an observer sent."""
    return row("probes", path=path, http_status=status, url=f"http://localhost:30000{path}", port=30000, **columns)


def tokens(before: int, after: int, running: int = 2) -> list:
    """Two samples of a server's metrics."""
    moves = twice("counters", "value", before, after, name="vllm:generation_tokens_total", source="metrics")
    return [*moves, counter("vllm:num_requests_running", running, "metrics")]


WAITING = counter("vllm:num_requests_waiting", 7, "metrics")
QUEUED = {"kind": "request", "running": 0, "queued": 4, "tokens_per_s": 0}


SERVING = [
    shown("ready_line", *SERVER, READY, unlike=[*SERVER, READY, error("bind_error")]),
    shown("ready_line_unseen", READY, DELETED, deleted=True, unlike=[READY]),
    shown("no_ready_line", *SERVER, unlike=[*SERVER, READY]),
    shown("no_ready_line", READY, deleted=True),
    shown("training_steps", STEPS, unlike=[line("args")]),
    shown(  # of a server it is the statistics that it prints while a request stands
        "figures_repeat",
        [line(None, f"busbw: {n}.5 Gbps") for n in (81, 82, 83)],
        unlike=[line(None, f"busbw: {n}.5 Gbps", server="vllm") for n in (81, 82, 83)],
    ),
    shown(
        "figures_repeat", *[line(None, f"busbw: {n}.5 Gbps") for n in (81, 82, 83)], unlike=[line(None, "busbw: 0.0 Gbps")] * 5
    ),
    shown("log_ends_on_step", STEPS, gpu(0, 100, 600), unlike=[STEPS, gpu(0, 100, 150)]),
    shown("log_ends_on_step", STEPS, unlike=[STEPS, line("shutdown", role="ending")]),
    shown(  # tqdm draws its frame once more when the program prints beside it
        "log_ends_on_step",
        *(STEPS, line("train_step", "70/99", kind="other", phase="train_step")),
        unlike=[STEPS, line("train_step", "70/99", kind="other", phase="train_step"), line("shutdown", role="ending")],
    ),
    shown("training_stands", [line("train_step", step=n, at=3 * n, phase="train_step") for n in range(8)], unlike=[STEPS]),
    shown(
        "answers_fail",
        *[line("request_refused", kind="request", status=503)] * 2,
        unlike=[line("request_refused", kind="request", status=400)] * 2,
    ),
    shown(
        "says_it_stands",
        line("stands", kind="heartbeat", seconds=900),
        unlike=[line("stands", kind="heartbeat", seconds=900), *[line(None)] * 5],
    ),
    shown(  # others may wait for who is asked; what goes on was answered
        "asks",
        line("asks", "Enter your choice:", kind="symptom"),
        [line("store_barrier", kind="heartbeat")] * 9,
        unlike=[line("asks", "Enter your choice:", kind="symptom"), STEPS],
    ),
    shown("asks", line("asks", kind="symptom"), unlike=[line("asks", kind="symptom"), [line(None)] * 5]),
    shown(  # how fast weights arrive is no work
        "figures_repeat",
        [line(None, f"{n}.5 GB/s") for n in (81, 82, 83)],
        unlike=[line("weights_item", f"{n}.5 GB/s", phase="weights") for n in (81, 82, 83)],
    ),
    shown("training_goes_on", *STEPS[:-1], line("train_step", step=8, at=3590), unlike=STEPS[:4]),
    shown(
        "requests_served",
        line("request", kind="request", phase="serving", path="/v1/completions", status=200),
        unlike=[line("request", kind="request", phase="serving", path="/tokenize", status=200)],
    ),
    shown("generate_works", asked("/generate", 200, purpose="generate", tokens=1), unlike=[asked("/health", 200)]),
    shown(
        "first_request_compiles",
        *[line("ready", phase="ready"), asked("/generate", purpose="generate", error="timeout")],
        *[ps(20, "/usr/bin/ptxas -v", moment=0), ps(21, "/usr/bin/ptxas -v", moment=1)],
        unlike=[
            line("ready", phase="ready"),
            asked("/generate", purpose="generate", error="timeout"),
            ps(20, "/usr/bin/ptxas -v"),
        ],
    ),
    shown(
        "fails_since_error",
        *(READY, error("exception", "RuntimeError: no such pair", role="initiating")),
        asked("/generate", purpose="generate", error="timeout"),
        unlike=[*(READY, error("exception", "RuntimeError: no such pair", role="initiating")), asked("/health", 200)],
    ),
    shown("generate_fails", asked("/generate", purpose="generate", error="timeout"), unlike=[asked("/generate", 404)]),
    shown("health_ok", asked("/health", 200), unlike=[asked("/v1/models", 200)]),
    shown("health_ok", asked("/health", 200), unlike=[asked("/health", 200), line("shutdown", role="ending")]),
    shown("health_bad", asked("/health", 503), unlike=[asked("/health", 404)]),
    shown(
        "health_unanswered",
        asked("/health", purpose="health", error="timeout", duration_s=60.0),
        unlike=[asked("/health", purpose="health", error="connection refused")],
    ),
    shown(
        "accept_queue_full",
        *(*SERVER, listen(30000, 10, recv_q=129, send_q=128)),
        unlike=[*SERVER, listen(30000, 10, recv_q=3, send_q=128)],
    ),
    shown("health_failed_line", error("health_failed"), unlike=[error("exception")]),
    shown("health_failed_line", FAILED, unlike=[FAILED, line("request", kind="request", phase="serving", status=200)]),
    shown("serves_unlogged", *SERVER, listen(30000, 10), asked("/health", 200), unlike=[*SERVER, READY, asked("/health", 200)]),
    shown(
        "serves_unlogged", *SERVER, asked("/generate", 200, purpose="generate", tokens=1), unlike=[*SERVER, asked("/health", 200)]
    ),
    shown("port_closed", *SERVER, listen(22, 1, "sshd"), unlike=[*SERVER, listen(30000, 10)]),
    shown("port_closed", *SERVER, asked("/health", error="connection refused"), unlike=[*SERVER, asked("/health", 200)]),
    shown("refuses_though_ready", *SERVER, READY, asked("/health", error="connection refused"), unlike=[*SERVER, READY]),
    shown("client_unanswered", READY, client("openai.APITimeoutError"), unlike=[READY, client("openai.BadRequestError")]),
    shown("client_unanswered", READY, client("httpx.ReadTimeout"), unlike=[client("httpx.ReadTimeout"), READY]),
    shown(
        "health_failed_line",
        *(line("ready", phase="ready"), line("health_failed", kind="symptom", status=503)),
        unlike=[line("health_failed", kind="symptom", status=503), line("ready", phase="ready")],
    ),
    shown("bind_error", error("bind_error", "address already in use"), unlike=[error("bind_error", "in use"), READY]),
    shown(
        "refuses_though_ready",
        *(READY, asked("/health", error="empty reply")),
        unlike=[READY, row("probes", path="/health", error="empty reply", capture="server.log", line=0)],
    ),
    shown("requests_wait", WAITING, unlike=[WAITING, counter("vllm:num_requests_running", 2, "metrics")]),
    shown(
        "request_stuck", line("engine_stats", at=100, **QUEUED), unlike=[line("engine_stats", at=100, **QUEUED | {"queued": 0})]
    ),
    shown("log_deleted", DELETED, unlike=[row("fds", fd=1, pid=10, target="/var/log/server.log")]),
    shown("said_starts", said("starts"), unlike=[said("starts"), error("exception")]),
    shown("said_hang", said("hang"), unlike=[said("hang"), said("starts")]),
    shown("said_training_stands", *STEPS, said("hang"), unlike=[*STEPS, said("hang"), said("slow")]),
    *(
        shown(code, said(code.removeprefix("said_")), unlike=[said("other")])
        for code in CODES
        if code not in ("said_starts", "said_hang")
    ),
    shown("log_holds_nothing", line(None, "nohup: ignoring input", kind="other"), unlike=[line("args")]),
    shown("log_holds_nothing", line(None, "x", kind="other"), unlike=[line(None, "x", kind="other")] * 4),
    shown("bind_error", error("bind_error", "address already in use"), unlike=[error("exception", "address")]),
    # Who says that it works, and shows no log, has lost none.
    shown("works_unlogged", *SERVER, said("works"), unlike=[SERVER[1], said("works")]),
    shown("works_unlogged", *SERVER, said("works"), unlike=[*SERVER, READY, said("works")]),
    shown("work_at_zero", READY, bar("other", 0, 1319, 3590), gpu(0, 0), unlike=[READY, bar("other", 0, 1319, 3590), gpu(0, 60)]),
    shown("work_at_zero", READY, bar("other", 0, 9, 3590), gpu(0, 0), unlike=[READY, bar("other", 1, 9, 3590), gpu(0, 0)]),
    shown("own_listener", *SERVER, listen(30000, 10), unlike=[*SERVER, listen(30000, 99)]),
    shown("foreign_listener", *SERVER, listen(30000, 99), unlike=[*SERVER, listen(30000, 10)]),
    shown("foreign_listener", error("bind_error", port=30000), listen(30000, 99), unlike=[*SERVER, listen(22, 99)]),
    shown("proxy_listens", *SERVER, listen(30000, 99, "docker-proxy"), unlike=[*SERVER, listen(30000, 10)]),
    shown("tokens_grow", tokens(100, 150), unlike=tokens(100, 100)),
    shown("tokens_frozen", tokens(100, 100), unlike=tokens(100, 100, running=0)),
    shown("rpc_timeout", error("rpc_timeout"), unlike=[error("exception", "timeout")]),
    shown("engine_watchdog", error("watchdog"), unlike=[error("rpc_timeout")]),
    shown("engine_watchdog", error("hang_detected"), unlike=[error("exception")]),
    shown("handover_stuck", *LEFT, unlike=[*LEFT, line("prefill_batch", kind="request", at=800)]),
    shown("request_stuck", line("request", kind="request", at=100), unlike=[line("request", kind="request", at=100, status=200)]),
    shown("request_stuck", line("request", kind="request", at=100), unlike=[line("request", kind="request", at=3590)]),
    shown("request_stuck", *[line("engine_stats", **STATS)] * 2, unlike=[line("engine_stats", **STATS)]),
    shown(
        "tokens_stand",
        *[line("engine_stats", at=at, **STATS) for at in (3000, 3590)],
        unlike=[line("engine_stats", at=at, prompt_tokens_per_s=900, **STATS) for at in (3000, 3590)],  # a long prompt
    ),
    shown(
        "request_stuck",
        line("decode_batch", at=100, kind="request", running=3, tokens_per_s=80),
        unlike=[line("decode_batch", at=3590, kind="request", running=3, tokens_per_s=80)],
    ),
]


def in_phase(phase: str) -> tuple:
    """A log that is in a phase."""
    return line("entered", phase=phase, at=10)


BARS = [
    shown(f"{kind}_bar_{end}", in_phase(phase), bar(kind, 3, 8, at, 30), unlike=[in_phase(phase), bar(kind, 3, 8, other, 30)])
    for kind, phase in (("weights", "weights"), ("graph", "graph_capture"), ("download", "download"), ("jit", "compile"))
    for end, at, other in (("moves", 3590, 2000), ("stands", 2000, 3590))
]
BARS += [
    shown(
        f"data_bar_{end}",
        in_phase("data_prep"),
        bar("other", 3, 8, at, 30, phase="data_prep"),
        unlike=[in_phase("data_prep"), bar("other", 3, 8, other, 30, phase="data_prep")],
    )
    for end, at, other in (("moves", 3590, 2000), ("stands", 2000, 3590))
]
BARS += [
    shown(  # a bar of an earlier phase that was left behind
        "weights_bar_stands",
        in_phase("weights"),
        bar("weights", 3, 8, 2000, 30),
        unlike=[in_phase("weights"), bar("weights", 3, 8, 2000, 30), line("graph_begin", phase="graph_capture")],
    ),
    shown("weights_bar_stands", bar("weights", 3, 8, 2000, 30), unlike=[bar("weights", 8, 8, 2000, 30)]),
    shown(  # an item takes five minutes: it may not have moved for that long
        "weights_bar_moves", bar("weights", 3, 8, 3000, 900), unlike=[bar("weights", 3, 8, 1000, 900)]
    ),
    shown(
        "graph_bar_never_moved",
        in_phase("graph_capture"),
        bar("graph", 0, 8, 2000, 0),
        unlike=[in_phase("graph_capture"), bar("graph", 1, 8, 2000, 9)],
    ),
    shown(  # the first graph waits for its kernels
        "graph_bar_never_moved",
        in_phase("graph_capture"),
        bar("graph", 0, 8, 2000, 0),
        unlike=[in_phase("graph_capture"), bar("graph", 0, 8, 2000, 0), ps(20, "/usr/bin/ptxas -v")],
    ),
    shown(
        "weights_bar_moves",
        *(line("shard", f"shard {word}", phase="weights", at=3500 + 20 * n) for n, word in enumerate("abcde")),
        unlike=[line("shard", "shard a", phase="weights", at=3580)] * 5,
    ),
    shown(
        "weights_bar_stands",
        *(line("shard", f"shard {word}", phase="weights", at=500 + 20 * n) for n, word in enumerate("abcde")),
        unlike=[line("shard", f"shard {word}", phase="weights", at=3500 + 20 * n) for n, word in enumerate("abcde")],
    ),
    shown(  # a request of a new shape
        "first_request_compiles",
        in_phase("serving"),
        bar("jit", 3, 8, 3585, 9),
        unlike=[in_phase("warmup"), bar("jit", 3, 8, 3585, 9)],
    ),
    shown(  # a warm-up that tunes kernels, one size after the other
        "jit_bar_moves",
        in_phase("warmup"),
        *(line("build_begin", f"tune {word}", phase="compile", at=3500 + 20 * n) for n, word in enumerate("abcde")),
        unlike=[in_phase("warmup"), *(line("tuned", f"tune {word}", at=3500 + 20 * n) for n, word in enumerate("abcde"))],
    ),
    shown(  # said four times each, the last said for ever: the number is what moves
        "weights_bar_moves",
        *(line("shard", f"shard {n // 4}", phase="weights", at=3400 + 10 * n) for n in range(20)),
        unlike=[line("shard", f"shard {min(n // 4, 4)}", phase="weights", at=3400 - 10 * (280 - n)) for n in range(300)],
    ),
    shown(
        "weights_bar_stands",
        *(line("shard", f"shard {min(n // 4, 4)}", phase="weights", at=590 + 10 * n) for n in range(300)),
        unlike=[line("shard", f"shard {n // 4}", phase="weights", at=3400 + 10 * n) for n in range(20)],
    ),
    shown(  # of one time: it is that of a line far above, the steps have none
        "weights_bar_stands",
        *(line("shard", f"shard {word}", phase="weights", at=500 + 20 * n) for n, word in enumerate("abcde")),
        unlike=[line("shard", f"shard {word}", phase="weights", at=500) for word in "abcde"],
    ),
]

SILENCE = [
    shown("long_silence", line("args", at=3000), unlike=[line("args", at=3400)]),
    shown("short_silence", line("args", at=3400), unlike=[line("args", at=3590)]),
    shown("recent_progress", line("args", at=3590), unlike=[line("args", at=3400)]),
    shown(  # heartbeats are no progress
        "long_silence",
        line("args", at=100),
        line("shm_wait", kind="heartbeat", at=3590),
        unlike=[line("args", at=100), line("weights_end", at=3590)],
    ),
    shown(
        "heartbeats_only",
        line("args"),
        *[line("shm_wait", kind="heartbeat")] * 3,
        unlike=[line("args"), *[line("shm_wait", kind="heartbeat")] * 2],
    ),
    shown(
        "milestones_between_heartbeats",
        line("compile_begin", phase="compile"),
        line("shm_wait", kind="heartbeat"),
        line("kernel_built", phase="compile"),
        unlike=[line("compile_begin", phase="compile"), line("shm_wait", kind="heartbeat")],
    ),
]

PHASES = [
    shown(f"phase_{phase}", line("entered", phase=phase), unlike=[line("entered", phase="ready")])
    for phase in ("launch download dist_init weights post_load compile graph_capture warmup serving data_prep train_step".split())
]
PHASES.append(shown("phase_unknown", worker(0), unlike=[line("entered", phase="weights")]))

TABLE = [*SERVING, *BARS, *SILENCE, *PHASES]
