"""vLLM: `vllm bench serve`, `latency`, `throughput`, `startup` (fields as of 0.33.0).

A sample of `bench serve --save-result`, shortened; with `--append-result` the file holds one such object a line::

    {"date": "20261129-124850", "endpoint_type": "openai", "backend": "openai", "label": "base", "model_id": "mock-7b",
     "num_prompts": 2, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4, "duration": 0.2, "completed": 1,
     "failed": 1, "total_input_tokens": 64, "total_output_tokens": 16, "request_throughput": 5.0, "mean_ttft_ms": 38.4,
     "ttfts": [0.0384, 0.0], "errors": ["", "Server disconnected"]}
"""

from __future__ import annotations

import re
from typing import Any

from kit.parse.bench.base import KNOWLEDGE, BenchFormat, Result, child, count, number, numbers, rest_of, stamp_ns, text_of
from kit.parse.bench.serving import add_serving

DEFINITIONS = {"itl": "single_gaps", "tpot": "after_first_token"}
RUN_FIELDS: dict[str, str] = KNOWLEDGE["fields"]["vllm"]["run"]
STARTUP = re.compile(r"^avg_((?:cold|warm)_(?:startup|compilation|encoder_compilation))_time$")


def _is_serve(doc: dict) -> bool:
    return (
        "request_throughput" in doc
        and "total_throughput" not in doc
        and "server_info" not in doc
        and bool({"model_id", "endpoint_type", "tokenizer_id", "burstiness", "total_token_throughput"} & doc.keys())
    )


def _is_latency(doc: dict) -> bool:
    return "avg_latency" in doc and bool({"latencies", "percentiles"} & doc.keys())


def _is_throughput(doc: dict) -> bool:
    return {"elapsed_time", "requests_per_second", "tokens_per_second"} <= doc.keys()


def _is_startup(doc: dict) -> bool:
    return any(STARTUP.match(key) for key in doc)


def looks_like(doc: Any) -> bool:
    """Whether a document is a result of one of vLLM's benchmarks."""
    return isinstance(doc, dict) and (_is_serve(doc) or _is_latency(doc) or _is_throughput(doc) or _is_startup(doc))


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add a result of one of vLLM's benchmarks."""
    kinds = ((_is_startup, _startup), (_is_latency, _latency), (_is_throughput, _throughput))
    read = next((read for fits, read in kinds if fits(doc)), _serve)
    read(result, run, line, doc)


def _serve(result: Result, run: str, line: int, doc: dict) -> None:
    add_serving(
        *(result, run, line, doc, RUN_FIELDS, DEFINITIONS, {"failed", "date", "label", "model_id"}),
        benchmark="serve",
        tool_version=text_of(doc.get("version") or doc.get("vllm_version")),
        label=text_of(doc.get("label")),
        model=text_of(doc.get("model_id")),
        started=stamp_ns(doc.get("date")),
        burstiness=number(doc.get("burstiness")),
        num_prompts=count(doc.get("num_prompts")),
        notes="the date has no zone and is taken as UTC" if doc.get("date") else None,
    )


def _latency(result: Result, run: str, line: int, doc: dict) -> None:
    """One batch again and again: `avg_latency`, `latencies` and `percentiles` in seconds."""
    latencies = numbers(doc.get("latencies"))
    result.run(
        run,
        entry=line,
        benchmark="latency",
        completed=len(latencies) or None,
        model=text_of(doc.get("model") or doc.get("model_id")),
        settings=rest_of(doc, ("avg_latency", "latencies", "percentiles")),
    )
    own = {"mean": doc.get("avg_latency"), **_percentiles(doc, "percentiles")}
    _own_or_samples(result, run, "e2el", own, latencies, 1e3, "one_batch")
    result.repetitions(run, None, latencies)


def _throughput(result: Result, run: str, line: int, doc: dict) -> None:
    completed = count(doc.get("num_requests"))
    result.run(
        run,
        entry=line,
        benchmark="throughput",
        duration_s=number(doc["elapsed_time"]),
        num_prompts=completed,
        model=text_of(doc.get("model") or doc.get("model_id")),
        completed=completed,
        settings=rest_of(doc, ("elapsed_time", "requests_per_second", "tokens_per_second", "num_requests")),
    )
    result.value(run, "duration", "run", doc["elapsed_time"])
    result.value(run, "request_throughput", "run", doc["requests_per_second"])
    result.value(run, "total_token_throughput", "run", doc["tokens_per_second"])
    result.amounts(run, completed, None)


def _startup(result: Result, run: str, line: int, doc: dict) -> None:
    """Time of launches: with an empty compile cache (cold) and a filled one (warm)."""
    used = []
    for key in doc:
        match = STARTUP.match(key)
        if not match:
            continue
        metric = match.group(1)
        used += [key, f"{metric}_times", f"{metric}_percentiles"]
        times = numbers(doc.get(f"{metric}_times"))
        own = {"mean": doc[key], **_percentiles(doc, f"{metric}_percentiles")}
        _own_or_samples(result, run, metric, own, times, 1.0, None)
        result.repetitions(run, metric, times)
    result.run(
        run, entry=line, benchmark="startup", model=text_of(doc.get("model") or doc.get("model_id")), settings=rest_of(doc, used)
    )


def _percentiles(doc: dict, key: str) -> dict[str, Any]:
    """Return p50, p90, p99 and the like of an object with the percentiles as text keys."""
    found = child(doc, key)
    return {"median" if number(key) == 50 else f"p{key}": value for key, value in found.items() if number(key) is not None}


def _own_or_samples(
    result: Result, run: str, metric: str, own: dict, samples: list[float], scale: float, definition: str | None
) -> None:
    for stat, value in own.items():
        if value is not None:
            finite = number(value)
            value = value if finite is None else finite * scale
            result.value(run, metric, stat, value, n=len(samples) or None, definition=definition)
    result.summary(
        run,
        metric,
        [value * scale for value in samples],
        definition=definition,
        only={"mean", "median", "p90", "p99", "min", "max", "stddev"} - {stat for stat in own if own[stat] is not None},
    )


FORMATS = (BenchFormat("vllm bench", looks_like, add),)
