"""One line of strace: its prefix, and a careful scan of a call's text that knows strings, comments and decorations."""

from __future__ import annotations

import re
from typing import NamedTuple

from kit.untrusted import whole_number

_PREFIX = re.compile(
    r"(?:\[pid\s+(?P<pid1>\d{1,10})(?:<(?P<comm1>[^<>]*)>)?\]\s+|(?P<pid2>\d{1,7})(?:<(?P<comm2>[^<>]*)>)?\s+)?"
    r"(?:\[(?!Process\b|[0-9a-f]{8}\]|[0-9a-f]{16}\])(?P<context>!{0,2}[A-Za-z_][^\]\s]*)\]\s+)?"
    r"(?:(?P<ts>\d\d:\d\d:\d\d(?:\.\d+)?|(?:\d|[1-8]\d)\d{8}(?:\.\d+)?)\s+)?"
    r"(?:\(\+\s*(?P<rel1>\d+(?:\.\d+)?)\)\s+)?(?:\s*(?P<rel2>\d{1,8}(?:\.\d+)?)\s+)?"
    r"(?:\[\s*(?P<nr>-?\d{1,4}|\?{1,4})\]\s+)?"
    r"(?:\[(?P<ip>[0-9a-f]{8,16}|\?{8,16})\]\s+)?"
)
"""In strace's own order: pid, context, clock, relative time, number of the call, instruction pointer. A number of nine or
more digits is a time: pids end at 4,194,304."""
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
FAST = re.compile(
    r'(?P<name>[a-z_]\w*)\((?P<args>[^"<()/:]*(?:(?:'
    + _STRING
    + r'|(?<=[\dD])<[^<>"()\\]*(?<!-)>)[^"<()/:]*)*)\)\s+= (?P<result>.*)$'
)
"""The plain call: what stands outside of strings has no brackets, no comment, no message, and but simple decorations."""
NAME = re.compile(r"(?P<name>[a-z_]\w*|\?{3,4})\(")
RESUMED = re.compile(r"<\.\.\. (?P<name>\S+) resumed>(?P<rest>.*)$")
RESULT = re.compile(r"\s*= ?(?P<result>.*)$")
DURATION = re.compile(r" <(?P<duration>\d{1,10}(?:\.\d{1,12})?)>$")
_ERRNO = re.compile(r"(?:-1|\?) (?P<errno>E[A-Z0-9_]+)\b")
_MESSAGE = re.compile(r"(?:\^C)?(?:/\S*/)?strace: |Process \d{1,10} (?:attached|detached|suspended|resumed)\b")
"""strace's own message; before 4.20 those of threads did not name it."""
_CHANGED = re.compile(r"<pid changed to (\d{1,10}) \.\.\.>")
_SHOWN_WRITE = re.compile(
    r'(?P<head>(?:fd=)?(?:0x)?\d+(?:<[^>]*>)?, (?:buf=)?"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<more>\.\.\.)?, '
    r"(?:count=)?)(?P<tail>.*)$",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


class Prefix(NamedTuple):
    """What stands before the call: numbers and times as text, and where the rest of the line begins."""

    pid: int | None
    comm: str | None
    ts: str | None
    extra: dict
    body: str


def split_prefix(line: str) -> Prefix:
    """Take the prefix off a line.

    Examples
    --------
    >>> split_prefix("4815  12:36:19.585293 (+     0.000044) [   3] close(2) = 0")[:4]
    (4815, None, '12:36:19.585293', {'rel': '0.000044', 'nr': 3})
    >>> split_prefix("[pid  7818<io pool 3>] getppid() = 1")[:2]
    (7818, 'io pool 3')
    """
    found = _PREFIX.match(line)
    pid = found["pid1"] or found["pid2"]
    comm = found["comm1"] if found["pid1"] else found["comm2"]
    extra: dict = {}
    rel, nr = found["rel1"] or found["rel2"], found["nr"]
    if found["context"]:
        extra["context"] = found["context"]
    if rel:
        extra["rel"] = rel
    if nr:
        extra["nr"] = whole_number(nr)
    if found["ip"]:
        extra["ip"] = found["ip"]
    return Prefix(int(pid) if pid else None, comm, found["ts"], extra, line[found.end() :])


class Scan(NamedTuple):
    """How far a call's text goes.

    `kind` is closed (its own closing parenthesis), unfinished, detached, moved (pid changed), message (strace's own
    message stands inside) or end (the line ends first). `stop` ends the arguments, `after` is where the rest begins,
    `depth` the parentheses still open, `moved_to` the new pid.
    """

    kind: str
    stop: int
    after: int
    depth: int
    moved_to: int | None = None


def scan(text: str, at: int = 0, depth: int = 0) -> Scan:
    r"""Find the end of a call's arguments.

    Examples
    --------
    >>> text = r'3</srv/a) = 5, \74b\76>, "x) = 1", 6) = 6'
    >>> text[:scan(text).stop]
    '3</srv/a) = 5, \\74b\\76>, "x) = 1", 6'
    >>> scan("0x5590, FUTEX_WAIT, 0, NULL <unfinished ...>")[:2]
    ('unfinished', 27)
    """
    size = len(text)
    while at < size:
        char = text[at]
        if char == '"':
            at = _skip_string(text, at)
        elif char == "/" and text.startswith("/*", at):
            end = text.find("*/", at + 2)
            at = size if end < 0 else end + 2
        elif char == "<":
            marker = _marker(text, at, depth)
            if marker:
                return marker
            at = _skip_angle(text, at)
        elif char == "(":
            depth += 1
            at += 1
        elif char == ")":
            if not depth:
                return Scan("closed", at, at + 1, 0)
            depth -= 1
            at += 1
        elif char in "s/^P" and _MESSAGE.match(text, at) and not (at and text[at - 1].isalnum() and char != "s"):
            return Scan("message", at, at, depth)
        else:
            at += 1
    return Scan("end", size, size, depth)


def _marker(text: str, at: int, depth: int) -> Scan | None:
    stop = at - 1 if at and text[at - 1] == " " else at
    for kind, mark in (("unfinished", "<unfinished ...>"), ("detached", "<detached ...>")):
        if text.startswith(mark, at):
            after = at + len(mark)
            if kind == "unfinished" and text.startswith(")", after):
                return Scan("closed", stop, after + 1, 0)
            return Scan(kind, stop, after, depth)
    changed = _CHANGED.match(text, at)
    return Scan("moved", stop, changed.end(), depth, int(changed.group(1))) if changed else None


def _skip_string(text: str, at: int) -> int:
    at += 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at + 1
        else:
            at += 1
    return len(text)


def _skip_angle(text: str, at: int) -> int:
    """Go past `<…>` after a descriptor or pid, or past `<... resuming interrupted read ...>`; a shift (`1<<2`) is none."""
    if text.startswith("<... ", at):
        end = text.find(" ...>", at)
        return end + 5 if end >= 0 else at + 1
    if not at or text.startswith("<<", at) or text.startswith("<<", at - 1) or not re.match(r"[\w/)]", text[at - 1]):
        return at + 1
    angles, squares, place = 1, 0, at + 1
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == '"':
            place = _skip_string(text, place) - 1
        elif char in "[]":
            squares = max(0, squares + (1 if char == "[" else -1))
        elif char == "<":
            angles += 1
        elif char == ">" and not (squares and text[place - 1] == "-"):  # [a->b] is a connection
            angles -= 1
            if not angles:
                return place + 1
        place += 1
    return len(text)


def split_result(text: str) -> dict:
    """Split what stands after the equals sign.

    Examples
    --------
    >>> split_result("-1 ENOENT (No such file or directory) <0.000037>")["errno"]
    'ENOENT'
    >>> split_result("7806<strace> <0.000010>")
    {'result': '7806<strace>', 'ret': '7806', 'errno': None, 'duration': '0.000010'}
    """
    text = text.rstrip()
    timed = DURATION.search(text)
    result = text[: timed.start()] if timed else text
    error = _ERRNO.match(result)
    return {
        "result": result,
        "ret": re.match(r"[^\s<]*", result).group(),
        "errno": error["errno"] if error else None,
        "duration": timed["duration"] if timed else None,
    }


def unescape(text: str) -> str:
    r"""Undo strace's escapes in a string.

    Examples
    --------
    >>> unescape(r"a\n\"\x41\101")
    'a\n"AA'
    """

    def one(found: re.Match) -> str:
        code = found.group(1)
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)

    return _ESCAPE.sub(one, text)


