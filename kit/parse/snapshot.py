"""What the snapshot parsers share: lines with their title, numbers as tools print them, samples, tools that failed.

A snapshot file is the output of one command or several, typed or looped: it may hold `$ command` lines, `==> path <==`
headers, `date` lines between samples, colour codes, CRLF ends, and an error message where output was hoped for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from kit.clock import NS
from kit.frames import FRAMES
from kit.intake import announce
from kit.parse.base import Report, Rows, Source
from kit.parse.records import ANSI, MONTHS, stamp_ns
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

PROMPT = re.compile("^" + announce.PROMPT)
HEADER = re.compile(r"^==> (?P<path>.+) <==\s*$")
PATH_PREFIX = re.compile(r"^(?P<path>/(?:proc|sys)/[\w./*-]+):(?P<rest>.*)$")
"""What `grep -H` writes before a line, and `ls` before a folder."""
LINE_CHARS = 8192
"""Longest line that is looked at. Longer ones stand in no table; a command line of ps may lose its end."""
UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
_TOO_LONG = re.compile(r"\d(?<!\d\d)\d{20,}(?!\d|:[0-9A-Fa-f]{4}\b)")
"""Longer than any count; an address of /proc/net/tcp6 may be 32 digits long, and its port follows."""
_SIZE = re.compile(r"^(\d+(?:[.,]\d+)?)\s*([BKMGTPE]?)(?:i?B?)$", re.IGNORECASE)
_CLOCK = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:[.,]\d+)?)$")
_DATE = re.compile(
    r"^[#=\-* ]*(?:\w{3} (?:(?P<mon>\w{3})\s+(?P<d>\d{1,2})|(?P<d3>\d{1,2}) (?P<mon3>\w{3}) (?P<y3>20\d\d)) "
    r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?: (?P<half>[AP]M))?(?: (?P<zone>[A-Z]{2,5}|[+-]\d\d))?(?: (?P<y>20\d\d))?"
    r"|(?P<y2>20\d\d)-(?P<m2>\d\d)-(?P<d2>\d\d)[T ]"
    r"(?P<H2>\d\d):(?P<M2>\d\d):(?P<S2>\d\d)(?:[.,](?P<f2>\d+))?\s?(?P<z2>Z|UTC|[+-]\d\d:?\d\d)?)[#=\-* ]*$"
)
_TIME_OF_DAY = re.compile(r"^[#=\-* ]*(?P<H>[0-2]\d):(?P<M>[0-5]\d):(?P<S>[0-5]\d)(?: (?P<half>[AP]M))?[#=\-* ]*$")
"""What `date +%T` prints, on a line of its own."""
_DAY_NS = 86_400 * NS
_FAILURES = [(error, re.compile(pattern)) for error, pattern in TOOL_WORDS["failures"]["any"].items()]
_TOOL = re.compile(r"^(?:\S+: line \d+: |-?(?:ba|da|z|k|a)?sh: (?:\d+: )?)?(?:/\S*/)?(?P<tool>[\w.+-]+):")


class Line(NamedTuple):
    """A line of a snapshot: its number, text without colour codes, the path or command above it, the date above it."""

    number: int
    text: str
    title: str | None
    time: int | None

    @property
    def at(self) -> Row:
        """The columns that every row of the line has."""
        return {"line": self.number, "time": self.time}


def titled(lines: Iterable[str], source: Source, report: Report) -> Iterator[Line]:
    """Clean the lines and tell each what it stands under; titles and `date` lines themselves are not given.

    Examples
    --------
    >>> [(line.title, line.text) for line in titled(["$ cat /proc/7/wchan", "ep_poll", "/proc/8/wchan:0"], Source("a"), Report())]
    [('cat /proc/7/wchan', 'ep_poll'), ('/proc/8/wchan', '0')]
    """
    title = time = None
    for number, line in enumerate(lines, 1):
        report.lines += 1
        if len(line) > LINE_CHARS:
            report.odd("line longer than 8 KiB, its rest was not read", line)
        if _TOO_LONG.search(line):
            report.odd("number of more than 20 digits", line)
            continue
        text = ANSI.sub("", line[:LINE_CHARS]).rstrip("\r\n ").replace("\r", " ")
        header, prompt, prefix = HEADER.match(text), PROMPT.match(text), PATH_PREFIX.match(text)
        stamp = date_of(text, source) if ":" in text and "20" in text else None
        if header:
            title = header["path"]
        elif prompt:
            title = prompt["command"]
        elif stamp is not None:
            time = stamp
        elif (clock := _TIME_OF_DAY.match(text)) and "date" in (title or "date"):
            time = _time_of_day(clock, source, time)
        elif prefix:
            title = prefix["path"]
            if prefix["rest"].strip():
                yield Line(number, prefix["rest"].lstrip(" "), title, time)
        else:
            yield Line(number, text, title, time)


def date_of(text: str, source: Source) -> int | None:
    """Read a line that is nothing but a date, as `date` prints it.

    Examples
    --------
    >>> date_of("Thu Jan  1 00:00:02 UTC 1970".replace("1970", "2026"), Source("a")) is not None
    True
    >>> date_of("2026-01-01 is no line of date", Source("a"))
    >>> evening = date_of("Thu 01 Jan 2026 11:20:04 PM UTC", Source("a"))
    >>> evening == date_of("Thu Jan  1 23:20:04 UTC 2026", Source("a")) == date_of("2026-01-01 23:20:04 UTC", Source("a"))
    True
    """
    found = _DATE.match(text)
    if not found:
        return None
    if found["H"]:
        year, month, day = (found[name] or found[f"{name}3"] for name in ("y", "mon", "d"))
        zone, number = "Z" if found["zone"] in ("UTC", "GMT") else None, MONTHS.get(month)
        clock = _hour(found), found["M"], found["S"]
        return stamp_ns(source, int(year), number, int(day), *clock, None, zone) if year and number else None
    return stamp_ns(
        source,
        int(found["y2"]),
        int(found["m2"]),
        int(found["d2"]),
        found["H2"],
        found["M2"],
        found["S2"],
        found["f2"],
        "Z" if found["z2"] == "UTC" else found["z2"],
    )


def _hour(clock: re.Match[str]) -> str:
    """The hour of a day of 24, where a clock of twelve says which half it means."""
    return str(int(clock["H"]) % 12 + 12 * (clock["half"] == "PM")) if clock["half"] else clock["H"]


def _time_of_day(clock: re.Match[str], source: Source, before: int | None) -> int | None:
    """Time of a line that holds only the time of the day: on the day of the one before, else of what is known of the capture."""
    near = before or source.near_ns or source.captured_ns
    if near is None:
        return None
    day = datetime.fromtimestamp(near // NS + source.offset_s, tz=UTC)
    found = stamp_ns(source, day.year, day.month, day.day, _hour(clock), *clock.group("M", "S"))
    return found + _DAY_NS if found is not None and before is not None and found < before else found


class Samples:
    """Rows of one file, numbered where the file holds several samples of the same thing.

    A row's key says what it is about. A key that comes again begins the next sample, and takes the rows of its table with
    it. Rows are held until `settle`, so this is for snapshots, not for logs.

    Examples
    --------
    >>> samples = Samples(Source("du.txt"))
    >>> for size in (1, 2):
    ...     samples.add("sizes", {"path": "/m", "size_bytes": size}, "/m")
    >>> [row["moment"] for _, row in samples.settle(Report())]
    [0, 1]
    """

    def __init__(self, source: Source):
        self.source = source
        self.rows: list[tuple[str, Row]] = []
        self.failed: list[Row] = []
        self.keys: list[object] = []
        self.numbers: list[int] = []
        self.seen: set[object] = set()
        self.number = self.start = 0

    def table(self) -> None:
        """Say that a header was met: the rows from here on were taken together."""
        self.start = len(self.rows)

    def add(self, frame: str, row: Row, key: object = None) -> None:
        """Take a row; without a key it belongs to the sample at hand."""
        mark = None if key is None else (frame, key)
        if mark is not None and mark in self.seen:
            if mark in self.keys[self.start :]:
                self.start = len(self.rows)
            self.number += 1
            self.seen = set(self.keys[self.start :])
            self.numbers[self.start :] = [self.number] * (len(self.rows) - self.start)
        self.rows.append((frame, row))
        self.keys.append(mark)
        self.numbers.append(self.number)
        self.seen.add(mark)

    def misread(self, line: Line, report: Report, tool: str, what: str, known: bool = False) -> None:
        """Take a line that is not looked for: of a tool that failed, of `known` words, or one that nobody understands."""
        if failed := failure(line, tool, self.source):
            self.failed.append(failed)
        elif not known and line.text.strip():
            report.odd(what, line.text)

    def settle(self, report: Report) -> Rows:
        """Give what tools failed, and the rows, each of a frame that has moments with its own."""
        yield from (("tool_errors", row) for row in self.failed)
        for (frame, row), number in zip(self.rows, self.numbers, strict=True):
            if FRAMES[frame].snapshot:
                row["moment"] = number if self.number and self.source.moment is None else self.source.moment
            report.records += 1
            yield frame, row


def command_words(title: str | None, *programs: str) -> list[str]:
    """Split a title into words, `sudo` and the like taken off; of several commands that of one of the programs.

    Examples
    --------
    >>> command_words("sudo timeout 5 ps -L -p 7"), command_words("date; ls -la /a; ps aux | wc -l", "ls")
    (['ps', '-L', '-p', '7'], ['ls', '-la', '/a'])
    """
    if programs:
        several = [command_words(part) for part in re.split(r";|&&|\|+", title or "")]
        return next((words for words in several if words[:1] and words[0].rsplit("/", 1)[-1] in programs), several[0])
    words = (title or "").split()
    while words and words[0] in ("sudo", "time", "watch", "timeout", "nice"):
        words = words[2:] if words[0] == "timeout" else words[1:]
    return words


def integer(text: str | None) -> int | None:
    """Read a whole number; None where it is none.

    Examples
    --------
    >>> integer("12"), integer("-")
    (12, None)
    """
    return int(text) if text and re.fullmatch(r"[+-]?\d{1,18}", text) else None


def number(text: str | None) -> float | None:
    """Read the number at the start of a text, whatever its unit; None where there is none.

    Examples
    --------
    >>> number("88.20 W"), number("99,9"), number("[N/A]")
    (88.2, 99.9, None)
    """
    found = re.match(r"\s*([+-]?\d+(?:[.,]\d+)?)", text or "")
    return float(found.group(1).replace(",", ".")) if found else None


def size_bytes(text: str | None, unit: int = 1) -> int | None:
    """Read a size as people print it; `unit` holds where the text names none.

    Examples
    --------
    >>> size_bytes("6.1M"), size_bytes("64Gi"), size_bytes("12", 1024), size_bytes("-")
    (6396313, 68719476736, 12288, None)
    """
    found = _SIZE.match((text or "").strip())
    if not found:
        return None
    value, suffix = found.groups()
    size = int(float(value.replace(",", ".")) * (UNITS[suffix.upper()] if suffix else unit))
    return size if size < 1 << 63 else None


def clock_s(text: str | None) -> float | None:
    """Read a duration as ps and top print it.

    Examples
    --------
    >>> clock_s("87:31"), clock_s("00:11:03"), clock_s("1-02:03:04"), clock_s("0:00.52"), clock_s("642")
    (5251.0, 663.0, 93784.0, 0.52, 642.0)
    """
    found = _CLOCK.match(text or "")
    if not found:
        return float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text or "") else None
    days, hours, minutes, seconds = (float((part or "0").replace(",", ".")) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def failure(line: Line, tool: str, source: Source) -> Row | None:
    """Make the row of `tool_errors` of a line that says that a tool failed; None for any other line.

    Examples
    --------
    >>> failure(Line(1, "bash: ss: command not found", None, None), "netstat", Source("ss.txt"))["error"]
    'not_found'
    >>> failure(Line(1, "LISTEN 0 128 0.0.0.0:22", None, None), "ss", Source("ss.txt"))
    """
    for error, pattern in _FAILURES:
        if pattern.search(line.text) and not line.text[:1].isspace():
            named = _TOOL.match(line.text)
            return {"tool": named["tool"] if named else tool, "error": error, "text": line.text, **line.at, "pid": source.pid}
    return None


def only_failures(head: str, tool: str = "") -> float:
    """Score of a head that holds nothing but messages of tools that failed: little, so that the file's name decides; more
    where they name the tool whose output was wanted.

    Examples
    --------
    >>> only_failures("$ dmesg\\ndmesg: read kernel buffer failed: Operation not permitted\\n")
    0.1
    >>> only_failures("bash: ss: command not found", "ss"), only_failures("a log")
    (0.6, 0.0)
    """
    first = _first_failure(head)
    if first is None:
        return 0.0
    return 0.6 if tool and re.search(rf"(?:^|[\s:/])(?:{tool}): ", first) else 0.1


@lru_cache(maxsize=4)  # seventy formats ask about the same head
def _first_failure(head: str) -> str | None:
    """First line of a head that holds nothing but messages of tools that failed."""
    lines = [ANSI.sub("", line).strip() for line in head.splitlines()[:20]]
    output = [line for line in lines if line and not PROMPT.match(line) and not HEADER.match(line)]
    return output[0] if output and all(any(pattern.search(line) for _, pattern in _FAILURES) for line in output) else None


HEAD_LINES = 400
"""Most lines of a head that any format looks at."""


def body_lines(head: str, most: int = 200) -> list[str]:
    """First lines of a head that are no title, no blank, no prompt: what scores are made of.

    Examples
    --------
    >>> body_lines("$ du -s /m\\n12\\t/m\\n")
    ['12\\t/m']
    """
    return [line.text for line in _body(head) if line.number <= most]


@lru_cache(maxsize=4)  # seventy formats ask about the same head
def _body(head: str) -> tuple[Line, ...]:
    return tuple(line for line in titled(head.splitlines()[:HEAD_LINES], Source(""), Report()) if line.text.strip())


def share(lines: list[str], pattern: re.Pattern[str]) -> float:
    """Part of the lines that a pattern matches, 0 where there are none.

    Examples
    --------
    >>> share(["a", "b"], re.compile("a"))
    0.5
    """
    return sum(1 for line in lines if pattern.match(line)) / len(lines) if lines else 0.0
