"""The sampler where there is no /proc (macOS): the lines of script.py with what psutil gives. Runs as a program of its own:

    python -m kit.capture.sampler.portable '{"roots": [PID], "interval_s": 1.0, "samples": 31}'

Less than in /proc: no wait channel, no system call, no descriptors but files and sockets; of other users' processes only
state and size. It ends after its last sample, with the launch, or where its input ends.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from typing import Any

import psutil

from kit.capture.hosts.process_source import LETTERS
from kit.redact import scrub_argv
from kit.secret_environ import scrub_environ

FDS_EVERY = 10
MOST_ROWS = 400


def members(roots: list[int]) -> list[psutil.Process]:
    """The roots and their descendants, those that live."""
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found |= {process.pid: process for process in (root, *root.children(recursive=True))}
        except psutil.Error:
            continue
    return [found[pid] for pid in sorted(found)]


def read(process: psutil.Process, name: str, **how: Any) -> Any:
    """One thing about a process; None where it is refused or not there."""
    try:
        return getattr(process, name)(**how)
    except (psutil.Error, OSError, AttributeError, NotImplementedError):
        return None


def process_line(n: int, process: psutil.Process, hz: int, boot: float) -> dict[str, Any]:
    """The `proc` line of one process; what is refused is named under `denied`."""
    times, memory, io = read(process, "cpu_times"), read(process, "memory_info"), read(process, "io_counters")
    line = {
        "k": "proc",
        "n": n,
        "pid": process.pid,
        "all": True,
        "ppid": read(process, "ppid") or 0,
        "sid": 0,
        "state": LETTERS.get(read(process, "status"), "S"),
        "comm": read(process, "name") or "",
        "utime": int(times.user * hz) if times else 0,
        "stime": int(times.system * hz) if times else 0,
        "threads": read(process, "num_threads") or 0,
        "start": round(((read(process, "create_time") or boot) - boot) * hz),
        "vsize": memory.vms if memory else 0,
        "rss": memory.rss if memory else 0,
        "wchan": None,
        "status": {},
        "io": {"rchar": io.read_chars, "wchar": io.write_chars, "read_bytes": io.read_bytes, "write_bytes": io.write_bytes}
        if io and hasattr(io, "read_chars")
        else {},
    }
    command = read(process, "cmdline")
    if command:
        line["cmd"] = scrub_argv(command)
    if times is None:
        line["denied"] = ["stat"]
    return line


def thread_rows(process: psutil.Process, hz: int) -> list[list[Any]]:
    """Rows of the threads: number and CPU time are all that is known."""
    state, name = LETTERS.get(read(process, "status"), "S"), read(process, "name")
    return [
        [thread.id, state, int(thread.user_time * hz), int(thread.system_time * hz), 0, None, None, None, name, None, None, None]
        for thread in (read(process, "threads") or [])[:MOST_ROWS]
    ]


def open_lines(n: int, process: psutil.Process, first: bool) -> list[dict[str, Any]]:
    """Open files now and then, the environment once."""
    files = read(process, "open_files") or []
    rows = [[file.fd, "w" if getattr(file, "mode", "r") != "r" else "r", file.path] for file in files[:MOST_ROWS]]
    lines: list[dict[str, Any]] = [{"k": "fds", "n": n, "pid": process.pid, "all": True, "rows": rows}] if rows else []
    environment = read(process, "environ") if first else None
    if environment:
        lines.append({"k": "env", "n": n, "pid": process.pid, "root": True, "vars": scrub_environ(environment)})
    return lines


def socket_line(n: int, processes: list[psutil.Process]) -> dict[str, Any]:
    """TCP sockets of the launch."""
    rows = []
    for process in processes:
        for found in read(process, "net_connections", kind="tcp") or []:
            protocol = "tcp6" if found.family == socket.AF_INET6 else "tcp"
            there = (found.raddr.ip, found.raddr.port) if found.raddr else ("0.0.0.0", 0)
            ends = [found.laddr.ip, found.laddr.port, *there]
            state = {"ESTABLISHED": "ESTAB", "SYN_SENT": "SYN-SENT", "NONE": "UNCONN"}.get(found.status, found.status)
            rows.append([protocol, state.replace("_", "-"), 0, 0, *ends, process.pid, found.fd, read(process, "name")])
    return {"k": "sockets", "n": n, "rows": rows[:MOST_ROWS]}


def host_line(n: int) -> dict[str, Any]:
    """Memory and load of the machine."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    sizes = {"MemTotal": memory.total, "MemFree": memory.free, "MemAvailable": memory.available}
    sizes |= {"SwapTotal": swap.total, "SwapFree": swap.free}
    return {"k": "host", "n": n, "all": True, "memory": sizes, "load": list(os.getloadavg()), "pressure": {}, "cgroup": {}}


