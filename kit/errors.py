"""Errors that speak to a person: what happened, the likely cause, the command that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from kit.untrusted import visible

DONE, TROUBLE, USAGE, UNREACHABLE = 0, 1, 2, 3
"""Exit codes of the command line: done; trouble found (with --exit-code); wrong use; could not reach or read."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, None where none is close.

    Examples
    --------
    >>> nearest("verdit", ["report", "verdict"]), nearest("zzz", ["verdict"])
    ('verdict', None)
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(words), 1, 0.5)), None)


class KitError(Exception):
    """A failure that the user can do something about.

    Parameters
    ----------
    what : str
        What happened, in one clause.
    why : str
        The likely cause.
    do : str
        What mends it: a command where there is one.
    code : int
        Exit code of the command line, one of the constants of this module.

    Examples
    --------
    >>> print(KitError("no file 'x.log'", "the path does not exist", "check it with: ls"))
    no file 'x.log': the path does not exist. Check it with: ls
    """

    def __init__(self, what: str, why: str, do: str, code: int = UNREACHABLE):
        super().__init__(what, why, do)
        self.what, self.why, self.do, self.code = what, why, do, code

    def __str__(self) -> str:
        return visible(f"{self.what}: {self.why}. {self._mend}")

    @property
    def _mend(self) -> str:
        """What mends it as a sentence; a command of the kit stays as it is typed."""
        return self.do if self.do.startswith("kit ") else self.do[:1].upper() + self.do[1:]

    def _repr_html_(self) -> str:
        from html import escape

        what, why, do = (escape(visible(text)) for text in (self.what, self.why, self._mend))
        return f"<p class='mathjax_ignore'><b><bdi>{what}</bdi></b>: <bdi>{why}</bdi>.<br>{do}</p>"


class UsageError(KitError):
    """The call itself was wrong: an unknown frame, a bad time, an option that does not fit."""

    def __init__(self, what: str, why: str, do: str):
        super().__init__(what, why, do, code=USAGE)


class EvidenceError(KitError):
    """Evidence could not be reached or read."""


def denied(error: PermissionError) -> EvidenceError:
    """What a file or folder says that this user may not look into.

    Examples
    --------
    >>> print(denied(PermissionError(13, "Permission denied", "/var/log/vllm/run.json")))
    cannot open /var/log/vllm/run.json: permission denied. Look who may: ls -ld /var/log/vllm
    """
    place = Path(error.filename or ".")
    return EvidenceError(f"cannot open {place}", "permission denied", f"look who may: ls -ld {shlex.quote(str(place.parent))}")
