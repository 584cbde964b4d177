"""The compiled pass over a text's lines: those whose begin or shape is known to match nothing are passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from kit.compiled import inner, keeping
from kit.compiled_bytes import NEWLINE, ONE, SEED, byte_at, codes_of, find, mixed, plus, put, table
from kit.compiled_vectors import PAD, among, below, differ, lowest
from kit.intake.beginnings import DIGITS, LONGEST, LONGEST_BEGIN, may_match, shape_of

compiled = keeping(__file__)

SIZE, MOST, MOST_TRIED = 1 << 16, 1 << 14, 12
"""Room for keys, how many there may be, and how many begins of a line are tried."""
LINE, BEGIN = range(2)
"""What a key is of. The seeds of both differ, so that one table holds them."""
SPACE, COLON, BRACKET, BRACE = b" :[("
"""What begins end with."""
NEWLINES, ARE_DIGITS = among((NEWLINE, NEWLINE)), among((48, 57))
BEGIN_SEED, SIX, LOW, WORDS = (np.uint64(value) for value in (0xA4093822299F31D0, 6, 63, 511))
"""One bit for each value of the lowest 15 says whether a begin may end there: 4 KiB stay in a core's first-level cache."""


@inner
def _with(value, before, code, char):
    """A key with one more byte, where it is not one more digit of a number."""
    return value if code == before and 48 <= char <= 57 else plus(value, code)


@inner
def _line_end(data, base, at):
    """Where the next newline stands; the size of the data where there is none."""
    while at + PAD <= data.size:
        ends = NEWLINES(base + at)
        if ends:
            return at + lowest(ends)
        at += PAD
    while at < data.size and byte_at(data, at) != NEWLINE:
        at += 1
    return at


@inner
def _is_like(at, other, size):
    """Whether bytes are those of another place, but for digits."""
    while size > 0:
        if differ(at, other) & below(size) & ~(ARE_DIGITS(at) & ARE_DIGITS(other)):
            return False
        at, other, size = at + PAD, other + PAD, size - PAD
    return True


@compiled
def add(keys, numbers, bits, line, codes, what):
    """Remember a shape: of a whole line, or of a begin."""
    value, before = SEED, np.uint64(0)
    for n in range(line.size):
        code = codes[line[n]]
        value, before = _with(value, before, code, line[n]), code
    if what == BEGIN:
        bits[np.uintp((value >> SIX) & WORDS)] |= ONE << (value & LOW)
        value ^= BEGIN_SEED
    put(keys, numbers, mixed(value), what)


@compiled
def following(data, base, at, keys, numbers, bits, codes, found):
    """The next line that is not known: where it begins and ends goes into `found`; where there is none, the size of the data.

    `base`: address of the data. Most lines begin as the last one that was known by its begin, but for digits.
    """
    last, size = -1, 0
    while at < data.size:
        if last >= 0 and at + size + PAD <= data.size and _is_like(base + at, base + last, size):
            at = _line_end(data, base, at + size) + 1
            continue
        char = byte_at(data, at)
        value, stop, plain, before = SEED, at, char == NEWLINE, np.uint64(0)
        while char != NEWLINE:
            code = codes[char]
            value, before = _with(value, before, code, char), code
            stop += 1
            ends = char == SPACE or char == COLON or char == BRACKET or char == BRACE
            if ends and (bits[np.uintp((value >> SIX) & WORDS)] >> (value & LOW)) & ONE:
                plain = find(keys, numbers, mixed(value ^ BEGIN_SEED)) == BEGIN
                if plain:
                    last, size, stop = at, stop - at, _line_end(data, base, stop)
                    break
            char = byte_at(data, stop)
        if not plain and find(keys, numbers, mixed(value)) != LINE:
            found[0], found[1] = at, stop
            return
        at = stop + 1
    found[0] = data.size


class CompiledLines:
    """As `kit.intake.beginnings.Lines`."""

    def __init__(self, pattern: re.Pattern[bytes]):
        self.pattern = pattern
        self._codes = codes_of(same=DIGITS)
        self._forget()

    def _forget(self) -> None:
        self._known, self._count = (*table(SIZE), np.zeros(int(WORDS) + 1, np.uint64)), 0
        self._begins: set[bytes] = set()

    def unknown(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Begins and ends of lines that have to be looked at."""
        data = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8)
        found, at, base = np.zeros(2, np.int64), 0, data.ctypes.data
        while True:
            following(data, base, at, *self._known, self._codes, found)
            begin, end = found.tolist()
            if begin >= data.size:
                return
            yield begin, end
            at = end + 1

    def learn(self, line: bytes) -> None:
        """Pass over lines like one that did not match: those that begin as far as they cannot match, else those of its shape."""
        if self._count >= MOST:
            self._forget()
        for stop in [found.end() for found in re.finditer(rb"[ :\[(]", line[:LONGEST_BEGIN])][:MOST_TRIED]:
            shape = shape_of(line[:stop])
            if shape in self._begins:  # it may match
                continue
            if not may_match(self.pattern, line[:stop]):
                self._add(line[:stop], BEGIN)
                return
            self._begins.add(shape)
        if len(line) < LONGEST:
            self._add(line, LINE)

    def _add(self, text: bytes, what: int) -> None:
        self._count += 1
        add(*self._known, np.frombuffer(text, np.uint8), self._codes, what)
