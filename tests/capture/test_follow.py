"""A log is copied byte by byte whatever happens to it: rotated, truncated, deleted, out of reach for a while."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.capture.hosts.host import HostFile, HostLost
from kit.capture.hosts.targets import open_host
from kit.capture.hosts.this_machine import LocalFile, LocalHost
from kit.capture.logs import follow
from kit.capture.logs.follow import LogFollower
from kit.capture.manifest import Manifest, make_folder
from kit.capture.waiting import Clock

PATIENCE_S = 120.0


class FragileFile(LocalFile):
    """A file of a host whose connection can be cut: one that was open then stays lost, as over SSH."""

    def __init__(self, path: str, host: FragileHost):
        super().__init__(path)
        self.host, self.connection = host, host.connection

    def _reach(self) -> None:
        if self.host.gone or self.connection != self.host.connection:
            raise HostLost("the host does not answer", "the connection was cut", "connect again")

    def stat(self):
        self._reach()
        return super().stat()

    def stat_path(self):
        self._reach()
        return super().stat_path()

    def read(self, offset: int, most: int) -> bytes:
        self._reach()
        return super().read(offset, most)


class FragileHost(LocalHost):
    def __init__(self) -> None:
        super().__init__()
        self.gone, self.connection = False, 0

    def cut(self) -> None:
        self.gone, self.connection = True, self.connection + 1

    def connect(self) -> None:
        super().connect()
        self.gone = False

    def open_file(self, path: str) -> HostFile:
        if self.gone:
            raise HostLost("the host does not answer", "the connection was cut", "connect again")
        return FragileFile(path, self)


@pytest.fixture
def manifest(tmp_path) -> Manifest:
    make_folder(tmp_path / "run")
    return Manifest(tmp_path / "run", "0")


@pytest.fixture
def log(tmp_path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "server.log"


@contextmanager
def following(manifest: Manifest, log: Path, host: LocalHost | None = None, **more) -> Iterator[LogFollower]:
    follower = LogFollower(manifest, host or LocalHost(), more.pop("opened", log), str(log), log.name, clock=Clock(10), **more)
    follower.start()
    try:
        yield follower
    finally:
        follower.finish()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def copied(manifest: Manifest, name: str = "server.log") -> bytes:
    path = manifest.folder / "raw" / name
    return path.read_bytes() if path.exists() else b""


def entries(manifest: Manifest) -> dict[str, dict]:
    data = json.loads((manifest.folder / "run.json").read_text(encoding="utf-8"))
    return {entry["file"].removeprefix("raw/"): entry for entry in data["captures"]}


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def lines(first: int, count: int) -> bytes:
    return b"".join(b"2026-02-18 02:11:52 line %07d of the log\n" % number for number in range(first, first + count))


@pytest.mark.parametrize("grows", [True, False])
def test_when_lines_came_last_is_kept_for_a_log_without_times(grows: bool, manifest, log):
    log.write_bytes(b"step 1\n")
    with following(manifest, log):
        until(lambda: copied(manifest) == b"step 1\n")
        if grows:
            append(log, b"step 2\n")
            until(lambda: copied(manifest) == b"step 1\nstep 2\n")
    assert ("grew_at" in entries(manifest)["server.log"]) == grows


def test_renamed_log_is_copied_to_its_end_and_the_new_file_too(manifest, log):
    log.write_bytes(lines(0, 100))
    with following(manifest, log), open(log, "ab", buffering=0) as writer:
        until(lambda: copied(manifest) == lines(0, 100))
        log.rename(f"{log}.1")
        log.write_bytes(lines(500, 10))
        until(lambda: copied(manifest, "server.log.path.log") == lines(500, 10))
        writer.write(lines(100, 10) + b"no end")  # the process has not opened the new one: it writes on into the old
        append(log, lines(510, 10))
    assert copied(manifest) == lines(0, 110) + b"no end"
    assert copied(manifest, "server.log.path.log") == lines(500, 20)
    said = entries(manifest)
    assert "was moved" in said["server.log"]["note"] and "followed too" in said["server.log"]["note"]
    assert not said["server.log"]["at_path"] and not said["server.log"]["deleted"] and said["server.log"]["whole"]
    assert said["server.log.path.log"]["at_path"] and said["server.log.path.log"]["whole"]


def test_a_file_that_comes_to_an_empty_path_is_followed_too(manifest, log):
    log.write_bytes(lines(0, 10))
    with following(manifest, log):
        until(lambda: copied(manifest) == lines(0, 10))
        log.rename(f"{log}.1")
        until(lambda: "now empty" in (entries(manifest)["server.log"].get("note") or ""))
        log.write_bytes(lines(500, 10))
        until(lambda: copied(manifest, "server.log.path.log") == lines(500, 10))
    assert "came to the path later is followed too" in entries(manifest)["server.log"]["note"]


def test_many_rotations_lose_nothing(manifest, log):
    log.write_bytes(lines(0, 5))
    rounds = follow.MOST_OPEN + 2
    names = ["server.log", "server.log.path.log", *(f"server.log.path{n}.log" for n in range(2, rounds))]
    with following(manifest, log):
        for number in range(rounds):
            until(lambda number=number: copied(manifest, names[number]) == lines(number * 10, 5))
            append(log, lines(number * 10 + 5, 5))
            log.rename(f"{log}.{rounds - number}")
            if number < rounds - 1:
                log.write_bytes(lines(number * 10 + 10, 5))
    assert b"".join(copied(manifest, name) for name in names) == lines(0, rounds * 10)
    assert "not followed beyond this" in entries(manifest)["server.log"]["note"]


def test_deleted_log_goes_on_through_its_open_file(manifest, log):
    log.write_bytes(lines(0, 10))
    with following(manifest, log), open(log, "ab", buffering=0) as writer:
        until(lambda: copied(manifest) == lines(0, 10))
        log.unlink()
        writer.write(lines(10, 10))
        until(lambda: copied(manifest) == lines(0, 20))
        until(lambda: entries(manifest)["server.log"].get("deleted"))
    assert "was deleted" in entries(manifest)["server.log"]["note"]
    assert "the path is now empty" in entries(manifest)["server.log"]["note"]


def test_file_deleted_before_is_followed_through_the_descriptor_of_its_writer(manifest, log):
    with open(log, "wb", buffering=0) as writer:
        writer.write(lines(0, 3))
        log.unlink()
        log.write_bytes(b"another file\n")
        opened = f"/proc/{os.getpid()}/fd/{writer.fileno()}"
        with following(manifest, log, opened=opened):
            writer.write(lines(3, 3))
    assert copied(manifest) == lines(0, 6)
    assert entries(manifest)["server.log"]["deleted"] and len(entries(manifest)) == 1


def test_descriptor_of_a_file_that_is_at_its_path_is_watched_there(manifest, log):
    with open(log, "wb", buffering=0) as writer:
        writer.write(lines(0, 3))
        with following(manifest, log, opened=f"/proc/{os.getpid()}/fd/{writer.fileno()}"):
            until(lambda: copied(manifest) == lines(0, 3))
            log.rename(f"{log}.1")
            writer.write(lines(3, 3))
            log.write_bytes(lines(9, 1))
    assert copied(manifest) == lines(0, 6) and copied(manifest, "server.log.path.log") == lines(9, 1)


def test_truncated_log_is_read_again_and_what_is_lost_is_said(manifest, log):
    log.write_bytes(lines(0, 10))
    with following(manifest, log):
        until(lambda: copied(manifest) == lines(0, 10))
        log.write_bytes(lines(20, 5))
    assert copied(manifest) == lines(0, 10) + lines(20, 5)
    entry = entries(manifest)["server.log"]
    assert "truncated" in entry["note"] and "is missing" in entry["note"] and not entry["whole"]


def test_log_that_was_truncated_and_has_grown_beyond_is_noticed(manifest, log):
    log.write_bytes(lines(0, 10))
    with following(manifest, log):
        until(lambda: copied(manifest) == lines(0, 10))
        log.write_bytes(lines(20, 50))
    assert copied(manifest) == lines(0, 10) + lines(20, 50)


def test_log_that_is_written_anew_while_it_is_read_loses_nothing(manifest, log):
    log.write_bytes(lines(0, 10))
    follower = LogFollower(manifest, LocalHost(), log, str(log), log.name)  # not started: its turns are ours
    read = follower._parts[0].file.read

    def and_then_anew(offset: int, most: int) -> bytes:
        block = read(offset, most)
        if block and log.stat().st_size == len(lines(0, 10)):
            log.write_bytes(lines(20, 50))
        return block

    follower._parts[0].file.read = and_then_anew
    follower._look()
    follower.finish()
    assert copied(manifest) == lines(0, 10) + lines(20, 50)


@pytest.mark.parametrize("read_all", [True, False])
def test_copytruncate_takes_what_was_not_read_from_the_copy(manifest, log, read_all):
    log.write_bytes(lines(0, 200))
    follower = LogFollower(manifest, LocalHost(), log, str(log), log.name)  # not started: its turns are ours
    follower._look()
    append(log, lines(200, 50))
    if read_all:
        follower._look()
    shutil.copy(log, f"{log}.1")
    (log.parent / "server.log.0").write_bytes(lines(700, 300))  # newer, of the same name, and not the copy
    os.utime(log.parent / "server.log.0", (1, 1))
    os.truncate(log, 0)
    append(log, lines(250, 5))
    follower._look()
    append(log, lines(255, 5))
    follower.finish()
    assert copied(manifest) == lines(0, 260)
    entry = entries(manifest)["server.log"]
    assert entry["whole"] and f"{log}.1" in entry["note"]


def test_copytruncate_twice_between_two_looks_takes_both_generations(manifest, log):
    log.write_bytes(lines(0, 20))
    follower = LogFollower(manifest, LocalHost(), log, str(log), log.name)
    follower._look()
    append(log, lines(20, 20))
    shutil.copy(log, f"{log}.2")
    os.utime(f"{log}.2", (1, 1))
    log.write_bytes(lines(40, 20))
    shutil.copy(log, f"{log}.1")
    log.write_bytes(lines(60, 3))
    follower.finish()
    assert copied(manifest) == lines(0, 63)


def test_zeros_of_a_writer_that_does_not_append_are_left_out(manifest, log):
    with open(log, "wb", buffering=0) as writer:
        writer.write(lines(0, 10))
        with following(manifest, log):
            until(lambda: copied(manifest) == lines(0, 10))
            os.truncate(log, 0)
            until(lambda: "truncated" in (entries(manifest)["server.log"]["note"] or ""))
            writer.write(lines(10, 10))  # its place is where it was: zeros before it
    assert copied(manifest) == lines(0, 20)
    assert "zero bytes" in entries(manifest)["server.log"]["note"]


def test_file_that_comes_later_is_followed_from_its_begin(manifest, log):
    with following(manifest, log, may_come=True):
        time.sleep(follow.POLL_S / 5)
        log.write_bytes(lines(0, 10))
        until(lambda: copied(manifest) == lines(0, 10))
        append(log, lines(10, 2))
    assert copied(manifest) == lines(0, 12) and entries(manifest)["server.log"]["at_path"]


def test_file_that_never_comes_is_said(manifest, log):
    with pytest.raises(FileNotFoundError):
        LogFollower(manifest, LocalHost(), log, str(log), log.name)
    with following(manifest, log, may_come=True):
        pass
    assert manifest.data["missing"][0]["what"] == f"the log {log}"
    assert not entries(manifest)["server.log"]["whole"]


def test_break_goes_on_where_it_was(manifest, log):
    host = FragileHost()
    log.write_bytes(lines(0, 300))
    with following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == lines(0, 300))
        host.cut()
        append(log, lines(300, 300) + b"par")
        until(lambda: follower.lost)
        host.connect()
        append(log, b"tial\n")
        until(lambda: copied(manifest).endswith(b"partial\n"))
    assert copied(manifest) == lines(0, 600) + b"partial\n"
    entry = entries(manifest)["server.log"]
    assert entry["whole"] and "connection was lost" in entry["note"]


def test_rotations_during_a_break_lose_nothing(manifest, log):
    host = FragileHost()
    log.write_bytes(lines(0, 10))
    with following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == lines(0, 10))
        host.cut()
        append(log, lines(10, 10))
        log.rename(f"{log}.2")
        os.utime(f"{log}.2", (1, 1))
        (log.parent / "server.log.1").write_bytes(lines(20, 10))
        log.write_bytes(lines(30, 10))
        until(lambda: follower.lost)
        host.connect()
        until(lambda: not follower.lost)
    names = ("server.log", "server.log.path.log", "server.log.path2.log")
    assert b"".join(copied(manifest, name) for name in names) == lines(0, 40)
    assert all(entries(manifest)[name]["whole"] for name in names)


def test_copytruncate_during_a_break_loses_nothing(manifest, log):
    host = FragileHost()
    log.write_bytes(lines(0, 200))
    with following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == lines(0, 200))
        host.cut()
        append(log, lines(200, 10))
        shutil.copy(log, f"{log}.1")
        os.truncate(log, 0)
        append(log, lines(210, 500))
        until(lambda: follower.lost)
        host.connect()
        until(lambda: not follower.lost)
    assert copied(manifest) + copied(manifest, "server.log.path.log") == lines(0, 710)
    assert all(entry["whole"] for entry in entries(manifest).values())


def test_inode_of_another_file_is_no_proof(manifest, log):
    """A deleted log's inode is given to the next file: what was read last must stand there too."""
    host = FragileHost()
    log.write_bytes(lines(0, 10))
    follower = LogFollower(manifest, host, log, str(log), log.name)
    follower._look()
    host.cut()
    log.write_bytes(lines(500, 50))  # same inode, other content, larger
    follower._look()
    host.connect()
    follower.finish()
    assert copied(manifest) == lines(0, 10) + lines(500, 50)
    assert "is missing" in entries(manifest)["server.log"]["note"]


