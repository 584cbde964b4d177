"""`kit.collect`: record the evidence of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kit.capture.find import FIND_S, find_launch
from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.manifest import make_folder
from kit.capture.options import Connection, Options, takes
from kit.capture.plan import SAMPLER_PRICE
from kit.capture.recording import Recording
from kit.capture.together import collect_together, one_each
from kit.capture.waiting import CLOCK, Clock
from kit.tool_table import table


@takes(options=Options, connection=Connection)
def collect(
    *targets: str,
    out: str | Path,
    pid: int | Sequence[int] | None = None,
    log: str | Path | Sequence[str | Path] | None = None,
    port: int | Sequence[int] | None = None,
    name: str | Sequence[str] | None = None,
    options: Options,
    connection: Connection,
    progress: Callable[[str], None] = print,
    until: Callable[[], bool] | None = None,
) -> Path:
    """Record the evidence of a running launch into a run folder.

    Parameters
    ----------
    *targets : str
        Where it runs: `local`, this machine, or `ssh://[user@]host[:port]`; this machine where none is named. Of several
        hosts each is recorded into a folder of its own; together they open as one run.
    out : str or path
        Folder to make.
    pid, log, port, name : int, path, int, str, optional
        The launched process, its log, its port on that host, a word of its command line; any one is enough, the rest is
        discovered. For several hosts one for all, or a list with one for each.
    {fields}
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
        Where the target cannot be read, nothing names the launch, or a time is out of range.
    EvidenceError
        Where the host cannot be reached, there is no such process, the folder cannot be made, or the disk filled up
        (what was recorded before is kept).

    Examples
    --------
    >>> collect("local", out="run")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kit.errors.UsageError: nothing to record: no process, log or port was given. Name one: kit collect local ...
    """
    hosts = [open_host(target, connection=connection) for target in targets or ("local",)]
    return collect_from(hosts, Path(out), options, pid, log, port, progress, until, name)


def collect_from(
    hosts: Sequence[Host],
    out: Path,
    options: Options,
    pid: int | Sequence[int] | None = None,
    log: str | Path | Sequence[str | Path] | None = None,
    port: int | Sequence[int] | None = None,
    progress: Callable[[str], None] = lambda text: None,
    until: Callable[[], bool] | None = None,
    name: str | Sequence[str] | None = None,
    clock: Clock = CLOCK,
) -> Path:
    """The same from hosts that are not yet connected; see `collect`."""
    count = len(hosts)
    logs = [str(path) if path is not None else None for path in one_each(log, count, "log")]
    each = one_each(pid, count, "pid"), logs, one_each(port, count, "port"), one_each(name, count, "name")
    launches = list(zip(*each, strict=True))
    progress(SAMPLER_PRICE)
    for tool in table().tools.values():
        if tool.allow and tool.option and getattr(options, tool.option):
            progress(tool.price)
    if count > 1:
        return collect_together(hosts, out, options, launches, progress, until)
    with hosts[0] as host:
        with host.within(FIND_S):
            launch = find_launch(host, *launches[0])
        for remark in launch.remarks:
            progress(remark)
        make_folder(out)
        return Recording(host, out, launch, options, progress, until, clock).record()
