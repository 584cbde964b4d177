"""Fit the temperature of belief to first looks: `python -m tools.fit_belief [--write] [--outside FOLDER ...]`.

The weights of the classes are log-odds by hand, which is the prior: temperature 1. One temperature divides all scores, so the
order of the classes stays. More did not pay: a shrink by the number of sources or of signs gained 0.2 or 2.6 of 253 in
log-likelihood, and an offset for `undetermined` would change which classes are named. Weights fitted to the looks, drawn to those
by hand, are worse on the tenth that was left out: at any strength Brier's score rises from 0.104, and more is named wrongly.

The weights were set with the repository's cases at hand, so each of them gets the right class, and a fit to them would claim
certainty: belief was 0.9 where 0.8 were right. So the fit is to first looks (first_looks.json): which signs the kit of that
hour gave on public reports before anybody had mended it for them, and which classes are right. The weights are those of now.

The cases are judged beside it, as they are and with each sign that carries the class withheld in turn, as if no grammar had
read it: the copies of a case weigh together as much as the case.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

import kit
from kit.analyse.verdict.classes import UNDETERMINED, classes
from kit.analyse.verdict.thresholds import thresholds

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "data" / "cases"
FIRST_LOOKS = ROOT / "tools" / "first_looks.json"
THRESHOLDS = ROOT / "kit" / "knowledge" / "thresholds.toml"
SPREAD = 0.5
"""Standard deviation of the prior of log(temperature): hand-set log-odds are hardly off by more than a factor of e."""
FOLDS = 10
CARRYING = 1.0
"""Weight from which a sign carries a class (classes.toml: 1 a hint)."""


@dataclass(frozen=True)
class Judged:
    """Score of each class on some evidence, which classes are right, which one `undetermined` is."""

    report: str
    scores: np.ndarray
    right: np.ndarray
    undetermined: int
    good: np.ndarray
    weight: float = 1.0
    certain: bool = False

    @property
    def whole(self) -> bool:
        """No sign is withheld."""
        return self.weight == 1.0


def judged(case: Path) -> list[Judged]:
    """A case as it is, and with each carrying sign withheld."""
    want = json.loads(case.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(case.parent, Path(folder) / "evidence", ignore=shutil.ignore_patterns("case.json"))
        verdict = kit.verdict(copy, captured_at=want.get("captured_at"))
    hypotheses = sorted(verdict.hypotheses, key=lambda hypothesis: hypothesis.name)
    right = {want["expected_class"], *want.get("acceptable_classes", [])}
    scores = np.array([hypothesis.score for hypothesis in hypotheses])
    undetermined = [hypothesis.name for hypothesis in hypotheses].index(UNDETERMINED)
    top = hypotheses[int(scores.argmax())]
    carrying = [code for code in verdict.signs if top.klass.weight(code) >= CARRYING]
    withheld = [scores - [hypothesis.klass.weight(code) for hypothesis in hypotheses] for code in carrying]
    common = {
        # a case and another of the same software and cause may tell of one report
        "report": f"{want['system']} {want['version']} {want['expected_class']}",
        "right": np.array([hypothesis.name in right for hypothesis in hypotheses]),
        "undetermined": undetermined,
        "good": np.array([hypothesis.klass.state in ("ready", "progressing") for hypothesis in hypotheses]),
    }
    whole = Judged(scores=spoken_for(scores, undetermined), certain=want.get("evidence_strength") == "certain", **common)
    return [whole, *(Judged(scores=spoken_for(left, undetermined), weight=0.999 / len(withheld), **common) for left in withheld)]


def spoken_for(scores: np.ndarray, undetermined: int) -> np.ndarray:
    """Scores without those of classes for which nothing speaks, as `kit.analyse.verdict.hypotheses.judge` leaves them out."""
    kept = np.where(scores >= thresholds()["least_score"], scores, -np.inf)
    kept[undetermined] = scores[undetermined]
    return kept


def first_looks() -> list[Judged]:
    """What the kit saw in reports of others before it was mended for them, by the weights of now."""
    known = [entry for _, entry in sorted(classes().items())]
    names = [entry.name for entry in known]
    found = []
    for number, look in enumerate(json.loads(FIRST_LOOKS.read_text(encoding="utf-8"))):
        scores = np.array([entry.prior + sum(entry.weight(code) for code in look["signs"]) for entry in known])
        found.append(
            Judged(
                report=f"set {look['set']}, {number}",
                scores=spoken_for(scores, names.index(UNDETERMINED)),
                right=np.array([name in look["right"] for name in names]),
                undetermined=names.index(UNDETERMINED),
                good=np.array([entry.state in ("ready", "progressing") for entry in known]),
                certain=look["certain"],
            )
        )
    return found


def shares(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Share of belief of each class, as `kit.analyse.verdict.hypotheses.judge` takes it."""
    odds = np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature)
    return odds / odds.sum(axis=-1, keepdims=True)


