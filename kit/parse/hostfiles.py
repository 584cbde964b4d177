"""Memory, load, pressure and limits of a host or control group: meminfo, memory.events, pressure, loadavg, vmstat."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.procfs import KEYED
from kit.parse.procmaps import MAPPING
from kit.parse.snapshot import Samples, body_lines, date_of, integer, number, only_failures, share, size_bytes, titled
from kit.parse.tool_words import TOOL_WORDS

MEMINFO = TOOL_WORDS["memory"]["meminfo"]
_MEM_KEY = re.compile(
    r"^(?:Mem|Swap|Active|Inactive|Hugepagesize|Dirty|Writeback|Slab|Cached|Buffers|Vmalloc\w{1,40}|"
    r"Shmem)[\w()]*:\s+\d+ kB$"
)


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
        found = KEYED.match(line.text)
        if found and found["value"].endswith("kB"):
            name = MEMINFO.get(found["key"], found["key"])
            samples.add("host_memory", {"name": name, "value_bytes": size_bytes(found["value"][:-2], 1024), **line.at}, name)
        elif line.text.strip() and not (found and found["key"].startswith("HugePages")):
            report.odd("no line of /proc/meminfo", line.text)
    yield from samples.settle(report)


def _is_meminfo(head: str) -> float:
    lines = body_lines(head)
    mapped = bool(lines) and MAPPING.match(lines[0]) is not None
    return 0.97 if not mapped and sum(1 for line in lines if _MEM_KEY.match(line)) >= 2 else only_failures(head)


_PRESSURE = re.compile(r"^(?P<who>some|full)((?: \w+=[\d.]+)+)\s*$")
_COUNT = re.compile(r"^(?P<name>[a-z]\w*(?:\.\w+)*)[ \t:]+(?P<value>\d+|max)\s*$")
_ALONE = re.compile(r"^(?P<value>\d+|max)$")
CGROUP_KEYS = frozenset(TOOL_WORDS["cgroup"]["keys"])


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
        row = {"source": "cgroup", "labels": labels, **line.at}
        pressure, count, alone = _PRESSURE.match(line.text), _COUNT.match(line.text), _ALONE.match(line.text)
        if pressure:
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
        else:
            samples.misread(line, report, "cgroup", "no line of a control-group file")
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
                samples.add("counters", {"source": "loadavg", "name": names[group], "value": number(value), **line.at}, group)
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
    samples, names, zone = Samples(source), [], ""
    for line in titled(lines, source, report):
        words = line.text.split()
        if _VMSTAT_HEADER.match(line.text):
            names = [word for word in words if word.islower() or word.isdecimal()]  # `vmstat -t` ends with the name of a zone
            zone = "Z" if words[-1] in ("UTC", "GMT") else ""
        elif names and len(words) >= len(names) and all(integer(word) is not None for word in words[: len(names)]):
            time = date_of(" ".join(words[len(names) :]) + zone, source) or line.time
            for name, word in zip(names, words, strict=False):
                row = {"source": "vmstat", "name": name, "value": float(word), "line": line.number, "time": time}
                samples.add("counters", row, name)
        elif len(words) == 2 and integer(words[1]) is not None:
            samples.add("counters", {"source": "vmstat", "name": words[0], "value": float(words[1]), **line.at}, words[0])
        elif words and words[0] != "procs":
            report.odd("no line of vmstat", line.text)
    yield from samples.settle(report)


def _is_vmstat(head: str) -> float:
    lines = body_lines(head)
    if any(_VMSTAT_HEADER.match(line) for line in lines):
        return 0.95
    return 0.97 if sum(1 for line in lines if re.match(r"^(?:nr_|pg|numa_|thp_)\w+ \d+$", line)) > 5 else 0.0


FORMATS = (
    Format("meminfo", r"meminfo", _is_meminfo, parse_meminfo, frames=("host_memory",)),
    Format("cgroup", r"memory\.|cgroup|cpu\.stat|pressure|pids\.", _is_cgroup, parse_cgroup, frames=("counters", "tool_errors")),
    Format("loadavg", r"loadavg|uptime", _is_loadavg, parse_loadavg, frames=("counters",)),
    Format("vmstat", r"vmstat", _is_vmstat, parse_vmstat, frames=("counters",)),
)
