"""The comparison in plain sentences. Nothing is called a cause."""

from __future__ import annotations

import textwrap
from numbers import Integral
from typing import TYPE_CHECKING

from kit.analyse.launches.calls import MAIN
from kit.analyse.launches.compared_launch import same_launch
from kit.analyse.text_blocks import named
from kit.analyse.verdict.phases import ORDER
from kit.analyse.verdict.settings import direct
from kit.clock import show_duration

if TYPE_CHECKING:
    import pandas

    from kit.analyse.launches.compare import Comparison
    from kit.analyse.launches.compared_launch import Side

RATIO, LEAST_S = 1.5, 10.0
"""A phase is told of where it took half as long again and 10 s more. This chooses what to read first; it is no test: two
launches cannot tell a difference from chance."""
MEMORY_RATIO, LEAST_BYTES = 1.25, 64 << 20
"""Memory of a process is told of where it differs by a quarter and by 64 MiB; again a choice of what to read first."""
SAME_MOMENT_S, SAME_MOMENT_SHARE = 10.0, 0.1
"""Samples count as taken at the same time where they are at most 10 s apart, or a tenth of the time since the launch."""
MOST_TOLD = 3
"""Sentences of one kind about one pair of launches."""
OUTCOME = {
    "ready": "is ready",
    "progressing": "is progressing",
    "stalled": "is stalled",
    "failed": "has failed",
    "unknown": "is in a state that its evidence does not decide",
}
Group = list[str]
"""Letters of launches."""


def findings_of(found: Comparison, sides: list[Side]) -> list[str]:
    """Everything worth saying, the outcome first. Nothing is called a cause."""
    one, others = _groups(sides)
    pairs = [tuple(sorted((one[0], other))) for other in others]
    said = _identity(sides) + _outcome(found, sides)
    said += [line for pair in pairs for line in _phases(found, *pair)]
    servers = {side.settings.server: side.label for side in sides if side.settings.server}
    if len(servers) > 1:
        of = [
            f"{label} is a launch of {server}" if not at else f"{label} of {server}"
            for at, (server, label) in enumerate(servers.items())
        ]
        said.append(f"{', '.join(of)}: their log lines are not held against each other, their phases are")
    else:
        said += _log(found, sides)
    for pair in pairs:
        said += _stacks(found, *pair) + _calls(found, *pair) + _threads(found, *pair) + _memory(found, *pair)
    return list(dict.fromkeys(said + _settings(found, sides)))


def _identity(sides: list[Side]) -> list[str]:
    return [
        f"{one.label} and {other.label} are the same launch: nothing can differ but what was captured of it"
        for at, one in enumerate(sides)
        for other in sides[at + 1 :]
        if same_launch(one, other)
    ]


def _outcome(found: Comparison, sides: list[Side]) -> list[str]:
    words = []
    for side in sides:
        verdict = side.verdict
        ranks = f", rank {', '.join(map(str, verdict.ranks))}" if verdict.ranks else ""
        klass = f" ({verdict.klass}{ranks})" if verdict.klass not in ("ready", "undetermined") else ""
        stands = (
            f", {'in' if verdict.state != 'stalled' else 'it stands in'} {verdict.phase}"
            if verdict.phase and verdict.state != "ready"
            else ""
        )
        words.append(f"{side.label} {OUTCOME[verdict.state]}{stands}{klass}")
    said = ["; ".join(words)]
    if not found.last_common:
        return said
    ahead = [side for side in sides if max(ORDER[step.phase] for step in side.steps) > ORDER[found.last_common]]
    behind = [side.label for side in sides if side not in ahead]
    every = "both" if len(sides) == 2 else "all"
    if not ahead:
        return [*said, f"{every} came as far as {found.last_common}"]
    first = min(
        (step.phase for side in ahead for step in side.steps if ORDER[step.phase] > ORDER[found.last_common]), key=ORDER.get
    )
    return [
        *said,
        f"the last phase that {every} reached is {found.last_common}; {_who([side.label for side in ahead])} went on to {first}"
        + (f", {_who(behind)} did not" if behind else ""),
    ]


def _who(labels: Group) -> str:
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]])) if labels else ""


def _phases(found: Comparison, one: str, other: str) -> list[str]:
    said = []
    for row in found.phases.to_dict("records"):
        less, more = sorted((row[f"{one}_s"], row[f"{other}_s"]))
        if row["phase"] in ("ready", "serving") or not (more - less >= LEAST_S and more >= RATIO * less):
            continue  # a duration that is not known compares with none
        taken = [
            f"{show_duration(row[f'{label}_s'])}{' so far' if row[f'{label}_open'] else ''} in {label}" for label in (one, other)
        ]
        said.append(f"{row['phase']} takes {', '.join(taken)}")
    return said


def _groups(sides: list[Side]) -> tuple[Group, Group]:
    """Launches to hold against each other: those that are ready and those that are not, else the first and the others."""
    good, rest = ([side.label for side in sides if (side.good is True) is wanted] for wanted in (True, False))
    return (good, rest) if good and rest else ([sides[0].label], [side.label for side in sides[1:]])


