"""The ledger: what was believed when, which test was run, and why the belief changed.

A live triage writes it while it goes on. For evidence that somebody collected it is derived: the same evidence is judged
again and again, each time with one more source, in the order of what the sources cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kit.analyse.verdict.evidence import Evidence, SyscallDigest
from kit.analyse.verdict.scene import scene_of, scene_of_run
from kit.analyse.verdict.verdict import GUESS_SHARE, Verdict, weigh
from kit.document import Document, Item, Section, items, percent
from kit.tool_table import steps

if TYPE_CHECKING:
    from kit.analyse.verdict.hypotheses import Hypothesis
    from kit.run import Run

LEADERS = 3
MOST_SAID = 6
REFUTED_BY = 4.0
"""A guess is refuted where its share of belief falls below 1 % and below a quarter of what it was."""
TEMPTING = 0.006
"""The first guess of people is listed for as long as it has this share."""
AT_HAND = {"what": "the log", "why": "it is there", "command": "tail -n 50 LOG", "cost_s": 0.0}
SYSTEMS = frozenset({"linux", "darwin"})
"""What a step may be for; on the other system, the step of this one gave the evidence."""
SAMPLED = ("processes", "io")
"""Frames that the second sample completes."""


def entry(before: Verdict | None, after: Verdict, step: dict, t_s: float) -> dict:
    """One line of the ledger.

    `before`, `after`: judgements before and after the test; `before` is None at the first look. `step`: the test: `what`, `why`,
    `command`, `cost_s`. `t_s`: seconds since the beginning, when it was judged. Returns `t_s test why command cost outcome
    leading state for against changed because`, plain types.
    """
    had, has = before.signs if before else {}, after.signs
    new = [sign.claim for code, sign in has.items() if code not in had and not code.startswith("phase_")]
    ceased = [f"no longer: {sign.claim}" for code, sign in had.items() if code not in has and not code.startswith("phase_")]
    best = after.hypothesis
    leading = after.hypotheses[:LEADERS]
    leading += [guess for guess in after.hypotheses if _tempting(guess, leading)]
    changed = before is not None and before.klass != after.klass
    return {
        "t_s": round(t_s, 1),
        "test": step["what"],
        "why": step.get("why") or "",
        "command": step.get("command") or "",
        "cost": step.get("cost_s") or 0.0,
        "outcome": (new + ceased)[:MOST_SAID] or ["nothing that was not known"],
        "leading": [[found.name, round(found.share, 3)] for found in leading],
        "state": after.state,
        "for": [sign.claim for sign, _, _ in best.supporting[:LEADERS]],
        "against": [sign.claim for sign, _, _ in best.opposing[:LEADERS]],
        "changed": changed,
        "because": because(before, after) if before else "",
    }


def _tempting(guess: Hypothesis, leading: list[Hypothesis]) -> bool:
    """Whether the first guess of people stands: something speaks for it and nothing refutes it yet."""
    return bool(guess.klass.first_guess and guess.supporting) and guess not in leading and guess.share >= TEMPTING


def because(before: Verdict, after: Verdict) -> str:
    """Why the belief changed: the sign that moved the new leader away from the old one, or that refuted a first guess."""
    said: list[str] = []
    refuted: dict[str, list[str]] = {}
    had, has = before.signs, after.signs
    moved = {code: 1 for code in has.keys() - had.keys()} | {code: -1 for code in had.keys() - has.keys()}
    if before.klass != after.klass:
        pulls = []
        for code, direction in moved.items():
            (to, reason), (of, other) = (found.hypothesis.klass.signs.get(code, (0.0, "")) for found in (after, before))
            claim = (has.get(code) or had[code]).claim
            pulls.append((direction * (to - of), claim if direction > 0 else f"no longer: {claim}", reason or other))
        best = max(pulls, default=(0.0, "", ""))
        if best[0] > 0:
            said.append(f"{after.klass} instead of {before.klass}: {best[1]} ({best[2]})")
        else:
            said.append(f"{after.klass} instead of {before.klass}: what spoke for {before.klass} weighs less now")
    shares = {found.name: found.share for found in after.hypotheses}
    for old in before.hypotheses:
        now = shares.get(old.name, 0.0)
        if old.name == before.klass or old.share < GUESS_SHARE and not old.klass.first_guess:
            continue
        if now < GUESS_SHARE and now * REFUTED_BY < old.share:
            against = min(((old.klass.weight(code), has[code].claim) for code in moved if code in has), default=(0.0, ""))
            if against[0] < 0:
                refuted.setdefault(against[1], []).append(
                    f"the guess “{old.klass.first_guess}”" if old.klass.first_guess else old.name
                )
    said += [f"{claim}: refutes {', '.join(names)}" for claim, names in refuted.items()]
    return "; ".join(said[:LEADERS])


def ledger_of(run: Run) -> list[dict]:
    """Ledger of a run: as recorded by a triage, else derived from its evidence.

    Returns entries as `entry` gives them.

    Examples
    --------
    >>> import kit
    >>> steps = ledger_of(kit.open_run(kit.sample_path("sg01-capture-hang")))
    >>> steps[0]["test"], steps[-1]["leading"][0][0]
    ('the log', 'device_hang')
    """
    recorded = run.manifest.get("ledger")
    return list(recorded) if isinstance(recorded, list) and recorded else derived(scene_of_run(run).evidence)


def derived(evidence: Evidence) -> list[dict]:
    """Judge the evidence with one more source at a time, the cheapest first; sources that need consent come last."""
    sources = steps(evidence.run.knowledge)
    owned = {"probes"} | {name for source in sources for name in source["have"]}
    given = {name: [] if name in owned else rows for name, rows in evidence.rows.items()}
    partial = replace(evidence, rows=given, syscalls=SyscallDigest())
    verdict = weigh(scene_of(partial))
    found = [entry(None, verdict, AT_HAND, 0.0)]
    elsewhere = SYSTEMS - {verdict.where.system}

    def order(source: dict) -> tuple[bool, bool, float]:
        return bool(elsewhere & {*source.get("on", ())}), bool(source.get("consent")), source["cost_s"]

    for source in sorted(sources, key=order):
        if not _add(source, evidence, partial):
            continue
        before, verdict = verdict, weigh(scene_of(partial))
        found.append(entry(before, verdict, {**source, "what": source["name"]}, 0.0))
    return found


def _add(source: dict, evidence: Evidence, partial: Evidence) -> bool:
    """Add what a source gives; False where the evidence holds none of it."""
    added = False
    for name in source["have"]:
        if name == "syscalls":
            if evidence.syscalls.calls and not partial.syscalls.calls:
                partial.syscalls, added = evidence.syscalls, True
            continue
        rows = evidence.rows[name]
        if name in SAMPLED and not source.get("twice"):
            first = min((row["moment"] for row in rows if row.get("moment") is not None), default=None)
            rows = [row for row in rows if row.get("moment") in (None, first)]
        if len(rows) > len(partial.rows[name]):
            partial.rows[name], added = rows, True
    if not source["have"] and "generate_works" in source["signs"]:  # requests other than the look at health
        added = len(evidence.rows["probes"]) > len(partial.rows["probes"])
        partial.rows["probes"] = evidence.rows["probes"]
    return added


def document(ledger: list[dict]) -> Document:
    """The ledger as a document: the test, what it showed, what was believed then, and why that changed.

    Examples
    --------
    >>> from kit.document.text import render
    >>> line = {"t_s": 2.0, "test": "listeners", "outcome": ["nothing is listening on port 30000"], "changed": False,
    ...     "leading": [["device_hang", 0.5]], "state": "stalled", "because": ""}
    >>> print(render(document([line])))
    ledger
    <BLANKLINE>
    after 2.0 s: listeners
      • nothing is listening on port 30000
      → stalled: device_hang 50 %
    """
    sections = []
    for step in ledger:
        belief = ", ".join(f"{name} {percent(share)}" for name, share in step["leading"])
        blocks = [*items(step["outcome"]), Item(f"{step['state']}: {belief}", "→", small="")]
        blocks += [Item(step["because"], "", level=1)] if step["because"] else []
        sections.append(Section(f"after {step['t_s']:.1f} s: {step['test']}", blocks))
    return Document("ledger", sections)
