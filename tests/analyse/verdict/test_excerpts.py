"""Excerpts as people send them: cut, wrapped, in a talk or a mail, of the kernel alone, from the middle of a log."""

from __future__ import annotations

import json
from email.message import EmailMessage
from pathlib import Path

import pytest

import kit


def judged(folder: Path, text: str | bytes, name: str = "paste.txt") -> dict:
    """The verdict on one file of this content."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return kit.verdict(path).to_dict()


STUCK = [
    "task:trainer.py      state:D stack:    0 pid:7712 ppid:  7690 flags:0x00000002",
    "Call Trace:",
    " <TASK>",
    " __schedule+0x2e1/0x8d0",
    " schedule+0x5f/0xd0",
    " amdgpu_vm_wait_idle+0x2a/0x70 [amdgpu]",
    " ? ksys_ioctl+0x8e/0xc0",
]


def relative(lines: list[str]) -> str:
    return "".join(f"[  +0.00000{number}] {line}\n" for number, line in enumerate(lines))


def journal(lines: list[str]) -> str:
    stamped = ({"__REALTIME_TIMESTAMP": str(1_780_000_000_000_000 + at), "SYSLOG_IDENTIFIER": "kernel"} for at in range(99))
    return "".join(
        json.dumps(one | {"_TRANSPORT": "kernel", "MESSAGE": line}) + "\n" for one, line in zip(stamped, lines, strict=False)
    )


@pytest.mark.parametrize("form", [relative, journal])
def test_task_in_state_d_of_the_kernels_own_log(tmp_path: Path, form) -> None:
    found = judged(tmp_path, form(STUCK), "dmesg.txt")
    assert (found["class"], found["facts"]["d_state_pids"], found["facts"]["exited"]) == ("driver_or_io_stuck", [7712], False)
    assert any("amdgpu_vm_wait_idle" in item["claim"] for item in found["evidence"])


def test_task_that_runs_is_not_stuck(tmp_path: Path) -> None:
    found = judged(tmp_path, relative([line.replace("state:D", "state:R") for line in STUCK]), "dmesg.txt")
    assert (found["class"], found["facts"].get("d_state_pids")) == ("undetermined", None)


def bars(counts: list[tuple[int, str]]) -> str:
    return "".join(
        f"Loading safetensors checkpoint shards: {n}% Completed | {n}/90 [{at}<30:00, 20.10s/it]\n" for n, at in counts
    )


def test_bar_that_moves_to_the_end_of_an_excerpt_without_stamps(tmp_path: Path) -> None:
    found = judged(tmp_path, bars([(10, "03:20"), (11, "03:41"), (12, "04:01"), (13, "04:21")]))
    assert (found["class"], found["phase"]) == ("slow_weights", "weights")


def test_bar_that_has_not_begun_shows_no_progress(tmp_path: Path) -> None:
    text = "INFO 03-04 10:00:00 [model_runner.py:90] Starting to load model /m...\n" + bars([(0, "00:00")])
    assert judged(tmp_path, text)["class"] == "undetermined"


def test_bar_that_stands_by_its_own_clock(tmp_path: Path) -> None:
    text = "❯ hf download some/model\nFetching 2 files: 99%|███▉| 19.1G/19.4G [04:00<00:01, 98MB/s]\n"
    text += "Fetching 2 files: 99%|███▉| 19.2G/19.4G [05:10<00:40, 4MB/s]\n"
    text += "Fetching 2 files: 99%|███▉| 19.2G/19.4G [26:40<09:00, 3MB/s]\n"
    found = judged(tmp_path, text)
    assert (found["class"], found["phase"]) == ("download_stalled", "download")


def test_bar_before_the_first_milestone_tells_the_phase(tmp_path: Path) -> None:
    text = "Loading checkpoint shards:  50%|███████████ ..... 2/4 [00:09<00:09,  4.50s/it]Killed\n"
    assert judged(tmp_path, text)["phase"] == "weights"


RECORDS = [
    "INFO 05-06 07:00:01 [gpu_model_runner.py:201] Graph capturing finished in 88 secs, took 0.91 GiB",
    "INFO 05-06 07:00:04 [models.py:44] Adding adapter number 12 to the set of those that are kept here",
    "INFO 05-06 07:00:05 [models.py:44] Adding adapter number 13 to the set of those that are kept here",
    "INFO 05-06 07:00:09 [core.py:77] init engine (profile, create kv cache, warmup model) took 97.20 seconds",
]


def folded(line: str, width: int, mark: str) -> str:
    lines = [""]
    for word in line.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "".join(f"{mark}{part}\n" for part in lines)


@pytest.mark.parametrize("mark", ["", "> "])
def test_records_that_a_mailer_broke_between_words(tmp_path: Path, mark: str) -> None:
    text = "Hello,\n\nlast log:\n\n" + "".join(folded(line, 70, mark) for line in RECORDS)
    found = judged(tmp_path, text)
    assert (found["facts"]["graph_s"], found["phase"]) == (88, "warmup")


def test_mail_in_quoted_printable_with_two_parts(tmp_path: Path) -> None:
    text = "Hi,\nit says:\n" + "\n".join(RECORDS) + "\n"
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "slow start – why?"
    mail.set_content(text, cte="quoted-printable")
    mail.add_alternative("<pre>" + text.replace("(", "&#40;") + "</pre>", subtype="html", cte="quoted-printable")
    found = judged(tmp_path, bytes(mail), "ticket.eml")
    assert (found["facts"]["graph_s"], found["phase"]) == (88, "warmup")


TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType={op}, Timeout(ms)=900000) ran for 900512 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(("asks", "answers"), [("You said:", "ChatGPT said:"), ("你说：", "豆包：")])
def test_what_an_assistant_says_is_no_evidence(tmp_path: Path, asks: str, answers: str) -> None:
    log = TIMEOUT.format(rank=0, seq=512, op="ALLREDUCE") + TIMEOUT.format(rank=1, seq=512, op="BROADCAST")
    guess = "Common causes:\nCUDA out of memory on one GPU\nRuntimeError: Address already in use\n"
    found = judged(tmp_path, f"{asks}\nIt stops.\n{log}\n{answers}\n{guess}\n{asks}\nThanks\n")
    assert (found["class"], found["phase"]) == ("collective_desync", "train_step")
    assert "Address" not in found["facts"]["first_error"]


def test_same_guess_of_the_reporter_is_read(tmp_path: Path) -> None:
    assert (
        judged(tmp_path, "You said:\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")["class"]
        == "gpu_oom"
    )


@pytest.mark.parametrize(("seq", "phase"), [(1, "dist_init"), (4000, "train_step")])
def test_phase_by_the_number_of_the_collective(tmp_path: Path, seq: int, phase: str) -> None:
    text = "".join(TIMEOUT.format(rank=rank, seq=seq, op="ALLREDUCE") for rank in (0, 1))
    assert judged(tmp_path, text)["phase"] == phase


def test_rank_that_worked_for_longer_than_the_collective_waits(tmp_path: Path) -> None:
    text = "ActorWorker[rank=2]: wake_up_rollout done after 2100.5s\n[rank0] Watchdog caught collective operation timeout:\n"
    found = judged(tmp_path, text + "WorkNCCL(SeqNum=71, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)\n")
    assert (found["class"], found["ranks"], found["phase"]) == ("rank_straggler", [2], "train_step")
    short = text.replace("2100.5", "21.5")
    assert judged(tmp_path, short + "WorkNCCL(SeqNum=71, OpType=ALLREDUCE, Timeout(ms)=600000)\n")["class"] != "rank_straggler"


PROBE = 'INFO:     10.0.0.9:0 - "GET /health HTTP/1.1" {} OK\n'


def test_worker_that_died_while_the_front_end_answers(tmp_path: Path) -> None:
    died = "ERROR 02-03 04:05:06 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 88 died, exit code: -6\n"
    killing = "INFO 02-03 04:05:06 multiproc_worker_utils.py:123] Killing local vLLM worker processes\n"
    stuck = "[rank3]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds\n"
    found = judged(tmp_path, PROBE.format(200) + stuck + died + killing + PROBE.format(200) * 3, "server.log")
    assert (found["class"], found["phase"], found["facts"]["ranks_dead"]) == ("zombie_server", "serving", [3])
    assert found["facts"]["ready"] is True and not found["facts"].get("exited")
    refused = PROBE.format(503) + stuck + died + killing
    assert judged(tmp_path, refused, "server.log")["class"] != "zombie_server"


def test_refused_request_ends_no_server(tmp_path: Path) -> None:
    stamp = "2026-01-02T03:04:05.000001Z"
    text = f"{stamp}  INFO text_generation_launcher: Starting Webserver\n"
    text += f"{stamp}  INFO text_generation_router::server: router/src/server.rs:2515: Connected\n"
    text += (
        f"{stamp} ERROR chat_completions: text_generation_router::infer: router/src/infer/mod.rs:99: Template error: not found\n"
    )
    # a span that says how long it took is answered
    text += f'{stamp}  INFO generate{{parameters=GenerateParameters {{ best_of: None }} total_time="712ms" queue_time="6us"\n'
    assert judged(tmp_path, text, "server.log")["class"] == "ready"
    text += f"{stamp}  INFO generate{{parameters=P {{ n: 1 }}}}:generate: a: Success\n"
    assert judged(tmp_path, text, "server.log")["class"] == "ready"
    text += f'{stamp}  INFO HTTP{{http.method=POST}}:generate{{parameters=P {{ n: 1 }}}}: a: Success total_time="1s"\n'
    assert judged(tmp_path, text, "server.log")["class"] == "ready"


def test_debuggers_interrupt_is_no_end(tmp_path: Path) -> None:
    wrapped = "slot update_slots: id  3 | task 9 | new prompt, n_ctx_slot = 8192, n_keep = 0, n_prompt_tokens = 700\n"
    text = wrapped + 'Thread 1 "llama-server" received signal SIGINT, Interrupt.\n(gdb) thread 1\n'
    text += "[Switching to thread 1 (Thread 0x7ffff7f7e000 (LWP 515))]\n"
    text += "#0  0x00007fffd627cbde in rocr::core::InterruptSignal::WaitRelaxed () from /opt/rocm/lib/libhsa-runtime64.so.1\n"
    text += "#1  0x00007ffff4a9d7c1 in hipStreamSynchronize () from /opt/rocm/lib/libamdhip64.so.6\n(gdb) quit\n"
    found = judged(tmp_path, text)
    assert (found["class"], found["phase"], found["facts"].get("exited")) == ("device_hang", "serving", False)


def test_terminal_that_broke_frames_and_records_at_its_width(tmp_path: Path) -> None:
    lines = ["slot update_slots: id  3 | task 9 | new prompt, n_ctx_slot = 8192, n_keep = 0, n_prompt_tokens = 700"]
    frame = "0x00007fffd627cb{0}e in some_library_function_{0} (this=0x5555617f2a80, timeout=-1) at runtime/core/signal_{0}.cpp:7"
    lines += ["(gdb) bt", *(f"#{number}  {frame.format(number)}" for number in range(5)), "(gdb) q"]
    broken = "".join(line[at : at + 80] + "\n" for line in lines for at in range(0, len(line), 80))
    path = tmp_path / "pane.txt"
    path.write_text(broken)
    stacks = kit.open_run(path).frame("stacks")
    assert stacks["function"].tolist() == [f"some_library_function_{number}" for number in range(5)]


def test_lock_of_the_hub_is_a_wait_in_the_download(tmp_path: Path) -> None:
    line = "still waiting to acquire lock on /data/hf/hub/.locks/models--a--b/0ff1.lock\n"
    found = judged(tmp_path, line * 4)
    assert (found["class"], found["phase"]) == ("lock_wait", "download")


def test_barrier_in_which_clients_connect(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n'
    text += "    jax.distributed.initialize(num_processes=4)\n"
    text += (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out\n"
    )
    found = judged(tmp_path, text)
    assert (found["class"], found["phase"]) == ("rendezvous_wait", "dist_init")


@pytest.mark.parametrize(
    "words", ["After two hours it finally started.", "等了两个小时，终于启动了。", "Nach zwei Stunden endlich gestartet."]
)
def test_reporter_who_saw_it_start(tmp_path: Path, words: str) -> None:
    found = judged(tmp_path, f"{words}\n\nlast log:\n" + "\n".join(RECORDS) + "\n")
    assert (found["class"], found["phase"], found["facts"]["ready"]) == ("ready", "ready", True)


def test_reporters_word_does_not_stand_against_a_log(tmp_path: Path) -> None:
    error = "ERROR 05-06 07:00:10 [core.py:90] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    text = "Yesterday it finally started.\n\n" + "\n".join(RECORDS) + "\n" + error
    assert judged(tmp_path, text)["class"] == "gpu_oom"
    early = "Yesterday it finally started.\n\nINFO 05-06 07:00:00 [model_runner.py:90] Starting to load model /m...\n"
    found = judged(tmp_path, early)
    assert (found["class"], found["phase"]) != ("ready", "ready") and not found["facts"]["ready"]
    assert judged(tmp_path, "It has not finally started.\n" + "\n".join(RECORDS) + "\n")["class"] != "ready"


FRONT = """\
(APIServer pid=77511) INFO:     Application startup complete.
(APIServer pid=77511) INFO:     Shutting down
(APIServer pid=77511) INFO:     Application shutdown complete.
"""
TABLE = "    PID    PPID STAT CMD\n  77637       1 R    VLLM::EngineCore\n\n"
STACK = "$ sudo cat /proc/77637/stack\n[<0>] uvm_spin_loop+0xb4/0x100 [nvidia_uvm]\n[<0>] uvm_ioctl+0xe42/0x1860 [nvidia_uvm]\n"


def test_engine_that_cannot_be_killed_has_not_ended(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(FRONT)
    (tmp_path / "copy.txt").write_text(f"{TABLE}$ sudo kill -9 77637\n$ sudo kill -9 77637\n{STACK}")
    found = kit.verdict(tmp_path).to_dict()
    assert (found["class"], found["state"], found["facts"]["exited"]) == ("driver_or_io_stuck", "stalled", False)
    (tmp_path / "copy.txt").write_text(
        "$ nvidia-smi --query-gpu=index,memory.used --format=csv\nindex, memory.used [MiB]\n0, 4 MiB\n"
    )
    assert kit.verdict(tmp_path).klass == "ended"


def test_table_of_the_gpus_processes_alone(tmp_path: Path) -> None:
    rule = "+" + "-" * 77 + "+"
    process = "|    0   N/A  N/A           77637      C   VLLM::EngineCore                  48912MiB |"
    (tmp_path / "nvidia-smi.txt").write_text(
        "\n".join((rule, "| Processes:" + " " * 66 + "|", process, process.replace("7637", "7638"), rule, ""))
    )
    assert kit.verdict(tmp_path).facts.value("gpu_mem_mib_max") == 2 * 48912


def dumped(*frames: str) -> str:
    return 'Thread 0x7FA6E7C01740 (idle): "MainThread"\n' + "".join(f"    {frame}\n" for frame in frames)


def test_rank_by_the_name_of_its_dump(tmp_path: Path) -> None:
    reduce, fetch = dumped("all_reduce (torch/distributed/distributed_c10d.py:1322)"), dumped("get (queue.py:170)")
    (tmp_path / "rank0_pyspy.txt").write_text(fetch)
    for rank in (1, 9, 31):
        title = f"Process {40213 + rank}: python train.py --distributed-rank {rank}\nPython v3.8.13\n\n"
        (tmp_path / f"rank{rank}_pyspy.txt").write_text(title + reduce)
    found = kit.verdict(tmp_path).to_dict()
    assert (found["class"], found["ranks"], found["facts"]["world_size"]) == ("rank_straggler", [0], 32)
    (tmp_path / "rank0_pyspy.txt").write_text(reduce)
    assert kit.verdict(tmp_path).klass == "undetermined"  # whom they wait for may be among the 28 that nobody looked at


def test_sentence_that_names_variables_is_a_sentence(tmp_path: Path) -> None:
    said = "When I use num_workers=8 with four nodes the training will freeze, and with num_workers=0 and "
    said += "VLLM::EngineCore it does not.\n"
    assert [row["claim"] for row in kit.open_run(_saved(tmp_path, said)).frame("statements").to_dict("records")] == ["hang"]
    with pytest.raises(kit.errors.EvidenceError):
        kit.verdict(_saved(tmp_path, "--model m VLLM_USE_V1=0 NCCL_DEBUG=INFO hangs=1\n"))


def _saved(folder: Path, text: str) -> Path:
    (folder / "notes.md").write_text(text)
    return folder / "notes.md"


LOCK = "still waiting to acquire lock on /home/u/.cache/huggingface/hub/.locks/models--a/1f.lock\n"


def test_one_line_between_fences(tmp_path: Path) -> None:
    assert judged(tmp_path, f"It says this every few seconds:\n\n```\n{LOCK}```\n", "issue.md")["class"] == "lock_wait"


@pytest.mark.parametrize("text", ["torch.load('model.bin')\n", "x = 1\nprint(x)\n", "pip install vllm\n"])
def test_code_between_fences_is_no_log(tmp_path: Path, text: str) -> None:
    with pytest.raises(kit.errors.EvidenceError):
        judged(tmp_path, f"I run this:\n\n```\n{text}```\n", "issue.md")


def test_issue_whose_lines_no_format_claims(tmp_path: Path) -> None:
    said = "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 192.0.2.1:1234\n"
    assert judged(tmp_path, f"# It fails\n\n{said}", "issue.md")["class"] == "rendezvous_wait"


def test_nccls_own_socket_is_no_port_of_the_server(tmp_path: Path) -> None:
    said = "a:1:1 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use\n"
    assert (
        judged(tmp_path, said + "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n")[
            "class"
        ]
        != "port_in_use"
    )


@pytest.mark.parametrize(("numbers", "named"), [([31, 32, 33, 34], "downloading"), ([31, 32, 32, 32, 32, 32], "undetermined")])
def test_number_that_is_repeated_stands(tmp_path: Path, numbers: list[int], named: str) -> None:
    words = ("ETA 46:00", "still working", "still working", "waiting", "waiting for the network", "waiting for the hub")
    lines = [f"Download progress: {n}%, {said}" for n, said in zip(numbers, words, strict=False)]
    assert judged(tmp_path, "\n".join(["Downloading model: a/b (16.5 GB)", *lines, ""]), "server.log")["class"] == named
