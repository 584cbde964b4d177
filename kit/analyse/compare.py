"""Two launches side by side: settings, phases, milestones, memory and threads at the same time since launch, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.analyse import compare_samples
from kit.analyse.evidence import Evidence, gather
from kit.analyse.logdigest import Mark
from kit.analyse.phases import ORDER, PHASES, Progression, Step, progression, rank_of
from kit.analyse.ranks import Cast, cast
from kit.analyse.settings import Settings, differences, settings_of
from kit.analyse.verdict import Verdict, verdict
from kit.clock import NS
from kit.errors import UsageError
from kit.run import Run, open_run

if TYPE_CHECKING:
    import pandas

LAUNCH = "launch"
FRAMES = ("settings", "phases", "milestones", "memory", "threads", "verdicts", "bands", "series")
MILESTONE_KINDS = frozenset(("progress", "symptom", "error", "other"))
"""Kinds of records that count as milestones of a launch; requests and heartbeats are none."""


@dataclass
class Side:
    """One of the launches, with everything that a comparison asks of it.

    Attributes
    ----------
    label : str
        `a` or `b`.
    origin_ns : int or None
        Zero of its time axis: launch zero, or the begin of the phase at which the runs are aligned.
    end_ns : int or None
        End of the evidence: the capture's time, or the last stamp of the log where only a file's time is known.
    """

    label: str
    run: Run
    evidence: Evidence
    cast: Cast
    found: Progression
    verdict: Verdict
    settings: Settings
    origin_ns: int | None
    end_ns: int | None

    @property
    def behind(self) -> int | None:
        """Rank that is furthest behind; None where the log names no ranks."""
        known = {rank: steps for rank, steps in self.found.by_rank.items() if steps}
        return min(known, key=lambda rank: (ORDER[known[rank][-1].phase], rank if rank is not None else -1), default=None)

    @property
    def steps(self) -> list[Step]:
        """Phases that the rank furthest behind went through."""
        return self.found.by_rank.get(self.behind, [])

    @property
    def spans(self) -> list[tuple[Step, int | None, bool]]:
        """Each of these phases with its end, and whether the launch stands in it."""
        ends = [step.time for step in self.steps[1:]]
        return [
            (step, ends[number] if number < len(ends) else self.end_ns, number == len(ends))
            for number, step in enumerate(self.steps)
        ]

    @property
    def marks(self) -> list[Mark]:
        """Milestones of the last start: a restart loop begins anew."""
        marks = self.evidence.log.marks
        start = max((number for number, mark in enumerate(marks) if mark.fields.get("start")), default=0)
        return [mark for mark in marks[start:] if mark.kind in MILESTONE_KINDS]

    def seconds(self, ns: int | None) -> float | None:
        """Position on its time axis."""
        return None if ns is None or self.origin_ns is None else (ns - self.origin_ns) / NS

    def begin_of(self, phase: str) -> int | None:
        """When its rank furthest behind entered a phase first."""
        return next((step.time for step in self.steps if step.phase == phase and step.time is not None), None)


@dataclass
class Comparison:
    """Two launches side by side. Make it with `kit.compare`.

    Attributes
    ----------
    names : tuple of str
        Names of the runs a and b.
    align : str
        What is at second 0 of both: `launch`, or a phase.
    settings : pandas.DataFrame
        `name`, `a`, `b` (text, null: not given), `source` (command line, printed arguments, environment, versions), `same`
        (null: not known), `unlikely` (why it hardly is a cause). Those that differ first.
    phases : pandas.DataFrame
        Of the rank furthest behind: `phase`, `a_s`, `b_s`, `difference_s` (b minus a), `ratio` (b to a), `a_open`, `b_open`
        (the launch stands in it, so it lasts at least so long).
    milestones : pandas.DataFrame
        `milestone`, `phase`, `kind`, `a_s`, `b_s` (seconds on the common axis, null: it lacks it or has no time), `a_count`,
        `b_count`, `a_ranks`, `b_ranks` (text), `a_where`, `b_where`.
    memory : pandas.DataFrame
        By `process` (rank or role; never summed): `a_rss_anon_bytes`, `b_rss_anon_bytes`, and so for file, shmem and rss, at
        `a_t_s` and `b_t_s`, the samples nearest to the same second.
    threads : pandas.DataFrame
        `process`, `state` (letter; `any`: number of threads as the process tells it), `a`, `b`, `a_t_s`, `b_t_s`.
    verdicts : pandas.DataFrame
        `what`, `a`, `b`: state, phase, class, confidence, ranks, as of.
    bands, series : pandas.DataFrame
        What `plot_comparison` draws: phases with `run`, `begin_s`, `end_s`; memory over time with `run`, `process`, `t_s`.
    last_common : str or None
        The last phase that both reached.
    findings : list of str
        Plain sentences.
    missing : list of str
        What the comparison lacks.
    """

    names: tuple[str, str]
    align: str
    settings: pandas.DataFrame
    phases: pandas.DataFrame
    milestones: pandas.DataFrame
    memory: pandas.DataFrame
    threads: pandas.DataFrame
    verdicts: pandas.DataFrame
    bands: pandas.DataFrame
    series: pandas.DataFrame
    last_common: str | None
    findings: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python types: each frame as a list of rows, missing values as None."""
        found: dict[str, Any] = {
            "a": self.names[0],
            "b": self.names[1],
            "align": self.align,
            "last_common": self.last_common,
            "findings": self.findings,
            "missing": self.missing,
        }
        for name in FRAMES:
            found[name] = _records(getattr(self, name))
        return found

    def differing(self, likely: bool | None = None) -> pandas.DataFrame:
        """Settings that differ; with `likely` only those that may be causes, or only those that hardly are."""
        rows = self.settings[self.settings["same"].eq(False).fillna(False).astype(bool)]
        return rows if likely is None else rows[rows["unlikely"].isna() == likely]

    def __str__(self) -> str:
        from kit.analyse.compare_text import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from kit.analyse.compare_text import as_html

        return as_html(self)


