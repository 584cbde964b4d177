"""Lock files and who holds them: lslocks, /proc/locks, and transcripts of ls, stat, fuser, lsof and flock on a lock."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import ANSI, MONTHS, stamp_ns
from kit.parse.snapshot import HEADER, LINE_CHARS, PROMPT, Line, Samples, body_lines, failure, integer, only_failures, titled
from kit.schema import Row

_LOCK_NAME = re.compile(r"(?:^|/)(?:[^/\s]*[._-])?(?:lock|lck|baton|lockfile)(?:[._-][^/\s]*)?/?$|/\.locks/", re.IGNORECASE)
"""Names of lock files: `lock`, `lock_module_x`, `x.lock`, `x.lck`, `file_baton`, all below `.locks`."""
_BATON = re.compile(r"(?:^|/)(?:lock(?:_[^/]*)?|[^/.]*baton[^/]*)$", re.IGNORECASE)
"""Locks that are held for as long as the file exists (torch's FileBaton, AITER): nobody has them open."""
NO_PATH = "not shown"
"""Path of a lock whose line holds none."""


def is_lock(path: str) -> bool:
    """Whether a path is named like a lock file.

    Examples
    --------
    >>> [is_lock(path) for path in ("/jit/build/lock_module_rmsnorm", "/cache/tmp/gdn.lock", "/models/blocks.bin")]
    [True, True, False]
    """
    return _LOCK_NAME.search(path) is not None


# --- lslocks -------------------------------------------------------------------------------------------------------------

_TYPES = ("FLOCK", "POSIX", "OFDLCK", "LEASE", "DELEG", "ACCESS", "UNKNOWN")
DEFAULT = ["COMMAND", "PID", "TYPE", "SIZE", "MODE", "M", "START", "END", "PATH"]
"""Columns of lslocks where its header is not shown."""
_MODE = re.compile(r"^(?:READ|WRITE|NONE|RW|UNLCK)\*?$")
_SIZE = re.compile(r"^\d+(?:[.,]\d+)?[BKMGTP]?$")


def _lslocks_header(text: str) -> list[str] | None:
    names = text.split()
    return names if {"TYPE", "MODE"} <= set(names) and {"PID", "PATH", "COMMAND"} & set(names) and text.isupper() else None


def _lslocks_cells(names: list[str], text: str) -> dict[str, str]:
    """Give each column its cell. SIZE, PATH and BLOCKER may be blank; a command may hold blanks."""
    words, names = text.split(), list(names)
    at = next((place for place, word in enumerate(words) if word in _TYPES), None)
    if (
        at is not None
        and "SIZE" in names
        and names.index("SIZE") == names.index("TYPE") + 1
        and not (at + 1 < len(words) and _SIZE.match(words[at + 1]))
    ):
        names.remove("SIZE")
    cells: dict[str, str] = {}
    while names and names[-1] == "BLOCKER":
        names.pop()
        if len(words) > len(names) and words[-1].isdecimal():
            cells["BLOCKER"] = words.pop()
    for place, name in enumerate(names):
        if not words:
            break
        if name == "COMMAND" and names[place + 1 : place + 2] == ["PID"]:
            pid = next((n for n, word in enumerate(words) if n and re.match(r"^-?\d+$", word)), 1)
            cells[name], words = " ".join(words[:pid]), words[pid:]
        elif name == "PATH" and place == len(names) - 1:
            cells[name], words = " ".join(words), []
        else:
            cells[name] = words.pop(0)
    return cells


def _lslocks_row(cells: dict[str, str], line: Line) -> Row | None:
    if cells.get("TYPE") not in _TYPES or not _MODE.match(cells.get("MODE", "")):
        return None
    pid = integer(cells.get("PID"))
    inode = cells.get("INODE")
    return {
        "path": cells.get("PATH") or (f"inode {inode}" if inode else NO_PATH),
        "pid": pid if pid and pid > 0 else None,
        "process": cells.get("COMMAND"),
        "type": cells["TYPE"],
        "mode": cells["MODE"],
        "waits": cells["MODE"].endswith("*") or bool(integer(cells.get("BLOCKER"))),
        "checked": True,
        **line.at,
    }


def parse_lslocks(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read lslocks, as a table with any columns or as JSON. A mode with `*`, or a BLOCKER, marks a process that waits.

    Examples
    --------
    >>> sample = ["COMMAND     PID TYPE SIZE MODE  M START END PATH",
    ...     "VLLM::Worke 400 FLOCK   0B WRITE 0     0   0 /home/op/.cache/gdn_prefill_sm90.lock",
    ...     "VLLM::Worke 401 FLOCK      WRITE* 0    0   0 /home/op/.cache/gdn_prefill_sm90.lock"]
    >>> [(row["pid"], row["mode"], row["waits"], row["path"][-10:]) for _, row in
    ...     parse_lslocks(sample, Source("lslocks.txt"), Report())]
    [(400, 'WRITE', False, '_sm90.lock'), (401, 'WRITE*', True, '_sm90.lock')]
    """
    lines, samples, names = list(lines), Samples(source), DEFAULT
    if any(line.lstrip().startswith("{") for line in lines):
        yield from _lslocks_json(lines, samples, report)
        return
    for line in titled(lines, source, report):
        header = _lslocks_header(line.text)
        row = _lslocks_row(_lslocks_cells(names, line.text), line) if not header else None
        if header:
            names = header
            samples.table()
        elif row:
            samples.add("locks", row, (row["path"], row["pid"], row["mode"], row["type"], line.text))
        else:
            samples.misread(line, report, "lslocks", "no line of lslocks")
    yield from samples.settle(report)


def _lslocks_json(lines: list[str], samples: Samples, report: Report) -> Rows:
    report.lines = len(lines)
    for at, document in objects("\n".join(lines)):
        samples.table()
        for lock in document.get("locks", [document]) if isinstance(document.get("locks", []), list) else []:
            cells = (
                {str(key).upper(): str(value) for key, value in lock.items() if value is not None}
                if isinstance(lock, dict)
                else {}
            )
            row = _lslocks_row(cells, Line(at, "", None, None))
            if row:
                samples.add("locks", row, tuple(sorted(cells.items())))
            else:
                report.odd("no lock of lslocks", str(lock))
    yield from samples.settle(report)


def _is_lslocks(head: str) -> float:
    if '"locks"' in head and '"mode"' in head and '"type"' in head:
        return 0.97
    lines = body_lines(head)
    if any(_lslocks_header(line) for line in lines):
        return 0.97
    typed = (line for line in lines if any(word in line for word in _TYPES))
    rows = sum(_lslocks_row(_lslocks_cells(DEFAULT, line), Line(0, line, None, None)) is not None for line in typed)
    if lines and rows > 0.6 * len(lines):
        return 0.9
    return only_failures(head, "lslocks")


# --- /proc/locks ---------------------------------------------------------------------------------------------------------

_PROC = re.compile(
    r"^\s*\d+: (?P<waits>-> )?\s*(?P<type>[A-Z]+)\s+\S+\s+(?P<mode>[A-Z]+)\s+(?P<pid>-?\d+)\s+"
    r"(?P<device>[0-9a-f]+:[0-9a-f]+):(?P<inode>\d+)\s"
)


def parse_proc_locks(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read /proc/locks. It names files by inode alone: the path is given as `inode N`.

    Examples
    --------
    >>> sample = ["1: FLOCK  ADVISORY  WRITE 9502 fe:00:2244835 0 EOF", "1: -> FLOCK  ADVISORY  WRITE 9503 fe:00:2244835 0 EOF"]
    >>> [(row["path"], row["pid"], row["mode"], row["waits"]) for _, row in
    ...     parse_proc_locks(sample, Source("locks.txt"), Report())]
    [('inode 2244835', 9502, 'WRITE', False), ('inode 2244835', 9503, 'WRITE*', True)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found = _PROC.match(line.text + " ")
        if found:
            pid, waits = int(found["pid"]), bool(found["waits"])
            samples.add(
                "locks",
                {
                    "path": f"inode {found['inode']}",
                    "pid": pid if pid > 0 else None,
                    "type": found["type"],
                    "mode": found["mode"] + "*" * waits,
                    "waits": waits,
                    "checked": True,
                    **line.at,
                },
                line.text,
            )
        else:
            samples.misread(line, report, "cat", "no line of /proc/locks")
    yield from samples.settle(report)


def _is_proc_locks(head: str) -> float:
    lines = body_lines(head)
    return 0.97 if lines and sum(bool(_PROC.match(line + " ")) for line in lines) > 0.6 * len(lines) else 0.0


# --- ls, stat, fuser, lsof, flock on lock files --------------------------------------------------------------------------

_LS = re.compile(
    r"^[-dlcbps][-rwxsStT]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+\S+\s+(?:(?P<month>\w{3})\s+(?P<day>\d+)\s+"
    r"(?:(?P<hour>\d\d):(?P<minute>\d\d)|(?P<year>\d{4}))|(?P<date>\d{4}-\d\d-\d\d)\s+(?P<clock>\d\d:\d\d(?::\d\d)?)"
    r"(?:\.(?P<fraction>\d+))?(?:\s+(?P<zone>[+-]\d{4}))?)\s+(?P<path>.+?)(?: -> .*)?$"
)
_FUSER_V = re.compile(
    r"^(?:(?P<path>\S[^:]*):)?\s+(?P<user>\S+)\s+(?P<pid>\d+|kernel)\s+(?P<access>[A-Za-z.]{4,6})\s+"
    r"(?P<command>\S.*)$"
)
_FUSER = re.compile(r"^(?:(?P<path>[^\s:][^:]*):)?\s*(?:(?P<pids>\d+[a-zA-Z]*(?:\s++\d+[a-zA-Z]*+)*+)\s*)?$")
_FUSER_HEAD = re.compile(r"^\s+USER\s+PID\s+ACCESS\s+COMMAND")
_LSOF_HEAD = re.compile(r"^COMMAND\s+PID\b.*\bFD\b")
_LSOF = re.compile(
    r"^(?P<command>\S+)\s+(?P<pid>\d{1,20})\s+(?:\d{1,20}\s+\S+\s+)?\S+\s+(?P<fd>\d{1,20})(?P<mode>[rwu])?"
    r"(?P<lock>[NrRwWuUxX ])?\s+[A-Za-z]+\s++.{0,200}?(?P<path>\S+(?: \(\S+\))?)$"
)
_STAT = re.compile(r"^\s*(?:(?P<file>File): [^\w/.~-]?(?P<path>.+?)[^\w/.~-]?$|(?P<kind>Modify): (?P<stamp>20.*)$)")
_STAMP = re.compile(
    r"^(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d+))?\s*"
    r"(?P<zone>[+-]\d{4})?$"
)
_BLIND = re.compile(r"^Cannot (?:stat|open) .*: Permission denied|can't stat\(\)")
_SPLIT = re.compile(r";|&&|\|\|")
_FREE = re.compile(r"^(?:0|free|unlocked|not locked|acquired|ok)$", re.IGNORECASE)
_HELD = re.compile(r"^(?:1|held|locked|busy|in use)$", re.IGNORECASE)
ASKERS = ("fuser", "lsof", "lslocks")
"""Commands that name the holder: an empty answer says that nobody holds the lock."""


@dataclass
class _File:
    """What was found out about one lock file."""

    line: int
    time: int | None
    mtime: int | None = None
    asked: bool = False
    blind: bool = False
    held: bool = False
    holders: list[Row] = field(default_factory=list)


class _Check:
    """Facts of a transcript, by lock file."""

    def __init__(self, source: Source):
        self.source, self.samples = source, Samples(source)
        self.files: dict[str, _File] = {}
        self.commands: list[tuple[str, list[str]]] = []
        self.seen: set[tuple[str, str]] = set()
        self.current: str | None = None
        self.folder: str | None = None
        self.names = DEFAULT

    def begin(self, command: str, line: Line) -> None:
        """Take a command line: what it asks, about which files."""
        self.commands, self.current, self.folder, self.names = [], None, None, DEFAULT
        for part in _SPLIT.split(command):
            words = [word.strip("'\"") for word in re.split(r"[\s|<>]", part) if word]
            while words and words[0] in ("sudo", "timeout", "time", "test", "[", "watch", "if", "!"):
                words = words[2:] if words[0] == "timeout" else words[1:]
            paths = [word.rstrip(":") for word in words[1:] if not word.startswith("-") and is_lock(word) and "*" not in word]
            if words[:1] == ["ls"] and not paths:
                self.folder = next((word for word in words[1:] if word.startswith(("/", "~", "."))), None)
            if words and paths:
                self.commands.append((words[0].rsplit("/", 1)[-1], paths))
        again = {(program, path) for program, paths in self.commands for path in paths}
        if again & self.seen:
            self.close()
        self.seen |= again
        for program, paths in self.commands:
            for path in paths:
                entry = self.file(path, line)
                entry.asked |= program in ASKERS
                self.current = path

    def file(self, path: str, line: Line) -> _File:
        """The entry of a path; the same file may be named in full and relative."""
        for known, entry in self.files.items():
            if known == path or known.endswith("/" + path.removeprefix("./")):
                return entry
            if path.endswith("/" + known.removeprefix("./")):
                self.files[path] = self.files.pop(known)
                return entry
        return self.files.setdefault(path, _File(line.number, line.time))

    def holder(self, path: str | None, line: Line, **row: object) -> None:
        """Note a process that has a lock file open."""
        path = path or self.current
        if path:
            self.current = path
            entry = self.file(path, line)
            entry.asked = True
            known = next((other for other in entry.holders if other.get("pid") == row.get("pid") is not None), None)
            if known:
                known |= {key: value for key, value in row.items() if value is not None}
            else:
                entry.holders.append(row | line.at)

    def close(self) -> None:
        """Make the rows of what was found out so far; the next question begins another sample."""
        self.samples.table()
        for path, entry in self.files.items():
            kind = "baton" if _BATON.search(path) else None
            locked = [row for row in entry.holders if row.get("mode")]
            checked = True if entry.holders else False if entry.blind or entry.held else True if entry.asked else None
            base = {"path": path, "checked": checked, "mtime": entry.mtime, "waits": False}
            for row in entry.holders:
                # lsof marks the descriptor that holds the lock; one without the mark has the file open and waits
                waits = {"waits": bool(locked) and not row.get("mode")}
                self.samples.add("locks", base | {"type": kind} | waits | row, (path, row.get("pid"), row.get("mode")))
            if not entry.holders:
                self.samples.add(
                    "locks",
                    base | {"type": kind or ("FLOCK" if entry.held else None), "line": entry.line, "time": entry.time},
                    (path, None),
                )
        self.files, self.seen = {}, set()

    def gone(self, text: str) -> None:
        """Forget the files that a message of failure says do not exist; one about rights leaves the holder open."""
        for path in [path for path in self.files if path in text]:
            if re.search(r"No such file|does not exist", text):
                del self.files[path]
        if _BLIND.match(text):
            for entry in self.files.values():
                entry.blind = True

    def answer(self, line: Line) -> bool:
        """Read a line of an answer; tell whether it was understood."""
        text = line.text
        if header := _lslocks_header(text):
            self.names = header
            return True
        programs = [program for program, _ in self.commands]
        if "lslocks" in programs or self.names is not DEFAULT:
            row = _lslocks_row(_lslocks_cells(self.names, text), line)
            if row:
                self.holder(row.pop("path"), line, **{key: row[key] for key in ("pid", "process", "type", "mode", "waits")})
                return True
        if _FUSER_HEAD.match(text) or _LSOF_HEAD.match(text) or re.match(r"^total \S+$", text):
            return True
        if found := _LS.match(text):
            self._listed(found, line)
        elif found := _STAT.match(text):
            self._stat(found, line)
        elif found := _FUSER_V.match(text):
            if found["pid"] != "kernel":
                self.holder(found["path"], line, pid=int(found["pid"]), process=found["command"])
        elif found := _LSOF.match(text):
            lock = (found["lock"] or " ").strip()
            self.holder(
                found["path"] if is_lock(found["path"]) else None,
                line,
                pid=int(found["pid"]),
                process=found["command"],
                mode="WRITE" if lock in ("w", "W", "u", "U") and lock else "READ" if lock else None,
            )
        else:
            return self._short(text, line, programs)
        return True

    def _listed(self, found: re.Match, line: Line) -> None:
        path = found["path"]
        if "/" not in path and self.folder:
            path = f"{self.folder.rstrip('/')}/{path}"
        if is_lock(path):
            self.file(path, line).mtime = _mtime(self.source, found)

    def _stat(self, found: re.Match, line: Line) -> None:
        if found["file"]:
            self.current = found["path"] if is_lock(found["path"]) else None
        stamp = _STAMP.match(found["stamp"] or "")
        if self.current and stamp:
            self.file(self.current, line).mtime = _mtime(self.source, stamp)

    def _short(self, text: str, line: Line, programs: list[str]) -> bool:
        """Answers of one word or a list of pids, and names alone."""
        users, stamp = _FUSER.match(text), _STAMP.match(text)
        if users and ((users["path"] and is_lock(users["path"])) or (not users["path"] and "fuser" in programs)):
            if users["path"]:
                self.current = users["path"]
                self.file(self.current, line).asked = True
            for pid in (users["pids"] or "").split():
                self.holder(None, line, pid=int(pid.rstrip("abcdefghijklmnopqrstuvwxyzFCDEMR")))
        elif "flock" in programs and self.current and (_FREE.match(text) or _HELD.match(text)):
            self.file(self.current, line).asked = True
            self.file(self.current, line).held = bool(_HELD.match(text))
        elif "stat" in programs and self.current and (stamp or text.isdecimal()):
            if stamp:
                self.file(self.current, line).mtime = _mtime(self.source, stamp)
        elif is_lock(text) and " " not in text:
            self.file(text.rstrip(":"), line)
        else:
            return bool(re.match(r"^\s*(?:Size|Device|Access|Change|Birth): |^[/.~]\S*:$", text))
        return True


def _mtime(source: Source, found: re.Match) -> int | None:
    parts = found.groupdict()
    if parts.get("date"):
        year, month, day = (int(part) for part in parts["date"].split("-"))
        hour, minute, second = (parts["clock"] + ":00").split(":")[:3]
        return stamp_ns(source, year, month, day, hour, minute, second, parts["fraction"], parts["zone"])
    month = MONTHS.get(parts["month"])
    if month is None:
        return None
    return stamp_ns(
        source,
        int(parts["year"]) if parts["year"] else None,
        month,
        int(parts["day"]),
        parts["hour"] or "00",
        parts["minute"] or "00",
        "00",
    )


def parse_lock_check(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a transcript of commands about lock files.

    A row a lock file and holder. Where fuser or lsof was asked and answered nothing, `checked` is true and `pid` missing:
    nobody holds the lock. Where fuser could not look into other users' processes, `checked` is false.

    Examples
    --------
    >>> sample = ["$ ls -l --time-style=full-iso /jit/build/lock_module_rmsnorm",
    ...     "-rw-r--r-- 1 root root 0 2025-12-29 17:03:41.120000000 +0000 /jit/build/lock_module_rmsnorm",
    ...     "$ fuser -v /jit/build/lock_module_rmsnorm"]
    >>> [(row["path"], row["type"], row.get("pid"), row["checked"], row["mtime"]) for _, row in
    ...     parse_lock_check(sample, Source("lock.txt"), Report())]
    [('/jit/build/lock_module_rmsnorm', 'baton', None, True, 1767027821120000000)]
    """
    check, errors = _Check(source), set()
    for number, raw in enumerate(lines, 1):
        report.lines += 1
        line = Line(number, ANSI.sub("", raw[:LINE_CHARS]).rstrip("\r\n "), None, None)
        prompt = PROMPT.match(line.text)
        if prompt:
            check.begin(prompt["command"], line)
        if prompt or not line.text.strip() or HEADER.match(line.text) or check.answer(line):
            continue
        failed = failure(line, check.commands[0][0] if check.commands else "fuser", source)
        if failed is None:
            report.odd("no answer about a lock", line.text)
            continue
        check.gone(line.text)
        if (failed["tool"], failed["error"]) not in errors:
            errors.add((failed["tool"], failed["error"]))
            yield "tool_errors", failed
    check.close()
    yield from check.samples.settle(report)


def _is_lock_check(head: str) -> float:
    commands = [found["command"] for found in map(PROMPT.match, ANSI.sub("", head).splitlines()) if found]
    asked = [command for command in commands if any(is_lock(word.strip("'\"")) for word in command.split())]
    if any(re.search(r"\b(?:fuser|lsof|flock)\b", command) for command in asked):
        return 0.98
    if asked and all(re.match(r"(?:sudo )?(?:ls|stat|lslocks|find|date)\b", command) for command in commands):
        return 0.97
    lines = [line for line in body_lines(head) if not re.match(r"^total \S+$", line) and not _BLIND.match(line)]
    if not lines:
        return 0.0
    if any(_LSOF_HEAD.match(line) for line in lines):
        rows = [found for found in map(_LSOF.match, lines) if found]
        return 0.97 if rows and sum(is_lock(row["path"]) for row in rows) > 0.6 * len(rows) else 0.0
    shown = [found for found in map(_STAT.match, lines) if found]
    if shown and shown[0]["file"] and is_lock(shown[0]["path"]) and any(found["kind"] for found in shown):
        return 0.9
    users = [found for line in lines if (found := _FUSER_V.match(line) or _FUSER.match(line)) and found["path"]]
    if users and all(is_lock(found["path"]) for found in users):
        return 0.9
    listed = [found for found in map(_LS.match, lines) if found]
    locks = sum(is_lock(found["path"]) for found in listed)
    return 0.7 if locks > 0.5 * len(lines) else 0.0


FORMATS = (
    Format("lslocks", r"lslocks|locks?(?![a-z])", _is_lslocks, parse_lslocks, frames=("locks", "tool_errors")),
    Format("lock_check", r"locks?(?![a-z])|fuser|baton", _is_lock_check, parse_lock_check, frames=("locks", "tool_errors")),
    Format("proc_locks", r"locks(?![a-z])", _is_proc_locks, parse_proc_locks, frames=("locks", "tool_errors")),
)
