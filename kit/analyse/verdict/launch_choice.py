"""Which launch is judged where the evidence holds several: logs and processes of other servers are set aside."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations

from kit.analyse.verdict.evidence import Evidence, Foreign
from kit.analyse.verdict.options import command_line
from kit.analyse.verdict.pods import names, pods
from kit.analyse.verdict.processes import SERVING_ROLES, flags, started, titles_of
from kit.analyse.verdict.reporter import OF_ENDING, others_from
from kit.clock import NS, show_duration
from kit.errors import UsageError
from kit.intake.content import Content
from kit.parse.grammar import libraries, load
from kit.run import Run
from kit.untrusted import whole_number
from kit.words import named

DAY_NS, HALF_HOUR_NS, MINUTE_NS = 86_400 * NS, 1800 * NS, 60 * NS
SNAPSHOT = re.compile(r"[0-9a-f]{12,}")
IN_OTHERS = frozenset(("services", "triton", "llamacpp"))
"""Grammars whose lines stand beside those of another server in one launch."""
OF_TRAINING = frozenset(("training", "nemo", "deepspeed", "accelerate", "torchrun"))
"""Grammars of what trains and of what starts trainings."""
LEAST_RECORDS = 3
"""Records of a launch that begins anew in a log that no grammar knows, by which it has come on."""
LISTENING = ("warmup", "ready", "serving")
OF_PROCESSES = ("processes", "threads", "io", "fds", "stacks")


@dataclass
class Log:
    """What one log tells of its launch."""

    port: int | None = None
    pids: set[int] = field(default_factory=set)
    times: list[int] = field(default_factory=list)
    stamped: bool = False
    file_ns: int = 0
    begins: bool = False
    works: bool = False
    comes_on: bool = False
    serves: bool = False
    loads: bool = False
    models: set[str] = field(default_factory=set)
    peers: set[int] = field(default_factory=set)
    """Ports of others that it speaks of as its own workers."""
    grammars: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    title: str = ""
    over: bool = False
    """Nothing comes after the last of its errors and endings."""
    part: bool = False
    """It is one of several that make a launch: of a node, of a rank, of a disaggregated server."""

    @property
    def runs(self) -> set[str]:
        """The servers whose lines it holds, `training` for all that trains; none where Ray may run anything beside it."""
        trains = {"training"} if not self.grammars.isdisjoint(OF_TRAINING) else set()
        return set() if "ray" in self.grammars or "rl" in self.grammars else self.programs or trains

    @property
    def fronts(self) -> bool:
        """Whether it serves what others load: a router, a gateway, an API before the workers."""
        return self.begins and self.serves and not self.loads and not self.models


@dataclass(frozen=True)
class Asked:
    """The launch that the caller names; without either the newest log's is judged."""

    pid: int | None = None
    port: int | None = None

    def __bool__(self) -> bool:
        return self.pid is not None or self.port is not None


ANY = Asked()


def other_logs(evidence: Evidence, asked: Asked) -> dict[str, str]:
    """Logs of other launches, with the reason.

    Raises
    ------
    UsageError
        Where several launches are there, and none of them nor of the processes is the one that was asked for.
    """
    logs = _logs(evidence)
    if later := {} if asked else _of_somebody_else(evidence) or _of_other_pods(evidence):
        return later
    alone = {name: log for name, log in logs.items() if (log.begins or log.works) and not log.part}
    if gone := {} if asked else _of_no_process(evidence, alone):
        return gone
    if not any(_differ(one, other) for one, other in combinations(alone.values(), 2)):
        return {}
    fitting = {name: log for name, log in alone.items() if _fits(log, asked)}
    if asked and not fitting:
        return {}
    newest = max(fitting, key=lambda name: (max(fitting[name].times, default=0), name))
    going = [name for name, log in fitting.items() if not log.over and _beside(log, fitting[newest])]
    going = going if _seen_alive(evidence) else []
    last = max(going or fitting, key=lambda name: (max(fitting[name].times, default=0), name))
    same = [name for name in going or fitting if not _differ(fitting[name], fitting[last])]
    judged = max(same, key=lambda name: (fitting[name].stamped, max(fitting[name].times, default=0), name))
    which = "is the newest" if last == newest else "is the newest that tells no end"
    loaders = [name for name in going or fitting if fitting[name].loads and _beside(fitting[name], fitting[judged])]
    if fitting[judged].fronts and loaders:
        judged, which = max(loaders, key=lambda name: (max(fitting[name].times), name)), "loads the model"
    other = {name: log for name, log in alone.items() if _differ(alone[judged], log)}
    title = alone[judged].title
    why = f"that of {title} is judged" if asked else f"{title} {which} and is judged; choose with --pid or --port"
    return {name: f"{log.title} is of {_whose(log)}, {why}" for name, log in other.items()}


