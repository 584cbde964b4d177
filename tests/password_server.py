"""An SSH server that wants a password: a private sshd cannot check one without changing the system's users."""

from __future__ import annotations

import socket
import subprocess
import threading

import paramiko

CHUNK_BYTES = 65_536


class _Door(paramiko.ServerInterface):
    def __init__(self, passwords: set[str], methods: str):
        self.passwords, self.methods, self.commands = passwords, methods, {}
        self.started = threading.Event()

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL if password in self.passwords else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery:
        return paramiko.InteractiveQuery("", "", ("Code: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return paramiko.AUTH_SUCCESSFUL if responses[0] in self.passwords else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_serve, args=(channel, command), daemon=True).start()
        return True


def _serve(channel: paramiko.Channel, command: bytes) -> None:
    try:
        _run(channel, command)
    except (OSError, EOFError, paramiko.SSHException):
        pass  # the client has gone, and the shell has met the end of its input


def _run(channel: paramiko.Channel, command: bytes) -> None:
    """Join a channel to a shell."""
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:

        def feed() -> None:
            try:
                while data := channel.recv(CHUNK_BYTES):
                    process.stdin.write(data)
                process.stdin.close()
            except OSError:
                pass  # the shell has ended

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        while data := process.stdout.read(CHUNK_BYTES):
            channel.sendall(data)
        channel.shutdown_write()
        channel.send_exit_status(process.wait())
        channel.close()
        feeder.join()


class PasswordServer:
    """Takes one connection after another on the loopback.

    Parameters
    ----------
    password : str
    methods : str
        What it offers: "password", "keyboard-interactive", "publickey,password" ...
    """

    def __init__(self, password: str, methods: str = "password"):
        self.key = paramiko.ECDSAKey.generate()
        self._door = _Door({password}, methods)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def known_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(sock)
            transport.add_server_key(self.key)
            self._transports.append(transport)
            transport.start_server(server=self._door, event=threading.Event())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()
