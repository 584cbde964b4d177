"""The compiled pass over a text's lines: those whose begin or shape is known to match nothing are passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from kit.compiled import inner, keeping
from kit.intake.beginnings import DIGITS, LONGEST, LONGEST_BEGIN, may_match, shape_of

compiled = keeping(__file__)

SIZE, MOST, MOST_TRIED = 1 << 16, 1 << 14, 12
"""Room for keys, how many there may be, and how many begins of a line are tried."""
MIX, SEED, BEGIN_SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x243F6A8885A308D3), np.uint64(0xA4093822299F31D0)
_SEVEN, _REST, _HALF, _ONE, _SIX, _LOW = (np.uint64(value) for value in (7, 57, 32, 1, 6, 63))
_WORDS, _MASK = np.uint64(511), np.uint64(SIZE - 1)
"""One bit for each value of the lowest 15: 4 KiB stay in a core's first-level cache."""


@inner
def _mixed(value):
    value = (value ^ (value >> _HALF)) * MIX
    value ^= value >> _HALF
    return value | _ONE


@inner
def _has(keys, key):
    at = key & _MASK
    while keys[at] != 0 and keys[at] != key:
        at = (at + _ONE) & _MASK
    return keys[at] == key


@compiled
def add(keys, bits, line, size, codes, is_begin):
    """Remember a shape: of a whole line, or of a begin."""
    value, before = SEED, np.uint64(0)
    for n in range(size):
        code = codes[line[n]]
        code, before = np.uint64(0) if code == before and 48 <= line[n] <= 57 else code, code
        value = ((value << _SEVEN) | (value >> _REST)) + code if code else value
    if is_begin:
        bits[np.uintp((value >> _SIX) & _WORDS)] |= _ONE << (value & _LOW)
    key = _mixed(value ^ BEGIN_SEED if is_begin else value)
    at = key & _MASK
    while keys[at] != 0 and keys[at] != key:
        at = (at + _ONE) & _MASK
    keys[at] = key


@compiled
def following(data, at, keys, bits, codes, found):
    """The next line that is not known: where it begins and ends goes into `found`; where there is none, the size of the data."""
    while at < data.size:
        char = data[np.uintp(at)]
        value, stop, plain, before = SEED, at, char == 10, np.uint64(0)
        while char != 10:
            code = codes[char]
            code, before = np.uint64(0) if code == before and 48 <= char <= 57 else code, code
            more = ((value << _SEVEN) | (value >> _REST)) + code
            value = more if code else value
            stop += 1
            if (bits[np.uintp((value >> _SIX) & _WORDS)] >> (value & _LOW)) & _ONE and _has(keys, _mixed(value ^ BEGIN_SEED)):
                plain = True
                while data[np.uintp(stop)] != 10:
                    stop += 1
                break
            char = data[np.uintp(stop)]
        if not plain and not _has(keys, _mixed(value)):
            found[0], found[1] = at, stop
            return
        at = stop + 1
    found[0] = data.size


class CompiledLines:
    """As `kit.intake.beginnings.Lines`."""

    def __init__(self, pattern: re.Pattern[bytes]):
        self.pattern = pattern
        self._codes = np.random.default_rng(10).integers(1, 1 << 63, 256, np.uint64) | np.uint64(1)
        self._codes[list(DIGITS)] = self._codes[DIGITS[0]]
        self._forget()

    def _forget(self) -> None:
        self._keys, self._bits, self._count = np.zeros(SIZE, np.uint64), np.zeros(512, np.uint64), 0
        self._begins: set[bytes] = set()

    def unknown(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Begins and ends of lines that have to be looked at."""
        data = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8)
        found, at = np.zeros(2, np.int64), 0
        while True:
            following(data, at, self._keys, self._bits, self._codes, found)
            begin, end = found.tolist()
            if begin >= data.size:
                return
            yield begin, end
            at = end + 1

    def learn(self, line: bytes) -> None:
        """Pass over lines like one that did not match: those that begin as far as they cannot match, else those of its shape."""
        if self._count >= MOST:
            self._forget()
        for stop in [found.end() for found in re.finditer(rb"[ \[:(]", line[:LONGEST_BEGIN])][:MOST_TRIED]:
            shape = shape_of(line[:stop])
            if shape in self._begins:  # it may match
                continue
            if not may_match(self.pattern, line[:stop]):
                self._add(line[:stop], True)
                return
            self._begins.add(shape)
        if len(line) < LONGEST:
            self._add(line, False)

    def _add(self, line: bytes, is_begin: bool) -> None:
        self._count += 1
        add(self._keys, self._bits, np.frombuffer(line, np.uint8), len(line), self._codes, is_begin)


__all__ = ["CompiledLines"]
