"""One interface to every host: this machine, and a real sshd on the loopback by both ways."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from kit.capture.hosts.host import Host
from kit.capture.hosts.targets import open_host
from kit.capture.processes import ports_of


@pytest.fixture(params=["local", "paramiko", "openssh"])
def host(request, sshd) -> Host:
    """The same tests for this machine and both ways over SSH."""
    target = "local" if request.param == "local" else sshd.target
    transport = "paramiko" if request.param == "local" else request.param
    with open_host(target, **sshd.options(transport=transport)) as host:
        yield host


class TestEveryHost:
    def test_it_runs_a_program(self, host):
        ran = host.run(["sh", "-c", 'echo "$1"; echo no >&2; exit 3', "sh", "a  b$HOME'"], 5)
        assert (ran.text, ran.errors, ran.code, ran.timed_out) == ("a  b$HOME'\n", "no\n", 3, False)

    def test_what_it_printed_is_scrubbed(self, host):
        assert host.run(["echo", "--token", "abc"], 5).text == "--token [redacted]\n"

    def test_a_time_limit_ends_it(self, host):
        ran = host.run(["sh", "-c", "echo begun; exec sleep 60"], 1)
        assert ran.timed_out and ran.text == "begun\n"

    def test_it_reads_small_files(self, host, tmp_path):
        path = tmp_path / "a 'b' $c"
        path.write_bytes(bytes(range(256)) * 1000)
        assert host.read_file(str(path)) == path.read_bytes()
        assert host.read_file(str(path), 10) == path.read_bytes()[:10]
        assert host.read_file("/proc/self/comm")

    def test_reasons_are_those_of_open(self, host, tmp_path):
        for act in (host.read_file, host.open_file):
            with pytest.raises(FileNotFoundError):
                act(str(tmp_path / "none"))
            with pytest.raises(IsADirectoryError):
                act(str(tmp_path))
        assert host.run(["true"], 5).code == 0

    def test_a_deleted_file_stays_readable(self, host, tmp_path):
        path = tmp_path / "server log"
        path.write_bytes(b"0123456789" * 1000)
        file = host.open_file(str(path))
        before = file.stat()
        assert (before.size, before.links, before.inode) == (10_000, 1, os.stat(path).st_ino)
        assert file.stat_path() == before
        path.unlink()
        assert file.stat().links == 0 and file.stat_path() is None
        assert file.read(4095, 20) == (b"0123456789" * 3)[5:25]
        assert file.read(10_000, 20) == file.read(20_000, 20) == b""
        assert b"".join(file.stream(7, 5)) == b"78901"
        assert b"".join(file.stream(0, 1 << 40)) == b"0123456789" * 1000
        file.close()

    def test_a_growing_file_is_read_on(self, host, tmp_path):
        path = tmp_path / "log"
        path.write_bytes(b"one\n")
        file = host.open_file(str(path))
        assert file.read(0, 100) == b"one\n"
        with open(path, "ab") as more:
            more.write(b"two\n")
        assert file.read(4, 100) == b"two\n"
        path.rename(tmp_path / "log.1")
        path.write_bytes(b"three\n")
        assert file.stat_path().inode != file.stat().inode
        file.close()

    def test_many_files_are_held(self, host, tmp_path):
        paths = [tmp_path / f"rank{number}.log" for number in range(17)]
        for path in paths:
            path.write_text(path.name)
        files = [host.open_file(str(path)) for path in paths]
        assert [file.read(0, 100).decode() for file in files] == [path.name for path in paths]
        for file in files[::2]:
            file.close()
        again = host.open_file(str(paths[0]))
        assert again.read(4, 2) == b"0."
        for file in [*files, again]:
            file.close()

    def test_a_shell_takes_input(self, host):
        stream = host.start_shell("echo ready; read word; printf '%s!' \"$word\"\n")
        assert stream.read(10) == b"ready\n"
        stream.send(b"hello\n")
        stream.end_input()
        out = b""
        while piece := stream.read(10):
            out += piece
        assert out == b"hello!" and stream.wait(10) == 0
        stream.stop()

    def test_python_is_started(self, host):
        stream = host.start_python("import sys\nprint(sys.version_info[0])\nsys.stderr.write('oh')\nsys.exit(4)\n")
        assert stream.read(10).strip() == b"3"
        assert stream.wait(10) == 4
        stream.stop()

    def test_nothing_comes_in_time(self, host):
        stream = host.start_shell("exec sleep 60\n")
        with pytest.raises(TimeoutError):
            stream.read(0.3)
        stream.stop()

    def test_abilities(self, host):
        found, here = host.abilities, os.uname()
        assert (found.uid, found.kernel, found.machine) == (os.getuid(), here.release, here.machine)
        assert host.has("awk") and found.python and 0 < found.boot_ns < time.time_ns()
        assert abs(found.offset_ns) <= found.offset_error_ns + 5_000_000
        assert found.utc_offset_s == -time.timezone


def test_the_port_of_a_store_is_no_servers() -> None:
    words = ["torchrun", "--nnodes", "2", "--master-port", "29501", "--rdzv-endpoint=10.0.0.1:29502", "train.py"]
    known = SimpleNamespace(listeners=lambda pid: {29501: 7, 29502: 7, 8000: 7, 9000: 8}, commands=lambda pids: {7: words})
    assert ports_of(SimpleNamespace(processes=known), 7) == [8000]
