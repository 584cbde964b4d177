"""Logs by form: ends, refusals, farewells and frights of many programs, each with the state that it leaves the launch in."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import kit

FORMS = {entry["name"]: entry for entry in tomllib.loads(Path("tests/data/forms.toml").read_text("utf-8"))["log"]}


@pytest.mark.parametrize("name", FORMS)
def test_the_state_by_form(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    (tmp_path / form.get("file", "server.log")).write_text(form["text"])
    verdict = kit.verdict(tmp_path, captured_at=form.get("at"))
    assert verdict.state in form["state"]
    if "class" in form:
        assert verdict.klass in form["class"]
    if "ready" in form:
        assert bool(verdict.facts.value("ready")) == form["ready"]
    if "first" in form:
        said = (verdict.facts.value("first_error") or "").lower()
        assert any(text.lower() in said for text in form["first"])


def test_what_no_format_knows_is_read_as_a_log_where_a_program_printed_it(tmp_path: Path) -> None:
    (tmp_path / "job.o412").write_text("on 4 cards\n==> Error: two packages match\n/x/run.sh: line 9: 412 Killed   python t.py\n")
    verdict = kit.verdict(tmp_path)
    assert (verdict.state, verdict.facts.value("signal")) == ("failed", 9)
