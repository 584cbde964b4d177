"""Programs that look at a launch once, each with a time limit on the host itself: ps, ss, dmesg, nvidia-smi, py-spy, gdb, strace.

Every function returns or records text as the program prints it, scrubbed. None leaves anything running.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence

from kit.capture.hosts.host import Host, HostLost, Ran, Stream, boxed_script
from kit.capture.manifest import RawFile
from kit.redact import scrub_text

STRACE_PRICE = (
    "strace stops every thread at each system call while it is attached: a loop of read calls ran at a quarter of its "
    "speed (1.28 million a second became 0.34 to 0.38 million)"
)
PYSPY_PRICE = (
    "py-spy reads the stacks of 205 threads in 0.06 to 0.08 s without pausing them; where that fails it pauses the process "
    "for 0.11 to 0.14 s"
)
GDB_PRICE = (
    "gdb stops the process while it reads symbols and unwinds: 0.5 s for 205 threads of a bare Python, longer for one that has "
    "mapped CUDA and PyTorch; it is ended after 15 s"
)
SMAPS_PRICE_S_PER_GB = 0.018
"""Reading smaps_rollup walks every page: 16 to 20 ms a gigabyte of 4 KiB pages, while which the process cannot map memory."""
SAMPLER_PRICE = (
    "sampling costs 5 µs of CPU a thread and sample, 0.1 ms for one that ran (1,845 threads, nearly all asleep: 10 ms a sample), "
    "at the lowest priority; docs/performance.md"
)
"""Prices: measured with 9 processes of 205 threads on two cores of an AMD EPYC, Linux 6.18."""

NVIDIA_SMI_S, PY_SPY_S, GDB_S, SHORT_S = 5.0, 10.0, 15.0, 5.0
STRACE_MOST_BYTES = 64 << 20
DMESG_LINES = 200
NVIDIA_QUERY = (
    "index,name,pci.bus_id,utilization.gpu,utilization.memory,memory.used,memory.total,power.draw,power.limit,"
    "temperature.gpu,clocks.sm,pstate"
)


def ps_command(pids: Iterable[int | str]) -> list[str]:
    """The ps call for some processes."""
    return ["ps", "-ww", "-o", "pid,ppid,user,stat,pcpu,rss,vsz,nlwp,etime,time,wchan:32,args", "-p", ",".join(map(str, pids))]


def ss_table(host: Host, pids: set[int], port: int | None) -> Ran:
    """`ss -tanp`, only the lines of some processes and of a port; other connections of the host are nobody's business."""
    ran = host.run(["ss", "-tanp"], SHORT_S)
    kept = []
    for number, line in enumerate(ran.text.splitlines()):
        owners = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
        asked = port is not None and re.search(rf":{port}\s", line + " ") is not None
        if number == 0 or owners & pids or asked:
            kept.append(line.rstrip())
    ran.text = "\n".join(kept) + "\n" if ran.text else ""
    return ran


def dmesg_tail(host: Host) -> Ran:
    """The last lines of the kernel log."""
    ran = host.run(["dmesg"], SHORT_S)
    ran.text = "".join(line + "\n" for line in ran.text.splitlines()[-DMESG_LINES:])
    return ran


def has_nvidia(host: Host) -> bool:
    """Whether a host should have nvidia-smi: the program or a device is there."""
    return host.has("nvidia-smi") or host.ask("[ -e /dev/nvidiactl ]")[0] == 0


def nvidia_smi(host: Host) -> Ran:
    """Utilisation, memory, power and clocks of each GPU."""
    return host.run(nvidia_smi_command(), NVIDIA_SMI_S)


def nvidia_smi_command() -> list[str]:
    """The nvidia-smi call."""
    return ["nvidia-smi", f"--query-gpu={NVIDIA_QUERY}", "--format=csv"]


def python_pids(host: Host, pids: Iterable[int]) -> list[int]:
    """Those of some processes that run a Python interpreter: by their executable, else by a mapped libpython."""
    script = (
        f"for p in {' '.join(map(str, pids))}; do case $(readlink /proc/$p/exe) in */python*|*/pypy*) echo $p;; "
        "*) grep -q libpython /proc/$p/maps 2>/dev/null && echo $p;; esac; done; true"
    )
    return [int(pid) for pid in host.run(["/bin/sh", "-c", script], SHORT_S).text.split()]


def run_all(host: Host, commands: Mapping[int, Sequence[str]], timeout_s: float) -> dict[int, Ran]:
    """Run one command for each process, all started at the same moment, in one session on the host.

    Returns
    -------
    dict of int to Ran
        In the order given. Output and errors are one text.

    Examples
    --------
    >>> from kit.capture.hosts.this_machine import LocalHost
    >>> with LocalHost() as host:
    ...     {pid: (ran.code, ran.text) for pid, ran in run_all(host, {7: ["echo", "a b"], 8: ["false"]}, 5).items()}
    {7: (0, 'a b\\n'), 8: (1, '')}
    """
    boxes = [
        # Each line is printed by one write that a pipe takes whole, so that those of several processes do not mix.
        f"{{ ({boxed_script(command, timeout_s)}) 2>&1; printf '\\nexit %s\\n' $?; }} | "
        f"while IFS= read -r line; do printf '%s %s\\n' {key} \"$line\"; done &\n"
        for key, command in commands.items()
    ]
    stream = host.start_shell("{ " + "".join(boxes) + "wait; } | cat\nexit 0\n")
    texts: dict[int, list[str]] = {key: [] for key in commands}
    try:
        data = b""
        while piece := stream.read(timeout_s + 10):
            data += piece
    except TimeoutError:
        pass  # what came is kept; a command without its exit code was not ended
    finally:
        stream.stop()
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, text = line.partition(" ")
        if key.isdigit() and int(key) in texts:
            texts[int(key)].append(text)
    return {key: _ran(list(commands[key]), lines) for key, lines in texts.items()}


