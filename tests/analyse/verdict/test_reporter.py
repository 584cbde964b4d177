"""What the reporter says beside a log: it names what the log is silent about, and never outweighs a recorded line."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit

STARTED = "INFO 05-06 07:00:00 [api_server.py:1] vLLM API server version 0.9.1\n"
READY = STARTED + "INFO:     Application startup complete.\n"


def judged(folder: Path, text: str, name: str = "report.md") -> kit.Verdict:
    (folder / name).write_text(text)
    return kit.verdict(folder)


def test_claims_of_an_issue_around_a_fence_are_rows_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(f"It hangs at loading the weights.\n\n```\n{STARTED}```\n\nGPU util is 100 %.\n")
    rows = kit.open_run(tmp_path).frame("statements")
    assert list(zip(rows["claim"], rows["capture"], rows["line"], strict=True)) == [
        ("hang", "issue.md", 1),
        ("gpu_busy", "issue.md", 7),
    ]


def test_output_of_tools_and_a_servers_lines_are_no_words(tmp_path: Path) -> None:
    log = READY + "WARNING: the worker process died, it hangs and nothing happens any more here\n" * 2
    (tmp_path / "server.log").write_text(log)
    (tmp_path / "pods.txt").write_text(
        "NAME   READY   STATUS             RESTARTS   AGE\nvllm   0/1     CrashLoopBackOff   9   30m\n"
    )
    assert kit.open_run(tmp_path).frame("statements").empty


def test_phase_that_the_log_is_silent_about(tmp_path: Path) -> None:
    found = judged(tmp_path, f"{STARTED}\nIt hangs while the weights are loaded.\n")
    assert found.phase == "weights"


def test_phase_of_the_log_stands(tmp_path: Path) -> None:
    log = STARTED + "Loading safetensors checkpoint shards:  10% Completed | 1/10 [00:01<00:09,  1.0s/it]\n"
    assert judged(tmp_path, f"```\n{log}```\n\nIt hangs in the warm-up.\n").phase == "weights"


def test_ready_server_that_answers_nobody(tmp_path: Path) -> None:
    found = judged(tmp_path, f"```\n{READY}```\n\nThe port answers, but any request times out.\n")
    assert (found.phase, found.facts.value("generate_works")) == ("serving", False)
    assert (found.state, found.klass) == ("stalled", "undetermined")
    assert "the reporter says" in found.signs["said_no_answer"].claim


@pytest.mark.parametrize(
    "said",
    [
        "Le serveur reste bloqué ici depuis une heure.",
        "El servidor se queda colgado aquí.",
        "O servidor trava durante o carregamento.",
    ]
    + ["Сервер зависает при загрузке модели.", "Il server si blocca durante il caricamento.", "The two nodes just sit there."],
)
def test_a_hang_is_told_in_many_languages(tmp_path: Path, said: str) -> None:
    assert judged(tmp_path, f"```\n{STARTED}```\n\n{said}\n").state == "stalled"


def test_who_calls_it_slow_does_not_say_that_it_stands(tmp_path: Path) -> None:
    log = STARTED + "Loading safetensors checkpoint shards:  10% Completed | 1/10 [00:01<00:09,  1.0s/it]\n"
    assert judged(tmp_path, f"```\n{log}```\n\nLoading the weights is very slow, it hangs.\n").state != "stalled"


def test_answered_request_outweighs_a_claim(tmp_path: Path) -> None:
    served = READY + 'INFO:     10.0.0.9:1 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 3
    assert judged(tmp_path, f"```\n{served}```\n\nAny request times out.\n").facts.value("generate_works") is True


@pytest.mark.parametrize(
    ("words", "number"), [("It ends with exit code 143.", 15), ("Then it exits with status -9.", 9), ("The pod gets SIGKILL.", 9)]
)
def test_signal_by_word_of_mouth(tmp_path: Path, words: str, number: int) -> None:
    found = judged(tmp_path, f"```\n{STARTED}```\n\n{words}\n")
    assert (found.facts.value("signal"), found.facts.value("exited")) == (number, True)
    assert found.facts.refs("signal")[0]["text"].startswith("the reporter says")


def test_recorded_signal_goes_first(tmp_path: Path) -> None:
    died = STARTED + "ERROR 05-06 07:01:00 [x.py:1] Worker VllmWorkerProcess pid 88 died, exit code: -6\n"
    assert judged(tmp_path, f"```\n{died}```\n\nIt ends with exit code 143.\n").facts.value("signal") == 6


INTERRUPTED = """\
[2026-02-03 04:05:06,113] [INFO] [comm.py:683:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl
Using /home/user/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...
KeyboardInterrupt                         Traceback (most recent call last)
/tmp/ipykernel_9/1.py in <cell line: 4>()
----> 4 trainer.train()
/usr/lib/python3/dist-packages/torch/utils/cpp_extension.py in _jit_compile(name, sources)
-> 1736             baton.wait()
/usr/lib/python3/dist-packages/torch/utils/file_baton.py in wait(self)
---> 42             time.sleep(self.wait_seconds)
KeyboardInterrupt:
"""
PLAIN = """\
Traceback (most recent call last):
  File "/x/train.py", line 9, in main
    model = build()
  File "/usr/lib/python3/site-packages/torch/utils/file_baton.py", line 42, in wait
    time.sleep(self.wait_seconds)
KeyboardInterrupt
"""


@pytest.mark.parametrize("trace", [INTERRUPTED, INTERRUPTED.split("KeyboardInterrupt  ")[0] + PLAIN])
def test_the_stack_of_ctrl_c_tells_where_it_stood(tmp_path: Path, trace: str) -> None:
    found = judged(tmp_path, trace, "train.log")
    assert (found.klass, found.phase) == ("lock_wait", "compile")


def test_ctrl_c_in_work_is_an_end(tmp_path: Path) -> None:
    trace = INTERRUPTED.replace("utils/file_baton.py in wait", "nn/linear.py in forward")
    assert judged(tmp_path, trace, "train.log").klass != "lock_wait"


MAIN = """\
Traceback (most recent call last):
  File "train.py", line 9, in {where}
    run()
ValueError: bad shape
{after}
"""


@pytest.mark.parametrize(
    ("where", "after", "exited"),
    [
        ("<module>", "RPC: /Service/Call", True),
        ("<module>", "Kind regards", True),
        ("<module>", "step 8/900: loss 2.1", False),
        ("worker", "RPC: /Service/Call", None),
    ],
    ids=["the error goes on", "a greeting follows", "it goes on", "a thread's"],
)
def test_error_that_leaves_the_main_program_ends_it(tmp_path: Path, where: str, after: str, exited: bool | None) -> None:
    found = judged(tmp_path, "starting\n" + MAIN.format(where=where, after=after), "job.log")
    assert found.facts.value("exited") is exited


def test_a_state_of_life_says_that_it_has_not_ended(tmp_path: Path) -> None:
    found = judged(tmp_path, READY, "server.log")
    assert (found.state, found.facts.value("exited")) == ("ready", False)
    assert found.facts.refs("exited")[0]["text"] == "nothing tells of an end"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("[node-a:02212] MCW rank 0 bound to socket 0\n[node-a:02212] MCW rank 7 bound to socket 1\n", 8),
        ("{{python launch.py --world_size 4 --model /m}}\n" + STARTED, 4),
        (f"```\n{STARTED}```\n\nWe use 2 nodes x 8 GPUs.\n", 16),
    ],
    ids=["mpirun's bindings", "a command", "words"],
)
def test_size_of_the_launch_where_no_server_says_it(tmp_path: Path, text: str, size: int) -> None:
    assert judged(tmp_path, text, "report.txt").facts.value("world_size") == size


def test_port_that_a_kubelet_asks(tmp_path: Path) -> None:
    said = 'Warning  Unhealthy  9s  kubelet  Startup probe failed: Get "http://10.2.0.3:8123/health": connection refused\n'
    (tmp_path / "events.txt").write_text("Events:\n  Type     Reason     Age  From     Message\n  " + said)
    (tmp_path / "server.log").write_text(STARTED)
    assert kit.verdict(tmp_path).facts.value("port") == 8123


QUOTES = [
    'We first thought of "torch.OutOfMemoryError: CUDA out of memory" as last month, but that was another machine.',
    "- `OSError: [Errno 98] Address already in use`: another server holds the port, choose another one.",
]


@pytest.mark.parametrize("line", QUOTES)
def test_an_error_that_a_sentence_quotes_is_no_line_of_a_log(tmp_path: Path, line: str) -> None:
    (tmp_path / "server.log").write_text(READY)
    found = judged(tmp_path, f"About this folder\n\n{line}\n", "README.txt")
    assert (found.state, found.facts.value("first_error")) == ("ready", None)


def test_an_error_that_was_pasted_between_sentences_is(tmp_path: Path) -> None:
    pasted = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert judged(tmp_path, f"It crashes while loading, with this:\n\n{pasted}\n").klass == "gpu_oom"


def test_a_list_of_known_errors_is_about_no_launch(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(READY)
    listed = ("Exit code 137: the pod was OOMKilled.", "CUDA out of memory: fewer sequences.", "Xid 79: open a ticket.")
    found = judged(tmp_path, "What we have met so far\n\n" + "".join(f"- {one}\n" for one in listed))
    assert (found.state, found.facts.value("exited")) == ("ready", False)
    assert "from a list of known errors" in found.findings[0]["claim"]


def test_questions_with_answers_are_about_no_launch(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(READY)
    found = judged(tmp_path, "Q: RuntimeError: CUDA error: illegal access\nA: new driver.\nQ: exit code 137\nA: wait.\n")
    assert (found.state, found.facts.value("first_error")) == ("ready", None)


@pytest.mark.parametrize("words", ["Same here, but mine ends with", "Me too, on an A10G:", "I am having the same problem:"])
def test_what_somebody_else_adds_is_of_their_launch(words: str, tmp_path: Path) -> None:
    theirs = "```\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n```\n\nIt is killed, exit code 137.\n"
    found = judged(tmp_path, f"```\n{READY}```\n\n{words}\n\n{theirs}", "thread.md")
    assert (found.state, found.facts.value("first_error")) == ("ready", None)
    assert "is of somebody who says that theirs does the same" in found.findings[0]["claim"]
    assert judged(tmp_path, f"```\n{READY}```\n\nThen this:\n\n{theirs}", "thread.md").klass == "gpu_oom"


RULES = [
    "Runbook for servers\n\nExit code 137: it was OOMKilled, raise the limit.\n",
    "How we work\n\nWhen a pod exits with code 137, it was OOMKilled: raise the limit.\n",
]


@pytest.mark.parametrize("text", RULES)
def test_a_rule_is_no_claim(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.log").write_text(READY)
    assert judged(tmp_path, text).state == "ready"


def test_a_recorded_end_outweighs_an_exit_code_that_somebody_names(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(f"{READY}INFO:     Shutting down\nINFO:     Finished server process [77]\n")
    found = judged(tmp_path, "It was killed, exit code 137.\n")
    assert (found.klass, found.facts.value("signal")) == ("ended", None)


INCIDENT = "{words}\n\n```\n" + STARTED + "ERROR 05-06 07:01:00 [core.py:396] torch.OutOfMemoryError: CUDA out of memory.\n```\n"


def test_a_log_that_a_note_shows_for_comparison_is_of_another_launch(tmp_path: Path) -> None:
    """It is told from one of this launch by the paragraph before it, and counts where nothing else is there."""
    words = "Incident of last week on gpu-b7, for comparison:"
    assert judged(tmp_path, INCIDENT.format(words=words)).klass == "gpu_oom"
    (tmp_path / "server.log").write_text("INFO:     Started server process [77]\nINFO:     Application startup complete.\n")
    found = judged(tmp_path, INCIDENT.format(words=words))
    assert found.state == "ready" and any("for comparison" in one for one in found.missing)
    assert judged(tmp_path, INCIDENT.format(words="It ends like this:")).klass == "gpu_oom"


@pytest.mark.parametrize(("rate", "works"), [("181.0", None), ("0.0", False)], ids=["tokens come", "none come"])
def test_who_gets_no_answer_while_tokens_come_only_waits(tmp_path: Path, rate: str, works: bool | None) -> None:
    stats = "".join(
        f"INFO 12-11 20:30:{at} [loggers.py:236] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
        f"{rate} tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.{at}%\n"
        for at in (16, 26, 36)
    )
    verdict = judged(tmp_path, f"The client never gets its answer.\n\n```\n{stats}```\n")
    assert verdict.facts.value("generate_works") is works
    assert (verdict.klass == "ready") is (works is None)


@pytest.mark.parametrize(
    ("words", "state", "klass"),
    [
        ("# Code hangs when training in stage 3, epoch 1, step 6-7\n\nIt performs several complete steps.\n", "stalled", None),
        ("# [bug] Probes for the quickstart model kill the pod\n\nThanks for the great work.\n", "failed", "killed_by_probe"),
        ("The pod is created, runs, then crashes within 30 seconds.\n", "failed", None),
        ("# Slow\n\nLoading checkpoint shards takes too long, 12 to 15 minutes.\n", "progressing", "slow_weights"),
        (
            "```\n| Batch [7/91] | loss: 0.37 |\n| Batch [8/91] | loss: 0.36 |\n```\nThe training is stuck here.\n",
            "stalled",
            None,
        ),
    ],
    ids=[
        *("steps in a sentence are none", "a title with a tag", "what crashes has failed"),
        *("what is slow goes on", "who waits for the next step says it stands"),
    ],
)
def test_an_issue_without_any_output(tmp_path: Path, words: str, state: str, klass: str | None) -> None:
    found = judged(tmp_path, words, "issue.md")
    assert found.state == state and klass in (None, found.klass)


def test_captions_name_the_rank_of_a_stack(tmp_path: Path) -> None:
    dump = 'Process {0}: python t.py\nThread {0} (idle): "MainThread"\n    {1}\n    main (t.py:9)\n'
    waits, reduces = (
        dump.format(71, "get (queue.py:170)"),
        dump.format(74, "all_reduce (torch/distributed/distributed_c10d.py:1)"),
    )
    words = f"It hangs. The stack of rank 0:\n```\n{waits}```\nand that of rank 3:\n```\n{reduces}```\n"
    found = judged(tmp_path, words, "issue.md")
    assert (found.klass, found.ranks) == ("rank_straggler", [0])


def test_a_load_that_was_given_up_has_failed_and_can_be_tried_again(tmp_path: Path) -> None:
    words = "I have this since the update.\n\n```\n$ ollama run m\nError: timed out waiting for llama runner to start:\n```\n"
    found = judged(tmp_path, words, "issue.md")
    assert found.state == "failed" and found.signs.keys() >= {"load_given_up"} and found.next
