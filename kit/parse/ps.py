"""Process lists: ps with any columns, ps -L and -T, top in batch mode, pgrep -a."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import (
    Line,
    Samples,
    body_lines,
    clock_s,
    command_words,
    failure,
    integer,
    number,
    only_failures,
    share,
    size_bytes,
    titled,
)
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

IDS = TOOL_WORDS["ps"]["ids"]
SIZES = TOOL_WORDS["ps"]["sizes"]
TIMES = TOOL_WORDS["ps"]["times"]
WORDS = TOOL_WORDS["ps"]["words"]
SWALLOW = ("COMMAND", "CMD", "ARGS", "COMM", "UCMD", "UCOMM", "THREAD")
STARTS = ("START", "STIME", "STARTED", "LSTART", "START_TIME")
KNOWN = {*IDS, *SIZES, *TIMES, *WORDS, *SWALLOW, *STARTS, *TOOL_WORDS["ps"]["others"]["known"]}
_DAY = re.compile(r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)$")
_MONTH = re.compile(r"^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)$")
_BRANCH = re.compile(r"^(?:[\s|`]*(?:\\_|\|-|`-))+\s*")
_BARE = (
    (
        re.compile(
            r"^\S+\s+\d+\s+\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\d+\s+\d+\s+\S+\s+[RSDTtZXI][\w<+]*\s+\S+(?: "
            r"\d\d)?\s+\d+:\d\d\s+\S"
        ),
        "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND",
    ),
    (
        re.compile(r"^\S+\s+\d+\s+\d+\s+\d+\s+\S+(?: \d\d)?\s+\S+\s+[\d-]*\d\d:\d\d:\d\d\s+\S"),
        "UID PID PPID C STIME TTY TIME CMD",
    ),
    (re.compile(r"^\s*\d+\s+\S+\s+[RSDTtZXI][\w<+]*\s+\d+:\d\d\s+\S"), "PID TTY STAT TIME COMMAND"),
    (re.compile(r"^\s*\d+\s+\d+\s+[RSDTtZXI][\w<+]{0,5}\s+\S"), "PID PPID STAT COMMAND"),
)
"""Lines of `ps aux`, `ps -ef`, `ps ax` and of our own column set whose header a grep took away."""
_TOP = re.compile(r"^top - \d\d:\d\d:\d\d up ")
_MEM = re.compile(r"^(?P<unit>[KMGTPE]i?B) (?P<what>Mem|Swap)\s*:\s*(?P<rest>.*)$")


def columns_of(text: str) -> list[str] | None:
    """Return the columns of a header line of ps or top; None where the line is none.

    Examples
    --------
    >>> columns_of("    PID STAT %CPU COMMAND")
    ['PID', 'STAT', '%CPU', 'COMMAND']
    >>> columns_of("41120 Ssl 0.5 VLLM::APIServer")
    """
    words = text.replace("S[%CPU]", "S %CPU").split()  # toybox
    known = sum(word in KNOWN for word in words)
    names = {"PID", "TID", "LWP", "SPID", "STAT", "PPID", *SWALLOW} & set(words)
    return words if names and known >= max(1, 0.8 * len(words)) and (len(words) > 1 or "PID" in words) else None


_ASKED = re.compile(r"\bps\b[^|;\n]*?\s(?:-\w*o|--format)[ =]?(?P<columns>[a-z%][\w%:,=-]*)")


def columns_asked(command: str | None) -> list[str] | None:
    """Columns that a command asks of ps, where a grep took their header away.

    Examples
    --------
    >>> columns_asked("ps -eo pid,etimes,wchan:24,args | grep -E 'nvcc|ninja'"), columns_asked("ps aux | grep python")
    (['PID', 'ETIMES', 'WCHAN', 'ARGS'], None)
    """
    found = _ASKED.search(command or "")
    columns = [re.split("[:=]", name)[0].upper() for name in found["columns"].split(",")] if found else []
    return columns if len(columns) > 1 and KNOWN.issuperset(columns) and {"PID", "TID", "LWP"} & set(columns) else None


def cells(columns: list[str], words: list[str], text: str) -> dict[str, str] | None:
    """Give each column its cell: those left of the command from the left, those right of it from the right.

    Examples
    --------
    >>> cells(["PID", "START", "COMMAND"], "7 Jun 02 python3 -m x".split(), "7 Jun 02 python3 -m x")
    {'PID': '7', 'START': 'Jun 02', 'COMMAND': 'python3 -m x'}
    """
    swallow = max((place for place, name in enumerate(columns) if name in SWALLOW), default=None)
    got, at = {}, 0
    left = columns if swallow is None else columns[:swallow]
    for name in left:
        if at >= len(words):
            break
        taken = 1
        if name in STARTS and _DAY.match(words[at]):
            taken = 5
        elif name in STARTS and _MONTH.match(words[at]):
            taken = 2
        got[name] = " ".join(words[at : at + taken])
        at += taken
    if swallow is None:
        return got or None
    right = columns[swallow + 1 :]
    end = len(words) - len(right)
    if end < at:
        return got or None
    got |= dict(zip(right, words[end:], strict=True))
    got[columns[swallow]] = " ".join(words[at:end]) if right else _rest(text, at)
    return got


def _rest(text: str, words: int) -> str:
    """Text after so many words, inner blanks kept."""
    parts = text.split(None, words)
    return parts[words].rstrip() if len(parts) > words else ""


def _row(got: dict[str, str], columns: list[str], of_threads: bool, tool: str) -> Row:
    row: Row = {"tool": tool}
    for name, cell in got.items():
        if name in IDS and (name != "P" or cell.isdecimal()):
            row[IDS[name]] = integer(cell)
        elif name in SIZES:
            row[SIZES[name][0]] = size_bytes(cell, SIZES[name][1])
        elif name in TIMES:
            row[TIMES[name]] = clock_s(cell)
        elif WORDS.get(name) == "comm":
            row |= _command(cell, columns, True)
        elif name in WORDS:
            row[WORDS[name]] = None if cell in ("-", "") else cell
        elif name in ("STAT", "S", "STATE"):
            row["state"] = cell[:1] if re.match(r"^[A-Za-z]", cell) else None
        elif name in ("%CPU", "PCPU", "CPU%", "C"):
            row["cpu_percent"] = number(cell)
    command = next((got[name] for name in ("ARGS", "COMMAND", "CMD") if got.get(name)), None)
    if command is not None:
        row |= _command(command, columns, of_threads)
    return row


def _command(text: str, columns: list[str], of_threads: bool) -> Row:
    text = _BRANCH.sub("", text)
    found = re.match(r"^\[?(?P<comm>.{1,200}?)\]?\s*<defunct>$", text)
    short = columns[-4:] == ["PID", "TTY", "TIME", "CMD"] or columns[-2:] == ["TIME", "CMD"] and "C" not in columns
    if found:
        return {"comm": found["comm"], "state": "Z"} | ({} if of_threads else {"cmdline": text})
    if of_threads:
        return {"comm": text}
    kernel = re.match(r"^\[(?P<comm>[^\[\]]+)\]$", text)
    return {"cmdline": text} | ({"comm": kernel["comm"]} if kernel else {"comm": text} if short else {})


def parse_ps(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the output of ps or top, whatever its columns; the header decides. A header again begins another table.

    Rows with a TID, LWP or SPID column, and those of `top -H`, go to `threads`; all others to `processes`.

    Examples
    --------
    >>> sample = ["    PID STAT     TIME COMMAND", "  86857 Sl   00:11:03 sglang::scheduler_TP0"]
    >>> [(frame, row["pid"], row["state"], row["cpu_s"]) for frame, row in parse_ps(sample, Source("ps.txt"), Report())]
    [('processes', 86857, 'S', 663.0)]
    """
    samples, columns, is_top, top_threads = Samples(source), None, False, False
    for line in titled(lines, source, report):
        header = columns_of(line.text)
        failed = failure(line, "ps", source) if header is None and columns is None else None
        if header:
            is_top = is_top or "TIME+" in header
            asked = columns_asked(line.title)  # ps writes COMMAND over the short name and over the arguments
            columns = asked if asked and len(asked) == len(header) else header
            if not is_top:
                samples.table()
        elif failed:
            yield "tool_errors", failed
        elif _TOP.match(line.text):
            columns, is_top, top_threads = None, True, False
            samples.table()
        elif line.text.startswith(("Tasks:", "Threads:", "%Cpu", "CPU:", "Cpu(s)", "Load average:")):
            top_threads = top_threads or line.text.startswith("Threads:")
        elif _MEM.match(line.text):
            _top_memory(line, samples)
        elif line.text.strip():
            _one(line, columns, "top" if is_top else "ps", top_threads, source, report, samples)
    yield from samples.settle(report)


