"""Stacks of native debuggers: gdb, cuda-gdb, gstack and pstack, eu-stack."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Report, Rows, Source
from kit.parse.snapshot import Line, Samples, body_lines, command_words, failure, only_failures, titled
from kit.schema import Row

_THREAD = re.compile(
    r"^Thread (?P<number>[\d.]+) \((?:Thread 0x[0-9a-f]+ ?)?\(?(?:LWP|process) (?P<lwp>\d+)\)?"
    r'(?:\)? ?"(?P<name>.*?)")?'
)
_SWITCHED = re.compile(r"^\[Switching to thread (?P<number>[\d.]+) \((?:Thread 0x[0-9a-f]+ ?)?\(?(?:LWP|process) (?P<lwp>\d+)\)?")
_EU_THREAD = re.compile(r"^TID (?P<lwp>\d+):")
_EU_PROCESS = re.compile(r"^PID (?P<pid>\d+) - ")
_INFO = re.compile(
    r"^[* ]\s*(?P<number>[\d.]+)\s+(?:Thread 0x[0-9a-f]+ ?)?\(?(?:LWP|process) (?P<lwp>\d+)\)?"
    r'(?: "(?P<name>.*?)")?\s+(?P<frame>\S.*)$'
)
_FRAME = re.compile(r"^#(?P<depth>\d+)\s+(?P<rest>\S.*)$")
_PYTHON_FRAME = re.compile(r"^#\d+ (?:Frame 0x[0-9a-f]+, for )?file (?P<file>\S+), line (?P<line>\d+), in (?P<function>\S+)")
_PYTHON_LINE = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_PID = re.compile(r"Inferior \d+ \(process (\d+)\)|Attaching to (?:program: .*, )?process (\d+)|process (\d+) is a zombie")
_NOISE = re.compile(
    r"^(?:\[|warning: |Reading symbols|Using host lib|GNU gdb|For help|Copyright|License|This GDB|Type |There is NO|"
    r"Loaded symbols|Downloading|Attaching|Detaching|To enable|To completely|line to your|For more info|add-auto|"
    r"set auto-load|\"Auto|info \"|Missing separate|Traceback \(most recent call first|\(gdb\)|\(cuda-gdb\)|Id +Target|"
    r"  Id |NVIDIA|Portions|\s|0x[0-9a-f]+ in |\d+\t|\$\d+ =|No symbol|Backtrace stopped|\(More stack|--Type|"
    r"[\w:<>~]+ \(.*\) (?:at|from) |quit|Quit|Find the GDB|    <|Program |Thread \d+ \"|PID \d+|Continuing|The program|"
    r"Please |http)"
)


class _Frames:
    """Frames of one process, held until its pid is known."""

    def __init__(self, samples: Samples):
        self.samples = samples
        self.rows: list[Row] = []
        self.thread: Row = {}
        self.first: int | None = None
        self.pending: tuple[int, str, Line] | None = None

    def take(self, text: str, line: Line) -> bool:
        """Take a line that begins a thread or is a frame; False for any other."""
        if found := _THREAD.match(text) or _EU_THREAD.match(text) or _SWITCHED.match(text):
            self.start(found.groupdict().get("number"), int(found["lwp"]), found.groupdict().get("name"))
        elif found := _PYTHON_FRAME.match(text) or _PYTHON_LINE.match(text):
            self.python(found, line)
        elif found := _FRAME.match(text):
            self.frame(int(found["depth"]), found["rest"], line)
        elif found := _INFO.match(text):
            self.start(found["number"], int(found["lwp"]), found["name"])
            self.frame(0, found["frame"], line)
            self.flush()
        else:
            if not text.strip():
                self.flush()
            return False
        return True

    def start(self, number: str | None, lwp: int, name: str | None) -> None:
        """Begin a thread."""
        self.flush()
        self.thread = {"tid": lwp, "thread": name}
        if number in ("1", "1.1") or (number is None and self.first is None):
            self.first = lwp

    def frame(self, depth: int, text: str, line: Line) -> None:
        """Take a frame; the debugger may break it over several lines."""
        self.flush()
        if not depth and not self.thread and any(row["depth"] == 0 for row in self.rows):
            self.rows = self._give(None)
        self.pending = depth, text, line

    def python(self, found: re.Match, line: Line) -> None:
        """Take a frame of py-bt: it goes before the native frames of the thread."""
        self.flush()
        depth = sum(1 for row in self.rows if row.get("tid") == self.thread.get("tid"))
        self.rows.append(
            {
                **self.thread,
                "tool": "gdb",
                "depth": depth,
                "function": found["function"],
                "file": found["file"],
                "file_line": int(found["line"]),
                "native": False,
                **line.at,
            }
        )

    def more(self, text: str) -> bool:
        """Take the rest of a broken frame."""
        if self.pending is None:
            return False
        depth, begun, line = self.pending
        self.pending = depth, f"{begun} {text.strip()}", line
        return True

    def flush(self) -> None:
        """Finish the frame at hand."""
        if self.pending is not None:
            depth, text, line = self.pending
            self.pending = None
            self.rows.append({**self.thread, "tool": "gdb", "depth": depth, **frame_of(text), "native": True, **line.at})

    def _give(self, pid: int | None) -> list[Row]:
        for row in self.rows:
            row["pid"] = pid
            row.setdefault("tid", pid)
            self.samples.add("stacks", row, (pid, row["tid"], row["depth"], row["native"]))
        return []

    def close(self, pid: int | None) -> None:
        """End the process: its pid as said, else that of its first thread."""
        self.flush()
        self.samples.table()
        self.rows = self._give(pid if pid is not None else self.first)
        self.thread, self.first = {}, None


def frame_of(text: str) -> Row:
    """Function, file and line of a frame without its number.

    Examples
    --------
    >>> frame_of("0x0000556479335193 in inner (n=3) at m.c:5")
    {'function': 'inner', 'file': 'm.c', 'file_line': 5}
    >>> frame_of("c10d::ProcessGroupNCCL::watchdog() () from /lib/libtorch_cuda.so")["function"]
    'c10d::ProcessGroupNCCL::watchdog()'
    """
    text = re.sub(r"^0x[0-9a-f]+ in ", "", text.strip())
    file = line = None
    if found := re.search(r" from (\S+)$", text):
        text, file = text[: found.start()], found.group(1)
    elif found := re.search(r" at (\S+?):(\d+)$", text):
        text, file, line = text[: found.start()], found.group(1), int(found.group(2))
    elif found := re.match(r"^0x[0-9a-f]+ (\S.*?)(?: - (\S+))?(?: (\S+:\d+(?::\d+)?))?$", text):  # eu-stack
        text, file = found.group(1), found.group(2)
    return {"function": _without_arguments(text), "file": file, "file_line": line}


def _without_arguments(text: str) -> str:
    if not text.endswith(")"):
        return re.sub(r" \(.*$", "", text) or text
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if not depth:
            return text[:place].rstrip() if place and text[place - 1] == " " else text
    return text


def parse_gdb(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read backtraces of all threads, of one process or several; frames that gdb broke over lines are joined.

    Examples
    --------
    >>> sample = ['Thread 2 (Thread 0x7fcd47c016c0 (LWP 10030) "io worker 1"):',
    ...     "#0  0x00007fcd in futex_wait () from /lib/libc.so.6", "#1  0x000055 in inner (n=3) at m.c:5", "",
    ...     'Thread 1 (Thread 0x7fcd47c02740 (LWP 10028) "m"):', "#0  0x00007fcd in clone3 () from /lib/libc.so.6"]
    >>> for _, row in parse_gdb(sample, Source("gdb.txt"), Report()):
    ...     print(row["pid"], row["tid"], row["thread"], row["depth"], row["function"], row["file"])
    10028 10030 io worker 1 0 futex_wait /lib/libc.so.6
    10028 10030 io worker 1 1 inner m.c
    10028 10028 m 0 clone3 /lib/libc.so.6
    """
    samples = Samples(source)
    frames, pid, title = _Frames(samples), source.pid, None
    for line in titled(lines, source, report):
        if line.title != title:
            frames.close(pid)
            title, pid = line.title, _pid_of_command(line.title) or source.pid
        text = line.text.rstrip()
        if named := _PID.search(text):
            pid = int(next(filter(None, named.groups())))
            if "Inferior" in text:
                frames.close(pid)
                pid = source.pid
            continue
        if found := _EU_PROCESS.match(text):
            frames.close(pid)
            pid = int(found["pid"])
        elif frames.take(text, line):
            continue
        elif failed := _failed(line, source, pid):
            samples.add("tool_errors", failed)
        elif text.strip() and not (text.startswith("    ") and frames.more(text)) and not _NOISE.match(text):
            report.odd("no line of gdb", text)
    frames.close(pid)
    for frame, row in samples.settle(report):
        if frame == "tool_errors":
            row.pop("moment", None)
        yield frame, row


