"""GuideLLM (0.8.1, report version 2; 0.2 and later read alike): a report with a benchmark a load level.

Every metric is split into successful, errored, incomplete and total; only `successful` is read. `request_latency` is in
seconds, the `*_ms` metrics in milliseconds. A sample, shortened::

    {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "benchmarks": [{"config": {"strategy": {"type_": "concurrent",
     "streams": 2}}, "metrics": {"request_totals": {"successful": 24, "errored": 0, "incomplete": 0},
     "time_to_first_token_ms": {"successful": {"mean": 36.9, "median": 36.3, "count": 24, "percentiles": {"p90": 39.9}}}}}]}
"""

from __future__ import annotations

import math
from typing import Any

from kit.parse.bench.base import KNOWLEDGE, BenchFormat, Result, child, count, number, rest_of, rows_under, stamp_ns, text_of
from kit.schema import Row

LATENCIES: dict[str, tuple[str, float]] = KNOWLEDGE["fields"]["guidellm"]["latencies"]
RATES: dict[str, str] = KNOWLEDGE["fields"]["guidellm"]["rates"]
DEFINITIONS = {"itl": "request_means", "tpot": "whole_latency"}


def looks_like(doc: Any) -> bool:
    """Whether a document is a GuideLLM report."""
    first = rows_under(doc, "benchmarks")[:1]
    return bool(first and first[0] is doc["benchmarks"][0] and {*LATENCIES, "request_totals"} & child(first[0], "metrics").keys())


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add a report: a run for each of its benchmarks."""
    meta = child(doc, "metadata")
    for index, bench in enumerate(doc["benchmarks"]):
        if not isinstance(bench, dict) or not isinstance(bench.get("metrics"), dict):
            result.warn(f"{run}: benchmark {index} has no metrics")
            continue
        _benchmark(result, f"{run}#{index}" if len(doc["benchmarks"]) > 1 else run, index, bench, meta, doc)


def _benchmark(result: Result, run: str, index: int, bench: dict, meta: dict, doc: dict) -> None:
    metrics = bench["metrics"]
    totals = metrics.get("request_totals") or bench.get("request_totals") or {}
    completed, failed, incomplete = (count(totals.get(key)) for key in ("successful", "errored", "incomplete"))
    if failed:
        result.warn(f"{run}: {failed} of {failed + (completed or 0)} requests failed; they are in no statistic here")
    if incomplete:
        result.warn(f"{run}: {incomplete} requests were cut off at the end of the run; they are in no statistic here")
    for warning in bench.get("warnings") or []:
        if isinstance(warning, dict) and warning.get("message"):
            result.warn(f"{run}: GuideLLM says: {warning['message']}")
    result.run(
        run,
        entry=index,
        benchmark="benchmark",
        tool_version=text_of(meta.get("guidellm_version")),
        started=stamp_ns(bench.get("start_time")),
        duration_s=number(bench.get("duration")),
        completed=completed,
        failed=failed,
        input_tokens_mean=number(child(metrics, "prompt_token_count", "successful").get("mean")),
        output_tokens_mean=number(child(metrics, "output_token_count", "successful").get("mean")),
        **_load(bench, doc),
        notes="percentiles are those of the tool, which takes the next lower or higher request",
    )
    result.amounts(run, completed, failed)
    for tag, metric in RATES.items():
        if number(rate := child(metrics, tag, "successful").get("mean")) is not None:
            result.value(run, metric, "mean", rate)
    for tag, (metric, factor) in LATENCIES.items():
        _latency(result, run, metric, factor, child(metrics, tag, "successful"), completed)
    _requests(result, run, bench)


def _latency(result: Result, run: str, metric: str, factor: float, figures: dict, completed: int | None) -> None:
    n = count(figures.get("count"))
    for stat, value in {
        **{key: figures.get(key) for key in ("mean", "median", "min", "max")},
        "stddev": figures.get("std_dev"),
        **{
            f"p{key.lstrip('p').lstrip('0')}": value
            for key, value in (figures.get("percentiles") or {}).items()
            if key in ("p05", "p10", "p25", "p75", "p90", "p95", "p99")
        },
    }.items():
        if value is None:
            continue
        finite = number(value)
        value = None if n == 0 or completed == 0 else value if finite is None else finite * factor
        result.value(run, metric, stat, value, n=n, definition=DEFINITIONS.get(metric))


def _load(bench: dict, doc: dict) -> Row:
    """Return the load of a benchmark: strategy and streams or rate. Pair benchmarks by these, never by their order."""
    config = child(bench, "config") or child(bench, "args")
    strategy = child(config, "strategy")
    kind = text_of(strategy.get("type_") or strategy.get("type"))
    streams = number(strategy.get("streams") or strategy.get("max_concurrency"))
    rate = number(strategy.get("rate"))
    spec = child(doc, "config", "spec") or child(doc, "args")
    kept = {"config": rest_of(config, ("environment", "id_", "run_id")), "data": spec.get("data")}
    return {
        "label": kind and f"{kind} {streams or rate or ''}".replace(".0", "").strip(),
        "model": text_of(child(config, "backend").get("model")),
        "dataset": text_of(", ".join(str(row.get("kind")) for row in rows_under(kept, "data"))),
        "max_concurrency": streams if streams else math.inf if kind else None,
        "request_rate": rate if rate else math.inf if kind else None,
        "num_prompts": count(child(config, "constraints", "max_requests", "args").get("count")),
        "settings": kept,
    }


def _requests(result: Result, run: str, bench: dict) -> None:
    parts = child(bench, "requests")
    rows = [_request(entry, part) for part in ("successful", "errored", "incomplete") for entry in rows_under(parts, part)]
    starts = [row["start_s"] for row in rows if row["start_s"] is not None]
    for i, row in enumerate(sorted(rows, key=lambda row: row["start_s"] or 0.0)):
        if row["start_s"] is not None:
            row["start_s"] -= min(starts)
        result.single(run, [{"number": i, **row}])


def _request(entry: dict, part: str) -> Row:
    info, times = child(entry, "info"), child(entry, "info", "timings")
    start, end = number(times.get("request_start")), number(times.get("request_end"))
    first, last = (number(times.get(key)) for key in ("first_token_iteration", "last_token_iteration"))
    tokens = [child(entry, key).get("text_tokens") for key in ("input_metrics", "output_metrics")]
    output = count(tokens[1])
    latency = None if start is None or end is None else end - start
    spread = None if first is None or last is None or not output or output < 2 else (last - first) / (output - 1)
    return {
        "kind": "request",
        "ok": part == "successful",
        "start_s": start,
        "latency_s": latency,
        "latency_from": "file",
        "error": None if part == "successful" else text_of(info.get("error")) or part,
        "ttft_s": None if start is None or first is None else first - start,
        "gap_mean_s": spread,
        "tpot_s": latency / output if latency is not None and output else None,
        "input_tokens": count(tokens[0]),
        "output_tokens": output,
    }


FORMATS = (BenchFormat("guidellm", looks_like, add),)
