"""What people write between what they paste: claims of frame `statements`, one a sentence and kind of claim.

Which words make a claim, in which languages, stands in `kit/knowledge/reporter.toml`. What is denied, guessed, asked, or said of
another machine or version is no claim.

A sample::

    It hangs at loading the checkpoint shards, GPU util is 100 % at 90 W. After 30 min the pod is killed (exit code 137).

Examples
--------
>>> from kit.parse.base import Report, Source
>>> rows = [row for _, row in parse(["It hangs while loading weights. It is not killed."], Source("a.md"), Report())]
>>> [(row["claim"], row["phase"], row["text"]) for row in rows]
[('hang', 'weights', 'It hangs while loading weights.')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kit.knowledge_paths import entries, load
from kit.parse import grammar
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.grammar_file import PHASES
from kit.tomlfile import Table, TomlFile

WRAPPED_FROM = 50
"""A line shorter than this was not broken at a width: what follows it is another sentence."""
MOST_SENTENCE = 600
NEAR = 30
"""Characters before a claim in which a negation denies it."""
_MARKS = re.compile(
    r"^[\s>|]*(?:[-*•+]\s+|\d+[.)]\s+|#+\s+|//\s*|>\s*)*|[*`]{1,3}|(?<!\w)_+|_+(?!\w)|\[(?=[^]]{1,200}\]\()|\]\([^)\s]{1,400}\)"
)
_OPTION = re.compile(r"\(\d\) ")
_END = re.compile(r"(?<=[.!?;])[\")]?\s+|(?<=[。！？；])|(?<!\s)\s+\|\s+")
_CLAUSE = re.compile(r"[,;:()，、；]| - | – | but | and | so | then ")
_BEHIND = re.compile(
    r"(?:\b(?:after|once|following)|nach|sobald)\b[^,;.]{0,30}$|^[^,;.]{0,12}(?:之后|以后|后|した後|후에?)", re.I
)


@dataclass(frozen=True)
class Claim:
    """One kind of claim; the file says what the keys mean."""

    code: str
    says: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None
    stands: bool
    whole: bool


@dataclass(frozen=True)
class Place:
    """Where a launch stands, in words."""

    phase: str
    says: re.Pattern[str]
    after: str


@dataclass(frozen=True, eq=False)
class Words:
    """All that `reporter.toml` and the user's files of its kind say."""

    claims: tuple[Claim, ...]
    places: tuple[Place, ...]
    denied: re.Pattern[str]
    guessed: re.Pattern[str]
    elsewhere: re.Pattern[str]
    asks: re.Pattern[str]

    def denies(self, sentence: str, at: int) -> bool:
        """Whether what stands before a place of a sentence denies it."""
        clause = _CLAUSE.split(sentence[max(0, at - NEAR) : at])[-1]
        return self.denied.search(clause) is not None

    def phase(self, sentence: str, at: int) -> str | None:
        """The phase that a sentence names nearest to a claim in it; of two that are as near the narrower."""
        found = []
        for order, place in enumerate(self.places):
            for one in place.says.finditer(sentence):
                away = max(one.start() - at, at - one.end(), 0)
                behind = _BEHIND.search(sentence[: one.start()]) or _BEHIND.search(sentence[one.end() :][:3])
                found.append((place.phase == "launch", away // NEAR, order, place.after if behind else place.phase))
        return min(found)[3] if found else None


@lru_cache(maxsize=1024)  # a text is asked whether it claims anything, then read; what is pasted stands in it twice
def claims_of(sentence: str, known: Words) -> list[tuple[Claim, re.Match[str]]]:
    """Claims of a sentence."""
    claims = []
    question = sentence.rstrip(" \"')").endswith(("?", "？")) and not known.asks.search(sentence)
    doubted = question or known.guessed.search(sentence) or known.elsewhere.search(sentence)
    for claim in known.claims:
        if doubted and not claim.whole or claim.unless and claim.unless.search(sentence):
            continue
        matches = (one for says in claim.says for one in says.finditer(sentence))
        found = next((one for one in matches if not known.denies(sentence, one.start())), None)
        if found:
            claims.append((claim, found))
    return claims


def _read(files: list[TomlFile]) -> Words:
    claims, places = [], []
    spoken: dict[str, list[str]] = {"not": [], "perhaps": [], "elsewhere": [], "asks": []}
    for table in entries(files, "language"):
        table.known(("name", *spoken))
        for key, texts in spoken.items():
            texts += table.strings(key)
    for table in entries(files, "claim"):
        table.known(("name", "code", "says", "unless", "stands", "whole"))
        name = table.text("name", needed=True) or ""
        unless = _any(table, "unless") if "unless" in table.values else None
        claims.append(Claim(table.text("code") or name, _each(table, "says"), unless, table.flag("stands"), table.flag("whole")))
    for table in entries(files, "place"):
        table.known(("name", "phase", "says", "after"))
        phase = table.text("phase") or table.text("name", needed=True) or ""
        table.word("phase" if "phase" in table.values else "name", phase, PHASES)
        places.append(Place(phase, _any(table, "says"), table.text("after", PHASES) or phase))
    return Words(tuple(claims), tuple(places), *(re.compile("|".join(texts), re.I) for texts in spoken.values()))


def _each(table: Table, key: str) -> tuple[re.Pattern[str], ...]:
    """The expressions of a key."""
    return tuple(table.expression(key, f"(?i){text}") for text in table.strings(key))


def _any(table: Table, key: str) -> re.Pattern[str]:
    """One expression for all of a key."""
    return table.expression(key, "(?i)" + "|".join(f"(?:{text})" for text in table.strings(key)))


def words(folders: Iterable[Path] = ()) -> Words:
    """What `kit/knowledge/reporter.toml` and the user's folders say."""
    return load("reporter", _read, tuple(folders))


def sentences(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Sentences with the line that each begins in; lines that were broken at a width are joined."""
    first, text = 0, ""
    for number, line in enumerate(lines, 1):
        plain = " ".join(_MARKS.sub("", line.replace("'", "’")).split())
        listed = re.match(r"[\s>|]*(?:[-*•+]|\d+[.)]|#)\s", line)
        if text and (not plain or listed):
            yield from _split(first, text)
            text = ""
        if plain:
            first, text = (first, f"{text} {plain}") if text else (number, plain)
        if text and (len(line) < WRAPPED_FROM or len(text) > MOST_SENTENCE):
            yield from _split(first, text)
            text = ""
    yield from _split(first, text)


def _split(first: int, text: str) -> Iterator[tuple[int, str]]:
    return ((first, part.strip()[:MOST_SENTENCE]) for part in _END.split(text) if part and part.strip())


def parse(lines: Iterable[str], source: Source, report: Report, folders: tuple[Path, ...] = ()) -> Rows:
    """Read what people wrote: a row a claim.

    Examples
    --------
    >>> rows = parse(["GPU util is 100 % and power draw 90 W."], Source("mail.txt"), Report())
    >>> [(row["claim"], row["fields"]) for _, row in rows]
    [('gpu_busy', '{"percent": 100}'), ('gpu_low_power', '{"watts": 90}')]
    """
    known, listed = words(folders), False
    for number, sentence in sentences(lines):
        option = _OPTION.match(sentence) is not None
        listed = known.guessed.search(sentence) is not None or option and listed
        if option and listed:
            continue  # one of several causes that a program names
        for claim, found in claims_of(sentence, known):
            report.records += 1
            fields = {
                re.sub(r"_\d$", "", name): grammar.number(value) for name, value in found.groupdict().items() if value is not None
            }
            phase = known.phase(sentence, found.start()) if claim.stands else None
            yield (
                "statements",
                {"claim": claim.code, "phase": phase, "fields": grammar.to_json(fields), "text": sentence, "line": number},
            )


def claims_something(head: str) -> bool:
    """Whether a text makes any claim.

    Examples
    --------
    >>> claims_something("Thanks a lot, see you."), claims_something("Since then nothing happens.")
    (False, True)
    """
    return any(True for _ in parse(head.splitlines(), Source(""), Report()))


FORMATS = (Format("prose", r"(?!)", lambda head: 0.0, parse, frames=("statements",)),)
