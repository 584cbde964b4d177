"""System calls of a large trace, condensed: what is drawn of a hundred million calls, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from kit.frames import FRAMES
from kit.schema import PANDAS_DTYPE

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow.parquet

    from kit.reading import Reading
    from kit.run import Run

MOST = 60_000
"""Calls that are listed one by one: a browser draws so many in some 50 ms."""
BUCKETS = 4_096
"""Stretches of time in which the others are counted: finer than a screen is wide."""
LETTERS = 240
"""Characters of a call's arguments that are shown."""
BATCH = 1 << 18
UNRETURNED = ("open",)
"""States of a call that had not returned when the trace ended."""
TOLD = ["time", "pid", "syscall", "duration_s", "errno", "state"]
GROUP = ["bucket", "syscall", "errno", "state"]
_SUMS = {"calls": ("calls", "sum"), "duration_s": ("duration_s", "sum"), "longest_s": ("longest_s", "max")}


def weights(calls: pandas.DataFrame) -> pandas.Series:
    """How many calls each row stands for: `calls` where it is a count, else 1.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> rows = FRAMES["syscalls"].build([{"syscall": "read", "capture": "a"}] * 2)
    >>> weights(rows).tolist(), weights(rows.assign(calls=[None, 7])).tolist()
    ([1, 1], [1, 7])
    """
    counts = calls["calls"] if "calls" in calls else None
    return counts.astype("Float64").fillna(1).astype("int64") if counts is not None else calls["syscall"].map(lambda _: 1)


def of_run(
    run: Run, reading: Reading, columns: list[str], timed: Callable[[pandas.DataFrame], pandas.DataFrame]
) -> pandas.DataFrame:
    """The frame `syscalls` of a run, with the columns `calls` and `longest_s` where a trace is large."""
    import pandas as pd

    large = {}
    for capture in run.captures if run.cursor is None else ():
        kept = reading.keep(capture) if "syscalls" in capture.frames else None
        part = stored(reading.place_of(capture, kept.key), columns) if kept is not None and kept.rows is None else None
        if part is not None:
            large[capture.id] = part
    rest = copy(run)
    rest.captures = [capture for capture in run.captures if capture.id not in large]
    others = rest.frame("syscalls", columns)
    if not large:
        return others
    return timed(pd.concat([*large.values(), *([others] if len(others) else [])], ignore_index=True))


