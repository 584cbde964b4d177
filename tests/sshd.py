"""A private sshd on the loopback, with keys, known_hosts and configuration of its own, and a proxy that delays or swallows.

A test takes the fixture `sshd` (one server for all tests) or `make_sshd` (a server with options of its own).
"""

from __future__ import annotations

import collections
import contextlib
import getpass
import os
import random
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

READY_S = 300.0
"""A condition that does not come true within this time never will."""
chance = random.SystemRandom()  # a test may have set the seed of the other
RUN_SSHD = Path("/run/sshd")
"""sshd wants this folder when root starts it."""


def wait_for(condition: Callable[[], object], seconds: float = READY_S) -> bool:
    """Whether a condition came to hold within a time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(met)


def write_key(path: Path) -> str:
    """Write a new key pair; the public line."""
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    path.with_name(path.name + ".pub").write_text(public + "\n")
    return public


def free_port() -> int:
    """A port that nobody has, below those that a kernel hands out: no connection of another test takes it in between."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", chance.randrange(10_000, 32_000)))
            return probe.getsockname()[1]


class Sshd:
    """A private sshd.

    Parameters
    ----------
    program : str
        Path of sshd.
    folder : Path
        For keys, configuration, log, and the home of who logs in.
    options : str
        More lines for sshd_config.
    login : str
        Shell text that runs in place of the login shell (ForceCommand); the command line is in `$SSH_ORIGINAL_COMMAND`.
    environ : dict
        Variables of who logs in (SetEnv).
    """

    def __init__(self, program: str, folder: Path, options: str = "", login: str = "", environ: dict[str, str] | None = None):
        self.program, self.folder, self.port = program, folder, free_port()
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.log, self.known_hosts, self.config = folder / "sshd.log", folder / "known_hosts", folder / "config"
        self.key, self.host_key = folder / "user_key", folder / "host_key"
        (folder / "authorized_keys").write_text(write_key(self.key) + "\n")
        self._process: subprocess.Popen | None = None
        lines = [
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.host_key}\nAuthorizedKeysFile {folder}/authorized_keys",
            "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nLogLevel VERBOSE\nPrintMotd no\nMaxStartups 100",
            "Subsystem sftp internal-sftp",
            options,
        ]
        if login:
            script = folder / "login.sh"
            script.write_text(f"#!/bin/sh\n{login}\n")
            script.chmod(0o755)
            lines.append(f"ForceCommand {script}")
        variables = {"HOME": str(self.home), **(environ or {})}
        lines.append("SetEnv " + " ".join(f'"{name}={value}"' for name, value in variables.items()))
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        self.config.write_text(f"Host *\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n  IdentityAgent none\n")
        self.new_host_key()

    @property
    def user(self) -> str:
        return getpass.getuser()

    @property
    def target(self) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    def options(self, **more: object) -> dict:
        """Arguments of `open_host` that make it use this server's files alone."""
        return {"config": self.config, "known_hosts": self.known_hosts, "ask": refuse_to_ask, **more}

    def new_host_key(self, known: bool = True) -> None:
        """Another host key, for the next start; the clients know it, or still know the old one."""
        public = write_key(self.host_key)
        if known:
            self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}\n")

    def know(self, port: int) -> None:
        """Let clients know this server's key at another port too, that of a proxy."""
        public = self.host_key.with_name("host_key.pub").read_text()
        with open(self.known_hosts, "a") as file:
            file.write(f"[127.0.0.1]:{port} {public}")

    def start(self) -> Sshd:
        if os.geteuid() == 0 and not RUN_SSHD.exists():
            RUN_SSHD.mkdir(mode=0o755)
        with open(self.log, "ab") as log:
            command = [self.program, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not wait_for(self._listens):
            self.stop()
            raise RuntimeError(self.log.read_text())
        return self

    def _listens(self) -> bool:
        """Whether it speaks: what takes connections may be a child of the server before it, which ends at once."""
        if self._process.poll() is not None:
            raise RuntimeError(self.log.read_text())
        try:
            with socket.create_connection(("127.0.0.1", self.port), READY_S) as probe:
                return probe.recv(4) == b"SSH-" and self._process.poll() is None
        except OSError:
            return False

    def stop(self) -> None:
        """End the server and every connection; what was started over them lives on, as after a crash."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # else a child that it starts now would keep its port open
        ours = [process for process in self._below() if name_of(process).startswith("sshd")]
        self._process.kill()
        for process in ours:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._process = None

    def children(self) -> list[psutil.Process]:
        """Programs that run on the target over this server's connections."""
        return [process for process in self._below() if name_of(process) and not name_of(process).startswith("sshd")]

    def _below(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def name_of(process: psutil.Process) -> str:
    """Name of a process, empty where it has ended."""
    try:
        return process.name() if process.is_running() else ""
    except psutil.NoSuchProcess:
        return ""


def refuse_to_ask(prompt: str) -> str:
    raise AssertionError(f"nobody should be asked: {prompt}")


class Proxy:
    """A TCP proxy in this process that can delay, swallow, and cut.

    Parameters
    ----------
    port : int
        Where it forwards to on 127.0.0.1.
    delay_s : float
        Added to each way, so twice that to a round trip.
    """

    def __init__(self, port: int, delay_s: float = 0.0):
        self._target, self._delay_s, self._swallows, self._open = port, delay_s, False, True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self._thread.start()

    def black_hole(self) -> None:
        """Forward nothing any more, and close nothing."""
        self._swallows = True

    def close(self) -> None:
        self._open = False
        with contextlib.suppress(OSError):  # its thread has seen the end already, and closed it
            self._wake.send(b".")
        self._thread.join()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def _serve(self) -> None:
        selector, queues = selectors.DefaultSelector(), {}
        selector.register(self._listener, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while self._open:
            for key, _ in selector.select(self._pause(queues)):
                if key.fileobj is self._listener:
                    self._accept(selector, queues)
                elif key.fileobj is not self._woken:
                    self._receive(key.fileobj, selector, queues)
            self._forward(selector, queues)
        for one in [*queues, self._listener, self._wake, self._woken]:
            one.close()
        selector.close()

    def _pause(self, queues: dict) -> float | None:
        """Until the first piece is due."""
        due = [queue[0][0] for _, queue in queues.values() if queue]
        return max(min(due) - time.monotonic(), 0.0) if due and not self._swallows else None

    def _accept(self, selector: selectors.BaseSelector, queues: dict) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self._target))
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(one, selectors.EVENT_READ)
            queues[one] = (other, collections.deque())

    def _receive(self, one: socket.socket, selector: selectors.BaseSelector, queues: dict) -> None:
        try:
            data = one.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            selector.unregister(one)
        queues[one][1].append((time.monotonic() + self._delay_s, data))

    def _forward(self, selector: selectors.BaseSelector, queues: dict) -> None:
        for other, queue in list(queues.values()):
            while queue and not self._swallows and queue[0][0] <= time.monotonic():
                data = queue.popleft()[1]
                try:
                    if data:
                        other.sendall(data)
                    else:
                        other.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
