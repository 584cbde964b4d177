"""Shapes of log lines: what is left of a record without numbers, addresses, paths and values; these can be compared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.schema import Row

MOST = 5000
"""Shapes kept of a launch; a healthy one prints a few hundred."""
LONGEST = 240
"""Characters of a record that are looked at: what follows is a value or a list."""
LETTERS = 4
"""A shape with fewer letters says nothing."""
LEFT_OUT = frozenset(("request", "noise"))
"""Kinds of records that come with traffic and with observers, not with the launch."""
ARGUMENTS = frozenset(("args", "args_end", "engine_config", "traceback"))
"""Milestones that are left out too: arguments are compared as settings, and a traceback is told by its exception."""
FRAME = 'File "'
"""Begin of a line of a traceback; the line after it is source code."""
_STEPS = (
    (re.compile(r"(?<!\w)(['\"])(?:(?!\1).)*(?:\1|$)"), "*"),
    (re.compile(r"\b\w+://\S+"), "*"),
    (re.compile(r"(?<![\w.])(?:~|\.{1,2})?/[\w.+@=~-]+(?:/[\w.+@=~-]*)*"), "*"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b"), "#"),
    (re.compile(r"[-+]?\d[\d.,:]*(?:[eE][-+]?\d+)?"), "#"),
    (re.compile(r"#\s?(?:%|[kKMGT]i?B(?:/s)?|m?s|us|sec(?:onds?)?|seconds?|minutes?|it/s|tokens?(?:/s)?)(?!\w)"), "#"),
    (re.compile(r"\b(?:True|False|None|true|false|null)\b"), "*"),
    (re.compile(r"\b(?:GET|HEAD)(?:, (?:GET|HEAD))+\b"), "*"),  # a set that Python prints in any order
    (re.compile(r"([#*])(?:\s*+(?:[,x]\s*+)?[#*])++"), r"\1"),
    (re.compile(r"\s+"), " "),
)


def template(text: str) -> str:
    """Shape of a record.

    Examples
    --------
    >>> template("Load weight end. type=M, avail mem=50.1 GB, took 39.02 s from '/models/m' (pid 2391, 0x7f3a)")
    'Load weight end. type=M, avail mem=#, took # from * (pid #)'
    >>> template("Using backend=<Backend.A: 1>, enabled=True") == template("Using backend=<Backend.A: 2>, enabled=False")
    True
    """
    text = text.split("\n", 1)[0][:LONGEST]
    for pattern, by in _STEPS:
        text = pattern.sub(by, text)
    return text.strip()


@dataclass
class Seen:
    """One shape in one launch: where it stands first, and how often it comes."""

    order: int
    time: int | None
    text: str
    where: str
    kind: str
    milestone: str | None
    phase: str | None
    count: int = 0


@dataclass
class Templates:
    """Shapes of the records since the last start, in bounded memory."""

    seen: dict[str, Seen] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    in_frame: set[tuple] = field(default_factory=set)
    orders: int = 0

    def add(self, row: Row) -> None:
        """Take one row of frame `log`."""
        if row.get("kind") in LEFT_OUT or row.get("bar_kind") or row.get("skimmed"):
            return
        if '"start"' in (row.get("fields") or ""):
            if row["capture"] in self.started:
                self.seen.clear()
            self.started.add(row["capture"])
        if row.get("milestone") in ARGUMENTS or self._in_traceback(row):
            return
        shape = template(row["text"])
        if sum(map(str.isalpha, shape)) < LETTERS:
            return
        self.orders += 1
        if shape not in self.seen:
            if len(self.seen) >= MOST:
                return
            where = f"{row['capture']}:{row.get('line')}"
            text = row["text"].split("\n", 1)[0][:LONGEST]
            own = (row.get("kind") or "other", row.get("milestone"), row.get("phase"))
            self.seen[shape] = Seen(self.orders, row.get("time"), text, where, *own)
        self.seen[shape].count += 1

    def _in_traceback(self, row: Row) -> bool:
        """Whether a record is a frame of a traceback, or the source line that follows one."""
        writer = (row.get("pid"), row.get("rank_label"))
        if row["text"].lstrip().startswith(FRAME):
            self.in_frame.add(writer)
            return True
        source = writer in self.in_frame and row.get("kind") == "error" and row.get("milestone") is None
        self.in_frame.discard(writer)
        return source
