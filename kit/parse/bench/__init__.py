"""Readers of benchmark results, one module a family. The family is told by content, never by the file's name.

`read(path, file)` is the way in. JSON is read as the tools write it: one document, one a line (`--append-result`,
SGLang), several in a row; `Infinity` and `NaN` are taken. Of a file that was cut, whole documents are kept.
"""

from __future__ import annotations

import gzip
import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from kit.errors import EvidenceError
from kit.parse.bench.base import DEFINITIONS, METRICS, BenchFormat, Result
from kit.parse.text import encoding_of

MODULES = ("guidellm", "aiperf", "sglang", "vllm", "hyperfine", "pyperf", "google_benchmark", "pytest_benchmark")
TEXT_MODULES = ("gobench", "table")
KNOWN = (
    "vllm bench, sglang bench_serving and bench_one_batch, AIPerf, genai-perf, GuideLLM, hyperfine, pytest-benchmark, pyperf, "
    "Google Benchmark, go test -bench, or a CSV with named columns"
)
LAUNCH_KEYS = {"argv", "env", "versions"}


@cache
def formats() -> tuple[BenchFormat, ...]:
    """All families of JSON results, in the order in which they are asked."""
    return tuple(importlib.import_module(f"kit.parse.bench.{name}").FORMAT for name in MODULES)


@cache
def text_formats() -> tuple[BenchFormat, ...]:
    """All families of text results."""
    return tuple(importlib.import_module(f"kit.parse.bench.{name}").FORMAT for name in TEXT_MODULES)


def text_from(data: bytes) -> str:
    """Return the text of a file, gzipped or not.

    Examples
    --------
    >>> text_from(gzip.compress(b"{}"))
    '{}'
    """
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode(encoding_of(data[:65536]), errors="replace")


def documents(text: str) -> tuple[list[tuple[int, Any]], list[str]]:
    """Return the JSON documents of a text with their lines, and what is wrong with the rest.

    Examples
    --------
    >>> documents('{"a": Infinity}\\n{"a": 2}\\n{"a": ')
    ([(1, {'a': inf}), (2, {'a': 2})], ['line 3 is cut or is no JSON; it was left out'])
    """
    decoder, found, wrong, at, line = json.JSONDecoder(), [], [], 0, 1
    while True:
        start = at
        while at < len(text) and text[at] in " \t\r\n,\ufeff\x1e\0":
            at += 1
        line += text.count("\n", start, at)
        if at >= len(text):
            return found, wrong
        try:
            doc, end = decoder.raw_decode(text, at)
            found += (
                [(line, item) for item in doc]
                if isinstance(doc, list) and doc and all(isinstance(i, dict) for i in doc)
                else [(line, doc)]
            )
        except (ValueError, RecursionError):
            wrong.append(f"line {line} is cut or is no JSON; it was left out")
            end = text.find("\n{", at)
            end = len(text) if end < 0 else end
        line += text.count("\n", at, end)
        at = end


def read(path: Path, file: str) -> Result | dict:
    """Read one file.

    Parameters
    ----------
    path : Path
        The file.
    file : str
        Name for the column `file` and in messages.

    Returns
    -------
    Result or dict
        Its rows; a dict where the file tells how a server was launched (`argv`, `env`, `versions`).

    Raises
    ------
    EvidenceError
        Where the file is missing, empty, cut in its only document, or of no known family.
    """
    try:
        text = text_from(path.read_bytes())
    except (OSError, EOFError) as error:
        raise EvidenceError(f"{file} cannot be read", str(error), f"check it with: ls -l '{path}'") from error
    if not text.strip("\ufeff\0 \t\r\n"):
        raise EvidenceError(
            f"{file} is empty",
            "the benchmark wrote nothing, or the copy failed",
            "run the benchmark again with its option to save the result, or copy the file again",
        )
    return parse_text(text, file)


def parse_text(text: str, file: str) -> Result | dict:
    """Return the rows of the text of a file; as `read`."""
    for entry in text_formats()[:1]:  # go test -json is JSON lines too
        if entry.looks_like(text):
            return entry.parse([(1, text)], file)
    json_like = text.lstrip("\ufeff \t\r\n\0")[:1] in ("{", "[")
    found, wrong = documents(text) if json_like else ([], [])
    if json_like and not found:
        raise EvidenceError(
            f"{file} is cut or is no JSON",
            "it begins as JSON and does not end as such: the benchmark was stopped while it wrote, or the copy broke off",
            "copy the file again, or run the benchmark again",
        )
    if not json_like:
        for entry in text_formats():
            if entry.looks_like(text):
                return entry.parse([(1, text)], file)
        raise EvidenceError(
            f"{file} is no benchmark result",
            "it is neither JSON nor a table with measures in named columns",
            f"give a result file of {KNOWN}",
        )
    if len(found) == 1 and isinstance(found[0][1], dict) and len(LAUNCH_KEYS & found[0][1].keys()) >= 2 and "argv" in found[0][1]:
        return found[0][1]
    return _recognised(found, wrong, file)


def _guarded(entry: BenchFormat, docs: list[tuple[int, Any]], file: str) -> Result:
    """Parse; a field of a type that the tool never writes is an error of the file, not of the kit."""
    try:
        return entry.parse(docs, file)
    except (TypeError, AttributeError, KeyError, ValueError, IndexError) as error:
        raise EvidenceError(
            f"{file} looks like a result of {entry.tool}, but could not be read",
            f"a field has another form than the tool writes ({type(error).__name__}: {error})",
            "compare the file with one that the tool wrote; if the tool wrote it, report it with the file",
        ) from error


def _recognised(found: list[tuple[int, Any]], wrong: list[str], file: str) -> Result:
    by_format: dict[str, list[tuple[int, Any]]] = {}
    entries = {entry.tool: entry for entry in formats()}
    unknown = []
    for line, doc in found:
        tool = next((entry.tool for entry in formats() if entry.looks_like(doc)), None)
        if tool is None:
            unknown.append(line)
        else:
            by_format.setdefault(tool, []).append((line, doc))
    if not by_format:
        raise EvidenceError(
            f"{file} is no benchmark result",
            "it is JSON, but of no known benchmark tool" + (" (and cut)" if wrong else ""),
            f"give a result file of {KNOWN}",
        )
    mixed = len(by_format) > 1
    results = [
        _guarded(entries[tool], part, f"{file}:{part[0][0]}" if mixed else file)
        for tool, docs in by_format.items()
        for part in ([[doc] for doc in docs] if mixed else [docs])
    ]
    result = results[0]
    for other in results[1:]:
        result.runs += other.runs
        result.values += other.values
        result.requests += other.requests
        result.warnings += other.warnings
    result.file = file
    for row in [*result.runs, *result.values, *result.requests] if mixed else ():
        row["file"] = file
    if mixed:
        result.warn(f"{file}: results of several tools in one file: {', '.join(by_format)}")
    for line in unknown:
        result.warn(f"{file}: line {line} is JSON, but no benchmark result")
    for text in wrong:
        result.warn(f"{file}: {text}")
    return result


__all__ = ["DEFINITIONS", "KNOWN", "METRICS", "BenchFormat", "Result", "documents", "formats", "parse_text", "read", "text_from"]
