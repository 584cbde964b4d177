"""The verdict for people, as a document: the answer first, then evidence, remedy, hypotheses, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.clock import show_duration
from kit.document import Block, Command, Document, Item, Section, Values, items, percent
from kit.words import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kit.analyse.verdict.hypotheses import Hypothesis
    from kit.analyse.verdict.live_status import Status
    from kit.analyse.verdict.verdict import Verdict

MOST_REMEDIES = 3
"""Known cases that are shown; `Verdict.remedies` has all that fit."""
MOST_EVIDENCE, BRIEF_EVIDENCE = 10, 3
SILENT_S = 60.0
"""Silence is part of the answer from one minute on: heartbeats come each minute at the latest."""
SURE = 0.98
"""Above this share of belief nobody asks what would settle it."""
REFUTED = 0.01
"""A class with something against it and less of the belief is refuted."""
SHOWN_FACTS = tuple(
    """
    log_lines silence_s weights_done weights_s weights_elapsed_s s_per_shard eta_s eta_range_s graph_done graph_s jit_done
    heartbeats ready exited signal restarts port port_listening port_owner_pid health_http generate_works world_size ranks_dead
    lagging_ranks ranks_same_place state threads fds rss_kb rss_anon_kb rss_file_kb rss_shmem_kb d_state_pids wchan blocked_fd
    lock_path lock_holder compilers_running gpu_util gpu_mem_mib_max xids step seq op timeout_ms timeout_s peer first_error
    log_deleted last_line
    """.split()
)


def standing(judged: Verdict | Status) -> str:
    """Where a launch stands, as a part of the answer; nothing where it is up, or where nothing tells more than that it began."""
    told = judged.phase not in (None, "", "ready", "serving") and (judged.klass, judged.phase) != ("undetermined", "launch")
    return f" in {judged.phase}" if told else ""


def answer(judged: Verdict | Status, state: str = "", silence_s: float | None = None) -> str:
    """One sentence: state, phase, class in plain words, odd ranks, share of belief, silence."""
    phase = standing(judged)
    ranks = f", rank{'s' * (len(judged.ranks) > 1)} {', '.join(map(str, judged.ranks))}" if judged.ranks else ""
    sure = f", {percent(judged.confidence)}" if judged.klass != "undetermined" else ""
    silent = f", silent for {show_duration(silence_s)}" if silence_s is not None and silence_s >= SILENT_S else ""
    return f"{state or judged.state}{phase}: {judged.plain} ({judged.klass}){ranks}{sure}{silent}"


def headline(verdict: Verdict) -> str:
    """The answer of a verdict."""
    silence = verdict.facts.value("silence_s") if verdict.state in ("stalled", "unknown", "progressing") else None
    return answer(verdict, silence_s=silence)


def document(verdict: Verdict, brief: bool = False) -> Document:
    """What a verdict says; `brief` for a chat: the answer, what carries it, what to do, the next step."""
    urgent = not brief and verdict.state not in ("ready", "ended")
    remedies = [block for known in verdict.remedies[: 1 if brief else MOST_REMEDIES] for block in _remedy(known)]
    sections = [
        Section("evidence", _evidence(verdict)[: BRIEF_EVIDENCE if brief else MOST_EVIDENCE]),
        Section("remedy", remedies),
        Section("also found", [block for entry in verdict.findings for block in _finding(entry)]),
        Section("next", [_step(step) for step in (verdict.next[:1] if brief else verdict.next[urgent:])]),
    ]
    if not brief:  # the first screen: what is wrong, and what to run; then why
        sections.insert(
            3, Section("hypotheses", [block for h in verdict.shown() for block in _hypothesis(h, verdict)], folded=True)
        )
        meaning = [] if verdict.said_closely else [Item(verdict.hypothesis.meaning, "")]
        sections.insert(0, Section("what it means", [*meaning, *(Item(f"it is {says}", "") for says in verdict.where.roles)]))
        sections.insert(1, Section("run first", [_step(step) for step in verdict.next[:urgent]]))
        sections.append(Section("facts", [Values(facts)] if (facts := _facts(verdict)) else [], folded=True))
        sections.append(Section("what is missing", items(absent(verdict), "·"), folded=True))
    if verdict.rival:
        sections.insert(0, Section("not decided", [_rival(verdict, verdict.rival)]))
    return Document(
        title=headline(verdict),
        subtitle=f"{verdict.name}, as of {verdict.captured_at} ({verdict.captured_by}){_quiet(verdict)}",
        sections=sections,
        last=Command(f"kit report {verdict.path}"),
        tone=verdict.state,
    )


def _rival(verdict: Verdict, other: Hypothesis) -> Item:
    """The class that shares the belief, and the test that parts the two."""
    both = [verdict.klass, other.name]
    test = next((f"what parts them: {step['what']} ({step['why']})" for step in verdict.next if step["separates"] == both), "")
    said = f"{other.klass.plain} ({other.name}) is likely too, {percent(other.share)}"
    return Item(f"{said}; {test or 'no further capture is known that parts them'}", "?")


def _quiet(verdict: Verdict) -> str:
    """A silence that is too short for the answer."""
    silence = verdict.facts.value("silence_s")
    recent = silence is not None and 1 <= silence < SILENT_S and verdict.state in ("stalled", "unknown", "progressing")
    return f", last progress {show_duration(silence)} earlier" if recent else ""


def absent(verdict: Verdict) -> list[str]:
    """What is missing; a command that is among the next steps is not printed twice."""
    above = {step["command"] for step in verdict.next}
    parts = [sentence.rpartition("; get it with: ") for sentence in verdict.missing]
    return [
        f"{what.partition(':')[0]} (its command is above)" if what and command in above else what + joint + command
        for what, joint, command in parts
    ]


def _step(step: dict) -> Command:
    consent = ", needs consent" if step["consent"] else ""
    return Command(step["command"], f"{step['what']}: {step['why']} (about {step['cost_s']:g} s of CPU{consent})")


def source_of(known: dict) -> str:
    """Where a remedy comes from: its known case, the versions that have it."""
    words = [f"known case: {known['name']}"]
    words += [
        f"{word} {known[key]}"
        for key, word in (("source", "source:"), ("since", "since"), ("fixed", "fixed in"))
        if known.get(key)
    ]
    return "; ".join(words)


def _remedy(known: dict) -> list[Block]:
    return [Item(known["what"], ""), Item(known["do"], "→", small=source_of(known))]


def _finding(entry: dict) -> list[Block]:
    first = next(iter(entry["evidence"]), {})
    claim = Item(entry["claim"], "!" if entry["severity"] == "error" else "·", _where(first), first.get("text") or "")
    return [claim, Item(entry["next"], "→")]


def _where(reference: dict) -> str:
    """File and line of some evidence."""
    capture, line = reference.get("capture"), reference.get("line")
    return f"{capture}:{line}" if capture and line else capture or ""


def _evidence(verdict: Verdict) -> list[Block]:
    """Claims, each once, with the first place where it stands."""
    firsts: dict[str, dict] = {}
    for entry in verdict.evidence:
        firsts.setdefault(entry["claim"], entry)
    quoted = quotes(list(firsts.values()))
    return [Item(claim, "•", _where(entry), text) for (claim, entry), text in zip(firsts.items(), quoted, strict=True)]


def quotes(entries: Sequence[dict]) -> list[str]:
    """The text to quote below each claim: none that the claim says itself, or that stands below one before it.

    Examples
    --------
    >>> quotes([{"claim": "no memory", "text": "OOM"}, {"claim": "it says: x", "text": "x"}, {"claim": "a", "text": "OOM"}])
    ['OOM', '', '']
    """
    shown: list[str] = []
    for entry in entries:
        text = entry["text"] or ""
        shown.append("" if text in shown or text.rstrip(".") in entry["claim"] else text)
    return shown


def _hypothesis(hypothesis: Hypothesis, verdict: Verdict) -> list[Block]:
    refuted = hypothesis.share < REFUTED and hypothesis.opposing
    belief = "refuted" if refuted else percent(hypothesis.share)
    blocks: list[Block] = [Item(f"{hypothesis.klass.plain} ({hypothesis.name}): {belief}", "×" if refuted else "?")]
    # What speaks for the verdict's own class stands under "evidence" already.
    supporting = hypothesis.supporting if hypothesis.name != verdict.klass else []
    for mark, entries in (("+", supporting), ("−", hypothesis.opposing)):
        blocks += [
            Item(sign.claim, mark, level=1)
            for sign, weight, _ in entries[:4]
            if abs(weight) >= 0.5 and not sign.code.startswith("phase_")
        ]
    if hypothesis.settled_by and not refuted and verdict.confidence < SURE:
        first = hypothesis.settled_by[0]
        blocks.append(Item(f"would settle it: {first['capture']} ({first['reason']})", "?", level=1))
    return blocks


def _facts(verdict: Verdict) -> dict[str, str]:
    known = {name: verdict.facts.value(name) for name in SHOWN_FACTS}
    shown = {name: fact_text(name, value) for name, value in known.items() if value is not None and value != []}
    if known["rss_shmem_kb"] and "rss_kb" in shown:
        shown["rss_kb"] += "; not a sum over ranks, which share shared and file pages"
    return shown


def fact_text(name: str, value: object) -> str:
    """A fact as people say it.

    Examples
    --------
    >>> fact_text("silence_s", 6165.0), fact_text("rss_kb", 256901120), fact_text("weights_done", [1, 4])
    ('1 h 42 min', '245 GiB', '1 of 4')
    """
    if name.endswith("_s") and isinstance(value, (int, float)) and name != "s_per_shard":
        return show_duration(value)
    if name.endswith("_kb") and isinstance(value, int):
        return f"{value / 2**20:,.{1 if value < 100 * 2**20 else 0}f} GiB"
    if name == "gpu_util":
        return f"{value} %"
    if name == "gpu_mem_mib_max":
        return f"{value:,} MiB"
    if name == "eta_range_s" and isinstance(value, list):
        return " to ".join(map(show_duration, value))
    if isinstance(value, list):
        return f"{value[0]:g} of {value[1]:g}" if name.endswith("_done") else short(", ".join(map(str, value)), 160)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else short(str(value), 160)
