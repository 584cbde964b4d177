"""A plain table with named columns: CSV, or the same with semicolons or tabs.

Three shapes are read:

- long: columns `metric` and `value`, and of `stat`, `unit`, `direction`, `n`, `name`, `run` those that exist;
- figures: columns such as `mean_ttft_ms`, `p99_itl_ms`, `output_throughput`: a row is a run;
- samples: columns such as `ttft_ms`, `wall_time_s`, `error`: a row is a request or repetition, grouped by the columns
  `run` and `name` (or `benchmark`, `command`).

The CSV exports of hyperfine (`command,mean,stddev,…`) and Google Benchmark (`name,iterations,real_time,…`) are known too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kit.parse.bench import google_benchmark, hyperfine
from kit.parse.bench.base import HIGHER, KNOWLEDGE, LOWER, METRICS, SECONDS, BenchFormat, Result, count, number, stat_of, text_of
from kit.untrusted import csv_records

FIELDS = KNOWLEDGE["fields"]["table"]
NAMES, RUNS, LOAD, ALIASES, OUTCOME = (FIELDS[key] for key in ("names", "runs", "load", "aliases", "outcome"))
STAT = r"mean|avg|average|median|min|max|std|stddev|stdev|cv|p\d+(?:\.\d+)?"
UNIT = r"s|sec|secs|seconds|ms|us|ns"
COLUMN = re.compile(
    rf"^(?:(?P<before>{STAT})[_ ])?(?P<metric>.+?)(?:[_ ](?P<after>{STAT}))?"
    rf"(?:[_ ]\(?(?P<unit>{UNIT})\)?)?(?:[_ ](?P<last>{STAT}))?$"
)
TROUBLE = re.compile(r"fail|error|timeout|drop|reject|retr(y|ies)|preempt|exception")
"""A rate of these is better when lower."""
AMOUNT = re.compile(r"(?:^|_)(?:per|toks?|tokens?|reqs?|requests?|items?|ops?|queries|bytes|[kmg]i?b)$")
"""What makes a rate of `…_s`: `throughput_tok_s` is no time in seconds."""


_LOADS: dict[str, Callable[[str], Any]] = dict.fromkeys(("model", "dataset", "tool_version"), text_of)
_LOADS |= dict.fromkeys(("num_prompts", "completed", "failed"), count)
"""How columns of the load are read; others are limits."""


def looks_like(text: str) -> bool:
    """Whether a text is a table with a numeric column that is named like a measure."""
    rows = _rows(text)
    return bool(rows) and (_is_long(rows) or _is_hyperfine(rows) or _is_google(rows) or bool(_measures(rows)))


def _rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a table; comment lines and what stands before its header are left out."""
    lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    header = next((i for i, line in enumerate(lines) if re.match(r'^"?name"?,"?iterations"?,', line)), 0)
    lines = lines[header:]
    if len(lines) < 2:
        return []
    sign = max(",;\t", key=lines[0].count)
    if not lines[0].count(sign):
        return []
    records = csv_records((f"{line}\n" for line in lines), sign)
    return [{key.strip().lower(): value.strip() for key, value in row.items()} for row in records]


def _is_long(rows: list[dict]) -> bool:
    return {"metric", "value"} <= rows[0].keys()


def _is_hyperfine(rows: list[dict]) -> bool:
    return {"command", "mean", "stddev", "median", "user", "system"} <= rows[0].keys()


def _is_google(rows: list[dict]) -> bool:
    return {"name", "iterations", "real_time", "time_unit"} <= rows[0].keys()


