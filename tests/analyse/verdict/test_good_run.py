"""A launch held against one that worked: what leads the evidence, what is harmless, what can be named."""

from __future__ import annotations

import json

import pytest

import kit
from kit.analyse.verdict.verdict import weigh
from kit.cli import main
from kit.errors import UsageError
from tests.analyse.verdict.rules_good_run import GOOD, begun
from tests.analyse.verdict.scenes import error, line, scene


def test_what_the_good_run_lacks_leads_the_evidence(capsys) -> None:
    bad, good = kit.sample_path("no-weights"), kit.sample_path("healthy-tp2")
    found = kit.verdict(bad, against=good)
    claims = [entry["claim"] for entry in found.evidence]
    assert claims[0] == "unlike healthy-tp2, which worked: load_format auto (there dummy), tp_size 1 (there 2)"
    assert claims[1].startswith("after “Starting to load model")
    assert (
        found.remedy is not None
        and found.remedy["do"] == "set back one at a time, and launch again: load_format dummy, tp_size 2"
    )
    assert main(["verdict", str(bad), "--against", "library", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"][0]["claim"].startswith("unlike ")


def test_an_error_that_the_good_run_printed_too_is_no_cause() -> None:
    noise = error("exception", "RuntimeError: cannot open plugin 7")
    assert weigh(scene(*begun(), noise)).klass == "worker_crashed"
    held = weigh(scene(*begun(), noise, good=(*begun(), error("exception", "RuntimeError: cannot open plugin 3", at=5), *GOOD)))
    assert held.klass != "worker_crashed" and held.facts.value("first_error") is None
    assert any("printed by good too, which worked" in entry["claim"] for entry in held.findings)


def test_the_pace_of_the_good_run_is_the_measure() -> None:
    """The same silence is slow where the good run took as long, and a stall where it was through long before."""
    fast = (*begun(), line("weights_end", phase="post_load", at=40), line("ready", phase="ready", at=50))
    slow = (*begun(), line("weights_end", phase="post_load", at=9000), line("ready", phase="ready", at=9100))
    shares = [
        {found.name: found.share for found in weigh(scene(*begun(), good=good)).hypotheses}["slow_weights"]
        for good in (fast, slow)
    ]
    assert shares[1] > 2 * shares[0]


def test_a_launch_that_did_not_work_is_no_measure() -> None:
    with pytest.raises(UsageError, match="no-weights did not work"):
        kit.verdict(kit.sample_path("healthy-tp2"), against=kit.sample_path("no-weights"))
