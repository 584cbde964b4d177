"""A frame of the cache as memory holds it: mapped, not read.

Texts are a file of Arrow's. Numbers lie as pandas has them: a column's values in one file, which of them are missing in another.
So no column is copied, and only what is looked at comes into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.folder import private, why_not
from kit.schema import PANDAS_DTYPE, Frame

if TYPE_CHECKING:
    import pandas
    import pyarrow

NAMES = frozenset({"syscalls"})
"""Frames of which there is such a copy: a trace's millions of texts take seconds to unpack. None of their columns is a bool."""
MOST_BYTES = 1 << 30
"""There is no copy of a larger one: it is seven times as large as the Parquet file."""
_NUMBERS = {"time": ("i8", -(1 << 63)), "int": ("i8", 0), "float": ("f8", float("nan"))}
"""How numpy holds a type of column, and what stands for a value that is missing."""


def _paths(place: Path, frame: Frame) -> dict[str, Path]:
    """Files of a copy, by column; those of a column's missing values by its name with a mark."""
    numbers = [column for column in frame.columns if column.type != "text"]
    names = [column.name for column in numbers] + [f"{column.name}?" for column in numbers if column.type == "int"]
    return {"": place / f"{frame.name}.arrow"} | {name: place / f"{frame.name}.{name.replace('?', '.missing')}" for name in names}


class Copy:
    """Writes the copy of a frame, a table at a time."""

    def __init__(self, place: Path, frame: Frame):
        self.place, self.frame, self.paths, self.opened = place, frame, _paths(place, frame), ExitStack()
        self.files = {name: self.opened.enter_context(open(path, "wb", opener=private)) for name, path in self.paths.items()}
        self.texts: pyarrow.ipc.RecordBatchFileWriter | None = None

    def __enter__(self) -> Copy:
        return self

    def write(self, table: pyarrow.Table) -> None:
        """Write some rows more; all are taken away again where they become too many."""
        import pyarrow as pa

        if not self.paths:
            return
        texts = table.select([column.name for column in self.frame.columns if column.type == "text"])
        if self.texts is None:
            self.texts = self.opened.enter_context(pa.ipc.new_file(self.files[""], texts.schema))
        self.texts.write_table(texts)
        for column in self.frame.columns:
            if column.type != "text":
                self._put(column.name, column.type, table[column.name])
        if sum(file.tell() for file in self.files.values()) > MOST_BYTES:
            for path in self.paths.values():
                path.unlink()
            self.paths = {}

    def _put(self, name: str, kind: str, values: pyarrow.ChunkedArray) -> None:
        import pyarrow as pa

        if kind == "time":
            values = values.cast(pa.int64())
        for part in values.chunks:
            self.files[name].write(part.fill_null(_NUMBERS[kind][1]).to_numpy())
            if f"{name}?" in self.files:
                self.files[f"{name}?"].write(part.is_null().to_numpy(zero_copy_only=False))

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def stamps(self) -> Iterator[tuple[str, list[int]]]:
        """Names of the files, and what tells whether they are still those that were written."""
        yield from ((path.name, _stamp(path)) for path in self.paths.values())


def load(
    place: Path, frame: Frame, columns: list[str], window: tuple[int | None, int | None] | None, stamps: dict[str, list[int]]
) -> pandas.DataFrame | None:
    """Some columns of a frame; None where there is no copy, or one file is another than was written.

    Unlike Parquet it has no checksums, and a wrong offset in it would end the process: each file has to be the file itself.
    A frame that is changed does not change the files.
    """
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    paths = _paths(place, frame)
    if any(why_not(path, place) or stamps.get(path.name) != _stamp(path) for path in paths.values()):
        return None

    def values(name: str, kind: str) -> Any:
        return np.asarray(np.memmap(paths[name], kind, mode="c"))

    chosen = None if window in (None, (None, None)) else _within(values("time", "i8"), *window)
    texts = pa.ipc.open_file(pa.memory_map(str(paths[""]))).read_all()
    texts = texts.select([name for name in texts.column_names if name in columns])
    found = (texts if chosen is None else texts.filter(chosen)).to_pandas(split_blocks=True)
    made: dict[str, Any] = {}
    for name in columns:
        kind = frame.by_name[name].type
        if kind == "text":
            made[name] = found[name]
            continue
        parts = [values(name, _NUMBERS[kind][0]), *([values(f"{name}?", "?")] if kind == "int" else [])]
        parts = parts if chosen is None else [part[chosen] for part in parts]
        make = pd.arrays.IntegerArray if kind == "int" else partial(pd.Series, dtype=PANDAS_DTYPE[kind], copy=False)
        made[name] = make(*parts)
    return pd.DataFrame(made, copy=False)


def _within(times: Any, begin: int | None, end: int | None) -> Any:
    """Which times lie from the first to before the second; one that is missing does not."""
    missing = _NUMBERS["time"][1]
    return (times >= (missing + 1 if begin is None else begin)) & (times < end if end is not None else times > missing)


def _stamp(path: Path) -> list[int]:
    """What changes with any change of a file."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
