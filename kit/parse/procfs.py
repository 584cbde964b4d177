"""Files of /proc about a process: status, stat, io, wchan, stack."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source, pid_of_path
from kit.parse.snapshot import Line, Samples, body_lines, failure, integer, only_failures, share, size_bytes, titled
from kit.parse.tool_words import TOOL_WORDS

TICKS_PER_S = 100
"""USER_HZ of proc(5): 100 on every Linux architecture in use."""
PAGE_BYTES = 4096
"""Page size; arm64 kernels of 64 KiB pages print smaller counts, and their rss reads too small."""

STATUS = TOOL_WORDS["proc"]["status"]
STATUS_SIZES = TOOL_WORDS["proc"]["status_sizes"]
IO = TOOL_WORDS["proc"]["io"]
KEYED = re.compile(r"^(?P<key>\w+(?:\(\w+\))?):\s*(?P<value>.*)$")
_STATUS_KEY = re.compile(
    r"^(?:Tgid|Ngid|Pid|PPid|TracerPid|FDSize|NSpid|NStgid|Vm[A-Z]\w+|Rss[A-Z]\w+|Threads|Sig\w+|Cap\w+|"
    r"(?:non)?voluntary_ctxt_switches):\s"
)
_STAT = re.compile(r"^(?P<pid>\d+) \((?P<comm>.*)\) (?P<state>[A-Za-z]) (?P<rest>-?\d+(?: -?\d+){4,})\s*$", re.DOTALL)
_IO_KEY = re.compile(r"^(?:rchar|wchar|syscr|syscw|read_bytes|write_bytes|cancelled_write_bytes):\s*\d+$")
_TASK = re.compile(r"/task/(\d+)")


def _thread_id(line: Line, source: Source) -> tuple[int | None, int]:
    """Process and thread that a title such as /proc/7/task/9/stack names; 0 stands for a thread that nobody names."""
    pid = pid_of_path(line.title) or source.pid
    task = _TASK.search(line.title or "")
    return pid, int(task.group(1)) if task else pid or 0


# --- status --------------------------------------------------------------------------------------------------------------


def parse_status(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read /proc/PID/status of one process or several, and of threads under /proc/PID/task/TID/status.

    Examples
    --------
    >>> sample = ["Name:\tsglang::schedul", "State:\tS (sleeping)", "Tgid:\t2310", "Pid:\t2310", "VmRSS:\t256901120 kB",
    ...     "Threads:\t205"]
    >>> [(frame, row["pid"], row["state"], row["rss_bytes"])
    ...     for frame, row in parse_status(sample, Source("status.txt"), Report())]
    [('processes', 2310, 'S', 263066746880)]
    """
    samples, at, got, title = Samples(source), None, {}, None
    for line in titled(lines, source, report):
        found = KEYED.match(line.text)
        if line.title != title or (found and found["key"] in got and found["key"] in ("Name", "Pid")):
            _status_row(got, at, source, report, samples)
            at, got, title = None, {}, line.title
        failed = failure(line, "status", source)
        if failed:
            yield "tool_errors", failed
        elif found:
            at = at or line
            got[found["key"]] = found["value"].strip()
        elif line.text.strip():
            report.odd("no line of /proc/PID/status", line.text)
    _status_row(got, at, source, report, samples)
    yield from samples.settle(report)


def _sigkill_pending(got: dict[str, str]) -> bool | None:
    """Whether SIGKILL was sent and not taken: bit 8 of the pending signals; None where they are not shown."""
    masks = [int(got[key], 16) for key in ("SigPnd", "ShdPnd") if re.fullmatch(r"[0-9a-fA-F]+", got.get(key, ""))]
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in masks) if masks else None


def _status_row(got: dict[str, str], at: Line | None, source: Source, report: Report, samples: Samples) -> None:
    if at is None:
        return
    row = {
        "line": at.number,
        "time": at.time,
        "tool": "status",
        "comm": got.get("Name"),
        "state": (got.get("State") or "")[:1] or None,
    }
    row |= {column: integer(got.get(key)) for key, column in STATUS.items()}
    row["sigkill_pending"] = _sigkill_pending(got)
    row |= {column: size_bytes(got[key].replace(" kB", "").strip(), 1024) for key, column in STATUS_SIZES.items() if key in got}
    process, thread = _thread_id(at, source)
    if row["pid"] is None:
        report.odd("process id not shown", at.text)
        row["pid"] = thread
    group = integer(got.get("Tgid")) or process
    if group is not None and group != row["pid"] and _TASK.search(at.title or ""):
        samples.add(
            "threads",
            {
                "pid": group,
                "tid": row["pid"],
                "comm": row["comm"],
                "state": row["state"],
                "tool": "status",
                "line": at.number,
                "time": at.time,
            },
            row["pid"],
        )
    else:
        samples.add("processes", row, row["pid"])


