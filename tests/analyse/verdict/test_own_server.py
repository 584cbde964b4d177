"""A server that the kit has never heard of, described in one file, is judged as a built-in one of the same story."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kit
from kit.analyse.verdict.evidence import gather
from kit.analyse.verdict.processes import find_ranks

GRAMMAR = r"""
name = "quern"
role = "server"
detect = ['^<20\d\d-\S+\|(?:gate|stone \d+)\|']

[args]
store = "model"
stones = "tp_size"
gate = "port"

[traits]
port = 7070

[metrics]
tokens = ["quern_words_ground"]
running = ["quern_orders_open"]

[caches]
QUERN_STORE = "~/.quern"

[launch]
command = '\bquern grind'

[launch.alias]
gate = "port"
stones = "tp_size"

[[prefix]]
pattern = '<{date}{clock}{zone}\|(?:stone (?P<rank>\d+)|gate)\|(?P<l>note|warn|fault)> '

[[process]]
role = "frontend"
title = '^quern-gate'

[[process]]
role = "worker"
title = '^quern-stone'
rank = '^quern-stone (?P<rank>\d+)'

[[milestone]]
code = "args"
phase = "launch"
start = true
args = true
find = "grinding with:"

[[milestone]]
code = "dist_begin"
phase = "dist_init"
per_rank = true
find = "looking for the other stones"

[[milestone]]
code = "weights_begin"
phase = "weights"
per_rank = true
find = "sacks are being carried in"

[[milestone]]
code = "weights_end"
phase = "post_load"
per_rank = true
find = "all sacks are in"

[[milestone]]
code = "http_start"
phase = "warmup"
http = true
find = "the gate is being built"

[[milestone]]
code = "ready"
phase = "ready"
ready = true
find = "the mill turns"

[[milestone]]
code = "request"
kind = "request"
phase = "serving"
find = "order served"

[[milestone]]
code = "sack_torn"
kind = "error"
find = "a sack is torn"

[[milestone]]
code = "worker_died"
kind = "error"
role = "cascade"
find = "has fallen silent"
pattern = 'stone (?P<rank>\d+) has fallen silent, code (?P<exit_code>-?\d+)'

[[milestone]]
code = "shutdown"
kind = "symptom"
role = "ending"
find = "the mill is closed"

[[bar]]
kind = "weights"
phase = "weights"
pattern = '^carrying sacks'
"""

BEGIN = datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC)
SGLANG = {
    "args": "server_args=ServerArgs(model_path='/m/x', tp_size=2, port={port})",
    "dist": "Init torch distributed begin.",
    "load": "Load weight begin. avail mem=93.42 GB",
    "loaded": "Load weight end. type=Llama, dtype=torch.bfloat16, avail mem=21.10 GB, mem usage=57.00 GB.",
    "gate": "INFO:     Started server process [700]",
    "ready": "The server is fired up and ready to roll!",
    "served": 'INFO:     10.0.0.7:1234 - "POST /v1/completions HTTP/1.1" 200 OK',
    "torn": "RuntimeError: shard 3 of the checkpoint is truncated",
    "died": "Rank 1 scheduler died during initialization (exit code: 1)",
    "closed": "INFO:     Finished server process [700]",
    "bar": "Loading safetensors checkpoint shards:  {percent}% Completed | {n}/40 [{clock}<{clock},  9.00s/it]",
}
QUERN = {
    "args": "grinding with: store='/m/x', stones=2, gate={port}",
    "dist": "looking for the other stones",
    "load": "sacks are being carried in",
    "loaded": "all sacks are in",
    "gate": "the gate is being built",
    "ready": "the mill turns",
    "served": "order served",
    "torn": "a sack is torn: number 3",
    "died": "stone 1 has fallen silent, code 1",
    "closed": "the mill is closed",
    "bar": "carrying sacks:  {percent}%|###       | {n}/40 [{clock}<{clock},  9.00s/it]",
}
STACK = """Process {0}: {1}
Python v3.12.3 (/usr/bin/python3.12)

Thread {0} (active): "MainThread"
    {2}
    main (serve.py:77)
