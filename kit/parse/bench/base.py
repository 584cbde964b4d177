"""What every reader of benchmark results gives: a `Result` of plain rows, under one set of names and units.

Names, units and directions of metrics are in `kit/knowledge/benchmarks.toml`; a reader converts into them. Figures that the
tool wrote itself are marked `source="tool"`, those computed here from single requests or repetitions `source="samples"`.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kit.schema import Row

LOWER, HIGHER = "lower_is_better", "higher_is_better"

KNOWLEDGE: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[2] / "knowledge" / "benchmarks.toml").read_text(encoding="utf-8")
)
METRICS: dict[str, tuple[str, str | None]] = {
    name: (unit, {"lower": LOWER, "higher": HIGHER}.get(better)) for name, (unit, better) in KNOWLEDGE["metric"].items()
}
"""Metric to its unit and the direction that is better (None: neither)."""
DEFINITIONS: dict[str, str] = KNOWLEDGE["definition"]
"""Whose ITL is it: id to sentence. Two values with different ids must not be divided by one another."""

STATS: dict[str, str] = KNOWLEDGE["stats"]
PERCENTILE = re.compile(r"p?\(?(\d+(?:\.\d+)?)\)?(?:st|nd|rd|th)?(?: percentile)?")
SPREAD = {"stddev", "cv", "variance"}
"""Statistics that have no better direction."""

SECONDS: dict[str, float] = KNOWLEDGE["seconds"]

MOST = 1e100
"""No measure is as large; sums and squares of smaller ones are still numbers."""
LARGEST = 2**63
"""Whole numbers from here on fit no column."""

SECRET = re.compile(r"(api[_-]?key|secret|passw|credential|authorization|(hf|auth|access|bearer)[_-]?token)", re.IGNORECASE)
SECRET_OPTION = re.compile(r"(--?(?:api[_-]?key|auth[_-]?token|password|hf[_-]?token)[= ]+)(\S+)", re.IGNORECASE)


@dataclass
class Result:
    """Rows of one result file.

    Examples
    --------
    >>> result = Result("a.json", "hyperfine")
    >>> result.value("a.json", "wall_time", "mean", 0.5, n=10)
    >>> result.values[0]["unit"], result.values[0]["direction"]
    ('s', 'lower_is_better')
    """

    file: str
    tool: str
    runs: list[Row] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)
    requests: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def run(self, run: str, **columns: Any) -> Row:
        """Add a run and return its row; None is a missing value, `settings` and `launch` become JSON text."""
        for name in ("settings", "launch"):
            if columns.get(name) is not None:
                columns[name] = as_json(columns[name])
        row = {"run": run, "file": self.file, "tool": self.tool, **columns}
        self.runs.append(row)
        return row

    def value(
        self, run: str, metric: str, stat: str, value: Any, *, unit: str | None = None, direction: str | None = None, **about: Any
    ) -> None:
        """Add a value, with its `n`, `name`, `definition`, `source`. One that is no finite number is missing, and warned of."""
        known_unit, known_direction = METRICS.get(metric, (unit or "", direction))
        number_ = number(value)
        if number_ is None and value is not None:
            self.warn(f"{run}: {metric} {stat} is {value!r}, no finite number; kept as missing")
        self.values.append(
            {
                "run": run,
                "file": self.file,
                "name": None,
                "metric": metric,
                "stat": stat,
                "value": number_,
                "unit": "ratio" if stat == "cv" else unit or known_unit,
                "direction": None if stat in SPREAD else direction or known_direction,
                "n": None,
                "definition": None,
                "source": "tool",
                **about,
            }
        )

    def amounts(self, run: str, completed: int | None, failed: int | None) -> None:
        """Add how many requests were completed and failed, where that is known."""
        for metric, amount in (("completed", completed), ("failed", failed)):
            if amount is not None:
                self.value(run, metric, "count", amount)

    def summary(
        self, run: str, metric: str, samples: Sequence[float], *, only: Iterable[str] | None = None, **about: Any
    ) -> None:
        """Add the statistics of samples, computed here; the standard deviation is that of a sample (n - 1)."""
        for stat, value in summarise(samples).items():
            if only is None or stat in only:
                self.value(run, metric, stat, value, n=len(samples), source="samples", **about)

    def single(self, run: str, rows: Iterable[Row]) -> None:
        """Add the rows of single requests or repetitions."""
        self.requests += [{"run": run, "file": self.file, **row} for row in rows]

    def repetitions(self, run: str, name: str | None, seconds: Iterable[float]) -> None:
        """Add a row a repetition that succeeded."""
        known = {"name": name, "kind": "repetition", "ok": True}
        self.single(run, ({**known, "number": i, "latency_s": value} for i, value in enumerate(seconds)))

    def extend(self, other: Result) -> None:
        """Add the rows and warnings of another result of the same file."""
        self.runs += other.runs
        self.values += other.values
        self.requests += other.requests
        self.warnings += other.warnings

    def warn(self, text: str) -> None:
        """Add a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass(frozen=True)
