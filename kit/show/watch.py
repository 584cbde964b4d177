"""The status in a notebook: redrawn while a launch is watched; an export keeps the last one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from kit.analyse.verdict.live_status import Status
from kit.document import Document, html
from kit.show import status


class StatusView:
    """A view of one status after the other: a widget where there is ipywidgets, and always a static table.

    `update`, `failed` and `ended` may be called from any thread: the drawing is done by the loop that the view was made in.

    Parameters
    ----------
    title : str
    stop : callable
        Is called when the button is pressed.
    """

    def __init__(self, title: str, stop: Callable[[], None]):
        self.title, self.note, self.is_over = title, "", False
        self.board: Status | None = None
        self._handle, self._loop = None, kernel_loop()
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
        note = " · ".join(word for word in (self.title, self.note) if word)
        if self.board is None:
            return html.render(Document("waiting for the first samples", subtitle=note))
        return html.render(status.document(self.board, self.note))

    def update(self, board: Status) -> None:
        """Show another status."""
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
        on_loop(self._loop, self._draw_now)

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


def on_loop(loop: asyncio.AbstractEventLoop | None, act: Callable[[], None]) -> None:
    """Act on the loop of the kernel, or at once where there is none: widgets are not to be touched by two threads at once."""
    if loop is None or loop.is_closed():
        act()
    else:
        loop.call_soon_threadsafe(act)


def kernel_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of the kernel that runs the cell, None in a plain interpreter."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
