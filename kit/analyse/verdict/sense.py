"""Checks of sense: a value that cannot be is a wrong reading, and is left out before anybody prints it or computes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.analyse.verdict import orchestrator_ends
from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.processes import Processes, argument_fields
from kit.clock import NS, show_duration

_INTERNAL = ("master_port", "nccl_port", "rdzv_port", "dist_port", "data_parallel_rpc_port", "disaggregation_bootstrap_port")
_ADDRESSES = ("dist_init_addr", "nccl_init_addr", "rdzv_endpoint", "master_addr", "data_parallel_address")
_RANKS = ("ranks_dead", "lagging_ranks")
_DONE = ("weights_done", "graph_done", "jit_done", "download_done")
Check = Callable[[Any, Evidence, Processes, Mapping[str, float]], str | None]


def doubt(name: str, value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    """Why a fact cannot be, None where it can."""
    check = CHECKS.get(name)
    return check(value, evidence, processes, limits) if check else None


def internal_ports(evidence: Evidence) -> dict[int, str]:
    """Ports of the launch's store and rendezvous, which nobody else asks, with the argument that names each."""
    found: dict[int, str] = {}
    for fields in argument_fields(evidence):
        for name in _INTERNAL:
            if str(fields.get(name, "")).isdecimal():
                found[int(fields[name])] = name
        for name in _ADDRESSES:
            port = str(fields.get(name) or "").rpartition(":")[2]
            if port.isdecimal():
                found[int(port)] = name
    return found


def _step(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    most = limits["most_steps"]
    return f"beyond {most:,.0f}: a job's or a process's number, no step" if value > most else None


def _restarts(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    most, told = limits["most_restarts"], orchestrator_ends.restarts(evidence)
    if told and told[0] == value:
        return None
    return f"more than {most:g} in one log: each worker printed the first line for itself" if value > most else None


def _silence(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    began, now = evidence.log.first_time, evidence.run.captured_ns
    if began is None or now is None:
        return None
    lasted = (now - began) / NS
    return f"longer than the launch, which began {show_duration(lasted)} before the capture" if value > lasted + 1 else None


def _port(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    if not 0 < value < 65536:
        return "not a port's number"
    own = internal_ports(evidence).get(value)
    return f"that of {own}: it belongs to the launch's own store, no client asks it" if own else None


def _ranks(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    size = processes.world_size
    beyond = [rank for rank in value if size is not None and rank >= size and rank not in processes.rank_pid]
    return f"the launch has {size} ranks, and {beyond[0]} is none of them" if beyond else None


def _done(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    return "more than all of it" if value[0] > value[1] else None


def _percent(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    return None if 0 <= value <= 100 else "not a share"


def _seconds(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    least = min(value) if isinstance(value, list) else value
    return "below zero: a time that had not come at the capture" if least < 0 else None


def _status(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    return None if 100 <= value < 600 else "not a status of HTTP"


def _signal(value: Any, evidence: Evidence, processes: Processes, limits: Mapping[str, float]) -> str | None:
    return None if 0 < value <= limits["most_signals"] else "not a signal of Linux"


CHECKS: dict[str, Check] = {
    "step": _step,
    "restarts": _restarts,
    "silence_s": _silence,
    "port": _port,
    "gpu_util": _percent,
    "health_http": _status,
    "signal": _signal,
    **dict.fromkeys(_RANKS, _ranks),
    **dict.fromkeys(_DONE, _done),
    **dict.fromkeys(("weights_s", "graph_s", "weights_elapsed_s", "eta_s", "eta_range_s", "s_per_shard"), _seconds),
}
"""The check of each fact; the numbers that somebody chose stand in thresholds.toml."""
