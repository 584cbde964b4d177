"""Files of /proc and of control groups: status, stat, io, wchan, stack, meminfo, memory.events, pressure, loadavg, vmstat."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source, pid_of_path
from kit.parse.snapshot import Line, Samples, body_lines, failure, integer, number, only_failures, share, size_bytes, titled

TICKS_PER_S = 100
"""USER_HZ of proc(5): 100 on every Linux architecture in use."""
PAGE_BYTES = 4096
"""Page size; arm64 kernels of 64 KiB pages print smaller counts, and their rss reads too small."""

STATUS = {
    "Pid": "pid",
    "PPid": "ppid",
    "Threads": "threads",
    "TracerPid": "tracer_pid",
    "voluntary_ctxt_switches": "voluntary_switches",
    "nonvoluntary_ctxt_switches": "nonvoluntary_switches",
}
STATUS_SIZES = {
    "VmSize": "vsize_bytes",
    "VmRSS": "rss_bytes",
    "RssAnon": "rss_anon_bytes",
    "RssFile": "rss_file_bytes",
    "RssShmem": "rss_shmem_bytes",
    "VmSwap": "swap_bytes",
}
IO = {
    "rchar": "rchar_bytes",
    "wchar": "wchar_bytes",
    "syscr": "read_calls",
    "syscw": "write_calls",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
}
MEMINFO = {
    "MemTotal": "total",
    "MemFree": "free",
    "MemAvailable": "available",
    "Buffers": "buffers",
    "Cached": "cache",
    "Shmem": "shared",
    "SwapTotal": "swap_total",
    "SwapFree": "swap_free",
}
_KEYED = re.compile(r"^(?P<key>\w+(?:\(\w+\))?):\s*(?P<value>.*)$")
_STATUS_KEY = re.compile(
    r"^(?:Tgid|Ngid|Pid|PPid|TracerPid|FDSize|NSpid|NStgid|Vm[A-Z]\w+|Rss[A-Z]\w+|Threads|Sig\w+|Cap\w+|"
    r"(?:non)?voluntary_ctxt_switches):\s"
)
_STAT = re.compile(r"^(?P<pid>\d+) \((?P<comm>.*)\) (?P<state>[A-Za-z]) (?P<rest>-?\d+(?: -?\d+){4,})\s*$", re.DOTALL)
_IO_KEY = re.compile(r"^(?:rchar|wchar|syscr|syscw|read_bytes|write_bytes|cancelled_write_bytes):\s*\d+$")
_MEM_KEY = re.compile(
    r"^(?:Mem|Swap|Active|Inactive|Hugepagesize|Dirty|Writeback|Slab|Cached|Buffers|Vmalloc\w+|"
    r"Shmem)[\w()]*:\s+\d+ kB$"
)
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
        found = _KEYED.match(line.text)
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
    return 0.97 if len(hits) >= 3 else 0.6 if share(lines, _KEYED) > 0.9 else 0.0


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
        failed = None if found else failure(line, "stat", source)
        if failed:
            yield "tool_errors", failed
        elif found:
            _stat_row(found, line, bool(named_task or "/task/" in (line.title or "")), source, report, samples)
        elif line.text.strip():
            report.odd("no line of /proc/PID/stat", line.text)
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
        "line": line.number,
        "time": line.time,
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
        found = _KEYED.match(line.text)
        failed = failure(line, "io", source)
        if failed:
            yield "tool_errors", failed | {"pid": pid_of_path(line.text) or pid_of_path(line.title) or source.pid}
            continue
        column = IO.get(found["key"]) if found else None
        if column:
            if row is None or line.title != title or column in row:
                pid = pid_of_path(line.title) or source.pid
                row, title = {"pid": pid, "line": line.number, "time": line.time}, line.title
                samples.add("io", row, pid or 0)
            row[column] = integer(found["value"].strip())
        elif line.text.strip() and not (found and found["key"] == "cancelled_write_bytes"):
            report.odd("no line of /proc/PID/io", line.text)
    yield from samples.settle(report)


def _is_io(head: str) -> float:
    return 0.97 if share(body_lines(head), _IO_KEY) > 0.6 else only_failures(head)


# --- wchan and stack -----------------------------------------------------------------------------------------------------

_SYMBOL = r"[a-z_][a-zA-Z0-9_]*(?:\.[a-z0-9]+)*"
_WCHAN = re.compile(rf"^\s*(?:(?P<id>\d+)(?::\s*|\s+)(?:(?P<comm>\S.*?)\s+)?)?(?P<wchan>{_SYMBOL}|0|-)\s*$")
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
                        "line": line.number,
                        "time": line.time,
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
                    "line": line.number,
                    "time": line.time,
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


# --- the host ------------------------------------------------------------------------------------------------------------


def parse_meminfo(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/meminfo. Names are those of `free` where it has one, else as printed; counts of pages are left out.

    Examples
    --------
    >>> [(row["name"], row["value_bytes"]) for _, row in parse_meminfo(["MemTotal:  1024 kB",
    ...     "Dirty: 4 kB"], Source("m"), Report())]
    [('total', 1048576), ('Dirty', 4096)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _KEYED.match(line.text)
        if found and found["value"].endswith("kB"):
            name = MEMINFO.get(found["key"], found["key"])
            samples.add(
                "host_memory",
                {"name": name, "value_bytes": size_bytes(found["value"][:-2], 1024), "line": line.number, "time": line.time},
                name,
            )
        elif line.text.strip() and not (found and found["key"].startswith("HugePages")):
            report.odd("no line of /proc/meminfo", line.text)
    yield from samples.settle(report)


def _is_meminfo(head: str) -> float:
    return 0.97 if sum(1 for line in body_lines(head) if _MEM_KEY.match(line)) >= 2 else only_failures(head)


def parse_smaps_rollup(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/smaps_rollup: whose the memory of a process is. `labels` is the pid.

    Examples
    --------
    >>> sample = ["55e0-7ffc ---p 00000000 00:00 0    [rollup]", "Rss:   8 kB", "Pss:   2 kB"]
    >>> [(row["name"], row["labels"], row["value"])
    ...     for _, row in parse_smaps_rollup(sample, Source("smaps-rollup.pid7.t0.txt", pid=7), Report())]
    [('Rss', '7', 8192.0), ('Pss', '7', 2048.0)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _KEYED.match(line.text)
        if found and found["value"].endswith("kB"):
            row = {"source": "smaps", "name": found["key"], "value": float(size_bytes(found["value"][:-2], 1024))}
            about = {"labels": str(source.pid) if source.pid is not None else None, "line": line.number, "time": line.time}
            samples.add("counters", row | about, found["key"])
        elif line.text.strip() and not line.text.rstrip().endswith("[rollup]"):
            report.odd("no line of smaps_rollup", line.text)
    yield from samples.settle(report)


def _is_smaps_rollup(head: str) -> float:
    return 0.98 if any(line.rstrip().endswith("[rollup]") for line in body_lines(head)[:2]) else 0.0


_PRESSURE = re.compile(r"^(?P<who>some|full)((?: \w+=[\d.]+)+)\s*$")
_COUNT = re.compile(r"^(?P<name>[a-z]\w*(?:\.\w+)*)[ \t:]+(?P<value>\d+|max)\s*$")
_ALONE = re.compile(r"^(?P<value>\d+|max)$")
CGROUP_KEYS = {
    "low",
    "high",
    "max",
    "oom",
    "oom_kill",
    "oom_group_kill",
    "usage_usec",
    "user_usec",
    "system_usec",
    "nr_periods",
    "nr_throttled",
    "throttled_usec",
    "under_oom",
    "oom_kill_disable",
    "anon",
    "file",
    "kernel_stack",
    "pgmajfault",
    "workingset_refault_file",
    "sock_throttled",
    "inactive_anon",
    "active_anon",
}
"""Keys of memory.events, cpu.stat and memory.stat (Documentation/admin-guide/cgroup-v2.rst), and of v1's oom_control."""


