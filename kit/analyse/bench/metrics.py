"""Metrics of both sides: which values are replicates of which metric, and which pairs may be divided.

The run is the replicate. Where a side is a single file of a tool that starts a new process for each measurement, that
process is; repetitions within one process share its luck, and never decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.inputs import BASE, CAND, BenchInputs, LoadGroup
from kit.errors import UsageError
from kit.parse.bench.base import KNOWLEDGE

STATS = ("run", "median", "mean", "process_means", "p90", "p95", "p99", "max")
"""Statistics that are compared; a spread has no better direction, a count is told in words."""
COUNTS = frozenset(("completed", "failed"))
WHOLE_SECOND = 1.0
"""Step of phases, in seconds: the stamps of most servers' logs are whole seconds."""
BATCHED = 0.1
"""Median gap between tokens, as a share of the mean, below which tokens arrived in batches: where each comes by itself, the two
are about equal. A choice."""
BY_TOKEN = ("ttft", "itl", "tpot")
"""Times that say nothing of the server where tokens arrived in batches."""
MIN_REQUESTS_FOR_P99 = 100
"""With fewer requests a p99 is next to the maximum; the median is primary then."""
MAX_PRIMARY = 6
DECIDING_REPLICATES = frozenset(("run", "process", "process start", "launch"))
"""Replicates that may decide. Repetitions within one process do not: with equal code, three of three pairs differed."""
MIN_RUNS = 3
"""Runs a side for a verdict; with two a side there is an effect, and an interval that is mostly Student's t."""


@dataclass
class Metric:
    """One metric and statistic of both sides."""

    key: str  # `ttft.median`, with the load or the benchmark's name before it where there are several
    group: LoadGroup
    name: str | None  # the named benchmark
    # `quantity`, `stat`: `ttft` and `median`, as in the frame `bench_values`
    quantity: str
    stat: str
    unit: str | None
    direction: str
    # `base`, `cand`: a value a replicate, positive
    base: list[float]
    cand: list[float]
    replicate: str = "run"  # `run`, `process`, `process start`, `launch` or `repetition`
    primary: bool = False
    definition: str | None = None
    requests: int | None = None
    step: float = 0.0  # smallest difference that its clock tells, in its unit; 0 where that is small beside any value
    unfit: Finding | None = None  # why some run has no value to divide: it is 0, or not a time of a token
    refused: Finding | None = None  # why no ratio is given
    notes: list[Finding] = field(default_factory=list)  # what to know with it

    def of(self, side: str) -> list[float]:
        """Values of a side."""
        return self.base if side == BASE else self.cand


def metrics(inputs: BenchInputs, groups: Sequence[LoadGroup], force: bool, warnings: list[Finding]) -> list[Metric]:
    """Gather all metrics that both sides have."""
    found = []
    for group in groups:
        table = inputs.bench.values[inputs.bench.values["run"].isin(group.runs)]
        for names in _pairs(group, table, warnings):
            label = group.label if len(groups) > 1 else None
            found += _of_names(inputs, group, table, names, label, force)
    return found


def _pairs(group: LoadGroup, table: pd.DataFrame, warnings: list[Finding]) -> list[tuple[str | None, str | None]]:
    """Pair the named benchmarks of both sides: by name, or by position where no name is on both."""
    base, cand = (list(dict.fromkeys(map(_text, table[table["run"].isin(runs)]["name"]))) for runs in (group.base, group.cand))
    common = [name for name in base if name in cand]
    if common:
        odd = [name for name in dict.fromkeys([*base, *cand]) if name not in common]
        if odd:
            warnings.append(finding("unpaired_names", names=odd))
        return [(name, name) for name in common]
    if len(base) != len(cand):
        warnings.append(finding("nothing_to_pair"))
        return []
    pairs = list(zip(base, cand, strict=True))
    warnings.append(finding("paired_by_position", pairs="; ".join(f"{a} with {b}" for a, b in pairs)))
    return pairs


