"""nvidia-smi: CSV, table, -q, topo."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.snapshot import Line, Samples, body_lines, command_words, date_of, failure, integer, number, only_failures, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row
from kit.untrusted import csv_rows

QUERY = TOOL_WORDS["nvidia_smi"]["query"]
TEXTS = {"name", "bus_id", "pstate", "process", "uuid", "time"}
_MISSING = re.compile(r"^\[?(?:N/?A|Not Supported|Not Available|Not Active|Active|Disabled|Enabled|Default|)\]?$", re.IGNORECASE)
BROKEN = re.compile(
    r"ERR!|is lost|Unknown Error|requires reset|fallen off|Insufficient Permissions|Reset Required", re.IGNORECASE
)
_NO_HANDLE = re.compile(
    r"[Uu]nable to determine the device handle for "
    r"(?:GPU\s?(?P<gpu>\d+)?:?\s*)(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+?)?:? "
)
_TROUBLE = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|couldn't communicate with|"
    r"[Uu]nable to determine the device handle|GPU is lost|GPU access blocked|No AMD GPUs|is not a valid field to query|"
    r"ERROR: ?\d*:? ?(?:Unable|Driver)"
)
_HEAD_1 = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?P<name>\S.{0,200}?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|"
    r"ERR!)\s*\|\s*(?P<bus>[0-9A-Fa-f]{1,8}:[0-9A-Fa-f:.]+)\s"
)
_HEAD_2 = re.compile(
    r"^\|\s*\S+\s+(?P<temp>\d+C|N/A|ERR!)\s+(?P<pstate>P\d+|N/A|"
    r"ERR!)\s+(?P<power>\S+)\s*/\s*(?P<limit>\S+)\s*\|"
    r"(?:\s*(?P<used>\S+)\s*/\s*(?P<total>\S+)\s*|[^|/]*)\|\s*(?P<util>\S+)"
)
_TABLE_PROCESS = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?:\S+\s+\S+\s+)?(?P<pid>\d+)\s+[CGM+]+\s+(?P<name>\S.{0,200}?)\s+(?P<mem>\d+MiB|"
    r"\d+\.\.\.|N/A)\s*\|$"
)
_ELIDED = re.compile(r"^(?=.{0,200}(?:\.\.|…))\W*+$")
_FIGURE = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?: ?[A-Za-z%°/]+)?$")
_MIG = re.compile(
    r"^\|\s*(?P<gpu>\d+)\s+(?P<gi>\d+)\s+(?P<ci>\d+)\s+(?P<device>\d+)\s*\|\s*(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB\s*\|"
)
_CELL = re.compile("|".join(pattern.pattern for pattern in (_FIGURE, _MISSING, BROKEN)), re.IGNORECASE)
"""What the cell of a field may hold."""
_FIELD = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)*")
_VERSIONS = re.compile(r"^\| NVIDIA-SMI\s+(?P<smi>\S+)\s+Driver Version:\s*(?P<driver>\S+)(?:\s+CUDA Version:\s*(?P<cuda>\S+))?")


def _header(text: str) -> list[str] | None:
    """Names of the fields, units taken off; None where the line is no header of a query."""
    names = [re.sub(r"\[[^\[\]]*+\]$", "", cell).strip().lower() for cell in text.split(",")]
    known = sum(
        name in QUERY or _FIELD.fullmatch(name) is not None and re.search(r"[._][a-z]", name) is not None for name in names
    )
    return names if known == len(names) and any(name in QUERY or "remapped" in name or "ecc" in name for name in names) else None


def _fields_of_command(title: str | None) -> list[str] | None:
    found = re.search(r"--query-(?:gpu|compute-apps|remapped-rows)=(\S+)", " ".join(command_words(title)))
    return found.group(1).strip("'\"").lower().split(",") if found else None


def _guessed_header(row: list[str]) -> list[str] | None:
    """Fields of a CSV line without header, by the units of its cells."""
    names, seen = [], []
    for cell in row:
        unit = re.sub(r"^[\d.]+\s*", "", cell) if re.match(r"^[\d.]+", cell) else cell
        choices = {
            "%": ("utilization.gpu", "utilization.memory"),
            "MiB": ("memory.used", "memory.total"),
            "W": ("power.draw", "power.limit"),
            "MHz": ("clocks.sm",),
            "": ("index", "temperature.gpu") if not names else ("temperature.gpu",),
        }.get(unit)
        if re.match(r"^P\d+$", cell):
            choices = ("pstate",)
        elif choices is None:
            choices = ("pci.bus_id",) if re.match(r"^[0-9A-Fa-f]{8}:", cell) else ("name",)
        name = next((name for name in choices if name not in seen), "unknown")
        names.append(name)
        seen.append(name)
    return names if {"memory.used", "utilization.gpu", "power.draw"} & set(names) else None


class _Smi:
    """Reads the forms of nvidia-smi line by line; they may follow one another in one file."""

    def __init__(self, source: Source, report: Report):
        self.source, self.report = source, report
        self.samples = Samples(source)
        self.fields: list[str] | None = None
        self.title: str | None = None
        self.ordinal: dict[str, int] = {}
        self.open: Row | None = None
        self.holder: Row = {}
        self.path: list[tuple[int, str]] = []
        self.device: str | None = None

    def is_row(self, line: Line) -> bool:
        """Whether the line has the cells that a header promised: trouble in a cell is not trouble of the tool."""
        return self.fields is not None and line.text.count(",") + 1 >= len(self.fields) > 1

    def take(self, line: Line) -> bool:
        """Take a line; False where it was not understood."""
        if line.title != self.title:
            self.title, self.fields = line.title, _fields_of_command(line.title)
        text = line.text
        if text.startswith(("|", "+", "=")) or re.match(r"^\w{3} \w{3} +\d+ [\d:]{8} 20\d\d$", text):
            return self._table(line)
        header = _header(text)
        if header:
            self.fields = header
            self.samples.table()
            return True
        device = re.match(r"^GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)$", text)
        if device:
            self.device, self.path, self.fields = device["bus"], [], None
            self._details(line, {})
            return True
        if self.device and " : " in text or self.device and text[:1] == " ":
            return self._detail(line)
        if re.match(r"^(?:=+NVSMI|Timestamp|Driver Version|CUDA Version|Attached GPUs)", text):
            return True
        return self._values(line)

    def _values(self, line: Line) -> bool:
        row = [cell.strip() for cell in next(csv_rows([line.text], skipinitialspace=True), [])]
        if len(row) < 2 and not self.fields:
            return False
        if _ELIDED.match(line.text):
            self.report.odd("lines that somebody left out", line.text)
            return True
        fields = self.fields or self._guess(row, line)
        if not fields:
            return False
        if len(row) > len(fields):
            row = _join_commas(row, fields)
        if len(row) < len(fields):
            self.report.odd("line of nvidia-smi is cut", line.text)
        got = dict(zip(fields, row, strict=False))
        if "pid" in got:
            self._process(got, line)
        else:
            self._gpu(got, line)
        return True

    def _guess(self, row: list[str], line: Line) -> list[str] | None:
        """Fields of a line whose header is missing. One column in MiB may be what is used or what there is: nobody can tell."""
        names = _guessed_header(row)
        amounts = [place for place, name in enumerate(names or ()) if name in ("memory.used", "memory.total")]
        if names and len(amounts) == 1:
            names[amounts[0]] = "unknown"
            self.report.odd("a column in MiB without a header: used or total is not known", line.text)
        elif names and len(amounts) == 2:
            first, second = (number(row[place]) or 0.0 for place in amounts)
            if first > second:
                names[amounts[0]], names[amounts[1]] = "memory.total", "memory.used"
        return names

    def _process(self, got: dict[str, str], line: Line) -> None:
        mem = number(got.get("used_gpu_memory") or got.get("used_memory"))
        about = got.get("gpu_uuid") or got.get("gpu_bus_id")
        gpu = integer(got.get("index") or got.get("gpu"))
        self.samples.add(
            "gpu_processes",
            {
                "gpu": gpu if gpu is not None else self.ordinal.get(about or ""),
                "pid": integer(got["pid"]),
                "process": got.get("process_name") or got.get("name"),
                "mem_used_mib": mem,
                **line.at,
            },
            (integer(got["pid"]), about),
        )

    def _gpu(self, got: dict[str, str], line: Line) -> None:
        row: Row = line.at
        extra: dict[str, str] = {}
        for name, cell in got.items():
            column = QUERY.get(name)
            if BROKEN.search(cell):
                row["error"] = row.get("error") or cell.strip("[]")
            elif column is None:
                extra |= {name: cell} if name != "unknown" else {}
            elif column == "time":
                row["time"] = date_of(cell.replace("/", "-"), self.source)
            elif column == "gpu":
                row["gpu"] = integer(cell)
            elif column in TEXTS:
                row[column] = None if _MISSING.match(cell) else cell
            else:
                row[column] = number(cell)
        about = row.get("uuid") or row.get("bus_id")
        gpu = row.get("gpu")
        if not any(QUERY.get(name) in TEXTS or _CELL.search(cell) for name, cell in got.items()):
            self.report.odd("no line of nvidia-smi", line.text)
            return
        if gpu is None:
            gpu = self.ordinal.get(about or "", len(self.ordinal) if about else 0)
        for known in (about, row.get("bus_id")):
            if known:
                self.ordinal.setdefault(known, gpu)
        row["gpu"] = gpu
        if "memory.free" in extra and row.get("mem_used_mib") is None and row.get("mem_total_mib") is not None:
            free = number(extra.pop("memory.free"))
            row["mem_used_mib"] = None if free is None else row["mem_total_mib"] - free
        remapped = [f"{name.removeprefix('remapped_rows.')}: {cell}" for name, cell in extra.items() if "remapped" in name]
        row["remapped_rows"] = ", ".join(remapped) or None
        self.samples.add("gpus", row, gpu)
        for name, cell in extra.items():
            self._counter(name, cell, gpu, row.get("bus_id"), line)

    def _counter(self, name: str, cell: str, gpu: int, bus: str | None, line: Line) -> None:
        value = {"yes": 1.0, "no": 0.0, "active": 1.0, "not active": 0.0}.get(cell.lower())
        value = number(cell) if value is None and _FIGURE.match(cell.strip()) else value
        if value is not None:
            labels = f'gpu="{gpu}"' + (f',bus_id="{bus}"' if bus else "")
            self.samples.add(
                "counters", {"source": "gpu", "name": name, "labels": labels, "value": value, **line.at}, (name, labels)
            )

    def _table(self, line: Line) -> bool:
        first, second, process = (pattern.match(line.text) for pattern in (_HEAD_1, _HEAD_2, _TABLE_PROCESS))
        versions = _VERSIONS.match(line.text)
        mig = _MIG.match(line.text)
        if mig:
            labels = f'gpu="{mig["gpu"]}",gi="{mig["gi"]}",ci="{mig["ci"]}"'
            for name in ("used", "total"):
                row = {"source": "gpu", "name": f"mig_mem_{name}_mib", "labels": labels, "value": float(mig[name])}
                self.samples.add("counters", row | line.at, (name, labels))
        elif versions:
            self.samples.table()
            for key in ("driver", "cuda"):
                if versions[key]:
                    self.samples.add("host", {"source": "versions", "key": key, "value": versions[key], **line.at})
        elif process:
            self.samples.add(
                "gpu_processes",
                {
                    "gpu": int(process["gpu"]),
                    "pid": int(process["pid"]),
                    "process": process["name"],
                    "mem_used_mib": None if "..." in process["mem"] else number(process["mem"]),
                    **line.at,
                },
                (process["gpu"], process["pid"]),
            )
            if "..." in process["mem"]:
                self.report.odd("memory of a process, cut by nvidia-smi from 100 GiB on", line.text)
        elif first:
            self.open = {"gpu": int(first["gpu"]), "name": first["name"], "bus_id": first["bus"], **line.at}
            self.samples.add("gpus", self.open, self.open["gpu"])
            self.ordinal.setdefault(first["bus"], self.open["gpu"])
            if "ERR!" in line.text:
                self.open["error"] = "ERR!"
        elif second and self.open is not None:
            got = {
                "temperature_c": second["temp"],
                "power_w": second["power"],
                "power_limit_w": second["limit"],
                "mem_used_mib": second["used"],
                "mem_total_mib": second["total"],
                "util_percent": second["util"],
            }
            self.open |= {name: number(cell) for name, cell in got.items()}
            self.open["pstate"] = second["pstate"] if second["pstate"].startswith("P") else None
            if "ERR!" in line.text or "Unknown Error" in line.text:
                self.open["error"] = "ERR!"
            self.open = None
        return True

    def _detail(self, line: Line) -> bool:
        """A line of nvidia-smi -q, whose sections are told by their indent."""
        indent = len(line.text) - len(line.text.lstrip())
        name, colon, value = (part.strip() for part in line.text.strip().partition(" : "))
        self.path = [(depth, title) for depth, title in self.path if depth < indent]
        if not colon:
            self.path.append((indent, name.rstrip(":").strip()))
            return True
        section = self.path[-1][1] if self.path else ""
        if section == "Processes":
            self._holds(name, value, line)
            return True
        self._details(line, {(section, name): value})
        return True

    def _holds(self, name: str, value: str, line: Line) -> None:
        """A line of nvidia-smi -q about a process, whose id stands first."""
        if name == "Process ID":
            self.holder = {"gpu": self.ordinal.get(self.device or ""), "pid": integer(value), **line.at}
            self.samples.add("gpu_processes", self.holder, (self.device, value))
        elif name == "Name":
            self.holder["process"] = value
        elif name == "Used GPU Memory":
            self.holder["mem_used_mib"] = number(value)

    def _details(self, line: Line, got: dict[tuple[str, str], str]) -> None:
        bus = self.device or ""
        gpu = self.ordinal.setdefault(bus, len(self.ordinal))
        if not got or self.open is None:
            self.open = {"gpu": gpu, "bus_id": bus, **line.at}
            self.samples.add("gpus", self.open, gpu)
        for (section, name), value in got.items():
            column = DETAILS.get((section, name)) or DETAILS.get(("", name))
            if BROKEN.search(value):
                self.open["error"] = value.strip("[]")
            elif column in TEXTS:
                self.open[column] = None if _MISSING.match(value) else value
            elif column:
                self.open[column] = self.open.get(column) if self.open.get(column) is not None else number(value)
            elif section.startswith("Remapped Rows"):
                said = f"{name}: {value}"
                self.open["remapped_rows"] = f"{self.open['remapped_rows']}, {said}" if self.open.get("remapped_rows") else said
            if column is None and (
                {title for _, title in self.path} & {"Remapped Rows", "ECC Errors", "Retired Pages", "Aggregate", "Volatile"}
            ):
                path = [title for _, title in self.path] + [name]
                self._counter(" / ".join(path), value, gpu, bus, line)


DETAILS = {
    (section, name): column for section, keys in TOOL_WORDS["nvidia_smi"]["details"].items() for name, column in keys.items()
}


def _join_commas(row: list[str], fields: list[str]) -> list[str]:
    """Put a process name that holds commas together again."""
    place = next((at for at, name in enumerate(fields) if QUERY.get(name) in ("process", "name")), len(fields) - 1)
    more = len(row) - len(fields)
    return row[:place] + [", ".join(row[place : place + more + 1])] + row[place + more + 1 :]


def parse_nvidia_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read nvidia-smi: query CSV (any fields, with or without units and header), the table, -q; and what it says when it fails.

    Examples
    --------
    >>> sample = ["index, utilization.gpu [%], memory.used [MiB]", "0, 100 %, 76188 MiB", "1, [N/A], ERR!"]
    >>> [(row["gpu"], row["util_percent"], row.get("error")) for _, row in parse_nvidia_smi(sample, Source("g.csv"), Report())]
    [(0, 100.0, None), (1, None, 'ERR!')]
    """
    smi = _Smi(source, report)
    for line in titled(lines, source, report):
        if not line.text.strip():
            continue
        failed = failure(line, "nvidia-smi", source)
        if _TROUBLE.search(line.text) and not line.text.startswith("|") and not smi.is_row(line):
            failed = {"tool": "nvidia-smi", "error": failed["error"] if failed else "other", "text": line.text.strip(), **line.at}
            device = _NO_HANDLE.search(line.text)
            if device and device["gpu"]:
                smi.samples.add(
                    "gpus",
                    {"gpu": int(device["gpu"]), "bus_id": device["bus"], "error": line.text.strip(), **line.at},
                    int(device["gpu"]),
                )
        if failed and failed["error"] != "permission" or failed and not smi.fields:
            yield "tool_errors", failed
        elif not smi.take(line):
            report.odd("no line of nvidia-smi", line.text)
    yield from smi.samples.settle(report)


