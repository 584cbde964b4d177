"""What the explorer draws of a run: its frames as packed tracks on one clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from kit import call_history
from kit.frames import FRAMES
from kit.plot import cpu, logs, memory, phases, syscalls, threads
from kit.plot.cpu import describe_cpu
from kit.plot.memory import describe_memory
from kit.plot.samples import odd_one, process_names
from kit.plot.style import KIND_COLOUR, SERIES
from kit.plot.threads import describe_thread_strip
from kit.show.explorer import thinning
from kit.show.explorer.packing import Packer
from kit.thread_history import ThreadHistory, of_rows, sampled_by_one_tool
from kit.words import count_of

FRAMES_SHOWN = ("log", "processes", "io", "sockets", "probes", "gpus", "syscalls", "gaps")
COLUMNS = {"sockets": ["time", "t_s", "moment", "protocol", "state", "local_port", "peer_port", "pid", "capture"]}
"""Columns that are loaded of large frames."""
CALLS = [*syscalls.COLUMNS, "args", "result"]
FEW = 3
"""A process with fewer samples than this makes no line: a sentence says what they hold."""
LONGEST = 4_000
"""Characters of a record or of a call's arguments that are shown; the rest is counted."""
TEXTS = 4_000
"""Calls whose arguments are packed: those that took longest, failed or never returned."""
LANES = 14
"""Most lanes of the sockets."""
EPHEMERAL = 32_768
"""First port that Linux gives where nobody asks for one (net.ipv4.ip_local_port_range)."""
NO_GPU = "GPU: no sample. `nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv -l 1`, or `kit collect`, would."
NO_READS = "Reads: no process was sampled twice with its /proc/PID/io. A recording with `kit collect` would show them."
NO_SOCKETS = "Sockets: no sample. `ss -tanp`, or a recording with `kit collect`, would show who listens and who waits."
UNTIMED = "{name}: {rows} without a time, which have no place on the axis."


