"""Run folders from anybody: a manifest of any shape, links and pipes that lead elsewhere, a cache that is damaged or foreign."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kit
from kit import folder as folders
from kit import store
from kit.analyse.knowledge.judged_run import note_solved
from kit.capture.hosts.this_machine import LocalFile
from kit.capture.manifest import Manifest, make_folder
from kit.errors import EvidenceError, UsageError
from kit.frames import FRAMES
from kit.run_json import LARGEST_ID, SCHEMA, checked
from tests.test_run import LINE, recorded

DEEP = "[" * 5000 + "]" * 5000
WRONG = [
    None,
    True,
    -1,
    3,
    1.5,
    10**30,
    float("nan"),
    float("inf"),
    "x",
    "",
    "\ud800",
    "../x",
    "/etc/passwd",
    [],
    [1],
    {},
    {"a": 1},
]
"""Values that somebody may put in place of any other."""


def changed(folder: Path, **values: object) -> Path:
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**manifest, **values}))
    return folder


def places(shape: object = SCHEMA, at: tuple = ()) -> list[tuple]:
    """Paths of all keys of the schema; an entry of a list is 0."""
    if isinstance(shape, list):
        return [(*at, 0), *places(shape[0], (*at, 0))]
    if not isinstance(shape, dict):
        return []
    return [place for key, one in shape.items() for place in ((*at, key), *places(one, (*at, key)))]


def put(manifest: dict, place: tuple, value: object) -> dict:
    at: object = manifest
    for key, after in zip(place, [*place[1:], None], strict=True):
        new = value if after is None else [] if after == 0 else {}
        if isinstance(at, list):
            at[:] = at or [new]
            at[0] = at[0] if after is not None and isinstance(at[0], (dict, list)) else new
        elif after is None or not isinstance(at.get(key), (dict, list)):
            at[key] = new
        at = at[0] if isinstance(at, list) else at[key]
    return manifest


GOOD = {
    "format": "stallkit-run",
    "version": 1,
    "launch": {"pid": 7, "command": ["vllm", "serve"], "started_at": "2026-02-18T00:28:00Z"},
    "captures": [{"file": "raw/server.log", "kind": "log", "captured_at": "2026-02-18T00:30:00Z"}],
    "missing": [{"what": "stacks", "why": "no py-spy", "do": "install it"}],
    "gaps": [{"from": "2026-02-18T00:28:10Z", "to": "2026-02-18T00:28:20Z", "why": "late"}],
}


def test_a_manifest_as_it_is_written_passes_whole(data: Path) -> None:
    for path in data.glob("*/run.json"):
        manifest = json.loads(path.read_text())
        assert checked(manifest) == (manifest, [])


@pytest.mark.parametrize("place", places(), ids=lambda place: ".".join(map(str, place)))
def test_any_value_in_any_place_passes_or_is_named(place: tuple) -> None:
    """What is left is what the rest of the kit relies on; a value that was left out is named by its key."""
    for value in WRONG:
        found, notes = checked(put(json.loads(json.dumps(GOOD)), place, value))
        again, silent = checked(found)
        assert again == found and (silent == [] or place == ("version",))
        json.dumps(found).encode()
        if notes:
            assert any(str(place[0]) in note.reason and ("left out" in note.reason or value == 3) for note in notes)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"captures": 3}, "captures is not a list, and was left out"),
        ({"captures": [[1]]}, "captures[0] is not a record, and was left out"),
        ({"captures": [{}]}, "captures[0] has no file, and was left out"),
        ({"captures": [{"file": "raw/server.log", "pid": "x"}]}, f"captures[0].pid is not a number from 0 to {LARGEST_ID}"),
        ({"captures": [{"file": "/etc/passwd"}]}, "captures[0].file is not the path of a file inside the run"),
        ({"captures": [{"file": "raw/server.log", "kind": ["log"]}]}, "captures[0].kind is not a text"),
        ({"utc_offset_s": 10**12}, "utc_offset_s is not the seconds of a time zone"),
        ({"ended_at": "9999-12-31T23:59:59Z"}, "ended_at is not a time"),
        ({"launch": [1]}, "launch is not a record"),
        ({"launch": {"started_at": "x"}}, "launch.started_at is not a time"),
        ({"hosts": [{"name": "../B"}]}, "hosts[0].name is not the name of a folder inside the run"),
        ({"gaps": [{"from": "x", "to": "y"}]}, "gaps[0].from is not a time"),
        ({"missing": ["x"]}, "missing[0] is not a record"),
        ({"ledger": [{}]}, "ledger[0] has no because and no leading"),
        ({"version": 10**6}, "version 1000000 is newer than this kit knows"),
    ],
)
def test_the_sentence_names_key_and_what_is_wrong(values: dict, said: str, tmp_path: Path) -> None:
    run = kit.open_run(changed(recorded(tmp_path / "run"), **values))
    assert any(f"run.json {said}" in one for one in run.unread()), run.unread()
    assert len(run.frame("log")) == 3 and run.frames() is not None
    assert kit.verdict(run).phase == "weights"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"[]", b"{", DEEP.encode(), b'{"format": "stallkit-run", "captures": ' + DEEP.encode() + b"}"],
    ids=["empty", "binary", "list", "cut", "deep", "deep within"],
)
def test_a_run_whose_manifest_cannot_be_read_opens_by_its_raw_files(content: bytes, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    (folder / "run.json").write_bytes(content)
    run = kit.open_run(folder)
    assert len(run.frame("log")) == 3 and kit.verdict(run).phase == "weights"
    assert content == b"[]" or any(said.startswith("run.json is no readable JSON") for said in run.unread())


def test_a_manifest_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.run_json.MOST_BYTES", 1000)
    folder = changed(recorded(tmp_path / "run"), note="x" * 1000)
    assert any("larger than 1,000 bytes" in said for said in kit.open_run(folder).unread())


# nothing leads outside


def outside(tmp_path: Path) -> Path:
    other = recorded(tmp_path / "B")
    (other / "raw" / "secret.log").write_text(LINE * 7)
    return other


def test_a_host_outside_the_run_is_not_read(tmp_path: Path) -> None:
    outside(tmp_path)
    for name in ("../B", "..", ".", "/etc", "a/../../B", ""):
        run = kit.open_run(changed(recorded(tmp_path / f"A{len(name)}{name[:1].strip('/')}"), hosts=[{"name": name}]))
        assert {capture.path.parent.parent for capture in run.captures} == {run.path}


@pytest.mark.parametrize("what", ["a file", "raw/", "a host's folder", "run.json", "a host's run.json", "an unlisted file"])
def test_a_link_out_of_the_run_is_not_followed(what: str, tmp_path: Path) -> None:
    other, folder = outside(tmp_path), recorded(tmp_path / "A")
    if what == "a file":
        (folder / "raw/server.log").unlink()
        (folder / "raw/server.log").symlink_to(other / "raw/secret.log")
    elif what == "raw/":
        shutil.rmtree(folder / "raw")
        (folder / "raw").symlink_to(other / "raw")
    elif what == "run.json":
        (folder / "run.json").unlink()
        (folder / "run.json").symlink_to(other / "run.json")
    elif what == "an unlisted file":
        (folder / "raw/b.log").symlink_to(other / "raw/secret.log")
    else:
        changed(folder, hosts=[{"name": "h"}])
        if what == "a host's folder":
            (folder / "h").symlink_to(other)
        else:
            (folder / "h").mkdir()
            (folder / "h/run.json").symlink_to(other / "run.json")
    run = kit.open_run(folder)
    assert sum(len(run.rows(name)) for name in ("log",)) <= 3
    assert not [capture.path for capture in run.captures if other in capture.path.resolve().parents]
    told = [*run.unread(), *(f"{one['what']}: {one['why']}" for one in run.missing)]
    assert any("leads out of the folder" in said for said in told), told


def test_what_is_written_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    (tmp_path / "log.csv").symlink_to("mine")
    folders.write_whole(tmp_path / "log.csv", "rows", shared=True)
    assert [(tmp_path / name).read_text() for name in ("mine", "log.csv")] == ["keep", "rows"]


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "server.log")
    file = LocalFile(str(tmp_path / "server.log"))
    with pytest.raises(OSError):
        file.read(0, 1)
    file.close()


def test_a_link_within_the_run_is_followed(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "A")
    (folder / "raw/server.log").rename(folder / "kept.log")
    (folder / "raw/server.log").symlink_to("../kept.log")
    assert len(kit.open_run(folder).frame("log")) == 3


def special(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as one:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket may have 107 bytes
            one.bind(path.name)
            os.chdir(here)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to("/proc/kmsg")


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device", "a file of the kernel"])
def test_what_is_no_file_is_not_opened(kind: str, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "A")
    special(folder / "raw/server.log", kind)
    special(folder / "raw/other.log", kind)
    run = kit.open_run(folder)
    assert not run.captures and sorted(said.split()[0] for said in run.unread()) == ["raw/other.log", "raw/server.log"]
    loose = tmp_path / "loose"
    loose.mkdir()
    special(loose / "server.log", kind)
    (loose / "a.log").write_text(LINE)
    run = kit.open_run(loose)
    assert [capture.file for capture in run.captures] == ["a.log"] and "was not read" in run.unread()[0]
    with pytest.raises(EvidenceError, match="standard input"):
        kit.open_run(loose / "server.log")


# the cache


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose frames lie in the Parquet cache."""
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 0)
    folder = recorded(tmp_path / "run", lines=50)
    assert len(kit.open_run(folder).frame("log")) == 50
    return folder


