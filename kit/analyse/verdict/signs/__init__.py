"""The rules, a module for each subject; importing this package registers them all."""

from kit.analyse.verdict.signs import (  # noqa: F401
    calls,
    cluster,
    collectives,
    errors,
    exit,
    fabric,
    good_run,
    gpu,
    hardware,
    kernel,
    locks,
    output,
    peers,
    progress,
    ranks,
    reporter,
    serving,
    stacks,
    threads,
    two_samples,
)
