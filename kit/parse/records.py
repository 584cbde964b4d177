r"""Log lines to records: colour codes, carriage returns, glued lines, prefixes, stamps, ranks.

A line of a server log seldom is one message. Progress bars put many frames into one line, several ranks write into it at
once, and each wrapper on the way (docker compose, kubectl, journald, torchrun, Ray) adds a prefix. This module takes a
line apart; which prefixes there are, and what a message means, stands in the grammars (`kit.parse.grammar`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache

from kit.parse.base import Source
from kit.parse.tool_words import TOOL_WORDS
from kit.untrusted import MOST_RANKS, load_json, whole_number
from kit.words import keys_told

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DAY_NS = 86_400_000_000_000
SECOND_NS = 1_000_000_000
LEVELS = TOOL_WORDS["levels"]
MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
RANK_WORD = re.compile(r"(ATTN_CP|MOE_DP|PCP|DCP|ATTN_TP|TP|PP|DP|EP|CP)(\d+)")
MAX_PEELS = 10
NEAR_DAYS = 31
"""Stamps of one launch lie within a month."""


@dataclass
class Prefix:
    """What the prefixes of a record told."""

    stamp: int | None = None
    certain: bool = False
    uptime_s: float | None = None
    process: str | None = None
    pid: int | None = None
    rank_label: str | None = None
    rank: int | None = None
    level: str | None = None
    source: str | None = None
    grammar: str | None = None
    """Name of the grammar that the innermost telling prefix belongs to; those of `common` tell none."""
    warning: str | None = None
    """Milestone of a warning with this prefix that no other milestone names."""
    owned: bool = False
    """Whether a record with this prefix is of that grammar, whatever server the log is of."""
    peeled: bool = False
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str | None, int | None, str | None]:
        """Who wrote the record: records of one writer share it."""
        return self.process, self.pid, self.rank_label


def pieces(line: str) -> Iterator[str]:
    r"""Split a line at carriage returns, without colour codes and empty pieces.

    Examples
    --------
    >>> list(pieces("\rLoading:   0%| | 0/2 [00:00<?, ?it/s]\rLoading:  50%| | 1/2 [00:01<00:01, 1.00s/it]\r"))
    ['Loading:   0%| | 0/2 [00:00<?, ?it/s]', 'Loading:  50%| | 1/2 [00:01<00:01, 1.00s/it]']
    """
    if "\x1b" in line:
        line = ANSI.sub("", line)
    for piece in line.split("\r") if "\r" in line else (line,):
        if piece[:2] in ("^C", "^Z", "^\\") and len(piece) > 2:  # a terminal shows the key before what comes of it
            piece = piece[2:]
        if piece and not piece.isspace():
            yield piece


def global_rank(label: str | None, sizes: dict[str, int]) -> int | None:
    """Turn the rank words of a prefix into the global rank.

    `label`: rank words as printed: ``TP3``, ``PP2 TP1``, ``DP1 TP0 EP0``, ``rank3``. `sizes`: sizes ``tp``, ``pp``, ``dp`` (1
    where missing) and ``dp_attention`` (true where the data-parallel ranks share the tensor-parallel group: SGLang's
    ``enable_dp_attention``; its TP word counts through all of them then). Returns None where the label has no rank word.

    Examples
    --------
    >>> global_rank("PP2 TP1", {"tp": 2, "pp": 3})
    5
    >>> global_rank("DP1 TP4", {"tp": 8, "dp": 2, "dp_attention": 1}), global_rank("DP1 TP3", {"tp": 4, "dp": 2})
    (4, 7)
    """
    rank = _global_rank(label, sizes) if label else None
    return rank if rank is None or rank < MOST_RANKS else None


def _global_rank(label: str, sizes: dict[str, int]) -> int | None:
    plain = re.search(r"(?i)rank[ =]?(\d+)", label)
    if plain:
        return int(plain.group(1))
    words = {name: int(number) for name, number in RANK_WORD.findall(label)}
    if not words.keys() & {"TP", "PP", "DP", "EP"}:
        return None
    tp, pp = max(sizes.get("tp") or 1, 1), max(sizes.get("pp") or 1, 1)
    inner = words.get("PP", 0) * tp + words.get("TP", words.get("EP", 0) if "DP" not in words else 0)
    if sizes.get("dp_attention") and "TP" in words:
        return inner
    return words.get("DP", 0) * tp * pp + inner


def _alone(label: str) -> int | None:
    """Global rank of a label that one word decides (words are printed for sizes above one only; EP lies within TP)."""
    words = {name: int(number) for name, number in RANK_WORD.findall(label)}
    places = [words[name] for name in ("TP", "PP", "DP") if name in words]
    return places[0] if len(places) == 1 else None


# --- stamps ------------------------------------------------------------------------------------------------------------


def _local(ns: int, offset_s: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=ns // SECOND_NS + offset_s)


@lru_cache(maxsize=256)
def _day_ns(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - 719_163) * DAY_NS
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def _year_of(month: int, day: int, captured_ns: int, offset_s: int, near_ns: int | None = None) -> int | None:
    """Year of a date without one: that of a stamp within a month, else the latest that is at most a day after the capture."""
    if near_ns is not None:
        near = _local(near_ns, offset_s).date()
        for year in (near.year, near.year - 1, near.year + 1):
            day_ns = _day_ns(year, month, day)
            if day_ns is not None and abs(day_ns // DAY_NS - _day_ns(near.year, near.month, near.day) // DAY_NS) <= NEAR_DAYS:
                return year
    limit = (_local(captured_ns, offset_s) + timedelta(days=1)).date()
    for year in range(limit.year, limit.year - 9, -1):
        try:
            if date(year, month, day) <= limit:
                return year
        except (ValueError, OverflowError):
            continue
    return None


def stamp_ns(
    source: Source,
    year: int | None,
    month: int,
    day: int,
    hour: str,
    minute: str,
    second: str,
    fraction: str | None = None,
    zone: str | None = None,
) -> int | None:
    """Make UTC nanoseconds of a stamp; year and zone come from the source where the stamp has none.

    Examples
    --------
    >>> captured = stamp_ns(Source("a"), 2026, 1, 1, "00", "10", "00")
    >>> late = stamp_ns(Source("a", captured_ns=captured), None, 12, 31, "23", "59", "59")
    >>> (captured - late) / 1e9
    601.0
    """
    if year is None:
        if source.captured_ns is None:
            return None
        year = _year_of(month, day, source.captured_ns, source.offset_s, source.near_ns)
    day_ns = None if year is None else _day_ns(year, month, day)
    if day_ns is None:
        return None
    offset = source.offset_s
    if zone:
        digits = zone.replace(":", "")
        offset = 0 if zone == "Z" else (1 if digits[0] == "+" else -1) * (int(digits[1:3]) * 3600 + int(digits[3:5]) * 60)
    nanoseconds = int((fraction + "000000000")[:9]) if fraction else 0
    return day_ns + (int(hour) * 3600 + int(minute) * 60 + int(second) - offset) * SECOND_NS + nanoseconds


# --- prefixes ----------------------------------------------------------------------------------------------------------

_LEVEL = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|CRIT|FATAL|TRACE|NOTICE|SUCCESS|SUCC"
PARTS = {
    "level": rf"(?P<l>{_LEVEL})",
    "date": r"(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[ T]",
    "clock": r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d+))?",
    "zone": r"(?P<z>Z|[+-]\d\d:?\d\d)?",
    "month": f"(?P<mon>{'|'.join(MONTHS)})",
    "ahead": rf"(?=[\[(]|20\d\d-|(?:{_LEVEL})\b|Loading |Capturing |Traceback )",
}
"""Parts of prefix patterns, written as `{date}{clock}`. `ahead` looks at what a record may begin with."""
_PART = re.compile(r"\{(" + "|".join(PARTS) + r")\}")
GROUPS = frozenset("l l2 y m d mon md H M S f z src src2 pid process rank local_rank rank_word label up uptime_s".split())
"""Groups that a prefix may name; what further groups hold becomes a field of the record."""


def expand(pattern: str) -> str:
    """A pattern with its parts written out.

    Examples
    --------
    >>> re.match(expand(r"{date}{clock}"), "2026-02-18 00:28:26.5")["f"]
    '5'
    """
    return _PART.sub(lambda part: PARTS[part[1]], pattern)


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """One prefix that a grammar knows (its file says what the keys mean)."""

    pattern: re.Pattern[str]
    grammar: str
    begins: str | None = None
    source: str | None = None
    warning: str | None = None
    owned: bool = False


@dataclass(frozen=True, slots=True)
class RankRule:
    """Where a message itself names the rank of its writer."""

    pattern: re.Pattern[str]
    grammar: str
    bare: bool = False


def _beginning(character: str) -> str:
    """Class of a first character: prefixes are looked up by it."""
    return "0" if character.isdecimal() else "a" if character.isalpha() or character == "_" else character


class Prefixes:
    """The prefixes that hold for one log, by what they begin with, in the order in which they are tried."""

    def __init__(self, rules: Iterable[PrefixRule], ranks: Iterable[RankRule] = ()):
        self._rules, self._ranks = list(rules), list(ranks)
        self.warnings = frozenset(rule.warning for rule in self._rules if rule.warning)
        self._by_first: dict[str, list[PrefixRule]] = {}

    def _match(self, rest: str) -> tuple[PrefixRule, re.Match[str]] | None:
        first = _beginning(rest[0])
        rules = self._by_first.get(first)
        if rules is None:
            rules = self._by_first[first] = [rule for rule in self._rules if rule.begins in (None, first)]
        for rule in rules:
            match = rule.pattern.match(rest)
            if match is not None and match.end():
                return rule, match
        return None

    def peel(self, text: str, source: Source) -> tuple[Prefix, str]:
        """Take all prefixes off a record without colour codes: what they told, and the message with its leading blanks.

        Examples
        --------
        >>> from kit.parse import grammar
        >>> prefixes = grammar.load().matcher(None).prefixes
        >>> prefix, text = prefixes.peel("sglang-1  | [2026-01-29 13:12:37 PP2 TP1] Load weight begin.", Source("a.log"))
        >>> prefix.rank_label, prefix.rank, text
        ('PP2 TP1', None, 'Load weight begin.')
        >>> prefix, text = prefixes.peel("(Worker_TP0_EP0 pid=1700) INFO 03-11 05:00:00 [runner.py:47] Starting", Source("a"))
        >>> prefix.process, prefix.pid, prefix.rank, prefix.level, text
        ('Worker_TP0_EP0', 1700, 0, 'INFO', 'Starting')
        """
        prefix = Prefix()
        for _ in range(MAX_PEELS):
            rest = text.lstrip(" \t")
            if not rest:
                break
            if rest[0] == "{":
                inner = _json_line(rest.rstrip(), source, prefix)
                if inner is None:
                    break
                text = inner
                continue
            if rest.startswith("- "):  # "stamp - INFO - message"
                rest = rest[2:]
                if not prefix.peeled or not rest:
                    break
            matched = self._match(rest)
            if matched is None:
                break
            _apply(*matched, source, prefix)
            text = rest[matched[1].end() :]
        if prefix.rank is None and prefix.rank_label is None:
            self._spoken_rank(text, prefix)
        return prefix, text

    def _spoken_rank(self, text: str, prefix: Prefix) -> None:
        """TGI puts the rank behind the message, c10d in front of it: ``[Rank 3] Watchdog…``, ``[PG ID 0 … Rank 3]``."""
        if "ank" not in text:
            return
        for rule in self._ranks:
            if prefix.grammar == rule.grammar or rule.bare and prefix.grammar is None and prefix.stamp is None:
                match = rule.pattern.search(text)
                if match is not None:
                    prefix.rank, prefix.rank_label = int(match["rank"]), f"rank{match['rank']}"
                    return


def _apply(rule: PrefixRule, match: re.Match[str], source: Source, prefix: Prefix) -> None:
    """Take over what one prefix says: the outermost stamp with a zone wins, else the innermost."""
    got = {name: value for name, value in match.groupdict().items() if value is not None}
    if level := (got.get("l") or got.get("l2") or "").upper():
        prefix.level = LEVELS.get(level, level)
    if "src" in got or "src2" in got or rule.source:
        prefix.source = got.get("src2") or got.get("src") or rule.source
    if "pid" in got:
        prefix.pid = int(got["pid"])
    for name in got.keys() - GROUPS:
        prefix.extra[name] = whole_number(got[name]) if whole_number(got[name]) is not None else got[name]
    if "process" in got:
        _process(got["process"], prefix)
    if "rank" in got or "local_rank" in got:
        number = got.get("rank") or got["local_rank"]
        prefix.rank_label = f"{got.get('rank_word', 'rank').lower()}{number}"
        # torchrun's default{n} and old SGLang's gpu={n} count on their own node
        prefix.rank = int(number) if "rank" in got or not source.node else None
    if got.get("label"):
        prefix.rank_label = got["label"].strip()
        prefix.rank = _alone(prefix.rank_label)
    if "up" in got:
        minutes, seconds, milli, micro = got["up"].split(".")
        prefix.uptime_s = int(minutes) * 60 + int(seconds) + int(milli) / 1e3 + int(micro) / 1e6
    elif "uptime_s" in got:
        prefix.uptime_s = float(got["uptime_s"])
    if "H" in got:
        _stamp(got, source, prefix)
    if rule.grammar != "common":
        prefix.grammar, prefix.warning, prefix.owned = rule.grammar, rule.warning, rule.owned
    prefix.peeled = True


def _stamp(got: dict[str, str], source: Source, prefix: Prefix) -> None:
    if prefix.certain:
        return
    year = int(got["y"]) if "y" in got else None
    if "md" in got:
        month, day = int(got["md"][:-2]), int(got["md"][-2:])
    elif "d" in got:
        month, day = MONTHS[got["mon"]] if "mon" in got else int(got["m"]), int(got["d"])
    elif source.captured_ns is not None:
        last = _local(source.captured_ns, source.offset_s)
        year, month, day = last.year, last.month, last.day
    else:
        return
    stamp = stamp_ns(source, year, month, day, got["H"], got["M"], got["S"], got.get("f"), got.get("z"))
    if stamp is not None and "d" not in got and "md" not in got and stamp > source.captured_ns:
        stamp -= DAY_NS
    if stamp is not None:
        prefix.stamp, prefix.certain = stamp, "z" in got


def _process(name: str, prefix: Prefix) -> None:
    prefix.process = name
    if name.lower().startswith("worker"):
        words = RANK_WORD.findall(name)
        if words:
            prefix.rank_label = " ".join(word + number for word, number in words)
            prefix.rank = _alone(prefix.rank_label)


_ISO = re.compile(expand("{date}{clock}{zone}"))
_NO_YEAR = re.compile(expand(r"(?P<m>[01]\d)[-/](?P<d>[0-3]\d)[ T]{clock}{zone}"))


def _json_line(text: str, source: Source, prefix: Prefix) -> str | None:
    """Message of a JSON line (container runtime, TGI --json-output, llama.cpp), or None where it is no log line."""
    if not text.endswith("}"):
        return None
    try:
        data = load_json(text)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    nested = data.get("fields") if isinstance(data.get("fields"), dict) else {}
    messages = (place.get(key) for place in (data, nested) for key in ("log", "message", "msg"))
    message = next((value for value in messages if isinstance(value, str)), None)
    if message is None:
        return None
    when = next((data[key] for key in ("time", "timestamp", "ts", "@timestamp", "asctime") if key in data), None)
    if isinstance(when, (int, float)) and not isinstance(when, bool) and when > 1e8 and not prefix.certain:
        scale = 1 if when > 1e17 else 1_000 if when > 1e14 else 1_000_000 if when > 1e11 else SECOND_NS
        prefix.stamp, prefix.certain = int(when * scale), True
    elif isinstance(when, str) and (found := _ISO.match(when) or _NO_YEAR.match(when)) is not None:
        _stamp({name: value for name, value in found.groupdict().items() if value is not None}, source, prefix)
    level = str(data.get("level") or data.get("levelname") or data.get("severity") or "").upper()
    prefix.level = LEVELS.get(level, level) or prefix.level
    name = next((str(data[key]) for key in ("function", "target", "logger", "name") if data.get(key)), None)
    prefix.source = name or prefix.source
    span = data.get("span") if isinstance(data.get("span"), dict) else {}
    rank = nested.get("rank", span.get("rank"))
    if isinstance(rank, int):
        prefix.rank, prefix.rank_label = rank, f"rank{rank}"
    prefix.process = str(span["name"]) if span.get("name") else prefix.process
    prefix.peeled = True
    if "function" in data:  # llama.cpp of 2024: the rest of the keys is the rest of the message
        used = ("timestamp", "level", "function", "line", "message", "msg", "tid")
        message += "".join(
            f" {key}={value}" for key, value in data.items() if key not in used and isinstance(value, (str, int, float))
        )
        return message.rstrip("\n")
    return message.rstrip("\n") + keys_told(data)