@dataclass
class Clocked:
    """Frames of a run on one clock."""

    frames: dict[str, pd.DataFrame]  # frames by name, with `t_s` filled in wherever a row has a time
    threads: ThreadHistory  # threads, their samples on the clock too
    zero: pd.Timestamp | None  # second 0 of the axis
    from_launch: bool  # whether that is launch zero, or the first row of all
    ranks: dict[int, int]  # rank of each pid that is one
    clean: Callable[[str], str] = field(default=str)
    port: int | None = None

    @cached_property
    def names(self) -> dict[int, str]:
        """Name of each pid."""
        return process_names(self.frames["processes"], self.ranks)

    @cached_property
    def colours(self) -> dict[int, int]:
        """Colour of each pid, the same in all tracks: a position in `SERIES`, -1 for grey; ranks first."""
        sizes = self.frames["processes"].groupby("pid")[["rss_bytes", "cpu_s"]].max()
        largest = sizes.sort_values(["rss_bytes", "cpu_s"], ascending=False, kind="stable").index
        ranked = sorted((pid for pid in largest if pid in self.ranks), key=self.ranks.__getitem__)
        return _numbered(ranked + [pid for pid in largest if pid not in self.ranks])

    def processes(self) -> list[dict]:
        """Processes to choose among, ranks first."""
        found = [
            {"pid": pid, "name": self.clean(name), "rank": self.ranks.get(pid), "colour": self.colours.get(pid, -1)}
            for pid, name in self.names.items()
        ]
        return sorted(found, key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"]))


def _numbered(most_telling: list[int]) -> dict[int, int]:
    """Positions in `SERIES` for the first eight, -1 for the others."""
    return {int(one): place if place < len(SERIES) else -1 for place, one in enumerate(most_telling)}


def clocked(
    frames: Mapping[str, pd.DataFrame],
    zero_ns: int | None = None,
    ranks: Mapping[int, int] | None = None,
    clean: Callable[[str], str] = str,
    port: int | None = None,
) -> Clocked:
    """Put frames on one clock: seconds since launch, or since the first row where the launch is not known."""
    raw = {name: frames[name] if name in frames else FRAMES[name].empty() for name in FRAMES_SHOWN}
    given: Any = frames.get("threads", FRAMES["threads"].empty())
    history = given if isinstance(given, ThreadHistory) else of_rows(given)
    raw["threads"] = history.samples
    first = [frame["time"].min() for frame in raw.values() if frame["time"].notna().any()]
    zero = pd.Timestamp(zero_ns, unit="ns", tz="UTC") if zero_ns is not None else min(first, default=None)
    for name, frame in raw.items():
        seconds = frame["t_s"].astype(float)
        if zero is not None:
            seconds = seconds.fillna((frame["time"] - zero).dt.total_seconds())
        raw[name] = frame.assign(t_s=seconds)
    history = ThreadHistory(history.changes, raw.pop("threads"))
    return Clocked(raw, history, zero, zero_ns is not None, dict(ranks or {}), clean, port)


def _timed(run: Clocked, name: str) -> tuple[pd.DataFrame, str]:
    """The rows of a frame that have a time, and why there are none."""
    frame = run.frames[name]
    rows = frame[frame["t_s"].notna()]
    why = UNTIMED.format(name=name.capitalize(), rows=count_of(len(frame), "row")) if len(frame) and not len(rows) else ""
    return rows, why


def span_of(run: Clocked, bands: pd.DataFrame, captured_s: float | None) -> tuple[float, float]:
    """Begin and end of the axis, in seconds."""
    ends = [frame["t_s"] for frame in (*run.frames.values(), run.threads.samples)]
    seconds = pd.concat([*ends, bands["begin_t_s"].astype(float)]).dropna()
    begin = min(0.0, float(seconds.min())) if len(seconds) else 0.0
    end = float(seconds.max()) if len(seconds) else 1.0
    if captured_s is not None:
        end = max(end, captured_s)
    return begin, end if end > begin else begin + 1.0


def phase_bands(bands: pd.DataFrame, end_s: float) -> dict:
    """Phases of each rank; the last of each is open where the evidence ends in it."""
    known = bands[bands["begin_t_s"].notna()]
    if not len(known):
        return {"missing": phases.NOTHING}
    last = known.groupby(known["rank"].fillna(-1), sort=False).tail(1).index
    rows = [
        [
            None if pd.isna(row.rank) else int(row.rank),
            row.phase,
            round(row.begin_t_s, 3),
            round(min(row.end_t_s, end_s) if row.end_t_s == row.end_t_s else end_s, 3),
            row.Index in last,
        ]
        for row in known.itertuples()
    ]
    return {"bands": rows}


def _line(pack: Packer, seconds: np.ndarray, values: np.ndarray, unit: float, **about: Any) -> dict:
    """One line of a track, thinned where it is long."""
    kept = thinning.points(values)
    return {
        "t": pack.seconds(seconds[kept]),
        "v": pack.ints(np.rint(values[kept] / unit), unit),
        **({"of": [len(kept), len(values)]} if len(kept) < len(values) else {}),
        **about,
    }


def _lines_of(pack: Packer, run: Clocked, rows: pd.DataFrame, value: str, unit: float, key: str = "pid") -> list[dict]:
    rows = rows.dropna(subset=["t_s", value, key]).sort_values([key, "t_s"], kind="stable")
    names = run.names
    colours = run.colours if key == "pid" else _numbered(list(rows[key].unique()))
    lines = []
    for one, own in rows.groupby(key):
        about: dict[str, Any] = {key: int(one), "rank": run.ranks.get(int(one)) if key == "pid" else None}
        label = names.get(int(one), f"pid {one}") if key == "pid" else f"GPU {one}"
        about |= {"label": run.clean(label), "colour": colours.get(int(one), -1)}
        lines.append(_line(pack, own["t_s"].to_numpy(float), own[value].to_numpy(float), unit, **about))
    return lines


def _odd(rows: pd.DataFrame, value: str, names: dict[int, str]) -> int | None:
    last = rows.dropna(subset=[value]).groupby("pid")[value].last().astype(float).to_dict()
    found = odd_one({int(pid): number for pid, number in last.items()}, names)
    return found[0] if found else None


def memory_track(pack: Packer, run: Clocked) -> dict:
    """Resident memory of each process."""
    rows, why = _timed(run, "processes")
    rows = rows[rows["rss_bytes"].notna()].sort_values("t_s", kind="stable")
    if not len(rows):
        return {"missing": why or memory.NOTHING}
    if rows.groupby("pid").size().max() < FEW:
        return {"note": describe_memory(rows, names=run.names)}
    return {"unit": "bytes", "odd": _odd(rows, "rss_bytes", run.names), "lines": _lines_of(pack, run, rows, "rss_bytes", 1024.0)}


def rates(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Rate of a counter between two samples of a process, placed at the first; and once more at the last."""
    rows = rows.dropna(subset=["t_s", value]).sort_values(["pid", "t_s"], kind="stable")
    step = rows["t_s"].diff()
    grown = rows[value].astype(float).diff()
    same = (rows["pid"] == rows["pid"].shift()) & (step > 0) & (grown >= 0)
    rate = (grown / step).where(same.fillna(False))
    begins = pd.DataFrame({"pid": rows["pid"], "t_s": rows["t_s"].shift(), "rate": rate}).dropna()
    if not len(begins):
        return begins
    ends = pd.DataFrame({"pid": rows["pid"], "t_s": rows["t_s"], "rate": rate}).dropna().groupby("pid").tail(1)
    return pd.concat([begins, ends]).sort_values(["pid", "t_s"], kind="stable")


def cpu_track(pack: Packer, run: Clocked) -> dict:
    """Cores in use by each process."""
    rows, why = _timed(run, "processes")
    spent = rows["cpu_s"].astype(float).fillna(rows["utime_s"].astype(float) + rows["stime_s"].astype(float))
    found = rates(sampled_by_one_tool(rows.assign(spent=spent), ["pid"]), "spent") if len(rows) else pd.DataFrame()
    if not len(found):
        return {"missing": why or cpu.NOTHING}
    if found.groupby("pid").size().max() < FEW:
        return {"note": describe_cpu(rows, names=run.names)}
    odd = odd_one({int(pid): float(own.mean()) for pid, own in found.groupby("pid")["rate"]}, run.names)
    lines = _lines_of(pack, run, found, "rate", 0.001)
    return {"unit": "cores", "step": True, "odd": odd[0] if odd else None, "lines": lines}


def reads_track(pack: Packer, run: Clocked) -> dict:
    """Bytes that each process read from storage a second; asked for with read calls, where storage gave none."""
    rows, why = _timed(run, "io")
    for column, note in (("read_bytes", ""), ("rchar_bytes", "asked for with read calls: storage gave none")):
        found = rates(rows, column) if len(rows) else rows
        if len(found) and found["rate"].max() > 0:
            return {"unit": "bytes/s", "step": True, "said": note, "lines": _lines_of(pack, run, found, "rate", 1.0)}
    return {"missing": why or NO_READS} if not len(found) else {"note": "Reads: no process read anything while it was sampled."}


def gpu_tracks(pack: Packer, run: Clocked) -> dict[str, dict]:
    """Utilisation and memory of each GPU."""
    rows, why = _timed(run, "gpus")
    if not len(rows):
        return {"gpu": {"missing": why or NO_GPU}}
    if rows["t_s"].nunique() == 1:
        said = [
            f"{int(row.gpu)}: {row.util_percent:.0f} %, {row.mem_used_mib / 1024:.1f} GiB"
            for row in rows.sort_values("gpu").head(16).itertuples()
            if row.util_percent == row.util_percent and row.mem_used_mib == row.mem_used_mib
        ]
        return {"gpu": {"note": f"GPU at one moment ({rows['t_s'].iloc[0]:,.0f} s): {'; '.join(said) or 'no values'}."}}
    found = {}
    for name, column, unit, scale in (("gpu", "util_percent", "%", 1.0), ("gpu_memory", "mem_used_mib", "bytes", 2.0**20)):
        own = rows.assign(value=rows[column].astype(float) * scale)
        lines = _lines_of(pack, run, own, "value", scale, "gpu")
        if lines:
            found[name] = {"unit": unit, "lines": lines}
    return found or {"gpu": {"missing": NO_GPU}}


def log_track(pack: Packer, run: Clocked, span: tuple[float, float], most: int = thinning.RECORDS) -> dict:
    """Records of the log, and counts of those that are not listed."""
    log = run.frames["log"]
    if not len(log):
        return {"missing": logs.NOTHING}
    log = log.assign(at=log.groupby("capture")["t_s"].ffill()).sort_values("at", kind="stable", na_position="first")
    kinds = list(KIND_COLOUR)
    weights = log["records"].fillna(1).astype(int).to_numpy()
    kind = log["kind"].where(log["kind"].isin(kinds), "other").map({name: at for at, name in enumerate(kinds)}).to_numpy(int)
    seconds = log["t_s"].to_numpy(float)
    kept = thinning.records(log, most)
    dated = ~np.isnan(seconds)
    rest = ~kept & dated
    more = thinning.counted(seconds[rest], kind[rest], weights[rest], span) if rest.any() else None
    own = log[kept]
    levels, level = np.unique(own["level"].fillna("").to_numpy(str), return_inverse=True)
    files, file = np.unique(own["capture"].to_numpy(str), return_inverse=True)
    texts = [_cut(run.clean(text)) for text in own["text"]]
    return {
        "kinds": kinds,
        "levels": levels.tolist(),
        "files": [run.clean(name) for name in files],
        "t": pack.seconds(np.where(dated, seconds, -1e9)[kept]),
        "line": pack.ints(own["line"].fillna(0).to_numpy(int)),
        "kind": pack.codes(kind[kept]),
        "level": pack.codes(level),
        "file": pack.ints(file),
        "rank": pack.ints(own["rank"].fillna(-1).to_numpy(int)),
        "weight": pack.ints(weights[kept]),
        "text": pack.texts(texts),
        "of": [int(kept.sum()), int(weights.sum())],
        **({} if dated.any() else {"note": logs.NO_TIME}),
        **({"more": [pack.seconds(more[0]), pack.ints(more[1]), pack.ints(more[2])]} if more is not None else {}),
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def calls_track(pack: Packer, run: Clocked, span: tuple[float, float]) -> dict:
    """System calls of a trace."""
    rows, why = _timed(run, "syscalls")
    if not len(rows):
        return {"missing": why.replace("Syscalls", "System calls") or syscalls.NOTHING}
    rows = rows.sort_values("t_s", kind="stable")
    weights, order = call_history.weights(rows), syscalls.counts(rows)
    by_time = rows.groupby("syscall")["duration_s"].sum().sort_values(ascending=False)
    names = list(dict.fromkeys([*by_time.index[:4], *order.index]))
    call = rows["syscall"].map({name: at for at, name in enumerate(names)}).to_numpy(int)
    seconds, took = rows["t_s"].to_numpy(float), rows["duration_s"].to_numpy(float)
    open_ = rows["state"].isin(call_history.UNRETURNED).to_numpy()
    failed = rows["errno"].notna().to_numpy()
    single = rows["calls"].isna().to_numpy() if "calls" in rows else np.ones(len(rows), bool)
    kept = np.zeros(len(rows), bool)
    kept[single] = thinning.calls(took[single], (open_ | failed)[single])
    own = rows[kept]
    spoken = np.flatnonzero(kept)
    weight = np.where(open_, np.inf, np.where(failed, np.nan_to_num(took) + 1e3, np.nan_to_num(took)))[kept]
    told = np.sort(np.argsort(-weight, kind="stable")[:TEXTS])
    results = own["errno"].fillna("").to_numpy(str)
    errors, error = np.unique(results, return_inverse=True)
    texts = [
        _cut(run.clean(f"{row.syscall}({row.args or ''}) = {row.result or '?'}"))[:240] for row in own.iloc[told].itertuples()
    ]
    rest = ~kept
    more = thinning.counted(seconds[rest], call[rest], weights[rest].to_numpy(), span) if rest.any() else None
    return {
        "names": names,
        "errors": errors.tolist(),
        "t": pack.seconds(seconds[spoken]),
        "took": pack.ints(np.where(np.isnan(took), 0, np.rint(np.nan_to_num(took) * 1e6))[kept], 1e-6),
        "call": pack.ints(call[kept]),
        "tid": pack.ints(own["pid"].fillna(-1).to_numpy(int)),
        "error": pack.ints(error),
        "open": pack.codes(open_[kept]),
        "told": pack.ints(told),
        "text": pack.texts(texts),
        "of": [int(kept.sum()), int(weights.sum())],
        **({"more": [pack.seconds(more[0]), pack.ints(more[1]), pack.ints(more[2])]} if more is not None else {}),
    }


def socket_track(pack: Packer, run: Clocked) -> dict:
    """Who listens and who is connected at each sample, by the port of the service; and what the port answered."""
    rows, why = _timed(run, "sockets")
    probes, _ = _timed(run, "probes")
    if not len(rows) and not len(probes):
        return {"missing": why or NO_SOCKETS}
    lanes = []
    if len(rows):
        moments = np.sort(rows["t_s"].unique())
        ports = _service_ports(rows, run.port)
        table = rows.assign(port=ports).groupby(["state", "port", "t_s"]).size()
        groups = table.groupby(level=["state", "port"], sort=False)
        ranked = sorted(groups, key=lambda pair: (_turn(pair[0][0]), pair[0][1] < 0, -float(pair[1].sum()), pair[0][1]))
        for (state, port), counts in ranked[:LANES]:
            at = np.searchsorted(moments, counts.index.get_level_values("t_s").to_numpy(float))
            lanes.append({"state": state, "port": int(port), "at": pack.ints(at), "n": pack.ints(counts.to_numpy(int))})
        return {"moments": pack.seconds(moments), "lanes": lanes, "of": [len(lanes), len(ranked)], "probes": _probes(run, probes)}
    return {"moments": pack.seconds(np.empty(0)), "lanes": [], "probes": _probes(run, probes)}


def _service_ports(rows: pd.DataFrame, own: int | None) -> pd.Series:
    """Port of the service that each socket belongs to, -1 where the kernel chose its number, unless it is the launch's `own`."""
    listening = set(rows.loc[rows["state"] == "LISTEN", "local_port"].dropna())
    port = rows["local_port"].where(rows["local_port"].isin(listening) | rows["peer_port"].isna(), rows["peer_port"])
    return port.where((port < EPHEMERAL) | (port == own), -1).fillna(-1).astype(int)


def _turn(state: str) -> int:
    """Order of the lanes: who listens first, then connections that do not come about, then the others."""
    return {"LISTEN": 0, "SYN-SENT": 1, "SYN-RECV": 1, "ESTAB": 2}.get(state, 3)


def _probes(run: Clocked, probes: pd.DataFrame) -> list:
    return [
        [
            round(float(row.t_s), 3),
            run.clean(f"{row.method if row.method == row.method else 'GET'} {row.path if row.path == row.path else row.url}"),
            None if pd.isna(row.http_status) else int(row.http_status),
            "" if pd.isna(row.error) else str(row.error),
        ]
        for row in probes.head(400).itertuples()
    ]


def thread_table(pack: Packer, run: Clocked) -> dict:
    """States of all threads at all moments, and how much of a core each used between them.

    Codes ascend with rarity (0: not seen), so that the largest code of some cells is the one that must not be hidden.
    """
    history = run.threads
    if not len(history.changes):
        return {"missing": threads.NOTHING}
    seconds = history.samples["t_s"].to_numpy(float)
    if np.isnan(seconds).all():
        return {"missing": UNTIMED.format(name="Threads", rows=count_of(len(history), "row"))}
    if len(seconds) == 1:
        return {"note": describe_thread_strip(history, names=run.names)}
    codes, pids, tids = threads.state_table(history)
    counts = threads.state_counts(history).sum()
    order = list(counts.sort_values(ascending=False, kind="stable").index)
    rarity = np.array([order.index(letter) + 1 if letter in order else 0 for letter in threads.STATES] + [0], dtype=np.uint8)
    total = len(seconds)
    codes, begins = thinning.columns(rarity[codes])
    busy = _busy(history, seconds, begins)
    last = history.changes.sort_values("last_sample", kind="stable").groupby(["pid", "tid"], dropna=False).tail(1)
    last = last.sort_values(["pid", "tid"], na_position="first")[["comm", "wchan", "syscall"]].astype("str")
    comms, comm = np.unique(last["comm"].fillna("").to_numpy(str), return_inverse=True)
    waits = [
        " in ".join(str(word).split(".")[0] for word in pair if isinstance(word, str) and word not in ("", "0", "nan"))
        for pair in zip(last["syscall"], last["wchan"], strict=True)
    ]
    places, place = np.unique(np.array(waits, dtype=str), return_inverse=True)
    names = run.names
    return {
        "states": order,
        "t": pack.seconds(seconds[begins]),
        "codes": pack.codes(codes),
        **({"busy": pack.codes(busy)} if busy.any() else {}),
        "pid": pack.ints(pids),
        "tid": pack.ints(tids),
        "comms": [run.clean(name) for name in comms],
        "comm": pack.ints(comm),
        "places": [run.clean(name) for name in places],
        "place": pack.ints(place),
        "processes": {
            str(pid): {
                "name": run.clean(names.get(int(pid), f"pid {pid}" if pid >= 0 else "threads")),
                "rank": run.ranks.get(int(pid)),
            }
            for pid in np.unique(pids)
        },
        **({"of": [len(begins), total]} if len(begins) < total else {}),
    }


def _busy(history: ThreadHistory, seconds: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Half per cents of a core that each thread used since its sample before, rounded up; 0: none, or not known.

    Of the samples between two of `begins` the busiest stays.
    """
    changes = history.changes
    known = changes["run_s"].astype(float)
    spent_s = (known if known.notna().any() else changes["cpu_s"].astype(float)).to_numpy()
    pids = changes["pid"].fillna(-1).to_numpy(np.int64)
    threads_of, row = np.unique((pids << 32) + changes["tid"].to_numpy(np.int64), return_inverse=True)
    order = np.argsort(row, kind="stable")
    first, last = (changes[name].to_numpy(np.int64) for name in ("first_sample", "last_sample"))
    ends = np.searchsorted(row[order], np.arange(len(threads_of) + 1))
    busy = np.zeros((len(threads_of), len(begins)), dtype=np.uint8)
    steps = np.maximum(np.diff(seconds), 1e-6)
    for thread in range(len(threads_of)):
        spent = np.full(len(seconds), np.nan)
        for at in order[ends[thread] : ends[thread + 1]]:
            spent[first[at] : last[at] + 1] = spent_s[at]
        share = np.nan_to_num(np.diff(spent) / steps, nan=0.0, posinf=0.0, neginf=0.0)
        used = np.append(np.uint8(0), np.clip(np.ceil(share * 200), 0, 255).astype(np.uint8))
        busy[thread] = np.maximum.reduceat(used, begins)
    return busy
