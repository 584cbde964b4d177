"""The moment up to which a run is looked at: what was known then, of rows and of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.schema import Row

if TYPE_CHECKING:
    import pandas


@dataclass
class Cursor:
    """What was known at a moment; a row without a time was known when its capture began, or was taken."""

    until_ns: int
    known_from: Mapping[str, int | None]
    later: int = 0
    """Rows that were left out by the last scan."""

    def holds(self, row: Row) -> bool:
        """Whether a row was known."""
        when = row.get("time")
        when = self.known_from.get(row["capture"]) if when is None else when
        return when is not None and when <= self.until_ns

    def filtered(self, take: Callable[[Row], None]) -> Callable[[Row], None]:
        """A consumer that is handed what was known; the rest is counted."""

        def filtered(row: Row) -> None:
            if self.holds(row):
                take(row)
            else:
                self.later += 1

        return filtered

    def part(self, frame: pandas.DataFrame, file: str) -> pandas.DataFrame:
        """The rows of a capture's frame that were known."""
        import pandas as pd

        if "time" not in frame:
            return frame if (self.known_from.get(file) or self.until_ns + 1) <= self.until_ns else frame.iloc[:0]
        known = pd.to_datetime(self.known_from.get(file), unit="ns", utc=True)
        return frame[frame["time"].fillna(known) <= pd.Timestamp(self.until_ns, unit="ns", tz="UTC")]
