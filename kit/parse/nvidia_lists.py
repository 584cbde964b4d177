"""nvidia-smi's lists beside its table: dmon, pmon, -L, and the XML of `-q -x`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.gpu import BROKEN
from kit.parse.records import stamp_ns
from kit.parse.snapshot import Samples, body_lines, failure, integer, number, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

DMON = TOOL_WORDS["nvidia_smi"]["dmon"]
XML = TOOL_WORDS["nvidia_smi"]["xml"]
POWER = ("gpu_power_readings", "power_readings")
"""Element that holds the power, in drivers since 530 and before."""
_DEVICE = re.compile(r"^GPU (?P<gpu>\d+): (?P<name>.+?) \(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)\s*$")
_MIG = re.compile(r"^\s+MIG (?P<profile>\S+)\s+Device\s+(?P<device>\d+): \(UUID: (?P<uuid>MIG-[\w/-]+)\)\s*$")
_HEADER = re.compile(r"^#\s*(?:Date\s+Time\s+|Time\s+)?gpu\s")
_MOST_XML = 64 << 20


def _stamp(words: dict[str, str], source: Source) -> int | None:
    """Time of a line of `dmon -o DT`, local time of the host."""
    day, clock = (
        re.fullmatch(r"(\d{4})(\d\d)(\d\d)", words.get("Date", "")),
        re.fullmatch(r"(\d\d):(\d\d):(\d\d)", words.get("Time", "")),
    )
    return stamp_ns(source, int(day[1]), int(day[2]), int(day[3]), *clock.groups()) if day and clock else None


def parse_monitor(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `nvidia-smi dmon` (a row a device and moment) and `pmon` (a row a process). `-` is no figure.

    Examples
    --------
    >>> sample = ["# gpu pwr gtemp  sm mem pclk", "# Idx   W     C   %   %  MHz", "    0  43    35  97   - 1075"]
    >>> [(row["power_w"], row["util_percent"], row["mem_util_percent"])
    ...     for _, row in parse_monitor(sample, Source("dmon.txt"), Report())]
    [(43.0, 97.0, None)]
    """
    samples, columns = Samples(source), []
    for line in titled(lines, source, report):
        words = line.text.replace("#", " ").split()
        failed = failure(line, "nvidia-smi", source)
        if failed:
            yield "tool_errors", failed
        elif _HEADER.match(line.text):
            columns = words
        elif line.text.startswith("#") or not words:
            continue
        elif columns and len(words) >= len(columns):
            got = dict(zip(columns, words[: len(columns) - 1] + [" ".join(words[len(columns) - 1 :])], strict=True))
            time = _stamp(got, source)
            _monitored(got, line.at if time is None else line.at | {"time": time}, samples)
        else:
            report.odd("not a line of nvidia-smi dmon or pmon", line.text)
    yield from samples.settle(report)


def _monitored(got: dict[str, str], where: Row, samples: Samples) -> None:
    gpu, pid = integer(got.get("gpu")), integer(got.get("pid"))
    if gpu is None:
        return
    if "pid" in got:
        if pid is not None:  # a device without a process has a line of dashes
            row = {
                "gpu": gpu,
                "pid": pid,
                "process": got.get("command") or got.get("name"),
                "mem_used_mib": number(got.get("fb")),
            }
            samples.add("gpu_processes", row | where, (gpu, pid))
        return
    samples.add("gpus", {"gpu": gpu} | {column: number(got[name]) for name, column in DMON.items() if name in got} | where, gpu)
    for name in got.keys() - DMON.keys() - {"gpu", "Date", "Time"}:
        if (value := number(got[name])) is not None:
            row = {"source": "gpu", "name": name, "labels": f'gpu="{gpu}"', "value": value}
            samples.add("counters", row | where, (name, gpu))


