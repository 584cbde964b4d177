"""Collective operations by rank: NCCL RAS (`ncclras`, text and JSON), and the analyser of PyTorch's flight recorder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.records import stamp_ns
from kit.parse.snapshot import Line, body_lines, failure, only_failures, titled
from kit.schema import Row
from kit.untrusted import MOST_RANKS, ranks_in

# --- ncclras, text -------------------------------------------------------------------------------------------------------

_BEGINS = re.compile(r"^(?:(?P<version>NCCL version \S+ compiled)|(?P<job>Job summary)|(?P<comms>Communicators\.\.\. ))")
_GROUP = re.compile(
    r"^\s*(?P<group>\d+)\s+\d+\s+\d+\s+[\d-]+\s+(?P<ranks>\d+)\s+\d+\s+(?P<status>[A-Z]+)\s+"
    r"(?P<errors>[A-Z]+(?:,[A-Z]+)*)$"
)
_SECTION = re.compile(r"^#(?P<group>\d+)-\d+ \((?P<hash>[0-9a-fA-F]+)\) (?P<state>[A-Z]+)$")
_JOB_STATE = re.compile(r"^(?P<state>INCOMPLETE|DEAD|TIMEOUT|MISMATCH|ERROR)$")
_OPERATION = re.compile(
    r"^\s+Communicator ranks have different (?P<operation>\S+) (?:operation counts|status)$|"
    r"^\s+Communicator ranks have different (?P<status>status)$"
)
_MANY = re.compile(
    r"^\s+(?P<many>\d+) ranks? (?:have|has) (?:launched up to operation (?P<count>\d+)|"
    r"(?P<none>not launched any operations)|status (?P<status>[A-Z]+))"
)
_REPORTED = re.compile(r"^\s+(?P<many>\d+) ranks? reported (?P<error>.+)$")
_RANK = re.compile(
    r"^\s+Rank (?P<rank>\d+)(?: (?:has launched up to operation (?P<count>\d+)|"
    r"(?P<none>has not launched any operations)|has status (?P<status>[A-Z]+)|reported (?P<error>.+?)))? -- "
)
_MISSING = re.compile(r"^\s+The missing ranks?: (?P<ranks>[\d, -]+)$")
_PROCESS = re.compile(r"^\s+Process \d+ on node \S+ managing GPU")
_EVENT = re.compile(r"^\[(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)\] (?P<event>[A-Z]+_[A-Z_]+): ")
_STATES = {"INCOMPLETE": "missing", "DEAD": "unresponsive", "TIMEOUT": "timed_out"}
_RAS_OTHER = re.compile(
    r"^(?:=+$|\s*Nodes\s+Processes|\s*\(total\)|\s+per node|[\d\s-]+$|Group\s+Comms|\s+#\s+in group|"
    r"Errors$|Warnings$|CUDA runtime|NCCL version|No communicator data|The outlier node|\s+Node \S+ running|"
    r"RAS Monitor|\[could|\s+\[could not|\s+Missing communicator|\s+\d+ job process|\s+Encountered|"
    r"\s+(?:Initialization|Asynchronous) error)"
)


@dataclass
class _Section:
    """A communicator that RAS reports on, and the ranks that share what the last line said."""

    group: str | None
    communicator: str | None
    state: str
    operation: str | None = None
    count: int | None = None
    shared: str | None = None
    many: list[tuple[int, int, Line]] = field(default_factory=list)
    listed: dict[int, int] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)


class _Ras:
    """State of one answer of ncclras, or of several in one file."""

    def __init__(self, source: Source):
        self.source = source
        self.query, self.seen = 0, set()
        self.sizes: dict[str, int] = {}
        self.absent: dict[str | None, set[int]] = {}
        self.section: _Section | None = None
        self.rows: list[Row] = []

    def add(
        self,
        line: Line,
        rank: int | None = None,
        state: str | None = None,
        count: int | None = None,
        communicator: str | None = None,
    ) -> None:
        """Take a row; what it lacks is that of the section."""
        at = self.section
        self.rows.append(
            {
                "source": "ncclras",
                "communicator": communicator or (at.communicator if at else None),
                "rank": rank,
                "operation": at.operation if at else None,
                "count": count,
                "state": state or (at.state if at else None),
                "text": line.text.strip(),
                **line.at,
                "moment": self.query,
            }
        )

    def begin(self, word: str) -> None:
        """Count the queries: each begins with the same headings."""
        if word in self.seen:
            self.end_section()
            self.query, self.seen, self.sizes, self.absent = self.query + 1, set(), {}, {}
        self.seen.add(word)

    def end_operation(self) -> None:
        """RAS lists outliers alone. Where a single group is not listed and the numbers fit, the rest of the ranks is it."""
        at = self.section
        if at is None or not at.many:
            return
        size, left = self.sizes.get(at.group or "", 0), [entry for entry in at.many if entry[1] not in at.listed.values()]
        others = set(range(min(size, MOST_RANKS))) - set(at.listed) - self.absent.get(at.communicator, set())
        if len(left) == 1 and left[0][0] == len(others):
            for rank in sorted(others):
                self.add(left[0][2], rank, count=left[0][1])
        at.many, at.listed = [], {}

    def end_section(self) -> None:
        """Finish the communicator at hand."""
        self.end_operation()
        self.section = None

    def read(self, line: Line) -> bool:
        """Read a line; tell whether it was understood."""
        text = line.text
        if found := _BEGINS.match(text):
            self.begin(found.lastgroup)
        elif found := _GROUP.match(text):
            self.begin(f"group {found['group']}")
            self.sizes[found["group"]] = int(found["ranks"])
            errors = found["errors"]
            state = "mismatch" if "MISMATCH" in errors else "missing" if "INCOMPLETE" in errors else errors.lower()
            self.add(line, state=found["status"].lower() if errors == "OK" else state, communicator=f"group {found['group']}")
        elif found := _SECTION.match(text):
            self.end_section()
            self.section = _Section(found["group"], found["hash"], _STATES.get(found["state"], found["state"].lower()))
            self.add(line)
        elif found := _JOB_STATE.match(text):
            self.end_section()
            self.section = _Section(None, None, _STATES.get(found["state"], found["state"].lower()))
            if found["state"] == "TIMEOUT":
                self.add(line)
        elif found := _EVENT.match(text):
            year, month, day = map(int, found["date"].split("-"))
            line = line._replace(time=stamp_ns(self.source, year, month, day, *found["clock"].split(":")))
            self.add(line, state="unresponsive" if "DEAD" in found["event"] else found["event"].lower())
        elif self.section is None or not self._detail(line, self.section):
            return not text.strip() or bool(_RAS_OTHER.match(text))
        return True

    def _detail(self, line: Line, at: _Section) -> bool:
        text = line.text
        if found := _OPERATION.match(text):
            self.end_operation()
            at.operation, at.count, at.shared = None, None, None
            if found["operation"] not in (None, "collective"):
                at.operation = found["operation"]
        elif found := _MANY.match(text):
            at.count = 0 if found["none"] else int(found["count"]) if found["count"] else None
            at.shared = found["status"].lower() if found["status"] else None
            if at.count is not None:
                at.many.append((int(found["many"]), at.count, line))
            self.add(line, state=at.shared, count=at.count)
        elif found := _REPORTED.match(text):
            at.shared = "error"
            self.add(line, state="error")
        elif found := _RANK.match(text):
            own = found["count"] or found["none"] or found["status"] or found["error"]
            count = (int(found["count"]) if found["count"] else 0 if found["none"] else None) if own else at.count
            state = found["status"].lower() if found["status"] else "error" if found["error"] else None if own else at.shared
            rank = int(found["rank"])
            self._note(at, rank, count)
            self.add(line, rank, state, count)
        elif found := _MISSING.match(text):
            for rank in ranks_in(found["ranks"], MOST_RANKS - len(self.rows)):
                self._note(at, rank, None)
                self.add(line, rank)
        elif _PROCESS.match(text):
            self.add(line)
        else:
            return False
        return True

    def _note(self, at: _Section, rank: int, count: int | None) -> None:
        if count is not None:
            at.listed[rank] = count
            if all(count != other for _, other, _ in at.many):
                at.many.append((1, count, Line(0, "", None, None)))
        if at.state == "missing":
            self.absent.setdefault(at.communicator, set()).add(rank)


def parse_ncclras(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read the answer of ncclras (or of `nc host 28028`), text, JSON or events; several answers are samples.

    Examples
    --------
    >>> sample = ["    0         1         2         4         8         8  RUNNING  MISMATCH", "",
    ...     "#0-0 (78db921d1c117b4a) MISMATCH", "  Communicator ranks have different AllReduce operation counts",
    ...     "  7 ranks have launched up to operation 64",
    ...     "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1"]
    >>> rows = [row for _, row in parse_ncclras(sample, Source("ras.txt"), Report())]
    >>> [(row["rank"], row["operation"], row["count"]) for row in rows if row["rank"] in (0, 6, 7)]
    [(7, 'AllReduce', 60), (0, 'AllReduce', 64), (6, 'AllReduce', 64)]
    """
    lines = list(lines)
    if any(line.lstrip().startswith("{") for line in lines):
        rows = _ras_json(lines, source, report)
    else:
        ras = _Ras(source)
        for line in titled(lines, source, report):
            if ras.read(line):
                continue
            failed = failure(line, "ncclras", source)
            if failed or re.search(r"onnection refused|Failed to connect", line.text):
                yield "tool_errors", failed or {"tool": "ncclras", "error": "other", "text": line.text, "line": line.number}
            else:
                report.odd("no line of ncclras", line.text)
        ras.end_section()
        rows = ras.rows
    numbered = source.moment is None and any(row["moment"] for row in rows)
    for row in rows:
        row["moment"] = row["moment"] if numbered else source.moment
        report.records += 1
        yield "collectives", row


