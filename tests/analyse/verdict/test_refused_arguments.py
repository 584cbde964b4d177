"""A command line that was refused: which word is wrong, which was meant, what is run next; ends that orchestrators tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

TPS = "usage: launch_server.py [-h] --model-path PATH [--tokenizer-path PATH] [--mem-fraction-static F] [--tp-size N]\n"
CHOICES = "(choose from 'auto', 'half', 'float16', 'bfloat16')"


@pytest.mark.parametrize(
    ("text", "do", "asked"),
    [
        (
            "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --tensor-paralel-size 2\n",
            "write --tensor-parallel-size in place of --tensor-paralel-size",
            ["vllm serve --help"],
        ),
        (
            TPS + "launch_server.py: error: unrecognized arguments: --mem-fraction 0.9\n",
            "write --mem-fraction-static in place of --mem-fraction",
            [],
        ),
        (
            "Usage: trtllm-serve [OPTIONS] MODEL\n\nError: No such option: --tp-size Did you mean --tp_size?\n",
            "write --tp_size in place of --tp-size",
            ["trtllm-serve --help"],
        ),
        (
            f"usage: vllm serve [options]\nvllm serve: error: argument --dtype: invalid choice: 'fp16' {CHOICES}\n",
            "--dtype does not take fp16: the nearest of its values is float16",
            ["vllm serve --help"],
        ),
        (
            "error: unexpected argument '--num-shards' found\n\n  tip: a similar argument exists: '--num-shard'\n\n"
            "Usage: text-generation-launcher --num-shard <NUM_SHARD>\n",
            "write --num-shard in place of --num-shards",
            ["text-generation-launcher --help"],
        ),
        (
            TPS + "launch_server.py: error: the following arguments are required: --model-path/--model\n",
            "add what is missing to the command line: --model-path/--model",
            [],
        ),
    ],
    ids=["unknown", "by-usage", "click", "choice", "clap", "missing"],
)
def test_a_refused_command_line_names_the_nearest_right_word(tmp_path: Path, text: str, do: str, asked: list[str]) -> None:
    (tmp_path / "server.log").write_text(text)
    verdict = kit.verdict(tmp_path)
    assert (verdict.klass, verdict.state, verdict.plain) == ("worker_crashed", "failed", "its command line is wrong")
    assert verdict.remedy is not None and verdict.remedy["do"] == do
    assert [step["command"] for step in verdict.next] == asked


LOADING = (
    "INFO 04-05 12:01:00 [api_server.py:100] vLLM API server version 0.11.0\n"
    "(Worker_TP0 pid=220) INFO 04-05 12:01:20 [gpu_model_runner.py:2000] Starting to load model org/m...\n"
)
POD = """status:
  containerStatuses:
  - lastState:
      terminated:
        exitCode: 137
        reason: {reason}
    restartCount: 4
    state:
      waiting:
        reason: CrashLoopBackOff
"""
SACCT = """JobID           JobName      State ExitCode     MaxRSS    Elapsed
------------ ---------- ---------- -------- ---------- ----------
7                 serve {state:>10} {code:>8}              00:10:00
7.extern         extern  COMPLETED      0:0              00:10:00
"""
MPI = "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 9 (Killed).\n"


@pytest.mark.parametrize(
    ("name", "text", "facts", "said"),
    [
        ("pod.yaml", POD.format(reason="Error"), (True, 9), ("failed", "undetermined")),
        ("pod.yaml", POD.format(reason="OOMKilled"), (True, 9), ("failed", "host_oom_kill")),
        ("sacct.txt", SACCT.format(state="OUT_OF_ME+", code="0:125"), (True, None), ("failed", "host_oom_kill")),
        ("sacct.txt", SACCT.format(state="FAILED", code="1:0"), (True, None), ("failed", "undetermined")),
        ("sacct.txt", "JobID|State|ExitCode|MaxRSS\n7|FAILED|0:11|\n", (True, 11), ("failed", "worker_crashed")),
        ("job.log", MPI, (None, 9), ("failed", "host_oom_kill")),
    ],
    ids=["pod", "pod-oom", "sacct-oom", "sacct-failed", "sacct-segfault", "mpirun"],
)
def test_an_orchestrator_tells_the_end(tmp_path: Path, name: str, text: str, facts: tuple, said: tuple) -> None:
    (tmp_path / "server.log").write_text(LOADING)
    (tmp_path / name).write_text(text)
    verdict = kit.verdict(tmp_path, captured_at="2026-04-05 12:05:00")
    assert (verdict.facts.value("exited"), verdict.facts.value("signal")) == facts
    assert (verdict.state, verdict.klass) == said


def test_a_signal_without_a_sign_of_memory_is_no_certainty(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(LOADING + "[1]+  Killed                  vllm serve org/m\n")
    verdict = kit.verdict(tmp_path)
    shares = {found.name: found.share for found in verdict.hypotheses}
    assert verdict.state == "failed" and shares["host_oom_kill"] < 0.5 and shares["killed_by_probe"] > 0.05
    assert "kernel log" in " ".join(step["what"] for step in verdict.next)


@pytest.mark.parametrize(
    ("error", "asked"),
    [("KeyError: 'layers.0.mlp.weight'", False), ("RuntimeError: CUDA error: unspecified launch failure", True)],
)
def test_the_kernel_log_is_asked_for_where_it_may_know_more(tmp_path: Path, error: str, asked: bool) -> None:
    (tmp_path / "server.log").write_text(
        LOADING + f'Traceback (most recent call last):\n  File "m.py", line 3, in load\n{error}\n'
    )
    verdict = kit.verdict(tmp_path)
    assert verdict.state == "failed" and any("kernel log" in step["what"] for step in verdict.next) is asked
