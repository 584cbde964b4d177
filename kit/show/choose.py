"""Choosing a run: a widget where there is a live kernel, a list where there is none."""

from __future__ import annotations

from html import escape
from pathlib import Path

from kit.samples import NO_RUNS

_CHOSEN: dict[str, str] = {}
"""What was chosen last, by folder: a cell that runs again keeps it."""
NOTHING = "no runs here; record one: kit collect local --pid PID -o RUN"


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
    inside = [path for path in folder.iterdir() if path.is_dir() and path.name not in NO_RUNS and path.name[0] != "."]
    return sorted(path.name for path in inside if any(item.is_file() or item.name == "raw" for item in path.iterdir()))


class RunChooser:
    """A choice among the runs of some folders. Make it with `choose_run`.

    Attributes
    ----------
    value : pathlib.Path or None
        The run chosen; None where the folders hold none.
    """

    def __init__(self, folders: list[Path], default: str | None):
        self.key = "\n".join(str(folder) for folder in folders)
        self.paths = {name: folder / name for folder in reversed(folders) for name in runs_in(folder)}
        wanted = [_CHOSEN.get(self.key), default, next(iter(sorted(self.paths)), None)]
        self._name = next((name for name in wanted if name in self.paths), None)
        self.widget = self._dropdown() if self.paths else None

    def _dropdown(self):
        try:
            from ipywidgets import Dropdown
        except ImportError:
            return None
        widget = Dropdown(options=sorted(self.paths), value=self._name, description="Run")
        widget.observe(lambda change: self.choose(change["new"]), names="value")
        return widget

    def choose(self, name: str) -> None:
        """Choose a run by name, as the widget does.

        Raises
        ------
        KeyError
            Where there is no such run.
        """
        if name not in self.paths:
            raise KeyError(f"no run {name!r}; those there are: {', '.join(sorted(self.paths))}")
        self._name = _CHOSEN[self.key] = name
        if self.widget is not None and self.widget.value != name:
            self.widget.value = name

    @property
    def value(self) -> Path | None:
        """The run chosen."""
        return self.paths[self._name] if self._name else None

    def __repr__(self) -> str:
        return f"run {self._name} of: {', '.join(sorted(self.paths))}" if self.paths else NOTHING

    def _repr_html_(self) -> str:
        if not self.paths:
            return f"<p>{escape(repr(self))}</p>"
        items = "".join(
            f"<li><b>{escape(name)}</b> (chosen)</li>" if name == self._name else f"<li>{escape(name)}</li>"
            for name in sorted(self.paths)
        )
        return f"<p>Runs:</p><ul>{items}</ul>"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self.widget is not None:
            live = self.widget._repr_mimebundle_()
            live = live[0] if isinstance(live, tuple) else live
            bundle = {**(live or {}), **bundle}
        return bundle


def choose_run(*folders: str | Path, default: str | None = None) -> RunChooser:
    """Offer the runs of some folders; a cell below reads `.value`.

    Parameters
    ----------
    *folders : str or path
        Where runs lie; a name in an earlier folder hides the same in a later one.
    default : str, optional
        Name chosen at first. What was chosen last is kept when the cell runs again.

    Returns
    -------
    RunChooser

    Examples
    --------
    >>> choose_run("no-such-folder").value is None
    True
    """
    return RunChooser([Path(folder) for folder in folders], default)