# --- ncclras, JSON -------------------------------------------------------------------------------------------------------


def _ras_json(lines: list[str], source: Source, report: Report) -> list[Row]:
    report.lines = len(lines)
    rows, query = [], -1
    for at, document in objects("\n".join(lines)):
        stamp = re.match(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)", str(document.get("timestamp") or ""))
        time = stamp_ns(source, int(stamp[1]), int(stamp[2]), int(stamp[3]), stamp[4], stamp[5], stamp[6]) if stamp else None
        base = {"source": "ncclras", "line": at, "time": time, "moment": max(query, 0)}
        if isinstance(document.get("communicators"), list):
            query += 1
            base["moment"] = query
            for communicator in document["communicators"]:
                rows += [base | row for row in _communicator(communicator)] if isinstance(communicator, dict) else []
        elif "event" in document:
            state = "unresponsive" if "DEAD" in str(document["event"]) else str(document["event"]).lower()
            rows.append(base | {"rank": None, "state": state, "text": f"{document['event']}: {document.get('peer')}"})
        elif isinstance(document.get("rank"), int):
            rows += [base | row for row in _communicator({"ranks": [document]})]  # of an answer that was cut
        elif "hash" in document:
            rows += [base | row for row in _communicator(document)]
        else:
            report.odd("object that is not an answer of ncclras", str(document))
    return rows


