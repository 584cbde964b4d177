"""What several logs, counters and orchestrators say together: logs of two servers in one file, a server behind its client."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

READY = """[2026-03-01 10:00:00] server_args=ServerArgs(model_path='m', tp_size=1, port=8000)
[2026-03-01 10:01:00] INFO:     Started server process [1]
[2026-03-01 10:01:00] The server is fired up and ready to roll!
[2026-03-01 10:01:09] INFO:     10.0.0.1:9 - "POST /v1/completions HTTP/1.1" 200 OK
"""
BROKEN = """[2026-03-01 10:05:00] Prefill batch, #new-seq: 1, #new-token: 9
Traceback (most recent call last):
  File "conn.py", line 5, in worker
    raise RuntimeError("the two halves do not fit together")
RuntimeError: the two halves do not fit together
[2026-03-01 10:06:00] INFO:     10.0.0.1:9 - "GET /health HTTP/1.1" 200 OK
"""
UNANSWERED = '$ timeout 60 curl -s localhost:8000/v1/completions -d \'{"prompt": "a"}\'; echo rc=$?\nrc=124\n'
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 2.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} 4811.0
"""
STACK = 'Process 7: VLLM::EngineCore\nPython v3.12.1 (/usr/bin/python3)\n\nThread 7 (idle): "MainThread"\n    poll (zmq/p.py:6)\n'


def judged(folder: Path, **files: str) -> kit.Verdict:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return kit.verdict(folder, captured_at="2026-03-01T10:10:00")


def test_what_one_server_survives_another_has_not(tmp_path: Path) -> None:
    text = f"$ kubectl logs half-a-1 -c main\n{READY}{BROKEN}$ kubectl logs half-b-7 -c main --tail=90\n{READY}{UNANSWERED}"
    verdict = judged(tmp_path, paste=text)
    assert (verdict.klass, verdict.facts.value("first_error")) == ("worker_crashed", "the two halves do not fit together")
    again = READY.replace(" 10:00", " 10:07").replace(" 10:01", " 10:08")
    assert judged(tmp_path, paste=f"$ kubectl logs half-a-1\n{READY}{BROKEN}{again}").klass == "ready"


def test_counters_show_that_it_has_served(tmp_path: Path) -> None:
    verdict = judged(tmp_path, metrics=METRICS, stack=STACK)
    assert (verdict.phase, verdict.facts.value("ready")) == ("serving", True)
    idle = METRICS.replace("2.0", "0.0").replace("4811.0", "0.0")
    assert judged(tmp_path, metrics=idle, stack=STACK).facts.value("ready") is not True


@pytest.mark.parametrize(
    "end",
    [
        "timeout 60 curl -s localhost:8000/generate -d '{}'; echo rc=$?\nrc=124\n",
        "curl -s -m 9 localhost:8000/generate -d '{}'; echo $?\n28\n",
        "curl -s localhost:8000/generate -d '{}' || echo \"exit ${?}\"\nexit 28\n",
        "curl -s localhost:8000/generate -d '{}'\n^C\n",
    ],
)
def test_a_request_without_an_answer_fails_however_that_is_told(tmp_path: Path, end: str) -> None:
    assert judged(tmp_path, curl="$ " + end).facts.value("generate_works") is False


