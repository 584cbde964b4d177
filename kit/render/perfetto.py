"""A run as a trace that ui.perfetto.dev opens: Chrome's trace events, all sources on one clock."""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from kit.analyse.verdict.scene import scene_of_run
from kit.call_history import UNRETURNED, weights
from kit.clock import NS, show_time
from kit.errors import EvidenceError, KitError, UsageError
from kit.open import open_run
from kit.redact import scrub_text
from kit.run import Run
from kit.show.explorer import story, tracks
from kit.show.explorer.pack import frames_of
from kit.untrusted import visible

LAUNCH, PHASES, LOG, GPUS = (2_000_000_000 + 1_000_000 * number for number in range(4))
"""Processes of no process, above all ids (Linux: 2^22; those of further hosts: 10,000,000 each). Rank n is their thread n + 1."""
TITLES = {LAUNCH: "Launch", PHASES: "Phases by rank", LOG: "Log: milestones, warnings and errors", GPUS: "GPUs"}
LANES = ("what happened", "orchestrator", "kernel", "probes", "no samples")
LOUD = ("WARNING", "ERROR", "CRITICAL")
LOUD_KINDS = ("error", "symptom")
LONGEST = 1_000
"""Characters of a text; the rest is cut."""
ENDINGS = (".json", ".json.gz")
Event = dict[str, Any]


def perfetto(
    path: str | Path | Run,
    out: str | Path,
    *,
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
) -> int:
    """Write a launch as a trace for ui.perfetto.dev, in Chrome's trace-event form.

    Processes with their names, roles and ranks; phases of each rank, system calls and, where no trace saw a thread, its sampled
    states as slices; memory, CPU, reads and GPUs as counters; milestones, warnings, errors and events as instants.

    Parameters
    ----------
    path : str, path or Run
        A run, a folder of loose files, or one file.
    out : str or path
        Its name ends in `.json` or `.json.gz`.
    captured_at, knowledge
        As for `kit.open_run`.

    Returns
    -------
    int
        Events written.

    Raises
    ------
    UsageError
        Unknown ending.
    EvidenceError
        Nothing can be read, or nothing of it carries a time.
    KitError
        The file cannot be written.

    Examples
    --------
    >>> import kit, tempfile
    >>> kit.perfetto(kit.sample("healthy-tp2"), tempfile.mkdtemp() + "/trace.json.gz") > 100
    True
    """
    if not str(out).lower().endswith(ENDINGS):
        raise UsageError(f"unknown format of {out}", "a trace ends in .json or .json.gz", "for example: --perfetto trace.json.gz")
    trace = _read(path if isinstance(path, Run) else open_run(path, captured_at, knowledge))
    try:
        with (gzip.open if str(out).lower().endswith("gz") else open)(out, "wt", encoding="ascii") as file:
            file.write('{"traceEvents":[\n')
            number = 0
            for number, event in enumerate(trace.events(), 1):
                file.write(",\n" * (number > 1) + json.dumps(event, allow_nan=False, separators=(",", ":")))
            file.write(f'\n],"displayTimeUnit":"ms","otherData":{json.dumps(trace.about)}}}\n')
    except OSError as error:
        raise KitError(f"cannot write {out}", error.strerror or str(error), "choose another place with --perfetto") from error
    return number


