"""What a notebook shows: figures with alternative text, escaped tables, a chooser of runs. All survive an export."""

from __future__ import annotations

from kit.lazy import lazily

_WHERE = {
    "figure": "images",
    "table": "tables",
    "records": "tables",
    "log_around": "tables",
    "evidence": "verdicts",
    "hypotheses": "verdicts",
    "facts": "verdicts",
    "ledger": "verdicts",
    "next_steps": "verdicts",
    "appendix": "folded",
    "choose": "opening",
}
"""Public name to the module of this package that defines it."""

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
