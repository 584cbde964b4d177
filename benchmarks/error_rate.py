"""Error rates of `kit bench` by simulation, and on recorded A/A runs. Prints tables.

.venv/bin/python benchmarks/error_rate.py [--pairs N] [--aa RUN ...]

The simulated server has a factor of its own in each run (standard deviation 2.4 %, as measured between equal runs of a serving
benchmark) and a draw of requests within it, whose times are log-normal. A family is four figures: throughput, median TTFT, median
gap, p99 of the latency; all share the factor of the run.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.analyse import bench_stats as stats  # noqa: E402
from kit.analyse.bench_figures import Figure  # noqa: E402
from kit.analyse.bench_judge import Rules, judge  # noqa: E402
from kit.analyse.bench_sides import Cell  # noqa: E402
from kit.analyse.bench_where import contrast  # noqa: E402

RUN_SD, REQUESTS, SPREAD = 0.024, 200, {"ttft": 0.2, "itl": 0.1, "e2el": 0.15}
FAMILY = (("output_throughput", "run"), ("ttft", "median"), ("itl", "median"), ("e2el", "p99"))
QUANTILES = (0.1, 0.5, 0.9, 0.95)
CELL = Cell(None, [], [])


def side(rng: np.random.Generator, runs: int, change: float) -> tuple[dict, np.ndarray]:
    """Figures of a side by (metric, stat), and the TTFT of its requests, shape (runs, REQUESTS)."""
    slow = rng.normal(math.log1p(change), RUN_SD, size=(runs, 1))
    drawn = {metric: np.exp(slow + rng.normal(0, spread, size=(runs, REQUESTS))) for metric, spread in SPREAD.items()}
    found = {
        ("output_throughput", "run"): 1 / drawn["e2el"].mean(axis=1),
        ("ttft", "median"): np.median(drawn["ttft"], axis=1),
        ("itl", "median"): np.median(drawn["itl"], axis=1),
        ("e2el", "p99"): np.quantile(drawn["e2el"], 0.99, axis=1),
    }
    return {key: values.tolist() for key, values in found.items()}, drawn["ttft"]


def family(base: dict, cand: dict) -> list:
    """Verdicts of one pair of sides."""
    figures = [
        Figure(
            f"{metric}.{stat}",
            CELL,
            None,
            metric,
            stat,
            None,
            "higher_is_better" if stat == "run" else "lower_is_better",
            base[metric, stat],
            cand[metric, stat],
            primary=True,
        )
        for metric, stat in FAMILY
    ]
    return judge(figures, Rules())


def student_p(a, b) -> float:
    """p-value of Student's test with pooled variance: the ideal one where the noise is normal and equal."""
    a, b = np.asarray(a), np.asarray(b)
    freedom = len(a) + len(b) - 2
    pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom
    return 2 * stats.t_cdf(-abs(b.mean() - a.mean()) / math.sqrt(pooled * (1 / len(a) + 1 / len(b))), freedom)


