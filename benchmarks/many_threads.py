"""A target with the shape of a stalled launch: 9 processes of 205 threads, 1,845 in all, and some 300 descriptors each.

    python benchmarks/many_threads.py

Prints the pids when all threads are there, then sleeps until its standard input ends. Nearly all threads sleep for good, in
three ways: on a lock, in a read, in a timer; the main threads wake twice a second.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
import time

CHILDREN, THREADS, PIPES = 8, 204, 50
SET_NAME = 15
"""PR_SET_NAME of prctl(2)."""


def sleep_as(number: int, event: threading.Event, pipe: int) -> None:
    """One thread: take a name, then sleep in one of three ways."""
    ctypes.CDLL(None).prctl(SET_NAME, b"worker-%d" % number, 0, 0, 0)
    if number % 3 == 0:
        event.wait()
    elif number % 3 == 1:
        os.read(pipe, 1)
    else:
        while True:
            time.sleep(30 + number)


def body(ready: int, threads: int = THREADS) -> None:
    """Open descriptors, start threads, say so, sleep."""
    kept: list[object] = [os.open(os.devnull, os.O_RDONLY) for _ in range(2 * PIPES)]
    for _ in range(PIPES):
        kept += [os.pipe(), socket.socketpair()]
    event, (pipe, _end) = threading.Event(), os.pipe()
    for number in range(threads):
        threading.Thread(target=sleep_as, args=(number, event, pipe), daemon=True).start()
    os.write(ready, b".")
    while True:
        time.sleep(0.5)


def main() -> None:
    """Fork the children, be one of them."""
    threading.stack_size(256 * 1024)
    seen, ready = os.pipe()
    pids = [os.getpid()]
    for _ in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            body(ready)
        pids.append(pid)
    threading.Thread(target=body, args=(ready, THREADS - 1), daemon=True).start()  # this thread waits for the end
    said = b""
    while len(said) <= CHILDREN:
        said += os.read(seen, 16)
    print(*pids, flush=True)
    sys.stdin.read()
    for pid in pids[1:]:
        os.kill(pid, 9)
    os._exit(0)


if __name__ == "__main__":
    main()
