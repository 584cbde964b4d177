"""Parsers, one module a family of formats. `recognise` tells a file's kind by content and name, `read` reads it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kit.frames import FRAMES
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.text import LineReader, head_of
from kit.parse.tracers import other_tracer
from kit.schema import Row
from kit.tool_table import table

MODULES = tuple(
    """
    sampler strace stacks locks collectives flight_recorder desync procfs procmaps hostfiles ps net gpu nvidia_lists amd
    accelerators kernel disk cluster metrics sysstat atop containers environment series profiles lldb prose log
    """.split()
)
"""Modules that list `FORMATS`. Order decides between equal scores only."""

NAME_BONUS = 0.3
"""Weight of a matching file name: it breaks ties and carries weak content, but never beats content that is certain."""
BINARY = 0.1
"""A head with a larger share of bytes that are no text is no text file: compressed, a picture, a core dump."""
LEAST = 0.35
"""Least score for a file to count as recognised."""
TABLES_FROM_BYTES = 4 << 20
"""A smaller file has been read line by line before the compiled pass is loaded."""


@cache
def formats() -> dict[str, Format]:
    """All formats by kind: of `MODULES`, and of the modules that rows of the table of tools name."""
    named = (tool.module for tool in table().tools.values() if tool.module)
    modules = dict.fromkeys((*MODULES, *named))
    return {entry.kind: entry for name in modules for entry in importlib.import_module(f"kit.parse.{name}").FORMATS}


@lru_cache(maxsize=64)  # a file is asked about as it lies, as text and in its segments
def recognise(name: str, head: str) -> tuple[str | None, str | None]:
    """Tell the kind of a file by its content, with its name as a hint.

    `head`: its first 64 KiB as text. Returns the kind, or None where nothing fits; and the kind that the name alone promised,
    where the content is of another (a `strace.txt` that holds a log).

    Examples
    --------
    >>> recognise("io.t0.txt", "rchar: 10\\nwchar: 2\\nsyscr: 1\\nsyscw: 1\\nread_bytes: 0\\nwrite_bytes: 0\\n")
    ('proc_io', None)
    """
    if not head.strip():
        return None, None
    is_text = head.count("\ufffd") <= BINARY * len(head)
    named = _named(name)
    if other_tracer(head):
        return None, named[0] if named else None
    score, best = 0.0, ""
    for kind, entry in sorted(formats().items(), key=lambda pair: not (pair[0] in named or pair[1].insists)):
        if score > 1.0 and not (kind in named or entry.insists):
            break  # none of the others can score more
        content = entry.looks_like(head) if is_text or entry.binary else 0.0
        if (found := content + NAME_BONUS * (kind in named)) > score and content > 0:
            score, best = found, kind
    kind = best if score >= LEAST else None
    return kind, named[0] if named and kind not in named else None


@lru_cache(maxsize=256)
def _named(name: str) -> list[str]:
    """Kinds whose files usually bear such a name."""
    return [entry.kind for entry in formats().values() if entry.named(name)]


def recognise_server(head: str, folders: tuple[Path, ...]) -> str | None:
    """Kind `log` where a grammar in the user's folders tells that its server wrote a head which nothing else recognises."""
    from kit.parse import grammar

    packaged = {found.name for found in grammar.load().all}
    own = grammar.Grammars([found for found in grammar.load(folders).all if found.name not in packaged])
    return "log" if own.detect(head.splitlines()) else None


def read(lines: LineReader, kind: str, source: Source, folders: tuple[Path, ...] = ()) -> tuple[Report, Rows]:
    """Read lines with the parser of a kind; logs with the grammars of further folders too.

    The report is complete once the rows are used up.
    """
    report, entry = Report(), formats()[kind]

    def rows() -> Rows:
        further = (folders,) if kind in ("log", "prose") else ()  # other formats have no grammars, no words
        content = lines.content() if entry.binary else lines
        for frame, row in entry.parse(content, source, report, *further):
            if not isinstance(row, dict):  # a table of many rows
                yield frame, row
                continue
            row["capture"] = source.name
            if _mended(frame, row, report):
                yield frame, row
        lines.tell(report)

    return report, rows()


def _mended(frame: str, row: Row, report: Report) -> bool:
    """Whether a row holds what its frame needs, once values that fit no column were taken out of it, and counted."""
    declared = FRAMES.get(frame)
    if declared is None:
        return True
    wrong = declared.mend(row)
    for name in wrong:
        report.odd(f"value of {name} that is none", str(row.get("line") or ""))
    return not wrong or all(declared.by_name[name].nullable for name in wrong)


def tables(lines: LineReader, kind: str, source: Source) -> tuple[Report, Iterator[tuple[str, Any]]] | None:
    """Read a large file as it lies on the disk into Arrow tables: (frame name, table or row).

    None where the file is small or not as it lies, or where the kind has no such way: `read` reads it then.
    """
    entry, report = formats()[kind], Report()
    if entry.tables is None or not isinstance(lines.path, Path) or lines.size < TABLES_FROM_BYTES:
        return None
    found = entry.tables(lines, source, report)
    if found is None:
        return None

    def pairs() -> Iterator[tuple[str, Any]]:
        for frame, item in found:
            if isinstance(item, dict):
                item["capture"] = source.name
            yield frame, item
        lines.tell(report)

    return report, pairs()


def skim(lines: LineReader, source: Source, folders: tuple[Path, ...] = ()) -> tuple[Report, Rows] | None:
    """Read a large log without a row for each of its lines, see `kit.parse.log_fast`.

    None where the log is small, or in another encoding than UTF-8: `read` reads it then.
    """
    from kit.parse import log_fast

    if lines.size < log_fast.FROM_BYTES or not lines.encoding.startswith("utf-8"):
        return None
    report = Report()
    named = ((frame, row | {"capture": source.name}) for frame, row in log_fast.skim(lines, source, report, folders))
    return report, ((frame, row) for frame, row in named if _mended(frame, row, report))


__all__ = [
    "Format",
    "LineReader",
    "Report",
    "Source",
    "formats",
    "head_of",
    "read",
    "recognise",
    "recognise_server",
    "skim",
    "tables",
]
