"""Choosing a launch in a notebook: a run of a list, a path, or evidence that is pasted; judged again on each choice."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kit.errors import KitError
from kit.redact import scrub_text
from kit.samples import NO_RUNS, sample_names, sample_path
from kit.untrusted import visible

if TYPE_CHECKING:
    from kit.analyse.verdict.verdict import Verdict
    from kit.run import Run

PASTED = "paste"
FIRST = "sg01-capture-hang"
"""The bundled run that is shown at first: the tutorial's."""
HINT = "a folder, a file or an archive"
PASTE = "a log, a terminal copy or a ticket; then press Judge"
_LAST: dict[str, str] = {}
"""What was chosen last, and what was pasted: a cell that runs again keeps it."""


def runs_in(folder: str | Path) -> list[str]:
    """Names of the runs in a folder: folders that hold a file, or a folder `raw`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "one").mkdir(); (folder / "empty").mkdir()
    >>> _ = (folder / "one" / "server.log").write_text("x")
    >>> runs_in(folder)
    ['one']
    """
    folder = Path(folder)
    if not folder.is_dir():
        return []
    inside = [path for path in folder.iterdir() if path.is_dir() and path.name not in NO_RUNS and path.name[0] not in "._"]
    return sorted(path.name for path in inside if any(item.is_file() or item.name == "raw" for item in path.iterdir()))


class Choice:
    """A choice of a launch. Make it with `choose`.

    Attributes
    ----------
    chosen : str
        Name of a listed run, a path, or `paste`.
    text : str
        What was pasted.
    run : Run
    verdict : Verdict
        Of what is chosen.
    """

    def __init__(self, folders: list[Path], default: str, captured_at: str | None):
        self.captured_at = captured_at
        self.listed = {name: sample_path(name) for name in sample_names()}
        self.listed |= {name: folder / name for folder in reversed(folders) for name in runs_in(folder)}
        self.text = _LAST.get("text", "")
        self.chosen = _LAST.get("chosen", default)
        self._verdict: Verdict | None = None
        self.widget = self._controls()

    def choose(self, chosen: str, text: str = "") -> None:
        """Choose a listed run or a path, or with `paste` a text; as the controls do."""
        self.chosen, self._verdict = chosen.strip(), None
        self.text = text or self.text
        _LAST.update(chosen=self.chosen, text=self.text)

    @property
    def run(self) -> Run:
        """What is chosen, opened; a pasted text is masked before it touches the disk."""
        return self.verdict.scene.evidence.run

    @property
    def verdict(self) -> Verdict:
        """What it says."""
        from kit.analyse.verdict.verdict import verdict

        if self._verdict is None:
            self._verdict = verdict(self._place(), self.captured_at)
        return self._verdict

    def _place(self) -> Path:
        if self.chosen != PASTED:
            return self.listed.get(self.chosen, Path(self.chosen).expanduser())
        base = Path(tempfile.mkdtemp(prefix="stallkit-"))
        atexit.register(shutil.rmtree, base, ignore_errors=True)
        (base / PASTED).mkdir()
        (base / PASTED / "paste.txt").write_text(scrub_text(self.text), encoding="utf-8")
        return base / PASTED

    def _controls(self):
        try:
            from ipywidgets import Button, Combobox, HBox, Layout, Output, Textarea, VBox
        except ImportError:
            return None
        wide, known = Layout(width="100%"), list(self.listed)
        self.path = Combobox(value=self.chosen, options=known, placeholder=HINT, description="Launch", layout=wide)
        self.area = Textarea(
            value=self.text, placeholder=PASTE, description="or paste", layout=Layout(width="100%", height="5em")
        )
        self.button, self.output = Button(description="Judge", button_style="primary", icon="search"), Output()
        self.path.continuous_update = False
        self.path.observe(lambda change: self._redraw(change["new"]), names="value")
        self.button.on_click(lambda _: self._redraw(PASTED if self.area.value.strip() else self.path.value, self.area.value))
        return VBox([self.path, HBox([self.area, self.button]), self.output])

    def _redraw(self, chosen: str, text: str = "") -> None:
        """Show what a choice says below the controls; an error stands there too, since a callback's is lost elsewhere."""
        if not chosen.strip():
            return
        self.choose(chosen, text)
        self.output.outputs = ()  # not clear_output, which the browser may do after what follows is there
        self.output.append_stdout(f"judging {visible(self.chosen)} …\n")
        try:
            shown: list[object] = [self.verdict, self._explorer()]
        except KitError as error:
            shown = [error]
        self.output.outputs = ()
        for one in shown:
            self.output.append_display_data(one)

    def _explorer(self):
        from kit.show.explorer.widget import Explorer

        return Explorer(self.run)

    def __repr__(self) -> str:
        return f"{self.chosen} (of {len(self.listed)} listed runs, a path or a paste)"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        try:
            still = self.verdict._repr_html_()
        except KitError as error:
            still = error._repr_html_()
        bundle = {"text/plain": repr(self), "text/html": still}
        if self.widget is not None:
            if not self.output.outputs:
                self._redraw(self.chosen)
            live = self.widget._repr_mimebundle_()
            bundle = {**((live[0] if isinstance(live, tuple) else live) or {}), **bundle}
        return bundle


def choose(*folders: str | Path, default: str = FIRST, captured_at: str | None = None) -> Choice:
    """Offer a launch: one of a list, a path, or pasted evidence; verdict and explorer are redrawn on each choice.

    Parameters
    ----------
    *folders : str or path
        Where runs of your own lie, beside the bundled ones.
    default : str
        What is chosen at first: a name or a path. What was chosen last is kept when the cell runs again.
    captured_at : str, optional
        When the evidence was taken, local time of the host.

    Returns
    -------
    Choice
        `run` and `verdict` are those of what is chosen.

    Examples
    --------
    >>> choose(default="port-taken").verdict.klass
    'port_in_use'
    """
    return Choice([Path(folder) for folder in folders], default, captured_at)
