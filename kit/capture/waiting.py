"""The clock by which a recording waits: an object, so that a test may run it faster than the wall."""

from __future__ import annotations

import threading
import time


class Clock:
    """Seconds that pass, and waiting for some of them.

    Parameters
    ----------
    speed : float
        How many of its seconds pass in one of the machine's. What other programs do keeps the machine's time.

    Examples
    --------
    >>> clock, began = Clock(1000), time.monotonic()
    >>> clock.sleep(5)
    >>> time.monotonic() - began < 1
    True
    """

    def __init__(self, speed: float = 1.0):
        self.speed, self._began = speed, time.monotonic()

    def monotonic(self) -> float:
        """The present in its seconds."""
        now = time.monotonic()
        return now if self.speed == 1.0 else self._began + (now - self._began) * self.speed

    def real(self, seconds: float) -> float:
        """Seconds of the machine that so many of its own take."""
        return seconds / self.speed

    def sleep(self, seconds: float) -> None:
        """Let so many of its seconds pass."""
        time.sleep(max(0.0, self.real(seconds)))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for an event so long at most; whether it was set."""
        return event.wait(self.real(seconds))


CLOCK = Clock()
"""The machine's own."""
