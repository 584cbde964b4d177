"""strace: every form that it prints, from 4.x to 7.x, to frame `syscalls`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import compiled
from kit.clock import parse_time
from kit.errors import EvidenceError, UsageError, nearest
from kit.frames import FRAMES
from kit.intake import Segment, segments
from kit.parse import TABLES_FROM_BYTES, recognise
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.records import ANSI
from kit.parse.snapshot import only_failures
from kit.parse.strace_events import Event, Joiner
from kit.parse.strace_rows import CallRows, Clock, Wanted, clock_of, is_relative, pid_of_name
from kit.parse.strace_scan import split_prefix
from kit.parse.syscall_names import all_names
from kit.parse.text import LineReader, head_of
from kit.parse.tracers import other_tracer

if TYPE_CHECKING:
    import pandas


def read(
    path: Path | str,
    columns: Sequence[str] | None = None,
    window: tuple[str | int | None, str | int | None] | None = None,
    calls: Iterable[str] | None = None,
) -> pandas.DataFrame:
    """Read a capture as frame `syscalls`, without a run: what is not wanted is not kept in memory.

    `path`: a file that strace wrote, or a folder of those that `strace -ff` wrote. `columns`: columns of the frame; all where it
    is not given. `window`: calls that were in flight between two moments: text as `kit.clock.parse_time` reads it, UTC
    nanoseconds, None for no end. Clocks without a date or a zone (-t, -tt) are taken as UTC, of the day the file was written.
    `calls`: names of the calls that are wanted. Returns a row a call in the order in which they end, as `Run.frame("syscalls")`
    gives it; `t_s` is empty, for there is no launch. Raises EvidenceError where the file is no output of strace; it says what it
    looks like. Raises UsageError where a column does not exist or a moment is no time.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.strace"
    >>> _ = path.write_text("7 1795956512.5 close(2) = 0 <0.00001>\\n7 1795956513.5 read(3, \\"x\\", 1) = 1 <0.00001>\\n")
    >>> read(path, ["pid", "syscall", "fd"], calls=["read"]).to_dict("records")
    [{'pid': 7, 'syscall': 'read', 'fd': 3}]
    """
    import pandas as pd

    declared = FRAMES["syscalls"]
    unknown = next((name for name in columns or () if name not in declared.by_name), None)
    if unknown is not None:
        close = nearest(unknown, declared.by_name)
        raise UsageError(
            f"no column {unknown!r}",
            "frame syscalls has none of this name",
            f"did you mean {close}?" if close else "see docs/columns.md",
        )
    moments = [parse_time(one)[0] if isinstance(one, str) else one for one in window or (None, None)]
    span = (-(1 << 63) if moments[0] is None else moments[0], (1 << 63) - 1 if moments[1] is None else moments[1])
    wanted = Wanted(tuple(columns or declared.by_name), span if window else None, frozenset(calls) if calls is not None else None)
    files = [one for one in sorted(Path(path).iterdir()) if one.is_file()] if Path(path).is_dir() else [Path(path)]
    found = [_frame_of(lines, one, wanted) for one in files for lines in _captures(one, strict=True)]
    parts = [part for part in found if len(part)]
    return (
        pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0] if parts else declared.empty()[list(wanted.columns)]
    )


def _captures(path: Path, strict: bool) -> list[LineReader]:
    """What strace wrote of a file: itself, or what is packed in it, or stands behind stamps of others.

    Raises EvidenceError where another tool wrote it, and, if `strict`, where nothing of strace is in it.
    """
    head = head_of(path)
    kind = recognise(path.name, head)[0]
    if kind == "strace" or not head.strip():
        return [LineReader(path)]
    found = [one for one in segments(path, lambda name, text: recognise(name, text)[0]) if isinstance(one, Segment)]
    captures = [LineReader(one.content) for one in found if one.kind == "strace" and one.how == "file"]
    heads = [head, *(one.head() for one in found)]
    tool = next((tool for one in heads if (tool := other_tracer(one))), None)
    if captures or not strict and tool is None:
        return captures or [LineReader(path)]
    looks = f"output of {tool}" if tool else kind
    raise EvidenceError(
        f"{path.name} is not output of strace",
        f"it looks like {looks}" if looks else "no parser knows what it is",
        "give the file that `strace -o FILE` wrote",
    )


def _frame_of(lines: LineReader, path: Path, wanted: Wanted) -> pandas.DataFrame:
    """The wanted calls of one file."""
    source, report = Source(path.name, path.stat().st_mtime_ns), Report()
    if lines.size >= TABLES_FROM_BYTES and _is_compiled(lines):
        from kit.parse.strace_table import frame

        return frame(lines, source, report, wanted)
    rows = (row for frame, row in parse_strace(lines, source, report) if frame == "syscalls")
    made = FRAMES["syscalls"].build(row | {"capture": source.name} for row in rows if wanted.takes(row))
    return made[list(wanted.columns)]


def read_events(paths: Iterable[Path | str]) -> Iterator[Event]:
    """Read captures into events, each file's in the order of their first lines.

    `paths`: files of one capture (-ff writes one a thread, with the pid as the name's end). Yields `file`, `lines` (numbers from
    1), `kind` (syscall, signal, stopped, exited, killed, superseded, message, summary, other), `pid`, `comm`, `ts`; `rel`, `nr`,
    `ip`, `context` where printed. A syscall has `syscall`, `args`, `result`, `ret`, `errno`, `duration`, `state` (done, merged,
    open, orphan, detached, moved, cut) and, where it was split, `ts_end` and `pid_end`; `output`: what the program printed
    into its lines. All values but numbers of lines, pids and calls are text as printed. Raises OSError where a file cannot be
    read, EvidenceError where another tool wrote it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.strace"
    >>> _ = path.write_text('12:36:16.465690 close(2)                = 0 <0.000010>\\n')
    >>> [(event["syscall"], event["args"], event["duration"]) for event in read_events([path])]
    [('close', '2', '0.000010')]
    """
    for path in map(Path, paths):
        for lines in _captures(path, strict=False):
            for event in sorted(_events(lines, pid_of_name(path.name)), key=lambda event: event["order"]):
                del event["order"]
                yield {"file": path.name, **event}


def _events(lines: Iterable[str], pid: int | None, clock: Clock | None = None) -> Iterator[Event]:
    joiner = Joiner(pid, clock.ns if clock else None)
    for number, line in enumerate(lines, 1):
        yield from joiner.feed(number, line)
    yield from joiner.finish()


def parse_strace(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read a capture: a row a call, in the order in which the calls end; those that never return come last.

    An orphan (a return whose entry is not in the file) has the time of its end less its duration. `duration_s` is strace's
    own where it printed one, else the time between the two lines of a split call. Signals and ends of threads become rows of
    `signals`, messages that say that strace failed rows of `tool_errors`; messages and summary tables are counted in
    `report.facts`.

    Examples
    --------
    >>> sample = ["4757  1795955778.018896 read(3, \"\\0\", 64) = 1 <0.000013>", "4757  1795955778.02 write(2, \"x\", 1"]
    >>> [(row["syscall"], row["fd"], row["state"]) for _, row in parse_strace(sample, Source("strace.txt"), Report())]
    [('read', 3, 'done'), ('write', 2, 'cut')]
    """
    rows = CallRows(source, report)
    for event in _events(_counted(lines, report), None, clock_of(lines, source)):
        yield from rows.take(event)
    rows.finish()


