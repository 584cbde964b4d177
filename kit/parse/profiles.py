"""Profiles: collapsed stacks, perf report, speedscope, and traces in Chrome's form (Kineto, VizTracer).

A sampled stack says where time went, not where a thread stands now; its rows carry the share of samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.schema import Row

MOST_STACKS = 200
"""Stacks that are kept, the most frequent first: the tail of a profile holds single samples."""
_COLLAPSED = re.compile(r"^(?P<stack>\S[^;]*;.*|\S+ \(\S+:\d+\)) (?P<count>\d+)$")
_PLACE = re.compile(r"^(?P<function>.*?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")


def _frames(stack: list[str], share: float, where: Row) -> Rows:
    """Rows of one stack, whose last frame is the innermost."""
    for depth, text in enumerate(reversed(stack)):
        found = _PLACE.match(text)
        row = {
            "tool": "profile",
            "depth": depth,
            "function": found["function"] if found else text,
            "share_percent": share,
            **where,
        }
        if found:
            row |= {"file": found["file"] or None, "file_line": int(found["line"]) if found["line"] else None}
        yield "stacks", row


def _kept(counts: Counter[tuple[str, ...]], lines: dict[tuple[str, ...], int], report: Report) -> Rows:
    total = sum(counts.values()) or 1
    for stack, count in counts.most_common(MOST_STACKS):
        report.records += 1
        thread = re.match(r"^thread \(?(\d+|0x[0-9a-f]+)\)?|^process (\d+)", stack[0])
        where: Row = {"line": lines[stack]}
        if thread and thread[1]:
            where["tid"] = int(thread[1], 0)
        yield from _frames(list(stack), 100.0 * count / total, where)
    if len(counts) > MOST_STACKS:
        report.odd(f"stacks beyond the {MOST_STACKS} most frequent", "", len(counts) - MOST_STACKS)


def parse_collapsed(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read collapsed stacks, `outer;inner count` (py-spy -f raw, stackcollapse-perf, austin).

    Examples
    --------
    >>> sample = ["main (a.py:3);wait (threading.py:355) 97", "main (a.py:3);load (b.py:9) 3"]
    >>> [(row["depth"], row["function"], row["share_percent"]) for _, row in parse_collapsed(sample, Source("c"), Report())][0]
    (0, 'wait', 97.0)
    """
    counts: Counter[tuple[str, ...]] = Counter()
    first: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines, 1):
        report.lines += 1
        found = _COLLAPSED.match(line.strip())
        if found:
            stack = tuple(found["stack"].split(";"))
            counts[stack] += int(found["count"][:15])
            first.setdefault(stack, number)
        elif line.strip():
            report.odd("not a collapsed stack", line)
    yield from _kept(counts, first, report)


def _is_collapsed(head: str) -> float:
    lines = [line.strip() for line in head.splitlines()[:50] if line.strip()][:-1] or [head.strip()]
    return 0.9 if lines[0] and sum(1 for line in lines if ";" in line and _COLLAPSED.match(line)) > 0.8 * len(lines) else 0.0


_SYMBOL = re.compile(
    r"^\s*(?:[\d.]+%\s+)?(?P<share>[\d.]+)%\s+(?:(?P<process>\S.{0,30}?)\s+)?(?P<file>\S+)\s+"
    r"\[(?:k|\.|H|g|u)\] (?P<function>\S(?:.*\S)?)\s*$"
)


