"""Thresholds: the numbers that are judgements, with unit and reason in `kit/knowledge/thresholds.toml`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from kit.knowledge_paths import PACKAGED, version
from kit.tomlfile import TomlFile

FILE = "thresholds.toml"
_KEYS = ("name", "value", "unit", "reason")


def read(path: Path, known: Collection[str] | None = None) -> dict[str, float]:
    """Thresholds of a file by name.

    Raises
    ------
    kit.errors.UsageError
        The file is wrong, or sets a threshold that is not among those known; the message names file, line and key.
    """
    values: dict[str, float] = {}
    for table in TomlFile(path, "thresholds").tables("threshold"):
        table.known(_KEYS)
        name = table.text("name", allowed=known or (), needed=True)
        value = table.values.get("value")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise table.error("value", "it is missing or not a number")
        for key in ("unit", "reason"):
            table.text(key, needed=known is None)
        values[name] = value
    return values


@lru_cache(maxsize=8)
def _load(folders: tuple[Path, ...], checksum: str) -> Mapping[str, float]:
    packaged = read(PACKAGED / FILE)
    values = dict(packaged)
    for folder in reversed(folders):  # the first folder goes before the others
        if (folder / FILE).is_file():
            values |= read(folder / FILE, packaged)
    return MappingProxyType(values)


def thresholds(folders: Iterable[Path] = ()) -> Mapping[str, float]:
    """All thresholds by name: the packaged ones, and what `thresholds.toml` in the user's folders sets in their place.

    Examples
    --------
    >>> thresholds()["recent_s"]
    60.0
    """
    folders = tuple(folders)
    return _load(folders, version(folders))
