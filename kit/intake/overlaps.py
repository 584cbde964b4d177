"""Lines of a log that are there twice: pasted twice, or in two copies of its end that overlap. They count once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate

from kit.intake.content import Content, Part
from kit.intake.wrapping import COLOUR

MOST_BYTES, MOST_LOGS = 2 << 20, 32
"""Largest log that is compared with others (a copy of an end, a paste), and how many are."""
MOST_PLACES = 16
"""Places at which a line comes again that are looked at: a line that repeats all the time tells no copy."""
LEAST_STAMPS = 3
"""Different times in lines that are there twice; ranks print the same lines within a second."""
_STAMP = re.compile(rb"\d\d:\d\d:\d\d")
_BLANK = re.compile(COLOUR + rb"\s*\Z")


@dataclass
class Lines:
    """The lines of a log that hold something: their texts, and where each begins and which line of its text it is."""

    content: Content
    texts: list[bytes]
    begins: list[int]
    numbers: list[int]

    def from_line(self, at: int) -> Content:
        """The content from one of its lines on."""
        return self.between([(at, len(self.texts))])

    def between(self, ranges: list[tuple[int, int]]) -> Content:
        """Stretches of the content."""
        (part,) = self.content.parts
        ends = [*self.begins, part.end]
        return replace(self.content, parts=tuple(Part(self.begins[a], ends[b], self.numbers[a]) for a, b in ranges if a < b))


def lines_of(content: Content) -> Lines | None:
    """Lines of a log; None of one that is large, or in pieces."""
    if content.size > MOST_BYTES or len(content.parts) != 1 or content.strip or (content.leads and content.parts[0].lead):
        return None
    (part,) = content.parts
    with content.open() as file:
        raw = file.read().split(b"\n")
    begins = list(accumulate((len(line) + 1 for line in raw), initial=part.begin))
    kept = [at for at, line in enumerate(raw) if not _BLANK.match(line)]
    return Lines(content, [raw[at].strip() for at in kept], [begins[at] for at in kept], [part.line + at for at in kept])


def once(lines: Lines) -> Content | None:
    """A log without the lines that it repeats as a whole, from an earlier line on; None where it repeats none."""
    texts, first, places = lines.texts, {}, MOST_PLACES
    for at, text in enumerate(texts):
        before = first.setdefault(text, at) if _STAMP.search(text) else at
        if before == at or (at and texts[at - 1] == text):
            continue
        if not (places := places - 1):
            return None
        length = _common(texts, before, texts, at)
        if at + length < len(texts) and before + length < at or not _tells(texts[at : at + length]):
            continue  # it ends as neither copy does
        return lines.between([(0, at), (at + length, len(texts))])
    return None


def _common(one: list[bytes], at: int, two: list[bytes], start: int) -> int:
    """How many lines from two places on are the same."""
    length = 0
    while at + length < len(one) and start + length < len(two) and one[at + length] == two[start + length]:
        length += 1
    return length


def _tells(texts: list[bytes]) -> bool:
    return len({stamp for text in texts for stamp in _STAMP.findall(text)}) >= LEAST_STAMPS


def follows(one: Lines, two: Lines) -> int | None:
    """Line of the second log from which on it goes on where the first ends; None where they do not overlap.

    It is the number of its lines where the first holds all of them.
    """
    starts = [at for at, text in enumerate(one.texts) if two.texts and text == two.texts[0]][-MOST_PLACES:]
    for at in starts:
        length = _common(one.texts, at, two.texts, 0)
        if (at + length == len(one.texts) or length == len(two.texts)) and _tells(two.texts[:length]):
            return length
    return None


def holds(one: Lines, two: Lines) -> bool:
    """Whether all lines of the second log are in the first, in their order: what grep took out of it."""
    rest = iter(one.texts)
    return (
        len(two.texts) > 1 and sum(1 for text in two.texts if _STAMP.search(text)) > 1 and all(text in rest for text in two.texts)
    )
