"""What each format declares, held against what its parser gives on everything that is bundled."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.frames import FRAMES
from kit.parse import LineReader, formats, head_of, read, recognise
from kit.parse.base import Source

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = sorted(path for base in (ROOT / "data", ROOT / "tests" / "data") for path in base.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_parsers_give_the_frames_they_declare_and_no_others(folder: Path) -> None:
    wrong = set()
    for path in folder.rglob("*"):
        if not path.is_file() or path.name in ("run.json", "case.json"):
            continue
        kind, _ = recognise(path.name, head_of(path))
        if kind is not None:
            _, rows = read(LineReader(path), kind, Source(path.name))
            wrong |= {(kind, frame) for frame, _ in rows if frame not in formats()[kind].frames}
    assert not wrong


def test_declared_frames_exist() -> None:
    assert {frame for entry in formats().values() for frame in entry.frames} <= FRAMES.keys()
    assert all(entry.frames for entry in formats().values())
