"""All evidence of a run, gathered in one pass: what every analysis starts from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.analyse.verdict.log_digest import LogDigest, log_of
from kit.frames import FRAMES
from kit.parse.sampler import EDGE_SAMPLES
from kit.run import Run
from kit.schema import Row, rows_of

if TYPE_CHECKING:
    import pyarrow

KEPT = tuple(name for name, frame in FRAMES.items() if frame.keep)
LONG_LIVED = 5
"""Samples that a process was in for its end to be kept."""
SERIES = ("processes", "threads", "io")
"""Frames of which only the judged window counts."""


UNRETURNED = ("open", "cut", "detached")
READS, READ_BYTES = ("read", "pread64", "readv", "preadv"), 4096
SMALL_BYTES = 8
"""A read of a file is of a page or more; a wake-up writes a byte, to an eventfd eight."""


@dataclass
class SyscallDigest:
    """What strace showed: who never came back, who does what how often."""

    calls: int = 0
    open: dict = field(default_factory=dict)
    by_thread: dict = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    first: int | None = None
    last: int | None = None
    small_writes: dict = field(default_factory=lambda: defaultdict(int))
    file_reads: int = 0
    samples: dict = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Take one row of frame `syscalls`."""
        self.calls += 1
        pid = row.get("pid")
        when = row.get("time")
        if when is not None:
            self.first = when if self.first is None else min(self.first, when)
            self.last = when if self.last is None else max(self.last, when)
        self.by_thread[pid][row["syscall"]] += 1
        self.samples.setdefault((pid, row["syscall"]), row)
        if row.get("state") in UNRETURNED:
            self.open[pid] = row
        else:
            self.open.pop(pid, None)
        returned = row.get("ret") or ""
        if row["syscall"] == "write" and returned.isdecimal() and int(returned) <= SMALL_BYTES:
            self.small_writes[pid] += 1
        if row["syscall"] in READS and returned.isdecimal() and int(returned) >= READ_BYTES:
            self.file_reads += 1

    def add_table(self, table: pyarrow.Table) -> None:
        """Take many rows at once: what `add` makes of them, without a look at each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def sizes(calls: pyarrow.Table) -> pyarrow.Table:
            return calls.filter(pc.match_substring_regex(calls["ret"], "^[0-9]{1,18}$"))

        def one(at: int) -> Row:
            return next(rows_of(table.slice(at, 1)))

        self.calls += len(table)
        known = pc.min_max(table["time"].cast("int64"))
        first, last = known["min"].as_py(), known["max"].as_py()
        if first is not None:
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)
        numbered = table.select(["pid", "syscall"]).append_column("at", pa.array(range(len(table))))
        by_call = numbered.group_by(["pid", "syscall"]).aggregate([("at", "min"), ("at", "count")]).sort_by("at_min")
        for found in by_call.to_pylist():
            self.by_thread[found["pid"]][found["syscall"]] += found["at_count"]
            if (found["pid"], found["syscall"]) not in self.samples:
                self.samples[found["pid"], found["syscall"]] = one(found["at_min"])
        for found in numbered.group_by(["pid"]).aggregate([("at", "max")]).sort_by("at_max").to_pylist():
            self.open.pop(found["pid"], None)
            if table["state"][found["at_max"]].as_py() in UNRETURNED:
                self.open[found["pid"]] = one(found["at_max"])
        writes = sizes(table.filter(pc.equal(table["syscall"], "write")))
        small = writes.filter(pc.less_equal(writes["ret"].cast("int64"), SMALL_BYTES))
        for pid, count in Counter(small["pid"].to_pylist()).items():
            self.small_writes[pid] += count
        reads = sizes(table.filter(pc.is_in(table["syscall"], pa.array(READS, pa.large_string()))))
        self.file_reads += pc.sum(pc.greater_equal(reads["ret"].cast("int64"), READ_BYTES)).as_py() or 0


@dataclass(frozen=True)
class Foreign:
    """A row that is not about the launch, of which frame, and why."""

    frame: str
    row: Row
    why: str


class _RowsOf:
    """The rows of the frame that the attribute is named after."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, evidence: Evidence, owner: type | None = None) -> list[Row]:
        return evidence.rows[self.name]


@dataclass
class Evidence:
    """The gathered evidence. Lists of rows by frame, digests of the long sources, and the run they came from.

    `foreign` holds what is about something else (`kit.analyse.verdict.attribution`).
    """

    run: Run
    log: LogDigest = field(default_factory=LogDigest)
    syscalls: SyscallDigest = field(default_factory=SyscallDigest)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in KEPT})
    later: int = 0
    """Rows that were left out because they are later than the moment asked for."""
    foreign: list[Foreign] = field(default_factory=list)

    processes = _RowsOf()
    threads = _RowsOf()
    io = _RowsOf()
    fds = _RowsOf()
    sockets = _RowsOf()
    probes = _RowsOf()
    gpus = _RowsOf()
    gpu_processes = _RowsOf()
    kernel_log = _RowsOf()
    stacks = _RowsOf()
    tool_errors = _RowsOf()
    locks = _RowsOf()
    sizes = _RowsOf()
    filesystems = _RowsOf()
    host_memory = _RowsOf()
    counters = _RowsOf()
    events = _RowsOf()
    collectives = _RowsOf()
    syscall_totals = _RowsOf()
    commands = _RowsOf()
    statements = _RowsOf()
    host = _RowsOf()

    def has(self, *frames: str) -> bool:
        """Whether any of these frames has rows."""
        return any(self.rows[name] for name in frames)


