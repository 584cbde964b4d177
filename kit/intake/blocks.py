"""Named blocks of other notations, written as those at which a text is cut: a heading or `==> name <==`, a fence.

The number of lines stays, so that places in the original do.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kit.intake import announce
from kit.untrusted import load_json

FENCE = b"`````"
"""Longer than the fences that a block may hold."""
_PAGED = re.compile(rb"(?m)^:{6,}\n([^\n]{1,200})\n:{6,}$")
_ASCIIDOC = re.compile(
    rb"(?ms)^(?:\.(?P<title>[^\s.][^\n]*)\n)?(?P<about>\[[^\n\]]*\]\n)?(?P<edge>-{4,60}|\.{4,60})\n(?P<body>.*?)^(?P=edge)$"
)
_WIKI = re.compile(
    rb"(?ms)^(?:==+ ?(?P<title>[^\n=]+?) ?==+\n\n?)?<(?P<tag>syntaxhighlight|source)\b[^>\n]*>"
    rb"(?P<body>(?:(?!<(?P=tag)\b).)*?)</(?P=tag)>$"
)
_TASK = re.compile(rb"(?m)^TASK \[(?P<title>[^\n]+)\] \*{3,}$")
_LINES = re.compile(
    rb"(?m)^[ \t]*\"[\w.]*(?:stdout|stderr|msg)(?:_lines)?\": \[\n(?P<body>(?:[ \t]*\"(?:[^\"\\\n]|\\.)*\",?\n)+)[ \t]*\],?$"
)
_SCALAR = re.compile(rb"(?m)^(?P<indent> *)(?P<title>[\w./-]+): \|[-+\d]?\n(?P<body>(?:(?P=indent) +\S[^\n]*\n|[ \t]*\n)+)")
_FILES = re.compile(rb"\.(?:log|txt|out|err|csv|json)$")


def _headed(title: bytes) -> bytes:
    return b"==> " + title + b" <==" if _FILES.search(title) and b" " not in title else b"## " + title


def _asciidoc(found: re.Match[bytes]) -> bytes:
    """A delimited block with a title or an attribute list; other rows of dashes are a log's own."""
    if found["title"] is None and found["about"] is None:
        return found[0]
    title = b"" if found["title"] is None else _headed(found["title"]) + b"\n"
    return title + (b"\n" if found["about"] else b"") + FENCE + b"\n" + found["body"] + FENCE


def _wiki(found: re.Match[bytes]) -> bytes:
    title = b"" if found["title"] is None else _headed(found["title"])
    lines = found[0][: found.start("body") - found.start()].count(b"\n")
    return title + b"\n" * lines + FENCE + found["body"] + FENCE


def _strings(found: re.Match[bytes]) -> bytes:
    """Ansible's `stdout_lines`, as the lines that they are."""
    lines = [line.strip().rstrip(b",").decode("utf-8", "replace") for line in found["body"].removesuffix(b"\n").split(b"\n")]
    try:
        said = [str(load_json(line, strict=False)).replace("\n", " ") for line in lines]
    except ValueError:
        return found[0]
    return "\n".join([FENCE.decode(), *said, FENCE.decode()]).encode("utf-8", "replace")


def _scalar(found: re.Match[bytes]) -> bytes:
    """A literal block of YAML under the name of a file."""
    said = announce.read(found["title"].decode())
    if not _FILES.search(found["title"]) or not said.name:
        return found[0]
    first = next(line for line in found["body"].split(b"\n") if line.strip())
    indent = len(first) - len(first.lstrip())
    return _headed(found["title"]) + b"\n" + re.sub(rb"(?m)^ {1,%d}" % indent, b"", found["body"])


_NOTATIONS: tuple[tuple[bytes, re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]], ...] = (
    (b":::::", _PAGED, lambda found: b"\n==> " + found[1] + b" <==\n"),
    (b"\n----", _ASCIIDOC, _asciidoc),
    (b"\n....", _ASCIIDOC, _asciidoc),
    (b"</syntaxhighlight>", _WIKI, _wiki),
    (b"</source>", _WIKI, _wiki),
    (b"TASK [", _TASK, lambda found: b"## " + found["title"]),
    (b'_lines": [', _LINES, _strings),
    (b": |", _SCALAR, _scalar),
)


def known(data: bytes) -> bytes:
    r"""A text with blocks of AsciiDoc, `more`, MediaWiki, Ansible and YAML in known marks.

    Examples
    --------
    >>> known(b"Hi\n\n.ps.txt\n[source]\n----\nPID\n----\n")
    b'Hi\n\n==> ps.txt <==\n\n`````\nPID\n`````\n'
    >>> known(b"::::::::::::::\na.log\n::::::::::::::\none\n"), known(b"one\n----\ntwo\n----\n")
    (b'\n==> a.log <==\n\none\n', b'one\n----\ntwo\n----\n')
    """
    for sign, pattern, change in _NOTATIONS:
        if sign in data:
            data = pattern.sub(change, data)
    return data
