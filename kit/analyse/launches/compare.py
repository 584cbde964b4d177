"""Launches side by side: settings, phases, log, memory, threads, stacks, system calls at the same time, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import progress
from kit.analyse.launches import calls as compare_calls
from kit.analyse.launches import samples as compare_samples
from kit.analyse.launches.compared_launch import ComparedLaunch, read_launch
from kit.analyse.launches.findings import findings_of
from kit.analyse.launches.sentences import Finding
from kit.analyse.launches.templates import Seen, Templates
from kit.analyse.text_blocks import records
from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.log_digest import Mark
from kit.analyse.verdict.phases import ORDER, rank_of
from kit.analyse.verdict.scene import Scene, scene_of
from kit.analyse.verdict.settings import differences
from kit.clock import NS
from kit.document import Shown, percent
from kit.errors import UsageError
from kit.parse.grammar_file import PHASES
from kit.run import Run
from kit.schema import table_of

if TYPE_CHECKING:
    import pandas

LAUNCH = "launch"
LABELS = "abcdefghijklmnopqrstuvwxyz"
FRAMES = tuple("settings phases milestones templates memory threads thread_names stacks syscalls verdicts bands series".split())


@dataclass(repr=False)
class Comparison(Shown):
    """Launches side by side. Make it with `kit.compare`.

    The launches are `a`, `b`, … in the order given. Below, `{run}` in the name of a column stands for each of these letters.

    Attributes
    ----------
    names : tuple of str
        Names of the runs.
    align : str
        What is at second 0 of all: `launch`, or a phase.
    settings : pandas.DataFrame
        `name`, `{run}` (text, null: not given), `source` (command line, printed arguments, environment, versions), `same`
        (null: not known), `unlikely` (why it hardly is a cause). Those that differ first.
    phases : pandas.DataFrame
        Of the rank furthest behind: `phase`, `{run}_s`, `{run}_open` (the launch stands in it, so it lasts at least so long);
        for all but a: `{run}_difference_s` (minus a), `{run}_ratio` (to a).
    milestones : pandas.DataFrame
        `milestone`, `phase`, `kind`, `{run}_s` (seconds on the common axis, null: it lacks it or has no time), `{run}_count`,
        `{run}_ranks` (text), `{run}_where`.
    templates : pandas.DataFrame
        Shapes of log lines (`kit.analyse.launches.templates.template`) in the order in which they come: `template`, `text`
        (the first such line), `kind`, `milestone`, `phase`, `{run}_s`, `{run}_count`, `{run}_where`.
    memory : pandas.DataFrame
        By `process` (rank or role; never summed): `{run}_rss_anon_bytes`, and so for file, shmem and rss, at `{run}_t_s`, the
        samples nearest to the same second; `{run}_processes`.
    threads : pandas.DataFrame
        `process`, `state` (letter; `any`: number of threads as the process tells it), `{run}`, `{run}_t_s`.
    thread_names : pandas.DataFrame
        `process`, `thread` (name without numbers), `{run}` (how many), `{run}_calls` (the system calls they are in), `{run}_t_s`.
    stacks : pandas.DataFrame
        Of the last dump: `process`, `thread`, `{run}` (innermost frame that tells a place), `same`, `{run}_does` (what the
        place is known for), `{run}_threads`, `{run}_where`.
    syscalls : pandas.DataFrame
        As strace showed them: `process`, `syscall`, `{run}_calls`, `{run}_per_s`, `{run}_s` (time in them), `{run}_standing`
        (threads whose call had not come back).
    verdicts : pandas.DataFrame
        `what`, `{run}`: state, phase, class, confidence, ranks, as of.
    bands, series : pandas.DataFrame
        What `plot_comparison` draws: phases with `run`, `begin_s`, `end_s`; memory over time with `run`, `process`, `t_s`.
    last_common : str or None
        The last phase that all reached.
    findings : list of Finding
        Sentences that know their code and values.
    missing : list of str
        What the comparison lacks.
    """

    told_in = "kit.analyse.launches.tables"

    names: tuple[str, ...]
    align: str
    settings: pandas.DataFrame
    phases: pandas.DataFrame
    milestones: pandas.DataFrame
    templates: pandas.DataFrame
    memory: pandas.DataFrame
    threads: pandas.DataFrame
    thread_names: pandas.DataFrame
    stacks: pandas.DataFrame
    syscalls: pandas.DataFrame
    verdicts: pandas.DataFrame
    bands: pandas.DataFrame
    series: pandas.DataFrame
    last_common: str | None
    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def labels(self) -> str:
        """Letters of the runs."""
        return LABELS[: len(self.names)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python types: each frame as a list of rows, missing values as None."""
        found: dict[str, Any] = {
            **dict(zip(self.labels, self.names, strict=True)),
            "align": self.align,
            "last_common": self.last_common,
            "findings": self.findings,
            "details": [one.to_dict() for one in self.findings],
            "missing": self.missing,
        }
        return found | {name: records(getattr(self, name)) for name in FRAMES}

    def differing(self, likely: bool | None = None) -> pandas.DataFrame:
        """Settings that differ; with `likely` only those that may be causes, or only those that hardly are."""
        rows = self.settings[self.settings["same"].eq(False).fillna(False).astype(bool)]
        return rows if likely is None else rows[rows["unlikely"].isna() == likely]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.names)}: {len(self.findings)} findings>"