def _one(
    line: Line, columns: list[str] | None, tool: str, top_threads: bool, source: Source, report: Report, samples: Samples
) -> None:
    if columns is None:
        bare = (names.split() for pattern, names in _BARE if pattern.match(line.text))
        columns = columns_asked(line.title) or next(bare, None)
    got = cells(columns, line.text.split(), line.text) if columns else None
    if not got:
        report.odd("no line of ps", line.text)
        return
    of_threads = top_threads or bool({"TID", "LWP", "SPID"} & set(columns))
    row = _row(got, columns, of_threads, tool) | line.at
    if top_threads and "tid" not in row:
        row["tid"], row["pid"] = row.get("pid"), None
    if of_threads:
        words = command_words(line.title, "ps", "top")
        named = re.search(r"(?:^|\s)(?:-[A-Za-z]*p|--pid)[ =]?(\d+)(?:\s|$)", " ".join(words))
        row["pid"] = row.get("pid") or (int(named.group(1)) if named else source.pid)
        row = {name: value for name, value in row.items() if name in THREAD_COLUMNS}
    own = row.get("tid" if of_threads else "pid")
    if own is None:
        report.odd("no line of ps: its process id is not a number", line.text)
        return
    row.pop("processor" if not of_threads else "ppid", None)
    samples.add("threads" if of_threads else "processes", row, (row.get("pid"), own))


