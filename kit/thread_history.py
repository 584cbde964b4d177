"""Threads of a recording as stretches of samples without a change: what long recordings store, and figures are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit import store
from kit.clock import LATEST_NS
from kit.frames import FRAMES

if TYPE_CHECKING:
    import numpy
    import pandas

    from kit.as_of import Cursor

    Timed = Callable[[pandas.DataFrame], pandas.DataFrame]

COLUMNS = ("time", "t_s", "moment", "pid", "tid", "comm", "state", "wchan", "syscall", "cpu_s", "run_s", "tool", "capture")
"""What the figures need of threads."""
Window = tuple[int | None, int | None] | None
NUMBERS = ["first_sample", "last_sample"]
OF_SAMPLES = ("time", "t_s", "moment")
PLACES = ["pid", "state", "wchan", "syscall"]


@dataclass
class ThreadHistory:
    """Threads over time. Make it with `Run.thread_history`."""

    # a row for each stretch of samples in which nothing of a thread changed, with columns of the frame `thread_changes`;
    # `first_sample` and `last_sample` are positions in `samples`. Text is categorical.
    changes: pandas.DataFrame
    samples: pandas.DataFrame  # columns `time`, `t_s`, `moment`: the samples

    def __len__(self) -> int:
        """Rows that the frame `threads` would have."""
        return self.count(None)

    def count(self, window: Window) -> int:
        """Rows in a window of times."""
        first, last = self._clipped(window)
        return int((last - first + 1).clip(0).sum())

    def _clipped(self, window: Window) -> tuple[numpy.ndarray, numpy.ndarray]:
        """First and last sample of each stretch in a window; the last is before the first where it is outside."""
        import numpy as np

        first, last = (self.changes[name].to_numpy(np.int64) for name in NUMBERS)
        if window is None:
            return first, last
        at = self.samples["time"].astype("int64").to_numpy()
        within = np.flatnonzero((at >= (window[0] or 0)) & (at < (window[1] or LATEST_NS)))
        low, high = (int(within[0]), int(within[-1])) if len(within) else (0, -1)
        return np.maximum(first, low), np.minimum(last, high)

    def rows(self, columns: list[str], window: Window = None) -> pandas.DataFrame:
        """A row for each thread and sample, as in the frame `threads`, in the order of the samples.

        `columns`: columns of `changes`; `time`, `t_s` and `moment` are those of the samples. `window`: samples from the first to
        before the second moment, UTC nanoseconds; None is open.

        Examples
        --------
        >>> import pandas as pd
        >>> changes = pd.DataFrame({"tid": [7, 7, 8], "state": list("SRS"), "first_sample": [0, 2, 0], "last_sample": [1, 2, 2]})
        >>> history = ThreadHistory(changes, pd.DataFrame({"time": pd.to_datetime([0, 1, 2]), "t_s": [0.0, 1.0, 2.0]}))
        >>> history.rows(["t_s", "tid", "state"], (1, None)).values.tolist()
        [[1.0, 7, 'S'], [1.0, 8, 'S'], [2.0, 7, 'R'], [2.0, 8, 'S']]
        """
        import numpy as np
        import pandas as pd

        first, last = self._clipped(window)
        times = (last - first + 1).clip(0)
        row = np.repeat(np.arange(len(times)), times)
        sample = np.arange(len(row)) - np.repeat(np.cumsum(times) - times - first, times)
        order = np.argsort(sample, kind="stable")
        row, sample = row[order], sample[order]
        found = {
            name: self.samples[name].array.take(sample) if name in OF_SAMPLES else self.changes[name].array.take(row)
            for name in columns
        }
        return pd.DataFrame(found, columns=columns)

    def places(self) -> pandas.DataFrame:
        """Where threads were seen, most frequent first: columns `pid`, `state`, `wchan`, `syscall`, `samples`.

        Examples
        --------
        >>> import kit
        >>> kit.open_run(kit.sample_path("sg01-capture-hang")).thread_history().places()["samples"].iloc[0].item() > 1
        True
        """
        counted = self.changes[PLACES].assign(samples=self.changes["last_sample"] - self.changes["first_sample"] + 1)
        found = counted.groupby(PLACES, dropna=False, observed=True)["samples"].sum().reset_index()
        return found.sort_values("samples", ascending=False, kind="stable", ignore_index=True)


def of_rows(threads: pandas.DataFrame) -> ThreadHistory:
    """The history of rows of the frame `threads`: each row is a stretch of one sample.

    Rows of one tool stay, the one with the most samples of each thread. Samples are told apart by their number, else by time.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> rows = FRAMES["threads"].build([{"pid": 1, "tid": 1, "state": "S", "t_s": at, "capture": "a"} for at in (0.0, 2.0)])
    >>> of_rows(rows).samples["t_s"].tolist()
    [0.0, 2.0]
    """
    import numpy as np
    import pandas as pd

    rows = threads[threads["state"].notna() & threads["tid"].notna()]
    rows = sampled_by_one_tool(rows, ["tid"])
    x = seconds(rows)
    column = rows["moment"].astype("Float64").fillna(-1).astype(float) if rows["moment"].nunique() > 1 else x.round(3).fillna(0.0)
    known, at = np.unique(column.to_numpy(float), return_inverse=True)
    samples = rows[["time", "moment"]].groupby(at).min().reset_index(drop=True)
    samples["t_s"] = pd.Series(x.to_numpy(float)).groupby(at).min().reset_index(drop=True).astype(float)
    return ThreadHistory(rows.assign(first_sample=at, last_sample=at), samples)


def seconds(frame: pandas.DataFrame) -> pandas.Series:
    """Return the position of each row on the time axis: `t_s`, else the time since the frame's first row.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> frame = FRAMES["io"].build([{"time": 5_000_000_000, "capture": "a"}, {"time": 7_500_000_000, "capture": "a"}])
    >>> seconds(frame).tolist()
    [0.0, 2.5]
    """
    known = frame["t_s"].astype(float)
    if known.notna().any() or not frame["time"].notna().any():
        return known
    return (frame["time"] - frame["time"].min()).dt.total_seconds()


def sampled_by_one_tool(frame: pandas.DataFrame, keys: list[str]) -> pandas.DataFrame:
    """Keep the rows of the tool that took the most samples of each thing, so that no difference spans two clocks of it.

    `keys` are the columns that name the thing (`["pid"]`, `["pid", "tid"]`).
    """
    if frame["tool"].nunique(dropna=False) < 2:
        return frame
    counted = (
        frame.assign(tool=frame["tool"].fillna(""))
        .groupby("tool", sort=False)
        .agg(moments=("moment", "nunique"), rows=("capture", "size"))
    )
    counted["repeats"] = [frame[frame["tool"].fillna("") == tool].groupby(keys).size().max() for tool in counted.index]
    best = counted.sort_values(["repeats", "moments", "rows"], ascending=False, kind="stable").index[0]
    return frame[frame["tool"].fillna("") == best]


def stored(place: Path, columns: list[str], timed: Timed, cursor: Cursor | None, file: str) -> ThreadHistory | None:
    """The history of a long recording as the cache has it, up to a cursor; None where the cache has its rows."""
    if (place / "threads.parquet").exists():
        return None
    own = [name for name in columns if name not in OF_SAMPLES]
    samples = store.load(place, FRAMES["samples"], ["time", "moment"], coded=True)
    changes = store.load(place, FRAMES["thread_changes"], [*own, *NUMBERS], coded=True)
    if samples is None or changes is None:
        return None
    samples = timed((cursor.part(samples, file) if cursor else samples).assign(t_s=float("nan")))
    changes = changes[changes["first_sample"] < len(samples)]
    return ThreadHistory(changes.assign(last_sample=changes["last_sample"].clip(upper=len(samples) - 1)), samples)


def joined(parts: list[ThreadHistory]) -> ThreadHistory:
    """Histories of several recordings as one: samples with the same number stand in one column."""
    import numpy as np
    import pandas as pd

    if len(parts) == 1:
        return parts[0]
    moments = [part.samples["moment"].to_numpy(float) for part in parts]
    shared = all((np.diff(own) > 0).all() for own in moments)
    every = np.unique(np.concatenate(moments)) if shared else np.array([])
    changes, samples, count = [], [], 0
    for part, own in zip(parts, moments, strict=True):
        place = np.searchsorted(every, own) if shared else np.arange(count, count + len(own))
        count += len(own)
        changes.append(part.changes.assign(**{name: place[part.changes[name].to_numpy(np.int64)] for name in NUMBERS}))
        samples.append(part.samples.assign(place=place))
    found = pd.concat(samples).sort_values(["place", "t_s"], kind="stable").drop_duplicates("place", ignore_index=True)
    return ThreadHistory(pd.concat(changes, ignore_index=True), found.drop(columns="place"))
