"""`--at`: what could be known at a moment, from evidence that goes on after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kit
from kit.cli import main
from kit.document.text import render
from kit.errors import EvidenceError, UsageError


def test_before_and_after_the_decisive_event(capsys) -> None:
    run = kit.open_run(kit.sample_path("no-weights"))
    before, after = kit.verdict(run, at="2026-11-29 18:55:50"), kit.verdict(run, at="2026-11-29 18:56:02")
    assert (before.state, before.klass, before.captured_at) == ("progressing", "slow_weights", "2026-11-29 18:55:50")
    assert before.facts.value("first_error") is None and before.facts.value("exited") is False
    assert (after.state, after.klass) == ("failed", "worker_crashed") and after.facts.value("first_error")
    assert before.scene.evidence.later > after.scene.evidence.later > 0
    assert max(row["time"] for row in before.scene.evidence.processes) <= before.scene.evidence.run.captured_ns
    assert after.facts.value("exited") is False and kit.verdict(run).facts.value("exited") is True, "it ended two seconds later"
    assert kit.verdict(run).captured_by == "manifest" and run.as_of_ns is None, "the run itself stays as it was"
    text = render(before.document())
    assert "as of 2026-11-29 18:55:50 (asked with --at)" in text
    assert any("rows of after 2026-11-29 18:55:50 are left out" in sentence for sentence in before.missing)
    assert main(["verdict", str(run.path), "--at", "2026-11-29 18:55:50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class"] == "slow_weights"


def test_the_last_line_is_that_of_the_moment() -> None:
    run = kit.open_run(kit.sample_path("healthy-tp2"))
    whole, early = kit.verdict(run), kit.verdict(run, at="2026-11-29 18:51:30")
    assert whole.klass == "ready" and early.state == "progressing" and not early.facts.value("ready")
    assert early.facts.value("last_line") != whole.facts.value("last_line") and early.facts.value("last_line")
    assert early.facts.value("log_lines") is None, "the file has grown since"


@pytest.mark.parametrize(
    ("at", "why"),
    [("2026-11-29 18:55:00", "the launch began at 2026-11-29 18:55:32"), ("2026-11-29 19:00:00", "the evidence ends at")],
)
def test_a_moment_that_the_evidence_does_not_hold(at: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        kit.verdict(kit.sample_path("no-weights"), at=at)


LOG = """\
Starting up
[2026-02-18 00:28:04] server_args=ServerArgs(model_path='/models/m', tp_size=1)
[2026-02-18 00:28:20] Load weight begin. avail mem=94.00 GB
[2026-02-18 00:30:00] Scheduler hit an exception: Traceback (most recent call last):
RuntimeError: something broke
"""


def test_loose_files_count_at_their_stamps_or_at_the_capture(tmp_path: Path) -> None:
    """Lines without a stamp go with the one before them; a snapshot without a time of its own was taken at the capture."""
    (tmp_path / "server.log").write_text(LOG, encoding="utf-8")
    (tmp_path / "status.txt").write_text("Name:\tpython3\nState:\tS (sleeping)\nPid:\t7\nThreads:\t3\n", encoding="utf-8")
    early = kit.verdict(tmp_path, captured_at="2026-02-18 00:31:00", at="2026-02-18 00:29:00")
    assert early.scene.log.records == 3 and early.facts.value("first_error") is None and early.facts.value("threads") is None
    assert early.scene.evidence.later >= 3
    whole = kit.verdict(tmp_path, captured_at="2026-02-18 00:31:00", at="2026-02-18 00:31:00")
    assert whole.facts.value("threads") == 3 and whole.facts.value("first_error") == "something broke"


def test_nothing_was_known_yet(tmp_path: Path) -> None:
    (tmp_path / "status.txt").write_text("Name:\tpython3\nState:\tS (sleeping)\nPid:\t7\nThreads:\t3\n", encoding="utf-8")
    with pytest.raises(EvidenceError, match="no evidence as of 2026-02-18 00:29:00"):
        kit.verdict(tmp_path, captured_at="2026-02-18 00:31:00", at="2026-02-18 00:29:00")


def test_the_run_of_a_moment_leaks_nothing_of_after_it() -> None:
    """Frames, their count, the condensed log and the captures hold what was known, whatever the figure that asks for them."""
    at = "2026-11-29 18:55:50"
    whole, early = kit.open_run(kit.sample_path("no-weights")), kit.open_run(kit.sample_path("no-weights"), at=at)
    moment = early.captured_ns
    rows = {name: (len(whole.frame(name)), len(early.frame(name))) for name in ("log", "processes", "threads", "gpus", "sockets")}
    assert rows["log"][0] > rows["log"][1] > 0 and rows["processes"][0] > rows["processes"][1] > 0
    for name in whole.frames()["frame"]:
        frame = early.frame(name)
        if "time" in frame:
            assert not (frame["time"].dropna().astype("int64") > moment).any(), name
    assert early.frames().set_index("frame")["rows"]["log"] == rows["log"][1] == len(early.condensed_log())
    taken = early.captures_table().dropna(subset=["moment"])["captured"].dropna()
    assert not (taken.astype("int64") > moment).any() and len(early.captures_table()) <= len(whole.captures_table())
    assert kit.verdict(early).klass == kit.verdict(whole, at=at).klass == "slow_weights"
    assert set(early.phases()["phase"]) < set(whole.phases()["phase"])
