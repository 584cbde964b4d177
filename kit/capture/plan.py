"""What a recording would run on a target: every command, how often, the privilege that it needs and its price."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from textwrap import wrap

from kit.capture import sampler_program
from kit.capture.recording import Options
from kit.capture.tools import commands as tools
from kit.capture.tools import probe

ANY = "any user"
OWN = "the launch's user or root (another user: state and CPU time, no system call, descriptors or environment)"
PTRACE = "root, or the launch's user where ptrace is allowed (kernel.yama.ptrace_scope = 0)"
WIDTH = 110


@dataclass(frozen=True)
class Step:
    """One thing that is run: what for, the command, when, who may, and what it costs."""

    what: str
    command: str
    when: str
    privilege: str = ANY
    price: str = "milliseconds"


def plan(options: Options) -> list[Step]:
    """Steps of a recording with these options, in their order.

    Examples
    --------
    >>> [step.what for step in plan(Options(strace_s=5))][-1]
    'system calls'
    """
    ends = "at the beginning and at the end"
    every = f"every {options.interval_s:g} s for {options.whole_s:g} s"
    size = len(sampler_program())
    script = f"/bin/sh -s: python3 -S -I -, fed with kit/redact.py and the sampler ({size:,} characters); without Python: awk"
    gpus = "nvidia-smi --query-gpu=…; nvidia-smi --query-compute-apps=…; rocm-smi"
    pid: list = ["PID"]
    steps = [
        Step("shell", "/bin/sh -s", "stays open; what follows is run by it or beside it"),
        Step(
            "process table, listeners, descriptors",
            "cat /proc/[0-9]*/stat; grep ' 0A ' /proc/PID/net/tcp /proc/PID/net/tcp6; ls -l /proc/PID/fd",
            ends,
            OWN,
            "some microseconds a process",
        ),
        Step(
            "whose log, whose port",
            "ls -l /proc/[0-9]*/fd | grep -F LOG",
            "once, where no --pid is given",
            OWN,
            "some microseconds a descriptor",
        ),
        Step("log", "tail -c +OFFSET LOG", "as it grows", "whoever may read it", "reading it once"),
        Step(
            "log of a container, unit or pod",
            "docker logs --follow NAME; journalctl --follow -u UNIT; kubectl logs --follow POD; tmux list-panes",
            "where the output goes there, or --log names it",
            "whoever may run them",
        ),
        Step("samples", script, every, OWN, tools.SAMPLER_PRICE),
        Step("GPUs, by the sampler", gpus, "each tenth sample, where they are there", price="up to 5 s each, then it is ended"),
        Step("processes", shlex.join(tools.ps_command(pid)), ends),
        Step("sockets", "ss -tanp", ends, "any user; root for the owners of others"),
        Step("GPUs", shlex.join(tools.nvidia_smi_command()), f"{ends}, where it is there", price="up to 5 s, then it is ended"),
        Step("kernel log", "dmesg", "at the end", "root where kernel.dmesg_restrict = 1"),
        Step(
            "health",
            f"curl -m {probe.PROBE_S:g} http://127.0.0.1:PORT/health; …/v1/models",
            f"{ends}; by Python where that is there",
        ),
    ]
    if options.probe_generate:
        generate = f"curl -m {probe.GENERATE_S:g} -d '{{…, \"max_tokens\": 1}}' http://127.0.0.1:PORT/v1/completions"
        steps.append(Step("one token", generate, "at the end", price="one request"))
    if options.py_spy:
        command = "py-spy dump --nonblocking --pid PID; where that fails: py-spy dump --pid PID"
        steps.append(Step("Python stacks", command, ends, PTRACE, tools.PYSPY_PRICE))
    if options.gdb:
        steps.append(Step("C stacks", shlex.join(tools.gdb_command("PID")), ends, PTRACE, tools.GDB_PRICE))
    if options.smaps_rollup:
        price = f"{tools.SMAPS_PRICE_S_PER_GB * 1000:g} ms a gigabyte of memory in which the process cannot map more"
        steps.append(Step("memory by mapping", "cat /proc/PID/smaps_rollup", "at the beginning", OWN, price))
    if options.strace_s:
        command = shlex.join(tools.strace_command([options.strace_pid or "PID"], options.strace_s))
        steps.append(Step("system calls", command, "once", PTRACE, tools.STRACE_PRICE))
    return steps


def as_text(steps: list[Step]) -> str:
    """The plan for a person."""
    lines = ["Nothing is installed and nothing is written there; only these are read and run:"]
    for step in steps:
        lines += ["", step.what]
        for name, text in (("run", step.command), ("when", step.when), ("needs", step.privilege), ("costs", step.price)):
            indent = {"initial_indent": f"  {name:6}", "subsequent_indent": " " * 8}
            lines += wrap(text, WIDTH, **indent, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines)
