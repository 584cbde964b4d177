"""What the plots share in reading frames: positions on the time axis, names and colours of processes, the odd one."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from kit.plot.style import GREY, SERIES, plain

RANK_WORDS = re.compile(r"(?<![A-Za-z])(?:TP|PP|DP|EP|rank)[ _:]?\d+", re.IGNORECASE)
ODD_SHARE = 0.10
"""An odd process departs from the median of its peers by more than a tenth: ranks of one launch hold the same share of
the weights, and allocators differ by a few per cent."""
ODD_SPREAD = 5.0
"""… and by more than five times the median departure of its peers, so that a launch with a wide spread has no odd one."""


def process_names(processes: pd.DataFrame, ranks: Mapping[int, int] | None = None) -> dict[int, str]:
    """Give each process a short name: its rank words where its title has them, else its program; and its pid.

    Parameters
    ----------
    ranks : mapping of pid to int, optional
        Ranks known from elsewhere (`kit.analyse.verdict.processes`), for processes whose title names none.

    Returns
    -------
    dict of int to str
        Ascending pids.

    Examples
    --------
    >>> from kit.frames import FRAMES
    >>> process_names(FRAMES["processes"].build([
    ...     {"pid": 12, "cmdline": "sglang::scheduler_TP3", "capture": "ps.txt"},
    ...     {"pid": 10, "cmdline": "/usr/bin/python3 -m sglang.launch_server --tp 8", "capture": "ps.txt"}]))
    {10: 'launch_server[10]', 12: 'TP3[12]'}
    """
    names = {}
    for pid, rows in processes[processes["pid"].notna()].groupby("pid"):
        words = [column.dropna().iloc[-1] for column in (rows["cmdline"], rows["comm"]) if column.notna().any()]
        name = _ranked(words) or (f"rank {ranks[pid]}" if ranks and pid in ranks else _program(words))
        names[int(pid)] = f"{name}[{pid}]"
    return names


def _ranked(words: list[str]) -> str:
    for word in words:
        ranks = RANK_WORDS.findall(word.split(" -")[0])
        if ranks:
            return " ".join(ranks).replace("_", "")
    return ""


def _program(words: list[str]) -> str:
    for word in words:
        module = re.search(r" -m (\S+)", word)
        first = module.group(1).rsplit(".", 1)[-1] if module else word.split(" ")[0].rsplit("/", 1)[-1]
        script = re.search(r"([^/\s]{1,200})\.py\b", word)
        if first.startswith("python") and script:
            return script.group(1)
        if first:
            return first[:24]
    return "pid"


def process_colours(pids: list[int]) -> dict[int, str]:
    """Give processes colours: the first eight one each, in the order of their pids; the rest are grey.

    `pids`: the most telling first.

    Examples
    --------
    >>> colours = process_colours([3, 1, *range(10, 20)])
    >>> colours[1] == SERIES[0], colours[19] == GREY
    (True, True)
    """
    return {**dict.fromkeys(pids, GREY), **dict(zip(sorted(pids[: len(SERIES)]), SERIES, strict=False))}


def legend_of(colours: Mapping[int, str], names: Mapping[int, str]) -> list:
    """Legend handles of the coloured processes; the grey ones are counted."""
    from matplotlib.lines import Line2D

    coloured = sorted(pid for pid in colours if colours[pid] != GREY)
    handles = [Line2D([], [], color=colours[pid], label=plain(names.get(pid, str(pid)))) for pid in coloured]
    if len(coloured) < len(colours):
        handles.append(Line2D([], [], color=GREY, label=f"{len(colours) - len(coloured)} more"))
    return handles


def odd_one(values: Mapping[int, float], names: Mapping[int, str]) -> tuple[int, float, float] | None:
    """Find the process that departs most from its peers, where one does clearly.

    Peers are processes whose names differ in numbers only. Returns pid, its value, and the median of its peers; None where fewer
    than three are alike or none stands out.

    Examples
    --------
    >>> values = {1: 50.0, 2: 50.5, 3: 49.8, 4: 12.0}
    >>> odd_one(values, {pid: f"TP{pid}[{pid}]" for pid in values})
    (4, 12.0, 50.0)
    """
    groups: dict[str, list[int]] = {}
    for pid, value in values.items():
        if not np.isnan(value):
            groups.setdefault(re.sub(r"\d+", "#", names.get(pid, "")), []).append(pid)
    best = None
    for pids in groups.values():
        if len(pids) < 3:
            continue
        ordered = np.array([values[pid] for pid in pids])
        departures = np.abs(ordered - np.median(ordered))
        at = int(departures.argmax())
        median = float(np.median(np.delete(ordered, at)))
        if departures[at] > ODD_SHARE * max(abs(median), 1e-9) and departures[at] > ODD_SPREAD * np.median(departures):
            if best is None or departures[at] > abs(best[1] - best[2]):
                best = (pids[at], float(ordered[at]), median)
    return best


def named_list(words: list[str], limit: int = 6) -> str:
    """Join words for a sentence; a long list says how many of how many it names.

    Examples
    --------
    >>> named_list(["a", "b", "c"], 2)
    'a, b (2 of 3)'
    """
    return ", ".join(words) if len(words) <= limit else f"{', '.join(words[:limit])} ({limit} of {len(words)})"
