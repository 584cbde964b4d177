"""Which GPUs the launch uses: by its environment, its command, or the processes that hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.processes import Processes
from kit.analyse.verdict.thresholds import thresholds
from kit.words import named

VISIBLE = re.compile(r"\b(?:CUDA|HIP|ROCR|NVIDIA|GPU|ASCEND_RT|HABANA)_(?:VISIBLE_DEVICES|DEVICE_ORDINAL)\b")
"""Environment variables that leave a process some GPUs only."""
_ONE = r"(?:\d+|GPU-[0-9a-fA-F-]+)"
_LIST = rf"{_ONE}(?:\s*,\s*{_ONE})*"
_GIVEN = re.compile(VISIBLE.pattern + rf"""=["']?(?P<env>{_LIST})|--gpus[ =]["']*device=(?P<docker>{_LIST})""")


@dataclass(frozen=True)
class Devices:
    """Numbers of the launch's GPUs, None where they are not known; what tells them; the number of each GPU by its bus."""

    used: set[int] | None = None
    source: str = ""
    buses: dict[tuple[int, ...], int] = field(default_factory=dict)

    def foreign(self, gpu: int | None) -> bool:
        """Whether it is a GPU that the launch does not use."""
        return self.used is not None and gpu is not None and gpu not in self.used

    def foreign_bus(self, bus_id: str | None) -> int | None:
        """Number of the GPU on a bus, where the launch does not use it; one that no tool lists may have been the launch's."""
        gpu = self.buses.get(_bus(bus_id)) if bus_id else None
        return gpu if self.foreign(gpu) else None


def _bus(text: str) -> tuple[int, ...]:
    """Domain, bus and device: `0000:47:00` is `00000000:47:00.0`.

    Examples
    --------
    >>> _bus("0000:47:00") == _bus("00000000:47:00.0") == _bus("47:00.0")
    True
    """
    parts = [int(part, 16) for part in re.findall(r"[0-9A-Fa-f]+", text.partition(".")[0])]
    return tuple([0, *parts][-3:])


def devices(evidence: Evidence, processes: Processes, pids: set[int]) -> Devices:
    """Find out, as far as the numbers are those of the tables that were printed and enough for all ranks."""
    shown = {row["gpu"] for row in evidence.gpus if row.get("gpu") is not None}
    if evidence.run.manifest.get("hosts"):
        return Devices()  # each host counts its own
    buses = {_bus(row["bus_id"]): row["gpu"] for row in evidence.gpus if row.get("bus_id")}
    nodes = processes.sizes.get("nnodes", 1)
    for source, used in [*_candidates(evidence, pids), ("by what is in their memory", _filled(evidence, processes))]:
        if used and used < shown and len(used) * nodes >= (processes.world_size or 1):
            return Devices(used, f"the launch has {named('GPU', sorted(used))} {source}", buses)
    return Devices()


def _filled(evidence: Evidence, processes: Processes) -> set[int]:
    """GPUs whose memory holds more than a driver's, where they are as many as the ranks of one node and the others are bare."""
    memory: dict[int, float] = {}
    for row in evidence.gpus:
        if row.get("gpu") is not None:
            memory[row["gpu"]] = max(memory.get(row["gpu"], 0.0), row.get("mem_used_mib") or 0.0)
    used = {gpu for gpu, mib in memory.items() if mib > thresholds(evidence.run.knowledge)["gpu_bare_mib"]}
    return used if len(used) == processes.world_size else set()


def _candidates(evidence: Evidence, pids: set[int]) -> list[tuple[str, set[int]]]:
    environ = [row for row in evidence.host if row["source"] == "environ" and VISIBLE.fullmatch(row.get("key") or "")]
    values = [row["value"] for row in environ if row.get("pid") in pids or row.get("pid") is None]
    launch = " ".join((evidence.run.manifest.get("launch") or {}).get("command") or ())
    given: set[str] = {
        found["env"] or found["docker"]
        for text in [launch, *(row["text"] for row in evidence.commands)]
        for found in _GIVEN.finditer(text)
    }
    by_environ = {gpu for value in values for gpu in _numbers(value, evidence)}
    by_command = _numbers(next(iter(given)), evidence) if len(given) == 1 else set()
    by_process = {row["gpu"] for row in evidence.gpu_processes if row.get("pid") in pids and row.get("gpu") is not None}
    return [("by its environment", by_environ), ("by its command", by_command), ("by the processes on it", by_process)]


def _numbers(listed: str, evidence: Evidence) -> set[int]:
    """Numbers of the GPUs of a list of numbers or UUIDs, whose first letters do; empty where one is not known."""
    known = {row["uuid"]: row["gpu"] for row in evidence.gpus if row.get("uuid")}
    found: set[int] = set()
    for word in (word.strip() for word in listed.split(",")):
        fitting = {int(word)} if word.isdecimal() else {gpu for uuid, gpu in known.items() if word and uuid.startswith(word)}
        if len(fitting) != 1:
            return set()
        found |= fitting
    return found
