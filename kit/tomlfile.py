"""TOML files that people write: their tables held against what is known, and errors that name file, line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from kit.errors import UsageError, nearest

PACKAGED = Path(__file__).parent / "knowledge"


class Waiting:
    r"""An expression that is compiled when it is first used: a verdict uses few of the hundreds that are packaged.

    Examples
    --------
    >>> Waiting(r"(?P<n>\d+)").search("rank 3")["n"], "n" in Waiting(r"(?P<n>\d+)").groupindex
    ('3', True)
    """

    def __init__(self, pattern: str):
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern)
        self.search, self.match, self.sub, self.finditer = compiled.search, compiled.match, compiled.sub, compiled.finditer
        return getattr(compiled, name)


class Table:
    """One table of a file, with the lines it stands on."""

    def __init__(self, file: TomlFile, values: dict[str, Any], first: int = 1, last: int | None = None):
        self.file, self.values = file, values
        self.first, self.last = first, last or max(len(file.lines), 1)

    def error(self, key: str, why: str) -> UsageError:
        """An error at a key: at the line that sets it, else at the table's first."""
        sets = re.compile(rf"""(?<![\w.'"])(["']?){re.escape(key)}\1\s*=""")
        lines = enumerate(self.file.lines[self.first - 1 : self.last], self.first)
        line = next((number for number, text in lines if sets.search(text) and not text.lstrip().startswith("#")), self.first)
        return self.file.error(line, key, why)

    def known(self, keys: Collection[str]) -> None:
        """Raise where the table has a key that means nothing."""
        for key in self.values.keys() - set(keys):
            raise self.error(key, f"unknown key{_nearest(key, keys)}")

    def text(self, key: str, allowed: Collection[str] = (), default: str | None = None, needed: bool = False) -> str | None:
        """Text of a key, held against the values allowed."""
        value = self.values.get(key, default)
        if value is None and needed or value is not None and (not isinstance(value, str) or needed and not value.strip()):
            raise self.error(key, "it is missing or no text")
        if value is not None and allowed:
            self.word(key, value, allowed)
        return value

    def word(self, key: str, value: str, allowed: Collection[str]) -> None:
        """Raise where a word of a key is none of those allowed."""
        if value not in allowed:
            raise self.error(key, f"unknown word {value!r}{_nearest(value, allowed)}")

    def strings(self, key: str) -> tuple[str, ...]:
        """One text or a list of texts."""
        value = self.values.get(key, ())
        texts = (value,) if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and text for text in texts):
            raise self.error(key, "it is neither a text nor a list of texts")
        return tuple(texts)

    def number(self, key: str, default: float | None = None, needed: bool = False) -> Any:
        """Number of a key."""
        value = self.values.get(key, default)
        if value is None and needed or value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise self.error(key, "it is missing or no number")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where the key is missing."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, "it is neither true nor false")
        return value

    def names(self, key: str) -> dict[str, str]:
        """A table of texts by name."""
        value = self.values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise self.error(key, "it is not a table of names")
        return dict(value)

    def table(self, key: str) -> Table:
        """The table `[key]`, empty where it is missing."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"it is written as a table: [{key}]")
        head = re.compile(rf"\s*\[\s*{re.escape(key)}\s*\]")
        first = next((number for number, line in enumerate(self.file.lines, 1) if head.match(line)), self.first)
        return Table(self.file, value, first)

    def expression(self, key: str, value: Any) -> re.Pattern[str]:
        """Compile a value of a key as a regular expression; those of the packaged files when they are first used."""
        if isinstance(value, str) and self.file.path.is_relative_to(PACKAGED):
            return cast("re.Pattern[str]", Waiting(value))
        try:
            return re.compile(value)
        except (re.error, TypeError) as error:
            raise self.error(key, f"it is not a valid regular expression: {error}") from error


def _nearest(word: str, words: Collection[str]) -> str:
    """The nearest right word, else all that are right."""
    near = nearest(word, words)
    return f": did you mean {near!r}?" if near else f"; known are {', '.join(sorted(words))}"


class TomlFile:
    """One file.

    Parameters
    ----------
    path : Path
    what : str
        What it is, for errors: `log grammar`, `signatures`.

    Raises
    ------
    kit.errors.UsageError
        It is no valid TOML, or cannot be read as text.
    """

    def __init__(self, path: Path, what: str):
        self.path, self.what, self.lines = path, what, []
        try:
            self.lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self.error(1, "", f"it cannot be read: {error}") from error
        try:
            self.data = tomllib.loads("\n".join(self.lines))
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            line = min(int(found.group(1)) if found else len(self.lines), len(self.lines))
            key = self.lines[line - 1].split("=")[0].strip() if self.lines else ""
            raise self.error(line, key, f"it is not valid TOML: {error}") from error

    def error(self, line: int, key: str, why: str) -> UsageError:
        """An error that names file, line and key."""
        return UsageError(f"{self.what} {self.path}, line {line}, key {key!r}", why, f"correct that line: {self.path}:{line}")

    @cached_property
    def top(self) -> Table:
        """The file's own keys."""
        return Table(self, self.data)

    def tables(self, name: str) -> Iterator[Table]:
        """The tables `[[name]]`, in their order."""
        entries = self.data.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.top.error(name, f"it is written as tables: [[{name}]]")
        head = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
        heads = [number for number, line in enumerate(self.lines, 1) if "[[" in line and head.match(line)]
        for number, entry in enumerate(entries):
            if len(heads) == len(entries):
                last = heads[number + 1] - 1 if number + 1 < len(heads) else None
                yield Table(self, entry, heads[number], last)
            else:  # written inside one array
                yield Table(self, entry)