def _lacking(rows: pandas.DataFrame, has: Group, lacks: Group) -> pandas.Series:
    """Which rows all of one group have and none of the other."""
    return rows[[f"{label}_count" for label in has]].gt(0).all(axis=1) & rows[[f"{label}_count" for label in lacks]].eq(0).all(
        axis=1
    )


def _log(found: Comparison, sides: list[Side]) -> list[str]:
    """Milestones and shapes of log lines that one group of launches has and the other lacks."""
    with_log = {side.label for side in sides if side.evidence.log.records}
    groups = [[label for label in group if label in with_log] for group in _groups(sides)]
    if not all(groups):
        return []
    said = []
    for has, lacks in (groups, groups[::-1]):
        told = set()
        only = found.milestones[_lacking(found.milestones, has, lacks)]
        for kinds, word in ((("progress", "other"), "milestone"), (("error", "symptom"), "error or symptom")):
            rows = only[only["kind"].isin(kinds)]
            if len(rows):
                first = rows.iloc[0]
                told.add(first[f"{has[0]}_where"])
                verb = "lacks" if len(lacks) == 1 else "lack"
                said.append(f"the first {word} that {_who(lacks)} {verb} is {first['milestone']} ({_stands(first, has[0])})")
        said += _lines(found, has, lacks, told)
    sizes = {side.processes.world_size for side in sides}
    return said + (_fewer_ranks(found, groups) if len(sizes) == 1 else [])


def _stands(row: pandas.Series, label: str) -> str:
    seconds = row[f"{label}_s"]
    at = f" after {show_duration(seconds)}" if seconds == seconds else ""
    phase = f", phase {row['phase']}" if isinstance(row["phase"], str) else ""
    return f"{label}{at}{phase}, {row[f'{label}_where']}"


def _lines(found: Comparison, has: Group, lacks: Group, told: set[str]) -> list[str]:
    """The line with which the launches part: what comes before it most have, what comes after it the others mostly lack."""
    rows = found.templates[found.templates[[f"{label}_count" for label in has]].gt(0).all(axis=1)]
    lacking = _lacking(rows, has, lacks).to_numpy()
    if not lacking.any():
        return []
    after = lacking[::-1].cumsum()[::-1]
    before = (~lacking).cumsum()
    part = int((before + after)[lacking].argmax())
    first = rows[lacking].iloc[part]
    if first[f"{has[0]}_where"] in told:
        return []
    count = f"; {lacking.sum()} such lines" if lacking.sum() > 1 else ""
    return [
        f"they part at a log line that {_who(lacks)} {'lacks' if len(lacks) == 1 else 'lack'}: “{_short(first['text'])}” "
        f"({_stands(first, has[0])}{count})"
    ]


def _fewer_ranks(found: Comparison, groups: list[Group]) -> list[str]:
    """The first milestone that some ranks of one launch lack."""
    for row in found.milestones.to_dict("records"):
        ranks = {label: row[f"{label}_ranks"] for group in groups for label in group}
        sets = {label: set(map(int, text.split(", "))) if isinstance(text, str) else set() for label, text in ranks.items()}
        for one, other in ((one, other) for one in sets for other in sets):
            if row["kind"] == "progress" and sets[other] and sets[other] < sets[one]:
                gone = ", ".join(map(str, sorted(sets[one] - sets[other])))
                return [
                    f"{row['milestone']} is there for {len(sets[one])} ranks in {one}, for {len(sets[other])} in {other}: "
                    f"rank {gone} lacks it"
                ]
    return []


def _stacks(found: Comparison, one: str, other: str) -> list[str]:
    """Main threads of the same rank or role that are at different places."""
    rows = found.stacks[found.stacks["thread"].eq(MAIN) & found.stacks[one].notna() & found.stacks[other].notna()]
    said = [
        f"the main thread of {row['process']} is at {row[one]} in {one} and at {row[other]} in {other}"
        for row in rows[rows[one] != rows[other]].to_dict("records")
    ]
    return said[:MOST_TOLD]


def _calls(found: Comparison, one: str, other: str) -> list[str]:
    """The system call in which a process spends most time, where it is another."""
    said = []
    for process, rows in found.syscalls.groupby("process", sort=False):
        top = [rows.loc[rows[f"{label}_s"].fillna(0.0).idxmax()] for label in (one, other)]
        seconds = [row[f"{label}_s"] for row, label in zip(top, (one, other), strict=True)]
        if top[0]["syscall"] != top[1]["syscall"] and all(value > 0 for value in seconds):
            where = [f"in {row['syscall']} in {label}" for row, label in zip(top, (one, other), strict=True)]
            said.append(f"{process} spends most of its traced time {', '.join(where)}")
    return said[:MOST_TOLD]


