"""Records of log shippers: lines and documents of records that each hold a line of a log, with its time around it.

No shipper has a parser of its own: a record is a JSON object with a message and, mostly, a time, under names that are listed
here. It becomes `TIME LEVEL message`, which the log's grammars read. JSON lines that servers write themselves keep their form
(their other fields mean something); only a traceback in them is laid out in lines.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kit import compiled
from kit.clock import LATEST_NS
from kit.intake.content import Numbers
from kit.untrusted import load_json
from kit.words import keys_told

if TYPE_CHECKING:
    from kit.intake.records_compiled import Records

MESSAGES = (
    "message", "log", "msg", "@message", "textpayload", "line", "body", "text", "event", "_raw", "logentry", "logmessage",
    "content", "full_message", "short_message",
)  # fmt: skip
TIMES = (
    "__realtime_timestamp", "time", "timestamp", "@timestamp", "ts", "asctime", "date", "datetime",
    "_source_realtime_timestamp", "receivetimestamp", "timeunixnano", "observedtimestamp", "@ingestiontime", "_time",
)  # fmt: skip
"""Names of keys in small letters. Others that hold a time are taken by form: a name that speaks of time, a value that is one."""
NESTED = ("jsonpayload", "_source", "fields", "record", "result")
"""Objects within a record that hold the message of some shippers, and no time; any other object that has both is a record too."""
_TIME_NAME = re.compile(r"time|date|stamp|^@t$|^ts_?ns$")
_ZONED = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
"""How a time ends that no reader's zone shifts: a table shows the time of who looks, beside that of the record."""
CONTAINERS = ("container_name", "container", "com.docker.compose.service", "compose_service", "service_name")
PODS = ("pod_name", "pod", "_systemd_unit", "logstreamname", "logstream", "@logstream")
"""Names of keys, in small letters, that hold the service that wrote a record."""
TRACES = ("exc_info", "exc_text", "exception", "stack_trace", "stacktrace", "traceback", "stack_info")
LEVELS = {"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"}
_SERVERS_OWN = ({"fields", "target"}, {"function", "tid"}, {"span", "target"})
"""Keys of JSON lines that TGI and llama.cpp write themselves."""
_OWN_TARGET = re.compile(r"text_")
"""Begin of the names of TGI's and TEI's modules; other programs in Rust write the same keys, and no grammar reads those."""
_COLUMN = r"\"?[\w @.\[\]-]{1,40}\"?"
_HEADER = re.compile(rf"{_COLUMN}(?P<delimiter>[,;\t]){_COLUMN}(?:(?P=delimiter){_COLUMN})*")
"""First line of a table of records: names of columns, between commas, semicolons or tabs."""
_CAPITAL = re.compile("[A-Z]").search
_NOT_A_LOG = {"involvedObject", "kind", "apiVersion", "frames", "ph"}
"""Keys of objects that have a message and a time and are no log: Kubernetes objects, stacks, traces."""
MOST_DEPTH, MOST_NESTED = 3, 5
"""How deep a message may stand in a record, and records in a document: OTLP's in those of a scope in those of a resource."""
HEAD_BYTES = 65_536
SHORT = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
_KIBANA = re.compile(r"([A-Z][a-z]{2} \d{1,2}, 20\d\d @ \d\d:\d\d:\d\d)(\.\d+)?$")
_OF_PORTALS = re.compile(r"(\d{1,2})/(\d{1,2})/(20\d\d),? (\d{1,2}):(\d\d:\d\d)(\.\d+)?(?: ([AP])M)?$")
"""How Azure's portal writes a time into a table: the month first."""
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
    record = {key.lower(): value for key, value in record.items()} if any(map(_CAPITAL, record)) else record
    message: Any = next((record[key] for key in MESSAGES if record.get(key) is not None), None)
    if isinstance(message, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in message):
        message = bytes(message).decode("utf-8", "replace")
    by_name = (record.get(key) for key in TIMES)
    by_form = (value for key, value in record.items() if isinstance(value, str) and _TIME_NAME.search(key))
    whens = [stamp for value in (*by_name, *by_form) if (stamp := _stamp(value))]
    when = next((stamp for stamp in whens if _ZONED.search(stamp)), whens[0] if whens else "")
    if isinstance(message, dict):
        message = message.get("stringValue") or message.get("message")
    if not isinstance(message, str):
        inside = ((key, message_of(record[key], depth + 1)) for key in (*NESTED, *record) if isinstance(record.get(key), dict))
        inner = next((got for key, got in inside if got and (key in NESTED or when or got[0])), None)
        return inner and (when or inner[0], _levelled(record, inner[1]))
    if record.get("_transport") == "kernel" or record.get("syslog_identifier") == "kernel":
        message = f"{record.get('_hostname') or 'host'} kernel: {message}"  # as the journal prints it
    if message.lstrip().startswith("{") and (inner := _inner(message, depth)):
        return when or inner[0], inner[1]
    traces = [record[key].strip("\n") for key in TRACES if isinstance(record.get(key), str) and "\n" in record[key]]
    return when, "\n".join([_levelled(record, message), *traces])


