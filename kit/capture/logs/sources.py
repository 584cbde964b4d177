"""Logs that a command prints: `docker logs`, `journalctl -u`, `kubectl logs`, followed and resumed like a file."""

from __future__ import annotations

import math
import re
import secrets
import shlex
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kit.capture.hosts.host import Host, HostLost, Ran, Stream
from kit.capture.logs.follow import END_S, MOST_BYTES
from kit.capture.logs.scrub import LONGEST_LINE, Scrubber, scrub_bytes
from kit.capture.manifest import Manifest, RawFile
from kit.capture.waiting import CLOCK, Clock
from kit.clock import NS, parse_time
from kit.errors import UsageError

POLL_S = 0.5
AGAIN_S = 2.0
"""Time before a command that ended is started again: a container restarts, `kubectl logs -f` ends when a node rotates the log."""
FIRST_LINE_S = 5.0
"""A command may take so long to print its first line, at the end of a recording too."""
OVERLAP_NS = NS
"""A resumed command begins so much before the last line, for its streams are not in order to the nanosecond."""
MOST_HELD_BYTES = 4 << 20
"""Lines before the first stamp wait, for a command that fails prints some: so much is a log without stamps."""
LINES_KEPT = 20_000
"""By these the lines of the overlap are known again."""
PREVIOUS_S = 60.0
_SOURCE = re.compile(r"(docker|journal|kubectl):(.+)\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\Z")
_LINES = re.compile(rb"[^\n]*\n")
_STAMP = re.compile(rb"(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:?\d\d) ")


@dataclass(frozen=True)
class TextSource:
    """A command that prints a log with stamps."""

    kind: str
    name: str
    namespace: str | None = None
    container: str | None = None

    @property
    def program(self) -> str:
        """Program that the host must have."""
        return {"journal": "journalctl"}.get(self.kind, self.kind)

    @property
    def file(self) -> str:
        """Name of the copy."""
        words = [self.kind, self.namespace, self.name, self.container]
        return re.sub(r"[^\w.@-]", "_", "-".join(word for word in words if word)) + ".log"

    def command(self, since_ns: int | None = None, follow: bool = True, previous: bool = False) -> list[str]:
        """Words of the command: from the begin or from a time, to the end or on and on.

        Examples
        --------
        >>> " ".join(parse_source("docker:vllm").command(1_771_380_712_000_000_000))
        'docker logs --timestamps -f --since 2026-02-18T02:11:52Z vllm'
        >>> " ".join(parse_source("journal:vllm.service").command())
        'journalctl -q --no-pager -o short-iso-precise -u vllm.service -n all -f -b'
        >>> " ".join(parse_source("kubectl:prod/llm-0:main").command(follow=False, previous=True))
        'kubectl logs --timestamps --previous -n prod llm-0 -c main'
        """
        since = f"{datetime.fromtimestamp(since_ns // NS, UTC):%Y-%m-%dT%H:%M:%SZ}" if since_ns is not None else None
        follows = ["-f"] if follow else []
        if self.kind == "docker":
            return ["docker", "logs", "--timestamps", *follows, *(["--since", since] if since else []), self.name]
        if self.kind == "journal":
            begin = ["--since", f"@{since_ns // NS}"] if since_ns is not None else ["-b"]
            return [*"journalctl -q --no-pager -o short-iso-precise -u".split(), self.name, "-n", "all", *follows, *begin]
        return [
            *["kubectl", "logs", "--timestamps", *follows],
            *(["--since-time", since] if since else []),
            *(["--previous"] if previous else []),
            *(["-n", self.namespace] if self.namespace else []),
            self.name,
            *(["-c", self.container] if self.container else []),
        ]


def parse_source(text: str) -> TextSource | None:
    """Read `docker:NAME`, `journal:UNIT` or `kubectl:[NS/]POD[:C]`; None where it is a path.

    Examples
    --------
    >>> parse_source("kubectl:prod/llm-0:main")
    TextSource(kind='kubectl', name='llm-0', namespace='prod', container='main')
    >>> parse_source("/var/log/vllm.log") is None
    True
    """
    found = _SOURCE.match(text)
    if not found:
        return None
    kind, name, namespace, container = found[1], found[2], None, None
    if kind == "kubectl":
        head, slash, name = name.rpartition("/")
        namespace = head if slash else None
        name, colon, last = name.partition(":")
        container = last if colon else None
    for word in (name, namespace, container):
        if word is not None and not _NAME.match(word):
            raise UsageError(
                f"invalid log source {text}",
                f"{word!r} is not the name of a container, unit or pod",
                "write: --log docker:NAME, --log journal:UNIT or --log kubectl:[NAMESPACE/]POD[:CONTAINER]",
            )
    return TextSource(kind, name, namespace, container)


