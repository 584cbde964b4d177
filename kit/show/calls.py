"""What system calls tell, as one page that needs no network."""

from __future__ import annotations

from pathlib import Path

from kit.analyse.calls.study import Calls
from kit.document import html, scrubbed
from kit.errors import KitError
from kit.show.explorer.page import page


def write(calls: Calls, path: str | Path) -> Path:
    """Write what `kit.calls` found as one HTML file.

    Raises
    ------
    KitError
        Where the file cannot be written.
    """
    written = Path(path)
    try:
        written.write_text(page(html.render(scrubbed(calls.document())), f"system calls of {calls.name}"), encoding="utf-8")
    except OSError as error:
        raise KitError(f"cannot write {path}", error.strerror or str(error), "choose another place with --html") from error
    return written
