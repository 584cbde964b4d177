"""Known signatures with remedies: patterns over facts, kept as data in `kit/knowledge/signatures.toml` and the user's folders.

The head of that file says what its keys mean. All signatures that fit are given, in order: the user's before the packaged ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.analyse.verdict.advice import advice_of_log
from kit.analyse.verdict.classes import classes
from kit.analyse.verdict.good_run import changed
from kit.analyse.verdict.gpu_generation import generation
from kit.analyse.verdict.processes import argument_fields
from kit.analyse.verdict.refused_arguments import refused
from kit.analyse.verdict.scene import Scene
from kit.analyse.verdict.settings import VERSIONS, Settings, settings_of
from kit.analyse.verdict.surroundings import Surroundings
from kit.knowledge_paths import PACKAGED, SIGNATURES, load
from kit.parse.grammar_file import PHASES
from kit.tomlfile import Table, TomlFile

FILE = PACKAGED / SIGNATURES
FACTS = frozenset("class phase server version signs gpu gpu_generation filesystem error frame log place".split())
"""What a signature may ask about, beside `arg.NAME`."""
_KEYS = frozenset("name like what do source since fixed class example note when unless".split())
_ARGUMENT = re.compile(r"arg\.[\w.-]+")
_NUMBER = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:\.?(?:post|rc|dev|a|b)\d+)*)")

Context = dict[str, list[str]]
Conditions = dict[str, tuple[re.Pattern[str] | str, ...]]


@dataclass(frozen=True)
class Signature:
    """One signature."""

    name: str
    what: str
    do: str
    source: str = ""
    # `since`, `fixed`: first version with the trouble, first without: where the run's version is known, it lies in between
    since: str | None = None
    fixed: str | None = None
    klass: str | None = None  # class that it turned out to be, where that is not what the facts show
    example: str | None = None
    # `when`, `unless`: expressions by key. All of `when` must be found; none of `unless` may be. A version range stays text.
    when: Conditions = field(default_factory=dict)
    unless: Conditions = field(default_factory=dict)

    def matched(self, known: Context) -> dict[str, str] | None:
        """What of a run fits, by key; None where the signature does not hold."""
        found: dict[str, str] = {}
        for key, wanted in sorted(self.when.items(), key=lambda entry: entry[0] == "version"):  # versions cost an import
            texts = [_first(key, one, known.get(key, ())) for one in wanted]
            if None in texts:
                return None
            found[key] = "; ".join(dict.fromkeys(texts))[:120]
        for key, wanted in self.unless.items():
            if any(_first(key, one, known.get(key, ())) is not None for one in wanted):
                return None
        known_version = next(iter(known.get("version", ())), None)
        return found if known_version is None or self._holds_in(known_version) else None

    def _holds_in(self, known: str) -> bool:
        wanted = ",".join(part for part in (self.since and f">={self.since}", self.fixed and f"<{self.fixed}") if part)
        return not wanted or _in_range(wanted, known)


def _first(key: str, wanted: re.Pattern[str] | str, texts: Iterable[str]) -> str | None:
    if isinstance(wanted, str):
        return next((text for text in texts if _in_range(wanted, text)), None)
    return next((text for text in texts if wanted.search(text)), None)


def _in_range(wanted: str, known: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(wanted).contains(known, prereleases=True)


def _conditions(table: Table, key: str, words: Mapping[str, Sequence[str]]) -> Conditions:
    """Conditions of a signature; an expression that fits none of the words known for its key is a slip of the pen."""
    values = table.values.get(key, {})
    if not isinstance(values, dict) or key == "when" and not values:
        raise table.error(key, "it is not a table of conditions: { class = '^device_hang$', … }")
    found: Conditions = {}
    for name, value in values.items():
        if name not in FACTS and not _ARGUMENT.fullmatch(name):
            raise table.error(name, f"a signature can't ask for it; it can for {', '.join(sorted(FACTS))}, arg.NAME")
        given = value if isinstance(value, list) else [value]
        if not given or not all(isinstance(one, str) for one in given):
            raise table.error(name, "it is neither a text nor a list of texts")
        found[name] = tuple(_range(table, name, one) if name == "version" else table.expression(name, one) for one in given)
        allowed = words.get(name, ())
        if allowed and not any(all(not isinstance(one, str) and one.search(word) for one in found[name]) for word in allowed):
            raise table.error(name, f"it fits none of {', '.join(allowed)}")
    return found


def _range(table: Table, key: str, text: str) -> str:
    """A version range, checked where it is a user's; the packaged ones are checked by a test."""
    if table.file.path != FILE:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            SpecifierSet(text)
        except InvalidSpecifier as error:
            raise table.error(key, f"it is not a range of versions such as '>=0.5.0,<0.5.10': {error}") from error
    return text


def read(path: Path) -> list[Signature]:
    """Signatures of one file; `kit.errors.UsageError` names file, line and key of a mistake."""
    return list(_read([TomlFile(path, "signatures")]))


def _read(files: list[TomlFile]) -> tuple[Signature, ...]:
    folders = dict.fromkeys(file.path.resolve().parent for file in files)
    words = {"class": tuple(classes(folder for folder in folders if folder != PACKAGED)), "phase": PHASES}
    found: list[Signature] = []
    for file in files:
        for table in file.tables("signature"):
            found.append(_signature(table, words, {one.name: one for one in found}))
    return tuple(found)


