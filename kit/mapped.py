"""A frame of the cache as memory holds it: mapped, not read.

A column of texts is a file of Arrow's, or none where it holds no text. Numbers lie as pandas has them: a column's values in one
file, which of them are missing in another. So no column is copied, and only what is looked at comes into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
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
    missing = [f"{column.name}?" for column in frame.columns if column.type == "int"]
    return {name: place / f"{frame.name}.{name.replace('?', '.missing')}" for name in [*frame.by_name, *missing]}


class Copy:
    """Writes the copy of a frame, a table at a time."""

    def __init__(self, place: Path, frame: Frame):
        self.frame, self.paths, self.opened, self.rows = frame, _paths(place, frame), ExitStack(), 0
        self.files: dict[str, Any] = {}
        self.texts: dict[str, pyarrow.ipc.RecordBatchFileWriter] = {}

    def __enter__(self) -> Copy:
        return self

    def write(self, table: pyarrow.Table) -> None:
        """Write some rows more; all are taken away again where they become too many."""
        if not self.paths:
            return
        for column in self.frame.columns:
            if column.type == "text":
                self._put_text(column.name, table.select([column.name]))
            else:
                self._put(column.name, column.type, table[column.name])
        self.rows += table.num_rows
        if sum(file.tell() for file in self.files.values()) > MOST_BYTES:
            for name in self.files:
                self.paths[name].unlink()
            self.paths = {}

    def _file(self, name: str) -> Any:
        if name not in self.files:
            self.files[name] = self.opened.enter_context(open(self.paths[name], "wb", opener=private))
        return self.files[name]

    def _put_text(self, name: str, texts: pyarrow.Table) -> None:
        import pyarrow as pa

        if name not in self.texts and texts[name].null_count == len(texts):
            return
        if name not in self.texts:
            self.texts[name] = self.opened.enter_context(pa.ipc.new_file(self._file(name), texts.schema))
            self.texts[name].write_table(pa.table([pa.nulls(self.rows, texts[name].type)], schema=texts.schema))
        self.texts[name].write_table(texts.combine_chunks())  # each part takes time when the copy is opened

    def _put(self, name: str, kind: str, values: pyarrow.ChunkedArray) -> None:
        import pyarrow as pa

        if kind == "time":
            values = values.cast(pa.int64())
        for part in values.chunks:
            self._file(name).write(part.fill_null(_NUMBERS[kind][1]).to_numpy())
            if f"{name}?" in self.paths:
                self._file(f"{name}?").write(part.is_null().to_numpy(zero_copy_only=False))

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def stamps(self) -> Iterator[tuple[str, list[int]]]:
        """Names of the files, and what tells whether they are still those that were written."""
        yield from ((self.paths[name].name, _stamp(self.paths[name])) for name in self.files if self.paths)


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

    found = {name: path for name, path in _paths(place, frame).items() if path.name in stamps}
    if not found or any(why_not(path, place) or stamps[path.name] != _stamp(path) for path in found.values()):
        return None

    def values(name: str, kind: str) -> Any:
        return np.asarray(np.memmap(found[name], kind, mode="c"))

    def texts(name: str) -> Any:
        if name not in found:  # as chunks that are all the same memory
            nulls = pa.nulls(min(len(times), 1 << 16), pa.large_string())
            return pa.chunked_array([nulls[: len(times) - at] for at in range(0, len(times), 1 << 16)], nulls.type)
        return pa.ipc.open_file(pa.memory_map(str(found[name]))).read_all()[name]

    times = values("time", "i8")
    chosen = None if window in (None, (None, None)) else _within(times, *window)
    made: dict[str, Any] = {}
    for name in columns:
        kind = frame.by_name[name].type
        if kind == "text":
            made[name] = (texts(name) if chosen is None else texts(name).filter(chosen)).to_pandas()
            continue
        parts = [values(name, _NUMBERS[kind][0]), *([values(f"{name}?", "?")] if kind == "int" else [])]
        parts = parts if chosen is None else [part[chosen] for part in parts]
        made[name] = numbers_of(kind, *parts)
    return pd.DataFrame(made, copy=False)


def numbers_of(kind: str, values: Any, *missing: Any) -> Any:
    """A column of a type that is no text, over the memory of its values and of what says which integers are missing."""
    import numpy as np
    import pandas as pd

    if kind == "int":
        return pd.arrays.IntegerArray(values, *(missing or (np.zeros(len(values), bool),)))
    return pd.Series(values, dtype=PANDAS_DTYPE[kind], copy=False)


def _within(times: Any, begin: int | None, end: int | None) -> Any:
    """Which times lie from the first to before the second; one that is missing does not."""
    missing = _NUMBERS["time"][1]
    return (times >= (missing + 1 if begin is None else begin)) & (times < end if end is not None else times > missing)


def _stamp(path: Path) -> list[int]:
    """What changes with any change of a file."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
