"""AIPerf (0.13, schema 1.4) and genai-perf.

`profile_export_aiperf.json` and `profile_export_genai_perf.json` hold
`{tag: {unit, avg, p1 … p99, min, max, std, count}}`, the CSV beside it
`Metric,avg,…` with titles for tags; `profile_export.jsonl` beside them holds a request a line. A sample::

    {"schema_version": "1.4", "aiperf_version": "0.13.0", "request_throughput": {"unit": "requests/sec", "avg": 25.4},
     "time_to_first_token": {"unit": "ms", "avg": 37.7, "p50": 38.4, "std": 4.6, "count": 40}, "is_complete": true}
"""

from __future__ import annotations

import io
import json
import math
import re
import statistics
from pathlib import PurePath
from typing import Any

from kit.parse.bench.base import (
    KNOWLEDGE,
    METRICS,
    SECONDS,
    BenchFormat,
    Result,
    child,
    count,
    number,
    numbers,
    rest_of,
    rows_under,
    stamp_ns,
    stat_of,
    text_of,
)
from kit.parse.bench.serving import add_latencies, samples_of, statistics_of
from kit.schema import Row
from kit.untrusted import csv_rows

TAGS: dict[str, str] = KNOWLEDGE["fields"]["aiperf"]["tags"]
COUNTS: dict[str, str] = KNOWLEDGE["fields"]["aiperf"]["counts"]
RUN_LEVEL: list[str] = KNOWLEDGE["fields"]["aiperf"]["kinds"]["run_level"]
OUTCOMES: list[str] = KNOWLEDGE["fields"]["aiperf"]["kinds"]["outcomes"]
DEFINITIONS = {"itl": "request_means_client_tokens"}
CSV_HEAD = re.compile(r"Metric,(avg|Value|min)\b")
BOXED = re.compile(r"\s*[│┃|].*[│┃|]\s*$")
BOXED_HEAD = re.compile(r"^[ \t]*[│┃|]\s*(?:Statistic|Metric)\s*[│┃|]\s*avg\s*[│┃|]", re.MULTILINE)
TITLE = re.compile(r"(?P<name>[^()]+)\((?P<unit>[^()]*)\)")
AGGREGATE = re.compile(r"^(.*)_(avg|min|max|std|p\d+)$")


def _is_export(doc: Any) -> bool:
    return any({"unit", "avg"} <= child(doc, tag).keys() for tag in ("request_throughput", "request_latency"))


def _is_record(doc: Any) -> bool:
    return bool({"request_start_ns", "session_num"} & child(doc, "metadata").keys()) and isinstance(doc.get("metrics"), dict)


