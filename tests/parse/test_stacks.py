"""Stack dumps of py-spy, gdb and faulthandler."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.parse import recognise
from kit.parse.base import Report, Source
from kit.parse.stacks import FORMATS, parse_dump

DATA = Path(__file__).resolve().parent.parent / "data"
TWO = (
    '=== 400 ===\nProcess 400: VLLM::Worker_TP0\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 400 (active+gil): "MainThread"\n'
    "    all_reduce (torch/distributed/distributed_c10d.py:3012)\n        Locals:\n            t: tensor (cuda.py:1)\n"
    "    c10d::wait(long) (libtorch_cuda.so)\n    <module> (vllm:8)\n=== 401 ===\nError: Permission denied (os error 13)\n"
)


def test_several_processes_native_frames_variables_and_failures(snapshot) -> None:
    rows, report = snapshot(FORMATS, "pyspy", TWO)
    assert [
        (row["pid"], row["process"], row["thread_state"], row["depth"], row["function"], row["file_line"], row["native"])
        for row in rows["stacks"]
    ] == [
        (400, "VLLM::Worker_TP0", "active+gil", 0, "all_reduce", 3012, False),
        (400, "VLLM::Worker_TP0", "active+gil", 1, "c10d::wait(long)", None, True),
        (400, "VLLM::Worker_TP0", "active+gil", 2, "<module>", 8, False),
    ]
    assert [(row["tool"], row["pid"], row["error"]) for row in rows["tool_errors"]] == [("pyspy", 401, "permission")]
    assert not report.reasons


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        ("## 11 (rank 0)\n{11}## 12 (rank 1)\n{12}", [(11, "rank 0"), (12, "rank 1")]),
        ("=== rank 0 ===\n{11}=== rank 1 ===\n{12}", [(11, "rank 0"), (12, "rank 1")]),
        ("# rank 4 (pid 77)\n{0x7f}# rank 5 (pid 78)\n{0x7e}", [(77, "rank 4"), (78, "rank 5")]),
        ("# node gpu-a1, rank 0\n{11}# rank 1\n{12}", [(11, "rank 0"), (12, "rank 1")]),
        ("It hangs. py-spy of rank 2:\nProcess 11: python t.py\n{11}", [(11, "python t.py (rank 2)")]),
        ("Rank 1:\nProcess 11: python t.py\n{11}", [(11, "python t.py (rank 1)")]),
        ("$ py-spy dump --pid 31   # rank 3\n{0x7f}$ py-spy dump --pid 32\n{0x7e}", [(31, "rank 3"), (32, None)]),
        ("{21}{22}", [(21, None), (22, None)]),  # the banners were left away
        ("$ torchrun --node-rank 1 t.py\n$ py-spy dump --pid 7\n{7}", [(7, None)]),
    ],
)
def test_whose_stack_it_is_and_of_which_rank(snapshot, text: str, processes: list) -> None:
    main = 'Thread {} (active): "MainThread"\n    f (a.py:1)\n    g (b.py:2)\n'
    text = re.sub(r"\{(\w+)\}", lambda found: main.format(found[1]), text)
    rows, _ = snapshot(FORMATS, "pyspy", text)
    assert [(row["pid"], row["process"]) for row in rows["stacks"] if row["depth"] == 0] == processes
    assert [row["function"] for row in rows["stacks"]] == ["f", "g"] * len(processes)


def test_dumps_taken_twice_are_two_moments(snapshot) -> None:
    one = 'Process 7: a\nThread 7 (idle): "MainThread"\n    wait (threading.py:359)\n    main (t.py:2)\n'
    rows, _ = snapshot(FORMATS, "pyspy", one + "\n" + one.replace("359", "361"))
    assert [(row["moment"], row["file_line"]) for row in rows["stacks"]] == [(0, 359), (0, 2), (1, 361), (1, 2)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("bash: py-spy: command not found\n", "not_found"),
        ("Error: Failed to copy Py_Version symbol\n", "version"),
        ("$ py-spy dump --pid 7\nError: No such process (os error 3)\n", "no_process"),
        ("$ py-spy dump --pid 7\nOperation not permitted\n", "permission"),
        ("$ py-spy dump --pid 7\nTimed out\n", "timeout"),
    ],
)
def test_a_file_that_holds_only_a_failure(snapshot, text: str, error: str) -> None:
    rows, _ = snapshot(FORMATS, "pyspy", text)
    assert [row["error"] for row in rows["tool_errors"]] == [error] and "stacks" not in rows
    assert recognise("out.txt", text)[0] == "pyspy"


def test_json_that_is_cut_gives_the_whole_threads(snapshot) -> None:
    thread = {
        "pid": 7,
        "thread_id": 1,
        "thread_name": "MainThread",
        "os_thread_id": 7,
        "active": False,
        "owns_gil": True,
        "frames": [{"name": "f", "filename": "/a/x.py", "short_filename": "a/x.py", "line": 3}],
    }
    text = json.dumps([thread, thread | {"os_thread_id": 8, "thread_name": "w"}, thread], indent=2)
    rows, _ = snapshot(FORMATS, "pyspy_json", text[:-200])
    assert [(row["tid"], row["thread_state"], row["file"]) for row in rows["stacks"]] == [
        (7, "idle+gil", "a/x.py"),
        (8, "idle+gil", "a/x.py"),
    ]
    assert recognise("x", text)[0] == "pyspy_json"


def test_top_with_colours_and_screens(snapshot) -> None:
    screen = (
        "\x1b[H\r\x1b[2KCollecting samples from '\x1b[32mpython t.py\x1b[0m' (python v3.11.7)\r\n\r\x1b[2K\x1b[7m  %Own  \x1b[0m"
        " %Total"
        "  OwnTime  TotalTime  Function (filename)\r\n\r\x1b[2K 37.00%  41.00%   0.650s    0.780s   main (t.py:7)\r\n"
    )
    rows, report = snapshot(FORMATS, "pyspy_top", screen + screen)
    assert [(row["function"], row["file_line"], row["share_percent"], row["moment"]) for row in rows["stacks"]] == [
        ("main", 7, 41.0, 0),
        ("main", 7, 41.0, 1),
    ]
    assert not report.reasons


def test_gdb_threads(snapshot) -> None:
    text = (DATA / "stacks" / "gdb.txt").read_text()
    rows, report = snapshot(FORMATS, "gdb", text)
    assert [(row["pid"], row["tid"], row["thread"], row["depth"], row["function"]) for row in rows["stacks"]] == [
        (4160, 4177, "pt_nccl_watchdg", 0, "futex_wait"),
        (4160, 4177, "pt_nccl_watchdg", 1, "start_thread"),
        (4160, 4160, "python", 0, "cuStreamSynchronize"),
    ]
    assert recognise("x", text)[0] == "gdb" and not report.reasons


def test_what_faulthandler_really_prints(snapshot, tmp_path: Path) -> None:
    script = tmp_path / "dump.py"
    script.write_text("import faulthandler\ndef inner():\n    faulthandler.dump_traceback()\ninner()\n")
    text = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stderr
    rows, report = snapshot(FORMATS, "faulthandler", text, pid=7)
    assert [(row["pid"], row["thread"], row["function"], row["file_line"]) for row in rows["stacks"]] == [
        (7, "MainThread", "inner", 3),
        (7, "MainThread", "<module>", 4),
    ]
    assert recognise("x", text)[0] == "faulthandler" and not report.reasons


def test_a_dump_out_of_a_log_finds_its_form() -> None:
    rows = list(
        parse_dump(["Thread 0x00007f0d4561ab80 (most recent call first):", '  File "a.py", line 4 in f'], Source("l"), Report())
    )
    assert [(row["tool"], row["function"]) for _, row in rows] == [("faulthandler", "f")]


@pytest.mark.parametrize(
    "text", ["[2026-01-01 00:00:00] INFO start\nloading (a.py:3)\n", "#12 [3/4] RUN pip install x\n#12 DONE 0.1s\n", ""]
)
def test_other_text_is_no_stack(text: str) -> None:
    assert max(entry.looks_like(text) for entry in FORMATS) < 0.35


def test_refusal_as_py_spy_words_it_is_told_by_its_content_alone():
    text = "Error: Permission denied\nTry running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n"
    assert recognise("x.txt", text) == ("pyspy", None)
