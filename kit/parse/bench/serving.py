"""What the clients of vLLM and SGLang share: one list a field over all requests, and `mean_ttft_ms`-like figures.

Failed requests stand in those lists as zeros. They are rows with `ok` false and are in no statistic.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from typing import Any

from kit.parse.bench.base import KNOWLEDGE, Result, count, limit, number, numbers, rest_of, summarise, text_of
from kit.schema import Row

FIGURE = re.compile(r"^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency)_ms$")
LISTS: list[str] = KNOWLEDGE["fields"]["serving"]["lists"]
OUTCOMES: list[str] = KNOWLEDGE["fields"]["serving"]["outcomes"]
AGREE = 1e-4
"""Relative difference up to which a figure of the tool and the one from its requests are the same number. Both come from
the same floats; rounding in the file is far below this, a statistic over other requests far above."""


def figures(doc: dict) -> dict[str, dict[str, Any]]:
    """Return the tool's own figures: metric to stat to value in ms.

    Examples
    --------
    >>> figures({"mean_ttft_ms": 36.5, "p50_ttft_ms": 36.1, "std_e2e_latency_ms": 5.0})
    {'ttft': {'mean': 36.5, 'median': 36.1}, 'e2el': {'stddev': 5.0}}
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in doc.items():
        match = FIGURE.match(key)
        if match and value is not None:
            stat = {"std": "stddev", "p50": "median"}.get(match.group(1), match.group(1))
            metric = "e2el" if match.group(2).startswith("e2e") else match.group(2)
            if stat not in found.setdefault(metric, {}) or match.group(1) == "median":
                found[metric][stat] = value
    return found


def request_rows(doc: dict) -> list[Row]:
    """Return a row a request, without run and file.

    A request failed where its entry of `errors` is not empty. Without that list, one with neither a time nor a token
    failed, and `ok` of the others is unknown where failures are known to be among them.
    """
    lists = {key: doc[key] for key in LISTS if isinstance(doc.get(key), list) and doc[key]}
    total = max((len(values) for key, values in lists.items() if key != "generated_texts"), default=0)
    starts = numbers(lists.get("start_times"))
    begin = min(starts) if starts else None
    rows = []
    for i in range(total):
        at = {key: values[i] if i < len(values) else None for key, values in lists.items()}
        rows.append({"number": i, **_times(at, begin), **_outcome(at)})
    failed = count(doc.get("failed"))
    if "errors" not in lists and failed is not None and sum(row["ok"] is False for row in rows) < failed:
        rows = [row | {"ok": None if row["ok"] else False} for row in rows]
    return rows


def _times(at: dict[str, Any], begin: float | None) -> Row:
    ttft, latency, start = number(at.get("ttfts")), number(at.get("latencies")), number(at.get("start_times"))
    gaps = numbers(at.get("itls"))
    output = count(at.get("output_lens"))
    exact = latency is not None
    if latency is None and ttft is not None and "itls" in at:
        latency = ttft + math.fsum(gaps)
    row: Row = {
        "kind": "request",
        "ttft_s": ttft,
        "latency_s": latency,
        "queue_s": number(at.get("queue_times")),
        "input_tokens": count(at.get("input_lens")),
        "output_tokens": output,
        "start_s": None if start is None or begin is None else start - begin,
        "latency_from": None if latency is None else "file" if exact else "first_token_and_gaps",
    }
    if "itls" in at:
        row |= {
            "gaps": len(gaps),
            "gap_mean_s": statistics.fmean(gaps) if gaps else None,
            "gap_max_s": max(gaps, default=None),
            "gaps_s": json.dumps(gaps),
        }
    if output is not None and output > 1 and ttft is not None and latency is not None:
        row["tpot_s"] = (latency - ttft) / (output - 1)
    return row


def _outcome(at: dict[str, Any]) -> Row:
    if "errors" in at:
        error = at["errors"]
        return {"ok": not error, "error": str(error) if error else None}
    times = [number(at[key]) for key in ("ttfts", "latencies") if key in at]
    nothing = bool(times) and not any(times) and not at.get("output_lens")
    return {"ok": not nothing, "error": "no time and no token" if nothing else None}


def samples_of(rows: list[Row]) -> dict[str, list[float]]:
    """Return the values in ms of successful requests by metric; every single gap for `itl`."""
    good = [row for row in rows if row["ok"]]
    ms = {
        metric: [row[column] * 1e3 for row in good if row.get(column) is not None]
        for metric, column in (("ttft", "ttft_s"), ("tpot", "tpot_s"), ("e2el", "latency_s"), ("client_queue_time", "queue_s"))
    }
    ms["itl"] = [gap * 1e3 for row in good for gap in json.loads(row.get("gaps_s") or "[]")]
    return ms


def statistics_of(samples: list[float]) -> dict[str, float]:
    """Return the statistics that these clients print; the standard deviation is numpy's default (n)."""
    return summarise(samples) | {"stddev": statistics.pstdev(samples)} if samples else {}


