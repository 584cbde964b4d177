"""Where knowledge lies: what is packaged, and folders of the user's own, named by `--knowledge` or `KIT_KNOWLEDGE`.

A folder of the user's may hold log grammars (`logs/*.toml`, or `*.toml` with a `role`) and signatures (`signatures.toml`, or
any `*.toml` with `[[signature]]` tables). They go before the packaged ones; nothing has to be copied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.errors import UsageError

PACKAGED = Path(__file__).resolve().parent / "knowledge"
VARIABLE = "KIT_KNOWLEDGE"
SIGNATURES = "signatures.toml"
"""Where `kit learn` writes in a folder."""
_SIGNATURE = re.compile(r"^\s*\[\[\s*signature\s*\]\]", re.MULTILINE)
_NOT_EMPTY = re.compile(r"^\s*[^\s#]", re.MULTILINE)
_GRAMMAR = re.compile(r"^\s*(?:role\s*=|\[\[\s*(?:milestone|bar)\s*\]\])", re.MULTILINE)


def folders(given: str | Path | Iterable[str | Path] | None = None) -> tuple[Path, ...]:
    """Folders of the user's knowledge: those given, then those of `KIT_KNOWLEDGE`.

    Parameters
    ----------
    given : path or paths, optional

    Returns
    -------
    tuple of Path
        Absolute, each once; the first goes before the others.

    Raises
    ------
    kit.errors.UsageError
        One of them is no folder.

    Examples
    --------
    >>> folders()
    ()
    """
    named = [given] if isinstance(given, (str, Path)) else list(given or ())
    named += [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    found = dict.fromkeys(Path(name).expanduser().resolve() for name in named)
    for folder in found:
        if not folder.is_dir():
            raise UsageError(
                f"no knowledge in {folder}",
                "there is no such folder",
                f"name a folder that holds *.toml files: --knowledge FOLDER, or {VARIABLE}=FOLDER",
            )
    return tuple(found)


@contextmanager
def also(given: str | Path | Iterable[str | Path] | None) -> Iterator[None]:
    """Put folders before those of `KIT_KNOWLEDGE` while a block runs; processes started in it have them too."""
    if not given:
        yield
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = os.pathsep.join(map(str, folders(given)))
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob("*.toml")):
        yield path, path.read_text(encoding="utf-8", errors="replace")


def grammar_files(folder: Path) -> list[Path]:
    """Log grammars of a folder: all of `logs/`, and files beside it that look like one."""
    found = sorted((folder / "logs").glob("*.toml"))
    for path, text in _texts(folder):
        if _GRAMMAR.search(text) or _NOT_EMPTY.search(text) and not _signs(path, text):
            found.append(path)
    return found


def _signs(path: Path, text: str) -> bool:
    return path.name == SIGNATURES or _SIGNATURE.search(text) is not None


def signature_files(folder: Path) -> list[Path]:
    """Files of a folder that hold signatures, `signatures.toml` first."""
    found = [path for path, text in _texts(folder) if _signs(path, text)]
    return sorted(found, key=lambda path: (path.name != SIGNATURES, path.name))


def version(given: Sequence[Path]) -> str:
    """A checksum of all TOML files of some folders: it changes when one of them does; empty without folders."""
    if not given:
        return ""
    digest = hashlib.sha256()
    for folder in given:
        for path in sorted([*folder.glob("*.toml"), *folder.glob("logs/*.toml")]):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
