"""Sizes, descriptors, file systems, memory."""

from __future__ import annotations

import pytest

from kit.clock import parse_time
from kit.parse.disk import FORMATS


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1113240\t/data\n", 1113240 * 1024),
        ("1.5G\t/data\n", 3 << 29),
        ("$ du -sb /data\n1113240\t/data\n", 1113240),
        ("$ du -sm /data\n12\t/data\n", 12 << 20),
        ("$ stat -c '%s %n' /data\n77 /data\n", 77),
    ],
)
def test_du_units(snapshot, text: str, size: int) -> None:
    rows, _ = snapshot(FORMATS, "du", text)
    assert [(row["path"], row["size_bytes"]) for row in rows["sizes"]] == [("/data", size)]


def test_a_loop_of_du_with_the_time_of_the_day_is_samples(snapshot) -> None:
    text = "$ while true; do date +%T; du -sm /m; sleep 60; done\n23:59:30\n7\t/m\n00:00:30\n9\t/m\n"
    rows, report = snapshot(FORMATS, "du", text, captured_ns=parse_time("2026-05-01T23:00:00Z")[0])
    assert [(row["moment"], row["size_bytes"] >> 20) for row in rows["sizes"]] == [(0, 7), (1, 9)]
    times = [row["time"] for row in rows["sizes"]]
    assert times == [parse_time("2026-05-01T23:59:30Z")[0], parse_time("2026-05-02T00:00:30Z")[0]]
    assert not report.reasons


def test_descriptors_are_counted_without_the_lines_of_ls(snapshot) -> None:
    rows, report = snapshot(FORMATS, "fd", "sg02-fd.txt", pid=86857)
    assert (len(rows["fds"]), report.facts["fds"], rows["fds"][1]["target"], rows["fds"][1]["mode"]) == (
        204,
        204,
        "/logs/sglang_eagle3.log",
        "w",
    )
    assert not report.reasons
    rows, report = snapshot(FORMATS, "fd", "$ ls -la /proc/7/fd | wc -l\n207\n")
    assert report.facts["fds"] == 204


def test_descriptors_in_other_forms(snapshot) -> None:
    text = "$ ls -l /proc/88/fd\nl-wx------ 1 root root 64 Jan 23 09:31 1 -> /logs/a.log (deleted)\n"
    rows, _ = snapshot(FORMATS, "fd", text)
    assert [(row["pid"], row["target"], row["deleted"]) for row in rows["fds"]] == [(88, "/logs/a.log", True)]
    rows, _ = snapshot(FORMATS, "fd", "/proc/88/fd/1 -> pipe:[551020]\n")
    assert [(row["pid"], row["fd"], row["target"]) for row in rows["fds"]] == [(88, 1, "pipe:[551020]")]
    text = (
        "COMMAND PID USER   FD   TYPE DEVICE SIZE/OFF   NODE NAME\npython3  88 root  cwd    DIR  254,0     4096      2 /\n"
        "python3  88 root    2w  FIFO   0,13      0t0 551021 pipe\n"
    )
    rows, report = snapshot(FORMATS, "fd", text)
    assert [(row["fd"], row["mode"], row["target"]) for row in rows["fds"]] == [(2, "w", "pipe:[551021]")] and report.facts[
        "fds"
    ] == 1


def test_ls_gives_sizes_of_plain_files(snapshot) -> None:
    text = (
        "$ ls -l /home/op/blobs\ntotal 8\ndrwxr-xr-x 2 root root 4096 Feb 20 14:15 sub\n"
        "-rw-r--r-- 1 root root 2200000000 Feb 20 14:15 abc.incomplete\nlrwxrwxrwx 1 root root 76 Feb 20 14:15 m -> ../x\n"
    )
    rows, report = snapshot(FORMATS, "ls", text)
    assert [(row["path"], row["size_bytes"]) for row in rows["sizes"]] == [("/home/op/blobs/abc.incomplete", 2200000000)]
    assert not report.reasons


def test_a_du_beside_ls_is_read(snapshot) -> None:
    text = "$ sh -c 'du -sb /data; ls -l /data'\n4096\t/data\ntotal 4\n" + "-rw-r--r-- 1 root root 40 Feb 20 14:15 a\n" * 2
    rows, report = snapshot(FORMATS, "ls", text)
    assert [(row["path"], row["size_bytes"]) for row in rows["sizes"]][:2] == [("/data", 4096), ("/data/a", 40)]
    assert not report.reasons


def test_df_in_other_units(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "df", "tr07-df.txt")
    assert (rows["filesystems"][0]["mount"], rows["filesystems"][0]["available_bytes"]) == ("/dev/shm", int(6.1 * (1 << 20)))
    text = (
        "Filesystem     Type  1K-blocks  Used Available Use% Mounted on\nnas1:/export/a/very/long/name\n"
        "               nfs4       1000   100       900  10% /models\n"
    )
    rows, _ = snapshot(FORMATS, "df", text)
    row = rows["filesystems"][0]
    assert (row["device"], row["type"], row["size_bytes"], row["mount"]) == (
        "nas1:/export/a/very/long/name",
        "nfs4",
        1024000,
        "/models",
    )


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("              total  used  free\nMem:           3019    58  2388\n", 3019 << 30),
        ("              total  used  free\nMem:         515000    58  2388\n", 515000 << 20),
        ("              total  used  free\nMem:       24684092    58  2388\n", 24684092 << 10),
        ("              total  used  free\nMem:            23Gi   1.6Gi  19Gi\n", 23 << 30),
        ("$ free -m\n              total  used  free\nMem:           7800    58  2388\n", 7800 << 20),
    ],
)
def test_free_units(snapshot, text: str, total: int) -> None:
    rows, report = snapshot(FORMATS, "free", text)
    assert rows["host_memory"][0]["value_bytes"] == total
    assert bool(report.reasons) == ("Gi" not in text and "$" not in text)


def test_mount_forms(snapshot) -> None:
    rows, _ = snapshot(FORMATS, "mount", "vl16-mount.txt")
    assert (rows["filesystems"][0]["device"], rows["filesystems"][0]["type"]) == ("10.2.0.1@o2ib:/lfs1", "lustre")
    for text in ("nas1:/m /nfs nfs4 rw,hard 0 0\n", "TARGET SOURCE  FSTYPE OPTIONS\n/nfs   nas1:/m nfs4   rw,hard\n"):
        rows, _ = snapshot(FORMATS, "mount", text)
        assert (rows["filesystems"][0]["mount"], rows["filesystems"][0]["device"], rows["filesystems"][0]["options"]) == (
            "/nfs",
            "nas1:/m",
            "rw,hard",
        )
