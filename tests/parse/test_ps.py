"""Process lists."""

from __future__ import annotations

from kit.parse.ps import FORMATS, cells


def test_ps_aux(snapshot) -> None:
    rows, report = snapshot(FORMATS, "ps", "sg01-ps.txt")
    main, worker = rows["processes"][:2]
    assert (main["pid"], worker["cpu_s"], worker["rss_bytes"], worker["cmdline"]) == (
        2101,
        87 * 60 + 31,
        256901120 * 1024,
        "sglang::scheduler_TP0",
    )
    assert main["cmdline"].startswith("python3 -m sglang.launch_server --model-path") and not report.reasons


def test_defunct_children_are_zombies(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "ps", "sg13-ps.txt")
    assert [(row["pid"], row["ppid"], row["state"]) for row in rows["processes"]] == [
        (512, 1, "S"),
        (641, 512, "Z"),
        (642, 512, "Z"),
        (660, 512, "S"),
    ]
    assert rows["processes"][1]["comm"] == "sglang::schedul"
    rows, _ = snapshot(FORMATS, "ps", "  PID TTY          TIME CMD\n  641 ?        00:00:01 sglang::schedul <defunct>\n")
    assert rows["processes"][0]["state"] == "Z"


def test_threads_with_wait_channels(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "ps_threads", "sg01-threads.txt", pid=2310)
    assert "processes" not in rows and len(rows["threads"]) == 12
    spinning = rows["threads"][1]
    assert (spinning["pid"], spinning["tid"], spinning["state"], spinning["wchan"], spinning["cpu_s"]) == (
        2310,
        2388,
        "R",
        None,
        5071,
    )


def test_the_command_line_names_the_process_of_its_threads(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "ps_threads", "$ ps -L -o tid,stat,comm -p 88\n    TID STAT COMMAND\n     88 Sl   python3\n")
    assert rows["threads"][0]["pid"] == 88


def test_a_blank_in_the_start_date_and_columns_after_the_command() -> None:
    columns = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND".split()
    text = "root 9 0.1 0.2 10 20 ? Sl Jun 02 1-02:03:04 python3  -m x"
    assert cells(columns, text.split(), text)["COMMAND"] == "python3  -m x"
    text = "9 Tue Jun  2 15:05:41 2026 01:02 R nvcc -c a.cu"
    assert cells(["PID", "STARTED", "ELAPSED", "STAT", "CMD"], text.split(), text) == {
        "PID": "9",
        "STARTED": "Tue Jun 2 15:05:41 2026",
        "ELAPSED": "01:02",
        "STAT": "R",
        "CMD": "nvcc -c a.cu",
    }
    text = "9 VLLM::Worker TP0 D cl_sync_io_wait"
    assert cells(["PID", "COMMAND", "STAT", "WCHAN"], text.split(), text)["COMMAND"] == "VLLM::Worker TP0"


def test_lines_whose_header_a_grep_took(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "ps", "root   2310 84.2 24.1 1557000000 256901120 ? Sl   00:28  87:31 sglang::scheduler_TP0\n")
    assert (rows["processes"][0]["pid"], rows["processes"][0]["cpu_s"]) == (2310, 5251)
    rows, _ = snapshot(FORMATS, "ps", "root     512     1  0 14:02 ?        00:00:20 python3 -m sglang.launch_server\n")
    assert (rows["processes"][0]["ppid"], rows["processes"][0]["cmdline"]) == (1, "python3 -m sglang.launch_server")


def test_top_with_two_samples(snapshot) -> None:
    one = (
        "top - 14:03:0{0} up 3 days,  1:02,  1 user,  load average: 8.01, 7.5, 7.0\nTasks: 2 total\n%Cpu(s): 1.0 us\n"
        "MiB Mem :  24105.6 total,  20000.0 free,   1600.0 used,   2500.0 buff/cache\nMiB Swap: 0.0 total, 0.0 free, 0.0 "
        "used.  22000.0 avail Mem\n\n"
        "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n"
        "   2310 root      20   0   1.5t 245.0g 221.0g R  99.9  24.1  87:3{0}.05 sglang::schedul\n      9 root 20 0 100 10 5 "
        "S 0.0 0.0 0:00.10 sh\n\n"
    )
    rows, report = snapshot(FORMATS, "top", one.format(1) + one.format(4))
    assert [(row["moment"], row["pid"], row["cpu_s"]) for row in rows["processes"]] == [
        (0, 2310, 5251.05),
        (0, 9, 0.1),
        (1, 2310, 5254.05),
        (1, 9, 0.1),
    ]
    assert rows["processes"][0]["rss_bytes"] == 245 << 30
    assert {row["moment"] for row in rows["host_memory"]} == {0, 1} and not report.reasons


def test_top_of_threads(snapshot) -> None:
    text = (
        "top - 14:03:01 up 1 day\nThreads: 205 total\n    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     "
        "TIME+ COMMAND\n"
        "   2388 root      20   0   1.5t 245.0g 221.0g R  99.9  24.1  84:31.05 sglang::schedul\n"
    )
    rows, _ = snapshot(FORMATS, "top", text, pid=2310)
    assert [(row["pid"], row["tid"], row["cpu_percent"]) for row in rows["threads"]] == [(2310, 2388, 99.9)]


def test_a_forest_loses_its_branches(snapshot) -> None:
    rows, _ = snapshot(
        FORMATS, "ps", "  PID STAT COMMAND\n    1 Ss   bash\n    2 Sl    \\_ vllm serve\n    3 Rl        \\_ VLLM::EngineCore\n"
    )
    assert [row["cmdline"] for row in rows["processes"]] == ["bash", "vllm serve", "VLLM::EngineCore"]
