"""Figures of runs side by side: which values are replicates of which figure, and what each pair of sides says.

The run is the replicate. Where a side is a single file of a tool that starts a new process for each measurement, that
process is; repetitions within one process share its luck, and never decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.analyse.bench.inputs import BASE, CAND, Cell, Sides
from kit.analyse.text_blocks import named
from kit.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

STATS = ("run", "median", "mean", "process_means", "p90", "p95", "p99", "max")
"""Statistics that are compared; a spread has no better direction, a count is told in words."""
COUNTS = frozenset(("completed", "failed"))
WHOLE_SECOND = 1.0
"""Step of phases, in seconds: the stamps of most servers' logs are whole seconds."""
BUNDLED = 0.1
"""Median gap between tokens, as a share of the mean, below which tokens came in bundles: where each comes by itself, the two are
about equal. A choice."""
BY_TOKEN = ("ttft", "itl", "tpot")
"""Times that say nothing of the server where tokens came in bundles."""
LEAST_P99 = 100
"""With fewer requests a p99 is next to the maximum; the median is primary then."""
MOST_PRIMARY = 6
SERVING = (
    (("output_throughput", "request_throughput", "total_token_throughput", "input_sequence_throughput"), ("run", "mean")),
    (("ttft",), ("median", "mean")),
    (("itl", "tpot"), ("median", "mean")),
    (("e2el",), ("p99", "median", "mean")),
)
"""Primary figures of a serving benchmark, one of each line: throughput, TTFT, ITL, latency at the tail."""
TIMES = (
    "cold_startup",
    "warm_startup",
    "wall_time",
    "time_per_call",
    "real_time",
    "time_per_op",
    "time_to_ready_s",
    "phase_weights_s",
    "phase_compile_s",
    "phase_graph_capture_s",
    "prefill_latency",
    "decode_latency",
)
"""Primary figures of other benchmarks and of launches."""
INNER = {
    "vllm startup": ("process start", None),
    "pyperf": ("process", "time_per_call"),
    "hyperfine": ("repetition", "wall_time"),
    "pytest-benchmark": ("repetition", "time_per_call"),
    "google-benchmark": ("repetition", "real_time"),
    "go test -bench": ("repetition", "time_per_op"),
}
"""What a tool repeats within one file, and the metric of those repetitions (None: it is their name)."""
DECIDES = frozenset(("run", "process", "process start", "launch"))
"""Replicates that may decide. Repetitions within one process do not: with equal code, three of three pairs differed."""
ENOUGH = 3
"""Runs a side for a verdict; with two a side there is an effect, and an interval that is mostly Student's t."""


@dataclass
class Figure:
    """One figure of both sides.

    Attributes
    ----------
    key : str
        `ttft.median`, with the load or the benchmark's name before it where there are several.
    base, cand : list of float
        A value a replicate, positive.
    replicate : str
        `run`, `process`, `process start`, `launch` or `repetition`.
    step : float
        Smallest difference that its clock tells, in its unit; 0 where that is small beside any value.
    unfit : str or None
        Why the value of some run is none to divide: it is 0, or no time of a token.
    refused : str or None
        Why no ratio is given.
    notes : list of str
        What to know with it.
    """

    key: str
    cell: Cell
    name: str | None
    metric: str
    stat: str
    unit: str | None
    direction: str
    base: list[float]
    cand: list[float]
    replicate: str = "run"
    primary: bool = False
    definition: str | None = None
    requests: int | None = None
    step: float = 0.0
    unfit: str | None = None
    refused: str | None = None
    notes: list[str] = field(default_factory=list)

    def of(self, side: str) -> list[float]:
        """Values of a side."""
        return self.base if side == BASE else self.cand


def figures(sides: Sides, cells: Sequence[Cell], force: bool, warnings: list[str]) -> list[Figure]:
    """Gather all figures that both sides have."""
    found = []
    for cell in cells:
        table = sides.bench.values[sides.bench.values["run"].isin([*cell.base, *cell.cand])]
        for one, other in _pairs(sides, cell, table, warnings):
            found += _of_name(sides, cell, table, one, other, force, len(cells) > 1)
    return found


def _pairs(sides: Sides, cell: Cell, table: pd.DataFrame, warnings: list[str]) -> list[tuple[str | None, str | None]]:
    """Pair the named benchmarks of both sides: by name, or by position where no name is on both."""
    names = [list(dict.fromkeys(map(_text, table[table["run"].isin(runs)]["name"]))) for runs in (cell.base, cell.cand)]
    common = [name for name in names[0] if name in names[1]]
    if common:
        odd = [name for name in dict.fromkeys([*names[0], *names[1]]) if name not in common]
        if odd:
            warnings.append(f"only one side has {', '.join(map(str, odd))}: not compared")
        return [(name, name) for name in common]
    if len(names[0]) == len(names[1]):
        pairs = list(zip(*names, strict=True))
        warnings.append(
            "no benchmark has the same name on both sides; paired by position: " + "; ".join(f"{a} with {b}" for a, b in pairs)
        )
        return pairs
    warnings.append("no benchmark has the same name on both sides, and their numbers differ: nothing to pair")
    return []


