"""The two sides of a comparison of benchmarks: their runs, what was left out, and which runs are the same experiment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.analyse.bench.results import Benchmarks, benchmarks, load_differences
from kit.errors import EvidenceError, UsageError
from kit.run import Run

if TYPE_CHECKING:
    import pandas as pd

BASE, CAND = "base", "cand"
SAME_FIGURES = 5
"""Two results with at least this many figures, all of them equal to the last digit, are one measurement given twice."""
LOAD_SETTING = re.compile(
    r"(ramp_?up\w*|random_(input|output)_len|random_range_ratio|sharegpt_output_len|(random_)?prefix_len|input_len|output_len"
    r"|batch_size|\w*warm_?ups?\w*|goodput\w*|slo|slos|(isl|osl)(\.\w+)?|temperature|top_[pk]|ignore_eos|streaming|endpoint_type"
    r"|prompt_tokens\w*|output_tokens\w*|turns)"
)
"""Settings of a client that change the load it makes; the last part of a dotted path."""
SERVER_SIDE = ("server_info", "launch", "machine_info", "extra")
"""Parts of a result that describe the server or the machine, not the client."""


@dataclass
class Cell:
    """Runs of both sides under one load.

    Attributes
    ----------
    label : str or None
        The load in words, where there are several.
    base, cand : list of str
        Names of runs.
    differ, unknown : list of str
        In what the loads of the two sides differ, as `name: a, b`, and what one of them does not tell.
    """

    label: str | None
    base: list[str]
    cand: list[str]
    differ: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def of(self, side: str) -> list[str]:
        """Runs of a side."""
        return self.base if side == BASE else self.cand


@dataclass
class Sides:
    """Results of both sides in one `Benchmarks`, under names that are unique.

    Attributes
    ----------
    bench : Benchmarks
        All runs that may be compared.
    side : dict of str to str
        Run to `base` or `cand`.
    warnings : list of str
        What was left out, and what the files themselves say.
    """

    bench: Benchmarks
    side: dict[str, str]
    warnings: list[str]

    def of(self, side: str) -> list[str]:
        """Runs of a side, in the order of their files."""
        return [run for run in self.bench.runs["run"] if self.side[run] == side]


Given = Any
"""What a side may be given as: Benchmarks, paths of results, runs or paths of runs."""


def read_side(given: Given) -> Benchmarks:
    """Return the results of a side: as they are, read from files, or from the launches that were given."""
    if isinstance(given, Benchmarks):
        return given
    items = [given] if isinstance(given, (str, Path, Run)) or not isinstance(given, Iterable) else list(given)
    launches = [item for item in items if is_launch(item)]
    if launches and len(launches) < len(items):
        raise UsageError(
            "launches and benchmark results are mixed",
            f"{len(launches)} of {len(items)} are runs of a launch",
            "compare launches with launches: kit.compare_launches(runs_a, runs_b)",
        )
    if launches:
        from kit.analyse.bench.launches import launch_results

        return launch_results(launches)
    return benchmarks(items)


def is_launch(item: Any) -> bool:
    """Whether something given is a recorded launch and not a result file."""
    return isinstance(item, Run) or (Path(item).is_dir() and (Path(item) / "run.json").is_file())


def join(base: Benchmarks, cand: Benchmarks) -> Sides:
    """Put both sides into one, leave out what was given twice or cut short, and say so."""
    import pandas as pd

    warnings = list(dict.fromkeys([*base.warnings, *cand.warnings]))
    common = set(base.runs["run"]) & set(cand.runs["run"])
    bench = Benchmarks([])
    side: dict[str, str] = {}
    parts: dict[str, list[pd.DataFrame]] = {"runs": [], "values": [], "requests": []}
    for name, given in ((BASE, base), (CAND, cand)):
        unique = {run: f"{name}: {run}" if run in common else run for run in given.runs["run"]}
        side |= dict.fromkeys(unique.values(), name)
        for frame in parts:
            rows = getattr(given, frame)
            parts[frame].append(rows.assign(run=rows["run"].map(unique).astype("str")))
    for frame, rows in parts.items():
        kept = [part for part in rows if len(part)] or rows[:1]
        setattr(bench, frame, pd.concat(kept, ignore_index=True))
    sides = Sides(bench, side, warnings)
    _drop(sides, _unfit(bench) | _twice(bench))
    for name in (BASE, CAND):
        if not sides.of(name):
            raise EvidenceError(
                f"no run of {name} is left to compare",
                "; ".join(sides.warnings) or "it holds none",
                "give another run of each side: a comparison needs two measurements",
            )
    return sides


def _unfit(bench: Benchmarks) -> dict[str, str]:
    return {
        row["run"]: f"{row['run']} was cancelled or cut short, says the tool: left out"
        for row in bench.runs[["run", "complete"]].to_dict("records")
        if row["complete"] is False
    }


def _twice(bench: Benchmarks) -> dict[str, str]:
    """Runs whose figures are all those of an earlier one."""
    seen: dict[tuple, str] = {}
    found = {}
    for run, rows in bench.values.groupby("run", sort=False):
        figures = tuple(rows[["name", "metric", "stat", "value"]].astype(object).fillna("").itertuples(index=False, name=None))
        odd = [value for *_, value in figures if isinstance(value, float) and not value.is_integer()]
        if len(odd) >= SAME_FIGURES and figures in seen:
            found[run] = f"{run} holds the same figures as {seen[figures]}: the same run twice is no second measurement; left out"
        seen.setdefault(figures, run)
    return found


def _drop(sides: Sides, unfit: dict[str, str]) -> None:
    sides.warnings += unfit.values()
    for frame in ("runs", "values", "requests"):
        rows = getattr(sides.bench, frame)
        setattr(sides.bench, frame, rows[~rows["run"].isin(unfit)].reset_index(drop=True))


def cells(sides: Sides, force: bool) -> tuple[list[Cell], list[str]]:
    """Pair the runs of both sides by their load.

    Returns
    -------
    tuple of (list of Cell, list of str)
        The pairs; where no load is on both sides, one cell of all runs that says in what they differ. And warnings of runs
        whose load the other side lacks.
    """
    groups = {side: _groups(sides.bench, sides.of(side)) for side in (BASE, CAND)}
    pairs, left = [], list(groups[CAND])
    for one in groups[BASE]:
        match = next((other for other in left if not differences(sides.bench, one[0], other[0])[0]), None)
        if match:
            left.remove(match)
            pairs.append(Cell(_label(sides.bench, one, groups), one, match, [], differences(sides.bench, one[0], match[0])[1]))
    if not pairs:
        differ, unknown = differences(sides.bench, groups[BASE][0][0], groups[CAND][0][0])
        mixed = [f"the runs of {side} have {len(found)} different loads" for side, found in groups.items() if len(found) > 1]
        return [Cell(None, sides.of(BASE), sides.of(CAND), [*differ, *mixed], unknown)], []
    paired = {run for cell in pairs for run in (*cell.base, *cell.cand)}
    alone = [run for run in sides.bench.runs["run"] if run not in paired]
    return pairs, [
        f"{run} has another load than the runs of the other side ({'; '.join(_against(sides, run, pairs))}): left out"
        for run in alone
    ]


def _against(sides: Sides, run: str, pairs: list[Cell]) -> list[str]:
    other = CAND if sides.side[run] == BASE else BASE
    return differences(sides.bench, run, pairs[0].of(other)[0])[0]


def _groups(bench: Benchmarks, runs: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for run in runs:
        same = next((group for group in found if not differences(bench, group[0], run)[0]), None)
        if same is None:
            found.append([run])
        else:
            same.append(run)
    return found


def _label(bench: Benchmarks, group: list[str], groups: dict[str, list[list[str]]]) -> str | None:
    if max(map(len, groups.values())) == 1:
        return None
    others = [other[0] for found in groups.values() for other in found]
    told = [text for other in others for text in differences(bench, group[0], other)[0]]
    return (
        ", ".join(dict.fromkeys(f"{text.partition(':')[0]} {text.partition(': ')[2].rpartition(', ')[0]}" for text in told))
        or None
    )


def differences(bench: Benchmarks, one: str, other: str) -> tuple[list[str], list[str]]:
    """Say in what the loads of two runs differ: columns of the runs, and settings of the client that make the load."""
    differ, unknown = load_differences(bench, one, other)
    rows = bench.runs.set_index("run")
    if rows.loc[one, "tool"] == rows.loc[other, "tool"]:
        kinds = [rows.loc[run, "benchmark"] for run in (one, other)]
        if all(isinstance(kind, str) for kind in kinds) and kinds[0] != kinds[1]:
            differ.append(f"benchmark: {kinds[0]}, {kinds[1]}")
        mine, yours = (load_settings(rows.loc[run, "settings"]) for run in (one, other))
        differ += [f"{name}: {mine[name]}, {yours[name]}" for name in mine.keys() & yours.keys() if mine[name] != yours[name]]
        unknown += sorted(mine.keys() ^ yours.keys())
    return differ, unknown


def load_settings(settings: Any) -> dict[str, str]:
    """Return the settings of a client that make its load, by dotted path.

    Examples
    --------
    >>> load_settings('{"random_input_len": 64, "tp": "1", "server_info": {"batch_size": 3}}')
    {'random_input_len': '64'}
    """
    return {
        path: value
        for path, value in flat(settings).items()
        if not path.startswith(SERVER_SIDE) and LOAD_SETTING.fullmatch(path.rpartition(".")[2])
    }


def flat(settings: Any) -> dict[str, str]:
    """Return nested settings (JSON text or a dict) as dotted paths; items of a list go by their name, else by their place.

    Examples
    --------
    >>> flat('{"a": {"b": 1}, "benchmarks": [{"name": "x", "n": 2}], "c": [1, 2], "d": null}')
    {'a.b': '1', 'benchmarks.x.n': '2', 'c': '[1, 2]'}
    """
    if isinstance(settings, str):
        try:
            settings = json.loads(settings)
        except ValueError:
            return {}
    found: dict[str, str] = {}
    if isinstance(settings, dict):
        _flatten(settings, "", found)
    return found


def _flatten(value: Any, path: str, into: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(item, f"{path}.{key}" if path else str(key), into)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for place, item in enumerate(value):
            name = item.get("fullname") or item.get("name")
            inner = {key: part for key, part in item.items() if key not in ("fullname", "name", "command")}
            _flatten(inner if name else item, f"{path}.{name or place}", into)
    elif value is not None:
        into[path] = value if isinstance(value, str) else json.dumps(value)
