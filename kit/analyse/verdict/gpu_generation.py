"""What is known of GPUs: generations by product name, Xids by origin (`kit/knowledge/gpus.toml` and the user's folders)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.knowledge_paths import entries, load
from kit.tomlfile import TomlFile


@dataclass(frozen=True)
class Gpus:
    """Patterns of product names by generation, numbers of Xids by origin."""

    generations: dict[str, list[re.Pattern[str]]]
    xids: dict[str, frozenset[int]]


def _read(files: list[TomlFile]) -> Gpus:
    generations = {
        table.text("name", needed=True): [table.expression("products", f"(?i){text}") for text in table.strings("products")]
        for table in entries(files, "generation")
    }
    numbers = [(table.text("origin", needed=True), table.values["numbers"]) for file in files for table in file.tables("xid")]
    origins = {origin for origin, _ in numbers}
    return Gpus(generations, {name: frozenset(n for origin, some in numbers if origin == name for n in some) for name in origins})


def generation(product: str, folders: Sequence[Path] = ()) -> str | None:
    """Generation of a GPU; None where the product is not in the table.

    Examples
    --------
    >>> generation("NVIDIA RTX PRO 6000 Blackwell Server Edition"), generation("NVIDIA H100 80GB HBM3"), generation("Voodoo 2")
    ('Blackwell', 'Hopper', None)
    """
    known = load("gpus", _read, folders).generations
    return next((name for name, patterns in known.items() if any(pattern.search(product) for pattern in patterns)), None)


def xids(origin: str, folders: Sequence[Path] = ()) -> frozenset[int]:
    """Numbers of the Xids of an origin: `hardware` or `application`."""
    return load("gpus", _read, folders).xids.get(origin, frozenset())
