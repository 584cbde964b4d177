"""What the tests of live launches share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def quiet_kernel_log(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel log that tells of nothing, whatever this machine's own holds: a `dmesg` of ours is first on the path."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "dmesg").write_text("#!/bin/sh\necho '[    0.000000] Linux version 6.1.0'\n")
    (folder / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder
