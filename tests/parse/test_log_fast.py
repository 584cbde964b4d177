"""Skimming a large log tells the same as reading each of its lines: on every launch case, alone and among lines of NCCL."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.scene import scene_of
from kit.analyse.verdict.verdict import weigh
from kit.parse import log_fast as skim
from kit.parse.base import Report, Source
from kit.parse.log import parse
from kit.parse.text import LineReader

CASES = sorted((Path(__file__).parent.parent / "data").glob("launches*/*/case.json"))
NEVER = 1 << 60


def nccl(rng: random.Random) -> Iterator[str]:
    """What NCCL_DEBUG=TRACE prints on 16 ranks of two hosts, with ranks, addresses and counters that change."""
    while True:
        rank, number = rng.randrange(16), rng.randrange(1 << 20)
        head = f"node-{rank // 8}:{7000 + rank}:{7100 + rank} [{rank % 8}]"
        address = f"0x7f{rng.getrandbits(40):010x}"
        yield rng.choice(
            (
                f"{head} NCCL INFO Channel {number % 32:02d}/0 : {rank}[{rank % 8}] -> {rank + 1}[0] via P2P/CUMEM/read",
                f"{head} NCCL INFO AllReduce: opCount {number:x} sendbuff {address} recvbuff {address} count {number} op 0",
                f"{head} {number / 7:f} ncclProxyProgress:812 NCCL TRACE recv peer {rank} offset {number}",
                f"{head} NCCL INFO Trees [0] {rank}/-1/-1->{rank}->0 [1] {rank}/-1/-1->{rank}->-1",
            )
        )


def inflate(path: Path) -> None:
    """Put lines of NCCL between the lines of a log; its last lines stay the last, and a cut line stays cut."""
    rng = random.Random(path.stat().st_size)
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    noise = nccl(rng)
    mixed = []
    for line in lines[:-1]:
        mixed += [line, *(next(noise) for _ in range(0 if "\r" in line else rng.randrange(12)))]
    path.write_bytes("\n".join([*mixed, lines[-1]]).encode())


def found(folder: Path, captured_at: str | None, from_bytes: int, patch: pytest.MonkeyPatch) -> tuple[dict, dict]:
    patch.setattr(skim, "FROM_BYTES", from_bytes)
    run = kit.open_run(folder, captured_at)
    evidence = gather(run)
    log = evidence.log
    digest = {
        name: getattr(log, name)
        for name in (
            "marks",
            "bars",
            "kinds",
            "servers",
            "records",
            "ranks",
            "rank_pids",
            "label_pids",
            "writers",
            "first_time",
            "last_time",
            "tracebacks",
        )
    }
    accounts = {name: (report.lines, report.records, report.reasons, report.facts) for name, report in run.reports.items()}
    digest["counts"] = {code: count for code, count in log.counts.items() if count}
    return digest | {"reports": accounts}, weigh(scene_of(evidence)).to_dict()


@pytest.mark.parametrize("inflated", (False, True), ids=("alone", "among-nccl"))
@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_case_reads_the_same(case: Path, inflated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured_at = json.loads(case.read_text(encoding="utf-8")).get("captured_at")
    folder = Path(shutil.copytree(case.parent, tmp_path / "evidence", ignore=shutil.ignore_patterns("case.json")))
    for path in folder.glob("*.log") if inflated else ():
        inflate(path)
    monkeypatch.setattr(skim, "TAIL_BYTES", 2000)
    monkeypatch.setattr(skim, "SIGHTINGS", 1)
    assert found(folder, captured_at, 1, monkeypatch) == found(folder, captured_at, NEVER, monkeypatch)


def both(path: Path, text: str) -> tuple[list[dict], dict, list[dict], Report]:
    """Rows that skimming kept, the totals of what it counted, all rows of careful reading, and the report of skimming."""
    path.write_bytes(text.encode())
    report, kept, totals = Report(), [], {}
    for frame, row in skim.skim(LineReader(path), Source("a.log"), report):
        if frame == "log":
            kept.append(row)
        elif "kinds" in row:
            totals = row
    careful = Report()
    rows = [row for frame, row in parse(LineReader(path), Source("a.log"), careful) if frame == "log"]
    assert (report.records, report.lines) == (careful.records, careful.lines)
    assert report.facts["last_line"] == careful.facts["last_line"] and report.facts["newlines"] == text.count("\n")
    return kept, totals, rows, report


def test_a_rare_line_among_repeated_ones_is_kept(tmp_path: Path) -> None:
    """An error, a bar, a milestone and a traceback with its end, deep in lines that are only counted."""
    rare = [
        "[2026-02-18 00:28:26 TP6] Load weight begin. avail mem=93.42 GB",
        "Loading safetensors checkpoint shards:  42% Completed | 36/85 [18:07<24:40, 30.21s/it]",
        "Traceback (most recent call last):",
        'File "/srv/model.py", line 3, in load',
        "RuntimeError: signal 15",
        "node-0:7003:7103 [3] NCCL WARN Call to connect timeout",
        "Received signal 15",
    ]
    noise = nccl(random.Random(5))
    lines = [next(noise) for _ in range(12_000)]
    for place, line in enumerate(rare):
        lines.insert(4500 + 700 * place, f"  {line}" if line.startswith("File") else line)
    kept, totals, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert len(kept) < len(rows) / 2
    wanted = [row for row in rows if row["raw"] in rare]
    assert [row for row in kept if row["raw"] in rare] == wanted and len(wanted) == len(rare)
    for name, key in (("kinds", "kind"), ("codes", "milestone")):
        counted = sum(totals[name].values()) + sum(row[key] is not None for row in kept)
        assert counted == sum(row[key] is not None for row in rows)


def test_numbers_that_change_the_meaning_are_read(tmp_path: Path) -> None:
    """`200` and `503`, `signal 9` and `signal 15` differ in digits only."""
    quiet = ['INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK', "worker got signal 9 from peer"] * 3000
    rare = ['INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 503 Service Unavailable', "worker got signal 15 from peer"]
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join([*quiet, *rare, *quiet]) + "\n")
    wanted = [row["milestone"] for row in rows if row["raw"] in rare]
    assert [row["milestone"] for row in kept if row["raw"] in rare] == wanted == ["health_failed", "sigterm"]


def test_time_of_stamped_lines_is_carried(tmp_path: Path) -> None:
    """A line without a stamp takes the time of the stamped line before it, and a clock ahead of the others is seen."""
    ring = "n1:7001:7101 [1] NCCL INFO Ring"
    lines = [f"[2026-03-20 12:{i // 600:02d}:{i // 10 % 60:02d}] {ring} {i % 16:02d} : 0 -> {i}" for i in range(9000)]
    lines[6000] = "[2026-03-20 13:30:00] n1:7001:7101 [1] NCCL INFO Ring 00 : 0 -> 1"
    lines.insert(8000, "Fatal Python error: Aborted")
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    at = [[row["time"] for row in some if row["raw"].startswith("Fatal")] for some in (kept, rows)]
    assert at[0] == at[1] and max(row["time"] for row in kept) == max(row["time"] for row in rows)


def test_each_writer_is_seen(tmp_path: Path) -> None:
    lines = [f"(RayWorkerWrapper pid={900 + i % 64}) NCCL version check {i}" for i in range(9000)]
    lines.insert(7000, "(RayWorkerWrapper pid=4711) NCCL version check 7")
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert {row["pid"] for row in kept} == {row["pid"] for row in rows} and len(kept) < 6000


def test_endless_lines_nul_bytes_and_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\xef\xbb\xbffirst\n" + b"x" * 700_000 + b"\n\0a\0\nb\xff\xfe\r\n" + "größer\n".encode() + b"last, open")
    report = Report()
    kept = [row["raw"] for frame, row in skim.skim(LineReader(path), Source("a.log"), report) if frame == "log"]
    reader = LineReader(path)
    careful = [row["raw"] for frame, row in parse(reader, Source("a.log"), Report()) if frame == "log"]
    accounts = Report()
    reader.tell(accounts)
    assert kept == careful and report.reasons == accounts.reasons and len(report.reasons) == 3
    assert (report.facts["newlines"], report.facts["ends_open"]) == (5, True)


def test_utf16_and_small_logs_are_read_with_care(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes("one line\n".encode("utf-16") * 100)
    assert kit.parse.skim(LineReader(path), Source("a.log")) is None
    monkeypatch.setattr(skim, "FROM_BYTES", 1)
    assert kit.parse.skim(LineReader(path), Source("a.log")) is None
