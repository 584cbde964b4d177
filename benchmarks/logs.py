"""Time and memory of `kit verdict` on a huge log, against a plain loop over its lines. Makes the log itself.

The log is that of a vLLM launch on 64 ranks with NCCL_DEBUG=TRACE: the server's own lines, progress bars and a traceback
between hundreds of thousands of lines of NCCL.

    .venv/bin/python benchmarks/logs.py [MEGABYTES ...]

Two sizes by default, 200 and 400, to show that memory does not grow; the bound on the ratio is meant for 1000, where the
start of the interpreter (about 0.4 s) counts little.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

REPEATS = 5
RANKS = 64
SIZES_MB = (200, 400)
MOST_RATIO = 6.0
"""A verdict may take this many times the plain loop."""
START = datetime(2026, 3, 20, 12, 0, 0)
RUN = """import json, resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "kit", "verdict", sys.argv[1], "--json"], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
found = json.loads(done.stdout)
print(json.dumps({"class": found["class"], "lines": found["facts"]["log_lines"], "mib": used.ru_maxrss / 1024}))
"""
"""Runs the verdict in a process of its own and tells the most memory that it held (ru_maxrss is in KiB)."""


def nccl(rng: random.Random, seconds: float, count: int) -> Iterator[str]:
    """Lines of NCCL from all ranks, as its debug.cc prints them (TRACE with milliseconds, function and line)."""
    for _ in range(count):
        rank = rng.randrange(RANKS)
        device, pid, peer = rank % 8, 41_000 + 137 * rank, (rank + 1) % RANKS
        head = f"gpu-node-{rank // 8:02d}:{pid}:{pid + rng.choice((0, 173, 211))} [{device}]"
        address = f"0x7f{rng.getrandbits(40):010x}"
        channel = f"NCCL INFO Channel {rng.randrange(32):02d}/0 : {rank}[{device}] -> {peer}[{peer % 8}]"
        comm = f"0x55d5c{rank:02x}a0"
        yield rng.choice(
            (
                f"{head} {channel} via P2P/CUMEM/read",
                f"{head} {channel} [send] via NET/IB/0",
                f"{head} NCCL INFO AllReduce: opCount {rng.randrange(4096):x} sendbuff {address} recvbuff {address} count "
                f"{rng.randrange(1 << 22)} datatype 9 op 0 root 0 comm {comm} [nranks={RANKS}] stream {address}",
                f"{head} {seconds * 1e3:f} ncclProxyProgress:812 NCCL TRACE recv peer {peer} offset {rng.randrange(1 << 20)}",
                f"{head} {seconds * 1e3:f} ncclLaunchKernel:1411 NCCL TRACE comm {comm} plan {address} channelMask {address}",
                f"{head} NCCL INFO Trees [0] {peer}/-1/-1->{rank}->{rank - 1} [1] {peer}/-1/-1->{rank}->{rank - 1}",
                f"{head} NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
            )
        )


def stamp(seconds: float) -> str:
    """Time of a vLLM line."""
    return (START + timedelta(seconds=seconds)).strftime("%m-%d %H:%M:%S")


def launch() -> Iterator[tuple[float, str]]:
    """The server's own lines, with the time of each in seconds."""
    yield 0, f"(APIServer pid=40100) INFO {stamp(0)} [api_server.py:1351] vLLM API server version 0.11.0"
    for rank in range(RANKS):
        worker, pid = f"(Worker_TP{rank} pid={41_000 + 137 * rank})", 41_000 + 137 * rank
        begin = f"gpu-node-{rank // 8:02d}:{pid}:{pid} [{rank % 8}] NCCL INFO ncclCommInitRank comm 0x55d5c{rank:02x}a0 "
        begin += f"rank {rank}"
        yield 20, f"{begin} nranks {RANKS} cudaDev {rank % 8} nvmlDev {rank % 8} busId 1b000 commId 0xd3f1 - Init START"
        yield 41, f"{begin} nranks {RANKS} cudaDev {rank % 8} nvmlDev {rank % 8} busId 1b000 commId 0xd3f1 - Init COMPLETE"
        yield 50, f"{worker} INFO {stamp(50)} [gpu_model_runner.py:2602] Starting to load model /models/m..."
    for done in range(0, 97):
        bar = f"Loading safetensors checkpoint shards: {done * 100 // 96:3d}% Completed | {done}/96"
        yield 55 + 2 * done, f"\r{bar} [{2 * done // 60:02d}:{2 * done % 60:02d}<03:12,  2.00s/it]"
    for rank in range(RANKS):
        worker = f"(Worker_TP{rank} pid={41_000 + 137 * rank})"
        yield 250, f"{worker} INFO {stamp(250)} [gpu_model_runner.py:2653] Model loading took 18.2 GiB and 196.1 seconds"
    for text in (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker.py", line 10, in execute',
        "    run()",
        "RuntimeError: NCCL communicator was aborted on rank 5.",
    ):
        yield 300, f"(Worker_TP5 pid=41685) ERROR {stamp(300)} [multiproc_executor.py:671] {text}"


def make(path: Path, size_mb: int) -> None:
    """Write a log of about a size."""
    rng = random.Random(size_mb)
    own = sorted(launch(), key=lambda pair: pair[0])
    between = max(1, size_mb * 1_000_000 // (113 * len(own)))
    with open(path, "w", encoding="utf-8") as file:
        for seconds, line in own:
            file.write(line + "\n")
            file.write("".join(f"{text}\n" for text in nccl(rng, seconds, between)))


def plain(path: Path) -> float:
    """Seconds of a loop that does nothing with the lines."""
    begin = time.perf_counter()
    with open(path, "rb") as file:
        for _ in file:
            pass
    return time.perf_counter() - begin


def verdict(folder: Path) -> tuple[float, dict]:
    """Seconds of the command, and what it found."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", RUN, str(folder)], check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, json.loads(done.stdout)


def main() -> None:
    """Measure and print."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES_MB
    print(f"medians of {REPEATS}, interleaved; most ratio allowed: {MOST_RATIO:g}")
    print(f"{'MB':>6} {'lines':>10} {'plain s':>8} {'verdict s':>10} {'ratio':>6} {'MB/s':>6} {'peak MiB':>9}  class")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.log"
            make(path, size)
            pairs = [(plain(path), verdict(Path(folder))) for _ in range(REPEATS)]
            loop, ours = (statistics.median(column) for column in ([p for p, _ in pairs], [v[0] for _, v in pairs]))
            found, bytes_mb = pairs[-1][1][1], path.stat().st_size / 1e6
            print(
                f"{bytes_mb:6.0f} {found['lines']:10,} {loop:8.2f} {ours:10.2f} {ours / loop:6.1f} {bytes_mb / ours:6.0f} "
                f"{found['mib']:9.1f}  {found['class']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
