"""The board of a launch: as text of any size, in a real terminal, and in a notebook."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import termios
from functools import cache
from pathlib import Path

import psutil
import pytest

from kit import sample_path
from kit.analyse.verdict.live_status import History, Status
from kit.errors import EvidenceError, UsageError
from kit.live.keys import Keys
from kit.live.screen import Screen, one_line, render_text
from kit.live.watch import Watch, watch_frame
from kit.open import open_run
from kit.show.hosts import Hosts
from kit.show.status import QUIET
from kit.show.watch import StatusView
from tests.live.launches import QUICK_KIT, OwnTime, stalling
from tests.live.test_guard import until
from tests.sshd import READY_S

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc"),
    pytest.mark.usefixtures("quiet_kernel_log"),
]
HOSTILE = "\x1b[2Jgone\r\n<script>alert(1)</script>"
ROW = {
    "rank": 0,
    "host": None,
    "pid": 7,
    "role": HOSTILE,
    "state": "S",
    "cpu_percent": 0.1,
    "rss_bytes": 2**30,
    "rss_bytes_per_s": 0.0,
    "read_bytes_per_s": 0.0,
    "threads": 50,
    "waits_in": "futex in futex_do_wait",
    "progress_s": 61.0,
    "record_s": 61.0,
    "odd": True,
}


def board(**more) -> Status:
    given = {"name": "run", "at": "12:00:00", "state": "stalled", "klass": "rank_straggler", "phase": "weights"}
    given["plain"] = "one rank is behind"
    return Status(**{**given, "confidence": 0.9, "ranks": [0], "rows": [ROW], "evidence": [HOSTILE], **more})


@contextlib.contextmanager
def launched(command: list[str], log: Path):
    """A launch with a log, ended with all its children."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until(lambda: log.read_bytes().count(b"Starting to load") == 2, "both ranks began")
        yield process
    finally:
        for child in [*psutil.Process(process.pid).children(recursive=True), process]:
            child.kill()
        process.wait()


@cache
def recorded(name: str) -> Status:
    """The status of a bundled run, read once."""
    return watch_frame(sample_path(name))


@pytest.mark.parametrize("name", ["pipe-ticker", "compile", "sg01-capture-hang", "no-weights"])
@pytest.mark.parametrize(("width", "height"), [(200, 60), (80, 24), (60, 10)])
def test_text_stays_within_its_size(name: str, width: int, height: int) -> None:
    lines = render_text(recorded(name), width, height, note="watched for 3 s").split("\n")
    assert len(lines) <= height and max(map(len, lines)) <= width


def test_the_status_of_a_recorded_stall() -> None:
    found = recorded("pipe-ticker")
    assert (found.state, found.klass, found.ranks, found.phase) == ("stalled", "rank_straggler", [0], "weights")
    ranks = {row["rank"]: row for row in found.rows if row["rank"] is not None}
    assert ranks[0]["odd"] and not ranks[1]["odd"]
    assert ranks[0]["waits_in"].startswith("clock_nanosleep") and ranks[1]["waits_in"].startswith("futex")
    assert found.phase_s > 60 and found.log_silence_s > 60 and found.records_per_min == 0
    assert re.search(r"▶ 0 +\d+ +worker", render_text(found)) and "one rank is behind (rank_straggler), rank 0" in one_line(found)


def test_text_of_the_launch_steers_neither_terminal_nor_page() -> None:
    drawn = render_text(board(), 120, 30)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", drawn)
    view = StatusView(HOSTILE, lambda: None)
    view.update(board())
    assert "<script>" not in view.html


def test_many_ranks_are_counted_not_dropped() -> None:
    drawn = render_text(board(rows=[{**ROW, "rank": rank, "odd": False} for rank in range(64)]), 120, 30)
    shown = len(re.findall(r"^ +\d+ +7 ", drawn, re.MULTILINE))
    assert f"{shown} of 64 rows" in drawn and shown >= 10