def judged_attempts(evidence: Evidence, asked: Asked) -> dict[str, int]:
    """By log that holds several launches, how many stand before the one that is judged: that which was asked for, else the last
    one, once it has come on. What is started within a training, or within Ray, is no launch of its own."""
    log, nested = evidence.log, {"ray", "rl", *OF_TRAINING} - {"torchrun"}  # whose words for deaths fit others
    last = {name: max(records) for name, records in log.attempts.items()}
    of_last = [mark for mark in log.marks if mark.attempt == last.get(mark.log)]
    come = {mark.log for mark in of_last if mark.kind in ("progress", "error") and "start" not in mark.fields}
    by_form = {name for name, at in last.items() if log.attempts[name][at] >= LEAST_RECORDS} - {mark.log for mark in of_last}
    judged = {name: last[name] for name in come | by_form}
    if asked:
        known = [mark for mark in log.marks if _fits(Log(whole_number(mark.fields.get("port")), {mark.pid} - {None}), asked)]
        judged |= {mark.log: mark.attempt for mark in known if mark.log in last}
    return {name: attempt for name, attempt in judged.items() if nested.isdisjoint(log.programs.get(name, ()))}


def without_ends_between(evidence: Evidence, judged: dict[str, int]) -> None:
    """Leave out what a log says, in words, of an end before the launch that is judged in it."""
    begins = {mark.capture: mark.line for mark in reversed(evidence.log.marks) if mark.log in judged}
    evidence.rows["statements"] = [
        row for row in evidence.statements if row["claim"] not in OF_ENDING or (row["line"] or 0) >= begins.get(row["capture"], 0)
    ]


def of_other_attempts(evidence: Evidence, judged: dict[str, int]) -> list[Foreign]:
    """What is left out with the other launches of a log: their errors, or else that they are there."""
    others = [mark for mark in evidence.log.marks if mark.attempt != judged.get(mark.log, mark.attempt)]
    errors = {mark.order: mark for mark in others if mark.kind == "error"}
    failed = {(mark.log, mark.attempt) for mark in errors.values()}
    quiet = {of: mark for mark in others if (of := (mark.log, mark.attempt)) not in failed}
    said = [("errors", mark) for mark in errors.values()] + [("attempts", mark) for mark in quiet.values()]
    where = {mark.log: "before" if mark.attempt < judged[mark.log] else "after" for mark in others}
    return [Foreign(frame, mark.ref, f"{where[mark.log]} the launch that is judged in its log") for frame, mark in said]


def _logs(evidence: Evidence) -> dict[str, Log]:
    logs: dict[str, Log] = defaultdict(Log)
    for mark in evidence.log.marks:
        log = logs[mark.log]
        log.port = whole_number(mark.fields.get("port")) if log.port is None else log.port
        log.begins |= "start" in mark.fields or log.port is not None
        log.part |= mark.fields.get("disaggregation_mode") in ("prefill", "decode") or "kv_transfer_config" in mark.fields
        if mark.pid is not None:
            log.pids.add(mark.pid)
        if mark.time is not None:
            log.times.append(mark.time)
        log.works |= mark.role not in ("client", "noise")
        if mark.kind in ("progress", "ready", "request", "error") and mark.role not in ("client", "noise", "recovered"):
            log.over = mark.kind == "error"
        log.comes_on |= mark.kind in ("progress", "ready")
        log.serves |= mark.phase in LISTENING
        log.loads |= mark.phase not in (None, "launch", "dist_init", *LISTENING)
        log.peers |= {whole_number(mark.fields.get("peer_port"))} - {None}
        log.models |= {_last_name(mark.fields.get("model"))} - {""}
    for name, programs in evidence.log.programs.items():
        logs[name].grammars, logs[name].programs = programs, programs - libraries() - IN_OTHERS
    of_file: dict[str, list[int]] = defaultdict(list)
    for capture in evidence.run.captures:
        if capture.id in logs:
            of_file[capture.file] += logs[capture.id].times
    for capture in evidence.run.captures:
        if capture.id in logs:
            log = logs[capture.id]
            log.title = f"{capture.stream} in {capture.file}" if capture.stream else capture.id
            log.part |= capture.node is not None or capture.rank is not None or capture.host is not None
            log.pids |= {capture.pid} - {None}
            log.times = log.times or of_file[capture.file]  # of the parts of a file some have no stamps
            log.stamped, log.file_ns = bool(log.times), capture.captured_ns or 0
            log.times = log.times or [log.file_ns]
    return logs


