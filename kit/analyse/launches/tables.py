"""A comparison of launches as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.launches.findings import MOST_TOLD, Group
from kit.analyse.launches.sentences import is_number, size
from kit.clock import show_duration
from kit.document import Document, Section, Table, items

if TYPE_CHECKING:
    from kit.analyse.launches.compare import Comparison

MOST_LINES = 12
"""Shapes of log lines shown that some launch lacks; the frame has them all."""


Part = tuple[str, list[str], list[list[str]]]
"""(heading, column heads, rows); without heads the rows are sentences."""


def blocks(found: Comparison) -> list[Part]:
    """Headings with their rows, the most important first; frames without rows are left out."""
    labels, differing = list(found.labels), found.differing()
    settings = [
        [row["name"], *(_text(row[label]) for label in labels), row["source"], _why(row["unlikely"])]
        for row in differing.to_dict("records")
    ]
    against = [f"{label} {sign} a" for label in labels[1:] for sign in "−/"]
    every = [
        ("findings", [], [[said] for said in found.findings]),
        ("verdicts", ["", *labels], found.verdicts.to_numpy().tolist()),
        (f"settings that differ ({len(differing)} of {len(found.settings)})", ["setting", *labels, "source", ""], settings),
        (
            "phases of the rank furthest behind",
            ["phase", *labels, *against],
            [_phase(row, labels) for row in found.phases.to_dict("records")],
        ),
        *_log_blocks(found, labels),
        *_process_blocks(found, labels),
        ("what is missing", [], [[said] for said in found.missing]),
    ]
    return [block for block in every if block[2]]


def _log_blocks(found: Comparison, labels: Group) -> list[Part]:
    lines = _line_rows(found, labels)
    heading = f"log lines that some launch lacks ({min(len(lines), MOST_LINES)} of {len(lines)})"
    return [
        ("milestones", ["milestone", "phase", *labels], _milestone_rows(found, labels)),
        (heading, [*labels, "line"], lines[:MOST_LINES]),
    ]


def _process_blocks(found: Comparison, labels: Group) -> list[Part]:
    calls = [[row["process"], row["syscall"], *(_call(row, label) for label in labels)] for row in _top_calls(found)]
    parts = [f"{label} {part}" for part in ("anon", "file", "at") for label in labels]
    memory = [_memory_row(row, labels) for row in found.memory.to_dict("records")]
    return [
        ("stacks: where the threads are", ["process", "thread", *labels], _stack_rows(found, labels)),
        ("system calls traced: a second (time in them)", ["process", "call", *labels], calls),
        ("memory, anonymous and file (not summed over ranks)", ["process", *parts], memory),
        ("threads by state", ["process", *labels], _thread_rows(found, labels)),
        ("threads whose number differs, and the calls they are in", ["process", "thread", *labels], _name_rows(found, labels)),
    ]


def _why(unlikely: object) -> str:
    return f"unlikely: {unlikely}" if isinstance(unlikely, str) else ""


def _phase(row: dict, labels: Group) -> list[str]:
    spans, against = [], []
    for label in labels:
        value, is_open = row[f"{label}_s"], row[f"{label}_open"]
        spans.append(("≥ " if is_open else "") + show_duration(value) if value == value else ("reached" if is_open else "–"))
    for label in labels[1:]:
        difference, ratio = row[f"{label}_difference_s"], row[f"{label}_ratio"]
        against += [f"{difference:+,.0f} s" if difference == difference else "–", f"{ratio:.2f}" if ratio == ratio else "–"]
    return [row["phase"], *spans, *against]


def _first_at(row: dict, label: str) -> str:
    """When a record came first, and how often it came."""
    count, seconds = row[f"{label}_count"], row[f"{label}_s"]
    at = f"{seconds:,.1f} s" if seconds == seconds else "there"
    return f"{at}{f' ({count} ×)' if count > 1 else ''}" if count else "lacks it"


def _milestone_rows(found: Comparison, labels: Group) -> list[list[str]]:
    rows = found.milestones.to_dict("records")
    return [[row["milestone"], _text(row["phase"]), *(_first_at(row, label) for label in labels)] for row in rows]


def _line_rows(found: Comparison, labels: Group) -> list[list[str]]:
    counts = found.templates[[f"{label}_count" for label in labels]]
    rows = found.templates[counts.eq(0).any(axis=1)].to_dict("records")
    return [[*(_first_at(row, label) for label in labels), row["text"]] for row in rows]


def _stack_rows(found: Comparison, labels: Group) -> list[list[str]]:
    rows = found.stacks[found.stacks["same"].fillna(False).eq(False)].to_dict("records")
    return [[row["process"], row["thread"], *(_text(row[label]) for label in labels)] for row in rows]


def _top_calls(found: Comparison) -> list[dict]:
    """The calls of each process that take most time."""
    return found.syscalls.groupby("process", sort=False).head(MOST_TOLD).to_dict("records")


def _call(row: dict, label: str) -> str:
    calls, rate, seconds = (row[f"{label}_{what}"] for what in ("calls", "per_s", "s"))
    if not is_number(calls):
        return "–"
    took = f"{seconds:,.1f} s" if seconds == seconds else "not recorded"  # NaN where no duration is known
    return f"{rate:,.1f} ({took})" if rate == rate else f"{calls} calls ({took})"


def _memory_row(row: dict, labels: Group) -> list[str]:
    anonymous, file = ([row[f"{label}_rss_{part}_bytes"] for label in labels] for part in ("anon", "file"))
    at = [_at(row[f"{label}_t_s"]) for label in labels]
    if not any(map(is_number, anonymous)):
        whole = [size(row[f"{label}_rss_bytes"]) for label in labels]
        return [f"{row['process']} (all resident)", *whole, *["–"] * len(labels), *at]
    return [row["process"], *map(size, anonymous), *map(size, file), *at]


def _thread_rows(found: Comparison, labels: Group) -> list[list[str]]:
    rows = []
    for name, states in found.threads.groupby("process", sort=False):
        cells = []
        for label in labels:
            known = states[states[label].notna()]
            at = known[f"{label}_t_s"].dropna()
            counted = ", ".join(
                f"{row[label]} {row['state'] if row['state'] != 'any' else 'in all'}" for _, row in known.iterrows() if row[label]
            )
            cells.append(f"{counted}{f' at {_at(at.iloc[0])}' if len(at) else ''}" or "–")
        rows.append([str(name), *cells])
    return rows


def _name_rows(found: Comparison, labels: Group) -> list[list[str]]:
    rows = found.thread_names[found.thread_names[labels].nunique(axis=1, dropna=False) > 1].to_dict("records")
    return [[row["process"], row["thread"], *(_thread(row, label) for label in labels)] for row in rows]


def _thread(row: dict, label: str) -> str:
    if not is_number(row[label]):
        return "–"
    calls = row[f"{label}_calls"]
    return f"{row[label]}{f' ({calls})' if isinstance(calls, str) else ''}"


def _at(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds == seconds else "–"


def _text(value: object) -> str:
    return value if isinstance(value, str) else "–"


def legend(found: Comparison) -> str:
    """Which run is which, and what second 0 is."""
    zero = "the launch" if found.align == "launch" else f"the begin of {found.align}"
    return f"{', '.join(f'{label} = {name}' for label, name in zip(found.labels, found.names, strict=True))}; second 0 is {zero}"


FOLDED = ("what is missing", "milestones", "log lines", "threads", "memory", "stacks", "system calls")
"""Sections that are folded in HTML."""


def document(found: Comparison, brief: bool = False) -> Document:
    """All of a comparison; `brief`: what was found."""
    sections = [
        Section(heading, [Table(heads, rows)] if heads else items([row[0] for row in rows]), heading.startswith(FOLDED))
        for heading, heads, rows in blocks(found)
    ]
    return Document(legend(found), sections[:1] if brief else sections)
