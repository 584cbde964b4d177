"""The table of tools: one row and one parser module are all that a new kind of evidence takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.scene import scene_of
from kit.analyse.verdict.verdict import weigh
from kit.capture.collect import collect
from kit.errors import UsageError
from kit.tool_table import step_command, steps, table

NOW_NS = 1_771_380_712 * 10**9
PARSER = """
from kit.parse.base import Format


def parse_acme(lines, source, report):
    for number, line in enumerate(lines, 1):
        if line.startswith("ACME "):
            _, gpu, use, watts = line.split()
            yield "gpus", {"gpu": int(gpu), "util_percent": float(use), "power_w": float(watts), "line": number}


FORMATS = (Format("acme_smi", r"acme", lambda head: 0.9 if head.startswith("ACME ") else 0.0, parse_acme, ("gpus",)),)
"""
ROW = """
[[tool]]
name = "acme_smi"
module = "acme"
what = "ACME accelerators"
command = ["acme-smi", "--all"]
look = ["begin", "end"]
sample = true
cost_s = 0.01
why = "whether the accelerators work"
signs = ["gpu_idle", "gpu_working"]
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool that the kit has never heard of: a program, a parser module, a row."""
    import kit.parse

    for name in ("bin", "parsers", "mine", "evidence"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "acme-smi").write_text("#!/bin/sh\necho ACME 0 99 310\necho ACME 1 3 80\n")
    (tmp_path / "bin" / "acme-smi").chmod(0o755)
    (tmp_path / "parsers" / "acme.py").write_text(textwrap.dedent(PARSER))
    (tmp_path / "mine" / "tools.toml").write_text(ROW)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KIT_KNOWLEDGE", str(tmp_path / "mine"))
    monkeypatch.setattr(kit.parse, "__path__", [*kit.parse.__path__, str(tmp_path / "parsers")])
    kit.parse.formats.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    sys.modules.pop("kit.parse.acme", None)
    kit.parse.formats.cache_clear()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc")
def test_one_module_and_one_row_are_a_new_kind_of_evidence(acme: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for duration_s in (0.5, 2, 8, 32):  # a busy machine leaves samples out: a longer recording has some
            run = kit.open_run(collect(pid=sleeper.pid, duration_s=duration_s, interval_s=0.5, out=acme / f"run-{duration_s}"))
            rows = [(row["capture"], row["gpu"], row["util_percent"]) for row in run.rows("gpus")]
            if any(capture == "raw/sampler.jsonl" for capture, *_ in rows):
                break
    finally:
        sleeper.kill()
        sleeper.wait()
    assert {("raw/acme-smi.t0.txt", 0, 99.0), ("raw/acme-smi.t1.txt", 1, 3.0)} <= set(rows), "looked at"
    assert ("raw/sampler.jsonl", 0, 99.0) in rows, "sampled"
    (acme / "evidence" / "pasted.txt").write_text("ACME 7 50 200\n")
    assert [row["gpu"] for row in kit.open_run(acme / "evidence").rows("gpus")] == [7], "recognised"
    step = next(step for step in steps() if step["name"] == "ACME accelerators")
    assert step_command(step, step["tools"][0]) == "acme-smi --all > acme-smi.txt" and step["signs"] == [
        "gpu_idle",
        "gpu_working",
    ]


def test_the_new_tool_is_recommended(acme: Path) -> None:
    (acme / "evidence" / "server.log").write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    (acme / "evidence" / "dmesg.txt").write_text("[Wed Feb 18 00:28:20 2026] usb 1-1: new device\n")
    assert "acme-smi --all > acme-smi.txt" in commands_of_next(acme / "evidence", "2026-02-18 01:28:26")


def commands_of_next(folder: Path, captured_at: str | None = None) -> list[str]:
    """All steps that a verdict could name next."""
    return [step["command"] for step in weigh(scene_of(gather(kit.open_run(folder, captured_at=captured_at))), 50).next]


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        ("HIP_VISIBLE_DEVICES", "amd-smi monitor > amd-smi.txt"),
        ("ASCEND_RT_VISIBLE_DEVICES", "npu-smi info > npu-smi.txt"),
        ("CUDA_VISIBLE_DEVICES", "nvidia-smi --query-gpu"),
    ],
)
def test_next_names_the_tool_of_the_accelerator(tmp_path: Path, variable: str, command: str) -> None:
    (tmp_path / "server.log").write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    lines = [
        {
            "k": "head",
            "format": "stallkit-sampler",
            "version": 2,
            "wall_ns": 1_771_380_712 * 10**9,
            "mono_ns": 5,
            "hz": 100,
            "page": 4096,
        },
        {"k": "sample", "n": 0, "wall_ns": NOW_NS, "mono_ns": 5},
        {"k": "env", "n": 0, "pid": 7, "root": True, "vars": {variable: "0", "NCCL_DEBUG": "INFO"}},
        {"k": "done", "n": 0, "took_s": 0.1, "cpu_s": 0.1},
    ]
    (tmp_path / "sampler.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [given for given in commands_of_next(tmp_path) if "-smi" in given and "topo" not in given]
    assert [given.startswith(command) for given in found] == [True]


def test_a_mistake_names_file_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text('[[tool]]\nname = "a"\nwhat = "b"\ncomand = ["a"]\n')
    with pytest.raises(UsageError, match=r"tools.toml, line 4, key 'comand'.*did you mean 'command'"):
        table((tmp_path,))


def test_a_step_with_a_command_of_its_own_is_taken_by_its_tool_on_a_live_launch() -> None:
    """The kernel log around the end of a launch: a person is given the times, `kit triage` takes the whole log."""
    (around,) = (step for step in steps() if step["name"] == "kernel log around the end")
    typed = step_command(around, around["tools"][0], since="12:00", until="12:20")
    assert typed.startswith("journalctl -k --no-pager --since '12:00' --until '12:20'")
    assert [row.name for row in around["tools"]] == ["kernel"]