def _ran(command: list[str], lines: list[str]) -> Ran:
    ended = re.match(r"exit (\d+)$", lines[-1]) if lines else None
    code = int(ended[1]) if ended else None
    shown = lines[:-1] if ended else lines
    if ended and shown and not shown[-1]:
        shown = shown[:-1]  # the line end before the exit code, for output that ended in the middle of a line
    text = scrub_text("".join(line + "\n" for line in shown))
    return Ran(command, code, text, text if code else "", code is None or code in (124, 137))


def py_spy_dumps(host: Host, pids: Iterable[int]) -> dict[int, Ran]:
    """Python stacks of some processes at the same moment: without pausing them, and only where that fails with a pause."""
    program = host.abilities.programs["py-spy"]
    found = run_all(host, {pid: [program, "dump", "--nonblocking", "--pid", str(pid)] for pid in pids}, PY_SPY_S)
    again = {
        pid: [program, "dump", "--pid", str(pid)]
        for pid, ran in found.items()
        if ran.code and not ran.timed_out and not re.search(r"(?i)permission|not permitted|no such process", ran.errors)
    }
    return found | (run_all(host, again, PY_SPY_S) if again else {})


def gdb_command(pid: int | str) -> list[str]:
    """The gdb call for the C frames of all threads of a process."""
    return ["gdb", "-p", str(pid), "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt"]


def tracers_of(host: Host, pids: Iterable[int]) -> dict[int, int]:
    """Tracer by traced process: only one fits a process."""
    files = " ".join(f"/proc/{pid}/status" for pid in pids)
    _, out = host.ask(f"grep -H '^TracerPid:' {files} /dev/null")
    found = re.findall(rb"/proc/(\d+)/status:TracerPid:\s+([1-9]\d*)", out)
    return {int(pid): int(tracer) for pid, tracer in found}


class Strace:
    """strace on some processes for some seconds, ended on the host itself by `timeout`; its output scrubbed, with a size cap.

    Parameters
    ----------
    host : Host
        Where they run.
    pids : list of int
        Processes; all their threads are traced, and what they start.
    seconds : float
        Time limit.
    raw : RawFile
        Where the calls go.
    """

    def __init__(self, host: Host, pids: list[int], seconds: float, raw: RawFile):
        self.raw, self.host, self.cut, self.lost = raw, host, False, False
        # Its pid is told first, so that it can be ended early. `head` is the size cap; it makes /dev/stdout a pipe, too,
        # which a session of sshd may not be.
        command = ["/bin/sh", "-c", 'echo "strace is $$" >&2; exec "$@"', "sh", *strace_command(pids, seconds)]
        self._stream: Stream = host.start_shell(
            f"LC_ALL=C; export LC_ALL\n{shlex.join(command)} </dev/null | head -c {STRACE_MOST_BYTES}\nexit 0\n"
        )
        self._reader = threading.Thread(target=self._copy, daemon=True, name="strace")
        self._reader.start()

    def _copy(self) -> None:
        size, pending = 0, b""
        try:
            while piece := self._stream.read():
                size += len(piece)
                lines, newline, pending = (pending + piece).rpartition(b"\n")
                self._write(lines + newline)
        except (HostLost, OSError, ValueError):
            self.lost = True
        self._write(pending)
        self.cut = size >= STRACE_MOST_BYTES

    def _write(self, data: bytes) -> None:
        if data:
            self.raw.write(scrub_text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))

    def finish(self, patience_s: float = 0.0) -> str | None:
        """Wait for its end (at most `patience_s`), end it, close the capture; return the error where it traced nothing."""
        self._reader.join(patience_s)
        errors = self._stream.errors
        if self._reader.is_alive() and (pid := re.search(r"strace is (\d+)", errors)):
            try:
                self.host.ask(f"kill -INT {pid[1]}")
            except HostLost:
                self.lost = True  # it ends there by its own time limit
            self._reader.join(4)
        self._stream.stop()
        self._reader.join(5)
        said = [line for line in self._stream.errors.splitlines() if not re.search("strace is|attached|detached", line)]
        failure = None
        if self.raw.size == 0 and said:
            failure = said[0]
            self.raw.write("".join(line + "\n" for line in said).encode())
        if self.cut:
            self.raw.note(f"ended at {STRACE_MOST_BYTES:,} bytes")
        if self.lost:
            self.raw.note("the connection was lost: the calls after it are missing")
        self.raw.close(whole=not self.cut and not self.lost)
        return failure


def strace_command(pids: Iterable[int | str], seconds: float) -> list[str]:
    """The strace call. `-o` to a pipe gives the pid and time on each line and lets the text be scrubbed before it is written."""
    attach = [word for pid in pids for word in ("-p", str(pid))]
    return [
        "timeout",
        "-s",
        "INT",
        "-k",
        "3",
        f"{seconds:g}",
        "strace",
        "-f",
        "-tt",
        "-T",
        "-y",
        "-s",
        "64",
        "-o",
        "/dev/stdout",
        *attach,
    ]
