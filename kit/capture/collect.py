"""`kit.collect`: record the evidence of a launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kit.capture import tools
from kit.capture.find import find_target
from kit.capture.manifest import make_folder
from kit.capture.recording import Options, Recording
from kit.capture.targets import open_host


def collect(
    target: str = "local",
    *,
    out: str | Path,
    pid: int | None = None,
    log: str | Path | None = None,
    port: int | None = None,
    duration_s: float = 30.0,
    interval_s: float = 1.0,
    strace_s: float | None = None,
    py_spy: bool = False,
    probe_generate: bool = False,
    progress: Callable[[str], None] = print,
    until: Callable[[], bool] | None = None,
) -> Path:
    """Record the evidence of a running launch into a run folder.

    Parameters
    ----------
    target : str
        Where it runs: `local`, this machine (Linux).
    out : str or path
        Folder to make.
    pid, log, port : int, path, int, optional
        The launched process, its log, its port; one of them suffices, the others are found where they can be.
    duration_s, interval_s : float
        How long to record, and the time between samples, in seconds.
    strace_s : float, optional
        Trace system calls for so many seconds: slows the launch while it lasts. Off by default.
    py_spy : bool
        Dump Python stacks at the beginning and at the end. Off by default.
    probe_generate : bool
        Ask the server for one token at the end. Off by default.
    progress : callable
        Is told in sentences what goes on.
    until : callable, optional
        Ends the recording early when it returns true; asked about five times a second.

    Returns
    -------
    pathlib.Path
        The run; `kit.open_run` opens it.

    Raises
    ------
    UsageError
        Where the target is another, or nothing names the launch.
    EvidenceError
        Where there is no such process, or the folder cannot be made.

    Examples
    --------
    >>> collect("gpu7", out="run")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kit.errors.UsageError: no target 'gpu7': a target is this machine or a host over SSH. Write local or ...
    """
    options = Options(duration_s, interval_s, strace_s, py_spy=py_spy, probe_generate=probe_generate)
    with open_host(target) as host:
        launch = find_target(host, pid, str(log) if log is not None else None, port)
        for said in [*launch.said, *_prices(options, launch.pid is not None)]:
            progress(said)
        folder = Path(out)
        make_folder(folder)
        return Recording(host, folder, launch, options, progress, until).record()


def _prices(options: Options, sampled: bool) -> list[str]:
    """What the recording costs the launch."""
    prices = [tools.SAMPLER_PRICE] if sampled else []
    if options.strace_s:
        prices.append(f"{tools.STRACE_PRICE}; for {options.strace_s:g} s")
    return prices + [tools.PYSPY_PRICE] * options.py_spy
