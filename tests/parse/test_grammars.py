"""Each packaged grammar on lines of its own server: who writes, when, what it means. The lines are made, not copied."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kit.parse import grammar
from kit.parse.base import Report, Source
from kit.parse.log import looks_like, parse

CAPTURED = int(datetime(2026, 5, 1, tzinfo=UTC).timestamp()) * 10**9
LOGS = {
    "lmdeploy": [
        "2026-04-24 09:22:30,255 - lmdeploy - INFO - engine.py:261 - input backend=turbomind, engine_config=X(tp=2)",
        "2026-04-24 09:22:33,100 - lmdeploy - WARNING - converter.py:90 - Convert to turbomind format, 4 of 64 layers",
        "[TM][INFO] [BlockManager] max_block_count = 1180",
        "[TM][ERROR] CUDA runtime error: out of memory /src/allocator.h:231",
        "INFO:     Application startup complete.",
    ],
    "tei": [
        '2026-04-24T09:22:30.255192Z  INFO text_embeddings_router: router/src/main.rs:203: Args { model_id: "o/m", port: 8085 }',
        "2026-04-24T09:22:31.000000Z  INFO download_artifacts: text_embeddings_core::download: download.rs:42: Starting download",
        "2026-04-24T09:22:40.000000Z  INFO text_embeddings_router: router/src/lib.rs:250: Starting model backend",
        "2026-04-24T09:22:50.000000Z  INFO text_embeddings_router: router/src/lib.rs:270: Warming up model",
        "2026-04-24T09:22:55.000000Z  INFO text_embeddings_router::http::server: router/src/http/server.rs:1850: Ready",
    ],
    "ollama": [
        'time=2026-04-24T09:22:30.255Z level=INFO source=routes.go:1304 msg="server config env=map[A:1]"',
        'time=2026-04-24T09:22:31.255Z level=INFO source=routes.go:1357 msg="Listening on 127.0.0.1:11434 (version 0.9.1)"',
        'time=2026-04-24T09:23:31.255Z level=INFO source=server.go:438 msg="starting llama server" cmd="/usr/bin/ollama runner"',
        'time=2026-04-24T09:23:32.255Z level=INFO source=server.go:637 msg="waiting for server to become available" status="x"',
        'time=2026-04-24T09:23:39.255Z level=INFO source=server.go:650 msg="llama runner started in 7.20 seconds"',
    ],
    "triton": [
        "I0424 09:22:30.255192 1 pinned_memory_manager.cc:275] Pinned memory pool is created at '0x7fe0' with size 268435456",
        "I0424 09:22:31.255192 1 model_lifecycle.cc:462] loading: llama:1",
        "I0424 09:22:51.255192 1 model_lifecycle.cc:818] successfully loaded 'llama'",
        "I0424 09:22:52.255192 1 http_server.cc:4692] Started HTTPService at 0.0.0.0:8000",
        "E0424 09:22:53.255192 1 model_lifecycle.cc:630] failed to load 'draft' version 1: Internal: no such engine",
    ],
    "mindie": [
        "[2026-04-24 09:22:30.255+00:00] [7] [7] [server] [INFO] [main.cpp:48] : [Daemon] Server start, config path c.json",
        "[2026-04-24 09:22:31.000+00:00] [7] [9] [server] [INFO] [x.cpp:2] : [backend] start slave process, rank=0, worldSize=2",
        "[2026-04-24 09:22:41.000+00:00] [7] [9] [server] [INFO] [x.cpp:3] : [backend] rank 0 load weight shard 1/3",
        "[2026-04-24 09:22:51.000+00:00] [7] [7] [server] [INFO] [main.cpp:7] : [Daemon] Daemon start success!",
        "[2026-04-24 09:22:55.000+00:00] [7] [9] [server] [INFO] [h.cpp:8] : Http receive response from x:9, status code is 200",
        "[2026-04-24 09:22:56.000+00:00] [7] [7] [server] [WARN] [main.cpp:9] : [Daemon] Received exit signal[15], stopping",
        "[2026-04-24 09:22:57.000+00:00] [7] [7] [server] [ERROR] [main.cpp:9] : [MIE1] [Daemon] Killing all process group",
    ],
    "nemo": [
        "[NeMo I 2026-04-24 09:22:30 nemo_logger:145] Experiments will be logged at /x/run",
        "[NeMo I 2026-04-24 09:22:33 megatron_init:426] Rank 0 has data parallel group : [0]",
        "[NeMo I 2026-04-24 09:22:40 dist_ckpt_io:95] Loading distributed checkpoint with strategy torch_dist",
        "Training epoch 0, iteration 19/999 | lr: 1e-05 | global_batch_size: 8",
    ],
}
CODES = {
    "lmdeploy": ["args", "weights_begin", "kv_cache", "gpu_oom", "ready"],
    "tei": ["args", "download_begin", "weights_begin", "model_warmup", "ready"],
    "ollama": ["args", "port_open", "weights_begin", "runner_wait", "ready"],
    "triton": ["memory_pool", "weights_begin", "model_loaded", "ready", "load_failed"],
    "mindie": ["args", "rank_assigned", "weights_progress", "ready", "request", "sigterm", "daemon_stopping"],
    "nemo": ["args", "dist_groups", "weights_begin", "train_step"],
}


def rows(lines: list[str]) -> list[dict]:
    return [row for _, row in parse(lines, Source("server.log", captured_ns=CAPTURED), Report())]


@pytest.mark.parametrize("server", LOGS)
def test_each_server_is_told_and_its_lines_are_milestones(server: str) -> None:
    found = rows(LOGS[server])
    assert grammar.load().detect(LOGS[server]) == server
    assert [row["milestone"] for row in found] == CODES[server]
    assert looks_like("\n".join(LOGS[server])) == 0.95


@pytest.mark.parametrize("server", LOGS)
def test_its_stamps_are_read(server: str) -> None:
    first = rows(LOGS[server])[0]
    stamp = datetime.fromtimestamp(first["time"] / 1e9, UTC)
    assert (first["time_source"], f"{stamp:%Y-%m-%d %H:%M:%S}", first["level"]) == ("own", "2026-04-24 09:22:30", "INFO")


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("I0424 09:22:30.255192      71 main.go:12] begun", "INFO", "begun"),
        ('level=ERROR time=2026-04-24T09:22:30.5Z msg="no device"', "ERROR", 'no device"'),
        ("llm-0/server | 2026-04-24T09:22:30Z INFO ready", "INFO", "ready"),
        ("time=2026-04-24T09:22:30Z level=warn caller=a.go:3 gone", "WARNING", "gone"),
        ("[NeMo W 2026-04-24 09:22:30 optim:33] slow", "WARNING", "slow"),
        ("[INFO|trainer.py:2314] 2026-04-24 09:22:30,244 >>   Num examples = 900", "INFO", "Num examples = 900"),
        ("[WARNING|2026-04-24 09:22:30] llamafactory.hparams.parser:148 >> odd", "WARNING", "odd"),
        ("2026-04-24 09:22:30,789 - lmdeploy - ERROR - engine.py:12 - stuck", "ERROR", "stuck"),
    ],
)
def test_stamps_of_other_worlds(line: str, level: str, message: str) -> None:
    prefix, text = grammar.load().matcher(None).prefixes.peel(line, Source("a.log", captured_ns=CAPTURED))
    assert (prefix.level, text.strip()) == (level, message)
    assert datetime.fromtimestamp(prefix.stamp / 1e9, UTC).hour == 9


@pytest.mark.parametrize(
    ("line", "code", "role", "fields"),
    [
        ("[INFO] [launch.py:315:sigkill_handler] Killing subprocess 71", "closing_workers", "teardown", "71"),
        ("[ERROR] [launch.py:321:sigkill_handler] ['python', 't.py'] exits with return code = -9", "worker_died",
         "cascade", '"signal": 9'),
        ("CalledProcessError: Command 'python t.py' died with <Signals.SIGKILL: 9>.", "worker_died", "cascade", '"signal": 9'),
        ("[2026-04-24 09:22:30,255] [INFO] [launch.py:350:main] Process 71 exits successfully.", "process_done",
         "finished", "71"),
    ],
)  # fmt: skip
def test_launchers_say_how_their_workers_ended(line: str, code: str, role: str, fields: str) -> None:
    row = rows([line])[0]
    assert (row["milestone"], row["role"]) == (code, role)
    assert fields in row["fields"]


@pytest.mark.parametrize(
    ("line", "milestone", "server"),
    [
        ("loading blk.12.ffn_norm.weight to cuda:0", "weights_item", "programs"),
        ("Loading expert layer 7 of 61", "weights_item", "programs"),
        ("Loaded tokenizer in 7 s", None, None),
        ("INFO:     GPU KV cache: 812 blocks, Starting to load model", "weights_begin", None),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9)", "shm_short", "nccl"),
        ("failed (exitcode: 85) local_rank: 0 (pid: 7) of binary: python", "restart_asked", "torchrun"),
    ],
)
def test_lines_of_programs_that_nothing_detects(line: str, milestone: str | None, server: str | None) -> None:
    """They tell what they tell, and name no server: another than the one whose grammar knows it may print such a line."""
    row = rows([line])[0]
    assert (row.get("milestone"), row["server"]) == (milestone, server)


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("RuntimeError: CUDA driver error: out of memory", True),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 8.0 GB).", True),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("ResourceExhaustedError: OOM when allocating tensor with shape[8,4096]", True),
        ("[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, pool): out of memory", True),
        ("Error: not enough GPU memory to load the model: need 24.1 GiB", True),
        ("ValueError: it requires 81.2 GB of GPU memory but only 23.6 GB is available", True),
        ("If you run into CUDA out of memory errors, lower the batch size.", False),
        ("A larger batch may end in CUDA out of memory", False),
        ("Using 12.1 GiB of GPU memory", False),
        ("Out of memory: Killed process 77 (python3)", False),
    ],
)
def test_memory_of_a_gpu_that_runs_out_is_told_in_many_words(line: str, out: bool) -> None:
    assert (rows([line])[0].get("milestone") == "gpu_oom") is out


@pytest.mark.parametrize("before", ["[pod/vllm-large-5d9f/main] ", "vllm-1  | ", "Mar 01 10:00:01 gpu7 vllm[88]: "])
def test_the_name_of_a_pod_does_not_tell_the_server(before: str) -> None:
    lines = ["[2026-03-01 10:00:00] server_args=ServerArgs(port=1)", "[2026-03-01 10:00:09 TP0] Load weight begin."]
    assert grammar.load().detect([before + line for line in lines]) == "sglang"
    assert grammar.load().detect([before + "up"]) == "vllm"  # where nothing else tells, it does


def test_a_server_that_hosts_another_speaks_in_its_log() -> None:
    lines = ["[TM][INFO] NCCL group_id = 0", "[TM][INFO] [forward] Enqueue requests"]
    lines[1:1] = ["I0424 09:22:36.331 1 http_server.cc:3477] Started HTTPService at 0.0.0.0:8000"]
    assert grammar.load().detect(lines * 2) == "lmdeploy"
    assert [row["milestone"] for row in rows(lines[:1] * 3 + lines)][-2:] == ["ready", "request"]


@pytest.mark.parametrize(
    ("line", "milestone", "rank"),
    [
        ("(DTensorWorker[rank=5] pid=21005, ip=10.0.0.2) moved", None, 5),
        ("===== Step 4/90 =====", "train_stage", None),
        ("step:12 - global_seqlen/mean:911.2 - timing_s/step:31.0", "train_step", None),
    ],
)
def test_what_trains_and_generates_is_known_in_a_servers_log(line: str, milestone: str | None, rank: int | None) -> None:
    row = rows([*LOGS["triton"], line])[-1]
    assert (row["milestone"], row.get("rank")) == (milestone, rank)


def test_no_text_to_find_is_made_of_digits() -> None:
    """Records are looked up without their digits: such a text would be looked for in every line."""
    parts = {part for found in grammar.load().all for milestone in found.milestones for part in milestone.find}
    assert [part for part in parts if len(part.translate(grammar.NO_DIGITS).encode()) < 3] == []
