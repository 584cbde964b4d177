"""What the verdict needs of the logs, gathered record by record so that memory does not grow with the log."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise

from kit.clock import NS
from kit.parse.grammar import NO_DIGITS, libraries
from kit.schema import Row
from kit.untrusted import LARGEST_PID

MOST_MARKS = 400
"""Milestones kept for each code: enough for 128 ranks with drafts; further ones are counted."""
MOST_POINTS = 64
"""Frames of a bar that are kept to know its pace."""
TAIL = 40
"""Records kept from the end."""
MOST_BARS = 1000
"""Bars kept: as many from the begin of the log and from its end; a launch draws some dozens, a training job one an epoch."""
MOST_TEXTS, MOST_TEXT = 256, 200
"""Kinds of records whose last is kept for each rank, and how much of a record tells its kind."""
MOST_PIDS = 4096
"""Pids kept for each process name: a restart loop makes new ones."""


TOGETHER_NS = 60 * NS
"""Logs of one launch that end within this end together."""
COUNTED = ("nccl_op", "watchdog_failure", "work_status", "batch_size")
"""Milestones that count something for each rank: the last of each writer says where it stands."""
STEPS = ("train_step", "train_log", "train_epoch")
"""Milestones of a training that has stepped."""
BY_FORM = ("exception", "traceback", "error_line")
"""Codes of records that are told by their form, whoever wrote them."""
LIFE = ("ready", "serving", "train_step")
"""Phases whose entry or whose work shows that an error before it was survived."""
NOT_ALIVE = ("closing", "finished", "ending")
"""Roles of records that tell an end: the second that tells the same is no life either."""
NO_LIFE = ("probe_request", "request_refused", "engine_idle")
"""Records of a server that is up which a front end prints as well when its engine is dead."""

MOST_FRAMES = 100
"""Frames kept of a traceback."""
_FRAME = re.compile(
    r'^File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)'
    r"|^(?:File )?(?P<notebook>[/~]\S+\.py)(?::\d+,)? in (?P<name>[A-Za-z_][\w.]*)\("
)
"""A frame of a traceback, also as notebooks print it."""
_STATEMENT = re.compile(r"^(?:-*> ?\d+ +)?[\w(].*[\w)\]]")
_GOES_ON = re.compile(r"validation errors? for [\w.\[\], ]{1,120}$|: [^:]{0,400}\w[)\]]?:$")
"""A message of an error that goes on in the next line: that of pydantic names a field there, and the reason below it."""
_FIELD = re.compile(r"[\w.\[\]-]{1,120}$")
MOST_CONTINUED = 300
"""Signs of the line in which a message goes on."""
MOST_TRACES = 32
"""Tracebacks whose frames are kept: the first tell why it failed."""


@dataclass
class Mark:
    """A record that matters: a milestone, an error, a symptom."""

    code: str
    phase: str | None
    kind: str
    capture: str
    line: int
    record: int
    time: int | None
    rank: int | None
    label: str | None
    pid: int | None
    process: str | None
    text: str
    fields: dict
    order: int
    raw: str = ""
    role: str | None = None
    log: str = ""
    """The log that it stands in: one file may hold several."""
    attempt: int = 0
    """How many launches stand before its own in the same log."""
    stamped: bool = False
    """Its time is its own: of a line without a stamp it is that of the line before, and the earliest that it can be."""

    @property
    def ref(self) -> dict:
        """Where it stands."""
        return {"capture": self.capture, "line": self.line, "text": self.text[:300]}


@dataclass
class Bar:
    """One progress bar, from its first frame to its last."""

    kind: str
    description: str
    n: float
    total: float | None
    elapsed_s: float | None
    s_per_item: float | None
    first_order: int
    order: int
    time: int | None
    moved_time: int | None
    capture: str
    line: int
    text: str
    rank: int | None = None
    phase: str | None = None
    moves: int = 0
    """How often a frame showed it further on."""
    points: list[tuple[float, float]] = field(default_factory=list)

    def note(self) -> None:
        """Keep where the bar stands, for its pace; of a long bar every other point goes, again and again."""
        if self.elapsed_s is not None:
            self.points.append((self.n, self.elapsed_s))
        if len(self.points) > MOST_POINTS:
            del self.points[1::2]

    @property
    def done(self) -> bool:
        """Whether it reached its total."""
        return self.total is not None and self.n >= self.total > 0

    @property
    def ref(self) -> dict:
        """Where its last frame stands."""
        return {"capture": self.capture, "line": self.line, "text": self.text[:200]}


@dataclass
class LogDigest:
    """Everything that analyses ask of the logs."""

    marks: list[Mark] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)
    servers: Counter = field(default_factory=Counter)
    programs: dict[str, set[str]] = field(default_factory=dict)
    """By log, the grammars whose milestones stand in it."""
    bars: list[Bar] = field(default_factory=list)
    tail: deque = field(default_factory=lambda: deque(maxlen=TAIL))
    last_progress: Row | None = None
    first_time: int | None = None
    last_time: int | None = None
    records: int = 0
    rank_pids: dict = field(default_factory=dict)
    label_pids: dict = field(default_factory=dict)
    labels: set = field(default_factory=set)
    captures: set = field(default_factory=set)
    tracebacks: set = field(default_factory=set)
    traced: list[Row] = field(default_factory=list)
    """Frames of the last traceback, as those of stacks."""
    traces: dict = field(default_factory=dict)
    """By the place of its error, the frames of a traceback."""
    _open: dict = field(default_factory=dict)
    interrupted: list[list[Row]] = field(default_factory=list)
    """The same of each that Ctrl-C brought, the innermost first: where the processes stood."""
    ranks: set = field(default_factory=set)
    writers: dict = field(default_factory=dict)
    of_ranks: dict = field(default_factory=dict)
    """By text without digits: for each rank that printed such a record the row of the last."""
    _latest: dict = field(default_factory=dict)
    last_answer: tuple[Row, int] | None = None
    """The last request of a client that was answered with success, and its place."""
    last_life: dict = field(default_factory=dict)
    """By log: place of the last record that shows that the launch got ready, served, stepped, or was started again."""
    last_work: dict = field(default_factory=dict)
    """The same without starts."""
    last_token: dict = field(default_factory=dict)
    """The same without statistics that a front end prints while nothing runs: an engine that died leaves those."""
    attempts: dict[str, Counter] = field(default_factory=dict)
    """By log that holds several launches, how many records each has."""
    _ended: dict = field(default_factory=dict)
    """By log that told its end: the first step and the first epoch named after that, which may be those of a last checkpoint."""
    _headless: set = field(default_factory=set)
    """Logs whose server has lost the loop that feeds its engine: that it answers, as a stream does at once, says nothing."""
    _ends: dict = field(default_factory=dict)
    _unfinished: Mark | None = None
    """The error whose message goes on in the next line."""
    _newest: dict = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Take one row of frame `log`."""
        order = self.records
        self.records += 1
        kind = row.get("kind") or "other"
        self.kinds[kind] += 1
        self.captures.add(row["capture"])
        if row.get("server"):
            self.servers[row["server"]] += 1
            if row.get("milestone"):
                self.programs.setdefault(log_of(row), set()).add(row["server"])
        when = row.get("time")
        if when is not None and row.get("time_source") == "own":
            self.first_time = when if self.first_time is None else min(self.first_time, when)
            self.last_time = when if self.last_time is None else max(self.last_time, when)
        self._rank(row)
        if row.get("bar_kind"):
            kind = self._bar(row, order, kind)
        self._go_on(row)
        code = self._code(row)
        log = log_of(row)
        self._ends[log] = order, when
        if row.get("attempt"):
            self.attempts.setdefault(log, Counter())[row["attempt"]] += 1
        again = '"start": ' in (row.get("fields") or "") and '"start": 0' not in row["fields"]
        drawn_again = row.get("bar_kind") and kind == "other"
        if row.get("role") in ("ending", "finished"):
            self._ended.setdefault(log, {})
        if code == "loop_died":
            self._headless.add(log)
        shows_life = (
            row.get("phase") in LIFE
            and not (code == "request" and log in self._headless)
            and code not in NO_LIFE
            and row.get("role") not in NOT_ALIVE
        )
        if shows_life and kind != "error" and not drawn_again and self._lives(row, log):
            self.last_work[log] = self.last_life[log] = order
            if code != "engine_stats" or '"running": 0' not in (row.get("fields") or ""):
                self.last_token[log] = order
        elif again:
            self.last_token[log] = self.last_life[log] = order
        if code in COUNTED:
            mark = _mark(row, code, kind, order, log)
            self._latest[
                code, mark.capture, mark.pid, mark.rank, mark.label, mark.fields.get("rank"), mark.fields.get("comm")
            ] = mark
        if code:
            self.counts[code] += 1
            if self.counts[code] <= MOST_MARKS:
                self.marks.append(_mark(row, code, kind, order, log))
                if kind == "error" and code != "traceback" and _GOES_ON.search(self.marks[-1].text):
                    self._unfinished = self.marks[-1]
            else:
                self._newest[code] = row, kind, order, log
        if code == "request" and log not in self._headless and '"status": 2' in (row.get("fields") or ""):
            self.last_answer = row, order
        if kind in ("progress", "ready", "request") and code != "probe_request":
            self._progress(row)
        self.tail.append(row)

    def _go_on(self, row: Row) -> None:
        """Put the next line of the same text behind the message of an error that goes on there."""
        mark, self._unfinished = self._unfinished, None
        if mark is None or row.get("milestone") not in (None, mark.code) or row.get("time") not in (None, mark.time):
            return
        text, by_field = row["text"][:MOST_CONTINUED], "validation error" in mark.text
        if text and not row.get("bar_kind") and (row["capture"], row.get("pid")) == (mark.capture, mark.pid):
            joint = " " if mark.text.endswith(":") else ": "
            mark.text += joint + text
            if "message" in mark.fields:
                mark.fields["message"] += joint + text
            if by_field and _FIELD.match(text):
                self._unfinished = mark

    def _lives(self, row: Row, log: str) -> bool:
        """Whether a record shows life: after the word of an end, training does so by a second step or epoch, for the first is
        saved or summed up."""
        if log not in self._ended or row["phase"] != "train_step":
            self._ended.pop(log, None)
            return True
        step = row.get("fields") or row["text"]
        if self._ended[log].setdefault(row.get("milestone"), step) == step:
            return False
        del self._ended[log]
        return True

    def skip(self, row: Row) -> None:
        """Take the account of lines that were counted instead of read (`kit.parse.log_fast`)."""
        self.records += row["records"]
        for name, counts in (("kinds", self.kinds), ("servers", self.servers), ("codes", self.counts)):
            counts.update(row.get(name, {}))

    def _code(self, row: Row) -> str | None:
        """Code under which a record is kept: its milestone; an error line without one counts unless a traceback is open."""
        code, writer = row.get("milestone"), (row.get("pid"), row.get("rank_label"))
        if row.get("bar_kind"):
            return code if code in ("train_step", "bar_full") else None  # bars are followed on their own
        if "Traceback (most recent call last)" in row["text"]:
            self.tracebacks.add(writer)
            self._open[writer] = []
        elif code == "exception" or (code and row.get("kind") == "error"):
            self.tracebacks.discard(writer)
            self._trace(self._open.pop(writer, []), code)
        elif writer in self.tracebacks:
            self._frame(row, self._open.get(writer, []))
        if code is None and row.get("kind") == "error" and writer not in self.tracebacks:
            return "error_line"
        return code

    def _frame(self, row: Row, frames: list[Row]) -> None:
        """Keep a frame of a traceback that is open, or the statement that stands in it."""
        if (frame := _FRAME.match(row["text"])) and len(frames) < MOST_FRAMES:
            file, function = frame["file"] or frame["notebook"], frame["function"] or frame["name"]
            frames.append({"file": file, "function": function, "capture": row["capture"], "line": row.get("line")})
        elif frames and _STATEMENT.search(row["text"]):
            frames[-1].setdefault("statement", row["text"])

    def _trace(self, frames: list[Row], code: str) -> None:
        """Take the frames of a traceback whose error has come."""
        if not frames:
            return
        self.traced = frames
        if len(self.traces) < MOST_TRACES:
            self.traces[self.records - 1] = frames
        if code == "interrupted":
            self.traced = []
            if len(self.interrupted) < MOST_TRACES:
                self.interrupted.append(frames[::-1])

    def _rank(self, row: Row) -> None:
        rank, label, pid = row.get("rank"), row.get("rank_label"), row.get("pid")
        pid = pid if (pid or 0) <= LARGEST_PID else None
        if label:
            self.labels.add(label)
            if pid is not None:
                self.label_pids.setdefault(label, pid)
        if rank is not None:
            self.ranks.add(rank)
            if row.get("kind") not in ("error", "noise") and not row.get("bar_kind"):
                text = row["text"][:MOST_TEXT].translate(NO_DIGITS)
                if text in self.of_ranks or len(self.of_ranks) < MOST_TEXTS:
                    self.of_ranks.setdefault(text, {})[rank] = row
        if pid is not None and row.get("process"):
            pids = self.writers.setdefault(row["process"], {})
            if len(pids) < MOST_PIDS:
                pids.setdefault(pid, None)
        if rank is not None and pid is not None:
            self.rank_pids.setdefault(rank, pid)

    def _progress(self, row: Row) -> None:
        # Times of several ranks interleave; the latest counts, and a record without time counts by its place.
        last = self.last_progress
        if last is None or row.get("time") is None or last.get("time") is None or row["time"] >= last["time"]:
            self.last_progress = row

    def _bar(self, row: Row, order: int, kind: str) -> str:
        """Follow a bar; a frame that repeats the one before it is no progress."""
        n, total = row.get("bar_n") or 0.0, row.get("bar_total")
        description, elapsed = row.get("bar") or "", row.get("bar_elapsed_s")
        for bar in reversed(self.bars[-8:]):
            if (bar.kind, bar.description, bar.total) == (row["bar_kind"], description, total) and n >= bar.n:
                moved = n > bar.n
                bar.n, bar.order = n, order
                bar.rank = bar.rank if bar.rank == row.get("rank") else None
                bar.elapsed_s = elapsed if elapsed is not None else bar.elapsed_s
                bar.s_per_item = row.get("bar_s_per_item") or bar.s_per_item
                bar.time = row.get("time") or bar.time
                bar.capture, bar.line, bar.text = row["capture"], row["line"], row["raw"]
                if moved:
                    bar.moves += 1
                    bar.note()
                    bar.moved_time = row.get("time") or bar.moved_time
                    return "progress"
                return "other"
        self.bars.append(
            Bar(
                kind=row["bar_kind"],
                description=description,
                n=n,
                total=total,
                elapsed_s=elapsed,
                s_per_item=row.get("bar_s_per_item"),
                first_order=order,
                order=order,
                time=row.get("time"),
                moved_time=row.get("time"),
                capture=row["capture"],
                line=row["line"],
                text=row["raw"],
                rank=row.get("rank"),
                phase=row.get("phase"),
            )
        )
        self.bars[-1].note()
        if len(self.bars) > 2 * MOST_BARS:
            del self.bars[MOST_BARS]
        return "progress" if kind != "noise" else kind

    def of(self, *codes: str) -> list[Mark]:
        """Marks of these codes, in the order of the log: the first of each, and the very last."""
        newest = [_mark(self._newest[code][0], code, *self._newest[code][1:]) for code in codes if code in self._newest]
        return [mark for mark in self.marks if mark.code in codes] + sorted(newest, key=lambda mark: mark.order)

    def latest(self, *codes: str) -> list[Mark]:
        """The last mark of each writer, of codes that are `COUNTED`, in the order in which the writers first wrote."""
        return [mark for key, mark in self._latest.items() if key[0] in codes]

    def last(self, *codes: str) -> Mark | None:
        """The last mark of these codes."""
        return max(self.of(*codes), key=lambda mark: mark.order, default=None)

    def share_done(self, mark: Mark) -> float | None:
        """How much of its epochs, else of its steps, a training has done up to a mark; None where it names no total.

        Steps that were through and began anew are those of an epoch: how many of them there are to be is not known.
        """
        counted = [other.fields for other in self.of(*STEPS) if other.log == mark.log and other.order <= mark.order]
        for name, total in (("epoch", "epochs"), ("step", "total")):
            told = [fields for fields in counted if {name, total} <= fields.keys()]
            most = max((fields[total] for fields in told), default=0)  # an evaluation in between counts to less
            counts = [fields[name] for fields in told if fields[total] == most]
            last = counts[-2:]
            if name == "step" and any(count >= most > later for count, later in pairwise(counts)):
                return None
            if most > 0:
                every = max(last[-1] - last[0], 1)  # of the last steps not each is printed
                return 1.0 if last[-1] + every > most else last[-1] / most
        return None

    @property
    def answered(self) -> int:
        """Place of the last request of a client that was answered with success, -1 without any."""
        return self.last_answer[1] if self.last_answer else -1

    @property
    def served(self) -> int:
        """Place of the last word that it serves: that it is ready, or such an answer; -1 without any."""
        return max([self.answered, *(mark.order for mark in self.of("ready"))])

    def records_after(self, mark: Mark) -> int:
        """Records that follow a mark in its own log; in all logs where others go on long after it, or nothing is stamped."""
        end, when = self._ends.get(mark.log, (self.records, None))
        last = max((time for _, time in self._ends.values() if time is not None), default=None)
        together = when is not None and last - when <= TOGETHER_NS
        return (end + 1 if together else self.records) - mark.order

    def seconds_after(self, mark: Mark) -> float:
        """Time from a mark to the last record of its own log; 0 where that is not known."""
        _, when = self._ends.get(mark.log, (0, None))
        return (when - mark.time) / NS if when is not None and mark.time is not None else 0.0

    def first(self, *codes: str) -> Mark | None:
        """The first mark of these codes, by time where both have one."""
        found = self.of(*codes)
        return min(found, key=lambda mark: (mark.time is None, mark.time or 0, mark.order)) if found else None

    def last_bar(self, kind: str) -> Bar | None:
        """The last bar of a kind that was begun."""
        found = [bar for bar in self.bars if bar.kind == kind]
        return max(found, key=lambda bar: bar.first_order) if found else None

    @property
    def known(self) -> bool:
        """Whether some grammar knows these logs; else they were read by form alone, and that nothing was found says little."""
        return self.server is not None or any(code not in BY_FORM for code in self.counts)

    @property
    def server(self) -> str | None:
        """The server whose grammar matched most, launchers and libraries aside where there is one."""
        ranked = [name for name, _ in self.servers.most_common() if name not in libraries()]
        return ranked[0] if ranked else (self.servers.most_common(1)[0][0] if self.servers else None)


def log_of(row: Row) -> str:
    """The log that a row is of: a file, or one of several in a file."""
    return row.get("log") or row["capture"]


def _mark(row: Row, code: str, kind: str, order: int, log: str) -> Mark:
    fields = row.get("fields")
    return Mark(
        code=code,
        phase=row.get("phase"),
        kind=kind,
        capture=row["capture"],
        line=row.get("line") or 0,
        record=row.get("record") or 0,
        time=row.get("time"),
        rank=row.get("rank"),
        label=row.get("rank_label"),
        pid=row.get("pid"),
        process=row.get("process"),
        text=row.get("text") or "",
        fields=json.loads(fields) if fields else {},
        order=order,
        raw=row["raw"][:400],
        role=row.get("role"),
        log=log,
        attempt=row.get("attempt") or 0,
        stamped=row.get("time_source") == "own",
    )
