"""What `make` starts for a person: JupyterLab, under root too."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.sshd import free_port, wait_for

START_S = 300.0
"""JupyterLab needs two seconds on an idle machine."""


@pytest.mark.needs_tool("make")
def test_lab_prints_an_address_that_answers(root: Path, tmp_path: Path) -> None:
    """`-o` keeps make from setting up the environment that the test runs in."""
    port = free_port()
    command = ["make", "-o", ".venv/.ready", "lab", f"BIN={Path(sys.executable).parent}", f"ARGS=--no-browser --port={port}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG_", "MAKE"))}
    output = tmp_path / "output"
    with open(output, "wb") as file:
        make = subprocess.Popen(command, cwd=root, env={**environ, "HOME": str(tmp_path)}, stdout=file, stderr=file)
    started = psutil.Process(make.pid)
    try:
        address = wait_for_address(make, output, port)
        with urllib.request.urlopen(f"{address['root']}/api/status?token={address['token']}", timeout=START_S) as answer:
            assert "kernels" in json.load(answer)
        with urllib.request.urlopen(f"{address['root']}/api", timeout=START_S) as answer:
            assert json.load(answer)["version"]
    finally:
        for process in [*started.children(recursive=True), started]:
            process.terminate()
        make.wait(START_S)


def wait_for_address(make: subprocess.Popen, output: Path, port: int) -> re.Match[str]:
    """The line with address and token, once it stands in the output and the port is open (which comes later)."""
    pattern = re.compile(rf"(?P<root>http://127\.0\.0\.1:{port})/lab\?token=(?P<token>[0-9a-f]+)")
    wait_for(lambda: pattern.search(output.read_text()) or make.poll() is not None, START_S)
    address = pattern.search(output.read_text())
    assert address, output.read_text()
    assert wait_for(lambda: is_open(port), START_S)
    return address


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
