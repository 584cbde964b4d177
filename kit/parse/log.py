r"""Logs of LLM servers and training launchers: one row a record of frame `log`.

What a line means stands in the grammars (`kit/knowledge/logs`); how a line is taken apart in `kit.parse.records` and
`kit.parse.bars`. This module keeps what needs memory: which server writes, where the launch stands, which traceback is
open, which rank a pid is, what time it is.

A sample::

    [2026-02-18 00:28:26 TP6] Load weight begin. avail mem=93.42 GB
    \rLoading safetensors checkpoint shards: 100% Completed | 64/64 [00:39<00:00,  1.63it/s]
    [2026-02-18 00:29:07 TP0] DeepGemm is enabled but the scale_fmt of checkpoint is not ue8m0.

Examples
--------
>>> from kit.parse.base import Report, Source
>>> line = "[2026-02-18 00:28:26 TP6] Load weight begin. avail mem=93.42 GB"
>>> frame, row = next(parse([line], Source("a.log"), Report()))
>>> row["rank"], row["milestone"], row["phase"], row["fields"]
(6, 'weights_begin', 'weights', '{"avail_gb": 93.42}')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from kit.parse import bars, grammar
from kit.parse.bars import Bar
from kit.parse.base import Format, Report, Rows, Source
from kit.parse.log_detection import looks_like
from kit.parse.records import SECOND_NS, Prefix, pieces
from kit.parse.tracebacks import CALM, EXCEPTION, NOISE, Tracebacks, thrown
from kit.schema import Row
from kit.untrusted import signal_of

HEAD_LINES = 4000
"""Lines that are looked at to tell the server. A launch of eight ranks is told by its first ten; a log that begins with
the output of a container's entry script by its first hundreds."""
HEAD_CHARS = 2000
LEAST_DOTS = 10
"""An ellipsis has fewer: where nothing tells llama.cpp, so few dots are no bar of its."""
MOST_BARS = 4096
"""Bars whose last frame is remembered; each file of a download has its own."""
MATCH_CHARS = 32_768
"""How much of a record the grammars see; the longest that they know, SGLang's server_args, has about 10 kB."""

_LOADS = re.compile(r"(?i)load|tensor|buffer|ggml|gguf|^$")
"""Words of what comes before llama.cpp's dots; nothing does where the log's begin was cut."""
_GLUE = re.compile(
    r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] "
    r"|\((?:Worker|VllmWorker|EngineCore|APIServer|ApiServer|RayWorker)[\w.]*(?: rank=\d+)? pid=\d+"
    r"|\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d "
)
BAR_SIGNS = ("%|", "% |", "% Completed |", "/s]", "s/it", "/? [", "B/s", "DL:", "==>", "▕", "━", "█")
_GLUE_SIGNS = ("[20", " pid=", "INFO ", "WARNING ", "ERROR ")
_STACK_LINE = re.compile(
    r"^(?:Process \d+|Python v\d|(?:Current )?[Tt]hread |\s|Extension modules:|<no Python frame>"
    r"|.* \([^()]*:\d+\)$)"
)
_BARE_ID = re.compile(r"^[0-9a-f]{12,64}$")
_OF_A_SHELL = re.compile(r"^##\[(?:end)?group\]|^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[AP]M )?\w{2,5} \d{4}$")
"""Folds of a CI's log, and what `date` prints: no words of the launch."""
_WORD = re.compile(r"\w")
_CHANGING = re.compile(r"\([^)=]{0,400}=[^)]{0,400}\)")
WRITER_RANK = frozenset(
    "rank_assigned dist_begin nccl_init_start nccl_init_complete nccl_timings collective_timeout "
    "watchdog_failure work_status watchdog_exit store_barrier store_barrier_end barrier_timeout rank_gpu".split()
)
"""Milestones whose field `rank` is the rank that wrote the record (in others it is the rank that the record is about)."""
_PID_RANK = ("rank_assigned", "dist_begin", "nccl_init_start", "nccl_init_complete")


BEGIN_CHARS, MOST_BEGIN = 12, 200
"""How much of a line tells what it is about, and how much is compared."""
BEFORE_WORK = frozenset((None, "launch", "dist_init", "download"))
"""Phases in which workers of one start are still printing its first lines."""
ENDS = frozenset(("initiating", "cascade", "teardown", "ending", "finished", "closing"))
SAME_START_NS = 60 * SECOND_NS
"""Lines of one start come within this, where nothing of it moved between them."""


