"""Figures as HTML that keeps their alternative text."""

from __future__ import annotations

import sys
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

from kit.document.html import AS_IT_IS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
"""Sharp at the width that the report gives a figure, and about 200 kB for a full timeline."""


@dataclass(frozen=True)
class Image:
    """A drawn figure: what a notebook cell shows.

    Attributes
    ----------
    png : bytes
        The picture.
    alt : str
        Its alternative text.
    caption : str
        Sentence below it.
    """

    png: bytes
    alt: str
    caption: str = ""

    def _repr_html_(self) -> str:
        data = b64encode(self.png).decode("ascii")
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure class="{AS_IT_IS}" style="margin:0">'
            f'<img alt="{escape(self.alt)}" style="max-width:100%" src="data:image/png;base64,{data}">'
            f"{caption}</figure>"
        )

    def __repr__(self) -> str:
        return f"figure: {self.alt}"


def figure(drawn: Figure | Axes, alt: str | None = None, *, caption: str = "", dpi: int = DPI) -> Image:
    """Show a figure with its alternative text, which an exported report keeps.

    Parameters
    ----------
    drawn : matplotlib.figure.Figure or matplotlib.axes.Axes
        What a plot function gave.
    alt : str, optional
        Alternative text; the one that the figure carries (`kit.plot.figure_alt`) without it.
    caption : str
        How to read it, one sentence.
    dpi : int
        Dots per inch.

    Returns
    -------
    Image
        Last value of a cell. A figure of pyplot is closed, so that it is not shown twice.

    Raises
    ------
    ValueError
        Where there is no alternative text: a figure without one tells nothing to who does not see it.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> from kit.plot import plot_memory
    >>> figure(plot_memory(FRAMES["processes"].empty()))
    figure: Memory: no sample holds resident memory. /proc/PID/status, ps or a recording with `kit collect` would show it.
    """
    from kit.plot import figure_alt

    whole: Any = drawn if hasattr(drawn, "savefig") else drawn.figure
    text = alt or figure_alt(whole)
    if not text:
        raise ValueError("the figure carries no alternative text: give alt=, or set it with kit.plot.figure_alt(figure, text)")
    file = BytesIO()
    whole.savefig(file, format="png", dpi=dpi, facecolor="white")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(whole)
    return Image(file.getvalue(), text, caption)
