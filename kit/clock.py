"""Time, fixed at the door: texts and stamps to UTC nanoseconds, and launch zero.

Rows hold a time as integer nanoseconds since 1970-01-01 UTC. A stamp without a zone is local time of the host; the
offset comes from the manifest or from a captured-at text with a zone, else it is taken as UTC and the verdict says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kit.errors import UsageError

NS = 1_000_000_000
LATEST_NS = 7_258_118_400 * NS
"""Begin of the year 2200. No launch is later, nor before 1970; differences of times in between fit in 64 bits of nanoseconds."""
_TEXT = re.compile(r"^\s*(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(?:(Z|[+-]\d\d:?\d\d)\s*)?$")


def parse_time(text: str, offset_s: int = 0) -> tuple[int, int | None]:
    """Read a date and time as people write it.

    `text`: `2026-02-18 02:11:52`, with `T`, fraction, `Z` or `+01:00` as liked. `offset_s`: UTC offset that holds where the text
    names no zone, in seconds. Returns nanoseconds since the epoch, UTC; and the text's own offset in seconds, None where it names
    none. Raises UsageError where the text is no time.

    Examples
    --------
    >>> parse_time("1970-01-01 00:00:01")
    (1000000000, None)
    >>> parse_time("1970-01-01T01:00:00+01:00")
    (0, 3600)
    """
    found = _TEXT.match(text)
    try:
        if not found:
            raise ValueError("it does not read YYYY-mm-dd HH:MM[:SS]")
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        own = _offset(zone) if zone else None
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time", str(error), "write it as: --captured-at '2026-02-18 02:11:52'") from error
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    ns = (since // timedelta(seconds=1)) * NS + int((fraction or "0").ljust(9, "0"))
    ns -= (own if own is not None else offset_s) * NS
    if not in_range(ns):
        raise UsageError(f"{text!r} is not a time of a launch", "it lies before 1970 or after 2199", "check the year")
    return ns, own


def in_range(ns: int) -> bool:
    """Whether a time is one that the kit reckons with: 1970 to 2199."""
    return 0 <= ns < LATEST_NS


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def show_time(ns: int | None, offset_s: int = 0) -> str:
    """Write a time for people, in the host's local time.

    Examples
    --------
    >>> show_time(0, 3600)
    '1970-01-01 01:00:00'
    """
    if ns is None:
        return "unknown"
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=ns // NS + offset_s)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return "unknown"


def show_duration(seconds: float | None) -> str:
    """Write a duration for people.

    Examples
    --------
    >>> [show_duration(s) for s in (0.25, 39, 642, 6165, 90000)]
    ['0.2 s', '39 s', '10 min 42 s', '1 h 42 min', '1 d 1 h']
    """
    if seconds is None:
        return "unknown"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def show_seconds(value: float | None) -> str:
    """A duration as text, short ones, as system calls take, in a unit of their own; empty where it is not known.

    Examples
    --------
    >>> [show_seconds(value) for value in (0.00002, 0.25, 0.9999, 3.029, 5234, None)]
    ['20 µs', '250 ms', '1 s', '3.03 s', '1 h 27 min', '']
    """
    if value is None or value != value:
        return ""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if value * factor < 999.5:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s" if value < 100 else show_duration(value)
