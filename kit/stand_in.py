"""A stand-in for a launch: a program that prints as vLLM does and then waits, to try the live verbs on."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = """
import sys, time
def say(text):
    print(f"INFO {time.strftime('%m-%d %H:%M:%S')} [default_loader.py:1] {text}", flush=True)
say("vLLM API server version 0.11.0")
say("Starting to load model tiny-llama...")
for shard in (1, 2):
    print(f"Loading safetensors checkpoint shards: {shard * 50}% Completed | {shard}/2 [00:0{shard}<00:00, 1.00it/s]", flush=True)
if "--end" not in sys.argv:
    time.sleep(600)
"""
COMMAND = [sys.executable, "-c", PROGRAM]
"""Its command line; with `--end` it ends at once. Without, after ten minutes by itself."""


class StandIn:
    """A stand-in that runs until `end`. Make it with `start`."""

    def __init__(self) -> None:
        self.log = Path(tempfile.mkdtemp(prefix="stallkit-")) / "server.log"
        with open(self.log, "wb") as file:
            self._process = subprocess.Popen(COMMAND, stdout=file, stderr=subprocess.STDOUT)

    @property
    def where(self) -> dict[str, Any]:
        """What names it to `kit.watch` and `kit.collect`."""
        return {"pid": self._process.pid, "log": str(self.log)}

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def start() -> StandIn:
    """Start a stand-in.

    Examples
    --------
    >>> running = start()
    >>> sorted(running.where)
    ['log', 'pid']
    >>> running.end()
    """
    return StandIn()
