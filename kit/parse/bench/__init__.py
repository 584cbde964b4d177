"""Readers of benchmark results, one module a family. The family is told by content, never by the file's name.

`read(path, file)` is the way in. JSON is read as the tools write it: one document, one a line (`--append-result`,
SGLang), several in a row; `Infinity` and `NaN` are taken. Of a file that was cut, whole documents are kept.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import re
import shlex
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from kit.errors import EvidenceError
from kit.parse.bench import declared
from kit.parse.bench.base import DEFINITIONS, METRICS, BenchFormat, Result, runs_in
from kit.parse.text import encoding_of
from kit.untrusted import WRONG_FORM, check_depth, short_digits, whole_pairs

MODULES = tuple(
    """
    guidellm aiperf sglang vllm llama_bench llmperf declared hyperfine pyperf google_benchmark pytest_benchmark
    """.split()
)
TEXT_MODULES = ("gobench", "nccl_tests", "llama_bench", "aiperf", "table")
KNOWN = (
    "vllm bench, sglang bench_serving and bench_one_batch, trtllm-bench, llama-bench, AIPerf, genai-perf, GuideLLM, LLMPerf, "
    "MLPerf loadgen, k6, wrk, Locust, nccl-tests, hyperfine, pytest-benchmark, pyperf, Google Benchmark, go test -bench, or a "
    "CSV with named columns"
)
MOST_BYTES = 256 << 20
"""Largest result that is read, unpacked: one of a million requests with all their gaps has 100 MB."""
BLOCK_BYTES = 1 << 20
"""No tool prints a line as long."""
BETWEEN = frozenset(" \t\r\n,[]\ufeff\x1e\0")
"""What may stand between JSON documents."""
JSON_BEGINS = re.compile(r"[\ufeff\s\0]*(?:\{|\[\s*[\[{\"\]])")
"""A log may begin with a stamp in brackets."""
LAUNCH_KEYS = {"argv", "env", "versions"}


@cache
def formats() -> tuple[BenchFormat, ...]:
    """All families of JSON results, in the order in which they are asked."""
    return tuple(entry for name in MODULES for entry in importlib.import_module(f"kit.parse.bench.{name}").FORMATS)


@cache
def text_formats() -> tuple[BenchFormat, ...]:
    """All families of text results, but those that are declared."""
    return tuple(importlib.import_module(f"kit.parse.bench.{name}").TEXT_FORMAT for name in TEXT_MODULES)


def text_from(file: io.BufferedReader) -> str:
    """Return the text of a file, gzipped or not. What is no JSON goes without stretches of `BLOCK_BYTES` in which no line ends.

    Examples
    --------
    >>> text_from(io.BufferedReader(io.BytesIO(gzip.compress(b"{}"))))
    '{}'
    """
    if file.peek(2)[:2] == b"\x1f\x8b":
        file = io.BufferedReader(gzip.GzipFile(fileobj=file))
    blocks: list[bytes] = []
    encoding, lines, size = "utf-8", False, 0
    while size <= MOST_BYTES and (block := file.read(BLOCK_BYTES)):
        if not blocks:
            encoding = encoding_of(block[:65536])
            lines = not JSON_BEGINS.match(block[:65536].decode(encoding, "replace"))
        if not lines or b"\n" in block or not blocks:
            blocks.append(block)
        size += len(block)
    if size > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB, as no result of a benchmark is")
    data = b"".join(blocks)
    del blocks
    return short_digits(data.decode(encoding, errors="replace"))[0]


def documents(text: str) -> tuple[list[tuple[int, Any]], list[str]]:
    """Return the JSON documents of a text with their lines, and what is wrong with the rest.

    Examples
    --------
    >>> documents('{"a": Infinity}\\n{"a": 2}\\n{"a": ')
    ([(1, {'a': inf}), (2, {'a': 2})], ['line 3 is cut or not JSON; it was left out'])
    """
    decoder, found, wrong, at, line = json.JSONDecoder(), [], [], 0, 1
    text = whole_pairs(text)
    while True:
        start = at
        while at < len(text) and text[at] in BETWEEN:  # brackets too: the entries of a list are documents, each on its line
            at += 1
        line += text.count("\n", start, at)
        if at >= len(text):
            return found, wrong
        try:
            doc, end = decoder.raw_decode(text, at)
            check_depth(text[at:end])
            found.append((line, doc))
        except (ValueError, RecursionError):
            wrong.append(f"line {line} is cut or not JSON; it was left out")
            end = text.find("\n{", at)
            end = len(text) if end < 0 else end
        line += text.count("\n", at, end)
        at = end


def read(path: Path, file: str) -> Result | dict:
    """Read one file.

    `file`: name for the column `file` and in messages. Returns its rows; a dict where the file tells how a server was launched
    (`argv`, `env`, `versions`). Raises EvidenceError where the file is missing, empty, cut in its only document, or of no known
    family.
    """
    try:
        with open(path, "rb") as given:
            text = text_from(given)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise EvidenceError(f"cannot read {file}", why, f"look at it: ls -l {shlex.quote(str(path))}") from error
    if not text.strip("\ufeff\0 \t\r\n"):
        raise EvidenceError(
            f"{file} is empty",
            "the benchmark wrote nothing, or the copy failed",
            "run the benchmark again with its option to save the result, or copy the file again",
        )
    return parse_text(text, file)


def parse_text(text: str, file: str) -> Result | dict:
    """Return the rows of the text of a file; as `read`."""
    go = text_formats()[0]  # go test -json is JSON lines too
    if not JSON_BEGINS.match(text) or go.looks_like(text):
        return _printed(text, file)
    found, wrong = documents(text)
    if not found:
        raise EvidenceError(
            f"{file} is cut or not JSON",
            "it begins as JSON and does not end as such: the benchmark was stopped while it wrote, or the copy broke off",
            "copy the file again, or run the benchmark again",
        )
    first = found[0][1]
    if len(found) == 1 and isinstance(first, dict) and len(LAUNCH_KEYS & first.keys()) >= 2 and "argv" in first:
        return first
    return _recognised(found, wrong, file)


def _printed(text: str, file: str) -> Result:
    """The results in a text that is not JSON."""
    readers = {entry.tool: entry for entry in reversed(formats())}
    results = declared.parse_text(text, file, readers)
    if not results:
        result = declared.parse_csv(text, file)
        entry = next((entry for entry in text_formats() if _is_of(entry, text)), None) if result is None else None
        results = [found for found in (result, entry and _guarded(entry, [(file, 1, text)], file)) if found]
    if not results:
        raise EvidenceError(
            f"{file} is not a benchmark result",
            "it is neither JSON, nor what a known tool prints, nor a table with measures in named columns",
            f"give a result file of {KNOWN}",
        )
    return _joined(results, file)


def _joined(results: list[Result], file: str) -> Result:
    """Results of one file as one; runs of several tools bear the name of their tool where they would share one."""
    for result in results[1:]:
        taken = {row["run"] for row in results[0].runs}
        for row in [*result.runs, *result.values, *result.requests]:
            row["run"] = f"{row['run']} ({result.tool})" if row["run"] in taken else row["run"]
        results[0].extend(result)
    tools = list(dict.fromkeys(row["tool"] for row in results[0].runs))
    if len(tools) > 1:
        results[0].warn(f"{file}: results of several tools in one file: {', '.join(tools)}")
    return results[0]


def _is_of(entry: BenchFormat, content: Any) -> bool:
    """Whether a document or text is of a family; one that its reader cannot even look at is not."""
    try:
        return entry.looks_like(content)
    except WRONG_FORM:
        return False


def _guarded(entry: BenchFormat, docs: list[tuple[str, int, Any]], file: str) -> Result:
    """Parse; a field of a type that the tool never writes is an error of the file, not of the kit."""
    try:
        return entry.parse(docs, file)
    except WRONG_FORM as error:
        raise EvidenceError(
            f"{file} looks like a result of {entry.tool}, but could not be read",
            f"a field has another form than the tool writes ({type(error).__name__}: {error})",
            "compare the file with one that the tool wrote; if the tool wrote it, report it with the file",
        ) from error


def _recognised(found: list[tuple[int, Any]], wrong: list[str], file: str) -> Result:
    known, unknown = [], []
    for line, doc in found:
        entry = next((entry for entry in formats() if _is_of(entry, doc)), None)
        if entry is None:
            unknown.append(line)
        else:
            known.append((line, (entry, doc)))
    if not known:
        raise EvidenceError(
            f"{file} is not a benchmark result",
            "it is JSON, but of no known benchmark tool" + (" (and cut)" if wrong else ""),
            f"give a result file of {KNOWN}",
        )
    by_format: dict[BenchFormat, list[tuple[str, int, Any]]] = {}
    for run, (line, (entry, doc)) in runs_in(file, known):
        by_format.setdefault(entry, []).append((file if entry.rows else run, line, doc))
    result = _joined([_guarded(entry, docs, file) for entry, docs in by_format.items()], file)
    for line in unknown:
        result.warn(f"{file}: line {line} is JSON, but not a benchmark result")
    for text in wrong:
        result.warn(f"{file}: {text}")
    return result


__all__ = ["DEFINITIONS", "KNOWN", "METRICS", "BenchFormat", "Result", "documents", "formats", "parse_text", "read", "text_from"]
