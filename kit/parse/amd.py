"""AMD's tools: rocm-smi, and amd-smi as table, monitor, list of keys, JSON and CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.snapshot import Line, Samples, body_lines, failure, integer, number, only_failures, share, size_bytes, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row
from kit.untrusted import csv_rows

ROCM = [(column, re.compile(pattern)) for pattern, column in TOOL_WORDS["rocm_smi"].items()]
_ROCM_ITEM = re.compile(r"^GPU\[(?P<gpu>\d+)\]\s*: (?P<name>[^:]{1,200}?)\s*: (?P<value>.*)$")
_ROCM_USER = re.compile(r"^(?P<pid>\d+)\s+(?P<process>\S.{0,200}?)\s+(?P<gpus>\d+)\s+(?P<mem>\d+)\s+\d+(?:\s+\S+)?\s*$")
"""`--showpids`: how many GPUs a process holds, and bytes over them all."""
_ROCM_USES = re.compile(r"^PID (?P<pid>\d+) is using \d+ DRM device")
_ROCM_ROW = re.compile(r"^(?P<gpu>\d+)\s++(?=.*\d%)(?P<rest>.*(?:[cCW]|MHz|Mhz).*)$")


def parse_rocm_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read rocm-smi: the concise table, `--csv`, and the `GPU[0] : name: value` form.

    The table shows memory as a share only, so its rows lack the sizes.

    Examples
    --------
    >>> sample = ["GPU  Temp   AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%",
    ...     "0    35.0c  30.0W   800Mhz   1600Mhz  0%   auto  300.0W   12%   99%"]
    >>> [(row["gpu"], row["util_percent"], row["power_w"]) for _, row in parse_rocm_smi(sample, Source("rocm.txt"), Report())]
    [(0, 99.0, 30.0)]
    """
    samples, fields, rows, pid = Samples(source), None, {}, None
    for line in titled(lines, source, report):
        item, row = _ROCM_ITEM.match(line.text), _ROCM_ROW.match(line.text)
        user, uses = _ROCM_USER.match(line.text), _ROCM_USES.match(line.text)
        if user or uses:
            pid = int((user or uses)["pid"])
            if user:
                about = {"pid": pid, "process": user["process"], "mem_used_mib": int(user["mem"]) / (1 << 20)}
                samples.add("gpu_processes", about | line.at, pid)
        elif pid is not None and re.match(r"^\d+(?: \d+)*+ ?$", line.text):
            for gpu in map(int, line.text.split()):
                samples.add("gpu_processes", {"gpu": gpu, "pid": pid, **line.at}, (gpu, pid))
        elif item:
            gpu = int(item["gpu"])
            if gpu not in rows:
                rows[gpu] = {"gpu": gpu, **line.at}
                samples.add("gpus", rows[gpu], gpu)
            _rocm_value(rows[gpu], item["name"], item["value"])
        elif line.text.startswith("device,"):
            fields = next(csv_rows([line.text]), [])
            samples.table()
        elif fields and re.match(r"^card\d+,", line.text):
            cells = next(csv_rows([line.text]), [])
            got: Row = {"gpu": int(cells[0][4:]), **line.at}
            for name, value in zip(fields[1:], cells[1:], strict=False):
                _rocm_value(got, name, value)
            samples.add("gpus", got, got["gpu"])
        elif row:
            samples.add("gpus", _rocm_table(row) | line.at, int(row["gpu"]))
        elif re.match(r"^(?:GPU|Device)\s+", line.text):
            samples.table()
        else:
            known = re.match(r"^[\s=(]|^WARNING|^KFD process|^PID\s", line.text)
            samples.misread(line, report, "rocm-smi", "no line of rocm-smi", bool(known))
    yield from samples.settle(report)


def _rocm_value(row: Row, name: str, value: str) -> None:
    column = next((column for column, pattern in ROCM if pattern.match(name)), None)
    if column in ("name", "bus_id"):
        row[column] = value.strip() or None
    elif column in ("mem_total_mib", "mem_used_mib"):
        size = size_bytes(value.strip())
        row[column] = None if size is None else size / (1 << 20)
    elif column and row.get(column) is None:
        row[column] = number(value.strip(" ("))