class _Reader:
    """State of one log."""

    def __init__(self, source: Source, grammars: grammar.Grammars, server: str | None):
        self.source, self.server, self.grammars = source, server, grammars
        self.matcher = grammars.matcher(server)
        self.attempt, self.failed = 0, False
        self.head: list[str] | None = []
        self.before = ""
        self.stage = "init"
        self.starts: dict[str, int] = {}
        self.moved = False
        self.started_ns: int | None = None
        self.last_ns: int | None = None
        self.carried_ns: int | None = None
        self.frames: dict[str, tuple[float, float | None, int | None, float | None]] = {}
        self.tracebacks = Tracebacks()
        self.block: str | None = None
        self.dump: list[str] = []
        self.dump_lines: list[int] = []
        self.args_text: str | None = None
        self.ranks: dict[int, tuple[int, int]] = {}

    # --- splitting ---

    def split(self, piece: str) -> Iterator[tuple[str, Prefix, str, Bar | None]]:
        """Take a piece between carriage returns apart: raw text, prefix, message, bar."""
        raw = piece
        while raw:
            prefix, text = self.matcher.prefixes.peel(raw, self.source)
            bar = self._bar(text)
            if bar is not None:
                end = bar.end
            elif (
                any(sign in text for sign in _GLUE_SIGNS)
                and (found := _GLUE.search(text, 1)) is not None
                and text[: found.start()].strip()
            ):
                end = found.start()
            else:
                end = len(text)
            offset = len(raw) - len(text)
            rest = text[end:]
            if not rest.strip() or (bar is not None and not bar.closed and _GLUE.match(rest.lstrip()) is None):
                yield raw.strip(), prefix, text, bar
                return
            yield raw[: offset + end].strip(), prefix, text[:end], bar
            raw = rest.strip()

    def _bar(self, text: str) -> Bar | None:
        if any(sign in text for sign in BAR_SIGNS) or text.startswith("Download: ["):
            return bars.read(text) or self._share(text)
        if text.startswith("...") and (self._may_load(text) if self.server is None else self.matcher.traits.dots):
            return bars.dots(text)
        return None

    def _may_load(self, text: str) -> bool:
        """Whether dots may be llama.cpp's, in a log that no grammar knows: others count so as well, a compiler for one."""
        return len(text) >= LEAST_DOTS and _LOADS.search(self.before) is not None

    def _share(self, text: str) -> Bar | None:
        """A bar without a count; of one that had counts before it is a frame that was cut."""
        bar = bars.share(text)
        return bar if bar is not None and self.frames.get(bar.description, (0, None, None, 100.0))[3] == 100.0 else None

    # --- rows ---

    def row(self, raw: str, prefix: Prefix, text: str, bar: Bar | None) -> Row:
        """Classify one record."""
        message = text.strip()
        row: Row = {"kind": "progress", "text": message, "raw": raw}
        fields: dict[str, Any] = dict(prefix.extra)
        if bar is not None:
            self._bar_row(row, bar, prefix.stamp, fields)
        else:
            self._message_row(row, prefix, text, message, fields)
            self._time(row, prefix, fields)
        self._who(row, prefix, fields)
        _exit(fields)
        row["fields"] = grammar.to_json(fields)
        if self.head is not None and bar is None and not self.starts:
            self._anew(row["kind"], message[:MOST_BEGIN].translate(grammar.NO_DIGITS))
        return row

    def _who(self, row: Row, prefix: Prefix, fields: dict[str, Any]) -> None:
        rank, label = prefix.rank, prefix.rank_label
        code = row.get("milestone")
        if code in WRITER_RANK and isinstance(fields.get("rank"), int):
            known = self.ranks.get(prefix.pid) if prefix.pid is not None else None
            size = fields.get("nranks", fields.get("world_size", 0))
            if code in _PID_RANK and prefix.pid is not None and (known is None or size > known[1]):
                known = self.ranks[prefix.pid] = fields["rank"], size
            if label is None:
                rank = known[0] if known is not None and code in _PID_RANK else fields["rank"]
        elif rank is None and label is None and prefix.pid in self.ranks and prefix.pid is not None:
            rank = self.ranks[prefix.pid][0]
        elif rank is None and label is None:
            rank = self.source.rank
        row.update(
            process=prefix.process,
            pid=prefix.pid,
            rank_label=label,
            rank=rank,
            node=self.source.node,
            level=prefix.level,
            source=prefix.source,
        )
        row.setdefault("server", prefix.grammar if prefix.owned else self.server)

    def _time(self, row: Row, prefix: Prefix, fields: dict[str, Any]) -> None:
        if prefix.stamp is not None:
            self.last_ns = self.carried_ns = prefix.stamp
            row.update(time=prefix.stamp, time_source="own")
        elif prefix.uptime_s is not None:
            fields["uptime_s"] = round(prefix.uptime_s, 6)
            row.update(time=None, time_source="start")
        else:
            row.update(time=self.carried_ns, time_source="none" if self.carried_ns is None else "carried")

    def _bar_row(self, row: Row, bar: Bar, stamp: int | None, fields: dict[str, Any]) -> None:
        rule = self.matcher.bar(bar.description, bar.counts)
        key = _CHANGING.sub("", bar.description)  # "(bs=160 avail_mem=8.60 GB)" differs from frame to frame
        before = self.frames.get(key)
        begun = before is None or bar.n < before[0] or (bar.elapsed_s or 0.0) < (before[1] or 0.0)
        anchor = self.last_ns if begun else before[2]
        if stamp is not None:
            anchor = stamp - int((bar.elapsed_s or 0) * SECOND_NS)
        if begun and len(self.frames) >= MOST_BARS:
            del self.frames[next(iter(self.frames))]
        self.frames[key] = bar.n, bar.elapsed_s, anchor, bar.total
        moved = begun or bar.n != before[0]
        done = bar.total is not None and bar.total > 0 and bar.n >= bar.total
        timeless = rule is not None and rule.step and done and bar.elapsed_s == 0  # no step takes no time
        row.update(
            kind="progress" if moved else "other",
            bar=bar.description,
            bar_kind=rule.kind if rule else "other",
            bar_n=bar.n,
            bar_total=bar.total,
            bar_elapsed_s=bar.elapsed_s,
            bar_s_per_item=bar.s_per_item,
            phase=rule.phase if rule and not timeless else None,
        )
        if rule is not None and rule.kind == "weights" and done:
            row["phase"] = "post_load"
            row["milestone"] = "weights_end" if moved else None
        elif rule is not None and rule.step and self.stage == "ready":
            row["phase"] = "serving"  # what a server draws once it listens is a request's
        elif rule is not None and rule.step and bar.n >= 1 and not timeless:
            row["milestone"] = "train_step"
            fields |= {"step": int(bar.n)} | ({"total": int(bar.total)} if bar.total else {})
        elif rule is not None and rule.phase == "serving" and done and moved:
            row.update(milestone="bar_full", role="closing")
        if anchor is None or bar.elapsed_s is None:
            when = self.carried_ns if anchor is None else anchor
            row.update(time=when, time_source="none" if when is None else "carried")
        else:
            row.update(time=anchor + int(bar.elapsed_s * SECOND_NS), time_source="bar" if stamp is None else "own")
            self.carried_ns = max(self.carried_ns or 0, row["time"])

    def _message_row(self, row: Row, prefix: Prefix, text: str, message: str, fields: dict[str, Any]) -> None:
        if not message or (not _WORD.search(message) and not message.startswith("***") and self.args_text is None):
            row["kind"] = "noise"
            return
        if self._in_block(row, prefix, text, message, fields):
            return
        found = self.matcher.match(message[:MATCH_CHARS], self.stage, row["raw"][:MATCH_CHARS])
        error = thrown(message) or EXCEPTION.match(message)
        if found is not None and found[0].code == "program_error" and (prefix.level in CALM or error is not None):
            found = None  # who gives up does not say so in passing; what was thrown says more
        if found is not None and (found[0].kind == "error" or not thrown(message)):
            self._milestone(row, prefix, found, fields, message)
        elif error is not None:
            row.update(kind="error", milestone="exception", role=self.matcher.role(message))
        elif prefix.level in ("ERROR", "CRITICAL"):
            row.update(kind="error", role=self.matcher.role(message))
        elif prefix.warning and prefix.level == "WARNING":
            row.update(kind="symptom", milestone=prefix.warning)
        elif prefix.peeled is False and _BARE_ID.match(message) or grammar.ECHO.match(message) or _OF_A_SHELL.match(message):
            row["kind"] = "noise"
        self.moved = self.moved or row["kind"] == "error"
        if error is not None and row["kind"] == "error":
            fields.setdefault("type", error["type"])
            fields.setdefault("message", error["message"] or "")
        if self.tracebacks.head(row, prefix, message):
            pass
        elif row.get("milestone") == "pyspy_dump":
            self.block = "other"
        elif message.startswith("Fatal Python error"):
            self.block = "error"

    def _milestone(
        self, row: Row, prefix: Prefix, found: tuple[grammar.Milestone, dict[str, Any]], fields: dict[str, Any], message: str
    ) -> None:
        milestone, values = found
        fields.update(values)
        row.update(kind=milestone.kind, milestone=milestone.code, phase=milestone.phase, role=milestone.role)
        if milestone.grammar not in ("common", self.server) and (self.server or milestone.grammar in grammar.libraries()):
            row["server"] = milestone.grammar
        if milestone.start:
            if milestone.grammar in self.matcher.rivals:
                self._another(milestone.grammar)
            if self._begins(milestone.code):
                self.attempt += milestone.code in self.starts
                self.starts[milestone.code] = self.starts.get(milestone.code, -1) + 1
                self.stage = "init"
                self.frames.clear()
                self.moved = False
            self.started_ns = self.carried_ns
            fields["start"] = self.starts[milestone.code]
        elif milestone.phase not in BEFORE_WORK or milestone.role in ENDS:
            self.moved = True
        if milestone.ready:
            self.stage = "ready"
        elif milestone.http and self.stage != "http":
            self.stage = "http"
        if milestone.code == "gpu_oom" and prefix.level in CALM:
            row["role"] = "recovered"  # who can go on warns of it
        self.args_text = message if milestone.args and message.endswith("{") else None

    def _another(self, server: str) -> None:
        """Another server writes from here on: its grammar holds, and nothing of the one before is open."""
        self.server, self.matcher = server, self.grammars.matcher(server)
        self.attempt += 1
        self.starts, self.tracebacks = {}, Tracebacks()

    def _anew(self, kind: str, text: str) -> None:
        """Tell by form that a program begins again whose first line no grammar knows: its first two lines come after an error.

        The second may name other arguments. Where several writers print them one after the other, they tell nothing.
        """
        if kind in ("error", "noise"):
            self.failed = self.failed or kind == "error"
        elif len(self.head or ()) < 2:
            self.head = [*(self.head or ()), text] if not self.failed and text not in (self.head or ()) else None
        elif self.head and self.before == self.head[0] and text[:BEGIN_CHARS] == self.head[1][:BEGIN_CHARS]:
            self.attempt += self.failed
            self.head = self.head if self.failed else None
            self.failed = False
        self.before = text if kind not in ("error", "noise") else self.before

    def _begins(self, code: str) -> bool:
        """Whether a line of a start begins one of its own: each node and each worker prints it, one after the other."""
        late = None not in (self.carried_ns, self.started_ns) and self.carried_ns - self.started_ns > SAME_START_NS
        return code not in self.starts or self.moved or late

    def _in_block(self, row: Row, prefix: Prefix, text: str, message: str, fields: dict[str, Any]) -> bool:
        """Lines that continue a block: launch arguments over several lines, a stack dump, a traceback."""
        if self.args_text is not None and not prefix.peeled:
            self.args_text += "\n" + message
            if text == "}":
                fields.update(grammar.arguments(self.args_text, self.matcher.names))
                row["milestone"] = "args_end"
                self.args_text = None
            return True
        self.args_text = None
        if self.block is not None:
            if not prefix.peeled and _STACK_LINE.match(text):
                row["kind"] = self.block
                self.dump.append(text)
                return True
            self.block = None
        found = self.tracebacks.take(row, prefix, text, message)
        if found is not None and found.error is not None:
            known = self.matcher.match(message, self.stage)
            role = "recovered" if found.caught else self.matcher.role(message)
            row.update(kind="error", milestone="exception", role=role)
            own = (
                known is not None and (known[0].kind == "error" or known[0].role == "ending") and known[0].code != "program_error"
            )
            if own and not found.caught:
                self._milestone(row, prefix, known, fields, message)
            fields.update(type=found.error["type"], message=found.error["message"] or "")
        if found is not None:
            row.update(NOISE if found.ignored else {"kind": "error"})
        return found is not None


