"""Tracebacks in a log: which is open for which writer, and which lines belong to it.

A traceback goes on in indented lines and ends with the line of its exception. Its head may have been left out by who copied it,
its indentation by who shipped it, and the lines of another writer may stand between its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kit.parse.records import Prefix
from kit.schema import Row

TRACEBACK = "Traceback (most recent call last)"
NOISE = {"kind": "noise", "milestone": None, "role": None}
EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure)(?:\([\w.]+\))?)"
    r"(?:: ?(?P<message>.*))?$"
)
_AT_ITS_END = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\([\w.]+\))?)(?:: ?(?P<message>.*))?$")
_THROWN = re.compile(r"^(?P<type>what\(\)): +(?P<message>.+)$")
_IGNORED = "Exception ignored in"
"""How Python announces an error that nobody can catch (in a destructor, a callback of the collector): it goes on."""
_FRAME = 'File "'
_INSIDE = (
    _FRAME,
    "^",
    "~",
    "[Previous line repeated",
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_OF_A_CUT = re.compile(
    r"\s*(?:File \"[^\"]+\", line \d+, in |(?:self\.|super\(\)|raise [A-Z]|return )[^ ]*\(|\^+$)"
    r"|\s{4,}+(?:[~^]|(?:await|yield|with|for|if|assert|del|cls)\b|[\w.]+\(|[\w., ]+ [-+*/|]?= \S)"
)
"""A frame, or the statement in it, in a log's own lines: of a traceback whose head was left out."""
CALM, _TROUBLE = ("INFO", "DEBUG", "WARNING"), ("ERROR", "CRITICAL")
"""Levels of lines on which no program gives up, and of those that tell why it does."""


def thrown(message: str) -> re.Match[str] | None:
    """What C++ says of the exception that nobody caught, below the line that tells its class."""
    return _THROWN.match(message)


class Taken(NamedTuple):
    """A line of a traceback: its exception where it ends with this line, and whether it is one that nobody minds."""

    error: re.Match[str] | None
    ignored: bool
    caught: bool = False
    """Whether who printed it only warns of it: it goes on."""


@dataclass
class Tracebacks:
    """Tracebacks that are open, by writer."""

    open: dict[Any, Prefix] = field(default_factory=dict)
    """The prefix of the line that opened each."""
    _ignored: set[Any] = field(default_factory=set)
    _beheaded: set[Any] = field(default_factory=set)
    _framed: set[Any] = field(default_factory=set)
    """Writers whose last line was a frame, whose statement is to follow."""
    _last: Any = None

    def head(self, row: Row, prefix: Prefix, message: str) -> bool:
        """Whether a line begins a traceback, or says that one to come is ignored: then its row is filled in."""
        if TRACEBACK in message:
            self.open[prefix.key], self._last = prefix, prefix.key
            self._beheaded.discard(prefix.key)
            if prefix.key in self._ignored:
                row.update(NOISE)
            else:
                row.update(kind="error", role="header")
                row.setdefault("milestone", "traceback")
        elif message.startswith(_IGNORED):
            row.update(NOISE)
            self._ignored.add(prefix.key)
        else:
            return False
        return True

    def take(self, row: Row, prefix: Prefix, text: str, message: str) -> Taken | None:
        """Take a line that belongs to an open traceback, None where it belongs to none; a bare one gets its writer's prefix."""
        if TRACEBACK in message:
            return None
        key = prefix.key if prefix.key in self.open else self._last if not prefix.peeled else None
        begins = key not in self.open and prefix.level in _TROUBLE and _OF_A_CUT.match(text) is not None
        if begins:
            key, self.open[prefix.key] = prefix.key, prefix
            self._beheaded.add(key)
        if key not in self.open:
            return None
        opener = self.open[key]
        error = (EXCEPTION if key in self._beheaded else _AT_ITS_END).match(message)
        # A shipper that drops blanks leaves a statement at the line's begin.
        statement = key in self._framed and error is None and prefix.level in (None, opener.level)
        inside = begins or statement or text[:1].isspace() or message.startswith(_INSIDE)
        self._framed.discard(key)
        if inside:
            error = None
            row["role"] = "header" if key in self._beheaded else None
            if message.startswith(_FRAME):
                self._framed.add(key)
        else:
            del self.open[key]
            self._beheaded.discard(key)
            if error is None or prefix.level in CALM[:2] and opener.level not in CALM[:2]:  # a traceback in a string has no end
                return None
        ignored = key in self._ignored
        if not inside:
            self._ignored.discard(key)
        if not prefix.peeled:
            for name in ("process", "pid", "rank_label", "rank", "level"):
                setattr(prefix, name, getattr(opener, name))
        return Taken(error, ignored, opener.level in CALM and prefix.level in CALM)
