"""The moment that loose evidence speaks of: told from stamps, where nobody gave it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kit
from kit.clock import parse_time

SMI = """Thu Oct 23 {clock} 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:9B:00.0 Off |                    0 |
| N/A   34C    P0            112W /  700W |   71234MiB /  81559MiB |    100%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
XID = "[Thu Oct 23 13:05:10 2025] NVRM: Xid (PCI:0000:9b:00): 79, pid=4100, GPU has fallen off the bus.\n"


def write(folder: Path, name: str, text: str, written: str | None = None) -> None:
    """A file, with the time that it was written at."""
    (folder / name).write_text(text)
    if written is not None:
        ns = parse_time(written)[0]
        os.utime(folder / name, ns=(ns, ns))


def test_a_date_without_a_year_lies_near_the_stamps_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "server.log", "".join(f"INFO 10-23 13:0{n}:00 [loader.py:1] step {n}\n" for n in range(5)))
    assert kit.open_run(tmp_path).rows("log")[0]["time"] != parse_time("2025-10-23 13:00:00")[0], "nothing names a year"
    write(tmp_path, "dmesg.txt", XID)
    run = kit.open_run(tmp_path)
    assert run.rows("log")[0]["time"] == parse_time("2025-10-23 13:00:00")[0]
    assert not run.captured_known


@pytest.mark.parametrize(("zone_h", "shown"), [(0, "2025-10-23 13:46:00"), (2, "2025-10-23 15:46:00")])
def test_file_times_are_believed_where_the_last_stamp_agrees(tmp_path: Path, zone_h: int, shown: str) -> None:
    write(tmp_path, "server.log", f"INFO 10-23 {13 + zone_h}:04:00 [loader.py:1] one\n" * 5, "2025-10-23 13:04:00.8")
    write(tmp_path, "ps.txt", "  PID COMMAND\n 4100 python\n", "2025-10-23 13:46:00")
    run = kit.open_run(tmp_path)
    assert run.captured_by == "file times, which agree with the log's last stamp"
    assert run.captured_ns == parse_time("2025-10-23 13:46:00")[0]
    assert run.offset_s == zone_h * 3600
    assert kit.verdict(run).captured_at == shown


def test_file_times_of_a_copy_prove_nothing(tmp_path: Path) -> None:
    write(tmp_path, "server.log", "INFO 10-23 13:04:00 [loader.py:1] one\n" * 5, "2025-11-01 08:17:31")
    write(tmp_path, "ps.txt", "  PID COMMAND\n 4100 python\n", "2025-11-01 08:17:32")
    assert kit.open_run(tmp_path).captured_by == "file time"


@pytest.mark.parametrize(
    ("clock", "by"),
    [("13:46:20", "stamp in nvidia-smi.txt"), ("16:46:20", "file time"), ("12:46:20", "file time")],
    ids=["soon", "perhaps another zone", "before the log ends"],
)
def test_a_look_that_prints_its_date_says_when_it_was(tmp_path: Path, clock: str, by: str) -> None:
    write(tmp_path, "server.log", "INFO 10-23 13:04:00 [loader.py:1] one\n" * 5)
    write(tmp_path, "nvidia-smi.txt", SMI.format(clock=clock))
    run = kit.open_run(tmp_path)
    assert run.captured_by == by
    if run.captured_known:
        assert kit.verdict(run).facts.value("silence_s") == pytest.approx(42 * 60 + 20)


def test_a_stamp_of_the_future_is_none(tmp_path: Path) -> None:
    write(tmp_path, "server.log", "INFO 10-23 13:04:00 [loader.py:1] one\n" * 5, "2025-10-24 00:00:00")
    write(tmp_path, "curl.txt", "< HTTP/1.1 200 OK\n< expires: Thu, 23 Oct 2031 13:00:00 GMT\n", "2025-10-24 00:00:00")
    assert kit.open_run(tmp_path).rows("log")[0]["time"] == parse_time("2025-10-23 13:04:00")[0]


@pytest.mark.parametrize(
    "date", ["Thu Oct 23 13:15:30 UTC 2025", "2025-10-23 13:15:30", "2025-10-23T13:15:30+00:00", "2025-10-23 13:15:30 UTC"]
)
def test_date_in_a_shell_tells_the_moment_of_what_stands_beside_it(tmp_path: Path, date: str) -> None:
    write(tmp_path, "server.log", "[2025-10-23 13:04:00 TP0] Load weight begin. avail mem=77.60 GB\n")
    shell = f"root@n3:/# date\n{date}\nroot@n3:/# ps -eo pid,state,wchan:20,cmd\n 77 D folio_wait_bit  sglang::scheduler_TP0\n"
    write(tmp_path, "look.txt", shell)
    assert kit.open_run(tmp_path).captured_ns == parse_time("2025-10-23 13:15:30")[0]
    write(tmp_path, "look.txt", shell.replace(date, f"it was {date} or so"))
    assert not kit.open_run(tmp_path).captured_known


@pytest.mark.parametrize(("clock", "klass"), [("06:05:58", "ready"), ("06:12:58", "undetermined")])
def test_a_bar_without_stamps_is_as_old_at_most_as_the_last_stamp_before_it(tmp_path: Path, clock: str, klass: str) -> None:
    begun = "[INFO|trainer.py:2321] 2026-01-04 06:05:15,244 >>   Total optimization steps = 28\n"
    write(tmp_path, "sft.log", begun + "  0%|          | 0/28 [00:00<?, ?it/s]\n  4%|▎         | 1/28 [00:31<14:22, 31.96s/it]\n")
    ranks = "".join(f"{7101 + n} 7088 Rl 101 00:04:3{n} python -u train.py --local_rank={n}\n" for n in range(2))
    write(tmp_path, "ps.txt", f"2026-01-04 {clock}\n  PID  PPID STAT %CPU     TIME CMD\n{ranks}")
    assert [capture.kind for capture in kit.open_run(tmp_path).captures] == ["ps", "log"]
    found = kit.verdict(tmp_path)
    assert (found.klass, "a step takes 32 s" in str(found)) == (klass, klass == "ready")
