"""Launches of many hosts: each host is read and judged by itself, here or by Dask's workers; only facts and series travel.

Processes, GPUs, sockets and memory of a host stay with the host: nothing of two hosts is ever in one table. They are
compared by what each says of itself: its class, its phase, its last progress and the work that it does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kit import __version__
from kit.clock import NS, show_duration
from kit.document import Document, Item, Section, Shown, Table, items, percent
from kit.errors import EvidenceError, KitError

if TYPE_CHECKING:
    import pandas

POINTS = 200
"""Buckets that a host's series are resampled to: what a figure of many hosts can show."""
CONNECT_S = 10.0
LOST_S = 15.0
"""So long without a worker, and this machine does the rest: a worker that Dask starts anew is back within seconds."""
TRIES = 5
"""Workers that may die while they read a host, before the host is read here."""
SHOWN, UNREAD = 16, 5
BEHIND_S = 30.0
"""Hosts of one launch log their steps within seconds of each other; heartbeats of half a minute are the slowest usual ones."""
ODD_SHARE, ODD_SPREAD = 0.5, 5.0
"""An odd host works half as much as the median host, or half again, and by five times the median departure of the others."""
GOOD = ("ready", "progressing")


@dataclass
class HostFacts:
    """What one host says of itself: plain values, so that they travel."""

    # `host`, `path`: name of the host, and its folder
    host: str
    path: str
    error: str = ""  # why there is nothing, empty where there is
    unread: list[str] = field(default_factory=list)  # what of its files was not read, in sentences
    # `state`, `phase`, `class`, `plain`, `ranks`, `confidence`, `evidence`, `next`, `remedy`, and some facts
    verdict: dict[str, Any] = field(default_factory=dict)
    progress_ns: int | None = None  # last progress on the clock of the first host
    # `cpu_s`, `rss_bytes`: work of all its processes during the recording, and their memory at its end
    cpu_s: float | None = None
    rss_bytes: float | None = None
    # `time` (UTC nanoseconds on the clock of the first host), `rss_bytes` and `cpu_s` of all processes, `records` of the logs
    series: dict[str, list] = field(default_factory=dict)
    kit: str = __version__


def read_host(name: str, path: str, ahead_ns: int = 0, knowledge: tuple[str, ...] = ()) -> HostFacts:
    """Read and judge one host: the same here and on a worker. What fails is said, never raised."""
    from kit.analyse.verdict.verdict import verdict
    from kit.open import open_run

    try:
        run = open_run(path, None, knowledge or None)
        judged = verdict(run)
        facts = HostFacts(name, path, unread=run.unread()[:UNREAD], verdict=_kept(judged))
        last = judged.scene.log.last_progress
        facts.progress_ns = last["time"] - ahead_ns if last is not None and last.get("time") is not None else None
        facts.series = _series(run, ahead_ns)
        if facts.series:
            facts.cpu_s, facts.rss_bytes = sum(facts.series["cpu_s"]), facts.series["rss_bytes"][-1]
        return facts
    except KitError as error:
        return HostFacts(name, path, error=str(error))
    except Exception as error:  # a host that a reader fails on must not hide the others
        return HostFacts(name, path, error=f"reading it failed: {type(error).__name__}: {error}"[:300])


def facts_of(name: str, judged: Any, path: str = "") -> HostFacts:
    """What a host says of itself, from its verdict."""
    return HostFacts(name, path, verdict=_kept(judged))


def _kept(judged: Any) -> dict[str, Any]:
    """What of a verdict travels."""
    whole = judged.to_dict()
    facts = {name: whole["facts"].get(name) for name in ("silence_s", "world_size", "port", "port_listening", "log_lines")}
    kept = {name: whole[name] for name in ("state", "phase", "class", "ranks", "confidence", "captured_at", "missing")}
    return kept | {
        "plain": judged.plain,
        "facts": {name: value for name, value in facts.items() if value is not None},
        "evidence": whole["evidence"][:5],
        "next": whole["next"][:3],
        "remedy": whole["remedy"],
    }


