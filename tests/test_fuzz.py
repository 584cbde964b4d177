"""A few inputs of `tools/fuzz.py`, always the same ones: nothing but the kit's own errors, and no reader that gives up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parent.parent / "tools" / "fuzz.py"


def test_damaged_evidence_is_read_or_refused() -> None:
    """As a command: what an input takes is measured in a child, which begins with the memory of its parent."""
    command = [sys.executable, str(FUZZ), "--minutes", "10", "--most", "16", "--seed", "11"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "inputs 16 (reader 4, folder 4, intake 4, run 4), failed 0" in ended.stdout
