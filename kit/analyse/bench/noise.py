"""Noise of a run from recorded A/A runs: runs of one unchanged setting."""

from __future__ import annotations

from kit.analyse.bench.inputs import BASE, CAND, Given, differences, join, read_side
from kit.analyse.bench.judge import noise_of
from kit.analyse.bench.metrics import BY_TOKEN, bundled
from kit.analyse.bench.results import Benchmarks


def noise_from(
    aa: Given, bench: Benchmarks | None, like: str | None, warnings: list[str], force: bool
) -> dict[str, tuple[float, int]]:
    """Return the noise of a run from A/A runs; those under another load than the base are left out and named."""
    if aa is None:
        return {}
    found = read_side(aa)
    kept = list(found.runs["run"])
    others = bench is not None and like is not None and any(run != like for run in kept)
    if others and not force:
        both = join(bench_of(bench, like), found)
        base = both.of(BASE)[0] if both.of(BASE) else None
        for run in both.of(CAND):
            differ = differences(both.bench, base, run)[0]
            if differ:
                name = run.removeprefix(f"{CAND}: ")
                kept.remove(name)
                warnings.append(f"A/A run {name} has another load ({'; '.join(differ)}): not used for the noise")
    values = found.values[found.values["run"].isin(kept) & found.values["value"].notna()]
    for run in bundled(values):
        values = values[(values["run"] != run) | ~values["metric"].isin(BY_TOKEN)]
        warnings.append(f"A/A run {run}: tokens came in bundles, so its {', '.join(BY_TOKEN)} are not used for the noise")
    groups: dict[str, dict[str, list[float]]] = {}  # by named benchmark: one's time is no noise of another's
    for row in values.itertuples():
        name = row.name if isinstance(row.name, str) else ""
        groups.setdefault(name, {}).setdefault(f"{row.metric}.{row.stat}", []).append(float(row.value))
    noise = noise_of(list(groups.values()))
    if not noise:
        warnings.append(f"{len(kept)} A/A runs give no noise: three or more of the same load are needed")
    return noise


def bench_of(bench: Benchmarks, run: str) -> Benchmarks:
    """Return the results of one run alone."""
    found = Benchmarks([])
    for frame in ("runs", "values", "requests"):
        rows = getattr(bench, frame)
        setattr(found, frame, rows[rows["run"] == run].reset_index(drop=True))
    return found
