"""Recordings of sysstat and atop: units, sums, midnight, names with parentheses, samples that lack a section."""

from __future__ import annotations

import json

import pytest

from kit.parse import formats, recognise
from kit.parse.base import Report, Source
from kit.schema import Row

BANNER = "Linux 6.8.0 (host) \t11/30/26 \t_x86_64_\t(2 CPU)"
UTC = "2026-11-29T22:28:11"


def read(kind: str, text: str, **about) -> list[tuple[str, Row]]:
    assert recognise("capture.txt", text)[0] == kind
    return list(formats()[kind].parse(text.splitlines(), Source("capture.txt", **about), Report()))


def seconds(row: Row) -> float:
    return row["time"] / 1e9


def test_sar_counts_days_past_midnight_and_again_in_each_block() -> None:
    block = ["11:59:59 PM  kbmemfree", "12:00:00 AM  8", "12:00:01 AM  16", "Average:  12"]
    late = ["11:59:50 PM  runq-sz  ldavg-1", "11:59:59 PM  1  0.50", "12:00:01 AM  2  0.75", "Average:  2  0.6"]
    rows = read("sar", "\n".join([BANNER, "", *late, "", *block]))
    load = [(seconds(row), row["value"], row["moment"]) for _, row in rows if row["name"] == "load1"]
    assert [value for _, value, _ in load] == [0.5, 0.75]
    assert load[1][0] - load[0][0] == 2
    free = [(seconds(row), row["value_bytes"]) for frame, row in rows if frame == "host_memory"]
    assert [value for _, value in free] == [8192, 16384]
    assert free[1][0] == load[1][0]  # the same second in both blocks


def test_sar_labels_what_a_line_is_about() -> None:
    text = "\n".join(
        [BANNER, "", "10:00:00 IFACE rxkB/s", "10:00:01 eth0 3.5", "", "10:00:00 %scpu-10 %fmem-60", "10:00:01 7.5 1.0"]
    )
    found = {(row["source"], row["name"], row["labels"]): row["value"] for _, row in read("sar", text)}
    assert found == {
        ("sar", "rxkB/s", 'iface="eth0"'): 3.5,
        ("pressure", "some_avg10", "cpu"): 7.5,
        ("pressure", "full_avg60", "memory"): 1.0,
    }


@pytest.mark.parametrize(("utc", "zone", "hour"), [(1, "Europe/Berlin", 22), (0, "Europe/Berlin", 21), (0, "no/such", 22)])
def test_sadf_reads_the_zone_of_its_stamps(utc: int, zone: str, hour: int) -> None:
    stamp = {"date": "2026-11-29", "time": "22:28:11", "utc": utc}
    sample = {"timestamp": stamp, "memory": {"memfree": 1, "swpused": 2}, "network": {"net-dev": [{"iface": "lo", "rxkB": 4.0}]}}
    host = {"nodename": "h", "timezone": zone, "release": "6.8", "statistics": [sample, {"timestamp": stamp}, {"no": "stamp"}]}
    rows = read("sadf", json.dumps({"sysstat": {"hosts": [host]}}))
    values = {(frame, row["name"]): row for frame, row in rows if frame != "host"}
    assert values["host_memory", "swap_used"]["value_bytes"] == 2048
    assert values["counters", "rxkB"]["labels"] == 'iface="lo"'
    assert seconds(values["host_memory", "free"]) % 86400 == hour * 3600 + 28 * 60 + 11
    assert [row["value"] for frame, row in rows if frame == "host"] == ["6.8"]


def test_pidstat_gives_processes_and_threads() -> None:
    text = [
        BANNER,
        "",
        "10:00:00  UID  TGID  TID  %CPU  Command",
        "10:00:01  0  7  -  50.0  python3 -m x",
        "10:00:01  0  -  8  49.0  |__loader",
    ]
    (process, first), (thread, second) = read("pidstat", "\n".join(text))
    assert (process, first["pid"], first["comm"], first["cpu_percent"]) == ("processes", 7, "python3 -m x", 50.0)
    assert (thread, second["pid"], second["tid"], second["comm"]) == ("threads", 7, 8, "loader")


def task(label: str, epoch: int, name: str, rest: str) -> str:
    return f"{label} host {epoch} 2026/11/29 22:28:11 1 7 ({name}) R {rest}"


@pytest.mark.parametrize("name", ["sglang::schedul", "tmux: server", "kworker/R-rcu_g", "odd) S name"])
def test_atop_sums_what_a_task_used(name: str) -> None:
    lines = ["RESET"]
    for number, epoch in enumerate((1795991290, 1795991291)):
        lines += [task("PRG", epoch, name, "0 0 7 5 0 9 (python3 (x).py) 1 1 4 0 0 0 0 0 0 0 0 y 0 0 - N ()")]
        lines += [task("PRG", epoch, name, "0 0 7 1 0 9 () 1 1 0 0 0 0 0 0 0 0 0 n 0 0 - N ()")]
        lines += [task("PRC", epoch, name, f"100 {30 + number} 5 0 139 0 0 0 0 7 y 0 () 0 -3 -3")]
        lines += [task("PRM", epoch, name, "4096 100 50 4 0 0 0 0 0 0 0 3 7 y 0 0 -3 -3 -3 -3")]
        lines += [task("PRD", epoch, name, "n y 1 2 3 4 0 7 n y"), "SEP"]
    rows = read("atop", "\n".join(lines))
    processes = [row for frame, row in rows if frame == "processes"]
    assert [(row["comm"], row["cmdline"], row["threads"], row["cpu_s"]) for row in processes] == [
        (name, "python3 (x).py", 5, 0.35),
        (name, "python3 (x).py", 5, 0.71),
    ]
    assert (processes[0]["rss_bytes"], processes[0]["swap_bytes"]) == (51200, 3072)
    assert [row["tid"] for frame, row in rows if frame == "threads"] == [7, 7]
    assert [(row["read_bytes"], row["write_bytes"]) for frame, row in rows if frame == "io"] == [(1024, 2048), (2048, 4096)]


def test_atop_in_json_marks_a_death_and_leaves_out_what_was_not_measured() -> None:
    task = {
        "pid": 9,
        "name": "(a b)",
        "state": "E",
        "tgid": 9,
        "nthr": 0,
        "exitcode": 265,
        "cmdline": "()",
        "isproc": 1,
        "ppid": 1,
    }
    sample = {"timestamp": 1795991291, "elapsed": 1, "PRG": [task], "PRC": [{"pid": 9, "utime": -3, "stime": 1, "isproc": 1}]}
    rows = read("atop_json", json.dumps({**sample, "MEM": {"freemem": 4096}, "PAG": {"oomkills": 2}}))
    frames = {frame: row for frame, row in rows}
    assert (frames["processes"]["state"], frames["processes"]["cpu_s"], frames["processes"]["cmdline"]) == ("X", None, None)
    assert frames["events"]["text"] == "process 9 (a b) ended by signal 9"
    assert (frames["counters"]["name"], frames["counters"]["value"]) == ("oomkills", 2.0)
    assert frames["host_memory"]["value_bytes"] == 4096
