"""The documentation holds: pages and links, the commands that it names, and the examples that it promises to work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kit
from kit import plot
from kit.cli import parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^ *```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    """Blocks of code of a kind on a page."""
    return [found["text"] for found in FENCE.finditer(page.read_text(encoding="utf-8")) if found["kind"] == kind]


def commands() -> list[str]:
    """Every command of the kit that a page names."""
    lines = [line.strip() for page in PAGES for text in blocks(page, "sh") for line in text.splitlines()]
    named = [found[1] for page in PAGES for found in re.finditer(r"<!-- run: (kit .+?) -->", page.read_text(encoding="utf-8"))]
    return sorted({line.removeprefix("xclip -o | ").split("  #")[0] for line in lines + named if re.search(r"(^|\| )kit ", line)})


@pytest.mark.parametrize("command", commands())
def test_commands_are_those_of_the_command_line(command: str) -> None:
    parser().parse_args(shlex.split(command.replace("PID", "4711"))[1:])


def test_the_gallery_shows_every_plot() -> None:
    shown = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert not [name for name in plot.__all__ if name.startswith("plot_") and f"plot.{name}(" not in shown]


def test_a_server_that_is_described_as_the_page_says_is_known(tmp_path: Path) -> None:
    page = ROOT / "docs" / "howto" / "add-a-server.md"
    (grammar,), (log,) = blocks(page, "toml"), blocks(page, "text")
    (tmp_path / "mine" / "logs").mkdir(parents=True)
    (tmp_path / "mine" / "logs" / "mill.toml").write_text(grammar)
    (tmp_path / "server.log").write_text(log)
    found = kit.verdict(tmp_path / "server.log", knowledge=tmp_path / "mine", captured_at="2026-03-01T10:40Z")
    assert (found.phase, found.facts.value("silence_s")) == ("weights", pytest.approx(39 * 60 + 5))
    assert found.facts.value("ready") is False


def test_a_signature_written_as_the_page_says_names_its_remedy(tmp_path: Path) -> None:
    (signature,) = blocks(ROOT / "docs" / "howto" / "add-a-signature.md", "toml")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "signatures.toml").write_text(signature)
    (tmp_path / "server.log").write_text(
        "2026-03-01 10:00:05 INFO loading\n2026-03-01 10:00:06 ERROR tensor cache is taken\n" * 3
    )
    assert "give each launch a cache of its own" in str(kit.verdict(tmp_path / "server.log", knowledge=tmp_path / "mine"))


def test_the_site_builds_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_DOCS_DRAFT", "1")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    html = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "tutorial.html", "gallery.html", "add-a-server.html"} <= html.keys()
    fetched = re.compile(r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//|<link[^>]+href=\"(?:https?:)?//")
    assert not [name for name, text in html.items() if fetched.search(text)], "the site needs no network"