THREAD_COLUMNS = {"pid", "tid", "comm", "state", "wchan", "cpu_s", "cpu_percent", "processor", "tool", "line", "time"}


def _top_memory(line: Line, samples: Samples) -> None:
    found = _MEM.match(line.text)
    prefix = "swap_" if found["what"] == "Swap" else ""
    for value, name in re.findall(r"(?<![\d.,])([\d.,]+)\s*(?:\+)?(total|free|used|buff/cache|avail)", found["rest"]):
        name = {"buff/cache": "cache", "avail": "available"}.get(name, prefix + name)
        samples.add("host_memory", {"name": name, "value_bytes": size_bytes(value + found["unit"][0]), **line.at}, name)


def _is_table(head: str, want_threads: bool) -> float:
    lines = body_lines(head)
    if any(_TOP.match(line) for line in lines[:5]):
        return 0.0
    header = next((columns for columns in map(columns_of, lines[:40]) if columns), None)
    if header and len(header) >= 2:
        has_threads = bool({"TID", "LWP", "SPID"} & set(header))
        return 0.93 if has_threads == want_threads else 0.0
    asked = columns_asked(head.split("\n", 1)[0]) if header is None else None
    if asked and lines:
        pids = [cells(asked, line.split(), line) or {} for line in lines]
        fits = sum(1 for got in pids if len(got) == len(asked) and got.get("PID", got.get("TID", got.get("LWP", ""))).isdecimal())
        if fits > 0.8 * len(lines):
            return 0.9 if bool({"TID", "LWP"} & set(asked)) == want_threads else 0.0
    if not want_threads and header is None and max(share(lines, pattern) for pattern, _ in _BARE[:3]) > 0.8:
        return 0.8
    if not want_threads and header is None and share(lines, _BARE[3][0]) == 1:
        return 0.6
    return only_failures(head, "ps")


def _is_top(head: str) -> float:
    lines = body_lines(head)
    if any(_TOP.match(line) for line in lines[:5]):
        return 0.97
    return 0.95 if any(line.split()[:2] in (["PID", "USER"], ["TID", "USER"]) and "TIME+" in line for line in lines) else 0.0


_PGREP = re.compile(r"^(?P<pid>\d+) (?P<command>\S.*)$")


def parse_pgrep(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `pgrep -a` or `pgrep -af`: pid and command line; also `pgrep -l`.

    Examples
    --------
    >>> [(row["pid"], row["cmdline"])
    ...     for _, row in parse_pgrep(["512 python3 -m sglang.launch_server"], Source("pgrep.txt"), Report())]
    [(512, 'python3 -m sglang.launch_server')]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _PGREP.match(line.text.strip())
        if found:
            samples.add(
                "processes",
                {"pid": int(found["pid"]), "cmdline": found["command"], "tool": "pgrep", **line.at},
                int(found["pid"]),
            )
        elif line.text.strip():
            report.odd("no line of pgrep", line.text)
    yield from samples.settle(report)


def _is_pgrep(head: str) -> float:
    lines = body_lines(head)
    if not lines or share(lines, _PGREP) < 1:
        return 0.0
    if "pgrep" in head.split("\n", 1)[0]:
        return 0.9
    commands = [_PGREP.match(line)["command"] for line in lines]
    programs = sum(
        1
        for text in commands
        if re.match(
            r"^(?:\S*/)?(?:python|vllm|VLLM|sglang|torchrun|llama|text-gen|ray|bash|"
            r"sh|docker|nvcc|ptxas)",
            text,
        )
    )
    return 0.7 if programs >= len(lines) / 2 else 0.2 if len(lines) > 1 else 0.05


_FRAMES = ("processes", "threads", "host_memory", "tool_errors")
FORMATS = (
    Format("ps", r"(?<![a-z])ps(?![a-z])|process", lambda head: _is_table(head, False), parse_ps, frames=_FRAMES),
    Format("ps_threads", r"thread", lambda head: _is_table(head, True), parse_ps, frames=_FRAMES),
    Format("top", r"(?<![a-z])top(?![a-z])(?!ology)", _is_top, parse_ps, frames=_FRAMES),
    Format("pgrep", r"pgrep", _is_pgrep, parse_pgrep, frames=("processes",)),
)
