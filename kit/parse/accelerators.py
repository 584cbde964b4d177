"""Tools of other accelerators, and over all of them: gpustat, npu-smi (Ascend), hl-smi (Gaudi), xpu-smi (Intel) and others."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.gpu import QUERY, parse_nvidia_smi
from kit.parse.jsontext import objects
from kit.parse.records import stamp_ns
from kit.parse.snapshot import Samples, body_lines, integer, number, only_failures, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row
from kit.untrusted import csv_rows

# --- gpustat -------------------------------------------------------------------------------------------------------------

_GPUSTAT = re.compile(
    r"^\[(?P<gpu>\d+)\] (?P<name>.{1,200}?)\s*\|\s*(?P<temp>\d+|\?+) ?[°']?C,\s*(?:\d+ %,\s*)?(?P<util>\d+|\?+) %"
    r"(?:,\s*(?P<power>\d+|\?+) /\s*(?P<limit>\d+|\?+) W)?\s*\|\s*(?P<used>\d+|\?+) /\s*(?P<total>\d+|\?+) MB\s*\|(?P<rest>.*)$"
)
_GPUSTAT_PROCESS = re.compile(r"(?:(?P<user>[\w.-]{1,64}):)?(?P<process>[\w./+-]{1,200})/(?P<pid>\d{1,20})\((?P<mem>\d+|\?)M\)")


def parse_gpustat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read gpustat; processes where `-cp` or `-p` prints their ids.

    Examples
    --------
    >>> sample = ["[0] NVIDIA L4 | 75°C, 100 % |  4335 / 23034 MB | ops:python/4412(4300M)"]
    >>> [(frame, row["mem_used_mib"]) for frame, row in parse_gpustat(sample, Source("gpustat.txt"), Report())]
    [('gpus', 4335.0), ('gpu_processes', 4300.0)]
    """
    samples = Samples(source)
    for line in titled(lines, source, report):
        found, where = _GPUSTAT.match(line.text), line.at
        if found:
            gpu = int(found["gpu"])
            row: Row = {
                "gpu": gpu,
                "name": found["name"],
                "temperature_c": number(found["temp"]),
                "util_percent": number(found["util"]),
            }
            row |= {"power_w": number(found["power"]), "power_limit_w": number(found["limit"])}
            row |= {"mem_used_mib": number(found["used"]), "mem_total_mib": number(found["total"])}
            samples.add("gpus", row | where, gpu)
            for process in _GPUSTAT_PROCESS.finditer(found["rest"]):
                about = {
                    "gpu": gpu,
                    "pid": int(process["pid"]),
                    "process": process["process"],
                    "mem_used_mib": number(process["mem"]),
                }
                samples.add("gpu_processes", about | where, (gpu, process["pid"]))
        else:
            dated = re.match(r"^\S+\s+\w{3} \w{3} .*\d{4}", line.text)
            samples.misread(line, report, "gpustat", "not a line of gpustat", bool(dated))
    yield from samples.settle(report)


def _is_gpustat(head: str) -> float:
    return 0.97 if any(_GPUSTAT.match(line) for line in body_lines(head)[:4]) else only_failures(head, "gpustat")


