"""The compiled pass over large captures of strace gives what the careful reader gives, line by line."""

from __future__ import annotations

import os
import pickle
import random
import tracemalloc
from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kit
from kit import mapped, store
from kit.analyse.verdict.evidence import SyscallDigest
from kit.compiled import _kept, sources_of
from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES as DECLARED
from kit.parse import TABLES_FROM_BYTES, strace_chunks, strace_table
from kit.parse.base import Report, Source
from kit.parse.strace import parse_strace, read
from kit.parse.strace_events import Joiner
from kit.parse.strace_rows import Wanted
from kit.parse.text import LineReader
from kit.schema import rows_of

DATA = Path(__file__).resolve().parent.parent / "data" / "strace"
CASES = sorted(DATA.glob("*.strace*"))
NS = 1_000_000_000
CAPTURED = 1_795_956_512 * NS
FRAMES = ("syscalls", "signals", "syscall_totals", "tool_errors")


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Whatever the size, and whether or not what was compiled is kept."""
    monkeypatch.setattr("kit.compiled.pays", lambda kind, size: True)


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


def frames(path: Path) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Frames of a file, by the careful reader and by the compiled pass."""
    about = (Source(path.name, CAPTURED), Report())
    rows = [row | {"capture": path.name} for frame, row in parse_strace(LineReader(path), *about) if frame == "syscalls"]
    return DECLARED["syscalls"].build(rows), strace_table.frame(LineReader(path), *about, Wanted())


def test_both_agree_where_cases_follow_each_other_in_chunks_of_a_few_lines(tmp_path, monkeypatch):
    """Open calls, messages, tables and output cross the ends of chunks."""
    monkeypatch.setattr(strace_chunks, "CHUNK_BYTES", 900)
    path = tmp_path / "all.strace"
    for seed in range(3):
        cases = CASES * 2
        random.Random(seed).shuffle(cases)
        path.write_bytes(b"".join(case.read_bytes() for case in cases))
        careful, fast = both(path)
        assert fast == careful
        pandas.testing.assert_frame_equal(*frames(path))


@pytest.mark.parametrize("longest", [100, 1_000, 40_000])
def test_a_frame_holds_texts_of_any_length_and_more_calls_than_its_first_lines_tell(longest, tmp_path, monkeypatch):
    monkeypatch.setattr(strace_chunks, "CHUNK_BYTES", 1_000)
    path = tmp_path / "longer.strace"
    names = ("a" * longest, "x" * longest + "\xe9")
    lines = [f'7  1795956512.3 open("{name}") = 3<{name}> <0.000010>\n' for name in names]
    path.write_text("".join(lines) + "7<sh> 1795956512.4 close(3) = -1 EBADF (Bad)\n7  1795956512.5 getpid() = 7\n" * 60)
    careful, fast = frames(path)
    pandas.testing.assert_frame_equal(fast, careful)
    assert fast["args"].str.len().max() == longest + 3 and fast["errno"].count() == 60


def test_texts_of_a_frame_are_made_when_they_are_looked_at(large):
    frame = read(large)
    texts = frame["args"].array
    assert len(texts) == 52_000 and "_pa_array" not in vars(texts)
    assert pickle.loads(pickle.dumps(frame[:2].copy())).equals(frame[:2])
    assert texts[1] == '3</srv/a>, "x(y) = \\"1", 4096' and "_make" not in vars(texts)
    assert not hasattr(texts, "nothing")


