"""Lines of several services in one text: each service's are a log of their own, and the launch's is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kit
from kit.intake import Segment, segments

VLLM = [
    "(APIServer pid=1) INFO 03-01 12:00:04 [api_server.py:1839] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=31) INFO 03-01 12:00:15 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m'",
    "(EngineCore_DP0 pid=31) INFO 03-01 12:00:20 [gpu_model_runner.py:2602] Starting to load model m...",
]
WEB = [
    "INFO:     Started server process [1]",
    "INFO:     Application startup complete.",
    'ERROR: cannot reach "http://vllm:8000"',
]


def stream(write) -> str:
    """Lines of two services in turn."""
    return "".join(
        write(name, line) + "\n" for pair in zip(VLLM, WEB, strict=True) for name, line in zip("ab", pair, strict=True)
    )


SERVICES = {"a": "vllm", "b": "web"}
FORMS = {
    "compose": lambda name, line: f"{SERVICES[name]}-1  | {line}",
    "kubectl": lambda name, line: f"[pod/{SERVICES[name]}-6c9f7d9c4b-x2x7k/main] 2026-03-01T12:00:30.1Z {line}",
    "stern": lambda name, line: f"{SERVICES[name]}-6c9f7d9c4b-x2x7k main {line}",
    "fluent bit": lambda name, line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "kubernetes": {"pod_name": f"{SERVICES[name]}-0", "container_name": "main"}}
    ),
    "filebeat": lambda name, line: json.dumps(
        {"_source": {"@timestamp": "2026-03-01T12:00:30.1Z", "message": line, "container": {"name": SERVICES[name]}}}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_log_of_the_launch_is_judged_and_that_of_its_neighbour_said(tmp_path: Path, form: str) -> None:
    (tmp_path / "all.log").write_text("compose is up\n" * (form == "compose") + stream(FORMS[form]))
    found = kit.verdict(tmp_path, captured_at="2026-03-01 12:01:00")
    run = found.scene.evidence.run
    assert found.facts.get("ready").value is False
    assert [capture.stream.partition("-")[0] for capture in run.captures] == ["vllm"]
    assert {row["line"] for row in run.rows("log")} <= {1, 2, 4, 6} if form == "compose" else {1, 3, 5}
    (note,) = run.rows("notes")
    assert "web" in note["reason"] and note["count"] == 3 and note["text"].endswith(WEB[-1].replace('"', '"')[-10:])


def test_without_a_launch_in_the_stream_all_of_it_is_kept(tmp_path: Path) -> None:
    lines = [f"{name}-1  | 2026-03-01 12:00:0{at} ERROR: no route to db" for at in range(8) for name in ("web", "api")]
    (tmp_path / "all.log").write_text("\n".join(lines) + "\n")
    assert len(kit.open_run(tmp_path).rows("log")) == 16


def test_what_compose_says_of_a_service_stands_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(stream(FORMS["compose"]) + "web-1  | bye\nvllm-1 exited with code 1\n")
    texts = [one for one in segments(tmp_path / "all.log", lambda name, head: "log") if isinstance(one, Segment)]
    assert [(one.name, one.content.original(4)) for one in texts] == [("vllm-1.log", 8), ("web-1.log", 7)]


def test_two_servers_in_one_paste_are_two_launches(tmp_path: Path) -> None:
    one, two = (
        [line.replace("12:00", when) for line in VLLM]
        + [f"(APIServer pid=1) INFO 03-01 {when}:50 [launcher.py:1] Starting vLLM API server 0 on http://0.0.0.0:{port}"]
        for when, port in (("12:00", 8000), ("12:30", 8001))
    )
    (tmp_path / "all.log").write_text("".join(f"a-1 | {line}\n" for line in one) + "".join(f"b-1 | {line}\n" for line in two))
    found = kit.verdict(tmp_path, captured_at="2026-03-01 12:40:00")
    assert found.facts.get("port").value == 8001
    assert any("a-1 in all.log is of another launch (port 8000)" in item.why for item in found.scene.evidence.foreign)


def test_events_of_a_pod_are_no_service_beside_its_only_container(tmp_path: Path) -> None:
    said = [{"kubernetes": {"pod": "vllm-0", "container": "main"}, "log": f"{line}\n"} for line in VLLM]
    event = {"kubernetes": {"pod": "vllm-0"}, "log": "pod condition changed: Ready=False\n"}
    (tmp_path / "all.log").write_text("".join(json.dumps(record) + "\n" for record in (*said, event)))
    (one,) = (one for one in segments(tmp_path / "all.log", lambda name, head: "log") if isinstance(one, Segment))
    assert one.content.head(len(VLLM[0])).decode() == VLLM[0]


def test_what_runs_beside_the_server_in_a_pod_named_after_a_node_is_no_part_of_it(tmp_path: Path) -> None:
    lines = [f"[pod/llm-head-0/main] {line}" for line in VLLM] + [f"[pod/llm-head-0/agent] {line}" for line in WEB]
    pods = ["$ kubectl get pods", "NAME         READY   STATUS    RESTARTS   AGE", "llm-head-0   1/2     Running   0          6m"]
    (tmp_path / "all.txt").write_text("\n".join(["$ kubectl logs llm-head-0 --all-containers --prefix", *lines, *pods]) + "\n")
    found = kit.verdict(tmp_path)
    run = found.scene.evidence.run
    assert [capture.stream for capture in run.captures if capture.kind == "log"] == ["llm-head-0/main"]
    assert found.facts.get("ready").value is False and "llm-head-0/agent" in run.rows("notes")[0]["reason"]
