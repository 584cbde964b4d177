"""Two launches side by side: settings by their canonical names, phases, milestones, samples, and what is said of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kit
from kit.analyse.launches.templates import template
from kit.analyse.verdict.options import aliases, command_line, knowledge, printed_arguments, unlikely
from kit.analyse.verdict.settings import _versions
from kit.cli import main
from kit.errors import UsageError
from kit.parse import grammar

GIB_KB = 1 << 20
ARGS = (
    "server_args=ServerArgs(model_path='/models/m', host='0.0.0.0', port={port}, tp_size=2, mem_fraction_static=0.85, "
    "random_seed={seed}, attention_backend='{backend}', quantization=None)"
)
COMMAND = "python3 -m sglang.launch_server --model-path /models/m {tp} --port {port} --attention-backend {backend}"


def status(pid: int, rank: int, anon_kb: int) -> str:
    return (
        f"Name:\tsglang::schedul\nState:\tS (sleeping)\nPid:\t{pid}\nPPid:\t1\nVmRSS:\t{anon_kb + 100} kB\n"
        f"RssAnon:\t{anon_kb} kB\nRssFile:\t100 kB\nRssShmem:\t0 kB\nThreads:\t{50 + rank}\n"
    )


def launch(folder: Path, backend: str, tp: str, port: int, *, ready: bool, anon_gib: int = 40, extra: str = "") -> Path:
    """Evidence of a SGLang launch of two ranks: log, command, ps, memory. Without `ready` it stands in graph capture."""
    folder.mkdir()
    lines = [
        (0, "", ARGS.format(port=port, seed=port * 7, backend=backend)),
        *((10, f" TP{rank}", "Init torch distributed begin.") for rank in (0, 1)),
        *((12, f" TP{rank}", "Load weight begin. avail mem=93.42 GB") for rank in (0, 1)),
        *((40, f" TP{rank}", "Load weight end. type=M, dtype=torch.bfloat16, avail mem=50.1 GB") for rank in (0, 1)),
        *(
            (45, f" TP{rank}", "Capture cuda graph begin. This can take up to several minutes. avail mem=9.1 GB")
            for rank in (0, 1)
        ),
    ]
    if ready:
        lines += [
            *((55, f" TP{rank}", "Capture cuda graph end. Time elapsed: 10.0 s. avail mem=8.1 GB") for rank in (0, 1)),
            (57, "", "The server is fired up and ready to roll!"),
        ]
    text = "".join(f"[2026-02-18 00:00:{second:02d}{rank}] {message}\n" for second, rank, message in lines)
    (folder / "server.log").write_text(text + extra)
    command = COMMAND.format(tp=tp, port=port, backend=backend)
    (folder / "launch.sh").write_text(f"#!/bin/bash\nexport NCCL_P2P_DISABLE=1\n{command} > server.log 2>&1\n")
    (folder / "ps.txt").write_text(
        "    PID STAT     TIME COMMAND\n"
        f"    100 Sl   00:00:10 {command}\n"
        "    101 Sl   00:01:00 sglang::scheduler_TP0\n    102 Sl   00:01:00 sglang::scheduler_TP1\n"
    )
    for rank in (0, 1):
        (folder / f"status.pid{101 + rank}.txt").write_text(status(101 + rank, rank, anon_gib * GIB_KB))
    return folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """One launch that became ready with triton, one that hangs in capture with flashinfer; spelled differently."""
    folder = tmp_path_factory.mktemp("pair")
    a = launch(folder / "good", "triton", "-tp 2", 30000, ready=True)
    b = launch(folder / "bad", "flashinfer", "--tensor-parallel-size=2", 30001, ready=False, anon_gib=20)
    return kit.compare(a, b, captured_at=("2026-02-18 00:10:00", "2026-02-18 00:10:00"))


def setting(found, name):
    rows = found.settings[found.settings["name"] == name]
    assert len(rows) == 1, name
    return rows.iloc[0]


def test_the_one_setting_that_may_be_a_cause_is_named(pair):
    assert pair.differing(likely=True)["name"].tolist() == ["attention_backend"]
    assert (setting(pair, "attention_backend")["a"], setting(pair, "attention_backend")["b"]) == ("triton", "flashinfer")
    assert any("consistent with attention_backend, the one such setting" in said for said in pair.findings)


def test_spellings_of_one_setting_are_one(pair):
    row = setting(pair, "tp_size")
    assert (row["a"], row["b"], row["same"], row["source"]) == ("2", "2", True, "command line")


def test_seeds_and_ports_are_unlikely_causes(pair):
    assert set(pair.differing(likely=False)["name"]) == {"port", "random_seed"}
    assert any(said.startswith("unlikely causes") and "port (30000 in a, 30001 in b)" in said for said in pair.findings)


def test_what_the_server_printed_fills_the_gaps(pair):
    row = setting(pair, "mem_fraction_static")
    assert (row["a"], row["b"], row["same"], row["source"]) == ("0.85", "0.85", True, "printed arguments")


def test_environment_of_scripts_counts(pair):
    row = setting(pair, "NCCL_P2P_DISABLE")
    assert (row["a"], row["same"], row["source"]) == ("1", True, "environment")


def test_phases_side_by_side(pair):
    rows = pair.phases.set_index("phase")
    assert rows.loc["weights", "a_s"] == rows.loc["weights", "b_s"] == 28.0
    assert (rows.loc["graph_capture", "a_s"], rows.loc["graph_capture", "b_s"]) == (12.0, 555.0)
    assert bool(rows.loc["graph_capture", "b_open"]) and not bool(rows.loc["graph_capture", "a_open"])
    assert pair.last_common == "graph_capture"


def test_the_outcome_comes_first(pair):
    assert pair.findings[0].startswith("a is ready; b ") and "graph_capture" in pair.findings[0]
    assert "the last phase that both reached is graph_capture; a went on to ready, b did not" in pair.findings


def test_the_first_milestone_that_one_lacks(pair):
    said = [said for said in pair.findings if said.code == "lacks_milestone"]
    assert len(said) == 1 and "that b lacks is graph_end (a after 55 s" in said[0]
    row = pair.milestones.set_index("milestone").loc["graph_end"]
    assert (row["a_ranks"], row["a_count"], row["b_count"]) == ("0, 1", 2, 0)


def test_memory_is_by_rank_and_never_summed(pair):
    rows = pair.memory.set_index("process")
    assert (rows.loc["rank 1", "a_rss_anon_bytes"], rows.loc["rank 1", "b_rss_anon_bytes"]) == (40 << 30, 20 << 30)
    (memory,) = [entry for entry in pair.findings if entry.code == "memory"]
    assert max(memory.values["sizes"]) == 40 * 2**30 and "40.00 GiB of anonymous memory in a" in memory


def test_numbers_of_threads(pair):
    rows = pair.threads[pair.threads["state"] == "any"].set_index("process")
    assert (rows.loc["rank 0", "a"], rows.loc["rank 1", "b"]) == (50, 51)


def test_nothing_is_called_a_cause(pair):
    assert not [said for said in pair.findings if "caused" in said or "because" in said]


def test_several_settings_are_confounded(tmp_path):
    a = launch(tmp_path / "a", "triton", "--tp 2 --disable-cuda-graph-padding", 30000, ready=True)
    b = launch(tmp_path / "b", "flashinfer", "--tp 2", 30000, ready=False)
    found = kit.compare(a, b, captured_at=("2026-02-18 00:10:00", "2026-02-18 00:10:00"))
    assert any("these 2 settings: they are confounded" in said for said in found.findings)


def test_a_default_that_nobody_printed_is_not_known(tmp_path):
    a = launch(tmp_path / "a", "triton", "--tp 2", 30000, ready=True)
    b = tmp_path / "b"
    b.mkdir()
    (b / "launch.sh").write_text(
        "python3 -m sglang.launch_server --model-path /models/m --tp 2 --port 30000 --attention-backend triton\n"
    )
    found = kit.compare(a, b)
    assert setting(found, "mem_fraction_static")["same"] is not False and "mem_fraction_static" not in set(
        found.differing()["name"]
    )
    assert any("holds no log" in said for said in found.missing)


def test_a_rank_that_lacks_a_milestone_is_named(tmp_path):
    a = launch(tmp_path / "a", "triton", "--tp 2", 30000, ready=True)
    b = launch(
        tmp_path / "b",
        "triton",
        "--tp 2",
        30000,
        ready=False,
        extra="[2026-02-18 00:00:55 TP0] Capture cuda graph end. Time elapsed: 10.0 s. avail mem=8.1 GB\n",
    )
    found = kit.compare(a, b, captured_at=("2026-02-18 00:10:00", "2026-02-18 00:10:00"))
    (lacking,) = [entry for entry in found.findings if entry.code == "ranks_lack_milestone"]
    assert lacking == "graph_end is there for 2 ranks in a, for 1 in b: rank 1 lacks it"
    assert lacking.values == {"milestone": "graph_end", "has": "a", "lacks": "b", "ranks": [1], "many": 2, "few": 1}


def test_the_same_launch_twice_is_named(data):
    found = kit.compare(data / "sg01-capture-hang", data / "sg01-capture-hang")
    assert found.findings[0].startswith("a and b are the same launch")
    assert not len(found.differing())


def test_other_servers_are_compared_by_phase_only(data, test_data):
    found = kit.compare(data / "sg01-capture-hang", test_data / "cases" / "given" / "vl27")
    assert any("a is a launch of sglang, b of vllm" in said for said in found.findings)
    assert not {said.code for said in found.findings} & {"lacks_milestone", "parts_at_line"}


@pytest.fixture(scope="module")
def ticking(opened):
    return kit.compare(opened("healthy-tp2"), opened("pipe-ticker"))


def test_recorded_runs(ticking):
    """The healthy launch and the one whose rank 0 ticks into a pipe: same command, another outcome."""
    found = ticking
    assert found.verdicts.set_index("what").loc["state", ["a", "b"]].tolist() == ["ready", "stalled"]
    assert found.last_common == "weights"
    command = found.settings[(found.settings["source"] == "command line")]
    assert set(command[command["same"].eq(False)]["name"]) <= {"port"} and len(command) >= 5
    memory = found.memory.set_index("process")
    assert memory.loc["rank 0", "a_rss_anon_bytes"] > 2 * memory.loc["rank 0", "b_rss_anon_bytes"] > 0
    assert abs(memory.loc["rank 0", "a_t_s"] - memory.loc["rank 0", "b_t_s"]) < 10
    assert {"rank 0", "rank 1"} <= set(found.threads[found.threads["state"] == "S"]["process"])


def test_aligned_at_a_phase(opened):
    runs = opened("healthy-tp2"), opened("pipe-ticker")
    found = kit.compare(*runs, align="weights")
    begins = found.bands[found.bands["phase"] == "weights"]["begin_s"].tolist()
    assert begins == [0.0, 0.0] and found.bands["begin_s"].min() < 0
    with pytest.raises(UsageError, match="choose one of|Choose one of"):
        kit.compare(*runs, align="ready")
    with pytest.raises(UsageError, match="not a phase"):
        kit.compare(*runs, align="weight")


def test_every_case_compares_with_every_kind(opened, test_data):
    """Evidence of any shape gives a comparison that is text, HTML and JSON; CI looks at all, a desk at a third."""
    for case in sorted((test_data / "cases" / "given").iterdir())[:: 1 if os.environ.get("CI") else 3]:
        found = kit.compare(opened("healthy-tp2"), case)
        json.dumps(found.to_dict(), allow_nan=False)
        assert str(found) and found._repr_html_()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Two launches that became ready, one that hangs in capture; only the last one prints a warning."""
    folder = tmp_path_factory.mktemp("three")
    warning = "[2026-02-18 00:00:46 TP0] Autotuner fell back to slow path for 12 of 40 kernels at 0x7f12ab, took 3.1 s\n"
    runs = [
        launch(folder / "first", "triton", "-tp 2", 30000, ready=True),
        launch(folder / "second", "triton", "--tp 2", 30002, ready=True),
        launch(folder / "bad", "flashinfer", "--tensor-parallel-size=2", 30001, ready=False, extra=warning),
    ]
    return kit.compare(*runs, captured_at=["2026-02-18 00:10:00"] * 3)


