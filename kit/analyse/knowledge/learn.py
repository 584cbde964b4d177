"""Learning: a signature written from a run whose cause is known."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.analyse.knowledge.judged_run import JudgedRun, note_solved, open_case
from kit.analyse.verdict.classes import UNDETERMINED, StallClass, classes
from kit.analyse.verdict.signatures import read
from kit.analyse.verdict.stacks import all_stacks
from kit.errors import EvidenceError, KitError, UsageError, nearest
from kit.folder import write_whole
from kit.knowledge_paths import SIGNATURES, VARIABLE, folders
from kit.redact import scrub_text
from kit.run import Run

MOST_SIGNS, MOST_ARGUMENTS = 2, 2
"""Signs and arguments that a learnt signature asks for: with more of them it would fit this one run alone."""
CARRIES = 1.0
"""Least weight, in `classes.toml`, of a sign that carries a class."""
_TELLING = re.compile(
    r"backend|all_reduce|graph|eager|quant|compil|speculative|fit$|warmup|load_format|dtype|attention|moe|executor"
)
"""Arguments that choose other code: those that a signature asks for."""
_WAITS = frozenset(("idle", "sleep", None))


@dataclass
class Learnt:
    """A signature that was written."""

    name: str
    path: Path  # file that it was added to
    text: str  # its TOML
    matched: dict[str, str]  # what of the run it fits, by key
    noted: Path  # file that now says what the run turned out to be

    def __str__(self) -> str:
        return (
            f"{self.path}: signature {self.name!r} added; it fits the run it was learnt from\n\n{self.text.strip()}\n\n"
            f"Remove conditions that another run with this cause would not show.\n"
            f"{self.noted}: says what the run turned out to be"
        )

    __repr__ = __str__


def learn(
    path: str | Path | Run,
    klass: str,
    remedy: str,
    *,
    name: str | None = None,
    what: str | None = None,
    source: str | None = None,
    knowledge: str | Path | None = None,
    out: str | Path | None = None,
    captured_at: str | None = None,
) -> Learnt:
    """Write a signature from a run whose cause is known.

    It asks for the facts that tell the run from others: server and series of versions, phase, the signs that carry the class,
    options that choose other code, the GPU's generation, the innermost place of the stacks, the first error with its numbers and
    paths made general. Names of hosts, users, models and paths are not kept.

    Parameters
    ----------
    path : str, path or Run
        The solved run.
    klass : str
        What it turned out to be, a class of `kit/knowledge/classes.toml`.
    remedy : str
        What helped.
    name, what, source : str, optional
        Name of the signature; what it is, in a sentence; who says so.
    knowledge, out : path, optional
        Folder whose `signatures.toml` it is added to, or another file; without both, the first folder of `KIT_KNOWLEDGE`.
    captured_at : str, optional
        When the evidence was taken, as for `kit.open_run`.

    Raises
    ------
    UsageError
        There is no such class, the name is taken, no place to write is given, or the file there is wrong.
    EvidenceError
        The run cannot be read, the file cannot be written, or the run shows nothing that would tell it from others.

    Examples
    --------
    >>> import kit, shutil, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = shutil.copytree(kit.sample_path("stopped-rank"), f"{folder}/run")
    ...     kit.learn(run, "rank_straggler", "kill -CONT the rank", knowledge=f"{folder}/knowledge").matched["signs"]
    'rank_stopped; odd_rank_elsewhere'
    """
    if not remedy.strip():
        raise UsageError("there is nothing to learn", "the remedy is empty", "say what helped: --remedy 'launch with …'")
    file = _place(knowledge, out)
    before = read(file) if file.exists() else []
    judged = open_case(path, captured_at, file.parent if out is None and file.parent.is_dir() else None)
    meaning = _class(klass, judged.run).meaning
    name = _name(name, judged, klass, {entry.name for entry in before})
    text = _toml(judged, klass, name, what or meaning, remedy, source, conditions(judged, klass))
    matched = _prove(text, judged)
    _append(file, text)
    solved = {"class": klass, "remedy": remedy.strip(), "signature": name, "run": judged.run.name}
    return Learnt(name, file, text, matched, noted=note_solved(judged.run, solved, file.parent))


def _class(name: str, run: Run) -> StallClass:
    """A class that can be learnt, of the packaged ones or of the run's folders."""
    known = classes(run.knowledge)
    if name in known and name != UNDETERMINED:
        return known[name]
    near = nearest(name, known)
    raise UsageError(
        f"unknown class {name!r}",
        f"the nearest is {near!r}" if near else "no name is close",
        f"choose one of: {', '.join(other for other in known if other != UNDETERMINED)}",
    )


def _place(knowledge: str | Path | None, out: str | Path | None) -> Path:
    if out is not None:
        return Path(out)
    given = Path(knowledge) if knowledge is not None else next(iter(folders()), None)
    if given is None:
        raise UsageError(
            "no place for the signature",
            "neither a folder nor a file was named",
            f"say where: --knowledge FOLDER, -o FILE or {VARIABLE}",
        )
    return given / SIGNATURES


