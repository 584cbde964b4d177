"""Every frame of the kit, declared in `frames.toml` beside this module. `kit reference` prints this as docs/columns.md.

Common columns: `capture` is the raw file that a row came from (relative to the run), `line` its 1-based line there,
`moment` numbers the samples of the same thing (0, 1, …; null where there is one only), `time` is UTC, `t_s` the seconds
since launch zero. A capture that has no clock leaves `time` null; it takes the time of its capture where the manifest
knows one.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from kit.schema import Column, Frame

_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_COMMON = _DECLARED["common"]


def _column(name: str, kind: str, meaning: str, unit: str = "") -> Column:
    return Column(name, kind.removesuffix(" not null"), meaning, unit, nullable=not kind.endswith(" not null"))


def _columns(declared: dict[str, list[str]]) -> tuple[Column, ...]:
    return tuple(_column(name, *entry) for name, entry in declared.items())


def _frame(name: str, entry: dict) -> Frame:
    """A frame with the columns that all frames of captures have around its own."""
    own = entry["columns"] | _DECLARED["frame"].get(entry.get("like"), {"columns": {}})["columns"]
    if not entry.get("clock", True):
        return Frame(name, entry["meaning"], _columns(own))
    snapshot = entry.get("snapshot", True)
    before = _COMMON["time"] | (_COMMON["moment"] if snapshot else {})
    columns = (*_columns(before), *_columns(own), *_columns(_COMMON["where"]))
    return Frame(name, entry["meaning"], columns, snapshot, entry.get("keep", True))


FRAMES: dict[str, Frame] = {name: _frame(name, entry) for name, entry in _DECLARED["frame"].items()}
"""All frames by name."""
TABLES: dict[str, Frame] = {name: _frame(name, entry) for name, entry in _DECLARED["table"].items()}
"""Tables that are made of a verdict, not of a capture: `kit.facts(run)`, `kit.analyse.verdict.tables.hypotheses(run)`."""
