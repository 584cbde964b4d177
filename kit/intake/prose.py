"""What people write around what they paste: the lines of a text that are sentences by their form, as a segment of its own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from kit.intake.content import Content, Part, Text
from kit.intake.cutting import Segment
from kit.intake.wrapping import RECORD

KIND = "prose"
MOST_BYTES = 1 << 20
"""A larger text is a program's, or its reporter's words are lost in it."""
LEAST_LETTERS = 0.7
LEAST_WORDS, LEAST_WORDS_IN_LOG, LEAST_WORDS_IN_FILE = 2, 5, 9
"""Words of a sentence; of one that stands among a program's lines, and of one there in a file that is named as its output."""
_OUTPUT = re.compile(r"\.(?:log|out|err)$", re.IGNORECASE)
_CODE = re.compile(r"\.(?:py|sh|ya?ml|toml|cfg|ini|c|cc|cpp|cu|h|go|rs|js|ts|patch|diff|csv|tsv|prom)$", re.IGNORECASE)
"""Names of files whose sentences are comments of a program."""
_QUOTE = re.compile(r"^\s*(?:[>|]\s?)*(?:[-*•+]\s+|\d+[.)]\s+|#{1,6}\s+(?:\[[A-Za-z /]{2,20}\]:?\s*)?)?")
"""What stands before a sentence: a quote's sign, a bullet, a number, a heading's mark and its tag."""
_PRINTED = re.compile(
    r"^\s{4,}|^\"[^\"]*\": |^(?:File \"|\$ |[~^=+|{}\[\]<]|/|\w+\(|#\d|\(\w+\) |export |Tasks: \d|Thread (?:0x|\d+ \()"
    r"|Process \d+:)"
    r"|\.(?:py|cc|cpp|h|rs|go|cu):\d|\w(?:Warning|Error|Exception)\b"
    r"|^(?:[\w.-]*[_\d][\w.-]*|Error|curl|ssh): |^(?:[a-z]+: (?:error|fatal|job|warning)|mpirun|mpiexec|srun|slurmstepd)\b"
    r"|^[\w.@-]+: [\w.@-]+: |\(\d+, ?\d+\)|: \d+, \w+: \d|^\w+=\S+$"
    r"|\S {2,}\S.*\S {2,}\S|\S {4,}\S"
    r"|0x[0-9a-f]{4,}|\b\w+=\S+.*\b\w+=|\d\d:\d\d:\d\d|::\w|\w\(\w*\)\.|[{}]\s*$|;\s*$|\|.*\|"
)
_ASKS = re.compile(r"(?:[QA]\d{0,2}|[Qq]uestion|[Aa]nswer|[Ss]ymptom|[Ss]olution|[Ff]ix|[Rr]emedy|[Ww]orkaround) ?[:.)] ")
"""How questions with their answers are told apart in a list of known errors, which it quotes."""
_CITES = re.compile(r"(?:\b[^\W\d_]{2,}[,;:]? +){6}")
"""A line that runs in words and ends as a sentence does: names of variables, files and classes in it are quoted."""
LEAST_CITING = 80
_OF_LOADING = re.compile(r"Loading [^:]{0,80}?\b(?:takes|is|are|gets|hangs|stops|fails|seems|never|keeps)\b")
"""A sentence that begins as many a log's line does."""
_SPAN = re.compile(r"`[^`]+`|\"[^\"]+\"|“[^”]+”|„[^„“”]+[“”]|[`\"“„][^`\"“„”]*$")
LEAST_WORDS_AROUND = 3
"""Words around what a line quotes by which it is a sentence about that, and not its output."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts that put no space between words, or whose words say more than one."""
_JSON = re.compile(rb"\s*(?:\{|\[\s*(?:[\[{\"]|-?[\d.]+\s*[,\]]))")


