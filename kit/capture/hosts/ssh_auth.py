"""Proving who we are to an SSH server by paramiko: keys, agent, and passwords that are only ever asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import paramiko

from kit.capture.hosts.ssh_settings import Settings
from kit.errors import EvidenceError

TRIES = 3
"""How often a password is asked for, as ssh does (NumberOfPasswordPrompts)."""
_ENVIRONMENT = threading.Lock()


@dataclass
class Secrets:
    """What was asked for, kept in memory for connecting again: never shown, never written."""

    ask: Callable[[str], str]
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    phrases: dict[Path, str] = field(default_factory=dict, repr=False)


def authenticate(transport: paramiko.Transport, settings: Settings, secrets: Secrets) -> str:
    """Try keys, then keys with a passphrase, then what the server asks for.

    Returns the server's banner; it comes with the first attempt, and paramiko forgets it with the next.
    """
    user, tried = settings.user, []
    methods = _allowed(lambda: transport.auth_none(user))
    banner = (transport.get_banner() or b"").decode("utf-8", "replace")
    if not methods:
        return banner
    if "publickey" in methods:
        with _agent_keys(settings) as agent_keys:
            for name, key in _keys(settings, agent_keys, secrets):
                tried.append(name)
                left = _allowed(partial(transport.auth_publickey, user, key), methods)
                if not left:
                    return banner
                if left != methods:  # the key is right, and something more is wanted
                    methods = left
                    break
                if not transport.is_active():
                    why = "the server ended the connection after so many keys"
                    raise _refused(settings, tried, why, "name one key: IdentityFile")
    for method, way in (("password", _by_password), ("keyboard-interactive", _by_questions)):
        if method in methods:
            tried.append(method)
            methods = way(transport, settings, secrets, methods)
            if not methods:
                return banner
    raise _refused(settings, tried, f"the server takes {', '.join(methods)}", "try the same with: ssh -v")


def _refused(settings: Settings, tried: list[str], why: str, do: str) -> EvidenceError:
    what = f"authentication failed for {settings.user}@{settings.host}"
    return EvidenceError(what, f"tried {', '.join(tried) or 'nothing: no key and no agent found'}; {why}", do)


def _allowed(attempt: Callable[[], list[str]], methods: list[str] | None = None) -> list[str]:
    """What the server still wants after an attempt; nothing once we are in."""
    try:
        return list(attempt())
    except paramiko.BadAuthenticationType as error:
        return list(error.allowed_types)
    except paramiko.AuthenticationException:
        return methods or []
    except paramiko.SSHException:
        if methods is None:
            raise
        return methods  # a key of a kind that this server does not take


def _by_password(transport: paramiko.Transport, settings: Settings, secrets: Secrets, methods: list[str]) -> list[str]:
    label = f"{settings.user}@{settings.host}"
    for _ in range(TRIES):
        known = secrets.passwords.pop(label, "")
        word = known or secrets.ask(f"password of {label}: ")
        if not word or not transport.is_active():
            break
        left = _allowed(partial(transport.auth_password, settings.user, word, fallback=False), methods)
        if left != methods:
            secrets.passwords[label] = word
            return left
    return methods


def _by_questions(transport: paramiko.Transport, settings: Settings, secrets: Secrets, methods: list[str]) -> list[str]:
    def answers(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        return [secrets.ask(f"{settings.user}@{settings.host}: {prompt}") for prompt, _ in prompts]

    for _ in range(TRIES):
        if not transport.is_active():
            break
        left = _allowed(lambda: transport.auth_interactive(settings.user, answers), methods)
        if left != methods:
            return left
    return methods


@contextmanager
def _agent_keys(settings: Settings) -> Iterator[list[paramiko.PKey]]:
    """Keys of the agent, as long as it is held open; paramiko finds it by the environment alone."""
    if not settings.agent:
        yield []
        return
    with _ENVIRONMENT:
        before = os.environ.get("SSH_AUTH_SOCK")
        os.environ["SSH_AUTH_SOCK"] = settings.agent
        try:
            agent = paramiko.Agent()
        finally:
            if before is None:
                del os.environ["SSH_AUTH_SOCK"]
            else:
                os.environ["SSH_AUTH_SOCK"] = before
    try:
        yield list(agent.get_keys())
    finally:
        agent.close()


def _keys(settings: Settings, agent_keys: list[paramiko.PKey], secrets: Secrets) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys to try, with a name for each: those of the files, of the agent, and at last those that need a passphrase."""
    locked = []
    for path in settings.keys:
        try:
            if path.is_file() and path.suffix != ".pub":
                yield str(path), load_key(path)
        except paramiko.PasswordRequiredException:
            locked.append(path)
        except (OSError, paramiko.SSHException, ValueError):
            continue  # a kind of key that paramiko does not know, such as one on a token
    named = {blob for path in settings.keys for blob in _public_blobs(path)}
    seen = set()
    for key in agent_keys:
        seen.add(key.get_base64())
        if not settings.keys_only or key.get_base64() in named:
            yield f"agent {key.get_name()}", key
    for path in locked:
        if seen.isdisjoint(_public_blobs(path)):
            phrase = secrets.phrases.get(path) or secrets.ask(f"passphrase for {path}: ")
            try:
                key = load_key(path, phrase)
            except (OSError, paramiko.SSHException, ValueError):
                continue
            secrets.phrases[path] = phrase
            yield str(path), key


def _public_blobs(path: Path) -> list[str]:
    """The public half in base64 that lies beside a private key, or that the path itself is."""
    public = path if path.suffix == ".pub" else path.with_name(path.name + ".pub")
    try:
        return public.read_text("utf-8", "replace").split()[1:2]
    except OSError:
        return []


def load_key(path: Path, phrase: str | None = None) -> paramiko.PKey:
    """A private key of any kind, with its certificate where one lies beside it."""
    problem: paramiko.SSHException | None = None
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            key = kind.from_private_key_file(str(path), phrase)
        except paramiko.PasswordRequiredException:
            raise
        except paramiko.SSHException as error:
            problem = error
            continue
        certificate = path.with_name(path.name + "-cert.pub")
        if certificate.is_file():
            key.load_certificate(str(certificate))
        return key
    raise problem