def _name(name: str | None, judged: JudgedRun, klass: str, taken: set[str]) -> str:
    if name is not None:
        if name in taken:
            why = "names are unique in a file"
            raise UsageError(f"there is a signature {name!r} already", why, "choose another: --name NAME")
        return name
    parts = [klass, judged.settings.server, judged.scene.phase]
    base = re.sub(r"[^a-z0-9]+", "-", "-".join(part for part in parts if part).lower()).strip("-")
    free = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
    return next(given for given in free if given not in taken)


def conditions(judged: JudgedRun, klass: str) -> dict[str, str | list[str]]:
    """Conditions of a signature that tell the run from others.

    Returns expressions by key, as under `when` in `signatures.toml`. Raises EvidenceError: the run shows no sign, error or frame
    to know it by.
    """
    known = judged.known
    found: dict[str, str | list[str]] = {}
    if judged.verdict.klass == klass:
        found["class"] = _whole(klass)
    found |= {key: _whole(known[key][0]) for key in ("server", "phase") if known[key]}
    if judged.series:
        found["version"] = judged.series
    telling: dict[str, str | list[str]] = {}
    if judged.error and judged.scene.evidence.log.server != "nccl":
        telling["error"] = judged.error
    if signs := _carrying(judged, klass):
        telling["signs"] = [_whole(code) for code in signs]
    if frame := _place_of_stacks(judged):
        telling["frame"] = frame
    if not telling:
        raise EvidenceError(
            f"nothing in {judged.run.name} tells it from other runs",
            "it shows no sign that carries the class, no error, no stack",
            "add evidence (stacks of all ranks, two samples of /proc), or write the signature by hand: CONTRIBUTING.md",
        )
    found |= telling
    for key in classes(judged.run.knowledge)[klass].remedy_needs:
        if len(known[key]) == 1:
            found[key] = _whole(known[key][0])
    chosen = [name for name in judged.arguments if _TELLING.search(name)][:MOST_ARGUMENTS]
    return found | {f"arg.{name}": _whole(judged.arguments[name]) for name in chosen}


def _whole(text: str) -> str:
    return f"^{re.escape(text)}$".replace(r"\-", "-").replace(r"\_", "_")


def _carrying(judged: JudgedRun, klass: str) -> list[str]:
    """Signs that carry the class most, the weightiest first."""
    hypothesis = next(found for found in judged.verdict.hypotheses if found.name == klass)
    carrying = [sign.code for sign, weight, _ in hypothesis.supporting if weight >= CARRIES]
    return [code for code in carrying if not code.startswith("phase_")][:MOST_SIGNS]


def _place_of_stacks(judged: JudgedRun) -> str | None:
    """The place that most threads stand in, of those that do anything but wait for work: function and file without its folder."""
    places = Counter(stack.place for stack in all_stacks(judged.scene.evidence) if stack.category not in _WAITS)
    place = next((place for place, _ in places.most_common(1)), "")
    found = re.fullmatch(r"([\w:.<>~]+) \((.*)\)", place)
    if not found or found[1] == "?":
        return None
    file = found[2].rsplit("/", 1)[-1]
    return f"^{re.escape(found[1])} \\(.*{re.escape(file)}" if file else f"^{re.escape(found[1])} "


def _toml(judged: JudgedRun, klass: str, name: str, what: str, remedy: str, source: str | None, when: dict) -> str:
    """The signature as TOML."""
    import tomlkit

    run = " ".join(judged.run.name.split())
    prose = {"name": name, "what": what, "do": remedy, "source": source or f"learnt from run {run}"}
    signature = tomlkit.table()
    signature.update({key: " ".join(scrub_text(text).split()) for key, text in prose.items()})
    if judged.verdict.klass != klass:
        signature["class"] = klass
    signature["when"] = {key: _expressions(value) for key, value in when.items()}
    document = tomlkit.document()
    document.add(tomlkit.comment(f"Learnt from run {run}. Remove conditions that another run with this cause would not show."))
    more = [f"{name} = {value}" for name, value in judged.arguments.items() if f"arg.{name}" not in when]
    if more:
        document.add(tomlkit.comment(f"Other options of that run: {', '.join(more[:12])}"))
    signatures = tomlkit.aot()
    signatures.append(signature)
    document.add("signature", signatures)
    return tomlkit.dumps(document)


def _expressions(value: str | list[str]) -> Any:
    """Expressions as literal strings where that can be: without escapes they are easier to read."""
    import tomlkit

    if isinstance(value, list):
        shown = tomlkit.array()
        shown.extend(map(_expressions, value))
        return shown
    return tomlkit.string(value, literal="\\" in value and "'" not in value and value.isprintable())


def _prove(text: str, judged: JudgedRun) -> dict[str, str]:
    """Read the signature back and hold it against the run: what of the run it fits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / SIGNATURES
        path.write_text(text, encoding="utf-8")
        matched = read(path)[0].matched(judged.known)
    if matched is None:
        raise KitError(
            f"the signature of {judged.run.name} does not fit its own run",
            "a fact does not read back as it was written",
            "write it by hand, and report this with the run",
        )
    return matched


def _append(path: Path, text: str) -> None:
    """Add a signature to a file: whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        write_whole(path, f"{before.rstrip()}\n\n{text}" if before.strip() else text, shared=True)
    except OSError as error:
        raise EvidenceError(f"cannot write {path}", error.strerror or str(error), "choose another place: -o FILE") from error