def _rocm_table(found: re.Match[str]) -> Row:
    words = found["rest"].split()
    fan = next((place for place, word in enumerate(words) if re.match(r"^[\d.]+%$", word)), len(words))
    watts, caps = ([number(word) for word in part if re.match(r"^[\d.]+W$", word)] for part in (words[:fan], words[fan:]))
    shares = [number(word) for word in words if re.match(r"^\d+%$", word)]
    warm = next((number(word) for word in words if re.match(r"^[\d.]+°?[cC]$", word)), None)
    clock = next((number(word) for word in words if re.match(r"^[\d.]+M[hH]z$", word)), None)
    return {
        "gpu": int(found["gpu"]),
        "util_percent": shares[-1] if shares else None,
        "power_w": watts[0] if watts else None,
        "power_limit_w": caps[0] if caps else None,
        "temperature_c": warm,
        "sm_clock_mhz": clock,
    }


def _is_rocm(head: str) -> float:
    if re.search(r"ROCm System Management Interface|^GPU\[\d+\]\s*: |^device,.*GPU use|\bVRAM%\s+GPU%", head, re.MULTILINE):
        return 0.97
    return only_failures(head, "rocm-smi") if "rocm-smi: " in head else 0.9 if share(body_lines(head), _ROCM_ROW) > 0.6 else 0.0


