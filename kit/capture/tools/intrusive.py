"""What slows or stops the launch, on request only: stacks by py-spy and gdb, system calls by strace, smaps_rollup.

Each runs on the host with a time limit that holds there, so that a lost connection leaves nothing attached. Nothing is
installed there. What cannot be had is said with what mends it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from kit.capture.hosts.host import Host
from kit.capture.manifest import Manifest
from kit.capture.processes import process_table, tree_of
from kit.capture.tools import commands as tools

PAGE_BYTES = 4096
AS_ROOT = "record as root or with CAP_SYS_PTRACE (--sudo)"
GET_PY_SPY = "install it on the host: pip install py-spy; or copy its one file there and put it on the PATH"


class IntrusiveTools:
    """The tools that a launch feels.

    Parameters
    ----------
    host : Host
        Where it runs.
    manifest : Manifest
        Of the recording.
    pid : int or None
        The launched process.
    progress : callable
        Is told what begins.
    """

    def __init__(self, host: Host, manifest: Manifest, pid: int | None, progress: Callable[[str], None]):
        self.host, self.manifest, self.pid, self.progress = host, manifest, pid, progress
        self.strace: tools.Strace | None = None

    def dump_stacks(self, moment: int) -> None:
        """Python stacks of all processes of the launch, at the same moment."""
        if not self.host.has("py-spy") or self.pid is None:
            why, do = (
                ("no process is known", "name it: --pid PID") if self.pid is None else ("py-spy is not installed", GET_PY_SPY)
            )
            self.manifest.lacks("Python stacks", why, do)
            return
        texts, tree = [], tree_of(self.host, self.pid)
        if not tree:
            self.manifest.lacks("Python stacks", f"process {self.pid} has ended", "record the next launch")
            return
        pids = tools.python_pids(self.host, tree)
        for pid, ran in tools.py_spy_dumps(self.host, pids).items():
            if ran.code != 0:
                self.manifest.lacks(f"Python stacks of process {pid}", ran.failure, AS_ROOT)
            texts.append(ran.text if ran.code == 0 else f"Process {pid}: \n{ran.text}\n")
        if not texts:
            why = "no process of the launch is a Python interpreter"
            self.manifest.lacks("Python stacks", why, "use gdb: kit collect … --gdb")
            return
        self.manifest.save(
            f"pyspy.t{moment}.txt", "pyspy", "py-spy dump --nonblocking --pid PID", "\n".join(texts), moment=moment
        )

    def dump_native(self, moment: int) -> None:
        """C frames of all threads of all processes, by gdb."""
        if not self.host.has("gdb"):
            self.manifest.lacks("C stacks", "gdb is not installed", "install it: apt-get install gdb, dnf install gdb")
            return
        commands = {pid: tools.gdb_command(pid) for pid in tree_of(self.host, self.pid)}
        for pid, ran in tools.run_all(self.host, commands, tools.GDB_S).items():
            if "ptrace: Operation not permitted" in ran.text or ran.code != 0:
                self.manifest.lacks(f"C stacks of process {pid}", ran.failure if ran.code else "ptrace is not permitted", AS_ROOT)
            file = f"gdb.pid{pid}.t{moment}.txt"
            self.manifest.save(file, "gdb", shlex.join(commands[pid]), ran.text, moment=moment, pid=pid)

    def read_smaps(self, moment: int) -> None:
        """smaps_rollup of all processes; its price is told first, for it grows with their memory."""
        table = process_table(self.host)
        pids = [pid for pid in tree_of(self.host, self.pid) if pid in table]
        price_s = sum(table[pid].rss_pages for pid in pids) * PAGE_BYTES / 1e9 * tools.SMAPS_PRICE_S_PER_GB
        self.progress(f"smaps_rollup: up to {price_s:.2f} s in which the processes cannot map memory")
        commands = {pid: ["cat", f"/proc/{pid}/smaps_rollup"] for pid in pids}
        for pid, ran in tools.run_all(self.host, commands, tools.PY_SPY_S).items():
            if ran.code != 0:
                self.manifest.lacks(f"smaps_rollup of process {pid}", ran.failure, "record as its owner or as root (--sudo)")
            elif ran.text:
                file = f"smaps-rollup.pid{pid}.t{moment}.txt"
                self.manifest.save(file, "smaps_rollup", " ".join(commands[pid]), ran.text, moment=moment, pid=pid)

    def start_strace(self, seconds: float, pid: int | None = None) -> None:
        """Attach strace for so many seconds, to all processes of the launch or to one."""
        for name in ("strace", "timeout"):
            if not self.host.has(name):
                self.manifest.lacks(
                    "system calls", f"{name} is not installed", f"install it: apt-get install {name}, dnf install {name}"
                )
                return
        tree = tree_of(self.host, self.pid)
        pids = tree if pid is None else [pid]
        if not tree:
            self.manifest.lacks("system calls", f"process {self.pid} has ended", "record the next launch")
            return
        for traced, tracer in tools.tracers_of(self.host, pids).items():
            pids = [one for one in pids if one != traced]
            self.manifest.lacks(
                f"system calls of process {traced}",
                f"process {tracer} traces it already, and only one tracer fits a process",
                f"end that one first: ps -p {tracer} -o pid,args",
            )
        if not pids:
            return
        self.progress(f"strace on {len(pids)} processes for {seconds:g} s")
        earlier = sum(entry["kind"] == "strace" for entry in self.manifest.data["captures"])
        file = f"strace.{earlier + 1}.txt" if earlier else "strace.txt"
        raw = self.manifest.open(file, "strace", " ".join(tools.strace_command(pids, seconds)))
        self.strace = tools.Strace(self.host, pids, seconds, raw)

    def end_strace(self, patience_s: float) -> None:
        """Wait for its end and close its capture."""
        strace, self.strace = self.strace, None
        failure = strace.finish(patience_s) if strace is not None else None
        if failure:
            self.manifest.lacks("system calls", failure, AS_ROOT)
