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
from typing import Any

from kit.parse.bench.base import SECONDS, BenchFormat, Result

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
        import json

        pieces = []
        for line in text.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("Action") == "output":
                pieces.append(str(event.get("Output", "")))
        text = "".join(pieces)
    return [line.rstrip() for line in text.splitlines()]


def parse(docs: list[tuple[int, Any]], file: str) -> Result:
    """Return the rows of a text, a benchmark name a Go benchmark (with its package where there are several).

    Parameters
    ----------
    docs : list of (int, str)
        One pair: 1 and the text.
    file : str
        Its name.

    Returns
    -------
    Result

    Examples
    --------
    >>> text = "pkg: a\\nBenchmarkSum-8 1000 2000 ns/op 16 B/op\\nBenchmarkSum-8 1000 4000 ns/op 16 B/op\\nPASS"
    >>> [(v["metric"], v["stat"], round(v["value"], 9), v["n"]) for v in parse([(1, text)], "a.txt").values][:2]
    [('time_per_op', 'mean', 3e-06, 2), ('time_per_op', 'median', 3e-06, 2)]
    """
    result = Result(file, "go test -bench")
    lines = plain("\n".join(text for _, text in docs))
    settings: dict[str, Any] = {}
    found: dict[tuple[str, str], dict[str, list[tuple[float, str]]]] = {}
    package = ""
    for line in lines:
        match, key, bad = LINE.match(line), KEY.match(line), FAILED.match(line)
        if match:
            _figures(found.setdefault((package, match.group(1)), {}), match.group(3))
        elif key:
            package = key.group(2) if key.group(1) == "pkg" else package
            settings.setdefault(key.group(1), []).append(key.group(2))
        elif bad:
            result.warn(f"{file}: {line.strip()}")
    several = len({package for package, _ in found}) > 1
    result.run(
        file,
        entry=1,
        benchmark="benchmarks",
        settings={key: values if len(values) > 1 else values[0] for key, values in settings.items()},
    )
    for (package, name), measures in found.items():
        _benchmark(result, file, f"{package}.{name}" if several and package else name, measures)
    return result


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
                result.warn(f"{run}: {name}: {text!r} is no number")
        result.summary(run, metric, samples, name=name, unit=own)
        if metric == "time_per_op":
            result.requests += [
                {"run": run, "file": result.file, "name": name, "number": i, "kind": "repetition", "ok": True, "latency_s": value}
                for i, value in enumerate(samples)
            ]


FORMAT = BenchFormat("go test -bench", lambda doc: isinstance(doc, str) and looks_like(doc), parse)
