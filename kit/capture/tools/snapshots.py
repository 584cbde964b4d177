"""Snapshots of a launch: each tool of the table (kit/knowledge/tools.toml) that a moment asks for, and the server's answers."""

from __future__ import annotations

import re
import shlex

from kit.capture.find import Launch
from kit.capture.hosts.host import Host, Ran
from kit.capture.hosts.process_source import numbers
from kit.capture.manifest import Manifest
from kit.capture.processes import ports_of, tree_of
from kit.capture.tools import probe
from kit.tool_table import Tool, table


class Snapshots:
    """Runs tools within their time limits and puts what they print into a recording."""

    def __init__(self, host: Host, manifest: Manifest, launch: Launch, probe_generate: bool = False):
        self.host, self.manifest, self.launch, self.probe_generate = host, manifest, launch, probe_generate
        self._hung: set[str] = set()

    def look(self, moment: int) -> None:
        """All tools of a moment: 0 at the beginning of a recording, 1 at its end, further ones between."""
        pids = tree_of(self.host, self.launch.pid)
        if pids:
            self._find_port(pids)
        for tool in table().looked_at("end" if moment == 1 else "begin", self.host.abilities.system):
            if not tool.option:
                self.take(tool, moment if "begin" in tool.look else None, pids)
        if self.launch.port is not None:
            self._probe(self.launch.port, moment)
        elif moment == 1:
            self.manifest.lacks(
                "the HTTP endpoint", "no port is known: none in the command line, none listened on", "name it: --port PORT"
            )

    def _find_port(self, pids: list[int]) -> None:
        ports = ports_of(self.host, self.launch.pid) if self.launch.port is None else []
        if ports and self.host.processes.listeners(self.launch.pid).get(ports[0]) in pids:
            self.launch.port = ports[0]
            self.manifest.update(launch={**self.manifest.data["launch"], "port": ports[0]})

    def take(self, tool: Tool, number: int | None, pids: list[int], **values: object) -> bool:
        """Run one tool and record its output; a failure is recorded as its message and listed as missing."""
        if not pids and ("{pids}" in tool.command or tool.keep == "launch" and self.launch.port is None):
            return False
        if not self.host.has(tool.program):
            if self._is_expected(tool):
                self.manifest.lacks(f"output of {tool.program}", f"{tool.program} is not installed on the host", tool.how_to_get)
            return False
        words = tool.words(pids=",".join(map(str, pids)), **values)
        if tool.program in self._hung or self.host.left_s <= 0:
            why = "it did not answer before" if tool.program in self._hung else "the programs before it took too long"
            self.manifest.lacks(f"output of {tool.program}", f"it was not run: {why}", f"run it by hand: {shlex.join(words)}")
            return False
        ran = self.host.run(words, tool.limit_s)
        if ran.timed_out or ran.cut:
            self._hung.add(tool.program)
        text = kept_lines(ran, tool.keep, set(pids), self.launch.port)
        if ran.cut or ran.code != 0 and not text.strip():
            self.manifest.lacks(f"output of {tool.program}", ran.failure, f"run it by hand: {shlex.join(words)}")
        if not (text.strip() or ran.errors.strip()):
            return False
        self.manifest.save(
            *(tool.capture_file(number), tool.kind, shlex.join(words), text if text.strip() else ran.errors),
            whole=not ran.cut,
            moment=number,
        )
        return True

    def _is_expected(self, tool: Tool) -> bool:
        """Whether its absence is worth a line: an accelerator is there, and no other tool that shows it."""
        others = [row for row in table().tools.values() if row.accelerator == tool.accelerator]
        if not tool.accelerator:
            return True
        shown = any(self.host.has(row.program) for row in others)
        return not shown and any(self.host.ask(f"[ -e {device} ]")[0] == 0 for device in tool.devices)

    def _probe(self, port: int, moment: int) -> None:
        if not probe.can_ask(self.host):
            self.manifest.lacks(
                "the HTTP endpoint", "the host has neither Python nor curl", f"ask from elsewhere: curl http://HOST:{port}/health"
            )
            return
        answers = [probe.request(self.host, port, path) for path in probe.HEALTH_PATHS]
        model = probe.first_model(answers[-1])
        if moment == 1 and self.probe_generate:
            if model is None:
                self.manifest.lacks("a generate request", "the server named no model", "record again when /v1/models answers")
            else:
                answers.append(probe.generate(self.host, port, model))
        self.save_answers(answers, moment)

    def save_answers(self, answers: list[probe.Answer], moment: int) -> None:
        """Record requests and what came back."""
        self.manifest.save(
            f"curl.t{moment}.txt",
            "curl",
            f"requests of the kit to 127.0.0.1:{self.launch.port}, written as curl prints them",
            "".join(answer.text for answer in answers),
            moment=moment,
        )


def kept_lines(ran: Ran, keep: str | int, pids: set[int], port: int | None) -> str:
    r"""Lines of a tool's output that are about the launch; what belongs to others on the host is not recorded.

    `keep`: `launch`: the heading, and lines with one of the pids (or `pid=PID`) or the port; a number: so many last lines.

    Examples
    --------
    >>> text = "State Local Peer Process\nLISTEN *:80 *:* pid=3\nLISTEN *:81 *:* pid=4\nESTAB a:9 b:82 pid=5\n"
    >>> print(kept_lines(Ran([], 0, text, ""), "launch", {4}, 82), end="")
    State Local Peer Process
    LISTEN *:81 *:* pid=4
    ESTAB a:9 b:82 pid=5
    >>> kept_lines(Ran([], 0, text, ""), 1, set(), None)
    'ESTAB a:9 b:82 pid=5\n'
    """
    lines = ran.text.splitlines()
    if isinstance(keep, int):
        lines = lines[-keep:]
    elif keep == "launch":
        by_port = re.compile(rf":{port}\s") if port is not None else None
        lines = [
            line.rstrip()
            for number, line in enumerate(lines)
            if number == 0 or _owners(line) & pids or by_port is not None and by_port.search(line + " ")
        ]
    return "".join(line + "\n" for line in lines)


def _owners(line: str) -> set[int]:
    """Processes that a line names: `pid=7`, else its second column, as lslocks has it."""
    return set(numbers(" ".join(re.findall(r"pid=([0-9]{1,7})\b", line) or line.split()[1:2])))
