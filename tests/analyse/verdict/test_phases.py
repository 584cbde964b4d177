"""Phases of ranks: the way a launch can go, codes that each rank prints, and who is behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.phases import Step, _walk
from kit.analyse.verdict.stacks import phase_of_frames
from tests.analyse.verdict.scenes import bar, error, line, row, scene


@pytest.mark.parametrize(
    ("steps", "walked"),
    [
        ("launch weights post_load ready", "launch weights post_load ready"),
        ("weights post_load weights graph_capture", "weights post_load weights graph_capture"),
        ("weights download", "weights download"),
        ("ready weights", "ready"),
        ("compile dist_init", "compile"),
        ("launch launch weights", "launch weights"),
    ],
    ids=["forward", "a draft is loaded too", "files fetched within", "not back from ready", "not back", "said twice"],
)
def test_a_launch_goes_forward_or_between_phases_that_alternate(steps: str, walked: str) -> None:
    entries = [Step(phase, order, None, {}) for order, phase in enumerate(steps.split())]
    assert [step.phase for step in _walk(entries)] == walked.split()


def loaded(ranks: list[int], server: str, total: int) -> list:
    begun = [line("weights_begin", phase="weights", rank=rank, at=0, server=server) for rank in range(total)]
    return begun + [line("weights_end", phase="post_load", rank=rank, at=30, server=server) for rank in ranks]


@pytest.mark.parametrize(
    ("parts", "behind"),
    [
        (loaded([0, 1, 3], "sglang", 4), [2]),
        (loaded([0, 1, 2, 3], "sglang", 4), []),
        (loaded([0], "sglang", 4), []),
        (loaded([0], "vllm", 2), []),
        (loaded([1], "vllm", 2), [0]),
        ([*loaded([0, 1, 3], "sglang", 4), line(None, " ")], []),
        ([*loaded([0, 1, 3], "sglang", 4), bar("weights", 1, 2, at=31)], [2]),
        ([*loaded([0, 1, 3], "sglang", 4), line("graph_begin", phase="graph_capture", rank=2, at=40)], []),
    ],
    ids=[
        "one lacks it",
        "none lacks it",
        "rank 0 speaks for four",
        "rank 0 speaks for two",
        "not rank 0",
        "cut within a record",
        "a bar",
        "it has passed a later one",
    ],
)
def test_who_lacks_a_milestone_is_behind(parts: list, behind: list[int]) -> None:
    assert sorted(scene(*parts).progression.lagging) == behind


def test_what_a_start_script_calls_done_after_the_error_that_ended_it_is_no_phase() -> None:
    parts = [line("dist_begin", phase="dist_init", at=0), error("rendezvous_timeout", phase="dist_init", at=9)]
    done = line("train_end", phase="train_step", role="finished", kind="other", at=10)
    assert (scene(*parts, done).phase, scene(parts[0], done).phase) == ("dist_init", "train_step")


def test_frames_tell_the_phase_where_no_log_does() -> None:
    frames = [row("stacks", function="load_weights", file="vllm/loader.py")[1], row("stacks", function="main", file="a.py")[1]]
    assert phase_of_frames(frames) == "weights"
    assert phase_of_frames(frames[1:]) is None
    helper = row("stacks", function="_recv_msg", file="torch/_inductor/compile_worker/subproc_pool.py")[1]
    assert phase_of_frames([helper, *frames]) == "weights"


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ("_kernel_warmup (vllm/v1/worker/w.py) < init_device (vllm/v1/worker/w.py)", "warmup"),
        ("capture (torch/cuda/graphs.py) < warm_up_model (vllm/v1/worker/w.py)", "graph_capture"),
        ("update (tqdm/std.py) < _inner_training_loop (transformers/trainer.py)", "train_step"),
        ("forward (x/models/m.py) < run_batch (sglang/srt/managers/scheduler.py)", "serving"),
        ("recv (zmq/s.py) < event_loop_normal (sglang/srt/managers/scheduler.py)", "ready"),
    ],
    ids=["warm-up", "capture within the warm-up", "training", "a batch", "no batch"],
)
def test_frames_tell_where_a_launch_was_entered(frames: str, phase: str) -> None:
    rows = [row("stacks", function=frame.split(" (")[0], file=frame.split(" (")[1][:-1])[1] for frame in frames.split(" < ")]
    assert phase_of_frames(rows) == phase


CRASH = """Traceback (most recent call last):
  File "job.py", line 36, in <module>
    run()
  File "/v/site-packages/torch/nn/modules/module.py", line 889, in _call_impl
    return forward_call(*args, **kwargs)
RuntimeError: CUDA out of memory. Tried to allocate 2.93 GiB
"""
IMPORT = """Traceback (most recent call last):
  File "/v/dataloader/train_step.py", line 3, in <module>
    import plotlib
