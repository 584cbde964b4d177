"""The report: the post-mortem notebook of a run, executed and exported as one HTML file that needs no network."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kit.errors import TROUBLE, EvidenceError, KitError
from kit.folder import write_whole

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from kit.run import Run

NOTEBOOK, COMPARISON = "01_postmortem.ipynb", "02_compare_runs.ipynb"
TEMPLATES = Path(__file__).resolve().parent / "templates"
_SECTION = re.compile(r"^## (.+?)\s*$", re.MULTILINE)


def report(
    path: str | Path,
    out: str | Path = "report.html",
    *,
    captured_at: str | None = None,
    notebook: str | Path | None = None,
    against: Sequence[str | Path] = (),
    knowledge: str | Path | Sequence[str | Path] | None = None,
    at: str | None = None,
) -> Path:
    """Write the post-mortem of a run as one self-contained HTML file.

    The notebook runs with the interpreter that calls. Secrets are scrubbed from everything that it shows; figures keep
    their alternative text; code is folded away; the file loads nothing from anywhere and runs no script.

    Parameters
    ----------
    path, captured_at, knowledge, at
        As for `kit.open_run`; with `at`, facts, tables and figures hold nothing of after that moment.
    out : str or path
        File to write; its folder is made where it is missing.
    notebook : str or path, optional
        Another notebook than the post-mortem, with a cell tagged `parameters` that sets `run_path`, `captured_at`, `knowledge`.
    against : sequence of str or path, optional
        Launches to hold the run against, say one that worked: the comparison follows the post-mortem.

    Raises
    ------
    EvidenceError
        Where the run does not open, or the file cannot be written.
    KitError
        Where a cell failed (code 1): the report is written all the same, with the error where the cell's output would
        be. Also where the kernel does not start (code 3).

    Examples
    --------
    >>> import kit
    >>> from kit.render.report import report
    >>> report(kit.sample_path("sg01-capture-hang"), "out/report.html")  # doctest: +SKIP
    PosixPath('out/report.html')
    """
    from kit.open import open_run
    from kit.render.notebook import notebook_path

    run, others = open_run(path, captured_at, knowledge, at), [open_run(one, None, knowledge) for one in against]
    book = Path(notebook) if notebook is not None else notebook_path(NOTEBOOK)
    executed, failures = _executed(book, run, others, captured_at, at)
    out = _write(Path(out), _html(executed, run, len(failures)))
    if failures:
        raise KitError(
            f"{len(failures)} cell{'' if len(failures) == 1 else 's'} of the report failed",
            failures[0][:300],
            f"the report is written all the same: {out}",
            code=TROUBLE,
        )
    return out


def _executed(book: Path, run: Run, others: list[Run], captured_at: str | None, at: str | None) -> tuple[NotebookNode, list[str]]:
    """The notebook with its outputs, scrubbed, and what failed in it."""
    import nbformat

    from kit.analyse.verdict.good_run import good_run
    from kit.analyse.verdict.scene import scene_of_run
    from kit.render.notebook import execute, notebook_path, scrub, with_parameters

    known = list(map(str, run.knowledge)) or None
    values = {"run_path": str(run.path.resolve()), "captured_at": captured_at, "knowledge": known, "at": at}
    values["against"] = str(others[0].path.resolve()) if others and good_run(scene_of_run(others[0])) else None
    executed = with_parameters(nbformat.read(book, as_version=4), values)
    if book == notebook_path(NOTEBOOK):  # the page has a title and says what it is: the verdict comes first
        executed.cells[0].source = "## " + executed.cells[0].source.partition("\n\n## ")[2]
    if others:
        executed.cells += _comparison([*others, run], [None] * len(others) + [captured_at], known)
    failures = execute(executed, book.resolve().parent)
    scrub(executed, _scrubber(run, *others))
    return executed, failures


def _comparison(runs: list[Run], captured_at: list[str | None], knowledge: list[str] | None) -> list[NotebookNode]:
    """Cells of the comparison of runs, the one that the report is about last."""
    import nbformat

    from kit.render.notebook import notebook_path, with_parameters

    values = {"runs": [str(run.path.resolve()) for run in runs], "captured_at": captured_at, "knowledge": knowledge}
    cells = with_parameters(nbformat.read(notebook_path(COMPARISON), as_version=4), values).cells
    for number, cell in enumerate(cells):
        cell["id"] = f"compare-{number:02d}"  # the post-mortem numbers its cells too
    return cells


def _scrubber(*runs: Run) -> Callable[[str], str]:
    """What is replaced in every text: secrets, and the places where the runs lie on this machine."""
    from kit.redact import scrub_text

    places = {str(run.path.resolve()): run.name for run in runs}
    places |= {str(folder): folder.name for run in runs for folder in run.knowledge}

    def replace(text: str) -> str:
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return scrub_text(text)

    return replace


def _html(executed: NotebookNode, run: Run, failures: int) -> str:
    from nbconvert import HTMLExporter

    from kit import __version__
    from kit.clock import show_time

    exporter = HTMLExporter(
        template_name="stallkit", extra_template_basedirs=[str(TEMPLATES)], mathjax_url="", require_js_url="", anchor_link_text=""
    )
    titles = [title for cell in executed.cells if cell.cell_type == "markdown" for title in _SECTION.findall(cell.source)]
    about = (
        f"Post-mortem of a launch, evidence as of {show_time(run.captured_ns, run.offset_s)}"
        f"{'' if run.offset_known else ' (time zone not known)'}, {len(run.captures)} captures. Made with stallkit {__version__}."
    )
    resources = {
        "metadata": {"name": run.name},
        "report": {
            "name": run.name,
            "about": about,
            "failures": failures,
            "css": (TEMPLATES / "stallkit" / "style.css").read_text(encoding="utf-8"),
            "sections": [{"title": title, "id": title.replace(" ", "-")} for title in titles],
        },
    }
    html, _ = exporter.from_notebook_node(executed, resources)
    return html


def _write(out: Path, html: str) -> Path:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, html, shared=True)
    except OSError as error:
        raise EvidenceError(
            f"cannot write {out}", error.strerror or str(error), "name a file that can be written: -o report.html"
        ) from error
    return out
