"""Recordings of atop: `-J ALL` (a JSON object a line and sample) and `-P ALL` (a line a figure), brought to one form."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import SECOND_NS
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

SECTOR_BYTES = 512
"""Unit of atop's disk transfers, whatever the device's sector is (atop(1), PRD)."""
KIB = 1024
NOT_MEASURED = -3
Sample = dict[str, Any]

COLUMNS = TOOL_WORDS["atop"]["columns"]
PAGES = frozenset(
    ("physmem", "freemem", "cachemem", "buffermem", "slabmem", "cachedrt", "slabreclaim", "shmem", "totswap", "freeswap")
)
MEMORY = TOOL_WORDS["memory"]["atop"]
PRESSURE = TOOL_WORDS["atop"]["pressure"]
VMSTAT = ("oomkills", "swins", "swouts", "pgscans", "allocstall")
STATES = {"E": "X"}
"""atop's letter for a process that ended in the interval, as the kernel writes it."""
_CLOSED = re.compile(r"\)(?= [A-Z] (?:-?\d|[ny] )| \d+(?: -?\d+){2}|$)")
"""Where a name ends that may hold ") " itself: a state letter and a figure follow, or figures alone, or nothing."""
_HEAD = re.compile(r"^(?P<label>[A-Z]{3}) \S+ (?P<epoch>\d{6,12}) \d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?P<elapsed>\d+) ?(?P<rest>.*)$")


def _words(rest: str) -> list[str]:
    """Words of a line of `-P`; what stands in parentheses, a name with blanks and parentheses in it, is one word.

    Examples
    --------
    >>> _words("5 (tmux: server) S 0 (a (b) c) 7 1 1")
    ['5', 'tmux: server', 'S', '0', 'a (b) c', '7', '1', '1']
    """
    words, at = [], 0
    while at < len(rest):
        if rest[at] == "(":
            closed = _CLOSED.search(rest, at)
            end = (closed.start() if closed else len(rest)) - at
            words.append(rest[at + 1 : at + end])
            at += end + 2
        else:
            word, _, _ = rest[at:].partition(" ")
            words.append(word)
            at += len(word) + 1
    return words


def _figure(text: object) -> object:
    """A number where the text is one."""
    if not isinstance(text, str):
        return text
    try:
        return float(text) if "." in text else int(text[:20])
    except ValueError:
        return text


def _from_text(lines: Iterable[str], report: Report) -> Iterator[tuple[int, Sample]]:
    """Samples of `atop -P`, in the form of `-J`, with the line on which each begins."""
    sample: Sample = {}
    first, since_boot = 1, False
    for number, line in enumerate(lines, 1):
        report.lines += 1
        found, word = _HEAD.match(line), line.strip()
        if word in ("SEP", "RESET"):
            if sample:
                yield first, sample
            sample, since_boot = {}, word == "RESET"
        elif found:
            if not sample:
                first, sample = (
                    number,
                    {"timestamp": int(found["epoch"]), "elapsed": int(found["elapsed"]), "since_boot": since_boot},
                )
            label, names = found["label"], COLUMNS.get(found["label"])
            if names:
                entry = {name: _figure(text) for name, text in zip(names, _words(found["rest"]), strict=False)}
                if "isproc" in entry:
                    entry["isproc"] = int(entry["isproc"] == "y")
                for name in PAGES & entry.keys():
                    entry[name] = _times(entry[name], entry["page"])
                sample.setdefault(label, []).append(entry) if label.startswith("PR") else sample.update({label: entry})
        elif word and not re.match(r"^[A-Za-z]{3} ", word):
            report.odd("not a line of atop -P", line)
    if sample:
        yield first, sample


def _times(value: object, factor: object) -> int | None:
    return (
        int(value * factor)
        if isinstance(value, (int, float)) and isinstance(factor, (int, float)) and value != NOT_MEASURED
        else None
    )


def _tables(sample: Sample) -> dict[str, dict[tuple, dict]]:
    """Per-task tables of a sample by (pid, is a process). `-J` marks processes in PRG and PRC alone."""
    tables: dict[str, dict[tuple, dict]] = {}
    processes = {entry.get("pid") for entry in _entries(sample, "PRG") if entry.get("isproc")}
    for label in ("PRG", "PRC", "PRM", "PRD"):
        tables[label] = {}
        for entry in _entries(sample, label):
            is_process = bool(entry["isproc"]) if "isproc" in entry else entry.get("pid") in processes
            tables[label].setdefault((entry.get("pid"), is_process), entry)
    return tables


def _entries(sample: Sample, label: str) -> list[dict]:
    value = sample.get(label)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _host(sample: Sample) -> Iterator[tuple[str, Row]]:
    """Memory, load, pressure and paging of the host."""
    for label in ("MEM", "SWP"):
        for name, value in (sample.get(label) or {}).items():
            if name in MEMORY and isinstance(value, int):
                yield "host_memory", {"name": MEMORY[name], "value_bytes": value}
    load, pressure, paging = (sample.get(label) or {} for label in ("CPL", "PSI", "PAG"))
    for name in ("1", "5", "15"):
        if isinstance(load.get(f"lavg{name}"), (int, float)):
            yield "counters", {"source": "loadavg", "name": f"load{name}", "value": float(load[f"lavg{name}"])}
    for name, value in pressure.items():
        found = re.fullmatch(r"(cs|ms|mf|ios|iof)(10|60|300)", name)
        if found and isinstance(value, (int, float)):
            who, what = PRESSURE[found[1]]
            yield "counters", {"source": "pressure", "name": f"{who}_avg{found[2]}", "labels": what, "value": float(value)}
    for name in VMSTAT:
        if isinstance(paging.get(name), int):
            yield "counters", {"source": "vmstat", "name": name, "value": float(paging[name])}


