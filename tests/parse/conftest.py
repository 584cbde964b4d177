"""What the tests of the parsers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kit.frames import FRAMES
from kit.parse.base import Format, Report, Source

SNAPSHOTS = Path(__file__).resolve().parent.parent / "data" / "snapshots"


@pytest.fixture
def snapshot() -> Callable[..., tuple[dict[str, list[dict]], Report]]:
    """`snapshot(FORMATS, kind, text or file name)` gives the rows by frame, each checked, and the report."""

    def read(formats: tuple[Format, ...], kind: str, given: str, **about: object) -> tuple[dict[str, list[dict]], Report]:
        named = "\n" not in given and (SNAPSHOTS / given).is_file()
        text = (SNAPSHOTS / given).read_text() if named else given
        entry = next(entry for entry in formats if entry.kind == kind)
        report, rows = Report(), {}
        for frame, row in entry.parse(
            text.split("\n")[:-1] if text.endswith("\n") else text.split("\n"),
            Source(**{"name": given if named else "x.txt"} | about),
            report,
        ):
            assert frame in entry.frames, f"{kind} does not declare that it gives {frame}"
            if "moment" not in FRAMES[frame].by_name:
                row.pop("moment", None)
            FRAMES[frame].check(row | {"capture": "x"})
            rows.setdefault(frame, []).append(row)
        return rows, report

    return read