def _is_aggregate(doc: Any) -> bool:
    metrics = child(doc, "metrics")
    return bool(metrics) and all(isinstance(m, dict) and {"mean", "unit"} <= m.keys() for m in metrics.values())


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add an export of one run, or the aggregate of several."""
    (_export if _is_export(doc) else _aggregate)(result, run, line, doc)


def _convert(metric: str, value: Any, unit: Any) -> Any:
    """Return a value in the unit of the metric; only times differ between versions."""
    finite, have, want = number(value), SECONDS.get(str(unit).lower()), SECONDS.get(METRICS[metric][0])
    if finite is None or not have or not want or have == want:
        return value
    return finite * have / want


def _export(result: Result, run: str, line: int, doc: dict) -> None:
    aiperf = "aiperf_version" in doc or "schema_version" in doc
    result.tool = "aiperf" if aiperf else "genai-perf"
    config = child(doc, "input_config")
    amounts = {metric: count(doc[tag].get("avg")) for tag, metric in COUNTS.items() if isinstance(doc.get(tag), dict)}
    if "failed" not in amounts and isinstance(doc.get("error_summary"), list):
        amounts["failed"] = sum(count(entry.get("count")) or 0 for entry in rows_under(doc, "error_summary"))
    whole = doc.get("is_complete") is not False and not doc.get("was_cancelled")
    if not whole:
        result.warn(
            f"{run}: the run was {'cancelled' if doc.get('was_cancelled') else 'not complete'}"
            f"{': ' + str(doc['incomplete_reason']) if doc.get('incomplete_reason') else ''}; do not compare it"
        )
    if amounts.get("failed"):
        result.warn(f"{run}: {amounts['failed']} requests failed; they are in no statistic here")
    if config.get("streaming") is False or child(config, "endpoint").get("streaming") is False:
        result.warn(f"{run}: the answers did not stream, and TTFT is then the whole latency")
    row = result.run(
        run,
        entry=line,
        benchmark="profile",
        tool_version=text_of(doc.get("aiperf_version")),
        complete=whole,
        started=stamp_ns(doc.get("start_time")),
        **_load(doc, config),
        **amounts,
        settings=rest_of(
            doc, [*TAGS, *COUNTS], [key for key in doc if key in OUTCOMES or isinstance(doc[key], dict) and "unit" in doc[key]]
        ),
    )
    row["tool"] = result.tool
    for tag, metric in TAGS.items():
        if isinstance(doc.get(tag), dict):
            _tag(result, run, metric, doc[tag])
            if metric == "duration":
                row["duration_s"] = number(_convert("duration", doc[tag].get("avg"), doc[tag].get("unit")))
    result.amounts(run, amounts.get("completed"), amounts.get("failed"))


def _tag(result: Result, run: str, metric: str, figures: dict) -> None:
    for word, value in figures.items():
        stat = stat_of(word)
        if stat is None or value is None:
            continue
        stat = "run" if metric in RUN_LEVEL and stat == "mean" else stat
        value = _convert(metric, value, figures.get("unit"))
        result.value(run, metric, stat, value, n=count(figures.get("count")), definition=DEFINITIONS.get(metric))


def _load(doc: dict, config: dict) -> Row:
    """Return what the client was told to send, from the settings of either tool."""
    phases = rows_under(config, "phases")
    phase = next((p for p in phases if p.get("kind", p.get("name")) == "profiling"), phases[-1] if phases else {})
    old = config.get("loadgen") if isinstance(config.get("loadgen"), dict) else config
    concurrency = number(phase.get("concurrency", old.get("concurrency")))
    rate = number(phase.get("rate", phase.get("request_rate", old.get("request_rate"))))
    models = config.get("models")
    names = [item.get("name") for item in rows_under(models, "items")] if isinstance(models, dict) else config.get("model") or []
    names = names if isinstance(names, list) else [names]
    known = bool(phase or "concurrency" in old or "request_rate" in old)
    return {
        "model": text_of(", ".join(map(str, names))),
        "max_concurrency": concurrency if concurrency else math.inf if known else None,
        "request_rate": rate if rate else math.inf if known else None,
        "num_prompts": count(phase.get("requests", old.get("request_count"))) or None,
        "input_tokens_mean": number(child(doc, "input_sequence_length").get("avg")),
        "output_tokens_mean": number(child(doc, "output_sequence_length").get("avg")),
    }


def _aggregate(result: Result, run: str, line: int, doc: dict) -> None:
    """Means over the runs of `--num-profile-runs`; the interval of the tool stays in the settings."""
    meta = child(doc, "metadata")
    n = count(meta.get("num_successful_runs") or meta.get("num_profile_runs"))
    result.run(run, entry=line, benchmark="aggregate", tool_version=text_of(meta.get("aiperf_version")), settings=doc)
    for key, figures in doc["metrics"].items():
        match = AGGREGATE.match(key)
        metric = TAGS.get(match.group(1)) if match else None
        if metric is None:
            continue
        stat = "run" if metric in RUN_LEVEL and match.group(2) == "avg" else stat_of(match.group(2))
        value = _convert(metric, figures.get("mean"), figures.get("unit"))
        result.value(run, metric, stat, value, n=n, definition="means_of_runs")


def _requests(result: Result, run: str, line: int, docs: list[dict]) -> None:
    """One row a request; requests of the warm-up are kept and marked, and are in no statistic."""
    starts = [number(doc["metadata"].get("request_start_ns")) for doc in docs]
    begin = min((start for start in starts if start is not None), default=None)
    rows = [_record(i, doc, begin) for i, doc in enumerate(docs)]
    measured = [row for row in rows if row["kind"] == "request"]
    failed = sum(row["ok"] is False for row in measured)
    doc = {"completed": len(measured) - failed, "failed": failed}
    result.run(
        run,
        entry=line,
        benchmark="requests",
        completed=doc["completed"],
        failed=failed,
        started=None if begin is None else int(begin),
        input_tokens_mean=_mean(measured, "input_tokens"),
        output_tokens_mean=_mean(measured, "output_tokens"),
    )
    if failed:
        result.warn(f"{run}: {failed} of {len(measured)} requests failed; they are in no statistic here")
    chunks = statistics_of(samples_of(measured)["itl"])
    means = [row | {"gaps_s": json.dumps([row["gap_mean_s"]] if row.get("gap_mean_s") is not None else [])} for row in measured]
    add_latencies(result, run, doc, means, DEFINITIONS)
    for stat, value in chunks.items():
        result.value(run, "inter_chunk_latency", stat, value, n=len(samples_of(measured)["itl"]), source="samples")
    result.amounts(run, doc["completed"], failed)
    result.single(run, rows)


def _mean(rows: list[Row], column: str) -> float | None:
    found = [row[column] for row in rows if row["ok"] and row[column] is not None]
    return statistics.fmean(found) if found else None


def _record(i: int, doc: dict, begin: float | None) -> Row:
    meta, metrics = doc["metadata"], doc["metrics"]

    def seconds(tag: str) -> float | None:
        value = number(child(metrics, tag).get("value"))
        return None if value is None else value * SECONDS.get(child(metrics, tag).get("unit"), 1.0)

    chunks = child(metrics, "inter_chunk_latency")
    gaps = [gap * SECONDS.get(chunks.get("unit"), 1.0) for gap in numbers(chunks.get("value"))]
    error = doc.get("error") or ("cancelled" if meta.get("was_cancelled") else None)
    start = number(meta.get("request_start_ns"))
    return {
        "number": i,
        "kind": "warmup" if meta.get("benchmark_phase") == "warmup" else "request",
        "ok": not error,
        "error": (error.get("message") or json.dumps(error)) if isinstance(error, dict) else text_of(error),
        "start_s": None if start is None or begin is None else (start - begin) / 1e9,
        "ttft_s": seconds("time_to_first_token"),
        "latency_s": seconds("request_latency"),
        "latency_from": "file",
        "gap_mean_s": seconds("inter_token_latency"),
        "gaps": len(gaps),
        "gap_max_s": max(gaps, default=None),
        "gaps_s": json.dumps(gaps),
        "input_tokens": count(child(metrics, "input_sequence_length").get("value")),
        "output_tokens": count(child(metrics, "output_sequence_length").get("value")),
    }


def merge(results: list[Result]) -> list[Result]:
    """Join the requests of a `profile_export.jsonl` with the run whose export is in the same folder; LLMPerf's alike.

    Examples
    --------
    >>> export = Result("a/profile_export_aiperf.json", "aiperf")
    >>> _ = export.run("e", benchmark="profile")
    >>> requests = Result("a/profile_export.jsonl", "aiperf", requests=[{"run": "r", "number": 0}])
    >>> _ = requests.run("r", benchmark="requests", failed=1)
    >>> merged = merge([export, requests])
    >>> len(merged), merged[0].requests[0]["run"], merged[0].runs[0]["failed"]
    (1, 'e', 1)
    """

    def folder(result: Result) -> str:
        return str(PurePath(result.file).parent)

    exports = {(folder(r), r.tool): r for r in results if len(r.runs) == 1 and r.runs[0].get("benchmark") == "profile"}
    kept = []
    for result in results:
        home = exports.get((folder(result), result.tool))
        if home is None or not result.runs or result.runs[0].get("benchmark") != "requests" or home.requests:
            kept.append(result)
            continue
        run = home.runs[0]
        home.requests = [row | {"run": run["run"]} for row in result.requests]
        for column in ("completed", "failed"):
            if run.get(column) is None:
                run[column] = result.runs[0].get(column)
        home.warnings += [text for text in result.warnings if "failed" not in text or not run.get("failed")]
    return kept


def _rows(text: str) -> list[list[str]]:
    """Rows of a CSV export, or of the table that is printed, whose titles may go on in the next line."""
    boxed = [[cell.strip() for cell in re.split("[│┃|]", line.strip())[1:-1]] for line in text.splitlines() if BOXED.match(line)]
    rows: list[list[str]] = []
    for row in boxed:
        if rows and row and not any(row[1:]):
            rows[-1][0] += f" {row[0]}"
        else:
            rows.append(row)
    return rows or list(csv_rows(io.StringIO(text.lstrip("\ufeff"))))


def _is_export_text(text: str) -> bool:
    return (CSV_HEAD.match(text.lstrip("\ufeff \t\r\n")) or BOXED_HEAD.search(text)) is not None


def _add_csv(result: Result, run: str, line: int, text: str) -> None:
    """Add a CSV export or the printed table: the same figures as in the JSON, under titles with their units."""
    doc: dict[str, Any] = {}
    head: list[str] = []
    for row in _rows(text):
        title = TITLE.fullmatch(row[0]) if row else None
        if row and row[0] in ("Metric", "Statistic"):
            head = row[1:]
        elif title:
            numbers_ = {key: number(value.replace(",", "")) for key, value in zip(head, row[1:], strict=False)}
            tag = re.sub(r"\W+", "_", title["name"].strip().lower())
            doc[tag] = {"unit": title["unit"], **{"avg" if key == "Value" else key: value for key, value in numbers_.items()}}
    _export(result, run, line, doc)


FORMATS = (
    BenchFormat("aiperf", lambda doc: _is_export(doc) or _is_aggregate(doc), add),
    BenchFormat("aiperf", _is_record, _requests, rows=True),
)
TEXT_FORMAT = BenchFormat("genai-perf", _is_export_text, _add_csv)
