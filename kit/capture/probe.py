"""HTTP requests to the server, written the way curl prints them, so that one parser reads both."""

from __future__ import annotations

import http.client
import json
import socket
import time
from dataclasses import dataclass

from kit.redact import scrub_text

PROBE_S, GENERATE_S = 3.0, 30.0
MOST_BYTES = 65_536


@dataclass
class Answer:
    """One request and what came back.

    Attributes
    ----------
    status : int or None
        HTTP status, None where there was no answer.
    body : str
        Text of the answer.
    text : str
        Command and output as curl would print them, scrubbed.
    """

    status: int | None
    body: str
    text: str


def request(port: int, path: str, payload: dict | None = None, limit_s: float = PROBE_S, host: str = "127.0.0.1") -> Answer:
    """Ask the server once, within a time limit for the whole exchange.

    Parameters
    ----------
    port : int
        Port on the loopback interface.
    path : str
        Path asked.
    payload : dict, optional
        JSON body; makes it a POST.
    limit_s : float
        Time limit in seconds.

    Returns
    -------
    Answer

    Examples
    --------
    >>> print(request(1, "/health").text.splitlines()[0])
    $ curl -sS -i -m 3 http://127.0.0.1:1/health
    """
    began = time.monotonic()
    data = f" -H 'Content-Type: application/json' -d '{json.dumps(payload)}'" if payload is not None else ""
    command = f"$ curl -sS -i -m {limit_s:g} http://{host}:{port}{path}{data}"
    try:
        status, shown, body = _exchange(host, port, path, payload, began + limit_s)
    except (OSError, http.client.HTTPException) as error:
        status, shown, body = None, _curl_error(error, host, port, time.monotonic() - began), ""
    return Answer(status, body, scrub_text(f"{command}\n{shown.rstrip()}\n"))


def _exchange(host: str, port: int, path: str, payload: dict | None, deadline: float) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(host, port, timeout=max(0.1, deadline - time.monotonic()))
    try:
        if payload is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(payload), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        parts, size = [], 0
        while size < MOST_BYTES:
            if connection.sock is not None:  # gone once the server has announced the end
                connection.sock.settimeout(max(0.01, deadline - time.monotonic()))
            part = answer.read1(MOST_BYTES - size)
            if not part:
                break
            parts.append(part)
            size += len(part)
        body = b"".join(parts).decode("utf-8", "replace")
        headers = "".join(f"{name}: {value}\n" for name, value in answer.getheaders())
        return answer.status, f"HTTP/1.1 {answer.status} {answer.reason}\n{headers}\n{body}", body
    finally:
        connection.close()


def _curl_error(error: Exception, host: str, port: int, took_s: float) -> str:
    """The line that curl prints for this failure."""
    took = f"{took_s * 1000:.0f}"
    if isinstance(error, ConnectionRefusedError):
        return f"curl: (7) Failed to connect to {host} port {port} after {took} ms: Connection refused"
    if isinstance(error, (TimeoutError, socket.timeout)):
        return f"curl: (28) Operation timed out after {took} milliseconds with 0 bytes received"
    if isinstance(error, http.client.RemoteDisconnected):
        return "curl: (52) Empty reply from server"
    if isinstance(error, ConnectionResetError):
        return "curl: (56) Recv failure: Connection reset by peer"
    if isinstance(error, http.client.BadStatusLine):
        return "curl: (1) Received HTTP/0.9 when not allowed"
    return f"curl: (7) Failed to connect to {host} port {port} after {took} ms: {error}"


def first_model(answer: Answer) -> str | None:
    """Name of the first model in an answer of /v1/models."""
    try:
        return str(json.loads(answer.body)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def generate(port: int, model: str) -> Answer:
    """Ask for one token: the only proof that the engine behind the port works."""
    return request(port, "/v1/completions", {"model": model, "prompt": "hi", "max_tokens": 1}, GENERATE_S)
