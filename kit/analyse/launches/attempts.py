"""Ledger of attempts: launches, the settings in which they differ, how each ended, and what to launch next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.analyse.launches.compared_launch import Side, same_launch, side_of
from kit.analyse.text_blocks import records
from kit.analyse.verdict.settings import Setting, differences, direct
from kit.clock import NS
from kit.document import Document, Shown
from kit.errors import KitError, UsageError
from kit.run import Run

if TYPE_CHECKING:
    import pandas

READY_OR_NOT, FAST_OR_SLOW = ("ready", "not ready"), ("fast", "slow")
"""What the launches are told apart by; those that are all ready, by their seconds to ready."""
LATE = 3.0
"""A launch whose evidence decides nothing counts as not ready once it took so many times as long as the slowest ready one.
This is a choice: a launch that compiles for the first time takes two to three times as long as the next one."""
SLOW = 1.25
"""Launches that are all ready are told apart where one took so many times as long as the next faster one. This is a choice:
of bundled launches with equal settings, neighbours in time differ by 1.1 at most."""
OUTCOME_COLUMNS = ("launch", "state", "class", "phase", "ready_s", "until_s", "in_phase_s")


@dataclass
class Candidate:
    """One setting held against the outcomes.

    Attributes
    ----------
    setting : Setting
    outcome : str
        What is told apart from ready: `not ready`, or one class of it; from fast: `slow`.
    good, bad : dict
        Number of launches by value, among those that are ready (fast) and among those with that outcome.
    chance : float or None
        Probability that outcomes dealt at random would be told apart as well; 1 says nothing. None where they are not told apart.
    follows : list of str
        What the server printed and that changed with it in all launches.
    """

    setting: Setting
    outcome: str
    good: dict[str | None, int]
    bad: dict[str | None, int]
    chance: float | None
    follows: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the setting."""
        return self.setting.name

    def predicts(self, value: str | None) -> bool | None:
        """Whether a launch with a value would do well if this setting alone decides; None where it was never tried."""
        return True if value in self.good else False if value in self.bad else None


@dataclass
class Study:
    """What launches say together; plain data, from which the frames are made."""

    sides: list[Side]
    names: list[str]
    outcomes: list[bool | None]
    late: list[int]
    settings: list[Setting]
    held: list[Candidate]
    separating: list[Candidate]
    confounded: list[list[str]]
    pairs: list[tuple[int, int, list[Setting]]]
    words: tuple[str, str] = READY_OR_NOT
    steps: list[dict[str, Any]] = field(default_factory=list)

    def group(self, good: bool | None) -> list[int]:
        """Numbers of the launches with an outcome."""
        return [number for number, outcome in enumerate(self.outcomes) if outcome is good]

    @property
    def alike(self) -> list[tuple[int, int]]:
        """Pairs of launches with another outcome, without a setting known to differ."""
        known = [side.settings.server for side in self.sides]
        return [
            (good, bad)
            for good, bad, settings in self.pairs
            if not settings
            and known[good] == known[bad]
            and self.sides[good].settings.options
            and self.sides[bad].settings.options
        ]