def test_without_a_terminal_each_change_is_one_line(capsys: pytest.CaptureFixture) -> None:
    stream = io.StringIO()
    with Screen(stream) as screen:
        for found in (board(), board(at="12:00:03"), board(klass="device_hang", ranks=[])):
            screen.show(found)
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["12:00:00", "12:00:00"]
    assert "device_hang" in lines[1] and "\x1b" not in stream.getvalue()


def test_several_hosts_are_a_line_each_the_urgent_one_on_top() -> None:
    reading = board(state="progressing", plain="weights load slowly", ranks=[], silence_s=3.0, log_silence_s=1.0)
    hosts = Hosts({"gpu-a": reading, "gpu-b": board(log_silence_s=61.0), "gpu-c": "not watched: nothing listens there"}).ordered()
    drawn = render_text(hosts, 120, 24, note="Ctrl-C ends").split("\n")
    assert drawn[0].startswith("gpu-b: stalled in weights: one rank is behind")
    assert [line.split()[:2] for line in drawn[3:6]] == [["▶", "gpu-b"], ["gpu-c", "no"], ["gpu-a", "progressing"]]
    assert "61 s ago" in drawn[3] and drawn[4].split()[3:] == ["not", "watched"] and "1.0 s ago" in drawn[5]
    assert "not watched: nothing listens there" in "\n".join(drawn[6:]), "the reason has a line of its own"
    assert list(hosts.ordered("silence_s").boards)[0] == "gpu-a" and max(map(len, render_text(hosts, 60).split("\n"))) <= 60
    busy = {**dict.fromkeys(QUIET, [1.0] * 13), "read_bytes_per_s": [0.0] * 13}
    longest = board(state="unknown", plain="the evidence is inconclusive", ranks=[], history=busy, last_line="Loading " * 9)
    for width in (60, 80, 130):
        drawn = render_text(Hosts({"gpu-a": longest, "gpu-c": f"not watched: {'nothing listens there ' * 5}"}), width, 24)
        assert "the evidence is in" in drawn, "what it is goes before what its log says"
        assert "nothing listens there nothing" in drawn[drawn.index("no answer\n") :]
    many = Hosts({f"gpu-{n}": reading for n in range(64)})
    assert len(render_text(many, 80, 20).split("\n")) <= 20 and " of 64 rows" in render_text(many, 80, 20)
    stream = io.StringIO()
    with Screen(stream) as screen:
        for found in (hosts, hosts, Hosts({**hosts.boards, "gpu-a": board()})):
            screen.show(found)
    assert [line.split(":")[0] for line in stream.getvalue().splitlines()] == ["gpu-b", "gpu-a", "gpu-a"]


def test_a_key_shows_each_host_alone() -> None:
    screen = Screen(io.StringIO())
    screen.last = Hosts({"gpu-a": board(state="ready"), "gpu-b": board()})
    shown = [screen._sorted(screen.last)]
    for _ in range(3):
        screen._press("n")
        shown.append(screen._sorted(screen.last))
    assert [getattr(one, "state", "all") for one in shown] == ["all", "stalled", "ready", "all"]


