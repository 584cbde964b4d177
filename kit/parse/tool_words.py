"""Words of other tools and what they mean here, from `kit/knowledge/tool_words.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TOOL_WORDS: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "knowledge" / "tool_words.toml").read_text(encoding="utf-8")
)