def parse_cgroup(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read control-group files: `key value` lines, a bare number, and pressure lines. `max` becomes infinity.

    Examples
    --------
    >>> rows = parse_cgroup(["oom 3", "oom_kill 1", "some avg10=0.00 total=12"], Source("memory.events.txt"), Report())
    >>> [(row["source"], row["name"], row["value"]) for _, row in rows]
    [('cgroup', 'oom', 3.0), ('cgroup', 'oom_kill', 1.0), ('pressure', 'some_avg10', 0.0), ('pressure', 'some_total', 12.0)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        labels = line.title
        row = {"source": "cgroup", "labels": labels, "line": line.number, "time": line.time}
        pressure, count, alone = _PRESSURE.match(line.text), _COUNT.match(line.text), _ALONE.match(line.text)
        failed = failure(line, "cgroup", source)
        if failed:
            yield "tool_errors", failed
        elif pressure:
            for pair in pressure.group(2).split():
                name, value = pair.split("=")
                samples.add(
                    "counters",
                    row
                    | {
                        "source": "pressure",
                        "name": f"{pressure['who']}_{name}",
                        "value": float(value),
                        "labels": labels or _file_name(source.name),
                    },
                    (labels, pressure["who"], name),
                )
        elif count or alone:
            value = (count or alone)["value"]
            name = count["name"] if count else _file_name(labels or source.name)
            samples.add(
                "counters", row | {"name": name, "value": float("inf") if value == "max" else float(value)}, (labels, name)
            )
        elif line.text.strip():
            report.odd("no line of a control-group file", line.text)
    yield from samples.settle(report)


def _file_name(path: str) -> str:
    """Name of the control-group file that a path or a capture's name tells.

    Examples
    --------
    >>> _file_name("cat /sys/fs/cgroup/memory.max"), _file_name("raw/memory.current.t0.txt")
    ('memory.max', 'memory.current')
    """
    return re.sub(r"\.t\d+(?=\.|$)|\.txt$", "", path.rsplit("/", 1)[-1])


def _is_cgroup(head: str) -> float:
    lines = body_lines(head)
    if lines and share(lines, _PRESSURE) == 1:
        return 0.97
    if share(lines, _COUNT) > 0.8 or share(lines, _ALONE) > 0.8:
        if "/sys/fs/cgroup" in head:
            return 0.97
        keys = {line.split()[0].rstrip(":") for line in lines}
        return 0.95 if len(keys & CGROUP_KEYS) >= 2 or keys & {"oom_kill"} else 0.1
    return 0.9 if lines and share(lines, _COUNT) + share(lines, _PRESSURE) + share(lines, _ALONE) > 0.9 else only_failures(head)


_LOAD = re.compile(r"^(?P<one>\d+\.\d\d) (?P<five>\d+\.\d\d) (?P<fifteen>\d+\.\d\d) (?P<running>\d+)/(?P<tasks>\d+) \d+$")
_UPTIME = re.compile(r"^.*load averages?: (?P<one>\d+[.,]\d\d),? (?P<five>\d+[.,]\d\d),? (?P<fifteen>\d+[.,]\d\d)$")


def parse_loadavg(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/loadavg or `uptime`.

    Examples
    --------
    >>> [(row["name"], row["value"]) for _, row in parse_loadavg(["8.01 7.20 3.00 9/1840 77"], Source("loadavg"), Report())][:3]
    [('load1', 8.01), ('load5', 7.2), ('load15', 3.0)]
    """
    samples = Samples(source)
    names = {"one": "load1", "five": "load5", "fifteen": "load15", "running": "running", "tasks": "tasks"}
    for line in titled(lines, source, report):
        found = _LOAD.match(line.text) or _UPTIME.match(line.text)
        if found:
            for group, value in found.groupdict().items():
                samples.add(
                    "counters",
                    {"source": "loadavg", "name": names[group], "value": number(value), "line": line.number, "time": line.time},
                    group,
                )
        elif line.text.strip():
            report.odd("no load average", line.text)
    yield from samples.settle(report)


def _is_loadavg(head: str) -> float:
    lines = body_lines(head)
    return 0.95 if lines and share(lines, _LOAD) + share(lines, _UPTIME) > 0.6 else 0.0


_VMSTAT_HEADER = re.compile(r"^\s*r\s+b\s+swpd\s+free\b")


def parse_vmstat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `vmstat N` (a line a moment) or /proc/vmstat (`key value`).

    Examples
    --------
    >>> sample = [" r  b   swpd   free", " 1  0      0  900", " 0  2      0  880"]
    >>> [(row["moment"], row["name"], row["value"])
    ...     for _, row in parse_vmstat(sample, Source("vmstat.txt"), Report()) if row["name"] == "b"]
    [(0, 'b', 0.0), (1, 'b', 2.0)]
    """
    samples, names = Samples(source), []
    for line in titled(lines, source, report):
        words = line.text.split()
        if _VMSTAT_HEADER.match(line.text):
            names = words
        elif names and len(words) >= len(names) and all(integer(word) is not None for word in words[: len(names)]):
            for name, word in zip(names, words, strict=False):
                samples.add(
                    "counters",
                    {"source": "vmstat", "name": name, "value": float(word), "line": line.number, "time": line.time},
                    name,
                )
        elif len(words) == 2 and integer(words[1]) is not None:
            samples.add(
                "counters",
                {"source": "vmstat", "name": words[0], "value": float(words[1]), "line": line.number, "time": line.time},
                words[0],
            )
        elif words and words[0] != "procs":
            report.odd("no line of vmstat", line.text)
    yield from samples.settle(report)


def _is_vmstat(head: str) -> float:
    lines = body_lines(head)
    if any(_VMSTAT_HEADER.match(line) for line in lines):
        return 0.95
    return 0.97 if sum(1 for line in lines if re.match(r"^(?:nr_|pg|numa_|thp_)\w+ \d+$", line)) > 5 else 0.0


FORMATS = (
    Format("proc_status", r"status(?!.*ray)", _is_status, parse_status, frames=("processes", "threads", "tool_errors")),
    Format("proc_stat", r"(?<![a-z])stat(?!us|istic)", _is_stat, parse_stat, frames=("processes", "threads", "tool_errors")),
    Format("proc_io", r"(?<![a-z])io(?![a-z])", _is_io, parse_io, frames=("io", "tool_errors")),
    Format("proc_wchan", r"wchan", _is_wchan, parse_wchan, frames=("threads", "tool_errors")),
    Format("proc_stack", r"(?<![a-z])stack(?!s)", _is_stack, parse_stack, frames=("stacks", "tool_errors")),
    Format("smaps_rollup", r"smaps", _is_smaps_rollup, parse_smaps_rollup, frames=("counters",)),
    Format("meminfo", r"meminfo", _is_meminfo, parse_meminfo, frames=("host_memory",)),
    Format("cgroup", r"memory\.|cgroup|cpu\.stat|pressure|pids\.", _is_cgroup, parse_cgroup, frames=("counters", "tool_errors")),
    Format("loadavg", r"loadavg|uptime", _is_loadavg, parse_loadavg, frames=("counters",)),
    Format("vmstat", r"vmstat", _is_vmstat, parse_vmstat, frames=("counters",)),
)
