"""Noise of a run from recorded A/A runs: runs of one unchanged setting."""

from __future__ import annotations

from kit.analyse.bench.findings import Finding, finding
from kit.analyse.bench.inputs import BASE, CAND, Given, join, load_differences, read_side
from kit.analyse.bench.judge import noise_of
from kit.analyse.bench.metrics import BY_TOKEN, batched_runs
from kit.analyse.bench.results import Benchmarks


def noise_from(aa: Given, bench: Benchmarks, like: str, warnings: list[Finding], force: bool) -> dict[str, tuple[float, int]]:
    """Return the noise of a run from A/A runs; those under another load than the run `like` are left out and named."""
    if aa is None:
        return {}
    given = read_side(aa)
    kept = list(given.runs["run"])
    if any(run != like for run in kept) and not force:
        both = join(bench.of_runs([like]), given)
        for run in both.of(CAND):
            differ = load_differences(both.bench, both.of(BASE)[0], run)[0]
            if differ:
                name = run.removeprefix(f"{CAND}: ")
                kept.remove(name)
                warnings.append(finding("aa_other_load", run=name, differs=differ))
    values = given.values[given.values["run"].isin(kept) & given.values["value"].notna()]
    for run in batched_runs(values):
        values = values[(values["run"] != run) | ~values["metric"].isin(BY_TOKEN)]
        warnings.append(finding("aa_batched", run=run, metrics=BY_TOKEN))
    groups: dict[str, dict[str, list[float]]] = {}  # by named benchmark: one's time is no noise of another's
    for row in values.itertuples():
        name = row.name if isinstance(row.name, str) else ""
        groups.setdefault(name, {}).setdefault(f"{row.metric}.{row.stat}", []).append(float(row.value))
    noise = noise_of(list(groups.values()))
    if not noise:
        warnings.append(finding("aa_without_noise", runs=len(kept)))
    return noise
