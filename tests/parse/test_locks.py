"""Lock files and their holders."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.parse import recognise
from kit.parse.locks import FORMATS

GIVEN = Path(__file__).resolve().parent.parent / "data" / "cases" / "given"
CHECK = """$ ls -l --time-style=full-iso /jit/lock_a
-rw-r--r-- 1 root root 0 2025-12-29 17:03:41.120000000 +0000 /jit/lock_a
$ fuser -v /jit/lock_a
$ fuser -v /jit/b.lock
                     USER        PID ACCESS COMMAND
/jit/b.lock:         op         9502 F.... python3
                     op         9503 f.... python3
$ lsof /jit/b.lock
COMMAND  PID USER   FD   TYPE DEVICE SIZE/OFF    NODE NAME
python3 9502 op      3uW  REG  254,0        0 2244835 /jit/b.lock
python3 9503 op      3u   REG  254,0        0 2244835 /jit/b.lock
$ stat /jit/c.lock
  File: /jit/c.lock
Modify: 2025-12-29 17:03:41.120000000 +0000
$ fuser /jit/d.lock
/jit/d.lock:          4100 4101e
$ ls -l /jit/gone.lock
ls: cannot access '/jit/gone.lock': No such file or directory
"""


def test_a_transcript_about_several_locks(snapshot) -> None:
    rows, report = snapshot(FORMATS, "lock_check", CHECK)
    stamp = 1767027821120000000
    assert [(row["path"], row.get("pid"), row["waits"], row["checked"], row.get("mtime")) for row in rows["locks"]] == [
        ("/jit/lock_a", None, False, True, stamp),
        ("/jit/b.lock", 9502, False, True, None),
        ("/jit/b.lock", 9503, True, True, None),
        ("/jit/c.lock", None, False, None, stamp),
        ("/jit/d.lock", 4100, False, True, None),
        ("/jit/d.lock", 4101, False, True, None),
    ]
    assert rows["locks"][0]["type"] == "baton" and len(rows["tool_errors"]) == 1 and not report.reasons
    assert recognise("out.txt", CHECK)[0] == "lock_check"


def test_an_answer_without_rights_is_no_proof(snapshot) -> None:
    rows, _ = snapshot(
        FORMATS,
        "lock_check",
        "$ fuser /jit/lock_a\nCannot stat file /proc/1/fd/0: Permission denied\n"
        "Cannot stat file /proc/1/fd/1: Permission denied\n/jit/lock_a:\n",
    )
    assert [(row.get("pid"), row["checked"]) for row in rows["locks"]] == [(None, False)] and len(rows["tool_errors"]) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "COMMAND     PID TYPE SIZE MODE  M START END PATH\nVLLM::Worke 400 FLOCK   0B WRITE 0     0   0 /c/a.lock\n",
            [(400, "VLLM::Worke", "/c/a.lock", False)],
        ),
        (
            "COMMAND   PID  TYPE SIZE MODE   M START END PATH            BLOCKER\n"
            "flock    9503 FLOCK      WRITE* 0     0   0 /c/x.lock    9502\n"
            "flock    9502 FLOCK      WRITE  0     0   0 /c/x.lock \n",
            [(9503, "flock", "/c/x.lock", True), (9502, "flock", "/c/x.lock", False)],
        ),
        (
            "PID COMMAND TYPE MODE PATH\n7 a OFDLCK READ\n-1 b OFDLCK WRITE /run...\n",
            [(7, "a", "not shown", False), (None, "b", "/run...", False)],
        ),
        (
            '{"locks": [{"command": "flock", "pid": 9, "type": "FLOCK", "size": null, "mode": "WRITE*", "path": "/c/x.lock"}]}\n',
            [(9, "flock", "/c/x.lock", True)],
        ),
    ],
)
def test_lslocks_in_many_forms(snapshot, text: str, found: list) -> None:
    rows, report = snapshot(FORMATS, "lslocks", text)
    assert [(row["pid"], row["process"], row["path"], row["waits"]) for row in rows["locks"]] == found and not report.reasons
    assert recognise("out.txt", text)[0] == "lslocks"


def test_proc_locks(snapshot) -> None:
    text = "1: FLOCK  ADVISORY  WRITE 9502 fe:00:2244835 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 9503 fe:00:2244835 0 EOF\n"
    rows, _ = snapshot(FORMATS, "proc_locks", text)
    assert [(row["pid"], row["waits"]) for row in rows["locks"]] == [(9502, False), (9503, True)]
    assert recognise("x", text)[0] == "proc_locks"


@pytest.mark.skipif(not shutil.which("lslocks"), reason="lslocks is not installed")
def test_what_lslocks_really_prints(snapshot, tmp_path: Path) -> None:
    with open(tmp_path / "real.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = subprocess.run(["lslocks"], capture_output=True, text=True, check=True).stdout
    rows, _ = snapshot(FORMATS, "lslocks", text)
    assert any(row["path"].endswith("real.lock") and row["mode"] == "WRITE" for row in rows["locks"])


def test_the_kind_is_told_by_content() -> None:
    assert recognise("x", (GIVEN / "sg10" / "lock.txt").read_text())[0] == "lock_check"
    assert recognise("x", (GIVEN / "vl08" / "lslocks.txt").read_text())[0] == "lslocks"
    blobs = "".join(f"-rw-r--r-- 1 root root 22 Feb 20 14:15 {name}\n" for name in ("a.bin", "b.bin", "c.lock"))
    assert recognise("x", blobs)[0] == "ls"
    assert recognise("x", blobs.replace(".bin", ".lock"))[0] == "lock_check"
