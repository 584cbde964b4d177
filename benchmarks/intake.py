"""What unpacking, decoding, cutting and recognising cost beside the verdict: `.venv/bin/python benchmarks/intake.py --mib 1024`.

Times are CPU of this process, the best of `--repeats`: other work on the machine sways them less than wall time. The log is made
of lines as vLLM and NCCL print them.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kit
from kit import parse
from kit.intake import segments

MIB = 1 << 20


def lines() -> Iterator[str]:
    """Lines of a launch that never end: ranks in turn, numbers that change."""
    yield "INFO 10-09 22:10:00 [__init__.py:216] Automatically detected platform cuda.\n"
    n = 0
    while True:
        n += 1
        rank, clock = n % 8, f"22:{n // 6000 % 60:02}:{n // 100 % 60:02}"
        writer = f"(Worker_TP{rank} pid={500 + rank}) INFO 10-09 {clock} [gpu_model_runner.py:2602]"
        yield f"gpu07:{700 + rank}:{812 + rank} [{rank}] NCCL INFO Channel {n % 16:02d}/0 : {rank} -> {n % 7} via P2P\n"
        yield f"{writer} step {n} took {n % 97} ms, {n % 13} waiting\n"


def write(path: Path, mib: int, prefix: str = "", opened: Callable = open) -> Path:
    """A log of a size."""
    with opened(path, "wt") as file:
        size, block = 0, []
        for line in lines():
            block.append(prefix + line)
            size += len(prefix) + len(line)
            if len(block) == 20_000:
                file.write("".join(block))
                block = []
            if size >= mib * MIB:
                break
        file.write("".join(block))
    return path


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Least CPU of a call."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def taken(path: Path) -> int:
    return sum(1 for _ in segments(path, lambda name, head: parse.recognise(name, head)[0]))


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--mib", type=int, default=1024)
    ask.add_argument("--repeats", type=int, default=2)
    args = ask.parse_args()
    print(f"{'evidence':34} {'intake':>9} {'verdict':>9} {'share':>7}")
    with tempfile.TemporaryDirectory() as folder:
        stamped = "2026-10-09T22:10:00.000000000Z "
        made = {
            f"log, {args.mib} MiB": lambda path: write(path, args.mib),
            f"docker logs -t, {args.mib} MiB": lambda path: write(path, args.mib, stamped),
            f"gzip, {args.mib // 4} MiB unpacked": lambda path: write(path.with_suffix(".log.gz"), args.mib // 4, "", gzip.open),
            "one line of 100 MB": lambda path: path.write_text("INFO " + "x" * 100_000_000),
            "100,000 prompts": lambda path: path.write_text(
                "".join(f"u@h:~$ cat /proc/{n}/wchan\nep_poll\n" for n in range(100_000))
            ),
        }
        for name, make in made.items():
            case = Path(folder, name.split(",")[0].replace(" ", "-"))
            case.mkdir()
            make(case / "server.log")
            (path,) = case.iterdir()
            intake = seconds(lambda path=path: taken(path), args.repeats)
            judged = seconds(lambda path=path: kit.verdict(path), args.repeats)
            print(f"{name:34} {intake:8.2f}s {judged:8.2f}s {100 * intake / judged:6.1f}%", flush=True)
            path.unlink()
        tidy = kit.sample_path("sg01-capture-hang")
        files = [path for path in Path(tidy).rglob("*") if path.is_file() and path.name != "run.json"]
        intake = seconds(lambda: [taken(path) for path in files], 5)
        judged = seconds(lambda: kit.verdict(tidy), 5)
        print(f"{'tidy folder (sg01-capture-hang)':34} {intake:8.3f}s {judged:8.3f}s {100 * intake / judged:6.1f}%")


if __name__ == "__main__":
    main()
