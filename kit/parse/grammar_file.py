"""What a grammar file holds, and how it is read: `kit/knowledge/logs/*.toml`, and folders of the user's.

``name``
    The server (``sglang``) or layer (``nccl``) that writes such lines.
``role``
    ``server``: one such grammar holds for a file, told by ``detect``; ``training``: holds where no server is told;
    ``layer``: holds in every file, after the server's own milestones.
``detect``, ``certain``
    Regular expressions. The server whose ``detect`` match most of the first lines is the file's. A file is a log for certain
    where one of its lines begins with a ``certain``.
``hosts``
    Servers that run within this one, whose logs hold lines of both: its milestones are tried after theirs.
``modules``
    Regular expressions for its packages and programs, as files of stacks and command lines name them.
``[args]``
    Names of launch arguments to keep, and the names to keep them under.
``[traits]``
    ``port`` (where none is given), ``ends_with_worker`` (the launch ends when a worker has died), ``once_from_ranks`` (from so
    many ranks on, a milestone that rank 0 alone prints speaks for all; 3 where not given), ``frontend_is_rank_0`` (without an
    engine process), ``data_parallel_shares_ranks`` (data-parallel ranks are tensor-parallel ones), ``message_after`` (what
    stands before the message of an error), ``dots`` (progress is drawn as dots),
    ``rests`` (it answers without a model, and loads one when a request asks for it).
``[metrics]``
    ``tokens``, ``running``, ``waiting``: names of the counter of generated tokens and of the gauges of running and of queued
    requests, or parts of them.
``[caches]``
    Variables that name the folders of downloads and of compilers, with the folder that serves where one is not set.
``[launch]``
    ``command`` (what starts it in a command line; options follow), ``image`` (container images whose entry point it is),
    ``positional`` (name of the first word that belongs to no option), ``flags`` (options without a value), ``human`` (options
    whose numbers may end in k, m, g), ``words`` (further options, for the nearest right word), ``[launch.alias]`` (other
    spelling = name; dashes are underscores).
``[[prefix]]``
    ``pattern`` of what stands before a message, with `{date}`, `{clock}`, `{zone}`, `{level}`, `{month}`, `{ahead}` for the
    usual parts, and the groups of `kit.parse.records.GROUPS`: ``label`` (rank words such as TP3), ``rank``, ``local_rank``,
    ``pid``, ``process``, ``src``, ``l`` (level), ``uptime_s``. ``begins`` (``[``, ``(``, ``0`` for a digit, ``a`` for a letter:
    tried on those alone), ``source``, ``warning`` (milestone of its warnings), ``owned`` (such a record is this grammar's in
    every log).
``[[rank]]``
    ``pattern`` with a group ``rank``, where the message names its writer's rank; ``bare`` (also without a prefix).
``[[process]]``
    ``role`` (frontend, engine, worker, compiler, helper; any: some process of a server), ``title`` (regular expression),
    ``program`` (names of programs), ``rank`` (regular expression with a group ``rank`` or ``label``).
``[[milestone]]``
    ``code``, ``kind`` (progress, heartbeat, symptom, error, request, noise, other), ``phase`` (the phase that it begins),
    ``find`` (a literal text or several, one of which must stand in the record), ``pattern`` (regular expression searched
    in the record; its named groups become fields), ``when`` (``http``: only between the start of the HTTP server and the
    ready line), ``start`` (first line of a launch; repeated, it is a restart), ``args`` (holds launch arguments),
    ``ready``/``http`` (moves the launch on), ``per_rank`` (each rank prints it for itself), ``note``, ``versions`` (for the
    reader). The first match wins. What a failure line is to the failure says ``role``: initiating (why it failed; errors
    without a role are), cascade (fails since something else did), teardown (ends what is left), ending (the orderly end),
    finished (the same, by itself), closing (an end where the log closes on it), header (announces the next line), recovered
    (work went on), client (a request was refused), noise. Only initiating lines are causes. ``explained`` (a class of stall
    stands for this error), ``lives_on`` (the process may live on after it).
``[[error]]``
    ``role`` and ``find``: texts that tell the role of an error line which no milestone names.
``[[bar]]``
    ``kind`` (weights, graph, download, jit, other), ``phase``, ``pattern`` for the description, ``counts`` for what its
    rate counts (``B``, ``it``, ``files``; empty where it tells none), ``step`` (the bar counts training steps).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kit.knowledge_paths import TABLES
from kit.parse.records import PrefixRule, RankRule, expand
from kit.tomlfile import Table, TomlFile

ROLES = ("server", "training", "layer")
KINDS = ("progress", "heartbeat", "symptom", "error", "request", "noise", "other")
BAR_KINDS = ("weights", "graph", "download", "jit", "other")
PHASES = tuple(
    """
    launch download dist_init weights post_load compile graph_capture warmup ready serving data_prep train_step
    """.split()
)
"""Order of the phases; the last two are a training job's."""
STAGES = ("init", "http", "ready")
FAILURE_ROLES = ("initiating", "cascade", "teardown", "ending", "finished", "closing", "header", "recovered", "client", "noise")
PROCESS_ROLES = ("frontend", "engine", "worker", "compiler", "helper", "any")
BEGINNINGS = ("[", "(", "0", "a")
_FLAGS = ("start", "args", "ready", "http", "per_rank", "explained", "lives_on")
_MILESTONE_KEYS = {*"code kind phase find pattern when role note versions".split(), *_FLAGS}
_LISTS = ("prefix", "rank", "process", "milestone", "error", "bar")
_FILE_KEYS = {
    *"name role order detect certain hosts modules args traits metrics caches launch note".split(),
    *_LISTS,
    *TABLES.values(),
}
_NUMBERED = re.compile(r"_\d$")


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


