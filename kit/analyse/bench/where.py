"""Where a difference sits: at which quantiles of the requests, on which prompt lengths, when in the run, in which stalls.

Every band is made of one value a run, as the verdicts are. A bootstrap over three to five runs cannot reach beyond the range
of these runs and is too narrow; `benchmarks/error_rate.py` counts how often each holds the truth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kit.analyse.bench import stats
from kit.analyse.bench.findings import Finding, change, finding
from kit.analyse.bench.inputs import BASE, CAND, BenchInputs, LoadGroup
from kit.analyse.bench.metrics import Metric

COLUMN = {
    "ttft": "ttft_s",
    "e2el": "latency_s",
    "tpot": "tpot_s",
    "client_queue_time": "queue_s",
    "itl": "gaps_s",
    "inter_chunk_latency": "gaps_s",
}
"""Metric to column of the requests; any other time is `latency_s` of the repetitions."""
QUANTILES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MIN_BEYOND = 2
"""A quantile is drawn where each run has this many values beyond it; further out it is the extreme."""
LENGTH_BINS, TIME_BINS, MIN_IN_BIN = 3, 4, 5
BY_LENGTH, OVER_TIME = "by prompt length", "over the time of a run"
SAME_LENGTHS = 1.2
"""Prompts whose lengths spread less than this factor are of one length."""
STALL = 5.0
"""A gap between tokens is a stall where it is this many times the run's median gap."""
SPLIT_METRICS = ("ttft", "tpot", "e2el")
EFFECT_COLUMNS = ("base", "cand", "effect", "low", "high", "p", "n_base", "n_cand")


def samples(rows: pd.DataFrame, metric: str, means: bool = False) -> np.ndarray:
    """Return the single values of a metric, sorted, in seconds: every gap for `itl`, or the mean of each request."""
    column = "gap_mean_s" if means else COLUMN.get(metric, "latency_s")
    if column == "gaps_s":
        values = [gap for text in rows[column].dropna() for gap in json.loads(text)]
    else:
        values = rows[column].dropna().to_numpy(float)
    return np.sort(np.asarray(values, dtype=float))


def requests_of(inputs: BenchInputs, run: str, name: str | None, metric: str) -> pd.DataFrame:
    """Successful requests or repetitions of one run and benchmark."""
    rows = inputs.measured[run]
    if name is None and not rows["name"].notna().any():
        return rows
    return rows[rows["name"] == name] if name is not None else rows[rows["name"].fillna(metric) == metric]


def contrast(base: Sequence[float], cand: Sequence[float], confidence: float) -> dict[str, Any]:
    """Compare one value a run: relative effect with the interval of Welch's test; no interval with one run a side.

    Examples
    --------
    >>> found = contrast([1.0, 1.0, 1.01], [1.1, 1.11, 1.1], 0.95)
    >>> round(found["effect"], 3), round(found["low"], 3), found["n_base"]
    (0.1, 0.086, 3)
    """
    base, cand = ([value for value in side if value is not None and value > 0] for side in (base, cand))
    if not base or not cand:
        return dict.fromkeys(EFFECT_COLUMNS[:-2], math.nan) | {"n_base": len(base), "n_cand": len(cand)}
    logs = [math.log(value) for value in base], [math.log(value) for value in cand]
    both = min(map(len, logs)) > 1
    found = stats.welch(*logs) if both else stats.with_noise(*logs, None, 0)
    limits = found.interval(confidence) if both and found.error else None
    low, high = (math.nan, math.nan) if limits is None else (math.expm1(min(limit, 700.0)) for limit in limits)
    middles = [math.exp(sum(side) / len(side)) for side in logs]
    return {
        "base": middles[0],
        "cand": middles[1],
        "effect": math.expm1(found.difference),
        "low": low,
        "high": high,
        "p": math.nan if found.p is None else found.p,
        "n_base": len(base),
        "n_cand": len(cand),
    }


