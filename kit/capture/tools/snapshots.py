"""TriageTests at a launch: process table, sockets, GPUs, kernel log, health. Each tool is run on the host with a time limit."""

from __future__ import annotations

from collections.abc import Callable

from kit.capture.find import Launch
from kit.capture.hosts.host import Host, Ran
from kit.capture.manifest import Manifest
from kit.capture.processes import listener_of, ports_of, tree_of
from kit.capture.tools import commands as tools
from kit.capture.tools import probe


class Snapshots:
    """Takes snapshots and puts them into a recording.

    Parameters
    ----------
    host : Host
        Where the launch runs.
    manifest : Manifest
        Of the recording.
    launch : Launch
        The launch. Its port is filled in where a look finds it.
    probe_generate : bool
        Ask the server for one token in the last look.
    """

    def __init__(self, host: Host, manifest: Manifest, launch: Launch, probe_generate: bool = False):
        self.host, self.manifest, self.launch, self.probe_generate = host, manifest, launch, probe_generate

    def look(self, moment: int) -> None:
        """Look once: at the beginning (moment 0) or at the end (moment 1)."""
        host, pids = self.host, set(tree_of(self.host, self.launch.pid))
        if pids:
            command = tools.ps_command(sorted(pids))
            self.run_tool("ps", command, lambda: host.run(command, tools.SHORT_S), moment)
            self._find_port(pids)
        if host.has("ss") and (pids or self.launch.port):
            self.run_tool("ss", ["ss", "-tanp"], lambda: tools.ss_table(host, pids, self.launch.port), moment)
        if tools.has_nvidia(host):
            self.run_tool("nvidia_smi", ["nvidia-smi", "--query-gpu"], lambda: tools.nvidia_smi(host), moment, "csv")
        if moment == 1 and host.has("dmesg"):
            self.run_tool("kernel", ["dmesg"], lambda: tools.dmesg_tail(host), None)
        if self.launch.port is not None:
            self._probe(self.launch.port, moment)
        elif moment == 1:
            self.manifest.lacks(
                "the HTTP endpoint", "no port is known: none in the command line, none listened on", "name it: --port PORT"
            )

    def _find_port(self, pids: set[int]) -> None:
        ports = ports_of(self.host, self.launch.pid) if self.launch.port is None else []
        if ports and listener_of(self.host, ports[0], self.launch.pid) in pids:
            self.launch.port = ports[0]
            self.manifest.update(launch={**self.manifest.data["launch"], "port": ports[0]})

    def run_tool(self, kind: str, command: list[str], run: Callable[[], Ran], moment: int | None, ending: str = "txt") -> None:
        """Run a tool and record its output; what fails is recorded as its message and listed as missing."""
        name = command[0].rsplit("/", 1)[-1]
        if not self.host.has(name):
            self.manifest.lacks(f"output of {name}", f"{name} is not installed on the host", f"install it there: {name}")
            return
        ran = run()
        number = f".t{moment}" if moment is not None else ""
        file = f"{'dmesg' if kind == 'kernel' else kind.replace('_', '-')}{number}.{ending}"
        if ran.code != 0 and not ran.text.strip():
            self.manifest.lacks(f"output of {name}", ran.failure, f"run it by hand: {' '.join(command)}")
            if not ran.errors.strip():
                return
        self.manifest.save(file, kind, " ".join(command), ran.text if ran.text.strip() else ran.errors, moment=moment)

    def _probe(self, port: int, moment: int) -> None:
        if not probe.can_ask(self.host):
            self.manifest.lacks(
                "the HTTP endpoint", "the host has neither Python nor curl", f"ask from elsewhere: curl http://HOST:{port}/health"
            )
            return
        answers = [probe.request(self.host, port, "/health"), probe.request(self.host, port, "/v1/models")]
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