def compare(
    a: str | Path | Run, b: str | Path | Run, *, captured_at: Sequence[str | None] = (None, None), align: str = LAUNCH
) -> Comparison:
    """Put two launches side by side.

    Parameters
    ----------
    a, b : str, path or Run
        The launch to compare with (one that worked, say), and the other.
    captured_at : sequence of two str or None
        When the evidence of each was taken, local time of its host.
    align : str
        What is at second 0: `launch`, or a phase that both reached (`weights`).

    Returns
    -------
    Comparison

    Raises
    ------
    EvidenceError
        Where one of them cannot be read.
    UsageError
        Where `align` is no phase, or one that only one of them reached at a known time.

    Examples
    --------
    >>> import kit
    >>> found = kit.compare(kit.sample("sg01-capture-hang"), kit.sample("sg02-one-snapshot"))
    >>> found.differing(likely=True)["name"].tolist()[:2]
    ['disable_custom_all_reduce', 'NCCL']
    >>> found.last_common
    'post_load'
    """
    from kit.analyse.compare_text import findings_of

    sides = (_side("a", a, captured_at[0]), _side("b", b, captured_at[1]))
    _align(sides, align)
    samples = [compare_samples.read(side) for side in sides]
    found = Comparison(
        (sides[0].run.name, sides[1].run.name),
        align,
        _settings(sides),
        _phases(sides),
        _milestones(sides),
        compare_samples.memory(samples),
        compare_samples.threads(samples),
        _verdicts(sides),
        _bands(sides),
        compare_samples.series(samples),
        _last_common(sides),
        missing=_missing(sides, align),
    )
    found.findings = findings_of(found, sides)
    return found


