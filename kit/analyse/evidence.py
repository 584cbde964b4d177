"""All evidence of a run, gathered in one pass: what every analysis starts from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from kit.analyse.logdigest import LogDigest
from kit.run import Run
from kit.schema import Row

KEPT = (
    "processes",
    "threads",
    "io",
    "fds",
    "sockets",
    "probes",
    "gpus",
    "gpu_processes",
    "kernel_log",
    "stacks",
    "tool_errors",
    "locks",
    "sizes",
    "filesystems",
    "host_memory",
    "counters",
    "events",
    "collectives",
    "commands",
    "host",
)
"""Frames that are small enough to hold; the sampler's series are thinned to the first and the last samples."""
EDGE_SAMPLES = 3
"""Samples kept from each end of a series: rates need two, the third tells a blip from a state."""


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
        if row.get("state") in ("open", "cut", "detached"):
            self.open[pid] = row
        else:
            self.open.pop(pid, None)
        returned = row.get("ret") or ""
        if row["syscall"] == "write" and returned.isdigit() and int(returned) <= 8:
            self.small_writes[pid] += 1
        if row["syscall"] in ("read", "pread64", "readv", "preadv") and returned.isdigit() and int(returned) >= 4096:
            self.file_reads += 1


@dataclass
class Evidence:
    """The gathered evidence. Lists of rows by frame, digests of the long sources, and the run they came from."""

    run: Run
    log: LogDigest = field(default_factory=LogDigest)
    syscalls: SyscallDigest = field(default_factory=SyscallDigest)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in KEPT})

    def __getattr__(self, name: str) -> list[Row]:
        rows = self.__dict__.get("rows", {})
        if name in rows:
            return rows[name]
        raise AttributeError(name)

    def has(self, *frames: str) -> bool:
        """Whether any of these frames has rows."""
        return any(self.rows[name] for name in frames)


class _Edges:
    """Keeps all rows of the first and last few moments of a series."""

    def __init__(self, kept: list[Row]):
        self.kept = kept
        self.first: list[int] = []
        self.late: dict[int, list[Row]] = {}

    def __call__(self, row: Row) -> None:
        moment = row.get("moment")
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


def gather(run: Run) -> Evidence:
    """Read a run once and gather what the analyses need.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Evidence
    """
    evidence = Evidence(run)
    edges = {name: _Edges(evidence.rows[name]) for name in KEPT}
    run.scan({"log": evidence.log.add, "syscalls": evidence.syscalls.add, **edges})
    for edge in edges.values():
        edge.finish()
    return evidence


def ref(row: Row, text: str | None = None) -> dict:
    """Where a row stands, for the list of evidence."""
    return {"capture": row["capture"], "line": row.get("line"), "text": text}
