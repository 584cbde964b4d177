"""Fuzz the readers, the intake, the run opener and the verdict with damaged evidence: `python tools/fuzz.py --minutes N`.

Seeds are the texts under data/ and tests/data; each input is one that was cut, doubled, spliced with another format, or given
huge numbers and odd characters. There are four ways in, by turns: one reader after the other is given a text of its own kind
(`reader`); texts lie in a folder (`folder`); they are packed, encoded, wrapped or coloured first (`intake`); a run folder has
one of its files damaged, `run.json` as text and by its keys (`run`). Each input is opened in a process of its own, which ends
after `LONGEST_S` of CPU. It prints inputs tried, what failed (anything but an error of the kit's own, a reader that gave up, a
process that died, memory beyond `MOST_MIB`), the slowest, and the peak of memory; inputs that failed or took more than `SLOW_S`
are kept in the folder of `--keep`.
"""

from __future__ import annotations

import argparse
import faulthandler
import gzip
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kit
from kit import parse, store
from kit.errors import KitError
from kit.frames import FRAMES
from kit.parse.base import Report, Source
from kit.reading import FAILED

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 60_000
LONGEST_S, SLOW_S, MOST_MIB = 30, 5, 200
ODD = (
    b"9" * 5000, b"\xc2\xb2", b"-1", b"1e999", b"NaN", b"[" * 3000, b"\\ud800", b"\xff\xfe", b"\0", b"\x1b[2J", b"\xe2\x80\xae",
    b"99999999999999999999",
    b"0" * 40, b" " * 3000, b"\r", b"\n" * 50, b"71% Completed |", b"9999-12-31 23:59:59", b'"', b"{", b"%",
)  # fmt: skip
WRONG = (
    None,
    True,
    -1,
    10**30,
    1e308,
    float("nan"),
    "",
    "x" * 5000,
    "../..",
    "/etc/passwd",
    "\ud800",
    "a\0b",
    [],
    {},
    [[]],
    {"a": 1},
)
"""What a key of `run.json` may have for a value."""
Files = dict[str, bytes]


def seeds() -> list[tuple[str, bytes]]:
    """Names and beginnings of the cases of our own."""
    files = sorted(path for folder in ("data", "tests/data") for path in (ROOT / folder).rglob("*") if path.is_file())
    return [(path.name, path.read_bytes()[:MOST_BYTES]) for path in files if path.suffix not in (".md", ".py", ".parquet")]


def runs() -> list[Files]:
    """Run folders of our own: the beginnings of their files."""
    folders = sorted(path.parent for folder in ("data", "tests/data") for path in (ROOT / folder).rglob("run.json"))
    return [
        {str(path.relative_to(one)): path.read_bytes()[:MOST_BYTES] for path in sorted(one.rglob("*")) if path.is_file()}
        for one in folders
    ]


def damaged(chance: random.Random, data: bytes, given: list[tuple[str, bytes]]) -> bytes:
    """A text after some changes."""
    for _ in range(chance.randint(1, 6)):
        at, size = chance.randrange(len(data) + 1), chance.choice((1, 8, 200, 5000))
        change = chance.randrange(6)
        if change == 0:
            data = data[:at] + chance.choice(ODD) + data[at:]
        elif change == 1:
            data = data[:at]
        elif change == 2:
            data = data[:at] + data[at + size :]
        elif change == 3:
            data = data[:at] + data[at : at + size] * chance.choice((2, 20)) + data[at:]
        elif change == 4:
            lines = chance.choice(given)[1].splitlines(True)
            data = data[:at] + b"".join(chance.sample(lines, min(len(lines), 5))) + data[at:]
        else:
            data = data[:at] + bytes(chance.randrange(256) for _ in range(min(size, 8))) + data[at + size :]
    return data[: 4 * MOST_BYTES]