def parquet(folder: Path) -> Path:
    [file] = folder.glob("frames/*/log.parquet")
    return file


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 8] ^= 0xFF
    path.write_bytes(data)


def foreign(path: Path) -> None:
    FRAMES["gpus"].build([{"gpu": 1}] * 50).to_parquet(path)


def fewer(path: Path) -> None:
    import pandas as pd

    pd.read_parquet(path).iloc[:20].to_parquet(path, index=False)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "one byte of a page": flip,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not Parquet"),
    "another frame": foreign,
    "fewer rows": fewer,
    "a folder": folder_instead,
    "gone": lambda path: path.unlink(),
    "no report": lambda path: (path.parent / "report.json").unlink(),
    "report of another shape": lambda path: (path.parent / "report.json").write_text('{"rows": [], "report": 3}'),
    "report of another version": lambda path: (path.parent / "report.json").write_text('{"lines": 3}'),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_cache_is_made_again(how: str, cached: Path) -> None:
    DAMAGE[how](parquet(cached))
    for _ in range(2):
        run = kit.open_run(cached)
        assert len(run.frame("log")) == 50 and set(run.frame("log")["milestone"]) == {"weights_begin"}
        assert run.frames().set_index("frame").loc["log", "rows"] == 50
    assert parquet(cached).is_file() and store.sound(parquet(cached).parent) is not None


