"""The explorer: all that is known of a launch on one time axis, to zoom, filter and search; in a notebook and in the report."""

from __future__ import annotations

from kit.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, {"widget": "explore Explorer", "page": "explorer_html script script_hash"})
