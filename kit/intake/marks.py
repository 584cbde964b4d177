"""Lines at which a text may be cut: what people put between outputs, and known beginnings of tools' outputs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kit import compiled
from kit.intake import announce, beginnings, terminal
from kit.intake.content import Text
from kit.intake.wrapping import COLOUR, RECORD


class Mark(NamedTuple):
    """A line at which a text may be cut."""

    begin: int
    end: int
    how: str
    text: str = ""
    line: int = 0


@dataclass(frozen=True)
class _Section:
    first: re.Pattern[bytes]
    body: re.Pattern[bytes] | None


@cache
def _sections() -> tuple[_Section, ...]:
    path = Path(__file__).parent.parent / "knowledge" / "sections.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["section"]
    return tuple(
        _Section(re.compile(one["first"].encode()), re.compile(one["body"].encode()) if "body" in one else None) for one in tables
    )


_EXPLICIT = (
    rb"(?P<prompt>" + announce.PROMPT.replace("?P<command>", "?:").removesuffix("$").encode() + rb")|(?P<empty>"
    + announce.EMPTY_PROMPT.removesuffix("$").encode() + rb"(?=\n|\Z))"
    rb"|(?P<speaker>" + announce.SPEAKER.replace("$", "(?=\\n|\\Z)").encode() + rb")"
    rb"|(?P<assistant>" + announce.ASSISTANT.replace("$", "[ \\t]*(?=\\n|\\Z)").encode()
    + rb")|(?P<user>" + announce.USER.replace("$", "[ \\t]*(?=\\n|\\Z)").encode() + rb")"
    rb"|(?P<fence>[ >]{0,3}(?:`{3,}|~{3,})|\{(?:code|noformat)[^}\n]*\}|</?pre\b|\[/?code[\]=]"
    rb"|#\+(?:begin|end)_(?:src|example)\b)"
    rb"|(?P<header>==> .+ <==)|(?P<heading>#{1,6} \S|(?:<details>\s*)?<summary>|[=-]{3,} ?\w.{0,80}[=-]{3,}|h[1-6]\. )"
    rb"|(?P<script>Script (?:started|done) on )|(?P<step>" + re.escape(announce.STEP).encode() + rb"|"
    + re.escape(announce.STEP_LISTED).encode() + rb")"
)  # fmt: skip
_BEHIND_STAMPS = ("section", "prompt", "step", "header")  # these cut a text behind a shipper's stamps, too: a job's log
_LEAD = (
    rb"(?P<lead>(?:[-*] |\d+[.)] )?(?:\*\*)?"
    rb"(?:(?:[\w' ]{1,20}later|then|after that|now|and),? )?(?:(?:the )?output of |of |from |file )?"
    rb"(?:`[^`\n]{2,120}`|[\w./-]+\.(?:txt|log|csv|out|json|sh)|(?:sudo )?(?:"
    + announce.TOOLS.encode() + rb")\b[^\n:]{0,90})(?:\*\*)?:? *(?=\n|\Z)|(?:[\w .-]{0,40}\b)?[Ll]ogs?: *(?=\n|\Z))"
)  # fmt: skip


@cache
def _pattern(kinds: str, prefix: bytes) -> re.Pattern[bytes]:
    firsts = b"|".join(section.first.pattern for section in _sections())
    parts = {"explicit": _EXPLICIT, "lead": _LEAD, "section": rb"(?P<section>" + firsts + rb")"}
    plain = b"|".join(parts[kind] for kind in ("explicit", "lead", "section") if kind in kinds)
    return re.compile(COLOUR + (rb"(?:(?:" + prefix + rb")" + COLOUR + rb")?" if prefix else b"") + rb"(?:" + plain + rb")")


def marks_of(text: Text, kinds: str, prefix: bytes) -> list[Mark]:
    """Lines at which the text may be cut, found by one pass over its bytes; of the lines of a section the first.

    Logs repeat themselves with other numbers: of lines that differ in those only, or that begin as no mark does,
    one is looked at.
    """
    pattern, strip = _pattern(kinds, prefix), stripper(prefix)
    marks: list[Mark] = []
    lines = _lines(pattern, text.size)
    steers = terminal.steering(text.size) if text.unsearched else None
    inside = 0
    for offset, block in text.blocks():
        if steers is not None and steers(block):
            raise terminal.Steered
        for first, last in lines.unknown(block):
            line = block[first:last]
            found = pattern.match(line[: beginnings.LONGEST])
            bare = strip.sub(b"", line, count=1) if prefix and found else line
            if found is None or len(bare) < len(line) and found.lastgroup not in _BEHIND_STAMPS:
                lines.learn(line)
                continue
            section, begin = found.lastgroup == "section", offset + first
            if section and begin < inside:
                continue
            marks.append(Mark(begin, offset + last, found.lastgroup or "", bare[:4096].decode("utf-8", "replace")))
            if section:
                inside, _ = section_end(text, begin, text.size, strip)
    return _with_lines(text, marks)


def _lines(pattern: re.Pattern[bytes], size: int) -> Any:
    """Lines that a pattern may match; of a large text with a compiled pass, where that pays."""
    if not compiled.pays("log", size):
        return beginnings.Lines(pattern)
    from kit.intake.beginnings_compiled import CompiledLines

    return CompiledLines(pattern)


def _with_lines(text: Text, marks: list[Mark]) -> list[Mark]:
    """Marks with the numbers of their lines; newlines are counted as far as the last of them."""
    numbered: list[Mark] = []
    line, waiting = 1, iter(marks)
    mark = next(waiting, None)
    for offset, block in text.blocks() if marks else ():
        at = 0
        while mark is not None and mark.begin < offset + len(block):
            line += block.count(b"\n", at, mark.begin - offset)
            at = mark.begin - offset
            numbered.append(mark._replace(line=line))
            mark = next(waiting, None)
        if mark is None:
            break
        line += block.count(b"\n", at)
    return numbered


def stripper(prefix: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\A" + COLOUR + rb"(?:" + prefix + rb")")


BEGIN = attrgetter("begin")


def section_end(text: Text, begin: int, limit: int, strip: re.Pattern[bytes]) -> tuple[int, int]:
    """Where a section that begins at an offset ends, and how many lines it has."""
    section, last, lines, blank, prefixed = None, begin, 0, 0, False
    with text.data.open("rb") as file:
        file.seek(begin)
        at = begin
        while at < limit and (raw := file.readline(min(1 << 20, limit - at))):
            line = raw.rstrip(b"\r\n")
            line = strip.sub(b"", line, count=1) if prefixed or section is None else line
            if section is None:
                prefixed = len(line) < len(raw.rstrip(b"\r\n"))
                section = next((one for one in _sections() if one.first.match(line)), _Section(re.compile(b"."), None))
            elif not line.strip():
                at += len(raw)
                blank += 1
                continue
            elif section.body is not None and not section.body.match(line) and not section.first.match(line):
                break
            elif section.body is None and RECORD.match(line):
                break
            at += len(raw)
            last, lines, blank = at, lines + 1 + blank, 0
    return last, lines
