"""The verdict: what holds, how sure, on what evidence, what to look at next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.analyse.verdict.classes import UNDETERMINED
from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.facts import Fact, Facts
from kit.analyse.verdict.failures import over_time
from kit.analyse.verdict.findings import findings
from kit.analyse.verdict.hypotheses import Hypothesis, absent_sources, judge, next_steps, rival, settling
from kit.analyse.verdict.launch_choice import Asked
from kit.analyse.verdict.rules import all_signs, moving_codes
from kit.analyse.verdict.scene import Scene, Sign, scene_of_run
from kit.analyse.verdict.signatures import remedies
from kit.analyse.verdict.surroundings import Surroundings, surroundings
from kit.clock import show_time
from kit.document import Document, Shown
from kit.errors import EvidenceError
from kit.open import open_run
from kit.run import Run

SHOWN_SHARE = 0.05
"""Below this share of belief a class is not shown beside the two likeliest: nobody acts on it."""
GUESS_SHARE = 0.01
"""Hypotheses with at least this share of belief are told in `to_dict`, and what would settle them."""


@dataclass(repr=False)
class Verdict(Shown):
    """What the evidence of one launch says.

    Attributes
    ----------
    state, phase, klass : str
        State, phase of the rank furthest behind, class; words as in docs/words.md.
    ranks : list of int
        The odd ranks only, ascending.
    confidence : float
        Share of belief in the class, 0 to 1.
    facts : Facts
    evidence : list of dict
        `claim`, and where it stands: `capture`, `line`, `text`.
    hypotheses : list of Hypothesis
        All classes, the likeliest first.
    next : list of dict
        What to collect next: `what`, `why`, `command`, `cost_s`, `consent`, `separates`.
    remedies : list of dict
        Known cases that fit, the most specific first: `name`, `what`, `do`, `source`, `matched`. `remedy` is the first.
    captured_at : str
        Local time of the host; `captured_by` says where it comes from.
    missing : list of str
        What the evidence lacks or what could not be read.
    findings : list of dict
        What is wrong beside it: `code`, `severity`, `claim`, `evidence`, `next`.
    path : str
        Where the run is.
    scene : Scene
        What it was judged from: `scene.evidence` (the gathered rows), ranks, phases of each rank.
    signs : dict of str to Sign
        Signs that hold, by code.
    where : Surroundings
        Where the launch runs: what decides which commands and remedies fit.
    """

    name: str
    state: str
    phase: str | None
    klass: str
    ranks: list[int]
    confidence: float
    facts: Facts
    evidence: list[dict]
    hypotheses: list[Hypothesis]
    next: list[dict]
    remedies: list[dict]
    captured_at: str
    captured_by: str
    missing: list[str] = field(default_factory=list)
    findings: list[dict] = field(default_factory=list)
    path: str = ""
    scene: Scene = field(kw_only=True, compare=False)
    signs: dict[str, Sign] = field(kw_only=True, compare=False)
    where: Surroundings = field(kw_only=True, compare=False)

    @property
    def hypothesis(self) -> Hypothesis:
        """The hypothesis that it names."""
        return next(hypothesis for hypothesis in self.hypotheses if hypothesis.name == self.klass)

    @property
    def rival(self) -> Hypothesis | None:
        """The class that shares the belief with the named one; the first of `next` parts them, where a capture can."""
        return rival(self.hypothesis, self.hypotheses)

    @property
    def plain(self) -> str:
        """The class in plain words: by the sign that says it most closely, of one rank or of several."""
        known = self.hypothesis.klass
        return self.said_closely or (known.plain if len(self.ranks) < 2 else known.plain_many)

    @property
    def said_closely(self) -> str | None:
        """What a sign says of the class that its general words don't: that the rank that is behind is stopped, say."""
        return next((words for sign, words in self.hypothesis.klass.plain_when.items() if sign in self.signs), None)

    @property
    def remedy(self) -> dict | None:
        """The first of the known cases that fit, None where none does."""
        return self.remedies[0] if self.remedies else None

    def to_dict(self) -> dict:
        """Return plain Python types under the keys that `kit verdict --json` prints.

        Returns
        -------
        dict
            `state phase class ranks confidence facts evidence hypotheses next remedy captured_at missing findings remedies`.
        """
        return {
            "state": self.state,
            "phase": self.phase,
            "class": self.klass,
            "ranks": self.ranks,
            "confidence": round(self.confidence, 3),
            "facts": {name: fact.value for name, fact in self.facts.items()},
            "evidence": self.evidence,
            "hypotheses": [h.to_dict() for h in self.hypotheses if h.supporting or h.share >= GUESS_SHARE],
            "next": self.next,
            "remedy": self.remedy,
            "captured_at": self.captured_at,
            "missing": self.missing,
            "findings": self.findings,
            "remedies": self.remedies,
        }

    def shown(self) -> list[Hypothesis]:
        """Hypotheses worth showing: the likely ones, and the first guesses that the evidence refutes."""
        likely = [h for h in self.hypotheses if h.share >= GUESS_SHARE and h.name != UNDETERMINED][:4]
        likely = likely[:2] + [h for h in likely[2:] if h.share >= SHOWN_SHARE]
        guesses = [h for h in self.hypotheses if h.klass.first_guess and h.opposing and h not in likely and h.supporting]
        return likely + guesses[:1]

    def document(self, brief: bool = False) -> Document:
        """What it says, as a document; `brief` for a chat."""
        from kit.analyse.verdict.verdict_text import document

        return document(self, brief)

    def __repr__(self) -> str:
        return f"<Verdict {self.name}: {self.state}, {self.klass} {self.confidence:.0%}>"


