"""Ledger of attempts: which setting separates launches, what is confounded, which launch to try next, what is never said."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kit
from kit.analyse.launches.study import chance_of
from kit.analyse.verdict.options import command_line, with_option_of
from kit.cli import main
from kit.errors import EvidenceError, UsageError


def when(number: int) -> list[str]:
    """Capture ten minutes after the begin of launches that begin an hour after each other."""
    return [f"2026-02-18 {hour:02d}:10:00" for hour in range(number)]


PROGRAM = "python3 -m sglang.launch_server --model-path /models/m"


def launch(folder: Path, options: str, *, ready: bool, environment: str = "", hour: int = 0) -> Path:
    """Log and command of a SGLang launch of one rank; one that is not ready stands in graph capture."""
    folder.mkdir(parents=True)
    lines = [
        "[2026-02-18 00:00:00] server_args=ServerArgs(model_path='/models/m', mem_fraction_static=0.85)",
        "[2026-02-18 00:00:10 TP0] Init torch distributed begin.",
        "[2026-02-18 00:00:12 TP0] Load weight begin. avail mem=93.42 GB",
        "[2026-02-18 00:00:40 TP0] Load weight end. type=M, dtype=torch.bfloat16, avail mem=50.1 GB",
        "[2026-02-18 00:00:45 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.1 GB",
    ]
    if ready:
        lines += [
            "[2026-02-18 00:00:55 TP0] Capture cuda graph end. Time elapsed: 10.0 s. avail mem=8.1 GB",
            "[2026-02-18 00:00:57] The server is fired up and ready to roll!",
        ]
    text = "\n".join(lines).replace("02-18 00:", f"02-18 {hour:02d}:")
    (folder / "server.log").write_text(f"{text}\n")
    (folder / "launch.sh").write_text(f"#!/bin/bash\n{environment} {PROGRAM} {options} > server.log 2>&1\n")
    return folder


def ledger(tmp_path: Path, *plan: tuple[str, bool]):
    """Ledger of launches given as (options, ready)."""
    runs = [launch(tmp_path / f"run{n}", options, ready=ready, hour=n) for n, (options, ready) in enumerate(plan)]
    return kit.attempts(runs, captured_at=when(len(runs)))


SIX = (
    ("--attention-backend triton --tp 8 --port 1", True),
    ("--attention-backend triton --tp 4 --port 2", True),
    ("--attention-backend triton --tp 8 --chunked-prefill-size 2048 --port 3", True),
    ("--attention-backend flashinfer --tp 8 --port 4", False),
    ("--attention-backend flashinfer --tp 4 --port 5", False),
    ("--attention-backend flashinfer --tp 8 --chunked-prefill-size 2048 --port 6", False),
)
"""Six launches, ready with one backend, stalled with the other; the other settings vary within both."""
CONFOUNDED = (
    ("--attention-backend triton --tensor-parallel-size 4 --page-size 1", True),
    ("--attention-backend triton --tp 4 --page-size 1 --chunked-prefill-size 2048", True),
    ("--attention-backend triton --tp-size=4 --page-size 1", True),
    ("--attention-backend flashinfer --tp 8 --page-size 64", False),
    ("--attention-backend flashinfer --tp 8 --page-size 64 --chunked-prefill-size 2048", False),
    ("--tp 8 --attention-backend=flashinfer --page-size 64", False),
)
"""Three settings that always changed together."""


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    return ledger(tmp_path_factory.mktemp("six"), *SIX)


@pytest.fixture(scope="module")
def confounded(tmp_path_factory):
    return ledger(tmp_path_factory.mktemp("confounded"), *CONFOUNDED)


def test_launches_by_outcome(six):
    rows = six.launches.set_index("launch")
    assert rows["state"].tolist() == ["ready"] * 3 + ["unknown"] * 3
    assert rows.loc["run0", ["ready_s", "until_s"]].tolist() == [57.0, 600.0]
    assert (rows.loc["run3", "phase"], rows.loc["run3", "in_phase_s"]) == ("graph_capture", 555.0)
    assert rows.loc["run3", "ready_s"] != rows.loc["run3", "ready_s"]
    assert rows["attention_backend"].tolist() == ["triton"] * 3 + ["flashinfer"] * 3


def test_a_silent_launch_counts_as_not_ready_once_it_is_late(six, tmp_path):
    assert "counted as not ready, after 3 times as long as the slowest that is: run3, run4, run5" in six.findings
    runs = [launch(tmp_path / f"run{n}", options, ready=ready, hour=n) for n, (options, ready) in enumerate(SIX)]
    early = kit.attempts(runs, captured_at=[text.replace(":10:", ":01:") for text in when(6)])
    assert early.findings[0] == "6 launches: 3 ready, 3 undecided or not done" and not early.next


def test_the_planted_setting_is_the_one_that_separates(six):
    row = six.candidates.set_index("setting").loc["attention_backend"]
    assert bool(row["separates"]) and (row["ready_launches"], row["not_ready_launches"]) == (3, 3)
    assert six.candidates["separates"].sum() == 1
    assert any("consistent with attention_backend: triton (3 ×) in the 3 that are ready" in said for said in six.findings)


def test_what_has_both_outcomes_is_ruled_out(six):
    said = next(said for said in six.findings if said.startswith("not the one deciding setting"))
    assert "tp_size" in said and "chunked_prefill_size" in said and "attention_backend" not in said


def test_ports_are_no_candidates(six):
    assert "port" not in set(six.candidates["setting"])
    assert any("unlikely causes" in said and "port" in said for said in six.findings)


def test_the_closest_pair_is_named(six):
    assert "the closest launches with another outcome, run0 (ready) and run3, differ in attention_backend alone" in six.findings


def test_confounded_settings_are_named(confounded):
    assert [sorted(group) for group in confounded.confounded] == [["attention_backend", "page_size", "tp_size"]]
    assert any("always changed together: they are confounded" in said for said in confounded.findings)


def test_nothing_is_called_a_cause(six, confounded):
    for found in (six, confounded):
        assert not [word for word in ("caused", "because of", "the cause is", "proves") if word in str(found)]
        assert "consistent with" in str(found)


def test_the_next_launch_changes_one_setting(confounded):
    step = confounded.next[0]
    base = next(options for number, (options, _) in enumerate(CONFOUNDED) if step["base"] == f"run{number}")
    had, has = command_line(f"{PROGRAM} {base}").options, command_line(step["command"]).options
    assert {name for name in had.keys() | has.keys() if had.get(name) != has.get(name)} == {step["setting"]}
    assert step["if_ready"] == [step["setting"]] and len(step["if_not"]) == 2
    assert f"$ {step['command']}" in str(confounded)


def test_following_the_ledger_ends_at_the_planted_setting(tmp_path):
    """Launch what it says, with an outcome that tp_size alone decides, until one candidate is left."""
    plan = list(CONFOUNDED)
    for turn in range(6):
        folder = tmp_path / str(turn)
        folder.mkdir()
        found = ledger(folder, *plan)
        left = found.candidates[found.candidates["separates"]]["setting"].tolist()
        if len(left) == 1:
            break
        command = command_line(found.next[0]["command"])
        plan.append((shlex.join(command.words[2:]), command.options["tp_size"] == 4))
    assert left == ["tp_size"] and turn <= 2


def test_many_candidates_are_halved(tmp_path):
    good, bad = ("--a 1 --b 1 --c 1 --d 1", True), ("--a 2 --b 2 --c 2 --d 2", False)
    found = ledger(tmp_path, good, good, good, bad, bad, bad)
    halving = found.next[1]
    assert len(halving["if_ready"]) == len(halving["if_not"]) == 2
    options = command_line(halving["command"]).options
    assert sorted(options[name] for name in "abcd") == [1, 1, 2, 2]


def test_same_settings_with_both_outcomes(tmp_path):
    found = ledger(tmp_path, *SIX[:3], *SIX[3:5], ("--attention-backend triton --tp 4 --port 9", False))
    assert any("does not decide the outcome alone" in said for said in found.findings)
    assert not found.candidates["separates"].any()
    assert found.next[0]["setting"] is None and found.next[0]["base"] == "run5" and "unchanged" in found.next[0]["what"]


def test_no_single_setting(tmp_path):
    """Two settings together: each value has both outcomes; the way goes from one launch to its closest opposite."""
    found = ledger(tmp_path, ("--a 1 --b 1", True), ("--a 1 --b 2", True), ("--a 2 --b 1", True), ("--a 2 --b 2", False))
    assert any(said.startswith("no single setting separates") for said in found.findings)
    assert found.next[0]["base"] == "run3" and found.next[0]["setting"] in ("a", "b")


def test_only_bad_or_one_launch(tmp_path):
    found = ledger(tmp_path, *SIX[3:])
    assert not found.next and any("no launch is ready" in said for said in found.findings)
    alone = ledger(tmp_path / "run0", SIX[0])
    assert len(alone.launches) == 1 and str(alone) and alone._repr_html_()


def test_a_flag_and_a_variable_are_changed_in_the_command(tmp_path):
    good = [
        launch(tmp_path / f"g{n}", "--tp 2", ready=True, environment="NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1", hour=n)
        for n in range(3)
    ]
    flag = "--tp 2 --disable-cuda-graph-padding"
    bad = [launch(tmp_path / f"b{n}", flag, ready=False, environment="NCCL_DEBUG=INFO", hour=n) for n in range(3, 6)]
    found = kit.attempts(good + bad, captured_at=when(6))
    assert set(found.candidates[found.candidates["separates"]]["setting"]) == {"disable_cuda_graph_padding", "NCCL_P2P_DISABLE"}
    assert found.next[0]["command"] == f"NCCL_DEBUG=INFO {PROGRAM} --tp 2"


def test_bad_input_is_named(tmp_path):
    good, bad = launch(tmp_path / "good", "--tp 1", ready=True), launch(tmp_path / "bad", "--tp 2", ready=False, hour=2)
    found = kit.attempts([good, tmp_path / "absent", bad, good], captured_at=[*when(3), None])
    assert found.launches["launch"].tolist() == ["good", "bad"]
    assert any("absent" in said for said in found.missing)
    assert "left out: good is the same launch as good" in found.missing
    with pytest.raises(UsageError):
        kit.attempts([])
    with pytest.raises(UsageError):
        kit.attempts([good, bad], captured_at=when(1))
    with pytest.raises(EvidenceError):
        kit.attempts([tmp_path / "absent"])


def test_small_samples_say_how_little_they_say(tmp_path):
    found = ledger(tmp_path, ("--a 1", True), ("--a 2", False))
    assert any("any outcomes would fit" in said for said in found.findings)


@pytest.mark.parametrize("sizes, bad, chance", [([3, 3], 3, 0.1), ([4, 4], 4, 2 / 70), ([1] * 6, 3, 1.0), ([6], 3, 0.0)])
def test_chance(sizes, bad, chance):
    assert chance_of(sizes, bad) == pytest.approx(chance)


def test_bundled_runs(opened):
    """The launch whose weights were not there differs in its load format; a stopped rank has no setting to blame."""
    names = ("healthy-tp2", "log-lost", "compile", "no-weights", "pipe-ticker", "port-taken", "stopped-rank")
    found = kit.attempts(map(opened, names))
    row = found.candidates.set_index("setting").loc["load_format"]
    assert bool(row["separates"]) and row["outcome"] == found.launches.set_index("launch").loc["no-weights", "class"]
    assert found.next[0]["setting"] == "load_format" and found.next[0]["if_not"] == ["load_format"]
    assert "--load-format auto" in found.next[0]["command"] and "--load-format dummy" not in found.next[0]["command"]
    assert any(
        "healthy-tp2 is ready and stopped-rank is not ready, though no setting is known" in said for said in found.findings
    )
    json.dumps(found.to_dict(), allow_nan=False)


SIX_RECORDED = ("dummy-1", "dummy-2", "dummy-3", "auto-1", "auto-2", "auto-3")


def test_recorded_launches_leave_two_candidates_and_name_the_launch_that_decides(test_data):
    """Two settings changed together; the command named next is the one that was launched, and leaves the planted setting."""
    folder = test_data / "attempts"
    found = kit.attempts(folder / name for name in SIX_RECORDED)
    assert found.launches["state"].tolist() == ["ended"] * 3 + ["failed"] * 3  # ready, then shut down in order
    assert found.candidates[found.candidates["separates"]]["setting"].tolist() == ["load_format", "max_model_len"]
    assert found.confounded == [["load_format", "max_model_len"]]
    assert found.candidates["chance"].dropna().tolist() == [0.1, 0.1]
    assert found.next[0]["command"] == (folder / "next-1" / "launch.sh").read_text().splitlines()[1]
    after = kit.attempts(folder / name for name in (*SIX_RECORDED, "next-1"))
    assert after.candidates[after.candidates["separates"]]["setting"].tolist() == ["load_format"]
    assert "the closest launches with another outcome, next-1 (ready) and auto-1, differ in load_format alone" in after.findings


def test_launches_that_are_all_ready_are_told_apart_by_their_time(data):
    """Five launches that compile and five that do not; what the server printed accordingly is no candidate of its own."""
    found = kit.attempts(sorted((data / "launches").iterdir()))
    assert "10 ready; told apart by their time to ready: 5 fast (22 s to 26 s) and 5 slow (40 s to 46 s)" in found.findings[0]
    assert found.candidates["setting"].tolist() == ["enforce_eager"] and bool(found.candidates["separates"][0])
    assert found.candidates["chance"][0] == pytest.approx(2 / 252)
    assert any("being slow is consistent with enforce_eager: True (5 ×) in the 5 that are fast" in one for one in found.findings)
    assert found.to_dict()["outcomes"] == ["fast", "slow"] and "fast would leave enforce_eager" in str(found)


def test_launches_of_about_the_same_time_are_not_told_apart(data):
    found = kit.attempts(sorted((data / "launches").glob("eager-*")))
    assert found.findings[0] == "5 launches: 5 ready" and not found.next
    assert any("slower by far than the others" in said for said in found.findings)


def test_a_launch_without_an_outcome_is_neither_fast_nor_slow(data):
    runs = [data / "launches" / "eager-1", data / "launches" / "compiled-1", data / "compile"]
    found = kit.attempts(runs)
    assert found.findings[0].startswith("3 launches: 2 ready, 1 undecided or not done; told apart by their time")
    assert "not counted, as the evidence does not tell how it ends: compile" in found.findings


def test_a_variable_of_the_shell_is_taken_away_in_the_command(opened):
    found = kit.attempts(map(opened, ("healthy-tp2", "pipe-ticker")))
    assert found.next[0]["setting"] == "LAB_FAULT" and found.next[0]["command"].startswith(
        "env -u LAB_FAULT /opt/venv/bin/python"
    )


def test_text_and_html(six, tmp_path):
    assert max(len(line) for line in str(six).splitlines() if not line.startswith("  $")) <= 110
    options = "--tp 2 --chat-template '<script>alert(1)</script>' --api-key hunter2"
    plain = launch(tmp_path / "plain", "--tp 1", ready=True)
    found = kit.attempts([plain, launch(tmp_path / "hostile", options, ready=False, hour=1)], captured_at=when(2))
    assert "--api-key" in found.next[0]["command"]
    html = found._repr_html_()
    assert "<script>alert" not in html and "&lt;script&gt;" in html
    assert "hunter2" not in html + str(found) + json.dumps(found.to_dict())


@pytest.mark.parametrize(
    "base, donor, name, expected",
    [
        (
            "vllm serve m -tp 8 --port 1",
            "vllm serve m --tensor-parallel-size 4",
            "tp_size",
            "vllm serve m --tensor-parallel-size 4 --port 1",
        ),
        ("vllm serve m", "vllm serve m --enforce-eager", "enforce_eager", "vllm serve m --enforce-eager"),
        ("vllm serve a --port 1", "vllm serve b", "model", "vllm serve b --port 1"),
        ("A=1 nohup vllm serve m > x.log 2>&1 &", "B=2 vllm serve m", "A", "nohup vllm serve m"),
        ("vllm serve m", "B='2 3' vllm serve m", "B", "B='2 3' vllm serve m"),
        (
            "docker run --gpus all vllm/vllm-openai:v1 --model m -tp 2",
            "docker run --gpus all vllm/vllm-openai:v1 --model m -tp 4",
            "tp_size",
            "docker run --gpus all vllm/vllm-openai:v1 --model m -tp 4",
        ),
    ],
)
def test_commands_with_one_thing_changed(base, donor, name, expected):
    assert with_option_of(command_line(base), command_line(donor), name) == expected


def test_what_no_command_names_cannot_be_changed_in_one():
    launches = [command_line(text) for text in ("vllm serve m", "vllm serve m --port 1")]
    assert with_option_of(*launches, "dtype") is None


def test_command(data, capsys):
    runs = [str(data / name) for name in ("healthy-tp2", "no-weights")]
    assert main(["ledger", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in found["launches"]] == ["ready", "failed"]
    assert main(["ledger", *runs]) == 0
    assert "next launch" in capsys.readouterr().out
    assert main(["ledger", str(data / "absent")]) == 3


def test_the_module_is_light():
    code = "import sys, kit.analyse.launches.attempts; print([n for n in ('pandas', 'numpy', 'matplotlib') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
