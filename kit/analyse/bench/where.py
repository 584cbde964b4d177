"""Where a difference sits: at which quantiles of the requests, on which prompt lengths, when in the run, in which stalls.

Every band is made of one value a run, as the verdicts are. A bootstrap over three to five runs cannot reach beyond the range
of these runs and is too narrow; `benchmarks/error_rate.py` counts how often each holds the truth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kit.analyse.bench import stats as stats
from kit.analyse.bench.inputs import BASE, CAND, Cell, Sides

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

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
BEYOND = 2
"""A quantile is drawn where each run has this many values beyond it; further out it is the extreme."""
LENGTH_BINS, TIME_BINS, LEAST_IN_BIN = 3, 4, 5
SAME_LENGTHS = 1.2
"""Prompts whose lengths spread less than this factor are of one length."""
STALL = 5.0
"""A gap between tokens is a stall where it is this many times the run's median gap."""
SPLIT_METRICS = ("ttft", "tpot", "e2el")
EFFECT_COLUMNS = ("base", "cand", "effect", "low", "high", "p", "n_base", "n_cand")


def samples(rows: pd.DataFrame, metric: str, means: bool = False) -> np.ndarray:
    """Return the single values of a metric, sorted, in seconds: every gap for `itl`, or the mean of each request."""
    import numpy as np

    column = "gap_mean_s" if means else COLUMN.get(metric, "latency_s")
    if column == "gaps_s":
        values = [gap for text in rows[column].dropna() for gap in json.loads(text)]
    else:
        values = rows[column].dropna().to_numpy(float)
    return np.sort(np.asarray(values, dtype=float))


def requests_of(sides: Sides, run: str, name: str | None, metric: str) -> pd.DataFrame:
    """Successful requests or repetitions of one run and benchmark."""
    rows = sides.bench.requests
    rows = rows[(rows["run"] == run) & rows["ok"].fillna(False).astype(bool) & (rows["kind"] != "warmup")]
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
    logs = [[math.log(value) for value in side] for side in (base, cand)]
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


def shift(sides: Sides, cell: Cell, name: str | None, metric: str, confidence: float) -> pd.DataFrame:
    """Return the shift function: the effect at each quantile of the requests.

    Returns
    -------
    pandas.DataFrame
        `quantile`, `base`, `cand` (seconds, geometric means over runs), `effect`, `low`, `high` (relative; pointwise band),
        `p`, `n_base`, `n_cand` (runs). Empty where a side has no single values.
    """
    import numpy as np
    import pandas as pd

    values = {
        side: [found for run in cell.of(side) if len(found := samples(requests_of(sides, run, name, metric), metric))]
        for side in (BASE, CAND)
    }
    rows = []
    least = min((len(one) for side in values.values() for one in side), default=0)
    if values[BASE] and values[CAND]:
        for quantile in QUANTILES:
            if min(quantile, 1 - quantile) * least >= BEYOND - 1e-9:
                points = [[float(np.quantile(one, quantile)) for one in values[side]] for side in (BASE, CAND)]
                rows.append({"quantile": quantile, **contrast(*points, confidence)})
    return pd.DataFrame(rows, columns=["quantile", *EFFECT_COLUMNS])


def _split(sides: Sides, cell: Cell, name: str | None, column: str, edges: Sequence[float], confidence: float) -> pd.DataFrame:
    """Effect on the run's medians of each metric, by bins of a column of the requests."""
    import pandas as pd

    rows = []
    for metric in SPLIT_METRICS:
        for low, high in zip(edges, edges[1:], strict=False):
            points: dict[str, list[float]] = {BASE: [], CAND: []}
            for side in points:
                for run in cell.of(side):
                    mine = requests_of(sides, run, name, metric)
                    where = mine[column].astype(float)
                    where = where / where.max() if column == "start_s" else where
                    mine = mine[(where >= low) & ((where < high) | (high == edges[-1]) & (where <= high))]
                    values = mine[COLUMN[metric]].dropna()
                    points[side] += [float(values.median())] if len(values) >= LEAST_IN_BIN else []
            if points[BASE] and points[CAND]:
                found = contrast(points[BASE], points[CAND], confidence)
                rows.append({"metric": metric, "from": low, "to": high, **found})
    return pd.DataFrame(rows, columns=["metric", "from", "to", *EFFECT_COLUMNS])


