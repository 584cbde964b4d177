"""How often a post-mortem reads each capture, and what it costs beside a verdict: for a bundled run and a generated large log.

    .venv/bin/python benchmarks/reads.py [--mb 200] [RUN]

Prints the reads of each capture in a verdict, in a redraw of `kit watch` and in the post-mortem notebook, then CPU seconds of
`kit verdict`, of an empty notebook that is executed, of the verdict with its figures drawn into files, and of `kit report`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import nbformat

import kit
from kit.live.watch import watch_frame
from kit.render.notebook import execute, notebook_path, with_parameters

BUNDLED = kit.sample_path("pipe-ticker")
LAUNCH = kit.sample_path("stopped-rank") / "raw" / "server.log"


EMPTY = """
import sys, nbformat, pathlib
from kit.render.notebook import execute
execute(nbformat.read(sys.argv[1], as_version=4), pathlib.Path("."))
"""
FIGURES = """
import sys, kit
from kit import plot
run = kit.open_run(sys.argv[1])
drawn = [plot.plot_timeline(run, verdict=kit.verdict(run)), plot.plot_memory(run.processes), plot.plot_thread_strip(run.threads)]
for number, one in enumerate([*drawn, plot.plot_syscall_time(run.syscalls)]):
    one.get_figure(root=True).savefig(f"{sys.argv[2]}/{number}.svg")
"""
"""What a report would hold at the least, as programs of their own."""


def large_log(path: Path, size_mb: float) -> None:
    """Write a launch under `NCCL_DEBUG=TRACE`: the log of a real launch, then lines of NCCL that differ in numbers."""
    rng, left = random.Random(1), size_mb * 1e6
    with open(path, "w", encoding="utf-8") as file:
        file.write(LAUNCH.read_text(encoding="utf-8"))
        while left > 0:
            rank, peer = rng.randrange(16), rng.randrange(16)
            head = f"node-{rank // 8}:{7000 + rank}:{7100 + rank} [{rank % 8}] NCCL INFO"
            left -= file.write(
                f"{head} Channel {rng.randrange(32):02d}/0 : {rank} -> {peer} comm 0x7f{rng.getrandbits(40):010x}\n"
            )


def in_notebook(run: Path) -> dict[str, int]:
    """Reads of each capture by all cells of the post-mortem."""
    path = notebook_path("01_postmortem.ipynb")
    notebook = with_parameters(nbformat.read(path, as_version=4), {"run_path": str(run), "captured_at": None, "knowledge": None})
    notebook.cells.append(nbformat.v4.new_code_cell("import json; print(json.dumps(run.reads))"))
    if failures := execute(notebook, path.parent):
        raise SystemExit("\n".join(failures))
    return json.loads(notebook.cells[-1].outputs[0].text)


def cpu_s(*arguments: str, environment: dict[str, str]) -> float:
    """CPU seconds of a command with everything that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(run: Path, scratch: Path) -> None:
    """Print what is known of one run."""
    judged, drawn = kit.open_run(run), kit.open_run(run)
    kit.verdict(judged)
    watch_frame(drawn)
    reads = {"verdict": judged.reads, "redraw": drawn.reads, "notebook": Counter(in_notebook(run))}
    print(
        f"\n{run.name}: {sum(capture.size_bytes for capture in judged.captures) / 1e6:,.1f} MB in {len(judged.captures)} captures"
    )
    print(f"{'reads':32} {' '.join(f'{name:>9}' for name in reads)}")
    for capture in judged.captures:
        print(f"{capture.file:32} {' '.join(f'{count[capture.file]:9}' for count in reads.values())}")
    empty = scratch / "empty.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("pass", metadata={"tags": ["parameters"]})]), empty)
    environment = {"XDG_CACHE_HOME": str(scratch / "cache")}
    verdict = cpu_s("-m", "kit", "verdict", str(run), environment=environment)
    nothing = cpu_s("-c", EMPTY, str(empty), environment=environment)
    figures = cpu_s("-c", FIGURES, str(run), str(scratch), environment=environment)
    report = cpu_s("-m", "kit", "report", str(run), "-o", str(scratch / "report.html"), environment=environment)
    print(f"CPU: verdict {verdict:.1f} s, empty notebook {nothing:.1f} s, figures {figures:.1f} s, report {report:.1f} s")
    print(f"report = {report / (nothing + figures):.1f} x (empty notebook + figures)")


def main() -> None:
    """Measure the bundled run and a large log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--mb", type=float, default=200, help="size of the large log; 0 leaves it out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        measure(args.run, scratch)
        if args.mb:
            (scratch / "large").mkdir()
            large_log(scratch / "large" / "server.log", args.mb)
            measure(scratch / "large", scratch)


if __name__ == "__main__":
    main()
