"""What a notebook shows: figures with alternative text, escaped tables, a chooser of runs. All survive an export."""

from __future__ import annotations

from kit.lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "images": "figure",
        "tables": "table records log_around",
        "verdicts": "evidence hypotheses facts ledger next_steps",
        "folded": "appendix",
        "opening": "choose",
    },
)
