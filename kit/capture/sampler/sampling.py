"""The sampler on any host: started, read, watched, ended, and started anew where the connection was lost."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

from kit.capture.hosts.host import Host, HostLost, Stream
from kit.capture.manifest import Manifest
from kit.capture.sampler import shell as sampler_shell
from kit.capture.waiting import CLOCK, Clock
from kit.redact import scrub_argv
from kit.secret_environ import scrub_environ
from kit.tool_table import table

LATE = 2.5
"""A gap is noted where samples lie further apart than this many intervals."""
SILENT, SILENT_S, FIRST_SILENT_S = 3, 6.0, 30.0
"""A sampler that prints nothing for so many intervals, and so many seconds at least, is lost. Its first sample, of every
thread, may take longer: it has the lowest priority, and the host may be busy. So may all of them on this machine, where no
connection can be lost."""
NICE = 19
"""Nothing that the host does waits for a sampler."""
PATIENCE_S = 12.0
"""How long the sampler goes on without a sign of life from here; where the interval is longer, five of them."""
END_S = 10.0
"""How long the last lines may take. It has the lowest priority: on a host without a free core that may be long."""
RAW_WORDS = re.compile(rb',"(?:argv|environ)":.*', re.DOTALL)
"""Words of a command line or an environment that awk gives, which cannot scrub them: they never reach the disk."""
MOST_BYTES, LONGEST_LINE = 1 << 30, 16 << 20
"""A day of 2,000 threads takes some hundred MB; the longest line, a process with its environment and maps, below 1 MB."""
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a line that is JSON, but not a sampler's, gives rise to."""
BUSY = "the sampler was late: the host is busy or was suspended"


