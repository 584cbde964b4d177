"""Options of `kit triage` and `kit guard`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kit.capture.options import duration, option
from kit.errors import UsageError
from kit.tool_table import table

SURE = 0.998
"""That much is one more test away from the belief at which a class is named sure: a test costs seconds, a wrong end hours."""
REQUEST = "request"
"""Word of `--allow` for the one real request where the owner of the port cannot be told."""
QUIET_S = {None: 60.0, "post_load": 120.0, "compile": 180.0, "graph_capture": 120.0, "warmup": 120.0}
"""Seconds without any sign of progress after which a phase counts as quiet. Compilation is silent for 95 s on two cores."""


@dataclass(frozen=True)
class TriageOptions:
    """What a triage may do."""

    limit_s: float = option(60.0, "time limit, in seconds or as 30s, 2m (default 60s)", "for", metavar="TIME")
    allow: Collection[str] = option(
        (),
        "tools that may slow the launch, separated by commas: py-spy,gdb,strace; request: one real request to a port whose owner "
        "cannot be told",
        metavar="LIST",
    )
    sure: float = option(
        SURE, "share of belief that ends the search, where two judgements in a row agree (default 0.998)", type=float, metavar="P"
    )

    def __post_init__(self) -> None:
        if isinstance(self.limit_s, str):
            object.__setattr__(self, "limit_s", duration(self.limit_s))
        if isinstance(self.allow, str):
            object.__setattr__(self, "allow", [word for word in self.allow.replace(" ", "").split(",") if word])
        known = sorted({*table().allowed(), REQUEST})
        if unknown := sorted(set(self.allow) - set(known)):
            raise UsageError(
                f"{', '.join(unknown)} cannot be allowed", "no test uses it", f"choose from: --allow {','.join(known)}"
            )
        if not 5 <= self.limit_s <= 3600:
            raise UsageError(
                f"invalid time limit {self.limit_s:g} s", "--for must be between 5 s and 1 h", "for example: --for 60s"
            )


@dataclass(frozen=True)
class GuardOptions:
    """What a guard does."""

    quiet_s: float | None = option(
        None,
        "time without progress after which to capture (default 60s; 2m after the weights and in warm-up, 3m in compilation)",
        "quiet-after",
        metavar="TIME",
    )
    then: str = option("go-on", "what to do with a launch that is found stalled (default go-on)", choices=("go-on", "end"))
    limit_s: float = option(
        86400.0,
        "longest time to record (default 24h); the output is passed on for as long as the launch lives",
        "for",
        metavar="TIME",
    )
    no_stacks: bool = option(False, "take no Python stacks of a quiet launch")
    no_strace: bool = option(False, "take no strace (4 s) of a quiet launch")
    allow: str = option("", "gdb: C stacks where py-spy is missing; stops the launch for some seconds", metavar="LIST")

    def __post_init__(self) -> None:
        for name in ("quiet_s", "limit_s"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, duration(getattr(self, name)))
        if unknown := sorted({word for word in self.allow.replace(" ", "").split(",") if word} - {"gdb"}):
            raise UsageError(f"{', '.join(unknown)} cannot be allowed", "no capture uses it", "choose from: --allow gdb")

    def patience_s(self, phase: str | None) -> float:
        """Seconds of quiet to wait for in a phase.

        Examples
        --------
        >>> GuardOptions().patience_s("compile"), GuardOptions(quiet_s=5).patience_s("compile")
        (180.0, 5)
        """
        return self.quiet_s if self.quiet_s is not None else QUIET_S.get(phase, QUIET_S[None])
