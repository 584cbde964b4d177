"""Files of a host fetched into a run: byte for byte, scrubbed, and on after a break where it was."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
from pathlib import Path

import pytest

import kit
from kit.capture.hosts.host import HostLost
from kit.capture.logs import pull as pulling
from kit.capture.logs.pull import pull
from kit.cli import main
from kit.errors import EvidenceError, UsageError

QUIET = {"progress": lambda text: None}


def lines(first: int, count: int) -> bytes:
    return b"".join(b"INFO 02-18 02:11:52 [core.py:58] line %07d of the log\n" % n for n in range(first, first + count))


def manifest_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def entries(run: Path) -> dict[str, dict]:
    found = {one["file"].removeprefix("raw/"): one for one in manifest_of(run)["captures"]}
    for name, one in found.items():
        data = (run / "raw" / name).read_bytes()
        assert one["size"] == len(data) and one["sha256"] == hashlib.sha256(data).hexdigest()
    return found


@pytest.fixture
def logs(tmp_path) -> Path:
    folder = tmp_path / "my logs"
    (folder / "node1").mkdir(parents=True)
    (folder / "server.log").write_bytes(lines(0, 100) + b"HF_TOKEN=hf_aBcDeFgHiJkLmNoP\nno end")
    (folder / "server.log.1").write_bytes(lines(500, 10))
    (folder / "server.log.2.gz").write_bytes(gzip.compress(lines(600, 5)) + gzip.compress(b"--api-key s3cr3tvalue\n"))
    (folder / "node1" / "server.log").write_bytes(lines(700, 10))
    (folder / "nccl_trace_rank0").write_bytes(pickle.dumps({"entries": [bytes(range(256)), "password=hunter2"]}))
    return folder


@pytest.mark.parametrize("transport", [None, "paramiko", "openssh"])
def test_folder_is_pulled_and_opens_as_a_run(logs, tmp_path, sshd, transport):
    how = sshd.options(transport=transport) if transport else {}
    run = pull(sshd.target if transport else "local", str(logs), out=tmp_path / "run", **how, **QUIET)
    found = entries(run)
    copies = {name: (run / "raw" / name).read_bytes() for name in found}
    assert {"server.log", "server.log.1", "server.log.2", "nccl_trace_rank0"} < set(copies) and len(copies) == 5
    by_source = {one["source"]: copies[name] for name, one in found.items()}
    assert by_source[f"{logs}/server.log"] == lines(0, 100) + b"HF_TOKEN=[redacted]\nno end"
    assert by_source[f"{logs}/node1/server.log"] == lines(700, 10)
    assert copies["server.log.2"] == lines(600, 5) + b"--api-key [redacted]\n"
    assert copies["nccl_trace_rank0"] == (logs / "nccl_trace_rank0").read_bytes()
    assert "binary" in found["nccl_trace_rank0"]["note"] and all(one["whole"] for one in found.values())
    assert len(kit.open_run(run).frame("log")) > 100
    assert main(["verdict", str(run)]) == 0


def test_patterns_are_of_the_host_and_nothing_else_is_run(logs, tmp_path):
    (logs / "a$(touch gone).log").write_bytes(b"x\n")
    run = pull("local", f"{logs}/server.log*", f"{logs}/a$(touch gone).log", f"{logs}/[a]*.log", out=tmp_path / "run", **QUIET)
    assert {one["source"] for one in manifest_of(run)["captures"]} == {
        *(f"{logs}/server.log{ending}" for ending in ("", ".1", ".2.gz")),
        f"{logs}/a$(touch gone).log",
    }


def test_what_is_not_there_is_said(logs, tmp_path):
    run = pull("local", f"{logs}/server.log", f"{logs}/none*.log", out=tmp_path / "run", **QUIET)
    assert [one["what"] for one in manifest_of(run)["missing"]] == [f"{logs}/none*.log"]
    with pytest.raises(EvidenceError, match="no file at"):
        pull("local", f"{logs}/none", out=tmp_path / "other", **QUIET)
    assert not (tmp_path / "other").exists()


def test_second_pull_goes_on_and_repeats_nothing(logs, tmp_path):
    said: list[str] = []
    log, out = logs / "server.log", tmp_path / "run"
    for _ in range(2):
        pull("local", str(log), f"{logs}/server.log.2.gz", out=out, progress=said.append)
    assert "nothing new" in said[-1]
    with open(log, "ab") as file:
        file.write(b" now\n" + lines(100, 50))
    pull("local", str(log), out=out, progress=said.append)
    expected = lines(0, 100) + b"HF_TOKEN=[redacted]\nno end now\n" + lines(100, 50)
    assert (out / "raw/server.log").read_bytes() == expected and entries(out)["server.log"]["whole"]
    fetched = len(b"no end now\n" + lines(100, 50))
    assert f"{fetched:,} bytes" in said[-1]


def test_log_that_was_rotated_between_two_pulls_is_finished_first(logs, tmp_path):
    log, out = logs / "server.log", tmp_path / "run"
    pull("local", str(log), out=out, **QUIET)
    with open(log, "ab") as file:
        file.write(b"\n" + lines(100, 5))
    log.rename(logs / "server.log.0")
    log.write_bytes(lines(900, 3))
    pull("local", str(log), out=out, **QUIET)
    found = entries(out)
    assert (out / "raw/server.log").read_bytes().endswith(b"no end\n" + lines(100, 5))
    assert "server.log.0" in found["server.log"]["note"]
    [other] = [name for name, one in found.items() if name != "server.log"]
    assert (out / "raw" / other).read_bytes() == lines(900, 3)


def test_log_that_is_another_now_is_said(logs, tmp_path):
    log, out = logs / "server.log", tmp_path / "run"
    pull("local", str(log), out=out, **QUIET)
    log.write_bytes(lines(900, 300))
    pull("local", str(log), out=out, **QUIET)
    first, second = manifest_of(out)["captures"]
    assert not first["whole"] and "another file" in first["note"]
    assert (out / second["file"]).read_bytes() == lines(900, 300)


def test_killed_pull_goes_on_from_what_was_saved(logs, tmp_path, monkeypatch):
    """What was written after the last save is cut off and fetched again."""
    log, out = logs / "server.log", tmp_path / "run"
    whole = lines(0, 200_000)
    log.write_bytes(whole)
    monkeypatch.setattr(pulling, "SAVED_EVERY_S", 0.0)
    real = pulling.blocks

    def broken(file, offset, size):
        for number, block in enumerate(real(file, offset, size)):
            if number == 3:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(pulling, "blocks", broken)
    with pytest.raises(KeyboardInterrupt):
        pull("local", str(log), out=out, **QUIET)
    assert manifest_of(out)["missing"][0]["what"] == str(log) and kit.open_run(out).captures[0].whole is False
    done = manifest_of(out)["captures"][0]["pulled"]
    assert 0 < done["offset"] < 3 << 20
    with open(out / "raw/server.log", "ab") as file:
        file.write(b"written after the last save")
    monkeypatch.setattr(pulling, "blocks", real)
    pull("local", str(log), out=out, **QUIET)
    assert (out / "raw/server.log").read_bytes() == whole
    assert manifest_of(out)["missing"] == [] and entries(out)["server.log"]["whole"]


def test_connection_that_breaks_is_made_again(logs, tmp_path, make_sshd, monkeypatch):
    server = make_sshd()
    log, out = logs / "server.log", tmp_path / "run"
    whole = lines(0, 400_000)
    log.write_bytes(whole)
    monkeypatch.setattr(pulling, "SAVED_EVERY_S", 0.0)
    real, broken = pulling.blocks, []

    def breaks_once(file, offset, size):
        for number, block in enumerate(real(file, offset, size)):
            yield block
            if number == 2 and not broken:
                broken.append(offset)
                server.stop()
                server.start()

    monkeypatch.setattr(pulling, "blocks", breaks_once)
    said: list[str] = []
    pull(server.target, str(log), out=out, progress=said.append, **server.options())
    assert broken and "connecting again" in said[0]
    assert (out / "raw/server.log").read_bytes() == whole and entries(out)["server.log"]["whole"]


def test_host_that_stays_away_says_how_to_go_on(logs, tmp_path, make_sshd, monkeypatch):
    server = make_sshd()
    monkeypatch.setattr(pulling, "PAUSES_S", (0.0,))
    monkeypatch.setattr(pulling.PulledFile, "fetch", lambda self: lost(server))
    with pytest.raises(HostLost, match="same command again"):
        pull(server.target, str(logs / "server.log"), out=tmp_path / "run", **server.options(), **QUIET)
    assert "same command" in manifest_of(tmp_path / "run")["missing"][0]["do"]


def lost(server) -> None:
    server.stop()
    raise HostLost("the host is gone", "its sshd was killed", "connect again")


def test_folder_of_a_recording_or_of_another_host_is_refused(logs, tmp_path):
    out = pull("local", str(logs / "server.log"), out=tmp_path / "run", **QUIET)
    data = manifest_of(out)
    for change in ({"target": "ssh://other"}, {"pulled": False}):
        (out / "run.json").write_text(json.dumps({**data, **change}))
        with pytest.raises(UsageError, match="exists"):
            pull("local", str(logs / "server.log"), out=out, **QUIET)


def test_broken_gzip_is_said(logs, tmp_path):
    packed = logs / "cut.log.gz"
    packed.write_bytes(gzip.compress(lines(0, 5000))[:-20])
    run = tmp_path / "run"
    with pytest.raises(EvidenceError, match="cut.log.gz did not come whole"):
        pull("local", str(packed), out=run, **QUIET)
    assert not entries(run)["cut.log"]["whole"] and (run / "raw/cut.log").read_bytes().startswith(lines(0, 100))


def test_verb(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("kit.cli.live.end_in_order_on_signals", lambda: None)  # those of the tests' own process stay
    assert main(["pull", "local", str(logs / "server.log"), "-o", str(tmp_path / "run")]) == 0
    assert "kit verdict" in capsys.readouterr().out


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_scrubbed_in_pieces_and_becomes_utf8(codec, tmp_path, monkeypatch):
    text = "".join(f"INFO 02-18 02:11:52 [core.py:58] Läufe {number} HF_TOKEN=planted{number:06d}\n" for number in range(3000))
    (tmp_path / "a.log").write_bytes(text.encode(codec))
    monkeypatch.setattr("kit.capture.logs.follow.CHUNK_BYTES", 10_001)  # in the midst of characters and of secrets
    for _ in range(2):
        run = pull("local", str(tmp_path / "a.log"), out=tmp_path / "run", **QUIET)
        copy = (run / "raw/a.log").read_text(encoding="utf-8")
        assert copy.count("HF_TOKEN=[redacted]\n") == 3000 and "planted" not in copy and "Läufe 2999" in copy
    assert len(kit.open_run(run).frame("log")) == 3000