def _unwrapped(text: object) -> str | None:
    """A name without the parentheses that `-J` leaves around it; None where it is empty."""
    name = str(text or "")
    return (name[1:-1] if name.startswith("(") and name.endswith(")") else name) or None


class _Sums:
    """What tasks have used so far: a sample holds what was added since the one before, the first all since a task began."""

    def __init__(self) -> None:
        self._sums: dict[tuple, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, task: tuple, entry: dict, *names: str) -> float | None:
        values = [entry.get(name) for name in names]
        if not all(isinstance(value, (int, float)) and value != NOT_MEASURED for value in values):
            return None
        self._sums[task]["+".join(names)] += sum(values)
        return self._sums[task]["+".join(names)]


def _tasks(sample: Sample, sums: _Sums) -> Iterator[tuple[str, Row]]:
    """Processes, threads and their I/O."""
    tables = _tables(sample)
    hertz = (sample.get("CPU") or {}).get("hertz") if isinstance(sample.get("CPU"), dict) else None
    for (pid, is_process), entry in tables["PRG"].items():
        task = (pid, entry.get("btime"), is_process)
        used, memory, disk = (tables[label].get((pid, is_process), {}) for label in ("PRC", "PRM", "PRD"))
        ticks = sums.add(task, used, "utime", "stime")
        cpu_s = None if ticks is None else ticks / (used.get("hertz") or hertz or 100)
        state = str(entry.get("state") or "")[:1] or None
        common: dict[str, Any] = {
            "comm": _unwrapped(entry.get("name")),
            "state": STATES.get(state, state),
            "cpu_s": cpu_s,
            "tool": "atop",
        }
        if not is_process:
            yield "threads", {"pid": entry.get("tgid"), "tid": pid, "processor": used.get("curcpu"), **common}
            continue
        yield (
            "processes",
            {
                "pid": pid,
                "ppid": entry.get("ppid"),
                "threads": entry.get("nthr"),
                "cmdline": _unwrapped(entry.get("cmdline")),
                "vsize_bytes": _times(memory.get("vmem"), KIB),
                "rss_bytes": _times(memory.get("rmem"), KIB),
                "swap_bytes": _times(memory.get("vswap"), KIB),
                **common,
            },
        )
        if state == "E" and entry.get("exitcode"):
            yield "events", _death(pid, common["comm"], int(entry["exitcode"]))
        read, written = sums.add(task, disk, "rsz"), sums.add(task, disk, "wsz")
        if read is not None or written is not None:
            yield "io", {"pid": pid, "read_bytes": _times(read, SECTOR_BYTES), "write_bytes": _times(written, SECTOR_BYTES)}


def _death(pid: object, name: str | None, code: int) -> Row:
    """A process that ended badly: atop adds 256 to the number of a fatal signal."""
    how = f"by signal {code - 256}" if code >= 256 else f"with exit code {code}"
    return {"source": "atop", "reason": "Exited", "object": name, "text": f"process {pid} ({name}) ended {how}"}


def _rows(samples: Iterable[tuple[int, Sample]], report: Report) -> Rows:
    sums = _Sums()
    for moment, (line, sample) in enumerate(samples):
        stamp = sample.get("timestamp")
        if not isinstance(stamp, int):
            report.odd("a sample of atop without its time", str(sample)[:200])
            continue
        for part in (_host(sample), _tasks(sample, sums)):
            for frame, row in part:
                report.records += 1
                yield frame, {**row, "time": stamp * SECOND_NS, "moment": moment, "line": line}


def parse_atop(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read `atop -P ALL`.

    Examples
    --------
    >>> head = "a 1795991291 2026/11/29 22:28:11 1"
    >>> text = ["SEP", f"PRG {head} 7 (a b) R 0 0 7 5 0 9 (python3 x.py) 1 1 4 0 0 0 0 0 0 0 0 y 0 0 - N ()"]
    >>> text += [f"PRM {head} 7 (a b) R 4096 325204 27224 4 0 0 9 0 4 5 1 0 7 y 0 0 -3 -3 -3 -3"]
    >>> [(row["comm"], row["threads"], row["rss_bytes"]) for _, row in parse_atop(text, Source("atop.txt"), Report())]
    [('a b', 5, 27877376)]
    """
    yield from _rows(_from_text(lines, report), report)


def parse_atop_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `atop -J ALL`: a JSON object a sample.

    Examples
    --------
    >>> text = ['{"timestamp": 1795991291, "elapsed": 1, "MEM": {"freemem": 8192}}']
    >>> [(row["name"], row["value_bytes"]) for _, row in parse_atop_json(text, Source("atop.json"), Report())]
    [('free', 8192)]
    """

    def samples() -> Iterator[tuple[int, Sample]]:
        for number, line in enumerate(lines, 1):
            report.lines += 1
            for _, sample in objects(line):
                yield number, sample

    yield from _rows(samples(), report)


def _is_atop(head: str) -> float:
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    return 0.97 if lines and sum(1 for line in lines if _HEAD.match(line) or line in ("SEP", "RESET")) > 0.5 * len(lines) else 0.0


def _is_atop_json(head: str) -> float:
    return 0.97 if re.match(r'\s*\{[^{]{0,200}"timestamp"\s*:\s*\d+\s*,\s*"elapsed"\s*:\s*\d+', head) else 0.0


_FRAMES = ("processes", "threads", "io", "host_memory", "counters", "events")
FORMATS = (
    Format("atop", r"atop", _is_atop, parse_atop, frames=_FRAMES),
    Format("atop_json", r"atop", _is_atop_json, parse_atop_json, frames=_FRAMES),
)
