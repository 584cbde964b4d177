"""Classes of a quiet launch with their traits: `kit/knowledge/classes.toml` and the user's folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import kit.analyse.verdict.signs  # noqa: F401  registers the rules
from kit.analyse.verdict.rules import RULES
from kit.knowledge_paths import entries, load
from kit.tomlfile import Table, TomlFile

STATES = ("ready", "progressing", "stalled", "failed", "ended", "unknown")
LASTING = ("failed", "ended", "unknown")
"""States that stay once the launch has exited; any other is `failed` then."""
UNDETERMINED = "undetermined"
_KEYS = (
    *("name", "plain", "plain_many", "meaning", "state", "prior", "signs"),
    *("names_ranks", "first_guess", "remedy_needs", "crash", "plain_when"),
)


@dataclass(frozen=True)
class StallClass:
    """One class."""

    name: str
    # `plain`, `plain_many`: what it is in a few words, of one rank and of several
    plain: str
    plain_many: str
    meaning: str
    state: str
    prior: float
    signs: Mapping[str, tuple[float, str]]  # weight (log-odds) and its reason by code of the sign
    # empty where it concerns all ranks. `signs`: it singles out the ranks of the signs that carry it; `lagging`: those, else the
    # ranks that are behind.
    names_ranks: str = ""
    first_guess: str = ""  # what people guess before they look, where this class is such a guess
    # what a remedy depends on besides the class: keys of a signature's `when` that a learnt one asks for where it is known
    remedy_needs: tuple[str, ...] = ()
    crash: bool = False  # a process failed by itself: once ready, such a launch did work
    # what it is in a few words where a sign says it better, by the sign's code
    plain_when: Mapping[str, str] = field(default_factory=dict)

    def weight(self, code: str) -> float:
        """Weight of a sign, 0 where it says nothing of the class."""
        return self.signs[code][0] if code in self.signs else 0.0

    def state_when(self, exited: bool) -> str:
        """State that follows from the class."""
        return "failed" if exited and self.state not in LASTING else self.state


def classes(folders: Iterable[Path] = ()) -> dict[str, StallClass]:
    """All classes by name: the packaged ones, and those of the user's folders, of which one may stand for a packaged one.

    Examples
    --------
    >>> hang = classes()["device_hang"]
    >>> hang.plain, hang.state_when(exited=False), hang.state_when(exited=True)
    ('the GPU does not finish a kernel or graph', 'stalled', 'failed')
    """
    return load("classes", _read, tuple(folders))


def _read(files: list[TomlFile]) -> dict[str, StallClass]:
    return {known.name: known for known in map(_class, entries(files, "class"))}


def _class(table: Table) -> StallClass:
    """One [[class]]; an error names file, line and key."""
    table.known(_KEYS)
    plain = table.text("plain", needed=True) or ""
    return StallClass(
        name=table.text("name", needed=True) or "",
        plain=plain,
        plain_many=table.text("plain_many", default=plain) or plain,
        meaning=table.text("meaning", needed=True) or "",
        state=table.text("state", STATES, default="stalled") or "",
        prior=table.number("prior", 0.0),
        signs=_weights(table),
        names_ranks=table.text("names_ranks", ("signs", "lagging")) or "",
        first_guess=table.text("first_guess", default="") or "",
        remedy_needs=table.strings("remedy_needs"),
        crash=table.flag("crash"),
        plain_when=table.names("plain_when"),
    )


def _weights(table: Table) -> dict[str, tuple[float, str]]:
    """The `signs`: a list of [code, weight, reason]; each code is one that a rule gives."""
    codes = {code for entry in RULES for code in entry.codes}
    weights: dict[str, tuple[float, str]] = {}
    for given in table.values.get("signs", []):
        if not isinstance(given, list) or [type(part) for part in given] not in ([str, float, str], [str, int, str]):
            raise table.error("signs", f'{given!r} is not ["sign", weight, "reason"]')
        code, weight, reason = given
        table.word("signs", code, codes)
        weights[code] = (float(weight), reason)
    if not weights:
        raise table.error("signs", "no sign speaks for the class")
    return weights