_VERSION = re.compile(r"-\d+(?:\.\d+)*$")
"""What compilers of several versions bear behind their names: clang-20, gcc-12."""


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

    def opens_with(self, part: str) -> bool:
        """Whether a record that begins with a text of `find` is of this kind, whatever follows."""
        if self.pattern is None:
            return True
        found = None if re.search(r"\$|\(\?[!=]|\\[bBZ]", self.pattern.pattern) else self.pattern.match(part)
        return found is not None and found.end() <= len(part) and not found.groupdict()

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
    counts: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class ProcessRule:
    """What the title of a process tells."""

    role: str | None
    title: re.Pattern[str] | None
    programs: frozenset[str]
    rank: re.Pattern[str] | None

    def fits(self, title: str) -> bool:
        """Whether a title is of such a process."""
        if self.title is not None and self.title.search(title):
            return True
        program = _VERSION.sub("", title.split(" ", 1)[0].rsplit("/", 1)[-1]) if self.programs else ""
        return program in self.programs


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells a server from others; the module's docstring says what the keys mean."""

    port: int | None = None
    ends_with_worker: bool = False
    once_from_ranks: int = 3
    frontend_is_rank_0: bool = False
    data_parallel_shares_ranks: bool = False
    message_after: re.Pattern[str] | None = None
    dots: bool = False
    rests: bool = False


