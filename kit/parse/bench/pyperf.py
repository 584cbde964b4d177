"""pyperf (file format 1.0): suites and single benchmarks, plain or gzipped.

A sample, shortened::

    {"version": "1.0", "metadata": {"unit": "second", "perf_version": "2.11.0"}, "benchmarks": [{"metadata": {"name": "sort"},
     "runs": [{"warmups": [[1, 0.03]]}, {"values": [0.02, 0.021], "warmups": [[8, 0.02]]}]}]}

The first run calibrates and has no values; warm-ups are no values either. Values are seconds a loop. Metadata common to
all benchmarks stands at the top, with a single benchmark even its name.
"""

from __future__ import annotations

import statistics
from typing import Any

from kit.parse.bench.base import BenchFormat, Result, child, numbers, rows_under, stamp_ns, text_of

METRIC = {"second": ("time_per_call", None, None), "byte": ("peak_memory", None, None), "integer": ("value", "1", None)}


def looks_like(doc: Any) -> bool:
    """Whether a document is a file of pyperf."""
    benchmarks = rows_under(doc, "benchmarks")
    return (
        bool(benchmarks)
        and len(benchmarks) == len(doc["benchmarks"])
        and all(isinstance(b.get("runs"), list) for b in benchmarks)
    )


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add a file, a benchmark name a benchmark; `process_means` is the mean of the means of the processes."""
    meta = child(doc, "metadata")
    processes = [process for bench in doc["benchmarks"] for process in bench["runs"] if isinstance(process, dict)]
    dates = [child(process, "metadata").get("date") for process in processes]
    result.run(
        run,
        entry=line,
        benchmark="benchmarks",
        tool_version=text_of(meta.get("perf_version")),
        started=stamp_ns(min((date for date in dates if isinstance(date, str)), default=None)),
        settings={**meta, "benchmarks": [b.get("metadata") for b in doc["benchmarks"]]},
    )
    for bench in doc["benchmarks"]:
        _benchmark(result, run, bench, meta)


def _benchmark(result: Result, run: str, bench: dict, common: dict) -> None:
    meta = common | child(bench, "metadata")
    name = text_of(meta.get("name"))
    metric, unit, direction = METRIC.get(meta.get("unit", "second"), ("value", text_of(meta.get("unit")), None))
    processes = [values for process in rows_under(bench, "runs") if (values := numbers(process.get("values")))]
    values = [value for process in processes for value in process]
    if not values:
        result.warn(f"{run}: {name} has calibration runs only, no value")
        return
    result.summary(run, metric, values, name=name, unit=unit, direction=direction)
    means = statistics.fmean(map(statistics.fmean, processes))
    result.value(run, metric, "process_means", means, n=len(processes), name=name, source="samples", unit=unit)
    if metric == "time_per_call":
        before = len(result.requests)
        result.repetitions(run, name, values)
        groups = [group for group, process in enumerate(processes) for _ in process]
        for row, group in zip(result.requests[before:], groups, strict=True):
            row["group"] = group


FORMATS = (BenchFormat("pyperf", looks_like, add),)
