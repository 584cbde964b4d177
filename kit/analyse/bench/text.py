"""A comparison of benchmarks as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.bench.inputs import BASE, CAND
from kit.analyse.bench.judge import INCONCLUSIVE, WITHHELD, Judged, middle
from kit.analyse.bench.where import percent, spread
from kit.document import Block, Document, Section, Table, items

if TYPE_CHECKING:
    from kit.analyse.bench.compare import BenchComparison

HEADS = ("figure", "base", "cand", "effect", "interval", "verdict")
MOST_EXPLORATORY = 12
MOST_SETTINGS = 12
SCALES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))
Part = tuple[str, list[str], list[list[str]]]
"""(heading, column heads, rows); without heads the rows are sentences."""


def blocks(found: BenchComparison) -> list[Part]:
    """Headings with their lines: what to know first, then verdicts, where, why."""
    out: list[Part] = [("", [], [[headline(found)]])]
    out.append(("know first", [], [[text] for text in found.warnings]))
    primary = [one for one in found.judged if one.figure.primary]
    level = f"{found.rules.confidence:.0%}"
    if primary:
        out.append((f"primary figures ({level} intervals; verdicts hold together, Holm over {len(primary)})", *_table(primary)))
        out.append(("to the primary figures", [], _notes(primary)))
    if found.quotes:
        out.append((f"against quoted numbers ({level} intervals)", *_table(found.quotes)))
        out.append(("to the quoted numbers", [], _notes(found.quotes)))
    others = [one for one in found.judged if not one.figure.primary and one.verdict != WITHHELD]
    telling = sorted((one for one in others if one.verdict != INCONCLUSIVE), key=lambda one: (not one.confirmed, one.p_adjusted))
    if telling:
        head = f"exploratory figures ({len(telling[:MOST_EXPLORATORY])} of {len(others)}; hints, to be confirmed on new runs)"
        out.append((head, *_table(telling[:MOST_EXPLORATORY])))
    elif others:
        out.append(("exploratory figures", [], [[f"{len(others)} others, none with a verdict; comparison.table has them"]]))
    out.append(("where the difference sits", [], [[text] for text in found.where]))
    out.append(("settings beside the numbers", [], [[text] for text in found.why]))
    rows = found.settings[found.settings["separates"]].head(MOST_SETTINGS)
    listed = [
        [row.setting, row.source, *(value if isinstance(value, str) else "not given" for value in (row.base, row.cand))]
        for row in rows.itertuples()
    ]
    out.append(("settings that separate the sides", ["setting", "source", "base", "cand"], listed))
    return [block for block in out if block[2]]


def headline(found: BenchComparison) -> str:
    """One sentence: how many runs of what, and what the primary figures say."""
    runs = {side: len(found.sides.of(side)) for side in (BASE, CAND)}
    tools = " and ".join(dict.fromkeys(found.sides.bench.runs["tool"]))
    primary = [one for one in found.judged if one.figure.primary]
    kinds = {one.figure.replicate for one in primary} or {"run"}
    inner = sorted(kinds - {"run", "launch"})
    what = (
        f"{tools}: {runs[CAND]} run{'s' * (runs[CAND] != 1)} of cand against {runs[BASE]} of base"
        if runs[BASE]
        else (f"{tools}: {runs[CAND]} run{'s' * (runs[CAND] != 1)} against quoted numbers")
    )
    replicate = f"; the replicate is the {inner[0]}" if inner else ""
    if not primary:
        return f"{what}{replicate}"
    said = ", ".join(f"{one.figure.key} {one.verdict}" for one in primary)
    return f"{what}{replicate}: {said}"


def _table(judged: list[Judged]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in judged:
        figure = one.figure
        rows.append(
            [
                figure.key,
                *(_value(figure.of(side), figure.unit) for side in (BASE, CAND)),
                "–" if one.effect is None else percent(one.effect),
                _interval(one),
                one.verdict + _runs(one),
            ]
        )
    return list(HEADS), rows


def _value(values: list[float], unit: str | None) -> str:
    if not values:
        return "–"
    if unit == "s":
        factor, unit = next(((f, u) for f, u in SCALES if middle(values) * f >= 1), SCALES[-1])
        values = [value * factor for value in values]
    shown = f"{middle(values):.4g}{f' {unit}' if unit and unit != '1' else ''}"
    return f"{shown} (n {len(values)})" if len(values) == 1 else f"{shown} (n {len(values)}: {spread(values, '{:.4g}')})"


def _interval(one: Judged) -> str:
    if one.interval is None:
        return "noise unknown" if one.effect is not None else "–"
    return f"{percent(one.interval[0])} to {percent(one.interval[1])}"


def _runs(one: Judged) -> str:
    figure = one.figure
    if one.verdict != INCONCLUSIVE or one.runs_needed is None or figure.replicate == "repetition":
        return ""
    have = min(len(figure.base), len(figure.cand))
    if have >= one.runs_needed:
        return f"; {one.runs_needed} runs a side would do four times in five"
    return f"; {one.runs_needed} runs a side needed, {one.runs_needed - have} more"


def _notes(judged: list[Judged]) -> list[list[str]]:
    """What to know with the figures; a note that many share is told once."""
    found: dict[str, list[str]] = {}
    for one in judged:
        for text in [*one.figure.notes, *one.notes]:
            found.setdefault(text, []).append(one.figure.key)
        if one.noise not in ("unknown", "of these runs"):
            found.setdefault(f"noise {one.noise}", []).append(one.figure.key)
    return [
        [f"{', '.join(keys) if len(keys) < len(judged) or len(keys) == 1 else 'all'}: {text}"] for text, keys in found.items()
    ]


def document(found: BenchComparison) -> Document:
    """All that is said of a comparison."""
    sections = []
    for heading, heads, rows in blocks(found)[1:]:
        body: list[Block] = [Table(heads, rows)] if heads else list(items([row[0] for row in rows]))
        sections.append(Section(heading, body))
    return Document(headline(found), sections)
