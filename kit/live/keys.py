"""Keys that are pressed while a screen is shown: the terminal gives them at once, and is put back however that ends."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Keys:
    """Hands each key to `act`, in a thread. Only where standard input is a terminal, and this process in its foreground.

    Ctrl-C and Ctrl-Z stay signals.
    """

    def __init__(self, act: Callable[[str], None]):
        self._act = act
        self._before: list[Any] = []
        self._fd = self._wake = -1
        self._thread: threading.Thread | None = None

    @property
    def on(self) -> bool:
        """Whether keys are read."""
        return self._thread is not None

    def start(self) -> None:
        """Read keys from now on, where that can be."""
        import termios
        import tty

        with suppress(OSError, ValueError, AttributeError, termios.error):
            self._fd = sys.stdin.fileno()
            if not os.isatty(self._fd) or os.tcgetpgrp(self._fd) != os.getpgrp():
                return  # one that asked from the background would be stopped
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSADRAIN)
            ended, self._wake = os.pipe()
            self._thread = threading.Thread(target=self._read, args=(ended,), daemon=True, name="keys")
            self._thread.start()

    def stop(self) -> None:
        """Put the terminal back as it was."""
        import termios

        if self._thread is None:
            return
        os.close(self._wake)
        if self._thread is not threading.current_thread():
            self._thread.join(1.0)  # it may wait for who stops it
        self._thread = None
        with suppress(OSError, termios.error):  # it was closed
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _read(self, ended: int) -> None:
        with suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select([self._fd, ended], [], [])
                pressed = b"" if ended in ready else os.read(self._fd, 64)
                if not pressed:
                    break
                if not pressed.startswith(b"\x1b"):  # an arrow or a function key
                    for key in pressed.decode("utf-8", "replace"):
                        self._act(key)
        os.close(ended)
