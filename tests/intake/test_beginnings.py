"""A pattern that is passed over because of the texts in its matches has no match."""

from __future__ import annotations

import re

import pytest

from kit.intake import terminal
from kit.intake.beginnings import may_hold
from kit.parse import grammar

PATTERNS = [pattern for found in grammar.load().all for pattern in found.detect] + [sign for sign, _ in terminal._WRITTEN]


@pytest.mark.parametrize(
    ("pattern", "match", "other"),
    [
        (r"\biteration\s+\d+/", "iteration 7/9", "step 7/9"),
        (r"llama_(?:load|init)|srv\s+\w+:", "srv  load:", "slot load:"),
        (r"(?:abc)*x+y", "xxy", "abc"),
        (r"(?:abc)?[xy]", "x", None),
        (r"(?i)\bvllm\b", "VLLM", None),
    ],
)
def test_texts_of_a_pattern(pattern: str, match: str, other: str | None) -> None:
    found = re.compile(pattern)
    assert found.search(match)
    assert may_hold(found, match)
    assert other is None or not may_hold(found, other)


def test_no_pattern_is_passed_over_that_matches() -> None:
    """For each pattern of the knowledge: a text of its own form that it matches is not passed over."""
    samples = [
        "(APIServer pid=1) INFO 01-01 00:00:00 [a.py:1] vLLM", "[2026-01-01 00:00:00 TP0] Load weight begin", "iteration 1/ 2",
        "srv    load_model: loading", "llama_model_loader: loaded", "[TensorRT-LLM] TensorRT-LLM version", "lmdeploy - INFO - x",
        "a ^[[31mred^[[0m", "#033[31m", "\\u001b[31m", "[0;36mfoo[0m", "one$\ntwo$\n", "caf\u00a0e", "[GIN] x ollama",
    ]  # fmt: skip
    matched = 0
    for pattern in PATTERNS:
        for text in samples:
            data = text if isinstance(pattern.pattern, str) else text.encode()
            if pattern.search(data):
                matched += 1
                assert may_hold(pattern, data), (pattern.pattern, text)
    assert matched > 20
