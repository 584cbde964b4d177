"""The status of a launch in a terminal: redrawn in place, or one line a change where there is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from kit.analyse.verdict.live_status import Status
from kit.clock import show_duration
from kit.document import text
from kit.plot.style import human_bytes
from kit.show.status import fitted, title

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Alternate screen and no cursor; back."""
HOME, TO_LINE_END, TO_END = "\x1b[H", "\x1b[K", "\x1b[J"


def render_text(status: Status, width: int = 100, height: int = 40, colours: bool = False, note: str = "") -> str:
    """Draw a status as text of at most so many columns (60 or more) and lines.

    Examples
    --------
    >>> status = Status("run", "12:00:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0])
    >>> print(render_text(status, 80, 4))
    stalled in weights: one rank is behind (rank_straggler), rank 0, 96 %
    run · 12:00:00
    phase weights
    """
    lines = text.render(fitted(status, width, height, note), width, colours, cut=True).split("\n")
    return "\n".join(lines[:height])


def one_line(status: Status) -> str:
    """The status in one line, for where there is no terminal.

    Examples
    --------
    >>> one_line(Status("run", "12:00:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0], silence_s=61))
    '12:00:00  stalled in weights: one rank is behind (rank_straggler), rank 0, 96 %, no progress in the log for 61 s'
    """
    words = [title(status), *status.bars]
    if status.silence_s is not None and status.silence_s >= 10:
        words.append(f"no progress in the log for {show_duration(status.silence_s)}")
    if status.read_bytes_per_s:
        words.append(f"reads {human_bytes(status.read_bytes_per_s)}/s")
    return text.clean(f"{status.at}  {', '.join(words)}".replace("\n", " "))


class Screen:
    """Shows one status after the other on a stream: in place on a terminal, else one line a change. A context manager."""

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream if stream is not None else sys.stdout
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colours = text.coloured(self.stream)
        self.last: Status | None = None
        self._said: tuple | None = None

    def __enter__(self) -> Screen:
        if self.live:
            self._write(ENTER)
        return self

    def show(self, board: Status, note: str = "") -> None:
        """Draw a status."""
        self.last = board
        if self.live:
            size = self._size()
            drawn = render_text(board, size.columns, size.lines - 1, self.colours, note)
            self._write(HOME + "".join(f"{line}{TO_LINE_END}\r\n" for line in drawn.split("\n")) + TO_END)
            return
        news = (board.state, board.klass, board.phase, tuple(board.ranks), board.gone)
        if news != self._said:
            self._said = news
            self._write(one_line(board) + "\n")

    def __exit__(self, *about: object) -> None:
        """Leave the last status on the normal screen."""
        if not self.live:
            return
        self._write(LEAVE)
        if self.last is not None:
            self._write(render_text(self.last, self._size().columns, 1000, self.colours) + "\n")

    def _size(self) -> os.terminal_size:
        """Size of the terminal itself: variables of the environment may be another's."""
        try:
            return os.get_terminal_size(self.stream.fileno())
        except OSError:
            return shutil.get_terminal_size()

    def _write(self, drawn: str) -> None:
        try:
            self.stream.write(drawn)
            self.stream.flush()
        except BrokenPipeError:
            raise  # the command line ends for it
        except OSError:  # the terminal was closed: the recording still ends in order
            self.live = False
