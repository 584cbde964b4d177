"""Log grammars: what the lines of a server mean. They are data: `kit/knowledge/logs/*.toml`, and folders of the user's.

A grammar file holds

``name``
    The server (``sglang``) or layer (``nccl``) that writes such lines.
``role``
    ``server``: one such grammar holds for a file, told by ``detect``; ``training``: holds where no server is told;
    ``layer``: holds in every file, after the server's own milestones.
``detect``
    Regular expressions; the server whose expressions match most of the first lines is the file's.
``[args]``
    Names of launch arguments to keep, and the names to keep them under.
``[[milestone]]``
    ``code``, ``kind`` (progress, heartbeat, symptom, error, request, noise, other), ``phase`` (the phase that it begins),
    ``find`` (a literal text or several, one of which must stand in the record), ``pattern`` (regular expression searched
    in the record; its named groups become fields), ``when`` (``http``: only between the start of the HTTP server and the
    ready line), ``start`` (first line of a launch; repeated, it is a restart), ``args`` (holds launch arguments),
    ``ready``/``http`` (moves the launch on), ``per_rank`` (each rank prints it for itself), ``note``, ``versions`` (for the
    reader). The first match wins. What a failure line is to the failure says ``role``: initiating (why it failed; errors
    without a role are), cascade (fails since something else did), teardown (ends what is left), ending (the orderly end),
    header (announces the next line), recovered (work went on), client (a request was refused), noise. Only initiating lines
    are causes. ``explained`` (a class of stall stands for this error), ``lives_on`` (the process may live on after it).
``[[error]]``
    ``role`` and ``find``: texts that tell the role of an error line which no milestone names.
``[[bar]]``
    ``kind`` (weights, graph, download, jit, other), ``phase``, ``pattern`` for the description, ``step`` (the bar counts
    training steps).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit import knowledge_paths
from kit.knowledge_paths import TABLES
from kit.tomlfile import Table, TomlFile

ROLES = ("server", "training", "layer")
KINDS = ("progress", "heartbeat", "symptom", "error", "request", "noise", "other")
BAR_KINDS = ("weights", "graph", "download", "jit", "other")
PHASES = (
    "launch",
    "download",
    "dist_init",
    "weights",
    "post_load",
    "compile",
    "graph_capture",
    "warmup",
    "ready",
    "serving",
    "data_prep",
    "train_step",
)
STAGES = ("init", "http", "ready")
FAILURE_ROLES = ("initiating", "cascade", "teardown", "ending", "header", "recovered", "client", "noise")
_FLAGS = ("start", "args", "ready", "http", "per_rank", "explained", "lives_on")
_MILESTONE_KEYS = {*"code kind phase find pattern when role note versions".split(), *_FLAGS}
_BAR_KEYS = set("kind phase pattern step note".split())
_FILE_KEYS = {*"name role order detect args milestone bar error note".split(), *TABLES.values()}


_NUMBERED = re.compile(r"_\d$")
NO_DIGITS = {ord(digit): None for digit in "0123456789"}
"""Table for `str.translate` that drops digits."""
MOST_CANDIDATES, LONGEST_CANDIDATE = 4096, 1000
"""Records remembered by a matcher, and the longest of them: at most 4 MB."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """One kind of record that a grammar knows; the module's docstring says what its keys mean."""

    code: str
    kind: str
    phase: str | None
    find: tuple[str, ...]
    pattern: re.Pattern[str] | None
    when: str | None
    role: str | None
    grammar: str
    start: bool = False
    args: bool = False
    ready: bool = False
    http: bool = False
    per_rank: bool = False
    explained: bool = False
    lives_on: bool = False

    def fields_of(self, text: str) -> dict[str, Any] | None:
        """Fields of a record that holds one of the texts of `find`; None where the pattern does not match."""
        if self.pattern is None:
            return {}
        found = self.pattern.search(text)
        if found is None:
            return None
        # a name may stand in several branches of a pattern, numbered: exit_code, exit_code_2
        return {_NUMBERED.sub("", name): number(value) for name, value in found.groupdict().items() if value is not None}


@dataclass(frozen=True, slots=True)
class BarRule:
    """What a progress bar with such a description counts."""

    kind: str
    phase: str | None
    pattern: re.Pattern[str]
    step: bool