def compare(
    a: str | Path | Run,
    b: str | Path | Run,
    *more: str | Path | Run,
    captured_at: Sequence[str | None] | None = None,
    align: str = LAUNCH,
    knowledge: str | Path | Iterable[str | Path] | None = None,
) -> Comparison:
    """Compare launches.

    Parameters
    ----------
    a, b, *more : str, path or Run
        The launch to compare with (one that worked, say), and the others. Each is read once.
    captured_at : sequence of str or None, optional
        When the evidence of each was taken, local time of its host; one for each launch.
    align : str
        What is at second 0: `launch`, or a phase that all reached (`weights`).
    knowledge : path or paths, optional
        As for `kit.open_run`.

    Raises
    ------
    EvidenceError
        Where one of them cannot be read.
    UsageError
        Where `align` is no phase, or one that not all reached at a known time; more than 26 launches; another number of
        times than of launches.

    Examples
    --------
    >>> import kit
    >>> found = kit.compare(kit.sample("sg01-capture-hang"), kit.sample("sg02-one-snapshot"))
    >>> found.differing(likely=True)["name"].tolist()[:2]
    ['disable_custom_all_reduce', 'NCCL']
    >>> found.last_common
    'post_load'
    """
    given = (a, b, *more)
    every = list(zip(LABELS, given, _times(given, captured_at), strict=False))
    read = [_read(*one, knowledge) for one in progress.each(every)]
    _align([one.launch for one in read], align)
    return _comparison(read, align)


def _comparison(read: list[_Read], align: str) -> Comparison:
    """All tables of launches that stand on one axis, and the sentences about them."""
    launches = [one.launch for one in read]
    samples = [one.counted.samples for one in read]
    placed = compare_samples.place(launches, samples)
    comparison = Comparison(
        names=tuple(launch.run.name for launch in launches),
        align=align,
        settings=_settings(launches),
        phases=_phases(launches),
        milestones=_milestones(launches),
        templates=_templates(launches, [one.counted.templates for one in read]),
        memory=compare_samples.memory(placed),
        threads=compare_samples.threads(placed),
        thread_names=compare_samples.thread_names(placed),
        stacks=compare_calls.stacks(launches),
        syscalls=compare_calls.syscalls(launches, samples, [one.counted.calls for one in read]),
        verdicts=_verdicts(launches),
        bands=_bands(launches),
        series=compare_samples.series(placed),
        last_common=_last_common(launches),
        missing=_missing(launches, align),
    )
    comparison.findings = findings_of(comparison, launches)
    return comparison


@dataclass
class _Counted:
    """The scene of a run, with what its rows were counted into while they were read."""

    scene: Scene
    samples: compare_samples.Samples
    calls: compare_calls.Calls
    templates: Templates


@dataclass
class _Read:
    launch: ComparedLaunch
    counted: _Counted


def _counted(run: Run) -> _Counted:
    samples, calls, templates = compare_samples.Samples(), compare_calls.Calls(), Templates()
    also = {"processes": samples.add_process, "threads": samples.add_thread, "syscalls": calls.add, "log": templates.add}
    return _Counted(scene_of(gather(run, also)), samples, calls, templates)


def _read(label: str, given: str | Path | Run, captured_at: str | None, knowledge: Any) -> _Read:
    launch = read_launch(label, given, captured_at, knowledge, lambda run: run.derived(_counted).scene)
    return _Read(launch, launch.run.derived(_counted))


