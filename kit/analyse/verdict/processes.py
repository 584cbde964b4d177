"""Who is who: ranks joined over log prefixes, process titles, pids and port owners."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict import flight_recorder
from kit.analyse.verdict.collective_counts import counts
from kit.analyse.verdict.evidence import Evidence
from kit.parse.records import global_rank
from kit.schema import Row

_TITLE_RANK = re.compile(
    r"(?:scheduler|worker|Worker|schedul|WorkerProc)[\w:]*?[_-]((?:(?:DP|PP|ATTN_CP|MOE_DP|TP|EP|DCP|PCP)\d+[_ ]?)+)"
)
_TITLE_NUMBER = re.compile(
    r"(?:--(?:local[_-]|node[_-])?rank[= ]|VllmWorker(?:Process)?-|Worker[_ ]?rank[=_ ]?|[Rr]ank[_ =:]|rank=)(\d+)"
)
_MANAGED = re.compile(r"managed by process (\d+)")
_SIZES = {
    "tp": ("tp_size", "tensor_parallel_size", "tp"),
    "pp": ("pp_size", "pipeline_parallel_size", "pp"),
    "dp": ("dp_size", "data_parallel_size", "dp"),
}
COMPILERS = (
    "nvcc",
    "cicc",
    "ptxas",
    "cc1plus",
    "cc1",
    "clang",
    "clang++",
    "hipcc",
    "gcc",
    "g++",
    "c++",
    "fatbinary",
    "nvlink",
    "ld",
    "ld.lld",
    "lld",
    "as",
    "cudafe++",
    "amdclang++",
    "hipcc.bin",
    "cl",
)
"""Programs that are a compiler at work. `ninja` and `make` only wait for one."""
FRONTENDS = re.compile(
    r"launch_server|api_server|APIServer|ApiServer|vllm serve|vllm\.entrypoints|text-generation-launcher|"
    r"text-generation-router|trtllm-serve|llama-server|torchrun|http_server|TokenizerManager|tokenizer_worker"
)
WORKERS = re.compile(
    r"scheduler|schedul\b|Worker|VllmWorker|worker_process|RayWorker|text-generation-server serve|mpi4py|"
    r"trtllm.*worker|pt_main_thread"
)
ENGINES = re.compile(r"EngineCor|data_parallel_controller|shard-manager")
HELPERS = re.compile(r"detokenizer|resource_tracker|pt_data_worker|monitor|DPCoordinator|docker-proxy|sshd|bash|\bsh\b|tee\b")


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

    @property
    def states(self) -> list[str]:
        """State letters in the order of the samples."""
        return [row["state"] for row in self.rows if row.get("state")]

    @property
    def dead(self) -> bool:
        """A zombie at the last look."""
        return bool(self.states) and self.states[-1] in ("Z", "X")


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
    def alive(self) -> bool | None:
        """Whether any process of the server was alive at the last look; None where nobody looked."""
        own = [p for p in self.by_pid.values() if p.role in ("frontend", "engine", "worker") and p.states]
        return any(not p.dead for p in own) if own else None


def sizes_of(evidence: Evidence) -> dict[str, int]:
    """Parallel sizes that the launch asked for: tp, pp, dp, nnodes, as far as its arguments show them."""
    found: dict[str, int] = {}
    for fields in argument_fields(evidence):
        for name, keys in _SIZES.items():
            for key in keys:
                if str(fields.get(key, "")).isdigit():
                    found[name] = int(fields[key])
        for key in ("nnodes", "node_rank", "world_size", "nproc_per_node"):
            if str(fields.get(key, "")).isdigit():
                found[key] = int(fields[key])
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
    """Join processes and ranks.

    Returns
    -------
    Processes
        Ranks come from log prefixes with a pid first, then from process titles, then from the order of pids among equal
        workers where their number fits the world size.
    """
    sizes = sizes_of(evidence)
    processes: dict[int, Process] = {}
    for row in [*evidence.processes, *evidence.stacks]:
        pid = row.get("pid")
        if pid is None:
            continue
        process = processes.setdefault(pid, Process(pid))
        if row.get("state") or row.get("tool") in ("ps", "status", "stat", "sampler"):
            process.rows.append(row)
        title = row.get("cmdline") or row.get("process") or ""
        telling = (role_of_title(title) in ("worker", "engine"), len(title))
        if telling > (role_of_title(process.title) in ("worker", "engine"), len(process.title)):
            process.title = title
        process.comm = row.get("comm") or process.comm
        process.ppid = row.get("ppid") if row.get("ppid") is not None else process.ppid
    rank_pid = dict(evidence.log.rank_pids)
    for label, pid in evidence.log.label_pids.items():
        rank = global_rank(label, sizes)
        if rank is not None:
            rank_pid.setdefault(rank, pid)
    for process in processes.values():
        process.role = role_of(process)
        rank = rank_of_title(process.title or process.comm, sizes)
        if rank is not None and process.role != "helper":
            rank_pid.setdefault(rank, process.pid)
    for rank, pid in rank_pid.items():
        processes.setdefault(pid, Process(pid)).rank = rank
        if processes[pid].role in ("other", "engine"):
            processes[pid].role = "worker"
    world = world_size(evidence, sizes)
    for process in processes.values():
        parent = processes.get(process.ppid)
        zombie = process.states[-1:] == ["Z"]
        if zombie and process.role == "other" and parent is not None and parent.role in ("frontend", "engine"):
            process.role = "worker"  # a dead child has no title left
    if evidence.log.server == "vllm" and (world or 1) > 1 and not any(p.role == "engine" for p in processes.values()):
        for process in processes.values():  # V0: the front end is rank 0 itself
            if process.role == "frontend" and 0 not in rank_pid:
                process.rank, rank_pid[0] = 0, process.pid
    for row in evidence.collectives:
        managed = _MANAGED.search(row.get("text") or "")
        if managed and row.get("rank") is not None and int(managed.group(1)) in processes:
            rank_pid.setdefault(row["rank"], int(managed.group(1)))
    for rank, pid in rank_pid.items():
        if pid in processes and processes[pid].rank is None:
            processes[pid].rank = rank
    for pids in evidence.log.writers.values():
        if not rank_pid and world and 1 < len(pids) == world:  # Ray's workers speak first in the order of their ranks
            for rank, pid in enumerate(pids):
                processes.setdefault(pid, Process(pid)).rank, rank_pid[rank] = rank, pid
    if not any(process.role == "worker" for process in processes.values()):
        _alike(processes)
    _by_order(processes, rank_pid, world)
    if not rank_pid:
        _engines(processes, rank_pid, sizes, world)
    return Processes(processes, rank_pid, sizes, world or (len(rank_pid) if len(rank_pid) > 1 else None))


def _engines(processes: dict[int, Process], rank_pid: dict[int, int], sizes: dict[str, int], world: int | None) -> None:
    """Without workers the engines are the ranks (data parallel), or the one process of a server of one rank."""
    named = {rank: p for p in processes.values() if (rank := rank_of_engine(p.title)) is not None}
    if not named and (world or 1) == 1:
        single = next(
            (
                found
                for role in ("worker", "engine", "frontend", "other")
                if (found := [p for p in processes.values() if p.role == role])
            ),
            [],
        )
        named = {0: single[0]} if len(single) == 1 else {}
    for rank, process in named.items():
        process.rank, rank_pid[rank] = rank, process.pid


def rank_of_engine(title: str) -> int | None:
    """Data-parallel rank that an engine's title names.

    Examples
    --------
    >>> rank_of_engine("VLLM::EngineCore_DP1"), rank_of_engine("VLLM::EngineCore")
    (1, None)
    """
    found = re.search(r"EngineCore_DP(\d+)", title)
    return int(found.group(1)) if found else None


def _alike(processes: dict[int, Process]) -> None:
    """Take the largest group of processes with the same command line for the workers, as a training job starts them."""
    groups: dict[str, list[Process]] = {}
    for process in processes.values():
        if process.role == "other" and process.title and "download" not in process.title:
            groups.setdefault(process.title, []).append(process)
    largest = max(groups.values(), key=len, default=[])
    if len(largest) >= 2:
        for process in largest:
            process.role = "worker"


def _by_order(processes: dict[int, Process], rank_pid: dict[int, int], world: int | None) -> None:
    """Give the ranks that no name shows to the workers that no name places, in the order of their pids."""
    nameless = [p for _, p in sorted(processes.items()) if p.rank is None and p.role == "worker"]
    free = [rank for rank in range(world or len(nameless) + len(rank_pid)) if rank not in rank_pid]
    if nameless and not rank_pid and len(nameless) < len(free):
        first = nameless[0].pid  # equal workers are started one after the other: a gap in the pids is a missing rank
        if nameless[-1].pid - first < len(free) and len({process.title for process in nameless}) == 1:
            for process in nameless:
                process.rank = process.pid - first
                rank_pid[process.rank] = process.pid
        return
    if nameless and len(nameless) == len(free):
        for process, rank in zip(nameless, free, strict=True):
            process.rank, rank_pid[rank] = rank, process.pid


def role_of(process: Process) -> str:
    """Role of a process by its title: compiler, helper, worker, engine, frontend, other."""
    return role_of_title(process.title or process.comm)


def role_of_title(title: str) -> str:
    """Role that a title tells.

    Examples
    --------
    >>> [role_of_title(title) for title in ("sglang::scheduler_TP0", "/usr/bin/ptxas -v", "VLLM::APIServer", "bash")]
    ['worker', 'compiler', 'frontend', 'helper']
    """
    program = title.split(" ", 1)[0].rsplit("/", 1)[-1]
    if program in COMPILERS:
        return "compiler"
    if HELPERS.search(title):
        return "helper"
    for role, pattern in (("engine", ENGINES), ("frontend", FRONTENDS), ("worker", WORKERS)):
        if pattern.search(title):
            return role
    return "other"


def rank_of_title(title: str, sizes: dict[str, int]) -> int | None:
    """Global rank that a process title names.

    Examples
    --------
    >>> rank_of_title("sglang::scheduler_TP3", {"tp": 8}), rank_of_title("VLLM::EngineCore", {})
    (3, None)
    """
    found = _TITLE_RANK.search(title)
    if found:
        return global_rank(found.group(1).replace("_", " ").strip(), sizes)
    found = _TITLE_NUMBER.search(title)
    return int(found.group(1)) if found else None


def world_size(evidence: Evidence, sizes: dict[str, int]) -> int | None:
    """Number of ranks that the launch asked for: the largest of what arguments, NCCL and c10d say."""
    asked = [sizes["world_size"]] if "world_size" in sizes else []
    if {"tp", "pp", "dp"} & sizes.keys():
        # SGLang's and vLLM's DP attention shares the TP ranks; plain DP multiplies them. Seen ranks decide below.
        shared = sizes.get("dp_attention") or evidence.log.server == "trtllm"
        asked.append(sizes.get("tp", 1) * sizes.get("pp", 1) * (1 if shared else sizes.get("dp", 1)))
    if "nproc_per_node" in sizes:
        asked.append(sizes["nproc_per_node"] * sizes.get("nnodes", 1))
    for mark in evidence.log.marks:
        for key in ("nranks", "world_size"):
            if str(mark.fields.get(key, "")).isdigit():
                asked.append(int(mark.fields[key]))
    asked += [size] if (size := flight_recorder.world_size(evidence)) else []
    asked += [moments[-1].size for moments in counts(evidence).values() if moments[-1].ranks_at]
    ranks = evidence.log.ranks | {rank for label in evidence.log.labels if (rank := global_rank(label, sizes)) is not None}
    seen = [rank + 1 for rank in ranks] if len(ranks) > 1 else []
    return max(asked + seen, default=None)
