"""Figures as inline SVG in the ink and paper of the page, so that they follow dark mode; a narrow page scrolls them sideways."""

from __future__ import annotations

import re
from io import StringIO
from math import ceil
from typing import TYPE_CHECKING

from kit.document.html import AS_IT_IS, escape
from kit.plot import figure_alt
from kit.plot.style import FONT_PT, INK, STALL_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEMED = {INK.lower(): "--ink", "#ffffff": "--paper", "#e9ecef": "--grid", STALL_COLOUR.lower(): "--stall"}
"""Colours of the figures, as matplotlib writes them, that a page may replace by its own; those that carry meaning stay."""
NOTEBOOK_COLOURS = (
    "--ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,#222));"
    "--paper:var(--jp-layout-color0,var(--vscode-editor-background,#fff));--grid:var(--jp-border-color3,#e9ecef);"
    "--stall:color-mix(in srgb,#e07a3c 20%,var(--paper));--least:45rem"
)
"""What figures take from the theme of JupyterLab or VS Code; in its narrow cells they shrink, so that their legends are seen."""
MOST_BYTES = 400_000
"""In a larger drawing the marks are a picture below the text: a browser is slow with tens of thousands of paths."""
DPI = 200
"""Of such pictures: twice what a screen shows at the width of a page."""
LEAST_PX = 11
"""Smallest type that is read without effort: a figure is never drawn narrower than that takes."""
_COLOUR = re.compile("|".join(THEMED))
_INDENT = re.compile(r"(?<=>) +(?=[^\s<])")
_ID = re.compile(r' id="([^"]+)"')
_USED = re.compile(r'#([\w.-]+)[")]')
_HEAD = re.compile(r"^.*?<svg [^>]*?viewBox=\"(?P<box>[^\"]+)\"[^>]*>\s*(?:<metadata>.*?</metadata>)?", re.DOTALL)


def figure(drawn: Figure | Axes, caption: str = "", alt: str = "") -> str:
    """A drawn figure as a `figure` element with its alternative text.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> from kit.plot import plot_memory
    >>> shown = figure(plot_memory(FRAMES["processes"].empty()), "Ranks look alike.")
    >>> shown[-63:], "var(--ink, #222222)" in shown
    ('</svg></div><figcaption>Ranks look alike.</figcaption></figure>', True)
    """
    whole = drawn.get_figure(root=True)
    if whole is None:
        raise ValueError("these axes belong to no figure")
    alt = escape(alt or figure_alt(whole) or caption)
    drawing = _written(whole, alt)
    if len(drawing) > MOST_BYTES:
        marks = [one for ax in whole.axes for one in (*ax.collections, *ax.patches, *ax.lines) if not one.get_rasterized()]
        for mark in marks:
            mark.set_rasterized(True)
        drawing = _written(whole, alt)
        for mark in marks:
            mark.set_rasterized(False)
    region = "class='kit-figure' tabindex='0' role='group' aria-label='figure' style='overflow-x:auto'"
    shown = f"<div {region}>{_inline(drawing, alt)}</div>"
    return f"<figure class='{AS_IT_IS}'>{shown}{f'<figcaption>{escape(caption)}</figcaption>' if caption else ''}</figure>"


def _written(whole: Figure, salt: str) -> str:
    """What matplotlib writes of a figure as SVG."""
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt, "path.simplify": True}):
        whole.savefig(file, format="svg", facecolor="none", dpi=DPI, metadata={"Date": None})
    return file.getvalue()


def _inline(svg: str, alt: str) -> str:
    """A file of SVG as an element: sized by the page, in its colours, with no name that another figure has too."""
    head = _HEAD.match(svg)
    if head is None:
        raise ValueError("matplotlib wrote an SVG without a viewBox")
    body = svg[head.end() :].strip()
    used = set(_USED.findall(body))
    body = _ID.sub(lambda found: found[0] if found[1] in used else "", body)
    body = _INDENT.sub(lambda found: "\u00a0" * len(found[0]), body)
    body = _COLOUR.sub(lambda found: f"var({THEMED[found[0]]}, {found[0]})", body)
    least = ceil(float(head["box"].split()[2]) * LEAST_PX / (FONT_PT - 1))
    style = f"min-width:var(--least,{least}px);fill:var(--ink, {INK})"
    return f'<svg class="figure" role="img" aria-label="{alt}" viewBox="{head["box"]}" style="{style}">{body}'
