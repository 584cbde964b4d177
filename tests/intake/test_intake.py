"""From files to segments: what is packed, wrapped, decorated or pasted comes out as it was, with its place in the original."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from kit.intake import Note, Segment, Text, beginnings, marks, markup, segments, shippers, wrapping
from kit.intake.content import Spool

LOG = "[2026-02-18 00:28:26 TP0] Load weight begin.\n[2026-02-18 00:28:27 TP1] Load weight begin.\n"
STATUS = "Name:\tpython\nState:\tS (sleeping)\nPid:\t7\nThreads:\t3\n"
GPUS = "index, name, utilization.gpu [%]\n0, NVIDIA H100, 3 %\n"
KINDS = {
    "Name:\t": "status",
    "index, ": "gpus",
    "[2026-": "log",
    "ep_": "wchan",
    "2026-": "log",
    "INFO": "log",
    "Feb": "log",
    "Mar": "log",
}


def tell(name: str, head: str) -> str | None:
    """A recogniser of a few kinds, by their first line."""
    first = next((line for line in head.split("\n") if line.strip() and not line.startswith(("$ ", "==>"))), "")
    return next((kind for begin, kind in KINDS.items() if first.startswith(begin)), None)


def taken(path: Path) -> list[Segment]:
    return [one for one in segments(path, tell) if isinstance(one, Segment) and one.kind]


def notes(path: Path) -> list[str]:
    return [f"{one.file} {one.reason}" for one in segments(path, tell) if isinstance(one, Note)]


def text_of(segment: Segment) -> str:
    with segment.content.open() as file:
        return file.read().decode()


def put(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- packed ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)])
def test_a_compressed_log_is_the_log(tmp_path: Path, suffix: str, pack) -> None:
    (only,) = taken(put(tmp_path, f"server.log.{suffix}", pack(LOG.encode())))
    assert (only.kind, only.file, text_of(only)) == ("log", "server.log", LOG)


def test_zstandard_is_read_by_the_codec_of_pyarrow(tmp_path: Path) -> None:
    import pyarrow

    packed = pyarrow.compress(LOG.encode(), codec="zstd", asbytes=True)
    assert text_of(taken(put(tmp_path, "server.log.zst", packed))[0]) == LOG


def archive(files: dict[str, bytes], mode: str = "w:gz", extra: list[tarfile.TarInfo] | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra or ():
            tar.addfile(info)
    return packed.getvalue()


def test_members_of_nested_archives_are_named_by_their_path(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("node1/server.log", LOG)
    path = put(tmp_path, "bundle.tgz", archive({"raw/inner.zip": inner.getvalue(), "raw/status.txt": STATUS.encode()}))
    assert [one.file for one in taken(path)] == ["bundle.tgz/raw/inner.zip/node1/server.log", "bundle.tgz/raw/status.txt"]


def test_links_and_paths_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("raw/link.log")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = put(tmp_path, "a.tar", archive({"../../evil.log": LOG.encode(), "/etc/cron.d/x": b"x"}, "w", [link]))
    assert not taken(path)
    assert [note.split(" ", 1)[1].split(",")[0] for note in notes(path)] == [
        "leaves the folder of its archive by its path",
        "leaves the folder of its archive by its path",
        "is a link",
    ]


def test_a_bomb_is_left_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.intake.unpacking.RATIO_FROM", 1 << 20)
    bomb = put(tmp_path, "bomb.log.xz", lzma.compress(bytes(3 << 20)))
    assert notes(bomb) == ["bomb.log.xz unpacks to more than 1100 times its size, as a bomb does, and was left packed"]


def test_packing_in_packing_ends_somewhere(tmp_path: Path) -> None:
    data = LOG.encode()
    for _ in range(5):
        data = archive({"inner.tar": data}, "w")
    assert notes(put(tmp_path, "a.tar", data)) == [
        "a.tar/inner.tar/inner.tar/inner.tar is packed more than 3 times over, and was left packed"
    ]


def test_a_cut_archive_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    lines = "".join(f"[2026-02-18 00:28:26] shard {n * 7919 % 10007}\n" for n in range(5_000))
    path = put(tmp_path, "server.log.gz", gzip.compress(lines.encode())[:-4000])
    (only,) = taken(path)
    assert lines.startswith(text_of(only)) and len(text_of(only)) > 10_000
    assert "is damaged and was read as far as it goes" in notes(path)[0]


def test_what_is_no_text_is_said_and_nothing_else(tmp_path: Path) -> None:
    assert notes(put(tmp_path, "a.png", b"\x89PNG\r\n\x1a\n" + bytes(64))) == ["a.png is a picture"]


# --- decorated -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_other_encodings_of_unicode(tmp_path: Path, encoding: str) -> None:
    assert text_of(taken(put(tmp_path, "server.log", LOG.replace("\n", "\r\n").encode(encoding)))[0]).lstrip("\ufeff") == LOG


def test_western_letters_that_are_no_unicode(tmp_path: Path) -> None:
    assert "für" in text_of(taken(put(tmp_path, "server.log", (LOG + "für\n").encode("latin-1")))[0])


@pytest.mark.parametrize(
    "written", ["\x1b[0;36mINFO\x1b[0m a", "^[[0;36mINFO^[[0m a", "#033[0;36mINFO#033[0m a", "\\u001b[0;36mINFO\\u001b[0m a",
                "[0;36mINFO[0m a", "\\x1b[36mINFO\\x1b[0m a", "INFO a^M"],
)  # fmt: skip
def test_colours_in_whatever_form_go(tmp_path: Path, written: str) -> None:
    assert text_of(taken(put(tmp_path, "server.log", f"{written}\n{written}\n"))[0]) == "INFO a\nINFO a\n"


def test_letters_that_cat_v_wrote_out(tmp_path: Path) -> None:
    assert "█" in text_of(taken(put(tmp_path, "server.log", "^MINFO M-bM-^VM-^H^M\n"))[0])


@pytest.mark.parametrize("large", [64 << 20, 0])
def test_a_typescript_is_what_was_typed_and_what_came_back(tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.intake.decoding.LARGE_BYTES", large)  # a large one is searched for control where it is cut
    prompt = "\x1b[?2004h\x1b]0;u@h: ~\x07\x1b[01;32mu@h\x1b[00m:\x1b[01;34m~\x1b[00m$ "
    typed = "ca t\b\x1b[K\b\x1b[Kt /proc/7/status"
    script = f"Script started on 2026-02-20\n{prompt}{typed}\r\n\x1b[?2004l\r{STATUS}".replace("\n", "\r\n") + f"{prompt}exit\r\n"
    (only,) = taken(put(tmp_path, "typescript", script))
    assert (only.kind, only.command, only.line) == ("status", "cat /proc/7/status", 3)
    assert text_of(only) == "$ cat /proc/7/status\n" + STATUS + "$ exit\n"


def test_hard_wraps_are_undone_where_stamps_prove_them(tmp_path: Path) -> None:
    lines = [
        f"[2026-02-18 00:28:2{n} TP0] shard {n} of the checkpoint was read from /models/a/b/c/{n} in {n} ms" for n in range(9)
    ]
    wrapped = "\n".join(line[at : at + 80] for line in lines for at in range(0, len(line), 80))
    (only,) = taken(put(tmp_path, "hardcopy.0", wrapped + "\n"))
    assert text_of(only).splitlines() == lines
    assert only.content.original(3) == 5


def test_soft_wraps_are_undone_around_frames(tmp_path: Path) -> None:
    """A few torn records tell the width although some rests begin as lines do; of a traceback among them the error is whole."""
    lines = [
        f"[2026-02-18 00:28:2{n} TP0] shard {10**n} was read from the store at /models/a/b/c (errno: 110 - slow {n})."
        for n in range(5)
    ]
    trace = 'Traceback (most recent call last):\n  File "a.py", line 8, in <module>\n    main()\n'
    lines.append("a.StoreError: rank 1 has read all that it was told to, but there are others that have not")
    lines.extend(f"[2026-02-18 00:29:1{n} TP0] {'x' * 46} read in {n} s" for n in range(5))  # the width is full by chance
    wrapped = [textwrap.fill(line, 72, break_on_hyphens=False) + "\n" for line in lines]
    (only,) = taken(put(tmp_path, "mailed.log", "".join([*wrapped[:5], trace, *wrapped[5:]])))
    assert text_of(only) == "\n".join(lines[:5]) + f"\n{trace}" + "\n".join(lines[5:]) + "\n"


# --- shippers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {"MESSAGE": "INFO a\x1b[0m", "__REALTIME_TIMESTAMP": "1772366400000000"},
        {"MESSAGE": list(b"INFO a"), "__REALTIME_TIMESTAMP": "1772366400000000"},
        {"log": "INFO a\n", "stream": "stderr", "time": "2026-03-01T12:00:00.000000Z"},
        {"timestamp": 1772366400000, "message": "INFO a"},
        {"_source": {"@timestamp": "2026-03-01T12:00:00.000000Z", "message": "INFO a"}},
        {"textPayload": "INFO a", "timestamp": "2026-03-01T12:00:00.000000Z", "severity": "INFO"},
    ],
)
def test_a_record_of_a_shipper_is_its_line_behind_its_time(tmp_path: Path, record: dict) -> None:
    (only,) = taken(put(tmp_path, "a.json", (json.dumps(record) + "\n") * 2))
    assert text_of(only) == "2026-03-01T12:00:00.000000Z INFO a\n" * 2


def test_a_traceback_in_a_record_is_laid_out_and_its_lines_stand_at_the_record(tmp_path: Path) -> None:
    failed = {"levelname": "ERROR", "message": "no route", "asctime": "None", "exc_info": "Traceback:\n  File x\nOSError: no"}
    path = put(tmp_path, "a.jsonl", "\n".join(json.dumps(one) for one in ({"message": "INFO a"}, failed, {"message": "INFO b"})))
    (only,) = taken(path)
    assert text_of(only).splitlines() == ["INFO a", "ERROR no route", "Traceback:", "  File x", "OSError: no", "INFO b"]
    assert [only.content.original(line) for line in range(1, 7)] == [1, 2, 2, 2, 2, 3]


def test_a_line_that_docker_cut_is_whole_again(tmp_path: Path) -> None:
    records = [{"log": "INFO a", "time": "2026-03-01T12:00:00Z"}, {"log": "b\n", "time": "2026-03-01T12:00:01Z"}]
    lines = "".join(json.dumps(one) + "\n" for one in [{"log": "INFO\n", "time": "2026-03-01T11:00:00Z"}, *records])
    assert text_of(taken(put(tmp_path, "x-json.log", lines))[0]).splitlines()[1] == "2026-03-01T12:00:00Z INFO ab"


def test_json_of_a_program_that_writes_the_keys_of_a_known_server_is_read_by_form(tmp_path: Path) -> None:
    said = ["Files are here\n", "Starting", "Loading\n", "ready"]  # newlines as it happens, and no line goes on in the next
    records = [{"timestamp": f"2026-03-01T12:00:0{n}Z", "level": "INFO", "fields": {"message": m}} for n, m in enumerate(said)]
    lines = "".join(json.dumps({**one, "target": "other_launcher"}) + "\n" for one in records)
    want = [f"2026-03-01T12:00:0{n}Z INFO {m.strip()}" for n, m in enumerate(said)]
    assert text_of(taken(put(tmp_path, "a.jsonl", lines))[0]).splitlines() == want


@pytest.mark.parametrize(
    "said", ["INFO a", '10.0.0.1 - "POST / HTTP/1.1" 200 OK', "a \\ b", "tab\there", "<&> é", '{"message": "b"}', ""]
)
def test_lines_of_docker_are_read_alike_by_form_and_by_json(said: str) -> None:
    line = json.dumps({"log": said + "\n", "stream": "stderr", "time": "2026-03-01T12:00:00.5Z"}).encode()
    quick = shippers._quickly(line)
    assert quick in (None, shippers.laid_out(*shippers.message_of(json.loads(line))))
    assert (quick is None) == (said[:1] in ("", "{") or any(sign in said for sign in "\\\té"))


def test_loki_gives_the_newest_first(tmp_path: Path) -> None:
    values = [["1772366401000000000", "INFO b"], ["1772366400000000000", "INFO a"]]
    document = {"data": {"result": [{"stream": {"pod": "x"}, "values": values}]}}
    assert [line[-1] for line in text_of(taken(put(tmp_path, "q.json", json.dumps(document)))[0]).splitlines()] == ["a", "b"]


STAMPS = [f"2026-03-01T12:00:0{second}Z" for second in range(3)]
NESTED = [{"id": stamp, "attributes": {"timestamp": stamp, "message": f"INFO {stamp[-2]}"}} for stamp in STAMPS]
ROWS = [[stamp, f"INFO {stamp[-2]}"] for stamp in STAMPS]
PAIRS = [[{"field": "@timestamp", "value": one}, {"field": "@message", "value": two}] for one, two in ROWS]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("search.json", lambda turn: json.dumps({"data": NESTED[::turn], "meta": {"page": {"after": "x"}}}, indent=1)),
        ("lines.ndjson", lambda turn: "\n".join(map(json.dumps, NESTED[::turn]))),
        ("table.json", lambda turn: json.dumps({"tables": [{"columns": ["TimeGenerated", "LogMessage"], "rows": ROWS[::turn]}]})),
        ("insights.json", lambda turn: json.dumps({"results": PAIRS[::turn]})),
        ("rows.csv", lambda turn: "\n".join(['Date,Host,"Message"', *(f'{one},h,"{two}"' for one, two in ROWS[::turn])])),
    ],
)
def test_exports_of_log_services_are_read_by_form_oldest_first(tmp_path: Path, name: str, write, turn: int) -> None:
    (log,) = taken(put(tmp_path, name, write(turn)))
    assert text_of(log).splitlines() == [f"{one} {two}" for one, two in ROWS]
    if name in ("lines.ndjson", "rows.csv"):
        header = name == "rows.csv"
        assert [log.content.original(line) - header for line in (1, 2, 3)] == [1, 2, 3][::turn]


def test_a_cluster_object_with_conditions_is_no_log(tmp_path: Path) -> None:
    state = {"lastTransitionTime": STAMPS[0], "message": "ready", "type": "Ready"}
    path = put(tmp_path, "pod.json", json.dumps({"kind": "Pod", "apiVersion": "v1", "status": {"conditions": [state]}}))
    assert not taken(path)


@pytest.mark.parametrize("write", [lambda unit, text: f"Mar  1 12:00:00 n1 {unit}: {text}", lambda unit, text: json.dumps(
    {"__REALTIME_TIMESTAMP": "1772366400000000", "_HOSTNAME": "n1", "SYSLOG_IDENTIFIER": unit.split("[")[0], "MESSAGE": text}
)])  # fmt: skip
def test_lines_of_the_kernel_in_a_journal_of_several_units_stand_apart(tmp_path: Path, write) -> None:
    told = {**KINDS, "Mar": "log"}

    def tell(name: str, head: str) -> str | None:
        return "kernel" if " kernel: " in head.split("\n")[0] else next((told[one] for one in told if head.startswith(one)), None)

    lines = [write("serve[7]", f"INFO step {number}") for number in range(9)]
    lines[4:4] = [write("kernel", "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.")]
    lines[7:7] = [write("kernel", "NVRM: GPU at PCI:0000:41:00")]
    log, kernel = segments(put(tmp_path, "journal.txt", "\n".join(lines) + "\n"), tell)
    assert (log.kind, text_of(log).count("\n"), kernel.kind) == ("log", 9, "kernel")
    assert [kernel.content.original(line) for line in (1, 2)] == [5, 8]
    assert " n1 kernel: NVRM: Xid" in text_of(kernel).splitlines()[0]


# --- pasted ----------------------------------------------------------------------------------------------------------------


def kinds(path: Path) -> list[tuple[str | None, int]]:
    return [(one.kind, one.line) for one in taken(path)]


def test_an_issue_with_fences(tmp_path: Path) -> None:
    text = f"# It hangs\n\nINFO is all I see.\n\n`cat /proc/7/status`:\n\n````text\n{STATUS}````\n\n<details>\n\n```\n{LOG}```\n"
    assert kinds(put(tmp_path, "issue.md", text)) == [("status", 8), ("log", 17)]


def test_a_terminal_copy_keeps_two_moments_of_one_command_together(tmp_path: Path) -> None:
    text = f"u@h:~$ cat a.log\n{LOG}u@h:~$ cat /proc/7/status\n{STATUS}u@h:~$ sleep 9\nu@h:~$ cat /proc/7/status\n{STATUS}u@h:~$ "
    log, status = taken(put(tmp_path, "hang.txt", text))
    assert (log.name, text_of(log)) == ("a.log", LOG)
    shown = f"$ cat /proc/7/status\n{STATUS}"
    assert text_of(status) == f"{shown}$ sleep 9\n{shown}"
    assert [status.content.original(line) for line in (1, 2, 5, 6, 7, 8)] == [4, 5, 8, 9, 10, 11]


def test_a_table_within_a_log_leaves_the_log_its_own_records(tmp_path: Path) -> None:
    path = put(tmp_path, "server.log", LOG + GPUS + LOG)
    log, gpus = taken(path)
    assert (text_of(log), text_of(gpus)) == (LOG * 2, GPUS)
    assert (log.content.original(3), gpus.content.original(2)) == (5, 4)


def test_a_table_behind_the_stamps_of_docker_is_bare(tmp_path: Path) -> None:
    stamped = "".join(f"2026-03-01T12:00:00.000Z {line}\n" for line in (LOG * 9 + STATUS + LOG * 9).splitlines())
    log, status = taken(put(tmp_path, "x.log", stamped))
    assert text_of(status) == STATUS and "Name:" not in text_of(log)


def test_one_tool_throughout_behind_the_stamps_of_docker_is_bare(tmp_path: Path) -> None:
    def told(name: str, head: str) -> str | None:
        return "log" if head.startswith("2026-") or "INFO" in head else "strace"

    lines = [f"7 close({number}) = 0" for number in range(3000)]
    trace, log = "".join(f"2026-03-01T12:00:00.000Z {line}\n" for line in lines), "2026-03-01T12:00:00.000Z INFO on\n" * 3000
    (only,) = segments(put(tmp_path, "x.log", trace), told)
    assert (only.kind, text_of(only).splitlines()) == ("strace", lines)
    assert "log" in [one.kind for one in segments(put(tmp_path, "x.log", trace + log), told)]


def test_a_section_that_nobody_reads_goes_back_to_its_log(tmp_path: Path) -> None:
    table = "+" + "-" * 60 + "+\n| a table of the server's own |\n"
    (only,) = taken(put(tmp_path, "server.log", LOG + table + LOG))
    assert text_of(only) == LOG + table + LOG


def test_fences_in_a_log_are_the_logs(tmp_path: Path) -> None:
    (only,) = taken(put(tmp_path, "server.log", f"{LOG}```\nep_poll\n```\n{LOG}"))
    assert only.how == "file"


@pytest.mark.parametrize("mark", ["> ", "    ", "[14:05] <al> "])
def test_marks_before_every_line_go(tmp_path: Path, mark: str) -> None:
    assert kinds(put(tmp_path, "mail.txt", "".join(f"{mark}{line}\n" for line in STATUS.splitlines()))) == [("status", 1)]


MARKS = {
    "rsyslog, RFC 5424": "<134>1 2026-03-01T12:00:0{n}.000000Z host vllm 7 - - ",
    "rsyslog, RFC 3164": "<134>Mar  1 12:00:0{n} host vllm[7]: ",
    "stern": "vllm-7f9c8-x7k2p server ",
    "k9s": "vllm-0:server 2026-03-01T12:00:0{n}.0Z ",
    "gh run view": "serve\tLaunch\t2026-03-01T12:00:0{n}.0Z ",
    "less -N": "{n:7} ",
    "bat": "{n:4} │ ",
    "plus": "+ ",
    "twice quoted": "> > ",
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_what_stands_before_every_line_goes_but_for_its_stamp(tmp_path: Path, mark: str) -> None:
    lines = [mark.format(n=n) + line for n, line in enumerate((LOG * 2).splitlines(), 1)]
    (only,) = taken(put(tmp_path, "a.txt", "\n".join(lines) + "\n"))
    bare = [line[line.index("[2026-02") :] for line in text_of(only).splitlines()]
    assert only.kind == "log" and "\n".join(bare) + "\n" == LOG * 2
    left = {line[: line.index("[2026-02")].replace(str(n), "n") for n, line in enumerate(text_of(only).splitlines(), 1)}
    assert not any(part in one for one in left for part in ("<134>", "server", "serve\t", "│", "+", ">"))


def test_nothing_of_the_known_evidence_is_taken_for_wrapped() -> None:
    root = Path(__file__).parent.parent.parent
    files = [file for folder in ("data", "tests/data") for file in (root / folder).rglob("*") if file.suffix in (".txt", ".log")]
    found = {file: wrapping.of(file.read_bytes()[:65_536]) for file in files}
    assert len(files) > 500
    assert not [str(file) for file, around in found.items() if around and not around.stays and not around.common]


def test_a_diff_is_the_files_that_it_adds(tmp_path: Path) -> None:
    added = {"server.log": LOG, "status.txt": STATUS}
    text = "".join(
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{data.count(chr(10))} @@\n"
        + "".join(f"+{line}\n" for line in data.splitlines())
        for name, data in added.items()
    )
    log, status = taken(put(tmp_path, "a.diff", text))
    assert (log.name, text_of(log).strip() + "\n") == ("server.log", LOG)
    assert STATUS in text_of(status) and log.line == 5


@pytest.mark.parametrize(
    "table",
    ['"Date","Host","Message"\n"2026-03-01T12:00:01.000Z","h","INFO b"\n"2026-03-01T12:00:00.000Z","h","INFO a"\n',
     '"@timestamp",pod,message\n"Mar 1, 2026 @ 12:00:01.000",p,INFO b\n"Mar 1, 2026 @ 12:00:00.000",p,INFO a\n'],
    ids=["Datadog", "Kibana"],
)  # fmt: skip
def test_a_table_of_records_is_the_log_the_oldest_first(tmp_path: Path, table: str) -> None:
    (only,) = taken(put(tmp_path, "extract.csv", table))
    assert [line.removesuffix("Z").partition(" ")[2] for line in text_of(only).splitlines()] == ["INFO a", "INFO b"]
    assert [only.content.original(line) for line in (1, 2)] == [3, 2]


@pytest.mark.parametrize("right", [None, "top - 12:00:01 up 3 days"], ids=["padded", "two panes"])
def test_a_screen_copied_with_its_padding_and_borders(tmp_path: Path, right: str | None) -> None:
    lines = [
        *LOG.splitlines(),
        "u@h:~$ cat /proc/7/status",
        *STATUS.splitlines(),
        "u@h:~$ cat /proc/7/wchan",
        "ep_poll",
        "u@h:~$",
    ]
    lines[0] += " from " + "/a" * 40
    rows = [line[at : at + 70].ljust(70) for line in lines for at in range(0, len(line), 70)]
    if right is not None:
        rows = [f"{row}│{right if at % 3 == 1 else ''}" for at, row in enumerate(rows)]
    log, status, wchan = [one for one in taken(put(tmp_path, "hardcopy", "\n".join(rows) + "\n")) if one.kind != "top"]
    assert text_of(log).splitlines()[0] == lines[0]
    assert text_of(status).replace("  ", "\t").replace(" ", "") == f"$cat/proc/7/status\n{STATUS}".replace(" ", "")
    assert (wchan.kind, wchan.line) == ("wchan", 10)


def test_fences_within_a_list_lose_their_indent(tmp_path: Path) -> None:
    steps = [f"{n}. `{said}`\n\n   ```\n" + "".join(f"   {line}\n" for line in text.splitlines()) + "   ```\n"
             for n, (said, text) in enumerate((("cat /proc/7/status", STATUS), ("cat server.log", LOG)), 1)]  # fmt: skip
    assert kinds(put(tmp_path, "a.md", "I did:\n\n" + "\n".join(steps))) == [("status", 6), ("log", 15)]


def test_base64_of_what_is_packed_is_that(tmp_path: Path) -> None:
    (only,) = taken(put(tmp_path, "server.log.b64", base64.encodebytes(gzip.compress(LOG.encode() * 50))))
    assert text_of(only) == LOG * 50


def test_a_recording_of_a_terminal_is_what_was_shown(tmp_path: Path) -> None:
    shown = ["u@h:~$ ", "c", "at /proc/7/status\r\n", *(line + "\r\n" for line in STATUS.splitlines()), "u@h:~$ "]
    events = [json.dumps([at / 10, "o", text]) for at, text in enumerate(shown)]
    (only,) = taken(put(tmp_path, "a.cast", "\n".join([json.dumps({"version": 2, "width": 80}), *events])))
    assert text_of(only) == "$ cat /proc/7/status\n" + STATUS
    assert only.content.original(2) == 5


def test_what_cat_shows_of_ends_and_tabs_goes(tmp_path: Path) -> None:
    (only,) = taken(put(tmp_path, "status.txt", "".join(f"{line}$\n" for line in STATUS.replace("\t", "^I").splitlines())))
    assert text_of(only) == STATUS


@pytest.mark.parametrize(
    "prompt",
    ["➜  run git:(main) ✗ ", "❯ ", "/workspace # ", "[12:01:07] u@h:~$ ", "host% ", "(vllm) [u@h run]$ ", "PS C:\\Users\\al> "]
    + ["mini:~ al$ ", "$ "],
)
def test_prompts_of_many_shells(tmp_path: Path, prompt: str) -> None:
    path = put(
        tmp_path,
        "a.txt",
        f"{prompt}cat server.log\n{LOG}{prompt}cat /proc/7/status\n{STATUS}{prompt}cat /proc/7/wchan\nep_poll\n",
    )
    assert kinds(path) == [("log", 2), ("status", 5), ("wchan", 10)]


def test_outputs_with_nothing_between_them(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", STATUS + LOG + GPUS)
    assert {(one.kind, text_of(one)) for one in taken(path)} == {("status", STATUS), ("log", LOG), ("gpus", GPUS)}


def test_who_speaks_next_ends_what_was_pasted(tmp_path: Path) -> None:
    asked = "alice  [10:00 AM]\nit hangs:\n`cat /proc/7/wchan`:\nep_poll\nBob B.  10:02\nand the log?\n"
    text = f"{asked}alice  [10:03 AM]\nlog:\n{LOG}"
    wchan, log = taken(put(tmp_path, "chat.txt", text))
    assert (text_of(wchan), text_of(log)) == ("$ cat /proc/7/wchan\nep_poll\n", LOG)


def test_pages_notebooks_and_issues_as_json(tmp_path: Path) -> None:
    page = f"<html><body>\n<p>It hangs &amp; spins</p>\n<pre>\n{STATUS.replace('S (', '&#83; (')}</pre></body></html>"
    (only,) = taken(put(tmp_path, "a.html", page))
    assert only.kind == "status" and "State:\tS (sleeping)" in text_of(only) and only.line == 4
    cell = {"cell_type": "code", "source": ["!cat /proc/7/status"], "outputs": [{"text": STATUS.splitlines(keepends=True)}]}
    notebook = {"cells": [cell], "nbformat": 4, "metadata": {}}
    (only,) = taken(put(tmp_path, "a.ipynb", json.dumps(notebook, indent=1)))
    assert text_of(only) == "$ cat /proc/7/status\n" + STATUS
    issue = {"title": "hangs", "body": "see", "comments": [{"body": f"```\r\n{LOG}```".replace("\n", "\r\n")}]}
    (only,) = taken(put(tmp_path, "a.json", json.dumps(issue)))
    assert text_of(only) == LOG


def test_points_before_the_lines_of_a_log_go_and_those_of_a_list_stay() -> None:
    ticket = "Since noon:\n\n- {}\n- {}\n- {}\n- {}\n\n* it is urgent\n* a.b is full\n* what now\n"
    lines = (LOG * 2).splitlines()
    assert wrapping.unlisted(ticket.format(*lines).encode()).decode() == ticket.replace("- ", "").format(*lines)


def test_a_bar_that_a_notebook_shows_as_a_page_is_its_text() -> None:
    page = ["<div>\n", "<progress value='9' max='9'></progress>\n", "[9/9 00:47, Epoch 3/3]\n", "</div>"]
    shown = {"text/html": page, "text/plain": ["<IPython.core.display.HTML object>"]}
    cell = {"cell_type": "code", "source": "trainer.train()", "outputs": [{"data": shown}, {"text": "done\n"}]}
    form, lines = markup.json_lines(json.dumps({"cells": [cell], "nbformat": 4}).encode())
    assert form == "notebook" and [text.strip() for _, text in lines][-2:] == ["[9/9 00:47, Epoch 3/3]", "done"]


# --- large and hostile -------------------------------------------------------------------------------------------------------


def test_many_prompts_take_linear_time(tmp_path: Path) -> None:
    text = "What I see:\n" + "".join(f"u@h:~$ cat /proc/{n}/wchan\nep_poll\n" for n in range(5_000))
    (only,) = taken(put(tmp_path, "t.txt", text))
    assert len(only.content.parts) == 5_000 and only.content.original(9_999) == 10_000


def test_an_endless_line_is_no_trouble(tmp_path: Path) -> None:
    (only,) = taken(put(tmp_path, "server.log", "INFO " + "x" * (20 << 20)))
    assert only.content.size == 5 + (20 << 20)


def test_what_is_spooled_goes_with_its_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.intake.content.MEMORY_BYTES", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (only,) = taken(put(tmp_path, "server.log.gz", gzip.compress(LOG.encode() * 9)))
    assert text_of(only) == LOG * 9 and list(tmp_path.glob("stallkit-*"))
    del only
    assert not list(tmp_path.glob("stallkit-*"))


def test_json_lines_behind_a_banner_with_stamps_as_vllm_writes_them() -> None:
    record = {"level": "INFO", "time": "03-01 12:00:00.5", "file_name": "hub.py", "line_number": "7", "exc_info": "None"}
    lines = [json.dumps({**record, "message": f"file {n}"}) for n in range(4)]
    assert shippers.is_json_lines("\n".join(["== A server ==", "", *lines, ""]).encode())
    assert not shippers.is_json_lines("\n".join(["It printed:", lines[0], "and hangs", ""]).encode())
    assert shippers.message_of(json.loads(lines[0])) == ("", "INFO 03-01 12:00:00.5 [hub.py:7] file 0")


class EachLine(beginnings.Lines):
    """Looks at every line."""

    def learn(self, line: bytes) -> None:
        pass


WORDS = (
    "INFO|03-20|12:00:05|(APIServer|pid=7)|[a.py:3]|user@gpu1:~$|nvidia-smi|total|7|openat(|$|Process|12:|Name:\tx|rchar:|kernel:"
    "|==>|<==|# HELP|x|State|Recv-Q|deadbeef|) = 0|"
)


def test_lines_are_passed_over_by_their_begin_only_where_no_mark_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled pass leaves out no mark that is found where every line is looked at."""
    pytest.importorskip("numba")
    rng = random.Random(4)
    lines = [rng.choice((" ", "")).join(rng.choices(WORDS.split("|"), k=rng.randrange(6))) for _ in range(2000)]
    data = "\n".join(lines).encode()
    text = Text("a.log", Spool([data]), len(data))
    kinds = ("explicit section", "explicit lead section")
    monkeypatch.setattr("kit.compiled.pays", lambda kind, size: True)
    found = [marks.marks_of(text, kind, b"") for kind in kinds]
    monkeypatch.setattr(marks, "_lines", lambda pattern, size: EachLine(pattern))
    assert found == [marks.marks_of(text, kind, b"") for kind in kinds] and len(found[0]) > 100
