"""Settings beside the numbers: which differ between the sides, and what that allows to be said. Never a cause."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import pandas as pd

from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.inputs import BASE, CAND, BenchInputs, LoadGroup, flat
from kit.analyse.verdict.options import canonical, command_line, unlikely, value_of

COLUMNS = ("setting", "source", "base", "cand", "separates", "unlikely")
NOT_A_SETTING = re.compile(
    r"(.*(_|\.)?(date|time|datetime|timestamp|duration|uptime|boot_time|load_avg\w{0,80}|mem_max_rss|mem_peak\w{0,80}|benchmark_id|sweep_id|uuid"
    r"|run_index|run_number|trial|cli_command|runnable_threads|cpu_freq|mhz_per_cpu|hz_actual\w{0,80}|loops|pid|commit_\w+|id|version|command)"
    r"|(internal_states|extra)(\..*)?|.*\.(internal_states|extra)(\..*)?|.*artifacts\.dir|run_info\..*|.*\.current_index"
    r"|commit_info\..*|executable|start|end|num_prompts|request_rate|burstiness|max_concurrency)"
)
"""Fields of results that differ from run to run by themselves, or that the gate has looked at."""
OPTION, PRINTED = "server option", "printed by the server"


def settings_of(row: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Return the settings of a run by (source, canonical name): server option, environment, version, client.

    Examples
    --------
    >>> launch = '{"argv": ["vllm", "serve", "m", "-tp", "1", "--gpu-memory-utilization", "0.90"], "env": {"A": "1"}}'
    >>> settings_of({"settings": None, "launch": launch, "tool_version": None})
    ... # doctest: +NORMALIZE_WHITESPACE
    {('server option', 'model'): 'm', ('server option', 'tp_size'): '1', ('server option', 'gpu_memory_utilization'): '0.9',
     ('environment', 'A'): '1'}
    """
    found: dict[tuple[str, str], str] = {}
    for path, value in flat(row.get("settings")).items():
        if path.startswith("server_info."):
            name = canonical(path.removeprefix("server_info."), "sglang")
            if not NOT_A_SETTING.fullmatch(name):
                found[OPTION, name] = str(value_of(value))
        elif not NOT_A_SETTING.fullmatch(path):
            found["client", path] = str(value_of(value))
    found |= _launch(row.get("launch"))
    if isinstance(row.get("tool_version"), str):
        found["version", "benchmark tool"] = row["tool_version"]
    return found


def _launch(text: Any) -> dict[tuple[str, str], str]:
    """Settings of a server's launch: its command line under canonical names, environment, versions, anything else by path."""
    try:
        launch = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    if not isinstance(launch, dict):
        return {}
    found: dict[tuple[str, str], str] = {}
    for name, value in (launch.get("options") or {}).items():
        found[OPTION, name] = str(value)
    argv = launch.get("argv") or launch.get("command")
    line = shlex.join(map(str, argv)) if isinstance(argv, list) else argv if isinstance(argv, str) else ""
    read = command_line(line) if line else None
    if read:
        found |= {(OPTION, name): str(value) for name, value in read.options.items()}
        found |= {("environment", name): value for name, value in read.environment.items()}
    elif line:
        found[OPTION, "command line"] = line
    for key, source in (("env", "environment"), ("environ", "environment"), ("versions", "version")):
        if isinstance(launch.get(key), dict):
            found |= {(source, name): str(value) for name, value in launch[key].items()}
    known = ("argv", "command", "env", "environ", "versions", "options", "given")
    rest = {key: value for key, value in launch.items() if key not in known}
    return found | {("launch", path): value for path, value in flat(rest).items() if not NOT_A_SETTING.fullmatch(path)}


def setting_differences(inputs: BenchInputs, groups: Sequence[LoadGroup]) -> pd.DataFrame:
    """Return the settings that are not the same in all compared runs.

    Columns: `setting`, `source`, `base`, `cand` (text; several values joined, null: not given), `separates` (the same within each
    side, another between them), `unlikely` (why it hardly matters). Those that separate come first, of them those that somebody
    chose: what no command line gives, and a server printed, may follow from those.
    """
    one_tool = inputs.bench.runs["tool"].nunique() == 1  # options of two clients have nothing to do with one another
    compared = [run for group in groups for run in group.runs]
    given = [row for row in inputs.bench.runs.to_dict("records") if row["run"] in compared]
    runs = {row["run"]: settings_of(row) for row in given}
    typed = _typed(given)
    rows = []
    for source, name in sorted({key for settings in runs.values() for key in settings}):
        sets = {
            side: list(dict.fromkeys(runs[run].get((source, name)) for run in runs if inputs.side[run] == side))
            for side in (BASE, CAND)
        }
        if len({*sets[BASE], *sets[CAND]}) == 1 or source == "client" and not one_tool:
            continue
        lacking = {side for side, values in sets.items() if None in values}
        if any(all(key[0] != source for key in runs[run]) for run in runs if inputs.side[run] in lacking):
            continue  # what nobody recorded is no difference
        printed = source == OPTION and typed is not None and name not in typed
        rows.append(
            {
                "setting": name,
                "source": PRINTED if printed else source,
                "base": _words(sets[BASE]),
                "cand": _words(sets[CAND]),
                "separates": len(sets[BASE]) == len(sets[CAND]) == 1,
                "unlikely": _unlikely(source, name),
            }
        )
    rows.sort(
        key=lambda row: (
            not row["separates"],
            row["unlikely"] is not None,
            row["source"] == PRINTED,
            row["source"],
            row["setting"],
        )
    )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"separates": bool})


