"""The library of launches: what is found in a folder, judged once, filtered, and what the launches say together."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit import progress
from kit.analyse.launches import library
from kit.analyse.launches.library import LibraryRun, launches_in, moment, trends
from kit.cli import main
from kit.document import text
from kit.errors import EvidenceError, UsageError
from kit.samples import sample_path

READY = """INFO {at} [api_server.py:1] vLLM API server version 0.11.0
INFO {at} [gpu_model_runner.py:2] Starting to load model tiny...
INFO {at} [default_loader.py:3] Loading weights took 1.20 seconds
INFO:     Application startup complete.
"""
TAKEN = """INFO {at} [api_server.py:1] vLLM API server version 0.11.0
OSError: [Errno 98] Address already in use
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two recorded runs below a folder of a week, loose evidence, a log, an archive, and a run that is damaged."""
    tmp_path = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield filled(tmp_path / "runs")


def filled(runs: Path) -> Path:
    """The folder."""
    for name in ("sg01-capture-hang", "sg02-one-snapshot"):
        shutil.copytree(sample_path(name), runs / "week 7" / name)
    for name, log in (("loose", READY), ("taken", TAKEN)):
        (runs / name).mkdir()
        (runs / name / "server.log").write_text(log.format(at="02-19 08:00:00"))
    (runs / "other.log").write_text(TAKEN.format(at="02-20 08:00:00"))
    with tarfile.open(runs / "mailed.tar.gz", "w:gz") as archive:
        archive.add(sample_path("sg02-one-snapshot"), "run")
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text("{")
    (runs / "notes.md").write_text("no launch")
    return runs


def test_runs_folders_archives_and_logs_are_launches(folder: Path) -> None:
    found = {str(path.relative_to(folder)) for path in launches_in(folder)}
    weeks = {"week 7/sg01-capture-hang", "week 7/sg02-one-snapshot"}
    assert found == {"loose", "taken", "other.log", "mailed.tar.gz", "broken", *weeks}
    assert launches_in(folder / "loose") == [folder / "loose"], "a folder of files alone is one launch"
    assert launches_in(folder / "week 7" / "sg01-capture-hang") == [folder / "week 7" / "sg01-capture-hang"]


def test_each_is_judged_once_until_it_or_what_judges_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    judge, judged = library._judge, []
    monkeypatch.setattr(library, "_judge", lambda path, *more: judged.append(path.name) or judge(path, *more))
    runs, knowledge = tmp_path / "runs", tmp_path / "knowledge"
    for name in ("a", "b"):
        (runs / name).mkdir(parents=True)
        (runs / name / "server.log").write_text(READY.format(at="02-19 08:00:00"))

    def judged_now(**more) -> list[str]:
        judged.clear()
        assert [run.state for run in kit.runs(runs, **more).runs] == ["ready", "ready"]
        return sorted(judged)

    assert judged_now() == ["a", "b"] and judged_now() == []
    log, stat = runs / "a" / "server.log", (runs / "a" / "server.log").stat()
    log.write_text(log.read_text().replace("0.11.0", "0.12.0"))  # as large as before, and of the same time
    os.utime(log, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert judged_now() == ["a"]
    knowledge.mkdir()
    assert judged_now(knowledge=knowledge) == [], "an empty folder of knowledge changes nothing, a file in it may"
    (knowledge / "solved.json").write_text("{}")
    assert judged_now(knowledge=knowledge) == ["a", "b"]
    monkeypatch.setattr(library, "_kit_version", lambda: "another")
    assert judged_now() == ["a", "b"]
    for kept in (tmp_path / "cache").rglob("judged.json"):
        kept.write_text('{"key": 1')
    assert judged_now() == ["a", "b"], "a damaged cache is made again"


def test_a_run_says_what_it_was(folder: Path) -> None:
    found = {run.path: run for run in kit.runs(folder).runs}
    hang, loose, broken = found["week 7/sg01-capture-hang"], found["loose"], found["broken"]
    assert (hang.klass, hang.state, hang.server, hang.world_size, hang.silence_s) == (
        "device_hang",
        "stalled",
        "sglang",
        8,
        6165.0,
    )
    assert hang.at == "2026-02-18 00:28:04" and hang.dated and hang.model.endswith("kimi-k2.5-int4")
    assert loose.worked and loose.state == "ready" and found["taken"].klass == "port_in_use" and found["taken"].worked is False
    assert "broken" in broken.error and not broken.klass
    assert found["mailed.tar.gz"].klass == found["week 7/sg02-one-snapshot"].klass


def test_filters(folder: Path) -> None:
    def paths(**asked) -> set[str]:
        return {run.path for run in kit.runs(folder, **asked).runs}

    assert paths(klass="port_in_use") == {"taken", "other.log"} and paths(klass="ready") == {"loose"}
    assert paths(text="KIMI") >= {"week 7/sg01-capture-hang"} and "loose" not in paths(text="kimi")
    assert paths(since="2026-02-20 00:00") & {"week 7/sg01-capture-hang", "week 7/sg02-one-snapshot"} == {
        "week 7/sg02-one-snapshot"
    }
    with pytest.raises(UsageError, match="no run is device_hung: the runs are .*device_hang"):
        kit.runs(folder, klass="device_hung")
    with pytest.raises(UsageError, match="is not a time"):
        kit.runs(folder, since="yesterday")
    with pytest.raises(EvidenceError, match="no such folder"):
        kit.runs(folder / "none")
    assert moment("3d", now_ns=3 * 86400 * 10**9) == 0


def test_the_command_prints_a_line_a_run_what_is_damaged_and_json(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["runs", str(folder)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("7 launches: ") and "1 could not be read" in told.split("\n")[0]
    assert "its port is in use (port_in_use): 2 of the last 5 launches" in told
    wide = text.render(kit.runs(folder).document(), 200)
    (line,) = [line for line in wide.split("\n") if "sg01-capture-hang" in line]
    assert "02-18 00:28" in line and "the GPU does not finish" in line and "90 %" in line and "1 h 42 min" in line
    assert "  ! broken: " in told
    assert main(["runs", str(folder), "--class", "stalled", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["total"] == 7 and [run["class"] for run in answer["runs"]] == ["device_hang"]


def run(number: int, state: str, klass: str = "hang", ready_s: float | None = None, model: str = "m") -> LibraryRun:
    name = f"r{number:02}"
    about = {"server": "vllm", "model": model, "plain": "it hangs", "klass": klass, "at": f"2026-02-{number:02} 08:00"}
    return LibraryRun(name, name, at_ns=number, state=state, ready_s=ready_s, **about)


def test_trends() -> None:
    good = [run(number, "ready", "ready", 40.0) for number in range(6, 0, -1)]
    assert trends(good) == []
    assert trends([run(7, "ready", "ready", 100.0), *good]) == [
        "vllm m: the last one was ready after 100 s, 2.5 times the median of the 6 before"
    ]
    broke = trends([run(9, "failed"), run(8, "stalled"), *good])
    assert broke[0] == "vllm m: none of the last 2 launches worked (since r08, 2026-02-08); before, 6 of 6 did"
    assert broke[1] == "it hangs (hang): 2 of the last 5 launches, 0 of the 3 before"
    crashed_later = run(9, "failed", "worker_crashed", 30.0)
    assert not any("worked" in said for said in trends([crashed_later, *good])), "it did become ready"
    mended = trends([*good, run(0, "stalled"), run(0, "stalled")])
    assert mended == ["it hangs (hang): 2 of the 3 launches before the last 5, none since; the last was r00, 2026-02-00"]
    assert not any("worked" in said for said in trends([run(9, "failed", model="other"), *good])), "another model, another story"


def test_progress_over_several_runs_is_that_of_all() -> None:
    shares: list[float] = []
    with progress.listening(shares.append):
        for _ in progress.each(["a", "b"]):
            progress.expect(10)
            progress.read(5)
            progress.read(5)
    assert shares == [0.25, 0.5, 0.5, 0.75, 1.0]