class Sampling:
    """Runs the sampler on a host, writes its lines to `raw/sampler.jsonl` as they come, and watches them.

    It runs in Python where the host has it, else in awk; one that prints nothing at all is followed by the other.

    `ended`: set once it printed its last line or its end was seen. `lost`: it ended without its last line: the connection is
    gone, or somebody killed it. `go_on` restarts it. `root_gone_ns`: when a root process was found gone or a zombie, UTC
    nanoseconds. `exit_status`: its exit status as wait() gives it, where a sample saw the zombie. `denied`: files of /proc that
    the sampler was refused. `received`: bytes that came over the connection.
    """

    def __init__(self, manifest: Manifest, parameters: dict[str, Any], host: Host, clock: Clock = CLOCK):
        self._manifest, self._host, self._clock = manifest, host, clock
        parameters = {"tools": [[tool.program, [tool.command, *tool.more]] for tool in table().sampled()], **parameters}
        interval_s = parameters["interval_s"]
        self._given = self._parameters = parameters
        self.ended, self.exit_status, self.denied = threading.Event(), None, []
        self.root_gone_ns: int | None = None
        self.lost, self.received = False, 0
        self._last: tuple[int, int, int] | None = None
        self._why = BUSY
        self._began, self._complete, self._sampled, self._stopping = time.monotonic(), False, False, False
        self._ways = self._possible_ways()
        self._rest = b""
        self._raw = manifest.open("sampler.jsonl", "sampler", f"sampler, every {interval_s:g} s", pid=parameters["roots"][0])
        self._begin()

    @property
    def root_gone(self) -> bool:
        """The launched process is gone."""
        return self.root_gone_ns is not None

    def _possible_ways(self) -> list[str]:
        abilities = self._host.abilities
        if not abilities.proc:
            return ["psutil"]
        return ["python"] * bool(abilities.python) + ["awk"] * self._host.has("awk")

    def _begin(self) -> None:
        """Start the first of the ways that are left, and a thread that reads it."""
        way = self._ways[0]
        given = self._given
        every = given["interval_s"]
        passed = math.ceil((time.monotonic() - self._began) / every) if self._last else 0
        first = max(passed, self._last[2] + 1) if self._last else 0
        patience_s = max(5 * every, self._clock.real(PATIENCE_S))
        parameters = {"patience_s": patience_s, "nice": NICE, **given, "first": first}
        self._parameters = parameters
        if way == "psutil":
            text = sampler_shell.portable_shell(parameters, sys.executable)
            self._raw.note("taken by psutil: there is no /proc here, so no system calls and no wait channels")
        elif way == "python":
            text = sampler_shell.python_shell(parameters | {"compress": True}, self._host.abilities.python)
        else:
            text = sampler_shell.awk_shell(parameters, self._host.abilities.programs["awk"])
            self._raw.note(f"taken by awk every {every:g} s: Python 3 is missing there or does not run")
        self._stream: Stream = self._host.start_shell(text)
        self._thread = threading.Thread(target=self._read, args=(way,), daemon=True, name="sampler")
        self._thread.start()

    def go_on(self) -> None:
        """Start it anew, after it was lost and the host was connected again. Moments count on, everything is said in full."""
        self._stream.stop()
        self._thread.join(END_S)
        self._ways, self.lost, self._sampled = self._possible_ways(), False, False
        self.ended.clear()
        self._begin()

    # reading: in a thread of its own

    def _read(self, way: str) -> None:
        try:
            lines = self._unpacked(way, self._pieces())
            for data in lines:
                if not self._write(data):
                    break
        except (HostLost, zlib.error) as error:
            self._why = f"the connection was lost: {getattr(error, 'why', error)}"
        if self._rest:
            self._raw.write(RAW_WORDS.sub(b"", self._rest) + b"\n")
            self._rest = b""
        if not self._complete and not self._sampled and not self._stopping and len(self._ways) > 1:
            self._stream.stop()
            self._why = BUSY
            del self._ways[0]
            try:
                self._begin()
                return
            except HostLost as error:
                self._why = f"the connection was lost: {error.why}"
        self.lost = not self._complete
        self.ended.set()

    def _pieces(self) -> Iterator[bytes]:
        """Output as it comes; sends signs of life meanwhile. HostLost where nothing comes for too long."""
        interval_s = self._parameters["interval_s"]
        beat_s = max(self._clock.real(1.0), interval_s)
        heard = beaten = time.monotonic()
        while True:
            try:
                data = self._stream.read(beat_s)
            except TimeoutError:
                data = None
            except (OSError, ValueError, KeyError):  # it was let go of while we read
                return
            now = time.monotonic()
            if data == b"":
                return
            if data:
                heard, self.received = now, self.received + len(data)
                yield data
            short = self._sampled and self._host.name != "local"
            patience_s = max(SILENT * interval_s, self._clock.real(SILENT_S) if short else FIRST_SILENT_S)
            if now - heard > patience_s:
                raise HostLost("the sampler is silent", f"nothing came for {patience_s:g} s", "look whether the host is up")
            if now - beaten >= beat_s and not self._stopping:
                self._stream.send(b"\n")
                beaten = now

    def _unpacked(self, way: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Plain lines."""
        if way != "python":
            return pieces
        return _decompressed(pieces)

    def _write(self, data: bytes) -> bool:
        """Write whole lines; what is not whole waits for its rest. False where no more may come."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        if self._raw.size + len(data) > MOST_BYTES or len(self._rest) > LONGEST_LINE:
            self._rest, self._why = b"", "the sampler printed too much and was ended"
            return False
        lines = [_scrubbed(line) for line in data[:end].splitlines(keepends=True)]
        if not self._raw.write(b"".join(lines)):
            return False
        for line in lines:
            marked = line.startswith((b'{"k":"sample"', b'{"k":"gone"', b'{"k":"end"', b'{"k":"done"'))
            if marked or b'"denied":' in line or b'"state":"Z"' in line:
                try:
                    self._watch(json.loads(line))
                except _MALFORMED:
                    continue  # whoever reads the file is told
        return True

    def _watch(self, entry: dict) -> None:
        if entry["k"] == "sample":
            mono_ns, wall_ns = entry["mono_ns"], entry["wall_ns"]
            late_ns = LATE * self._parameters["interval_s"] * 1e9
            apart_ns = max(mono_ns - self._last[0], wall_ns - self._last[1]) if self._last else 0
            if apart_ns > late_ns or self._why != BUSY:  # the first sample after a lost connection
                self._manifest.gap(self._last[1], wall_ns, self._why)
                self._why = BUSY
            self._last = (mono_ns, wall_ns, entry["n"])
        elif entry["k"] == "done":
            self._sampled = True
        elif entry["k"] == "gone" and entry["pid"] in self._parameters["roots"]:
            self._root_ended()
        elif entry["k"] == "end":
            self._complete = True
        elif entry["k"] == "proc":
            self.denied = sorted({*self.denied, *entry.get("denied", ())})
            if entry.get("state") == "Z" and entry["pid"] in self._parameters["roots"]:
                self.exit_status = entry.get("exit")
                self._root_ended()

    def _root_ended(self) -> None:
        if self.root_gone_ns is None:
            self.root_gone_ns = self._last[1] if self._last else self._manifest.now_ns()

    # the end

    def finish(self) -> None:
        """Ask it to end, take its last lines, end the capture."""
        self._stopping = True
        if not self.ended.is_set():
            try:
                self._stream.end_input()
            except (HostLost, OSError):
                pass  # it is gone
            self.ended.wait(END_S + (0 if self._ways[0] == "python" else self._parameters["interval_s"]))
        self.kill()
        self._thread.join(END_S)
        if not self._complete and not self._manifest.full.is_set():
            message = self._stream.errors.strip().split("\n")[-1] or self._why
            why = message if self.lost else "the sampler did not end by itself"
            self._manifest.lacks("the last samples", why, "record again")
            if self._last:
                self._manifest.gap(self._last[1], self._manifest.now_ns(), self._why)
        self._raw.close(whole=self._complete)

    def kill(self) -> None:
        """End it at once, where it still runs."""
        self._stopping = True
        self._stream.stop()


def _scrubbed(line: bytes) -> bytes:
    """A line of a sampler that cannot scrub itself, scrubbed."""
    if not RAW_WORDS.search(line):
        return line
    try:
        entry = json.loads(line.decode("utf-8", "replace"))
        if "argv" in entry:
            entry["cmd"] = scrub_argv(entry.pop("argv"))
        if "environ" in entry:
            entry["vars"] = scrub_environ(dict(word.partition("=")[::2] for word in entry.pop("environ") if "=" in word))
        return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    except _MALFORMED:
        return RAW_WORDS.sub(b"", line) + b"\n"


def _decompressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What pieces of a deflate stream unpack to, a MiB at a time."""
    stream = zlib.decompressobj(-15)
    for data in pieces:
        while data:
            yield stream.decompress(data, 1 << 20)
            data = stream.unconsumed_tail
