"""The settings of launches held against their outcomes: which tell them apart, and how sure that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb

from kit.analyse.launches.compared_launch import ComparedLaunch
from kit.analyse.launches.sentences import Finding, finding
from kit.analyse.text_blocks import named
from kit.analyse.verdict.settings import Setting, differences, direct
from kit.clock import show_duration
from kit.document import percent
from kit.words import short

READY_OR_NOT, FAST_OR_SLOW = ("ready", "not ready"), ("fast", "slow")
"""What the launches are told apart by; those that are all ready, by their seconds to ready."""
LATE = 3.0
"""A launch whose evidence decides nothing counts as not ready once it took so many times as long as the slowest ready one.
This is a choice: a launch that compiles for the first time takes two to three times as long as the next one."""
SLOW = 1.25
"""Launches that are all ready are told apart where one took so many times as long as the next faster one. This is a choice:
of bundled launches with equal settings, neighbours in time differ by 1.1 at most."""
MOST_SAID = 4
FEW = 0.05
"""A setting that tells the outcomes apart with a higher chance than this by accident asks for repeats. The usual level."""


@dataclass
class Candidate:
    """One setting held against the outcomes."""

    setting: Setting
    outcome: str  # what is told apart from ready: `not ready`, or one class of it; from fast: `slow`
    # `good`, `bad`: number of launches by value, among those that are ready (fast) and among those with that outcome
    good: dict[str | None, int]
    bad: dict[str | None, int]
    # probability that outcomes dealt at random would be told apart as well; 1 says nothing. None where they are not told apart.
    chance: float | None
    follows: list[str] = field(default_factory=list)  # what the server printed and that changed with it in all launches

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

    launches: list[ComparedLaunch]
    names: list[str]
    outcomes: list[bool | None]
    late: list[int]
    settings: list[Setting]
    held: list[Candidate]
    separating: list[Candidate]
    confounded: list[list[str]]
    pairs: list[tuple[int, int, list[Setting]]]
    words: tuple[str, str] = READY_OR_NOT

    def group(self, good: bool | None) -> list[int]:
        """Numbers of the launches with an outcome."""
        return [number for number, outcome in enumerate(self.outcomes) if outcome is good]

    @property
    def alike(self) -> list[tuple[int, int]]:
        """Pairs of launches with another outcome, without a setting known to differ."""
        known = [launch.settings.server for launch in self.launches]
        return [
            (good, bad)
            for good, bad, settings in self.pairs
            if not settings
            and known[good] == known[bad]
            and self.launches[good].settings.options
            and self.launches[bad].settings.options
        ]


def study(launches: list[ComparedLaunch], names: list[str]) -> Study:
    """Hold the settings of launches against their outcomes."""
    differing = [one for one in differences(*(launch.settings for launch in launches)) if one.same is False]
    likely = [one for one in differing if one.unlikely is None]
    chosen = [one for one in likely if direct(one.source, one.name)] or likely
    late = _late(launches)
    outcomes = [False if number in late else launch.good for number, launch in enumerate(launches)]
    fast = _fast(launches) if False not in outcomes else None
    words = FAST_OR_SLOW if fast else READY_OR_NOT
    outcomes = [outcome and fast[number] for number, outcome in enumerate(outcomes)] if fast else outcomes
    good, bad = ([number for number, outcome in enumerate(outcomes) if outcome is wanted] for wanted in (True, False))
    held = [_hold(one, good, bad, words[1]) for one in chosen]
    if good and bad and not fast and not any(one.chance is not None for one in held):
        held = _by_class(launches, chosen, good, bad) or held
    for one in held:
        one.follows = [other.name for other in likely if other not in chosen and _pattern(other) == _pattern(one.setting)]
    separating = [one for one in held if one.chance is not None]
    separating.sort(key=lambda one: (one.chance, _effort(one.setting), one.name))
    groups: dict[tuple, list[str]] = {}
    for setting in chosen:
        groups.setdefault(_pattern(setting), []).append(setting.name)
    pairs = [(g, b, [s for s in chosen if s.known[g] and s.known[b] and s.values[g] != s.values[b]]) for g in good for b in bad]
    return Study(
        launches=launches,
        names=names,
        outcomes=outcomes,
        late=late,
        settings=differing,
        held=held,
        separating=separating,
        confounded=[group for group in groups.values() if len(group) > 1],
        pairs=sorted(pairs, key=lambda pair: (len(pair[2]), pair[:2])),
        words=words,
    )


def _late(launches: list[ComparedLaunch]) -> list[int]:
    """Launches that are undecided or still at work, long after the slowest of the others was ready."""
    ready = [launch.ready_s for launch in launches if launch.good and launch.ready_s is not None]
    if not ready:
        return []
    until = {number: launch.seconds(launch.end_ns) for number, launch in enumerate(launches) if launch.good is None}
    return [number for number, seconds in until.items() if seconds is not None and seconds > LATE * max(ready)]


def _fast(launches: list[ComparedLaunch]) -> list[bool] | None:
    """Which launches were ready before the largest gap between their seconds to ready; None where there is no such gap."""
    took = [launch.ready_s for launch in launches]
    known = sorted(seconds for seconds, launch in zip(took, launches, strict=True) if launch.good and seconds)
    if len(known) < sum(launch.good is True for launch in launches) or len(known) < 2:
        return None
    ratio, last = max((after / before, before) for before, after in pairwise(known))
    return [seconds is not None and seconds <= last for seconds in took] if ratio >= SLOW else None


def _hold(setting: Setting, good: list[int], bad: list[int], outcome: str) -> Candidate:
    launches = [Counter(setting.values[number] for number in group if setting.known[number]) for group in (good, bad)]
    apart = all(launches) and not launches[0].keys() & launches[1].keys()
    chance = chance_of([*launches[0].values(), *launches[1].values()], launches[1].total()) if apart else None
    return Candidate(setting, outcome, dict(launches[0]), dict(launches[1]), chance)


def _by_class(launches: list[ComparedLaunch], chosen: list[Setting], good: list[int], bad: list[int]) -> list[Candidate]:
    """Settings that tell one class of failure from ready, where none tells all of them."""
    found: list[Candidate] = []
    classes = Counter(launches[number].verdict.klass for number in bad)
    for klass in classes if len(classes) > 1 else ():
        own = [number for number in bad if launches[number].verdict.klass == klass]
        found += [one for setting in chosen if (one := _hold(setting, good, own, klass)).chance is not None]
    named = {one.name for one in found}
    return found + [_hold(one, good, bad, READY_OR_NOT[1]) for one in chosen if one.name not in named] if found else []


def chance_of(sizes: list[int], bad: int) -> float:
    """Probability that a setting tells outcomes apart which were dealt to the launches at random.

    `sizes`: number of launches with each value of the setting. `bad`: number of launches that are not ready. Returns ways to deal
    so that each value has one outcome only, among all ways (a permutation test of perfect separation). A setting whose value is
    another in each launch tells anything apart: 1.

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


