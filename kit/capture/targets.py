"""Hosts by the name that the user gives them."""

from __future__ import annotations

import sys

from kit.capture.host import Host, LocalHost
from kit.errors import EvidenceError, UsageError


def open_host(target: str) -> Host:
    """The host of a target, not yet connected.

    Parameters
    ----------
    target : str
        `local`, this machine (Linux).

    Raises
    ------
    UsageError
        Where the target is another.
    EvidenceError
        Where this machine is no Linux.

    Examples
    --------
    >>> open_host("local").name
    'local'
    """
    if target != "local":
        raise UsageError(
            f"cannot collect from {target}",
            "this version records on this machine only",
            "copy the files and use: kit verdict FOLDER",
        )
    if not sys.platform.startswith("linux"):
        raise EvidenceError(
            "cannot record here", "local recording reads /proc, which only Linux has", "run it on the host of the server"
        )
    return LocalHost()