def _of_names(
    inputs: BenchInputs, group: LoadGroup, table: pd.DataFrame, names: tuple, label: str | None, force: bool
) -> list[Metric]:
    rows = {
        side: table[table["run"].isin(group.of(side)) & (table["name"].isna() if name is None else table["name"] == name)]
        for side, name in zip((BASE, CAND), names, strict=True)
    }
    words = " ".join(filter(None, (label, names[0] if names[0] == names[1] else f"{names[0]} | {names[1]}")))
    cand = {key: part for key, part in rows[CAND].groupby(["metric", "stat"], sort=False)}
    found = []
    batched = batched_runs(table)
    for (quantity, stat), base in rows[BASE].groupby(["metric", "stat"], sort=False):
        if stat in STATS and quantity not in COUNTS and not base["direction"].isna().all() and (quantity, stat) in cand:
            found.append(_metric(inputs, group, words, names, {BASE: base, CAND: cand[quantity, stat]}, batched, force))
    return found


def _metric(
    inputs: BenchInputs, group: LoadGroup, prefix: str, names: tuple, rows: dict, batched: list[str], force: bool
) -> Metric:
    first = rows[BASE].iloc[0]
    metric = Metric(
        key=f"{prefix} {first['metric']}.{first['stat']}".strip(),
        group=group,
        name=names[0],
        quantity=first["metric"],
        stat=first["stat"],
        unit=_text(first["unit"]),
        direction=first["direction"],
        base=[],
        cand=[],
        replicate="launch" if (inputs.bench.runs["tool"] == "launch").all() else "run",
        definition=next(iter(rows[BASE]["definition"].dropna()), None),
        requests=min((int(n) for side in rows.values() for n in side["n"].dropna()), default=None),
    )
    zeros = [run for side, part in rows.items() for run in _take(metric, side, part.drop_duplicates("run", keep="last"))]
    metric.unfit = _unfit(metric, zeros, batched)
    if metric.stat in ("mean", "process_means"):
        _take_repetitions(inputs, metric, names)
    if metric.replicate == "launch" and all(value.is_integer() for value in (*metric.base, *metric.cand)):
        metric.step = WHOLE_SECOND
    metric.refused = _refusal(inputs, metric, rows)
    if metric.refused and force:
        metric.notes.append(finding("forced", reason=metric.refused))
        metric.refused = None
    return metric


def _take(metric: Metric, side: str, rows: pd.DataFrame) -> list[str]:
    """Keep the positive values of a side, note the runs that have none, and return those whose value is 0."""
    zeros = []
    values = dict(zip(rows["run"], rows["value"], strict=True))
    for run in metric.group.of(side):
        value = values.get(run)
        if value is None or not math.isfinite(value):
            metric.notes.append(finding("missing_value", run=run))
        elif value <= 0:
            zeros.append(run)
        else:
            metric.of(side).append(float(value))
    return zeros


def _unfit(metric: Metric, zeros: list[str], batched: list[str]) -> Finding | None:
    """Why some runs have no value to divide; leaving them out would choose values."""
    if zeros:
        return finding("zero_value", runs=zeros)
    return finding("tokens_batched", runs=batched) if batched and metric.quantity in BY_TOKEN else None


def batched_runs(values: pd.DataFrame) -> list[str]:
    """Runs whose client got several tokens at once, of a frame `bench_values`.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("a", "itl", "median", 0.002), ("a", "itl", "mean", 7.0), ("b", "itl", "median", 6.9), ("b", "itl", "mean", 7.0)]
    >>> batched_runs(pd.DataFrame(rows, columns=["run", "metric", "stat", "value"]))
    ['a']
    """
    table = values[values["metric"] == "itl"].pivot_table(index="run", columns="stat", values="value", sort=False)
    if not {"median", "mean"} <= set(table.columns):
        return []
    return list(table.index[table["median"] < BATCHED * table["mean"]])


def _take_repetitions(inputs: BenchInputs, metric: Metric, names: tuple) -> None:
    """Replace the single value of a file by its repetitions, where a side has too few files."""
    runs = inputs.bench.runs.set_index("run").loc[metric.group.runs]
    tools = {
        "vllm startup" if (tool, kind) == ("vllm bench", "startup") else tool
        for tool, kind in zip(runs["tool"], runs["benchmark"], strict=True)
    }
    if min(len(metric.base), len(metric.cand)) >= MIN_RUNS or len(tools) != 1 or not tools <= KNOWLEDGE["repetition"].keys():
        return
    kind, quantity = KNOWLEDGE["repetition"][tools.pop()]
    if (kind == "process") != (metric.stat == "process_means") or metric.quantity != (quantity or metric.quantity):
        return
    base, cand = (_repetitions(inputs, metric, side, name, kind) for side, name in zip((BASE, CAND), names, strict=True))
    if min(len(base), len(cand)) > 1:
        metric.base, metric.cand, metric.replicate = base, cand, kind


