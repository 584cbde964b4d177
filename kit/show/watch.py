"""The board in a notebook: a table that is drawn anew while a launch is watched, and that an export keeps as it was last."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from html import escape

from kit.analyse.verdict.live_status import Board
from kit.plot.style import GREEN, ORANGE, SKY, VERMILION
from kit.show.board import HEADS, NUMERIC, cells, columns, headline, progress, rates
from kit.show.tables import Table

COLOURS = {"ready": GREEN, "progressing": SKY, "stalled": VERMILION, "failed": VERMILION, "unknown": ORANGE}
STYLE = (
    "<style>.kit-board table{border-collapse:collapse} .kit-board th,.kit-board td{padding:1px 8px;line-height:1.3} "
    ".kit-board th{border-bottom:1px solid #999} .kit-board li{line-height:1.4}</style>"
)
"""A widget's page has none of the styles that a notebook gives to tables."""


def board_table(board: Board) -> Table:
    """Processes of a board as a table, ranks first; the odd ones are marked.

    Examples
    --------
    >>> row = dict(rank=0, host=None, pid=7, role="worker", state="S", cpu_percent=0.1, rss_bytes=2**30, rss_bytes_per_s=0.0,
    ...            read_bytes_per_s=0.0, threads=50, waits_in="futex", progress_s=61.0, record_s=61.0, odd=True)
    >>> board_table(Board("run", "12:00", "stalled", "rank_straggler", "weights", 0.9, [0], rows=[row]))
    Processes (1 row)
    rank | pid | role | state | CPU | RSS | reads | threads | last progress | waits in
    ▶ 0 | 7 | worker | S | 0.1 % | 1.0 GiB | 0 B/s | 50 | 61 s ago | futex
    """
    shown = columns(board)
    rows = tuple(tuple(cells(row)[number] for number in shown) for row in board.rows)
    return Table(tuple(HEADS[number] for number in shown), rows, len(rows), "Processes", NUMERIC)


def board_html(board: Board | None, title: str, note: str = "") -> str:
    """A board as HTML; everything in it is escaped.

    Examples
    --------
    >>> "<script>" in board_html(None, "<script>")
    False
    """
    above = " · ".join(word for word in (title, board.at if board else "", note) if word)
    small = f'<p style="color:#666;margin:0">{escape(above)}</p>'
    if board is None:
        return f"<div>{small}<p>waiting for the first samples</p></div>"
    mark = f"border-left:6px solid {COLOURS[board.state]};padding-left:6px"
    parts = [
        small,
        f'<p style="margin:2px 0"><b style="{mark}">{escape(headline(board))}</b></p>',
        f'<p style="margin:2px 0">{escape(" · ".join([*progress(board), *rates(board)]))}</p>',
        board_table(board)._repr_html_() if board.rows else "",
        _list("Evidence", board.evidence),
        _list("Next", [f"{step['what']}: {step['command']}" for step in board.next]),
    ]
    return f'<div class="kit-board">{STYLE}{"".join(parts)}</div>'


def _list(heading: str, items: list[str]) -> str:
    if not items:
        return ""
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<p style="margin:6px 0 0"><b>{heading}</b></p><ul style="margin:0">{entries}</ul>'


class BoardView:
    """A view of boards that come one after the other: a widget where there is ipywidgets, and always a static table.

    `update`, `failed` and `ended` may be called from any thread: the drawing is done by the loop that the view was made in.

    Parameters
    ----------
    title : str
    stop : callable
        Is called when the button is pressed.
    """

    def __init__(self, title: str, stop: Callable[[], None]):
        self.title, self.board, self.note, self.is_over = title, None, "", False
        self._handle, self._loop = None, _loop()
        self.widget = self._make(stop)

    def _make(self, stop: Callable[[], None]):
        try:
            from ipywidgets import HTML, Button, VBox
        except ImportError:
            return None
        self._page, self._button = HTML(self.html), Button(description="Stop", icon="stop")
        self._button.on_click(lambda button: stop())
        return VBox([self._page, self._button])

    @property
    def html(self) -> str:
        """The view as it is now."""
        return board_html(self.board, self.title, self.note)

    def update(self, board: Board) -> None:
        """Show another board."""
        self.board = board
        self._draw()

    def failed(self, error: Exception) -> None:
        """Show what went wrong."""
        self.note = f"{type(error).__name__}: {error}"
        self._draw()

    def ended(self, said: str) -> None:
        """Show that no more will come."""
        self.is_over = True
        self.note = "; ".join(word for word in (self.note, f"ended, {said}") if word)
        self._draw()

    def _draw(self) -> None:
        """Draw on the loop of the kernel: widgets are not to be touched by two threads at once."""
        if self._loop is None or self._loop.is_closed():
            self._draw_now()
        else:
            self._loop.call_soon_threadsafe(self._draw_now)

    def _draw_now(self) -> None:
        if self.widget is not None:
            self._page.value = self.html
            if self.is_over:
                self._button.disabled = True
        if self._handle is not None:  # what a saved or exported notebook shows
            self._handle.update(self._repr_mimebundle_(), raw=True)

    def __repr__(self) -> str:
        return f"watch of {self.title}" + (f": {self.board.state}, {self.board.klass}" if self.board else "")

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self.html}
        if self.widget is not None:
            live = self.widget._repr_mimebundle_()
            live = live[0] if isinstance(live, tuple) else live
            bundle = {**(live or {}), **bundle}
        return bundle

    def _ipython_display_(self) -> None:
        display = sys.modules["IPython.display"].display  # it is IPython that calls
        self._handle = display(self._repr_mimebundle_(), raw=True, display_id=True)


def _loop() -> asyncio.AbstractEventLoop | None:
    """The loop of the kernel that runs the cell, None in a plain interpreter."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
