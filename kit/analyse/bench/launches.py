"""Launches as benchmark results: the durations of their phases go through the same comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kit.analyse.bench.results import Benchmarks, names_of
from kit.analyse.verdict.phase_table import phase_table
from kit.analyse.verdict.phases import ORDER
from kit.open import open_run
from kit.parse.bench.base import LOWER, Result
from kit.run import Run

TOTAL = "time_to_ready_s"
READY = "ready"


def launch_results(launches: Sequence[Run | str | os.PathLike]) -> Benchmarks:
    """Return the phase durations of launches as the results of a benchmark.

    A phase lasts as long as the rank that spends most time in it; the phase in which a launch stands when its evidence ends is
    no measurement, nor is a launch that never became ready a fast one.

    Metrics are `phase_<name>_s` and `time_to_ready_s`, statistic `run`, in seconds.

    Examples
    --------
    >>> import kit
    >>> bench = launch_results([kit.sample_path("healthy-tp2")])
    >>> bench.values[["metric", "unit", "direction"]].iloc[-1].tolist()
    ['time_to_ready_s', 's', 'lower_is_better']
    """
    runs = [item if isinstance(item, Run) else open_run(Path(item)) for item in launches]
    names = names_of([Path(run.path) for run in runs])
    return Benchmarks([_result(run, name) for run, name in zip(runs, names, strict=True)])


def _result(run: Run, name: str) -> Result:
    from kit.analyse.verdict.scene import scene_of_run
    from kit.analyse.verdict.settings import settings_of

    result = Result(name, "launch")
    settings = settings_of(scene_of_run(run).evidence)
    durations, ready = _durations(run)
    result.run(
        name,
        benchmark=f"launch of {settings.server or 'an unknown server'}",
        model=str(settings.options["model"]) if settings.options.get("model") else None,
        started=run.launch_zero_ns,
        launch={
            "options": settings.options,
            "given": sorted(settings.of("command line")),
            "env": settings.of("environment"),
            "versions": settings.of("versions"),
        },
    )
    for phase, seconds in durations.items():
        result.value(name, f"phase_{phase}_s", "run", seconds, n=1, unit="s", direction=LOWER)
    if ready is None:
        result.warn(
            f"{name} never became ready, or not at a known time: it counts in no time to ready, and its last phase in none"
        )
    else:
        result.value(name, TOTAL, "run", ready, n=1, unit="s", direction=LOWER)
    return result


def _durations(run: Run) -> tuple[dict[str, float], float | None]:
    """Seconds of each finished phase, of the rank that spent most in it, and seconds to ready of the last rank."""
    table = phase_table(run)
    longest: dict[str, float] = {}
    ready = []
    for _, rows in table.groupby("rank", dropna=False, sort=False):
        done = rows.iloc[:-1]
        for phase, seconds in done.groupby("phase")["duration_s"].sum(min_count=1).items():
            if seconds == seconds and phase not in (READY, "serving"):
                longest[phase] = max(longest.get(phase, 0.0), float(seconds))
        reached = rows[rows["phase"].map(ORDER) >= ORDER[READY]]
        begin = rows["begin_t_s"].iloc[0]
        zero = 0.0 if run.launch_zero_ns is not None else begin
        ready.append(float(reached["begin_t_s"].iloc[0] - zero) if len(reached) else None)
    whole = None if not ready or None in ready or any(value != value for value in ready) else max(ready)
    return {phase: longest[phase] for phase in sorted(longest, key=ORDER.__getitem__)}, whole
