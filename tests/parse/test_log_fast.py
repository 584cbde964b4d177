"""Skimming a large log tells the same as reading each of its lines: on every launch case, alone and among lines of NCCL."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.scene import scene_of
from kit.analyse.verdict.verdict import weigh
from kit.intake.content import Content, Part, Text
from kit.parse import grammar
from kit.parse import log_fast as skim
from kit.parse.base import Report, Source
from kit.parse.log import parse
from kit.parse.log_shapes import shape_of
from kit.parse.text import LineReader

CASES = sorted(
    case for case in (Path(__file__).parent.parent / "data" / "cases").glob("*/*/case.json") if [*case.parent.glob("*.log")]
)
EVERY = int(os.environ.get("EVERY_CASE", "16"))
"""Of the cases each sixteenth is enough to notice; `EVERY_CASE=1 pytest tests/parse/test_log_fast.py` takes them all."""
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


def serving(rng: random.Random) -> Iterator[str]:
    """What servers print while they work: access lines, statistics, requests with their prompts, bare, stamped, with a writer."""
    words = "the answer error 42 Traceback failed (most recent call last): INFO 100%| Received request ready load".split(" ")
    while True:
        clock = f"03-20 12:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
        head = rng.choice(("", "(APIServer pid=77) ", f"(APIServer pid={rng.randrange(3)}) "))
        stamped = rng.choice((f"{head}INFO {clock} [loggers.py:127] ", f"[2026-03-20 12:00:{rng.randrange(60):02d}] "))
        status = rng.choice(("200 OK", "200 OK", "201 Created", "404 Not Found", "503 Service Unavailable"))
        path = rng.choice(("POST /v1/completions", "GET /health", "GET /metrics", "POST /generate"))
        rate, running = rng.choice((0.0, 7.5, rng.random() * 900)), rng.choice((0, 0, 3, rng.randrange(99)))
        yield rng.choice(
            (
                f'{head}INFO:     10.0.0.{rng.randrange(250)}:{rng.randrange(9999)} - "{path} HTTP/1.1" {status}',
                f"{stamped}Engine 000: Avg prompt throughput: {rate:.1f} tokens/s, Avg generation throughput: "
                f"{rate:.1f} tokens/s, Running: {running} reqs, Waiting: {running} reqs, GPU KV cache usage: {rate / 9:.1f}%",
                f"{stamped}Received request cmpl-{rng.getrandbits(64):x}: prompt: '{' '.join(rng.choices(words, k=9))}'",
                f"{stamped}Decode batch. #running-req: {running}, gen throughput (token/s): {rate:.2f}, #queue-req: {running}",
            )
        )


NOISE = {"nccl": nccl, "serving": serving}


def inflate(path: Path, kind: str) -> None:
    """Put lines of NCCL or of a server between those of a log; its last lines stay the last, and a cut line stays cut."""
    rng = random.Random(path.stat().st_size)
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    noise = NOISE[kind](rng)
    mixed = []
    for line in lines[:-1]:
        mixed += [line, *(next(noise) for _ in range(0 if "\r" in line else rng.randrange(6)))]
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


@pytest.mark.parametrize("among", (None, *NOISE))
@pytest.mark.parametrize("case", CASES[::EVERY], ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_case_reads_the_same(case: Path, among: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured_at = json.loads(case.read_text(encoding="utf-8")).get("captured_at")
    folder = Path(shutil.copytree(case.parent, tmp_path / "evidence", ignore=shutil.ignore_patterns("case.json")))
    for path in folder.glob("*.log") if among else ():
        inflate(path, among)
    monkeypatch.setattr(skim, "TAIL_BYTES", 8000)
    monkeypatch.setattr(skim, "SIGHTINGS", 1)
    careful = found(folder, captured_at, NEVER, monkeypatch)
    for compiled in (True, False):
        monkeypatch.setattr("kit.compiled.pays", lambda kind, size, compiled=compiled: compiled)
        assert found(folder, captured_at, 1, monkeypatch) == careful


WRAPPED: dict[str, Callable[[int, str], str]] = {
    "docker": lambda n, line: f"2026-03-20T12:{n // 60 % 60:02}:{n % 60:02}.{n:09}Z {line}",
    "kubectl": lambda n, line: f"[pod/vllm-7f9c8d5b4-x7k2p/server] 2026-03-20T12:{n // 60 % 60:02}:{n % 60:02}.{n:09}Z {line}",
    "journal": lambda n, line: f"Mar 20 12:{n // 60 % 60:02}:{n % 60:02} host vllm[77]: {line}",
    "json": lambda n, line: json.dumps({"log": line + "\n", "stream": "stderr", "time": f"2026-03-20T12:00:{n % 60:02}.{n:09}Z"}),
    "coloured": lambda n, line: f"\x1b[1;36m(APIServer pid=77)\x1b[0;0m {line}",
}
"""What shippers put around a line; each with a case of its own."""


@pytest.mark.parametrize(("form", "case"), list(zip(WRAPPED, CASES[5 :: len(CASES) // 5], strict=False)), ids=str)
def test_wrapped_log_reads_the_same(form: str, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "evidence" / "server.log"
    log.parent.mkdir()
    shutil.copyfile(next(case.parent.glob("*.log")), log)
    inflate(log, "serving")
    lines = log.read_text(encoding="utf-8").replace("\r", "").split("\n")
    log.write_text("\n".join(WRAPPED[form](n, line) for n, line in enumerate(lines)) + "\n", encoding="utf-8")
    monkeypatch.setattr(skim, "TAIL_BYTES", 8000)
    monkeypatch.setattr(skim, "SIGHTINGS", 1)
    with monkeypatch.context() as patch:
        patch.setattr("kit.compiled.pays", lambda kind, size: False)
        careful = found(log.parent, None, NEVER, patch)
    monkeypatch.setattr("kit.compiled.pays", lambda kind, size: True)
    assert found(log.parent, None, 1, monkeypatch) == careful


@pytest.fixture(params=("compiled", "plain"))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled pass, and with the one that serves where numba is not installed."""
    monkeypatch.setattr("kit.compiled.pays", lambda kind, size: request.param == "compiled")