def _threads(found: Comparison, one: str, other: str) -> list[str]:
    """Threads by name that only one of two launches has at the same second."""
    said = []
    for row in found.thread_names.to_dict("records"):
        if not same_moment(row[f"{one}_t_s"], row[f"{other}_t_s"]) or row["process"] in ("other", "helper"):
            continue
        for has, lacks in ((one, other), (other, one)):
            if is_number(row[has]) and row[has] > 0 and row[lacks] == 0:
                number = f"{row[has]} thread{'s' if row[has] > 1 else ''} {row['thread']}"
                said.append(f"{row['process']} has {number} in {has} and none in {lacks} (second {row[f'{has}_t_s']:,.0f})")
    return said[:MOST_TOLD]


def _memory(found: Comparison, one: str, other: str) -> list[str]:
    best, words = 0.0, []
    for row in found.memory.to_dict("records"):
        sizes = [row[f"{label}_rss_anon_bytes"] for label in (one, other)]
        times = [row[f"{label}_t_s"] for label in (one, other)]
        if not all(map(is_number, sizes)) or abs(sizes[0] - sizes[1]) < LEAST_BYTES or not same_moment(*times):
            continue
        ratio = max(sizes) / max(min(sizes), 1)
        if ratio >= MEMORY_RATIO and ratio > best:
            best = ratio
            words = [
                f"{row['process']} has {size(sizes[0])} of anonymous memory in {one} (second {times[0]:,.0f}) and "
                f"{size(sizes[1])} in {other} (second {times[1]:,.0f})"
            ]
    return words


def same_moment(a_s: float, b_s: float) -> bool:
    """Whether two samples were taken at about the same time since launch.

    Examples
    --------
    >>> same_moment(60.0, 63.0), same_moment(60.0, 6000.0), same_moment(60.0, float("nan"))
    (True, False, False)
    """
    return abs(a_s - b_s) <= max(SAME_MOMENT_S, SAME_MOMENT_SHARE * max(abs(a_s), abs(b_s)))


def _settings(found: Comparison, sides: list[Side]) -> list[str]:
    likely, seldom = found.differing(likely=True), found.differing(likely=False)
    said = []
    if len(likely):
        said.append(f"settings that differ: {_named(likely, found.labels)}")
    if len(seldom):
        said.append(f"unlikely causes, which differ too: {_named(seldom, found.labels)}")
    unknown = int(found.settings["same"].isna().sum())
    if unknown:
        some = "one launch" if len(sides) == 2 else "some launches"
        said.append(f"{unknown} setting{'s are' if unknown > 1 else ' is'} known of {some} only, and not counted as differing")
    if not int(found.settings["same"].notna().sum()):
        return [*said, "no setting is known of both launches: nothing can be said of what was changed"]
    if len(sides) > 2 and len({side.good is True for side in sides}) == 2:
        from kit.analyse.launches.attempts import study
        from kit.analyse.launches.attempts_text import sentences

        return said + sentences(study(sides, list(found.labels)), unlikely=False)
    return said + _consistent(likely, len({(side.verdict.state, side.verdict.klass) for side in sides}) > 1)


def _consistent(likely: pandas.DataFrame, other_outcome: bool) -> list[str]:
    """What a different outcome is consistent with."""
    if not len(likely):
        rest = "consistent with a difference that was not captured, or with chance" if other_outcome else "the launches are alike"
        return [f"no setting that may be a cause differs among those known of both: {rest}"]
    if not other_outcome:
        return []
    chosen = likely[[direct(row.source, row.name_) for row in likely.rename(columns={"name": "name_"}).itertuples()]]
    printed = len(likely) - len(chosen) if len(chosen) else 0
    chosen = chosen if len(chosen) else likely
    beside = (
        f" (the server printed {printed} more that differ{'s' if printed == 1 else ''}, and may follow from "
        f"{'it' if len(chosen) == 1 else 'these'})"
        if printed
        else ""
    )
    if len(chosen) == 1:
        return [
            f"the different outcome is consistent with {chosen.iloc[0]['name']}, the one such setting that differs{beside}; "
            "repeat both launches before you rely on it"
        ]
    return [
        f"the different outcome is consistent with each of these {len(chosen)} settings: they are confounded until "
        f"launches differ in one of them only{beside}"
    ]


def _named(rows: pandas.DataFrame, labels: str) -> str:
    words = []
    for row in rows.to_dict("records"):
        by_value: dict[str, Group] = {}
        for label in labels:
            by_value.setdefault(_short(row[label]), []).append(label)
        words.append(f"{row['name']} ({', '.join(f'{value} in {_who(group)}' for value, group in by_value.items())})")
    return named(words)


def _short(value: object) -> str:
    return textwrap.shorten(value, 60, placeholder=" …") if isinstance(value, str) else "not given"


def is_number(value: object) -> bool:
    """Whether a cell holds a whole number."""
    return isinstance(value, Integral)


def size(value: object) -> str:
    """Bytes with their unit."""
    if not isinstance(value, Integral):
        return "–"
    return f"{value / 2**30:,.2f} GiB" if value >= 2**30 else f"{value / 2**20:,.0f} MiB"
