"""Bytes at a place, for compiled functions: importing this needs numba."""

from __future__ import annotations

import numpy as np

from kit.compiled import inner


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
