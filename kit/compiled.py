"""Functions over bytes that numba compiles (`stallkit[fast]`): who imports this has asked for numba first."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def installed() -> bool:
    """Whether numba is there."""
    return find_spec("numba") is not None


@cache
def _njit() -> Any:
    """`numba.njit`, and what it loads at the first call; not scipy, a third of that, which it has for products of matrices."""
    hidden = "scipy" not in sys.modules
    if hidden:
        sys.modules["scipy"] = None
    try:
        from numba import njit
        from numba.core.registry import cpu_target

        cpu_target.target_context.refresh()
    finally:
        if hidden:
            del sys.modules["scipy"]
    return njit


def inner(function: Callable) -> Any:
    """Compile a function that only other compiled functions call."""
    return _njit()(nogil=True, error_model="numpy")(function)


def keeping(*sources: str) -> Callable[[Callable], Any]:
    """Compile functions, and keep what was compiled beside the source or in the user's cache, where one of them is writable.

    What was compiled of other `sources` than these is not used again: numba looks at the file of a function only.
    """
    shared = str(Path(__file__).with_name("compiled_bytes.py"))
    version = hashlib.sha256(b"".join(Path(source).read_bytes() for source in (shared, *sources))).hexdigest()[:12]

    def compiled(function: Callable) -> Any:
        function.__qualname__ = f"{function.__name__}-{version}"  # names what is kept
        try:
            return _njit()(cache=True, nogil=True, error_model="numpy")(function)
        except RuntimeError:  # "no locator available": neither folder is writable
            return inner(function)

    return compiled