def of(text: Text, found: Iterable[Segment]) -> list[Segment]:
    """The segment of a text that its reporter wrote, where there is one; `found` are its other segments."""
    if text.size > MOST_BYTES or text.stream is not None or _CODE.search(text.name) or _JSON.match(text.head(256)):
        return []
    taken, printed = _ranges(found)
    least = LEAST_WORDS_IN_FILE if _OUTPUT.search(text.name) else LEAST_WORDS_IN_LOG
    parts = [
        part for in_log, part, lines in _paragraphs(text, taken, printed) if _written(lines, least if in_log else LEAST_WORDS)
    ]
    return [Segment(Content(text, tuple(parts), leads=False), "words", "", kind=KIND)] if parts else []


def around(segment: Segment, words: Segment) -> Segment:
    """What of a text its reporter did not write: what somebody pasted without a sign around it."""
    text, at, parts = segment.content.text, 0, []
    data = text.head(MOST_BYTES)
    for begin, end in [*((part.begin, part.end) for part in words.content.parts), (text.size, text.size)]:
        if begin > at:
            parts.append(Part(at, begin, 1 + data.count(b"\n", 0, at)))
        at = end
    return replace(segment, content=Content(text, tuple(parts)), how="rest", name="")


def _ranges(found: Iterable[Segment]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Stretches that hold no words of the reporter, and stretches that are a program's, among which words must stand free."""
    taken, printed = [], []
    for segment in found:
        if segment.kind is not None or segment.how == "assistant":
            ranges = taken if segment.how in ("assistant", "fence", "section") else printed
            ranges.extend((part.begin, part.end) for part in segment.content.parts)
    return sorted(taken), sorted(printed)


def _within(ranges: list[tuple[int, int]], at: int) -> bool:
    before = bisect_right(ranges, (at, 1 << 62)) - 1
    return before >= 0 and ranges[before][0] <= at < ranges[before][1]


def _paragraphs(text: Text, taken: list, printed: list) -> Iterable[tuple[bool, Part, list[str]]]:
    """Runs of lines that look written, each with whether it stands in a log, free at neither end there."""
    lines: list[str] = []
    begin = first = at = 0
    free = True  # a blank line, another piece or the text's begin stands before
    number = 0
    with text.data.open("rb") as file:
        for number, raw in enumerate(file, 1):
            inside = _within(taken, at)
            line = raw.decode("utf-8", "replace").rstrip()
            blank = not line.strip() or inside
            if not blank and _looks_written(line):
                if not lines:
                    begin, first, freed = at, number, free
                lines.append(line)
            elif lines:
                yield (
                    _within(printed, begin) and not (freed and blank),
                    Part(begin, at + len(raw) * (blank and not inside), first),
                    lines,
                )
                lines = []
            free = blank or bool(lines) and free
            at += len(raw)
    if lines:
        yield _within(printed, begin) and not freed, Part(begin, at, first), lines


@lru_cache(maxsize=1024)
def _looks_written(line: str) -> bool:
    """Whether a line may be a person's: mostly letters, and none of the marks of what programs print."""
    plain = _QUOTE.sub("", line)
    if not plain or RECORD.match(plain.encode()) and not _OF_LOADING.match(plain):
        return False
    if _ASKS.match(plain):
        return True
    around = _SPAN.sub(" ", plain).strip()
    plain = around if len(_WORD.findall(around)) >= LEAST_WORDS_AROUND else plain
    if (found := _PRINTED.search(plain[:400])) and not (
        found.start() and len(plain) >= LEAST_CITING and plain[-1] in ".!?:" and _CITES.search(plain)
    ):
        return False
    letters = sum(sign.isalpha() or sign in " .,'’" for sign in plain)
    return letters >= LEAST_LETTERS * len(plain)


def _written(lines: list[str], least: int) -> bool:
    """Whether a run of lines holds so many words as a sentence has."""
    text = " ".join(lines)
    return len(_WORD.findall(text)) + len(_DENSE.findall(text)) // 2 >= least
