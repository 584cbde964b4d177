"""A launch of 64 hosts × 8 ranks, made of a recording of the lab, judged on Dask with a worker killed, and on one machine.

    .venv/bin/python benchmarks/fleet.py [--hosts 64] [--ranks 8] [--workers 4]

Each host is the recording with pids and a clock of its own, its rank 0 repeated as ranks 2 and up; on one of them rank 1 is
stopped (SIGSTOP), as in the recording; on the others it waits like its peers. Prints wall time and CPU of both, and whether
they say the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE.parent / "data" / "stopped-rank"
NS = 1_000_000_000
PEER = 15342
"""Rank 0 of the recording; the pids of those that it is repeated as follow at this distance from each other."""
APART = 20
STOPPED = re.compile(r'"state":"T"')


def launch(folder: Path, hosts: int, odd: int, ranks: int = 2) -> list[str]:
    """Write a launch of so many hosts and ranks on each, one stopped on the host with this number; names of the hosts."""
    names = [f"node-{number:02d}" for number in range(hosts)]
    for number, name in enumerate(names):
        _host(folder / name, number, ranks, stopped=number == odd)
    (folder / "run.json").write_text(
        json.dumps({"format": "stallkit-run", "version": 1, "name": folder.name, "hosts": [{"name": one} for one in names]})
    )
    return names


def _host(folder: Path, number: int, ranks: int, *, stopped: bool) -> None:
    """One host: the recording, its pids moved, its clock off by some seconds."""
    shutil.copytree(RUN / "raw", folder / "raw")
    for path in (folder / "raw").iterdir() if ranks > 2 else ():
        path.write_text(_repeated(path.read_text(encoding="utf-8"), ranks, path.name == "sampler.jsonl"), encoding="utf-8")
    later_s, pid_step = number % 7 - 3, 1_000 * number
    manifest = json.loads((RUN / "run.json").read_text())
    lines = (folder / "raw" / "sampler.jsonl").read_text(encoding="utf-8").splitlines()
    pids = {str(line["pid"]) for line in map(json.loads, lines) if line["k"] == "proc"}
    words = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(pids, key=len, reverse=True))})(?![\w.])")
    for path in (folder / "raw").iterdir():
        text = words.sub(lambda found: str(int(found[0]) + pid_step), path.read_text(encoding="utf-8"))
        if path.name == "sampler.jsonl":
            text = re.sub(r'"wall_ns":(\d+)', lambda found: f'"wall_ns":{int(found[1]) + later_s * NS}', text)
            text = text if stopped else _woken(text)
        elif path.name in ("server.log", "strace.txt"):
            text = re.sub(r"\b\d\d:\d\d:\d\d\b", lambda found: _moved(found[0], later_s), text)
        if not stopped and path.name.startswith("ps."):
            text = re.sub(r"(?m)^(\s*\d+\s+\d+\s+\S+\s+)T(\w*)", r"\1S\2", text)
        path.write_text(text, encoding="utf-8")
    manifest = json.loads(re.sub(r'"(20\d\d-[^"]+?)Z"', lambda found: f'"{_iso(found[1], later_s)}"', json.dumps(manifest)))
    manifest["launch"]["pid"] += pid_step
    manifest["clock"]["offset_ns"] = manifest["clock"].get("offset_ns", 0) + later_s * NS
    for capture in manifest["captures"]:
        capture["pid"] = capture["pid"] + pid_step if capture.get("pid") else None
        capture.pop("sha256", None)
    (folder / "run.json").write_text(json.dumps(manifest))


def _repeated(text: str, ranks: int, sampler: bool) -> str:
    """A text in which each line of rank 0 stands for the ranks from 2 on too."""
    text = re.sub(r"(world.size=|-parallel-size |parallel_size': |\bworld size )2\b", rf"\g<1>{ranks}", text)
    made = []
    for line in text.splitlines(keepends=True):
        made.append(line)
        own = f'"pid":{PEER},' in line if sampler else re.search(rf"pid={PEER}\)|^\s*{PEER} ", line)
        for rank in range(2, ranks) if own else ():
            more = re.sub(rf"\b{PEER}\b", str(PEER + APART * rank), line)
            more = re.sub(r"(TP|\brank |\brank=|Worker-)0\b", rf"\g<1>{rank}", more)
            made.append(_threads_moved(more, APART * rank) if sampler and '"k":"threads"' in more else more)
    return "".join(made)


def _threads_moved(line: str, by: int) -> str:
    """A sampler's line of threads with other thread ids; the first is that of the process."""
    found = json.loads(line)
    found["rows"] = [[row[0] if row[0] == found["pid"] else row[0] + 100_000 * by, *row[1:]] for row in found["rows"]]
    return json.dumps(found, separators=(",", ":")) + "\n"


def _woken(text: str) -> str:
    """The sampler's lines of a rank that is not stopped."""
    return re.sub(r'\[(\d+),"T"', r'[\1,"S"', STOPPED.sub('"state":"S"', text))


def _moved(clock: str, later_s: int) -> str:
    return (datetime.strptime(clock, "%H:%M:%S") + timedelta(seconds=later_s)).strftime("%H:%M:%S")


def _iso(moment: str, later_s: int) -> str:
    return (datetime.fromisoformat(moment) + timedelta(seconds=later_s)).isoformat() + "Z"


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A Dask scheduler and workers, each a process of its own on the loopback: address, and the workers."""
    from distributed import Client

    file, processes = folder / "scheduler.json", []
    common = ["--no-dashboard", "--local-directory", str(folder)]
    try:
        start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes.append(subprocess.Popen([*start, "--no-dashboard", "--scheduler-file", str(file)], **quiet))
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.05)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1", *common]
        processes += [subprocess.Popen([*worker, "--no-nanny", "--host", "127.0.0.1"], **quiet) for _ in range(workers)]
        address = json.loads(file.read_text())["address"]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Judge the launch on Dask with a worker killed, and here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    import kit

    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {args.hosts} hosts of {args.ranks} ranks", flush=True)
    with tempfile.TemporaryDirectory(prefix="stallkit-fleet-") as scratch:
        folder = Path(scratch) / "launch"
        launch(folder, args.hosts, args.hosts // 4, args.ranks)
        with cluster(Path(scratch), args.workers) as (address, workers):
            done = []

            def read(facts: object) -> None:
                done.append(facts)
                if len(done) == args.hosts // 8:
                    workers[0].kill()

            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            there = kit.fleet(folder, address, progress=read).verdict()
            took_s = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"Dask, {args.workers} workers, one killed: {took_s:.1f} s, CPU {cpu_s:.1f} s with their starts", flush=True)
        began = time.perf_counter(), time.process_time()
        here = kit.fleet(folder).verdict()
        print(f"this machine: {time.perf_counter() - began[0]:.1f} s, CPU {time.process_time() - began[1]:.1f} s")
    print(there.answer())
    print(f"the same answer: {there.to_dict() == here.to_dict()}; remarks: {there.fleet.remarks}")


if __name__ == "__main__":
    main()
