"""Knowledge as files: where it lies, and how it is loaded.

What the kit knows stands in TOML files beside this module (`kit/knowledge`). A folder of the user's, named by `--knowledge` or
`KIT_KNOWLEDGE`, may hold every kind of it; a file's kind is told by its name (`classes.toml`), else by its tables
(`[[class]]`), and what is no other kind is a log grammar. Files of the user's go before the packaged ones.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from kit.errors import UsageError
from kit.tomlfile import Table, TomlFile

T = TypeVar("T")

PACKAGED = Path(__file__).resolve().parent / "knowledge"
VARIABLE = "KIT_KNOWLEDGE"
SIGNATURES = "signatures.toml"
"""Where `kit learn` writes in a folder."""
TABLES = {
    "signatures": "signature",
    "classes": "class",
    "thresholds": "threshold",
    "stacks": "category",
    "gpus": "generation",
    "captures": "capture",
    "tools": "tool",
    "options": "unlikely",
    "reporter": "claim",
}
"""Kinds of knowledge beside log grammars, by the name of their file, with the table that tells one under another name."""
_TABLE = re.compile(r"^[ \t]*\[{1,2}[ \t]*([A-Za-z_]+)", re.MULTILINE)
_NOT_EMPTY = re.compile(r"^[ \t]*[^\s#]", re.MULTILINE)
_GRAMMAR = re.compile(r"^[ \t]*(?:role\s*=|\[\[\s*(?:milestone|bar)\s*\]\])", re.MULTILINE)


def folders(given: str | Path | Iterable[str | Path] | None = None) -> tuple[Path, ...]:
    """Folders of the user's knowledge: those given, then those of `KIT_KNOWLEDGE`.

    Returns absolute paths, each once; the first goes before the others. Raises UsageError: one of them is no folder.

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


def files(kind: str, given: Sequence[Path] = ()) -> list[Path]:
    """Files that hold a kind of knowledge, those of the first folder first and the packaged ones last.

    `kind`: `logs`, or a key of `TABLES`. `given`: folders of the user's.
    """
    found = [path for folder in given for path in sorted(_of_kind(kind, folder), key=lambda path: path.stem != kind)]
    return found + (sorted((PACKAGED / "logs").glob("*.toml")) if kind == "logs" else [PACKAGED / f"{kind}.toml"])


def _of_kind(kind: str, folder: Path) -> Iterator[Path]:
    if kind == "logs":
        yield from sorted((folder / "logs").glob("*.toml"))
    for path in sorted(folder.glob("*.toml")):
        text = path.read_text(encoding="utf-8", errors="replace")
        tables = set(_TABLE.findall(text))
        known = {name for name, table in TABLES.items() if table in tables}
        if path.stem in TABLES:
            known |= {path.stem}
        if _GRAMMAR.search(text) or not known and _NOT_EMPTY.search(text):
            known |= {"logs"}
        if kind in known:
            yield path


def load(kind: str, read: Callable[[list[TomlFile]], T], given: Sequence[Path] = ()) -> T:
    """What a kind of knowledge says, read once until a file of the user's changes.

    `kind`: `logs`, or a key of `TABLES`. `read`: makes something of the files, the user's before the packaged; a function of a
    module, since it is part of the key under which the result is kept. `given`: folders of the user's. Raises UsageError: a file
    is wrong; the message names file, line and key.

    Examples
    --------
    >>> def names(files):
    ...     return [table.text("name") for table in entries(files, "class")]
    >>> "device_hang" in load("classes", names)
    True
    """
    return _load(kind, read, tuple(given), version(given))


@lru_cache(maxsize=64)
def _load(kind: str, read: Callable[[list[TomlFile]], T], given: tuple[Path, ...], checksum: str) -> T:
    return read([TomlFile(path, "log grammar" if kind == "logs" else kind) for path in files(kind, given)])


def entries(files: Iterable[TomlFile], name: str, key: str = "name") -> list[Table]:
    """The tables `[[name]]` of some files; of those with one name, the first holds, in the place of the last.

    So a user's entry stands for the packaged one of its name, and the order of the packaged ones is kept.
    """
    found: dict[object, Table] = {}
    for number, file in enumerate(reversed(list(files))):
        tables = list(file.tables(name))
        new = {table.values.get(key, (number, place)): table for place, table in enumerate(tables)}
        later = {label: new.pop(label) for label in list(new) if label in found}
        found = {**new, **found, **later} if number else new
    return list(found.values())


def version(given: Sequence[Path]) -> str:
    """A checksum of all TOML files of some folders: it changes when one of them does; empty without folders."""
    if not given:
        return ""
    digest = hashlib.sha256()
    for folder in given:
        for path in sorted([*folder.glob("*.toml"), *folder.glob("logs/*.toml")]):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
