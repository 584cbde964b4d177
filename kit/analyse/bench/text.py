"""A comparison of benchmarks as a document: what to know first, then verdicts, where, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.bench.findings import Finding, change, share
from kit.analyse.bench.inputs import BASE, CAND
from kit.analyse.bench.judge import INCONCLUSIVE, WITHHELD, JudgedMetric, middle
from kit.analyse.bench.where import spread
from kit.document import Block, Document, Section, Table, items
from kit.words import count_of

if TYPE_CHECKING:
    from kit.analyse.bench.compare import BenchComparison

HEADS = ("metric", "base", "cand", "effect", "interval", "verdict", "runs needed")
MAX_EXPLORATORY = 12
MAX_SETTINGS = 12
SCALES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))


def document(comparison: BenchComparison, brief: bool = False) -> Document:
    """What to know first, then verdicts, where, why; there is no briefer form."""
    judged, level = comparison.judged, share(comparison.rules.confidence)
    primary = [entry for entry in judged if entry.metric.primary]
    others = [entry for entry in judged if not entry.metric.primary and entry.verdict != WITHHELD]
    heading = f"primary metrics ({level} intervals; verdicts hold together, Holm over {len(primary)})"
    sections = [
        Section("know first", _said(comparison.warnings)),
        Section(heading, _judged(primary)),
        Section(f"against quoted numbers ({level} intervals)", _judged(comparison.quotes)),
        Section(*_exploratory(others)),
        Section("where the difference is", _said(comparison.where)),
        Section("settings beside the numbers", [*_said(comparison.why), _settings(comparison)]),
    ]
    return Document(title=headline(comparison), sections=sections)


def _exploratory(others: list[JudgedMetric]) -> tuple[str, list[Block]]:
    """Heading and blocks of the other metrics: those with a verdict, changes first."""
    telling = [entry for entry in others if entry.verdict != INCONCLUSIVE]
    shown = sorted(telling, key=lambda entry: (not entry.confirmed, entry.p_adjusted or 0.0))[:MAX_EXPLORATORY]
    if others and not shown:
        return "exploratory metrics", [
            *items([f"{count_of(len(others), 'other')}, none with a verdict; comparison.table has them"])
        ]
    return f"exploratory metrics ({len(shown)} of {len(others)}; hints, to be confirmed on new runs)", _judged(shown, False)


def headline(comparison: BenchComparison) -> str:
    """One sentence: how many runs of what, and what the primary metrics say."""
    base, cand = (len(comparison.inputs.of(side)) for side in (BASE, CAND))
    primary = [entry for entry in comparison.judged if entry.metric.primary]
    inner = sorted({entry.metric.replicate for entry in primary} - {"run", "launch"})
    tools = " and ".join(dict.fromkeys(comparison.inputs.bench.runs["tool"]))
    what = f"{tools}: {count_of(cand, 'run')} of cand against {f'{base} of base' if base else 'quoted numbers'}"
    what += f"; the replicate is the {inner[0]}" if inner else ""
    verdicts = dict.fromkeys(entry.verdict for entry in primary)
    told = {one: ", ".join(entry.metric.key for entry in primary if entry.verdict == one) for one in verdicts}
    said = "; ".join(f"{one}: {keys}" for one, keys in told.items())
    return f"{what}: {said}" if said else what


def _said(findings: list[Finding]) -> list[Block]:
    return [*items([str(entry) for entry in findings])]


def _judged(judged: list[JudgedMetric], notes: bool = True) -> list[Block]:
    """A table of metrics, and what to know with them; a note that many share is told once."""
    rows = [
        (
            entry.metric.key,
            *(_value(entry.metric.of(side), entry.metric.unit) for side in (BASE, CAND)),
            "–" if entry.effect is None else change(entry.effect),
            _interval(entry),
            entry.verdict,
            _runs_needed(entry),
        )
        for entry in judged
    ]
    shared: dict[str, list[str]] = {}
    for entry in judged if notes else ():
        for note in (*entry.metric.notes, *entry.notes):
            shared.setdefault(str(note), []).append(entry.metric.key)
    alone = len(judged) == 1
    said = [f"{'all' if len(keys) == len(judged) and not alone else ', '.join(keys)}: {text}" for text, keys in shared.items()]
    heads = HEADS if any(row[-1] for row in rows) else HEADS[:-1]
    return [Table(heads, [row[: len(heads)] for row in rows]), *items(said)] if rows else []


def _settings(comparison: BenchComparison) -> Table:
    apart = comparison.settings[comparison.settings["separates"]]
    rows = [
        (row.setting, row.source, *(value if isinstance(value, str) else "not given" for value in (row.base, row.cand)))
        for row in apart.head(MAX_SETTINGS).itertuples()
    ]
    return Table(("setting", "source", "base", "cand"), rows, total=len(apart), caption="settings that separate the sides")


def _value(values: list[float], unit: str | None) -> str:
    center = middle(values)
    if center is None:
        return "–"
    if unit == "s":
        factor, unit = next(((f, u) for f, u in SCALES if center * f >= 1), SCALES[-1])
        center, values = center * factor, [value * factor for value in values]
    shown = f"{center:.4g}{f' {unit}' if unit and unit != '1' else ''}"
    return f"{shown} (n {len(values)})" if len(values) == 1 else f"{shown} (n {len(values)}: {spread(values, '{:.4g}')})"


def _interval(judged: JudgedMetric) -> str:
    if judged.interval is None:
        return "noise unknown" if judged.effect is not None else "–"
    return f"{change(judged.interval[0])} to {change(judged.interval[1])}"


def _runs_needed(judged: JudgedMetric) -> str:
    """Runs per side that give 80 % power, where there is no verdict."""
    if judged.verdict != INCONCLUSIVE or judged.runs_needed is None or judged.metric.replicate == "repetition":
        return ""
    return f"{judged.runs_needed} per side"
