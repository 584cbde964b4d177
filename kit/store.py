"""Raw files with checksums, and the cache of frames as Parquet.

The cache is keyed by what each capture is (size, mtime, inode, a hash of its first and last MiB) and by the version of
the parsers, which is a hash of their source and of the log grammars: a parser fix reaches old runs by itself. The
`frames/` folder of a run may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

    from kit.schema import Frame, Row

MIB = 1 << 20
CHUNK_ROWS = 50_000
"""Rows that are built and written at once: about 50 MB of rows, which bounds memory however large the capture is."""
CACHE_FROM_BYTES = 4 * MIB
"""Captures below this size in all are parsed anew each time: it takes less than a second."""


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal text, read in chunks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def fingerprint(path: Path) -> str:
    """Tell whether a file is the one seen before, without reading it whole.

    Returns
    -------
    str
        Hash of size, mtime, inode, first and last MiB.
    """
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


def cache_key(paths: Iterable[Path], settings: str = "") -> str:
    """Key of a frame made of these files under these settings (capture time, clock offset)."""
    digest = hashlib.sha256(f"{parser_version()} {settings}".encode())
    for path in paths:
        digest.update(fingerprint(path).encode())
    return digest.hexdigest()[:32]


def chunks(rows: Iterable[Row], size: int = CHUNK_ROWS) -> Iterator[list[Row]]:
    """Cut a stream of rows into lists of at most `size`.

    Examples
    --------
    >>> [len(chunk) for chunk in chunks(({} for _ in range(5)), 2)]
    [2, 2, 1]
    """
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def load(folder: Path, frame: Frame, key: str, columns: list[str] | None = None) -> pandas.DataFrame | None:
    """Return a cached frame, or None where there is none for this key."""
    path = folder / f"{frame.name}-{key}.parquet"
    if not path.exists():
        return None
    import pandas as pd

    return pd.read_parquet(path, columns=columns).astype(
        {column.name: _dtype(column.type) for column in frame.columns if columns is None or column.name in columns}
    )


def save(folder: Path, frame: Frame, key: str, rows: Iterable[Row]) -> None:
    """Write a frame to the cache, a chunk at a time; older keys of the same frame go. A full disk leaves no cache."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.Schema.from_pandas(frame.empty(), preserve_index=False)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{frame.name}-", suffix=".parquet")
    os.close(descriptor)
    try:
        with pq.ParquetWriter(temporary, schema) as writer:
            for chunk in chunks(rows):
                writer.write_table(pa.Table.from_pandas(frame.build(chunk), schema=schema, preserve_index=False))
        for old in folder.glob(f"{frame.name}-*.parquet"):
            old.unlink(missing_ok=True)
        os.replace(temporary, folder / f"{frame.name}-{key}.parquet")
    finally:
        Path(temporary).unlink(missing_ok=True)


def _dtype(kind: str) -> str:
    from kit.schema import PANDAS_DTYPE

    return PANDAS_DTYPE[kind]
