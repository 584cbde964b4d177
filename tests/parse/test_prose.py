"""What people write between what they paste: claims in many phrasings, and what is no claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.parse import prose
from kit.parse.base import Report, Source

SAID = """
hang|weights|It hangs at 100 % of loading the checkpoint shards.
hang|weights|The server gets stuck while loading model weights and nothing else happens.
hang|dist_init|Stuck at NCCL init with 2 nodes.
hang|dist_init|It freezes in init_process_group on both machines.
hang|graph_capture|vLLM hangs during CUDA graph capture.
hang|graph_capture|Process hung at capturing cuda graphs 0/35
hang|weights|It never gets past loading safetensors.
hang|train_step|Training stalls at step 1200 without any error.
hang|train_step|My fine-tuning job freezes after the first epoch.
hang|train_step|it just hangs at the first backward pass
hang|data_prep|Hangs in the dataloader.
hang|data_prep|The script is stuck at tokenizing the dataset
hang|compile|Stuck on torch.compile for an hour.
hang|post_load|After loading the weights there's no further output.
hang|None|There is no progress for the last 40 minutes.
hang|None|then nothing happens
hang|None|Still no output after 2 hours.
hang|None|The pod never becomes ready.
hang|None|it just sits there forever
hang|None|The job stopped making progress overnight.
hang|serving|Server deadlocks under high concurrency.
hang|serving|After a few hours of serving, it becomes unresponsive.
no_answer|serving|The first request never returns.
no_answer|serving|Any request times out.
no_answer|serving|Requests hang once I send more than 16 concurrent prompts.
no_answer|None|The port answers but no token comes.
no_answer|serving|curl hangs.
port_open|None|The port answers but no token comes.
port_open|None|/health still returns 200.
port_open|None|Health checks still pass, though.
defunct|None|ps shows it <defunct>.
defunct|None|One of the workers is a zombie process.
worker_gone|None|One worker died silently.
worker_gone|None|rank 3 just disappeared
exits|None|It exits with code 137 after a while.
exits|None|The container gets SIGKILL.
exits|None|Exited (139) according to docker ps -a.
exits|None|The process was killed after 30 minutes.
exits|None|I was training on GPU 7 and it abrupt stopped.
exits|None|The pod runs, then crashes within 30 seconds.
exits|None|python crashed with a segmentation fault.
exits|None|terminated with exit 143
restarts|None|The pod restarts every 10 min.
restarts|None|It is in CrashLoopBackOff.
probe_kill|None|The liveness probe fails and kubelet restarts the container.
probe_kill|None|[Bug] Probes of the quickstart kill the pod
probe_kill|None|Probes for the sample in [a file](https://example.org/a/long/path/to/it.yaml) restart it before it is up.
probe_kill|None|CrashLoopBackOff due to readiness and liveness prob fail
probe_fails|None|Readiness and Liveliness prob fails
host_oom|None|dmesg shows the OOM killer.
host_oom|None|The task was killed due to the node running low on memory.
host_oom|None|[Bug]: killed due to high memory usage
host_oom|None|When I load the 72B model with 8 GPUs, host memory usage grows until the process is killed.
host_oom|None|The machine runs out of RAM while loading.
gpu_oom|None|We get CUDA OOM.
gpu_oom|None|A critical CUDA out - of - memory error occurred.
d_state|None|The process is in D state and kill -9 does not help.
d_state|None|It became a D(isk sleep) process.
unkillable|None|The process is in D state and kill -9 does not help.
unkillable|None|I can't even kill it with SIGKILL.
crash_signal|None|It dies with a segmentation fault.
resources|None|Ray says that no available node types can fulfill the request.
finished|None|I stopped it and it shut down cleanly.
me_too|None|Same here on an A10G.
never_exits|train_step|It prints “done training” and hangs at the end of training.
never_exits|None|The job is through, but the process does not exit.
never_exits|None|It never returns to the shell.
probe_fails|None|The startup probe failed with 503.
gpu_busy|None|GPU util 100 %, power 90 W.
gpu_low_power|None|GPU util 100 %, power 90 W.
gpu_low_power|None|nvidia-smi shows 100% on all four cards, ~85 W each.
hang|None|It has been like this for 2 hours.
p2p_cures|None|NCCL_P2P_DISABLE=1 makes it start.
gpu_busy|None|nvidia-smi shows all GPUs at 100%.
gpu_busy|None|100% GPU utilization on every card
gpu_idle|None|GPU utilization is 0%.
gpu_idle|None|The GPUs are idle.
gpu_idle|None|GPU usage stays at 0 the whole time.
gpu_uneven|None|GPU 2 is at 0% while all others are at 100%.
cpu_busy|None|One CPU core is at 100%.
cpu_busy|None|top shows the python process at 100% CPU.
lock|None|There is a stale lock file in ~/.cache.
lock|None|Deleting the .lock files helps.
peer_missing|None|The second node never joins.
peer_missing|None|Worker node cannot reach the head node.
peer_missing|None|Only 7 of 8 ranks connect.
resources|None|The pod is stuck in Pending.
one_rank|None|Rank 5 is still in forward while the others wait in all_reduce.
one_rank|None|And all other 31 ranks are waiting for rank0.
one_rank|None|One of the processes gets stuck in optimizer.step().
ranks_apart|None|The ranks are in different collectives.
ranks_apart|None|Rank 0 waits in all_gather, rank 1 in broadcast.
download|download|The download stops at 99 %.
download|download|Stuck at downloading the model.
compiling|None|It is still compiling after 40 minutes.
slow|weights|Loading the model takes 45 minutes.
slow|None|Startup is extremely slow.
weights_slow|None|Loading the model takes 45 minutes.
weights_slow|None|The models are on NFS.
port_used|None|It says the port is already in use.
gpu_fault|None|Xid 79 in dmesg.
p2p_cures|None|Setting NCCL_P2P_DISABLE=1 fixes it.
p2p_cures|None|With `NCCL_P2P_DISABLE=1` the same command starts in a minute and serves.
finished|None|The job finished successfully.
works|None|Everything works fine.
starts|None|After two hours it finally came up.
hang|None|The server won't come up.
hang|None|vLLM fails to start after the update.
no_answer|serving|All requests of the bot fail with HTTP 500.
port_open|None|Port 8000 is open.
gpu_uneven|None|GPUs 1-31 at 100%, GPU of rank 0 at 0%.
slow|train_step|Every iteration takes more than two minutes in training.
weights_slow|None|The weights are read from a network share.
restarts|None|The pod has 7 restarts.
hang|weights|模型加载时卡住了。
no_answer|serving|请求一直超时。
hang|weights|モデルのロード中にハングします。
hang|None|학습이 멈췄습니다.
hang|weights|Beim Laden des Modells hängt es.
gpu_fault|None|Hard GPU crash during training
gpu_fault|None|After that the NVIDIA driver can no longer access the GPU.
resources|None|Cannot schedule pods: Insufficient nvidia
resources|None|PodUnschedulable, says the console.
weights_slow|None|Loading a large checkpoint from network storage is pathologically slow.
weights_slow|None|Loading checkpoint shards takes too long, what is the reason?
weights_slow|None|loading checkpoint shards,非常慢
crash_signal|None|It ends with a message stating Bus Error.
"""
"""`claim|phase|sentence`; of a phase `None` nothing is asked."""

NOT_SAID = """
* thread #1, stop reason = signal SIGSTOP
GPU[0] : Temperature (Sensor memory) (C): 41.0
GPU[0] : GPU use (%): 97
It does not hang.
Does it hang?
If it hangs, kill it.
It works with TP=1.
no OOM killer in dmesg
The process was not killed.
Could be a deadlock.
It worked on H100.
We froze the layers of the encoder.
I ruled out a stale lock file.
Thanks for the help, hang on.
Tasks: 3035 total, 3026 sleeping, 0 stopped, 0 zombie
nothing was killed
There are some potential root causes. (1) The process is killed by the OOM killer. (2) It crashed with SIGSEGV.
GPU 0: NVIDIA H100, 3 MiB
"""


def claims(*lines: str, folders: tuple[Path, ...] = ()) -> list[dict]:
    return [row for _, row in prose.parse(lines, Source("mail.txt"), Report(), folders)]


@pytest.mark.parametrize("case", SAID.split("\n")[1:-1])
def test_claim_and_where_it_stands(case: str) -> None:
    claim, phase, sentence = case.split("|")
    found = {row["claim"]: row["phase"] for row in claims(sentence)}
    assert claim in found and phase in ("None", found[claim])


@pytest.mark.parametrize("sentence", NOT_SAID.split("\n")[1:-1])
def test_what_is_denied_guessed_asked_or_of_elsewhere_is_no_claim(sentence: str) -> None:
    assert claims(sentence) == []


def test_a_question_that_takes_the_hang_for_granted() -> None:
    assert [row["claim"] for row in claims("Why does it hang here?")] == ["hang"]


def test_lines_broken_at_a_width_are_one_sentence_and_quotes_are_read() -> None:
    rows = claims("Hi,", "", "> we see that since this morning the whole job hangs while the", "> weights are loaded. Thanks")
    assert [(row["claim"], row["phase"], row["line"]) for row in rows] == [("hang", "weights", 3)]


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("It exits with code 137.", '{"exit_code": 137}'),
        ("It got SIGTERM.", '{"signal": "SIGTERM"}'),
        ("GPUs are at 100 %.", '{"percent": 100}'),
        ("Xid 79 in dmesg", '{"xid": 79}'),
    ],
)
def test_values(sentence: str, fields: str) -> None:
    assert fields in [row["fields"] for row in claims(sentence)]


def test_a_users_file_adds_a_language(tmp_path: Path) -> None:
    (tmp_path / "reporter.toml").write_text(
        "[[claim]]\nname = 'hang_pl'\ncode = 'hang'\nsays = ['\\bzawiesza się\\b']\nstands = true\n"
        "[[place]]\nname = 'weights_pl'\nphase = 'weights'\nsays = ['\\bładowania wag\\b']\n"
    )
    (row,) = claims("Program zawiesza się podczas ładowania wag.", folders=(tmp_path,))
    assert (row["claim"], row["phase"]) == ("hang", "weights")
    assert [found["claim"] for found in claims("It hangs.", folders=(tmp_path,))] == ["hang"]
