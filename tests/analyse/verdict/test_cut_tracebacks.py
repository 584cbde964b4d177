"""The first error of a traceback that was cut, shipped or wrapped on its way: its exception line, in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.parse.base import Report, Source
from kit.parse.log import parse

TRACE = """\
Traceback (most recent call last):
  File "/app/loader.py", line 62, in load
    self.runner.load()
  File "/app/runner.py", line 12, in load
    raise ValueError(f"bad {layer}")
ValueError: bad shape in layer 7""".split("\n")
WRITER = "(VllmWorker rank=1 pid=195) ERROR 05-08 14:46:12 [multiproc_executor.py:435] "
FORMS = {
    "bare": "",
    "engine": WRITER,
    "rank": "[rank3]: ",
    "ray": "(RayWorkerWrapper pid=533, ip=10.0.0.2) ",
    "kubectl": "2026-05-08T14:46:12.123456789Z ",
    "compose": "vllm-1  | ",
    "logging": "2026-05-08 14:46:12,001 - ERROR - ",
}


def errors(lines: list[str]) -> list[str]:
    """Texts of the records that began a failure."""
    rows = [row for _, row in parse(lines, Source("server.log"), Report())]
    return [row["text"] for row in rows if row["kind"] == "error" and row["role"] == "initiating"]


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_head_was_left_out(form: str, cut: int) -> None:
    assert errors([FORMS[form] + line for line in TRACE[cut:]])[0].endswith("ValueError: bad shape in layer 7")


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_shipper_dropped_the_blanks(cut: int) -> None:
    assert errors([WRITER + line.strip() for line in TRACE[cut:]]) == ["ValueError: bad shape in layer 7"]


def test_two_writers_at_once() -> None:
    other = WRITER.replace("rank=1 pid=195", "rank=2 pid=196")
    mixed = [prefix + line for line in TRACE[2:] for prefix in (WRITER, other)]
    assert errors(mixed) == ["ValueError: bad shape in layer 7"] * 2


def test_what_follows_a_cut_traceback_is_no_part_of_it() -> None:
    after = [WRITER.replace("ERROR", "INFO") + "Waiting: for the others", WRITER + "Cannot go on"]
    assert errors([WRITER + line for line in TRACE[2:4]] + after) == ["Cannot go on"]


@pytest.mark.parametrize("text", ["    Cannot open the file", "Return code 3 of the loader", "self-test has failed"])
def test_error_that_looks_like_a_statement(text: str) -> None:
    assert errors([WRITER + text]) == [text.strip()]


def judged(folder: Path, *lines: str) -> dict:
    """Facts of a log of these lines."""
    import kit

    (folder / "server.log").write_text("\n".join(lines) + "\n")
    return kit.verdict(folder / "server.log").to_dict()["facts"]


RAY = "ray.exceptions.RayTaskError(ValueError): ray::Worker.load() (pid=9, ip=10.0.0.2)"
CASES = {
    "quoted": [f"> {line}" for line in TRACE[2:]],
    "indented": [f"    {line}" for line in TRACE],
    "ray repeats it": [*TRACE[:3], RAY, *TRACE[1:]],
    "ray repeats it twice": [RAY, *TRACE[1:3], RAY, *TRACE[3:]],
    "C++": ["terminate called after throwing an instance of 'c10::Error'", "  what():  bad shape in layer 7", "Aborted"],
    "C++ of NCCL": ["terminate called after throwing an instance of 'X'", "  what():  NCCL error: bad shape in layer 7"],
    "pydantic": [*TRACE[:3], "a.b.ValidationError: 1 validation error for ModelConfig", "  Value error, bad shape in layer 7"],
    "pydantic's field": [*TRACE[:3], "ValidationError: 2 validation errors for X", "size.0", "  bad shape in layer 7"],
    "in the next line": [*TRACE[:3], "RuntimeError: no rows of the table:", "    bad shape in layer 7"],
    "chained": [*TRACE, "", "During handling of the above exception, another exception occurred:", "", *TRACE[:3], "OSError: no"],
    "docker's JSON": [json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-05-08T14:46:12Z"}) for line in TRACE[1:]],
    "torchrun": [*(f"[rank1]: {line}" for line in TRACE), "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "],
}


@pytest.mark.parametrize("name", CASES)
def test_exception_that_is_told_elsewhere(tmp_path: Path, name: str) -> None:
    assert judged(tmp_path, *CASES[name])["first_error"].endswith("bad shape in layer 7")
