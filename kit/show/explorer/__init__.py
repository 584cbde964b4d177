"""The explorer: all that is known of a launch on one time axis, to zoom, filter and search; in a notebook and in the report."""

from __future__ import annotations

from kit.lazy import lazily

_WHERE = {"explore": "widget", "Explorer": "widget", "explorer_html": "page", "script": "page", "script_hash": "page"}
"""Public name to the module of this package that defines it."""

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