def _times(given: tuple, captured_at: Sequence[str | None] | None) -> Sequence[str | None]:
    """A time, or None, for each launch."""
    if len(given) > len(LABELS):
        raise UsageError(
            f"{len(given)} launches are too many to compare side by side",
            f"at most {len(LABELS)} can be compared",
            "list them: kit attempts RUNS",
        )
    if captured_at is None:
        return [None] * len(given)
    if len(captured_at) != len(given):
        raise UsageError(
            f"{len(captured_at)} times for {len(given)} launches",
            "each needs one",
            "write - where the run knows: --captured-at - '…'",
        )
    return captured_at


def _align(launches: list[ComparedLaunch], align: str) -> None:
    """Set the zero of all time axes."""
    if align == LAUNCH:
        return
    if align not in PHASES:
        raise UsageError(f"cannot align at {align!r}", "it is not a phase", f"choose one of: {', '.join(PHASES)}")
    for launch in launches:
        if launch.begin_of(align) is None:
            common = [phase for phase in PHASES if all(one.begin_of(phase) is not None for one in launches)]
            raise UsageError(
                f"cannot align at {align!r}",
                f"{launch.run.name} does not show when it began",
                f"choose one of: {', '.join([LAUNCH, *common])}",
            )
    for launch in launches:
        launch.origin_ns = launch.begin_of(align)


