"""Packages whose public names are imported when they are called for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, modules: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: module to the names it gives, `name=there` where it is another there.

    Examples
    --------
    >>> get, _, names = lazily("kit", {"errors": "UsageError Mistake=KitError"})
    >>> get("Mistake").__name__, names
    ('KitError', ['Mistake', 'UsageError'])
    """
    where = {}
    for module, names in modules.items():
        for name in names.split():
            name, _, there = name.partition("=")
            where[name] = (f"{package}.{module}", there or name)

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, there = where[name]
        return getattr(import_module(module), there)

    return get, lambda: sorted({*vars(sys.modules[package]), *where}), sorted(where)
