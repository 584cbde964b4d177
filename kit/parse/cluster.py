"""What orchestrators and operators said: kubectl, docker, ray, Slurm tables; launch scripts; shell transcripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kit.parse import accelerators, amd, disk, gpu, hostfiles, kernel, net, nvidia_lists, procfs, procmaps, ps
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.records import ANSI, SECOND_NS
from kit.parse.script import is_launch, parse_launch
from kit.parse.snapshot import PROMPT, Line, Samples, body_lines, date_of, failure, number, only_failures, size_bytes, titled
from kit.parse.tool_words import TOOL_WORDS
from kit.schema import Row

# --- tables of kubectl, docker, Slurm, ray -------------------------------------------------------------------------------

ORCHESTRATORS = TOOL_WORDS["orchestrator"]
_AGE = re.compile(r"^(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?(?:\s+\(x\d+ over .*\))?$")
_TIMES = re.compile(r"\(x(\d+) over |^(\d+)$")
"""How often an event came, within its age, or in a column of its own."""
_DESCRIBED = re.compile(
    r"^\s*(?P<key>Name|Namespace|State|Last State|Reason|Exit Code|Restart Count|Message|Status|"
    r"Ready):\s+(?P<value>\S.*)$"
)
_POD_STATUS = re.compile(r"""^\s+(?:- )?"?(?P<key>exitCode|restartCount|reason|phase)"?:\s*"?(?P<value>[\w-]+)"?,?$""")
"""Lines of `kubectl get pod -o yaml` and `-o json` that say how its containers are."""
_POD_WORDS = {
    "exitCode": ("ExitCode", "Exit Code"),
    "restartCount": ("RestartCount", "Restart Count"),
    "phase": ("Status", "Status"),
}
_INSPECT = re.compile(
    r'(?:^\s*|[{,]\s*)"(?P<key>OOMKilled|ExitCode|Status|RestartCount|Error|Dead)":\s*+"?(?P<value>[^",{}\s][^",{}]*)'
)
"""Of `docker inspect`, a line each, and of its `-f '{{json .State}}'`, all in one line."""
_CONTAINER = re.compile(r'^\s*"Name": "/(?P<name>[^"]+)"')
"""Whose `docker inspect` it is; that stands between its state and its count of restarts."""
_OBJECT_ENDS = re.compile(r"^ {0,4}[}\]],?$")
_BARE = re.compile(
    r"^\s*(?:(?P<age>[\ddhms]{1,24}(?: \(x\d+ over [^)]+\))?)\s{2,})?(?P<type>Normal|Warning)\s+(?P<reason>[A-Z]\w+)\s{2,}+"
    r"(?:(?P<aged>[\ddhms]{1,24}(?: \(x\d+ over [^)]+\))?)\s*+)?(?P<source>[\w./-]+)\s{2,}(?P<text>\S.*)$"
)
"""An event of `describe`, or of `get events` where an age stands first, whose table's head was left out."""
_JOB = re.compile(
    r"^\s*+(?:JobId=(?P<job>\d+\S*)|JobState=(?P<state>\w+) Reason=(?P<why>\S+)|.*?\bExitCode=(?!0:0)(?P<code>\d+:\d+))"
)
"""Lines of `scontrol show job`."""
_NUMBERED = re.compile(r"^# +(\d+ )")
"""How `ray list` numbered its rows before 2.4."""
_CONTAINER_STATUS = re.compile(r"Up|Exited|Created|Restarting|Paused|Dead|Removal|running|Ready|NotReady", re.IGNORECASE)
_OTHER_HEADER = re.compile(r"^[A-Z]++(?: ?[A-Z%/()])*+(?:\s{2,}[A-Z%](?: ?[A-Z%/])*+(?:\([a-z]+\))?){2,}\s*$")
"""Header of a table that is read elsewhere: the one before has ended."""
_DOCKER_EVENT = re.compile(r"^(?P<when>20\d\d-\d\d-\d\dT\S+) container (?P<reason>\w+):? (?P<object>\w+) \((?P<text>.*)\)$")


