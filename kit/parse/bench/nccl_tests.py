"""nccl-tests and rccl-tests: the table that `all_reduce_perf` and its kin print (2.13 to 2.17).

A sample::

    # nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1   339.61    3.09    3.09       0   335.85    3.12    3.12       0
    # Avg bus bandwidth    : 14.9966

A row is a message size, out of place and in place; another test in the same file is another run. GB are 10⁹ bytes.
"""

from __future__ import annotations

import re
from itertools import pairwise

from kit.parse.bench.base import BenchFormat, Result, number, runs_in

ROW = re.compile(
    r"(?:^|\s)(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>[a-z]\w+)\s+(?:(?P<redop>[a-z]\w*)\s+)?(?:(?P<root>-?\d+)\s+)?"
    r"(?P<out>[\d.]+(?:e[+-]\d+)?\s+[\d.]+\s+[\d.]+\s+(?:N/A|[\d.e+-]+))"
    r"(?:\s+(?P<inplace>[\d.]+(?:e[+-]\d+)?\s+[\d.]+\s+[\d.]+\s+(?:N/A|[\d.e+-]+)))?\s*$"
)
BEGIN = re.compile(r"^.*#\s*(?:nThread\s|Collective test starting).*$", re.MULTILINE)
SETTING = re.compile(r"(nThread|nGpus|minBytes|maxBytes|warmup iters|agg iters|iters|validation|graph|step):?\s+(\S+)")
TEST = re.compile(
    r"\b((?:all_(?:reduce|gather)|reduce_scatter|broadcast|reduce|alltoall|sendrecv|gather|scatter|hypercube)_perf)\b"
)
AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([\d.]+)")
SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def looks_like(text: str) -> bool:
    """Whether a text holds the header and a row of such a table."""
    return "algbw" in text and "busbw" in text and any(map(ROW.search, text.splitlines()))


def add(result: Result, run: str, line: int, text: str) -> None:
    """Add a run for each test in the text."""
    starts = [match.start() for match in BEGIN.finditer(text)]
    starts = [0, *starts[1:]] if starts else [0]  # the command above the first belongs to it
    parts = [(text.count("\n", 0, a) + line, text[a:b]) for a, b in pairwise([*starts, len(text)])]
    commands = TEST.findall(text)
    parts = [part for part in parts if any(map(ROW.search, part[1].splitlines()))]
    for place, (name, (first, part)) in enumerate(runs_in(run, parts)):
        tests = TEST.findall(part)
        test = tests[0] if tests else commands[min(place, len(commands) - 1)] if commands else "collective"
        head = BEGIN.search(part)
        result.run(name, entry=first, benchmark=test, label=test, settings=dict(SETTING.findall(head[0])) if head else None)
        for row in filter(None, map(ROW.search, part.splitlines())):
            _size(result, name, test.removesuffix("_perf"), row)
        average = AVERAGE.search(part)
        if average:
            result.value(name, "bus_bandwidth", "mean", average[1])


def _size(result: Result, run: str, test: str, row: re.Match[str]) -> None:
    size = int(row["size"])
    unit, divisor = next(((unit, divisor) for unit, divisor in SIZES if size and size % divisor == 0), ("B", 1))
    for where, figures in (("", row["out"]), (" in place", row["inplace"])):
        if figures is None:
            continue
        time, algorithm, bus, wrong = figures.split()
        name = f"{test} {size // divisor} {unit}{where}"
        result.value(run, "collective_time", "mean", float(time) / 1e6, name=name)
        result.value(run, "algorithm_bandwidth", "mean", algorithm, name=name)
        result.value(run, "bus_bandwidth", "mean", bus, name=name)
        if number(wrong):
            result.warn(f"{run}: {name}: {wrong} wrong values: the result of the collective was not correct")


TEXT_FORMAT = BenchFormat("nccl-tests", looks_like, add)
