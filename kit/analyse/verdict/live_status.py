"""The board: what a launch is doing at one moment, rank by rank, as a live view shows it."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import asdict, dataclass, field, replace

from kit.analyse.verdict.deltas import Delta, bytes_read, cpu_s, deltas
from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.processes import Process, Processes
from kit.analyse.verdict.scene import Scene
from kit.analyse.verdict.verdict import Verdict
from kit.clock import NS
from kit.multi_host import APART
from kit.parse.records import global_rank
from kit.schema import Row
from kit.words import short

LIVING = ("progress", "request", "symptom", "error", "other")
"""Kinds of records that show life: everything but heartbeats and noise, which a hung launch prints for hours."""
SHOWN_ROLES = ("frontend", "engine", "worker")
"""Others are shown where nobody started them: compilers come and go by the dozen."""
STALE_NS = 5 * NS
"""A process that the last samples no longer show has ended."""
MINUTE_NS = 60 * NS
MOST_SAID = 6
MOST_KEPT, LONGEST_LINE = 240, 200
"""Boards that a history goes back, and characters of a log line."""


class LogActivity:
    """Who last said something in the logs. Hand it the rows of frame `log` (`kit.analyse.verdict.evidence.gather(run, also=…)`).

    `signs`: records so far that show life: no heartbeat, no noise, no bar that is drawn again at the same place.
    """

    def __init__(self, now_ns: int | None):
        self.now_ns, self.signs, self.dated, self.recent = now_ns, 0, 0, 0
        self.heard: dict[tuple, int] = {}
        self.progressed: dict[tuple, int] = {}
        self.said: dict[tuple, str] = {}
        self._bars: dict[tuple, float] = {}

    def add(self, row: Row) -> None:
        """Take one row of frame `log`."""
        speaker = (row.get("rank"), row.get("rank_label"), row.get("pid"))
        alive = self._moved(row, speaker) if row.get("bar_kind") else (row.get("kind") or "other") in LIVING
        self.signs += alive
        if text := (row.get("text") or row.get("raw") or "").strip():
            self.said.pop(speaker, None)  # the newest stands last
            self.said[speaker] = text
        when = row.get("time")
        if when is None or row.get("time_source") != "own":
            return
        self.dated += 1
        self.recent += self.now_ns is not None and when > self.now_ns - MINUTE_NS
        self.heard[speaker] = max(when, self.heard.get(speaker, when))
        if alive and (row.get("bar_kind") or row.get("kind") == "progress"):
            self.progressed[speaker] = max(when, self.progressed.get(speaker, when))

    def _moved(self, row: Row, speaker: tuple) -> bool:
        bar, n = (speaker, row["bar_kind"], row.get("bar")), row.get("bar_n") or 0.0
        moved = n != self._bars.get(bar)
        self._bars[bar] = n
        return moved

    def since_s(self, times: dict[tuple, int], process: Process, processes: Processes) -> float | None:
        """Seconds since a process or its rank is in `times`."""
        found = [when for speaker, when in times.items() if _is(speaker, process, processes)]
        return max(0.0, (self.now_ns - max(found)) / NS) if found and self.now_ns is not None else None

    def last_line(self, process: Process, processes: Processes) -> str | None:
        """What a process or its rank printed last."""
        found = [text for speaker, text in self.said.items() if _is(speaker, process, processes)]
        return short(found[-1], LONGEST_LINE) if found else None

    @property
    def silence_s(self) -> float | None:
        """Seconds since the last record with a stamp."""
        if not self.heard or self.now_ns is None:
            return None
        return max(0.0, (self.now_ns - max(self.heard.values())) / NS)


def _is(speaker: tuple, process: Process, processes: Processes) -> bool:
    """Whether the writer of a record is a process: by its pid, else by its rank."""
    rank, label, pid = speaker
    if pid is not None and pid in processes.by_pid:
        return pid == process.pid
    if rank is None and label:
        rank = global_rank(label, processes.sizes)
    return rank is not None and rank == process.rank


@dataclass
class Status:
    """What a launch is doing at one moment."""

    # `name`, `at`: name of the run; local time of the host
    name: str
    at: str
    # `state`, `klass`, `plain`, `phase`: `plain` is the class in a few words
    state: str
    klass: str
    plain: str
    phase: str | None
    confidence: float
    ranks: list[int]  # the odd ranks
    phase_s: float | None = None  # seconds since the phase began
    # `silence_s`, `log_silence_s`: seconds since the last progress record, and since the last record of any kind
    silence_s: float | None = None
    log_silence_s: float | None = None
    records_per_min: int | None = None  # records of the last minute; None where they bear no stamps
    read_bytes_per_s: float | None = None  # of all processes
    # growth of the process that grows fastest; file pages are the same in every rank and are not summed
    rss_bytes_per_s: float | None = None
    bars: list[str] = field(default_factory=list)  # unfinished bars: `weights 3/8`
    # one for each process that matters, ranks first: `rank host pid role state cpu_percent rss_bytes rss_bytes_per_s
    # read_bytes_per_s threads waits_in progress_s record_s odd last_line`; of a watch `cpu_history`: that of its boards
    rows: list[dict] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)  # claims that carry the verdict
    next: list[dict] = field(default_factory=list)  # `what`, `command`
    gone: bool = False  # the launch has ended
    # a stall is believed in, and nothing has stood still for long enough to call it one: the state is `unknown` then
    early: bool = False
    last_line: str | None = None  # what the log said last, whoever said it
    # of a watch, the boards' `read_bytes_per_s` and `records_per_min`, the oldest first
    history: dict[str, list[float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict:
        """Plain Python types under the names of the attributes."""
        return asdict(self)


class History:
    """What the boards of a watch showed, one after the other."""

    def __init__(self) -> None:
        self._kept: dict[object, deque[float | None]] = defaultdict(lambda: deque(maxlen=MOST_KEPT))

    def take(self, board: Status) -> Status:
        """The next board, with what those before it showed."""

        def kept(key: object, value: float | None) -> list[float | None]:
            self._kept[key].append(value)
            return list(self._kept[key])

        rows = [{**row, "cpu_history": kept((row["host"], row["pid"]), row["cpu_percent"])} for row in board.rows]
        rates = ("read_bytes_per_s", "records_per_min")
        return replace(board, rows=rows, history={name: kept(name, getattr(board, name)) for name in rates})


def status_of(verdict: Verdict, activity: LogActivity) -> Status:
    """What judged evidence says of the launch now.

    `activity`: was handed the log of the same evidence.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.verdict.evidence import gather
    >>> from kit.analyse.verdict.scene import scene_of
    >>> from kit.analyse.verdict.verdict import weigh
    >>> run = kit.sample("healthy-tp2")
    >>> activity = LogActivity(run.captured_ns)
    >>> board = status_of(weigh(scene_of(gather(run, also={"log": activity.add}))), activity)
    >>> board.klass, [(row["rank"], row["role"], row["odd"]) for row in board.rows if row["rank"] is not None]
    ('ready', [(0, 'worker', False), (1, 'worker', False)])
    """
    scene, evidence, facts = verdict.scene, verdict.scene.evidence, verdict.facts
    reads = deltas(evidence.io, "pid", bytes_read)
    rows = _rows(scene, verdict, activity, reads)
    growth = [row["rss_bytes_per_s"] for row in rows if row["rss_bytes_per_s"] is not None]
    return Status(
        name=verdict.name,
        at=verdict.captured_at,
        state=verdict.state,
        klass=verdict.klass,
        plain=verdict.plain,
        phase=verdict.phase,
        confidence=verdict.confidence,
        ranks=verdict.ranks,
        phase_s=_phase_s(scene, activity.now_ns),
        silence_s=facts.value("silence_s"),
        log_silence_s=activity.silence_s,
        records_per_min=activity.recent if activity.dated else None,
        read_bytes_per_s=sum(max(0.0, delta.per_s) for delta in reads.values()) if reads else None,
        rss_bytes_per_s=max(growth, key=abs, default=None),
        bars=_bars(evidence),
        rows=rows,
        evidence=list(dict.fromkeys(entry["claim"] for entry in verdict.evidence))[:MOST_SAID],
        next=[{"what": step["what"], "command": step["command"]} for step in verdict.next],
        gone=bool(facts.value("exited")),
        last_line=short(list(activity.said.values())[-1], LONGEST_LINE) if activity.said else None,
    )


def _rows(scene: Scene, verdict: Verdict, activity: LogActivity, reads: dict[object, Delta]) -> list[dict]:
    evidence, processes = scene.evidence, scene.processes
    cpu = deltas(evidence.processes, "pid", cpu_s)
    memory = deltas(evidence.processes, "pid", lambda row: row.get("rss_bytes"))
    mains = {row["pid"]: row for row in evidence.threads if row.get("tid") == row.get("pid")}  # the newest stays
    last = max((row["time"] for row in evidence.processes if row.get("time")), default=0)
    shown = []
    for process in processes.by_pid.values():
        newest = _newest(process, last)
        if newest is None or process.rank is None and process.role not in SHOWN_ROLES and process.ppid in processes.by_pid:
            continue
        pid = process.pid
        shown.append(
            {
                "rank": process.rank,
                "host": newest.get("host_name"),
                "pid": pid % APART["pid"] if newest.get("host_name") else pid,
                "role": process.role,
                "state": newest.get("state"),
                "cpu_percent": round(100 * cpu[pid].per_s, 1) if pid in cpu else None,
                "rss_bytes": newest.get("rss_bytes"),
                "rss_bytes_per_s": memory[pid].per_s if pid in memory else None,
                "read_bytes_per_s": reads[pid].per_s if pid in reads else None,
                "threads": newest.get("threads"),
                "waits_in": _waits_in(mains.get(pid), newest),
                "progress_s": activity.since_s(activity.progressed, process, processes),
                "record_s": activity.since_s(activity.heard, process, processes),
                "odd": process.rank is not None and process.rank in verdict.ranks,
                "last_line": activity.last_line(process, processes),
            }
        )
    return sorted(shown, key=lambda row: (row["rank"] is None, row["rank"] or 0, row["pid"]))


def _newest(process: Process, last: int) -> Row | None:
    """The last row of a process; of the sampler's where it has any, for ps looks seldom. None where it ended and is no rank."""
    rows = [row for row in process.rows if row.get("tool") == "sampler"] or process.rows
    newest = max(rows, key=lambda row: (row.get("time") or 0, row.get("moment") or 0), default=None)
    if newest is None or process.rank is None and (newest.get("state") == "X" or (newest.get("time") or last) < last - STALE_NS):
        return None
    return newest


