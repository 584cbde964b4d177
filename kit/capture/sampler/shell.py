"""How a sampler starts: text for `/bin/sh -s`, with nothing but the shell's input and nothing on the host's disk.

The input stays open: signs of life come over it, and where they stop the sampler ends, for a connection that is cut without
a word leaves the far side running until TCP gives up, a quarter of an hour later. A Python that reads its script from the
input reads it to the end first; so the shell hands it the script through a pipe of its own (a here-document would be a file
on the disk in some shells) and the input as descriptor 3.

The whole text is one command in braces: some shells read their input by blocks, and must have it all before they run it.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from pathlib import Path
from typing import Any

from kit.capture import sampler_program

HERE = Path(__file__).resolve().parent
LISTEN_FD = 3


def python_shell(parameters: dict[str, Any], python: str) -> str:
    """Shell text that runs the sampler in an interpreter.

    Examples
    --------
    >>> python_shell({"roots": [7]}, "python3").startswith("{ exec 3<&0; printf %s 'import base64")
    True
    """
    packed = base64.b64encode(zlib.compress(sampler_program(parameters | {"listen_fd": LISTEN_FD}).encode(), 9)).decode()
    script = f'import base64,zlib;exec(compile(zlib.decompress(base64.b64decode("{packed}")),"sampler","exec"))'
    return f"{{ exec {LISTEN_FD}<&0; printf %s '{script}' | {shlex.quote(python)} -S -I -; exit; }}\n"


def awk_shell(parameters: dict[str, Any], awk: str = "awk") -> str:
    """Shell text that runs the sampler in any POSIX awk (mawk, gawk, busybox), where there is no Python."""
    settings = {
        "roots": " ".join(map(str, parameters["roots"])),
        "exclude": " ".join(map(str, parameters.get("exclude", ()))),
        **{name: parameters[name] for name in ("interval_s", "samples")},
        "first": parameters.get("first", 0),
    }
    given = " ".join(f"-v {name}={shlex.quote(str(value))}" for name, value in settings.items())
    program = (HERE / "sampler.awk").read_text(encoding="utf-8")
    return _guarded(f"{shlex.quote(awk)} {given} -v guard=$g -v own=$$ {shlex.quote(program)}", parameters)


def portable_shell(parameters: dict[str, Any], python: str) -> str:
    """Shell text that runs the sampler by psutil, on this machine where it has no /proc."""
    command = shlex.join([python, "-m", "kit.capture.sampler.portable", json.dumps(parameters)])
    return f"{{ PYTHONPATH={shlex.quote(str(HERE.parents[2]))} exec {command}; }}\n"


def _guarded(work: str, parameters: dict[str, Any]) -> str:
    """Run a program that cannot listen itself: the shell reads the signs of life, a guard ends all where they stop."""
    rounds = max(2, round(parameters["patience_s"] / 3))  # a sign is heard once in a round, which counts by then
    return (
        f"{{ renice -n {parameters.get('nice', 19)} -p $$ >/dev/null 2>&1\n"
        f"(trap 'n=0' USR1; n=0; while [ $n -lt {rounds} ]; do sleep 3; n=$((n+1)); done; kill $$) "
        "</dev/null >/dev/null 2>&1 & g=$!\n"
        f"{{ {work}\nkill $g $$; }} </dev/null & w=$!\n"
        "trap 'kill $g 2>/dev/null; exit' TERM\n"
        "while read -r sign; do kill -USR1 $g || break; done 2>/dev/null\n"
        "kill $g 2>/dev/null\nwait $w 2>/dev/null\nexit; }\n"
    )
