"""What containers take: `docker stats`, `crictl stats`, `kubectl top`; and `docker events`; docker's also as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kit.parse.base import Format, Report, Rows, Source
from kit.parse.jsontext import objects
from kit.parse.snapshot import Samples, body_lines, date_of, failure, number, only_failures, size_bytes, titled
from kit.schema import Row

_STATS_HEADER = re.compile(r"^(?:CONTAINER(?: ID)?|ID)\s+(?:NAME\s+)?CPU %\s+MEM USAGE / LIMIT")
_STATS = re.compile(
    r"^(?P<id>[0-9a-f]{6,64}|\S+)\s+(?:(?P<name>\S+)\s+)?(?P<cpu>[\d.]+%|--)\s+(?P<used>[\d.]+[a-zA-Z]+|--)\s*/\s*"
    r"(?P<limit>[\d.]+[a-zA-Z]+|--)(?:\s+(?P<share>[\d.]+%|--))?(?:\s.*\s(?P<pids>\d+)(?:\s+\S+s\s+\S+%)?)?\s*$"
)
_TOP_HEADER = re.compile(r"^(?:NAMESPACE\s+)?(?P<whose>POD\s+|CONTAINER\s+)?NAME\s+CPU(?P<cores>\(cores\)| %)\s(?P<node>\s*CPU)?")
"""`kubectl top pods`, with `--containers`, of nodes; `crictl stats`."""
_EVENT = re.compile(
    r"^(?P<when>20\d\d-\d\d-\d\dT\S+) (?P<type>container|network|image|volume|plugin|daemon) (?P<reason>\w+(?: [\w:-]+)??):?"
    r"(?P<detail> .*?)?? (?P<object>\S+)(?: \((?P<text>.*)\))?$"
)


def _size(text: str) -> int | None:
    """A size; what is not said in GiB but in GB, by crictl and podman, counts in thousands."""
    found = re.fullmatch(r"([\d.]+)([kMGT])B", text)
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2])) if found else size_bytes(text)


def _stats_rows(name: str, cpu: str, used: str, limit: str, share: str | None, pids: str | None, where: Row) -> list[Row]:
    """Counters of one container."""
    figures = {"cpu_percent": number(cpu), "mem_used_bytes": _size(used), "mem_limit_bytes": _size(limit)}
    figures |= {"mem_percent": number(share), "pids": number(pids)}
    base = {"source": "docker", "labels": f'container="{name}"', **where}
    return [base | {"name": key, "value": float(value)} for key, value in figures.items() if value is not None]


def _top_rows(columns: list[str], cells: list[str], where: Row) -> list[Row]:
    """Counters of one line of `kubectl top` or `crictl stats`: shares of one CPU, 1000m is 100 %."""
    got = dict(zip(columns, cells, strict=True))
    cores, memory = got.get("CPU(cores)"), got.get("MEMORY(bytes)") or got.get("MEM", "")
    cpu = number(cores or got.get("CPU%"))
    if cores and cpu is not None:
        cpu = cpu / 10 if cores.endswith("m") else cpu * 100
    whose = "container" if "POD" in got or "CONTAINER" in got else "node" if "CPU%" in got else "pod"
    labels = f'{whose}="{got["NAME"]}"' + (f',pod="{got["POD"]}"' if "POD" in got else "")
    base = {"source": "kubernetes", "labels": labels, **where}
    figures = {"cpu_percent": cpu, "mem_used_bytes": _size(memory)}
    return [base | {"name": key, "value": float(value)} for key, value in figures.items() if value is not None]


def parse_stats(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `docker stats`, `crictl stats` or `kubectl top`: CPU and memory of each container, pod or node, as counters.

    Examples
    --------
    >>> sample = ["CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %", "b95a83497c91  vllm  99.1%  60GiB / 64GiB  93.75%"]
    >>> [(row["name"], row["labels"], row["value"]) for _, row in parse_stats(sample, Source("s.txt"), Report())][1]
    ('mem_used_bytes', 'container="vllm"', 64424509440.0)
    """
    samples, columns = Samples(source), []
    for line in titled(lines, source, report):
        where = line.at
        found = _STATS.match(line.text)
        if _STATS_HEADER.match(line.text) or _TOP_HEADER.match(line.text):
            columns = line.text.replace(" %", "%").split() if _TOP_HEADER.match(line.text) else []
            samples.table()
            continue
        cells = line.text.split()
        rows = _top_rows(columns, cells, where) if columns and len(cells) == len(columns) else []
        for _, got in objects(line.text) if line.text.startswith("{") else ():
            used, _, limit = str(got.get("MemUsage", "")).partition(" / ")
            name, cpu, share, pids = (str(got.get(key, "")) for key in ("Name", "CPUPerc", "MemPerc", "PIDs"))
            rows += _stats_rows(name or str(got.get("Container")), cpu, used, limit, share, pids, where)
        if found:
            used, limit, share, pids = (found[key] for key in ("used", "limit", "share", "pids"))
            rows = _stats_rows(found["name"] or found["id"], found["cpu"], used, limit, share, pids, where)
        for row in rows:
            samples.add("counters", row, (row["name"], row["labels"]))
        if not rows:
            samples.misread(line, report, "docker", "not a line of docker stats")
    yield from samples.settle(report)


