"""Dumps of PyTorch's flight recorder: pickles, its default form, and JSON. Nothing in a pickle is ever run."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Iterable, Iterator

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.schema import Row
from kit.untrusted import whole_number

MOST_BYTES = 32 << 20
"""Largest pickle that is read. A recorder keeps 2,000 entries by default, which make some 2 MiB."""
STATUS = {"last_enqueued_collective": "last enqueued", "last_completed_collective": "last completed"}
"""Counters of `pg_status` that tell how far a rank's host and its device are. Starts are traced by special builds only."""
_PLAIN = frozenset(
    "PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE EMPTY_SET DICT LIST TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS "
    "SETITEM SETITEMS ADDITEMS FROZENSET NONE NEWTRUE NEWFALSE INT LONG BININT BININT1 BININT2 LONG1 LONG4 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE BINUNICODE8 SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINBYTES8 "
    "PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET POP POP_MARK DUP".split()
)
"""Instructions that make containers and scalars; every other one calls, imports or refers to something."""
_FILE_RANK = re.compile(r"(?:^|[_.-])(?:rank|trace|dump|fr)?[_.-]?(\d+)$", re.IGNORECASE)


class _Plain(pickle.Unpickler):
    """Refuses classes and outer objects, though none gets past `_refusal`."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: object) -> object:
        raise pickle.UnpicklingError("it refers to an object outside of it")


def _refusal(data: bytes) -> str | None:
    """Why a pickle is not loaded: what it would import or call, or a place in memory that it has no use for.

    Examples
    --------
    >>> _refusal(pickle.dumps({"entries": [1]})), _refusal(pickle.dumps(print))
    (None, 'it names builtins print')
    """
    words: list[str] = []
    for at, (code, argument, _) in enumerate(pickletools.genops(data)):
        if code.name in ("GLOBAL", "STACK_GLOBAL", "INST"):
            return f"it names {argument if argument else ' '.join(words[-2:])}"
        if code.name not in _PLAIN:
            return f"it holds the instruction {code.name}"
        if code.name.endswith("PUT") and isinstance(argument, int) and argument > at:
            return "it asks for memory that it does not fill"
        if isinstance(argument, str):
            words = [*words[-1:], argument]
    return None


def load_plain(data: bytes) -> tuple[object, str | None]:
    """Load a pickle of containers and scalars without running anything that is in it.

    Returns what it holds, or None and the reason why it was not read.

    Examples
    --------
    >>> load_plain(pickle.dumps({"a": [1]})), load_plain(b"no pickle")[0]
    (({'a': [1]}, None), None)
    """
    if len(data) > MOST_BYTES:
        return None, f"larger than {MOST_BYTES >> 20} MiB"
    try:
        reason = _refusal(data)
        return (None, reason) if reason else (_Plain(io.BytesIO(data)).load(), None)
    except Exception as error:  # a broken pickle may raise nearly anything
        return None, f"cut or broken: {str(error) or type(error).__name__}"


def _rank_of(name: str) -> int | None:
    stem = re.sub(r"\.(?:json|txt|pkl|pickle|gz)$", "", name.rsplit("/", 1)[-1])
    found = _FILE_RANK.search(stem)
    return int(found[1]) if found and len(found[1]) < 7 else None


def _sequence(entry: dict) -> int | None:
    key = "p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id"
    value = entry.get(key, entry.get("seq_id"))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _group(value: object) -> str:
    """Name of a process group: `35:TENSOR_MODEL_PARALLEL_GROUP` of a pair of name and role."""
    parts = value[:2] if isinstance(value, (list, tuple)) else [value]
    return ":".join(str(part)[:200] for part in parts if isinstance(part, (str, int)))


def _dump_rows(dump: dict, rank: int | None, line: int | None) -> Iterator[Row]:
    """Rows of one rank's dump: of each group its last entry and, before it, the first that has not ended; its counters."""
    if not isinstance(dump.get("entries"), list):
        for key, inner in dump.items():
            if isinstance(inner, dict) and isinstance(inner.get("entries"), list):
                yield from _dump_rows(inner, int(key) if re.fullmatch(r"\d{1,6}", str(key)) else rank, line)
        return
    rank = dump["rank"] if isinstance(dump.get("rank"), int) else rank
    entries = [entry for entry in dump["entries"] if isinstance(entry, dict) and entry.get("state")]
    groups: dict[str, list[dict]] = {}
    for entry in entries:
        groups.setdefault(_group(entry.get("process_group") or entry.get("pg_name") or entry.get("pg_id")), []).append(entry)
    for name, members in groups.items():
        members = [entry for entry in members if not entry.get("is_p2p")] or members
        last = members[-1]
        waiting = next((entry for entry in members if entry["state"] != "completed"), last)
        for entry in (waiting, last) if waiting is not last else (last,):
            created = entry.get("time_created_ns")
            operation = str(entry.get("profiling_name"))[:200]
            yield {
                "source": "flight_recorder",
                "communicator": name,
                "rank": rank,
                "operation": operation,
                "count": _sequence(entry),
                "state": str(entry["state"])[:50],
                "line": line,
                "time": created if isinstance(created, int) and 0 < created < 1 << 62 else None,
                "text": f"group {name}: {operation} #{_sequence(entry)} {str(entry['state'])[:50]}",
            }
    yield from _status_rows(dump, entries, rank, line)


