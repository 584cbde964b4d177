"""Who is who: ranks joined over log prefixes, process titles, pids and port owners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kit.analyse.verdict import flight_recorder
from kit.analyse.verdict.collective_counts import counts
from kit.analyse.verdict.evidence import Evidence
from kit.clock import NS
from kit.parse.grammar import load, traits
from kit.parse.grammar_file import ProcessRule
from kit.parse.records import global_rank
from kit.schema import Row
from kit.untrusted import MOST_RANKS, whole_number

TOGETHER_NS = 3 * NS
"""Deaths within so long are one: vLLM gives its workers 4 s to end, SGLang kills at once, and the sampler looks each second."""
_MANAGED = re.compile(r"managed by process (\d+)")
_SIZES = {
    "tp": ("tp_size", "tensor_parallel_size", "tp"),
    "pp": ("pp_size", "pipeline_parallel_size", "pp"),
    "dp": ("dp_size", "data_parallel_size", "dp"),
} | {name: (name,) for name in ("nnodes", "node_rank", "world_size", "nproc_per_node")}
SERVING_ROLES = ("frontend", "engine", "worker")
ROLES = ("compiler", "helper", "engine", "frontend", "worker")
"""Roles in the order in which they are looked for: a helper's title often names the server that it serves."""


def started(row: Row) -> int | None:
    """When a listed process was started, as its age tells."""
    known = row.get("elapsed_s") is not None and row.get("time") is not None
    return row["time"] - int(row["elapsed_s"] * NS) if known else None


FREEZER = frozenset({"__refrigerator", "do_freezer_trap", "cgroup_leave_frozen"})
"""Where the kernel holds the threads of a frozen control group (kernel/freezer.c, kernel/cgroup/freezer.c)."""


def frozen(evidence: Evidence) -> set[int]:
    """Processes that the freezer of their control group holds at the last look, as `docker pause` does it."""
    last = {(row["pid"], row.get("tid")): row["wchan"] for row in (*evidence.processes, *evidence.threads) if row.get("wchan")}
    return {pid for (pid, _), wchan in last.items() if wchan in FREEZER}


KILLED = (4, 6, 7, 8, 9, 11)
"""Signals that end a process in the midst of its work (signal(7)); SIGTERM and SIGINT ask it to go."""


@dataclass
class Process:
    """One process over all its rows."""

    pid: int
    rows: list[Row] = field(default_factory=list)
    title: str = ""
    comm: str = ""
    ppid: int | None = None
    rank: int | None = None
    role: str = "other"
    by_order: bool = False
    """Its rank is that of its place among equal workers: nothing names it."""

    @property
    def name(self) -> str:
        """Its title, else the program's name."""
        return self.title or self.comm

    @property
    def states(self) -> list[str]:
        """State letters in the order of the samples."""
        return [row["state"] for row in self.rows if row.get("state")]

    @property
    def died_ns(self) -> int | None:
        """When it was first seen dead."""
        return min((row["time"] for row in self.rows if row.get("state") in ("Z", "X") and row.get("time")), default=None)

    @property
    def dead(self) -> bool:
        """A zombie at the last look."""
        return bool(self.states) and self.states[-1] in ("Z", "X")

    @property
    def killed_by(self) -> int | None:
        """The signal that ended it in the midst of its work, as long as its parent has not taken note."""
        number = (self.rows[-1].get("exit_status") or 0) & 127 if self.dead and self.rows else 0
        return number if number in KILLED else None


