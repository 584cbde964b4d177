"""What other tools print of system calls: none of it is strace's, though some of its lines could be.

They mean other things: other units, results that are negative errors, calls of the C library, calls of other systems.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kit.parse.records import ANSI

HEAD_LINES = 60
"""First lines that are looked at."""
LEAST, LEAST_SHARE = 2, 0.3
"""So many of them, and such a share, begin as the tool's: the program's own output and headings stand between them."""
_TOOLS = {
    "perf trace": re.compile(r" *(?:\d+\.\d{3}|\?) \( *(?:\d+\.\d{3} ms|) *\): "),
    "ltrace": re.compile(
        r"(?:\[pid \d+\] |\d+ )?(?:\d[\d:.]+ )?(?:SYS_\w+\(|[\w+.-]+\.so[\d.]*->\w+\(|__libc_start_main\()|.*<no return \.\.\.>$"
    ),
    "sysdig": re.compile(r"\d+ \d\d:\d\d:\d\d\.\d{9} \d+ \S+ \(\d+(?:\.\d+)?\) [<>] \w+"),
    "dtruss": re.compile(r".*\bSYSCALL\(args\)\s+= return\s*$|.*\w\(.*\)\t+ *= (?:-?\w+ \d+|-1 Err#\d+)\s*$"),
    "truss of FreeBSD": re.compile(r".*\w\(.*\)\s+(?:= -?\d+ \(0x[0-9a-f]+\)|ERR#\d+ ')"),
    "truss of Solaris or illumos": re.compile(
        r"\d+(?:/\d+)?:\s+(?:\d+\.\d+\s+)?(?:\w+\(.*\)\s*(?:=|Err#\d|\((?:sleeping|returning)|argc =)|Received signal #\d)"
    ),
    "kdump (ktrace)": re.compile(r" *\d+ (?:\d+ )?\S+ +(?:\d\S* )?(?:CALL  \w+|RET   \w+|NAMI  \"|GIO   fd \d)"),
    "the audit log": re.compile(r"type=[A-Z_]+ msg=audit\("),
}


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
    for name, begins in _TOOLS.items():
        if sum(1 for line in lines if begins.match(line)) >= max(LEAST, LEAST_SHARE * len(lines)):
            return name
    return None
