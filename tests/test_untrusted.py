"""Evidence that is hostile or broken: each kind is read as far as it goes, or refused in a sentence, in bounded memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kit
from kit.errors import KitError
from kit.frames import FRAMES
from kit.moment import capture_end
from kit.reading import FAILED
from kit.untrusted import MOST_DEPTH, MOST_RANKS, load_json, ranks_in
from tools import hostile

STAMP = "[2026-02-18 00:28:26 TP{}] Load weight begin. avail mem=93.42 GB\n"
ARGS = "[2026-02-18 00:28:20] server_args=ServerArgs(model_path='/m', tp_size={}, port={})\n"
NINES = "9" * 5000
DEEP = "[" * 100_000
SAMPLER = '{"k":"head","format":"stallkit-sampler","version":1,"hz":100,"roots":[7],"wall_ns":1000}\n'


def opened(path: Path) -> dict:
    """All that a user opens: a verdict in every form, and every frame."""
    judged, run = kit.verdict(path), kit.open_run(path)
    assert str(judged).encode() and judged.to_markdown().encode() and judged._repr_html_().encode()
    for name in FRAMES:
        run.frame(name)
    kit.phase_table(run)
    return json.loads(json.dumps(judged.to_dict(), allow_nan=False))


LOGS = {
    "a world of 10^12 ranks": ARGS.format(999_999_999_999, 1) + STAMP.format(0) + STAMP.format(1),
    "5000 digits": STAMP.format(NINES) + ARGS.format(NINES, NINES),
    "5000 digits in other prefixes": f"(Worker_TP0 pid={NINES}) INFO Load\n[Rank {NINES}] Load\n" * 2,
    "5000 digits of another script": STAMP.format("٣" * 5000),
    "a power of two": STAMP.format(0) + ARGS.format("²", "²"),
    "an hour of 5000 digits in a bar": f"Loading shards:  42% Completed | 36/85 [{NINES}:07<24:40, 30.21s/it]\n" * 3,
    "the year 9999": "[9999-12-31 23:59:59 TP0] Load weight begin. avail mem=93.42 GB\n" + STAMP.format(1),
    "JSON of a log, deep": '{"message": ' + DEEP + "\n" + STAMP.format(0),
    "half a surrogate pair": '{"log": "\\ud800 Load weight begin. avail mem=93.42 GB\\n", "time": "2026-02-18T00:28:26Z"}\n' * 4,
}


@pytest.mark.parametrize("text", LOGS.values(), ids=LOGS)
def test_a_hostile_log_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.log").write_text(text + STAMP.format(2))
    assert opened(tmp_path)["state"]
    assert not any(reason.startswith(FAILED) for reason in kit.open_run(tmp_path).notes["reason"])


def test_a_number_that_was_cut_is_said(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(STAMP.format(0) + f"took {NINES} s\n")
    assert "number of more than 256 digits, its rest was not read" in kit.open_run(tmp_path).notes["reason"].tolist()


FILES = {
    "dmesg.txt": "[99999999999999999999.1] Out of memory: Killed process 7 (python)\n[12.1] usb 1-1: new device\n" * 3,
    "pyspy.txt": 'Process 7: python\nPython v3.11.7 (/usr/bin/python)\n\nThread 7 (idle): "MainThread"\n    run (a.py:²)\n',
    "strace.txt": '7  99999999999999999999999.018896 read(3, "", 64) = 99999999999999999999999 <0.1>\n' * 3,
    "sampler.jsonl": SAMPLER
    + DEEP
    + '\n{"k":"sample","n":1e999,"wall_ns":NaN}\n{"k":"proc","pid":1e400,"utime":1e308,"stime":1e308}\n',
    "r.json": '{"num_prompts": 3, "mean_ttft_ms": 1e400, "p99_ttft_ms": ' + "9" * 4000 + ', "request_throughput": -Infinity}',
    "deep.json": DEEP,
    "half.json": json.dumps({"a": 1})[:-1] + ',"b":' + "[" * 900 + "]" * 900 + "}",
    "table.csv": 'name,mean_ttft_ms\n"' + "a" * 200_000 + '",7\nb\r,3\n',
    "desync.txt": " - [0-99999999999] finished collective #180, but didn't join collective #181 (count from 1)\n" * 3,
}


def test_hostile_files_are_read_or_refused(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert opened(tmp_path)["state"]
    assert not any(reason.startswith(FAILED) for reason in kit.open_run(tmp_path).notes["reason"])


@pytest.mark.parametrize("name", ["r.json", "deep.json", "half.json", "table.csv"])
def test_a_hostile_benchmark_is_read_or_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    try:
        assert len(kit.benchmarks(tmp_path).runs)
    except KitError as error:
        assert error.do


NO_TEXT: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "NUL bytes": lambda path: path.write_bytes(b"\0" * 100_000),
    "a gzip that is cut": lambda path: path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xff"),
    "a zip that is cut": lambda path: path.write_bytes(b"PK\x03\x04" + b"\xff" * 400),
    "a tar with a bad size": lambda path: path.write_bytes(b"a\0" * 62 + b"\xff" * 133 + b"ustar" + b"\xff" * 250),
    "a pickle that calls": lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n(S'id'\ntR."),
    "a folder": lambda path: path.mkdir(),
}


def test_what_is_no_text_is_noted(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(STAMP.format(0))
    for number, make in enumerate(NO_TEXT.values()):
        make(tmp_path / f"nccl_trace_rank_{number}")
    assert opened(tmp_path)["state"]


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "server\udcff.log").write_text(STAMP.format(0))
    assert opened(tmp_path)["facts"]
    assert kit.open_run(tmp_path).log["capture"].tolist() == ["server\ufffd.log"]


def test_time_stamps_of_files_out_of_range(tmp_path: Path) -> None:
    import os

    (tmp_path / "server.log").write_text(STAMP.format(0))
    os.utime(tmp_path / "server.log", (-9e9, -9e9))
    assert opened(tmp_path)["state"]


def test_lists_of_ranks_are_bounded() -> None:
    assert ranks_in("{0, 1}, 3-5") == [0, 1, 3, 4, 5]
    assert len(ranks_in("0-99999999, 7-99999999")) == MOST_RANKS
    assert MOST_DEPTH < 1000


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * 200 + "]" * 200, False),
        ("[" * 201 + "]" * 201, True),
        ('{"a":' * 150 + "[" * 60 + "]" * 60 + "}" * 150, True),
        ('["]", ' * 300 + "1" + "]" * 300, True),
        ('["\\"]", ' * 300 + "1" + "]" * 300, True),
        ("[" + ", ".join(['"[[{\\"["', "[[1]]"] * 300) + "]", False),
        ("[" + "[1], " * 10_000 + "2]", False),
    ],
)
def test_json_is_as_deep_as_its_brackets_outside_of_strings(text: str, deep: bool) -> None:
    try:
        assert load_json(text) == json.loads(text) and not deep
    except ValueError as error:
        assert deep and "nested more than 200 deep" in str(error)


def test_a_text_that_begins_as_a_compose_file_and_is_none(tmp_path: Path) -> None:
    """A pattern went back and forth over its lines, each twice as long as the one before: 40 took years."""
    (tmp_path / "server.log").write_text(STAMP.format(0))
    (tmp_path / "notes.txt").write_text("x-a:\n" + " x-b:\n" * 60)
    assert opened(tmp_path)["state"]
    (tmp_path / "compose.txt").write_text("x-a:\n  b: 1\n\nversion: 3\nservices:\n  vllm:\n    image: x\n")
    assert "is a compose file, no evidence of a launch" in kit.open_run(tmp_path).notes["reason"].tolist()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names that are no UTF-8, and what links to /proc")
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_a_hostile_folder_opens_or_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `tools/hostile.py` makes large: archives, links, pickles, control characters, nests, fences and all else."""
    monkeypatch.setattr(hostile, "SCALE", 0.0005)
    (tmp_path / "server.log").write_text(STAMP.format(0))
    hostile.KINDS[kind](tmp_path)
    try:
        judged = kit.verdict(tmp_path)
    except KitError as error:
        assert error.do
    else:
        assert json.dumps(judged.to_dict(), allow_nan=False) and str(judged).encode()


def test_the_end_of_a_log_beside_a_look_has_no_number_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(f"[2026-02-18 01:00:00 TP{NINES}] Load\n")
    (tmp_path / "ps.txt").write_text("  PID STAT COMMAND\n 3310 Sl   python -m sglang.launch_server --tp 2\n")
    run = kit.open_run(tmp_path)
    assert not [line for capture in run.captures for line in capture_end(capture) if "9" * 300 in line]