class BenchFormat:
    """One family of result files."""

    tool: str  # name of the tool
    # takes one parsed JSON document (or the text of a file) and says whether it is of this family
    looks_like: Callable[[Any], bool]
    # adds the rows of one document: takes the `Result`, the name of the run, the document's line and the document
    add: Callable[[Result, str, int, Any], None]
    rows: bool = False  # all documents of a file make one run, and `add` takes their list

    def parse(self, docs: Iterable[tuple[str, int, Any]], file: str) -> Result:
        """Return the rows of documents (name of the run, line, content) of one file."""
        result = Result(file, self.tool)
        docs = list(docs)
        if self.rows:
            self.add(result, docs[0][0], docs[0][1], [doc for _, _, doc in docs])
        else:
            for run, line, doc in docs:
                self.add(result, run, line, doc)
        return result


def runs_in(file: str, parts: Sequence[tuple[int, Any]]) -> list[tuple[str, tuple[int, Any]]]:
    """Name the runs of a file: the file, with the line where it holds several, or their number where lines hold several.

    Examples
    --------
    >>> [run for run, _ in runs_in("a.json", [(1, {}), (7, {})])], [run for run, _ in runs_in("a.json", [(1, {}), (1, {})])]
    (['a.json:1', 'a.json:7'], ['a.json#1', 'a.json#2'])
    """
    if len(parts) == 1:
        return [(file, parts[0])]
    alone = len({line for line, _ in parts}) == len(parts)
    return [(f"{file}:{part[0]}" if alone else f"{file}#{place}", part) for place, part in enumerate(parts, 1)]


def stat_of(text: str) -> str | None:
    """Return our name of a statistic; None where the text names none.

    Examples
    --------
    >>> [stat_of(text) for text in ("Average", "P50", "p(95)", "99.90 percentile", "100", "sum")]
    ['mean', 'median', 'p95', 'p99.9', 'max', None]
    """
    word = text.strip().lower()
    match = PERCENTILE.fullmatch(word)
    if match is None:
        return STATS.get(word)
    share = float(match[1])
    return {0.0: "min", 50.0: "median", 100.0: "max"}.get(share, f"p{share:g}")