_SIGNALS = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGILL": 4,
    "SIGABRT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGSEGV": 11,
    "SIGTERM": 15,
}


def _exit(fields: dict[str, Any]) -> None:
    """Signal of an exit code, or of a signal's name."""
    code, name = fields.get("exit_code"), fields.get("signal_name")
    if isinstance(name, str) and name in _SIGNALS:
        fields.setdefault("signal", _SIGNALS[name])
    if isinstance(code, int) and (number := signal_of(code)) is not None:
        fields.setdefault("signal", number)


def parse(lines: Iterable[str], source: Source, report: Report, folders: tuple[Path, ...] = ()) -> Rows:
    """Read a log.

    Parameters
    ----------
    lines : iterable of str
        Lines without their newline; they may hold carriage returns and colour codes.
    source : Source
        Where it comes from; gives year and zone to stamps that have none.
    report : Report
        Accounts; `facts` gets ``last_line`` (last record between carriage returns and newlines), ``server`` (None where no
        grammar knows the log) and ``cut`` (the last record looks cut: a bracket is open).
    folders : tuple of Path
        Folders with grammars of the user's own.

    Yields
    ------
    tuple of ("log", dict)
        One row a record, in file order.

    Raises
    ------
    kit.errors.KitError
        A grammar of `folders` is wrong.

    Examples
    --------
    >>> report = Report()
    >>> glued = "  0%|          | 0/23 [00:00<?, ?it/s][2025-03-10 16:21:21 TP1] Capture cuda graph begin."
    >>> [(row["bar_kind"] if "bar_kind" in row else None, row["phase"]) for _, row in parse([glued], Source("a.log"), report)]
    [('graph', 'graph_capture'), (None, 'graph_capture')]
    >>> report.facts["server"], report.records
    ('sglang', 2)
    """
    stream = iter(lines)
    reading = Reading(list(islice(stream, HEAD_LINES)), source, report, folders)
    for number, line in enumerate(chain(reading.head, stream), 1):
        yield from reading.line(number, line)
    yield from reading.close()


