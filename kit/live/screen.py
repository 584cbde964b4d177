"""The status of a launch, or of those of several hosts, in a terminal: redrawn in place, or one line a change without one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Any, TextIO

from kit.analyse.verdict.live_status import Status
from kit.clock import show_duration
from kit.document import text
from kit.live.keys import Keys
from kit.plot.style import human_bytes
from kit.show import hosts as show_hosts
from kit.show import status as show_status
from kit.show.hosts import Hosts

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Alternate screen and no cursor; back."""
UNTOLD = (80, 24)
"""Columns and lines of a terminal that does not tell them, as a serial line."""
HOME, TO_LINE_END, TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
SORTS = (
    ("rank", ""),
    ("CPU", "cpu_percent"),
    ("RSS", "rss_bytes"),
    ("reads", "read_bytes_per_s"),
    ("last progress", "progress_s"),
)
"""Orders of the processes, and the values that they go by, the largest first."""
HOST_SORTS = (("state", ""), ("last progress", "silence_s"), ("last log line", "log_silence_s"), ("reads", "read_bytes_per_s"))
"""Orders of hosts, and the values that they go by."""


def render_text(status: Status | Hosts, width: int = 100, height: int = 40, colours: bool = False, note: str = "") -> str:
    """Draw a status as text of at most so many columns (60 or more) and lines.

    Examples
    --------
    >>> status = Status("run", "12:00:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0])
    >>> print(render_text(status, 80, 4))
    stalled in weights: one rank is behind (rank_straggler), rank 0, 96 %
    run · 12:00:00
    phase weights
    """
    if isinstance(status, Hosts):
        page = show_status.fitted(partial(show_hosts.document, status, note), len(status.boards), 2, width, height)
    else:
        page = show_status.fitted(partial(show_status.document, status, note), len(status.rows), 3, width, height)
    lines = text.render(page, width, colours, cut=True).split("\n")
    return "\n".join(lines[:height])


def one_line(status: Status) -> str:
    """The status in one line, for where there is no terminal.

    Examples
    --------
    >>> one_line(Status("run", "12:00:00", "stalled", "rank_straggler", "one rank is behind", "weights", 0.96, [0], silence_s=61))
    '12:00:00  stalled in weights: one rank is behind (rank_straggler), rank 0, 96 %, no progress in the log for 61 s'
    """
    words = [show_status.title(status), *status.bars]
    if status.silence_s is not None and status.silence_s >= 10:
        words.append(f"no progress in the log for {show_duration(status.silence_s)}")
    if status.read_bytes_per_s:
        words.append(f"reads {human_bytes(status.read_bytes_per_s)}/s")
    return text.clean(f"{status.at}  {', '.join(words)}".replace("\n", " "))


