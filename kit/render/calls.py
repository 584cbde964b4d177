"""What system calls tell, as one page that needs no network: the answer, what is behind it, the figures."""

from __future__ import annotations

from pathlib import Path

from kit import plot
from kit.analyse.calls.study import Calls
from kit.document import scrubbed
from kit.redact import scrub_text
from kit.render import page, report
from kit.render.notebook import replaced
from kit.show import svg

FIGURES = (
    *("wait_graph", "partings", "blocked_calls", "loops", "call_rates", "time_budget", "unread_bytes", "file_bytes"),
    *("call_errors", "process_tree", "descriptors"),
)
"""Names of the plots, in the order in which a page shows them."""


def figures(calls: Calls) -> list[str]:
    """All figures of a trace that have something to draw, as HTML.

    Examples
    --------
    >>> import kit
    >>> from kit.frames import FRAMES
    >>> figures(kit.calls(FRAMES["syscalls"].empty()))
    []
    """
    drawn = (getattr(plot, f"plot_{name}")(calls) for name in FIGURES)
    return [svg.figure(axes) for axes in drawn if axes.has_data() or axes.patches or len(axes.texts) > 1]


def write(calls: Calls, path: str | Path) -> Path:
    """Write what `kit.calls` found as one HTML file.

    Raises
    ------
    UsageError, EvidenceError
        Where the name of the file is not that of a page; where it cannot be written.
    """
    out = report.checked(Path(path), report.PAGE, "HTML")
    found = scrubbed(calls.document())
    lead = f"<header><p class='name'>{page.escape(found.subtitle)}</p><h1>{page.escape(found.title)}</h1></header>"
    parts = [
        page.Part("why", "Why", page.sections(found.shown)),
        page.Part("figures", "Figures", "".join(replaced(one, scrub_text) for one in figures(calls))),
    ]
    name = scrub_text(f"system calls of {calls.name}")
    return report.write(out, page.page(name, lead, [one for one in parts if one.html], found.tone))
