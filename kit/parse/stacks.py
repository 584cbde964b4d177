"""Stack dumps: py-spy (text, JSON, top) and Python's faulthandler; gdb is read by `kit.parse.stacks_native`.

One row a frame, depth 0 is the innermost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import ANSI
from kit.parse.snapshot import PROMPT, Line, Samples, body_lines, number, titled
from kit.parse.stacks_native import looks_like_gdb, parse_gdb
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

# --- what all dumps share ------------------------------------------------------------------------------------------------

_ASKED_PID = re.compile(r"(?:--pid[ =]|-p ?|/proc/|\b[gp]stack |eu-stack .{0,200}?|\bpid[ =:]{0,4})(\d+)\b", re.IGNORECASE)
_RANK = r"(?<![-\w])rank[ _=:#-]*(\d{1,5})\b"
_OF_RANK = re.compile(_RANK, re.IGNORECASE)
_FILE_OF_RANK = re.compile(r"(?<!node)(?:^|[^a-zA-Z])rank[_-]?(\d{1,5})(?!\d)")
_BANNER = re.compile(
    rf"^\s*+(?:[=#*~>-]{{2,}}+|#)(?:\W*+(?P<alone>\d{{2,}}+)(?:\W*+{_RANK})?\W*+$|.*\b(?:pid|process)\W*+(?P<named>\d+)\b)",
    re.IGNORECASE,
)
_RANK_BANNER = re.compile(rf"^(?:[^\n]{{0,200}}[.!?] )?\W*+(?:\w[\w-]*+\W++){{0,3}}?{_RANK}\W*+$", re.IGNORECASE)
_NAMED_PID = re.compile(
    r"^\W*+(?:py-?spy dump (?:for|of) |dumping |stacks? (?:of|for) )?(?:process|pid)\W*+(\d++)\W*+$", re.IGNORECASE
)
_NATIVE_FILE = re.compile(r"\.so(?:\.|\b)|\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|inl|rs|S)$|^0x")
_ERRORS = [(error, re.compile(pattern)) for error, pattern in TOOL_WORDS["failures"]["stacks"].items()]


def _error_of(text: str) -> str:
    return next((error for error, pattern in _ERRORS if pattern.search(text)), "other")


class _Dump:
    """Rows of the stacks of one file, thread by thread."""

    def __init__(self, tool: str, source: Source, report: Report):
        self.tool, self.source, self.report = tool, source, report
        self.samples = Samples(source)
        self.asked = source.pid
        self.main: int | None = None
        self.rank, self.fresh = source.rank, source.rank is not None
        self.call(source.name, _FILE_OF_RANK)
        self.about: Row = self._of_rank(None)
        self.fresh = False
        self.thread_rows: list[Row] = []
        self.errors: list[Row] = []

    def process(self, pid: int | None, title: str | None = None) -> None:
        """Begin a process; a rank that something names is that of the first that follows."""
        self.samples.table()
        pid = pid if pid is not None else self.asked
        if self.about.get("pid") not in (None, pid) and not self.fresh:
            self.rank = None
        self.fresh = False
        self.about = {"pid": pid} | self._of_rank(title)
        self.thread_rows = []

    def _of_rank(self, title: str | None) -> Row:
        """Title of a process with the rank that is known from elsewhere, as a launcher would write it."""
        rank = "" if self.rank is None or _OF_RANK.search(title or "") else f"rank {self.rank}"
        return {"process": f"{title} ({rank})" if title and rank else title or rank or None}

    def call(self, text: str, pattern: re.Pattern[str] = _OF_RANK) -> None:
        """Note the rank that a command line, a banner or the file's name names."""
        if found := pattern.search(text):
            self.rank, self.fresh = int(found[1]), True

    def ask(self, title: str | None) -> None:
        """Note the pid and the rank that a command line or a banner names."""
        self.call(title or "")
        found = _ASKED_PID.search(title or "")
        pid = int(found[1]) if found else _banner_pid(f"## {title}")  # "# " before it was taken for root's prompt
        if pid is not None and pid != self.asked:
            self.asked = pid
            self.process(pid)

    def banner(self, text: str, pid: int | None) -> None:
        """Begin the process that a line of its own announces."""
        self.call(text)
        self.asked, self.main = pid, None
        self.process(pid)

    def thread(self, tid: int | None, name: str | None, state: str | None) -> None:
        """Begin a thread."""
        self.settle_thread()
        self.about |= {"tid": tid, "thread": name or None, "thread_state": state or None}
        if name == "MainThread" and tid is not None and self.about.get("pid") == self.main:
            if self.main is not None:
                self.process(tid)
                self.about |= {"tid": tid, "thread": name, "thread_state": state or None}
            self.about["pid"] = self.main = tid  # the main thread's id is that of the process, and another one begins another
        self.thread_rows = []

    def settle_thread(self) -> None:
        """Name the main thread where the tool does not: the stack that begins in a module's top level."""
        if self.tool == "faulthandler" and self.thread_rows and self.thread_rows[-1]["function"] == "<module>":
            for row in self.thread_rows:
                row["thread"] = row["thread"] or "MainThread"

    def frame(self, line: Line, function: str, file: str | None, file_line: int | None, native: bool) -> None:
        """Take a frame of the thread at hand."""
        row = {"tool": self.tool, "pid": self.asked, "thread": None} | self.about
        row |= {
            "depth": len(self.thread_rows),
            "function": function.rstrip(),
            "file": file or None,
            "file_line": file_line,
            "native": native,
            **line.at,
        }
        self.thread_rows.append(row)
        self.samples.add("stacks", row, (row["pid"], row.get("tid"), row["thread"], row["depth"]))

    def error(self, line: Line, text: str, pid: int | None = None) -> None:
        """Take a message of failure; one of the same kind about the same process follows from the first."""
        row = {
            "tool": self.tool,
            "error": _error_of(text),
            "text": text.strip(),
            **line.at,
            "pid": pid if pid is not None else self.asked,
        }
        if not any((row["error"], row["pid"]) == (other["error"], other["pid"]) for other in self.errors):
            self.errors.append(row)

    def rows(self) -> Rows:
        """All rows, those of tools that failed last."""
        self.settle_thread()
        yield from self.samples.settle(self.report)
        for row in self.errors:
            yield "tool_errors", row


