"""Targets as users write them: `local`, `ssh://[user@]host[:port]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from getpass import getpass
from pathlib import Path

from kit.capture.hosts.host import Host
from kit.capture.hosts.this_machine import LocalHost
from kit.errors import EvidenceError, UsageError

TRANSPORTS = ("paramiko", "openssh")


def open_host(
    target: str,
    *,
    transport: str = "paramiko",
    accept_new: bool = False,
    ask: Callable[[str], str] = getpass,
    say: Callable[[str], None] | None = None,
    sudo: bool = False,
    config: str | Path | None = None,
    known_hosts: str | Path | None = None,
) -> Host:
    """The host of a target, not yet connected: use it in `with`, or call its `connect`.

    Parameters
    ----------
    target : str
        `local`, or `ssh://[user@]host[:port]`; an IPv6 address stands in brackets; a host may be an alias of ~/.ssh/config.
    transport : str
        `paramiko`, or `openssh` for what paramiko does not do: keys on tokens, GSSAPI, `Match exec`, old algorithms.
    accept_new : bool
        Take the key of a host of which nothing is known yet: it is written to the user's known_hosts and shown by `say`.
    ask : callable
        Asks for a password or passphrase with its argument as the prompt. They are never taken from a target or an option.
    say : callable or None
        Shows a line to the user; standard error by default.
    sudo : bool
        Start everything on the host as root.
    config, known_hosts : path or None
        Instead of the user's and the system's.

    Raises
    ------
    UsageError
        Where the target or the transport is none of these, or holds a password.
    EvidenceError
        Where the target is this machine, and it is no Linux.

    Examples
    --------
    >>> with open_host("local") as host:
    ...     host.run(["echo", "here"], 5).text
    'here\\n'
    """
    if transport not in TRANSPORTS:
        names = " and ".join(TRANSPORTS)
        raise UsageError(f"unknown transport {transport!r}", f"choose {names}", "leave it out for the default, paramiko")
    if target == "local":
        if not sys.platform.startswith("linux"):
            why, do = "local recording reads /proc, which only Linux has", "run it on the host of the server"
            raise EvidenceError("cannot record here", why, do)
        return LocalHost()
    if not target.startswith("ssh://"):
        why, do = "a target is this machine or a host over SSH", "write local or ssh://[user@]host[:port]"
        raise UsageError(f"unknown target {target!r}", why, do)
    from kit.capture.hosts.ssh_settings import SshConfig, parse_address

    address = parse_address(target.removeprefix("ssh://").removesuffix("/"))
    say = say or (lambda line: print(line, file=sys.stderr))
    paths = [Path(path) if path else None for path in (config, known_hosts)]
    if transport == "openssh":
        from kit.capture.hosts.openssh import OpenSshHost

        return OpenSshHost(target, address, ask, say, *paths, accept_new=accept_new, sudo=sudo)
    from kit.capture.hosts.ssh import SshHost

    return SshHost(target, address, SshConfig(paths[0]), ask, say, paths[1], accept_new, sudo)
