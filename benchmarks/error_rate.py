"""Error rates of `kit bench` by simulation, and on recorded A/A runs. Prints tables.

.venv/bin/python benchmarks/error_rate.py [--pairs N] [--aa RUN ...]

The simulated server has a factor of its own in each run (standard deviation 2.4 %, as measured between equal runs of a serving
benchmark) and a draw of requests within it, whose times are log-normal. A family is four figures: throughput, median TTFT, median
gap, p99 of the latency; all share the factor of the run.

pyperf and pytest-benchmark need not be installed: their rules are computed here, and held against their code where they are.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.analyse.bench import stats  # noqa: E402
from kit.analyse.bench.inputs import LoadGroup  # noqa: E402
from kit.analyse.bench.judge import Rules, judge  # noqa: E402
from kit.analyse.bench.metrics import Metric, batched_runs  # noqa: E402
from kit.analyse.bench.where import contrast  # noqa: E402
from kit.parse.bench.base import METRICS  # noqa: E402

RUN_SD, REQUESTS, SPREAD = 0.024, 200, {"ttft": 0.2, "itl": 0.1, "e2el": 0.15}
FAMILY = (("output_throughput", "run"), ("ttft", "median"), ("itl", "median"), ("e2el", "p99"))
QUANTILES = (0.1, 0.5, 0.9, 0.95)
GROUP = LoadGroup(None, [], [])


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


def family(base: dict, cand: dict, keys=FAMILY) -> list:
    """Verdicts of one pair of sides."""
    figures = [
        Metric(
            f"{metric}.{stat}",
            GROUP,
            None,
            metric,
            stat,
            None,
            METRICS[metric][1],
            base[metric, stat],
            cand[metric, stat],
            primary=True,
        )
        for metric, stat in keys
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


def by_other_tools(base: list, cand: list) -> dict[str, bool]:
    """Whether other tools call a side slower or faster, from the times of the requests of each run.

    benchstat tests with Mann-Whitney. pyperf (`compare_to`) tests with Student's t of pooled variance at 95 %, on the times
    themselves. pytest-benchmark has no test; `--benchmark-compare-fail=mean:5%` fails where the mean grew by more than 5 %.
    """
    a, b = np.concatenate(base), np.concatenate(cand)
    return {
        "benchstat": mann_whitney_p(a, b) <= 0.05,
        "pyperf": student_p(a, b) <= 0.05,
        "pytest-benchmark": b.mean() / a.mean() > 1.05,
    }


def as_installed(base: list, cand: list) -> dict[str, bool]:
    """The same by the code of pyperf and pytest-benchmark, of those that are installed."""
    a, b = np.concatenate(base).tolist(), np.concatenate(cand).tolist()
    found = {}
    if find_spec("pyperf"):
        found["pyperf"] = bool(import_module("pyperf._utils").is_significant(a, b)[0])
    if find_spec("pytest_benchmark"):
        check = import_module("pytest_benchmark.utils").PercentageRegressionCheck("mean", 5.0)
        found["pytest-benchmark"] = bool(check.fails({"mean": statistics.fmean(b)}, {"mean": statistics.fmean(a)}))
    return found


def agreement(pairs: int = 100, seed: int = 5) -> str:
    """Say whether the rules above give what the tools' own code gives."""
    rng = np.random.default_rng(seed)
    equal: dict[str, int] = {}
    for number in range(pairs):
        base, cand = (list(side(rng, 5, change)[1]) for change in (0.0, 0.05 * (number % 2)))
        rule = by_other_tools(base, cand)
        for tool, said in as_installed(base, cand).items():
            equal[tool] = equal.get(tool, 0) + (said == rule[tool])
    known = {"pyperf": "pyperf", "pytest-benchmark": "pytest-benchmark"}
    return "; ".join(
        f"{tool} {version(package)}: its own code agrees with the rule here in {equal[tool]} of {pairs} pairs"
        if tool in equal
        else f"{tool} is not installed: by its documented rule"
        for tool, package in known.items()
    )


def told(judged: list, times: tuple[list, list], truths: list[float]) -> dict[str, float]:
    """What kit bench and other tools say of one pair of sides: 0 or 1, or a share of the figures."""
    means = [[np.median(run) for run in one] for one in times]
    ttft = next(one.metric for one in judged if one.metric.quantity == "ttft")
    alone = judge([replace(ttft)], Rules())[0]
    found = {
        "family: any of the figures": any(one.confirmed for one in judged),
        "a figure of the family": sum(one.confirmed for one in judged) / len(judged),
        "interval holds the truth": sum(
            one.interval[0] <= truth <= one.interval[1] for one, truth in zip(judged, truths, strict=True)
        )
        / len(judged),
        "equivalent": sum(one.verdict == "equivalent" for one in judged) / len(judged),
        "median TTFT alone": alone.confirmed,
        "ideal test of it (Student, logs of runs)": student_p(*map(np.log, means)) <= 0.05,
        "Mann-Whitney over runs": mann_whitney_p(*means) <= 0.05,
        **{f"{tool}, over requests": said for tool, said in by_other_tools(*times).items()},
    }
    return {name: float(share) for name, share in found.items()}  # numpy's True + True is True


