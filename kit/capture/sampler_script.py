"""The sampler: reads a launch's processes in /proc once an interval and prints what it saw as JSON lines.

It stands alone: standard library, syntax of Python 3.6, nothing written to disk. It runs from standard input as
`python3 -S -I - PARAMETERS < script`, PARAMETERS being a JSON object, here or in the environment as STALLKIT_SAMPLER:

    roots         pids whose trees are sampled
    port          port of the server, or null
    interval_s    seconds between samples (1.0)
    samples       how many (31); it always stops by itself, also where nobody reads any more
    fds_every     descriptors with targets each so many samples (10)
    sockets_every sockets each so many samples (5)
    key_every     all threads each so many samples (30); between them only those whose line changed
    exclude       pids never sampled (the collector)

Lines, one JSON object each, `k` says which: `head`, then for each sample `sample`, per process `proc`, `threads`, `fds`
(and once `env`), `gone` for a process that vanished, `sockets`, `host`, `done`; at last `end`. Fields are kernel terms;
`threads` rows are [tid, state, utime, stime, processor, wchan, syscall, arguments, comm, run_ns, wait_ns, slices].
Command lines are scrubbed by `scrub_argv` and environments by `scrub_environ` of kit/redact.py, whose text goes in front
of this one; without it only the program's name and the names of variables are printed.
"""

import json
import os
import signal
import struct
import sys
import threading
import time

MOST_PROCESSES, MOST_THREADS, MOST_FDS, ROWS_A_LINE = 1024, 20000, 20000, 400
MEMORY_KEYS = """
    MemTotal MemFree MemAvailable Buffers Cached SReclaimable Shmem AnonPages Dirty Writeback SwapTotal SwapFree
""".split()
STATUS_KEYS = """
    Uid NSpid TracerPid VmPeak VmHWM VmLck VmPin RssAnon RssFile RssShmem VmSwap voluntary_ctxt_switches
    nonvoluntary_ctxt_switches
""".split()
TCP_STATES = """
    - ESTAB SYN-SENT SYN-RECV FIN-WAIT-1 FIN-WAIT-2 TIME-WAIT UNCONN CLOSE-WAIT LAST-ACK LISTEN CLOSING
""".split()
time_ns = getattr(time, "time_ns", lambda: int(time.time() * 1e9))
scrub_argv = globals().get("scrub_argv") or (lambda argv: argv[:1] + ["[not recorded]"] * bool(argv[1:]))
scrub_environ = globals().get("scrub_environ") or (lambda environ: dict.fromkeys(sorted(environ)))
stopped = threading.Event()


