"""Signs that a launch which worked gives: settings, lines, milestones, pace."""

from __future__ import annotations

from tests.analyse.verdict.scenes import error, line, shown


def begun(backend: str = "triton", weights_at: float = 10) -> list:
    """A launch that has begun to read its weights."""
    arguments = line("args", phase="launch", at=0, attention_backend=backend, model="m", server="sglang")
    return [arguments, line("weights_begin", "Load weight begin", phase="weights", at=weights_at, server="sglang")]


GOOD = (
    *begun(),
    line("harmless", "cannot use FA version 2 on device 0", kind="symptom", at=20),
    line("weights_end", "Load weight end. took 39 s", phase="post_load", at=600),
    line("ready", "fired up", phase="ready", at=700),
)

TABLE = [
    shown("settings_changed", *begun("flashinfer"), unlike=begun(), good=GOOD),
    shown(
        "lines_new",
        *(*begun(), error("exception", "ValueError: no such file")),
        unlike=[*begun(), line("harmless", "cannot use FA version 2 on device 7", kind="symptom")],
        good=GOOD,
    ),
    shown(
        "milestone_missing",
        *begun(),
        unlike=[*begun(), line("weights_end", phase="post_load", at=50), line("ready", phase="ready", at=60)],
        good=GOOD,
    ),
    shown("beyond_good_pace", *begun(weights_at=10), unlike=begun(weights_at=3300), good=GOOD),
    shown("within_good_pace", *begun(weights_at=3300), unlike=begun(weights_at=10), good=GOOD),
]