def _status_rows(dump: dict, entries: list[dict], rank: int | None, line: int | None) -> Iterator[Row]:
    """How many entries wait, how many ranks there are, and how far host and device are in each group.

    `pg_status` knows a group by its number in this process, `pg_config` by its name. Entries hold pairs of both; without
    them both count in the order of creation.
    """
    base: Row = {"source": "recorder_status", "rank": rank, "line": line}
    pending = sum(1 for entry in entries if entry["state"] != "completed")
    said = f"rank {rank}: {pending or 'no'} pending {'entry' if pending == 1 else 'entries'} in its flight recorder"
    yield base | {"operation": "pending", "count": pending, "text": said}
    config, status = (dump.get(key) if isinstance(dump.get(key), dict) else {} for key in ("pg_config", "pg_status"))
    names = {str(key): _group([key, about.get("desc")]) for key, about in config.items() if isinstance(about, dict)}
    for key, about in config.items():
        if isinstance(about, dict) and about.get("desc") == "default_pg":
            members = len(re.findall(r"\d+", str(about.get("ranks"))[: 8 << 20]))
            if members:
                yield base | {"operation": "world size", "count": members, "text": f"group {names[str(key)]}: {members} ranks"}
    by_id = {str(entry.get("pg_id")): _group(entry.get("process_group")) for entry in entries}
    if len(names) == len(status) and all(key.isdecimal() for key in [*names, *map(str, status)]):
        ordered = sorted(status, key=lambda key: int(key))
        by_id = dict(zip(map(str, ordered), (names[key] for key in sorted(names, key=int)), strict=True)) | by_id
    pairwise = {_group(entry.get("process_group")) for entry in entries if entry.get("is_p2p")}
    for key, counters in status.items():
        name = by_id.get(str(key))
        for field, operation in STATUS.items() if name and isinstance(counters, dict) else ():
            count = counters.get(field)
            if isinstance(count, int) and count >= 0:
                state = "p2p" if name in pairwise else None
                yield (
                    base
                    | {"communicator": name, "operation": operation, "count": count, "state": state}
                    | {"text": f"rank {rank}, group {name}: {operation} {count}"}
                )


def parse_fr_pickle(content: Iterable[bytes], source: Source, report: Report) -> Rows:
    """Read a pickled dump, such as `nccl_trace_rank_3`; the rank stands in the file's name alone.

    Examples
    --------
    >>> entry = {"process_group": ("0", "default_pg"), "collective_seq_id": 5, "profiling_name": "nccl:all_reduce",
    ...     "state": "scheduled"}
    >>> data = pickle.dumps({"version": "2.9", "pg_config": {}, "entries": [entry]}, protocol=2)
    >>> [(row["rank"], row["operation"], row["count"]) for _, row in
    ...     parse_fr_pickle([data], Source("nccl_trace_rank_3"), Report())]
    [(3, 'nccl:all_reduce', 5), (3, 'pending', 1)]
    """
    data = b""
    for block in content:
        data += block
        if len(data) > MOST_BYTES:
            break
    dump, reason = load_plain(data)
    if reason or not isinstance(dump, dict):
        report.odd(f"flight recorder dump that was not read: {reason or 'it holds no dict'}", "")
        return
    for row in _dump_rows(dump, _rank_of(source.name), None):
        report.records += 1
        yield "collectives", row | {"moment": source.moment}