def read(path):
    """Bytes of a /proc file; raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        data = chunk = os.read(handle, 65536)
        while len(chunk) > 2048:  # a short file came whole; longer ones may come in pieces
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


def patient(function, *arguments):
    """Do a read that may hang (reading cmdline or environ waits for the target's mmap lock): (finished, result)."""
    result = []
    thread = threading.Thread(target=lambda: result.append(function(*arguments)))
    thread.daemon = True
    thread.start()
    thread.join(1.0)
    return (True, result[0]) if result else (False, None)


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


class Tree:
    """Processes of the launch: the roots, their descendants, and what shares a session that a root leads."""

    def __init__(self, roots, exclude):
        self.roots, self.exclude = roots, set(exclude) | {os.getpid()}
        self.known, self.last = {}, {}

    def look(self):
        """Return (present: pid -> stat fields, gone: list of pids) of this moment."""
        stats = {}
        for name in os.listdir("/proc"):
            line = text("/proc/" + name + "/stat") if name.isdigit() else None
            if line:
                stats[int(name)] = parse_stat(line)
        self.leave_out_observers(stats)
        gone = [pid for pid in self.known if pid not in stats or stats[pid][1][19] != self.known[pid]]
        leaders = {pid for pid in self.roots if self.known.get(pid) or (pid in stats and int(stats[pid][1][3]) == pid)}
        members = {pid for pid in self.known if pid not in gone}
        if not self.known:
            members |= {pid for pid in self.roots if pid in stats}
        grown = True
        while grown:
            more = {pid for pid, (_, f) in stats.items() if pid not in members and (int(f[1]) in members or int(f[3]) in leaders)}
            members |= more
            grown = bool(more)
        present = {pid: stats[pid] for pid in sorted(members)[:MOST_PROCESSES]}
        for pid in gone:
            del self.known[pid]
        self.known.update({pid: fields[19] for pid, (_, fields) in present.items()})
        return present, gone

    def leave_out_observers(self, stats):
        """Drop the collector, this script and the tools they start (a launch that the collector started stays)."""
        observers = set(self.exclude)
        grown = True
        while grown:
            more = {
                pid for pid, (_, f) in stats.items() if int(f[1]) in observers and pid not in observers and pid not in self.roots
            }
            observers |= more
            grown = bool(more)
        for pid in observers.intersection(stats).difference(self.roots):
            del stats[pid]


class Sampler:
    """State between samples: what was last printed of each thread, and what is printed once only."""

    def __init__(self, parameters):
        self.p = parameters
        self.tree = Tree(parameters["roots"], parameters["exclude"])
        self.commands, self.threads, self.names, self.environ, self.links = {}, {}, {}, {}, {}
        self.owners, self.previous, self.hung = {}, -1, set()

    def due(self, n, every):
        """Whether something that is done each so many samples is due, also where samples were left out."""
        return n // every != self.previous // every

    def sample(self, n):
        """All lines of sample number n."""
        began = time.monotonic()
        lines = [{"k": "sample", "n": n, "wall_ns": time_ns(), "mono_ns": int(began * 1e9)}]
        present, gone = self.tree.look()
        for pid in gone:
            lines.append({"k": "gone", "n": n, "pid": pid, "comm": self.names.pop(pid, None), "was": self.tree.last.get(pid)})
            self.commands.pop(pid, None)
            self.threads.pop(pid, None)
        count = 0
        for pid, (comm, fields) in present.items():
            self.names[pid], self.tree.last[pid] = comm, fields[0]
            lines.append(self.process(n, pid, comm, fields))
            if count < MOST_THREADS:
                count += self.thread_lines(n, pid, lines)
        sockets_due, fds_due = self.due(n, self.p["sockets_every"]), self.due(n, self.p["fds_every"])
        if sockets_due or fds_due:
            self.links = {pid: self.descriptors(pid) for pid in present}
        if fds_due:
            for pid, links in self.links.items():
                lines += [
                    {"k": "fds", "n": n, "pid": pid, "rows": links[at : at + ROWS_A_LINE]}
                    for at in range(0, len(links), ROWS_A_LINE)
                ]
        if sockets_due and present:
            lines.append({"k": "sockets", "n": n, "rows": self.sockets(next(iter(present)))})
        lines.append(self.host(n, next(iter(present), None)))
        self.new_environments(n, present, lines)
        self.previous = n
        lines.append({"k": "done", "n": n, "took_s": round(time.monotonic() - began, 4)})
        return lines, any(fields[0] not in "ZX" for _, fields in present.values())

    def process(self, n, pid, comm, fields):
        denied = set()
        base = f"/proc/{pid}/"
        line = {
            "k": "proc",
            "n": n,
            "pid": pid,
            "ppid": int(fields[1]),
            "sid": int(fields[3]),
            "state": fields[0],
            "comm": comm,
            "utime": int(fields[11]),
            "stime": int(fields[12]),
            "threads": int(fields[17]),
            "start": int(fields[19]),
            "vsize": int(fields[20]),
            "rss": int(fields[21]) * PAGE,
            "wchan": wchan(base, denied),
            "status": pairs(text(base + "status"), STATUS_KEYS),
            "io": pairs(text(base + "io", denied), None),
        }
        try:
            line["fds"] = len(os.listdir(base + "fd"))
        except PermissionError:
            denied.add("fd")
        except OSError:
            pass
        fresh = pid not in self.commands
        if fresh or self.due(n, 5) or self.commands[pid][0] != comm:
            argv = self.command(n, pid)
            if argv and (fresh or self.commands[pid][1] != argv):
                line["cmd"] = argv
            self.commands[pid] = (comm, argv or (None if fresh else self.commands[pid][1]))
        if pid in self.hung:
            line["hung"] = ["cmdline"]
        if fresh or self.due(n, self.p["key_every"]):
            line["cgroup"] = (text(base + "cgroup") or "").split("\n")[-1].split(":", 2)[-1]
            line["oom_score_adj"] = int(text(base + "oom_score_adj") or 0)
        if fields[0] == "Z" and len(fields) > 49:
            line["exit"] = int(fields[49])  # as wait() gives it, until the parent takes it
        if denied:
            line["denied"] = sorted(denied)
        return line

    def command(self, n, pid):
        """Command line; a process whose mmap lock is held would hang us, so it is asked again at key frames only."""
        if pid in self.hung and not self.due(n, self.p["key_every"]):
            return None
        finished, argv = patient(command_of, pid)
        (self.hung.discard if finished else self.hung.add)(pid)
        return argv

    def thread_lines(self, n, pid, lines):
        """Append the `threads` lines of one process; return how many threads it has."""
        whole = self.due(n, self.p["key_every"]) or pid not in self.threads
        before, now, out = {} if whole else self.threads[pid], {}, []
        try:
            tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
        except OSError:
            return 0
        for tid in tids:
            row = thread_row(pid, tid)
            if row is not None:
                now[tid] = row
                if before.get(tid) != row:
                    out.append(row)
        ended = [] if whole else [tid for tid in before if tid not in now]
        self.threads[pid] = now
        for at in range(0, max(len(out), 1), ROWS_A_LINE):
            lines.append({"k": "threads", "n": n, "pid": pid, "all": whole and at == 0, "rows": out[at : at + ROWS_A_LINE]})
            if ended and at == 0:
                lines[-1]["ended"] = ended
        return len(now)

    def descriptors(self, pid):
        """Rows [fd, mode, target] of one process."""
        rows, base = [], f"/proc/{pid}/fd/"
        try:
            names = sorted(map(int, os.listdir(base)))
        except OSError:
            return rows
        for fd in names[:MOST_FDS]:
            try:
                mode = os.lstat(base + str(fd)).st_mode
                rows.append([fd, "r" * bool(mode & 0o400) + "w" * bool(mode & 0o200), os.readlink(base + str(fd))])
            except OSError:
                pass
        return rows

    def sockets(self, pid):
        """TCP sockets of the tree and of the port, rows: protocol, state, queues, both ends, owner's pid, fd and name."""
        owners = {}
        for owner, links in self.links.items():
            for fd, _, target in links:
                if target.startswith("socket:["):
                    owners.setdefault(target[8:-1], (owner, fd, self.names.get(owner)))
        rows = []
        for protocol in ("tcp", "tcp6"):
            for line in (text(f"/proc/{pid}/net/{protocol}") or "").split("\n")[1:]:
                words = line.split()
                if len(words) < 10:
                    continue
                (here, port), (there, peer) = address(words[1]), address(words[2])
                inode, asked = words[9], self.p["port"] in (port, peer)
                if inode not in owners and not asked:
                    continue
                state = TCP_STATES[int(words[3], 16)] if int(words[3], 16) < len(TCP_STATES) else words[3]
                owner = owners.get(inode) or (self.stranger(inode) if state == "LISTEN" else None) or (None, None, None)
                send, receive = words[4].split(":")
                rows.append([protocol, state, int(receive, 16), int(send, 16), here, port, there, peer] + list(owner))
        return rows[:MOST_FDS]

    def stranger(self, inode):
        """Owner of a listener on the server's port that is none of the tree's: who took the port."""
        if inode not in self.owners:
            self.owners[inode] = None
            for name in os.listdir("/proc"):
                if name.isdigit():
                    for fd, _, target in self.descriptors(int(name)):
                        if target == "socket:[" + inode + "]":
                            self.owners[inode] = (int(name), fd, text("/proc/" + name + "/comm"))
                            return self.owners[inode]
        return self.owners[inode]

    def host(self, n, pid):
        pressure = {}
        for name in ("cpu", "io", "memory"):
            for line in (text("/proc/pressure/" + name) or "").split("\n"):
                words = line.split()
                if words:
                    pressure[name + " " + words[0]] = {
                        key: float(value) for key, _, value in (word.partition("=") for word in words[1:])
                    }
        load = (text("/proc/loadavg") or "").replace("/", " ").split()
        return {
            "k": "host",
            "n": n,
            "memory": pairs(text("/proc/meminfo"), MEMORY_KEYS),
            "load": [float(word) for word in load[:5]],
            "pressure": pressure,
            "cgroup": cgroup(pid),
        }

    def new_environments(self, n, present, lines):
        """Environment of each process once: the root's whole, of the others what differs from it."""
        for pid in present:
            if pid in self.environ:
                continue
            raw = None if pid in self.hung else patient(text, f"/proc/{pid}/environ")[1]
            if not raw:
                self.environ[pid] = {}
                continue
            own = dict(item.partition("=")[::2] for item in raw.split("\0") if "=" in item)
            base = next(iter(self.environ.values()), {})
            self.environ[pid] = own
            differs = {name: value for name, value in own.items() if base.get(name) != value}
            lines.append({"k": "env", "n": n, "pid": pid, "root": not base, "vars": scrub_environ(differs)})


def command_of(pid):
    """Scrubbed words of the command line, None where it is empty or unreadable. Titles (setproctitle) come as one word."""
    raw = text(f"/proc/{pid}/cmdline")
    return scrub_argv(raw.rstrip("\0 ").split("\0")) if raw else None


def wchan(base, denied=None):
    """Kernel function it sleeps in; None for "0", which says only that it runs or that reading is refused."""
    name = text(base + "wchan", denied)
    return name if name and name != "0" else None


def thread_row(pid, tid):
    base = f"/proc/{pid}/task/{tid}/"
    stat = text(base + "stat")
    if stat is None:
        return None
    comm, fields = parse_stat(stat)
    call = (text(base + "syscall") or "").split()
    sched = (text(base + "schedstat") or "").split()
    return [
        tid,
        fields[0],
        int(fields[11]),
        int(fields[12]),
        int(fields[36]),
        wchan(base),
        call[0] if call else None,
        " ".join(call[1:7]) if len(call) > 3 else None,
        comm,
    ] + ([int(word) for word in sched[:3]] if len(sched) >= 3 else [None] * 3)


def address(word):
    """Decode `0100007F:1F90` of /proc/net/tcp: (address, port)."""
    host, port = word.split(":")
    packed = b"".join(struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8))
    if len(packed) == 4:
        return ".".join(map(str, bytearray(packed))), int(port, 16)
    import socket

    return socket.inet_ntop(socket.AF_INET6, packed), int(port, 16)


