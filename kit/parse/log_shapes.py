"""Shapes of a log's lines: what is left without numbers, and when that is enough to know what a line means.

A line's shape is what is left of it without digits and the letters a to f. `Judge` says of a shape whether its lines move
nothing, whatever their numbers are; `kit.parse.log_fast` counts those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kit.parse import grammar
from kit.parse.base import Source
from kit.parse.log import BAR_SIGNS, WRITER_RANK
from kit.parse.records import pieces
from kit.parse.tracebacks import TRACEBACK
from kit.schema import Row

DROPPED = b"0123456789abcdef"
_STAMP = re.compile(
    rb"((?:(?<!\d)(?<!\d[/-])\d+(?:[/-]+\d+)*[ T-]+)?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|(?<!\d)(?<!\d\.)\d+(?:\.\d+)*\.\d{3,})"
)
_NUMBERS = (re.compile(r"(?!0x)(?:(?<![A-Za-z])\d|\d(?![A-Za-z]))"), re.compile(r"(?!0x)(?:(?<![A-Za-z])\d+|\d+(?![A-Za-z]))"))
"""Digits of numbers, one by one and together; those of names such as P2P and of 0x stay."""
LATEST = {"nccl_op": b" comm "}
"""Milestones of which the last of each writer counts, and what stands before the thing that they are about."""
_ZERO = re.compile(rb"(?<![\w.])0(?:\.0+)?(?![\w.])")
_FINE = re.compile(r'(?!0x)(?<!HTTP/1\.[01]" )(?:(?<![A-Za-z])[0-9]|[0-9](?![A-Za-z]))')
"""The first digit of a status and numbers that are zero: where what a line means depends on digits, it is on these."""
_GLUED = ("[20-20-20 20:20:20", " pid=", " 20-20 20:20:20 ")
_TELLING = (*BAR_SIGNS, "Download: [", TRACEBACK, "Error", "Exception", "Interrupt", "Exit", "Timeout", "Failure", "what():")
"""Texts that make a record a bar or an error, whatever the grammars say."""
_SPLITTING = (*BAR_SIGNS, "Download: [", "[20", " pid=", "INFO ", "WARNING ", "ERROR ")
"""Texts that make a record a bar, or two records."""
MOST_BEFORE, MOST_STAMPS = 16, 4
MOVING = ("progress", "ready", "request")
"""Kinds that count as progress."""


def shape_of(text: bytes) -> bytes:
    """What is left of lines without digits and the letters a to f.

    Examples
    --------
    >>> shape_of(b"comm 0x55d5f0a0 rank 12 nranks 64") == shape_of(b"comm 0x7fae10 rank 3 nranks 64")
    True
    """
    return text.translate(None, DROPPED)


def fine_shape_of(line: bytes, shape: bytes) -> bytes:
    """A shape that tells statuses by their first digit, in other lines numbers that are zero from others.

    Examples
    --------
    >>> lines = [b'"GET / HTTP/1.1" 200 OK', b'"GET / HTTP/1.1" 204 OK', b'"GET / HTTP/1.1" 404 OK', b"0 reqs", b"7 reqs"]
    >>> fine = [fine_shape_of(line, shape_of(line)) for line in lines]
    >>> fine[0] == fine[1], fine[0] == fine[2], fine[3] == fine[4]
    (True, False, False)
    """
    at = line.rfind(b"HTTP/1.")
    if at < 0:
        return b"\0" + shape_of(_ZERO.sub(b"\2", line))
    return b"\0" + line[at + 10 : at + 11] + shape


@dataclass(frozen=True)
class Head:
    """What stands before the messages of some shapes."""

    expression: bytes  # regular expression for it; every other group is a stamp
    kept: int  # how many of its bytes are in its shape
    spans: tuple[tuple[int, int], ...]  # for each stamp how many such bytes stand before it, and before what follows it

    def take(self, line: bytes) -> tuple[tuple, tuple]:
        """What a line has of it: what tells the writer, and the stamps."""
        found = re.match(self.expression, line)
        groups = found.groups() if found else (line,)
        return groups[::2], groups[1::2]


@dataclass(slots=True, eq=False)
class Shape:
    """A shape whose lines are counted. `head` where the writer or the time of each line matters, `named` where a process
    is named, `about` what stands before the thing that a line is about, where the last about each is wanted."""

    row: Row
    named: bool
    head: Head | None
    about: bytes | None = None
    count: int = 0

    @property
    def moving(self) -> bool:
        """Whether its records are progress."""
        return self.row["kind"] in MOVING and self.row["milestone"] != "probe_request"


Name = tuple[str, bytes | int]
"""What lines of a shape are looked up by: coarse, fine or begin, and what engines know it by."""
Told = tuple[int, bytes, Shape]
"""A counted line: number, text, shape."""


class Judge:
    """What the grammars of one log say about shapes."""

    def __init__(self, matcher: grammar.Matcher, source: Source):
        self.matcher, self.source = matcher, source
        self.warnings = matcher.prefixes.warnings
        self.signs = [(shape_of(sign.encode()).decode(), sign) for sign in _TELLING]
        self.signs += [(shape_of(part.encode()).decode(), part) for part, _ in matcher.entries if part]
        self.glued = [shape_of(sign.encode()).decode() for sign in _GLUED]

    def beginning(self, line: bytes, row: Row, stage: str) -> tuple[bytes, list[bytes], Shape] | None:
        """How a line begins whose kind is the same whatever follows; None where there is no such begin.

        A milestone's text stands first in the message, and no entry that is tried before it can hold, and nothing in the rest
        makes it a bar, a traceback or two records: the signs of those are handed back with the begin.
        """
        code = row["milestone"]
        before: list[bytes] = []
        for part, milestone in self.matcher.entries:
            if milestone.code == code and part and row["text"].startswith(part) and milestone.opens_with(part):
                break
            before.append(part.encode())
        else:
            return None
        found = self.matcher.match(row["text"], stage)
        if (
            found is None
            or found[0] is not milestone
            or any(len(part) < 2 for part in before)
            or not _idle(milestone, stage)
            or len(before) > MOST_BEFORE
        ):
            return None
        at = line.find(part.encode())
        shape = self.harmless(line[: at + len(part)].decode("utf-8", "replace") + "x", row, stage) if at >= 0 else None
        signs = [*before, *(sign.encode() for sign in (*_SPLITTING, TRACEBACK)), b"\r"]
        return None if shape is None else (line[: at + len(part)], signs, shape)

    def harmless(self, line: str, row: Row, stage: str, fine: bool = False) -> Shape | None:
        """The shape of a line that moves nothing, None where its lines have to be read."""
        piece = next(pieces(line))
        prefix, text = self.matcher.prefixes.peel(piece, self.source)
        bare = shape_of(text.encode()).decode("utf-8", "replace")
        if (
            row["kind"] == "error"
            or row.get("bar_kind")
            or not piece.endswith(text)
            or "\r" in line.rstrip("\r")
            or prefix.rank_label is not None
            and not self._led(prefix, piece, text)
            or any(sign in bare for sign in self.glued)
            or any(sign in bare and full not in text for sign, full in self.signs)
        ):
            return None
        if not self._same_for_all_digits(text.strip(), row["milestone"], stage, fine):
            return None
        before = piece[: len(piece) - len(text)].encode()
        writer = prefix.process is not None or prefix.rank_label is not None or prefix.rank is not None
        stamped = prefix.stamp is not None
        about = LATEST.get(row["milestone"] or "")
        head = _head(before) if writer or stamped else None
        if (writer or stamped) and (head is None or about is not None):
            return None
        return Shape(dict(row), prefix.pid is not None, head, about)

    def _led(self, prefix: Any, piece: str, text: str) -> bool:
        """Whether the rank stands before the message, not in it (as TGI and c10d print it)."""
        led, _ = self.matcher.prefixes.peel(piece[: len(piece) - len(text)] + "x", self.source)
        return led.rank_label == prefix.rank_label

    def _same_for_all_digits(self, text: str, code: str | None, stage: str, fine: bool) -> bool:
        """Whether a record is the same milestone, one that moves nothing, whatever its numbers are; or whatever those are that a
        fine shape leaves open."""
        for digit in "123456789" if fine and "HTTP/1." not in text else "0123456789":
            for pattern in (_FINE,) if fine else _NUMBERS:
                found = self.matcher.match(pattern.sub(digit, text), stage)
                if (found is None or found[0].code != code) if code not in (None, *self.warnings) else found is not None:
                    return False
                if found is not None and not _idle(found[0], stage):
                    return False
        return True


def _head(before: bytes) -> Head | None:
    """What stands before a message; None where its parts cannot be told by the bytes of its shape."""
    found = [stamp for stamp in _STAMP.finditer(before)]
    around = b"".join(before[max(one.start() - 1, 0) : one.start()] + before[one.end() : one.end() + 1] for one in found)
    if len(found) > MOST_STAMPS or shape_of(around + before[-1:]) != around + before[-1:]:
        return None
    spans = tuple((len(shape_of(before[: one.start()])), len(shape_of(before[: one.end()]))) for one in found)
    parts = [re.sub(rb"[0-9a-f]+", rb"[0-9a-f]*", re.escape(part)) for part in _STAMP.split(before)]
    return Head(b"".join(b"(" + part + b")" for part in parts), len(shape_of(before)), spans)


def _idle(milestone: grammar.Milestone, stage: str) -> bool:
    """Whether a milestone leaves the reader's state as it is."""
    return not (
        milestone.start
        or milestone.args
        or milestone.ready
        and stage != "ready"
        or milestone.http
        and stage != "http"
        or milestone.kind == "error"
        or milestone.code in WRITER_RANK
        or milestone.code == "pyspy_dump"
    )
