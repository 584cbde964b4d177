"""Whether a line may be of a pattern, told by how it begins: lines that cannot be are passed over without looking at their rest.

Logs repeat themselves with other numbers: lines, and begins of lines, are known by their shape, in which all numbers are
alike. `may_match` asks whether any line with a begin of some shape can match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

DIGITS = b"0123456789"
DROPPED = DIGITS + b"abcdef"
LONGEST = 2048
"""Bytes of a line that a pattern is given."""
LONGEST_BEGIN = 200
MOST_KNOWN = 20_000
_ALL = frozenset(range(256))
_DIGITS, NUMBER = frozenset(DIGITS), b"0"


def shape_of(line: bytes) -> bytes:
    """A line with all numbers alike."""
    return re.sub(rb"[0-9]+", NUMBER, line)


def may_match(pattern: re.Pattern[bytes], begin: bytes) -> bool:
    """Whether a line can match that begins so, whatever its numbers are; certain is only a no.

    Examples
    --------
    >>> pattern = re.compile(rb"total [0-9]+$|[a-z]+[(].* = -?[0-9]")
    >>> may_match(pattern, b"total 7"), may_match(pattern, b"open"), may_match(pattern, b"INFO "), may_match(pattern, b"open ")
    (True, True, False, False)
    """
    return _may_match(pattern, shape_of(begin))


@lru_cache(maxsize=4096)  # the logs of a launch begin their lines alike
def _may_match(pattern: re.Pattern[bytes], shape: bytes) -> bool:
    return bool(_after(_items(pattern), frozenset((0,)), shape))


@cache
def _items(pattern: re.Pattern[bytes]) -> list:
    return _parsed(parser.parse(pattern.pattern))


def may_hold(pattern: re.Pattern, text: Any) -> bool:
    """Whether a pattern can match in a text: a text that each match holds stands in it; certain is only a no.

    Examples
    --------
    >>> pattern = re.compile(r"\\bsrv\\s+\\w+:|llama_(?:context|load)")
    >>> may_hold(pattern, "a srv and more"), may_hold(pattern, "llama.cpp")
    (True, False)
    """
    texts = _texts_of(pattern)
    return texts is None or any(one in text for one in texts)


@cache
def _texts_of(pattern: re.Pattern) -> frozenset | None:
    """Texts of which one stands in each match; None where they cannot be told."""
    if pattern.flags & re.IGNORECASE:
        return None
    texts = _texts(parser.parse(pattern.pattern, pattern.flags))
    return texts if texts is None or isinstance(pattern.pattern, str) else frozenset(one.encode("latin-1") for one in texts)


def _texts(items: Iterable[tuple[Any, Any]]) -> frozenset[str] | None:
    best: frozenset[str] | None = None
    run = ""
    for op, value in [*items, (sre.AT, None)]:
        if op is sre.LITERAL:
            run += chr(value)
            continue
        found: list[frozenset[str] | None] = [frozenset((run,))] if run else []
        run = ""
        if op is sre.BRANCH:
            branches = [_texts(branch) for branch in value[1]]
            found.append(None if None in branches else frozenset().union(*(branch or () for branch in branches)))
        elif op is sre.SUBPATTERN and not value[1] and not value[2]:
            found.append(_texts(value[3]))
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[0]:
            found.append(_texts(value[2]))
        best = max((one for one in (best, *found) if one), key=lambda one: min(map(len, one)), default=None)
    return best


def _parsed(items: Iterable[tuple[Any, Any]]) -> list:
    """A pattern's items: sets of bytes, lists of branches, repeats as (least, most, items); None where anything may come.

    What looks around is left out: it only forbids.
    """
    found: list = []
    for op, value in items:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            found.append(_bytes_of(op, value))
        elif op is sre.BRANCH:
            found.append([_parsed(branch) for branch in value[1]])
        elif op is sre.SUBPATTERN and not value[1]:
            found.append([_parsed(value[3])])
        elif op is sre.ATOMIC_GROUP:
            found.append([_parsed(value)])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            found.append((value[0], int(value[1]), _parsed(value[2])))
        elif op not in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            found.append(None)
    return found


def _after(items: list, places: frozenset[int], kept: bytes) -> frozenset[int]:
    """Where in a begin the rest of a pattern may go on, after some of its items; its end stands for all that may follow."""
    for item in items:
        if not places:
            break
        if isinstance(item, frozenset):
            taken = item if item.isdisjoint(_DIGITS) else item | {NUMBER[0]}
            stay = {at for at in places if kept[at : at + 1] in (b"", NUMBER) and (at == len(kept) or NUMBER[0] in taken)}
            places = frozenset(stay | {at + 1 for at in places if at < len(kept) and kept[at] in taken})
        elif isinstance(item, list):
            places = frozenset().union(*(_after(branch, places, kept) for branch in item))
        elif item is None:
            return frozenset((len(kept),))
        else:
            least, most, repeated = item
            places = _repeated(least, most, repeated, places, kept)
    return places


def _repeated(least: int, most: int, items: list, places: frozenset[int], kept: bytes) -> frozenset[int]:
    reached = frozenset() if least else places
    for number in range(1, min(most, least + len(kept) + 1) + 1):
        places = _after(items, places, kept)
        if not places or (number >= least and places <= reached):
            break
        if number >= least:
            reached = reached | places
    return reached


def _bytes_of(op: Any, value: Any) -> frozenset[int]:
    """Bytes that an item of one byte takes."""
    if op is sre.LITERAL:
        return frozenset((value,))
    if op is sre.NOT_LITERAL:
        return _ALL - {value}
    if op is sre.ANY:
        return _ALL - {10}
    taken: set[int] = set()
    for kind, what in value:
        if kind is sre.LITERAL:
            taken.add(what)
        elif kind is sre.RANGE:
            taken.update(range(what[0], what[1] + 1))
        elif kind is not sre.NEGATE:
            taken.update(byte for byte in _ALL if _CATEGORIES[what].match(bytes((byte,))))
    return _ALL - taken if value[0][0] is sre.NEGATE else frozenset(taken)


_CATEGORIES = {
    getattr(sre, f"CATEGORY_{name}"): re.compile(text)
    for name, text in {
        "DIGIT": rb"\d", "NOT_DIGIT": rb"\D", "SPACE": rb"\s", "NOT_SPACE": rb"\S", "WORD": rb"\w", "NOT_WORD": rb"\W",
    }.items()
}  # fmt: skip


class Lines:
    """Lines that a pattern may match, of those whose shape (here what is left without digits and a to f: that is quick)
    was not seen to be none of its."""

    def __init__(self, pattern: re.Pattern[bytes]):
        self.pattern = pattern
        self._plain: set[bytes] = set()

    def unknown(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Begins and ends of lines that have to be looked at."""
        shapes = block.translate(None, DROPPED).split(b"\n")
        if self._plain.issuperset(shapes):
            return
        begin = 0
        for shape, line in zip(shapes, block.split(b"\n"), strict=True):
            if shape not in self._plain:
                yield begin, begin + len(line)
            begin += len(line) + 1

    def learn(self, line: bytes) -> None:
        """Pass over lines like one that did not match."""
        if len(self._plain) >= MOST_KNOWN:
            self._plain.clear()
        if len(line) < LONGEST:
            self._plain.add(line.translate(None, DROPPED))
