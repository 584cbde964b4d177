"""The trace for Perfetto: what its schema asks of every event, on one clock, nothing of it markup or a secret."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

import kit
from kit.cli import main
from kit.errors import EvidenceError, UsageError
from kit.render.perfetto import GPUS, LAUNCH, LOG, PHASES, TITLES

NEEDED = {"M": {"args"}, "X": {"dur"}, "C": {"args"}, "i": {"s"}}
NAMES = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index"} | {
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


def checked(path: Path) -> list[dict]:
    """The events of a trace, each as the form wants it: kinds, clocks, ids, slices that nest, names for what is named."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        trace = json.load(file, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    events, open_until, before = trace["traceEvents"], {}, 0
    for event in events:
        assert NEEDED[event["ph"]] <= set(event) and isinstance(event["name"], str) and event["name"], event
        assert all(isinstance(event[one], int) and 0 <= event[one] < 2**31 for one in ("pid", "tid")), event
        assert isinstance(event["ts"], float | int) and event["ts"] >= before, event
        before = event["ts"]
        if event["ph"] == "M":
            assert isinstance(event["args"][NAMES[event["name"]]], int if "index" in event["name"] else str)
        if event["ph"] == "C":
            assert all(isinstance(value, float | int) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        if event["ph"] == "X":
            begin, end = round(event["ts"] * 1e3), round(event["ts"] * 1e3) + round(event["dur"] * 1e3)
            around = open_until.setdefault((event["pid"], event["tid"]), [])
            while around and around[-1] <= begin:
                around.pop()
            assert end >= begin and (not around or end <= around[-1]), event
            around.append(end)
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    assert {event["pid"] for event in events} <= named
    return events


def named(events: list[dict], ph: str, pid: int) -> list[str]:
    return [event["name"] for event in events if event["ph"] == ph and event["pid"] == pid]


def test_a_recorded_stall(tmp_path, capsys):
    out = tmp_path / "trace.json.gz"
    assert main(["export", str(kit.sample_path("pipe-ticker")), "--perfetto", str(out)]) == 0
    events = checked(out)
    assert f"{len(events):,} events" in capsys.readouterr().out
    assert named(events, "X", PHASES).count("weights (no end was seen)") == 2
    titles = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"Launch", "TP0[25402]", "VLLM::EngineCore[24673]"} <= titles
    assert "worker, rank 1" in [event["args"]["labels"] for event in events if event["name"] == "process_labels"]
    calls = [event for event in events if event["ph"] == "X" and event["name"] == "epoll_wait"]
    assert len(calls) == 12_791 and {"args", "result"} <= set(calls[0]["args"])
    owners = {event["tid"]: event["pid"] for event in events if event["name"] == "thread_name"}
    assert all(owners[call["tid"]] == call["pid"] for call in calls)
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"resident memory (MiB)", "CPU (cores)"} <= counters
    assert "last progress" in named(events, "i", LAUNCH) and named(events, "i", LOG)
    # tracks from the top: the launch, phases, log, GPUs, then ranks in their order, then other processes
    place = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    title = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    shown = [title[pid] for pid in sorted(place, key=lambda pid: place[pid])]
    assert shown[:6] == [*TITLES.values(), "TP0[25402]", "TP1[25403]"] and "VLLM::EngineCore[24673]" in shown[6:]
    # a counter has the unit that its name says
    run = kit.sample("pipe-ticker")
    resident = [event["args"]["value"] for event in events if event["name"] == "resident memory (MiB)" and event["pid"] == 25402]
    assert resident[0] == pytest.approx(run.frame("processes").query("pid == 25402")["rss_bytes"].dropna().iloc[0] / 2**20, abs=1)
    # one clock: the first call lies where the frame has it
    first = run.frame("syscalls", ["t_s", "syscall"]).query("syscall == 'epoll_wait'")["t_s"].min()
    assert calls[0]["ts"] / 1e6 == pytest.approx(first, abs=1e-5)


def test_samples_of_threads_where_nothing_was_traced(tmp_path):
    kit.perfetto(kit.sample("healthy-tp2"), tmp_path / "trace.json")
    events = checked(tmp_path / "trace.json")
    assert "S futex_do_wait futex" in {event["name"] for event in events if event["ph"] == "X"}
    assert "ready" in named(events, "X", PHASES)  # reached, so it is not called open


def loose(folder: Path, log: str, gpus: str = "") -> Path:
    folder.mkdir()
    (folder / "server.log").write_text(log)
    if gpus:
        (folder / "nvidia-smi.csv").write_text(gpus)
    return folder


def test_text_is_text_and_secrets_stay(tmp_path):
    stamp = "ERROR 02-18 02:11:5{} [core.py:58] "
    bad = f'{stamp.format(2)}<script>alert(1)</script> \x1b[31m\u202e$x$ "q" HF_TOKEN=hf_PlantedTokenAbCdEf0123456789\n'
    gpus = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n2026/02/18 02:11:53.000, 0, 7 %, 100 MiB\n"
    run = loose(tmp_path / "run", bad + f"{stamp.format(4)}RuntimeError: {'x' * 5000}\n", gpus)
    kit.perfetto(run, tmp_path / "trace.json", captured_at="2026-02-18 02:12:00")
    events = checked(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    assert "PlantedToken" not in text and not any(mark in event["name"] for event in events for mark in "\x1b\u202e")
    said = named(events, "i", LOG)
    assert "<script>alert(1)</script>" in said[0] and "$x$" in said[0] and max(map(len, said)) <= 1001
    assert {"GPU 0 use (%)", "GPU 0 memory (MiB)"} <= set(named(events, "C", GPUS))


def test_without_any_time_it_says_so(tmp_path, capsys):
    run = loose(tmp_path / "run", "Loading safetensors checkpoint shards:   0% Completed | 0/4\n")
    with pytest.raises(EvidenceError, match="nothing of run carries a time"):
        kit.perfetto(run, tmp_path / "trace.json")
    assert not (tmp_path / "trace.json").exists()


def test_what_cannot_be_written_is_refused(tmp_path, capsys):
    with pytest.raises(UsageError, match="unknown format of"):
        kit.perfetto(tmp_path, "trace.pdf")
    run = shutil.copytree(kit.sample_path("port-taken"), tmp_path / "run")
    assert main(["export", str(run), "--perfetto", str(tmp_path / "none" / "trace.json")]) == 3
    assert main(["export", str(run), "log"]) == 2 and main(["export", str(run)]) == 2
    assert "kit export RUN --perfetto trace.json.gz" in capsys.readouterr().err
