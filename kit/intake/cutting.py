"""A text to segments: stretches of one kind, each with what announced it and where it stands.

Two steps. What people put between outputs (prompts, fences, headings, `==> file <==`) cuts a text first; then, where a piece is
a log or nothing that a parser knows, known beginnings of tools' outputs (`kit/knowledge/sections.toml`) cut out what stands
within it. A log keeps the rest. Whether a cut was right is decided by recognition: neighbours of one kind grow together again,
a section that no parser takes goes back to where it stood.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO

from kit.intake import announce, beginnings, wrapping
from kit.intake.content import Content, Part, Text, as_text, touching, whole
from kit.intake.marks import BEGIN, Mark, marks_of, section_end, stripper
from kit.intake.wrapping import COLOUR, RECORD

HEAD_BYTES = 65_536
MOST_SEGMENTS, MOST_BARED = 5_000, 8 << 20
"""Distinct pieces of a text that are looked at (a text with more of them repeats itself, or is no evidence of one launch); the
largest output of a command from whose lines a shipper's stamps are taken off."""
LEAD_LINES = 3
"""Lines before a fence or an output among which its announcement is looked for."""
LONGEST_LEAD = 160
_NAMED_LOG, _WORDS = re.compile(r"\.(?:log|out|err)(?:\.\d+)?$"), re.compile(rb"\A.*?[a-z]{3}")
LEAST_LEFT, LEAST_RECORDS = 8, 3
"""Lines around tools' outputs by which a file named like a log is one; records that make a stretch around other logs one."""
Recognise = Callable[[str, str], str | None]


@dataclass
class Segment:
    """A stretch of a text, or several, of one kind."""

    content: Content  # what a parser reads
    # what announced it: `file` (the text as a whole), `stream` (the lines of one service), `prompt`, `fence`, `header`,
    # `heading`, `section` (an output that begins by itself), `assistant` (its turn in a talk; `talk` is what is left of that),
    # `rest` (what is left of the text around those)
    how: str
    name: str  # name that a file with it would bear; of a text as a whole its own
    command: str = ""  # command that printed it, or the line `==> path <==` before it, where one is known
    kind: str | None = None  # what recognition made of it
    compared: bool = False  # the words before it say that it is of another launch, machine or time
    announced: Part | None = None  # the line that announced it, where that goes back to the text if nothing comes of the segment

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
        return as_text(content.head(HEAD_BYTES))


