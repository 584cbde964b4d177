"""A command line that its program refused: which word is wrong, and which was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.analyse.verdict.failures import cause
from kit.analyse.verdict.log_digest import LogDigest, Mark
from kit.analyse.verdict.settings import settings_of
from kit.errors import nearest
from kit.parse.grammar import load
from kit.words import short

if TYPE_CHECKING:
    from kit.analyse.verdict.scene import Scene

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_QUOTED = re.compile(r"['‘“\"]([^'’”\"]+)['’”\"]")
_MEANT = re.compile(
    r"(?i)(?:did you mean|similar (?:argument|option|value|name) exists:|perhaps you meant)[:\s]*['\"`]?(--?[\w-]+|\w+)"
)
_CHOICE = re.compile(
    r"invalid (?:choice|value)[^'\"]*['\"](?P<wrong>[^'\"]*)['\"].*?(?:choose from|possible values?:)(?P<right>.*)"
)
_NEEDS = re.compile(r"arguments? are required: (.+)|Missing (?:option|argument) (.+?)\.?$")
_PROGRAM = re.compile(r"^(?P<program>[\w.-]+(?: [a-z][\w-]*)?): error: |^Usage: (?P<clap>[\w./-]+(?: [a-z][\w-]*)?) [\[<-]")


@dataclass(frozen=True)
class Refused:
    """A refused command line: the record, the word in question, the word that was meant, what helps."""

    mark: Mark
    wrong: str
    right: str
    do: str

    @property
    def claim(self) -> str:
        """What is wrong, with the nearest right word."""
        meant = f"; the nearest known word is {self.right}" if self.right else ""
        return f"its command line is wrong, and it never began: {short(self.mark.text, 160)}{meant}"


def refused(scene: Scene) -> Refused | None:
    """The refused command line; None where something else was the cause."""
    mark = cause(scene.log)
    if mark is None or mark.code != "usage_error":
        return None
    texts = [mark.text, *(row["raw"] for row in scene.log.tail if row["capture"] == mark.capture)]
    choice, needs = _CHOICE.search(mark.text), _NEEDS.search(mark.text)
    if choice:
        right = nearest(choice["wrong"], _QUOTED.findall(choice["right"]) or re.findall(r"[\w.-]+", choice["right"])) or ""
        option = next(iter(_OPTION.findall(mark.text)), "that option")
        known = (
            f"the nearest of its values is {right}" if right else f"its values are {short(choice['right'].strip(' )],.'), 160)}"
        )
        return Refused(mark, choice["wrong"], right, f"{option} does not take {choice['wrong']}: {known}")
    if needs:
        missing = (needs[1] or needs[2]).strip("'\" ")
        return Refused(mark, missing, "", f"add what is missing to the command line: {missing}")
    told = mark.text.partition("unrecognized arguments:")[2] or mark.text
    wrong = next(iter(_OPTION.findall(told)), "")
    meant = next((found[1] for text in texts if (found := _MEANT.search(text))), None)
    right = meant or (nearest(wrong, _known(scene, texts) - {wrong}) if wrong else None) or ""
    if right:
        return Refused(mark, wrong, right, f"write {right} in place of {wrong}")
    named = (
        f"{wrong} is not an option of this program or of this version"
        if wrong
        else "the command line is not as the program wants it"
    )
    return Refused(mark, wrong, "", f"{named}: its --help lists what it knows")


def _known(scene: Scene, texts: Iterable[str]) -> set[str]:
    """Options that the usage text in the log names, else those of the server's grammar."""
    usage = {word for text in texts if ": error: " not in text and "rror: " not in text[:8] for word in _OPTION.findall(text)}
    if len(usage) > 3:  # more than the usual [-h] and the line that was refused
        return usage
    joined = " ".join(texts)
    server = settings_of(scene.evidence).server
    fitting = [
        found
        for found in load(scene.evidence.run.knowledge).all
        if found.name == server or found.launch and found.launch.command.search(joined)
    ]
    names = {name for found in fitting for name in found.args}
    names |= {
        name for found in fitting if found.launch for name in (*found.launch.alias, *found.launch.flags, *found.launch.words)
    }
    return usage | {("--" if len(name) > 1 else "-") + name.replace("_", "-") for name in names}


def program(log: LogDigest) -> str | None:
    """The program that refused, as its message names it; a script of Python is none that a shell finds."""
    mark = cause(log)
    if mark is None or mark.code != "usage_error":
        return None
    for text in (mark.text, *(row["raw"] for row in log.tail)):
        found = _PROGRAM.search(text)
        if found and not (name := found["program"] or found["clap"]).endswith(".py"):
            return name
    return None
