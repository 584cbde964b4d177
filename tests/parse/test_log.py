"""The log reader against recorded logs (tests/data/logs) and single lines of every server and wrapper."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kit.errors import KitError
from kit.frames import FRAMES
from kit.parse import bars, grammar
from kit.parse.base import Report, Source
from kit.parse.log import FORMATS, looks_like, parse
from kit.parse.records import global_rank
from kit.parse.text import LineReader

LOGS = Path(__file__).parent.parent / "data" / "logs"


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


def read(text: str, captured: str = "2026-03-20 12:00:00", offset_s: int = 0) -> tuple[list[dict], Report]:
    report = Report()
    source = Source("server.log", captured_ns=ns(captured), offset_s=offset_s)
    rows = list(parse(text.split("\n"), source, report))
    for frame, row in rows:
        FRAMES[frame].check({**row, "capture": "server.log"})
    return [row for frame, row in rows if frame == "log"], report


def recorded(name: str, captured: str) -> tuple[list[dict], Report]:
    report = Report()
    reader = LineReader(LOGS / f"{name}.log")
    rows = [row for _, row in parse(reader, Source("server.log", captured_ns=ns(captured)), report)]
    for row in rows:
        FRAMES["log"].check({**row, "capture": "server.log"})
    assert [row["record"] for row in rows] == list(range(report.records)) and report.lines == reader.newlines
    return rows, report


def one(line: str, **known) -> dict:
    rows, _ = read(line, **known)
    assert len(rows) == 1, [row["text"] for row in rows]
    return rows[0]


def fields(row: dict) -> dict:
    return json.loads(row["fields"] or "{}")


def last_bar(rows: list[dict], kind: str) -> tuple[float, float, float]:
    row = [row for row in rows if row.get("bar_kind") == kind][-1]
    return row["bar_n"], row["bar_total"], row["bar_elapsed_s"]


def codes(rows: list[dict]) -> list[str]:
    return [row["milestone"] for row in rows if row["milestone"]]


def test_sglang_launch_until_ready():
    rows, report = recorded("sglang-ready", "2026-03-20 18:32:37")
    assert report.facts["server"] == "sglang" and report.facts["last_line"].endswith("The server is fired up and ready to roll!")
    assert last_bar(rows, "weights") == (24, 24, 21) and last_bar(rows, "graph")[:2] == (23, 23)
    phases = [row["phase"] for row in rows if row["rank"] == 7 and row["phase"]]
    assert list(dict.fromkeys(phases)) == ["dist_init", "weights", "post_load", "graph_capture"]
    assert rows[-1]["phase"] == "ready" and codes(rows).count("self_test") == 3
    assert not [row for row in rows if row["kind"] == "request"]
    end = next(row for row in rows if row["milestone"] == "graph_end")
    assert fields(end)["elapsed_s"] == 11.4
    assert fields(rows[0]) | {"port": 8000, "tp_size": 8, "host": "0.0.0.0", "start": 0} == fields(rows[0])


def test_log_line_glued_to_an_unfinished_bar():
    rows, report = recorded("vllm-graph-bar", "2026-04-05 12:08:22")
    assert last_bar(rows, "graph") == (36, 51, 16)
    beats = [row for row in rows if row["kind"] == "heartbeat"]
    assert len(beats) == 6 and {row["process"] for row in beats} == {"EngineCore"} and beats[0]["line"] == beats[1]["line"] - 1
    progress = [row for row in rows if row["kind"] == "progress"][-1]
    assert progress["time_source"] == "bar" and progress["time"] == ns("2026-04-05 12:01:56")
    assert report.facts["last_line"] == rows[-1]["raw"]


def test_year_rolls_over():
    row = one("INFO 12-31 23:59:59 [a.py:1] Using max model len 32768", captured="2026-01-01 00:10:00")
    assert row["time"] == ns("2025-12-31 23:59:59") and row["time_source"] == "own"


def test_local_stamps_take_the_offset_and_a_zone_wins():
    line = "[2026-03-20 12:00:00 TP0] Load weight begin. avail mem=9.0 GB"
    assert one(line, offset_s=3600)["time"] == ns("2026-03-20 11:00:00")
    assert one("2026-03-20T10:00:00.000000000Z " + line, offset_s=3600)["time"] == ns("2026-03-20 10:00:00")


def test_no_year_without_a_capture_time():
    report = Report()
    row = next(parse(["INFO 12-31 23:59:59 [a.py:1] hello there"], Source("a.log"), report))[1]
    assert row["time"] is None and row["time_source"] == "none"


@pytest.mark.parametrize(
    ("line", "label", "rank", "process", "pid"),
    [
        ("[2026-01-29 13:12:37 PP2 TP1] Load weight begin.", "PP2 TP1", None, None, None),
        ("sglang-1  | [2026-01-29 13:12:37.123 TP3] Load weight begin.", "TP3", 3, None, None),
        ("[2025-12-26 08:51:31 DP0 TP0 EP0] Load weight begin.", "DP0 TP0 EP0", None, None, None),
        ("\x1b[1;36m(Worker_TP1_EP1 pid=501)\x1b[0;0m INFO 01-09 22:10:23 [a.py:1] hello", "TP1 EP1", 1, "Worker_TP1_EP1", 501),
        ("(VllmWorker rank=2 pid=77) INFO 01-09 22:10:23 [a.py:1] hello", "rank2", 2, "VllmWorker", 77),
        ("(RayWorkerWrapper pid=495986, ip=10.0.0.4) INFO 01-09 22:10:23 [a.py:1] hi", None, None, "RayWorkerWrapper", 495986),
        (
            "2026-01-01T01:17:02.618817Z  INFO shard-manager: text_generation_launcher: Waiting for shard to be ready... rank=1",
            "rank1",
            1,
            "shard-manager",
            None,
        ),
        ("[1,3]<stdout>:step 12/100 loss 1.2", "rank3", 3, None, None),
        ("[rank3]:[E319 02:07:08.465 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog", "rank3", 3, None, None),
        ("Jan 19 18:30:22 host unit[8727]: [2026-01-19 18:30:22 TP5] Load weight begin.", "TP5", 5, None, None),
        ("node-a:18331:18538 [1] NCCL INFO Connected all rings", None, None, None, 18331),
        ("[01/20/2026-10:00:02] [TRT-LLM] [RANK 2] [I] Use 3.2 GB for model weights.", "rank2", 2, None, None),
    ],
)
def test_prefixes(line, label, rank, process, pid):
    row = one(line)
    assert (row["rank_label"], row["rank"], row["process"], row["pid"]) == (label, rank, process, pid)
    assert "[20" not in row["text"] and "INFO" not in row["text"]


def test_prefixes_leave_the_message_alone():
    peel = grammar.load().matcher(None).prefixes.peel
    assert peel("model-00001-of-00002.safetensors:  41%|####  | 3.60G/8.67G", Source("a"))[1].startswith("model-00001")
    assert peel("ValueError: Loading failed", Source("a"))[1] == "ValueError: Loading failed"


def test_container_json_lines():
    row = one('{"log":"[2026-03-19 13:12:37 TP1] Load weight begin.\\n","stream":"stderr","time":"2026-03-19T12:12:37.5Z"}')
    assert (row["rank"], row["milestone"], row["time"]) == (1, "weights_begin", ns("2026-03-19 12:12:37") + 5 * 10**8)


def test_global_rank():
    assert global_rank("PP2 TP1", {"tp": 2, "pp": 3}) == 5
    assert global_rank("DP3 TP6 EP6", {"tp": 8, "dp": 4, "dp_attention": 1}) == 6
    assert global_rank("DP1 TP0", {"tp": 4, "dp": 2}) == 4
    assert global_rank("APIServer", {"tp": 4}) is None


def test_pid_of_nccl_names_the_rank_of_vllm_v0():
    rows, _ = recorded("vllm-nccl", "2024-11-01 23:37:33")
    done = [row["rank"] for row in rows if row["milestone"] == "nccl_init_complete"]
    assert done == [0, 1] and fields(rows[-1])["nranks"] == 2 and rows[-1]["server"] == "nccl"


@pytest.mark.parametrize(
    ("frame", "n", "total", "elapsed", "per_item"),
    [
        ("Loading safetensors checkpoint shards:  42% Completed | 36/85 [18:07<24:40, 30.21s/it]", 36, 85, 1087, 30.21),
        ("  0%|          | 0/23 [00:00<?, ?it/s]", 0, 23, 0, None),
        ("model.safetensors:  38%|###8      | 2.20G/5.74G [01:06<01:46, 33.1MB/s]", 2.2e9, 5.74e9, 66, 1 / 33.1e6),
        ("Loading: 12it [00:05,  2.00it/s]", 12, None, 5, 0.5),
        ("Loading shards: | 3/? [1:00:02<?, 4.0s/it]", 3, None, 3602, 4.0),
        ("[AutoTuner]: Tuning fp4_gemm:   4%|4         | 10/250 [00:10<04:00, 1.00profile/s]", 10, 250, 10, 1.0),
        ("Loading safetensors checkpoint shards:  42% Completed | 36/85 [18:07<24", 36, 85, 1087, None),
        ("Download: [3/19] -- ETA: 0:11:12", 3, 19, None, None),
    ],
)
def test_bars(frame, n, total, elapsed, per_item):
    bar = bars.read(frame)
    assert (bar.n, bar.total, bar.elapsed_s) == (n, total, elapsed)
    assert bar.s_per_item == (None if per_item is None else pytest.approx(per_item))


def test_a_bar_frame_that_stands_still_is_no_progress():
    frame = "Loading weights:  50%|#####     | 1/2 [00:{:02d}<00:01,  1.00s/it]"
    rows, _ = read("\r".join(frame.format(second) for second in (1, 2, 3)))
    assert [row["kind"] for row in rows] == ["progress", "other", "other"]


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("[09:20:29] /opt/x/rpc/comm.cc:46: Cannot connect to remote server tcp://10.1.2.3:2333. Wait to retry", "10.1.2.3"),
        ("nslookup: can't resolve 'ddp-master-0': Name does not resolve", "ddp-master-0"),
        ("waiting for master", None),
    ],
)
def test_who_asks_for_a_peer_again_and_again(line: str, host: str | None) -> None:
    row = one(line)
    assert row["milestone"] == "peer_asked" and fields(row).get("host") == host


@pytest.mark.parametrize(
    ("line", "milestone", "phase"),
    [
        ("INFO 03-31 07:50:16 [tpu_model_runner.py:773]   -- num_tokens: 32", "build_begin", "compile"),
        ("(app-1, pid=37) 2024-06-15 15:34:40,506\tSUCC scripts.py:550 -- Deployed Serve app successfully.", "ready", "ready"),
        ("Deployed app 'llm' successfully.", "ready", "ready"),
    ],
)
def test_what_a_line_tells(line: str, milestone: str, phase: str) -> None:
    row = one(line)
    assert (row["milestone"], row["phase"]) == (milestone, phase)


def test_lock_lines_are_symptoms_and_carry_the_path():
    rows, _ = recorded("sglang-lock-wait", "2025-12-31 21:22:37")
    waits = [row for row in rows if row["milestone"] == "lock_wait"]
    assert len(waits) == 4 and {row["kind"] for row in waits} == {"symptom"}
    assert fields(waits[0])["path"].endswith("/build/lock_module_rmsnorm")


def test_traceback_lines_belong_to_their_rank():
    rows, _ = recorded("sglang-barrier", "2026-09-14 08:18:32")
    gave_up = [row for row in rows if row["milestone"] == "barrier_timeout"]
    assert [row["rank"] for row in gave_up] == [1, 0, 3, 4, 6]
    assert fields(gave_up[0])["type"] == "ValueError" and fields(gave_up[0])["message"].startswith("TP rank 1 could finish")
    assert rows[-1]["milestone"] == "sigquit"


def test_source_text_in_a_traceback_is_no_milestone():
    rows, _ = read(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        '    raise MemoryError("CUDA out of memory")\nvllm.engine.EngineDead: gone\nafter'
    )
    assert codes(rows) == ["traceback", "exception"] and [row["kind"] for row in rows] == ["error"] * 4 + ["progress"]
    assert fields(rows[3]) == {"type": "vllm.engine.EngineDead", "message": "gone"}


def test_bind_error_after_the_ready_line():
    rows, _ = recorded("vllm-port-in-use", "2024-10-10 07:42:28")
    assert codes(rows).index("ready") < codes(rows).index("bind_error")
    assert fields(next(row for row in rows if row["milestone"] == "bind_error"))["port"] == 8080
    assert [row["phase"] for row in rows if row["phase"]][-1] == "warmup"


def test_progress_between_heartbeats():
    rows, _ = recorded("vllm-compiling", "2026-05-20 20:36:57")
    kinds = [row["kind"] for row in rows]
    assert kinds.count("heartbeat") == 3 and kinds[kinds.index("heartbeat") :].count("progress") == 4


def test_vllm_messages_of_several_lines_and_logo():
    rows, report = recorded("vllm-ready", "2026-09-01 06:00:58")
    banner = next(row for row in rows if row["milestone"] == "banner")
    assert fields(banner) == {"version": "0.33.0", "start": 0} and rows[0]["kind"] == "noise"
    assert rows[-1]["phase"] == "ready"
    assert report.facts["last_line"] == "(APIServer pid=1) INFO:     Application startup complete."


def test_tgi_heartbeats_and_signal():
    rows, _ = recorded("tgi-killed", "2024-05-01 01:20:00")
    assert sum(row["kind"] == "heartbeat" for row in rows) == 20
    dead = [fields(row) for row in rows if row["milestone"] == "worker_died"]
    assert {"signal": 9, "rank": 2} in dead


def test_desync_report():
    rows, _ = recorded("desync", "2026-05-16 00:00:00")
    lagging = next(fields(row) for row in rows if row["milestone"] == "desync_lagging")
    assert lagging == {"ranks": 7, "last": 180, "missing": 181}
    timeouts = {row["rank"]: fields(row)["op"] for row in rows if row["milestone"] == "collective_timeout"}
    assert timeouts[2] == "ALLREDUCE" and timeouts[3] == "_ALLGATHER_BASE" and len(timeouts) == 7
    assert [fields(row)["step"] for row in rows if row["milestone"] == "train_step"] == [118, 119]


def test_rendezvous_names_the_peer():
    rows, _ = recorded("rendezvous", "2026-01-08 21:00:00")
    assert fields(next(row for row in rows if row["milestone"] == "socket_timeout")) == {
        "timeout_s": 900,
        "host": "10.145.12.8",
        "port": 29500,
    }
    retry = [fields(row) for row in rows if row["milestone"] == "socket_retry"]
    assert [peer["host"] for peer in retry] == ["train-0.train.svc", "10.145.12.8"] and {peer["errno"] for peer in retry} == {110}


def test_llamacpp_dots_and_own_counter():
    rows, _ = recorded("llamacpp-serving", "2026-06-02 16:26:00")
    assert last_bar(rows, "weights")[:2] == (97, 100) and rows[-1]["phase"] == "serving"
    row = one("0.12.080.322 I main: server is listening on http://127.0.0.1:8080")
    assert row["time"] is None and row["time_source"] == "start" and row["phase"] == "ready"
    assert fields(row)["uptime_s"] == 12.080322


@pytest.mark.parametrize(
    ("line", "code", "wanted"),
    [
        (
            "Rank 3 scheduler died during initialization (exit code: -9). If exit",
            "worker_died",
            {"rank": 3, "exit_code": -9, "signal": 9},
        ),
        ("Worker proc VllmWorker-3 died unexpectedly, shutting down executor.", "worker_died", {"rank": 3}),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
            "gpu_oom",
            {"tried": "2.00 GiB", "gpu": 0},
        ),
        ("OSError: [Errno 98] Address already in use", "bind_error", {"type": "OSError"}),
        ("failed (exitcode: -11) local_rank: 2 (pid: 1234) of binary: python", "worker_died", {"pid": 1234, "signal": 11}),
        ("KeyboardInterrupt: terminated", "terminated", {"type": "KeyboardInterrupt"}),
        ("Fatal Python error: Aborted", "abort", {"message": "Aborted"}),
        (
            "Waiting in store based barrier to initialize process group for rank: 0, key: "
            "store_based_barrier_key:1 (world_size=4, "
            "worker_count=1, timeout=0:30:00)",
            "store_barrier",
            {"world_size": 4, "worker_count": 1},
        ),
        ("Registering 0 cuda graph addresses", "graph_addresses", {"count": 0}),
        ("Killed", "killed", {}),
        ('STARTUP TCP probe failed 3 times consecutively for container "a". The instance was not started.', "probe_killed", {}),
        ("PyProcess Python process startup timed out: 2400", "load_timeout", {}),
        ("INFO  ModelServer Model server stopped.", "shutdown", {}),
        ("Warming up TunableOp for seqlen=4", "build_begin", {}),
        ("x.rs:94: llama-server <embedding> exited with status code -1", "worker_died", {"exit_code": -1}),
        (
            "The node 'a_1_0' has failed to shutdown the rendezvous '7' due to an error of type RendezvousConnectionError.",
            "rendezvous_left",
            {},
        ),
        ("(service llm) (task 0ab) failed container health checks.", "probe_killed", {}),
        ("Container llm didn't respond to HTTP pings on port: 8000, failing site start.", "probe_killed", {}),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "device_lost", {}),
        ("t.sh: 行 6: 4412 已杀死               python t.py", "killed", {"pid": 4412}),
        ("t.sh: Zeile 6:  4412 Getötet                 python t.py", "killed", {"pid": 4412}),
        ("t.sh : ligne 6 :  4412 Erreur de segmentation  python t.py", "segfault", {"pid": 4412}),
        ("t.sh: 第 6 行： 4412 已终止               python t.py", "terminated", {"pid": 4412}),
    ],
)
def test_errors_and_symptoms_of_any_server(line, code, wanted):
    row = one(line)
    assert row["milestone"] == code and fields(row) | wanted == fields(row)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step:119/1393 train_time:10305ms step_avg:94.5ms", 119),
        (" iteration       10/  500000 | consumed samples: 10", 10),
        ("2026-03-19 03:11:02,410 INFO processed batch 4811/ - 60 images/s", 4811),
        ("  5%|5         | 50/1000 [01:00<19:00,  1.20s/it]", 50),
    ],
)
def test_training_steps(line, step):
    row = one(line)
    assert (row["milestone"], row["phase"], fields(row)["step"]) == ("train_step", "train_step", step)


def test_probes_are_no_serving_and_requests_are():
    stamp = "[2026-03-20 04:20:19{}] {}"
    rows, _ = read(
        "\n".join(
            (
                stamp.format("", 'INFO:     10.0.3.17:48072 - "GET /health HTTP/1.1" 200 OK'),
                stamp.format(
                    " TP0", "Prefill batch. #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0"
                ),
                stamp.format("", 'INFO:     10.0.3.17:48072 - "GET /health_generate HTTP/1.1" 503 Service Unavailable'),
                stamp.format("", 'INFO:     10.0.3.17:48072 - "POST /v1/chat/completions HTTP/1.1" 200 OK'),
            )
        )
    )
    assert codes(rows) == ["probe_request", "probe_request", "health_failed", "request"]
    assert [row["phase"] for row in rows] == [None, None, None, "serving"]


def test_restarts_are_counted():
    launch = ["[2026-03-20 04:20:19] server_args=ServerArgs(port=1)", "[2026-03-20 04:20:20 TP0] Load weight begin."]
    rows, _ = read("\n".join(launch * 3))
    assert [fields(row)["start"] for row in rows if row["milestone"] == "args"] == [0, 1, 2]


def test_launch_arguments_over_several_lines():
    rows, _ = read(
        "2026-03-01T01:17:02.6Z  INFO text_generation_launcher: Args {\n    num_shard: Some(\n        4,\n    ),\n"
        "    port: 3000,\n}"
    )
    assert fields(rows[-1]) == {"tp_size": 4, "port": 3000}


DUMP = (
    "[2026-03-20 00:28:16 TP1] Pyspy dump for PID 812:\nProcess 812: sglang::scheduler_TP1\n"
    'Thread 812 (idle): "MainThread"\n    synchronize (torch/cuda/streams.py:221)\n'
    "[2026-03-20 00:28:17 TP1] going on"
)


def test_stack_dump_inside_a_log_gives_stack_rows():
    rows = [row for frame, row in parse(DUMP.split("\n"), Source("server.log"), Report()) if frame == "stacks"]
    assert [(row["pid"], row["function"], row["line"]) for row in rows] == [(812, "synchronize", 4)]


def test_stack_dump_inside_a_log_is_no_progress():
    rows, _ = read(DUMP)
    assert [row["kind"] for row in rows] == ["symptom", "other", "other", "other", "progress"]


def test_strange_input_is_read_without_an_error():
    rows, report = read(
        "\n\r\r\n\x1b[0m\n{not json\n[\n(\n100%|\n]]]]\n[2026-99-99 99:99:99] x\n\ufffd\ufffd\nINFO 02-30 00:00:00 [a.py:1] x"
    )
    assert report.lines == 11 and report.records == len(rows) > 5


def test_a_container_id_alone_is_noise():
    row = one("3f9a1c0b7de24c55a8e6d10f2b94c7713e0a5d8c6b1f49e2a7d3c0b8e5f6a192")
    assert row["kind"] == "noise" and row["server"] is None


def test_looks_like_leaves_other_captures_alone():
    assert looks_like('4412  12:00:01.000001 write(2, "[2026-02-18 00:28:04 TP0] x", 20) = 20\n') == 0.0
    assert looks_like("    PID STAT COMMAND\n   4412 S    python3 -m sglang.launch_server\n") == 0.0
    assert looks_like('Process 812: sglang::scheduler_TP1\nThread 812 (idle): "MainThread"\n') == 0.0
    assert looks_like((LOGS / "vllm-nccl.log").read_text()) >= 0.9 and looks_like("2026-01-01 10:00:00,123 INFO hello") == 0.4
    assert looks_like("Epoch 1 | iter 40 step 20 | loss train: 1.306") == looks_like("[rank: 3] Seed set to 1") == 0.4
    assert looks_like("the loss of a step of 20 m") < 0.4
    assert FORMATS[0].named("node1/server.node1.log") and not FORMATS[0].named("status.txt")


def test_every_packaged_grammar_has_known_codes():
    loaded = grammar.load()
    names = {"sglang", "vllm", "tgi", "trtllm", "llamacpp", "torchrun", "nccl", "ray", "training", "common"}
    assert names <= {g.name for g in loaded.all}
    for server in ("sglang", "vllm", "tgi", "trtllm", "llamacpp"):
        begun = {m.phase for g in loaded.all if g.name == server for m in g.milestones}
        assert {"launch", "weights", "ready"} <= begun, server


def test_a_user_adds_a_server(tmp_path):
    (tmp_path / "my.toml").write_text(
        'name = "mine"\nrole = "server"\ndetect = ["^MINE "]\n[[milestone]]\ncode = "ready"\n'
        'phase = "ready"\nready = true\nfind = "open for business"\n'
        "pattern = 'port (?P<port>\\d+)'\n"
    )
    row = next(parse(["MINE open for business on port 7"], Source("a.log"), Report(), (tmp_path,)))[1]
    assert (row["server"], row["phase"], fields(row)) == ("mine", "ready", {"port": 7})


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ('name = "a"\nrole = "server"\nname = \n', 3, "name"),
        ('name = "a"\nrole = "server"\n[[milestone]]\ncode = "x"\nkind = "hope"\nfind = "y"\n', 5, "kind"),
        ('name = "a"\nrole = "server"\n[[milestone]]\ncode = "x"\npattern = "("\n', 5, "pattern"),
        ('name = "a"\nrole = "server"\n[[milestone]]\ncode = "x"\nfinds = "y"\n', 5, "finds"),
    ],
)
def test_a_wrong_grammar_names_file_line_and_key(tmp_path, text, line, key):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(KitError) as error:
        grammar.load([tmp_path])
    assert f"bad.toml, line {line}, key {key!r}" in str(error.value)


@pytest.mark.parametrize(
    ("line", "description", "share"),
    [
        ("model-3.safetensors [00:14:04] [█████████░░░] 3.81 GiB/4.58 GiB 4.81 MiB/s (2m)", "model-3.safetensors", 0.832),
        ("pulling 6a0746a1ec1a...  45% ▕████        ▏ 2.1 GB/4.7 GB   52 MB/s     49s", "pulling 6a0746a1ec1a...", 0.447),
        ("a1b2c3d4e5f6: Downloading [=====>       ]  1.234GB/3.4GB", "a1b2c3d4e5f6: Downloading", 0.363),
        ("[#2089b0 400.0KiB/33.2MiB(1%) CN:1 DL:115.7KiB ETA:4m51s]", "download", 0.012),
        ("Transferred:   \t  1.2 GiB / 3 GiB, 40%, 30.1 MiB/s, ETA 1m2s", "Transferred", 0.4),
        ("     ━━━━━━━━━━━ 1.2/3.4 GB 30.1 MB/s eta 0:01:02", "download", 0.353),
        ("model.gguf          45%[=====>      ]   2.10G  52.1MB/s    eta 50s", "model.gguf", 0.45),
    ],
)
def test_bars_of_downloaders(line, description, share):
    bar = bars.read(line)
    assert (bar.description, round(bar.n / bar.total, 3)) == (description, share)


@pytest.mark.parametrize("line", ["mem usage 12.3 GiB/80 GiB", "GPU memory: 3 of 80 GB", "KV cache 12.3GB / 80.0GB used [ok]"])
def test_shares_of_memory_are_no_bars(line):
    assert bars.read(line) is None


def test_what_a_shell_echoes_is_no_progress():
    rows, _ = read("+ export RANK=0\n+ python3 train.py config.yml steps=30 lr=1\nstep: 4 loss: 2.1\n")
    assert [row["line"] for row in rows if row.get("milestone") == "train_step"] == [3]
    rows, _ = read(
        "+ ls -la /srv/cache\n##[group]Run dump.sh\nFri Aug 21 09:42:02 UTC 2026\n[test] Waiting for the server ... 60s\n"
    )
    assert [row["kind"] for row in rows] == ["noise", "noise", "noise", "heartbeat"]


def test_an_exception_that_python_ignores_is_noise():
    block = (
        "Exception ignored in: <function Loader.__del__ at 0x7f0b>\nTraceback (most recent call last):\n"
        '  File "loader.py", line 9, in __del__\n    self.stop()\nAssertionError: can only test a child process\n'
    )
    rows, _ = read(block + block.partition("\n")[2])
    assert [row["line"] for row in rows if row["kind"] == "error"] == [6, 7, 8, 9]


def test_the_path_of_a_log_tells_the_rank_where_no_line_does():
    lines = "loading\n[rank3]: loading\n".split("\n")
    rows = [row for _, row in parse(lines, Source("node0/rank2.log", captured_ns=0, rank=2), Report())]
    assert [row["rank"] for row in rows if row["raw"]] == [2, 3]
