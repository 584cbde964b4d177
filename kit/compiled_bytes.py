"""Bytes at a place, for compiled functions: importing this needs numba."""

from __future__ import annotations

import numpy as np

from kit.compiled import inner, keeping

compiled = keeping(__file__)

UNKNOWN = -1
"""In the place of a key's number: it is not known."""
SEED = np.uint64(0x243F6A8885A308D3)
MIX = np.uint64(0x9E3779B97F4A7C15)
SEVEN, REST, HALF, ONE = (np.uint64(value) for value in (7, 57, 32, 1))
NEWLINE, STEP = 10, 8


@inner
def byte_at(data, at):
    """A byte; the place is never below 0, which the compiler has to be told."""
    return data[np.uintp(at)]


@inner
def is_at(data, at, end, text):
    """Whether a text stands at a place."""
    if at + text.size > end:
        return False
    for n in range(text.size):
        if byte_at(data, at + n) != text[n]:
            return False
    return True


# --- keys of texts, and tables of them --------------------------------------------------------------------------------------


@inner
def plus(value, code):
    """The key of a text with one more byte, by the byte's code."""
    return ((value << SEVEN) | (value >> REST)) + code


@inner
def mixed(value):
    """A key whose lowest bits tell it from others."""
    value = (value ^ (value >> HALF)) * MIX
    return value ^ (value >> HALF)


@inner
def place(keys, numbers, key):
    """Where a key stands in a table, or would: its lowest bits say, or it is one after that."""
    mask = np.uint64(keys.size - 1)
    at = key & mask
    while numbers[at] != UNKNOWN and keys[at] != key:
        at = (at + ONE) & mask
    return at


@inner
def find(keys, numbers, key):
    """Number of a key; UNKNOWN where it is not there."""
    return numbers[place(keys, numbers, key)]


@compiled
def number_of(keys, numbers, key):
    """As `find`, for callers that are not compiled: what others compiled calls would not be made part of them when it is kept."""
    return find(keys, numbers, key)


@compiled
def put(keys, numbers, key, number):
    """Remember the number of a key."""
    at = place(keys, numbers, key)
    keys[at], numbers[at] = key, number


def table(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and their numbers, empty; the size is a power of two."""
    return np.zeros(size, np.uint64), np.full(size, UNKNOWN, np.int32)


def codes_of(same: bytes) -> np.ndarray:
    """Codes of all bytes: one of some that are all alike."""
    codes = np.random.default_rng(14).integers(1, 1 << 63, 256, np.uint64) | ONE
    codes[list(same)] = codes[same[0]]
    return codes
