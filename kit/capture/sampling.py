"""The sampler as a program of its own: started, read, ended."""

from __future__ import annotations

import json
import signal
import threading
import time

from kit.capture import sampler_program
from kit.capture.host import Host, HostLost
from kit.capture.manifest import Manifest

LATE = 2.5
"""A gap is noted where samples lie further apart than this many intervals."""


class Sampling:
    """Feeds the sampler to an interpreter, writes its lines to `raw/sampler.jsonl` as they come, and watches them.

    Attributes
    ----------
    ended : threading.Event
        Set once it printed its last line or its end was seen.
    root_gone_ns : int or None
        When a root process was found gone or a zombie, UTC nanoseconds.
    exit_status : int or None
        Its exit status as wait() gives it, where a sample saw the zombie.
    denied : list of str
        Files of /proc that the sampler was refused.
    """

    def __init__(self, manifest: Manifest, parameters: dict, host: Host):
        self._manifest, self._parameters = manifest, parameters
        self.ended, self.root_gone_ns, self.exit_status, self.denied = threading.Event(), None, None, []
        self.lost = False
        self._last: tuple[int, int] | None = None
        self._complete = False
        self._raw = manifest.open(
            "sampler.jsonl", "sampler", f"sampler, every {parameters['interval_s']:g} s", pid=parameters["roots"][0]
        )
        given = f"import os\nos.environ['STALLKIT_SAMPLER'] = {json.dumps(parameters)!r}\n"
        self._stream = host.start_python(given + sampler_program())
        self._thread = threading.Thread(target=self._read, daemon=True, name="sampler")
        self._thread.start()

    @property
    def root_gone(self) -> bool:
        """The launched process is gone."""
        return self.root_gone_ns is not None

    def _read(self) -> None:
        pending = b""
        try:
            while piece := self._stream.read(3 * self._parameters["interval_s"] + 10):
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    self._take(line + b"\n")
        except (HostLost, OSError, ValueError):
            self.lost = not self._complete
        self._raw.write(pending)
        self.ended.set()

    def _take(self, line: bytes) -> None:
        self._raw.write(line)
        if (
            line.startswith((b'{"k":"sample"', b'{"k":"gone"', b'{"k":"end"')) or b'"denied":' in line or b'"state":"Z"' in line
        ):
            self._watch(json.loads(line))

    def _watch(self, entry: dict) -> None:
        if entry["k"] == "sample":
            now = (entry["mono_ns"], entry["wall_ns"])
            if self._last and now[0] - self._last[0] > LATE * self._parameters["interval_s"] * 1e9:
                self._manifest.gap(self._last[1], now[1], "the sampler was late: the host is busy or was suspended")
            self._last = now
        elif entry["k"] == "gone" and entry["pid"] in self._parameters["roots"]:
            self._root_ended()
        elif entry["k"] == "end":
            self._complete = True
        elif entry["k"] == "proc":
            self.denied = sorted({*self.denied, *entry.get("denied", ())})
            if entry["state"] == "Z" and entry["pid"] in self._parameters["roots"]:
                self.exit_status = entry.get("exit")
                self._root_ended()

    def _root_ended(self) -> None:
        if self.root_gone_ns is None:
            self.root_gone_ns = self._last[1] if self._last else time.time_ns()

    def finish(self) -> None:
        """Ask it to end, take its last lines, end the capture."""
        if hasattr(self._stream, "signal"):
            self._stream.signal(signal.SIGTERM)
        self._thread.join(3)
        message = self._stream.errors.strip().split("\n")[-1]
        self.kill()
        self._thread.join(3)
        if not self._complete and not self._manifest.full.is_set():
            self._manifest.lacks("the last samples", message or "the sampler did not end by itself", "record again")
        self._raw.close(whole=self._complete)

    def kill(self) -> None:
        """End it at once, where it still runs."""
        self._stream.stop()
