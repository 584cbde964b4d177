"""The second corpus through every channel: what is captured, pulled, exported, shown and rendered holds none of its secrets."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from pathlib import Path

import pytest

import kit
from kit.capture.logs.pull import pull
from kit.capture.logs.scrub import Scrubber
from kit.cli import main
from kit.redact import scrub_argv, scrub_text
from kit.render.notebook import scrub as scrub_notebook
from kit.secret_environ import scrub_environ
from tests.secret_corpus import (
    ARGV,
    CARRIERS,
    ENVIRON,
    PLAIN,
    WORD,
    look_alikes,
    marked,
    placements,
    third_look_alikes,
    third_placements,
    through_channels,
)

MOST = 0.01
"""Of the placements that may leak, and of the look-alikes that may be masked."""
LINE = "INFO 02-18 02:11:52 [core.py:58] Loading model weights took 93.42 GB and 7.1 seconds\n"


def fourth_placements() -> list[tuple[str, list[str]]]:
    return marked("fourth_placements")


def fourth_look_alikes() -> list[str]:
    return [text for text, _ in marked("fourth_look_alikes")]


def lines_of(text: str) -> bytes:
    return text.rstrip("\n").encode() + b"\n"


def by_line(text: str) -> str:
    scrubber = Scrubber()
    return (scrubber.take(lines_of(text)) + scrubber.rest()).decode()


def leaked(found: str) -> list[str]:
    return [text for text, secrets in placements() if any(secret in found for secret in secrets)]


def few(leaks: list[str]) -> bool:
    return len(leaks) <= MOST * len(placements())


@pytest.mark.parametrize("clean", [scrub_text, by_line], ids=["text", "lines"])
@pytest.mark.parametrize(
    ("given", "stays"),
    [(placements, look_alikes), (third_placements, third_look_alikes), (fourth_placements, fourth_look_alikes)],
    ids=["second", "third", "fourth"],
)
def test_secrets_go_and_look_alikes_stay(given, stays, clean) -> None:
    texts, same = given(), stays()
    assert len(texts) >= 200 and len(same) >= 300
    leaks = [text for text, secrets in texts if any(secret in clean(text) for secret in secrets)]
    masked = [text for text in same if clean(text).rstrip("\n") != text.rstrip("\n")]
    print(f"placements {len(texts)}, leaks {len(leaks)}, look-alikes {len(same)}, masked {len(masked)}")
    assert len(leaks) <= MOST * len(texts), leaks
    assert len(masked) <= MOST * len(same), masked
    again = [text for text, _ in texts if clean(clean(text)) != clean(text)]
    assert len(again) <= MOST * len(texts), again


@pytest.mark.parametrize("clean", [scrub_text, by_line], ids=["text", "lines"])
@pytest.mark.parametrize("corpus", ["fifth", "sixth"])
def test_secrets_go_from_every_channel_of_a_later_corpus(corpus, clean) -> None:
    found = through_channels(f"{corpus}_placements", clean)
    same = through_channels(f"{corpus}_look_alikes", clean)
    leaks = [text for text, left, secrets in found if any(secret in left for secret in secrets)]
    masked = [text for text, left, kept in same if any(json_words(one) not in json_words(left) for one in kept)]
    print(f"placements {len(found)}, leaks {len(leaks)}, look-alikes {len(same)}, masked {len(masked)}")
    assert len(found) >= 60 and len(leaks) <= MOST * len(found), leaks
    assert len(same) >= 60 and len(masked) <= MOST * len(same), masked


def json_words(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


def test_secrets_go_from_command_lines_and_environments() -> None:
    words = [[word.format(secret) for word in one] for one in ARGV for secret in (*WORD[:2], PLAIN[-1])]
    leaks = [scrub_argv(one) for one in words if any(secret in word for word in scrub_argv(one) for secret in PLAIN)]
    environs = [{name: secret} for name in ENVIRON for secret in PLAIN]
    environs += [{name: form.format(secret)} for name, form in CARRIERS.items() for secret in PLAIN]
    kept = [environ for environ in environs if any(secret in str(scrub_environ(environ)) for secret in PLAIN)]
    print(f"command lines {len(words)}, leaks {len(leaks)}; environments {len(environs)}, leaks {len(kept)}")
    assert all(len(scrub_argv(one)) == len(one) for one in words)
    assert not leaks and not kept


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A log that holds every placement, with enough between them that blocks are scrubbed and no state is carried on."""
    folder = tmp_path / "srv"
    folder.mkdir()
    (folder / "server.log").write_bytes(b"".join(LINE.encode() * 5 + lines_of(text) for text, _ in placements()))
    return folder


@pytest.mark.parametrize("form", ["log", "gzip", "utf-16", "utf-16 in gzip"])
def test_a_pulled_log_holds_none(form: str, corpus: Path, tmp_path: Path) -> None:
    log = corpus / "server.log"
    data = log.read_bytes().decode().encode("utf-16") if "utf-16" in form else log.read_bytes()
    log.unlink()
    name = "server.log.gz" if "gzip" in form else "server.log"
    (corpus / name).write_bytes(gzip.compress(data) if "gzip" in form else data)
    run = pull("local", str(corpus / name), out=tmp_path / "run", progress=lambda text: None)
    found = (run / "raw/server.log").read_bytes().decode()
    assert few(leaked(found)), leaked(found)
    assert found.count(LINE) == 5 * len(placements())


def test_what_is_said_and_exported_of_a_loose_file_holds_none(corpus: Path, tmp_path: Path) -> None:
    found = io.StringIO()
    with contextlib.redirect_stdout(found):
        for words in (["verdict", str(corpus)], ["export", str(corpus), "log", "-o", str(tmp_path / "log.csv")]):
            assert main(words) == 0
    said = found.getvalue() + (tmp_path / "log.csv").read_text()
    assert few(leaked(said)) and "[redacted]" in said, leaked(said)


def test_a_report_and_a_notebook_hold_none(corpus: Path, tmp_path: Path) -> None:
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    every = "\n".join(text for text, _ in placements())
    outputs = [new_output("stream", text=text) for text, _ in placements()]
    outputs += [new_output("error", ename="E", evalue=text, traceback=[text]) for text, _ in placements()]
    outputs += [new_output("display_data", {"text/plain": text}) for text, _ in placements()]
    notebook = new_notebook(cells=[new_code_cell(every, outputs=outputs)])
    scrub_notebook(notebook, scrub_text)
    found = "\n".join(
        [
            notebook.cells[0].source,
            *(str(one.get("text") or one.get("evalue") or one.get("data")) for one in notebook.cells[0].outputs),
        ]
    )
    assert few(leaked(found)), leaked(found)
    kit.report(corpus, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert few(leaked(page)), leaked(page)


def test_a_notebook_as_evidence_is_scrubbed_as_json(tmp_path: Path) -> None:
    cells = [{"outputs": [{"name": "stdout", "text": [line + "\n" for line in text.splitlines()]}]} for text, _ in placements()]
    for indent in (None, 1):
        text = json.dumps({"cells": cells}, indent=indent)
        assert few(leaked(json_text(by_line(text)))), leaked(json_text(by_line(text)))


def json_text(text: str) -> str:
    """JSON as its reader sees it; the text itself where scrubbing left none."""
    try:
        return "\n".join("".join(one["outputs"][0]["text"]) for one in json.loads(text)["cells"])
    except ValueError:
        return text
