"""Events of strace to rows of frames, and their accounts; the clock of a capture."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from itertools import islice

from kit.clock import NS
from kit.frames import FRAMES
from kit.parse.base import Report, Rows, Source
from kit.parse.snapshot import Line, failure
from kit.parse.strace_events import Event
from kit.parse.strace_scan import split_prefix
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

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


_FIGURE = re.compile(r"-?[0-9]{1,15}([.,][0-9]{1,15})?")
"""A cell of a summary; some locales print a decimal comma."""
UNRETURNED = ("open", "detached", "moved", "cut")
"""States of calls whose return is not in the file."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a capture: columns, calls that were in flight in a window of UTC nanoseconds, names of calls."""

    columns: tuple[str, ...] = tuple(FRAMES["syscalls"].by_name)
    window: tuple[int, int] | None = None
    calls: frozenset[str] | None = None

    def takes(self, row: Row) -> bool:
        """Whether a row is wanted."""
        if self.calls is not None and row["syscall"] not in self.calls:
            return False
        if self.window is None:
            return True
        begin, end = row["time"], None if row["state"] in UNRETURNED else row["duration_s"] or 0.0
        return begin is not None and begin <= self.window[1] and (end is None or begin + end * NS >= self.window[0])


def pid_of_name(name: str) -> int | None:
    """Pid at the end of a file's name: -ff writes a file a thread."""
    found = re.search(r"\.(\d{1,7})$", name)
    return int(found.group(1)) if found else None


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
    >>> Clock(Source("copied years later", captured_ns=9000 * 86_400 * NS, near_ns=86_400 * NS)).ns("23:59:59") / NS
    86399.0

    A capture of `-r` alone has the time since the line before; `began_ns` is when its first line was written.

    >>> clock = Clock(Source("a"), began_ns=5 * NS)
    >>> [clock.ns(None, text) / NS for text in ("0.000000", "1.5")]
    [5.0, 6.5]
    """

    def __init__(self, source: Source, began_ns: int | None = None):
        self.source = source
        self.now = began_ns
        self.day: int | None = None
        self.last = 0

    def ns(self, text: str | None, since: str | None = None) -> int | None:
        """UTC nanoseconds of a stamp as printed; None where it has none or its date is not known."""
        if not text and since and self.now is not None:
            self.now += _nanoseconds(since)
            return self.now
        if not text:
            return None
        whole, _, fraction = text.partition(".")
        if ":" not in whole:
            return _nanoseconds(text)
        part = int((fraction + "000000000")[:9])
        # Of files that were copied nobody knows when they were taken, but stamps with a date beside them.
        taken = self.source.captured_ns if self.source.near_ns is None else self.source.near_ns
        if taken is None:
            return None
        hour, minute, second = map(int, whole.split(":"))
        of_day = (hour * 3600 + minute * 60 + second) * NS + part
        if self.day is None:
            local = taken + self.source.offset_s * NS
            self.day = round((local - of_day) / DAY_NS)
        elif of_day < self.last - DAY_NS // 2:
            self.day += 1
        elif of_day > self.last + DAY_NS // 2:
            return (self.day - 1) * DAY_NS + of_day - self.source.offset_s * NS
        self.last = of_day
        return self.day * DAY_NS + of_day - self.source.offset_s * NS


def _nanoseconds(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole) * NS + int((fraction + "000000000")[:9])


_SINCE = re.compile(r"(?:\[pid\s+\d+\]\s++|\d{1,7}(?:<[^<>]*>)?\s++|\s*+)(?P<since>\d{1,8}\.\d{1,9})\s")
RELATIVE_HEAD = 50
"""Lines that tell whether a capture has nothing but the time since the line before (-r)."""


def is_relative(lines: Iterable[str]) -> bool:
    """Whether lines carry the time since the line before, and no other clock.

    Examples
    --------
    >>> is_relative(["     0.000454 close(2) = 0"]), is_relative(["12:36:16.465690 close(2) = 0"])
    (True, False)
    """
    given = [split_prefix(line) for line in islice(lines, RELATIVE_HEAD)]
    return any("." in prefix.extra.get("rel", "") for prefix in given) and not any(prefix.ts for prefix in given)


def clock_of(lines: Iterable[str], source: Source) -> Clock:
    """The clock of a capture; one of `-r` alone is taken to end when it was captured.

    Each file of -ff has the time since a line of any: their sum says nothing, and they have no times.
    """
    try:
        head, again = copy(lines), copy(lines)
    except TypeError:  # lines that come once
        return Clock(source)
    if source.captured_ns is None or pid_of_name(source.name) is not None or not is_relative(head):
        return Clock(source)
    lasted = sum(_nanoseconds(found["since"]) for line in again if (found := _SINCE.match(line)))
    return Clock(source, source.captured_ns - lasted)


TOTALS = TOOL_WORDS["strace_totals"]


class CallRows:
    """Takes events in their order, gives rows and keeps the accounts of what becomes none.

    `first_pid`: pid of lines without one: the capture's, its file's, or that of the process that strace says it attached to
    first. `seen`: a call or a signal was seen.
    """

    def __init__(self, source: Source, report: Report):
        self.source, self.report = source, report
        self.first_pid = source.pid if source.pid is not None else pid_of_name(source.name)
        self.seen = False
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.tables: list[dict] = []

    def take(self, event: Event) -> Rows:
        """Rows of an event."""
        kind = event["kind"]
        if kind == "syscall":
            self.seen = True
            self.report.records += 1
            yield "syscalls", self.row(event)
        elif kind in ("message", "other"):
            failed = self._failed(event)
            if failed:
                self.report.records += 1
                yield "tool_errors", failed
            elif kind == "other" and not re.match(r"\s*\$ |\s*$", event["text"]):
                self.report.odd("no line of strace", event["text"])
            elif kind == "message":
                self.counts["messages"][next((word for word in ("attached", "detached") if word in event), "other")] += 1
                if self.first_pid is None and not self.seen:
                    self.first_pid = event.get("attached")
        elif kind == "summary":
            self.tables.append({"columns": event["columns"], "rows": event["rows"], "total": event["total"]})
            yield from self._totals(event)
        else:
            yield "signals", self.signal(event)

    def finish(self) -> None:
        """Put the accounts into the report."""
        self.report.facts |= {name: dict(found) for name, found in self.counts.items()}
        if self.tables:
            self.report.facts["summary"] = self.tables

    def signal(self, event: Event) -> dict:
        """The row of a signal, a stop, or the end of a thread."""
        kind, self.seen = event["kind"], True
        self.report.records += 1
        if kind in ("signal", "stopped"):
            self.counts["signals"][event["signal"]] += 1
        else:
            self.counts["ends"][kind] += 1
        return {
            "time": event["ns"],
            "pid": event["pid"] if event["pid"] is not None else self.first_pid,
            "kind": kind,
            "signal": event.get("signal"),
            "code": event.get("code"),
            "text": event.get("info"),
            "line": event["lines"][0],
        }

    def _totals(self, event: Event) -> Rows:
        """Rows of a summary of `strace -c`: what each call took in all, no single calls."""
        names = [TOTALS.get(name or "") for name in event["columns"]]
        for cells, line in zip(event["rows"], event["lines"][2:], strict=False):
            got = {name: cell for name, cell in zip(names, cells, strict=False) if name}
            if got.get("syscall"):
                self.report.records += 1
                cells = {name: cell for name, cell in got.items() if name != "syscall" and _FIGURE.fullmatch(cell or "")}
                figures = {name: float(cell.replace(",", ".")) for name, cell in cells.items()}
                figures |= {name: round(figures[name] * 1e6, 3) for name in ("min_us", "max_us") if name in figures}
                counts = {name: int(figures.get(name) or 0) for name in ("calls", "errors") if name in names}
                yield "syscall_totals", {"pid": self.first_pid, "syscall": got["syscall"], **figures, **counts, "line": line}

    def _failed(self, event: Event) -> dict | None:
        """The row of a message that says that strace could not do its work."""
        text = event["text"]
        if event["kind"] == "other" and "strace" not in text:
            return None
        failed = failure(Line(event["lines"][0], text, None, None), "strace", self.source)
        if failed is None and re.search(r"[Cc]ould not attach|ptrace_scope", text):
            failed = {"error": "permission", "text": text, "line": event["lines"][0]}
        named = re.search(r"ptrace\(PTRACE_\w+, (?:0x[0-9a-f]+, )?(\d{1,10})|process (\d{1,10})", text)
        return failed and failed | {"tool": "strace", "pid": int(named.group(1) or named.group(2)) if named else self.first_pid}

    def row(self, event: Event) -> dict:
        """The row of a call."""
        begin, end = event["ns"], event.get("ns_end")
        duration = float(event["duration"]) if event["duration"] is not None else None
        if duration is None and event["state"] == "merged" and begin is not None and end is not None and end >= begin:
            duration = float(end - begin) / NS  # as compiled code has it, to the last bit
        if begin is None and end is not None:
            begin = end - round((duration or 0.0) * NS)
        descriptor = _FD.match(event["args"]) if event["syscall"] in FD_FIRST else None
        return {
            "time": begin,
            "pid": event["pid"] if event["pid"] is not None else self.first_pid,
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
            "end_line": event.get("end_line"),
            "stack": "\n".join(event["stack"]) if "stack" in event else None,
        }