@dataclass
class Processes:
    """All processes of the evidence, by pid, and the ranks among them."""

    by_pid: dict[int, Process]
    rank_pid: dict[int, int]
    sizes: dict[str, int]
    world_size: int | None

    def rank_of(self, pid: int | None) -> int | None:
        """Rank of a pid, None where it is no rank."""
        process = self.by_pid.get(pid) if pid is not None else None
        return process.rank if process else None

    def of_role(self, *roles: str) -> list[Process]:
        """Processes of some roles, by pid."""
        return [process for _, process in sorted(self.by_pid.items()) if process.role in roles]

    @property
    def workers(self) -> list[Process]:
        """Processes that hold a rank, by rank."""
        return sorted((p for p in self.by_pid.values() if p.rank is not None), key=lambda p: p.rank)

    @property
    def first_dead(self) -> list[Process]:
        """The processes of the server that died first; what died seconds later was ended with the rest."""
        died = {p.pid: p.died_ns for p in self.of_role("frontend", "engine", "worker") if p.dead and p.died_ns is not None}
        return [self.by_pid[pid] for pid, at in died.items() if at - min(died.values()) <= TOGETHER_NS]

    @property
    def alive(self) -> bool | None:
        """Whether any process of the server was alive at the last look; None where nobody looked."""
        own = [p for p in self.by_pid.values() if p.role in ("frontend", "engine", "worker") and (p.states or p.rows)]
        return any(not p.dead for p in own) if own else None


def sizes_of(evidence: Evidence) -> dict[str, int]:
    """Parallel sizes that the launch asked for: tp, pp, dp, nnodes, as far as its arguments show them."""
    found: dict[str, int] = {}
    for fields in argument_fields(evidence):
        for name, keys in _SIZES.items():
            given = [number for key in keys if (number := whole_number(fields.get(key))) is not None]
            found |= {name: given[-1]} if given else {}
        if fields.get("specs"):
            found.setdefault("world_size", str(fields["specs"]).count("GPU'"))
        if str(fields.get("dp_attention", fields.get("enable_dp_attention", "no"))) in ("True", "", "true"):
            found["dp_attention"] = 1
    if "dp_attention" not in found and _shares_ranks(evidence.log.labels):
        found["dp_attention"] = 1
    return found


def _shares_ranks(labels: set[str]) -> bool:
    """Whether data-parallel ranks share the tensor-parallel ones: then no TP number stands beside two DP numbers."""
    pairs = [(int(found[1]), int(found[2])) for label in labels if (found := re.match(r"DP(\d+) TP(\d+)", label))]
    partners: dict[int, set[int]] = {}
    for dp, tp in pairs:
        partners.setdefault(tp, set()).add(dp)
    return len({dp for dp, _ in pairs}) > 1 and all(len(found) == 1 for found in partners.values())


def argument_fields(evidence: Evidence) -> list[dict]:
    """Arguments of the launch: what the server printed, then command lines and process titles."""
    printed = [mark.fields for mark in evidence.log.marks if mark.fields]
    typed = [flags(row.get("text") or "") for row in evidence.commands]
    typed += [flags(row.get("cmdline") or "") for row in evidence.processes if "--" in (row.get("cmdline") or "")]
    typed += [flags(title) for title in dict.fromkeys(row.get("process") or "" for row in evidence.stacks) if "--" in title]
    return typed + printed


def flags(command: str) -> dict[str, str]:
    """Options of a command line by their long name, dashes as underscores.

    Examples
    --------
    >>> flags("python3 -m sglang.launch_server --tp-size 8 --port=30000 --trust-remote-code")
    {'m': 'sglang.launch_server', 'tp_size': '8', 'port': '30000', 'trust_remote_code': ''}
    """
    found = {}
    for name, value in re.findall(r"(?<!\S)--?([A-Za-z][\w-]*)(?:[= ](?!-)(\S+))?", command):
        found[name.replace("-", "_")] = value.strip("'\"")
    return found


