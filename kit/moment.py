"""The moment and the time zone that loose evidence speaks of, told from what the files themselves carry.

A file's time is often that of its copy, months later. It is believed where the log's last stamp agrees with it; a tool that
prints the date of its look (`nvidia-smi`, `gpustat`, `curl -i`, `date`) says when it was taken, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kit import parse
from kit.clock import NS
from kit.intake import Chain
from kit.intake.content import Content, Part, Text
from kit.parse.base import Report, Source
from kit.parse.records import MONTHS, stamp_ns
from kit.parse.snapshot import date_of
from kit.untrusted import short_digits

if TYPE_CHECKING:
    from kit.reading import Capture

FILE_TIME = "file time"
"""How the moment was told where nothing proves it."""
HEAD_LINES = 40
"""Lines at the top of a log in which a stamp with a zone is looked for."""
END_BYTES = 16 << 10
"""Bytes at each end of a file in which stamps are looked for."""
AGREE_S = 3
"""A log's time agrees with its last stamp within this: a writer that buffers, a stamp of whole seconds."""
ZONE_STEP_S = 900
"""Zones differ by quarters of an hour."""
ZONES_S = (-12 * 3600, 14 * 3600)
UNZONED_S = 3600
"""A look that lies further behind the log than this may be of another zone: its stamp proves no silence."""
LOOK_S = 86_400
"""Looks that were taken within a day belong to one copy of the log."""
_STREAMS = frozenset(
    """
    kernel log sampler strace atop atop_json pidstat query_range grafana_csv otlp collapsed speedscope chrome_trace shell sadf sar
    """.split()
)
_LOOKS = {"gpus", "processes", "threads", "sockets", "probes", "stacks", "io"}
_ZONED = re.compile(
    r"^(?:\[|(?:time|ts)=\"?)?20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?P<sign>[+-])(?P<h>\d\d):?(?P<m>\d\d)\b"
)
_FULL = re.compile(
    r"(?<!\d)(?P<y>20\d\d)[-/](?P<m>[01]\d)[-/](?P<d>[0-3]\d)[T ](?P<t>[0-2]\d:[0-5]\d:[0-5]\d)(?:[.,]\d+)? ?"
    r"(?P<z>Z|UTC|[+-]\d\d:?\d\d)?"
    r"|(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<day>\d\d?) (?P<clock>\d\d:\d\d:\d\d) "
    r"(?:(?P<zone>[A-Z]{3,4}) )?(?P<year>20\d\d)\b"
    r"|\b(?P<http_day>\d\d) (?P<http_mon>[A-Z][a-z][a-z]) (?P<http_y>20\d\d) (?P<http_t>\d\d:\d\d:\d\d) (?P<gmt>GMT)"
)


@dataclass
class Moment:
    """What the files say of the moment of the capture."""

    captured_ns: int | None  # the moment, UTC nanoseconds
    by: str = FILE_TIME  # where it comes from; `FILE_TIME` where nothing proves it
    near_ns: int | None = None  # newest stamp with a year in the files: stamps without one lie near it
    offset_s: int | None = None  # UTC offset of the host that the files prove, in seconds


def of(captures: Iterable[Capture], offset_s: int, offset_known: bool) -> Moment:
    """The moment that some captures speak of.

    `captures`: captures with the times of their files. `offset_s`: UTC offset of stamps without a zone, in seconds.
    `offset_known`: whether that is more than an assumption.
    """
    known = [capture for capture in captures if capture.kind is not None]
    newest = max((capture.captured_ns for capture in known if capture.captured_ns is not None), default=None)
    limit = None if newest is None else newest + 86_400 * NS
    stamps = {id(capture): list(_stamps(capture, offset_s, limit)) for capture in known}
    near = max((max(found) for found in stamps.values() if found), default=None)
    moment = Moment(newest, near_ns=near)
    looks = [capture for capture in known if capture.kind not in _STREAMS and _LOOKS.intersection(capture.frames)]
    logs = [capture for capture in known if capture.kind == "log"]
    if not looks or not logs:
        return moment
    ends = {
        id(log): end for log in logs if (end := _last_stamp(log, Source(log.file, newest, offset_s, near_ns=near))) is not None
    }
    _by_file_times(moment, logs, looks, ends, None if not offset_known else 0)
    if moment.by == FILE_TIME and ends:
        _by_looks(moment, looks, stamps, max(ends.values()))
    return moment