def parse_rocm_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `rocm-smi --json`: an object a card, its keys those of the text form.

    Examples
    --------
    >>> text = ['{"card0": {"GPU use (%)": "99", "VRAM Total Memory (B)": "1048576"}}']
    >>> [(row["gpu"], row["util_percent"], row["mem_total_mib"]) for _, row in parse_rocm_json(text, Source("r.json"), Report())]
    [(0, 99.0, 1.0)]
    """
    samples, body = Samples(source), "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, document in objects(body):
        for card, values in document.items():
            if (gpu := integer(card.removeprefix("card"))) is None or not isinstance(values, dict):
                continue
            row: Row = {"gpu": gpu, "line": first}
            for name, value in values.items():
                _rocm_value(row, name, str(value))
            samples.add("gpus", row, gpu)
    yield from samples.settle(report)


def _is_rocm_json(head: str) -> float:
    return 0.97 if re.match(r'\s*\{\s*"card\d+"\s*:\s*\{', head) else 0.0


# --- amd-smi -------------------------------------------------------------------------------------------------------------

KEYS = TOOL_WORDS["amd_smi"]
_BOX_1 = re.compile(
    r"^\|\s*(?P<bus>[0-9a-fA-F]{4}:[0-9a-fA-F:.]+)\s+(?P<name>[^|\s][^|]{0,200}?)\s*\|\s*(?P<mem>\S+)(?: %)?\s+(?P<temp>\S+)"
    r"(?: °C)?\s+\S+\s+(?P<power>[\d.]+|N/A)\s*/\s*(?P<limit>[\d.]+|N/A)(?: W)?\s*\|$"
)
_BOX_2 = re.compile(
    r"^\|\s*(?P<gpu>\d+)\s+\S+\s+\S+\s+\S+\s*\|\s*(?P<util>\S+)(?: %)?\s+\S+(?: %)?\s+(?P<used>[\d.]+)\s*/\s*"
    r"(?P<total>[\d.]+) MB\s*\|$"
)
_BOX_PROCESS = re.compile(
    r"^\|\s*(?P<gpu>\d+)\s+(?P<pid>\d+)\s+(?P<name>\S.{0,200}?)\s+[\d.]{1,20} [KMGT]?B\s+(?P<mem>[\d.]+ [KMGT]?B)\s.*\|$"
)
_KEY = re.compile(r"^(?P<indent>\s*)(?P<key>[A-Z][A-Z0-9_ ]*)(?::\s*(?P<value>.*))?$")
_CELL = re.compile(r"N/A(?: Mb/s)?|[\d.]+/[\d.]+ ?[KMGT]?i?B|[\d.]+(?: ?(?:W|°C|%|MHz|[KMGT]?i?B|Mb/s|mV|V|ns))?|\S+")


class _AmdSmi:
    """Rows of the forms of amd-smi, which may follow one another in one file."""

    def __init__(self, source: Source, report: Report):
        self.samples, self.report = Samples(source), report
        self.gpus: dict[int, Row] = {}
        self.open: Row | None = None
        self.gpu: int | None = None
        self.process: Row | None = None
        self.columns: list[str] = []

    def device(self, gpu: int, line: Line) -> Row:
        """Row of a device; a further mention of it in another table fills the same row."""
        if gpu not in self.gpus:
            self.gpus[gpu] = {"gpu": gpu, **line.at}
            self.samples.add("gpus", self.gpus[gpu], gpu)
        return self.gpus[gpu]

    def put(self, row: Row, key: str, value: object) -> None:
        """Fill the column of a key, once."""
        column, text = KEYS.get(key.upper()), str(value).strip()
        if column is None or text in ("N/A", "", "None") or row.get(column) is not None:
            return
        size = size_bytes(text.replace(" ", "")) if column.endswith("_mib") and re.search(r"[A-Za-z]", text) else None
        row[column] = text if column in ("name", "bus_id") else size / (1 << 20) if size is not None else number(text)

    def take(self, line: Line) -> bool:
        """Take a line; False where it was not understood."""
        text = line.text
        if text.startswith(("|", "+")):
            return self._box(line)
        words = text.split()
        if words and words[0].upper() == "GPU" and len(words) > 2 and ":" not in words[0]:
            self.columns = words
            return True
        if self.columns and words and words[0].isdecimal():
            return self._columns(line)
        if re.match(r"^(?:PROCESS INFO|AMDSMI|WARNING)", text):
            return True
        key = _KEY.match(text)
        return key is not None and self._key(key, line)

    def _box(self, line: Line) -> bool:
        first, second, process = (pattern.match(line.text) for pattern in (_BOX_1, _BOX_2, _BOX_PROCESS))
        if first:
            self.open = {"name": first["name"], "bus_id": first["bus"], "mem_util_percent": number(first["mem"])}
            self.open |= {"temperature_c": number(first["temp"]), "power_w": number(first["power"])}
            self.open |= {"power_limit_w": number(first["limit"])}
        elif second and self.open is not None:
            row = self.device(int(second["gpu"]), line) | self.open
            self.gpus[row["gpu"]].update(row, util_percent=number(second["util"]))
            self.gpus[row["gpu"]].update(mem_used_mib=number(second["used"]), mem_total_mib=number(second["total"]))
            self.open = None
        elif process:
            self._process(int(process["gpu"]), int(process["pid"]), process["name"], process["mem"], line)
        return True

    def _process(self, gpu: int, pid: int | None, name: str, memory: object, line: Line) -> None:
        size = size_bytes(str(memory or "").replace(" ", ""))
        row = {"gpu": gpu, "pid": pid, "process": name, "mem_used_mib": None if size is None else size / (1 << 20)}
        self.samples.add("gpu_processes", row | line.at, (gpu, pid))

    def _columns(self, line: Line) -> bool:
        cells = _CELL.findall(line.text)
        if len(cells) < len(self.columns):
            self.report.odd("fewer cells than columns", line.text)
        got = dict(zip((name.upper() for name in self.columns), cells, strict=False))
        if "PID" in got:
            self._process(int(got["GPU"]), integer(got["PID"]), got.get("NAME", ""), got.get("VRAM_MEM"), line)
            return True
        row = self.device(int(got["GPU"]), line)
        for key, value in got.items():
            self.put(row, key, value)
        used = re.match(r"([\d.]+)/([\d.]+) ?([KMGT])", got.get("VRAM_USAGE") or got.get("VRAM") or "")
        if used:
            self.put(row, "VRAM_USED", f"{used[1]}{used[3]}B")
            self.put(row, "VRAM_TOTAL", f"{used[2]}{used[3]}B")
        return True

    def _key(self, found: re.Match[str], line: Line) -> bool:
        key, value = found["key"].strip(), (found["value"] or "").strip()
        if key == "GPU" and integer(value) is not None:
            self.gpu, self.process = int(value), None
        elif self.gpu is None:
            return False
        elif key == "PROCESS_INFO" or key == "NAME" and self.process is not None:
            self.process = {"NAME": value} if key == "NAME" else {}
        elif self.process is not None and key in ("PID", "VRAM_MEM"):
            self.process[key] = value
            if key == "VRAM_MEM":
                pid, name = integer(self.process.get("PID")), self.process.get("NAME", "")
                self._process(self.gpu, pid, name, value, line)
        elif self.process is None and key.upper() in KEYS:
            self.put(self.device(self.gpu, line), key, value)
        return True


def parse_amd_smi(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read amd-smi: its table, `monitor`, and the lists of keys that `metric`, `static` and `process` print.

    Examples
    --------
    >>> sample = ["GPU  POWER  GPU_TEMP  GFX_UTIL  VRAM_USED  VRAM_TOTAL", "  0  199 W  103 °C  99 %  1235 MB  16335 MB"]
    >>> [(row["power_w"], row["util_percent"], row["mem_used_mib"]) for _, row in parse_amd_smi(sample, Source("a"), Report())]
    [(199.0, 99.0, 1235.0)]
    """
    smi = _AmdSmi(source, report)
    for line in titled(lines, source, report):
        failed = failure(line, "amd-smi", source)
        if failed:
            yield "tool_errors", failed
        elif line.text.strip() and not smi.take(line):
            report.odd("not a line of amd-smi", line.text)
    yield from smi.samples.settle(report)


