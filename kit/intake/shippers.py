"""JSON of log shippers: lines and documents of records that each hold a line of a log, with its time around it.

No shipper has a parser of its own: a record is a JSON object with a message and, mostly, a time, under names that are listed
here. It becomes `TIME LEVEL message`, which the log's grammars read. JSON lines that servers write themselves keep their form
(their other fields mean something); only a traceback in them is laid out in lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from kit.intake.content import Numbers

MESSAGES = (
    "MESSAGE", "log", "message", "msg", "@message", "textPayload", "line", "Body", "body", "text", "event", "_raw",
)  # fmt: skip
TIMES = (
    "__REALTIME_TIMESTAMP", "time", "timestamp", "@timestamp", "ts", "asctime", "Timestamp", "date", "datetime",
    "_SOURCE_REALTIME_TIMESTAMP", "receiveTimestamp", "timeUnixNano", "observedTimestamp", "@ingestionTime", "_time",
)  # fmt: skip
NESTED = ("jsonPayload", "_source", "fields", "record", "result")
"""Objects within a record that hold the message of some shippers."""
TRACES = ("exc_info", "exc_text", "exception", "stack_trace", "stacktrace", "traceback", "stack_info")
LEVELS = {"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"}
_SERVERS_OWN = ({"fields", "target"}, {"function", "tid"}, {"span", "target"})
"""Keys of JSON lines that TGI and llama.cpp write themselves."""
_NOT_A_LOG = {"involvedObject", "kind", "apiVersion", "frames", "ph"}
"""Keys of objects that have a message and a time and are no log: Kubernetes objects, stacks, traces."""
MOST_DEPTH = 3
SHORT = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
ISO = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


def message_of(record: Any, depth: int = 0) -> tuple[str, str] | None:
    """Time (text, may be empty) and message of a record, None where it is none.

    Examples
    --------
    >>> message_of({"MESSAGE": [104, 105], "__REALTIME_TIMESTAMP": "1772366400000000"})
    ('2026-03-01T12:00:00.000000Z', 'hi')
    >>> message_of({"levelname": "ERROR", "message": "no route", "asctime": "None"})
    ('', 'ERROR no route')
    """
    if not isinstance(record, dict) or depth > MOST_DEPTH or record.keys() & _NOT_A_LOG:
        return None
    message: Any = next((record[key] for key in MESSAGES if record.get(key) is not None), None)
    if isinstance(message, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in message):
        message = bytes(message).decode("utf-8", "replace")
    when = next((stamp for key in TIMES if (stamp := _stamp(record.get(key)))), "")
    if isinstance(message, dict):
        message = message.get("stringValue") or message.get("message")
    if not isinstance(message, str):
        inner = next((got for key in NESTED if (got := message_of(record.get(key), depth + 1))), None)
        return inner and (when or inner[0], inner[1])
    if message.lstrip().startswith("{") and (inner := _inner(message, depth)):
        return when or inner[0], inner[1]
    level = str(record.get("levelname") or record.get("level") or record.get("severity") or "").upper()
    if level in LEVELS and SHORT.match(str(record.get("time"))):  # NIM's: the stamp that vLLM writes
        file = str(record.get("file_name") or record.get("file_path") or "").rpartition("/")[2]
        message = f"{level} {record['time']} [{file}:{record.get('line_number')}] {message}"
    elif level in LEVELS and not ISO.match(message) and level not in message[:60]:
        message = f"{level} {message}"
    traces = [record[key].strip("\n") for key in TRACES if isinstance(record.get(key), str) and "\n" in record[key]]
    return when, "\n".join([message, *traces])


def _inner(message: str, depth: int) -> tuple[str, str] | None:
    try:
        record = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return None if _servers_own(record) else message_of(record, depth + 1)


def _servers_own(record: Any) -> bool:
    return isinstance(record, dict) and any(keys <= record.keys() for keys in _SERVERS_OWN)


def _stamp(value: Any) -> str:
    """A time as ISO text; numbers are of the epoch, in whatever unit fits the years from 2001 on."""
    if isinstance(value, str) and re.fullmatch(r"\d{10,19}(?:\.\d+)?", value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 1e9:
        unit = next(unit for unit in (1, 1_000, 1_000_000, 1_000_000_000) if value < 1e11 * unit or unit == 1_000_000_000)
        whole, rest = divmod(int(value * (1_000_000 // unit)) if unit <= 1_000_000 else int(value) // 1000, 1_000_000)
        return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:06}Z"
    return value.replace(" UTC", "Z") if isinstance(value, str) and ISO.match(value) else ""


# --- lines of JSON ---------------------------------------------------------------------------------------------------------


def is_json_lines(head: bytes) -> bool:
    """Whether a text is lines of JSON records, by its first lines; a banner may stand before them."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    banner = next((number for number, line in enumerate(lines) if line.startswith(b'{"')), 0)
    lines = lines[banner : banner + 40]
    if len(lines) > 1 and not head.endswith(b"\n"):
        lines.pop()
    records = [_loaded(line) for line in lines if line.lstrip().startswith(b"{")]
    good = [record for record in records if not _servers_own(record) and message_of(record)]
    return len(good) > (2 if banner else 0) and len(good) >= 0.6 * len(lines)


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def lines_of(blocks: Iterable[tuple[int, bytes]], numbers: Numbers) -> Iterator[bytes]:
    """Lines of the log that JSON lines hold, in blocks; what is no record stays as it is.

    docker's json-file driver cuts lines at 16 KiB: a message whose newline is missing goes on in the next one.
    """
    number, partial, when_partial, ends = 0, "", "", False
    for _, block in blocks:
        out = []
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            got = message_of(_loaded(line)) if line[:1] == b"{" else None
            if got is None:
                out.append(line)
                numbers.add(1, number)
                continue
            when, message = got
            ends = ends or message.endswith("\n")
            if ends and not message.endswith("\n"):
                partial, when_partial = partial + message, when_partial or when
                continue
            text = laid_out(when_partial or when, partial + message)
            partial = when_partial = ""
            out.append(text)
            lines = text.count(b"\n") + 1
            numbers.add(lines, number, 1 if lines == 1 else 0)
        yield b"\n".join(out) + b"\n" if out else b""
    if partial:
        numbers.add(1, number)
        yield laid_out(when_partial, partial) + b"\n"


