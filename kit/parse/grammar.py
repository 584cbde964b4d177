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
    reader). The first match wins.
``[[bar]]``
    ``kind`` (weights, graph, download, jit, other), ``phase``, ``pattern`` for the description, ``step`` (the bar counts
    training steps).
"""
from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kit.errors import KitError

FOLDER = Path(__file__).resolve().parent.parent / "knowledge" / "logs"
ROLES = ("server", "training", "layer")
KINDS = ("progress", "heartbeat", "symptom", "error", "request", "noise", "other")
BAR_KINDS = ("weights", "graph", "download", "jit", "other")
PHASES = ("launch", "download", "dist_init", "weights", "post_load", "compile", "graph_capture", "warmup", "ready", "serving",
          "data_prep", "train_step")
STAGES = ("init", "http", "ready")
_MILESTONE_KEYS = set("code kind phase find pattern when start args ready http note versions per_rank".split())
_BAR_KEYS = set("kind phase pattern step note".split())
_FILE_KEYS = set("name role order detect args milestone bar note".split())


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
    start: bool
    args: bool
    ready: bool
    http: bool
    per_rank: bool
    grammar: str

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
        others = sorted((g for g in grammars if g.name != server and g.role in roles),
                        key=lambda g: (g.role == "server", g.order))
        self.server = server
        self.grammars = own + others
        self.names: dict[str, str] = {}
        for grammar in self.grammars:
            self.names.update(grammar.args)
        self.bars = [bar for grammar in self.grammars for bar in grammar.bars]
        self.entries = [(part, milestone) for grammar in self.grammars for milestone in grammar.milestones
                        for part in (milestone.find or ("",))]
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


class _File:
    """One TOML file: its entries, and errors that name file, line and key."""

    def __init__(self, path: Path):
        self.path, self.lines = path, path.read_text(encoding="utf-8").splitlines()
        try:
            self.data = tomllib.loads("\n".join(self.lines))
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            line = min(int(found.group(1)) if found else len(self.lines), len(self.lines))
            key = self.lines[line - 1].split("=")[0].strip() if self.lines else ""
            raise self.error(line, key, f"it is no valid TOML: {error}") from error

    def error(self, where: int | str, key: str, why: str) -> KitError:
        """Error at a line, or at the first line that holds a text."""
        if isinstance(where, str):
            where = next((count for count, line in enumerate(self.lines, 1) if where and where in line), 1)
        return KitError(f"log grammar {self.path}, line {where}, key {key!r}", why, f"correct that line: {self.path}:{where}")

    def text(self, entry: dict[str, Any], key: str, allowed: Sequence[str] = (), default: str | None = None) -> str | None:
        """Value of a key, held against the values allowed; without a default the key has to be there."""
        value = entry.get(key, default)
        if not isinstance(value, str) and (value is not None or default is None and key in ("name", "role", "code")):
            raise self.error(str(entry.get("code", entry.get("pattern", ""))), key, "it is missing or no text")
        if value is not None and allowed and value not in allowed:
            raise self.error(f'"{value}"', key, f"{value!r} is none of {', '.join(allowed)}")
        return value

    def known(self, entry: dict[str, Any], keys: set[str]) -> None:
        """Raise where an entry has a key that means nothing."""
        for key in entry.keys() - keys:
            raise self.error(key, key, f"the key is none of {', '.join(sorted(keys))}")

    def pattern(self, expression: Any, key: str) -> re.Pattern[str]:
        """Compile a regular expression."""
        try:
            return re.compile(expression)
        except (re.error, TypeError) as error:
            raise self.error(str(expression), key, f"it is no valid regular expression: {error}") from error

    def milestone(self, entry: dict[str, Any], name: str) -> Milestone:
        """One [[milestone]]."""
        self.known(entry, _MILESTONE_KEYS)
        code = self.text(entry, "code") or ""
        find = entry.get("find", ())
        if not find and "pattern" not in entry:
            raise self.error(code, "find", "a milestone needs find or pattern")
        pattern = self.pattern(entry["pattern"], "pattern") if "pattern" in entry else None
        return Milestone(code, self.text(entry, "kind", KINDS, "progress") or "progress", self.text(entry, "phase", PHASES),
                         (find,) if isinstance(find, str) else tuple(find), pattern, self.text(entry, "when", STAGES),
                         *(bool(entry.get(key)) for key in ("start", "args", "ready", "http", "per_rank")), name)

    def bar(self, entry: dict[str, Any]) -> BarRule:
        """One [[bar]]."""
        self.known(entry, _BAR_KEYS)
        return BarRule(self.text(entry, "kind", BAR_KINDS, "other") or "other", self.text(entry, "phase", PHASES),
                       self.pattern(entry.get("pattern"), "pattern"), bool(entry.get("step")))

    def grammar(self) -> Grammar:
        """The whole file."""
        self.known(self.data, _FILE_KEYS)
        name, role = self.text(self.data, "name") or "", self.text(self.data, "role", ROLES) or ""
        detect = tuple(self.pattern(expression, "detect") for expression in self.data.get("detect", []))
        return Grammar(name, role, int(self.data.get("order", 50)), detect, dict(self.data.get("args", {})),
                       tuple(self.milestone(entry, name) for entry in self.data.get("milestone", [])),
                       tuple(self.bar(entry) for entry in self.data.get("bar", [])))


@lru_cache(maxsize=8)
def _load(folders: tuple[Path, ...]) -> Grammars:
    found: dict[str, Grammar] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*.toml")):
            grammar = _File(path).grammar()
            before = found.get(grammar.name)
            if before is not None:  # a user's file of a known name goes before the packaged one, and adds to it
                grammar = replace(grammar, detect=grammar.detect + before.detect, args=before.args | grammar.args,
                                  milestones=grammar.milestones + before.milestones, bars=grammar.bars + before.bars)
            found[grammar.name] = grammar
    return Grammars(tuple(found.values()))


def load(folders: Sequence[Path] = ()) -> Grammars:
    """Load the packaged grammars and those of further folders.

    Parameters
    ----------
    folders : sequence of Path
        Folders with ``*.toml`` grammars of the user's own. A file with the name of a packaged grammar extends it: its
        milestones are tried first.

    Returns
    -------
    Grammars

    Raises
    ------
    kit.errors.KitError
        A file is no valid TOML, lacks a key, or holds a wrong value; the message names file, line and key.

    Examples
    --------
    >>> load().matcher("sglang").match("Load weight begin. avail mem=93.41 GB", "init")[0].code
    'weights_begin'
    """
    return _load((FOLDER, *map(Path, folders)))


def per_rank_codes(server: str | None) -> frozenset[str]:
    """Codes of milestones that each rank of a server prints for itself, so that a rank without one is behind.

    Examples
    --------
    >>> "weights_end" in per_rank_codes("sglang"), "weights_end" in per_rank_codes("llamacpp")
    (True, False)
    """
    return frozenset(milestone.code for grammar in load().matcher(server).grammars for milestone in grammar.milestones
                     if milestone.per_rank)


def to_json(fields: dict[str, Any]) -> str | None:
    """Fields as JSON text, None where there are none."""
    return json.dumps(fields, ensure_ascii=False) if fields else None
