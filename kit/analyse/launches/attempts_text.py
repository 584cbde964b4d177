"""The ledger of attempts in words: plain sentences, and the tables as terminal text or as HTML from the same blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.launches.attempts import FAST_OR_SLOW, LATE
from kit.analyse.text_blocks import named
from kit.clock import show_duration
from kit.document import Block, Command, Document, Item, Section, Table, items, percent

if TYPE_CHECKING:
    from kit.analyse.launches.attempts import Attempts, Candidate, Study

MOST_COLUMNS = 5
"""Settings shown beside the outcomes; the table of settings below has them all."""
MOST_SAID = 4
FEW = 0.05
"""A setting that tells the outcomes apart with a higher chance than this by accident asks for repeats. The usual level."""


def sentences(study: Study, unlikely: bool = True) -> list[str]:
    """What the launches say together, the numbers first. Nothing is called a cause.

    Parameters
    ----------
    study : Study
    unlikely : bool
        Name the settings that differ too, but hardly are causes.
    """
    good, bad = study.group(True), study.group(False)
    said = [_counts(study)]
    servers = sorted({side.settings.server for side in study.sides if side.settings.server})
    if len(servers) > 1:
        said.append(f"these are launches of {' and '.join(servers)}: settings of one server have other names in another")
    if study.late:
        names = named([study.names[number] for number in study.late])
        said.append(f"counted as not ready, after {LATE:g} times as long as the slowest that is: {names}")
    if study.group(None):
        names = named([study.names[number] for number in study.group(None)])
        said.append(f"not counted, as the evidence does not tell how it ends: {names}")
    ended = [name for name, side in zip(study.names, study.sides, strict=True) if side.ended]
    if ended:
        said.append(f"counted as ready, though it crashed after that, which may be how it was stopped: {named(ended)}")
    if good and bad:
        said += _alike(study) + _separating(study) + _closest(study)
    elif study.sides:
        lacking = "known to have stalled or failed, or slower by far than the others" if good else "ready"
        said.append(
            f"nothing can be told apart: no launch is {lacking}; "
            + ("launch one that works, an older version or fewer options, to hold the others against" if not good else "")
        )
    said += [f"{', '.join(group)} always changed together: they are confounded" for group in study.confounded]
    seldom = [one.name for one in study.settings if one.unlikely]
    if seldom and unlikely:
        said.append(f"unlikely causes, which differ too: {named(seldom)}")
    return [line.rstrip("; ") for line in said]


def _counts(study: Study) -> str:
    good, bad, open_ = (len(study.group(outcome)) for outcome in (True, False, None))
    by_time = study.words == FAST_OR_SLOW
    sizes = [(good + bad if by_time else good, "ready"), (0 if by_time else bad, "not"), (open_, "undecided or not done")]
    counted = ", ".join(f"{number} {word}" for number, word in sizes if number)
    said = f"{len(study.sides)} launch{'es' if len(study.sides) != 1 else ''}: {counted}"
    return f"{said}; told apart by their time to ready: {_span(study, True)} and {_span(study, False)}" if by_time else said


def _span(study: Study, good: bool) -> str:
    """How many launches are fast or slow, and the seconds they took."""
    took = [study.sides[number].ready_s for number in study.group(good)]
    low, high = show_duration(min(took)), show_duration(max(took))
    return f"{len(took)} {study.words[not good]} ({low}{f' to {high}' if high != low else ''})"


def _alike(study: Study) -> list[str]:
    pairs = study.alike
    if not pairs:
        return []
    good, bad = pairs[0]
    more = f", and {len(pairs) - 1} more such pairs" if len(pairs) > 1 else ""
    return [
        f"{study.names[good]} is {study.words[0]} and {study.names[bad]} is {study.words[1]}, "
        f"though no setting is known to differ between them{more}: "
        "what was captured of the settings does not decide the outcome alone"
    ]


def _separating(study: Study) -> list[str]:
    found = study.separating
    if not found:
        said = [f"no single setting separates the launches that are {study.words[0]} from the others"] if not study.alike else []
        return said + _ruled_out(study)
    said = []
    several = len({one.outcome for one in found}) > 1 or found[0].outcome != study.words[1]
    if several:
        said.append("no single setting separates all launches that are ready from the others; single classes it does:")
    for one in found[:MOST_SAID]:
        rivals = [other.name for other in found if other is not one and other.outcome == one.outcome]
        fits = f"being {one.outcome}" if one.outcome == study.words[1] else one.outcome
        groups = [
            f"{values(group)} in the {sum(group.values())} that {'is' if sum(group.values()) == 1 else 'are'} {word}"
            for group, word in zip((one.good, one.bad), study.words, strict=True)
        ]
        said.append(
            f"{fits} is consistent with {one.name}: {', '.join(groups)} ({_strength(one)})"
            + (f"; so it is with {named(rivals)}" if rivals and one is found[0] else "")
            + (f"; the server printed {named(one.follows, 3)} accordingly" if one.follows else "")
        )
    if len(found) > MOST_SAID:
        said.append(f"{len(found) - MOST_SAID} more settings separate them as well")
    return said + _ruled_out(study)


def _strength(one: Candidate) -> str:
    if one.chance >= 1:
        return "each launch has another value: any outcomes would fit"
    words = f"by chance a setting of such a pattern fits with {one.chance:.0%}"
    return words if one.chance <= FEW else f"{words}: repeat"


def _ruled_out(study: Study) -> list[str]:
    out = [one.name for one in study.held if one.good.keys() & one.bad.keys()]
    return [f"not the one deciding setting, as a value of it has both outcomes: {named(out)}"] if out else []


def _closest(study: Study) -> list[str]:
    good, bad, settings = study.pairs[0]
    if not settings:
        return []
    names = [one.name for one in settings]
    what = f"{names[0]} alone" if len(names) == 1 else f"{len(names)} settings: {named(names)}"
    pair = f"{study.names[good]} ({study.words[0]}) and {study.names[bad]}"
    return [f"the closest launches with another outcome, {pair}, differ in {what}"]


def missing(study: Study) -> list[str]:
    """What keeps the launches from being told apart."""
    said = []
    for name, side in zip(study.names, study.sides, strict=True):
        if not side.settings.options:
            said.append(f"{name} holds no command line and no printed arguments: its settings are not known")
        if side.run.captured_by == "file time":
            said.append(f"{name}: no time of capture was given; it is counted to the last stamp of its log")
    return said


def values(found: dict[str | None, int]) -> str:
    """Values with their numbers of launches.

    Examples
    --------
    >>> values({"triton": 2, None: 1})
    'triton (2 ×), not given'
    """
    shown = [f"{_short(value)}{f' ({number} ×)' if number > 1 else ''}" for value, number in found.items()]
    return named(shown, 4)


def _short(value: str | None) -> str:
    return "not given" if value is None else value if len(value) <= 40 else f"{value[:39]}…"


def document(found: Attempts, brief: bool = False) -> Document:
    """What is known, what to launch next, the tables."""
    sections = [
        Section("findings", items(found.findings)),
        Section("next launch", [block for step in found.next for block in _step(step, found.outcomes)]),
    ]
    if not brief:
        heads = ["setting", *found.outcomes, "separates", "by chance"]
        candidates = [_candidate(row, found.outcomes) for row in found.candidates.to_dict("records")]
        sections += [
            Section("launches", [_table(found)]),
            Section("settings that differ", [Table(heads, candidates)]),
            Section("what is missing", items(found.missing, "·"), folded=True),
        ]
    return Document(found.findings[0] if found.findings else "launches", sections)


def _candidate(row: dict, words: tuple[str, str]) -> list[str]:
    outcome = f" ({row['outcome']})" if row["outcome"] != words[1] else ""
    separates = f"{row['ready_launches']} from {row['not_ready_launches']}{outcome}" if row["separates"] else "no"
    chance = percent(row["chance"]) if row["chance"] == row["chance"] else "–"
    return [row["setting"], row["ready"] or "–", row["not_ready"] or "–", separates, chance]


def _table(found: Attempts) -> Table:
    """Launches by the settings that tell most."""
    columns = [name for name in found.candidates["setting"] if name in found.launches][:MOST_COLUMNS]
    rows = []
    for row in found.launches.to_dict("records"):
        ready = row["ready_s"] == row["ready_s"]
        seconds = row["ready_s"] if ready else row["until_s"]
        took = ("" if ready else "≥ ") + show_duration(seconds) if seconds == seconds else "–"
        settings = [_short(row[name] if isinstance(row[name], str) else None) for name in columns]
        phase = row["phase"] if isinstance(row["phase"], str) else "–"
        rows.append([row["launch"], row["state"], row["class"], phase, took, *settings])
    return Table(["launch", "state", "class", "phase", "to ready", *columns], rows)


def _step(step: dict, words: tuple[str, str]) -> list[Block]:
    blocks: list[Block] = [Item(step["what"])]
    if step["command"]:
        blocks.append(Command(step["command"]))
    elif step["setting"]:
        blocks.append(Item(f"no command of {step['base']} was recorded that this can be changed in: change it by hand", level=1))
    if step["if_ready"] or step["if_not"]:
        left = [named(step[key]) or "no candidate" for key in ("if_ready", "if_not")]
        blocks.append(Item(f"{words[0]} would leave {left[0]}; {words[1]} would leave {left[1]}", "→", level=1))
    return blocks
