"""Orderly ends, and ends that only look orderly; what counts as a restart."""

from __future__ import annotations

import json
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
ASSERTED = (
    "/b/x/Index.cu:40: scatter_check: block: [0,0,0], thread: [0,0,0] Assertion `n <= size` failed.\n"
    "(EngineCore_DP0 pid=9) ERROR 02-18 01:02:00 [core.py:781] EngineCore encountered a fatal error.\n"
    "(EngineCore_DP0 pid=9) torch.AcceleratorError: CUDA error: device-side assert triggered\n"
    'INFO:     127.0.0.1:50412 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'
    "INFO 02-18 01:02:09 [loggers.py:208] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
    "100.2 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%\n"
)
BEAT = "INFO 02-18 01:{:02}:00 [worker.py:31] Send heart beat to the controller.\n"
BEAT_LOST = "ERROR 02-18 01:05:30 [worker.py:37] heart beat error: read timed out\n"
ASKED = "INFO 02-18 01:02:00 [async_llm.py:269] Added request chatcmpl-1.\n"
PREEMPTED = (
    "I0218 01:30:00.118 77 metric_writers.py:48] [7200] accuracy=0.61, loss=1.72\n"
    "W0218 01:30:04.118 77 preemption.cc:75] SIGTERM caught, a last checkpoint is due\n"
    "I0218 01:30:05.118 77 save.py:14] [process=0][step=7204] begin to save\n"
    "I0218 01:30:09.118 80 save.py:20] [process=0][step=7204] saved\n"
)
ABORTED = (
    "terminate called after throwing an instance of 'x::Y'\nrun.sh: line 4: 7012 Aborted         (core dumped) python t.py\n"
)
LEAKED = (
    "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked "
    "semaphore objects to clean up at shutdown\n"
)
AGAIN = "Feb 18 01:30:04 n1 systemd[1]: vllm.service: Scheduled restart job, restart counter is at {}.\n"
UNIT = "$ systemctl show vllm\nNRestarts={}\nActiveState=activating\nSubState={}\nResult=exit-code\n"
LOOP_DIED = (
    "Exception in thread Thread-7 (_engine_loop):\nTraceback (most recent call last):\n"
    '  File "/x/engine.py", line 9, in _engine_loop\nRuntimeError: the pipe is closed\n'
)
ANSWERED = 'INFO:     127.0.0.1:50413 - "POST /v1/completions HTTP/1.1" 200 OK\n'
ACTOR_DIED = "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n"
SAVED = "E0218 01:30:09.1 77 torch/run.py:9] failed (exitcode: {code}) local_rank: 0 (pid: 79) of binary: /usr/bin/python3\n"
HUNG = (
    "[rank0]:[E218 01:40:00.1 PG.cpp:6] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
)
STEPS = "".join(f" iteration {n}/ 1000 | elapsed time per iteration (ms): 1288.5 | lm loss: 2.0E+01 |\n" for n in (1, 2, 3))
EPOCH = "Epoch 3: 100% 90/90 [01:10<00:00,  1.29it/s, loss=0.3][2026-02-18 01:31:00,100][t][INFO] - Checkpoint saved to /x\n"
AT_WORK = "\nValidation: |          | 0/? [00:00<?, ?it/s]\nValidation DataLoader 0:  37% 20/54 [00:19<00:33,  1.00it/s]\n"
LOADED = "INFO 02-18 01:00:09 [gpu_model_runner.py:2112] Starting to load model m...\n"
TOLD = "INFO 02-18 01:02:00 [launcher.py:79] Received SIGTERM\n"
EACH_EPOCH = "".join(
    f"Epoch {n}: {bar}, loss=0.{n}]\n[train][INFO] - End of epoch {n}: backup due\n[train][INFO] - Backup for epoch {n} saved\n"
    for n in range(3)
    for bar in ("  1%|          | 8/800 [00:09<15:12,  1.15s/it", "100%|##########| 800/800 [15:21<00:00,  1.15s/it")
)
VALIDATES = "".join(f"Validating: {2 * n:3}0%|{'##' * n:10}| {2 * n}/10 [00:0{n}<00:12,  2.07s/it]\n" for n in range(3))
ALL_STEPS = "".join(f"Step {n}/30 - Loss: 1.{n}\n" for n in (10, 20, 30))
STAMPED = "2026-02-18 01:00:00 [INFO] Step 30/30 - Loss: 1.3\n2026-02-18 01:01:00 [INFO] Model saved to /x\n"
STAMPED += "2026-02-18 01:{:02}:00 [INFO] One more part is queued\n"
CANCELLED = (
    "slurmstepd: error: *** STEP 4412.0 ON node3 CANCELLED AT 2026-02-18T01:30:00 DUE TO TIME LIMIT ***\n"
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nKilling subprocess 77\n"
    "Main process received SIGTERM, exiting\n"
)