def sample(n: int, chosen: dict[str, Any], known: dict[int, str], hz: int, boot: float) -> tuple[list[dict[str, Any]], bool]:
    """All lines of a sample, and whether the launch lives."""
    began, cpu = time.monotonic(), time.process_time()
    lines: list[dict[str, Any]] = [{"k": "sample", "n": n, "wall_ns": time.time_ns(), "mono_ns": time.monotonic_ns()}]
    processes = [process for process in members(chosen["roots"]) if process.pid not in chosen["exclude"]]
    for process in processes:
        first = process.pid not in known
        line = process_line(n, process, hz, boot)
        lines += [line, {"k": "threads", "n": n, "pid": process.pid, "all": True, "rows": thread_rows(process, hz)}]
        known[process.pid] = line["comm"]
        if first or n % FDS_EVERY == 0:
            lines += open_lines(n, process, first)
    for pid in known.keys() - {process.pid for process in processes}:
        lines.append({"k": "gone", "n": n, "pid": pid, "comm": known.pop(pid), "was": None})
    if n % FDS_EVERY == 0:
        lines.append(socket_line(n, processes))
    lines.append(host_line(n))
    took, spent = time.monotonic() - began, time.process_time() - cpu
    lines.append({"k": "done", "n": n, "took_s": round(took, 4), "cpu_s": round(spent, 4)})
    return lines, any(line["state"] not in "ZX" for line in lines if line["k"] == "proc")


def head(chosen: dict[str, Any], hz: int) -> dict[str, Any]:
    """The first line."""
    uname, boot = os.uname(), psutil.boot_time()
    given = {name: chosen[name] for name in ("roots", "port", "interval_s", "samples")}
    about = {
        "hz": hz,
        "page": os.sysconf("SC_PAGE_SIZE"),
        "cpus": os.cpu_count(),
        "machine": uname.machine,
        "kernel": uname.release,
    }
    clocks = {"wall_ns": time.time_ns(), "mono_ns": time.monotonic_ns(), "boottime_ns": int((time.time() - boot) * 1e9)}
    own = {"uid": os.getuid(), "pid": os.getpid(), "btime": int(boot)}
    return {"k": "head", "format": "stallkit-sampler", "version": 2, **clocks, **about, **own, **given}


def main() -> None:
    """Sample until the launch or the collector ends."""
    chosen = {"port": None, "interval_s": 1.0, "samples": 31, "first": 0, "exclude": [], **json.loads(sys.argv[1])}
    chosen["exclude"] = [*chosen["exclude"], os.getpid()]
    hz, boot, known = os.sysconf("SC_CLK_TCK"), psutil.boot_time(), {}
    n, why, began = chosen["first"], "all samples taken", time.monotonic()

    def write(lines: list[dict[str, Any]]) -> None:
        sys.stdout.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        sys.stdout.flush()

    write([head(chosen, hz)])
    while n < chosen["samples"]:
        lines, alive = sample(n, chosen, known, hz, boot)
        write(lines)
        if not alive:
            why = "all processes have ended"
            break
        n += 1
        next_at = began + (n - chosen["first"]) * chosen["interval_s"]
        if n < chosen["samples"] and _input_ended(next_at):
            why = "stopped"
            break
    write([{"k": "end", "n": n, "why": why, "wall_ns": time.time_ns()}])


def _input_ended(until: float) -> bool:
    """Wait until then; true at once where our input ends. Signs of life of the collector are read over."""
    while (left := until - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0] and not os.read(0, 4096):
            return True
    return False


if __name__ == "__main__":
    main()