def test_the_line_of_keys_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that wraps would scroll the answer out of the screen."""
    screen = Screen(io.StringIO())
    screen.live = True
    monkeypatch.setattr(Keys, "on", True)
    monkeypatch.setattr(screen, "_size", lambda: os.terminal_size((60, 16)))
    screen.show(Hosts({"gpu-a": board(), "gpu-b": board()}))
    keys = screen.stream.getvalue().rpartition("\x1b[16;1H")[2]
    assert keys.startswith("q quits · s sorts (by state)") and len(keys) <= 60


def test_a_watch_goes_on_until_it_is_told_to_stop_and_keeps_a_run(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with launched(stalling(tmp_path / "launch"), log) as process:
        watch = Watch(pid=process.pid, out=tmp_path / "run", clock=OwnTime())
        seen = []
        for found in watch.boards():
            seen.append(found)
            if len(seen) == 2:
                watch.stop()
    assert seen[0].early and seen[0].state == "unknown" or seen[0].state != "stalled", "some seconds are no stall"
    assert len(seen) == 3 and {row["rank"] for row in seen[1].rows} >= {0, 1}
    assert seen[1].rows[0]["cpu_percent"] is not None
    run = open_run(tmp_path / "run")
    assert run.manifest["ended_at"] and all(entry["whole"] for entry in run.manifest["captures"])


@pytest.mark.needs_tool("tmux")
def test_a_closed_terminal_and_a_kernel_that_ends_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, tmux = tmp_path / "scratch", ["tmux", "-L", f"kit-{os.getpid()}", "-f", "/dev/null"]
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with launched(stalling(tmp_path / "launch"), tmp_path / "server.log") as process:
        command = f"exec {shlex.join(QUICK_KIT)} watch local --pid {process.pid}"
        subprocess.run([*tmux, "new-session", "-d", command], check=True)
        try:
            until(lambda: list(scratch.iterdir()), "it records")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
        until(lambda: not list(scratch.iterdir()), "nothing is left")
        code = f"import kit, time\nview = kit.watch(pid={process.pid})\nwhile view.board is None: time.sleep(0.1)"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=READY_S)
    assert not list(scratch.iterdir())


@pytest.mark.needs_tool("sshd")
def test_a_launch_of_another_host_is_watched_over_ssh(tmp_path: Path, sshd) -> None:
    with launched(stalling(tmp_path / "launch"), tmp_path / "server.log") as process:
        watch = Watch(sshd.target, pid=process.pid, clock=OwnTime(), **sshd.options())
        boards = watch.boards()
        found = next(boards)
        watch.stop()
        assert list(boards), "the last board"
    assert found.name == f"{sshd.target}, process {process.pid}"
    assert {row["rank"] for row in found.rows} >= {0, 1} and found.phase == "weights"
    assert not sshd.children()


@pytest.mark.needs_tool("sshd")
def test_a_watch_outlives_its_connection(tmp_path: Path, make_sshd) -> None:
    server = make_sshd()
    with launched(stalling(tmp_path / "launch"), tmp_path / "server.log") as process:
        watch = Watch(server.target, pid=process.pid, out=tmp_path / "run", clock=OwnTime(2), **server.options())
        names, boards = [], watch.boards()
        names.append(next(boards).name)
        server.stop()
        while "the connection is lost" not in names[-1]:
            names.append(next(boards).name)
        server.start()
        names.append(next(boards).name)
        watch.stop()
        list(boards)
    assert names[-1] == names[0], "it is connected again"
    assert open_run(tmp_path / "run").manifest["gaps"]


def test_threads_of_long_ago_are_not_looked_at() -> None:
    run = open_run(sample_path("pipe-ticker"))
    times = sorted({row["time"] for row in run.rows("threads") if row.get("tool") == "sampler"})
    late, processes = [], []
    run.scan({"threads": late.append, "processes": processes.append}, times[-3])
    assert sorted({row["time"] for row in late if row.get("tool") == "sampler"}) == times[-3:]
    assert min(row["time"] for row in processes if row.get("tool") == "sampler") <= times[0]


def test_what_cannot_be_watched_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to record"):
        Watch()
    with pytest.raises(EvidenceError):
        Watch(pid=2**22 + 1)


def test_a_watch_shows_what_was_and_what_each_rank_said_last() -> None:
    history = History()
    for number in range(100):
        rows = [
            {**ROW, "rank": rank, "pid": rank, "odd": rank == 1, "cpu_percent": cpu, "last_line": said}
            for rank, cpu, said in ((0, 100.0 if number == 50 else 0.0, "loaded"), (1, 100.0, "loading 3/8"), (2, None, "loaded"))
        ]
        found = history.take(board(rows=rows, records_per_min=number, last_line="loaded"))
    drawn = render_text(found, 120, 40).split("\n")
    quiet, busy, unknown = (next(line for line in drawn if line.startswith(start)) for start in ("     0", "   ▶ 1", "     2"))
    assert "▁▁▁▁▁▁█▁▁▁▁▁▁" in quiet and "█████████████" in busy and "█" not in unknown, "a peak of one board is seen"
    assert "99 log records in the last minute ▁▂▂▃▃▄▄▅▆▆▇▇█" in drawn[3]
    lines = drawn[drawn.index("last log lines") + 1 :]
    assert [line.split() for line in lines[:2]] == [["rank", "1", "loading", "3/8"], ["ranks", "0,", "2", "loaded"]]
    short = render_text(found, 80, 16).split("\n")
    assert any("█████████████" in line for line in short) and any("loading 3/8" in line for line in short) and len(short) <= 16


SHOWS = """
import sys, threading
from kit.analyse.verdict.live_status import Status
from kit.cli.live import end_in_order_on_signals
from kit.live.keys import Keys
from kit.live.screen import Screen
row = {row}
end_in_order_on_signals()
over, rows = threading.Event(), [{{**row, "rank": rank, "pid": 70 + rank, "cpu_percent": 10.0 * rank}} for rank in range(3)]
try:
    with Screen(quit=over.set) as screen:
        print("the host is new", file=sys.stderr)
        screen.show(Status("run", "12:00:00", "stalled", "device_hang", "it hangs", "weights", 0.9, [], rows=rows))
        if sys.argv[1:] == ["crash"]:
            raise RuntimeError("it crashed")
        over.wait()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("ending", "code"), [("q", 0), ("\x03", 130), ("\x1c", 130), (signal.SIGTERM, 130), ("crash", 1)])
