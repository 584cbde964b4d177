"""The parser: verbs in groups, and the nearest right word where one was mistyped."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from kit.errors import USAGE, nearest

_CHOICE = re.compile(r"argument (?P<what>.+?): invalid choice: '(?P<word>[^']*)'")


def _meant(word: str, words: Iterable[str]) -> str:
    bare = {name.lstrip("-"): name for name in words}
    near = nearest(word.lstrip("-"), bare)
    return f": did you mean {bare[near]!r}?" if near else ""


class Parser(argparse.ArgumentParser):
    """argparse's parser with errors like the kit's own."""

    def parse_args(self, args=None, namespace=None):
        """As argparse does; an option that is not known gets the nearest one of its verb named."""
        known, rest = self.parse_known_args(args, namespace)
        if rest:
            verb = self.verbs.get(getattr(known, "verb", None), self)
            options = [name for name in verb._option_string_actions if name.startswith("--")]
            word = rest[0].split("=")[0]
            if word.startswith("-"):
                verb.error(f"unknown option {word}{_meant(word, options)}")
            verb.error(f"unexpected argument {word!r}")
        return known

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where the help is."""
        if wrong := _CHOICE.search(message):
            choices = {
                name: list(a.choices) for a in self._actions if a.choices for name in (a.metavar, a.dest, *a.option_strings)
            }
            what = "verb" if wrong["what"] == "VERB" else wrong["what"].split("/")[-1]
            words = choices.get(wrong["what"].split("/")[-1], [])
            among = "" if what == "verb" else f" (choose from {', '.join(words)})"
            message = f"unknown {what} {wrong['word']!r}{_meant(wrong['word'], words) or among}"
        self.exit(USAGE, f"kit: {message}\nFor help: {self.prog} --help\n")

    @property
    def verbs(self) -> dict[str, Parser]:
        """Parsers of the verbs."""
        return next((a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction)), {})


class _Formatter(argparse.HelpFormatter):
    """Help with the verbs in their groups."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        lines = []
        for entry in action._choices_actions:
            heading = action.headings.get(entry.dest)  # type: ignore[attr-defined]
            lines += [f"\n{heading}\n"] if heading else []
            lines.append(super()._format_action(entry))
        return "".join(lines).lstrip("\n")


class Verbs:
    """The verbs of a parser, as they are added group by group."""

    def __init__(self, command_line: Parser):
        command_line.formatter_class = _Formatter
        command_line._positionals.title = "verbs (kit VERB --help has the options)"
        self._verbs = command_line.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
        self._verbs.headings = {}  # type: ignore[attr-defined]
        self._heading = ""

    def group(self, heading: str) -> None:
        """Begin a group."""
        self._heading = heading

    def add(self, name: str, run: Callable[[argparse.Namespace], int], help: str, alias: str = "") -> Parser:
        """Add a verb: what it runs, and what it does in a line. An alias is an older name, which no help shows."""
        verb = self._verbs.add_parser(name, help=help, description=f"{help[:1].upper()}{help[1:]}.")
        verb.set_defaults(run=run)
        if self._heading:
            self._verbs.headings[name], self._heading = self._heading, ""  # type: ignore[attr-defined]
        if alias:
            self._verbs.choices[alias] = verb
        return verb