def parse_perf(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `perf report` or `perf top`: a function a row, with its own share of the samples.

    Examples
    --------
    >>> sample = ["# Overhead  Command  Shared Object  Symbol", "    61.23%  VLLM::Worker  libnccl.so.2  [.] ncclProxyProgress"]
    >>> [(row["function"], row["file"], row["share_percent"]) for _, row in parse_perf(sample, Source("p"), Report())]
    [('ncclProxyProgress', 'libnccl.so.2', 61.23)]
    """
    for number, line in enumerate(lines, 1):
        report.lines += 1
        if found := _SYMBOL.match(line):
            report.records += 1
            row = {"tool": "profile", "depth": 0, "native": True, "line": number, "share_percent": float(found["share"])}
            yield "stacks", row | {name: found[name] for name in ("process", "function", "file")}
        elif line.strip() and not line.startswith("#"):
            report.odd("no line of perf report", line)


def _is_perf(head: str) -> float:
    lines = [line for line in head.splitlines()[:60] if line.strip() and not line.startswith("#")]
    return 0.95 if lines and sum(map(bool, map(_SYMBOL.match, lines))) > 0.5 * len(lines) else 0.0


def parse_speedscope(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a speedscope file of sampled profiles (py-spy -f speedscope).

    Examples
    --------
    >>> text = '{"shared": {"frames": [{"name": "main"}, {"name": "wait", "file": "t.py", "line": 5}]}, "profiles": '
    >>> text += '[{"type": "sampled", "name": "MainThread", "samples": [[0, 1], [0]], "weights": [3, 1]}]}'
    >>> [(row["function"], row["share_percent"]) for _, row in parse_speedscope([text], Source("s.json"), Report())]
    [('wait', 75.0), ('main', 75.0), ('main', 25.0)]
    """
    body = "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, document in objects(body):
        shared = document.get("shared") if isinstance(document.get("shared"), dict) else {}
        names = [frame if isinstance(frame, dict) else {} for frame in shared.get("frames") or ()]
        for profile in document.get("profiles") or ():
            if not isinstance(profile, dict) or profile.get("type") != "sampled":
                report.odd("a profile of another type than sampled", str(profile)[:100])
                continue
            counts: Counter[tuple[str, ...]] = Counter()
            for sample, weight in zip(profile.get("samples") or (), profile.get("weights") or (), strict=False):
                counts[tuple(_shown(names, place) for place in sample)] += weight
            counts.pop((), None)
            for frame, row in _kept(counts, dict.fromkeys(counts, first), report):
                yield frame, row | {"thread": profile.get("name")}


def _shown(names: list[dict], place: object) -> str:
    frame = names[place] if isinstance(place, int) and 0 <= place < len(names) else {}
    name = str(frame.get("name", "?"))
    return f"{name} ({frame['file']}:{frame.get('line') or 0})" if frame.get("file") and "(" not in name else name


def _is_speedscope(head: str) -> float:
    return 0.97 if "speedscope" in head[:2000] and '"' in head[:200] else 0.0


def parse_chrome_trace(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a trace in Chrome's form: a row of `counters` a name, with how long all its events took and how many there were.

    Events that began and have no end are the ones to look at; they become rows of `stacks`, the last begun innermost.

    Examples
    --------
    >>> text = '{"traceEvents": [{"ph": "X", "name": "nccl:all_reduce", "dur": 1500000, "ts": 1, "pid": 7, "tid": 7}, '
    >>> text += '{"ph": "B", "name": "load_model", "ts": 2, "pid": 7, "tid": 7}]}'
    >>> [(frame, row.get("name") or row["function"]) for frame, row in parse_chrome_trace([text], Source("t.json"), Report())]
    [('counters', 'nccl:all_reduce seconds'), ('counters', 'nccl:all_reduce count'), ('stacks', 'load_model')]
    """
    body = "\n".join(lines)
    report.lines += body.count("\n") + 1
    spent, count = Counter[str](), Counter[str]()
    begun: dict[tuple, list[str]] = {}
    for event in _events(body):
        name, thread = str(event.get("name", "?"))[:200], (event.get("pid"), event.get("tid"))
        if event.get("ph") == "X" and isinstance(event.get("dur"), (int, float)):
            spent[name] += event["dur"]
            count[name] += 1
        elif event.get("ph") == "B":
            begun.setdefault(thread, []).append(name)
        elif event.get("ph") == "E" and begun.get(thread):
            begun[thread].pop()
    for name, micros in spent.most_common(MOST_STACKS):
        report.records += 1
        yield "counters", {"source": "trace", "name": f"{name} seconds", "value": micros / 1e6, "line": 1}
        yield "counters", {"source": "trace", "name": f"{name} count", "value": float(count[name]), "line": 1}
    for (pid, tid), names in begun.items():
        whose: Row = {"pid": pid if isinstance(pid, int) else None, "tid": tid if isinstance(tid, int) else None}
        for depth, name in enumerate(reversed(names)):
            yield "stacks", {"tool": "trace", "depth": depth, "function": name, "line": 1, **whose}


def _events(body: str) -> Iterable[dict]:
    """Events of a trace: the list itself, or the list under `traceEvents`."""
    for _, document in objects(body):
        events = document.get("traceEvents")
        yield from (event for event in events if isinstance(event, dict)) if isinstance(events, list) else (document,)


def _is_chrome_trace(head: str) -> float:
    return 0.97 if '"traceEvents"' in head[:20_000] or re.match(r'\s*\[\s*\{[^{}]*"ph"\s*:\s*"', head) else 0.0


FORMATS = (
    Format("collapsed", r"collapsed|folded|raw", _is_collapsed, parse_collapsed, frames=("stacks",)),
    Format("perf", r"perf", _is_perf, parse_perf, frames=("stacks",)),
    Format("speedscope", r"speedscope", _is_speedscope, parse_speedscope, frames=("stacks",)),
    Format("chrome_trace", r"trace", _is_chrome_trace, parse_chrome_trace, frames=("counters", "stacks")),
)