def _counted(lines: Iterable[str], report: Report) -> Iterator[str]:
    for line in lines:
        report.lines += 1
        yield line


def strace_tables(
    lines: LineReader, source: Source, report: Report, wanted: Wanted | None = None
) -> Iterator[tuple[str, Any]] | None:
    """The same as tables, in one compiled pass; None where that does not pay, or for `-r` alone."""
    if not _is_compiled(lines):
        return None
    from kit.parse.strace_table import tables

    return tables(lines, source, report, wanted)


def _is_compiled(lines: LineReader) -> bool:
    return compiled.pays("strace", lines.size) and not lines.encoding.startswith("utf-16") and not is_relative(copy(lines))


# --- is it one? ----------------------------------------------------------------------------------------------------------

_STRONG = re.compile(
    r"<\.\.\. \S+ resumed>|\+\+\+ (?:exited with|killed by|superseded by) .* \+\+\+|--- SIG\w+ .*---$|"
    r"--- stopped by SIG|restart_syscall\(|\[ Process PID=\d+ runs in "
)
_SAID = re.compile(r"^(?:\^C)?(?:/\S*/)?strace: |^Process \d+ (?:attached|detached)\b")
_CALLED = re.compile(r"(?P<name>[a-z_]\w*)\(.*?(?:\)\s+= (?:-?\d|0x|\?)|<unfinished \.\.\.>|<detached \.\.\.>|[^)]$|\)\s*$)")
_SUMMARY = re.compile(
    r"^(?=.*(?:% time|usecs/call|seconds|\b(?:calls|errors|longest|shortest)\b)).*\b(?:syscall|name)\b.*$\n"
    r"\s*-{3,}(?: -{3,})+\s*$|^syscall\n-{16,}$",
    re.MULTILINE,
)


def _is_line(line: str) -> bool:
    body = split_prefix(line).body
    called = _CALLED.match(body)
    return bool(_STRONG.match(body) or called and (called["name"] in all_names() or called["name"].startswith("syscall_")))


def looks_like_strace(head: str) -> float:
    """Score of a head as strace's output: by the share of lines that nothing else prints.

    Examples
    --------
    >>> looks_like_strace("strace: Process 88 attached\\nwrite(2, \\"x\\", 1")
    0.97
    >>> looks_like_strace("INFO init(tp=2) = 0 errors\\n")
    0.0
    """
    lines = [line for line in (ANSI.sub("", line).rstrip("\r") for line in head.split("\n")[:400]) if line.strip()]
    lines = [line for line in lines if not re.match(r"^\s*\$ | > \S| \| [0-9a-f]{5}", line)]
    if not lines:
        return 0.0
    calls, said = sum(map(_is_line, lines)), sum(1 for line in lines if _SAID.match(line))
    if (calls + said) / len(lines) >= 0.5:
        return 0.97
    if _SUMMARY.search(head):
        return 0.97
    if calls >= 3:
        return 0.6
    return only_failures(head, "strace")


FORMATS = (
    Format(
        "strace",
        r"strace",
        looks_like_strace,
        parse_strace,
        frames=("syscalls", "signals", "syscall_totals", "tool_errors"),
        tables=strace_tables,
    ),
)
