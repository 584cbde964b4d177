"""A dry run prints what a recording runs: the same commands, from the same objects."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kit.capture.find import find_launch
from kit.capture.hosts.process_source import READS, ProcFiles
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.manifest import make_folder
from kit.capture.options import Options
from kit.capture.plan import plan
from kit.capture.recording import Recording
from kit.capture.tools.strace import attach_words
from kit.cli import main
from kit.tool_table import table

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc")


class Overheard(LocalHost):
    """This machine, looked at as another one would be, with a list of what it is asked to run."""

    def __init__(self) -> None:
        super().__init__()
        self.processes = ProcFiles(self)
        self.commands: list[str] = []
        self.scripts: list[str] = []

    def ask(self, script: str, timeout_s: float = 10.0):
        self.scripts.append(script)
        return super().ask(script, timeout_s)

    def run(self, command, timeout_s, first=15):
        self.commands.append(shlex.join(command))
        return super().run(command, timeout_s, first)

    def run_each(self, commands, timeout_s):
        self.commands += [shlex.join([Path(words[0]).name, *words[1:]]) for words in commands.values()]
        return super().run_each(commands, timeout_s)

    def start_shell(self, script: str = ""):
        traced = re.search(r"timeout -s INT .*?(?= </dev/null)", script)
        self.commands += [traced.group()] if traced else []
        return super().start_shell(script)


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.needs_tool("strace", "py-spy")
def test_the_printed_commands_are_those_that_the_host_was_asked_to_run(tmp_path, sleeper):
    options = Options(0.5, 0.5, 0.2, py_spy=True, gdb=True, smaps_rollup=True)
    with Overheard() as host:
        make_folder(tmp_path / "run")
        Recording(host, tmp_path / "run", find_launch(host, sleeper.pid), options).record()
    known = {"pid": sleeper.pid, "pids": sleeper.pid, "attach": attach_words([sleeper.pid])}
    steps = {step.what: step for step in plan(options, **known)}
    by_tool = [steps[tool.what] for tool in table().tools.values() if tool.what in steps and not tool.path]
    printed = {command for step in by_tool for command in step.commands if host.has(_program(command))}
    unused = {shlex.join(tool.words(tool.fallback, **known)) for tool in table().tools.values() if tool.fallback}
    assert set(host.commands) == printed - unused
    assert {_program(command) for command in host.commands} >= {"ps", "py-spy", "cat", "strace"}


def test_what_the_shell_is_asked_for_is_printed_too(tmp_path, sleeper):
    with Overheard() as host:
        launch = find_launch(host, sleeper.pid)
        host.processes.descriptors_to("x y")
        host.processes.listeners(launch.pid)
        host.processes.descriptors(sleeper.pid)
    forms = [re.sub(r"\\\{\w+\\\}", ".*", re.escape(text)) for text in READS.values()]
    assert host.scripts and not [script for script in host.scripts if not any(re.fullmatch(form, script) for form in forms)]
    (step,) = (step for step in plan(Options()) if step.what.startswith("processes, "))
    assert len(step.commands) == len(READS)


def _program(command: str) -> str:
    words = shlex.split(command)
    return "strace" if words[0] == "timeout" else words[0]


def test_several_targets_are_named_either_way(capsys):
    named = ["local", "--target", "ssh://a.invalid", "--target", "ssh://b.invalid"]
    assert main(["collect", *named, "--pid", "7", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("on local, ssh://a.invalid, ssh://b.invalid")
    assert main(["collect", "ssh://a.invalid", "--pid", "7"]) == 2, "a recording needs a folder"
    capsys.readouterr()


def test_a_dry_run_connects_to_nothing(tmp_path, capsys):
    arguments = ["collect", "ssh://nobody@host.invalid:1", "--pid", "7", "--strace", "3s", "--strace-pid", "9", "--dry-run"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "timeout -s INT -k 3 3 strace" in said and "-p 9" in said and "quarter of its speed" in " ".join(said.split())
    assert "gdb -p" not in said and "py-spy dump" not in said


def test_doctor_shows_what_a_collection_reads(capsys: pytest.CaptureFixture) -> None:
    """Every command of the plan, every tool that must be asked for, and what is kept of an environment."""
    assert main(["doctor", "--security"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for step in plan(Options()):
        for command in step.commands:
            assert " ".join(command.split())[:40] in shown, command
    for tool in table().tools.values():
        if tool.option not in ("", "never") and tool.system == "linux":
            assert tool.what in shown
    for file in ("environ", "syscall", "schedstat", "NCCL_*"):
        assert file in shown
    assert "0700" in shown and "never" in shown