def _leaves(value: object, key: str) -> Iterator[tuple[str, object]]:
    """Keys and values of a JSON answer; `{"value": 0, "unit": "%"}` is one value."""
    if isinstance(value, dict) and "value" in value:
        yield key, f"{value['value']} {value.get('unit') or ''}".strip()
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _leaves(entry, name)
    elif not isinstance(value, list):
        yield key, value


def parse_amd_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `amd-smi … --json`: a list with an object a device.

    Examples
    --------
    >>> text = ['[{"gpu": 1, "usage": {"gfx_activity": {"value": 97, "unit": "%"}}}]']
    >>> [(row["gpu"], row["util_percent"]) for _, row in parse_amd_json(text, Source("a.json"), Report())]
    [(1, 97.0)]
    """
    smi, body = _AmdSmi(source, report), "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, outer in objects(body):
        for document in outer.get("gpu_data") or [outer]:
            gpu = document.get("gpu") if isinstance(document, dict) else None
            if not isinstance(gpu, int):
                continue
            line = Line(first, "", None, None)
            for entry in document.get("process_list") or ():
                about = entry.get("process_info") if isinstance(entry, dict) else None
                if isinstance(about, dict):
                    memory = dict(_leaves(about, "")).get("vram_mem")
                    smi._process(gpu, about.get("pid"), str(about.get("name")), memory, line)
            for key, value in _leaves({name: part for name, part in document.items() if name not in ("gpu", "process_list")}, ""):
                smi.put(smi.device(gpu, line), key, value)
    yield from smi.samples.settle(report)


def _is_amd_smi(head: str) -> float:
    lines = body_lines(head)[:12]
    columns = any(re.match(r"^GPU\s+(?:XCP\s+)?(?:POWER|NAME\s+PID)\b", line) for line in lines)
    keys = bool(lines) and re.match(r"^GPU: \d+$", lines[0]) and any(re.match(r"^\s{2,}[A-Z_]+:", line) for line in lines[1:4])
    if columns or keys or any(line.startswith("| AMD-SMI ") for line in lines):
        return 0.97
    return only_failures(head, "amd-smi")


def _is_amd_json(head: str) -> float:
    named = re.search(r'"(?:gfx_activity|socket_power|vram|asic|process_list|market_name)"', head[:20_000])
    return 0.96 if named and re.match(r'\s*(?:\[|\{\s*"gpu_data")\s*', head) and '"gpu"' in head[:200] else 0.0


FORMATS = (
    Format("rocm_smi", r"rocm", _is_rocm, parse_rocm_smi, frames=("gpus", "gpu_processes", "tool_errors")),
    Format("rocm_json", r"rocm", _is_rocm_json, parse_rocm_json, frames=("gpus",)),
    Format("amd_smi", r"amd", _is_amd_smi, parse_amd_smi, frames=("gpus", "gpu_processes", "tool_errors")),
    Format("amd_json", r"amd", _is_amd_json, parse_amd_json, frames=("gpus", "gpu_processes")),
)
