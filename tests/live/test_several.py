"""Several hosts looked at from one machine over a real sshd: a dead one is said, and holds nobody up."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import pytest

from kit.analyse.fleet import fleet
from kit.capture.collect import collect_from
from kit.capture.hosts.targets import open_host
from kit.capture.options import Connection, Options
from kit.errors import EvidenceError
from kit.live.options import TriageOptions
from kit.live.several import WatchEach, triage_each
from kit.open import open_run
from tests.live.launches import OwnTime, stalling
from tests.live.test_watch import launched
from tests.sshd import free_port, wait_for

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="local recording reads /proc"),
    pytest.mark.usefixtures("quiet_kernel_log"),
    pytest.mark.needs_tool("sshd"),
]
DEAD = "127.0.0.1-3"


def targets(sshd) -> list[str]:
    """Two hosts that live, and one that is not there."""
    return [sshd.target, sshd.target, f"ssh://127.0.0.1:{free_port()}"]


def looking() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("look ", "record "))]


def test_a_triage_of_several_says_the_dead_one_and_answers_for_the_others(sshd, tmp_path: Path) -> None:
    said: list[str] = []
    with launched(stalling(tmp_path / "launch"), tmp_path / "launch.log") as process:
        found = triage_each(
            targets(sshd),
            launch={"pid": process.pid, "clock": OwnTime()},
            out=tmp_path / "out",
            options=TriageOptions(limit_s=12.0),
            connection=Connection(**sshd.options()),
            progress=said.append,
        )
    by_name = {host.host: host for host in found.fleet.hosts}
    assert [name for name, host in by_name.items() if host.error] == [DEAD]
    assert "cannot be reached: nothing listens there" in by_name[DEAD].error
    assert all(by_name[name].verdict["facts"]["world_size"] == 2 for name in ("127.0.0.1", "127.0.0.1-2"))
    assert {text.split(": ")[0] for text in said} >= {"127.0.0.1", "127.0.0.1-2"}
    assert {host.host for host in fleet(tmp_path / "out").read} == {"127.0.0.1", "127.0.0.1-2"}
    assert wait_for(lambda: not looking()) and not sshd.children()


def test_a_triage_that_does_not_answer_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr("kit.live.several.triage", lambda target, **how: never.wait())
    options = TriageOptions(limit_s=5.0)
    more = {"options": options, "connection": Connection(), "progress": print, "grace_s": -4.9}
    found = triage_each(["ssh://a", "ssh://b"], launch={}, **more)
    never.set()
    assert found.answer() == "none of the 2 hosts could be read"
    assert [host.error for host in found.fleet.hosts] == ["it did not answer within 0 s"] * 2


def test_a_watch_of_several_goes_on_without_the_dead_one(sshd, tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    with launched(stalling(tmp_path / "launch"), tmp_path / "launch.log") as process:
        say = lambda *words: said.append(words)  # noqa: E731
        how = {"launch": {"pid": process.pid, "clock": OwnTime()}, "say": say, "connection": Connection(**sshd.options())}
        live = WatchEach(targets(sshd), **how)
        seen: set[str] = set()
        for name, board in live.boards():
            assert {row["pid"] for row in board.rows}
            seen.add(name)
            if len(seen) == 2:
                live.stop()
    assert seen == {"127.0.0.1", "127.0.0.1-2"}
    assert [name for name, text in said if "not watched" in text] == [DEAD]
    assert "nothing listens there" in live.shown[DEAD] and live.shown["127.0.0.1"].rows
    assert wait_for(lambda: not looking()) and not sshd.children()


def test_a_recording_of_several_hosts_lacks_the_dead_one(sshd, tmp_path: Path) -> None:
    with launched(stalling(tmp_path / "launch"), tmp_path / "launch.log") as process:
        hosts = [open_host(target, **sshd.options()) for target in targets(sshd)]
        run = open_run(collect_from(hosts, tmp_path / "run", Options(1.0, 0.5), process.pid))
    assert {row["host_name"] for row in run.rows("processes") if row["tool"] == "sampler"} == {"127.0.0.1", "127.0.0.1-2"}
    assert [one["what"] for one in run.missing if DEAD in one["what"]] == [f"the evidence of {DEAD}"]
    with pytest.raises(EvidenceError):
        dead = [open_host(f"ssh://127.0.0.1:{free_port()}", **sshd.options()) for _ in range(2)]
        collect_from(dead, tmp_path / "none", Options(1.0, 0.5), 1)
    assert not (tmp_path / "none").exists() and not looking()


def test_a_host_that_accepts_and_never_answers_holds_no_recording_up(sshd, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as silent, launched(stalling(tmp_path / "launch"), tmp_path / "log") as process:
        dead = f"ssh://127.0.0.1:{silent.getsockname()[1]}"
        hosts = [open_host(target, **sshd.options()) for target in (dead, sshd.target, sshd.target)]

        def both_sampled() -> bool:
            raw = [run / name / "raw" / "sampler.jsonl" for name in ("127.0.0.1-2", "127.0.0.1-3")]
            return all(path.exists() and b'"k":"done"' in path.read_bytes() for path in raw)

        collect_from(hosts, run, Options(600.0, 0.5), process.pid, until=both_sampled)
    manifest = json.loads((run / "run.json").read_text())
    assert [host["name"] for host in manifest["hosts"]] == ["127.0.0.1-2", "127.0.0.1-3"]
    assert [(one["what"], "the recording ended before" in one["why"]) for one in manifest["missing"]] == [
        ("the evidence of 127.0.0.1", True)
    ], "it was still asked when both others had been sampled"
    assert wait_for(lambda: not looking()) and not sshd.children()
