"""HTTP requests to the server, made on its own host and written the way curl prints them, so that one parser reads both."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from kit.capture import redaction
from kit.capture.hosts.host import Host
from kit.capture.tools import probe_script
from kit.redact import scrub_text
from kit.tool_table import tool

HEALTH_PATHS = ("/health", "/v1/models")
LOOPBACK = "127.0.0.1"


@dataclass
class Answer:
    """One request and what came back."""

    status: int | None
    body: str
    text: str


def can_ask(host: Host) -> bool:
    """Whether a host has what a request needs: Python or curl."""
    return bool(host.abilities.python) or host.has("curl")


def request(host: Host, port: int, path: str, payload: dict | None = None, limit_s: float = 0.0) -> Answer:
    """Ask the server once, within a time limit for the whole exchange.

    Examples
    --------
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> with LocalHost() as host:
    ...     print(request(host, 1, "/health").text.splitlines()[0])
    $ curl -sS -i -m 3 http://127.0.0.1:1/health
    """
    curl = tool("curl")
    limit_s = limit_s or curl.limit_s
    data = ["-H", "Content-Type: application/json", "-d", json.dumps(payload)] if payload is not None else []
    command = [*curl.words(limit=f"{limit_s:g}", port=port, path=path), *data]
    if host.name == "local":
        status, shown, body = probe_script.exchange(LOOPBACK, port, path, payload, limit_s)
    elif host.abilities.python:
        status, shown, body = _by_python(host, port, path, payload, limit_s)
    else:
        status, shown, body = _by_curl(host, command, limit_s)
    said = " ".join(word if re.fullmatch(r"[\w./:-]+", word) else f"'{word}'" for word in command)
    return Answer(status, body, scrub_text(f"$ {said}\n{shown.rstrip()}\n"))


def _by_python(host: Host, port: int, path: str, payload: dict | None, limit_s: float) -> tuple[int | None, str, str]:
    texts = [redaction(), (Path(__file__).resolve().parent / "probe_script.py").read_text(encoding="utf-8")]
    call = f"import signal\nsignal.alarm({int(limit_s) + 5})\nmain({LOOPBACK!r}, {port}, {path!r}, {payload!r}, {limit_s})\n"
    out = host.ask_python("\n\n".join([*texts, call]), limit_s + 10)
    try:
        status, shown, body = json.loads(out)
        if not (isinstance(status, int | None) and isinstance(shown, str) and isinstance(body, str)):
            raise TypeError
    except (ValueError, TypeError, RecursionError):
        return None, "curl: (28) the request did not end", ""
    return status, shown[: probe_script.MOST_BYTES], body[: probe_script.MOST_BYTES]


def _by_curl(host: Host, command: list[str], limit_s: float) -> tuple[int | None, str, str]:
    ran = host.run(command, limit_s + 2)
    shown = ran.text.replace("\r\n", "\n")[: probe_script.MOST_BYTES]
    status = re.match(r"HTTP/\S{1,9} ([0-9]{3})\b", shown)
    return int(status[1]) if status else None, shown or ran.errors, shown.partition("\n\n")[2] if status else ""


def first_model(answer: Answer) -> str | None:
    """Name of the first model in an answer of /v1/models."""
    try:
        return str(json.loads(answer.body)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None


def generate(host: Host, port: int, model: str, limit_s: float = 0.0) -> Answer:
    """Ask for one token: the only proof that the engine behind the port works."""
    chosen = tool("generate")
    payload = json.loads(chosen.command[-1]) | {"model": model}
    return request(host, port, chosen.path, payload, limit_s or chosen.limit_s)
