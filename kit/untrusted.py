"""What evidence says in numbers, JSON and names, read without trusting it: whatever is wrong with it is a ValueError or a cut.

A hostile or broken file may hold a number of a million digits, brackets ten thousand deep, half of a surrogate pair. Everything
that reads evidence goes through here, so that each of these is met once.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

MOST_DIGITS = 256
"""Longest run of digits that is handed on: `int()` refuses 4,300, a float holds 308, no count or address has so many."""
MOST_DEPTH = 200
"""Deepest JSON: what walks over it calls itself, and Python allows a thousand calls. A query of Prometheus has ten."""
MOST_RANKS = 131_072
"""Most ranks that a number in the evidence is believed to mean: beyond the largest clusters (100,000 GPUs in 2024). What is made
for each rank is bounded by it."""
LARGEST_PID = 1 << 22
"""Of a 64-bit kernel (linux/threads.h, PID_MAX_LIMIT); what a log prints in a pid's place beyond it is a thread's address."""
WRONG_FORM = (TypeError, AttributeError, KeyError, ValueError, IndexError, ArithmeticError, RecursionError)
"""What reading raises at a field of a form that its tool never writes."""
csv.field_size_limit(max(csv.field_size_limit(), 1 << 26))  # a field ends with its file at the latest
_LONG = re.compile(rf"(\d{{{MOST_DIGITS}}})\d+")
_ZEROS, _TO_ZERO = b"0" * (MOST_DIGITS + 1), bytes.maketrans(b"123456789", b"000000000")
_SIXTEENTH = b"0" * (MOST_DIGITS // 16)
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_ESCAPE = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What steers a terminal or a page and shows nothing: C0 and C1 controls, bidi marks and overrides, invisible letters."""
_LONE = re.compile("[\ud800-\udfff]")
_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS, _NO_BRACKETS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff"), bytes(set(range(256)) - set(b"[]{}"))
_DECODERS = {strict: json.JSONDecoder(strict=strict) for strict in (True, False)}
_NUMBERS = re.compile(r"(\d{1,18})\d*(?:\s{0,9}-\s{0,9}(\d{1,18}))?")


def may_hold_long_number(data: bytes) -> bool:
    """Whether more than `MOST_DIGITS` digits may stand together, told by every sixteenth byte; certain is only a no.

    Examples
    --------
    >>> may_hold_long_number(b"rank 1" * 1000), may_hold_long_number(b"rank " + b"1" * 257)
    (False, True)
    """
    return _SIXTEENTH in data[::16].translate(_TO_ZERO)


def short_digits(text: str) -> tuple[str, int]:
    """A text whose runs of more than `MOST_DIGITS` digits end there, and how many were cut.

    Examples
    --------
    >>> cut, number = short_digits("rank " + "1" * 5000)
    >>> len(cut), number, short_digits("rank 1")
    (261, 1, ('rank 1', 0))
    """
    data = text.encode("utf-8", "surrogatepass")
    long = may_hold_long_number(data) and _ZEROS in data.translate(_TO_ZERO)
    if not long and (text.isascii() or not any(sign > "9" and sign.isdecimal() for sign in set(text))):
        return text, 0
    return _LONG.subn(r"\1", text)


def no_surrogates(text: str) -> str:
    """A text that can be encoded: halves of surrogate pairs (names that are no UTF-8, JSON's escapes) become U+FFFD.

    Examples
    --------
    >>> no_surrogates("a\\udc80b") == "a\\ufffdb"
    True
    """
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def visible(text: str) -> str:
    r"""A text for a terminal or a page: what would steer it is written out, as Python writes it; tabs and newlines stay.

    Examples
    --------
    >>> print(visible("a\x1b[2Jb\u202etxt.exe\x9b"))
    a\x1b[2Jb\u202etxt.exe\x9b
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON text of the same value in which nothing steers a terminal.

    Examples
    --------
    >>> print(visible_json('["\x9b\U000e0041"]'))
    ["\\u009b\\udb40\\udc41"]
    """
    return _STEERING.sub(lambda found: json.dumps(found[0])[1:-1], text)


