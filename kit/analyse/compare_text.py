"""The comparison in words: plain sentences, and the frames as terminal text or as HTML from the same blocks."""

from __future__ import annotations

import textwrap
from html import escape
from numbers import Integral
from typing import TYPE_CHECKING

from kit.analyse.phases import ORDER
from kit.analyse.verdict_text import WIDTH
from kit.clock import show_duration

if TYPE_CHECKING:
    import pandas

    from kit.analyse.compare import Comparison, Side

RATIO, LEAST_S = 1.5, 10.0
"""A phase is told of where it took half as long again and 10 s more. This chooses what to read first; it is no test: two
launches cannot tell a difference from chance."""
MEMORY_RATIO, LEAST_BYTES = 1.25, 64 << 20
"""Memory of a process is told of where it differs by a quarter and by 64 MiB; again a choice of what to read first."""
SAME_MOMENT_S, SAME_MOMENT_SHARE = 10.0, 0.1
"""Samples count as taken at the same time where they are at most 10 s apart, or a tenth of the time since the launch."""
MOST_NAMED = 6
OUTCOME = {
    "ready": "is ready",
    "progressing": "is progressing",
    "stalled": "is stalled",
    "failed": "has failed",
    "unknown": "is in a state that its evidence does not decide",
}
Block = tuple[str, list[str], list[list[str]]]
"""(heading, column heads, rows); without heads the rows are sentences."""


def findings_of(found: Comparison, sides: tuple[Side, Side]) -> list[str]:
    """Everything worth saying, the outcome first. Nothing is called a cause."""
    said = _identity(sides) + _outcome(found, sides) + _phases(found)
    if sides[0].settings.server == sides[1].settings.server or None in (sides[0].settings.server, sides[1].settings.server):
        said += _milestones(found)
    else:
        said.append(
            f"a is a launch of {sides[0].settings.server}, b of {sides[1].settings.server}: their milestones are not held "
            "against each other, their phases are"
        )
    return said + _memory(found) + _settings(found, sides)


def _identity(sides: tuple[Side, Side]) -> list[str]:
    """Whether both are evidence of one launch: the same milestones at the same times, of the same processes."""
    logs = [[(mark.code, mark.time, mark.pid, mark.text) for mark in side.evidence.log.marks] for side in sides]
    dated = any(time is not None or pid is not None for _, time, pid, _ in logs[0])
    if sides[0].run.path.resolve() == sides[1].run.path.resolve() or (dated and logs[0] == logs[1]):
        return ["a and b are the same launch: nothing can differ but what was captured of it"]
    return []


def _outcome(found: Comparison, sides: tuple[Side, Side]) -> list[str]:
    words = []
    for side in sides:
        verdict = side.verdict
        ranks = f", rank {', '.join(map(str, verdict.ranks))}" if verdict.ranks else ""
        klass = f" ({verdict.klass}{ranks})" if verdict.klass not in ("ready", "undetermined") else ""
        stands = (
            f", {'in' if verdict.state != 'stalled' else 'it stands in'} {verdict.phase}"
            if verdict.phase and verdict.state != "ready"
            else ""
        )
        words.append(f"{side.label} {OUTCOME[verdict.state]}{stands}{klass}")
    reached = [max((ORDER[step.phase] for step in side.steps), default=-1) for side in sides]
    said = [f"{words[0]}; {words[1]}"]
    if found.last_common and reached[0] != reached[1]:
        ahead, behind = sides if reached[0] > reached[1] else sides[::-1]
        first = next(step.phase for step in ahead.steps if ORDER[step.phase] > ORDER[found.last_common])
        said.append(
            f"the last phase that both reached is {found.last_common}; {ahead.label} went on to {first}, {behind.label} did not"
        )
    elif found.last_common:
        said.append(f"both came as far as {found.last_common}")
    return said


def _phases(found: Comparison) -> list[str]:
    said = []
    for row in found.phases.itertuples():
        if row.phase in ("ready", "serving") or row.ratio != row.ratio or abs(row.difference_s) < LEAST_S:
            continue
        open_in = [label for label, is_open in (("a", row.a_open), ("b", row.b_open)) if is_open]
        if max(row.ratio, 1 / row.ratio if row.ratio else RATIO) < RATIO:
            continue
        least = {
            label: f"{show_duration(value)}{' so far' if label in open_in else ''}"
            for label, value in (("a", row.a_s), ("b", row.b_s))
        }
        said.append(f"{row.phase} takes {least['a']} in a, {least['b']} in b")
    return said


def _milestones(found: Comparison) -> list[str]:
    said = []
    for has, lacks in (("a", "b"), ("b", "a")):
        only = found.milestones[(found.milestones[f"{has}_count"] > 0) & (found.milestones[f"{lacks}_count"] == 0)]
        for kinds, word in ((("progress", "other"), "milestone"), (("error", "symptom"), "error or symptom")):
            rows = only[only["kind"].isin(kinds)]
            if len(rows):
                first = rows.iloc[0]
                at = f" after {show_duration(first[f'{has}_s'])}" if first[f"{has}_s"] == first[f"{has}_s"] else ""
                phase = f", phase {first['phase']}" if isinstance(first["phase"], str) else ""
                said.append(
                    f"the first {word} that {lacks} lacks is {first['milestone']} ({has}{at}{phase}, {first[f'{has}_where']})"
                )
    return said + _fewer_ranks(found)