TESTS = "FAILED tests/test_logprobs.py::test_match - AssertionError\n====== 1 failed, 11 passed in 151.20s ======\n"


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
        (SERVED + SHUTDOWN + OUT_OF_MEMORY, "ended", "ended"),
        (SERVED + SHUTDOWN + "terminate called without an active exception\n", "ended", "ended"),
        (SERVED + "terminate called without an active exception\n" + DEAD_ENGINE + SHUTDOWN, "failed", "worker_crashed"),
        (SERVED + DEAD_ENGINE + SHUTDOWN, "failed", "undetermined"),  # nobody told it to: its engine had died
        (STEPS + CANCELLED, "ended", "ended"),
        (STEPS + "{'train_runtime': 871.66, 'train_samples_per_second': 1.147, 'epoch': 1.0}\n", "ended", "ended"),
        (STEPS, "ready", "ready"),
        (SERVED + TESTS, "ready", "ready"),  # a harness that asks the server
        (LOADED + TESTS, "failed", "undetermined"),
        (STEPS + PREEMPTED, "ended", "ended"),
        (STEPS + PREEMPTED + STEPS, "ready", "ready"),
        (STEPS + EPOCH + AT_WORK, "ready", "ready"),
        (STEPS + ABORTED, "failed", "worker_crashed"),
        (STEPS + "Pretraining completed. Saved to /x\n", "ended", "ended"),
        (SERVED + ASSERTED + SHUTDOWN, "failed", "worker_crashed"),
        (SERVED + ASKED, "ready", "ready"),
        (SERVED + BEAT.format(5) + BEAT_LOST + BEAT.format(6) + BEAT.format(7), "ready", "ready"),
        (SERVED + BEAT.format(5) + BEAT_LOST, "failed", "worker_crashed"),
        (LOADED + TOLD, "failed", "undetermined"),
        (SERVED + TOLD, "ended", "ended"),
        (SERVED + LOOP_DIED + ANSWERED, "stalled", "zombie_server"),
        (SERVED + LOOP_DIED.replace("_engine_loop", "_monitor") + ANSWERED, "ready", "ready"),
        (SERVED + ACTOR_DIED, "failed", "worker_crashed"),
        (SERVED + ACTOR_DIED + ANSWERED * 6, "ready", "ready"),
        (STEPS + SAVED.format(code=85), "ended", "ended"),
        (STEPS + SAVED.format(code=1), "failed", "worker_crashed"),
        (STEPS + HUNG + ABORTED, "failed", "transport_hang"),
        (SERVED + ABORTED + ANSWERED, "ready", "ready"),
        (AGAIN.format(41) + LOADED, "failed", "undetermined"),
        (AGAIN.format(1) + LOADED, "unknown", "undetermined"),
        (AGAIN.format(41) + SERVED, "ready", "ready"),
        (UNIT.format(41, "auto-restart"), "failed", "undetermined"),
        (UNIT.format(0, "running"), "unknown", "undetermined"),
        (EACH_EPOCH + "Opened the records\nOpened the samples\n", "ready", "ready"),
        (ALL_STEPS + VALIDATES, "ready", "ready"),
        (STAMPED.format(3), "ended", "ended"),
        (STAMPED.format(33), "unknown", "undetermined"),
        (EACH_EPOCH + "`Trainer.fit` stopped: `max_epochs=3` reached.\n", "ended", "ended"),
    ],
    ids=[
        "served",
        "error as an echo",
        "error after it",
        "error before it",
        "out of memory as an echo",
        "an abort as an echo",
        "a thread ended it",
        "a death before it",
        "cancelled",
        "finished",
        "still stepping",
        "tests of a server fail",
        "tests in its process fail",
    ]
    + ["a last checkpoint names the step", "resumed", "an epoch is saved and its check runs", "a shell tells of it"]
    + ["finished in its own words", "statistics outlive an engine", "cut while it serves"]
    + ["an error that it lived on after", "an error at the end", "told to end before it was ready", "told to end once it was"]
    + ["its loop is dead", "a thread beside it is dead"]
    + ["a worker died last", "another came for it", "asks to be restarted", "an exit code", "a collective timed out"]
    + ["an abort of a child that it outlived", "a unit started again and again", "a unit started again", "a unit that came up"]
    + ["a unit's counter", "a unit that runs"]
    + ["each epoch counts anew", "it validates", "said and over", "said, and more half an hour later", "the last epoch"],
)
def test_how_it_ended(tmp_path: Path, text: str, state: str, klass: str) -> None:
    verdict = judged(tmp_path, text)
    assert (verdict.state, verdict.klass) == (state, klass)