def _series(run: Any, ahead_ns: int) -> dict[str, list]:
    """Memory and CPU of all processes over time, in at most `POINTS` buckets; the largest of a bucket stays."""
    frame = run.frame("processes", ["time", "pid", "rss_anon_bytes", "rss_bytes", "cpu_s", "tool"])
    rows = frame[frame["time"].notna() & (frame["tool"] == "sampler") & frame["pid"].notna()]
    if not len(rows):
        return {}
    ns = rows["time"].astype("int64")
    begin, end = int(ns.min()), int(ns.max())
    rows = rows.assign(bucket=((ns - begin) * POINTS // (end - begin + 1)).clip(upper=POINTS - 1))
    memory = rows["rss_anon_bytes"].fillna(rows["rss_bytes"]).astype(float)
    sums = rows.assign(memory=memory).groupby(["bucket", "pid"])["memory"].max().groupby(level=0).sum()
    spent = rows.assign(spent=rows.groupby("pid")["cpu_s"].diff().clip(lower=0).fillna(0)).groupby("bucket")["spent"].sum()
    times = [begin + int((bucket + 0.5) * (end - begin + 1)) // POINTS - ahead_ns for bucket in sums.index]
    return {"time": times, "rss_bytes": sums.tolist(), "cpu_s": spent.reindex(sums.index).astype(float).tolist()}


@dataclass
class Fleet:
    """A launch of many hosts. Make it with `kit.fleet` or `kit.open_run(folder, scheduler=…)`.

    Attributes
    ----------
    path : pathlib.Path
    hosts : list of HostFacts
        In the order of the manifest, those that could not be read too.
    remarks : list of str
        What went wrong on the way, in sentences: a scheduler that was not there, workers of another version.
    """

    path: Path
    hosts: list[HostFacts]
    remarks: list[str] = field(default_factory=list)

    @property
    def read(self) -> list[HostFacts]:
        """Hosts with an answer."""
        return [host for host in self.hosts if not host.error]

    def series(self) -> pandas.DataFrame:
        """Memory and CPU of each host over time: columns `host`, `time`, `rss_bytes`, `cpu_s`."""
        import pandas as pd

        parts = [pd.DataFrame({"host": host.host, **host.series}) for host in self.read if host.series]
        found = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["host", "time", "rss_bytes", "cpu_s"])
        return found.assign(time=pd.to_datetime(found["time"], unit="ns", utc=True))

    def verdict(self) -> FleetVerdict:
        """Which host is the odd one, and what is wrong there."""
        return FleetVerdict(self, *odd_host(self.read))


def odd_host(hosts: list[HostFacts]) -> tuple[HostFacts | None, str]:
    """The host that differs from the others, and how.

    In this order: one whose trouble few share (the rarest class, of these the surest); one that stopped long before the others;
    one that works far less or far more than they do.
    """
    if len(hosts) < 2:
        return (hosts[0], "it is the only host") if hosts else (None, "")
    said = {host.host: (host.verdict["class"], host.verdict["plain"]) for host in hosts}
    shared = Counter(said.values())
    usual, common = shared.most_common(1)[0]

    def trouble(host: HostFacts) -> tuple:
        found = host.verdict
        return shared[said[host.host]], found["state"] in GOOD, -found["confidence"], host.progress_ns or 0

    rarest = min(hosts, key=trouble)
    alike = trouble(rarest)[0]
    if len(shared) > 1 and (alike < common or rarest.verdict["state"] not in GOOD):
        if said[rarest.host] == usual:
            usual = next(one for one in said.values() if one != usual)
        return rarest, f"the others, {common} of {len(hosts)}: {usual[1]} ({usual[0]})"
    stopped = {host.host: host.progress_ns for host in hosts if host.progress_ns is not None}
    if len(stopped) > 2:
        first = min((host for host in hosts if host.progress_ns is not None), key=lambda host: host.progress_ns or 0)
        behind_s = (median(stopped.values()) - (first.progress_ns or 0)) / NS
        if behind_s > BEHIND_S:
            return first, f"its last progress was {show_duration(behind_s)} before that of the others"
    return _by_work(hosts)


def _by_work(hosts: list[HostFacts]) -> tuple[HostFacts | None, str]:
    """The host whose CPU time or memory departs most from the median."""
    for what, words in (("cpu_s", "CPU time"), ("rss_bytes", "memory")):
        values = {host.host: getattr(host, what) for host in hosts if getattr(host, what) is not None}
        if len(values) < 3:
            continue
        middle = median(values.values())
        departures = {name: abs(value - middle) for name, value in values.items()}
        name = max(departures, key=departures.__getitem__)
        if departures[name] > ODD_SHARE * max(middle, 1e-9) and departures[name] > ODD_SPREAD * median(departures.values()):
            share = values[name] / middle if middle else 0.0
            odd = next(host for host in hosts if host.host == name)
            return odd, f"its {words} is {percent(share)} of that of the median host"
    return None, ""


@dataclass(repr=False)
class FleetVerdict(Shown):
    """What the hosts of a launch say together: the odd host first.

    Attributes
    ----------
    fleet : Fleet
    odd : HostFacts or None
        The host that differs; None where all say the same.
    how : str
        What the others say, or how it differs.
    """

    fleet: Fleet
    odd: HostFacts | None
    how: str

    @property
    def state(self) -> str:
        """State of the odd host, else that of the most hosts; `unknown` where none could be read."""
        states = Counter(host.verdict["state"] for host in self.fleet.read)
        return self.odd.verdict["state"] if self.odd else states.most_common(1)[0][0] if states else "unknown"

    def answer(self) -> str:
        """The answer, in one sentence."""
        read, total = self.fleet.read, len(self.fleet.hosts)
        if not read:
            return f"none of the {total} hosts could be read"
        if self.odd is None:
            one = read[0].verdict
            same = f"{len(read)} of {total} hosts" if len(read) < total else f"all {total} hosts"
            return f"{same} say the same, none is the odd one: {one['plain']} ({one['class']})"
        found = self.odd.verdict
        ranks = f", rank {', '.join(map(str, found['ranks']))}" if found["ranks"] else ""
        sure = percent(found["confidence"])
        return f"{self.odd.host} is the odd host of {total}{ranks}: {found['plain']} ({found['class']}, {sure})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the odd host, each host's own answer, what could not be read."""
        return {
            "odd_host": self.odd.host if self.odd else None,
            "how": self.how,
            "state": self.state,
            "answer": self.answer(),
            "hosts": [
                {"host": host.host, "error": host.error or None, "unread": host.unread, **host.verdict}
                for host in self.fleet.hosts
            ],
            "remarks": self.fleet.remarks,
        }

    def document(self, brief: bool = False) -> Document:
        """The odd host, its evidence, what the others say, what could not be read."""
        sections = []
        if self.odd is not None:
            found = self.odd.verdict
            claims = [Item(one["claim"], "•", where=_where(self.odd.host, one)) for one in found["evidence"]]
            sections += [Section("how it differs", items([self.how]) if self.how else []), Section("evidence", claims)]
            sections.append(Section("next, on that host", items([f"{one['what']}: {one['command']}" for one in found["next"]])))
        told = sorted(self.fleet.read, key=lambda host: host is not self.odd)
        rows = [
            (
                host.host,
                host.verdict["state"],
                host.verdict["phase"] or "",
                host.verdict["class"],
                ", ".join(map(str, host.verdict["ranks"])),
                percent(host.verdict["confidence"]),
            )
            for host in told[:SHOWN]
        ]
        sections.append(
            Section(
                "hosts", [Table(("host", "state", "phase", "class", "odd ranks", "belief"), rows, len(told), numeric={"belief"})]
            )
        )
        failed = [f"{host.host} could not be read: {host.error}" for host in self.fleet.hosts if host.error]
        sections.append(Section("not read", items([*failed, *self._unread(), *self.fleet.remarks])))
        return Document(
            self.answer(), sections, f"{len(self.fleet.read)} of {len(self.fleet.hosts)} hosts read: {self.fleet.path.name}"
        )

    def _unread(self) -> list[str]:
        """What was not read of hosts that were; hosts of which the same is to be said, together."""
        hosts: dict[str, list[str]] = {}
        for host in self.fleet.read:
            for text in host.unread:
                hosts.setdefault(text, []).append(host.host)
        said = [f"{own[0]}{f' and {len(own) - 1} more' if own[1:] else ''}: {text}" for text, own in hosts.items()]
        return (
            said if len(said) <= SHOWN else [*said[:SHOWN], f"{len(said) - SHOWN} more: kit captures on the folder of the host"]
        )

    def __repr__(self) -> str:
        return f"<FleetVerdict {self.answer()}>"


def _where(host: str, one: dict) -> str:
    """Where a claim stands."""
    line = f":{one['line']}" if one.get("line") else ""
    return f"{host}/{one['capture']}{line}" if one.get("capture") else host


def fleet(
    path: str | Path,
    scheduler: str | None = None,
    *,
    knowledge: Iterable[str | Path] = (),
    progress: Callable[[HostFacts], None] | None = None,
) -> Fleet:
    """Read and judge each host of a launch, on Dask's workers where a scheduler is given, else on this machine.

    Parameters
    ----------
    path : str or path
        A run of several hosts, or a folder of runs, one a host. Workers find it under the same path.
    scheduler : str, optional
        Address of a Dask scheduler, `tcp://host:8786`. Where none answers, this machine reads the hosts, and it is said.
    knowledge : paths, optional
        Folders of your own knowledge.
    progress : callable, optional
        Is handed each host once it was read.

    Raises
    ------
    EvidenceError
        Where the folder holds no hosts.

    Examples
    --------
    >>> import kit
    >>> kit.fleet("run-of-64-hosts", scheduler="tcp://127.0.0.1:8786").verdict()  # doctest: +SKIP
    <FleetVerdict node-17 is the odd host of 64, rank 3: a rank's process is stopped (rank_straggler, 100 %)>
    """
    path = Path(path).expanduser()
    known = tuple(str(Path(one).resolve()) for one in knowledge)
    work = {name: (name, str(folder.resolve()), ahead_ns, known) for name, folder, ahead_ns in hosts_of(path)}
    found: dict[str, HostFacts] = {}
    remarks: list[str] = []
    for facts in _on_workers(scheduler, work, remarks) if scheduler else ():
        found[facts.host] = facts
        if progress is not None:
            progress(facts)
    for name in [name for name in work if name not in found]:
        found[name] = read_host(*work[name])
        if progress is not None:
            progress(found[name])
    return Fleet(path, [found[name] for name in work], remarks)


def hosts_of(path: Path) -> list[tuple[str, Path, int]]:
    """Hosts of a launch: name, folder, and what its clock is ahead of that of the first.

    Raises
    ------
    EvidenceError
        Where there are none.
    """
    names = []
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        names = [entry["name"] for entry in json.loads((path / "run.json").read_text(encoding="utf-8")).get("hosts") or ()]
    if not names and path.is_dir():
        names = sorted(folder.name for folder in path.iterdir() if (folder / "run.json").exists())
    names = [name for name in dict.fromkeys(names) if isinstance(name, str) and Path(name).name == name]
    if not names:
        raise EvidenceError(
            f"no hosts in {path}",
            "its run.json lists none, and no folder in it is a run",
            "give the folder that `kit collect HOST HOST …` made, or a folder with one run a host",
        )
    offsets = [_offset_ns(path / name / "run.json") for name in names]
    return [(name, path / name, offset - offsets[0]) for name, offset in zip(names, offsets, strict=True)]


def _offset_ns(manifest: Path) -> int:
    """What a host's clock is ahead of this machine's, as measured when it was recorded; 0 where nobody did."""
    try:
        return int(json.loads(manifest.read_text(encoding="utf-8"))["clock"]["offset_ns"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _on_workers(scheduler: str, work: dict[str, tuple], remarks: list[str]) -> Iterator[HostFacts]:
    """Hosts as Dask's workers read them; what they don't is left to this machine, and said."""
    try:
        from distributed import Client
    except ImportError:
        remarks.append("Dask is not installed, so this machine read the hosts: pip install 'stallkit[fleet]'")
        return
    try:
        client = Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        remarks.append(f"no Dask scheduler answers at {scheduler}, so this machine read the hosts ({type(error).__name__})")
        return
    try:
        workers, others = _fitting(client, remarks)
        if workers:
            yield from _gathered(client, workers if others else None, work, remarks)
    finally:
        with suppress(Exception):  # a connection that is gone cannot be closed in order
            client.close(timeout=2)


def _fitting(client: Any, remarks: list[str]) -> tuple[list[str], list[str]]:
    """Workers with this version of the kit, and the others; what is wrong with these is said."""
    with suppress(Exception):  # none there yet: said below
        client.wait_for_workers(1, timeout=CONNECT_S)
    versions = client.run(_version, on_error="return")
    other = {worker: found for worker, found in versions.items() if found != __version__}
    if other:
        said = sorted({found if isinstance(found, str) else "no stallkit" for found in other.values()})
        count = f"{len(other)} of {len(versions)} workers"
        remarks.append(f"{count} took no part: they have {', '.join(said)}, not stallkit {__version__}")
    if len(other) == len(versions):
        remarks.append("no worker could take part, so this machine read the hosts")
    return [worker for worker in versions if worker not in other], list(other)


def _version() -> str:
    """Version of the kit where this runs."""
    import kit

    return kit.__version__


def _gathered(client: Any, only: list[str] | None, work: dict[str, tuple], remarks: list[str]) -> Iterator[HostFacts]:
    """Results as they come, of some workers only where others do not fit.

    A worker that dies loses nothing: Dask hands its hosts to another.
    """
    from time import monotonic

    from distributed import wait

    where = {} if only is None else {"workers": only, "allow_other_workers": False}
    futures = {client.submit(read_host, *one, pure=False, retries=TRIES, key=f"stallkit-{name}-{id(work)}", **where): name
               for name, one in work.items()}  # fmt: skip
    pending, alone_since = set(futures), None
    while pending:
        with suppress(TimeoutError), client.as_current():
            wait(pending, timeout=1.0, return_when="FIRST_COMPLETED")
        for future in [future for future in pending if future.done()]:
            pending.remove(future)
            if future.status == "finished":
                yield future.result()
            else:
                remarks.append(f"the workers that read {futures[future]} died, so this machine read it")
        alive = set(client.scheduler_info(n_workers=-1)["workers"]) if client.status == "running" else set()
        alive = alive if only is None else alive.intersection(only)
        alone_since = None if alive else alone_since or monotonic()
        if alone_since is not None and monotonic() - alone_since > LOST_S:
            remarks.append(f"all workers are gone, so this machine read the last {len(pending)} hosts")
            return