def age_s(text: str) -> float | None:
    """Read an age as kubectl prints it.

    Examples
    --------
    >>> age_s("6m2s"), age_s("2d3h"), age_s("3m40s (x5 over 10m)"), age_s("<unknown>")
    (362.0, 183600.0, 220.0, None)
    """
    found = _AGE.match(text.strip())
    if not found or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def _table_header(text: str) -> tuple[str, list[tuple[str, int]]] | None:
    """Tool and columns, with their places, of a header; None where the line is none."""
    spots = [(found.group(), found.start()) for found in re.finditer(r"\S+(?: \S+)*", text)]
    for tool, known in ORCHESTRATORS.items():
        hits = sum(name in known["columns"] for name, _ in spots)
        if tool != "slurm" and hits >= known["least"] and hits >= 0.7 * len(spots):
            return tool, spots
    words = [(found.group(), found.start()) for found in re.finditer(r"[^\s|]+", text)]
    for tool in ("slurm", "ray"):
        known = ORCHESTRATORS[tool]
        if sum(name in known["columns"] for name, _ in words) >= max(known["least"], 0.7 * len(words)):
            return tool, words
    return None


def _cells(text: str, spots: list[tuple[str, int]], words_only: bool) -> dict[str, str]:
    """Cells of a table line: at two blanks where that gives all columns, else at the places of the header."""
    names = [name for name, _ in spots]
    if text.count("|") >= len(names) - 1 > 0:
        return dict(zip(names, (cell.strip() for cell in text.split("|")), strict=False))
    parts = re.split(r"\s+" if words_only else r"\s{2,}", text.strip(), maxsplit=len(names) - 1)
    if len(parts) == len(names):
        return dict(zip(names, parts, strict=True))
    starts = [start for _, start in spots] + [None]
    return {name: text[starts[at] if at else 0 : starts[at + 1]].strip() for at, name in enumerate(names)}


