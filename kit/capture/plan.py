"""What a recording would run on a target: every command, how often, the privilege that it needs and its price.

The commands come from the objects that run them: the table of tools, `hosts.process_source.READS`, `hosts.remote_files`.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

from kit.capture import sampler_program
from kit.capture.hosts.process_source import READS
from kit.capture.hosts.remote_files import OPEN, READ, STAT
from kit.capture.logs.follow import list_command
from kit.capture.logs.sources import TextSource
from kit.capture.options import Options
from kit.capture.tools.probe import HEALTH_PATHS
from kit.capture.tools.strace import attach_words
from kit.document import Command, Document, Item, Section, Table, Values
from kit.secret_environ import ENVIRON_NAMES, ENVIRON_PREFIXES
from kit.tool_table import Tool, table

NEEDS = {
    "owner": "the launch's user or root (another user: state and CPU time, no system call, descriptors or environment)",
    "ptrace": "root, or the launch's user where ptrace is allowed (kernel.yama.ptrace_scope = 0)",
}
SAMPLER_PRICE = (
    "sampling costs 5 µs of CPU a thread and sample, 0.1 ms for one that ran (1,845 threads, nearly all asleep: 10 ms a sample), "
    "at the lowest priority; docs/performance.md"
)
"""Measured with 9 processes of 205 threads on two cores of an AMD EPYC, Linux 6.18."""


@dataclass(frozen=True)
class Step:
    """One thing that is run: what for, the commands, when, who may, and what it costs."""

    what: str
    commands: tuple[str, ...]
    when: str
    needs: str = "any user"
    price: str = "milliseconds"


def plan(options: Options, **known: object) -> list[Step]:
    """Steps of a recording with these options, in their order.

    `**known`: what stands for the placeholders of the table of tools (`pid`, `pids`, `port`, …), where it is known.

    Examples
    --------
    >>> [step.what for step in plan(Options(strace_s=5))][-1]
    'system calls'
    """
    every = f"every {options.interval_s:g} s for {options.whole_s:g} s"
    script = f"python3 -S -I -, fed with kit/redact.py and the sampler ({len(sampler_program()):,} characters); else awk"
    sources = (TextSource("docker", "NAME"), TextSource("journal", "UNIT"), TextSource("kubectl", "POD"))
    where = "where the output goes there, or --log names it"
    sampled = tuple(_shown(tool, command, known) for tool in table().sampled() for command in (tool.command, *tool.more))
    read = {"number": "N", "path": "LOG", "file": "LOG", "block": "BYTES", "first": "BLOCK", "count": "COUNT"}
    log = (*(text.format(**read) for text in (OPEN, STAT, READ)), shlex.join(list_command("FOLDER")))
    processes = tuple(_filled(text, known) for text in READS.values())
    steps = [
        Step("shell", ("/bin/sh -s",), "stays open; what follows is run by it or beside it"),
        Step("processes, descriptors, listeners", processes, "to find the launch and its tree", NEEDS["owner"]),
        Step("log", log, "as it grows", "whoever may read it", "reading it once"),
        Step("log of a container, unit or pod", tuple(shlex.join(source.command()) for source in sources), where),
        Step("samples", (f"/bin/sh -s: {script}",), every, NEEDS["owner"], SAMPLER_PRICE),
        Step(
            "accelerators, by the sampler",
            sampled,
            "every tenth sample, where they exist",
            price="up to 5 s each, then it is ended",
        ),
    ]
    for tool in table().tools.values():
        if tool.system == "linux" and (getattr(options, tool.option, None) if tool.option else tool.look or tool.path):
            steps.append(_step(tool, options, known))
    return steps


def _step(tool: Tool, options: Options, known: dict[str, object]) -> Step:
    ends = {("begin", "end"): "at the beginning and at the end", ("begin",): "at the beginning"}
    when = ends.get(tool.look, "at the end") if tool.name != "strace" else "once"
    when += ", where it exists" if tool.accelerator else ""
    values = {"limit": f"{tool.limit_s:g}", "path": tool.path, **known}
    if tool.name == "strace":
        values = {"seconds": f"{options.strace_s:g}", "attach": attach_words([options.strace_pid or "PID"]), **values}
    if tool.name == "curl":
        return Step(
            tool.what,
            tuple(_shown(tool, (), {**values, "path": path}) for path in HEALTH_PATHS),
            "at the beginning and at the end",
        )
    commands = tuple(_shown(tool, command, values) for command in (tool.command, tool.fallback) if command)
    return Step(tool.what, commands, when, NEEDS.get(tool.needs, tool.needs), tool.price)


def _shown(tool: Tool, command: tuple[str, ...], known: dict[str, object]) -> str:
    return shlex.join(tool.words(command, **known))


def _filled(text: str, known: dict[str, object]) -> str:
    shown = {"pid": "PID", "pids": "PIDS", "part": "LOG", "net": "/proc/PID/net", "links": "/proc/PID/exe"}
    return text.format(**{**shown, **{key: value for key, value in known.items() if key in shown}})


def document(steps: list[Step], title: str) -> Document:
    """The plan for a person."""
    promise = Item("Nothing is installed and nothing is written there; only these commands are run.", "")
    sections = [Section("", [promise])]
    for step in steps:
        about = Values({"when": step.when, "needs": step.needs, "costs": step.price})
        sections.append(Section(step.what, [*map(Command, step.commands), about]))
    return Document(title, sections)


SAMPLED = re.compile(r'"(status|comm|wchan|io|environ|cgroup|syscall|stat|stack|schedstat|limits|cmdline|oom_score)"')
"""Files of /proc/PID that the sampler's program names."""


def security(options: Options | None = None) -> Document:
    """What a collection reads, by the right that it needs: from the table of tools, as the plan has it. Nothing is run for it."""
    steps = plan(options or Options())
    asked = [tool for tool in table().tools.values() if tool.option not in ("", "never") and tool.system == "linux"]
    sections = []
    for right in dict.fromkeys(step.needs for step in steps):
        rows = [(step.what, command) for step in steps if step.needs == right for command in step.commands]
        sections.append(Section(f"read by {right}", [Table(("", ""), rows)]))
    only = [(one.what, f"--{one.option.removesuffix('_s').replace('_', '-')}", NEEDS.get(one.needs, one.needs)) for one in asked]
    files = ", ".join(sorted(set(SAMPLED.findall(sampler_program()))))
    names = ", ".join([*sorted(ENVIRON_NAMES), *(f"{prefix}*" for prefix in sorted(ENVIRON_PREFIXES))])
    kept = (
        f"of each process and thread of the launch, from /proc/PID: {files}, and where its descriptors lead",
        f"names of all its environment variables; values, scrubbed, of these: {names}; of others a value that can be no secret "
        "(a path, a number, a switch, a reference), or whose name says that it is about something (…_ID, …_VERSION, …_HOST)",
        "command lines, logs and outputs with what looks like a secret replaced before they reach the disk",
        "of sockets and locks the lines of the launch alone",
        "in a folder that only its owner may enter (0700), in files that only he may read (0600); reports as umask says",
    )
    never = (
        "memory of a process (mem, pagemap, core), and contents of files other than the logs",
        "anything written or installed on the host, anything sent elsewhere",
    )
    sections += [
        Section("only where it is asked for", [Table(("", "option", "needs"), only)]),
        Section("kept", [Item(text) for text in kept]),
        Section("never", [Item(text, "×") for text in never]),
    ]
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    return Document(
        f"what kit collect reads, here as {who}", sections, subtitle="kit collect … --dry-run shows when, and what it costs"
    )