ModuleNotFoundError: No module named 'plotlib'
"""


@pytest.mark.parametrize(("text", "phase"), [(CRASH, "train_step"), (IMPORT, "launch")], ids=["a forward pass", "an import"])
def test_the_traceback_of_a_script_tells_how_far_it_was(tmp_path: Path, text: str, phase: str) -> None:
    (tmp_path / "slurm-7.out").write_text("device is cuda:0\n" + text)
    assert kit.verdict(tmp_path).phase == phase


@pytest.mark.parametrize(
    ("statement", "phase"),
    [
        ("loss.backward()", "train_step"),
        ("trainer.train(resume_from_checkpoint=True)", "train_step"),
        ("model = AutoModel.from_pretrained(args.model)", "weights"),
        ("model.cuda()", "weights"),
        ("data = load_dataset('c4', 'en')", "data_prep"),
        ("dist.init_process_group('nccl')", "dist_init"),
        ("out = model.generate(**inputs)", "serving"),
        ("engine = builder.build_serialized_network(network, config)", "compile"),
        ("main()", "launch"),
    ],
)
def test_the_statement_that_failed_tells_how_far_it_was(tmp_path: Path, statement: str, phase: str) -> None:
    trace = f'Traceback (most recent call last):\n  File "job.py", line 36, in <module>\n    {statement}\nRuntimeError: broken\n'
    (tmp_path / "job.log").write_text("starting the job\n" + trace)
    assert kit.verdict(tmp_path).phase == phase


SERVER = "INFO 05-06 07:00:00 [api_server.py:1] vLLM API server version 0.9.1\n"
LOADED = SERVER + "INFO 05-06 07:01:00 [gpu_model_runner.py:1] Model loading took 14.2 GiB memory and 9.9 seconds\n"
OOM = """ERROR 05-06 07:02:00 [core.py:9] Traceback (most recent call last):
ERROR 05-06 07:02:00 [core.py:9]   File "/v/vllm/v1/worker/gpu_worker.py", line 4, in {function}
ERROR 05-06 07:02:00 [core.py:9]     self.model_runner.run()
ERROR 05-06 07:02:00 [core.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


@pytest.mark.parametrize(("function", "phase"), [("capture_model", "graph_capture"), ("train_step", "post_load")])
def test_a_servers_traceback_goes_on_where_its_log_ends(tmp_path: Path, function: str, phase: str) -> None:
    (tmp_path / "server.log").write_text(LOADED + OOM.format(function=function))
    assert kit.verdict(tmp_path).phase == phase


def test_the_first_traceback_counts_not_those_that_follow(tmp_path: Path) -> None:
    after = OOM.format(function="capture_model").replace("torch.OutOfMemoryError: CUDA out of memory", "RuntimeError: gone")
    (tmp_path / "server.log").write_text(SERVER + OOM.format(function="load_model") + after)
    assert kit.verdict(tmp_path).phase == "weights"


@pytest.mark.parametrize(("end", "phase"), [("", "ready"), ("Killed\n", "serving")])
def test_a_server_that_was_ready_failed_in_its_service(tmp_path: Path, end: str, phase: str) -> None:
    (tmp_path / "server.log").write_text(LOADED + "INFO:     Application startup complete.\n" + end)
    assert kit.verdict(tmp_path).phase == phase


def test_what_others_print_after_it_failed_is_not_about_a_rank() -> None:
    def begun(rank: int, server: str = "sglang") -> tuple:
        return line("dist_begin", phase="dist_init", rank=rank, server=server)

    fails = error("scheduler_exception", role="header", rank=1, server="sglang")
    loads = line("weights_begin", phase="weights", rank=0, server="sglang")
    ranks = [begun(rank) for rank in range(4)]
    assert scene(*ranks, loads).phase == "weights", "rank 0 speaks for all"
    assert scene(*ranks, fails, loads).phase == "dist_init"


@pytest.mark.parametrize(
    ("part", "phase"),
    [
        (row("events", source="kubernetes", reason="Unhealthy", text="Liveness probe failed: statuscode: 404"), "serving"),
        (row("events", source="kubernetes", reason="Unhealthy", text="Liveness probe failed: statuscode: 503"), "launch"),
        (row("collectives", source="flight_recorder", communicator="7:DATA_PARALLEL_GROUP", rank=0), "train_step"),
        (row("collectives", source="flight_recorder", communicator="tp:0", rank=0), "launch"),
    ],
    ids=["a probe is answered", "not ready", "gradients are reduced", "any server's group"],
)
def test_what_else_tells_the_phase_without_a_log(part: tuple, phase: str) -> None:
    assert scene(part).phase == phase


def drawn(tmp_path: Path, text: str) -> str | None:
    (tmp_path / "server.log").write_text(text)
    return kit.verdict(tmp_path).phase


KERNELS = "DeepGEMM warmup:  10%|#  | 8/80 [00:02<00:18]"


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        ("Capturing batches:   0%|          | 0/9 [00:00<?, ?it/s]", "graph_capture"),
        ("DeepGEMM warmup: 100%|###| 80/80 [00:02<00:00]", "compile"),
        ("Capturing batches: 100%|###| 9/9 [00:04<00:00]", "compile"),
    ],
    ids=["within a capture", "before one", "after one"],
)
def test_kernels_that_a_capture_builds_are_part_of_it(tmp_path: Path, before: str, phase: str) -> None:
    assert drawn(tmp_path, f"{before}\n{KERNELS}\n") == phase


@pytest.mark.parametrize(("soft", "phase"), [("", "serving"), (", self.soft=True", "launch")])
def test_a_watchdog_over_batches_tells_that_it_served(tmp_path: Path, soft: str, phase: str) -> None:
    assert drawn(tmp_path, f"[2026-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300{soft})\n") == phase


def test_one_model_of_several_that_is_loaded_ends_no_loading(tmp_path: Path) -> None:
    words = ("Triton Server Version 2.44.0", "loading: big:1", "loading: small:1", "successfully loaded 'small'")
    text = "".join(f"I0424 08:51:4{n}.771260 1 model_lifecycle.cc:469] {word}\n" for n, word in enumerate(words))
    assert drawn(tmp_path, text) == "weights"