def _is_nvidia_smi(head: str) -> float:
    lines = body_lines(head)
    if any(_VERSIONS.match(line) or _header(line) and len(line.split(",")) > 1 for line in lines[:6]):
        return 0.97
    if any(map(_HEAD_1.match, lines[:40])) and any(map(_HEAD_2.match, lines[:40])) or any(map(_TABLE_PROCESS.match, lines[:40])):
        return 0.95
    if any(re.match(r"^=+NVSMI LOG=+|^GPU [0-9A-F]{8}:[0-9A-F]{2}:", line) for line in lines[:12]):
        return 0.97
    if any(_TROUBLE.search(line) for line in lines[:5]) and len(lines) < 6:
        return 0.8
    if "--query-gpu" in head[:400] or "--query-compute-apps" in head[:400]:
        return 0.9
    guessed = [_guessed_header([cell.strip() for cell in line.split(",")]) for line in lines[:10] if line.count(",")]
    return 0.8 if guessed and all(guessed) else only_failures(head, "nvidia-smi")


# --- topo ----------------------------------------------------------------------------------------------------------------

_TOPO_ROW = re.compile(r"^\s*(?P<key>GPU\d+|NIC\d+|mlx\w+)\s+(?:(?:X|SYS|NODE|PHB|PXB|PIX|NV\d+|OK|CNS|GNS|TNS|NS|DR|U)\s+)+")
"""A row of `topo -m`, or of `topo -p2p`, which tells whether two devices reach each other's memory."""


