"""How much memory a reader may hold: `KIT_MEMORY`, else a quarter of the machine or of the container."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from kit.errors import UsageError

SHARE = 4
"""A quarter: the editor, the browser and a second notebook need room too."""
UNKNOWN = 1 << 30
"""Where the machine does not tell what it has."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_budget() -> int:
    """Bytes that what is read of a run may take at a time.

    Raises
    ------
    UsageError
        Where `KIT_MEMORY` is not a size.

    Examples
    --------
    >>> import os
    >>> os.environ["KIT_MEMORY"] = "1.5G"
    >>> memory_budget()
    1610612736
    >>> del os.environ["KIT_MEMORY"]
    """
    given = os.environ.get("KIT_MEMORY", "").strip()
    if not given:
        return _machine() // SHARE
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", given.lower())
    if not found or not float(found[1]):
        raise UsageError(f"invalid KIT_MEMORY {given!r}", "it is not a size", "for example: KIT_MEMORY=4G")
    return int(float(found[1]) * _UNITS[found[2]])


def _machine() -> int:
    """Memory of the machine, or of the container where that is less."""
    sizes = []
    with suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min((size for size in sizes if size > 0), default=UNKNOWN)