@dataclass(frozen=True, slots=True)
class Grammar:
    """One grammar file."""

    name: str
    role: str
    order: int
    detect: tuple[re.Pattern[str], ...]
    args: dict[str, str]
    milestones: tuple[Milestone, ...]
    bars: tuple[BarRule, ...]
    roles: tuple[tuple[str, str], ...] = ()
    """(text, role) of error lines that no milestone names."""


def number(text: str) -> Any:
    """Turn printed digits into a number; other text stays as it is.

    Examples
    --------
    >>> number("301,440"), number("39.77"), number("-9"), number("TP0"), number("True")
    (301440, 39.77, -9, 'TP0', True)
    """
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+|-?\d{1,18}", text):
        return int(text.replace(",", ""))
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    return {"True": True, "true": True, "False": False, "false": False}.get(text, text)


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


class Matcher:
    """The milestones and bars that hold for one file, in the order in which they are tried."""

    def __init__(self, grammars: Iterable[Grammar], server: str | None):
        own = [g for g in grammars if g.name == server]
        roles = {"layer"} if own and own[0].role == "server" else {"layer", "training"} if own else set(ROLES)
        others = sorted(
            (g for g in grammars if g.name != server and g.role in roles), key=lambda g: (g.role == "server", g.order)
        )
        self.server = server
        self.grammars = own + others
        self.names: dict[str, str] = {}
        for grammar in self.grammars:
            self.names.update(grammar.args)
        self.bars = [bar for grammar in self.grammars for bar in grammar.bars]
        self.roles = [entry for grammar in self.grammars for entry in grammar.roles]
        self.entries = [
            (part, milestone)
            for grammar in self.grammars
            for milestone in grammar.milestones
            for part in (milestone.find or ("",))
        ]
        self._bare = [part.translate(NO_DIGITS) for part, _ in self.entries]
        self._candidates: dict[str, list[tuple[str, Milestone]]] = {}

    def candidates(self, text: str) -> list[tuple[str, Milestone]]:
        """Entries (text of `find`, milestone) that can hold for a record: those that it holds when digits don't count.

        Logs repeat themselves with other numbers; records that differ in digits only are looked up once.
        """
        bare = text.translate(NO_DIGITS)
        found = self._candidates.get(bare)
        if found is None:
            found = [entry for part, entry in zip(self._bare, self.entries, strict=True) if part in bare]
            if len(self._candidates) >= MOST_CANDIDATES:
                self._candidates.clear()
            if len(bare) <= LONGEST_CANDIDATE:
                self._candidates[bare] = found
        return found

    def match(self, text: str, stage: str) -> tuple[Milestone, dict[str, Any]] | None:
        """First milestone that a record matches, with its fields; `stage` is init, http or ready."""
        for part, milestone in self.candidates(text):
            if part in text and (milestone.when is None or milestone.when == stage):
                fields = milestone.fields_of(text)
                if fields is not None:
                    if milestone.args:
                        fields |= {name: value for name, value in arguments(text, self.names).items() if name not in fields}
                    return milestone, fields
        return None

    def role(self, text: str) -> str:
        """Role of an error line that no milestone names."""
        return next((role for part, role in self.roles if part in text), "initiating")

    def bar(self, description: str) -> BarRule | None:
        """Rule of a bar, by its description."""
        for rule in self.bars:
            if rule.pattern.search(description):
                return rule
        return None


class Grammars:
    """All grammars that were loaded, and the matchers made of them."""

    def __init__(self, grammars: Sequence[Grammar]):
        self.all = tuple(grammars)
        self._matchers: dict[str | None, Matcher] = {}

    def detect(self, lines: Iterable[str]) -> str | None:
        """Name of the server (or training launcher) that wrote the lines, None where nothing tells."""
        votes: dict[str, int] = {}
        candidates = [g for g in self.all if g.detect and g.role in ("server", "training")]
        for line in lines:
            for grammar in candidates:
                if any(pattern.search(line) for pattern in grammar.detect):
                    votes[grammar.name] = votes.get(grammar.name, 0) + 1
        roles = {g.name: g.role for g in candidates}
        return max(votes, key=lambda name: (votes[name], roles[name] == "server"), default=None)

    def matcher(self, server: str | None) -> Matcher:
        """Matcher for files of a server (None: the layers, then every server)."""
        if server not in self._matchers:
            self._matchers[server] = Matcher(self.all, server)
        return self._matchers[server]


