"""One process: its line of a sample, descriptors, limits, command line, environment."""

import os

from kit.capture.sampler.reading import Held, pairs, text
from kit.capture.sampler.threads import wchan
from kit.redact import scrub_argv

PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_FDS = 20000
STATUS_KEYS = """
    Uid NSpid TracerPid VmPeak VmHWM VmLck VmPin RssAnon RssFile RssShmem VmSwap voluntary_ctxt_switches
    nonvoluntary_ctxt_switches
""".split()
LIMITS = ("Max open files", "Max processes", "Max locked memory", "Max address space", "Max stack size", "Max core file size")


class Process:
    """What is kept of one process between samples: files held open, what is read seldom, what was printed last."""

    def __init__(self, pid, start):
        self.pid, self.start, self.base = pid, start, f"/proc/{pid}/"
        self.files, self.blocks, self.seldom = {}, {}, {}
        self.comm, self.state, self.printed, self.argv, self.argv_comm, self.environ, self.limits = (None,) * 7

    def close(self):
        for held in self.files.values():
            held.close()

    def block(self, name, keys, denied):
        """Fields of a file that is held open; a text that did not change is not taken apart again."""
        try:
            if name not in self.files:
                self.files[name] = Held(self.base + name)
            raw = self.files[name].read()
        except PermissionError:
            denied.add(name)
            return {}
        except OSError:
            return {}
        if name not in self.blocks or self.blocks[name][0] != raw:
            self.blocks[name] = (raw, pairs(raw.decode("utf-8", "replace"), keys))
        return self.blocks[name][1]

    def line(self, comm, fields, whole):
        """Its `proc` line in full, without the command line."""
        denied = set()
        self.comm, self.state = comm, fields[0]
        line = stat_entries(comm, fields, PAGE)
        line["wchan"] = wchan(self.base, denied)
        line["status"] = self.block("status", STATUS_KEYS, denied)
        line["io"] = self.block("io", None, denied)
        if whole or not self.seldom:
            self.read_seldom()
        count = self.descriptors_open(denied)
        if count is not None:
            line["fds"] = count
        line.update(self.seldom["line"])
        denied.update(self.seldom["denied"])
        if fields[0] == "Z" and len(fields) > 49:
            line["exit"] = int(fields[49])  # as wait() gives it, until the parent takes it
        if denied:
            line["denied"] = sorted(denied)
        return line

    def read_seldom(self):
        """What hardly ever changes, and whether we may see what the process waits for: another user's wchan reads "0"."""
        denied = set()
        line = {"cgroup": group_of(text(self.base + "cgroup") or "")}
        if text(self.base + "syscall", denied) is None and denied and wchan(self.base) is None:
            denied.add("wchan")
        try:
            os.close(os.open(self.base + "fd", os.O_RDONLY))
        except PermissionError:
            denied.add("fd")
        except OSError:
            pass
        self.seldom = {"line": line, "denied": denied}

    def descriptors_open(self, denied):
        """How many descriptors are open: kernels since 6.2 give it as the size of the folder."""
        try:
            return os.stat(self.base + "fd").st_size or len(os.listdir(self.base + "fd"))
        except PermissionError:
            denied.add("fd")
        except OSError:
            pass
        return None

    def new_limits(self, base):
        """Its limits where they are new and differ from those of the first process, {name: "soft / hard"}."""
        found = {}
        for line in (text(self.base + "limits") or "").split("\n"):
            for name in LIMITS:
                if line.startswith(name):
                    found[name] = " / ".join(line[len(name) :].split()[:2])
        if not found or found == self.limits:
            return {}
        self.limits = found
        usual = (base.limits if base is not None else None) or {}
        return {name: value for name, value in found.items() if usual.get(name) != value}


def stat_entries(comm, fields, page):
    """Entries of a `proc` line that come from the stat file."""
    return {
        "ppid": int(fields[1]),
        "sid": int(fields[3]),
        "state": fields[0],
        "comm": comm,
        "utime": int(fields[11]),
        "stime": int(fields[12]),
        "threads": int(fields[17]),
        "start": int(fields[19]),
        "vsize": int(fields[20]),
        "rss": int(fields[21]) * page,
    }


def oom_rows(pid):
    """Counters of the kernel's choice of a victim: how likely it is this process, and what was asked of it."""
    rows = []
    for name in ("oom_score", "oom_score_adj"):
        value = text(f"/proc/{pid}/{name}")
        if value:
            rows.append(["process", name, f"pid={pid}", int(value)])
    return rows


def descriptors(pid, before=None):
    """Rows [fd, mode, target] of one process; those of `before` where the same numbers are open."""
    rows, base = [], f"/proc/{pid}/fd/"
    try:
        names = sorted(map(int, os.listdir(base)))
    except OSError:
        return rows
    if before and [row[0] for row in before] == names[:MOST_FDS]:
        return before
    for fd in names[:MOST_FDS]:
        try:
            mode = os.lstat(base + str(fd)).st_mode
            rows.append([fd, "r" * bool(mode & 0o400) + "w" * bool(mode & 0o200), os.readlink(base + str(fd))])
        except OSError:
            pass
    return rows


def command_of(pid):
    """Scrubbed words of the command line, None where it is empty or unreadable. Titles (setproctitle) come as one word."""
    raw = text(f"/proc/{pid}/cmdline")
    return scrub_argv(raw.rstrip("\0 ").split("\0")) if raw else None


def group_of(text):
    """Control group that its memory is counted in: that of the memory controller (version 1), else the last line's."""
    rows = [row.split(":", 2) for row in text.split("\n") if row.count(":") > 1]
    memory = [row[2] for row in rows if "memory" in row[1].split(",")]
    return (memory or [row[2] for row in rows[-1:]] or [""])[0]


def environ_of(pid):
    """Environment, unscrubbed: it leaves this process through `scrub_environ` only."""
    raw = text(f"/proc/{pid}/environ")
    return dict(item.partition("=")[::2] for item in raw.split("\0") if "=" in item) if raw else {}
