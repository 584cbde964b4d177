"""What is said of a run beside its tracks: the verdict with its places, the board, events to step through, earlier verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.live_status import LogActivity, status_of
from kit.analyse.verdict.scene import scene_of, scene_of_run
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.analyse.verdict.verdict_text import answer
from kit.clock import NS, show_duration
from kit.errors import KitError, UsageError
from kit.run import Run
from kit.show.status import process_table

MOMENTS = 10
"""Most earlier verdicts that a static page holds."""
CHEAP_BYTES = 30 * 2**20
"""Earlier verdicts are made ahead for evidence of up to this size: each reads what is not kept in memory once more."""
SILENT_S = 10.0
"""A stretch without a record is an event from here on: an ordinary launch prints more often."""
EVENTS = 400


def judged(run: Run, at_s: float | None = None, clean: Callable[[str], str] = str, good: Run | None = None) -> dict[str, Any]:
    """The verdict and the board of a run, as of a second of its axis or against a launch that worked, as plain data.

    Raises
    ------
    KitError
        Where nothing was known at that moment.
    """
    if at_s is not None:
        run = run.as_of(earlier_text(run, at_s))
    activity = LogActivity(run.captured_ns)
    scene = scene_of_run(run, against=good) if run.as_of_ns is None else scene_of(gather(run, also={"log": activity.add}))
    if run.as_of_ns is None:
        for row in run.rows("log") if sum(capture.size_bytes for capture in run.captures) < CHEAP_BYTES else ():
            activity.add(row)
    found = weigh(scene)
    return {**told(found, clean), "board": _board(found, activity, clean)}


def earlier_text(run: Run, at_s: float) -> str:
    """A second of the axis as a moment that `Run.as_of` takes.

    Raises
    ------
    UsageError
        Where the evidence carries no time.
    """
    if run.launch_zero_ns is None:
        raise UsageError("nothing is known of an earlier moment", "the evidence carries no time", "judge all of it")
    return pd.Timestamp(run.launch_zero_ns + int(at_s * NS), unit="ns", tz="UTC").isoformat().replace("+00:00", "Z")


def told(verdict: Verdict, clean: Callable[[str], str] = str) -> dict[str, Any]:
    """A verdict as plain data: its answer, evidence, next steps and hypotheses."""
    return {
        "state": verdict.state,
        "class": verdict.klass,
        "answer": clean(answer(verdict)),
        "at": verdict.captured_at,
        "ranks": verdict.ranks,
        "evidence": _evidence(verdict, clean),
        "next": [{"what": clean(step["what"]), "command": clean(step["command"])} for step in verdict.next],
        "hypotheses": [
            {
                "class": one.name,
                "share": round(one.share, 3),
                "plain": one.klass.plain,
                "for": [clean(sign.claim) for sign, _, _ in one.supporting],
                "against": [clean(sign.claim) for sign, _, _ in one.opposing],
            }
            for one in verdict.shown()
        ],
    }


def _evidence(verdict: Verdict, clean: Callable[[str], str]) -> list[dict]:
    """Claims, each once, with the first place of each that a line is known of, and the second of the axis that it speaks of."""
    seconds = _moments_of(verdict)
    found: dict[str, dict] = {}
    for entry in verdict.evidence:
        claim, place = clean(entry["claim"]), (entry["capture"], entry["line"])
        if claim not in found or not found[claim]["line"] and entry["line"]:
            at = seconds.get(place, seconds.get((entry["capture"], None)))
            found[claim] = {
                "claim": claim,
                "file": entry["capture"] and clean(entry["capture"]),
                "line": entry["line"],
                "t": at,
                "text": clean(entry["text"] or ""),
            }
    return list(found.values())


def _moments_of(verdict: Verdict) -> dict[tuple, float]:
    """When each row of the evidence is of, by file and line; and each file without times, as a whole."""
    evidence = verdict.scene.evidence
    zero = evidence.run.launch_zero_ns
    if zero is None:
        return {}
    times = {(name, None): when for name, when in evidence.run.known_from().items()}
    for rows in evidence.rows.values():
        times |= {(row.get("capture"), row.get("line")): row["time"] for row in rows if row.get("time") is not None}
    return {place: round((when - zero) / NS, 3) for place, when in times.items() if when is not None}


def _board(verdict: Verdict, activity: LogActivity, clean: Callable[[str], str]) -> dict:
    table = process_table(status_of(verdict, activity))
    return {
        "columns": list(table.columns),
        "rows": [[clean(str(cell)) for cell in row] for row in table.rows],
        "odd": sorted(table.odd),
        "numeric": sorted(table.numeric),
    }


def earlier(run: Run, events: list[dict], span: tuple[float, float], clean: Callable[[str], str] = str) -> list[dict]:
    """Verdicts of earlier moments: a little after each phase and the samples began, and while nothing more came."""
    if sum(capture.size_bytes for capture in run.captures) > CHEAP_BYTES:
        return []
    at = [round(event["t"] + 0.5, 1) for event in events if event["kind"] != "gap"]
    at += [round(event["t"] + later, 1) for event in events if event["kind"] == "last progress" for later in (10, 60, 600)]
    at = sorted(moment for moment in set(at) if moment < span[1])
    chosen = [at[n] for n in np.unique(np.linspace(0, len(at) - 1, min(MOMENTS, len(at))).astype(int))] if at else []
    found = []
    for moment in dict.fromkeys(chosen):
        try:
            found.append({"t": moment, **judged(run, moment, clean)})
        except KitError:  # nothing was known yet, or the evidence ends before
            continue
    return found


def events_of(frames: Mapping[str, pd.DataFrame], bands: list, knee_s: float | None, end_s: float) -> list[dict]:
    """What there is to step through: phases, silences, the first sample, gaps in the samples, the last progress."""
    first: dict[str, float] = {}
    for _, phase, begin, _, _ in bands:
        first[phase] = min(begin, first.get(phase, begin))
    found = [{"t": begin, "kind": "phase", "label": f"{phase} begins"} for phase, begin in first.items()]
    seconds = np.sort(frames["log"]["t_s"].dropna().to_numpy(float))
    seconds = np.append(seconds, end_s) if len(seconds) else seconds
    quiet = np.diff(seconds)
    for at in np.flatnonzero(quiet >= SILENT_S):
        found.append(
            {"t": round(float(seconds[at]), 3), "kind": "silence", "label": f"no record for {show_duration(float(quiet[at]))}"}
        )
    for gap in frames["gaps"].dropna(subset=["t_s"]).itertuples():
        found.append(
            {"t": round(gap.t_s, 3), "kind": "gap", "label": f"no samples for {show_duration(gap.duration_s)}: {gap.why}"}
        )
    sampled = frames["processes"]["t_s"].min()
    if not pd.isna(sampled):
        found.append({"t": round(float(sampled), 3), "kind": "samples", "label": "the first sample of processes"})
    if knee_s is not None:
        found.append({"t": round(knee_s, 3), "kind": "last progress", "label": "last progress"})
    if len(found) > EVENTS:
        found = sorted(found, key=lambda event: event["kind"] == "silence")[:EVENTS]
    return sorted(found, key=lambda event: event["t"])