def parse_devices(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `nvidia-smi -L`: devices with their names; MIG devices as host facts.

    Examples
    --------
    >>> sample = ["GPU 0: NVIDIA H200 (UUID: GPU-1a2b)", "  MIG 1g.10gb     Device  0: (UUID: MIG-3c4d)"]
    >>> [(row.get("gpu"), row.get("name") or row["value"]) for _, row in parse_devices(sample, Source("L.txt"), Report())]
    [(0, 'NVIDIA H200'), (None, 'GPU 0: 1g.10gb, MIG-3c4d')]
    """
    samples, gpu = Samples(source), None
    for line in titled(lines, source, report):
        device, mig, where = _DEVICE.match(line.text), _MIG.match(line.text), line.at
        if device:
            gpu = int(device["gpu"])
            samples.add("gpus", {"gpu": gpu, "name": device["name"], "uuid": device["uuid"]} | where, gpu)
        elif mig:
            value = f"GPU {gpu}: {mig['profile']}, {mig['uuid']}"
            samples.add("host", {"source": "gpu", "key": f"MIG {mig['device']}", "value": value} | where, mig["uuid"])
        elif line.text.strip():
            report.odd("not a line of nvidia-smi -L", line.text)
    yield from samples.settle(report)


def parse_xml(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `nvidia-smi -q -x`. The document type, which names a file elsewhere, is left out and nothing is fetched.

    Examples
    --------
    >>> text = '<nvidia_smi_log><gpu id="0000:0A:00.0"><product_name>H200</product_name></gpu></nvidia_smi_log>'
    >>> [(row["gpu"], row["bus_id"], row["name"]) for _, row in parse_xml([text], Source("q.xml"), Report())]
    [(0, '0000:0A:00.0', 'H200')]
    """
    body = re.sub(r"<!DOCTYPE[^>\[]*>", "", "\n".join(lines))
    report.lines += body.count("\n") + 1
    try:
        if len(body) > _MOST_XML or "<!ENTITY" in body:
            raise ElementTree.ParseError("too large, or it declares entities")
        log = ElementTree.fromstring(body[body.index("<nvidia_smi_log") :].strip())
    except (ElementTree.ParseError, ValueError) as error:
        report.odd(f"XML that cannot be read: {error}", body[:200])
        return
    for name in ("driver_version", "cuda_version"):
        if log.findtext(name):
            yield ("host", {"source": "versions", "key": name.partition("_")[0], "value": log.findtext(name)})
    for number_, gpu in enumerate(log.iter("gpu")):
        report.records += 1
        row: Row = {"gpu": number_, "bus_id": gpu.get("id")}
        for column, path in XML.items():
            text = gpu.findtext(path)
            if text and BROKEN.search(text):
                row["error"] = text
            elif text and text != "N/A":
                row[column] = text if column in ("name", "pstate") else number(text)
        power = next((part for part in map(gpu.find, POWER) if part is not None), None)
        if power is not None:
            draw = next(
                (
                    power.findtext(name)
                    for name in ("power_draw", "instant_power_draw", "average_power_draw")
                    if number(power.findtext(name)) is not None
                ),
                None,
            )
            row["power_w"] = number(draw)
            row["power_limit_w"] = number(power.findtext("current_power_limit") or power.findtext("power_limit"))
        yield "gpus", row
        for process in gpu.iter("process_info"):
            about = {"pid": integer(process.findtext("pid")), "process": process.findtext("process_name")}
            yield "gpu_processes", {"gpu": number_, "mem_used_mib": number(process.findtext("used_memory")), **about}


def _is_monitor(head: str) -> float:
    lines = body_lines(head)[:6]
    return (
        0.97
        if any(_HEADER.match(line) for line in lines) and any(re.match(r"^#\s*(?:YYYYMMDD|HH:MM:SS|Idx)", line) for line in lines)
        else 0.0
    )


def _is_devices(head: str) -> float:
    lines = body_lines(head)
    return 0.96 if lines and _DEVICE.match(lines[0]) else 0.0


def _is_xml(head: str) -> float:
    return 0.98 if "<nvidia_smi_log" in head[:2000] else 0.0


FORMATS = (
    Format(
        "nvidia_monitor", r"dmon|pmon", _is_monitor, parse_monitor, frames=("gpus", "gpu_processes", "counters", "tool_errors")
    ),
    Format("nvidia_list", r"smi.*-?L", _is_devices, parse_devices, frames=("gpus", "host")),
    Format("nvidia_xml", r"\.xml$", _is_xml, parse_xml, frames=("gpus", "gpu_processes", "host")),
)
