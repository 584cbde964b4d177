"""What every parser is given and gives: a `Source`, lines, and (frame name, row) pairs.

A parser is pure: lines of text in, rows out. It knows no target and no run. A module of this package lists its parsers
as `FORMATS`, a tuple of `Format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kit.schema import Row

SAMPLES = 3
"""Samples of lines not understood that a report keeps for each reason."""


@dataclass
class Source:
    """What a parser knows of its file."""

    name: str  # path relative to the run; goes into the column `capture`
    # when it was taken, UTC nanoseconds since the epoch; the year and the date of stamps without one come from it
    captured_ns: int | None = None
    offset_s: int = 0  # UTC offset of the host's local time, in seconds; stamps without a zone are local
    moment: int | None = None  # number of the sample, from the manifest or from a name such as `stat.t1.txt`
    pid: int | None = None  # process the capture is about, where the manifest or the path knows it
    node: int | None = None  # node the capture came from (`server.node1.log`)
    rank: int | None = None  # rank whose log it is, where its path knows it (`rank2.log`); what a line says of itself goes first
    boot_ns: int | None = None  # when the host was booted, UTC nanoseconds: the kernel's log counts from there
    # rows of threads in samples before this are not wanted: they are many, and a live view asks for the last seconds only
    threads_from_ns: int | None = None
    # newest stamp with a year beside the file, where nobody said when it was taken: stamps without a year, or without a day, lie
    # near it
    near_ns: int | None = None
    # what is wanted of the sampler's long series. `all`: every row; `changes`: of threads the changes alone, which are stored;
    # `edges`: threads, descriptors and sockets of the first and the last samples alone, of those up to `edges_until_ns`.
    series: str = "all"
    edges_until_ns: int | None = None


@dataclass
class Report:
    """Accounts of one parse: nothing is dropped in silence.

    Examples
    --------
    >>> report = Report()
    >>> report.odd("no pid", "??? 12")
    >>> report.reasons
    {'no pid': 1}
    """

    lines: int = 0
    records: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def odd(self, reason: str, line: str, count: int = 1) -> None:
        """Count a line that was not understood and keep the first samples of its reason."""
        self.reasons[reason] = self.reasons.get(reason, 0) + count
        kept = self.samples.setdefault(reason, [])
        if len(kept) < SAMPLES:
            kept.append(line[:500])


Rows = Iterator[tuple[str, Row]]
Parser = Callable[..., Rows]
"""Takes lines (a binary format: blocks of bytes), the `Source` and the `Report`."""


@dataclass(frozen=True)
class Format:
    """One kind of file."""

    kind: str  # name of the kind, as in the manifest (`ps`, `proc_status`, `strace`, `log`)
    names: str  # regular expression that file names of this kind usually match (searched, case ignored)
    # takes the first 64 KiB as text and returns how sure the content is of this kind, from 0 (no) to 1 (certain)
    looks_like: Callable[[str], float]
    # takes lines without their ends, the `Source` and the `Report`; yields (frame name, row). Rows need no `capture` (the caller
    # sets it), but should carry `line`.
    parse: Parser
    frames: tuple[str, ...]  # names of all frames that it may give rows of: who wants another frame need not read the file
    insists: bool = False  # `looks_like` may give more than 1: of this kind whatever the file's name says
    binary: bool = False  # `parse` takes the content in blocks of bytes in place of lines
    # `parse` for a large file as it lies on the disk: takes a `LineReader` and yields (frame name, Arrow table or row). None
    # comes back where what it needs is not installed.
    tables: Callable[..., Iterator[tuple[str, Any]] | None] | None = None

    def named(self, name: str) -> bool:
        """Whether the file's name is one of this kind."""
        return re.search(self.names, name.rsplit("/", 1)[-1], re.IGNORECASE) is not None


def sections(lines: Iterable[str], default_path: str | None = None) -> Iterator[tuple[str | None, int, list[str]]]:
    """Split the output of `head`/`tail` over several files at its `==> path <==` lines.

    Yields path of the section, line number (from 1) of its first line, its lines.

    Examples
    --------
    >>> [(path, first, body) for path, first, body in sections(["==> /proc/7/io <==", "rchar: 1"])]
    [('/proc/7/io', 2, ['rchar: 1'])]
    """
    path, first, body = default_path, 1, []
    for number, line in enumerate(lines, 1):
        if line.startswith("==> ") and line.rstrip().endswith(" <=="):
            if body:
                yield path, first, body
            path, first, body = line.rstrip()[4:-4], number + 1, []
        else:
            body.append(line)
    if body:
        yield path, first, body


def pid_of_path(path: str | None) -> int | None:
    """Return the pid of a /proc path.

    Examples
    --------
    >>> pid_of_path("/proc/4412/io")
    4412
    """
    found = re.search(r"/proc/(\d+)(?:/|$)", path or "")
    return int(found.group(1)) if found else None