class Screen:
    """Shows one status after the other on a stream: in place on a terminal, else one line a change. A context manager.

    On a terminal `q` calls `quit`, `s` sorts the processes or hosts by another column, `r` turns their order, `n` shows the next
    host alone. The terminal is put back as it was at the end, whatever ended it, and while the process is suspended. What is
    written to standard error meanwhile would stand in the middle of it: it comes at the end.
    """

    def __init__(self, stream: TextIO | None = None, quit: Callable[[], None] = lambda: None):
        self.stream = stream if stream is not None else sys.stdout
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colours = text.coloured(self.stream)
        self.last: Status | Hosts | None = None
        self._said: dict[str, tuple] = {}
        self._note, self._quit, self._ends = "", quit, False
        self._sort, self._turned, self._alone = 0, False, 0
        self._keys, self._lock = Keys(self._press), threading.RLock()
        self._held, self._errors = StringIO(), sys.stderr
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Screen:
        if self.live:
            self._begin()
            self._handle()
        return self

    def _begin(self) -> None:
        self._errors = sys.stderr
        if self._errors.isatty():
            sys.stderr = self._held
        self._write(ENTER)
        self._keys.start()

    def _end(self) -> None:
        self._keys.stop()
        self._write(LEAVE)
        sys.stderr = self._errors

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The normal screen and its keys, while somebody is asked for a password, say."""
        with self._lock:
            if self.live:
                self._end()
            try:
                yield
            finally:
                if self.live:
                    self._begin()
                    self._draw()

    def show(self, board: Status | Hosts, note: str = "") -> None:
        """Draw a status, or those of several hosts."""
        with self._lock:
            self.last, self._note = board, note
        if self.live:
            self._draw()
            return
        for name, one in board.boards.items() if isinstance(board, Hosts) else [("", board)]:
            if isinstance(one, str):
                continue  # it was said when it became known
            news = (one.state, one.klass, one.phase, tuple(one.ranks), one.gone)
            if news != self._said.get(name):
                self._said[name] = news
                self._write(f"{name}: " * bool(name) + one_line(one) + "\n")

    def __exit__(self, *about: object) -> None:
        """Leave the last status on the normal screen."""
        if not self.live:
            return
        for number, before in self._handlers.items():
            signal.signal(number, before)
        self._end()
        if self._held.getvalue():
            self._errors.write(self._held.getvalue())
        if self.last is not None:
            self._write(render_text(self._sorted(self.last), self._size().columns, 1000, self.colours) + "\n")

    def _handle(self) -> None:
        """Draw anew where the terminal changes its size; give it back while the process is suspended; end in order on Ctrl-\\."""
        if threading.current_thread() is not threading.main_thread():
            return
        wanted = {signal.SIGWINCH: self._resized, signal.SIGTSTP: self._suspend, signal.SIGQUIT: signal.getsignal(signal.SIGINT)}
        self._handlers = {number: signal.signal(number, handler) for number, handler in wanted.items()}

    def _resized(self, number: int, frame: object) -> None:
        self._draw()

    def _suspend(self, number: int, frame: object) -> None:
        with self.aside():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)  # it stands here until it is continued
            signal.signal(signal.SIGTSTP, self._suspend)

    def _press(self, key: str) -> None:
        with self._lock:
            if key in "qQ":
                self._ends = True
                self._quit()
            elif key == "s":
                self._sort, self._turned = (self._sort + 1) % len(self._sorts), False
            elif key == "r":
                self._turned = not self._turned
            elif key == "n" and isinstance(self.last, Hosts):
                self._alone = (self._alone + 1) % (len(self.last.boards) + 1)
        self._draw()

    @property
    def _sorts(self) -> tuple[tuple[str, str], ...]:
        return HOST_SORTS if isinstance(self.last, Hosts) else SORTS

    def _sorted(self, board: Status | Hosts) -> Status | Hosts:
        """A status with its processes, or hosts, in the order that was asked for; what is not known stands last."""
        column = self._sorts[self._sort][1]
        if isinstance(board, Hosts):
            found = board.ordered(column, self._turned)
            alone = list(found.boards.values())[self._alone - 1] if self._alone else ""
            return found if isinstance(alone, str) else alone
        rows = board.rows
        if column:
            known = sorted((row for row in rows if row.get(column) is not None), key=lambda row: row[column], reverse=True)
            rows = known + [row for row in rows if row.get(column) is None]
        return replace(board, rows=rows[::-1] if self._turned else rows)

    def _draw(self) -> None:
        with self._lock:
            if self.last is None:
                return
            size = self._size()
            room = size.lines - 1 - self._keys.on
            drawn = render_text(self._sorted(self.last), size.columns, room, self.colours, self._note)
            self._write(HOME + "".join(f"{line}{TO_LINE_END}\r\n" for line in drawn.split("\n")) + TO_END)
            if self._keys.on:
                turned = ", turned" if self._turned else ""
                keys = f"q quits · s sorts (by {self._sorts[self._sort][0]}{turned}) · r turns the order"
                keys = "ending …" if self._ends else keys + " · n next host alone" * isinstance(self.last, Hosts)
                keys = text.short(keys, size.columns)  # a wrapped line would push the answer out of the screen
                dim = ("\x1b[2m", "\x1b[0m") if self.colours else ("", "")
                self._write(f"\x1b[{size.lines};1H{dim[0]}{keys}{dim[1]}")

    def _size(self) -> os.terminal_size:
        """Size of the terminal itself: variables of the environment may be another's."""
        try:
            size = os.get_terminal_size(self.stream.fileno())
        except OSError:
            return shutil.get_terminal_size()
        return size if size.columns and size.lines else os.terminal_size(UNTOLD)

    def _write(self, drawn: str) -> None:
        try:
            self.stream.write(drawn)
            self.stream.flush()
        except BrokenPipeError:
            raise  # the command line ends for it
        except OSError:  # the terminal was closed: the recording still ends in order
            self.live = False
