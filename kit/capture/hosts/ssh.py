"""Hosts over SSH by paramiko: no agent on the host, no program of the system here."""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from kit.capture.hosts.host import ANSWER_S, ERRORS_KEPT_BYTES, HostLost, Stream
from kit.capture.hosts.known_hosts import check_key, fingerprint, host_label, known_keys, remember_key, unknown_key
from kit.capture.hosts.remote import RemoteHost
from kit.capture.hosts.ssh_auth import Secrets, authenticate
from kit.capture.hosts.ssh_settings import Address, Settings, SshConfig
from kit.errors import UsageError
from kit.redact import scrub_text

CONNECT_S = 15.0
"""Time limit of each step of connecting: TCP, key exchange, login."""
KEEPALIVE_S = 15
"""Keeps the entry of a NAT alive. It notices no dead peer: reads have time limits for that."""
WINDOW_BYTES = 1 << 24
"""Bytes on the way at once. With paramiko's 2 MiB a way of 50 ms brings 25 MB/s, with this 72 (measured on one machine)."""
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""Preferred, for one pass does both encryption and authentication; paramiko itself would take them last."""
RECEIVE_BYTES = 1 << 18
MOST_DRAINED = 16
HOPS_MOST = 8

# Without a handler, Python would print paramiko's tracebacks; its errors reach the user as exceptions.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@contextmanager
def time_limit(transport: paramiko.Transport, seconds: float = ANSWER_S) -> Iterator[None]:
    """End a connection that blocks for too long: paramiko waits for some answers, and for room to send, without a limit."""
    timer = threading.Timer(seconds, transport.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ChannelStream(Stream):
    """A program at the other end of an SSH channel."""

    def __init__(self, channel: paramiko.Channel, name: str):
        self._channel, self._name, self._errors = channel, name, b""

    def _lost(self, error: object = "") -> HostLost:
        return HostLost(f"the connection to {self._name} is gone", str(error) or "it was closed", "connect again")

    def send(self, data: bytes) -> None:
        try:
            with time_limit(self._channel.get_transport()):
                self._channel.settimeout(ANSWER_S)
                self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._lost(error) from error

    def end_input(self) -> None:
        try:
            self._channel.shutdown_write()
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._lost(error) from error

    def read(self, timeout_s: float | None = None) -> bytes:
        self._drain()  # both outputs share one window: what nobody fetches would block the program
        self._channel.settimeout(timeout_s)
        piece = self._channel.recv(RECEIVE_BYTES)
        if not piece and not self._channel.eof_received and self.wait(0) is None:
            raise self._lost()
        return piece

    def _drain(self) -> None:
        for _ in range(MOST_DRAINED):  # a program may never stop to complain
            if not self._channel.recv_stderr_ready():
                break
            self._errors = (self._errors + self._channel.recv_stderr(RECEIVE_BYTES))[-ERRORS_KEPT_BYTES:]

    @property
    def errors(self) -> str:
        self._drain()
        return scrub_text(self._errors.decode("utf-8", "replace"))

    def wait(self, timeout_s: float) -> int | None:
        self._channel.status_event.wait(timeout_s)
        code = self._channel.exit_status
        return None if code < 0 else code  # -1: still running, ended by a signal, or cut off

    def stop(self) -> None:
        try:
            with time_limit(self._channel.get_transport()):
                self._channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            pass


class _ProxyCommand:
    """The program of ProxyCommand, spoken to by one end of a pair of sockets."""

    def __init__(self, command: str):
        self.socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"], stdin=theirs.fileno(), stdout=theirs.fileno(), start_new_session=True
            )

    def close(self) -> None:
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(2)


@dataclass
class Link:
    """A way to a host: its transport, and what lies below (hops, a proxy's program)."""

    transport: paramiko.Transport | None = None
    below: list = field(default_factory=list)

    def close(self) -> None:
        for part in [self.transport, *reversed(self.below)]:
            if part is not None:
                part.close()


class SshHost(RemoteHost):
    """A host over SSH."""

    def __init__(
        self,
        name: str,
        address: Address,
        config: SshConfig,
        ask: Callable[[str], str],
        say: Callable[[str], None],
        known_hosts: Path | None = None,
        accept_new: bool = False,
        sudo: bool = False,
    ):
        super().__init__(name, ask, sudo)
        self._address, self._config, self._known_hosts = address, config, known_hosts
        self._accept_new, self._say = accept_new, say
        self._secrets = Secrets(ask)
        self._connections: list[Link] = []

    # connecting

    def _dial(self) -> None:
        connection = self._connect_all()
        with self._lock:
            self._connections.append(connection)
        for remark in self._config.notes:
            self.note(remark)

    def _hang_up(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    def _connect_all(self) -> Link:
        """Connect hop by hop."""
        connection = Link()
        try:
            for settings in self._hops(self._address, 0):
                if connection.transport is not None:
                    connection.below.append(connection.transport)
                connection.transport = self._connect_hop(settings, connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _hops(self, address: Address, depth: int) -> list[Settings]:
        """Settings of every host on the way, ours last."""
        if depth > HOPS_MOST:
            raise UsageError("ProxyJump loop", f"more than {HOPS_MOST} hops", "fix ~/.ssh/config")
        settings = self._config.settings(address, self._known_hosts)
        hops = [hop for jump in settings.jumps[:1] for hop in self._hops(jump, depth + 1)]
        hops += [self._config.settings(jump, self._known_hosts) for jump in settings.jumps[1:]]
        return [*hops, settings]

    def _connect_hop(self, settings: Settings, connection: Link) -> paramiko.Transport:
        label = f"{settings.host}:{settings.port}"
        transport = None
        try:
            transport = paramiko.Transport(self._reach(settings, connection), default_window_size=WINDOW_BYTES)
            transport.banner_timeout = transport.auth_timeout = CONNECT_S
            known = self._prepare(transport, settings)
            transport.start_client(timeout=CONNECT_S)
            self._check(transport.get_remote_server_key(), settings, known)
            transport.set_keepalive(KEEPALIVE_S)
            self.note(authenticate(transport, settings, self._secrets))
            return transport
        except BaseException as error:
            if transport is not None:
                transport.close()
            if isinstance(error, paramiko.SSHException | EOFError | OSError):
                raise _unreachable(label, error) from error
            raise

    def _reach(self, settings: Settings, connection: Link) -> socket.socket | paramiko.Channel:
        """A byte stream to the host: through the hop before, by a proxy's program, or straight."""
        if connection.transport is not None:
            where = (settings.host, settings.port)
            return connection.transport.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=CONNECT_S)
        if settings.proxy_command:
            proxy = _ProxyCommand(settings.proxy_command)
            connection.below.append(proxy)
            return proxy.socket
        straight = socket.create_connection((settings.host, settings.port), CONNECT_S)
        straight.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return straight

    def _prepare(self, transport: paramiko.Transport, settings: Settings) -> tuple[str, list]:
        """Prefer quick ciphers, and kinds of host key that are known: a server has several, and shows one."""
        options = transport.get_security_options()
        options.ciphers = [*CIPHERS, *(name for name in options.ciphers if name not in CIPHERS)]
        label = settings.label_host or host_label(settings.host, settings.port)
        known = known_keys(settings.known_hosts, label)
        kinds = {line.type for line in known}
        if "ssh-rsa" in kinds:
            kinds |= {"rsa-sha2-512", "rsa-sha2-256"}
        options.key_types = sorted(options.key_types, key=lambda kind: kind not in kinds)  # stable: the rest keeps its order
        return label, known

    def _check(self, key: paramiko.PKey, settings: Settings, about: tuple[str, list]) -> None:
        label, known = about
        kind, blob, path = key.get_name(), key.asbytes(), settings.known_hosts[0]
        if check_key(known, label, kind, blob, path):
            return
        if not self._accept_new:
            raise unknown_key(label, kind, blob)
        remember_key(path, label, kind, blob)
        self._say(f"{label} is new: its key {kind} {fingerprint(blob)} was added to {path}")

    # programs

    def _execute(self, line: str) -> ChannelStream:
        """Over a connection that has room; servers allow some sessions each (MaxSessions), so it may take one more connection."""
        with self._lock:
            connections = list(self._connections)
        if not connections:
            raise HostLost(f"{self.name} is not connected", "it was closed or lost", "connect again")
        for connection in connections:
            if (stream := self._try(connection, line)) is not None:
                return stream
        connection = self._connect_all()
        with self._lock:
            self._connections.append(connection)
        if (stream := self._try(connection, line)) is not None:
            return stream
        why, do = "the server allows no session", "look at MaxSessions in its sshd_config"
        raise HostLost(f"{self.name} starts no program", why, do)

    def _try(self, connection: Link, line: str) -> ChannelStream | None:
        channel = None
        try:
            with time_limit(connection.transport):
                channel = connection.transport.open_session(timeout=ANSWER_S)
                channel.exec_command(line)
            return ChannelStream(channel, self.name)
        except paramiko.ChannelException:
            return None
        except (paramiko.SSHException, EOFError, OSError) as error:
            if channel is not None:
                channel.close()
            raise HostLost(f"the connection to {self.name} is gone", str(error) or "it was closed", "connect again") from error


def _unreachable(label: str, error: Exception) -> HostLost:
    """Why a host could not be reached, and what to look at."""
    what = f"{label} cannot be reached"
    if isinstance(error, socket.gaierror):
        return HostLost(what, "its name does not resolve", f"check the name: getent hosts {label.rpartition(':')[0]}")
    if isinstance(error, ConnectionRefusedError):
        return HostLost(what, "nothing listens there", "check the port, and whether sshd runs")
    if isinstance(error, TimeoutError):
        return HostLost(what, f"no answer within {CONNECT_S:g} s", "check whether it is up, and firewalls: ping, ssh")
    if isinstance(error, paramiko.IncompatiblePeer):
        return HostLost(what, f"the server speaks only old algorithms ({error})", "use the ssh program: --transport openssh")
    if any(text in str(error) for text in ("protocol banner", "No existing session")):  # the second: no handshake within its time
        why = "something took the connection, but no SSH server answered on it"
        return HostLost(what, why, f"check whether its sshd hangs: ssh -v -p {label.rpartition(':')[2]}")
    why = (str(error) or "the connection ended at once").rstrip(".")
    return HostLost(what, why, f"try the same with: ssh -v -p {label.rpartition(':')[2]}")
