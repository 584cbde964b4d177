"""What the text of a call's arguments says: parts, descriptors with what they are, times."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Any

from kit.parse.strace_scan import unescape
from kit.tomlfile import PACKAGED

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?|(?<=[\dD\]])<(?:[^<>]|(?<=-)>|<[^<>]*>)*>|/\*.*?\*/|[\[{(]|[\]})]|,|[^\[{(\]}),"<]+|[<"/]',
    re.DOTALL,
)
DESCRIPTOR = re.compile(r"(?:[a-z]+=)?(?P<fd>\d{1,9})(?:<(?P<is>(?:[^<>]|(?<=-)>|<[^<>]*>)*)>(?P<gone>\(deleted\))?)?")
_TIMESPEC = re.compile(r"\{(?:tv_sec=)?(-?\d+), (?:tv_u?n?sec=)?(\d+)\}")
_MICRO = re.compile(r"tv_usec=")
_INODE = re.compile(r"\[(\d+)(?:->(\d+))?")
_ENDS = re.compile(r"\[(?P<here>.{1,120})->(?P<there>.{1,120})\]$")
READS = frozenset("read readv pread64 preadv preadv2 recvfrom recvmsg recvmmsg".split())
WRITES = frozenset("write writev pwrite64 pwritev pwritev2 sendto sendmsg sendmmsg".split())
OPENS = ("open", "openat", "openat2", "creat")
KNOWLEDGE: dict[str, Any] = tomllib.loads((PACKAGED / "calls.toml").read_text(encoding="utf-8"))
LOOKS = (
    *OPENS,
    *"stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat unlink unlinkat mkdir mkdirat execve".split(),
)
"""Calls that name a path."""
WAITS = frozenset("poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2".split())
UNRETURNED = ("open", "detached")
"""States of a call that had not come back; one that the end of the file cut may have."""


@cache
def classes() -> dict[str, tuple[str, ...]]:
    """Classes of calls with the names of their calls, in the order of `kit/knowledge/calls.toml`."""
    return {entry["name"]: tuple(entry["calls"].split()) for entry in KNOWLEDGE["class"]}


@cache
def class_of() -> dict[str, str]:
    """Class by the name of a call."""
    return {call: name for name, calls in classes().items() for call in calls}


def split(text: str) -> list[str]:
    """Arguments of a call: commas in strings, brackets and decorations end none.

    Examples
    --------
    >>> split('3<pipe:[12]>, "a, b", [{fd=3, events=POLLIN}], 1')
    ['3<pipe:[12]>', '"a, b"', '[{fd=3, events=POLLIN}]', '1']
    >>> split('6<UNIX-STREAM:[15,"/srv/a, b"]>, 0')[0]
    '6<UNIX-STREAM:[15,"/srv/a, b"]>'
    """
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        if token == "," and not depth:
            parts.append("")
            continue
        depth += (token in "[{(") - (token in "]})") if len(token) == 1 else 0
        parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


def descriptors(text: str) -> list[tuple[int, str | None]]:
    """Descriptors of `[3<…>, 4<…>]` or of poll's `[{fd=3, …}]`, with what strace says that they are.

    Examples
    --------
    >>> descriptors("[3<pipe:[12]>, 4<pipe:[12]>]"), descriptors("[{fd=3, events=POLLIN}]")
    ([(3, 'pipe:[12]'), (4, 'pipe:[12]')], [(3, None)])
    """
    found = re.finditer(rf"(?:(?<=fd=)|(?<=[\[, ])){DESCRIPTOR.pattern[len('(?:[a-z]+=)?') :]}(?=[,\]}}])", text)
    return [(int(one["fd"]), one["is"]) for one in found]


def string(text: str) -> str | None:
    """A string argument without its quotes and escapes.

    Examples
    --------
    >>> string(r'"a\\n"...'), string("NULL")
    ('a\\n', None)
    """
    found = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    return unescape(found.group(1)) if found else None


def seconds(text: str) -> float | None:
    """Seconds of a timespec or timeval.

    Examples
    --------
    >>> seconds("{tv_sec=1, tv_nsec=500000000}"), seconds("{tv_sec=0, tv_usec=250000}"), seconds("NULL")
    (1.5, 0.25, None)
    """
    found = _TIMESPEC.search(text)
    if not found or len(found.group(1)) > 15:
        return None
    return int(found.group(1)) + int(found.group(2)[:9]) / (1e6 if _MICRO.search(text) else 1e9)


def thing(decoration: str) -> str | None:
    """What a descriptor is, under one name for all forms of strace; None where the decoration does not tell one from another.

    Examples
    --------
    >>> thing("UNIX-STREAM:[7->8]"), thing("socket:[7]"), thing("/dev/null<char 1:3>"), thing("anon_inode:[eventfd]")
    ('socket:[7]', 'socket:[7]', '/dev/null', None)
    >>> thing("TCP:[127.0.0.1:8000->127.0.0.1:5596]")
    'TCP:[127.0.0.1:8000->127.0.0.1:5596]'
    """
    if decoration.startswith("/"):
        return decoration.partition("<")[0]
    if decoration.startswith(("UNIX", "socket:")) and (inode := _INODE.search(decoration)):
        return f"socket:[{inode.group(1)}]"
    if decoration.startswith(("anon_inode", "{eventfd", "(null)", "signalfd", "timerfd")):
        number = re.search(r"eventfd-id=(\d+)", decoration)
        return f"eventfd:{number.group(1)}" if number else None
    return decoration


def other_end(decoration: str) -> str | None:
    """The thing at the other end of a socket, as strace -yy tells it.

    Examples
    --------
    >>> other_end("UNIX-STREAM:[7->8]"), other_end("TCP:[127.0.0.1:80->10.0.0.2:5]"), other_end("pipe:[3]")
    ('socket:[8]', 'TCP:[10.0.0.2:5->127.0.0.1:80]', None)
    """
    ends = _ENDS.search(decoration)
    if decoration.startswith("UNIX") and (inode := _INODE.search(decoration)) and inode.group(2):
        return f"socket:[{inode.group(2)}]"
    if ends and decoration.startswith(("TCP", "UDP")):
        return f"{decoration.partition(':')[0]}:[{ends['there']}->{ends['here']}]"
    return None