def add_serving(
    result: Result,
    run: str,
    line: int,
    doc: dict,
    fields: dict[str, str],
    definitions: dict[str, str],
    used: set[str],
    **about: Any,
) -> None:
    """Add a run of a serving client: its load and outcome, the figures of `fields` (key to metric), latencies and requests.

    `used`: keys of the document that are told in `about`, further columns of the run, and not among its settings.
    """
    rows = request_rows(doc)
    completed, failed = outcome(result, run, doc, rows)
    rate, concurrency = limit(doc, "request_rate"), limit(doc, "max_concurrency")
    if rate == math.inf and concurrency == math.inf:
        result.warn(f"{run}: no limit on rate or concurrency: TTFT holds the time in the queue and says little on the server")
    used = {*LISTS, *fields, "completed", *used, *(key for key in doc if FIGURE.match(key))}
    load: Row = {"request_rate": rate, "max_concurrency": concurrency, "num_prompts": len(rows) or None}
    load |= {"completed": completed, "failed": failed, "duration_s": number(doc.get("duration"))}
    load |= {"dataset": text_of(doc.get("dataset_name")), "settings": rest_of(doc, used, OUTCOMES)}
    for side in ("input", "output"):
        load[f"{side}_tokens_mean"] = mean_length(doc, rows, f"{side}_tokens", f"total_{side}_tokens")
    result.run(run, entry=line, **load | about)
    for key, metric in fields.items():
        if doc.get(key) is not None:
            result.value(run, metric, "run", doc[key])
    result.amounts(run, completed, failed)
    add_latencies(result, run, doc, rows, definitions)
    result.single(run, rows)


def add_latencies(result: Result, run: str, doc: dict, rows: list[Row], definitions: dict[str, str]) -> None:
    """Add TTFT, TPOT, ITL, latency and client queue time: the tool's figures, completed and checked by its requests."""
    own, samples = figures(doc), samples_of(rows)
    completed = count(doc.get("completed"))
    if completed == 0:
        result.warn(f"{run}: no request was completed: its times are missing, not 0")
    off: list[str] = []
    derived = any(row.get("latency_from") == "first_token_and_gaps" for row in rows)
    for metric in ("ttft", "tpot", "itl", "e2el", "client_queue_time"):
        told, seen = own.get(metric, {}), statistics_of(samples[metric])
        if derived and metric in ("tpot", "e2el"):
            if told:
                seen = {}
            elif seen:
                definitions = definitions | {metric: "first_token_and_gaps"}
        void = _void(result, run, doc, metric, told, completed, rows)
        n = len(samples[metric]) or (completed if metric in ("ttft", "e2el") else None)
        off += _add(result, run, metric, told, seen, void, n, definitions.get(metric))
    if off:
        result.warn(
            f"{run}: figures in the file are not those of its successful requests, which are taken: {'; '.join(off[:4])}"
            + (f"; {len(off) - 4} more" if len(off) > 4 else "")
        )


def _add(
    result: Result, run: str, metric: str, told: dict, seen: dict, void: bool, n: int | None, definition: str | None
) -> list[str]:
    """Add the figures of a metric; return where those of the tool are not those of its requests, which are taken then."""
    off = [
        f"{metric} {stat} {told[stat]}, not {seen[stat]:.6g} ms"
        for stat in told
        if stat in seen
        and stat != "stddev"
        and not void
        and not math.isclose(number(told[stat]) or 0.0, seen[stat], rel_tol=AGREE)
    ]
    for stat in dict.fromkeys([*told, *seen]):
        own = stat in told and not (off and stat in seen)
        value = None if void else told[stat] if own else seen[stat]
        result.value(run, metric, stat, value, n=0 if void else n, definition=definition, source="tool" if own else "samples")
    return off


def _void(result: Result, run: str, doc: dict, metric: str, told: dict, completed: int | None, rows: list[Row]) -> bool:
    """Whether a figure of the tool stands for no measurement: it writes 0 where there was nothing to average."""
    if completed == 0 or (rows and not any(row["ok"] is not False for row in rows)):
        return True
    if metric not in ("itl", "tpot") or any(map(number, told.values())):
        return False
    if told:
        tokens = count(doc.get("total_output_tokens"))
        why = (
            "no request had a second token"
            if tokens is not None and completed is not None and tokens <= completed
            else "the answers did not stream, and TTFT is then the whole latency"
        )
        result.warn(f"{run}: {metric} is 0 in the file, which is not a measurement ({why}); kept as missing")
    return bool(told)


def outcome(result: Result, run: str, doc: dict, rows: list[Row]) -> tuple[int | None, int | None]:
    """Return completed and failed, from the file or from its requests, and warn of failures and of what cannot be known."""
    completed, failed = count(doc.get("completed")), count(doc.get("failed"))
    judged = [row for row in rows if row["ok"] is not None]
    if failed is None and rows and isinstance(doc.get("errors"), list) and doc["errors"]:
        failed = sum(row["ok"] is False for row in judged)
    if failed:
        total = failed + completed if completed is not None else len(rows)
        result.warn(f"{run}: {failed} of {total} requests failed; they are in no statistic here")
        if rows and not doc.get("errors"):
            result.warn(
                f"{run}: the file has no list of errors, so which requests failed is known by their zeros only; "
                "record with --save-detailed to have it"
            )
    elif failed is None:
        result.warn(f"{run}: the file does not say how many requests failed")
    if failed is not None and judged and len(judged) == len(rows) and failed != sum(row["ok"] is False for row in judged):
        result.warn(
            f"{run}: the file counts {failed} failed requests, its lists hold {sum(row['ok'] is False for row in judged)}"
        )
    return completed, failed


def mean_length(doc: dict, rows: list[Row], column: str, total_key: str) -> float | None:
    """Return the mean number of tokens of successful requests."""
    lengths = [row[column] for row in rows if row["ok"] and row.get(column) is not None]
    if lengths:
        return statistics.fmean(lengths)
    total, completed = number(doc.get(total_key)), count(doc.get("completed"))
    return total / completed if total is not None and completed else None