def _waits_in(main: Row | None, newest: Row) -> str | None:
    """Where the main thread is: its system call, and the kernel function it sleeps in."""
    if newest.get("state") == "R":
        return "running"
    if newest.get("state") in ("Z", "X"):
        return "ended"
    call, wchan = (main.get("syscall"), main.get("wchan")) if main else (None, newest.get("wchan"))
    return " in ".join(word.split(".")[0] for word in (call, wchan) if word) or None  # poll_schedule_timeout.constprop.0


def _phase_s(scene: Scene, now_ns: int | None) -> float | None:
    """Seconds since the rank that is furthest behind entered its phase."""
    walks = [walk for walk in scene.progression.by_rank.values() if walk and walk[-1].phase == scene.progression.phase]
    entered = [walk[-1].time for walk in walks if walk[-1].time is not None]
    if not entered and scene.progression.phase == "launch":
        entered = [zero for zero in (scene.evidence.run.launch_zero_ns,) if zero is not None]
    return max(0.0, (now_ns - min(entered)) / NS) if entered and now_ns is not None else None


def _bars(evidence: Evidence) -> list[str]:
    unfinished = [bar for bar in evidence.log.bars if bar.total and not bar.done]
    return [f"{bar.description or bar.kind} {bar.n:g}/{bar.total:g}" for bar in unfinished[-2:]]
