"""What the log itself advises: sentences near the cause that say what to set, raise or lower, found by their form.

The forms stand at the head of kit/knowledge/signatures.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.analyse.verdict.failures import first_error
from kit.analyse.verdict.log_digest import LogDigest
from kit.analyse.verdict.scene import Scene
from kit.knowledge_paths import load
from kit.tomlfile import TomlFile

NEAR = 12
"""Records before and after the cause that may speak of it: a traceback is announced, printed and repeated by its parents."""
MOST = 2
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<!\s)\s+-\s+")
_OTHERS = ("client", "noise", "teardown", "recovered")
"""Roles of lines that say nothing of the cause."""


def advice_of_log(scene: Scene) -> list[dict]:
    """Advice in the log's own words, with file and line; as `signatures.remedies`."""
    forms, never = load("signatures", _forms)
    found: dict[str, dict] = {}
    for capture, line, record in _near_the_cause(scene.log):
        for number, part in enumerate(record.splitlines()):
            for sentence in (text.strip(" -\t") for text in _SENTENCE.split(part)):
                if any(form.search(sentence) for form in forms) and not never.search(sentence):
                    where = f"{capture}, line {line + number}"
                    entry = {"name": "advice-of-the-log", "what": "the log itself says what to do", "do": f"“{sentence[:300]}”"}
                    found.setdefault(sentence, {**entry, "source": where, "matched": {"log": sentence[:120]}})
    return list(found.values())[:MOST]


def _near_the_cause(log: LogDigest) -> Iterator[tuple[str, int, str]]:
    cause = first_error(log)
    for mark in log.marks:
        near = mark.capture == cause.capture and abs(mark.order - cause.order) <= NEAR if cause else mark.kind == "symptom"
        if near and mark.kind in ("error", "symptom") and mark.role not in _OTHERS:
            yield mark.capture, mark.line, mark.text
    if cause is None:
        for row in list(log.tail)[-NEAR:]:
            yield row["capture"], row.get("line") or 0, row["text"]


def _forms(files: list[TomlFile]) -> tuple[list[re.Pattern[str]], re.Pattern[str]]:
    top = files[-1].top
    return [top.expression("advice", form) for form in top.strings("advice")], top.expression(
        "no_advice", top.values["no_advice"]
    )