def watched_script(command: Sequence[str], mark: str) -> str:
    """Shell text that runs a command until our side is gone, and prints a mark with its exit code at its end.

    The shell's input stays open as long as the connection lives; a subshell waits for its end and ends the command then.
    """
    half = len(mark) // 2
    return (
        "{ exec 3<&0\n"
        f"{shlex.join(command)} </dev/null 2>&1 3<&- & p=$!\n"
        "{ while read -r _; do :; done; kill $p; sleep 2; kill -9 $p; } <&3 >/dev/null 2>&1 & w=$!\n"
        "exec 3<&-; wait $p; c=$?; kill $w 2>/dev/null\n"
        f"printf '%s%s %s\\n' '{mark[:half]}' '{mark[half:]}' $c; exit; }}\n"
    )


class Overlap:
    r"""Tells which lines of a resumed command were seen before its break.

    Examples
    --------
    >>> overlap = Overlap()
    >>> overlap.saw([b"2026-02-18T02:11:52.1Z a\n", b"2026-02-18T02:11:52.2Z b\n"])
    >>> overlap.begin() == stamp_of(b"2026-02-18T02:11:52.2Z b\n") - OVERLAP_NS
    True
    >>> overlap.new([b"2026-02-18T02:11:52.1Z a\n", b"2026-02-18T02:11:52.2Z b\n", b"2026-02-18T02:11:52.2Z c\n"])
    [b'2026-02-18T02:11:52.2Z c\n']
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=LINES_KEPT)
        self._known: Counter[bytes] = Counter()
        self._oldest_ns, self._last_ns = 0, -1
        self._dropping = False

    def saw(self, lines: list[bytes]) -> None:
        """Keep the lines that were written."""
        self._lines.extend(lines)

    def begin(self) -> int | None:
        """The command starts again: from when it must print, UTC nanoseconds; None from its begin."""
        self._known, self._dropping = Counter(self._lines), False
        stamps = [stamp for line in self._lines if (stamp := stamp_of(line)) is not None]
        if not stamps:
            return None
        self._last_ns = max(stamps)
        self._oldest_ns = stamps[0] if len(self._lines) == LINES_KEPT else 0
        return self._last_ns - OVERLAP_NS

    def new(self, lines: list[bytes]) -> list[bytes]:
        """Those of the lines that were not seen. A line without stamp goes the way of the line before it."""
        found = []
        for number, line in enumerate(lines if self._known else []):
            stamp = stamp_of(line)
            if stamp is not None and stamp > self._last_ns:  # a log is printed in the same order each time: the rest is new
                self._known.clear()
                return found + lines[number:]
            if stamp is not None:
                self._dropping = stamp < self._oldest_ns or self._known[line] > 0
            self._known[line] -= self._known[line] > 0
            if not self._dropping:
                found.append(line)
        return found if self._known else lines


def stamp_of(line: bytes) -> int | None:
    r"""Stamp at the begin of a line, UTC nanoseconds.

    Examples
    --------
    >>> stamp_of(b"2026-02-18T02:11:52.5Z Loading\n"), stamp_of(b"  continued\n")
    (1771380712500000000, None)
    """
    found = _STAMP.match(line)
    return parse_time(b"".join((found[1], b" ", found[2], found[3])).decode())[0] if found else None


class SourceFollower(threading.Thread):
    """Copies the log that a command prints, from its begin until `finish`.

    Where the command ends it is started again, and where the connection is lost as soon as the host answers: from a second
    before the last line, and lines that are known are left out. A connection that is silently dead is not noticed here, for
    a log may be silent too; `Host.connect` ends the old one.
    """

    def __init__(self, manifest: Manifest, host: Host, source: TextSource, since_ns: int | None = None, clock: Clock = CLOCK):
        super().__init__(daemon=True, name=f"follow {source.file}")
        self._clock = clock
        self.path, self.name_of_copy, self.lost = shlex.join(source.command()), source.file, False
        self._manifest, self._host, self._source, self._since_ns = manifest, host, source, since_ns
        self._stop_asked, self._scrubber, self._overlap = threading.Event(), Scrubber(), Overlap()
        self._said: set[str] = set()
        self._whole, self._end_by = True, math.inf
        self.raw: RawFile = manifest.open(source.file, "log", self.path)

    def run(self) -> None:
        self._attempt(self._save_previous)
        while not self._manifest.full.is_set():
            self._attempt(self._follow)
            if self._stop_asked.is_set():
                return
            self._clock.wait(self._stop_asked, AGAIN_S)

    def finish(self) -> None:
        """Copy what has come and end the capture."""
        self._end_by = time.monotonic() + END_S
        self._stop_asked.set()
        if self.is_alive():
            self.join(END_S + FIRST_LINE_S)
        if self.is_alive():
            self._too_much("the host does not answer")
        if self.lost:
            self._whole = False
            self.raw.note("the connection to the host was lost: the rest is missing")
        self.raw.write(self._scrubber.rest())
        if self.raw.size == 0:
            said = "; ".join(sorted(self._said)) or "it printed nothing"
            self._manifest.lacks(f"what {self.path} prints", said, "run it by hand on the host")
        self.raw.close(self._whole)

    def _attempt(self, act) -> None:
        try:
            act()
        except HostLost:
            self.lost = True

    def _save_previous(self) -> None:
        """The instance before, whose end is often the reason for this one."""
        if self._source.kind != "kubectl":
            return
        command = self._source.command(self._since_ns, follow=False, previous=True)
        ran: Ran = self._host.run(command, PREVIOUS_S)
        if ran.code == 0 and ran.text:
            name = self._source.file.removesuffix(".log") + ".previous.log"
            self._manifest.save(name, "log", shlex.join(command), ran.text, note="the instance before a restart")

    def _follow(self) -> None:
        since_ns = self._overlap.begin()
        if since_ns is not None and self._source.kind == "kubectl":
            before = self.raw.size
            self._print(self._source.command(since_ns, follow=False, previous=True))
            if self.raw.size > before:
                self.raw.note("the container restarted: what its instance before printed last comes from kubectl logs --previous")
            since_ns = self._overlap.begin()
        if self.lost:
            self.raw.note("the connection was lost; the command was started again a second before its last line")
        self._print(self._source.command(self._since_ns if since_ns is None else since_ns))

    def _print(self, command: list[str]) -> None:
        """Run the command to its end or to ours, and write the lines that are new."""
        mark = secrets.token_hex(16)
        stream = self._host.start_shell(watched_script(command, mark))
        try:
            self._read(stream, re.compile(mark.encode() + rb" (\d+)\n"))
        finally:
            stream.stop()

    def _read(self, stream: Stream, mark: re.Pattern[bytes]) -> None:
        rest, held, stamped, began = b"", [], False, self._clock.monotonic()
        while not (end := mark.search(rest)):
            try:
                piece = stream.read(self._clock.real(POLL_S))
            except TimeoutError:
                if self._stop_asked.is_set() and (stamped or self._clock.monotonic() - began > FIRST_LINE_S):
                    return self._write([rest] if stamped and rest else [])
                continue
            if time.monotonic() > self._end_by:  # it never stops to print
                return self._too_much("the recording ended before it did")
            if not piece:
                raise HostLost(f"{self._host.name} was lost", "the output ended without its end mark", "connect again")
            self.lost = False
            whole, newline, rest = (rest + piece).rpartition(b"\n") if not mark.search(rest + piece) else (b"", b"", rest + piece)
            held += _LINES.findall(whole + newline)
            stamped = stamped or any(stamp_of(line) is not None for line in held)
            if stamped:
                self._write(held)
                held = []
            if len(rest) > LONGEST_LINE or sum(map(len, held)) > MOST_HELD_BYTES:
                held, rest, stamped = [*held, rest + b"\n"], b"", True
                self._write(held)
                held = []
            if self.raw.size > MOST_BYTES:
                return self._too_much(f"it is above {MOST_BYTES:,} bytes")
        held += [line.rstrip(b"\n") + b"\n" for line in rest[: end.start()].split(b"\n") if line]
        if end[1] == b"0" or stamped or any(stamp_of(line) is not None for line in held):
            self._write(held)
        else:
            self._say(held)

    def _write(self, lines: list[bytes]) -> None:
        lines = self._overlap.new(lines)
        self._overlap.saw(lines)
        self.raw.write(self._scrubber.take(b"".join(lines)))

    def _say(self, lines: list[bytes]) -> None:
        """What a command that failed says: into the note, once."""
        said = scrub_bytes(lines[-1]).decode("utf-8", "replace").strip() if lines else "it failed and said nothing"
        if said not in self._said and "previous terminated container" not in said:
            self._said.add(said)
            self.raw.note(said)

    def _too_much(self, why: str) -> None:
        self._whole = False
        self.raw.note(f"stopped after {self.raw.size:,} bytes")
        self._manifest.lacks(f"the rest of {self.path}", why, "fetch its end: --tail, --since")
        self._stop_asked.set()
