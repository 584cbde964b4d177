"""A small instance of tools/faults.py, which kills every writer at its writes: nothing that was captured is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the recorders look at /proc")


@pytest.mark.parametrize("writer", ["pull", "learn"])
def test_a_writer_that_is_killed_or_finds_no_room_loses_nothing(writer: str, root: Path) -> None:
    command = [sys.executable, str(root / "tools" / "faults.py"), "--most", "2", "--only", writer]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kills, lost, failures = map(int, re.search(r"kills: (\d+), .* rows lost: (\d+), failures: (\d+)", ran.stdout).groups())
    assert kills >= 4 and (lost, failures) == (0, 0)