def _side(label: str, given: str | Path | Run, captured_at: str | None) -> Side:
    run = given if isinstance(given, Run) else open_run(given, captured_at)
    evidence = gather(run)
    people = cast(evidence)
    end = run.captured_ns if run.captured_by != "file time" else evidence.log.last_time
    return Side(
        label, run, evidence, people, progression(evidence, people), verdict(run), settings_of(evidence), run.launch_zero_ns, end
    )


def _align(sides: tuple[Side, Side], align: str) -> None:
    """Set the zero of both time axes."""
    if align == LAUNCH:
        return
    if align not in PHASES:
        raise UsageError(f"cannot align at {align!r}", "it is no phase", f"choose one of: {', '.join(PHASES)}")
    begins = [side.begin_of(align) for side in sides]
    for side, begin in zip(sides, begins, strict=True):
        if begin is None:
            common = [
                step.phase for step in sides[0].steps if step.time is not None and sides[1].begin_of(step.phase) is not None
            ]
            raise UsageError(
                f"cannot align at {align!r}",
                f"{side.run.name} shows no begin of it",
                f"choose one of: {', '.join(dict.fromkeys([LAUNCH, *common]))}",
            )
        side.origin_ns = begin


def _settings(sides: tuple[Side, Side]) -> pandas.DataFrame:
    import pandas as pd

    rows = [vars(found) for found in differences(sides[0].settings, sides[1].settings)]
    frame = pd.DataFrame(rows, columns=["name", "a", "b", "source", "same", "unlikely"])
    return frame.astype({"name": "str", "a": "str", "b": "str", "source": "str", "same": "boolean", "unlikely": "str"})


def _durations(side: Side) -> dict[str, tuple[float | None, bool]]:
    """Seconds in each phase, and whether the launch stands in it."""
    found: dict[str, tuple[float | None, bool]] = {}
    for step, end, is_open in side.spans:
        taken = None if end is None or step.time is None or end < step.time else (end - step.time) / NS
        before = found.get(step.phase, (0.0, False))[0]
        found[step.phase] = (None if taken is None or before is None else before + taken, is_open)
    return found


def _phases(sides: tuple[Side, Side]) -> pandas.DataFrame:
    import pandas as pd

    taken = [_durations(side) for side in sides]
    rows = []
    for phase in PHASES:
        (a_s, a_open), (b_s, b_open) = (one.get(phase, (None, False)) for one in taken)
        if phase not in taken[0] and phase not in taken[1]:
            continue
        both = a_s is not None and b_s is not None
        rows.append(
            {
                "phase": phase,
                "a_s": a_s,
                "b_s": b_s,
                "difference_s": b_s - a_s if both else None,
                "ratio": b_s / a_s if both and a_s > 0 else None,
                "a_open": a_open,
                "b_open": b_open,
            }
        )
    frame = pd.DataFrame(rows, columns=["phase", "a_s", "b_s", "difference_s", "ratio", "a_open", "b_open"])
    numbers = dict.fromkeys(("a_s", "b_s", "difference_s", "ratio"), float)
    return frame.astype({"phase": "str", "a_open": "boolean", "b_open": "boolean", **numbers})


def _last_common(sides: tuple[Side, Side]) -> str | None:
    reached = [{step.phase for step in side.steps} for side in sides]
    return max(reached[0] & reached[1], key=ORDER.__getitem__, default=None)


def _bands(sides: tuple[Side, Side]) -> pandas.DataFrame:
    import pandas as pd

    rows = []
    for side in sides:
        for step, end, is_open in side.spans:
            rows.append(
                {
                    "run": side.label,
                    "phase": step.phase,
                    "begin_s": side.seconds(step.time),
                    "end_s": side.seconds(end),
                    "open": is_open,
                }
            )
    frame = pd.DataFrame(rows, columns=["run", "phase", "begin_s", "end_s", "open"])
    return frame.astype({"run": "str", "phase": "str", "begin_s": float, "end_s": float, "open": "boolean"})


