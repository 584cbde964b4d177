"""Launches of many hosts: the odd one is named, on Dask's workers, of which one dies, as on one machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kit
from kit.analyse import fleet as fleets
from kit.analyse.fleet import Fleet, HostFacts, hosts_of, odd_host
from kit.cli import main
from tests.sshd import READY_S

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fleet import cluster, launch

ODD = "node-03"


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A launch of four hosts, a rank stopped on one; one run is damaged, and one in a file."""
    folder = tmp_path_factory.mktemp("fleet") / "launch"
    launch(folder, 4, odd=3)
    for path in (folder / "node-01" / "raw").iterdir():
        path.unlink()
    for name in ("node-00", "node-02"):
        (folder / name / "raw" / "curl.t0.txt").write_text("")
    return folder


@pytest.fixture(scope="module")
def here(four: Path) -> Fleet:
    """Read on this machine."""
    return kit.fleet(four)


def test_the_odd_host_is_the_first_line_and_a_damaged_one_is_said(here: Fleet, four: Path, capsys) -> None:
    found = here.verdict()
    first = f"{ODD} is the odd host of 4, rank 1: a rank's process is stopped (rank_straggler, 100 %)"
    assert str(found).splitlines()[0] == first
    assert found.how == "the others, 2 of 3: one rank is behind (rank_straggler)"
    assert "node-01 could not be read: no evidence in" in str(found)
    assert "node-00 and 1 more: raw/curl.t0.txt is empty" in str(found)
    own = kit.verdict(four / ODD)
    assert (found.odd.verdict["class"], found.odd.verdict["ranks"]) == (own.klass, own.ranks)
    assert any(f"{ODD}/raw/" in line for line in str(found).splitlines())


def test_clocks_are_one_and_nothing_of_hosts_is_mixed(here: Fleet) -> None:
    progress = {host.progress_ns for host in here.read}
    assert max(progress) - min(progress) < fleets.NS  # their clocks are up to six seconds apart
    series = here.series()
    assert series.groupby("host").size().nunique() == 1 and series["host"].nunique() == 3
    assert series.groupby("host")["rss_bytes"].max().nunique() == 1


def test_workers_give_the_same_answer_though_one_is_killed(
    here: Fleet, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_host = {host.host: host for host in here.hosts}
    with cluster(tmp_path, 2) as (address, workers):
        there = kit.fleet(four, address, progress=lambda facts: workers[0].kill())
        assert there.verdict().to_dict() == here.verdict().to_dict()
        assert workers[0].wait(READY_S) and there.remarks == []
        monkeypatch.setattr(fleets, "_fitting", lambda client, remarks: (["tcp://127.0.0.1:9"], ["of another version"]))
        monkeypatch.setattr(fleets, "read_host", lambda name, *more: by_host[name])
        monkeypatch.setattr(fleets, "LOST_S", 0.0)
        alone = kit.fleet(four, address)
        assert alone.remarks == ["all workers are gone, so this machine read the last 4 hosts"], "the other worker does not fit"
        assert alone.verdict().to_dict() | {"remarks": []} == here.verdict().to_dict()


def test_no_scheduler_is_said_and_this_machine_answers(
    here: Fleet, four: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(fleets, "CONNECT_S", 0.3)
    by_host = {host.host: host for host in here.hosts}
    monkeypatch.setattr(fleets, "read_host", lambda name, *more: by_host[name])
    assert main(["verdict", str(four), "--scheduler", "tcp://127.0.0.1:9"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{ODD} is the odd host of 4")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9, so this machine read the hosts" in said
    assert isinstance(kit.open_run(four, scheduler="tcp://127.0.0.1:9"), Fleet)


def test_workers_of_another_version_take_no_part() -> None:
    class Client:
        def wait_for_workers(self, count: int, timeout: float) -> None: ...

        def run(self, function, on_error: str) -> dict:
            return {"tcp://a": kit.__version__, "tcp://b": "0.0.1", "tcp://c": ModuleNotFoundError("kit")}

    remarks: list[str] = []
    assert fleets._fitting(Client(), remarks) == (["tcp://a"], ["tcp://b", "tcp://c"])
    assert remarks == [f"2 of 3 workers took no part: they have 0.0.1, no stallkit, not stallkit {kit.__version__}"]


def facts(
    name: str, klass: str = "collective_hang", progress_s: int = 100, cpu_s: float = 10.0, state: str = "stalled"
) -> HostFacts:
    told = {"state": state, "phase": "weights", "class": klass, "plain": klass, "ranks": [], "confidence": 0.9}
    return HostFacts(name, name, verdict=told, progress_ns=progress_s * fleets.NS, cpu_s=cpu_s)


@pytest.mark.parametrize(
    ("odd", "how"),
    [
        ({"klass": "gpu_oom", "state": "failed"}, "the others, 7 of 8: collective_hang (collective_hang)"),
        ({"progress_s": 10}, "its last progress was 90 s before that of the others"),
        ({"cpu_s": 1.0}, "its CPU time is 10 % of that of the median host"),
        ({}, ""),
    ],
)
def test_what_makes_a_host_odd(odd: dict, how: str) -> None:
    hosts = [facts(f"h{number}", **(odd if number == 5 else {})) for number in range(8)]
    found, said = odd_host(hosts)
    assert (found.host if found else None, said) == ("h5" if odd else None, how)


def test_a_folder_without_hosts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(kit.KitError, match="no hosts in"):
        hosts_of(tmp_path)
    (tmp_path / "run.json").write_text('{"hosts": [{"name": "../elsewhere"}, {"name": 7}]}')
    with pytest.raises(kit.KitError, match="no hosts in"):
        kit.fleet(tmp_path)