def test_three_launches_in_one_comparison(three):
    assert (three.labels, three.names) == ("abc", ("first", "second", "bad"))
    assert [name for name in three.settings if len(name) == 1] == ["a", "b", "c"]
    assert three.phases.set_index("phase").loc["graph_capture", ["a_s", "b_s", "c_s"]].tolist() == [12.0, 12.0, 555.0]
    assert three.phases.set_index("phase").loc["graph_capture", "c_difference_s"] == 543.0
    assert three.findings[0].startswith("a is ready; b is ready; c ")
    assert "the last phase that all reached is graph_capture; a and b went on to ready, c did not" in three.findings
    assert any("attention_backend (triton in a and b, flashinfer in c)" in said for said in three.findings)
    json.dumps(three.to_dict(), allow_nan=False)


def test_log_lines_that_one_lacks(three):
    """Numbers, addresses and durations do not tell lines apart; the line that only the launch in trouble has is named."""
    row = three.templates[three.templates["text"].str.startswith("Autotuner")].iloc[0]
    assert row["template"] == "Autotuner fell back to slow path for # of # kernels at #, took #"
    assert (row["a_count"], row["b_count"], row["c_count"]) == (0, 0, 1)
    alike = three.templates[three.templates["text"].str.startswith("Load weight end")]
    assert len(alike) == 1 and alike[["a_count", "b_count", "c_count"]].iloc[0].tolist() == [2, 2, 2]
    assert any("that a and b lack: “Autotuner fell back to slow path for 12 of 40 kernels" in said for said in three.findings)


