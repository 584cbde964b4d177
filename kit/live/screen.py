"""The board in a terminal: text of a given size, redrawn in place, or one line a change where there is no terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from kit.analyse.verdict.live_status import Board
from kit.clock import show_duration
from kit.plot.style import human_bytes
from kit.show.board import HEADS, NUMERIC, ODD, cells, columns, headline, progress, rates

COLOURS = {"ready": "32", "progressing": "36", "stalled": "31", "failed": "31", "unknown": "33"}
"""Foreground colours of the states: green, cyan, red, red, yellow."""
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Alternate screen and no cursor; back."""
HOME, TO_LINE_END, TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
LEAST_ROWS = 3
WIDTHS = dict(zip(HEADS, (5, 12, 8, 9, 5, 7, 10, 12, 7, 14, 20), strict=True))
"""Least widths of the columns; a longer cell widens its column."""
SPARED = ("threads", "reads", "role", "host")
"""Columns that a narrow terminal does without, in this order."""


def render_text(board: Board, width: int = 100, height: int = 40, colours: bool = False, note: str = "") -> str:
    """Draw a board as text.

    Parameters
    ----------
    board : Board
    width, height : int
        Characters a line, and lines; nothing is drawn beyond.
    colours : bool
        Mark the state and the odd ranks with colours of the terminal.
    note : str
        Stands at the right of the first line.

    Returns
    -------
    str
        Lines without trailing blanks.

    Examples
    --------
    >>> print(render_text(Board("run", "12:00:00", "stalled", "rank_straggler", "weights", 0.96, [0]), 60, 4))
    run  12:00:00
    STALLED: rank_straggler, rank 0 (nearly certain, 96%)
    phase weights
    """
    lines = [_sides(f"{board.name}  {board.at}", note, width), headline(board), "   ".join(progress(board))]
    lines += ["   ".join(rates(board))] if rates(board) else []
    table = ["", *_table(board, width)] if board.rows else []
    tail = [*_section("evidence", [f"• {claim}" for claim in board.evidence])]
    tail += _section("next", [f"{step['what']}: {step['command']}" for step in board.next])
    room = max(LEAST_ROWS, height - len(lines) - len(tail))
    if len(table) > room:
        table = [*table[: room - 1], f"  … {len(table) - room + 1} more processes"]
    shown = [_cut(line, width) for line in [*lines, *table, *tail][:height]]
    if colours:
        shown = [_coloured(line, number, board) for number, line in enumerate(shown)]
    return "\n".join(shown)


def one_line(board: Board) -> str:
    """The board in one line, for where there is no terminal.

    Examples
    --------
    >>> one_line(Board("run", "12:00:00", "stalled", "rank_straggler", "weights", 0.96, [0], silence_s=61))
    '12:00:00  STALLED: rank_straggler, rank 0 (nearly certain, 96%), phase weights, no progress in the log for 61 s'
    """
    words = [headline(board)]
    if board.phase:
        words.append(f"phase {board.phase}")
    words += board.bars
    if board.silence_s is not None and board.silence_s >= 10:
        words.append(f"no progress in the log for {show_duration(board.silence_s)}")
    if board.read_bytes_per_s:
        words.append(f"reads {human_bytes(board.read_bytes_per_s)}/s")
    return _clean(f"{board.at}  {', '.join(words)}")


def _table(board: Board, width: int) -> list[str]:
    lines = [HEADS, *(cells(row) for row in board.rows)]
    sizes = {number: max(WIDTHS[HEADS[number]], *(len(line[number]) for line in lines)) for number in columns(board)}
    sizes[len(HEADS) - 1] = WIDTHS[HEADS[-1]]  # the last one takes what is left
    for head in SPARED:
        if sum(sizes.values()) + len(sizes) > width:
            sizes.pop(HEADS.index(head), None)
    return [
        " ".join(line[n].rjust(size) if HEADS[n] in NUMERIC else line[n].ljust(size) for n, size in sizes.items())
        for line in lines
    ]


def _section(heading: str, lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    return ["", heading, *(f"  {line}" for line in lines)] if lines else []


def _sides(left: str, right: str, width: int) -> str:
    return f"{left}{right.rjust(max(0, width - len(left)))}" if right and len(left) + len(right) < width else left


def _clean(text: str) -> str:
    """Text of logs and processes is data: none of it may steer the terminal."""
    return _CONTROL.sub("?", text)


def _cut(line: str, width: int) -> str:
    line = _clean(line).rstrip()
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _coloured(line: str, number: int, board: Board) -> str:
    if number == 1:
        return f"\x1b[1;{COLOURS[board.state]}m{line}\x1b[0m"
    if line.lstrip().startswith(ODD):
        return f"\x1b[1;31m{line}\x1b[0m"
    return f"\x1b[1m{line}\x1b[0m" if line in ("evidence", "next") or line.startswith(" rank ") else line


class Screen:
    """Shows boards on a stream: in place on a terminal, else one line a change. A context manager.

    Parameters
    ----------
    stream : file, optional
        Standard output without it.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream if stream is not None else sys.stdout
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colours = self.live and not os.environ.get("NO_COLOR")
        self.last: Board | None = None
        self._said: tuple | None = None

    def __enter__(self) -> Screen:
        if self.live:
            self._write(ENTER)
        return self

    def show(self, board: Board, note: str = "") -> None:
        """Draw a board."""
        self.last = board
        if self.live:
            size = self._size()
            text = render_text(board, size.columns, size.lines - 1, self.colours, note)
            self._write(HOME + "".join(f"{line}{TO_LINE_END}\r\n" for line in text.split("\n")) + TO_END)
            return
        news = (board.state, board.klass, board.phase, tuple(board.ranks), board.gone)
        if news != self._said:
            self._said = news
            self._write(one_line(board) + "\n")

    def __exit__(self, *about: object) -> None:
        """Leave the last board on the normal screen."""
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

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            raise  # the command line ends for it
        except OSError:  # the terminal was closed: the recording still ends in order
            self.live = False
