"""`kit.collect`: record the evidence of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kit.capture.find import find_launch
from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.manifest import make_folder
from kit.capture.recording import Options, Recording
from kit.capture.together import collect_together, one_each
from kit.capture.tools import commands as tools


def collect(
    *targets: str,
    out: str | Path,
    pid: int | Sequence[int] | None = None,
    log: str | Path | Sequence[str | Path] | None = None,
    port: int | Sequence[int] | None = None,
    duration_s: float = 30.0,
    interval_s: float = 1.0,
    strace_s: float | None = None,
    strace_pid: int | None = None,
    py_spy: bool = False,
    gdb: bool = False,
    smaps_rollup: bool = False,
    probe_generate: bool = False,
    transport: str = "paramiko",
    accept_new: bool = False,
    sudo: bool = False,
    progress: Callable[[str], None] = print,
    until: Callable[[], bool] | None = None,
) -> Path:
    """Record the evidence of a running launch into a run folder.

    Parameters
    ----------
    *targets : str
        Where it runs: `local`, this machine (Linux), or `ssh://[user@]host[:port]`; this machine where none is named. Of several
        hosts each is recorded into a folder of its own; together they open as one run.
    out : str or path
        Folder to make.
    pid, log, port : int, path, int, optional
        The launched process, its log, its port on that host; one of them suffices, the others are found where they can be. For
        several hosts one for all, or a list with one for each.
    duration_s, interval_s : float
        How long to record, and the time between samples, in seconds.
    strace_s : float, optional
        Trace system calls for so many seconds: slows the launch while it lasts. Off by default.
    strace_pid : int, optional
        Trace this process only.
    py_spy, gdb : bool
        Dump Python stacks, C stacks at the beginning and at the end. Off by default.
    smaps_rollup : bool
        Read whose the memory is at the beginning. Off by default, for it takes long where memory is large.
    probe_generate : bool
        Ask the server for one token at the end. Off by default.
    transport : str
        `paramiko`, or `openssh` for what only the `ssh` program does.
    accept_new : bool
        Take the key of a host that is not known yet; its fingerprint is shown.
    sudo : bool
        Run everything there as root.
    progress : callable
        Receives progress messages.
    until : callable, optional
        Ends the recording early when it returns true; asked about five times a second.

    Returns
    -------
    pathlib.Path
        The run; `kit.open_run` opens it. What could not be recorded is listed in its manifest under `missing`.

    Raises
    ------
    UsageError
        Where the target cannot be read, nothing names the launch, or a number makes no sense.
    EvidenceError
        Where the host cannot be reached, there is no such process, or the folder cannot be made.

    Examples
    --------
    >>> collect("local", out="run")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kit.errors.UsageError: nothing to record: neither a process nor a log nor a port is given. Say which: kit collect local ...
    """
    options = Options(duration_s, interval_s, strace_s, strace_pid, py_spy, gdb, smaps_rollup, probe_generate)
    hosts = [open_host(target, transport=transport, accept_new=accept_new, sudo=sudo) for target in targets or ("local",)]
    return collect_from(hosts, Path(out), options, pid, log, port, progress, until)


def collect_from(
    hosts: Sequence[Host],
    out: Path,
    options: Options,
    pid: int | Sequence[int] | None = None,
    log: str | Path | Sequence[str | Path] | None = None,
    port: int | Sequence[int] | None = None,
    progress: Callable[[str], None] = lambda text: None,
    until: Callable[[], bool] | None = None,
) -> Path:
    """The same from hosts that are not yet connected; see `collect`."""
    count = len(hosts)
    logs = [str(path) if path is not None else None for path in one_each(log, count, "log")]
    launches = list(zip(one_each(pid, count, "pid"), logs, one_each(port, count, "port"), strict=True))
    for price in _prices(options):
        progress(price)
    if count > 1:
        return collect_together(hosts, out, options, launches, progress, until)
    with hosts[0] as host:
        launch = find_launch(host, *launches[0])
        for said in launch.said:
            progress(said)
        make_folder(out)
        return Recording(host, out, launch, options, progress, until).record()


def _prices(options: Options) -> list[str]:
    """What the recording costs the launch."""
    prices = [tools.SAMPLER_PRICE]
    if options.strace_s:
        prices.append(f"{tools.STRACE_PRICE}; for {options.strace_s:g} s")
    return prices + [tools.PYSPY_PRICE] * options.py_spy + [tools.GDB_PRICE] * options.gdb