@pytest.mark.parametrize(
    "a, b",
    [
        ("Loaded 8 shards in 39.02 s", "Loaded 4 shards in 1.2 s"),
        ("pid 12: GET http://127.0.0.1:80/x", "pid 7: GET http://host/y"),
        ("reading /models/a/x.safetensors", "reading ~/m/y.safetensors"),
        ("sizes [1, 2, 4, 8]", "sizes [1, 2]"),
        ("backend='triton', eager=True", "backend='flashinfer', eager=False"),
        ("comm 0x55d5f0a0 id 5f0a8c1e-11aa-4bcd-9e00-8f3c2d1b0a99", "comm 0x1 id 0f0a8c1e-22aa-4bcd-9e00-8f3c2d1b0a99"),
    ],
)
def test_lines_that_differ_in_values_only_are_one_shape(a, b):
    assert template(a) == template(b)


def test_lines_that_differ_in_words_are_two_shapes():
    assert template("Load weight begin") != template("Load weight end")
    assert template("doesn't fit, can't load") == "doesn't fit, can't load"


def test_healthy_launches_share_their_lines(data):
    """Recorded launches of one server: few lines of one are in no other."""
    found = kit.compare(data / "healthy-tp2", data / "log-lost")
    shared = found.templates[["a_count", "b_count"]].gt(0).all(axis=1)
    assert shared.sum() >= 40 and shared.mean() > 0.7