def find_ranks(evidence: Evidence) -> Processes:
    """Find the processes of a launch, their roles, and which rank each is.

    A rank comes, in this order, from: log prefixes with a pid; titles; the environment of a program that no title tells; being
    the front end of a server without engines; what NCCL's RAS calls the managing process; the order in which a launcher starts
    equal workers; data-parallel engines, or the one process of a launch of one rank.
    """
    known = load(evidence.run.knowledge).matcher(evidence.log.server)
    titles = Titles(known.processes)
    sizes = sizes_of(evidence)
    world = world_size(evidence, sizes)
    by_pid = _collect(evidence, titles)
    rank_pid = _ranks_of_log(evidence, sizes)
    for process in by_pid.values():
        process.role = titles.role(process.name)
        rank = titles.rank(process.name, sizes)
        if rank is not None and process.role not in ("helper", "frontend"):
            rank_pid.setdefault(rank, process.pid)
    _of_environment(evidence, by_pid, rank_pid)
    for rank, pid in rank_pid.items():
        process = by_pid.setdefault(pid, Process(pid))
        process.rank = rank
        if process.role in ("other", "engine"):
            process.role = "worker"
    _zombies(by_pid)
    if known.traits.frontend_is_rank_0 and (world or 1) > 1:
        _frontend_is_rank_0(by_pid, rank_pid, {pid for pids in evidence.log.writers.values() for pid in pids})
    _managed(evidence, by_pid, rank_pid)
    if not any(process.role == "worker" for process in by_pid.values()):
        _alike(by_pid)
    _in_order(evidence, by_pid, rank_pid, world)
    if not rank_pid:
        _engines(by_pid, rank_pid, titles, sizes, world)
    _killed_children(by_pid)
    return Processes(by_pid, rank_pid, sizes, world or (max(rank_pid) + 1 if len(rank_pid) > 1 else None))


def _collect(evidence: Evidence, titles: Titles) -> dict[int, Process]:
    """One process for each pid that was listed or whose stack was taken; of its titles the one that tells most."""
    by_pid: dict[int, Process] = {}
    for row in [*evidence.processes, *evidence.stacks]:
        pid = row.get("pid")
        if pid is None:
            continue
        process = by_pid.setdefault(pid, Process(pid))
        if row.get("state") or row.get("tool") in ("ps", "status", "stat", "sampler"):
            process.rows.append(row)
        title = row.get("cmdline") or row.get("process") or row.get("comm") or ""
        if titles.telling(title) > titles.telling(process.title):
            process.title = title
        process.comm = row.get("comm") or process.comm
        process.ppid = row.get("ppid") if row.get("ppid") is not None else process.ppid
    return by_pid


def _ranks_of_log(evidence: Evidence, sizes: dict[str, int]) -> dict[int, int]:
    """Pid of each rank whose records name both."""
    rank_pid = dict(evidence.log.rank_pids)
    for label, pid in evidence.log.label_pids.items():
        rank = global_rank(label, sizes)
        if rank is not None:
            rank_pid.setdefault(rank, pid)
    return rank_pid


def _of_environment(evidence: Evidence, by_pid: dict[int, Process], rank_pid: dict[int, int]) -> None:
    """Ranks of a program that no title tells, as its launcher set them; its children have inherited the variable."""
    given = {row["pid"]: row["value"] for row in evidence.host if row.get("source") == "environ" and row.get("key") == "RANK"}
    for pid, value in given.items():
        process = by_pid.get(pid)
        if process and process.role == "other" and given.get(process.ppid) != value and str(value).isdecimal():
            rank_pid.setdefault(int(value), pid)


def _zombies(by_pid: dict[int, Process]) -> None:
    """A dead child of a server has no title left: it was a worker."""
    for process in by_pid.values():
        parent = by_pid.get(process.ppid) if process.ppid is not None else None
        if process.states[-1:] == ["Z"] and process.role == "other" and parent and parent.role in ("frontend", "engine"):
            process.role = "worker"


def _killed_children(by_pid: dict[int, Process]) -> None:
    """A child that a signal ended, of which its parent has not taken note, worked for it, whatever program the two are."""
    for process in by_pid.values():
        parent = by_pid.get(process.ppid) if process.ppid is not None else None
        if process.role == "other" and process.killed_by and parent is not None and not parent.dead:
            process.role = "worker"
            parent.role = "engine" if parent.role == "other" else parent.role


