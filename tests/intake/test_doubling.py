"""Twice the input is twice the work, in each step of the intake: calls of functions are counted, Python's and those in C."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import loose

STATUS = "Name:\tpython3\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\n"
LINES, MOST_GROWTH, FIXED = 60, 2.2, 2_000
"""How often a form repeats itself, how much more work twice as much may be, and what is done once whatever the size."""


def record(n: int) -> str:
    return f"INFO 10-09 22:10:{n % 60:02} [core.py:{n % 977}] step {n} of the model took {n % 97} ms\n"


def letters(n: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(n))


def packed(count: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for n in range(count // 5):
            archive.writestr(f"{letters(n)}.txt", STATUS)
    return data.getvalue()


def repeated(one: Callable[[int], str], before: str = "", times: int = 1) -> Callable[[int], bytes]:
    return lambda count: (before + "".join(map(one, range(count * times)))).encode()


FORMS: dict[str, Callable[[int], bytes]] = {
    "members": packed,
    "prompts": repeated(lambda n: f"u@h:~$ cat /proc/{n}/wchan\nep_poll\n"),
    "prompts, other commands": repeated(lambda n: f"u@h:~$ cat /x/{letters(n)}\n{letters(n)}\n"),
    "prompts, nothing printed": repeated(lambda n: f"u@h:~$ fuser /x/{n}\n"),
    "fences": repeated(lambda n: f"output of `cat /proc/{n}/wchan`:\n\n```\nep_poll\n```\n\n"),
    "fences in a list": repeated(lambda n: f"- item\n  ```\n  ep_poll {n}\n  ```\n"),
    "fences in a list, never closed": repeated(lambda n: f"  ```{letters(n)}\n  ep_poll\n", times=8),
    "headings": repeated(lambda n: f"## cat /proc/{n}/wchan\n\nep_poll\n\n"),
    "headers": repeated(lambda n: f"==> /proc/{n}/wchan <==\nep_poll\n"),
    "stacks in a log": repeated(lambda n: record(n) + 'Thread 0x7f1c (most recent call first):\n  File "/a.py", line 3 in f\n'),
    "quotes": repeated(lambda n: f"he wrote:\n\n> {record(n)}\nand so on\n\n"),
    "indents": repeated(lambda n: f"output of `cat /proc/{n}/wchan`:\n\n    ep_poll\n\n"),
    "boxes": repeated(lambda n: "+------+\n" + f"| {record(n).strip()} |\n" * 3 + "+------+\n"),
    "numbers": repeated(lambda n: f"{n + 1} {record(n)}"),
    "page": repeated(lambda n: f"<h2>cat /proc/{n}/wchan</h2><pre>ep_poll</pre>\n", "<html><body>"),
    "page, tags never closed": repeated(lambda n: "<a &<", "<html><body><pre>", 10),
    "issue": lambda count: json.dumps({"title": "hang", "number": 3, "body": "".join(map(record, range(count)))}).encode(),
    "JSON lines": repeated(lambda n: json.dumps({"log": record(n), "stream": "stderr", "time": "2026-10-09T22:10:00Z"}) + "\n"),
    "JSON lines, cut": repeated(
        lambda n: json.dumps({"log": "abc", "stream": "stderr", "time": "2026-10-09T22:10:00Z"}) + "\n",
        json.dumps({"log": "abc\n", "stream": "stderr", "time": "2026-10-09T22:10:00Z"}) + "\n",
    ),
    "table": repeated(lambda n: f'2026-10-09T22:10:{n % 60:02}Z,"{record(n).strip()}"\n', "timestamp,message\n"),
    "mail": repeated(record, "From: a@b\nMIME-Version: 1.0\nContent-Type: text/plain\nSubject: hang\n\n"),
    "diff": repeated(lambda n: f"+{record(n)}", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n"),
    "recording of a terminal": repeated(lambda n: json.dumps([0.1, "o", record(n)]) + "\n", '{"version": 2, "width": 80}\n'),
    "backspaces": repeated(lambda n: "a\b", "u@h:~$ ", 10),
    "hard wraps": repeated(lambda n: f"[2026-02-18 00:28:20 TP0] {'x' * 54}\n{'y' * 40}\n"),
    "services": repeated(lambda n: f"vllm-{n % 3}  | {record(n)}"),
    "newest first": repeated(lambda n: f"2026-10-09T{23 - n // 60 % 24:02}:{59 - n % 60:02}:00 INFO a\n"),
    "speakers": repeated(lambda n: f"Ann Lee  10:{n % 60:02} AM\n{record(n)}"),
    "log twice": lambda count: "".join(map(record, range(count))).encode() * 2,
    "one line": repeated(lambda n: "INFO abc ", times=100),
}


def work(folder: Path, data: bytes) -> int:
    """Calls of functions while a text becomes captures."""
    path = folder / "seen.txt"
    path.write_bytes(data)
    count = 0

    def seen(frame, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        loose.captures(folder, [path])
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_twice_the_input_is_twice_the_work(form: str, tmp_path: Path) -> None:
    work(tmp_path, FORMS[form](2))  # what is loaded and compiled once
    once, twice = (work(tmp_path, FORMS[form](count)) for count in (LINES, 2 * LINES))
    assert twice <= MOST_GROWTH * once + FIXED