def _by_file_times(moment: Moment, logs: list[Capture], looks: list[Capture], ends: dict[int, int], fixed: int | None) -> None:
    """The files' own times, where a log's last stamp agrees with its file's: it was copied with its time."""
    for log in logs:
        end, written = ends.get(id(log)), log.captured_ns
        if end is None or written is None:
            continue
        ahead = (end - written) / NS  # of the stamp read with the offset assumed
        zone = round(ahead / ZONE_STEP_S) * ZONE_STEP_S
        later = [look.captured_ns for look in looks if look.captured_ns is not None and look.captured_ns >= written]
        agrees = abs(ahead - zone) <= AGREE_S and ZONES_S[0] <= zone <= ZONES_S[1] and (fixed is None or zone == fixed)
        if agrees and later and max(later) - written <= LOOK_S * NS:
            moment.captured_ns, moment.by = max(later), "file times, which agree with the log's last stamp"
            moment.offset_s = int(zone) if fixed is None and zone else None
            return


def _by_looks(moment: Moment, looks: list[Capture], stamps: dict[int, list[int]], end: int) -> None:
    """The newest stamp of a look that follows the log's end so soon that no zone lies between."""
    found = [(stamp, look) for look in looks for stamp in stamps[id(look)]]
    if found:
        stamp, look = max(found, key=lambda pair: pair[0])
        if 0 <= stamp - end <= UNZONED_S * NS:
            moment.captured_ns, moment.by = stamp, f"stamp in {look.title}"


def _stamps(capture: Capture, offset_s: int, limit_ns: int | None) -> Iterator[int]:
    """Stamps with a year at both ends of a capture, and those that `date` printed beside a part of a file; none of the future."""
    source = Source(capture.file, offset_s=offset_s)
    whole = _ends(replace(capture, content=None)) if capture.content else ()
    beside = (line for text in whole for line in text.splitlines() if ":" in line and date_of(line, source) is not None)
    for text in (*_ends(capture), *beside):
        for found in _FULL.finditer(text):
            stamp = _read(found, source)
            if stamp is not None and (limit_ns is None or stamp <= limit_ns):
                yield stamp


def _read(found: re.Match[str], source: Source) -> int | None:
    got = found.groupdict()
    year, month, day, clock, zone = (
        (got["y"], got["m"], got["d"], got["t"], got["z"])
        if got["y"]
        else (got["year"], MONTHS.get(got["mon"] or ""), got["day"], got["clock"], got["zone"])
        if got["year"]
        else (got["http_y"], MONTHS.get(got["http_mon"] or ""), got["http_day"], got["http_t"], got["gmt"])
    )
    if month is None:
        return None
    zone = "Z" if zone in ("UTC", "GMT") else zone if zone and not zone.isalpha() or zone == "Z" else None
    hour, minute, second = clock.split(":")
    return stamp_ns(source, int(year), int(month), int(day), hour, minute, second, None, zone)


def _ends(capture: Capture) -> Iterator[str]:
    """Text at the beginning of a capture and, where it is longer, at its end."""
    data = capture.path if capture.content is None else capture.content
    if isinstance(data, Path) and not data.exists():
        return
    with data.open("rb") as file:
        yield file.read(END_BYTES).decode("utf-8", "replace")
    if capture.size_bytes > END_BYTES:
        yield "\n".join(capture_end(capture))


def capture_end(capture: Capture) -> list[str]:
    """The last whole lines of a capture, at most `END_BYTES` of them."""
    content = capture.content.contents[-1] if isinstance(capture.content, Chain) else capture.content
    if content is None:
        content = Content(Text(capture.file, capture.path, capture.size_bytes), (Part(0, capture.size_bytes, 1),))
    if not content.parts:
        return []
    last = content.parts[-1]
    begin = max(last.begin, last.end - END_BYTES)
    with content.text.data.open("rb") as file:
        file.seek(begin)
        lines = short_digits(file.read(last.end - begin).decode("utf-8", "replace"))[0].split("\n")
    return [line.removeprefix(content.strip.decode("utf-8", "replace")) for line in lines[begin > last.begin :]]


def _last_stamp(log: Capture, source: Source) -> int | None:
    """The newest stamp at the end of a log."""
    rows = parse.formats()["log"].parse(capture_end(log), source, Report())
    return max((row["time"] for frame, row in rows if frame == "log" and row.get("time") is not None), default=None)


def zone_of_stamps(captures: Iterable[Capture]) -> int | None:
    """UTC offset that docker's, kubectl's, journald's and logfmt's stamps in the logs carry: the host's, where all agree."""
    zones = set()
    for capture in captures:
        for line in islice(capture.lines(), HEAD_LINES) if capture.kind == "log" and capture.path.exists() else ():
            if (stamp := _ZONED.match(line)) and (stamp["h"], stamp["m"]) != ("00", "00"):
                zones.add((1 if stamp["sign"] == "+" else -1) * (int(stamp["h"]) * 3600 + int(stamp["m"]) * 60))
    return zones.pop() if len(zones) == 1 else None
