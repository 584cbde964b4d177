"""The sampler's JSON lines (kit/capture/sampler/script.py): processes, threads, descriptors, sockets and host, once an interval.

What did not change since the sample before is not printed again; it is carried forward here, so that every sample has a row
for each process and thread. A sample whose `done` line is missing was cut: the lines that came are given, its threads are
not, for they may be stale, and nothing is carried over it. A file may hold several heads: a sampler was started anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kit.parse import sampler_rows
from kit.parse.base import Format, Report, Source
from kit.parse.syscall_names import syscall_name
from kit.schema import Row
from kit.untrusted import WRONG_FORM, load_json

Line = dict[str, Any]

ALONE: dict[str, Callable[[Line, Row], Iterator[tuple[str, Row]]]] = {
    "sockets": sampler_rows.sockets,
    "counters": sampler_rows.counters,
    "env": sampler_rows.environment,
    "limits": sampler_rows.limits,
    "locks": sampler_rows.locks,
    "sizes": sampler_rows.sizes,
    "disks": sampler_rows.disks,
    "hung": sampler_rows.hung,
    "left_out": sampler_rows.left_out,
}
"""Lines that stand for themselves."""
HEAD_MARK = '"format":"stallkit-sampler"'
STATES = frozenset("RSDTtZXxIKWP")
CARRIED_FROM = 2
"""Version of the lines in which processes and the host name only what changed."""
EDGE_SAMPLES = 3
"""Samples that a judgement keeps from each end of a series: rates need two, the third tells a blip from a state."""


class _Edges:
    """Rows of the first and of the last few moments of a series; those between are never made."""

    def __init__(self) -> None:
        self.first: list[int | None] = []
        self.late: dict[int | None, list[Callable[[], Iterator[tuple[str, Row]]]]] = {}

    def take(self, moment: int | None, make: Callable[[], Iterator[tuple[str, Row]]]) -> Iterator[tuple[str, Row]]:
        if moment in self.first or len(self.first) < EDGE_SAMPLES and not self.late:
            self.first += [moment] * (moment not in self.first)
            yield from make()
            return
        self.late.setdefault(moment, []).append(make)
        if len(self.late) > EDGE_SAMPLES:
            del self.late[next(iter(self.late))]

    def rest(self) -> Iterator[tuple[str, Row]]:
        for makers in self.late.values():
            for make in makers:
                yield from make()


@dataclass(slots=True)
class _Stretch:
    """Samples in which a thread was the same; `line` is where it was printed first."""

    pid: int
    line: int
    row: list
    first: int
    time: int | None
    moment: int | None
    last: int = -1


class _Stretches:
    """Threads as stretches of whole samples: work only for what was printed, not for every thread in every sample."""

    def __init__(self) -> None:
        self.count = 0
        self.touched: dict[int, set[int]] = {}
        self._open: dict[int, dict[int, _Stretch]] = {}
        self._ended: list[_Stretch] = []

    def sample(self, present: list[int], threads: dict[int, dict], time: int | None, moment: int | None) -> None:
        """Take a whole sample: the processes in it, and their threads as last printed."""
        for pid in self._open.keys() - set(present):
            self._end(*self._open.pop(pid).values())
        for pid in present:
            own, kept = self._open.get(pid), threads.get(pid, {})
            touched = self.touched.get(pid, ()) if own is not None else tuple(kept)
            own = self._open.setdefault(pid, {})
            for tid in touched:
                before, now = own.get(tid), kept.get(tid)
                if before is not None and now is not None and before.row == now[1]:
                    continue
                if before is not None:
                    self._end(own.pop(tid))
                if now is not None:
                    own[tid] = _Stretch(pid, now[0], now[1], self.count, time, moment)
        self.touched = {}
        self.count += 1

    def _end(self, *stretches: _Stretch) -> None:
        for stretch in stretches:
            stretch.last = self.count - 1
            self._ended.append(stretch)

    def end_all(self) -> None:
        """End all with the last whole sample: the file ends, or lines may be missing."""
        for own in self._open.values():
            self._end(*own.values())
        self._open, self.touched = {}, {}

    def ended(self) -> list[_Stretch]:
        """Those that ended since this was asked last."""
        ended, self._ended = self._ended, []
        return ended


class _Reader:
    """State while reading: the head, the current sample, threads as last printed."""

    def __init__(self, source: Source, report: Report):
        self.source, self.report = source, report
        self.hz, self.machine = 100, "x86_64"
        self.boot_ns: int | None = None
        self.moment: int | None = None
        self.time: int | None = None
        self.threads: dict[int, dict[int, tuple[int, list]]] = {}
        self.present: list[int] = []
        self.roots: set[int] = set()
        self.commands: dict[int, str] = {}
        self.started: set[int] = set()
        self.refused: set[tuple[int, str]] = set()
        self.open = False
        self.version = 1
        self.last: dict[int | None, Line] = {}
        self.links: dict[int, list] = {}
        self.edges = {name: _Edges() for name in ("threads", "fds", "sockets")} if source.series == "edges" else {}
        self.stretches, self.tables = _Stretches(), sampler_rows.Descriptors()
        self.kinds: dict[str, Callable[[Line, int], Iterator[tuple[str, Row]]]] = {
            "head": self.head,
            "sample": self.sample,
            "proc": self.process,
            "threads": self.thread_rows,
            "fds": self.descriptors,
            "gone": self.gone,
            "host": self.host,
            "tool": self.program,
            "stack": self.stack,
            "done": self.done,
            "end": self.end,
        }
        for kind, rows in ALONE.items():
            self.kinds[kind] = partial(self.alone, kind, rows)

    def alone(self, kind: str, rows: Callable, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        return self.edge(kind, partial(rows, entry, self.base(line)))

    def base(self, line: int) -> Row:
        return {"time": self.time, "moment": self.moment, "line": line}

    def edge(self, frame: str, make: Callable[[], Iterator[tuple[str, Row]]]) -> Iterator[tuple[str, Row]]:
        """Rows of a line; where only those of the first and last samples are wanted, others are not made."""
        if frame not in self.edges:
            return make()
        until = self.source.edges_until_ns
        if until is not None and self.time is not None and self.time > until:
            return iter(())
        return self.edges[frame].take(self.moment, make)

    def head(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        self.forget_all()
        self.hz, self.version = int(entry.get("hz") or 100), int(entry.get("version") or 1)
        self.machine = entry.get("machine") or "x86_64"
        up_ns = entry.get("mono_ns") if entry.get("by") == "awk" else entry.get("boottime_ns")
        self.boot_ns = entry["wall_ns"] - up_ns if up_ns and entry.get("wall_ns") else None
        self.roots = set(entry.get("roots") or ())
        self.report.facts.update({key: entry.get(key) for key in ("interval_s", "samples", "roots", "uid", "cpus")})
        for key in ("machine", "kernel", "cpus", "pid_ns"):
            if entry.get(key) is not None:
                yield (
                    "host",
                    {"source": "uname", "key": key, "value": str(entry[key]), "line": line, "time": entry.get("wall_ns")},
                )

    def forget_all(self) -> None:
        """Carry nothing over a cut: lines may be missing."""
        if self.open:
            self.report.odd("sample without its end", f"sample {self.moment}")
        self.open = False
        self.stretches.end_all()
        self.threads, self.last, self.links = {}, {}, {}

    def carried(self, key: int | None, entry: Line) -> Line:
        """A line with what it left out since it did not change; `key` is the pid, None for the host."""
        whole = self.version < CARRIED_FROM or entry.get("all")
        now = entry if whole else _merged(self.last.get(key) or {}, entry)
        self.last[key] = now
        return now

    def sample(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        if self.open and self.version < CARRIED_FROM:
            self.report.odd("sample without its end", f"sample {self.moment}")
        elif self.open:
            self.forget_all()
        self.moment, self.time, self.present, self.open = int(entry["n"]), entry.get("wall_ns"), [], True
        yield from ()

    def process(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        pid, command = int(entry["pid"]), entry.get("cmd")
        self.present.append(pid)
        if command:
            self.commands[pid] = " ".join(command)
        entry = self.carried(pid, entry)
        if not {"utime", "stime"} <= entry.keys():
            self.report.odd("changes of a process whose first line is missing", f"process {pid}")
            return
        status = entry.get("status") or {}
        utime, stime = entry["utime"] / self.hz, entry["stime"] / self.hz
        yield (
            "processes",
            {
                **self.base(line),
                "pid": pid,
                "ppid": entry.get("ppid"),
                "state": _state(entry.get("state")),
                "comm": entry.get("comm"),
                "cmdline": self.commands.get(pid),
                "user": _owner(status.get("Uid")),
                "threads": entry.get("threads"),
                "fds": entry.get("fds"),
                "start_ticks": entry.get("start"),
                "utime_s": utime,
                "stime_s": stime,
                "cpu_s": round(utime + stime, 6),
                "vsize_bytes": entry.get("vsize"),
                "rss_bytes": entry.get("rss"),
                "rss_anon_bytes": status.get("RssAnon"),
                "rss_file_bytes": status.get("RssFile"),
                "rss_shmem_bytes": status.get("RssShmem"),
                "swap_bytes": status.get("VmSwap"),
                "voluntary_switches": status.get("voluntary_ctxt_switches"),
                "nonvoluntary_switches": status.get("nonvoluntary_ctxt_switches"),
                "wchan": entry.get("wchan"),
                "tracer_pid": status.get("TracerPid"),
                "cgroup": entry.get("cgroup"),
                "exit_status": entry.get("exit"),
                "container_pid": _container_pid(status.get("NSpid")),
                "tool": "sampler",
            },
        )
        if entry.get("io"):
            yield "io", sampler_rows.io(entry, self.base(line))
        if command and pid in self.roots and pid not in self.started:
            self.started.add(pid)
            yield "commands", {"time": self.time, "text": self.commands[pid], "program": _program(command), "line": line}
        if entry.get("denied"):
            self.report.facts.setdefault("denied", sorted(entry["denied"]))
            yield from self._refused(pid, line, "permission", f"not permitted to read {', '.join(entry['denied'])}")
        if entry.get("hung"):
            yield from self._refused(pid, line, "timeout", "reading its command line hung: a thread holds the memory map's lock")

    def _refused(self, pid: int, line: int, error: str, text: str) -> Iterator[tuple[str, Row]]:
        """One row for each process and reason, not one a sample."""
        if (pid, error) not in self.refused:
            self.refused.add((pid, error))
            yield "tool_errors", {"time": self.time, "tool": "sampler", "pid": pid, "error": error, "text": text, "line": line}

    def thread_rows(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        pid = int(entry["pid"])
        kept, touched = self.threads.setdefault(pid, {}), self.stretches.touched.setdefault(pid, set())
        if entry.get("all"):
            touched.update(kept)
            kept.clear()
        for tid in entry.get("ended") or ():
            kept.pop(tid, None)
            touched.add(tid)
        for row in entry["rows"]:
            kept[row[0]] = (line, _checked(row))
            touched.add(row[0])
        if entry.get("left_out"):
            yield from sampler_rows.left_out(entry, self.base(line))

    def _thread(self, pid: int, base: Row, row: list) -> Row:
        tid, state, utime, stime, processor, wchan, call, arguments, comm, run, wait, slices = row
        name = syscall_name(int(call), self.machine) if call and call.isdecimal() else "running" if call == "running" else None
        return {
            **base,
            "pid": pid,
            "tid": tid,
            "comm": comm,
            "state": _state(state),
            "wchan": wchan,
            "syscall": name,
            "syscall_args": arguments,
            "utime_s": utime / self.hz,
            "stime_s": stime / self.hz,
            "cpu_s": round((utime + stime) / self.hz, 6),
            "processor": processor,
            "tool": "sampler",
            "run_s": None if run is None else run / 1e9,
            "wait_s": None if wait is None else wait / 1e9,
            "slices": slices,
        }

    def descriptors(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        pid = int(entry["pid"])
        if entry.get("all"):
            self.links[pid] = []
        if entry.get("same"):
            entry = {**entry, "rows": self.links.get(pid) or ()}
        elif self.version >= CARRIED_FROM:
            self.links.setdefault(pid, []).extend(entry["rows"])
        if self.source.series == "changes" and entry["rows"]:
            yield "fds", self.tables.made(pid, entry["rows"], self.base(line), self.source.name)
            return
        yield from self.edge("fds", partial(sampler_rows.descriptors, entry, self.base(line)))

    def gone(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        pid = int(entry["pid"])
        self.stretches.touched.setdefault(pid, set()).update(self.threads.get(pid, ()))
        for kept in (self.threads, self.last, self.links):
            kept.pop(pid, None)
        yield (
            "processes",
            {
                **self.base(line),
                "pid": pid,
                "state": "X",
                "comm": entry.get("comm"),
                "cmdline": self.commands.pop(pid, None),
                "tool": "sampler",
            },
        )

    def host(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        yield from sampler_rows.host(self.carried(None, entry), self.base(line))

    def program(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        yield from sampler_rows.program(entry, self.base(line), self.source, self.report, self.boot_ns)

    def stack(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        yield from sampler_rows.stack(entry, self.base(line), self.source, self.report)

    def done(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        self.open = False
        self.report.facts["samples_read"] = self.report.facts.get("samples_read", 0) + 1
        wanted_from, series = self.source.threads_from_ns, self.source.series
        if series != "edges":
            yield "samples", {**self.base(line), "sample": self.stretches.count, "took_s": entry.get("took_s")}
            yield from self._changes()
        if series == "changes" or wanted_from is not None and self.time is not None and self.time < wanted_from:
            return
        present = [(pid, self.threads.get(pid, {})) for pid in self.present]
        if self.edges:
            present = [(pid, dict(threads)) for pid, threads in present]
        yield from self.edge("threads", partial(self._threads, present, self.base(line)))

    def _threads(self, present: list[tuple[int, dict]], base: Row) -> Iterator[tuple[str, Row]]:
        """Rows of all threads in a sample."""
        for pid, threads in present:
            for line, row in threads.values():
                yield "threads", self._thread(pid, {**base, "line": line}, row)

    def _changes(self) -> Iterator[tuple[str, Row]]:
        """Stretches of samples without a change that ended before this sample."""
        self.stretches.sample(self.present, self.threads, self.time, self.moment)
        for stretch in self.stretches.ended():
            yield "thread_changes", self._stretch(stretch)

    def _stretch(self, stretch: _Stretch) -> Row:
        base = {"time": stretch.time, "moment": stretch.moment, "line": stretch.line}
        numbers = {"first_sample": stretch.first, "last_sample": stretch.last}
        return {**self._thread(stretch.pid, base, stretch.row), **numbers}

    def rest(self) -> Iterator[tuple[str, Row]]:
        """What stands at the end of the file: the last samples, and stretches that had not ended."""
        for edges in self.edges.values():
            yield from edges.rest()
        self.stretches.end_all()
        for stretch in self.stretches.ended():
            yield "thread_changes", self._stretch(stretch)

    def end(self, entry: Line, line: int) -> Iterator[tuple[str, Row]]:
        self.report.facts["end"] = entry.get("why")
        yield from ()


def _state(letter: str | None) -> str | None:
    return letter if letter in STATES else None


def _checked(row: list) -> list:
    """The row of a thread; an error of `WRONG_FORM` where it is none: at its line, not where a stretch of samples ends."""
    _, state, utime, stime, _, _, call, _, _, run, wait, _ = row
    if utime + stime + (run or 0) + (wait or 0) < 0 or call and not call.isascii():
        raise ValueError(row)
    return row if _state(state) else [row[0], None, *row[2:]]


def _owner(uids: object) -> str | None:
    """Real user id of the Uid line: the number, for names are the host's own affair."""
    words = str(uids).split() if uids is not None else []
    return words[0] if words else None


