"""Figures of a notebook, with their alternative text, in the colours of its theme."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.show import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A drawn figure: what a notebook cell shows.

    Attributes
    ----------
    html : str
        The picture, as SVG with its caption.
    alt : str
        Its alternative text.
    """

    html: str
    alt: str

    def _repr_html_(self) -> str:
        return f"<div style='{svg.NOTEBOOK_COLOURS}'>{self.html}</div>"

    def __repr__(self) -> str:
        return f"figure: {self.alt}"


def figure(drawn: Figure | Axes, alt: str | None = None, *, caption: str = "") -> Drawing:
    """Show a figure with its alternative text, which an exported report keeps; it follows a dark theme.

    Parameters
    ----------
    drawn : matplotlib.figure.Figure or matplotlib.axes.Axes
        What a plot function gave.
    alt : str, optional
        Alternative text; the one that the figure carries (`kit.plot.figure_alt`) without it.
    caption : str
        How to read it, one sentence.

    Returns
    -------
    Drawing
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

    whole = drawn.get_figure(root=True)
    text = alt or (figure_alt(whole) if whole is not None else "")
    if whole is None or not text:
        raise ValueError("the figure carries no alternative text: give alt=, or set it with kit.plot.figure_alt(figure, text)")
    html = svg.figure(whole, caption, text)
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(whole)
    return Drawing(html, text)
