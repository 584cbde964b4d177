"""The two sides of a comparison of benchmarks: their runs, what was left out, and which runs are the same experiment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.results import Benchmarks, benchmarks
from kit.errors import EvidenceError, UsageError
from kit.run import Run
from kit.untrusted import load_json

BASE, CAND = "base", "cand"
FRAMES_OF_BENCH = ("runs", "values", "requests")
SAME_VALUES = 5
"""Two results with at least this many values, all of them equal to the last digit, are one measurement given twice."""
LOAD = (
    "model",
    "dataset",
    "request_rate",
    "burstiness",
    "max_concurrency",
    "num_prompts",
    "input_tokens_mean",
    "output_tokens_mean",
)
"""Columns of the runs that must be equal for two runs to be the same experiment."""
SAME_LENGTH = 0.05
"""Relative difference up to which mean token counts are called equal: they are random draws, and tools count the tokens of
a chat template or not."""
LOAD_SETTING = re.compile(
    r"(ramp_?up\w*|random_(input|output)_len|random_range_ratio|sharegpt_output_len|(random_)?prefix_len|input_len|output_len"
    r"|batch_size|\w*warm_?ups?\w*|goodput\w*|slo|slos|(isl|osl)(\.\w+)?|temperature|top_[pk]|ignore_eos|streaming|endpoint_type"
    r"|prompt_tokens\w*|output_tokens\w*|turns)"
)
"""Settings of a client that change the load it makes; the last part of a dotted path."""
SERVER_SIDE = ("server_info", "launch", "machine_info", "extra")
"""Parts of a result that describe the server or the machine, not the client."""


@dataclass
class LoadGroup:
    """Runs of both sides under one load."""

    label: str | None  # the load in words, where there are several
    base: list[str]
    cand: list[str]
    # `differ`, `unknown`: in what the loads of the two sides differ, as `name: a, b`, and what one of them does not tell
    differ: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    failed: dict[str, float] = field(default_factory=dict)  # share of failed requests by side, where it is known

    def of(self, side: str) -> list[str]:
        """Runs of a side."""
        return self.base if side == BASE else self.cand

    @property
    def runs(self) -> list[str]:
        """Runs of both sides."""
        return [*self.base, *self.cand]


@dataclass
class BenchInputs:
    """Results of both sides in one `Benchmarks`, under names that are unique."""

    bench: Benchmarks  # all runs that may be compared
    side: dict[str, str]  # run to `base` or `cand`
    warnings: list[Finding]  # what was left out, and what the files themselves say

    @cached_property
    def measured(self) -> dict[str, pd.DataFrame]:
        """Successful requests or repetitions, by run."""
        rows = self.bench.requests
        rows = rows[rows["ok"].fillna(False).astype(bool) & (rows["kind"] != "warmup")]
        return {run: rows[rows["run"] == run] for run in self.bench.runs["run"]}

    def of(self, side: str) -> list[str]:
        """Runs of a side, in the order of their files."""
        return [run for run in self.bench.runs["run"] if self.side[run] == side]


Given = Any
"""What a side may be given as: Benchmarks, paths of results, runs or paths of runs."""


def read_side(given: Given) -> Benchmarks:
    """Return the results of a side: as they are, read from files, or from the launches that were given."""
    if isinstance(given, Benchmarks):
        return given
    items: list[Any] = [given] if isinstance(given, (str, Path, Run)) or not isinstance(given, Iterable) else list(given)
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


def join(base: Benchmarks, cand: Benchmarks) -> BenchInputs:
    """Put both sides into one, leave out what was given twice or cut short, and say so."""
    common = set(base.runs["run"]) & set(cand.runs["run"])
    bench = Benchmarks([])
    side: dict[str, str] = {}
    parts: dict[str, list[pd.DataFrame]] = {frame: [] for frame in FRAMES_OF_BENCH}
    for name, given in ((BASE, base), (CAND, cand)):
        unique = {run: f"{name}: {run}" if run in common else run for run in given.runs["run"]}
        side |= dict.fromkeys(unique.values(), name)
        for frame in parts:
            rows = getattr(given, frame)
            parts[frame].append(rows.assign(run=rows["run"].map(unique).astype("str")))
    for frame, rows in parts.items():
        kept = [part for part in rows if len(part)] or rows[:1]
        setattr(bench, frame, pd.concat(kept, ignore_index=True))
    reported = [finding("reported", text=text) for text in dict.fromkeys([*base.warnings, *cand.warnings])]
    left_out = _incomplete(bench) | _given_twice(bench)
    rest = bench.of_runs(run for run in bench.runs["run"] if run not in left_out)
    inputs = BenchInputs(rest, side, [*reported, *left_out.values()])
    for name in (BASE, CAND):
        if not inputs.of(name):
            raise EvidenceError(
                f"no run of {name} is left to compare",
                "; ".join(map(str, inputs.warnings)) or "it holds none",
                "give another run of each side: a comparison needs two measurements",
            )
    return inputs


def _incomplete(bench: Benchmarks) -> dict[str, Finding]:
    rows = bench.runs[["run", "complete"]].to_dict("records")
    return {row["run"]: finding("incomplete_run", run=row["run"]) for row in rows if row["complete"] is False}


def _given_twice(bench: Benchmarks) -> dict[str, Finding]:
    """Runs whose values are all those of an earlier one."""
    seen: dict[tuple, str] = {}
    twice = {}
    for run, rows in bench.values.groupby("run", sort=False):
        values = tuple(rows[["name", "metric", "stat", "value"]].astype(object).fillna("").itertuples(index=False, name=None))
        odd = [value for *_, value in values if isinstance(value, float) and not value.is_integer()]
        if len(odd) >= SAME_VALUES and values in seen:
            twice[run] = finding("same_run_twice", run=run, other=seen[values])
        seen.setdefault(values, run)
    return twice


def load_groups(inputs: BenchInputs) -> list[LoadGroup]:
    """Pair the runs of both sides by their load; those whose load the other side lacks become warnings of the inputs.

    Where no load is on both sides, one group of all runs says in what they differ.
    """
    bench = inputs.bench
    by_side = {side: _groups(bench, inputs.of(side)) for side in (BASE, CAND)}
    groups, left = [], list(by_side[CAND])
    for base in by_side[BASE]:
        match = next((cand for cand in left if not load_differences(bench, base[0], cand[0])[0]), None)
        if match:
            left.remove(match)
            unknown = load_differences(bench, base[0], match[0])[1]
            groups.append(LoadGroup(_label(bench, base, by_side), base, match, unknown=unknown))
    if not groups:
        differ, unknown = load_differences(bench, by_side[BASE][0][0], by_side[CAND][0][0])
        mixed = [f"the runs of {side} have {len(found)} different loads" for side, found in by_side.items() if len(found) > 1]
        groups = [LoadGroup(None, inputs.of(BASE), inputs.of(CAND), [*differ, *mixed], unknown)]
    paired = {run for group in groups for run in group.runs}
    for run in bench.runs["run"]:
        if run not in paired:
            other = groups[0].of(CAND if inputs.side[run] == BASE else BASE)[0]
            inputs.warnings.append(finding("other_load", run=run, differs=load_differences(bench, run, other)[0]))
    for group in groups:
        group.failed = _failed(bench, group)
    return groups


def _failed(bench: Benchmarks, group: LoadGroup) -> dict[str, float]:
    """Share of failed requests by side."""
    rows = bench.runs.set_index("run")
    shares = {}
    for side in (BASE, CAND):
        counts = rows.loc[group.of(side), ["completed", "failed"]].dropna()
        total = int(counts.sum().sum()) if len(counts) else 0
        if total:
            shares[side] = float(counts["failed"].sum()) / total
    return shares


def _groups(bench: Benchmarks, runs: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for run in runs:
        same = next((group for group in found if not load_differences(bench, group[0], run)[0]), None)
        if same is None:
            found.append([run])
        else:
            same.append(run)
    return found


def _label(bench: Benchmarks, group: list[str], groups: dict[str, list[list[str]]]) -> str | None:
    if max(map(len, groups.values())) == 1:
        return None
    others = [other[0] for found in groups.values() for other in found]
    told = [text for other in others for text in load_differences(bench, group[0], other)[0]]
    return (
        ", ".join(dict.fromkeys(f"{text.partition(':')[0]} {text.partition(': ')[2].rpartition(', ')[0]}" for text in told))
        or None
    )


def load_differences(bench: Benchmarks, first: str, second: str) -> tuple[list[str], list[str]]:
    """In what the loads of two runs differ (`name: a, b`), and what only one of them tells.

    Compared are columns of the runs, and settings of the client that make the load.
    """
    rows = bench.runs.set_index("run")
    differ, unknown = [], []
    for column in LOAD:
        values = [None if _missing(rows.loc[run, column]) else rows.loc[run, column] for run in (first, second)]
        if values == [None, None]:
            continue
        if None in values:
            unknown.append(column)
        elif not (math.isclose(*values, rel_tol=SAME_LENGTH) if column.endswith("_tokens_mean") else values[0] == values[1]):
            differ.append(f"{column}: {', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in values)}")
    if rows.loc[first, "tool"] == rows.loc[second, "tool"]:
        kinds = [rows.loc[run, "benchmark"] for run in (first, second)]
        if all(isinstance(kind, str) for kind in kinds) and kinds[0] != kinds[1]:
            differ.append(f"benchmark: {kinds[0]}, {kinds[1]}")
        a, b = (load_settings(rows.loc[run, "settings"]) for run in (first, second))
        differ += [f"{name}: {a[name]}, {b[name]}" for name in a.keys() & b.keys() if a[name] != b[name]]
        unknown += sorted(a.keys() ^ b.keys())
    return differ, unknown


def _missing(value: Any) -> bool:
    return bool(pd.isna(value))


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
            settings = load_json(settings)
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