def parse_topo(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `nvidia-smi topo -m` or `-p2p`: a row a device; the key is its name.

    Examples
    --------
    >>> sample = ["\\tGPU0\\tGPU1\\tCPU Affinity", "GPU0\\t X \\tNV18\\t0-31"]
    >>> [(row["key"], row["value"]) for _, row in parse_topo(sample, Source("topo.txt"), Report())]
    [('header', 'GPU0 GPU1 CPU Affinity'), ('GPU0', 'GPU0 X NV18 0-31')]
    """
    for line in titled(lines, source, report):
        found, text = _TOPO_ROW.match(line.text + " "), " ".join(line.text.split())
        failed = None if found else failure(line, "nvidia-smi", source)
        if failed:
            yield "tool_errors", failed
        elif found or re.match(r"^(?:GPU0|GPU1)\b", text):
            report.records += 1
            yield ("host", {"source": "topo", "key": found["key"] if found else "header", "value": text, **line.at})
        elif text and not re.match(r"^(?:Legend|NIC Legend|NIC\d+:|[A-Z]+#? +=)", text):
            report.odd("no line of nvidia-smi topo", line.text)


def _is_topo(head: str) -> float:
    return 0.97 if any(_TOPO_ROW.match(line + " ") for line in body_lines(head)[:6]) else 0.0


FORMATS = (
    Format(
        "nvidia_smi",
        r"nvidia|smi|gpu|remapped",
        _is_nvidia_smi,
        parse_nvidia_smi,
        frames=("gpus", "gpu_processes", "counters", "host", "tool_errors"),
    ),
    Format("nvidia_topo", r"topo", _is_topo, parse_topo, frames=("host", "tool_errors")),
)
