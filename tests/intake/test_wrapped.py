"""The verdict does not depend on what the evidence is wrapped in, and lines of the log are found in the file that was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kit
from tests.intake import wrapped

BEYOND_LINES = {"base64", "Word", "Writer", "Excel", "RTF", "mail with an archive", "grep of files"}
"""Forms whose file does not show the words of a log, or not under its own name."""
CASES = [Path(__file__).parents[1] / "data" / "cases" / "given" / name for name in ("vl01", "tg01", "vl10")]


@pytest.mark.parametrize(
    ("form", "case"), [(form, CASES[at % 3]) for at, form in enumerate(wrapped.FORMS)], ids=lambda one: getattr(one, "name", one)
)
def test_verdict_in_any_form(form: str, case: Path, tmp_path: Path) -> None:
    want = json.loads((case / "case.json").read_text())
    files = {path.name: path.read_bytes().decode() for path in sorted(case.iterdir()) if path.name != "case.json"}
    files = {name: files[name] for name in sorted(files, key=lambda name: (".t1." in name, name != "server.log"))}
    tidy = kit.open_run(case, want["captured_at"])
    wrapped.times_of(list(tidy.rows("log")))
    for name, text in wrapped.FORMS[form](files).items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    run = kit.open_run(tmp_path, want["captured_at"])
    expected, found = kit.verdict(tidy).to_dict(), kit.verdict(run).to_dict()
    facts = want["expected_facts"].keys() - {"last_line", "log_lines"}
    assert (found["class"], found["phase"]) == (expected["class"], expected["phase"])
    assert {name: found["facts"].get(name) for name in facts} == {name: expected["facts"].get(name) for name in facts}
    if form not in BEYOND_LINES:
        for row in run.rows("log"):
            words = row["text"].split("\n")[0].split()
            lines = (tmp_path / row["capture"]).read_bytes().decode().split("\n")
            assert not words or words[0] == "##" or words[0] in lines[row["line"] - 1], row


def test_what_a_step_printed_within_its_group_is_its_log(tmp_path: Path) -> None:
    lines = (
        ("29:41", "##[group]Run pytest -k serve"),
        ("29:52", "(APIServer pid=7) INFO 11-11 11:29:52 [launcher.py:100] Starting vLLM API server"),
        ("30:03", '(APIServer pid=7) INFO:     127.0.0.1:61522 - "POST /v1/completions HTTP/1.1" 200 OK'),
        ("30:09", "##[endgroup]"),
        ("30:10", "Post job cleanup."),
    )
    (tmp_path / "job.txt").write_text("".join(f"2026-11-11T11:{at}.0000000Z {text}\n" for at, text in lines))
    log = kit.open_run(tmp_path).frame("log")
    assert [line in set(log["line"]) for line in (2, 3, 5)] == [True] * 3
