"""stallkit: work out why the launch of an LLM server stalled, and compare runs.

The façade has what the command line has, under the same names: `verdict`, `report`, `export`, `compare`, `attempts`, `bench`,
`calls`, `similar`, `runs`; `collect`, `pull`, `triage`, `watch`, `guard`; `lab`, `notebooks`; `learn`; and `explore`, `open_run`,
`sample`, `facts`, `benchmarks`, `perfetto` for notebooks. Nothing heavy is imported until it is called for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "open_run": "kit.open",
    "Run": "kit.run",
    "verdict": "kit.analyse.verdict.verdict",
    "Verdict": "kit.analyse.verdict.verdict",
    "sample": "kit.samples",
    "sample_path": "kit.samples",
    "facts": "kit.analyse.verdict.tables",
    "phase_table": "kit.analyse.verdict.phase_table",
    "fleet": "kit.analyse.fleet",
    "compare": "kit.analyse.launches.compare",
    "Comparison": "kit.analyse.launches.compare",
    "attempts": "kit.analyse.launches.attempts",
    "Attempts": "kit.analyse.launches.attempts",
    "benchmarks": "kit.analyse.bench.results",
    "bench": "kit.analyse.bench.compare:compare_benchmarks",
    "compare_benchmarks": "kit.analyse.bench.compare",
    "compare_launches": "kit.analyse.bench.compare",
    "export": "kit.analyse.verdict.tables",
    "calls": "kit.analyse.calls.study",
    "Calls": "kit.analyse.calls.study",
    "collect": "kit.capture.collect",
    "pull": "kit.capture.logs.pull",
    "guard": "kit.live.guard",
    "triage": "kit.live.triage",
    "watch": "kit.live.watch",
    "report": "kit.render.report",
    "perfetto": "kit.render.perfetto",
    "explore": "kit.show.explorer",
    "lab": "kit.workspace",
    "notebooks": "kit.workspace",
    "learn": "kit.analyse.knowledge.learn",
    "similar": "kit.analyse.knowledge.similar",
    "runs": "kit.analyse.launches.library",
    "KitError": "kit.errors",
}
"""Public name to the module that defines it, with the name there where it is another: older names stay."""

if TYPE_CHECKING:
    from kit.analyse.bench.compare import compare_benchmarks, compare_launches
    from kit.analyse.bench.compare import compare_benchmarks as bench
    from kit.analyse.bench.results import benchmarks
    from kit.analyse.calls.study import Calls, calls
    from kit.analyse.fleet import fleet
    from kit.analyse.knowledge.learn import learn
    from kit.analyse.knowledge.similar import similar
    from kit.analyse.launches.attempts import Attempts, attempts
    from kit.analyse.launches.compare import Comparison, compare
    from kit.analyse.launches.library import runs
    from kit.analyse.verdict.phase_table import phase_table
    from kit.analyse.verdict.tables import export, facts
    from kit.analyse.verdict.verdict import Verdict, verdict
    from kit.capture.collect import collect
    from kit.capture.logs.pull import pull
    from kit.errors import KitError
    from kit.live.guard import guard
    from kit.live.triage import triage
    from kit.live.watch import watch
    from kit.open import open_run
    from kit.render.perfetto import perfetto
    from kit.render.report import report
    from kit.run import Run
    from kit.samples import sample, sample_path
    from kit.show.explorer.widget import explore
    from kit.workspace import lab, notebooks

__all__ = [
    "Attempts",
    "Calls",
    "Comparison",
    "KitError",
    "Run",
    "Verdict",
    "attempts",
    "bench",
    "benchmarks",
    "calls",
    "collect",
    "compare",
    "compare_benchmarks",
    "compare_launches",
    "explore",
    "export",
    "facts",
    "fleet",
    "guard",
    "lab",
    "learn",
    "notebooks",
    "open_run",
    "perfetto",
    "phase_table",
    "pull",
    "report",
    "runs",
    "sample",
    "sample_path",
    "similar",
    "triage",
    "verdict",
    "watch",
]


def __getattr__(name: str):
    if name in _WHERE:
        module, _, there = _WHERE[name].partition(":")
        return getattr(import_module(module), there or name)
    raise AttributeError(f"module 'kit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
