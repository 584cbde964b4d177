"""SGLang: `bench_serving`, `bench_one_batch`, `bench_one_batch_server`, `bench_offline_throughput` (fields as of 0.5.23).

The tools append one object a line. `request_rate` may be `Infinity`, which is no standard JSON. The line has no date, model
or count of failures: the model is in `server_info`, failures are the entries of `errors` that are not empty. A sample,
shortened::

    {"backend": "sglang-oai", "dataset_name": "random-ids", "request_rate": Infinity, "max_concurrency": 4,
     "random_input_len": 64, "server_info": {"model_path": "mock-7b", "version": "0.5.23"}, "duration": 1.45,
     "completed": 40, "request_throughput": 27.5, "total_throughput": 2199.1, "mean_e2e_latency_ms": 140.8}
"""

from __future__ import annotations

from typing import Any

from kit.parse.bench.base import KNOWLEDGE, BenchFormat, Result, child, count, number, rest_of, text_of
from kit.parse.bench.serving import add_serving

DEFINITIONS = {"itl": "gaps_per_token", "tpot": "after_first_token"}
RUN_FIELDS: dict[str, str] = KNOWLEDGE["fields"]["sglang"]["run"]
ONE_BATCH: dict[str, tuple[str, str, float]] = KNOWLEDGE["fields"]["sglang"]["one_batch"]
OFFLINE: dict[str, str] = KNOWLEDGE["fields"]["sglang"]["offline"]


def _is_one_batch(doc: dict) -> bool:
    return "batch_size" in doc and bool(
        {"prefill_latency", "median_decode_latency", "last_ttft", "overall_throughput"} & doc.keys()
    )


def _is_offline(doc: dict) -> bool:
    return {"successful_requests", "total_latency", "total_throughput"} <= doc.keys()


def looks_like(doc: Any) -> bool:
    """Whether a document is a result of one of SGLang's benchmarks."""
    if not isinstance(doc, dict):
        return False
    serving = (
        "request_throughput" in doc
        and "completed" in doc
        and bool({"total_throughput", "server_info", "random_range_ratio", "mean_e2e_latency_ms"} & doc.keys())
    )
    return serving or _is_one_batch(doc) or _is_offline(doc)


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add a result of one of SGLang's benchmarks."""
    read = _one_batch if _is_one_batch(doc) else _offline if _is_offline(doc) else _serving
    read(result, run, line, doc)


def _serving(result: Result, run: str, line: int, doc: dict) -> None:
    server = child(doc, "server_info")
    add_serving(
        *(result, run, line, doc, RUN_FIELDS, DEFINITIONS, {"tag", "dataset_name"}),
        benchmark="serving",
        tool_version=text_of(server.get("version")),
        label=text_of(doc.get("tag")),
        model=text_of(server.get("model_path") or doc.get("model") or doc.get("model_id")),
    )


def _one_batch(result: Result, run: str, line: int, doc: dict) -> None:
    name = f"batch {doc.get('batch_size')}, input {doc.get('input_len')}, output {doc.get('output_len')}"
    result.run(
        run,
        entry=line,
        benchmark="one_batch",
        label=text_of(doc.get("run_name")),
        model=text_of(child(doc, "server_info").get("model_path")),
        tool_version=text_of(child(doc, "server_info").get("version")),
        max_concurrency=number(doc.get("batch_size")),
        input_tokens_mean=number(doc.get("input_len")),
        output_tokens_mean=number(doc.get("output_len")),
        settings=rest_of(doc, [*ONE_BATCH, "run_name"]),
    )
    for key, (metric, stat, factor) in ONE_BATCH.items():
        value = number(doc.get(key))
        # bench_one_batch_server writes -1 for what the server did not tell
        if value is not None and value >= 0:
            result.value(run, metric, stat, value * factor, name=name, definition="one_batch")


def _offline(result: Result, run: str, line: int, doc: dict) -> None:
    completed = count(doc["successful_requests"])
    result.run(
        run,
        entry=line,
        benchmark="offline_throughput",
        duration_s=number(doc["total_latency"]),
        completed=completed,
        settings=rest_of(doc, [*OFFLINE, "successful_requests"]),
    )
    for key, metric in OFFLINE.items():
        if doc.get(key) is not None:
            result.value(run, metric, "run", doc[key])
    result.value(run, "completed", "count", completed)


FORMATS = (BenchFormat("sglang bench", looks_like, add),)
