"""Tests of a live launch: the tools of the table (kit/knowledge/tools.toml) that captures.toml names, one at a time.

Each looks, appends what it saw to the recording, and says whether there is anything new to judge. None changes the launch;
those that slow it (`allow` in the table) run only where they were allowed. One that needs a second look is asked again.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from kit import knowledge_paths
from kit.capture.hosts.host import HostLost
from kit.capture.processes import descendants, tree_of
from kit.capture.recording import Recording
from kit.capture.tools import probe
from kit.live.options import REQUEST
from kit.parse import grammar
from kit.tool_table import Tool, table

SECOND_LOOK_S = 10.0
"""Seconds between the two looks of a test that needs two: long enough for a token, a file, a byte that does arrive."""
STRACE_S = 4.0
REQUEST_S = (5.0, 30.0)
"""Shortest and longest time that the one real request is given: half of what is left, so that a look at why it failed fits."""
TWICE = frozenset(("pyspy", "metrics", "du"))
"""Tools that tell something by what changes between two looks."""


class TriageTests:
    """The tests of one launch."""

    def __init__(self, recording: Recording, allow: Collection[str] = (), knowledge: tuple[Path, ...] | None = None):
        self.recording, self.allow, self.clock = recording, frozenset(allow), recording.clock
        self.host, self.launch, self.manifest = recording.host, recording.launch, recording.manifest
        self.knowledge = knowledge if knowledge is not None else knowledge_paths.folders()
        self.times: Counter[str] = Counter()
        self.last: dict[str, float] = {}
        self._special: dict[str, Callable[[Tool, int], bool]] = {
            "generate": self.one_request,
            "metrics": self.metrics,
            "du": self.folder_sizes,
            "gdb": self.native_stacks,
            "strace": self.system_calls,
        }

    def tool_of(self, step: dict) -> Tool | None:
        """The row that takes a step here: of several the one that this host has."""
        rows = [row for row in step["tools"] if row.system == self.host.abilities.system]
        return next((row for row in rows if self.host.has(row.program)), rows[0] if rows else None)

    def can_run(self, tool: Tool | None) -> bool:
        """Whether a test can be taken here, is allowed, and not yet done."""
        if tool is None or tool.allow and tool.allow not in self.allow:
            return False
        if tool.name in TWICE:
            waited = self.clock.monotonic() - self.last.get(tool.name, -1e9)
            return self.times[tool.name] < 2 and waited >= SECOND_LOOK_S
        return not self.times[tool.name] and (tool.name != "generate" or self.may_ask())

    def waits(self, tool: Tool | None) -> bool:
        """Whether its second look is still to come."""
        return tool is not None and tool.name in TWICE and self.times[tool.name] == 1

    def run(self, tool: Tool) -> bool:
        """Run a test; False where it had nothing to look at, or where the host was lost meanwhile."""
        number = self.times[tool.name]
        self.times[tool.name] += 1
        self.last[tool.name] = self.clock.monotonic()
        try:
            if tool.name in self._special:
                return self._special[tool.name](tool, number)
            if tool.each:
                self.recording.intrusive.take_each(tool, number)
                return True
            return self.recording.snapshots.take(tool, self._next_number(tool), tree_of(self.host, self.launch.pid))
        except HostLost:
            return False

    def _next_number(self, tool: Tool) -> int | None:
        """Number of the next capture of a tool; the first of one that is taken at the end has none."""
        taken = sum(entry["kind"] == tool.kind for entry in self.manifest.data["captures"])
        return taken if taken or "begin" in tool.look else None

    # HTTP

    def health(self) -> bool:
        """Health and models; True where the server named a model."""
        answers = [probe.request(self.host, self.launch.port, path) for path in probe.HEALTH_PATHS]
        self._save(answers)
        return probe.first_model(answers[-1]) is not None

    def _save(self, answers: list[probe.Answer]) -> None:
        self.recording.snapshots.save_answers(answers, self._next_number(table().tools["curl"]) or 0)

    def metrics(self, tool: Tool, number: int) -> bool:
        """Counters of the server, twice."""
        port = self.launch.port
        answer = probe.request(self.host, port, tool.path) if port and probe.can_ask(self.host) else None
        if answer is None or answer.status != 200:
            return False
        self.manifest.save(
            tool.capture_file(number),
            tool.kind,
            shlex.join(tool.words(limit=tool.limit_s, port=port, path=tool.path)),
            answer.body,
        )
        return True

    def may_ask(self) -> bool:
        """Whether a real request may be sent: to the launch's own process only, and once."""
        port = self.launch.port
        if port is None or self.times["generate"] or not probe.can_ask(self.host):
            return False
        owner = self.host.processes.listeners(self.launch.pid).get(port)
        return owner is not None and owner in tree_of(self.host, self.launch.pid) or REQUEST in self.allow

    def one_request(self, tool: Tool, number: int, left_s: float = REQUEST_S[1]) -> bool:
        """One token, where the server names a model; else the request is kept for later."""
        health, models = (probe.request(self.host, self.launch.port, path) for path in probe.HEALTH_PATHS)
        model = probe.first_model(models)
        if model is None:
            self.times[tool.name] -= 1
            self._save([models])
            return True
        limit_s = min(max(left_s, REQUEST_S[0]), REQUEST_S[1])
        self._save([models, health, probe.generate(self.host, self.launch.port, model, limit_s)])
        return True

    # files

    def folder_sizes(self, tool: Tool, number: int) -> bool:
        """Sizes of the folders that downloads and compilers write to, twice."""
        tests = "\n".join(f"[ -d {shlex.quote(name)} ] && echo {shlex.quote(name)}" for name in self._folders())
        folders = self.host.ask(tests)[1].decode("utf-8", "surrogateescape").splitlines()
        pids = tree_of(self.host, self.launch.pid)
        return bool(folders) and self.recording.snapshots.take(tool, number, pids, folders=folders)

    def _folders(self) -> list[str]:
        """Folders as the environment of the launch names them, else where they are by default."""
        caches = grammar.caches(self.knowledge)
        wanted = "|".join([*caches, "HOME", "USER", "LOGNAME"])  # these alone: the rest of an environment holds secrets
        _, out = self.host.ask(
            f"tr '\\000' '\\n' < /proc/{self.launch.pid}/environ | grep -E '^({wanted})='; echo \"MINE=$HOME\""
        )
        given = dict(line.split("=", 1) for line in out.decode("utf-8", "surrogateescape").splitlines() if "=" in line)
        home, user = given.get("HOME") or given["MINE"], given.get("USER") or given.get("LOGNAME") or "root"
        names = [given.get(name) or place.replace("{user}", user) for name, place in caches.items()]
        return list(dict.fromkeys(home + name[1:] if name.startswith("~/") else name for name in names))

    # what slows the launch

    def native_stacks(self, tool: Tool, number: int) -> bool:
        """C frames of the process that holds most threads."""
        table = self.host.processes.table() if self.launch.pid is not None else {}
        pids = descendants(table, self.launch.pid)
        if pids:
            self.recording.intrusive.take_each(tool, number, [max(pids, key=lambda pid: table[pid].threads)])
        return bool(pids)

    def system_calls(self, tool: Tool, number: int) -> bool:
        """A short strace of all processes."""
        seconds = self.clock.real(STRACE_S)
        self.recording.intrusive.start_strace(seconds)
        self.recording.intrusive.end_strace(seconds)
        return True