def _signature(table: Table, words: Mapping[str, Sequence[str]], earlier: Mapping[str, Signature]) -> Signature:
    """One [[signature]], held against the words that are known; an error names file, line and key."""
    table.known(_KEYS)
    like = earlier.get(table.text("like", earlier) or "")
    name = table.text("name", needed=True)
    what = table.text("what", needed=not like, default=like.what if like else None)
    do = table.text("do", needed=not like, default=like.do if like else None)
    for key, sign in (("since", ">="), ("fixed", "<")):
        if table.text(key):
            _range(table, key, sign + table.values[key])
    return Signature(
        name=name,
        what=what,
        do=do,
        source=table.text("source", default=like.source if like else ""),
        since=table.text("since"),
        fixed=table.text("fixed"),
        klass=table.text("class", words["class"]),
        example=table.text("example"),
        when=_conditions(table, "when", words),
        unless=_conditions(table, "unless", words),
    )


def signatures(folders: Iterable[Path] = ()) -> tuple[Signature, ...]:
    """All signatures: those of the user's folders, then the packaged ones, of which the specific stand first.

    Examples
    --------
    >>> signatures()[0].name
    'attention-backend-hangs-in-capture-on-blackwell'
    """
    return load("signatures", _read, tuple(folders))


def server_version(settings: Settings) -> str | None:
    """Version of the server: as it printed or was asked for it, else of its container image's tag.

    Examples
    --------
    >>> server_version(Settings("sglang", {"versions": {"container image": "lmsysorg/sglang:v0.5.9-cu126"}}))
    '0.5.9'
    """
    versions = settings.of(VERSIONS)
    image = str(versions.get("container image") or "").rpartition(":")[2]
    for text in (versions.get("server version"), versions.get(settings.server or ""), image):
        found = _NUMBER.search(str(text or ""))
        if found:
            return found.group(1)
    return None


def context(scene: Scene, klass: str, signs: Iterable[str], where: Surroundings) -> Context:
    """What signatures may ask about, as texts by key."""
    evidence, settings = scene.evidence, settings_of(scene.evidence)
    gpus = sorted({row["name"] for row in evidence.gpus if row.get("name")})
    told = [mark.text for mark in evidence.log.marks if mark.kind in ("symptom", "error")]
    told += [row["text"] for row in evidence.log.tail]
    found = {
        "class": [klass],
        "phase": [scene.phase or ""],
        "server": [settings.server or ""],
        "version": [number] if (number := server_version(settings)) else [],
        "signs": sorted(signs),
        "place": sorted(where.traits),
        "gpu": gpus,
        "gpu_generation": sorted({name for gpu in gpus if (name := generation(gpu, evidence.run.knowledge))}),
        "filesystem": sorted({row["type"] for row in evidence.filesystems if row.get("type")}),
        "error": [str(scene.facts.value("first_error") or "")],
        "frame": list(dict.fromkeys(f"{row.get('function')} ({row.get('file') or ''})" for row in evidence.stacks)),
        "log": list(dict.fromkeys([*told, str(scene.facts.value("last_line") or "")])),
    }
    for name, value in _arguments(scene, settings):
        texts = found.setdefault(f"arg.{name}", [])
        if str(value) not in texts:
            texts.append(str(value))
    return {key: [text for text in texts if text or key.startswith("arg.")] for key, texts in found.items()}


def _arguments(scene: Scene, settings: Settings) -> Iterator[tuple[str, object]]:
    """Launch arguments under the names as typed, as the grammar keeps them, and as `kit compare` calls them."""
    for fields in argument_fields(scene.evidence):
        yield from fields.items()
    yield from settings.options.items()


def remedies(scene: Scene, klass: str, signs: Iterable[str], where: Surroundings) -> list[dict]:
    """What the log itself advises, then all signatures that fit, in order.

    Returns `name`, `what`, `do`, `source`, `matched` (what of the run fits, by key), and `since`, `fixed`, `class`, `example`
    where the signature has them.
    """
    known = context(scene, klass, signs, where)
    found = advice_of_log(scene) if where.traits & {"stalled", "failed", "unknown"} else []
    if wrong := refused(scene):
        what = "the program does not know its command line"
        source = f"{wrong.mark.capture}, line {wrong.mark.line}"
        found = [{"name": "wrong-argument", "what": what, "do": wrong.do, "source": source, "matched": {"log": wrong.wrong}}]
    if scene.good and where.traits & {"stalled", "failed"} and (differing := changed(scene)):
        back = ", ".join(f"{one.name} {one.values[0] or 'not given'}" for one in differing[:4])
        told = {
            "name": "as-in-the-good-run",
            "what": f"it differs from {scene.good.name}, which worked",
            "source": scene.good.name,
        }
        found.append({**told, "do": f"set back one at a time, and launch again: {back}", "matched": {}})
    for entry in signatures(scene.evidence.run.knowledge):
        matched = entry.matched(known)
        if matched is not None:
            told = {"since": entry.since, "fixed": entry.fixed, "class": entry.klass, "example": entry.example}
            found.append(
                {
                    "name": entry.name,
                    "what": entry.what,
                    "do": where.filled(entry.do),
                    "source": entry.source,
                    "matched": matched,
                    **{key: value for key, value in told.items() if value},
                }
            )
    return found