def flat(doc: dict, path: str = "", found: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of nested objects by dotted path.

    Examples
    --------
    >>> flat({"a": {"b": 1}, "c": [1, 2]})
    {'a.b': 1, 'c': [1, 2]}
    """
    found = {} if found is None else found
    for key, value in doc.items():
        if isinstance(value, dict):
            flat(value, f"{path}{key}.", found)
        else:
            found[f"{path}{key}"] = value
    return found


def number(value: Any) -> float | None:
    """Return a float below `MOST`, or None; numbers in text are read too.

    Examples
    --------
    >>> number("1.5"), number(float("inf")), number(None), number(True)
    (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < MOST else None


def child(doc: Any, *keys: str) -> dict:
    """Return the object under some keys; an empty one where there is none.

    Examples
    --------
    >>> child({"a": {"b": {"c": 1}}}, "a", "b"), child({"a": [1]}, "a"), child(None, "a")
    ({'c': 1}, {}, {})
    """
    for key in keys:
        doc = doc.get(key) if isinstance(doc, dict) else None
    return doc if isinstance(doc, dict) else {}


def rows_under(doc: Any, key: str) -> list[dict]:
    """Return the objects of the list under a key; none where it is no list.

    Examples
    --------
    >>> rows_under({"benchmarks": [{"name": "a"}, 1]}, "benchmarks"), rows_under([], "benchmarks")
    ([{'name': 'a'}], [])
    """
    found = doc.get(key) if isinstance(doc, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def count(value: Any) -> int | None:
    """Return a whole number, or None.

    Examples
    --------
    >>> count(40.0), count("x")
    (40, None)
    """
    found = number(value)
    return None if found is None or abs(found) >= LARGEST else round(found)


def text_of(value: Any) -> str | None:
    """Return a value as text; None and the empty text are missing."""
    return None if value is None or value == "" else str(value)


def limit(doc: dict, key: str) -> float | None:
    """Return a load limit: a number, infinity where the key says `inf` or holds null (no limit), None where it is not known.

    Examples
    --------
    >>> limit({"max_concurrency": None}, "max_concurrency"), limit({"rate": "inf"}, "rate"), limit({}, "rate")
    (inf, inf, None)
    """
    if key not in doc:
        return None
    value = doc[key]
    if value is None:
        return math.inf
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def numbers(values: Any) -> list[float]:
    """Return the finite numbers of a list; of anything else, an empty list."""
    return [found for found in map(number, values) if found is not None] if isinstance(values, list) else []


def summarise(samples: Sequence[float]) -> dict[str, float]:
    """Return mean, median, p90, p99, min, max and, of two or more, the standard deviation (n - 1).

    Examples
    --------
    >>> summarise([1.0, 3.0])["mean"], summarise([])
    (2.0, {})
    """
    if not samples:
        return {}
    p90, p99 = map(float, np.quantile(samples, (0.9, 0.99)))
    found = {
        "mean": statistics.fmean(samples),
        "median": statistics.median(samples),
        "p90": p90,
        "p99": p99,
        "min": min(samples),
        "max": max(samples),
    }
    if len(samples) > 1:
        found["stddev"] = statistics.stdev(samples)
    return found


def as_json(value: Any) -> str:
    """Return JSON text that any reader takes: infinity and NaN as words, secrets masked.

    Examples
    --------
    >>> as_json({"request_rate": float("inf"), "api_key": "abc"})
    '{"request_rate": "inf", "api_key": "***"}'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(key): "***" if isinstance(item, str) and item and SECRET.search(str(key)) else _plain(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return SECRET_OPTION.sub(r"\1***", value)
    return value


def stamp_ns(value: Any) -> int | None:
    """Return a time as UTC nanoseconds: ISO 8601, vLLM's `20261129-124850`, or seconds since the epoch; no zone is UTC.

    Examples
    --------
    >>> stamp_ns("19700101-000001"), stamp_ns("1970-01-01T01:00:01+01:00"), stamp_ns(1.5), stamp_ns("yesterday")
    (1000000000, 1000000000, 1500000000, None)
    """
    seconds = None if isinstance(value, str) else number(value)
    if seconds is not None:
        return round(seconds * 1e9) if abs(seconds) * 1e9 < LARGEST else None
    if not isinstance(value, str):
        return None
    for read in (lambda: datetime.strptime(value, "%Y%m%d-%H%M%S"), lambda: datetime.fromisoformat(value)):
        try:
            found = read()
        except ValueError:
            continue
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return round(found.timestamp() * 1e6) * 1000
    return None


def rest_of(doc: dict, used: Iterable[str], outcomes: Iterable[str] = ()) -> dict:
    """Return the fields of a document that became no column and no value, so that nothing is lost.

    Those that are known to be results, not settings, stand together under `extra`.

    Examples
    --------
    >>> rest_of({"mean": 1, "tp": "1", "rtfx": 0.0}, ["mean"], ["rtfx"])
    {'tp': '1', 'extra': {'rtfx': 0.0}}
    """
    used, outcomes = set(used), set(outcomes)
    rest = {key: value for key, value in doc.items() if key not in used and key not in outcomes}
    extra = {key: value for key, value in doc.items() if key in outcomes and key not in used}
    return rest | ({"extra": extra} if extra else {})
