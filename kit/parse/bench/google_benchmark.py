"""Google Benchmark: `--benchmark_format=json` (1.5 to 1.9; files without `run_type` are older and read too).

A sample, shortened::

    {"context": {"library_build_type": "debug"}, "benchmarks": [{"name": "BM_Sum/8", "run_name": "BM_Sum/8",
     "run_type": "iteration", "iterations": 100, "real_time": 1704.8, "cpu_time": 1692.3, "time_unit": "ns"}]}

Rows with `run_type` aggregate are statistics of the others, and are read only where the repetitions were not written. A
row with an error has the time 0, which is no time.
"""

from __future__ import annotations

import re
import statistics
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
    rest_of,
    rows_under,
    stamp_ns,
    text_of,
)

FIXED: list[str] = KNOWLEDGE["fields"]["google"]["fixed"]
OLD_AGGREGATE = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")


def looks_like(doc: Any) -> bool:
    """Whether a document is an output of Google Benchmark."""
    rows = rows_under(doc, "benchmarks")
    return any({"real_time", "time_unit"} <= row.keys() or "run_type" in row for row in rows) or (
        "library_build_type" in child(doc, "context") and isinstance(doc.get("benchmarks"), list)
    )


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add an output, a benchmark name a `run_name`."""
    context, rows = child(doc, "context"), rows_under(doc, "benchmarks")
    result.run(
        run,
        entry=line,
        benchmark="benchmarks",
        tool_version=text_of(context.get("library_version")),
        started=stamp_ns(context.get("date")),
        settings=rest_of(context, ("date",)),
    )
    if str(context.get("library_build_type", "")).lower() == "debug":
        result.warn(f"{run}: the benchmark library was built for debugging; its times are too long")
    if context.get("cpu_scaling_enabled"):
        result.warn(f"{run}: CPU frequency scaling was on; times are noisy")
    for name in dict.fromkeys(_name(row) for row in rows):
        _benchmark(result, run, name, [row for row in rows if _name(row) == name])


def _aggregate(row: dict) -> str | None:
    """Return the statistic that a row holds, None where it is a measurement."""
    if "run_type" in row:
        return str(row.get("aggregate_name", "?")) if row["run_type"] == "aggregate" else None
    match = OLD_AGGREGATE.search(str(row.get("name", "")))
    return match.group(1) if match else None


def _name(row: dict) -> str:
    if "run_name" in row:
        return str(row["run_name"])
    name = str(row.get("name"))
    return OLD_AGGREGATE.sub("", name) if _aggregate(row) else name


def _measures(row: dict) -> dict[str, float]:
    """Return what a row measured, times in seconds, with its user counters."""
    unit = SECONDS.get(row.get("time_unit", "ns"), 1e-9)
    found = {key: number(row.get(key)) for key in ("real_time", "cpu_time")}
    measures = {key: value * unit for key, value in found.items() if value is not None}
    counters = {key: number(value) for key, value in row.items() if key not in FIXED}
    return measures | {key: value for key, value in counters.items() if value is not None}


def _benchmark(result: Result, run: str, name: str, rows: list[dict]) -> None:
    single = [row for row in rows if _aggregate(row) is None]
    bad = [row for row in rows if row.get("error_occurred") or row.get("skipped")]
    for row in bad:
        why = row.get("error_message") or row.get("skip_message") or "no reason given"
        result.warn(f"{run}: {name} failed ({why}): its time of 0 is not a measurement")
    good = [row for row in single if row not in bad]
    measured = [_measures(row) for row in good]
    for metric in dict.fromkeys(key for measures in measured for key in measures):
        samples = [measures[metric] for measures in measured if metric in measures]
        unit = None if metric in METRICS else "1"
        result.summary(run, metric, samples, name=name, unit=unit)
        if len(samples) > 1 and statistics.fmean(samples):
            spread = statistics.stdev(samples) / statistics.fmean(samples)
            result.value(run, metric, "cv", spread, n=len(samples), name=name, source="samples")
    if not single:
        for row in rows:
            if row not in bad:
                _statistic(result, run, name, row)
    repetitions = [
        {
            "name": name,
            "number": i,
            "kind": "repetition",
            "ok": row not in bad,
            "latency_s": None if row in bad else _measures(row).get("real_time"),
            "error": text_of(row.get("error_message") or row.get("skip_message")) if row in bad else None,
        }
        for i, row in enumerate(single)
    ]
    result.single(run, repetitions)


def _statistic(result: Result, run: str, name: str, row: dict) -> None:
    """Add a row of the tool's own statistics (`--benchmark_report_aggregates_only`)."""
    stat = _aggregate(row)
    if stat in ("BigO", "RMS", "?"):
        return
    percentage = row.get("aggregate_unit") == "percentage" or stat == "cv"
    n = count(row.get("repetitions") or row.get("iterations"))
    for metric, value in _measures(row).items():
        if percentage and metric in ("real_time", "cpu_time"):
            value = number(row[metric])
        result.value(run, metric, stat, value, n=n, name=name, unit=None if metric in METRICS else "1")


FORMATS = (BenchFormat("google-benchmark", looks_like, add),)
