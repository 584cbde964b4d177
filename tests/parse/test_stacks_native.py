"""gdb and its like: threads, frames, the process they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.parse.base import Format
from kit.parse.stacks_native import frame_of, looks_like_gdb, parse_gdb

GDB = (Format("gdb", "gdb", looks_like_gdb, parse_gdb, frames=("stacks", "tool_errors")),)
SAMPLE = (Path(__file__).resolve().parent.parent / "data" / "stacks" / "gdb-two-threads.txt").read_text()


def test_recorded_dump_of_a_deadlock(snapshot):
    rows, report = snapshot(GDB, "gdb", SAMPLE)
    frames = rows["stacks"]
    assert {row["pid"] for row in frames} == {10028}
    assert [(row["tid"], row["thread"]) for row in frames if row["depth"] == 0] == [(10030, "io worker 1"), (10028, "m")]
    assert [(row["function"], row["file"], row["file_line"]) for row in frames if row["file"] == "m.c"] == [
        ("inner", "m.c", 5), ("worker", "m.c", 6), ("main", "m.c", 7)]  # fmt: skip
    assert report.reasons == {}
    assert looks_like_gdb(SAMPLE) > 0.9


def test_two_processes_one_after_the_other(snapshot):
    one = (
        "\nThread 1 (Thread 0x7f (LWP {0})):\n#0  0x00007f in poll () from /lib/libc.so.6\n[Inferior 1 (process {0}) detached]\n"
    )
    rows, _ = snapshot(GDB, "gdb", one.format(400) + one.format(401))
    assert [row["pid"] for row in rows["stacks"]] == [400, 401]


def test_pstack_of_one_thread_takes_the_pid_of_the_command(snapshot):
    rows, _ = snapshot(GDB, "gdb", "$ pstack 77\n#0  0x00007f in read () from /lib/libc.so.6\n#1  0x000055 in main ()\n")
    assert [(row["pid"], row["tid"], row["depth"], row["function"]) for row in rows["stacks"]] == [
        (77, 77, 0, "read"), (77, 77, 1, "main")]  # fmt: skip


def test_frame_broken_over_two_lines(snapshot):
    rows, _ = snapshot(
        GDB, "gdb", "Thread 1 (LWP 5):\n#0  0x00007f in futex_wait (private=0,\n    word=0x7f) at ../futex-internal.h:146\n"
    )
    assert [(row["function"], row["file"], row["file_line"]) for row in rows["stacks"]] == [
        ("futex_wait", "../futex-internal.h", 146)]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "function", "file"),
    [
        ("0x00007f in c10d::ProcessGroupNCCL::ncclCommWatchdog() () from /usr/lib/libtorch_cuda.so",
         "c10d::ProcessGroupNCCL::ncclCommWatchdog()", "/usr/lib/libtorch_cuda.so"),
        ("0x00007f in ?? () from /lib/libcuda.so.1", "??", "/lib/libcuda.so.1"),
        ("<signal handler called>", "<signal handler called>", None),
        ("std::function<void (int)>::operator()(int) const (this=0x7f) at functional:590",
         "std::function<void (int)>::operator()(int) const", "functional"),
        ("0x00007f8d1a3f1d2e __poll - /usr/lib/libc.so.6", "__poll", "/usr/lib/libc.so.6"),
    ],
)  # fmt: skip
def test_frame(text, function, file):
    assert (frame_of(text)["function"], frame_of(text)["file"]) == (function, file)


def test_no_permission(snapshot):
    rows, _ = snapshot(GDB, "gdb", "$ gdb -p 12 -batch -ex bt\nptrace: Operation not permitted.\nNo stack.\n")
    assert [(row["tool"], row["pid"], row["error"]) for row in rows["tool_errors"]] == [("gdb", 12, "permission")]


def test_other_texts_are_no_backtrace():
    assert looks_like_gdb("# a comment\n#1 apples\n#2 pears\n") == 0.0
    assert looks_like_gdb('Thread 88 (idle): "MainThread"\n    wait (threading.py:359)\n') == 0.0
