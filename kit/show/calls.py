"""What system calls tell, as figures and as one page that needs no network."""

from __future__ import annotations

from pathlib import Path

from kit import plot
from kit.analyse.calls.study import Calls
from kit.document import html, scrubbed
from kit.errors import KitError
from kit.show.explorer.page import page
from kit.show.images import Image, figure

FIGURES = (
    *("wait_graph", "partings", "blocked_calls", "loops", "call_rates", "time_budget", "unread_bytes", "file_bytes"),
    *("call_errors", "process_tree", "descriptors"),
)
"""Names of the plots, in the order in which a page shows them."""


def figures(calls: Calls) -> list[Image]:
    """All figures of a trace that have something to draw.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> figures(kit.calls(FRAMES["syscalls"].empty()))
    []
    """
    drawn = (getattr(plot, f"plot_{name}")(calls) for name in FIGURES)
    return [figure(axes) for axes in drawn if axes.has_data() or axes.patches or len(axes.texts) > 1]


def write(calls: Calls, path: str | Path) -> Path:
    """Write what `kit.calls` found as one HTML file.

    Raises
    ------
    KitError
        Where the file cannot be written.
    """
    written = Path(path)
    shown = [html.render(scrubbed(calls.document())), *(image._repr_html_() for image in figures(calls))]
    try:
        written.write_text(page("".join(shown), f"system calls of {calls.name}"), encoding="utf-8")
    except OSError as error:
        raise KitError(f"cannot write {path}", error.strerror or str(error), "choose another place with --html") from error
    return written
