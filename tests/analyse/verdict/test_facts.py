"""The list of facts and the page that says what they mean are one."""

from __future__ import annotations

import re
from pathlib import Path

from kit.analyse.verdict.facts import NAMES

PAGE = Path(__file__).parents[3] / "docs" / "facts.md"


def test_the_page_names_each_fact_and_no_other() -> None:
    tables = PAGE.read_text(encoding="utf-8").split("## Phases")[0].splitlines()
    named = [name for row in tables if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(NAMES) and len(set(NAMES)) == len(NAMES)
