"""Functions over bytes that numba compiles (`stallkit[fast]`): who imports this has asked for numba first."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_PASSES = {
    "log": (("log_compiled",), 16 << 20, 128 << 20),
    "strace": (("strace_bytes", "strace_compiled", "strace_join", "strace_columns", "strace_rows"), 4 << 20, 24 << 20),
}
"""Modules of `kit.parse` that are compiled for a kind of file, and the bytes from which on that pays: where it is kept, and where
it has yet to be compiled. That takes 8 s of CPU for logs and 15 s for traces, loading numba 0.7 s; a megabyte of a busy log takes
80 ms without and 20 ms with it, of a trace 650 ms and 15 ms (`benchmarks/logs.py`, `benchmarks/strace.py`).
"""
HOW = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""How functions are compiled: without the interpreter's lock, with numpy's division, without a way into them from C, and without
counting who refers to an array, which took a quarter of the time: none of them makes one."""


def pays(kind: str, size: int) -> bool:
    """Whether a compiled pass over so many bytes of a kind of file takes less than the passes that it stands for."""
    _, kept_from, fresh_from = _PASSES[kind]
    if size < kept_from or find_spec("numba") is None:
        return False
    return size >= fresh_from or _kept(*sources_of(kind))


def sources_of(kind: str) -> list[str]:
    """Files that are compiled for a kind of file: who compiles them and who asks whether that was kept take the same."""
    return [str(_HERE / "parse" / f"{module}.py") for module in _PASSES[kind][0]]


def _kept(*sources: str) -> bool:
    """Whether what was compiled of some sources is found again: beside them, or in the user's cache, as numba chose."""
    cache, home = os.environ.get("XDG_CACHE_HOME"), Path.home()
    users = (os.environ.get("NUMBA_CACHE_DIR"), Path(cache or home / ".cache") / "numba", home / "Library" / "Caches" / "numba")
    name = f"*-{_version(*sources)}-*.nbi"
    beside = any((Path(sources[0]).parent / "__pycache__").glob(name))
    return beside or any(True for folder in users if folder for _ in Path(folder).glob(f"*/{name}"))


@cache
def _version(*sources: str) -> str:
    """What names the compiled functions of some sources, and of how: numba looks at the file of a function only."""
    shared = (str(_HERE / f"compiled{name}.py") for name in ("", "_bytes", "_vectors"))
    return hashlib.sha256(b"".join(Path(source).read_bytes() for source in (*shared, *sources))).hexdigest()[:12]


@cache
def _njit() -> Any:
    """`numba.njit`, and what it loads at the first call; not scipy, a third of that, which it has for products of matrices."""
    hidden = "scipy" not in sys.modules
    if hidden:
        sys.modules["scipy"] = None
    try:
        from numba import njit
    finally:
        if hidden:
            del sys.modules["scipy"]
    return njit


def numba_types() -> Any:
    """`numba.types`; who imports it from numba loads scipy."""
    _njit()
    from numba import types

    return types


def inner(function: Callable) -> Any:
    """Compile a function that only other compiled functions call, as a part of each of them.

    A call would hand on seven values for each array; a way into it from Python would take a sixth of the time to compile.
    """
    return _njit()(**HOW, no_cpython_wrapper=True, forceinline=True)(function)


def keeping(*sources: str) -> Callable[[Callable], Any]:
    """Compile functions, and keep what was compiled beside the source or in the user's cache, where one of them is writable.

    What was compiled of other `sources` than these is not used again.
    """
    version = _version(*sources)

    def compiled(function: Callable) -> Any:
        function.__qualname__ = f"{function.__name__}-{version}"  # names what is kept
        try:
            found = _njit()(**HOW, cache=True)(function)
            found._cache.load_overload = partial(_load_kept, found._cache)
            return found
        except RuntimeError:  # "no locator available": neither folder is writable
            return _njit()(**HOW)(function)

    return compiled


def _load_kept(kept: Any, signature: Any, context: Any) -> Any:
    """A function that was kept, as numba loads it, but without the parts of numba that only compiling needs: those take 0.2 s."""
    with kept._guard_against_spurious_io_errors():
        return kept._load_overload(signature, context)