PIECES = (
    "1234 ",
    "[pid  77] ",
    "5<sh> ",
    "12:00:00.5 ",
    "1795956512.000001 ",
    "179595651:.000001 ",
    "1795956512.00/001 ",
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
    ") = 0 <:.000012>\n",
    ") = 0 <0.0000/2>\n",
    ") = -1 EAGAIN (Resource temporarily unavailable)\n",
    ") = ?\n",
    "--- SIGCHLD {si_signo=SIGCHLD} ---\n",
    "+++ exited with 0 +++\n",
    "strace: Process 9 attached\n",
    " > /lib/libc.so.6(read+0x1) [0x2]\n",
    " > /\xc3\xa9.so(f+0x1) [0x2]\n",
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
    "% time     seconds  usecs/call     calls    errors syscall\n",
    "------ ----------- ----------- --------- --------- ----------------\n",
    "  0.00    0.000000           0         2           read\n",
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
    path.write_bytes("".join(pieces).encode("latin-1") + b"\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strace_chunks, "CHUNK_BYTES", 150)
        careful, fast = both(path)
    assert fast == careful


@pytest.mark.parametrize(
    ("begin", "time_s", "duration_s"),
    [("17959564.605892", 1_795_956_512.330286, None), ("179595651\r2.665584", 179_595_651, 1_616_360_861.330286)],
    ids=["no time", "years before its end"],
)
def test_both_agree_where_the_clock_of_a_first_half_is_damaged(tmp_path, begin, time_s, duration_s):
    path = tmp_path / "damaged.strace"
    path.write_bytes(
        f"7840  1795956512.319339 close(3) = 0\n7841  {begin} read(3,  <unfinished ...>\n"
        "7840  1795956512.320286 close(4) = 0\n7841  1795956512.330286 <... read resumed>) = ?\n".encode()
    )
    careful, fast = both(path)
    assert fast == careful
    (call,) = (row for row in fast["syscalls"] if row["pid"] == 7841)
    assert call["time"] == pytest.approx(time_s * NS, abs=1000) and call.get("duration_s") == pytest.approx(duration_s)


def test_a_call_of_two_lines_that_never_returns_keeps_its_last_line_over_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(strace_chunks, "CHUNK_BYTES", 150)
    path = tmp_path / "broken.strace"
    begin = "7  1795956512.3 futex(0x7f0, FUTEX_WAIT, 0\n, NULL <unfinished ...>\n"
    path.write_text(begin + "8  1795956512.4 close(3) = 0\n" * 40)
    careful, fast = both(path)
    assert fast == careful and fast["syscalls"][-1]["end_line"] == 2


def capture_of(path: Path, calls: int) -> Path:
    """A capture in which two threads call in turn, one of them in halves; the clock moves on by a millisecond a call."""
    with open(path, "w") as file:
        for n in range(calls):
            at = f"{1_795_956_512 + n // 1000}.{n % 1000:03}000"
            if n % 2:
                file.write(f'7  {at} read(3</srv/a>, "x(y) = \\"1", 4096) = 8 <0.000010>\n')
            else:
                file.write(f"8  {at} futex(0x7f0, FUTEX_WAIT, 1, NULL <unfinished ...>\n8  {at} <... futex resumed>) = 0 <0.5>\n")
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Large enough for the compiled pass."""
    path = capture_of(tmp_path_factory.mktemp("strace") / "big.strace", 52_000)
    assert path.stat().st_size > TABLES_FROM_BYTES
    return path


def test_a_large_capture_gives_the_frame_of_a_small_one(large, tmp_path):
    small = capture_of(tmp_path / "small.strace", 100)
    os.utime(small, ns=(CAPTURED, CAPTURED))
    os.utime(large, ns=(CAPTURED, CAPTURED))
    expected = read(small).drop(columns="capture")
    found = read(large)
    assert found["capture"].unique().tolist() == ["big.strace"]
    pandas.testing.assert_frame_equal(found.drop(columns="capture").head(100), expected)
    assert len(found) == 52_000 and found["duration_s"].sum() == pytest.approx(26_000 * (0.5 + 0.00001))
    assert found["state"].value_counts().to_dict() == {"merged": 26_000, "done": 26_000}


@pytest.mark.parametrize("size", ["large", "small"])
def test_columns_window_and_calls_are_chosen_alike(size, large, tmp_path):
    path = large if size == "large" else capture_of(tmp_path / "small.strace", 4_000)
    begin = 1_795_956_512 * NS
    rows = read(path, ["time", "syscall"], window=(begin + NS, begin + NS + 10 * NS // 1000))
    assert rows["syscall"].value_counts().to_dict() == {"futex": 256, "read": 5}  # a wait of half a second reaches into it
    only = read(path, ["fd", "args"], window=("2026-11-29T12:48:33Z", "2026-11-29T12:48:33.010Z"), calls=["read"])
    assert only.to_dict("records") == [{"fd": 3, "args": '3</srv/a>, "x(y) = \\"1", 4096'}] * 5


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(strace_chunks, "CHUNK_BYTES", 100_000)
    peaks = []
    for calls in (10_000, 40_000):
        lines = LineReader(capture_of(tmp_path / "a.strace", calls))
        tracemalloc.start()
        for _ in strace_table.tables(lines, Source("a.strace"), Report(), Wanted(("pid", "args"))):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1_000_000


def test_colours_go(tmp_path):
    path = tmp_path / "colour.strace"
    path.write_bytes(b"\x1b[1m7\x1b[0m  \x1b[33mclose\x1b[0m(\x1b[34m3\x1b[0m) = \x1b[32m0\x1b[0m <0.000010>\r\n" * 3)
    careful, fast = both(path)
    assert fast == careful and [row["args"] for row in fast["syscalls"]] == ["3"] * 3


def test_a_folder_of_ff_takes_pids_from_the_names(tmp_path):
    for pid in (40, 41):
        (tmp_path / f"launch.strace.{pid}").write_text("12:00:00.5 close(3) = 0\n12:00:01.5 +++ exited with 0 +++\n")
    assert read(tmp_path)[["pid", "syscall"]].to_dict("records") == [
        {"pid": 40, "syscall": "close"},
        {"pid": 41, "syscall": "close"},
    ]


def test_what_is_no_output_of_strace_says_what_it_looks_like(tmp_path):
    path = tmp_path / "strace.txt"
    path.write_text("[2026-02-18 00:28:26 TP0] Load weight begin. avail mem=93.42 GB\n")
    with pytest.raises(EvidenceError, match="strace.txt is not output of strace"):
        read(path)
    with pytest.raises(UsageError, match="no column 'syscal'"):
        read(path, ["syscal"])


def test_a_run_reads_a_large_capture_by_tables_and_keeps_it(large, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Joiner, "feed", None)  # the careful reader is not needed for any line
    run = kit.open_run(large)
    frame = run.frame("syscalls")
    pandas.testing.assert_frame_equal(frame[["pid", "args", "duration_s"]], read(large, ["pid", "args", "duration_s"]))
    assert list((tmp_path / "cache").glob("**/syscalls.parquet"))
    digests = []
    for make in (SyscallDigest(), SyscallDigest()):
        consumers = {"syscalls": make.add} | ({"syscall_tables": make.add_table} if digests else {})
        run.scan(consumers)
        digests.append({**vars(make), "samples": {key: plain(row) for key, row in make.samples.items()}})
    assert digests[0] == digests[1] and digests[0]["calls"] == 52_000
    assert _kept(*sources_of("strace"))  # what was compiled, found again


def test_a_mapped_copy_is_used_where_it_is_the_file_that_was_written(large, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    columns, window = ["time", "syscall", "args", "fd"], (1_795_956_513 * NS, 1_795_956_514 * NS)
    expected = kit.open_run(large).frame("syscalls", columns)
    (copy,) = (tmp_path / "cache").glob("**/syscalls.args")
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.read_table", None)
        pandas.testing.assert_frame_equal(kit.open_run(large).frame("syscalls", columns), expected)
        part = store.load(copy.parent, DECLARED["syscalls"], columns, window)
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 0xFF  # might be an offset of a text: reading it could end the process
    copy.unlink()  # frames are still mapped to it
    copy.write_bytes(data)
    pandas.testing.assert_frame_equal(kit.open_run(large).frame("syscalls", columns), expected)
    pandas.testing.assert_frame_equal(store.load(copy.parent, DECLARED["syscalls"], columns, window), part)
    assert 0 < len(part) < len(expected)


def test_a_mapped_frame_is_that_of_the_parquet_file_and_may_be_changed(large, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    frames = [kit.open_run(large).frame("syscalls") for _ in range(2)]
    frames[0].loc[0, "pid"] = None
    (place,) = (tmp_path / "cache").glob("**/syscalls.parquet")
    pandas.testing.assert_frame_equal(kit.open_run(large).frame("syscalls"), frames[1])
    for window in (None, (None, None), (None, 1_795_956_513 * NS), (1_795_956_513 * NS, None)):
        stamps = store._about(place.parent)["mapped"]
        from_copy = mapped.load(place.parent, DECLARED["syscalls"], list(frames[1]), window, stamps)
        with monkeypatch.context() as patch:
            patch.setattr(mapped, "NAMES", frozenset())
            pandas.testing.assert_frame_equal(store.load(place.parent, DECLARED["syscalls"], list(frames[1]), window), from_copy)


def test_a_mapped_copy_has_no_file_for_a_column_without_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(strace_chunks, "CHUNK_BYTES", 150)
    monkeypatch.setattr(store, "CHUNK_ROWS", 1)
    path = tmp_path / "late.strace"
    path.write_text("7  1795956512.3 close(3) = 0\n" * 40 + "7<a> 1795956512.4 close(3) = -1 EBADF (Bad file descriptor)\n")
    table = [("syscalls", table) for _, table in strace_table.tables(LineReader(path), Source("late.strace"), Report())]
    counts, stamps = store._write_frames(tmp_path, table)
    assert counts == {"syscalls": 41} and "syscalls.errno" in stamps and "syscalls.stack" not in stamps
    found = mapped.load(tmp_path, DECLARED["syscalls"], ["comm", "errno", "stack", "t_s", "end_line", "line"], None, stamps)
    pandas.testing.assert_frame_equal(found, read(path, list(found)), check_dtype=True)
    assert found["comm"].count() == found["errno"].count() == 1 and found["stack"].isna().all()


def test_there_is_no_mapped_copy_of_a_frame_that_is_too_large(large, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mapped, "MOST_BYTES", 1_000_000)
    assert len(kit.open_run(large).frame("syscalls", ["pid"])) == 52_000
    assert not list((tmp_path / "cache").glob("**/syscalls.[!p]*"))
