"""Likeness of runs: which earlier launches looked like this one, and what they turned out to be.

A run is a set of features, each with a weight: signs, phase, server, series of versions, generation of the GPUs, options that
may matter, the first error with its numbers and paths made general, and some facts in ranges. The likeness of two runs is the
weighted Jaccard index: the weight of the features that both have, divided by the weight of those that either has. It is 1 for
the same evidence and 0 where nothing is shared; evidence that one run lacks counts against it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kit import progress
from kit.analyse.knowledge.judged_run import JudgedRun, open_case, solved
from kit.analyse.launches.library import judged as judged_once
from kit.analyse.text_blocks import named
from kit.analyse.verdict.classes import classes
from kit.document import Document, Item, Section, Shown, Values, percent
from kit.errors import KitError, UsageError
from kit.run import Run
from kit.samples import DATA, sample_names
from kit.schema import table_of

if TYPE_CHECKING:
    import pandas

Feature = tuple[str, str]
"""Kind and value, as `("phase", "weights")`."""
WEIGHTS = {"phase": 2.0, "server": 2.0, "error": 2.0, "gpu generation": 1.0, "version": 0.5, "option": 0.5, "fact": 0.5}
"""What a shared feature of each kind is worth; a sign is worth the most that it moves any class (`classes.toml`)."""
LEAST, MOST = 0.25, 3.0
"""Bounds of a sign's weight: one sign decides no likeness."""
RANGES = {
    "silence_s": (60, 600, 3600),
    "world_size": (2, 5, 9),
    "gpu_util": (10, 90),
    "threads": (50, 500),
    "restarts": (1, 3),
    "heartbeats": (1, 10),
}
"""Facts that count by their range: the bounds between the ranges."""
MOST_FEATURES = 8


@dataclass
class Likeness:
    """An earlier run beside the one that was asked about."""

    name: str
    path: str
    likeness: float  # 0 to 1
    klass: str  # what it turned out to be where `solved`, else the class of its verdict
    solved: bool
    remedy: str | None  # what helped
    # `shared`, `this`, `that`: features of both, of this run alone, of the earlier one alone; the weightiest first
    shared: list[str]
    this: list[str]
    that: list[str]


@dataclass(repr=False)
class Similar(Shown):
    """Earlier runs, the likest first.

    Attributes
    ----------
    name : str
        The run that was asked about.
    found : list of Likeness
    skipped : list of str
        Runs that could not be read, with the reason.
    """

    name: str
    found: list[Likeness]
    skipped: list[str] = field(default_factory=list)

    def to_dict(self) -> dict:
        """Plain types: `run`, `similar` (list of dict), `skipped`."""
        return {"run": self.name, "similar": [vars(one) for one in self.found], "skipped": self.skipped}

    def frame(self) -> pandas.DataFrame:
        """A row a run: `run`, `likeness`, `class`, `solved`, `remedy`, `shared`, `this`, `that`."""
        rows = [{**vars(one), "run": one.name, "class": one.klass} for one in self.found]
        return table_of(rows, ["run", "likeness", "class", "solved", "remedy", "shared", "this", "that"])

    def document(self, brief: bool = False) -> Document:
        """What they turned out to be, and what they share; `brief`: the likest alone."""
        sections = []
        for match in self.found[: 1 if brief else None]:
            features = (("shared", match.shared), ("only here", match.this), ("only there", match.that))
            shown = {word: named([_readable(text) for text in texts], MOST_FEATURES) for word, texts in features if texts}
            sections.append(Section(f"{percent(match.likeness)}  {match.name}: {_turned_out(match)}", [Values(shown)]))
        skipped = [Item(reason, "·") for reason in self.skipped]
        return Document(f"runs like {self.name}", [*sections, Section("not read", skipped)])

    def __repr__(self) -> str:
        return f"<Similar: {len(self.found)} runs like {self.name}>"


def _readable(feature: str) -> str:
    """A sign's code as words; a fact or an option with its value keeps the name that it has everywhere."""
    return feature if " " in feature else feature.replace("_", " ")


def _turned_out(match: Likeness) -> str:
    known = classes().get(match.klass)
    said = f"{known.plain} ({match.klass})" if known else match.klass
    if match.solved and match.remedy:
        return f"{said}: {match.remedy}"
    return f"{said}{'' if match.solved else ', by its verdict'}"


def similar(
    path: str | Path | Run,
    among: Iterable[str | Path | Run] | None = None,
    *,
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    most: int | None = None,
) -> Similar:
    """Rank earlier runs by their likeness to a run.

    Parameters
    ----------
    path : str, path or Run
    among : iterable of str, path or Run, optional
        Earlier runs; without them the bundled ones and those of `data/runs`.
    captured_at : str, optional
        When the evidence of `path` was taken, as for `kit.open_run`.
    knowledge : path or paths, optional
        Folders of your own knowledge: `solved.json` there says what loose evidence turned out to be.
    most : int, optional
        Keep so many, the likest.

    Returns
    -------
    Similar
        The runs that could be read, the likest first.

    Raises
    ------
    EvidenceError
        The run itself cannot be read.

    Examples
    --------
    >>> import kit
    >>> found = kit.similar(kit.sample("no-weights"), [kit.sample("log-lost"), kit.sample("port-taken")])
    >>> [(one.name, one.klass) for one in found.found]
    [('port-taken', 'port_in_use'), ('log-lost', 'log_lost_server_ready')]
    """
    judged = open_case(path, captured_at, knowledge)
    own = features(judged)
    result = Similar(judged.run.name, [])
    for other in progress.each(earlier() if among is None else list(among)):
        folder = other.path if isinstance(other, Run) else Path(other)
        if folder.resolve() == judged.run.path.resolve():
            continue
        try:
            result.found.append(_likeness(own, open_case(other, None, knowledge)))
        except KitError as error:
            result.skipped.append(f"{folder.name}: {error.why}")
    result.found.sort(key=lambda one: (-one.likeness, one.name))
    del result.found[len(result.found) if most is None else max(most, 0) :]
    return result