def parse_gpustat_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `gpustat --json`, whose keys are nvidia-smi's.

    Examples
    --------
    >>> text = ['{"gpus": [{"index": 1, "utilization.gpu": 97, "processes": []}]}']
    >>> [(row["gpu"], row["util_percent"]) for _, row in parse_gpustat_json(text, Source("g.json"), Report())]
    [(1, 97)]
    """
    samples, body = Samples(source), "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, document in objects(body):
        for gpu in document.get("gpus") or ():
            if not isinstance(gpu, dict) or not isinstance(gpu.get("index"), int):
                report.odd("a device without an index", str(gpu)[:200])
                continue
            values = {QUERY[name]: value for name, value in gpu.items() if name in QUERY and isinstance(value, (str, int, float))}
            samples.add("gpus", values | {"line": first}, gpu["index"])
            for process in filter(lambda entry: isinstance(entry, dict), gpu.get("processes") or ()):
                about = {"gpu": gpu["index"], "pid": process.get("pid"), "process": process.get("command")}
                about["mem_used_mib"] = process.get("gpu_memory_usage")
                samples.add("gpu_processes", about | {"line": first}, (gpu["index"], about["pid"]))
    yield from samples.settle(report)


def _is_gpustat_json(head: str) -> float:
    return 0.97 if head.lstrip()[:1] == "{" and '"gpus"' in head[:1000] and '"memory.used"' in head[:4000] else 0.0


# --- npu-smi -------------------------------------------------------------------------------------------------------------

_NPU_1 = re.compile(
    r"^\|\s*(?P<npu>\d+)\s+(?P<name>[A-Za-z0-9][^\s|]*)\s*\|\s*(?P<health>[^\s|]+)\s*\|\s*(?P<power>[\d.-]+|N/?A)\s+(?P<temp>[\d.-]+|N/?A)\s"
)
_NPU_2 = re.compile(
    r"^\|\s*(?P<chip>\d+)(?:\s+(?P<id>\d+|-))?\s*\|\s*(?P<bus>[0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+|N/?A)\s*\|\s*(?P<util>[\d.-]+|N/?A)\s+"
    r"(?P<used>\d+)\s*/\s*(?P<total>\d+)(?:\s+(?P<hbm_used>\d+)\s*/\s*(?P<hbm>\d+))?\s*\|"
)
_NPU_PROCESS = re.compile(
    r"^\|\s*(?P<npu>\d+)\s+(?P<chip>\d+)\s*\|\s*(?P<pid>\d+)\s*\|\s*(?P<name>\S.{0,200}?)\s*\|\s*(?P<mem>\d+)\s*\|"
)


def parse_npu_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `npu-smi info`: two lines a chip. The index is the chip's physical id where it is printed, else the NPU's number.

    Examples
    --------
    >>> sample = ["| 0     910B3               | OK            | 90.4        32                0    / 0             |",
    ...     "| 0                         | 0000:C1:00.0  | 3           0    / 0          41697/ 65536         |"]
    >>> [(row["gpu"], row["util_percent"], row["mem_used_mib"]) for _, row in parse_npu_smi(sample, Source("npu.txt"), Report())]
    [(0, 3.0, 41697.0)]
    """
    samples, open_row = Samples(source), None
    indexes: dict[tuple[int, int], int] = {}
    for line in titled(lines, source, report):
        process, second, first = (pattern.match(line.text) for pattern in (_NPU_PROCESS, _NPU_2, _NPU_1))
        where = line.at
        if second and open_row:
            npu, chip, physical = int(open_row["npu"]), int(second["chip"]), integer(second["id"])
            gpu = indexes.setdefault((npu, chip), npu if physical is None else physical)
            values = {name: value for name, value in open_row.items() if name != "npu"}
            memory = ("hbm_used", "hbm") if number(second["hbm"]) else ("used", "total")
            row = {"gpu": gpu, "bus_id": second["bus"], "util_percent": number(second["util"])}
            row |= {"mem_used_mib": number(second[memory[0]]), "mem_total_mib": number(second[memory[1]])}
            samples.add("gpus", values | row | where, gpu)
        elif first:
            open_row = {"npu": int(first["npu"]), "name": first["name"], "power_w": number(first["power"])}
            open_row |= {
                "temperature_c": number(first["temp"]),
                "error": None if first["health"] == "OK" else f"health: {first['health']}",
            }
        elif process:
            gpu = indexes.get((int(process["npu"]), int(process["chip"])), int(process["npu"]))
            about = {"gpu": gpu, "pid": int(process["pid"]), "process": process["name"], "mem_used_mib": number(process["mem"])}
            samples.add("gpu_processes", about | where, (gpu, process["pid"]))
        else:
            samples.misread(line, report, "npu-smi", "not a line of npu-smi", line.text.startswith(("|", "+")))
    yield from samples.settle(report)


def _is_npu_smi(head: str) -> float:
    lines = body_lines(head)[:8]
    if any(re.match(r"^\| npu-smi ", line) or re.match(r"^\|\s*NPU\s+Name\s*\|", line) for line in lines):
        return 0.98
    return only_failures(head, "npu-smi")


# --- hl-smi --------------------------------------------------------------------------------------------------------------


def _is_hl_smi(head: str) -> float:
    """hl-smi prints nvidia-smi's table with other words over it; its rows are read by the same patterns."""
    lines = body_lines(head)[:8]
    return 0.98 if any(re.match(r"^\| (?:HL-SMI Version|AIP\s+Name)", line) for line in lines) else only_failures(head, "hl-smi")


# --- xpu-smi -------------------------------------------------------------------------------------------------------------

XPU = [(column, re.compile(pattern)) for pattern, column in TOOL_WORDS["xpu_smi"].items()]
_XPU_PAIR = re.compile(r"^\|(?P<left>[^|]*+)\|(?P<right>[^|]*+)\|$")
_XPU_1 = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?P<name>\S.{0,200}?)\s+(?:On|Off|N/A)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+)\s"
)
_XPU_2 = re.compile(
    r"^\|\s*\S+\s+(?P<temp>\d+C|N/A)\s+(?P<power>\S+)\s*/\s*(?P<limit>\S+)\s*\|\s*(?P<used>\S+)\s*/\s*(?P<total>\S+)\s*\|\s*(?P<util>\S+)\s"
)
_XPU_PROCESS = re.compile(r"^\|\s+(?P<gpu>\d+)\s+(?P<pid>\d+)\s+[CGM+]+\s+(?P<name>\S.{0,200}?)\s+(?P<mem>\d+) ?MiB\s*\|$")


