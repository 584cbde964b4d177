"""Two settings of a server by their benchmark results: is one faster, by how much, and could it be chance.

The gate comes before the numbers, the interval before the verdict, and a verdict rests on runs, never on single requests: of two
unchanged servers the requests differ "significantly" in three comparisons of ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.analyse.bench import drift as bench_drift
from kit.analyse.bench import where as bench_where
from kit.analyse.bench import why as bench_why
from kit.analyse.bench.inputs import BASE, CAND, Cell, Given, Sides, cells, join, read_side
from kit.analyse.bench.judge import FAILED_SHARE, Judged, Rules, judge
from kit.analyse.bench.metrics import Figure, choose_primary, figures
from kit.analyse.bench.noise import noise_from
from kit.analyse.text_blocks import named
from kit.document import Document, Shown
from kit.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from kit.analyse.bench.results import Benchmarks

SHIFT_METRICS = ("ttft", "itl", "tpot", "e2el")
PARTS = {
    "cold_startup": ("cold_compilation", "cold_encoder_compilation"),
    "warm_startup": ("warm_compilation", "warm_encoder_compilation"),
    "time_to_ready_s": ("phase_",),
}
"""Times that are parts of another: one that a run lacks took no time in it."""


@dataclass(repr=False)
class BenchComparison(Shown):
    """What the runs of two sides say. Make it with `kit.compare_benchmarks` or `kit.compare_launches`.

    Attributes
    ----------
    judged : list of Judged
        One figure each: verdict, effect, interval.
    quotes : list of Judged
        Figures against quoted numbers.
    gate : dict
        `comparable`, `forced`, `differs`, `unknown` (names of the load), `refused` (figures whose ratio is withheld).
    warnings : list of str
        Failures first.
    settings : pandas.DataFrame
        Settings that differ: `setting`, `source`, `base`, `cand`, `separates`, `unlikely`.
    where, why : list of str
        Sentences.
    stalls, by_length, over_time : pandas.DataFrame
        Where the difference sits, by run, by prompt length, by time in the run.
    """

    sides: Sides
    cells: list[Cell]
    judged: list[Judged]
    quotes: list[Judged]
    gate: dict[str, Any]
    warnings: list[str]
    rules: Rules
    settings: pd.DataFrame
    stalls: pd.DataFrame
    by_length: pd.DataFrame
    over_time: pd.DataFrame
    shifts: dict[tuple[int, str | None, str], pd.DataFrame] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)

    @property
    def table(self) -> pd.DataFrame:
        """One row a figure: `key`, `primary`, `base`, `cand`, `unit`, `effect`, `low`, `high`, `verdict`, `n_base`, `n_cand`,
        `noise`, `p`, `p_adjusted`, `p_permutation`, `runs_needed`, `notes`."""
        import pandas as pd

        rows = []
        for one in [*self.judged, *self.quotes]:
            found = one.to_dict()
            low, high = found.pop("interval") or (None, None)
            n = found.pop("n")
            rows.append(
                {
                    "key": one.figure.key,
                    **found,
                    "low": low,
                    "high": high,
                    "n_base": n[BASE],
                    "n_cand": n[CAND],
                    "notes": "; ".join(found["notes"]),
                }
            )
        columns = [
            "key",
            "primary",
            "base",
            "cand",
            "unit",
            "effect",
            "low",
            "high",
            "verdict",
            "n_base",
            "n_cand",
            "noise",
            "p",
            "p_adjusted",
            "p_permutation",
            "runs_needed",
            "notes",
        ]
        return pd.DataFrame(rows, columns=columns).astype(
            dict.fromkeys(("base", "cand", "effect", "low", "high", "p", "p_adjusted", "p_permutation"), float)
            | {"runs_needed": "Int64"}
        )

    def shift(self, metric: str = "ttft", name: str | None = None) -> pd.DataFrame:
        """Effect at each quantile of the requests, with a band over runs; of the first load where there are several.

        Returns
        -------
        pandas.DataFrame
            `quantile`, `base`, `cand` (seconds), `effect`, `low`, `high` (relative), `p`, `n_base`, `n_cand`; empty where the
            files hold no single values, or where the ratio is withheld.
        """
        if self.withheld(metric):
            return bench_where.shift(self.sides, Cell(None, [], []), name, metric, self.rules.confidence)
        key = (0, name, metric)
        if key not in self.shifts:
            self.shifts[key] = bench_where.shift(self.sides, self.cells[0], name, metric, self.rules.confidence)
        return self.shifts[key]

    def withheld(self, metric: str) -> bool:
        """Whether the ratio of a metric is not given."""
        mine = [one for one in self.judged if one.figure.metric == metric]
        return not self.gate["comparable"] and not self.gate["forced"] or bool(mine) and all(one.figure.refused for one in mine)

    def __getitem__(self, key: str) -> Judged:
        """One figure: `comparison["ttft.median"]`."""
        for one in [*self.judged, *self.quotes]:
            if one.figure.key == key:
                return one
        raise KeyError(f"{key}; there are {', '.join(one.figure.key for one in self.judged)}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python types: `metrics` (key to verdict, effect, interval, n, runs_needed, …), `warnings`, `gate`, …"""
        return {
            "runs": {side: self.sides.of(side) for side in (BASE, CAND)},
            "gate": self.gate,
            "warnings": self.warnings,
            "metrics": {one.figure.key: one.to_dict() for one in self.judged},
            "quoted": {one.figure.key: one.to_dict() for one in self.quotes},
            "where": self.where,
            "stalls": _records(self.stalls),
            "why": self.why,
            "settings": _records(self.settings),
            "margin": self.rules.margin,
            "confidence": self.rules.confidence,
        }

    def document(self, brief: bool = False) -> Document:
        """What it says, as a document."""
        from kit.analyse.bench.text import document

        return document(self)

    def __repr__(self) -> str:
        return f"<BenchComparison: {len(self.judged)} figures>"


