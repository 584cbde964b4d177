"""The page of a report: the answer and the first command on the first screen, then why, to explore, and what to do next."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from kit import __version__
from kit.analyse.verdict.hypotheses import Hypothesis
from kit.analyse.verdict.verdict import Verdict
from kit.analyse.verdict.verdict_text import REFUTED, quotes, source_of, standing
from kit.clock import NS, show_time
from kit.document import Section, percent
from kit.document.html import escape, section, table_script, whole_words
from kit.plot.style import GREY, PHASE_COLOUR
from kit.plot.timeaxis import TimeAxis
from kit.render.launch import About, Quiet
from kit.show.explorer.page import script, script_hash

MOST_TEXT = 240
"""Longest line of the evidence that is quoted."""


@dataclass(frozen=True)
class Part:
    """A part of the page under a heading."""

    name: str
    title: str
    html: str


@cache
def asset(name: str) -> str:
    """A file beside this module: the style sheet, the script."""
    return (files("kit.render") / "assets" / name).read_text(encoding="utf-8")


@cache
def own_script() -> str:
    """What copies, sorts, and leads from a claim to its line."""
    return asset("report.js") + table_script()


def page(name: str, lead: str, parts: Sequence[Part], tone: str) -> str:
    """The whole page; its policy lets its own scripts run, by hash, and loads nothing from anywhere."""
    own = f"'sha256-{b64encode(sha256(own_script().encode()).digest()).decode()}'"
    explores = any(part.name == "explore" for part in parts)
    allowed = f"{script_hash()} {own}" if explores else own
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    module = f'<script type="module">{script()}</script>' if explores else ""
    links = "".join(f'<li><a href="#{part.name}">{escape(part.title)}</a></li>' for part in parts)
    body = "".join(
        f'<section id="{part.name}" aria-labelledby="{part.name}-title"><h2 id="{part.name}-title">{escape(part.title)}</h2>'
        f"{part.html}</section>"
        for part in parts
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(name)}</title><style>{asset('report.css')}</style></head>"
        f'<body data-state="{escape(tone)}"><a class="skip" href="#why">Skip to the evidence</a>{lead}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav><main>{body}</main>'
        f"<footer>Made with stallkit {__version__}. This file needs no network and sends nothing.</footer>"
        f"{module}<script>{own_script()}</script></body></html>\n"
    )


def first_screen(verdict: Verdict, about: About, silent: Quiet | None, picture: str, axis: TimeAxis | None) -> str:
    """What is wrong, how sure, since when, what to run first; what was launched; a small timeline."""
    phase = standing(verdict)
    said = f"{phase}: {verdict.plain}" if phase else f" {verdict.plain}"
    facts = "".join(f"<div><dt>{escape(word)}</dt><dd>{escape(value)}</dd></div>" for word, value in about.short.items())
    drawn = f'<figure class="glance">{picture}{_scale(about, verdict, silent, axis)}</figure>' if axis else ""
    return (
        f'<header class="lead"><div class="answer"><p class="name">{escape(verdict.name)}</p>'
        f'<h1><span class="state">{escape(verdict.state)}</span>{escape(said)}</h1>'
        f'<ul class="vitals">{"".join(f"<li>{one}</li>" for one in _vitals(verdict, silent))}</ul>{_first(verdict)}</div>'
        f'<dl class="about">{facts}</dl>{drawn}</header>'
    )


def _vitals(verdict: Verdict, silent: Quiet | None) -> list[str]:
    """How sure, since when, which ranks: the numbers large."""
    sure = f"<b>{percent(verdict.confidence)}</b> sure" if verdict.klass != "undetermined" else "<b>not decided</b>"
    found = [f"{sure} <code>{escape(verdict.klass)}</code>"]
    if silent is not None:
        found.append(f"silent for <b>{silent.duration}</b>, since {escape(silent.since)} {place(silent.file, silent.line)}")
    if verdict.ranks:
        named = ", ".join(map(str, verdict.ranks[:12])) + (" …" if len(verdict.ranks) > 12 else "")
        found.append(f"odd {'rank' if len(verdict.ranks) == 1 else 'ranks'} <b>{named}</b>")
    if verdict.rival:
        found.append(f"or <b>{percent(verdict.rival.share)}</b> {escape(verdict.rival.klass.plain)}")
    return found


def _first(verdict: Verdict) -> str:
    """The first command, and the remedy of a known case."""
    urgent = verdict.next[:1] if verdict.state not in ("ready", "ended") else []
    shown = "".join(f'<div class="first"><h2>Run first</h2>{_step(step)}</div>' for step in urgent)
    if verdict.remedy and verdict.state not in ("ready", "ended"):
        shown += f'<p class="remedy"><b>Known remedy:</b> {whole_words(verdict.remedy["do"])} <a href="#change">why</a></p>'
    return shown


def _scale(about: About, verdict: Verdict, silent: Quiet | None, axis: TimeAxis) -> str:
    """What stands below the small timeline: begin and end, the colours of the phases, what is shaded."""
    run = verdict.scene.evidence.run
    zero = run.launch_zero_ns
    launched = about.short.get("launched", "")
    end = show_time(zero + int(axis.end * NS), run.offset_s) if zero is not None else ""
    end = end[11:] if end[:10] == launched[:10] else end
    begin = f"launched {launched[11:]}" if launched else "begin"
    ends = f"<p><span>{escape(begin)}</span><span>{escape(end)}</span></p>"
    drawn = run.phases().dropna(subset=["begin_t_s", "end_t_s"])["phase"]
    phases = {one: PHASE_COLOUR.get(one, GREY) for one in dict.fromkeys(drawn)}
    words = [f"<span><i class='swatch' style='background:{tint}'></i>{escape(one)}</span>" for one, tint in phases.items()]
    words.append("<span><i class='swatch tick'></i>records of the log</span>")
    if silent is not None and silent.from_s is not None:
        quiet = f"no progress since {silent.since[11:]}, for {silent.duration}{', drawn shorter' * axis.compressed}"
        words.append(f"<span><i class='swatch' style='background:var(--stall)'></i>{quiet}</span>")
    return f"<figcaption>{ends}<p class='phases'>{''.join(words)}</p></figcaption>"


def place(file: str | None, line: int | None, t: float | None = None) -> str:
    """Where a claim stands; a link to its line or moment in the explorer, where it has one."""
    if not file:
        return ""
    label = f"{file}:{line}" if line else file
    about = f' data-line="{line}"' * bool(line) + f' data-t="{t}"' * (t is not None)
    return f'<a class="place" href="#explore" data-file="{escape(file)}"{about}>{escape(label)}</a>'


def evidence(verdict: Verdict, claims: Sequence[dict]) -> str:
    """The claims as a chain that ends in the answer."""
    links = []
    for claim, text in zip(claims, quotes(claims), strict=True):
        text = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
        quoted = f"<blockquote><code>{escape(text)}</code></blockquote>" if text else ""
        links.append(f"<li>{escape(claim['claim'])} {place(claim['file'], claim['line'], claim['t'])}{quoted}</li>")
    so = f"{verdict.plain} ({verdict.klass})" + f", {percent(verdict.confidence)}" * (verdict.klass != "undetermined")
    meaning = "" if verdict.said_closely else f"<p>{escape(verdict.hypothesis.meaning)}</p>"
    return f'<ol class="chain">{"".join(links)}<li class="so"><b>So: {escape(so)}.</b>{meaning}</li></ol>'


def hypotheses(verdict: Verdict) -> str:
    """A bar of all belief, which adds up to 100 %, and below what speaks for and against each."""
    shown = verdict.shown()
    if verdict.hypothesis not in shown:
        shown = [verdict.hypothesis, *shown]
    shares = _whole([one.share for one in shown])
    named = [f"{one.klass.plain} ({one.name})" for one in shown]
    rest = 100 - sum(shares)
    bars = "".join(f'<span style="width:{share}%"></span>' for share in [*shares, rest])
    said = [f"{share} % {name}" for share, name in zip(shares, named, strict=True)] + [f"{rest} % all other classes"] * bool(rest)
    rows = "".join(_hypothesis(*one) for one in zip(shown, shares, named, strict=True))
    others = f"<p class='others'><i class='swatch' style='background:var(--line)'></i><b>{rest} %</b> all other classes</p>"
    return (
        f'<div class="belief" role="img" aria-label="{escape("Belief: " + ", ".join(said))}">{bars}</div>'
        f'<div class="hypotheses">{rows}{others if rest else ""}</div>'
    )


def _whole(shares: Sequence[float]) -> list[int]:
    """Shares as whole percent whose rounding never makes more than 100.

    Examples
    --------
    >>> _whole([0.496, 0.496, 0.006]), _whole([0.999])
    ([50, 50, 0], [99])
    """
    floor = [int(share * 100) for share in shares]
    spare = min(int(sum(shares) * 100 + 0.5), 100) - sum(floor)
    by_rest = sorted(range(len(shares)), key=lambda n: -(shares[n] * 100 - floor[n]))
    for n in by_rest[:spare]:
        floor[n] += floor[n] < 99  # nothing that is believed is certain
    return floor


def _hypothesis(one: Hypothesis, share: int, named: str) -> str:
    refuted = one.share < REFUTED and one.opposing
    lists = []
    for word, entries in (("for", one.supporting), ("against", one.opposing)):
        claims = [sign.claim for sign, weight, _ in entries if abs(weight) >= 0.5 and not sign.code.startswith("phase_")]
        items = "".join(f"<li>{escape(claim)}</li>" for claim in dict.fromkeys(claims))
        lists.append(f'<p class="side">{word}</p><ul class="{word}">{items}</ul>' if items else "")
    settled = next(iter(one.settled_by), None)
    if settled and not refuted:
        lists.append(
            f'<p class="side">would settle it</p><ul><li>{escape(settled["capture"])}: {escape(settled["reason"])}</li></ul>'
        )
    belief = "refuted" if refuted else f"{share} %"
    swatch = f"<i class='swatch'{' style=background:none' * bool(refuted)}></i>"  # the bar has no part of it
    return f"<details><summary>{swatch}<b>{belief}</b> {escape(named)}</summary>{''.join(lists)}</details>"


def _step(step: dict) -> str:
    consent = ", needs consent" if step["consent"] else ""
    why = f"{step['what']}: {step['why']} (about {step['cost_s']:g} s of CPU{consent})"
    return f'{command(step["command"])}<p class="small">{escape(why)}</p>'


def command(text: str) -> str:
    """A command to copy; the script gives it its button."""
    return f'<div class="command"><code>{whole_words(text)}</code></div>'


def steps(verdict: Verdict) -> str:
    """What to collect next, the cheapest for what it says first."""
    if not verdict.next:
        return "<p>Nothing more to collect: the evidence decides.</p>"
    return f'<ol class="steps">{"".join(f"<li>{_step(step)}</li>" for step in verdict.next)}</ol>'


def change(verdict: Verdict) -> str:
    """Remedies of known cases, and what else was found."""
    found = []
    for known in verdict.remedies:
        said = f"{escape(known['what'])}<p><b>→ {whole_words(known['do'])}</b></p>"
        found.append(f"<li>{said}<p class='small'>{escape(source_of(known))}</p></li>")
    for entry in verdict.findings:
        first = next(iter(entry["evidence"]), {})
        where = place(first.get("capture"), first.get("line"))
        found.append(f"<li>{escape(entry['claim'])} {where}<p><b>→ {escape(entry['next'])}</b></p></li>")
    return f'<ul class="changes">{"".join(found)}</ul>' if found else ""


def sections(shown: Sequence[Section]) -> str:
    """Sections of a document."""
    return "".join(map(section, shown))


def folded(title: str, html: str, opened: bool = False) -> str:
    """Something below a line that opens it."""
    return f"<details{' open' * opened}><summary>{escape(title)}</summary>{html}</details>"
