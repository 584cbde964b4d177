"""The command line: what it prints and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli import main

LINE = "[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n"
KEYS = {
    "state",
    "phase",
    "class",
    "ranks",
    "confidence",
    "facts",
    "evidence",
    "hypotheses",
    "next",
    "remedy",
    "captured_at",
    "missing",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.log").write_text(LINE)
    return tmp_path / "run"


def test_json_is_one_object_a_line(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["verdict", str(folder), str(folder), "--json", "--captured-at", "2026-02-18 00:30:00"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert KEYS <= json.loads(lines[0]).keys()


def test_unreadable_folder_does_not_hide_the_others(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["verdict", str(folder.parent / "nowhere"), str(folder)]) == 3
    printed = capsys.readouterr()
    assert "no such file or folder" in printed.err
    assert "in weights: " in printed.out


def test_exit_code_on_trouble(folder: Path) -> None:
    assert main(["verdict", str(folder), "--exit-code"]) == 1
    assert main(["verdict", str(folder)]) == 0


def test_bad_time_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["verdict", str(folder), "--captured-at", "noon"]) == 2
    assert "'noon' is not a time" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_export(folder: Path, tmp_path: Path, ending: str) -> None:
    import pandas as pd

    out = tmp_path / f"log.{ending}"
    assert main(["export", str(folder), "log", "-o", str(out)]) == 0
    read = {"csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet}[ending](out)
    assert read["milestone"].tolist() == ["weights_begin"]


def test_export_refuses_an_unknown_ending(folder: Path, tmp_path: Path) -> None:
    assert main(["export", str(folder), "log", "-o", str(tmp_path / "log.xls")]) == 2


def test_export_into_no_folder(folder: Path, tmp_path: Path) -> None:
    assert main(["export", str(folder), "log", "-o", str(tmp_path / "none" / "log.csv")]) == 3


def test_reference_and_module(tmp_path: Path) -> None:
    out = tmp_path / "columns.md"
    assert main(["reference", "-o", str(out)]) == 0
    printed = subprocess.run([sys.executable, "-m", "kit", "reference"], capture_output=True, text=True, check=True).stdout
    assert printed == out.read_text(encoding="utf-8")


def test_pipe_that_closes_is_no_traceback(folder: Path) -> None:
    done = subprocess.run(f"{sys.executable} -m kit reference | head -n 1", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_usage() -> None:
    with pytest.raises(SystemExit) as error:
        main(["nonsense"])
    assert error.value.code == 2


def test_facts_are_a_table_to_export(folder: Path, tmp_path: Path) -> None:
    import pandas as pd

    out = tmp_path / "facts.csv"
    assert main(["export", str(folder), "facts", "-o", str(out)]) == 0
    table = pd.read_csv(out).set_index("fact")
    assert table.loc["log_lines", "number"] == 1
    assert table.loc["log_lines", "capture"] == "server.log"


def test_bare_kit_prints_its_verbs_in_groups(capsys: pytest.CaptureFixture) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.index("look at evidence") < printed.index("  verdict ") < printed.index("keep") < printed.index("  doctor ")
    assert "ledger" not in printed and "Begin with: kit verdict FOLDER" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["verdit", "x"], "unknown verb 'verdit': did you mean 'verdict'?"),
        (["verdict", "x", "--jsn"], "unknown option --jsn: did you mean '--json'?"),
        (["verdict", "x", "--foo"], "unknown option --foo\n"),
        (["completion", "bsh"], "unknown shell 'bsh': did you mean 'bash'?"),
    ],
)
def test_a_mistyped_word_gets_the_right_one_named(typed: list[str], meant: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as error:
        main(typed)
    assert error.value.code == 2 and meant in capsys.readouterr().err


def test_a_mistyped_frame_gets_the_right_one_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["export", str(folder), "thread", "-o", str(tmp_path / "x.csv")]) == 2
    assert "unknown frame 'thread': the nearest is 'threads'" in capsys.readouterr().err


def test_what_may_not_be_opened_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def refuse(folder: Path) -> None:  # root, as whom tests may run, is refused nothing
        raise PermissionError(13, "Permission denied", str(folder / "run.json"))

    monkeypatch.setattr("kit.analyse.launches.library.launches_in", refuse)
    assert main(["runs", str(tmp_path)]) == 3
    where = f"kit: cannot open {tmp_path}/run.json: permission denied. Look who may: ls -ld {tmp_path}"
    assert capsys.readouterr().err == f"{where}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_verbs(shell: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["completion", shell]) == 0
    assert "attempts" in capsys.readouterr().out


def test_an_older_name_of_a_verb_still_works(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["ledger", str(folder), "--json"]) == 0
    older = capsys.readouterr().out
    assert main(["attempts", str(folder), "--json"]) == 0
    assert capsys.readouterr().out == older


def test_a_verdict_as_markdown_and_in_brief(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["verdict", str(folder), "--markdown"]) == 0
    whole = capsys.readouterr().out
    assert main(["verdict", str(folder), "--brief"]) == 0
    brief = capsys.readouterr().out
    assert whole.splitlines()[0] == brief.splitlines()[0] and "(undetermined)" in brief and len(brief) < len(whole)
    assert brief.rstrip().endswith(f"`kit report {folder}`")


def test_the_facade_has_what_the_command_line_has() -> None:
    import kit
    from kit.cli import parser

    assert set(parser().verbs) - {"ledger", "reference", "doctor", "completion"} <= set(kit.__all__)
    assert all(callable(getattr(kit, name)) for name in kit.__all__)