def _levelled(record: dict[str, Any], message: str) -> str:
    """A message behind the level that its record tells."""
    streams = "textpayload" in record  # Google's collector calls all of stderr an error
    level = "" if streams else str(record.get("levelname") or record.get("level") or record.get("severity") or "").upper()
    if level in LEVELS and SHORT.match(str(record.get("time"))):  # NIM's: the stamp that vLLM writes
        file = str(record.get("file_name") or record.get("file_path") or "").rpartition("/")[2]
        return f"{level} {record['time']} [{file}:{record.get('line_number')}] {message}"
    if level not in LEVELS or ISO.match(message) or level in message[:60]:
        return message
    text = message.removesuffix("\n")
    return f"{level} {text}{keys_told(record)}{message[len(text) :]}"


Record = tuple[str, str, str]
"""Time, message and service."""


def record_of(value: Any) -> Record | None:
    """Time, message and service of a record, None where it is none."""
    got = message_of(value)
    return got and (*got, service_of(value))


def service_of(record: Any, depth: int = 0) -> str:
    """Service that wrote a record, by what a shipper says of its pod and container; empty where it says nothing.

    Examples
    --------
    >>> service_of({"log": "hi", "kubernetes": {"pod_name": "vllm-0", "container_name": "server"}})
    'vllm-0/server'
    >>> service_of({"_source": {"message": "hi", "container": {"name": "proxy"}}}), service_of({"message": "hi"})
    ('proxy', '')
    """
    if isinstance(record, str) and record.startswith("{"):
        record = _loaded(record.encode())
    if not isinstance(record, dict) or depth > 2:
        return ""
    own = {key.lower(): value.get("name") if isinstance(value, dict) else value for key, value in record.items()}
    found = (next((own[key] for key in keys if isinstance(own.get(key), str) and own[key]), "") for keys in (PODS, CONTAINERS))
    name = "/".join(re.sub(r"[^\w.-]+", "-", part.strip("/")) for part in found if part)
    return name or next((inner for value in record.values() if (inner := service_of(value, depth + 1))), "")


def _inner(message: str, depth: int) -> tuple[str, str] | None:
    try:
        record = load_json(message)
    except ValueError:
        return None
    return None if _servers_own(record) else message_of(record, depth + 1)


def _servers_own(record: Any) -> bool:
    own = isinstance(record, dict) and any(keys <= record.keys() for keys in _SERVERS_OWN)
    return own and _OWN_TARGET.match(str(record.get("target", "text_"))) is not None