def _unlikely(source: str, name: str) -> str | None:
    if source in ("client", "launch"):
        return unlikely(name.rpartition(".")[2], "option")
    kind = {OPTION: "option", "environment": "environment"}.get(source)
    return unlikely(name, kind) if kind else None


def single_changes(inputs: BenchInputs, groups: Sequence[LoadGroup], table: pd.DataFrame) -> list[Finding]:
    """Compared runs that differ in one setting only, where several settings differ: they tell that one from the others.

    Unlikely settings, and what the server printed accordingly, are not counted.
    """
    likely = table[~table["unlikely"].map(lambda why: isinstance(why, str)) & (table["source"] != PRINTED)]
    if len(likely) < 2:
        return []
    keys = list(zip(likely["source"], likely["setting"], strict=True))
    compared = {run for group in groups for run in group.runs}
    runs = {row["run"]: settings_of(row) for row in inputs.bench.runs.to_dict("records") if row["run"] in compared}
    pairs: dict[str, list[tuple[str, str]]] = {}
    for first, second in itertools.combinations(runs, 2):
        differ = [key for key in keys if runs[first].get(key) != runs[second].get(key)]
        if len(differ) == 1:
            pairs.setdefault(differ[0][1], []).append((first, second))
    return [
        finding("one_setting_only", setting=name, first=found[0][0], second=found[0][1])
        if len(found) == 1
        else finding("one_setting_only_many", setting=name, first=found[0][0], second=found[0][1], more=len(found) - 1)
        for name, found in pairs.items()
    ]


def _typed(rows: Sequence[dict[str, Any]]) -> set[str] | None:
    """Options that some launch was given on its command line; None where that was not recorded of all."""
    launches = [json.loads(row["launch"]) if isinstance(row.get("launch"), str) else {} for row in rows]
    if not all(isinstance(launch, dict) and "given" in launch for launch in launches):
        return None
    return {name for launch in launches for name in launch["given"]}


def _words(values: list[str | None]) -> str | None:
    told = [value for value in values if value is not None]
    return None if not told else ", ".join(told) + (", not given" if None in values else "")


def setting_findings(table: pd.DataFrame, confirmed: Sequence[str], known: bool) -> list[Finding]:
    """What the settings allow to be said of the confirmed differences.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("enforce_eager", OPTION, None, "True", True, None)]
    >>> table = pd.DataFrame(rows, columns=list(COLUMNS))
    >>> str(setting_findings(table, ["ttft.median worse"], True)[0])
    'ttft.median worse: consistent with enforce_eager (not given → True), the only setting known to separate the sides'
    """
    apart = table[table["separates"]]
    chosen = apart[apart["source"] != PRINTED]
    follows = list(apart[apart["source"] == PRINTED]["setting"]) if len(chosen) else []
    apart = chosen if len(chosen) else apart
    mixed = list(table[~table["separates"]]["setting"])
    within = [finding("within_a_side", settings=mixed)] if mixed else []
    settings = [f"{row.setting} ({_arrow(row.base)} → {_arrow(row.cand)})" for row in apart.itertuples()]
    if not confirmed:
        return [*([finding("settings_differ", settings=settings)] if settings else []), *within]
    if not settings:
        return [finding("nothing_separates" if known else "settings_unknown", metrics=confirmed), *within]
    beside = [finding("printed_accordingly", settings=follows)] if follows else []
    if len(settings) == 1:
        return [finding("consistent_with", metrics=confirmed, settings=settings), *beside, *within]
    odd = [str(row.setting) for row in apart.itertuples() if isinstance(row.unlikely, str)]
    if odd and len(odd) < len(apart):
        return [finding("confounded_unlikely", metrics=confirmed, settings=settings, unlikely=odd), *beside, *within]
    return [finding("confounded", metrics=confirmed, settings=settings), *beside, *within]


def _arrow(value: Any) -> str:
    return value if isinstance(value, str) else "not given"
