"""Kernel messages: dmesg in its forms, journalctl -k."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.records import MONTHS, SECOND_NS, stamp_ns
from kit.parse.snapshot import Line, body_lines, failure, only_failures, share, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

_MONTH = "(?P<b>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d+))?"
_LEVEL = r"(?:<\d+>|\w+\s*:\s*\w+\s*: )?"
MONTH_WORDS = {word: number for number, words in enumerate(TOOL_WORDS["kernel_log"]["months"], 1) for word in words.split()}
_STAMPS = _UPTIME, _DATED, _FOREIGN, _ISO, _SYSLOG, _SHORT, _STEP, _RAW = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^{_LEVEL}\[\s*(?P<uptime>\d+\.\d+)\](?:\[\s*[TC]\d+\])? ?(?P<text>.*)$",
        rf"^{_LEVEL}\[(?:\w{{3}} )?{_MONTH}\s+(?P<d>\d+) {_CLOCK} (?P<y>20\d\d)\] ?(?P<text>.*)$",
        rf"^{_LEVEL}\[\S+\s+(?P<word>\d{{1,2}}月|[^\W\d]{{3,5}}\.?)\s+(?P<d>\d+) {_CLOCK} (?P<y>20\d\d)\] ?(?P<text>.*)$",
        rf"^{_LEVEL}\[?(?P<y>20\d\d)-(?P<m>\d\d)-(?P<d>\d\d)[T ]{_CLOCK}(?P<z>Z|[+-]\d\d:?\d\d)?\]?:? (?P<text>.*)$",
        rf"^(?:\w{{3}} )?{_MONTH}\s+(?P<d>\d+) {_CLOCK} (?P<text>.*)$",
        rf"^{_LEVEL}\[{_MONTH}\s*(?P<d>\d+) (?P<H>\d\d):(?P<M>\d\d)\] ?(?P<text>.*)$",
        rf"^{_LEVEL}\[\s*(?P<step>[+-]\d+\.\d+)\] ?(?P<text>.*)$",
        r"^\d+,\d+,(?P<usec>\d+),[^;\s]*;(?P<text>.*)$",
    )
)
"""Seconds since boot; `dmesg -T`; `--time-format iso` and journal short-iso; syslog; `dmesg -e`, absolute and step; /dev/kmsg."""
_JOURNAL = re.compile(r"^(?P<host>[\w.-]+) (?P<unit>kernel|systemd-oomd|earlyoom)(?:\[\d+\])?: (?P<text>.*)$")
_OTHER_UNIT = re.compile(r"^[\w.-]+ [\w.@/()-]+\[\d+\]: ")
_BUS = re.compile(r"\b(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7]|\.0x\d)?)\b(?!:\d\d\b)")
_LEVELLED = re.compile(r"^(?:<\d+>|(?:kern|user|daemon|syslog)\s*:\s*\w+\s*: )\[\s*\d")
"""`dmesg -x` and `-r`; talosctl."""
RECORD_CHARS = 1024
"""Longest kernel record (LOG_LINE_MAX, kernel/printk)."""
_KINDS = Path(__file__).parents[1] / "knowledge" / "kernel.toml"
KINDS = tuple((kind["name"], re.compile(kind["pattern"])) for kind in tomllib.loads(_KINDS.read_text(encoding="utf-8"))["kind"])
_TASK = re.compile(
    r"^task:.+? state:\S\b.*?\bpid: *\d+|^\S.{0,14}?\s+[RSDTZX]\s+(?:[0-9a-f]{16}|0)\s+\d+\s+\d+\s+\d+ 0x[0-9a-f]+$"
)
"""The line of a task, above its stack (sched_show_task, kernel/sched/core.c)."""
_GOES_ON = re.compile(r"^\s{10,}\S")
_FRAME = re.compile(r"^\s*(?P<unsure>\? )?(?P<function>[\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?$")


def classify(text: str) -> Row:
    """Name the kind of a message and what it says of process and device.

    Examples
    --------
    >>> got = classify("NVRM: Xid (PCI:0000:01:00): 8, pid=3381, name=llama-server, channel 0x00000007")
    >>> got["kind"], got["xid"], got["bus_id"], got["pid"], got["process"]
    ('xid', 8, '0000:01:00', 3381, 'llama-server')
    >>> classify("Memory cgroup out of memory: Killed process 415 (python3) total-vm:1kB")["pid"]
    415
    """
    for kind, pattern in KINDS:
        found = pattern.search(text[:RECORD_CHARS])
        if found:
            got = found.groupdict()
            pid = got.get("pid") or got.get("i2")
            bus = got.get("bus")
            if bus is None and kind in ("io_page_fault", "gpu_lost", "gpu_job_timeout", "amdgpu", "ecc"):
                named = _BUS.search(text)
                bus = named["bus"] if named else None
            return {
                "kind": kind,
                "xid": int(got["xid"]) if got.get("xid") else None,
                "bus_id": bus,
                "pid": int(pid) if pid else None,
                "process": got.get("process") or got.get("p2"),
            }
    return {"kind": "other"}


def parse_kernel(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read kernel messages in every stamp that dmesg and journalctl print; human times are local time of the host.

    Examples
    --------
    >>> rows = list(parse_kernel(["[  812.5] nfs: server nas1 not responding"], Source("dmesg.txt"), Report()))
    >>> [(row["uptime_s"], row["kind"], row["text"]) for _, row in rows]
    [(812.5, 'nfs', 'nfs: server nas1 not responding')]
    """
    base: int | None = None
    stuck: Row = {}
    for line in _whole(titled(lines, source, report)):
        text = line.text
        if not text.strip() or re.match(r"^-- |^-- No entries --|^Hint: ", text):
            continue
        if text.startswith(" ") and "=" in text:
            continue  # /dev/kmsg: SUBSYSTEM=pci, DEVICE=+pci:0000:47:00.0 of the message before
        found = next((match for match in (pattern.match(text) for pattern in _STAMPS) if match), None)
        failed = None if found else failure(line, "dmesg", source)
        if failed:
            yield "tool_errors", failed
            continue
        got = found.groupdict() if found else {"text": text}
        message = got["text"]
        journal = _JOURNAL.match(message)
        if journal:
            message = journal["text"] if journal["unit"] == "kernel" else message
        elif _OTHER_UNIT.match(message) and not (got.get("uptime") or got.get("usec")):
            report.odd("line of another service", text)
            continue
        time, base = _time(got, source, base)
        report.records += 1
        uptime_s = float(got["uptime"]) if got.get("uptime") else int(got["usec"]) / 1e6 if got.get("usec") else None
        if uptime_s is not None and source.boot_ns is not None:
            time = source.boot_ns + int(uptime_s * SECOND_NS)
        row = {"text": message, **line.at}
        if time is not None or uptime_s is not None:
            row["time"] = time
        row["uptime_s"] = uptime_s
        known = classify(message)
        if known["kind"] in ("d_state", "hung_task") or _TASK.match(message):
            stuck = {"pid": known.get("pid"), "tid": known.get("pid"), "process": known.get("process"), "depth": 0}
        elif stuck.get("pid") and (frame := _FRAME.match(message)) and not frame["unsure"]:
            yield "stacks", stuck | _frame(frame, line.number, time)
            stuck["depth"] += 1
        yield "kernel_log", row | known


