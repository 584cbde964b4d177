"""Thresholds: the numbers that are judgements, with unit and reason in `kit/knowledge/thresholds.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kit.knowledge_paths import load
from kit.tomlfile import TomlFile


def thresholds(folders: Iterable[Path] = ()) -> Mapping[str, float]:
    """All thresholds by name: the packaged ones, and the values that the user's folders set in their place.

    Examples
    --------
    >>> thresholds()["recent_s"]
    60.0
    """
    return load("thresholds", _read, tuple(folders))


def _read(files: list[TomlFile]) -> dict[str, float]:
    """Values by name; `kit.errors.UsageError` names file, line and key of a mistake."""
    values: dict[str, float] = {}
    for number, file in enumerate(reversed(files)):  # the packaged file is the last
        known = list(values)
        for table in file.tables("threshold"):
            table.known(("name", "value", "unit", "reason"))
            name = table.text("name", allowed=known if number else (), needed=True) or ""
            table.text("unit", needed=not number)
            table.text("reason", needed=not number)
            values[name] = table.number("value", needed=True)
    return values