@lru_cache(maxsize=1)
def carefully(text: str) -> tuple[list[dict], Report]:
    """All rows of careful reading, and its report: once for both engines."""
    report = Report()
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        rows = [row for frame, row in parse(LineReader(Path(file.name)), Source("a.log"), report) if frame == "log"]
    return rows, report


def both(path: Path, text: str) -> tuple[list[dict], dict, list[dict], Report]:
    """Rows that skimming kept, the totals of what it counted, all rows of careful reading, and the report of skimming."""
    path.write_bytes(text.encode())
    report, kept, totals = Report(), [], {}
    for frame, row in skim.skim(LineReader(path), Source("a.log"), report):
        if frame == "log":
            kept.append(row)
        elif "kinds" in row:
            totals = row
    rows, careful = carefully(text)
    assert (report.records, report.lines) == (careful.records, careful.lines)
    assert report.facts["last_line"] == careful.facts["last_line"] and report.facts["newlines"] == text.count("\n")
    return kept, totals, rows, report


@pytest.mark.usefixtures("engine")
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
    lines = [next(noise) for _ in range(6000)]
    for place, line in enumerate(rare):
        lines.insert(2500 + 400 * place, f"  {line}" if line.startswith("File") else line)
    kept, totals, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert len(kept) < len(rows) / 2
    wanted = [row for row in rows if row["raw"] in rare]
    assert [row for row in kept if row["raw"] in rare] == wanted and len(wanted) == len(rare)
    for name, key in (("kinds", "kind"), ("codes", "milestone")):
        counted = sum(totals[name].values()) + sum(row[key] is not None for row in kept)
        assert counted == sum(row[key] is not None for row in rows)


@pytest.mark.usefixtures("engine")
def test_numbers_that_change_the_meaning_are_read(tmp_path: Path) -> None:
    """`200` and `503`, `signal 9` and `signal 15` differ in digits only."""
    quiet = ['INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK', "worker got signal 9 from peer"] * 2000
    rare = ['INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 503 Service Unavailable', "worker got signal 15 from peer"]
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join([*quiet, *rare, *quiet]) + "\n")
    wanted = [row["milestone"] for row in rows if row["raw"] in rare]
    assert [row["milestone"] for row in kept if row["raw"] in rare] == wanted == ["health_failed", "sigterm"]


@pytest.mark.usefixtures("engine")
def test_the_last_operation_of_each_rank_is_kept(tmp_path: Path) -> None:
    """NCCL's counters decide which rank is apart: of thousands of lines the last of each rank has to be read."""
    lines = [
        f"n1:{7000 + i % 8}:{7100 + i % 8} [{i % 8}] NCCL INFO AllReduce: opCount {i // 8 - 3 * (i % 8 == 5):x} sendbuff 0x7f "
        f"recvbuff 0x7f{i:06x} count 64 datatype 9 op 0 root 0 comm 0x55d5c{i % 8}a0 [nranks=8] stream 0x55e{i % 8}"
        for i in range(8000)
    ]
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert len(kept) < len(rows) / 4
    last = [{row["pid"]: row["fields"] for row in some if row["milestone"] == "nccl_op"} for some in (kept, rows)]
    assert last[0] == last[1] and len(last[0]) == 8