@pytest.mark.parametrize(("minutes", "state"), [(40, "stalled"), (1, "unknown")], ids=["silent for long", "just asked"])
def test_a_server_that_answers_nobody_is_stalled_though_nobody_knows_on_what(tmp_path: Path, minutes: int, state: str) -> None:
    (tmp_path / "server.log").write_text(SERVED)
    (tmp_path / "curl.txt").write_text(
        "$ curl -m 60 http://127.0.0.1:8000/v1/completions -d '{}'\ncurl: (28) Operation timed out after 60000 milliseconds\n"
    )
    verdict = kit.verdict(tmp_path, captured_at=f"2026-02-18 01:{minutes + 2:02}:00")
    assert (verdict.state, verdict.klass) == (state, "undetermined") and "answers no request" in verdict.plain


EPOCHS = "".join(f"epoch {n}: train loss :: 1.{n}\n" for n in range(3))
GROUP = "[rank0]:[W218 01:03:11.8 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been "
GROUP += "destroyed before we destruct\n"


@pytest.mark.parametrize(
    ("text", "klass"),
    [
        (LOADED + "Saved evaluation overview to: out.csv\n" + GROUP, "ended"),
        (LOADED + GROUP, "ended"),
        (LOADED + "[1723297115] main: decoded 27 tokens in 5.66 s, speed: 4.77 t/s\n", "ended"),
        ("Results saved → r.json\n\n=====\nEVALUATION SUMMARY\n  Images: 50\n" + "  BLEU-4: 10.5\n" * 6 + "=====\n", "ended"),
        (EPOCHS + "load model from m.pt\ndev acc :: 0.391\ntest acc :: 0.390\n", "ended"),
        (EPOCHS.replace("\n", "\ntest acc :: 0.390\n"), "not"),  # after each epoch
        (ALL_STEPS + "=====\nSaving LoRA weights...\n=====\nTo use them:\n  pipe.load_lora_weights('o')\n", "ended"),
        (ALL_STEPS.replace("/30", "/90") + "Saving LoRA weights...\n", "not"),  # a checkpoint on the way
        (SERVED + "Saved generation report to /x\n", "not"),  # a server's own
        (
            "[2026-02-18T02:29:47.6] error: *** STEP 84.6 ON n1 CANCELLED AT 2026-02-18T02:29:47 DUE to SIGNAL Killed ***\n",
            "ended",
        ),
        (
            "Evaluating:   0%|          | 0/100 [00:00<?, ?it/s]\nsrun: forcing job termination\nEvaluating:   1%|1   | 1/100 "
            "[00:37<1:02:28, 37.86s/it]slurmstepd: error: *** STEP 43.0 ON n1 CANCELLED AT 2026-02-18T19:07:03 ***\n"
            "srun: error: n1: task 0: Killed\n",
            "ended",
        ),
        ("ERROR: pip's dependency resolver does not currently take into account all of it.\n" + LOADED, "undetermined"),
        (LOADED + CANCELLED, "killed_by_probe"),
        (LOADED + CANCELLED.replace(" DUE TO TIME LIMIT", ""), "undetermined"),  # by whom, and why, nobody says
        (
            "/spool/slurm_script: line 30: USER_: unbound variable\n=== JOB_STATISTICS ===\n= Elapsed : 00:00:09\n",
            "worker_crashed",
        ),
    ],
)
def test_a_programs_own_last_words(tmp_path: Path, text: str, klass: str) -> None:
    verdict = judged(tmp_path, text)
    assert verdict.klass == klass or klass == "not" and verdict.klass != "ended"


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