def _read(run: Run) -> _Trace:
    """The frames of a run on one clock; refuses a run without any time."""
    scene, frames = scene_of_run(run), frames_of(run)
    ranks = {pid: rank for rank, pid in scene.processes.rank_pid.items()}
    clock = tracks.clocked(frames, run.launch_zero_ns, ranks, _text)
    bands = frames["phases"].dropna(subset=["begin", "end"])
    if clock.zero is None or not (len(bands) or any(frame["t_s"].notna().any() for frame in clock.frames.values())):
        raise EvidenceError(
            f"nothing of {run.name} carries a time",
            "a trace needs one for each event",
            "take a server log with stamps, strace -ttt -f -T, or a recording with kit collect",
        )
    begin, end = ((bands[one] - clock.zero).dt.total_seconds() for one in ("begin", "end"))
    bands = bands.assign(begin_t_s=begin, end_t_s=end)
    captured = (run.captured_ns - clock.zero.value) / NS if run.captured_known and run.captured_ns else None
    span = tracks.span_of(clock, bands, captured)
    for name in ("events", "kernel_log", "signals"):
        frame = run.frame(name)
        clock.frames[name] = frame.assign(t_s=(frame["time"] - clock.zero).dt.total_seconds())
    roles = {pid: process.role for pid, process in scene.processes.by_pid.items()}
    about = {
        "run": _text(run.name),
        "begin": f"{show_time(clock.zero.value + int(span[0] * NS), run.offset_s)}, local time of the host",
        "written by": "kit export --perfetto",
    }
    calls = clock.frames["syscalls"]
    if "calls" in calls:
        about["calls"] = (
            f"{calls['calls'].isna().sum():,} of {weights(calls).sum():,}: the longest, open, failed and evenly spread"
        )
    knee = None if captured is None or scene.silence_s is None else captured - scene.silence_s
    return _Trace(clock, bands.sort_values("begin_t_s", kind="stable"), span, roles, knee, about)


@lru_cache(maxsize=4096)
def _text(text: object) -> str:
    """A text without secrets and without what steers a terminal or a page."""
    said = visible(scrub_text(str(text)))
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


