"""The sampler's lines: real ones, cut ones, and what changes between samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kit.capture import sampler_program
from kit.frames import FRAMES
from kit.parse.base import Report, Source
from kit.parse.sampler import FORMATS, looks_like, parse

HEAD = '{"k":"head","format":"stallkit-sampler","version":1,"wall_ns":5,"hz":100,"machine":"x86_64","roots":[7]}'


def read(lines: list[str]) -> tuple[list[tuple[str, dict]], Report]:
    report = Report()
    rows = list(parse(lines, Source("raw/sampler.jsonl"), report))
    for frame, row in rows:
        FRAMES[frame].check({**row, "capture": "raw/sampler.jsonl"})
    assert report.lines == len(lines)
    return rows, report


def of(rows: list[tuple[str, dict]], frame: str) -> list[dict]:
    return [row for name, row in rows if name == frame]


def sample(n: int, threads: list, whole: bool, ended: list | None = None) -> list[str]:
    entry = {"k": "threads", "n": n, "pid": 7, "all": whole, "rows": threads}
    if ended:
        entry["ended"] = ended
    return [
        json.dumps({"k": "sample", "n": n, "wall_ns": 1000 * n}),
        json.dumps(
            {
                "k": "proc",
                "n": n,
                "pid": 7,
                "state": "S",
                "comm": "python",
                "utime": 100 + n,
                "stime": 2,
                "status": {"Uid": "0 0 0 0"},
            }
        ),
        json.dumps(entry),
        json.dumps({"k": "done", "n": n, "took_s": 0.1}),
    ]


def thread(tid: int, utime: int = 0, call: str | None = "202") -> list:
    return [tid, "S", utime, 0, 1, "futex_do_wait", call, "0x1 0x2", "python", 900, 10, 3]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sampler reads /proc")
def test_rows_of_a_real_sampler_fit_the_frames():
    options = json.dumps({"roots": [os.getpid()], "samples": 10_000, "interval_s": 0.05})
    with subprocess.Popen(
        [sys.executable, "-S", "-I", "-", options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as sampler:
        sampler.stdin.write(sampler_program())
        sampler.stdin.close()
        printed = []
        while sum(line.startswith('{"k":"done"') for line in printed) < 2:  # of samples: a busy machine leaves some out
            printed.append(sampler.stdout.readline())
            assert printed[-1], "it ended before"
        sampler.terminate()
        printed += sampler.stdout.readlines()
    assert looks_like("".join(printed)) == 1.0 and FORMATS[0].named("raw/sampler.jsonl")
    rows, report = read("".join(printed).splitlines())
    assert not report.reasons and report.facts["samples_read"] >= 2
    own = [row for row in of(rows, "processes") if row["pid"] == os.getpid()]
    first, second = own[:2]
    assert first["moment"] == 0 < second["moment"] and first["rss_bytes"] > 1 << 20 and first["time"] < second["time"]
    assert first["cmdline"] == second["cmdline"] and len(of(rows, "commands")) == 1
    assert {row["tid"] for row in of(rows, "threads") if row["moment"] == second["moment"]} >= {os.getpid()}
    assert {row["fd"] for row in of(rows, "fds") if row["pid"] == os.getpid()} >= {0, 1, 2}
    assert {"total", "available", "used"} <= {row["name"] for row in of(rows, "host_memory")}
    assert {"loadavg"} <= {row["source"] for row in of(rows, "counters")}


def test_threads_that_did_not_change_are_carried_forward_and_ended_ones_are_not():
    lines = [
        HEAD,
        *sample(0, [thread(7), thread(8), thread(9)], True),
        *sample(1, [thread(8, 50, "1")], False, [9]),
        *sample(2, [thread(7), thread(10)], True),
    ]
    rows, report = read(lines)
    seen = {
        n: {row["tid"]: (row["syscall"], row["utime_s"], row["line"]) for row in of(rows, "threads") if row["moment"] == n}
        for n in range(3)
    }
    assert seen[0] == {7: ("futex", 0.0, 4), 8: ("futex", 0.0, 4), 9: ("futex", 0.0, 4)}
    assert seen[1] == {7: ("futex", 0.0, 4), 8: ("write", 0.5, 8)}
    assert set(seen[2]) == {7, 10} and not report.reasons


def test_cut_sample_gives_its_processes_and_says_so():
    lines = [HEAD, *sample(0, [thread(7)], True), *sample(1, [thread(7, 5)], False)[:-1]]
    for cut in (lines, [*lines, '{"k":"done","n'], lines[:-1]):
        rows, report = read(cut)
        assert report.facts["cut"] and "the last sample is cut" in report.reasons
        assert {row["moment"] for row in of(rows, "threads")} == {0} and len(of(rows, "processes")) == 2


def test_odd_lines_are_counted_and_the_rest_is_read():
    lines = [
        HEAD,
        "Traceback (most recent call last):",
        '{"k":"news"}',
        "[1,2]",
        "",
        *sample(0, [thread(7)], True),
        '{"k":"threads","n":0}',
        '{"k":"threads","n":0,"pid":7,"rows":[[7,"S",1,1,0,"x",null,null,"python3",1,1,1,1]]}',
        *sample(1, [], False),
    ]
    rows, report = read(lines)
    assert report.reasons == {"line that is not a sampler record": 5} and len(of(rows, "threads")) == 2


def test_vanished_process_refused_files_and_unknown_values():
    lines = [
        HEAD,
        *sample(0, [thread(7)], True),
        '{"k":"sample","n":1,"wall_ns":9}',
        '{"k":"gone","n":1,"pid":7,"comm":"python","was":"S"}',
        '{"k":"proc","n":1,"pid":8,"state":"?","utime":0,"stime":0,"wchan":null,"denied":["io"]}',
        '{"k":"fds","n":1,"pid":8,"rows":[[1,"w","/x/a.log (deleted)"],[2,"rw","pipe:[5]"]]}',
        '{"k":"host","n":1,"memory":{"MemTotal":9},"load":[],"pressure":{},"cgroup":{"memory.max":"max","memory.events":{"oom_kill":"2"}}}',
        '{"k":"done","n":1}',
        '{"k":"end","n":2,"why":"stopped"}',
    ]
    rows, report = read(lines)
    assert of(rows, "processes")[1]["state"] == "X" and of(rows, "processes")[2]["state"] is None
    assert [(row["target"], row["deleted"]) for row in of(rows, "fds")] == [("/x/a.log", True), ("pipe:[5]", False)]
    assert {row["name"]: row["value"] for row in of(rows, "counters")} == {"memory.max": float("inf"), "oom_kill": 2.0}
    assert [(row["pid"], row["error"]) for row in of(rows, "tool_errors")] == [(8, "permission")]
    assert report.facts["denied"] == ["io"] and report.facts["end"] == "stopped"


HEAD_2 = HEAD.replace('"version":1', '"version":2')
FULL = {
    "all": True,
    "state": "S",
    "comm": "python",
    "utime": 5,
    "stime": 1,
    "rss": 4096,
    "status": {"Uid": "0", "RssAnon": 10},
    "io": {"rchar": 3},
}


def changes(n: int, *entries: dict, done: bool = True) -> list[str]:
    lines = [{"k": "sample", "n": n, "wall_ns": 1000 * n}, *({"n": n, "pid": 7, **entry} for entry in entries)]
    return [json.dumps(line) for line in [*lines, *([{"k": "done", "n": n}] if done else [])]]


def test_processes_host_and_descriptors_are_carried_forward():
    memory = {"MemTotal": 100, "MemAvailable": 60}
    lines = [
        HEAD_2,
        *changes(
            0,
            {"k": "proc", **FULL},
            {"k": "host", "all": True, "memory": memory, "load": [1.0]},
            {"k": "fds", "all": True, "rows": [[0, "r", "/dev/null"]]},
        ),
        *changes(
            1,
            {"k": "proc", "utime": 9, "status": {"RssAnon": 20}},
            {"k": "host", "memory": {"MemAvailable": 50}},
            {"k": "fds", "same": True},
        ),
        *changes(2, {"k": "proc", "all": True, "state": "Z", "comm": "python", "utime": 9, "stime": 1, "status": {"Uid": "0"}}),
    ]
    rows, report = read(lines)
    seen = [(row["cpu_s"], row["rss_bytes"], row["rss_anon_bytes"], row["line"]) for row in of(rows, "processes")]
    assert seen == [(0.06, 4096, 10, 3), (0.1, 4096, 20, 8), (0.1, None, None, 13)] and not report.reasons
    assert [row["value_bytes"] for row in of(rows, "host_memory") if row["name"] == "used"] == [40, 50]
    assert [(row["moment"], row["target"]) for row in of(rows, "fds")] == [(0, "/dev/null"), (1, "/dev/null")]
    assert [row["rchar_bytes"] for row in of(rows, "io")] == [3, 3]


def test_nothing_is_carried_over_a_cut_or_a_new_head():
    whole = changes(0, {"k": "proc", **FULL}, {"k": "threads", "all": True, "rows": [thread(7), thread(8)]})
    cut = changes(1, {"k": "proc", "utime": 9}, {"k": "threads", "all": False, "rows": [thread(8, 50)]}, done=False)
    after = changes(3, {"k": "proc", "utime": 10}, {"k": "threads", "all": False, "rows": [thread(8, 60)]})
    for between in ([], ['{"k":"sample","n":2,"wa'], [HEAD_2]):
        rows, report = read([HEAD_2, *whole, *cut, *between, *after])
        assert {(row["moment"], row["tid"]) for row in of(rows, "threads")} == {(0, 7), (0, 8), (3, 8)}
        assert [row["moment"] for row in of(rows, "processes")] == [0, 1] and "sample without its end" in report.reasons
        assert "changes of a process whose first line is missing" in report.reasons
    rows, report = read([HEAD_2, *whole, HEAD_2, *changes(3, {"k": "proc", **FULL})])
    assert [row["moment"] for row in of(rows, "processes")] == [0, 3] and not report.reasons


def test_stacks_programs_and_what_was_left_out():
    text = "[<0>] rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]\n[<0>] nfs_wb_page+0x12/0x90 [nfs]"
    dmesg = "[  100.5] NVRM: Xid (PCI:0000:1B:00): 79, pid=7, GPU has fallen off the bus."
    rows, report = read(
        [
            HEAD_2,
            *changes(
                4,
                {"k": "stack", "tid": 9, "text": text},
                {"k": "tool", "tool": "dmesg", "text": dmesg, "code": 0},
                {"k": "tool", "tool": "nvidia-smi", "text": "", "hung": True, "took_s": 5.0},
                {"k": "hung", "what": "disk /mnt/models"},
                {"k": "left_out", "processes": 3},
            ),
        ]
    )
    assert [(row["tid"], row["depth"], row["function"], row["moment"]) for row in of(rows, "stacks")] == [
        (9, 0, "rpc_wait_bit_killable", 4),
        (9, 1, "nfs_wb_page", 4),
    ]
    assert [row["xid"] for row in of(rows, "kernel_log")] == [79] and not report.reasons
    assert [(row["tool"], row["error"]) for row in of(rows, "tool_errors")] == [
        ("nvidia-smi", "timeout"),
        ("sampler", "timeout"),
        ("sampler", "other"),
    ]


def test_empty_and_foreign_files():
    assert read([]) == ([], Report()) and looks_like("INFO hello") == 0.0 and looks_like("") == 0.0
