"""Differences between two samples of the same thing. A rate needs two samples; CPU time alone is not progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kit.clock import NS
from kit.schema import Row

ASSUMED_GAP_S = 30.0
"""Gap between two undated samples (`stat.t0.txt`, `stat.t1.txt`) where nothing tells it."""


@dataclass
class Delta:
    """One quantity of one thing at its first and its last sample."""

    key: Any
    first: float
    last: float
    gap_s: float
    gap_known: bool
    rows: tuple[Row, Row]

    @property
    def change(self) -> float:
        """Last minus first."""
        return self.last - self.first

    @property
    def per_s(self) -> float:
        """Change per second; an estimate where the gap is assumed."""
        return self.change / self.gap_s if self.gap_s else 0.0


def deltas(rows: Iterable[Row], key: str, value: Callable[[Row], float | None]) -> dict[Any, Delta]:
    """Compare the first and the last sample of each thing.

    `rows`: rows with `moment` or `time`; rows without both, or without a value, are passed over. `key`: column that names the
    thing; a capture of one process often does not name it (`io.t0.txt`), and None names it then. `value`: takes a row, returns
    the quantity or None. Returns `Delta` by key, for things with at least two samples.

    Examples
    --------
    >>> rows = [{"pid": 7, "moment": 0, "n": 1}, {"pid": 7, "moment": 1, "n": 4}]
    >>> deltas(rows, "pid", lambda row: row["n"])[7].change
    3
    """
    seen: dict[Any, dict] = {}
    for row in rows:
        amount, order = value(row), _order(row)
        if amount is None or order is None:
            continue
        seen.setdefault((row.get(key), row.get("tool")), {})[order] = (amount, row)
    found: dict[Any, Delta] = {}
    for (name, _), samples in seen.items():
        if len(samples) < 2 or name in found:
            continue
        (first, row0), (last, row1) = samples[min(samples)], samples[max(samples)]
        known = row0.get("time") is not None and row1.get("time") is not None and row1["time"] > row0["time"]
        gap = (row1["time"] - row0["time"]) / NS if known else ASSUMED_GAP_S
        found[name] = Delta(name, first, last, gap, known, (row0, row1))
    return found


def _order(row: Row):
    if row.get("moment") is not None:
        return row["moment"]
    return row.get("time")


def cpu_s(row: Row) -> float | None:
    """User and system time of a process or thread row."""
    if row.get("utime_s") is not None:
        return row["utime_s"] + (row.get("stime_s") or 0.0)
    return None  # ps counts whole seconds over the life: too coarse for a rate of seconds


def bytes_read(row: Row) -> int:
    """Bytes read by an io row: from storage, or through read calls where a FUSE or network file system hides the rest."""
    return max(row.get("read_bytes") or 0, row.get("rchar_bytes") or 0)


def span_s(found: dict[Any, Delta]) -> float | None:
    """Longest gap of some deltas, None without any."""
    return max((delta.gap_s for delta in found.values()), default=None)
