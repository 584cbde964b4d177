"""Words of other tools and what they mean here, from `kit/knowledge/tables.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads((Path(__file__).parents[1] / "knowledge" / "tables.toml").read_text(encoding="utf-8"))