def _stamp(value: Any) -> str:
    """A time as ISO text; numbers are of the epoch, in whatever unit fits the years from 2001 on."""
    if isinstance(value, str) and re.fullmatch(r"\d{10,19}(?:\.\d+)?", value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 1e9 < value < LATEST_NS:
        unit = next(unit for unit in (1, 1_000, 1_000_000, 1_000_000_000) if value < 1e11 * unit or unit == 1_000_000_000)
        whole, rest = divmod(int(value * (1_000_000 // unit)) if unit <= 1_000_000 else int(value) // 1000, 1_000_000)
        return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:06}Z"
    if isinstance(value, str) and (found := _KIBANA.match(value)):
        return datetime.strptime(found[1], "%b %d, %Y @ %H:%M:%S").isoformat() + (found[2] or "")
    if isinstance(value, str) and (found := _OF_PORTALS.match(value)):
        month, day, year, hour, clock, fraction, half = found.groups("")
        hours = int(hour) % 12 + 12 * (half == "P") if half else int(hour)
        return f"{year}-{int(month):02}-{int(day):02}T{hours:02}:{clock}{fraction}"
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
        return load_json(line.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return None


def falls(head: bytes) -> bool:
    """Whether JSON lines come newest first; they are read at once then, and not as they come."""
    records = (record for line in head.split(b"\n") if line.strip() and not _servers_own(record := _loaded(line)))
    return _newest_first([got[0] for record in records if (got := message_of(record))])


def records_of_lines(data: str) -> Iterator[tuple[int, Record]]:
    """Records of JSON lines, each with its line."""
    for number, line in enumerate(data.split("\n"), 1):
        value = _loaded(line.encode()) if line.strip() else None
        got = record_of(value)
        for record in [got] if got else isinstance(value, dict) and "resourceLogs" in value and records_in(value) or ():
            yield number, record


_DOCKER = re.compile(rb'\{"log": ?"([^{\s](?:.*\S)?)\\n", ?"stream": ?"\w+", ?"time": ?"(20\d\d-\d\d-\d\dT\d\d:\d\d:[\d.]+Z)"\}')


def _quickly(line: bytes) -> bytes | None:
    """A whole line of docker's driver without escapes but quotes, as `message_of` and `laid_out` give it; None for any other."""
    found = _DOCKER.fullmatch(line)
    if found is None:
        return None
    bare = found[1].replace(b'\\"', b"")
    if b"\\" in bare or b'"' in bare:
        return None
    return found[2] + b" " + found[1].replace(b'\\"', b'"')


class _Lines:
    """JSON lines on their way to lines of the log that they hold; their numbers go into `numbers`.

    docker's json-file driver cuts lines at 16 KiB: a message whose newline is missing goes on in the next one. It calls
    them `log`; the messages of other programs end in a newline, or not, as it happens.
    """

    def __init__(self, numbers: Numbers):
        self.numbers, self.number = numbers, 0
        self.partial = self.when = ""
        self.ends = self.several = False

    @property
    def open(self) -> bool:
        """Whether the message of the line before goes on."""
        return bool(self.partial or self.when)

    def read(self, line: bytes) -> tuple[str, str, str] | None:
        """Service, time and message of a line; None of one that is no record."""
        record = _loaded(line) if line[:1] == b"{" else None
        got = message_of(record)
        return None if got is None else (service_of(record) if self.several else "", *got)

    def line(self, line: bytes) -> bytes:
        """What a line says, with its newlines; nothing where it goes on."""
        self.number += 1
        quick = None if self.open or self.several else _quickly(line)
        if quick is not None:
            self.numbers.add(1, self.number)
            self.ends = True
            return quick + b"\n"
        record = self.read(line)
        if record is None:
            self.numbers.add(1, self.number)
            return line + b"\n"
        service, when, message = record
        self.ends = self.ends or message.endswith("\n")
        if self.ends and not message.endswith("\n") and b'"log"' in line:
            self.partial, self.when = self.partial + message, self.when or when
            return b""
        text = laid_out(self.when or when, self.partial + message, service)
        self.partial = self.when = ""
        lines = text.count(b"\n") + 1
        self.numbers.add(lines, self.number, 1 if lines == 1 else 0)
        return text + b"\n"

    def close(self) -> bytes:
        """What was left open."""
        self.numbers.add(bool(self.partial), self.number)
        return laid_out(self.when, self.partial) + b"\n" if self.partial else b""


def lines_of(blocks: Iterable[tuple[int, bytes]], numbers: Numbers, size: int = 0) -> Iterator[bytes]:
    """Lines of the log that JSON lines hold, in blocks; what is no record stays as it is. Many of them by a compiled pass.

    `size`: bytes of all blocks, where it is known.
    """
    lines, done = _Lines(numbers), 0
    fast: Records | None = None
    for offset, block in blocks:
        if not offset:
            lines.several = _several(block[:HEAD_BYTES])
        if fast is None and compiled.pays("log", max(done, size)):
            from kit.intake.records_compiled import Records

            fast = Records(lines.read)
        done += len(block)
        if fast is None:
            yield b"".join(map(lines.line, block.removesuffix(b"\n").split(b"\n")))
        else:
            yield b"".join(_quick(lines, fast, block))
    yield lines.close()


def _quick(lines: _Lines, fast: Records, block: bytes) -> Iterator[bytes]:
    """What the lines of a block say; those of known forms are written out by the compiled pass."""
    fast.begin(block)
    while True:
        fast.ends = lines.ends
        said, count, line = (b"", 0, fast.line()) if lines.open else fast.next()
        lines.numbers.add(count, lines.number + 1)
        lines.number += count
        lines.ends = bool(fast.ends)
        yield said
        if line is None:
            return
        if not lines.open:
            fast.learn(line)
        yield lines.line(line)


def _several(head: bytes) -> bool:
    """Whether JSON lines are of several services: their names stand before the lines then, as compose puts them."""
    names = {name for line in head.split(b"\n") if line[:1] == b"{" and (name := service_of(_loaded(line)))}
    return (
        len({name for name in names if not any(other.startswith(f"{name}/") for other in names)}) > 1
    )  # a pod's events are its own


def laid_out(when: str, message: str, service: str = "") -> bytes:
    """A record as lines of a log; carriage returns of bars stay."""
    text = message.removesuffix("\n").removesuffix("\r")
    text = f"{when} {text}" if when else text
    return (re.sub("(?m)^", f"{service} | ", text) if service else text).encode("utf-8", "replace")


def is_cast(head: bytes) -> bool:
    """Whether a text is a recording of asciinema."""
    return re.match(rb'\{"version": ?[23],[^\n]*\}\n\[', head) is not None


def cast_lines(blocks: Iterable[tuple[int, bytes]], numbers: Numbers) -> Iterator[bytes]:
    """What a recording of a terminal showed."""
    number = open_line = 0
    for _, block in blocks:
        out = []
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            event = _loaded(line) if line[:1] == b"[" else None
            if isinstance(event, list) and len(event) == 3 and event[1] == "o" and isinstance(event[2], str):
                shown = event[2].encode("utf-8", "replace")
                out.append(shown)
                ends = shown.count(b"\n")
                numbers.add(min(ends, 1), open_line or number)
                numbers.add(max(ends - 1, 0), number, 0)
                open_line = 0 if shown.endswith(b"\n") else number if ends or not open_line else open_line
        yield b"".join(out)
    numbers.add(bool(open_line), open_line)


# --- documents ----------------------------------------------------------------------------------------------------------


def records_in(value: Any, depth: int = 0) -> list[Record] | None:
    """Records of a JSON document (CloudWatch, Loki, Stackdriver, Elasticsearch), as they stand; None where it holds none."""
    if depth > MOST_NESTED:
        return None
    if isinstance(value, dict):
        if value.keys() & {"apiVersion", "involvedObject"}:
            return None
        if isinstance(value.get("columns"), list) and isinstance(value.get("rows"), list):
            names = [str(one.get("name") or one.get("text") if isinstance(one, dict) else one) for one in value["columns"]]
            value = [dict(zip(names, row, strict=False)) for row in value["rows"] if isinstance(row, list)]
            return records_in(value, depth + 1)
        if isinstance(value.get("values"), list) and isinstance(value.get("stream"), dict):
            pairs = [pair for pair in value["values"] if isinstance(pair, list) and len(pair) >= 2]
            service = service_of(value["stream"])
            return [(_stamp(pair[0]), pair[1], service) for pair in pairs if isinstance(pair[1], str)] or None
        found = [got for inner in value.values() if isinstance(inner, (dict, list)) and (got := records_in(inner, depth + 1))]
        return max(found, key=len, default=None)
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, list) and item and all(map(_is_field, item)) for item in value):
        value = [{one.get("field") or one.get("key") or one.get("name"): one.get("value") for one in item} for item in value]
    got = [record_of(item) for item in value]
    timed = [record for record in got if record and record[0]]
    if len(timed) >= 0.8 * len(value):
        return timed
    inner = (records_in(item, depth + 1) for item in value if isinstance(item, dict))
    return [record for records in inner for record in records or ()] or None


def is_csv(head: bytes) -> bool:
    """Whether a text is a table of records: its first line names a column of messages and one of times."""
    line = head.partition(b"\n")[0].strip().decode("utf-8-sig", "replace")
    found = _HEADER.fullmatch(line)
    if found is None:
        return False
    names = {name.strip(' "').lower() for name in line.split(found["delimiter"])}
    return bool(names & set(MESSAGES)) and any(name in TIMES or _TIME_NAME.search(name) for name in names)


def records_of_csv(data: str) -> Iterator[tuple[int, Record]]:
    """Records of a table, each with the line that it begins at."""
    data = data.removeprefix("\ufeff")
    header = _HEADER.match(data)
    reader = csv.DictReader(io.StringIO(data), restkey="rest", delimiter=header["delimiter"] if header else ",")
    line = 2
    for row in reader:
        got = record_of({str(key).strip(): value for key, value in row.items() if key != "rest"})
        if got:
            yield line, got
        line = reader.line_num + 1


def _is_field(one: Any) -> bool:
    """Whether an object is a field of a record that is written as a list: CloudWatch Insights."""
    return isinstance(one, dict) and "value" in one and bool(one.keys() & {"field", "key", "name"})


def _newest_first(whens: list[str]) -> bool:
    """Whether times fall more often than they rise."""
    pairs = list(zip(whens, whens[1:], strict=False))
    return sum(two < one for one, two in pairs) > sum(two > one for one, two in pairs)


def in_order(records: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Records by time where they came newest first, or from several streams; of equal time as they stood."""
    backwards = _newest_first([when for when, _ in records])
    return sorted(reversed(records) if backwards else records, key=lambda record: record[0])
