"""A launch under guard: passed on unchanged, captured when it goes quiet, recorded to the point where it is ready."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kit.capture.manifest import Manifest
from kit.live.guard import GuardOptions, _may_end
from kit.live.launch import LogKeeper
from kit.open import open_run
from tests.live.launches import MOVES, QUICK_KIT, SECRET, SERVES, stalling
from tests.sshd import free_port

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a guard reads /proc"),
    pytest.mark.usefixtures("quiet_kernel_log"),
]
KIT = [*QUICK_KIT, "guard"]
LONG_S = 120.0
"""A condition that does not come true within this time never will."""


def guarded(*words: object, **more) -> subprocess.CompletedProcess:
    """Run `kit guard` to its end."""
    return subprocess.run([*KIT, *map(str, words)], capture_output=True, timeout=LONG_S, **more)


def until(condition: Callable[[], object], what: str) -> object:
    """Wait for a condition."""
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"never came true: {what}")


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable]:
    """`begin(*words)` starts `kit guard` with its messages in a file; at the end all of it is ended."""
    started: list[subprocess.Popen] = []

    def start(*words: object) -> tuple[subprocess.Popen, Path]:
        said = tmp_path / "said.txt"
        with open(said, "wb") as errors:
            process = subprocess.Popen([*KIT, *map(str, words)], stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        started.append(process)
        return process, said

    yield start
    for process in started:
        for child in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
            child.kill()
        process.kill()
        process.wait()


def processes_with(word: str) -> list[int]:
    """Processes that have a word in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(word in argument for argument in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.needs_tool("py-spy", "strace")
def test_a_stall_is_captured_and_its_rank_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = guarded("-o", out, "--quiet-after", "3s", "--then", "end", "--", *stalling(tmp_path / "launch"))
    said = ran.stderr.decode()
    assert ran.returncode == 128 + signal.SIGTERM, said
    assert "stalled in weights: one rank is behind (rank_straggler), rank 0" in said
    assert "two snapshots, stacks by py-spy, a short strace" in said
    assert f"run kept in {out}" in said
    found = json.loads((out / "verdict.json").read_text())
    assert (found["state"], found["class"], found["ranks"]) == ("stalled", "rank_straggler", [0])
    assert found["guard"]["ended_by"] == "kit guard" and found["guard"]["exit_signal"] == signal.SIGTERM
    kinds = [entry["kind"] for entry in open_run(out).manifest["captures"]]
    assert kinds.count("pyspy") == 2 and kinds.count("ps") == 3 and {"strace", "sampler", "log"} <= set(kinds)
    assert not (out / ".reserve").exists() and not processes_with(str(tmp_path))


def test_a_secret_is_shown_and_not_kept(tmp_path: Path) -> None:
    ran = guarded("-o", tmp_path / "run", "--", sys.executable, "-c", f"print('--hf-token {SECRET}')")
    assert SECRET in ran.stdout.decode(), "the terminal shows what the launch prints"
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not kept
    assert "[redacted]" in (tmp_path / "run" / "raw" / "server.log").read_text()


def test_a_ready_server_is_said_to_be_ready_and_no_longer_looked_at(tmp_path: Path, begin: Callable) -> None:
    port = free_port()
    process, said = begin("-o", tmp_path / "run", "--", sys.executable, "-c", SERVES, "--port", port)
    until(lambda: "ready after" in said.read_text(), "the guard says ready")
    assert f"on port {port}" in said.read_text()
    children = [child.cmdline() for child in psutil.Process(process.pid).children(recursive=True)]
    assert [words[-1] for words in children if not words[0].endswith("sh")] == [str(port)], "no sampler is left"
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 128 + signal.SIGINT
    run = open_run(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert (found["state"], found["class"]) == ("ready", "ready")
    assert found["guard"]["ready_s"] > 0 and found["guard"]["ended_by"] == "SIGINT" and not found["guard"]["captures"]
    assert "KeyboardInterrupt" in (tmp_path / "run" / "after.log").read_text(), "its way out is no evidence of its state"
    assert all(entry["whole"] for entry in run.manifest["captures"])


def test_what_moves_is_left_alone(tmp_path: Path) -> None:
    words = ["-o", tmp_path / "run", "--quiet-after", "2s", "--then", "end"]
    ran = guarded(*words, "--", sys.executable, "-c", MOVES, 4, tmp_path / "never")
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"quiet for" not in ran.stderr
    assert ran.stdout.count(b"\n") > 10


def test_output_and_exit_code_are_the_launch_s_own(tmp_path: Path) -> None:
    script = r"printf 'a\rb\n\377'; printf 'error\n' >&2; exit 7"
    ran = guarded("-o", tmp_path / "run", "--", "sh", "-c", script)
    assert (ran.returncode, ran.stdout) == (7, b"a\rb\n\xff")
    assert ran.stderr.startswith(b"error\n")
    assert sorted((tmp_path / "run" / "raw" / "server.log").read_bytes()) == sorted(b"a\rb\n\xfferror\n")
    assert open_run(tmp_path / "run").manifest["launch"]["exit_code"] == 7
    assert guarded("-o", tmp_path / "killed", "--", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert guarded("-o", tmp_path / "reads", "--", "cat", input=b"typed").stdout == b"typed"


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    words = ["-o", tmp_path / "run", "--", sys.executable, "-c", code]
    ran = guarded(*words, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert ran.stdout == b"True\n"


def test_what_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    ran = guarded("-o", tmp_path / "run", "--", "no-such-program")
    assert ran.returncode == 2 and b"no such program" in ran.stderr
    assert not (tmp_path / "run").exists()
    assert guarded("-o", tmp_path / "run").returncode == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    ran = guarded("-o", tmp_path / "full", "--", "touch", tmp_path / "started")
    assert ran.returncode == 2 and not (tmp_path / "started").exists()


def test_a_recording_that_fails_does_not_harm_the_launch(tmp_path: Path, begin: Callable) -> None:
    end = tmp_path / "end"
    process, said = begin("-o", tmp_path / "run", "--", sys.executable, "-c", f"{MOVES}\nsys.exit(5)", LONG_S, end)
    until(lambda: (tmp_path / "run" / "raw" / "server.log").exists(), "the recording has begun")
    (tmp_path / "run").rename(tmp_path / "gone")  # at once: while it is being deleted, the recording may write to it
    until(lambda: "recording stopped, the launch continues" in said.read_text(), "it says so")
    end.touch()
    assert process.wait(LONG_S) == 5


def test_a_left_child_is_named(tmp_path: Path) -> None:
    ran = guarded("-o", tmp_path / "run", "--", "sh", "-c", "sleep 600 & echo $! >&2; exit 1")
    child = int(ran.stderr.split()[0])
    try:
        assert ran.returncode == 1 and f"1 process of the launch still running: {child}" in ran.stderr.decode()
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.needs_tool("tmux")
def test_a_launch_in_a_terminal_has_a_terminal(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size(1).columns); print('two')"
    done, socket = tmp_path / "done", f"kit-{os.getpid()}"
    guard = shlex.join([*KIT, "-o", str(tmp_path / "run"), "--", sys.executable, "-c", code])
    tmux = ["tmux", "-L", socket, "-f", "/dev/null"]
    try:
        subprocess.run([*tmux, "new-session", "-d", "-x", "132", "-y", "30", f"{guard}; touch {done}; cat"], check=True)
        until(done.exists, "the guard has ended")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    assert (tmp_path / "run" / "raw" / "server.log").read_bytes() == b"True 132\ntwo\n"


def test_lines_are_kept_whole_whatever_pieces_they_come_in(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    manifest = Manifest(tmp_path, "0")
    keeper = LogKeeper(manifest.open("server.log", "log", "test"))
    for channel, chunk in ((1, b"one --api-key sec"), (2, b"two\n"), (1, b"ret12345\nthree\r"), (1, b"four")):
        keeper.take(channel, chunk)
    keeper.divert(tmp_path / "after.log")
    keeper.take(1, b"on its way out\n")
    keeper.close()
    manifest.finish(0)
    assert (tmp_path / "raw" / "server.log").read_bytes() == b"two\none --api-key [redacted]\nthree\rfour"
    assert (tmp_path / "after.log").read_bytes() == b"on its way out\n"


def test_a_launch_is_ended_on_a_stall_not_on_slowness() -> None:
    class Found:
        def __init__(self, state: str):
            self.state = state

    assert _may_end(Found("stalled"), [{}])
    assert not _may_end(Found("progressing"), [{}, {}, {}])
    assert not _may_end(Found("unknown"), [{}]) and _may_end(Found("unknown"), [{}, {}])
    assert GuardOptions().patience_s("graph_capture") > GuardOptions().patience_s("weights")


def test_nothing_outlives_a_guard_that_is_killed(begin: Callable, tmp_path: Path) -> None:
    """The launch, what it started, the sampler, the shells: all end with the guard. What was captured opens."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('INFO 02-18 02:11:52 up', flush=True); "
    guard, _ = begin("-o", tmp_path / "run", "--", sys.executable, "-c", f"{code}time.sleep(600)")
    until(lambda: b"up" in b"".join(path.read_bytes() for path in tmp_path.glob("run/raw/server.log")), "the launch prints")
    until(lambda: len(psutil.Process(guard.pid).children(recursive=True)) >= 4, "all of them run")
    started = psutil.Process(guard.pid).children(recursive=True)
    guard.kill()
    guard.wait()
    until(lambda: not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE], "all have ended")
    assert len(open_run(tmp_path / "run").frame("log")) == 1
