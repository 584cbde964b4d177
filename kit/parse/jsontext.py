"""JSON objects in a text that may hold more than JSON: prompts, several answers one after the other, a cut end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from kit.untrusted import check_depth, whole_pairs

ATTEMPTS = 2000
"""Openings that are tried without success before the rest is given up: a text with so many of them is no JSON."""
_DECODER = json.JSONDecoder(strict=False)
_NO_COMMA = re.compile(r'(["\d\]}el])([ \t\r]*\n\s{0,400}")')
"""A value, a line end and a key without the comma between: NCCL 2.28.9 writes so in the list of missing ranks."""


def objects(text: str) -> Iterator[tuple[int, dict]]:
    r"""Give each outermost object that can be read, with the number of its first line.

    Where an object is broken (a cut end), the whole objects in it are given in its place.

    Examples
    --------
    >>> list(objects('$ tool --json\n[{"a": 1},\n {"b": {"c": 2}}]'))
    [(2, {'a': 1}), (3, {'b': {'c': 2}})]
    >>> list(objects('{"list": [{"a": 1}, {"a": 2}, {"a"'))
    [(1, {'a': 1}), (1, {'a': 2})]
    >>> list(objects('{"a": true\n "b": 2}'))
    [(1, {'a': True, 'b': 2})]
    """
    text = _NO_COMMA.sub(r"\1,\2", whole_pairs(text))
    at = counted = 0
    line, failed = 1, 0
    while failed < ATTEMPTS and (at := text.find("{", at)) >= 0:
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, end = _DECODER.raw_decode(text, at)
            check_depth(text[at:end])
            at = end
        except (ValueError, RecursionError):
            failed, at = failed + 1, at + 1
            continue
        if value:
            yield line, value