@dataclass(repr=False)
class Attempts(Shown):
    """Launches and what they say together. Make it with `kit.attempts`.

    Attributes
    ----------
    launches : pandas.DataFrame
        A row a launch: `launch`, `state`, `class`, `phase`, `ready_s` (seconds from launch to ready), `until_s` (seconds from
        launch to the end of the evidence), `in_phase_s` (time in the phase in which it stands), then a column for each
        setting that differs and may be a cause (text, null: not given or not known).
    candidates : pandas.DataFrame
        A row a setting that differs: `setting`, `source`, `outcome` (what is told apart), `ready` and `not_ready` (values with
        their numbers of launches; the fast and the slow ones where all are ready), `ready_launches`, `not_ready_launches`,
        `separates`, `chance`, `follows` (what the server printed and that changed with it).
    confounded : list of list of str
        Settings that always changed together.
    next : list of dict
        Launches to try: `setting`, `value`, `base`, `command` (None: to be done by hand), `what`, `if_ready`, `if_not` (the
        candidates that are left then).
    findings, missing : list of str
        Plain sentences.
    outcomes : tuple of (str, str)
        What the launches are told apart by: `ready` and `not ready`; `fast` and `slow` where all are ready.
    """

    launches: pandas.DataFrame
    candidates: pandas.DataFrame
    confounded: list[list[str]]
    next: list[dict[str, Any]]
    findings: list[str]
    missing: list[str]
    outcomes: tuple[str, str] = READY_OR_NOT

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python types: each frame as a list of rows, missing values as None."""
        return {
            "outcomes": list(self.outcomes),
            "launches": records(self.launches),
            "candidates": records(self.candidates),
            "confounded": self.confounded,
            "next": self.next,
            "findings": self.findings,
            "missing": self.missing,
        }

    def document(self, brief: bool = False) -> Document:
        """What they say, as a document; `brief`: findings and the next launch."""
        from kit.analyse.launches.attempts_text import document

        return document(self, brief)

    def __repr__(self) -> str:
        return f"<Attempts: {len(self.launches)} launches, {len(self.candidates)} settings that differ>"


def attempts(runs: Iterable[str | Path | Run], *, captured_at: Sequence[str | None] | None = None) -> Attempts:
    """Table launches, the settings in which they differ, and how each ended.

    Launches that are all ready are told apart by their seconds to ready, where these leave a gap.

    Parameters
    ----------
    runs : iterable of str, path or Run
        Launches of one server, in any order. One that cannot be read is named and left out, as is one given twice.
    captured_at : sequence of str or None, optional
        When the evidence of each was taken, local time of its host; one for each launch.

    Returns
    -------
    Attempts

    Raises
    ------
    UsageError
        Where no launch is given, or another number of times than of launches.
    EvidenceError
        Where none can be read.

    Examples
    --------
    >>> import kit
    >>> found = kit.attempts(map(kit.sample, ("healthy-tp2", "compile", "no-weights")))
    >>> found.launches["state"].tolist()
    ['ready', 'progressing', 'failed']
    >>> found.next[0]["setting"]
    'load_format'
    """
    from kit.analyse.launches import attempts_text

    given = list(runs)
    times = list(captured_at) if captured_at is not None else [None] * len(given)
    if not given or len(times) != len(given):
        raise UsageError(
            f"{len(times)} times for {len(given)} launches" if given else "no launch is given",
            "each launch is a run, a folder of evidence, or one file",
            "kit attempts RUN RUN …",
        )
    sides, missing, failed = [], [], None
    for one, when in zip(given, times, strict=True):
        try:
            side = side_of(str(len(sides)), one, when)
        except UsageError:
            raise
        except KitError as error:
            failed = error
            missing.append(f"left out: {error}".replace("\n", " "))
            continue
        twin = next((other for other in sides if same_launch(side, other)), None)
        if twin:
            missing.append(f"left out: {side.run.name} is the same launch as {twin.run.name}")
            continue
        sides.append(side)
    if not sides and failed:
        raise failed
    found = study(sides, _unique([side.run.name for side in sides]))
    return Attempts(
        _launches(found),
        _candidates(found),
        found.confounded,
        found.steps,
        attempts_text.sentences(found),
        missing + attempts_text.missing(found),
        found.words,
    )


def study(sides: list[Side], names: list[str]) -> Study:
    """Hold the settings of launches against their outcomes."""
    from kit.analyse.launches.next_launch import steps

    differing = [one for one in differences(*(side.settings for side in sides)) if one.same is False]
    likely = [one for one in differing if one.unlikely is None]
    chosen = [one for one in likely if direct(one.source, one.name)] or likely
    late = _late(sides)
    outcomes = [False if number in late else side.good for number, side in enumerate(sides)]
    fast = _fast(sides) if False not in outcomes else None
    words = FAST_OR_SLOW if fast else READY_OR_NOT
    outcomes = [outcome and fast[number] for number, outcome in enumerate(outcomes)] if fast else outcomes
    good, bad = ([number for number, outcome in enumerate(outcomes) if outcome is wanted] for wanted in (True, False))
    held = [_hold(one, good, bad, words[1]) for one in chosen]
    if good and bad and not fast and not any(one.chance is not None for one in held):
        held = _by_class(sides, chosen, good, bad) or held
    for one in held:
        one.follows = [other.name for other in likely if other not in chosen and _pattern(other) == _pattern(one.setting)]
    separating = [one for one in held if one.chance is not None]
    separating.sort(key=lambda one: (one.chance, _effort(one.setting), one.name))
    groups: dict[tuple, list[str]] = {}
    for one in chosen:
        groups.setdefault(_pattern(one), []).append(one.name)
    pairs = [(g, b, _differing(chosen, g, b)) for g in good for b in bad]
    found = Study(
        sides,
        names,
        outcomes,
        late,
        differing,
        held,
        separating,
        [group for group in groups.values() if len(group) > 1],
        sorted(pairs, key=lambda pair: (len(pair[2]), pair[:2])),
        words,
    )
    found.steps = steps(found)
    return found


def _late(sides: list[Side]) -> list[int]:
    """Launches that are undecided or still at work, long after the slowest of the others was ready."""
    ready = [side.ready_s for side in sides if side.good and side.ready_s is not None]
    if not ready:
        return []
    until = {number: side.seconds(side.end_ns) for number, side in enumerate(sides) if side.good is None}
    return [number for number, seconds in until.items() if seconds is not None and seconds > LATE * max(ready)]


def _fast(sides: list[Side]) -> list[bool] | None:
    """Which launches were ready before the largest gap between their seconds to ready; None where there is no such gap."""
    took = [side.ready_s for side in sides]
    known = sorted(seconds for seconds, side in zip(took, sides, strict=True) if side.good and seconds)
    if len(known) < sum(side.good is True for side in sides) or len(known) < 2:
        return None
    ratio, last = max((after / before, before) for before, after in pairwise(known))
    return [seconds is not None and seconds <= last for seconds in took] if ratio >= SLOW else None


def _hold(setting: Setting, good: list[int], bad: list[int], outcome: str) -> Candidate:
    sides = [Counter(setting.values[number] for number in group if setting.known[number]) for group in (good, bad)]
    apart = all(sides) and not sides[0].keys() & sides[1].keys()
    chance = chance_of([*sides[0].values(), *sides[1].values()], sides[1].total()) if apart else None
    return Candidate(setting, outcome, dict(sides[0]), dict(sides[1]), chance)


def _by_class(sides: list[Side], chosen: list[Setting], good: list[int], bad: list[int]) -> list[Candidate]:
    """Settings that tell one class of failure from ready, where none tells all of them."""
    found: list[Candidate] = []
    classes = Counter(sides[number].verdict.klass for number in bad)
    for klass in classes if len(classes) > 1 else ():
        own = [number for number in bad if sides[number].verdict.klass == klass]
        found += [one for setting in chosen if (one := _hold(setting, good, own, klass)).chance is not None]
    named = {one.name for one in found}
    return found + [_hold(one, good, bad, READY_OR_NOT[1]) for one in chosen if one.name not in named] if found else []


def chance_of(sizes: list[int], bad: int) -> float:
    """Probability that a setting tells outcomes apart which were dealt to the launches at random.

    Parameters
    ----------
    sizes : list of int
        Number of launches with each value of the setting.
    bad : int
        Number of launches that are not ready.

    Returns
    -------
    float
        Ways to deal so that each value has one outcome only, among all ways (a permutation test of perfect separation). A
        setting whose value is another in each launch tells anything apart: 1.

    Examples
    --------
    >>> chance_of([3, 3], 3), chance_of([5, 1], 1), chance_of([1, 1, 1], 1)
    (0.1, 0.16666666666666666, 1.0)
    """
    ways = Counter({0: 1})
    for size in sizes:
        for total, number in list(ways.items()):
            ways[total + size] += number
    return ways[bad] / comb(sum(sizes), bad)


def _pattern(setting: Setting) -> tuple:
    """Which launches share a value: equal for settings that always changed together."""
    first: dict[str | None, int] = {}
    return tuple(
        first.setdefault(value, len(first)) if known else None for value, known in zip(setting.values, setting.known, strict=True)
    )


def _differing(settings: list[Setting], one: int, other: int) -> list[Setting]:
    """Settings known to differ between two launches."""
    return [s for s in settings if s.known[one] and s.known[other] and s.values[one] != s.values[other]]


def _effort(setting: Setting) -> int:
    """How easily a setting is changed: an option, a variable, another version or device."""
    return ("command line", "environment", "printed arguments", "versions").index(setting.source)


def _unique(names: list[str]) -> list[str]:
    seen: Counter = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _launches(found: Study) -> pandas.DataFrame:
    import pandas as pd

    likely = [one for one in found.settings if one.unlikely is None]
    rows = []
    for number, (name, side) in enumerate(zip(found.names, found.sides, strict=True)):
        last = side.steps[-1].time if side.steps else None
        row = {
            "launch": name,
            "state": side.verdict.state,
            "class": side.verdict.klass,
            "phase": side.verdict.phase,
            "ready_s": side.ready_s,
            "until_s": side.seconds(side.end_ns),
            "in_phase_s": (side.end_ns - last) / NS if None not in (last, side.end_ns) else None,
        }
        rows.append(row | {_column(one): one.values[number] if one.known[number] else None for one in likely})
    columns = [*OUTCOME_COLUMNS, *map(_column, likely)]
    types = {name: float if name in OUTCOME_COLUMNS and name.endswith("_s") else "str" for name in columns}
    return pd.DataFrame(rows, columns=columns).astype(types)


def _column(setting: Setting) -> str:
    """Column of a setting; one that is named like an outcome keeps apart from it."""
    return f"setting {setting.name}" if setting.name in OUTCOME_COLUMNS else setting.name


def _candidates(found: Study) -> pandas.DataFrame:
    import pandas as pd

    from kit.analyse.launches.attempts_text import values

    order = found.separating + [one for one in found.held if one.chance is None]
    rows = [
        {
            "setting": one.name,
            "source": one.setting.source,
            "outcome": one.outcome,
            "ready": values(one.good),
            "not_ready": values(one.bad),
            "ready_launches": sum(one.good.values()),
            "not_ready_launches": sum(one.bad.values()),
            "separates": one.chance is not None,
            "chance": one.chance,
            "follows": ", ".join(one.follows) or None,
        }
        for one in order
    ]
    columns = ["setting", "source", "outcome", "ready", "not_ready", "ready_launches", "not_ready_launches"]
    columns += ["separates", "chance", "follows"]
    types = dict.fromkeys(columns, "str") | {"separates": "bool", "chance": float}
    types |= {"ready_launches": "Int64", "not_ready_launches": "Int64"}
    return pd.DataFrame(rows, columns=columns).astype(types)
