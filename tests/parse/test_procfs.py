"""Files of /proc and control groups."""

from __future__ import annotations

from kit.parse import hostfiles, procfs, procmaps

FORMATS = procfs.FORMATS + procmaps.FORMATS + hostfiles.FORMATS


def test_status_of_several_processes(snapshot) -> None:
    rows, report = snapshot(FORMATS, "proc_status", "sg01-status.txt")
    first = rows["processes"][0]
    assert [row["pid"] for row in rows["processes"]] == [2310, 2311, 2312]
    assert (first["state"], first["threads"], first["ppid"], first["tracer_pid"]) == ("S", 205, 2101, 0)
    assert first["rss_bytes"] == 256901120 * 1024 and first["rss_shmem_bytes"] == 232118000 * 1024
    assert not report.reasons


def test_status_in_uninterruptible_sleep(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "proc_status", "vl16-status.txt")
    assert [(row["pid"], row["state"], row["comm"]) for row in rows["processes"]] == [(1700, "D", "VLLM::Worker_TP0")]


def test_status_cut_by_grep_keeps_the_pid_of_its_source(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "proc_status", "State:\tR (running)\nVmRSS:\t 12 kB\nThreads:\t3\n", pid=9)
    assert [(row["pid"], row["rss_bytes"], row["threads"]) for row in rows["processes"]] == [(9, 12288, 3)]


def test_status_of_threads_goes_to_threads(snapshot) -> None:
    text = "==> /proc/7/task/9/status <==\nName:\ta\nState:\tS (sleeping)\nTgid:\t7\nPid:\t9\n"
    rows, _ = snapshot(FORMATS, "proc_status", text)
    assert [(row["pid"], row["tid"], row["state"]) for row in rows["threads"]] == [(7, 9, "S")]


def test_two_samples_in_one_file_are_numbered(snapshot) -> None:
    text = "Name:\ta\nPid:\t7\nVmRSS:\t1 kB\nName:\ta\nPid:\t7\nVmRSS:\t2 kB\n"
    rows, _ = snapshot(FORMATS, "proc_status", text)
    assert [(row["moment"], row["rss_bytes"]) for row in rows["processes"]] == [(0, 1024), (1, 2048)]


def test_stat_reads_fields_after_the_last_parenthesis(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "proc_stat", "sg01-stat.t0.txt", moment=0)
    assert len(rows["processes"]) == 8
    assert (rows["processes"][0]["utime_s"], rows["processes"][0]["start_ticks"], rows["processes"][0]["moment"]) == (
        5118.7,
        8123456,
        0,
    )
    rows, report = snapshot(FORMATS, "proc_stat", "7 (tmux: (x) y) S 1 7 7 0 -1 4194560 10\n")
    assert rows["processes"][0]["comm"] == "tmux: (x) y" and rows["processes"][0]["utime_s"] is None
    assert report.reasons == {"line of /proc/PID/stat is cut": 1}


def test_stat_under_a_task_path_is_a_thread(snapshot) -> None:
    line = "2388 (python3) R 2101 2310 2101 0 -1 4194560 30 0 53 0 511 134 0 0 20 0 205 0 8 353 64 1 1 1 0 0 0 0 0 1 1 0 0 0 17 6"
    rows, _ = snapshot(FORMATS, "proc_stat", f"==> /proc/2310/task/2388/stat <==\n{line}\n")
    thread = rows["threads"][0]
    assert (thread["pid"], thread["tid"], thread["cpu_s"], thread["processor"]) == (2310, 2388, 6.45, 6)


def test_io_of_two_processes_and_one_refused(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "proc_io", "sg06-io.t0.txt")
    assert [(row["pid"], row["read_bytes"], row["read_calls"]) for row in rows["io"]] == [
        (4412, 58720256000, 60000),
        (4411, 83120256000, 80000),
    ]
    rows, _ = snapshot(
        FORMATS, "proc_io", "head: cannot open '/proc/1/io' for reading: Permission denied\n==> /proc/2/io <==\nrchar: 1\n"
    )
    assert (rows["tool_errors"][0]["pid"], rows["io"][0]["pid"]) == (1, 2)


def test_wchan_in_its_forms(snapshot) -> None:
    for text, expected in (
        ("pipe_write\n", (0, "pipe_write")),
        ("2388: futex_wait_queue\n", (2388, "futex_wait_queue")),
        ("/proc/88/task/90/wchan:ep_poll\n", (90, "ep_poll")),
        ("1700 VLLM::Worker TP0 cl_sync_io_wait\n", (1700, "cl_sync_io_wait")),
        ("$ cat /proc/1700/wchan; echo\ncl_sync_io_wait\n", (1700, "cl_sync_io_wait")),
        ("==> /proc/5/wchan <==\n0\n", (5, None)),
    ):
        rows, _ = snapshot(FORMATS, "proc_wchan", text)
        assert [(row["tid"], row["wchan"]) for row in rows["threads"]] == [expected]


def test_stack_of_two_threads(snapshot) -> None:
    text = (
        "==> /proc/7/task/7/stack <==\n[<0>] futex_wait_queue+0x60/0x90\n\n==> /proc/7/task/9/stack <==\n"
        "[<0>] uvm_va_block_lock+0x1/0x2 [nvidia_uvm]\n[<0>] __do_sys_ioctl+0x1/0x2\n"
    )
    rows, _ = snapshot(FORMATS, "proc_stack", text)
    assert [(row["tid"], row["depth"], row["function"]) for row in rows["stacks"]] == [
        (7, 0, "futex_wait_queue"),
        (9, 0, "uvm_va_block_lock"),
        (9, 1, "__do_sys_ioctl"),
    ]
    assert rows["stacks"][1]["file"] == "nvidia_uvm"


def test_cgroup_files(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "cgroup", "tg04-memory.events.txt")
    assert {row["name"]: row["value"] for row in rows["counters"]}["oom_kill"] == 1
    rows, _ = snapshot(FORMATS, "cgroup", "==> /sys/fs/cgroup/memory.max <==\nmax\n==> /sys/fs/cgroup/memory.current <==\n4096\n")
    assert [row["value"] for row in rows["counters"]] == [float("inf"), 4096.0]


def test_meminfo_uses_the_names_of_free(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "meminfo", "MemTotal:  100 kB\nMemAvailable: 50 kB\nHugePages_Total:  0\n")
    assert {row["name"]: row["value_bytes"] for row in rows["host_memory"]} == {"total": 102400, "available": 51200}
