"""What is run on a host is what the plan says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.capture.find import find_launch
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.manifest import make_folder
from kit.capture.plan import as_text, plan
from kit.capture.recording import Options, Recording
from kit.cli import main

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc")
HARMLESS = set("case cat do done echo for getconf head printf pwd readlink sh test true wait".split())


class Overheard(LocalHost):
    """This machine, with a list of what is run."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: set[str] = set()

    def ask(self, script: str, timeout_s: float = 10.0):
        for line in re.split(r"[\n;|&{}()]+", script):
            self.programs |= {Path(word).name for word in line.split()[:1]}
        return super().ask(script, timeout_s)

    def run(self, command, timeout_s, first=15):
        self.programs.add(Path(command[0]).name)
        return super().run(command, timeout_s, first)


def test_every_program_that_runs_stands_in_the_plan(tmp_path):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    options = Options(0.5, 0.5, 0.2, py_spy=True, gdb=True, smaps_rollup=True)
    try:
        with Overheard() as host:
            make_folder(tmp_path / "run")
            Recording(host, tmp_path / "run", find_launch(host, sleeper.pid, None, None), options).record()
            programs = {name for name in host.programs if re.fullmatch(r"[a-z][\w-]*", name)} - HARMLESS
    finally:
        sleeper.kill()
        sleeper.wait()
    text = as_text(plan(options))
    assert {"ps", "ls", "grep"} <= programs
    assert not {name for name in programs if not re.search(rf"\b{name}\b", text)}


def test_several_targets_are_named_either_way(capsys):
    named = ["local", "--target", "ssh://a.invalid", "--target", "ssh://b.invalid"]
    assert main(["collect", *named, "--pid", "7", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("on local, ssh://a.invalid, ssh://b.invalid:")
    assert main(["collect", "ssh://a.invalid", "--pid", "7"]) == 2, "a recording needs a folder"
    capsys.readouterr()


def test_a_dry_run_connects_to_nothing(tmp_path, capsys):
    arguments = ["collect", "ssh://nobody@host.invalid:1", "--pid", "7", "--strace", "3s", "--strace-pid", "9", "--dry-run"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "timeout -s INT -k 3 3 strace" in said and "-p 9" in said and "quarter of its speed" in said.replace("\n        ", " ")
    assert "gdb -p" not in said and "py-spy dump" not in said