def _zip(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as one:
        one.writestr(name, data)
    return file.getvalue()


def _tar(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as one:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        one.addfile(member, io.BytesIO(data))
    return file.getvalue()


def _by_line(form: Callable[[str], str]) -> Callable[[str, bytes], bytes]:
    return lambda name, data: "".join(form(line) for line in data.decode("utf-8", "replace").splitlines(True)).encode()


def _notebook(name: str, data: bytes) -> bytes:
    said = {"output_type": "stream", "name": "stdout", "text": data.decode("utf-8", "replace").splitlines(True)}
    cell = {"cell_type": "code", "source": "x", "metadata": {}, "execution_count": 1, "outputs": [said]}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}).encode()


PACKINGS: dict[str, Callable[[str, bytes], bytes]] = {
    ".zip": _zip,
    ".tar.gz": _tar,
    ".gz": lambda name, data: gzip.compress(data),
    ".txt": lambda name, data: data.decode("utf-8", "replace").encode("utf-16"),
    ".json": _by_line(lambda line: json.dumps({"log": line, "stream": "stderr", "time": "2026-02-18T00:28:26Z"}) + "\n"),
    ".md": lambda name, data: b"It hangs.\n\n```\n$ cat " + name.encode() + b"\n" + data + b"\n```\n\nWhat now?\n",
    ".log": _by_line(lambda line: f"\x1b[36m(EngineCore pid=7)\x1b[0m {line}"),
    ".out": _by_line(lambda line: f"2026-02-18T00:28:26.123456789Z stderr F {line}"),
    ".html": lambda name, data: b"<html><pre>" + data.replace(b"&", b"&amp;").replace(b"<", b"&lt;") + b"</pre></html>",
    ".eml": lambda name, data: b"From: a@b\nSubject: hang\nContent-Type: text/plain\n\n> " + data.replace(b"\n", b"\n> "),
    ".ipynb": _notebook,
}


def _wrong_key(chance: random.Random, value: Any) -> Any:
    """A manifest with another value at one of its places."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        return value | {key: _wrong_key(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], _wrong_key(chance, value[at]), *value[at + 1 :]]
    return chance.choice(WRONG)


class Inputs:
    """Makes inputs from a seed."""

    def __init__(self, seed: int):
        self.chance, self.seeds, self.runs = random.Random(seed), seeds(), runs()
        self.of_kind = defaultdict(list)
        for name, data in self.seeds:
            head = data.decode("utf-8", "replace").replace("\0", "")
            for kind in {*parse.recognise(name, head)} - {None}:
                self.of_kind[kind].append((name, data))
        self.kinds = itertools.cycle(sorted(parse.formats()))
        self.turns = itertools.cycle(("reader", "folder", "intake", "run"))

    def next(self) -> tuple[str, Files]:
        """How an input is read, and its files."""
        way = next(self.turns)
        if way == "reader":
            kind = next(self.kinds)
            name, data = self.chance.choice(self.of_kind[kind] or self.seeds)
            return kind, {name: damaged(self.chance, data, self.seeds)}
        if way == "run":
            return way, self._run()
        found: Files = {}
        for _ in range(self.chance.choice((1, 1, 2))):
            name, data = self.chance.choice(self.seeds)
            data = damaged(self.chance, data, self.seeds)
            if way == "intake":
                for ending in self.chance.choices(list(PACKINGS), k=self.chance.choice((1, 1, 2))):
                    name, data = name + ending, PACKINGS[ending](name, data)
                if self.chance.random() < 0.5:
                    data = damaged(self.chance, data, self.seeds)
            found[name] = data
        return way, found

    def _run(self) -> Files:
        """A run folder that was changed in one of its files, or in a value of its manifest."""
        files = dict(self.chance.choice(self.runs))
        if self.chance.random() < 0.5:
            files["run.json"] = json.dumps(_wrong_key(self.chance, json.loads(files["run.json"]))).encode()
        else:
            name = self.chance.choice(list(files))
            files[name] = damaged(self.chance, files[name], self.seeds)
        return files


def attempt(way: str, folder: Path) -> None:
    """Open a folder; AssertionError where a reader gave up."""
    for name in _rows(way, folder):
        FRAMES[name]
    if way in parse.formats():
        return
    if way == "run":
        store.CACHE_FROM_BYTES = 0
    run = kit.open_run(folder)
    judged = kit.verdict(folder)
    assert str(judged).encode() and judged.to_markdown().encode() and judged._repr_html_().encode()
    json.dumps(judged.to_dict(), allow_nan=False)
    for name in FRAMES:
        run.frame(name)
    gave_up = [reason for reason in run.notes["reason"] if reason.startswith(FAILED)]
    assert not gave_up, gave_up
    kit.benchmarks(folder)


def _rows(way: str, folder: Path) -> Iterator[str]:
    """Frames of each file's rows by the given reader, or by the one that its content chooses and the one that its name does."""
    for path in folder.iterdir() if way != "run" else ():
        for kind in {way} & set(parse.formats()) or {*parse.recognise(path.name, parse.head_of(path))} - {None}:
            entry, lines = parse.formats()[kind], parse.LineReader(path)
            rows = entry.parse(lines.content() if entry.binary else lines, Source(path.name, 1_771_000_000 * 10**9), Report())
            yield from (name for name, _ in rows)


