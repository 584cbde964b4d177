"""Packaged regular expressions are compiled when they are first used; here all of them are, so that a broken one shows."""

from __future__ import annotations

import subprocess
import sys

COMPILE_ALL = """
import kit.tomlfile
made = []
class Eager(kit.tomlfile.Waiting):
    def __init__(self, pattern):
        super().__init__(pattern)
        made.append(self.groupindex)
kit.tomlfile.Waiting = Eager
import kit
kit.verdict(kit.__path__[0] + "/../data/sg01-capture-hang")
print(len(made))
"""


def test_all_packaged_patterns_compile():
    done = subprocess.run([sys.executable, "-c", COMPILE_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 500, "patterns were read elsewhere"