class Reading:
    """One log on its way from lines to rows; `parse` gives it every line, `kit.parse.log_fast` those that say something new.

    Parameters
    ----------
    head : list of str
        The first `HEAD_LINES` lines, which tell the server.
    source, report, folders
        As in `parse`.
    """

    def __init__(self, head: list[str], source: Source, report: Report, folders: tuple[Path, ...] = ()):
        grammars = grammar.load(folders)
        server = grammars.detect(piece for line in head for piece in islice(pieces(line[:HEAD_CHARS]), 3))
        self.head, self.source, self.report = head, source, report
        self.reader = _Reader(source, grammars, server)
        self._last: str | None = None
        report.facts.update(server=server, last_line=None, cut=False)

    @property
    def inside(self) -> bool:
        """Whether arguments over several lines or a stack dump go on: what the next line means depends on it."""
        return self.reader.args_text is not None or self.reader.block is not None

    def line(self, number: int, line: str) -> Rows:
        """Rows of a line."""
        reader, report = self.reader, self.report
        report.lines = number
        for piece in pieces(line):
            self._last = piece
            for raw, prefix, text, bar in reader.split(piece):
                row = reader.row(raw, prefix, text, bar)
                if reader.dump and reader.block is None:
                    yield from self._stacks()
                if len(reader.dump) > len(reader.dump_lines):
                    reader.dump_lines.append(number)
                row["record"], row["line"] = report.records, number
                if reader.attempt:
                    row["attempt"] = reader.attempt
                for name in ("milestone", "phase", "role"):
                    row.setdefault(name, None)
                report.records += 1
                yield "log", row

    def close(self) -> Rows:
        """Rows that were open at the end, and what the last line tells."""
        yield from self._stacks()
        last, facts = self._last, self.report.facts
        if last is not None:
            facts["last_line"] = last.strip()
            facts["cut"] = last.count("[") > last.count("]") or last.count("(") > last.count(")")

    def _stacks(self) -> Rows:
        """Stack dumps that a server printed into its log, as rows of frame `stacks`."""
        from kit.parse.stacks import parse_dump

        lines, numbers = self.reader.dump, self.reader.dump_lines
        self.reader.dump, self.reader.dump_lines = [], []
        if lines:
            counted = self.report.lines, self.report.records
            for frame, row in parse_dump(lines, self.source, self.report):
                yield frame, {**row, "line": numbers[row.get("line", 1) - 1]}
            self.report.lines, self.report.records = counted


FORMATS = (
    Format(
        "log",
        r"\.log(\.\d+)?$|\.out$|\.err$|^log|stdout|stderr|server.*\.txt$",
        looks_like,
        parse,
        frames=("log", "stacks", "tool_errors"),
    ),
)
