"""Outputs whose values were once read wrongly: each in the form a user has it, through the public way in."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.schema import Row

Cells = list[tuple]


def rows(tmp_path: Path, frame: str, text: str, name: str = "out.txt") -> list[Row]:
    (tmp_path / name).write_text(text)
    return kit.open_run(tmp_path, captured_at="2026-02-18 02:11:52").rows(frame)


def cells(found: list[Row], *columns: str) -> Cells:
    return [tuple(row.get(column) for column in columns) for row in found]


def test_the_wildcard_listener_of_tcp6_is_all_zeros(tmp_path: Path) -> None:
    line = f"   0: {'0' * 32}:1F41 {'0' * 32}:0000 0A 00000000:00000000 00:00000000 00000000  0  0 77 1 ff 100 0 0 10 0"
    text = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n" + line + "\n"
    assert cells(rows(tmp_path, "sockets", text), "protocol", "state", "local_address", "local_port") == [
        ("tcp6", "LISTEN", "::", 8001)
    ]


def test_proc_net_udp_is_no_tcp(tmp_path: Path) -> None:
    line = "   0: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 77 2 ff 0\n"
    found = rows(tmp_path, "sockets", "  sl  local_address rem_address   st tx_queue rx_queue\n" + line, "udp.txt")
    assert cells(found, "protocol", "state", "local_port") == [("udp", "UNCONN", 53)]


def test_lsof_of_the_network_lists_sockets(tmp_path: Path) -> None:
    text = "COMMAND  PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\n"
    text += "vllm    4412 ops    9u  IPv4  88123      0t0  TCP *:8001 (LISTEN)\n"
    found = rows(tmp_path, "sockets", text, "lsof.txt")
    assert cells(found, "state", "local_port", "pid", "process", "fd") == [("LISTEN", 8001, 4412, "vllm", 9)]


def test_lsof_of_a_process_lists_descriptors(tmp_path: Path) -> None:
    text = "COMMAND  PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\n"
    text += "vllm    4412 ops    1w   REG    8,1       10   12 /logs/a.log\n"
    text += "vllm    4412 ops    9u  IPv4  88123  0t0  TCP *:8001 (LISTEN)\n"
    assert cells(rows(tmp_path, "fds", text, "lsof.txt"), "fd", "target")[0] == (1, "/logs/a.log")


@pytest.mark.parametrize(
    ("extra", "timer"),
    [("", ""), ("ops        88123      ", ""), ("ops        88123      ", " off (0.00/0/0)"), ("", " keepalive (7104.13/0/0)")],
)
def test_netstat_with_further_columns(tmp_path: Path, extra: str, timer: str) -> None:
    text = "Active Internet connections (servers and established)\nProto Recv-Q Send-Q Local Address Foreign Address State ...\n"
    text += (
        f"tcp        0      0 0.0.0.0:8001            0.0.0.0:*               LISTEN      {extra}4412/vllm: engine   {timer}\n"
    )
    text += (
        f"tcp        0      0 10.0.0.5:8001           10.0.0.9:50412          ESTABLISHED {extra}4412/vllm: engine   {timer}\n"
    )
    found = rows(tmp_path, "sockets", text)
    assert cells(found, "state", "pid", "process") == [("LISTEN", 4412, "vllm: engine"), ("ESTAB", 4412, "vllm: engine")]


@pytest.mark.parametrize(
    ("figures", "total"),
    [
        ((16303428, 2211204, 9630864, 60576, 461360, 13483996), 16303428 * 1024),  # all in pages: KiB
        ((515634, 61270, 263087, 605, 191276, 451201), 515634 * 2**20),  # not multiples of 4: MiB
        ((503, 61, 257, 1, 184, 441), 503 * 2**30),
    ],
)
def test_free_without_a_unit(tmp_path: Path, figures: tuple[int, ...], total: int) -> None:
    text = (
        "               total        used        free      shared  buff/cache   available\nMem: "
        + " ".join(map(str, figures))
        + "\n"
    )
    assert {row["name"]: row["value_bytes"] for row in rows(tmp_path, "host_memory", text)}["total"] == total


def test_smaps_is_no_memory_of_the_host(tmp_path: Path) -> None:
    mapping = "55a9e753c000-55a9e7570000 r--p 00000000 fd:00 77   /opt/a.so\n"
    mapping += "Size: 208 kB\nKernelPageSize: 4 kB\nRss: {0} kB\nPss: 2 kB\n"
    text = mapping.format(100) + mapping.format(50)
    assert cells(rows(tmp_path, "counters", text, "smaps.pid7.txt"), "source", "name", "labels", "value") == [
        ("smaps", "Size", "7", 416 * 1024.0),
        ("smaps", "Rss", "7", 150 * 1024.0),
        ("smaps", "Pss", "7", 4 * 1024.0),
    ]
    assert rows(tmp_path, "host_memory", text, "smaps.pid7.txt") == []


@pytest.mark.parametrize(
    "stamp", ["四 3月 20 21:01:25 2025", "Do Mär 20 21:01:25 2025", "jeu. mars 20 21:01:25 2025", "Thu Mar 20 21:01:25 2025"]
)
def test_kernel_log_of_other_locales(tmp_path: Path, stamp: str) -> None:
    text = f"[{stamp}] oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/user.slice,task=vllm,pid=4412,uid=0\n"
    text += f"[{stamp}] Out of memory: Killed process 4412 (vllm) total-vm:9kB\n"
    found = rows(tmp_path, "kernel_log", text, "dmesg.txt")
    assert cells(found, "kind", "pid", "time") == [("oom_kill", 4412, 1742504485 * 10**9)] * 2


def test_an_identity_of_pthread_is_no_process(tmp_path: Path) -> None:
    text = 'Thread 0x7F6D3C29D740 (idle): "MainThread"\n    wait (threading.py:312)\n'
    assert cells(rows(tmp_path, "stacks", text, "pyspy.txt"), "pid", "tid", "thread") == [(None, None, "MainThread")]


def test_peer_to_peer_topology(tmp_path: Path) -> None:
    text = (
        "$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tCNS\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    )
    assert cells(rows(tmp_path, "host", text), "key", "value") == [
        ("header", "GPU0 GPU1"),
        ("GPU0", "GPU0 X OK"),
        ("GPU1", "GPU1 CNS X"),
    ]


def test_vmstat_with_stamps(tmp_path: Path) -> None:
    text = "procs ---memory--- -----timestamp-----\n r  b   swpd   free us sy id wa st                 UTC\n"
    text += " 2  0      0 2794716  0  0 99  0  0 2026-02-18 01:33:13\n 0  3      0 2794700  0  0 99  0  0 2026-02-18 01:33:18\n"
    found = [row for row in rows(tmp_path, "counters", text, "vmstat.txt") if row["name"] == "b"]
    assert cells(found, "value", "moment", "time") == [(0.0, 0, 1771378393 * 10**9), (3.0, 1, 1771378398 * 10**9)]


def test_limits_of_a_process_and_of_a_shell(tmp_path: Path) -> None:
    text = "Limit                     Soft Limit           Hard Limit           Units\n"
    text += "Max open files            1024                 524288               files\n"
    text += "Max locked memory         8388608    unlimited   bytes\n"
    assert cells(rows(tmp_path, "host", text), "source", "key", "value") == [
        ("limits", "Max open files", "soft 1024, hard 524288 files"),
        ("limits", "Max locked memory", "soft 8388608, hard unlimited bytes"),
    ]
    text = "core file size              (blocks, -c) 0\nopen files                          (-n) 1024\n"
    text += "max locked memory           (kbytes, -l) unlimited\n"
    assert cells(rows(tmp_path, "host", text), "key", "value")[1:] == [
        ("open files", "1024 (-n)"),
        ("max locked memory", "unlimited (kbytes, -l)"),
    ]


@pytest.mark.parametrize("indent", ["    ", "      ", "\t"])
def test_an_output_that_was_pasted_with_an_indent(tmp_path: Path, indent: str) -> None:
    text = (
        "Active Internet connections (only servers)\nProto Recv-Q Send-Q Local Address Foreign Address State PID/Program name\n"
    )
    text += "tcp        0      0 0.0.0.0:8001            0.0.0.0:*               LISTEN      4412/vllm\n"
    found = rows(tmp_path, "sockets", "".join(indent + line + "\n" for line in text.splitlines()))
    assert cells(found, "state", "local_port", "pid", "process") == [("LISTEN", 8001, 4412, "vllm")]
    text = "|   0  NVIDIA L4                   On | 00000000:01:00.0 Off |                  N/A |\n"
    text += "| N/A   44C    P8               12W /  72W |  20123MiB / 23034MiB |     97%      Default |\n"
    text += "|                                        |                      |                  N/A |\n"
    found = rows(tmp_path, "gpus", "".join(indent + line + "\n" for line in text.splitlines()))
    assert cells(found, "name", "mem_used_mib", "util_percent") == [("NVIDIA L4", 20123.0, 97.0)]


def test_a_pasted_gdb_stack_with_an_indent(tmp_path: Path) -> None:
    text = "    Thread 1 (Thread 0x7f05da731740 (LWP 4412)):\n"
    text += "    #0  0x00007f05daa91376 in pthread_cond_wait () from /usr/lib/libpthread.so.0\n"
    text += "    #1  0x00007f05cef12e30 in wait(std::unique_lock<std::mutex>&) () from /usr/lib/libstdc++.so.6\n"
    assert cells(rows(tmp_path, "stacks", text), "tid", "depth", "function") == [
        (4412, 0, "pthread_cond_wait"),
        (4412, 1, "wait(std::unique_lock<std::mutex>&)"),
    ]


def test_pidstat_with_a_clock_of_twelve_hours_is_no_list_of_hosts(tmp_path: Path) -> None:
    text = "Linux 6.8.0 (h) \t02/18/2026 \t_x86_64_\t(2 CPU)\n\n"
    text += "01:33:13 PM   UID       PID    %usr %system  %guest    %CPU   CPU  Command\n"
    text += "01:33:13 PM     0      4412   97.00    2.50    0.00   99.50     0  VLLM::EngineCor\n"
    assert cells(rows(tmp_path, "processes", text), "pid", "comm", "cpu_percent", "time") == [
        (4412, "VLLM::EngineCor", 99.5, (1771378393 + 12 * 3600) * 10**9)
    ]
    assert rows(tmp_path, "host", text) == []


def test_a_unit_that_was_guessed_is_in_the_notes(tmp_path: Path) -> None:
    text = "       total   used   free   shared  buff/cache   available\nMem: 3861332 222820 3364176 11832 274336 3389588\n"
    assert cells(rows(tmp_path, "notes", text, "free.txt"), "capture", "reason") == [
        ("free.txt", "unit of free is not shown, taken as KiB")
    ]


def test_a_file_that_was_not_recognised_is_in_the_notes(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("INFO 02-18 01:33:13 [api_server.py:1134] vLLM API server version 0.10.1\n")
    found = rows(tmp_path, "notes", "qux 1\nqux 2\n", "unknown.txt")
    assert cells(found, "capture", "reason", "line") == [("unknown.txt", "the file was not recognised", None)]
