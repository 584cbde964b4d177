"""What is not of a launch, or is only told otherwise, changes no verdict: launch cases with a change of known effect."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kit
from tests.analyse.test_cases import CASES, evidence, name, right

HOW_MANY = 8
"""Cases that each change is tried on, drawn by its name."""
LONG_AGO = 1_546_398_245
"""Wednesday, 2 January 2019, 03:04:05: before any of the cases."""

OLDER = """\
[2019-01-02 03:04:05] server_args=ServerArgs(model_path='/models/m7', port=30099, tp_size=1)
[2019-01-02 03:04:25] Load weight begin. avail mem=78.60 GB
[2019-01-02 03:04:44] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.
"""
NEIGHBOUR = """\
[2019-01-02 03:04:05] server_args=ServerArgs(model_path='/models/m7', port=30099, tp_size=1)
[2019-01-02 03:04:25] Load weight begin. avail mem=78.60 GB
[2019-01-02 03:05:15] INFO:     Uvicorn running on http://127.0.0.1:30099 (Press CTRL+C to quit)
[2019-01-02 03:05:25] The server is fired up and ready to roll!
[2019-01-02 03:06:25] Decode batch. #running-req: 3, #token: 6012, token usage: 0.02, gen throughput (token/s): 187.20
"""
KERNEL = """\
[Wed Jan  2 03:04:05 2019] Out of memory: Killed process 4190313 (java) total-vm:982364524kB, anon-rss:501736448kB
[Wed Jan  2 03:04:07 2019] oom_reaper: reaped process 4190313 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
[Wed Jan  2 03:04:09 2019] NVRM: Xid (PCI:0000:e9:00): 31, pid=4190555, name=blender, Ch 0000001b, intr 00000000. MMU Fault
"""
NOTE = """\
About this folder

We first thought of CUDA OOM as in last month's incident ("torch.OutOfMemoryError: CUDA out of memory" on gpu-b7), but that was
another machine and another model. Nina had seen "Address already in use" on her box once. Files are as they were copied.
"""
FAQ = """\
# Errors that we have met so far

- `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB`: lower --mem-fraction-static.
- `OSError: [Errno 98] Address already in use`: another server holds the port, choose another one.
- `NVRM: Xid 79, GPU has fallen off the bus`: drain the node, open a ticket.
- Exit code 137 means that the pod was OOMKilled: raise the memory limit.
"""


def beside(folder: Path, file: str, text: str) -> None:
    """One more file, as old as its stamps."""
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))


def older_log(folder: Path) -> None:
    """The log of a launch that failed years ago."""
    beside(folder, "run7.log", OLDER)


def older_log_by_name(folder: Path) -> None:
    """The same in a folder whose name says so; files that were copied are all of one time."""
    beside(folder, "previous/vllm.log", OLDER)
    os.utime(folder / "previous" / "vllm.log")


def neighbour(folder: Path) -> None:
    """The log of another server that served, years ago."""
    beside(folder, "m7.log", NEIGHBOUR)


def kernel_of_others(folder: Path) -> None:
    """A kernel log of years ago, about other programs; only where the case has none of its own."""
    if not list(folder.glob("dmesg*")):
        beside(folder, "dmesg.txt", KERNEL)


def on_the_gpu(folder: Path) -> None:
    """Another user's process on a GPU."""
    listed = "pid, process_name, used_gpu_memory [MiB]\n4190444, /home/nina/bin/blender, 3172 MiB\n"
    beside(folder, "apps.csv", listed)


def note(folder: Path) -> None:
    """A note that quotes the errors of other machines."""
    beside(folder, "README.txt", NOTE)


def known_errors(folder: Path) -> None:
    """A list of known errors."""
    beside(folder, "faq.md", FAQ)


def twice(folder: Path) -> None:
    """Every snapshot a second time, the same to the byte."""
    (folder / "again").mkdir()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix != ".log":
            shutil.copy2(path, folder / "again")


def under_headings(folder: Path) -> None:
    """All files as one text, each under its name, as `tail -n +1 *` prints them."""
    files = [path for path in sorted(folder.iterdir()) if path.name != "case.json"]
    texts = [f"==> {path.name} <==\n".encode() + path.read_bytes().rstrip(b"\n") + b"\n" for path in files]
    newest = max(path.stat().st_mtime for path in files)
    for path in files:
        path.unlink()
    (folder / "all.txt").write_bytes(b"\n".join(texts))
    os.utime(folder / "all.txt", (newest, newest))


def other_order(folder: Path) -> None:
    """Names that sort the other way round."""
    files = sorted(folder.iterdir())
    for number, path in enumerate(files):
        path.rename(folder / f"{len(files) - number:02}_{path.name}")


RANK = re.compile(rb"\b(TP|DP|Worker_TP|[Rr]ank[ =:]?)(\d{1,2})\b")


def renumbered(folder: Path) -> None:
    """The ranks counted from the other end."""
    texts = {path: path.read_bytes() for path in folder.iterdir()}
    last = max((int(found[2]) for text in texts.values() for found in RANK.finditer(text)), default=0)
    for path, text in texts.items():
        path.write_bytes(RANK.sub(lambda found: found[1] + b"%d" % (last - int(found[2])), text))


CHANGES = [older_log, older_log_by_name, neighbour, kernel_of_others, on_the_gpu, note, known_errors]
CHANGES += [twice, under_headings, other_order, renumbered]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_class_stays(change: Callable[[Path], None], tmp_path: Path) -> None:
    wrong = {}
    for case in random.Random(change.__name__).sample(CASES, HOW_MANY):
        copy, want = evidence(case, tmp_path / case.name)
        change(copy)
        found = kit.verdict(copy, captured_at=want.get("captured_at"))
        if found.klass not in right(want)[0]:
            wrong[name(case)] = f"{found.klass} {found.confidence:.0%}"
        shutil.rmtree(copy)
    assert not wrong
