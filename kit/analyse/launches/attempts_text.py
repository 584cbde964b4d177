"""A list of launches as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.launches.study import shortened
from kit.analyse.text_blocks import named
from kit.clock import show_duration
from kit.document import Block, Command, Document, Item, Section, Table, items, percent

if TYPE_CHECKING:
    from kit.analyse.launches.attempts import Attempts

MOST_COLUMNS = 5
"""Settings shown beside the outcomes; the table of settings below has them all."""


def document(found: Attempts, brief: bool = False) -> Document:
    """What is known, what to launch next, the tables."""
    sections = [
        Section("findings", items(found.findings[1:])),  # the first is the title
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
        settings = [shortened(row[name] if isinstance(row[name], str) else None) for name in columns]
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