class _Cutter:
    """One text on its way to segments."""

    def __init__(self, text: Text, file: BinaryIO, recognise: Recognise):
        self.text, self._file = text, file
        self.recognise = recognise
        around = wrapping.of(text.head(HEAD_BYTES))
        self.prefix = around.pattern if around is not None and around.stays else b""
        self._strip = COLOUR + rb"(?:" + self.prefix + rb")"
        self.log = self.log_first = self.fenced = False
        self._kinds: dict[tuple[str, int], str | None] = {}

    def kind(self, segment: Segment) -> str | None:
        """Kind of a piece."""
        head = self._head(segment)
        if not head.strip():
            return None
        lead = segment.content.parts[0].lead.decode("utf-8", "replace") if segment.content.leads else ""
        return self._told(segment.name, head, f"{lead}\n{head}" if lead and segment.command else "")

    def _head(self, segment: Segment) -> str:
        """Beginning of a piece, without what is put before it."""
        content = segment.content
        if len(content.parts) > 1 or content.strip:
            return segment.head()
        self._file.seek(content.parts[0].begin)
        return as_text(self._file.read(min(content.parts[0].end - content.parts[0].begin, HEAD_BYTES)))

    def _told(self, name: str, head: str, led: str = "") -> str | None:
        """Kind of a beginning, with the line that leads to it if need be; those that differ in digits only are looked up once."""
        key = name, hash((led or head).encode().translate(None, beginnings.DROPPED))
        if key not in self._kinds and len(self._kinds) < MOST_SEGMENTS:
            self._kinds[key] = self.recognise(name, head) or (self.recognise(name, led) if led else None)
        return self._kinds.get(key)

    def segments(self, kind: str | None) -> list[Segment]:
        """All segments of the text, whose kind as a whole is `kind`."""
        at_once = replace(_as_it_lies(self.text), kind=kind)
        if re.match(rb"\s*(?:\{|\[\s*(?:[\[{\"]|-?[\d.]+\s*[,\]]))", self.text.head(256)):
            return [at_once]  # JSON: of a tool, of the sampler
        if kind is None and self.prefix and (bare := [*self._stamped(at_once, 1)]):
            return bare
        self.log = kind == "log"
        self.log_first = self.log and RECORD.match(_first_line(self.text, self.prefix)) is not None
        marks = marks_of(self.text, "explicit section" if self.log_first or self.prefix else "explicit lead section", self.prefix)
        explicit = [mark for mark in marks if mark.how != "section"]
        if self.log_first:  # a log may print fences and headings
            explicit = [mark for mark in explicit if mark.how in ("prompt", "empty", "header", "script", "step")]
        inner = [mark for mark in marks if mark.how == "section"]
        self.fenced = any(mark.how == "fence" for mark in explicit)
        if not explicit and (not inner or self.log and self.prefix and (bare := [*self._stamped(at_once, 3)])):
            return bare if inner else [at_once]
        pieces = list(self._pieces(explicit))
        found = [part for piece in pieces for part in [*self._commanded(piece), *self._inside(piece, inner)]]
        if kind not in (None, "log", "shell") and {one.kind for one in found} <= {kind, None} and not self._of_a_log(found):
            return [at_once]
        return self._grown(found, at_once)

    def _of_a_log(self, found: list[Segment]) -> bool:
        """Whether a text with a tool's output at its head is a job's log: by its name, and by how much is left."""
        left = sum(_lines_like(_WORDS.match, one) for one in found if one.kind in (None, "log") and one.how == "rest")
        return _NAMED_LOG.search(self.text.title) is not None and left >= LEAST_LEFT

    def _piece(self, begin: int, end: int, line: int, how: str, said: announce.Said | None) -> Segment | None:
        if begin >= end and not (said and said.command):
            return None
        end = max(begin, end)
        command = said.command if said else ""
        lead = command.encode() if command.startswith("==> ") else f"$ {command}".encode() if command else b""
        return Segment(Content(self.text, (Part(begin, end, line, lead),)), how, said.name if said else "", command)

    def _pieces(self, marks: list[Mark]) -> Iterator[Segment]:
        """Stretches between what people put between outputs."""
        how, fence, spoken = "rest", "", False
        said: announce.Said | None = announce.Said(self.text.title, "")
        start = Mark(0, -1, "start")
        for mark in [*marks, Mark(self.text.size, self.text.size, "end")]:
            inside = fence and mark.how != "end" and not (mark.how == "fence" and announce.closes(mark.text, fence))
            if mark.how == "prompt" and announce.EXIT_CODE.search(mark.text):
                continue  # it asks how the command before it ended
            if mark.how == "step" and announce.STEP not in mark.text:  # what the step runs ends, and what it printed begins
                start = mark if start.how == "step" and announce.at_once(self._file, start.begin, mark.begin) else start
                continue
            heading = announce.read(mark.text) if mark.how in ("heading", "lead") else None
            if inside and mark.how not in ("prompt", "empty") or self.log and heading and not heading.name:
                continue
            begin = min(start.end + 1, self.text.size)
            piece = self._piece(begin, mark.begin, start.line + 1, "assistant" if spoken else how, said)
            spoken = mark.how == "assistant" or spoken and mark.how not in ("user", "speaker")
            if piece is not None:
                piece = (
                    replace(self._typed(piece), compared=announce.compares(self._before(start.begin)))
                    if how == "fence"
                    else piece
                )
                yield replace(piece, announced=Part(start.begin, begin, start.line)) if begin > start.begin else piece
            adjoins = start.how == "fence" and begin >= mark.begin
            start, said = mark, heading
            if mark.how in ("prompt", "step"):
                text = re.match(announce.PROMPT, re.sub(r"\x1b\[[\d;]*m", "", mark.text))
                how, said = "prompt", announce.read("$ " + (text["command"] if text else mark.text.removeprefix(announce.STEP)))
            elif mark.how == "fence" and (not fence or inside):
                fence, how, said = mark.text.strip(" >"), "fence", None if adjoins else self._lead(mark.begin)
            elif mark.how == "header":
                path = mark.text.strip()[4:].rsplit(" <==", 1)[0]
                how, said = "header", announce.Said(announce.name_of("cat " + path), mark.text.strip())
            else:
                fence = "" if mark.how == "fence" else fence
                how = "heading" if heading and heading.name else "rest"

    def _typed(self, piece: Segment) -> Segment:
        """What stands between fences, its first line as the command that it is: people copy that without the prompt."""
        (part,) = piece.content.parts
        self._file.seek(part.begin)
        line = self._file.readline(LONGEST_LEAD)
        said = announce.typed(line.decode("utf-8", "replace"))
        typed = self._piece(part.begin + len(line), part.end, part.line + 1, "fence", said) if said else None
        return replace(typed or piece, compared=announce.compares(self._before(part.begin)))

    def _before(self, begin: int) -> str:
        """The text just before an offset."""
        size = min(begin, LEAD_LINES * LONGEST_LEAD * 2)
        self._file.seek(begin - size)
        return self._file.read(size).decode("utf-8", "replace")

    def _lead(self, begin: int) -> announce.Said | None:
        """What the lines before a fence say about it."""
        written = (line for line in reversed(self._before(begin).split("\n")) if line.strip())
        for text in islice(written, LEAD_LINES):
            if text.strip(" >").startswith(announce.FENCE_ENDS) or len(text) > LONGEST_LEAD:
                return None
            said = announce.read(text)
            if said.name or said.command:
                return said
        return None

    def _commanded(self, piece: Segment) -> Iterator[Segment]:
        """The command at a prompt that is evidence by itself: one that starts a server, or that kills and printed nothing."""
        kind = self._told("command.sh", piece.command) if piece.how == "prompt" else None
        (part,) = piece.content.parts
        if kind == "launch":
            yield replace(piece, content=Content(self.text, (replace(part, end=part.begin),)), name="command.sh", kind=kind)
            if self.kind(piece) in (None, kind) and _WORDS.match(self._head(piece).encode()) and piece.command[-1:] != "\\":
                piece.kind = "log"  # a server's words are its log, however few
        elif kind == "shell" and not self._head(piece).strip():
            piece.name, piece.kind = "kill.txt", kind

    def _inside(self, piece: Segment, marks: list[Mark]) -> list[Segment]:
        """A piece, with the outputs of tools that begin within it apart, where they are of another kind than the piece."""
        if piece.how == "assistant":
            return [piece]
        piece.kind = piece.kind or self.kind(piece)
        (part,) = piece.content.parts
        if self.prefix and piece.how == "prompt" and part.end - part.begin <= MOST_BARED:
            bare = replace(piece, content=replace(piece.content, strip=self._strip))
            bare.kind = self.kind(bare)
            if bare.kind not in (None, "log") or announce.shows(piece.command):
                piece = bare
        within = marks[bisect_left(marks, part.begin, key=BEGIN) : bisect_left(marks, part.end, key=BEGIN)]
        apart = list(self._apart(piece, part, within)) if within else []
        return apart if {one.kind for one in apart} - {piece.kind, None} or self._of_a_log(apart) else [piece]

    def _apart(self, piece: Segment, part: Part, within: list[Mark]) -> Iterator[Segment]:
        """A log, or a text of no kind, with the outputs of tools in it apart from it."""
        rest: list[Part] = []
        at, line = part.begin, part.line
        for mark in within:
            if mark.begin < at:
                continue
            end, lines = section_end(self.text, mark.begin, part.end, stripper(self.prefix))
            name = self._lead(mark.begin) if mark.begin > part.begin else announce.Said(piece.name, piece.command)
            section = self._piece(mark.begin, end, mark.line, "section", name)
            if section is None:
                continue
            if self.prefix:
                section = replace(section, content=replace(section.content, strip=self._strip))
            section.kind = self.kind(section)
            if section.kind in (None, "log"):
                continue
            if mark.begin > at:
                rest.append(Part(at, mark.begin, line, part.lead if not rest else b""))
            yield section
            at, line = end, mark.line + lines
        if part.end > at:
            rest.append(Part(at, part.end, line, b"" if rest or at > part.begin else part.lead))
        if rest:
            left = replace(piece, content=replace(piece.content, parts=tuple(rest)))
            left.kind = self.kind(left)
            yield left

    def _stamped(self, at_once: Segment, samples: int) -> Iterator[Segment]:
        """A tool's output that went through ts, docker or the journal, without their stamps, told by some samples of it."""
        kinds = {self._told(self.text.title, as_text(one)) for one in islice(wrapping.samples(self.text, self._strip), samples)}
        if len(kinds) == 1 and not kinds & {None, "log"}:
            yield replace(at_once, kind=kinds.pop(), content=whole(wrapping.bared(self.text, self._strip)))

    # --- growing together ---

    def _grown(self, found: list[Segment], at_once: Segment) -> list[Segment]:
        """Segments of one kind joined in their order: parsers tell processes and moments apart by what is in them.

        Logs are joined only where they are pieces of one: what is left around sections, or the same file shown again.
        """
        groups: dict[tuple, list[Segment]] = {}
        unknown: list[Segment] = []
        rest: list[Part] = []
        last: Segment | None = None
        for segment in found:
            if segment.how == "assistant":
                unknown.append(segment)
                continue
            back = segment.how == "heading" and (segment.kind is None or segment.kind == "log" and self.log)
            prose = self.fenced and not segment.content.parts[0].lead and segment.kind != "log"
            if back or segment.how == "rest" and (prose or segment.kind in (None, "log")):
                rest += [segment.announced] * bool(segment.announced and (back or self.log)) + list(segment.content.parts)
            elif segment.kind is not None:
                groups.setdefault(self._key(segment), []).append(segment)
                last = segment
            elif segment.head().strip():
                unknown.append(segment)
            elif last is not None and last.kind != "log" and last.how == segment.how == "prompt":
                last = self._with_silent(groups, last, segment)
        joined = [self._joined(group) for group in groups.values() if group]
        left = replace(at_once, content=Content(self.text, touching(rest)), how="rest", name="") if rest else None
        alone = not joined or self.log_first or "log" not in {one.kind for one in joined}
        # What is no log, nor records of one, is what people wrote between outputs.
        if left is not None and (alone or _lines_like(RECORD.match, left, self.prefix) >= LEAST_RECORDS):
            left.kind = "log" if self.log or self._of_a_log(found) else self.kind(left)
            if left.content.parts == at_once.content.parts:
                return [at_once]
            joined += [left] * (left.kind is not None)
        if not joined:  # what is left of a talk without the assistant's part is the text itself
            talk = left is not None and any(one.how == "assistant" for one in unknown)
            return [replace(at_once, content=left.content, how="talk"), *unknown] if left and talk else [at_once]
        return sorted(joined, key=lambda segment: segment.content.parts[0].begin) + unknown

    def _with_silent(self, groups: dict[tuple, list[Segment]], last: Segment, segment: Segment) -> Segment:
        """The last piece with a command behind it that printed nothing, which says something too: fuser, curl."""
        both = self._joined([last, segment])
        both.kind = self._told(both.name, both.head(lead=True)) or last.kind
        if both.kind == last.kind:
            groups[self._key(last)].append(segment)
            return last
        groups[self._key(last)].remove(last)
        groups.setdefault(self._key(both), []).append(both)
        return both

    def _key(self, segment: Segment) -> tuple:
        return (segment.kind, segment.how, segment.name, segment.compared) if segment.kind == "log" else (segment.kind,)

    def _joined(self, group: Iterable[Segment]) -> Segment:
        first, *others = group
        parts = tuple(part for one in (first, *others) for part in one.content.parts)
        return replace(first, content=replace(first.content, parts=parts, leads=first.kind not in ("log", "strace")))


