"""How a frame is declared, checked and built.

A frame is declared once, as a `Frame` of `Column`s (all of them stand in `frames.toml`). Parsers give rows: plain dicts
that hold a subset of the columns. `Frame.build` makes the pandas frame of them: every declared column, in the declared
order and dtype, also where there are no rows. pandas is imported only there, so that the command line can read and
judge a capture without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.clock import LATEST_NS
from kit.errors import KitError

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, Any]

PANDAS_DTYPE = {"time": "datetime64[ns, UTC]", "int": "Int64", "float": "float64", "bool": "boolean", "text": "str"}
"""The five types of a column. Rows hold a time as integer nanoseconds since 1970-01-01 UTC, and None for a missing value."""

PYTHON_TYPE = {"time": (int,), "int": (int,), "float": (int, float), "bool": (bool,), "text": (str,)}


def _fits(kind: str, given: type, value: Any) -> bool:
    """Whether a value that is not None is of a type of column, and in the range that pandas and Parquet hold."""
    if kind == "int":
        return given is int and -(1 << 63) <= value < 1 << 63
    if kind == "time":
        return given is int and 0 <= value < LATEST_NS
    if kind == "float":
        return issubclass(given, float) or given is int and abs(value) < 1 << 63
    return issubclass(given, bool if kind == "bool" else str)


@dataclass(frozen=True)
class Column:
    """One column: its name (with the unit in it), type, meaning.

    Examples
    --------
    >>> Column("rss_bytes", "int", "resident memory, shared pages included", unit="bytes").nullable
    True
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True

    def __post_init__(self) -> None:
        if self.type not in PANDAS_DTYPE:
            raise ValueError(f"column {self.name}: type {self.type!r} is none of {sorted(PANDAS_DTYPE)}")


@dataclass(frozen=True)
class Frame:
    """A declared table.

    Examples
    --------
    >>> frame = Frame("demo", "a demonstration", (Column("pid", "int", "process", nullable=False),))
    >>> frame.check({"pid": 7})
    >>> frame.check({"pidd": 7})
    Traceback (most recent call last):
    ValueError: frame demo has no column 'pidd'
    >>> frame.build([{"pid": 7}])["pid"].tolist()
    [7]
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    snapshot: bool = False  # its rows show one moment: without a clock of their own they take the time of their capture
    # it is small enough for all its rows to be evidence in memory (of the sampler's series, the first and the last samples)
    keep: bool = False
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)
    texts: dict[str, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        object.__setattr__(self, "texts", {column.name: column.type == "text" for column in self.columns})

    def check(self, row: Row) -> None:
        """Raise ValueError where a row does not fit the declaration (tests run this on every parser's rows)."""
        for name, value in row.items():
            column = self.by_name.get(name)
            if column is None:
                raise ValueError(f"frame {self.name} has no column {name!r}")
            if value is None:
                continue
            fits = isinstance(value, PYTHON_TYPE[column.type]) and (column.type == "bool" or not isinstance(value, bool))
            if not fits:
                raise ValueError(f"frame {self.name}, column {name}: {value!r} is not of type {column.type}")
        for column in self.columns:
            if not column.nullable and row.get(column.name) is None:
                raise ValueError(f"frame {self.name}: column {column.name} may not be missing")

    def mend(self, row: Row) -> list[str]:
        """Take out of a row, in place, what does not fit the declaration; returns the names of those columns.

        Evidence may say anything: a pid of 30 digits, a time in the year 9999, a list where a name is due.

        Examples
        --------
        >>> row = {"pid": 10**30}
        >>> Frame("demo", "a demonstration", (Column("pid", "int", "process"),)).mend(row), row
        (['pid'], {'pid': None})
        """
        wrong = []
        for name, value in row.items():
            kind = value.__class__
            if value is None or kind is str and self.texts.get(name):
                continue
            column = self.by_name.get(name)
            if column is None or _fits(column.type, kind, value):
                continue
            wrong.append(name)
        for name in wrong:
            row[name] = None
        return wrong

    def build(self, rows: Iterable[Row]) -> pandas.DataFrame:
        """Make the pandas frame of some rows.

        `rows`: values by column name; columns that a row lacks are missing values. Returns all declared columns in their order,
        with the dtypes of `PANDAS_DTYPE`; empty but complete without rows.
        """
        import pandas as pd

        rows = list(rows)
        data = {}
        for column in self.columns:
            values = [row.get(column.name) for row in rows]
            dtype = PANDAS_DTYPE[column.type]
            try:
                if column.type == "time":
                    series = pd.to_datetime(pd.Series(values, dtype="Int64"), unit="ns", utc=True).astype(dtype)
                else:
                    series = pd.Series(values, dtype=dtype)
            except (ValueError, TypeError, OverflowError) as error:
                raise KitError(
                    f"frame {self.name}, column {column.name} could not be built",
                    str(error),
                    "report this with the capture at hand: a parser gave a value of another type",
                ) from error
            data[column.name] = series
        return pd.DataFrame(data, columns=[column.name for column in self.columns])

    def empty(self) -> pandas.DataFrame:
        """The frame without rows: what a missing source gives."""
        return self.build([])


def rows_of(table: pyarrow.Table) -> Iterator[Row]:
    """Rows of an Arrow table of a frame: times as integer nanoseconds, without the columns that hold nothing.

    Examples
    --------
    >>> import pyarrow
    >>> list(rows_of(pyarrow.table({"pid": [7, 8], "comm": [None, "sh"]})))
    [{'pid': 7, 'comm': None}, {'pid': 8, 'comm': 'sh'}]
    """
    names = [name for name in table.column_names if table[name].null_count < len(table)]
    columns = [(table[name].cast("int64") if str(table[name].type).startswith("timestamp") else table[name]) for name in names]
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        yield dict(zip(names, values, strict=True))


def reference(frames: Iterable[Frame]) -> str:
    """Return the column reference of frames as Markdown: a section a frame, a table row a column; ends with a newline.

    Examples
    --------
    >>> print(reference([Frame("demo", "a demonstration", (Column("pid", "int", "process", nullable=False),))])[-124:], end="")
    ## demo
    <BLANKLINE>
    a demonstration
    <BLANKLINE>
    | column | type | unit | null | meaning |
    |---|---|---|---|---|
    | `pid` | int |  | no | process |
    """
    lines = [
        "# Columns",
        "",
        "Every frame of the kit, from the declarations in `kit/frames.toml`. Regenerate it with "
        "`kit reference -o docs/columns.md`.",
        "",
        "Types: `time` is tz-aware UTC `datetime64[ns]`, `int` nullable `Int64`, `float` `float64`, `bool` nullable "
        "`boolean`, `text` `str`. Units stand in the names.",
    ]
    for frame in frames:
        lines += ["", f"## {frame.name}", "", frame.meaning, ""]
        lines += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        for column in frame.columns:
            meaning = column.meaning.replace("|", "\\|")
            lines.append(
                f"| `{column.name}` | {column.type} | {column.unit} | {'yes' if column.nullable else 'no'} | {meaning} |"
            )
    return "\n".join(lines) + "\n"


def table_of(rows: Iterable[Any], columns: Iterable[str], types: Any = None) -> pandas.DataFrame:
    """A frame of rows that is declared nowhere, with all columns also where there are no rows; `types` as for `astype`.

    Examples
    --------
    >>> table_of([{"pid": 7}], ["pid", "name"], {"pid": "Int64"}).columns.tolist(), len(table_of([], ["pid"]))
    (['pid', 'name'], 0)
    """
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns)).astype(types or {})
