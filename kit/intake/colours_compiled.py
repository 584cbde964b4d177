"""Colours of a terminal taken off a block of a large log, as `re` does it, at the speed of a copy."""

from __future__ import annotations

import numpy as np

from kit.compiled import keeping
from kit.compiled_bytes import byte_at

compiled = keeping(__file__)
ESCAPE, BRACKET = 27, 91


@compiled
def copy_bare(data, out):
    """Copy bytes without sequences as ESC [ digits, semicolons or question marks, and a letter; gives how many are left."""
    at = to = 0
    while at < data.size:
        char = byte_at(data, at)
        if char == ESCAPE and at + 2 < data.size and byte_at(data, at + 1) == BRACKET:
            end = at + 2
            while end < data.size and (48 <= byte_at(data, end) <= 57 or byte_at(data, end) == 59 or byte_at(data, end) == 63):
                end += 1
            if end < data.size and 97 <= byte_at(data, end) | 32 <= 122:
                at = end + 1
                continue
        out[np.uintp(to)] = char
        to += 1
        at += 1
    return to


@compiled
def has_control(data):
    """Whether bytes steer a terminal by more than colours."""
    at = 0
    while at < data.size:
        char = byte_at(data, at)
        if char == 8:
            return True
        at += 1
        if char == ESCAPE:
            if at >= data.size or byte_at(data, at) != BRACKET:
                return True
            at += 1
            while at < data.size and (48 <= byte_at(data, at) <= 59):
                at += 1
            if at >= data.size or byte_at(data, at) != 109:
                return True
    return False


def steers(block: bytes) -> bool:
    """As `kit.intake.terminal.needs_cleaning`."""
    return has_control(np.frombuffer(block, np.uint8))


def bare(block: bytes) -> bytes:
    """A block without colours."""
    data = np.frombuffer(block, np.uint8)
    out = np.empty(data.size, np.uint8)
    return out[: copy_bare(data, out)].tobytes()