def _is_stats(head: str) -> float:
    lines = body_lines(head)
    if (
        any(_STATS_HEADER.match(line) or _TOP_HEADER.match(line) for line in lines[:5])
        or '"MemUsage":' in head[:2000]
        and '"CPUPerc":' in head[:2000]
    ):
        return 0.97
    return only_failures(head, "docker")


def parse_docker_events(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `docker events`; the exit code of a `die` and the signal of a `kill` stand in the text.

    Examples
    --------
    >>> sample = ["2026-02-18T01:33:09.840186338+01:00 container die 0fdb48ad (exitCode=137, image=vllm, name=llama)"]
    >>> [(row["reason"], row["object"], row["text"]) for _, row in parse_docker_events(sample, Source("e.txt"), Report())]
    [('die', 'llama', 'exitCode=137, image=vllm, name=llama')]
    """
    for line in titled(lines, source, report):
        found = _EVENT.match(line.text)
        failed = None if found else failure(line, "docker", source)
        if failed:
            yield "tool_errors", failed
        elif found:
            name = re.search(r"(?:^|, )name=([^,]+)", found["text"] or "")
            time = date_of(re.sub(r"(\.\d{9})\d*", r"\1", found["when"]), source)
            report.records += 1
            row = {
                "source": "docker",
                "type": found["type"],
                "reason": found["reason"],
                "object": name[1] if name else found["object"],
            }
            yield "events", row | {"text": found["text"] or line.text, "time": time, "line": line.number}
        elif line.text.startswith("{"):
            yield from _json_event(line.text, line.number, report)
        elif line.text.strip():
            report.odd("not a line of docker events", line.text)


def _json_event(text: str, number_: int, report: Report) -> Rows:
    for _, got in objects(text):
        actor = got.get("Actor")
        attributes = actor.get("Attributes") or {} if isinstance(actor, dict) else {}
        stamp = got.get("timeNano")
        text = (
            ", ".join(f"{key}={value}" for key, value in attributes.items()) if isinstance(attributes, dict) else str(attributes)
        )
        report.records += 1
        row = {"source": "docker", "type": got.get("Type"), "reason": got.get("Action"), "text": text or str(got.get("Action"))}
        row["object"] = attributes.get("name") if isinstance(attributes, dict) else None
        yield "events", row | {"time": stamp if isinstance(stamp, int) else None, "line": number_}


def _is_docker_events(head: str) -> float:
    lines = body_lines(head)
    hits = sum(1 for line in lines if _EVENT.match(line) or line.startswith("{") and '"Actor":' in line and '"Action":' in line)
    return 0.97 if lines and hits > 0.5 * len(lines) else 0.0


FORMATS = (
    Format("docker_stats", r"docker|stats", _is_stats, parse_stats, frames=("counters", "tool_errors")),
    Format("docker_events", r"docker|events", _is_docker_events, parse_docker_events, frames=("events", "tool_errors")),
)