def _records(table: pd.DataFrame) -> list[dict]:
    import pandas as pd

    plain = table.astype(object).where(table.notna(), None)
    return [
        {key: value.item() if hasattr(value, "item") else None if value is pd.NA else value for key, value in row.items()}
        for row in plain.to_dict("records")
    ]


def compare_benchmarks(
    base: Given,
    cand: Given = None,
    *,
    primary: str | Iterable[str] | None = None,
    force: bool = False,
    aa: Given = None,
    quoted: Mapping[str, float] | None = None,
    margin: float = 0.05,
    confidence: float = 0.95,
) -> BenchComparison:
    """Compare the benchmark results of two settings of a server.

    Parameters
    ----------
    base, cand : path, iterable of paths, Benchmarks, or runs of launches
        Results of each side; record at least five runs a side, in turn. Folders with `run.json` are launches, whose phases are
        compared. `cand` may be left out where `quoted` is given.
    primary : str or iterable of str, optional
        Figures the question is about, `ttft.median` or `ttft`: up to six. Their verdicts hold together at the level
        1 - confidence (Holm); the other figures are exploratory.
    force : bool
        Give ratios although load or definitions differ.
    aa : as base, optional
        Runs of one unchanged setting: their spread is the noise where a side has fewer than three runs.
    quoted : mapping of str to float, optional
        Numbers to hold the candidate against, `{"output_throughput": 82.5}`, in the unit of the figure.
    margin : float
        Relative change that counts as none: an interval within it is `equivalent`.
    confidence : float
        Of the intervals, between 0.5 and 1.

    Returns
    -------
    BenchComparison

    Raises
    ------
    EvidenceError
        Where a side cannot be read, or nothing of it is left.
    UsageError
        Where a figure is unknown, or launches and results are mixed.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("sg01-capture-hang").parent / "bench"
    >>> found = kit.compare_benchmarks(folder / "vllm-base.json", folder / "vllm-candidate.json")
    >>> found["ttft.median"].verdict, round(found["ttft.median"].effect, 3), found["ttft.median"].noise
    ('inconclusive', 0.174, 'unknown')
    """
    if not 0.5 < confidence < 1 or not 0 < margin < 1:
        raise UsageError(
            f"margin {margin:g} and confidence {confidence:g} cannot be used",
            "a margin lies between 0 and 1, a confidence between 0.5 and 1",
            "compare with margin=0.05, confidence=0.95",
        )
    first = read_side(base)
    if cand is None:
        return _quoted_only(first, quoted, aa, Rules(margin, confidence))
    sides = join(first, read_side(cand))
    paired, warnings = cells(sides, force)
    differs = paired[0].differ if len(paired) == 1 else []
    comparable = not differs
    gate = {
        "comparable": comparable,
        "forced": force and not comparable,
        "differs": differs,
        "unknown": list(dict.fromkeys(text for cell in paired for text in cell.unknown)),
    }
    found = figures(sides, paired, force, warnings)
    if not comparable and not force:
        for one in found:
            one.refused = f"not the same experiment: {'; '.join(differs)}"
    choose_primary(found, primary, warnings)
    rules = Rules(margin, confidence, noise_from(aa, sides.bench, paired[0].base[0], warnings, force))
    failed = {id(cell): _failed(sides, cell) for cell in paired}
    judged = judge(found, rules, failed)
    gate["refused"] = {one.figure.key: one.figure.refused for one in judged if one.figure.refused}
    quotes = _quotes(found, quoted, rules)
    told = [
        *_failures(paired, failed),
        *sides.warnings,
        *_gate_words(sides, gate),
        *warnings,
        *_order(sides, paired, judged, rules),
    ]
    return _finish(sides, paired, judged, quotes, gate, list(dict.fromkeys(told)), rules)