def parse_events(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read kubectl get events, describe pod, get pods; docker ps, inspect, events; squeue; ray list nodes. The header decides.

    The time of an event is the time of the capture less its age.

    Examples
    --------
    >>> sample = ["LAST SEEN   TYPE      REASON      OBJECT        MESSAGE",
    ...     "3m40s       Warning   Unhealthy   pod/llama-8b  Startup probe failed"]
    >>> [(row["reason"], row["age_s"], row["text"]) for _, row in parse_events(sample, Source("events.txt"), Report())]
    [('Unhealthy', 220.0, 'Startup probe failed')]
    """
    tool, spots, about, ruled = None, [], None, False
    inspected: list[Row] = []
    whose: Row = {}
    for line in titled(lines, source, report):
        text = line.text.expandtabs()
        if tool == "slurm" and re.match(r"^-+(?: -+)+\s*$", text):  # sacct rules off its columns, whose cells stand right
            names = [name for name, _ in spots]
            spots = list(zip(names, (dashes.start() for dashes in re.finditer("-+", text)), strict=False))
            ruled = True
        if not text.strip() or re.match(r"^[\s-]+$", text):
            continue
        header = _table_header(text)
        if header:
            (tool, spots), ruled = header, False
            continue
        if _OTHER_HEADER.match(text) or text.startswith("Name:"):  # `describe` begins
            tool = None
        row, about = _loose(text, about, source)
        states = [] if row else [_state(found) for found in _INSPECT.finditer(text)]
        if row is None and not states and tool is not None:
            row = _event(tool, _cells(_NUMBERED.sub(r"\1", text), spots, tool in ("slurm", "ray") and not ruled), text, source)
        failed = failure(line, "kubectl", source) if row is None and not states or not tool else None
        if failed and row is None:
            yield "tool_errors", failed
        elif states:
            report.records += 1
            inspected += [line.at | one | whose for one in states]
        elif row:
            report.records += 1
            yield "events", line.at | row
        elif row is None and not re.match(r"^\s*+[\w ./-]+:(?:\s|$)|^\s", text):
            report.odd("no event", text)
        if named := _CONTAINER.match(text):
            whose = {"object": named["name"]}
        if named or _OBJECT_ENDS.match(text):
            yield from (("events", one | whose) for one in inspected)
            inspected, whose = [], whose if named else {}
    yield from (("events", one) for one in inspected)


def _state(found: re.Match[str]) -> Row:
    """Row of a value that `docker inspect` shows."""
    return {"source": "docker", "reason": found["key"], "text": f"{found['key']}: {found['value'].strip()}"}


def _loose(text: str, about: str | None, source: Source) -> tuple[Row | None, str | None]:
    """Row of a line that needs no header: describe pod, its state as YAML or JSON, docker events."""
    described, event = _DESCRIBED.match(text), _DOCKER_EVENT.match(text)
    if described:
        key, value = described["key"], described["value"]
        if key == "Name":
            return {}, value if text.startswith(key) or not about else about  # further in, names are of volumes
        reason = value if key == "Reason" else key.replace(" ", "")
        return {"source": "kubernetes", "reason": reason, "object": about, "text": text.strip()}, about
    if status := _POD_STATUS.match(text):
        reason, words = _POD_WORDS.get(status["key"], (status["value"], "Reason"))
        return {"source": "kubernetes", "reason": reason, "object": about, "text": f"{words}: {status['value']}"}, about
    if event:
        return {
            "source": "docker",
            "reason": event["reason"],
            "object": event["object"],
            "text": event["text"],
            "time": date_of(re.sub(r"(\.\d{9})\d*", r"\1", event["when"]), source),
        }, about
    if job := _JOB.match(text):
        if job["job"]:
            return {}, job["job"]
        waits = job["state"] == "PENDING" and job["why"] != "None"
        reason = job["why"] if waits else job["state"] or "ExitCode"
        return {"source": "slurm", "reason": reason, "object": about, "text": " ".join(text.split())}, about
    if bare := _BARE.match(text):
        cells = {
            "Age": bare["age"] or bare["aged"] or "",
            "TYPE": bare["type"],
            "REASON": bare["reason"],
            "MESSAGE": bare["text"],
        }
        return _event("kubernetes", cells | {"OBJECT": bare["source"] if bare["age"] else about or ""}, text, source), about
    return None, about


def _event(tool: str, got: dict[str, str], text: str, source: Source) -> Row | None:
    if tool == "kubernetes":
        got = {name.upper().replace(" ", ""): cell for name, cell in got.items()}  # LASTSEEN until 1.12, LastSeen in `describe`
        aged = got.get("LASTSEEN") or got.get("AGE") or ""
        age, counted = age_s(aged), _TIMES.search(got.get("COUNT") or aged)
        message = got.get("MESSAGE")
        reason = got.get("REASON") or got.get("STATUS")
        if not reason:
            return None
        time = None if age is None or source.captured_ns is None or message is None else source.captured_ns - int(age) * SECOND_NS
        row = {
            "source": tool,
            "type": got.get("TYPE") or None,
            "reason": reason,
            "age_s": age,
            "times": int(counted[1] or counted[2]) if counted else None,
            "text": message or " ".join(text.split()),
            "object": got.get("OBJECT") or got.get("NAME"),
        }
        return row | ({"time": time} if time is not None else {})
    if tool == "docker":
        status = got.get("STATUS") or got.get("STATE") or ""
        if {"STATUS", "STATE"} & got.keys() and not _CONTAINER_STATUS.match(status):
            return None
        ports = got.get("PORTS")
        attempt = f" attempt {got['ATTEMPT']}" if got.get("ATTEMPT") else ""  # crictl lists those before under the same name
        return {
            "source": tool,
            "reason": status.split(" ")[0] or None,
            "object": (got.get("NAMES") or got.get("NAME") or "") + attempt or None,
            "text": " ".join(part for part in (status, ports, got.get("IMAGE")) if part) or text.strip(),
        }
    if tool == "slurm":
        place = got.get("NODELIST(REASON)") or ""
        why = re.match(r"^\((.*)\)$", place)
        return {
            "source": tool,
            "reason": why.group(1)
            if why
            else got.get("ST") or got.get("STATE") or (got.get("State") or "").split(" ")[0].rstrip("+") or None,
            "object": got.get("JOBID") or got.get("JobID"),
            "text": " ".join(text.split()) + (f" (ExitCode {got['ExitCode']})" if got.get("ExitCode") else ""),
        }
    about = next((got[name] for name in got if name.endswith("_ID")), None)
    return {"source": "ray", "reason": got.get("STATE"), "object": about, "text": " ".join(text.split())}


def _is_events(head: str) -> float:
    lines = body_lines(head)
    if any(_table_header(line) for line in lines[:5]):
        return 0.96
    if re.search(r"^(?:Name|Namespace|Events):", head, re.MULTILINE) and any(_table_header(line) for line in lines):
        return 0.95
    described = (
        r'^[ \t]+"?containerStatuses"?:|^(?:Namespace:[ \t]+\S+|[ \t]*State:[ \t]+[A-Z]\w+)\n(?:.*\n){0,400}?[ \t]*Restart Count:'
    )
    if re.search(described, head, re.MULTILINE):
        return 0.95
    if any(map(_BARE.match, lines)):
        return 0.9
    if re.search(r"^=+ List: 20\d\d-|^JobId=\d+\S* JobName=.*\n(?:.*\n){0,9}?\s*JobState=", head, re.MULTILINE):
        return 0.95
    if lines and lines[0].startswith("No resources found"):
        return 0.7
    if sum(1 for line in lines if _DOCKER_EVENT.match(line)) > len(lines) / 2:
        return 0.9
    if lines and lines[0].startswith("{") and '"OOMKilled":' in lines[0]:
        return 0.9
    return 0.6 if sum(1 for line in lines if _INSPECT.match(line)) >= 2 else only_failures(head, "kubectl|docker|squeue")


# --- ray status ----------------------------------------------------------------------------------------------------------

_USAGE = re.compile(r"^\s*(?P<used>[\d.]+)(?P<u1>[KMGT]?i?B)?/(?P<total>[\d.]+)(?P<u2>[KMGT]?i?B)?\s+(?P<name>\S+)")
_NODE = re.compile(r"^\s*(?P<count>\d+) (?P<name>\S+)\s*$")


def parse_ray_status(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read `ray status`: used and total of each resource and the nodes, as counters; demands and failures, as events.

    Examples
    --------
    >>> sample = ["Active:", " 1 node_a", " 1 node_b", "Total Usage:", " 0.0/1.0 GPU", "Pending Demands:",
    ...     " {'GPU': 1.0} * 2 (PACK): 1+ pending placement groups"]
    >>> rows = list(parse_ray_status(sample, Source("ray-status.txt"), Report()))
    >>> [(row.get("name") or row["reason"], row.get("value")) for _, row in rows]
    [('gpu_used', 0.0), ('gpu_total', 1.0), ('PendingDemand', None), ('nodes_active', 2.0)]
    """
    samples, section, nodes, time, at = Samples(source), "", {}, None, None
    for line in titled(lines, source, report):
        text = line.text.strip()
        stamp = re.search(r"Autoscaler status: (.+?) =*$", text)
        usage, node = _USAGE.match(line.text), _NODE.match(line.text)
        if stamp:
            _nodes(nodes, at, time, samples)
            nodes, time = {}, date_of(stamp.group(1), source)
        elif re.match(r"^[A-Z][\w /]*:$", text):
            section = text[:-1]
            at = line
            if section in ("Active", "Pending", "Idle"):
                nodes.setdefault(section.lower(), 0)
        elif usage:
            for what, unit in (("used", "u1"), ("total", "u2")):
                value = size_bytes(usage[what] + usage[unit]) if usage[unit] else number(usage[what])
                name = f"{usage['name'].lower()}_{what}"
                samples.add(
                    "counters",
                    {"source": "ray", "name": name, "value": float(value or 0), "line": line.number, "time": time},
                    name,
                )
        elif node and section in ("Active", "Pending", "Idle"):
            nodes[section.lower()] += int(node["count"])
        elif text and not text.startswith(("(no ", "---", "===", "Node status", "Resources")):
            reason = {"Recent failures": "NodeFailure", "Pending": "NodePending"}.get(section)
            if section.endswith("Demands"):  # Demands, Pending Demands, Total Demands: what is met is no longer listed
                reason = "PendingDemand"
            if reason:
                samples.add("events", {"source": "ray", "reason": reason, "text": text, "line": line.number, "time": time})
            else:
                samples.misread(line, report, "ray", "no line of ray status", section == "Total Constraints")
    _nodes(nodes, at, time, samples)
    yield from samples.settle(report)


def _nodes(nodes: dict[str, int], at: Line | None, time: int | None, samples: Samples) -> None:
    for name, count in nodes.items():
        samples.add(
            "counters",
            {"source": "ray", "name": f"nodes_{name}", "value": float(count), "line": at.number if at else None, "time": time},
            f"nodes_{name}",
        )


def _is_ray_status(head: str) -> float:
    if "Autoscaler status:" in head[:2000]:
        return 0.97
    shown = sum(mark in head for mark in ("Node status", "Total Usage:", "Pending Demands:", "Demands:", "Usage:"))
    return 0.9 if shown >= 2 else only_failures(head, "ray") if "ray" in head else 0.0


# --- shell transcripts ---------------------------------------------------------------------------------------------------

_KILL = re.compile(r"^(?:sudo )?(?:kill|pkill|killall|docker (?:kill|stop|rm)|kubectl delete)\b")
OURS = frozenset(TOOL_WORDS["transcript"]["ours"])
THEIRS = frozenset(TOOL_WORDS["transcript"]["theirs"])


def _blocks(lines: Iterable[str], report: Report) -> Iterator[tuple[int, str, list[str]]]:
    """Commands of a transcript: line number, command, and all lines from its prompt on."""
    at, command, block = 1, "", []
    for place, line in enumerate(lines, 1):
        report.lines += 1
        text = ANSI.sub("", line).rstrip("\r\n")
        found = PROMPT.match(text)
        if found:
            if block:
                yield at, command, block
            at, command, block = place, found["command"].strip(), []
        block.append(text)
    if block:
        yield at, command, block


def parse_shell(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a shell transcript: what kills is an event, what the other commands printed goes to the parser of its kind.

    Examples
    --------
    >>> sample = ["$ kill -9 2310", "$ ps -o pid,stat,wchan -p 2310", "    PID STAT WCHAN", "   2310 D    uvm_gpu_wait"]
    >>> [(frame, row.get("reason") or row["state"]) for frame, row in parse_shell(sample, Source("kill.txt"), Report())]
    [('events', 'Kill'), ('processes', 'D')]
    """
    time = None
    for at, command, block in _blocks(lines, report):
        said = [text for text in block[1:] if text.strip()]
        time = next((stamp for stamp in (date_of(text, source) for text in block) if stamp is not None), time)
        if _KILL.match(command):
            report.records += 1
            yield "events", {"source": "shell", "reason": "Kill", "text": command, "line": at, "time": time}
            for place, text in enumerate(block[1:], at + 1):
                if text.strip() and re.match(r"^-?(?:\w*sh|kill|pkill|killall|\[\d+\]|docker|Error)\b", text.lstrip("[")):
                    report.records += 1
                    yield "events", {"source": "shell", "reason": "KillAnswer", "text": text.strip(), "line": place, "time": time}
            said = [text for text in said if not re.match(r"^-?(?:\w*sh|kill): ", text)]
        if said:
            yield from _hand_on(at, block, source, report)


def _hand_on(at: int, block: list[str], source: Source, report: Report) -> Rows:
    """Give a block to the parser whose format it has."""
    text = "\n".join(block)
    score, entry = max(((entry.looks_like(text), entry) for entry in _PRINTED), key=lambda pair: pair[0])
    if score < 0.5:
        report.odd("output of a command that no parser knows", block[0])
        return
    inner = Report()
    for frame, row in entry.parse(block, source, inner):
        if row.get("line") is not None:
            row["line"] += at - 1
        yield frame, row
    report.records += inner.records
    report.facts |= inner.facts
    for reason, count in inner.reasons.items():
        for sample in inner.samples[reason][:count]:
            report.odd(reason, sample)


def _is_shell(head: str) -> float:
    commands = [found["command"] for found in map(PROMPT.match, head.splitlines()) if found]
    programs = {re.sub(r"^(?:(?:sudo|time|timeout \S+) )*", "", command).split(" ")[0] for command in commands}
    if not programs or programs & THEIRS or any("lock" in command for command in commands):
        return 0.0
    if any(_KILL.match(command) for command in commands):
        return 1.5  # whatever the file's name says: no other reader keeps what kills
    kinds = programs & OURS
    if kinds == {"cat"}:
        return 0.98 if len({command.rsplit("/", 1)[-1] for command in commands}) > 1 else 0.0
    return 0.98 if len(kinds) > 1 else 0.0


def _is_kill(head: str) -> float:
    """A line such as `kill -9 2310` without a prompt before it."""
    lines = body_lines(head)
    return 0.8 if lines and re.match(r"^(?:sudo )?(?:kill|pkill|killall) (?:-\w+ )*\S+$", lines[0]) else 0.0


_OWN = (
    Format(
        "events",
        r"events?|kubectl|describe|pods?\b|docker|squeue|nodes",
        _is_events,
        parse_events,
        frames=("events", "tool_errors"),
    ),
    Format("ray_status", r"ray", _is_ray_status, parse_ray_status, frames=("events", "counters", "tool_errors")),
    Format("launch", r"launch|\.sh$|cmd|command|start", is_launch, parse_launch, frames=("commands",)),
)
_PRINTED = _OWN + tuple(
    entry
    for module in (ps, procfs, procmaps, hostfiles, net, gpu, nvidia_lists, amd, accelerators, kernel, disk)
    for entry in module.FORMATS
)
"""Formats that a block of a transcript may have."""
FORMATS = (
    *_OWN,
    Format(
        "shell",
        r"kill|shell|transcript|session",
        lambda head: max(_is_shell(head), _is_kill(head)),
        parse_shell,
        frames=tuple(sorted({frame for entry in _PRINTED for frame in entry.frames})),
        insists=True,
    ),
)
