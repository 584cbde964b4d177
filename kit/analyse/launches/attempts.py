"""Ledger of attempts: launches, the settings in which they differ, how each ended, and what to launch next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import progress
from kit.analyse.launches.compared_launch import ComparedLaunch, read_launch, same_launch
from kit.analyse.launches.next_launch import steps
from kit.analyse.launches.sentences import Finding
from kit.analyse.launches.study import READY_OR_NOT, Study, findings_of_study, study, values
from kit.analyse.text_blocks import records
from kit.analyse.verdict.settings import Setting
from kit.clock import NS
from kit.document import Shown
from kit.errors import KitError, UsageError
from kit.run import Run
from kit.schema import table_of

if TYPE_CHECKING:
    import pandas

OUTCOME_COLUMNS = ("launch", "state", "class", "phase", "ready_s", "until_s", "in_phase_s")


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
    findings : list of Finding
        Sentences that know their code and values.
    missing : list of str
    outcomes : tuple of (str, str)
        What the launches are told apart by: `ready` and `not ready`; `fast` and `slow` where all are ready.
    """

    told_in = "kit.analyse.launches.attempts_text"

    launches: pandas.DataFrame
    candidates: pandas.DataFrame
    confounded: list[list[str]]
    next: list[dict[str, Any]]
    findings: list[Finding]
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
            "details": [one.to_dict() for one in self.findings],
            "missing": self.missing,
        }

    def __repr__(self) -> str:
        return f"<Attempts: {len(self.launches)} launches, {len(self.candidates)} settings that differ>"


def attempts(
    paths: Iterable[str | Path | Run],
    *,
    captured_at: Sequence[str | None] | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
) -> Attempts:
    """Table launches, the settings in which they differ, and how each ended.

    Launches that are all ready are told apart by their seconds to ready, where these leave a gap.

    Parameters
    ----------
    paths : iterable of str, path or Run
        Launches of one server, in any order. One that cannot be read is named and left out, as is one given twice.
    captured_at : sequence of str or None, optional
        When the evidence of each was taken, local time of its host; one for each launch.
    knowledge : path or paths, optional
        As for `kit.open_run`.

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
    given = list(paths)
    times = list(captured_at) if captured_at is not None else [None] * len(given)
    if not given or len(times) != len(given):
        raise UsageError(
            f"{len(times)} times for {len(given)} launches" if given else "no launch is given",
            "each launch is a run, a folder of evidence, or one file",
            "kit attempts RUN RUN …",
        )
    launches, missing = _read(given, times, knowledge)
    found = study(launches, _unique([launch.run.name for launch in launches]))
    return Attempts(
        launches=_launches(found),
        candidates=_candidates(found),
        confounded=found.confounded,
        next=steps(found),
        findings=findings_of_study(found),
        missing=missing + _missing(found),
        outcomes=found.words,
    )


def _read(given: list, times: list, knowledge: Any) -> tuple[list[ComparedLaunch], list[str]]:
    """Launches that can be read, each once, and why the others are left out."""
    launches: list[ComparedLaunch] = []
    missing, failed = [], None
    for number, (one, when) in enumerate(progress.each(list(zip(given, times, strict=True)))):
        try:
            launch = read_launch(str(number), one, when, knowledge=knowledge)
        except UsageError:
            raise
        except KitError as error:
            failed = error
            missing.append(f"left out: {error}".replace("\n", " "))
            continue
        twin = next((other for other in launches if same_launch(launch, other)), None)
        if twin:
            missing.append(f"left out: {launch.run.name} is the same launch as {twin.run.name}")
        else:
            launches.append(launch)
    if not launches and failed:
        raise failed
    return launches, missing


def _missing(study: Study) -> list[str]:
    """What keeps the launches from being told apart."""
    said = []
    for name, launch in zip(study.names, study.launches, strict=True):
        if not launch.settings.options:
            said.append(f"{name} holds no command line and no printed arguments: its settings are not known")
        if not launch.run.captured_known:
            said.append(f"{name}: no time of capture was given; it is counted to the last stamp of its log")
    return said


def _unique(names: list[str]) -> list[str]:
    seen: Counter = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _launches(found: Study) -> pandas.DataFrame:
    likely = [one for one in found.settings if one.unlikely is None]
    rows = []
    for number, (name, launch) in enumerate(zip(found.names, found.launches, strict=True)):
        last = launch.steps[-1].time if launch.steps else None
        row = {
            "launch": name,
            "state": launch.verdict.state,
            "class": launch.verdict.klass,
            "phase": launch.verdict.phase,
            "ready_s": launch.ready_s,
            "until_s": launch.seconds(launch.end_ns),
            "in_phase_s": (launch.end_ns - last) / NS if None not in (last, launch.end_ns) else None,
        }
        rows.append(row | {_column(one): one.values[number] if one.known[number] else None for one in likely})
    columns = [*OUTCOME_COLUMNS, *map(_column, likely)]
    types = {name: float if name in OUTCOME_COLUMNS and name.endswith("_s") else "str" for name in columns}
    return table_of(rows, columns, types)


def _column(setting: Setting) -> str:
    """Column of a setting; one that is named like an outcome keeps apart from it."""
    return f"setting {setting.name}" if setting.name in OUTCOME_COLUMNS else setting.name


def _candidates(found: Study) -> pandas.DataFrame:
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
    return table_of(rows, columns, types)