class _Edges:
    """Keeps all rows of the first and last few moments of a series, the ends of processes that had lived for long, and zombies.

    Rows from before `since` are passed over: a triage judges the last seconds.
    """

    def __init__(self, kept: list[Row], since: int | None = None):
        self.kept, self.since = kept, since
        self.seen: dict[int | None, int] = defaultdict(int)
        self.ended: list[Row] = []
        self.zombies: set[int] = set()
        self.counts: dict[tuple, Row] = {}
        self.first: list[int] = []
        self.late: dict[int, list[Row]] = {}

    def __call__(self, row: Row) -> None:
        moment = row.get("moment")
        if row.get("tool") == "sampler" and "ppid" not in row and row.get("state") == "X":
            if self.seen[row["pid"]] >= LONG_LIVED:  # compilers come and go
                self.ended.append(row)
            return
        self.seen[row.get("pid")] += 1
        if row.get("exit_status") is not None and row["pid"] not in self.zombies:  # what ended it is told while it is one
            self.zombies.add(row["pid"])
            self.ended.append(row)
            return
        if row.get("name") == "oom_kill":  # read seldom, and decides at the end
            self.counts[row["source"], row.get("labels")] = row
        if self.since is not None and row.get("time") is not None and row["time"] < self.since:
            return
        if moment is None or moment in self.first:
            self.kept.append(row)
        elif len(self.first) < EDGE_SAMPLES and not self.late:
            self.first.append(moment)
            self.kept.append(row)
        else:
            self.late.setdefault(moment, []).append(row)
            if len(self.late) > EDGE_SAMPLES:
                del self.late[min(self.late)]

    def finish(self) -> None:
        """Put the last moments behind the first."""
        for moment in sorted(self.late):
            self.kept.extend(self.late[moment])
        self.kept.extend(self.ended)
        self.kept.extend(row for row in self.counts.values() if row not in self.kept)


def gather(
    run: Run,
    also: Mapping[str, Callable[[Row], None]] | None = None,
    without_logs: Container[str] = frozenset(),
    attempts: Mapping[str, int] | None = None,
) -> Evidence:
    """Read a run once and gather what the analyses need; `also` is handed each row of its frames before it is kept.

    `without_logs`: logs that are left out. `attempts`: by log that holds several launches, which of them is kept.
    `kit.analyse.verdict.scene.scene_of_run` keeps what was gathered with the run.
    """
    evidence = Evidence(run)
    since = run.judged_from_ns
    edges = {name: _Edges(evidence.rows[name], since if name in SERIES else None) for name in KEPT}
    own: dict[str, Callable] = {
        "log": _without(without_logs, attempts or {}, evidence.log.add),
        "log_skipped": _without(without_logs, attempts or {}, evidence.log.skip),
        "syscalls": evidence.syscalls.add,
        **edges,
    }
    if run.as_of_ns is None and "syscalls" not in (also or {}):
        own["syscall_tables"] = evidence.syscalls.add_table
    taken = own | {name: _both(take, own.get(name)) for name, take in (also or {}).items()}
    whole = bool({"threads", "fds", "sockets"} & (also or {}).keys())
    run.scan(taken, since if "threads" not in (also or {}) else None, edges=not whole)
    evidence.later = run.cursor.later if run.cursor else 0
    for edge in edges.values():
        edge.finish()
    if not evidence.stacks:  # nobody took one: what Ctrl-C printed tells where it stood
        for number, frames in enumerate(evidence.log.interrupted[::-1]):  # a parent prints its own behind those of its children
            taken_by = {"tool": "traceback", "thread": f"traceback {number}" if number else "MainThread"}
            evidence.stacks.extend({**row, **taken_by, "depth": depth} for depth, row in enumerate(frames))
    return evidence


def _without(logs: Container[str], attempts: Mapping[str, int], take: Callable[[Row], None]) -> Callable[[Row], None]:
    """A consumer that passes over the rows of some logs, and over those of all but one launch in others."""

    def kept(row: Row) -> None:
        log, attempt = log_of(row), row.get("attempt") or 0
        if log not in logs and attempt == attempts.get(log, attempt):
            take(row)

    return kept if logs or attempts else take


def _both(first: Callable[[Row], None], second: Callable[[Row], None] | None) -> Callable[[Row], None]:
    """One consumer that hands each row to two."""
    if second is None:
        return first

    def take(row: Row) -> None:
        first(row)
        second(row)

    return take


def ref(row: Row, text: str | None = None) -> dict:
    """Where a row stands, for the list of evidence."""
    return {"capture": row["capture"], "line": row.get("line"), "text": text}