def _communicator(given: dict) -> Iterator[Row]:
    """Rows of one communicator: its own, then the counts of each rank. Operations whose counts differ come last."""
    name = str(given.get("hash") or "").removeprefix("0x") or None
    ranks = [rank for rank in given.get("ranks") or [] if isinstance(rank, dict) and isinstance(rank.get("rank"), int)]
    missing = [rank for rank in given.get("missing_ranks") or [] if isinstance(rank, dict) and isinstance(rank.get("rank"), int)]
    counts: dict[str, dict[int, int]] = {}
    for rank in ranks:
        done = rank.get("collective_counts")
        for operation, count in done.items() if isinstance(done, dict) else ():
            if isinstance(count, int):
                counts.setdefault(str(operation), {})[rank["rank"]] = count
    differ = {operation for operation, by_rank in counts.items() if len(set(by_rank.values())) > 1}
    if name:
        yield {
            "communicator": name,
            "rank": None,
            "state": "missing" if missing else "mismatch" if differ else "running",
            "text": f"{given.get('ranks_count', len(ranks))} of {given.get('size')} ranks answered",
        }
    for operation in sorted(counts, key=lambda operation: operation in differ):
        for rank in ranks:
            count = counts[operation].get(rank["rank"])
            if count is not None and (count or operation in differ or not any(any(by.values()) for by in counts.values())):
                state = _status(rank.get("status"))
                yield {
                    "communicator": name,
                    "rank": rank["rank"],
                    "operation": operation,
                    "count": count,
                    "state": "mismatch" if operation in differ and state == "running" else state,
                    "text": f"rank {rank['rank']} (pid {rank.get('pid')}): {operation} {count}",
                }
    for rank in missing:
        status = rank.get("status") if isinstance(rank.get("status"), dict) else {}
        lost = status.get("unresponsive") or status.get("considered_dead")
        yield {
            "communicator": name,
            "rank": rank["rank"],
            "state": "unresponsive" if lost else "nocomm" if status else "missing",
            "text": f"rank {rank['rank']} (pid {rank.get('pid')}) gave no data",
        }


