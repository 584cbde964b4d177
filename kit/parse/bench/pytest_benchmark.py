"""pytest-benchmark: `--benchmark-json` and the files of `.benchmarks/` (5.3.1).

A sample, shortened::

    {"machine_info": {"python_version": "3.11.7"}, "benchmarks": [{"fullname": "test_b.py::test_sort", "stats": {"mean": 0.02,
     "median": 0.02, "min": 0.01, "stddev": 0.001, "rounds": 2, "ops": 50.0, "data": [0.01, 0.03], "iterations": 5}}],
     "datetime": "2026-11-29T12:39:47+00:00", "version": "5.3.1"}

`stats.data` holds seconds a call, averaged over the calls of one round; a saved file may lack it.
"""

from __future__ import annotations

from typing import Any

from kit.parse.bench.base import BenchFormat, Result, child, count, numbers, rest_of, rows_under, stamp_ns, text_of


def looks_like(doc: Any) -> bool:
    """Whether a document is a file of pytest-benchmark."""
    return (
        isinstance(doc, dict)
        and isinstance(doc.get("benchmarks"), list)
        and ("machine_info" in doc or any("rounds" in child(bench, "stats") for bench in doc["benchmarks"]))
    )


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add a file, a benchmark name a test."""
    kept = [rest_of(bench, ("stats",)) for bench in rows_under(doc, "benchmarks")]
    result.run(
        run,
        entry=line,
        benchmark="tests",
        tool_version=text_of(doc.get("version")),
        started=stamp_ns(doc.get("datetime")),
        settings={**rest_of(doc, ("benchmarks", "version", "datetime")), "benchmarks": kept},
    )
    if not doc["benchmarks"]:
        result.warn(f"{run}: the file holds no benchmark")
    for bench in doc["benchmarks"]:
        _test(result, run, bench)


def _test(result: Result, run: str, bench: Any) -> None:
    name = text_of(bench.get("fullname") or bench.get("name"))
    stats = child(bench, "stats")
    if not stats:
        result.warn(f"{run}: {name} has no figures; it failed or was skipped")
        return
    data = numbers(stats.get("data"))
    rounds = count(stats.get("rounds")) or len(data) or None
    own = ("mean", "median", "min", "max", "stddev")
    for stat in own:
        if stats.get(stat) is not None:
            result.value(run, "time_per_call", stat, stats[stat], n=rounds, name=name)
    result.summary(run, "time_per_call", data, name=name, only={*own, "p90", "p99"} - stats.keys())
    if stats.get("ops") is not None:
        result.value(run, "ops", "mean", stats["ops"], n=rounds, name=name)
    result.repetitions(run, name, data)


FORMATS = (BenchFormat("pytest-benchmark", looks_like, add),)
