"""Findings of a comparison of benchmarks as data; their sentences are in `kit/knowledge/bench_findings.toml`."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kit.analyse.text_blocks import named
from kit.knowledge_paths import PACKAGED


@cache
def sentences() -> dict[str, str]:
    """Code of a finding to its sentence."""
    return tomllib.loads((PACKAGED / "bench_findings.toml").read_text(encoding="utf-8"))["sentence"]


class _Words(string.Formatter):
    """Fills in the values of a sentence."""

    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, (list, tuple)):
            return named([str(item) for item in value], int(spec) if spec else len(value))
        if spec == "in":
            return "" if value is None else f" ({value})"
        if spec == "s":
            return "" if value == 1 else "s"
        return change(value) if spec == "change" else share(value) if spec == "%" else format(value, spec)


@dataclass(frozen=True)
class Finding:
    """One finding: a code, its values, and the sentence made of them.

    Examples
    --------
    >>> str(finding("failed_requests", share=0.125, side="cand", load=None))
    '12.5 % of the requests of cand failed; they are in no value, and failing is not fast'
    """

    code: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return _Words().vformat(sentences()[self.code], (), self.values)

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain types: `code`, `text`, and the values."""
        values = {name: str(value) if isinstance(value, Finding) else value for name, value in self.values.items()}
        return {"code": self.code, "text": str(self), **values}


def finding(code: str, **values: Any) -> Finding:
    """A finding of a code and its values."""
    return Finding(code, values)


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in their order, each once."""
    return list({str(entry): entry for entry in findings}.values())


def share(value: float) -> str:
    """A share as text.

    Examples
    --------
    >>> share(0.125), share(0.05), share(1.0)
    ('12.5 %', '5 %', '100 %')
    """
    return f"{value * 100:.3g} %"


def change(value: float) -> str:
    """A relative change as text.

    Examples
    --------
    >>> change(0.1563), change(-0.004), change(3.2), change(0.3), change(11.5)
    ('+15.6 %', '-0.4 %', '+320 %', '+30 %', '× 12.5')
    """
    if abs(value) >= 10:
        return f"× {1 + value:.3g}"
    return "0 %" if not value else f"{value * 100:+.3g} %" if abs(value) >= 0.1 else f"{value * 100:+.2g} %"