def _effort(setting: Setting) -> int:
    """How easily a setting is changed: an option, a variable, another version or device."""
    return ("command line", "environment", "printed arguments", "versions").index(setting.source)


def findings_of_study(study: Study, unlikely: bool = True) -> list[Finding]:
    """What the launches say together, the numbers first; with `unlikely` the settings too that hardly are causes."""
    good, bad = study.group(True), study.group(False)
    said = [_counts(study)]
    servers = sorted({launch.settings.server for launch in study.launches if launch.settings.server})
    if len(servers) > 1:
        said.append(finding("servers", servers=servers))
    if study.late:
        said.append(finding("late", times=LATE, launches=[study.names[number] for number in study.late]))
    if study.group(None):
        said.append(finding("undecided", launches=[study.names[number] for number in study.group(None)]))
    ended = [name for name, launch in zip(study.names, study.launches, strict=True) if launch.ended]
    if ended:
        said.append(finding("ended", launches=ended))
    if good and bad:
        said += _alike(study) + _separating(study) + _closest(study)
    elif study.launches:
        lacking = "known to have stalled or failed, or slower by far than the others" if good else "ready"
        advice = "" if good else "; launch one that works, an older version or fewer options, to compare the others with"
        said.append(finding("one_outcome", lacking=lacking, advice=advice))
    said += [finding("confounded", settings=group) for group in study.confounded]
    seldom = [one.name for one in study.settings if one.unlikely]
    return said + ([finding("unlikely_settings", settings=seldom)] if seldom and unlikely else [])


