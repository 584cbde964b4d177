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