def _repetitions(inputs: BenchInputs, metric: Metric, side: str, name: str | None, kind: str) -> list[float]:
    rows = inputs.bench.requests
    rows = rows[rows["run"].isin(metric.group.of(side)) & (rows["kind"] == "repetition") & rows["ok"].fillna(True).astype(bool)]
    rows = rows[(rows["name"] == (name or metric.quantity)) & (rows["latency_s"] > 0)]
    values = rows.groupby(["run", "group"])["latency_s"].mean() if kind == "process" else rows["latency_s"]
    return [float(value) for value in values]


def _refusal(inputs: BenchInputs, metric: Metric, rows: dict[str, pd.DataFrame]) -> Finding | None:
    """Why the two sides must not be divided; None where they may."""
    units = [set(side["unit"].dropna()) for side in rows.values()]
    if units[0] != units[1] or max(map(len, units)) > 1:
        return finding("units_differ", units=sorted(units[0] | units[1]))
    ids = {text for side in rows.values() for text in side["definition"].fillna("")}
    if len(ids) > 1:
        return finding("definitions_differ", definitions=sorted(text or "unknown" for text in ids))
    runs = inputs.bench.runs
    tools = set(runs["tool"][runs["run"].isin(metric.group.runs)]) if metric.quantity in ("itl", "tpot") else ()
    if len(tools) > 1:
        return finding("not_same_measurement", metric=metric.quantity, tools=" and ".join(sorted(tools)))
    return metric.unfit


def choose_primary(found: list[Metric], wanted: str | Iterable[str] | None, warnings: list[Finding]) -> None:
    """Mark the primary metrics: those that were asked for, else throughput, TTFT, ITL and latency, else the times."""
    if wanted is None:
        chosen = _default(found)
        for metric in chosen:
            metric.primary = True
        found.sort(key=lambda metric: chosen.index(metric) if metric.primary else len(chosen))
        return
    for text in [wanted] if isinstance(wanted, str) else list(wanted):
        hits = [m for m in found if text in (m.key, f"{m.quantity}.{m.stat}", f"{m.stat}_{m.quantity}_ms")]
        hits = hits or _usual([metric for metric in found if metric.quantity == text])
        if not hits:
            raise UsageError(
                f"unknown metric {text!r}",
                "both sides must have it",
                f"choose from: {', '.join(dict.fromkeys(metric.key for metric in found)) or 'none'}",
            )
        for metric in hits:
            metric.primary = True
    count = sum(metric.primary for metric in found)
    if count > MAX_PRIMARY:
        warnings.append(finding("many_primary", count=count, most=MAX_PRIMARY))


def _default(found: list[Metric]) -> list[Metric]:
    chosen = []
    for members in _families(found).values():
        serving = []
        for line in KNOWLEDGE["primary"]["serving"]:
            wanted = [(quantity, stat) for quantity in line["metrics"] for stat in line["stats"]]
            options = [m for key in wanted for m in members if (m.quantity, m.stat) == key]
            options = [m for m in options if m.stat != "p99" or (m.requests or 0) >= MIN_REQUESTS_FOR_P99]
            serving += ([m for m in options if m.base and m.cand and not m.unfit] or options)[:1]
        times = []
        for quantity in KNOWLEDGE["primary"]["times"]:
            times += _usual([metric for metric in members if metric.quantity == quantity and not metric.unfit])
        chosen += serving or times or _usual([metric for metric in members if metric.quantity == members[0].quantity])
    return chosen


def _families(found: list[Metric]) -> dict[tuple, list[Metric]]:
    families: dict[tuple, list[Metric]] = {}
    for metric in found:
        families.setdefault((id(metric.group), metric.name), []).append(metric)
    return families


def _usual(found: list[Metric]) -> list[Metric]:
    """The statistic of each benchmark that is looked at first: the one with replicates, else run, median, mean."""
    chosen = []
    for members in _families(found).values():
        repeated = [metric for metric in members if metric.replicate not in ("run", "launch")]
        chosen += (repeated or sorted(members, key=lambda metric: STATS.index(metric.stat)))[:1]
    return chosen


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
