"""Record data/traces anew: compiles scenes.c and traces each scene with strace. `python record.py [NAME …]`"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = HERE.parents[3] / "data" / "traces"
FULL = ["-f", "-tt", "-T", "-y", "-yy"]
SCENES = {
    "deadlock": (FULL, 0.8),
    "quiet-deadlock": (["-f", "-Y", "-ttt", "-T"], 0.6),
    "ticker": (FULL, 3.1),
    "ticker-r": (["-f", "-r"], 3.1),
    "producer-died": (FULL, 0.7),
    "producer-died-bare": (["-f"], 0.7),
    "spin": (FULL, 1.2),
    "join": (FULL, 0.6),
    "join-k": (["-f", "-tt", "-T", "-k"], 0.6),
    "socket-pair": (FULL, 0.6),
    "socket-pair-bare": (["-f", "-tt"], 0.6),
    "loader": (FULL, 0.8),
    "unread": (FULL, 0.8),
    "launch-good": (FULL, 2.0),
    "launch-bad": (FULL, 1.0),
}
"""Options of strace by capture, and seconds after which the trace is ended as `timeout` would. What follows the scene's name is
its argument, or only tells captures apart."""


def record(name: str, options: list[str], seconds: float, program: Path) -> None:
    """Trace one scene in an empty folder, and end it."""
    scene, _, variant = name.partition("-") if name.startswith("launch") else (re.sub("-(r|k|bare)$", "", name), "", "")
    words = [scene, variant]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "srv"
        work.mkdir()
        for number in range(2):
            (work / f"shard-{number}.bin").write_bytes(b"\0" * 40_000 * (scene == "launch"))
        out = TRACES / f"{name}.strace"
        command = ["strace", "-I2", *options, "-o", str(out), str(program), *words]
        traced = subprocess.Popen(command, cwd=work, start_new_session=True, env={"PATH": "/usr/bin"})
        time.sleep(seconds)
        if traced.poll() is None:
            os.kill(traced.pid, signal.SIGTERM)  # it detaches, and notes the calls that had not returned
            traced.wait(5)
            os.killpg(traced.pid, signal.SIGKILL)
        text = out.read_text()
        for private, neutral in (
            (str(work.resolve()), "/srv/app"),
            (str(program), "/srv/app/scenes"),
            (socket.gethostname(), "host"),
        ):
            text = text.replace(private, neutral)
        out.write_text(text)
        print(f"{name}: {len(text):,} bytes")


def main(names: list[str]) -> None:
    """Record all scenes, or some."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "scenes"
        subprocess.run(["gcc", "-O1", "-w", "-pthread", "-o", str(program), str(HERE / "scenes.c")], check=True)
        for name in names or SCENES:
            record(name, *SCENES[name], program)


if __name__ == "__main__":
    main(sys.argv[1:])