def cgroup(pid):
    """Memory files of the process's control group, version 2 or 1; nothing where it has none of its own."""
    found = {}
    for line in (text(f"/proc/{pid}/cgroup") or "").split("\n") if pid else ():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0" and path not in ("", "/"):
            for name in ("memory.current", "memory.max", "memory.events"):
                block = text("/sys/fs/cgroup" + path + "/" + name)
                if block is not None:
                    found[name] = dict(row.split() for row in block.split("\n")) if name == "memory.events" else block
        elif "memory" in controllers.split(","):
            for name in ("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt"):
                block = text("/sys/fs/cgroup/memory" + path + "/" + name)
                if block is not None:
                    found[name] = block
    return found


def emit(lines):
    """Write lines whole; leave where nobody reads any more."""
    data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode("ascii")
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        os._exit(0)


def parameters():
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("STALLKIT_SAMPLER", "{}")
    chosen = {
        "roots": [],
        "port": None,
        "interval_s": 1.0,
        "samples": 31,
        "fds_every": 10,
        "sockets_every": 5,
        "key_every": 30,
        "exclude": [],
    }
    chosen.update(json.loads(given))
    return chosen


def head(chosen):
    boot = [line.split()[1] for line in (text("/proc/stat") or "").split("\n") if line.startswith("btime ")]
    try:
        boottime_ns = int(time.clock_gettime(7) * 1e9)  # CLOCK_BOOTTIME, named in the module since Python 3.7
    except OSError:
        boottime_ns = None
    uname = os.uname()
    return {
        "k": "head",
        "format": "stallkit-sampler",
        "version": 1,
        "wall_ns": time_ns(),
        "mono_ns": int(time.monotonic() * 1e9),
        "boottime_ns": boottime_ns,
        "btime": int(boot[0]) if boot else None,
        "hz": os.sysconf("SC_CLK_TCK"),
        "page": PAGE,
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "machine": uname.machine,
        "kernel": uname.release,
        "uid": os.getuid(),
        "roots": chosen["roots"],
        "port": chosen["port"],
        "interval_s": chosen["interval_s"],
        "samples": chosen["samples"],
    }


def main():
    chosen = parameters()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        os.nice(19)
    except OSError:
        pass
    emit([head(chosen)])
    sampler, began, n, why = Sampler(chosen), time.monotonic(), 0, "all samples taken"
    seen = False
    while n < chosen["samples"]:
        lines, present = sampler.sample(n)
        emit(lines)
        seen = seen or present
        if seen and not present:
            why = "all processes have ended"
            break
        n = max(n + 1, int((time.monotonic() - began) / chosen["interval_s"]))  # a sample that came too late is left out
        if n >= chosen["samples"] or stopped.wait(max(0.0, began + n * chosen["interval_s"] - time.monotonic())):
            why = "stopped" if stopped.is_set() else why
            break
    emit([{"k": "end", "n": n, "why": why, "wall_ns": time_ns()}])
    os._exit(0)  # a thread that still hangs in a read must not hold us


PAGE = os.sysconf("SC_PAGE_SIZE")
if __name__ == "__main__":
    main()
