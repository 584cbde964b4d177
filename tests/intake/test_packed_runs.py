"""A recorded run in an archive is that run; a capture whose kind its manifest does not name is cut like any file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kit


@pytest.mark.parametrize("form", ["zip", "gztar"])
def test_a_run_in_an_archive_is_judged_as_the_run(tmp_path: Path, form: str) -> None:
    run = Path(kit.sample_path("stopped-rank"))
    packed = shutil.make_archive(str(tmp_path / "evidence"), form, run.parent, run.name)
    shut, opened = kit.open_run(packed), kit.open_run(run)
    assert shut.name == opened.name and shut.captured_by == "manifest"
    assert [(one.file, one.kind, one.captured_ns) for one in shut.captures] == [
        (one.file, one.kind, one.captured_ns) for one in opened.captures
    ]
    assert str(shut.path) == packed


def test_an_archive_that_only_names_a_manifest_is_loose_files(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"what": "a launch of npm"}')
    (tmp_path / "io.txt").write_text("rchar: 10\nwchar: 2\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\n")
    run = kit.open_run(shutil.make_archive(str(tmp_path.parent / "all"), "zip", tmp_path))
    assert {one.kind for one in run.captures} == {"proc_io", None} and not run.recorded


def test_a_capture_of_no_declared_kind_is_cut(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/paste.txt").write_text(
        "$ cat /proc/7/wchan\nep_poll\n$ nvidia-smi -L\nGPU 0: Tesla T4 (UUID: GPU-0a)\n$ tail server.log\n"
        "[2026-03-01 12:00:00 TP0] Load weight begin. avail mem=93.41 GB\n"
    )
    entry = {"file": "raw/paste.txt", "captured_at": "2026-03-01T12:05:00Z", "pid": 7}
    manifest = {"format": "stallkit-run", "version": 1, "name": "x", "captures": [entry]}
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    run = kit.open_run(tmp_path)
    assert {one.kind for one in run.captures} >= {"log", "nvidia_list"}
    assert {(one.file, one.pid, one.captured_ns) for one in run.captures} == {("raw/paste.txt", 7, 1772366700 * 10**9)}
