"""One HTTP request, answered in the words of curl. It stands alone: standard library, syntax of Python 3.6.

It runs in this process for a launch of this machine, and on another host from standard input, behind kit/redact.py and in
front of a call of `main`.
"""

import http.client
import json
import socket
import threading
import time

MOST_BYTES = 65536


def exchange(host, port, path, payload, limit_s):
    """Ask once within a time limit for the whole exchange: (status or None, what curl would show, body)."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(host, port, timeout=max(0.1, limit_s))
    watch = None
    try:
        connection.connect()
        # A server may send a byte now and then for ever: each is in time, all together are not.
        watch = threading.Timer(max(0.1, began + limit_s - time.monotonic()), _hang_up, [connection.sock])
        watch.daemon = True
        watch.start()
        return _ask(connection, path, payload)
    except (OSError, http.client.HTTPException) as error:
        return None, _curl_error(error, host, port, time.monotonic() - began, limit_s), ""
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()


def _hang_up(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _ask(connection, path, payload):
    if payload is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(payload), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    parts, size = [], 0
    while size < MOST_BYTES:
        part = answer.read1(MOST_BYTES - size)
        if not part:
            break
        parts.append(part)
        size += len(part)
    body = b"".join(parts).decode("utf-8", "replace")
    headers = "".join(f"{name}: {value}\n" for name, value in answer.getheaders())
    return answer.status, f"HTTP/1.1 {answer.status} {answer.reason}\n{headers}\n{body}", body


def _curl_error(error, host, port, took_s, limit_s):
    """The line that curl prints for this failure."""
    took = f"{took_s * 1000:.0f}"
    if isinstance(error, ConnectionRefusedError):
        return f"curl: (7) Failed to connect to {host} port {port} after {took} ms: Connection refused"
    if isinstance(error, socket.timeout) or took_s >= limit_s:
        return f"curl: (28) Operation timed out after {took} milliseconds with 0 bytes received"
    if isinstance(error, http.client.RemoteDisconnected):
        return "curl: (52) Empty reply from server"
    if isinstance(error, ConnectionResetError):
        return "curl: (56) Recv failure: Connection reset by peer"
    if isinstance(error, http.client.BadStatusLine):
        return "curl: (1) Received HTTP/0.9 when not allowed"
    return f"curl: (7) Failed to connect to {host} port {port} after {took} ms: {error}"


def main(host, port, path, payload, limit_s):
    """Print the answer as one JSON line, scrubbed."""
    status, shown, body = exchange(host, port, path, payload, limit_s)
    scrub = globals()["scrub_text"]
    print(json.dumps([status, scrub(shown), scrub(body)]))