@dataclass
class _Trace:
    clock: tracks.Clocked
    bands: pd.DataFrame
    span: tuple[float, float]
    roles: dict[int, str]
    knee_s: float | None
    about: dict[str, str]

    def events(self) -> Iterator[Event]:
        """All events: first the names, then the rest in the order of time."""
        yield from self._names()
        sources = (self._phases(), self._launch(), self._log(), self._calls(), self._states(), self._counters())
        for _, _, event in heapq.merge(*sources, key=lambda item: item[:2]):
            yield event

    def _at(self, ph: str, t_s: float, name: object, pid: int, tid: int, **more: Any) -> tuple[float, float, Event]:
        """An event with what it is ordered by: its time; of two at once the longer is around the other."""
        ts = round(max(t_s - self.span[0], 0.0) * 1e6, 3)
        args = {key: value for key, value in more.pop("args", {}).items() if not pd.isna(value)}
        event = {"ph": ph, "ts": ts, "pid": int(pid), "tid": int(tid), "name": _text(name) or "?", **more}
        return ts, -more.get("dur", 0.0), event | ({"args": args} if args else {})

    def _slice(self, begin_s: float, end_s: float, name: object, pid: int, tid: int, **args: Any):
        # the end is reckoned from the same rounded begin as the next slice's: they never overlap
        begin, end = (round(max(at - self.span[0], 0.0) * 1e6, 3) for at in (begin_s, end_s))
        return self._at("X", begin_s, name, pid, tid, dur=round(max(end - begin, 0.0), 3), args=args)

    def _instant(self, t_s: float, name: object, pid: int, tid: int, scope: str = "t", **args: Any):
        return self._at("i", t_s, name, pid, tid, s=scope, args=args)

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The process of each thread."""
        changes = self.clock.threads.changes
        known = changes[changes["pid"].notna() & changes["tid"].notna()].drop_duplicates("tid")
        return {int(tid): int(pid) for tid, pid in zip(known["tid"], known["pid"], strict=True)}

    @cached_property
    def _own_calls(self) -> pd.DataFrame:
        """Calls at a known time, in order, those that were only counted aside; each ends before its thread makes the next."""
        rows = self.clock.frames["syscalls"]
        rows = rows[rows["calls"].isna()] if "calls" in rows else rows
        rows = rows.dropna(subset=["t_s", "pid"]).sort_values("t_s", kind="stable")
        took = rows["duration_s"].astype(float).where(~rows["state"].isin(UNRETURNED)).fillna(0.0)
        last = float((rows["t_s"] + took).max()) if len(rows) else 0.0
        end = (rows["t_s"] + took).where(~rows["state"].isin(UNRETURNED), last)
        following = rows.groupby("pid")["t_s"].shift(-1).fillna(last)
        return rows.assign(end_s=end.clip(upper=following).clip(lower=rows["t_s"]))

    def _names(self) -> Iterator[Event]:
        named: dict[int, str] = {}
        for frame in (self.clock.threads.changes.rename(columns={"pid": "own", "tid": "pid"}), self._own_calls):
            comms = frame.reindex(columns=["pid", "comm"]).dropna().drop_duplicates("pid", keep="last")
            named = {int(tid): str(comm) for tid, comm in zip(comms["pid"], comms["comm"], strict=True)} | named
        seen = pd.concat([self._own_calls["pid"], self.clock.threads.changes["tid"]]).dropna().astype(int).unique()
        threads = {int(tid): int(tid) for tid in seen} | self._owners
        for pid in sorted({*threads.values(), *self.clock.names}):
            rank = self.clock.ranks.get(pid)
            title = self.clock.names.get(pid) or f"{named.get(pid, 'process')}[{pid}]"
            labels = [self.roles.get(pid, ""), f"rank {rank}" if rank is not None else ""]
            yield from self._process(pid, title, ", ".join(filter(None, labels)), 10 + (1000 if rank is None else rank))
        for tid, pid in threads.items():
            yield self._meta("thread_name", pid, tid, name=_text(named.get(tid, "thread")))
        lanes = pd.concat([self.bands["rank"], self.clock.frames["log"]["rank"]])
        ranks = sorted(lanes.fillna(-1).astype(int).unique())
        for number, (pid, title) in enumerate(TITLES.items()):
            yield from self._process(pid, title, "", number)
            for rank in ranks if pid in (PHASES, LOG) else ():
                yield self._meta("thread_name", pid, pid + 1 + rank, name="all ranks" if rank < 0 else f"rank {rank}")
                yield self._meta("thread_sort_index", pid, pid + 1 + rank, sort_index=int(rank))
        for number, lane in enumerate(LANES):
            yield self._meta("thread_name", LAUNCH, LAUNCH + number, name=lane)

    def _process(self, pid: int, title: str, labels: str, place: int) -> Iterator[Event]:
        yield self._meta("process_name", pid, pid, name=_text(title))
        yield self._meta("process_sort_index", pid, pid, sort_index=place)
        if labels:
            yield self._meta("process_labels", pid, pid, labels=_text(labels))

    def _meta(self, what: str, pid: int, tid: int, **args: Any) -> Event:
        return {"ph": "M", "ts": 0.0, "pid": int(pid), "tid": int(tid), "name": what, "args": args}

    def _lane(self, pid: int, rank: Any) -> int:
        return pid if pd.isna(rank) else pid + 1 + int(rank)

    def _phases(self) -> Iterator:
        for band in self.bands.itertuples():
            end = max(min(band.end_t_s, self.span[1]), band.begin_t_s)
            said = f"{band.phase} (no end was seen)" if band.open else band.phase
            yield self._slice(band.begin_t_s, end, said, PHASES, self._lane(PHASES, band.rank))

    def _launch(self) -> Iterator:
        frames = self.clock.frames
        bands = [[band.rank, band.phase, band.begin_t_s, band.end_t_s, band.open] for band in self.bands.itertuples()]
        found = [
            self._instant(event["t"], event["label"], LAUNCH, LAUNCH, "g", kind=event["kind"])
            for event in story.events_of(frames, bands, self.knee_s, self.span[1])
        ]
        for row in frames["gaps"].dropna(subset=["t_s", "duration_s"]).sort_values("t_s").itertuples():
            found.append(self._slice(row.t_s, row.t_s + row.duration_s, row.why, LAUNCH, LAUNCH + 4))
        for name, lane in (("events", LAUNCH + 1), ("kernel_log", LAUNCH + 2)):
            for row in frames[name].dropna(subset=["t_s"]).itertuples():
                found.append(self._instant(row.t_s, row.text, LAUNCH, lane, capture=_text(row.capture), line=_int(row.line)))
        for row in frames["probes"].dropna(subset=["t_s"]).itertuples():
            answer = next((str(one) for one in (row.error, row.http_status) if not pd.isna(one)), "no answer")
            body = None if pd.isna(row.body) else _text(row.body)
            said = f"{_word(row.method)} {_word(row.path)}: {answer}"
            found.append(self._instant(row.t_s, said, LAUNCH, LAUNCH + 3, body=body))
        for row in frames["signals"].dropna(subset=["t_s", "pid"]).itertuples():
            said = f"{row.kind} {_word(row.signal)}"
            found.append(self._instant(row.t_s, said, self._owners.get(int(row.pid), int(row.pid)), row.pid))
        yield from sorted(found, key=lambda item: item[:2])

    def _log(self) -> Iterator:
        log = self.clock.frames["log"].dropna(subset=["t_s"]).sort_values("t_s", kind="stable")
        loud = log["level"].isin(LOUD) | log["kind"].isin(LOUD_KINDS)
        for row in log[loud | log["milestone"].notna()].itertuples():
            where = f"{row.capture}:{_int(row.line)}"
            args = {"level": row.level, "kind": row.kind, "where": _text(where)}
            yield self._instant(row.t_s, row.text[:LONGEST], LOG, self._lane(LOG, row.rank), **args)

    def _calls(self) -> Iterator:
        for row in self._own_calls.itertuples():
            tid = int(row.pid)
            result = "has not returned" if pd.isna(row.result) else _text(row.result)
            args = {"args": _text(_word(row.args)), "result": result}
            yield self._slice(row.t_s, row.end_s, row.syscall, self._owners.get(tid, tid), tid, **args)

    def _states(self) -> Iterator:
        """Sampled states of the threads that no trace saw: where each was, from one change to the next."""
        history = self.clock.threads
        at = history.samples["t_s"].to_numpy(float)
        traced = set(self._own_calls["pid"].astype(int))
        rows = history.changes[history.changes["tid"].notna() & ~history.changes["tid"].isin(traced)]
        rows = rows.assign(begin=at[rows["first_sample"].astype(int)], end=at[rows["last_sample"].astype(int)])
        rows = rows.dropna(subset=["begin"]).sort_values(["tid", "begin"], kind="stable")
        place = rows[["tid", "state", "wchan", "syscall"]].astype("object").where(lambda one: one.notna(), "")
        run = (place != place.shift()).any(axis=1).cumsum()
        grouped = rows.assign(wait=place["wchan"], call=place["syscall"]).groupby(run.to_numpy(), sort=False)
        merged = grouped.agg({"tid": "first", "state": "first", "wait": "first", "call": "first", "begin": "min", "end": "max"})
        merged["end"] = merged.groupby("tid")["begin"].shift(-1).fillna(merged["end"])
        for row in merged.sort_values("begin", kind="stable").itertuples():
            said = " ".join(word for word in map(_word, (row.state, row.wait, row.call)) if word not in ("", "0"))
            tid = int(row.tid)
            yield self._slice(row.begin, row.end, said, self._owners.get(tid, tid), tid)

    def _counters(self) -> Iterator:
        frames, found = self.clock.frames, []
        memory = frames["processes"].dropna(subset=["t_s", "rss_bytes"])
        spent = frames["processes"].assign(spent=lambda own: own["cpu_s"].astype(float).fillna(own["utime_s"] + own["stime_s"]))
        lines = [("resident memory (MiB)", memory.assign(rate=memory["rss_bytes"].astype(float) / 2**20))]
        lines += [("CPU (cores)", tracks.rates(spent, "spent"))] if len(spent) else []
        lines += [("read from storage (bytes/s)", tracks.rates(frames["io"], "read_bytes"))] if len(frames["io"]) else []
        for name, rows in lines:  # a counter has one value at a time, however many files tell it
            rows = rows.drop_duplicates(["pid", "t_s"], keep="last")
            for pid, t_s, value in zip(rows["pid"], rows["t_s"], rows["rate"], strict=True) if len(rows) else ():
                found.append(self._at("C", t_s, name, pid, pid, args={"value": round(float(value), 3)}))
        for row in frames["gpus"].dropna(subset=["t_s"]).drop_duplicates(["gpu", "t_s"], keep="last").itertuples():
            for what, value in (("use (%)", row.util_percent), ("memory (MiB)", row.mem_used_mib)):
                if not pd.isna(value):
                    found.append(self._at("C", row.t_s, f"GPU {row.gpu} {what}", GPUS, GPUS, args={"value": float(value)}))
        yield from sorted(found, key=lambda item: item[:2])


def _int(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _word(value: Any) -> str:
    return "" if pd.isna(value) else str(value)