def _fewer_ranks(found: Comparison) -> list[str]:
    """The first milestone that some ranks of one launch lack."""
    for row in found.milestones.itertuples():
        a, b = (
            {int(rank) for rank in ranks.split(", ")} if isinstance(ranks, str) else set() for ranks in (row.a_ranks, row.b_ranks)
        )
        for has, lacks, label in ((a, b, "b"), (b, a, "a")):
            if len(lacks) and lacks < has and row.kind == "progress":
                gone = ", ".join(map(str, sorted(has - lacks)))
                return [
                    f"{row.milestone} is there for {len(has)} ranks in {'ab'.replace(label, '')}, for {len(lacks)} in {label}: "
                    f"rank {gone} lacks it"
                ]
    return []


def _memory(found: Comparison) -> list[str]:
    best, words = 0.0, []
    for row in found.memory.itertuples():
        a, b = row.a_rss_anon_bytes, row.b_rss_anon_bytes
        if (
            not isinstance(a, Integral)
            or not isinstance(b, Integral)
            or abs(a - b) < LEAST_BYTES
            or not same_moment(row.a_t_s, row.b_t_s)
        ):
            continue
        ratio = max(a, b) / max(min(a, b), 1)
        if ratio >= MEMORY_RATIO and ratio > best:
            best = ratio
            words = [
                f"{row.process} has {_size(a)} of anonymous memory in a (second {row.a_t_s:,.0f}) and {_size(b)} in b "
                f"(second {row.b_t_s:,.0f})"
            ]
    return words


def same_moment(a_s: float, b_s: float) -> bool:
    """Whether two samples were taken at about the same time since launch.

    Examples
    --------
    >>> same_moment(60.0, 63.0), same_moment(60.0, 6000.0), same_moment(60.0, float("nan"))
    (True, False, False)
    """
    return abs(a_s - b_s) <= max(SAME_MOMENT_S, SAME_MOMENT_SHARE * max(abs(a_s), abs(b_s)))


def _settings(found: Comparison, sides: tuple[Side, Side]) -> list[str]:
    likely, seldom = found.differing(likely=True), found.differing(likely=False)
    said = []
    if len(likely):
        said.append(f"settings that differ: {_named(likely)}")
    if len(seldom):
        said.append(f"unlikely causes, which differ too: {_named(seldom)}")
    unknown = int(found.settings["same"].isna().sum())
    if unknown:
        said.append(
            f"{unknown} setting{'s are' if unknown > 1 else ' is'} known of one launch only, and not counted as differing"
        )
    compared = int(found.settings["same"].notna().sum())
    other = len({(side.verdict.state, side.verdict.klass) for side in sides}) > 1
    if not compared:
        said.append("no setting is known of both launches: nothing can be said of what was changed")
    elif not len(likely):
        said.append(
            "no setting that may be a cause differs among those known of both: "
            + ("consistent with a difference that was not captured, or with chance" if other else "the launches are alike")
        )
    elif other and len(likely) == 1:
        said.append(
            f"the different outcome is consistent with {likely.iloc[0]['name']}, the one such setting that differs; "
            "repeat both launches before you rely on it"
        )
    elif other:
        said.append(
            f"the different outcome is consistent with each of these {len(likely)} settings: they are confounded until "
            "launches differ in one of them only"
        )
    return said


def _named(rows: pandas.DataFrame) -> str:
    words = [f"{row.name} ({_short(row.a)} in a, {_short(row.b)} in b)" for row in rows.itertuples(index=False)]
    return ", ".join(words[:MOST_NAMED]) + (f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else "")


def _short(value: object) -> str:
    return textwrap.shorten(value, 60, placeholder=" …") if isinstance(value, str) else "not given"


def blocks(found: Comparison) -> list[Block]:
    """Headings with their rows, the most important first; frames without rows are left out."""
    differing = found.differing()
    shown: list[Block] = [
        ("findings", [], [[said] for said in found.findings]),
        ("verdicts", ["", "a", "b"], [[row.what, row.a, row.b] for row in found.verdicts.itertuples()]),
        (
            f"settings that differ ({len(differing)} of {len(found.settings)})",
            ["setting", "a", "b", "source", ""],
            [
                [*(_text(value) for value in row[:4]), f"unlikely: {row[4]}" if isinstance(row[4], str) else ""]
                for row in differing[["name", "a", "b", "source", "unlikely"]].itertuples(index=False, name=None)
            ],
        ),
        (
            "phases of the rank furthest behind",
            ["phase", "a", "b", "b − a", "b / a"],
            [_phase(row) for row in found.phases.itertuples()],
        ),
        ("milestones", ["milestone", "phase", "a", "b"], _milestone_rows(found)),
        (
            "memory, anonymous and file (not summed over ranks)",
            ["process", "a anon", "b anon", "a file", "b file", "a at", "b at"],
            [_memory_row(row) for row in found.memory.itertuples()],
        ),
        ("threads by state", ["process", "a", "b"], _thread_rows(found)),
        ("what is missing", [], [[said] for said in found.missing]),
    ]
    return [block for block in shown if block[2]]