def _milestones(sides: tuple[Side, Side]) -> pandas.DataFrame:
    """First time of each milestone in both launches, in the order in which they come."""
    import pandas as pd

    seen = [_by_code(side) for side in sides]
    rows = []
    for code in _merged(list(seen[0]), list(seen[1])):
        marks = [one.get(code, []) for one in seen]
        first = (marks[0] or marks[1])[0]
        row: dict[str, Any] = {"milestone": code, "phase": first.phase, "kind": first.kind}
        for side, own in zip(sides, marks, strict=True):
            times = [mark.time for mark in own if mark.time is not None]
            ranks = sorted({rank for mark in own if (rank := rank_of(mark, side.cast)) is not None})
            row |= {
                f"{side.label}_s": side.seconds(min(times, default=None)),
                f"{side.label}_count": len(own),
                f"{side.label}_ranks": ", ".join(map(str, ranks)) or None,
                f"{side.label}_where": f"{own[0].capture}:{own[0].line}" if own else None,
            }
        rows.append(row)
    columns = ["milestone", "phase", "kind", "a_s", "b_s", "a_count", "b_count", "a_ranks", "b_ranks", "a_where", "b_where"]
    types = {**dict.fromkeys(columns, "str"), "a_s": float, "b_s": float, "a_count": "Int64", "b_count": "Int64"}
    return pd.DataFrame(rows, columns=columns).astype(types)


def _by_code(side: Side) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = {}
    for mark in side.marks:
        found.setdefault(mark.code, []).append(mark)
    return found


def _merged(first: list[str], second: list[str]) -> list[str]:
    """Both lists as one: what only the second has stands behind what precedes it there."""
    merged = list(first)
    for place, code in enumerate(second):
        if code not in merged:
            merged.insert(merged.index(second[place - 1]) + 1 if place else 0, code)
    return merged


def _verdicts(sides: tuple[Side, Side]) -> pandas.DataFrame:
    import pandas as pd

    found = [side.verdict for side in sides]
    rows = [
        (what, *(str(get(one)) for one in found))
        for what, get in (
            ("state", lambda one: one.state),
            ("phase", lambda one: one.phase or "unknown"),
            ("class", lambda one: one.klass),
            ("confidence", lambda one: f"{one.confidence:.0%}"),
            ("ranks", lambda one: ", ".join(map(str, one.ranks)) or "none"),
            ("as of", lambda one: f"{one.captured_at} ({one.captured_by})"),
        )
    ]
    return pd.DataFrame(rows, columns=["what", "a", "b"]).astype("str")


def _missing(sides: tuple[Side, Side], align: str) -> list[str]:
    """What keeps the two from being compared in full."""
    said = []
    for side in sides:
        lacks = [
            words
            for there, words in (
                (side.evidence.log.records, "log"),
                (side.settings.options, "command line and no printed arguments"),
                (side.settings.of("environment"), "environment"),
                (side.evidence.processes, "processes"),
                (side.evidence.threads, "threads"),
            )
            if not there
        ]
        if lacks:
            said.append(f"{side.label} ({side.run.name}) holds no {', no '.join(lacks)}")
        if side.run.captured_by == "file time":
            said.append(f"{side.label}: no time of capture was given; its last phase is counted to the last stamp of its log")
    started = [bool((side.run.manifest.get("launch") or {}).get("started_at")) for side in sides]
    if align == LAUNCH and started[0] != started[1]:
        known, other = ("a", "b") if started[0] else ("b", "a")
        said.append(
            f"second 0 is the start of the process in {known} and the first stamp of the log in {other}: "
            "the time before the first record is in one of them only; align at a phase to leave it out"
        )
    return said


def _records(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain types."""
    rows = []
    for values in frame.itertuples(index=False, name=None):
        rows.append({str(name): _plain(value) for name, value in zip(frame.columns, values, strict=True)})
    return rows


def _plain(value: Any) -> Any:
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return value.item() if hasattr(value, "item") else value
