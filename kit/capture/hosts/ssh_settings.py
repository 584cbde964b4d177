"""What `ssh://user@host:port` and the user's ssh configuration say about a connection."""

from __future__ import annotations

import getpass
import glob
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from kit.errors import UsageError

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
KEY_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa")
INCLUDE_DEPTH = 16
"""As OpenSSH's own limit."""
_ADDRESS = re.compile(r"(?:(?P<user>[^@/]*)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:/@\[\]\s]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    """A host as somebody named it: user and port may be left to the configuration."""

    host: str
    user: str | None = None
    port: int | None = None


def parse_address(text: str) -> Address:
    """Read `[user@]host[:port]`; an IPv6 address stands in brackets.

    Examples
    --------
    >>> parse_address("me@[::1]:2222")
    Address(host='::1', user='me', port=2222)
    >>> parse_address("gpu7")
    Address(host='gpu7', user=None, port=None)
    """
    if ":" in text.rpartition("@")[0]:
        raise UsageError(
            "a password must not be part of a target",
            "it would stay in the shell's history and in the list of processes",
            "leave it out: ssh://user@host; it is asked for where the host wants one",
        )
    match = _ADDRESS.fullmatch(text)
    if not match or match["user"] == "" or text.startswith("-") or (match["host"] or "").startswith("-"):
        raise UsageError(f"invalid host address {text!r}", "expected [user@]host[:port]", "write ssh://[user@]host[:port]")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65_536:
        raise UsageError(f"invalid port {port}", "ports range from 1 to 65535", "write ssh://[user@]host[:port]")
    return Address(match["six"] or match["host"], match["user"], port)


@dataclass
class Settings:
    """How one host is reached."""

    host: str
    port: int
    user: str
    label_host: str = ""  # name in known_hosts (HostKeyAlias, else the host)
    keys: list[Path] = field(default_factory=list)  # IdentityFile, or the usual names where there is none
    keys_only: bool = False  # IdentitiesOnly: from the agent only the keys of `keys`
    agent: str | None = None  # socket of the agent
    jumps: list[Address] = field(default_factory=list)  # ProxyJump, first hop first
    proxy_command: str | None = None
    known_hosts: list[Path] = field(default_factory=list)  # the user's file first


class SshConfig:
    """The user's and the system's ssh configuration, with Include read in and without `Match exec`."""

    def __init__(self, path: Path | None = None):
        self.notes: list[str] = []
        paths = [path] if path else [Path.home() / ".ssh" / "config", SYSTEM_CONFIG]
        self._text = "\n".join(line for one in paths for line in self._lines(one, 0))

    def _lines(self, path: Path, depth: int) -> list[str]:
        """Lines of a file and of what it includes. A file begins for all hosts; what follows an Include is for those before."""
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            return []
        found, block, skipping = ["Host *"], "Host *", False
        for line in text.splitlines():
            word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
            word, rest = word.lower(), rest.strip()
            if word in ("host", "match"):
                skipping = word == "match" and bool(re.search(r"(^|\s)!?exec\s", rest))
                block = line
                if skipping:
                    self.notes.append(f"a block 'Match exec' of {path} is left out: it would run a program here")
            if skipping:
                continue
            if word == "include" and depth < INCLUDE_DEPTH:
                found += self._include(rest, block, depth)
            else:
                found.append(line)
        return found

    def _include(self, patterns: str, block: str, depth: int) -> list[str]:
        if block.strip().lower() != "host *":
            self.notes.append(f"Include {patterns} within '{block.strip()}' is left out: only those for all hosts are read")
            return []
        lines = []
        for pattern in patterns.split():
            where = Path(pattern.strip('"')).expanduser()
            where = where if where.is_absolute() else Path.home() / ".ssh" / where
            lines += [line for path in sorted(glob.glob(str(where))) for line in self._lines(Path(path), depth + 1)]
        return [*lines, block]

    def settings(self, address: Address, known_hosts: Path | None = None) -> Settings:
        """What holds for a host; what the address says goes first."""
        import paramiko

        # What the address says comes first, so that it wins, also where %p and %r stand in other values.
        given = f"Host *\n{f'Port {address.port}' if address.port else ''}\n{f'User {address.user}' if address.user else ''}\n"
        found = paramiko.SSHConfig.from_text(given + self._text).lookup(address.host)
        user_files = found.get("userknownhostsfile", "~/.ssh/known_hosts").split()
        keys = [Path(name).expanduser() for name in found.get("identityfile", [])]
        jump = found.get("proxyjump", "none")
        command = found.get("proxycommand", "none")
        host = found.get("hostname", address.host)
        return Settings(
            host=host,
            port=int(found.get("port", 22)),
            user=found.get("user") or getpass.getuser(),
            label_host=found.get("hostkeyalias", ""),
            keys=keys or [Path.home() / ".ssh" / name for name in KEY_NAMES],
            keys_only=found.get("identitiesonly", "no").lower() == "yes",
            agent=_agent(found.get("identityagent", "SSH_AUTH_SOCK")),
            jumps=[] if jump.lower() == "none" else [parse_address(hop.removeprefix("ssh://")) for hop in jump.split(",")],
            proxy_command=None if command.lower() == "none" else command,
            known_hosts=[known_hosts] if known_hosts else [*(Path(name).expanduser() for name in user_files), SYSTEM_KNOWN_HOSTS],
        )


def _agent(name: str) -> str | None:
    """Socket of the agent that IdentityAgent names."""
    if name.lower() == "none":
        return None
    if name == "SSH_AUTH_SOCK" or name.startswith("$"):
        return os.environ.get(name.strip("${}"))
    return str(Path(name.strip('"')).expanduser())
