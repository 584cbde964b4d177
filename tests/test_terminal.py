"""Documents in a terminal: colours where they belong, no broken word or table at any width, commands that can be copied."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from functools import cache
from pathlib import Path

import pytest

import kit
from kit.document import Command, Document, Section, Shown, Table, text

ANSWERS = {
    "a verdict": lambda: kit.verdict(kit.sample_path("sg01-capture-hang")),
    "benchmarks": lambda: kit.bench(*([kit.sample_path("bench/serve") / f"{side}-1-1.json"] for side in ("eager", "compiled"))),
    "a comparison": lambda: kit.compare(kit.sample_path("sg01-capture-hang"), kit.sample_path("sg02-one-snapshot")),
}


@cache
def document(what: str) -> Document:
    answer: Shown = ANSWERS[what]()
    return answer.document()


def test_in_a_notebook_text_stays_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    text.write(document("a verdict"))
    assert capsys.readouterr().out.startswith("stalled in post_load")


@pytest.mark.parametrize("what", ANSWERS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_word_is_broken_and_no_line_is_too_long(what: str, width: int) -> None:
    told = text.render(document(what), width, fold=True)
    known = set(text.render(document(what), 5000).split())
    long_words = [word for word in known if len(word) > text.LONGEST_WORD]
    broken = [word for word in told.split() if word not in known and word.strip("…\\")]
    assert not [part for part in broken if not any(part.strip("…") in word for word in long_words)]
    long = [line for line in told.split("\n")[:-1] if len(line) > width]
    assert not [line for line in long if max(map(len, line.split())) < width // 2], "only a long word may go beyond"


def test_the_first_line_is_the_answer_and_the_last_the_report() -> None:
    lines = text.render(document("a verdict"), 80, fold=True).split("\n")
    assert lines[0].startswith("stalled in post_load: the GPU does not finish")
    assert lines[-1] == f"$ kit report {kit.sample_path('sg01-capture-hang')}"


def test_a_number_keeps_its_unit() -> None:
    words = " ".join(["word " * (n % 7) + f"{n} %" for n in range(200)])
    assert not [line for line in text.render(Document(words), 60).split("\n") if line.startswith("%")]


def test_a_folded_command_is_the_same_command() -> None:
    command = (
        """printf '[%s]' "$(echo 'one  two')" 'a file with a long name.txt' --attention-backend triton "it's   all one" \\; end"""
    )
    lines = text.folded(command, 40)
    assert len(lines) > 3 and all(line.endswith(" \\") for line in lines[:-1]) and max(map(len, lines)) <= 40
    whole, copied = (subprocess.run(["sh", "-c", one], capture_output=True) for one in (command, "\n    ".join(lines)))
    assert copied.stdout == whole.stdout and whole.stdout.startswith(b"[one  two][a file with a long name.txt]")
    assert text.folded("ls # a remark that goes on and on and on", 20) == ["ls # a remark that goes on and on and on"]


@pytest.mark.parametrize(
    ("variables", "of_terminal", "of_pipe"),
    [({}, True, False), ({"NO_COLOR": "1"}, False, False), ({"FORCE_COLOR": "1"}, True, True), ({"TERM": "dumb"}, False, False)],
)
def test_colours_go_to_terminals(
    variables: dict, of_terminal: bool, of_pipe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    command = "kubectl exec -n a-name-space pod/a-pod-with-a-long-name -- ss -tanp > ss.txt"
    told = Document("stalled", [Section("next", [Command(command)])], tone="stalled")
    leader, follower = os.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with open(follower, "w", encoding="utf-8") as terminal:
        text.write(told, terminal)
        shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert ("\x1b[1;31mstalled" in shown) is of_terminal
    assert max(map(len, re.sub(r"\x1b\[[\d;]*m", "", shown).split("\r\n"))) <= 60
    with open(tmp_path / "pipe", "w+", encoding="utf-8") as pipe:
        text.write(told, pipe)
        pipe.seek(0)
        piped = pipe.read()
    assert ("\x1b" in piped) is of_pipe and command in piped, "a pipe gets a command in one line"


def test_a_table_that_would_break_words_is_told_as_records() -> None:
    heads = ("setting", "first launch", "second launch", "third launch")
    rows = [("attention_backend", "flashinfer_mla_backend", "flashinfer_mla_backend", "triton_attention_back")]
    told = text.render(Document("x", [Section("settings", [Table(heads, rows)])]), 60)
    assert "  first launch   flashinfer_mla_backend" in told and "third launch   triton_attention_back" in told
    wide = text.render(Document("x", [Section("settings", [Table(heads, rows)])]), 100)
    assert wide.split("\n")[-1].split() == list(rows[0]), "one line where there is room"


def test_a_narrow_terminal_leaves_columns_out_and_says_so() -> None:
    heads = ("run", "when", "launch", "outcome")
    rows = [("pipe-ticker", "11-29 18:56", "vllm tiny-llama", "one rank is behind in weights")] * 2
    shown = Document("x", [Section("", [Table(heads, rows, spare=("launch", "when"))])])
    assert "left out" not in text.render(shown, 80)
    narrow = text.render(shown, 60).split("\n")
    assert narrow[1].split() == ["run", "when", "outcome"] and narrow[-1] == "left out at 60 columns: launch"
    cut = text.render(shown, 60, cut=True).split("\n")
    assert len(cut) == 4, "on a screen a row is a line"
