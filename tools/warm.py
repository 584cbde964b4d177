"""Compile what reads large traces and logs, for which the first of them would wait: `tools/setup.sh` runs this."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from kit import compiled
from kit.intake.content import Numbers
from kit.intake.shippers import lines_of
from kit.parse.base import Report, Source
from kit.parse.log_fast import skim
from kit.parse.strace import strace_tables
from kit.parse.text import LineReader

TRACE = "8 1795956512.5 read(3, <unfinished ...>\nstrace: Process 9 attached\n7 1795956512.5 close(2) = 0 <0.00001>\n"
"""A call is open while a line is read with care."""
REPEATS = 500
"""More than the records of a milestone that are read with care in any case."""


def log(number: int) -> str:
    """A line of each kind that the passes over a log tell apart."""
    return (
        f"n0:70:81 [0] NCCL INFO Ring 0{number % 8} : {number} -> 1\n"
        f"n0:70:81 [0] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x1 recvbuff 0x2 count 8 datatype 9 op 0 root 0 "
        "comm 0x5 [nranks=2] stream 0x7\n"
        f"(APIServer pid=7) INFO 03-20 12:00:00 [async_llm.py:271] Added request chatcmpl-{number:032x}.\n"
        f'(APIServer pid=7) INFO:     10.0.0.1:{30000 + number} - "POST /v1/completions HTTP/1.1" 200 OK\n'
    )


def main() -> None:
    """Read small files as if they were large; what was compiled for them is kept beside the source."""
    compiled.pays = lambda kind, size: True
    from kit.intake.beginnings_compiled import CompiledLines
    from kit.intake.colours_compiled import bare, steers

    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("a.strace", TRACE), ("a.log", "".join(map(log, range(REPEATS))))):
            (Path(folder) / name).write_text(text)
        trace, plain = LineReader(Path(folder) / "a.strace"), LineReader(Path(folder) / "a.log")
        list(strace_tables(trace, Source("a.strace"), Report()) or ())
        list(skim(plain, Source("a.log"), Report()))
    lines = CompiledLines(re.compile(b"x"))
    lines.learn(b"a line")
    list(lines.unknown(bare(b"a line\n")) if not steers(b"a line\n") else ())
    record = b'{"log": "a line\\n", "stream": "stderr", "time": "2026-03-20T12:00:00.5Z"}\n'
    list(lines_of([(0, record * 9)], Numbers()))


if __name__ == "__main__":
    main()
