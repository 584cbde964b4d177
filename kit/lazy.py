"""Packages whose public names are imported when they are called for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, where: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: public name to its module there, as `module:name` where it is another there.

    Examples
    --------
    >>> get, _ = lazily("kit", {"Mistake": "errors:KitError"})
    >>> get("Mistake").__name__
    'KitError'
    """

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = where[name].partition(":")
        return getattr(import_module(f"{package}.{module}"), there or name)

    return get, lambda: sorted({*vars(sys.modules[package]), *where})