def test_tracebacks_and_arguments_are_no_log_lines(test_data):
    found = kit.compare(test_data / "attempts" / "dummy-1", test_data / "attempts" / "auto-1")
    texts = found.templates["text"].str.strip()
    assert not texts.str.startswith(("File ", "return ", "non-default args", "Traceback")).any()
    assert texts.str.contains("Cannot find any model weights").any()


def test_launches_part_where_one_stops_and_not_at_their_common_end(test_data):
    """Both print the same lines while they shut down; one of them long before that never loaded its weights."""
    found = kit.compare(test_data / "attempts" / "dummy-1", test_data / "attempts" / "auto-1")
    said = next(said for said in found.findings if said.code == "parts_at_line" and said.values["lacks"] == ["b"])
    assert "server.log:39;" in said and "shutdown" not in said


def test_threads_calls_and_stacks_by_rank(opened):
    found = kit.compare(opened("stopped-rank"), opened("pipe-ticker"))
    stacks = found.stacks.set_index(["process", "thread"])
    assert stacks.loc[("rank 0", "main thread"), "b"] == "pipe_ticker (launch_lab_plugin.py)"
    assert not stacks.loc[("rank 0", "main thread"), "same"]
    assert stacks.loc[("frontend", "main thread"), "same"]
    calls = found.syscalls.set_index(["process", "syscall"])
    assert calls.loc[("rank 0", "clock_nanosleep"), "b_s"] > 3 and calls.loc[("rank 0", "clock_nanosleep"), "a_calls"] == 0
    names = found.thread_names.set_index(["process", "thread"])
    assert names.loc[("rank 0", "gloo_tcp_loop"), ["a", "b"]].tolist() == [13, 13]
    assert "epoll_wait 13" in names.loc[("rank 0", "gloo_tcp_loop"), "b_calls"]


def test_time_in_calls_of_a_trace_without_durations_is_not_recorded(tmp_path):
    for name, took in (("a", ""), ("b", " <0.500000>")):
        (tmp_path / name).mkdir()
        calls = [f'9 10:00:0{n}.000000 read(3, "x", 1) = 1{took}\n' for n in range(3)]
        (tmp_path / name / "strace.txt").write_text("".join(calls))
    text = str(kit.compare(tmp_path / "a", tmp_path / "b"))
    assert re.search(r"read +1\.5 \(not recorded\) +1\.5 \(1\.5 s\)", text)


