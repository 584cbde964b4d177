"""GPU generations by product name: `kit/knowledge/gpus.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from kit.knowledge_paths import PACKAGED


@cache
def _table() -> list[tuple[str, re.Pattern[str]]]:
    entries = tomllib.loads((PACKAGED / "gpus.toml").read_text(encoding="utf-8"))["generation"]
    return [(entry["name"], re.compile("|".join(entry["products"]), re.IGNORECASE)) for entry in entries]


def generation(product: str) -> str | None:
    """Generation of a GPU; None where the product is not in the table.

    Examples
    --------
    >>> generation("NVIDIA RTX PRO 6000 Blackwell Server Edition"), generation("NVIDIA H100 80GB HBM3"), generation("Voodoo 2")
    ('Blackwell', 'Hopper', None)
    """
    return next((name for name, pattern in _table() if pattern.search(product)), None)
