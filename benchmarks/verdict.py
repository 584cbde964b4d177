"""Scores of the verdict on the cases of tests/data/cases, by server, and with the grammar of that server left out.

    .venv/bin/python benchmarks/verdict.py [FOLDER ...]

Weights and grammars were written with these cases at hand; the second table shows what is left where a server is not known:
process evidence, stacks, sockets and the layers that all servers share (NCCL, torchrun, Ray). Confidence is compared with
how often the verdict was right.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kit
from kit.parse import grammar

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
BINS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.01)
GRAMMAR_OF = {"llama.cpp": "llamacpp", "tensorrt-llm": "trtllm", "trt-llm": "trtllm"}


@contextmanager
def without(server: str) -> Iterator[None]:
    """Leave a server's grammar out."""
    load = grammar.load
    kept = grammar.Grammars([entry for entry in load().all if entry.name != GRAMMAR_OF.get(server, server)])
    grammar.load = lambda *args, **kwargs: kept
    try:
        yield
    finally:
        grammar.load = load


def judge(case: Path) -> tuple[dict, kit.Verdict]:
    """The expected reading of a case and the verdict on its files."""
    want = json.loads(case.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        evidence = shutil.copytree(case.parent, Path(folder) / "evidence", ignore=shutil.ignore_patterns("case.json"))
        return want, kit.verdict(evidence, want.get("captured_at"))


def score(cases: list[Path]) -> list[int]:
    """Numbers of cases, of right classes, right phases, and of classes named as wrong."""
    totals = [0, 0, 0, 0]
    for case in cases:
        want, found = judge(case)
        totals[0] += 1
        totals[1] += found.klass in {want["expected_class"], *want.get("acceptable_classes", [])}
        totals[2] += found.phase in {want["expected_phase"], *want.get("acceptable_phases", [])}
        totals[3] += found.klass in want.get("wrong_classes", [])
    return totals


def main() -> None:
    """Print both tables and the calibration."""
    folders = [Path(name) for name in sys.argv[1:]] or sorted((DATA / "cases").iterdir())
    by_server: dict[str, list[Path]] = defaultdict(list)
    for case in sorted(path for folder in folders for path in folder.glob("*/case.json")):
        by_server[json.loads(case.read_text(encoding="utf-8"))["system"].lower()].append(case)
    columns = f"{'class':>5} {'phase':>5} {'wrong':>5}"
    print(f"{'server':14} {'cases':>5} | {columns} | without its grammar: {columns}")
    for server, cases in sorted(by_server.items(), key=lambda pair: -len(pair[1])):
        known = score(cases)
        with without(server):
            unknown = score(cases)
        with_grammar, left_out = (" ".join(f"{count:5}" for count in totals[1:]) for totals in (known, unknown))
        print(f"{server:14} {known[0]:5} | {with_grammar} | {'':20} {left_out}")
    calibration([case for cases in by_server.values() for case in cases])


def calibration(cases: list[Path]) -> None:
    """Print how often the verdict is exactly right, by its confidence."""
    rows = [(found.confidence, found.klass == want["expected_class"]) for want, found in map(judge, cases)]
    print("\nconfidence     cases  mean   exactly right")
    for low, high in zip(BINS, BINS[1:], strict=False):
        inside = [row for row in rows if low <= row[0] < high]
        if inside:
            mean = sum(share for share, _ in inside) / len(inside)
            right = sum(right for _, right in inside) / len(inside)
            print(f"{low:.2f} to {min(high, 1):.2f}  {len(inside):5}  {mean:.2f}  {right:.2f}")


if __name__ == "__main__":
    main()
