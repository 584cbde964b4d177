"""What each format declares, held against what its parser gives on everything that is bundled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kit.frames import FRAMES
from kit.parse import LineReader, formats, head_of, read, recognise
from kit.parse.base import Source

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = sorted(path for base in (ROOT / "data", ROOT / "tests" / "data") for path in base.iterdir() if path.is_dir())
MOST = 12
"""Of one kind so many files of a folder are read: what its parser gives doesn't change with the launch."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_parsers_give_the_frames_they_declare_and_no_others(folder: Path) -> None:
    wrong, seen = set(), Counter()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in ("run.json", "case.json"):
            continue
        kind, _ = recognise(path.name, head_of(path))
        seen[kind] += 1
        if kind is not None and seen[kind] <= MOST:
            _, rows = read(LineReader(path), kind, Source(path.name))
            wrong |= {(kind, frame) for frame, _ in rows if frame not in formats()[kind].frames}
    assert not wrong


def test_declared_frames_exist() -> None:
    assert {frame for entry in formats().values() for frame in entry.frames} <= FRAMES.keys()
    assert all(entry.frames for entry in formats().values())


def test_a_session_that_kills_is_one_whatever_its_name() -> None:
    """A name that fits ends the search, but for a format that insists."""
    table = "$ ps -o pid,stat,cmd -p 7\n    PID STAT CMD\n      7 R    python3\n"
    assert recognise("ps.txt", table) == ("ps", None)
    assert recognise("ps.txt", table + "$ sudo kill -9 7\n") == ("shell", "ps")
