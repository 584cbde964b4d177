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

from kit.parse.bench.base import BenchFormat, Result, numbers, run_id, stamp_ns, text_of

METRIC = {"second": ("time_per_call", None, None), "byte": ("peak_memory", None, None), "integer": ("value", "1", None)}


def looks_like(doc: Any) -> bool:
    """Whether a document is a file of pyperf."""
    benchmarks = doc.get("benchmarks") if isinstance(doc, dict) else None
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and all(isinstance(b, dict) and isinstance(b.get("runs"), list) for b in benchmarks)
    )


def parse(docs: list[tuple[int, Any]], file: str) -> Result:
    """Return the rows of a file, a benchmark name a benchmark; `process_means` is the mean of the means of the processes.

    Parameters
    ----------
    docs : list of (int, dict)
        Line and content of each JSON document of the file.
    file : str
        Its name.

    Returns
    -------
    Result

    Examples
    --------
    >>> doc = {"version": "1.0", "metadata": {"name": "sort"}, "benchmarks": [
    ...        {"runs": [{"warmups": [[1, 9.0]]}, {"values": [1.0, 3.0]}]}]}
    >>> [(v["name"], v["stat"], v["value"], v["n"]) for v in parse([(1, doc)], "a.json").values][:2]
    [('sort', 'mean', 2.0, 2), ('sort', 'median', 2.0, 2)]
    """
    result = Result(file, "pyperf")
    for line, doc in docs:
        run = run_id(file, line, len(docs) > 1)
        meta = doc["metadata"] if isinstance(doc.get("metadata"), dict) else {}
        dates = [
            r["metadata"].get("date")
            for b in doc["benchmarks"]
            for r in b["runs"]
            if isinstance(r, dict) and isinstance(r.get("metadata"), dict)
        ]
        result.run(
            run,
            entry=line,
            benchmark="benchmarks",
            tool_version=text_of(meta.get("perf_version")),
            started=stamp_ns(min((d for d in dates if isinstance(d, str)), default=None)),
            settings={**meta, "benchmarks": [b.get("metadata") for b in doc["benchmarks"]]},
        )
        for bench in doc["benchmarks"]:
            _benchmark(result, run, bench, meta)
    return result


def _benchmark(result: Result, run: str, bench: dict, common: dict) -> None:
    meta = common | (bench["metadata"] if isinstance(bench.get("metadata"), dict) else {})
    name = text_of(meta.get("name"))
    metric, unit, direction = METRIC.get(meta.get("unit", "second"), ("value", text_of(meta.get("unit")), None))
    processes = [numbers(r.get("values")) for r in bench["runs"] if isinstance(r, dict)]
    processes = [values for values in processes if values]
    values = [value for process in processes for value in process]
    if not values:
        result.warn(f"{run}: {name} has calibration runs only, no value")
        return
    result.summary(run, metric, values, name=name, unit=unit, direction=direction)
    result.value(
        run,
        metric,
        "process_means",
        statistics.fmean(statistics.fmean(p) for p in processes),
        n=len(processes),
        name=name,
        source="samples",
        unit=unit,
    )
    if metric == "time_per_call":
        number = 0
        for group, process in enumerate(processes):
            for value in process:
                result.requests.append(
                    {
                        "run": run,
                        "file": result.file,
                        "name": name,
                        "number": number,
                        "group": group,
                        "kind": "repetition",
                        "ok": True,
                        "latency_s": value,
                    }
                )
                number += 1


FORMAT = BenchFormat("pyperf", looks_like, parse)
