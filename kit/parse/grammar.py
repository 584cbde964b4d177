"""Log grammars: what the lines of a server mean, and what else tells it from others. They are data (`kit.parse.grammar_file`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kit import knowledge_paths
from kit.intake.beginnings import may_hold
from kit.parse.grammar_file import ROLES, BarRule, Grammar, Milestone, Traits, number, read
from kit.parse.records import Prefixes
from kit.schema import Row
from kit.tomlfile import TomlFile

NO_DIGITS = {ord(digit): None for digit in "0123456789"}
"""Table for `str.translate` that drops digits."""
MOST_CANDIDATES, LONGEST_CANDIDATE = 4096, 1000
"""Records remembered by a matcher, and the longest of them: at most 4 MB."""

_WRITER = re.compile(
    r"^(?:\[pod/[^\]]+\] ?|[A-Za-z][\w./-]*\s*\| |(?:[A-Z]\w\w +\d+ [\d:]{8}|20\d\d-\S+T\S+) \S+ [\w.@-]+\[\d+\]: )"
)
"""What kubectl, compose and the journal put before a line: the name of a pod or a unit tells less than what stands in it."""
_ARGUMENT = re.compile(r"""(?<![\w.])['"]?(\w+)['"]?\s*[=:]\s*(?:Some\(\s*)?('[^']*'|"[^"]*"|[^\s,;()\[\]{}]+)""")


def arguments(text: str, names: dict[str, str]) -> dict[str, Any]:
    """Launch arguments out of a printed object: ``ServerArgs(a=1)``, ``Namespace(a=1)``, ``{'a': 1}``, ``Args { a: Some(1) }``.

    Examples
    --------
    >>> arguments("server_args=ServerArgs(model_path='/m/x', port=8000, revision=None)", {"model_path": "model", "port": "port"})
    {'model': '/m/x', 'port': 8000}
    >>> arguments('Args { num_shard: Some(4), hostname: "0.0.0.0" }', {"num_shard": "tp_size", "hostname": "host"})
    {'tp_size': 4, 'host': '0.0.0.0'}
    """
    kept: dict[str, Any] = {}
    for name, value in _ARGUMENT.findall(text):
        if name in names and value not in ("None", "null"):
            kept.setdefault(names[name], value[1:-1] if value[0] in "'\"" else number(value))
    return kept


ECHO = re.compile(r"\+{1,4} (?:\w+=\S* +)*[a-z./][\w./+-]*(?: |$)")
"""What `set -x` of a shell echoes: a command, whose words are no progress of what it starts."""


class Matcher:
    """The milestones and bars that hold for one file, in the order in which they are tried."""

    def __init__(self, grammars: Iterable[Grammar], server: str | None):
        own = [g for g in grammars if g.name == server]
        roles = {"layer"} if own and own[0].role == "server" else {"layer", "training"} if own else set(ROLES)
        others = sorted(
            (g for g in grammars if g.name != server and (g.role in roles or server in g.hosts)),
            key=lambda g: (server not in g.hosts, g.role == "server", g.order),
        )
        self.server = server
        self.grammars = own + others
        self.names: dict[str, str] = {}
        for grammar in self.grammars:
            self.names.update(grammar.args)
        self.bars = [bar for grammar in self.grammars for bar in grammar.bars]
        self.roles = [entry for grammar in self.grammars for entry in grammar.roles]
        by_prefix = own + sorted((g for g in grammars if g.name != server), key=lambda g: (g.name == "common", g.order))
        self.prefixes = Prefixes(
            [rule for grammar in by_prefix for rule in grammar.prefixes],
            [rule for grammar in by_prefix for rule in grammar.ranks],
        )
        self.processes = [rule for grammar in by_prefix for rule in grammar.processes]
        self.traits = own[0].traits if own else Traits()
        self.entries = [
            (part, milestone)
            for grammar in self.grammars
            for milestone in grammar.milestones
            for part in (milestone.find or ("",))
        ]
        known = {*(g.name for g in self.grammars), *(name for g in own for name in g.hosts)}
        rivals = (g for g in grammars if own and own[0].role == g.role == "server" and g.name not in known)
        self.rivals = {g.name: g for g in rivals}
        """Servers whose first line in such a log tells that another launch begins there."""
        self.entries += [
            (part, milestone)
            for rival in self.rivals.values()
            for milestone in rival.milestones
            if milestone.start
            for part in (milestone.find or ("",))
        ]
        self._bare = [part.translate(NO_DIGITS) for part, _ in self.entries]
        self._by_piece = _by_piece(self._bare)
        self._candidates: dict[str, list[tuple[str, Milestone]]] = {}

    def candidates(self, text: str) -> list[tuple[str, Milestone]]:
        """Entries (text of `find`, milestone) that can hold for a record: those that it holds when digits don't count.

        Logs repeat themselves with other numbers; records that differ in digits only are looked up once.
        """
        bare = text.translate(NO_DIGITS)
        found = self._candidates.get(bare)
        if found is None:
            pieces = set(map("".join, zip(bare, bare[1:], bare[2:], strict=False))) & self._by_piece.keys()
            numbers = sorted(number for piece in (*pieces, "") for number in self._by_piece[piece])
            found = [self.entries[number] for number in numbers if self._bare[number] in bare]
            if len(self._candidates) >= MOST_CANDIDATES:
                self._candidates.clear()
            if len(bare) <= LONGEST_CANDIDATE:
                self._candidates[bare] = found
        return found

    def match(self, text: str, stage: str, raw: str = "") -> tuple[Milestone, dict[str, Any]] | None:
        """First milestone that a record matches, with its fields; `stage` is init, http or ready.

        The first line of another server counts where it begins so, in that server's form: `raw` is the record with its prefix.
        """
        echoed = ECHO.match(text)
        for part, milestone in self.candidates(text):
            if echoed and not milestone.args:
                continue
            if milestone.grammar in self.rivals and not self._begins(milestone, text, raw):
                continue
            if part in text and (milestone.when is None or milestone.when == stage):
                fields = milestone.fields_of(text)
                if fields is not None:
                    if milestone.args:
                        fields |= {name: value for name, value in arguments(text, self.names).items() if name not in fields}
                    return milestone, fields
        return None

    def _begins(self, milestone: Milestone, text: str, raw: str) -> bool:
        """Whether a record is the first line of another server, and none that only holds its words."""
        formed = raw and any(pattern.search(raw) for pattern in self.rivals[milestone.grammar].detect)
        return bool(formed) and (milestone.pattern is None or milestone.pattern.match(text) is not None)

    def role(self, text: str) -> str:
        """Role of an error line that no milestone names."""
        return next((role for part, role in self.roles if part in text), "initiating")

    def bar(self, description: str, counts: str = "") -> BarRule | None:
        """Rule of a bar, by its description and by what it counts."""
        for rule in self.bars:
            if rule.pattern.search(description) and (rule.counts is None or rule.counts.search(counts)):
                return rule
        return None


@cache
def libraries() -> frozenset[str]:
    """Packaged grammars that are no server's: layers and launchers, and that of servers which no line tells."""
    return frozenset(found.name for found in load().all if found.role != "server" or not found.detect)


def _by_piece(texts: list[str]) -> dict[str, list[int]]:
    """Numbers of texts by the three signs in them that stand in the fewest; by nothing of those that are shorter."""
    pieces = [{text[at : at + 3] for at in range(len(text) - 2)} for text in texts]
    counts = Counter(piece for of_one in pieces for piece in of_one)
    found: dict[str, list[int]] = {"": []}
    for at, of_one in enumerate(pieces):
        found.setdefault(min(of_one, key=lambda piece: (counts[piece], piece), default=""), []).append(at)
    return found


class Grammars:
    """All grammars that were loaded, and the matchers made of them."""

    def __init__(self, grammars: Sequence[Grammar]):
        self.all = tuple(grammars)
        self._matchers: dict[str | None, Matcher] = {}

    def detect(self, lines: Iterable[str]) -> str | None:
        """Name of the server (or training launcher) that wrote the lines, None where nothing tells."""
        votes: dict[str, tuple[int, int, bool, int]] = {}
        lines = list(lines)
        bare = [_WRITER.sub("", line) for line in lines]
        prefixed = [at for at, line in enumerate(lines) if bare[at] != line]
        text = "\n".join(lines)
        for grammar in (g for g in self.all if g.detect and g.role in ("server", "training")):
            patterns = [pattern for pattern in grammar.detect if may_hold(pattern, text)]
            told = [at for at, line in enumerate(bare) if any(p.search(line) for p in patterns)]
            named = [at for at in prefixed if any(p.search(lines[at]) for p in patterns)]
            named += [at for at in told if bare[at] == lines[at]]
            if told or named:
                votes[grammar.name] = len(told), len(named), grammar.role == "server", -min(told or named)
        return max(votes, key=lambda name: votes[name], default=None)

    def programs(self, files: Iterable[str], commands: Iterable[str]) -> set[str]:
        """Grammars whose modules files of stacks and command lines name.

        Examples
        --------
        >>> sorted(load().programs(["/envs/tgi/lib/site-packages/vllm/v1/core.py"], ["/envs/sglang/bin/python train.py"]))
        ['training', 'vllm']
        """
        parts = {part for file in files for part in file.rpartition("-packages/")[2].split("/")}
        words = (word.removeprefix("-m").rpartition("bin/")[2] for command in commands for word in command.split())
        parts |= {part for word in words for part in word.split("/")}
        return {g.name for g in self.all if any(pattern.match(part) for pattern in g.modules for part in parts)}

    def matcher(self, server: str | None) -> Matcher:
        """Matcher for files of a server (None: the layers, then every server)."""
        if server not in self._matchers:
            self._matchers[server] = Matcher(self.all, server)
        return self._matchers[server]


def _read(files: list[TomlFile]) -> Grammars:
    """All files, the user's first: one of a known name goes before the packaged one, and adds to it."""
    grammars: dict[str, Grammar] = {}
    for grammar in map(read, reversed(files)):
        before = grammars.get(grammar.name)
        grammars[grammar.name] = grammar if before is None else grammar.over(before)
    return Grammars(sorted(grammars.values(), key=lambda grammar: (grammar.order, grammar.name)))


def load(folders: Sequence[Path] = ()) -> Grammars:
    """Load the packaged grammars and those of further folders.

    `folders`: folders of the user's own (`kit.knowledge_paths`). A file with the name of a packaged grammar extends it: its
    milestones are tried first. Raises UsageError: a file is no valid TOML, lacks a key, or holds a wrong value; the message names
    file, line and key.

    Examples
    --------
    >>> load().matcher("sglang").match("Load weight begin. avail mem=93.41 GB", "init")[0].code
    'weights_begin'
    """
    return knowledge_paths.load("logs", _read, tuple(map(Path, folders)))


def traits(server: str | None, folders: Sequence[Path] = ()) -> Traits:
    """What tells a server from others.

    Examples
    --------
    >>> traits("vllm").port, traits(None).once_from_ranks
    (8000, 3)
    """
    return load(folders).matcher(server).traits


def metric_names(what: str, folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Names, or parts of them, of counters of `tokens` that were generated, or of gauges of `running` or `waiting` requests."""
    return tuple(dict.fromkeys(name for grammar in load(folders).all for name in grammar.metrics.get(what, ())))


def caches(folders: Sequence[Path] = ()) -> dict[str, str]:
    """Variables that name folders of downloads and compilers, with the folder that serves where one is not set."""
    return {name: folder for grammar in load(folders).all for name, folder in grammar.caches.items()}


def codes(flag: str, server: str | None, folders: Sequence[Path] = ()) -> frozenset[str]:
    """Codes of the milestones that have a flag, in the grammars that hold for a server's log.

    Examples
    --------
    >>> "weights_end" in codes("per_rank", "sglang"), "weights_end" in codes("per_rank", "llamacpp")
    (True, False)
    """
    grammars = load(folders).matcher(server).grammars
    return frozenset(milestone.code for grammar in grammars for milestone in grammar.milestones if getattr(milestone, flag))


def lives_on(row: Row, server: str | None, folders: Sequence[Path] = ()) -> bool:
    """Whether the process may live on after a record, as the grammar says that the record is of."""
    own = (row.get("server"), "common", server)
    return any(
        milestone.lives_on and milestone.code == row["milestone"] and milestone.grammar in own
        for grammar in load(folders).matcher(server).grammars
        for milestone in grammar.milestones
    )


def to_json(fields: dict[str, Any]) -> str | None:
    """Fields as JSON text, None where there are none."""
    return json.dumps(fields, ensure_ascii=False) if fields else None