def compare_launches(runs_a: Given, runs_b: Given, **options: Any) -> BenchComparison:
    """Compare how long the phases of launches take; the launch is the replicate.

    Parameters
    ----------
    runs_a, runs_b : runs or paths of runs
        Launches of each side, five or more.
    **options
        As of `compare_benchmarks`.

    Returns
    -------
    BenchComparison
        Figures `phase_<name>_s.run` and `time_to_ready_s.run`.

    Examples
    --------
    >>> import kit
    >>> found = compare_launches([kit.sample_path("healthy-tp2")], [kit.sample_path("log-lost")])
    >>> found["phase_weights_s.run"].noise
    'unknown'
    """
    from kit.analyse.bench.launches import launch_results

    return compare_benchmarks(*(launch_results(_list(given)) for given in (runs_a, runs_b)), **options)


def _list(given: Given) -> list:
    return [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)


def _finish(
    sides: Sides, paired: list[Cell], judged: list[Judged], quotes: list[Judged], gate: dict, warnings: list[str], rules: Rules
) -> BenchComparison:
    """Add where the difference sits and which settings stand beside it."""
    cell = paired[0]
    shown = gate["comparable"] or gate["forced"]
    length, no_length = bench_where.by_length(sides, cell, None, rules.confidence)
    time, no_time = bench_where.over_time(sides, cell, None, rules.confidence)
    settings = bench_why.differences(sides, paired)
    found = BenchComparison(
        sides, paired, judged, quotes, gate, warnings, rules, settings, bench_where.stalls(sides, paired), length, time
    )
    found.where = _where(found, no_length, no_time) if shown else []
    confirmed = [f"{one.figure.key} {one.verdict}" for one in judged if one.confirmed and one.figure.primary]
    rows = sides.bench.runs
    launch_known = bool(rows["launch"].notna().any() or rows["settings"].str.contains("server_info", na=False).any())
    found.why = bench_why.sentences(settings, confirmed, launch_known)
    found.why += bench_why.single_changes(sides, paired, settings)
    return found


def _where(found: BenchComparison, no_length: str | None, no_time: str | None) -> list[str]:
    said = []
    for metric in SHIFT_METRICS:
        if (found.sides.bench.requests["kind"] == "request").any() and not found.withheld(metric):
            said.append(bench_where.shift_sentence(metric, found.shift(metric), found.rules.alpha))
    serving = any(said)
    said.append(bench_where.stall_sentence(found.stalls))
    if serving:
        for title, table, unit, lacking in (
            ("by prompt length", found.by_length, "tokens", no_length),
            ("over the time of a run", found.over_time, "quarter", no_time),
        ):
            texts = bench_where.split_sentences(table, unit) or ([lacking] if lacking else [])
            said += [f"{title}: {text}" for text in texts]
    return [text for text in [*said, *_parts(found)] if text]


def _parts(found: BenchComparison) -> list[str]:
    """Say which part of a time holds most of its difference."""
    said = []
    values = found.sides.bench.values
    for whole, parts in PARTS.items():
        total = next((one.figure for one in found.judged if one.figure.metric == whole and one.confirmed), None)
        if total is None:
            continue
        rows = values[values["metric"].str.startswith((whole, *parts)) & (values["stat"] == total.stat)]
        table = rows.pivot_table(index="run", columns="metric", values="value", sort=False)
        table = table[table[whole].notna()].fillna(0.0)
        base, cand = (table.loc[table.index.intersection(total.cell.of(side))].mean() for side in (BASE, CAND))
        change = (cand - base)[whole]
        mine = ((cand - base) * (1 if change > 0 else -1)).drop(whole)
        if len(mine):
            name, part = mine.idxmax(), (cand - base)[mine.idxmax()]
            only = f" (only {CAND if not base[name] else BASE} has it)" if not base[name] or not cand[name] else ""
            share = f", {part / change:.0%} of it" if part * change > 0 else ""
            said.append(f"{whole} changed by {change:+.3g} s; the part with most of that is {name}{only}: {part:+.3g} s{share}")
    return said


