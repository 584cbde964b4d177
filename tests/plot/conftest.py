"""Frames of a launch in the shape of a stalled one: eight ranks, many threads, one odd rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from kit.frames import FRAMES

GIB = 2**30
ZERO_NS = 1_771_374_484_000_000_000
ODD_PID, STOPPED_TID, SPINNING_TID = 4405, 440_707, 440_503


def timed(t_s: float, **values) -> dict:
    return {"time": ZERO_NS + int(t_s * 1e9), "t_s": t_s, "capture": "sampler.jsonl", **values}


@cache
def _processes():
    """Eight schedulers over 20 s; rank 5 holds less memory than its peers and burns a core."""
    rows = []
    for moment in range(20):
        for rank in range(8):
            pid = 4400 + rank
            anon = (20 if pid == ODD_PID else 40) * GIB
            rows.append(
                timed(
                    60.0 + moment,
                    moment=moment,
                    pid=pid,
                    comm="sglang::schedul",
                    cmdline=f"sglang::scheduler_TP{rank}",
                    state="S",
                    rss_anon_bytes=anon,
                    rss_file_bytes=9 * GIB,
                    rss_shmem_bytes=4 * GIB,
                    rss_bytes=anon + 13 * GIB,
                    utime_s=moment * (1.0 if pid == ODD_PID else 0.02),
                    stime_s=1.0,
                    tool="sampler",
                )
            )
    return FRAMES["processes"].build(rows)


@pytest.fixture
def processes():
    """`_processes`, made once: each test has a copy of its own."""
    return _processes().copy()


@cache
def _threads():
    """1,600 threads at 20 moments, all asleep but two: one always runs, one stops near the end."""
    rows = []
    for moment in range(20):
        for rank in range(8):
            for number in range(200):
                tid = 440_000 + rank * 100 + number * 1000
                tid = {(5, 3): SPINNING_TID, (7, 7): STOPPED_TID}.get((rank, number), tid)
                state = "R" if tid == SPINNING_TID else "T" if tid == STOPPED_TID and moment > 16 else "S"
                rows.append(
                    timed(
                        60.0 + moment,
                        moment=moment,
                        pid=4400 + rank,
                        tid=tid,
                        comm=f"worker{number}",
                        state=state,
                        tool="sampler",
                    )
                )
    return FRAMES["threads"].build(rows)


@pytest.fixture
def threads():
    """`_threads`, made once: each test has a copy of its own."""
    return _threads().copy()


@pytest.fixture
def log():
    """Progress up to 50 s, one error among it, then heartbeats to 80 s."""
    kinds = [(float(second), "progress") for second in range(51)] + [(30.5, "error")]
    kinds += [(float(second), "heartbeat") for second in range(60, 81, 10)]
    return FRAMES["log"].build(
        [
            timed(t_s, record=number, kind=kind, text="x", raw="x", line=number + 1)
            for number, (t_s, kind) in enumerate(sorted(kinds))
        ]
    )


@pytest.fixture
def syscalls():
    """300 calls in 3 s; one futex never returns."""
    rows = [
        timed(
            70.0 + number / 100,
            pid=SPINNING_TID,
            syscall=("write", "futex", "epoll_wait")[number % 3],
            duration_s=(0.004, 0.002, 0.001)[number % 3],
            state="done",
        )
        for number in range(300)
    ]
    rows.append(timed(73.0, pid=SPINNING_TID, syscall="futex", state="open"))
    return FRAMES["syscalls"].build(rows)


@pytest.fixture
def frames(processes, threads, log, syscalls):
    return {"processes": processes, "threads": threads, "log": log, "syscalls": syscalls}


@pytest.fixture
def untimed() -> Callable:
    """`untimed(frame)` is the frame as a capture without any clock gives it."""

    def strip(frame):
        import pandas as pd

        return frame.assign(t_s=float("nan"), time=pd.Series(pd.NaT, index=frame.index, dtype=frame["time"].dtype))

    return strip


@pytest.fixture
def rgb() -> Callable:
    """`rgb(figure)` draws a figure and gives its pixels, shape (height, width, 3)."""

    def draw(figure):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        import numpy as np

        return np.asarray(canvas.buffer_rgba())[..., :3]

    return draw
