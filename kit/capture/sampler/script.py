"""The sampler: reads a launch's processes in /proc once an interval and prints what it saw as JSON lines.

The modules of this package are joined to one text (`kit.capture.sampler_program`) and fed to an interpreter's standard input
as `python3 -S -I -`: standard library, syntax of Python 3.6, nothing written to disk. The scrubbing functions of
kit/redact.py stand in front, so that no secret leaves the host. PARAMETERS is a JSON object: a variable in front of the
text, the first argument, or the environment's STALLKIT_SAMPLER.

    roots         pids whose trees are sampled
    port          port of the server, or null
    interval_s    seconds between samples (1.0)
    samples       number of the sample before which it stops (31); it always stops by itself
    first         number of the first sample (0): a sampler that goes on for another counts on
    fds_every     descriptors, locks, limits, downloads and seldom counters each so many samples (10); where the same numbers
                  are open as before, what they lead to is looked up each third time
    sockets_every sockets each so many samples (10)
    gpu_every     GPU tools each so many samples (10), where there are any
    program_s     time limit of each of them (5.0)
    tools         which: [program, [command, ...]] each, from the table of tools
    key_every     everything in full each so many samples (30); between them only what changed
    stacks_every  kernel stacks of threads in D or R each so many samples (0: never; only root may read them)
    dmesg_lines   the last lines of the kernel log, then each `key_every` what is new (0: never)
    exclude       pids never sampled (the collector)
    listen_fd     descriptor on which the collector gives signs of life; its end ends the sampler (null: none)
    patience_s    and so does silence there of so many seconds
    nice          how much lower than the collector's its priority is (19, the lowest)
    compress      print one raw deflate stream, flushed at each sample

Lines, one JSON object each, `k` says which: `head`, then for each sample `sample`, per process `proc` and `threads`,
`gone` for a process that vanished, now and then `fds`, `limits`, `env`, `stack`; of the host `host`, and now and then
`counters`, `sockets`, `locks`, `sizes`, `disks`, `tool`, `hung`, `left_out`; then `done` with the time and the CPU that it
cost; at last `end`. Fields are kernel terms;
`threads` rows are [tid, state, utime, stime, processor, wchan, syscall, arguments, comm, run_ns, wait_ns, slices].
`proc` and `host` lines hold the entries that changed since the line before, all of them where they say `all`, `threads`
lines the threads that changed, `fds` lines say `same` where nothing did. Key frames are spread: each process has its turn.
"""

import json
import os
import select
import signal
import sys
import threading
import time
import zlib

from kit.capture.sampler.files import download_rows, filesystem_row, hub_of, lock_rows
from kit.capture.sampler.machine import Sockets, counter_rows, host_line
from kit.capture.sampler.process import PAGE, Process, command_of, descriptors, environ_of, oom_rows
from kit.capture.sampler.programs import Programs, which
from kit.capture.sampler.reading import Aside, Held, difference, raise_limit, text
from kit.capture.sampler.threads import Threads, kernel_stacks
from kit.capture.sampler.tree import Tree
from kit.redact import scrub_text
from kit.secret_environ import scrub_environ

MOST_THREADS, MOST_STACKS, ROWS_A_LINE = 20000, 64, 400
LATE = 3
"""So many samples left out make a gap: after it everything is said in full."""
FIRST_WAIT_S, WAIT_S = 0.5, 0.03
"""How long a sample waits for work at the side, once, and later where some was asked for."""
time_ns = getattr(time, "time_ns", lambda: int(time.time() * 1e9))
stopped = threading.Event()