def _status(status: object) -> str:
    """State of a rank, in the order in which RAS itself tells it (0: ncclSuccess, 7: ncclInProgress)."""
    if not isinstance(status, dict):
        return "running"
    if status.get("abort_flag"):
        return "abort"
    if any(status.get(key, 0) not in (0, 7) for key in ("init_state", "async_error")):
        return "error"
    if status.get("finalize_called") or status.get("destroy_flag"):
        return "finalize"
    return "init" if status.get("init_state") == 7 else "running"


def _is_ncclras(head: str) -> float:
    if re.search(r'"communicators(?:_count)?"\s*:', head) and ("nccl_version" in head or "collective_counts" in head):
        return 0.97
    if re.search(r'"event"\s*:\s*"PEER_', head) and '"nvml_devs"' in head:
        return 0.9
    lines = body_lines(head)
    own = sum(
        bool(
            _SECTION.match(line)
            or _GROUP.match(line)
            or _BEGINS.match(line)
            or _EVENT.match(line)
            or re.match(r"^Group\s+Comms\s+Nodes\s+Ranks|^No communicator data collected", line)
        )
        for line in lines
    )
    known = sum(
        bool(
            _RAS_OTHER.match(line)
            or _MANY.match(line)
            or _RANK.match(line)
            or _OPERATION.match(line)
            or _PROCESS.match(line)
            or _JOB_STATE.match(line)
            or _MISSING.match(line)
        )
        for line in lines
    )
    if own and own + known > 0.7 * len(lines):
        return 0.95
    return 0.9 if "Failed to connect to the NCCL RAS service" in head else only_failures(head, "ncclras")


# --- analysis of the flight recorder -------------------------------------------------------------------------------------

_HEADLINE = re.compile(
    r"(?P<kind>Not all ranks joining collective|Input/output mismatch in the collective|"
    r"Mismatch in collective|Collective sequence number:)\D{0,200}?(?P<count>\d{1,20})?(?: at entry| has errors|\s{0,40}$)"
)
_OLD_HEADLINE = re.compile(
    r"Not all ranks joining collective for group (?P<group>\S+) collective (?P<operation>\S+)\s+"
    r"Missing ranks are (?P<ranks>\{[^}]*\})"
)
_FIELD = re.compile(
    r"(?P<key>group info|collective|missing ranks|collective state|error msg|expected ranks|world size|"
    r"internal record id|(?:total )?(?:input|output) (?:sizes|numel)|collective stack trace): ?(?P<value>.*)$"
)
_CULPRIT = re.compile(r"Culprit rank (?P<rank>\d+); (?P<error>[^;]*?)(?=, Culprit|$)")
_NO_DUMP = re.compile(r"(?:missed FR dumps from ranks|Missing dump files from ranks) \(?(?P<ranks>\{[^}]*\})")
_FR_OTHER = re.compile(r"^\s*(?:\S.* at \S+:\d+$|$)|No errors found for this collective|loaded \d+ files|built groups")