def test_the_terminal_is_put_back_whatever_ends_the_watch(ending: str | int, code: int) -> None:
    leader, follower = os.openpty()
    before, drawn = termios.tcgetattr(follower), ""

    def shown(wanted: str) -> str:
        nonlocal drawn
        while wanted not in drawn:
            drawn += os.read(leader, 65536).decode()
        found, _, drawn = drawn.rpartition(wanted)
        return found

    command = [sys.executable, "-c", SHOWS.format(row=ROW), *(["crash"] if ending == "crash" else [])]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    first = shown("q quits · s sorts (by rank)")
    assert re.findall(r" (7[0-2])  ", first) == ["70", "71", "72"]
    if ending == "q":
        assert not termios.tcgetattr(follower)[3] & (termios.ICANON | termios.ECHO)
        os.write(leader, b"s")
        assert re.findall(r" (7[0-2])  ", shown("(by CPU)")) == ["72", "71", "70"]
        os.write(leader, b"r")
        assert re.findall(r" (7[0-2])  ", shown("(by CPU, turned)")) == ["70", "71", "72"]
    if isinstance(ending, int):
        process.send_signal(ending)
    elif ending != "crash":
        os.write(leader, ending.encode())
    last = shown("\x1b[?25h\x1b[?1049l")
    assert process.wait(READY_S) == code
    os.set_blocking(leader, False)
    with contextlib.suppress(BlockingIOError):  # all was read before
        drawn += os.read(leader, 65536).decode()
    assert "it hangs" in drawn, "the last board stays on the normal screen"
    assert "the host is new" not in first + last and drawn.index("the host is new") < drawn.index("it hangs")
    assert termios.tcgetattr(follower) == before and (ending != "q" or "ending …" in last)
    os.close(leader)
    os.close(follower)