def test_each_run_is_read_once(data):
    runs = [kit.open_run(data / name) for name in ("healthy-tp2", "pipe-ticker")]
    kit.compare(*runs)
    for run in runs:
        assert set(run.reads.values()) == {1} and run.reads.keys() == {capture.file for capture in run.captures if capture.kind}


def test_times_are_one_for_each_launch(data):
    with pytest.raises(UsageError, match="1 times for 2 launches"):
        kit.compare(data / "healthy-tp2", data / "pipe-ticker", captured_at=["2026-02-18 00:10:00"])


def test_text_of_the_evidence_is_escaped(tmp_path):
    a = launch(tmp_path / "a", "triton", "--tp 2 --chat-template '<script>alert(1)</script>'", 30000, ready=True)
    b = launch(tmp_path / "b", "triton", "--tp 2", 30000, ready=True)
    html = kit.compare(a, b)._repr_html_()
    assert "&lt;script&gt;" in html and "<script>alert" not in html


def test_secrets_are_not_shown(tmp_path):
    a = launch(tmp_path / "a", "triton", "--tp 2 --api-key hunter2", 30000, ready=True)
    b = launch(tmp_path / "b", "triton", "--tp 2 --api-key other22", 30000, ready=True)
    (a / "env.sh").write_text("export HF_TOKEN=hf_secretsecret\nvllm serve m\n")
    found = kit.compare(a, b)
    shown = str(found) + found._repr_html_() + json.dumps(found.to_dict())
    assert not [secret for secret in ("hunter2", "other22", "hf_secretsecret") if secret in shown]


def test_lines_fit(pair):
    assert max(map(len, str(pair).splitlines())) <= 110


@pytest.mark.parametrize(
    "text, server, expected",
    [
        ("vllm serve org/m -tp 4 --max-model-len 32k", "vllm", {"model": "org/m", "tp_size": 4, "max_model_len": 32_000}),
        (
            "python -m vllm.entrypoints.openai.api_server --model org/m --max-model-len 32K",
            "vllm",
            {"model": "org/m", "max_model_len": 32_768},
        ),
        ("vllm serve --enforce-eager org/m", "vllm", {"enforce_eager": True, "model": "org/m"}),
        (
            "vllm serve m --no-enable-prefix-caching -O3",
            "vllm",
            {"model": "m", "enable_prefix_caching": False, "optimization_level": 3},
        ),
        ("""vllm serve m --compilation-config '{"mode": 3}'""", "vllm", {"model": "m", "compilation_config.mode": 3}),
        ("sglang serve --model-path /m/ --cuda-graph-bs 1 2 4 &", "sglang", {"model": "/m", "cuda_graph_bs": "1, 2, 4"}),
        ("text-generation-launcher --model-id org/m --num-shard 4", "tgi", {"model": "org/m", "tp_size": 4}),
        ("trtllm-serve org/m --tp_size 4 --backend pytorch", "trtllm", {"model": "org/m", "tp_size": 4, "backend": "pytorch"}),
        ("/opt/llama-server -m m.gguf -ngl 99 --no-warmup", "llamacpp", {"model": "m.gguf", "n_gpu_layers": 99, "warmup": False}),
        (
            "torchrun --nproc-per-node=8 --nnodes 2 train.py --lr 0.1",
            "torchrun",
            {"nproc_per_node": 8, "nnodes": 2, "script": "train.py", "lr": 0.1},
        ),
    ],
)
def test_command_lines(text, server, expected):
    found = command_line(text)
    assert (found.server, found.options) == (server, expected)


def test_a_container_gives_image_environment_and_the_options_within():
    found = command_line(
        "docker run -d --rm --gpus all --shm-size 32g -e NCCL_DEBUG=INFO -v /data:/data lmsysorg/sglang:v0.5.5 "
        "python3 -m sglang.launch_server --tp 8 > a.log 2>&1"
    )
    assert (found.server, found.image, found.environment) == ("sglang", "lmsysorg/sglang:v0.5.5", {"NCCL_DEBUG": "INFO"})
    assert found.options == {"tp_size": 8, "container.gpus": "all", "container.shm_size": "32g"}