def stored(place: Path, columns: list[str]) -> pandas.DataFrame | None:
    """The calls of one capture in the cache; None where it has no more than are listed, or no clock.

    Listed are those that never returned, the longest, and evenly spread ones of those that failed and of all. The others are
    counted: a row with a number in `calls` stands for so many of one name, error and state in one stretch of time; their
    seconds are in `duration_s`, the longest of them is in `longest_s`.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = place / "syscalls.parquet"
    try:
        with pq.ParquetFile(path, read_dictionary=["syscall", "errno", "state"], page_checksum_verification=True) as file:
            span, failed = _span(file), _count_failed(file)
            if file.metadata.num_rows <= MOST or span is None:
                return None
            listed, counted = _gone_through(file, span, failed)
            texts = [name for name in columns if name in ("args", "result")]
            listed = pd.concat([listed, _texts(file, texts, listed.index.to_numpy())], axis=1)
    except (OSError, pa.ArrowException):  # whoever reads it whole says so, and makes it anew
        return None
    begin, width = span[0], (span[1] - span[0]) / BUCKETS or 1.0
    at = pd.to_datetime((begin + (counted["bucket"] + 0.5) * width).astype("int64"), unit="ns", utc=True)
    known = counted["duration_s"].where(counted["longest_s"].notna())
    counted = counted.assign(time=at, errno=counted["errno"].replace("", None), duration_s=known)
    found = pd.concat([listed, counted]).sort_values("time", kind="stable", ignore_index=True)
    declared = FRAMES["syscalls"].by_name
    found = found.reindex(columns=[*dict.fromkeys([*columns, "time"]), "calls", "longest_s"])
    return found.astype({name: PANDAS_DTYPE[declared[name].type] for name in found.columns if name in declared})


def _gone_through(
    file: pyarrow.parquet.ParquetFile, span: tuple[int, int], failed: int
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Calls that are listed, by their position, and all others counted."""
    import numpy as np
    import pandas as pd

    step, step_failed = (max(1, -(-n // (MOST // 4))) for n in (file.metadata.num_rows, failed))
    width, kept, longest, counts = (span[1] - span[0]) / BUCKETS or 1.0, [], pd.DataFrame(), []
    least_s, failures, standing = -1.0, 0, 0
    for rows in _batches(file, TOLD):
        took, fails = rows["duration_s"].to_numpy(float), rows["errno"].notna().to_numpy()
        open_ = rows["state"].isin(UNRETURNED).to_numpy() & (standing < MOST // 4)
        nth = failures + np.cumsum(fails)
        chosen = open_ | (rows.index.to_numpy() % step == 0) | (fails & (nth % step_failed == 0))
        failures, standing = int(nth[-1]), standing + int(open_.sum())
        kept.append(rows[chosen].astype({"syscall": str, "errno": object, "state": str}))
        longer = rows[np.nan_to_num(took, nan=-1.0) > least_s].astype({"syscall": str, "errno": object, "state": str})
        longest = pd.concat([longest, longer])
        if len(longest) > MOST // 4:
            longest = longest.nlargest(MOST // 4, "duration_s")
            least_s = float(longest["duration_s"].min())
        counts.append(_counted(rows, span[0], width))
        if len(counts) > 64:
            counts = [_joined(counts)]
    listed = pd.concat([*kept, longest])
    listed = listed[~listed.index.duplicated()].sort_index()
    own = _counted(listed, span[0], width).set_index(GROUP)[["calls", "duration_s"]]
    rest = _joined(counts).set_index(GROUP)
    rest[["calls", "duration_s"]] = rest[["calls", "duration_s"]].sub(own, fill_value=0)
    return listed.assign(calls=None), rest[rest["calls"] > 0].reset_index().astype({"calls": "int64"})


def _counted(rows: pandas.DataFrame, begin: int, width: float) -> pandas.DataFrame:
    """Calls by stretch of time, name and error: their number, seconds, the longest."""
    bucket = ((rows["time"].astype("int64") - begin) / width).clip(0, BUCKETS - 1).astype("int64")
    plain = {"syscall": rows["syscall"].astype(str), "errno": rows["errno"].astype(object).fillna("")}
    plain["state"] = rows["state"].isin(UNRETURNED).map({True: UNRETURNED[0], False: "done"})
    made = rows[["duration_s"]].assign(bucket=bucket, calls=1, longest_s=rows["duration_s"], **plain)
    return made.groupby(GROUP).agg(**_SUMS).reset_index()


def _joined(counts: list[pandas.DataFrame]) -> pandas.DataFrame:
    import pandas as pd

    return pd.concat(counts).groupby(GROUP).agg(**_SUMS).reset_index()


def _batches(file: pyarrow.parquet.ParquetFile, columns: list[str]) -> Iterator[pandas.DataFrame]:
    """Some rows at a time, their positions as index."""
    at = 0
    for batch in file.iter_batches(BATCH, columns=columns):
        rows = batch.to_pandas()
        rows.index += at
        at += len(rows)
        yield rows


def _texts(file: pyarrow.parquet.ParquetFile, columns: list[str], wanted: numpy.ndarray) -> pandas.DataFrame:
    """Further columns of some rows."""
    import pandas as pd
    import pyarrow.compute as pc

    parts, at = [pd.DataFrame(columns=columns)], 0
    for batch in file.iter_batches(BATCH, columns=columns) if columns else ():
        own = wanted[(wanted >= at) & (wanted < at + len(batch))] - at
        if len(own):
            table = batch.take(own)
            cut = {name: pc.utf8_slice_codeunits(table[name], 0, LETTERS).to_pandas().to_numpy() for name in columns}
            parts.append(pd.DataFrame(cut, index=own + at))
        at += len(batch)
    return pd.concat(parts) if columns else pd.DataFrame(index=wanted)


def _span(file: pyarrow.parquet.ParquetFile) -> tuple[int, int] | None:
    """First and last time, from the file's statistics; None where a call has none."""
    at, known = file.schema_arrow.get_field_index("time"), []
    for group in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(group).column(at).statistics
        if found is None or not found.has_min_max or found.null_count:
            return None
        known += [found.min_raw, found.max_raw]
    return (min(known), max(known)) if known else None


def _count_failed(file: pyarrow.parquet.ParquetFile) -> int:
    """Calls with an error, from the file's statistics; all where they don't tell."""
    at, failed = file.schema_arrow.get_field_index("errno"), 0
    for group in range(file.metadata.num_row_groups):
        column = file.metadata.row_group(group).column(at)
        failed += column.num_values - (column.statistics.null_count or 0 if column.statistics else 0)
    return failed
