"""Go: the text of `go test -bench` and its `-json` form.

A sample::

    goos: linux
    pkg: example.com/sum
    BenchmarkSum/1000-8     1000     1234 ns/op     16 B/op     1 allocs/op
    PASS
    ok      example.com/sum 1.5s

With `-count` a name comes several times; each line is one repetition.
"""

from __future__ import annotations

import re

from kit.parse.bench.base import SECONDS, BenchFormat, Result
from kit.untrusted import load_json

LINE = re.compile(r"^(Benchmark\S*)\s+(\d+)((?:\s+[-+0-9.eE]+(?:Inf|NaN)?\s+\S+)+)\s*$")
KEY = re.compile(r"^(goos|goarch|pkg|cpu|[a-z][a-z0-9-]*):\s+(.+)$")
FAILED = re.compile(r"^\s*--- FAIL: (Benchmark\S*)|^(panic: .*|FAIL\b.*)")
UNITS = {
    "B/op": ("alloc_bytes_per_op", 1.0),
    "allocs/op": ("allocs_per_op", 1.0),
    "MB/s": ("bytes_per_second", 1e6),
    "B/s": ("bytes_per_second", 1.0),
}
"""Unit of a figure to metric and factor; MB is 10^6 bytes (package testing)."""


def looks_like(text: str) -> bool:
    """Whether a text holds results of Go benchmarks."""
    return any(LINE.match(line) for line in plain(text))


def plain(text: str) -> list[str]:
    """Return the lines of a test log; of `go test -json`, the joined output of its events.

    Examples
    --------
    >>> plain('{"Action":"output","Output":"BenchmarkA \\\\t"}\\n{"Action":"output","Output":" 10\\\\t 5 ns/op\\\\n"}')
    ['BenchmarkA \\t 10\\t 5 ns/op']
    """
    if text.lstrip().startswith("{") and '"Action"' in text:
        pieces = []
        for line in text.splitlines():
            try:
                event = load_json(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("Action") == "output":
                pieces.append(str(event.get("Output", "")))
        text = "".join(pieces)
    return [line.rstrip() for line in text.splitlines()]


def add(result: Result, run: str, line: int, text: str) -> None:
    """Add a text: a run a configuration, a benchmark name a Go benchmark (with its package where there are several).

    A line `key: value` holds for all lines below it, so two values of one key are two configurations; only `pkg` is part of
    the benchmark's name.
    """
    settings: dict[str, str] = {}
    found: dict[tuple, dict[tuple[str, str], dict[str, list[str]]]] = {}
    for row in plain(text):
        match, key, bad = LINE.match(row), KEY.match(row), FAILED.match(row)
        if match:
            configuration = tuple((name, value) for name, value in settings.items() if name != "pkg")
            benchmarks = found.setdefault(configuration, {})
            _figures(benchmarks.setdefault((settings.get("pkg", ""), match.group(1)), {}), match.group(3))
        elif key:
            settings[key.group(1)] = key.group(2)
        elif bad:
            result.warn(f"{run}: {row.strip()}")
    packages = dict.fromkeys(package for benchmarks in found.values() for package, _ in benchmarks)
    for configuration, benchmarks in found.items():
        others = {pair for other in found if other != configuration for pair in other}
        label = ", ".join(value for name, value in configuration if (name, value) not in others)
        name = f"{run}:{label or list(found).index(configuration) + 1}" if len(found) > 1 else run
        kept = dict(configuration) | ({"pkg": ", ".join(packages)} if any(packages) else {})
        result.run(name, entry=line, benchmark="benchmarks", label=label or None, settings=kept)
        for (package, benchmark), measures in benchmarks.items():
            several = len(packages) > 1 and package
            _benchmark(result, name, f"{package}.{benchmark}" if several else benchmark, measures)


def _figures(measures: dict, text: str) -> None:
    words = text.split()
    for value, unit in zip(words[::2], words[1::2], strict=False):
        measures.setdefault(unit, []).append(value)


def _benchmark(result: Result, run: str, name: str, measures: dict[str, list[str]]) -> None:
    for unit, texts in measures.items():
        time = unit.removesuffix("/op")
        if unit.endswith("/op") and time in SECONDS:
            metric, factor, own = "time_per_op", SECONDS[time], None
        elif unit in UNITS:
            (metric, factor), own = UNITS[unit], None
        else:
            metric, factor, own = unit, 1.0, unit
        samples = []
        for text in texts:
            try:
                samples.append(float(text) * factor)
            except ValueError:
                result.warn(f"{run}: {name}: {text!r} is not a number")
        result.summary(run, metric, samples, name=name, unit=own)
        if metric == "time_per_op":
            result.repetitions(run, name, samples)


TEXT_FORMAT = BenchFormat("go test -bench", looks_like, add)
