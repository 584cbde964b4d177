"""A run as one pack of bytes, which the explorer's module draws: in a notebook, and in a page without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from kit.analyse.verdict.scene import scene_of_run
from kit.clock import NS
from kit.plot.style import KIND_COLOUR, PHASE_COLOUR, SERIES, STATE_COLOUR, STATE_NAME
from kit.run import Run
from kit.show.explorer import story, tracks
from kit.show.explorer.packing import Packer

PALETTE = {"phase": PHASE_COLOUR, "kind": KIND_COLOUR, "state": STATE_COLOUR, "series": list(SERIES)}
NO_BANDS = pd.DataFrame({name: [] for name in ("rank", "phase", "begin_t_s", "end_t_s")})


def frames_of(run: Run) -> dict[str, Any]:
    """The frames of a run that the explorer draws; a large log condensed."""
    frames = {name: run.frame(name, tracks.COLUMNS.get(name)) for name in tracks.FRAMES_SHOWN if name not in ("log", "syscalls")}
    frames["syscalls"] = run.condensed_calls(tracks.CALLS)
    return {**frames, "threads": run.thread_history(), "log": run.condensed_log(), "phases": run.phases()}


def pack_run(run: Run, *, moments: bool = False, clean: Callable[[str], str] = str, good: Run | None = None) -> bytes:
    """Pack a run.

    `moments`: judge it as of its earlier moments too, for where no kernel can be asked. `clean`: what every text of the run
    passes through: masking for a page that is mailed. `good`: a launch that worked, which the verdict is held against.
    """
    scene = scene_of_run(run)
    ranks = {pid: rank for rank, pid in scene.processes.rank_pid.items()}
    zero = run.launch_zero_ns
    # The time of a file may be that of its copy, months later.
    captured = (run.captured_ns - zero) / NS if zero and run.captured_known else None
    return pack(
        frames_of(run),
        name=run.name,
        zero_ns=zero,
        offset_s=run.offset_s,
        ranks=ranks,
        captured_s=captured,
        silence_s=scene.silence_s,
        judge=lambda: story.judged(run, clean=clean, good=good),
        moments=(lambda events, span: story.earlier(run, events, span, clean)) if moments else None,
        clean=clean,
        port=scene.fact("port"),
    )


def pack(
    frames: Mapping[str, pd.DataFrame],
    *,
    name: str = "",
    zero_ns: int | None = None,
    offset_s: int = 0,
    ranks: Mapping[int, int] | None = None,
    captured_s: float | None = None,
    silence_s: float | None = None,
    judge: Callable[[], dict] | None = None,
    moments: Callable[[list[dict], tuple[float, float]], list[dict]] | None = None,
    clean: Callable[[str], str] = str,
    port: int | None = None,
) -> bytes:
    """Pack frames by name; times in seconds since launch, ranks by pid."""
    packer = Packer()
    run = tracks.clocked(frames, zero_ns, ranks, clean, port)
    bands = frames.get("phases", NO_BANDS)
    if run.zero is not None and "begin" in bands and not bands["begin_t_s"].notna().any():
        begin, end = ((bands[one] - run.zero).dt.total_seconds() for one in ("begin", "end"))
        bands = bands.assign(begin_t_s=begin, end_t_s=end)
    span = tracks.span_of(run, bands, captured_s)
    progress = run.frames["log"].loc[run.frames["log"]["kind"] == "progress", "t_s"].max()
    knee = None if pd.isna(progress) else float(progress)
    if silence_s is not None and captured_s is not None:
        knee = captured_s - silence_s
    phases = tracks.phase_bands(bands, span[1])
    gaps = run.frames["gaps"].dropna(subset=["t_s"])
    events = story.events_of(run.frames, phases.get("bands", []), knee, span[1])
    head: dict[str, Any] = {
        "version": 1,
        "name": clean(name),
        "zero_ms": None if run.zero is None else run.zero.value // 1_000_000,
        "offset_s": offset_s,
        "from_launch": run.from_launch,
        "span": span,
        "knee": knee,
        "palette": PALETTE,
        "state_names": STATE_NAME,
        "ranks": sorted({int(rank) for rank in run.ranks.values()}),
        "processes": run.processes(),
        "pids": {str(pid): rank for pid, rank in run.ranks.items()},
        "gaps": [[round(gap.t_s, 3), round(gap.t_s + gap.duration_s, 3), clean(gap.why)] for gap in gaps.itertuples()],
        "events": [{**event, "label": clean(event["label"])} for event in events],
        "tracks": {
            "phases": phases,
            "log": tracks.log_track(packer, run, span),
            "memory": tracks.memory_track(packer, run),
            "cpu": tracks.cpu_track(packer, run),
            "reads": tracks.reads_track(packer, run),
            **tracks.gpu_tracks(packer, run),
            "threads": tracks.thread_table(packer, run),
            "calls": tracks.calls_track(packer, run, span),
            "sockets": tracks.socket_track(packer, run),
        },
        "verdict": judge() if judge is not None else None,
        "moments": moments(events, span) if moments is not None else [],
    }
    return packer.bytes(head)
