"""Facts: named, typed values with their evidence. Names and meanings are those of docs/facts.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kit.analyse.verdict import facts_log, facts_process, reporter
from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.phases import Progression
from kit.analyse.verdict.processes import Processes
from kit.analyse.verdict.sense import doubt
from kit.analyse.verdict.thresholds import thresholds


@dataclass
class Fact:
    """One fact."""

    name: str
    value: Any  # None: the evidence has nothing to say
    refs: list[dict] = field(default_factory=list)  # evidence: `capture`, `line`, `text`


class Facts(dict):
    """Facts by name; `facts.value("port")` is None for an absent one. `doubted` are those that cannot be, with the reason."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.doubted: list[tuple[Fact, str]] = []

    def value(self, name: str) -> Any:
        """Value of a fact, None where it is absent."""
        fact = self.get(name)
        return fact.value if fact else None

    def refs(self, *names: str) -> list[dict]:
        """Evidence of some facts, one after the other."""
        return [found for name in names if name in self for found in self[name].refs]


NAMES = tuple(
    """
    log_lines last_line ready exited signal restarts heartbeats silence_s first_error weights_done graph_done jit_done
    download_done weights_s graph_s weights_elapsed_s s_per_shard eta_s eta_range_s port port_listening port_owner_pid
    health_http generate_works log_deleted ranks_dead killed_pids lagging_ranks ranks_same_place ranks_same_seq world_size seq
    timeout_ms timeout_s peer op state threads fds rss_kb rss_anon_kb rss_file_kb rss_shmem_kb d_state_pids wchan blocked_fd
    lock_path lock_holder compilers_running gpu_util gpu_mem_mib_max xids pyspy_failed step
    """.split()
)
"""All facts; docs/facts.md says what they mean."""

Given = tuple[Any, list[dict]]
Maker = Callable[[Evidence, Processes, Progression], dict[str, Given]]

MAKERS: tuple[Maker, ...] = (
    facts_log.lines,
    facts_log.bars,
    facts_log.silence,
    facts_log.life,
    facts_log.training,
    facts_log.errors,
    facts_log.collective,
    facts_log.waited,
    facts_process.endpoint,
    facts_process.process,
    facts_process.dead,
    facts_process.blocked,
    facts_process.locks,
    facts_process.gpus,
    facts_process.stacks,
    facts_process.lagging,
    reporter.facts,
)
"""Each gives some facts as name to (value, evidence)."""


def derive(evidence: Evidence, processes: Processes, found: Progression) -> Facts:
    """Derive all facts.

    Returns facts whose value is known; absent ones have nothing to say.
    """
    facts, limits = Facts(), thresholds(evidence.run.knowledge)
    for maker in MAKERS:
        for name, (value, refs) in maker(evidence, processes, found).items():
            if value is None or name in facts:
                continue
            if why := doubt(name, value, evidence, processes, limits):
                facts.doubted.append((Fact(name, value, refs), why))
            else:
                facts[name] = Fact(name, value, refs)
    return facts