@pytest.mark.usefixtures("engine")
def test_prompts_are_not_read_but_for_what_splits_a_line(tmp_path: Path) -> None:
    """Each prompt is another text; a bar, an error's name or a second record in one changes what the line is, or does not."""
    head = "INFO 03-20 12:00:00 [logger.py:43] Received request cmpl-"
    rng = random.Random(3)
    lines = [f"{head}{i:x}: prompt: '{' '.join(rng.choices('ask error ready tell load run'.split(), k=8))}'" for i in range(5000)]
    rare = [
        f"{head}7: prompt: 'Traceback (most recent call last): OSError: no'",
        f"{head}8: prompt: 'torch.cuda.OutOfMemoryError: CUDA out of memory. Application startup complete.'",
    ]
    lines[4000:4000] = rare
    kept, totals, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert len(kept) < len(rows) / 4
    assert totals["codes"]["request"] + sum(row["milestone"] == "request" for row in kept) == sum(
        row["milestone"] == "request" for row in rows
    )
    assert [row["kind"] for row in kept if row["raw"] == rare[0]] == [row["kind"] for row in rows if row["raw"] == rare[0]]


@pytest.mark.usefixtures("engine")
def test_a_log_with_a_section_cut_out_of_it_is_skimmed(tmp_path: Path) -> None:
    """Parts of a file, joined, cannot tell where they are."""
    lines = "".join(f"[2026-03-20 12:00:00] n1:7001:7101 [1] NCCL INFO Ring {i} : 0 -> 1\n" for i in range(9000)).encode()
    path = tmp_path / "a.log"
    path.write_bytes(lines + b"ep_poll\n" + lines)
    size = len(lines)
    content = Content(Text("a.log", path, path.stat().st_size), (Part(0, size, 1), Part(size + 8, 2 * size + 8, 9002)))
    report = Report()
    kept = list(skim.skim(LineReader(content), Source("a.log"), report))
    assert (report.records, report.lines) == (18_000, 18_000) and len(kept) < 6000


@pytest.mark.usefixtures("engine")
def test_time_of_stamped_lines_is_carried(tmp_path: Path) -> None:
    """A line without a stamp takes the time of the stamped line before it, and a clock ahead of the others is seen."""
    ring = "n1:7001:7101 [1] NCCL INFO Ring"
    lines = [f"[2026-03-20 12:{i // 600:02d}:{i // 10 % 60:02d}] {ring} {i % 16:02d} : 0 -> {i}" for i in range(9000)]
    lines[6000] = "[2026-03-20 13:30:00] n1:7001:7101 [1] NCCL INFO Ring 00 : 0 -> 1"
    lines.insert(8000, "Fatal Python error: Aborted")
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    at = [[row["time"] for row in some if row["raw"].startswith("Fatal")] for some in (kept, rows)]
    assert at[0] == at[1] and max(row["time"] for row in kept) == max(row["time"] for row in rows)


@pytest.mark.usefixtures("engine")
def test_each_writer_is_seen(tmp_path: Path) -> None:
    lines = [f"(RayWorkerWrapper pid={900 + i % 64}) NCCL version check {i}" for i in range(9000)]
    lines.insert(7000, "(RayWorkerWrapper pid=4711) NCCL version check 7")
    kept, _, rows, _ = both(tmp_path / "a.log", "\n".join(lines) + "\n")
    assert {row["pid"] for row in kept} == {row["pid"] for row in rows} and len(kept) < 6000


@pytest.mark.usefixtures("engine")
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


BY_THE_THOUSAND = (
    '10.0.3.17:40112 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '10.0.3.17:40112 - "GET /health HTTP/1.1" 200 OK',
    '10.0.3.17:40112 - "GET /metrics HTTP/1.1" 200 OK',
    "Engine 000: Avg prompt throughput: 90.4 tokens/s, Avg generation throughput: 12.1 tokens/s, Running: 3 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 4.2%, Prefix cache hit rate: 61.3%",
    "Added request chatcmpl-0f3c.",
    "AllReduce: opCount 1a sendbuff 0x7f recvbuff 0x7e acc (nil) count 4096 datatype 9 op 0 root 0 comm 0x5 [nranks=8]",
)


@pytest.mark.parametrize("line", BY_THE_THOUSAND)
def test_no_entry_of_a_grammar_keeps_what_servers_print_by_the_thousand_from_being_skimmed(line: str) -> None:
    """A word of an entry, without digits and the letters a to f, must not stand in lines that come by the thousand."""
    bare = shape_of(line.encode()).decode()
    words = {part for part, _ in grammar.load().matcher("vllm").entries if part}
    hiding = [word for word in words if shape_of(word.encode()).decode() in bare and word not in line]
    assert not hiding, "a longer word tells as much, and is in none of these lines"