def verdict(
    path: str | Path | Sequence[str | Path] | Run,
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
    at: str | None = None,
    *,
    pid: int | None = None,
    port: int | None = None,
    against: str | Path | Run | None = None,
) -> Verdict:
    """Judge the evidence of a launch.

    Parameters
    ----------
    path : str, path, sequence of them, or Run
        A run, a folder of loose files, or one file, in any wrapping; `-` is the standard input, several are one launch.
    captured_at : str, optional
        When the evidence was taken, local time of the host. Without it the manifest's or the newest file's time serves,
        and the verdict says so; silence is not computed from a file's time.
    knowledge : path or paths, optional
        As for `kit.open_run`.
    at : str, optional
        Judge what could be known at this moment, local time of the host (`Run.as_of`).
    pid, port : int, optional
        Which launch is judged where the evidence holds several; else the one that the newest log is of.
    against : str, path or Run, optional
        A launch that worked: what it printed too is harmless, and what it had and this one lacks leads the evidence.

    Raises
    ------
    EvidenceError
        Where nothing can be read.
    UsageError
        Where knowledge is wrong, nothing is of that pid or port, or the launch of `against` did not work.

    Examples
    --------
    >>> import kit
    >>> found = kit.verdict(kit.sample("sg01-capture-hang"))
    >>> found.klass, found.state
    ('device_hang', 'stalled')
    """
    run = path if isinstance(path, Run) else open_run(path, captured_at, knowledge)
    if not any(capture.kind for capture in run.captures):
        why = "; ".join(run.unread()[:5]) or "none of its files was recognised"
        do = "check that the files are text as the tools print it: logs, ps, ss, /proc files, py-spy, nvidia-smi"
        raise EvidenceError(f"no evidence in {run.path}", why, do)
    asked = Asked(pid, port)
    good = against if isinstance(against, Run) or against is None else open_run(against, None, knowledge)
    if at is None:
        return weigh(scene_of_run(run, asked, good))
    scene = scene_of_run(run.as_of(at), asked, good)
    if not scene.log.records and not any(scene.evidence.rows.values()):
        raise EvidenceError(
            f"no evidence as of {at}",
            f"all {scene.evidence.later:,} rows are later",
            "give a later moment, or judge it without --at",
        )
    return weigh(scene)


