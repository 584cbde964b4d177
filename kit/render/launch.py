"""What a report says of a launch beside the verdict: what was started, its flags and environment, since when it is silent."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.analyse.text_blocks import named
from kit.analyse.verdict.settings import COMMAND, ENVIRONMENT, PRINTED, VERSIONS, settings_of
from kit.clock import NS, show_duration, show_time
from kit.document import Block, Command, Section, Table, Values

if TYPE_CHECKING:
    from kit.analyse.verdict.verdict import Verdict

NOT_RECORDED = "[not recorded]"
PARALLEL = {"tp_size": "tensor", "pp_size": "pipeline", "dp_size": "data", "ep_size": "expert"}
"""Options that say how the ranks divide the model."""
LIVE = ("stalled", "unknown", "progressing")
"""States in which a silence says something."""


@dataclass(frozen=True)
class Quiet:
    """How long nothing advanced, since when on the host's clock, and the last record that showed progress."""

    duration: str
    since: str
    file: str = ""
    line: int | None = None
    from_s: float | None = None


@dataclass
class About:
    """What was launched: `short` for the first screen, the rest for the section on environment and flags."""

    short: dict[str, str]
    command: str = ""
    flags: list[tuple[str, str]] = field(default_factory=list)
    environment: list[tuple[str, str]] = field(default_factory=list)
    unrecorded: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    printed: list[tuple[str, str]] = field(default_factory=list)

    def sections(self) -> list[Section]:
        """Environment and flags as sections of a document."""
        blocks: list[Block] = [Values(self.short | self.versions)]
        blocks += [Command(self.command, "as it was started")] if self.command else []
        blocks += [Table(("flag", "value"), self.flags)] if self.flags else []
        if self.environment:
            more = f"; {self.unrecorded} more variables are set whose values were not recorded" if self.unrecorded else ""
            blocks.append(Table(("variable", "value"), self.environment, caption=f"Environment of the launch{more}"))
        return [Section("environment and flags", blocks)]


def about(verdict: Verdict) -> About:
    """What is known of a launch.

    Examples
    --------
    >>> import kit
    >>> about(kit.verdict(kit.sample("healthy-tp2"))).short["server"]
    'vllm 0.32.0'
    """
    evidence = verdict.scene.evidence
    found = settings_of(evidence)
    versions = {name: str(value) for name, value in found.of(VERSIONS).items()}
    variables = {name: str(value) for name, value in found.of(ENVIRONMENT).items()}
    typed = (evidence.run.manifest.get("launch") or {}).get("command") or []
    named = {name: _text(value) for name, value in found.of(COMMAND).items()}
    printed = {name: _text(value) for name, value in found.of(PRINTED).items()}
    return About(
        short=_short(verdict, found.server, found.options, versions),
        command=shlex.join(typed) if isinstance(typed, list) else str(typed),
        flags=sorted(named.items()),
        environment=sorted((name, value) for name, value in variables.items() if value != NOT_RECORDED),
        unrecorded=sum(value == NOT_RECORDED for value in variables.values()),
        versions={name: value for name, value in versions.items() if name not in ("server version", "GPU")},
        printed=sorted(item for item in printed.items() if item[0] not in named),
    )


def _text(value: object) -> str:
    """A value of an option as it is said."""
    return {"True": "on", "False": "off", "None": "not set"}.get(str(value), str(value))


def _short(verdict: Verdict, server: str | None, options: dict, versions: dict[str, str]) -> dict[str, str]:
    """What the first screen says: server, model, ranks, host, accelerator, when."""
    run, world = verdict.scene.evidence.run, verdict.facts.value("world_size")
    split = [f"{word} parallel {options[name]}" for name, word in PARALLEL.items() if str(options.get(name) or 1) != "1"]
    ranks = f"{world} ({', '.join(split)})" if split and world else str(world or "")
    zero, accelerator = run.launch_zero_ns, verdict.where.accelerator
    known = {
        "server": " ".join(filter(None, (server, versions.get("server version")))),
        "model": str(options.get("model") or options.get("model_path") or ""),
        "ranks": ranks,
        "host": _hosts(verdict),
        "GPU": versions.get("GPU") or {"cpu": "none, it runs on the CPU"}.get(str(accelerator), accelerator or ""),
        "port": str(verdict.facts.value("port") or ""),
        "launched": show_time(zero, run.offset_s) if zero is not None else "",
        "evidence": f"as of {verdict.captured_at} ({verdict.captured_by}){'' if run.offset_known else ', time zone not known'}",
    }
    return {name: value for name, value in known.items() if value}


def _hosts(verdict: Verdict) -> str:
    """Names of the hosts in the evidence, else where it was recorded from."""
    run = verdict.scene.evidence.run
    names = sorted({str(row["host_name"]) for row in verdict.scene.evidence.processes if row.get("host_name")})
    return named(names, 3) or {"files": ""}.get(str(run.manifest.get("target") or "files"), str(run.manifest.get("target")))


def quiet(verdict: Verdict) -> Quiet | None:
    """Since when nothing advances; None where that is not known, or says nothing since the launch is ready or over.

    Examples
    --------
    >>> import kit
    >>> found = quiet(kit.verdict(kit.sample("sg01-capture-hang")))
    >>> found.duration, found.since, found.file, found.line
    ('1 h 42 min', '2026-02-18 00:29:07', 'raw/server.log', 226)
    """
    run, silence = verdict.scene.evidence.run, verdict.facts.value("silence_s")
    if silence is None or silence < 1 or verdict.state not in LIVE or run.captured_ns is None:
        return None
    at = run.captured_ns - int(silence * NS)
    where = next(iter(verdict.facts.refs("silence_s")), {})
    zero = run.launch_zero_ns
    return Quiet(
        show_duration(silence),
        show_time(at, run.offset_s),
        str(where.get("capture") or ""),
        where.get("line"),
        (at - zero) / NS if zero is not None else None,
    )