def by_length(sides: Sides, cell: Cell, name: str | None, confidence: float) -> tuple[pd.DataFrame, str | None]:
    """Return the effect by thirds of the prompt lengths, and why there are none (all alike, or not known)."""
    import numpy as np

    runs = [*cell.base, *cell.cand]
    lengths = sides.bench.requests.loc[sides.bench.requests["run"].isin(runs), "input_tokens"].dropna().to_numpy(float)
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return _split(sides, cell, name, "input_tokens", [], confidence), "the files do not hold the length of single prompts"
    if lengths.max() < SAME_LENGTHS * lengths.min():
        return _split(sides, cell, name, "input_tokens", [], confidence), "all prompts are of about the same length"
    few = np.unique(lengths)
    if len(few) <= LENGTH_BINS:  # quantiles of two or three lengths would fall together
        edges = [few[0], *((few[1:] + few[:-1]) / 2), few[-1]]
    else:
        edges = np.unique(np.quantile(lengths, np.linspace(0, 1, LENGTH_BINS + 1))).tolist()
    return _split(sides, cell, name, "input_tokens", edges, confidence), None


def over_time(sides: Sides, cell: Cell, name: str | None, confidence: float) -> tuple[pd.DataFrame, str | None]:
    """Return the effect by quarters of the run's time, and why there are none."""
    runs = [*cell.base, *cell.cand]
    mine = sides.bench.requests[sides.bench.requests["run"].isin(runs)]
    if not all((mine.loc[mine["run"] == run, "start_s"] > 0).any() for run in runs):
        return _split(sides, cell, name, "start_s", [], confidence), "the files do not hold when single requests began"
    return _split(sides, cell, name, "start_s", [i / TIME_BINS for i in range(TIME_BINS + 1)], confidence), None


def stalls(sides: Sides, cells: Iterable[Cell]) -> pd.DataFrame:
    """Return the stalls of each run: gaps between tokens of more than `STALL` times the run's median gap.

    Returns
    -------
    pandas.DataFrame
        `run`, `side`, `gaps`, `median_s`, `stalls`, `stalled_s` (sum), `longest_s`.
    """
    import numpy as np
    import pandas as pd

    rows = []
    for cell in cells:
        for run in (*cell.base, *cell.cand):
            gaps = samples(requests_of(sides, run, None, "itl"), "itl")
            if len(gaps):
                middle = float(np.median(gaps))
                long = gaps[gaps > STALL * middle] if middle > 0 else gaps[:0]
                rows.append(
                    {
                        "run": run,
                        "side": sides.side[run],
                        "gaps": len(gaps),
                        "median_s": middle,
                        "stalls": len(long),
                        "stalled_s": float(long.sum()),
                        "longest_s": float(gaps[-1]),
                    }
                )
    return pd.DataFrame(rows, columns=["run", "side", "gaps", "median_s", "stalls", "stalled_s", "longest_s"])


def shift_sentence(metric: str, table: pd.DataFrame, alpha: float) -> str | None:
    """Say at which quantiles the sides differ (Holm over the quantiles).

    Examples
    --------
    >>> import pandas as pd
    >>> seen = ((0.1, 0.0, 0.8), (0.5, 0.0, 0.9), (0.9, 0.3, 1e-4))
    >>> rows = [(q, 1.0, 1.0 + e, e, e - 0.01, e + 0.01, p, 5, 5) for q, e, p in seen]
    >>> shift_sentence("ttft", pd.DataFrame(rows, columns=["quantile", *EFFECT_COLUMNS]), 0.05)
    'ttft: longer in cand at p90 only (+30 %), no difference shown at the other quantiles'
    """
    if not len(table):
        return None
    ends = [f"p{row['quantile'] * 100:g} {percent(row['effect'])}" for row in (table.iloc[0], table.iloc[-1])]
    if table["p"].isna().all():
        return f"{metric}: {' to '.join(ends)} over the quantiles; with one run a side the noise of these is not known"
    adjusted = stats.holm([None if math.isnan(p) else p for p in table["p"]])
    hits = [row for row, p in zip(table.itertuples(), adjusted, strict=True) if p is not None and p <= alpha]
    if not hits:
        return f"{metric}: no difference shown at any single quantile ({', '.join(ends)})"
    said = []
    for word, group in (
        ("longer", [row for row in hits if row.effect > 0]),
        ("shorter", [row for row in hits if row.effect < 0]),
    ):
        if len(group) == 1:
            said.append(f"{word} in cand at p{group[0].quantile * 100:g} only ({percent(group[0].effect)})")
        elif group:
            first, last = group[0], group[-1]
            whole = "every quantile, " if len(group) == len(table) else ""
            said.append(
                f"{word} in cand at {whole}p{first.quantile * 100:g} ({percent(first.effect)}) to p{last.quantile * 100:g} "
                f"({percent(last.effect)})"
            )
    rest = "" if len(hits) == len(table) else ", no difference shown at the other quantiles"
    return f"{metric}: {', '.join(said)}{rest}"