def test_a_cache_that_leads_elsewhere_or_cannot_be_made_is_left_alone(cached: Path, tmp_path: Path) -> None:
    shutil.rmtree(cached / "frames")
    other = tmp_path / "home"
    other.mkdir()
    for make in (lambda: (cached / "frames").symlink_to(other), lambda: (cached / "frames").write_text("mine")):
        make()
        assert len(kit.open_run(cached).frame("log")) == 50 and not list(other.iterdir())
        (cached / "frames").unlink()


def test_nothing_is_left_of_a_writer_that_was_killed(cached: Path) -> None:
    shutil.rmtree(cached / "frames")
    code = f"""
import os, signal, kit
from kit import store
store.CACHE_FROM_BYTES = 0
build = store.Frame.build
store.Frame.build = lambda frame, rows: os.kill(os.getpid(), signal.SIGKILL) if rows else build(frame, rows)
kit.open_run({str(cached)!r}).frame("log")
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    [left] = (cached / "frames").iterdir()
    os.utime(left, (time.time() - 10,) * 2)
    assert len(kit.open_run(cached).frame("log")) == 50
    assert [path.name[0] for path in (cached / "frames").iterdir()] != ["."] and not left.exists()


def test_temporary_files_of_a_recorder_that_was_killed_go_and_those_of_one_that_lives_stay(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder)
    manifest = Manifest(folder, "0")
    temporary = folder / f".run.json.{os.getpid()}.new"
    temporary.write_text("half")
    (folder / "raw/server.log").write_text(LINE)
    kit.open_run(folder)
    assert temporary.exists() and (folder / folders.RESERVE).exists()
    manifest.let_go()
    os.utime(temporary, (1, 1))
    kit.open_run(folder)
    assert not temporary.exists() and not (folder / folders.RESERVE).exists()


# one writer, its owner alone


def test_a_run_has_one_writer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder)
    manifest = Manifest(folder, "0")
    with pytest.raises(UsageError, match="another kit writes to it"):
        Manifest(folder, "0")
    (folder / "raw/server.log").write_text(LINE)
    kept = note_solved(kit.open_run(folder), {"class": "device_hang"}, tmp_path)
    assert kept == tmp_path / "solved.json"  # not into a manifest that is being written
    manifest.finish(manifest.now_ns())
    manifest.let_go()
    assert note_solved(kit.open_run(folder), {"class": "device_hang"}, tmp_path) == folder / "run.json"


def test_only_the_owner_may_read_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CACHE_FROM_BYTES", 0)
    before = os.umask(0)
    try:
        folder = tmp_path / "run"
        folder.mkdir(mode=0o777)
        make_folder(folder)
        manifest = Manifest(folder, "0")
        manifest.save("server.log", "log", "x", LINE)
        manifest.finish(manifest.now_ns())
        manifest.let_go()
        assert len(kit.open_run(folder).frame("log")) == 1
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600} and len(modes) > 6


def test_names_of_a_host_that_no_disk_should_bear(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder)
    manifest = Manifest(folder, "0")
    odd = ["a\nb.log", "a\x1bb.log", "a_b.log", "../../x", "..", "\udcff.log", "x" * 300, "\u202egol.a"]
    for name in odd:
        manifest.save(name, "log", f"/srv/{name}", LINE)
    manifest.finish(manifest.now_ns())
    manifest.let_go()
    run = kit.open_run(folder)
    assert len(run.captures) == len(odd) == len(list((folder / "raw").iterdir())) and len(run.frame("log")) == len(odd)
    assert any(capture.source == "/srv/\\xff.log" for capture in run.captures)
