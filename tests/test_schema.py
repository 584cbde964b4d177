from __future__ import annotations

from pathlib import Path

import pytest

from kit.frames import FRAMES, TABLES
from kit.schema import PANDAS_DTYPE, Column, Frame, reference


@pytest.mark.parametrize("frame", FRAMES.values(), ids=lambda frame: frame.name)
def test_empty_frame_has_all_columns_in_their_types(frame: Frame) -> None:
    empty = frame.empty()
    assert list(empty.columns) == [column.name for column in frame.columns]
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == {c.name: PANDAS_DTYPE[c.type] for c in frame.columns}


def test_time_keeps_nanoseconds_and_zone() -> None:
    built = FRAMES["processes"].build([{"pid": 1, "time": 1_700_000_000_123_456_789, "capture": "a"}, {"pid": 2, "capture": "a"}])
    assert built["time"][0].value == 1_700_000_000_123_456_789
    assert str(built["time"].dt.tz) == "UTC"
    assert built["time"].isna().tolist() == [False, True]


def test_large_integers_stay_exact() -> None:
    assert (
        FRAMES["io"].build([{"pid": 1, "read_bytes": 2**53 + 1, "capture": "a"}, {"capture": "a"}])["read_bytes"][0] == 2**53 + 1
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [({"pid": "7"}, "not of type int"), ({"pid": True}, "not of type int"), ({}, "may not be missing"), ({"x": 1}, "no column")],
)
def test_check_refuses(row: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Frame("demo", "", (Column("pid", "int", "", nullable=False),)).check(row)


def test_reference_is_up_to_date() -> None:
    written = (Path(__file__).parent.parent / "docs" / "columns.md").read_text(encoding="utf-8")
    assert written == reference((*FRAMES.values(), *TABLES.values())), "regenerate it: kit reference -o docs/columns.md"


def test_units_stand_in_names() -> None:
    units = {"bytes": "_bytes", "s": "_s", "MiB": "_mib", "W": "_w", "%": "_percent"}
    wrong = [
        f"{frame.name}.{c.name}"
        for frame in FRAMES.values()
        for c in frame.columns
        if c.unit in units and units[c.unit] not in c.name and c.name not in ("recv_q", "send_q", "bar_s_per_item")
    ]
    assert not wrong
