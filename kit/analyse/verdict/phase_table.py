"""Phases of each rank as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.analyse.verdict.scene import scene_of_run
from kit.clock import NS
from kit.run import Run

if TYPE_CHECKING:
    import pandas

REACHED = ("ready", "serving")
"""Phases that a launch is to reach: it is not held up in them."""


def phase_table(run: Run) -> pandas.DataFrame:
    """Phases of each rank with begin, end and duration.

    Parameters
    ----------
    run : Run

    Returns
    -------
    pandas.DataFrame
        Columns `rank` (Int64, null where the log names none), `phase`, `begin`, `end` (UTC), `begin_t_s`, `end_t_s`,
        `duration_s`; `open` (bool): no end was seen, the evidence ends in it. The last phase of a rank ends with the evidence;
        one that is the aim of a launch (`ready`, `serving`) is not open.

    Examples
    --------
    >>> import kit
    >>> table = kit.phase_table(kit.sample("sg01-capture-hang"))
    >>> table[table["rank"] == 0]["phase"].tolist()[-1]
    'post_load'
    """
    import pandas as pd

    scene = scene_of_run(run)
    evidence, found = scene.evidence, scene.progression
    zero = run.launch_zero_ns
    # The time of a file may be that of its copy, months later: then the last phase ends with the log.
    now = run.captured_ns if run.captured_known else evidence.log.last_time
    rows = []
    for rank, walked in found.by_rank.items():
        if not walked:
            continue
        for step, after in zip(walked, [*walked[1:], None], strict=True):
            end = after.time if after else now
            rows.append(
                {
                    "rank": rank,
                    "phase": step.phase,
                    "begin": step.time,
                    "end": end,
                    "begin_t_s": _seconds(step.time, zero),
                    "end_t_s": _seconds(end, zero),
                    "duration_s": _seconds(end, step.time),
                    "open": after is None and step.phase not in REACHED,
                }
            )
    table = pd.DataFrame(rows, columns=["rank", "phase", "begin", "end", "begin_t_s", "end_t_s", "duration_s", "open"])
    table["rank"] = table["rank"].astype("Int64")
    for name in ("begin", "end"):
        table[name] = pd.to_datetime(table[name].astype("Int64"), unit="ns", utc=True).astype("datetime64[ns, UTC]")
    return table.astype({"phase": "str", "begin_t_s": float, "end_t_s": float, "duration_s": float, "open": bool})


def _seconds(later: int | None, earlier: int | None) -> float | None:
    return None if later is None or earlier is None else (later - earlier) / NS