def _settings(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    labels = [launch.label for launch in launches]
    rows = [
        {
            "name": one.name,
            **dict(zip(labels, one.values, strict=True)),
            "source": one.source,
            "same": one.same,
            "unlikely": one.unlikely,
        }
        for one in differences(*(launch.settings for launch in launches))
    ]
    columns = ["name", *labels, "source", "same", "unlikely"]
    return table_of(rows, columns, dict.fromkeys(columns, "str") | {"same": "boolean"})


def _durations(launch: ComparedLaunch) -> dict[str, tuple[float | None, bool]]:
    """Seconds in each phase, and whether the launch stands in it."""
    found: dict[str, tuple[float | None, bool]] = {}
    for step, end, is_open in launch.spans:
        taken = None if end is None or step.time is None or end < step.time else (end - step.time) / NS
        before = found.get(step.phase, (0.0, False))[0]
        found[step.phase] = (None if taken is None or before is None else before + taken, is_open)
    return found


def _phases(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    taken = {launch.label: _durations(launch) for launch in launches}
    labels = list(taken)
    rows = []
    for phase in PHASES:
        if not any(phase in own for own in taken.values()):
            continue
        row: dict[str, Any] = {"phase": phase}
        for label, own in taken.items():
            row[f"{label}_s"], row[f"{label}_open"] = own.get(phase, (None, False))
        first = row[f"{labels[0]}_s"]
        for label in labels[1:]:
            seconds = row[f"{label}_s"]
            if None not in (first, seconds):
                row |= {f"{label}_difference_s": seconds - first, f"{label}_ratio": seconds / first if first > 0 else None}
        rows.append(row)
    numbers = [f"{label}_s" for label in labels] + [
        f"{label}_{what}" for label in labels[1:] for what in ("difference_s", "ratio")
    ]
    opened = [f"{label}_open" for label in labels]
    types = dict.fromkeys(numbers, float) | dict.fromkeys(opened, "boolean") | {"phase": "str"}
    return table_of(rows, ["phase", *numbers, *opened], types)


def _last_common(launches: list[ComparedLaunch]) -> str | None:
    reached = [{step.phase for step in launch.steps} for launch in launches]
    return max(set.intersection(*reached), key=ORDER.__getitem__, default=None)


def _bands(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    rows = [
        {
            "run": launch.label,
            "phase": step.phase,
            "begin_s": launch.seconds(step.time),
            "end_s": launch.seconds(end),
            "open": is_open,
        }
        for launch in launches
        for step, end, is_open in launch.spans
    ]
    frame = table_of(rows, ["run", "phase", "begin_s", "end_s", "open"])
    return frame.astype({"run": "str", "phase": "str", "begin_s": float, "end_s": float, "open": "boolean"})


def _milestones(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    """First time of each milestone in all launches, in the order in which they come."""
    seen = [_by_code(launch) for launch in launches]
    rows = []
    for code in _merged(seen):
        marks = [one.get(code, []) for one in seen]
        first = next(own[0] for own in marks if own)
        row: dict[str, Any] = {"milestone": code, "phase": first.phase, "kind": first.kind}
        for launch, own in zip(launches, marks, strict=True):
            times = [mark.time for mark in own if mark.time is not None]
            ranks = sorted({rank for mark in own if (rank := rank_of(mark, launch.processes)) is not None})
            row |= {
                f"{launch.label}_s": launch.seconds(min(times, default=None)),
                f"{launch.label}_count": len(own),
                f"{launch.label}_ranks": ", ".join(map(str, ranks)) or None,
                f"{launch.label}_where": f"{own[0].capture}:{own[0].line}" if own else None,
            }
        rows.append(row)
    names = ["milestone", "phase", "kind"]
    return table_of(rows, _log_columns(launches, names, "ranks"), _log_types(launches, names, "ranks"))


def _templates(launches: list[ComparedLaunch], shapes: list[Templates]) -> pandas.DataFrame:
    """First time of each shape of log lines in all launches, in the order in which they come."""
    rows = []
    for shape in _merged([one.seen for one in shapes]):
        own = [one.seen.get(shape) for one in shapes]
        first: Seen = next(seen for seen in own if seen)
        row: dict[str, Any] = {"template": shape, "text": first.text}
        row |= {"kind": first.kind, "milestone": first.milestone, "phase": first.phase}
        for launch, seen in zip(launches, own, strict=True):
            row |= {
                f"{launch.label}_s": launch.seconds(seen.time) if seen else None,
                f"{launch.label}_count": seen.count if seen else 0,
                f"{launch.label}_where": seen.where if seen else None,
            }
        rows.append(row)
    own_columns = ["template", "text", "kind", "milestone", "phase"]
    return table_of(rows, _log_columns(launches, own_columns), _log_types(launches, own_columns))


def _log_columns(launches: list[ComparedLaunch], own: list[str], *more: str) -> list[str]:
    return own + [f"{launch.label}_{what}" for what in ("s", "count", *more, "where") for launch in launches]


def _log_types(launches: list[ComparedLaunch], own: list[str], *more: str) -> dict[str, Any]:
    numbers = {f"{launch.label}_s": float for launch in launches} | {f"{launch.label}_count": "Int64" for launch in launches}
    return dict.fromkeys(_log_columns(launches, own, *more), "str") | numbers


def _by_code(launch: ComparedLaunch) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = {}
    for mark in launch.marks:
        found.setdefault(mark.code, []).append(mark)
    return found


def _merged(lists: Iterable[Iterable[str]]) -> list[str]:
    """All lists as one: what only a later one has stands behind what precedes it there."""
    merged: list[str] = []
    for one in lists:
        known, new, place = set(merged), {}, -1
        places = {name: at for at, name in enumerate(merged)}
        for name in one:
            if name in known:
                place = places[name]
            else:
                new.setdefault(place, []).append(name)
        merged = new.get(-1, []) + [found for at, name in enumerate(merged) for found in (name, *new.get(at, []))]
    return merged


def _verdicts(launches: list[ComparedLaunch]) -> pandas.DataFrame:
    found = [launch.verdict for launch in launches]
    rows = [
        (what, *(str(get(one)) for one in found))
        for what, get in (
            ("state", lambda one: one.state),
            ("phase", lambda one: one.phase or "unknown"),
            ("class", lambda one: one.klass),
            ("confidence", lambda one: percent(one.confidence)),
            ("ranks", lambda one: ", ".join(map(str, one.ranks)) or "none"),
            ("as of", lambda one: f"{one.captured_at} ({one.captured_by})"),
        )
    ]
    return table_of(rows, ["what", *(launch.label for launch in launches)], "str")


def _missing(launches: list[ComparedLaunch], align: str) -> list[str]:
    """What keeps them from being compared in full."""
    said = []
    for launch in launches:
        lacks = [
            words
            for there, words in (
                (launch.evidence.log.records, "log"),
                (launch.settings.options, "command line and no printed arguments"),
                (launch.settings.of("environment"), "environment"),
                (launch.evidence.processes, "processes"),
                (launch.evidence.threads, "threads"),
            )
            if not there
        ]
        if lacks:
            said.append(f"{launch.label} ({launch.run.name}) holds no {', no '.join(lacks)}")
        if not launch.run.captured_known:
            said.append(f"{launch.label}: no time of capture was given; its last phase is counted to the last stamp of its log")
    started = {bool((launch.run.manifest.get("launch") or {}).get("started_at")): launch.label for launch in launches}
    if align == LAUNCH and len(started) == 2:
        said.append(
            f"second 0 is the start of the process in {started[True]} and the first stamp of the log in {started[False]}: "
            "the time before the first record is in one of them only; align at a phase to leave it out"
        )
    return said
