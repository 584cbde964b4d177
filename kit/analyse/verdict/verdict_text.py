"""The verdict for people: one list of blocks, shown as terminal text or as HTML."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

from kit.clock import show_duration

if TYPE_CHECKING:
    from kit.analyse.verdict.hypotheses import Hypothesis
    from kit.analyse.verdict.verdict import Verdict

WIDTH = 110
MOST_REMEDIES = 3
"""Known cases that are shown; `Verdict.remedies` has all that fit."""
Line = tuple[str, str, str]
"""(mark, text, small print)"""


def sureness(share: float) -> str:
    """Words for a share of belief.

    Examples
    --------
    >>> [sureness(s) for s in (0.97, 0.8, 0.6, 0.3)]
    ['nearly certain', 'likely', 'more likely than not', 'a guess']
    """
    return (
        "nearly certain"
        if share >= 0.95
        else "likely"
        if share >= 0.75
        else "more likely than not"
        if share >= 0.5
        else "a guess"
    )


def headline(verdict: Verdict) -> str:
    """One sentence: state, class, phase, ranks."""
    ranks = f", rank {', '.join(map(str, verdict.ranks))}" if verdict.ranks else ""
    phase = f" in phase {verdict.phase}" if verdict.phase else ""
    if verdict.klass == "undetermined":
        return f"UNDETERMINED{phase}: the evidence does not decide; collect what stands under “next”"
    return f"{verdict.state.upper()}: {verdict.klass}{phase}{ranks} ({sureness(verdict.confidence)}, {verdict.confidence:.0%})"


def blocks(verdict: Verdict) -> list[tuple[str, list[Line]]]:
    """Headings with their lines, the most important first."""
    best = next(h for h in verdict.hypotheses if h.name == verdict.klass)
    found: list[tuple[str, list[Line]]] = [("what it means", [("", best.meaning, "")])]
    found.append(("evidence", _evidence(verdict)))
    found.append(("remedy", [line for known in verdict.remedies[:MOST_REMEDIES] for line in _remedy(known)]))
    found.append(("also found", [line for entry in verdict.findings for line in _finding(entry)]))
    found.append(("hypotheses", [line for h in verdict.shown() for line in _hypothesis(h, verdict)]))
    found.append(
        (
            "next",
            [
                (
                    "$",
                    step["command"],
                    f"{step['what']}: {step['why']} (about {step['cost_s']:g} s of CPU"
                    f"{', needs consent' if step['consent'] else ''})",
                )
                for step in verdict.next
            ],
        )
    )
    found.append(("facts", _facts(verdict)))
    found.append(("what is missing", [("·", said, "") for said in verdict.missing]))
    return [(heading, lines) for heading, lines in found if lines]


def _remedy(known: dict) -> list[Line]:
    versions = [f"{word} {known[key]}" for key, word in (("since", "since"), ("fixed", "fixed in")) if known.get(key)]
    source = [f"source: {known['source']}"] if known["source"] else []
    return [("", known["what"], ""), ("→", known["do"], "; ".join([f"known case: {known['name']}", *source, *versions]))]


def _finding(entry: dict) -> list[Line]:
    first = next(iter(entry["evidence"]), {})
    where = f"{first['capture']}:{first['line']}  {first['text'] or ''}" if first.get("capture") else ""
    return [("!" if entry["severity"] == "error" else "·", entry["claim"], where), ("→", entry["next"], "")]


def _evidence(verdict: Verdict) -> list[Line]:
    lines: list[Line] = []
    seen: dict[str, int] = {}
    for entry in verdict.evidence:
        where = f"{entry['capture']}:{entry['line']}" if entry["capture"] and entry["line"] else entry["capture"] or ""
        quoted = f"{where}  {entry['text'] or ''}".strip()
        if entry["claim"] in seen:
            continue
        seen[entry["claim"]] = len(lines)
        lines.append(("•", entry["claim"], quoted))
    return lines[:10]


def _hypothesis(hypothesis: Hypothesis, verdict: Verdict) -> list[Line]:
    refuted = hypothesis.share < 0.05 and hypothesis.opposing
    guess = {"log_lost_server_ready": "“it is ready, only the log was lost”", "ready": "“it is ready”"}.get(hypothesis.name, "")
    said = f"{hypothesis.name} {guess}".strip()
    lines: list[Line] = [("×" if refuted else "?", f"{said}: {'refuted' if refuted else format(hypothesis.share, '.0%')}", "")]
    # What speaks for the verdict's own class stands under "evidence" already.
    supporting = hypothesis.supporting if hypothesis.name != verdict.klass else []
    for mark, entries in (("+", supporting), ("−", hypothesis.opposing)):
        lines += [
            (f"  {mark}", sign.claim, "")
            for sign, weight, _ in entries[:4]
            if abs(weight) >= 0.5 and not sign.code.startswith("phase_")
        ]
    if hypothesis.settled_by and not refuted and verdict.confidence < SURE:
        first = hypothesis.settled_by[0]
        lines.append(("  ?", f"would be moved most by: {first['capture']} ({first['reason']})", ""))
    return lines


SURE = 0.85
"""Above this share of belief nobody asks what would settle it."""
SHOWN_FACTS = (
    "log_lines",
    "silence_s",
    "weights_done",
    "weights_s",
    "weights_elapsed_s",
    "s_per_shard",
    "eta_s",
    "eta_range_s",
    "graph_done",
    "graph_s",
    "jit_done",
    "heartbeats",
    "ready",
    "exited",
    "signal",
    "restarts",
    "port",
    "port_listening",
    "port_owner_pid",
    "health_http",
    "generate_works",
    "world_size",
    "ranks_dead",
    "lagging_ranks",
    "ranks_same_place",
    "state",
    "threads",
    "fds",
    "rss_kb",
    "rss_anon_kb",
    "rss_file_kb",
    "rss_shmem_kb",
    "d_state_pids",
    "wchan",
    "blocked_fd",
    "lock_path",
    "lock_holder",
    "compilers_running",
    "gpu_util",
    "gpu_mem_mib_max",
    "xids",
    "step",
    "seq",
    "op",
    "timeout_ms",
    "first_error",
    "log_deleted",
    "last_line",
)


def _facts(verdict: Verdict) -> list[Line]:
    lines: list[Line] = []
    for name in SHOWN_FACTS:
        value = verdict.facts.value(name)
        if value is None or value == []:
            continue
        lines.append(("", f"{name} = {_value(name, value)}", ""))
    if verdict.facts.value("rss_shmem_kb"):
        lines.append(("", "resident memory is not summed over ranks: shared and file pages are the same pages in each", ""))
    return lines


def _value(name: str, value: object) -> str:
    if name.endswith("_s") and isinstance(value, (int, float)) and name != "s_per_shard":
        return show_duration(value)
    if name.endswith("_kb") and isinstance(value, int):
        return f"{value:,} kB ({value / 2**20:,.1f} GiB)"
    if name == "eta_range_s" and isinstance(value, list):
        return " to ".join(show_duration(end) for end in value)
    if isinstance(value, list) and name.endswith("_done"):
        return f"{value[0]:g} of {value[1]:g}"
    return str(value)[:160]


def as_text(verdict: Verdict) -> str:
    """The verdict as terminal text, at most `WIDTH` columns wide."""
    lines = [f"{verdict.name}: {headline(verdict)}", f"as of {verdict.captured_at} ({verdict.captured_by})"]
    for heading, entries in blocks(verdict):
        lines += ["", heading]
        for mark, text, small in entries:
            lead = f"  {mark} " if mark else "  "
            lines += (
                textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
                if mark != "$"
                else [f"{lead}{text}"]
            )
            lines += [textwrap.shorten(small, WIDTH - 8, placeholder=" …").join((" " * (len(lead) + 2), ""))] if small else []
    return "\n".join(lines)


def as_html(verdict: Verdict) -> str:
    """The same as HTML; all text of the evidence is escaped."""
    moment = f"{verdict.name}, as of {verdict.captured_at} ({verdict.captured_by})"
    colour = {"ready": "#117733", "progressing": "#0072b2", "stalled": "#b3520a", "failed": "#a01c2c", "unknown": "#555"}[
        verdict.state
    ]
    parts = [
        f"<div class='kit-verdict' style='border-left:6px solid {colour};padding:.2em 1em;max-width:62em'>",
        f"<p style='font-size:1.25em;margin:.3em 0'><b style='color:{colour}'>{escape(headline(verdict))}</b></p>",
        f"<p style='margin:.2em 0;opacity:.75'>{escape(moment)}</p>",
    ]
    for heading, entries in blocks(verdict):
        opened = heading not in ("facts", "what is missing")
        items = "".join(_item(*entry) for entry in entries)
        parts.append(
            f"<details{' open' if opened else ''}><summary><b>{heading}</b></summary>"
            f"<ul style='list-style:none;padding-left:1em;margin:.2em 0'>{items}</ul></details>"
        )
    return "".join([*parts, "</div>"])


def _item(mark: str, text: str, small: str) -> str:
    shown = f"<code>{escape(text)}</code>" if mark == "$" else escape(text)
    lead = "" if mark in ("", "$") else f"{escape(mark.strip())} "
    indent = "padding-left:1.4em;" if mark.startswith("  ") else ""
    below = f"<br><small style='opacity:.75;overflow-wrap:anywhere'>{escape(small)}</small>" if small else ""
    return f"<li style='{indent}margin:.15em 0;overflow-wrap:anywhere'>{lead}{shown}{below}</li>"
