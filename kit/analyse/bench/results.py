"""Benchmark results as frames: `benchmarks(paths)`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES
from kit.parse.bench import KNOWN, Result, read
from kit.parse.bench.aiperf import merge

SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".txt", ".log", ".out", ".gz", ".ndjson")
"""Files of a folder that are looked into."""
LAUNCH = ".launch.json"
"""End of the name of a file that holds the launch of the server that was measured."""
SKIP = (".pytorch.json", "_stats_history.csv", "_failures.csv", "_exceptions.csv")
"""Files that vLLM and Locust write beside their results; of genai-perf and AIPerf the CSV is left out where the JSON is there."""
MOST_TOLD = 5
"""Files that an error names: of a folder of 5,000 logs all say the same."""
SHOWN = ("median", "p99", "mean", "run", "count")
"""Statistics of the printed table, in the order of preference."""


class Benchmarks:
    """Results of some benchmark files.

    Attributes
    ----------
    runs : pandas.DataFrame
        Frame `bench_runs`: a row a run of the client, with its load and settings.
    values : pandas.DataFrame
        Frame `bench_values`: run, file, name, metric, stat, value, unit, direction, n, definition, source.
    requests : pandas.DataFrame
        Frame `bench_requests`: a row a request or repetition, failed ones with `ok` false.
    warnings : list of str
        What a reader of the numbers must know; failures first.
    """

    def __init__(self, results: Sequence[Result], warnings: Iterable[str] = ()):
        self.runs = FRAMES["bench_runs"].build(row for result in results for row in result.runs)
        self.values = FRAMES["bench_values"].build(row for result in results for row in result.values)
        self.requests = FRAMES["bench_requests"].build(row for result in results for row in result.requests)
        told = dict.fromkeys([*(text for result in results for text in result.warnings), *warnings])
        self.warnings = sorted(told, key=lambda text: "failed" not in text)

    def of_runs(self, runs: Iterable[str]) -> Benchmarks:
        """The results of some of the runs."""
        runs, part = set(runs), Benchmarks([])
        for frame in ("runs", "values", "requests"):
            rows = getattr(self, frame)
            setattr(part, frame, rows[rows["run"].isin(runs)].reset_index(drop=True))
        return part

    def table(self) -> pd.DataFrame:
        """Values as a table: a row a benchmark, metric and statistic, a column a run.

        The index is `name` (where there are named benchmarks), `metric`, `stat`, `unit`; of the statistics those of `SHOWN`.
        """
        return _pivot(self, self.values[self.values["stat"].isin(SHOWN)])

    def __repr__(self) -> str:
        return f"<Benchmarks: {len(self.runs)} runs of {', '.join(dict.fromkeys(self.runs['tool']))}>"

    def __str__(self) -> str:
        lines = [f"{len(self.runs)} benchmark run{'s' * (len(self.runs) != 1)}"]
        for row in self.runs.to_dict("records"):
            lines.append("  " + "  ".join([row["run"], row["tool"], *_load_words(row)]))
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join([*lines, self.table().to_string(float_format=lambda value: f"{value:,.4g}")])

    def _repr_html_(self) -> str:
        warned = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        runs = "".join(
            f"<li><b>{escape(row['run'])}</b>: {escape(', '.join([row['tool'], *_load_words(row)]))}</li>"
            for row in self.runs.to_dict("records")
        )
        table = self.table().to_html(float_format=lambda value: f"{value:,.4g}", na_rep="–", border=0)
        warnings = f"<p><b>Warnings</b></p><ul>{warned}</ul>" if warned else ""
        return f"<div class='mathjax_ignore'><ul>{runs}</ul>{warnings}{table}</div>"


def _load_words(row: dict[str, Any]) -> list[str]:
    words = [str(row["label"])] if pd.notna(row["label"]) else []
    for column, form in (
        ("model", "{}"),
        ("request_rate", "rate {:g}/s"),
        ("max_concurrency", "concurrency {:g}"),
        ("completed", "{:d} completed"),
        ("failed", "{:d} failed"),
    ):
        if pd.notna(row[column]):
            words.append(
                form.format(row[column]).replace("rate inf/s", "all at once").replace("concurrency inf", "no concurrency limit")
            )
    return words


def benchmarks(paths: str | os.PathLike | Iterable[str | os.PathLike]) -> Benchmarks:
    """Read benchmark results of any known tool; the tool is told by content.

    Parameters
    ----------
    paths : path or iterable of paths
        Result files, or folders of them. A file of a server's launch (`argv`, `env`, `versions`) is put to the runs whose
        names begin like its own; `x.launch.json` beside `x-1.json` is found without being given.

    Returns
    -------
    Benchmarks

    Raises
    ------
    EvidenceError
        Where no file could be read as a result; where some could, the others are warnings.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "h.json"
    >>> _ = path.write_text('{"results": [{"command": "true", "mean": 0.5, "stddev": null, "median": 0.5, "times": [0.5]}]}')
    >>> bench = benchmarks(path)
    >>> bench.values.loc[0, ["metric", "stat", "unit"]].tolist(), float(bench.values.loc[0, "value"])
    (['wall_time', 'mean', 's'], 0.5)
    """
    chosen = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    if not chosen:
        raise UsageError("no benchmark file was given", "the list of paths is empty", "call kit.benchmarks(['result.json'])")
    files, warnings = _files(chosen)
    results, launches, problems = _read(files, warnings)
    if not results:
        if len(problems) == 1:
            raise problems[0]
        more = f"; and {len(problems) - MOST_TOLD} more" if len(problems) > MOST_TOLD else ""
        why = "; ".join(map(str, problems[:MOST_TOLD])) + more or "the folder holds none"
        raise EvidenceError("no benchmark result was found", why, f"give a result file of {KNOWN}")
    results = merge(results)
    _attach(results, launches)
    return Benchmarks(results, [*warnings, *(f"{error.what}: {error.why}; left out" for error in problems)])


def _read(files: dict[Path, str], warnings: list[str]) -> tuple[list[Result], list[tuple[str, dict]], list[EvidenceError]]:
    """Results, launches, and what could not be read; a file with the content of another is left out with a warning."""
    results, launches, problems = [], [], []
    seen: dict[str, str] = {}
    for path, file in files.items():
        try:
            content = read(path, file)
        except EvidenceError as error:
            problems.append(error)
            continue
        if isinstance(content, dict):
            launches.append((file, content))
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen:
            what = f"{file} has the same content as {seen[digest]}"
            warnings.append(f"{what}: the same run twice is not a second measurement; left out")
        else:
            seen[digest] = file
            results.append(content)
    return results, launches, problems


def _files(chosen: list[Path]) -> tuple[dict[Path, str], list[str]]:
    """Return the files to read with their shortest telling names, and warnings of paths given twice."""
    found: list[Path] = []
    warnings = []
    for path in chosen:
        inside = (
            sorted(
                p
                for p in path.rglob("*")
                if p.is_file()
                and p.name.lower().endswith(SUFFIXES)
                and not p.name.endswith(SKIP)
                and not p.name.startswith(".")
                and not (p.match("profile_export*.csv") and p.with_suffix(".json").exists())
            )
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise EvidenceError(
                f"folder {path.name} holds no benchmark result",
                f"none of its files ends in {', '.join(SUFFIXES)}",
                f"look into it with: ls -R '{path}'",
            )
        found += inside
    found += sorted(_launches_beside(found) - set(found))
    unique: dict[Path, Path] = {}
    for path in found:
        if path.resolve() in unique:
            warnings.append(f"{path.name} was given twice; read once")
        unique.setdefault(path.resolve(), path)
    return dict(zip(unique.values(), names_of(list(unique)), strict=True)), warnings


def _launches_beside(results: list[Path]) -> set[Path]:
    """Launch files beside results: of each result the one with the longest name that its own begins with."""
    known: dict[Path, list[Path]] = {}
    for folder in {path.parent for path in results}:
        known[folder] = sorted(folder.glob(f"*{LAUNCH}"), key=lambda one: len(one.name))
    fitting = ([one for one in known[path.parent] if path.name.startswith(one.name.removesuffix(LAUNCH))] for path in results)
    return {launches[-1] for launches in fitting if launches}


def names_of(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart; what is there twice has its number too.

    Examples
    --------
    >>> names_of([Path("/a/x.json"), Path("/b/x.json"), Path("/b/x.json")])
    ['a/x.json', 'b/x.json', 'b/x.json#3']
    """
    parts, depth = [path.resolve().parts for path in paths], 1
    while len({own[-depth:] for own in parts}) < len(set(parts)):
        depth += 1
    names = ["/".join(own[-depth:]) for own in parts]
    return [name if names.index(name) == i else f"{name}#{i + 1}" for i, name in enumerate(names)]


def _attach(results: list[Result], launches: list[tuple[str, dict]]) -> None:
    from kit.parse.bench.base import as_json

    for file, launch in launches:
        stem = PurePath(file).name.split(".")[0]
        for result in results:
            path = PurePath(result.file)
            if path.parent == PurePath(file).parent and path.name.startswith(stem):
                for row in result.runs:
                    row["launch"] = as_json(launch)


def _pivot(bench: Benchmarks, values: pd.DataFrame) -> pd.DataFrame:
    values = values.drop_duplicates(["run", "name", "metric", "stat"], keep="last")
    keys = [*(["name"] if values["name"].notna().any() else []), "metric", "stat", "unit"]
    order = values.assign(name=values["name"].fillna(""), unit=values["unit"].fillna("")).drop_duplicates([*keys])
    wide = values.assign(name=values["name"].fillna("")).pivot(index=keys, columns="run", values="value")
    runs = [run for run in bench.runs["run"] if run in wide.columns]
    return wide.reindex(index=[tuple(row) for row in order[keys].to_numpy()], columns=runs).rename_axis(index=keys)
