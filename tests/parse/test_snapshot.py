"""Each kind of snapshot is recognised by its content alone, and no parser fails on text that is not its own."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from kit.frames import FRAMES
from kit.parse.base import Report, Source
from kit.parse.snapshot import Samples, titled

SNAPSHOTS = Path(__file__).resolve().parent.parent / "data" / "snapshots"
MODULES = ("procfs", "procmaps", "hostfiles", "ps", "net", "gpu", "amd", "kernel", "disk", "cluster", "metrics")
FORMATS = [entry for name in MODULES for entry in importlib.import_module(f"kit.parse.{name}").FORMATS]
KINDS = {
    "dmesg": "kernel",
    "curl": "curl",
    "launch": "launch",
    "ss": "ss",
    "nvidia-smi": "nvidia_smi",
    "ps": "ps",
    "stat": "proc_stat",
    "threads": "ps_threads",
    "fd": "fd",
    "status": "proc_status",
    "free": "free",
    "io": "proc_io",
    "mount": "mount",
    "du": "du",
    "wchan": "proc_wchan",
    "memory": "cgroup",
    "hosts": "hosts",
    "df": "df",
    "lspci": "lspci",
    "ray-status": "ray_status",
    "events": "events",
}
TEXTS = {
    "top": "top - 14:03:09 up 3 days,  1:02,  1 user,  load average: 8.01, 7.5, 7.0\n\n    PID USER  PR  NI VIRT RES SHR S %CPU "
    "%MEM TIME+ COMMAND\n",
    "pgrep": "512 python3 -m sglang.launch_server --tp 2\n641 sglang::scheduler_TP0\n",
    "proc_stack": "[<0>] futex_wait_queue+0x60/0x90\n[<0>] do_syscall_64+0x5c/0x90\n",
    "meminfo": "MemTotal:       24684092 kB\nMemFree:        21000000 kB\nMemAvailable:   22994372 kB\n",
    "loadavg": "84.01 83.20 80.00 9/1840 77123\n",
    "vmstat": "procs -----------memory----------\n r  b   swpd   free   buff  cache\n 1  2      0  90000   1000   5000\n",
    "netstat": "Active Internet connections (only servers)\nProto Recv-Q Send-Q Local Address Foreign Address State PID/Program "
    "name\n"
    "tcp        0      0 0.0.0.0:8000     0.0.0.0:*      LISTEN      1881/python3\n",
    "proc_net": "  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 "
    "00:00000000 00000000\n",
    "ip": "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq state UP\n    inet 10.0.0.2/24 brd 10.0.0.255 scope "
    "global eth0\n",
    "ls": "total 8\n-rw-r--r-- 1 root root 4996 Feb 20 14:15 model-00001-of-00064.safetensors\n",
    "nvidia_topo": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X \t32-63\n",
    "rocm_smi": "========= ROCm System Management Interface =========\nGPU[0]\t\t: GPU use (%): 99\n",
    "shell": "$ kill -9 2310\n$ ps -o pid,stat,wchan:20,cmd -p 2310\n    PID STAT WCHAN                CMD\n   2310 D    "
    "uvm_gpu_wait         python3\n",
    "metrics": "# HELP vllm:num_requests_running Number\n# TYPE vllm:num_requests_running "
    'gauge\nvllm:num_requests_running{model_name="m"} 4.0\n',
}


def kind_of(name: str, head: str) -> tuple[str | None, float]:
    score, kind = max((entry.looks_like(head) + 0.3 * entry.named(name), entry.kind) for entry in FORMATS)
    return (kind, score) if score >= 0.35 else (None, score)


@pytest.mark.parametrize("file", sorted(path.name for path in SNAPSHOTS.iterdir()))
def test_every_file_is_recognised_without_its_name(file: str) -> None:
    stem = file.split("-", 1)[1].split(".")[0]
    assert kind_of("x.txt", (SNAPSHOTS / file).read_text())[0] == KINDS[stem]


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_other_forms_are_recognised_without_a_name(kind: str) -> None:
    assert kind_of("x.txt", TEXTS[kind])[0] == kind


@pytest.mark.parametrize(
    "head",
    [
        "[2026-02-20 14:04:09 TP0] Load weight begin. avail mem=92.10 GB\n[2026-02-20 14:04:10 TP0] Load weight end.\n",
        "INFO 06-07 18:13:41 [ray_utils.py:464] Waiting for creating a placement group\n",
        "2024-05-01T01:16:50.041863Z  INFO text_generation_launcher: Shutting down shards\n",
        'Process 9200: sglang::scheduler_TP0\nThread 9200 (active): "MainThread"\n    requant (fp8_utils.py:402)\n',
        '[pid  2388] 02:12:40.276211 write(148, "\\1", 1) = 1\n[pid  2391] 02:12:40.276272 read(147, "\\1", 16) = 1\n',
        "3f9a1c0b7de24c55a8e6d10f2b94c7713e0a5d8c6b1f49e2a7d3c0b8e5f6a192\n",
        "COMMAND     PID TYPE SIZE MODE  M START END PATH\nVLLM::Worke 400 FLOCK   0B WRITE 0     0   0 /home/op/x.lock\n",
        "hello world\n",
    ],
)
def test_logs_and_dumps_are_none_of_these(head: str) -> None:
    assert kind_of("x.txt", head)[0] is None


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("ss.txt", "bash: ss: command not found\n", "ss"),
        ("dmesg.txt", "dmesg: read kernel buffer failed: Operation not permitted\n", "kernel"),
        ("memory.max.txt", "max\n", "cgroup"),
        ("stack.txt", "cat: /proc/7/stack: Permission denied\n", "proc_stack"),
    ],
)
def test_a_failed_tool_is_read_as_what_its_name_says(name: str, head: str, kind: str) -> None:
    assert kind_of(name, head)[0] == kind
    entry = next(entry for entry in FORMATS if entry.kind == kind)
    frames = [frame for frame, _ in entry.parse(head.splitlines(), Source(name), Report())]
    assert frames == (["counters"] if "max" in name else ["tool_errors"])


@pytest.mark.parametrize("entry", FORMATS, ids=lambda entry: entry.kind)
def test_no_parser_raises_and_every_row_fits(entry) -> None:
    texts = [path.read_text() for path in SNAPSHOTS.iterdir()] + list(TEXTS.values())
    odd = [
        "\x1b[31mred\x1b[0m\r",
        "a" * 300_000,
        "9" * 5000,
        " " * 5000 + "x",
        '{"a": [',
        "|||",
        ",,,,",
        "==>  <==",
        "$ ",
        "::",
        "\ufffd" * 9,
        "18446744073709551615 18446744073709551615",
        "- - - - - - - -",
        '"""',
        "a\rb\rc",
    ]
    for text in [
        "\n".join(odd),
        *texts,
        *(text[: len(text) // 3] for text in texts),
        *(text.replace("\n", "\r\n") for text in texts),
    ]:
        report = Report()
        for frame, row in entry.parse(text.split("\n"), Source("x.txt"), report):
            FRAMES[frame].check({key: value for key, value in row.items() if key != "moment"} | {"capture": "x"})
        assert report.lines == text.count("\n") + 1


def test_crlf_and_colour_do_not_change_what_is_read() -> None:
    entry = next(entry for entry in FORMATS if entry.kind == "ps")
    text = (SNAPSHOTS / "sg13-ps.txt").read_text()
    plain = list(entry.parse(text.split("\n"), Source("ps.txt"), Report()))
    assert list(entry.parse(["\x1b[1m" + line + "\x1b[0m\r" for line in text.split("\n")], Source("ps.txt"), Report())) == plain


def test_a_date_line_gives_its_time_to_what_follows() -> None:
    lines = list(
        titled(["Fri Feb 20 14:15:01 CET 2026", "a", "=== 2026-02-20 14:16:01 ===", "b"], Source("x", offset_s=3600), Report())
    )
    assert [line.time for line in lines] == [1771593301000000000, 1771593361000000000]


def test_samples_number_tables_not_rows() -> None:
    samples = Samples(Source("ps.txt"))
    for pids in ((1, 2), (0, 1)):
        samples.table()
        for pid in pids:
            samples.add("processes", {"pid": pid}, pid)
    assert [(row["pid"], row["moment"]) for _, row in samples.settle(Report())] == [(1, 0), (2, 0), (0, 1), (1, 1)]
