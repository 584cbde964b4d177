"""Values that cannot be are left out, said in the verdict and in the notes; the port of a store is no server's."""

from __future__ import annotations

import pytest

from kit.analyse.verdict.sense import doubt
from kit.analyse.verdict.verdict import weigh
from tests.analyse.verdict.scenes import bar, error, line, scene, workers

DOUBTED = {
    "step": [line("train_step", phase="train_step", step="123456789")],
    "restarts": [line("args", phase="launch", start=63)],
    "weights_done": [bar("weights", 12, 10, 100)],
    "port": [line("args", phase="launch", port=29500, master_port=29500)],
    "signal": [line("exit_code", exit_code="-99")],
    "ranks_dead": [*workers(2), error("worker_died", fields={"rank": 5})],
}
SOUND = {
    "step": [line("train_step", phase="train_step", step="119")],
    "restarts": [line("args", phase="launch", start=3)],
    "weights_done": [bar("weights", 10, 10, 100)],
    "port": [line("args", phase="launch", port=30000, master_port=29500)],
    "signal": [line("exit_code", exit_code="-9")],
    "ranks_dead": [*workers(2), error("worker_died", fields={"rank": 1})],
}


@pytest.mark.parametrize("name", DOUBTED)
def test_what_cannot_be_is_left_out_and_said(name: str) -> None:
    shown = scene(*DOUBTED[name])
    assert name not in shown.facts
    assert [fact.name for fact, _ in shown.facts.doubted] == [name]
    assert any(said.startswith(f"{name} is left out: it read ") for said in weigh(shown).missing)
    assert [row["text"].split()[0] for row in shown.evidence.run.doubts] == [name]
    assert name in scene(*SOUND[name]).facts
    assert not scene(*SOUND[name]).facts.doubted


def test_a_silence_is_no_longer_than_the_launch() -> None:
    shown = scene(line("args", at=3000), line("weights_begin", at=3500))
    limits, parts = shown.limits, (shown.evidence, shown.processes)
    assert doubt("silence_s", 100.0, *parts, limits) is None
    assert "longer than the launch, which began 10 min" in str(doubt("silence_s", 27_614_717.0, *parts, limits))


def test_answered_requests_in_the_log_are_an_answer() -> None:
    served = line("request", "POST /v1/chat/completions", "request", phase="serving", path="/v1/chat/completions", status=200)
    up = [line("args", phase="launch"), line("ready", phase="ready")]
    assert scene(*up, served).facts.value("generate_works") is True
    assert "requests_served" in weigh(scene(*up, served)).signs
    for later in (line("rpc_timeout", kind="symptom"), line("request", "a prompt", "request", phase="serving")):
        assert scene(*up, served, later).facts.value("generate_works") is None
    tokens = line("request", "POST /tokenize", "request", phase="serving", path="/tokenize", status=200)
    assert scene(*up, tokens).facts.value("generate_works") is None
