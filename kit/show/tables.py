"""Tables that escape what they show and say how much of it they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from kit.clock import show_seconds
from kit.document import Table

if TYPE_CHECKING:
    import pandas

MAX_ROWS = 20
MAX_CHARACTERS = 400
"""Longest text of a cell; the rest is cut and counted. Server arguments on one line are 10 kB."""
POINTS = ("_t_s", "_per_s")
"""Ends of columns in seconds that are no durations: places on the time axis, rates."""
LOG_COLUMNS = ("line", "time", "rank_label", "kind", "phase", "text")


def table(
    frame: pandas.DataFrame,
    max_rows: int = MAX_ROWS,
    *,
    caption: str = "",
    columns: Sequence[str] | None = None,
    drop_empty: bool = True,
) -> Table:
    """Show a frame as a table.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame; it is not changed.
    max_rows : int
        First rows to show; the caption says `N of M rows`.
    caption : str
        What it is.
    columns : sequence of str, optional
        Columns to show, in this order.
    drop_empty : bool
        Leave out columns without any value.

    Returns
    -------
    Table
        Everything in it is escaped. Bytes and durations are written with their unit, times in UTC, missing values as nothing; the
        value behind each is shown on hover, and sorted by.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"pid": [1, 2, 3], "rss_bytes": [2**30] * 3, "text": ["<script>"] * 3})
    >>> shown = table(frame, 2, caption="Processes")
    >>> shown
    Processes (2 of 3 rows)
    pid | rss_bytes | text
    1 | 1.0 GiB | <script>
    2 | 1.0 GiB | <script>
    >>> "&lt;script&gt;" in shown._repr_html_()
    True
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    chosen = frame if columns is None else frame[[name for name in columns if name in frame]]
    if drop_empty and len(chosen):
        chosen = chosen.loc[:, chosen.notna().any()]
    names = tuple(str(name) for name in chosen.columns)
    numeric = frozenset(
        str(name) for name in chosen.columns if is_numeric_dtype(chosen[name]) and not is_bool_dtype(chosen[name])
    )
    values = [list(row) for row in chosen.head(max_rows).itertuples(index=False, name=None)]
    return _written(names, values, len(chosen), caption, numeric)


def _written(names: Sequence[str], values: Sequence[Sequence[Any]], total: int, caption: str, numeric: frozenset[str]) -> Table:
    """A table of values, written for people; numbers stay behind what is written of them."""
    rows = tuple(tuple(cell(value, name) for value, name in zip(row, names, strict=True)) for row in values)
    raw = tuple(tuple(value if isinstance(value, Real) and value == value else None for value in row) for row in values)
    return Table(names, rows, total, caption, numeric, raw=raw)


def records(
    rows: Iterable[Mapping[str, Any]], max_rows: int = 100, *, caption: str = "", columns: Sequence[str] | None = None
) -> Table:
    """Show a list of dicts as a table: the evidence, hypotheses and next steps of a verdict.

    Parameters
    ----------
    rows : iterable of mapping
        Values by column; lists of words are written one below the other.
    max_rows, caption, columns
        As for `table`.

    Examples
    --------
    >>> records([{"what": "stacks", "ranks": [0, 1]}], caption="Next")
    Next (1 row)
    what | ranks
    stacks | 0, 1
    """
    rows = list(rows)
    names = tuple(columns or dict.fromkeys(name for row in rows for name in row))
    names = tuple(name for name in names if any(row.get(name) not in (None, "", [], ()) for row in rows)) or names
    values = [[row.get(name) for name in names] for row in rows[:max_rows]]
    numeric = frozenset(name for name in names if rows and all(isinstance(row.get(name), Real | None) for row in rows))
    return _written(names, values, len(rows), caption, numeric)


def log_around(log: pandas.DataFrame, before: int = 8, after: int = 12) -> Table:
    """Show the records around the last progress, and after it: where the log fell silent.

    Parameters
    ----------
    log : pandas.DataFrame
        The frame `log`, or `Run.condensed_log()`.
    before, after : int
        Records to show on both sides, of the same file.

    Returns
    -------
    Table

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> rows = [{"record": n, "kind": kind, "text": f"line {n}", "raw": "", "line": n + 1, "capture": "server.log"}
    ...         for n, kind in enumerate(["progress", "progress", "heartbeat", "heartbeat"])]
    >>> log_around(FRAMES["log"].build(rows), 1, 1)
    server.log around its last progress, line 2 (3 of 4 rows)
    line | kind | text
    1 | progress | line 0
    2 | progress | line 1
    3 | heartbeat | line 2
    """
    progress = log[(log["kind"] == "progress") & (log["records"].isna() if "records" in log else True)]
    if not len(log):
        return Table((), (), 0, "Log")
    dated = progress["time"].dropna()
    last = dated.index[dated.argmax()] if len(dated) else (progress if len(progress) else log).index[-1]
    same = log[log["capture"] == log.loc[last, "capture"]]
    at = same.index.get_loc(last)
    shown = table(
        same.iloc[max(at - before, 0) : at + after + 1],
        before + after + 1,
        columns=LOG_COLUMNS,
        caption=f"{log.loc[last, 'capture']} around its last progress, line {cell(log.loc[last, 'line'])}",
    )
    return replace(shown, total=len(same))


def cell(value: Any, column: str = "") -> str:
    """Write one value for people.

    Examples
    --------
    >>> cell(None), cell(True), cell(1234567), cell(0.123456), cell(245 * 2**30, "rss_bytes"), cell([1, 2])
    ('', 'yes', '1234567', '0.123', '245 GiB', '1, 2')
    >>> cell(6165, "dist_init_s"), cell(7.0, "t_s"), cell(7.0, "a_t_s")
    ('1 h 42 min', '7', '7')
    """
    if value is None or (isinstance(value, float) and value != value) or str(value) in ("<NA>", "NaT"):
        return ""
    if type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else "no"
    if column.endswith("_bytes") and isinstance(value, Real):
        from kit.plot.style import human_bytes

        return human_bytes(float(value))
    if column.endswith("_s") and not f"_{column}".endswith(POINTS) and isinstance(value, Real) and float(value) >= 0:
        return show_seconds(float(value)) if value else "0 s"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (list, tuple)):
        return ("\n" if any(isinstance(item, str) for item in value) else ", ").join(cell(item) for item in value)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {cell(item)}" for name, item in value.items())
    text = str(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text):,} characters)"
