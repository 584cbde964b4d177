"""The explorer: all that is known of a launch on one time axis, to zoom, filter and search; in a notebook and in the report."""

from __future__ import annotations

from importlib import import_module

_WHERE = {"explore": "widget", "Explorer": "widget", "explorer_html": "page", "script": "page", "script_hash": "page"}
"""Public name to the module of this package that defines it."""

__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