def shown_output(name: str, args: str) -> tuple[str, list[str], str] | None:
    r"""Tell the program's own output from the arguments of a write that was traced on the same terminal.

    Returns the arguments without it; the lines of output, the first of them on this line; the rest of this line after the output
    where the output does not end it.

    Examples
    --------
    >>> shown_output("write", r'1, "loading weights\n", 16loading weights')
    ('1, "loading weights\\n", 16', ['loading weights'], '')
    >>> shown_output("write", '1, "x", 1)                   = 1')
    """
    found = _SHOWN_WRITE.match(args) if name == "write" else None
    if not found:
        return None
    text, tail = unescape(found["text"]), found["tail"]
    length = str(len(text))
    digits = length if not found["more"] and tail.startswith(length) else (re.match(r"(?:0x)?\d+", tail) or [""])[0]
    first = tail.find(text.split("\n")[0]) if found["more"] else 0
    digits = digits[:first] if 0 < first < len(digits) else digits  # output that begins with digits
    rest = tail[len(digits) :]
    if not digits or not rest or re.match(r"\)\s*(?:=|$)| <(?:unfinished|detached) |\s*$", rest):
        return None
    lines = text.split("\n")
    ended = len(lines) > 1 or bool(found["more"])
    if not rest.startswith(lines[0]) and not (text and text.startswith(rest)):
        return None
    if found["more"] and len(raw := rest.encode("utf-8", "replace")) > (size := int(digits, 0)):
        return found["head"] + digits, [raw[:size].decode("utf-8", "replace")], raw[size:].decode("utf-8", "replace")
    if ended:
        return found["head"] + digits, [rest, *[line for line in lines[1:-1]]], ""
    return found["head"] + digits, lines, rest[len(lines[0]) :]


def bytes_shown_later(args: str, line: str) -> int:
    r"""Bytes that a write whose text strace cut goes on to put on the terminal after a line of it.

    Examples
    --------
    >>> bytes_shown_later(r'1, "one\ntw"..., 8', "one"), bytes_shown_later(r'1, "one\ntwo\n", 8', "one")
    (4, 0)
    """
    size = re.search(r'"\.\.\., (?:count=)?(0x[0-9a-f]{1,8}|\d{1,9})$', args)
    return max(0, int(size.group(1), 0) - len(line.encode("utf-8", "replace")) - 1) if size else 0


def shown_text(name: str, args: str) -> tuple[str, bool] | None:
    r"""First line of what a write puts on a terminal, and whether strace printed all of it; None for any other call.

    Examples
    --------
    >>> shown_text("write", r'1, "loading weights\n", 16')
    ('loading weights', True)
    >>> shown_text("write", r'7, "x", 1')
    """
    found = _SHOWN_WRITE.match(args) if name == "write" and re.match(r"(?:fd=)?(?:0x)?[12]\b", args) else None
    text = unescape(found["text"]).split("\n")[0] if found else ""
    return (text, not found["more"]) if text else None
