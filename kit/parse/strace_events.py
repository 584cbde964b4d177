"""Lines of strace to events: split calls joined, messages and output inside a call taken out, stacks and dumps attached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kit.parse.records import ANSI
from kit.parse.strace_scan import (
    FAST,
    NAME,
    RESULT,
    RESUMED,
    Prefix,
    Scan,
    bytes_shown_later,
    scan,
    shown_output,
    shown_text,
    split_prefix,
    split_result,
)

Event = dict
SIGNAL = re.compile(r"--- (?P<signal>SIG\w+|SIGRT\S+)(?: (?P<info>.*?))? ---$")
_STOPPED = re.compile(r"--- stopped by (?P<signal>\S+) ---$")
_EXITED = re.compile(r"\+\+\+ exited with (?P<code>-?\d{1,10}) \+\+\+")
_KILLED = re.compile(r"\+\+\+ killed by (?P<signal>\S+)(?P<core> \(core dumped\))? \+\+\+")
_SUPERSEDED = re.compile(r"\+\+\+ superseded by execve in pid (?P<by>\d{1,10}) \+\+\+")
_MESSAGE = re.compile(r"(?:\^C)?(?P<text>(?:(?:/\S*/)?strace: |Process \d+ (?:attached|detached|suspended|resumed)\b).*)$")
_ATTACHED = re.compile(r"Process (?P<pid>\d{1,10})(?:<[^>]*>)? attached(?: with (?P<threads>\d{1,10}) threads?)?")
_DETACHED = re.compile(r"Process (?P<pid>\d{1,10})(?:<[^>]*>)? detached")
_STACK = re.compile(r"^ > \S")
_DUMP = re.compile(r"^ (?:\| [0-9a-f]{5,}  |\* \d+ (?:bytes )?in (?:buffer|vector|msg))")
_SAID = ("[ Process PID=", "System call usage summary for ")
"""How further messages begin: of a program that makes calls of several personalities."""
_RULE = re.compile(r"^\s*-{3,}(?: -{3,})*\s*$")
_RESUMES = re.compile(r"<\.\.\. resuming interrupted (\S+) \.\.\.>$")
_PLAIN_VALUE = re.compile(r"-?\d+|0x[0-9a-f]+|[A-Z][A-Z0-9_|]*")
_RETURNS = re.compile(r"\) += ")
_GOES_ON = re.compile(r"\)|,| ?=> | <(?:unfinished|detached|pid changed)|[\]}]")
"""What the rest of an interrupted line begins with."""


def ending(body: str) -> Event | None:
    """What a line says of a signal, a stop or an end: its `kind` with what belongs to it.

    Examples
    --------
    >>> ending("+++ exited with 7 +++")
    {'kind': 'exited', 'code': 7}
    >>> ending("--- SIGCHLD {si_signo=SIGCHLD} ---")
    {'kind': 'signal', 'signal': 'SIGCHLD', 'info': '{si_signo=SIGCHLD}'}
    """
    if found := _STOPPED.match(body):
        return {"kind": "stopped", "signal": found["signal"]}
    if found := SIGNAL.match(body):
        return {"kind": "signal", "signal": found["signal"], "info": found["info"]}
    if found := _EXITED.match(body):
        return {"kind": "exited", "code": int(found["code"])}
    if found := _KILLED.match(body):
        return {"kind": "killed", "signal": found["signal"], "core": bool(found["core"])}
    if found := _SUPERSEDED.match(body):
        return {"kind": "superseded", "by": int(found["by"])}
    return None


class Joiner:
    """Turns lines into events, in the order in which they are complete.

    Parameters
    ----------
    pid : int or None
        Pid of lines without one (files of -ff).
    clock : callable or None
        Makes nanoseconds of a stamp; asked once a line, in the order of the lines. Events then carry `ns`, and `ns_end`
        where they were split.

    Examples
    --------
    >>> joiner = Joiner()
    >>> lines = ["7 read(3,  <unfinished ...>", "8 close(4) = 0", '7 <... read resumed>"x", 1) = 1']
    >>> events = [event for number, line in enumerate(lines, 1) for event in joiner.feed(number, line)]
    >>> [(event["syscall"], event["args"], event["lines"]) for event in [*events, *joiner.finish()]]
    [('close', '4', [2]), ('read', '3, "x", 1', [1, 3])]
    """

    def __init__(self, pid: int | None = None, clock: Callable[[str | None, str | None], int | None] | None = None):
        self.pid, self.clock = pid, clock
        self.open: dict[int | None, Event] = {}
        self.ready: list[Event] = []
        self.latest: Event | None = None
        self.partial: Event | None = None
        self.after_message = False
        self.output: list[str] = []
        self.output_bytes = 0
        self.blanks: list[int] = []
        self.table: _Table | None = None
        self.made = 0

    def feed(self, number: int, line: str) -> Iterator[Event]:
        """Take a line; give the events that are complete."""
        line = ANSI.sub("", line).rstrip("\r")
        if self.table is not None:
            if self.table.add(number, line):
                return
            self.table = None
        if not line.strip():
            self.blanks.append(number)
            self.output_bytes -= len(line) + 1
            return
        if self.latest is not None and (_STACK.match(line) or _DUMP.match(line)):
            self.latest["lines"].append(number)
            self.latest.setdefault("stack" if _STACK.match(line) else "dump", []).append(line.strip())
            return
        if (
            _RULE.match(line)
            and self.latest is not None
            and self.latest["kind"] == "other"
            and self.latest["lines"] == [number - 1]
            and (" -" in line or self.latest["text"].strip() == "syscall")
        ):
            self.table = _Table(self.latest, number, line)
            self.blanks.clear()
            return
        yield from self.give()
        if not (self.partial is not None and self._go_on(number, line)):
            self._line(number, line)
        self.blanks.clear()

    def finish(self) -> Iterator[Event]:
        """Give what is left: calls that never returned, and the one that the file's end cut."""
        self._cut()
        yield from self.give()
        left = sorted(self.open.values(), key=lambda event: event["order"])
        self.open.clear()
        yield from (_settled(event) for event in left)

    def give(self) -> Iterator[Event]:
        """Give the events that are complete, before the next line."""
        ready, self.ready = self.ready, []
        yield from (_settled(event) for event in ready)

    def _event(self, kind: str, number: int, prefix: Prefix | None, **more: object) -> Event:
        given = prefix or Prefix(None, None, None, {}, "")
        self.made += 1
        event: Event = {
            "lines": [number],
            "kind": kind,
            "pid": given.pid if given.pid is not None else self.pid,
            "comm": given.comm,
            "ts": given.ts,
            **given.extra,
            **more,
            "order": (number, self.made),
        }
        if self.clock is not None:
            event["ns"] = self.clock(given.ts, given.extra.get("rel"))
        self.latest = event
        return event

    def _other(self, number: int, text: str) -> None:
        self.ready += [self._event("other", blank, None, text="") for blank in self.blanks]
        self.ready.append(self._event("other", number, None, text=text))

    def _line(self, number: int, line: str) -> None:
        prefix = split_prefix(line)
        body = prefix.body
        resumed, called = RESUMED.match(body), NAME.match(body)
        if resumed:
            self._resume(number, prefix, resumed["name"], resumed["rest"])
        elif called and self._call(number, prefix, called["name"], body[called.end() :]):
            return
        elif message := _MESSAGE.match(body):
            self._message(number, message["text"], prefix)
        elif body.startswith(_SAID):
            self.ready.append(self._event("message", number, prefix, text=body.rstrip()))
        elif body.startswith(("---", "+++")) and self._end(number, prefix):
            return
        else:
            self._other(number, line)

    def _message(self, number: int, text: str, prefix: Prefix | None = None) -> None:
        more: dict = {"text": text.rstrip()}
        attached, detached = _ATTACHED.search(text), _DETACHED.search(text)
        if attached:
            more["attached"] = int(attached["pid"])
            if attached["threads"]:
                more["threads"] = int(attached["threads"])
        elif detached:
            more["detached"] = int(detached["pid"])
        keep = self.latest
        self.ready.append(self._event("message", number, prefix, **more))
        if self.partial is not None:
            self.latest = keep

    def _end(self, number: int, prefix: Prefix) -> bool:
        """Signals, stops and ends of processes."""
        found = ending(prefix.body.rstrip())
        if found is None:
            return False
        self.ready.append(self._event(found.pop("kind"), number, prefix, **found))
        if self.ready[-1]["kind"] not in ("stopped", "signal"):
            self._gone(prefix.pid)
        by = found.get("by")
        if by in self.open and by is not None:  # the thread goes on under the pid of its process
            self.open[prefix.pid] = self.open.pop(by)
        return True

    def _gone(self, pid: int | None) -> None:
        event = self.open.pop(pid, None)
        if event is not None:
            self.ready.append(event)

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, number: int, prefix: Prefix, name: str, rest: str) -> bool:
        plain = FAST.match(prefix.body)
        shown = shown_output(name, rest)
        if plain and not shown:
            self.ready.append(
                self._event(
                    "syscall", number, prefix, syscall=name, args=plain["args"], state="done", **split_result(plain["result"])
                )
            )
            return True
        if not shown and not _may_be_call(rest):
            return False
        event = self._event(
            "syscall", number, prefix, syscall=name, args="", state="done", result=None, ret=None, errno=None, duration=None
        )
        if shown:
            args, output, rest = shown
            event["args"] = args
            self._advance(event, number, rest, 0)
            event.setdefault("output", []).append(output[0])
            self.output, self.output_bytes = output[1:], 0 if rest else bytes_shown_later(args, output[0])
        else:
            self._advance(event, number, rest, 0)
        return True

    def _advance(self, event: Event, number: int, text: str, depth: int) -> None:
        """Read on in a call: to its end, to a mark, to a message, or to the end of the line."""
        found = scan(text, 0, depth)
        event["args"] += text[: found.stop]
        if found.kind in ("unfinished", "end") and "ts_end" not in event:
            self._take_output(event)
        self.partial = None
        self.latest = event
        if found.kind == "closed":
            self._close(event, text[found.after :])
        elif found.kind == "unfinished":
            self._open(event, found)
        elif found.kind in ("detached", "moved"):
            event["state"] = found.kind
            if found.moved_to is not None:
                event["moved_to"] = found.moved_to
            event["args"] = event["args"].rstrip(" ,")
            self.ready.append(event)
        else:
            self.partial = event
            event["depth"] = found.depth
            self.after_message = found.kind == "message"
            if self.after_message:
                self._message(number, text[found.stop :].removeprefix("^C"))

    def _take_output(self, event: Event) -> None:
        """Take out what another thread's unfinished write has put on the terminal in the middle of this call."""
        if _PLAIN_VALUE.fullmatch(event["args"].rsplit(", ", 1)[-1]):
            return
        for other in self.open.values():
            if other["syscall"] != "write" or other is event:
                continue
            shown = shown_text("write", other["args"])
            if shown is None:
                continue
            text, whole = shown
            place = event["args"].rfind(text) if whole else event["args"].find(text)
            if place > 0 and (not whole or place + len(text) == len(event["args"])):
                other.setdefault("output", []).append(event["args"][place:])
                event["args"] = event["args"][:place]
                return

    def _open(self, event: Event, found: Scan) -> None:
        event["depth"] = found.depth
        event["state"] = "open"
        pid = event["pid"] if "ts_end" not in event else event.get("pid_end", event["pid"])
        earlier = self.open.get(pid)
        if earlier is not None and earlier is not event:
            self._gone(pid)
        self.open[pid] = event

    def _close(self, event: Event, rest: str) -> None:
        found = RESULT.match(rest)
        if not found or not found["result"].strip():
            event["state"] = "cut"
        else:
            event.update(split_result(found["result"]))
            if event["state"] not in ("orphan", "merged"):
                event["state"] = "done"
        self.ready.append(event)

    def _resume(self, number: int, prefix: Prefix, name: str, rest: str) -> None:
        if rest.startswith(" ") and not rest.startswith((" =>", " <")):
            rest = rest[1:]  # before strace 5.0
        event = self._take(prefix.pid if prefix.pid is not None else self.pid, name)
        if event is None:
            event = self._event(
                "syscall", number, prefix, syscall=name, args="", state="orphan", result=None, ret=None, errno=None, duration=None
            )
            event["ts"], event["ts_end"] = None, prefix.ts
            if self.clock is not None:
                event["ns"], event["ns_end"] = None, event["ns"]
            self._advance(event, number, rest, 0)
            return
        event["lines"].append(number)
        event["end_line"] = number
        event["state"] = "merged"
        event["ts_end"] = prefix.ts
        if self.clock is not None:
            event["ns_end"] = self.clock(prefix.ts, prefix.extra.get("rel"))
        pid = prefix.pid if prefix.pid is not None else self.pid
        if pid != event["pid"]:
            event["pid_end"] = pid
        self._advance(event, number, rest, event.get("depth", 0))

    def _take(self, pid: int | None, name: str) -> Event | None:
        """The open call that returns: the pid's own; strace on a terminal leaves the pid out while there is one process."""
        event = self.open.get(pid)
        if event is not None and event["syscall"] == name:
            return self.open.pop(pid)
        if pid is not None:
            others = [None] if name != "execve" else [None, *reversed(self.open)]
        else:
            others = list(reversed(self.open))
        for other in others:
            event = self.open.get(other)
            if event is not None and event["syscall"] == name:
                return self.open.pop(other)
        return None

    def _go_on(self, number: int, line: str) -> bool:
        """Take a line as the rest of a call that was interrupted by a message or by the program's output."""
        event = self.partial
        if self.output_bytes > 0 and not _RETURNS.match(line):
            raw, size = line.encode("utf-8", "replace"), self.output_bytes
            self.output_bytes -= len(raw) + 1
            if len(raw) <= size:
                self._other(number, line)
                self.latest = event
            else:
                event.setdefault("output", []).append(raw[:size].decode("utf-8", "replace"))
                event["lines"].append(number)
                event["end_line"] = number
                self._advance(event, number, raw[size:].decode("utf-8", "replace"), event.get("depth", 0))
            return True
        if self.output and line == self.output[0]:
            self.output.pop(0)
            self._other(number, line)
            self.latest = event
            return True
        fits = _GOES_ON.match(line) is not None
        if not fits and self.after_message:
            if _MESSAGE.match(line):
                self._message(number, line)
                return True
            fits = not _strace_wrote(line)
        elif not fits and not _strace_wrote(line):
            self._other(number, line)
            self.latest = event
            return True
        if not fits:
            self._cut()
            return False
        event["lines"].append(number)
        event["end_line"] = number
        self.output, self.output_bytes = [], 0
        self._advance(event, number, line, event.get("depth", 0))
        return True

    def _cut(self) -> None:
        event, self.partial, self.output, self.output_bytes = self.partial, None, [], 0
        if event is not None:
            event["state"] = "cut"
            self.ready.append(event)


