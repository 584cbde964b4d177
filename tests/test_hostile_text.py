"""Text of the evidence is data: in no verb, no form and no error does it steer the terminal or the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import kit
from kit.cli import main
from kit.document import Command, Document, Item, Section, Table, Values, html, markdown, text
from kit.errors import EvidenceError

STEERS = "\x1b[2J\x1b]0;owned\x07\x9b2J\x85\u202egpj.exe\u2066\u200f\x7f\b"
WRONG = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
LOG = (
    "[2026-02-18 00:28:20] server_args=ServerArgs(model_path='/m/{0}', tp_size=2, port=30000)\n"
    "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n"
    "[2026-02-18 00:28:27 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "a{0}.py", line 7, in run\n'
    "RuntimeError: CUDA error {0}: out of memory\n"
)


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    folder = tmp_path / "a\u202eb"
    folder.mkdir()
    (folder / "server\x1b[31m\u202e.log").write_text(LOG.format(STEERS))
    return folder


VERBS = (
    ["verdict", "{}"],
    ["verdict", "{}", "--markdown"],
    ["verdict", "{}", "--brief"],
    ["verdict", "{}", "--json"],
    ["compare", "{}", "{}"],
    ["attempts", "{}", "{}"],
    ["similar", "{}", "{}"],
    ["calls", "{}"],
    ["verdict", "{}/none"],
    ["bench", "{}/none"],
    ["export", "{}", "no\x1b[31mframe", "-o", "a.csv"],
    ["pull", "ftp://\x1b[2J", "/x", "-o", "{}/out"],
    ["watch", "ftp://\x9b2J"],
    ["triage", "ftp://\u202e"],
)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_lets_evidence_steer_the_terminal(words: list[str], launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        main([word.format(launch) for word in words])
    except SystemExit as refused:
        assert refused.code == 2
    out, err = capsys.readouterr()
    assert out + err and not WRONG.findall(out + err)


def test_json_says_what_the_evidence_says(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verdict", str(launch), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(launch)


def test_no_renderer_lets_it_through() -> None:
    blocks = [Item(STEERS, where=STEERS, small=STEERS), Command(STEERS, STEERS), Values({STEERS: STEERS})]
    table = Table((STEERS, "y"), [(STEERS, STEERS)], caption=STEERS)
    document = Document(STEERS, [Section(STEERS, [*blocks, table])], STEERS, Command(STEERS))
    for rendered in (text.render(document), markdown.render(document), html.render(document)):
        assert "gpj.exe" in rendered and not WRONG.findall(rendered)
    coloured = re.sub(r"\x1b\[[\d;]*m", "", text.render(document, colour=True))  # the kit's own colours
    assert not WRONG.findall(coloured)


def test_errors_are_shown_as_text() -> None:
    error = EvidenceError(f"no {STEERS}", STEERS, STEERS)
    assert "\\x1b[2J" in str(error)
    assert not WRONG.findall(str(error) + error._repr_html_())


def test_a_notebook_shows_it_as_text(launch: Path) -> None:
    judged = kit.verdict(launch)
    assert not WRONG.findall(judged._repr_html_() + str(judged) + str(kit.open_run(launch)))
