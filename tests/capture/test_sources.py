"""Logs that commands print, by stand-ins that print as docker, journalctl and kubectl do."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import kit
from kit.capture.hosts.targets import open_host
from kit.capture.hosts.this_machine import LocalHost
from kit.capture.logs.output_target import destination
from kit.capture.logs.sources import Overlap, SourceFollower, parse_source
from kit.capture.manifest import Manifest, make_folder
from kit.capture.waiting import Clock
from kit.errors import UsageError
from kit.parse import grammar
from kit.parse.base import Source

PATIENCE_S = 120.0
STAND_IN = '''#!{python}
"""Prints a log from a file of its state: the lines from --since on, then what comes, until the file `ended` is there."""
import os, re, sys, time
args = sys.argv[1:]
state = "{state}"
with open(state + "/calls", "a") as calls:
    calls.write(os.path.basename(sys.argv[0]) + " " + " ".join(args) + "\\n")
def stamp(line):
    found = re.match(r"(\\S+?)[.](\\d+)(?:Z|[+]0000) ", line)
    return found and (found.group(1), int(found.group(2).ljust(9, "0")))
since = ""
for name in ("--since", "--since-time"):
    if name in args:
        since = args[args.index(name) + 1]
if since.startswith("@"):
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(since[1:])))
path = state + ("/previous" if "--previous" in args else "/log")
if not os.path.exists(path):
    print("Error: previous terminated container not found" if "previous" in path else "Error: No such container", file=sys.stderr)
    sys.exit(1)
with open(path) as log:
    shown = not since
    while True:
        line = log.readline()
        if line:
            shown = shown or stamp(line) is None and shown or stamp(line) is not None and stamp(line)[0] + "Z" >= since
            if shown:
                print(line, end="", file=sys.stderr if "docker" in sys.argv[0] else sys.stdout, flush=True)
        elif "-f" not in args or os.path.exists(state + "/ended"):
            break
        else:
            time.sleep(0.02)
'''


class Container:
    """What the stand-ins print."""

    def __init__(self, folder: Path):
        self.state, self.bin = folder / "state", folder / "bin"
        self.state.mkdir()
        self.bin.mkdir()
        for name in ("docker", "journalctl", "kubectl"):
            (self.bin / name).write_text(STAND_IN.format(python=sys.executable, state=self.state))
            (self.bin / name).chmod(0o755)

    def write(self, first: int, count: int, name: str = "log") -> bytes:
        data = lines(first, count)
        with open(self.state / name, "ab") as log:
            log.write(data)
        return data

    def calls(self) -> list[str]:
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []


def lines(first: int, count: int) -> bytes:
    """Ten lines a second."""
    numbers = range(first, first + count)
    made = (f"2026-02-18T02:{10 + n // 600:02d}:{n // 10 % 60:02d}.{n % 10}00000000Z line {n}\n" for n in numbers)
    return "".join(made).encode()


@pytest.fixture
def container(tmp_path, monkeypatch) -> Container:
    made = Container(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


@pytest.fixture
def manifest(tmp_path) -> Manifest:
    make_folder(tmp_path / "run")
    return Manifest(tmp_path / "run", "0")


@pytest.fixture
def follow(manifest) -> Iterator[Callable[..., SourceFollower]]:
    started: list[SourceFollower] = []

    def begin(text: str, host=None, **more) -> SourceFollower:
        started.append(SourceFollower(manifest, host or LocalHost(), parse_source(text), clock=Clock(10), **more))
        started[-1].start()
        return started[-1]

    yield begin
    for follower in started:
        follower.finish()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def copied(manifest: Manifest, name: str) -> bytes:
    return (manifest.folder / "raw" / name).read_bytes()


def entry(manifest: Manifest, name: str) -> dict:
    data = json.loads((manifest.folder / "run.json").read_text(encoding="utf-8"))
    return next(one for one in data["captures"] if one["file"] == f"raw/{name}")


@pytest.mark.parametrize("text", ["docker:vllm", "journal:vllm.service"])
def test_output_is_copied_as_it_comes_and_a_command_that_ends_is_started_again(container, manifest, follow, text):
    name = text.replace(":", "-") + ".log"
    container.write(0, 30)
    follower = follow(text)
    until(lambda: copied(manifest, name) == lines(0, 30))
    container.write(30, 15)
    until(lambda: copied(manifest, name) == lines(0, 45))
    (container.state / "ended").touch()
    until(lambda: len(container.calls()) > 2)
    container.write(45, 30)
    (container.state / "ended").unlink()
    until(lambda: copied(manifest, name) == lines(0, 75))
    follower.finish()
    assert copied(manifest, name) == lines(0, 75)
    assert entry(manifest, name)["whole"]
    assert any("--since" in call for call in container.calls()[1:])


def test_restarted_container_of_a_pod_gives_the_end_of_its_previous_instance(container, manifest, follow):
    container.write(0, 20)
    container.write(100, 5, "previous")
    follower = follow("kubectl:prod/llm-0:main")
    name = "kubectl-prod-llm-0-main.log"
    until(lambda: copied(manifest, name) == lines(0, 20))
    assert copied(manifest, name.replace(".log", ".previous.log")) == lines(100, 5)
    (container.state / "previous").write_bytes(lines(0, 35))
    (container.state / "log").write_bytes(lines(600, 5))
    (container.state / "ended").touch()
    until(lambda: copied(manifest, name) == lines(0, 35) + lines(600, 5))
    follower.finish()
    assert "--previous" in entry(manifest, name)["note"]
    assert container.calls()[1] == "kubectl logs --timestamps -f -n prod llm-0 -c main"


def test_container_that_is_not_there_is_said_and_comes_later(container, manifest, follow):
    follower = follow("docker:vllm")
    until(lambda: "No such container" in (entry(manifest, "docker-vllm.log")["note"] or ""))
    container.write(0, 3)
    until(lambda: copied(manifest, "docker-vllm.log") == lines(0, 3))
    follower.finish()


def test_container_that_never_comes_is_missing(container, manifest, follow):
    follower = follow("docker:vllm")
    until(lambda: container.calls())
    follower.finish()
    assert "No such container" in manifest.data["missing"][0]["why"]


def test_secrets_and_lines_without_stamp(container, manifest, follow):
    (container.state / "log").write_bytes(lines(0, 1) + b"    continued HF_TOKEN=abcdef\n" + lines(1, 1))
    follower = follow("journal:vllm")
    until(lambda: copied(manifest, "journal-vllm.log").count(b"\n") == 3)
    follower.finish()
    assert copied(manifest, "journal-vllm.log") == lines(0, 1) + b"    continued HF_TOKEN=[redacted]\n" + lines(1, 1)


def test_nothing_stays_behind_and_a_break_repeats_nothing(container, manifest, follow, make_sshd):
    server = make_sshd(environ={"PATH": os.environ["PATH"]})
    container.write(0, 30)
    with open_host(server.target, **server.options()) as host:
        follower = follow("docker:vllm", host)
        until(lambda: copied(manifest, "docker-vllm.log") == lines(0, 30))
        server.stop()
        until(lambda: follower.lost)
        container.write(30, 30)
        until(lambda: not stand_ins(container))
        server.start()
        host.connect()
        until(lambda: copied(manifest, "docker-vllm.log") == lines(0, 60))
        follower.finish()
    until(lambda: not stand_ins(container))
    assert entry(manifest, "docker-vllm.log")["whole"]
    assert "connection was lost" in entry(manifest, "docker-vllm.log")["note"]


def stand_ins(container: Container) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(word.startswith(str(container.bin)) for word in process.info["cmdline"] or []):
            found.append(process)
    return found


def test_lines_of_the_overlap_are_known_again_and_equal_lines_are_kept():
    overlap, twice = Overlap(), [b"2026-02-18T02:11:52Z same\n"] * 2
    overlap.saw(twice)
    overlap.begin()
    assert overlap.new([*twice, twice[0], b"2026-02-18T02:11:53Z next\n"]) == [twice[0], b"2026-02-18T02:11:53Z next\n"]


@pytest.mark.parametrize("text", ["docker:-v", "docker:a b", "kubectl:ns/", "journal:$(reboot)", "docker:a;b"])
def test_name_that_is_no_name(text):
    with pytest.raises(UsageError):
        parse_source(text)


def test_prefix_of_journald_with_a_zone_is_taken_off():
    peel = grammar.load().matcher(None).prefixes.peel
    prefix, text = peel("2026-02-18T02:11:52.123456+0100 gpu1 python3[4242]: INFO 02-18 02:11:50 [core.py:58] Begin", Source("a"))
    assert text == "Begin" and prefix.stamp == 1771377112123456000 and prefix.extra["unit_pid"] == 4242


# where the descriptors of a process go


@pytest.fixture
def launch() -> Iterator[Callable[..., int]]:
    started: list[subprocess.Popen] = []

    def start(script: str, **more) -> int:
        started.append(subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, **more))
        return started[-1].pid

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def host() -> Iterator[LocalHost]:
    with LocalHost() as host:
        yield host


def child(pid: int, name: str) -> int:
    """A child of a process, once it is there."""
    found: list[int] = []

    def there() -> bool:
        found[:] = [one.pid for one in psutil.Process(pid).children(recursive=True) if one.name() == name]
        return bool(found)

    until(there)
    return found[0]


def test_file_that_is_there_and_one_that_is_deleted(host, launch, tmp_path):
    with open(tmp_path / "a.log", "wb") as log:
        pid = launch("exec sleep 60", stdout=log, stderr=subprocess.DEVNULL)
    found = destination(host, pid, 1)
    assert (found.kind, found.files) == ("file", [(f"/proc/{pid}/fd/1", str(tmp_path / "a.log"))])
    assert destination(host, pid, 2).kind == "null" and destination(host, pid, 77) is None
    (tmp_path / "a.log").unlink()
    assert destination(host, pid, 1).kind == "deleted file"
    assert destination(host, pid, 1).files == found.files


def test_pipe_into_tee_leads_to_its_file(host, launch, tmp_path):
    log = tmp_path / "my server.log"
    pid = launch(f"sleep 60 2>&1 | cat | tee '{log}' >/dev/null")
    child(pid, "tee")
    until(lambda: log.exists())
    found = destination(host, child(pid, "sleep"), 1)
    assert found.kind == "pipe" and [path for _, path in found.files] == [str(log)]
    assert "cat" in found.said and "tee" in found.said


def test_pipe_that_a_program_reads(host, launch):
    pid = launch("sleep 60 | cat >/dev/null")
    child(pid, "cat")
    found = destination(host, child(pid, "sleep"), 1)
    assert found.files == [] and "cat (process" in found.said and found.do


def test_terminal(host, launch):
    ours, theirs = pty.openpty()
    pid = launch("exec sleep 60", stdout=theirs)
    found = destination(host, pid, 1)
    assert found.kind == "terminal" and found.said.startswith(f"to the terminal {os.ttyname(theirs)}") and found.do
    os.close(ours)
    os.close(theirs)


@pytest.mark.needs_tool("tmux")
def test_terminal_in_tmux_names_the_pane(host, tmp_path, monkeypatch):
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    script = "sleep 60 & echo $! > pid; wait"
    subprocess.run(["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "launch 1", script], cwd=tmp_path, check=True)
    try:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
        found = destination(host, int((tmp_path / "pid").read_text()), 1)
        assert found.kind == "terminal" and "in tmux, pane launch 1:0.0" in found.said
        assert "capture-pane -p -J -S - -t 'launch 1:0.0'" in found.do
    finally:
        subprocess.run(["tmux", "kill-server"], check=True)


@pytest.mark.parametrize(
    ("group", "do", "kind"),
    [
        ("0::/system.slice/docker-" + "ab" * 32 + ".scope\n", "docker logs --timestamps abababababab", "docker"),
        ("5:memory:/docker/" + "ab" * 32 + "\n", "docker logs --timestamps abababababab", "docker"),
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "cd" * 32 + ".scope\n", "crictl logs cdcdcdcdcdcdc", None),
        ("0::/machine.slice/libpod-" + "ab" * 32 + ".scope\n", "podman logs", None),
    ],
)
def test_control_group_names_the_container(host, launch, monkeypatch, group, do, kind):
    pid = launch("sleep 60 | cat >/dev/null")
    child(pid, "cat")
    answers_of_proc(host, monkeypatch, group)
    found = destination(host, child(pid, "sleep"), 1)
    assert do in found.do and (found.source.kind if found.source else None) == kind


def answers_of_proc(host: LocalHost, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    """No test may make a control group: the host says that there is one."""
    read = host.read_file

    def answer(path: str, most: int = 1 << 20) -> bytes:
        if path.endswith("/hostname"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return group.encode() if path.endswith("/cgroup") else read(path, most)

    monkeypatch.setattr(host, "read_file", answer)


def test_socket_of_a_service(host, launch, monkeypatch):
    ours, theirs = socket.socketpair()
    pid = launch("exec sleep 60", stdout=theirs)
    answers_of_proc(host, monkeypatch, "0::/system.slice/vllm.service\n")
    found = destination(host, pid, 1)
    assert found.kind == "socket" and found.source == parse_source("journal:vllm.service")
    ours.close()
    theirs.close()


# a recording


def test_recording_follows_what_tee_writes(launch, tmp_path):
    log = tmp_path / "server.log"
    pid = launch(f"(echo begun; exec sleep 60) 2>&1 | tee '{log}' >/dev/null")
    until(lambda: log.exists() and log.stat().st_size > 0)
    run = kit.collect("local", pid=child(pid, "sleep"), out=tmp_path / "run", duration_s=0.5, progress=lambda text: None)
    assert (run / "raw/server.log").read_bytes() == b"begun\n"
    assert "descriptor" not in " ".join(one["what"] for one in kit.open_run(run).missing)


def test_recording_of_a_container_by_name(container, tmp_path):
    container.write(0, 40)
    run = kit.collect("local", log="docker:vllm", out=tmp_path / "run", duration_s=1.0, progress=lambda text: None)
    assert (run / "raw/docker-vllm.log").read_bytes() == lines(0, 40)
    assert len(kit.open_run(run).frame("log")) == 40