class Sampler:
    """State between samples."""

    def __init__(self, chosen, programs):
        self.p, self.programs = chosen, programs
        self.tree = Tree(chosen["roots"], chosen["exclude"])
        self.processes, self.threads, self.names, self.links, self.printed_links = {}, {}, {}, {}, {}
        self.quick, self.slow, self.asked = Aside(1.0), Aside(2 * LATE), Aside(3 * LATE)
        self.sockets, self.host, self.hub, self.since = Sockets(chosen["port"]), None, None, time.time()
        self.previous, self.left_out, self.last_message, self.cpu_s = None, None, None, 0.0
        self.gpu_tools = [(tool, commands) for tool, commands in chosen["tools"] if which(tool)]

    def due(self, n, every, turn=0):
        """Whether something that is done each so many samples is due, also where samples were left out."""
        return self.previous is None or (every > 0 and (n + turn) // every != (self.previous + turn) // every)

    def sample(self, n):
        """All lines of sample number n, and whether the launch lives."""
        began = time.monotonic()
        lines = [{"k": "sample", "n": n, "wall_ns": time_ns(), "mono_ns": int(began * 1e9)}]
        gap = self.previous is None or n - self.previous > LATE
        present, gone, left_out = self.tree.look(gap or self.due(n, self.p["key_every"]))
        for pid in gone:
            self.forget(n, pid, lines)
        room = MOST_THREADS
        for pid, (comm, fields) in present.items():
            room -= self.one_process(n, pid, comm, fields, gap, room, lines)
        self.say_left_out(n, left_out, lines)
        if self.due(n, self.p["fds_every"]) or self.due(n, self.p["sockets_every"]):
            self.seldom(n, present, lines)
        lines.append(self.host_changes(n, next(iter(present), None), gap))
        if self.p["stacks_every"] and self.due(n, self.p["stacks_every"]):
            lines += kernel_stacks(n, self.threads, MOST_STACKS)
        self.ask(n, present)
        self.take(n, lines)
        self.previous, cpu_s = n, time.process_time()
        took_s, self.cpu_s, spent_s = time.monotonic() - began, cpu_s, cpu_s - self.cpu_s
        lines.append({"k": "done", "n": n, "took_s": round(took_s, 4), "cpu_s": round(spent_s, 4)})
        return lines, any(fields[0] not in "ZX" for _, fields in present.values())

    def forget(self, n, pid, lines):
        known = self.processes.pop(pid)
        known.close()
        self.threads.pop(pid).close()
        self.links.pop(pid, None)
        lines.append({"k": "gone", "n": n, "pid": pid, "comm": self.names.pop(pid, None), "was": known.state})

    def one_process(self, n, pid, comm, fields, gap, room, lines):
        """Append the lines of one process; return how many threads it has."""
        fresh = pid not in self.processes
        if fresh:
            self.processes[pid], self.threads[pid] = Process(pid, fields[19]), Threads(pid)
        known, self.names[pid] = self.processes[pid], comm
        whole = fresh or gap or self.due(n, self.p["key_every"], pid)
        line = known.line(comm, fields, whole)
        if ("command", pid, known.start) in self.quick.stuck:
            line["hung"] = ["cmdline"]
        changed = None if whole else difference(line, known.printed)
        entry = {"k": "proc", "n": n, "pid": pid}
        entry.update(dict(line, all=True) if changed is None else changed)
        known.printed = line
        lines.append(entry)
        rows, ended, left_out = self.threads[pid].look(int(fields[17]), whole, room)
        for at in range(0, max(len(rows), 1 if ended or whole or left_out else 0), ROWS_A_LINE):
            lines.append({"k": "threads", "n": n, "pid": pid, "all": whole and at == 0, "rows": rows[at : at + ROWS_A_LINE]})
            if at == 0 and ended and not whole:
                lines[-1]["ended"] = ended
            if at == 0 and left_out:
                lines[-1]["left_out"] = left_out
        return len(self.threads[pid].known)

    def say_left_out(self, n, left_out, lines):
        if left_out and left_out != self.left_out:
            lines.append({"k": "left_out", "n": n, "processes": left_out})
        self.left_out = left_out

    def seldom(self, n, present, lines):
        """Descriptors and what follows from them, limits, counters that change slowly."""
        again = self.due(n, 3 * self.p["fds_every"])
        self.links = {pid: descriptors(pid, None if again else self.links.get(pid)) for pid in present}
        if self.due(n, self.p["sockets_every"]) and present:
            lines.append({"k": "sockets", "n": n, "rows": self.sockets.rows(next(iter(present)), self.links, self.names)})
        if not self.due(n, self.p["fds_every"]):
            return
        for pid, rows in self.links.items():
            if rows and rows == self.printed_links.get(pid) and not self.due(n, 3 * self.p["fds_every"], pid):
                lines.append({"k": "fds", "n": n, "pid": pid, "same": True})
                continue
            for at in range(0, len(rows), ROWS_A_LINE):
                lines.append({"k": "fds", "n": n, "pid": pid, "all": at == 0, "rows": rows[at : at + ROWS_A_LINE]})
        self.printed_links = self.links
        first = next(iter(present), None)
        counters = counter_rows(first)
        for pid in present:
            known, base = self.processes[pid], self.processes[first]
            values = known.new_limits(base if known is not base else None)
            counters += oom_rows(pid)
            if values:
                lines.append({"k": "limits", "n": n, "pid": pid, "values": values})
        lines.append({"k": "counters", "n": n, "rows": counters})

    def host_changes(self, n, pid, gap):
        now = host_line(pid)
        changed = None if self.host is None or gap or self.due(n, self.p["key_every"]) else difference(now, self.host)
        self.host, entry = now, {"k": "host", "n": n}
        entry.update(dict(now, all=True) if changed is None else changed)
        return entry

    # work at the side

    def ask(self, n, present):
        """Ask for what may hang."""
        for pid in present:
            known = self.processes[pid]
            if known.argv is None or known.argv_comm != known.comm or self.due(n, self.p["key_every"], pid):
                self.quick.ask(("command", pid, known.start), command_of, pid)
            if known.environ is None and ("command", pid, known.start) not in self.quick.stuck:
                self.quick.ask(("environ", pid, known.start), environ_of, pid)
        if self.due(n, self.p["fds_every"]) and present:
            first = next(iter(present))
            self.slow.ask("locks", lock_rows, dict(self.links), dict(self.names))
            self.slow.ask("sizes", download_rows, dict(self.links), self.hub, self.since)
            if self.due(n, 3 * self.p["fds_every"]):
                for path in self.places(first):
                    self.slow.ask("disk " + path, filesystem_row, first, path)
        if self.gpu_tools and self.due(n, self.p["gpu_every"]):
            for tool, commands in self.gpu_tools:
                self.asked.ask(tool, self.programs.gpus, tool, commands)
        if self.p["dmesg_lines"] and self.due(n, self.p["key_every"]):
            self.asked.ask("dmesg", self.programs.kernel_log, self.p["dmesg_lines"], self.last_message)

    def places(self, pid):
        """Folders whose file systems matter: shared memory, temporary files, where the launch runs, where models lie."""
        try:
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            cwd = None
        return [path for path in ("/dev/shm", "/tmp", cwd, self.hub) if path]

    def take(self, n, lines):
        """Append what the work at the side has brought."""
        wait_s = FIRST_WAIT_S if self.previous is None else WAIT_S
        procs = {line["pid"]: line for line in lines if line["k"] == "proc"}
        ready, given_up = self.quick.take(wait_s)
        environs = {}
        for (what, pid, start), result in ready:
            known = self.processes.get(pid)
            if known is None or known.start != start:
                continue
            if what == "command":
                if result and result != known.argv:
                    procs[pid]["cmd"] = result
                known.argv, known.argv_comm = result or known.argv or [], known.comm
            else:
                environs[pid] = result or {}
        for pid in sorted(environs):
            self.environment(n, pid, environs[pid], lines)
        for aside, wait in ((self.slow, wait_s), (self.asked, 0)):
            ready, stuck = aside.take(wait)
            given_up = given_up + [key for key in stuck]
            for key, result in ready:
                self.brought(n, key, result, lines)
        for key in given_up:
            if not isinstance(key, tuple):
                lines.append({"k": "hung", "n": n, "what": key})

    def environment(self, n, pid, own, lines):
        """Environment of each process once: the first one's whole, of the others what differs from it."""
        base = next((known.environ for known in self.processes.values() if known.environ), None)
        self.processes[pid].environ = own
        self.hub = self.hub or hub_of(own)
        differs = {name: value for name, value in own.items() if (base or {}).get(name) != value}
        if own:
            lines.append({"k": "env", "n": n, "pid": pid, "root": base is None, "vars": scrub_environ(differs)})

    def brought(self, n, key, result, lines):
        if not result:
            return
        if key in ("locks", "sizes"):
            lines.append({"k": key, "n": n, "rows": result})
        elif key.startswith("disk "):
            if not any(line["k"] == "disks" and line["rows"][0][:2] == result[:2] for line in lines):
                lines.append({"k": "disks", "n": n, "rows": [result]})
        elif result["text"] or result.get("hung"):
            result["text"] = scrub_text(result["text"])
            if key == "dmesg":
                self.last_message = result["text"].rsplit("\n", 1)[-1]
            lines.append(dict(result, k="tool", n=n))


class Output:
    """Standard output: whole lines, compressed where asked for. Leaves where nobody reads any more."""

    def __init__(self, compress, programs):
        self.stream, self.programs = zlib.compressobj(6, zlib.DEFLATED, -15) if compress else None, programs

    def write(self, lines):
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode("ascii")
        if self.stream is not None:
            data = self.stream.compress(data) + self.stream.flush(zlib.Z_SYNC_FLUSH)
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            self.leave()

    def leave(self):
        """End at once: a thread that hangs in a read must not hold us, and no program of ours stays."""
        self.programs.leave()
        os._exit(0)


def listen(handle, patience_s, output):
    """Wait for signs of life of the collector; end where it ended its side or is silent."""
    while select.select([handle], [], [], patience_s)[0]:
        if not os.read(handle, 4096):
            break
    stopped.set()
    time.sleep(2.0)  # the main thread says its last line, unless it waits to be read
    output.leave()


def parameters():
    given = globals().get("PARAMETERS") or (sys.argv[1] if len(sys.argv) > 1 else os.environ.get("STALLKIT_SAMPLER", "{}"))
    chosen = {
        "roots": [],
        "port": None,
        "interval_s": 1.0,
        "samples": 31,
        "first": 0,
        "fds_every": 10,
        "sockets_every": 10,
        "gpu_every": 10,
        "program_s": 5.0,
        "tools": [],
        "key_every": 30,
        "stacks_every": 0,
        "dmesg_lines": 0,
        "exclude": [],
        "listen_fd": None,
        "patience_s": 15.0,
        "nice": 19,
        "compress": False,
    }
    chosen.update(json.loads(given))
    chosen["exclude"] = chosen["exclude"] + [os.getpid()]
    if chosen["listen_fd"] is not None:
        chosen["exclude"].append(os.getppid())  # the shell that started us
    return chosen


def head(chosen):
    boot = [line.split()[1] for line in (text("/proc/stat") or "").split("\n") if line.startswith("btime ")]
    try:
        boottime_ns = int(time.clock_gettime(7) * 1e9)  # CLOCK_BOOTTIME, named in the module since Python 3.7
    except OSError:
        boottime_ns = None
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = None
    uname = os.uname()
    return {
        "k": "head",
        "format": "stallkit-sampler",
        "version": 2,
        "wall_ns": time_ns(),
        "mono_ns": int(time.monotonic() * 1e9),
        "boottime_ns": boottime_ns,
        "btime": int(boot[0]) if boot else None,
        "hz": os.sysconf("SC_CLK_TCK"),
        "page": PAGE,
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "machine": uname.machine,
        "kernel": uname.release,
        "pid_ns": namespace,
        "uid": os.getuid(),
        "pid": os.getpid(),
        "roots": chosen["roots"],
        "port": chosen["port"],
        "interval_s": chosen["interval_s"],
        "samples": chosen["samples"],
    }


def main():
    chosen = parameters()
    programs = Programs(chosen["program_s"])
    output = Output(chosen["compress"], programs)
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        os.nice(chosen["nice"])
    except OSError:
        pass
    Held.room = raise_limit()
    output.write([head(chosen)])
    if chosen["listen_fd"] is not None:
        watcher = threading.Thread(target=listen, args=(chosen["listen_fd"], chosen["patience_s"], output))
        watcher.daemon = True
        watcher.start()
    sampler, began, first, why = Sampler(chosen, programs), time.monotonic(), chosen["first"], "all samples taken"
    n, seen, interval_s = first, False, chosen["interval_s"]
    while n < chosen["samples"]:
        lines, present = sampler.sample(n)
        output.write(lines)
        seen = seen or present
        if seen and not present:
            why = "all processes have ended"
            break
        # A sample that came too late is left out.
        n = max(n + 1, first + int((time.monotonic() - began) / interval_s))
        if n >= chosen["samples"] or stopped.wait(max(0.0, began + (n - first) * interval_s - time.monotonic())):
            why = "stopped" if stopped.is_set() else why
            break
    output.write([{"k": "end", "n": n, "why": why, "wall_ns": time_ns()}])
    output.leave()


if __name__ == "__main__":
    main()
