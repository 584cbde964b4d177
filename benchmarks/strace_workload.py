"""A small model of a launch, to be traced: threads and processes over pipes, sockets, an eventfd, epoll, locks and file reads.

strace -f -ttt -T -y -o base.strace python3 benchmarks/strace_workload.py SECONDS
"""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time

END = time.monotonic() + float(sys.argv[1])
EVENTS = os.eventfd(0, os.EFD_NONBLOCK)
PIPE_OUT, PIPE_IN = os.pipe()
HERE, THERE = socket.socketpair()
HERE.setblocking(False)
THERE.setblocking(False)
LOCK, CONDITION = threading.Lock(), threading.Condition()


def loop() -> None:
    """An event loop."""
    selector = selectors.EpollSelector()
    for source in (EVENTS, PIPE_OUT, THERE):
        selector.register(source, selectors.EVENT_READ)
    while time.monotonic() < END:
        for key, _ in selector.select(0.05):
            with contextlib.suppress(BlockingIOError):
                if key.fd == EVENTS:
                    os.eventfd_read(EVENTS)
                elif key.fd == PIPE_OUT:
                    os.read(PIPE_OUT, 64)
                else:
                    THERE.recv(4096)


def wake() -> None:
    """A byte five times a second, as watchdogs write it."""
    while time.monotonic() < END:
        os.write(PIPE_IN, b"\0")
        time.sleep(0.2)


def send(size: int) -> None:
    """Requests to the loop."""
    while time.monotonic() < END:
        os.eventfd_write(EVENTS, 1)
        with contextlib.suppress(BlockingIOError):
            HERE.send(b'{"method":"get_model","args":[1,"x(y)",null]}\n' * (1 + size))
        with LOCK, CONDITION:
            CONDITION.notify_all()
        time.sleep(0.001)


def wait() -> None:
    """A thread that waits for the others."""
    while time.monotonic() < END:
        with CONDITION:
            CONDITION.wait(0.01)


def load() -> None:
    """Weights, from a file."""
    with tempfile.NamedTemporaryFile() as shard:
        shard.write(os.urandom(1 << 22))
        shard.flush()
        while time.monotonic() < END:
            descriptor = os.open(shard.name, os.O_RDONLY)
            for block in range(64):
                os.pread(descriptor, 65536, block * 65536)
            with mmap.mmap(descriptor, 1 << 22, prot=mmap.PROT_READ) as mapped:
                mapped.madvise(mmap.MADV_SEQUENTIAL)
            os.close(descriptor)
            for path in ("/usr/lib/python3", "/usr/share/none", "/etc/ld.so.cache"):
                os.path.exists(path)
            time.sleep(0.002)


def ask() -> None:
    """A client and its server."""
    server = socket.create_server(("127.0.0.1", 0))
    while time.monotonic() < END:
        client = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        peer.recv(100)
        peer.sendall(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        client.recv(100)
        client.close()
        peer.close()
        time.sleep(0.004)


def main() -> None:
    """Run them all, and a child process after the other."""
    work = [(loop, ()), (wake, ()), (send, (0,)), (send, (3,)), (wait, ()), (wait, ()), (load, ()), (ask, ())]
    threads = [threading.Thread(target=target, args=given) for target, given in work]
    for thread in threads:
        thread.start()
    while time.monotonic() < END:
        code = "import os, time; time.sleep(0.05); os.read(0, 1)"
        subprocess.run([sys.executable, "-S", "-c", code], input=b"x", stdout=subprocess.DEVNULL, check=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
