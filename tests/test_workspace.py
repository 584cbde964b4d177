"""Notebooks in somebody's folder: copied once, never over their own work, never among the evidence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
import pytest

from kit import workspace
from kit.cli import main
from kit.errors import EvidenceError


def test_copies_leave_what_is_there(tmp_path: Path, capsys) -> None:
    assert main(["notebooks", str(tmp_path / "work")]) == 0
    first = tmp_path / "work" / workspace.START
    first.write_text("mine")
    assert main(["notebooks", str(tmp_path / "work")]) == 0
    assert first.read_text() == "mine"
    assert {path.name for path in (tmp_path / "work").iterdir()} == {path.name for path in workspace.own_notebooks()}
    assert str(tmp_path / "work") in capsys.readouterr().out


def test_the_post_mortem_of_a_launch_lies_beside_your_work(tmp_path: Path) -> None:
    evidence = tmp_path / "it's a launch"
    evidence.mkdir()
    (evidence / "server.log").write_text("x")
    made = workspace.notebook_of(evidence, tmp_path / "work", "2026-02-18 00:40:00")
    assert made == tmp_path / "work" / "it's a launch.postmortem.ipynb"
    book = nbformat.read(made, as_version=4)
    nbformat.validate(book)
    names: dict = {}
    exec(next(cell.source for cell in book.cells if "parameters" in cell.metadata.get("tags", [])), names)
    assert (names["run_path"], names["captured_at"]) == (str(evidence), "2026-02-18 00:40:00")
    assert [path.name for path in evidence.iterdir()] == ["server.log"]
    made.write_text("mine")
    assert workspace.notebook_of(evidence, tmp_path / "work").read_text() == "mine"


def test_what_cannot_be_opened_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no such file"):
        workspace.notebook_of(tmp_path / "nothing", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EvidenceError, match="holds no files"):
        workspace.notebook_of(tmp_path / "empty", tmp_path)
    (tmp_path / "taken").write_text("")
    with pytest.raises(EvidenceError, match="cannot make"):
        workspace.notebooks(tmp_path / "taken")


def test_a_kernel_for_a_hub_is_this_python(tmp_path: Path) -> None:
    about = json.loads((workspace.install_kernel(tmp_path) / "kernel.json").read_text())
    assert about["argv"][0] == sys.executable and about["display_name"] == "stallkit"