def weigh(scene: Scene, most_steps: int = 4) -> Verdict:
    """Judge gathered evidence; the list of next steps has at most `most_steps`."""
    evidence, run = scene.evidence, scene.evidence.run
    signs = all_signs(scene)
    hypotheses = judge(scene, signs)
    best = _named(hypotheses, scene)
    state = _state(best, scene, signs)
    if state in LIVING and "exited" not in scene.facts:
        scene.facts["exited"] = Fact("exited", False, [{"capture": None, "line": None, "text": "nothing tells of an end"}])
    where = surroundings(scene, best.name, state)
    for hypothesis in hypotheses:
        if hypothesis.share >= GUESS_SHARE or hypothesis is best:
            hypothesis.settled_by = settling(hypothesis, scene, signs, where)
    return Verdict(
        name=run.name,
        state=state,
        phase=_phase(scene, state),
        klass=best.name,
        ranks=_ranks(best, scene),
        confidence=best.share,
        facts=scene.facts,
        evidence=_evidence(best, signs, hypotheses),
        hypotheses=hypotheses,
        next=next_steps(hypotheses, scene, signs, where, most_steps),
        remedies=remedies(scene, best.name, signs, where),
        captured_at=show_time(run.captured_ns, run.offset_s),
        captured_by=run.captured_by,
        missing=[*_missing(run, evidence), *_doubted(scene), *absent_sources(hypotheses, scene, signs, where)],
        findings=findings(scene),
        path=str(run.path),
        scene=scene,
        signs=signs,
        where=where,
    )


def _named(hypotheses: list[Hypothesis], scene: Scene) -> Hypothesis:
    """The likeliest class; `undetermined` where it claims too much on too little."""
    best = hypotheses[0]
    harmless = best.klass.state in ("ready", "progressing")
    if best.share >= scene.limits["least_good_share" if harmless else "least_share"]:
        return best
    return next(hypothesis for hypothesis in hypotheses if hypothesis.name == UNDETERMINED)


DEATHS = frozenset(
    ("ranks_dead", "worker_died_line", "crash_signal", "signal_9", "unexplained_error", "ended_badly")
    + ("collective_timeout", "engine_watchdog", "terminated_line", "restarts", "said_exits")
)
"""Signs of an end that was no order: the launch has failed, though why is not known."""
MUTE = frozenset(("generate_fails", "request_stuck", "requests_wait", "spins_in_place"))
"""Signs that a server which is up answers nobody: once it is silent for long it is stalled, though on what is not known."""
STANDS = frozenset((*(f"{kind}_bar_stands" for kind in ("download", "weights", "graph", "jit", "data")), "joins_no_more"))
"""Signs that what a launch counts stands: the same."""
COUNTED = frozenset(("training_stands", "tokens_stand", "says_it_stands", "answers_fail", "asks"))
"""Signs that need no clock."""
SLOW = frozenset(("said_slow", "said_weights_slow", "said_compiling"))
TOLD = frozenset(("said_hang", "said_no_answer"))
"""The same, in the words of who saw it: they are believed where they don't say besides that it is slow, and nothing moves."""


def _state(best: Hypothesis, scene: Scene, signs: dict[str, Sign]) -> str:
    """The state that follows from the class; with none named the dead have failed, and what is mute for long is stalled."""
    exited = bool(scene.fact("exited"))
    if best.name == UNDETERMINED and ("restart_loop" in signs or exited and (DEATHS & signs.keys() or over_time(scene.log))):
        return "failed"
    if best.name == UNDETERMINED and "load_given_up" in signs:
        return "failed"  # whoever waits for it was told so, be its parent alive or not
    stands = STANDS | MUTE if scene.fact("ready") else STANDS
    silent = "long_silence" in signs and stands & signs.keys()
    told = TOLD & signs.keys() and not {*SLOW, *moving_codes()} & signs.keys()
    if best.name == UNDETERMINED and not exited and (silent or told or COUNTED & signs.keys()):
        return "stalled"
    if best.name == UNDETERMINED and not exited and "data_bar_moves" in signs:
        return "progressing"  # of data that is prepared no class tells
    return best.klass.state_when(exited)


