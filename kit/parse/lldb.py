"""Backtraces of lldb (`thread backtrace all`, `bt all`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import Samples, body_lines, titled

_PROCESS = re.compile(
    r"^Process (?P<pid>\d+) (?:stopped|launched|resuming)|^\(lldb\) (?:process attach (?:-p|--pid)|attach) (?P<attached>\d+)"
)
_THREAD = re.compile(r"^\s*\*? thread #(?P<number>\d+)(?:: tid = (?P<tid>0x[0-9a-f]+|\d+))?(?:,.*?name = '(?P<name>[^']*)')?")
_FRAME = re.compile(r"^\s*\*? frame #(?P<depth>\d+): 0x[0-9a-f]+ (?P<module>[^`\s]+)(?:`(?P<symbol>.*))?$")
_PLACE = re.compile(r"^(?P<function>.*?)(?: \+ \d+)?(?: at (?P<file>\S{1,4096}?):(?P<line>\d+)(?::\d+)?)?(?: \[.*\])?$")


def parse_lldb(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read backtraces of lldb. Threads have a number; their thread id where lldb prints one.

    Examples
    --------
    >>> sample = ["* thread #1, name = 'python3', stop reason = signal SIGSTOP",
    ...     "  * frame #0: 0x00007fff2 libc.so.6`__futex_abstimed_wait + 12"]
    >>> [(row["thread"], row["function"], row["file"]) for _, row in parse_lldb(sample, Source("lldb.txt"), Report())]
    [('python3', '__futex_abstimed_wait', 'libc.so.6')]
    """
    samples, pid, thread = Samples(source), source.pid, {}
    for line in titled(lines, source, report):
        process, begun, frame = _PROCESS.match(line.text), _THREAD.match(line.text), _FRAME.match(line.text)
        if process:
            pid = int(process["pid"] or process["attached"])
        elif begun:
            tid = int(begun["tid"], 0) if begun["tid"] else None
            thread = {"tid": tid, "thread": begun["name"] or f"thread #{begun['number']}"}
        elif frame:
            place = _PLACE.match(frame["symbol"] or "")
            row = {"tool": "lldb", "pid": pid, "depth": int(frame["depth"]), "native": True, **thread}
            row |= {"function": place["function"] if place and place["function"] else "??", "file": frame["module"]}
            if place and place["file"]:
                row |= {"file": place["file"], "file_line": int(place["line"])}
            samples.add("stacks", row | line.at, (pid, row.get("thread"), row["depth"]))
        elif line.text.strip() and not line.text.startswith(("(lldb)", " ", "Executable", "Architecture", "Target")):
            report.odd("not a line of lldb", line.text)
    yield from samples.settle(report)


def _is_lldb(head: str) -> float:
    lines = body_lines(head, 400)
    return 0.98 if sum(1 for line in lines if _FRAME.match(line)) >= 1 and any(_THREAD.match(line) for line in lines) else 0.0


FORMATS = (Format("lldb", r"lldb|backtrace", _is_lldb, parse_lldb, frames=("stacks",)),)
