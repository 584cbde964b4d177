"""Launch scripts and command lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from kit.parse import grammar
from kit.parse.base import Report, Rows, Source
from kit.parse.records import ANSI

WRAPPERS = frozenset("sudo nohup exec env time setsid nice stdbuf numactl taskset timeout ionice command chrt".split())
"""Programs that only start another one."""
_ASSIGNS = re.compile(r"^[A-Za-z_]\w*=")
_RUNS_PYTHON = re.compile(r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed)")
_NAME = re.compile(r"[\w.-]+")
_STARTERS = ("torch.distributed", "accelerate.commands", "deepspeed.launcher")
"""Modules that start a script which comes later."""
_AIDS = frozenset(("pip", "venv", "http", "json", "torch", "collect_env", "py_spy", "ray", "multiprocessing"))
"""What one runs beside a launch, or what it runs of its own."""
MOST_WORDS = 40
_SHELL_WORDS = re.compile(
    r"^(?:(?:set|cd|source|\.|if|then|fi|else|elif|for|while|do|done|case|esac|shift|trap|ulimit|echo|sleep|"
    r"wait|mkdir|export|"
    r"unset|read|return|exit|function|local|true|rm|cp|mv|tee|kill|pkill)\b|(?:\{|\}|\[\[?)(?:\s|$))"
)
_LAUNCHERS = re.compile(
    r"(?:^|\s|/|;|&&)(?:docker (?:run|compose)|podman run|python[\d.]* -m |mpirun|srun|ray start|singularity exec|"
    r"apptainer exec|python[\d.]* (?:-u )?\S+\.py|kubectl apply|sbatch|uvicorn|helm (?:install|upgrade)|"
    r"kubectl (?:run|create)|nerdctl run)"
)
"""Commands that start something, whatever it is; those of servers stand in their grammars."""


def run_by_python(text: str) -> str | None:
    """Module or script that a command line has Python run, as a process list shows it; None where it runs none.

    Examples
    --------
    >>> run_by_python("CUDA_VISIBLE_DEVICES=0 python3 -u -m my_server.chat --model m")
    'my_server.chat'
    >>> run_by_python("torchrun --nproc_per_node 8 src/train.py --lr 1e-4"), run_by_python("pip install x")
    ('train.py', None)
    """
    words = text.split(None, MOST_WORDS)[:MOST_WORDS]
    start = next((at for at, word in enumerate(words) if _RUNS_PYTHON.fullmatch(word)), None)
    for before, word in itertools.pairwise(words[start:] if start is not None else ()):
        name = word.rsplit("/", 1)[-1]
        if before == "-m" and not word.startswith(_STARTERS) or word.endswith(".py"):
            return name if _NAME.fullmatch(name) and name.split(".")[0] not in _AIDS else None
    return None


def program_of(command: str) -> str | None:
    """What Python runs in a command, else its first word that is a program of its own.

    Examples
    --------
    >>> program_of("CUDA_VISIBLE_DEVICES=0 nohup python3 -m sglang.launch_server --tp 8")
    'sglang.launch_server'
    >>> program_of("numactl --cpunodebind=0 /usr/bin/vllm serve org/m"), program_of("docker run -d vllm/vllm-openai")
    ('vllm', 'docker')
    """
    words = command.split()
    while words and (
        _ASSIGNS.match(words[0]) or words[0] in WRAPPERS or words[0].startswith("-") or re.fullmatch(r"\d+[smh]?", words[0])
    ):
        words.pop(0)
    program = words[0].rsplit("/", 1)[-1] if words else None
    return program and _RUNS_PYTHON.fullmatch(program) and run_by_python(command) or program


def parse_launch(lines: Iterable[str], source: Source, report: Report) -> Rows:
    """Read a launch script or a command line: a row a command, continued lines joined; comments are left out.

    Examples
    --------
    >>> sample = ["#!/bin/bash", "export NCCL_DEBUG=INFO", "vllm serve org/m \\\\", "  --port 8001"]
    >>> [(row["program"], row["text"]) for _, row in parse_launch(sample, Source("launch.sh"), Report())]
    [('export', 'export NCCL_DEBUG=INFO'), ('vllm', 'vllm serve org/m --port 8001')]
    """
    pending, at = [], None
    for place, line in enumerate(lines, 1):
        report.lines += 1
        text = re.sub(r"^\$ ", "", ANSI.sub("", line).strip())
        if not pending and (not text or text.startswith("#")):
            continue
        at = at or place
        if text.endswith("\\"):
            pending.append(text[:-1].strip())
            continue
        if not text.startswith("#"):
            pending.append(text)
        command = " ".join(part for part in pending if part)
        if command:
            report.records += 1
            yield "commands", {"text": command, "program": program_of(command), "line": at}
        pending, at = [], None
    if pending:
        report.odd("the last command is cut", pending[-1])
        yield "commands", {"text": " ".join(pending), "program": program_of(" ".join(pending)), "line": at}


def is_launch(head: str) -> float:
    """Score of a head as a launch script or command line."""
    if re.match(r"^#! ?/\S*(?:sh|env)\b", head):
        return 0.95
    joined = re.sub(r"\\\s*\n", " ", head)
    starters = [_LAUNCHERS, *(found.launch.command for found in grammar.load().all if found.launch)]
    lines = [
        text
        for text in (re.sub(r"^\$ ", "", line.strip()) for line in joined.splitlines()[:100])
        if text and not text.startswith("#")
    ]
    started = [
        line
        for line in lines
        if re.match(r"^[\w./$({\"-]", line)
        and not re.match(
            r"^\d|^\S+ +\d+ |^[\w./-]+: ", line
        )  # "srun: job 4 queued", "x.sh: line 9: 41 Killed": what is said of one
        and not re.search(r"\b(?:DEBUG|INFO|WARN|WARNING|ERROR)\b|\d-\d\d[T ]\d\d:\d\d:|^(?i:usage): |: error: ", line[:80])
        and any(command.search(" " + line[:200]) for command in starters)
    ]
    plain = [line for line in lines if line in started or _ASSIGNS.match(line) or _SHELL_WORDS.match(line)]
    if not started:
        return 0.0
    return 0.85 if len(plain) >= 0.7 * len(lines) else 0.5 if len(plain) >= 0.5 * len(lines) else 0.0
