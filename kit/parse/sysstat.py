"""Recordings of sysstat: `sadf -j`; the text of sar and pidstat, whose blocks are a header and a line a sample; iostat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import stamp_ns
from kit.parse.snapshot import integer, number, size_bytes
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

KIB = 1024
MEMORY = TOOL_WORDS["memory"]["sysstat"]
LOAD = {"ldavg-1": "load1", "ldavg-5": "load5", "ldavg-15": "load15"}
LABELS = TOOL_WORDS["sysstat"]["labels"]
JSON_LABELS = frozenset(("cpu", "iface", "disk-device", "intr", "filesystem", "mountpoint", "number", "host"))
TASK = TOOL_WORDS["sysstat"]["task"]
_BANNER = re.compile(r"^Linux \S+ \([^)]*\)\s+(?P<date>[\d/.年月日-]+)(?:\s|$)")
_TIME = re.compile(
    r"^(?:(?P<epoch>\d{10})|#\s+Time|(?:(?P<half>上午|下午|午前|午後)\s*)?(?P<H>\d\d)[:時时](?P<M>\d\d)[:分](?P<S>\d\d)秒?"
    r"(?: (?P<after>AM|PM))?)\s+(?P<rest>\S.*)$"
)
"""The stamp of a line: of the locale; seconds since 1970 with `pidstat -h` of old, whose header begins with `#`."""
_FIGURE = re.compile(r"-?\d+(?:[.,]\d+)?$")
_COLUMN = re.compile(r"%[a-z]|kb[a-z]|[A-Za-z_]+/s$|VSZ$|RSS$")
_PSI = re.compile(r"^%(?P<who>[sf])(?P<what>cpu|io|mem)-(?P<span>10|60|300)$")
_SPAN = re.compile(r"^(some|full)_avg(10|60|300)$")


def _figures(section: str, value: object, labels: dict[str, str]) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Numbers of a section of `sadf -j` by name, with what they belong to."""
    if isinstance(value, list):
        for entry in value:
            yield from _figures(section, entry, labels)
    elif isinstance(value, dict):
        own = {key.removesuffix("-device"): str(text) for key, text in value.items() if key in JSON_LABELS}
        for key, entry in value.items():
            if isinstance(entry, (dict, list)):
                yield from _figures(key, entry, labels | own)
            elif isinstance(entry, (int, float)) and not isinstance(entry, bool) and key not in JSON_LABELS:
                yield key, float(entry), labels | own | ({"section": section} if section.startswith("psi-") else {})


def _row(name: str, value: float, labels: dict[str, str]) -> tuple[str, Row]:
    """Frame and row of one figure of sysstat."""
    if name in MEMORY and not labels:
        return "host_memory", {"name": MEMORY[name], "value_bytes": int(value * KIB)}
    if name in LOAD:
        return "counters", {"source": "loadavg", "name": LOAD[name], "value": value}
    pressure, section = _SPAN.match(name.replace("-", "_")), labels.get("section", "")
    if pressure and section:
        return "counters", {
            "source": "pressure",
            "name": pressure[0],
            "labels": section.removeprefix("psi-").replace("mem", "memory"),
            "value": value,
        }
    text = ",".join(f'{key}="{word}"' for key, word in labels.items() if key != "section") or None
    return "counters", {"source": "sar", "name": name, "labels": text, "value": value}


