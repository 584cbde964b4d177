"""Belief means what it says: the fit of its temperature, how it compares with truth, two classes that share it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.analyse.verdict.hypotheses import RIVAL
from kit.analyse.verdict.thresholds import thresholds
from kit.document.text import render
from tools import fit_belief
from tools.fit_belief import Judged, Named, fit, held_out, named, reliability

CASES = Path(__file__).resolve().parents[2] / "data" / "cases"


def drawn(temperature: float, count: int, report: str = "report {}") -> list[Judged]:
    """Cases whose right class was drawn by the belief at a temperature."""
    draw = np.random.default_rng(7)
    cases = []
    for number in range(count):
        scores = draw.normal(0, 2, 6)
        right = draw.choice(6, p=fit_belief.shares(scores, temperature))
        cases.append(Judged(report.format(number), scores, np.arange(6) == right, 5, np.zeros(6, bool)))
    return cases


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_fit_finds_the_temperature_that_the_truth_was_drawn_with(temperature: float) -> None:
    assert fit(drawn(temperature, 2000)) == pytest.approx(temperature, rel=0.1)


def test_a_case_is_judged_by_a_fit_without_its_report() -> None:
    """Ten reports are ten folds; all copies of a case have the temperature of the other nine."""
    cases = [case for number in range(10) for case in drawn(0.5 + number / 5, 30, f"report {number}")]
    apart = held_out(cases).reshape(10, 30)
    assert (apart == apart[:, :1]).all() and len(set(apart[:, 0])) == 10
    assert apart[3, 0] == fit([case for case in cases if case.report != "report 3"])


def test_reliability_by_hand() -> None:
    rows = [Named(0.9, True, 1.0, True), Named(0.9, False, 1.0, True), Named(0.5, True, 2.0, False)]
    error, brier, lines = reliability(rows)
    assert error == pytest.approx((0.8 + 1.0) / 4) and brier == pytest.approx((0.01 + 0.81 + 2 * 0.25) / 4)
    assert len(lines) == 2 and "mean 0.90, right 0.50" in lines[1]


def test_a_withheld_sign_takes_its_weight_from_each_class() -> None:
    case = CASES / "given" / "vl05" / "case.json"
    whole, *withheld = fit_belief.judged(case)
    assert whole.whole and withheld and not any(copy.whole for copy in withheld)
    assert sum(copy.weight for copy in withheld) == pytest.approx(1, abs=0.01)
    top = whole.scores.argmax()
    assert all(whole.scores[top] - copy.scores[top] >= fit_belief.CARRYING for copy in withheld)
    assert whole.right[top], "the class that is right for it"


def test_belief_is_calibrated_on_the_first_cases() -> None:
    limits = thresholds()
    cases = [fit_belief.judged(path)[0] for path in sorted((CASES / "given").glob("*/case.json"))]
    rows = named(cases, [limits["temperature"]] * len(cases), limits["least_share"], limits["least_good_share"])
    sure = [row.belief for row in rows if row.certain and row.right]
    assert len(rows) >= 26 and reliability(rows)[0] <= 0.10 and np.mean(sure) >= 0.80


def test_belief_is_calibrated_on_reports_that_nobody_had_mended_it_for() -> None:
    limits, looks = thresholds(), fit_belief.first_looks()
    rows = named(looks, [limits["temperature"]] * len(looks), limits["least_share"], limits["least_good_share"])
    assert len(looks) > 80 and len(rows) > 0.6 * len(looks)
    assert any(not row.right for row in rows) and reliability(rows)[0] <= 0.10


def test_two_classes_that_share_the_belief_are_both_named(case_folder) -> None:
    verdict = case_folder("lookalikes/m01")
    assert verdict.klass == "slow_compile" and verdict.rival.name == "rank_straggler"
    assert verdict.rival.share >= RIVAL * verdict.confidence
    assert verdict.next[0]["separates"] == ["slow_compile", "rank_straggler"]
    text = render(verdict.document())
    assert "(rank_straggler) is likely too" in text and f"what parts them: {verdict.next[0]['what']}" in text
    assert "is likely too" in render(verdict.document(brief=True))


def test_a_class_that_leads_alone_has_no_rival(case_folder) -> None:
    verdict = case_folder("given/vl05")
    assert verdict.rival is None and "is likely too" not in render(verdict.document())
    weights = [verdict.hypothesis.klass.weight(entry["sign"]) for entry in verdict.evidence]
    assert weights == sorted(weights, reverse=True) and len(set(weights)) > 1, "what carries most comes first"


@pytest.fixture
def case_folder():
    """Verdict on a case by its name."""

    def judged(name: str) -> kit.Verdict:
        want = json.loads((CASES / name / "case.json").read_text(encoding="utf-8"))
        return kit.verdict(CASES / name, captured_at=want.get("captured_at"))

    return judged
