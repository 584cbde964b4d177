"""`kit.collect`: record the evidence of a launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kit.capture.local import collect_local
from kit.errors import UsageError


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
    >>> collect("ssh://host", out="run")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kit.errors.UsageError: cannot collect from ssh://host: this version records on this machine only. Copy the files ...
    """
    if target != "local":
        raise UsageError(
            f"cannot collect from {target}",
            "this version records on this machine only",
            "copy the files and use: kit verdict FOLDER",
        )
    return collect_local(
        pid, Path(log) if log else None, port, duration_s, interval_s, strace_s, py_spy, Path(out), progress, probe_generate
    )
