"""stallkit: work out why the launch of an LLM server stalled, and compare runs.

The façade has what the command line has, under the same names: `verdict`, `report`, `export`, `compare`, `attempts`, `bench`,
`calls`, `similar`, `runs`; `collect`, `pull`, `triage`, `watch`, `guard`; `lab`, `notebooks`; `learn`; and `explore`, `open_run`,
`sample`, `facts`, `benchmarks`, `perfetto` for notebooks. Nothing heavy is imported until it is called for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lazy import lazily

__version__ = "0.1.0"

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

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "open": "open_run",
        "run": "Run",
        "analyse.verdict.verdict": "verdict Verdict",
        "samples": "sample sample_path",
        "analyse.verdict.tables": "facts export",
        "analyse.verdict.phase_table": "phase_table",
        "analyse.fleet": "fleet",
        "analyse.launches.compare": "compare Comparison",
        "analyse.launches.attempts": "attempts Attempts",
        "analyse.launches.library": "runs",
        "analyse.bench.results": "benchmarks",
        "analyse.bench.compare": "bench=compare_benchmarks compare_benchmarks compare_launches",
        "analyse.calls.study": "calls Calls",
        "analyse.knowledge.learn": "learn",
        "analyse.knowledge.similar": "similar",
        "capture.collect": "collect",
        "capture.logs.pull": "pull",
        "live.guard": "guard",
        "live.triage": "triage",
        "live.watch": "watch",
        "render.report": "report",
        "render.perfetto": "perfetto",
        "show.explorer": "explore",
        "workspace": "lab notebooks",
        "errors": "KitError",
    },
)