def _xpu_value(row: Row, name: str, value: str) -> None:
    """Fill the column of a key; of several tiles the busiest counts."""
    column = next((column for column, pattern in XPU if pattern.match(name)), None)
    if column in ("name", "bus_id", "uuid"):
        row[column] = value or None
    elif column:
        tiles = [number(text) for text in re.findall(r"Tile \d+: ([\d.]+)", value)] or [number(value)]
        figures = [figure for figure in tiles if figure is not None]
        if figures:
            row[column] = sum(figures) if column in ("mem_used_mib", "power_w") else max(figures)


def parse_xpu_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read xpu-smi (or xpumcli): the table, `discovery`, `stats`, and the CSV of `dump`.

    Examples
    --------
    >>> sample = ["Timestamp, DeviceId, GPU Utilization (%), GPU Power (W)", "21:23:00.000,    0, 99.55, 119.61"]
    >>> [(row["gpu"], row["util_percent"], row["power_w"]) for _, row in parse_xpu_smi(sample, Source("xpu.csv"), Report())]
    [(0, 99.55, 119.61)]
    """
    samples, columns, rows, gpu = Samples(source), [], {}, None
    for line in titled(lines, source, report):
        where = line.at
        first, second, process = (pattern.match(line.text) for pattern in (_XPU_1, _XPU_2, _XPU_PROCESS))
        pair = _XPU_PAIR.match(line.text)
        if line.text.startswith("Timestamp, DeviceId"):
            columns = [cell.strip() for cell in line.text.split(",")]
            samples.table()
        elif columns and line.text.count(",") >= len(columns) - 1:
            cells = [cell.strip() for cell in next(csv_rows([line.text], skipinitialspace=True), [])]
            got: Row = {"gpu": integer(cells[1]), **where, "time": _clock(cells[0], source)}
            for name, cell in zip(columns[2:], cells[2:], strict=False):
                _xpu_value(got, name, cell)
            samples.add("gpus", got, got["gpu"])
        elif process:
            about = {"gpu": int(process["gpu"]), "pid": int(process["pid"]), "process": process["name"]}
            samples.add("gpu_processes", about | {"mem_used_mib": number(process["mem"])} | where, (about["gpu"], about["pid"]))
        elif first:
            gpu = int(first["gpu"])
            rows[gpu] = {"gpu": gpu, "name": first["name"], "bus_id": first["bus"], **where}
            samples.add("gpus", rows[gpu], gpu)
        elif second and gpu in rows:
            names = {"temperature_c": "temp", "power_w": "power", "power_limit_w": "limit", "util_percent": "util"}
            names |= {"mem_used_mib": "used", "mem_total_mib": "total"}
            rows[gpu] |= {column: number(second[name]) for column, name in names.items()}
        elif pair:
            gpu = _xpu_pair(pair, gpu, rows, where, samples)
        else:
            samples.misread(line, report, "xpu-smi", "not a line of xpu-smi", line.text.startswith(("|", "+")))
    yield from samples.settle(report)


def _xpu_pair(pair: re.Match[str], gpu: int | None, rows: dict[int, Row], where: Row, samples: Samples) -> int | None:
    """Take a line of two cells, `| Device ID | 0 |` or `| 0 | Device Name: … |`, and give the device it is about."""
    left, right = pair["left"].strip(), pair["right"].strip()
    device = integer(right) if left == "Device ID" else integer(left)
    if device is not None:
        gpu = device
        if gpu not in rows:
            rows[gpu] = {"gpu": gpu, **where}
            samples.add("gpus", rows[gpu], gpu)
    name, _, value = right.partition(": ") if not left or left.isdecimal() else (left, "", right)
    if gpu is not None:
        _xpu_value(rows[gpu], name, value)
    return gpu


def _clock(text: str, source: Source) -> int | None:
    """Time of a line of `dump`, which prints the hour alone: the day is that of the capture."""
    from datetime import UTC, datetime

    clock = re.match(r"(?:(\d{4})-(\d\d)-(\d\d)T)?(\d\d):(\d\d):(\d\d)(?:\.(\d+))?", text)
    if not clock or source.captured_ns is None and not clock[1]:
        return None
    if clock[1]:
        return stamp_ns(source, int(clock[1]), int(clock[2]), int(clock[3]), *clock.groups()[3:7])
    day = datetime.fromtimestamp(source.captured_ns / 1e9 + source.offset_s, UTC)
    return stamp_ns(source, day.year, day.month, day.day, *clock.groups()[3:7])


def _is_xpu_smi(head: str) -> float:
    lines = body_lines(head)[:8]
    table = re.compile(r"^\|\s+Intel XPU-SMI|^\| Device ID\s+\||^Timestamp, DeviceId")
    return 0.97 if any(table.match(line) for line in lines) else only_failures(head, "xpu-smi|xpumcli")


# --- tables of other makers ----------------------------------------------------------------------------------------------

_DEVICE = re.compile(
    r"^\|?\s*(?P<gpu>\d+)\s+(?P<name>[A-Za-z][^|]{0,200}?)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s*\|(?P<rest>.*)$"
)
_FIGURES = (
    (("temperature_c",), re.compile(r"(?<![\w.])(\d+)\s?°?C\b")),
    (("power_w", "power_limit_w"), re.compile(r"(?<![\d.])([\d.]+)\s?W\s*/\s*([\d.]+)\s?W")),
    (("mem_used_mib", "mem_total_mib"), re.compile(r"(?<!\d)(\d++)(?:\s?MiB)?\s*[/(]\s*(\d+)\s?MiB")),
    (("util_percent",), re.compile(r"(?<![\w.])(\d+)\s?%(?![^|]*\|[^|]*\|[^|]*\S)")),
    (("pstate",), re.compile(r"\s(P\d+)\s")),
)
"""Figures by their units; of several shares the fan's stands first, before the memory."""
_HOLDER = re.compile(
    r"^\|?\s*(?P<gpu>\d+)\s+(?P<pid>\d+)\s+(?P<name>[^\s|](?:[^|]{0,200}?[^\s|])?)(?:\s*\|)?\s+(?P<mem>\d+)\s?MiB\s*\|?$"
)