def _strace_wrote(line: str) -> bool:
    """Whether a line begins as strace begins one."""
    prefix = split_prefix(line)
    return (
        prefix.pid is not None
        or prefix.ts is not None
        or NAME.match(prefix.body) is not None
        or (prefix.body.startswith(("+++ ", "--- ", "<... ", "[ Process", "strace: ")))
    )


def _may_be_call(rest: str) -> bool:
    """Whether the text after `name(` reads as a call, not as a line of the program's."""
    found = scan(rest)
    if found.kind != "closed":
        return True
    return re.match(r"\s*(?:$|= ?(?:$|-?\d|0x|\?|\())", rest[found.after :]) is not None


def _settled(event: Event) -> Event:
    """Take the scratch values off an event and the loose ends off arguments that never came whole."""
    event.pop("depth", None)
    if event["kind"] == "syscall":
        if event["state"] in ("open", "detached", "cut", "moved") or event["ret"] == "?":
            event["args"] = event["args"].rstrip(" ,")
        resumes = _RESUMES.match(event["args"])
        if resumes:
            event["resumes"] = resumes.group(1)
    return event


class _Table:
    """A summary of -c: the line of heads is there already, as an event of kind other."""

    def __init__(self, event: Event, number: int, rule: str):
        self.spans = [(found.start(), found.end()) for found in re.finditer(r"-+", rule)]
        head = event.pop("text")
        event.update(kind="summary", columns=self._cells(head), rows=[], total=None)
        event["lines"].append(number)
        self.event, self.rules, self.done = event, 1, False
        # -U may leave columns out, and a row without an error has no figure then.
        figures = set(event["columns"]) - {"syscall", "errors"}
        self.row = re.compile(r"\d" if figures else r"\d|^ *\w+ *$")

    def add(self, number: int, line: str) -> bool:
        """Take a line; False where it is none of the table's."""
        if self.done or not line.strip():
            return False
        if _RULE.match(line):
            self.rules += 1
        else:
            cells = self._cells(line)
            if not self.row.search(line) or len(cells) != len(self.spans):
                return False
            if self.rules > 1:
                self.event["total"] = cells
                self.done = True
            else:
                self.event["rows"].append(cells)
        self.event["lines"].append(number)
        return True

    def _cells(self, line: str) -> list[str | None]:
        """Cells by column; where a number outgrew its column, by words, of which the errors may be missing."""
        gaps = [end for _, end in self.spans[:-1]]
        if all(line[gap : gap + 1] in ("", " ") for gap in gaps):
            cut = [line[start:end] for start, end in self.spans[:-1]] + [line[self.spans[-1][0] :]]
            return [cell.strip() or None for cell in cut]
        words = line.replace("% time", "%_time").split()
        if len(words) == len(self.spans) - 1 and "columns" in getattr(self, "event", {}):
            columns = self.event["columns"]
            if "errors" in columns:
                words.insert(columns.index("errors"), None)
        return [word.replace("%_time", "% time") if word else None for word in words]