def _of_name(sides: Sides, cell: Cell, table: pd.DataFrame, one: Any, other: Any, force: bool, several: bool) -> list[Figure]:
    rows = {
        side: table[table["run"].isin(cell.of(side)) & (table["name"].isna() if name is None else table["name"] == name)]
        for side, name in ((BASE, one), (CAND, other))
    }
    words = [*([cell.label] if several and cell.label else []), *([one if one == other else f"{one} | {other}"] if one else [])]
    found = []
    on_both = set(map(tuple, rows[CAND][["metric", "stat"]].to_numpy()))
    for (metric, stat), mine in rows[BASE].groupby(["metric", "stat"], sort=False):
        if stat not in STATS or metric in COUNTS or mine["direction"].isna().all() or (metric, stat) not in on_both:
            continue
        yours = rows[CAND].query("metric == @metric and stat == @stat")
        found.append(_figure(sides, cell, " ".join(words), (one, other), metric, stat, {BASE: mine, CAND: yours}, force))
    return found


def _figure(sides: Sides, cell: Cell, prefix: str, names: tuple, metric: str, stat: str, rows: dict, force: bool) -> Figure:
    first = rows[BASE].iloc[0]
    found = Figure(
        f"{prefix} {metric}.{stat}".strip(),
        cell,
        names[0],
        metric,
        stat,
        _text(first["unit"]),
        first["direction"],
        [],
        [],
        replicate="launch" if (sides.bench.runs["tool"] == "launch").all() else "run",
    )
    found.definition = next(iter(rows[BASE]["definition"].dropna()), None)
    counts = [int(n) for side in rows.values() for n in side["n"].dropna()]
    found.requests = min(counts, default=None)
    zeros = []
    for side, mine in rows.items():
        zeros += _take(found, side, mine.drop_duplicates("run", keep="last"), cell.of(side))
    found.unfit = _unfit(found, zeros, sides.bench.values)
    if stat in ("mean", "process_means"):
        _inner(sides, found, names)
    if found.replicate == "launch" and all(value.is_integer() for value in (*found.base, *found.cand)):
        found.step = WHOLE_SECOND
    found.refused = _refusal(sides, found, rows)
    if found.refused and force:
        found.notes.append(f"forced: {found.refused}")
        found.refused = None
    return found


def _take(found: Figure, side: str, rows: pd.DataFrame, runs: list[str]) -> list[str]:
    """Keep the positive values of a side, note the runs that have none, and return those whose value is 0."""
    zeros = []
    values = dict(zip(rows["run"], rows["value"], strict=True))
    for run in runs:
        value = values.get(run)
        if value is None or not math.isfinite(value):
            found.notes.append(f"{run} has no value")
        elif value <= 0:
            zeros.append(run)
        else:
            found.of(side).append(float(value))
    return zeros


def _unfit(found: Figure, zeros: list[str], values: pd.DataFrame) -> str | None:
    """Why some runs have no value to divide; to leave them out would be a choice of values."""
    if zeros:
        return f"it is 0 in {named(zeros, 2)}, which has no ratio; to leave these runs out would be a choice of values"
    if found.metric not in BY_TOKEN:
        return None
    runs = bundled(values[values["run"].isin([*found.cell.base, *found.cell.cand])])
    if not runs:
        return None
    return f"tokens came in bundles in {named(runs, 2)}, as on a busy machine: its times are those of reading, not of tokens"


def bundled(values: pd.DataFrame) -> list[str]:
    """Runs whose client got several tokens at once, of a frame `bench_values`.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("a", "itl", "median", 0.002), ("a", "itl", "mean", 7.0), ("b", "itl", "median", 6.9), ("b", "itl", "mean", 7.0)]
    >>> bundled(pd.DataFrame(rows, columns=["run", "metric", "stat", "value"]))
    ['a']
    """
    table = values[values["metric"] == "itl"].pivot_table(index="run", columns="stat", values="value", sort=False)
    if not {"median", "mean"} <= set(table.columns):
        return []
    return list(table.index[table["median"] < BUNDLED * table["mean"]])


