"""Small launches to look at: they print as vLLM does, and stand, move or serve."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from kit.capture.waiting import Clock

QUICK_KIT = [
    sys.executable,
    "-c",
    "import sys; from kit.capture.sampler import sampling; sampling.NICE = 0; sampling.CLOCK.speed = 3; "
    "from kit.cli import main; sys.exit(main())",
]
"""The command line, whose own waits pass three times as fast, and whose sampler has a turn on a busy machine too."""


class OwnTime(Clock):
    """Passes for each thread only while it waits: what its work takes on a busy machine uses up no time limit."""

    def __init__(self, speed: float = 3.0):
        super().__init__(speed)
        self._waited = threading.local()

    def monotonic(self) -> float:
        return getattr(self._waited, "seconds", 0.0)

    def _add(self, seconds: float) -> None:
        self._waited.seconds = self.monotonic() + max(0.0, seconds)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._add(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        happened = super().wait(event, seconds)
        self._add(seconds)
        return happened


SECRET = "hf_" + "Zq3RkT9wLmX2cVb7NpYd4sHgJf6aE1uQoK"

TICKER = """
import os, time
def pipe_ticker():
    reader, writer = os.pipe()
    while True:
        os.write(writer, b"x"); os.read(reader, 1); time.sleep(1)
pipe_ticker()
"""
"""Rank 0 writes one byte to a pipe once a second."""
BARRIER = """
import threading
def barrier():
    threading.Event().wait()
barrier()
"""
"""Rank 1 waits for it."""
STALLS = f"""
import os, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
def say(text):
    print(f"INFO {{time.strftime('%m-%d %H:%M:%S')}} {{text}}", flush=True)
say("[arg_utils.py:1] tensor_parallel_size=2 --hf-token {SECRET}")
files = ("launch_plugin.py", "torch/distributed/distributed_c10d.py")
ranks = [subprocess.Popen([sys.executable, os.path.join(here, file), f"VLLM::Worker_TP{{n}}"]) for n, file in enumerate(files)]
for n, process in enumerate(ranks):
    print(f"(Worker_TP{{n}} pid={{process.pid}}) INFO {{time.strftime('%m-%d %H:%M:%S')}} [gpu_model_runner.py:3100] "
          "Starting to load model tiny...", flush=True)
print("something on standard error", file=sys.stderr, flush=True)
for process in ranks:
    process.wait()
"""
MOVES = """
import os, sys, time
n, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not os.path.exists(sys.argv[2]):
    print(f"INFO {time.strftime('%m-%d %H:%M:%S')} [loader.py:1] layer {n} is there", flush=True)
    n += 1
    time.sleep(0.04)
"""
"""Prints for so many seconds, or until a file is there: often, so that no silence is between two judgements on a busy machine."""
SERVES = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"object":"list","data":[{"id":"tiny"}]}' if self.path == "/v1/models" else b"ok"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print("INFO:     Application startup complete.", flush=True)
server.serve_forever()
"""


def stalling(folder: Path) -> list[str]:
    """Command of a launch of two ranks, of which one ticks and the other waits in a barrier."""
    (folder / "torch" / "distributed").mkdir(parents=True)
    (folder / "launch_plugin.py").write_text(TICKER)
    (folder / "torch" / "distributed" / "distributed_c10d.py").write_text(BARRIER)
    (folder / "launch.py").write_text(STALLS)
    return [sys.executable, str(folder / "launch.py")]
