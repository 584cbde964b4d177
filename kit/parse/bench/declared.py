"""Tools that are read by the rules of `kit/knowledge/benchmarks.toml` alone: `label: value` lines, flat JSON, CSV rows.

A sample, of wrk::

    Running 30s test @ http://127.0.0.1:8000/v1/models
      2 threads and 64 connections
        Latency     1.71ms  302.00us  12.92ms   93.69%
      1200 requests in 30.00s, 1.20MB read
    Requests/sec:     40.00

Lines and fields without a rule stay in the run's settings.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from kit.parse.bench.base import (
    KNOWLEDGE,
    METRICS,
    SECONDS,
    BenchFormat,
    Result,
    count,
    flat,
    limit,
    number,
    runs_in,
    stamp_ns,
    stat_of,
    text_of,
)
from kit.untrusted import csv_records, csv_rows

NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
QUANTITY = rf"{NUMBER}\s?[A-Za-zµμ]*(?:/s)?(?:[\d.]+[a-zµμ]+)*"
PART = re.compile(rf"({NUMBER})\s?([A-Za-zµμ]*)")
TIMES = SECONDS | {"m": 60.0, "h": 3600.0}
BYTES = {unit: 1024.0**power for power, unit in enumerate(("B", "KB", "MB", "GB"))}
"""wrk counts bytes in powers of 1024."""
PAIR = re.compile(r"(?<!\S)(\S+?)=\s*(\S+)")
LABELLED = re.compile(r"([A-Za-z][\w ()/.\-]{0,80}?)\s*:\s+(\S.*)")
COLUMNS = {
    "label": text_of,
    "model": text_of,
    "tool_version": text_of,
    "started": stamp_ns,
    "max_concurrency": number,
    "num_prompts": count,
    "input_tokens_mean": number,
    "output_tokens_mean": number,
}
AMOUNTS = ("completed", "failed", "total", "lost")
NOT_STATS = ("value", "stat", "metric", "text", "pairs")


def quantity(text: Any, unit: str | None = None) -> tuple[float | None, str | None]:
    """Return the number and the unit of a text; a duration of several parts is in seconds.

    Examples
    --------
    >>> quantity("1,024.5"), quantity("635.91us"), quantity("1m30s"), quantity(7, "ns")
    ((1024.5, None), (635.91, 'us'), (90.0, 's'), (7.0, 'ns'))
    """
    if not isinstance(text, str):
        return number(text), unit
    parts = PART.findall(text.strip().removesuffix("/s"))
    if len(parts) > 1 and all(name in TIMES for _, name in parts):
        return sum(float(value) * TIMES[name] for value, name in parts), "s"
    if not parts:
        return None, unit
    return number(parts[0][0].replace(",", "")), parts[0][1] or unit


def _converted(value: float, unit: str | None, metric: str) -> float:
    """A value in the unit of its metric."""
    wanted = METRICS[metric][0]
    if unit in TIMES and wanted in SECONDS:
        return value * TIMES[unit] / SECONDS[wanted]
    return value * BYTES[unit] if unit in BYTES and wanted.startswith("B") else value


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"(?<!\?P)<(\w+)>", lambda match: f"(?P<{match[1]}>{QUANTITY})", pattern), re.MULTILINE)


def _matches(tool: dict, items: Iterable[tuple[str, Any]]) -> Iterator[tuple[dict, dict[str, Any]]]:
    """Each rule that an item (a line and None, or a path and its value) fulfils, with its groups; last, what fulfilled none."""
    rest = {}
    for text, value in items:
        kind, hit = "line" if value is None else "path", False
        for rule in tool["rules"]:
            match = _compiled(rule[kind]).fullmatch(text)
            if match:
                hit = True
                yield rule, match.groupdict() | ({} if value is None else {"value": value})
                if value is not None:
                    break
        if not hit:
            labelled = LABELLED.fullmatch(text) if value is None else None
            rest |= {labelled[1]: labelled[2]} if labelled else {} if value is None else {text: value}
    yield {"to": "settings"}, rest


def _figures(rule: dict, groups: dict[str, Any], tool: dict) -> Iterator[tuple[str, str, float | None]]:
    """(metric, stat, value) of a rule that holds."""
    metric = rule.get("metric", tool.get("metrics", {}).get(groups.get("metric") or ""))
    if not metric:
        return
    found = {rule.get("stat") or groups.get("stat") or "run": groups["value"]} if "value" in groups else {}
    found |= dict(PAIR.findall(groups.get("pairs") or ""))
    found |= {name: text for name, text in groups.items() if name not in NOT_STATS}
    for name, text in found.items():
        value, unit = quantity(text, rule.get("unit"))
        stat = stat_of(name)
        if stat:
            yield metric, stat, None if value is None else _converted(value, unit, metric) * rule.get("factor", 1.0)


def add(result: Result, run: str, line: int, tool: dict, items: Iterable[tuple[str, Any]], name: str | None = None) -> dict:
    """Add one run, or one named benchmark of a run that is there, and return its columns."""
    columns: dict[str, Any] = {}
    amounts: Counter[str] = Counter(dict.fromkeys(tool.get("zero", ()), 0))
    seen: set[tuple[str, str]] = set()
    for rule, groups in _matches(tool, items):
        given = groups.get("text", groups.get("value"))
        if "warn" in rule:
            result.warn(f"{run}: {rule['warn']}")
        elif rule.get("to") in AMOUNTS:
            amounts[rule["to"]] += count(quantity(given)[0]) or 0
        elif "to" in rule:
            columns[rule["to"]] = groups if rule["to"] == "settings" else COLUMNS[rule["to"]](given)
        else:
            for metric, stat, value in _figures(rule, groups, tool):
                if (metric, stat) not in seen:
                    seen.add((metric, stat))
                    result.value(run, metric, stat, value, name=name, definition=rule.get("definition"))
                if metric == "duration":
                    columns["duration_s"] = value
    if "total" in amounts and "failed" in amounts:
        amounts["completed"] = amounts["total"] - amounts["failed"]
    if "lost" in amounts:
        amounts["failed"] += amounts["lost"]
    for metric in ("completed", "failed"):
        if metric in amounts:
            columns[metric] = amounts[metric]
            result.value(run, metric, "count", amounts[metric], name=name)
    if columns.get("failed") and not name:
        result.warn(f"{run}: {columns['failed']} of {columns['failed'] + columns.get('completed', 0)} requests failed")
    if name is None:
        result.run(run, entry=line, benchmark=tool["benchmark"], **columns)
    return columns


def sections(tool: dict, text: str) -> list[tuple[int, str]]:
    """Line and text of each run of a tool in a text."""
    begins = list(_compiled(tool["begin"]).finditer(text))
    starts, previous = [], 0
    for begin in begins:
        above = _compiled(tool["before"]).search(text, previous, begin.start()) if "before" in tool else None
        starts.append(above.start() if above else begin.start())
        previous = begin.end()
    parts = [(text.count("\n", 0, a) + 1, text[a:b]) for a, b in pairwise([*starts, len(text)])]
    must = _compiled(tool.get("must", ""))
    return [(line, part) for line, part in parts if must.search(part)]


def parse_text(text: str, file: str, readers: dict[str, BenchFormat]) -> list[Result]:
    """Return the results of all tools that printed into a text; `readers` read the JSON of a tool."""
    results = []
    for tool in KNOWLEDGE["tool"]:
        parts = sections(tool, text) if "begin" in tool else []
        if not parts:
            continue
        result = Result(file, tool["name"])
        for run, (line, part) in runs_in(file, parts):
            items = [(row.strip(" \t│|").strip(), None) for row in part.splitlines()]
            if "reader" in tool:
                readers[tool["reader"]].add(result, run, line, _document(tool, items))
            else:
                add(result, run, line, tool, items)
        results.append(result)
    return results


def _document(tool: dict, items: list[tuple[str, None]]) -> dict[str, Any]:
    """The JSON that the tool would have saved, of what it printed."""
    doc: dict[str, Any] = {}
    for rule, groups in _matches(tool, items):
        if "key" in rule:
            words = {name: str(text).lower().replace(" ", "_") for name, text in groups.items() if text}
            value = quantity(groups["value"])[0] if "value" in groups else groups["text"].strip()
            doc[rule["key"].format(**words)] = value
    for key in ("max_concurrency", "request_rate"):
        if key in doc:
            doc[key] = limit(doc, key) if doc[key] != "not set" else None
    return doc


def parse_csv(text: str, file: str) -> Result | None:
    """Return the rows of a CSV whose header is that of a known tool; None for any other."""
    head = next(csv_rows(io.StringIO(text[:4096])), [])
    tool = next((tool for tool in KNOWLEDGE["tool"] if set(tool.get("header", ["\0"])) <= set(head)), None)
    if tool is None:
        return None
    result = Result(file, tool["name"])
    rows = list(csv_records(io.StringIO(text)))
    first = Counter(row[tool["named"][0]] for row in rows)
    sums: Counter[str] = Counter()
    for row in rows:
        words = [row[column] for column in tool["named"]]
        name = words[0] if first[words[0]] == 1 else " ".join(filter(None, reversed(words)))
        items = [(column, value) for column, value in row.items() if column and value not in ("", "N/A", None)]
        columns = add(result, file, 1, tool, items, name)
        amounts = {key: columns[key] for key in ("completed", "failed") if key in columns}
        sums = Counter(amounts) if name == "Aggregated" else sums + Counter(amounts)
    whole = {key: sums[key] for key in ("completed", "failed")}
    result.run(file, entry=1, benchmark=tool["benchmark"], **whole)
    if whole["failed"]:
        result.warn(f"{file}: {whole['failed']} of {sum(whole.values())} requests failed")
    return result


def _json_format(tool: dict) -> BenchFormat:
    """The JSON form of a tool."""
    keys = [_compiled(key) for key in tool["keys"]]

    def looks_like(doc: Any) -> bool:
        return isinstance(doc, dict) and all(any(map(key.fullmatch, flat(doc))) for key in keys)

    def add_document(result: Result, run: str, line: int, doc: dict) -> None:
        add(result, run, line, tool, flat(doc).items())

    return BenchFormat(tool["name"], looks_like, add_document)


FORMATS = tuple(_json_format(tool) for tool in KNOWLEDGE["tool"] if "keys" in tool)
