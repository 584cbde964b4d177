"""The report: the post-mortem of a run as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kit.errors import EvidenceError, UsageError
from kit.folder import write_whole

if TYPE_CHECKING:
    from kit.run import Run

PAGE = (".html", ".htm")
"""What the name of a report may end in; the name of a device has no end."""
TEXT = (".md", ".markdown", ".txt")


def report(
    path: str | Path,
    out: str | Path | None = None,
    *,
    captured_at: str | None = None,
    against: Sequence[str | Path] = (),
    knowledge: str | Path | Sequence[str | Path] | None = None,
    at: str | None = None,
    notebook: bool = False,
    step: Callable[[str], None] = lambda what: None,
) -> Path:
    """Write the post-mortem of a run as one self-contained HTML file.

    Secrets are masked in everything that it shows. The page loads nothing from anywhere; its own two scripts (the explorer,
    and what copies and sorts) run by hash. In print and without scripts still figures stand in their place.

    Parameters
    ----------
    path, captured_at, knowledge, at
        As for `kit.open_run`; with `at`, facts, tables and figures hold nothing of after that moment.
    out : str or path
        File to write, `report.html` without it; its folder is made where it is missing. Checked before anything is read.
    against : sequence of str or path, optional
        Launches to hold the run against, say one that worked: the report is of these runs alone.
    notebook : bool
        Also write the post-mortem as an executed notebook beside it, to go on working in.
    step : callable
        Is told what is done next.

    Raises
    ------
    UsageError
        Where the name of the file is not that of a page.
    EvidenceError
        Where the run does not open, or the file cannot be written.

    Examples
    --------
    >>> import kit
    >>> from kit.render.report import report
    >>> report(kit.sample_path("sg01-capture-hang"), "out/report.html")  # doctest: +SKIP
    PosixPath('out/report.html')
    """
    out = checked(Path(out or "report.html"), PAGE, "HTML")
    found = postmortem(path, captured_at, against, knowledge, at, step)
    html = found.html()
    out = write(out, html)
    if notebook:
        from kit.render.notebook import postmortem_notebook

        step("running the notebook")
        values: dict = {"run_path": str(found.run.path.resolve()), "captured_at": captured_at, "at": at}
        values |= {"knowledge": list(map(str, found.run.knowledge)) or None}
        values |= {"against": str(found.good.path.resolve()) if found.good else None}
        postmortem_notebook(values, out.with_suffix(".ipynb"))
    return out


def markdown(
    path: str | Path,
    *,
    captured_at: str | None = None,
    against: Sequence[str | Path] = (),
    knowledge: str | Path | Sequence[str | Path] | None = None,
    at: str | None = None,
    brief: bool = False,
) -> str:
    """The post-mortem as Markdown for a ticket; `brief` for a chat. Parameters as for `report`."""
    from kit.document import markdown as form

    found = postmortem(path, captured_at, against, knowledge, at)
    return found.clean(form.render(found.document(brief)))


def postmortem(
    path: str | Path,
    captured_at: str | None = None,
    against: Sequence[str | Path] = (),
    knowledge: str | Path | Sequence[str | Path] | None = None,
    at: str | None = None,
    step: Callable[[str], None] = lambda what: None,
):
    """Open what a report is of."""
    from kit.analyse.verdict.good_run import good_run
    from kit.analyse.verdict.scene import scene_of_run
    from kit.open import open_run
    from kit.render.postmortem import Postmortem

    step("reading")
    run, others = open_run(path, captured_at, knowledge, at), [open_run(one, None, knowledge) for one in against]
    good = next((one for one in others if good_run(scene_of_run(one))), None)
    return Postmortem(run, others, good, step, scrubber(run, *others))


def scrubber(*runs: Run) -> Callable[[str], str]:
    """What is replaced in every text: secrets, and the places where the runs lie on this machine."""
    from kit.redact import scrub_text

    places = {str(run.path.resolve()): run.name for run in runs}
    places |= {str(folder): folder.name for run in runs for folder in run.knowledge}

    def replace(text: str) -> str:
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return scrub_text(text)

    return replace


def checked(out: Path, endings: Sequence[str], what: str) -> Path:
    """The file to write; refused here, before anything is read, where it cannot be written or its name promises another form.

    Examples
    --------
    >>> checked(Path("report.pdf"), PAGE, "HTML")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    kit.errors.UsageError: report.pdf: a report is HTML, not PDF: ... --print-to-pdf=report.pdf report.html
    """
    device = out.exists() and not out.is_file() and not out.is_dir()  # /dev/stdout
    if not device and not out.is_dir() and out.suffix.lower() not in endings:
        wanted = out.with_suffix(endings[0])
        form = out.suffix.lstrip(".").upper()
        pdf = f"; to print it: chromium --headless --print-to-pdf={out} {wanted}" if form == "PDF" else ""
        raise UsageError(
            f"{out}: a report is {what}{f', not {form}' if form else ''}",
            "the name promises another form than the file would have" if form else f"the name does not end in {endings[0]}",
            f"-o {wanted}{pdf}",
        )
    why = "it is a folder" if out.is_dir() else "" if device else _unwritable(out)
    if why:
        raise EvidenceError(f"cannot write {out}", why, f"name a file that can be written: -o report{endings[0]}")
    return out


def _unwritable(out: Path) -> str:
    """Why a file cannot be written; its folder is made."""
    from tempfile import TemporaryFile

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out.parent):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def write(out: Path, text: str) -> Path:
    """Write a file whole or not at all."""
    try:
        write_whole(out, text, shared=True)
    except OSError as error:
        raise EvidenceError(
            f"cannot write {out}", error.strerror or str(error), "name a file that can be written: -o report.html"
        ) from error
    return out
