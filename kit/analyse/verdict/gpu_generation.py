"""What is known of GPUs: generations by product name, Xids by origin (`kit/knowledge/gpus.toml`)."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Any

from kit.knowledge_paths import PACKAGED


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((PACKAGED / "gpus.toml").read_text(encoding="utf-8"))


@cache
def _generations() -> list[tuple[str, re.Pattern[str]]]:
    return [(entry["name"], re.compile("|".join(entry["products"]), re.IGNORECASE)) for entry in _tables()["generation"]]


def generation(product: str) -> str | None:
    """Generation of a GPU; None where the product is not in the table.

    Examples
    --------
    >>> generation("NVIDIA RTX PRO 6000 Blackwell Server Edition"), generation("NVIDIA H100 80GB HBM3"), generation("Voodoo 2")
    ('Blackwell', 'Hopper', None)
    """
    return next((name for name, pattern in _generations() if pattern.search(product)), None)


@cache
def xids(origin: str) -> frozenset[int]:
    """Numbers of the Xids of an origin: `hardware` or `application`."""
    return frozenset(number for entry in _tables()["xid"] if entry["origin"] == origin for number in entry["numbers"])
