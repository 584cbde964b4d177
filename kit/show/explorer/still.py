"""What stands for the explorer where no script runs: the answer, and phases and log over time, drawn in a moment."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

from kit.analyse.verdict.scene import scene_of_run
from kit.analyse.verdict.verdict import weigh
from kit.analyse.verdict.verdict_text import answer
from kit.document.html import AS_IT_IS
from kit.plot.phases import describe_phases
from kit.plot.style import GREY, PHASE_COLOUR, VERMILION
from kit.plot.timeaxis import TimeAxis
from kit.run import Run

WIDTH, BAR, LOG = 900, 14, 26
ROWS = 16
BINS = 300


def still(run: Run) -> str:
    """The answer and a picture of a run, as HTML without a script.

    Examples
    --------
    >>> import kit
    >>> "device_hang" in still(kit.open_run(kit.sample_path("sg01-capture-hang")))
    True
    """
    said = escape(answer(weigh(scene_of_run(run))))
    return f"<p class='{AS_IT_IS}'><b>{escape(run.name)}</b>: {said}</p>{picture(run, time_axis(run))}"


def time_axis(run: Run, quiet_from_s: float | None = None, end_s: float | None = None) -> TimeAxis | None:
    """The time of a picture: of log and phases, to `end_s` where that is later; None without any time."""
    bands = run.phases()
    seconds = pd.concat([run.condensed_log()["t_s"], bands["begin_t_s"], bands["end_t_s"]]).astype(float).dropna()
    if not len(seconds) or seconds.max() <= seconds.min():
        return None
    return TimeAxis(float(seconds.min()), max(float(seconds.max()), end_s or 0.0), quiet_from_s)


def picture(run: Run, axis: TimeAxis | None) -> str:
    """Phases and log of a run over time, in the ink of the page around it; shaded from the axis' knee, the last progress, on."""
    if axis is None:
        return ""
    bands = run.phases().dropna(subset=["begin_t_s", "end_t_s"])
    log = run.condensed_log()["t_s"].dropna().to_numpy(float)
    ranks = list(dict.fromkeys(bands["rank"].fillna(-1)))[:ROWS]

    def x(t: float) -> float:
        return round(float(axis.share(t)) * WIDTH, 1)

    floor = len(ranks) * BAR + LOG
    parts = []
    if axis.knee is not None and axis.begin <= axis.knee < axis.end:
        at = x(axis.knee)
        parts.append(f'<rect x="{at}" y="0" width="{round(WIDTH - at, 1)}" height="{floor}" fill="{VERMILION}" opacity=".16"/>')
    for band in bands.assign(row=bands["rank"].fillna(-1)).query("row in @ranks").itertuples():
        width = max(x(band.end_t_s) - x(band.begin_t_s), 1)
        parts.append(
            f'<rect x="{x(band.begin_t_s)}" y="{ranks.index(band.row) * BAR}" width="{width}" height="{BAR - 1}" '
            f'fill="{PHASE_COLOUR.get(band.phase, GREY)}"/>'
        )
    counts, edges = np.histogram(log, axis.edges(BINS))
    for number, edge in zip(counts, edges[:-1], strict=True):
        if number:
            high = round(4 + (LOG - 6) * float(np.log1p(number) / np.log1p(counts.max())), 1)
            parts.append(f'<rect x="{x(edge)}" y="{floor - high}" width="2" height="{high}" fill="currentColor"/>')
    alt = escape(f"{describe_phases(bands)} Below: log records over {axis.end - axis.begin:,.0f} s.")
    return (
        f'<svg role="img" aria-label="{alt}" viewBox="0 0 {WIDTH} {floor}" preserveAspectRatio="none" '
        f'style="max-width:100%;max-height:{2 * floor}px">'
        f"{''.join(parts)}</svg>"
    )