def _phase(row) -> list[str]:
    spans = [
        ("≥ " if is_open else "") + show_duration(value) if value == value else ("reached" if is_open else "–")
        for value, is_open in ((row.a_s, row.a_open), (row.b_s, row.b_open))
    ]
    difference = f"{row.difference_s:+,.0f} s" if row.difference_s == row.difference_s else "–"
    return [row.phase, *spans, difference, f"{row.ratio:.2f}" if row.ratio == row.ratio else "–"]


def _milestone_rows(found: Comparison) -> list[list[str]]:
    rows = []
    for row in found.milestones.itertuples():
        cells = []
        for count, seconds in ((row.a_count, row.a_s), (row.b_count, row.b_s)):
            at = f"{seconds:,.1f} s" if seconds == seconds else "there"
            cells.append(f"{at}{f' ({count} ×)' if count > 1 else ''}" if count else "lacks it")
        rows.append([row.milestone, _text(row.phase), *cells])
    return rows


def _memory_row(row) -> list[str]:
    sizes = (row.a_rss_anon_bytes, row.b_rss_anon_bytes, row.a_rss_file_bytes, row.b_rss_file_bytes)
    if not any(isinstance(size, Integral) for size in sizes):
        sizes = (row.a_rss_bytes, row.b_rss_bytes, None, None)
        return [f"{row.process} (all resident)", *map(_size, sizes), _at(row.a_t_s), _at(row.b_t_s)]
    return [row.process, *map(_size, sizes), _at(row.a_t_s), _at(row.b_t_s)]


def _thread_rows(found: Comparison) -> list[list[str]]:
    rows = []
    for name, states in found.threads.groupby("process", sort=False):
        cells = []
        for label in "ab":
            known = states[states[label].notna()]
            at = known[f"{label}_t_s"].dropna()
            counted = ", ".join(
                f"{row[label]} {row['state'] if row['state'] != 'any' else 'in all'}" for _, row in known.iterrows() if row[label]
            )
            cells.append(f"{counted}{f' at {_at(at.iloc[0])}' if len(at) else ''}" or "–")
        rows.append([str(name), *cells])
    return rows


def _size(value: object) -> str:
    if not isinstance(value, Integral):
        return "–"
    return f"{value / 2**30:,.2f} GiB" if value >= 2**30 else f"{value / 2**20:,.0f} MiB"


def _at(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds == seconds else "–"


def _text(value: object) -> str:
    return value if isinstance(value, str) else "–"


def legend(found: Comparison) -> str:
    """Which run is a and which is b, and what second 0 is."""
    zero = "the launch" if found.align == "launch" else f"the begin of {found.align}"
    return f"a = {found.names[0]}, b = {found.names[1]}; second 0 is {zero}"


def as_text(found: Comparison) -> str:
    """The comparison as terminal text, at most `WIDTH` columns wide."""
    lines = [legend(found)]
    for heading, heads, rows in blocks(found):
        lines += ["", heading]
        if not heads:
            for row in rows:
                lines += textwrap.wrap(row[0], WIDTH, initial_indent="  • ", subsequent_indent="    ", break_on_hyphens=False)
            continue
        lines += _columns([heads, *rows] if any(heads) else rows)
    return "\n".join(lines)


def _columns(rows: list[list[str]]) -> list[str]:
    """Rows in columns; long cells are cut so that the line fits."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    while sum(widths) + 2 * len(widths) > WIDTH and max(widths) > 12:
        widths[widths.index(max(widths))] -= 1
    cut = [
        [cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(row, widths, strict=True)] for row in rows
    ]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cut]


def as_html(found: Comparison) -> str:
    """The same as HTML; all text of the evidence is escaped."""
    parts = [
        "<div class='kit-comparison' style='border-left:6px solid #0072b2;padding:.2em 1em;max-width:72em'>",
        f"<p style='font-size:1.15em;margin:.3em 0'><b>{escape(legend(found))}</b></p>",
    ]
    for heading, heads, rows in blocks(found):
        opened = not heading.startswith(("what is missing", "milestones", "threads", "memory"))
        body = _html_table(heads, rows) if heads else _html_list(rows)
        parts.append(f"<details{' open' if opened else ''}><summary><b>{escape(heading)}</b></summary>{body}</details>")
    return "".join([*parts, "</div>"])


def _html_list(rows: list[list[str]]) -> str:
    items = "".join(f"<li style='margin:.15em 0;overflow-wrap:anywhere'>{escape(row[0])}</li>" for row in rows)
    return f"<ul style='padding-left:1.4em;margin:.2em 0'>{items}</ul>"


def _html_table(heads: list[str], rows: list[list[str]]) -> str:
    style = "text-align:left;vertical-align:top;overflow-wrap:anywhere;padding:.1em .8em .1em 0"
    head = "".join(f"<th scope='col' style='{style}'>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td style='{style}'>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table class='kit-table' style='margin:.2em 0 .6em 0'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