def test_a_collective_that_times_out_after_the_work_is_no_orderly_end(tmp_path: Path) -> None:
    waited = "WorkNCCL(SeqNum=900, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    text = f"[rank0]:[E218 01:40:00.1 PG.cpp:6] [Rank 0] Watchdog caught collective operation timeout: {waited}\n"
    assert judged(tmp_path, f"{STEPS}Training completed.\n{text}{ABORTED}").state != "ended"


STOPPED = """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    main()
  File "train.py", line 5, in main
    loss.backward()
KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (STOPPED, 2),
        ("W0318 21:24:01.403000 77 torch/run.py:9] Sending process 7 closing signal SIGINT\n" + STOPPED, 2),
        ("api.SignalException: Process 77 got signal: 2\n", 2),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15\n", 15),
        ("exiting program after receiving SIGTERM.\n[exiting program after receiving SIGTERM.] datetime: 2026-02-18\n", 15),
        ("[main] caught SIGTERM, saving state and leaving\n", 15),
        ("Detected KeyboardInterrupt, attempting graceful shutdown ...\n", 2),
        ("Interrupted by user\n", 2),
        ("^C" + STOPPED, 2),
        ("RuntimeError: DataLoader worker (pid 812) is killed by signal: Interrupt. \n" + STOPPED, 2),
        ("signal received, starting graceful shutdown\n", 15),
        ("signal received: SIGINT received, stopping\n", 2),
        ("[Daemon] Received exit signal[15], begin to stop service\nKilled\n", 15),
        ("[2026-02-18 01:02:00 +0000] [7] [INFO] Handling signal: term\n", 15),
    ],
)  # fmt: skip
def test_who_tells_it_to_end_may_say_so_in_any_words(tmp_path: Path, words: str, number: int) -> None:
    verdict = judged(tmp_path, STEPS + words)
    assert (verdict.state, verdict.facts.value("exited"), verdict.facts.value("signal")) == ("ended", True, number)


@pytest.mark.parametrize(
    "words", ["registered a handler for SIGTERM\n", "sending SIGTERM to worker 3\n", "signal quality: 15 dB\n"]
)
def test_words_about_signals_that_end_nothing(tmp_path: Path, words: str) -> None:
    assert judged(tmp_path, STEPS + words + STEPS).state == "ready"
    assert judged(tmp_path, STEPS + words).facts.value("signal") is None


@pytest.mark.parametrize(
    ("after", "klass"), [(STEPS, "ready"), ("", "gpu_oom"), ("  0%|          | 0/9 [00:00<?, ?it/s]\n", "gpu_oom")]
)
def test_memory_that_ran_out_and_was_got_over_is_no_cause(tmp_path: Path, after: str, klass: str) -> None:
    first = (
        STEPS + "  0%|          | 0/9 [00:00<?, ?it/s]\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.\n"
    )
    assert judged(tmp_path, first + after).klass == klass


def test_logs_of_one_launch_that_end_together_end_it(tmp_path: Path) -> None:
    stamp = "[rank0]:[W218 01:02:{:02}.000 ProcessGroupNCCL.cpp:1496] Warning: barrier() uses the default device\n"
    (tmp_path / "b.err").write_text("".join(stamp.format(second) for second in range(20, 40)))
    (tmp_path / "a.out").write_text(STEPS + "[2026-02-18 01:02:19] exiting program after receiving SIGTERM.\nbye\n")
    verdict = kit.verdict(tmp_path, captured_at="2026-02-18T01:03:00")
    assert (verdict.state, verdict.facts.value("exited")) == ("ended", True)
    (tmp_path / "b.err").write_text("".join(stamp.format(second).replace(" 01:", " 02:") for second in range(20, 40)))
    assert kit.verdict(tmp_path, captured_at="2026-02-18T03:03:00").facts.value("exited") is False


def test_the_last_step_of_many_is_the_step(tmp_path: Path) -> None:
    steps = "".join(f" iteration {n}/ 9000 | elapsed time per iteration (ms): 1288.5 |\n" for n in range(1, 700))
    assert judged(tmp_path, steps).facts.value("step") == 699


@pytest.mark.parametrize("answered", [20, 450])
def test_a_busy_servers_log_that_ends_with_a_new_request_serves(answered: int, tmp_path: Path) -> None:
    """However many requests the log has: of each kind of record the first 400 are kept, and the last answer."""
    head = "(APIServer pid=7) INFO 03-20 12:00:00"
    lines = [
        f"{head} [api_server.py:1351] vLLM API server version 0.11.0",
        "(APIServer pid=7) INFO:     Application startup complete.",
    ]
    lines += ['(APIServer pid=7) INFO:     10.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK'] * answered
    lines.append(f"{head} [logger.py:43] Received request cmpl-7: prompt: 'why', params: SamplingParams(n=1)")
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")
    assert kit.verdict(kit.open_run(tmp_path)).klass == "ready"


def test_the_signal_that_a_launcher_sends_after_an_error_is_not_the_end_of_the_launch(tmp_path: Path) -> None:
    sent = "W0218 01:02:13.644000 3157 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 3222 "
    sent += "closing signal SIGTERM\n"
    text = STEPS + 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nValueError: no such column\n' + sent
    verdict = judged(tmp_path, text)
    assert (verdict.klass, verdict.facts.value("signal")) == ("worker_crashed", None) and "terminated_line" not in verdict.signs
    verdict = judged(tmp_path, STEPS + sent)
    assert verdict.facts.value("signal") == 15


def test_an_engine_that_outlives_its_front_end_is_no_orderly_end(tmp_path: Path) -> None:
    (tmp_path / "ps.txt").write_text(
        "$ ps -eo pid,ppid,stat,cmd | grep VLLM\n    PID  PPID STAT CMD\n   4471     1 R    VLLM::EngineCore\n"
        "$ sudo kill -9 4471\n$ sleep 60; ps -o pid,stat,cmd -p 4471\n    PID STAT CMD\n   4471 R    VLLM::EngineCore\n"
    )
    (tmp_path / "server.log").write_text(SERVED + SHUTDOWN)
    verdict = kit.verdict(tmp_path, captured_at="2026-02-18 03:00:00")
    assert (verdict.klass, verdict.facts.value("exited")) == ("driver_or_io_stuck", False)
    assert {"outlives_end", "sigkill_ignored"} <= set(verdict.signs)


def test_bar_that_took_no_time_is_no_work(tmp_path: Path) -> None:
    lines = [
        "Found cached dataset parquet (/data/cache)",
        "100%|██████████| 2/2 [00:00<00:00, 412.81it/s]",
        "[2023-04-14 09:02:48,503] [INFO] [logging.py:93:log_dist] [Rank 0] DeepSpeed info: version=0.9.0",
        "Using /home/user/.cache/torch_extensions/py311_cu117 as PyTorch extensions root...",
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    found = kit.verdict(tmp_path / "train.log").to_dict()
    assert (found["facts"]["ready"], found["facts"].get("exited"), found["phase"]) == (False, None, "compile")


def test_who_says_that_it_never_exits_is_believed_over_its_last_words(tmp_path: Path) -> None:
    log = "```\nStep 1999: loss 0.41\nStep 2000: loss 0.40\nFinished training.\n```\n"
    (tmp_path / "issue.md").write_text(f"It trains the model, and then the process does not exit.\n\n{log}")
    assert kit.verdict(tmp_path / "issue.md").state != "ended"
    (tmp_path / "issue.md").write_text(f"These are the last lines of the output:\n\n{log}")
    assert kit.verdict(tmp_path / "issue.md").klass == "ended"


def test_refused_parameter_ends_no_server(tmp_path: Path) -> None:
    lines = ["Connected", "`inputs` must have less than 4095 tokens. Given: 5302", "Success"]
    rows = [("INFO", "Starting Webserver"), *zip(("INFO", "ERROR", "INFO"), lines, strict=True)]
    text = "".join(
        f'{{"timestamp":"2024-09-05T06:12:{n:02}Z","level":"{level}","fields":{{"message":"{said}"}},"target":"text_generation_router::server"}}\n'
        for n, (level, said) in enumerate(rows)
    )
    (tmp_path / "tgi.log").write_text(text)
    assert (kit.verdict(tmp_path / "tgi.log").klass, kit.verdict(tmp_path / "tgi.log").state) == ("ready", "ready")


def test_notebook_whose_training_is_through(tmp_path: Path) -> None:
    end = "TrainOutput(global_step=60, training_loss=1.07, metrics={'train_runtime': 458.77})\n"
    listed = "total 4\n-rw-r--r-- 1 u u 8 Apr  2 15:41 a.bin\n"
    shown = [{"output_type": "display_data", "data": {"text/html": "<div>[60/60 07:31, Epoch 0/1]</div>"}}]
    trained = {"cell_type": "code", "source": ["trainer.train()"], "outputs": [*shown, {"output_type": "stream", "text": [end]}]}
    looked = {"cell_type": "code", "source": ["!ls -la out"], "outputs": [{"output_type": "stream", "text": [listed]}]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [trained, looked], "nbformat": 4, "metadata": {}}, indent=1))
    assert kit.verdict(tmp_path / "a.ipynb").klass == "ended"


def test_cell_that_failed_and_was_mended_is_no_failure(tmp_path: Path) -> None:
    raised = ["-----", "OutOfMemoryError        Traceback (most recent call last)", "Cell In[1], line 1", "----> 1 model = Net()"]
    raised += ["OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 GiB. GPU 0 has a total capacity of 23.64 GiB."]
    error = [{"output_type": "error", "traceback": ["\n".join(raised)]}]
    failed = {"cell_type": "code", "source": ["model = Net(9)"], "outputs": error}
    bars = "".join(
        f"Epoch 0: {at * 5 // 2}%|##   | {at}/40 [00:0{at // 5}<00:08, 5.00it/s, loss=0.4]\r" for at in range(5, 41, 5)
    )
    text = [bars + "\n", "`Trainer.fit` stopped: `max_epochs=1` reached.\n"]
    trained = {"cell_type": "code", "source": ["trainer.fit(m)"], "outputs": [{"output_type": "stream", "text": text}]}
    for cells, klass in ([failed, trained], "ended"), ([trained, failed], "gpu_oom"):
        (tmp_path / "b.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}, indent=1))
        assert kit.verdict(tmp_path / "b.ipynb").klass == klass
