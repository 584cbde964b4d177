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
"""So many of them, and such a share, are the tool's: the program's own output and headings stand between them."""
_TOOLS = {
    "perf trace": re.compile(r"^ {0,20}(?:\d{1,12}\.\d{3}|\?) \( {0,20}(?:\d{1,9}\.\d{3} ms)? {0,20}\): "),
    "ltrace": re.compile(
        r"^(?:\[pid \d{1,7}\] |\d{1,7} )?(?:\d[\d:.]{1,20} )?(?:SYS_\w{1,40}\(|[\w+.-]{1,60}\.so[\d.]{0,12}->\w)"
        r"|__libc_start_main\(|<no return \.\.\.>$"
    ),
    "sysdig": re.compile(r"^\d{1,19} \d\d:\d\d:\d\d\.\d{9} \d{1,4} \S{1,60} \(\d{1,9}(?:\.\d{1,9})?\) [<>] \w"),
    "dtruss": re.compile(r"\bSYSCALL\(args\)\s{1,9}= return|\)\t{1,4} {0,3}= (?:-?\w{1,20} \d{1,9}|-1 Err#\d{1,3})\s{0,3}$"),
    "truss of FreeBSD": re.compile(r"\)\s{1,60}(?:= -?\d{1,20} \(0x[0-9a-f]{1,16}\)|ERR#\d{1,4} ')"),
    "truss of Solaris or illumos": re.compile(
        r"^\d{1,7}(?:/\d{1,5})?:\s{1,9}(?:\d{1,9}\.\d{1,9}\s{1,9})?"
        r"(?:[a-z]\w{1,40}\([^)]{0,300}\)\s{0,9}(?:=|Err#\d|\((?:sleeping|returning)|argc =)|Received signal #\d)"
    ),
    "kdump (ktrace)": re.compile(
        r"^ {0,8}\d{1,7} (?:\d{1,9} )?\S{1,40} {1,20}(?:\d[\d.]{0,20} )?(?:CALL  \w|RET   \w|NAMI  \"|GIO   fd \d)"
    ),
    "the audit log": re.compile(r"^type=[A-Z_]{1,40} msg=audit\("),
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
    for name, mark in _TOOLS.items():
        if sum(1 for line in lines if mark.search(line)) >= max(LEAST, LEAST_SHARE * len(lines)):
            return name
    return None
