"""Kernel messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.parse.kernel import FORMATS, classify


def test_human_times_are_local(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "kernel", "lc03-dmesg.txt", offset_s=3600)
    assert [(row["kind"], row["xid"], row["pid"]) for row in rows["kernel_log"]] == [
        ("xid", 8, 3381),
        ("xid", 8, 3381),
        ("xid", 8, 1188),
    ]
    assert rows["kernel_log"][0]["time"] == 1780409141 * 10**9


@pytest.mark.parametrize(
    ("text", "kind", "pid", "process"),
    [
        ("memorystatus: killing_top_process pid 77 [python3.9] (vm-compressor-space-shortage 0)", "oom_kill", 77, "python3.9"),
        ("Out of memory: Killed process 2310 (sglang::schedul) total-vm:1kB, anon-rss:2kB", "oom_kill", 2310, "sglang::schedul"),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/y,task_memcg=/y,task=python3,pid=415,uid=0",
            "oom_kill",
            415,
            "python3",
        ),
        ("python3 invoked oom-killer: gfp_mask=0x100cca", "oom_invoked", None, "python3"),
        ("INFO: task python3:1700 blocked for more than 120 seconds.", "hung_task", 1700, "python3"),
        ("python3[88]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6", "segfault", 88, "python3"),
        ("nfs: server nas1 not responding, still trying", "nfs", None, None),
        ("NVRM: GPU at PCI:0000:47:00: GPU has fallen off the bus.", "gpu_lost", None, None),
        (
            "NVRM: Xid (PCI:0000:47:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "xid",
            None,
            "<unknown>",
        ),
        ("amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3", "gpu_job_timeout", None, None),
        ("usb 1-1: new high-speed USB device", "other", None, None),
        ("MCE: In-kernel MCE decoding enabled.", "other", None, None),
        ("mce: CPU0: Thermal monitoring enabled (TM1)", "other", None, None),
        ("EDAC MC: Ver: 3.0.0", "other", None, None),
        ("mce: [Hardware Error]: Machine check events logged", "ecc", None, None),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1", "ecc", None, None),
    ],
)
def test_kinds(text: str, kind: str, pid: int | None, process: str | None) -> None:
    got = classify(text)
    assert (got["kind"], got.get("pid"), got.get("process")) == (kind, pid, process)


def test_page_faults_name_the_device(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "kernel", "vl01-dmesg.txt")
    assert [(row["kind"], row["bus_id"]) for row in rows["kernel_log"]] == [
        ("io_page_fault", "0000:47:00.0"),
        ("io_page_fault", "0000:57:00.0"),
    ]


@pytest.mark.parametrize(
    ("line", "offset_s"),
    [
        ("2026-06-02T15:05:41,500000+02:00 nfs: server nas1 OK", 0),
        ("Jun 02 15:05:41 node1 kernel: nfs: server nas1 OK", 7200),
        ("2026-06-02T15:05:41+0200 node1 kernel: nfs: server nas1 OK", 0),
        ("[Tue Jun  2 15:05:41 2026] nfs: server nas1 OK", 7200),
    ],
)
def test_stamps(snapshot, line: str, offset_s: int) -> None:
    rows, _ = snapshot(FORMATS, "kernel", line + "\n", offset_s=offset_s, captured_ns=1780412741 * 10**9)
    row = rows["kernel_log"][0]
    assert (row["time"] // 10**9, row["kind"], row["text"]) == (1780405541, "nfs", "nfs: server nas1 OK")


def test_no_right_to_read(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "kernel", "dmesg: read kernel buffer failed: Operation not permitted\n")
    assert [(row["tool"], row["error"]) for row in rows["tool_errors"]] == [("dmesg", "permission")]


def test_the_raw_form_of_dev_kmsg_is_a_kernel_log(tmp_path: Path) -> None:
    (tmp_path / "k.txt").write_text(
        "6,3973,227996636,-;usb 1-1: new high-speed USB device\n SUBSYSTEM=usb\n DEVICE=c189:1\n"
        "3,3974,228996636,-;Out of memory: Killed process 415 (python3) total-vm:1kB\n"
    )
    rows = kit.open_run(tmp_path).rows("kernel_log")
    assert [(row["uptime_s"], row["kind"]) for row in rows] == [(227.996636, "other"), (228.996636, "oom_kill")]


@pytest.mark.parametrize(
    "text",
    [
        "xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=7",
        "xe 0000:03:00.0: [drm] GT0: Engine reset",
        "i915 00:02.0: [drm] GPU HANG",
    ],
)
def test_an_intel_gpu_whose_job_timed_out(text: str) -> None:
    assert classify(text)["kind"] == "gpu_job_timeout"
    assert classify("xe 0000:03:00.0: [drm] Using GuC firmware")["kind"] == "other"
