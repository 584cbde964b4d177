"""A text to segments: stretches of one kind, each with what announced it and where it stands.

Two steps. What people put between outputs (prompts, fences, headings, `==> file <==`) cuts a text first; then, where a piece is
a log or nothing that a parser knows, known beginnings of tools' outputs (`kit/knowledge/sections.toml`) cut out what stands
within it. A log keeps the rest. Whether a cut was right is decided by recognition: neighbours of one kind grow together again,
a section that no parser takes goes back to where it stood.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kit.intake import announce
from kit.intake.content import Content, Part, Text, whole

HEAD_BYTES = 65_536
MOST_SEGMENTS = 5_000
"""Distinct pieces of a text that are looked at; a text with more of them repeats itself, or is no evidence of one launch."""
LEAD_LINES = 3
"""Lines before a fence or an output among which its announcement is looked for."""
LONGEST_LEAD = 160
Recognise = Callable[[str, str], str | None]

_COLOUR = rb"(?:\x1b\[[\d;]*m)*"
_PREFIXES = (
    rb"20\d\d-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?",
    rb"\[pod/[^\]]+\] (?:20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) )?",
    rb"[\w.-]+ +\| (?:20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) )?",
    rb"(?:20\d\d-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d|[A-Z][a-z]{2} +\d+ [\d:]{8}) \S+ [^\[\]:\s]+\[\d+\]: ",
    rb"\d{1,5}: ",
)
"""What docker, kubectl, compose, journald and srun put before each line."""
RECORD = re.compile(
    rb"\[?20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d|\[\d\d/\d\d/20\d\d-|(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|\(\w[\w.-]*[^)]* ?pid=\d+"
    rb"|\[?[IWEF]\d{3,4} \d\d:\d\d:|\[(?:[Rr]ank ?\d+|default\d+)\]|[\w.-]+:\d+:\d+ (?:\[-?\d+\] )?NCCL |Traceback \(most|.{0,80}\d{1,3}%\|"
    rb"|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+ |\w+: (?:20\d\d|\d\d:)|srv |llama_|Loading "
)
"""How lines of a log begin: a section within a log ends there."""


@dataclass
class Segment:
    """A stretch of a text, or several, of one kind.

    Attributes
    ----------
    content : Content
        What a parser reads.
    how : str
        What announced it: `file` (the text as a whole), `prompt`, `fence`, `header`, `heading`, `section` (an output that begins
        by itself), `rest` (what is left of the text around those).
    name : str
        Name that a file with it would bear; of a text as a whole its own.
    command : str
        Command that printed it, where that is known.
    kind : str or None
        What recognition made of it.
    """

    content: Content
    how: str
    name: str
    command: str = ""
    kind: str | None = None

    @property
    def file(self) -> str:
        """Path of the file, or of the member of an archive, that it stands in."""
        return self.content.text.name

    @property
    def line(self) -> int:
        """First line in the original file."""
        return self.content.text.original(self.content.parts[0].line)

    def head(self, lead: bool = False) -> str:
        """Its beginning as text."""
        content = self.content if lead or not self.content.leads else replace(self.content, leads=False)
        return content.head(HEAD_BYTES).decode("utf-8", "replace").replace("\0", "")


@dataclass(frozen=True)
class _Mark:
    """A line at which a text may be cut."""

    begin: int
    end: int
    how: str
    text: str = ""
    line: int = 0


# --- marks -----------------------------------------------------------------------------------------------------------------


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
    rb"|(?P<fence>[ >]{0,3}(?:`{3,}|~{3,})|\{(?:code|noformat)[^}\n]*\}|</?pre\b)"
    rb"|(?P<header>==> .+ <==)|(?P<heading>#{1,6} \S|(?:<details>\s*)?<summary>|[=-]{3,} ?\w.{0,80}[=-]{3,}|h[1-6]\. )"
    rb"|(?P<script>Script (?:started|done) on )"
)  # fmt: skip
_LEAD = (
    rb"(?P<lead>(?:[-*] |\d+[.)] )?(?:\*\*)?(?:[\w' ]{0,30}(?:later|of|from|is|after|then)?,? ?(?:output of |of )?)"
    rb"(?:`[^`\n]{2,120}`|[\w./-]+\.(?:txt|log|csv|out|json|sh)|(?:sudo )?(?:" + announce.TOOLS.encode() + rb")\b[^\n:]{0,90})(?:\*\*)?:? *(?=\n|\Z))"
)  # fmt: skip


@cache
def _pattern(kinds: str, prefix: bytes) -> re.Pattern[bytes]:
    firsts = b"|".join(section.first.pattern for section in _sections())
    parts = {"explicit": _EXPLICIT, "lead": _LEAD, "section": rb"(?P<section>" + firsts + rb")"}
    plain = b"|".join(parts[kind] for kind in ("explicit", "lead") if kind in kinds)
    if "section" in kinds:
        plain += (b"|" if plain else b"") + (rb"(?:" + prefix + rb")" if prefix else b"") + parts["section"]
    return re.compile(rb"\n" + _COLOUR + rb"(?:" + plain + rb")", re.MULTILINE)


def _prefix(head: bytes) -> bytes:
    """What stands before nearly every line of a text that was pulled through docker, the journal and the like."""
    lines = [line for line in head[:HEAD_BYTES].split(b"\n")[:200] if line]
    for prefix in _PREFIXES:
        matching = re.compile(_COLOUR + prefix).match
        if lines and sum(1 for line in lines if matching(line)) >= 0.8 * len(lines):
            return prefix
    return b""


def _marks(text: Text, kinds: str, prefix: bytes) -> list[_Mark]:
    """Lines at which the text may be cut, found by one pass over its bytes."""
    pattern = _pattern(kinds, prefix)
    marks: list[_Mark] = []
    line, counted = 1, []  # newlines of blocks without a mark are counted only when one comes
    for offset, block in text.blocks():
        at = 0
        data = b"\n" + block
        for found in pattern.finditer(data):
            begin = found.start() + 1
            if counted:
                line += sum(chunk.count(b"\n") for _, chunk in _reread(text, counted[0], offset))
                counted = []
            line += block.count(b"\n", at, begin - 1)
            at = begin - 1
            end = data.find(b"\n", begin)
            end = len(data) if end < 0 else end
            shown = data[begin : min(end, begin + 4096)].decode("utf-8", "replace")
            marks.append(_Mark(offset + begin - 1, min(offset + end, offset + len(block)), found.lastgroup or "", shown, line))
        if marks and not counted:
            line += block.count(b"\n", at)
        elif not counted:
            counted = [offset]
        if marks:
            counted = []
    return marks


def _reread(text: Text, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    return (pair for pair in text.blocks() if begin <= pair[0] < end)


# --- pieces ----------------------------------------------------------------------------------------------------------------


class _Cutter:
    """One text on its way to segments."""

    def __init__(self, text: Text, recognise: Recognise):
        self.text = text
        self.recognise = recognise
        self.prefix = _prefix(text.head(HEAD_BYTES))
        self._kinds: dict[tuple[str, bytes], str | None] = {}

    def kind(self, segment: Segment) -> str | None:
        """Kind of a piece; pieces that differ in digits only are looked up once."""
        head = segment.head(lead=True)
        if not segment.head().strip():
            return None
        key = segment.name, re.sub(r"[\da-f]+", "", head[:4096]).encode()
        if key not in self._kinds:
            if len(self._kinds) >= MOST_SEGMENTS:
                return None
            plain = self.recognise(segment.name, segment.head())
            self._kinds[key] = plain or (self.recognise(segment.name, head) if segment.command else None)
        return self._kinds[key]

    def segments(self, kind: str | None) -> list[Segment]:
        """All segments of the text, whose kind as a whole is `kind`."""
        base = self.text.name.rsplit("/", 1)[-1]
        at_once = Segment(whole(self.text), "file", base, kind=kind)
        if kind not in (None, "log", "shell") and not self.document:
            return [at_once]
        log_first = kind == "log" and RECORD.match(_first_line(self.text, self.prefix)) is not None
        kinds = "section" if self.prefix else "explicit section" if log_first else "explicit lead section"
        marks = _marks(self.text, kinds, self.prefix)
        if not marks:
            return [at_once]
        explicit = [mark for mark in marks if mark.how != "section"]
        inner = [mark for mark in marks if mark.how == "section"]
        pieces = list(self._pieces(explicit))
        found = [part for piece in pieces for part in self._inside(piece, inner)]
        if kind not in (None, "log", "shell") and {one.kind for one in found} <= {kind, None}:
            return [at_once]
        return self._grown(found, at_once)

    @property
    def document(self) -> bool:
        """Whether a text of a known kind may hold more: it has a prompt or a fence somewhere."""
        if self.text.size > 1 << 20 or self.text.head(1)[:1] in (b"{", b"["):
            return False
        return any(mark.how in ("prompt", "fence") for mark in _marks(self.text, "explicit", b""))

    def _piece(self, begin: int, end: int, line: int, how: str, said: announce.Said | None, lead_line: int = 0) -> Segment | None:
        if begin >= end and not (said and said.command):
            return None
        lead = f"$ {said.command}".encode() if said and said.command else b""
        return Segment(
            Content(self.text, (Part(begin, end, line, lead),)), how, said.name if said else "", said.command if said else ""
        )

    def _pieces(self, marks: list[_Mark]) -> Iterator[Segment]:
        """Stretches between what people put between outputs."""
        begin, line, how, said, fence = 0, 1, "rest", None, ""
        for mark in [*marks, _Mark(self.text.size, self.text.size, "end")]:
            inside = fence and mark.how != "end" and not _closes(mark, fence)
            if inside and mark.how not in ("prompt", "empty"):
                continue
            piece = self._piece(begin, mark.begin, line, how, said)
            if piece is not None:
                yield piece
            after = min(mark.end + 1, self.text.size)
            if mark.how == "prompt":
                text = re.match(announce.PROMPT, re.sub(r"\x1b\[[\d;]*m", "", mark.text))
                how, said = "prompt", announce.read("$ " + (text["command"] if text else mark.text))
            elif mark.how in ("empty", "script"):
                how, said = "rest", None
            elif mark.how == "fence" and fence and not inside:
                fence, how, said = "", "rest", None
            elif mark.how == "fence":
                fence, how, said = mark.text.strip(" >"), "fence", self._lead(mark.begin)
            elif mark.how == "header":
                how, said = "header", announce.Said(announce.name_of("cat " + mark.text[4:].rsplit(" <==", 1)[0]), "")
                if piece is None or piece.how != "header":
                    after, line = mark.begin, mark.line - 1  # the parsers read these lines themselves
            else:
                how, said = "heading", announce.read(mark.text)
                if not said.name:
                    how, said = "rest", None
            begin, line = after, mark.line + 1 - (after == mark.begin)

    def _lead(self, begin: int) -> announce.Said | None:
        """What the lines before a fence say about it."""
        size = min(begin, LEAD_LINES * LONGEST_LEAD * 2)
        with self.text.data.open("rb") as file:
            file.seek(begin - size)
            before = file.read(size).decode("utf-8", "replace")
        for text in [line for line in before.split("\n") if line.strip()][-LEAD_LINES:][::-1]:
            if text.strip(" >").startswith(("```", "~~~", "</pre", "{code", "{noformat")) or len(text) > LONGEST_LEAD:
                return None
            said = announce.read(text)
            if said.name or said.command:
                return said
        return None

    def _inside(self, piece: Segment, marks: list[_Mark]) -> Iterator[Segment]:
        """A piece, with the outputs of tools that begin within it taken out where it is a log or nothing known."""
        piece.kind = self.kind(piece)
        (part,) = piece.content.parts
        within = [mark for mark in marks if part.begin <= mark.begin < part.end]
        if piece.kind not in (None, "log", "shell") or not within:
            yield piece
            return
        rest: list[Part] = []
        at, line = part.begin, part.line
        for mark in within:
            if mark.begin < at:
                continue
            end, lines = self._ends(mark.begin, part.end)
            name = self._lead(mark.begin) if mark.begin > part.begin else announce.Said(piece.name, piece.command)
            section = self._piece(mark.begin, end, mark.line, "section", name)
            if section is None:
                continue
            section.kind = self.kind(section)
            if section.kind in (None, "log"):
                continue
            if self.prefix:
                section = replace(section, content=self._bare(section.content))
            if mark.begin > at:
                rest.append(Part(at, mark.begin, line, part.lead if not rest else b""))
            yield section
            at, line = end, mark.line + lines
        if part.end > at:
            rest.append(Part(at, part.end, line, b"" if rest or at > part.begin else part.lead))
        if rest:
            left = replace(piece, content=Content(self.text, tuple(rest)))
            left.kind = self.kind(left)
            yield left

    def _bare(self, content: Content) -> Content:
        """A section without what docker or the journal put before each line."""
        return replace(content, strip=_COLOUR + rb"(?:" + self.prefix + rb")")

    def _ends(self, begin: int, limit: int) -> tuple[int, int]:
        """Where a section that begins at an offset ends, and how many lines it has."""
        strip = re.compile(rb"(?:" + self.prefix + rb")") if self.prefix else None
        section, last, lines, blank = None, begin, 0, 0
        with self.text.data.open("rb") as file:
            file.seek(begin)
            at = begin
            while at < limit and (raw := file.readline(min(1 << 20, limit - at))):
                line = re.sub(rb"\x1b\[[\d;]*m", b"", raw.rstrip(b"\r\n"))
                line = strip.sub(b"", line, count=1) if strip else line
                if section is None:
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

    # --- growing together ---

    def _grown(self, found: list[Segment], at_once: Segment) -> list[Segment]:
        """Segments of one kind joined in their order: parsers tell processes and moments apart by what is in them.

        Logs are joined only where they are pieces of one: what is left around sections, or the same file shown again.
        """
        groups: dict[tuple, list[Segment]] = {}
        unknown: list[Segment] = []
        last: Segment | None = None
        for segment in found:
            if segment.kind is None:
                silent = segment.how == "prompt" and not segment.head().strip()
                if silent and last is not None and last.kind not in (None, "log") and last.how == "prompt":
                    groups[self._key(last)].append(segment)
                elif segment.how == "prompt" and segment.command or segment.head().strip():
                    unknown.append(segment)
                continue
            groups.setdefault(self._key(segment), []).append(segment)
            last = segment
        logs = [key for key in groups if key[0] == "log"]
        if len(logs) > 1 and ("log", "rest", "") in groups:
            unknown += groups.pop(("log", "rest", ""))  # prose around fences and prompts that looks like one
        joined = [self._joined(group) for group in groups.values()]
        if not joined:
            return [at_once]
        return sorted(joined, key=lambda segment: segment.content.parts[0].begin) + [replace(one, kind=None) for one in unknown]

    def _key(self, segment: Segment) -> tuple:
        if segment.kind != "log":
            return (segment.kind,)
        return "log", "rest" if segment.how == "rest" else segment.how, segment.name

    def _joined(self, group: Iterable[Segment]) -> Segment:
        first, *others = group
        parts = tuple(part for one in (first, *others) for part in one.content.parts)
        return replace(first, content=replace(first.content, parts=parts, leads=first.kind not in ("log", "strace")))


def _first_line(text: Text, prefix: bytes) -> bytes:
    head = re.sub(rb"\x1b\[[\d;]*m", b"", text.head(4096)).lstrip()
    return re.sub(rb"\A(?:" + prefix + rb")", b"", head) if prefix else head


def _closes(mark: _Mark, fence: str) -> bool:
    """Whether a line closes a fence: as long at least, of the same sign, and nothing behind it."""
    text = mark.text.strip(" >")
    if mark.how != "fence":
        return False
    if fence[0] in "`~":
        run = len(fence) - len(fence.lstrip(fence[0]))
        return text.startswith(fence[0] * run) and not text.strip(fence[0]).strip()
    return (
        text.startswith("</pre")
        if fence.startswith("<")
        else text.split("}")[0].split(":")[0] == fence.split("}")[0].split(":")[0]
    )


def cut(text: Text, recognise: Recognise) -> list[Segment]:
    """Segments of a text.

    Parameters
    ----------
    text : Text
        As it was decoded.
    recognise : callable
        Takes a file name and the first 64 KiB as text, returns a kind or None (`kit.parse.recognise`).

    Returns
    -------
    list of Segment
        In the order of the text; segments of no kind last.
    """
    head = text.head(HEAD_BYTES).decode("utf-8", "replace").replace("\0", "")
    kind = recognise(text.name.rsplit("/", 1)[-1], head) if head.strip() else None
    return _Cutter(text, recognise).segments(kind)


__all__ = ["Recognise", "Segment", "cut"]