def trial(way: str, folder: Path) -> tuple[str, float, float]:
    """Open a folder in a process of its own: what failed (or nothing), CPU seconds and peak MiB."""
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            faulthandler.register(signal.SIGPROF, file=said, chain=True)
            signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
            try:
                attempt(way, folder)
            except KitError:
                pass
            except BaseException as error:
                where = [one for one in traceback.extract_tb(error.__traceback__) if "/kit/" in one.filename][-1:]
                text = f"{type(error).__name__}: {error}"[:200] + "".join(f" at {one.filename}:{one.lineno}" for one in where)
                os.write(said.fileno(), text.encode("utf-8", "replace"))
            os._exit(0)
        _, status, used = os.wait4(pid, 0)
        said.seek(0)
        wrong = said.read().decode("utf-8", "replace")
    memory = used.ru_maxrss / 1024
    if status:
        wrong = f"died of {os.waitstatus_to_exitcode(status)}: {wrong[:1500]}"
    elif not wrong and memory > MOST_MIB:
        wrong = f"memory of more than {MOST_MIB} MiB"
    return wrong, used.ru_utime + used.ru_stime, memory


def fuzz(seconds: float, most: int, seed: int, keep: Path | None = None) -> tuple[Counter[str], list[str], float, float]:
    """Try inputs; return how many in each way, what failed, the CPU seconds of the slowest and the peak of memory in MiB."""
    inputs, tried, failed, slowest, peak = Inputs(seed), Counter(), [], 0.0, 0.0
    until = time.monotonic() + seconds
    while tried.total() < most and time.monotonic() < until:
        way, files = inputs.next()
        tried["reader" if way in parse.formats() else way] += 1
        with tempfile.TemporaryDirectory(prefix="stallkit-fuzz-", ignore_cleanup_errors=True) as scratch:
            for name, data in files.items():
                (path := Path(scratch, name)).parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            wrong, cpu_s, memory = trial(way, Path(scratch))
            slowest, peak = max(slowest, cpu_s), max(peak, memory)
            if wrong:
                failed.append(f"{way}: {wrong}")
            if keep is not None and (wrong or cpu_s > SLOW_S):
                shutil.rmtree(Path(scratch, "frames"), ignore_errors=True)
                shutil.copytree(scratch, keep / f"{seed}-{tried.total()}-{way}-{cpu_s:.0f}s", dirs_exist_ok=True)
    return tried, failed, slowest, peak


def main() -> int:
    """The command."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--minutes", type=float, default=1.0)
    words.add_argument("--most", type=int, default=sys.maxsize, help="end after so many inputs")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--keep", type=Path)
    given = words.parse_args()
    kit.verdict(kit.sample_path("sg01-capture-hang"))  # loaded once, here
    tried, failed, slowest, peak = fuzz(given.minutes * 60, given.most, given.seed, given.keep)
    for line, count in Counter(failed).items():
        print(f"{count:5} {line}")
    ways = ", ".join(f"{way} {count}" for way, count in tried.items())
    print(f"inputs {tried.total()} ({ways}), failed {len(failed)}, slowest {slowest:.1f} s of CPU, peak memory {peak:.0f} MiB")
    cpu_s = sum(
        resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"{given.minutes:g} minutes, {cpu_s:.0f} s of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