def _zone_s(name: str | None, stamp: str) -> str | None:
    """UTC offset of a named zone at a moment, as `+02:00`; None where the zone is not known here."""
    try:
        offset = datetime.fromisoformat(stamp).replace(tzinfo=ZoneInfo(name or "")).utcoffset()
    except (ValueError, OSError, KeyError):
        return None
    minutes = int((offset or timedelta()).total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def parse_sadf(lines: Iterable[str], source: Source, report: Report) -> Rows:
    r"""Read `sadf -j`: memory, load and pressure into their frames, all other figures as counters of source `sar`.

    Examples
    --------
    >>> text = '{"sysstat": {"hosts": [{"nodename": "a", "timezone": "UTC", "statistics": [{"timestamp": {"date": "2026-11-29", '
    >>> text += '"time": "22:28:11", "utc": 1}, "memory": {"memfree": 8}, "queue": {"ldavg-1": 5.97}}]}]}}'
    >>> rows = list(parse_sadf([text], Source("sadf.json"), Report()))
    >>> [(frame, row.get("value_bytes") or row.get("value")) for frame, row in rows if frame != "host"]
    [('host_memory', 8192), ('counters', 5.97)]
    """
    body = "\n".join(lines)
    report.lines += body.count("\n") + 1
    for first, document in objects(body):
        hosts = (document.get("sysstat") or {}).get("hosts") if isinstance(document.get("sysstat"), dict) else None
        if not isinstance(hosts, list):
            report.odd("not a recording of sysstat", str(document)[:200])
            continue
        for host in filter(lambda entry: isinstance(entry, dict), hosts):
            for key in ("sysname", "release", "machine", "number-of-cpus"):
                if key in host:
                    yield "host", {"source": "uname", "key": key, "value": str(host[key]), "line": first}
            yield from _sadf_samples(host, first, source, report)


def _sadf_samples(host: dict, line: int, source: Source, report: Report) -> Rows:
    for moment, sample in enumerate(host.get("statistics") or ()):
        stamp = sample.get("timestamp") if isinstance(sample, dict) else None
        found = re.match(r"(\d{4})-(\d\d)-(\d\d)", str((stamp or {}).get("date")))
        clock = re.match(r"(\d\d):(\d\d):(\d\d)", str((stamp or {}).get("time")))
        if not found or not clock:
            report.odd("a sample without date and time", str(sample)[:200])
            continue
        zone = "Z" if stamp.get("utc") else _zone_s(host.get("timezone"), f"{found[0]}T{clock[0]}")
        time = stamp_ns(source, int(found[1]), int(found[2]), int(found[3]), clock[1], clock[2], clock[3], zone=zone)
        for section, value in sample.items():
            for name, figure, labels in _figures(section, value, {}) if section != "timestamp" else ():
                frame, row = _row(name, figure, labels)
                report.records += 1
                yield frame, {**row, "time": time, "moment": moment, "line": line}


def _day(text: str) -> date | None:
    """Date of the first line, in the forms that sysstat's locales write: 2026-11-29, 11/29/26, 11/29/2026, 29.11.2026."""
    parts = [int(part) for part in re.split(r"[/.年月日-]", text) if part.isdecimal()]
    if len(parts) != 3:
        return None
    if parts[0] > 31:
        year, month, day = parts
    elif "." in text or parts[0] > 12:
        day, month, year = parts
    else:
        month, day, year = parts
    try:
        return date(year + 2000 if year < 100 else year, month, day)
    except ValueError:
        return None


def _hour(hour: str, half: str | None) -> int:
    return int(hour) % 12 + 12 * (half in ("PM", "下午", "午後")) if half else int(hour)


def _value(text: str) -> float | None:
    """A figure; `--human` writes KiB as 9.3M or 13.6G."""
    size = size_bytes(text, KIB) if text[-1:].isalpha() else None
    return number(text) if size is None else size / KIB


def _blocks(lines: Iterable[str], source: Source, report: Report) -> Iterator[tuple[int, int | None, dict[str, str]]]:
    """Each line of figures with its number, time and values by column. `Average:` lines are no samples."""
    day, before, columns = None, None, []
    for line_number, line in enumerate(lines, 1):
        report.lines += 1
        text = line.strip()
        banner, timed = _BANNER.match(text), _TIME.match(text)
        if banner:
            day, before, columns = _day(banner["date"]), None, []
        elif timed:
            words = timed["rest"].split()
            if not any(_FIGURE.match(word) for word in words) and words[0] != "LINUX":
                columns = words
                continue
            if words[0] == "LINUX" or not columns:
                report.odd("a restart of the host" if words[0] == "LINUX" else "figures without a header", text)
                continue
            time, day, before = _sampled(timed, day, before, source)
            last = len(columns) - 1
            values = words[:last] + [" ".join(words[last:])] if columns[last] == "Command" else words
            if len(values) == len(columns):
                report.records += 1
                yield line_number, time, dict(zip(columns, values, strict=True))
            else:
                report.odd("more or fewer figures than columns", text)
        elif text and not re.match(r"#|[^\W\d][^:]{0,20}:", text):  # Average:, Durchschn.:, 平均时间:
            report.odd("not a line of sysstat", text)


def _sampled(
    timed: re.Match[str], day: date | None, before: int | None, source: Source
) -> tuple[int | None, date | None, int | None]:
    """Time of a line, its day, and its second of the day, from those of the line before."""
    if timed["epoch"] or not timed["H"]:
        return int(timed["epoch"]) * 10**9 if timed["epoch"] else None, day, before
    seconds = _hour(timed["H"], timed["half"] or timed["after"]) * 3600 + int(timed["M"]) * 60 + int(timed["S"])
    if before is not None and seconds < before - 12 * 3600 and day:
        day += timedelta(days=1)
    elif before is not None and seconds > before + 12 * 3600 and day:
        day -= timedelta(days=1)  # the next block begins at the first sample again
    time = stamp_ns(source, day.year, day.month, day.day, f"{seconds // 3600}", timed["M"], timed["S"]) if day else None
    return time, day, seconds


class _Moments:
    """Numbers the samples of a recording by their time, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[int | None, int] = {}

    def __call__(self, time: int | None) -> int:
        return self._numbers.setdefault(time, len(self._numbers))


def parse_sar(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the text of sar. The times are local and the text names no zone.

    Examples
    --------
    >>> text = ["Linux 6.8.0 (a) \\t11/29/26 \\t_x86_64_\\t(2 CPU)", "", "22:28:10    kbmemfree   kbavail", "22:28:11    8    16"]
    >>> [(row["name"], row["value_bytes"]) for frame, row in parse_sar(text, Source("sar.txt"), Report())]
    [('free', 8192), ('available', 16384)]
    """
    moments = _Moments()
    for line, time, values in _blocks(lines, source, report):
        labels = {LABELS[column]: word for column, word in values.items() if column in LABELS}
        for column, word in values.items():
            value, psi = _value(word), _PSI.match(column)
            if column in LABELS or value is None:
                continue
            if psi:
                name = f"{'some' if psi['who'] == 's' else 'full'}_avg{psi['span']}"
                frame, row = _row(name, value, {"section": f"psi-{psi['what']}"})
            else:
                frame, row = _row(column.removeprefix("kb") if column.startswith("kb") else column, value, labels)
            yield frame, {**row, "time": time, "moment": moments(time), "line": line}


def parse_pidstat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read pidstat: a row a process and sample; of a thread (`-t`) in frame `threads`; I/O rates as counters.

    Examples
    --------
    >>> text = ["Linux 6.8.0 (a) \\t11/29/26", "", "12:06:39 PM   UID       PID    %usr    %CPU   CPU  Command"]
    >>> text += ["12:06:40 PM     0      4412    1.00   99.00     1  python3"]
    >>> [(row["pid"], row["cpu_percent"], row["comm"]) for _, row in parse_pidstat(text, Source("pidstat.txt"), Report())]
    [(4412, 99.0, 'python3')]
    """
    moments, process = _Moments(), None
    for line, time, values in _blocks(lines, source, report):
        pid, tid = integer(values.get("PID") or values.get("TGID")), integer(values.get("TID"))
        process = pid if pid is not None else process
        where = {"time": time, "moment": moments(time), "line": line}
        if tid is not None:
            comm = values.get("Command", "").removeprefix("|__")
            yield (
                "threads",
                {"pid": process, "tid": tid, "comm": comm, "cpu_percent": number(values.get("%CPU")), "tool": "pidstat", **where},
            )
        elif pid is not None:
            shares = {name: _scaled(values[column], scale) for column, (name, scale) in TASK.items() if column in values}
            yield "processes", {"pid": pid, "comm": values.get("Command"), "tool": "pidstat", **shares, **where}
            for column in ("kB_rd/s", "kB_wr/s", "iodelay", "minflt/s", "majflt/s", "cswch/s", "nvcswch/s"):
                if column in values and (value := _value(values[column])) is not None:
                    yield "counters", {"source": "process", "name": column, "labels": f'pid="{pid}"', "value": value, **where}
        else:
            report.odd("a line without a process", str(values))


def _scaled(text: str, scale: int) -> float | int | None:
    value = _value(text)
    return value if value is None or scale == 1 and "." in text else int(value * scale)


_REPORTS = re.compile(
    r"^(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{2,4}) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?: (?P<half>AM|PM))?$"
)


def parse_iostat(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read iostat, with `-x` and `-t` or without: each figure a counter of source `iostat`. The first report counts since boot.

    Examples
    --------
    >>> text = ["avg-cpu:  %user   %iowait", "           1.50     97.00", "", "Device   r/s   %util", "vda     12.00  99.80"]
    >>> [(row["name"], row["labels"], row["value"]) for _, row in parse_iostat(text, Source("iostat.txt"), Report())][1:]
    [('%iowait', None, 97.0), ('r/s', 'disk="vda"', 12.0), ('%util', 'disk="vda"', 99.8)]
    """
    columns, device, last, time, moment = [], None, False, None, -1
    for number_, line in enumerate(lines, 1):
        report.lines += 1
        words, stamp = line.split(), _REPORTS.match(line.strip())
        if stamp:
            year = int(stamp["year"]) + (2000 if len(stamp["year"]) == 2 else 0)
            time = stamp_ns(
                source,
                year,
                int(stamp["month"]),
                int(stamp["day"]),
                f"{_hour(stamp['H'], stamp['half'])}",
                stamp["M"],
                stamp["S"],
            )
        elif words and (words[0] == "avg-cpu:" or "Device" in (words[0].rstrip(":"), words[-1])):
            device, last = words[0] != "avg-cpu:", words[-1] == "Device"  # `--human` names it at the end
            columns = words[:-1] if last else words[1:]
            moment += not device or moment < 0
        elif columns and words and len(words) == len(columns) + bool(device):
            label = f'disk="{words[-1 if last else 0]}"' if device else None
            for name, word in zip(columns, words[:-1] if last else words[bool(device) :], strict=True):
                report.records += 1
                row = {"source": "iostat", "name": name, "labels": label, "value": _value(word)}
                yield "counters", row | {"time": time, "moment": moment, "line": number_}
        elif words and not _BANNER.match(line):
            report.odd("not a line of iostat", line)


def _is_iostat(head: str) -> float:
    return (
        0.97
        if re.search(r"^avg-cpu:\s+%user", head, re.MULTILINE)
        or re.search(r"^Device:?\s+(?:tps|r/s|rrqm/s)|\skB\S*\s+Device$", head, re.MULTILINE)
        else 0.0
    )


def _is_sadf(head: str) -> float:
    return 0.98 if re.match(r'\s*\{\s*"sysstat"\s*:\s*\{', head) else 0.0


def _headers(head: str) -> list[set[str]]:
    """Column names of each block's header in a head that begins as sysstat's tools begin, or names three of their figures."""
    lines = head.splitlines()[:400]
    begun = any(_BANNER.match(line.strip()) for line in lines[:40])
    timed = [found["rest"].split() for line in lines if (found := _TIME.match(line.strip()))]
    names = [words for words in timed if not any(word[0].isdecimal() for word in words)]
    return [set(words) for words in names if begun or sum(map(bool, map(_COLUMN.match, words))) > 2]


def _is_sar(head: str) -> float:
    return 0.97 if any("PID" not in names and "TGID" not in names for names in _headers(head)) else 0.0


def _is_pidstat(head: str) -> float:
    return 0.97 if any({"PID", "TGID"} & names and "Command" in names for names in _headers(head)) else 0.0


FORMATS = (
    Format("sadf", r"sadf|sysstat", _is_sadf, parse_sadf, frames=("counters", "host_memory", "host")),
    Format("sar", r"\bsar\b|sa\d\d", _is_sar, parse_sar, frames=("counters", "host_memory")),
    Format("iostat", r"iostat", _is_iostat, parse_iostat, frames=("counters",)),
    Format("pidstat", r"pidstat", _is_pidstat, parse_pidstat, frames=("processes", "threads", "counters")),
)