def _failed(sides: Sides, cell: Cell) -> dict[str, float]:
    """Share of failed requests by side, where it is known."""
    rows = sides.bench.runs.set_index("run")
    found = {}
    for side in (BASE, CAND):
        mine = rows.loc[cell.of(side), ["completed", "failed"]].dropna()
        total = int(mine.sum().sum()) if len(mine) else 0
        if total:
            found[side] = float(mine["failed"].sum()) / total
    return found


def _failures(paired: list[Cell], failed: dict[int, dict[str, float]]) -> list[str]:
    said = []
    for cell in paired:
        shares = failed[id(cell)]
        if shares and max(shares.values()) >= FAILED_SHARE:
            words = " and ".join(f"{share:.1%} of the requests of {side}" for side, share in shares.items())
            said.append(f"{f'{cell.label}: ' if cell.label else ''}{words} failed; they are in no figure, and are not fast ones")
    return said


def _gate_words(sides: Sides, gate: dict[str, Any]) -> list[str]:
    said = []
    if gate["differs"]:
        what = "; ".join(gate["differs"])
        said.append(
            f"not the same experiment ({what}): " + ("ratios given because forced" if gate["forced"] else "ratios withheld")
        )
    if gate["unknown"]:
        said.append(f"not known of both sides: {', '.join(gate['unknown'])}")
    tools = {side: set(sides.bench.runs.set_index("run").loc[sides.of(side), "tool"]) for side in (BASE, CAND)}
    if len(tools[BASE] | tools[CAND]) > 1:
        said.append(f"the clients differ ({', '.join(sorted(tools[BASE] | tools[CAND]))}): so do their load and their clocks")
    reasons: dict[str, list[str]] = {}
    for key, reason in gate["refused"].items():
        if not reason.startswith("not the same experiment"):
            reasons.setdefault(reason, []).append(key)
    return [*said, *(f"{named(keys)}: ratio withheld: {reason}" for reason, keys in reasons.items())]


def _order(sides: Sides, paired: list[Cell], judged: list[Judged], rules: Rules) -> list[str]:
    starts = bench_drift.starts_of(sides)
    said = [bench_drift.order_warning(cell, starts) for cell in paired]
    return [text for text in [*said, *bench_drift.trend_warnings(judged, starts, rules.alpha)] if text]


def _quotes(found: list[Figure], quoted: Mapping[str, float] | None, rules: Rules) -> list[Judged]:
    """Hold the candidate against quoted numbers: each is one run whose noise nobody knows."""
    chosen = []
    for name, value in (quoted or {}).items():
        probe = [Figure(**{**vars(one), "primary": False, "refused": None, "notes": list(one.notes)}) for one in found]
        choose_primary(probe, name, [])
        if not value > 0:
            raise UsageError(f"{name}={value} is no number to compare with", "it must be above 0", f"quote it so: {name}=82.5")
        for one in probe:
            if one.primary:
                one.key, one.base = f"{one.key} against the quoted {value:g}", [float(value)]
                chosen.append(one)
    judged = judge(chosen, rules)
    for result in judged:
        result.notes.append("of the quoted number neither noise nor load is known")
    return judged


def _quoted_only(bench: Benchmarks, quoted: Mapping[str, float] | None, aa: Given, rules: Rules) -> BenchComparison:
    """Compare the runs of one side with quoted numbers alone."""
    if not quoted:
        raise UsageError(
            "there is nothing to compare with",
            "neither a candidate nor a quoted number was given",
            "give one: kit bench BASE… --vs CAND…, or kit bench RUN… --quoted output_throughput=82.5",
        )
    sides = Sides(bench, dict.fromkeys(bench.runs["run"], CAND), list(bench.warnings))
    cell = Cell(None, list(bench.runs["run"]), list(bench.runs["run"]))
    warnings: list[str] = []
    found = figures(sides, [cell], True, warnings)
    for one in found:
        one.notes = list(dict.fromkeys(one.notes))
    rules = Rules(rules.margin, rules.confidence, noise_from(aa, bench, cell.cand[0], warnings, False))
    quotes = _quotes(found, quoted, rules)
    gate = {"comparable": True, "forced": False, "differs": [], "unknown": ["load of the quoted number"], "refused": {}}
    cell.base = []
    empty = bench_where.by_length(sides, Cell(None, [], []), None, rules.confidence)[0]
    return BenchComparison(
        sides,
        [cell],
        [],
        quotes,
        gate,
        [*sides.warnings, *warnings],
        rules,
        bench_why.differences(sides, []),
        bench_where.stalls(sides, [cell]),
        empty,
        empty,
    )
