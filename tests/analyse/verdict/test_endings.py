"""Orderly ends, and ends that only look orderly; what counts as a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

SERVED = """INFO 02-18 01:00:01 [api_server.py:1134] vLLM API server version 0.10.1
INFO 02-18 01:00:02 [utils.py:326] non-default args: {'model': 'm', 'port': 8001}
INFO 02-18 01:01:00 [launcher.py:29] Available routes are:
INFO:     Started server process [4412]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
INFO:     127.0.0.1:50412 - "POST /v1/completions HTTP/1.1" 200 OK
"""
SHUTDOWN = """INFO:     Shutting down
INFO:     Waiting for application shutdown.
INFO:     Application shutdown complete.
INFO:     Finished server process [4412]
"""
DEAD_ENGINE = """ERROR 02-18 01:02:00 [async_llm.py:416] AsyncLLM output_handler failed.
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace above for the root cause.
"""
OUT_OF_MEMORY = """ERROR 02-18 01:02:00 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
INFO:     127.0.0.1:50412 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error
"""
LEAKED = (
    "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked "
    "semaphore objects to clean up at shutdown\n"
)
STEPS = "".join(f" iteration {n}/ 1000 | elapsed time per iteration (ms): 1288.5 | lm loss: 2.0E+01 |\n" for n in (1, 2, 3))
CANCELLED = (
    "slurmstepd: error: *** STEP 4412.0 ON node3 CANCELLED AT 2026-02-18T01:30:00 DUE TO TIME LIMIT ***\n"
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nKilling subprocess 77\n"
    "Main process received SIGTERM, exiting\n"
)


def judged(tmp_path: Path, text: str) -> kit.Verdict:
    (tmp_path / "server.log").write_text(text)
    return kit.verdict(tmp_path)


@pytest.mark.parametrize(
    ("text", "state", "klass"),
    [
        (SERVED + SHUTDOWN, "ended", "ended"),
        (SERVED + "INFO 02-18 01:02:00 [launcher.py:79] Received SIGTERM\n" + DEAD_ENGINE + SHUTDOWN, "ended", "ended"),
        (SERVED + SHUTDOWN + DEAD_ENGINE + LEAKED, "ended", "ended"),
        (SERVED + OUT_OF_MEMORY + DEAD_ENGINE + SHUTDOWN, "failed", "gpu_oom"),
        (STEPS + CANCELLED, "ended", "ended"),
        (STEPS + "{'train_runtime': 871.66, 'train_samples_per_second': 1.147, 'epoch': 1.0}\n", "ended", "ended"),
        (STEPS, "ready", "ready"),
    ],
    ids=["served", "error as an echo", "error after it", "error before it", "cancelled", "finished", "still stepping"],
)
def test_how_it_ended(tmp_path: Path, text: str, state: str, klass: str) -> None:
    verdict = judged(tmp_path, text)
    assert (verdict.state, verdict.klass) == (state, klass)


def test_a_tree_that_is_gone_is_not_progressing(tmp_path: Path) -> None:
    begun = "INFO 02-18 01:00:01 [api_server.py:1134] vLLM API server version 0.10.1\n"
    begun += "INFO 02-18 01:00:09 [gpu_model_runner.py:2112] Starting to load model m...\n"
    verdict = judged(tmp_path, begun + LEAKED)
    assert verdict.state == "ended"
    assert verdict.facts.value("exited") is True


def test_a_job_step_of_slurm_is_no_training_step(tmp_path: Path) -> None:
    assert judged(tmp_path, STEPS + CANCELLED).facts.value("step") == 3


def test_each_worker_prints_the_first_line_of_one_start(tmp_path: Path) -> None:
    first = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    assert judged(tmp_path, first * 4 + STEPS).facts.value("restarts") == 0
    assert judged(tmp_path, first * 4 + STEPS + first * 4 + STEPS).facts.value("restarts") == 1