def _frontend_is_rank_0(by_pid: dict[int, Process], rank_pid: dict[int, int], writers: set[int]) -> None:
    """Without an engine process the front end is rank 0 itself (vLLM's engine V0, where it signs no line with its pid)."""
    frontends = [process for process in by_pid.values() if process.role == "frontend" and process.pid not in writers]
    if frontends and 0 not in rank_pid and not any(process.role == "engine" for process in by_pid.values()):
        frontends[0].rank, rank_pid[0] = 0, frontends[0].pid


def _managed(evidence: Evidence, by_pid: dict[int, Process], rank_pid: dict[int, int]) -> None:
    """Ranks whose managing process NCCL's RAS names."""
    for row in evidence.collectives:
        managed = _MANAGED.search(row.get("text") or "")
        if managed and row.get("rank") is not None and int(managed.group(1)) in by_pid:
            rank_pid.setdefault(row["rank"], int(managed.group(1)))
    for rank, pid in rank_pid.items():
        if pid in by_pid and by_pid[pid].rank is None:
            by_pid[pid].rank = rank


def _alike(by_pid: dict[int, Process]) -> None:
    """Take the largest group of processes with the same command line for the workers, as a training job starts them."""
    groups: dict[str, list[Process]] = {}
    for process in by_pid.values():
        if process.role == "other" and process.name and "download" not in process.title:
            groups.setdefault(process.name.removesuffix(" <defunct>"), []).append(process)
    titled = (group for group in groups.values() if any(process.title for process in group))  # a bare name tells too little
    largest = max(titled, key=len, default=[])
    if len(largest) >= 2:
        for process in largest:
            process.role = "worker"


def _in_order(evidence: Evidence, by_pid: dict[int, Process], rank_pid: dict[int, int], world: int | None) -> None:
    """Workers that nothing names, in the order in which they spoke first (Ray) or were started: launchers do both by rank.

    Where some are missing, a launcher that starts equal workers one after the other leaves a gap in their pids.
    """
    for pids in evidence.log.writers.values():
        if not rank_pid and world and 1 < len(pids) == world:
            for rank, pid in enumerate(pids):
                process = by_pid.setdefault(pid, Process(pid))
                process.rank, process.by_order, rank_pid[rank] = rank, True, pid
    nameless = [process for _, process in sorted(by_pid.items()) if process.rank is None and process.role == "worker"]
    free = [rank for rank in range(world or len(nameless) + len(rank_pid)) if rank not in rank_pid]
    if nameless and not rank_pid and len(nameless) < len(free):
        first, last = nameless[0].pid, nameless[-1].pid
        equal = len({process.title for process in nameless}) == 1
        free = [process.pid - first for process in nameless] if equal and last - first < len(free) else []
    if len(nameless) == len(free):
        for process, rank in zip(nameless, free, strict=True):
            process.rank, process.by_order, rank_pid[rank] = rank, len(free) > 1, process.pid


def _engines(
    by_pid: dict[int, Process], rank_pid: dict[int, int], titles: Titles, sizes: dict[str, int], world: int | None
) -> None:
    """Without workers the engines are the ranks (data parallel), or the one process of a server of one rank."""
    named = {rank: p for p in by_pid.values() if (rank := titles.engine_rank(p.title, sizes)) is not None}
    if not named and (world or 1) == 1:
        of_role = ([p for p in by_pid.values() if p.role == role] for role in ("worker", "engine", "frontend", "other"))
        single = next((group for group in of_role if group), [])
        named = {0: single[0]} if len(single) == 1 else {}
    for rank, process in named.items():
        process.rank, rank_pid[rank] = rank, process.pid