def read_column(column: str) -> tuple[str, str | None, str, float, str | None] | None:
    """Read a column's name: metric, stat, unit, factor into that unit, better direction; None where it names no measure.

    Examples
    --------
    >>> read_column("mean_ttft_ms"), read_column("wall_time_s")
    (('ttft', 'mean', 'ms', 1.0, 'lower_is_better'), ('wall_time', None, 's', 1.0, 'lower_is_better'))
    >>> read_column("tokens_per_second"), read_column("note")
    (('output_throughput', None, 'tok/s', 1.0, 'higher_is_better'), None)
    >>> read_column("output_throughput_tok_s"), read_column("throughput_tok_s")[2:]
    (('output_throughput', None, 'tok/s', 1.0, 'higher_is_better'), ('1/s', 1.0, 'higher_is_better'))
    """
    text = column.strip().lower().replace("/", "_per_").replace("-", "_").replace(" ", "_")
    whole = ALIASES.get(text, text)
    if whole in METRICS:
        unit, direction = METRICS[whole]
        return whole, None, unit, 1.0, direction
    match = COLUMN.match(text)
    if not match:
        return None
    stat = match["before"] or match["after"] or match["last"]
    metric = ALIASES.get(match["metric"].strip("_ ("), match["metric"].strip("_ ("))
    if metric in METRICS:
        unit, direction = METRICS[metric]
        factor = SECONDS[match["unit"]] / SECONDS[unit] if match["unit"] and unit in SECONDS else 1.0
        return metric, stat and stat_of(stat), unit, factor, direction
    if match["unit"]:
        rate = AMOUNT.search(metric) is not None or "throughput" in metric
        plain = AMOUNT.sub("", metric) if rate and match["unit"].startswith("s") else ""
        if METRICS.get(plain, ("",))[0].endswith("/s"):
            return plain, stat and stat_of(stat), METRICS[plain][0], 1.0, METRICS[plain][1]
        return (
            (text if rate else metric),
            stat and stat_of(stat),
            "1/s" if rate else "s",
            1.0 if rate else SECONDS[match["unit"]],
            HIGHER if rate and not TROUBLE.search(metric) else LOWER,
        )
    if re.search(r"(_per_(s|sec|second)|_?throughput|_?ops|_?qps|_?rps|_?tps)$", metric):
        return metric, stat and stat_of(stat), "1/s", 1.0, LOWER if TROUBLE.search(metric) else HIGHER
    return None


def _measures(rows: list[dict]) -> dict[str, tuple]:
    """Return the columns that are measures: well named, and with a number in them."""
    found = {column: read_column(column) for column in rows[0] if column not in (*NAMES, *RUNS, *LOAD, *OUTCOME)}
    return {column: what for column, what in found.items() if what and any(number(row.get(column)) is not None for row in rows)}


def add(result: Result, run: str, line: int, text: str) -> None:
    """Add a table."""
    rows = _rows(text)
    if _is_long(rows):
        _long(result, rows)
    elif _is_hyperfine(rows):
        result.tool = "hyperfine"
        hyperfine.add(result, run, line, {"results": [_numeric(row) for row in rows]})
    elif _is_google(rows):
        result.tool = "google-benchmark"
        benchmarks = [{key: value for key, value in _numeric(row).items() if value != ""} for row in rows]
        google_benchmark.add(result, run, line, {"context": {}, "benchmarks": [_flag(row) for row in benchmarks]})
    elif any(what[1] or what[0].endswith("throughput") for what in _measures(rows).values()):
        _figures(result, rows)
    else:
        _samples(result, rows)


def _numeric(row: dict[str, str]) -> dict[str, Any]:
    names = {"command", "name", "label", "time_unit", "error_message", "error_occurred"}
    return {key: value if key in names or number(value) is None else number(value) for key, value in row.items()} | (
        {"stddev": None} if row.get("stddev") == "" else {}
    )


def _flag(row: dict[str, Any]) -> dict[str, Any]:
    if "error_occurred" in row:
        row["error_occurred"] = str(row["error_occurred"]).lower() == "true"
    return row


def _first(row: dict, columns: tuple[str, ...]) -> str | None:
    return next((row[column] for column in columns if row.get(column)), None)


def _run_of(result: Result, row: dict, number_: int | None = None) -> str:
    label = _first(row, RUNS) or (str(number_) if number_ is not None else None)
    return f"{result.file}:{label}" if label else result.file


def _add_run(result: Result, run: str, row: dict, **more: Any) -> None:
    if any(known["run"] == run for known in result.runs):
        return
    load: dict[str, Any] = {}
    for column, name in LOAD.items():
        if row.get(column):
            load[name] = _LOADS.get(name, _rate)(row[column])
    rest = {key: value for key, value in row.items() if key not in (*LOAD, *RUNS) and read_column(key) is None and key != "value"}
    result.run(run, label=text_of(_first(row, RUNS)), benchmark="table", settings=rest, **load, **more)