@pytest.mark.needs_tool("tmux")
def test_in_a_terminal_the_board_is_redrawn_in_place(tmp_path: Path) -> None:
    socket, out = f"kit-{os.getpid()}", tmp_path / "run"
    tmux = ["tmux", "-L", socket, "-f", "/dev/null"]

    def shown() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    with launched(stalling(tmp_path / "launch"), tmp_path / "server.log") as process:
        command = f"{shlex.join(QUICK_KIT)} watch local --pid {process.pid} -o {out}; echo code $?; cat"
        try:
            subprocess.run([*tmux, "new-session", "-d", "-x", "120", "-y", "40", command], check=True)
            until(lambda: "waits in" in shown(), "the table is there")
            first = shown()
            until(lambda: shown().split("\n")[1] != first.split("\n")[1], "it is drawn again")
            told = r"^ +(?:▶ )?0 +\d+ +worker +S +[\d.]+ % +[▁▂▃▄▅▆▇█]{2,}"
            until(lambda: re.search(told, shown(), re.MULTILINE), "two samples have told what CPU it uses")
            drawn = shown()
            subprocess.run([*tmux, "send-keys", "s", "q"], check=True)
            until(lambda: "code 0" in shown(), "it ended")
            after = shown()
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
    assert drawn.count("waits in") == 1 and "Ctrl-C ends" in drawn.split("\n")[1] and "q quits" in drawn
    assert re.search(r"ranks 0, 1 +Starting to load model tiny", drawn)
    assert "phase weights" in drawn
    assert "kept in" in after and "waits in" in after, "the last board stays"
    assert open_run(out).manifest["ended_at"]


def test_without_ipywidgets_the_view_is_a_static_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    view = StatusView("local, process 7", lambda: None)
    view.update(board())
    assert view.widget is None
    assert "rank_straggler" in view._repr_mimebundle_()["text/html"] and "stalled" in repr(view)


def test_in_a_notebook_it_goes_on_beside_the_cells_and_an_export_shows_it(tmp_path: Path) -> None:
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter
    from nbformat.v4 import new_code_cell, new_notebook

    with launched(stalling(tmp_path / "launch"), tmp_path / "server.log") as process:
        cells = [
            f"import kit, asyncio\nview = kit.watch(pid={process.pid})\nview",
            "while view.board is None:\n    await asyncio.sleep(0.1)\nassert view.running",
            "explorer = view.explore()\nfirst = explorer._packs\nwhile explorer._packs == first:\n    await asyncio.sleep(0.1)\n"
            "print(len(explorer.selected.threads) > 0)",
            "view.view._button.click()\nwhile view.running:\n    await asyncio.sleep(0.1)\nprint(view.error)",
        ]
        book = new_notebook(cells=[new_code_cell(text) for text in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "", "language": "python"}
        NotebookClient(book, timeout=READY_S, resources={"metadata": {"path": str(Path.cwd())}}).execute()
    (output,) = book.cells[0].outputs
    assert "application/vnd.jupyter.widget-view+json" in output.data
    assert "waits in" in output.data["text/html"] and "ended, nothing was kept" in output.data["text/html"]
    assert [book.cells[n].outputs[0].text for n in (2, 3)] == ["True\n", "None\n"], "the explorer followed, nothing failed"
    widgets = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert any("waits in" in widget["state"].get("value", "") for widget in widgets)
    del book.metadata["widgets"]
    assert "waits in" in HTMLExporter(mathjax_url="", require_js_url="").from_notebook_node(book)[0]


def test_a_watch_of_a_launch_that_ends_ends_too(tmp_path: Path) -> None:
    clock, boards = OwnTime(), []
    with open(tmp_path / "log", "wb") as out:
        process = subprocess.Popen([sys.executable, "-c", "print('hi', flush=True); input()"], stdin=subprocess.PIPE, stdout=out)
    for board in Watch(pid=process.pid, log=tmp_path / "log", limit_s=600, clock=clock).boards():
        boards.append(board)
        process.stdin.close()
    process.wait()
    assert boards and boards[-1].gone and clock.monotonic() < 500
