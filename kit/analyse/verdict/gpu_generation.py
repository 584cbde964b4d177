"""GPU generations by product name: `kit/knowledge/gpus.toml` and the user's folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kit.knowledge_paths import entries, load
from kit.tomlfile import TomlFile


def _read(files: list[TomlFile]) -> list[tuple[str, list[re.Pattern[str]]]]:
    table = [(entry.text("name", needed=True), entry) for entry in entries(files, "generation")]
    return [(name, [entry.expression("products", f"(?i){text}") for text in entry.strings("products")]) for name, entry in table]


def generation(product: str, folders: Sequence[Path] = ()) -> str | None:
    """Generation of a GPU; None where the product is not in the table.

    Examples
    --------
    >>> generation("NVIDIA RTX PRO 6000 Blackwell Server Edition"), generation("NVIDIA H100 80GB HBM3"), generation("Voodoo 2")
    ('Blackwell', 'Hopper', None)
    """
    table = load("gpus", _read, folders)
    return next((name for name, patterns in table if any(pattern.search(product) for pattern in patterns)), None)
