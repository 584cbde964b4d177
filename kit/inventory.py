"""What a run holds: its captures and its frames, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kit import store
from kit.errors import UsageError, nearest
from kit.frames import FRAMES, TABLES
from kit.reading import Reading
from kit.schema import Frame, Row

if TYPE_CHECKING:
    import pandas

    from kit.run import Run

_SHOWN = ("file", "kind", "size_bytes", "moment", "host", "whole", "source", "note")


def frames(run: Run, reading: Reading) -> pandas.DataFrame:
    """Frames that a run has rows of, with the captures these come from; reads what was not read yet."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in FRAMES}
    if run.cursor is not None:
        run.scan({name: _counting(counts[name]) for name in FRAMES})
        return _counted(counts)
    for row in run.gap_rows():
        counts["gaps"][row["capture"]] += 1
    for capture in run.captures:
        kept = reading.keep(capture) if capture.kind is not None else None
        if kept is not None and kept.rows is None:
            for name in capture.frames:
                counts[name][capture.file] += store.count(reading.place_of(capture, kept.key), name)
        elif capture.kind is not None:
            for name, _ in reading.rows(capture) if kept is None else kept.rows:
                counts[name][capture.file] += 1
    for row in run.note_rows():
        counts["notes"][row["capture"]] += 1
    return _counted(counts)


def _counting(files: Counter[str]) -> Callable[[Row], None]:
    """A consumer that counts rows by their capture."""
    return lambda row: files.update((row["capture"],))


def _counted(counts: dict[str, Counter[str]]) -> pandas.DataFrame:
    """A row a frame that has rows."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"frame": name, "rows": files.total(), "files": ", ".join(+files), "meaning": FRAMES[name].meaning}
            for name, files in counts.items()
            if files.total()
        ],
        columns=["frame", "rows", "files", "meaning"],
    )


def captures(run: Run) -> pandas.DataFrame:
    """Captures of a run with what was read of each."""
    import pandas as pd

    rows = []
    for capture in (capture for capture in run.captures if not run.is_later(capture)):
        row: dict[str, Any] = {name: getattr(capture, name) for name in _SHOWN}
        row["captured"] = pd.to_datetime(capture.captured_ns, unit="ns", utc=True)
        report = run.reports.get(capture.id)
        if report is not None:
            odd = "; ".join(f"{count} × {reason}" for reason, count in report.reasons.items())
            row |= {"lines": report.lines, "records": report.records, "not_understood": odd or None}
        rows.append(row)
    columns = [*_SHOWN[:3], "captured", *_SHOWN[3:], "lines", "records", "not_understood"]
    return pd.DataFrame(rows, columns=columns).astype({name: "Int64" for name in ("moment", "lines", "records")})


def declared(name: str) -> Frame:
    """The frame of a name; the error for one that there is not names the nearest."""
    if name in FRAMES:
        return FRAMES[name]
    if name in TABLES:
        raise UsageError(
            f"{name} is not a frame of a run",
            "it is made of a verdict",
            f"use kit.analyse.verdict.tables.{name}(run) or: kit export RUN {name}",
        )
    near = nearest(name, [*FRAMES, *TABLES])
    raise UsageError(
        f"unknown frame {name!r}",
        f"the nearest is {near!r}" if near else "no name is close",
        f"choose one of: {', '.join(FRAMES)}",
    )
