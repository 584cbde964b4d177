"""Small scenes for tests of single rules: rows of frames, as the parsers give them, written in a line each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import kit.analyse.verdict.signs  # noqa: F401  registers the rules
from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.good_run import good_run
from kit.analyse.verdict.scene import Scene, scene_of
from kit.clock import NS
from kit.frames import FRAMES
from kit.reading import Capture

BEGIN = 1_760_000_000 * NS
"""When the launch of every scene began; times are given as seconds since."""
NOW_S = 3600
"""When its evidence was taken."""
Part = tuple[str, dict]


def scene(*parts: Part | list[Part], deleted: bool = False, good: tuple | None = None, **of_run: object) -> Scene:
    """The scene of some rows; `deleted`: the log is only there as a deleted file that the server still holds open.

    `good` are rows of a launch that worked, against which it is held.

    `of_run` are attributes of the run that differ from the usual.
    """
    flat = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    log = [row for frame, row in flat if frame == "log"]
    file = Capture(file="server.log", path=Path(__file__), kind="log", deleted=deleted)
    report = SimpleNamespace(facts={"newlines": len(log), "last_line": log[-1]["raw"] if log else None})
    usual = dict(
        name="scene",
        path=Path("scene"),
        captures=[file] if log else [],
        missing=[],
        launch_zero_ns=BEGIN,
        unread=list,
        offset_s=0,
        offset_known=True,
        reports={"server.log": report},
        manifest={},
        knowledge=(),
        captured_ns=BEGIN + NOW_S * NS,
        captured_by="the caller",
        captured_known=True,
        as_of_ns=None,
        frame=lambda name: FRAMES[name].build(row for frame, row in flat if frame == name),
    )
    run = SimpleNamespace(**usual | of_run)
    run.derived = lambda make: make(run)
    evidence = Evidence(run)
    for frame, row in flat:
        FRAMES[frame].check(row)
        {"log": evidence.log.add, "syscalls": evidence.syscalls.add}.get(frame, evidence.rows.get(frame, []).append)(row)
    return scene_of(evidence, good=good_run(scene(*good, name="good")) if good else None)


def row(frame: str, **columns: object) -> Part:
    """A row of any frame."""
    return frame, {"capture": "server.log" if frame == "log" else f"{frame}.txt", "line": 1, **columns}


def twice(frame: str, column: str, before: object, after: object, gap_s: float = 10, **columns: object) -> list[Part]:
    """Two samples in which one column differs."""
    moments = ((0, 0, before), (1, gap_s, after))
    return [row(frame, moment=n, time=BEGIN + int(at * NS), **{column: value}, **columns) for n, at, value in moments]


def line(milestone: str | None, text: str = "", kind: str = "progress", at: float | None = 3590, **columns: object) -> Part:
    """A record of the log: its milestone; what the pattern found stands under names of its own, or in `fields`."""
    known = ("rank", "pid", "process", "phase", "rank_label", "server", "role")
    own = {name: columns.pop(name) for name in known if name in columns}
    found = {**columns.pop("fields", {}), **columns}
    if kind == "error":
        own.setdefault("role", "initiating")
    text = text or str(milestone)
    clock = {} if at is None else {"time": BEGIN + int(at * NS), "time_source": "own"}
    return row("log", record=1, milestone=milestone, kind=kind, text=text, raw=text, fields=json.dumps(found), **clock, **own)


def error(milestone: str | None, text: str = "", **columns: object) -> Part:
    """An error line."""
    return line(milestone, text, "error", **columns)


def bar(kind: str, n: float, total: float, at: float, elapsed_s: float | None = None, **more: object) -> Part:
    """One frame of a progress bar."""
    columns = {"record": 1, "bar_kind": kind, "bar": "", "bar_n": n, "bar_total": total, "bar_elapsed_s": elapsed_s}
    return row(
        "log", milestone=None, kind="progress", text="", raw="", time=BEGIN + int(at * NS), time_source="own", **columns, **more
    )


def ps(pid: int, title: str, state: str = "S", **columns: object) -> Part:
    """A process of a process table."""
    return row("processes", tool="ps", pid=pid, cmdline=title, state=state, **columns)


def worker(rank: int, state: str = "S", **columns: object) -> Part:
    """A rank, of pid 10 and up."""
    return ps(10 + rank, f"sglang::scheduler_TP{rank}", state, **columns)


def workers(number: int = 2) -> list[Part]:
    """So many ranks that live."""
    return [line("args", phase="launch", tp_size=number, at=0), *(worker(rank) for rank in range(number))]


def stack(pid: int, *frames: str, thread: str = "MainThread", moment: int = 0, tool: str = "pyspy", **more: object) -> list[Part]:
    """A thread's stack, innermost frame first, each as `function (file)`."""
    parts = [frame.partition(" (") for frame in frames]
    return [
        row("stacks", tool=tool, pid=pid, thread=thread, moment=moment, depth=depth, function=name, file=file.rstrip(")"), **more)
        for depth, (name, _, file) in enumerate(parts)
    ]


def call(name: str, args: str = "", times: int = 1, pid: int = 10, **columns: object) -> list[Part]:
    """A system call, a second apart where it comes more than once."""
    given = {"syscall": name, "args": args, "pid": pid, **columns}
    return [row("syscalls", time=BEGIN + n * NS, **given) for n in range(times)]


def gpu(number: int, util: float, power: float | None = None, mem: float | None = 60000, **columns: object) -> Part:
    """A GPU with a power limit of 700 W."""
    limit = {} if power is None else {"power_w": power, "power_limit_w": 700.0}
    return row("gpus", gpu=number, util_percent=util, mem_used_mib=mem, **limit, **columns)


def kernel(kind: str | None, text: str = "", **columns: object) -> Part:
    """A line of the kernel's log."""
    return row("kernel_log", kind=kind, text=text or str(kind), **columns)


def event(reason: str, text: str = "", source: str = "kubernetes", age_s: float | None = None) -> Part:
    """An event of an orchestrator, or a command that a shell ran."""
    return row("events", reason=reason, text=text or reason, source=source, age_s=age_s)


def counter(name: str, value: float, source: str, **columns: object) -> Part:
    """A counter."""
    return row("counters", name=name, value=value, source=source, **columns)


def listen(port: int, pid: int | None, process: str = "python3", **columns: object) -> Part:
    """A listening socket."""
    return row("sockets", state="LISTEN", local_port=port, pid=pid, process=process, **columns)


@dataclass(frozen=True)
class Shown:
    """One entry of a table: evidence that shows a sign, and evidence that looks like it and does not."""

    code: str
    by: tuple
    unlike: tuple | None
    deleted: bool = False
    good: tuple | None = None


def shown(
    code: str, *by: Part | list[Part], unlike: tuple | list | None = None, deleted: bool = False, good: tuple | None = None
) -> Shown:
    """An entry; `good` are rows of a launch that worked."""
    return Shown(code, by, unlike if unlike is None or not isinstance(unlike, list) else tuple(unlike), deleted, good)
