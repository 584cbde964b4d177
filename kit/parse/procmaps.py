"""What a process has mapped and may use: /proc/PID/smaps, maps, limits, and `ulimit -a`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source, pid_of_path
from kit.parse.procfs import KEYED
from kit.parse.snapshot import Samples, body_lines, share, size_bytes, titled

MAPPING = re.compile(
    r"^[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-][x-][ps] [0-9a-f]{8,} [0-9a-f]+:[0-9a-f]+ \d+(?:\s+(?P<path>\S.*))?$"
)


def parse_smaps(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/smaps or smaps_rollup: whose the memory of a process is, summed over its mappings. `labels` is the pid.

    Examples
    --------
    >>> sample = ["55e0-7ffc ---p 00000000 00:00 0    [rollup]", "Rss:   8 kB", "Pss:   2 kB"]
    >>> [(row["name"], row["labels"], row["value"])
    ...     for _, row in parse_smaps(sample, Source("smaps-rollup.pid7.t0.txt", pid=7), Report())]
    [('Rss', '7', 8192.0), ('Pss', '7', 2048.0)]
    """
    samples, sums, title = Samples(source), {}, None

    def settle() -> None:
        for row in sums.values():
            samples.add("counters", row, (row["labels"], row["name"]))
        sums.clear()

    for line in titled(lines, source, report):
        mapping, found = MAPPING.match(line.text), KEYED.match(line.text)
        if line.title != title or mapping and line.text.rstrip().endswith("[rollup]"):
            settle()
            title = line.title
        if found and found["value"].endswith("kB") and found["key"] not in PAGE_SIZES:
            pid = pid_of_path(title) or source.pid
            row = {"source": "smaps", "name": found["key"], "value": 0.0, "labels": None if pid is None else str(pid)}
            row = sums.setdefault(found["key"], row | line.at)
            row["value"] += float(size_bytes(found["value"][:-2], 1024) or 0)
        elif line.text.strip() and not found and not mapping:
            report.odd("not a line of smaps", line.text)
    settle()
    yield from samples.settle(report)


PAGE_SIZES = frozenset(("KernelPageSize", "MMUPageSize"))
"""Keys of smaps that are no amounts."""


def _is_smaps(head: str) -> float:
    lines = body_lines(head)
    return 0.98 if lines and MAPPING.match(lines[0]) and any(KEYED.match(line) for line in lines[1:4]) else 0.0


def parse_maps(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/maps: the files that a process has mapped, once each: which libraries and versions it runs.

    Examples
    --------
    >>> sample = ["7f05da5f0000-7f05da731000 r-xp 00000000 fd:00 79   /usr/lib/libnccl.so.2.27.3"]
    >>> [(row["key"], row["value"]) for _, row in parse_maps(sample, Source("maps.txt"), Report())]
    [('mapped', '/usr/lib/libnccl.so.2.27.3')]
    """
    seen: set[str] = set()
    for line in titled(lines, source, report):
        found = MAPPING.match(line.text)
        if not found:
            if line.text.strip():
                report.odd("not a line of maps", line.text)
        elif (path := found["path"] or "").startswith("/") and path not in seen:
            seen.add(path)
            report.records += 1
            pid = pid_of_path(line.title) or source.pid
            yield "host", {"source": "maps", "pid": pid, "key": "mapped", "value": path, **line.at}


def _is_maps(head: str) -> float:
    return 0.96 if share(body_lines(head), MAPPING) > 0.8 else 0.0


_LIMIT = re.compile(
    r"^(?P<name>(?:Max [a-z]+(?: [a-z]+)*?))\s{2,}(?P<soft>\d+|unlimited)\s+(?P<hard>\d+|unlimited)(?:\s+(?P<unit>\w+))?\s*$"
)
_ULIMIT = re.compile(r"^(?P<name>[a-z][a-z /-]{0,60}?[a-z])\s+(?:\((?P<unit>[^()]*)\)\s*)?(?P<value>\d+|unlimited)\s*$")


def parse_limits(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/PID/limits or `ulimit -a`: a row a limit, its name the key.

    Examples
    --------
    >>> sample = ["Limit            Soft Limit  Hard Limit  Units", "Max open files   2048        4096        files"]
    >>> [(row["key"], row["value"]) for _, row in parse_limits(sample, Source("limits.txt"), Report())]
    [('Max open files', 'soft 2048, hard 4096 files')]
    """
    for line in titled(lines, source, report):
        found, shell = _LIMIT.match(line.text), _ULIMIT.match(line.text)
        if found:
            value = f"soft {found['soft']}, hard {found['hard']} {found['unit'] or ''}".rstrip()
        elif shell:
            value = f"{shell['value']} ({shell['unit']})" if shell["unit"] else shell["value"]
        else:
            if line.text.strip() and not line.text.startswith("Limit "):
                report.odd("not a line of limits", line.text)
            continue
        report.records += 1
        key, pid = (found or shell)["name"], pid_of_path(line.title) or source.pid
        yield "host", {"source": "limits", "pid": pid, "key": key, "value": value, **line.at}


def _is_limits(head: str) -> float:
    lines = body_lines(head)
    if lines and re.match(r"^Limit\s+Soft Limit\s+Hard Limit", lines[0]):
        return 0.98
    named = sum(
        1 for line in lines if _ULIMIT.match(line) and line.startswith(("open files", "max locked memory", "core file size"))
    )
    return 0.95 if share(lines, _LIMIT) > 0.6 or named >= 2 and share(lines, _ULIMIT) > 0.6 else 0.0


FORMATS = (
    Format("smaps_rollup", r"smaps", _is_smaps, parse_smaps, frames=("counters",)),
    Format("maps", r"(?<![a-z])maps", _is_maps, parse_maps, frames=("host",)),
    Format("limits", r"limits?(?![a-z])", _is_limits, parse_limits, frames=("host",)),
)
