"""Targets as users write them: `local`, `ssh://[user@]host[:port]`."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Any

from kit.capture.hosts.host import Host
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.options import Connection, takes
from kit.errors import UsageError
from kit.untrusted import visible


@takes(connection=Connection)
def open_host(target: str | Host, *, connection: Connection) -> Host:
    """The host of a target, not yet connected: use it in `with`, or call its `connect`.

    Parameters
    ----------
    target : str
        `local`, or `ssh://[user@]host[:port]`; an IPv6 address stands in brackets; a host may be an alias of ~/.ssh/config.
        A host is given back as it is.
    {fields}

    Examples
    --------
    >>> with open_host("local") as host:
    ...     host.run(["echo", "here"], 5).text
    'here\\n'
    """
    if isinstance(target, Host):
        return target
    if target == "local":
        return LocalHost()
    if not target.startswith("ssh://"):
        why, do = "a target is this machine or a host over SSH", "write local or ssh://[user@]host[:port]"
        raise UsageError(f"unknown target {target!r}", why, do)
    from kit.capture.hosts.ssh_settings import SshConfig, parse_address

    address = parse_address(target.removeprefix("ssh://").removesuffix("/"))
    ask, say = connection.ask or getpass, connection.say or (lambda line: print(visible(line), file=sys.stderr))
    config, known_hosts = (Path(path) if path else None for path in (connection.config, connection.known_hosts))
    how: dict[str, Any] = {
        "ask": ask,
        "say": say,
        "known_hosts": known_hosts,
        "accept_new": connection.accept_new,
        "sudo": connection.sudo,
    }
    if connection.transport == "openssh":
        from kit.capture.hosts.openssh import OpenSshHost

        return OpenSshHost(target, address, config=config, **how)
    from kit.capture.hosts.ssh import SshHost

    return SshHost(target, address, SshConfig(config), **how)