def _inner(sides: Sides, found: Figure, names: tuple) -> None:
    """Replace the single value of a file by its repetitions, where a side has too few files."""
    runs = sides.bench.runs.set_index("run")
    mine = [*found.cell.base, *found.cell.cand]
    kinds = {_repeats(runs.loc[run]) for run in mine}
    if min(len(found.base), len(found.cand)) >= ENOUGH or len(kinds) != 1 or None in kinds:
        return
    kind, metric = kinds.pop()
    if (kind == "process") != (found.stat == "process_means") or found.metric != (metric or found.metric):
        return
    values = {side: _repetitions(sides, found, side, name, kind) for side, name in zip((BASE, CAND), names, strict=True)}
    if all(len(got) > 1 for got in values.values()):
        found.base, found.cand, found.replicate = values[BASE], values[CAND], kind


def _repeats(row: pd.Series) -> tuple[str, str | None] | None:
    return INNER.get("vllm startup" if (row["tool"], row["benchmark"]) == ("vllm bench", "startup") else row["tool"])


def _repetitions(sides: Sides, found: Figure, side: str, name: Any, kind: str) -> list[float]:
    rows = sides.bench.requests
    rows = rows[rows["run"].isin(found.cell.of(side)) & (rows["kind"] == "repetition") & rows["ok"].fillna(True).astype(bool)]
    rows = rows[rows["name"] == (found.metric if name is None else name)]
    rows = rows[rows["latency_s"] > 0]
    if kind == "process":
        return [float(value) for value in rows.groupby(["run", "group"])["latency_s"].mean()]
    return [float(value) for value in rows["latency_s"]]


def _refusal(sides: Sides, found: Figure, rows: dict[str, pd.DataFrame]) -> str | None:
    """Why the two sides must not be divided; None where they may."""
    units = [set(side["unit"].dropna()) for side in rows.values()]
    if units[0] != units[1] or max(map(len, units)) > 1:
        return f"units differ: {', '.join(sorted(units[0] | units[1]))}"
    ids = {text for side in rows.values() for text in side["definition"].fillna("")}
    tools = set(sides.bench.runs.set_index("run")["tool"].loc[[*found.cell.base, *found.cell.cand]])
    if len(ids) > 1:
        return f"defined differently: {', '.join(sorted(text or 'not said' for text in ids))}"
    if len(tools) > 1 and found.metric in ("itl", "tpot"):
        return f"{found.metric} of {' and '.join(sorted(tools))} are not the same measurement"
    return found.unfit


def choose_primary(found: list[Figure], wanted: Iterable[str] | None, warnings: list[str]) -> None:
    """Mark the primary figures: those that were asked for, else throughput, TTFT, ITL and latency, else the times."""
    if wanted is not None:
        for text in [wanted] if isinstance(wanted, str) else list(wanted):
            hits = [one for one in found if text in (one.key, f"{one.metric}.{one.stat}", f"{one.stat}_{one.metric}_ms")]
            hits = hits or _usual([one for one in found if one.metric == text])
            if not hits:
                raise UsageError(
                    f"no figure is called {text}",
                    "both sides must have it",
                    f"choose from: {', '.join(dict.fromkeys(one.key for one in found)) or 'none'}",
                )
            for one in hits:
                one.primary = True
    else:
        chosen = _default(found)
        for one in chosen:
            one.primary = True
        found.sort(key=lambda one: chosen.index(one) if one.primary else len(chosen))
    chosen = [one for one in found if one.primary]
    if wanted is not None and len(chosen) > MOST_PRIMARY:
        warnings.append(
            f"{len(chosen)} primary figures: each one more makes every one of them harder to find; choose up to {MOST_PRIMARY}"
        )


def _default(found: list[Figure]) -> list[Figure]:
    chosen = []
    for members in _families(found).values():
        here = []
        for metrics, stats in SERVING:
            options = [one for metric in metrics for stat in stats for one in members if (one.metric, one.stat) == (metric, stat)]
            usable = [one for one in options if one.stat != "p99" or (one.requests or 0) >= LEAST_P99]
            usable = [one for one in usable if one.base and one.cand and not one.unfit] or usable
            here += usable[:1]
        times = [one for metric in TIMES for one in _usual([m for m in members if m.metric == metric and not m.unfit])]
        chosen += here or times or _usual([one for one in members if one.metric == members[0].metric])
    return chosen


def _families(found: list[Figure]) -> dict[tuple, list[Figure]]:
    families: dict[tuple, list[Figure]] = {}
    for one in found:
        families.setdefault((id(one.cell), one.name), []).append(one)
    return families


def _usual(found: list[Figure]) -> list[Figure]:
    """The statistic of each benchmark that speaks first for a metric: the one with replicates, else run, median, mean."""
    chosen = []
    for members in _families(found).values():
        inner = [one for one in members if one.replicate not in ("run", "launch")]
        order = inner or sorted(members, key=lambda one: STATS.index(one.stat))
        chosen += order[:1]
    return chosen


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
