"""Phases of each rank as bands over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from kit.clock import show_duration
from kit.plot.samples import named_list
from kit.plot.style import FONT_PT, GREY, ON_COLOUR, PHASE_COLOUR, begin, dress, legend_beside, patches
from kit.plot.timeaxis import label_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 16
"""Most ranks to draw; those that are behind stay, and the title says N of M."""
LABEL_SHARE = 0.09
"""A band gets its name written into it where it takes this share of the width."""
DARK = ("serving",)
"""Phases whose colour asks for white letters."""
NOTHING = "Phases: no record of the log shows a phase begun at a known time. The server's whole output would."


def _known(phases: pd.DataFrame) -> pd.DataFrame:
    """Return phases with a begin, with `row` (text of the rank), an end, and whether they are `open`: no end was seen."""
    rows = phases[phases["begin_t_s"].notna()]
    last = pd.concat([rows["begin_t_s"], rows["end_t_s"]]).max()
    return rows.assign(
        open=rows["open"].astype(bool) if "open" in rows else rows["end_t_s"].isna(),
        end_t_s=rows["end_t_s"].fillna(last),
        row=["all" if pd.isna(rank) else str(int(rank)) for rank in rows["rank"]],
    )


def _behind_first(rows: pd.DataFrame) -> list[str]:
    """Ranks by how far they came: the ones that stand in the rarest last phase first, then in their order."""
    last = rows.groupby("row", sort=False).last()
    share = last["phase"].map(last["phase"].value_counts())
    return list(share.sort_values(kind="stable").index)


def plot_phases(
    phases: pd.DataFrame, ax: Axes | None = None, *, to_share: Callable[[Any], Any] | None = None, rows: int = ROWS
) -> Axes:
    """Draw the phases of each rank as bands; one whose end nobody saw is hatched: the launch stands in it.

    Parameters
    ----------
    phases : pandas.DataFrame
        What `kit.phase_table` gives: `rank`, `phase`, `begin_t_s`, `end_t_s`, `duration_s`, `open`.
    to_share : callable, optional
        Takes seconds to the share of the axis, where that is not linear; decides which bands are labelled.
    rows : int
        Most ranks to draw.

    Examples
    --------
    >>> import pandas as pd
    >>> axes = plot_phases(pd.DataFrame({"rank": [0], "phase": ["weights"], "begin_t_s": [1.0], "end_t_s": [9.0]}))
    >>> axes.get_title(loc="left")
    'Phase of each rank'
    """
    known = _known(phases)
    drawn = [row for row in dict.fromkeys(known["row"]) if row in set(_behind_first(known)[:rows])] if len(known) else []
    ax, new = begin(ax, 0.9 + 0.2 * max(len(drawn), 2), lambda: describe_phases(phases), len(known) > 0)
    if not len(known):
        return ax
    first, last = known["begin_t_s"].min(), known["end_t_s"].max()
    share = to_share or (lambda x: (x - first) / ((last - first) or 1.0))
    for number, row in enumerate(drawn):
        for band in known[known["row"] == row].itertuples():
            phase_bar(ax, number, band.phase, band.begin_t_s, band.end_t_s, open_=band.open)
            if share(band.end_t_s) - share(band.begin_t_s) > LABEL_SHARE and len(drawn) <= 10:
                phase_name(ax, number, band.phase, band.begin_t_s)
    ax.set_yticks(range(len(drawn)), drawn)
    ax.set_ylim(len(drawn) - 0.5, -0.5)
    legend_beside(ax, phase_patches(known))
    total = known["row"].nunique()
    if new:
        label_time(ax, known.assign(time=known["begin"] if "begin" in known else pd.NaT, t_s=known["begin_t_s"]))
    said = [f"{len(drawn)} of {total}, those that differ first"] if len(drawn) < total else []
    said += ["hatched: no end was seen"] if known["open"].any() else []
    dress(ax, "Phase of each rank" + (f" ({'; '.join(said)})" if said else ""))
    ax.grid(axis="y", visible=False)
    return ax


def phase_bar(ax: Axes, row: int, phase: str, begin_s: float, end_s: float, *, open_: bool = False) -> None:
    """Draw one phase of one row; hatched where the launch is still in it."""
    colour, hatch = PHASE_COLOUR.get(phase, GREY), "///" if open_ else None
    ax.barh(row, end_s - begin_s, left=begin_s, height=0.84, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)


def phase_name(ax: Axes, row: int, phase: str, begin_s: float) -> None:
    """Write the name of a phase into its bar, on a ground of its own: hatching would hide it."""
    colour = PHASE_COLOUR.get(phase, GREY)
    ax.annotate(
        phase,
        (begin_s, row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=FONT_PT - 1,
        color="white" if phase in DARK else ON_COLOUR,
        bbox={"boxstyle": "square,pad=0.12", "facecolor": colour, "edgecolor": "none"},
        annotation_clip=True,
    )


def phase_patches(bands: pd.DataFrame) -> list:
    """Legend handles of the phases that are there."""
    present = set(bands["phase"])
    return patches({phase: colour for phase, colour in PHASE_COLOUR.items() if phase in present})


def describe_phases(phases: pd.DataFrame) -> str:
    """Say in words what `plot_phases` draws: how long each phase took, and where each rank stands.

    Examples
    --------
    >>> import pandas as pd
    >>> describe_phases(pd.DataFrame({"rank": [0, 1], "phase": ["weights", "weights"], "begin_t_s": [1.0, 1.0],
    ...                               "end_t_s": [40.0, 31.0]}))
    'Phases of 2 ranks: weights 30 s to 39 s. Last phase: weights (ranks 0, 1).'
    """
    known = _known(phases)
    if not len(known):
        return NOTHING
    said = []
    for phase in [phase for phase in PHASE_COLOUR if phase in set(known["phase"])]:
        rows = known[known["phase"] == phase]
        taken = (rows["end_t_s"] - rows["begin_t_s"]).groupby(rows["row"]).sum()
        low, high = show_duration(taken.min()), show_duration(taken.max())
        said.append(f"{phase} {low}" if low == high else f"{phase} {low} to {high}")
    last = known.groupby("row", sort=False)["phase"].last()
    if list(last.index) == ["all"]:
        return f"Phases: {', '.join(said)}. Last phase: {last.iloc[0]}."
    ends = [f"{phase} (ranks {named_list(list(rows.index), 8)})" for phase, rows in last.groupby(last, sort=False)]
    return f"Phases of {len(last)} rank{'s' * (len(last) != 1)}: {', '.join(said)}. Last phase: {'; '.join(ends)}."
