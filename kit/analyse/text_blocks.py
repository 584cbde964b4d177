"""Rows of frames as plain types, and lists in words."""

from __future__ import annotations


def records(frame) -> list[dict]:
    """Rows of a frame as plain types, missing values as None."""
    names = [str(name) for name in frame.columns]
    return [
        {name: plain(value) for name, value in zip(names, values, strict=True)}
        for values in frame.itertuples(index=False, name=None)
    ]


def plain(value: object) -> object:
    """A cell of a frame as a plain type."""
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return value.item() if hasattr(value, "item") else value


def named(rows: list[str], most: int = 6) -> str:
    """The first of a list in words, and how many more there are.

    Examples
    --------
    >>> named(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(rows[:most]) + (f" and {len(rows) - most} more" if len(rows) > most else "")