def _is_status(head: str) -> float:
    lines = body_lines(head)
    hits = {line.split(":")[0] for line in lines if _STATUS_KEY.match(line)}
    if not hits:
        return only_failures(head)
    return 0.97 if len(hits) >= 3 else 0.6 if share(lines, KEYED) > 0.9 else 0.0


# --- stat ----------------------------------------------------------------------------------------------------------------


def parse_stat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/stat, a line a process, and /proc/PID/task/TID/stat, a line a thread.

    The name stands in parentheses and may hold blanks and parentheses itself: it ends at the last one. Fields after it
    are those of proc(5): utime 14, stime 15, num_threads 20, starttime 22, vsize 23, rss 24, processor 39.

    Examples
    --------
    >>> sample = "2310 (a (b) c) S 2101 2310 2101 0 -1 41 30 0 53 0 511870 13400 0 0 20 0 205 0 8 353066746880 64225280"
    >>> rows = list(parse_stat([sample], Source("stat.t0.txt"), Report()))
    >>> [(row["comm"], row["cpu_s"], row["threads"], row["rss_bytes"]) for _, row in rows]
    [('a (b) c', 5252.7, 205, 263066746880)]
    """
    samples = Samples(source)
    named_task = re.search(r"task|thread", source.name.rsplit("/", 1)[-1], re.IGNORECASE)
    for line in titled(lines, source, report):
        found = _STAT.match(line.text)
        if found:
            _stat_row(found, line, bool(named_task or "/task/" in (line.title or "")), source, report, samples)
        else:
            samples.misread(line, report, "stat", "no line of /proc/PID/stat")
    yield from samples.settle(report)


def _stat_row(found: re.Match[str], line: Line, of_thread: bool, source: Source, report: Report, samples: Samples) -> None:
    fields = [int(word) for word in found["rest"].split()]
    if len(fields) < 21:
        report.odd("line of /proc/PID/stat is cut", line.text)

    def field(position: int) -> int | None:
        return fields[position - 4] if len(fields) > position - 4 and fields[position - 4] < 1 << 51 else None

    utime, stime = (None if ticks is None else ticks / TICKS_PER_S for ticks in (field(14), field(15)))
    row = {
        "comm": found["comm"],
        "state": found["state"],
        "utime_s": utime,
        "stime_s": stime,
        "cpu_s": None if utime is None or stime is None else utime + stime,
        "tool": "stat",
        **line.at,
    }
    own = int(found["pid"])
    if of_thread:
        samples.add("threads", row | {"pid": pid_of_path(line.title) or source.pid, "tid": own, "processor": field(39)}, own)
        return
    rss = field(24)
    samples.add(
        "processes",
        row
        | {
            "pid": own,
            "ppid": field(4),
            "threads": field(20),
            "start_ticks": field(22),
            "vsize_bytes": field(23),
            "rss_bytes": None if rss is None else rss * PAGE_BYTES,
            "exit_status": field(52) if found["state"] == "Z" else None,
        },
        own,
    )


def _is_stat(head: str) -> float:
    return 0.97 if share(body_lines(head), _STAT) > 0.6 else only_failures(head)


# --- io ------------------------------------------------------------------------------------------------------------------


def parse_io(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/io of one process or several.

    Examples
    --------
    >>> sample = ["==> /proc/4412/io <==", "rchar: 61000000000", "wchar: 900000", "read_bytes: 58720256000"]
    >>> [(row["pid"], row["read_bytes"]) for _, row in parse_io(sample, Source("io.t0.txt"), Report())]
    [(4412, 58720256000)]
    """
    samples, row, title = Samples(source), None, None
    for line in titled(lines, source, report):
        found = KEYED.match(line.text)
        failed = failure(line, "io", source)
        if failed:
            yield "tool_errors", failed | {"pid": pid_of_path(line.text) or pid_of_path(line.title) or source.pid}
            continue
        column = IO.get(found["key"]) if found else None
        if column:
            if row is None or line.title != title or column in row:
                pid = pid_of_path(line.title) or source.pid
                row, title = {"pid": pid, **line.at}, line.title
                samples.add("io", row, pid or 0)
            row[column] = integer(found["value"].strip())
        elif line.text.strip() and not (found and found["key"] == "cancelled_write_bytes"):
            report.odd("no line of /proc/PID/io", line.text)
    yield from samples.settle(report)


def _is_io(head: str) -> float:
    return 0.97 if share(body_lines(head), _IO_KEY) > 0.6 else only_failures(head)


# --- wchan and stack -----------------------------------------------------------------------------------------------------