SMI = """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.105.08             Driver Version: 580.105.08     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA A40                     On  |   00000000:61:00.0 Off |                  Off |
|  0%   35C    P8             22W /  300W |       0MiB /  49140MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize(("name", "kinds"), [("job.out", ["log", "nvidia_smi"]), ("gpus.txt", ["nvidia_smi"])])
def test_a_job_that_begins_with_a_table_is_a_log(tmp_path: Path, name: str, kinds: list) -> None:
    said = "".join(f"Requirement already satisfied: package-{n}\n" for n in range(9))
    error = "/spool/job_script: line 30: RUN_: unbound variable\n"
    (tmp_path / name).write_text(SMI + "\n" + said + error)
    verdict = kit.verdict(tmp_path)
    assert sorted(capture.kind for capture in verdict.scene.evidence.run.captures) == kinds
    assert verdict.klass == ("worker_crashed" if "log" in kinds else "undetermined")


ENGINE_DEAD = """INFO 06-22 05:40:12 metrics.py:341] Avg prompt throughput: 8.4 tokens/s, Avg generation \
throughput: 4.7 tokens/s, Running: 3 reqs
ERROR 06-22 05:40:15 async_llm_engine.py:52] Engine background task failed
INFO:     10.0.0.2:3 - "GET /health HTTP/1.1" 500 Internal Server Error
vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop is stopped.
INFO:     10.0.0.2:3 - "GET /health HTTP/1.1" 500 Internal Server Error
"""


def test_a_front_end_that_outlives_its_engine_says_so_by_its_health(tmp_path: Path) -> None:
    verdict = judged(tmp_path, log=ENGINE_DEAD, curl="$ curl -so /dev/null -w '%{http_code}\\n' http://a:8000/health\n500\n")
    assert verdict.klass == "zombie_server" and verdict.facts.value("exited") is False
    assert judged(tmp_path, log=ENGINE_DEAD, curl="").facts.value("health_http") == 500


def test_the_port_that_a_probe_asks(tmp_path: Path) -> None:
    told = '  Warning  Unhealthy  3m (x30 over 8m)  kubelet  Startup probe failed: Get "http://10.2.0.1:8123/health": EOF\n'
    events = "Events:\n  Type     Reason     Age               From     Message\n"
    events += "  ----     ------     ----              ----     -------\n"
    assert judged(tmp_path, describe=events + told).facts.value("port") == 8123


REFUSED = 'Readiness probe failed: Get "http://10.2.0.1:8123/health": dial tcp 10.2.0.1:8123: connect: connection refused'
EVENT = f"61s      Warning      Unhealthy      pod/llm-0      {REFUSED}\n"
NOBODY = "*   Trying [::1]:8123...\n* connect to ::1 port 8123 failed: Connection refused\n"


@pytest.mark.parametrize(
    ("file", "text", "listening"),
    [
        ("events.txt", EVENT, False),
        ("events.txt", EVENT + "NAME    READY   STATUS    RESTARTS   AGE\nllm-0   1/1     Running   0          3m\n", None),
        ("curl.txt", f"$ curl -sv http://localhost:8123/health\n{NOBODY}* Closing connection 0\n", False),
        ("curl.txt", f"$ curl -sv localhost:8123/health\n{NOBODY}* Connected to localhost port 8123\n< HTTP/1.1 200 OK\n", True),
    ],
)
def test_who_asks_and_finds_nobody_shows_that_nothing_listens(
    tmp_path: Path, file: str, text: str, listening: bool | None
) -> None:
    (tmp_path / "server.log").write_text("[2026-03-20 04:20:19] server_args=ServerArgs(model_path='/m', port=8123)\n")
    (tmp_path / file).write_text(text)
    assert kit.verdict(tmp_path).facts.value("port_listening") is listening


def test_who_asks_before_it_is_up_finds_nobody_and_that_tells_nothing(tmp_path: Path) -> None:
    waits = "curl: (7) Failed to connect to localhost port 8123 after 0 ms: Connection refused\n" * 3
    up = "[2026-03-20 04:21:19] The server is fired up and ready to roll!\n"
    (tmp_path / "server.log").write_text(f"[2026-03-20 04:20:19] server_args=ServerArgs(port=8123)\n{waits}{up}")
    assert kit.verdict(tmp_path).state == "ready"


def test_a_unit_that_was_never_restarted_says_so(tmp_path: Path) -> None:
    assert judged(tmp_path, unit="ActiveState=active\nNRestarts=0\nSubState=running\n").facts.value("restarts") == 0


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("2022-10-19 03:13:09 | INFO | train_inner | epoch 003:      5 / 4120 loss=3.9, num_updates=8245, lr=0.0004\n", 8245),
        ("ep 33 train, step 1204, ce 1.602, num_seqs 13, max_size:time 214720, mem_usage:cuda:1 9.1GB, 0.607 sec/step\n", 1204),
        ("[1449/1449 19:47, Epoch 3/3]\n", 1449),
        ("[ 120/1449 01:47 < 19:47, 1.20 it/s, Epoch 0.25/3]\n", 120),
        ("update=3094 | mean_reward=-20.03 | policy_loss=0.2582 | entropy=6.1\n", 3094),
        ("update=3094 | rewards_seen=never | lossless=yes\n", None),
        ("Steps: 30000\n", None),
        ("Training steps = 500\nmax_steps: 900\nnum_train_steps 70\n", None),
    ],
)
def test_the_step_by_form(tmp_path: Path, text: str, step: int | None) -> None:
    assert judged(tmp_path, log="***** Running training *****\n" + text).facts.value("step") == step


def test_numbers_of_tasks_are_no_ranks(tmp_path: Path) -> None:
    for number in (9181, 9182):
        (tmp_path / f"task-{number}.log").write_text(READY)
    assert kit.verdict(tmp_path).facts.value("world_size") == 1


@pytest.mark.parametrize(
    ("name", "text", "restarts"),
    [
        ("describe", "Name:         p-1\nNamespace:    x\n    State:          Running\n    Restart Count:  47\n", 47),
        ("pods", "NAME   READY   STATUS    RESTARTS      AGE\np-1    1/1     Running   3 (2m ago)    40m\n", 3),
        ("pods", "NAME   READY   STATUS    RESTARTS   AGE\np-1    0/1     CrashLoopBackOff   6   40m\n", 6),
    ],
)
def test_the_orchestrator_counts_restarts(tmp_path: Path, name: str, text: str, restarts: int) -> None:
    assert judged(tmp_path, **{name: text}).facts.value("restarts") == restarts


def test_a_container_that_compose_says_has_exited(tmp_path: Path) -> None:
    begun = 'srv-1  | I0120 08:28:24.3 1 model_lifecycle.cc:462] "loading: llm:1"\n'
    failed = (
        'srv-1  | E0120 08:28:25.3 1 model_lifecycle.cc:642] "failed to load \'llm\' version 1: Internal: no \\"engine\\" here"\n'
    )
    asks = "".join(f"ask-1  | [08:28:{second}] connection refused\n" for second in range(30, 55))
    verdict = judged(tmp_path, compose=begun + failed + "srv-1 exited with code 1\n" + asks)
    assert verdict.facts.value("exited") is True
    assert verdict.facts.value("first_error") == "failed to load 'llm' version 1: Internal: no \"engine\" here"
    assert judged(tmp_path, compose=begun + asks + "ask-1 exited with code 1\n" + begun).facts.value("exited") is None


def test_a_client_that_repeats_the_servers_error_is_not_its_origin(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\n'
    begun = "".join(f"2026-03-01 10:00:0{second},001 core.api 7 INFO     part {second} started\n" for second in range(3))
    server = f"{begun}{trace}ValueError: model m cannot run on engine e\n"
    client = f"$ serve launch m\n{trace}RuntimeError: launch failed, detail: model m cannot run on engine e\n"
    text = f"[3/1/2026 4:51 PM] Ann Lee\nit fails:\n\n{server}\n[3/1/2026 4:52 PM] Ann Lee\n{client}"
    assert judged(tmp_path, chat=text).facts.value("first_error") == "model m cannot run on engine e"


def test_a_log_pasted_bare_among_its_reporters_words_is_read(tmp_path: Path) -> None:
    post = (
        "It stands at the rendezvous\n\nHello, with two machines our training waits and nothing is printed.\n\nSecond host:\n\n"
        "(me) ➜  net git:(main) ✗ ./go.sh\n[INFO] 2026-03-01 10:00:01,651 run: Using nproc_per_node=2.\n"
        "[INFO] 2026-03-01 10:00:01,653 api: Starting elastic_operator with launch configs:\n  min_nodes        : 2\n"
        "[ERROR] 2026-03-01 10:01:02,678 error_handler: {\n"
        '    "message": "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception."\n'
        "}\n\nWhat should I look at next?\n"
    )
    (tmp_path / "post.txt").write_text(post)
    run = kit.open_run(tmp_path)
    assert [capture.kind for capture in run.captures] == ["log", "prose"]
    assert [row["line"] for row in run.rows("log")][:2] == [7, 8]
    assert kit.verdict(tmp_path).klass == "rendezvous_wait"


def test_a_command_copied_without_its_prompt_titles_what_it_printed(tmp_path: Path) -> None:
    fence = (
        "My driver is stuck:\n\n```\nps aux | grep nvidia\n\n"
        "root        935  0.0  0.0  16488  4056 ?        D    May04   0:00 /usr/bin/nvidia-smi\n"
        "root        953  0.0  0.0  17100  1740 ?        Ds   May04   0:00 /usr/bin/nvidia-persistenced\n```\n"
    )
    (tmp_path / "issue.md").write_text(fence)
    run = kit.open_run(tmp_path)
    assert [(row["pid"], row["state"], row["line"]) for row in run.rows("processes")] == [(935, "D", 6), (953, "D", 7)]
    assert kit.verdict(tmp_path).facts.value("d_state_pids") == [935, 953]


def test_systemd_says_how_often_it_restarted_the_unit(tmp_path: Path) -> None:
    said = "Mar 01 10:00:0{} gpu7 systemd[1]: serve.service: Scheduled restart job, restart counter is at {}.\n"
    own = "Mar 01 10:00:0{} gpu7 serve[8{}]: INFO 03-01 10:00:0{} [api_server.py:12] vLLM API server version 0.9.1\n"
    lines = (own.format(count, count, count) + said.format(count, count) for count in (1, 2, 3))
    (tmp_path / "journal.txt").write_text("".join(lines))
    assert kit.verdict(tmp_path).facts.value("restarts") == 3


def test_who_ended_it_for_no_trouble_of_the_launch_is_believed(tmp_path: Path) -> None:
    log = (
        "(EngineCore_DP0 pid=7) INFO 03-01 11:57:43 [core.py:254] init engine (profile, create kv cache, warmup model) took 5 s\n"
        "[2026-03-01 12:07:08,014] [INFO] [launch.py:344:sigkill_handler] Main process received SIGINT, exiting\n"
    )
    (tmp_path / "run.log").write_text(log)
    (tmp_path / "NOTE.txt").write_text("12:07 pressed ctrl-c, the learning rate was wrong.\n")
    assert kit.verdict(tmp_path).klass == "ended"
    (tmp_path / "NOTE.txt").write_text("It hangs for nine minutes, then I pressed ctrl-c.\n")
    assert kit.verdict(tmp_path).klass != "ended"


def test_a_traceback_in_a_string_does_not_make_an_error_of_a_calm_record(tmp_path: Path) -> None:
    log = (
        "[ERROR] 2026-03-01 10:01:02,678 error_handler: {\n"
        '  "message": "RendezvousConnectionError: The connection to the C10d store has failed.",\n'
        '  "py_callstack": "Traceback (most recent call last):\\n  File \\"a.py\\", line 1\\nRuntimeError: timed out\\n"\n}\n'
        "[INFO] 2026-03-01 10:01:03,402 api: Starting elastic_operator with launch configs:\n"
    )
    (tmp_path / "server.log").write_text(log)
    assert [row["kind"] for row in kit.open_run(tmp_path).rows("log")][-1] == "progress"