def _whole(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines with those that a message goes on with: dmesg indents them as far as its stamps reach."""
    held: Line | None = None
    for line in lines:
        goes_on = _GOES_ON.match(line.text) is not None and not _FRAME.match(line.text) and "=" not in line.text
        if held and goes_on and len(held.text) < RECORD_CHARS and (_UPTIME.match(held.text) or _DATED.match(held.text)):
            held = held._replace(text=f"{held.text} {line.text.strip()}")
            continue
        if held:
            yield held
        held = line
    if held:
        yield held


def _frame(found: re.Match[str], line: int, time: int | None) -> Row:
    """A frame of a task's stack; what the kernel is not sure of (`?`) is none."""
    return {"tool": "kernel", "function": found["function"], "native": True, "line": line, "time": time}


def _time(got: dict[str, str | None], source: Source, base: int | None) -> tuple[int | None, int | None]:
    """Time of a stamp, and the time that `dmesg -e` counts its next steps from."""
    if got.get("step"):
        base = None if base is None else base + int(float(got["step"]) * SECOND_NS)
        return base, base
    if not got.get("d"):
        return None, base
    word = (got.get("word") or "").lower()
    month = MONTHS[got["b"]] if got.get("b") else MONTH_WORDS.get(word.rstrip("."), 0) if word else int(got["m"])
    if word.endswith("月"):
        month = int(word[:-1])
    if not 1 <= month <= 12:
        return None, base
    time = stamp_ns(
        source,
        int(got["y"]) if got.get("y") else None,
        month,
        int(got["d"]),
        got["H"],
        got["M"],
        got.get("S") or "00",
        got.get("f"),
        got.get("z"),
    )
    return time, time if got.get("S") is None else base


_CERTAIN = re.compile(
    r"NVRM: |oom-kill|invoked oom-killer|Killed process \d+ \(|blocked for more than \d+ seconds|"
    r"IO_PAGE_FAULT|segfault at [0-9a-f]+ ip|"
    r"nfs: server|Linux version \d|nvidia-modeset|\bkernel: |amdgpu |EDAC |usb \d|systemd\[1\]|"
    r"fallen off the bus"
)


def _is_kernel(head: str) -> float:
    lines = body_lines(head, 60)
    if not lines:
        return 0.0
    strict = [_UPTIME, _DATED, _FOREIGN, _SHORT, _STEP, _RAW]
    stamped = max(share(lines, pattern) for pattern in (*strict, _LEVELLED))
    journal = sum(1 for line in lines if re.search(r"\bkernel: ", line)) / len(lines)
    stamped += sum(1 for line in lines if _STEP.match(line)) / len(lines) if stamped < 1 else 0
    if journal > 0.5 or (stamped > 0.6 and any(map(_CERTAIN.search, lines))):
        return 0.96
    if stamped > 0.8:
        return 0.85
    if all(map(_CERTAIN.search, lines)):
        return 0.8
    if share(lines, _ISO) > 0.6 and sum(map(bool, map(_CERTAIN.search, lines))) >= 0.3 * len(lines):
        return 0.8
    return only_failures(head, "dmesg|journalctl")


FORMATS = (
    Format("kernel", r"dmesg|kern|journal|syslog", _is_kernel, parse_kernel, frames=("kernel_log", "stacks", "tool_errors")),
)
