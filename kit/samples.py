"""Bundled runs: small, real, opened by name."""

from __future__ import annotations

from pathlib import Path

from kit.errors import UsageError
from kit.open import open_run
from kit.run import Run

PACKAGE = Path(__file__).resolve().parent
DATA = next((folder for folder in (PACKAGE / "data", PACKAGE.parent / "data") if folder.is_dir()), PACKAGE / "data")
"""The runs lie inside an installed package, beside it in the repository."""
NO_RUNS = ("runs", "bench", "launches", "traces")
"""Folders of data/ that are no bundled run: the user's own, results of benchmarks, launches that belong together, traces."""


def sample_names() -> list[str]:
    """Names of the bundled runs."""
    return sorted(path.name for path in DATA.glob("*") if path.is_dir() and path.name not in NO_RUNS) if DATA.is_dir() else []


def sample_path(name: str) -> Path:
    """Folder of a bundled run, or another bundled folder: `bench/serve`, `launches`.

    Raises
    ------
    UsageError
        Where there is none of that name; the message lists the runs that there are.

    Examples
    --------
    >>> sample_path("sg01-capture-hang").name, sample_path("bench/serve").name
    ('sg01-capture-hang', 'serve')
    """
    wanted = (DATA / name).resolve()
    if not wanted.is_dir() or DATA.resolve() not in wanted.parents or NO_RUNS[0] in Path(name).parts:
        raise UsageError(
            f"there is no bundled run {name!r}",
            f"those there are: {', '.join(sample_names()) or 'none'}",
            f"see {DATA / 'README.md'}" if DATA.is_dir() else "install stallkit from its wheel: the runs are in it",
        )
    return DATA / name


def sample(name: str) -> Run:
    """Open a bundled run by name.

    Examples
    --------
    >>> sample("sg01-capture-hang").name
    'sg01-capture-hang'
    """
    return open_run(sample_path(name))
