from __future__ import annotations

import pytest

from kit.clock import NS, parse_time, show_duration, show_time
from kit.errors import UsageError


def test_zone_of_the_text_wins_over_the_offset() -> None:
    assert parse_time("2026-02-18T02:11:52+01:00", offset_s=7200) == (parse_time("2026-02-18 01:11:52")[0], 3600)


def test_local_text_takes_the_offset() -> None:
    assert parse_time("2026-02-18 02:11:52", 3600)[0] == parse_time("2026-02-18 01:11:52")[0]


def test_fraction_keeps_nanoseconds() -> None:
    assert parse_time("1970-01-01 00:00:01.123456789")[0] == NS + 123456789


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01 00:00:00", "2026-02-30 10:00", "", "10:00:00"])
def test_no_time_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="--captured-at"):
        parse_time(text)


def test_shown_time_round_trips() -> None:
    assert show_time(parse_time("2026-02-18 02:11:52", 3600)[0], 3600) == "2026-02-18 02:11:52"


def test_durations() -> None:
    assert show_duration(6165) == "1 h 42 min"
    assert show_duration(None) == "unknown"
