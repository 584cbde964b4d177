"""One look for every figure: the palette, the colours of phases, thread states and record kinds, the bare axes.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), which the common forms of colour blindness keep
apart. Where more hues are needed a lighter shade of the neighbour's is taken, and words in the figure carry the meaning
besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE, INK, ON_COLOUR = "#999999", "#D9DEE3", "#222222", "#111111"
"""INK stands on paper and turns light in a dark page; ON_COLOUR stands on a colour and stays."""

SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, "#8C6D1F", "#5F5F5F")
"""Colours of processes and calls, in order of appearance."""

PHASE_COLOUR = {
    "launch": "#BBBBBB",
    "download": SKY,
    "dist_init": "#7FA8D1",
    "weights": ORANGE,
    "post_load": "#F3CF80",
    "compile": PURPLE,
    "graph_capture": "#E0875A",
    "warmup": "#8FD0BC",
    "ready": GREEN,
    "serving": "#00755A",
    "data_prep": YELLOW,
    "train_step": GREEN,
}
"""Fixed, so that a phase looks the same in every figure. `ready` and `train_step` mean the same: it works."""

STATE_COLOUR = {
    "S": PALE,
    "I": "#EEF0F2",
    "R": GREEN,
    "D": VERMILION,
    "T": PURPLE,
    "t": "#8E5A7C",
    "Z": "#8C6D1F",
    "X": "#5F5F5F",
}
STATE_NAME = {
    "S": "sleeping",
    "I": "idle kernel thread",
    "R": "running",
    "D": "uninterruptible",
    "T": "stopped",
    "t": "stopped by a tracer",
    "Z": "zombie",
    "X": "dead",
}
OTHER_STATE = "?"
STATE_COLOUR[OTHER_STATE], STATE_NAME[OTHER_STATE] = YELLOW, "unknown"
STATE_PAINT = {**STATE_COLOUR, "S": "#8C9BAA55", "I": "#8C9BAA2A"}
"""The same for figures: sleepers let the page through, light or dark, since a page cannot give a raster other colours."""

KIND_COLOUR = {
    "progress": BLUE,
    "request": GREEN,
    "symptom": ORANGE,
    "error": VERMILION,
    "other": GREY,
    "noise": PALE,
    "heartbeat": PURPLE,
}
"""Kinds of log records, heartbeats last: they are drawn apart."""

STALL_COLOUR = "#FBE3D6"
WIDTH_IN = 10.5
FONT_PT = 8.5
EMPTY_IN = 0.5
"""Height of a figure that only says why it is empty."""


def new_figure(height_in: float) -> Figure:
    """Return an empty figure that no global registry holds, so none can leak.

    Examples
    --------
    >>> float(new_figure(2.0).get_figheight())
    2.0
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained", facecolor="white")


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


def begin(ax: Axes | None, height_in: float, describe: Callable[[], str], drawn: bool = True) -> tuple[Axes, bool]:
    """Return the caller's axes, or those of a new figure with its alternative text; and whether the figure is new.

    Where nothing is `drawn`, the alternative text says why, and is written into the axes.
    """
    new = ax is None
    if ax is None:
        figure = new_figure(height_in if drawn else EMPTY_IN)
        figure_alt(figure, describe())
        ax = figure.add_subplot()
    if not drawn:
        say_empty(ax, describe())
    return ax, new


def dress(ax: Axes, title: str = "", *, x_label: str = "", y_label: str = "") -> Axes:
    """Give axes the look of the kit: no box, a pale grid, small type, the title at the left."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    ax.set_facecolor("white")
    ax.grid(axis="both", color="#E9ECEF", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=FONT_PT, color=GREY, labelcolor=INK)
    if title:
        ax.set_title(title, fontsize=FONT_PT + 0.5, loc="left", color=INK)
    if x_label:
        ax.set_xlabel(x_label, fontsize=FONT_PT, color=INK)
    if y_label:
        ax.set_ylabel(y_label, fontsize=FONT_PT, color=INK)
    return ax


def say_empty(ax: Axes, *sentences: str) -> Axes:
    """Write what there is to say where nothing is to be drawn, instead of an empty box."""
    from textwrap import fill

    ax.set_axis_off()
    text = "\n".join(fill(sentence, 130) for sentence in sentences)
    ax.text(0, 0.5, text, transform=ax.transAxes, fontsize=FONT_PT, color=INK, va="center", parse_math=False)
    return ax


def note(ax: Axes, text: str, x: float, y: float) -> None:
    """Write a remark to the left of a point, above the lines."""
    small = FONT_PT - 1
    ax.annotate(plain(text), (x, y), (-4, 5), textcoords="offset points", fontsize=small, color=INK, ha="right", zorder=5)


def patches(colours: Mapping[str, str]) -> list[Patch]:
    """Legend handles: a patch a label."""
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=plain(label)) for label, colour in colours.items()]


def legend_beside(ax: Axes, handles: list, *, title: str = "") -> None:
    """Put a compact legend into the gutter at the right of the axes, where it hides no data."""
    if handles:
        ax.legend(
            handles=handles,
            title=title or None,
            loc="upper left",
            bbox_to_anchor=(1.003, 1.02),
            frameon=False,
            fontsize=FONT_PT - 1,
            title_fontsize=FONT_PT - 1,
            borderaxespad=0,
            handlelength=1.4,
            labelspacing=0.25,
        )


def bytes_unit(largest: float) -> tuple[float, str]:
    """Return the divisor and the name of the unit that suits a number of bytes.

    Examples
    --------
    >>> bytes_unit(407 * 2**30)
    (1073741824.0, 'GiB')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if largest >= 2.0**power:
            return 2.0**power, unit
    return 2.0**10, "KiB"


def human_bytes(value: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> human_bytes(407 * 2**30), human_bytes(5 * 2**20)
    ('407 GiB', '5.0 MiB')
    """
    divisor, unit = bytes_unit(value)
    return f"{value / divisor:,.{1 if value < 100 * divisor else 0}f} {unit}"


def plain(text: str) -> str:
    """Return text as matplotlib must be given it to draw it as it stands: a dollar sign begins no formula.

    Examples
    --------
    >>> plain("a $x$")
    'a \\\\$x\\\\$'
    """
    return text.replace("$", "\\$")
