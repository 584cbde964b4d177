"""strace: every form that it prints, from 4.x to 7.x, to frame `syscalls`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from kit.clock import NS
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.records import ANSI
from kit.parse.snapshot import Line, failure, only_failures
from kit.parse.strace_events import Event, Joiner
from kit.parse.strace_scan import split_prefix
from kit.parse.syscall_names import GENERIC, X86_64
from kit.parse.text import LineReader

DAY_NS = 86_400 * NS
FD_FIRST = frozenset(
    """
    read write close fstat lseek mmap2 ioctl pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 dup dup2 dup3
    sendfile connect accept accept4 sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown bind listen getsockname
    getpeername setsockopt getsockopt fcntl flock fsync fdatasync ftruncate getdents getdents64 fchdir fchmod fchown fstatfs
    readahead fsetxattr fgetxattr flistxattr fremovexattr fadvise64 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    inotify_add_watch inotify_rm_watch openat mkdirat unlinkat newfstatat statx readlinkat faccessat faccessat2 fchmodat
    sync_file_range splice tee vmsplice fallocate timerfd_settime timerfd_gettime signalfd4 syncfs io_uring_enter
    copy_file_range pidfd_send_signal setns fcntl64 fstat64 ftruncate64
    """.split()
)
"""Calls whose first argument is a descriptor (openat and its like: or AT_FDCWD)."""
_FD = re.compile(r"(?:fd=|sockfd=|epfd=|dfd=)?(\d+)(?=[<,\s]|$)")


def read_events(paths: Iterable[Path | str]) -> Iterator[Event]:
    """Read captures into events, each file's in the order of their first lines.

    Parameters
    ----------
    paths : iterable of path
        Files of one capture (-ff writes one a thread, with the pid as the name's end).

    Yields
    ------
    dict
        `file`, `lines` (numbers from 1), `kind` (syscall, signal, stopped, exited, killed, superseded, message, summary,
        other), `pid`, `comm`, `ts`; `rel`, `nr`, `ip`, `context` where printed. A syscall has `syscall`, `args`, `result`,
        `ret`, `errno`, `duration`, `state` (done, merged, open, orphan, detached, moved, cut) and, where it was split,
        `ts_end` and `pid_end`. All values but numbers of lines, pids and calls are text as printed.

    Raises
    ------
    OSError
        Where a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.strace"
    >>> _ = path.write_text('12:36:16.465690 close(2)                = 0 <0.000010>\\n')
    >>> [(event["syscall"], event["args"], event["duration"]) for event in read_events([path])]
    [('close', '2', '0.000010')]
    """
    for path in map(Path, paths):
        events = sorted(_events(LineReader(path), _pid_of_name(path.name)), key=lambda event: event["order"])
        for event in events:
            del event["order"]
            yield {"file": path.name, **event}


def _pid_of_name(name: str) -> int | None:
    found = re.search(r"\.(\d{1,7})$", name)
    return int(found.group(1)) if found else None


def _events(lines: Iterable[str], pid: int | None, clock: Clock | None = None) -> Iterator[Event]:
    joiner = Joiner(pid, clock.ns if clock else None)
    for number, line in enumerate(lines, 1):
        yield from joiner.feed(number, line)
    yield from joiner.finish()


class Clock:
    """Stamps of one capture to UTC nanoseconds: -ttt as they stand; -t and -tt from the date of the capture, with midnights.

    A wall clock without a date gets the day that brings its first stamp nearest to the time of the capture. It may jump
    back by less than half a day without a new day (`-e status` prints calls late).

    Examples
    --------
    >>> clock = Clock(Source("a", captured_ns=86_400 * NS + 60 * NS))
    >>> [clock.ns(text) / NS for text in ("23:59:59.5", "00:00:01.25")]
    [86399.5, 86401.25]
    >>> clock.ns("1795956512.665207")
    1795956512665207000
    """

    def __init__(self, source: Source):
        self.source = source
        self.day: int | None = None
        self.last = 0

    def ns(self, text: str | None) -> int | None:
        """UTC nanoseconds of a stamp as printed; None where it has none or its date is not known."""
        if not text:
            return None
        whole, _, fraction = text.partition(".")
        part = int((fraction + "000000000")[:9])
        if ":" not in whole:
            return int(whole) * NS + part
        if self.source.captured_ns is None:
            return None
        hour, minute, second = map(int, whole.split(":"))
        since = (hour * 3600 + minute * 60 + second) * NS + part
        if self.day is None:
            local = self.source.captured_ns + self.source.offset_s * NS
            self.day = round((local - since) / DAY_NS)
        elif since < self.last - DAY_NS // 2:
            self.day += 1
        elif since > self.last + DAY_NS // 2:
            return (self.day - 1) * DAY_NS + since - self.source.offset_s * NS
        self.last = since
        return self.day * DAY_NS + since - self.source.offset_s * NS


def parse_strace(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read a capture: a row a call, in the order in which the calls end; those that never return come last.

    An orphan (a return whose entry is not in the file) has the time of its end less its duration. `duration_s` is strace's
    own where it printed one, else the time between the two lines of a split call. Signals, ends of processes, messages and
    summary tables are counted in `report.facts`; messages that say that strace failed become rows of `tool_errors`.

    Examples
    --------
    >>> sample = ["4757  1795955778.018896 read(3, \"\\0\", 64) = 1 <0.000013>", "4757  1795955778.02 write(2, \"x\", 1"]
    >>> [(row["syscall"], row["fd"], row["state"]) for _, row in parse_strace(sample, Source("strace.txt"), Report())]
    [('read', 3, 'done'), ('write', 2, 'cut')]
    """
    first_pid = source.pid if source.pid is not None else _pid_of_name(source.name)
    counts, tables, seen = defaultdict(Counter), [], False
    for event in _events(_counted(lines, report), None, Clock(source)):
        kind = event["kind"]
        if kind == "syscall":
            seen = True
            report.records += 1
            yield "syscalls", _row(event, first_pid)
        elif kind in ("message", "other"):
            failed = _failed(event, source, first_pid)
            if failed:
                report.records += 1
                yield "tool_errors", failed
            elif kind == "other" and not re.match(r"\s*\$ |\s*$", event["text"]):
                report.odd("no line of strace", event["text"])
            elif kind == "message":
                counts["messages"][next((word for word in ("attached", "detached") if word in event), "other")] += 1
                if first_pid is None and not seen:
                    first_pid = event.get("attached")
        elif kind == "summary":
            tables.append({"columns": event["columns"], "rows": event["rows"], "total": event["total"]})
            yield from _totals(event, first_pid, report)
        elif kind in ("signal", "stopped"):
            counts["signals"][event["signal"]] += 1
        else:
            counts["ends"][kind] += 1
    report.facts |= {name: dict(found) for name, found in counts.items()}
    if tables:
        report.facts["summary"] = tables


TOTALS = {
    "syscall": "syscall",
    "calls": "calls",
    "errors": "errors",
    "seconds": "total_s",
    "total-time": "total_s",
    "usecs/call": "mean_us",
    "avg-time": "mean_us",
    "min-time": "min_us",
    "max-time": "max_us",
    "shortest": "min_us",
    "longest": "max_us",
    "% time": "share_percent",
}
"""Columns of `strace -c`, `-w` and `-U` by the column of frame `syscall_totals`."""


def _totals(event: Event, pid: int | None, report: Report) -> Rows:
    """Rows of a summary of `strace -c`: what each call took in all, no single calls."""
    names = [TOTALS.get(name or "") for name in event["columns"]]
    for cells, line in zip(event["rows"], event["lines"][2:], strict=False):
        got = {name: cell for name, cell in zip(names, cells, strict=False) if name}
        if got.get("syscall"):
            report.records += 1
            figures = {name: float(cell) for name, cell in got.items() if name != "syscall" and cell is not None}
            counts = {name: int(figures.get(name) or 0) for name in ("calls", "errors")}
            yield "syscall_totals", {"pid": pid, "syscall": got["syscall"], **figures, **counts, "line": line}


def _counted(lines: Iterable[str], report: Report) -> Iterator[str]:
    for line in lines:
        report.lines += 1
        yield line


def _failed(event: Event, source: Source, pid: int | None) -> dict | None:
    """The row of a message that says that strace could not do its work."""
    text = event["text"]
    if event["kind"] == "other" and "strace" not in text:
        return None
    failed = failure(Line(event["lines"][0], text, None, None), "strace", source)
    if failed is None and re.search(r"[Cc]ould not attach|ptrace_scope", text):
        failed = {"error": "permission", "text": text, "line": event["lines"][0]}
    named = re.search(r"ptrace\(PTRACE_\w+, (?:0x[0-9a-f]+, )?(\d+)|process (\d+)", text)
    return failed and failed | {"tool": "strace", "pid": int(named.group(1) or named.group(2)) if named else pid}


def _row(event: Event, first_pid: int | None) -> dict:
    begin, end = event["ns"], event.get("ns_end")
    duration = float(event["duration"]) if event["duration"] is not None else None
    if duration is None and event["state"] == "merged" and begin is not None and end is not None and end >= begin:
        duration = (end - begin) / NS
    if begin is None and end is not None:
        begin = end - round((duration or 0.0) * NS)
    descriptor = _FD.match(event["args"]) if event["syscall"] in FD_FIRST else None
    return {
        "time": begin,
        "pid": event["pid"] if event["pid"] is not None else first_pid,
        "comm": event["comm"],
        "syscall": event["syscall"],
        "args": event["args"],
        "result": event["result"],
        "ret": event["ret"],
        "errno": event["errno"],
        "duration_s": duration,
        "fd": int(descriptor.group(1)) if descriptor and len(descriptor.group(1)) < 10 else None,
        "state": event["state"],
        "line": event["lines"][0],
        "end_line": event["lines"][-1] if len(event["lines"]) > 1 else None,
    }


# --- is it one? ----------------------------------------------------------------------------------------------------------

_STRONG = re.compile(
    r"<\.\.\. \S+ resumed>|\+\+\+ (?:exited with|killed by|superseded by) .* \+\+\+|--- SIG\w+ .*---$|"
    r"--- stopped by SIG|restart_syscall\(|\[ Process PID=\d+ runs in "
)
_SAID = re.compile(r"^(?:\^C)?(?:/\S*/)?strace: |^Process \d+ (?:attached|detached)\b")
_CALLED = re.compile(r"(?P<name>[a-z_]\w*)\(.*?(?:\)\s+= (?:-?\d|0x|\?)|<unfinished \.\.\.>|<detached \.\.\.>|[^)]$|\)\s*$)")
_KNOWN = frozenset(X86_64.values()) | frozenset(GENERIC.values())
_SUMMARY = re.compile(
    r"^(?=.*(?:% time|usecs/call|seconds|\bcalls\b)).*\b(?:syscall|name)\b.*$\n\s*-{3,}(?: -{3,})+\s*$", re.MULTILINE
)


def _is_line(line: str) -> bool:
    body = split_prefix(line).body
    called = _CALLED.match(body)
    return bool(_STRONG.match(body) or called and (called["name"] in _KNOWN or called["name"].startswith("syscall_")))


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


FORMATS = (Format("strace", r"strace", looks_like_strace, parse_strace, frames=("syscalls", "syscall_totals", "tool_errors")),)
