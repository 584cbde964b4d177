"""The host as a whole: memory, pressure, load, control group, counters, sockets."""

import os
import struct

from kit.capture.sampler.process import MOST_FDS, descriptors
from kit.capture.sampler.reading import pairs, text

MEMORY_KEYS = """
    MemTotal MemFree MemAvailable Buffers Cached SReclaimable Shmem AnonPages Dirty Writeback SwapTotal SwapFree
""".split()
VMSTAT_KEYS = """
    pgmajfault pswpin pswpout pgscan_direct pgscan_kswapd pgsteal_direct pgsteal_kswapd allocstall_normal allocstall_movable
    compact_stall thp_fault_alloc thp_fault_fallback oom_kill workingset_refault_file nr_dirty nr_writeback
""".split()
DISK_FIELDS = (("reads", 3), ("sectors_read", 5), ("writes", 7), ("sectors_written", 9), ("in_flight", 11), ("busy_ms", 12))
"""Words of a line of /proc/diskstats (Documentation/admin-guide/iostats.rst, there counted from 1 behind the name)."""
TCP_STATES = """
    - ESTAB SYN-SENT SYN-RECV FIN-WAIT-1 FIN-WAIT-2 TIME-WAIT UNCONN CLOSE-WAIT LAST-ACK LISTEN CLOSING
""".split()


def host_line(pid):
    """Memory, load, pressure and the control group of one process."""
    return dict(host_entries(text), cgroup=cgroup(pid))


def host_entries(text_of):
    """Entries of a `host` line; `text_of` gives the text of a file."""
    pressure = {}
    for name in ("cpu", "io", "memory"):
        for line in (text_of("/proc/pressure/" + name) or "").split("\n"):
            words = line.split()
            if words:
                pressure[name + " " + words[0]] = {
                    key: float(value) for key, _, value in (word.partition("=") for word in words[1:])
                }
    load = (text_of("/proc/loadavg") or "").replace("/", " ").split()
    return {
        "memory": pairs(text_of("/proc/meminfo"), MEMORY_KEYS),
        "load": [float(word) for word in load[:5]],
        "pressure": pressure,
    }


def cgroup(pid, names=("memory.current", "memory.max", "memory.events")):
    """Memory files of the process's control group, version 2 or 1; nothing where it has none of its own."""
    found = {}
    for line in (text(f"/proc/{pid}/cgroup") or "").split("\n") if pid else ():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0" and path not in ("", "/"):
            for name in names:
                block = text("/sys/fs/cgroup" + path + "/" + name)
                if block is not None:
                    found[name] = dict(row.split() for row in block.split("\n")) if " " in block else block
        elif "memory" in controllers.split(","):
            for name in ("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt"):
                block = text("/sys/fs/cgroup/memory" + path + "/" + name)
                if block is not None:
                    found[name] = block
    return found


def counter_rows(pid):
    """Counters that are read seldom, rows [source, name, labels, value]: vmstat, disks, CPU limit of the control group."""
    rows = [["vmstat", key, None, value] for key, value in vmstat().items()]
    for line in (text("/proc/diskstats") or "").split("\n"):
        words = line.split()
        if len(words) > 12 and not words[2].startswith(("loop", "ram", "zram")) and words[3] != "0":
            rows += [["diskstats", name, words[2], int(words[at])] for name, at in DISK_FIELDS]
    for name, value in cgroup(pid, ("cpu.stat",)).get("cpu.stat", {}).items():
        rows.append(["cgroup", name, "cpu.stat", int(value)])
    return rows


def vmstat():
    every = dict(line.split() for line in (text("/proc/vmstat") or "").split("\n") if line)
    return {key: int(every[key]) for key in VMSTAT_KEYS if key in every}


def address(word):
    """Decode `0100007F:1F90` of /proc/net/tcp: (address, port)."""
    host, port = word.split(":")
    packed = b"".join(struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8))
    if len(packed) == 4:
        return ".".join(map(str, bytearray(packed))), int(port, 16)
    import socket

    return socket.inet_ntop(socket.AF_INET6, packed), int(port, 16)


class Sockets:
    """TCP sockets of the tree and of the server's port."""

    def __init__(self, port):
        self.port, self.strangers = port, {}

    def rows(self, pid, links, names):
        """Rows: protocol, state, queues, both ends, owner's pid, fd and name. `links` are the descriptors by pid."""
        owners = {}
        for owner, rows in links.items():
            for fd, _, target in rows:
                if target.startswith("socket:["):
                    owners.setdefault(target[8:-1], (owner, fd, names.get(owner)))
        found = []
        for protocol in ("tcp", "tcp6"):
            for line in (text(f"/proc/{pid}/net/{protocol}") or "").split("\n")[1:]:
                words = line.split()
                if len(words) < 10:
                    continue
                (here, port), (there, peer) = address(words[1]), address(words[2])
                inode = words[9]
                if inode not in owners and self.port not in (port, peer):
                    continue
                state = TCP_STATES[int(words[3], 16)] if int(words[3], 16) < len(TCP_STATES) else words[3]
                owner = owners.get(inode) or (self.stranger(inode) if state == "LISTEN" else None) or (None, None, None)
                send, receive = words[4].split(":")
                found.append([protocol, state, int(receive, 16), int(send, 16), here, port, there, peer] + list(owner))
        return found[:MOST_FDS]

    def stranger(self, inode):
        """Owner of a listener on the server's port that is none of the tree's: who took the port."""
        if inode not in self.strangers:
            self.strangers[inode] = None
            for name in os.listdir("/proc"):
                if name.isdigit():
                    for fd, _, target in descriptors(int(name)):
                        if target == "socket:[" + inode + "]":
                            self.strangers[inode] = (int(name), fd, text("/proc/" + name + "/comm"))
                            return self.strangers[inode]
        return self.strangers[inode]
