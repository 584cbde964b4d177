"""llama.cpp: `llama-bench`, as its table (`-o md`), `csv`, `json` or `jsonl` (build 5163 to 7000).

A sample of the table::

    | model             |     size |  params | backend | ngl |  test |            t/s |
    | ----------------- | -------: | ------: | ------- | --: | ----: | -------------: |
    | qwen2 7B Q4_K - M | 4.36 GiB | 7.62 B  | CUDA    |  99 | pp512 | 7340.20 ± 23.45 |

A row is a test: `pp512` reads a prompt of 512 tokens, `tg128` writes 128, `pp512+tg128` both, `@ d4096` after as many. Rows
with other settings (model, layers, threads, …) are other runs. So is the table of `llama-batched-bench`, whose tests have the
size of the batch behind them.
"""

from __future__ import annotations

import io
import re
from typing import Any

from kit.parse.bench.base import BenchFormat, Result, number, numbers, stamp_ns, text_of
from kit.untrusted import csv_rows

FIGURES = ("avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts", "test_time", "n_prompt", "n_gen", "n_depth")
"""Fields of a row that are no setting: what was tested, and what came out."""
TAIL = 8
"""Columns at the end of a CSV from `n_prompt` on."""
SPEED = re.compile(r"([\d.]+)(?:\s*(?:±|\+/-)\s*([\d.]+))?")


def looks_like(doc: Any) -> bool:
    """Whether a document is a row of `-o json` or `-o jsonl`."""
    return isinstance(doc, dict) and {"n_prompt", "n_gen", "avg_ts"} <= doc.keys()


def _rows(text: str) -> list[dict[str, Any]]:
    """Rows of a CSV or of the table, under the names of the JSON."""
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines()]
    if lines and "avg_ts" in lines[0].split(","):
        head, *table = csv_rows(io.StringIO(text.lstrip("\ufeff")))
        # of a row from another version than the header's, what was tested and what came out are the last columns all the same
        return [dict(zip([*head[: len(row) - TAIL], *head[-TAIL:]], row, strict=True)) for row in table if len(row) > TAIL]
    rows, head, batched = [], [], []
    for line in filter(re.compile(r"\|").match, lines):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if {"test", "t/s"} <= set(cells):
            head = cells
        elif head and len(cells) == len(head) and (speed := SPEED.fullmatch(cells[head.index("t/s")])):
            row = dict(zip(head, cells, strict=True))
            rows.append({**row, "avg_ts": speed[1], "stddev_ts": speed[2], "t/s": None})
        elif {"PP", "TG", "B", "S_PP t/s", "S_TG t/s"} <= set(cells):
            batched = cells
        elif batched and len(cells) == len(batched) and cells[0].isdecimal():
            row = dict(zip(batched, cells, strict=True))
            tests = {
                "S_PP t/s": f"pp{row['PP']}",
                "S_TG t/s": f"tg{row['TG']} @ d{row['PP']}",
                "S t/s": f"pp{row['PP']}+tg{row['TG']}",
            }
            rows += [{"test": f"{test} b{row['B']}", "avg_ts": row[key]} for key, test in tests.items() if key in row]
    return rows


def _test(row: dict[str, Any]) -> str:
    if "test" in row:
        return str(row["test"])
    prompt, gen, depth = (int(number(row.get(key)) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
    name = "+".join([*([f"pp{prompt}"] if prompt else []), *([f"tg{gen}"] if gen else [])])
    return f"{name} @ d{depth}" if depth else name


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in (*FIGURES, "test") and value not in (None, "")}


def add(result: Result, run: str, line: int, docs: list[dict[str, Any]]) -> None:
    """Add the rows of a file: a run for each of their settings, a named benchmark a test."""
    settings: list[dict[str, Any]] = []
    for row in docs:
        if _settings(row) not in settings:
            settings.append(_settings(row))
    for place, setting in enumerate(settings, 1):
        name = f"{run}#{place}" if len(settings) > 1 else run
        odd = [f"{key} {value}" for key, value in setting.items() if any(other.get(key) != value for other in settings)]
        rows = [row for row in docs if _settings(row) == setting]
        result.run(
            name,
            entry=line,
            benchmark="llama-bench",
            label=", ".join(odd[:3]) or None,
            tool_version=text_of(setting.get("build_number")),
            model=text_of(setting.get("model_type") or setting.get("model")),
            started=min(filter(None, (stamp_ns(row.get("test_time")) for row in rows)), default=None),
            settings=setting,
        )
        for row in rows:
            _speed(result, name, _test(row), row)


def _speed(result: Result, run: str, test: str, row: dict[str, Any]) -> None:
    kinds = ("total_token_throughput",) if "+" in test else ("input_throughput",) if test.startswith("pp") else ()
    metric = (*kinds, "output_throughput")[0]
    samples = numbers(row.get("samples_ts"))
    for stat, key in (("mean", "avg_ts"), ("stddev", "stddev_ts")):
        if row.get(key) not in (None, ""):
            result.value(run, metric, stat, row[key], n=len(samples) or None, name=test)
    result.summary(run, metric, samples, name=test, only={"median", "min", "max"})
    result.repetitions(run, test, [value / 1e9 for value in numbers(row.get("samples_ns"))])


FORMATS = (BenchFormat("llama-bench", looks_like, add, rows=True),)
TEXT_FORMAT = BenchFormat(
    "llama-bench", lambda text: bool(_rows(text)), lambda result, run, line, text: add(result, run, line, _rows(text))
)
