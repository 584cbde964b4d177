"""The runner of benchmarks: its small instance, and that `kit bench` compares what it writes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from kit.analyse.bench.compare import compare_benchmarks

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import run as runner


def test_the_runner_measures_in_turn_and_prints_ratios(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x\n" * 1_000_000)
    (tmp_path / "recording" / "frames").mkdir(parents=True)
    found = [
        runner.Measured("limit: wc -l", ["wc", "-l", str(file)], file),
        runner.Measured("limit: Python's line loop", [sys.executable, "-c", runner.LOOP, str(file)], file),
    ]
    found.append(runner.Measured("collect: a sample", lambda: 0.005))
    turns: list[str] = []
    times, walls = runner.measure(found, tmp_path, 2, turns.append)
    assert [turn.split(" ", 1)[1] for turn in turns] == [one.name for one in found] * 3
    assert all(len(own) == 2 and own[0] >= 0 for own in times.values()) and not (tmp_path / "recording" / "frames").exists()
    times |= {"limit: wc -l": [0.1, 0.2, 0.3], "limit: Python's line loop": [0.4, 0.6, 0.8]}
    lines = runner.table(found, times, walls).splitlines()
    assert lines[1].split()[-3:] == ["100.00", "1", "0.3"] and lines[2].split()[-3:] == ["300.00", "3", "1.0"]
    assert lines[3].split()[3:5] == ["0.005", "s"] and walls["limit: wc -l"] > 0


def test_all_that_is_measured_is_there_and_runs(tmp_path: Path) -> None:
    found = runner.things(tmp_path, 1)
    assert {one.name.split(":")[0] for one in found} == set("limit start post-mortem intake log strace recording".split())
    assert all(one.reads is None or one.reads.stat().st_size for one in found)
    own = [one for one in found if one.name in ("limit: disk read", "intake: gzip", "strace: Python re, no join")]
    times, _ = runner.measure(own, tmp_path, 1, lambda text: None)
    assert all(own[0] > 0 for own in times.values())


def test_two_commits_are_compared_by_kit_bench(tmp_path: Path) -> None:
    rng, paths = random.Random(1), []
    for name, factor in (("before", 1.0), ("after", 0.5)):
        times = {"verdict of a log": [factor * (1 + 0.02 * rng.random()) for _ in range(5)]}
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(runner.as_hyperfine(times)))
    said = str(compare_benchmarks([paths[0]], [paths[1]]))
    assert "verdict of a log" in said and "-50" in said or "−50" in said


def test_make_names_the_runner(root: Path) -> None:
    done = subprocess.run(["make", "-n", "bench"], cwd=root, capture_output=True, text=True)
    assert "benchmarks/run.py -o out/bench.json" in done.stdout
