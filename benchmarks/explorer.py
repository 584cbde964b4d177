"""Size and speed of the explorer's page beside the same data in Bokeh and Plotly, in a real Chromium.

    .venv/bin/python benchmarks/explorer.py [--long] [--others PYTHON]

`--others` names an interpreter that has bokeh and plotly (they are no dependencies of the kit); without it their lines say so.
`--long` adds six and ten hours of 2,000 threads. A brush is a window set and drawn: the median of nine, and the mean CPU of the
page's main thread, which other work on the machine changes little. Needs Playwright and /usr/bin/chromium.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import TimeoutError, sync_playwright

from kit.show.explorer.pack import pack
from kit.show.explorer.page import explorer_html, page

PATIENCE_S = 180
ZERO = 1_700_000_000 * 10**9
WORDS = "loading shard of layer weights from checkpoint rank waiting for barrier graph capture batch size tokens request".split()
OTHERS = """
import sys, numpy as np
out, points = sys.argv[1], int(sys.argv[2])
x = np.arange(points) / 100.0
lines = [np.cumsum(np.random.default_rng(n).normal(size=points)) for n in range(2)]
try:
    import bokeh
    from bokeh.plotting import figure
    from bokeh.layouts import column
    from bokeh.embed import file_html
    from bokeh.resources import INLINE
    figures = []
    for y in lines:
        shared = {"x_range": figures[0].x_range} if figures else {}
        f = figure(width=1100, height=220, output_backend="canvas", **shared)
        f.line(x, y)
        figures.append(f)
    open(out + "/bokeh.html", "w").write(file_html(column(*figures), INLINE, "bokeh"))
except ImportError:
    pass
try:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots
    f = make_subplots(rows=2, cols=1, shared_xaxes=True)
    for n, y in enumerate(lines):
        f.add_trace(go.Scattergl(x=x, y=y), row=n + 1, col=1)
    f.write_html(out + "/plotly.html", include_plotlyjs=True)
except ImportError:
    pass
