"""The time axis of a timeline: linear, or with the silence after the last progress compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kit.clock import NS, show_time
from kit.plot.style import FONT_PT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACTIVE_LEAST = 0.25
"""Where the time up to the last progress is a smaller share of the whole, a linear axis would hide what happened in it."""
ACTIVE_SHARE = 0.6
"""Share of the width that it gets then."""
DAY_S = 86_400


@dataclass(frozen=True)
class TimeAxis:
    """Seconds since launch to shares of the width.

    Examples
    --------
    >>> axis = TimeAxis(0.0, 5000.0, 100.0)
    >>> axis.compressed, float(axis.share(100.0)), float(axis.seconds(0.6))
    (True, 0.6, 100.0)
    >>> TimeAxis(0.0, 100.0, 90.0).compressed
    False
    """

    # `begin`, `end`: seconds that the axis spans
    begin: float
    end: float
    knee: float | None = None  # seconds of the last progress

    @property
    def compressed(self) -> bool:
        """Whether the silence is compressed."""
        return self.knee is not None and 0 < self.knee - self.begin < ACTIVE_LEAST * (self.end - self.begin)

    def share(self, seconds: float | np.ndarray) -> np.ndarray:
        """Share of the width at some seconds; also outside of the span."""
        seconds = np.asarray(seconds, dtype=float)
        if not self.compressed:
            return (seconds - self.begin) / (self.end - self.begin)
        before = ACTIVE_SHARE * (seconds - self.begin) / (self.knee - self.begin)
        after = ACTIVE_SHARE + (1 - ACTIVE_SHARE) * (seconds - self.knee) / (self.end - self.knee)
        return np.where(seconds <= self.knee, before, after)

    def seconds(self, share: float | np.ndarray) -> np.ndarray:
        """The inverse of `share`."""
        share = np.asarray(share, dtype=float)
        if not self.compressed:
            return self.begin + share * (self.end - self.begin)
        before = self.begin + share / ACTIVE_SHARE * (self.knee - self.begin)
        after = self.knee + (share - ACTIVE_SHARE) / (1 - ACTIVE_SHARE) * (self.end - self.knee)
        return np.where(share <= ACTIVE_SHARE, before, after)

    @property
    def right(self) -> float:
        """Seconds at the right edge of the drawing, a little after the end."""
        return float(self.seconds(1.01))

    def edges(self, bins: int) -> np.ndarray:
        """Edges of bins that look equally wide."""
        return self.seconds(np.linspace(0, 1, bins + 1))

    def apply(self, ax: Axes, zero: pd.Timestamp | None = None, offset_s: int = 0) -> None:
        """Set scale, limits and ticks of the x axis (and of all axes that share it); below each the clock, where it is known."""
        from matplotlib.ticker import MaxNLocator

        if self.compressed:
            ax.set_xscale("function", functions=(self.share, self.seconds))
            early = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(self.begin, self.knee)
            late = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(self.knee, self.end)
            ticks = [tick for tick in early if self.begin <= tick <= self.knee]
            ticks += [
                tick
                for tick in late
                if self.share(tick) > self.share(ticks[-1] if ticks else self.begin) + 0.07 and tick <= self.end
            ]
            ax.set_xticks(ticks)
        ax.xaxis.set_major_formatter(lambda tick, _: tick_text(tick, zero, offset_s))
        ax.set_xlim(self.begin, self.right)


def tick_text(tick: float, zero: pd.Timestamp | None, offset_s: int = 0) -> str:
    """Seconds of a tick, and below them what a clock on the wall showed then; after a day also the day.

    Examples
    --------
    >>> tick_text(90.0, pd.Timestamp("2026-02-18T23:59:00Z"), 3600), tick_text(0.5, None)
    ('90\\n01:00:30', '0.5')
    """
    seconds = f"{tick:,.10g}"
    if zero is None:
        return seconds
    ns = zero.value + int(tick * NS)
    fraction = f".{ns // 1_000_000 % 1000:03d}" if tick % 1 else ""
    return f"{seconds}\n{show_time(ns, offset_s)[5 if abs(tick) >= DAY_S else 11 :]}{fraction}"


def zone_text(offset_s: int) -> str:
    """A zone as text.

    Examples
    --------
    >>> zone_text(0), zone_text(19_800)
    ('UTC', 'UTC+05:30')
    """
    minutes = abs(offset_s) // 60
    return f"UTC{'-' if offset_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if offset_s else "UTC"


def zero_of(frame: pd.DataFrame) -> pd.Timestamp | None:
    """When second 0 of a frame's rows was (`time`, `t_s`), None where no row knows it.

    Seconds are floats: without rounding their last digits make 07:59:59 of 08:00:00.

    Examples
    --------
    >>> times = pd.to_datetime(["2026-02-18T08:00:00.1Z", "2026-12-01T08:30:49.6Z"])
    >>> print(zero_of(pd.DataFrame({"time": times, "t_s": [0.1, 24_712_249.6]})))
    2026-02-18 08:00:00+00:00
    """
    zeros = (frame["time"] - pd.to_timedelta(frame["t_s"].astype(float), unit="s")).dropna()
    return zeros.min().round("us") if len(zeros) else None


def label_time(ax: Axes, frame: pd.DataFrame) -> None:
    """Name the axis of seconds of a frame's rows (`time`, `t_s`), with the clock below the ticks where the rows know it."""
    since_launch = frame["t_s"].notna().any()
    zero = zero_of(frame) if since_launch else frame["time"].min() if frame["time"].notna().any() else None
    ax.xaxis.set_major_formatter(lambda tick, _: tick_text(tick, zero))
    label = "seconds since launch" if since_launch else "seconds since the first sample"
    ax.set_xlabel(f"{label}, and the clock (UTC)" if zero is not None else label, fontsize=FONT_PT, color=INK)
