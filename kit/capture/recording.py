"""The recording of a launch on a host.

The sampler runs as a program of its own, fed through standard input, exactly as it would on another host. The log is
followed by its open file. Tools that cost something run only when asked, in groups of their own with a time limit.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit import __version__
from kit.capture import probe, tools
from kit.capture.find import Target, launch_entry, listener_of, tree_of
from kit.capture.follow import LogFollower
from kit.capture.host import Host
from kit.capture.manifest import Manifest, utc_text
from kit.capture.sampling import SamplerProcess
from kit.errors import UsageError

WAIT_S = 0.2
STRACE_AT_S = 2.0
"""Some samples come first: strace changes states (t) and rates, and what was before it must be known."""


@dataclass(frozen=True)
class Options:
    """What a recording takes, and for how long.

    Attributes
    ----------
    duration_s, interval_s : float
        How long to record, and the time between samples, in seconds.
    strace_s : float, optional
        Trace system calls for so many seconds. Slows the launch while it lasts.
    py_spy : bool
        Dump the Python stacks at the beginning and at the end.
    probe_generate : bool
        Ask the server for one token at the end.

    Raises
    ------
    UsageError
        Where a number makes no sense.

    Examples
    --------
    >>> Options(duration_s=1, strace_s=2).whole_s
    5.0
    """

    duration_s: float = 30.0
    interval_s: float = 1.0
    strace_s: float | None = None
    py_spy: bool = False
    probe_generate: bool = False

    def __post_init__(self) -> None:
        for name, value in (("duration", self.duration_s), ("interval", self.interval_s), ("strace time", self.strace_s)):
            if value is not None and not 0 < value < 7 * 86400:
                raise UsageError(
                    f"the {name} of {value:g} s makes no sense",
                    "it must be above zero and below a week",
                    "for example: --for 30s",
                )

    @property
    def whole_s(self) -> float:
        """Duration in seconds, the time for strace included."""
        return max(self.duration_s, self.strace_s + STRACE_AT_S + 1.0 if self.strace_s else 0.0)


class Recording:
    """One recording of a launch, from its first capture to its last: `record`, or step by step `begin`, `end`,
    `leave_nothing_behind`.

    Parameters
    ----------
    host : Host
        Where the launch runs; connected.
    folder : pathlib.Path
        Folder that `make_folder` made.
    target : Target
        The launch, as `find_target` found it.
    options : Options
        What to take.
    progress : callable
        Is told in sentences what goes on.
    until : callable, optional
        Ends the recording early when it returns true; asked about five times a second.
    """

    def __init__(
        self,
        host: Host,
        folder: Path,
        target: Target,
        options: Options = Options(),
        progress: Callable[[str], None] = lambda text: None,
        until: Callable[[], bool] | None = None,
    ):
        self.host, self.folder, self.target, self.options, self.progress = host, folder, target, options, progress
        self.duration_s, self.interval_s = options.whole_s, options.interval_s
        self.until = until or (lambda: False)
        self.manifest = Manifest(folder, __version__, host.name, host.abilities)
        self.manifest.update(launch=launch_entry(target))
        self.followers: list[LogFollower] = []
        self.sampler: SamplerProcess | None = None
        self.strace: tools.Strace | None = None
        self.began = time.monotonic()

    def record(self) -> Path:
        try:
            try:
                self.begin()
                self._wait()
            except KeyboardInterrupt:
                done = time.monotonic() - self.began
                self.progress(f"interrupted after {done:.0f} s: ending the recording (again to leave at once)")
                self.manifest.lacks(
                    "the rest of the recording", f"it was interrupted after {done:.0f} of {self.duration_s:g} s", "record again"
                )
            self.end()
        finally:
            self.leave_nothing_behind()
        if self.manifest.full.is_set():
            self.progress(f"the disk is full: the recording ended early; {self.folder} holds what came before")
        for entry in self.manifest.data["missing"]:
            self.progress(f"missing: {entry['what']}: {entry['why']}")
        return self.folder

    def begin(self) -> None:
        """Follow the logs, start the sampler, take the first look."""
        self._follow_logs()
        if self.target.pid is not None:
            samples = int(self.duration_s / self.interval_s + 1e-9) + 1
            parameters = {
                "roots": [self.target.pid],
                "port": self.target.port,
                "interval_s": self.interval_s,
                "samples": samples,
                "exclude": [os.getpid()],
            }
            self.sampler = SamplerProcess(self.manifest, parameters)
        self.look(0)
        if self.options.py_spy:
            self.dump_stacks(0)

    def _wait(self) -> None:
        """Until the time is over, the launch is gone, the disk is full or somebody says so."""
        traced = self.options.strace_s is None or self.target.pid is None
        while not self.manifest.full.is_set() and not self.until():
            passed = time.monotonic() - self.began
            if self.sampler is not None and self.sampler.ended.is_set() and (passed >= self.duration_s or self.sampler.root_gone):
                return
            if self.sampler is None and passed >= self.duration_s:
                return
            if passed > self.duration_s + 10 * self.interval_s + 5:  # the sampler hangs: it reads a kernel that does not answer
                return
            if not traced and passed >= STRACE_AT_S:
                traced = True
                self.start_strace(self.options.strace_s)
            time.sleep(WAIT_S)

    def end(self, last_look: bool = True) -> None:
        """Second look, then stop what runs. On a full disk nothing more is looked at."""
        if self.strace is not None:
            self.end_strace(2.0 if self.sampler and self.sampler.root_gone else self.options.strace_s or 0)
        if last_look and not self.manifest.full.is_set():
            if self.options.py_spy:
                self.dump_stacks(1)
            self.look(1)
        ended_ns = self.manifest.now_ns()
        if self.sampler is not None:
            self.sampler.finish()
            if self.sampler.root_gone:
                self.launch_ended(self.sampler)
            if self.sampler.denied:
                self.manifest.lacks(
                    ", ".join(self.sampler.denied) + " of the processes",
                    "they belong to another user, or ptrace is restricted",
                    "record as their owner or as root: sudo kit collect local …",
                )
        self._end_logs()
        self.manifest.finish(ended_ns)

    def launch_ended(self, sampler: SamplerProcess) -> None:
        """Enter the end of the launched process."""
        status = sampler.exit_status
        ended = {"ended_at": utc_text(sampler.root_gone_ns), "exit_code": None, "exit_signal": None}
        if status is not None:
            ended["exit_code"], ended["exit_signal"] = (None, status & 127) if status & 127 else (status >> 8, None)
        self.manifest.update(launch={**self.manifest.data["launch"], **ended})
        self.manifest.lacks(
            "samples after the end of the launch",
            f"process {self.target.pid} ended during the recording",
            "if its exit code is not in the log, ask whoever started it: echo $?, docker inspect, journalctl",
        )

    def leave_nothing_behind(self) -> None:
        """Whatever happened: no tracer, no sampler stays."""
        if self.strace is not None:
            self.strace.finish()
        if self.sampler is not None:
            self.sampler.kill()

    # logs

    def _follow_logs(self) -> None:
        pid, log = self.target.pid, self.target.log
        seen: set[tuple[int, int]] = set()
        if log is not None:
            self._follow(log, str(log), log.name, seen, None)
        for fd in (1, 2) if pid is not None else ():
            try:
                path = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            plain = path.removesuffix(" (deleted)")
            if os.path.isfile(f"/proc/{pid}/fd/{fd}"):
                name = f"{Path(plain).name}.fd{fd}.log" if log else Path(plain).name
                if self._follow(Path(f"/proc/{pid}/fd/{fd}"), plain, name, seen, pid) and plain == str(log):
                    self.followers[0].raw.note(f"process {pid} does not write to this file: its descriptor {fd} goes to {path}")
            elif log is None and path != "/dev/null":
                self.manifest.lacks(
                    f"what process {pid} writes to descriptor {fd}",
                    f"it goes to {path}, not to a file",
                    "add what its reader kept: docker logs, journalctl -u, kubectl logs, the terminal's scroll-back",
                )

    def _follow(self, opened: Path, path: str, name: str, seen: set[tuple[int, int]], pid: int | None) -> bool:
        try:
            stat = os.stat(opened)
            if (stat.st_dev, stat.st_ino) in seen:
                return False
            note = f"followed through descriptor {opened.name} of process {pid}" if pid is not None else None
            if path.endswith(".jsonl") or name in {follower.name_of_copy for follower in self.followers}:
                name += ".log"
            follower = LogFollower(self.manifest, opened, path, name, pid, note)
        except OSError as error:
            self.manifest.lacks(f"the log {path}", f"it cannot be read: {error.strerror}", f"look at it: ls -l {path}")
            return False
        seen.add(follower.identity)
        self.followers.append(follower)
        if follower.raw.entry["deleted"]:
            follower.raw.note("this file is deleted: it has no path any more, the process still writes to it")
        follower.start()
        return True

    def _end_logs(self) -> None:
        for follower in self.followers:
            had_path = follower.raw.entry["at_path"]
            follower.finish()
            left_path = had_path and not follower.raw.entry["at_path"] or follower.moved
            if left_path and os.path.isfile(follower.path) and not self.manifest.full.is_set():
                self._copy_of_path(follower.path)

    def _copy_of_path(self, path: str) -> None:
        """What people read at the path of a log that was deleted or rotated away."""
        name = f"{Path(path).name}.path.log"
        try:
            copy = LogFollower(
                self.manifest,
                path,
                path,
                name,
                note="the file that stands at this path at the end of the recording; "
                "the file that was followed had this path before",
            )
        except OSError as error:
            self.manifest.lacks(f"the new file at {path}", f"it cannot be read: {error.strerror}", f"look at it: ls -l {path}")
            return
        copy.start()
        copy.finish()

    # looks: once at the beginning (moment 0), once at the end (moment 1)

    def look(self, moment: int) -> None:
        """Process table, sockets, GPUs, health."""
        pids = set(tree_of(self.target.pid)) if self.target.pid is not None else set()
        if pids:
            self.run_tool(
                "ps",
                tools.ps_command(sorted(pids)),
                lambda: tools.run_boxed(tools.ps_command(sorted(pids)), tools.SHORT_S),
                moment,
            )
        if self.target.port is None and pids:
            self._find_port(pids)
        if shutil.which("ss") and (pids or self.target.port):
            self.run_tool("ss", ["ss", "-tanp"], lambda: tools.ss_table(pids, self.target.port), moment)
        if tools.has_nvidia():
            self.run_tool("nvidia_smi", ["nvidia-smi", "--query-gpu"], tools.nvidia_smi, moment, "csv")
        if moment == 1 and shutil.which("dmesg"):
            self.run_tool("kernel", ["dmesg"], tools.dmesg_tail, None)
        if self.target.port is not None:
            self._probe(self.target.port, moment)
        elif moment == 1:
            self.manifest.lacks(
                "the HTTP endpoint", "no port is known: none in the command line, none listened on", "name it: --port PORT"
            )

    def _find_port(self, pids: set[int]) -> None:
        import psutil

        ports = sorted(
            c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.pid == self.target.pid
        )
        if ports and listener_of(ports[0]) in pids:
            self.target.port = ports[0]
            self.manifest.update(launch={**self.manifest.data["launch"], "port": ports[0]})

    def run_tool(
        self, kind: str, command: list[str], run: Callable[[], tools.Ran], moment: int | None, ending: str = "txt"
    ) -> None:
        """Run a tool and record its output; what fails is recorded as its message and listed as missing."""
        try:
            ran = run()
        except OSError as error:
            self.manifest.lacks(f"output of {command[0]}", f"it cannot be started: {error.strerror}", f"install it: {command[0]}")
            return
        number = f".t{moment}" if moment is not None else ""
        name = f"{'dmesg' if kind == 'kernel' else kind.replace('_', '-')}{number}.{ending}"
        if ran.code != 0 and not ran.text.strip():
            self.manifest.lacks(f"output of {command[0]}", ran.failure, f"run it by hand: {' '.join(command)}")
            if not ran.errors.strip():
                return
        self.manifest.save(name, kind, " ".join(command), ran.text if ran.text.strip() else ran.errors, moment=moment)

    def _probe(self, port: int, moment: int) -> None:
        answers = [probe.request(port, "/health"), probe.request(port, "/v1/models")]
        model = probe.first_model(answers[-1])
        if moment == 1 and self.options.probe_generate:
            if model is None:
                self.manifest.lacks("a generate request", "the server named no model", "record again when /v1/models answers")
            else:
                answers.append(probe.generate(port, model))
        self.manifest.save(
            f"curl.t{moment}.txt",
            "curl",
            f"requests of the kit to 127.0.0.1:{port}, written as curl prints them",
            "".join(answer.text for answer in answers),
            moment=moment,
        )

    # on request only

    def dump_stacks(self, moment: int) -> None:
        """Python stacks of all processes of the launch."""
        program = tools.find_py_spy()
        if program is None or self.target.pid is None:
            self.manifest.lacks(
                "Python stacks",
                "py-spy is not installed" if program is None else "no process is known",
                "pip install 'stallkit[stacks]'",
            )
            return
        texts = []
        for pid in tree_of(self.target.pid):
            if tools.is_python(pid):
                ran = tools.py_spy_dump(program, pid)
                if ran.code != 0:
                    self.manifest.lacks(
                        f"Python stacks of process {pid}",
                        ran.failure,
                        "record as root or with CAP_SYS_PTRACE: sudo kit collect local …",
                    )
                texts.append(ran.text if ran.code == 0 else f"Process {pid}: \n{ran.text}{ran.errors}\n")
        if not texts:
            self.manifest.lacks(
                "Python stacks",
                "no process of the launch is a Python interpreter",
                "use gdb -p PID -batch -ex 'thread apply all bt'",
            )
            return
        self.manifest.save(
            f"pyspy.t{moment}.txt", "pyspy", "py-spy dump --nonblocking --pid PID", "\n".join(texts), moment=moment
        )

    def start_strace(self, seconds: float) -> None:
        """Attach strace for so many seconds."""
        pids = tree_of(self.target.pid)
        if not shutil.which("strace") or not shutil.which("timeout"):
            self.manifest.lacks(
                "system calls", "strace is not installed", "install it: apt-get install strace, dnf install strace"
            )
            return
        if not pids:
            self.manifest.lacks("system calls", f"process {self.target.pid} has ended", "record the next launch")
            return
        self.progress(f"strace on {len(pids)} processes for {seconds:g} s")
        raw = self.manifest.open("strace.txt", "strace", " ".join(tools.strace_command(pids, seconds)))
        self.strace = tools.Strace(pids, seconds, raw)

    def end_strace(self, patience_s: float) -> None:
        """Wait for its end and close its capture."""
        strace, self.strace = self.strace, None
        failure = strace.finish(patience_s + 4)
        if failure:
            self.manifest.lacks("system calls", failure, "record as root or with CAP_SYS_PTRACE; only one tracer fits a process")