def parse_fr_analysis(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read what `torchfrtrace` (or fr_trace.py) prints: ranks that did not join, ranks that called something else.

    Examples
    --------
    >>> sample = ["Not all ranks joining collective 5 at entry 4", "group info: 0:default_pg", "collective: nccl:all_reduce",
    ...     "missing ranks: {1}", "expected ranks: 2", "collective state: scheduled"]
    >>> [(row["rank"], row["operation"], row["count"], row["state"]) for _, row in
    ...     parse_fr_analysis(sample, Source("fr.txt"), Report())]
    [(None, 'nccl:all_reduce', 5, 'missing'), (1, 'nccl:all_reduce', None, 'missing')]
    """
    block: Row | None = None
    ranks: list[tuple[int, str]] = []
    for line in titled(lines, source, report):
        text = line.text
        old, head, value = _OLD_HEADLINE.search(text), _HEADLINE.search(text), _FIELD.search(text)
        no_dump = _NO_DUMP.search(text)
        if old or head:
            yield from _block(block, ranks, source, report)
            state = "missing" if old or head["kind"].startswith("Not all") else "mismatch"
            block = {"source": "flight_recorder", "state": state, "text": text.strip(), **line.at}
            ranks = [(rank, state) for rank in ranks_in(old["ranks"], MOST_RANKS - report.records)] if old else []
            block |= (
                {"communicator": old["group"], "operation": old["operation"]}
                if old
                else {"count": int(head["count"]) if head["count"] else None}
            )
        elif no_dump:
            for rank in ranks_in(no_dump["ranks"], MOST_RANKS - report.records):
                report.records += 1
                yield (
                    "collectives",
                    {
                        "source": "flight_recorder",
                        "rank": rank,
                        "state": "no_dump",
                        "text": text.strip(),
                        **line.at,
                        "moment": source.moment,
                    },
                )
        elif block is not None and value:
            _field(block, ranks, value)
        elif not _FR_OTHER.search(text):
            report.odd("no line of a flight recorder analysis", text)
    yield from _block(block, ranks, source, report)


def _field(block: Row, ranks: list[tuple[int, str]], found: re.Match) -> None:
    key, value = found["key"], found["value"].strip()
    if key == "group info":
        block["communicator"] = value
    elif key == "collective":
        block["operation"] = value
    elif key == "missing ranks":
        ranks += [(rank, "missing") for rank in ranks_in(value, MOST_RANKS - len(ranks))]
    elif key == "world size" and value.isdecimal():
        block["world"] = int(value[:7])
    elif key == "error msg":
        ranks += [(int(culprit["rank"]), "mismatch") for culprit in _CULPRIT.finditer(value)]
        block["text"] = f"{block['text']}: {value}"


def _block(block: Row | None, ranks: list[tuple[int, str]], source: Source, report: Report) -> Rows:
    """Rows of one collective: its own, and one a rank that is named. How far a missing rank is, the analysis does not say."""
    world = block.pop("world", None) if block else None
    if world:
        said = {"operation": "world size", "count": world, "text": f"group {block.get('communicator')}: {world} ranks"}
        yield "collectives", {**block, "source": "recorder_status", "rank": None, "state": None, "moment": source.moment} | said
    for rank, state in [(None, block["state"]), *ranks] if block else ():
        report.records += 1
        count = block.get("count") if state != "missing" or rank is None else None
        yield "collectives", block | {"rank": rank, "state": state, "count": count, "moment": source.moment}


def _is_fr_analysis(head: str) -> float:
    lines = body_lines(head)
    heads = sum(bool(_HEADLINE.search(line) or _OLD_HEADLINE.search(line) or _NO_DUMP.search(line)) for line in lines)
    known = heads and sum(bool(_FIELD.search(line) or _FR_OTHER.search(line)) for line in lines)
    return 0.95 if heads and heads + known > 0.6 * len(lines) else 0.0


FORMATS = (
    Format("ncclras", r"nccl-?_?ras|(?<![a-z])ras(?![a-z])", _is_ncclras, parse_ncclras, frames=("collectives", "tool_errors")),
    Format("fr_analysis", r"torchfrtrace|fr_?trace|flight", _is_fr_analysis, parse_fr_analysis, frames=("collectives",)),
)
