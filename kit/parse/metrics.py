"""Prometheus text format, as the servers' /metrics gives it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import Samples, body_lines, only_failures, titled

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:.]*)(?:\{(?P<labels>(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?\s+"
    r"(?P<value>[+-]?(?:\d[\d.]*(?:[eE][+-]?\d+)?|Inf|NaN))(?:\s+(?P<stamp>-?\d+))?\s*$"
)
_COMMENT = re.compile(r"^# (?:HELP|TYPE|EOF)\b")


def parse_metrics(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read metrics: a row a series and sample. Names are kept as printed (`vllm:…`, `sglang:…`, `tgi_…`, `llamacpp:…`).

    Examples
    --------
    >>> sample = ["# TYPE vllm:num_requests_running gauge", 'vllm:num_requests_running{model_name="m"} 4.0']
    >>> [(row["name"], row["labels"], row["value"]) for _, row in parse_metrics(sample, Source("metrics.t0.txt"), Report())]
    [('vllm:num_requests_running', 'model_name="m"', 4.0)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _SAMPLE.match(line.text)
        if found:
            time = line.time if found["stamp"] is None else int(found["stamp"]) * 1_000_000
            samples.add(
                "counters",
                {
                    "source": "metrics",
                    "name": found["name"],
                    "labels": found["labels"] or None,
                    "value": float(found["value"]),
                    "line": line.number,
                    "time": time,
                },
                (found["name"], found["labels"]),
            )
        elif not line.text.startswith("#"):
            samples.misread(line, report, "curl", "no line of metrics")
    yield from samples.settle(report)


def _is_metrics(head: str) -> float:
    lines = body_lines(head)
    comments = sum(1 for line in lines if _COMMENT.match(line))
    found = [match for match in map(_SAMPLE.match, lines) if match]
    if not lines or not found:
        return only_failures(head) if lines else 0.0
    telling = sum(1 for match in found if match["labels"] is not None or ":" in match["name"].rstrip(":"))
    if comments and comments + len(found) > 0.7 * len(lines):
        return 0.97
    return 0.9 if len(found) > 0.7 * len(lines) and telling > 0.3 * len(found) else 0.0


FORMATS = (Format("metrics", r"metrics|\.prom$", _is_metrics, parse_metrics, frames=("counters", "tool_errors")),)
