"""Programs and requests that look at a launch once, each with a time limit: ps, ss, dmesg, nvidia-smi, py-spy, strace, HTTP.

Every function returns or records text as the program prints it, scrubbed. None leaves anything running.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from kit.capture.host import Ran, end_group, run_boxed
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
SAMPLER_PRICE = "sampling costs about 0.1 ms of CPU a thread and sample at most (1,845 threads: 0.17 s), at the lowest priority"
"""Prices: measured with 9 processes of 205 threads on two cores of an AMD EPYC, Linux 6.18."""

NVIDIA_SMI_S, PY_SPY_S, SHORT_S = 5.0, 10.0, 5.0
STRACE_MOST_BYTES = 64 << 20
DMESG_LINES = 200
NVIDIA_QUERY = (
    "index,name,pci.bus_id,utilization.gpu,utilization.memory,memory.used,memory.total,power.draw,power.limit,"
    "temperature.gpu,clocks.sm,pstate"
)


def ps_command(pids: Iterable[int]) -> list[str]:
    """The ps call for some processes."""
    return ["ps", "-ww", "-o", "pid,ppid,user,stat,pcpu,rss,vsz,nlwp,etime,time,wchan:32,args", "-p", ",".join(map(str, pids))]


def ss_table(pids: set[int], port: int | None) -> Ran:
    """`ss -tanp`, only the lines of some processes and of a port; other connections of the host are nobody's business."""
    ran = run_boxed(["ss", "-tanp"], SHORT_S)
    kept = []
    for number, line in enumerate(ran.text.splitlines()):
        owners = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
        asked = port is not None and re.search(rf":{port}\s", line + " ") is not None
        if number == 0 or owners & pids or asked:
            kept.append(line.rstrip())
    ran.text = "\n".join(kept) + "\n" if ran.text else ""
    return ran


def dmesg_tail() -> Ran:
    """The last lines of the kernel log."""
    ran = run_boxed(["dmesg"], SHORT_S)
    ran.text = "".join(line + "\n" for line in ran.text.splitlines()[-DMESG_LINES:])
    return ran


def has_nvidia() -> bool:
    """Whether this host should have nvidia-smi: the program or a device is there."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def nvidia_smi() -> Ran:
    """Utilisation, memory, power and clocks of each GPU."""
    return run_boxed(["nvidia-smi", f"--query-gpu={NVIDIA_QUERY}", "--format=csv"], NVIDIA_SMI_S)


def find_py_spy() -> str | None:
    """py-spy on the path, or beside this interpreter (the extra `stallkit[stacks]`)."""
    beside = Path(sys.executable).parent / "py-spy"
    return shutil.which("py-spy") or (str(beside) if os.access(beside, os.X_OK) else None)


def is_python(pid: int) -> bool:
    """Whether a process runs a Python interpreter: by its executable, else by a mapped libpython."""
    try:
        if re.match(r"(?:python|pypy)", os.path.basename(os.readlink(f"/proc/{pid}/exe"))):
            return True
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return any("libpython" in line for line in maps)
    except OSError:
        return False


def py_spy_dump(program: str, pid: int) -> Ran:
    """Python stacks of one process: without pausing it, and only where that fails with a pause."""
    ran = run_boxed([program, "dump", "--nonblocking", "--pid", str(pid)], PY_SPY_S)
    if ran.code != 0 and not ran.timed_out and not re.search(r"(?i)permission|not permitted|no such process", ran.errors):
        ran = run_boxed([program, "dump", "--pid", str(pid)], PY_SPY_S)
    return ran


class Strace:
    """strace on some processes for some seconds, ended on the target itself by `timeout`; its output scrubbed, with a size cap.

    Parameters
    ----------
    pids : list of int
        Processes; all their threads are traced, and what they start.
    seconds : float
        Time limit.
    raw : RawFile
        Where the calls go.
    """

    def __init__(self, pids: list[int], seconds: float, raw: RawFile):
        self.raw, self.cut = raw, False
        self._process = subprocess.Popen(
            strace_command(pids, seconds),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._errors: list[bytes] = []
        self._readers = [
            threading.Thread(target=self._copy, daemon=True),
            threading.Thread(target=lambda: self._errors.extend(self._process.stderr), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _copy(self) -> None:
        for line in self._process.stdout:
            if self.cut or not self.raw.write(
                scrub_text(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            ):
                continue
            if self.raw.size > STRACE_MOST_BYTES:
                self.cut = True
                os.killpg(self._process.pid, signal.SIGINT)

    def finish(self, patience_s: float = 0.0) -> str | None:
        """Wait for its end (at most `patience_s`), end it, close the capture; return the error where it traced nothing."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_group(self._process, signal.SIGINT)
        for reader in self._readers:
            reader.join(5)
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()
        errors = scrub_text(b"".join(self._errors).decode("utf-8", "replace"))
        failure = None
        if self.raw.size == 0:
            failure = next((line for line in errors.splitlines() if "attached" not in line and "detached" not in line), None)
            self.raw.write(errors.encode())
        if self.cut:
            self.raw.note(f"ended at {STRACE_MOST_BYTES:,} bytes")
        self.raw.close(whole=not self.cut)
        return failure


def strace_command(pids: Iterable[int], seconds: float) -> list[str]:
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