def shift(inputs: BenchInputs, group: LoadGroup, name: str | None, metric: str, confidence: float) -> pd.DataFrame:
    """Return the shift function: the effect at each quantile of the requests.

    Columns: `quantile`, `base`, `cand` (seconds, geometric means over runs), `effect`, `low`, `high` (relative; pointwise band),
    `p`, `n_base`, `n_cand` (runs). Empty where a side has no single values.
    """
    values = {
        side: [one for run in group.of(side) if len(one := samples(requests_of(inputs, run, name, metric), metric))]
        for side in (BASE, CAND)
    }
    rows: list[dict] = []
    least = min((len(one) for side in values.values() for one in side), default=0)
    if values[BASE] and values[CAND]:
        shown = [quantile for quantile in QUANTILES if min(quantile, 1 - quantile) * least >= MIN_BEYOND - 1e-9]
        base, cand = (np.transpose([np.quantile(one, shown) for one in values[side]]).tolist() for side in (BASE, CAND))
        rows = [{"quantile": at, **contrast(a, b, confidence)} for at, a, b in zip(shown, base, cand, strict=True)]
    return pd.DataFrame(rows, columns=["quantile", *EFFECT_COLUMNS])


def _placed(inputs: BenchInputs, run: str, metric: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """A run's values of a metric with their place: the request's column, times as a share of the run's."""
    requests = requests_of(inputs, run, None, metric)
    where, values = (requests[name].to_numpy(float, na_value=math.nan) for name in (column, COLUMN[metric]))
    if column == "start_s":
        where = where / requests[column].max()
    return where[values == values], values[values == values]


def _split(inputs: BenchInputs, group: LoadGroup, column: str, edges: Sequence[float], confidence: float) -> pd.DataFrame:
    """Effect on the run's medians of each metric, by bins of a column of the requests."""
    rows = []
    for metric in SPLIT_METRICS if len(edges) > 1 else ():
        placed = {side: [_placed(inputs, run, metric, column) for run in group.of(side)] for side in (BASE, CAND)}
        for low, high in zip(edges, edges[1:], strict=False):
            points: dict[str, list[float]] = {BASE: [], CAND: []}
            for side, runs in placed.items():
                for where, values in runs:
                    inside = values[(where >= low) & ((where < high) | (high == edges[-1]) & (where <= high))]
                    points[side] += [float(np.median(inside))] if len(inside) >= MIN_IN_BIN else []
            if points[BASE] and points[CAND]:
                rows.append({"metric": metric, "from": low, "to": high, **contrast(points[BASE], points[CAND], confidence)})
    return pd.DataFrame(rows, columns=["metric", "from", "to", *EFFECT_COLUMNS])


def by_length(inputs: BenchInputs, group: LoadGroup, confidence: float) -> tuple[pd.DataFrame, Finding | None]:
    """Return the effect by thirds of the prompt lengths, and why there are none (all alike, or not known)."""
    requests = inputs.bench.requests
    lengths = requests.loc[requests["run"].isin(group.runs), "input_tokens"].dropna().to_numpy(float)
    lengths = lengths[lengths > 0]
    edges: list[float] = []
    lacking = None
    if not len(lengths):
        lacking = finding("lengths_unknown", by=BY_LENGTH)
    elif lengths.max() < SAME_LENGTHS * lengths.min():
        lacking = finding("lengths_equal", by=BY_LENGTH)
    elif len(few := np.unique(lengths)) <= LENGTH_BINS:  # quantiles of two or three lengths would fall together
        edges = [few[0], *((few[1:] + few[:-1]) / 2), few[-1]]
    else:
        edges = np.unique(np.quantile(lengths, np.linspace(0, 1, LENGTH_BINS + 1))).tolist()
    return _split(inputs, group, "input_tokens", edges, confidence), lacking


def over_time(inputs: BenchInputs, group: LoadGroup, confidence: float) -> tuple[pd.DataFrame, Finding | None]:
    """Return the effect by quarters of the run's time, and why there are none."""
    requests = inputs.bench.requests
    known = all((requests.loc[requests["run"] == run, "start_s"] > 0).any() for run in group.runs)
    edges = [i / TIME_BINS for i in range(TIME_BINS + 1)] if known else []
    return _split(inputs, group, "start_s", edges, confidence), None if known else finding("starts_unknown", by=OVER_TIME)


def stalls(inputs: BenchInputs, groups: Iterable[LoadGroup]) -> pd.DataFrame:
    """Return the stalls of each run: gaps between tokens of more than `STALL` times the run's median gap.

    Columns: `run`, `side`, `gaps`, `median_s`, `stalls`, `stalled_s` (sum), `longest_s`.
    """
    rows = []
    for run in (run for group in groups for run in group.runs):
        gaps = samples(requests_of(inputs, run, None, "itl"), "itl")
        if len(gaps):
            middle = float(np.median(gaps))
            long = gaps[gaps > STALL * middle] if middle > 0 else gaps[:0]
            rows.append((run, inputs.side[run], len(gaps), middle, len(long), float(long.sum()), float(gaps[-1])))
    return pd.DataFrame(rows, columns=["run", "side", "gaps", "median_s", "stalls", "stalled_s", "longest_s"])


def shift_finding(metric: str, table: pd.DataFrame, alpha: float) -> Finding | None:
    """At which quantiles the sides differ (Holm over the quantiles).

    Examples
    --------
    >>> import pandas as pd
    >>> seen = ((0.1, 0.0, 0.8), (0.5, 0.0, 0.9), (0.9, 0.3, 1e-4))
    >>> rows = [(q, 1.0, 1.0 + e, e, e - 0.01, e + 0.01, p, 5, 5) for q, e, p in seen]
    >>> str(shift_finding("ttft", pd.DataFrame(rows, columns=["quantile", *EFFECT_COLUMNS]), 0.05))
    'ttft: longer in cand at p90 only (+30 %), no difference shown at the other quantiles'
    """
    if not len(table):
        return None
    quantiles, effects = (table["quantile"] * 100).tolist(), table["effect"].tolist()
    ends = {"first": quantiles[0], "first_effect": effects[0], "last": quantiles[-1], "last_effect": effects[-1]}
    if table["p"].isna().all():
        return finding("shift_noise_unknown", metric=metric, **ends)
    adjusted = stats.holm([None if math.isnan(p) else p for p in table["p"]])
    hits = [(q, e) for q, e, p in zip(quantiles, effects, adjusted, strict=True) if p is not None and p <= alpha]
    if not hits:
        return finding("shift_none", metric=metric, **ends)
    spans = []
    for word, span in (("longer", [hit for hit in hits if hit[1] > 0]), ("shorter", [hit for hit in hits if hit[1] < 0])):
        points = [f"p{quantile:g} ({change(effect)})" for quantile, effect in span]
        if len(span) == 1:
            spans.append(f"{word} in cand at p{span[0][0]:g} only ({change(span[0][1])})")
        elif span:
            every = "every quantile, " if len(span) == len(table) else ""
            spans.append(f"{word} in cand at {every}{points[0]} to {points[-1]}")
    return finding("shift" if len(hits) == len(table) else "shift_partly", metric=metric, spans=spans)


def stall_findings(table: pd.DataFrame) -> list[Finding]:
    """How many stalls the runs of each side have, and how long the longest gaps are.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("a", "base", 600, 0.007, 0, 0.0, 0.010), ("b", "cand", 600, 0.0075, 4, 0.4, 0.12)]
    >>> columns = ["run", "side", "gaps", "median_s", "stalls", "stalled_s", "longest_s"]
    >>> stall_findings(pd.DataFrame(rows, columns=columns))[0].values["sides"]
    'base 0 of 600, longest gap 10 ms; cand 4 of 600, longest gap 120 ms'
    """
    sides = {side: table[table["side"] == side] for side in (BASE, CAND)}
    if not all(map(len, sides.values())) or not table["stalls"].any():
        return []
    words = [
        f"{side} {spread(rows['stalls'], '{:.0f}')} of {spread(rows['gaps'], '{:.0f}')}, longest gap "
        f"{spread(rows['longest_s'] * 1e3, '{:.3g}')} ms"
        for side, rows in sides.items()
    ]
    apart = [
        finding("stalls_apart", more=more, less=less)
        for more, less in ((CAND, BASE), (BASE, CAND))
        if len(table) > 2 and sides[more]["stalls"].min() > sides[less]["stalls"].max()
    ]
    return [finding("stalls", factor=STALL, sides="; ".join(words)), *apart]


def part_findings(table: pd.DataFrame, by: str) -> list[Finding]:
    """The effect in each bin where the bands of two bins do not meet, and of which metrics it is about the same in all.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("ttft", lo, lo + 100, 1.0, 1.0 + e, e, e - 0.01, e + 0.01, 0.5, 5, 5) for lo, e in ((0, 0.0), (100, 0.2))]
    >>> part_findings(pd.DataFrame(rows, columns=["metric", "from", "to", *EFFECT_COLUMNS]), BY_LENGTH)[0].values["bins"]
    ['0–100 tokens 0 %', '100–200 tokens +20 %']
    """
    apart, alike, unknown = [], [], []
    for metric, rows in table.groupby("metric", sort=False):
        if len(rows) < 2:
            continue
        if rows["low"].isna().any():
            unknown.append(str(metric))
        elif rows["low"].max() <= rows["high"].min():
            alike.append(str(metric))
        else:
            bins = [f"{_bin(row['from'], row['to'], by)} {change(row['effect'])}" for row in rows.to_dict("records")]
            apart.append(finding("part_differs", by=by, metric=metric, bins=bins))
    parts = "quarters" if by == OVER_TIME else "thirds"
    return [
        *apart,
        *([finding("parts_alike", by=by, parts=parts, metrics=alike)] if alike else []),
        *([finding("parts_unknown", by=by, metrics=unknown)] if unknown else []),
    ]


def _bin(low: float, high: float, by: str) -> str:
    return f"quarter {low * TIME_BINS + 1:.0f}" if by == OVER_TIME else f"{low:.0f}–{high:.0f} tokens"


def largest_part(whole: Metric, values: pd.DataFrame, parts: tuple[str, ...]) -> Finding | None:
    """Which part of a time holds most of its difference; a part that a run lacks took no time in it."""
    rows = values[values["metric"].str.startswith((whole.quantity, *parts)) & (values["stat"] == whole.stat)]
    table = rows.pivot_table(index="run", columns="metric", values="value", sort=False)
    table = table[table[whole.quantity].notna()].fillna(0.0)
    base, cand = (table.loc[table.index.intersection(whole.group.of(side))].mean() for side in (BASE, CAND))
    change = (cand - base)[whole.quantity]
    signed = ((cand - base) * (1 if change > 0 else -1)).drop(whole.quantity)
    if not len(signed):
        return None
    part = str(signed.idxmax())
    named = {"whole": whole.quantity, "change": change, "part": part, "part_change": (cand - base)[part]}
    named["share"] = named["part_change"] / change
    if base[part] and cand[part]:
        return finding("largest_part", **named)
    return finding("largest_part_new", **named, side=BASE if base[part] else CAND)


def spread(values: Iterable[float], form: str) -> str:
    """Return the range of values, or the one that all have.

    Examples
    --------
    >>> spread([2, 6, 4], "{:.0f}"), spread([600, 600], "{:.0f}")
    ('2–6', '600')
    """
    values = list(values)
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low}–{high}"