def _rate(text: str) -> float | None:
    return float("inf") if text.lower() in ("inf", "infinity", "unlimited") else number(text)


def _long(result: Result, rows: list[dict]) -> None:
    repeats: dict[tuple, int] = {}
    for row in rows:
        run = _run_of(result, row)
        key = (run, _first(row, NAMES), row["metric"], row.get("stat"))
        repeats[key] = repeats.get(key, 0) + 1
        if repeats[key] > 1:  # the same figure again is another run of the benchmark
            run = f"{run}:{repeats[key]}"
        _add_run(
            result, run, {key: value for key, value in row.items() if key not in ("metric", "stat", "unit", "direction", "n")}
        )
        metric = ALIASES.get(row["metric"], row["metric"])
        unit, value = row.get("unit") or METRICS.get(metric, ("",))[0], row["value"] or None
        known = METRICS.get(metric)
        if known and unit != known[0] and unit in SECONDS and known[0] in SECONDS and number(value) is not None:
            value, unit = float(value) * SECONDS[unit] / SECONDS[known[0]], known[0]
        stat = stat_of(row.get("stat") or "run") or row["stat"]
        direction = {"lower": LOWER, "higher": HIGHER}.get((row.get("direction") or "").split("_")[0].lower())
        result.value(run, metric, stat, value, n=count(row.get("n")), name=_first(row, NAMES), unit=unit, direction=direction)


def _figures(result: Result, rows: list[dict]) -> None:
    for i, row in enumerate(rows):
        run = _run_of(result, row, i + 1 if len(rows) > 1 else None)
        if any(known["run"] == run for known in result.runs):
            run = f"{run}:{i + 1}"
        _add_run(result, run, row, entry=i + 2)
        for column, (metric, stat, unit, factor, direction) in _measures(rows).items():
            if row.get(column):
                value = number(row[column])
                value = row[column] if value is None else value * factor
                result.value(run, metric, stat or "run", value, name=_first(row, NAMES), unit=unit, direction=direction)
        result.amounts(run, row.get("completed") or None, row.get("failed") or None)


def _samples(result: Result, rows: list[dict]) -> None:
    groups: dict[tuple[str, str | None], list[dict]] = {}
    for row in rows:
        groups.setdefault((_run_of(result, row), _first(row, NAMES)), []).append(row)
    for (run, name), members in groups.items():
        good = [row for row in members if _good(row)]
        _add_run(result, run, members[0])
        if len(good) < len(members):
            what = f"{run}, {name}" if name else run
            result.warn(f"{what}: {len(members) - len(good)} of {len(members)} rows failed; they are in no statistic here")
        columns = _measures(rows)
        for column, (metric, _, unit, factor, direction) in columns.items():
            samples = [value * factor for value in (number(row.get(column)) for row in good) if value is not None]
            result.summary(run, metric, samples, name=name, unit=unit, direction=direction)
        for i, row in enumerate(members):
            about = {"ok": _good(row), "error": text_of(_first(row, ("error", "errors"))), **_times(row, columns)}
            result.single(run, [{"name": name, "number": i, "kind": "repetition", **about}])


def _good(row: dict) -> bool:
    for column in ("error", "errors"):
        if row.get(column, "").lower() not in ("", "0", "false", "none", "null", "nan"):
            return False
    if row.get("exit_code", "0") not in ("0", "0.0"):
        return False
    return all(row.get(column, "").lower() not in ("0", "false", "no") for column in ("ok", "success"))


def _times(row: dict, columns: dict[str, tuple]) -> dict[str, float]:
    """Return the times of a row in seconds, under the columns of the frame of requests."""
    into = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "gap_mean_s"}
    found: dict[str, float] = {}
    for column, (metric, _, unit, factor, _) in columns.items():
        value = number(row.get(column))
        if value is not None and unit in SECONDS:
            found.setdefault(into.get(metric, "latency_s"), value * factor * SECONDS[unit])
    return found


TEXT_FORMAT = BenchFormat("table", looks_like, add)
