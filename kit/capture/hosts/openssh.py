"""Hosts over SSH by the `ssh` program: for keys on tokens, GSSAPI, `Match exec`, old algorithms, and whatever else it can do.

One connection is made by a first `ssh` (ControlMaster) whose socket lies in a private folder here; every program is then a
session over it. Whatever ssh has to ask is asked of an agent or a token: it is started without a terminal.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kit.capture.hosts.host import HostLost, Stream
from kit.capture.hosts.known_hosts import HostKeyError
from kit.capture.hosts.remote import RemoteHost
from kit.capture.hosts.ssh_settings import Address
from kit.capture.hosts.this_machine import LocalStream
from kit.errors import EvidenceError, UsageError

CONNECT_S = 15
ALIVE_S, ALIVE_MOST = 5, 3
"""ssh ends a connection that leaves so many questions, so many seconds apart, without an answer."""
WHOLE_S = 60.0
"""Most that a first connection may take, hops and touching a token included."""
LOST_CODE = 255
"""Exit code of ssh for a trouble of its own."""
POLL_S = 0.02
_CHATTER = ("debug1:", "OpenSSH_", "Authenticated to", "Authenticating to", "Warning: Permanently", "Transferred:", "Bytes per")
_SHOWN = re.compile(r"Server host key: (\S+) (SHA256:\S+)")


class SessionStream(LocalStream):
    """A program on the host, by an `ssh` of its own over the common connection."""

    def read(self, timeout_s: float | None = None) -> bytes:
        piece = super().read(timeout_s)
        if not piece and self.wait(1.0) == LOST_CODE:
            raise HostLost("the connection is gone", self.errors.strip().split("\n")[-1] or "ssh ended", "connect again")
        return piece


class OpenSshHost(RemoteHost):
    """A host over SSH by the `ssh` program."""

    def __init__(
        self,
        name: str,
        address: Address,
        ask: Callable[[str], str],
        say: Callable[[str], None],
        config: Path | None = None,
        known_hosts: Path | None = None,
        accept_new: bool = False,
        sudo: bool = False,
    ):
        super().__init__(name, ask, sudo)
        self._address, self._say, self._accept_new = address, say, accept_new
        self._options = ["-F", str(config)] if config else []
        if known_hosts:
            self._options += ["-o", f"UserKnownHostsFile={known_hosts}"]
        self._folder: Path | None = None
        self._master: LocalStream | None = None

    def _command(self, *options: str) -> list[str]:
        port = ["-p", str(self._address.port)] if self._address.port else []
        user = ["-l", self._address.user] if self._address.user else []
        socket = ["-o", f"ControlPath={self._folder}/s"]
        return ["ssh", "-T", "-o", "BatchMode=yes", *options, *self._options, *port, *user, *socket, "--", self._address.host]

    def _dial(self) -> None:
        if shutil.which("ssh") is None:
            raise UsageError("ssh is not installed here", "--transport openssh runs it", "leave --transport out")
        self._folder = Path(tempfile.mkdtemp(prefix="kit-ssh-"))
        keys = "accept-new" if self._accept_new else "yes"
        options = [
            *("-v", "-N", "-o", "ControlMaster=yes", "-o", "ControlPersist=no"),
            *("-o", f"StrictHostKeyChecking={keys}", "-o", f"ConnectTimeout={CONNECT_S}"),
            *("-o", f"ServerAliveInterval={ALIVE_S}", "-o", f"ServerAliveCountMax={ALIVE_MOST}"),
        ]
        try:
            self._master = LocalStream(self._command(*options))
            deadline = time.monotonic() + WHOLE_S
            while not (self._folder / "s").exists():
                if self._master.wait(POLL_S) is not None:
                    raise self._refused(self._master.errors)
                if time.monotonic() > deadline:
                    why = f"no connection within {WHOLE_S:g} s"
                    raise HostLost(f"{self.name} cannot be reached", why, "try the same with: ssh -v")
        except BaseException:
            self._hang_up()
            raise
        said = self._master.errors
        if self._accept_new and "Permanently added" in said and (shown := _SHOWN.search(said)):
            self._say(f"{self.name} is new: its key {shown[1]} {shown[2]} was added to known_hosts")
        self.note("\n".join(line for line in said.split("\n") if line.strip() and not _is_chatter(line)))

    def _refused(self, said: str) -> EvidenceError:
        """What ssh said, as an error."""
        shown = _SHOWN.search(said)
        key = f"it shows {shown[1]} {shown[2]}" if shown else "it showed none"
        if "IDENTIFICATION HAS CHANGED" in said:
            why = f"{key}, not the known one: the host was reinstalled, or this is a possible man-in-the-middle"
            do = "ask its administrator for the fingerprint; if it is right: ssh-keygen -R with its name, then --accept-new"
            return HostKeyError(f"HOST KEY OF {self.name} HAS CHANGED", why, do)
        if "Host key verification failed" in said:
            do = "compare the fingerprint with one from a source that you trust, then repeat with --accept-new"
            return HostKeyError(f"the host key of {self.name} is not known", key, do)
        last = next((line.strip() for line in reversed(said.split("\n")) if line.strip() and not _is_chatter(line)), "ssh ended")
        if "Permission denied" in said:
            do = "load a key into the agent, or use the transport paramiko, which asks for passwords"
            return EvidenceError(f"authentication failed for {self.name}", last, do)
        return HostLost(f"{self.name} cannot be reached", last, "try the same with: ssh -v")

    def _hang_up(self) -> None:
        master, folder = self._master, self._folder
        self._master = self._folder = None
        if master is not None:
            master.stop()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _execute(self, line: str) -> Stream:
        if self._master is None or self._master.wait(0) is not None:
            raise HostLost(f"{self.name} is not connected", "it was closed or lost", "connect again")
        try:
            return SessionStream([*self._command("-o", "ControlMaster=no"), line])
        except (OSError, subprocess.SubprocessError) as error:
            raise HostLost("ssh cannot be started", str(error), "install OpenSSH") from error


def _is_chatter(line: str) -> bool:
    """Whether a line is ssh's own talk under -v, not the host's."""
    return line.startswith(_CHATTER)
