"""What a notebook shows: figures with alternative text, escaped tables, a chooser of runs. All survive an export."""

from __future__ import annotations

from importlib import import_module

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


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(f"kit.show.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'kit.show' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