def fit(cases: Sequence[Judged]) -> float:
    """The likeliest temperature; a case speaks by the belief in the classes that are right for it."""
    scores, right = np.array([case.scores for case in cases]), np.array([case.right for case in cases])
    weights = np.array([case.weight for case in cases])

    def loss(log_temperature: float) -> float:
        believed = (shares(scores, np.exp(log_temperature)) * right).sum(axis=1)
        return -weights @ np.log(believed + 1e-12) + 0.5 * (log_temperature / SPREAD) ** 2

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def held_out(cases: Sequence[Judged]) -> np.ndarray:
    """Temperature for each case, fitted without its report."""
    reports = sorted({case.report for case in cases})
    fold = {report: number % FOLDS for number, report in enumerate(reports)}
    fitted = [fit([case for case in cases if fold[case.report] != number]) for number in range(FOLDS)]
    return np.array([fitted[fold[case.report]] for case in cases])


@dataclass(frozen=True)
class Named:
    """A class that was named: belief, whether it is right, what it weighs in an average, whether the evidence is certain."""

    belief: float
    right: bool
    weight: float
    certain: bool


def named(cases: Iterable[Judged], temperatures: Iterable[float], least: float, least_good: float) -> list[Named]:
    """What would be named at these temperatures."""
    rows = []
    for case, temperature in zip(cases, temperatures, strict=True):
        share = shares(case.scores, temperature)
        top = int(share.argmax())
        if top != case.undetermined and share[top] >= (least_good if case.good[top] else least):
            rows.append(Named(float(share[top]), bool(case.right[top]), case.weight, case.certain))
    return rows


def reliability(rows: Sequence[Named]) -> tuple[float, float, list[str]]:
    """Calibration error, Brier score, and a line for each fifth of belief."""
    belief, right, weight = (np.array([getattr(row, name) for row in rows], float) for name in ("belief", "right", "weight"))
    fifth = np.minimum((belief * 5).astype(int), 4)
    error, lines = 0.0, []
    for number in range(5):
        of = fifth == number
        if of.any():
            error += abs(weight[of] @ (belief - right)[of])
            said, true = (np.average(values[of], weights=weight[of]) for values in (belief, right))
            lines.append(
                f"  belief {number / 5:.1f} to {(number + 1) / 5:.1f}: {of.sum():3} named, mean {said:.2f}, right {true:.2f}"
            )
    return error / weight.sum(), float(np.average((belief - right) ** 2, weights=weight)), lines


def tell(title: str, rows: Sequence[Named]) -> None:
    """Print how belief compares with truth."""
    if not rows:
        print(f"{title}: no class named")
        return
    error, brier, lines = reliability(rows)
    sure = [row.belief for row in rows if row.certain and row.right]
    print(f"{title}: {len(rows)} named, {sum(row.right for row in rows)} right, calibration error {error:.3f}, Brier {brier:.3f}")
    print(*lines, *([f"  mean belief where certain and right: {np.mean(sure):.2f}"] if sure else []), sep="\n")


def write(temperature: float, looks: int) -> None:
    """Put the temperature into thresholds.toml, with the day and what it was fitted to."""
    text = THRESHOLDS.read_text(encoding="utf-8")
    entry = re.compile(r'(name = "temperature"\nvalue = )[\d.]+(.*?fitted )[^"]*', re.DOTALL)
    told = f"{datetime.date.today()} to {looks} first looks at reports of others by tools/fit_belief.py"
    changed, count = entry.subn(lambda match: f"{match[1]}{temperature:.2f}{match[2]}{told}", text, count=1)
    if not count:
        raise SystemExit(f"{THRESHOLDS} has no fitted temperature")
    THRESHOLDS.write_text(changed, encoding="utf-8")


def main() -> None:
    """Fit and print; `--write` keeps the result."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--write", action="store_true", help="write the temperature to kit/knowledge/thresholds.toml")
    ask.add_argument("--outside", type=Path, nargs="*", default=[], help="folders of cases that are judged and not fitted to")
    args = ask.parse_args()
    limits = thresholds()
    least = limits["least_share"], limits["least_good_share"]
    looks = first_looks()
    temperature, apart = fit(looks), held_out(looks)
    print(
        f"{len(looks)} first looks; temperature {temperature:.3f}, without a tenth of them {apart.min():.3f} to {apart.max():.3f}"
    )
    print(f"in use: {limits['temperature']:g}; thresholds for naming {least[0]:g} (trouble), {least[1]:g} (what needs no hand)\n")
    copies = [copy for case in sorted(CASES.glob("*/*/case.json")) for copy in judged(case)]
    whole, withheld = ([copy for copy in copies if copy.whole is chosen] for chosen in (True, False))
    for when, one in (("unfitted (1)", 1.0), ("in use", limits["temperature"]), ("inside the fit", temperature)):
        for title, of in (("first looks", looks), ("cases as they are", whole), ("cases with a sign withheld", withheld)):
            tell(f"{title}, {when}", named(of, [one] * len(of), *least))
    tell("first looks, outside the fit", named(looks, apart, *least))
    for folder in args.outside:
        cases = [judged(case)[0] for case in sorted(folder.glob("*/case.json"))]
        tell(f"{folder.name}, outside the fit", named(cases, [temperature] * len(cases), *least))
    if args.write:
        write(temperature, len(looks))


if __name__ == "__main__":
    main()