def stall_sentence(table: pd.DataFrame) -> str | None:
    """Say how many stalls the runs of each side have, and how long the longest gaps are.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("a", "base", 600, 0.007, 0, 0.0, 0.010), ("b", "cand", 600, 0.0075, 4, 0.4, 0.12)]
    >>> columns = ["run", "side", "gaps", "median_s", "stalls", "stalled_s", "longest_s"]
    >>> stall_sentence(pd.DataFrame(rows, columns=columns)).split(": ", 1)[1]
    'base 0 of 600, longest gap 10 ms; cand 4 of 600, longest gap 120 ms; a median hides these'
    """
    found = {side: table[table["side"] == side] for side in (BASE, CAND)}
    if not all(map(len, found.values())) or not table["stalls"].any():
        return None
    words = []
    for side, rows in found.items():
        words.append(
            f"{side} {spread(rows['stalls'], '{:.0f}')} of {spread(rows['gaps'], '{:.0f}')}, longest gap "
            f"{spread(rows['longest_s'] * 1e3, '{:.3g}')} ms"
        )
    apart = ""
    for more, less in ((CAND, BASE), (BASE, CAND)):
        if len(table) > 2 and found[more]["stalls"].min() > found[less]["stalls"].max():
            apart = f": every run of {more} has more than any of {less}"
    return f"stalls of single tokens (gap > {STALL:g} × the run's median): {'; '.join(words)}{apart}; a median hides these"


def split_sentences(table: pd.DataFrame, unit: str) -> list[str]:
    """Say the effect in each bin where the bands of two bins do not meet, and of which metrics it is about the same in all.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("ttft", lo, lo + 100, 1.0, 1.0 + e, e, e - 0.01, e + 0.01, 0.5, 5, 5) for lo, e in ((0, 0.0), (100, 0.2))]
    >>> split_sentences(pd.DataFrame(rows, columns=["metric", "from", "to", *EFFECT_COLUMNS]), "tokens")
    ['ttft: 0–100 tokens 0 %, 100–200 tokens +20 %: differs between them']
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
            bins = [_bin(row, unit) for row in rows.to_dict("records")]
            apart.append(f"{metric}: {', '.join(bins)}: differs between them")
    if alike:
        apart.append(f"about the same effect in all {'quarters' if unit == 'quarter' else 'thirds'} ({', '.join(alike)})")
    if unknown:
        apart.append(f"the effects in the parts have no band with one run a side ({', '.join(unknown)})")
    return apart


def _bin(row: dict, unit: str) -> str:
    where = f"{row['from'] * TIME_BINS + 1:.0f}. quarter" if unit == "quarter" else f"{row['from']:.0f}–{row['to']:.0f} {unit}"
    return f"{where} {percent(row['effect'])}"


def percent(value: float) -> str:
    """Return a relative change as text.

    Examples
    --------
    >>> percent(0.1563), percent(-0.004), percent(3.2), percent(0.3)
    ('+15.6 %', '-0.4 %', '+320 %', '+30 %')
    """
    if abs(value) >= 10:
        return f"× {1 + value:.3g}"
    return "0 %" if not value else f"{value * 100:+.3g} %" if abs(value) >= 0.1 else f"{value * 100:+.2g} %"


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
