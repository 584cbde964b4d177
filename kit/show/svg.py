"""Figures as inline SVG in the ink and paper of the page, so that they follow dark mode; large ones as PNG at twice the size."""

from __future__ import annotations

import re
from base64 import b64encode
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from kit.document.html import escape
from kit.plot import figure_alt
from kit.plot.style import INK, STALL_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEMED = {INK.lower(): "--ink", "#ffffff": "--paper", "#e9ecef": "--grid", STALL_COLOUR.lower(): "--stall"}
"""Colours of the figures, as matplotlib writes them, that a page may replace by its own; those that carry meaning stay."""
MOST_BYTES = 400_000
"""A larger drawing is a picture: a browser is slow with tens of thousands of paths."""
PNG_DPI = 200
"""Twice what a screen shows at the width of a page."""
_COLOUR = re.compile("|".join(THEMED))
_ID = re.compile(r' id="([^"]+)"')
_USED = re.compile(r'#([\w.-]+)[")]')
_HEAD = re.compile(r"^.*?<svg [^>]*?viewBox=\"(?P<box>[^\"]+)\"[^>]*>\s*(?:<metadata>.*?</metadata>)?", re.DOTALL)


def figure(drawn: Figure | Axes, caption: str = "") -> str:
    """A drawn figure as a `figure` element with its alternative text.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> from kit.plot import plot_memory
    >>> shown = figure(plot_memory(FRAMES["processes"].empty()), "Ranks look alike.")
    >>> shown[:36], shown[-57:], "var(--ink, #222222)" in shown
    ('<figure><svg class="figure" role="im', '</svg><figcaption>Ranks look alike.</figcaption></figure>', True)
    """
    from matplotlib import rc_context

    whole = drawn.get_figure(root=True)
    if whole is None:
        raise ValueError("these axes belong to no figure")
    alt = escape(figure_alt(whole) or caption)
    file = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": alt, "path.simplify": True}):
        whole.savefig(file, format="svg", facecolor="none", metadata={"Date": None})
    if len(file.getvalue()) > MOST_BYTES:
        picture = BytesIO()
        whole.savefig(picture, format="png", dpi=PNG_DPI, facecolor="white")
        shown = f'<img alt="{alt}" src="data:image/png;base64,{b64encode(picture.getvalue()).decode()}">'
    else:
        shown = _inline(file.getvalue(), alt)
    return f"<figure>{shown}{f'<figcaption>{escape(caption)}</figcaption>' if caption else ''}</figure>"


def _inline(svg: str, alt: str) -> str:
    """A file of SVG as an element: sized by the page, in its colours, with no name that another figure has too."""
    head = _HEAD.match(svg)
    if head is None:
        raise ValueError("matplotlib wrote an SVG without a viewBox")
    body = svg[head.end() :].strip()
    used = set(_USED.findall(body))
    body = _ID.sub(lambda found: found[0] if found[1] in used else "", body)
    body = _COLOUR.sub(lambda found: f"var({THEMED[found[0]]}, {found[0]})", body)
    return f'<svg class="figure" role="img" aria-label="{alt}" viewBox="{head["box"]}">{body}'