def _milestone(table: Table, name: str) -> Milestone:
    """One [[milestone]]."""
    table.known(_MILESTONE_KEYS)
    code = table.text("code", needed=True)
    find, values = table.strings("find"), table.values
    if not find and "pattern" not in values:
        raise table.error("find", "a milestone needs find or pattern")
    pattern = table.expression("pattern", values["pattern"]) if "pattern" in values else None
    kind = table.text("kind", KINDS, "progress")
    return Milestone(
        code=code,
        kind=kind,
        phase=table.text("phase", PHASES),
        find=find,
        pattern=pattern,
        when=table.text("when", STAGES),
        role=table.text("role", FAILURE_ROLES, "initiating" if kind == "error" else None),
        grammar=name,
        **{flag: table.flag(flag) for flag in _FLAGS},
    )


def _error(table: Table) -> list[tuple[str, str]]:
    """One [[error]]: its texts, each with their role."""
    table.known(("role", "find", "note"))
    role = table.text("role", FAILURE_ROLES, needed=True)
    return [(text, role) for text in table.strings("find")]


def _bar(table: Table) -> BarRule:
    """One [[bar]]."""
    table.known(_BAR_KEYS)
    return BarRule(
        table.text("kind", BAR_KINDS, "other"),
        table.text("phase", PHASES),
        table.expression("pattern", table.values.get("pattern")),
        table.flag("step"),
    )


def _grammar(file: TomlFile) -> Grammar:
    """One file."""
    top = file.top
    top.known(_FILE_KEYS)
    name = top.text("name", needed=True)
    return Grammar(
        name=name,
        role=top.text("role", ROLES, needed=True),
        order=int(top.number("order", 50)),
        detect=tuple(top.expression("detect", expression) for expression in top.strings("detect")),
        args=top.names("args"),
        milestones=tuple(_milestone(table, name) for table in file.tables("milestone")),
        bars=tuple(_bar(table) for table in file.tables("bar")),
        roles=tuple(entry for table in file.tables("error") for entry in _error(table)),
    )


def _read(files: list[TomlFile]) -> Grammars:
    """All files, the user's first: one of a known name goes before the packaged one, and adds to it."""
    grammars: dict[str, Grammar] = {}
    for file in reversed(files):
        grammar = _grammar(file)
        before = grammars.get(grammar.name)
        if before is not None:
            grammar = replace(
                grammar,
                detect=grammar.detect + before.detect,
                args=before.args | grammar.args,
                milestones=grammar.milestones + before.milestones,
                bars=grammar.bars + before.bars,
                roles=grammar.roles + before.roles,
            )
        grammars[grammar.name] = grammar
    return Grammars(sorted(grammars.values(), key=lambda grammar: (grammar.order, grammar.name)))


def load(folders: Sequence[Path] = ()) -> Grammars:
    """Load the packaged grammars and those of further folders.

    Parameters
    ----------
    folders : sequence of Path
        Folders of the user's own (`kit.knowledge_paths`). A file with the name of a packaged grammar extends it: its
        milestones are tried first.

    Returns
    -------
    Grammars

    Raises
    ------
    kit.errors.UsageError
        A file is no valid TOML, lacks a key, or holds a wrong value; the message names file, line and key.

    Examples
    --------
    >>> load().matcher("sglang").match("Load weight begin. avail mem=93.41 GB", "init")[0].code
    'weights_begin'
    """
    return knowledge_paths.load("logs", _read, tuple(map(Path, folders)))


def codes(flag: str, server: str | None, folders: Sequence[Path] = ()) -> frozenset[str]:
    """Codes of the milestones that have a flag, in the grammars that hold for a server's log.

    Examples
    --------
    >>> "weights_end" in codes("per_rank", "sglang"), "weights_end" in codes("per_rank", "llamacpp")
    (True, False)
    """
    grammars = load(folders).matcher(server).grammars
    return frozenset(milestone.code for grammar in grammars for milestone in grammar.milestones if getattr(milestone, flag))


def to_json(fields: dict[str, Any]) -> str | None:
    """Fields as JSON text, None where there are none."""
    return json.dumps(fields, ensure_ascii=False) if fields else None
