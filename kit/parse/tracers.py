"""What other tools print of system calls: none of it is strace's, though some of its lines could be.

They mean other things: other units, results that are negative errors, calls of the C library, calls of other systems.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kit.parse.records import ANSI
from kit.parse.tool_words import TOOL_WORDS

HEAD_LINES = 60
"""First lines that are looked at."""
LEAST, LEAST_SHARE = 2, 0.3
"""So many of them, and such a share, are the tool's: the program's own output and headings stand between them."""
_TOOLS = {name: re.compile(pattern) for name, pattern in TOOL_WORDS["tracers"].items()}


@lru_cache(maxsize=64)  # each format that may read such a file asks
def other_tracer(head: str) -> str | None:
    r"""Tell which tool that is not strace printed the calls of a head.

    Examples
    --------
    >>> other_tracer("7 SYS_close(3) = 0\n7 SYS_read(4, 0x7ffd, 832, 0) = 832\n")
    'ltrace'
    >>> other_tracer("7 close(3) = 0\n7 read(4, \"\", 832) = 0\n")
    """
    lines = [ANSI.sub("", line[:500]).rstrip("\r") for line in head.split("\n", HEAD_LINES)[:HEAD_LINES] if line.strip()]
    for name, mark in _TOOLS.items():
        if sum(1 for line in lines if mark.search(line)) >= max(LEAST, LEAST_SHARE * len(lines)):
            return name
    return None