def _banner_pid(text: str) -> int | None:
    named, banner = _NAMED_PID.match(text), _BANNER.match(text)
    pid = named[1] if named else banner and (banner["alone"] or banner["named"])
    return int(pid) if pid and len(pid) < 10 else None


# --- py-spy dump ---------------------------------------------------------------------------------------------------------

_PROCESS = re.compile(r"^\s*Process (?P<pid>\d+)(?:: ?(?P<title>.*))?$")
_PYTHON = re.compile(r"^\s*Python v\d")
_THREAD = re.compile(r'^\s*Thread (?P<id>0x[0-9a-fA-F]+|\d+)(?: \((?P<state>[^()]*)\))?(?:: ?"(?P<name>.{0,400}?)"?)?\s*$')
_FRAME = re.compile(r"^\s*(?P<function>\S.*?) \((?P<file>[^()]*(?: \(deleted\))?)\)\s*$")
_VARIABLES = re.compile(r"^(?P<indent>\s*)(?:Locals|Arguments):$")
_PYSPY_ERROR = re.compile(
    r"^(?:.*?\b)?Error: |^Permission Denied: |^Failed to |py-?spy(?:: | ?failed| dump failed)|"
    r"command not found|: not found$|No such process|Operation not permitted|Permission denied|"
    r"[Tt]imed out|^Terminated$|^Killed$|No module named"
)
_PYSPY_FOLLOWS = re.compile(
    r"^(?:Caused by:|Stack backtrace:|Reason: |\s+\d+: |\s+at |Process with pid|Warning: |.*GIL|"
    r"Sampling process|.*--nonblocking|Try running again with elevated permissions)"
)
_PYSPY_OWN = re.compile(
    r"py-?spy|Try running again with elevated permissions|Py_Version|os error \d+|python version|"
    r"_PyRuntime",
    re.IGNORECASE,
)
_FAILED_PID = re.compile(r"Pyspy failed to dump PID (\d+)")


