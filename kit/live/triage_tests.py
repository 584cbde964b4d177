"""Tests that can be run on a live launch, under the names that `kit/knowledge/captures.toml` gives them.

Each looks, appends what it saw to the recording, and says whether there is anything new to judge. None changes the launch;
those that slow it (py-spy, gdb, strace) run only where they were allowed. One that needs a second look is asked again.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable

from kit import knowledge_paths
from kit.capture.hosts.host import HostLost
from kit.capture.processes import descendants, listener_of, process_table, tree_of
from kit.capture.recording import Recording
from kit.capture.tools import commands as tools
from kit.capture.tools import probe
from kit.parse import grammar

SECOND_LOOK_S = 10.0
"""Seconds between the two tests of a test that needs two: long enough for a token, a file, a byte that does arrive."""
STRACE_S = 4.0
FOLDER_S = 5.0
"""Time limit for measuring folders: a cache on a network file system may hold a million files."""
REQUEST_S = (5.0, 30.0)
"""Shortest and longest time that the one real request is given."""
CONSENT = {"python_stacks": ("py-spy",), "native_stacks": ("gdb", "py-spy"), "system_calls": ("strace",)}
"""Programs that a test may use, one of which must be allowed."""


class TriageTests:
    """The tests of one launch.

    Parameters
    ----------
    recording : Recording
        Where the captures go.
    allow : collection of str
        Programs that may slow the launch: `py-spy`, `gdb`, `strace`; `request` allows the one real request also where the
        owner of the port cannot be told.
    """

    def __init__(self, recording: Recording, allow=()):
        self.recording, self.allow = recording, frozenset(allow)
        self.host, self.launch, self.manifest = recording.host, recording.launch, recording.manifest
        self.times: Counter[str] = Counter()
        self.last: dict[str, float] = {}
        self._twice: dict[str, Callable[[int], bool]] = {"metrics": self.metrics, "folder_sizes": self.folder_sizes}
        self._once: dict[str, Callable[[int], bool]] = {
            "sockets": self.sockets,
            "gpu_state": self.gpu_state,
            "kernel_log": self.kernel_log,
            "process_table": self.process_table,
            "lock_files": self.lock_files,
            "native_stacks": self.native_stacks,
            "system_calls": self.system_calls,
            "one_request": self.one_request,
        }

    def can_run(self, name: str | None) -> bool:
        """Whether a test is known here, allowed, and not yet done."""
        programs = CONSENT.get(name or "")
        if programs and not self.allow & set(programs):
            return False
        if name in self._twice or name == "python_stacks":
            return self.times[name] < 2 and time.monotonic() - self.last.get(name, -1e9) >= SECOND_LOOK_S
        return name in self._once and not self.times[name] and (name != "one_request" or self.may_ask())

    def waits(self, name: str | None) -> bool:
        """Whether its second look is still to come."""
        return self.times[name or ""] == 1 and (name in self._twice or name == "python_stacks")

    def run(self, name: str) -> bool:
        """Run a test; False where it had nothing to look at, or where the host was lost meanwhile."""
        number = self.times[name]
        self.times[name] += 1
        self.last[name] = time.monotonic()
        if name == "python_stacks":
            self.recording.dump_stacks(number)
            return True
        try:
            return (self._twice.get(name) or self._once[name])(number)
        except HostLost:
            return False

    def _tree(self) -> list[int]:
        return tree_of(self.host, self.launch.pid)

    # what costs nothing to speak of

    def sockets(self, number: int) -> bool:
        """Listeners and connections of the launch, and who holds its port."""
        pids = set(self._tree())
        return self._tool("ss", ["ss", "-tanp"], lambda: tools.ss_table(self.host, pids, self.launch.port), self._number("ss"))

    def process_table(self, number: int) -> bool:
        """States and command lines by ps."""
        pids = self._tree()
        command = tools.ps_command(pids)
        return bool(pids) and self._tool("ps", command, lambda: self.host.run(command, tools.SHORT_S), self._number("ps"))

    def gpu_state(self, number: int) -> bool:
        """Use, memory and power of the GPUs."""
        return tools.has_nvidia(self.host) and self._tool(
            "nvidia_smi", ["nvidia-smi", "--query-gpu"], lambda: tools.nvidia_smi(self.host), self._number("nvidia_smi"), "csv"
        )

    def kernel_log(self, number: int) -> bool:
        """The last lines of the kernel log."""
        return self._tool("kernel", ["dmesg"], lambda: tools.dmesg_tail(self.host), None)

    def lock_files(self, number: int) -> bool:
        """File locks that processes of the launch hold or wait for."""
        pids = set(map(str, self._tree()))

        def own_locks() -> tools.Ran:
            ran = self.host.run(["lslocks", "-u", "-o", "COMMAND,PID,TYPE,SIZE,MODE,M,START,END,PATH,BLOCKER"], tools.SHORT_S)
            lines = ran.text.splitlines()
            kept = lines[:1] + [line for line in lines[1:] if pids & set(line.split()[1:2])]
            ran.text = "".join(line + "\n" for line in kept) if len(kept) > 1 else ""
            return ran

        return self._tool("lslocks", ["lslocks", "-u"], own_locks, None)

    def metrics(self, number: int) -> bool:
        """Counters of the server, twice."""
        port = self.launch.port
        answer = probe.request(self.host, port, "/metrics") if port and probe.can_ask(self.host) else None
        if answer is None or answer.status != 200:
            return False
        source = f"the kit's request to 127.0.0.1:{port}/metrics"
        self.manifest.save(f"metrics.t{number}.txt", "metrics", source, answer.body, moment=number)
        return True

    def folder_sizes(self, number: int) -> bool:
        """Sizes of the folders that downloads and compilers write to, twice."""
        tests = "\n".join(f"[ -d {shlex.quote(name)} ] && echo {shlex.quote(name)}" for name in self._folders())
        folders = self.host.ask(tests)[1].decode("utf-8", "surrogateescape").splitlines()
        if not folders:
            return False
        command = ["du", "-sk", *folders]
        return self._tool("du", command, lambda: self.host.run(command, FOLDER_S), number)

    def _folders(self) -> list[str]:
        """Folders as the environment of the launch names them, else where they are by default."""
        caches = grammar.caches(knowledge_paths.folders())
        wanted = "|".join([*caches, "HOME", "USER", "LOGNAME"])  # these alone: the rest of an environment holds secrets
        _, out = self.host.ask(
            f"tr '\\000' '\\n' < /proc/{self.launch.pid}/environ | grep -E '^({wanted})='; echo \"MINE=$HOME\""
        )
        given = dict(line.split("=", 1) for line in out.decode("utf-8", "surrogateescape").splitlines() if "=" in line)
        home, user = given.get("HOME") or given["MINE"], given.get("USER") or given.get("LOGNAME") or "root"
        names = [given.get(name) or place.replace("{user}", user) for name, place in caches.items()]
        return list(dict.fromkeys(home + name[1:] if name.startswith("~/") else name for name in names))

    # the one real request

    def may_ask(self) -> bool:
        """A real request goes to the launch's own process only, and once."""
        port, pid = self.launch.port, self.launch.pid
        if port is None or self.times["one_request"]:
            return False
        if not probe.can_ask(self.host):
            return False
        owner = listener_of(self.host, port, pid)
        return owner is not None and owner in self._tree() or "request" in self.allow

    def health(self) -> bool:
        """Health and models; True where the server named a model."""
        port, number = self.launch.port, self._number("curl")
        answers = [probe.request(self.host, port, "/health"), probe.request(self.host, port, "/v1/models")]
        self.recording.snapshots.save_answers(answers, number)
        return probe.first_model(answers[-1]) is not None

    def one_request(self, number: int, limit_s: float = REQUEST_S[1]) -> bool:
        """One token, where the server names a model; else the request is kept for later."""
        port = self.launch.port
        models = probe.request(self.host, port, "/v1/models")
        model = probe.first_model(models)
        if model is None:
            self.times["one_request"] -= 1
            self.recording.snapshots.save_answers([models], self._number("curl"))
            return True
        limit = min(max(limit_s, REQUEST_S[0]), REQUEST_S[1])
        payload = {"model": model, "prompt": "hi", "max_tokens": 1}
        health = probe.request(self.host, port, "/health")
        self.recording.snapshots.save_answers(
            [models, health, probe.request(self.host, port, "/v1/completions", payload, limit)], self._number("curl")
        )
        return True

    # what slows the launch

    def native_stacks(self, number: int) -> bool:
        """C frames of the process that holds most threads: by py-spy, else by gdb."""
        table = process_table(self.host) if self.launch.pid is not None else {}
        pids = descendants(table, self.launch.pid)
        if not pids:
            return False
        pid = max(pids, key=lambda one: table[one].threads)
        if "py-spy" in self.allow and self.host.has("py-spy"):
            command, kind = [self.host.abilities.programs["py-spy"], "dump", "--native", "--pid", str(pid)], "pyspy"
        else:
            command, kind = tools.gdb_command(pid), "gdb"
        return self._tool(kind, command, lambda: self.host.run(command, tools.GDB_S), 9)

    def system_calls(self, number: int) -> bool:
        """A short strace of all processes."""
        self.recording.start_strace(STRACE_S)
        self.recording.end_strace(STRACE_S)
        return True

    # helpers

    def _tool(self, kind: str, command: list[str], run, moment: int | None, ending: str = "txt") -> bool:
        if not self.host.has(command[0].rsplit("/", 1)[-1]):
            return False
        before = len(self.manifest.data["captures"])
        self.recording.run_tool(kind, command, run, moment, ending)
        return len(self.manifest.data["captures"]) > before

    def _number(self, kind: str) -> int:
        """Number of the next capture of a kind."""
        return sum(entry["kind"] == kind for entry in self.manifest.data["captures"])
