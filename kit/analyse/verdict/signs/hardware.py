"""Faults of the GPU: Xids, lost devices, ECC and remapped rows, a driver's tool that fails."""

from __future__ import annotations

import re

from kit.analyse.verdict.attribution import death_told, kernel_rows, launch_pids
from kit.analyse.verdict.evidence import ref
from kit.analyse.verdict.failures import cause, worked_after
from kit.analyse.verdict.gpu_generation import xids
from kit.analyse.verdict.rules import rule
from kit.analyse.verdict.scene import Scene, Sign, Signs
from kit.words import count_of, short

GPU_TOOLS = ("nvidia-smi", "rocm-smi")
GONE = re.compile(r"Unable to determine the device handle|GPU is lost|fallen off the bus")
"""What nvidia-smi says of a GPU that left the bus."""
LOST = ("gpu_lost", "ecc", "gpu_reset", "gpu_job_timeout")
BAD_ROWS = ("uncorrectable", "failure", "pending")


@rule("xid_hardware", "xid_application", "xid_untied", needs=("kernel_log|log",))
def xid(scene: Scene) -> Signs:
    """Xids of the device itself, and Xids that a program may cause as well; a log viewer puts the kernel's lines into the log.

    What a program caused is its own: where nothing of the launch failed, that of another pid may be another program's.
    """
    logged = [row for row in kernel_rows(scene, "xid") if row.get("xid") is not None]
    told = (mark for mark in scene.log.of("xid") if not worked_after(scene.log, mark))
    logged += [{**mark.ref, **mark.fields, "text": mark.text} for mark in told if mark.fields.get("xid") is not None]
    for origin in ("hardware", "application"):
        rows = [row for row in logged if row["xid"] in xids(origin, scene.evidence.run.knowledge)]
        if rows:
            numbers = ", ".join(str(number) for number in dict.fromkeys(row["xid"] for row in rows))
            buses = sorted({row["bus_id"] for row in rows if row.get("bus_id")})
            place = f" on {', '.join(buses)}" if buses else ""
            claim = f"the kernel logged Xid {numbers}{place} ({count_of(len(rows), 'line')})"
            own = launch_pids(scene)
            others = origin == "application" and own and not own & {row.get("pid") or min(own) for row in rows}
            first = scene.log.first_time
            before = first is not None and scene.fact("ready") and all((row.get("time") or first) < first for row in rows)
            if (others or before) and not death_told(scene) and cause(scene.log) is None:
                untied = "before the first line of its log" if before else "of a process that nothing ties to this launch"
                yield Sign("xid_untied", f"{claim}, {untied}", [ref(rows[0], rows[0]["text"])])
            else:
                yield Sign(f"xid_{origin}", claim, [ref(row, row["text"]) for row in rows[:3]])


@rule("gpu_lost", needs=("kernel_log",))
def lost(scene: Scene) -> Signs:
    """A GPU that left the bus, was reset, or reports uncorrectable memory."""
    for row in kernel_rows(scene, *LOST):
        yield Sign("gpu_lost", f"the kernel logged a lost or failing GPU: {short(row['text'], 120)}", [ref(row, row["text"])])


@rule("gpu_lost", needs=("log",))
def lost_line(scene: Scene) -> Signs:
    """A runtime lost its device."""
    if mark := scene.log.first("device_lost"):
        claim = f"the runtime lost its device: {short(mark.text, 120)}"
        yield Sign("gpu_lost", claim, [mark.ref], [mark.rank] if mark.rank is not None else [])


@rule("gpu_error_state", needs=("gpus",))
def error_state(scene: Scene) -> Signs:
    """The driver's tool shows an error in place of a value."""
    for row in scene.evidence.gpus:
        if row.get("error"):
            yield Sign("gpu_error_state", f"nvidia-smi shows {row['error']} for GPU {row['gpu']}", [ref(row)])


@rule("gpu_tool_failed", "gpu_lost", needs=("tool_errors",))
def tool_failed(scene: Scene) -> Signs:
    """The driver's own tool fails; that it is not installed says nothing."""
    for row in scene.evidence.tool_errors:
        if row["tool"] in GPU_TOOLS and GONE.search(row["text"]):
            yield Sign("gpu_lost", f"{row['tool']} does not reach a GPU: {short(row['text'], 120)}", [ref(row, row["text"])])
        elif row["tool"] in GPU_TOOLS and row.get("error") != "not_found":
            yield Sign("gpu_tool_failed", f"{row['tool']} failed: {short(row['text'], 120)}", [ref(row, row["text"])])


@rule("gpu_rows_remapped", needs=("counters",))
def remapped(scene: Scene) -> Signs:
    """Memory rows of a GPU that were remapped or are to be."""
    for row in scene.evidence.counters:
        if row["source"] == "gpu" and row["value"] > 0 and any(word in row["name"].lower() for word in BAD_ROWS):
            yield Sign("gpu_rows_remapped", f"{row['name']}: {row['value']:g}", [ref(row)])
