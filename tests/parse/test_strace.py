"""strace: every form read as it should be, split calls joined, rows of frame `syscalls`."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest

import kit
from kit.errors import EvidenceError
from kit.frames import FRAMES
from kit.parse import recognise, strace_events
from kit.parse.base import Report, Source
from kit.parse.strace import Clock, looks_like_strace, parse_strace, read, read_events
from kit.parse.strace_events import Joiner
from kit.parse.strace_scan import scan, shown_output, split_prefix

DATA = Path(__file__).resolve().parent.parent / "data" / "strace"
CASES = sorted(DATA.glob("*.json"))
NS = 1_000_000_000


def files_of(case: Path) -> list[Path]:
    want = json.loads(case.read_text())
    return [DATA / name for name in want.get("files", [case.with_suffix(".strace").name])]


def rows_of(lines: list[str], **about: object) -> tuple[list[dict], list[dict], Report]:
    report = Report()
    given = {"syscalls": [], "signals": [], "syscall_totals": [], "tool_errors": []}
    for frame, row in parse_strace(lines, Source(**{"name": "strace.txt"} | about), report):
        FRAMES[frame].check(row | {"capture": "strace.txt"})
        given[frame].append(row)
    return given["syscalls"], given["tool_errors"], report


def joined(lines: list[str]) -> list[dict]:
    joiner = Joiner()
    return [*(event for number, line in enumerate(lines, 1) for event in joiner.feed(number, line)), *joiner.finish()]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_case(case):
    want = json.loads(case.read_text())["events"]
    got = list(read_events(files_of(case)))
    assert len(got) == len(want)
    for have, event in zip(got, want, strict=True):
        assert {key: have.get(key) for key in event if key != "note"} == {key: event[key] for key in event if key != "note"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_careful_reader_agrees_with_the_fast_one(case, monkeypatch):
    fast = list(read_events(files_of(case)))
    monkeypatch.setattr(strace_events, "FAST", re.compile(r"(?!)"))
    assert list(read_events(files_of(case))) == fast


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_rows_fit_the_frame_and_count_all_calls(case):
    calls = [event for event in read_events(files_of(case)) if event["kind"] == "syscall"]
    rows = [row for path in files_of(case) for row in rows_of(path.read_text().split("\n"), captured_ns=1_795_956_512 * NS)[0]]
    assert sorted((row["syscall"], row["args"], row["state"]) for row in rows) == sorted(
        (event["syscall"], event["args"], event["state"]) for event in calls
    )


def test_split_calls_are_joined_and_no_duration_is_lost():
    """Whole calls of several threads, cut into halves at any blank and shuffled, give the whole calls again."""
    chance = random.Random(7)
    calls, texts = {}, {}
    for pid in range(100, 108):
        calls[pid] = [
            ("poll", f"[{{fd={n}, events=POLLIN}}], 1, {n}", "1 ([{fd=3, revents=POLLIN}])", f"0.{chance.randrange(10**6):06}")
            if n % 2
            else ("write", f'{n}</tmp/a) = 3>, "x) = 1 <unfinished ...>", 23', "23", f"0.{chance.randrange(10**6):06}")
            for n in range(20)
        ]
        lines = []
        for name, args, result, duration in calls[pid]:
            cuts = [found.end() for found in re.finditer(", ", args) if scan(args[: found.end()]).depth == 0]
            cut = chance.choice([None, len(args), cuts[-1]])
            if cut is None:
                lines.append(f"{pid}  {name}({args}) = {result} <{duration}>")
            else:
                lines += [
                    f"{pid}  {name}({args[:cut]} <unfinished ...>",
                    f"{pid}  <... {name} resumed>{args[cut:]}) = {result} <{duration}>",
                ]
        texts[pid] = lines
    mixed = []
    while any(texts.values()):
        pid = chance.choice([pid for pid, lines in texts.items() if lines])
        mixed.append(texts[pid].pop(0))
    rows, _, report = rows_of(mixed)
    for pid, wanted in calls.items():
        assert [(row["syscall"], row["args"], row["result"]) for row in rows if row["pid"] == pid] == [
            call[:3] for call in wanted
        ]
    assert sum(row["duration_s"] for row in rows) == pytest.approx(
        sum(float(call[3]) for some in calls.values() for call in some)
    )
    assert report.reasons == {}


def test_output_of_the_program_inside_calls_of_two_threads():
    events = list(read_events([DATA / "output-between-threads.strace"]))
    assert [event["text"] for event in events if event["kind"] == "other"] == ['say "hi" (ok) = 0', "lines"]
    assert [event["output"] for event in events if "output" in event] == [["no newline"], ["two"], ["x" * 100]]
    assert [
        (event["syscall"], event["args"], event["ret"])
        for event in events
        if event["kind"] == "syscall" and event["syscall"] in ("madvise", "exit")
    ] == [("madvise", "0x7fb8ac610000, 8368128, MADV_DONTNEED", "0"), ("exit", "0", "?")]
    assert {event["ret"] for event in events if event.get("syscall") == "write"} == {"18", "10", "101"}


def test_output_that_looks_like_strace_is_told_by_the_bytes_of_its_write():
    first = "+++ exited with 9 +++ and more text\n"
    more = "[pid  4242] <... read resumed>1) = 1\n\n7 close(3) = 0"
    size = len(first + more)
    lines = [f'10:00:00 write(1, "{first[:8]}"..., {size}{first}{more}) = {size} <0.1>', "10:00:01 +++ exited with 0 +++"]
    events = joined("\n".join(lines).split("\n"))
    assert [(event["kind"], event["lines"]) for event in events] == [("other", [2]), ("syscall", [1, 4]), ("exited", [5])]
    assert events[1]["output"] == [first.strip(), "7 close(3) = 0"] and events[1]["duration"] == "0.1"
    (event,) = joined([r'10:00:00 write(2, "123 abc"..., 9123 abcde) = 9'])
    assert (event["args"], event["output"], event["ret"]) == (r'2, "123 abc"..., 9', ["123 abcde"], "9")


def test_detached_on_a_terminal():
    events = [event for event in read_events([DATA / "detached-on-terminal.strace"]) if event["kind"] == "syscall"]
    assert [(event["state"], event["lines"]) for event in events] == [("open", [2]), ("detached", [3, 4])]


def test_first_process_has_no_pid_while_it_is_alone():
    rows, _, _ = rows_of(
        [
            "clone3({flags=CLONE_VM}strace: Process 41 attached",
            " <unfinished ...>",
            "[pid    41] close(3) = 0",
            "[pid    40] <... clone3 resumed> => {parent_tid=[41]}, 88) = 41",
            "[pid    40] wait4(-1,  <unfinished ...>",
            "[pid    41] +++ exited with 0 +++",
            "<... wait4 resumed>NULL, 0, NULL) = 41",
        ]
    )
    assert [(row["syscall"], row["args"], row["state"]) for row in rows] == [
        ("close", "3", "done"),
        ("clone3", "{flags=CLONE_VM} => {parent_tid=[41]}, 88", "merged"),
        ("wait4", "-1, NULL, 0, NULL", "merged"),
    ]


def test_messages_before_4_20_do_not_name_strace_within_a_call_either():
    lines = [
        "10:00:00 clone(Process 41 attached",
        "child_stack=0, flags=SIGCHLD) = 41",
        "[pid    40] wait4(-1, Process 42 attached",
    ]
    lines += [" <unfinished ...>", "System call usage summary for 32 bit mode:"]
    events = joined(lines)
    assert [(event["args"], event["lines"]) for event in events if event["kind"] == "syscall"] == [
        ("child_stack=0, flags=SIGCHLD", [1, 2]),
        ("-1", [3, 4]),
    ]
    assert [event.get("attached") for event in events if event["kind"] == "message"] == [41, 42, None]


def test_execve_of_a_thread_returns_under_the_pid_of_its_process():
    rows, _, report = rows_of(
        [
            "4788  futex(0x55, FUTEX_WAIT, 0, NULL <unfinished ...>",
            '4790  execve("/bin/true", ["true"], 0x7ff <unfinished ...>',
            "4788  +++ superseded by execve in pid 4790 +++",
            "4788  <... execve resumed>) = 0",
        ]
    )
    assert [(row["syscall"], row["pid"], row["state"]) for row in rows] == [("futex", 4788, "open"), ("execve", 4790, "merged")]
    assert report.facts["ends"] == {"superseded": 1}


def test_wall_clock_takes_its_date_from_the_capture():
    captured = 1_795_956_512 * NS  # 2026-11-29 12:48:32 UTC
    lines = ["13:48:31.500000 close(3) = 0", "13:48:32.250000 close(4) = 0 <0.000010>"]
    rows, _, _ = rows_of(lines, captured_ns=captured, offset_s=3600)
    assert [row["time"] - captured for row in rows] == [-NS // 2, NS // 4]
    assert [row["time"] for row in rows_of(lines)[0]] == [None, None]
    assert rows[1]["duration_s"] == 0.00001


def test_a_call_that_took_most_of_a_day_keeps_its_day():
    rows, _, _ = rows_of(
        [
            "7  01:00:00 read(3,  <unfinished ...>",
            "8  08:00:00 close(3) = 0",
            "8  16:00:00 close(4) = 0",
            '7  20:00:00 <... read resumed>"", 1) = 0',
            "8  02:00:00 close(5) = 0",
        ],
        captured_ns=1_795_910_400 * NS,
    )
    by_args = {row["args"]: row for row in rows}
    assert by_args['3, "", 1']["duration_s"] == 19 * 3600
    assert by_args["5"]["time"] - by_args["4"]["time"] == 10 * 3600 * NS


def test_late_lines_do_not_begin_a_day():
    clock = Clock(Source("a", captured_ns=1_795_956_512 * NS))
    first = clock.ns("12:48:32.734271")
    assert clock.ns("12:48:32.703947") - first == -30_324_000


def test_unfinished_write_at_the_end_names_its_descriptor():
    rows, _, _ = rows_of(["strace: Process 88 attached", r'write(2, "\rmodel-00001:  11%|#1   | 1.06G/9.79G", 66'])
    assert [(row["pid"], row["fd"], row["state"], row["time"]) for row in rows] == [(88, 2, "cut", None)]


@pytest.mark.parametrize(
    ("text", "descriptor"),
    [
        ("read(3</dev/zero>, 0x7f, 4) = 4", 3),
        ('write(fd=148, "x", 1) = 1', 148),
        ("kill(77, 0) = 0", None),
        ('openat(AT_FDCWD, "a", 0) = 4', None),
        ("poll([{fd=7, events=POLLIN}], 1, 1000) = 0 (Timeout)", None),
        ("close(-1) = -1 EBADF (Bad file descriptor)", None),
    ],
)
def test_descriptor(text, descriptor):
    assert rows_of([text])[0][0]["fd"] == descriptor


def test_failures_of_strace_are_errors_of_the_tool():
    lines = [
        "strace: attach: ptrace(PTRACE_SEIZE, 330): Operation not permitted",
        "strace: Could not attach to process. If your uid matches the uid of the target process, check the setting of "
        "/proc/sys/kernel/yama/ptrace_scope, or try again as the root user.",
        "strace: attach: ptrace(PTRACE_SEIZE, 999999): No such process",
        "bash: strace: command not found",
    ]
    rows, errors, report = rows_of(lines)
    assert rows == []
    assert [(row["error"], row["pid"]) for row in errors] == [
        ("permission", 330),
        ("permission", None),
        ("no_process", 999999),
        ("not_found", None),
    ]
    assert all(row["tool"] == "strace" for row in errors)
    assert report.lines == 4


def test_what_is_not_understood_is_counted():
    _, _, report = rows_of((DATA / "071-log-lines-mixed.strace").read_text().split("\n"))
    assert sum(report.reasons.values()) == 4
    _, _, report = rows_of(["close(3) = 0", "--- SIGCHLD {si_signo=SIGCHLD} ---", "+++ exited with 0 +++"])
    assert report.facts == {"signals": {"SIGCHLD": 1}, "ends": {"exited": 1}}


def test_summary_tables_are_kept():
    _, _, report = rows_of((DATA / "075-summary-columns.strace").read_text().split("\n"))
    assert report.facts["summary"][0]["total"][0] == "40"
    rule = "-" * 16
    for head, name, total in (("syscall", "read", "total"), ("syscall             errors", "read" + 22 * " ", "total 2")):
        lines = [head, f"{rule} {'-' * 9}" if "errors" in head else rule, name, rule, total]  # of strace -c -U name, name,errors
        assert looks_like_strace("\n".join(lines)) > 0.9
        _, _, report = rows_of([*lines, "Killed"])
        assert [table["rows"][0][0] for table in report.facts["summary"]] == ["read"] and report.reasons == {
            "no line of strace": 1
        }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "(",
        "7 ",
        "[pid",
        "[pid  7] ",
        "7 read(",
        '7 read("',
        '7 read("\\',
        "7 <... read resumed>",
        "7 <... ",
        "12:00:00",
        "7 a(b<c",
        "--- ",
        "+++ ",
        "------ ---",
        "7 a(/*",
        "read(3) =",
        "read(3) = ? <",
    ],
)
def test_no_cut_line_raises(line):
    joiner = Joiner()
    events = [*joiner.feed(1, line), *joiner.finish()]
    assert len(events) == bool(line)
    rows_of([line, line])


def test_colour_and_carriage_returns_go():
    joiner = Joiner()
    events = [
        *joiner.feed(1, "\x1b[1m7\x1b[0m  \x1b[33mclose\x1b[0m(\x1b[34m3\x1b[0m) = \x1b[32m0\x1b[0m <0.000010>\r"),
        *joiner.finish(),
    ]
    assert [(event["pid"], event["args"], event["duration"]) for event in events] == [(7, "3", "0.000010")]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("     0.000454 brk(NULL) = 0", (None, None, {"rel": "0.000454"}, "brk(NULL) = 0")),
        ("4746  1795955777 write(1) = 1 <0>", (4746, "1795955777", {}, "write(1) = 1 <0>")),
        (
            "1795955776.505360840 (+     0.000625834) close(2) = 0",
            (None, "1795955776.505360840", {"rel": "0.000625834"}, "close(2) = 0"),
        ),
        ("[00007f1f89024e67] close(2) = 0", (None, None, {"ip": "00007f1f89024e67"}, "close(2) = 0")),
        ("[   3] close(1) = 0", (None, None, {"nr": 3}, "close(1) = 0")),
        ("4737  [unconfined_t] 12:36:16.5 close(3) = 0", (4737, "12:36:16.5", {"context": "unconfined_t"}, "close(3) = 0")),
    ],
)
def test_prefix(line, want):
    prefix = split_prefix(line)
    assert (prefix.pid, prefix.ts, prefix.extra, prefix.body) == want


def test_output_is_no_argument_only_where_it_is_the_written_text():
    assert shown_output("write", '1, "ab", 2ab) = 2') == ('1, "ab", 2', ["ab"], ") = 2")
    assert shown_output("write", '1, "ab", 2 <unfinished ...>') is None
    assert shown_output("read", '0, "ab", 2ab') is None


OTHERS = {
    "perf trace": "     0.080 ( 0.017 ms): sh/7 close(fd: 4)   = 0\n     0.090 (         ): sh/7 read(fd: 4)   ...\n",
    "ltrace": "7 10:00:00.1 SYS_close(3) = 0\n7 10:00:00.2 free(0x55)\n7 10:00:00.3 SYS_gettid() = 8\n7 10:00:00.4 pause() = 3\n",
    "truss of FreeBSD": "  7: 0.1 close(3)   = 0 (0x0)\n  7: 0.2 open(\"/a\",O_RDONLY,00) ERR#2 'No such file'\nhello\n",
    "truss of Solaris or illumos": "7:\t 0.1 close(3)\t\t= 0\n7/1:\t 0.2 read(0, 0x08, 8)\t(sleeping...)\n",
    "dtruss": 'SYSCALL(args) \t\t = return\n  7/0x2c:   5 close(0x3)\t\t = 0 0\n  7/0x2c:   5 stat("/n\\0")\t\t = -1 Err#2\n',
    "sysdig": "1 10:00:00.000000001 3 cat (7) > read fd=3 size=8\n2 10:00:00.000000002 3 cat (7) < read res=8 data=a\n",
}


@pytest.mark.parametrize("tool", OTHERS)
def test_what_another_tracer_wrote_is_named_and_never_read(tool, tmp_path):
    path = tmp_path / "strace.txt"
    path.write_text(OTHERS[tool])
    for reads in (read, lambda path: list(read_events([path]))):
        with pytest.raises(EvidenceError, match=f"not output of strace: it looks like output of {tool}"):
            reads(path)
    assert f"strace.txt is output of {tool}, not of strace" in kit.open_run(path).unread()


def test_packed_and_stamped_captures_are_read_as_they_are(tmp_path):
    lines = ["[pid     7] close(3) = 0 <0.1>", '[pid     7] write(1, "a\\n", 2a', ") = 2 <0.1>", "+++ exited with 0 +++"]
    stamped = "".join(f"Nov 30 22:02:52.7456{n:02} {line}\n" for n, line in enumerate(lines))
    for name, content in (("a.strace.gz", gzip.compress("\n".join(lines).encode())), ("b.strace", stamped.encode())):
        path = tmp_path / name
        path.write_bytes(content)
        assert [event["lines"] for event in read_events([path])] == [[1], [2, 3], [4]]
        assert kit.open_run(path).frame("syscalls")["line"].tolist() == read(path)["line"].tolist() == [1, 2]


def test_content_decides():
    for path in DATA.glob("*.strace*"):
        assert recognise("capture.txt", path.read_text())[0] == "strace", path.name
    for path in sorted((DATA.parent / "logs").glob("*.log")):
        assert looks_like_strace(path.read_text(errors="replace")) == 0.0, path.name
    assert looks_like_strace('File "a.py", line 3, in close(3)\nfoo(3) = 4\n') == 0.0