def _counts(study: Study) -> Finding:
    good, bad, open_ = (len(study.group(outcome)) for outcome in (True, False, None))
    by_time = study.words == FAST_OR_SLOW
    sizes = [(good + bad if by_time else good, "ready"), (0 if by_time else bad, "not ready"), (open_, "undecided or not done")]
    counted = ", ".join(f"{number} {word}" for number, word in sizes if number)
    split = f"; told apart by their time to ready: {_span(study, True)} and {_span(study, False)}" if by_time else ""
    return finding("counts", number=len(study.launches), counts=counted, split=split, good=good, bad=bad, open=open_)


def _span(study: Study, good: bool) -> str:
    """How many launches are fast or slow, and the seconds they took."""
    took = [study.launches[number].ready_s for number in study.group(good)]
    low, high = show_duration(min(took)), show_duration(max(took))
    return f"{len(took)} {study.words[not good]} ({low}{f' to {high}' if high != low else ''})"


def _alike(study: Study) -> list[Finding]:
    pairs = study.alike
    if not pairs:
        return []
    good, bad = pairs[0]
    more = f", and {len(pairs) - 1} more such pairs" if len(pairs) > 1 else ""
    return [finding("alike", good=study.names[good], bad=study.names[bad], words=study.words, more=more)]


def _separating(study: Study) -> list[Finding]:
    found = study.separating
    if not found:
        said = [finding("none_separates", word=study.words[0])] if not study.alike else []
        return said + _ruled_out(study)
    said = []
    several = len({one.outcome for one in found}) > 1 or found[0].outcome != study.words[1]
    if several:
        said.append(finding("separates_classes"))
    for one in found[:MOST_SAID]:
        rivals = [other.name for other in found if other is not one and other.outcome == one.outcome]
        fits = f"being {one.outcome}" if one.outcome == study.words[1] else one.outcome
        groups = [
            f"{values(group)} in the {sum(group.values())} that {'is' if sum(group.values()) == 1 else 'are'} {word}"
            for group, word in zip((one.good, one.bad), study.words, strict=True)
        ]
        rest = {
            "rivals": f"; so it is with {named(rivals)}" if rivals and one is found[0] else "",
            "follows": f"; the server printed {named(one.follows, 3)} accordingly" if one.follows else "",
            "strength": _strength(one),
            "groups": ", ".join(groups),
        }
        said.append(finding("separates", outcome=fits, setting=one.name, chance=one.chance, **rest))
    if len(found) > MOST_SAID:
        said.append(finding("more_separate", number=len(found) - MOST_SAID))
    return said + _ruled_out(study)


def _strength(one: Candidate) -> str:
    if one.chance >= 1:
        return "each launch has another value: any outcomes would fit"
    words = f"by chance a setting of such a pattern fits with {percent(one.chance)}"
    return words if one.chance <= FEW else f"{words}: repeat"


def _ruled_out(study: Study) -> list[Finding]:
    out = [one.name for one in study.held if one.good.keys() & one.bad.keys()]
    return [finding("ruled_out", settings=out)] if out else []


def _closest(study: Study) -> list[Finding]:
    good, bad, settings = study.pairs[0]
    if not settings:
        return []
    names = [one.name for one in settings]
    what = f"{names[0]} alone" if len(names) == 1 else f"{len(names)} settings: {named(names)}"
    pair = {"good": study.names[good], "bad": study.names[bad], "word": study.words[0]}
    return [finding("closest", settings=names, what=what, **pair)]


def values(found: dict[str | None, int]) -> str:
    """Values with their numbers of launches.

    Examples
    --------
    >>> values({"triton": 2, None: 1})
    'triton (2 ×), not given'
    """
    shown = [f"{shortened(value)}{f' ({number} ×)' if number > 1 else ''}" for value, number in found.items()]
    return named(shown, 4)


def shortened(value: str | None) -> str:
    """A value of a setting in at most 40 characters."""
    return "not given" if value is None else short(value, 40)