def load_json(text: str, strict: bool = True) -> Any:
    r"""A JSON document of any origin.

    Raises
    ------
    ValueError
        It is no JSON, or nested deeper than `MOST_DEPTH`, or holds a number too long to be read.

    Examples
    --------
    >>> load_json('{"a": [1, "\\ud800"]}') == {"a": [1, "\ufffd"]}
    True
    >>> load_json("[" * 500 + "]" * 500)
    Traceback (most recent call last):
    ValueError: nested more than 200 deep
    """
    check_depth(text)
    try:
        return _DECODERS[strict].decode(whole_pairs(text))
    except RecursionError as error:
        raise ValueError(f"nested more than {MOST_DEPTH} deep") from error


def whole_pairs(text: str) -> str:
    """JSON text whose escapes of half a surrogate pair are those of U+FFFD."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found["half"] else found[0], text)


def check_depth(text: str) -> None:
    """Raise ValueError where JSON text is nested deeper than `MOST_DEPTH`."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    bare = _STRINGS.sub("", text) if "\\" in text else "".join(_outside_strings(text))
    brackets = bare.encode("utf-8", "replace").translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(brackets).cast("b")), default=0) > MOST_DEPTH:
        raise ValueError(f"nested more than {MOST_DEPTH} deep")


def _outside_strings(text: str) -> Iterator[str]:
    """What stands between the strings of JSON text without escapes; a piece of it at a time, for there may be a million."""
    inside = 0
    for at in range(0, len(text), 1 << 16):
        pieces = text[at : at + (1 << 16)].split('"')
        yield "".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2


def signal_of(code: int) -> int | None:
    """Signal that an exit code tells: Python gives it below zero, shells above 128 (signal(7) has the numbers).

    -1 is none: Rust, Go and C# write it where a process left no code.

    Examples
    --------
    >>> signal_of(-9), signal_of(137), signal_of(1), signal_of(-1)
    (9, 9, None, None)
    """
    return -code if code < -1 else code - 128 if 128 < code < 160 else None


def whole_number(value: object) -> int | None:
    """A number that was printed as digits, or is one; None for anything else, `²` and what no 64 bits hold included.

    Examples
    --------
    >>> whole_number("-12"), whole_number(7), whole_number("²"), whole_number("9" * 30), whole_number(None), whole_number(True)
    (-12, 7, None, None, None, None)
    """
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def ranks_in(text: str, most: int = MOST_RANKS) -> list[int]:
    """Numbers of a printed list of ranks: `[0, 1, 2]`, `7`, `3-5`; no more than `most`.

    Examples
    --------
    >>> ranks_in("[0, 2-4]"), len(ranks_in("0-999999999999")), ranks_in("")
    ([0, 2, 3, 4], 131072, [])
    """
    found: list[int] = []
    for first, last in _NUMBERS.findall(text):
        begin = int(first)
        found.extend(range(begin, min(int(last or first) + 1, begin + most - len(found))))
        if len(found) >= most:
            break
    return found


def csv_rows(lines: Iterable[str], delimiter: str = ",", **more: Any) -> Iterator[list[str]]:
    """Rows of a table in CSV; a row that breaks the form (a stray carriage return, a field without an end) is left out.

    Examples
    --------
    >>> list(csv_rows(["a,b", '1,"x y"']))
    [['a', 'b'], ['1', 'x y']]
    """
    reader = csv.reader(lines, delimiter=delimiter, **more)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue


def csv_records(lines: Iterable[str], delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Rows of a table in CSV by the names of its first; what a short row lacks is empty.

    Examples
    --------
    >>> list(csv_records(["a,b", "1", "2,3,4"]))
    [{'a': '1', 'b': ''}, {'a': '2', 'b': '3'}]
    """
    rows = csv_rows(lines, delimiter)
    head = next(rows, [])
    return ({name: row[at] if at < len(row) else "" for at, name in enumerate(head)} for row in rows if row)