LIVING = ("ready", "progressing", "stalled")
"""States of what has not ended; who names one says that, too."""
OVER = ("failed", "stalled", "ended")


def _phase(scene: Scene, state: str) -> str | None:
    """The phase; of a server that was ready, and is no longer well, it is its service."""
    return "serving" if scene.phase == "ready" and state in OVER else scene.phase


def _ranks(best: Hypothesis, scene: Scene) -> list[int]:
    """The odd ranks: those of the signs that carry a class which singles out ranks. A single rank is never odd."""
    if not best.klass.names_ranks or scene.processes.world_size in (None, 1):
        return []
    named = {rank for sign, weight, _ in best.supporting if weight >= 1 for rank in sign.ranks}
    if not named and best.klass.names_ranks == "lagging":
        named = set(scene.fact("lagging_ranks") or [])
    return sorted(named)


ALWAYS_TOLD = ("ranks_at", "ranks_by_order", "log_unknown")
"""Signs that are told with every verdict: where the ranks stand, how their numbers were found, that nobody knows the log."""


UNLIKE_GOOD = ("settings_changed", "milestone_missing", "lines_new", "beyond_good_pace", "within_good_pace")
"""Signs that lead the evidence: what differs from a launch that worked is where to look first."""


def _evidence(best: Hypothesis, signs: dict[str, Sign], hypotheses: list[Hypothesis]) -> list[dict]:
    """Claims that carry the verdict, each with where it stands: the weightiest first, for any class where none is named."""
    if best.name != UNDETERMINED:
        carrying = [sign for sign, _, _ in best.supporting]
    else:
        weights = {code: max(abs(hypothesis.klass.weight(code)) for hypothesis in hypotheses) for code in signs}
        carrying = sorted(signs.values(), key=lambda sign: -weights[sign.code])
    carrying += [signs[code] for code in ALWAYS_TOLD if code in signs and signs[code] not in carrying]
    unlike = [signs[code] for code in UNLIKE_GOOD if code in signs]
    carrying = [*unlike, *(sign for sign in carrying if sign not in unlike)]
    found = []
    for sign in carrying:
        if sign.code.startswith("phase_"):
            continue
        for where in sign.refs[:2] or [{"capture": None, "line": None, "text": None}]:
            found.append({"claim": sign.claim, "sign": sign.code, **{key: where.get(key) for key in ("capture", "line", "text")}})
    return found


def _doubted(scene: Scene) -> list[str]:
    """Facts that were left out, each with what it read and why that cannot be."""
    return [f"{fact.name} is left out: it read {fact.value}, {why}" for fact, why in scene.facts.doubted]


def _missing(run: Run, evidence: Evidence) -> list[str]:
    """What the evidence lacks."""
    said = [f"{entry.get('what')}: {entry.get('why')}. {entry.get('do') or ''}".strip() for entry in run.missing]
    said += run.unread()
    if run.as_of_ns is not None:
        moment = show_time(run.as_of_ns, run.offset_s)
        said.append(f"{evidence.later:,} rows of after {moment} are left out: this is what could be known then")
    if not run.captured_known:
        said.append(
            f"no capture time was given: that of the newest file ({show_time(run.captured_ns, run.offset_s)}) is assumed, and "
            "silence is not computed from it; give it with --captured-at"
        )
    if not run.offset_known and evidence.log.records:
        said.append("the time zone of the host is unknown: times without a zone are taken as UTC")
    return said
