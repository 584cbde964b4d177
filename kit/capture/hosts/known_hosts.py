"""Keys of hosts that are known, in the files of OpenSSH; paramiko's own reader knows no patterns, revocations or twins."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kit.errors import EvidenceError


class HostKeyError(EvidenceError):
    """The key of a host is not known, or is another than the known one."""


@dataclass(frozen=True)
class KnownKey:
    """A line of a known_hosts file that is about a host: `@revoked`, `@cert-authority` or "", type and key in base64."""

    marker: str
    type: str
    key: str
    path: Path


def host_label(host: str, port: int) -> str:
    """What known_hosts calls a host.

    Examples
    --------
    >>> host_label("gpu7", 22), host_label("::1", 2222)
    ('gpu7', '[::1]:2222')
    """
    return host if port == 22 else f"[{host}]:{port}"


def fingerprint(key: bytes) -> str:
    """SHA256 of a public key, as `ssh-keygen -l` prints it.

    Examples
    --------
    >>> fingerprint(b"key")
    'SHA256:LHDhK3oGRvkiefQnx7OOczTY5Tic/xZ6HcMOc/gmtoM'
    """
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _fits(names: str, label: str) -> bool:
    """Whether the first column of a line is about this host: a hash, or patterns of which none that begins with ! may fit."""
    if names.startswith("|1|"):
        try:
            salt, found = (base64.b64decode(part) for part in names[3:].split("|"))
        except ValueError:
            return False
        return hmac.compare_digest(hmac.new(salt, label.encode(), hashlib.sha1).digest(), found)
    patterns = [name.replace("[", "[[]", 1) if name.lstrip("!").startswith("[") else name for name in names.lower().split(",")]
    if any(fnmatchcase(label.lower(), pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatchcase(label.lower(), pattern) for pattern in patterns if not pattern.startswith("!"))


def known_keys(paths: Iterable[Path], label: str) -> list[KnownKey]:
    """What the files know about a host; files that are missing know nothing.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "known_hosts"
    >>> _ = path.write_text("# mine\\n*.lab,!old.lab ssh-ed25519 AAAA me\\n@revoked new.lab ssh-ed25519 BBBB\\n")
    >>> [(key.marker, key.key) for key in known_keys([path], "new.lab")], known_keys([path], "old.lab")
    ([('', 'AAAA'), ('@revoked', 'BBBB')], [])
    """
    found = []
    for path in paths:
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) >= 3 and not words[0].startswith("#") and _fits(words[0], label):
                found.append(KnownKey(marker, words[1], words[2], path))
    return found


def check_key(known: list[KnownKey], label: str, kind: str, key: bytes, path: Path) -> bool:
    """Whether a host's key is a known one; False where nothing is known of the host."""
    text, shown = base64.b64encode(key).decode(), f"{kind} {fingerprint(key)}"
    if any(line.marker == "@revoked" and line.key == text for line in known):
        why = f"it shows {shown}, which a known_hosts file revokes"
        raise HostKeyError(f"HOST KEY OF {label} IS REVOKED", why, "do not connect; ask its administrator")
    known = [line for line in known if not line.marker]
    if any(line.key == text for line in known):
        return True
    if known:
        raise HostKeyError(
            f"HOST KEY OF {label} HAS CHANGED",
            f"it shows {shown}, while {known[0].path} knows {known[0].type} "
            f"{fingerprint(base64.b64decode(known[0].key))}: the host was reinstalled, or this is a possible man-in-the-middle",
            f"ask its administrator for the fingerprint; if it is right: ssh-keygen -R '{label}' -f {path}, then --accept-new",
        )
    return False


def unknown_key(label: str, kind: str, key: bytes) -> HostKeyError:
    """The error for a host of which nothing is known."""
    return HostKeyError(
        f"the host key of {label} is not known",
        f"it shows {kind} {fingerprint(key)}",
        "compare the fingerprint with one from a source that you trust, then repeat with --accept-new",
    )


def remember_key(path: Path, label: str, kind: str, key: bytes) -> None:
    """Add a line to the user's known_hosts; what is in it stays as it is, a last line without an end too.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "known_hosts"
    >>> _ = path.write_text("# mine")
    >>> remember_key(path, "gpu7", "ssh-ed25519", b"key")
    >>> path.read_text()
    '# mine\\ngpu7 ssh-ed25519 a2V5\\n'
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    old = path.read_bytes()
    with open(path, "ab") as file:
        file.write(b"\n" if old and not old.endswith(b"\n") else b"")
        file.write(f"{label} {kind} {base64.b64encode(key).decode()}\n".encode())