_SYMBOL = r"[a-z_][a-zA-Z0-9_]*(?:\.[a-z0-9]+)*"
_WCHAN = re.compile(rf"^\s*(?:(?P<id>\d+)(?::\s*|\s+)(?:(?P<comm>\S.{{0,63}}?)\s+)?)?(?P<wchan>{_SYMBOL}|0|-)\s*$")
_SLEEPS = re.compile(
    r"wait|poll|select|sleep|schedule|pipe_|futex|lock|accept|recv|read|write|^io_|"
    r"rpc|uvm|nv_?|amdgpu|fuse|exit"
)
"""Parts of the names of the kernel functions that tasks sleep in."""


def parse_wchan(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/wchan: the bare name, under a title, as `tid: name`, or as columns `PID name wchan`.

    A `0` (not sleeping, or no right to know) is kept as a row without a wait channel.

    Examples
    --------
    >>> [(row["tid"], row["wchan"]) for _, row in parse_wchan(["==> /proc/88/wchan <==",
    ...     "pipe_write"], Source("wchan.txt"), Report())]
    [(88, 'pipe_write')]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        if re.match(r"^\s*(?:PID|TID|LWP)\b", line.text):
            continue
        for piece in re.split(r"(?<=[a-z0-9])(?=/proc/\d+)", line.text):
            found = _WCHAN.match(piece)
            failed = None if found else failure(line, "wchan", source)
            if failed:
                yield "tool_errors", failed
            elif found:
                pid, tid = _thread_id(line, source)
                own = integer(found["id"])
                samples.add(
                    "threads",
                    {
                        "pid": pid if own is None or pid else own,
                        "tid": tid if own is None else own,
                        "comm": found["comm"],
                        "wchan": None if found["wchan"] in "0-" else found["wchan"],
                        "tool": "wchan",
                        **line.at,
                    },
                    own or tid or None,
                )
            elif piece.strip():
                report.odd("no wait channel", piece)
    yield from samples.settle(report)


def _is_wchan(head: str) -> float:
    lines = [line for line in body_lines(head) if not re.match(r"^\s*(?:PID|TID|LWP)\b", line)]
    found = [_WCHAN.match(line) for line in lines]
    if not lines or not all(found):
        return only_failures(head)
    if re.search(r"/wchan( <==|:|\s*$)", head, re.MULTILINE):
        return 0.97
    known = sum(1 for match in found if "_" in match["wchan"] and _SLEEPS.search(match["wchan"]))
    return 0.85 if known > len(lines) / 2 else 0.1


_FRAME = re.compile(
    r"^\s*(?:\[<[0-9a-f]+>\]\s*)(?P<function>[\w.?]+)(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?"
    r"(?:\s+\[(?P<module>\w+)\])?\s*$"
)


def parse_stack(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/stack: the kernel frames of one thread or, under titles, of several.

    Examples
    --------
    >>> sample = ["[<0>] rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]", "[<0>] nfs_wb_page+0x12/0x90 [nfs]"]
    >>> [(row["depth"], row["function"], row["file"]) for _, row in parse_stack(sample, Source("stack.txt"), Report())]
    [(0, 'rpc_wait_bit_killable', 'sunrpc'), (1, 'nfs_wb_page', 'nfs')]
    """
    samples, depth, title = Samples(source), 0, None
    for line in titled(lines, source, report):
        depth, title = (depth, title) if line.title == title else (0, line.title)
        found = _FRAME.match(line.text)
        failed = None if found else failure(line, "stack", source)
        if failed:
            yield "tool_errors", failed | {"pid": pid_of_path(line.text) or pid_of_path(line.title) or source.pid}
        elif found and found["function"] != "0xffffffffffffffff":
            pid, tid = _thread_id(line, source)
            samples.add(
                "stacks",
                {
                    "tool": "kernel",
                    "pid": pid,
                    "tid": tid or None,
                    "depth": depth,
                    "function": found["function"],
                    "file": found["module"],
                    "native": True,
                    **line.at,
                },
                (tid, line.title) if depth == 0 else None,
            )
            depth += 1
        elif not line.text.strip():
            depth = 0
        elif not found:
            report.odd("no kernel stack frame", line.text)
    yield from samples.settle(report)


def _is_stack(head: str) -> float:
    return 0.97 if share(body_lines(head), _FRAME) > 0.6 else only_failures(head)


FORMATS = (
    Format("proc_status", r"status(?!.*ray)", _is_status, parse_status, frames=("processes", "threads", "tool_errors")),
    Format("proc_stat", r"(?<![a-z])stat(?!us|istic)", _is_stat, parse_stat, frames=("processes", "threads", "tool_errors")),
    Format("proc_io", r"(?<![a-z])io(?![a-z])", _is_io, parse_io, frames=("io", "tool_errors")),
    Format("proc_wchan", r"wchan", _is_wchan, parse_wchan, frames=("threads", "tool_errors")),
    Format("proc_stack", r"(?<![a-z])stack(?!s)", _is_stack, parse_stack, frames=("stacks", "tool_errors")),
)
