"""Reading /proc: whole files, files held open, fields, and reads that may hang."""

import collections
import os
import resource
import threading
import time

SPARE_FILES = 96
"""Descriptors that are left for everything but files held open."""
MOST_BYTES = 8 << 20
"""Of one file: /proc/net/tcp of a busy host has no end."""
MOST_STUCK = 32
"""Threads that may hang in a read at a time."""


def read(path):
    """Bytes of a /proc file; raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        data = chunk = os.read(handle, 65536)
        while len(chunk) > 2048 and len(data) < MOST_BYTES:  # a short file came whole; longer ones may come in pieces
            chunk = os.read(handle, 65536)
            data += chunk
        return data
    finally:
        os.close(handle)


def text(path, denied=None):
    """Text of a /proc file without its last newline, None where it cannot be read; refusals go to `denied`."""
    try:
        return read(path).decode("utf-8", "replace").rstrip("\n")
    except PermissionError:
        if denied is not None:
            denied.add(path.rsplit("/", 1)[-1])
    except OSError:
        pass
    return None


def raise_limit():
    """Let the sampler hold as many files as its hard limit allows; return how many files it may hold open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):
        pass
    return (1 << 20 if soft == resource.RLIM_INFINITY else soft) - SPARE_FILES


class Held:
    """A /proc file that is read again and again: held open while there is room, which costs a tenth of opening it.

    A held file of a process or thread that has ended cannot be read any more (ESRCH), also where its id was given anew.
    """

    room = 0
    __slots__ = ("path", "handle")

    def __init__(self, path):
        self.path, self.handle = path, None
        if Held.room > 0:
            self.handle = os.open(path, os.O_RDONLY)
            Held.room -= 1

    def read(self):
        """Its bytes now, 8 KiB at most; raises OSError."""
        return read(self.path) if self.handle is None else os.pread(self.handle, 8192, 0)

    def close(self):
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
            Held.room += 1


class Aside:
    """Work that may hang, done by a thread at the side, piece by piece; a sample takes what is ready and never waits long.

    A piece that takes longer than `patience_s` is given up: its thread stays in the kernel for as long as that takes,
    another one goes on with the rest, and the piece is not asked for again before it came back.
    """

    def __init__(self, patience_s):
        self.patience_s, self.stuck = patience_s, set()
        self.jobs, self.results, self.asked = collections.deque(), collections.deque(), set()
        self.at, self.thread = None, None

    def ask(self, key, function, *arguments):
        """Have something done. The key names it: what was asked for and has not come is not asked for twice."""
        if key not in self.asked and len(self.stuck) < MOST_STUCK:
            self.asked.add(key)
            self.jobs.append((key, function, arguments))

    def work(self, at):
        while self.at is at:
            try:
                key, function, arguments = self.jobs.popleft()
            except IndexError:
                return
            at[:] = [key, time.monotonic()]
            try:
                result = function(*arguments)
            except (OSError, ValueError):
                result = None
            self.results.append((key, result))

    def take(self, wait_s):
        """Begin what was asked for, wait so long at most; return what is ready: (list of (key, result), keys given up)."""
        if self.jobs and (self.thread is None or not self.thread.is_alive()):
            self.at = [None, time.monotonic()]
            self.thread = threading.Thread(target=self.work, args=(self.at,))
            self.thread.daemon = True
            self.thread.start()
        given_up, ready = [], []
        if self.thread is not None:
            self.thread.join(wait_s)
            if not self.thread.is_alive():
                self.thread = None
            elif time.monotonic() - self.at[1] > self.patience_s:
                given_up = [self.at[0]]
                self.stuck.add(self.at[0])
                self.at, self.thread = None, None
        while self.results:
            key, result = self.results.popleft()
            self.asked.discard(key)
            self.stuck.discard(key)
            ready.append((key, result))
        return ready, given_up


def parse_stat(line):
    """Fields of a stat line: comm, then the fields after it (state first)."""
    return line[line.index("(") + 1 : line.rindex(")")], line[line.rindex(")") + 2 :].split()


def pairs(block, keys):
    """Chosen `Key: value` lines; values in kB become bytes, single numbers int."""
    found = {}
    for line in (block or "").split("\n"):
        key, _, value = line.partition(":")
        if keys is None or key in keys:
            words = value.split()
            if len(words) == 2 and words[1] == "kB":
                found[key] = int(words[0]) * 1024
            elif len(words) == 1 and words[0].lstrip("-").isdigit():
                found[key] = int(words[0])
            elif words:
                found[key] = " ".join(words)
    return found


def difference(now, before):
    """Entries of a dict that are new or changed, dicts in it alike; None where an entry is gone: then all must be said."""
    if not before.keys() <= now.keys():
        return None
    changed = {}
    for key, value in now.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            value = difference(value, old)
            if value is None:
                return None
        changed[key] = value
    return changed
