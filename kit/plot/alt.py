"""Alternative text of figures: what somebody reads who does not see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_alt(figure: Figure, text: str | None = None) -> str:
    """Set or get the alternative text of a figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    text : str, optional
        The text to keep with it. Without it the figure is left as it is.

    Returns
    -------
    str
        The text that the figure carries now; empty where it has none.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> _ = figure_alt(figure, "Memory of 8 processes.")
    >>> figure_alt(figure)
    'Memory of 8 processes.'
    """
    if text is not None:
        vars(figure)["kit_alt"] = text
    return getattr(figure, "kit_alt", "")