def test_log_that_is_gone_after_a_break_is_said_and_the_new_one_followed(manifest, log):
    host = FragileHost()
    log.write_bytes(lines(0, 10))
    keep = open(log, "rb")  # so that the new file gets another inode
    with following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == lines(0, 10))
        host.cut()
        log.unlink()
        log.write_bytes(lines(50, 10))
        until(lambda: follower.lost)
        host.connect()
        until(lambda: not follower.lost)
    keep.close()
    said = entries(manifest)
    assert copied(manifest) == lines(0, 10) and not said["server.log"]["whole"] and "missing" in said["server.log"]["note"]
    assert copied(manifest, "server.log.path.log") == lines(50, 10)


def test_host_that_does_not_come_back_is_said(manifest, log):
    host = FragileHost()
    log.write_bytes(lines(0, 10))
    with following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == lines(0, 10))
        host.cut()
        until(lambda: follower.lost)
    entry = entries(manifest)["server.log"]
    assert not entry["whole"] and "connection to the host was lost" in entry["note"] and entry["sha256"]


def test_large_log_keeps_its_head_and_its_tail(manifest, log, monkeypatch):
    monkeypatch.setattr(follow, "MOST_BYTES", 3 << 20)
    monkeypatch.setattr(follow, "HEAD_BYTES", 1 << 20)
    whole = lines(0, 200_000)
    log.write_bytes(whole)
    with following(manifest, log):
        pass
    copy, note = copied(manifest), entries(manifest)["server.log"]["note"]
    assert copy.startswith(whole[: 1 << 20]) and copy.endswith(whole[-(2 << 20) :]) and "left out" in note
    assert len(copy) == (3 << 20) + 1 and not entries(manifest)["server.log"]["whole"]