def rates(runs: int, change: float, pairs: int, seed: int = 7) -> dict[str, float]:
    """Shares over simulated pairs: verdicts, intervals that hold the truth, and what other tests say of the same data."""
    rng = np.random.default_rng(seed)
    truths = [1 / (1 + change) - 1, change, change, change]
    counts: Counter = Counter()
    for _ in range(pairs):
        (base, ttft_base), (cand, ttft_cand) = side(rng, runs, 0.0), side(rng, runs, change)
        counts.update(told(family(base, cand), (list(ttft_base), list(ttft_cand)), truths))
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


class Recorded:
    """Recorded runs of one unchanged setting: figures, request times and server of each."""

    def __init__(self, paths: list[str]):
        import kit
        from kit.analyse.bench.where import samples

        bench = kit.benchmarks(paths)
        table = bench.values.pivot_table(index="run", columns=["metric", "stat"], values="value")
        self.left_out = batched_runs(bench.values)
        self.runs = [run for run in bench.runs["run"] if run not in self.left_out]
        half = self.runs[: len(self.runs) // 2]
        rest = [run for run in self.runs if run not in half]
        first = kit.compare_benchmarks(bench.of_runs(half), bench.of_runs(rest))
        self.family = [(one.metric.quantity, one.metric.stat) for one in first.judged if one.metric.primary]
        self.figures = {run: {key: float(table.loc[run, key]) for key in self.family} for run in self.runs}
        requests = dict(list(bench.requests[bench.requests["ok"].fillna(False)].groupby("run")))
        self.times = {run: samples(requests[run], "ttft", False) for run in self.runs}
        launches = dict(zip(bench.runs["run"], bench.runs["launch"], strict=True))
        self.servers = {run: launches[run] for run in self.runs}

    def told(self, base: list[str], cand: list[str]) -> dict[str, float]:
        """What is said of two groups of these runs."""
        values = [{key: [self.figures[run][key] for run in group] for key in self.family} for group in (base, cand)]
        judged = family(*values, self.family)
        return told(judged, tuple([self.times[run] for run in group] for group in (base, cand)), [0.0] * len(judged))

    def rates(self, splits: list[tuple[list[str], list[str]]]) -> dict[str, float]:
        """Shares over splits."""
        counts: Counter = Counter()
        for split in splits:
            counts.update(self.told(*split))
        return {name: count / len(splits) for name, count in counts.items()}

    def between_servers(self) -> dict[str, float]:
        """Share of the variance of each figure that lies between servers (analysis of variance, on logarithms)."""
        found = {}
        for key in self.family:
            groups: dict[str, list[float]] = {}
            for run in self.runs:
                groups.setdefault(self.servers[run], []).append(math.log(self.figures[run][key]))
            size = len(self.runs) / len(groups)  # about equal for all servers
            between = size * statistics.variance([statistics.fmean(group) for group in groups.values()])
            within = statistics.fmean([statistics.variance(group) for group in groups.values()])
            found[".".join(key)] = max(0.0, (between - within) / (between + (size - 1) * within))
        return found


def print_recorded(paths: list[str], pairs: int, seed: int = 3) -> None:
    """Print false alarms on recorded runs: of random halves, and of servers against servers."""
    found, rng = Recorded(paths), np.random.default_rng(seed)
    half = min(5, len(found.runs) // 2)
    drawn = [list(rng.permutation(found.runs)[: 2 * half]) for _ in range(pairs)]
    spread = {".".join(key): statistics.stdev([math.log(found.figures[run][key]) for run in found.runs]) for key in found.family}
    print(f"\n{len(found.runs)} recorded runs of one setting; spread between runs: {_shares(spread)}")
    if found.left_out:
        print(f"left out, as kit bench gives no ratio of them: {', '.join(found.left_out)} (tokens came in bundles)")
    rows = {f"{half} v {half}, runs drawn at random {pairs} times": found.rates([(one[:half], one[half:]) for one in drawn])}
    servers = sorted(set(found.servers.values())) if all(isinstance(one, str) for one in found.servers.values()) else []
    if len(servers) > 1:
        of = {server: [run for run in found.runs if found.servers[run] == server] for server in servers}
        print(f"of {len(servers)} servers; share of the variance that lies between servers: {_shares(found.between_servers())}")
        rows["one server v another"] = found.rates([(of[a], of[b]) for a, b in itertools.combinations(servers, 2)])
    names = list(next(iter(rows.values())))
    print("\n" + " " * 44 + "  ".join(rows))
    for name in names:
        print(f"  {name:<42}" + "  ".join(f"{row[name]:>{len(title)}.1%}" for title, row in rows.items()))
    print("  the splits share runs, so the shares are less exact than as many separate pairs would give")


def _shares(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in found.items())


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(description="Error rates of kit bench.")
    ask.add_argument("--pairs", type=int, default=1000)
    ask.add_argument("--aa", nargs="+", default=[], metavar="RUN", help="recorded benchmark results of one unchanged setting")
    args = ask.parse_args()
    error = 1.96 * math.sqrt(0.05 * 0.95 / args.pairs)
    print(f"shares of {args.pairs} simulated pairs (95 % of samples of a true 5 % lie within ± {error:.1%})")
    print(agreement())
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
        print_recorded(args.aa, args.pairs)


if __name__ == "__main__":
    main()
