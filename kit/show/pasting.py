"""A text area for evidence that is pasted: judged as a file of it would be."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from kit.redact import scrub_text

if TYPE_CHECKING:
    from kit.analyse.verdict.verdict import Verdict
    from kit.run import Run

_KEPT: dict[str, str] = {}
"""What was pasted last, by name: a cell that runs again keeps it."""
EMPTY = "paste a log, a terminal copy or a ticket above, then press Judge"


class Paste:
    """Pasted evidence. Make it with `paste`.

    Attributes
    ----------
    text : str
        What was pasted.
    """

    def __init__(self, name: str, captured_at: str | None):
        self.name, self.captured_at = name, captured_at
        self.text = _KEPT.get(name, "")
        self.widget = self._area()

    def _area(self):
        try:
            from ipywidgets import Button, Layout, Output, Textarea, VBox
        except ImportError:
            return None
        area = Textarea(value=self.text, placeholder=EMPTY, layout=Layout(width="100%", height="14em"))
        button, output = Button(description="Judge", button_style="primary"), Output()

        def judge(_) -> None:
            self.take(area.value)
            output.clear_output()
            with output:  # an error of a callback is lost anywhere else
                output.append_display_data(self.verdict())

        button.on_click(judge)
        return VBox([area, button, output])

    def take(self, text: str) -> None:
        """Take a text in place of the one before, as the button does."""
        self.text = _KEPT[self.name] = text

    @property
    def run(self) -> Run:
        """The pasted text as a run; secrets are masked before it touches the disk."""
        from kit.open import open_run

        base = Path(tempfile.mkdtemp(prefix="stallkit-"))
        atexit.register(shutil.rmtree, base, ignore_errors=True)
        folder = base / self.name
        folder.mkdir()
        (folder / "paste.txt").write_text(scrub_text(self.text), encoding="utf-8")
        return open_run(folder, self.captured_at)

    def verdict(self) -> Verdict:
        """Judge what was pasted."""
        from kit.analyse.verdict.verdict import verdict

        return verdict(self.run)

    def __repr__(self) -> str:
        return f"{self.name}: {len(self.text.splitlines())} pasted lines" if self.text else EMPTY

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        shown = self.verdict()._repr_html_() if self.text.strip() else f"<p>{escape(EMPTY)}</p>"
        bundle = {"text/plain": repr(self), "text/html": shown}
        if self.widget is not None:
            live = self.widget._repr_mimebundle_()
            bundle = {**((live[0] if isinstance(live, tuple) else live) or {}), **bundle}
        return bundle


def paste(text: str = "", name: str = "paste", captured_at: str | None = None) -> Paste:
    """Offer a text area for pasted evidence; a cell below reads `.run` or `.verdict()`.

    Parameters
    ----------
    text : str
        Evidence to begin with; what was pasted last under this name is kept where it is empty.
    name : str
        Name of the run that it becomes.
    captured_at : str, optional
        When it was taken, local time of the host.

    Returns
    -------
    Paste

    Examples
    --------
    >>> paste("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB").verdict().phase
    'weights'
    """
    found = Paste(name, captured_at)
    if text:
        found.take(text)
    return found
