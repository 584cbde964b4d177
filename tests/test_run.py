"""Opening runs: recorded, loose, one file; bad input; the cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import kit
from kit import store
from kit.errors import EvidenceError, UsageError

LINE = "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n"


def test_content_wins_over_the_name(tmp_path: Path) -> None:
    (tmp_path / "strace.txt").write_text(LINE * 3)
    run = kit.open_run(tmp_path)
    assert run.captures[0].kind == "log"
    assert run.captures[0].promised == "strace"
    kit.verdict(run)
    assert any("strace.txt holds log" in said for said in run.unread())


def test_one_file_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_text(LINE)
    assert kit.open_run(path).frame("log")["milestone"].tolist() == ["weights_begin"]


def test_missing_source_is_an_empty_frame(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE)
    assert kit.open_run(tmp_path).frame("gpus").empty


def test_unknown_frame_names_the_closest(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE)
    with pytest.raises(UsageError, match="threads"):
        kit.open_run(tmp_path).frame("thread")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no such file"):
        kit.open_run(tmp_path / "nowhere")
    with pytest.raises(EvidenceError, match="no evidence"):
        kit.open_run(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 5000,
        b"\xff\xfe\x00\x01garbage\x9c" * 200,
        LINE.encode("utf-16"),
        LINE.encode() + b"[2026-02-18 00:2",
        b"x" * 10_000_000,
        LINE.replace("\n", "\0\n").encode() * 4,
        b"\x80PNG\r\n" + os.urandom(4000),
    ],
    ids=["empty", "nul", "binary", "utf-16", "cut", "10 MB in one line", "NUL bytes", "random"],
)
@pytest.mark.parametrize("name", ["server.log", "status.txt", "strace.txt", "nvidia-smi.csv", "pyspy.json"])
def test_bad_content_never_raises_and_is_said(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "other.log").write_text(LINE)
    found = kit.verdict(tmp_path)
    assert found.phase in ("weights", "launch")
    if content in (b"",):
        assert any("is empty" in said for said in found.missing)


@pytest.mark.parametrize("content", [b"hello\n", b"\x89PNG\r\n" + bytes(range(256)) * 40], ids=["words", "picture"])
def test_folder_without_evidence_says_what_was_not_recognised(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "status.txt").write_bytes(content)
    with pytest.raises(EvidenceError, match="status.txt (was not recognised|is a picture)"):
        kit.verdict(tmp_path)


def test_a_few_last_lines_are_opened_and_what_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "last_lines.txt").write_text("Using the usual precision\nAccepting this combination of versions\n")
    (tmp_path / "notes.md").write_text("It hangs. What could it be?\n")
    found = kit.verdict(tmp_path)
    assert (found.klass, found.state) == ("undetermined", "stalled")
    assert found.next and any("stacks of all ranks" in said for said in found.missing)
    (tmp_path / "last_lines.txt").write_text("42\n\n")
    assert kit.verdict(tmp_path).klass == "undetermined", "what its reporter says is little, but not nothing"
    (tmp_path / "notes.md").write_text("What could it be?\n")
    with pytest.raises(EvidenceError, match="no evidence"):
        kit.verdict(tmp_path)


@pytest.mark.parametrize("name", ["cmd.txt", "ps.txt", "last_lines.txt"])
def test_last_lines_of_any_line_ends_and_name_are_read(name: str, tmp_path: Path) -> None:
    text = "main: binding port with default address family\nmain: couldn't bind HTTP server socket, hostname: ::, port: 8080\n"
    (tmp_path / name).write_bytes(text.replace("\n", "\r\n").encode())
    assert kit.verdict(tmp_path).klass == "port_in_use"


def test_utf16_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes((LINE * 2).encode("utf-16"))
    assert kit.verdict(tmp_path).facts.value("log_lines") == 2


def test_no_permission_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    (tmp_path / "a.log").write_text(LINE)
    (tmp_path / "a.log").chmod(0)
    (tmp_path / "b.log").write_text(LINE)
    found = kit.verdict(tmp_path)
    assert any("a.log" in said for said in found.missing)


def recorded(folder: Path, lines: int = 3) -> Path:
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "server.log").write_text(LINE * lines)
    (folder / "run.json").write_text(
        json.dumps(
            {
                "format": "stallkit-run",
                "version": 1,
                "name": "demo",
                "ended_at": "2026-02-18T00:30:00Z",
                "utc_offset_s": 0,
                "launch": {"started_at": "2026-02-18T00:28:00Z"},
                "missing": [{"what": "stacks", "why": "no py-spy", "do": "pip install py-spy"}],
                "captures": [
                    {"file": "raw/server.log", "kind": "log", "captured_at": "2026-02-18T00:30:00Z", "whole": True},
                    {"file": "raw/gone.txt", "kind": "ps"},
                ],
            }
        )
    )
    return folder


def test_recorded_run_has_launch_zero_and_says_what_is_missing(tmp_path: Path) -> None:
    run = kit.open_run(recorded(tmp_path / "run"))
    assert run.frame("log")["t_s"].tolist() == [26.0] * 3
    found = kit.verdict(run)
    assert found.captured_by == "manifest"
    assert any("no py-spy" in said for said in found.missing)
    assert any("gone.txt" in said for said in found.missing)


def test_manifest_cannot_point_outside_the_run(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    (tmp_path / "secret.log").write_text(LINE)
    manifest["captures"].append({"file": "../secret.log", "kind": "log"})
    (folder / "run.json").write_text(json.dumps(manifest))
    assert [capture.file for capture in kit.open_run(folder).captures] == ["raw/server.log"]


def test_cache_gives_the_same_frame_and_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "run", lines=50)
    plain = kit.open_run(folder).frame("log")
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 0)
    monkeypatch.setattr(store, "CHUNK_ROWS", 7)
    first = kit.open_run(folder).frame("log")
    assert list((folder / "frames").glob("*/log.parquet"))
    again = kit.open_run(folder).frame("log")
    import pandas as pd

    pd.testing.assert_frame_equal(plain, first)
    pd.testing.assert_frame_equal(plain, again)
    with open(folder / "raw" / "server.log", "a") as file:
        file.write(LINE)
    assert len(kit.open_run(folder).frame("log")) == 51
    assert len(list((folder / "frames").glob("*/log.parquet"))) == 1


def test_time_of_the_newest_file_serves_and_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE)
    found = kit.verdict(tmp_path)
    assert found.captured_by == "file time"
    assert any("--captured-at" in said for said in found.missing)
    assert found.facts.value("silence_s") is None


def test_time_as_given_gives_silence(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE)
    assert kit.verdict(tmp_path, "2026-02-18 00:29:26").facts.value("silence_s") == 60


def test_gaps_are_rows(tmp_path: Path) -> None:
    gap = {"from": "2026-02-18T00:00:10.000000Z", "to": "2026-02-18T00:00:25.500000Z", "why": "the connection was lost"}
    manifest = {"format": "stallkit-run", "name": "run", "captures": [], "missing": [], "gaps": [gap]}
    manifest["launch"] = {"started_at": "2026-02-18T00:00:00.000000Z"}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/server.log").write_text(LINE)
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    (row,) = kit.open_run(tmp_path).frame("gaps").to_dict("records")
    assert (row["t_s"], row["duration_s"], row["why"], row["capture"]) == (10.0, 15.5, "the connection was lost", "run.json")
    assert kit.open_run(tmp_path).rows("gaps")[0]["end"] - row["time"].value == 15_500_000_000


def test_several_paths_are_one_launch(tmp_path: Path) -> None:
    for folder, name, text in (("a", "server.log", LINE), ("b", "status.txt", "Name:\tpython\nState:\tS (sleeping)\nPid:\t7\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    run = kit.open_run([tmp_path / "a" / "server.log", tmp_path / "b"])
    assert [(capture.file, capture.kind) for capture in run.captures] == [
        ("a/server.log", "log"),
        ("b/status.txt", "proc_status"),
    ]


def test_the_standard_input_is_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE.encode())))
    assert kit.verdict("-").phase == "weights"


def test_a_paste_points_into_itself(tmp_path: Path) -> None:
    text = f"It hangs.\n\n```\n{LINE}```\n\n```\n$ cat /proc/7/status\nName:\tpython\nState:\tS (sleeping)\nPid:\t7\n```\n"
    path = tmp_path / "issue.md"
    path.write_text(text + "\n```yaml\nservices:\n  a: b\n```\n\n```\nwho knows\n```\n")
    run = kit.open_run(path)
    assert run.rows("log")[0]["line"] == 4 and run.rows("processes")[0]["capture"] == "issue.md"
    assert [(row["line"], row["reason"].split(",")[0]) for row in run.rows("notes")] == [
        (15, "is a compose file"),
        (20, "a block of code that no parser knows"),
    ]


def test_a_rotated_log_is_one_in_order(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "server.log.2.gz").write_bytes(gzip.compress(LINE.encode()))
    (tmp_path / "server.log.1").write_text(LINE.replace("28:26", "28:27"))
    (tmp_path / "server.log").write_text(LINE.replace("28:26", "28:28") * 2)
    run = kit.open_run(tmp_path)
    assert [(row["capture"], row["line"]) for row in run.rows("log")] == [
        ("server.log.2", 1),
        ("server.log.1", 1),
        ("server.log", 1),
        ("server.log", 2),
    ]


def test_the_log_of_the_launch_before_is_set_aside_and_named(tmp_path: Path) -> None:
    (tmp_path / "previous.log").write_text("RuntimeError: no\n" + LINE)
    (tmp_path / "server.log").write_text(LINE)
    run = kit.open_run(tmp_path)
    assert [capture.file for capture in run.captures] == ["server.log"]
    assert run.unread() == ["previous.log is the log of the launch before, by its name, and was set aside"]


def test_a_large_folder_is_read_in_part_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.loose.MOST_FILES", 2)
    for number in range(4):
        (tmp_path / f"{number}.log").write_text(LINE)
        os.utime(tmp_path / f"{number}.log", (number, number))
    run = kit.open_run(tmp_path)
    assert [capture.file for capture in run.captures] == ["2.log", "3.log"]
    assert "holds 4 files" in run.unread()[0]


@pytest.mark.parametrize(
    ("stamps", "wanted"),
    [(["+08:00"] * 2, 8 * 3600), (["-0330"], -12600), (["+08:00", "+09:00"], None), (["Z"], None), (["+00:00"], None)],
)
def test_the_zone_of_the_host_is_that_of_its_stamps(tmp_path: Path, stamps: list[str], wanted: int | None) -> None:
    (tmp_path / "server.log").write_text("".join(f"2026-03-01T12:00:00.25{zone} INFO a line of a log\n" for zone in stamps))
    run = kit.open_run(tmp_path, captured_at="2026-03-01 12:01:00")
    assert run.offset_known == (wanted is not None)
    assert run.offset_s == (wanted or 0)


@pytest.mark.parametrize(
    ("case", "noted"),
    [
        ("given/sg06", [("free.txt", "unit of free is not shown, taken as GiB", 1)]),  # a guess that is said; its rows are read
        (  # what the person tried, and how the tools answered
            "kinds/h45",
            [
                ("kill.txt", "output of `sudo rmmod nvidia_uvm` that no parser knows", 1),
                ("kill.txt", "output of a command that no parser knows", 1),
            ],
        ),
        ("surroundings/h433", [("ps.txt", "no line of ps", 1)]),  # a prompt of another node above the table
        ("surroundings/h434", [("ss.txt", "no socket", 1)]),  # a prompt again
        ("surroundings/h439", [("nvidia-smi.csv", "line of nvidia-smi is cut", 1)]),  # `echo $?` below a query that timed out
    ],
)
def test_a_case_loses_no_line_that_is_evidence(case: str, noted: list[tuple]) -> None:
    run = kit.open_run(Path(__file__).parent / "data" / "cases" / case)
    assert [
        (row["capture"], row["reason"], row.get("count")) for row in run.rows("notes") if row["capture"] != "case.json"
    ] == noted
