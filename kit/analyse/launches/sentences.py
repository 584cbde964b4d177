"""Findings of comparisons are data: a code, values, where it stands. Their sentences are in
`kit/knowledge/launch_findings.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from numbers import Integral
from string import Formatter
from typing import Any

from kit.analyse.text_blocks import named
from kit.clock import show_duration
from kit.document import percent
from kit.knowledge_paths import PACKAGED

SENTENCES: dict[str, str] = tomllib.loads((PACKAGED / "launch_findings.toml").read_text(encoding="utf-8"))["sentence"]


class Finding(str):
    """What a comparison shows: reads as its sentence."""

    code: str  # key of `SENTENCES`
    values: dict[str, Any]  # what the sentence is made of, as plain types
    where: list[str]  # `file:line` of the evidence

    def to_dict(self) -> dict[str, Any]:
        """Code, sentence, values, where."""
        return {"code": self.code, "text": str(self), "values": self.values, "where": self.where}


def finding(code: str, where: Sequence[str] = (), **values: Any) -> Finding:
    """Make a finding.

    Examples
    --------
    >>> finding("late", times=3.0, launches=["run1", "run2"])
    'counted as not ready, after 3 times as long as the slowest that is: run1, run2'
    >>> finding("more_separate", number=1)
    '1 more setting separates them as well'
    """
    made = Finding(_Words().vformat(SENTENCES[code], (), values))
    made.code, made.values, made.where = code, values, list(where)
    return made


def joined(words: Sequence[str]) -> str:
    """Words with `and` before the last.

    Examples
    --------
    >>> joined(["a", "b", "c"]), joined(["a"]), joined([])
    ('a, b and c', 'a', '')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def is_number(value: object) -> bool:
    """Whether a cell holds a whole number."""
    return isinstance(value, Integral)


def size(value: Any) -> str:
    """Bytes with their unit."""
    if not is_number(value):
        return "–"
    return f"{value / 2**30:,.2f} GiB" if value >= 2**30 else f"{value / 2**20:,.0f} MiB"


class _Words(Formatter):
    """Formats as `str.format`, and: `and`, `list`, `named` for lists; `duration`, `percent`, `size` for numbers; `one|many`."""

    def format_field(self, value: Any, spec: str) -> str:
        shown = {"and": joined, "list": _listed, "named": named, "duration": show_duration, "percent": percent, "size": size}
        if spec in shown:
            return shown[spec](value)  # type: ignore[operator]
        if "|" in spec:
            one, many = spec.split("|")
            return one if (value if isinstance(value, int) else len(value)) == 1 else many
        return super().format_field(value, spec)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