def parse_other_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read tables of mthreads-gmi (Moore Threads), mx-smi (MetaX), ixsmi (Iluvatar): a line that names a device begins its row,
    the figures in it and in the lines that follow are told by their units.

    Examples
    --------
    >>> sample = ["0    MTT S80   |00000000:01:00.0  |7%    662MiB(16384MiB)", "     Physical  |16x(16x)  |41C   YES"]
    >>> [(row["util_percent"], row["temperature_c"]) for _, row in parse_other_smi(sample, Source("gmi.txt"), Report())]
    [(7.0, 41.0)]
    """
    samples, row = Samples(source), None
    for line in titled(lines, source, report):
        device, holder = _DEVICE.match(line.text), _HOLDER.match(line.text)
        if holder:
            about = {"gpu": int(holder["gpu"]), "pid": int(holder["pid"]), "process": holder["name"]}
            samples.add("gpu_processes", about | {"mem_used_mib": number(holder["mem"])} | line.at, (about["gpu"], about["pid"]))
        elif device:
            row = {"gpu": int(device["gpu"]), "name": device["name"], "bus_id": device["bus"], **line.at}
            samples.add("gpus", row, row["gpu"])
        else:
            samples.misread(line, report, "mthreads-gmi", "", known=True)
        text = device["rest"] if device else line.text
        for columns, pattern in _FIGURES if row is not None and not holder else ():
            if (found := pattern.search(text)) and columns[0] not in row:
                row |= {
                    name: cell if name == "pstate" else number(cell) for name, cell in zip(columns, found.groups(), strict=True)
                }
    yield from samples.settle(report)


def _is_other_smi(head: str) -> float:
    return 0.9 if any(map(_DEVICE.match, body_lines(head)[:40])) else only_failures(head, "mthreads-gmi|mx-smi|ixsmi")


GPUS = ("gpus", "gpu_processes", "tool_errors")
FORMATS = (
    Format("gpustat", r"gpustat", _is_gpustat, parse_gpustat, frames=GPUS),
    Format("gpustat_json", r"gpustat", _is_gpustat_json, parse_gpustat_json, frames=GPUS),
    Format("npu_smi", r"npu", _is_npu_smi, parse_npu_smi, frames=GPUS),
    Format("hl_smi", r"hl-?smi", _is_hl_smi, parse_nvidia_smi, frames=(*GPUS, "host", "counters")),
    Format("other_smi", r"gmi|mx-?smi|ixsmi", _is_other_smi, parse_other_smi, frames=GPUS),
    Format("xpu_smi", r"xpu", _is_xpu_smi, parse_xpu_smi, frames=GPUS),
)