def _failed(line: Line, source: Source, pid: int | None) -> Row | None:
    if not re.search(r"ptrace|attach|not found|No such process|uid matches", line.text) or line.text.startswith(("#", " ")):
        return None
    failed = failure(line, "gdb", source)
    if failed is None and re.search(r"[Cc]ould not attach|uid matches|zombie", line.text):
        failed = {"error": "permission", "text": line.text, **line.at}
    return failed and failed | {"tool": "gdb", "pid": pid}


def _pid_of_command(title: str | None) -> int | None:
    named = re.search(r"(?:-p|--pid)[ =]?(\d+)", title or "")
    words = command_words(title)
    if named:
        return int(named.group(1))
    return int(words[-1]) if words and words[-1].isdecimal() else None


def looks_like_gdb(head: str) -> float:
    """Score of a head as backtraces of a native debugger.

    Examples
    --------
    >>> looks_like_gdb("Thread 1 (LWP 88):\\n#0  0x00007f in read () from /lib/libc.so.6\\n")
    0.97
    >>> looks_like_gdb("# a comment\\n#1 apples\\n")
    0.0
    """
    lines = body_lines(head, 400)
    frames = sum(1 for line in lines if re.match(r"^#\d+\s+(?:0x[0-9a-f]+ |\S.* \(.*\) (?:at|from) |<signal handler)", line))
    threads = sum(1 for line in lines if _THREAD.match(line) or _EU_THREAD.match(line) or _INFO.match(line))
    if frames + threads >= 2 and frames + threads > 0.3 * len(lines):
        return 0.97
    if re.search(r"^(?:ptrace: |Could not attach to process|GNU gdb|\[Inferior \d+ \(process|\[New LWP )", head, re.MULTILINE):
        return 0.7
    return only_failures(head, "gdb|[gp]stack|eu-stack|cuda-gdb")
