"""Series that a monitoring system kept: Prometheus `query_range`, Grafana's CSV, OTLP as JSON lines.

Names that DCGM, the NVIDIA exporters and node_exporter use fill the frames `gpus` and `host_memory`; all others are counters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kit.clock import NS
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import stamp_ns
from kit.parse.snapshot import integer
from kit.parse.tool_words import TOOL_WORDS
from kit.untrusted import csv_rows, load_json

GPU = TOOL_WORDS["gpu_exporter"]
MEMORY = TOOL_WORDS["memory"]["node_exporter"]
LOAD = {"node_load1": "load1", "node_load5": "load5", "node_load15": "load15"}
_SERIES = re.compile(r"^(?P<name>[a-zA-Z_:][\w:.]*)?\s*(?:\{(?P<labels>.*)\})?$")
_LABEL = re.compile(r"(?<!\w)(\w+)=\"((?:[^\"\\]|\\.)*)\"|(?<!\w)(\w+)=([^,\"}]+)")
_STAMP = re.compile(r"^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?$")


class _Series:
    """Turns points into rows: points of one device and moment make one row of `gpus`."""

    def __init__(self, source: Source, report: Report):
        self.source, self.report = source, report
        self.gpus: dict[tuple[int, int], dict] = {}
        self.moments: dict[int, int] = {}

    def point(self, name: str, labels: dict[str, str], time: int, value: float, line: int) -> Iterator[tuple[str, dict]]:
        """Rows of one point; those of GPUs come from `rest`."""
        self.report.records += 1
        moment = self.moments.setdefault(time, len(self.moments))
        where = {"time": time, "moment": moment, "line": line}
        gpu = integer(labels.get("gpu") or labels.get("index"))
        if name in GPU and gpu is not None:
            column, factor = GPU[name]
            row = self.gpus.setdefault((gpu, time), {"gpu": gpu, "name": labels.get("modelName") or labels.get("name"), **where})
            row[column] = value * factor
        elif name in MEMORY:
            yield "host_memory", {"name": MEMORY[name], "value_bytes": int(value), **where}
        elif name in LOAD:
            yield "counters", {"source": "loadavg", "name": LOAD[name], "value": value, **where}
        else:
            text = ",".join(f'{key}="{word}"' for key, word in sorted(labels.items())) or None
            yield "counters", {"source": "metrics", "name": name, "labels": text, "value": value, **where}

    def rest(self) -> Iterator[tuple[str, dict]]:
        """Rows of GPUs, once all their series are read."""
        for row in self.gpus.values():
            yield "gpus", row


def _value(text: object) -> float | None:
    """A number as JSON or text; Prometheus writes +Inf and NaN as text."""
    try:
        figure = float(str(text))
    except ValueError:
        return None
    return figure if figure == figure else None


def parse_query_range(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the JSON answer of Prometheus' `query_range` or `query`.

    Examples
    --------
    >>> text = '{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "node_load1"}, '
    >>> text += '"values": [[1771378393, "5.5"]]}]}}'
    >>> [(row["source"], row["name"], row["value"]) for _, row in parse_query_range([text], Source("q.json"), Report())]
    [('loadavg', 'load1', 5.5)]
    """
    series, body = _Series(source, report), "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, document in objects(body):
        results = (document.get("data") or {}).get("result") if isinstance(document.get("data"), dict) else None
        for result in results if isinstance(results, list) else ():
            labels = {str(key): str(word) for key, word in (result.get("metric") or {}).items()}
            name = labels.pop("__name__", "query")
            for pair in result.get("values") or [result.get("value")]:
                value = _value(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
                if value is None or not isinstance(pair[0], (int, float)):
                    report.odd("a point that is not a number", str(pair)[:200])
                else:
                    yield from series.point(name, labels, round(pair[0] * 1000) * (NS // 1000), value, first)
    yield from series.rest()


def _is_query_range(head: str) -> float:
    return 0.97 if re.search(r'"resultType"\s*:\s*"(?:matrix|vector)"', head[:4000]) else 0.0


def _labels(text: str | None) -> dict[str, str]:
    return {(quoted or plain): (word if quoted else bare) for quoted, word, plain, bare in _LABEL.findall(text or "")}


def parse_grafana(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the CSV that a Grafana panel exports: a column of times, a column a series.

    Examples
    --------
    >>> text = ['"Time","DCGM_FI_DEV_GPU_UTIL{gpu=""0""}"', "2026-02-18 01:33:13,97"]
    >>> [(row["gpu"], row["util_percent"]) for _, row in parse_grafana(text, Source("panel.csv"), Report())]
    [(0, 97.0)]
    """
    series, heads = _Series(source, report), []
    for number, row in enumerate(csv_rows(line for line in lines if not line.startswith("sep=")), 1):
        report.lines += 1
        if row[:1] and row[0].strip('"').lower() == "time":
            heads = [_SERIES.match(cell.strip()) for cell in row[1:]]
            names = [
                (found["name"] or "query", _labels(found["labels"])) if found else (cell, {})
                for found, cell in zip(heads, row[1:], strict=True)
            ]
            continue
        stamp = _STAMP.match(row[0]) if row else None
        millis = integer(row[0]) if row else None
        if not heads or not stamp and millis is None:
            report.odd("a line without a time", ",".join(row)[:200])
            continue
        parts = stamp.groups() if stamp else ()
        time = stamp_ns(source, int(parts[0]), int(parts[1]), int(parts[2]), *parts[3:]) if stamp else (millis or 0) * 1_000_000
        for (name, labels), cell in zip(names, row[1:], strict=False):
            value = _value(cell.split(" ")[0].rstrip("%"))
            if value is not None and time is not None:
                yield from series.point(name, labels, time, value, number)
    yield from series.rest()


def _is_grafana(head: str) -> float:
    lines = [line for line in head.splitlines()[:4] if not line.startswith("sep=")]
    first = lines[0].strip() if lines else ""
    second = lines[1].split(",")[0].strip('"') if len(lines) > 1 else ""
    return 0.95 if re.match(r'"?Time"?,', first) and (_STAMP.match(second) or re.fullmatch(r"\d{13}", second)) else 0.0


def parse_otlp(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read OTLP as JSON lines, as the OpenTelemetry collector's file exporter writes it: gauges and sums; log records.

    Examples
    --------
    >>> import json
    >>> point = {"timeUnixNano": "1771378393000000000", "asDouble": 5.5, "attributes": []}
    >>> scope = {"metrics": [{"name": "node_load1", "gauge": {"dataPoints": [point]}}]}
    >>> text = json.dumps({"resourceMetrics": [{"resource": {}, "scopeMetrics": [scope]}]})
    >>> [(row["name"], row["value"]) for _, row in parse_otlp([text], Source("otlp.jsonl"), Report())]
    [('load1', 5.5)]
    """
    series = _Series(source, report)
    for number, line in enumerate(lines, 1):
        report.lines += 1
        try:
            document = load_json(line) if line.strip() else {}
        except ValueError:
            report.odd("not a line of JSON", line)
            continue
        for resource in document.get("resourceMetrics") or () if isinstance(document, dict) else ():
            for metric in (metric for scope in resource.get("scopeMetrics") or () for metric in scope.get("metrics") or ()):
                kind = next((metric[kind] for kind in ("gauge", "sum") if isinstance(metric.get(kind), dict)), {})
                for point in kind.get("dataPoints") or ():
                    value, time = _value(point.get("asDouble", point.get("asInt"))), _nanoseconds(point.get("timeUnixNano"))
                    if value is not None and time is not None:
                        labels = _attributes(point.get("attributes"))
                        yield from series.point(str(metric.get("name")), labels, time, value, number)
                if not kind:
                    report.odd("a histogram or summary", str(metric.get("name")))
    yield from series.rest()


def _nanoseconds(text: object) -> int | None:
    return int(str(text)) if re.fullmatch(r"\d{1,19}", str(text)) else None


def _attributes(attributes: object) -> dict[str, str]:
    found = {}
    for attribute in attributes if isinstance(attributes, list) else ():
        value = attribute.get("value") if isinstance(attribute, dict) else None
        if isinstance(value, dict) and value:
            found[str(attribute.get("key"))] = str(next(iter(value.values())))
    return found


def _is_otlp(head: str) -> float:
    return 0.98 if head.lstrip().startswith('{"resourceMetrics"') else 0.0


SERIES = ("gpus", "host_memory", "counters")
FORMATS = (
    Format("query_range", r"prom|query|range", _is_query_range, parse_query_range, frames=SERIES),
    Format("grafana_csv", r"grafana|panel|\.csv$", _is_grafana, parse_grafana, frames=SERIES),
    Format("otlp", r"otlp|otel", _is_otlp, parse_otlp, frames=SERIES),
)
