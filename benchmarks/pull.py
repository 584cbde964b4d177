"""Speed of fetching a log over SSH against `scp`, on the loopback and through a proxy that adds 50 ms to a round trip.

Each repeat takes the three in turn, each from connecting to the last byte on the disk here: `scp`, `HostFile.stream` (what
every log is read by), and `kit pull`, which scrubs each line on the way. Medians of the repeats, ratios within one run.

    .venv/bin/python benchmarks/pull.py [--megabytes 150] [--repeats 5]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.capture.hosts.targets import open_host  # noqa: E402
from kit.capture.logs.pull import pull  # noqa: E402
from kit.doctor import find_program  # noqa: E402
from tests.sshd import Sshd  # noqa: E402

BOUNDS = {"loopback": 0.8, "50 ms": 2.0}
"""How many times as fast as scp `HostFile.stream` has to be."""
DELAY_S = 0.025
PROXY = (
    "import sys\nfrom tests.sshd import Proxy\n"
    "with Proxy(int(sys.argv[1]), float(sys.argv[2])) as proxy:\n    print(proxy.port, flush=True)\n    sys.stdin.read()\n"
)
"""In a process of its own, for it would share the interpreter's lock with what it is to measure."""


@contextmanager
def slow(server: Sshd) -> Iterator[int]:
    """Port of a proxy that adds 50 ms to a round trip."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-c", PROXY, str(server.port), str(DELAY_S)]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        server.know(port)
        yield port
        process.stdin.close()


def write_log(path: Path, megabytes: int) -> None:
    """A log of a launch: lines of a server, of which no two are equal."""
    with open(path, "w") as file:
        number = 0
        while file.tell() < megabytes * 1_000_000:
            file.writelines(
                f"INFO 03-20 12:{one // 60_000 % 60:02d}:{one // 1000 % 60:02d} [gpu_model_runner.py:{one % 977}] "
                f"(EngineCore_DP0 pid={41_000 + one % 8}) Capturing CUDA graph {one} took {one * 0.37 % 9:.3f} s, "
                f"address 0x{one * 2_654_435_761:016x}\n"
                for one in range(number, number + 50_000)
            )
            number += 50_000


def ways(server: Sshd, port: int, log: Path, here: Path) -> dict[str, Callable[[], None]]:
    """What is compared, by name."""
    target = f"ssh://{server.user}@127.0.0.1:{port}"

    def by_scp() -> None:
        options = ["-q", "-F", server.config, "-o", f"UserKnownHostsFile={server.known_hosts}", "-P", str(port)]
        subprocess.run(["scp", *options, f"{server.user}@127.0.0.1:{log}", here / "scp"], check=True)

    def by_stream() -> None:
        with open_host(target, **server.options()) as host, open(here / "stream", "wb") as file:
            source = host.open_file(str(log))
            file.writelines(source.stream(0, source.stat().size))
            source.close()

    def by_pull() -> None:
        shutil.rmtree(here / "run", ignore_errors=True)
        pull(target, str(log), out=here / "run", progress=lambda text: None, **server.options())

    return {"scp": by_scp, "stream": by_stream, "kit pull": by_pull}


def measure(compared: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(repeats):
        for name, act in compared.items():
            before = time.perf_counter()
            act()
            seconds[name].append(time.perf_counter() - before)
    return seconds


def main() -> int:
    """Print a table; exit code 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        log, here = Path(folder, "server.log"), Path(folder)
        write_log(log, options.megabytes)
        server = Sshd(find_program("sshd"), here / "sshd").start()
        try:
            with slow(server) as far:
                for name, port in (("loopback", server.port), ("50 ms", far)):
                    found = measure(ways(server, port, log, here), options.repeats)
                    middle = {way: statistics.median(seconds) for way, seconds in found.items()}
                    print(f"{name}: {log.stat().st_size / 1e6:.0f} MB, medians of {options.repeats}")
                    for way, seconds in middle.items():
                        spread = f"{min(found[way]):.2f} to {max(found[way]):.2f} s"
                        ratio = middle["scp"] / seconds
                        print(f"  {way:9} {log.stat().st_size / seconds / 1e6:6.1f} MB/s  {ratio:5.2f} x scp  ({spread})")
                    missed += middle["scp"] / middle["stream"] < BOUNDS[name]
                    print(f"  bound: stream >= {BOUNDS[name]:g} x scp")
                    assert (here / "stream").read_bytes() == (here / "scp").read_bytes() == log.read_bytes()
        finally:
            server.stop()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