def likest_good(
    path: str | Path | Run, captured_at: str | None = None, knowledge: str | Path | Iterable[str | Path] | None = None
) -> Path:
    """The likest earlier launch of the same server that worked.

    Raises
    ------
    UsageError
        Where none did.
    """
    judged = open_case(path, captured_at, knowledge)
    best: tuple[float, Path] | None = None
    server = next(iter(judged.known["server"]), "")
    for folder in progress.each(earlier()):
        kept = judged_once(folder, folder.parent, judged.run.knowledge)
        if kept.state == "ready" and kept.server == server and folder.resolve() != judged.run.path.resolve():
            other = open_case(folder, None, knowledge)
            best = max(filter(None, (best, (likeness(features(judged), features(other)), folder))))
    if best is None:
        what = f"no earlier launch of {server or 'this server'} worked"
        raise UsageError(what, "data/runs holds none", "name one: --against GOOD")
    return best[1]


def earlier() -> list[Path]:
    """Bundled runs, and the user's own in `data/runs`."""
    own = sorted(path for path in (DATA / "runs").glob("*") if path.is_dir()) if (DATA / "runs").is_dir() else []
    return [DATA / name for name in sample_names()] + own


def _likeness(own: dict[Feature, float], judged: JudgedRun) -> Likeness:
    theirs = features(judged)
    entry = solved(judged.run, judged.run.knowledge)
    return Likeness(
        judged.run.name,
        str(judged.run.path),
        likeness(own, theirs),
        entry["class"] if entry else judged.verdict.klass,
        entry is not None,
        entry.get("remedy") if entry else None,
        _said(own, own.keys() & theirs.keys()),
        _said(own, own.keys() - theirs.keys()),
        _said(theirs, theirs.keys() - own.keys()),
    )


def likeness(one: dict[Feature, float], other: dict[Feature, float]) -> float:
    """Weighted Jaccard index of two sets of features.

    Examples
    --------
    >>> likeness({("phase", "weights"): 2.0, ("server", "vllm"): 2.0}, {("phase", "weights"): 2.0})
    0.5
    """
    every = one | other
    total = sum(every.values())
    return sum(every[feature] for feature in one.keys() & other.keys()) / total if total else 0.0


def features(judged: JudgedRun) -> dict[Feature, float]:
    """Features of a run with their weights."""
    known = judged.known
    found: dict[Feature, float] = {}
    for kind, key in (("phase", "phase"), ("server", "server"), ("gpu generation", "gpu_generation")):
        found |= {(kind, text): WEIGHTS[kind] for text in known[key]}
    found |= {("sign", code): _weights().get(code, LEAST) for code in judged.verdict.signs if not code.startswith("phase_")}
    found |= {("option", f"{name} = {value}"): WEIGHTS["option"] for name, value in judged.arguments.items()}
    for kind, text in (("version", judged.series), ("error", judged.error)):
        found |= {(kind, text): WEIGHTS[kind]} if text else {}
    for name, bounds in RANGES.items():
        value = judged.scene.facts.value(name)
        numbers = [number for number in (value if isinstance(value, list) else [value]) if isinstance(number, (int, float))]
        if numbers:
            found["fact", _range(name, max(numbers), bounds)] = WEIGHTS["fact"]
    return found


def _range(name: str, value: float, bounds: tuple[int, ...]) -> str:
    at = bisect_right(bounds, value)
    low, high = (bounds[at - 1] if at else None), (bounds[at] if at < len(bounds) else None)
    return f"{name} < {high}" if low is None else f"{name} ≥ {low}" if high is None else f"{name} {low} to {high}"


@cache
def _weights() -> dict[str, float]:
    found: dict[str, float] = {}
    for known in classes().values():
        for code, (weight, _) in known.signs.items():
            found[code] = min(MOST, max(LEAST, abs(weight), found.get(code, 0.0)))
    return found


def _said(weights: dict[Feature, float], wanted: Iterable[Feature]) -> list[str]:
    ordered = sorted(wanted, key=lambda feature: (-weights[feature], feature))
    return [text if kind in ("sign", "option", "fact") else f"{kind} {_plain(text)}" for kind, text in ordered]


def _plain(expression: str) -> str:
    """An expression of `generalised` for people."""
    return re.sub(r"\\(.)", r"\1", re.sub(r"\\[Sd]\+", "…", expression))
