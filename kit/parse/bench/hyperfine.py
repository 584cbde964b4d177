"""hyperfine: `--export-json` (and, through `table`, `--export-csv`).

A sample::

    {"results": [{"command": "sleep 0.1", "mean": 0.1, "stddev": null, "median": 0.1, "user": 0.01, "system": 0.01,
     "min": 0.1, "max": 0.1, "times": [0.1], "exit_codes": [0], "parameters": {"n": "1"}}]}

`stddev` is null for one repetition; an exit code is null where a signal ended the command.
"""

from __future__ import annotations

from typing import Any

from kit.parse.bench.base import BenchFormat, Result, number, numbers, rest_of, rows_under, text_of

STATS = ("mean", "median", "min", "max", "stddev")


def looks_like(doc: Any) -> bool:
    """Whether a document is an export of hyperfine."""
    results = rows_under(doc, "results")
    return bool(results) and len(results) == len(doc["results"]) and all("command" in row for row in results)


def add(result: Result, run: str, line: int, doc: dict) -> None:
    """Add an export, a benchmark name a command.

    A repetition that a signal ended is never a time. One with another exit code than 0 is none either, unless all have
    that code: then the command ends so, and hyperfine was told to take it (`--ignore-failure`).
    """
    used = (*STATS, "user", "system", "times", "exit_codes", "memory_usage_byte")
    result.run(run, entry=line, benchmark="commands", settings={"commands": [rest_of(r, used) for r in doc["results"]]})
    for entry in doc["results"]:
        _command(result, run, entry)


def _command(result: Result, run: str, entry: dict) -> None:
    name = text_of(entry.get("command"))
    times, codes = entry.get("times") or [], entry.get("exit_codes") or []
    accepted = codes[0] if codes and codes[0] is not None and all(code == codes[0] for code in codes) else 0
    good = [i >= len(codes) or codes[i] == accepted for i in range(max(len(times), len(codes)))]
    kept = [number(time) for time, ok in zip(times, good, strict=False) if ok]
    kept = [time for time in kept if time is not None]
    if accepted:
        result.warn(f"{run}: every repetition of {name!r} ended with exit code {accepted}")
    if all(good):
        for stat in STATS:
            if stat in entry:
                result.value(run, "wall_time", stat, entry[stat], n=len(times) or None, name=name)
        result.summary(run, "wall_time", kept, name=name, only={"p90", "p99", *STATS} - entry.keys())
    else:
        result.warn(f"{run}: {good.count(False)} of {len(good)} repetitions of {name!r} failed; they are in no statistic here")
        for stat in STATS if not kept else ():
            result.value(run, "wall_time", stat, None, n=0, name=name, definition="exit_0")
        result.summary(run, "wall_time", kept, name=name, definition="exit_0")
    for key, metric in (("user", "cpu_user"), ("system", "cpu_system")):
        if entry.get(key) is not None:
            result.value(run, metric, "mean", entry[key], name=name)
    memory = numbers(entry.get("memory_usage_byte"))
    result.summary(run, "peak_memory", memory, name=name, only={"mean", "median", "max"})
    rows = [
        {
            "name": name,
            "number": i,
            "kind": "repetition",
            "ok": ok,
            "latency_s": number(times[i]) if i < len(times) else None,
            "error": None if ok else "ended by a signal" if codes[i] is None else f"exit code {codes[i]}",
        }
        for i, ok in enumerate(good)
    ]
    result.single(run, rows)


FORMATS = (BenchFormat("hyperfine", looks_like, add),)