def _container_pid(numbers: object) -> int | None:
    """Innermost of the pids that a process has; None where it has one only."""
    words = str(numbers).split() if numbers is not None else []
    return int(words[-1]) if len(words) > 1 else None


def _merged(before: Line, changed: Line) -> Line:
    """Entries of a line over those of the line before, dicts in it alike."""
    now = dict(before)
    for name, value in changed.items():
        old = now.get(name)
        now[name] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return now


def _program(argv: list[str]) -> str | None:
    """First word, or the module after `python -m`, or the script that Python runs."""
    words = argv[0].split() if len(argv) == 1 else argv
    if not words:
        return None
    first = words[0].rsplit("/", 1)[-1]
    if first.startswith("python") and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            return words[2]
        return words[1].rsplit("/", 1)[-1] if not words[1].startswith("-") else first
    return first


def parse(lines: Iterable[str], source: Source, report: Report) -> Iterator[tuple[str, Row]]:
    r"""Read the sampler's lines.

    Yields
    ------
    tuple of (str, dict)
        Rows of processes, threads, thread_changes, samples, io, fds, sockets, host_memory, counters, host, commands, locks,
        sizes, filesystems, gpus, gpu_processes, kernel_log, stacks and tool_errors; `moment` is the number of the sample, `time`
        its wall clock. A process that vanished has one row in state X.

    Examples
    --------
    >>> sample = ['{"k":"head","format":"stallkit-sampler","version":1,"hz":100,"machine":"x86_64","roots":[7]}',
    ...     '{"k":"sample","n":0,"wall_ns":1000}',
    ...     '{"k":"threads","n":0,"pid":7,"all":true,"rows":[[7,"S",5,1,0,"futex_do_wait","202","0x1",'
    ...     '"python",900,10,3]]}',
    ...     '{"k":"proc","n":0,"pid":7,"state":"S","comm":"python","utime":5,"stime":1}', '{"k":"done","n":0}']
    >>> for frame, row in parse(sample, Source("raw/sampler.jsonl"), Report()):
    ...     if "pid" in row:
    ...         print(frame, row["pid"], row["state"], row["cpu_s"], row.get("syscall"))
    processes 7 S 0.06 None
    threads 7 S 0.06 futex
    thread_changes 7 S 0.06 futex
    """
    reader = _Reader(source, report)
    bad = None
    for number, line in enumerate(lines, 1):
        report.lines = number
        if not line.strip():
            continue
        if bad is not None:
            report.odd("line that is not a sampler record", bad)
            bad = None
        try:
            entry = load_json(line)
            rows = list(reader.kinds[entry["k"]](entry, number))
        except WRONG_FORM:
            bad = line
            continue
        report.records += 1
        yield from rows
    yield from reader.rest()
    if bad is not None or reader.open:
        report.facts["cut"] = True
        report.odd("the last sample is cut", bad or f"sample {reader.moment}")


def looks_like(head: str) -> float:
    """Certain where the first line is the sampler's head."""
    first = head.lstrip().split("\n", 1)[0]
    return 1.0 if HEAD_MARK in first.replace('": "', '":"') else 0.0


_FRAMES = (
    "processes threads thread_changes samples io fds sockets host host_memory counters commands locks sizes filesystems "
    "stacks gpus gpu_processes kernel_log tool_errors"
)
FORMATS = (Format("sampler", r"sampler.*\.jsonl$", looks_like, parse, frames=tuple(_FRAMES.split())),)