"""


def threads(tids: int, moments: int, step_s: float) -> pd.DataFrame:
    """Threads of eight processes: one in fifty is busy, some wake now and then, one is once in D."""
    rng = np.random.default_rng(1)
    awake = rng.random((moments, tids)) < np.where(rng.random(tids) < 0.02, 0.7, 0.001)
    state = np.where(awake, 1, 0).astype(np.int8)
    state[moments // 3, tids // 2] = 2
    spent = np.cumsum(awake * step_s * rng.random((moments, tids), dtype=np.float32), axis=0, dtype=np.float32)
    at = np.repeat((np.arange(moments) * step_s * 1e9).astype(np.int64) + ZERO, tids)
    names = pd.Categorical.from_codes(
        np.tile((np.arange(tids) % 12).astype(np.int8), moments), [f"worker-{n}" for n in range(12)]
    )
    return pd.DataFrame(
        {
            "time": pd.to_datetime(at, utc=True),
            "t_s": (at - ZERO) / 1e9,
            "moment": np.repeat(np.arange(moments), tids),
            "pid": np.tile(100 + np.arange(tids) % 8, moments),
            "tid": np.tile(1000 + np.arange(tids), moments),
            "comm": names,
            "state": pd.Categorical.from_codes(state.ravel(), ["S", "R", "D"]),
            "wchan": pd.Categorical.from_codes(np.zeros(at.size, np.int8), ["futex_wait_queue"]),
            "syscall": pd.Categorical.from_codes(np.zeros(at.size, np.int8), ["futex"]),
            "cpu_s": np.nan,
            "run_s": spent.ravel(),
            "tool": pd.Categorical.from_codes(np.zeros(at.size, np.int8), ["sampler"]),
        }
    )


def processes(moments: int, step_s: float) -> pd.DataFrame:
    """Eight ranks that load weights."""
    from kit.frames import FRAMES

    rng = np.random.default_rng(2)
    grown = np.minimum(np.cumsum(rng.random((moments, 8)) * 0.4, axis=0), 60) * 2**30
    spent = np.cumsum(rng.random((moments, 8)) * step_s, axis=0)
    rows = [
        {"pid": 100 + n, "time": ZERO + int(m * step_s * 1e9), "moment": m, "tool": "sampler", "capture": "s"}
        | {"rss_bytes": int(grown[m, n]), "cpu_s": float(spent[m, n]), "cmdline": f"sglang::scheduler_TP{n}"}
        for m in range(moments)
        for n in range(8)
    ]
    return FRAMES["processes"].build(rows)


def made(tids: int, moments: int, step_s: float, records: int, calls: int) -> dict[str, pd.DataFrame]:
    """Frames of a launch."""
    from kit.frames import FRAMES

    rng = np.random.default_rng(3)
    end_ns = int(moments * step_s * 1e9)
    at = np.sort(rng.integers(0, end_ns, records))
    log = [
        {
            "record": n,
            "line": n + 1,
            "time": ZERO + int(t),
            "kind": ("progress", "other", "heartbeat")[n % 3],
            "capture": "server.log",
        }
        | {"text": f"{' '.join(rng.choice(WORDS, 8))} {rng.integers(1e6)}", "raw": "", "level": "INFO", "rank": int(n % 8)}
        for n, t in enumerate(at)
    ]
    took = rng.exponential(2e-3, calls)
    when = np.sort(rng.integers(0, end_ns, calls))
    trace = [
        {"pid": 1000 + n % 40, "syscall": ("futex", "read", "epoll_wait", "write", "mmap")[n % 5], "duration_s": float(took[n])}
        | {
            "time": ZERO + int(when[n]),
            "args": f"{n % 90}, 0x{n * 7919:x}",
            "result": "0",
            "state": "done",
            "capture": "strace.txt",
        }
        for n in range(calls)
    ]
    frames = {"log": FRAMES["log"].build(log), "syscalls": FRAMES["syscalls"].build(trace)}
    return {**frames, "processes": processes(moments, step_s), "threads": threads(tids, moments, step_s)}


def spent(session) -> float:
    """CPU seconds of the page's main thread so far."""
    return next(one["value"] for one in session.send("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration")


def row(browser, file: Path, ready: str, brush: Callable[[Any], float]) -> str:
    """Size of a page, its first picture and a brush, as cells of the table; each page is a fresh one."""
    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        tab = context.new_page()
        tab.set_default_timeout(1000 * PATIENCE_S)
        session = context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        began, size = time.perf_counter(), f"{file.stat().st_size / 1e6:.2f} MB"
        try:
            tab.goto(file.as_uri())
            tab.wait_for_function(ready)
        except TimeoutError:
            return f"{size} | not within {PATIENCE_S} s | |"
        first, used = time.perf_counter() - began, spent(session)
        took, brushes = brush(tab), spent(session) - used
        return f"{size} | {first:.2f} s, {used:.2f} s | {took:.0f} ms, {1000 * brushes / 9:.0f} ms |"


def brushed(tab) -> float:
    """Milliseconds that a new window takes to be drawn, the median of nine."""
    return tab.evaluate(
        "() => { const v = document.querySelector('.sk').explorer; const took = []; for (let n = 1; n < 10; n++) {"
        "const w = (v.span[1] - v.span[0]) / (n + 1); v.window = [v.span[0] + w / n, v.span[0] + w / n + w]; v.draw();"
        "took.push(v.drawn); } return took.sort((a, b) => a - b)[4]; }"
    )


BRUSHES = {
    "bokeh": "(a, b) => { const doc = Bokeh.documents[0], view = Bokeh.index.roots[0].child_views[0];"
    "doc.roots()[0].children[0].x_range.setv({start: a, end: b}); view.paint?.();"
    "return new Promise((on) => requestAnimationFrame(() => setTimeout(on)));}",
    "plotly": "(a, b) => Plotly.relayout(document.querySelector('.plotly-graph-div'), {'xaxis.range': [a, b]})",
}
"""How a window is set in the others: it resolves once it is drawn."""


def brushed_there(tab, name: str, end: float) -> float:
    """Milliseconds that a new window takes to be drawn there, the median of nine."""
    return tab.evaluate(
        f"async () => {{ const set = {BRUSHES[name]}; const took = []; for (let n = 1; n < 10; n++) {{"
        f"const w = {end} / (n + 1), at = performance.now(); await set(w / n, w / n + w); took.push(performance.now() - at); }}"
        "return took.sort((a, b) => a - b)[4]; }"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--others", default=None)
    options = parser.parse_args()
    cases = {"8 processes, 1,845 threads, 600 s, 5,000 records, 20,000 calls": (1845, 600, 1.0, 5_000, 20_000)}
    cases["a million samples: 1,000 threads, 1,000 s"] = (1000, 1000, 1.0, 5_000, 20_000)
    if options.long:
        cases["6 hours, 2,000 threads, every 10 s, 50,000 records, 100,000 calls"] = (2000, 2160, 10.0, 50_000, 100_000)
        cases["10 hours, 2,000 threads, every 10 s, 100,000 records, 200,000 calls"] = (2000, 3600, 10.0, 100_000, 200_000)
    print("| what | packed in: CPU | page | first picture: wall, CPU | a brush: wall, CPU |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, size in cases.items():
            frames = made(*size)
            began = time.process_time()
            packed = pack(frames, zero_ns=ZERO, ranks={100 + n: n for n in range(8)})
            took = time.process_time() - began
            file = Path(scratch) / "kit.html"
            file.write_text(page(explorer_html(packed), "explorer"), encoding="utf-8")
            drawn = row(browser, file, "document.querySelector('.sk')?.explorer?.drawn", brushed)
            print(f"| {name} | {took:.1f} s | {drawn}", flush=True)
            del frames
        if options.others:
            subprocess.run([options.others, "-c", OTHERS, scratch, "500000"], check=True)
        ready = {
            "bokeh": "document.querySelector('.bk-Figure, [class*=bk]') && window.Bokeh?.documents?.[0]?.is_idle",
            "plotly": "document.querySelector('canvas') && document.querySelector('.xaxislayer-above text')",
        }
        for name, condition in ready.items():
            file = Path(scratch) / f"{name}.html"
            if not file.exists():
                print(f"| {name}: not installed in {options.others or 'any interpreter given with --others'} | | | | |")
                continue
            drawn = row(browser, file, condition, lambda tab, name=name: brushed_there(tab, name, 5000.0))
            print(f"| {name}: two lines of 500,000 samples alone | | {drawn}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
