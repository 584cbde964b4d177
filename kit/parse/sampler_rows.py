"""Rows of those lines of the sampler that stand for themselves: descriptors, sockets, host, files, programs, kernel stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kit.frames import FRAMES
from kit.parse import formats
from kit.parse.base import Report, Source
from kit.parse.hostfiles import MEMINFO
from kit.parse.procfs import parse_stack
from kit.schema import Row
from kit.tool_table import table

if TYPE_CHECKING:
    import pyarrow

Line = dict[str, Any]
Rows = Iterator[tuple[str, Row]]

MEMORY_NAMES = MEMINFO | {"AnonPages": "anon", "Dirty": "dirty", "Writeback": "writeback"}
LOAD_NAMES = ("load1", "load5", "load15", "running", "tasks")
NOT_RECORDED = "[not recorded]"
MOMENTLESS = ("tool_errors", "kernel_log", "filesystems", "host")


def io(entry: Line, base: Row) -> Row:
    """What one process read and wrote."""
    numbers = entry["io"]
    return {
        **base,
        "pid": entry["pid"],
        "rchar_bytes": numbers.get("rchar"),
        "wchar_bytes": numbers.get("wchar"),
        "read_calls": numbers.get("syscr"),
        "write_calls": numbers.get("syscw"),
        "read_bytes": numbers.get("read_bytes"),
        "write_bytes": numbers.get("write_bytes"),
    }


def descriptors(entry: Line, base: Row) -> Rows:
    """Open descriptors."""
    for fd, mode, target in entry["rows"]:
        deleted = target.endswith(" (deleted)")
        yield (
            "fds",
            {
                **base,
                "pid": entry["pid"],
                "fd": fd,
                "mode": mode,
                "deleted": deleted,
                "target": target[: -len(" (deleted)")] if deleted else target,
            },
        )


class Descriptors:
    """Open descriptors as tables: those of a process are the same in most samples, and are many."""

    MOST = 4
    """Tables kept of a process: it is printed in parts, and repeated whole."""

    def __init__(self) -> None:
        self.known: dict[int, list[tuple[list, pyarrow.Table]]] = {}

    def made(self, pid: int, rows: list, base: Row, capture: str) -> pyarrow.Table:
        """Rows of the frame `fds` as `descriptors` makes them."""
        import pyarrow as pa

        columns, known = FRAMES["fds"].by_name, self.known.setdefault(pid, [])
        table = next((table for before, table in known if before == rows), None)
        if table is None:
            own = [row for _, row in descriptors({"pid": pid, "rows": rows}, {})]
            schema = pa.Schema.from_pandas(FRAMES["fds"].empty(), preserve_index=False)
            table = pa.Table.from_pylist(own, schema=schema)
            self.known[pid] = [(list(rows), table), *known[: self.MOST - 1]]
        for name, value in {**base, "capture": capture}.items():
            at = list(columns).index(name)
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.repeat(pa.scalar(value, field.type), len(table)))
        return table


def sockets(entry: Line, base: Row) -> Rows:
    """TCP sockets with their owners."""
    for protocol, state, receive, send, here, port, there, peer, pid, fd, comm in entry["rows"]:
        yield (
            "sockets",
            {
                **base,
                "protocol": protocol,
                "state": state,
                "recv_q": receive,
                "send_q": send,
                "local_address": here,
                "local_port": port,
                "peer_address": there,
                "peer_port": peer,
                "pid": pid,
                "process": comm,
                "fd": fd,
            },
        )


def host(entry: Line, base: Row) -> Rows:
    """Memory, load, pressure, control group."""
    memory = entry.get("memory") or {}
    for key, value in memory.items():
        if key in MEMORY_NAMES:
            yield "host_memory", {**base, "name": MEMORY_NAMES[key], "value_bytes": value}
    if "MemTotal" in memory and "MemAvailable" in memory:
        yield "host_memory", {**base, "name": "used", "value_bytes": memory["MemTotal"] - memory["MemAvailable"]}
    if "SwapTotal" in memory and "SwapFree" in memory:
        yield "host_memory", {**base, "name": "swap_used", "value_bytes": memory["SwapTotal"] - memory["SwapFree"]}
    for name, value in zip(LOAD_NAMES, entry.get("load") or (), strict=False):
        yield "counters", {**base, "source": "loadavg", "name": name, "value": value}
    for name, numbers in (entry.get("pressure") or {}).items():
        resource, _, share = name.partition(" ")
        for key, value in numbers.items():
            yield "counters", {**base, "source": "pressure", "name": f"{share}_{key}", "labels": resource, "value": value}
    for file, value in (entry.get("cgroup") or {}).items():
        numbers = value if isinstance(value, dict) else {file: value}
        for name, number in numbers.items():
            yield "counters", {**base, "source": "cgroup", "name": name, "labels": file, "value": _number(number)}


def counters(entry: Line, base: Row) -> Rows:
    """Counters that are read seldom."""
    for source, name, labels, value in entry["rows"]:
        yield "counters", {**base, "source": source, "name": name, "labels": labels, "value": float(value)}


def environment(entry: Line, base: Row) -> Rows:
    """Environment of one process."""
    for name, value in entry["vars"].items():
        yield "host", _about(entry, base, "environ", name, NOT_RECORDED if value is None else value)


def limits(entry: Line, base: Row) -> Rows:
    """Limits of one process."""
    for name, value in entry["values"].items():
        yield "host", _about(entry, base, "limits", name, value)


def _about(entry: Line, base: Row, source: str, key: str, value: str) -> Row:
    return {"time": base["time"], "source": source, "pid": entry["pid"], "key": key, "line": base["line"], "value": value}


def locks(entry: Line, base: Row) -> Rows:
    """Lock files that the launch has open. One without a holder tells nothing: he may be in another namespace, or host."""
    for path, pid, kind, mode, waits, mtime, name in entry["rows"]:
        yield (
            "locks",
            {
                **base,
                "path": path,
                "pid": pid,
                "process": name,
                "type": kind,
                "mode": mode,
                "waits": waits,
                "checked": pid is not None,
                "mtime": mtime,
            },
        )


def sizes(entry: Line, base: Row) -> Rows:
    """Downloads that are not whole."""
    for path, size in entry["rows"]:
        yield "sizes", {**base, "path": path, "size_bytes": size}


def disks(entry: Line, base: Row) -> Rows:
    """File systems that the launch uses."""
    for device, mount, kind, options, size, used, available in entry["rows"]:
        row = {"device": device, "mount": mount, "type": kind, "options": options, "size_bytes": size, "used_bytes": used}
        share = round(100 * used / (used + available), 1) if used + available else None
        row |= {"available_bytes": available, "used_percent": share, "time": base["time"], "line": base["line"]}
        yield "filesystems", row


def program(entry: Line, base: Row, source: Source, report: Report, boot_ns: int | None = None) -> Rows:
    """Output of a program, read as a capture of its own would be; `boot_ns`: when the host booted."""
    tool = entry["tool"]
    if entry.get("hung"):
        text = f"{tool} did not answer within {entry.get('took_s', 0):.0f} s and was ended"
        yield "tool_errors", {"tool": tool, "error": "timeout", "text": text, "time": base["time"], "line": base["line"]}
    own = Report()
    at = Source(source.name, base["time"], source.offset_s, base["moment"], boot_ns=boot_ns)
    known = formats().get(table().kind_of(tool) or "")
    if known is None:
        report.odd("output of a tool that no parser reads", entry["text"].partition("\n")[0])
        return
    for frame, row in known.parse(entry["text"].split("\n"), at, own):
        row["line"] = base["line"]
        if row.get("time") is None and row.get("uptime_s") is None:
            row["time"] = base["time"]
        if frame in MOMENTLESS:
            row.pop("moment", None)
        yield frame, row
    for reason, count in own.reasons.items():
        report.odd(reason, own.samples[reason][0], count)


def stack(entry: Line, base: Row, source: Source, report: Report) -> Rows:
    """Kernel stack of one thread."""
    own = Report()
    for frame, row in parse_stack(entry["text"].split("\n"), source, own):
        yield frame, {**row, **base, "pid": entry["pid"], "tid": entry["tid"]}
    for reason, count in own.reasons.items():
        report.odd(reason, own.samples[reason][0], count)


def hung(entry: Line, base: Row) -> Rows:
    """A read at the side that did not come back."""
    text = f"reading {entry['what']} hung: a server of files or the kernel does not answer"
    yield "tool_errors", {"tool": "sampler", "error": "timeout", "text": text, "time": base["time"], "line": base["line"]}


def left_out(entry: Line, base: Row) -> Rows:
    """Processes or threads beyond what a sample holds."""
    what = "processes" if "processes" in entry else f"threads of process {entry['pid']}"
    text = f"{entry.get('processes') or entry.get('left_out')} {what} are more than a sample may hold: they were left out"
    yield "tool_errors", {"tool": "sampler", "error": "other", "text": text, "time": base["time"], "line": base["line"]}


def _number(value: object) -> float | None:
    """A cgroup value; infinity for `max`, which means no limit."""
    try:
        return float("inf") if value == "max" else float(str(value))
    except ValueError:
        return None