def mann_whitney_p(a, b) -> float:
    """p-value of the Mann-Whitney test, normal approximation, no ties."""
    n, m = len(a), len(b)
    ranks = np.concatenate([a, b]).argsort().argsort()[:n] + 1
    z = (ranks.sum() - n * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return 2 * statistics.NormalDist().cdf(-abs(z))


def rates(runs: int, change: float, pairs: int, seed: int = 7) -> dict[str, float]:
    """Shares over simulated pairs: verdicts, intervals that hold the truth, and what other tests say of the same data."""
    rng = np.random.default_rng(seed)
    counts: dict[str, float] = dict.fromkeys(
        (
            "family",
            "metric",
            "covered",
            "ttft alone",
            "ideal alone",
            "equivalent",
            "Mann-Whitney over requests",
            "Student over requests",
            "Mann-Whitney over runs",
        ),
        0.0,
    )
    for _ in range(pairs):
        (base, ttft_base), (cand, ttft_cand) = side(rng, runs, 0.0), side(rng, runs, change)
        judged = family(base, cand)
        counts["family"] += any(one.confirmed for one in judged)
        counts["metric"] += sum(one.confirmed for one in judged) / len(judged)
        counts["equivalent"] += sum(one.verdict == "equivalent" for one in judged) / len(judged)
        truths = [1 / (1 + change) - 1, change, change, change]
        counts["covered"] += (
            sum(one.interval[0] <= truth <= one.interval[1] for one, truth in zip(judged, truths, strict=True)) / 4
        )
        alone = judge([Figure(**{**vars(judged[1].figure)})], Rules())[0]
        counts["ttft alone"] += alone.confirmed
        logs = [np.log(figures["ttft", "median"]) for figures in (base, cand)]
        counts["ideal alone"] += student_p(*logs) <= 0.05
        counts["Mann-Whitney over requests"] += mann_whitney_p(ttft_base.ravel(), ttft_cand.ravel()) <= 0.05
        counts["Student over requests"] += student_p(np.log(ttft_base).ravel(), np.log(ttft_cand).ravel()) <= 0.05
        counts["Mann-Whitney over runs"] += mann_whitney_p(*logs) <= 0.05
    return {name: count / pairs for name, count in counts.items()}


def band_coverage(runs: int, pairs: int, seed: int = 11) -> dict[str, float]:
    """How often the band of the shift function holds the truth: by Student's t over runs, and by a bootstrap over runs."""
    rng = np.random.default_rng(seed)
    found = {"t over runs": 0, "bootstrap over runs": 0}
    for _ in range(pairs):
        points = [np.quantile(side(rng, runs, 0.0)[1], QUANTILES, axis=1).T for _ in range(2)]
        for at in range(len(QUANTILES)):
            band = contrast(points[0][:, at].tolist(), points[1][:, at].tolist(), 0.95)
            found["t over runs"] += band["low"] <= 0 <= band["high"]
        drawn = [np.log(one)[rng.integers(0, runs, size=(400, runs))].mean(axis=1) for one in points]
        low, high = np.quantile(drawn[1] - drawn[0], (0.025, 0.975), axis=0)
        found["bootstrap over runs"] += int(((low <= 0) & (high >= 0)).sum())
    return {name: count / pairs / len(QUANTILES) for name, count in found.items()}


def recorded(paths: list[str]) -> dict[str, float]:
    """Share of false alarms over all splits of recorded runs of one setting into two halves."""
    import kit
    from kit.analyse.bench_noise import bench_of
    from kit.analyse.benchmarks import Benchmarks

    bench = kit.benchmarks(paths)
    runs = list(bench.runs["run"])
    half = len(runs) // 2
    single = {run: bench_of(bench, run) for run in runs}

    def together(chosen) -> Benchmarks:
        import pandas as pd

        found = Benchmarks([])
        for frame in ("runs", "values", "requests"):
            setattr(found, frame, pd.concat([getattr(single[run], frame) for run in chosen], ignore_index=True))
        return found

    hits = {"family": 0, "metric": 0.0, "exploratory": 0.0}
    splits = [chosen for chosen in itertools.combinations(runs, half) if len(runs) % 2 or runs[0] in chosen]
    for chosen in splits:
        found = kit.compare_benchmarks(together(chosen), together([run for run in runs if run not in chosen]))
        primary = [one.confirmed for one in found.judged if one.figure.primary]
        others = [one.confirmed for one in found.judged if not one.figure.primary]
        hits["family"] += any(primary)
        hits["metric"] += sum(primary) / max(len(primary), 1)
        hits["exploratory"] += sum(others) / max(len(others), 1)
    print(f"{len(runs)} recorded runs of one setting, {len(splits)} splits of {half} v {len(runs) - half} (they overlap)")
    return {name: count / len(splits) for name, count in hits.items()}


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(description="Error rates of kit bench.")
    ask.add_argument("--pairs", type=int, default=1000)
    ask.add_argument("--aa", nargs="+", default=[], metavar="RUN", help="recorded benchmark results of one unchanged setting")
    args = ask.parse_args()
    error = 1.96 * math.sqrt(0.05 * 0.95 / args.pairs)
    print(f"shares of {args.pairs} simulated pairs (95 % of samples of a true 5 % lie within ± {error:.1%})")
    columns: list[str] = []
    for runs, change in ((3, 0.0), (5, 0.0), (8, 0.0), (5, 0.05), (8, 0.05), (10, 0.05)):
        found = rates(runs, change, args.pairs)
        if not columns:
            columns = list(found)
            print("\n" + "\n".join(f"  {chr(97 + i)}  {name}" for i, name in enumerate(columns)))
            print(f"\n{'runs':>8} {'change':>7} " + " ".join(f"{chr(97 + i):>6}" for i in range(len(columns))))
        print(f"{f'{runs} v {runs}':>8} {change:>+7.0%} " + " ".join(f"{found[name]:>6.1%}" for name in columns))
    print("\nband of the shift function, coverage at p10, p50, p90, p95")
    for runs in (3, 5, 8):
        print(
            f"{f'{runs} v {runs}':>8}  "
            + "   ".join(f"{name} {share:.1%}" for name, share in band_coverage(runs, args.pairs // 2).items())
        )
    if args.aa:
        print("\n" + "   ".join(f"{name} {share:.1%}" for name, share in recorded(args.aa).items()))


if __name__ == "__main__":
    main()