def laid_out(when: str, message: str) -> bytes:
    """A record as lines of a log; carriage returns of bars stay."""
    text = message.removesuffix("\n").removesuffix("\r")
    return (f"{when} {text}" if when else text).encode("utf-8", "replace")


# --- documents ----------------------------------------------------------------------------------------------------------


def records_in(value: Any, depth: int = 0) -> list[tuple[str, str]] | None:
    """Records of a JSON document (CloudWatch, Loki, Stackdriver, Elasticsearch), in order of time; None where it holds none."""
    if depth > MOST_DEPTH + 1:
        return None
    if isinstance(value, dict):
        if isinstance(value.get("values"), list) and isinstance(value.get("stream"), dict):
            pairs = [pair for pair in value["values"] if isinstance(pair, list) and len(pair) >= 2]
            return [(_stamp(pair[0]), pair[1]) for pair in pairs if isinstance(pair[1], str)] or None
        found = [got for inner in value.values() if isinstance(inner, (dict, list)) and (got := records_in(inner, depth + 1))]
        return max(found, key=len, default=None)
    if not isinstance(value, list) or not value:
        return None
    streams = [got for item in value if isinstance(item, dict) and "values" in item and (got := records_in(item, depth + 1))]
    if streams:
        return _in_order([record for stream in streams for record in stream])
    got = [message_of(item) for item in value]
    timed = [record for record in got if record and record[0]]
    return _in_order(timed) if len(timed) >= 0.8 * len(value) else None


def _in_order(records: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Records by time where they came newest first, or from several streams; of equal time as they stood."""
    falls = sum(1 for (one, _), (two, _) in zip(records, records[1:], strict=False) if two < one)
    rises = sum(1 for (one, _), (two, _) in zip(records, records[1:], strict=False) if two > one)
    return sorted(reversed(records) if falls > rises else records, key=lambda record: record[0]) if falls else records


__all__ = ["is_json_lines", "laid_out", "lines_of", "records_in"]
