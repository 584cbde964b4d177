"""Raw files with checksums, and the cache of frames as Parquet, of some with a copy that is mapped into memory.

The cache is keyed by what each capture is (size, mtime, inode, a hash of its first and last MiB) and by the version of
the parsers, which is a hash of their source and of the log grammars: a parser fix reaches old runs by itself. The
`frames/` folder of a run may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache, lru_cache, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kit import mapped
from kit.budget import memory_budget
from kit.errors import UsageError
from kit.folder import hold, private, why_not
from kit.frames import FRAMES
from kit.schema import PANDAS_DTYPE, Frame, Row

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import pyarrow.compute

Window = tuple[int | None, int | None] | None
T = TypeVar("T")
SCRATCH, REPORT = ".scratch-", "report.json"
HOLD_WITHIN_S = 1.0
"""A scratch folder is held so soon after it was made, or its maker is gone."""

MIB = 1 << 20
CHUNK_ROWS = 50_000
"""Rows that are built and written at once: about 50 MB of rows, which bounds memory however large the capture is."""
NUMBER_BYTES, TEXT_BYTES = 9, 48
"""What pandas takes for a number that may be missing, and about for a text, measured on recordings and traces."""
CACHE_FROM_BYTES = 4 * MIB
"""Rows of a capture from this size on are kept as Parquet, those of a smaller one in memory."""


class Damaged(Exception):
    """A frame of the cache cannot be read; it was taken away, and is to be made again."""


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal text, read in chunks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


SETTLED_NS = 2 * 10**9
"""A file that was changed this long ago has other times when it is changed again, on the coarsest clocks of file systems."""


def fingerprint(path: Path) -> str:
    """Hash of size, mtime, inode, first and last MiB: tells whether a file is the one seen before without reading it whole."""
    stat = path.stat()
    same = (path, stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns)
    settled = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED_NS
    return _ends(*same) if settled else _ends.__wrapped__(*same)


@lru_cache(maxsize=1024)
def _ends(path: Path, size: int, mtime_ns: int, inode: int, ctime_ns: int) -> str:
    """Remembered, for each member of an archive of 2,000 asks for it some times."""
    digest = hashlib.sha256(f"{size} {mtime_ns} {inode}".encode())
    with open(path, "rb") as file:
        digest.update(file.read(MIB))
        if size > MIB:
            file.seek(max(MIB, size - MIB))
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
            package / "knowledge" / "tool_words.toml",
            package / "knowledge" / "kernel.toml",
            package / "knowledge" / "syscalls.toml",
            package / "frames.py",
            package / "frames.toml",
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


def sound(place: Path) -> dict | None:
    """The report of a capture whose frames lie there whole, as `save` wrote them; None where they must be made again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if place.is_symlink() or place.parent.is_symlink():
            return None
        if why_not(place / REPORT, place):
            return None
        about = _about(place)
        for name, rows in about["rows"].items():
            if why_not(place / f"{name}.parquet", place):
                return None
            found = pq.ParquetFile(place / f"{name}.parquet")
            if found.metadata.num_rows != rows or found.schema_arrow.names != list(FRAMES[name].by_name):
                return None
        return about["report"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException):
        return None


def load(place: Path, frame: Frame, columns: list[str], window: Window = None, coded: bool = False) -> pandas.DataFrame | None:
    """Some columns of a frame of one capture, None where it gave no rows of it.

    `window`: rows whose time is from the first to before the second, UTC nanoseconds; other rows are not loaded. `coded`: text as
    categories, integers as they are stored: for frames that stay inside the kit. Raises Damaged where it cannot be read. Raises
    UsageError where it would take more than the memory budget.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = place / f"{frame.name}.parquet"
    if not path.exists():
        return None
    texts = [name for name in columns if frame.by_name[name].type == "text"]
    try:
        where = _within(window)
        afford(frame, columns, _count(path, where), coded)
        if frame.name in mapped.NAMES and not coded:
            found = mapped.load(place, frame, columns, window, _about(place).get("mapped", {}))
            if found is not None:
                return found
        table = pq.read_table(
            path, columns=columns, filters=where, read_dictionary=texts if coded else None, page_checksum_verification=True
        )
        # a column's memory goes when it is taken over
        found = table.to_pandas(split_blocks=True, self_destruct=True, use_threads=False)
        wanted = {name: PANDAS_DTYPE[frame.by_name[name].type] for name in columns}
        return found if coded else found.astype({name: kind for name, kind in wanted.items() if found[name].dtype != kind})
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        shutil.rmtree(place, ignore_errors=True)
        raise Damaged from error


def _within(window: Window) -> pyarrow.compute.Expression | None:
    """A filter for the rows of a window."""
    import pyarrow as pa
    import pyarrow.compute as pc

    begin, end = ((None if at is None else pa.scalar(at, pa.timestamp("ns", "UTC"))) for at in window or (None, None))
    conditions = [
        *([pc.field("time") >= begin] if begin is not None else ()),
        *([pc.field("time") < end] if end is not None else ()),
    ]
    return reduce(and_, conditions) if conditions else None


def _count(path: Path, where: pyarrow.compute.Expression | None) -> int:
    """Rows of a file that a filter leaves."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    return pq.read_metadata(path).num_rows if where is None else ds.dataset(path).count_rows(filter=where)


