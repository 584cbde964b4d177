"""Tools that slow or stop the launch, on request only: stacks by py-spy and gdb, system calls by strace, smaps_rollup.

Each runs on the host with a time limit that holds there, so that a lost connection leaves nothing attached. Nothing is
installed there. What cannot be had is listed with what gets it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from kit.capture.hosts.host import Host, Ran
from kit.capture.manifest import Manifest
from kit.capture.processes import tree_of
from kit.capture.tools.strace import Strace, attach_words, tracers_of
from kit.tool_table import Tool, tool

AS_ROOT = "record as root or with CAP_SYS_PTRACE (--sudo)"
_REFUSED = re.compile(r"(?i)ptrace: operation not permitted")
_FINAL = re.compile(r"(?i)permission|not permitted|no such process")
"""Failures after which the fallback of a tool would fail too."""


class IntrusiveTools:
    """The tools that a launch feels."""

    def __init__(self, host: Host, manifest: Manifest, pid: int | None, progress: Callable[[str], None]):
        self.host, self.manifest, self.pid, self.progress = host, manifest, pid, progress
        self.strace: Strace | None = None

    def take_each(self, chosen: Tool, moment: int, only: list[int] | None = None) -> None:
        """Run a tool on every process of the launch, or on some, all at the same moment."""
        pids = [pid for pid in self._pids(chosen) if only is None or pid in only]
        if not pids:
            return
        if chosen.s_per_gb:
            memory = self.host.processes.table()
            price_s = sum(memory[pid].rss_bytes for pid in pids if pid in memory) / 1e9 * chosen.s_per_gb
            self.progress(f"{chosen.what}: up to {price_s:.2f} s during which mmap in the processes blocks")
        texts = []
        for pid, ran in self.run_each(chosen, pids).items():
            failed = ran.code != 0 or _REFUSED.search(ran.text)
            if failed:
                why = "ptrace is not permitted" if ran.code == 0 else ran.failure
                self.manifest.lacks(f"{chosen.what} of process {pid}", why, AS_ROOT)
            if chosen.joined:
                texts.append(f"Process {pid}: \n{ran.text}\n" if failed else ran.text)
            elif ran.text and ran.code == 0 or chosen.needs == "ptrace":
                source = shlex.join(chosen.words(pid=pid))
                self.manifest.save(chosen.capture_file(moment, pid), chosen.kind, source, ran.text, moment=moment, pid=pid)
        if texts:
            source = shlex.join(chosen.words())
            self.manifest.save(chosen.capture_file(moment), chosen.kind, source, "\n".join(texts), moment=moment)

    def run_each(self, chosen: Tool, pids: list[int]) -> dict[int, Ran]:
        """Its output by process; where it failed for a reason that may not hold again, that of its fallback."""
        path = self.host.abilities.programs.get(chosen.program, chosen.program)
        ran = self.host.run_each({pid: [path, *chosen.words(pid=pid)[1:]] for pid in pids}, chosen.limit_s)
        again = [pid for pid, one in ran.items() if one.code and not one.timed_out and not _FINAL.search(one.errors)]
        if not chosen.fallback or not again:
            return ran
        commands = {pid: [path, *chosen.words(chosen.fallback, pid=pid)[1:]] for pid in again}
        return ran | self.host.run_each(commands, chosen.limit_s)

    def _pids(self, chosen: Tool) -> list[int]:
        """Processes that it can look into; where there are none, why is listed as missing."""
        tree = tree_of(self.host, self.pid)
        pids = self.host.processes.interpreters(tree) if chosen.only == "python" and tree else tree
        why, do = "", ""
        if self.pid is None:
            why, do = "no process is known", "name it: --pid PID"
        elif not self.host.has(chosen.program):
            why, do = f"{chosen.program} is not installed", chosen.how_to_get
        elif not tree:
            why, do = f"process {self.pid} has ended", "record the next launch"
        elif not pids:
            why, do = "no process of the launch is a Python interpreter", "use gdb: kit collect … --gdb"
        if why:
            self.manifest.lacks(chosen.what, why, do)
            return []
        return pids

    def start_strace(self, seconds: float, pid: int | None = None) -> None:
        """Attach strace for so many seconds, to all processes of the launch or to one."""
        chosen = tool("strace")
        tree = self._pids(chosen)
        if not tree:
            return
        if not self.host.has("timeout"):
            self.manifest.lacks(chosen.what, "timeout is not installed", "install coreutils")
            return
        pids = tree if pid is None else [pid]
        for traced, tracer in tracers_of(self.host, pids).items():
            pids = [other for other in pids if other != traced]
            self.manifest.lacks(
                f"system calls of process {traced}",
                f"process {tracer} already traces it, and a process can have one tracer only",
                f"end that one first: ps -p {tracer} -o pid,args",
            )
        if not pids:
            return
        self.progress(f"strace on {len(pids)} {'process' if len(pids) == 1 else 'processes'} for {seconds:g} s")
        earlier = sum(entry["kind"] == "strace" for entry in self.manifest.data["captures"])
        words = chosen.words(seconds=f"{seconds:g}", attach=attach_words(pids))
        raw = self.manifest.open(f"strace.{earlier + 1}.txt" if earlier else "strace.txt", "strace", shlex.join(words))
        self.strace = Strace(self.host, words, raw)

    def end_strace(self, patience_s: float) -> None:
        """Wait for its end and close its capture."""
        strace, self.strace = self.strace, None
        failure = strace.finish(patience_s) if strace is not None else None
        if failure:
            self.manifest.lacks("system calls", failure, AS_ROOT)