def _is_fr_pickle(head: str) -> float:
    """A pickle's first byte, 0x80, is no text; its keys are."""
    keys = sum(key in head for key in ("entries", "pg_config", "pg_status", "profiling_name", "nccl_version"))
    return 0.99 if head.startswith("\ufffd") and keys >= 2 and ord(head[1:2] or " ") <= pickle.HIGHEST_PROTOCOL else 0.0


def parse_fr_json(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read flight recorder dumps that were written as JSON.

    Examples
    --------
    >>> sample = ['{"version": "2.5", "pg_config": {}, "entries": [{"process_group": ["0", "default_pg"],',
    ...     '"collective_seq_id": 5, "profiling_name": "nccl:all_reduce", "state": "scheduled", "is_p2p": false}]}']
    >>> [(row["rank"], row.get("communicator"), row["count"]) for _, row in
    ...     parse_fr_json(sample, Source("nccl_trace_rank_3.json"), Report())]
    [(3, '0:default_pg', 5), (3, None, 1)]
    """
    lines = list(lines)
    report.lines = len(lines)
    found = list(objects("\n".join(lines)))
    if cut := [document for _, document in found if "profiling_name" in document]:
        report.odd("dump that is cut or broken, its whole entries were read", "")
        found = [(1, {"entries": cut})]
    for at, document in found:
        for row in _dump_rows(document, _rank_of(source.name), at):
            if row["source"] == "flight_recorder" or not cut:  # what is cut says nothing of what is pending
                report.records += 1
                yield "collectives", row | {"moment": source.moment}


def _is_fr_json(head: str) -> float:
    keys = sum(f'"{key}"' in head for key in ("entries", "profiling_name", "collective_seq_id", "pg_config", "record_id"))
    return 0.97 if keys >= 4 and re.search(r"^\s*[\[{]", head) else 0.0


def parse_fr_text(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read entries of a flight recorder that somebody printed, one a line, by PyTorch's names of their fields.

    Examples
    --------
    >>> sample = ["rank 0: pg=('0', 'default_pg') collective_seq_id=31 profiling_name='nccl:all_reduce' state='started'"]
    >>> [(row["rank"], row["communicator"], row["operation"], row["count"]) for _, row in
    ...     parse_fr_text(sample, Source("flight.txt"), Report())]
    [(0, '0:default_pg', 'nccl:all_reduce', 31)]
    """
    rank = _rank_of(source.name)
    for number, line in enumerate(lines, 1):
        report.lines += 1
        named = _OF_RANK.search(line)
        rank = int(named[1]) if named else rank
        if "profiling_name" not in line:
            continue
        entry: dict[str, object] = {key: value.strip("'\"") for key, value in _PRINTED.findall(line)}
        entry["process_group"] = _WORD.findall(str(entry.get("process_group") or entry.get("pg") or entry.get("pg_name") or ""))
        entry["collective_seq_id"] = whole_number(entry.get("collective_seq_id") or entry.get("seq_id"))
        for row in _dump_rows({"entries": [entry]}, rank, number):
            if row["source"] == "flight_recorder":  # nothing tells of the entries that were not printed
                report.records += 1
                yield "collectives", row | {"moment": source.moment}


def _is_fr_text(head: str) -> float:
    found = re.search(
        r"\b(?:collective_)?seq_id['\"]?[=:].*\bprofiling_name|\bprofiling_name.*\b(?:collective_)?seq_id['\"]?[=:]", head
    )
    return 0.9 if found and re.search(r"\bstate['\"]?[=:]", head) else 0.0


_OF_RANK = re.compile(r"(?i)\brank[ _=:#]{0,3}(\d{1,6})\b")
_PRINTED = re.compile(r"""['"]?\b([a-z_]\w*)['"]?[=:] ?('[^']*'|"[^"]*"|\([^()]*\)|\[[^\[\]]*\]|[^\s,})]+)""")
_WORD = re.compile(r"\w+")
NAMES = r"trace_rank|flight|fr_dump|comm_lib_trace|_dump_\d+$"
FORMATS = (
    Format("fr_json", NAMES, _is_fr_json, parse_fr_json, frames=("collectives",)),
    Format("fr_pickle", NAMES, _is_fr_pickle, parse_fr_pickle, frames=("collectives",), binary=True),
    Format("fr_text", NAMES, _is_fr_text, parse_fr_text, frames=("collectives",)),
)