class Titles:
    """What process titles tell, by the grammars' `[[process]]`; those of the log's own server are asked first.

    Examples
    --------
    >>> titles = Titles(load().matcher(None).processes)
    >>> [titles.role(title) for title in ("sglang::scheduler_TP0", "/usr/bin/ptxas -v", "VLLM::APIServer", "bash", "cat")]
    ['worker', 'compiler', 'frontend', 'helper', 'other']
    >>> titles.rank("sglang::scheduler_TP3", {"tp": 8}), titles.rank("VLLM::EngineCore_DP1", {})
    (3, None)
    >>> titles.engine_rank("VLLM::EngineCore_DP1", {}), titles.may_serve("sglang::schedul"), titles.may_serve("sshd")
    (1, True, False)
    """

    def __init__(self, rules: Sequence[ProcessRule]):
        self._rules = rules
        self._telling = sorted((rule for rule in rules if rule.role in ROLES), key=lambda rule: ROLES.index(rule.role))
        self._roles: dict[str, str] = {}

    def role(self, title: str) -> str:
        """Role that a title tells, `other` where it tells none."""
        if title not in self._roles:
            self._roles[title] = next((rule.role for rule in self._telling if rule.fits(title)), "other")
        return self._roles[title]

    def rank(self, title: str, sizes: dict[str, int]) -> int | None:
        """Global rank that a title names; an engine's counts only where no worker has one."""
        return self._rank(title, sizes, [rule for rule in self._rules if rule.role != "engine"])

    def engine_rank(self, title: str, sizes: dict[str, int]) -> int | None:
        """Data-parallel rank that an engine's title names."""
        return self._rank(title, sizes, [rule for rule in self._rules if rule.role == "engine"])

    @staticmethod
    def _rank(title: str, sizes: dict[str, int], rules: Iterable[ProcessRule]) -> int | None:
        for rule in rules:
            match = rule.rank.search(title) if rule.rank else None
            if match:
                groups = match.groupdict()
                if groups.get("rank"):
                    return whole_number(groups["rank"])
                return global_rank(groups["label"].replace("_", " ").strip(), sizes)
        return None

    def telling(self, title: str) -> tuple[bool, int]:
        """How much a title tells: that of a worker or an engine more than another, a longer one more than a shorter."""
        return self.role(title) in ("worker", "engine"), len(title)

    def may_serve(self, name: str | None) -> bool:
        """Whether a process of this name may be one of a server's."""
        return any(rule.fits(name or "") for rule in self._rules if rule.role in ("frontend", "engine", "worker", "any"))


def titles_of(evidence: Evidence) -> Titles:
    """What process titles tell in this evidence."""
    return Titles(load(evidence.run.knowledge).matcher(evidence.log.server).processes)


def world_size(evidence: Evidence, sizes: dict[str, int]) -> int | None:
    """Number of ranks that the launch asked for: the largest of what arguments, NCCL and c10d say, and can be."""
    asked = [sizes["world_size"]] if "world_size" in sizes else []
    if {"tp", "pp", "dp"} & sizes.keys():
        # SGLang's and vLLM's DP attention shares the TP ranks; plain DP multiplies them. Seen ranks decide below.
        server = traits(evidence.log.server, evidence.run.knowledge)
        shared = sizes.get("dp_attention") or server.data_parallel_shares_ranks
        asked.append(sizes.get("tp", 1) * sizes.get("pp", 1) * (1 if shared else sizes.get("dp", 1)))
    if "nproc_per_node" in sizes:
        asked.append(sizes["nproc_per_node"] * sizes.get("nnodes", 1))
    for mark in evidence.log.marks:
        for key in ("nranks", "world_size"):
            asked.append(whole_number(mark.fields.get(key)) or 0)
    asked += [size] if (size := flight_recorder.world_size(evidence)) else []
    asked += [moments[-1].size for moments in counts(evidence).values() if moments[-1].ranks_at]
    ranks = evidence.log.ranks | {rank for label in evidence.log.labels if (rank := global_rank(label, sizes)) is not None}
    of_files = {capture.rank for capture in evidence.run.captures if capture.kind == "log" and capture.rank is not None}
    ranks |= of_files if min(of_files, default=0) < len(of_files) else set()  # else the numbers are those of tasks, of jobs
    ranks |= {
        int(rank) for mark in evidence.log.of("desync_lagging") for rank in re.findall(r"\d+", str(mark.fields.get("ranks")))
    }
    seen = [rank + 1 for rank in ranks] if len(ranks) > 1 else []
    return max((size for size in asked + seen if 0 < size <= MOST_RANKS), default=None)
