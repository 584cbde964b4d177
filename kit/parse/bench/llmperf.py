"""LLMPerf: the list of single responses; its summary is read by rules.

A sample of `…_individual_responses.json`, shortened::

    [{"error_code": null, "error_msg": "", "inter_token_latency_s": 0.0059, "ttft_s": 0.298, "end_to_end_latency_s": 0.89,
      "request_output_throughput_token_per_s": 167.4, "number_output_tokens": 150, "number_input_tokens": 550}]
"""

from __future__ import annotations

import statistics
from typing import Any

from kit.parse.bench.base import BenchFormat, Result, count, number, text_of

TIMES = {"ttft": "ttft_s", "e2el": "latency_s", "itl": "gap_mean_s"}
DEFINITIONS = {"itl": "whole_latency_per_token"}


def looks_like(doc: Any) -> bool:
    """Whether a document is a single response."""
    return isinstance(doc, dict) and {"error_code", "ttft_s", "end_to_end_latency_s"} <= doc.keys()


def add(result: Result, run: str, line: int, docs: list[dict[str, Any]]) -> None:
    """Add the responses of a run; times of those that failed are in no statistic."""
    rows = [_response(place, doc) for place, doc in enumerate(docs)]
    good = [row for row in rows if row["ok"]]
    failed = len(rows) - len(good)
    tokens = {column: [row[column] for row in good if row[column] is not None] for column in ("input_tokens", "output_tokens")}
    result.run(
        run,
        entry=line,
        benchmark="requests",
        completed=len(good),
        failed=failed,
        num_prompts=len(rows),
        **{f"{column}_mean": statistics.fmean(values) if values else None for column, values in tokens.items()},
    )
    for metric, column in TIMES.items():
        samples = [row[column] * 1e3 for row in good if row[column] is not None]
        result.summary(run, metric, samples, definition=DEFINITIONS.get(metric))
    result.amounts(run, len(good), failed)
    if failed:
        result.warn(f"{run}: {failed} of {len(rows)} requests failed; they are in no statistic here")
    result.single(run, rows)


def _response(place: int, doc: dict[str, Any]) -> dict[str, Any]:
    ok = doc["error_code"] in (None, "", 0)
    return {
        "number": place,
        "kind": "request",
        "ok": ok,
        "error": None if ok else text_of(doc.get("error_msg")) or str(doc["error_code"]),
        "ttft_s": number(doc["ttft_s"]),
        "latency_s": number(doc["end_to_end_latency_s"]),
        "latency_from": "file",
        "gap_mean_s": number(doc.get("inter_token_latency_s")),
        "input_tokens": count(doc.get("number_input_tokens")),
        "output_tokens": count(doc.get("number_output_tokens")),
    }


FORMATS = (BenchFormat("llmperf", looks_like, add, rows=True),)