def _last_name(model: object) -> str:
    """What a path and the name on a hub have in common; a snapshot's hash is no name."""
    name = str(model or "").rstrip("/").rsplit("/", 1)[-1].lower()
    return "" if SNAPSHOT.fullmatch(name) else name


def _differ(one: Log, other: Log) -> bool:
    """Whether two logs are of two launches: they have other ports, models or programs, or one ended before the other began.

    Where the begin of one is lost it may be another part of the same launch: then a day lies between them, or half an hour where
    stamps tell both times and the later one shows work of its own; a minute is enough where the earlier one failed.
    """
    if one is other or one.port in other.peers or other.port in one.peers:
        return False
    if None not in (one.port, other.port) and one.port != other.port:
        return True
    if any(mine and its and not mine & its for mine, its in ((one.models, other.models), (one.programs, other.programs))):
        return True
    earlier, later = sorted((one, other), key=lambda log: max(log.times))
    if one.begins and other.begins:
        return max(earlier.times) < min(later.times)
    dated = all(log.stamped or log.file_ns for log in (one, other))
    kept = later.stamped or abs(earlier.file_ns - max(earlier.times)) < DAY_NS  # files that were copied are all of one time
    again = earlier.stamped and later.stamped and later.comes_on
    apart = (MINUTE_NS if earlier.begins and earlier.over else HALF_HOUR_NS) if again else DAY_NS
    return dated and kept and min(later.times) - max(earlier.times) > apart


def _seen_alive(evidence: Evidence) -> bool:
    """Whether somebody looked at processes, and one of a server or of Python lived."""
    titles = titles_of(evidence)
    alive = [row for row in evidence.processes if row.get("state") not in (None, "Z", "X")]
    return bool(evidence.stacks) or any(titles.may_serve(row.get("cmdline") or row.get("comm")) for row in alive)


def _of_somebody_else(evidence: Evidence) -> dict[str, str]:
    """Logs that stand in a file where somebody has said that theirs does the same, with one before that."""
    why = "is of somebody who says that theirs does the same"
    for file, said in others_from(evidence).items():
        logs = [capture for capture in evidence.run.captures if capture.file == file and capture.kind == "log"]
        after = [capture for capture in logs if isinstance(capture.content, Content) and capture.content.parts[0].line > said]
        if len(after) < len(logs):
            return {capture.id: f"{capture.id} {why}" for capture in after}
    return {}


def _of_other_pods(evidence: Evidence) -> dict[str, str]:
    """Logs of pods that are not the launch's, by the command that printed them, or by their names."""
    others = pods(evidence).others
    logs = [capture for capture in evidence.run.captures if capture.kind == "log"]
    told = {capture.id: f"{capture.title} {capture.source or ''}" for capture in logs}
    return {log: f"{log} is {why}" for log, text in told.items() for pod, why in others.items() if names(pod, text)}


@dataclass(frozen=True)
class Living:
    """What the processes that were looked at are."""

    pids: set[int]
    programs: set[str]
    options: list[dict]
    """Those of each server's command line."""
    began: int
    """When the first of the servers' was started, 0 where that is not known."""
    chosen: bool
    """Somebody took stacks, of one launch on purpose; a list alone may hold others' while the launch is gone."""


def _living(evidence: Evidence) -> Living:
    rows = [row for row in evidence.processes if row.get("state") not in ("Z", "X")]
    titled = {row.get("cmdline") or row.get("comm") or "" for row in rows} | {row.get("process") or "" for row in evidence.stacks}
    grammars, titles = load(evidence.run.knowledge), titles_of(evidence)
    programs = grammars.programs({row["file"] for row in evidence.stacks if row.get("file")}, titled)
    servers = [launch.options for text in titled if titles.role(text) == "frontend" and (launch := command_line(text))]
    begun = (started(row) for row in rows if titles.role(row.get("cmdline") or "") in SERVING_ROLES)
    return Living(
        pids={row.get("pid") for row in (*rows, *evidence.stacks)} - {None},
        programs=programs.union(*(grammar.hosts for grammar in grammars.all if grammar.name in programs)),
        options=servers,
        began=min((at for at in begun if at is not None), default=0),
        chosen=bool(evidence.stacks),
    )


def _of_no_process(evidence: Evidence, logs: dict[str, Log]) -> dict[str, str]:
    """Logs that none of the processes in the evidence writes, with the reason; a recorder takes the log of what it started."""
    if evidence.run.manifest.get("launch"):
        return {}
    living = _living(evidence)
    untied = {name: log for name, log in logs.items() if living.pids.isdisjoint(log.pids)}
    told = {name: _why_of_none(log, living, evidence.run) for name, log in untied.items()}
    if len(untied) < len(logs):  # the processes are those of another log; one without its begin may be of a worker that died
        gone = "its pids are none of those that were looked at, and another log's are"
        told |= {name: told[name] or gone for name, log in untied.items() if log.begins and log.pids}
    return {name: f"{logs[name].title} is of {_whose(logs[name])}: {why}" for name, why in told.items() if why}


