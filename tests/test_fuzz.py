"""A few inputs of `tools/fuzz.py`, always the same ones: nothing but the kit's own errors, and no reader that gives up."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FUZZ = Path(__file__).parent.parent / "tools" / "fuzz.py"


def test_damaged_evidence_is_read_or_refused() -> None:
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    assert spec is not None and spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    tried, failed, _, _ = fuzz.fuzz(seconds=600, most=16, seed=11)
    assert tried == {"reader": 4, "folder": 4, "intake": 4, "run": 4} and not failed
