"""stallkit: work out why the launch of an LLM server stalled, and compare runs.

The façade: `open_run`, `verdict`, `collect`, `compare`, `attempts`, `benchmarks`, `compare_benchmarks`, `report`, `learn`,
`similar`, `sample`, `triage`, `watch`. Nothing heavy is imported until it is called for.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "open_run": "kit.run",
    "Run": "kit.run",
    "verdict": "kit.analyse.verdict",
    "Verdict": "kit.analyse.verdict",
    "sample": "kit.samples",
    "sample_path": "kit.samples",
    "facts": "kit.analyse.tables",
    "compare": "kit.analyse.compare",
    "Comparison": "kit.analyse.compare",
    "attempts": "kit.analyse.attempts",
    "Attempts": "kit.analyse.attempts",
    "benchmarks": "kit.analyse.benchmarks",
    "compare_benchmarks": "kit.analyse.compare_benchmarks",
    "compare_launches": "kit.analyse.compare_benchmarks",
    "collect": "kit.capture.collect",
    "triage": "kit.live.triage",
    "watch": "kit.live.watch",
    "report": "kit.render.report",
    "learn": "kit.analyse.learn",
    "similar": "kit.analyse.similar",
    "KitError": "kit.errors",
}
"""Public name to the module that defines it."""

if TYPE_CHECKING:
    from kit.analyse.attempts import Attempts, attempts
    from kit.analyse.benchmarks import benchmarks
    from kit.analyse.compare import Comparison, compare
    from kit.analyse.compare_benchmarks import compare_benchmarks, compare_launches
    from kit.analyse.learn import learn
    from kit.analyse.similar import similar
    from kit.analyse.tables import facts
    from kit.analyse.verdict import Verdict, verdict
    from kit.capture.collect import collect
    from kit.errors import KitError
    from kit.live.triage import triage
    from kit.live.watch import watch
    from kit.render.report import report
    from kit.run import Run, open_run
    from kit.samples import sample, sample_path

__all__ = [
    "Attempts", "Comparison", "KitError", "Run", "Verdict", "attempts", "benchmarks", "collect", "compare", "compare_benchmarks",
    "compare_launches", "facts", "learn", "open_run", "report", "sample", "sample_path", "similar", "triage", "verdict",
    "watch",
]


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'kit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