def _lines_like(begins: Callable[[bytes], object], segment: Segment, prefix: bytes = b"") -> int:
    """Lines at the beginning of a segment that begin in some way, behind a prefix."""
    bare = stripper(prefix).sub if prefix else lambda _, line: line
    return sum(1 for line in segment.content.head(HEAD_BYTES).split(b"\n") if begins(bare(b"", line)))


def _first_line(text: Text, prefix: bytes) -> bytes:
    head = re.sub(rb"\x1b\[[\d;]*m", b"", text.head(4096)).lstrip()
    return re.sub(rb"\A(?:" + prefix + rb")", b"", head) if prefix else head


def cut(text: Text, recognise: Recognise) -> list[Segment]:
    """Segments of a text.

    `recognise`: takes a file name and the first 64 KiB as text, returns a kind or None (`kit.parse.recognise`). They come in
    the order of the text, those of no kind last.
    """
    with text.data.open("rb") as file:
        return _Cutter(text, file, recognise).segments(as_it_lies(text, recognise).kind)


def _as_it_lies(text: Text) -> Segment:
    return Segment(whole(text), "file" if text.stream is None else "stream", text.title)


def as_it_lies(text: Text, recognise: Recognise) -> Segment:
    """A text as one segment."""
    segment = _as_it_lies(text)
    head = segment.head()
    segment.kind = recognise(segment.name, head) if head.strip() else None
    return segment
