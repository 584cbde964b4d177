"""What a comparison of launches shows. Nothing is called a cause."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kit.analyse.launches.calls import MAIN
from kit.analyse.launches.compared_launch import same_launch
from kit.analyse.launches.sentences import Finding, finding, is_number, joined
from kit.analyse.launches.study import findings_of_study, study
from kit.analyse.verdict.phases import ORDER
from kit.analyse.verdict.settings import direct
from kit.clock import show_duration

if TYPE_CHECKING:
    import pandas

    from kit.analyse.launches.compare import Comparison
    from kit.analyse.launches.compared_launch import ComparedLaunch

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
    "ended": "ended in order",
    "unknown": "is in a state that its evidence does not decide",
}
Group = list[str]
"""Letters of launches."""


def findings_of(found: Comparison, launches: list[ComparedLaunch]) -> list[Finding]:
    """All findings, the outcome first."""
    one, others = _groups(launches)
    pairs = [tuple(sorted((one[0], other))) for other in others]
    said = _identity(launches) + _outcome(found, launches)
    said += [line for pair in pairs for line in _phases(found, *pair)]
    servers = {launch.settings.server: launch.label for launch in launches if launch.settings.server}
    if len(servers) > 1:
        of = ", ".join(f"{label} of {server}" for server, label in servers.items())
        said.append(finding("other_server", text=of.replace(" of ", " is a launch of ", 1), servers=servers))
    else:
        said += _log(found, launches)
    for pair in pairs:
        said += _stacks(found, *pair) + _calls(found, *pair) + _threads(found, *pair) + _memory(found, *pair)
    return list(dict.fromkeys(said + _settings(found, launches)))


def _identity(launches: list[ComparedLaunch]) -> list[Finding]:
    return [
        finding("same_launch", launches=[one.label, other.label])
        for at, one in enumerate(launches)
        for other in launches[at + 1 :]
        if same_launch(one, other)
    ]


def _outcome(found: Comparison, launches: list[ComparedLaunch]) -> list[Finding]:
    words, values = [], []
    for launch in launches:
        verdict = launch.verdict
        values.append({"launch": launch.label, "state": verdict.state, "class": verdict.klass, "phase": verdict.phase})
        ranks = f", rank {', '.join(map(str, verdict.ranks))}" if verdict.ranks else ""
        klass = f" ({verdict.klass}{ranks})" if verdict.klass not in ("ready", "undetermined") else ""
        stands = f" in {verdict.phase}" if verdict.phase and verdict.state != "ready" else ""
        words.append(f"{launch.label} {OUTCOME[verdict.state]}{stands}{klass}")
    said = [finding("outcome", text="; ".join(words), launches=values)]
    if not found.last_common:
        return said
    ahead = [launch for launch in launches if max(ORDER[step.phase] for step in launch.steps) > ORDER[found.last_common]]
    behind = [launch.label for launch in launches if launch not in ahead]
    every = "both" if len(launches) == 2 else "all"
    if not ahead:
        return [*said, finding("same_phase", every=every, phase=found.last_common)]
    first = min(
        (step.phase for launch in ahead for step in launch.steps if ORDER[step.phase] > ORDER[found.last_common]), key=ORDER.get
    )
    rest = f", {joined(behind)} did not" if behind else ""
    reached = [launch.label for launch in ahead]
    return [*said, finding("last_common", every=every, phase=found.last_common, ahead=reached, next=first, rest=rest)]


def _phases(found: Comparison, one: str, other: str) -> list[Finding]:
    said = []
    for row in found.phases.to_dict("records"):
        less, more = sorted((row[f"{one}_s"], row[f"{other}_s"]))
        if row["phase"] in ("ready", "serving") or not (more - less >= LEAST_S and more >= RATIO * less):
            continue  # a duration that is not known compares with none
        taken = [
            f"{show_duration(row[f'{label}_s'])}{' so far' if row[f'{label}_open'] else ''} in {label}" for label in (one, other)
        ]
        seconds = {label: row[f"{label}_s"] for label in (one, other)}
        said.append(finding("phase_longer", phase=row["phase"], took=", ".join(taken), seconds=seconds))
    return said


def _groups(launches: list[ComparedLaunch]) -> tuple[Group, Group]:
    """Launches to hold against each other: those that are ready and those that are not, else the first and the others."""
    good, rest = ([launch.label for launch in launches if (launch.good is True) is wanted] for wanted in (True, False))
    return (good, rest) if good and rest else ([launches[0].label], [launch.label for launch in launches[1:]])


def _lacking(rows: pandas.DataFrame, has: Group, lacks: Group) -> pandas.Series:
    """Which rows all of one group have and none of the other."""
    return rows[[f"{label}_count" for label in has]].gt(0).all(axis=1) & rows[[f"{label}_count" for label in lacks]].eq(0).all(
        axis=1
    )


def _log(found: Comparison, launches: list[ComparedLaunch]) -> list[Finding]:
    """Milestones and shapes of log lines that one group of launches has and the other lacks."""
    with_log = {launch.label for launch in launches if launch.evidence.log.records}
    groups = [[label for label in group if label in with_log] for group in _groups(launches)]
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
                at = {"at": _stands(first, has[0]), "milestone": first["milestone"]}
                said.append(finding("lacks_milestone", [first[f"{has[0]}_where"]], kind=word, has=has, lacks=lacks, **at))
        said += _lines(found, has, lacks, told)
    sizes = {launch.processes.world_size for launch in launches}
    return said + (_fewer_ranks(found, groups) if len(sizes) == 1 else [])


def _stands(row: pandas.Series, label: str) -> str:
    seconds = row[f"{label}_s"]
    at = f" after {show_duration(seconds)}" if seconds == seconds else ""
    phase = f", phase {row['phase']}" if isinstance(row["phase"], str) else ""
    return f"{label}{at}{phase}, {row[f'{label}_where']}"


def _lines(found: Comparison, has: Group, lacks: Group, told: set[str]) -> list[Finding]:
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
    at = {"at": _stands(first, has[0]), "more": count}
    return [finding("parts_at_line", [first[f"{has[0]}_where"]], has=has, lacks=lacks, line=_short(first["text"]), **at)]


def _fewer_ranks(found: Comparison, groups: list[Group]) -> list[Finding]:
    """The first milestone that some ranks of one launch lack."""
    for row in found.milestones.to_dict("records"):
        ranks = {label: row[f"{label}_ranks"] for group in groups for label in group}
        sets = {label: set(map(int, text.split(", "))) if isinstance(text, str) else set() for label, text in ranks.items()}
        for one, other in ((one, other) for one in sets for other in sets):
            if row["kind"] == "progress" and sets[other] and sets[other] < sets[one]:
                has, lacks = sets[one], sets[other]
                about = finding(
                    "ranks_lack_milestone",
                    milestone=row["milestone"],
                    has=one,
                    lacks=other,
                    ranks=sorted(has - lacks),
                    many=len(has),
                    few=len(lacks),
                )
                return [about]
    return []


def _stacks(found: Comparison, one: str, other: str) -> list[Finding]:
    """Main threads of the same rank or role that are at different places."""
    rows = found.stacks[found.stacks["thread"].eq(MAIN) & found.stacks[one].notna() & found.stacks[other].notna()]
    said = [
        finding("other_place", process=row["process"], places=f"{row[one]} in {one} and at {row[other]} in {other}")
        for row in rows[rows[one] != rows[other]].to_dict("records")
    ]
    return said[:MOST_TOLD]


def _calls(found: Comparison, one: str, other: str) -> list[Finding]:
    """The system call in which a process spends most time, where it is another."""
    said = []
    for process, rows in found.syscalls.groupby("process", sort=False):
        top = [rows.loc[rows[f"{label}_s"].fillna(0.0).idxmax()] for label in (one, other)]
        seconds = [row[f"{label}_s"] for row, label in zip(top, (one, other), strict=True)]
        if top[0]["syscall"] != top[1]["syscall"] and all(value > 0 for value in seconds):
            where = [f"in {row['syscall']} in {label}" for row, label in zip(top, (one, other), strict=True)]
            said.append(finding("other_call", process=process, calls=", ".join(where)))
    return said[:MOST_TOLD]


def _threads(found: Comparison, one: str, other: str) -> list[Finding]:
    """Threads by name that only one of two launches has at the same second."""
    said = []
    for row in found.thread_names.to_dict("records"):
        if not same_moment(row[f"{one}_t_s"], row[f"{other}_t_s"]) or row["process"] in ("other", "helper"):
            continue
        for has, lacks in ((one, other), (other, one)):
            if is_number(row[has]) and row[has] > 0 and row[lacks] == 0:
                at = {"number": int(row[has]), "second": row[f"{has}_t_s"], "has": has, "lacks": lacks}
                said.append(finding("thread_missing", process=row["process"], thread=row["thread"], **at))
    return said[:MOST_TOLD]


def _memory(found: Comparison, one: str, other: str) -> list[Finding]:
    best, words = 0.0, []
    for row in found.memory.to_dict("records"):
        sizes = [row[f"{label}_rss_anon_bytes"] for label in (one, other)]
        times = [row[f"{label}_t_s"] for label in (one, other)]
        if not all(map(is_number, sizes)) or abs(sizes[0] - sizes[1]) < LEAST_BYTES or not same_moment(*times):
            continue
        ratio = max(sizes) / max(min(sizes), 1)
        if ratio >= MEMORY_RATIO and ratio > best:
            best = ratio
            words = [finding("memory", process=row["process"], sizes=sizes, times=times, launches=[one, other])]
    return words


def same_moment(a_s: float, b_s: float) -> bool:
    """Whether two samples were taken at about the same time since launch.

    Examples
    --------
    >>> same_moment(60.0, 63.0), same_moment(60.0, 6000.0), same_moment(60.0, float("nan"))
    (True, False, False)
    """
    return abs(a_s - b_s) <= max(SAME_MOMENT_S, SAME_MOMENT_SHARE * max(abs(a_s), abs(b_s)))


def _settings(found: Comparison, launches: list[ComparedLaunch]) -> list[Finding]:
    likely, seldom = found.differing(likely=True), found.differing(likely=False)
    said = []
    if len(likely):
        said.append(finding("settings_differ", settings=_named(likely, found.labels)))
    if len(seldom):
        said.append(finding("unlikely_settings", settings=_named(seldom, found.labels)))
    unknown = int(found.settings["same"].isna().sum())
    if unknown:
        some = "one launch" if len(launches) == 2 else "some launches"
        said.append(finding("settings_of_some", number=unknown, some=some))
    if not int(found.settings["same"].notna().sum()):
        return [*said, finding("no_settings")]
    if len(launches) > 2 and len({launch.good is True for launch in launches}) == 2:
        return said + findings_of_study(study(launches, list(found.labels)), unlikely=False)
    return said + _consistent(likely, len({(launch.verdict.state, launch.verdict.klass) for launch in launches}) > 1)


def _consistent(likely: pandas.DataFrame, other_outcome: bool) -> list[Finding]:
    """What a different outcome is consistent with."""
    if not len(likely):
        rest = "consistent with a difference that was not captured, or with chance" if other_outcome else "the launches are alike"
        return [finding("nothing_differs", rest=rest)]
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
        return [finding("one_setting", setting=chosen.iloc[0]["name"], beside=beside)]
    return [finding("several_settings", number=len(chosen), settings=chosen["name"].tolist(), beside=beside)]


def _named(rows: pandas.DataFrame, labels: str) -> list[str]:
    words = []
    for row in rows.to_dict("records"):
        by_value: dict[str, Group] = {}
        for label in labels:
            by_value.setdefault(_short(row[label]), []).append(label)
        words.append(f"{row['name']} ({', '.join(f'{value} in {joined(group)}' for value, group in by_value.items())})")
    return words


def _short(value: object) -> str:
    return textwrap.shorten(value, 60, placeholder=" …") if isinstance(value, str) else "not given"
