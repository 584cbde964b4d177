"""The compiled pass over large captures of strace gives what the careful reader gives, line by line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.parse import strace_table
from kit.parse.base import Report, Source
from kit.parse.strace import parse_strace
from kit.parse.text import LineReader
from kit.schema import rows_of

DATA = Path(__file__).resolve().parent.parent / "data" / "strace"
CASES = sorted(DATA.glob("*.strace*"))
NS = 1_000_000_000
CAPTURED = 1_795_956_512 * NS
FRAMES = ("syscalls", "syscall_totals", "tool_errors")


def plain(row: dict) -> dict:
    """A row without its missing values."""
    return {name: value for name, value in row.items() if value is not None}


def both(path: Path, **about: object) -> tuple[dict, dict]:
    """Rows by frame and accounts of a file, by the careful reader and by the compiled pass."""
    found = []
    for tables in (False, True):
        report, lines = Report(), LineReader(path)
        source = Source(**{"name": path.name, "captured_ns": CAPTURED} | about)
        items = strace_table.tables(lines, source, report) if tables else parse_strace(lines, source, report)
        rows: dict = {name: [] for name in FRAMES}
        for frame, item in items:
            for row in (item,) if isinstance(item, dict) else rows_of(item):
                rows[frame].append(plain(row | {"capture": path.name}))
        lines.tell(report)
        found.append({**rows, "report": vars(report)})
    return found[0], found[1]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_both_readers_agree_on_every_case(case):
    careful, fast = both(case)
    assert fast == careful


def test_both_agree_where_cases_follow_each_other_in_chunks_of_a_few_lines(tmp_path, monkeypatch):
    """Open calls, messages, tables and output cross the ends of chunks."""
    monkeypatch.setattr(strace_table, "CHUNK_BYTES", 900)
    path = tmp_path / "all.strace"
    for seed in range(3):
        cases = CASES * 2
        random.Random(seed).shuffle(cases)
        path.write_bytes(b"".join(case.read_bytes() for case in cases))
        careful, fast = both(path)
        assert fast == careful


PIECES = (
    "1234 ",
    "[pid  77] ",
    "5<sh> ",
    "12:00:00.5 ",
    "1795956512.000001 ",
    "(+ 0.1) ",
    "[   3] ",
    "read(",
    "write(1, ",
    '"a\\n", 2',
    "3</srv/a) = 1>",
    '"x(y", ',
    "<unfinished ...>",
    " <unfinished ...>\n",
    "<... read resumed>",
    ", 4) = 4 <0.000012>\n",
    ") = 0\n",
    ") = -1 EAGAIN (Resource temporarily unavailable)\n",
    ") = ?\n",
    "--- SIGCHLD {si_signo=SIGCHLD} ---\n",
    "+++ exited with 0 +++\n",
    "strace: Process 9 attached\n",
    " > /lib/libc.so.6(read+0x1) [0x2]\n",
    " | 00000  61 62 \n",
    "\n",
    "\x1b[1m",
    "\r\n",
    "\xe4",
    "\0",
    "/* c */",
    "close(5)",
    "futex(0x7f, FUTEX_WAIT, 1, NULL",
    'execve("/a"',
    "restart_syscall(<... resuming interrupted read ...>",
    "<detached ...>",
    "[{fd=3}]",
    "'",
    "<",
    ">",
    "(",
    ")",
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=60))
def test_both_agree_on_any_text(tmp_path, pieces):
    path = tmp_path / "any.strace"
    path.write_bytes("".join(pieces).encode("latin-1"))
    careful, fast = both(path)
    assert fast == careful
