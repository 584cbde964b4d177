"""The bundled runs read as they were planted: state, class and ranks, from the run folder alone."""

from __future__ import annotations

import pytest

import kit
from kit.samples import DATA, sample_names, sample_path
from kit.store import checksum

PLANTED = {
    "healthy-tp2": ("ready", "ready", []),
    "compile": ("progressing", "slow_compile", []),
    "stopped-rank": ("stalled", "rank_straggler", [1]),
    "pipe-ticker": ("stalled", "rank_straggler", [0]),
    "port-taken": ("failed", "port_in_use", []),
    "no-weights": ("failed", "worker_crashed", []),
    "log-lost": ("ready", "log_lost_server_ready", []),
    "sg01-capture-hang": ("stalled", "device_hang", []),
    "sg02-one-snapshot": ("unknown", "undetermined", []),
}


LAUNCHES = sorted((DATA / "launches").iterdir())


def test_every_bundled_run_is_expected_here() -> None:
    assert set(sample_names()) == set(PLANTED)


@pytest.mark.parametrize(("name", "want"), PLANTED.items(), ids=PLANTED)
def test_verdict(name: str, want: tuple) -> None:
    found = kit.verdict(kit.sample(name))
    assert (found.state, found.klass, found.ranks) == want


@pytest.mark.parametrize("path", [*map(sample_path, PLANTED), *LAUNCHES], ids=lambda path: path.name)
def test_captures_are_as_they_were_taken(path) -> None:
    run = kit.open_run(path)
    changed = [capture.file for capture in run.captures if capture.sha256 and checksum(capture.path) != capture.sha256]
    assert not changed
    assert not [capture.file for capture in run.captures if capture.kind is None and capture.path.stat().st_size]


def test_launches_with_and_without_compiling_are_ready_and_recorded_in_turn() -> None:
    runs = sorted(map(kit.open_run, LAUNCHES), key=lambda run: run.launch_zero_ns)
    assert "".join(run.name[0] for run in runs) == "ecceecceec"
    assert {kit.verdict(run).state for run in runs} == {"ready"}


def test_first_episode_refutes_the_first_guess_by_two_facts() -> None:
    found = kit.verdict(kit.sample("sg01-capture-hang"))
    guess = next(h for h in found.hypotheses if h.name == "log_lost_server_ready")
    assert guess in found.shown()
    assert {sign.code for sign, _, _ in guess.opposing} >= {"port_closed", "gpu_busy_low_power"}
    assert "refuted" in str(found)
    assert "attention-backend" in found.remedy["do"]


def test_second_episode_asks_for_a_second_sample() -> None:
    found = kit.verdict(kit.sample("sg02-one-snapshot"))
    assert found.next[0]["what"] == "second sample"
    assert "two can" in found.next[0]["why"]


def test_memory_is_not_summed_over_ranks() -> None:
    found = kit.verdict(kit.sample("sg01-capture-hang"))
    parts = [found.facts.value(name) for name in ("rss_anon_kb", "rss_file_kb", "rss_shmem_kb")]
    assert sum(parts) == pytest.approx(found.facts.value("rss_kb"), rel=1e-3)
    assert found.facts.value("rss_kb") == 256_901_120
    assert "not a sum over ranks" in str(found)