"""
UP = [(0, None, "args"), (5, 0, "dist"), (5, 1, "dist"), (9, 0, "load"), (9, 1, "load")]
LOADED = [*UP, (60, 0, "loaded"), (61, 1, "loaded")]
READY = [*LOADED, (70, None, "gate"), (80, None, "ready")]
BAR = [(9 + 9 * n, None, f"bar {n}") for n in range(1, 21)]


def _line(words: dict[str, str], own: bool, seconds: float, rank: int | None, event: str, port: int) -> str:
    stamp = BEGIN + timedelta(seconds=seconds)
    name, _, number = event.partition(" ")
    n = int(number or 0)
    text = words[name].format(port=port, n=n, percent=f"{n * 100 // 40:2d}", clock=f"{9 * n // 60:02d}:{9 * n % 60:02d}")
    if name == "bar":
        return text
    if own:
        level = "fault" if name in ("torn", "died") else "note"
        return f"<{stamp:%Y-%m-%dT%H:%M:%SZ}|{'gate' if rank is None else f'stone {rank}'}|{level}> {text}"
    return f"[{stamp:%Y-%m-%d %H:%M:%S}{'' if rank is None else f' TP{rank}'}] {text}"


def _run(folder: Path, own: bool, story: list, listens: bool, alive: bool, captured_s: float) -> Path:
    words, port = (QUERN, 7070) if own else (SGLANG, 30000)
    front = f"quern-gate --stones 2 --gate {port}" if own else f"python3 -m sglang.launch_server --tp 2 --port {port}"
    workers = ["quern-stone 0", "quern-stone 1"] if own else ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
    folder.mkdir(parents=True)
    (folder / "server.log").write_text("".join(_line(words, own, *event, port) + "\n" for event in story))
    if alive:
        titles = zip((700, 911, 912), (1, 700, 700), [front, *workers], strict=True)
        table = "".join(f"{pid:7d} {ppid:7d} Sl   {title}\n" for pid, ppid, title in titles)
        (folder / "ps.txt").write_text("    PID    PPID STAT COMMAND\n" + table)
        head = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        program = "quern-gate" if own else "python3"
        socket = f'LISTEN 0      2048   0.0.0.0:{port}       0.0.0.0:*     users:(("{program}",pid=700,fd=9))\n'
        other = 'LISTEN 0      128    0.0.0.0:22         0.0.0.0:*     users:(("sshd",pid=1,fd=3))\n'
        (folder / "ss.txt").write_text(head + (socket if listens else other))
    if alive and not listens and story[-1][2] == "loaded":
        (folder / "pyspy.txt").write_text(
            "\n".join(
                map(
                    STACK.format,
                    (911, 912),
                    workers,
                    ("barrier (torch/distributed/distributed_c10d.py:4815)", "load_weights (model_loader.py:9)"),
                )
            )
        )
    return folder


STORIES = {
    "ready": (READY, True, True, 100, "ready"),
    "serving": ([*READY, (90, None, "served")], True, True, 100, "ready"),
    "one rank behind": (LOADED[:-1], False, True, 900, "rank_straggler"),
    "weights slow": ([*UP, *BAR], False, True, 195, "slow_weights"),
    "worker died": ([*UP, (40, 1, "torn"), (41, None, "died")], False, False, 60, "worker_crashed"),
    "orderly end": ([*READY, (90, None, "served"), (300, None, "closed")], False, False, 320, None),
}


@pytest.mark.parametrize("name", STORIES)
def test_one_file_makes_a_server_known(tmp_path: Path, name: str) -> None:
    story, listens, alive, captured_s, wanted = STORIES[name]
    (tmp_path / "quern.toml").write_text(GRAMMAR)
    at = f"{BEGIN + timedelta(seconds=captured_s):%Y-%m-%d %H:%M:%S}+00:00"
    known = kit.verdict(_run(tmp_path / "known", False, story, listens, alive, captured_s), at)
    own = kit.verdict(_run(tmp_path / "own", True, story, listens, alive, captured_s), at, knowledge=tmp_path)
    own, known = own.to_dict(), known.to_dict()
    assert wanted in (own["class"], None)
    for key in ("class", "phase", "state", "ranks"):
        assert own[key] == known[key], key
    for fact in ("ready", "exited", "ranks_dead", "lagging_ranks", "world_size", "port_listening", "weights_done", "restarts"):
        assert own["facts"].get(fact) == known["facts"].get(fact), fact
    assert own["facts"]["port"] == 7070


def test_its_cause_is_the_line_whose_role_says_so(tmp_path: Path) -> None:
    (tmp_path / "quern.toml").write_text(GRAMMAR)
    story = STORIES["worker died"][0]
    verdict = kit.verdict(_run(tmp_path / "run", True, story, False, False, 60), "2026-03-01 10:01:00", knowledge=tmp_path)
    assert verdict.facts.value("first_error") == "a sack is torn: number 3"
    blamed = GRAMMAR.replace('code = "sack_torn"', 'code = "sack_torn"\nrole = "cascade"')
    (tmp_path / "quern.toml").write_text(
        blamed.replace('role = "cascade"\nfind = "has fallen', 'role = "initiating"\nfind = "has fallen')
    )
    verdict = kit.verdict(tmp_path / "run", "2026-03-01 10:01:00", knowledge=tmp_path)
    assert verdict.facts.value("first_error") == "stone 1 has fallen silent, code 1"


def test_its_launch_ends_with_its_worker_where_the_file_says_so(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", True, STORIES["worker died"][0], False, False, 60)
    for trait, exited in (("port = 7070", None), ("port = 7070\nends_with_worker = true", True)):
        (tmp_path / "quern.toml").write_text(GRAMMAR.replace("port = 7070", trait))
        assert kit.verdict(run, "2026-03-01 10:01:00", knowledge=tmp_path).facts.value("exited") is exited


def test_its_processes_have_roles_and_ranks(tmp_path: Path) -> None:
    (tmp_path / "quern.toml").write_text(GRAMMAR)
    run = kit.open_run(_run(tmp_path / "run", True, READY, True, True, 100), knowledge=tmp_path)
    processes = find_ranks(gather(run))
    assert {p.pid: (p.role, p.rank) for p in processes.by_pid.values()} == {
        700: ("frontend", None),
        911: ("worker", 0),
        912: ("worker", 1),
    }
