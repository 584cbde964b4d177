"""Raw files with checksums, and the cache of frames as Parquet.

The cache is keyed by what each capture is (size, mtime, inode, a hash of its first and last MiB) and by the version of
the parsers, which is a hash of their source and of the log grammars: a parser fix reaches old runs by itself. The
`frames/` folder of a run may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kit.frames import FRAMES
from kit.schema import PANDAS_DTYPE, Frame, Row

if TYPE_CHECKING:
    import pandas
    import pyarrow

T = TypeVar("T")

MIB = 1 << 20
CHUNK_ROWS = 50_000
"""Rows that are built and written at once: about 50 MB of rows, which bounds memory however large the capture is."""
CACHE_FROM_BYTES = 4 * MIB
"""Rows of a capture from this size on are kept as Parquet, those of a smaller one in memory."""


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal text, read in chunks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def fingerprint(path: Path) -> str:
    """Hash of size, mtime, inode, first and last MiB: tells whether a file is the one seen before without reading it whole."""
    stat = path.stat()
    digest = hashlib.sha256(f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}".encode())
    with open(path, "rb") as file:
        digest.update(file.read(MIB))
        if stat.st_size > MIB:
            file.seek(max(MIB, stat.st_size - MIB))
            digest.update(file.read(MIB))
    return digest.hexdigest()


@cache
def parser_version() -> str:
    """Hash of everything that decides what a parser makes of a file."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(
        [
            *package.glob("parse/**/*.py"),
            *package.glob("knowledge/logs/*.toml"),
            package / "frames.py",
            package / "schema.py",
            package / "clock.py",
            package / "multi_host.py",
        ]
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(run_path: Path, recorded: bool) -> Path:
    """Where the frames of a run are kept: inside a recorded run, else in the user's cache, never among loose evidence."""
    if recorded:
        return run_path / "frames"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "stallkit" / hashlib.sha256(str(run_path.resolve()).encode()).hexdigest()[:24]


def cache_key(path: Path, settings: str = "") -> str:
    """Key of the rows made of a file under some settings (capture time, clock offset); empty where it cannot be read."""
    try:
        found = fingerprint(path)
    except OSError:
        return ""
    return hashlib.sha256(f"{parser_version()} {settings} {found}".encode()).hexdigest()[:32]


def chunks(rows: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    """Cut a stream of rows into lists of at most `size` (`CHUNK_ROWS`).

    Examples
    --------
    >>> [len(chunk) for chunk in chunks(({} for _ in range(5)), 2)]
    [2, 2, 1]
    """
    chunk: list[T] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == (size or CHUNK_ROWS):
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def place(folder: Path, name: str, key: str) -> Path:
    """Folder of the frames of one capture."""
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}-{key}"


def load(place: Path, frame: Frame, columns: list[str]) -> pandas.DataFrame | None:
    """Some columns of a frame of one capture, None where it gave no rows of it."""
    import pandas as pd

    path = place / f"{frame.name}.parquet"
    if not path.exists():
        return None
    return pd.read_parquet(path, columns=columns).astype({name: PANDAS_DTYPE[frame.by_name[name].type] for name in columns})


def count(place: Path, frame: str) -> int:
    """Rows of a frame of one capture."""
    import pyarrow.parquet as pq

    path = place / f"{frame}.parquet"
    return pq.read_metadata(path).num_rows if path.exists() else 0


def save(place: Path, items: Iterable[tuple[str, Row | pyarrow.Table]]) -> None:
    """Write all frames of a capture, a chunk at a time; those of its older versions go. OSError where that cannot be.

    Parameters
    ----------
    place : pathlib.Path
        Folder to make.
    items : iterable of (str, dict or pyarrow.Table)
        Rows by frame; large ones may come as tables of their frame.
    """
    import pyarrow.parquet as pq

    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name[:12]}-"))
    try:
        with ExitStack() as files:
            writers: dict[str, pq.ParquetWriter] = {}
            for name, table in _as_tables(items):
                if name not in writers:
                    writers[name] = files.enter_context(pq.ParquetWriter(scratch / f"{name}.parquet", table.schema))
                writers[name].write_table(table)
        for old in place.parent.glob(f"{place.name[:12]}-*"):
            shutil.rmtree(old, ignore_errors=True)
        scratch.chmod(0o755)
        scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _as_tables(items: Iterable[tuple[str, Row | pyarrow.Table]]) -> Iterator[tuple[str, pyarrow.Table]]:
    """Tables as they come, rows as tables of at most `CHUNK_ROWS` rows."""
    import pyarrow as pa

    rows: dict[str, list[Row]] = {}

    def built(name: str) -> pa.Table:
        frame = FRAMES[name]
        schema = pa.Schema.from_pandas(frame.empty(), preserve_index=False)
        return pa.Table.from_pandas(frame.build(rows.pop(name)), schema=schema, preserve_index=False)

    waiting = 0
    for name, item in items:
        if not isinstance(item, dict):
            yield name, item
            continue
        rows.setdefault(name, []).append(item)
        waiting += 1
        if waiting == CHUNK_ROWS:
            yield from [(name, built(name)) for name in list(rows)]
            waiting = 0
    yield from [(name, built(name)) for name in list(rows)]