def test_commands_that_start_no_server():
    assert command_line("tail -f server.log") is None and command_line("docker run -it ubuntu bash") is None


def test_printed_arguments_that_are_cut_or_broken():
    text = "Initializing a V1 LLM engine (v0.11.0) with config: model='/m', compilation_config={'mode': <Mode.NONE: 0>, "
    text += "'pass': [redacted]'x': 1}, 'y': 2}, seed=0, devic"
    found = printed_arguments(text, "vllm")
    assert (found["model"], found["compilation_config.mode"]) == ("/m", "NONE")
    assert printed_arguments("no arguments here", "vllm") == {}


def test_names_agree_with_the_log_grammars():
    """A name that a grammar gives an argument is the name that a command line gives it."""
    for server in knowledge()["server"]:
        printed = next((found.args for found in grammar.load().all if found.name == server), {})
        wrong = {
            spelled: (name, aliases(server)[spelled]) for spelled, name in printed.items() if aliases(server)[spelled] != name
        }
        assert not wrong, server


def test_causes_are_not_called_unlikely():
    likely = (
        "attention_backend",
        "model",
        "tp_size",
        "speculative_draft_model_path",
        "tokenizer_path",
        "disable_custom_all_reduce",
        "enforce_eager",
        "compilation_config.mode",
        "load_format",
        "disable_cuda_graph",
    )
    assert not [name for name in likely if unlikely(name, "option")]
    assert not [
        name
        for name in ("NCCL_P2P_DISABLE", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "VLLM_USE_V1")
        if unlikely(name, "environment")
    ]


def test_figure_has_words_and_both_runs(ticking):
    from kit.plot import figure_alt, plot_comparison

    figure = plot_comparison(ticking)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a: healthy-tp2", "b: pipe-ticker"]
    assert {line.get_color() for line in figure.axes[1].get_lines()} == {"#0072B2", "#D55E00"}
    assert "b (pipe-ticker): launch" in figure_alt(figure) and "it is in weights" in figure_alt(figure)


def test_figure_of_three_runs(three):
    from kit.plot import figure_alt, plot_comparison

    figure = plot_comparison(three)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a: first", "b: second", "c: bad"]
    assert "Phases of c (bad)" in figure_alt(figure)


def test_figure_of_runs_without_phases_says_so(tmp_path):
    from kit.plot import plot_comparison

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "launch.sh").write_text("vllm serve m\n")
    figure = plot_comparison(kit.compare(tmp_path / "a", tmp_path / "b"))
    assert all(axes.texts[0].get_text().startswith(("Phases: no record", "Memory: no sample")) for axes in figure.axes)


def test_command(data, capsys):
    assert main(["compare", str(data / "healthy-tp2"), str(data / "pipe-ticker"), "--json", "--align", "weights"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["a"], found["align"], found["last_common"]) == ("healthy-tp2", "weights", "weights")
    assert main(["compare", *(str(data / name) for name in ("healthy-tp2", "no-weights", "port-taken"))]) == 0
    assert "c = port-taken" in capsys.readouterr().out
    assert main(["compare", str(data / "healthy-tp2"), str(data / "absent")]) == 3
    assert main(["compare", str(data / "healthy-tp2"), str(data / "no-weights"), "--align", "x"]) == 2


def test_the_module_is_light():
    code = "import sys, kit.analyse.launches.compare; print([n for n in ('pandas', 'numpy', 'matplotlib') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_each_finding_is_data_and_its_sentence_stands_in_one_table(pair):
    from kit.analyse.launches.sentences import SENTENCES

    assert {entry.code for entry in pair.findings} <= SENTENCES.keys()
    data = json.loads(json.dumps(pair.to_dict()))["details"]
    assert [entry["text"] for entry in data] == list(pair.findings)
    assert [entry["values"]["setting"] for entry in data if entry["code"] == "one_setting"] == ["attention_backend"]


def test_the_kernel_of_a_host_is_its_version_not_its_number_of_cpus():
    named = {"machine": "x86_64", "kernel": "6.1.0-28-amd64", "cpus": "2", "pid_ns": "pid:[1]"}
    host = [{"source": "uname", "key": key, "value": value} for key, value in named.items()]
    evidence = SimpleNamespace(log=SimpleNamespace(marks=[]), gpus=[], host=host)
    assert _versions(evidence, None) == {"kernel": "6.1.0-28-amd64"}
