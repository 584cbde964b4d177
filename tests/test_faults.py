"""A small instance of tools/faults.py, which kills every writer at its writes: nothing that was captured is lost."""

from __future__ import annotations

import importlib
import os
import re
import stat
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
    assert kills >= 2 and (lost, failures) == (0, 0)


def test_only_the_owner_may_read_what_a_writer_makes(root: Path, tmp_path: Path) -> None:
    """Whatever umask says: folders 0700, files 0600. A report is for others, and is as umask says."""
    sys.path.insert(0, str(root / "tools"))
    faults = importlib.import_module("faults")
    before = os.umask(0o022)
    try:
        for writer in (one for one in faults.WRITERS if one.name in ("collect", "guard", "pull", "triage", "report")):
            (folder := tmp_path / writer.name).mkdir()
            writer.prepare(folder)
            assert not writer.act(folder)
            made = [folder / "run", *(folder / "run").rglob("*")] if writer.name != "report" else []
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) - 0o100 * path.is_dir() for path in made}
            assert set(modes.values()) <= {0o600} and (len(modes) > 3) == bool(made), (writer.name, modes)
    finally:
        os.umask(before)
        sys.path.remove(str(root / "tools"))
    assert stat.S_IMODE((tmp_path / "report/report.html").stat().st_mode) == 0o644
