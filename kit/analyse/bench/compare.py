"""Two settings of a server by their benchmark results: is one faster, by how much, and could it be chance.

The gate comes before the numbers, the interval before the verdict, and a verdict rests on runs, never on single requests: of two
unchanged servers the requests differ "significantly" in three comparisons of ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from kit.analyse.bench import drift, where, why
from kit.analyse.bench.findings import Finding, finding, unique
from kit.analyse.bench.inputs import BASE, CAND, BenchInputs, Given, LoadGroup, join, load_groups, read_side
from kit.analyse.bench.judge import FAILED_SHARE, JudgedMetric, Rules, judge
from kit.analyse.bench.metrics import Metric, choose_primary, metrics
from kit.analyse.bench.noise import noise_from
from kit.document import Shown
from kit.errors import UsageError

if TYPE_CHECKING:
    from kit.analyse.bench.results import Benchmarks

SHIFT_METRICS = ("ttft", "itl", "tpot", "e2el")
PARTS = {
    "cold_startup": ("cold_compilation", "cold_encoder_compilation"),
    "warm_startup": ("warm_compilation", "warm_encoder_compilation"),
    "time_to_ready_s": ("phase_",),
}
"""Times that are parts of another: one that a run lacks took no time in it."""
FLOATS = ("base", "cand", "effect", "low", "high", "p", "p_adjusted", "p_permutation")
COLUMNS = (
    *("key", "primary", "base", "cand", "unit", "effect", "low", "high", "verdict", "n_base", "n_cand", "noise"),
    *("p", "p_adjusted", "p_permutation", "runs_needed", "notes"),
)


@dataclass(repr=False)
class BenchComparison(Shown):
    """What the runs of two sides say. Make it with `kit.compare_benchmarks` or `kit.compare_launches`.

    Attributes
    ----------
    inputs : BenchInputs
        The runs of both sides; `groups` are those under one load.
    judged, quotes : list of JudgedMetric
        One metric and statistic each: verdict, effect, interval; against the other side, or against quoted numbers.
    gate : dict
        `comparable`, `forced`, `differs`, `unknown` (names of the load), `refused` (metrics whose ratio is withheld).
    warnings, where, why : list of Finding
        What to know first (failures at the top), where the difference is, which settings are beside it.
    settings : pandas.DataFrame
        Settings that differ: `setting`, `source`, `base`, `cand`, `separates`, `unlikely`.
    stalls, by_length, over_time : pandas.DataFrame
        Where the difference is: by run, by prompt length, by time in the run.
    """

    told_in = "kit.analyse.bench.text"

    inputs: BenchInputs
    groups: list[LoadGroup]
    judged: list[JudgedMetric]
    quotes: list[JudgedMetric]
    gate: dict[str, Any]
    warnings: list[Finding]
    rules: Rules
    settings: pd.DataFrame
    stalls: pd.DataFrame
    by_length: pd.DataFrame
    over_time: pd.DataFrame
    shifts: dict[tuple[str | None, str], pd.DataFrame] = field(default_factory=dict)
    where: list[Finding] = field(default_factory=list)
    why: list[Finding] = field(default_factory=list)

    @property
    def table(self) -> pd.DataFrame:
        """One row a metric and statistic: `key`, `primary`, `base`, `cand`, `unit`, `effect`, `low`, `high`, `verdict`, `n_base`,
        `n_cand`, `noise`, `p`, `p_adjusted`, `p_permutation`, `runs_needed`, `notes`."""
        rows = []
        for entry in [*self.judged, *self.quotes]:
            row = entry.to_dict()
            low, high = row["interval"] or (None, None)
            row |= {"key": entry.metric.key, "low": low, "high": high, "notes": "; ".join(row["notes"])}
            rows.append(row | {f"n_{side}": n for side, n in row["n"].items()})
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        return table.astype(dict.fromkeys(FLOATS, float) | {"runs_needed": "Int64"})

    def shift(self, metric: str = "ttft", name: str | None = None) -> pd.DataFrame:
        """Effect at each quantile of the requests, with a band over runs; of the first load where there are several.

        Returns
        -------
        pandas.DataFrame
            `quantile`, `base`, `cand` (seconds), `effect`, `low`, `high` (relative), `p`, `n_base`, `n_cand`; empty where the
            files hold no single values, or where the ratio is withheld.
        """
        if self.withheld(metric):
            return where.shift(self.inputs, LoadGroup(None, [], []), name, metric, self.rules.confidence)
        if (name, metric) not in self.shifts:
            self.shifts[name, metric] = where.shift(self.inputs, self.groups[0], name, metric, self.rules.confidence)
        return self.shifts[name, metric]

    def withheld(self, metric: str) -> bool:
        """Whether the ratio of a metric is not given."""
        judged = [entry.metric for entry in self.judged if entry.metric.quantity == metric]
        return not self.shows_ratios or bool(judged) and all(entry.refused for entry in judged)

    @property
    def shows_ratios(self) -> bool:
        """Whether both sides are the same experiment, or ratios are forced."""
        return self.gate["comparable"] or self.gate["forced"]

    def __getitem__(self, key: str) -> JudgedMetric:
        """One metric and statistic: `comparison["ttft.median"]`."""
        by_key = {entry.metric.key: entry for entry in [*self.quotes, *self.judged]}
        if key not in by_key:
            raise KeyError(f"{key}; choose from {', '.join(by_key)}")
        return by_key[key]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python types: `metrics` (key to verdict, effect, interval, n, runs_needed, …), `warnings`, `gate`, …"""
        found = {name: [entry.to_dict() for entry in getattr(self, name)] for name in ("warnings", "where", "why")}
        return {
            "runs": {side: self.inputs.of(side) for side in (BASE, CAND)},
            "gate": self.gate | {"refused": {key: str(reason) for key, reason in self.gate["refused"].items()}},
            "metrics": {entry.metric.key: entry.to_dict() for entry in self.judged},
            "quoted": {entry.metric.key: entry.to_dict() for entry in self.quotes},
            **found,
            "stalls": _records(self.stalls),
            "settings": _records(self.settings),
            "margin": self.rules.margin,
            "confidence": self.rules.confidence,
        }

    def __repr__(self) -> str:
        return f"<BenchComparison: {len(self.inputs.of(CAND))} runs of cand against {len(self.inputs.of(BASE))} of base>"


