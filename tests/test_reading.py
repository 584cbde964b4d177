"""Captures are read once, what was read is kept, and that a capture changed is noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import kit
from kit import plot, show, store
from kit.analyse.verdict.evidence import Evidence, gather
from kit.analyse.verdict.scene import scene_of_run
from kit.frames import FRAMES
from kit.live.watch import watch_frame
from kit.parse import formats, log_fast
from kit.run import Run
from tests.test_run import LINE, recorded


def read_of(run: Run) -> set[str]:
    return {capture.kind for capture in run.captures if run.reads[capture.file]}


def test_a_post_mortem_reads_each_capture_once() -> None:
    run = kit.open_run(kit.sample_path("stopped-rank"))
    verdict = kit.verdict(run)
    plot.plot_timeline(run, verdict=verdict)
    show.ledger(run), show.log_around(run.condensed_log()), run.phases(), run.frames(), run.captures_table()
    for name, frame in FRAMES.items():
        assert len(run.frame(name)) == len(run.rows(name)), frame.name
    assert run.reads == {capture.file: 1 for capture in run.captures if capture.kind}


def test_a_redraw_reads_each_capture_once() -> None:
    run = kit.open_run(kit.sample_path("pipe-ticker"))
    watch_frame(run)
    assert set(run.reads.values()) == {1}


def test_only_captures_that_can_give_a_frame_are_read() -> None:
    run = kit.open_run(kit.sample_path("pipe-ticker"))
    assert len(run.frame("syscalls")) and read_of(run) == {"strace"}
    run = kit.open_run(kit.sample_path("pipe-ticker"))
    assert len(run.rows("stacks")) and all("stacks" in formats()[kind].frames for kind in read_of(run))


def test_evidence_and_scene_are_made_once_and_kept_with_the_verdict() -> None:
    run = kit.open_run(kit.sample_path("sg01-capture-hang"))
    verdict = kit.verdict(run)
    assert verdict.scene is scene_of_run(run) and verdict.scene.evidence.run is run
    made: list[Run] = []
    assert run.derived(made.append) is run.derived(made.append) and made == [run]


def test_evidence_has_an_attribute_for_each_frame_that_is_kept() -> None:
    evidence = gather(kit.open_run(kit.sample_path("sg01-capture-hang")))
    kept = {name for name, frame in FRAMES.items() if frame.keep}
    assert kept == evidence.rows.keys() and all(getattr(evidence, name) is evidence.rows[name] for name in kept)
    assert not hasattr(Evidence, "__getattr__") and len(evidence.gpus) == 8


def test_a_capture_that_changes_between_two_reads_is_read_again_and_said(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LINE * 2)
    run = kit.open_run(tmp_path)
    kit.verdict(run)
    assert not run.unread()
    path.write_text(LINE * 3)
    assert len(run.log) == 3 and kit.verdict(run).facts.value("log_lines") == 3
    assert ["server.log changed while it was read" in remark for remark in run.unread()] == [True]


def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LINE)
    stat = path.stat()
    run = kit.open_run(tmp_path)
    assert run.log["level"].isna().all() and run.log["rank"].tolist() == [0]
    with open(path, "r+") as file:
        file.write(LINE.replace("TP0", "TP7"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert run.log["rank"].tolist() == [7]


def test_a_capture_that_is_recorded_right_now_may_grow(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LINE)
    run = kit.open_run(tmp_path)
    run.captures[0].growing = True
    kit.verdict(run)
    path.write_text(LINE * 2)
    assert len(run.log) == 2 and not run.unread()


def test_frames_of_large_captures_lie_in_the_cache_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "run", lines=50)
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 0)
    run = kit.open_run(folder)
    kit.verdict(run)
    assert len(run.log) == 50 and run.stacks.empty and run.reads["raw/server.log"] == 2
    again = kit.open_run(folder)
    pd.testing.assert_frame_equal(again.log, run.log)
    pd.testing.assert_frame_equal(again.frame("log", ["t_s", "rank"]), run.log[["t_s", "rank"]])
    assert again.frames().set_index("frame").loc["log", ["rows", "files"]].tolist() == [50, "raw/server.log"]
    assert again.reads["raw/server.log"] == 0


def test_many_rows_of_a_small_capture_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_ROWS", 7)
    folder = recorded(tmp_path / "run", lines=20)
    run = kit.open_run(folder)
    kit.verdict(run)
    assert len(run.log) == 20 and len(list((folder / "frames").glob("*/log.parquet"))) == 1


def test_without_room_for_a_cache_the_frame_is_there_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "run", lines=5)
    (folder / "frames").write_text("no folder")
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 0)
    run = kit.open_run(folder)
    assert len(run.log) == 5 and run.frames()["frame"].tolist() == ["log"]


def test_what_parsers_did_not_understand_is_a_frame(tmp_path: Path) -> None:
    (tmp_path / "free.txt").write_text("              total   used   free\nMem:  8  4  4\n?? what\n")
    run = kit.open_run(tmp_path)
    row = run.notes.set_index("text").loc["?? what"]
    assert (row["capture"], row["count"]) == ("free.txt", 1) and len(run.notes) == len(run.reports["free.txt"].reasons)


def nccl_log(path: Path, lines: int) -> None:
    body = (f"n{i % 2}:70{i % 8}:812 [{i % 8}] NCCL INFO Ring {i % 16:02d} : {i} -> {i + 1}\n" for i in range(lines))
    path.write_text(LINE + "".join(body) + LINE.replace("begin", "end").replace("00:28:26", "00:29:26"))


def test_a_condensed_log_counts_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nccl_log(tmp_path / "server.log", 20_000)
    whole = kit.open_run(tmp_path).condensed_log()
    assert whole["records"].isna().all() and len(whole) == 20_002
    monkeypatch.setattr(log_fast, "FROM_BYTES", 1 << 16)
    run = kit.open_run(tmp_path)
    verdict, log = kit.verdict(run), run.condensed_log()
    weight = log["records"].fillna(1)
    assert weight.sum() == 20_002 and len(log) < 6_000
    assert weight.groupby(log["kind"]).sum().to_dict() == whole.groupby("kind").size().to_dict()
    assert log["milestone"].dropna().tolist() == whole["milestone"].dropna().tolist()
    assert log["line"].is_monotonic_increasing and run.reads["server.log"] == 1
    assert "20,002 records" in plot.describe_log_rate(log) and "20,002" in plot.figure_alt(
        plot.plot_timeline(run, verdict=verdict)
    )
    assert "records that repeat others" not in show.log_around(log, 0, 0).rows[0][-1]


def test_conveniences() -> None:
    run = kit.open_run(kit.sample_path("sg01-capture-hang"))
    assert repr(run).startswith("<Run sg01-capture-hang: ") and len(repr(run)) < 90
    assert {"log", "gpus", "threads"} <= set(dir(run)) and not hasattr(run, "thread") and not hasattr(run, "bench_runs")
    pd.testing.assert_frame_equal(run.gpus, run.frame("gpus"))
    present = run.frames().set_index("frame")
    assert present.loc["gpus", "rows"] == 8 and "nvidia-smi" in present.loc["gpus", "files"]
    assert run.phases()["phase"].iloc[-1] == "post_load"
    table = run.captures_table()
    assert table["file"].tolist() == [capture.file for capture in run.captures]
    assert table.set_index("kind").loc["log", ["lines", "records"]].tolist() == [226, 226]