def test_secrets_frames_and_long_lines(manifest, log):
    frames = b"\rLoading: 50%\rLoading: 100%\n"
    log.write_bytes(frames)
    with following(manifest, log):
        until(lambda: copied(manifest) == frames)
        append(log, b"HF_TO")
        time.sleep(follow.POLL_S / 5)
        append(log, b"KEN=abcdef\n")
        append(log, b"x" * (3 << 20))
        until(lambda: len(copied(manifest)) > 2 << 20)
    assert copied(manifest) == frames + b"HF_TOKEN=[redacted]\n" + b"x" * (3 << 20)


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_sshd_that_is_killed_and_comes_back_loses_and_repeats_nothing(manifest, log, make_sshd, transport):
    server = make_sshd()
    whole = lines(0, 30_000)
    log.write_bytes(whole)
    with open_host(server.target, **server.options(transport=transport)) as host, following(manifest, log, host) as follower:
        until(lambda: copied(manifest) == whole)
        server.stop()
        until(lambda: follower.lost)
        append(log, lines(30_000, 5000) + b"HF_TOKEN=")
        server.start()
        host.connect()
        append(log, b"abcdef\n")
        until(lambda: not follower.lost)
        until(lambda: copied(manifest).endswith(b"[redacted]\n"))
        server.stop()
        until(lambda: follower.lost)
        append(log, lines(35_000, 10))
        log.rename(f"{log}.1")
        log.write_bytes(lines(40_000, 10))
        server.start()
        host.connect()
        until(lambda: copied(manifest, "server.log.path.log") == lines(40_000, 10))
    assert copied(manifest) == lines(0, 35_000) + b"HF_TOKEN=[redacted]\n" + lines(35_000, 10)
    assert all(entry["whole"] for entry in entries(manifest).values())


def test_log_on_a_remote_host_that_is_deleted_or_truncated(manifest, log, sshd):
    log.write_bytes(lines(0, 200))
    with open_host(sshd.target, **sshd.options()) as host, following(manifest, log, host):
        until(lambda: copied(manifest) == lines(0, 200))
        shutil.copy(log, f"{log}.1")
        append(Path(f"{log}.1"), lines(200, 3))
        os.truncate(log, 0)
        append(log, lines(203, 3))
        until(lambda: copied(manifest) == lines(0, 206))
        with open(log, "ab", buffering=0) as writer:
            log.unlink()
            writer.write(lines(206, 3))
            until(lambda: copied(manifest) == lines(0, 209))
    assert entries(manifest)["server.log"]["deleted"]
