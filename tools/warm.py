"""Compile what reads large traces, for which the first of them would wait: `tools/setup.sh` runs this."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kit import compiled
from kit.parse.base import Report, Source
from kit.parse.strace import strace_tables
from kit.parse.text import LineReader


def main() -> None:
    """Read a trace of two lines as if it were large; what was compiled for it is kept beside the source."""
    compiled.pays = lambda kind, size: True
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "a.strace"
        trace.write_text("7 1795956512.5 close(2) = 0 <0.00001>\n8 1795956512.5 read(3, <unfinished ...>\n")
        list(strace_tables(LineReader(trace), Source(trace.name), Report()) or ())


if __name__ == "__main__":
    main()