def parse_pyspy(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the text of `py-spy dump`, of one process or many, with native frames and variables or without.

    Examples
    --------
    >>> sample = ["Process 9200: sglang::scheduler_TP0", "Python v3.11.11 (/opt/conda/bin/python3.11)", "",
    ...     'Thread 9200 (active): "MainThread"', "    requant_weight (sglang/srt/layers/fp8_utils.py:402)",
    ...     "    cuLaunchKernel (libcuda.so.1)"]
    >>> [(row["pid"], row["thread"], row["depth"], row["function"], row["file_line"], row["native"])
    ...     for _, row in parse_pyspy(sample, Source("pyspy.txt"), Report())]
    [(9200, 'MainThread', 0, 'requant_weight', 402, False), (9200, 'MainThread', 1, 'cuLaunchKernel', None, True)]
    >>> [(row["tool"], row["error"]) for _, row in parse_pyspy(["Error: Permission denied (os error 13)"],
    ...     Source("pyspy.txt"), Report())]
    [('pyspy', 'permission')]
    """
    dump = _Dump("pyspy", source, report)
    title, inside, hidden = None, False, 1 << 30
    for line in titled(lines, source, report):
        if line.title != title:
            title, inside = line.title, False
            dump.ask(title)
        text = line.text
        variables = _VARIABLES.match(text)
        hidden = min(hidden, len(variables["indent"])) if variables else hidden
        if variables or not text.strip() or len(text) - len(text.lstrip()) > hidden:
            continue
        hidden = 1 << 30
        inside = _pyspy_line(line, dump, inside, report)
    yield from dump.rows()


def _pyspy_line(line: Line, dump: _Dump, inside: bool, report: Report) -> bool:
    """Read one line; tell whether the next ones belong to a thread."""
    text = line.text
    process, thread, frame = _PROCESS.match(text), _THREAD.match(text), _FRAME.match(text)
    if process:
        dump.process(int(process["pid"]), process["title"])
    elif thread:
        os_id = not thread["id"].startswith("0x")  # older py-spy prints the identity that pthread gave, which is no thread id
        dump.thread(int(thread["id"]) if os_id else None, thread["name"], thread["state"])
        return True
    elif _PYTHON.match(text):
        return False
    elif dump.errors and _PYSPY_FOLLOWS.match(text) and not (inside and frame):
        if dump.errors[-1]["error"] == "other":
            dump.errors[-1]["error"] = _error_of(text)
    elif _PYSPY_ERROR.search(text) and not (inside and text[:1].isspace()):
        failed = _FAILED_PID.search(text)
        dump.error(line, text, int(failed[1]) if failed else None)
    elif (pid := _banner_pid(text)) is not None or _RANK_BANNER.match(text):
        dump.banner(text, pid)
    elif inside and frame:
        file, file_line = _place(frame["file"])
        dump.frame(line, frame["function"], file, file_line, file_line is None or bool(_NATIVE_FILE.search(file)))
        return True
    elif not _PYSPY_FOLLOWS.match(text):
        report.odd("no line of a py-spy dump", text)
        return inside
    return False


def _place(text: str) -> tuple[str, int | None]:
    file, colon, line = text.rpartition(":")
    return (file, int(line)) if colon and line.isdecimal() and len(line) < 10 else (text, None)


def _is_pyspy(head: str) -> float:
    lines = body_lines(head)
    if not lines:
        return 0.0
    threads = [bool(_THREAD.match(line)) for line in lines]
    if any(threads) and any(_FRAME.match(line) and line[:1].isspace() for line in lines):
        known = sum(
            bool(
                thread
                or _FRAME.match(line)
                or _PROCESS.match(line)
                or _PYTHON.match(line)
                or line[:8].isspace()
                or _PYSPY_ERROR.search(line)
                or _PYSPY_FOLLOWS.match(line)
                or _banner_pid(line) is not None
                or _RANK_BANNER.match(line)
            )
            for line, thread in zip(lines, threads, strict=True)
        )
        share = known / len(lines)
        return 0.95 if share >= 0.8 else 0.5 * share
    return _only_errors(head, lines)


def _only_errors(head: str, lines: list[str]) -> float:
    """Score of a file that holds messages of failure alone: much where they name the tool, else the file's name decides."""
    if not all(_PYSPY_ERROR.search(line) or _PYSPY_FOLLOWS.match(line) or _banner_pid(line) is not None for line in lines):
        return 0.0
    if not any(map(_PYSPY_ERROR.search, lines)):
        return 0.0
    asked = [found["command"] for found in map(PROMPT.match, ANSI.sub("", head).splitlines()) if found]
    return 0.9 if any(_PYSPY_OWN.search(text) for text in (*asked, *lines)) else 0.1


# --- py-spy dump --json --------------------------------------------------------------------------------------------------


def parse_pyspy_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the answer of `py-spy dump --json`: a list of threads. A cut one gives the threads that are whole.

    Examples
    --------
    >>> sample = ['[{"pid": 7, "thread_name": "MainThread", "os_thread_id": 7, "active": true, "owns_gil": true, "frames":',
    ...     '[{"name": "main", "filename": "/app/t.py", "short_filename": "t.py", "line": 7}]}]']
    >>> [(row["pid"], row["thread_state"], row["function"], row["file"]) for _, row in
    ...     parse_pyspy_json(sample, Source("pyspy.json"), Report())]
    [(7, 'active+gil', 'main', 't.py')]
    """
    text = "\n".join(line.rstrip("\r") for line in lines)
    report.lines = text.count("\n") + bool(text)
    dump, pid = _Dump("pyspy", source, report), object()
    for at, thread in objects(text):
        if not isinstance(thread.get("frames"), list):
            report.odd("object that is not a thread of py-spy", str(thread))
            continue
        if thread.get("pid") != pid:
            pid = thread.get("pid")
            info = thread.get("process_info")
            dump.process(pid if isinstance(pid, int) else None, str(info.get("command_line")) if isinstance(info, dict) else None)
        state = ("active" if thread.get("active") else "idle") + ("+gil" if thread.get("owns_gil") else "")
        tid = thread.get("os_thread_id") or thread.get("thread_id")
        dump.thread(tid if isinstance(tid, int) else None, thread.get("thread_name"), state)
        for frame in thread["frames"]:
            if not isinstance(frame, dict):
                continue
            file = frame.get("short_filename") or frame.get("filename") or frame.get("module")
            at_line = frame["line"] if isinstance(frame.get("line"), int) and frame["line"] > 0 else None
            dump.frame(
                Line(at, "", None, None),
                str(frame.get("name")),
                file,
                at_line,
                not at_line or bool(_NATIVE_FILE.search(file or "")),
            )
    yield from dump.rows()


def _is_pyspy_json(head: str) -> float:
    keys = sum(f'"{key}"' in head for key in ("pid", "thread_name", "os_thread_id", "owns_gil", "frames", "short_filename"))
    return 0.97 if keys >= 5 and re.search(r"^\s*+(?:\[\s*+)?\{", head, re.MULTILINE) else 0.0


# --- py-spy top ----------------------------------------------------------------------------------------------------------

_TOP_HEAD = re.compile(r"^\s*%Own\s+%Total\s+OwnTime\s+TotalTime\s+Function")
_TOP_ROW = re.compile(
    r"^\s*(?P<own>\d+(?:\.\d+)?)%\s+(?P<total>\d+(?:\.\d+)?)%\s+\d+(?:\.\d+)?s\s+\d+(?:\.\d+)?s\s+"
    r"(?P<function>\S.{0,400}?) \((?P<file>[^()]*)(?:\)\s*)?$"
)
_TOP_OTHER = re.compile(r"^\s*(?:Total Samples|GIL:|Press |Script (?:started|done)|Sampling |Error: Not a tty)")
_TOP_FROM = re.compile(r"^\s*Collecting samples from '?(?P<what>.*?)'?(?: \(python v.*)?$")


def parse_pyspy_top(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the screen of `py-spy top`: a row a function, `share_percent` is its part of the samples, callees included.

    Examples
    --------
    >>> sample = ["Collecting samples from 'python t.py' (python v3.11.7)", "GIL: 33.00%, Active: 41.00%, Threads: 2",
    ...     "  %Own   %Total  OwnTime  TotalTime  Function (filename)", " 37.00%  41.00%   0.650s    0.780s   main (t.py)"]
    >>> [(row["function"], row["file"], row["share_percent"]) for _, row in
    ...     parse_pyspy_top(sample, Source("top.txt"), Report())]
    [('main', 't.py', 41.0)]
    """
    samples, process = Samples(source), None
    for line in titled(lines, source, report):
        begins, row = _TOP_FROM.match(line.text), _TOP_ROW.match(line.text)
        asked = _ASKED_PID.search(line.title or "")
        if begins:
            process = begins["what"]
        elif _TOP_HEAD.match(line.text):
            samples.table()
        elif row:
            file, file_line = _place(row["file"])
            pid = int(asked[1]) if asked else int(process[4:]) if re.match(r"^pid \d+$", process or "") else source.pid
            samples.add(
                "stacks",
                {
                    "tool": "pyspy-top",
                    "pid": pid,
                    "process": process,
                    "depth": 0,
                    "function": row["function"],
                    "file": file or None,
                    "file_line": file_line,
                    "share_percent": number(row["total"]),
                    **line.at,
                },
                (row["function"], row["file"]),
            )
        elif line.text.strip() and not _TOP_OTHER.match(line.text):
            report.odd("no line of py-spy top", line.text)
    yield from samples.settle(report)


def _is_pyspy_top(head: str) -> float:
    lines = [line.replace("\r", " ") for line in ANSI.sub("", head).split("\n")]
    return 0.97 if any(map(_TOP_HEAD.match, lines)) and ("Collecting samples" in head or any(map(_TOP_ROW.match, lines))) else 0.0


# --- faulthandler --------------------------------------------------------------------------------------------------------

_FAULT_THREAD = re.compile(
    r"^(?P<current>Current )?[Tt]hread(?:'s C)? ?(?P<id>0x[0-9a-f]+|stack trace)?(?: \[(?P<name>.*)\])? "
    r"\(most recent call first\):$|^Stack \(most recent call first\):$"
)
_FAULT_FRAME = re.compile(r'^\s+File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
_FAULT_BINARY = re.compile(r'^\s+Binary file "(?P<file>.*)",(?: at (?P<function>[^+\s]*)\S*)?')
_FAULT_OTHER = re.compile(
    r"^(?:Fatal Python error: |Python runtime state: |Timeout \(|Extension modules: |\s+<no Python frame>|"
    r"\s+Garbage-collecting|\s+\.\.\.|\s+<(?:tstate|truncated|cannot)|\s+<invalid|Aborted|"
    r"Segmentation fault|Bus error|Killed)"
)


def parse_faulthandler(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read what Python's faulthandler prints on a fatal signal, a timeout or SIGUSR1.

    The stack that begins in a module's top level is taken as that of the main thread.

    Examples
    --------
    >>> sample = ["Fatal Python error: Aborted", "", "Current thread 0x00007f0d4561ab80 (most recent call first):",
    ...     '  File "/app/fh.py", line 4 in <module>']
    >>> [(row["tid"], row["thread"], row["thread_state"], row["file"], row["file_line"]) for _, row in
    ...     parse_faulthandler(sample, Source("fault.txt"), Report())]
    [(139694975331200, 'MainThread', 'current', '/app/fh.py', 4)]
    """
    dump, title = _Dump("faulthandler", source, report), None
    for line in titled(lines, source, report):
        if line.title != title:
            title = line.title
            dump.ask(title)
        text = line.text
        thread, frame, binary = _FAULT_THREAD.match(text), _FAULT_FRAME.match(text), _FAULT_BINARY.match(text)
        if thread:
            tid = int(thread["id"], 16) if (thread["id"] or "").startswith("0x") else None
            dump.thread(tid, (thread["name"] or "").strip(), "current" if thread["current"] else None)
        elif frame:
            dump.frame(line, frame["function"], frame["file"], int(frame["line"]) if frame["line"].isdecimal() else None, False)
        elif binary:
            dump.frame(line, binary["function"] or "??", binary["file"], None, True)
        elif (pid := _banner_pid(text)) is not None:
            dump.banner(text, pid)
        elif text.strip() and not _FAULT_OTHER.match(text):
            report.odd("no line of faulthandler", text)
    yield from dump.rows()


def _is_faulthandler(head: str) -> float:
    lines = body_lines(head)
    if not any(map(_FAULT_THREAD.match, lines)) or not any(map(_FAULT_FRAME.match, lines)):
        return 0.0
    known = sum(
        bool(
            _FAULT_THREAD.match(line)
            or _FAULT_FRAME.match(line)
            or _FAULT_OTHER.match(line)
            or _FAULT_BINARY.match(line)
            or _banner_pid(line) is not None
        )
        for line in lines
    )
    return 0.95 if known >= 0.8 * len(lines) else 0.5 * known / len(lines)


def parse_dump(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a dump that was cut out of a log: py-spy, faulthandler or gdb, whichever it is.

    Examples
    --------
    >>> sample = ["Process 7: sglang::scheduler_TP1", 'Thread 7 (idle): "MainThread"', "    wait (threading.py:355)"]
    >>> [(row["tool"], row["pid"], row["function"]) for _, row in parse_dump(sample, Source("server.log"), Report())]
    [('pyspy', 7, 'wait')]
    """
    lines = list(lines)
    head = "\n".join(lines)
    tests = ((_is_pyspy, parse_pyspy), (_is_faulthandler, parse_faulthandler), (looks_like_gdb, parse_gdb))
    score, parser = max(((looks_like(head), parser) for looks_like, parser in tests), key=lambda pair: pair[0])
    if score > 0:
        yield from parser(lines, source, report)
    elif lines:
        report.odd("stack dump of an unknown form", lines[0])


FORMATS = (
    Format("pyspy", r"py-?spy|stacks?(?![a-z])", _is_pyspy, parse_pyspy, frames=("stacks", "tool_errors")),
    Format("pyspy_json", r"py-?spy|stacks?(?![a-z])", _is_pyspy_json, parse_pyspy_json, frames=("stacks", "tool_errors")),
    Format("pyspy_top", r"py-?spy", _is_pyspy_top, parse_pyspy_top, frames=("stacks",)),
    Format(
        "gdb",
        r"gdb|[gp]stack|eu-?stack|backtrace|(?<![a-z])bt(?![a-z])",
        looks_like_gdb,
        parse_gdb,
        frames=("stacks", "tool_errors"),
    ),
    Format("faulthandler", r"fault|traceback", _is_faulthandler, parse_faulthandler, frames=("stacks", "tool_errors")),
)
