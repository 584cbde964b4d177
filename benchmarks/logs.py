"""CPU and memory of `kit verdict` on a huge log, against a plain loop over its lines. Makes the logs itself.

`nccl` is the log of a vLLM launch on 64 ranks with NCCL_DEBUG=TRACE: the server's own lines, progress bars and a traceback
between hundreds of thousands of lines of NCCL. `busy` is that of a vLLM server at work: access lines, metrics, requests with
their prompts; the forms after it are the same log as other tools hand it on. What a verdict takes has a fixed part (imports,
the first lines, what is read with care) and one that grows with the log: two sizes tell them apart.

    .venv/bin/python benchmarks/logs.py [--repeats N] [--form FORM ...] [MEGABYTES ...]

Two sizes by default, 200 and 400, to show that memory does not grow; the bound on the ratio is meant for 1000.
"""

from __future__ import annotations

import argparse
import json
import os
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
cpu = used.ru_utime + used.ru_stime
print(json.dumps({"class": found["class"], "lines": found["facts"]["log_lines"], "mib": used.ru_maxrss / 1024, "cpu": cpu}))
"""
"""Runs the verdict in a process of its own; tells its CPU, and the most memory that it held (ru_maxrss is in KiB)."""


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


WORDS = "the a model answer why how write code table of and in with please explain list error failed 42 json cat dog city".split()


def busy(size: int) -> Iterator[str]:
    """Lines of a vLLM server at work, until they have a size in bytes; a launch begins them."""
    rng = random.Random(7)
    for seconds, text in launch():
        if seconds < 300 and not text.startswith("\r"):
            yield text
    for text in ("Started server process [40100]", "Waiting for application startup.", "Application startup complete."):
        yield f"(APIServer pid=40100) INFO:     {text}"
    written, number = 0, 0
    while written < size:
        number += 1
        seconds = 300 + number / 40
        head, peer = f"(APIServer pid=40100) INFO {stamp(seconds)}", f"10.0.{rng.randrange(9)}.{rng.randrange(250)}"
        request = f"chatcmpl-{rng.getrandbits(128):032x}"
        kind = rng.random()
        if kind < 0.45:
            path = rng.choice(("/v1/chat/completions", "/v1/completions", "/v1/embeddings"))
            line = f'(APIServer pid=40100) INFO:     {peer}:{rng.randrange(30_000, 60_000)} - "POST {path} HTTP/1.1" 200 OK'
        elif kind < 0.6:
            path = rng.choice(("/health", "/metrics"))
            line = f'(APIServer pid=40100) INFO:     {peer}:{rng.randrange(30_000, 60_000)} - "GET {path} HTTP/1.1" 200 OK'
        elif kind < 0.7:
            line = (
                f"{head} [loggers.py:127] Engine 000: Avg prompt throughput: {rng.random() * 900:.1f} tokens/s, Avg generation "
                f"throughput: {rng.random() * 900:.1f} tokens/s, Running: {rng.randrange(40)} reqs, "
                f"Waiting: {rng.randrange(9)} reqs, GPU KV cache usage: {rng.random() * 99:.1f}%"
            )
        elif kind < 0.85:
            prompt = " ".join(rng.choices(WORDS, k=rng.randrange(5, 60)))
            line = (
                f"{head} [logger.py:43] Received request {request}: prompt: '{prompt}', params: SamplingParams(n=1, "
                f"temperature={rng.random():.2f}, max_tokens={rng.randrange(4096)}), prompt_token_ids: None, lora_request: None."
            )
        else:
            line = f"{head} [async_llm.py:271] Added request {request}."
        written += len(line) + 1
        yield line


def dressed(form: str, number: int, line: str) -> str:
    """A line as a tool hands it on."""
    when = START + timedelta(seconds=number / 40)
    iso = when.strftime("%Y-%m-%dT%H:%M:%S") + f".{number % 10**9:09}Z"
    if form == "docker":
        return f"{iso} {line}"
    if form == "kubectl":
        return f"[pod/vllm-7f9c8d5b4-x7k2p/server] {iso} {line}"
    if form == "journal":
        return f"{when:%b %d %H:%M:%S} gpu-node-00 vllm[40100]: {line}"
    if form == "coloured":
        return line.replace("(APIServer pid=40100)", "\x1b[1;36m(APIServer pid=40100)\x1b[0;0m").replace(
            "200 OK", "\x1b[32m200 OK\x1b[0m"
        )
    if form == "shipper":
        about = {"offset": 131 * number, "stream": "stderr", "kubernetes": {"pod_name": "vllm", "container_name": "server"}}
        return json.dumps({"@timestamp": iso, "message": line, **about})
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": iso}) if form == "json" else line


FORMS = ("nccl", "busy", "docker", "kubectl", "journal", "coloured", "json", "shipper")


def write(path: Path, form: str, size_mb: int) -> None:
    """Write a log of about a size in a form."""
    if form == "nccl":
        make(path, size_mb)
        return
    with open(path, "w", encoding="utf-8") as file:
        left = size_mb * 1_000_000
        for number, line in enumerate(busy(left)):
            left -= file.write(dressed(form, number, line) + "\n")
            if left < 0:
                break


def plain(path: Path) -> float:
    """Seconds of CPU of a loop that does nothing with the lines."""
    begin = time.process_time()
    with open(path, "rb") as file:
        for _ in file:
            pass
    return time.process_time() - begin


def verdict(folder: Path) -> tuple[float, dict]:
    """Seconds of CPU of the command, and what it found."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as users run it
    done = subprocess.run([sys.executable, "-c", RUN, str(folder)], check=True, capture_output=True, text=True, env=env)
    found = json.loads(done.stdout)
    return found["cpu"], found


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--repeats", type=int, default=REPEATS)
    ask.add_argument("--form", choices=FORMS, nargs="+", default=FORMS)
    ask.add_argument("megabytes", type=int, nargs="*", default=SIZES_MB)
    args = ask.parse_args()
    print(f"CPU, medians of {args.repeats}, interleaved; most ratio allowed: {MOST_RATIO:g}")
    print(f"{'form':8} {'MB':>6} {'lines':>10} {'plain s':>8} {'verdict s':>10} {'ratio':>6} {'MB/s':>6} {'peak MiB':>9}  class")
    measured: dict[str, list[tuple[float, float]]] = {}
    for form, size in [(form, size) for form in args.form for size in args.megabytes]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.log"
            write(path, form, size)
            pairs = [(plain(path), verdict(Path(folder))) for _ in range(args.repeats)]
            loop, ours = (statistics.median(column) for column in ([p for p, _ in pairs], [v[0] for _, v in pairs]))
            measured.setdefault(form, []).append((loop, ours))
            found, bytes_mb = pairs[-1][1][1], path.stat().st_size / 1e6
            print(
                f"{form:8} {bytes_mb:6.0f} {found['lines']:10,} {loop:8.2f} {ours:10.2f} {ours / loop:6.1f} "
                f"{bytes_mb / ours:6.0f} {found['mib']:9.1f}  {found['class']}",
                flush=True,
            )
        if len(args.megabytes) > 1 and size == args.megabytes[-1]:
            (loop, ours), (loop_last, last) = measured[form][0], measured[form][-1]
            each = (last - ours) / (loop_last - loop)
            print(f"{form:8} fixed {ours - each * loop:.2f} s, then {each:.1f} line loops", flush=True)


if __name__ == "__main__":
    main()
