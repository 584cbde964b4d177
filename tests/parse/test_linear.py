"""Every reader takes time in proportion to the length of a line: lines are doubled, of what patterns go back and forth on."""

from __future__ import annotations

import time

import pytest

from kit import parse
from kit.parse.base import Report, Source

UNITS = (" ", "\u00a0", "\t", "#", ".", "-", "a-", "0 ", "| ", "a b ", ":", "71% Completed |  ", "pid ", "\r")
HEADS = ("", "71% Completed |", "#### ")
LONG = 8192
SLOW_S = 0.05
"""Below this a line of 8 kB is read fast, whatever the shape of the curve."""


def seconds(text: str, kind: str) -> float:
    began = time.process_time()
    entry = parse.formats()[kind]
    entry.looks_like(text)
    for _ in entry.parse([text.encode()] if entry.binary else [text], Source("a", 1_771_000_000 * 10**9), Report()):
        pass
    return time.process_time() - began


def worse_than_linear(text: str, kind: str) -> bool:
    """Whether a line of double length takes more than three times as long; short times are never judged."""
    if seconds(text[:LONG], kind) < SLOW_S:
        return False
    return all(_grows(text, kind, times) for times in (2, 8))  # what other work on the machine makes slow is slow once


def _grows(text: str, kind: str, times: int) -> bool:
    half, whole = (min(seconds(text[:length], kind) for _ in range(times)) for length in (LONG // 2, LONG))
    return whole > SLOW_S and whole > 3 * half


@pytest.mark.parametrize("head", HEADS)
def test_readers_are_linear_in_the_length_of_a_line(head: str) -> None:
    texts = [head + unit * (LONG // len(unit)) for unit in UNITS]
    wrong = [(kind, text[:40]) for kind in parse.formats() for text in texts if worse_than_linear(text, kind)]
    assert not wrong
