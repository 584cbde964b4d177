"""`kit bench`: two sides of benchmark results on the command line."""

from __future__ import annotations

import argparse
import json
import re

from kit.errors import DONE, UsageError

_QUOTE = re.compile(r"(?P<name>[^=]+)=\s*(?P<value>[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?)\s*(?P<unit>\S*)")


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Add the arguments of `kit bench`."""
    verb.add_argument(
        "base", nargs="+", metavar="BASE", help="results of the setting to compare with, five files or more; or runs of launches"
    )
    verb.add_argument("--vs", nargs="+", metavar="CAND", help="results of the other setting, recorded in turn with the first")
    verb.add_argument(
        "--primary", nargs="+", metavar="METRIC", help="figures the question is about: ttft, e2el.p99, …; up to six"
    )
    verb.add_argument(
        "--aa", nargs="+", metavar="RUN", help="runs of one unchanged setting: their spread is the noise of single runs"
    )
    verb.add_argument("--quoted", nargs="+", metavar="METRIC=VALUE", help="numbers that somebody quotes: output_throughput=82.5")
    verb.add_argument("--force", action="store_true", help="give ratios although load or definitions differ")
    verb.add_argument("--margin", type=float, default=0.05, metavar="SHARE", help="relative change that counts as none (0.05)")
    verb.add_argument("--confidence", type=float, default=0.95, metavar="SHARE", help="of the intervals (0.95)")
    verb.add_argument("--json", action="store_true", help="one JSON object")


def main(args: argparse.Namespace) -> int:
    """Compare and print."""
    from kit.analyse.bench.compare import compare_benchmarks

    found = compare_benchmarks(
        args.base,
        args.vs,
        primary=args.primary,
        force=args.force,
        aa=args.aa,
        quoted=dict(map(quote, args.quoted)) if args.quoted else None,
        margin=args.margin,
        confidence=args.confidence,
    )
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if args.json else found)
    return DONE


def quote(text: str) -> tuple[str, float]:
    """Return metric and value of a quoted number; a unit after it is not read: it must be that of the figure.

    Examples
    --------
    >>> quote("output_throughput=82.5"), quote("ttft.median = 36.1 ms")
    (('output_throughput', 82.5), ('ttft.median', 36.1))
    """
    found = _QUOTE.fullmatch(text.strip())
    if not found:
        raise UsageError(
            f"cannot read the quoted number {text!r}", "it is not METRIC=VALUE", "write it so: --quoted output_throughput=82.5"
        )
    return found["name"].strip(), float(found["value"].replace(",", "."))