def _why_of_none(log: Log, living: Living, run: Run) -> str | None:
    """Why a log is of none of the processes: they run another program, began after it, or serve on another port or model."""
    going = living.chosen or not log.over
    known = living.chosen or "training" not in living.programs  # a script so named may load any server
    if going and known and log.runs and living.programs and living.programs.isdisjoint(log.runs | log.grammars):
        mine, theirs = (", ".join(sorted(names)) for names in (log.runs, living.programs))
        return f"{mine} wrote it, and the processes that were looked at run {theirs}"
    if log.stamped and living.began - max(log.times) > (HALF_HOUR_NS if run.offset_known else DAY_NS):
        return f"it ends {show_duration((living.began - max(log.times)) / NS)} before the processes that live were started"
    old = log.stamped and run.captured_known and run.captured_ns - max(log.times) > HALF_HOUR_NS
    if (old or going) and living.options and all(_names_another(log, options) for options in living.options):
        return "the server that runs is of another port or model"
    return None


def _names_another(log: Log, options: dict) -> bool:
    """Whether a log names another port than a command line, or another model where one of them names no port."""
    port, model = options.get("port"), _last_name(options.get("model"))
    if None not in (log.port, port):
        return log.port != port
    return bool(log.models and model) and model not in log.models


def _beside(one: Log, other: Log) -> bool:
    """Whether two logs are of one time, as far as stamps tell."""
    if not (one.stamped and other.stamped):
        return True
    return max(one.times) > min(other.times) - HALF_HOUR_NS and max(other.times) > min(one.times) - HALF_HOUR_NS


def _fits(log: Log, asked: Asked) -> bool:
    return not asked or log.port == asked.port is not None or asked.pid in log.pids


def _whose(log: Log) -> str:
    port = f" (port {log.port})" if log.port is not None else ""
    return f"{'a program that loads no model' if log.fronts else 'another launch'}{port}"


def set_other_servers_aside(evidence: Evidence, asked: Asked) -> None:
    """Set the process trees of other servers aside, where the one that is judged is known by its port or pid."""
    titles, table = titles_of(evidence), {}
    for row in evidence.processes:
        known = table.setdefault(row["pid"], {})
        known |= {name: row[name] for name in ("ppid", "cmdline", "comm") if row.get(name) is not None}
    root_of: dict[int, int] = {}
    for pid in table:
        above = pid
        while above is not None:
            if titles.role(table.get(above, {}).get("cmdline") or "") == "frontend":
                root_of[pid] = above
            above = table.get(above, {}).get("ppid") if above in table and above != table[above].get("ppid") else None
    ports = {root: flags(table[root].get("cmdline") or "").get("port") for root in set(root_of.values())}
    port = asked.port or next((mark.fields["port"] for mark in evidence.log.marks if mark.fields.get("port")), None)
    judged = root_of.get(asked.pid) or next((root for root, own in ports.items() if own and own == str(port)), None)
    others = {pid for pid, root in root_of.items() if root != judged}
    if judged is None or not others:
        return
    for root in sorted({root_of[pid] for pid in others}):
        row = next(row for row in evidence.processes if row["pid"] == root)
        where = f" on port {ports[root]}" if ports[root] else ""
        number = sum(root_of[pid] == root for pid in others)
        evidence.foreign.append(Foreign("processes", row, f"another server{where} ({number} of the processes listed)"))
    for frame in OF_PROCESSES:
        evidence.rows[frame] = [row for row in evidence.rows[frame] if row.get("pid") not in others]


def check_asked(evidence: Evidence, asked: Asked) -> None:
    """Refuse a pid or port that nothing in the evidence names."""
    pids = {row["pid"] for row in evidence.processes} | {pid for log in _logs(evidence).values() for pid in log.pids}
    pids |= {pid for writers in evidence.log.writers.values() for pid in writers}
    ports = {whole_number(mark.fields.get("port")) for mark in evidence.log.marks}
    ports |= {row.get("local_port") for row in evidence.sockets}
    ports |= {whole_number(flags(row.get("cmdline") or "").get("port")) for row in evidence.processes}
    for name, number, known in (("pid", asked.pid, pids), ("port", asked.port, ports)):
        if number is not None and number not in known:
            shown = sorted(known - {None})[:12]
            raise UsageError(
                f"nothing in the evidence is of {name} {number}",
                f"it names {named(name, shown)}" if shown else f"it names no {name}",
                f"leave --{name} away, or take one of these",
            )