@dataclass(frozen=True)
class Launch:
    """How a server is started."""

    command: re.Pattern[str]
    image: re.Pattern[str]
    positional: str | None
    flags: frozenset[str]
    human: frozenset[str]
    alias: dict[str, str]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grammar:
    """One grammar: a file, with those of the same name that add to it."""

    name: str
    role: str
    order: int
    detect: tuple[re.Pattern[str], ...] = ()
    certain: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    modules: tuple[re.Pattern[str], ...] = ()
    args: dict[str, str] = field(default_factory=dict)
    traits: Traits = Traits()
    metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    caches: dict[str, str] = field(default_factory=dict)
    launch: Launch | None = None
    prefixes: tuple[PrefixRule, ...] = ()
    ranks: tuple[RankRule, ...] = ()
    processes: tuple[ProcessRule, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    bars: tuple[BarRule, ...] = ()
    roles: tuple[tuple[str, str], ...] = ()
    """(text, role) of error lines that no milestone names."""

    def over(self, before: Grammar) -> Grammar:
        """This grammar before another of its name: lists are tried first, names and traits replace."""
        merged: dict[str, Any] = {}
        for name in (entry.name for entry in fields(self)):
            mine, theirs = getattr(self, name), getattr(before, name)
            if isinstance(mine, tuple):
                merged[name] = mine + theirs
            elif isinstance(mine, dict):
                merged[name] = theirs | mine
        traits = self.traits if self.traits != Traits() else before.traits
        return replace(self, **merged, traits=traits, launch=self.launch or before.launch)


def read(file: TomlFile) -> Grammar:
    """One file; an error names file, line and key."""
    top = file.top
    top.known(_FILE_KEYS)
    name = top.text("name", needed=True)
    metrics = top.table("metrics")
    metrics.known(("tokens", "running", "waiting"))
    return Grammar(
        name=name,
        role=top.text("role", ROLES, needed=True),
        order=int(top.number("order", 50)),
        detect=tuple(top.expression("detect", expression) for expression in top.strings("detect")),
        certain=tuple(top.expression("certain", expression).pattern for expression in top.strings("certain")),
        hosts=top.strings("hosts"),
        modules=tuple(top.expression("modules", f"(?i)(?:{name})(?=[.:]|$)") for name in top.strings("modules")),
        args=top.names("args"),
        traits=_traits(top.table("traits")),
        metrics={key: metrics.strings(key) for key in metrics.values},
        caches=top.names("caches"),
        launch=_launch(top.table("launch")) if "launch" in top.values else None,
        prefixes=tuple(_prefix(table, name) for table in file.tables("prefix")),
        ranks=tuple(_rank(table, name) for table in file.tables("rank")),
        processes=tuple(_process(table) for table in file.tables("process")),
        milestones=tuple(_milestone(table, name) for table in file.tables("milestone")),
        bars=tuple(_bar(table) for table in file.tables("bar")),
        roles=tuple(entry for table in file.tables("error") for entry in _error(table)),
    )


def _traits(table: Table) -> Traits:
    table.known([entry.name for entry in fields(Traits)])
    after = table.values.get("message_after")
    return Traits(
        port=table.number("port"),
        ends_with_worker=table.flag("ends_with_worker"),
        once_from_ranks=table.number("once_from_ranks", 3),
        frontend_is_rank_0=table.flag("frontend_is_rank_0"),
        data_parallel_shares_ranks=table.flag("data_parallel_shares_ranks"),
        message_after=None if after is None else table.expression("message_after", after),
        dots=table.flag("dots"),
        rests=table.flag("rests"),
    )


def _launch(table: Table) -> Launch:
    table.known([entry.name for entry in fields(Launch)])
    return Launch(
        command=table.expression("command", table.values.get("command")),
        image=table.expression("image", table.values.get("image", "(?!)")),
        positional=table.text("positional"),
        flags=frozenset(table.strings("flags")),
        human=frozenset(table.strings("human")),
        alias=table.names("alias"),
        words=table.strings("words"),
    )


def _prefix(table: Table, name: str) -> PrefixRule:
    table.known(("pattern", "begins", "source", "warning", "owned", "note"))
    return PrefixRule(
        pattern=table.expression("pattern", expand(table.text("pattern", needed=True))),
        grammar=name,
        begins=table.text("begins", BEGINNINGS),
        source=table.text("source"),
        warning=table.text("warning"),
        owned=table.flag("owned"),
    )


def _rank(table: Table, name: str) -> RankRule:
    table.known(("pattern", "bare", "note"))
    pattern = table.expression("pattern", table.values.get("pattern"))
    if "rank" not in pattern.groupindex:
        raise table.error("pattern", "it has no group (?P<rank>…)")
    return RankRule(pattern, name, table.flag("bare"))


def _process(table: Table) -> ProcessRule:
    table.known(("role", "title", "program", "rank", "note"))
    title, rank = (table.expression(key, table.values[key]) if key in table.values else None for key in ("title", "rank"))
    if rank is not None and not {"rank", "label"} & rank.groupindex.keys():
        raise table.error("rank", "it has neither a group (?P<rank>…) nor (?P<label>…)")
    return ProcessRule(table.text("role", PROCESS_ROLES), title, frozenset(table.strings("program")), rank)


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
    table.known(("kind", "phase", "pattern", "counts", "step", "note"))
    return BarRule(
        table.text("kind", BAR_KINDS, "other"),
        table.text("phase", PHASES),
        table.expression("pattern", table.values.get("pattern")),
        table.flag("step"),
        table.expression("counts", table.values["counts"]) if "counts" in table.values else None,
    )