def afford(frame: Frame, columns: list[str], rows: int, coded: bool = False) -> None:
    """Raise where rows would take more memory than the budget."""
    each = sum(TEXT_BYTES if frame.by_name[name].type == "text" and not coded else NUMBER_BYTES for name in columns)
    budget = memory_budget()
    if rows * each > budget:
        raise UsageError(
            f"the {rows:,} rows of {frame.name} would take about {rows * each / 1e6:,.0f} MB of memory",
            f"the budget is {budget / 1e6:,.0f} MB: KIT_MEMORY, else a quarter of the machine",
            f"load fewer columns or a window: run.frame({frame.name!r}, {columns[:2]}, window=(0, 60)), or raise KIT_MEMORY",
        )


def count(place: Path, frame: str) -> int:
    """Rows of a frame of one capture, as its report says."""
    return _about(place)["rows"].get(frame, 0)


def _about(place: Path) -> dict:
    """What `save` wrote about the frames of a capture."""
    return json.loads((place / REPORT).read_text(encoding="utf-8"))


def save(place: Path, items: Iterable[tuple[str, Row | pyarrow.Table]], report: Callable[[], dict]) -> None:
    """Write all frames of a capture, a chunk at a time, and what was read; older versions go. OSError where that cannot be.

    All is made in a folder of its own, which is held while it is written and gets its name last.

    `place`: folder to make. `items`: rows by frame; large ones may come as tables of their frame. `report`: gives what was read,
    once all was.
    """
    if place.parent.is_symlink():
        raise OSError(f"{place.parent} leads elsewhere")
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _tidy(place.parent)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=SCRATCH))
    held = hold(scratch)
    try:
        counts, stamps = _write_frames(scratch, items)
        with open(scratch / REPORT, "w", encoding="utf-8", opener=private) as file:
            json.dump({"rows": counts, "report": report(), "mapped": stamps}, file, default=str)
        for old in place.parent.glob(f"{place.name[:12]}-*"):
            _remove(old)
        scratch.rename(place)
    finally:
        if held is not None:
            os.close(held)
        shutil.rmtree(scratch, ignore_errors=True)


def _write_frames(scratch: Path, items: Iterable[tuple[str, Row | pyarrow.Table]]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """All of each frame into a file; how many rows, and stamps of the files of copies."""
    import pyarrow.parquet as pq

    counts: dict[str, int] = {}
    with ExitStack() as files:
        writers: dict[str, pq.ParquetWriter] = {}
        copies: dict[str, mapped.Copy] = {}
        for name, table in _as_tables(items):
            if name not in writers:
                file = files.enter_context(open(scratch / f"{name}.parquet", "wb", opener=private))
                writer = pq.ParquetWriter(file, table.schema, compression="lz4", write_page_checksum=True)
                writers[name] = files.enter_context(writer)
                if name in mapped.NAMES:
                    copies[name] = files.enter_context(mapped.Copy(scratch, FRAMES[name]))
            writers[name].write_table(table)
            if name in copies:
                copies[name].write(table)
            counts[name] = counts.get(name, 0) + table.num_rows
    return counts, dict(stamp for copy in copies.values() for stamp in copy.stamps())


def _as_tables(items: Iterable[tuple[str, Row | pyarrow.Table]]) -> Iterator[tuple[str, pyarrow.Table]]:
    """Tables as they come, small ones joined; rows as tables of at most `CHUNK_ROWS` rows."""
    import pyarrow as pa

    rows: dict[str, list[Row]] = {}
    tables: dict[str, list[pa.Table]] = {}

    def built(name: str) -> pa.Table:
        frame = FRAMES[name]
        schema = pa.Schema.from_pandas(frame.empty(), preserve_index=False)
        return pa.Table.from_pandas(frame.build(rows.pop(name)), schema=schema, preserve_index=False)

    waiting = 0
    for name, item in items:
        if not isinstance(item, dict):
            small = tables.setdefault(name, [])
            small.append(item)
            if sum(map(len, small)) >= CHUNK_ROWS:
                yield name, pa.concat_tables(tables.pop(name))
            continue
        rows.setdefault(name, []).append(item)
        waiting += 1
        if waiting == CHUNK_ROWS:
            yield from [(name, built(name)) for name in list(rows)]
            waiting = 0
    yield from [(name, built(name)) for name in list(rows)]
    yield from [(name, pa.concat_tables(small)) for name, small in tables.items()]


def _remove(path: Path) -> None:
    """Take away what stands at a path of the cache, whatever it is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _tidy(folder: Path) -> None:
    """Take away what processes that were killed had begun: a scratch folder that nobody holds."""
    for scratch in folder.glob(f"{SCRATCH}*"):
        try:
            held = hold(scratch)
            if held is not None:
                os.close(held)
                if time.time() - scratch.stat().st_mtime > HOLD_WITHIN_S:
                    shutil.rmtree(scratch, ignore_errors=True)
        except OSError:
            continue
