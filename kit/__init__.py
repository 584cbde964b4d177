"""stallkit: work out why the launch of an LLM server stalled, and compare runs.

The façade has what the command line has, under the same names: `verdict`, `report`, `export`, `compare`, `attempts`, `bench`,
`calls`, `similar`, `runs`; `collect`, `pull`, `triage`, `watch`, `guard`; `lab`, `notebooks`; `learn`; and `explore`, `open_run`,
`sample`, `facts`, `benchmarks`, `perfetto` for notebooks. Nothing heavy is imported until it is called for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lazy import lazily

__version__ = "0.1.0"

_WHERE = {
    "open_run": "open",
    "Run": "run",
    "verdict": "analyse.verdict.verdict",
    "Verdict": "analyse.verdict.verdict",
    "sample": "samples",
    "sample_path": "samples",
    "facts": "analyse.verdict.tables",
    "phase_table": "analyse.verdict.phase_table",
    "fleet": "analyse.fleet",
    "compare": "analyse.launches.compare",
    "Comparison": "analyse.launches.compare",
    "attempts": "analyse.launches.attempts",
    "Attempts": "analyse.launches.attempts",
    "benchmarks": "analyse.bench.results",
    "bench": "analyse.bench.compare:compare_benchmarks",
    "compare_benchmarks": "analyse.bench.compare",
    "compare_launches": "analyse.bench.compare",
    "export": "analyse.verdict.tables",
    "calls": "analyse.calls.study",
    "Calls": "analyse.calls.study",
    "collect": "capture.collect",
    "pull": "capture.logs.pull",
    "guard": "live.guard",
    "triage": "live.triage",
    "watch": "live.watch",
    "report": "render.report",
    "perfetto": "render.perfetto",
    "explore": "show.explorer",
    "lab": "workspace",
    "notebooks": "workspace",
    "learn": "analyse.knowledge.learn",
    "similar": "analyse.knowledge.similar",
    "runs": "analyse.launches.library",
    "KitError": "errors",
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
__getattr__, __dir__ = lazily(__name__, _WHERE)
