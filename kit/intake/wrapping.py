"""What stands before every line of a text (`kit/knowledge/wrappings.toml`): told by the first lines, and taken off."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import ceil
from pathlib import Path

from kit.intake.content import Spool, Text

COLOUR = rb"(?:\x1b\[[\d;]*m)*"
HEAD_LINES, LEAST_LINES, SAMPLE_BYTES = 400, 2, 65_536
RECORD = re.compile(
    rb"\[?20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d|\[\d\d/\d\d/20\d\d-|(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"
    rb"|\[\d\d:\d\d:\d\d\] "
    rb"|\(\w[^)]{0,200}pid=\d|\[?[IWEF]\d{3,4} \d\d:\d\d:|\[(?:[Rr]ank ?\d+|default\d+)\]|Traceback \(most|.{0,80}\d{1,3}%\|"
    rb"|[\w.-]+:\d+:\d+ (?:\[-?\d+\] )?NCCL |[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+ |\w+: (?:20\d\d|\d\d:)|srv |llama_|Loading "
)
"""How lines of a log begin."""
LEAST, LEAST_STAYING = 0.95, 0.8
"""Share of the first lines that have a wrapping, and one which stays: nothing is lost by it."""
FEW = 4
"""One that hardly differs from line to line has, without digits, at most one form for so many lines."""


@dataclass(frozen=True)
class Wrapping:
    """What stands before the lines; see the file for the keys."""

    name: str
    pattern: bytes
    stays: bool = False
    few: bool = False
    counts: int = 0
    least: float | None = None
    common: bool = False
    named: bytes = b""
    files: bool = False

    @property
    def who(self) -> re.Pattern[bytes] | None:
        """Who wrote a line, where the wrapping says so."""
        return re.compile(COLOUR + self.named) if self.named else None

    def off(self, block: bytes) -> bytes:
        """Whole lines without it."""
        kept = rb"\g<keep>" if b"(?P<keep>" in self.pattern else b""
        return re.sub(rb"(?m)^(?:" + self.pattern + rb")", kept, block)

    def _holds(self, lines: list[bytes]) -> bool:
        matching = re.compile((COLOUR if self.stays else b"") + rb"(?:" + self.pattern + rb")").match
        marks: list[bytes] = []
        spare = len(lines) - ceil((self.least or (LEAST_STAYING if self.stays else LEAST)) * len(lines))
        for number, line in enumerate(lines, 1):
            if found := matching(line):
                marks.append(found[0])
            elif number - len(marks) > spare:
                return False
        if self.few and len({re.sub(rb"\d+", b"", mark) for mark in marks}) > 1 + len(lines) // FEW:
            return False
        return not self.counts or _counts_up(marks, self.counts)


@cache
def _known() -> tuple[Wrapping, ...]:
    path = Path(__file__).parent.parent / "knowledge" / "wrappings.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["before"]
    return tuple(Wrapping(**{**one, **_patterns(one["pattern"].encode())}) for one in tables)


def _patterns(pattern: bytes) -> dict[str, bytes]:
    """The pattern of a wrapping, and the same with who wrote the line, which is no group where lines are only cut."""
    return {"pattern": pattern.replace(b"(?P<who>", b"(?:"), "named": pattern if b"(?P<who>" in pattern else b""}


def of(head: bytes) -> Wrapping | None:
    """The wrapping of a text, by its first lines.

    Examples
    --------
    >>> of(b"> one\\n> two\\n> three\\n").name, of(b"one\\ntwo\\nthree\\n")
    ('quote', None)
    """
    lines = [line for line in head.split(b"\n")[:HEAD_LINES] if line.strip()]
    found = next((one for one in _known() if one._holds(lines)), None) if len(lines) >= LEAST_LINES else None
    if found is None or not found.common:
        return found
    indents = [line[: len(line) - len(line.lstrip(b" \t"))].decode() for line in lines]
    return replace(found, pattern=re.escape(os.path.commonprefix(indents).encode()))  # all that the lines share


def samples(text: Text, pattern: bytes) -> Iterator[bytes]:
    """Lines of a text from its beginning, middle and end, without what a pattern says stands before them."""
    strip = re.compile(rb"(?m)^" + pattern)
    with text.data.open("rb") as file:
        for at in (0, text.size // 2, max(0, text.size - SAMPLE_BYTES)):
            file.seek(at)
            lines = file.read(SAMPLE_BYTES)
            yield strip.sub(b"", lines.partition(b"\n")[2] if at else lines)


def bared(text: Text, pattern: bytes) -> Text:
    """A text without what a pattern says stands before its lines."""
    strip = re.compile(rb"(?m)^" + pattern)
    spool = Spool(strip.sub(b"", block) for _, block in text.blocks())
    return replace(text, data=spool, size=spool.size)


def _counts_up(marks: list[bytes], step: int) -> bool:
    values = [int(re.search(rb"\d+", mark)[0][:18]) for mark in marks]
    rises = all(two > one for one, two in pairwise(values)) and values[-1] - values[0] <= step * (len(values) - 1)
    return rises and (step > 1 or len(values) > 2)


NUMBERED = re.compile(
    rb"[ \t]{0,8}(?:\[(?P<collector>\d{3,9})\] ?"
    rb"|(?P<grep>\d{1,9}):(?!\s)"
    rb"|(?P<editor>\d{1,9})(?:[ \t]*[|\xe2\x94\x82] ?|[ \t]{1,4})(?![ \t]*\d+[ \t]))"
)
"""A number that an editor, a viewer or a collector put before a line; a label of a rank has a blank behind its colon."""
LEAST_NUMBERED = 3


def unnumbered(data: bytes) -> bytes:
    """A text without numbers before stretches of its lines: they go up by one from line to line, before records of a log."""
    if len(re.findall(rb"(?m)^[ \t]{0,8}\[?\d+", data[:1_000_000])) < LEAST_NUMBERED:
        return data
    lines, at = data.split(b"\n"), 0
    marks = [NUMBERED.match(line) for line in lines]
    while at < len(lines):
        end = at + 1
        while marks[at] and end < len(lines) and _follows(marks[end - 1], marks[end]):
            end += 1
        bare = [line[mark.end() :] for line, mark in zip(lines[at:end], marks[at:end], strict=True) if mark]
        if len(bare) >= LEAST_NUMBERED and 2 * sum(1 for line in bare if RECORD.match(line)) >= len(bare):
            lines[at:end] = bare
        at = end
    return b"\n".join(lines)


def _follows(one: re.Match[bytes] | None, two: re.Match[bytes] | None) -> bool:
    """Whether the number before a line is the next one, written in the same way."""
    if not one or not two or one.lastgroup != two.lastgroup:
        return False
    step = int(two[two.lastgroup]) - int(one[one.lastgroup])
    return step == 1 or step > 1 and one.lastgroup == "grep"


_BULLET = re.compile(rb"[ \t]*(?:[-*+]|\xe2\x80\xa2) ")


def unlisted(data: bytes) -> bytes:
    """A text without the bullets before stretches of its lines, as a ticket shows a log: half of them begin as records do."""
    lines, at = data.split(b"\n"), 0
    marks = [_BULLET.match(line) for line in lines]
    while at < len(lines):
        end = at
        while end < len(lines) and marks[end]:
            end += 1
        bare = [line[mark.end() :] for line, mark in zip(lines[at:end], marks[at:end], strict=True) if mark]
        if len(bare) >= LEAST_NUMBERED and 2 * sum(1 for line in bare if RECORD.match(line)) >= len(bare):
            lines[at:end] = bare
        at = max(end, at + 1)
    return b"\n".join(lines)


_BOXED = re.compile(
    rb"[ \t]*(?:\xe2\x94\x82|\xe2\x95\x91|\|) ?(?P<inside>(?:.*?[^ \t])??)[ \t]*(?:\xe2\x94\x82|\xe2\x95\x91|\|)[ \t]*$"
)
_BORDER = re.compile(
    rb"[ \t]*(?:[+-]{4,}|(?:\xe2[\x94-\x95][\x80-\xbf])+(?: [^\n]{1,60}? (?:\xe2[\x94-\x95][\x80-\xbf])*)?)[ \t]*$"
)


def unboxed(data: bytes) -> bytes:
    """A text without the boxes that a viewer or a panel draws around stretches of a log; their borders become empty lines."""
    lines, at = data.split(b"\n"), 0
    boxed = [_BOXED.match(line) if line.lstrip()[:1] in (b"|", b"\xe2") else None for line in lines]
    while at < len(lines):
        end = at
        while end < len(lines) and boxed[end]:
            end += 1
        inside = [found["inside"] for found in boxed[at:end] if found]
        if len(inside) >= LEAST_NUMBERED and 2 * sum(1 for line in inside if RECORD.match(line)) >= len(inside):
            lines[at:end] = inside
            for border in (at - 1, end):
                if 0 <= border < len(lines) and _BORDER.match(lines[border]):
                    lines[border] = b""
        at = max(end, at + 1)
    return b"\n".join(lines)