def _records(table: pd.DataFrame) -> list[dict]:
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{key: value.item() if hasattr(value, "item") else value for key, value in row.items()} for row in rows]


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
        Results of each side; record at least five runs per side, interleaved. Folders with `run.json` are launches, whose
        phases are compared. `cand` may be left out where `quoted` is given.
    primary : str or iterable of str, optional
        Metrics the question is about, `ttft.median` or `ttft`: up to six. Their verdicts hold together at the level
        1 - confidence (Holm); the other metrics are exploratory.
    force : bool
        Give ratios although load or definitions differ.
    aa : as base, optional
        Runs of one unchanged setting: their spread is the noise where a side has fewer than three runs.
    quoted : mapping of str to float, optional
        Numbers to compare the candidate with, `{"output_throughput": 82.5}`, in the unit of the metric.
    margin : float
        Relative change that counts as none: an interval within it is `equivalent`.
    confidence : float
        Of the intervals, between 0.5 and 1.

    Raises
    ------
    EvidenceError
        A side cannot be read, or nothing of it is left.
    UsageError
        A metric is unknown, or launches and results are mixed.

    Examples
    --------
    >>> import kit
    >>> folder = kit.sample_path("sg01-capture-hang").parent / "bench"
    >>> comparison = kit.compare_benchmarks(folder / "vllm-base.json", folder / "vllm-candidate.json")
    >>> comparison["ttft.median"].verdict, round(comparison["ttft.median"].effect, 3), comparison["ttft.median"].noise
    ('inconclusive', 0.174, 'unknown')
    """
    rules, first = Rules(margin, confidence), read_side(base)
    if cand is None:
        return _against_quotes(first, quoted, aa, rules)
    return _compare(join(first, read_side(cand)), primary, force, aa, quoted, rules)


def compare_launches(
    runs_a: Given,
    runs_b: Given,
    *,
    primary: str | Iterable[str] | None = None,
    force: bool = False,
    aa: Given = None,
    margin: float = 0.05,
    confidence: float = 0.95,
) -> BenchComparison:
    """Compare how long the phases of launches take; the launch is the replicate.

    Parameters
    ----------
    runs_a, runs_b : runs or paths of runs
        Launches of each side, five or more.
    primary, force, aa, margin, confidence
        As of `compare_benchmarks`; the metrics are `phase_<name>_s.run` and `time_to_ready_s.run`.

    Examples
    --------
    >>> import kit
    >>> comparison = compare_launches([kit.sample_path("healthy-tp2")], [kit.sample_path("log-lost")])
    >>> comparison["phase_weights_s.run"].noise
    'unknown'
    """
    from kit.analyse.bench.launches import launch_results

    sides = [
        launch_results([given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given))
        for given in (runs_a, runs_b)
    ]
    return compare_benchmarks(*sides, primary=primary, force=force, aa=aa, margin=margin, confidence=confidence)


def _compare(inputs: BenchInputs, primary: Any, force: bool, aa: Given, quoted: Any, rules: Rules) -> BenchComparison:
    warnings: list[Finding] = []
    groups = load_groups(inputs)
    found = metrics(inputs, groups, force, warnings)
    gate = _gate(groups, found, force)
    choose_primary(found, primary, warnings)
    rules = replace(rules, noise=noise_from(aa, inputs.bench, groups[0].base[0], warnings, force))
    judged = judge(found, rules)
    gate["refused"] = {entry.metric.key: entry.metric.refused for entry in judged if entry.metric.refused}
    starts = drift.starts_of(inputs)
    order = [drift.order_finding(group, starts) for group in groups]
    comparison = _comparison(inputs, groups, judged, _quotes(found, quoted, rules), gate, rules)
    comparison.warnings = unique(
        [
            *_failures(groups),
            *inputs.warnings,
            *_gate_findings(inputs, gate),
            *warnings,
            *filter(None, order),
            *drift.trend_findings(judged, starts, rules.alpha),
        ]
    )
    return comparison


def _gate(groups: list[LoadGroup], found: list[Metric], force: bool) -> dict[str, Any]:
    """Whether the sides are the same experiment; where not, no metric has a ratio unless forced."""
    differs = groups[0].differ if len(groups) == 1 else []
    if differs and not force:
        for metric in found:
            metric.refused = finding("not_same_experiment", differs=differs)
    unknown = list(dict.fromkeys(name for group in groups for name in group.unknown))
    return {"comparable": not differs, "forced": force and bool(differs), "differs": differs, "unknown": unknown, "refused": {}}


def _gate_findings(inputs: BenchInputs, gate: dict[str, Any]) -> list[Finding]:
    said = []
    if gate["differs"]:
        said.append(finding("not_same_experiment" + "_forced" * gate["forced"], differs=gate["differs"]))
    if gate["unknown"]:
        said.append(finding("load_unknown", names=gate["unknown"]))
    tools = sorted(set(inputs.bench.runs["tool"]))
    if len(tools) > 1:
        said.append(finding("clients_differ", tools=tools))
    withheld = {key: reason for key, reason in gate["refused"].items() if reason.code != "not_same_experiment"}
    for reason in unique(withheld.values()):
        keys = [key for key, other in withheld.items() if other == reason]
        said.append(finding("ratio_withheld", metrics=keys, reason=reason))
    return said


def _failures(groups: list[LoadGroup]) -> list[Finding]:
    return [
        finding("failed_requests", share=share, side=side, load=group.label)
        for group in groups
        for side, share in group.failed.items()
        if max(group.failed.values()) >= FAILED_SHARE
    ]


def _comparison(
    inputs: BenchInputs,
    groups: list[LoadGroup],
    judged: list[JudgedMetric],
    quotes: list[JudgedMetric],
    gate: dict[str, Any],
    rules: Rules,
) -> BenchComparison:
    """Add where the difference is and which settings are beside it."""
    by_length, no_length = where.by_length(inputs, groups[0], rules.confidence)
    over_time, no_time = where.over_time(inputs, groups[0], rules.confidence)
    settings = why.setting_differences(inputs, groups)
    comparison = BenchComparison(
        inputs=inputs,
        groups=groups,
        judged=judged,
        quotes=quotes,
        gate=gate,
        warnings=list(inputs.warnings),
        rules=rules,
        settings=settings,
        stalls=where.stalls(inputs, groups),
        by_length=by_length,
        over_time=over_time,
    )
    if not judged:
        return comparison
    comparison.where = _where(comparison, [no_length, no_time]) if comparison.shows_ratios else []
    confirmed = [f"{entry.metric.key} {entry.verdict}" for entry in judged if entry.confirmed and entry.metric.primary]
    rows = inputs.bench.runs
    launch_known = bool(rows["launch"].notna().any() or rows["settings"].str.contains("server_info", na=False).any())
    comparison.why = why.setting_findings(settings, confirmed, launch_known)
    comparison.why += why.single_changes(inputs, groups, settings)
    return comparison


def _where(comparison: BenchComparison, lacking: list[Finding | None]) -> list[Finding]:
    single = (comparison.inputs.bench.requests["kind"] == "request").any()
    shown = [metric for metric in SHIFT_METRICS if single and not comparison.withheld(metric)]
    shifts = [where.shift_finding(metric, comparison.shift(metric), comparison.rules.alpha) for metric in shown]
    parts: list[Finding | None] = []
    if any(shifts):
        for by, table, none in zip(
            (where.BY_LENGTH, where.OVER_TIME), (comparison.by_length, comparison.over_time), lacking, strict=True
        ):
            parts += where.part_findings(table, by) or [none]
    for whole, names in PARTS.items():
        hits = [entry.metric for entry in comparison.judged if entry.metric.quantity == whole and entry.confirmed]
        parts += [where.largest_part(metric, comparison.inputs.bench.values, names) for metric in hits[:1]]
    return [entry for entry in (*shifts, *where.stall_findings(comparison.stalls), *parts) if entry]


def _quotes(found: list[Metric], quoted: Mapping[str, float] | None, rules: Rules) -> list[JudgedMetric]:
    """Compare the candidate with quoted numbers: each is one run whose noise nobody knows."""
    chosen = []
    for name, value in (quoted or {}).items():
        if not value > 0:
            raise UsageError(f"cannot compare with {name}={value}", "it must be above 0", f"quote it so: {name}=82.5")
        copies = [replace(metric, primary=False, refused=None, notes=list(metric.notes)) for metric in found]
        choose_primary(copies, name, [])
        for metric in copies:
            if metric.primary:
                metric.key, metric.base = f"{metric.key} against the quoted {value:g}", [float(value)]
                chosen.append(metric)
    judged = judge(chosen, rules)
    for entry in judged:
        entry.notes.append(finding("quoted"))
    return judged


def _against_quotes(bench: Benchmarks, quoted: Mapping[str, float] | None, aa: Given, rules: Rules) -> BenchComparison:
    """Compare the runs of one side with quoted numbers alone."""
    if not quoted:
        raise UsageError(
            "there is nothing to compare with",
            "neither a candidate nor a quoted number was given",
            "give one: kit bench BASE… --vs CAND…, or kit bench RUN… --quoted output_throughput=82.5",
        )
    runs = list(bench.runs["run"])
    reported = [finding("reported", text=text) for text in bench.warnings]
    inputs = BenchInputs(bench, dict.fromkeys(runs, CAND), reported)
    warnings: list[Finding] = []
    found = metrics(inputs, [LoadGroup(None, runs, runs)], True, warnings)
    for metric in found:
        metric.notes = unique(metric.notes)
    rules = replace(rules, noise=noise_from(aa, bench, runs[0], warnings, False))
    gate = {"comparable": True, "forced": False, "differs": [], "unknown": ["load of the quoted number"], "refused": {}}
    comparison = _comparison(inputs, [LoadGroup(None, [], runs)], [], _quotes(found, quoted, rules), gate, rules)
    comparison.warnings += warnings
    return comparison
