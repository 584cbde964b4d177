"""A host that lies: names that lead elsewhere, output without an end, drops, silence, answers of another form, packed bombs."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.capture.collect import collect_from
from kit.capture.find import find_launch
from kit.capture.hosts import host as hosts
from kit.capture.hosts.host import Abilities, FileStat, Host, HostFile, HostLost, Ran, Shell, Stream
from kit.capture.hosts.process_source import ProcFiles
from kit.capture.hosts.remote_files import FileShell, RemoteFile
from kit.capture.hosts.targets import open_host
from kit.capture.hosts.this_machine import run_boxed
from kit.capture.logs import follow, sources
from kit.capture.logs import pull as pulling
from kit.capture.logs.follow import LogFollower, blocks, rotated_copies
from kit.capture.logs.output_target import destination
from kit.capture.logs.pull import find_files, pull
from kit.capture.logs.sources import SourceFollower, TextSource
from kit.capture.manifest import Manifest, make_folder
from kit.capture.options import Options
from kit.capture.processes import named, ports_of, tree_of, writer_of
from kit.capture.sampler import sampling
from kit.capture.tools import probe
from kit.capture.tools.snapshots import Snapshots
from kit.capture.tools.strace import tracers_of
from kit.cli import main
from kit.errors import KitError
from kit.tool_table import table

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a target is a Linux host")
QUIET = {"progress": lambda text: None}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A folder before all others in the PATH of the host."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    return folder


@pytest.fixture
def hostile(fakes: Path, make_sshd):
    return make_sshd(environ={"PATH": f"{fakes}:/usr/local/bin:/usr/bin:/bin"})


def fake(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


# names


def test_names_that_hold_line_ends_lead_nowhere_else(tmp_path: Path, sshd) -> None:
    logs = tmp_path / "logs"
    odd = [b"b\n/etc/hostname", b"\xff\xfe.log", b"$(touch x).log", b" .log", b"-n.log", b"\x1b[2J.log"]
    for number, name in enumerate(odd):
        path = bytes(logs) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(b"INFO 02-18 02:11:52 line %d\n" % number)
    run = pull(sshd.target, str(logs), out=tmp_path / "run", **sshd.options(), **QUIET)
    manifest = json.loads((run / "run.json").read_text())
    sources_ = [entry["source"] for entry in manifest["captures"]]
    assert len(sources_) == 6 and all(one.startswith(f"{logs}/") for one in sources_) and "/etc/hostname" not in sources_
    assert f"{logs}/\\xff\\xfe.log" in sources_ and f"{logs}/b\n/etc/hostname" in sources_
    assert all("/" not in path.name and path.name.isprintable() for path in (run / "raw").iterdir())
    assert len(kit.open_run(run).frame("log")) == 6
    said: list[str] = []
    pull(sshd.target, str(logs), out=tmp_path / "run", progress=said.append, **sshd.options())
    assert len(said) == 6 and all("nothing new" in one for one in said)


@pytest.mark.parametrize(
    "listed",
    [
        "/etc/hostname",
        "{logs}/../../../../../../etc/hostname",
        "{logs}/a.log\\n/etc/hostname",
        "etc/hostname",
        "",
        "{logs}x/a.log",
    ],
)
def test_what_find_lists_is_checked(listed: str, fakes: Path, hostile, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_text("INFO 02-18 02:11:52 a\n")
    fake(fakes, "find", f"printf '%s\\0' '{logs}/a.log'; printf '{listed.format(logs=logs)}\\0'; printf '/etc/passwd'")
    with open_host(hostile.target, **hostile.options()) as host:
        found, _ = find_files(host, [str(logs)])
        assert found in ([f"{logs}/a.log"], [f"{logs}/a.log", f"{logs}/a.log\n/etc/hostname"])


def test_root_follows_no_link_of_another_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, as a pull with --sudo has")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "mine.log").symlink_to("/etc/hostname")
    (logs / "theirs.log").symlink_to("/etc/hostname")
    (logs / "folder").symlink_to("/etc")
    for name in ("theirs.log", "folder"):
        os.chown(logs / name, 4242, 4242, follow_symlinks=False)
    with open_host("local") as host:
        assert find_files(host, [f"{logs}/*.log", f"{logs}/*/hostname"]) == ([f"{logs}/mine.log"], [f"{logs}/*/hostname"])


def test_a_list_of_rotated_copies_names_files_of_its_folder_alone(fakes: Path, hostile) -> None:
    fake(fakes, "ls", "printf 'server.log\\nserver.log/../../../etc/passwd\\nserver.log.1\\n/etc/passwd\\n'")
    with open_host(hostile.target, **hostile.options()) as host:
        assert rotated_copies(host, "/srv/server.log") == ["/srv/server.log.1"]


ANSWERS = 'sh -c "$SSH_ORIGINAL_COMMAND" | '
LOGINS = {
    "endless": "exec yes HF_TOKEN=planted12345",
    "endless complaints": "exec yes HF_TOKEN=planted12345 >&2",
    "NULs": "head -c 100000 /dev/zero",
    "noise": "head -c 65536 /dev/urandom",
    "a bomb": "head -c 20000000 /dev/zero | gzip",
    "brackets": "yes '[' | head -c 65536",
    "steering": "printf '\\033[2J\\033]0;owned\\007\\n' | tee /dev/stderr; exit 3",
    "silence": "exec sleep 600",
    "cut": ANSWERS + "head -c 60",
    "NULs for digits": ANSWERS + r"sed -u 's/[0-9]/\x00/g'",
    "nines": ANSWERS + "sed -u 's/[0-9]/9/g'",
    "each line twice": ANSWERS + "sed -u p",
}


@pytest.mark.parametrize("how", LOGINS)
def test_a_login_that_answers_with_anything_else_ends_in_a_sentence(how: str, make_sshd, tmp_path: Path, monkeypatch) -> None:
    for act in (Shell.__init__, Shell.ask, Shell._ask, Host.ask):
        monkeypatch.setattr(act, "__defaults__", (0.5,))
    monkeypatch.setattr(pulling, "PAUSES_S", ())
    (tmp_path / "a.log").write_text("INFO 02-18 02:11:52 a\n" * 50)
    server = make_sshd(login=LOGINS[how])
    with pytest.raises(KitError) as refused:
        pull(server.target, str(tmp_path / "a.log"), out=tmp_path / "run", **server.options(), **QUIET)
    said = str(refused.value) + "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert refused.value.do and "planted12345" not in said and not set(said) & {"\x1b", "\x07", "\0"}


# streams

ENDLESS, DROPS, SILENT = "exec yes HF_TOKEN=planted12345", "while :; do printf 'x '; sleep 0.02; done", "exec sleep 600"


@pytest.mark.parametrize("how", [ENDLESS, DROPS, SILENT], ids=["endless", "drops", "silent"])
def test_a_recording_of_a_host_whose_programs_never_end_ends(how: str, fakes: Path, hostile, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(hosts, "MOST_OUTPUT_BYTES", 1 << 18)
    monkeypatch.setattr(hosts, "LEAST_S", 0.3)
    monkeypatch.setattr("kit.capture.recording.LOOK_S", (1.0, 1.0))
    monkeypatch.setattr(sampling, "END_S", 1.0)
    for name in ("ps", "ss", "dmesg", "lslocks", "nvidia-smi", "df", "free"):
        fake(fakes, name, how)
    with subprocess.Popen([shutil.which("sleep"), "600"]) as launch:
        try:
            host = open_host(hostile.target, **hostile.options())
            run = collect_from([host], tmp_path / "run", Options(duration_s=1, interval_s=0.5), launch.pid)
        finally:
            launch.kill()
    manifest = json.loads((run / "run.json").read_text())
    ended = [one for one in manifest["missing"] if "was ended" in one["why"] or "not run" in one["why"]]
    assert ended and manifest["ended_at"], manifest["missing"]
    assert all(entry["size"] <= 1 << 18 for entry in manifest["captures"] if entry["kind"] != "sampler")
    assert b"planted12345" not in b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    kit.open_run(run).frames()


class Words(Stream):
    """A program that prints the same for ever."""

    def __init__(self, word: bytes, pause_s: float = 0.0):
        self.word, self.stopped, self.pause_s = word, threading.Event(), pause_s

    def send(self, data: bytes) -> None: ...

    def end_input(self) -> None: ...

    def read(self, timeout_s: float | None = None) -> bytes:
        return b"" if self.stopped.wait(self.pause_s) else self.word

    @property
    def errors(self) -> str:
        return ""

    def wait(self, timeout_s: float) -> int | None:
        return None

    def stop(self) -> None:
        self.stopped.set()


def test_what_is_gathered_of_a_stream_is_bounded_in_time_and_size() -> None:
    assert Words(b"x" * 1000).gather(60, 2500) == (b"x" * 2500, "size")
    text, why = Words(b"x", 0.01).gather(0.1)
    assert why == "time" and set(text) == set(b"x")
    ran = run_boxed(["yes"], 60)
    assert ran.cut and len(ran.text) == hosts.MOST_OUTPUT_BYTES and "more than" in ran.failure


def test_an_answer_without_an_end_is_none(monkeypatch) -> None:
    monkeypatch.setattr(hosts, "MOST_ANSWER_BYTES", 1 << 16)
    with pytest.raises(HostLost, match="longer than"):
        Shell(Words(b"x" * 5000), 60)
    with pytest.raises(HostLost, match="no answer within"):
        Shell(Words(b"x", 0.01), 0.1)


class Endless(HostFile):
    """A file that grows faster than anybody reads."""

    path, size = "/srv/server.log", 100

    def stat(self) -> FileStat:
        return FileStat(1, 1, self.size, 1)

    stat_path = stat

    def read(self, offset: int, most: int) -> bytes:
        return (b"INFO 02-18 02:11:52 x\n" * (most // 22 + 2))[offset % 22 :][:most]

    def stream(self, offset: int, most: int) -> Iterator[bytes]:
        while True:
            yield self.read(offset, 1 << 20)
            offset += 1 << 20

    def close(self) -> None: ...


def test_a_file_that_never_ends_is_read_to_a_bound(monkeypatch) -> None:
    monkeypatch.setattr(follow, "GROWN_BYTES", 1 << 20)
    assert sum(map(len, blocks(Endless(), 0, 100))) < 4 << 20
    reads = iter([False, False, True])
    assert sum(map(len, blocks(Endless(), 0, 1 << 40, lambda: next(reads, True)))) == 3 << 20


class EndlessHost(Host):
    def connect(self) -> None: ...

    def start_shell(self, script: str = "") -> Stream:
        return Words(b"no stamp and no end " * 4000)

    start_python = start_shell

    def open_file(self, path: str) -> HostFile:
        return Endless()

    def read_file(self, path: str, most: int = 1 << 20) -> bytes:
        return b""

    def run(self, command, timeout_s, first=15) -> Ran:
        return Ran(list(command), 1, "", "")


@pytest.fixture
def manifest(tmp_path: Path) -> Iterator[Manifest]:
    make_folder(tmp_path / "run")
    manifest = Manifest(tmp_path / "run", "0")
    yield manifest
    manifest.let_go()


def test_a_log_that_outruns_its_copy_ends_with_the_recording(manifest: Manifest, monkeypatch) -> None:
    monkeypatch.setattr(follow, "END_S", 0.2)
    monkeypatch.setattr(follow, "MOST_COPIED_BYTES", 64 << 20)
    follower = LogFollower(manifest, EndlessHost("a"), "/srv/server.log", "/srv/server.log", "server.log")
    monkeypatch.setattr(Endless, "size", 1 << 40)
    monkeypatch.setattr(follow, "MOST_BYTES", 1 << 50)
    follower.start()
    follower.finish()
    [entry] = manifest.data["captures"]
    assert entry["whole"] is False and entry["size"] > 0 and ("missing" in entry["note"] or "no further" in entry["note"])


def test_a_command_that_prints_no_line_end_and_no_stamp_is_bounded(manifest: Manifest, monkeypatch) -> None:
    monkeypatch.setattr(sources, "MOST_BYTES", 8 << 20)
    monkeypatch.setattr(sources, "END_S", 5.0)
    follower = SourceFollower(manifest, EndlessHost("a"), TextSource("docker", "x"))
    follower.start()
    follower.join(60)
    follower.finish()
    [entry] = manifest.data["captures"]
    assert 8 << 20 <= entry["size"] < 16 << 20 and not entry["whole"]
    assert any("is above" in one["why"] for one in manifest.data["missing"])


# answers of another form

JUNK = [
    b"",
    b"\0\xff\xfe\n",
    b"0 0 0\n",
    b"-1 x \xc2\xb2 99999999999999999999999 nan inf 1e999\n",
    b"9" * 5000 + b"\n",
    b"[" * 20000,
    b'{"7": 3, "x": [], "8": [1], "9": "a"}\n',
    b"[1, 2, 3]\n",
    b"null",
    b"uid x\nuptime nan\nuptime 1e400\nzone +99999\nprogram\nprogram ps\npython\n",
    b"7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 2 1 0 0 20 0 5 0 900 4096 33 18446744073709551615 \n",
    b"/proc/7/fd:\nlrwx------ 1 a b 64 Nov 29 17:00 \xc2\xb2 -> x\nl-wx------ 1 a b 64 Nov 29 17:00 1 -> /srv/a.log\n",
    b"l--------- 1 a b 0 Nov 29 17:00 exe -> /bin/x\nl--------- 1 a b 0 Nov 29 17:00 /proc/x/exe -> /bin/x\n",
    b"   0: 00000000:ZZZZ 00000000:0000 0A a b c d e f g\n" * 3,
    b"/proc/7/status:TracerPid:\t99999999999\n",
    b"exit 999999999999999999\n7 exit 0\n\xc2\xb2 x\n",
    b"HTTP/1.1 \xc2\xb2\xc2\xb2\xc2\xb2 OK\n\n{}",
    b"pid=99999999999999999999 pid=\xc2\xb2\n",
]


class Lying(Stream):
    def __init__(self, text: bytes):
        self.pieces = [text, b""]

    def send(self, data: bytes) -> None: ...

    def end_input(self) -> None: ...

    def read(self, timeout_s: float | None = None) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    errors = ""

    def wait(self, timeout_s: float) -> int | None:
        return 0

    def stop(self) -> None: ...


class Liar(Host):
    """Every answer is one of the junk, at random."""

    def __init__(self, seed: int):
        super().__init__("liar")
        self.random = random.Random(seed)
        self.processes = ProcFiles(self)
        self.abilities = Abilities(python="python3", programs={name: name for name in table().programs})

    def junk(self) -> bytes:
        return self.random.choice(JUNK)

    def connect(self) -> None: ...

    def start_shell(self, script: str = "") -> Stream:
        return Lying(self.junk())

    start_python = start_shell

    def ask(self, script: str, timeout_s: float = 10.0) -> tuple[int, bytes]:
        return self.random.choice((0, 0, 0, 1, 255)), self.junk()

    def open_file(self, path: str) -> HostFile:
        held = FileShell(self)
        status, said, number = held.open(path)
        if status:
            raise OSError(5, "junk", path)
        return RemoteFile(self, held, number, path)

    def read_file(self, path: str, most: int = 1 << 20) -> bytes:
        return self.junk()

    def run(self, command, timeout_s, first=15) -> Ran:
        return Ran(list(command), self.random.choice((0, 1, None)), self.junk().decode("utf-8", "replace"), "")


@pytest.mark.parametrize("seed", range(60))
def test_junk_in_place_of_any_answer_is_no_foreign_exception(seed: int, manifest: Manifest) -> None:
    host = Liar(seed)
    launch = find_or_none(host)
    acts = [
        lambda: [tree_of(host, 7), ports_of(host, 7), named(host, "vllm"), writer_of(host, "/srv/a.log"), tracers_of(host, [7])],
        lambda: [host.processes.interpreters([7]), host.processes.started_ns(next(iter(host.processes.table().values())))],
        lambda: [probe.request(host, 8000, path) for path in probe.HEALTH_PATHS],
        lambda: probe.first_model(probe.request(host, 8000, "/v1/models")),
        lambda: [destination(host, 7, fd) for fd in (1, 2)],
        lambda: Snapshots(host, manifest, launch).look(seed % 2),
        lambda: host.run_each({7: ["py-spy"], 8: ["py-spy"]}, 5),
        lambda: find_files(host, ["/srv/*.log"]),
        lambda: host.open_file("/srv/a.log").stat(),
    ]
    for act in acts:
        try:
            act()
        except (KitError, OSError, StopIteration):
            continue
    manifest.finish(manifest.now_ns())
    kit.open_run(manifest.folder).frames()


def find_or_none(host: Host):
    from kit.capture.find import Launch

    try:
        return find_launch(host, 7, None, 8000)
    except KitError:
        return Launch(7, 8000, None)


def test_a_sampler_that_prints_other_json_ends_the_samples_not_the_recording(fakes: Path, hostile, tmp_path: Path) -> None:
    lines = ['{"k":"sample"}', '{"k":"sample","mono_ns":"x","wall_ns":[],"n":{}}', '{"k":"proc","pid":[],"state":"Z","denied":3}']
    lines += ["[" * 3000, '{"k":"sample","mono_ns":1e400,"wall_ns":1e400,"n":1}', '{"k":"done"}', '{"k":"end"}', "\\377"]
    lines += ['{"k":"proc","pid":1,"argv":7}', '{"k":"proc","pid":1,"environ":{"a":1}}']
    awk = 'while read -r line; do [ -z "$line" ] && break; done; ' + "; ".join(f"printf '%b\\n' '{line}'" for line in lines)
    for name in ("python3", "python", "platform-python"):
        fake(fakes, name, "exit 1")
    fake(fakes, "awk", awk)
    host = open_host(hostile.target, **hostile.options())
    host.pythons = ["python3"]
    with subprocess.Popen([shutil.which("sleep"), "600"]) as launch:
        try:
            run = collect_from([host], tmp_path / "run", Options(duration_s=0.4, interval_s=0.2), launch.pid)
        finally:
            launch.kill()
    assert json.loads((run / "run.json").read_text())["ended_at"]


# bombs and full disks


def test_a_packed_bomb_is_cut_and_the_pull_fails_with_a_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(pulling, "MOST_UNPACKED_BYTES", 1 << 17)
    monkeypatch.setattr("kit.cli.live.end_in_order_on_signals", lambda: None)
    (tmp_path / "bomb.log.gz").write_bytes(gzip.compress((b" " * 63 + b"\n") * (8 << 14)))
    (tmp_path / "good.log").write_text("INFO 02-18 02:11:52 a\n")
    out = tmp_path / "run"
    assert main(["pull", "local", str(tmp_path / "bomb.log.gz"), str(tmp_path / "good.log"), "-o", str(out)]) == 3
    assert "bomb.log.gz did not come whole" in capsys.readouterr().err
    assert (out / "raw/bomb.log").stat().st_size < 3 << 20 and len(kit.open_run(out).frame("log")) >= 1


@pytest.mark.parametrize("packed", [False, True], ids=["log", "gzip"])
def test_a_full_disk_ends_a_pull_with_a_sentence_and_what_came_opens(packed: bool, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the kernel refuses the write."""
    text = b"".join(b"INFO 02-18 02:11:52 [core.py:58] line %07d\n" % number for number in range(60_000))
    log = tmp_path / ("server.log.gz" if packed else "server.log")
    log.write_bytes(gzip.compress(text) if packed else text)
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from kit.cli import main; "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000)); sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "pull", "local", str(log), "-o", str(tmp_path / "run")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 3 and "did not come whole: the disk is full" in ran.stderr and "Traceback" not in ran.stderr
    copy = (tmp_path / "run/raw/server.log").read_bytes()
    assert text.startswith(copy) and len(copy) == 600_000
    assert pull("local", str(log), out=tmp_path / "run", **QUIET) and (tmp_path / "run/raw/server.log").read_bytes() == text
